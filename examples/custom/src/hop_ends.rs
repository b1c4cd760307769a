//! The ends of the hop protocol: they number packets, not octets, and take what the lanes between
//! them say of their fate.

use crate::hop_lane::{LAST_HOP, LHACK, PACK, is_next};
use std::collections::VecDeque;
use wifu_engine::board::{RxFacts, TxFacts};
use wifu_engine::component::Cx;
use wifu_engine::signal::{Acked, Arrived};
use wifu_engine::{
    Admit, Arrival, Board, Component, Descriptor, Facts, FieldUse, Kind, Out, Payload, Reason,
    Role, Segment, Signal, Want, WordSpec,
};
use wifu_wire::{Class, Flags, Head, HeadField, Seq, Span, Time, Word};

/// "Answer me."
const REQUEST: WordSpec = WordSpec::new("request", 1);
/// The last record, which carries nothing.
pub const LAST: WordSpec = WordSpec::new("last", 1).marking(Class::Data);

// ------------------------------------------------------------------ the source

/// Numbers records, frees them by what it overhears, retransmits what the sink lists, asks for an
/// answer behind the last one. Where it overhears nothing, what the sink sends does it alone.
pub static RECORD_SOURCE: Descriptor = Descriptor {
    name: "record-source",
    role: Role::Reliable,
    doc: "End-to-end reliability over packet numbers: passive acknowledgement and lists.",
    words: &[PACK.read(), REQUEST.written(), LAST.written(), LHACK.read()],
    probes: &["passive", "explicit", "resent", "asked"],
    reads: Facts::CONN,
    writes: Facts::TX,
    hears: &[
        ("segment", &["acked"]),
        ("overheard", &["acked"]),
        ("opened", &[]),
        ("timer", &[]),
    ],
    offers: &[Kind::Resend, Kind::New, Kind::Probe],
    needs: &[("store", &["records"])],
    hooks: &["segment", "overheard"],
    fields: &[
        FieldUse::of(HeadField::Seq),
        FieldUse::of(HeadField::Ack),
        FieldUse::of(HeadField::Ranges),
        FieldUse::of(HeadField::Ts),
        FieldUse::of(HeadField::TsEcho),
    ],
    build: |p| {
        Ok(Box::new(RecordSource {
            words: ["pack", "request", "last", LAST_HOP].map(|w| p.word(w)),
            table: VecDeque::new(),
            queued: 0,
            ask: false,
            tries: 0,
            counts: [0; 4],
        }))
    },
    ..Descriptor::EMPTY
};

#[derive(Clone, Copy)]
struct Going {
    last: u32,
    queued: bool,
}

struct RecordSource {
    /// pack, request, last, last_hop.
    words: [Word; 4],
    /// From `una` on.
    table: VecDeque<Going>,
    queued: u32,
    ask: bool,
    tries: u32,
    /// Passive, explicit, resent, asked.
    counts: [u32; 4],
}

impl RecordSource {
    fn acknowledge(&mut self, next: Seq, cx: &mut Cx<'_>) -> bool {
        let tx = &cx.board.tx;
        if !next.after(tx.una) || next.after(tx.max) {
            return false;
        }
        let n = next.since(tx.una);
        for gone in self.table.drain(..n as usize) {
            self.queued -= u32::from(gone.queued);
        }
        let limited_by = cx.board.app.limited;
        let bytes = cx.store.free(next);
        cx.write(|t: &mut TxFacts| t.una = next);
        self.tries = 0;
        let (upto, in_recovery) = (next, self.queued > 0);
        cx.out.emit(Signal::Acked(Acked {
            bytes,
            upto,
            in_recovery,
            limited_by,
        }));
        true
    }

    fn send(&mut self, number: Seq, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let last = number == cx.board.app.end && cx.board.app.fin;
        (out.head.seq, out.head.ts) = (number, Some(cx.now.wire_micros()));
        if last {
            out.head.set(self.words[2], 1);
        } else {
            out.payload = Payload::Record(number);
        }
        // Where nothing is overheard, nobody says what arrived unless asked: the last one that the
        // buffer holds asks.
        let app = &cx.board.app;
        let full = number.plus(1) == app.end && !app.fin && app.room < cx.board.conn.mss;
        let asks =
            matches!(out.kind, Kind::Probe) || (out.kind == Kind::Resend && self.queued == 0);
        if last || full || asks {
            out.head.set(self.words[1], 1);
            cx.out.arm_after(
                0,
                (Span::SECOND * (1 << self.tries.min(3))).min(Span::SECOND * 8),
            );
        }
    }
}

impl Component for RecordSource {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let head = seg.head;
        if !cx.board.conn.running || head.flags.has(Flags::SYN) {
            return Admit::Pass;
        }
        // A source beside the destination is its last hop, and is told so.
        let told = match head.get(self.words[3]) {
            1 => Some(Seq(head.get(self.words[0])).plus(1)),
            _ => head.ack,
        };
        if let Some(ack) = told
            && self.acknowledge(ack, cx)
        {
            self.counts[1] += 1;
        }
        let una = cx.board.tx.una;
        for (at, g) in self.table.iter_mut().enumerate().filter(|(_, g)| !g.queued) {
            let number = una.plus(at as u32);
            let missing = head
                .ranges()
                .iter()
                .any(|r| r.0.upto(number) && number.before(r.1));
            // Queues on the path are FIFO: what went after a packet that arrived may still come.
            if missing && (g.last.wrapping_sub(head.ts_echo) as i32) <= 0 {
                g.queued = true;
                self.queued += 1;
            }
        }
        Admit::Pass
    }

    fn on_overheard(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        if is_next(seg, cx) && self.acknowledge(Seq(seg.head.get(self.words[0])).plus(1), cx) {
            self.counts[0] += 1;
        }
    }

    fn on_signal(&mut self, _opened: &Signal, cx: &mut Cx<'_>) {
        let first = cx.board.tx.iss.plus(1);
        self.table
            .reserve((cx.board.site.snd_buf / cx.board.conn.mss) as usize + 66);
        cx.write(|t: &mut TxFacts| (t.una, t.nxt, t.max) = (first, first, first));
    }

    fn on_timer(&mut self, _timer: u8, cx: &mut Cx<'_>) {
        self.ask = cx.board.tx.una != cx.board.tx.max;
        self.tries += u32::from(self.ask);
    }

    fn offer(&self, kind: Kind, board: &Board, _now: Time) -> Option<Want> {
        let (tx, app) = (&board.tx, &board.app);
        let end = app.end.plus(u32::from(app.fin));
        let any = match kind {
            Kind::Resend => self.queued > 0,
            Kind::New => tx.nxt.before(end) && self.table.len() < self.table.capacity(),
            _ => self.ask,
        };
        (any && board.conn.running).then_some(Want {
            kind,
            bytes: 1,
            least: 1,
        })
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let last = cx.now.wire_micros();
        match want.kind {
            Kind::New => {
                let number = cx.board.tx.nxt;
                self.table.push_back(Going {
                    last,
                    queued: false,
                });
                let next = number.plus(1);
                cx.write(|t: &mut TxFacts| (t.nxt, t.max) = (next, next));
                self.send(number, out, cx);
            }
            Kind::Resend => {
                let Some(at) = self.table.iter().position(|g| g.queued) else {
                    return;
                };
                self.table[at] = Going {
                    last,
                    queued: false,
                };
                self.queued -= 1;
                self.counts[2] += 1;
                out.reason = Reason::Sack;
                cx.write(|t: &mut TxFacts| t.retransmits += 1);
                self.send(cx.board.tx.una.plus(at as u32), out, cx);
            }
            _ => {
                self.ask = false;
                self.counts[3] += 1;
                out.reason = Reason::Probe;
                if let Some(g) = self.table.back_mut() {
                    g.last = last;
                }
                self.send(cx.board.tx.max.minus(1), out, cx);
            }
        }
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        for (name, n) in ["passive", "explicit", "resent", "asked"]
            .into_iter()
            .zip(self.counts)
        {
            probe(name, f64::from(n));
        }
    }
}

// ------------------------------------------------------------------ the sink

/// Appends records in order, keeps those beyond a hole, tells the last hop what it has and the
/// source what is missing.
pub static RECORD_SINK: Descriptor = Descriptor {
    name: "record-sink",
    role: Role::Receive,
    doc: "Delivers records in order; acknowledges to the last hop, lists what is missing.",
    words: &[PACK.written(), LHACK.written(), REQUEST.read(), LAST.read()],
    probes: &["last_hop_acks", "lists", "parked"],
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
    hooks: &["segment", "stamp"],
    fields: &[
        FieldUse::of(HeadField::Seq),
        FieldUse::of(HeadField::Ack),
        FieldUse::of(HeadField::Ranges),
        FieldUse::of(HeadField::TsEcho),
    ],
    build: |p| {
        Ok(Box::new(RecordSink {
            words: ["pack", LAST_HOP, "request", "last"].map(|w| p.word(w)),
            owed: VecDeque::new(),
            last: None,
            ts: 0,
            due: false,
            refused: false,
            counts: [0; 3],
        }))
    },
    ..Descriptor::EMPTY
};

const GAP: Span = Span(50_000_000);
const AGAIN: Span = Span(200_000_000);

struct RecordSink {
    /// pack, last_hop, request, last.
    words: [Word; 4],
    /// Numbers to acknowledge to the last hop.
    owed: VecDeque<Seq>,
    last: Option<Seq>,
    ts: u32,
    due: bool,
    /// There was no room for a record.
    refused: bool,
    /// Last-hop ACKs, lists, parked.
    counts: [u32; 3],
}

impl RecordSink {
    fn on_data(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        let number = seg.head.seq;
        let Some(record) = cx.store.accept(number, seg.payload) else {
            self.refused = true;
            return;
        };
        if seg.head.get(self.words[3]) == 1 {
            self.last = Some(number);
        }
        self.owed.push_back(number);
        let waits = matches!(record.order, Arrival::Ahead | Arrival::Fills) && record.advanced == 0;
        self.counts[2] += u32::from(waits);
        cx.write(|r: &mut RxFacts| r.nxt = r.nxt.plus(record.advanced));
        let fin = self.finish(cx);
        self.due |= seg.head.get(self.words[2]) == 1;
        if Self::holes(cx) && !cx.out.armed(0) {
            cx.out.arm_after(0, GAP);
        }
        let (seq, bytes, ce) = (number, seg.payload.len() as u32, false);
        let (order, gap) = (record.order, record.gap);
        cx.out.emit(Signal::Arrived(Arrived {
            seq,
            bytes,
            gap,
            order,
            fin,
            ce,
        }));
    }

    /// Something is missing below the highest number that came.
    fn holes(cx: &Cx<'_>) -> bool {
        let inbox = cx.store.inbox();
        inbox.is_some_and(|i| i.next().before(i.top()))
    }

    /// Whether the last record was just delivered; it is acknowledged at once.
    fn finish(&mut self, cx: &mut Cx<'_>) -> bool {
        let fin = !cx.board.rx.fin && self.last.is_some_and(|l| cx.board.rx.nxt == l.plus(1));
        if fin {
            self.due = true;
            cx.write(|r: &mut RxFacts| r.fin = true);
        }
        fin
    }

    /// All ranges of numbers that are missing below the highest one seen.
    fn list(&mut self, head: &mut Head, cx: &Cx<'_>) {
        let Some(inbox) = cx.store.inbox() else {
            return;
        };
        let (mut at, mut from) = (inbox.next(), None);
        while at.before(inbox.top()) {
            match (inbox.has(at), from) {
                (false, None) => from = Some(at),
                (true, Some(start)) => {
                    self.counts[1] += u32::from(head.push_range((start, at)));
                    from = None;
                }
                _ => {}
            }
            at = at.plus(1);
        }
    }
}

impl Component for RecordSink {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let head = seg.head;
        if head.flags.has(Flags::SYN) && !cx.board.rx.synced {
            let (irs, first) = (head.seq, head.seq.plus(1));
            cx.write(|r: &mut RxFacts| (r.irs, r.nxt, r.synced) = (irs, first, true));
        } else if !seg.payload.is_empty() || head.get(self.words[3]) == 1 {
            self.ts = head.ts.unwrap_or(self.ts);
            self.on_data(seg, cx);
        }
        Admit::Pass
    }

    fn on_signal(&mut self, signal: &Signal, _cx: &mut Cx<'_>) {
        if *signal == Signal::Read {
            // There is room again: the source learns of it at once.
            self.due |= core::mem::take(&mut self.refused);
            return;
        }
        self.owed.reserve(64);
    }

    fn on_timer(&mut self, _timer: u8, cx: &mut Cx<'_>) {
        if Self::holes(cx) {
            self.due = true;
            cx.out.arm_after(0, AGAIN);
        }
    }

    fn offer(&self, kind: Kind, _board: &Board, _now: Time) -> Option<Want> {
        let any = if kind == Kind::Urgent {
            !self.owed.is_empty()
        } else {
            self.due
        };
        any.then_some(Want::bare(kind))
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let nxt = cx.board.rx.nxt;
        if want.kind == Kind::Urgent {
            let Some(number) = self.owed.pop_front() else {
                return;
            };
            out.head.seq = number;
            out.head.set(self.words[0], nxt.minus(1).0);
            out.head.set(self.words[1], 1);
            self.counts[0] += 1;
        } else {
            self.due = false;
            out.head.seq = cx.board.tx.max;
            out.head.ts_echo = self.ts;
            self.list(out.head, cx);
        }
    }

    fn stamp(&mut self, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        // Records and what goes to the last hop tell it by `pack`.
        if cx.board.rx.synced && matches!(out.kind, Kind::Control | Kind::Ack) {
            out.head.ack = Some(cx.board.rx.nxt);
        }
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        for (name, n) in ["last_hop_acks", "lists", "parked"]
            .into_iter()
            .zip(self.counts)
        {
            probe(name, f64::from(n));
        }
    }
}
