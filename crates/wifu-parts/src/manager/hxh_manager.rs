//! `hxh-manager`: opens with a SYN and its answer, closes each direction by its last packet
//! (Behaviour 10.8).
//!
//! Connections have identifiers; numbers begin at 0 with the SYN. Data flow after the answer, at
//! the listener at once: its peer may wait for it to speak. Who wrote all it has sends a last
//! packet without payload, as data are sent; an end whose own last packet was acknowledged and that
//! has the peer's stays for half a minute after the last packet that came, because its own answer
//! may be lost and the peer asks again. Both ends may send, each in numbers of its own.

use wifu_engine::Tuple;
use wifu_engine::admission::{Admission, Key};
use wifu_engine::board::{ConnFacts, State};
use wifu_engine::component::Cx;
use wifu_engine::kit::hop::{MSS, TYPE};
use wifu_engine::{
    Admit, Board, Component, Descriptor, Facts, Fault, FieldUse, Kind, Out, ParamSpec, Params,
    Role, Segment, Signal, Want,
};
use wifu_wire::{Flags, Head, HeadField, Seq, Span, Time, Word, hxh};

/// See the module.
pub static HXH_MANAGER: Descriptor = Descriptor {
    name: "hxh-manager",
    role: Role::Manager,
    doc: "Opens with a SYN and its answer, closes by last packets; connections have identifiers.",
    cites: &["HxH thesis 2", "Behaviour 10.8"],
    params: &[ParamSpec::int(
        "syn_tries",
        6,
        1,
        100,
        "SYNs sent before giving up (Behaviour 10.8).",
    )],
    words: &[TYPE, MSS],
    reads: Facts::TX.with(Facts::RX),
    writes: Facts::CONN,
    hears: &[
        ("segment", &["opened", "ended"]),
        ("timer", &["ended"]),
        ("connect", &[]),
        ("listen", &[]),
        ("closing", &["ended"]),
        ("abort", &["ended"]),
        ("acked", &[]),
        ("arrived", &[]),
        ("gave-up", &["ended"]),
    ],
    offers: &[Kind::Control],
    needs: &[("unit", &["packets"])],
    hooks: &["segment"],
    fields: &[
        FieldUse::of(HeadField::Seq),
        FieldUse::of(HeadField::Ack),
        FieldUse::of(HeadField::SYN),
        FieldUse::of(HeadField::RST),
        FieldUse::of(HeadField::Ts),
    ],
    admission: Some(&ByIdentifier),
    build: |p| Ok(Box::new(HxhManager::new(p))),
    ..Descriptor::EMPTY
};

/// A connection is whose identifier its packets carry: what an earlier one left on its way between
/// the same ports is nobody's.
#[derive(Debug)]
struct ByIdentifier;

impl Admission for ByIdentifier {
    fn key(&self, ends: &Tuple, id: u32) -> Key {
        Key::identifier(ends, id)
    }

    fn draws_identifier(&self) -> bool {
        true
    }

    fn opens(&self, head: &Head) -> bool {
        wifu_engine::admission::first(head)
    }

    fn rests(&self, state: State) -> bool {
        state == State::TimeWait
    }
}

const RETRY: u8 = 0;
const LINGER: u8 = 1;

//= spec#10.8
// "SYN/SYNACK (retry 1 s doubling, 6 tries)"; "destination lingers 30 s after the last packet"
const AFTER_LAST: Span = Span(30_000_000_000);
/// A listener's connection of which nothing but its SYN was seen.
const HALF_OPEN: Span = Span(120_000_000_000);
/// A peer that has our end, and from which nobody waits for anything, may be gone.
const SILENCE: Span = Span(60_000_000_000);

#[derive(Default)]
struct HxhManager {
    kind: Word,
    mss: Word,
    most: u32,
    tries: u32,
    /// Nothing but the SYN was seen.
    half_open: bool,
    syn: bool,
    answer: bool,
    rst: bool,
    /// The `ts` of the SYN.
    ts: u32,
}

impl HxhManager {
    fn new(p: &Params<'_>) -> HxhManager {
        HxhManager {
            kind: p.word("type"),
            mss: p.word("mss"),
            most: p.int("syn_tries") as u32,
            ..HxhManager::default()
        }
    }

    fn enter(state: State, cx: &mut Cx<'_>) {
        let open = matches!(
            state,
            State::Established
                | State::CloseWait
                | State::FinWait1
                | State::FinWait2
                | State::Closing
                | State::LastAck
        );
        cx.write(|c: &mut ConnFacts| (c.state, c.running) = (state, open));
        match state {
            State::TimeWait => cx.out.arm_after(LINGER, AFTER_LAST),
            State::FinWait2 if cx.board.app.gone => cx.out.arm_after(LINGER, SILENCE),
            _ => {}
        }
    }

    fn end(&mut self, fault: Option<Fault>, cx: &mut Cx<'_>) {
        Self::enter(State::Closed, cx);
        (self.syn, self.answer) = (false, false);
        cx.out.emit(Signal::Ended(fault));
    }

    /// The largest payload that this end takes, bytes.
    fn takes(board: &Board) -> u32 {
        let full = board.site.mtu.saturating_sub(board.site.overhead);
        match board.site.mss_limit {
            0 => full,
            limit => full.min(limit),
        }
    }

    /// The peer's SYN, or its answer to ours. Records have the same size in both directions: the
    /// smaller of what the ends take. Data that open do not say it.
    fn open(&mut self, head: &Head, cx: &mut Cx<'_>) {
        let site = cx.board.site.clone();
        let own = Self::takes(&cx.board);
        let mss = match head.get(self.mss) {
            theirs if theirs > 0 && head.flags.has(Flags::SYN) => own.min(theirs),
            _ => own,
        };
        cx.write(|c: &mut ConnFacts| {
            (c.mss, c.overhead) = (mss, site.overhead);
            c.meet(head.options, &site);
        });
        Self::enter(State::Established, cx);
        cx.attach(Seq(1));
        cx.out.disarm(RETRY);
        (self.tries, self.syn) = (0, false);
        cx.out.emit(Signal::Opened);
    }

    fn on_rst(&mut self, cx: &mut Cx<'_>) -> Admit {
        let fault = match cx.board.conn.state {
            State::Listen => return Admit::Drop("LISTEN: RST"),
            State::SynSent => Some(Fault::Refused),
            State::TimeWait => None,
            // The peer has all, and forgot us.
            State::FinWait2 if cx.board.app.gone => None,
            _ => Some(Fault::Reset),
        };
        self.end(fault, cx);
        Admit::Drop("RST")
    }

    fn in_listen(&mut self, head: &Head, cx: &mut Cx<'_>) -> Admit {
        if !head.flags.has(Flags::SYN) || head.ack.is_some() {
            return Admit::Drop("LISTEN: no SYN");
        }
        cx.mark_syn(Seq(0));
        self.open(head, cx);
        (self.answer, self.half_open) = (true, true);
        self.ts = head.ts.unwrap_or(0);
        cx.out.arm_after(LINGER, HALF_OPEN);
        Admit::Pass
    }

    fn abort(&mut self, cx: &mut Cx<'_>) {
        let state = cx.board.conn.state;
        self.rst = !matches!(
            state,
            State::Closed | State::Listen | State::SynSent | State::TimeWait
        );
        self.end(Some(Fault::Aborted), cx);
    }

    fn on_closing(&mut self, cx: &mut Cx<'_>) {
        match cx.board.conn.state {
            State::Listen | State::SynSent => self.end(None, cx),
            State::Established => {
                cx.mark_fin();
                Self::enter(State::FinWait1, cx);
            }
            State::CloseWait => {
                cx.mark_fin();
                Self::enter(State::LastAck, cx);
            }
            State::FinWait2 if cx.board.app.gone => cx.out.arm_after(LINGER, SILENCE),
            _ => {}
        }
    }
}

impl Component for HxhManager {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let (head, state) = (seg.head, cx.board.conn.state);
        let kind = head.get(self.kind);
        if state == State::Closed {
            return Admit::Drop("closed");
        }
        if !(hxh::DATA..=hxh::HOP_ACK).contains(&kind) {
            return Admit::Drop("a type that is not assigned");
        }
        if head.flags.has(Flags::RST) {
            return self.on_rst(cx);
        }
        match state {
            State::Listen => return self.in_listen(head, cx),
            // Data with our identifier tell as much as the answer, which may be lost.
            State::SynSent if matches!(kind, hxh::SYNACK | hxh::DATA) => {
                self.open(head, cx);
                return Admit::Pass;
            }
            State::SynSent => return Admit::Drop("SYN_SENT: no answer"),
            _ => {}
        }
        //= spec#18
        // "SYN answer lost | SYNACK repeated"
        if kind == hxh::SYN {
            self.answer = true;
            if self.half_open {
                cx.out.arm_after(LINGER, HALF_OPEN);
            }
            return Admit::Drop("SYN again");
        }
        if self.half_open {
            self.half_open = false;
            cx.out.disarm(LINGER);
        }
        match cx.board.conn.state {
            State::TimeWait => cx.out.arm_after(LINGER, AFTER_LAST),
            State::FinWait2 if cx.board.app.gone => cx.out.arm_after(LINGER, SILENCE),
            _ => {}
        }
        Admit::Pass
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        let state = cx.board.conn.state;
        match signal {
            Signal::Connect => {
                cx.mark_syn(Seq(0));
                Self::enter(State::SynSent, cx);
                self.syn = true;
            }
            Signal::Listen => Self::enter(State::Listen, cx),
            Signal::Closing => self.on_closing(cx),
            Signal::Abort => self.abort(cx),
            Signal::GaveUp => self.end(Some(Fault::TimedOut), cx),
            // Our last packet arrived.
            Signal::Acked(a) if cx.board.app.fin && a.upto.after(cx.board.app.end) => match state {
                State::FinWait1 => Self::enter(State::FinWait2, cx),
                State::Closing | State::LastAck => Self::enter(State::TimeWait, cx),
                _ => {}
            },
            Signal::Arrived(a) if a.fin => match state {
                State::Established => Self::enter(State::CloseWait, cx),
                State::FinWait1 => Self::enter(State::Closing, cx),
                State::FinWait2 => Self::enter(State::TimeWait, cx),
                _ => {}
            },
            _ => {}
        }
    }

    fn on_timer(&mut self, timer: u8, cx: &mut Cx<'_>) {
        if timer == LINGER {
            self.end(self.half_open.then_some(Fault::TimedOut), cx);
        } else if self.tries >= self.most {
            self.end(Some(Fault::TimedOut), cx);
        } else {
            self.syn = cx.board.conn.state == State::SynSent;
        }
    }

    fn offer(&self, _kind: Kind, _board: &Board, _now: Time) -> Option<Want> {
        let any = self.rst || self.syn || self.answer;
        any.then_some(Want::bare(Kind::Control))
    }

    fn fill(&mut self, _want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        if self.rst {
            self.rst = false;
            (out.head.flags, out.head.seq) = (Flags::RST, cx.board.tx.max);
        } else if self.answer {
            self.answer = false;
            (out.head.flags, out.head.ack) = (Flags::SYN, Some(Seq(0)));
            out.head.ts_echo = self.ts;
            out.head.set(self.mss, Self::takes(&cx.board));
        } else {
            self.syn = false;
            (out.head.flags, out.head.seq) = (Flags::SYN, Seq(0));
            out.head.ts = Some(cx.now.wire_micros());
            out.head.set(self.mss, Self::takes(&cx.board));
            let wait = (Span::SECOND * (1 << self.tries.min(6))).min(Span::SECOND * 64);
            cx.out.arm_after(RETRY, wait);
            self.tries += 1;
        }
    }
}
