//! `hxh-source`: numbers packets, and sends again what the destination lists (HxH thesis 2, 3.2;
//! Behaviour 10.7).
//!
//! Frees packets by what it overhears of the next hop where last-hop ACKs make that certain
//! (`last_hop = "lh"`), else by answers of the destination alone; what it overhears then is only
//! timed. Its lane's credits are all the congestion control there is. The last packet that the
//! buffer holds asks for an answer (ACKREQ), and so does the last of a round of repetitions;
//! unanswered, the highest packet goes again after four round trips, 1 s at least, then after
//! twice as long up to 8 s. A minute without any sign of life is the end. While the destination has
//! no room nothing else leaves.

use std::collections::VecDeque;
use wifu_engine::board::{RttFacts, TxFacts};
use wifu_engine::component::Cx;
use wifu_engine::kit::Ewma;
use wifu_engine::kit::hop::{CREDITS, LH, PACK, RTX, TYPE, is_next};
use wifu_engine::signal::{Acked, Lost};
use wifu_engine::{
    Admit, Board, Cause, Component, Descriptor, Facts, FieldUse, Kind, Out, ParamSpec, Params,
    Payload, Reason, Role, Segment, Signal, Want, WordSpec,
};
use wifu_wire::{Head, HeadField, Seq, Span, Time, Word, hxh};

/// "Answer me."
const ACKREQ: WordSpec = WordSpec::new("ackreq", 1);
/// The last packet, which carries nothing.
const LAST: WordSpec = WordSpec::new("last", 1);

/// See the module.
pub static HXH_SOURCE: Descriptor = Descriptor {
    name: "hxh-source",
    role: Role::Reliable,
    doc: "End-to-end reliability over packet numbers: passive acknowledgement, lists, requests.",
    cites: &["HxH thesis 2", "HxH thesis 3.2", "Behaviour 10.7"],
    params: &[
        ParamSpec::text(
            "last_hop",
            "lh",
            &["lh", "none"],
            "Whether the destination confirms each packet to the node before it (HxH thesis 3.2).",
        ),
        ParamSpec::span(
            "ack_limit",
            Span(60_000_000_000),
            Span(1_000_000_000),
            Span(3_600_000_000_000),
            "A destination that is asked and gives no sign of life for so long is given up.",
        ),
    ],
    words: &[
        TYPE,
        PACK,
        CREDITS.read(),
        LH.written(),
        RTX.written(),
        ACKREQ.written(),
        LAST.written(),
    ],
    probes: &["passive", "explicit", "resent", "asked", "room"],
    reads: Facts::CONN,
    writes: Facts::TX.with(Facts::RTT),
    times_repairs: true,
    hears: &[
        ("segment", &["acked", "lost"]),
        ("overheard", &["acked"]),
        ("opened", &[]),
        ("timer", &["gave-up"]),
    ],
    offers: &[Kind::Resend, Kind::New],
    needs: &[("store", &["records"])],
    hooks: &["segment", "overheard"],
    fields: &[
        FieldUse::of(HeadField::Seq),
        FieldUse::of(HeadField::Ack),
        FieldUse::of(HeadField::Ranges),
        FieldUse::of(HeadField::Ts),
        FieldUse::of(HeadField::TsEcho),
    ],
    build: |p| Ok(Box::new(HxhSource::new(p))),
    ..Descriptor::EMPTY
};

const WAIT: u8 = 0;
/// Longest interval between requests.
const RARELY: Span = Span(8_000_000_000);

/// A packet that left.
#[derive(Clone, Copy)]
struct Going {
    first: Time,
    /// When it left last, as its `ts` says.
    last: u32,
    /// It is missing and goes again.
    queued: bool,
    /// How long it took is known.
    timed: bool,
}

/// Packets on their way, at most, however small those are that the peer takes.
const MOST: u32 = 65_536;

struct HxhSource {
    /// type, pack, credits, lh, rtx, ackreq, last.
    words: [Word; 7],
    lh: bool,
    limit: Span,
    /// From `una` on.
    table: VecDeque<Going>,
    queued: u32,
    /// All up to this one arrived, as overheard.
    passive: Seq,
    rtt: Ewma,
    /// Packets that the destination has room for.
    room: u32,
    /// A request is due.
    ask: bool,
    /// Requests in a row that nothing came of, and the last sign of life while one is under way.
    tries: u32,
    alive: Option<Time>,
    /// Passive, explicit, resent, asked.
    counts: [u32; 4],
}

impl HxhSource {
    fn new(p: &Params<'_>) -> HxhSource {
        let words = ["type", "pack", "credits", "lh", "rtx", "ackreq", "last"];
        HxhSource {
            words: words.map(|w| p.word(w)),
            lh: p.text("last_hop") == "lh",
            limit: p.span("ack_limit"),
            table: VecDeque::new(),
            queued: 0,
            passive: Seq(0),
            rtt: Ewma::new(0.875),
            room: u32::MAX,
            ask: false,
            tries: 0,
            alive: None,
            counts: [0; 4],
        }
    }

    /// Packets up to `upto` arrived: how long each was on its way, that was not known yet.
    fn time(&mut self, upto: Seq, cx: &mut Cx<'_>) {
        let (una, max) = (cx.board.tx.una, cx.board.tx.max);
        if !upto.from(una) || !upto.before(max) {
            return;
        }
        let covered = upto.since(una) as usize + 1;
        let known = self.passive.plus(1).beyond(una) as usize;
        let (now, rest) = (cx.now, self.table.iter_mut().take(covered).skip(known));
        for g in rest.filter(|g| !g.timed) {
            g.timed = true;
            let rtt = now - g.first;
            let smooth = Span::from_secs_f64(self.rtt.add(rtt.as_secs_f64()));
            cx.write(|r: &mut RttFacts| {
                r.min = if r.samples == 0 { rtt } else { r.min.min(rtt) };
                (r.last, r.srtt, r.samples) = (rtt, smooth, r.samples + 1);
            });
        }
    }

    /// All up to `upto` need not be kept any more.
    fn acknowledge(&mut self, upto: Seq, cx: &mut Cx<'_>) -> bool {
        self.time(upto, cx);
        let (next, tx) = (upto.plus(1), &cx.board.tx);
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
        self.passive = self.passive.later(upto);
        let in_recovery = self.queued > 0;
        cx.out.emit(Signal::Acked(Acked {
            bytes,
            upto: next,
            in_recovery,
            limited_by,
        }));
        true
    }

    /// The destination or the way to it lives.
    fn lives(&mut self, cx: &mut Cx<'_>) {
        // Room is asked for rarer and rarer, whatever the answer.
        if self.room > 0 {
            self.tries = 0;
        }
        if self.alive.is_some() {
            self.alive = Some(cx.now);
        }
        if cx.board.tx.una == cx.board.tx.max && self.room > 0 {
            self.rest(cx);
        }
    }

    /// Nothing is asked.
    fn rest(&mut self, cx: &mut Cx<'_>) {
        (self.alive, self.ask) = (None, false);
        cx.out.disarm(WAIT);
    }

    /// There are packets that never left.
    fn more(&self, board: &Board) -> bool {
        let end = board.app.end.plus(u32::from(board.app.fin));
        board.tx.nxt.before(end)
    }

    //= spec#10.7
    // "T_ack = max(1 s, 4*e2eRTT)", "doubling to 8 s", "e2eRTT ... initial 1 s"
    fn patience(&self) -> Span {
        let rtt = self.rtt.value().map_or(Span::SECOND, Span::from_secs_f64);
        let first = (rtt * 4).max(Span::SECOND).min(RARELY);
        (first * (1 << self.tries.min(3))).min(RARELY)
    }

    /// An answer of the destination: what it has, what it lacks, what it takes.
    fn on_answer(&mut self, head: &Head, ack: Seq, cx: &mut Cx<'_>) {
        self.room = head.get(self.words[2]);
        if self.acknowledge(ack, cx) {
            self.counts[1] += 1;
        }
        let (una, before) = (cx.board.tx.una, self.queued);
        for (at, g) in self.table.iter_mut().enumerate().filter(|(_, g)| !g.queued) {
            let number = una.plus(at as u32);
            let missing = |r: &(Seq, Seq)| r.0.upto(number) && number.before(r.1);
            let named = head.ranges().iter().any(missing);
            let since = g.last.wrapping_sub(head.ts_echo) as i32;
            //= spec#10.7
            // "its last hand-down is not later than the ts echoed in the list"
            let lost = named && since <= 0;
            // A list names all below the highest number that came: without one nothing came beyond
            // `ack`, perhaps for want of room. Of what left at that instant one cannot know.
            if lost || head.ranges().is_empty() && since < 0 {
                g.queued = true;
                self.queued += 1;
            }
        }
        if self.queued > before {
            let (bytes, flight) = (self.queued - before, cx.board.tx.flight());
            cx.out.emit(Signal::Lost(Lost {
                bytes,
                flight,
                cause: Cause::Explicit,
                new_episode: before == 0,
                repeat: false,
            }));
        }
        self.lives(cx);
        let (out, more) = (cx.board.tx.una != cx.board.tx.max, self.more(&cx.board));
        let full = self.room == 0 && (out || more);
        // Unless something leaves that asks, the rest of what is on its way is asked for.
        if full || out && self.queued == 0 && !more {
            self.wait(cx);
        } else if head.get(self.words[0]) == hxh::ACK {
            self.rest(cx);
        }
    }

    /// From now on an answer is waited for.
    fn wait(&mut self, cx: &mut Cx<'_>) {
        self.alive.get_or_insert(cx.now);
        cx.out.arm_after(WAIT, self.patience());
    }

    fn send(&mut self, number: Seq, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let [kind, pack, _, lh, rtx, ackreq, last] = self.words;
        let (head, app) = (&mut *out.head, &cx.board.app);
        (head.seq, head.ts) = (number, Some(cx.now.wire_micros()));
        head.set(kind, hxh::DATA);
        head.set(pack, self.passive.0);
        head.set(lh, u32::from(self.lh));
        head.set(rtx, u32::from(out.reason != Reason::First));
        let ends = number == app.end && app.fin;
        head.set(last, u32::from(ends));
        if !ends {
            out.payload = Payload::Record(number);
        }
        //= spec#10.7
        // "The last packet leaving the transport buffer (no more data, or after a retransmission
        // round) carries ACKREQ."
        let empties = self.queued == 0 && (out.kind == Kind::Resend || !self.more(&cx.board));
        if empties || self.ask {
            out.head.set(ackreq, 1);
            self.ask = false;
            if !cx.out.armed(WAIT) {
                self.wait(cx);
            }
        }
    }

    /// The next one that never left.
    fn next(&mut self, cx: &mut Cx<'_>) -> Seq {
        let number = cx.board.tx.nxt;
        self.table.push_back(Going {
            first: cx.now,
            last: cx.now.wire_micros(),
            queued: false,
            timed: false,
        });
        let next = number.plus(1);
        cx.write(|t: &mut TxFacts| (t.nxt, t.max) = (next, next));
        number
    }

    /// The packet at this place of the table goes again.
    fn again(&mut self, at: usize, cx: &mut Cx<'_>) -> Seq {
        if let Some(g) = self.table.get_mut(at) {
            self.queued -= u32::from(g.queued);
            (g.last, g.queued) = (cx.now.wire_micros(), false);
        }
        cx.write(|t: &mut TxFacts| t.retransmits += 1);
        cx.board.tx.una.plus(at as u32)
    }
}

impl Component for HxhSource {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let [kind, pack, ..] = self.words;
        match (seg.head.get(kind), seg.head.ack) {
            _ if !cx.board.conn.running => {}
            (hxh::ACK | hxh::NACK, Some(ack)) => self.on_answer(seg.head, ack, cx),
            // A source beside the destination is the node before it.
            (hxh::LHACK, _) if self.lh => {
                let news = self.acknowledge(Seq(seg.head.get(pack)), cx);
                self.counts[1] += u32::from(news);
                if news {
                    self.lives(cx);
                }
            }
            _ => {}
        }
        Admit::Pass
    }

    //= spec#10.4
    // "Source: P advances -> RTT samples for all packets newly covered ...; LH mode frees them;
    // no-LH mode keeps them until an explicit ACK"
    fn on_overheard(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        if !cx.board.conn.running || !is_next(seg, self.words[0], cx) {
            return;
        }
        let pack = Seq(seg.head.get(self.words[1]));
        if !pack.after(self.passive) || !pack.before(cx.board.tx.max) {
            return;
        }
        if self.lh {
            self.acknowledge(pack, cx);
        } else {
            self.time(pack, cx);
        }
        self.passive = pack;
        self.counts[0] += 1;
        self.lives(cx);
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        if *signal != Signal::Opened {
            return;
        }
        let first = cx.board.tx.iss.plus(1);
        self.passive = cx.board.tx.iss;
        let most = cx.board.site.snd_buf / cx.board.conn.mss.max(1) + 66;
        self.table.reserve(most.min(MOST) as usize);
        cx.write(|t: &mut TxFacts| (t.una, t.nxt, t.max) = (first, first, first));
    }

    fn on_timer(&mut self, _timer: u8, cx: &mut Cx<'_>) {
        //= spec#10.7
        // "60 s with an ACKREQ outstanding and no ACK, NACK or advance of P -> ETIMEDOUT"
        if self.alive.is_some_and(|since| cx.now - since >= self.limit) {
            cx.out.emit(Signal::GaveUp);
            return;
        }
        self.ask = cx.board.tx.una != cx.board.tx.max || self.more(&cx.board);
        self.tries += 1;
        // Where no lane takes the request, it is due again.
        cx.out.arm_after(WAIT, self.patience());
    }

    fn offer(&self, kind: Kind, board: &Board, _now: Time) -> Option<Want> {
        let takes = self.room > 0;
        let any = match kind {
            Kind::Resend => takes && self.queued > 0 || self.ask && !self.table.is_empty(),
            // What asks is the highest that left; if all arrived, the next one.
            _ => {
                let fits = self.table.len() < self.table.capacity();
                self.more(board) && fits && (takes || self.ask && self.table.is_empty())
            }
        };
        let (bytes, least) = (1, 1);
        (any && board.conn.running).then_some(Want { kind, bytes, least })
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let number = match want.kind {
            Kind::Resend => {
                let missing = self.table.iter().position(|g| g.queued);
                let missing = missing.filter(|_| self.room > 0);
                out.reason = missing.map_or(Reason::Probe, |_| Reason::Sack);
                self.counts[if missing.is_some() { 2 } else { 3 }] += 1;
                self.again(missing.unwrap_or(self.table.len().saturating_sub(1)), cx)
            }
            _ => {
                self.counts[3] += u32::from(self.ask);
                self.next(cx)
            }
        };
        self.send(number, out, cx);
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        let names = ["passive", "explicit", "resent", "asked"];
        for (name, n) in names.into_iter().zip(self.counts) {
            probe(name, f64::from(n));
        }
        probe("room", f64::from(self.room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::Bench;
    use wifu_engine::store::StoreKind;
    use wifu_wire::{FrameFacts, Neighbour};

    /// Words by their places in the descriptor.
    const KIND: Word = Word(0);
    const PACK: Word = Word(1);
    const ROOM: Word = Word(2);
    const IS_RTX: Word = Word(4);
    const ASKS: Word = Word(5);

    fn next_hop() -> Neighbour {
        Neighbour::new(1, [2, 0, 0, 0, 0, 2]).unwrap()
    }

    /// A source of ten packets, of which all have left.
    fn source(last_hop: &str) -> Bench {
        let mut t = Bench::new(&HXH_SOURCE, &[("last_hop", last_hop)]).unwrap();
        t.now = Time(1_000_000_000);
        t.board.site.next_hop = Some(next_hop());
        (t.board.site.snd_buf, t.board.conn.mss) = (100_000, 1_000);
        t.board.conn.running = true;
        t.attach(StoreKind::Records, 0, Seq(1));
        let _ = t.signal(Signal::Opened);
        assert_eq!(t.write(&[7; 10_000]), 10_000);
        for n in 1..=10 {
            assert_eq!(leaves(&mut t, Kind::New), Some((n, false, n == 10)));
            t.now += Span::MILLI;
        }
        assert!(t.offer(Kind::New).is_none());
        t
    }

    /// What leaves of this kind: number, RTX, ACKREQ.
    fn leaves(t: &mut Bench, kind: Kind) -> Option<(u32, bool, bool)> {
        let (want, mut head) = (t.offer(kind)?, Head::default());
        let _ = t.fill(&want, &mut head);
        assert_eq!(head.get(KIND), hxh::DATA);
        Some((head.seq.0, head.get(IS_RTX) == 1, head.get(ASKS) == 1))
    }

    fn overhear(t: &mut Bench, pack: u32) -> Vec<Signal> {
        let mut head = Head::default();
        head.set(KIND, hxh::DATA);
        head.set(PACK, pack);
        let transmitter = Some(next_hop());
        let frame = FrameFacts {
            transmitter,
            along: true,
            ..FrameFacts::NONE
        };
        t.overheard(&head, &frame)
    }

    fn answer(t: &mut Bench, kind: u32, ack: u32, ranges: &[(u32, u32)], echo: Time, room: u32) {
        let mut head = Head::default();
        (head.ack, head.ts_echo) = (Some(Seq(ack)), echo.wire_micros());
        head.set(KIND, kind);
        head.set(ROOM, room);
        for (start, end) in ranges {
            head.push_range((Seq(*start), Seq(*end)));
        }
        let _ = t.segment(&head, &[]);
    }

    //= spec#10.4
    // "LH mode frees them; no-LH mode keeps them until an explicit ACK (D26)"
    #[test]
    fn what_is_overheard_frees_packets_only_where_the_last_hop_is_confirmed() {
        let mut t = source("lh");
        t.now = Time(1_000_000_000) + Span::MILLI * 50;
        assert!(matches!(overhear(&mut t, 4)[..], [Signal::Acked(a)] if a.upto == Seq(5)));
        assert_eq!((t.board.tx.una, t.board.rtt.samples), (Seq(5), 4));
        assert_eq!(
            (t.board.rtt.last, t.board.rtt.min),
            (Span::MILLI * 47, Span::MILLI * 47)
        );
        let mut t = source("none");
        t.now = Time(1_000_000_000) + Span::MILLI * 50;
        assert_eq!(overhear(&mut t, 4), []);
        assert_eq!((t.board.tx.una, t.board.rtt.samples), (Seq(1), 4));
        assert_eq!(overhear(&mut t, 4), []);
        let _ = overhear(&mut t, 6);
        assert_eq!(t.board.rtt.samples, 6, "each is timed once");
        let now = t.now;
        answer(&mut t, hxh::ACK, 8, &[], now, 9);
        assert_eq!((t.board.tx.una, t.board.rtt.samples), (Seq(9), 8));
        // Nobody is believed who speaks of what never left.
        assert_eq!(overhear(&mut t, 12), []);
        assert_eq!(t.probe("passive"), Some(2.0));
    }

    //= spec#10.7
    // "a packet is re-queued only if not already queued and its last hand-down is not later than
    // the ts echoed in the list"
    #[test]
    fn what_left_after_the_packet_that_a_list_answers_may_still_come() {
        let mut t = source("none");
        let left = |n: u64| Time(1_000_000_000) + Span::MILLI * (n - 1);
        // 5 came when 2, 3 and 4 were missing; of 7 the list cannot know.
        answer(&mut t, hxh::NACK, 1, &[(2, 5), (7, 8)], left(5), 9);
        answer(&mut t, hxh::NACK, 1, &[(2, 5)], left(5), 9);
        assert_eq!(leaves(&mut t, Kind::Resend), Some((2, true, false)));
        assert_eq!(leaves(&mut t, Kind::Resend), Some((3, true, false)));
        // The last of the round asks.
        assert_eq!(leaves(&mut t, Kind::Resend), Some((4, true, true)));
        assert!(t.offer(Kind::Resend).is_none());
        // Those are on their way again.
        answer(&mut t, hxh::NACK, 1, &[(2, 5)], left(10), 9);
        assert!(t.offer(Kind::Resend).is_none());
        assert_eq!((t.probe("resent"), t.board.tx.retransmits), (Some(3.0), 3));
        let now = t.now;
        answer(&mut t, hxh::NACK, 1, &[(3, 4)], now, 9);
        assert_eq!(leaves(&mut t, Kind::Resend), Some((3, true, true)));
    }

    //= spec#10.7
    #[test]
    fn an_answer_that_stays_away_is_asked_for_by_the_highest_packet() {
        let mut t = source("none");
        let mut waited = Vec::new();
        for _ in 0..5 {
            let before = t.now;
            let _ = t.advance(t.due(WAIT));
            waited.push((t.now - before).as_secs_f64());
            assert_eq!(leaves(&mut t, Kind::Resend), Some((10, true, true)));
        }
        // From the request on, which left 1 ms before.
        assert_eq!(waited, [3.999, 8.0, 8.0, 8.0, 8.0]);
        let now = t.now;
        answer(&mut t, hxh::ACK, 10, &[], now, 9);
        assert_eq!((t.due(WAIT), t.board.tx.una), (Time::NEVER, Seq(11)));
        assert_eq!(t.probe("asked"), Some(5.0));
    }

    #[test]
    fn while_the_destination_has_no_room_only_a_request_leaves() {
        let mut t = source("none");
        let now = t.now;
        assert_eq!(t.write(&[8; 3_000]), 3_000);
        answer(&mut t, hxh::ACK, 10, &[], now, 0);
        assert!(t.offer(Kind::New).is_none());
        let _ = t.advance(t.due(WAIT));
        // Everything arrived that left: the next one asks.
        assert_eq!(leaves(&mut t, Kind::New), Some((11, false, true)));
        assert!(t.offer(Kind::New).is_none());
        let _ = t.advance(t.due(WAIT));
        assert_eq!(leaves(&mut t, Kind::Resend), Some((11, true, true)));
        let now = t.now + Span::MILLI;
        answer(&mut t, hxh::ACK, 10, &[], now, 5);
        // Nothing came beyond 10, which found no room.
        assert_eq!(leaves(&mut t, Kind::Resend), Some((11, true, true)));
        assert_eq!(leaves(&mut t, Kind::New), Some((12, false, false)));
        assert_eq!(leaves(&mut t, Kind::New), Some((13, false, true)));
    }

    #[test]
    fn a_minute_of_silence_is_the_end_and_a_passive_word_is_a_sign_of_life() {
        let mut t = source("none");
        let silent = |t: &mut Bench| {
            let begun = t.now;
            while t.due(WAIT) != Time::NEVER {
                if t.advance(t.due(WAIT)).contains(&Signal::GaveUp) {
                    return (t.now - begun).as_secs_f64();
                }
                let _ = leaves(t, Kind::Resend);
            }
            0.0
        };
        let _ = t.advance(t.now + Span::SECOND * 30);
        let _ = leaves(&mut t, Kind::Resend);
        let _ = overhear(&mut t, 3);
        assert!((60.0..70.0).contains(&silent(&mut t)));
    }
}
