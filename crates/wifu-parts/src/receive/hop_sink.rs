//! `hop-sink`: delivers packets in the order of their numbers, and says what of a block is missing
//! (Hop, NSDI 2009).
//!
//! A BSYN is answered to the node before by a BACK ("Reliable Per-Hop Block Transfer"), except
//! while there is no room for what is missing: then that node waits, and all before it
//! ("Backpressure"). The source gets an ACK for each block that makes the octets in order longer,
//! for a BSYN with VTX of one that is here, and as a sign of life while there is no room.

use std::collections::VecDeque;
use wifu_engine::board::RxFacts;
use wifu_engine::component::Cx;
use wifu_engine::kit::blocks::{ASK, BLOCK, MOST, ROUND, SIZE, VTX, list_missing};
use wifu_engine::kit::hop::TYPE;
use wifu_engine::signal::Arrived;
use wifu_engine::{
    Admit, Arrival, Board, Component, Descriptor, Facts, FieldUse, Kind, Out, Params, Role,
    Segment, Signal, Want, WordSpec,
};
use wifu_wire::{HeadField, Seq, Time, Word, hop, hxh};

/// See the module.
pub static HOP_SINK: Descriptor = Descriptor {
    name: "hop-sink",
    role: Role::Receive,
    doc: "Delivers packets in order; says what of a block is missing, confirms whole ones.",
    cites: &["Hop (NSDI 2009)"],
    words: &[
        TYPE,
        BLOCK,
        SIZE,
        ROUND,
        ASK.read(),
        VTX.read(),
        WordSpec::new("last", 1).read(),
    ],
    probes: &["backs", "acks", "refused", "held_back"],
    reads: Facts::CONN,
    writes: Facts::RX,
    hears: &[("segment", &["arrived"]), ("opened", &[]), ("read", &[])],
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
    build: |p| Ok(Box::new(HopSink::new(p))),
    ..Descriptor::EMPTY
};

/// Answers that wait for room in the device: a node asks for one block at a time, and few of those
/// that it is done with.
const OWED: usize = 16;
/// Questions that wait for room at the destination.
const HELD: usize = 4;

/// A block, and which question for it is to be answered.
#[derive(Clone, Copy)]
struct Question {
    first: Seq,
    size: u32,
    round: u32,
}

struct HopSink {
    /// type, block, size, round, ask, vtx, last.
    words: [Word; 7],
    owed: VecDeque<Question>,
    /// Answered when there is room.
    withheld: VecDeque<Question>,
    /// Number of the last packet.
    last: Option<Seq>,
    /// The latest timestamp that came.
    ts: Option<u32>,
    /// The source is to be told what came.
    due: bool,
    /// BACKs, ACKs, packets refused, questions held back.
    counts: [u32; 4],
}

impl HopSink {
    fn new(p: &Params<'_>) -> HopSink {
        let words = ["type", "block", "size", "round", "ask", "vtx", "last"];
        HopSink {
            words: words.map(|w| p.word(w)),
            owed: VecDeque::new(),
            withheld: VecDeque::new(),
            last: None,
            ts: None,
            due: false,
            counts: [0; 4],
        }
    }

    fn missing(cx: &Cx<'_>, number: Seq) -> bool {
        let inbox = cx.store.inbox();
        !number.before(cx.board.rx.nxt) && inbox.is_none_or(|i| !i.has(number))
    }

    /// The first packet of a block that is missing.
    fn lacks(cx: &Cx<'_>, q: &Question) -> Option<Seq> {
        let mut all = (0..q.size).map(|n| q.first.plus(n));
        all.find(|n| Self::missing(cx, *n))
    }

    /// Whether what is listed as missing would be taken: else it would be sent for nothing.
    fn room(cx: &Cx<'_>, missing: Seq) -> bool {
        cx.store.fits(missing, cx.board.conn.mss)
    }

    /// Questions are answered for which there is room now.
    fn answer_withheld(&mut self, cx: &Cx<'_>) {
        for _ in 0..self.withheld.len() {
            let Some(q) = self.withheld.pop_front() else {
                break;
            };
            let waits = Self::lacks(cx, &q).is_some_and(|n| !Self::room(cx, n));
            let to = match waits {
                true => &mut self.withheld,
                false => &mut self.owed,
            };
            to.push_back(q);
        }
        self.owed.truncate(OWED);
    }

    /// A block as the header of a packet says it, with the question for it.
    fn named(&self, seg: &Segment<'_>) -> Option<Question> {
        let [_, block, size, round, ..] = self.words.map(|w| seg.head.get(w));
        let inside = seg.head.seq.since(Seq(block)) < size;
        let first = Seq(block);
        (inside && size <= MOST).then_some(Question { first, size, round })
    }

    fn questioned(&mut self, q: Question, vtx: bool, cx: &mut Cx<'_>) {
        let lacks = Self::lacks(cx, &q);
        self.due |= lacks.is_none() && vtx;
        self.withheld.retain(|w| w.first != q.first);
        if lacks.is_some_and(|n| !Self::room(cx, n)) {
            if self.withheld.len() >= HELD {
                self.withheld.pop_front();
            }
            self.withheld.push_back(q);
            self.due = true;
            self.counts[3] += 1;
        } else if self.owed.len() < OWED {
            self.owed.push_back(q);
        }
    }

    fn on_data(&mut self, seg: &Segment<'_>, q: &Question, cx: &mut Cx<'_>) {
        let number = seg.head.seq;
        if let Some(ts) = seg.head.ts {
            let newer = |old: u32| (ts.wrapping_sub(old) as i32) > 0;
            self.ts = Some(self.ts.filter(|old| !newer(*old)).unwrap_or(ts));
        }
        let accepted = cx.store.accept(number, seg.payload);
        // Once all is delivered the store may be gone.
        if accepted.is_none() && !number.before(cx.board.rx.nxt) {
            self.counts[2] += 1;
            return;
        }
        if seg.head.get(self.words[6]) == 1 {
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
        if advanced > 0 {
            self.answer_withheld(cx);
        }
        let nxt = cx.board.rx.nxt;
        self.due |= advanced > 0 && q.first.plus(q.size).upto(nxt);
        let fin = !cx.board.rx.fin && self.last.is_some_and(|l| nxt == l.plus(1));
        if fin {
            cx.write(|r: &mut RxFacts| r.fin = true);
            self.due = true;
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
}

impl Component for HopSink {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let head = seg.head;
        if cx.board.conn.running && !cx.board.rx.synced {
            // Numbers begin at 0, with the SYN.
            cx.write(|r: &mut RxFacts| (r.irs, r.nxt, r.synced) = (Seq(0), Seq(1), true));
        }
        let [kind, _, _, _, ask, vtx, _] = self.words.map(|w| head.get(w));
        let Some(q) = self.named(seg).filter(|_| cx.board.rx.synced) else {
            return Admit::Pass;
        };
        if kind == hxh::DATA {
            self.on_data(seg, &q, cx);
            if ask == 1 {
                self.questioned(q, false, cx);
            }
        } else if kind == hop::BSYN {
            self.questioned(q, vtx == 1, cx);
        }
        Admit::Pass
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        match signal {
            Signal::Read => self.answer_withheld(cx),
            Signal::Opened => {
                self.owed.reserve(OWED + HELD);
                self.withheld.reserve(HELD);
            }
            _ => return,
        }
        let window = cx.store.window();
        cx.write(|r: &mut RxFacts| r.window = window);
    }

    fn offer(&self, kind: Kind, _board: &Board, _now: Time) -> Option<Want> {
        let any = match kind {
            Kind::Urgent => !self.owed.is_empty(),
            _ => self.due,
        };
        any.then_some(Want::bare(kind))
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let [kind, block, size, round, ..] = self.words;
        if want.kind == Kind::Urgent {
            let Some(q) = self.owed.pop_front() else {
                return;
            };
            out.head.seq = q.first;
            for (w, v) in [(kind, hop::BACK), (block, q.first.0), (size, q.size)] {
                out.head.set(w, v);
            }
            out.head.set(round, q.round);
            let end = q.first.plus(q.size);
            list_missing(out.head, q.first, end, |n| Self::missing(cx, n));
            self.counts[0] += 1;
            return;
        }
        self.due = false;
        out.head.set(kind, hxh::ACK);
        let came = cx.board.rx.nxt.minus(1);
        (out.head.ack, out.head.ts_echo) = (Some(came), self.ts.unwrap_or(0));
        self.counts[1] += 1;
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        let names = ["backs", "acks", "refused", "held_back"];
        for (name, n) in names.into_iter().zip(self.counts) {
            probe(name, f64::from(n));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::Bench;
    use wifu_engine::store::StoreKind;
    use wifu_wire::{FrameFacts, Head};

    /// Words by their places in the descriptor.
    const KIND: Word = Word(0);
    const OF: Word = Word(1);
    const LONG: Word = Word(2);
    const NTH: Word = Word(3);
    const ASKS: Word = Word(4);
    const IS_VTX: Word = Word(5);
    const IS_LAST: Word = Word(6);

    /// A sink that waits for this number, with room for so many packets of 1000 octets.
    fn sink(first: Seq, places: u32) -> Bench {
        let mut t = Bench::new(&HOP_SINK, &[]).unwrap();
        t.now = Time(1_000_000_000);
        (t.board.site.rcv_buf, t.board.conn.mss) = (places * 1_000, 1_000);
        t.board.conn.running = true;
        (t.board.rx.nxt, t.board.rx.synced) = (first, true);
        t.attach(StoreKind::Records, 0, first);
        let _ = t.signal(Signal::Opened);
        t
    }

    fn packet(kind: u32, first: Seq, size: u32, n: u32) -> Head {
        let mut head = Head::default();
        (head.seq, head.ts) = (first.plus(n), Some(n));
        for (w, v) in [(KIND, kind), (OF, first.0), (LONG, size), (NTH, 5)] {
            head.set(w, v);
        }
        head
    }

    fn come(t: &mut Bench, first: Seq, size: u32, n: u32) {
        let head = packet(hxh::DATA, first, size, n);
        let _ = t.segment_by(&head, &[7; 1_000], &FrameFacts::NONE);
    }

    fn ask(t: &mut Bench, first: Seq, size: u32, vtx: bool) {
        let mut head = packet(hop::BSYN, first, size, 0);
        head.set(IS_VTX, u32::from(vtx));
        let _ = t.segment_by(&head, &[], &FrameFacts::NONE);
    }

    /// What the node before is told to be missing.
    fn back(t: &mut Bench) -> Option<Vec<(Seq, Seq)>> {
        let (want, mut head) = (t.offer(Kind::Urgent)?, Head::default());
        let _ = t.fill(&want, &mut head);
        assert_eq!((head.get(KIND), head.get(NTH)), (hop::BACK, 5));
        Some(head.ranges().to_vec())
    }

    /// What the source is told to have come.
    fn ack(t: &mut Bench) -> Option<Seq> {
        let (want, mut head) = (t.offer(Kind::Ack)?, Head::default());
        let _ = t.fill(&want, &mut head);
        assert_eq!(head.get(KIND), hxh::ACK);
        head.ack
    }

    #[test]
    fn what_is_missing_is_listed_and_a_block_is_acknowledged_when_it_is_whole() {
        for first in [Seq(1), Seq(u32::MAX - 3)] {
            let mut t = sink(first, 64);
            ask(&mut t, first, 8, false);
            assert_eq!(back(&mut t), Some(vec![(first, first.plus(8))]));
            for n in [0, 1, 4, 6, 7] {
                come(&mut t, first, 8, n);
            }
            ask(&mut t, first, 8, false);
            let missing = [(2, 4), (5, 6)].map(|(a, b)| (first.plus(a), first.plus(b)));
            assert_eq!(back(&mut t), Some(missing.to_vec()));
            assert_eq!(ack(&mut t), None);
            for n in [2, 3, 5] {
                come(&mut t, first, 8, n);
            }
            assert_eq!((ack(&mut t), ack(&mut t)), (Some(first.plus(7)), None));
            ask(&mut t, first, 8, false);
            assert_eq!((back(&mut t), ack(&mut t)), (Some(vec![]), None));
            // The source asks when nothing was heard: its acknowledgement was lost.
            ask(&mut t, first, 8, true);
            assert_eq!(
                (back(&mut t), ack(&mut t)),
                (Some(vec![]), Some(first.plus(7)))
            );
        }
    }

    #[test]
    fn a_block_beyond_one_that_is_missing_is_acknowledged_with_it() {
        let mut t = sink(Seq(1), 64);
        for n in 0..4 {
            come(&mut t, Seq(5), 4, n);
        }
        assert_eq!(ack(&mut t), None);
        for n in 0..4 {
            come(&mut t, Seq(1), 4, n);
        }
        assert_eq!((ack(&mut t), ack(&mut t)), (Some(Seq(8)), None));
    }

    #[test]
    fn a_question_on_a_packet_is_answered_with_it() {
        let mut t = sink(Seq(1), 64);
        let mut head = packet(hxh::DATA, Seq(1), 2, 1);
        head.set(ASKS, 1);
        let _ = t.segment_by(&head, &[7; 1_000], &FrameFacts::NONE);
        assert_eq!(back(&mut t), Some(vec![(Seq(1), Seq(2))]));
    }

    /// Who has no room says nothing to the node before, which waits; the source learns that this
    /// end lives.
    #[test]
    fn while_there_is_no_room_questions_are_held_back() {
        let mut t = sink(Seq(1), 4);
        for n in 0..6 {
            come(&mut t, Seq(1), 8, n);
        }
        assert_eq!(t.probe("refused"), Some(2.0));
        ask(&mut t, Seq(1), 8, false);
        assert_eq!((back(&mut t), ack(&mut t)), (None, Some(Seq(4))));
        t.read(2_000);
        let _ = t.signal(Signal::Read);
        assert_eq!(back(&mut t), Some(vec![(Seq(5), Seq(9))]));
        assert_eq!(t.probe("held_back"), Some(1.0));
    }

    #[test]
    fn the_last_packet_ends_the_stream() {
        let mut t = sink(Seq(1), 64);
        come(&mut t, Seq(1), 1, 0);
        let mut head = packet(hxh::DATA, Seq(2), 1, 0);
        head.set(IS_LAST, 1);
        let said = t.segment_by(&head, &[], &FrameFacts::NONE).1;
        assert!(
            said.iter()
                .any(|s| matches!(s, Signal::Arrived(a) if a.fin))
        );
        assert_eq!((t.board.rx.fin, ack(&mut t)), (true, Some(Seq(2))));
    }

    /// Octets are free, places are not: what would be refused is not asked for.
    #[test]
    fn a_block_beyond_the_places_waits_until_those_before_it_came() {
        let mut t = sink(Seq(1), 8);
        ask(&mut t, Seq(9), 4, false);
        assert_eq!(back(&mut t), None);
        ask(&mut t, Seq(1), 8, true);
        assert_eq!(back(&mut t), Some(vec![(Seq(1), Seq(9))]));
        for n in 0..4 {
            come(&mut t, Seq(1), 8, n);
        }
        assert_eq!(back(&mut t), None, "nothing was read");
        t.read(4_000);
        let _ = t.signal(Signal::Read);
        assert_eq!(back(&mut t), Some(vec![(Seq(9), Seq(13))]));
        assert_eq!((t.probe("refused"), back(&mut t)), (Some(0.0), None));
    }
}
