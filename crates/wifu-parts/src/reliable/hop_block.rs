//! `hop-block`: the blocks of a lane, which goes on with one after the other (Hop, NSDI 2009).
//!
//! A block goes on in rounds: a BSYN asks the next node what of it is missing, a BACK lists that,
//! and that goes, until nothing is ("Reliable Per-Hop Block Transfer"). A node begins as soon as it
//! has `burst` packets of a block. A small block goes at once, its BSYN on its last packet
//! ("Micro-block Prioritization"). Who has `outstanding` blocks beyond the one in service answers
//! no BSYN of a further one until one is gone ("Backpressure"). What went on is kept until the
//! destination has it: a BSYN with VTX for it, which the source sends when nothing is heard of a
//! block, is answered, and the next node is asked in turn ("Virtual Retransmission"). Such a block
//! takes no place on any node, or those behind it that wait for it could not let it pass. Of one
//! that is acknowledged already the next node is asked, too: only the destination can tell the
//! source again.

mod asked;
mod own;
mod params;
mod table;

use asked::{Asked, Beg, Question};
use own::Own;
use params::PARAMS;
use table::{Block, Mark, Phase, Table};
use wifu_engine::board::{ConnFacts, TxFacts};
use wifu_engine::component::Cx;
use wifu_engine::kit::Ewma;
use wifu_engine::kit::blocks::{
    ASK, BLOCK, MOST, ROUND, SIZE, VTX, list_missing, names, told_upto,
};
use wifu_engine::kit::hop::{RTX, TRANSMITTER, TYPE};
use wifu_engine::{
    Admit, Board, Component, Descriptor, Fact, Facts, FieldUse, Kind, Out, Params, Payload, Reason,
    Role, Segment, Signal, Want,
};
use wifu_wire::{HeadField, LinkTo, Neighbour, Seq, Span, Time, Word, hop, hxh};

/// See the module.
pub static HOP_BLOCK: Descriptor = Descriptor {
    name: "hop-block",
    role: Role::Reliable,
    doc: "Blocks of a lane: asked for and listed hop by hop, few at a time, kept afterwards.",
    cites: &["Hop (NSDI 2009)"],
    params: PARAMS,
    words: &[TYPE, BLOCK, SIZE, ROUND, ASK, VTX, RTX.read(), TRANSMITTER],
    probes: &[
        "custody",
        "revived",
        "cached",
        "asked",
        "answered",
        "held_back",
        "refused",
        "handed",
        "again",
        "from_cache",
        "sent",
    ],
    writes: Facts::TX.with(Facts::CONN),
    requires: &[Fact::NextHop, Fact::Transmitter],
    hears: &[
        ("segment", &["opened"]),
        ("timer", &[]),
        ("wrote", &["opened"]),
        ("returned", &[]),
        ("route", &[]),
    ],
    offers: &[Kind::Urgent, Kind::Resend, Kind::New],
    needs: &[("store", &["packets"])],
    hooks: &["segment"],
    fields: &[
        FieldUse::of(HeadField::Seq),
        FieldUse::of(HeadField::Ack),
        FieldUse::of(HeadField::Ranges),
    ],
    build: |p| Ok(Box::new(HopBlock::new(p))),
    ..Descriptor::EMPTY
};

/// Until a BSYN goes again, at least and at most; the first before any was answered.
const SOON: Span = Span(100_000_000);
const RARELY: Span = Span(1_000_000_000);
const FIRST: Span = Span(500_000_000);
/// A node that takes longer than this from a packet's coming to its leaving has lost it.
const RELAYED: Span = Span(10_000_000);

/// So many rounds in a row may be in vain before the next one waits, and before the block is given
/// up: about a minute.
const IN_VAIN: u32 = 2;
const HOPELESS: u32 = 64;
/// What was counted, by place.
#[derive(Clone, Copy)]
enum Count {
    Asked,
    Answered,
    HeldBack,
    Refused,
    Handed,
    Again,
    FromCache,
    Sent,
}

struct HopBlock {
    /// type, block, size, round, ask, vtx.
    words: [Word; 6],
    rtx_word: Word,
    micro: u32,
    table: Table,
    own: Own,
    /// One past the last number that the source is known to have.
    top: Option<Seq>,
    asked: Asked,
    /// Until then an answer waits for what has come, and is not in its block yet.
    patient: Time,
    /// Of the last BSYN.
    round: u8,
    /// From a BSYN to its answer.
    rtt: Ewma,
    next: Option<Neighbour>,
    started: bool,
    counts: [u32; 8],
}

impl HopBlock {
    fn new(p: &Params<'_>) -> HopBlock {
        let words = ["type", "block", "size", "round", "ask", "vtx"];
        let places = 1 + p.int("outstanding") as usize;
        HopBlock {
            words: words.map(|w| p.word(w)),
            rtx_word: p.word("rtx"),
            micro: p.int("micro") as u32,
            table: Table::new(places, p.int("cache") as usize, p.int("burst") as u32),
            own: Own::default(),
            top: None,
            asked: Asked::new(),
            patient: Time::ZERO,
            round: 0,
            rtt: Ewma::new(0.75),
            next: None,
            started: false,
            counts: [0; 8],
        }
    }

    fn add(&mut self, what: Count, n: u32) {
        let c = &mut self.counts[what as usize];
        *c = c.saturating_add(n);
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        if !self.started {
            self.started = true;
            self.next = cx.board.site.next_hop;
            cx.write(|c: &mut ConnFacts| c.running = true);
            cx.out.emit(Signal::Opened);
        }
    }

    /// The destination has this number.
    fn arrived(&self, number: Seq) -> bool {
        self.table.arrived(number)
    }

    /// Until a question that leaves now is repeated.
    fn patience(&self, tries: u32) -> Span {
        let rtt = self.rtt.value().map(Span::from_secs_f64);
        let first = rtt.map_or(FIRST, |rtt| (rtt * 4).clamp(SOON, RARELY));
        (first * (1 << tries.min(4))).min(RARELY)
    }

    /// When the first question goes again.
    fn rearm(&mut self, cx: &mut Cx<'_>) {
        let waits = self.table.blocks.iter().filter_map(|b| match b.phase {
            Phase::Asked(until) | Phase::Rests(until) => Some(until),
            _ => None,
        });
        let beg = self.asked.beg.map(|b| b.at).filter(|at| *at > cx.now);
        match waits.chain(beg).min() {
            Some(until) => cx.out.arm(0, until.max(Time(cx.now.0 + 1))),
            None => cx.out.disarm(0),
        }
    }

    /// The source has all before this.
    fn seen(&mut self, end: Seq) {
        self.top = Some(self.top.map_or(end, |top| top.later(end)));
    }

    /// A block as the header of a packet says it; `None` if there is none such.
    fn named(&self, seg: &Segment<'_>) -> Option<(Seq, u32)> {
        let [_, block, size, ..] = self.words.map(|w| seg.head.get(w));
        let inside = seg.head.seq.since(Seq(block)) < size;
        (inside && size <= MOST).then_some((Seq(block), size))
    }

    fn on_data(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let Some((first, size)) = self.named(seg) else {
            return Admit::Drop("outside its block");
        };
        let (number, again) = (seg.head.seq, seg.head.get(self.rtx_word) == 1);
        self.seen(number.plus(1));
        let Some(by) = seg.frame.transmitter else {
            return self.on_own(number, (first, size), again);
        };
        let [.., round, ask, _] = self.words.map(|w| seg.head.get(w));
        if ask == 1 {
            let q = Question {
                first,
                size,
                round,
                by,
                vtx: false,
            };
            self.questioned(q, cx.now);
        }
        if self.arrived(number) {
            return Admit::Drop("the destination has it");
        }
        if again {
            self.table.displace(first, size, |t| cx.out.release(t));
        }
        let Some(at) = self.table.open(first, size, again) else {
            self.add(Count::Refused, 1);
            return Admit::Drop("no place for another block");
        };
        let block = &mut self.table.blocks[at];
        let done = block.phase == Phase::Done;
        if again && done {
            block.again();
            self.drive(cx);
        }
        let block = &mut self.table.blocks[at];
        let place = block.place(number);
        if let Some(p) = place.map(|at| &mut block.packets[at])
            && p.ticket.is_none()
            && (again || !done)
        {
            p.coming = true;
            self.patient = cx.now + RELAYED;
            cx.out.arm(1, self.patient);
            return Admit::Pass;
        }
        Admit::Drop("it has come already")
    }

    /// The next node says what of a block is missing there.
    fn on_back(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        let Some(named) = self.named(seg) else {
            return;
        };
        let round = seg.head.get(self.words[3]) as u8;
        let blocks = &self.table.blocks;
        let of = |at: &usize| (blocks[*at].first, blocks[*at].size()) == named;
        let Some(at) = self.table.find(named.0).filter(of) else {
            return;
        };
        let (latest, now) = (self.round, cx.now);
        let b = &mut self.table.blocks[at];
        let lists = !seg.head.ranges().is_empty();
        match (round, b.phase) {
            // The own end asked, which has nothing in service here.
            (0, Phase::Done) if lists => b.anew = true,
            (0, _) | (_, Phase::Waits | Phase::Sends | Phase::Rests(_) | Phase::Done) => return,
            (_, Phase::Asks) if b.tries == 0 => return,
            // Of a question that left before what was sent last: what it lists may have come.
            _ if round.wrapping_sub(b.asked.1) > latest.wrapping_sub(b.asked.1) => return,
            _ => {
                self.rtt.add((now - b.asked.0).as_secs_f64());
            }
        }
        let (head, told) = (seg.head, told_upto(seg.head, b.end()));
        let sent = b.packets.iter().any(|p| p.mark == Mark::Sent);
        let acked = self.table.acked;
        b.mark(|n, was| match names(head, n) {
            // It did not hear the acknowledgement; nobody sends that any more.
            _ if acked.is_some_and(|a| n.upto(a)) => Mark::There,
            true => Mark::Due,
            false if n.before(told) => Mark::There,
            false => was,
        });
        (b.tries, b.burst) = (0, 0);
        b.phase = Phase::Sends;
        let barren = b.was_barren(sent).then_some(b.barren);
        if barren.is_some_and(|n| n > HOPELESS) {
            self.table.forget(at, &mut |t| cx.out.release(t));
            self.admit(cx);
        } else if let Some(more) = barren.and_then(|n| n.checked_sub(IN_VAIN + 1)) {
            let until = now + self.patience(more);
            self.table.blocks[at].phase = Phase::Rests(until);
        } else if b.there() {
            b.done();
            self.add(Count::Handed, 1);
            self.table.trim(|t| cx.out.release(t));
            self.admit(cx);
        }
        self.drive(cx);
    }

    fn acknowledge(&mut self, ack: Seq, cx: &mut Cx<'_>) {
        // Nobody has what the source has not sent.
        if !self.top.is_some_and(|top| ack.before(top)) {
            return;
        }
        let begged = |b: &Beg| b.first.plus(b.size - 1).upto(ack);
        self.asked.beg = self.asked.beg.filter(|b| !begged(b));
        self.rearm(cx);
        if self.arrived(ack) {
            return;
        }
        let handed = self.table.acknowledge(ack, |t| cx.out.release(t));
        self.add(Count::Handed, u32::from(handed));
        self.admit(cx);
        self.drive(cx);
    }

    /// What follows from what is here: the block in service may begin, and one that was held back
    /// may have a place.
    fn drive(&mut self, cx: &mut Cx<'_>) {
        self.answer_withheld();
        let micro = self.micro;
        if let Some(b) = self.table.serve().filter(|b| b.phase == Phase::Waits) {
            b.phase = match b.size() <= micro && !b.is_virtual() {
                true => Phase::Sends,
                false => Phase::Asks,
            };
        }
        self.rearm(cx);
    }

    /// The round of the question that leaves now.
    fn ask(&mut self, cx: &mut Cx<'_>) -> u32 {
        self.round = self.round.checked_add(1).unwrap_or(1);
        let (round, now) = (self.round, cx.now);
        let tries = self.table.served().map_or(0, |b| b.tries);
        let mut wait = self.patience(tries);
        if tries > 0 {
            // Or who asks at the same times as a node that is hidden from it drowns each answer.
            wait = Span(wait.0 - cx.out.rng().below(wait.0 / 4));
        }
        let until = now + wait;
        if let Some(b) = self.table.serve() {
            if tries == 0 {
                b.asked = (now, round);
            }
            b.phase = Phase::Asked(until);
        }
        self.add(Count::Asked, 1);
        self.rearm(cx);
        u32::from(round)
    }

    /// The answer to who asked, or the question for the block in service.
    fn speak(&mut self, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let [kind, block, size, round, _, vtx] = self.words;
        let answers = self.answers(cx.now);
        if let Some(q) = answers.and_then(|at| self.asked.owed.remove(at)) {
            out.aside.to = LinkTo::Neighbour(q.by);
            out.head.seq = q.first;
            for (w, v) in [(kind, hop::BACK), (block, q.first.0), (size, q.size)] {
                out.head.set(w, v);
            }
            out.head.set(round, q.round);
            if let Some(b) = self.table.find(q.first).map(|at| &self.table.blocks[at]) {
                list_missing(out.head, b.first, b.end(), |n| b.lacks(n));
            }
            return self.add(Count::Answered, 1);
        }
        if self.begs(cx.now) {
            return self.plead(out, cx);
        }
        let asks = self.ask(cx);
        let Some(b) = self.table.served() else { return };
        out.head.seq = b.first;
        for (w, v) in [(kind, hop::BSYN), (block, b.first.0), (size, b.size())] {
            out.head.set(w, v);
        }
        out.head.set(round, asks);
        out.head.set(vtx, u32::from(b.is_virtual()));
    }

    /// Whether a packet of the block in service goes now, and whether it went before.
    fn goes(&self) -> Option<bool> {
        let b = self.table.served().filter(|b| b.phase == Phase::Sends)?;
        let at = b.next()?;
        Some(b.packets[at].left)
    }

    /// The next packet of the block in service, and whether a question rides on it.
    fn take(&mut self) -> Option<(Seq, wifu_engine::Ticket, bool)> {
        let micro = self.micro;
        let b = self.table.serve()?;
        let at = b.next()?;
        let (again, asked, gone) = (b.packets[at].left, b.is_virtual(), b.gone);
        if b.burst == 0 {
            b.burst = b.due;
        }
        b.burst -= 1;
        let number = b.first.plus(at as u32);
        let p = &mut b.packets[at];
        (p.mark, p.left) = (Mark::Sent, true);
        let ticket = p.ticket?;
        b.due -= 1;
        let last = b.due == 0 && b.whole();
        let rides = last && b.size() <= micro && !asked;
        if last {
            b.phase = Phase::Asks;
        }
        self.add(Count::Again, u32::from(again && !gone));
        self.add(Count::FromCache, u32::from(gone));
        self.add(Count::Sent, 1);
        Some((number, ticket, rides))
    }
}

impl Component for HopBlock {
    /// What passes in either direction, and what the nodes beside say to this one.
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        self.start(cx);
        let (along, by) = (seg.frame.along, seg.frame.transmitter);
        let site = &cx.board.site;
        let next = by.is_some() && by == site.next_hop;
        match (seg.head.get(self.words[0]), along) {
            (hxh::DATA, true) => {
                let admit = self.on_data(seg, cx);
                self.drive(cx);
                return admit;
            }
            (hop::BSYN, true) => match by {
                Some(by) => self.on_bsyn(seg, by, cx),
                None => self.make_room(seg.head.seq, cx),
            },
            // The destination's takes the route back.
            (hop::BACK, _) if next && along != site.last_hop => self.on_back(seg, cx),
            (hxh::ACK, false) => {
                if let Some(ack) = seg.head.ack {
                    self.acknowledge(ack, cx);
                }
            }
            _ => {}
        }
        Admit::Pass
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        match signal {
            Signal::Wrote => {
                self.start(cx);
                self.admit(cx);
            }
            Signal::Returned(number) => {
                let block = self.table.find(*number);
                if let Some(b) = block.map(|at| &mut self.table.blocks[at])
                    && let Some(at) = b.place(*number)
                    && b.packets[at].mark == Mark::Sent
                {
                    b.packets[at].mark = Mark::Due;
                    b.count();
                    b.phase = Phase::Sends;
                }
            }
            // What the node before had is not at this one.
            Signal::Route if cx.board.site.next_hop != self.next => {
                self.next = cx.board.site.next_hop;
                self.rtt.clear();
                let on = |b: &&mut Block| b.phase != Phase::Done;
                let acked = self.table.acked;
                for b in self.table.blocks.iter_mut().filter(on) {
                    b.mark(|_, _| Mark::Due);
                    b.arrived(acked);
                    b.again();
                }
            }
            _ => return,
        }
        self.drive(cx);
    }

    fn on_timer(&mut self, _timer: u8, cx: &mut Cx<'_>) {
        let now = cx.now;
        for b in &mut self.table.blocks {
            match b.phase {
                Phase::Asked(until) if until <= now => {
                    b.phase = Phase::Asks;
                    b.tries += 1;
                }
                Phase::Rests(until) if until <= now => b.phase = Phase::Sends,
                _ => {}
            }
        }
        self.drive(cx);
    }

    fn offer(&self, kind: Kind, _board: &Board, now: Time) -> Option<Want> {
        let asks = || self.table.served().is_some_and(|b| b.phase == Phase::Asks);
        let (bytes, least) = (1, 1);
        match kind {
            Kind::Urgent => {
                let any = self.answers(now).is_some() || self.begs(now) || asks();
                any.then_some(Want::bare(kind))
            }
            _ => {
                let again = self.goes()?;
                (again == (kind == Kind::Resend)).then_some(Want { kind, bytes, least })
            }
        }
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        if want.kind == Kind::Urgent {
            return self.speak(out, cx);
        }
        let Some((number, ticket, rides)) = self.take() else {
            return;
        };
        if want.kind == Kind::Resend {
            out.reason = Reason::Timeout;
            cx.write(|t: &mut TxFacts| t.retransmits += 1);
        }
        let [_, _, _, round, ask, _] = self.words;
        out.head.seq = number;
        out.payload = Payload::Packet { ticket, keep: true };
        let asks = if rides { self.ask(cx) } else { 0 };
        out.head.set(ask, u32::from(rides));
        out.head.set(round, asks);
        self.drive(cx);
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("custody", self.table.outstanding() as f64);
        probe("revived", self.table.revived() as f64);
        probe("cached", self.table.cached() as f64);
        let names = [
            "asked",
            "answered",
            "held_back",
            "refused",
            "handed",
            "again",
            "from_cache",
            "sent",
        ];
        for (name, n) in names.into_iter().zip(self.counts) {
            probe(name, f64::from(n));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::store::StoreKind;
    use wifu_engine::{Aside, Bench, Ticket};
    use wifu_wire::{FrameFacts, Head};

    /// Words by their places in the descriptor.
    const KIND: Word = Word(0);
    const OF: Word = Word(1);
    const LONG: Word = Word(2);
    const NTH: Word = Word(3);
    const ASKS: Word = Word(4);
    const IS_VTX: Word = Word(5);

    fn node(last: u8) -> Neighbour {
        Neighbour::new(1, [2, 0, 0, 0, 0, last]).unwrap()
    }

    /// A lane between the nodes 1 and 3.
    fn lane(set: &[(&str, &str)]) -> Bench {
        let mut t = Bench::new(&HOP_BLOCK, set).unwrap();
        t.now = Time(1_000_000_000);
        t.board.site.next_hop = Some(node(3));
        t.attach(StoreKind::Packets, 64, Seq(0));
        t
    }

    fn head(kind: u32, seq: Seq, first: Seq, size: u32) -> Head {
        let mut head = Head::default();
        head.seq = seq;
        for (w, v) in [(KIND, kind), (OF, first.0), (LONG, size)] {
            head.set(w, v);
        }
        head
    }

    fn frame(from: u8, along: bool) -> FrameFacts {
        FrameFacts {
            transmitter: Some(node(from)),
            along,
            ..FrameFacts::NONE
        }
    }

    /// Packet `n` of a block comes from the node before.
    fn come(t: &mut Bench, first: Seq, size: u32, n: u32) -> Admit {
        let number = first.plus(n);
        let head = head(hxh::DATA, number, first, size);
        let admit = t.segment_by(&head, &[], &frame(1, true)).0;
        if admit == Admit::Pass {
            assert!(t.push(Ticket(number.0), number));
            let _ = t.signal(Signal::Wrote);
        }
        admit
    }

    fn bsyn(t: &mut Bench, first: Seq, size: u32, vtx: bool) {
        let mut head = head(hop::BSYN, first, first, size);
        head.set(NTH, 9);
        head.set(IS_VTX, u32::from(vtx));
        let _ = t.segment_by(&head, &[], &frame(1, true));
    }

    /// The next node answers the question `round`.
    fn back(t: &mut Bench, first: Seq, size: u32, round: u32, missing: &[(u32, u32)]) {
        let mut head = head(hop::BACK, first, first, size);
        head.set(NTH, round);
        for (from, to) in missing {
            head.push_range((first.plus(*from), first.plus(*to)));
        }
        let _ = t.segment_by(&head, &[], &frame(3, true));
    }

    /// Type, of which block, the round, VTX, what is missing.
    type Said = (u32, Seq, u32, bool, Vec<(Seq, Seq)>);

    /// What the lane says itself.
    fn says(t: &mut Bench) -> Option<Said> {
        let want = t.offer(Kind::Urgent)?;
        let (mut head, mut aside) = (Head::default(), Aside::NONE);
        let _ = t.fill_aside(&want, &mut head, &mut aside);
        let kind = head.get(KIND);
        let to = if kind == hop::BACK {
            LinkTo::Neighbour(node(1))
        } else {
            LinkTo::Route
        };
        assert_eq!(aside.to, to);
        let vtx = head.get(IS_VTX) == 1;
        Some((
            kind,
            Seq(head.get(OF)),
            head.get(NTH),
            vtx,
            head.ranges().to_vec(),
        ))
    }

    /// Numbers that leave, and whether a question rides on the last one.
    fn leave(t: &mut Bench, first: Seq) -> (Vec<u32>, bool) {
        let (mut left, mut rides) = (Vec::new(), false);
        loop {
            let want = t.offer(Kind::Resend).or_else(|| t.offer(Kind::New));
            let Some(want) = want else { break };
            let mut head = Head::default();
            let (payload, _, _) = t.fill(&want, &mut head);
            let ticket = Ticket(head.seq.0);
            assert_eq!(payload, Payload::Packet { ticket, keep: true });
            left.push(head.seq.since(first));
            rides |= head.get(ASKS) == 1;
        }
        (left, rides)
    }

    fn probe(t: &Bench, name: &str) -> f64 {
        t.probe(name).unwrap()
    }

    /// A block that has come goes on whole: questions in between, nothing twice.
    fn hand_on(t: &mut Bench, first: Seq, size: u32) {
        let (kind, of, round, ..) = says(t).expect("a question");
        assert_eq!((kind, of), (hop::BSYN, first));
        back(t, first, size, round, &[(0, size)]);
        assert_eq!(leave(t, first), ((0..size).collect(), false));
        let (.., round, _, _) = says(t).expect("a question");
        back(t, first, size, round, &[]);
    }

    const NEAR_THE_WRAP: Seq = Seq(u32::MAX - 4);

    /// Hop, "Reliable Per-Hop Block Transfer"; across the wrap of numbers.
    #[test]
    fn rounds_go_on_until_nothing_is_missing() {
        for first in [Seq(1), NEAR_THE_WRAP] {
            let mut t = lane(&[]);
            for n in 0..10 {
                assert_eq!(come(&mut t, first, 10, n), Admit::Pass);
            }
            let asked = says(&mut t).expect("a question");
            assert_eq!(asked, (hop::BSYN, first, 1, false, vec![]));
            assert_eq!(leave(&mut t, first).0, [0; 0], "nobody answered");
            back(&mut t, first, 10, 1, &[(0, 10)]);
            assert_eq!(leave(&mut t, first).0, (0..10).collect::<Vec<_>>());
            assert_eq!(says(&mut t).map(|s| (s.0, s.2)), Some((hop::BSYN, 2)));
            back(&mut t, first, 10, 2, &[(3, 5), (9, 10)]);
            assert_eq!(leave(&mut t, first).0, [3, 4, 9], "only what is missing");
            assert_eq!(says(&mut t).map(|s| (s.0, s.2)), Some((hop::BSYN, 3)));
            // What an earlier question was answered tells nothing of those.
            back(&mut t, first, 10, 2, &[(3, 5)]);
            assert_eq!(leave(&mut t, first).0, [0; 0]);
            back(&mut t, first, 10, 3, &[]);
            assert_eq!((probe(&t, "custody"), probe(&t, "cached")), (0.0, 1.0));
            assert_eq!((probe(&t, "again"), probe(&t, "handed")), (3.0, 1.0));
            // The destination has it: nobody will ask for it any more.
            let mut ack = Head::default();
            ack.set(KIND, hxh::ACK);
            ack.ack = Some(first.plus(9));
            let _ = t.segment_by(&ack, &[], &frame(3, false));
            assert_eq!((t.freed().len(), probe(&t, "cached")), (10, 0.0));
            assert_eq!(
                come(&mut t, first, 10, 4),
                Admit::Drop("the destination has it")
            );
        }
    }

    #[test]
    fn a_question_that_nobody_answers_is_repeated_less_and_less_often() {
        let mut t = lane(&[]);
        for n in 0..8 {
            let _ = come(&mut t, Seq(1), 8, n);
        }
        let mut waits = Vec::new();
        for _ in 0..4 {
            assert_eq!(says(&mut t).map(|s| s.0), Some(hop::BSYN));
            let (due, now) = (t.due(0), t.now);
            waits.push((due - now).as_secs_f64());
            assert!(t.offer(Kind::Urgent).is_none());
            let _ = t.advance(due);
        }
        assert_eq!(waits[0], 0.5);
        let rare = |w: &f64| (0.75..=1.0).contains(w);
        assert!(waits[1..].iter().all(rare), "{waits:?}");
        assert!(waits[1] != waits[2], "{waits:?}");
        // The answer to the first one is as good.
        back(&mut t, Seq(1), 8, 1, &[(0, 8)]);
        assert_eq!(leave(&mut t, Seq(1)).0.len(), 8);
    }

    /// The next node begins before it has all.
    #[test]
    fn a_block_goes_on_in_bursts_before_it_is_whole() {
        let mut t = lane(&[("burst", "4")]);
        for n in 0..3 {
            let _ = come(&mut t, Seq(1), 10, n);
            assert!(t.offer(Kind::Urgent).is_none());
        }
        let _ = come(&mut t, Seq(1), 10, 3);
        let _ = says(&mut t);
        back(&mut t, Seq(1), 10, 1, &[(0, 10)]);
        assert_eq!(leave(&mut t, Seq(1)).0, [0, 1, 2, 3]);
        assert!(t.offer(Kind::Urgent).is_none(), "it is not whole");
        let _ = come(&mut t, Seq(1), 10, 5);
        assert_eq!(leave(&mut t, Seq(1)).0, [0; 0]);
        for n in [4, 6, 7, 8, 9] {
            let _ = come(&mut t, Seq(1), 10, n);
        }
        assert_eq!(leave(&mut t, Seq(1)).0, [4, 5, 6, 7, 8, 9]);
        assert_eq!(says(&mut t).map(|s| s.0), Some(hop::BSYN));
    }

    /// Hop, "Backpressure".
    #[test]
    fn a_block_too_many_is_answered_when_one_has_gone() {
        let mut t = lane(&[]);
        for first in [1, 11] {
            bsyn(&mut t, Seq(first), 10, false);
            let (kind, of, round, _, missing) = says(&mut t).expect("an answer");
            assert_eq!((kind, of, round), (hop::BACK, Seq(first), 9));
            assert_eq!(missing, [(Seq(first), Seq(first + 10))]);
            for n in 0..10 {
                let _ = come(&mut t, Seq(first), 10, n);
            }
        }
        let (.., round, _, _) = says(&mut t).expect("a question for the first");
        bsyn(&mut t, Seq(21), 10, false);
        assert!(t.offer(Kind::Urgent).is_none(), "it is held back");
        assert_eq!(
            come(&mut t, Seq(21), 10, 0),
            Admit::Drop("no place for another block")
        );
        assert_eq!((probe(&t, "held_back"), probe(&t, "refused")), (1.0, 1.0));
        back(&mut t, Seq(1), 10, round, &[]);
        assert_eq!(says(&mut t).map(|s| (s.0, s.1)), Some((hop::BACK, Seq(21))));
        assert_eq!(says(&mut t).map(|s| (s.0, s.1)), Some((hop::BSYN, Seq(11))));
        assert_eq!(probe(&t, "custody"), 2.0);
    }

    /// What the own end sends is not dropped: it waits in the store, which is then full.
    #[test]
    fn the_own_end_waits_for_a_place() {
        let mut t = lane(&[]);
        for number in 1..=40_u32 {
            let first = Seq((number - 1) / 10 * 10 + 1);
            let head = head(hxh::DATA, Seq(number), first, 10);
            let own = FrameFacts {
                along: true,
                ..FrameFacts::NONE
            };
            assert_eq!(t.segment_by(&head, &[], &own).0, Admit::Pass);
            assert!(t.push(Ticket(number), Seq(number)));
            let _ = t.signal(Signal::Wrote);
        }
        assert_eq!((probe(&t, "custody"), t.board.app.queued), (2.0, 20));
        hand_on(&mut t, Seq(1), 10);
        assert_eq!((probe(&t, "custody"), t.board.app.queued), (2.0, 10));
    }

    /// Hop, "Virtual Retransmission".
    #[test]
    fn who_has_a_block_sends_on_what_the_next_node_lost() {
        let mut t = lane(&[]);
        for n in 0..10 {
            let _ = come(&mut t, Seq(1), 10, n);
        }
        hand_on(&mut t, Seq(1), 10);
        // Whether the node before heard the answer says nothing of the next node.
        bsyn(&mut t, Seq(1), 10, false);
        assert_eq!(says(&mut t).map(|s| (s.0, s.4)), Some((hop::BACK, vec![])));
        assert!(t.offer(Kind::Urgent).is_none());
        bsyn(&mut t, Seq(1), 10, true);
        assert_eq!(says(&mut t).map(|s| (s.0, s.4)), Some((hop::BACK, vec![])));
        let (kind, of, round, vtx, _) = says(&mut t).expect("a question");
        assert_eq!((kind, of, vtx), (hop::BSYN, Seq(1), true));
        back(&mut t, Seq(1), 10, round, &[(2, 4)]);
        assert_eq!(leave(&mut t, Seq(1)).0, [2, 3]);
        assert_eq!((probe(&t, "from_cache"), probe(&t, "again")), (2.0, 0.0));
        let (.., round, _, _) = says(&mut t).expect("a question");
        back(&mut t, Seq(1), 10, round, &[]);
        assert_eq!((probe(&t, "custody"), probe(&t, "cached")), (0.0, 1.0));
        // Of a block in service nothing more is asked.
        let _ = come(&mut t, Seq(11), 1, 0);
        bsyn(&mut t, Seq(11), 1, true);
        assert_eq!(says(&mut t).map(|s| s.0), Some(hop::BACK));
        assert!(t.offer(Kind::Urgent).is_none());
    }

    /// A node that knows nothing of a block, because it was started anew, has all of it sent.
    #[test]
    fn a_new_node_lists_all_of_a_block_that_it_is_asked_for() {
        let mut t = lane(&[]);
        bsyn(&mut t, Seq(65), 64, true);
        let missing = says(&mut t).expect("an answer").4;
        assert_eq!(missing, [(Seq(65), Seq(129))]);
    }

    #[test]
    fn no_more_blocks_are_kept_than_may_be() {
        let mut t = lane(&[("cache", "2")]);
        for first in [1, 11, 21, 31] {
            for n in 0..10 {
                let _ = come(&mut t, Seq(first), 10, n);
            }
            hand_on(&mut t, Seq(first), 10);
        }
        assert_eq!((probe(&t, "cached"), t.freed().len()), (2.0, 20));
    }

    /// Hop, "Micro-block Prioritization".
    #[test]
    fn a_small_block_goes_at_once_with_its_question() {
        let mut t = lane(&[]);
        for n in 0..3 {
            let _ = come(&mut t, Seq(1), 3, n);
        }
        assert!(t.offer(Kind::Urgent).is_none());
        assert_eq!(leave(&mut t, Seq(1)), (vec![0, 1, 2], true));
        back(&mut t, Seq(1), 3, 1, &[(1, 2)]);
        assert_eq!(leave(&mut t, Seq(1)), (vec![1], true));
        back(&mut t, Seq(1), 3, 2, &[]);
        assert_eq!(probe(&t, "handed"), 1.0);
        // Where nobody answers the question goes alone.
        let _ = come(&mut t, Seq(4), 1, 0);
        assert_eq!(leave(&mut t, Seq(4)), (vec![0], true));
        let _ = t.advance(t.due(0));
        assert_eq!(says(&mut t).map(|s| (s.0, s.1)), Some((hop::BSYN, Seq(4))));
    }

    #[test]
    fn along_a_new_route_the_next_node_is_asked_what_it_has() {
        let mut t = lane(&[]);
        for n in 0..10 {
            let _ = come(&mut t, Seq(1), 10, n);
        }
        let _ = says(&mut t);
        back(&mut t, Seq(1), 10, 1, &[(0, 10)]);
        let _ = leave(&mut t, Seq(1));
        t.board.site.next_hop = Some(node(7));
        let _ = t.signal(Signal::Route);
        let (kind, _, round, vtx, _) = says(&mut t).expect("a question");
        assert_eq!((kind, vtx), (hop::BSYN, true));
        // The old one is not believed.
        back(&mut t, Seq(1), 10, round, &[]);
        assert_eq!(probe(&t, "handed"), 0.0);
        let mut told = head(hop::BACK, Seq(1), Seq(1), 10);
        told.set(NTH, round);
        told.push_range((Seq(1), Seq(11)));
        let _ = t.segment_by(&told, &[], &frame(7, true));
        assert_eq!(leave(&mut t, Seq(1)).0.len(), 10);
    }

    #[test]
    fn what_came_back_leaves_before_the_question() {
        let mut t = lane(&[]);
        for n in 0..10 {
            let _ = come(&mut t, Seq(1), 10, n);
        }
        let _ = says(&mut t);
        back(&mut t, Seq(1), 10, 1, &[(0, 10)]);
        let _ = leave(&mut t, Seq(1));
        let _ = t.signal(Signal::Returned(Seq(10)));
        assert!(t.offer(Kind::Urgent).is_none());
        assert_eq!(leave(&mut t, Seq(1)).0, [9]);
        assert_eq!(says(&mut t).map(|s| s.0), Some(hop::BSYN));
    }

    #[test]
    fn headers_that_make_no_sense_are_dropped() {
        let mut t = lane(&[]);
        for (number, first, size) in [(5, 1, 0), (5, 1, 4), (5, 6, 9), (5, 1, 2_000)] {
            let head = head(hxh::DATA, Seq(number), Seq(first), size);
            let admit = t.segment_by(&head, &[], &frame(1, true)).0;
            assert_eq!(admit, Admit::Drop("outside its block"));
            let head = self::head(hop::BSYN, Seq(number), Seq(first), size);
            let _ = t.segment_by(&head, &[], &frame(1, true));
            assert!(t.offer(Kind::Urgent).is_none());
        }
        // Of two cuts of the same numbers the first one counts.
        assert_eq!(come(&mut t, Seq(1), 10, 0), Admit::Pass);
        assert!(matches!(come(&mut t, Seq(5), 10, 0), Admit::Drop(_)));
    }

    /// The destination's acknowledgement passes.
    fn ack(t: &mut Bench, upto: Seq) {
        let mut ack = Head::default();
        ack.set(KIND, hxh::ACK);
        ack.ack = Some(upto);
        let _ = t.segment_by(&ack, &[], &frame(3, false));
    }

    /// A packet that the source sends again comes.
    fn come_again(t: &mut Bench, first: Seq, size: u32, n: u32) -> Admit {
        let mut head = head(hxh::DATA, first.plus(n), first, size);
        head.set(RTX_WORD, 1);
        let admit = t.segment_by(&head, &[], &frame(1, true)).0;
        if admit == Admit::Pass {
            assert!(t.push(Ticket(first.plus(n).0), first.plus(n)));
            let _ = t.signal(Signal::Wrote);
        }
        admit
    }

    /// RTX, which comes after VTX.
    const RTX_WORD: Word = Word(6);

    /// An acknowledgement that was lost between here and the source: only the destination can tell
    /// it again, so it is asked until that passes.
    #[test]
    fn a_question_for_what_the_destination_has_goes_on_to_it() {
        let mut t = lane(&[]);
        for n in 0..10 {
            let _ = come(&mut t, Seq(1), 10, n);
        }
        hand_on(&mut t, Seq(1), 10);
        ack(&mut t, Seq(10));
        // The node before may ask: that has nothing to do with the source.
        bsyn(&mut t, Seq(1), 10, false);
        assert_eq!(says(&mut t).map(|s| (s.0, s.4)), Some((hop::BACK, vec![])));
        assert!(t.offer(Kind::Urgent).is_none());
        bsyn(&mut t, Seq(1), 10, true);
        assert_eq!(says(&mut t).map(|s| (s.0, s.4)), Some((hop::BACK, vec![])));
        let begs = (hop::BSYN, Seq(1), 0, true, vec![]);
        assert_eq!(says(&mut t), Some(begs.clone()));
        assert!(t.offer(Kind::Urgent).is_none());
        // That the next node has nothing to ask for is no acknowledgement.
        back(&mut t, Seq(1), 10, 0, &[]);
        let _ = t.advance(t.due(0));
        assert_eq!(says(&mut t), Some(begs.clone()));
        ack(&mut t, Seq(10));
        assert_eq!((t.due(0), says(&mut t)), (Time::NEVER, None));
        // Without an answer it ends, until the source asks again.
        bsyn(&mut t, Seq(1), 10, true);
        let _ = says(&mut t);
        for _ in 0..4 {
            assert_eq!(says(&mut t), Some(begs.clone()));
            let _ = t.advance(t.due(0).min(t.now + RARELY));
        }
        assert!(t.offer(Kind::Urgent).is_none());
    }

    /// A block that a relay got by VTX is asked for by VTX: the next node may have no place.
    #[test]
    fn a_block_that_was_lost_goes_on_although_the_places_are_full() {
        let mut t = lane(&[]);
        for first in [31, 41] {
            for n in 0..10 {
                let _ = come(&mut t, Seq(first), 10, n);
            }
        }
        bsyn(&mut t, Seq(11), 10, true);
        assert_eq!(says(&mut t).map(|s| s.0), Some(hop::BACK));
        for n in 0..10 {
            assert_eq!(come(&mut t, Seq(11), 10, n), Admit::Pass);
        }
        let (kind, of, round, vtx, _) = says(&mut t).expect("a question");
        assert_eq!((kind, of, vtx), (hop::BSYN, Seq(11), true));
        assert_eq!((probe(&t, "custody"), probe(&t, "revived")), (2.0, 1.0));
        back(&mut t, Seq(11), 10, round, &[(0, 10)]);
        assert_eq!(leave(&mut t, Seq(11)).0.len(), 10);
        assert_eq!(probe(&t, "from_cache"), 0.0, "it goes for the first time");
        let (_, _, round, vtx, _) = says(&mut t).expect("a question");
        assert!(vtx);
        back(&mut t, Seq(11), 10, round, &[]);
        assert_eq!((probe(&t, "revived"), probe(&t, "cached")), (0.0, 1.0));
        // A small one is asked for before it goes, too.
        bsyn(&mut t, Seq(21), 2, true);
        let _ = says(&mut t);
        for n in 0..2 {
            let _ = come(&mut t, Seq(21), 2, n);
        }
        assert_eq!(says(&mut t).map(|s| (s.1, s.3)), Some((Seq(21), true)));
    }

    /// A destination without room acknowledges part of a block. Nobody sends that again: who lost
    /// the block goes on without, however little the rest is.
    #[test]
    fn what_the_destination_has_of_a_block_is_not_waited_for() {
        for first in [Seq(1), NEAR_THE_WRAP] {
            let mut t = lane(&[("cache", "0")]);
            for n in 0..10 {
                let _ = come(&mut t, first, 10, n);
            }
            hand_on(&mut t, first, 10);
            ack(&mut t, first.plus(4));
            bsyn(&mut t, first, 10, true);
            while says(&mut t).is_some_and(|s| s.0 != hop::BSYN) {}
            back(&mut t, first, 10, 3, &[(0, 10)]);
            assert_eq!(
                come_again(&mut t, first, 10, 4),
                Admit::Drop("the destination has it")
            );
            for n in 5..10 {
                assert_eq!(come_again(&mut t, first, 10, n), Admit::Pass);
            }
            assert_eq!(leave(&mut t, first).0, [5, 6, 7, 8, 9]);
            let (.., round, _, _) = says(&mut t).expect("a question");
            // The next node did not hear the acknowledgement.
            back(&mut t, first, 10, round, &[(0, 5)]);
            assert_eq!((probe(&t, "handed"), probe(&t, "revived")), (2.0, 0.0));
            // Of one that it knows nothing of but that, the rest is asked for.
            let mut t = lane(&[]);
            let _ = come(&mut t, first, 10, 9);
            ack(&mut t, first.plus(4));
            bsyn(&mut t, first, 10, false);
            let rest = (first.plus(5), first.plus(9));
            assert_eq!(says(&mut t).map(|s| s.4), Some(vec![rest]));
        }
    }

    /// What the next node did not list and what the destination has are the whole block.
    #[test]
    fn a_block_whose_rest_the_destination_has_takes_no_place() {
        for left in [false, true] {
            let mut t = lane(&[]);
            for n in 0..10 {
                let _ = come(&mut t, Seq(1), 10, n);
            }
            let (.., round, _, _) = says(&mut t).expect("a question");
            back(&mut t, Seq(1), 10, round, &[(0, 3)]);
            if left {
                assert_eq!(leave(&mut t, Seq(1)).0, [0, 1, 2]);
            }
            ack(&mut t, Seq(2));
            assert_eq!(probe(&t, "custody"), 1.0);
            ack(&mut t, Seq(3));
            assert_eq!((probe(&t, "custody"), probe(&t, "handed")), (0.0, 1.0));
            assert!(t.offer(Kind::Urgent).is_none() && t.offer(Kind::New).is_none());
        }
        // What went before is asked for.
        let mut t = lane(&[]);
        for n in 0..10 {
            let _ = come(&mut t, Seq(1), 10, n);
        }
        let (.., round, _, _) = says(&mut t).expect("a question");
        back(&mut t, Seq(1), 10, round, &[(8, 10)]);
        assert_eq!(leave(&mut t, Seq(1)).0, [8, 9]);
        let _ = t.signal(Signal::Returned(Seq(9)));
        ack(&mut t, Seq(9));
        let (kind, of, ..) = says(&mut t).expect("a question");
        assert_eq!((kind, of), (hop::BSYN, Seq(1)));
    }

    /// Whoever lists for ever what it was sent gets it less and less often, and then not at all.
    #[test]
    fn rounds_in_vain_wait_and_end() {
        let mut t = lane(&[]);
        for n in 0..10 {
            let _ = come(&mut t, Seq(1), 10, n);
        }
        let (begun, mut rounds, mut last) = (t.now, 0, Span(0));
        while let Some((_, _, round, ..)) = says(&mut t) {
            rounds += 1;
            assert!(rounds < 100, "it goes on for ever");
            back(&mut t, Seq(1), 10, round, &[(0, 10)]);
            let before = t.now;
            while t.offer(Kind::Resend).is_none() && t.offer(Kind::New).is_none() {
                if t.due(0) == Time::NEVER {
                    break;
                }
                let _ = t.advance(t.due(0));
            }
            last = t.now - before;
            let _ = leave(&mut t, Seq(1));
        }
        let took = (t.now - begun).as_secs_f64();
        assert!((30.0..70.0).contains(&took), "{took} s, {rounds} rounds");
        assert!(rounds > IN_VAIN + 2 && last <= RARELY);
        assert_eq!((t.freed().len(), probe(&t, "custody")), (10, 0.0));
    }

    /// Who waits holds up no other block, and begins again with whatever arrives.
    #[test]
    fn while_one_block_waits_others_go() {
        let mut t = lane(&[]);
        for first in [1, 11] {
            for n in 0..10 {
                let _ = come(&mut t, Seq(first), 10, n);
            }
        }
        for _ in 0..IN_VAIN + 2 {
            let (_, of, round, ..) = says(&mut t).expect("a question");
            assert_eq!(of, Seq(1));
            back(&mut t, Seq(1), 10, round, &[(0, 10)]);
            let _ = leave(&mut t, Seq(1));
        }
        hand_on(&mut t, Seq(11), 10);
        let _ = t.advance(t.due(0));
        assert_eq!(leave(&mut t, Seq(1)).0.len(), 10);
        let (.., round, _, _) = says(&mut t).expect("a question");
        back(&mut t, Seq(1), 10, round, &[(3, 10)]);
        assert_eq!(leave(&mut t, Seq(1)).0.len(), 7, "three came: at once");
    }

    fn own_sends(t: &mut Bench, number: u32, (first, size): (u32, u32), again: bool) -> Admit {
        let mut head = head(hxh::DATA, Seq(number), Seq(first), size);
        head.set(RTX_WORD, u32::from(again));
        let own = FrameFacts {
            along: true,
            ..FrameFacts::NONE
        };
        let admit = t.segment_by(&head, &[], &own).0;
        if admit == Admit::Pass {
            assert!(t.push(Ticket(number), Seq(number)));
            let _ = t.signal(Signal::Wrote);
        }
        admit
    }

    /// What the own end sends again, because nobody has it any more, passes what waits for a place.
    #[test]
    fn what_the_source_sends_again_does_not_wait_for_a_place() {
        let mut t = lane(&[("cache", "0")]);
        for number in 1..=10 {
            assert_eq!(own_sends(&mut t, number, (1, 10), false), Admit::Pass);
        }
        hand_on(&mut t, Seq(1), 10);
        let full = 10 + 2 * 10 + 64;
        for number in 11..=full {
            let first = (number - 1) / 10 * 10 + 1;
            assert_eq!(own_sends(&mut t, number, (first, 10), false), Admit::Pass);
        }
        assert_eq!((t.board.app.queued, t.board.app.room), (64, 0));
        let asks = head(hop::BSYN, Seq(1), Seq(1), 10);
        let own = FrameFacts {
            along: true,
            ..FrameFacts::NONE
        };
        let _ = t.segment_by(&asks, &[], &own);
        assert_eq!(t.board.app.room, 1);
        for number in 1..=10 {
            assert_eq!(own_sends(&mut t, number, (1, 10), true), Admit::Pass);
        }
        assert_eq!((t.board.app.room, probe(&t, "revived")), (1, 1.0));
        let (_, of, round, vtx, _) = says(&mut t).expect("a question");
        assert_eq!((of, vtx), (Seq(1), true));
        back(&mut t, Seq(1), 10, round, &[]);
        // The rest goes in order, and all of it.
        for block in 1..=7 {
            hand_on(&mut t, Seq(block * 10 + 1), 10);
        }
        assert_eq!(t.board.app.queued, 0);
    }

    /// What is here already, or waits, or arrived long ago is no loss when it comes again.
    #[test]
    fn what_the_own_end_sends_twice_is_dropped_for_what_it_is() {
        let twice = Admit::Drop("it has come already");
        let mut t = lane(&[]);
        for number in 1..=40 {
            let first = (number - 1) / 10 * 10 + 1;
            assert_eq!(own_sends(&mut t, number, (first, 10), false), Admit::Pass);
        }
        for number in [1, 15, 21, 40] {
            let first = (number - 1) / 10 * 10 + 1;
            assert_eq!(own_sends(&mut t, number, (first, 10), true), twice);
        }
        hand_on(&mut t, Seq(1), 10);
        assert_eq!(own_sends(&mut t, 1, (1, 10), true), twice);
        assert_eq!(says(&mut t).map(|s| (s.1, s.3)), Some((Seq(1), true)));
        ack(&mut t, Seq(10));
        assert_eq!(
            own_sends(&mut t, 1, (1, 10), true),
            Admit::Drop("the destination has it")
        );
    }

    /// Of those of which only is known that they went on the newest is forgotten.
    #[test]
    fn of_many_blocks_the_oldest_are_kept() {
        let mut t = lane(&[("cache", "2")]);
        for first in (1..=300).map(|n| n * 10) {
            for n in 0..5 {
                let _ = come(&mut t, Seq(first), 5, n);
            }
            hand_on(&mut t, Seq(first), 5);
        }
        assert_eq!(probe(&t, "cached"), 2.0);
        bsyn(&mut t, Seq(10), 5, true);
        assert_eq!(says(&mut t).map(|s| s.4), Some(vec![]), "it is here");
        let (.., round, _, _) = says(&mut t).expect("a question");
        back(&mut t, Seq(10), 5, round, &[(0, 5)]);
        assert_eq!(leave(&mut t, Seq(10)).0.len(), 5);
    }

    /// What a full list has no room for is asked for in another round.
    #[test]
    fn a_list_that_was_cut_confirms_nothing_beyond_its_end() {
        let size = 400;
        let mut t = lane(&[("burst", "400")]);
        for n in 0..size {
            let _ = come(&mut t, Seq(1), size, n);
            let _ = t.freed();
        }
        let (.., round, _, _) = says(&mut t).expect("a question");
        let odd: Vec<_> = (0..150).map(|n| (2 * n, 2 * n + 1)).collect();
        back(&mut t, Seq(1), size, round, &[(0, size)]);
        assert_eq!(leave(&mut t, Seq(1)).0.len(), 400);
        let (.., round, _, _) = says(&mut t).expect("a question");
        back(&mut t, Seq(1), size, round, &odd);
        assert_eq!(leave(&mut t, Seq(1)).0.len(), 150);
        let (.., round, _, _) = says(&mut t).expect("a question");
        back(&mut t, Seq(1), size, round, &[(301, 400)]);
        assert_eq!(leave(&mut t, Seq(1)).0.len(), 99);
    }

    #[test]
    fn an_answer_for_another_cut_is_none() {
        let mut t = lane(&[]);
        for n in 0..10 {
            let _ = come(&mut t, Seq(1), 10, n);
        }
        let (.., round, _, _) = says(&mut t).expect("a question");
        for (first, size) in [(Seq(1), 9), (Seq(3), 5), (Seq(1), 11)] {
            back(&mut t, first, size, round, &[]);
            assert_eq!(probe(&t, "handed"), 0.0, "{first:?} {size}");
        }
        back(&mut t, Seq(1), 10, round, &[]);
        assert_eq!(probe(&t, "handed"), 1.0);
    }

    /// Blocks of nobody's cut, and acknowledgements of what nobody sent, stop no source.
    #[test]
    fn what_a_stranger_says_does_not_hold_for_good() {
        let mut t = lane(&[]);
        assert_eq!(come(&mut t, Seq(5), 10, 0), Admit::Pass);
        assert!(matches!(come(&mut t, Seq(1), 10, 0), Admit::Drop(_)));
        for n in 0..10 {
            assert_eq!(come_again(&mut t, Seq(1), 10, n), Admit::Pass);
        }
        assert_eq!(t.freed(), [Ticket(5)]);
        hand_on(&mut t, Seq(1), 10);
        // Places that questions for later blocks took are given to earlier ones.
        for first in [500, 600, 700] {
            bsyn(&mut t, Seq(first), 10, false);
        }
        while says(&mut t).is_some() {}
        for first in [11, 21] {
            assert_eq!(come(&mut t, Seq(first), 10, 0), Admit::Pass);
        }
        ack(&mut t, Seq(100_000));
        assert_eq!(come(&mut t, Seq(11), 10, 1), Admit::Pass);
    }

    /// The source's question says nothing of the one that the node before asked.
    #[test]
    fn two_questions_are_answered_each() {
        let mut t = lane(&[]);
        for n in 0..10 {
            let _ = come(&mut t, Seq(1), 10, n);
        }
        hand_on(&mut t, Seq(1), 10);
        // A packet is on its way up this node: the answer waits for it.
        let head = head(hxh::DATA, Seq(11), Seq(11), 10);
        let _ = t.segment_by(&head, &[], &frame(1, true));
        bsyn(&mut t, Seq(11), 10, false);
        bsyn(&mut t, Seq(1), 10, true);
        assert_eq!(says(&mut t).map(|s| (s.0, s.1)), Some((hop::BACK, Seq(1))));
        assert_eq!(says(&mut t).map(|s| (s.0, s.1)), Some((hop::BSYN, Seq(1))));
        assert!(t.push(Ticket(11), Seq(11)));
        let _ = t.signal(Signal::Wrote);
        let answer = says(&mut t).map(|s| (s.0, s.4));
        assert_eq!(answer, Some((hop::BACK, vec![(Seq(12), Seq(21))])));
    }

    /// What the source asks for passes what is behind it on the nodes to come, although it goes on
    /// for the first time: those may have got that from others.
    #[test]
    fn a_block_in_service_for_which_the_source_asks_is_asked_for_by_vtx() {
        for own in [false, true] {
            let mut t = lane(&[]);
            for n in 1..=10 {
                let _ = match own {
                    true => own_sends(&mut t, n, (1, 10), false),
                    false => come(&mut t, Seq(1), 10, n - 1),
                };
            }
            assert_eq!(says(&mut t).map(|s| (s.0, s.3)), Some((hop::BSYN, false)));
            let asks = FrameFacts {
                transmitter: (!own).then(|| node(1)),
                along: true,
                ..FrameFacts::NONE
            };
            let mut question = head(hop::BSYN, Seq(1), Seq(1), 10);
            question.set(IS_VTX, 1);
            let _ = t.segment_by(&question, &[], &asks);
            if !own {
                assert_eq!(says(&mut t).map(|s| s.0), Some(hop::BACK));
            }
            assert!(t.offer(Kind::Urgent).is_none());
            let _ = t.advance(t.due(0));
            assert_eq!(says(&mut t).map(|s| (s.0, s.3)), Some((hop::BSYN, true)));
            assert_eq!(probe(&t, "custody"), 1.0, "it keeps its place");
        }
    }
}
