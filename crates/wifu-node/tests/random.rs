//! Random orders over the second substrate.

mod laned;
mod world;

use core::net::{Ipv4Addr, SocketAddrV4};
use laned::{A, B, C, ME};
use std::sync::Arc;
use wifu_core::{Chain, Full, Hooks, Seat, TxStatus};
use wifu_engine::board::ConnFacts;
use wifu_engine::component::Cx;
use wifu_engine::{
    Admit, Board, Component, Descriptor, Kind, Out, Params, Payload, Role, Segment, Signal, Ticket,
    Want,
};
use wifu_node::{Lanes, LanesConfig, Lost, Node, Scheduler, Ways};
use wifu_testkit::wild::{Odds, Wild};
use wifu_wire::{FrameFacts, Rng, Span, Time, Wire, Word};
use world::World;

/// Urges what it owes for reports; keeps what has an even number, three at most.
static QUEUE: Descriptor = Descriptor {
    doc: "Hands packets down, keeps some, and answers reports.",
    offers: &[Kind::Urgent, Kind::New],
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
    fn on_signal(&mut self, s: &Signal, cx: &mut Cx<'_>) {
        if let Signal::Status(_) = s {
            self.owes += 1;
        }
        if !cx.board.conn.running {
            cx.write(|c: &mut ConnFacts| c.running = true);
            cx.out.emit(Signal::Opened);
        }
    }
    fn offer(&self, kind: Kind, board: &Board, _: Time) -> Option<Want> {
        let any = match kind {
            Kind::Urgent => self.owes > 0,
            _ => board.app.queued > 0 && self.kept.len() < 3,
        };
        any.then_some(Want {
            kind,
            bytes: 1,
            least: 1,
        })
    }
    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        if want.kind == Kind::Urgent {
            self.owes -= 1;
            out.head.set(self.says, 1);
            return;
        }
        if let Some((ticket, number)) = cx.store.pop() {
            let keep = number.0 % 2 == 0;
            if keep {
                self.kept.push(ticket);
            }
            out.head.seq = number;
            out.head.set(self.mark, 9);
            out.payload = Payload::Packet { ticket, keep };
        }
    }
}
/// What the handler does, in times of a few nanoseconds.
const ODDS: Odds = Odds {
    copies: 6,
    uses: 8,
    holds: 5,
    releases: 8,
    sends: 10,
    changes: 10,
    drops: 15,
    most: 8,
    patience: Span(5),
    memory: Span(50),
    ..Odds::NEVER
};

/// A node with lanes, and every other one with a handler.
fn node(seed: u64, chain: bool, scheduler: Scheduler) -> (Node, Arc<dyn Wire>) {
    let protocol = laned::protocol(&QUEUE, &[]);
    let wire = Arc::clone(&protocol.ends.wire);
    let config = LanesConfig {
        most: 3,
        idle: Span(3000),
        scheduler,
        ..LanesConfig::default()
    };
    let lanes = Lanes::new(config, &[protocol], Rng::new(seed));
    let mut node = Node::new(5);
    if chain {
        let mut chain = Chain::new();
        let seat = Seat {
            most: 6,
            full: Full::Closed,
            ..Seat::new("wild", Hooks::ALL, Rng::new(seed))
        };
        chain.push(seat, Box::new(Wild::new(ODDS)));
        node.set_chain(chain);
    }
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

#[test]
fn random_orders_leak_nothing() {
    for seed in 0..400u64 {
        let scheduler = [
            Scheduler::DeficitRoundRobin,
            Scheduler::Fifo,
            Scheduler::Strict,
        ][(seed % 3) as usize];
        let (mut node, wire) = node(seed, seed % 2 == 0, scheduler);
        let mut world = World::new(ME);
        let mut rng = Rng::new(seed + 1000);
        let mut number = 0;
        for _ in 0..600 {
            world.now += Span(rng.below(8));
            if node.poll_timeout(&mut world) <= world.now {
                node.handle_timeout(&mut world);
                while node.transmit(&mut world) {}
            }
            let flow = rng.below(4) as u16 + 1;
            let to = [B, C, ME][rng.below(3) as usize];
            number += 1;
            match rng.below(8) {
                0..=3 => {
                    let p = laned::packet(
                        &*wire,
                        (at(A, flow), at(to, 7)),
                        number,
                        rng.below(300) as usize,
                    );
                    comes(&mut node, &mut world, p);
                }
                4 => {
                    let p = laned::packet(&*wire, (at(to, 7), at(A, flow)), number, 0);
                    comes(&mut node, &mut world, p);
                }
                5 => {
                    let r = rng.below(4) as u32;
                    world.rooms.insert(to, r);
                    while node.transmit(&mut world) {}
                }
                6 => {
                    let p = laned::packet(&*wire, (at(A, flow), at(to, 7)), number, 50);
                    let t = world.insert(p, true);
                    node.overhear(&mut world, t, FrameFacts::NONE);
                    world.free(t);
                    world.lost.pop();
                }
                _ => {
                    if let Some((_, bytes)) = world.sent.back().cloned() {
                        let t = world.insert(bytes, false);
                        let s = TxStatus {
                            ticket: u64::from(t.0),
                            delivered: rng.below(2) == 0,
                            attempts: 1,
                            airtime: None,
                            delay: Span(5),
                        };
                        node.report(&mut world, t, &s);
                        world.lose(t, Lost::Link);
                        world.lost.pop();
                        while node.transmit(&mut world) {}
                    }
                }
            }
        }
        // Everything runs dry.
        world.rooms.clear();
        let mut steps = 0;
        loop {
            while node.transmit(&mut world) {}
            let at = node.poll_timeout(&mut world);
            if at == Time::NEVER {
                break;
            }
            world.now = world.now.max(at);
            node.handle_timeout(&mut world);
            steps += 1;
            assert!(
                steps < 10_000,
                "seed {seed}: it never rests, at {at:?} now {:?}",
                world.now
            );
        }
        assert_eq!(world.packets(), 0, "seed {seed}: something is left");
        assert_eq!(node.lanes().unwrap().all().count(), 0);
    }
}

#[test]
fn who_follows_the_contract_sends_what_a_report_asks_for() {
    let (mut node, wire) = node(1, false, Scheduler::DeficitRoundRobin);
    let mut world = World::new(ME);
    let p = laned::packet(&*wire, (at(A, 1), at(B, 7)), 1, 100);
    comes(&mut node, &mut world, p);
    let (_, bytes) = world.sent.pop_back().unwrap();
    let t = world.insert(bytes, false);
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
        self.0.owes = 1;
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
    for room in [0, 5] {
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
        world.rooms.insert(B, room);
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
