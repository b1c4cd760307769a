//! Packets meet what runs on nodes. Two places join the halves: [`Simulation::accepted`] is the
//! only one where the network asks a node about a packet on its way, [`Simulation::originate`] the
//! only one where what a node sends enters the network.

use super::Simulation;
use super::address::{address, node_of};
use super::ends::flow_of;
use super::forward::{Lost, Place, Relayed};
use super::hop::{Asked, Asking, Came, Passage, node_at};
use super::nodes::NONE;
use super::pool::{NO_FLOW, Packet, Stage};
use super::steps::Then;
use super::tap::RadioFacts;
use super::udp::LOAD;
use wifu_core::{Hook, LinkTo, Sending, TxStatus, Verdict, What};
use wifu_node::Origin;
use wifu_radio::{Event, Times};
use wifu_wire::IpInfo;
use wifu_wire::ipv4::{self, HEADER};

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
                    let facts = Some(RadioFacts { rssi_dbm, mode });
                    if broadcast {
                        self.heard_broadcast(node, from, cookie, facts);
                    } else {
                        let id = self.net.pool.pass(cookie, node);
                        self.arrive(id, from, facts);
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
                    if !self.nodes.asked(node).any() {
                        self.sent_by_radio(to, cookie, &times);
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
                    let came = Came::over(from, Some(RadioFacts { rssi_dbm, mode }));
                    self.overhear(node, cookie, came);
                }
                Event::Room { node } => {
                    self.stir(node);
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
        let asked = self.nodes.asked(node);
        let around = self.net.around(self.clock.now).1;
        self.nodes.status(around, node, status);
        self.let_go(node);
        if asked.has(Asked::STATUS) {
            self.status_to_lanes(node, id, status);
        }
        self.sent_by_radio(to, id, times);
        if asked.has(Asked::LANES) {
            self.stir(node);
        } else if asked.has(Asked::STATUS) {
            self.pump_at(node);
        }
    }

    /// The end at a node, if there is one, has something to do.
    pub(crate) fn pump_at(&mut self, node: u16) {
        let host = self.nodes.number(node);
        if host != NONE {
            self.pump(host);
        }
    }

    /// A packet came over a link to the node that holds it now.
    #[inline]
    pub(crate) fn arrive(&mut self, id: u32, from: u16, radio: Option<RadioFacts>) {
        self.net.arrived(&mut self.clock, id, from, radio);
        let came = Came::over(from, radio);
        self.pass(Hook::Prerouting, id, came, false);
    }

    /// A packet leaves the node that holds it: from this hook on.
    pub(crate) fn leave(&mut self, hook: Hook, id: u32) {
        self.pass(hook, id, Came::HERE, false);
    }

    /// The node that holds a packet has looked at it, and it goes on.
    pub(crate) fn relayed(&mut self, id: u32) {
        let asked = self.nodes.asked(self.net.pool[id].at);
        if !asked.has(Asked::LANES) || !self.taken_by_lane(id) {
            self.leave(Hook::Postrouting, id);
        }
    }

    /// What a node sends enters the network.
    fn originate(&mut self, packet: Packet) {
        if packet.flow != NO_FLOW {
            self.flows[packet.flow].account.packets.sent += 1;
        }
        let id = self.net.pool.insert(packet);
        self.leave(Hook::Output, id);
    }

    /// A packet goes over the node that holds it, from hook to hook, as long as the node's handlers
    /// accept it. `resumed`: they have accepted it at the first one.
    fn pass(&mut self, mut hook: Hook, id: u32, mut came: Came, resumed: bool) {
        let Packet { at: node, dst, .. } = self.net.pool[id];
        let all = self.nodes.asked(node);
        let mut asked = if resumed { Asked::default() } else { all };
        let mut copied = false;
        loop {
            if asked.at(hook) {
                let mut way = Passage::new(id, hook, came);
                way.copied = copied;
                match self.accepted(node, way) {
                    Some(way) => (came, copied) = (way.came, way.copied),
                    None => return,
                }
            }
            asked = all;
            hook = match hook {
                Hook::Prerouting if dst == node => Hook::Input,
                // What was sent to all is for whom it names; nobody relays it.
                Hook::Prerouting if self.net.pool[id].stage == Stage::Heard => {
                    return self.net.pool.release(id);
                }
                Hook::Prerouting => Hook::Forward,
                Hook::Input => {
                    if all.has(Asked::LANES) && !self.seen_by_lanes(id, came, Origin::ForHere) {
                        return;
                    }
                    return self.deliver(id, came);
                }
                Hook::Forward => {
                    if all.has(Asked::LANES) && !self.seen_by_lanes(id, came, Origin::Link) {
                        return;
                    }
                    // Lanes may have handed down what chains saw since.
                    (came, copied) = (Came::HERE, copied && !all.has(Asked::LANES));
                    match self.net.relay(&mut self.clock, id) {
                        Relayed::Now if all.has(Asked::LANES) && self.taken_by_lane(id) => return,
                        Relayed::Now => Hook::Postrouting,
                        Relayed::Later => return,
                        Relayed::Expired => return self.lose(id, Lost::Route),
                    }
                }
                Hook::Output => {
                    if all.has(Asked::LANES) && self.own_to_lane(id, came) {
                        return;
                    }
                    (came, copied) = (Came::HERE, copied && !all.has(Asked::LANES));
                    Hook::Postrouting
                }
                Hook::Postrouting => {
                    return match self.net.dispatch(&mut self.clock, id) {
                        Ok(()) => {}
                        Err(why) => self.refused(node, id, why),
                    };
                }
                Hook::Overheard => return,
            };
        }
    }

    /// Ask the node's handlers about a packet; `None` unless it goes on.
    #[inline(never)]
    fn accepted(&mut self, node: u16, mut way: Passage) -> Option<Passage> {
        let with = self.net.around(self.clock.now);
        let verdict = self.nodes.ask(with, &mut way, Asking::New);
        if self.let_go(node) {
            way.copied = false;
        }
        match verdict {
            Verdict::Accept => return Some(way),
            Verdict::Drop(_) => self.lose(way.id, Lost::Hop),
            Verdict::Hold => {}
        }
        None
    }

    /// Let go on what a chain released, and remember when it wants to be called. True if it was
    /// asked about packets meanwhile.
    fn let_go(&mut self, node: u16) -> bool {
        let mut any = false;
        while let Some((released, mut way)) = self.nodes.released(node) {
            any = true;
            let with = self.net.around(self.clock.now);
            match self.nodes.ask(with, &mut way, Asking::Again(released)) {
                Verdict::Accept if way.to != LinkTo::Route => self.leave_for(way.to, way.id),
                Verdict::Accept => self.pass(way.hook, way.id, way.came, true),
                Verdict::Drop(_) => self.lose(way.id, Lost::Hop),
                Verdict::Hold => {}
            }
        }
        while let Some(sending) = self.nodes.sending(node) {
            any = true;
            self.send(node, sending);
        }
        while let Some(id) = self.nodes.dropped(node) {
            self.net.pool.release(id);
        }
        self.nodes.arm_chain(&mut self.clock, node);
        any
    }

    /// A packet that a handler sends enters: it leaves the node unless another handler objects.
    fn send(&mut self, node: u16, sending: Sending) {
        let id = match sending.what {
            What::Kept { ticket, stays } => {
                let id = ticket as u32;
                let pool = &mut self.net.pool;
                let id = if stays { pool.twin(id) } else { id };
                pool[id].kept = false;
                id
            }
            What::Octets(octets) => {
                let made = self.net.made(node, &octets);
                self.nodes.recycle(node, octets);
                match made {
                    Some(id) => id,
                    None => return self.nodes.unsent(node, sending.by),
                }
            }
        };
        let flow = self.net.pool[id].flow;
        if flow != NO_FLOW {
            self.flows[flow].account.packets.copies += 1;
        }
        // Copied before this node relayed the packet.
        let stage = self.net.pool[id].stage;
        if matches!(stage, Stage::Came | Stage::Heard) && !self.net.lower(id) {
            return self.lose(id, Lost::Route);
        }
        let mut way = Passage::new(id, Hook::Postrouting, Came::HERE);
        (way.came.notes, way.to) = (sending.notes, sending.to);
        if self.nodes.asked(node).at(Hook::Postrouting) {
            let with = self.net.around(self.clock.now);
            match self.nodes.ask(with, &mut way, Asking::Sent(sending.by)) {
                Verdict::Accept => {}
                Verdict::Drop(_) => return self.lose(id, Lost::Hop),
                Verdict::Hold => return,
            }
        }
        self.leave_for(sending.to, id);
    }

    /// What a handler sent leaves its node, past all hooks.
    fn leave_for(&mut self, to: LinkTo, id: u32) {
        let (clock, net) = (&mut self.clock, &mut self.net);
        let sent = match to {
            LinkTo::Route => net.dispatch(clock, id),
            LinkTo::Neighbour(n) => net.dispatch_to(clock, id, Some(node_at(n))),
            LinkTo::All => net.dispatch_to(clock, id, None),
        };
        if let Err(why) = sent {
            self.lose(id, why);
        }
    }

    /// A chain's time has come.
    pub(crate) fn chain_due(&mut self, node: u16) {
        let around = self.net.around(self.clock.now).1;
        self.nodes.chain_due(around, node);
        self.let_go(node);
    }

    /// A radio heard a packet for somebody else.
    fn overhear(&mut self, node: u16, cookie: u32, came: Came) {
        let asked = self.nodes.asked(node);
        if !asked.at(Hook::Overheard) && !asked.has(Asked::EARS) {
            return;
        }
        let pool = &mut self.net.pool;
        // Hearing it says nothing of whether it has arrived where it was meant to.
        let passed = pool[cookie].passed;
        let id = pool.pass(cookie, node);
        pool[cookie].passed = passed;
        let with = self.net.around(self.clock.now);
        let way = Passage::new(id, Hook::Overheard, came);
        if asked.at(Hook::Overheard) {
            self.nodes.overhear(with, way);
            self.let_go(node);
        }
        if asked.has(Asked::EARS) {
            self.overheard_by_lanes(way);
        }
        self.net.pool.release(id);
        if asked.has(Asked::EARS) {
            self.hand_down(node);
            self.pump_at(node);
        }
    }

    /// A broadcast was heard: a routing daemon's, or what a handler sent to all.
    fn heard_broadcast(&mut self, node: u16, from: u16, id: u32, radio: Option<RadioFacts>) {
        let (clock, net) = (&mut self.clock, &mut self.net);
        net.heard(clock, node, from, id, radio);
        if net.pool[id].stage == Stage::Shouts {
            let heard = net.pool.pass(id, node);
            net.pool[id].passed = false;
            return self.pass(Hook::Prerouting, heard, Came::over(from, radio), false);
        }
        if let Some(daemon) = &mut self.daemon {
            daemon.heard_message(clock, net, (node, from), id);
        }
    }

    /// A radio is done with a packet.
    fn sent_by_radio(&mut self, to: Option<u16>, id: u32, times: &Times) {
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

    /// A packet is where it was to go.
    fn deliver(&mut self, id: u32, came: Came) {
        let packet = self.net.pool[id];
        let now = self.clock.now;
        if packet.flow != NO_FLOW && self.flows.arrived(packet.flow) {
            self.flows.sink(now, &packet, self.net.pool.octets(id));
            return self.net.pool.release(id);
        }
        let host = self.nodes.number(packet.at);
        if host == NONE {
            return self.net.pool.release(id);
        }
        let ip = IpInfo {
            src: address(packet.src),
            dst: address(packet.dst),
            proto: packet.proto,
            ttl: packet.ttl,
        };
        let segment = &self.net.pool.octets(id)[HEADER..];
        let endpoint = &mut self.nodes.host(host).endpoint;
        endpoint.handle_frame(now, &ip, segment, &came.facts());
        self.net.pool.release(id);
        if packet.flow != NO_FLOW && packet.reverse {
            self.flows.look(now, &self.nodes, packet.flow);
        }
        self.pump(host);
    }

    /// Applications act and the endpoint sends until neither has anything left to do; then the
    /// wake-up is set.
    pub(crate) fn pump(&mut self, number: u32) {
        let now = self.clock.now;
        loop {
            let mut busy = false;
            while let Some((id, event)) = self.nodes.host(number).endpoint.poll_event() {
                busy = true;
                let (clock, nodes) = (&mut self.clock, &mut self.nodes);
                self.flows.news(clock, nodes, number, id, event);
            }
            let host = self.nodes.host(number);
            let node = host.node;
            host.endpoint.set_room(self.net.room(now, node));
            while self.transmit(number) {
                busy = true;
                if self.nodes.asked(node).has(Asked::LANES) {
                    // What entered a lane may have left it at once.
                    let room = self.net.room(now, node);
                    self.nodes.host(number).endpoint.set_room(room);
                }
            }
            if !busy {
                break;
            }
        }
        let host = self.nodes.host(number);
        let mut at = host.endpoint.poll_timeout();
        if self.net.room(now, host.node) == 0 {
            at = at.min(self.net.room_at(host.node));
        }
        self.nodes.arm(&mut self.clock, number, at);
    }

    /// Send one segment if there is one.
    fn transmit(&mut self, number: u32) -> bool {
        let now = self.clock.now;
        let pool = &mut self.net.pool;
        let buffer = pool.buffer();
        let out = pool.octets_mut(buffer);
        let host = self.nodes.host(number);
        let Some(datagram) = host.endpoint.poll_transmit(now, &mut out[HEADER..]) else {
            pool.drop_buffer(buffer);
            return false;
        };
        ipv4::emit(&datagram.ip, datagram.len, out);
        let mut numbers = [0; 8];
        numbers.copy_from_slice(&out[HEADER..HEADER + 8]);
        self.clock.mix(u64::from_le_bytes(numbers) ^ 3);
        let len = (HEADER + datagram.len) as u16;
        let dst = node_of(datagram.ip.dst);
        let mut packet = Packet::new(buffer, len, host.node, dst, datagram.ip.proto);
        if let Some(conn) = datagram.conn.and_then(|id| host.endpoint.conn(id)) {
            let (flow, end) = flow_of(conn);
            (packet.flow, packet.reverse) = (flow, end == 1);
            self.flows
                .sent(now, &host.endpoint, (flow, end), datagram.conn);
        }
        self.originate(packet);
        true
    }

    /// A flow's application acts by itself.
    pub(crate) fn app_step(&mut self, number: u32) {
        let (clock, nodes, net) = (&mut self.clock, &mut self.nodes, &self.net);
        let hops = |from, to| net.path(from, to).len().saturating_sub(1) as u32;
        let then = self.flows.step(clock, nodes, number, hops);
        match then {
            Then::Rest => {}
            Then::Datagram => self.send_datagram(number),
            Then::Load => self.load(number),
            Then::Send | Then::End => {
                let host = self.nodes.number(self.flows[number].src);
                self.pump(host);
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
