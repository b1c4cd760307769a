//! Lanes of the nodes: where packets meet them, and what they ask the network for.

use super::Simulation;
use super::address::{address, node_of};
use super::events::{Class, What};
use super::flow::Flow;
use super::forward::{Forwarding, Lost};
use super::hop::{Asked, Came, Passage, neighbour};
use super::nodes::{Going, NONE, Nodes};
use super::pool::NO_FLOW;
use crate::routing::Via;
use core::net::Ipv4Addr;
use core::num::NonZeroU8;
use wifu_core::{Hook, TxStatus};
use wifu_engine::{Conn, RouteFacts, Status, Ticket};
use wifu_node::{FlowKey, LaneCounters, Lanes, Origin, Seen, Took, Ways};
use wifu_radio::plan::Plan;
use wifu_wire::{IpInfo, Span, Time};

/// A link that had room and yet refused a packet is tried again after this.
const RETRY: Span = Span(10_000_000);

/// A node's ways.
struct From<'a> {
    node: u16,
    now: Time,
    plan: &'a Plan,
    net: &'a mut Forwarding,
    /// Packets of flows of which there is one more.
    copies: &'a mut Vec<u32>,
}

impl Ways for From<'_> {
    fn route(&mut self, to: Ipv4Addr) -> Option<RouteFacts> {
        route(self.plan, self.net, self.node, node_of(to))
    }

    fn room(&mut self, to: Ipv4Addr) -> u32 {
        self.net.room_to(self.now, self.node, node_of(to))
    }

    fn bytes(&self, packet: Ticket) -> usize {
        usize::from(self.net.pool[packet.0].len)
    }

    fn twin(&mut self, packet: Ticket) -> Ticket {
        let pool = &mut self.net.pool;
        // The lane's own is on no way from now on; its copy is, in its place.
        if core::mem::replace(&mut pool[packet.0].kept, true) {
            self.copies.push(pool[packet.0].flow);
        }
        let twin = pool.twin(packet.0);
        pool[twin].kept = false;
        Ticket(twin)
    }

    fn go(&mut self, packet: Ticket) {
        let pool = &mut self.net.pool;
        if core::mem::replace(&mut pool[packet.0].kept, false) {
            self.copies.push(pool[packet.0].flow);
        }
    }

    fn patch(&mut self, packet: Ticket, change: &mut dyn FnMut(&mut [u8])) {
        change(self.net.pool.own(packet.0));
    }
}

/// What a node knows of the way to another one. Received powers are all that a plan tells of
/// transmitters: their own power isn't known.
fn route(plan: &Plan, net: &Forwarding, from: u16, to: u16) -> Option<RouteFacts> {
    let hops = net.path(from, to).len().saturating_sub(1);
    let (next, rate, sense) = match net.routes.via(from, to) {
        Via::Radio(next) => {
            let radio = &plan.nodes[usize::from(from)].radio;
            let rate = net.air.link(from).and_then(|l| l.rate);
            (next, rate, Some(radio.cs_dbm.round() as i8))
        }
        Via::Wire(wire) => {
            let wire = &net.wires[wire as usize];
            (wire.to, wire.rate(), None)
        }
        Via::Nowhere => return None,
    };
    Some(RouteFacts {
        next_hop: neighbour(next),
        hops: NonZeroU8::new(u8::try_from(hops).unwrap_or(u8::MAX)),
        last_hop: next == to,
        rate,
        tx_power_dbm: None,
        sense_dbm: sense,
    })
}

impl Nodes {
    /// Put lanes at a node, or note that its end listens to the links.
    pub(crate) fn set_lanes(&mut self, node: u16, lanes: Option<Lanes>, ends: (bool, bool)) {
        let node = &mut self.all[usize::from(node)];
        let (overhear, status) = lanes
            .as_ref()
            .map_or((false, false), |l| (l.overhears(), l.wants_status()));
        node.asked = node
            .asked
            .with(Asked::LANES, lanes.is_some())
            .with(Asked::EARS, overhear || ends.0)
            .with(Asked::STATUS, status || ends.1);
        node.lanes = lanes.map(Box::new);
    }

    /// The lane of a node for the data of a flow.
    pub(crate) fn lane_of(&self, node: u16, flow: &Flow, number: usize) -> Option<&Conn> {
        let lanes = self.all[usize::from(node)].lanes.as_deref()?;
        let (from, to) = (address(flow.src), address(flow.dst));
        let port = Flow::port(number as u32);
        let mut all = lanes.all();
        let mine = |key: &&FlowKey| {
            let ends = (*key.source.ip(), *key.target.ip(), key.target.port());
            ends == (from, to, port)
        };
        all.find(|(key, _)| mine(key)).map(|(_, conn)| conn)
    }

    /// What the lanes of a node counted, if there are any.
    pub(crate) fn lane_counters(&self, node: usize) -> Option<LaneCounters> {
        self.all[node].lanes.as_ref().map(|l| l.counters())
    }

    fn lanes(&mut self, node: u16) -> Option<&mut Lanes> {
        self.all[usize::from(node)].lanes.as_deref_mut()
    }
}

/// The addresses and so on of a packet, and where its segment begins.
fn header(packet: &[u8]) -> Option<(IpInfo, usize)> {
    let at = wifu_core::ip::header(packet)?;
    let (src, dst) = wifu_core::ip::addresses(packet);
    let (proto, ttl) = (packet[9], packet[8]);
    Some((
        IpInfo {
            src,
            dst,
            proto,
            ttl,
        },
        at,
    ))
}

impl Simulation {
    /// The lanes of the node that holds a packet see it; false if it goes no further.
    #[inline(never)]
    pub(crate) fn seen_by_lanes(&mut self, id: u32, came: Came, origin: Origin) -> bool {
        let node = self.net.pool[id].at;
        let now = self.clock.now;
        let mut octets = core::mem::take(&mut self.nodes.octets);
        self.net.pool.copy_seen(id, &mut octets);
        let (plan, net) = (&self.plan, &mut self.net);
        let mut copies = Vec::new();
        let mut ways = From {
            node,
            now,
            plan,
            net,
            copies: &mut copies,
        };
        let facts = came.facts();
        let lanes = self.nodes.lanes(node);
        let seen = lanes.map_or(Seen::On, |l| l.see(now, &octets, &facts, origin, &mut ways));
        self.nodes.octets = octets;
        match seen {
            Seen::On => {}
            Seen::Here => self.ends_here(id),
            Seen::Dropped(_) => self.lose(id, Lost::Hop),
        }
        if origin != Origin::Own && self.hand_down(node) {
            self.pump_at(node);
        }
        seen == Seen::On
    }

    /// What was sent to this node's lane alone is where it was to go.
    fn ends_here(&mut self, id: u32) {
        let flow = self.net.pool[id].flow;
        if flow != NO_FLOW {
            self.flows[flow].account.packets.delivered += 1;
        }
        self.net.pool.release(id);
    }

    /// A packet is about to leave the node that holds it: whether a lane took it, or it is lost.
    #[inline(never)]
    pub(crate) fn taken_by_lane(&mut self, id: u32) -> bool {
        let node = self.net.pool[id].at;
        let now = self.clock.now;
        let octets = self.net.pool.octets(id);
        let own = self.net.pool[id].hop == 0;
        let lanes = self.nodes.lanes(node);
        match lanes.map_or(Took::Not, |l| l.take(now, Ticket(id), octets, own)) {
            Took::Not => return false,
            Took::Taken => {}
            Took::Dropped => self.lose(id, Lost::Queue),
        }
        // An end that sends is asked on by itself.
        if self.hand_down(node) && !own {
            self.pump_at(node);
        }
        true
    }

    /// Lanes of a node hand down what they may; their ends learn of room. True if any end did.
    #[inline(never)]
    pub(crate) fn hand_down(&mut self, node: u16) -> bool {
        let now = self.clock.now;
        if self.nodes.all[usize::from(node)].going.is_some() {
            // In the middle of it: what it is about goes first.
            return false;
        }
        let mut copies = core::mem::take(&mut self.nodes.copies);
        let mut refused = false;
        while !refused {
            let (plan, net) = (&self.plan, &mut self.net);
            let mut ways = From {
                node,
                now,
                plan,
                net,
                copies: &mut copies,
            };
            let Some(lanes) = self.nodes.lanes(node) else {
                break;
            };
            let Some(down) = lanes.poll(now, &mut ways) else {
                break;
            };
            for flow in copies.drain(..).filter(|f| *f != NO_FLOW) {
                self.flows[flow].account.packets.copies += 1;
            }
            let going = Going {
                down,
                refused: false,
            };
            self.nodes.all[usize::from(node)].going = Some(going);
            self.leave(Hook::Postrouting, down.ticket.0);
            let going = self.nodes.all[usize::from(node)].going.take();
            refused = going.is_some_and(|g| g.refused);
        }
        self.nodes.copies = copies;
        let told = self.settle_lanes(node);
        self.arm_lanes(node, if refused { now + RETRY } else { Time::NEVER });
        told
    }

    /// Free what lanes need no more, and tell their ends of room.
    fn settle_lanes(&mut self, node: u16) -> bool {
        let mut told = false;
        while let Some(ticket) = self.nodes.lanes(node).and_then(Lanes::poll_freed) {
            match self.net.pool[ticket.0].kept {
                true => self.net.pool.release(ticket.0),
                false => self.lose(ticket.0, Lost::Queue),
            }
        }
        while let Some((key, room)) = self.nodes.lanes(node).and_then(Lanes::poll_room) {
            if self.nodes.number(node) != NONE {
                let endpoint = self.nodes.endpoint(node);
                endpoint.set_lane_room(&key.tuple(), key.conn_id, room);
                told = true;
            }
        }
        told
    }

    /// Something may have given room, or news, to lanes of a node and to its ends. Neither is
    /// always first: a lane does not take all the room there is.
    pub(crate) fn stir(&mut self, node: u16) {
        if !self.nodes.asked(node).has(Asked::LANES) {
            return self.pump_at(node);
        }
        let turn = &mut self.nodes.all[usize::from(node)].lanes_first;
        *turn = !*turn;
        if *turn {
            self.hand_down(node);
            self.pump_at(node);
        } else {
            self.pump_at(node);
            if self.hand_down(node) {
                self.pump_at(node);
            }
        }
    }

    /// Lanes' time has come, or a wire has room again.
    pub(crate) fn lanes_due(&mut self, node: u16) {
        let now = self.clock.now;
        let at = &mut self.nodes.all[usize::from(node)].lanes_at;
        if *at != now {
            // Outdated: another one was set since, for an earlier time.
            return;
        }
        *at = Time::NEVER;
        if let Some(lanes) = self.nodes.lanes(node) {
            lanes.handle_timeout(now);
        }
        self.stir(node);
    }

    fn arm_lanes(&mut self, number: u16, retry: Time) {
        let now = self.clock.now;
        let node = &mut self.nodes.all[usize::from(number)];
        let Some(lanes) = &mut node.lanes else { return };
        // Radios tell of room; a wire is asked again when one packet has left it.
        let stuck = lanes.stuck().map(node_of);
        let stuck = stuck.map(|to| self.net.room_to_at(number, to));
        let due = lanes.poll_timeout().min(retry);
        let at = stuck.fold(due, Time::min).max(now);
        if at < node.lanes_at {
            node.lanes_at = at;
            let what = What::Lanes(u32::from(number));
            self.clock.push(at, Class::Packet, what);
        }
    }

    /// A radio overheard a packet: lanes and ends that listen learn of it.
    #[inline(never)]
    pub(crate) fn overheard_by_lanes(&mut self, way: Passage) {
        let node = self.net.pool[way.id].at;
        let now = self.clock.now;
        let octets = self.net.pool.as_seen(way.id);
        let facts = way.came.facts();
        let here = &mut self.nodes;
        if let Some(lanes) = here.lanes(node) {
            lanes.overheard(now, octets, &facts);
        }
        if here.number(node) != NONE
            && let Some((ip, at)) = header(octets)
        {
            let endpoint = here.endpoint(node);
            endpoint.handle_overheard(now, &ip, &octets[at..], &facts);
        }
    }

    /// The driver reported a packet: lanes and ends that ask for it learn of it.
    #[inline(never)]
    pub(crate) fn status_to_lanes(&mut self, node: u16, id: u32, status: &TxStatus) {
        let now = self.clock.now;
        let octets = self.net.pool.as_seen(id);
        let here = &mut self.nodes;
        if let Some(lanes) = here.lanes(node) {
            lanes.status(now, octets, status);
        }
        if here.number(node) != NONE
            && let Some((ip, at)) = header(octets)
        {
            let status = Status {
                number: wifu_wire::Seq(0),
                delivered: status.delivered,
                attempts: status.attempts,
                delay: Some(status.delay),
            };
            let endpoint = here.endpoint(node);
            endpoint.handle_status(now, &ip, &octets[at..], &status);
        }
    }

    /// Routes were laid: ends and lanes learn of theirs.
    #[inline(never)]
    pub(crate) fn reroute(&mut self) {
        let now = self.clock.now;
        for node in 0..self.plan.nodes.len() as u16 {
            let (plan, net) = (&self.plan, &mut self.net);
            if self.nodes.number(node) != NONE {
                let endpoint = self.nodes.endpoint(node);
                for i in 0..net.routes.peers(node).len() {
                    let to = net.routes.peers(node)[i];
                    let facts = route(plan, net, node, to).unwrap_or_default();
                    endpoint.set_route(now, address(to), facts);
                }
            }
            let mut ways = From {
                node,
                now,
                plan,
                net,
                copies: &mut Vec::new(),
            };
            if let Some(lanes) = self.nodes.lanes(node) {
                lanes.reroute(now, &mut ways);
            }
            if now > Time::ZERO {
                self.stir(node);
            }
        }
    }

    /// What this node's end sends meets its lanes; true if it goes no further now.
    #[inline(never)]
    pub(crate) fn own_to_lane(&mut self, id: u32, came: Came) -> bool {
        !self.seen_by_lanes(id, came, Origin::Own) || self.taken_by_lane(id)
    }

    /// No link takes a packet: it is its lane's again if one has just handed it down, else lost.
    #[inline(never)]
    pub(crate) fn refused(&mut self, node: u16, id: u32, why: Lost) {
        let now = self.clock.now;
        let node = &mut self.nodes.all[usize::from(node)];
        let going = node.going.as_mut();
        let going = going.filter(|g| g.down.ticket.0 == id && why != Lost::Wire);
        match (going, &mut node.lanes) {
            (Some(going), Some(lanes)) => {
                going.refused = true;
                lanes.put_back(now, going.down);
            }
            _ => self.lose(id, why),
        }
    }
}
