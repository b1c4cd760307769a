//! What happens on the air and at nodes: each node is told what concerns it, and what follows from
//! that is done.

use super::Simulation;
use super::address::address;
use super::forward::Place;
use super::pool::{NO_FLOW, Packet, Stage};
use super::steps::Then;
use super::tap::RadioFacts;
use super::udp::LOAD;
use super::ways::{Beside, Came, Here};
use wifu_core::TxStatus;
use wifu_engine::Ticket;
use wifu_node::{Frame, Lost, Node, Ways};
use wifu_radio::{Event, Times};
use wifu_wire::Notes;

impl Simulation {
    /// Everything that the radios have to tell.
    pub(crate) fn drain_air(&mut self) {
        if self.net.aired {
            self.net.show_air();
        }
        while let Some(event) = self.net.air.poll() {
            match event {
                Event::Received {
                    node,
                    from,
                    cookie,
                    rssi_dbm,
                    mode,
                    broadcast,
                    ..
                } => {
                    let facts = RadioFacts { rssi_dbm, mode };
                    if broadcast {
                        self.heard_broadcast(node, from, cookie, facts);
                    } else {
                        let id = self.net.pool.pass(self.clock.now, cookie, node);
                        self.arrive(id, Came::Radio(from, facts));
                    }
                }
                Event::Done {
                    node,
                    to,
                    cookie,
                    delivered,
                    tries,
                    sample,
                    times,
                    ..
                } => {
                    let code = u64::from(node) << 32 | u64::from(tries) << 8;
                    self.clock.mix(code | u64::from(delivered) | 4);
                    if !self.nodes.all[usize::from(node)].mask().any() {
                        self.sent_by_radio(to, cookie, (&times, tries > 0));
                        continue;
                    }
                    let status = TxStatus {
                        ticket: u64::from(cookie),
                        delivered,
                        attempts: tries,
                        airtime: Some(times.air),
                        delay: sample,
                    };
                    self.reported((node, to), cookie, &status, &times);
                }
                Event::Overheard {
                    node,
                    from,
                    cookie,
                    rssi_dbm,
                    mode,
                    ..
                } => {
                    let radio = RadioFacts { rssi_dbm, mode };
                    self.overhear(node, cookie, Came::Radio(from, radio));
                }
                Event::Marked { cookie, .. } => self.net.mark(&mut self.clock, cookie),
                Event::Room { node } => {
                    self.pump(node);
                    self.refill(node);
                }
            }
        }
    }

    /// A radio is done with a packet of a node where somebody may want to know.
    #[inline(never)]
    fn reported(
        &mut self,
        (node, to): (u16, Option<u16>),
        id: u32,
        status: &TxStatus,
        times: &Times,
    ) {
        let (here, mut ways) = self.at(node);
        here.report(&mut ways, Ticket(id), status);
        self.sent_by_radio(to, id, (times, status.attempts > 0));
        self.settle(node);
    }

    /// A node, and the network around it.
    #[inline(always)]
    fn at(&mut self, node: u16) -> (&mut Node, Here<'_>) {
        let here = Here {
            node,
            plan: &self.plan,
            clock: &mut self.clock,
            net: &mut self.net,
            flows: &mut self.flows,
            lines: &mut self.nodes.lines,
        };
        (&mut self.nodes.all[usize::from(node)], here)
    }

    /// A packet came over a link to the node that holds it now.
    #[inline(always)]
    pub(crate) fn arrive(&mut self, id: u32, came: Came) {
        let (from, radio) = match came {
            Came::Radio(from, radio) => (from, Some(radio)),
            Came::Wire(from, ..) => (from, None),
        };
        self.net.arrived(&mut self.clock, id, from, radio);
        self.passes(id, came);
    }

    #[inline]
    fn passes(&mut self, id: u32, came: Came) {
        let at = self.net.pool[id].at;
        let (node, mut ways) = self.at(at);
        if node.arrive(&mut ways, Ticket(id), came) {
            self.settle(at);
        }
    }

    /// After anything happened at a node: it is pumped if it was stirred, and woken when it wants
    /// to be.
    fn settle(&mut self, node: u16) {
        if self.nodes.all[usize::from(node)].is_stirred() {
            self.pump(node);
        } else {
            self.arm(node);
        }
    }

    fn arm(&mut self, node: u16) {
        let (here, mut ways) = self.at(node);
        let at = here.poll_timeout(&mut ways);
        self.nodes.arm(&mut self.clock, node, at);
    }

    /// The node that holds a packet has looked at it, and it goes on.
    pub(crate) fn relayed(&mut self, id: u32) {
        let at = self.net.pool[id].at;
        let (node, mut ways) = self.at(at);
        if node.relayed(&mut ways, Ticket(id)) {
            self.settle(at);
        }
    }

    /// What a node sends that is no segment enters the network.
    fn originate(&mut self, packet: Packet) {
        let at = packet.at;
        let (node, mut ways) = self.at(at);
        let ticket = ways.enters(packet);
        if node.originate(&mut ways, ticket, Notes::EMPTY) {
            self.settle(at);
        }
    }

    /// A node's time has come.
    pub(crate) fn wake(&mut self, node: u16) {
        let (here, mut ways) = self.at(node);
        here.handle_timeout(&mut ways);
        self.pump(node);
    }

    /// A packet arrives over a wire on which others hear it, too: before anybody may change it.
    #[cold]
    pub(crate) fn overhear_wire(&mut self, id: u32, number: u32) {
        let at = number as usize;
        for i in 0..self.net.wires[at].ears.len() {
            let wire = &self.net.wires[at];
            let ear = wire.ears[i];
            self.overhear(ear.node, id, Beside::at(ear, wire));
        }
    }

    /// A node heard a packet for somebody else.
    fn overhear(&mut self, node: u16, cookie: u32, came: impl Frame) {
        if !self.nodes.all[usize::from(node)].mask().listens() {
            return;
        }
        let pool = &mut self.net.pool;
        // Hearing it says nothing of whether it has arrived where it was meant to.
        let passed = pool[cookie].passed;
        let id = pool.pass(self.clock.now, cookie, node);
        pool[cookie].passed = passed;
        let (here, mut ways) = self.at(node);
        here.overhear(&mut ways, Ticket(id), came);
        self.net.pool.release(id);
        self.settle(node);
    }

    /// A broadcast was heard: a routing daemon's, or what a handler or a lane sent to all.
    fn heard_broadcast(&mut self, node: u16, from: u16, id: u32, radio: RadioFacts) {
        let (clock, net) = (&mut self.clock, &mut self.net);
        net.heard(clock, node, from, id, Some(radio));
        if net.pool[id].stage == Stage::Shouts {
            let arrived = net.pool[id].passed;
            let heard = net.pool.pass(clock.now, id, node);
            // It is where it was to go when its destination heard it; elsewhere it is a copy.
            let here = net.pool[id].dst == node;
            net.pool[id].passed = arrived || here;
            net.pool[heard].kept = !here;
            return self.passes(heard, Came::Radio(from, radio));
        }
        if let Some(daemon) = &mut self.daemon {
            daemon.heard_message(clock, net, (node, from), id);
        }
    }

    /// A radio is done with a packet.
    fn sent_by_radio(&mut self, to: Option<u16>, id: u32, times: (&Times, bool)) {
        let packet = self.net.pool[id];
        if let Err(why) = self.net.sent_by_radio(&packet, to, id, times) {
            self.lose(id, why);
        }
        let own = packet.hop == 0 && packet.flow != NO_FLOW && !packet.reverse;
        if own && self.flows[packet.flow].left_queue() {
            self.load(packet.flow);
        }
    }

    /// A packet is lost; its entry is free.
    pub(crate) fn lose(&mut self, id: u32, why: Lost) {
        if let Some(flow) = self.net.lose(&mut self.clock, id, why) {
            self.flows.lost(self.clock.now, flow, why);
        }
    }

    /// Applications act and the node sends until neither has anything left to do; then the wake-up
    /// is set.
    pub(crate) fn pump(&mut self, node: u16) {
        loop {
            while let Some(flow) = self.flows.to_look.pop() {
                self.flows.look(self.clock.now, &self.nodes, flow);
            }
            let mut busy = false;
            while let Some((id, event)) = self.nodes.poll_event(node) {
                busy = true;
                let (clock, nodes) = (&mut self.clock, &mut self.nodes);
                self.flows.news(clock, nodes, node, id, event);
            }
            let (here, mut ways) = self.at(node);
            busy |= here.transmit(&mut ways);
            if !busy {
                break;
            }
        }
        self.arm(node);
    }

    /// What a node splits is forgotten.
    pub(crate) fn restart(&mut self, node: u16) {
        if let Some(split) = self.nodes.all[usize::from(node)].split_mut() {
            split.restart(self.clock.now);
        }
        self.pump(node);
    }

    /// A flow's application acts by itself.
    pub(crate) fn app_step(&mut self, number: u32) {
        let (clock, nodes, net) = (&mut self.clock, &mut self.nodes, &self.net);
        let hops = |from, to| net.hops_to(from, to).unwrap_or(0) as u32;
        let then = self.flows.step(clock, nodes, number, hops);
        match then {
            Then::Rest => {}
            Then::Datagram => self.send_datagram(number),
            Then::Load => self.load(number),
            Then::Send | Then::End => {
                self.pump(self.flows[number].src);
                if then == Then::End {
                    let (clock, nodes) = (&mut self.clock, &mut self.nodes);
                    self.flows.progressed(clock, nodes, number, 1);
                }
            }
        }
    }

    /// Full load: fill the queue up to the mark.
    fn load(&mut self, number: u32) {
        while self.flows[number].loads() {
            let flow = &mut self.flows[number];
            match self.net.place(self.clock.now, flow.src, flow.dst, LOAD) {
                Place::Reported => flow.enters_queue(),
                Place::Silent => {}
                Place::At(at) => return self.flows.step_at(&mut self.clock, number, at),
                Place::None => return,
            }
            self.send_datagram(number);
        }
    }

    /// The node's queue has room again.
    fn refill(&mut self, node: u16) {
        for number in 0..self.flows.all.len() as u32 {
            let flow = &self.flows[number];
            if flow.udp.is_some() && flow.src == node {
                self.load(number);
            }
        }
    }

    fn send_datagram(&mut self, number: u32) {
        let pool = &mut self.net.pool;
        let buffer = pool.buffer();
        let out = pool.octets_mut(buffer);
        match self.flows.datagram(&mut self.clock, number, buffer, out) {
            Some(packet) => self.originate(packet),
            None => pool.drop_buffer(buffer),
        }
    }
}

/// Routes.
impl Simulation {
    /// Routes were laid: ends and lanes learn of theirs.
    #[inline(never)]
    pub(crate) fn reroute(&mut self) {
        for flow in &mut self.flows.all {
            let is_there = !self.net.path(flow.src, flow.dst).is_empty();
            flow.account.routeless.is(self.clock.now, is_there);
        }
        for node in 0..self.plan.nodes.len() as u16 {
            let now = self.clock.now;
            let (here, mut ways) = self.at(node);
            let peers = ways.net.routes.peers(node).len();
            for i in 0..peers {
                let to = address(ways.net.routes.peers(node)[i]);
                let facts = ways.route(to).unwrap_or_default();
                if let Some(end) = here.end_mut() {
                    end.set_route(now, to, facts);
                }
                if let Some(split) = here.split_mut() {
                    split.set_route(now, to, facts);
                }
            }
            here.reroute(&mut ways);
            if now > wifu_wire::Time::ZERO {
                self.pump(node);
            }
        }
    }
}
