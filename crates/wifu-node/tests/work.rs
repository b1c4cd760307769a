//! A host that takes its time over packets of its end: one at a time, what comes meanwhile waits,
//! and what waits has a limit.

mod world;

use core::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use wifu_engine::{ConnId, Endpoint, EndpointConfig, Event};
use wifu_node::{HostCost, HostCounters, Lost, Node};
use wifu_wire::{Ecn, FrameFacts, IpInfo, Span, Time, ipv4};
use world::{UDP, World};

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);

fn host(me: Ipv4Addr, cost: Option<HostCost>) -> (Node, World) {
    let mut node = Node::new(u16::from(me.octets()[3]));
    let config = EndpointConfig {
        node: u32::from(me.octets()[3]),
        ..EndpointConfig::default()
    };
    node.set_end(Endpoint::new(config));
    if let Some(cost) = cost {
        node.set_cost(cost);
    }
    (node, World::new(me))
}

/// A packet of so many bytes in all.
fn packet(dst: Ipv4Addr, proto: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let ip = IpInfo {
        src: A,
        dst,
        proto,
        ttl: 9,
        ecn: Ecn::NotEct,
    };
    ipv4::emit(&ip, len - ipv4::HEADER, &mut bytes);
    bytes
}

/// Two hosts that hear each other at once.
struct Pair {
    hosts: [(Node, World); 2],
    /// When each sent a packet, and how long it was.
    left: [Vec<(Time, usize)>; 2],
    got: Vec<u8>,
}

impl Pair {
    fn new(costs: [Option<HostCost>; 2]) -> Pair {
        Pair {
            hosts: [host(A, costs[0]), host(B, costs[1])],
            left: [Vec::new(), Vec::new()],
            got: Vec::new(),
        }
    }

    fn next(&mut self) -> Time {
        let next = |(node, world): &mut (Node, World)| node.poll_timeout(world);
        self.hosts.iter_mut().map(next).min().expect("two")
    }

    /// What is due at `now`, at both.
    fn step(&mut self, now: Time) {
        for i in 0..2 {
            let (node, world) = &mut self.hosts[i];
            world.now = now;
            if node.poll_timeout(world) <= now {
                node.handle_timeout(world);
            }
            while node.transmit(world) {}
            while let Some((_, bytes)) = self.hosts[i].1.sent.pop_front() {
                self.left[i].push((now, bytes.len()));
                let (node, world) = &mut self.hosts[1 - i];
                world.now = now;
                let ticket = world.insert(bytes, true);
                node.arrive(world, ticket, FrameFacts::NONE);
                while node.transmit(world) {}
            }
        }
        self.read(now);
    }

    fn read(&mut self, now: Time) {
        let end = self.hosts[1].0.end_mut().expect("an end");
        while let Some((id, event)) = end.poll_event() {
            let mut part = [0; 4_096];
            let mut read = |part: &mut [u8]| match event {
                Event::Readable => end.read(now, id, part),
                _ => 0,
            };
            let mut n = read(&mut part);
            while n > 0 {
                self.got.extend_from_slice(&part[..n]);
                n = read(&mut part);
            }
        }
    }

    /// So many bytes from the first to the second; when the last had come.
    fn transfer(&mut self, bytes: usize) -> Time {
        let blueprint =
            Arc::new(wifu_parts::blueprint("tcp-newreno,profile=wifu-tahoe").expect("it is known"));
        let mut now = Time(1_000);
        let receiver = self.hosts[1].0.end_mut().expect("an end");
        let to = SocketAddrV4::new(B, 80);
        receiver.listen(&blueprint, to, 4).expect("nobody listens");
        let sender = self.hosts[0].0.end_mut().expect("an end");
        let from = SocketAddrV4::new(A, 0);
        let id: ConnId = sender
            .connect(now, &blueprint, from, to)
            .expect("there is room");
        let data: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
        let mut written = 0;
        for _ in 0..100_000 {
            self.step(now);
            let sender = self.hosts[0].0.end_mut().expect("an end");
            let more = sender.write(now, id, &data[written..]);
            written += more;
            let (node, world) = &mut self.hosts[0];
            while node.transmit(world) {}
            if more > 0 {
                now += Span(1);
                continue;
            }
            if self.got.len() == bytes {
                break;
            }
            let next = self.next();
            assert!(next < Time::NEVER, "{} of {bytes} bytes", self.got.len());
            now = next.max(now + Span(1));
        }
        assert!(self.got == data, "{} of {bytes} bytes", self.got.len());
        now
    }

    fn counted(&self, i: usize) -> HostCounters {
        self.hosts[i].0.host().expect("its host takes its time")
    }
}

#[test]
fn a_sender_takes_its_time_over_each_packet_and_each_acknowledgement() {
    let mut free = Pair::new([None, None]);
    let before = free.transfer(300_000);
    let mut slow = Pair::new([Some(HostCost::PY), None]);
    let after = slow.transfer(300_000);
    assert!(
        before < Time(1_000_000),
        "nothing takes time otherwise: {before:?}"
    );
    let gaps = slow.left[0].windows(2).map(|w| w[1].0 - w[0].0);
    let least = gaps.min().expect("many packets");
    assert!(least >= HostCost::PY.tx, "{least:?} between two packets");
    let c = slow.counted(0);
    assert_eq!(c.sent, slow.left[0].len() as u64, "{c:?}");
    assert!(c.sent > 205 && c.received > 200, "{c:?}");
    // It is busy all the time: with what it sends, and with what acknowledges that.
    let busy = HostCost::PY.tx * c.sent + HostCost::PY.rx * c.received;
    assert!((c.busy_s - busy.as_secs_f64()).abs() < 1e-9, "{c:?}");
    let idle = (after - Time(1_000)).as_secs_f64() - c.busy_s;
    assert!(
        (0.0..0.003).contains(&idle),
        "idle for {idle} s of {after:?}"
    );
    assert_eq!(c.dropped, 0);
}

#[test]
fn a_receiver_reads_and_answers_in_turns_and_nothing_is_lost_in_a_window_of_64_kb() {
    let mut pair = Pair::new([None, Some(HostCost::PY)]);
    pair.transfer(300_000);
    let c = pair.counted(1);
    assert!(c.received > 205 && c.dropped == 0, "{c:?}");
    assert!(
        (30_000..=70_000).contains(&c.most_waiting),
        "a window of segments waits: {c:?}"
    );
    // An answer to each segment, for the answer to one leaves before the next is read.
    let gaps: Vec<Span> = pair.left[1].windows(2).map(|w| w[1].0 - w[0].0).collect();
    let turns = HostCost::PY.tx + HostCost::PY.rx;
    let usual = gaps.iter().filter(|g| **g == turns).count();
    assert!(usual * 10 > gaps.len() * 9, "{gaps:?}");
}

#[test]
fn what_does_not_fit_into_the_buffer_is_dropped_and_what_is_not_for_the_end_costs_nothing() {
    let (mut node, mut world) = host(B, Some(HostCost::PY));
    for _ in 0..200 {
        let ticket = world.insert(packet(B, 250, 1_500), true);
        node.arrive(&mut world, ticket, FrameFacts::NONE);
    }
    // 212,992 bytes hold 141 packets.
    assert_eq!(world.lost, vec![Lost::Host; 59]);
    let ticket = world.insert(packet(B, UDP, 1_500), true);
    node.arrive(&mut world, ticket, FrameFacts::NONE);
    assert_eq!(world.books.apps, 1, "an application has it at once");
    let ticket = world.insert(packet(FAR, 250, 1_500), true);
    node.arrive(&mut world, ticket, FrameFacts::NONE);
    assert_eq!(world.sent.len(), 1, "it goes on at once");
    while node.transmit(&mut world) {}
    let begun = world.now;
    world.pass(&mut node, begun + Span::MILLI * 30);
    let c = node.host().expect("it takes its time");
    assert_eq!((c.received, c.dropped, c.sent), (50, 59, 0), "{c:?}");
    assert_eq!(c.most_waiting, 141 * 1_500);
    world.pass(&mut node, begun + Span::SECOND);
    assert_eq!(node.host().expect("as before").received, 141);
    assert_eq!(world.packets(), 0, "no packet is forgotten");
    world.check_books();
}

#[test]
fn who_calls_late_does_not_make_the_host_slower() {
    let count = |late: Span| {
        let (mut node, mut world) = host(B, Some(HostCost::PY));
        for _ in 0..100 {
            let ticket = world.insert(packet(B, 250, 500), true);
            node.arrive(&mut world, ticket, FrameFacts::NONE);
        }
        while node.transmit(&mut world) {}
        let begun = world.now;
        while world.now < begun + Span::MILLI * 30 {
            world.now = node.poll_timeout(&mut world).max(world.now) + late;
            node.handle_timeout(&mut world);
            while node.transmit(&mut world) {}
        }
        node.host().expect("it takes its time").received
    };
    let (exact, late) = (count(Span::ZERO), count(Span(100_000)));
    assert_eq!(exact, 50);
    assert!((49..=51).contains(&late), "{late}");
}

#[test]
fn under_dilation_all_takes_longer_but_for_the_buffer() {
    let slower = HostCost::PY.slower(2.5);
    assert_eq!(
        (slower.tx, slower.rx, slower.buffer),
        (Span(3_000_000), Span(1_500_000), 212_992)
    );
}
