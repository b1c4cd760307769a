//! `hxh-sink`: delivers packets in the order of their numbers, confirms each to the node before,
//! tells the source what is missing (HxH thesis 2, 3.2; Behaviour 10.6, 10.7).
//!
//! A packet that bears LH is confirmed by a last-hop ACK, duplicates too. One beyond a gap starts a
//! timer, upon which a NACK lists all that is missing below the highest number, and again for as
//! long as data come. A request is answered at once, and so is the end of the data. Answers say for
//! how many packets there is room; what finds none is dropped and not confirmed.

use std::collections::VecDeque;
use wifu_engine::board::RxFacts;
use wifu_engine::component::Cx;
use wifu_engine::kit::hop::{CREDITS, LH, PACK, TYPE};
use wifu_engine::signal::Arrived;
use wifu_engine::{
    Admit, Arrival, Board, Component, Descriptor, Facts, FieldUse, Kind, Out, ParamSpec, Params,
    Role, Segment, Signal, Want, WordSpec,
};
use wifu_wire::{Head, HeadField, Seq, Span, Time, Word, hxh};

/// See the module.
pub static HXH_SINK: Descriptor = Descriptor {
    name: "hxh-sink",
    role: Role::Receive,
    doc: "Delivers packets in order; last-hop ACKs, lists of what is missing, answers to requests.",
    cites: &[
        "HxH thesis 2",
        "HxH thesis 3.2",
        "Behaviour 10.6",
        "Behaviour 10.7",
    ],
    params: &[
        ParamSpec::span(
            "nack_wait",
            Span(50_000_000),
            Span(0),
            Span(10_000_000_000),
            "From a gap to the list that names it.",
        ),
        ParamSpec::span(
            "nack_again",
            Span(200_000_000),
            Span(1_000_000),
            Span(10_000_000_000),
            "From one list to the next while something is missing and data come.",
        ),
        ParamSpec::text(
            "nack_list",
            "all",
            &["all", "lowest"],
            "What a list names: all that is missing (HxH thesis 3.2), or the lowest number alone \
             (thesis 2).",
        ),
    ],
    words: &[
        TYPE,
        PACK.written(),
        CREDITS.written(),
        LH.read(),
        WordSpec::new("ackreq", 1).read(),
        WordSpec::new("last", 1).read(),
    ],
    probes: &["last_hop_acks", "nacks", "acks", "refused", "missing"],
    reads: Facts::CONN,
    wants: Facts::TX,
    writes: Facts::RX,
    hears: &[
        ("segment", &["arrived"]),
        ("timer", &[]),
        ("opened", &[]),
        ("read", &[]),
    ],
    offers: &[Kind::Urgent, Kind::Ack],
    needs: &[("store", &["records"])],
    hooks: &["segment"],
    fields: &[
        FieldUse::of(HeadField::Seq),
        FieldUse::of(HeadField::Ack),
        FieldUse::of(HeadField::Ranges),
        FieldUse::of(HeadField::Ts),
        FieldUse::of(HeadField::TsEcho),
    ],
    build: |p| Ok(Box::new(HxhSink::new(p))),
    ..Descriptor::EMPTY
};

/// Last-hop ACKs that wait for room in the device: more than any node before keeps packets for.
const OWED: usize = 4_096;

/// The answer that is due.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    Nothing,
    Nack,
    Ack,
}

struct HxhSink {
    /// type, pack, credits, lh, ackreq, last.
    words: [Word; 6],
    wait: Span,
    repeat: Span,
    lowest: bool,
    /// Numbers to confirm.
    owed: VecDeque<Seq>,
    /// Number of the last packet.
    last: Option<Seq>,
    /// The latest timestamp that came.
    ts: Option<u32>,
    due: Due,
    /// When the next list is due, while something is missing.
    list_at: Time,
    /// Data came since the last list.
    fresh: bool,
    /// There was no room for a packet.
    refused: bool,
    /// Last-hop ACKs, NACKs, ACKs, refused.
    counts: [u32; 4],
    missing: u32,
}

impl HxhSink {
    fn new(p: &Params<'_>) -> HxhSink {
        let words = ["type", "pack", "credits", "lh", "ackreq", "last"];
        HxhSink {
            words: words.map(|w| p.word(w)),
            wait: p.span("nack_wait"),
            repeat: p.span("nack_again"),
            lowest: p.text("nack_list") == "lowest",
            owed: VecDeque::new(),
            last: None,
            ts: None,
            due: Due::Nothing,
            list_at: Time::NEVER,
            fresh: false,
            refused: false,
            counts: [0; 4],
            missing: 0,
        }
    }

    /// Something is missing below the highest number that came.
    fn gap(cx: &Cx<'_>) -> bool {
        let inbox = cx.store.inbox();
        inbox.is_some_and(|i| i.next().before(i.top()))
    }

    /// Packets that there is room for.
    fn room(cx: &Cx<'_>) -> u32 {
        (cx.store.window() / cx.board.conn.mss.max(1)).min(u32::from(u16::MAX))
    }

    fn on_data(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        let [_, _, _, lh, ackreq, last] = self.words.map(|w| seg.head.get(w));
        let number = seg.head.seq;
        // Of those that come twice the later copy may be the older one.
        if let Some(ts) = seg.head.ts {
            let newer = |old: u32| (ts.wrapping_sub(old) as i32) > 0;
            self.ts = Some(self.ts.filter(|old| !newer(*old)).unwrap_or(ts));
        }
        self.fresh = true;
        if ackreq == 1 {
            self.due = Due::Ack;
        }
        let accepted = cx.store.accept(number, seg.payload);
        // Once all is delivered the store may be gone.
        if accepted.is_none() && !number.before(cx.board.rx.nxt) {
            self.refused = true;
            self.counts[3] += 1;
            return;
        }
        if lh == 1 && self.owed.len() < OWED {
            self.owed.push_back(number);
        }
        if last == 1 {
            self.last = Some(number);
        }
        let (order, gap, advanced) = match accepted {
            Some(a) => (a.order, a.gap, a.advanced),
            None => (Arrival::Duplicate, 0, 0),
        };
        if advanced > 0 && cx.board.app.gone {
            cx.store.discard();
        }
        let window = cx.store.window();
        cx.write(|r: &mut RxFacts| (r.nxt, r.window) = (r.nxt.plus(advanced), window));
        let fin = self.ends(cx);
        //= spec#10.7
        // "gap detected (seq > highest+1) -> start 50 ms timer"
        if !Self::gap(cx) {
            self.list_in(None, cx);
        } else if gap > 0 || !cx.out.armed(0) {
            self.list_in(Some(self.wait.max(Span(1))), cx);
        }
        cx.out.emit(Signal::Arrived(Arrived {
            seq: number,
            bytes: seg.payload.len() as u32,
            gap,
            order,
            fin,
            ce: false,
        }));
    }

    /// The next list is due after so long at the latest; `None`: nothing is missing.
    fn list_in(&mut self, wait: Option<Span>, cx: &mut Cx<'_>) {
        let Some(wait) = wait else {
            self.list_at = Time::NEVER;
            return cx.out.disarm(0);
        };
        self.list_at = self.list_at.min(cx.now + wait);
        cx.out.arm(0, self.list_at);
    }

    /// Whether the last packet was just delivered; the source learns of it at once.
    //= spec#10.7
    // "Destination also sends ACK when LAST and everything before it have arrived."
    fn ends(&mut self, cx: &mut Cx<'_>) -> bool {
        let ends = !cx.board.rx.fin && self.last.is_some_and(|l| cx.board.rx.nxt == l.plus(1));
        if ends {
            self.due = Due::Ack;
            cx.write(|r: &mut RxFacts| r.fin = true);
        }
        ends
    }

    /// Ranges of numbers that are missing below the highest one seen: as many as a list holds.
    fn list(&mut self, head: &mut Head, cx: &Cx<'_>) {
        self.missing = 0;
        let Some(inbox) = cx.store.inbox() else {
            return;
        };
        let mut at = inbox.next();
        while at.before(inbox.top()) {
            let from = at;
            while at.before(inbox.top()) && !inbox.has(at) {
                at = at.plus(1);
            }
            self.missing += at.since(from);
            if at.after(from) {
                let end = if self.lowest { from.plus(1) } else { at };
                if !head.push_range((from, end)) || self.lowest {
                    return;
                }
            }
            at = at.plus(1);
        }
    }
}

impl Component for HxhSink {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let head = seg.head;
        if cx.board.conn.running && !cx.board.rx.synced {
            // Numbers begin at 0, with the SYN.
            cx.write(|r: &mut RxFacts| (r.irs, r.nxt, r.synced) = (Seq(0), Seq(1), true));
        }
        if head.get(self.words[0]) == hxh::DATA && cx.board.rx.synced {
            self.on_data(seg, cx);
        }
        Admit::Pass
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        match signal {
            //= spec#10.7
            // "room again: ACK at once"
            Signal::Read if self.refused && Self::room(cx) > 0 => {
                self.refused = false;
                self.due = Due::Ack;
            }
            Signal::Read => {}
            Signal::Opened => self.owed.reserve(64),
            _ => return,
        }
        let window = cx.store.window();
        cx.write(|r: &mut RxFacts| r.window = window);
    }

    //= spec#10.7
    // "NACK to source listing ALL missing ranges below highest ...; repeat every 200 ms while
    // something is missing and data keeps arriving"
    fn on_timer(&mut self, _timer: u8, cx: &mut Cx<'_>) {
        self.list_at = Time::NEVER;
        if Self::gap(cx) && core::mem::take(&mut self.fresh) {
            if self.due == Due::Nothing {
                self.due = Due::Nack;
            }
            self.list_in(Some(self.repeat), cx);
        }
    }

    fn offer(&self, kind: Kind, _board: &Board, _now: Time) -> Option<Want> {
        let any = match kind {
            Kind::Urgent => !self.owed.is_empty(),
            _ => self.due != Due::Nothing,
        };
        any.then_some(Want::bare(kind))
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let [kind, pack, credits, ..] = self.words;
        let came = cx.board.rx.nxt.minus(1);
        if want.kind == Kind::Urgent {
            let Some(number) = self.owed.pop_front() else {
                return;
            };
            //= spec#10.6
            // "LHACK seq=x.seq, pack=its cumulative, to the transmitter; not forwarded". It takes
            // the route back to the source, whose first node the transmitter is where routes have
            // no direction.
            out.head.set(kind, hxh::LHACK);
            out.head.seq = number;
            out.head.set(pack, came.0);
            self.counts[0] += 1;
            return;
        }
        let nack = self.due == Due::Nack;
        self.due = Due::Nothing;
        out.head.set(kind, if nack { hxh::NACK } else { hxh::ACK });
        (out.head.ack, out.head.ts_echo) = (Some(came), self.ts.unwrap_or(0));
        let room = Self::room(cx);
        // Who is told that there is none waits to be told that there is some.
        self.refused |= room == 0;
        out.head.set(credits, room);
        self.list(out.head, cx);
        self.counts[if nack { 1 } else { 2 }] += 1;
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        let names = ["last_hop_acks", "nacks", "acks", "refused"];
        for (name, n) in names.into_iter().zip(self.counts) {
            probe(name, f64::from(n));
        }
        probe("missing", f64::from(self.missing));
    }
}
