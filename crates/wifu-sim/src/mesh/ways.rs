//! The network as one of its nodes sees it: what [`wifu_node::Node`] asks for.

use super::address::{address, node_of};
use super::clock::Clock;
use super::ends::flow_of;
use super::flows::Flows;
use super::forward::Forwarding;
use super::pool::{NO_FLOW, Packet, Stage};
use super::tap::RadioFacts;
use super::wire::{Ear, Wire};
use crate::routing::Via;
use core::net::Ipv4Addr;
use core::num::NonZeroU8;
use wifu_engine::{ConnId, Endpoint, RouteFacts, Ticket};
use wifu_node::{Bound, Frame, Lost, Reader, Relayed, Toward, Ways};
use wifu_radio::plan::Plan;
use wifu_wire::ipv4::{self, HEADER};
use wifu_wire::{Ecn, FrameFacts, IpInfo, LinkFacts, Moment, Neighbour, Notes, Rate, Time};

/// How a packet came, and who transmitted it.
#[derive(Clone, Copy)]
pub(crate) enum Came {
    /// By radio.
    Radio(u16, RadioFacts),
    /// Over the wire of this number, which leads here, at this rate.
    Wire(u16, u32, Option<Rate>),
}

impl Frame for Came {
    fn facts(self, now: Time) -> FrameFacts {
        let (rssi_dbm, rate, transmitter) = match self {
            Came::Radio(from, radio) => {
                let rate = radio.mode.rate();
                (Some(radio.rssi_dbm), Some(rate), neighbour(from, RADIO))
            }
            // Back over the same wire.
            Came::Wire(from, number, rate) => (None, rate, neighbour(from, wired(number ^ 1))),
        };
        FrameFacts {
            rssi_dbm,
            rate,
            transmitter,
            received: Moment::new(now),
            ..FrameFacts::NONE
        }
    }
}

/// The device that every radio is.
const RADIO: u16 = 1;

/// The device that a direction of a wire is where it begins. Both directions of one are neighbours.
fn wired(number: u32) -> u16 {
    u16::try_from(number).map_or(u16::MAX, |n| n.saturating_add(RADIO + 1))
}

/// What one who overhears a wire knows of a frame: a wire has no signal strength.
#[derive(Clone, Copy)]
pub(crate) struct Beside {
    /// Who transmitted it.
    from: u16,
    /// The hearer's device by which it knows that one.
    device: u16,
    rate: Option<Rate>,
}

impl Beside {
    /// As this ear hears a wire.
    pub(crate) fn at(ear: Ear, wire: &Wire) -> Beside {
        Beside {
            from: wire.from,
            device: ear.device,
            rate: wire.rate(),
        }
    }
}

impl Frame for Beside {
    fn facts(self, now: Time) -> FrameFacts {
        FrameFacts {
            rate: self.rate,
            transmitter: neighbour(self.from, self.device),
            received: Moment::new(now),
            ..FrameFacts::NONE
        }
    }
}

/// An ear of a node on a direction of a wire. It knows who transmits there as its own neighbour if
/// a link of its own leads to that one, else by the wire, on which it can send nothing.
pub(crate) fn ear(plan: &Plan, node: u16, (from, number): (u16, u32)) -> Ear {
    let wires = plan.wires.iter().zip(0..);
    let mut sides = wires.flat_map(|(w, i)| [((w.a, w.b), 2 * i), ((w.b, w.a), 2 * i + 1)]);
    let own = sides.find(|(ends, _)| *ends == (node, from));
    let hears = || plan.gains[usize::from(from)].iter().any(|g| g.to == node);
    let device = match own {
        Some((_, own)) => wired(own),
        None if hears() => RADIO,
        None => wired(number ^ 1),
    };
    Ear { node, device }
}

/// A node as its neighbour on a link knows it.
fn neighbour(node: u16, device: u16) -> Option<Neighbour> {
    Neighbour::new(device, crate::air_pcap::address(node))
}

/// The node of a neighbour.
fn node_at(neighbour: Neighbour) -> u16 {
    let [_, _, _, _, high, low] = neighbour.address;
    u16::from_be_bytes([high, low]).wrapping_sub(1)
}

/// By which link a neighbour is reached.
fn via(neighbour: Neighbour) -> Via {
    match neighbour.device.get().checked_sub(RADIO + 1) {
        Some(wire) => Via::Wire(u32::from(wire)),
        None => Via::Radio(node_at(neighbour)),
    }
}

/// The device of a link, and the node at its other end.
fn beyond(net: &Forwarding, via: Via) -> Option<Neighbour> {
    match via {
        Via::Radio(next) => neighbour(next, RADIO),
        Via::Wire(wire) => neighbour(net.wires[wire as usize].to, wired(wire)),
        Via::Nowhere => None,
    }
}

/// The network around a node.
pub(crate) struct Here<'a> {
    pub(crate) node: u16,
    pub(crate) plan: &'a Plan,
    pub(crate) clock: &'a mut Clock,
    pub(crate) net: &'a mut Forwarding,
    pub(crate) flows: &'a mut Flows,
    /// Lines that handlers wrote, by node.
    pub(crate) lines: &'a mut Vec<(u16, String)>,
}

impl Here<'_> {
    /// Tell an end of the rooms of several links, or of none.
    #[inline(never)]
    fn tell_rooms(&mut self, end: &mut Endpoint) -> Time {
        let (now, node) = (self.clock.now, self.node);
        let (mut at, mut any) = (Time::NEVER, false);
        for i in 0..self.net.routes.ways(node).len() {
            let via = self.net.routes.ways(node)[i];
            // What has no way is lost at once.
            if let Some(next) = beyond(self.net, via) {
                let room = self.net.room_by(now, node, via);
                if room == 0 {
                    at = at.min(self.net.room_by_at(via));
                }
                end.set_device_room(next.device, room);
                any = true;
            }
        }
        if !any {
            end.set_room(u32::MAX);
        }
        at
    }

    /// The next segment of an end, written into a buffer of the pool, and whose it is.
    #[inline(always)]
    fn written(&mut self, end: &mut Endpoint) -> Option<(Packet, Option<ConnId>)> {
        if !end.is_waiting() {
            return None;
        }
        let now = self.clock.now;
        let pool = &mut self.net.pool;
        let buffer = pool.buffer();
        let out = pool.octets_mut(buffer);
        let Some(datagram) = end.poll_transmit(now, &mut out[HEADER..]) else {
            pool.drop_buffer(buffer);
            return None;
        };
        let ip = datagram.ip.v4().expect("nodes have IPv4 addresses");
        ipv4::emit(&ip, datagram.len, out);
        let mut numbers = [0; 8];
        numbers.copy_from_slice(&out[HEADER..HEADER + 8]);
        self.clock.mix(u64::from_le_bytes(numbers) ^ 3);
        let len = (HEADER + datagram.len) as u16;
        let dst = node_of(ip.dst);
        let packet = Packet::new(buffer, len, self.node, dst, ip.proto);
        Some((packet, datagram.conn))
    }

    /// Hops that lie behind this node on the way from this end of a flow to the other.
    fn hops_behind(&self, number: u32, from: usize) -> u8 {
        let flow = &self.flows[number];
        let (start, to) = (flow.node(from), flow.node(1 - from));
        let hops = |from| self.net.hops_to(from, to).unwrap_or(0);
        let behind = hops(start).saturating_sub(hops(self.node));
        u8::try_from(behind).unwrap_or(u8::MAX)
    }

    /// One more packet of a flow.
    fn count_copy(&mut self, id: u32) {
        let flow = self.net.pool[id].flow;
        if flow != NO_FLOW {
            self.flows[flow].account.packets.copies += 1;
        }
    }
}

impl Ways for Here<'_> {
    #[inline]
    fn now(&self) -> Time {
        self.clock.now
    }

    fn me(&self) -> Ipv4Addr {
        address(self.node)
    }

    fn address(&self, neighbour: Neighbour) -> Option<Ipv4Addr> {
        Some(address(node_at(neighbour)))
    }

    fn log(&mut self, line: String) {
        self.lines.push((self.node, line));
    }

    /// Received powers are all that a plan tells of transmitters: their own power isn't known.
    fn route(&self, to: Ipv4Addr) -> Option<RouteFacts> {
        let (net, from, to) = (&*self.net, self.node, node_of(to));
        let via = net.routes.via(from, to);
        let (next, rate, sense) = match via {
            Via::Radio(next) => {
                let radio = &self.plan.nodes[usize::from(from)].radio;
                let rate = net.air.link(from).and_then(|l| l.rate);
                (next, rate, Some(radio.senses_dbm().round() as i8))
            }
            Via::Wire(wire) => {
                let wire = &net.wires[wire as usize];
                (wire.to, wire.rate(), None)
            }
            Via::Nowhere => return None,
        };
        let hops = net.hops_to(from, to).unwrap_or(0);
        Some(RouteFacts {
            next_hop: beyond(net, via),
            hops: NonZeroU8::new(u8::try_from(hops).unwrap_or(u8::MAX)),
            last_hop: next == to,
            rate,
            tx_power_dbm: None,
            sense_dbm: sense,
        })
    }

    fn link(&self, to: Option<Ipv4Addr>) -> LinkFacts {
        let link = self.net.link(self.clock.now, self.node, to.map(node_of));
        link.unwrap_or_default()
    }

    fn room(&mut self, to: Ipv4Addr) -> u32 {
        let now = self.clock.now;
        let via = self.net.routes.via(self.node, node_of(to));
        self.net.room_by(now, self.node, via)
    }

    fn room_at(&mut self, to: Ipv4Addr) -> Time {
        self.net
            .room_by_at(self.net.routes.via(self.node, node_of(to)))
    }

    fn room_toward(&mut self, way: Toward) -> u32 {
        match way {
            Toward::Destination(to) => self.room(to),
            // Routes lead to the ends of flows only.
            Toward::Beside(next) => self.net.room_by(self.clock.now, self.node, via(next)),
        }
    }

    fn room_toward_at(&mut self, way: Toward) -> Time {
        match way {
            Toward::Destination(to) => self.room_at(to),
            Toward::Beside(next) => self.net.room_by_at(via(next)),
        }
    }

    #[inline]
    fn tell_room(&mut self, end: &mut Endpoint) -> Time {
        let (now, node) = (self.clock.now, self.node);
        // The usual case by itself: all leave by one link.
        if let [via] = *self.net.routes.ways(node)
            && via != Via::Nowhere
        {
            let room = self.net.room_by(now, node, via);
            end.set_room(room);
            return match room {
                0 => self.net.room_by_at(via),
                _ => Time::NEVER,
            };
        }
        self.tell_rooms(end)
    }

    #[inline]
    fn emit(&mut self, end: &mut Endpoint) -> Option<(Ticket, Notes)> {
        let (mut packet, conn) = self.written(end)?;
        let mut notes = Notes::EMPTY;
        if let Some(conn) = conn.and_then(|id| end.conn(id)) {
            notes = conn.aside().notes;
            (packet.flow, packet.reverse) = self.flows.sent(self.clock.now, end, conn);
        }
        Some((self.enters(packet), notes))
    }

    fn emit_between(&mut self, end: &mut Endpoint) -> Option<(Ticket, Notes, Option<ConnId>)> {
        let (mut packet, conn) = self.written(end)?;
        let mut notes = Notes::EMPTY;
        if let Some(conn) = conn.and_then(|id| end.conn(id)) {
            notes = conn.aside().notes;
            let (number, from) = flow_of(conn);
            (packet.flow, packet.reverse) = (number, from == 1);
            packet.hop = self.hops_behind(number, from);
        }
        Some((self.enters(packet), notes, conn))
    }

    #[inline]
    fn ip(&self, packet: Ticket) -> IpInfo {
        let octets = self.net.pool.octets(packet.0);
        let ((src, dst), ecn) = (wifu_core::ip::addresses(octets), Ecn::of(octets[1]));
        let packet = &self.net.pool[packet.0];
        IpInfo {
            src,
            dst,
            proto: packet.proto,
            ttl: packet.ttl,
            ecn,
        }
    }

    #[inline]
    fn octets(&self, packet: Ticket) -> &[u8] {
        self.net.pool.octets(packet.0)
    }

    fn rewrite(&mut self, packet: Ticket, octets: &[u8]) -> bool {
        self.net.pool.rewrite(packet.0, octets)
    }

    fn patch(&mut self, packet: Ticket, change: &mut dyn FnMut(&mut [u8])) {
        change(self.net.pool.own(packet.0));
    }

    fn is_own(&self, packet: Ticket) -> bool {
        self.net.pool[packet.0].hop == 0
    }

    fn copy(&mut self, packet: Ticket) -> Ticket {
        Ticket(self.net.pool.copy(packet.0))
    }

    fn twin(&mut self, packet: Ticket) -> Ticket {
        // The first one is on no way from now on; the new one is, in its place.
        if core::mem::replace(&mut self.net.pool[packet.0].kept, true) {
            self.count_copy(packet.0);
        }
        let twin = self.net.pool.copy(packet.0);
        self.net.pool[twin].kept = false;
        Ticket(twin)
    }

    fn go(&mut self, packet: Ticket) {
        if core::mem::replace(&mut self.net.pool[packet.0].kept, false) {
            self.count_copy(packet.0);
        }
    }

    fn made(&mut self, octets: &[u8]) -> Option<Ticket> {
        self.net.made(self.clock.now, self.node, octets).map(Ticket)
    }

    fn free(&mut self, packet: Ticket) {
        let entry = &self.net.pool[packet.0];
        match entry.kept || entry.stage == Stage::Heard {
            true => self.net.pool.release(packet.0),
            // A lane lets go what is on its way: it does not lack the room.
            false => self.lose(packet, Lost::Hop),
        }
    }

    fn lose(&mut self, packet: Ticket, why: Lost) {
        let entry = &self.net.pool[packet.0];
        if entry.stage == Stage::Heard && entry.kept {
            // What was heard for somebody else is on no way.
            return self.net.pool.release(packet.0);
        }
        if let Some(flow) = self.net.lose(self.clock, packet.0, why) {
            self.flows.lost(self.clock.now, flow, why);
        }
    }

    #[inline]
    fn bound(&self, packet: Ticket) -> Bound {
        let packet = &self.net.pool[packet.0];
        if packet.dst == self.node {
            Bound::Here
        } else if packet.stage == Stage::Heard {
            Bound::Heard
        } else {
            Bound::Onward
        }
    }

    #[inline]
    fn relay(&mut self, packet: Ticket) -> Relayed {
        self.net.relay(self.clock, packet.0)
    }

    fn ready(&mut self, packet: Ticket) -> bool {
        let stage = self.net.pool[packet.0].stage;
        !matches!(stage, Stage::Came | Stage::Heard) || self.net.lower(packet.0)
    }

    #[inline]
    fn send(&mut self, packet: Ticket) -> Result<(), Lost> {
        self.net.dispatch(self.clock, packet.0)
    }

    fn send_to(&mut self, packet: Ticket, to: Option<Neighbour>) -> Result<(), Lost> {
        let to = to.map(via);
        self.net.dispatch_to(self.clock, packet.0, to)
    }

    fn hasten(&mut self, packet: Ticket) {
        let stage = &mut self.net.pool[packet.0].stage;
        if *stage == Stage::Leaves {
            *stage = Stage::Hastens;
        }
    }

    fn is_for_end(&self, packet: Ticket) -> bool {
        let flow = self.net.pool[packet.0].flow;
        flow == NO_FLOW || self.flows[flow].udp.is_none()
    }

    #[inline]
    fn deliver(&mut self, packet: Ticket) -> bool {
        let id = packet.0;
        let packet = self.net.pool[id];
        let datagram = packet.flow != NO_FLOW && self.flows.arrived(packet.flow);
        if datagram {
            let octets = self.net.pool.octets(id);
            self.flows.sink(self.clock.now, &packet, octets);
            self.net.pool.release(id);
        }
        datagram
    }

    #[inline]
    fn delivered(&mut self, packet: Ticket, by: Reader) {
        let Packet {
            flow,
            reverse,
            stage,
            kept,
            ..
        } = self.net.pool[packet.0];
        self.net.pool.release(packet.0);
        // What was heard for somebody else is on no way.
        if flow != NO_FLOW && !(stage == Stage::Heard && kept) {
            match by {
                Reader::Lane => self.flows[flow].account.packets.delivered += 1,
                Reader::Between => self.flows[flow].account.packets.delivered += 1,
                Reader::End if reverse || self.flows.of_answers(flow) => {
                    self.flows.to_look.push(flow);
                }
                Reader::End => {}
            }
        }
    }
}

impl Here<'_> {
    /// What a node sends is in the network.
    #[inline]
    pub(crate) fn enters(&mut self, packet: Packet) -> Ticket {
        if packet.flow != NO_FLOW {
            self.flows[packet.flow].account.packets.sent += 1;
        }
        Ticket(self.net.pool.insert(self.clock.now, packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbour_says_by_which_link_it_is_reached() {
        let by = |device| neighbour(5, device).map(via);
        assert_eq!(by(RADIO), Some(Via::Radio(5)));
        // Parallel wires lead to the same node and are told apart.
        assert_eq!(
            [0, 2].map(|n| by(wired(n))),
            [0, 2].map(|n| Some(Via::Wire(n)))
        );
        // Who came over one direction is reached by the other.
        let came = Came::Wire(5, 3, None).facts(Time::ZERO).transmitter;
        assert_eq!(came.map(via), Some(Via::Wire(2)));
    }
}
