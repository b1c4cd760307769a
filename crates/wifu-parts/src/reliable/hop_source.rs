//! `hop-source`: numbers packets and cuts blocks; asks on the way for a block of which nothing is
//! heard (Hop, NSDI 2009).
//!
//! A block is what is there to be sent when its first packet leaves, `block` packets at most. Its
//! lane holds it back ("Backpressure"): there is no window and no rate. When the destination does
//! not acknowledge the oldest block in time, a BSYN with VTX goes to the next node instead of the
//! data ("Virtual Retransmission"): nodes that have the block ask on from there, and who lacks
//! something of it is sent that. After `vtx_tries` of them in vain the source sends the block
//! itself, and at once what a BACK names that was its own answer: where no lanes are.

use std::collections::VecDeque;
use wifu_engine::board::{RttFacts, TxFacts};
use wifu_engine::component::Cx;
use wifu_engine::kit::blocks::{BLOCK, MOST, ROUND, SIZE, VTX};
use wifu_engine::kit::hop::{RTX, TYPE};
use wifu_engine::kit::{Ewma, Ranges};
use wifu_engine::signal::{Acked, Lost};
use wifu_engine::{
    Admit, Board, Cause, Component, Descriptor, Facts, FieldUse, Kind, Out, ParamSpec, Params,
    Payload, Reason, Role, Segment, Signal, Want, WordSpec,
};
use wifu_wire::{HeadField, Seq, Span, Time, Word, hop, hxh};

/// See the module.
pub static HOP_SOURCE: Descriptor = Descriptor {
    name: "hop-source",
    role: Role::Reliable,
    doc: "Blocks of numbered packets; asks the nodes on the way for one of which nothing is heard.",
    cites: &["Hop (NSDI 2009)"],
    params: &[
        ParamSpec::int(
            "block",
            64,
            1,
            MOST as u64,
            "Packets of a block at most (Hop, \"Reliable Per-Hop Block Transfer\"; 64 is WiFu's).",
        ),
        ParamSpec::int(
            "vtx_tries",
            3,
            0,
            100,
            "Questions for a block in vain before the source sends it again itself.",
        ),
        ParamSpec::span(
            "ack_limit",
            Span(60_000_000_000),
            Span(1_000_000_000),
            Span(3_600_000_000_000),
            "A destination that gives no sign of life for so long is given up.",
        ),
    ],
    words: &[
        TYPE,
        BLOCK,
        SIZE.written(),
        ROUND,
        VTX.written(),
        RTX.written(),
        WordSpec::new("last", 1).written(),
    ],
    probes: &["blocks", "vtx", "resent", "unacked"],
    reads: Facts::CONN,
    writes: Facts::TX.with(Facts::RTT),
    times_repairs: true,
    hears: &[
        ("segment", &["acked", "lost"]),
        ("opened", &[]),
        ("timer", &["gave-up", "lost"]),
    ],
    offers: &[Kind::Resend, Kind::New, Kind::Probe],
    needs: &[("store", &["records"])],
    hooks: &["segment"],
    fields: &[
        FieldUse::of(HeadField::Seq),
        FieldUse::of(HeadField::Ack),
        FieldUse::of(HeadField::Ranges),
        FieldUse::of(HeadField::Ts),
        FieldUse::of(HeadField::TsEcho),
    ],
    build: |p| Ok(Box::new(HopSource::new(p))),
    ..Descriptor::EMPTY
};

const WAIT: u8 = 0;
/// From one question for a block to the next, at least and at most.
const SOON: Span = Span(1_000_000_000);
const RARELY: Span = Span(8_000_000_000);
/// Blocks that are not acknowledged, at most, however small the packets are that the peer takes.
const CUTS: u32 = 16_384;
/// Ranges of numbers that go again themselves.
const RUNS: usize = 256;

/// A block that is not acknowledged.
#[derive(Clone, Copy)]
struct Cut {
    first: Seq,
    size: u32,
    /// When its first packet left.
    begun: Time,
    /// It was asked for: how long it takes cannot be known.
    again: bool,
}

impl Cut {
    fn end(&self) -> Seq {
        self.first.plus(self.size)
    }
}

struct HopSource {
    /// type, block, size, round, vtx, rtx, last.
    words: [Word; 7],
    most: u32,
    vtx_tries: u32,
    limit: Span,
    cuts: VecDeque<Cut>,
    /// What the source itself sends again.
    again: Ranges,
    /// How long blocks take, and how much that differs, s.
    takes: Ewma,
    differs: Ewma,
    /// A question is due.
    ask: bool,
    /// Questions in a row that nothing came of, and the last sign of life.
    tries: u32,
    alive: Time,
    /// Blocks cut, questions, packets sent again.
    counts: [u32; 3],
}

impl HopSource {
    fn new(p: &Params<'_>) -> HopSource {
        let words = ["type", "block", "size", "round", "vtx", "rtx", "last"];
        HopSource {
            words: words.map(|w| p.word(w)),
            most: p.int("block") as u32,
            vtx_tries: p.int("vtx_tries") as u32,
            limit: p.span("ack_limit"),
            cuts: VecDeque::new(),
            again: Ranges::new(RUNS),
            takes: Ewma::new(0.875),
            differs: Ewma::new(0.75),
            ask: false,
            tries: 0,
            alive: Time::ZERO,
            counts: [0; 3],
        }
    }

    /// One past the last number that there is.
    fn end(board: &Board) -> Seq {
        board.app.end.plus(u32::from(board.app.fin))
    }

    /// Until the oldest block is asked for.
    fn patience(&self) -> Span {
        let mean = self.takes.value().unwrap_or(1.0);
        let spread = self.differs.value().unwrap_or(0.0);
        let first = Span::from_secs_f64(mean + 4.0 * spread);
        (first.clamp(SOON, RARELY) * (1 << self.tries.min(3))).min(RARELY)
    }

    fn wait(&mut self, cx: &mut Cx<'_>) {
        if cx.board.tx.una == cx.board.tx.max {
            cx.out.disarm(WAIT);
        } else {
            let patience = self.patience();
            cx.write(|t: &mut TxFacts| t.rto = patience);
            cx.out.arm_after(WAIT, patience);
        }
    }

    /// How long a block was on its way.
    fn time(&mut self, cut: &Cut, cx: &mut Cx<'_>) {
        let rtt = cx.now - cut.begun;
        let took = rtt.as_secs_f64();
        let mean = self.takes.value().unwrap_or(took);
        self.differs.add((took - mean).abs());
        let smooth = Span::from_secs_f64(self.takes.add(took));
        cx.write(|r: &mut RttFacts| {
            r.min = if r.samples == 0 { rtt } else { r.min.min(rtt) };
            (r.last, r.srtt, r.samples) = (rtt, smooth, r.samples + 1);
        });
    }

    fn on_ack(&mut self, upto: Seq, cx: &mut Cx<'_>) {
        self.alive = cx.now;
        let (next, tx) = (upto.plus(1), &cx.board.tx);
        if !next.after(tx.una) || next.after(tx.max) {
            return;
        }
        let limited_by = cx.board.app.limited;
        let bytes = cx.store.free(next);
        cx.write(|t: &mut TxFacts| t.una = next);
        self.again.forget(next);
        while let Some(cut) = self.cuts.front().filter(|c| c.end().upto(next)).copied() {
            self.cuts.pop_front();
            if !cut.again {
                self.time(&cut, cx);
            }
        }
        (self.tries, self.ask) = (0, false);
        cx.write(|t: &mut TxFacts| t.backoff = 0);
        cx.out.emit(Signal::Acked(Acked {
            bytes,
            upto: next,
            in_recovery: !self.again.is_empty(),
            limited_by,
        }));
        self.wait(cx);
    }

    /// These go again themselves.
    fn lost(&mut self, from: Seq, to: Seq, cause: Cause, cx: &mut Cx<'_>) {
        let (from, to) = (from.later(cx.board.tx.una), to.earlier(cx.board.tx.max));
        if !from.before(to) {
            return;
        }
        let first = self.again.is_empty();
        self.again.prepare();
        let bytes = self.again.insert(from, to);
        if bytes > 0 {
            let flight = cx.board.tx.flight();
            cx.out.emit(Signal::Lost(Lost {
                bytes,
                flight,
                cause,
                new_episode: first,
                repeat: false,
            }));
        }
    }

    /// The answer to the own question: no lane is between.
    fn on_back(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        self.alive = cx.now;
        let (una, max) = (cx.board.tx.una, cx.board.tx.max);
        let inside = |s: Seq| s.from(una) && s.upto(max);
        let named = seg.head.ranges().iter().copied();
        for (from, to) in named.filter(|r| inside(r.0) && inside(r.1)) {
            self.lost(from, to, Cause::Explicit, cx);
        }
    }

    /// The block of the next packet that never left.
    fn cut(&mut self, cx: &Cx<'_>) -> Option<Cut> {
        let nxt = cx.board.tx.nxt;
        if let Some(last) = self.cuts.back().filter(|c| nxt.before(c.end())) {
            return Some(*last);
        }
        let size = Self::end(&cx.board).beyond(nxt).min(self.most);
        let cut = Cut {
            first: nxt,
            size,
            begun: cx.now,
            again: false,
        };
        self.cuts.push_back(cut);
        self.counts[0] += 1;
        Some(cut)
    }

    fn put(&self, number: Seq, cut: &Cut, out: &mut Out<'_>, cx: &Cx<'_>) {
        let [kind, block, size, _, _, rtx, last] = self.words;
        let (head, app) = (&mut *out.head, &cx.board.app);
        (head.seq, head.ts) = (number, Some(cx.now.wire_micros()));
        head.set(kind, hxh::DATA);
        head.set(block, cut.first.0);
        head.set(size, cut.size);
        head.set(rtx, u32::from(out.reason != Reason::First));
        let ends = number == app.end && app.fin;
        head.set(last, u32::from(ends));
        if !ends {
            out.payload = Payload::Record(number);
        }
    }

    /// The oldest block is asked for.
    fn question(&mut self, out: &mut Out<'_>) {
        self.ask = false;
        let Some(cut) = self.cuts.front_mut() else {
            return;
        };
        cut.again = true;
        let [kind, block, size, round, vtx, ..] = self.words;
        out.head.seq = cut.first;
        for (w, v) in [(kind, hop::BSYN), (block, cut.first.0), (size, cut.size)] {
            out.head.set(w, v);
        }
        out.head.set(round, 0);
        out.head.set(vtx, 1);
        self.counts[1] += 1;
    }
}

impl Component for HopSource {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let [kind, _, _, round, ..] = self.words.map(|w| seg.head.get(w));
        match (kind, seg.head.ack) {
            _ if !cx.board.conn.running => {}
            (hxh::ACK, Some(ack)) => self.on_ack(ack, cx),
            (hop::BACK, _) if round == 0 => self.on_back(seg, cx),
            _ => {}
        }
        Admit::Pass
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        if *signal != Signal::Opened {
            return;
        }
        let first = cx.board.tx.iss.plus(1);
        let most = cx.board.site.snd_buf / cx.board.conn.mss.max(1) + 66;
        self.cuts.reserve(most.min(CUTS) as usize);
        cx.write(|t: &mut TxFacts| (t.una, t.nxt, t.max) = (first, first, first));
    }

    fn on_timer(&mut self, _timer: u8, cx: &mut Cx<'_>) {
        if cx.now - self.alive >= self.limit {
            cx.out.emit(Signal::GaveUp);
            return;
        }
        // Of a block that its lane did not take yet nobody on the way knows.
        let cut = self.cuts.front().copied();
        if let Some(cut) = cut.filter(|c| c.end().upto(cx.board.tx.max)) {
            // What is not through yet goes on: from the first again the last would never come.
            let again = self.tries >= self.vtx_tries && self.again.is_empty();
            if again {
                self.lost(cut.first, cut.end(), Cause::Timeout, cx);
            }
            self.ask = true;
            self.tries += 1;
            // A question is no retransmission.
            cx.write(|t: &mut TxFacts| {
                (t.timeouts, t.backoff) = (t.timeouts + u32::from(again), t.backoff + 1);
            });
        }
        self.wait(cx);
    }

    fn offer(&self, kind: Kind, board: &Board, _now: Time) -> Option<Want> {
        let any = match kind {
            Kind::Probe => self.ask,
            Kind::Resend => !self.again.is_empty(),
            _ => {
                let fits = self.cuts.len() < self.cuts.capacity();
                let more = board.tx.nxt.before(Self::end(board));
                let begun = self
                    .cuts
                    .back()
                    .is_some_and(|c| board.tx.nxt.before(c.end()));
                more && (fits || begun)
            }
        };
        let (bytes, least) = if kind == Kind::Probe { (0, 0) } else { (1, 1) };
        (any && board.conn.running).then_some(Want { kind, bytes, least })
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        if want.kind == Kind::Probe {
            return self.question(out);
        }
        if want.kind == Kind::Resend {
            let Some((number, _)) = self.again.list().first().copied() else {
                return;
            };
            self.again.forget(number.plus(1));
            let covers = |c: &&mut Cut| number.since(c.first) < c.size;
            let Some(cut) = self.cuts.iter_mut().find(covers) else {
                return;
            };
            cut.again = true;
            let cut = *cut;
            out.reason = Reason::Timeout;
            cx.write(|t: &mut TxFacts| t.retransmits += 1);
            self.counts[2] += 1;
            return self.put(number, &cut, out, cx);
        }
        let Some(cut) = self.cut(cx) else { return };
        let number = cx.board.tx.nxt;
        if cx.board.tx.una == cx.board.tx.max {
            self.alive = cx.now;
        }
        self.put(number, &cut, out, cx);
        let next = number.plus(1);
        cx.write(|t: &mut TxFacts| (t.nxt, t.max) = (next, next));
        if !cx.out.armed(WAIT) {
            self.wait(cx);
        }
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        for (name, n) in ["blocks", "vtx", "resent"].into_iter().zip(self.counts) {
            probe(name, f64::from(n));
        }
        probe("unacked", self.cuts.len() as f64);
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
    const IS_VTX: Word = Word(4);
    const IS_RTX: Word = Word(5);

    /// A source of so many packets, whose first has this number.
    fn source(first: Seq, packets: u32, set: &[(&str, &str)]) -> Bench {
        let mut t = Bench::new(&HOP_SOURCE, set).unwrap();
        t.now = Time(1_000_000_000);
        (t.board.site.snd_buf, t.board.conn.mss) = (200_000, 1_000);
        t.board.conn.running = true;
        t.board.tx.iss = first.minus(1);
        t.attach(StoreKind::Records, 0, first);
        let _ = t.signal(Signal::Opened);
        let octets = vec![7; packets as usize * 1_000];
        assert_eq!(t.write(&octets) as usize, octets.len());
        t
    }

    /// What leaves of this kind: number, first of its block, size, RTX.
    fn leaves(t: &mut Bench, kind: Kind) -> Option<(Seq, Seq, u32, bool)> {
        let (want, mut head) = (t.offer(kind)?, Head::default());
        let _ = t.fill(&want, &mut head);
        assert_eq!(head.get(KIND), hxh::DATA);
        let rtx = head.get(IS_RTX) == 1;
        Some((head.seq, Seq(head.get(OF)), head.get(LONG), rtx))
    }

    fn all(t: &mut Bench) -> u32 {
        std::iter::from_fn(|| leaves(t, Kind::New)).count() as u32
    }

    fn ack(t: &mut Bench, upto: Seq) -> Vec<Signal> {
        let mut head = Head::default();
        head.set(KIND, hxh::ACK);
        head.ack = Some(upto);
        t.segment_by(&head, &[], &FrameFacts::NONE).1
    }

    /// The question that is due: of which block.
    fn asks(t: &mut Bench) -> Option<(Seq, u32)> {
        let (want, mut head) = (t.offer(Kind::Probe)?, Head::default());
        let (payload, _, _) = t.fill(&want, &mut head);
        assert_eq!((head.get(KIND), payload), (hop::BSYN, Payload::None));
        assert_eq!((head.get(IS_VTX), head.get(NTH)), (1, 0));
        Some((Seq(head.get(OF)), head.get(LONG)))
    }

    #[test]
    fn blocks_are_what_is_there_across_the_wrap_of_numbers() {
        let first = Seq(u32::MAX - 5);
        let mut t = source(first, 25, &[("block", "10")]);
        for n in 0..25 {
            let block = first.plus(n / 10 * 10);
            let size = if n < 20 { 10 } else { 5 };
            let left = leaves(&mut t, Kind::New);
            assert_eq!(left, Some((first.plus(n), block, size, false)));
        }
        // The end is a block of its own, and a small one.
        t.board.app.fin = true;
        let end = first.plus(25);
        assert_eq!(leaves(&mut t, Kind::New), Some((end, end, 1, false)));
        for (upto, unacked) in [(9, 3.0), (19, 2.0), (25, 0.0)] {
            let _ = ack(&mut t, first.plus(upto));
            assert_eq!(t.probe("unacked"), Some(unacked));
        }
        assert_eq!(t.due(WAIT), Time::NEVER);
    }

    /// Hop, "Virtual Retransmission": a question goes, not the data.
    #[test]
    fn a_block_that_stays_away_is_asked_for_three_times_and_then_sent_again() {
        let mut t = source(Seq(1), 20, &[("block", "10")]);
        assert_eq!(all(&mut t), 20);
        let (begun, mut waited) = (t.now, Vec::new());
        for _ in 0..3 {
            let _ = t.advance(t.due(WAIT));
            waited.push((t.now - begun).as_secs_f64());
            assert_eq!(asks(&mut t), Some((Seq(1), 10)));
            assert!(t.offer(Kind::Resend).is_none());
        }
        assert_eq!(waited, [1.0, 3.0, 7.0]);
        assert_eq!((t.board.tx.timeouts, t.board.tx.backoff), (0, 3));
        let said = t.advance(t.due(WAIT));
        assert!(
            matches!(said[..], [Signal::Lost(l)] if l.bytes == 10),
            "{said:?}"
        );
        assert_eq!(t.board.tx.timeouts, 1);
        for n in 1..=10 {
            assert_eq!(
                leaves(&mut t, Kind::Resend),
                Some((Seq(n), Seq(1), 10, true))
            );
        }
        assert!(t.offer(Kind::Resend).is_none());
        // Progress is one: the next block is asked for first.
        let _ = ack(&mut t, Seq(10));
        let _ = t.advance(t.due(WAIT));
        assert_eq!(asks(&mut t), Some((Seq(11), 10)));
        assert!(t.offer(Kind::Resend).is_none());
    }

    #[test]
    fn where_no_lane_is_what_the_destination_lists_goes_again_at_once() {
        let mut t = source(Seq(1), 20, &[("block", "10")]);
        let _ = all(&mut t);
        let mut back = Head::default();
        for (w, v) in [(KIND, hop::BACK), (OF, 1), (LONG, 10)] {
            back.set(w, v);
        }
        back.push_range((Seq(3), Seq(5)));
        back.push_range((Seq(900), Seq(905)));
        let _ = t.segment_by(&back, &[], &FrameFacts::NONE);
        for n in [3, 4] {
            assert_eq!(
                leaves(&mut t, Kind::Resend),
                Some((Seq(n), Seq(1), 10, true))
            );
        }
        assert!(t.offer(Kind::Resend).is_none());
        // The answer to a lane's question is the lane's.
        back.set(NTH, 3);
        let _ = t.segment_by(&back, &[], &FrameFacts::NONE);
        assert!(t.offer(Kind::Resend).is_none());
    }

    #[test]
    fn a_block_that_its_lane_has_not_taken_is_not_asked_for() {
        let mut t = source(Seq(1), 20, &[("block", "10")]);
        for _ in 0..7 {
            let _ = leaves(&mut t, Kind::New);
        }
        let _ = t.advance(t.due(WAIT));
        assert!(t.offer(Kind::Probe).is_none());
        assert!(t.due(WAIT) != Time::NEVER);
    }

    #[test]
    fn a_minute_without_a_word_is_the_end() {
        let mut t = source(Seq(1), 20, &[]);
        let _ = all(&mut t);
        let begun = t.now;
        while !t.advance(t.due(WAIT)).contains(&Signal::GaveUp) {
            let _ = asks(&mut t);
            while leaves(&mut t, Kind::Resend).is_some() {}
        }
        let took = (t.now - begun).as_secs_f64();
        assert!((60.0..69.0).contains(&took), "{took}");
    }

    /// A peer says how small packets are, and this end how much memory it takes.
    #[test]
    fn a_peer_that_takes_one_octet_takes_no_memory() {
        let mut t = Bench::new(&HOP_SOURCE, &[("block", "1")]).unwrap();
        (t.board.site.snd_buf, t.board.conn.mss) = (100_000_000, 1);
        t.board.conn.running = true;
        t.board.app.end = Seq(50_000_000);
        let _ = t.signal(Signal::Opened);
        let n = (0..50_000).take_while(|_| leaves(&mut t, Kind::New).is_some());
        assert_eq!(n.count() as u32, CUTS);
    }

    /// Where a lane takes few packets, those that go again are not begun anew before all went.
    #[test]
    fn what_goes_again_slowly_goes_to_its_end() {
        let mut t = source(Seq(1), 10, &[("block", "10"), ("vtx_tries", "0")]);
        let _ = all(&mut t);
        let mut again = Vec::new();
        for _ in 0..4 {
            let _ = t.advance(t.due(WAIT));
            for _ in 0..3 {
                again.extend(leaves(&mut t, Kind::Resend).map(|l| l.0.0));
            }
        }
        assert_eq!(again, (1..=10).collect::<Vec<_>>());
    }
}
