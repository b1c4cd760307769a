//! Carries data segments between two endpoints without any network, for instruction counting:
//! `engine_cost PROTOCOL SEGMENTS`. The difference between two numbers of segments is the cost of
//! the segments alone: application copies, engine, codec and checksums at both ends, and the ACKs.

use core::net::{Ipv4Addr, SocketAddrV4};
use wifu_engine::{ConnId, Endpoint, EndpointConfig, Event};
use wifu_wire::{Span, Time};

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// Everything that `from` has to say goes to `to`; returns how many data segments went.
fn carry(from: &mut Endpoint, to: &mut Endpoint, now: Time, out: &mut [u8]) -> u64 {
    let mut data = 0;
    while let Some(d) = from.poll_transmit(now, out) {
        data += u64::from(d.len > 64);
        to.handle_packet(now, &d.ip, &out[..d.len]);
    }
    data
}

fn opened(end: &mut Endpoint) -> Option<ConnId> {
    let mut found = None;
    while let Some((id, event)) = end.poll_event() {
        if matches!(event, Event::Accepted(_) | Event::Connected) {
            found = Some(id);
        }
    }
    found
}

fn main() {
    let mut args = std::env::args().skip(1);
    let spec = args.next().unwrap_or_else(|| String::from("tcp-newreno"));
    let segments: u64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    let blueprint = wifu_parts::blueprint(&spec).expect("a known protocol");
    let end = |node| {
        Endpoint::new(EndpointConfig {
            node,
            ..EndpointConfig::default()
        })
    };
    let (mut a, mut b) = (end(1), end(2));
    let mut out = [0u8; 2048];
    let mut now = Time(1_000_000_000);
    let server = SocketAddrV4::new(SERVER, 80);
    b.listen(&blueprint, server, 8).expect("the port is free");
    let local = SocketAddrV4::new(CLIENT, 0);
    let ida = a
        .connect(now, &blueprint, local, server)
        .expect("a port is free");
    for _ in 0..4 {
        carry(&mut a, &mut b, now, &mut out);
        carry(&mut b, &mut a, now, &mut out);
    }
    opened(&mut a);
    let idb = opened(&mut b).expect("the connection opens");
    // Unknown to the compiler, which would rather write 64 KiB anew at each turn than copy 1 kB.
    let data = core::hint::black_box([7u8; 65_536]);
    let mut sink = [0u8; 65_536];
    let mut sent = 0;
    while sent < segments {
        now += Span::MICRO * 100;
        a.write(now, ida, &data);
        sent += carry(&mut a, &mut b, now, &mut out);
        while b.read(now, idb, &mut sink) > 0 {}
        carry(&mut b, &mut a, now, &mut out);
        opened(&mut a);
        opened(&mut b);
        a.handle_timeout(now);
        b.handle_timeout(now);
    }
    println!("{sent}");
}
