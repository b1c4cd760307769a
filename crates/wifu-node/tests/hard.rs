//! Transfers over a line of nodes in hard worlds: lanes at all of them, handlers that do everything
//! at the relays, radios that others overhear, wires, devices that fill, refuse and lose.

mod laned;
mod world;

use core::net::{Ipv4Addr, SocketAddrV4};
use std::collections::BTreeMap;
use std::sync::Arc;
use wifu_core::ip;
use wifu_engine::component::Cx;
use wifu_engine::{
    Admit, Blueprint, Board, Component, ConnId, Descriptor, Endpoint, EndpointConfig, Event, Kind,
    Out, Params, Payload, Segment, Signal, Ticket, Want, WordSpec,
};
use wifu_node::{Lanes, LanesConfig, Node, Scheduler, Ways};
use wifu_testkit::wild::Odds;
use wifu_wire::{Class, FrameFacts, LinkTo, Neighbour, Rng, Seq, Span, Time, Word};
use world::{Device, Faults, Left, Link, Way, World};

/// Keeps a packet until the driver reports it or the next hop is heard repeating it, and sends it
/// again if it was not delivered.
static KEEPS: Descriptor = Descriptor {
    name: "keeps",
    doc: "Keeps one packet until it is known to have arrived.",
    words: &[
        laned::MARK,
        laned::SAYS,
        WordSpec::transmitter("transmitter"),
    ],
    offers: &[Kind::New],
    hooks: &["segment", "overheard"],
    build: |p| Ok(Box::new(Keeps::new(p))),
    ..laned::QUEUE
};

struct Keeps {
    mark: Word,
    kept: Option<(Ticket, Seq)>,
    /// When it is sent again.
    again: bool,
    tries: u32,
}

impl Keeps {
    fn new(p: &Params<'_>) -> Keeps {
        Keeps {
            mark: p.word("mark"),
            kept: None,
            again: false,
            tries: 0,
        }
    }

    fn arrived(&mut self, cx: &mut Cx<'_>) {
        if let Some((ticket, _)) = self.kept.take() {
            cx.out.release(ticket);
        }
        self.again = false;
    }

    fn missed(&mut self, cx: &mut Cx<'_>) {
        self.tries += 1;
        self.again = self.tries < 3;
        if !self.again {
            self.arrived(cx);
        }
    }

    fn is(&self, number: Seq) -> bool {
        self.kept.is_some_and(|k| k.1 == number)
    }
}

impl Component for Keeps {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        if !seg.frame.along {
            self.arrived(cx);
        }
        Admit::Pass
    }

    fn on_overheard(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        if seg.frame.along && self.is(seg.head.seq) {
            self.arrived(cx);
        }
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        match signal {
            Signal::Status(s) if s.class == Class::Data && self.is(s.number) => match s.delivered {
                true => self.arrived(cx),
                false => self.missed(cx),
            },
            Signal::Returned(number) if self.is(*number) => self.missed(cx),
            _ => laned::open(cx),
        }
    }

    fn offer(&self, kind: Kind, board: &Board, _: Time) -> Option<Want> {
        let (bytes, least) = (1, 1);
        let any = self.again || board.app.queued > 0;
        any.then_some(Want { kind, bytes, least })
    }

    fn fill(&mut self, _: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let (ticket, number, keep) = match self.kept.filter(|_| self.again) {
            Some((ticket, number)) => (ticket, number, true),
            None => {
                let Some((ticket, number)) = cx.store.pop() else {
                    return;
                };
                let keep = self.kept.is_none();
                if keep {
                    self.kept = Some((ticket, number));
                    self.tries = 0;
                }
                (ticket, number, keep)
            }
        };
        self.again = false;
        out.head.seq = number;
        out.head.set(self.mark, 9);
        out.payload = Payload::Packet { ticket, keep };
    }
}

/// What handlers of relays do.
const ODDS: Odds = Odds {
    copies: 30,
    uses: 20,
    holds: 20,
    releases: 8,
    sends: 50,
    changes: 10,
    grows: 300,
    drops: 100,
    most: 8,
    patience: Span(5_000_000),
    memory: Span(50_000_000),
};

/// One direction of a connection.
#[derive(Default)]
struct Stream {
    data: Vec<u8>,
    written: usize,
    got: Vec<u8>,
}

/// A node, its world, and the connection of its application.
struct Host {
    node: Node,
    world: World,
    conn: Option<ConnId>,
}

/// Nodes in a line; the first and the last have ends, one connection, and send both ways.
struct Net {
    hosts: Vec<Host>,
    /// From the first, and from the last.
    streams: [Stream; 2],
    now: Time,
}

const NODES: u8 = 4;
const PORT: u16 = 80;

fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, host as u8 + 1)
}

fn number(address: Ipv4Addr) -> usize {
    let [.., last] = address.octets();
    usize::from(last) - 1
}

impl Net {
    fn new(seed: u64) -> Net {
        let protocol = laned::tcp(&KEEPS);
        let mut rng = Rng::new(seed);
        let mut hosts = Vec::new();
        for i in 0..usize::from(NODES) {
            let config = LanesConfig {
                scheduler: Scheduler::ALL[seed as usize % 3].1,
                ..LanesConfig::default()
            };
            let lanes = Lanes::new(config, &[Arc::clone(&protocol)], rng.split_n(i as u64));
            let mut node = Node::new(i as u16 + 1);
            node.set_lanes(lanes.expect("the protocol has one"));
            let is_end = i == 0 || i + 1 == usize::from(NODES);
            if is_end {
                node.set_end(Endpoint::new(EndpointConfig {
                    seed: seed + i as u64,
                    node: i as u32,
                    lanes: true,
                    ..EndpointConfig::default()
                }));
            } else if seed.is_multiple_of(2) {
                let rng = rng.split_n(100 + i as u64);
                node.set_chain(laned::wild(ODDS, 12, rng));
            }
            let world = world(seed, i, &mut rng);
            let conn = None;
            hosts.push(Host { node, world, conn });
        }
        let data = |n: u32| (0..30_000 + n).map(|i| (i * n % 251) as u8).collect();
        let streams = [3, 7].map(|n| Stream {
            data: data(n),
            ..Stream::default()
        });
        let mut net = Net {
            hosts,
            streams,
            now: Time(1_000),
        };
        net.connect(&protocol.ends);
        net
    }

    fn connect(&mut self, blueprint: &Arc<Blueprint>) {
        let last = self.hosts.len() - 1;
        for (from, to) in [(0, last), (last, 0)] {
            let Host { node, world, .. } = &mut self.hosts[from];
            let route = world.route(address(to)).expect("there is one");
            let end = node.end_mut().expect("an end");
            end.set_route(self.now, address(to), route);
        }
        let to = SocketAddrV4::new(address(last), PORT);
        let end = self.hosts[last].node.end_mut().expect("an end");
        end.listen(blueprint, to, 4).expect("nobody listens");
        let end = self.hosts[0].node.end_mut().expect("an end");
        let from = SocketAddrV4::new(address(0), 0);
        let id = end.connect(self.now, blueprint, from, to);
        self.hosts[0].conn = Some(id.expect("there is room"));
        self.settle(0);
    }

    /// The application acts and the node sends until neither has anything left to do.
    fn settle(&mut self, at: usize) {
        let mut busy = true;
        while busy {
            busy = self.act(at);
            let Host { node, world, .. } = &mut self.hosts[at];
            busy |= node.transmit(world);
        }
        let Host { node, world, .. } = &mut self.hosts[at];
        world.check_rest(node);
        world.check_books();
    }

    /// True if there was news for the application.
    fn act(&mut self, at: usize) -> bool {
        let now = self.now;
        let (mine, theirs) = if at == 0 { (0, 1) } else { (1, 0) };
        let Host { node, conn, .. } = &mut self.hosts[at];
        let Some(end) = node.end_mut() else {
            return false;
        };
        let mut any = false;
        while let Some((id, event)) = end.poll_event() {
            any = true;
            conn.get_or_insert(id);
            if event == Event::Readable {
                let mut part = [0; 4_096];
                loop {
                    let n = end.read(now, id, &mut part);
                    if n == 0 {
                        break;
                    }
                    self.streams[theirs].got.extend_from_slice(&part[..n]);
                }
            }
            assert!(!matches!(event, Event::Closed(Some(_))), "{event:?}");
        }
        if let Some(id) = *conn {
            let stream = &mut self.streams[mine];
            let n = end.write(now, id, &stream.data[stream.written..]);
            stream.written += n;
            any |= n > 0;
        }
        any
    }

    /// Time goes on to the next thing that happens anywhere; false if there is none.
    fn step(&mut self) -> bool {
        let next = |h: &mut Host| h.node.poll_timeout(&mut h.world).min(h.world.next());
        let at = self.hosts.iter_mut().map(next).min();
        let at = at.unwrap_or(Time::NEVER);
        if at == Time::NEVER {
            return false;
        }
        self.now = self.now.max(at);
        for i in 0..self.hosts.len() {
            let Host { node, world, .. } = &mut self.hosts[i];
            let left = world.pass(node, self.now);
            self.settle(i);
            for left in left {
                self.carry(i, left);
            }
        }
        true
    }

    /// What has left a node comes to its neighbours.
    fn carry(&mut self, from: usize, left: Left) {
        let dst = number(ip::addresses(&left.bytes).1);
        let to = match left.to {
            LinkTo::All => None,
            LinkTo::Neighbour(n) => Some(usize::from(n.address[5]) - 1),
            LinkTo::Route if dst > from => Some(from + 1),
            LinkTo::Route => Some(from - 1),
        };
        let radio = self.hosts[from].world.devices[left.device].kind == Link::Radio;
        for near in [from.wrapping_sub(1), from + 1] {
            let Some(Host { node, world, .. }) = self.hosts.get_mut(near) else {
                continue;
            };
            world.now = world.now.max(self.now);
            let device = if near < from { 2 } else { 1 };
            let facts = FrameFacts {
                transmitter: Neighbour::new(
                    device.min(world.devices.len() as u16),
                    [2, 0, 0, 0, 0, from as u8 + 1],
                ),
                ..FrameFacts::NONE
            };
            let bytes = left.bytes.clone();
            match to {
                Some(to) if to == near => {
                    let packet = world.insert(bytes, true);
                    node.arrive(world, packet, facts);
                }
                Some(_) if radio && node.mask().listens() => {
                    let shown = world.show(bytes);
                    node.overhear(world, shown, facts);
                    world.take_back(shown);
                }
                Some(_) => continue,
                None => {
                    let packet = world.hear(bytes);
                    node.arrive(world, packet, facts);
                }
            }
            if node.is_stirred() {
                self.settle(near);
            }
        }
    }

    /// Everything has arrived: the connection is closed.
    fn close(&mut self) {
        for i in [0, self.hosts.len() - 1] {
            let now = self.now;
            let Host { node, conn, .. } = &mut self.hosts[i];
            if let (Some(end), Some(id)) = (node.end_mut(), *conn) {
                end.close(now, id);
            }
            self.hosts[i].conn = None;
            self.settle(i);
        }
    }

    fn is_whole(&self) -> bool {
        self.streams.iter().all(|s| s.got.len() == s.data.len())
    }
}

/// One radio for both ways, or a device for each, the first one for the way to the left.
fn world(seed: u64, at: usize, rng: &mut Rng) -> World {
    let takes = |rng: &mut Rng| Span(300_000 + rng.below(500_000));
    let devices = match seed % 3 {
        0 => vec![Device::new(Link::Radio, 3, takes(rng))],
        1 => vec![
            Device::new(Link::Wire, 2, takes(rng)),
            Device::new(Link::Wire, 2, takes(rng)),
        ],
        _ => vec![
            Device::new(Link::Radio, 2, takes(rng)),
            Device::new(Link::Wire, 3, takes(rng)),
        ],
    };
    let faults = Faults {
        busy: 50,
        wire: 100,
        link: 100,
        air: 30,
        later: 3,
    };
    let mut ways = BTreeMap::new();
    for to in (0..usize::from(NODES)).filter(|to| *to != at) {
        let (next, device) = if to > at { (at + 1, 1) } else { (at - 1, 0) };
        let way = Way {
            hops: at.abs_diff(to) as u8,
            ..Way::new(device.min(devices.len() - 1), address(next))
        };
        ways.insert(address(to), Some(way));
    }
    let mut world = World::hard(address(at), seed + at as u64, devices, faults);
    world.ways = ways;
    world
}

#[test]
fn transfers_arrive_whole_and_leave_nothing_behind() {
    let mut answers: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut returned, mut copies) = (0, 0);
    for seed in 0..60 {
        let mut net = Net::new(seed);
        let mut steps = 0;
        while !net.is_whole() {
            assert!(net.step() && steps < 1_000_000, "seed {seed}: it hangs");
            steps += 1;
        }
        for stream in &net.streams {
            assert!(stream.got == stream.data, "seed {seed}: bytes changed");
        }
        net.close();
        while net.step() {}
        for Host { node, world, .. } in &net.hosts {
            let lanes = node.lanes().expect("it has some");
            assert_eq!(
                (world.packets(), lanes.all().count()),
                (0, 0),
                "seed {seed}"
            );
            // A lane lets nothing go that has not left, but for what it keeps another one of;
            // handlers may hold that until it is nobody's.
            let (freed, twins) = (world.books.freed, world.books.twins);
            assert!(freed <= twins, "seed {seed}: {freed} of {twins}");
            assert!(freed == twins || node.counters().count() > 0, "seed {seed}");
            returned += lanes.counters().returned;
            copies += lanes.counters().kept;
            for (answer, count) in &*world.answers.borrow() {
                *answers.entry(answer).or_default() += count;
            }
        }
    }
    // What only a node with an end asks for.
    for answer in [
        "emit: some",
        "tell_room: some, or it will say so",
        "tell_room: then",
        "relay: later",
        "bound: heard",
        "send: full",
        "send: busy",
    ] {
        assert!(answers.contains_key(answer), "never: {answer}; {answers:?}");
    }
    assert!(returned > 100 && copies > 100, "{returned}, {copies}");
}
