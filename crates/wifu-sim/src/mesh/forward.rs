//! Packets on their way: routes, queues, hops, and what becomes of them.

use super::events::{Class, What};
use super::hop::Came;
use super::pool::NO_FLOW;
use super::tap::{RadioFacts, Seen};
use super::wire::Entered;
use super::{NONE, Simulation};
use crate::routing::Via;
use wifu_core::{Hook, TxStatus};
use wifu_radio::{Event, Times};
use wifu_wire::pcapng::Direction;
use wifu_wire::{Notes, Span, Time};

/// Where the time of the packets of one flow, direction and hop went.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HopSums {
    pub(crate) from: u16,
    pub(crate) to: u16,
    pub(crate) packets: u64,
    pub(crate) lost: u64,
    pub(crate) times: Times,
    pub(crate) propagation: Span,
}

/// Where a packet was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lost {
    Queue,
    Link,
    Wire,
    Route,
    Hop,
}

impl Simulation {
    /// Everything that the radios have to tell.
    pub(crate) fn drain_air(&mut self) {
        if self.aired {
            self.show_air();
        }
        while let Some(event) = self.air.poll() {
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
                        let id = self.pool.pass(cookie, node);
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
                    self.hash.mix(self.now, code | u64::from(delivered) | 4);
                    if self.handlers.any() {
                        let ticket = u64::from(cookie);
                        let status = TxStatus {
                            ticket,
                            delivered,
                            attempts: tries,
                            airtime: Some(times.air + times.retries),
                            delay: sample,
                        };
                        self.chain_status(node, &status);
                    }
                    self.sent_by_radio(node, to, cookie, &times);
                }
                Event::Overheard {
                    node,
                    from,
                    cookie,
                    rssi_dbm,
                    mode,
                    ..
                } => {
                    let came = Came {
                        from: Some(from),
                        radio: Some(RadioFacts { rssi_dbm, mode }),
                        notes: Notes::EMPTY,
                    };
                    self.overhear(node, cookie, came);
                }
                Event::Room { node } => {
                    self.pump_node(node);
                    self.refill(node);
                }
            }
        }
    }

    fn show_air(&mut self) {
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

    /// A radio is done with a packet: its account, and the entry is free.
    fn sent_by_radio(&mut self, node: u16, to: Option<u16>, id: u32, times: &Times) {
        let packet = self.pool[id];
        if packet.flow != NO_FLOW {
            let sums = self.hop_sums(id, node, to.unwrap_or(node));
            if packet.passed {
                sums.packets += 1;
            } else {
                sums.lost += 1;
            }
            let sum = &mut sums.times;
            sum.queue = sum.queue + times.queue;
            sum.contention = sum.contention + times.contention;
            sum.retries = sum.retries + times.retries;
            sum.air = sum.air + times.air;
        }
        if packet.passed || to.is_none() {
            self.pool.release(id);
        } else {
            self.lose(id, Lost::Link);
        }
        if packet.hop == 0 && packet.flow != NO_FLOW {
            self.left_queue(packet.flow, packet.reverse);
        }
    }

    fn hop_sums(&mut self, id: u32, from: u16, to: u16) -> &mut HopSums {
        let packet = &self.pool[id];
        let hop = usize::from(packet.hop);
        let sums = &mut self.hops[packet.flow as usize][usize::from(packet.reverse)];
        if sums.len() <= hop {
            sums.resize(hop + 1, HopSums::default());
        }
        let sums = &mut sums[hop];
        if sums.packets + sums.lost == 0 {
            (sums.from, sums.to) = (from, to);
        }
        sums
    }

    /// A packet is lost; its entry is free.
    pub(crate) fn lose(&mut self, id: u32, why: Lost) {
        let flow = self.pool[id].flow;
        self.hash.mix(self.now, 0x100 | why as u64);
        self.pool.release(id);
        if flow == NO_FLOW {
            return;
        }
        let packets = &mut self.flows[flow as usize].account.packets;
        match why {
            Lost::Queue => packets.queue += 1,
            Lost::Link => packets.link += 1,
            Lost::Wire => packets.wire += 1,
            Lost::Route => packets.route += 1,
            Lost::Hop => packets.hop += 1,
        }
        self.datagram_over(flow);
    }

    /// A packet enters the network at its source.
    pub(crate) fn originate(&mut self, id: u32) {
        let packet = &self.pool[id];
        let flow = packet.flow;
        if flow != NO_FLOW {
            self.flows[flow as usize].account.packets.sent += 1;
        }
        self.at_hook(Hook::Output, id, Came::HERE);
    }

    /// A packet came over a link to the node that holds it now.
    pub(crate) fn arrive(&mut self, id: u32, from: u16, radio: Option<RadioFacts>) {
        let packet = self.pool[id];
        let node = packet.at;
        let code = u64::from(node) << 48 | u64::from(from) << 32 | u64::from(packet.len) << 16;
        self.hash
            .mix(self.now, code | u64::from(packet.ttl) << 8 | 1);
        if self.tap.is_some() {
            self.show(id, from, Direction::In, radio);
        }
        let came = Came {
            from: Some(from),
            radio,
            notes: Notes::EMPTY,
        };
        self.at_hook(Hook::Prerouting, id, came);
    }

    /// A packet goes on to another node.
    pub(crate) fn forward(&mut self, id: u32) {
        let packet = &mut self.pool[id];
        let node = packet.at;
        packet.ttl -= 1;
        if packet.ttl == 0 {
            return self.lose(id, Lost::Route);
        }
        self.nodes[usize::from(node)].forwarded += 1;
        if self.fwd_cost == Span::ZERO {
            self.at_hook(Hook::Postrouting, id, Came::HERE);
        } else {
            let at = self.now + self.fwd_cost;
            self.events.push(at, Class::Packet, What::Forward(id));
        }
    }

    /// Put a packet into the queue of the link that its route takes.
    pub(crate) fn dispatch(&mut self, id: u32) {
        let packet = self.pool[id];
        let node = packet.at;
        match self.table.via(node, packet.dst) {
            Via::Radio(next) => {
                if self.tap.is_some() {
                    self.show(id, next, Direction::Out, None);
                }
                let (now, len) = (self.now, packet.len);
                if !self.air.send(now, node, Some(next), len, id) {
                    self.lose(id, Lost::Queue);
                }
            }
            Via::Wire(wire) => {
                if self.tap.is_some() {
                    let next = self.wires[wire as usize].to;
                    self.show(id, next, Direction::Out, None);
                }
                self.enter_wire(id, wire);
            }
            Via::Nowhere => self.lose(id, Lost::Route),
        }
    }

    fn enter_wire(&mut self, id: u32, number: u32) {
        let packet = self.pool[id];
        let wire = &mut self.wires[number as usize];
        let (from, to, delay) = (wire.from, wire.to, wire.delay);
        let air = wire.time_for(packet.len);
        let entered = wire.enter(self.now, id, packet.len);
        if packet.flow != NO_FLOW {
            let sums = self.hop_sums(id, from, to);
            if let Entered::Flies { waits, .. } = entered {
                sums.packets += 1;
                sums.times.queue = sums.times.queue + waits;
                sums.times.air = sums.times.air + air;
                sums.propagation = sums.propagation + delay;
            } else {
                sums.lost += 1;
            }
        }
        match entered {
            Entered::Flies { arrives, first, .. } => {
                if first {
                    let what = What::Arrive(number);
                    self.events.push(arrives, Class::Packet, what);
                }
            }
            Entered::Full => self.lose(id, Lost::Queue),
            Entered::Lost => self.lose(id, Lost::Wire),
        }
    }

    /// The packet at the head of a wire arrives.
    pub(crate) fn wire_arrival(&mut self, number: u32) {
        let (pool, wire) = (&self.pool, &mut self.wires[number as usize]);
        let (from, to) = (wire.from, wire.to);
        let Some((id, next)) = wire.arrive(|id| pool[id].len) else {
            return;
        };
        if let Some(at) = next {
            self.events.push(at, Class::Packet, What::Arrive(number));
        }
        let packet = &mut self.pool[id];
        packet.at = to;
        packet.hop = packet.hop.saturating_add(1);
        self.arrive(id, from, None);
    }

    /// Packets that all links take that the host's own packets may leave by.
    pub(crate) fn room(&mut self, host: u32) -> u32 {
        let host = &self.hosts[host as usize];
        let mut room = u32::MAX;
        for via in &host.ways {
            room = room.min(match *via {
                Via::Radio(_) => self.air.room(host.node),
                Via::Wire(wire) => self.wires[wire as usize].room(self.now),
                Via::Nowhere => u32::MAX,
            });
        }
        room
    }

    /// When a full wire of the host takes a packet again; radios say so themselves.
    pub(crate) fn room_at(&self, host: u32) -> Time {
        let ways = self.hosts[host as usize].ways.iter();
        let left = ways.filter_map(|via| match *via {
            Via::Wire(wire) => Some(self.wires[wire as usize].next_left()),
            _ => None,
        });
        left.min().unwrap_or(Time::NEVER)
    }

    fn show(&mut self, id: u32, peer: u16, direction: Direction, radio: Option<RadioFacts>) {
        let (now, node) = (self.now, self.pool[id].at);
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

    pub(crate) fn pump_node(&mut self, node: u16) {
        let host = self.nodes[usize::from(node)].host;
        if host != NONE {
            self.pump(host);
        }
    }

    /// A broadcast was heard: routing daemons are the only ones who send any.
    fn heard_broadcast(&mut self, node: u16, from: u16, id: u32, radio: Option<RadioFacts>) {
        let code = u64::from(node) << 48 | u64::from(from) << 32 | 2;
        self.hash.mix(self.now, code);
        if self.tap.is_some() {
            let at = core::mem::replace(&mut self.pool[id].at, node);
            self.show(id, from, Direction::In, radio);
            self.pool[id].at = at;
        }
        self.heard_message(node, from, id);
    }
}
