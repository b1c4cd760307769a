//! The live carriers, labs and cleaning on real namespaces. Everything here needs root and makes,
//! and removes, namespaces of its own.

mod common;

use common::privileged;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wifu_linux::carrier::{Carrier, is_local_address, route_to};
use wifu_linux::clean::{self, Options};
use wifu_linux::netns::{End, Lab, NETNS, Namespace, Owner, RUN, Shape};
use wifu_linux::poller::{Coalesce, Interest, Poller};
use wifu_linux::raw::RawConfig;
use wifu_linux::tun::TunConfig;
use wifu_wire::ip::{AnyIpInfo, Ecn, IpInfo, TTL};
use wifu_wire::units::{Rate, Span, Time};

const A: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
const PROTOCOL: u8 = 253;

/// Two nodes on one link.
fn pair(test: &str) -> (Lab, Namespace, Namespace) {
    let mut lab = Lab::create(&format!("t-{test}-{}", std::process::id())).expect("lab");
    let (a, b) = (lab.node("a").expect("node"), lab.node("b").expect("node"));
    let end = |node, address| End {
        node,
        device: "eth0",
        address,
    };
    lab.link(end("a", "10.78.0.1/24"), end("b", "10.78.0.2/24"), 1500)
        .expect("link");
    (lab, a, b)
}

fn raw_in(ns: &Namespace, config: &RawConfig) -> Carrier {
    ns.run(|| Carrier::raw(config)).flatten().expect("raw")
}

fn header(src: impl Into<IpAddr>, dst: impl Into<IpAddr>, proto: u8) -> AnyIpInfo {
    IpInfo {
        src: src.into(),
        dst: dst.into(),
        proto,
        ttl: TTL,
        ecn: Ecn::NotEct,
    }
}

/// Through sockets, and past the IP layer.
fn both_ways(protocols: &[u8], test: impl Fn(RawConfig)) {
    for direct in [false, true] {
        let mut config = RawConfig::new(protocols.to_vec());
        config.direct = direct;
        test(config);
    }
}

/// Make the kernel resolve the neighbour that a carrier sends to, so that a direct one can.
fn resolve(carrier: &mut Carrier, peer: &mut Carrier, ip: &AnyIpInfo) {
    for _ in 0..2 {
        send(carrier, ip, b"resolve");
        assert_eq!(collect(peer, 1).len(), 1);
        // As long as a direct carrier believes that there is no neighbour.
        std::thread::sleep(Duration::from_millis(12));
    }
}

fn send(carrier: &mut Carrier, ip: &AnyIpInfo, segment: &[u8]) {
    let slot = carrier.slot().expect("room");
    slot[..segment.len()].copy_from_slice(segment);
    carrier.commit(ip, segment.len());
    carrier.flush();
}

/// Packets as (facts, payload, whole packet), until `count` are here or two seconds passed.
fn collect(carrier: &mut Carrier, count: usize) -> Vec<(AnyIpInfo, Vec<u8>, Vec<u8>)> {
    let mut poller = Poller::new(Coalesce::OFF).expect("poller");
    carrier.attach(&poller, 0).expect("attach");
    let deadline = Poller::now() + Span::SECOND * 2;
    let (mut events, mut got) = (Vec::new(), Vec::new());
    while got.len() < count && Poller::now() < deadline {
        poller.wait(deadline, 0, &mut events).expect("wait");
        for e in events.iter().filter(|e| e.readable()) {
            carrier.mark_ready(e.token as usize);
        }
        while let Some(packets) = carrier.receive() {
            got.extend(packets.map(|p| (p.ip, p.payload.to_vec(), p.frame.to_vec())));
        }
    }
    got
}

/// A counter of a namespace, from /proc/net/snmp.
fn snmp(ns: &Namespace, layer: &str, field: &str) -> u64 {
    snmp_of(ns, "snmp", layer, field)
}

/// A counter of a namespace, from this file of /proc/net.
fn snmp_of(ns: &Namespace, file: &str, layer: &str, field: &str) -> u64 {
    let path = format!("/proc/thread-self/net/{file}");
    let read = || std::fs::read_to_string(&path).expect("counters");
    let text = ns.run(read).expect("namespace");
    let mut lines = text.lines().filter(|l| l.starts_with(layer));
    let names: Vec<&str> = lines.next().expect("names").split_whitespace().collect();
    let values: Vec<&str> = lines.next().expect("values").split_whitespace().collect();
    let at = names.iter().position(|n| *n == field).expect("field");
    values[at].parse().expect("number")
}

/// ICMP "destination unreachable" messages that a namespace has sent.
fn unreachables(ns: &Namespace) -> u64 {
    snmp(ns, "Icmp:", "OutDestUnreachs")
}

#[test]
fn raw_packets_arrive_as_the_specification_has_them() {
    if !privileged() {
        return;
    }
    both_ways(&[PROTOCOL, 254], arrive);
}

fn arrive(config: RawConfig) {
    let (_lab, a, b) = pair("raw");
    let (mut left, mut right) = (raw_in(&a, &config), raw_in(&b, &config));
    resolve(&mut left, &mut right, &header(A, B, PROTOCOL));
    let (sent_before, received_before) = (left.counters(), right.counters());
    let layer_before = snmp(&b, "Ip:", "InReceives");
    let full = vec![0xA5; 1480];
    let with = |ecn, proto| IpInfo {
        ecn,
        ..header(A, B, proto)
    };
    send(&mut left, &with(Ecn::Ect0, PROTOCOL), b"first");
    send(&mut left, &with(Ecn::Ce, 254), &full);
    let got = collect(&mut right, 2);
    assert_eq!(got.len(), 2);
    for (ip, payload, packet) in &got {
        assert_eq!((ip.src, ip.dst, ip.ttl), (A.into(), B.into(), TTL));
        let expected: &[u8] = if ip.proto == 254 { &full } else { b"first" };
        assert_eq!(payload, expected);
        let ecn = if ip.proto == 254 { Ecn::Ce } else { Ecn::Ect0 };
        assert_eq!(ip.ecn, ecn);
        // Identification 0, "don't fragment", offset 0.
        assert_eq!(packet[4..8], [0, 0, 0x40, 0]);
    }
    assert_ne!(got[0].0.proto, got[1].0.proto);
    // What the ring takes, the IP layer does not see: nothing comes twice.
    let seen = snmp(&b, "Ip:", "InReceives") - layer_before;
    assert_eq!(seen, if config.direct { 0 } else { 2 });
    let (sent, received) = (left.counters(), right.counters());
    assert_eq!(sent.sent - sent_before.sent, 2);
    assert_eq!(sent.sent_octets - sent_before.sent_octets, 25 + 1500);
    assert_eq!(received.received - received_before.received, 2);
    let octets = received.received_octets - received_before.received_octets;
    assert_eq!(octets, 25 + 1500);
    assert_eq!((received.overflowed, sent.refused, sent.kept), (0, 0, 0));
}

/// A packet that waits in the ring until somebody looks was received when it came, not then.
#[test]
fn a_ring_says_when_a_packet_came_and_the_ip_layer_does_not() {
    if !privileged() {
        return;
    }
    both_ways(&[PROTOCOL], stamps);
}

fn stamps(config: RawConfig) {
    const WAIT: Span = Span(150_000_000);
    let (_lab, a, b) = pair("stamp");
    let (mut left, mut right) = (raw_in(&a, &config), raw_in(&b, &config));
    let to_b = header(A, B, PROTOCOL);
    resolve(&mut left, &mut right, &to_b);
    let wall = || Poller::now().0 + Poller::wall_offset();
    let before = wall();
    send(&mut left, &to_b, b"early");
    let sent = wall();
    std::thread::sleep(Duration::from_nanos(WAIT.0));
    for i in 0..right.descriptors() {
        right.mark_ready(i);
    }
    let mut found = Vec::new();
    while let Some(packets) = right.receive() {
        found.extend(packets.map(|p| p.stamp));
    }
    let [stamp] = found[..] else {
        panic!("{} packets", found.len());
    };
    assert_eq!(stamp.is_some(), config.direct, "{stamp:?}");
    if let Some(at) = stamp {
        // The kernel may hand it over a little after the call that sends it.
        assert!(
            at >= before && at < sent + WAIT.0 / 2,
            "{before} {at} {sent}"
        );
    }
}

#[test]
fn no_icmp_leaves_while_the_socket_is_open() {
    if !privileged() {
        return;
    }
    both_ways(&[PROTOCOL], no_icmp);
}

fn no_icmp(config: RawConfig) {
    let (_lab, a, b) = pair("icmp");
    let mut left = raw_in(&a, &config);
    let mut right = raw_in(&b, &config);
    let before = unreachables(&b);
    send(&mut left, &header(A, B, PROTOCOL), b"welcome");
    assert_eq!(collect(&mut right, 1).len(), 1);
    assert_eq!(unreachables(&b), before);
    drop(right);
    // The kernel limits how many leave from the whole machine: others may have used them up.
    let deadline = Instant::now() + Duration::from_secs(10);
    while unreachables(&b) == before && Instant::now() < deadline {
        send(&mut left, &header(A, B, PROTOCOL), b"nobody");
        std::thread::sleep(Duration::from_millis(50));
    }
    let after = unreachables(&b);
    assert!(after > before, "the control: without it, one leaves");
}

/// Addresses of IPv6 for both nodes.
fn add_v6(a: &Namespace, b: &Namespace) -> [Ipv6Addr; 2] {
    let ends = ["fd78::1", "fd78::2"];
    for (ns, ip) in [a, b].into_iter().zip(ends) {
        let address = format!("{ip}/64");
        let mut command = ns.command("ip").expect("namespace");
        command.args(["-6", "addr", "add", &address, "dev", "eth0", "nodad"]);
        assert!(command.status().expect("ip").success());
    }
    ends.map(|ip| ip.parse().expect("address"))
}

/// A counter of the namespace's IPv6.
fn snmp6(ns: &Namespace, field: &str) -> u64 {
    let read = || std::fs::read_to_string("/proc/thread-self/net/snmp6").expect("counters");
    let text = ns.run(read).expect("namespace");
    let line = text
        .lines()
        .find(|l| l.split_whitespace().next() == Some(field));
    let value = line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok());
    value.unwrap_or_else(|| panic!("no {field}"))
}

#[test]
fn packets_of_ipv6_arrive_as_they_left_and_no_icmpv6_leaves() {
    if !privileged() {
        return;
    }
    both_ways(&[PROTOCOL, 254], v6_arrive);
}

fn v6_arrive(config: RawConfig) {
    let (_lab, a, b) = pair("raw6");
    let [from, to] = add_v6(&a, &b);
    let (mut left, mut right) = (raw_in(&a, &config), raw_in(&b, &config));
    let full = vec![0xA5; 1460];
    let sent: Vec<(AnyIpInfo, &[u8])> = vec![
        (
            IpInfo {
                ecn: Ecn::Ect0,
                ..header(from, to, PROTOCOL)
            },
            b"first",
        ),
        (header(A, B, PROTOCOL), b"between"),
        (
            IpInfo {
                ecn: Ecn::Ce,
                ttl: 9,
                ..header(from, to, 254)
            },
            &full,
        ),
    ];
    // In one flush: what is of each version goes by its socket.
    for (ip, segment) in &sent {
        left.load(ip, segment).expect("room");
    }
    left.flush();
    let mut got = collect(&mut right, 3);
    assert_eq!(got.len(), 3);
    got.sort_by_key(|(ip, payload, _)| (ip.proto, payload.len()));
    let facts: Vec<(AnyIpInfo, &[u8])> = got.iter().map(|(ip, p, _)| (*ip, &p[..])).collect();
    assert_eq!(facts, sent);
    let whole = &got[2].2;
    assert_eq!(
        (whole.len(), &whole[..8]),
        (1500, &[0x60, 0x30, 0, 0, 5, 180, 254, 9][..])
    );
    assert_eq!(left.counters().sent_octets, 45 + 27 + 1500);
    assert_eq!(right.counters().received_octets, 45 + 27 + 1500);
    // One that is too long for the link is lost alone.
    left.load(&header(from, to, PROTOCOL), &[0; 1461])
        .expect("room");
    left.load(&header(from, to, PROTOCOL), b"after")
        .expect("room");
    left.flush();
    let got = collect(&mut right, 1);
    assert_eq!(
        (got.len(), &got[0].1[..], left.counters().refused),
        (1, &b"after"[..], 1)
    );
    assert_eq!(snmp6(&b, "Icmp6OutParmProblems"), 0);
    drop(right);
    // The kernel limits how many leave.
    let deadline = Instant::now() + Duration::from_secs(10);
    while snmp6(&b, "Icmp6OutParmProblems") == 0 && Instant::now() < deadline {
        send(&mut left, &header(from, to, PROTOCOL), b"nobody");
        std::thread::sleep(Duration::from_millis(50));
    }
    let after = snmp6(&b, "Icmp6OutParmProblems");
    assert!(after > 0, "the control: without a socket, one leaves");
}

#[test]
fn a_full_queue_keeps_packets_and_loses_none() {
    if !privileged() {
        return;
    }
    both_ways(&[PROTOCOL], full_queue);
}

fn full_queue(mut config: RawConfig) {
    let (mut lab, a, b) = pair("room");
    let shape = Shape::new(Rate(20_000_000), 1000);
    lab.shape("a", "eth0", shape).expect("tbf");
    config.send_buffer = Some(40_000);
    let (mut left, mut right) = (raw_in(&a, &config), raw_in(&b, &config));
    let to_b = header(A, B, PROTOCOL);
    resolve(&mut left, &mut right, &to_b);
    let mut poller = Poller::new(Coalesce::OFF).expect("poller");
    left.attach(&poller, 0).expect("attach");
    let (mut sent, mut blocked, mut events) = (0u32, 0, Vec::new());
    loop {
        while sent < 200
            && let Some(slot) = left.slot()
        {
            slot[..4].copy_from_slice(&sent.to_be_bytes());
            left.commit(&to_b, 1000);
            sent += 1;
        }
        left.flush();
        left.rearm(&poller, 0).expect("rearm");
        if left.is_blocked() {
            assert_eq!(left.room(), 0);
            assert!(left.slot().is_none());
            blocked += 1;
            let deadline = Poller::now() + Span::SECOND;
            poller.wait(deadline, 0, &mut events).expect("wait");
            assert!(events.iter().any(|e| e.writable()), "room comes back");
        } else if sent == 200 {
            break;
        }
        left.flush();
    }
    left.rearm(&poller, 0).expect("rearm");
    poller.wait(Poller::now(), 0, &mut events).expect("wait");
    assert!(
        !events.iter().any(|e| e.writable()),
        "not told of room for nothing"
    );
    assert!(blocked > 0, "the send buffer holds less than 200 packets");
    assert!(left.counters().kept > 0);
    let numbers: Vec<u32> = collect(&mut right, 200)
        .iter()
        .map(|(_, p, _)| u32::from_be_bytes([p[0], p[1], p[2], p[3]]))
        .collect();
    assert_eq!(numbers, (0..200).collect::<Vec<u32>>());
}

#[test]
fn overflow_of_the_receive_buffer_is_counted() {
    if !privileged() {
        return;
    }
    both_ways(&[PROTOCOL], overflow);
}

fn overflow(mut config: RawConfig) {
    let (_lab, a, b) = pair("drops");
    // One block of the ring has 64 frames.
    config.receive_buffer = 16 << 10;
    let (mut left, mut right) = (raw_in(&a, &config), raw_in(&b, &config));
    let to_b = header(A, B, PROTOCOL);
    resolve(&mut left, &mut right, &to_b);
    let before = left.counters().sent;
    for _ in 0..200 {
        let Some(_) = left.slot() else { break };
        left.commit(&to_b, 1480);
    }
    left.flush();
    let sent = left.counters().sent - before;
    let got = collect(&mut right, sent as usize).len() as u64;
    assert!(got < sent, "{got} of {sent}");
    assert_eq!(right.counters().overflowed, sent - got);
}

#[test]
fn refusals_cost_one_packet_each_and_block_nothing() {
    if !privileged() {
        return;
    }
    both_ways(&[PROTOCOL], refusals);
}

fn refusals(mut config: RawConfig) {
    let (_lab, a, b) = pair("refused");
    config.mtu = 3000;
    let (mut left, mut right) = (raw_in(&a, &config), raw_in(&b, &config));
    resolve(&mut left, &mut right, &header(A, B, PROTOCOL));
    let before = left.counters().sent;
    for (dst, len) in [
        (B, 100),
        (Ipv4Addr::new(192, 0, 2, 1), 100),
        (B, 2900),
        (B, 101),
    ] {
        left.slot().expect("room").fill(1);
        left.commit(&header(A, dst, PROTOCOL), len);
    }
    left.flush();
    let counters = left.counters();
    assert_eq!((counters.sent - before, counters.refused), (2, 2));
    let lengths: Vec<usize> = collect(&mut right, 2)
        .iter()
        .map(|(_, p, _)| p.len())
        .collect();
    assert_eq!(lengths, [100, 101]);
}

#[test]
fn a_direct_carrier_also_serves_loopback_and_later_addresses() {
    if !privileged() {
        return;
    }
    let (_lab, a, b) = pair("late");
    let mut config = RawConfig::new(vec![PROTOCOL]);
    config.direct = true;
    let (mut left, mut right) = (raw_in(&a, &config), raw_in(&b, &config));
    let here = Ipv4Addr::LOCALHOST;
    send(&mut left, &header(here, here, PROTOCOL), b"myself");
    assert_eq!(collect(&mut left, 1)[0].1, b"myself");
    let line = format!("-n {} addr add 10.78.0.3/24 dev eth0", b.name());
    let added = Command::new("ip")
        .args(line.split(' '))
        .status()
        .expect("ip");
    assert!(added.success());
    let late = Ipv4Addr::new(10, 78, 0, 3);
    resolve(&mut left, &mut right, &header(A, late, PROTOCOL));
    send(&mut left, &header(A, late, PROTOCOL), b"late");
    let got = collect(&mut right, 1);
    assert_eq!((got[0].0.dst, &*got[0].1), (late.into(), &b"late"[..]));
}

#[test]
fn what_a_router_forwards_is_not_for_us() {
    if !privileged() {
        return;
    }
    both_ways(&[PROTOCOL], forwarded);
}

fn forwarded(config: RawConfig) {
    let mut lab = Lab::create(&format!("t-router-{}", std::process::id())).expect("lab");
    let nodes = ["a", "r", "b"].map(|n| lab.node(n).expect("node"));
    let end = |node, device, address| End {
        node,
        device,
        address,
    };
    let (near, far) = (
        end("a", "eth0", "10.78.0.1/24"),
        end("b", "eth0", "10.78.1.1/24"),
    );
    lab.link(near, end("r", "eth0", "10.78.0.9/24"), 1500)
        .expect("link");
    lab.link(far, end("r", "eth1", "10.78.1.9/24"), 1500)
        .expect("link");
    lab.route("a", "default", "10.78.0.9").expect("route");
    lab.route("b", "default", "10.78.1.9").expect("route");
    lab.forward("r").expect("forward");
    let [mut left, mut router, mut right] = nodes.each_ref().map(|n| raw_in(n, &config));
    let far = Ipv4Addr::new(10, 78, 1, 1);
    resolve(&mut left, &mut right, &header(A, far, PROTOCOL));
    send(&mut left, &header(A, far, PROTOCOL), b"through");
    let got = collect(&mut right, 1);
    assert_eq!((got[0].0.ttl, &*got[0].1), (TTL - 1, &b"through"[..]));
    send(
        &mut left,
        &header(A, Ipv4Addr::new(10, 78, 0, 9), PROTOCOL),
        b"here",
    );
    let got = collect(&mut router, 1);
    assert_eq!((got.len(), &*got[0].1), (1, &b"here"[..]));
}

#[test]
fn routes_give_source_and_mtu() {
    if !privileged() {
        return;
    }
    let (_lab, a, _b) = pair("route");
    a.run(|| {
        let route = route_to(B).expect("route");
        assert_eq!((route.source, route.mtu), (A.into(), 1500));
        assert!(route_to(Ipv4Addr::new(192, 0, 2, 1)).is_err());
        assert!(is_local_address(A) && !is_local_address(B));
        assert!(is_local_address(Ipv4Addr::new(127, 0, 0, 5)));
        assert!(!is_local_address(Ipv4Addr::new(10, 78, 0, 255)));
        assert!(!is_local_address(Ipv4Addr::new(224, 0, 0, 1)));
    })
    .expect("namespace");
}

#[test]
fn protocols_of_the_kernel_are_refused() {
    for protocols in [vec![], vec![6], vec![253, 253], vec![0]] {
        let config = RawConfig::new(protocols);
        let error = Carrier::raw(&config).err().expect("refused");
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    }
}

#[test]
fn the_kernel_talks_tcp_to_the_tun_carrier_and_sends_no_reset() {
    if !privileged() {
        return;
    }
    let (_lab, a, _b) = pair("tun");
    let (kernel, stack) = (Ipv4Addr::new(10, 79, 0, 1), Ipv4Addr::new(10, 79, 0, 2));
    let config = TunConfig::new(kernel, stack);
    let mut carrier = a
        .run(|| Carrier::tun(&config))
        .expect("namespace")
        .expect("tun");
    let name = carrier.name().to_string();
    assert_eq!(carrier.source_for(kernel).expect("source"), stack);
    assert!(carrier.is_local(stack) && !carrier.is_local(kernel));
    let script = format!(
        "import socket; s=socket.socket(); s.settimeout(2); print(s.connect_ex(('{stack}', 80)))"
    );
    let mut client = a.command("python3").expect("namespace");
    let mut client = client
        .args(["-c", &script])
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    let (ip, syn, _) = collect(&mut carrier, 1).remove(0);
    assert_eq!((ip.src, ip.dst, ip.proto), (kernel.into(), stack.into(), 6));
    assert_eq!(syn[13], 0x02, "a SYN");
    // Refuse it: RST and ACK, acknowledging the SYN, with a checksum as the kernel wants it.
    let mut reset = [0u8; 20];
    reset[0..2].copy_from_slice(&syn[2..4]);
    reset[2..4].copy_from_slice(&syn[0..2]);
    let next = u32::from_be_bytes([syn[4], syn[5], syn[6], syn[7]]).wrapping_add(1);
    reset[8..12].copy_from_slice(&next.to_be_bytes());
    (reset[12], reset[13]) = (0x50, 0x14);
    let mut sum: u32 = 6 + 20;
    for chunk in stack
        .octets()
        .chunks(2)
        .chain(kernel.octets().chunks(2))
        .chain(reset.chunks(2))
    {
        sum += u32::from(u16::from_be_bytes([chunk[0], chunk[1]]));
    }
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    reset[16..18].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    let reset_ip = IpInfo {
        ecn: Ecn::Ect0,
        ..header(stack, kernel, 6)
    };
    let marked = |ns: &Namespace| snmp_of(ns, "netstat", "IpExt:", "InECT0Pkts");
    let before = marked(&a);
    send(&mut carrier, &reset_ip, &reset);
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut client.stdout.take().expect("piped"), &mut answer)
        .expect("answer");
    client.wait().expect("client");
    assert_eq!(marked(&a) - before, 1);
    assert_eq!(
        answer.trim(),
        rustix::io::Errno::CONNREFUSED.raw_os_error().to_string()
    );
    drop(carrier);
    let devices = a.run(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
    let devices = devices.flatten().expect("devices");
    assert!(devices.contains("eth0") && !devices.contains(&name));
}

#[test]
fn deadlines_are_met_and_other_threads_wake_the_poller() {
    let mut poller = Poller::new(Coalesce::default()).expect("poller");
    let mut events = Vec::new();
    let mut late: Vec<u64> = (0..50)
        .map(|_| {
            let deadline = Poller::now() + Span(300_000);
            poller.wait(deadline, 0, &mut events).expect("wait");
            let now = Poller::now();
            assert!(now >= deadline, "not before the deadline");
            (now - deadline).0
        })
        .collect();
    late.sort_unstable();
    assert!(
        late[25] < 1_000_000,
        "half are less than 1 ms late: {late:?}"
    );
    let waker = poller.waker();
    let thread = std::thread::spawn(move || waker.wake());
    let start = Instant::now();
    poller
        .wait(Poller::now() + Span::SECOND * 20, 0, &mut events)
        .expect("wait");
    assert!(start.elapsed() < Duration::from_secs(10) && events.is_empty());
    thread.join().expect("waker");
}

#[test]
fn a_busy_round_pauses_and_a_quiet_one_does_not() {
    let coalesce = Coalesce {
        pause: Span(200_000),
        threshold: 4,
        awake: Span::ZERO,
    };
    let mut poller = Poller::new(coalesce).expect("poller");
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().expect("pair");
    poller.add(&theirs, 7, Interest::READ).expect("add");
    ours.write_all(b"x").expect("write");
    let mut events = Vec::new();
    poller.wait(Time::NEVER, 3, &mut events).expect("wait");
    assert_eq!((poller.counters().pauses, events.len()), (0, 1));
    assert!(events[0].readable() && events[0].token == 7);
    let start = Poller::now();
    poller.wait(Time::NEVER, 4, &mut events).expect("wait");
    assert!(Poller::now() - start >= Span(50_000));
    assert_eq!((poller.counters().pauses, events.len()), (1, 1));
    // An old burst may pause for longer: a part of its age, up to what was asked.
    std::thread::sleep(Duration::from_millis(26));
    let start = Poller::now();
    poller.wait(Time::NEVER, 4, &mut events).expect("wait");
    assert!(Poller::now() - start >= Span(200_000));
}

#[test]
fn the_first_moments_of_a_burst_are_spent_awake() {
    let coalesce = Coalesce {
        pause: Span(200_000),
        threshold: 4,
        awake: Span(20_000_000),
    };
    let sleeps = || {
        let text = std::fs::read_to_string("/proc/thread-self/status").expect("status");
        let line = text
            .lines()
            .find(|l| l.starts_with("voluntary"))
            .expect("a line");
        line.split_whitespace()
            .nth(1)
            .and_then(|n| n.parse::<u64>().ok())
            .expect("a number")
    };
    let mut poller = Poller::new(coalesce).expect("poller");
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().expect("pair");
    poller.add(&theirs, 7, Interest::READ).expect("add");
    ours.write_all(b"x").expect("write");
    let mut events = Vec::new();
    let mut busy = |poller: &mut Poller| {
        let before = sleeps();
        poller.wait(Time::NEVER, 4, &mut events).expect("wait");
        sleeps() - before
    };
    // Others may take the processor away meanwhile; that is not counted as voluntary.
    assert_eq!((busy(&mut poller), busy(&mut poller)), (0, 0));
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(busy(&mut poller), 1, "later it sleeps");
    assert_eq!(poller.counters().pauses, 3);
}

#[test]
fn signals_end_a_wait() {
    let mut poller = Poller::new(Coalesce::OFF).expect("poller");
    poller.catch_signals(&[libc::SIGUSR1]).expect("signalfd");
    // SAFETY: `raise` sends a signal, blocked by now, to the calling thread alone.
    assert_eq!(unsafe { libc::raise(libc::SIGUSR1) }, 0);
    let mut events = Vec::new();
    poller
        .wait(Poller::now() + Span::SECOND * 5, 0, &mut events)
        .expect("wait");
    assert_eq!(poller.take_signal(), Some(libc::SIGUSR1));
    assert_eq!(poller.take_signal(), None);
}

#[test]
fn a_lab_goes_with_its_owner_even_when_that_is_killed() {
    if !privileged() {
        return;
    }
    // The child is this very program, running `the_lab_of_a_victim`.
    let label = format!("t-victim-{}", std::process::id());
    let mut child = Command::new(std::env::current_exe().expect("path"))
        .args(["--exact", "the_lab_of_a_victim", "--ignored", "--nocapture"])
        .env("WIFU_TEST_LAB", &label)
        .stdout(Stdio::null())
        .spawn()
        .expect("child");
    let name = format!("wifu-{label}-a");
    let exists = || std::path::Path::new(NETNS).join(&name).exists();
    let state = std::path::Path::new(RUN).join(format!("lab-{label}.json"));
    let until = |wanted: bool| {
        let deadline = Instant::now() + Duration::from_secs(10);
        while (exists(), state.exists()) != (wanted, wanted) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        (exists(), state.exists())
    };
    assert_eq!(until(true), (true, true));
    child.kill().expect("SIGKILL");
    child.wait().expect("child");
    assert_eq!(until(false), (false, false));
}

#[test]
#[ignore = "run by a_lab_goes_with_its_owner_even_when_that_is_killed"]
fn the_lab_of_a_victim() {
    let label = std::env::var("WIFU_TEST_LAB").expect("label");
    let mut lab = Lab::create(&label).expect("lab");
    let ns = lab.node("a").expect("node");
    let mut sleeper = ns
        .command("sleep")
        .expect("namespace")
        .arg("60")
        .spawn()
        .expect("sleep");
    sleeper.wait().expect("killed with the lab");
}

#[test]
fn clean_removes_the_dead_and_leaves_the_living_and_strangers() {
    if !privileged() {
        return;
    }
    let unique = std::process::id();
    let (mut lab, a, _b) = pair("clean");
    let ip = |line: &str| {
        let done = Command::new("ip")
            .args(line.split_whitespace())
            .status()
            .expect("ip");
        assert!(done.success(), "ip {line}");
    };
    let (dead, stranger) = (
        format!("wifu-t-dead-{unique}"),
        format!("wifu-t-odd-{unique}"),
    );
    ip(&format!("netns add {dead}"));
    ip(&format!("netns add {stranger}"));
    let owner = Owner {
        start: 0,
        ..Owner::this()
    };
    ip(&format!("-n {dead} link set dev lo alias {}", owner.tag()));
    let exists = |name: &str| std::path::Path::new(NETNS).join(name).exists();
    let dry = clean::clean(Options {
        dry_run: true,
        all: false,
    });
    let dry = dry.expect("clean");
    assert!(
        dry.steps.contains(&format!("ip netns del {dead}")),
        "{dry:?}"
    );
    assert!(exists(&dead), "a dry run changes nothing");
    let report = clean::clean(Options::default()).expect("clean");
    assert!(!exists(&dead), "{report:?}");
    assert!(exists(&stranger) && exists(a.name()));
    assert!(report.kept.iter().any(|k| k.contains(&stranger)));
    assert!(!report.steps.iter().any(|s| s.contains(a.name())));
    ip(&format!("netns del {stranger}"));
    // A lab in use is still usable afterwards.
    lab.forward("a").expect("forward");
    lab.close();
    assert!(!exists(a.name()));
}

#[test]
fn a_dry_lab_tells_every_step_and_makes_nothing() {
    let mut lab = Lab::dry_run("t-dry").expect("plan");
    let ns = lab.node("a").expect("node");
    lab.node("b").expect("node");
    let end = |node, address| End {
        node,
        device: "eth0",
        address,
    };
    lab.link(end("a", "10.0.0.1/24"), end("b", ""), 1500)
        .expect("link");
    lab.shape("a", "eth0", Shape::new(Rate(100_000_000), 100))
        .expect("shape");
    lab.route("a", "default", "10.0.0.2").expect("route");
    lab.forward("b").expect("forward");
    assert_eq!(lab.steps().len(), 11, "{:#?}", lab.steps());
    assert!(
        lab.steps()
            .iter()
            .any(|s| s.contains("tbf rate 100000000bit"))
    );
    // Two namespaces, the directory, the record.
    assert_eq!(lab.teardown_steps().len(), 4);
    assert!(ns.open().is_err());
    assert!(lab.node("no blanks").is_err() && lab.node("a").is_err());
}
