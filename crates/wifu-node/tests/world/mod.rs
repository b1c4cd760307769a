//! A substrate of nothing but bytes: packets by number, with the TTL where IP has it, and devices
//! that take as many as they have room for. It holds the node to the contract: whoever touches a
//! packet that isn't his is caught, and every packet that was ever here is in the books.
#![allow(dead_code)]

mod device;

pub use device::{Device, Link};

use core::net::Ipv4Addr;
use core::num::NonZeroU8;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wifu_core::{TxStatus, ip};
use wifu_engine::{Endpoint, RouteFacts, Ticket};
use wifu_node::{Bound, Lost, Node, Reader, Relayed, Ways};
use wifu_wire::ipv4::{self, HEADER};
use wifu_wire::{Ecn, IpInfo, LinkFacts, LinkTo, Neighbour, Notes, Rng, Span, Time};

/// Bytes of the largest packet.
pub const MTU: usize = 1_500;

/// Packets of this protocol are for applications that are none of the node's.
pub const UDP: u8 = 17;

/// Whose address nobody knows.
pub const STRANGER: u8 = 66;

/// How a packet came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Came {
    /// It is this node's own, or was relayed: its TTL is what it leaves with.
    Not,
    /// Over a link, for this node to read or to relay.
    Link,
    /// The same, and it was for all who hear.
    Heard,
}

/// Who may touch a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Holder {
    Node,
    World,
}

struct Entry {
    bytes: Vec<u8>,
    came: Came,
    own: bool,
    kept: bool,
    /// It goes while somebody keeps another one.
    twin: bool,
    holder: Holder,
}

impl Entry {
    /// One that the node may touch, and that is on its way.
    fn new(bytes: Vec<u8>, came: Came) -> Entry {
        Entry {
            bytes,
            own: came == Came::Not,
            came,
            kept: false,
            twin: false,
            holder: Holder::Node,
        }
    }
}

/// The way to a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    pub device: usize,
    pub next: Ipv4Addr,
    pub hops: u8,
}

impl Way {
    /// Straight to a neighbour.
    pub fn new(device: usize, next: Ipv4Addr) -> Way {
        let hops = 1;
        Way { device, next, hops }
    }
}

/// What came, and what became of it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Books {
    /// Came over a link, was sent by the end, was made by a handler or a lane; further ones.
    pub came: u64,
    pub own: u64,
    pub made: u64,
    pub copies: u64,
    /// Left by a device, was read by the end, by a lane, by somebody else.
    pub left: u64,
    pub read: u64,
    pub lanes: u64,
    pub apps: u64,
    pub lost: u64,
    /// Of the lost ones: nobody needed them any more.
    pub freed: u64,
    /// A radio gave them up.
    pub air: u64,
    /// How often a device refused one; of these, how often one that somebody has a further one of.
    pub refused: u64,
    pub twins: u64,
}

/// What goes wrong at random: once in so many; zero is never.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    /// A device that has room takes nothing.
    pub busy: u64,
    /// A wire loses what it took; the next hop of a radio is not there.
    pub wire: u64,
    pub link: u64,
    /// A radio gives up.
    pub air: u64,
    /// A relay takes its time.
    pub later: u64,
}

/// What has left a device.
pub struct Left {
    pub device: usize,
    pub to: LinkTo,
    pub bytes: Vec<u8>,
}

/// The world around a node whose address is `me`.
pub struct World {
    pub me: Ipv4Addr,
    pub now: Time,
    packets: Vec<Option<Entry>>,
    spare: Vec<u32>,
    pub devices: Vec<Device>,
    /// Ways to those who are not reached by the first device; `None`: by none.
    pub ways: BTreeMap<Ipv4Addr, Option<Way>>,
    pub faults: Faults,
    /// So many packets are refused though their device has room, whatever else goes wrong.
    pub refuses: u32,
    rng: Rng,
    /// Packets that it is not done with.
    later: BTreeSet<(Time, u32)>,
    /// When a device last refused a packet.
    pub refused: Time,
    /// What devices took, and to whom it is.
    pub sent: VecDeque<(LinkTo, Vec<u8>)>,
    /// What a device took last, until somebody takes it from here.
    pub last: Option<Vec<u8>>,
    /// What was lost.
    pub lost: Vec<Lost>,
    /// Packets that go before others.
    pub hastened: Vec<Ticket>,
    /// What was read here.
    pub read: Vec<Reader>,
    pub lines: Vec<String>,
    pub books: Books,
    /// How often a packet's bytes were looked at.
    pub looks: Cell<u64>,
    /// How often it gave which answer.
    pub answers: RefCell<BTreeMap<&'static str, u64>>,
}

impl World {
    /// A kind one: its device takes everything, and it has left at once.
    pub fn new(me: Ipv4Addr) -> World {
        World {
            me,
            now: Time(1_000),
            packets: vec![None],
            spare: Vec::new(),
            devices: vec![Device::new(Link::Open, usize::MAX, Span::ZERO)],
            ways: BTreeMap::new(),
            faults: Faults::default(),
            refuses: 0,
            rng: Rng::new(1),
            later: BTreeSet::new(),
            refused: Time::ZERO,
            sent: VecDeque::new(),
            last: None,
            lost: Vec::new(),
            hastened: Vec::new(),
            read: Vec::new(),
            lines: Vec::new(),
            books: Books::default(),
            looks: Cell::new(0),
            answers: RefCell::default(),
        }
    }

    /// A hard one, with these devices.
    pub fn hard(me: Ipv4Addr, seed: u64, devices: Vec<Device>, faults: Faults) -> World {
        World {
            devices,
            faults,
            rng: Rng::new(seed),
            ..World::new(me)
        }
    }

    /// The way to an address is a device of its own from now on, which takes so many packets and
    /// keeps them.
    pub fn confine(&mut self, to: Ipv4Addr, packets: usize) {
        self.devices
            .push(Device::new(Link::Shut, packets, Span::ZERO));
        let device = self.devices.len() - 1;
        self.ways.insert(to, Some(Way::new(device, to)));
    }

    /// A packet that is here; `came` if it came over a link.
    pub fn insert(&mut self, bytes: Vec<u8>, came: bool) -> Ticket {
        self.books.came += u64::from(came);
        self.books.own += u64::from(!came);
        let came = if came { Came::Link } else { Came::Not };
        self.add(Entry::new(bytes, came))
    }

    /// A packet came that was for all who hear.
    pub fn hear(&mut self, bytes: Vec<u8>) -> Ticket {
        // It is on no way, unless it is for this node.
        let kept = ip::addresses(&bytes).1 != self.me;
        self.books.came += u64::from(!kept);
        let entry = Entry::new(bytes, Came::Heard);
        self.add(Entry { kept, ..entry })
    }

    /// A packet that the node may look at, and no more; the ticket is to be given back.
    pub fn show(&mut self, bytes: Vec<u8>) -> Ticket {
        let entry = Entry::new(bytes, Came::Heard);
        let (kept, holder) = (true, Holder::World);
        self.add(Entry {
            kept,
            holder,
            ..entry
        })
    }

    /// The node has looked at it.
    pub fn take_back(&mut self, packet: Ticket) -> Vec<u8> {
        assert_eq!(self.entry(packet).holder, Holder::World);
        self.take(packet).bytes
    }

    /// Numbers are given anew as soon as they are free.
    fn add(&mut self, entry: Entry) -> Ticket {
        let number = self.spare.pop().unwrap_or_else(|| {
            self.packets.push(None);
            (self.packets.len() - 1) as u32
        });
        self.packets[number as usize] = Some(entry);
        Ticket(number)
    }

    /// Packets that are here.
    pub fn packets(&self) -> usize {
        self.packets.iter().flatten().count()
    }

    /// What came is what went, or is here.
    pub fn check_books(&self) {
        let b = &self.books;
        let inside = self.packets.iter().flatten().filter(|e| !e.kept).count() as u64;
        let came = b.came + b.own + b.made + b.copies;
        let went = b.left + b.read + b.lanes + b.apps + b.lost;
        assert_eq!(came, went + inside, "{b:?}, {inside} inside");
        assert_eq!(b.lost, self.lost.len() as u64);
    }

    /// How often it gave this answer.
    pub fn answered(&self, answer: &'static str) -> u64 {
        self.answers.borrow().get(answer).copied().unwrap_or(0)
    }

    fn answer(&self, answer: &'static str) {
        *self.answers.borrow_mut().entry(answer).or_default() += 1;
    }

    fn once_in(&mut self, odds: u64) -> bool {
        odds > 0 && self.rng.below(odds) == 0
    }

    fn get(&self, packet: Ticket) -> &Entry {
        let entry = self.packets[packet.0 as usize].as_ref();
        entry.expect("it is here")
    }

    fn entry(&mut self, packet: Ticket) -> &mut Entry {
        let entry = self.packets[packet.0 as usize].as_mut();
        entry.expect("it is here")
    }

    /// The same, of a packet that the node may touch.
    fn held(&mut self, packet: Ticket) -> &mut Entry {
        let entry = self.entry(packet);
        assert_eq!(entry.holder, Holder::Node, "it is not the node's");
        entry
    }

    fn take(&mut self, packet: Ticket) -> Entry {
        self.spare.push(packet.0);
        let entry = self.packets[packet.0 as usize].take();
        entry.expect("it is here")
    }

    fn again(&mut self, packet: Ticket, kept: bool) -> Ticket {
        let first = self.get(packet);
        let (entry, own) = (Entry::new(first.bytes.clone(), first.came), first.own);
        self.add(Entry { own, kept, ..entry })
    }

    fn way(&self, to: Ipv4Addr) -> Option<Way> {
        let usual = || Some(Way::new(0, to));
        self.ways.get(&to).copied().unwrap_or_else(usual)
    }

    fn refuse(&mut self, packet: Ticket, why: Lost, answer: &'static str) -> Result<(), Lost> {
        self.answer(answer);
        self.books.refused += 1;
        self.books.twins += u64::from(self.held(packet).twin && why != Lost::Wire);
        if why != Lost::Wire {
            self.refused = self.now;
        }
        Err(why)
    }

    fn enter(&mut self, packet: Ticket, device: usize, to: LinkTo) -> Result<(), Lost> {
        assert_eq!(self.held(packet).came, Came::Not, "its TTL was lowered");
        let (now, faults) = (self.now, self.faults);
        if self.devices[device].room(now) == 0 {
            return self.refuse(packet, Lost::Queue, "send: full");
        }
        if self.refuses > 0 || self.once_in(faults.busy) {
            self.refuses = self.refuses.saturating_sub(1);
            return self.refuse(packet, Lost::Queue, "send: busy");
        }
        let kind = self.devices[device].kind;
        match kind {
            Link::Wire if self.once_in(faults.wire) => {
                return self.refuse(packet, Lost::Wire, "send: lost on the wire");
            }
            Link::Radio if self.once_in(faults.link) => {
                return self.refuse(packet, Lost::Link, "send: nobody there");
            }
            _ => self.answer("send: taken"),
        }
        let entry = self.held(packet);
        entry.holder = Holder::World;
        let bytes = entry.bytes.clone();
        self.last = Some(bytes.clone());
        self.sent.push_back((to, bytes));
        self.devices[device].enter(now, packet, to);
        if self.devices[device].kind == Link::Open {
            self.devices[device].leave(now);
            self.take(packet);
            self.books.left += 1;
        }
        Ok(())
    }

    fn count_lost(&mut self, why: Lost) {
        self.books.lost += 1;
        self.lost.push(why);
    }
}

/// What happens by itself.
impl World {
    /// When the next thing does.
    pub fn next(&self) -> Time {
        let devices = self.devices.iter().map(Device::next);
        let later = self.later.first().map(|l| l.0);
        devices.chain(later).min().unwrap_or(Time::NEVER)
    }

    /// What is due happens, and the node is told what it is to be told. What has left comes back.
    pub fn happen(&mut self, node: &mut Node) -> Vec<Left> {
        let mut all = Vec::new();
        for device in 0..self.devices.len() {
            while let Some((leaving, full)) = self.devices[device].leave(self.now) {
                let delivered = self.report(node, device, leaving.packet, &leaving);
                let bytes = self.take(leaving.packet).bytes;
                if delivered {
                    self.books.left += 1;
                    let to = leaving.to;
                    all.push(Left { device, to, bytes });
                } else {
                    self.books.air += 1;
                    self.count_lost(Lost::Link);
                }
                let radio = self.devices[device].kind == Link::Radio;
                if node.is_stirred() || (radio && full) {
                    while node.transmit(self) {}
                }
            }
        }
        while let Some(due) = self.later.first().copied().filter(|l| l.0 <= self.now) {
            self.later.remove(&due);
            let packet = due.1;
            self.entry(Ticket(packet)).holder = Holder::Node;
            node.relayed(self, Ticket(packet));
            if node.is_stirred() {
                while node.transmit(self) {}
            }
        }
        all
    }

    /// A radio reports a packet; whether it was delivered.
    fn report(
        &mut self,
        node: &mut Node,
        device: usize,
        packet: Ticket,
        leaving: &device::Leaving,
    ) -> bool {
        if self.devices[device].kind != Link::Radio {
            return true;
        }
        let odds = self.faults.air;
        let delivered = leaving.to == LinkTo::All || !self.once_in(odds);
        let status = TxStatus {
            ticket: u64::from(packet.0),
            delivered,
            attempts: if delivered { 1 } else { 7 },
            airtime: None,
            delay: self.now - leaving.came,
        };
        node.report(self, packet, &status);
        delivered
    }

    /// Time goes on until then, and the node is called when it wants to be and at no other time.
    /// What has left meanwhile comes back.
    pub fn pass(&mut self, node: &mut Node, until: Time) -> Vec<Left> {
        let mut all = Vec::new();
        let mut here = 0;
        loop {
            let wants = node.poll_timeout(self);
            let at = wants.min(self.next());
            if at > until || at == Time::NEVER {
                break;
            }
            here = if at > self.now { 0 } else { here + 1 };
            assert!(here < 1_000, "the node never rests at {:?}", self.now);
            self.now = self.now.max(at);
            all.extend(self.happen(node));
            if node.poll_timeout(self) <= self.now {
                node.handle_timeout(self);
                while node.transmit(self) {}
            }
            self.check_rest(node);
        }
        if until < Time::NEVER {
            self.now = self.now.max(until);
        }
        all
    }

    /// Nothing keeps anything from leaving.
    pub fn is_free(&self) -> bool {
        let ways = self.ways.values().all(Option::is_some);
        let room = self.devices.iter().all(|d| d.room(self.now) > 0);
        ways && room && self.refused + Span::MILLI * 10 <= self.now
    }

    /// A node that rests has nothing to send that could leave, and is called when that changes.
    pub fn check_rest(&mut self, node: &mut Node) {
        let wakes = node.poll_timeout(self);
        // It does not rest; `pass` counts how often that may be.
        if wakes <= self.now {
            return;
        }
        if node.end().is_some_and(Endpoint::is_waiting) {
            let full = self.devices.iter().filter(|d| d.room(self.now) == 0);
            let room = full.map(|d| d.room_at(self.now)).min();
            let room = room.unwrap_or(Time::NEVER);
            assert!(
                wakes <= room,
                "there is room at {room:?}, the node sleeps until {wakes:?}"
            );
        }
        let waiting: Vec<Ipv4Addr> = node.lanes().map_or(Vec::new(), |lanes| {
            let waiting = lanes.all().filter(|(_, l)| l.board().app.queued > 0);
            waiting.map(|(key, _)| *key.target.ip()).collect()
        });
        for to in waiting {
            let Some(way) = self.way(to) else { continue };
            let device = &self.devices[way.device];
            let until = match (device.room(self.now), device.kind) {
                (1.., _) => self.now,
                (0, Link::Wire) => device.next(),
                // It will say so.
                (0, _) => continue,
            };
            // A lane that a device refused waits for 10 ms.
            let until = until.max(self.refused + Span::MILLI * 10);
            assert!(
                until > self.now && wakes <= until,
                "what goes to {to} could leave at {until:?}, the node sleeps until {wakes:?}"
            );
        }
    }
}

impl Ways for World {
    fn now(&self) -> Time {
        self.now
    }

    fn me(&self) -> Ipv4Addr {
        self.me
    }

    fn address(&self, neighbour: Neighbour) -> Option<Ipv4Addr> {
        let [.., last] = neighbour.address;
        let known = last != STRANGER;
        self.answer(if known {
            "address: known"
        } else {
            "address: unknown"
        });
        known.then(|| Ipv4Addr::new(10, 0, 0, last))
    }

    fn log(&mut self, line: String) {
        self.lines.push(line);
    }

    fn route(&self, to: Ipv4Addr) -> Option<RouteFacts> {
        let Some(way) = self.way(to) else {
            self.answer("route: none");
            return None;
        };
        self.answer("route: some");
        let [.., last] = way.next.octets();
        Some(RouteFacts {
            next_hop: Neighbour::new(way.device as u16 + 1, [2, 0, 0, 0, 0, last]),
            hops: NonZeroU8::new(way.hops),
            last_hop: way.next == to,
            ..RouteFacts::default()
        })
    }

    fn link(&self, to: Option<Ipv4Addr>) -> LinkFacts {
        let device = to.and_then(|to| self.way(to)).map_or(0, |way| way.device);
        let device = &self.devices[device];
        let small = |n: usize| Some(n.min(1_000) as u32);
        LinkFacts {
            queued: small(device.queued(self.now)),
            room: small(device.room(self.now)),
            ..LinkFacts::default()
        }
    }

    fn room(&mut self, to: Ipv4Addr) -> u32 {
        let room = self
            .way(to)
            .map_or(0, |way| self.devices[way.device].room(self.now));
        self.answer(if room > 0 { "room: some" } else { "room: none" });
        room.min(1_000) as u32
    }

    fn room_at(&mut self, to: Ipv4Addr) -> Time {
        let at = self.way(to).map_or(Time::NEVER, |way| {
            self.devices[way.device].room_at(self.now)
        });
        self.answer(if at == Time::NEVER {
            "room_at: it will say so"
        } else {
            "room_at: then"
        });
        at
    }

    fn tell_room(&mut self, end: &mut Endpoint) -> Time {
        let (now, mut at) = (self.now, Time::NEVER);
        for (i, device) in self.devices.iter().enumerate() {
            let room = device.room(now).min(1_000) as u32;
            if room == 0 {
                at = at.min(device.room_at(now));
            }
            let number = core::num::NonZeroU16::new(i as u16 + 1).expect("not zero");
            match self.devices.len() {
                1 => end.set_room(room),
                _ => end.set_device_room(number, room),
            }
        }
        self.answer(if at == Time::NEVER {
            "tell_room: some, or it will say so"
        } else {
            "tell_room: then"
        });
        at
    }

    fn emit(&mut self, end: &mut Endpoint) -> Option<(Ticket, Notes)> {
        let mut bytes = vec![0; MTU];
        let datagram = end.poll_transmit(self.now, &mut bytes[HEADER..])?;
        self.answer("emit: some");
        bytes.truncate(HEADER + datagram.len);
        let ip = datagram.ip.v4().expect("the world is IPv4");
        ipv4::emit(&ip, datagram.len, &mut bytes);
        let conn = datagram.conn.and_then(|id| end.conn(id));
        let notes = conn.map_or(Notes::EMPTY, |conn| conn.aside().notes);
        Some((self.insert(bytes, false), notes))
    }

    fn ip(&self, packet: Ticket) -> IpInfo {
        let bytes = &self.get(packet).bytes;
        let (src, dst) = match ip::header(bytes) {
            Some(_) => ip::addresses(bytes),
            None => (Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED),
        };
        let at = |i: usize| bytes.get(i).copied().unwrap_or(0);
        IpInfo {
            src,
            dst,
            proto: at(9),
            ttl: at(8),
            ecn: Ecn::of(at(1)),
        }
    }

    fn octets(&self, packet: Ticket) -> &[u8] {
        self.looks.set(self.looks.get() + 1);
        &self.get(packet).bytes
    }

    fn rewrite(&mut self, packet: Ticket, octets: &[u8]) -> bool {
        let fits = (HEADER..=MTU).contains(&octets.len());
        self.answer(if fits {
            "rewrite: done"
        } else {
            "rewrite: too long"
        });
        if fits {
            self.held(packet).bytes = octets.to_vec();
        }
        fits
    }

    fn patch(&mut self, packet: Ticket, change: &mut dyn FnMut(&mut [u8])) {
        change(&mut self.held(packet).bytes);
    }

    fn is_own(&self, packet: Ticket) -> bool {
        self.get(packet).own
    }

    fn copy(&mut self, packet: Ticket) -> Ticket {
        self.answer("copy");
        self.again(packet, true)
    }

    fn twin(&mut self, packet: Ticket) -> Ticket {
        self.answer("twin");
        // The first one is on no way from now on; the new one is, in its place.
        if core::mem::replace(&mut self.held(packet).kept, true) {
            self.books.copies += 1;
        }
        let twin = self.again(packet, false);
        self.entry(twin).twin = true;
        twin
    }

    fn go(&mut self, packet: Ticket) {
        if core::mem::take(&mut self.held(packet).kept) {
            self.answer("go: kept");
            self.books.copies += 1;
        }
    }

    fn made(&mut self, octets: &[u8]) -> Option<Ticket> {
        if ip::header(octets).is_none() || octets.len() > MTU {
            self.answer("made: none");
            return None;
        }
        self.answer("made: some");
        let mut bytes = octets.to_vec();
        ip::repair(&mut bytes);
        self.books.made += 1;
        Some(self.add(Entry::new(bytes, Came::Not)))
    }

    fn free(&mut self, packet: Ticket) {
        self.held(packet);
        if self.take(packet).kept {
            self.answer("free: kept");
        } else {
            self.answer("free: lost");
            self.books.freed += 1;
            self.count_lost(Lost::Queue);
        }
    }

    fn lose(&mut self, packet: Ticket, why: Lost) {
        self.held(packet);
        let entry = self.take(packet);
        if !entry.kept {
            return self.count_lost(why);
        }
        assert_eq!(entry.came, Came::Heard, "what is on no way cannot be lost");
        self.answer("lose: heard");
    }

    fn bound(&self, packet: Ticket) -> Bound {
        let (here, came) = (self.ip(packet).dst == self.me, self.get(packet).came);
        let (bound, answer) = match (here, came) {
            (true, _) => (Bound::Here, "bound: here"),
            (false, Came::Heard) => (Bound::Heard, "bound: heard"),
            (false, _) => (Bound::Onward, "bound: onward"),
        };
        self.answer(answer);
        bound
    }

    fn relay(&mut self, packet: Ticket) -> Relayed {
        if !self.ready(packet) {
            self.answer("relay: expired");
            return Relayed::Expired;
        }
        let odds = self.faults.later;
        if !self.once_in(odds) {
            self.answer("relay: now");
            return Relayed::Now;
        }
        self.answer("relay: later");
        let at = self.now + Span(self.rng.below(1_000_000));
        self.held(packet).holder = Holder::World;
        self.later.insert((at, packet.0));
        Relayed::Later
    }

    fn ready(&mut self, packet: Ticket) -> bool {
        let entry = self.held(packet);
        if core::mem::replace(&mut entry.came, Came::Not) == Came::Not {
            return true;
        }
        let ttl = entry.bytes[8].saturating_sub(1);
        ip::lower_ttl(&mut entry.bytes, ttl);
        if ttl == 0 {
            self.answer("ready: expired");
        }
        ttl > 0
    }

    fn send(&mut self, packet: Ticket) -> Result<(), Lost> {
        match self.way(self.ip(packet).dst) {
            Some(way) => self.enter(packet, way.device, LinkTo::Route),
            None => self.refuse(packet, Lost::Route, "send: no route"),
        }
    }

    fn send_to(&mut self, packet: Ticket, to: Option<Neighbour>) -> Result<(), Lost> {
        let Some(neighbour) = to else {
            self.answer("send_to: all");
            // Wires carry no broadcasts.
            let mut kinds = self.devices.iter().map(|d| d.kind);
            let device = kinds.position(|k| matches!(k, Link::Radio | Link::Open));
            return match device {
                Some(device) => self.enter(packet, device, LinkTo::All),
                None => self.refuse(packet, Lost::Queue, "send_to: nothing for all"),
            };
        };
        self.answer("send_to: one");
        let device = usize::from(neighbour.device.get()) - 1;
        if device >= self.devices.len() {
            return self.refuse(packet, Lost::Route, "send_to: no such device");
        }
        self.enter(packet, device, LinkTo::Neighbour(neighbour))
    }

    fn hasten(&mut self, packet: Ticket) {
        self.hastened.push(packet);
    }

    fn is_for_end(&self, packet: Ticket) -> bool {
        self.ip(packet).proto != UDP
    }

    fn deliver(&mut self, packet: Ticket) -> bool {
        let theirs = self.ip(packet).proto == UDP;
        if theirs {
            self.answer("deliver: taken");
            self.held(packet);
            self.take(packet);
            self.books.apps += 1;
        }
        theirs
    }

    fn delivered(&mut self, packet: Ticket, by: Reader) {
        self.held(packet);
        self.read.push(by);
        if self.take(packet).kept {
            return self.answer("delivered: overheard by the lane");
        }
        match by {
            Reader::End => {
                self.answer("delivered: to the end");
                self.books.read += 1;
            }
            Reader::Lane => {
                self.answer("delivered: to the lane");
                self.books.lanes += 1;
            }
            Reader::Between => {
                self.answer("delivered: to the splitter");
                self.books.read += 1;
            }
        }
    }
}
