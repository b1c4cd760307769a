//! The way of a packet over a node, from hook to hook.

use crate::custody::{Origin, Seen};
use crate::node::Node;
use crate::passage::{Asking, Mask, Passage};
use crate::ways::{Bound, Frame, Lost, Reader, Relayed, Ways};
use crate::work::Doing;
use core::cell::RefCell;
use core::net::Ipv4Addr;
use wifu_core::{
    Chain, Hook, LinkFacts, LinkTo, NO_PACKET, NextHop, Octets, Packet, Released, Sending, Site,
};
use wifu_core::{TxStatus, Verdict, What, ip};
use wifu_engine::Ticket;
use wifu_wire::{FrameFacts, Notes, Span};

impl Node {
    /// A packet came over a link. False if it passed a node where nothing runs: then nothing is to
    /// be done but for the packet.
    #[inline]
    pub fn arrive(&mut self, ways: &mut impl Ways, packet: Ticket, frame: impl Frame) -> bool {
        if !self.mask.is_clear() {
            let way = Passage::new(packet, Hook::Prerouting, frame.facts(ways.now()));
            self.pass(ways, way, false);
            return true;
        }
        // The usual case by itself: what is not served costs nothing.
        match ways.bound(packet) {
            Bound::Here => {
                // With work at the host it is not clear.
                let facts = frame.facts(ways.now());
                self.read(ways, packet, facts);
                return true;
            }
            Bound::Onward => match ways.relay(packet) {
                Relayed::Now => {
                    if let Err(why) = ways.send(packet) {
                        ways.lose(packet, why);
                    }
                }
                Relayed::Later => {}
                Relayed::Expired => ways.lose(packet, Lost::Route),
            },
            Bound::Heard => ways.free(packet),
        }
        false
    }

    /// The substrate is done with a packet that goes on ([`Relayed::Later`]). False as of
    /// [`Node::arrive`].
    pub fn relayed(&mut self, ways: &mut impl Ways, packet: Ticket) -> bool {
        let notes = self.later.remove(&packet.0).unwrap_or_default();
        if !self.mask.has(Mask::LANES) || !self.taken_by_lane(ways, packet, &notes) {
            self.leave(ways, packet, LinkTo::Route, notes);
        }
        self.mask.any()
    }

    /// The end, or an application of the substrate, sends a packet. False as of [`Node::arrive`].
    #[inline]
    pub fn originate(&mut self, ways: &mut impl Ways, packet: Ticket, notes: Notes) -> bool {
        if self.mask.is_clear_out() {
            if let Err(why) = ways.send(packet) {
                ways.lose(packet, why);
            }
            return self.mask.any();
        }
        self.pass(ways, Passage::here(packet, Hook::Output, notes), false);
        self.mask.any()
    }

    /// A packet leaves.
    #[inline]
    pub(crate) fn leave(&mut self, ways: &mut impl Ways, packet: Ticket, to: LinkTo, notes: Notes) {
        let mut way = Passage::here(packet, Hook::Postrouting, notes);
        way.to = to;
        self.pass(ways, way, false);
    }

    /// A packet goes over the node, from hook to hook, as long as handlers accept it. `resumed`:
    /// they have accepted it at the first one.
    fn pass<W: Ways>(&mut self, ways: &mut W, mut way: Passage, mut resumed: bool) {
        let (mask, packet) = (self.mask, way.packet);
        let lanes = mask.has(Mask::LANES);
        loop {
            if mask.at(way.hook) && !resumed && !self.accepted(ways, &mut way) {
                break;
            }
            resumed = false;
            way.hook = match way.hook {
                Hook::Prerouting => match ways.bound(packet) {
                    Bound::Here => Hook::Input,
                    Bound::Onward if self.splits(ways, packet) => {
                        way.between = true;
                        Hook::Input
                    }
                    Bound::Onward => Hook::Forward,
                    Bound::Heard => {
                        let facts = &mut way.facts;
                        if !lanes || self.seen_by_lanes(ways, packet, facts, Origin::Heard) {
                            ways.free(packet);
                        }
                        break;
                    }
                },
                Hook::Input => {
                    if lanes && !self.seen_by_lanes(ways, packet, &mut way.facts, Origin::ForHere) {
                        break;
                    }
                    self.deliver(ways, &way);
                    break;
                }
                Hook::Forward => {
                    if !self.relays(ways, &mut way) {
                        break;
                    }
                    Hook::Postrouting
                }
                Hook::Output => {
                    if lanes
                        && (!self.seen_by_lanes(ways, packet, &mut way.facts, Origin::Own)
                            || self.taken_by_lane(ways, packet, &way.facts.notes))
                    {
                        break;
                    }
                    way.copied &= !lanes;
                    Hook::Postrouting
                }
                Hook::Postrouting => {
                    let first = match mask.has(Mask::NOTED) {
                        true => self.goes_first(ways, &way),
                        false => Some(false),
                    };
                    match first.map(|first| (first, send(ways, way.to, packet))) {
                        None => {}
                        Some((first, Ok(()))) => self.heeded.first += u64::from(first),
                        Some((_, Err(why))) => self.refused(ways, packet, why),
                    }
                    break;
                }
                Hook::Overheard => break,
            };
        }
    }

    /// A packet goes on to another node; whether it leaves now.
    fn relays<W: Ways>(&mut self, ways: &mut W, way: &mut Passage) -> bool {
        let (packet, lanes) = (way.packet, self.mask.has(Mask::LANES));
        if lanes && !self.seen_by_lanes(ways, packet, &mut way.facts, Origin::Link) {
            return false;
        }
        // How it came does not concern whom it goes to. Lanes may have handed down meanwhile what
        // chains saw.
        way.facts = way.facts.notes_only();
        way.copied &= !lanes;
        let notes = &way.facts.notes;
        match ways.relay(packet) {
            Relayed::Now => return !lanes || !self.taken_by_lane(ways, packet, notes),
            Relayed::Later if notes.is_empty() => {}
            Relayed::Later => {
                self.later.insert(packet.0, *notes);
            }
            Relayed::Expired => ways.lose(packet, Lost::Route),
        }
        false
    }

    /// A packet for another node is taken off its way.
    fn splits(&self, ways: &impl Ways, packet: Ticket) -> bool {
        let split = self.split.as_deref();
        split.is_some_and(|s| s.takes(ways.ip(packet).proto))
    }

    /// A packet is where it was to go, or goes no further.
    fn deliver(&mut self, ways: &mut impl Ways, way: &Passage) {
        let (packet, facts) = (way.packet, way.facts);
        if way.between {
            if let Some(split) = self.split.as_deref_mut() {
                split.read(ways, packet, facts);
                self.stirred = true;
            }
            return ways.delivered(packet, Reader::Between);
        }
        if self.mask.has(Mask::WORK) && ways.is_for_end(packet) {
            return self.comes(ways, packet, facts);
        }
        self.read(ways, packet, facts);
    }

    /// Who a packet is for has it.
    #[inline(always)]
    pub(crate) fn read(&mut self, ways: &mut impl Ways, packet: Ticket, facts: FrameFacts) {
        if ways.deliver(packet) {
            return;
        }
        let (now, ip) = (ways.now(), ways.ip(packet));
        let octets = ways.octets(packet);
        if let (Some(end), Some(at)) = (self.end.as_deref_mut(), ip::header(octets)) {
            end.handle_frame(now, &ip, &octets[at..], facts);
            self.stirred = true;
        }
        ways.delivered(packet, Reader::End);
    }

    /// A packet for the end came to its host.
    pub(crate) fn comes(&mut self, ways: &mut impl Ways, packet: Ticket, facts: FrameFacts) {
        let (now, bytes) = (ways.now(), ways.octets(packet).len() as u32);
        let Some(work) = self.work.as_deref_mut() else {
            return;
        };
        match work.comes(packet, facts, bytes, now) {
            true => self.stirred = true,
            false => ways.lose(packet, Lost::Host),
        }
    }

    /// The host takes up what is next, of what came and what the end sends in turns; false if
    /// there is nothing, or it is at work.
    #[inline(never)]
    pub(crate) fn take_up(&mut self, ways: &mut impl Ways) -> bool {
        let now = ways.now();
        let Some(work) = self.work.as_deref_mut() else {
            return false;
        };
        if work.busy_until().is_some() {
            return false;
        }
        if work.reads_first() && work.take_up(now) {
            return true;
        }
        let sends = self.end.as_deref_mut().filter(|end| end.is_waiting());
        let sends = sends.and_then(|end| {
            ways.tell_room(end);
            ways.emit(end)
        });
        match sends {
            Some((packet, notes)) => work.sends(packet, notes, now),
            None if work.take_up(now) => {}
            None => {
                work.rests();
                return false;
            }
        }
        true
    }

    /// The host is done with what was to be done by now.
    pub(crate) fn worked(&mut self, ways: &mut impl Ways) {
        let now = ways.now();
        let Some(done) = self.work.as_deref_mut().and_then(|work| work.done(now)) else {
            return;
        };
        match done {
            Doing::In(packet, facts) => self.read(ways, packet, facts),
            Doing::Out(packet, notes) => {
                self.originate(ways, packet, notes);
            }
        }
        self.stirred = true;
    }

    /// Ask handlers about a packet; whether it goes on.
    #[inline(never)]
    fn accepted<W: Ways>(&mut self, ways: &mut W, way: &mut Passage) -> bool {
        let verdict = self.ask(ways, way, Asking::New);
        if self.let_go(ways) {
            way.copied = false;
        }
        match verdict {
            Verdict::Accept => return true,
            Verdict::Drop(_) => self.dropped(ways, way),
            Verdict::Hold => {}
        }
        false
    }

    /// Handlers drop a packet; an end that had counted it in its lane takes it back.
    fn dropped(&mut self, ways: &mut impl Ways, way: &Passage) {
        if way.hook == Hook::Output
            && let Some(lanes) = self.lanes.as_deref_mut()
        {
            lanes.missed(way.packet, ways);
            self.tell_lane_rooms();
        }
        ways.lose(way.packet, Lost::Hop);
    }

    /// Let go on what handlers released, and let in what they send. True if they were asked about
    /// packets meanwhile.
    pub(crate) fn let_go<W: Ways>(&mut self, ways: &mut W) -> bool {
        if self.chain.as_deref().is_none_or(Chain::is_settled) {
            return false;
        }
        while let Some((released, mut way)) = self.released() {
            match self.ask(ways, &mut way, Asking::Again(released)) {
                Verdict::Accept if way.to != LinkTo::Route => self.leave_for(ways, &way),
                Verdict::Accept => {
                    self.pass(ways, way, true);
                }
                Verdict::Drop(_) => self.dropped(ways, &way),
                Verdict::Hold => {}
            }
        }
        while let Some(sending) = self.chain.as_deref_mut().and_then(|c| c.poll_sending()) {
            self.enter(ways, sending);
        }
        while let Some(copy) = self.chain.as_deref_mut().and_then(|c| c.poll_dropped()) {
            ways.free(Ticket(copy as u32));
        }
        true
    }

    /// A packet that the chain let go since, and where it was held.
    fn released(&mut self) -> Option<(Released, Passage)> {
        loop {
            let released = self.chain.as_deref_mut()?.poll_released()?;
            if let Some(mut way) = self.held.remove(&(released.ticket as u32)) {
                way.copied = false;
                return Some((released, way));
            }
        }
    }

    /// A packet that a handler sends enters: it leaves the node unless another handler objects, or
    /// it is one that the handler made for this node's own end.
    fn enter<W: Ways>(&mut self, ways: &mut W, sending: Sending) {
        let (packet, here) = match sending.what {
            What::Kept { ticket, stays } => {
                let kept = Ticket(ticket as u32);
                let packet = if stays { ways.copy(kept) } else { kept };
                ways.go(packet);
                (packet, false)
            }
            What::Octets(octets) => {
                let made = ways.made(&octets);
                let Some(chain) = self.chain.as_deref_mut() else {
                    return;
                };
                chain.recycle(octets);
                match made {
                    Some(packet) => (packet, ways.bound(packet) == Bound::Here),
                    None => return chain.unsent(sending.by, NO_PACKET),
                }
            }
        };
        if !ways.ready(packet) {
            return ways.lose(packet, Lost::Route);
        }
        let up = here && sending.to == LinkTo::Route;
        let hook = if up { Hook::Input } else { Hook::Postrouting };
        let mut way = Passage::here(packet, hook, Notes::EMPTY);
        way.to = sending.to;
        if self.mask.at(hook) {
            match self.ask(ways, &mut way, Asking::Sent(sending.by)) {
                Verdict::Accept => {}
                Verdict::Drop(_) => return ways.lose(packet, Lost::Hop),
                Verdict::Hold => return,
            }
        }
        if up {
            return self.pass(ways, way, true);
        }
        self.leave_for(ways, &way);
    }

    /// What a handler sent leaves, past all hooks.
    fn leave_for(&mut self, ways: &mut impl Ways, way: &Passage) {
        let first = match self.mask.has(Mask::NOTED) {
            true => self.goes_first(ways, way),
            false => Some(false),
        };
        match first.map(|first| (first, send(ways, way.to, way.packet))) {
            None => {}
            Some((first, Ok(()))) => self.heeded.first += u64::from(first),
            Some((_, Err(why))) => ways.lose(way.packet, why),
        }
    }

    /// Heed what is noted on a packet that is handed to a device next: whether it goes before
    /// others; `None` if its deadline has passed, and it is lost.
    #[inline(never)]
    fn goes_first(&mut self, ways: &mut impl Ways, way: &Passage) -> Option<bool> {
        let (heeds, notes, now) = (self.heeds, &way.facts.notes, ways.now());
        let deadline = heeds.deadline.and_then(|note| notes.time(note, now));
        // Deadlines are whole microseconds: one lasts until it is over.
        if deadline.is_some_and(|at| now - at >= Span::MICRO) {
            self.heeded.late += 1;
            self.expired(ways, way.packet);
            return None;
        }
        let first = [heeds.feedback, heeds.priority].into_iter().flatten();
        let first = first.filter_map(|note| notes.get(note)).any(|n| n > 0);
        if first {
            ways.hasten(way.packet);
        }
        Some(first)
    }

    /// The chain's time has come.
    #[inline(never)]
    pub(crate) fn chain_due(&mut self, ways: &mut impl Ways) {
        let now = ways.now();
        if let Some(chain) = self.chain.as_deref_mut() {
            let cell = RefCell::new(&mut *ways);
            chain.handle_timeout(now, &Here::new(self.number, None, &cell));
        }
        self.collect(ways);
        self.let_go(ways);
    }

    /// The radio heard a packet for somebody else; the ticket stays the substrate's.
    pub fn overhear(&mut self, ways: &mut impl Ways, packet: Ticket, frame: impl Frame) {
        let facts = frame.facts(ways.now());
        if self.mask.at(Hook::Overheard) {
            let mut way = Passage::new(packet, Hook::Overheard, facts);
            if self.ask(ways, &mut way, Asking::New) == Verdict::Hold {
                // Nobody waits for an overheard packet: it isn't kept.
                self.held.remove(&packet.0);
                if let Some(chain) = self.chain.as_deref_mut() {
                    chain.forget(u64::from(packet.0));
                }
            }
            self.let_go(ways);
        }
        if self.mask.has(Mask::EARS) {
            self.tell_overheard(ways, packet, &facts);
        }
    }

    /// The driver reported a packet that left, whose ticket stays the substrate's.
    pub fn report(&mut self, ways: &mut impl Ways, packet: Ticket, status: &TxStatus) {
        let now = ways.now();
        if let Some(chain) = self.chain.as_deref_mut() {
            let cell = RefCell::new(&mut *ways);
            chain.on_tx_status(status, now, &Here::new(self.number, None, &cell));
        }
        self.collect(ways);
        self.let_go(ways);
        if self.mask.has(Mask::STATUS) {
            self.tell_status(ways, packet, status);
        }
    }

    /// Ask handlers about a packet, or go on asking about one that was held.
    fn ask<W: Ways>(&mut self, ways: &mut W, way: &mut Passage, why: Asking) -> Verdict {
        let (id, hook) = (way.packet, way.hook);
        let Some(chain) = self.chain.as_deref_mut() else {
            return Verdict::Accept;
        };
        if matches!(why, Asking::New) && !chain.wants(hook, ways.octets(id)) {
            return Verdict::Accept;
        }
        let (now, ip) = (ways.now(), ways.ip(id));
        if !way.copied {
            self.octets.clear();
            self.octets.extend_from_slice(ways.octets(id));
        }
        ip::lower_ttl(&mut self.octets, ip.ttl);
        way.copied = true;
        // Packet and site are two faces of one substrate. No call of either is made within one of
        // the other.
        let cell = RefCell::new(&mut *ways);
        let mut view = View {
            octets: &mut self.octets,
            ways: &cell,
            packet: id,
            changed: false,
        };
        let mut packet = Packet::new(&mut view, u64::from(id.0));
        packet.transmitter = way.facts.transmitter;
        packet.rssi_dbm = way.facts.rssi_dbm;
        packet.rate = way.facts.rate;
        packet.received = way.facts.received;
        packet.notes = way.facts.notes;
        let here = Here::new(self.number, Some(ip.dst), &cell);
        let verdict = match why {
            Asking::New => chain.on_packet(hook, &mut packet, now, &here),
            Asking::Again(released) => chain.resume(released, &mut packet, now, &here),
            Asking::Sent(by) => chain.on_sent(by, hook, &mut packet, now, &here),
        };
        let changed = packet.changed();
        way.facts.notes = packet.notes;
        self.collect(ways);
        if changed && hook != Hook::Overheard {
            ip::repair(&mut self.octets);
            if !ways.rewrite(id, &self.octets) {
                if verdict == Verdict::Hold
                    && let Some(chain) = self.chain.as_deref_mut()
                {
                    chain.forget(u64::from(id.0));
                }
                return Verdict::Drop("longer than the interface takes");
            }
        }
        if verdict == Verdict::Hold {
            self.held.insert(id.0, *way);
        }
        verdict
    }

    /// Hand on what handlers wrote.
    fn collect(&mut self, ways: &mut impl Ways) {
        if let Some(chain) = self.chain.as_deref_mut() {
            for line in chain.take_lines() {
                ways.log(line);
            }
        }
    }
}

/// Hand a packet to a device.
fn send(ways: &mut impl Ways, to: LinkTo, packet: Ticket) -> Result<(), Lost> {
    match to {
        LinkTo::Route => ways.send(packet),
        LinkTo::Neighbour(to) => ways.send_to(packet, Some(to)),
        LinkTo::All => ways.send_to(packet, None),
    }
}

/// What became of a packet that lanes saw: whether it goes on.
pub(crate) fn goes_on(ways: &mut impl Ways, packet: Ticket, seen: Seen) -> bool {
    match seen {
        Seen::On => return true,
        Seen::Here => ways.delivered(packet, Reader::Lane),
        Seen::Dropped(_) => ways.lose(packet, Lost::Hop),
    }
    false
}

/// A packet while handlers see it.
struct View<'a, 'b, W> {
    octets: &'a mut Vec<u8>,
    ways: &'a RefCell<&'b mut W>,
    packet: Ticket,
    changed: bool,
}

impl<W: Ways> Octets for View<'_, '_, W> {
    fn get(&self) -> &[u8] {
        self.octets
    }
    fn get_mut(&mut self) -> &mut [u8] {
        self.changed = true;
        self.octets
    }
    fn replace(&mut self, octets: &[u8]) {
        self.changed = true;
        Octets::replace(self.octets, octets);
    }
    fn copy(&mut self) -> Option<u64> {
        let ways = &mut *self.ways.borrow_mut();
        let copy = ways.copy(self.packet);
        if self.changed {
            let mut octets = self.octets.clone();
            ip::repair(&mut octets);
            if !ways.rewrite(copy, &octets) {
                ways.free(copy);
                return None;
            }
        }
        Some(u64::from(copy.0))
    }
}

/// The node, for handlers.
struct Here<'a, 'b, W> {
    number: u16,
    /// Where the packet goes that is looked at.
    to: Option<Ipv4Addr>,
    ways: &'a RefCell<&'b mut W>,
}

impl<'a, 'b, W> Here<'a, 'b, W> {
    fn new(number: u16, to: Option<Ipv4Addr>, ways: &'a RefCell<&'b mut W>) -> Here<'a, 'b, W> {
        Here { number, to, ways }
    }
}

impl<W: Ways> Site for Here<'_, '_, W> {
    fn node(&self) -> u16 {
        self.number
    }

    fn link(&self) -> LinkFacts {
        self.ways.borrow().link(self.to)
    }

    fn link_to(&self, to: Ipv4Addr) -> LinkFacts {
        self.ways.borrow().link(Some(to))
    }

    fn has_route(&self, to: Ipv4Addr) -> bool {
        self.ways.borrow().route(to).is_some()
    }

    fn next_hop(&self, to: Ipv4Addr) -> Option<NextHop> {
        self.ways.borrow().next_hop(to)
    }
}
