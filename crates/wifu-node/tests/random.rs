//! Random orders over the second substrate.
mod world;
use core::net::{Ipv4Addr, SocketAddrV4};
use std::sync::{Arc, Mutex};
use wifu_core::{
    Chain, Full, Handler, Hook, Hooks, HopCx, LinkTo, Packet, Seat, TxStatus, Verdict,
};
use wifu_engine::board::ConnFacts;
use wifu_engine::component::Cx;
use wifu_engine::{
    Admit, Board, Component, Descriptor, Facts, Kind, Library, Out, Payload, Role, Segment, Signal,
    Ticket, Want, WordSpec,
};
use wifu_node::{Lanes, LanesConfig, Node, Registry, Scheduler, Ways};
use wifu_wire::{Class, FrameFacts, Head, IpInfo, Pseudo, Rng, Seq, Span, Time, Word, ipv4};
use world::World;

/// Where packets met a handler.
type Log = Arc<Mutex<Vec<(Hook, u64)>>>;

const MARK: WordSpec = WordSpec::new("mark", 8).by_hops();
const SAYS: WordSpec = WordSpec::new("says", 1).marking(Class::Hop);
static QUEUE: Descriptor = Descriptor {
    name: "queue",
    role: Role::Reliable,
    doc: "x.",
    words: &[MARK, SAYS],
    writes: Facts::TX.with(Facts::CONN),
    hears: &[
        ("segment", &[]),
        ("wrote", &["opened"]),
        ("returned", &[]),
        ("route", &[]),
        ("status", &[]),
    ],
    offers: &[Kind::Urgent, Kind::New],
    needs: &[("store", &["packets"])],
    hooks: &["segment"],
    build: |p| {
        Ok(Box::new(Queue {
            mark: p.word("mark"),
            says: p.word("says"),
            kept: Vec::new(),
            owes: 0,
        }))
    },
    ..Descriptor::EMPTY
};
struct Queue {
    mark: Word,
    says: Word,
    kept: Vec<Ticket>,
    owes: u32,
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
static END: Descriptor = Descriptor {
    name: "end",
    role: Role::Reliable,
    doc: "x.",
    offers: &[Kind::New],
    build: |_| Ok(Box::new(End)),
    ..Descriptor::EMPTY
};
struct End;
impl Component for End {
    fn offer(&self, _: Kind, _: &Board, _: Time) -> Option<Want> {
        None
    }
}

/// Holds, keeps copies, changes, sends at random.
struct Wild {
    held: Vec<u64>,
    copies: Vec<u64>,
    log: Log,
    on: bool,
}
impl Handler for Wild {
    fn on_packet(&mut self, hook: Hook, p: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        self.log.lock().unwrap().push((hook, p.ticket));
        if !self.on {
            return Verdict::Accept;
        }
        if cx.rng.below(6) == 0
            && let Some(c) = p.copy()
        {
            self.copies.push(c);
        }
        if cx.rng.below(8) == 0 && !self.copies.is_empty() {
            let t = self.copies.swap_remove(0);
            match cx.rng.below(3) {
                0 => cx.drop_kept(t),
                1 => {
                    cx.send_kept(t, true, LinkTo::All);
                    self.copies.push(t);
                }
                _ => {
                    cx.send_kept(t, false, LinkTo::Route);
                }
            }
        }
        if cx.rng.below(8) == 0 && !self.held.is_empty() {
            let t = self.held.swap_remove(0);
            let v = if cx.rng.below(4) == 0 {
                Verdict::Drop("wild")
            } else {
                Verdict::Accept
            };
            cx.release(t, v);
        }
        if cx.rng.below(10) == 0 {
            cx.send(p.octets(), LinkTo::Route);
        }
        if cx.rng.below(10) == 0 {
            p.octets_mut()[1] ^= 4;
        }
        if hook != Hook::Overheard && cx.rng.below(5) == 0 {
            self.held.push(p.ticket);
            let at = cx.now + Span(cx.rng.below(5));
            cx.arm(0, at);
            return Verdict::Hold;
        }
        if cx.rng.below(15) == 0 {
            return Verdict::Drop("wild");
        }
        Verdict::Accept
    }
    fn on_timer(&mut self, _: u8, cx: &mut HopCx<'_>) {
        for t in self.held.drain(..) {
            cx.release(t, Verdict::Accept);
        }
        for t in self.copies.drain(..) {
            cx.drop_kept(t);
        }
    }
}
const ME: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 5);
const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
const C: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 8);
const TEXT: &str = "[protocol.laned]\nnumber = 250\nwire = \"shim\"\nstore = \"octets\"\nreliable = \"end\"\n[lane.laned]\nset = { packets = 4 }\nreliable = \"queue\"\n";

fn packet(
    wire: &dyn wifu_wire::Wire,
    a: SocketAddrV4,
    b: SocketAddrV4,
    number: u32,
    payload: usize,
) -> Vec<u8> {
    let (src, dst) = (*a.ip(), *b.ip());
    let mut head = Head::default();
    (head.sport, head.dport, head.seq) = (a.port(), b.port(), Seq(number));
    let mut bytes = vec![0; 200 + payload];
    let header = wire.emit(&head, &mut bytes[ipv4::HEADER..]);
    bytes.truncate(ipv4::HEADER + header + payload);
    let (proto, ttl) = (250, 60);
    let pseudo = Pseudo { src, dst, proto };
    wire.seal(&pseudo, &mut bytes[ipv4::HEADER..]);
    ipv4::emit(
        &IpInfo {
            src,
            dst,
            proto,
            ttl,
        },
        header + payload,
        &mut bytes,
    );
    bytes
}

fn node(seed: u64, chain: bool, scheduler: Scheduler) -> (Node, Arc<dyn wifu_wire::Wire>, Log) {
    let parts = wifu_engine::Registry::new(&[&QUEUE, &END]);
    let registry = Registry::new(parts, Library::parse(TEXT).unwrap());
    let protocol = registry.resolve("laned").unwrap_or_else(|e| panic!("{e}"));
    let wire = Arc::clone(&protocol.ends.wire);
    let config = LanesConfig {
        most: 3,
        idle: Span(3000),
        scheduler,
        ..LanesConfig::default()
    };
    let lanes = Lanes::new(config, &[protocol], Rng::new(seed)).unwrap();
    let mut node = Node::new(5);
    let log = Arc::default();
    if chain {
        let mut chain = Chain::new();
        let seat = Seat {
            most: 6,
            full: Full::Closed,
            ..Seat::new("wild", Hooks::ALL, Rng::new(seed))
        };
        chain.push(
            seat,
            Box::new(Wild {
                held: vec![],
                copies: vec![],
                log: Arc::clone(&log),
                on: true,
            }),
        );
        node.set_chain(chain);
    }
    node.set_lanes(lanes);
    (node, wire, log)
}

#[test]
fn random_orders_leak_nothing() {
    for seed in 0..400u64 {
        let scheduler = [
            Scheduler::DeficitRoundRobin,
            Scheduler::Fifo,
            Scheduler::Strict,
        ][(seed % 3) as usize];
        let (mut node, wire, _log) = node(seed, seed % 2 == 0, scheduler);
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
                    let p = packet(
                        &*wire,
                        SocketAddrV4::new(A, flow),
                        SocketAddrV4::new(to, 7),
                        number,
                        rng.below(300) as usize,
                    );
                    let t = world.insert(p, true);
                    let _ = node.arrive(&mut world, t, FrameFacts::NONE);
                }
                4 => {
                    let p = packet(
                        &*wire,
                        SocketAddrV4::new(to, 7),
                        SocketAddrV4::new(A, flow),
                        number,
                        0,
                    );
                    let t = world.insert(p, true);
                    let _ = node.arrive(&mut world, t, FrameFacts::NONE);
                }
                5 => {
                    let r = rng.below(4) as u32;
                    world.rooms.insert(to, r);
                    while node.transmit(&mut world) {}
                }
                6 => {
                    let p = packet(
                        &*wire,
                        SocketAddrV4::new(A, flow),
                        SocketAddrV4::new(to, 7),
                        number,
                        50,
                    );
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
                        world.lose(t, wifu_node::Lost::Link);
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
        // Copies that the handler keeps may remain without a timer of their own.
        let kept = node.counters().count();
        let left = world.packets();
        assert!(
            left == 0 || (seed % 2 == 0 && left <= 6),
            "seed {seed}: {left} left {kept}"
        );
        assert_eq!(node.lanes().unwrap().all().count(), 0);
    }
}

#[test]
fn who_follows_the_contract_sends_what_a_report_asks_for() {
    let (mut node, wire, _) = node(1, false, Scheduler::DeficitRoundRobin);
    let mut world = World::new(ME);
    let p = packet(
        &*wire,
        SocketAddrV4::new(A, 1),
        SocketAddrV4::new(B, 7),
        1,
        100,
    );
    let t = world.insert(p, true);
    let _ = node.arrive(&mut world, t, FrameFacts::NONE);
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
    doc: "x.",
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
    build: |p| {
        Ok(Box::new(Talks(Queue {
            mark: p.word("mark"),
            says: p.word("says"),
            kept: Vec::new(),
            owes: 0,
        })))
    },
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
    let parts = wifu_engine::Registry::new(&[&TALKS, &END, &SLOW]);
    let text = TEXT.replace("\"queue\"", "\"talks\"\ngates = [\"slow\"]");
    let registry = Registry::new(parts, Library::parse(&text).unwrap());
    let protocol = registry.resolve("laned").unwrap_or_else(|e| panic!("{e}"));
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
        let p = packet(
            &*wire,
            SocketAddrV4::new(A, 1),
            SocketAddrV4::new(B, 7),
            1,
            100,
        );
        let t = world.insert(p, true);
        let _ = node.arrive(&mut world, t, FrameFacts::NONE);
        for _ in 0..3 {
            world.now += Span(1000);
            node.handle_timeout(&mut world);
            while node.transmit(&mut world) {}
        }
        let before = world.sent.len();
        // An acknowledgement passes the other way, and the lane wants to speak 500 ns later.
        let p = packet(
            &*wire,
            SocketAddrV4::new(B, 7),
            SocketAddrV4::new(A, 1),
            1,
            0,
        );
        let t = world.insert(p, true);
        let _ = node.arrive(&mut world, t, FrameFacts::NONE);
        let at = node.poll_timeout(&mut world);
        assert_eq!(at, world.now + Span(500), "{room} {before}");
        world.now += Span(500);
        node.handle_timeout(&mut world);
        while node.transmit(&mut world) {}
        assert_eq!(world.sent.len(), if room == 0 { 1 } else { before + 2 });
    }
}
