//! Packets between nodes: buffers, radios, wires, routes, TTL, and the account of every hop. It
//! knows nothing of what runs on a node: what came to one is handed to the conductor, which says
//! what goes on.

use super::address::NOBODY;
use super::air::Air;
use super::clock::Clock;
use super::events::{Class, What};
use super::hops::Hops;
use super::pool::{NO_FLOW, Packet, Pool, Stage};
use super::routes::Routes;
use super::tap::{RadioFacts, Seen, Tap};
use super::wire::{Entered, Wire};
use crate::routing::{Link, Via};
use crate::world::Change;
use wifu_node::{Lost, Relayed};
use wifu_radio::discipline::{PacketClass, Put};
use wifu_radio::{Frame, Times};
use wifu_wire::pcapng::Direction;
use wifu_wire::{Ecn, LinkFacts, Span, Time, ipv4};

/// Whether a source that never rests may put a packet into its node's queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Yes; its leaving is reported.
    Reported,
    /// Yes; its leaving is not reported.
    Silent,
    /// Then.
    At(Time),
    /// When the queue says so.
    None,
}

/// What carries packets.
pub(crate) struct Forwarding {
    pub(crate) pool: Pool,
    pub(crate) air: Air,
    pub(crate) wires: Vec<Wire>,
    pub(crate) routes: Routes,
    pub(crate) hops: Hops,
    /// Between a packet's arrival at a relay and its departure.
    cost: Span,
    /// Packets that each node relayed.
    pub(crate) relayed: Vec<u64>,
    tap: Option<Box<dyn Tap>>,
    /// Queues of some nodes have a discipline.
    pub(crate) managed: bool,
    /// What carries feedback or has priority goes first in them.
    pub(crate) hastens: bool,
    /// The tap wants to see what is on the air.
    pub(crate) aired: bool,
    /// Routes were laid since nodes were told.
    pub(crate) laid: bool,
}

impl Forwarding {
    /// An empty network of so many nodes.
    pub(crate) fn new(
        nodes: usize,
        (pool, air, wires): (Pool, Air, Vec<Wire>),
        routes: Routes,
        hops: Hops,
        cost: Span,
    ) -> Forwarding {
        Forwarding {
            pool,
            air,
            wires,
            routes,
            hops,
            cost,
            relayed: vec![0; nodes],
            tap: None,
            managed: false,
            hastens: false,
            aired: false,
            laid: false,
        }
    }

    /// Show packets to `tap` from now on, or to nobody; gives the one before. `frames`: records of
    /// frames' fates are kept.
    pub(crate) fn set_tap(
        &mut self,
        tap: Option<Box<dyn Tap>>,
        frames: bool,
    ) -> Option<Box<dyn Tap>> {
        self.aired = tap.as_ref().is_some_and(|t| t.wants_air());
        self.air.watch(frames, self.aired);
        core::mem::replace(&mut self.tap, tap)
    }

    /// The link by which packets of a node leave to another one; without one, the radio.
    pub(crate) fn link(&self, now: Time, from: u16, to: Option<u16>) -> Option<LinkFacts> {
        match to.map(|to| self.routes.via(from, to)) {
            Some(Via::Wire(wire)) => Some(self.wires[wire as usize].facts(now)),
            _ => self.air.link(from),
        }
    }

    /// The hops of the whole way from one node to another; `None` without a route.
    pub(crate) fn hops_to(&self, from: u16, to: u16) -> Option<usize> {
        self.routes
            .hops(from, to, |wire| self.wires[wire as usize].to)
    }

    /// A packet came over a link to the node that holds it.
    #[inline]
    pub(crate) fn arrived(
        &mut self,
        clock: &mut Clock,
        id: u32,
        from: u16,
        radio: Option<RadioFacts>,
    ) {
        let p = &self.pool[id];
        let code = u64::from(p.at) << 48 | u64::from(from) << 32 | u64::from(p.len) << 16;
        clock.mix(code | u64::from(p.ttl) << 8 | 1);
        if self.tap.is_some() {
            self.show(clock.now, id, from, Direction::In, radio);
        }
    }

    /// A node heard a broadcast. Who sent it still holds it.
    pub(crate) fn heard(
        &mut self,
        clock: &mut Clock,
        node: u16,
        from: u16,
        id: u32,
        radio: Option<RadioFacts>,
    ) {
        clock.mix(u64::from(node) << 48 | u64::from(from) << 32 | 2);
        if self.tap.is_some() {
            let at = core::mem::replace(&mut self.pool[id].at, node);
            self.show(clock.now, id, from, Direction::In, radio);
            self.pool[id].at = at;
        }
    }

    /// A packet that came to the node that holds it is to leave it; false if its TTL is used up.
    pub(crate) fn lower(&mut self, id: u32) -> bool {
        let packet = &mut self.pool[id];
        packet.stage = Stage::Leaves;
        packet.ttl = packet.ttl.saturating_sub(1);
        packet.ttl > 0
    }

    /// A packet goes on to another node.
    #[inline]
    pub(crate) fn relay(&mut self, clock: &mut Clock, id: u32) -> Relayed {
        if !self.lower(id) {
            return Relayed::Expired;
        }
        let packet = &self.pool[id];
        self.relayed[usize::from(packet.at)] += 1;
        if self.cost == Span::ZERO {
            return Relayed::Now;
        }
        clock.push(clock.now + self.cost, Class::Packet, What::Forward(id));
        Relayed::Later
    }

    /// Put a packet into the queue of the link that its route takes.
    ///
    /// # Errors
    /// Where it is lost; its holder has it still.
    #[inline]
    pub(crate) fn dispatch(&mut self, clock: &mut Clock, id: u32) -> Result<(), Lost> {
        let Packet { at, dst, len, .. } = self.pool[id];
        match self.routes.via(at, dst) {
            Via::Radio(next) => {
                if self.tap.is_some() {
                    self.show(clock.now, id, next, Direction::Out, None);
                }
                self.put(clock, at, Some(next), len, id)
            }
            Via::Wire(wire) => {
                if self.tap.is_some() {
                    let next = self.wires[wire as usize].to;
                    self.show(clock.now, id, next, Direction::Out, None);
                }
                self.enter_wire(clock, id, wire)
            }
            Via::Nowhere => Err(Lost::Route),
        }
    }

    /// Put a packet into the queue of a link, or for all who hear (`None`).
    ///
    /// # Errors
    /// Where it is lost; its holder has it still.
    pub(crate) fn dispatch_to(
        &mut self,
        clock: &mut Clock,
        id: u32,
        to: Option<Via>,
    ) -> Result<(), Lost> {
        let Packet { at, len, .. } = self.pool[id];
        let next = match to {
            None => None,
            Some(Via::Radio(next)) if usize::from(next) < self.relayed.len() => Some(next),
            Some(Via::Wire(wire)) => {
                let wires = self.wires.get(wire as usize);
                Some(wires.filter(|w| w.from == at).ok_or(Lost::Route)?.to)
            }
            Some(_) => return Err(Lost::Route),
        };
        if self.tap.is_some() {
            self.show(clock.now, id, next.unwrap_or(NOBODY), Direction::Out, None);
        }
        if let Some(Via::Wire(wire)) = to {
            return self.enter_wire(clock, id, wire);
        }
        self.put(clock, at, next, len, id)?;
        if next.is_none() {
            self.pool[id].stage = Stage::Shouts;
        }
        Ok(())
    }

    /// Put a packet into the queue of its holder's radio.
    #[inline]
    fn put(
        &mut self,
        clock: &mut Clock,
        at: u16,
        to: Option<u16>,
        bytes: u16,
        id: u32,
    ) -> Result<(), Lost> {
        self.pool.leaves(clock.now, id);
        let class = match self.managed {
            true => self.class(id),
            false => PacketClass::default(),
        };
        let frame = Frame {
            to,
            bytes,
            cookie: id,
        };
        match self.air.put(clock.now, at, frame, class) {
            Put::Taken => Ok(()),
            Put::Marked => {
                self.mark(clock, id);
                Ok(())
            }
            refused => {
                let next = to.unwrap_or(at);
                let early = refused == Put::Early;
                self.hops.kept_out(&self.pool[id], at, next, early);
                Err(Lost::Queue)
            }
        }
    }

    /// What queueing disciplines look at.
    #[cold]
    fn class(&self, id: u32) -> PacketClass {
        let octets = self.pool.octets(id);
        PacketClass {
            ect: Ecn::of(octets[1]) != Ecn::NotEct,
            flow: five_tuple(octets),
            first: self.hastens && self.pool[id].stage == Stage::Hastens,
        }
    }

    /// A discipline has a packet marked.
    #[cold]
    pub(crate) fn mark(&mut self, clock: &mut Clock, id: u32) {
        let marked = ipv4::mark(self.pool.own(id));
        debug_assert!(
            marked,
            "a packet that understands no marks is dropped instead"
        );
        clock.mix(u64::from(self.pool[id].at) << 32 | 5);
    }

    /// A packet that a node made, from its IP header on; `None` if it is none.
    pub(crate) fn made(&mut self, now: Time, node: u16, octets: &[u8]) -> Option<u32> {
        let header = wifu_core::ip::header(octets)?;
        debug_assert!(header >= 20);
        let (_, to) = wifu_core::ip::addresses(octets);
        let buffer = self.pool.buffer();
        let packet = Packet::new(buffer, 0, node, super::address::node_of(to), octets[9]);
        let id = self.pool.insert(now, packet);
        if self.pool.rewrite(id, octets) {
            wifu_core::ip::repair(self.pool.own(id));
            return Some(id);
        }
        self.pool.release(id);
        None
    }

    #[inline(always)]
    fn enter_wire(&mut self, clock: &mut Clock, id: u32, number: u32) -> Result<(), Lost> {
        self.pool.leaves(clock.now, id);
        if self.managed && self.wires[number as usize].managed.is_some() {
            return self.enter_managed(clock, id, number);
        }
        let wire = &mut self.wires[number as usize];
        match wire.enter(clock.now, id, self.pool[id].len) {
            Entered::Flies { arrives, first } => {
                if first {
                    clock.push(arrives, Class::Packet, What::Arrive(number));
                }
                Ok(())
            }
            Entered::Waits => Ok(()),
            kept_off => {
                let ends = (wire.from, wire.to);
                self.hops
                    .kept_off_wire(&self.pool[id], ends.0, ends.1, kept_off);
                Err(Lost::Queue)
            }
        }
    }

    /// The same for a wire whose queue has a discipline.
    #[cold]
    fn enter_managed(&mut self, clock: &mut Clock, id: u32, number: u32) -> Result<(), Lost> {
        let (packet, class) = (self.pool[id], self.class(id));
        let wire = &mut self.wires[number as usize];
        let ends = (wire.from, wire.to);
        let (entered, marked) = wire.enter_managed(clock.now, (id, packet.len), class);
        if marked {
            self.mark(clock, id);
        }
        self.hops.kept_off_wire(&packet, ends.0, ends.1, entered);
        self.follow(clock, number, entered)
    }

    /// What follows from a packet's entering a wire with a discipline.
    fn follow(&mut self, clock: &mut Clock, number: u32, entered: Entered) -> Result<(), Lost> {
        let wire = &mut self.wires[number as usize];
        if let Some(at) = wire.take_turn() {
            clock.push(at, Class::Packet, What::Leave(number));
        }
        match entered {
            Entered::Flies { arrives, first } => {
                if first {
                    clock.push(arrives, Class::Packet, What::Arrive(number));
                }
                Ok(())
            }
            Entered::Waits => Ok(()),
            Entered::Full | Entered::Early => Err(Lost::Queue),
        }
    }

    /// A wire whose queue has a discipline is free: the next packet enters it. Those that are lost
    /// meanwhile, with the reason; their holder has them still.
    pub(crate) fn wire_free(&mut self, clock: &mut Clock, number: u32) -> Vec<(u32, Lost)> {
        let mut lost = Vec::new();
        let wire = &mut self.wires[number as usize];
        let ends = (wire.from, wire.to);
        let next = wire.leave(clock.now, |id| lost.push((id, Lost::Queue)));
        for (id, _) in &lost {
            self.hops.kept_out(&self.pool[*id], ends.0, ends.1, true);
        }
        if let Some((id, entered, marked)) = next {
            if marked {
                self.mark(clock, id);
            }
            self.hops
                .kept_off_wire(&self.pool[id], ends.0, ends.1, entered);
            if let Err(why) = self.follow(clock, number, entered) {
                lost.push((id, why));
            }
        } else {
            // Nobody waits: no turn is taken.
            let _ = self.wires[number as usize].take_turn();
        }
        lost
    }

    /// The packet at the head of a wire arrives: which, from whom, and whether somebody overhears
    /// it.
    ///
    /// # Errors
    /// The one that is lost instead; its holder has it still.
    #[inline]
    pub(crate) fn wire_arrival(
        &mut self,
        clock: &mut Clock,
        number: u32,
    ) -> Option<Result<(u32, u16, bool), u32>> {
        let (pool, wire) = (&self.pool, &mut self.wires[number as usize]);
        let (from, to, heard) = (wire.from, wire.to, !wire.ears.is_empty());
        let (flown, next) = wire.arrive(|id| pool[id].len)?;
        if let Some(at) = next {
            clock.push(at, Class::Packet, What::Arrive(number));
        }
        let (id, stayed) = (flown.id, self.pool.stayed(flown.id));
        self.hops
            .by_wire(&self.pool[id], (from, to), &flown, stayed);
        if flown.lost {
            return Some(Err(id));
        }
        let packet = &mut self.pool[id];
        (packet.at, packet.stage) = (to, Stage::Came);
        packet.hop = packet.hop.saturating_add(1);
        self.pool.came(clock.now, id);
        Some(Ok((id, from, heard)))
    }

    /// A radio is done with a packet: its account, and the entry is free.
    ///
    /// # Errors
    /// The next hop did not get it; its holder has it still.
    #[inline]
    pub(crate) fn sent_by_radio(
        &mut self,
        packet: &Packet,
        to: Option<u16>,
        id: u32,
        (times, tried): (&Times, bool),
    ) -> Result<(), Lost> {
        let next = to.unwrap_or(packet.at);
        let ends = (packet.at, next);
        let stayed = self.pool.stayed(id);
        self.hops.by_radio(packet, ends, (stayed, times, tried));
        // Nobody counts what a routing daemon says.
        let counts = to.is_some() || packet.flow != NO_FLOW;
        if packet.passed || !counts {
            self.pool.release(id);
            return Ok(());
        }
        Err(if tried { Lost::Link } else { Lost::Queue })
    }

    /// A packet is lost; its entry is free. Gives its flow, if it has one.
    pub(crate) fn lose(&mut self, clock: &mut Clock, id: u32, why: Lost) -> Option<u32> {
        let flow = self.pool[id].flow;
        let why = match why {
            Lost::Lane => self.kept_out_of_lane(id),
            why => why,
        };
        clock.mix(0x100 | why as u64);
        self.pool.release(id);
        (flow != NO_FLOW).then_some(flow)
    }

    /// A lane has no place for a packet, which is lost like what a queue refuses.
    #[cold]
    fn kept_out_of_lane(&mut self, id: u32) -> Lost {
        let packet = &self.pool[id];
        let next = match self.routes.via(packet.at, packet.dst) {
            Via::Radio(next) => next,
            Via::Wire(wire) => self.wires[wire as usize].to,
            Via::Nowhere => packet.at,
        };
        self.hops.kept_out_of_lane(packet, packet.at, next);
        Lost::Queue
    }

    /// Send a packet to all who hear its holder; it is gone if the queue is full.
    pub(crate) fn broadcast(&mut self, now: Time, id: u32) {
        let Packet { at, len, .. } = self.pool[id];
        // No transport's packet: a discipline drops it like any that understands no marks.
        let frame = Frame {
            to: None,
            bytes: len,
            cookie: id,
        };
        if !self.air.put(now, at, frame, PacketClass::default()).taken() {
            self.pool.release(id);
        }
    }

    /// Packets that a node's link takes; 0 where there is none.
    #[inline]
    pub(crate) fn room_by(&mut self, now: Time, from: u16, via: Via) -> u32 {
        match via {
            Via::Radio(_) => self.air.room(from),
            Via::Wire(wire) => self.wires[wire as usize].room(now),
            Via::Nowhere => 0,
        }
    }

    /// When a full wire takes a packet again; radios say so themselves.
    pub(crate) fn room_by_at(&self, via: Via) -> Time {
        match via {
            Via::Wire(wire) => self.wires[wire as usize].next_left(),
            _ => Time::NEVER,
        }
    }

    /// Whether a source at full load, which has up to `most` packets in front of a wire, may send
    /// one now.
    pub(crate) fn place(&mut self, now: Time, from: u16, to: u16, most: u32) -> Place {
        match self.routes.via(from, to) {
            Via::Radio(_) if self.air.room(from) > 0 => Place::Reported,
            Via::Wire(wire) => {
                let wire = &mut self.wires[wire as usize];
                // What waits in front of a wire is not reported: ask again when one has left.
                if wire.room(now) == 0 || wire.waiting() >= most as usize {
                    return Place::At(wire.next_left());
                }
                Place::Silent
            }
            _ => Place::None,
        }
    }

    /// Routes over these links, which are all there are.
    pub(crate) fn lay_routes(&mut self, links: &[Link]) {
        self.routes.lay(links);
        self.laid = true;
    }

    /// A node has moved, or a link was cut or restored.
    pub(crate) fn change(&mut self, change: Change) {
        let (a, b, cut) = match change {
            Change::Place(..) => return,
            Change::Gain(from, to, dbm) => return self.air.set_gain(from, to, dbm),
            Change::Cut(a, b) => (a, b, true),
            Change::Restored(a, b) => (a, b, false),
        };
        for (from, to) in [(a, b), (b, a)] {
            let wires = self.wires.iter_mut();
            for wire in wires.filter(|w| (w.from, w.to) == (from, to)) {
                wire.cut = cut;
            }
            match cut {
                true => self.air.cut(from, to),
                // What is heard again is said by itself.
                false => self.air.set_gain(from, to, f64::NEG_INFINITY),
            }
        }
    }

    /// The nodes from `from` to `to`, both included; empty if there is no route.
    pub(crate) fn path(&self, from: u16, to: u16) -> Vec<u16> {
        self.routes
            .path(from, to, |wire| self.wires[wire as usize].to)
    }

    /// Show the tap what began on the air.
    pub(crate) fn show_air(&mut self) {
        let Some(tap) = &mut self.tap else { return };
        for frame in self.air.take_aired() {
            let data = frame.kind == wifu_radio::trace::FrameKind::Data;
            let packet = if data {
                Some(self.pool.as_seen(frame.cookie))
            } else {
                None
            };
            tap.aired(&frame, packet);
        }
    }

    fn show(
        &mut self,
        now: Time,
        id: u32,
        peer: u16,
        direction: Direction,
        radio: Option<RadioFacts>,
    ) {
        let node = self.pool[id].at;
        if let Some(tap) = &mut self.tap {
            tap.packet(&Seen {
                node,
                at: now,
                direction,
                peer,
                radio,
                bytes: self.pool.as_seen(id),
            });
        }
    }
}

/// A number of a packet's flow: of its addresses and its protocol, and of the ports that TCP and
/// UDP have (RFC 8290 section 3).
fn five_tuple(packet: &[u8]) -> u64 {
    let (src, dst) = wifu_core::ip::addresses(packet);
    let protocol = packet[9];
    let ports = match (protocol, packet.get(ipv4::HEADER..ipv4::HEADER + 4)) {
        (6 | 17, Some(ports)) => u32::from_be_bytes(ports.try_into().unwrap_or_default()),
        _ => 0,
    };
    let ends = u64::from(src.to_bits()) << 32 | u64::from(dst.to_bits());
    let ends = ends.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ends.rotate_left(29) ^ (u64::from(protocol) << 32 | u64::from(ports))
}
