//! Random orders in a hard world: devices fill and drain, refuse and lose; packets are overheard,
//! come for all, take their time. The node is called when it is due and at no other time.

mod laned;
mod world;

use core::net::{Ipv4Addr, SocketAddrV4};
use laned::{A, B, C, MARK, ME, SAYS};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use wifu_core::{Counters, TxStatus, ip};
use wifu_engine::component::Cx;
use wifu_engine::{
    Admit, Board, Component, Descriptor, Kind, Out, Params, Payload, Role, Segment, Signal, Ticket,
    Want, WordSpec,
};
use wifu_node::{LaneCounters, Lanes, LanesConfig, Node, Scheduler};
use wifu_testkit::wild::Odds;
use wifu_wire::{Class, Ecn, FrameFacts, IpInfo, Neighbour, Rng, Span, Time, Wire, Word, ipv4};
use world::{Device, Faults, Link, STRANGER, UDP, Way, World};

thread_local! {
    /// What parts have to say in this thread's test, and have not said yet.
    static OWED: Cell<u32> = const { Cell::new(0) };
}

/// Says something for each report; keeps what has an even number, three at most.
static QUEUE: Descriptor = Descriptor {
    doc: "Hands packets down, keeps some, and answers reports.",
    words: &[MARK, SAYS, WordSpec::transmitter("transmitter")],
    offers: &[Kind::Urgent, Kind::New],
    hooks: &["segment", "overheard"],
    build: |p| Ok(Box::new(Queue::new(p))),
    ..laned::QUEUE
};

struct Queue {
    mark: Word,
    says: Word,
    kept: Vec<Ticket>,
    owes: u32,
}

impl Queue {
    fn new(p: &Params<'_>) -> Queue {
        Queue {
            mark: p.word("mark"),
            says: p.word("says"),
            kept: Vec::new(),
            owes: 0,
        }
    }

    fn owe(&mut self) {
        self.owes += 1;
        OWED.set(OWED.get() + 1);
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        OWED.set(OWED.get() - self.owes);
    }
}

impl Component for Queue {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        if !seg.frame.along {
            for t in self.kept.drain(..) {
                cx.out.release(t);
            }
        }
        if seg.head.seq.0 % 17 == 3 {
            return Admit::Drop("17");
        }
        Admit::Pass
    }

    fn on_overheard(&mut self, _: &Segment<'_>, _: &mut Cx<'_>) {
        self.owe();
    }

    fn on_signal(&mut self, s: &Signal, cx: &mut Cx<'_>) {
        if let Signal::Status(s) = s
            && s.class == Class::Data
        {
            self.owe();
        }
        laned::open(cx);
    }
    fn offer(&self, kind: Kind, board: &Board, _: Time) -> Option<Want> {
        let any = match kind {
            Kind::Urgent => self.owes > 0,
            _ => board.app.queued > 0,
        };
        let (bytes, least) = (1, 1);
        any.then_some(Want { kind, bytes, least })
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        if want.kind == Kind::Urgent {
            self.owes -= 1;
            OWED.set(OWED.get() - 1);
            out.head.set(self.says, 1);
            return;
        }
        if let Some((ticket, number)) = cx.store.pop() {
            let keep = number.0 % 2 == 0 && self.kept.len() < 3;
            if keep {
                self.kept.push(ticket);
            }
            out.head.seq = number;
            out.head.set(self.mark, 9);
            out.payload = Payload::Packet { ticket, keep };
        }
    }
}

/// What the handler does.
const ODDS: Odds = Odds {
    copies: 6,
    uses: 8,
    holds: 5,
    releases: 8,
    sends: 10,
    changes: 10,
    grows: 100,
    drops: 15,
    most: 8,
    patience: Span(5_000_000),
    memory: Span(50_000_000),
};

/// A node with lanes, of the composition that this is the format of.
fn node(seed: u64, idle: Span, scheduler: Scheduler) -> (Node, Arc<dyn Wire>) {
    let protocol = laned::protocol(&QUEUE, &[]);
    let wire = Arc::clone(&protocol.ends.wire);
    let config = LanesConfig {
        most: 3,
        idle,
        scheduler,
        ..LanesConfig::default()
    };
    let lanes = Lanes::new(config, &[protocol], Rng::new(seed));
    let mut node = Node::new(5);
    node.set_lanes(lanes.expect("the protocol has one"));
    (node, wire)
}

/// A packet of a flow comes over a link.
fn comes(node: &mut Node, world: &mut World, packet: Vec<u8>) {
    let ticket = world.insert(packet, true);
    node.arrive(world, ticket, FrameFacts::NONE);
}

fn at(host: Ipv4Addr, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(host, port)
}

/// A node in a hard world, and what comes to it.
struct Random {
    node: Node,
    world: World,
    wire: Arc<dyn Wire>,
    rng: Rng,
    number: u32,
}

impl Random {
    fn new(seed: u64) -> Random {
        let schedulers = Scheduler::ALL.map(|s| s.1);
        let idle = [Span::MILLI * 20, Span::SECOND * 5][seed as usize / 6 % 2];
        let (mut node, wire) = node(seed, idle, schedulers[seed as usize % 3]);
        if seed.is_multiple_of(2) {
            node.set_chain(laned::wild(ODDS, 6, Rng::new(seed)));
        }
        let rng = Rng::new(seed + 1000);
        // Some have no radio, and nobody who hears all.
        let radio = [Link::Radio, Link::Wire][usize::from(seed % 5 == 4)];
        let devices = vec![
            Device::new(radio, 3, Span(300_000)),
            Device::new(Link::Wire, 2, Span(500_000)),
            Device::new(radio, 2, Span(400_000)),
            Device::new(Link::Wire, 1, Span(900_000)),
        ];
        let faults = Faults {
            busy: 40,
            wire: 30,
            link: 60,
            air: 10,
            later: 3,
        };
        let mut all = Random {
            node,
            world: World::hard(ME, seed, devices, faults),
            wire,
            rng,
            number: 0,
        };
        all.world.ways = all.usual();
        all
    }

    /// Each destination has a device of its own.
    fn usual(&self) -> BTreeMap<Ipv4Addr, Option<Way>> {
        let way = |(device, next): (usize, Ipv4Addr)| Some(Way::new(device, next));
        let all = [A, B, C].into_iter().enumerate();
        all.map(|(device, to)| (to, way((device, to)))).collect()
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.rng.below(all.len() as u64) as usize]
    }

    /// A packet of a flow from A, or back to it.
    fn packet(&mut self, back: bool, payload: usize) -> Vec<u8> {
        let port = self.rng.below(4) as u16 + 1;
        let (near, far) = (at(A, port), at(self.pick(&[B, C, ME]), 7));
        let ends = if back { (far, near) } else { (near, far) };
        self.number += 1;
        let mut packet = laned::packet(&*self.wire, ends, self.number, payload);
        if self.rng.below(30) == 0 {
            ip::lower_ttl(&mut packet, 1);
        }
        packet
    }

    /// From a neighbour that nobody knows, or this node, or another one; by a device that there is
    /// not, at times.
    fn facts(&mut self) -> FrameFacts {
        let last = self.pick(&[STRANGER, ME.octets()[3], 1]);
        let device = self.pick(&[1, 1, 1, 9]);
        FrameFacts {
            transmitter: Neighbour::new(device, [2, 0, 0, 0, 0, last]),
            ..FrameFacts::NONE
        }
    }

    /// What a driver does after anything that it told its node.
    fn settle(&mut self) {
        if self.node.is_stirred() {
            while self.node.transmit(&mut self.world) {}
        }
        self.world.check_rest(&mut self.node);
        self.world.check_books();
        let handlers = self.node.counters().count() > 0;
        while let Some((_, bytes)) = self.world.sent.pop_front() {
            laned::check(&*self.wire, &bytes, handlers);
        }
        if !handlers && self.world.is_free() {
            assert_eq!(OWED.get(), 0, "what lanes have to say could leave");
        }
    }

    /// Time goes on, and something happens.
    fn step(&mut self) {
        let until = self.world.now + Span(self.rng.below(500_000));
        self.world.pass(&mut self.node, until);
        let facts = self.facts();
        let payload = self.rng.below(300) as usize;
        match self.rng.below(12) {
            0..=4 => self.comes(false, payload, facts),
            5 => self.comes(true, 0, facts),
            6 => {
                let way = self.pick(&[None, Some(0), Some(1), Some(2), Some(3)]);
                let to = self.pick(&[A, B, C]);
                let way = way.map(|device| Way::new(device, to));
                self.world.ways.insert(to, way);
                self.node.reroute(&mut self.world);
            }
            7 => {
                let bytes = self.packet(false, payload);
                let shown = self.world.show(bytes);
                self.node.overhear(&mut self.world, shown, facts);
                self.world.take_back(shown);
            }
            8 => {
                let back = self.pick(&[true, false]);
                let bytes = self.packet(back, payload);
                let heard = self.world.hear(bytes);
                self.node.arrive(&mut self.world, heard, facts);
            }
            9 => {
                let to = self.pick(&[ME, B]);
                let packet = self.world.insert(datagram(A, to, payload), true);
                self.node.arrive(&mut self.world, packet, facts);
            }
            10 => {
                let packet = self.world.insert(datagram(ME, B, payload), false);
                self.node
                    .originate(&mut self.world, packet, FrameFacts::NONE.notes);
            }
            _ => self.repeated(facts),
        }
        self.settle();
    }

    fn comes(&mut self, back: bool, payload: usize, facts: FrameFacts) {
        let packet = self.packet(back, payload);
        let packet = self.world.insert(packet, true);
        self.node.arrive(&mut self.world, packet, facts);
    }

    /// The radio hears a node repeat what this one sent; the same comes for all or for this node,
    /// as what another node's lane says does.
    fn repeated(&mut self, facts: FrameFacts) {
        let Some(bytes) = self.world.last.take() else {
            return;
        };
        let shown = self.world.show(bytes.clone());
        self.node.overhear(&mut self.world, shown, facts);
        self.world.take_back(shown);
        let packet = match self.pick(&[true, false]) {
            true => self.world.hear(bytes),
            false => self.world.insert(bytes, true),
        };
        self.node.arrive(&mut self.world, packet, facts);
    }

    /// Nothing comes any more, and all ways are open: everything runs dry.
    fn dry(&mut self) {
        self.world.ways = self.usual();
        self.node.reroute(&mut self.world);
        self.settle();
        self.world.pass(&mut self.node, Time::NEVER);
        self.settle();
    }

    /// What was lost, as node, lanes and handlers count it.
    fn lost(&self) -> u64 {
        let (lanes, books) = (self.lanes(), &self.world.books);
        let by_lanes = lanes.full + lanes.unlaned + lanes.refused;
        let by_devices = books.refused - lanes.returned + books.air;
        let expired = self.world.answered("ready: expired");
        let by_handlers: u64 = self.node.counters().map(|(_, c)| dropped(&c)).sum();
        let too_long = self.world.answered("rewrite: too long");
        // What others are to hear is not this node's to lose.
        let heard = self.world.answered("lose: heard");
        by_lanes + by_devices + expired + by_handlers + too_long + books.freed - heard
    }

    fn lanes(&self) -> LaneCounters {
        self.node.lanes().expect("it has some").counters()
    }
}

/// Packets that a handler dropped.
fn dropped(counters: &Counters) -> u64 {
    let reasons = counters.dropped.iter();
    // What was sent and is none never was a packet; what is overheard is nobody's to drop.
    let packets = reasons.filter(|(why, _)| **why == "wild");
    packets.map(|(_, n)| n).sum::<u64>() + counters.overflows
}

/// A packet that is no business of any lane.
fn datagram(src: Ipv4Addr, dst: Ipv4Addr, payload: usize) -> Vec<u8> {
    let (proto, ttl) = (UDP, 64);
    let mut bytes = vec![0; ipv4::HEADER + payload];
    let ip = IpInfo {
        src,
        dst,
        proto,
        ttl,
        ecn: Ecn::NotEct,
    };
    ipv4::emit(&ip, payload, &mut bytes);
    bytes
}

/// All that a substrate can say to a node.
const ANSWERS: [&str; 39] = [
    "address: known",
    "address: unknown",
    "bound: heard",
    "bound: here",
    "bound: onward",
    "copy",
    "deliver: taken",
    "delivered: overheard by the lane",
    "delivered: to the end",
    "delivered: to the lane",
    "free: kept",
    "free: lost",
    "go: kept",
    "lose: heard",
    "made: none",
    "made: some",
    "ready: expired",
    "relay: expired",
    "relay: later",
    "relay: now",
    "rewrite: done",
    "rewrite: too long",
    "room: none",
    "room: some",
    "room_at: it will say so",
    "room_at: then",
    "route: none",
    "route: some",
    "send: busy",
    "send: full",
    "send: nobody there",
    "send: lost on the wire",
    "send: no route",
    "send: taken",
    "send_to: all",
    "send_to: no such device",
    "send_to: nothing for all",
    "send_to: one",
    "twin",
];

#[test]
fn random_orders_leak_nothing_and_lose_nothing_that_is_not_counted() {
    let mut answers: BTreeMap<&str, u64> = BTreeMap::new();
    let mut lanes = [0; 11];
    for seed in 0..400u64 {
        let mut all = Random::new(seed);
        for _ in 0..600 {
            all.step();
        }
        all.dry();
        let world = &all.world;
        assert_eq!(world.packets(), 0, "seed {seed}: something is left");
        assert_eq!(all.node.lanes().into_iter().flat_map(Lanes::all).count(), 0);
        assert_eq!(all.lost(), world.books.lost, "seed {seed}");
        for (answer, count) in &*world.answers.borrow() {
            *answers.entry(answer).or_default() += count;
        }
        let l = all.lanes();
        let each = [
            l.taken,
            l.sent,
            l.made,
            l.unsent,
            l.strangers,
            l.kept,
            l.returned,
            l.full,
            l.refused,
            l.unlaned,
            l.idled,
        ];
        lanes = core::array::from_fn(|i| lanes[i] + each[i]);
    }
    for answer in ANSWERS {
        assert!(answers.contains_key(answer), "never: {answer}; {answers:?}");
    }
    assert!(lanes.iter().all(|n| *n > 0), "{lanes:?}");
}

#[test]
fn who_follows_the_contract_sends_what_a_report_asks_for() {
    let (mut node, wire) = node(1, Span::SECOND, Scheduler::DeficitRoundRobin);
    let mut world = World::new(ME);
    let p = laned::packet(&*wire, (at(A, 1), at(B, 7)), 1, 100);
    comes(&mut node, &mut world, p);
    let (_, bytes) = world.sent.pop_back().unwrap();
    let t = world.show(bytes);
    let s = TxStatus {
        ticket: 1,
        delivered: false,
        attempts: 7,
        airtime: None,
        delay: Span(5),
    };
    node.report(&mut world, t, &s);
    assert!(
        node.is_stirred(),
        "a driver that follows the contract polls it"
    );
    let _ = node.transmit(&mut world);
    assert_eq!(world.sent.len(), 1);
}

static SLOW: Descriptor = Descriptor {
    name: "slow",
    role: Role::Gate,
    doc: "Lets a packet go 500 ns after another came.",
    hears: &[("segment", &[])],
    hooks: &["permit", "segment"],
    build: |_| Ok(Box::new(Slow(None))),
    ..Descriptor::EMPTY
};

struct Slow(Option<Time>);

impl Component for Slow {
    fn on_segment(&mut self, _: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        self.0 = Some(cx.now + Span(500));
        Admit::Pass
    }
    fn permit(&self, _: &Want, _: &Board, _: Time) -> wifu_engine::Permit {
        wifu_engine::Permit::at(self.0.unwrap_or(Time::ZERO), wifu_engine::Limit::Pace)
    }
}
static TALKS: Descriptor = Descriptor {
    name: "talks",
    doc: "Says something when a packet came.",
    build: |p| Ok(Box::new(Talks(Queue::new(p)))),
    ..QUEUE
};

struct Talks(Queue);

impl Component for Talks {
    fn on_segment(&mut self, s: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        self.0.owe();
        self.0.on_segment(s, cx)
    }
    fn on_signal(&mut self, s: &Signal, cx: &mut Cx<'_>) {
        self.0.on_signal(s, cx)
    }
    fn offer(&self, k: Kind, b: &Board, t: Time) -> Option<Want> {
        self.0.offer(k, b, t)
    }
    fn fill(&mut self, w: &Want, o: &mut Out<'_>, cx: &mut Cx<'_>) {
        self.0.fill(w, o, cx)
    }
}

#[test]
fn a_gate_names_a_time_while_the_way_ahead_is_full() {
    let protocol = laned::protocol(&TALKS, &[&SLOW]);
    let wire = Arc::clone(&protocol.ends.wire);
    for room in [0, 5usize] {
        let mut node = Node::new(5);
        node.set_lanes(
            Lanes::new(
                LanesConfig::default(),
                &[Arc::clone(&protocol)],
                Rng::new(1),
            )
            .unwrap(),
        );
        let mut world = World::new(ME);
        world.confine(B, room);
        let p = laned::packet(&*wire, (at(A, 1), at(B, 7)), 1, 100);
        comes(&mut node, &mut world, p);
        for _ in 0..3 {
            world.now += Span(1000);
            node.handle_timeout(&mut world);
            while node.transmit(&mut world) {}
        }
        let before = world.sent.len();
        // An acknowledgement passes the other way, and the lane wants to speak 500 ns later.
        let p = laned::packet(&*wire, (at(B, 7), at(A, 1)), 1, 0);
        comes(&mut node, &mut world, p);
        let at = node.poll_timeout(&mut world);
        assert_eq!(at, world.now + Span(500), "{room} {before}");
        world.now += Span(500);
        node.handle_timeout(&mut world);
        while node.transmit(&mut world) {}
        assert_eq!(world.sent.len(), if room == 0 { 1 } else { before + 2 });
    }
}
