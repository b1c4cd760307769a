//! A node over a substrate of nothing but bytes: the way of a packet from hook to hook, what
//! handlers ask for, and a transfer between two ends over a relay.

mod world;

use core::net::{Ipv4Addr, SocketAddrV4};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use wifu_core::{Chain, Handler, Hook, Hooks, HopCx, LinkTo, Packet, Seat, Verdict, ip};
use wifu_engine::{Endpoint, EndpointConfig, Event};
use wifu_node::{Lost, Mask, Node, Reader};
use wifu_wire::{Ecn, FrameFacts, IpInfo, Notes, Rng, Span, Time, ipv4};
use world::World;

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const HERE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);

/// What a packet's first payload byte asks of the handler.
mod ask {
    pub const NOTHING: u8 = 0;
    pub const DROP: u8 = 1;
    pub const HOLD: u8 = 2;
    pub const KEEP: u8 = 3;
    pub const GROW: u8 = 4;
    pub const ANSWER: u8 = 5;
}

type Log = Arc<Mutex<Vec<(Hook, Option<i8>, Option<u32>)>>>;

/// Does what packets ask for, and notes at which hooks it saw them, how they came and what was
/// noted on them before.
struct Obeys {
    log: Log,
    note: wifu_wire::Note,
    holds: VecDeque<u64>,
    keeps: Option<u64>,
}

impl Handler for Obeys {
    fn on_packet(&mut self, hook: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        let before = packet.notes.get(self.note);
        let seen = (hook, packet.rssi_dbm, before);
        self.log.lock().expect("one thread").push(seen);
        packet.notes.set(self.note, before.unwrap_or(0) + 1);
        if hook != Hook::Forward {
            return Verdict::Accept;
        }
        match packet.octets().get(ipv4::HEADER) {
            Some(&ask::DROP) => return Verdict::Drop("as asked"),
            Some(&ask::HOLD) => {
                self.holds.push_back(packet.ticket);
                cx.arm(0, cx.now + Span::MILLI);
                return Verdict::Hold;
            }
            Some(&ask::KEEP) => {
                self.keeps = packet.copy();
                cx.arm(1, cx.now + Span::MILLI);
            }
            Some(&ask::GROW) => packet.replace(&[0x45; 1_600]),
            Some(&ask::ANSWER) => {
                cx.log("answered".into());
                cx.send(&bytes(HERE, A, 9, &[ask::NOTHING]), LinkTo::All);
            }
            _ => {}
        }
        Verdict::Accept
    }

    fn on_timer(&mut self, timer: u8, cx: &mut HopCx<'_>) {
        match (timer, self.keeps.take()) {
            (1, Some(copy)) => cx.send_kept(copy, false, LinkTo::Route),
            _ => self
                .holds
                .drain(..)
                .for_each(|ticket| cx.release(ticket, Verdict::Accept)),
        }
    }
}

fn bytes(src: Ipv4Addr, dst: Ipv4Addr, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ipv4::HEADER + payload.len()];
    bytes[ipv4::HEADER..].copy_from_slice(payload);
    let proto = 250;
    let ip = IpInfo {
        src,
        dst,
        proto,
        ttl,
        ecn: Ecn::NotEct,
    };
    ipv4::emit(&ip, payload.len(), &mut bytes);
    bytes
}

const RADIO: FrameFacts = FrameFacts {
    rssi_dbm: Some(-60),
    ..FrameFacts::NONE
};

struct Rig {
    node: Node,
    world: World,
    log: Log,
}

impl Rig {
    fn new(hooks: Hooks) -> Rig {
        Rig::selecting(hooks, None)
    }

    /// The handler is for one protocol.
    fn selecting(hooks: Hooks, protocol: Option<u8>) -> Rig {
        let (mut chain, log) = (Chain::new(), Log::default());
        let handler = Obeys {
            log: Arc::clone(&log),
            note: wifu_wire::Note(0),
            holds: VecDeque::new(),
            keeps: None,
        };
        let mut seat = Seat::new("obeys", hooks, Rng::new(1));
        seat.most = 4;
        seat.select.protocol = protocol;
        chain.push(seat, Box::new(handler));
        let mut node = Node::new(2);
        node.set_chain(chain);
        let world = World::new(HERE);
        Rig { node, world, log }
    }

    /// A packet comes over the radio.
    fn comes(&mut self, src: Ipv4Addr, dst: Ipv4Addr, ttl: u8, payload: &[u8]) {
        let packet = self.world.insert(bytes(src, dst, ttl, payload), true);
        self.node.arrive(&mut self.world, packet, RADIO);
    }

    fn log(&self) -> Vec<(Hook, Option<i8>, Option<u32>)> {
        core::mem::take(&mut *self.log.lock().expect("one thread"))
    }

    /// Time goes on to when the node wants to be called.
    fn wakes(&mut self) {
        let at = self.node.poll_timeout(&mut self.world);
        assert!(at < Time::NEVER, "it waits for something");
        self.world.now = at;
        self.node.handle_timeout(&mut self.world);
    }
}

#[test]
fn a_packet_passes_the_hooks_of_its_way_with_what_is_known_of_it() {
    use Hook::*;
    let mut rig = Rig::new(Hooks::ALL);
    rig.comes(A, B, 9, &[ask::NOTHING]);
    // What handlers noted stays on it; how it came does not concern whom it goes to.
    let forward = [
        (Prerouting, Some(-60), None),
        (Forward, Some(-60), Some(1)),
        (Postrouting, None, Some(2)),
    ];
    assert_eq!(rig.log(), forward);
    let (to, sent) = rig.world.sent.pop_front().expect("it went on");
    let (ip, payload) = ipv4::parse(&sent).expect("its checksum is right");
    assert_eq!((to, ip.ttl, payload), (LinkTo::Route, 8, &[0][..]));

    rig.comes(A, HERE, 9, &[ask::NOTHING]);
    let input = [(Prerouting, Some(-60), None), (Input, Some(-60), Some(1))];
    assert_eq!(
        (rig.log(), &*rig.world.read),
        (input.into(), &[Reader::End][..])
    );

    let own = rig.world.insert(bytes(HERE, B, 64, &[0]), false);
    let mut noted = Notes::EMPTY;
    noted.set(wifu_wire::Note(0), 7);
    rig.node.originate(&mut rig.world, own, noted);
    // What this node's end noted reaches its handlers.
    let output = [(Output, None, Some(7)), (Postrouting, None, Some(8))];
    assert_eq!(rig.log(), output);

    let heard = rig.world.show(bytes(A, B, 9, &[0]));
    rig.node.overhear(&mut rig.world, heard, RADIO);
    assert_eq!(rig.log(), [(Overheard, Some(-60), None)]);
    assert_eq!(rig.world.packets(), 1, "it stays the substrate's");
}

#[test]
fn where_nothing_runs_packets_pass_without_a_look() {
    let (mut node, mut world) = (Node::new(2), World::new(HERE));
    assert!(!node.mask().any());
    let packet = world.insert(bytes(A, B, 2, &[1]), true);
    assert!(!node.arrive(&mut world, packet, RADIO));
    assert_eq!(ipv4::parse(&world.sent[0].1).expect("whole").0.ttl, 1);
    let packet = world.insert(bytes(A, B, 1, &[1]), true);
    assert!(!node.arrive(&mut world, packet, RADIO));
    assert_eq!((&*world.lost, world.sent.len()), (&[Lost::Route][..], 1));
    assert_eq!(node.poll_timeout(&mut world), Time::NEVER);
}

#[test]
fn a_hook_that_is_not_on_its_way_does_not_look_at_a_packet() {
    let mut rig = Rig::new(Hooks::of(&[Hook::Input]));
    assert!(rig.node.mask().at(Hook::Input) && !rig.node.mask().has(Mask::LANES));
    rig.comes(A, B, 9, &[ask::DROP]);
    assert_eq!((rig.log().len(), rig.world.sent.len()), (0, 1));
    assert_eq!(rig.world.looks.get(), 0);
}

/// Looks at a packet's bytes while a handler that is at these hooks and for this protocol meets it.
fn looks(hooks: &[Hook], protocol: u8) -> (usize, u64) {
    let mut rig = Rig::selecting(Hooks::of(hooks), Some(protocol));
    rig.comes(A, B, 9, &[ask::NOTHING]);
    assert_eq!(rig.world.sent.len(), 1);
    (rig.log().len(), rig.world.looks.get())
}

#[test]
fn a_packet_is_copied_once_for_all_handlers_and_for_nobody_it_is_not_for() {
    use Hook::*;
    // One look at each hook says whether it is for somebody.
    assert_eq!(looks(&[Forward], 251), (0, 1));
    assert_eq!(looks(&[Prerouting, Forward, Postrouting], 251), (0, 3));
    // One more is the copy that handlers read and write.
    assert_eq!(looks(&[Forward], 250), (1, 2));
    assert_eq!(looks(&[Prerouting, Forward, Postrouting], 250), (3, 4));
}

#[test]
fn what_was_noted_stays_on_a_packet_while_its_host_takes_time_over_it() {
    let mut rig = Rig::new(Hooks::of(&[Hook::Prerouting, Hook::Postrouting]));
    rig.world.faults.later = 1;
    rig.comes(A, B, 9, &[ask::NOTHING]);
    assert_eq!((rig.log().len(), rig.world.sent.len()), (1, 0));
    rig.world.now = rig.world.next();
    rig.world.happen(&mut rig.node);
    assert_eq!(rig.log(), [(Hook::Postrouting, None, Some(1))]);
    assert_eq!(rig.world.sent.len(), 1);
}

#[test]
fn verdicts_and_verbs_are_done() {
    let mut rig = Rig::new(Hooks::of(&[Hook::Forward]));
    rig.comes(A, B, 9, &[ask::DROP]);
    assert_eq!(
        (&*rig.world.lost, rig.world.packets()),
        (&[Lost::Hop][..], 0)
    );

    rig.comes(A, B, 9, &[ask::HOLD]);
    assert_eq!((rig.world.sent.len(), rig.world.packets()), (0, 1));
    let at = rig.world.now + Span::MILLI;
    assert_eq!(rig.node.poll_timeout(&mut rig.world), at);
    rig.wakes();
    let (_, sent) = rig.world.sent.pop_front().expect("it was let go");
    assert_eq!(ipv4::parse(&sent).expect("whole").0.ttl, 8);

    rig.comes(A, B, 9, &[ask::KEEP]);
    assert_eq!((rig.world.sent.len(), rig.world.packets()), (1, 1));
    rig.wakes();
    let [first, second] = [0, 1].map(|i| rig.world.sent[i].1.clone());
    assert_eq!(first, second, "the copy left as the packet did");
    assert_eq!(rig.world.packets(), 0, "nothing is left over");
    rig.world.sent.clear();

    rig.comes(A, B, 9, &[ask::GROW]);
    assert_eq!(rig.world.lost, [Lost::Hop, Lost::Hop], "no device takes it");

    rig.comes(A, B, 9, &[ask::ANSWER]);
    let to: Vec<LinkTo> = rig.world.sent.iter().map(|s| s.0).collect();
    assert_eq!(to, [LinkTo::All, LinkTo::Route]);
    assert_eq!(rig.world.lines, ["answered"]);
}

#[test]
fn bytes_of_any_kind_are_no_trouble() {
    let mut rig = Rig::new(Hooks::ALL);
    let whole = bytes(A, B, 9, &[ask::KEEP; 30]);
    for length in 0..whole.len() {
        for flip in 0..length.max(1) {
            let mut cut = whole[..length].to_vec();
            if let Some(byte) = cut.get_mut(flip) {
                *byte ^= 0xFF;
            }
            // What is no IPv4 packet is no node's business: substrates drop it.
            if ip::header(&cut).is_some() {
                let packet = rig.world.insert(cut, true);
                rig.node.arrive(&mut rig.world, packet, RADIO);
            }
        }
    }
}

/// Two ends and a relay between them; the relay loses every so manieth packet.
struct Chain3 {
    nodes: [(Node, World); 3],
    now: Time,
}

impl Chain3 {
    fn new() -> Chain3 {
        let nodes = [A, HERE, B].map(|me| (Node::new(u16::from(me.octets()[3])), World::new(me)));
        let mut all = Chain3 {
            nodes,
            now: Time(1_000),
        };
        for i in [0, 2] {
            let config = EndpointConfig {
                node: i as u32,
                ..EndpointConfig::default()
            };
            all.nodes[i].0.set_end(Endpoint::new(config));
        }
        all
    }

    /// What each sent comes to the next one; a millisecond goes by.
    fn step(&mut self, mut lost: impl FnMut() -> bool) {
        self.now += Span::MILLI;
        for (node, world) in &mut self.nodes {
            world.now = self.now;
            if node.poll_timeout(world) <= self.now {
                node.handle_timeout(world);
            }
            node.transmit(world);
        }
        for from in 0..3 {
            while let Some((_, bytes)) = self.nodes[from].1.sent.pop_front() {
                let dst = ipv4::parse(&bytes).expect("whole").0.dst;
                let next = match from {
                    1 if dst == A => 0,
                    1 => 2,
                    _ => 1,
                };
                if from == 1 && lost() {
                    continue;
                }
                let (node, world) = &mut self.nodes[next];
                let packet = world.insert(bytes, true);
                node.arrive(world, packet, RADIO);
                assert_eq!(node.is_stirred(), next != 1, "who has an end has news");
            }
        }
    }
}

#[test]
fn a_transfer_between_two_ends_arrives_whole_over_a_relay_that_loses() {
    let blueprint = Arc::new(wifu_parts::blueprint("tcp-newreno").expect("it is known"));
    let mut net = Chain3::new();
    let to = SocketAddrV4::new(B, 80);
    let receiver = net.nodes[2].0.end_mut().expect("an end");
    receiver.listen(&blueprint, to, 4).expect("nobody listens");
    let sender = net.nodes[0].0.end_mut().expect("an end");
    let from = SocketAddrV4::new(A, 0);
    let id = sender.connect(net.now, &blueprint, from, to);
    let id = id.expect("there is room");
    let data: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
    let (mut written, mut got, mut seen) = (0, Vec::new(), 0u32);
    for _ in 0..60_000 {
        let now = net.now;
        let sender = net.nodes[0].0.end_mut().expect("an end");
        written += sender.write(now, id, &data[written..]);
        net.step(|| {
            seen += 1;
            seen.is_multiple_of(40)
        });
        let receiver = net.nodes[2].0.end_mut().expect("an end");
        while let Some((id, event)) = receiver.poll_event() {
            let mut part = [0; 4_096];
            let mut read = |part: &mut [u8]| match event {
                Event::Readable => receiver.read(now, id, part),
                _ => 0,
            };
            let mut n = read(&mut part);
            while n > 0 {
                got.extend_from_slice(&part[..n]);
                n = read(&mut part);
            }
        }
        if got.len() == data.len() {
            break;
        }
    }
    assert!(got == data, "{} of {} bytes", got.len(), data.len());
    let packets: usize = net.nodes.iter().map(|(_, w)| w.packets()).sum();
    assert_eq!(packets, 0, "no packet is forgotten anywhere");
}

#[test]
fn annotations_fit_into_the_facts_of_a_frame() {
    assert_eq!(RADIO.notes_only().notes, Notes::EMPTY);
    assert_eq!(RADIO.notes_only().rssi_dbm, None);
}
