//! The lane runner: hop protocols between the hooks of a node. A lane is a [`Conn`] over a store of
//! packets, one per flow and direction of travel, which takes custody of the flow's data and hands
//! them down when its parts permit it.

use crate::custody::{FlowKey, Held, LaneCounters, LanesConfig, Origin, Seen, Took};
use crate::down::{Down, named};
use crate::turn::{QUANTUM, Scheduler, Turn};
use crate::ways::Toward;
use crate::{Protocol, Ways};
use core::net::Ipv4Addr;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wifu_core::Select;
use wifu_engine::board::SiteFacts;
use wifu_engine::{Blueprint, Conn, Deadlines, Status, Ticket, Transmit};
use wifu_wire::ipv4::HEADER;
use wifu_wire::{Class, FrameFacts, Head, LinkTo, Notes, Place, Rng, Time, Wire};

/// So many packets that its parts made wait in a lane for room; then these are asked for no more.
const WAITS: usize = 8;

pub(crate) struct Served {
    pub(crate) select: Select,
    pub(crate) wire: Arc<dyn Wire>,
    lane: Arc<Blueprint>,
}

impl Served {
    /// The word in which this node counts itself.
    pub(crate) fn counts(&self) -> Option<Place> {
        self.lane.counts
    }
}

pub(crate) struct Lane {
    pub(crate) key: FlowKey,
    pub(crate) conn: Conn,
    /// Packets in its custody.
    pub(crate) held: Vec<Held>,
    /// What its parts made while the way that it goes was full.
    pub(crate) waits: VecDeque<Down>,
    /// When its packets came, of those that wait: the scheduler's.
    pub(crate) turn: Turn,
    /// When a packet of its flow was last seen, and when to look whether that is long ago.
    heard: Time,
    idle_at: Time,
    /// Its packets come from this node's own end, which is to learn of its room.
    own: bool,
    tells: bool,
}

/// All lanes of a node.
pub struct Lanes {
    config: LanesConfig,
    pub(crate) served: Vec<Served>,
    pub(crate) slots: Vec<Option<Lane>>,
    free: Vec<u32>,
    table: BTreeMap<FlowKey, u32>,
    pub(crate) active: VecDeque<u32>,
    deadlines: Deadlines,
    pub(crate) freed: Vec<Ticket>,
    /// Flows of this node's own ends whose lanes have other room than before.
    rooms: VecDeque<FlowKey>,
    /// Where a part makes a packet.
    pub(crate) scratch: Vec<u8>,
    pub(crate) head: Head,
    rng: Rng,
    pub(crate) counters: LaneCounters,
    pub(crate) stamp: u64,
}

impl Lanes {
    /// Lanes of these protocols: those among them that have some. `None` if none has.
    pub fn new(config: LanesConfig, protocols: &[Arc<Protocol>], rng: Rng) -> Option<Lanes> {
        let served = protocols.iter().filter_map(|p| {
            Some(Served {
                select: p.select(),
                wire: Arc::clone(&p.ends.wire),
                lane: Arc::clone(p.ends.lane.as_ref()?),
            })
        });
        let served: Vec<Served> = served.collect();
        (!served.is_empty()).then(|| Lanes {
            config,
            served,
            slots: Vec::new(),
            free: Vec::new(),
            table: BTreeMap::new(),
            active: VecDeque::new(),
            deadlines: Deadlines::default(),
            freed: Vec::new(),
            rooms: VecDeque::new(),
            scratch: Vec::new(),
            head: Head::default(),
            rng,
            counters: LaneCounters::default(),
            stamp: 0,
        })
    }

    /// Whether a part of a lane hears what radios overhear.
    pub fn overhears(&self) -> bool {
        self.served.iter().any(|s| s.lane.overhears())
    }

    /// Whether a part of a lane hears what the driver reports.
    pub fn wants_status(&self) -> bool {
        self.served.iter().any(|s| s.lane.hears("status"))
    }

    /// What was counted.
    pub fn counters(&self) -> LaneCounters {
        self.counters
    }

    /// The lanes that are open, in the order of their flows.
    pub fn all(&self) -> impl Iterator<Item = (&FlowKey, &Conn)> {
        let conn = |i: u32| self.slots[i as usize].as_ref().map(|l| &l.conn);
        self.table
            .iter()
            .filter_map(move |(key, i)| Some((key, conn(*i)?)))
    }

    /// A packet came, or this node's own end sends one (`from`). The lanes of its flow see it,
    /// whichever way it goes, and may add annotations; data that go on open one.
    pub fn see(
        &mut self,
        ticket: Ticket,
        facts: &mut FrameFacts,
        from: Origin,
        ways: &mut dyn Ways,
    ) -> Seen {
        let Some((at, key, header)) = self.parse(ticket, ways) else {
            return Seen::On;
        };
        let now = ways.now();
        // A number that nobody sent would hold for good: lanes only ever learn of more.
        if from != Origin::Own && !self.sound(ticket, at, key, ways) {
            // An end counts its own.
            let on = from == Origin::Link;
            return if on {
                Seen::Dropped("checksum")
            } else {
                Seen::On
            };
        }
        let wire = &self.served[usize::from(key.served)].wire;
        let octets = &ways.octets(ticket)[at..];
        let (class, opens) = (wire.class(octets), wire.opens(octets));
        if matches!(from, Origin::Link | Origin::Own) {
            self.count(ticket, at, key, ways);
            if opens {
                let _opened = self.open(now, key, from == Origin::Own, ways);
            }
        }
        let packet = ways.octets(ticket);
        for (i, mut told) in self.hearers(key, packet, facts).into_iter().flatten() {
            let Some(lane) = self.slots[i as usize].as_mut() else {
                continue;
            };
            // One lane reads what the other noted.
            told.notes = facts.notes;
            lane.heard = now;
            // A part may hide the acknowledgement from those after it, not from the other lane.
            let ack = self.head.ack;
            let payload = &packet[at + header..];
            let dropped = lane
                .conn
                .handle_segment(now, &mut self.head, payload, &told);
            self.head.ack = ack;
            facts.notes.add(&lane.conn.take_noted());
            self.touch(i);
            if let Some(why) = dropped {
                self.counters.refused += 1;
                return Seen::Dropped(why);
            }
        }
        let ends = class == Class::Hop && matches!(from, Origin::Link | Origin::Heard);
        if ends { Seen::Here } else { Seen::On }
    }

    /// A packet is about to leave: data enter the lane of their flow.
    pub fn take(&mut self, ticket: Ticket, notes: &Notes, ways: &dyn Ways) -> Took {
        let Some((at, key, _)) = self.parse(ticket, ways) else {
            return Took::Not;
        };
        let (now, own) = (ways.now(), ways.is_own(ticket));
        let served = &self.served[usize::from(key.served)];
        if served.wire.class(&ways.octets(ticket)[at..]) != Class::Data {
            return Took::Not;
        }
        let Some(&i) = self.table.get(&key) else {
            self.counters.unlaned += 1;
            if own {
                self.rooms.push_back(key);
            }
            return Took::Dropped;
        };
        let number = self.head.seq;
        let Some(lane) = self.slots[i as usize].as_mut() else {
            return Took::Dropped;
        };
        if !lane.conn.push(now, ticket, number) {
            self.counters.full += 1;
            return Took::Dropped;
        }
        lane.held.push(Held::new(ticket, *notes));
        lane.turn.came(self.stamp);
        self.stamp += 1;
        self.counters.taken += 1;
        self.counters.most = self.counters.most.max(lane.conn.board().app.queued);
        self.touch(i);
        Took::Taken
    }

    /// A radio overheard a packet: the lanes of its flow learn of it, unless its header names
    /// another transmitter than the link does.
    pub fn overheard(&mut self, ticket: Ticket, facts: &FrameFacts, ways: &dyn Ways) {
        let Some((at, key, header)) = self.parse(ticket, ways) else {
            return;
        };
        if !self.sound(ticket, at, key, ways) {
            return;
        }
        // Whoever repeats another node's packet at a lower layer does not speak for it.
        let wire = &self.served[usize::from(key.served)].wire;
        let says = named(&**wire, &self.head);
        let link = facts.transmitter.and_then(|n| ways.address(n));
        if let (Some(says), Some(link)) = (says, link)
            && says != link
        {
            self.counters.strangers += 1;
            return;
        }
        let (now, packet) = (ways.now(), ways.octets(ticket));
        for (i, facts) in self.hearers(key, packet, facts).into_iter().flatten() {
            if let Some(lane) = self.slots[i as usize].as_mut() {
                let payload = &packet[at + header..];
                lane.conn.handle_overheard(now, &self.head, payload, &facts);
                self.touch(i);
            }
        }
    }

    /// The driver reported a packet that this node sent; number and class of the status are filled
    /// in here.
    pub fn status(&mut self, ticket: Ticket, status: &Status, ways: &dyn Ways) {
        let Some((i, class)) = self.whose(ticket, ways) else {
            return;
        };
        if let Some(lane) = self.slots[i as usize].as_mut() {
            lane.conn
                .handle_status(ways.now(), &self.head, class, status);
            self.touch(i);
        }
    }

    /// The lane of a packet that left, and what it is for; `self.head` is the packet's.
    pub(crate) fn whose(&mut self, ticket: Ticket, ways: &dyn Ways) -> Option<(u32, Class)> {
        let (at, key, _) = self.parse(ticket, ways)?;
        let i = *self.table.get(&key)?;
        let lane = self.slots[i as usize].as_ref()?;
        let wire = &lane.conn.blueprint().wire;
        Some((i, wire.class(&ways.octets(ticket)[at..])))
    }

    /// Routes may have changed: each lane learns of its own.
    pub fn reroute(&mut self, ways: &dyn Ways) {
        let now = ways.now();
        for i in 0..self.slots.len() as u32 {
            if let Some(lane) = self.slots[i as usize].as_mut() {
                let to = *lane.key.target.ip();
                let route = ways.route(to).unwrap_or_default();
                lane.conn.set_route(now, &route);
                self.touch(i);
            }
        }
    }

    /// What is due.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some((at, i)) = self.deadlines.first().filter(|d| d.0 <= now) {
            debug_assert!(at <= now);
            let Some(lane) = self.slots[i as usize].as_mut() else {
                self.deadlines.set(i, Time::NEVER);
                continue;
            };
            lane.conn.handle_timeout(now);
            if lane.idle_at <= now {
                lane.idle_at = lane.heard + self.config.idle;
                if lane.idle_at <= now {
                    self.close(i);
                    continue;
                }
            }
            self.touch(i);
        }
    }

    /// When the next thing is due.
    pub fn poll_timeout(&self) -> Time {
        self.deadlines.first().map_or(Time::NEVER, |d| d.0)
    }

    /// When the first lane may hand down again of which a device refused a packet.
    pub(crate) fn retries(&self) -> Time {
        let lanes = self.active.iter();
        let lanes = lanes.filter_map(|i| self.slots[*i as usize].as_ref());
        let refused = lanes.filter_map(|l| l.turn.refused);
        refused.min().unwrap_or(Time::NEVER)
    }

    /// The next packet to hand down, of whose lane it is the turn and whose way has room.
    pub fn poll(&mut self, ways: &mut dyn Ways) -> Option<Down> {
        let now = ways.now();
        for i in &self.active {
            if let Some(lane) = self.slots[*i as usize].as_mut() {
                let room = |ways: &mut dyn Ways| ways.room(*lane.key.target.ip());
                // What is full now is waited for as ever.
                let mut barred = |at: Time| now < at && room(ways) > 0;
                lane.turn.refused = lane.turn.refused.filter(|at| barred(*at));
                lane.turn.stuck = lane.turn.refused.is_some();
            }
        }
        while let Some(i) = self.next() {
            let Some(lane) = self.slots[i as usize].as_mut() else {
                self.rest(i);
                continue;
            };
            let (ahead, back) = (*lane.key.target.ip(), *lane.key.source.ip());
            let room = ways.room(ahead);
            // What the lane says itself may go either way.
            let room_back = ways.room(back);
            let device = room.max(room_back);
            let first = lane.waits.front().map(|down| full(down.to, ahead, ways));
            if first == Some(None) {
                return lane.waits.pop_front();
            }
            lane.turn.full = [
                (room == 0).then_some(Toward::Destination(ahead)),
                (room_back == 0).then_some(Toward::Destination(back)),
                first.flatten(),
            ];
            if device == 0 || lane.waits.len() >= WAITS {
                lane.turn.stuck = true;
                continue;
            }
            lane.conn.set_room(room, device);
            self.scratch.resize(self.config.mtu as usize, 0);
            let out = &mut self.scratch;
            match lane
                .conn
                .poll_transmit(now, &mut self.head, &mut out[HEADER..])
            {
                Some(Transmit::Packet { ticket, keep }) => {
                    return Some(self.down(i, ticket, keep, ways));
                }
                Some(Transmit::Bytes(len)) => match self.made(i, len, ways) {
                    Some(down) if full(down.to, ahead, ways).is_some() => self.wait(i, down),
                    Some(down) => return Some(down),
                    None => self.rest_or_wait(i, room),
                },
                None => self.rest_or_wait(i, room),
            }
        }
        None
    }

    /// By which ways those go that the last poll found without room. Who waits because a
    /// device refused a packet waits for the time, not for room.
    pub fn stuck(&self) -> impl Iterator<Item = Toward> + '_ {
        let lanes = self.active.iter();
        let lanes = lanes.filter_map(|i| self.slots[*i as usize].as_ref());
        let stuck = lanes.filter(|l| l.turn.stuck && l.turn.refused.is_none());
        stuck.flat_map(|l| l.turn.full.into_iter().flatten())
    }

    /// A part's packet waits for room on its way.
    fn wait(&mut self, i: u32, down: Down) {
        let lane = self.slots[i as usize].as_mut();
        let lane = lane.expect("it was polled just now");
        lane.waits.push_back(down);
    }

    /// A lane has nothing to send, unless it has more for a way that has no room now.
    fn rest_or_wait(&mut self, i: u32, room: u32) {
        let lane = self.slots[i as usize].as_mut();
        match lane.filter(|l| room == 0 || !l.waits.is_empty()) {
            Some(lane) => {
                lane.turn.stuck = true;
                self.expect(i);
            }
            None => self.rest(i),
        }
    }

    /// A packet of this node's own end did not reach its lane: the end had counted it there.
    pub(crate) fn missed(&mut self, ticket: Ticket, ways: &dyn Ways) {
        if let Some((_, key, _)) = self.parse(ticket, ways) {
            self.rooms.push_back(key);
        }
    }

    /// A packet that no lane needs any more: the substrate frees it.
    pub fn poll_freed(&mut self) -> Option<Ticket> {
        self.freed.pop()
    }

    /// A flow of this node's own end, whose lane now takes so many packets.
    pub fn poll_room(&mut self) -> Option<(FlowKey, u32)> {
        let key = self.rooms.pop_front()?;
        let i = self.table.get(&key).copied();
        let lane = i.and_then(|i| self.slots[i as usize].as_mut());
        let all = self.served[usize::from(key.served)]
            .lane
            .engine_int("packets");
        let room = lane.map(|l| {
            l.tells = false;
            if l.conn.has_store() {
                l.conn.board().app.room
            } else {
                all
            }
        });
        // The next packet opens a lane of its own.
        Some((key, room.unwrap_or(all)))
    }

    /// The lane whose turn it is, of those that may have something to send.
    fn next(&mut self) -> Option<u32> {
        let turn = |i: &u32| Some(&self.slots[*i as usize].as_ref()?.turn);
        let waiting = self.active.iter().filter_map(|i| Some((*i, turn(i)?)));
        let waiting = waiting.filter(|(_, turn)| !turn.stuck);
        match self.config.scheduler {
            Scheduler::Fifo => waiting.min_by_key(|w| (w.1.first(), w.0)).map(|w| w.0),
            Scheduler::Strict => waiting.min_by_key(|w| w.1.opened).map(|w| w.0),
            Scheduler::DeficitRoundRobin => {
                waiting.map(|w| w.0).next()?;
                loop {
                    let i = *self.active.front()?;
                    let turn = &mut self.slots[i as usize].as_mut()?.turn;
                    if turn.stuck {
                        self.active.rotate_left(1);
                    } else if turn.credit > 0 {
                        return Some(i);
                    } else {
                        turn.credit += QUANTUM;
                        self.active.rotate_left(1);
                    }
                }
            }
        }
    }

    /// The lanes of a packet's flow, in both directions, with what each is told of it.
    fn hearers(
        &self,
        key: FlowKey,
        packet: &[u8],
        facts: &FrameFacts,
    ) -> [Option<(u32, FrameFacts)>; 2] {
        let bytes = u16::try_from(packet.len()).unwrap_or(u16::MAX);
        [(key, true), (key.back(), false)].map(|(key, along)| {
            let told = FrameFacts {
                bytes,
                along,
                ..*facts
            };
            self.table.get(&key).map(|i| (*i, told))
        })
    }

    /// The lane of a flow, which is opened if there is none and room for one.
    fn open(&mut self, now: Time, key: FlowKey, own: bool, ways: &mut dyn Ways) -> Option<u32> {
        if let Some(i) = self.table.get(&key) {
            return Some(*i);
        }
        if self.table.len() >= self.config.most {
            let idle = |l: &Lane| l.held.is_empty().then_some(l.heard);
            let open = self.table.values().copied();
            let open = open.filter_map(|i| Some((idle(self.slots[i as usize].as_ref()?)?, i)));
            let oldest = open.min()?;
            self.close(oldest.1);
        }
        let mut site = SiteFacts {
            me: self.config.node,
            mtu: self.config.mtu,
            conn_id: key.conn_id,
            ..SiteFacts::default()
        };
        site.set_route(&ways.route(*key.target.ip()).unwrap_or_default());
        let rng = self.rng.split_n(self.counters.opened);
        let lane = &self.served[usize::from(key.served)].lane;
        let conn = lane.open(key.tuple(), site, rng).ok()?;
        self.counters.opened += 1;
        let i = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        let capacity = lane.engine_int("packets") as usize;
        self.slots[i as usize] = Some(Lane {
            key,
            conn,
            held: Vec::with_capacity(capacity + 1),
            waits: VecDeque::new(),
            turn: Turn::new(self.counters.opened, capacity),
            heard: now,
            idle_at: now + self.config.idle,
            own,
            tells: false,
        });
        self.table.insert(key, i);
        Some(i)
    }

    fn close(&mut self, i: u32) {
        let Some(mut lane) = self.slots[i as usize].take() else {
            return;
        };
        let freed: Vec<Ticket> = lane.conn.take_freed().collect();
        for ticket in freed {
            if let Some(at) = lane.held.iter().position(|h| h.ticket == ticket) {
                lane.held.swap_remove(at);
                self.freed.push(ticket);
            }
        }
        self.counters.unsent += lane.waits.len() as u64;
        self.freed.extend(lane.waits.drain(..).map(|d| d.ticket));
        self.counters.idled += lane.held.len() as u64;
        self.freed.extend(lane.held.drain(..).map(|h| h.ticket));
        self.table.remove(&lane.key);
        if lane.own && !lane.tells {
            self.rooms.push_back(lane.key);
        }
        self.rest(i);
        self.deadlines.set(i, Time::NEVER);
        self.free.push(i);
    }

    /// After anything happened to a lane.
    pub(crate) fn touch(&mut self, i: u32) {
        let Some(lane) = self.slots[i as usize].as_mut() else {
            return;
        };
        for ticket in lane.conn.take_freed() {
            // A part may let go only what its lane has.
            if let Some(at) = lane.held.iter().position(|h| h.ticket == ticket) {
                lane.held.swap_remove(at);
                self.freed.push(ticket);
            }
        }
        if lane.own && !core::mem::replace(&mut lane.tells, true) {
            self.rooms.push_back(lane.key);
        }
        if !lane.turn.active {
            lane.turn.active = true;
            self.active.push_back(i);
        }
        self.expect(i);
    }

    /// When a lane is to be looked at again.
    fn expect(&mut self, i: u32) {
        if let Some(lane) = self.slots[i as usize].as_ref() {
            self.deadlines
                .set(i, lane.conn.poll_timeout().min(lane.idle_at));
        }
    }

    /// A lane has nothing to send now.
    fn rest(&mut self, i: u32) {
        self.active.retain(|a| *a != i);
        if let Some(lane) = self.slots[i as usize].as_mut() {
            lane.turn.rest();
        }
        self.expect(i);
    }
}

/// The way of what leaves to there, of a flow that goes `ahead`, if it has no room.
fn full(to: LinkTo, ahead: Ipv4Addr, ways: &mut dyn Ways) -> Option<Toward> {
    let by = match to {
        LinkTo::Route => Some(Toward::Destination(ahead)),
        LinkTo::Neighbour(next) => Some(Toward::Beside(next)),
        LinkTo::All => None,
    };
    by.filter(|by| ways.room_toward(*by) == 0)
}
