//! `hop-queue`: the queue of a lane, which hands packets down in their order and tells upstream by
//! them what it takes and what arrived (HxH thesis 2, 3.2; Behaviour 10.2 to 10.4, 10.6).
//!
//! Writes `pack` and `credits` into what leaves. `pack` is what is known of the destination: from
//! what the next hop is heard sending, from answers that pass, and before the last hop from what
//! the destination has: told by its last-hop ACKs where the source asked for them (LH), else what
//! was sent. Such packets are kept until they are confirmed and go again before all others, so
//! often; half of the places may be taken by them. `custody = "mac"` keeps each packet at every
//! node until the MAC reports that the next hop has it, `hop_ack` until the next hop says so.
//! Answers questions for credits.

use std::collections::VecDeque;
use wifu_engine::board::{ConnFacts, TxFacts};
use wifu_engine::component::Cx;
use wifu_engine::kit::hop::{CREDITS, LH, PACK, RTX, TRANSMITTER, TYPE, advertised, is_next};
use wifu_engine::kit::{Ewma, Ranges};
use wifu_engine::{
    Admit, Board, Component, Descriptor, Fact, Facts, FieldUse, Kind, Out, ParamSpec, Params,
    Payload, Reason, Role, Segment, Signal, Status, Ticket, Want,
};
use wifu_wire::{Class, Head, HeadField, LinkTo, Neighbour, Seq, Span, Time, Word, hxh};

/// See the module.
pub static HOP_QUEUE: Descriptor = Descriptor {
    name: "hop-queue",
    role: Role::Reliable,
    doc: "The queue of a lane: credits, passive acknowledgement, custody of the last hop.",
    cites: &[
        "HxH thesis 2",
        "HxH thesis 3.2",
        "Behaviour 10.2",
        "Behaviour 10.3",
        "Behaviour 10.4",
        "Behaviour 10.6",
    ],
    params: &[
        ParamSpec::text(
            "custody",
            "last",
            &["last", "mac"],
            "What a node keeps after it left: what the source wants confirmed over the last hop \
             (last), or everything until the MAC reports it (mac; HxH thesis 2).",
        ),
        ParamSpec::int(
            "hop_tries",
            20,
            1,
            1_000,
            "How often a kept packet goes again before it is dropped.",
        ),
        ParamSpec::int(
            "hop_ack",
            0,
            0,
            64,
            "Acknowledge to the node before each so many packets, which keeps them so long; 0: not \
             (HxH thesis 6.1.1).",
        ),
    ],
    words: &[TYPE, PACK, CREDITS, LH.read(), RTX.read(), TRANSMITTER],
    probes: &[
        "pack", "kept", "again", "given_up", "answered", "hop_acks", "sent",
    ],
    writes: Facts::TX.with(Facts::CONN),
    wants: Facts::RTT,
    requires: &[Fact::NextHop, Fact::Transmitter],
    hears: &[
        ("segment", &[]),
        ("overheard", &[]),
        ("timer", &[]),
        ("wrote", &["opened"]),
        ("returned", &[]),
        ("status", &[]),
        ("route", &[]),
    ],
    offers: &[Kind::Urgent, Kind::Resend, Kind::New],
    needs: &[("store", &["packets"])],
    hooks: &["segment", "overheard"],
    fields: &[
        FieldUse::of(HeadField::Seq),
        FieldUse::of(HeadField::Ack),
        FieldUse::of(HeadField::Ranges).unless("hop_ack", "0"),
    ],
    build: |p| Ok(Box::new(HopQueue::new(p))),
    ..Descriptor::EMPTY
};

/// A driver that reports nothing for so long has lost the packet.
const SILENT: Span = Span(2_000_000_000);
/// Runs of missing numbers that an acknowledgement to the node before names at most.
const RUNS: usize = 64;
/// Numbers so far below the highest that came count as having come: the source asks for them. No
/// node before keeps packets for so long, unless it has more than twice as many places.
const REMEMBERED: u32 = 1_024;

/// What becomes of a kept packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Somebody is to confirm it by then.
    Waits(Time),
    /// It goes again then.
    Later(Time),
    /// It goes again.
    Again,
    /// It came back: as if it had never left.
    Unsent,
}

struct Kept {
    ticket: Ticket,
    number: Seq,
    /// When it left first, and last.
    first: Time,
    sent: Time,
    next: Next,
    tries: u32,
}

struct HopQueue {
    /// type, pack, credits, lh.
    words: [Word; 4],
    rtx: Word,
    mac: bool,
    /// The driver reported something; it never does.
    reported: bool,
    mute: bool,
    tries: u32,
    /// Packets per acknowledgement to the node before; 0: none.
    every: u32,
    places: u32,
    /// The source wants the last hop confirmed.
    lh: bool,
    /// `None` before anything was said of it.
    pack: Option<Seq>,
    kept: VecDeque<Kept>,
    /// What the destination has, beyond `pack`.
    got: Ranges,
    /// Of the last hop and back.
    rtt: Ewma,
    /// Who asked for credits.
    asked: Option<Neighbour>,
    /// What came from the node before, beyond what counts as having come, and how many since it
    /// was told.
    came: Ranges,
    floor: Option<Seq>,
    fresh: u32,
    /// It came just now; whether there is a place for it is to be seen.
    coming: Option<Seq>,
    /// The next hop, and the node before.
    next: Option<Neighbour>,
    before: Option<Neighbour>,
    /// Again, given up, answered, acknowledgements to the node before, handed down.
    counts: [u32; 5],
}

impl HopQueue {
    fn new(p: &Params<'_>) -> HopQueue {
        HopQueue {
            words: ["type", "pack", "credits", "lh"].map(|w| p.word(w)),
            rtx: p.word("rtx"),
            mac: p.text("custody") == "mac",
            reported: false,
            mute: false,
            tries: p.int("hop_tries") as u32,
            every: p.int("hop_ack") as u32,
            places: 0,
            lh: false,
            pack: None,
            kept: VecDeque::new(),
            got: Ranges::new(1_024),
            rtt: Ewma::new(0.875),
            asked: None,
            came: Ranges::new(RUNS),
            floor: None,
            fresh: 0,
            coming: None,
            next: None,
            before: None,
            counts: [0; 5],
        }
    }

    fn learn(&mut self, pack: Seq) {
        let now = self.pack.map_or(pack, |p| p.later(pack));
        self.pack = Some(now);
        self.got.forget(now.plus(1));
        // What came in order behind it arrived, too.
        if let Some((_, end)) = self.got.covering(now.plus(1)) {
            self.pack = Some(end.minus(1));
            self.got.forget(end);
        }
    }

    /// The destination has `number`, as far as this node, the last before it, knows.
    fn delivered(&mut self, number: Seq) {
        let pack = self.pack.unwrap_or(Seq(0));
        if number.after(pack) {
            self.got.insert(number, number.plus(1));
            self.learn(pack);
        }
    }

    //= spec#10.6
    // "T_lh = clamp(2*lhRTT, 10 ms, 1 s) (lhRTT EWMA 0.875, initial 25 ms)"
    fn patience(&self) -> Span {
        let rtt = self.rtt.value().map(Span::from_secs_f64);
        let rtt = rtt.unwrap_or(Span::MILLI * 25);
        (rtt * 2).clamp(Span::MILLI * 10, Span::SECOND)
    }

    /// Whether the MAC says here what is kept no longer. Where the destination confirms packets
    /// only that counts: one that it had no room for reached it as well.
    fn by_mac(&self, board: &Board) -> bool {
        self.mac && !(self.lh && board.site.last_hop)
    }

    /// Whether what leaves now is kept.
    fn keeps(&self, board: &Board) -> bool {
        // The destination has no lane that could answer a node.
        let last = board.site.last_hop;
        self.by_mac(board) && !self.mute || self.every > 0 && !last || self.lh && last
    }

    /// Until when what leaves now is to be confirmed.
    fn until(&self, cx: &Cx<'_>) -> Time {
        let by_mac = self.by_mac(&cx.board);
        cx.now + if by_mac { SILENT } else { self.patience() }
    }

    /// Whoever it was for has `number`: it is kept no longer.
    fn confirmed(&mut self, number: Seq, cx: &mut Cx<'_>) -> bool {
        let Some(at) = self.kept.iter().position(|k| k.number == number) else {
            return false;
        };
        if let Some(k) = self.kept.remove(at) {
            // From when it left first: if only those counted that left once, a queue that takes
            // longer than the first guess would never be measured, and everything went twice.
            self.rtt.add((cx.now - k.first).as_secs_f64());
            cx.out.release(k.ticket);
        }
        true
    }

    /// When the first kept packet is looked at again.
    fn rearm(&mut self, cx: &mut Cx<'_>) {
        let waits = self.kept.iter().filter_map(|k| match k.next {
            Next::Waits(until) | Next::Later(until) => Some(until),
            _ => None,
        });
        match waits.min() {
            Some(until) => cx.out.arm(0, until.max(Time(cx.now.0 + 1))),
            None => cx.out.disarm(0),
        }
    }

    fn on_data(&mut self, seg: &Segment<'_>) -> Admit {
        let [_, pack, _, lh] = self.words;
        self.lh = seg.head.get(lh) == 1;
        //= spec#10.4
        // "Fresh node: also P := max(P, x.pack) from DATA received from upstream"
        self.learn(Seq(seg.head.get(pack)));
        if self.every == 0 || seg.frame.transmitter.is_none() {
            return Admit::Pass;
        }
        self.before = seg.frame.transmitter;
        let number = seg.head.seq;
        let below = self.floor.is_some_and(|f| number.upto(f));
        if below || self.came.covering(number).is_some() {
            // The node before did not hear that it had come, or the source lacks it.
            self.fresh = self.every;
            if seg.head.get(self.rtx) == 0 {
                return Admit::Drop("it has come already");
            }
        }
        self.coming = Some(number);
        Admit::Pass
    }

    /// What came last has a place.
    fn taken_in(&mut self) {
        if let Some(number) = self.coming.take() {
            self.came.insert(number, number.plus(1));
            self.fresh = self.fresh.saturating_add(1);
            let first = Seq(number.0.saturating_sub(REMEMBERED));
            let mut floor = self.floor.unwrap_or(first);
            let top = self.came.list().last().map_or(number, |r| r.1);
            if top.since(floor) > 1 + REMEMBERED {
                floor = top.minus(1 + REMEMBERED);
            }
            if let Some((_, end)) = self.came.covering(floor.plus(1)) {
                floor = end.minus(1);
            }
            self.came.forget(floor.plus(1));
            self.floor = Some(floor);
        }
    }

    /// What the next hop says that it has: all up to a number, but for some.
    fn on_hop_ack(&mut self, head: &Head, cx: &mut Cx<'_>) {
        let misses = |n: Seq| head.ranges().iter().any(|r| r.0.upto(n) && n.before(r.1));
        let came = self.kept.iter().find(|k| k.number == head.seq);
        let came = came.map_or(Time::ZERO, |k| k.sent);
        let told = |k: &&Kept| k.number.upto(head.seq) && !misses(k.number);
        while let Some(number) = self.kept.iter().find(told).map(|k| k.number) {
            self.confirmed(number, cx);
        }
        // The way to the next hop is a queue: what left before a packet that came is lost.
        let waits = |k: &&mut Kept| matches!(k.next, Next::Waits(_)) && k.sent <= came;
        for k in self.kept.iter_mut().filter(waits) {
            if misses(k.number) {
                k.next = Next::Again;
            }
        }
        self.rearm(cx);
    }

    /// The packet that leaves, and whether it is kept.
    fn again(&mut self, at: usize, keep: bool, cx: &mut Cx<'_>) -> Option<(Ticket, Seq)> {
        let until = self.until(cx);
        let k = self.kept.get_mut(at)?;
        let found = (k.ticket, k.number);
        if keep {
            // What came back never left.
            if k.next == Next::Unsent {
                k.first = cx.now;
            }
            (k.sent, k.next) = (cx.now, Next::Waits(until));
        } else {
            self.kept.remove(at);
        }
        Some(found)
    }

    fn first(&mut self, keep: bool, cx: &mut Cx<'_>) -> Option<(Ticket, Seq)> {
        let unsent = self.kept.iter().position(|k| k.next == Next::Unsent);
        if let Some(at) = unsent {
            return self.again(at, keep, cx);
        }
        let (ticket, number) = cx.store.pop()?;
        if keep {
            let until = self.until(cx);
            let (first, sent, next, tries) = (cx.now, cx.now, Next::Waits(until), 0);
            self.kept.push_back(Kept {
                ticket,
                number,
                first,
                sent,
                next,
                tries,
            });
        } else if cx.board.site.last_hop {
            //= spec#10.3
            // "if penultimate and no LH: mark delivered(x)"
            self.delivered(number);
        }
        Some((ticket, number))
    }

    fn answer(&mut self, out: &mut Out<'_>, board: &Board) {
        let [kind, _, credits, _] = self.words;
        if let Some(to) = self.asked.take() {
            out.aside.to = LinkTo::Neighbour(to);
            out.head.set(kind, hxh::CREDITS);
            out.head
                .set(credits, advertised(self.places, self.taken(board)));
            self.counts[2] += 1;
            return;
        }
        out.aside.to = self.before.map_or(LinkTo::Route, LinkTo::Neighbour);
        out.head.set(kind, hxh::HOP_ACK);
        let ranges = self.came.list();
        let floor = self.floor.unwrap_or(Seq(0));
        out.head.seq = ranges.last().map_or(floor, |r| r.1.minus(1));
        let mut missing = floor.plus(1);
        for r in ranges {
            if missing.before(r.0) {
                out.head.push_range((missing, r.0));
            }
            missing = r.1;
        }
        self.fresh = 0;
        self.counts[3] += 1;
    }

    fn taken(&self, board: &Board) -> u32 {
        board.app.queued + self.kept.len() as u32
    }
}

impl Component for HopQueue {
    /// What passes in either direction, and what the nodes beside say to this one.
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let (head, along) = (seg.head, seg.frame.along);
        let [kind, pack, ..] = self.words;
        match (head.get(kind), along) {
            (hxh::DATA, true) => return self.on_data(seg),
            (hxh::CREDIT_REQUEST, true) => self.asked = seg.frame.transmitter,
            (hxh::HOP_ACK, true) if seg.frame.transmitter == cx.board.site.next_hop => {
                self.on_hop_ack(head, cx);
            }
            (hxh::LHACK, false) => {
                self.confirmed(head.seq, cx);
                self.delivered(head.seq);
                self.learn(Seq(head.get(pack)));
                self.rearm(cx);
            }
            //= spec#10.4
            // "Also taken from ACK packets passing by (ack value) and from SYNACK."
            (hxh::ACK | hxh::NACK | hxh::SYNACK, false) => {
                if let Some(ack) = head.ack {
                    self.learn(ack);
                }
            }
            _ => {}
        }
        Admit::Pass
    }

    fn on_overheard(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        if is_next(seg, self.words[0], cx) {
            self.learn(Seq(seg.head.get(self.words[1])));
        }
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        match signal {
            // The first packet opens the lane.
            Signal::Wrote if self.places == 0 => {
                self.taken_in();
                self.places = cx.board.app.queued + cx.board.app.room;
                self.kept.reserve(self.places as usize);
                self.next = cx.board.site.next_hop;
                cx.write(|c: &mut ConnFacts| c.running = true);
                cx.out.emit(Signal::Opened);
            }
            Signal::Wrote => self.taken_in(),
            Signal::Returned(number) => {
                for k in self.kept.iter_mut().filter(|k| k.number == *number) {
                    k.next = Next::Unsent;
                }
                self.rearm(cx);
            }
            Signal::Status(s) if self.by_mac(&cx.board) && s.class == Class::Data => {
                self.on_status(s, cx);
            }
            // What waited for the destination's word may be far from it now.
            Signal::Route if cx.board.site.next_hop != self.next => {
                self.next = cx.board.site.next_hop;
                for k in self.kept.iter_mut().filter(|k| k.next != Next::Unsent) {
                    k.next = Next::Again;
                }
                self.rearm(cx);
            }
            _ => {}
        }
    }

    fn on_timer(&mut self, _timer: u8, cx: &mut Cx<'_>) {
        let now = cx.now;
        let by_mac = self.by_mac(&cx.board);
        if by_mac {
            self.unreported(cx);
        }
        for k in &mut self.kept {
            if matches!(k.next, Next::Waits(until) | Next::Later(until) if until <= now) {
                k.next = Next::Again;
            }
        }
        //= spec#10.6
        // "at most 20 times, then drops it (end-to-end recovery)"
        // What the MAC is to report stays until it does (10.9).
        let spent = |k: &Kept, tries| !by_mac && k.next == Next::Again && k.tries >= tries;
        while let Some(at) = self.kept.iter().position(|k| spent(k, self.tries)) {
            if let Some(k) = self.kept.remove(at) {
                cx.out.release(k.ticket);
                self.counts[1] += 1;
            }
        }
        self.rearm(cx);
    }

    fn offer(&self, kind: Kind, board: &Board, _now: Time) -> Option<Want> {
        let is = |next: Next| self.kept.iter().any(|k| k.next == next);
        let most = (self.places / 2).max(1);
        let any = match kind {
            // The node before keeps no more than it may.
            Kind::Urgent => {
                self.asked.is_some() || self.every > 0 && self.fresh >= self.every.min(most)
            }
            Kind::Resend => is(Next::Again),
            // What came back from the MAC stands at the head of the queue, and is waited for.
            _ if self.kept.iter().any(|k| matches!(k.next, Next::Later(_))) => false,
            //= spec#10.6
            // "At most max(1, floor(B/2)) packets may wait for LHACK; more stay in Q."
            _ if self.keeps(board) => {
                is(Next::Unsent) || board.app.queued > 0 && (self.kept.len() as u32) < most
            }
            _ => is(Next::Unsent) || board.app.queued > 0,
        };
        let (bytes, least) = if kind == Kind::Urgent { (0, 0) } else { (1, 1) };
        any.then_some(Want { kind, bytes, least })
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        if want.kind == Kind::Urgent {
            return self.answer(out, &cx.board);
        }
        let keep = self.keeps(&cx.board);
        let popped =
            u32::from(want.kind == Kind::New && self.kept.iter().all(|k| k.next != Next::Unsent));
        let found = if want.kind == Kind::Resend {
            let at = self.kept.iter().position(|k| k.next == Next::Again);
            if let Some(k) = at.and_then(|at| self.kept.get_mut(at)) {
                k.tries += 1;
            }
            self.counts[0] += 1;
            out.reason = Reason::Timeout;
            cx.write(|t: &mut TxFacts| t.retransmits += 1);
            at.and_then(|at| self.again(at, keep, cx))
        } else {
            self.first(keep, cx)
        };
        let Some((ticket, number)) = found else {
            return;
        };
        self.counts[4] += 1;
        out.head.seq = number;
        out.payload = Payload::Packet { ticket, keep };
        let [_, pack, credits, _] = self.words;
        out.head.set(pack, self.pack.unwrap_or(Seq(0)).0);
        let taken = self.taken(&cx.board).saturating_sub(popped);
        out.head.set(credits, advertised(self.places, taken));
        self.rearm(cx);
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("pack", f64::from(self.pack.unwrap_or(Seq(0)).0));
        probe("kept", self.kept.len() as f64);
        let names = ["again", "given_up", "answered", "hop_acks", "sent"];
        for (name, n) in names.into_iter().zip(self.counts) {
            probe(name, f64::from(n));
        }
    }
}

impl HopQueue {
    //= spec#10.9
    // "a packet stays at the node until the MAC reports success; failure = link-send error (back to
    // the head of Q, retry after hopRTT); the penultimate node marks delivered on MAC success"
    fn on_status(&mut self, s: &Status, cx: &mut Cx<'_>) {
        (self.reported, self.mute) = (true, false);
        if s.delivered {
            if self.confirmed(s.number, cx) && cx.board.site.last_hop {
                self.delivered(s.number);
            }
        } else {
            let rtt = &cx.board.rtt;
            let wait = if rtt.samples > 0 {
                rtt.srtt
            } else {
                Span::MILLI * 50
            };
            let until = cx.now + wait;
            let lost = |k: &&mut Kept| k.number == s.number && matches!(k.next, Next::Waits(_));
            for k in self.kept.iter_mut().filter(lost) {
                k.next = Next::Later(until);
            }
        }
        self.rearm(cx);
    }

    /// What the driver should have reported by now is lost. One that never reports anything, as
    /// those of wires do, is not waited for again.
    fn unreported(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        let silent = |k: &Kept| matches!(k.next, Next::Waits(until) if until <= now);
        while let Some(at) = self.kept.iter().position(silent) {
            if let Some(k) = self.kept.remove(at) {
                cx.out.release(k.ticket);
                self.counts[1] += 1;
                self.mute = !self.reported;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::Bench;
    use wifu_engine::store::StoreKind;
    use wifu_wire::FrameFacts;

    /// Words by their places in the descriptor.
    const KIND: Word = Word(0);
    const PACK: Word = Word(1);
    const CREDITS: Word = Word(2);
    const LH: Word = Word(3);

    fn node(last: u8) -> Neighbour {
        Neighbour::new(1, [2, 0, 0, 0, 0, last]).unwrap()
    }

    fn lane(places: usize, set: &[(&str, &str)]) -> Bench {
        let mut t = Bench::new(&HOP_QUEUE, set).unwrap();
        t.now = Time(1_000_000_000);
        t.board.site.next_hop = Some(node(2));
        t.attach(StoreKind::Packets, places, Seq(0));
        t
    }

    /// The last node before the destination.
    fn last(places: usize) -> Bench {
        let mut t = lane(places, &[]);
        t.board.site.last_hop = true;
        t
    }

    fn frame(along: bool) -> FrameFacts {
        let transmitter = Some(node(1));
        FrameFacts {
            transmitter,
            along,
            ..FrameFacts::NONE
        }
    }

    /// Data of this number come and enter the lane.
    fn come(t: &mut Bench, number: u32, lh: bool) -> Admit {
        let mut head = Head::default();
        head.seq = Seq(number);
        head.set(KIND, hxh::DATA);
        head.set(LH, u32::from(lh));
        let admit = t.segment_by(&head, &[], &frame(true)).0;
        if admit == Admit::Pass {
            assert!(t.push(Ticket(number), Seq(number)));
            let _ = t.signal(Signal::Wrote);
        }
        admit
    }

    /// What leaves of this kind: number, whether it is kept, `pack`, `credits`.
    fn leaves(t: &mut Bench, kind: Kind) -> Option<(u32, bool, u32, u32)> {
        let (want, mut head) = (t.offer(kind)?, Head::default());
        let (payload, _, _) = t.fill(&want, &mut head);
        let Payload::Packet { ticket, keep } = payload else {
            panic!("{payload:?}");
        };
        assert_eq!(ticket.0, head.seq.0);
        Some((head.seq.0, keep, head.get(PACK), head.get(CREDITS)))
    }

    /// Something comes back for the lane.
    fn back(t: &mut Bench, kind: u32, number: u32, pack: u32) {
        let mut head = Head::default();
        head.set(KIND, kind);
        if kind == hxh::LHACK {
            head.seq = Seq(number);
            head.set(PACK, pack);
        } else {
            head.ack = Some(Seq(number));
        }
        let _ = t.segment_by(&head, &[], &frame(false));
    }

    fn overhear(t: &mut Bench, from: u8, pack: u32) {
        let mut head = Head::default();
        head.set(KIND, hxh::DATA);
        head.set(PACK, pack);
        let transmitter = Some(node(from));
        let frame = FrameFacts {
            transmitter,
            along: true,
            ..FrameFacts::NONE
        };
        let _ = t.overheard(&head, &frame);
    }

    fn pack(t: &Bench) -> f64 {
        t.probe("pack").unwrap()
    }

    //= spec#10.2
    // "Advertised credits = floor((B - occupancy)/2) ... computed at hand-down time"
    #[test]
    fn half_of_the_free_places_are_told() {
        let mut t = lane(8, &[]);
        for n in 1..=4 {
            assert_eq!(come(&mut t, n, false), Admit::Pass);
        }
        // What is handed down is in the queue no more.
        let told: Vec<u32> = (0..4)
            .map(|_| leaves(&mut t, Kind::New).unwrap().3)
            .collect();
        assert_eq!(told, [2, 3, 3, 4]);
        assert!(leaves(&mut t, Kind::New).is_none());
    }

    //= spec#10.4
    #[test]
    fn what_arrived_is_learnt_from_the_next_hop_from_answers_and_from_upstream() {
        let mut t = lane(8, &[]);
        let _ = come(&mut t, 1, false);
        assert_eq!(pack(&t), 0.0);
        overhear(&mut t, 2, 5);
        assert_eq!(pack(&t), 5.0);
        overhear(&mut t, 2, 4);
        overhear(&mut t, 3, 9);
        assert_eq!(
            pack(&t),
            5.0,
            "it never falls, and only the next hop is believed"
        );
        for (kind, number, known) in [
            (hxh::ACK, 7, 7.0),
            (hxh::NACK, 6, 7.0),
            (hxh::NACK, 8, 8.0),
            (hxh::SYNACK, 0, 8.0),
        ] {
            back(&mut t, kind, number, 0);
            assert_eq!(pack(&t), known);
        }
        let mut head = Head::default();
        head.set(KIND, hxh::DATA);
        head.set(PACK, 12);
        let _ = t.segment_by(&head, &[], &frame(true));
        assert_eq!(
            pack(&t),
            12.0,
            "a node that is new learns from the one before"
        );
        assert_eq!(leaves(&mut t, Kind::New), Some((1, false, 12, 4)));
    }

    //= spec#10.3
    // "if penultimate and no LH: mark delivered(x)"
    #[test]
    fn before_the_last_hop_what_left_has_arrived_if_nobody_says_otherwise() {
        let mut t = last(8);
        for n in [1, 2, 4] {
            let _ = come(&mut t, n, false);
            assert!(matches!(leaves(&mut t, Kind::New), Some((m, false, ..)) if m == n));
        }
        //= spec#10.4
        // "Gaps (packets that never arrived) stop P until an end-to-end retransmission passes."
        assert_eq!(pack(&t), 2.0);
        let _ = come(&mut t, 3, false);
        assert_eq!(leaves(&mut t, Kind::New), Some((3, false, 4, 4)));
    }

    //= spec#10.6
    #[test]
    fn the_last_node_keeps_what_the_destination_has_not_confirmed() {
        let mut t = last(8);
        for n in 1..=6 {
            let _ = come(&mut t, n, true);
        }
        // At most half of the places wait; those and the queue take credits.
        let left: Vec<_> = std::iter::from_fn(|| leaves(&mut t, Kind::New)).collect();
        assert_eq!(left.len(), 4);
        assert_eq!(left[3], (4, true, 0, 1));
        back(&mut t, hxh::LHACK, 1, 1);
        back(&mut t, hxh::LHACK, 3, 1);
        assert_eq!((pack(&t), t.freed()), (1.0, vec![Ticket(1), Ticket(3)]));
        assert_eq!(t.probe("kept"), Some(2.0));
        assert_eq!(leaves(&mut t, Kind::New), Some((5, true, 1, 2)));
        // 2 is confirmed by the one after it, if that says so.
        back(&mut t, hxh::LHACK, 4, 4);
        assert_eq!((pack(&t), t.probe("kept")), (4.0, Some(2.0)));
    }

    //= spec#10.6
    #[test]
    fn what_is_not_confirmed_goes_again_before_all_others_twenty_times() {
        let mut t = last(8);
        for n in 1..=3 {
            let _ = come(&mut t, n, true);
        }
        let _ = leaves(&mut t, Kind::New);
        assert!(leaves(&mut t, Kind::Resend).is_none());
        assert_eq!(t.due(0) - t.now, Span::MILLI * 50, "twice 25 ms");
        let mut again = 0;
        while t.due(0) != Time::NEVER {
            let _ = t.advance(t.due(0));
            again += u32::from(leaves(&mut t, Kind::Resend).is_some());
        }
        assert_eq!((again, t.probe("given_up")), (20, Some(1.0)));
        assert_eq!((t.freed(), t.probe("kept")), (vec![Ticket(1)], Some(0.0)));
        assert_eq!(pack(&t), 0.0);
        // A round trip of the last hop of 4 ms: no wait is shorter than 10 ms.
        let _ = leaves(&mut t, Kind::New);
        t.now += Span::MILLI * 4;
        back(&mut t, hxh::LHACK, 2, 0);
        let _ = leaves(&mut t, Kind::New);
        assert_eq!(t.due(0) - t.now, Span::MILLI * 10);
    }

    /// A queue before the last hop takes longer than the first guess: everything goes twice once,
    /// until it is measured.
    #[test]
    fn a_last_hop_that_takes_long_is_waited_for() {
        let mut t = last(64);
        let mut again = 0;
        for n in 1..=60 {
            let _ = come(&mut t, n, true);
            let _ = leaves(&mut t, Kind::New);
            let there = t.now + Span::MILLI * 200;
            while t.due(0) < there {
                let _ = t.advance(t.due(0));
                again += u32::from(leaves(&mut t, Kind::Resend).is_some());
            }
            t.now = there;
            back(&mut t, hxh::LHACK, n, n);
        }
        assert!((3..=6).contains(&again), "{again}");
    }

    #[test]
    fn a_kept_packet_that_came_back_leaves_as_if_for_the_first_time() {
        let mut t = last(8);
        for n in 1..=2 {
            let _ = come(&mut t, n, true);
        }
        let _ = leaves(&mut t, Kind::New);
        let _ = t.signal(Signal::Returned(Seq(1)));
        assert!(leaves(&mut t, Kind::Resend).is_none());
        assert_eq!(t.due(0), Time::NEVER);
        assert!(matches!(leaves(&mut t, Kind::New), Some((1, true, ..))));
        assert!(matches!(leaves(&mut t, Kind::New), Some((2, true, ..))));
        assert_eq!((t.probe("again"), t.probe("sent")), (Some(0.0), Some(3.0)));
    }

    #[test]
    fn what_waits_for_the_destination_goes_again_along_a_new_route() {
        let mut t = last(8);
        let _ = come(&mut t, 1, true);
        let _ = leaves(&mut t, Kind::New);
        let _ = t.signal(Signal::Route);
        assert!(leaves(&mut t, Kind::Resend).is_none(), "the same next hop");
        (t.board.site.next_hop, t.board.site.last_hop) = (Some(node(7)), false);
        let _ = t.signal(Signal::Route);
        // The last node is another one now: that keeps it.
        assert!(matches!(leaves(&mut t, Kind::Resend), Some((1, false, ..))));
        assert_eq!(t.probe("kept"), Some(0.0));
    }

    fn status(t: &mut Bench, number: u32, delivered: bool) {
        let _ = t.signal(Signal::Status(Status {
            number: Seq(number),
            class: Class::Data,
            delivered,
            attempts: 1,
            airtime_ns: None,
            delay: None,
        }));
    }

    //= spec#10.9
    #[test]
    fn custody_by_the_mac_ends_when_the_next_hop_has_a_packet() {
        let mut t = lane(8, &[("custody", "mac")]);
        for n in 1..=3 {
            let _ = come(&mut t, n, false);
        }
        assert_eq!(leaves(&mut t, Kind::New), Some((1, true, 0, 2)));
        status(&mut t, 1, true);
        assert_eq!((t.freed(), pack(&t)), (vec![Ticket(1)], 0.0));
        let _ = leaves(&mut t, Kind::New);
        t.board.rtt.samples = 1;
        t.board.rtt.srtt = Span::MILLI * 7;
        status(&mut t, 2, false);
        assert!(leaves(&mut t, Kind::Resend).is_none());
        assert_eq!(
            t.due(0) - t.now,
            Span::MILLI * 7,
            "after a round trip of the hop"
        );
        let _ = t.advance(t.due(0));
        assert!(matches!(leaves(&mut t, Kind::Resend), Some((2, true, ..))));
        t.board.site.last_hop = true;
        status(&mut t, 2, true);
        let _ = leaves(&mut t, Kind::New);
        status(&mut t, 3, true);
        assert_eq!(
            (t.probe("kept"), pack(&t)),
            (Some(0.0), 0.0),
            "1 left before: unknown"
        );
        // A driver that says nothing is waited for once.
        let mut t = lane(8, &[("custody", "mac")]);
        for n in 1..=2 {
            let _ = come(&mut t, n, false);
        }
        assert!(matches!(leaves(&mut t, Kind::New), Some((1, true, ..))));
        let _ = t.advance(t.now + SILENT);
        assert_eq!((t.freed(), t.probe("again")), (vec![Ticket(1)], Some(0.0)));
        assert!(matches!(leaves(&mut t, Kind::New), Some((2, false, ..))));
        // Without this custody nobody asks the driver.
        let mut t = last(8);
        let _ = come(&mut t, 1, true);
        let _ = leaves(&mut t, Kind::New);
        status(&mut t, 1, true);
        assert_eq!(t.probe("kept"), Some(1.0));
        // What the destination is to confirm its MAC has not: there may be no room for it.
        let mut t = lane(8, &[("custody", "mac")]);
        t.board.site.last_hop = true;
        let _ = come(&mut t, 1, true);
        let _ = leaves(&mut t, Kind::New);
        status(&mut t, 1, true);
        assert_eq!((t.probe("kept"), pack(&t)), (Some(1.0), 0.0));
        back(&mut t, hxh::LHACK, 1, 1);
        assert_eq!((t.probe("kept"), pack(&t)), (Some(0.0), 1.0));
    }

    //= spec#10.9
    // "a packet stays at the node until the MAC reports success"
    #[test]
    fn what_the_mac_lost_holds_back_the_queue_and_is_never_given_up() {
        let mut t = lane(8, &[("custody", "mac"), ("hop_tries", "2")]);
        for n in 1..=2 {
            let _ = come(&mut t, n, false);
        }
        let _ = leaves(&mut t, Kind::New);
        for _ in 0..10 {
            status(&mut t, 1, false);
            assert!(leaves(&mut t, Kind::New).is_none());
            let _ = t.advance(t.due(0));
            assert!(matches!(leaves(&mut t, Kind::Resend), Some((1, true, ..))));
        }
        assert_eq!(t.probe("given_up"), Some(0.0));
        status(&mut t, 1, true);
        assert!(matches!(leaves(&mut t, Kind::New), Some((2, true, ..))));
    }

    //= spec#10.9
    #[test]
    fn a_question_for_credits_is_answered_to_who_asked() {
        let mut t = lane(8, &[]);
        let _ = come(&mut t, 1, false);
        let mut head = Head::default();
        head.set(KIND, hxh::CREDIT_REQUEST);
        let _ = t.segment_by(&head, &[], &frame(true));
        let want = t.offer(Kind::Urgent).expect("an answer");
        let (mut answer, mut aside) = (Head::default(), wifu_engine::Aside::NONE);
        let _ = t.fill_aside(&want, &mut answer, &mut aside);
        assert_eq!((answer.get(KIND), answer.get(CREDITS)), (hxh::CREDITS, 3));
        assert_eq!(aside.to, LinkTo::Neighbour(node(1)));
        assert!(t.offer(Kind::Urgent).is_none());
    }

    //= spec#10.9
    // "hop_ack=k (next hop acknowledges every k packets with a list, sender keeps and resends)"
    #[test]
    fn nodes_may_acknowledge_to_each_other() {
        let set = [("hop_ack", "3")];
        let (mut a, mut b) = (lane(16, &set), lane(16, &set));
        for n in 1..=5 {
            let _ = come(&mut a, n, false);
            assert!(matches!(leaves(&mut a, Kind::New), Some((m, true, ..)) if m == n));
        }
        a.now += Span::MILLI * 60;
        for n in [1, 3] {
            let _ = come(&mut b, n, false);
            assert!(b.offer(Kind::Urgent).is_none());
        }
        let _ = come(&mut b, 5, false);
        let mut told = Head::default();
        let want = b.offer(Kind::Urgent).expect("three came");
        let _ = b.fill(&want, &mut told);
        assert_eq!((told.get(KIND), told.seq), (hxh::HOP_ACK, Seq(5)));
        assert_eq!(told.ranges(), [(Seq(2), Seq(3)), (Seq(4), Seq(5))]);
        let from = FrameFacts {
            transmitter: Some(node(2)),
            along: true,
            ..FrameFacts::NONE
        };
        let _ = a.segment_by(&told, &[], &from);
        assert_eq!(a.freed(), [Ticket(1), Ticket(3), Ticket(5)]);
        let again: Vec<u32> =
            std::iter::from_fn(|| Some(leaves(&mut a, Kind::Resend)?.0)).collect();
        assert_eq!(again, [2, 4]);
        // One that came already is not sent on, and who sent it learns of it at once.
        assert_eq!(come(&mut b, 3, false), Admit::Drop("it has come already"));
        assert!(b.offer(Kind::Urgent).is_some());
    }

    /// What a node says to the one before: up to which number, but for what.
    fn hop_ack(t: &mut Bench) -> (Seq, Vec<(Seq, Seq)>) {
        let (want, mut told) = (t.offer(Kind::Urgent).expect("enough came"), Head::default());
        let _ = t.fill(&want, &mut told);
        (told.seq, told.ranges().to_vec())
    }

    #[test]
    fn what_was_lost_before_the_first_that_came_is_said_as_well() {
        let mut t = lane(16, &[("hop_ack", "3")]);
        for n in 2..=4 {
            let _ = come(&mut t, n, false);
        }
        assert_eq!(hop_ack(&mut t), (Seq(4), vec![(Seq(1), Seq(2))]));
        let _ = come(&mut t, 1, false);
        assert_eq!(come(&mut t, 1, false), Admit::Drop("it has come already"));
        assert_eq!(hop_ack(&mut t), (Seq(4), vec![]));
        // A node that begins in the middle has nothing of what was sent to the one before it.
        let mut t = lane(16, &[("hop_ack", "1")]);
        t.board.site.last_hop = true;
        let _ = come(&mut t, 5_000, false);
        let missing = (Seq(5_001 - REMEMBERED), Seq(5_000));
        assert_eq!(hop_ack(&mut t), (Seq(5_000), vec![missing]));
        let _ = leaves(&mut t, Kind::New);
        for n in 5_001..8_000 {
            assert_eq!(come(&mut t, n, false), Admit::Pass);
            let _ = leaves(&mut t, Kind::New);
        }
        assert_eq!(hop_ack(&mut t), (Seq(7_999), vec![]));
    }

    /// The node before keeps half of its places at most.
    #[test]
    fn nodes_acknowledge_before_the_one_before_may_keep_no_more() {
        let mut t = lane(8, &[("hop_ack", "64")]);
        for n in 1..=4 {
            assert!(t.offer(Kind::Urgent).is_none());
            let _ = come(&mut t, n, false);
        }
        assert_eq!(hop_ack(&mut t), (Seq(4), vec![]));
    }
}
