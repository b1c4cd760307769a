//! The blocks of a lane, in the order of their numbers: those that are to go on, and those that the
//! next node has and that are kept in case it loses them.

use std::collections::VecDeque;
use wifu_engine::Ticket;
use wifu_wire::{Seq, Time};

/// What is known of a packet at the next node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mark {
    /// It is to go, once it is here.
    Due,
    /// It went; whether it came is to be asked.
    Sent,
    /// The next node has it.
    There,
}

/// How far a block is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Others are before it, or too little of it is here.
    Waits,
    /// A BSYN is due.
    Asks,
    /// One left; if nobody answers by then, it goes again.
    Asked(Time),
    /// What the next node lacks goes.
    Sends,
    /// That went, and nothing of it came, more than once: it goes again then.
    Rests(Time),
    /// The next node has all of it.
    Done,
}

#[derive(Clone, Copy)]
pub(super) struct Packet {
    /// `None`: it is not here.
    pub ticket: Option<Ticket>,
    pub mark: Mark,
    /// It left before.
    pub left: bool,
    /// It came, and the node is not done with it.
    pub coming: bool,
}

pub(super) struct Block {
    pub first: Seq,
    pub packets: Vec<Packet>,
    pub phase: Phase,
    /// It takes no place of others: the source asked for it, or sent it again.
    pub beyond: bool,
    /// The source asked for it while it was to go on.
    pub urged: bool,
    /// It went on once: the node before has no part in it any more.
    pub gone: bool,
    /// It was done once, or its next node is another one now: that is asked before anything goes.
    pub anew: bool,
    /// Questions in a row that nobody answered.
    pub tries: u32,
    /// Packets that the next node had, at most, since it was asked for the first time.
    best: u32,
    /// Rounds in a row that were answered and made it no more.
    pub barren: u32,
    /// When and as which round the first of them left.
    pub asked: (Time, u8),
    /// So many that go at once are not gone.
    pub burst: u32,
    /// Packets that are here and are to go.
    pub due: u32,
    /// Packets that are not here, and not at the next node either.
    pub lacks: u32,
}

impl Block {
    pub fn size(&self) -> u32 {
        self.packets.len() as u32
    }

    /// One past its last number.
    pub fn end(&self) -> Seq {
        self.first.plus(self.size())
    }

    /// Where in it this number is.
    pub fn place(&self, number: Seq) -> Option<usize> {
        let at = number.since(self.first);
        (at < self.size()).then_some(at as usize)
    }

    /// Whether nothing has to come any more.
    pub fn whole(&self) -> bool {
        self.lacks == 0
    }

    /// Whether this number has to come.
    pub fn lacks(&self, number: Seq) -> bool {
        let p = self.place(number).map(|at| self.packets[at]);
        p.is_some_and(|p| p.ticket.is_none() && p.mark != Mark::There)
    }

    /// A packet came. It is given back if it is here already.
    pub fn put(&mut self, at: usize, ticket: Ticket) -> Option<Ticket> {
        let p = &mut self.packets[at];
        p.coming = false;
        if p.ticket.is_some() {
            return Some(ticket);
        }
        p.ticket = Some(ticket);
        self.count();
        None
    }

    /// Whether it is asked for by VTX: the next node has it, or may have no place for it.
    pub fn is_virtual(&self) -> bool {
        self.anew || self.beyond || self.urged
    }

    /// Whether it is to go on, and takes no place of others.
    pub fn is_revived(&self) -> bool {
        (self.beyond || self.gone) && self.phase != Phase::Done
    }

    /// Whether nothing of it is here, nor on its way up the node, nor at the next one, but for
    /// what the destination has.
    fn is_empty(&self, acked: Option<Seq>) -> bool {
        let before = acked.map_or(0, |a| a.plus(1).beyond(self.first));
        let empty = |p: &Packet| p.ticket.is_none() && !p.coming && p.mark != Mark::There;
        !self.gone && self.packets.iter().skip(before as usize).all(empty)
    }

    /// Whether enough of it is here to begin with it.
    pub fn begins(&self, burst: u32) -> bool {
        self.anew || self.due > 0 && (self.whole() || self.due >= burst)
    }

    /// Whether something of it is to be sent, or asked, or answered.
    fn lives(&self, burst: u32) -> bool {
        match self.phase {
            Phase::Waits => self.begins(burst),
            Phase::Sends => self.due > 0 && (self.burst > 0 || self.whole() || self.due >= burst),
            Phase::Asks | Phase::Asked(_) => true,
            Phase::Rests(_) | Phase::Done => false,
        }
    }

    /// Whether packets came that the node is not done with.
    pub fn coming(&self) -> bool {
        self.packets.iter().any(|p| p.coming)
    }

    /// The first packet that is to go.
    pub fn next(&self) -> Option<usize> {
        let goes = |p: &Packet| p.ticket.is_some() && p.mark == Mark::Due;
        self.packets.iter().position(goes)
    }

    /// Every packet is this at the next node, by its number and what it was.
    pub fn mark(&mut self, of: impl Fn(Seq, Mark) -> Mark) {
        let first = self.first;
        for (p, n) in self.packets.iter_mut().zip(0..) {
            p.mark = of(first.plus(n), p.mark);
        }
        self.count();
    }

    /// An answer was noted: whether what went since the last one was all in vain. Only more than
    /// ever counts, or who says now this and now that would be sent it for ever.
    pub fn was_barren(&mut self, sent: bool) -> bool {
        let has = |p: &&Packet| p.mark == Mark::There;
        let there = self.packets.iter().filter(has).count() as u32;
        let barren = sent && there <= self.best;
        self.best = self.best.max(there);
        self.barren = if barren { self.barren + 1 } else { 0 };
        barren
    }

    /// Whether the next node has everything.
    pub fn there(&self) -> bool {
        self.packets.iter().all(|p| p.mark == Mark::There)
    }

    pub fn count(&mut self) {
        let (mut due, mut lacks) = (0, 0);
        for p in self.packets.iter().filter(|p| p.mark != Mark::There) {
            lacks += u32::from(p.ticket.is_none());
            due += u32::from(p.ticket.is_some() && p.mark == Mark::Due);
        }
        (self.due, self.lacks) = (due, lacks);
    }

    /// What the destination has of it is past the next node.
    pub fn arrived(&mut self, acked: Option<Seq>) {
        if let Some(acked) = acked.filter(|a| self.first.upto(*a)) {
            self.mark(|n, was| if n.upto(acked) { Mark::There } else { was });
        }
    }

    /// The next node has everything.
    pub fn done(&mut self) {
        (self.phase, self.gone) = (Phase::Done, true);
        (self.anew, self.urged) = (false, false);
    }

    /// The next node is asked for it anew.
    pub fn again(&mut self) {
        (self.phase, self.anew, self.tries) = (Phase::Waits, true, 0);
        (self.best, self.barren) = (0, 0);
    }
}

pub(super) struct Table {
    pub blocks: VecDeque<Block>,
    /// Memory of blocks that are gone.
    spare: Vec<Vec<Packet>>,
    /// Blocks that are to go on, at most.
    places: usize,
    /// Blocks that went on and whose packets are kept, at most.
    cache: usize,
    /// So much of a block is passed on before it is whole.
    burst: u32,
    /// The destination has all up to this one.
    pub acked: Option<Seq>,
}

/// Blocks of which a node knows that they went on, with their packets or without, at most.
const KNOWN: usize = 256;
/// Blocks beyond those that it may have, which the source asked for, at most.
const BEYOND: usize = 4;

impl Table {
    pub fn new(places: usize, cache: usize, burst: u32) -> Table {
        Table {
            burst,
            blocks: VecDeque::with_capacity(places + cache + 1),
            spare: Vec::with_capacity(places + cache + 1),
            places,
            cache,
            acked: None,
        }
    }

    /// The destination has this number.
    pub fn arrived(&self, number: Seq) -> bool {
        self.acked.is_some_and(|a| number.upto(a))
    }

    /// The block of this number.
    pub fn find(&self, number: Seq) -> Option<usize> {
        self.blocks.iter().position(|b| b.place(number).is_some())
    }

    /// Blocks that did not go on yet and take a place.
    pub fn outstanding(&self) -> usize {
        let placed = |b: &&Block| !b.beyond && !b.gone;
        self.blocks.iter().filter(placed).count()
    }

    /// Blocks that are to go on and take none.
    pub fn revived(&self) -> usize {
        self.blocks.iter().filter(|b| b.is_revived()).count()
    }

    /// A place is taken from the last block beyond this number of which nothing came: whoever
    /// asked for it asks again.
    fn oust(&mut self, first: Seq, beyond: bool) -> bool {
        let acked = self.acked;
        let idle = |b: &Block| b.beyond == beyond && first.before(b.first) && b.is_empty(acked);
        let at = self.blocks.iter().rposition(idle);
        if let Some(at) = at {
            self.forget(at, &mut |_| {});
        }
        at.is_some()
    }

    /// The source itself says which numbers are a block: others that share some with it, and of
    /// which something is missing, were cut by nobody.
    pub fn displace(&mut self, first: Seq, size: u32, mut free: impl FnMut(Ticket)) {
        let end = first.plus(size);
        let false_one = |b: &Block| {
            let meets = b.first.before(end) && first.before(b.end());
            let other = b.first != first || b.size() != size;
            meets && other && !b.gone && !b.whole()
        };
        while let Some(at) = self.blocks.iter().position(false_one) {
            self.forget(at, &mut free);
        }
    }

    /// The block that goes on now: the first of which something can go on. What waits for packets
    /// that the node before may never have holds up none behind it.
    pub fn served(&self) -> Option<&Block> {
        self.blocks.iter().find(|b| b.lives(self.burst))
    }

    pub fn serve(&mut self) -> Option<&mut Block> {
        let burst = self.burst;
        self.blocks.iter_mut().find(|b| b.lives(burst))
    }

    /// The block of these numbers, which is opened if there is a place for it. `None`, too, if
    /// others share numbers with it: whoever cut them, it was not one source.
    ///
    /// `beyond`: the source asks for it, or sends it again; it takes no place of others.
    pub fn open(&mut self, first: Seq, size: u32, beyond: bool) -> Option<usize> {
        let end = first.plus(size);
        let meets = |b: &Block| b.first.before(end) && first.before(b.end());
        if let Some(at) = self.blocks.iter().position(meets) {
            let b = &self.blocks[at];
            return (b.first == first && b.size() == size).then_some(at);
        }
        let full = match beyond {
            true => self.revived() >= BEYOND,
            false => self.outstanding() >= self.places,
        };
        if full && !self.oust(first, beyond) {
            return None;
        }
        let mut packets = self.spare.pop().unwrap_or_default();
        let absent = Packet {
            ticket: None,
            mark: Mark::Due,
            left: false,
            coming: false,
        };
        packets.resize(size as usize, absent);
        let at = self.blocks.iter().take_while(|b| b.first.before(first));
        let at = at.count();
        let mut block = Block {
            first,
            packets,
            phase: Phase::Waits,
            beyond,
            urged: false,
            gone: false,
            anew: false,
            tries: 0,
            best: 0,
            barren: 0,
            asked: (Time::ZERO, 0),
            burst: 0,
            due: 0,
            lacks: size,
        };
        block.arrived(self.acked);
        self.blocks.insert(at, block);
        Some(at)
    }

    /// The destination has all up to `ack`. True if that is what a block still lacked that it ends
    /// in: it acknowledges part of one while it has no room for the rest.
    pub fn acknowledge(&mut self, ack: Seq, mut free: impl FnMut(Ticket)) -> bool {
        self.acked = Some(ack);
        while let Some(at) = self.blocks.iter().position(|b| b.end().upto(ack.plus(1))) {
            self.forget(at, &mut free);
        }
        let Some(at) = self.find(ack) else {
            return false;
        };
        let b = &mut self.blocks[at];
        b.arrived(self.acked);
        if b.phase == Phase::Done {
            return false;
        }
        let handed = b.there();
        if handed {
            b.done();
            self.trim(free);
        } else if b.phase == Phase::Sends && b.due == 0 && b.whole() {
            // What was still to go need not: the rest went.
            b.phase = Phase::Asks;
        }
        handed
    }

    /// No more blocks are kept than may be. The source asks for the oldest first: of the newest
    /// only is remembered that they went on.
    pub fn trim(&mut self, mut free: impl FnMut(Ticket)) {
        let full = |b: &&mut Block| {
            let tickets = b.packets.iter().any(|p| p.ticket.is_some());
            b.phase == Phase::Done && tickets
        };
        for b in self.blocks.iter_mut().filter(full).skip(self.cache) {
            let tickets = b.packets.iter_mut().filter_map(|p| p.ticket.take());
            tickets.for_each(&mut free);
        }
        while self.blocks.len() > KNOWN {
            let done = |b: &Block| b.phase == Phase::Done;
            let bare = |b: &Block| done(b) && b.packets.iter().all(|p| p.ticket.is_none());
            let newest = self.blocks.iter().rposition(bare);
            let newest = newest.or_else(|| self.blocks.iter().rposition(done));
            let Some(at) = newest else { return };
            self.forget(at, &mut free);
        }
    }

    /// Blocks that went on and are here.
    pub fn cached(&self) -> usize {
        let here = |b: &&Block| b.gone && b.packets.iter().any(|p| p.ticket.is_some());
        self.blocks.iter().filter(here).count()
    }

    pub fn forget(&mut self, at: usize, free: &mut impl FnMut(Ticket)) {
        if let Some(mut b) = self.blocks.remove(at) {
            b.packets.iter().filter_map(|p| p.ticket).for_each(free);
            b.packets.clear();
            self.spare.push(b.packets);
        }
    }
}
