//! `hop-block`: the blocks of a lane, which goes on with one after the other (Hop, NSDI 2009).
//!
//! A block goes on in rounds: a BSYN asks the next node what of it is missing, a BACK lists that,
//! and that goes, until nothing is ("Reliable Per-Hop Block Transfer"). A node begins as soon as it
//! has `burst` packets of a block. A small block goes at once, its BSYN on its last packet
//! ("Micro-block Prioritization"). Who has `outstanding` blocks beyond the one in service answers
//! no BSYN of a further one until one is gone ("Backpressure"). What went on is kept until the
//! destination has it: a BSYN with VTX for it, which the source sends when nothing is heard of a
//! block, is answered, and the next node is asked in turn ("Virtual Retransmission").

mod params;
mod table;

use params::PARAMS;
use std::collections::VecDeque;
use table::{Block, Mark, Phase, Table};
use wifu_engine::board::{ConnFacts, TxFacts};
use wifu_engine::component::Cx;
use wifu_engine::kit::Ewma;
use wifu_engine::kit::blocks::{ASK, BLOCK, MOST, ROUND, SIZE, VTX, list_missing, names};
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

/// What was asked of this node.
#[derive(Clone, Copy)]
struct Question {
    first: Seq,
    size: u32,
    round: u32,
    by: Neighbour,
    vtx: bool,
}

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
    rtx: Word,
    micro: u32,
    table: Table,
    /// Blocks that the own end cut and whose packets wait in the store.
    cuts: VecDeque<(Seq, u32)>,
    /// The destination has all up to this one.
    acked: Option<Seq>,
    /// What is to be answered, and what is not before there is a place.
    owed: Option<Question>,
    withheld: Option<Question>,
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
            rtx: p.word("rtx"),
            micro: p.int("micro") as u32,
            table: Table::new(places, p.int("cache") as usize, p.int("burst") as u32),
            cuts: VecDeque::new(),
            acked: None,
            owed: None,
            withheld: None,
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
        self.acked.is_some_and(|a| number.upto(a))
    }

    /// Until a question that leaves now is repeated.
    fn patience(&self, tries: u32) -> Span {
        let rtt = self.rtt.value().map(Span::from_secs_f64);
        let first = rtt.map_or(FIRST, |rtt| (rtt * 4).clamp(SOON, RARELY));
        (first * (1 << tries.min(4))).min(RARELY)
    }

    /// When the first question goes again.
    fn rearm(&mut self, cx: &mut Cx<'_>) {
        let asked = self.table.blocks.iter().filter_map(|b| match b.phase {
            Phase::Asked(until) => Some(until),
            _ => None,
        });
        match asked.min() {
            Some(until) => cx.out.arm(0, until.max(Time(cx.now.0 + 1))),
            None => cx.out.disarm(0),
        }
    }

    /// The node before asks for a block.
    fn questioned(&mut self, q: Question) {
        let known = self.arrived(q.first.plus(q.size - 1));
        if known || self.table.open(q.first, q.size, q.vtx).is_some() {
            self.owed = Some(q);
            self.withheld = None;
        } else {
            self.withheld = Some(q);
            self.add(Count::HeldBack, 1);
        }
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
        let Some(by) = seg.frame.transmitter else {
            // Of the own end, whose packets wait in the store until their block has a place.
            if self.cuts.back() != Some(&(first, size)) {
                self.cuts.push_back((first, size));
            }
            return Admit::Pass;
        };
        let number = seg.head.seq;
        let [.., round, ask, _] = self.words.map(|w| seg.head.get(w));
        if ask == 1 {
            self.questioned(Question {
                first,
                size,
                round,
                by,
                vtx: false,
            });
        }
        if self.arrived(number) {
            return Admit::Drop("the destination has it");
        }
        let again = seg.head.get(self.rtx) == 1;
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

    fn on_bsyn(&mut self, seg: &Segment<'_>, by: Neighbour, cx: &mut Cx<'_>) {
        let Some((first, size)) = self.named(seg) else {
            return;
        };
        let [_, _, _, round, _, vtx] = self.words.map(|w| seg.head.get(w));
        self.questioned(Question {
            first,
            size,
            round,
            by,
            vtx: vtx == 1,
        });
        let block = self.table.find(first).map(|at| &mut self.table.blocks[at]);
        if let Some(block) = block.filter(|b| vtx == 1 && b.phase == Phase::Done) {
            block.again();
            self.drive(cx);
        }
    }

    /// The next node says what of a block is missing there.
    fn on_back(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        let Some((first, _)) = self.named(seg) else {
            return;
        };
        let round = seg.head.get(self.words[3]) as u8;
        let Some(at) = self.table.find(first).filter(|_| self.started) else {
            return;
        };
        let (latest, now) = (self.round, cx.now);
        let b = &mut self.table.blocks[at];
        let lists = !seg.head.ranges().is_empty();
        match (round, b.phase) {
            // The own end asked, which has nothing in service here.
            (0, Phase::Done) if lists => b.anew = true,
            (0, _) | (_, Phase::Waits | Phase::Sends | Phase::Done) => return,
            (_, Phase::Asks) if b.tries == 0 => return,
            // Of a question that left before what was sent last: what it lists may have come.
            _ if round.wrapping_sub(b.asked.1) > latest.wrapping_sub(b.asked.1) => return,
            _ => {
                self.rtt.add((now - b.asked.0).as_secs_f64());
            }
        }
        let head = seg.head;
        b.mark(|n| match names(head, n) {
            true => Mark::Due,
            false => Mark::There,
        });
        (b.tries, b.burst) = (0, 0);
        b.phase = Phase::Sends;
        if b.there() {
            (b.phase, b.anew, b.kept) = (Phase::Done, false, true);
            self.add(Count::Handed, 1);
            self.table.trim(|t| cx.out.release(t));
            self.admit(cx);
        }
        self.drive(cx);
    }

    fn acknowledge(&mut self, ack: Seq, cx: &mut Cx<'_>) {
        if self.acked.is_some_and(|a| ack.upto(a)) {
            return;
        }
        self.acked = Some(ack);
        self.table.acknowledge(ack, |t| cx.out.release(t));
        self.admit(cx);
        self.drive(cx);
    }

    /// What waits in the store enters its block, if that has a place.
    fn admit(&mut self, cx: &mut Cx<'_>) {
        while let Some((_, number)) = cx.store.front() {
            let covers = |c: &&(Seq, u32)| number.since(c.0) < c.1;
            let old = self.cuts.iter().take_while(|c| !covers(c)).count();
            let cut = self.cuts.get(old).copied();
            let found = match cut {
                Some((first, size)) => {
                    self.cuts.drain(..old);
                    self.table.open(first, size, false)
                }
                None => self.table.find(number),
            };
            let passed = self.arrived(number);
            if found.is_none() && cut.is_some() && !passed {
                return;
            }
            let Some((ticket, _)) = cx.store.pop() else {
                return;
            };
            let block = found.filter(|_| !passed);
            let block = block.map(|at| &mut self.table.blocks[at]);
            let spare = match block.and_then(|b| Some((b.place(number)?, b))) {
                Some((at, b)) => {
                    // The own end sends again what went on.
                    if b.phase == Phase::Done {
                        b.again();
                    }
                    b.put(at, ticket)
                }
                None => Some(ticket),
            };
            if let Some(ticket) = spare {
                cx.out.release(ticket);
            }
        }
    }

    /// What follows from what is here: the block in service may begin, and one that was held back
    /// may have a place.
    fn drive(&mut self, cx: &mut Cx<'_>) {
        if let Some(q) = self.withheld.take() {
            match self.table.open(q.first, q.size, q.vtx) {
                Some(_) => self.owed = Some(q),
                None => self.withheld = Some(q),
            }
        }
        let micro = self.micro;
        if let Some(b) = self.table.serve().filter(|b| b.phase == Phase::Waits) {
            b.phase = match b.size() <= micro && !b.anew {
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
        let until = now + self.patience(tries);
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

    /// Whether who asked is answered now.
    fn answers(&self, now: Time) -> bool {
        let of = self.owed.and_then(|q| self.table.find(q.first));
        let comes = of.is_some_and(|at| self.table.blocks[at].coming());
        self.owed.is_some() && (now >= self.patient || !comes)
    }

    /// The answer to who asked, or the question for the block in service.
    fn speak(&mut self, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let [kind, block, size, round, _, vtx] = self.words;
        let answers = self.answers(cx.now);
        if let Some(q) = self.owed.take_if(|_| answers) {
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
        let asks = self.ask(cx);
        let Some(b) = self.table.served() else { return };
        out.head.seq = b.first;
        for (w, v) in [(kind, hop::BSYN), (block, b.first.0), (size, b.size())] {
            out.head.set(w, v);
        }
        out.head.set(round, asks);
        out.head.set(vtx, u32::from(b.anew));
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
        let (again, anew, kept) = (b.packets[at].left, b.anew, b.kept);
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
        let rides = last && b.size() <= micro && !anew;
        if last {
            b.phase = Phase::Asks;
        }
        self.add(Count::Again, u32::from(again && !kept));
        self.add(Count::FromCache, u32::from(kept));
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
            (hop::BSYN, true) => {
                if let Some(by) = by {
                    self.on_bsyn(seg, by, cx);
                }
            }
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
                for b in self.table.blocks.iter_mut().filter(on) {
                    b.mark(|_| Mark::Due);
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
            if matches!(b.phase, Phase::Asked(until) if until <= now) {
                b.phase = Phase::Asks;
                b.tries += 1;
            }
        }
        self.drive(cx);
    }

    fn offer(&self, kind: Kind, _board: &Board, now: Time) -> Option<Want> {
        let asks = || self.table.served().is_some_and(|b| b.phase == Phase::Asks);
        let (bytes, least) = (1, 1);
        match kind {
            Kind::Urgent => (self.answers(now) || asks()).then_some(Want::bare(kind)),
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
        assert_eq!(waits, [0.5, 1.0, 1.0, 1.0]);
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
}
