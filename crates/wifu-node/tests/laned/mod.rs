//! A composition with a lane, its ends that send nothing, and packets of its flows.
#![allow(dead_code)]

use core::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use wifu_core::{Chain, Full, Hooks, Seat};
use wifu_engine::board::ConnFacts;
use wifu_engine::component::Cx;
use wifu_engine::{
    Board, Component, Descriptor, Facts, Kind, Library, Role, Signal, Want, WordSpec,
};
use wifu_node::{Protocol, Registry};
use wifu_testkit::wild::{Odds, Wild};
use wifu_wire::{Class, Ecn, Head, IpInfo, Pseudo, Rng, Seq, Time, Wire, ipv4};

pub const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub const ME: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 5);
pub const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
pub const C: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 8);

/// Its number in the IP header.
pub const PROTO: u8 = 250;

/// What a part of the lane writes into what it hands down, and into what it says itself.
pub const MARK: WordSpec = WordSpec::new("mark", 8).by_hops();
pub const SAYS: WordSpec = WordSpec::new("says", 1).marking(Class::Hop);

/// What parts that hand packets down have in common.
pub const QUEUE: Descriptor = Descriptor {
    name: "queue",
    role: Role::Reliable,
    words: &[MARK, SAYS],
    writes: Facts::TX.with(Facts::CONN),
    hears: &[
        ("segment", &[]),
        ("wrote", &["opened"]),
        ("returned", &[]),
        ("expired", &[]),
        ("route", &[]),
        ("status", &[]),
    ],
    offers: &[Kind::New],
    needs: &[("store", &["packets"])],
    hooks: &["segment"],
    ..Descriptor::EMPTY
};

/// A lane's part has nothing to wait for: it is open from the first signal on.
pub fn open(cx: &mut Cx<'_>) {
    if !cx.board.conn.running {
        cx.write(|c: &mut ConnFacts| c.running = true);
        cx.out.emit(Signal::Opened);
    }
}

/// Handlers at all hooks of a node: one that does so much of everything, and holds so many packets
/// and copies.
pub fn wild(odds: Odds, most: u32, rng: Rng) -> Chain {
    let mut chain = Chain::new();
    let seat = Seat {
        most,
        full: Full::Closed,
        ..Seat::new("wild", Hooks::ALL, rng)
    };
    chain.push(seat, Box::new(Wild::new(odds)));
    chain
}

/// An end: any part that sends something will do.
pub static END: Descriptor = Descriptor {
    name: "end",
    role: Role::Reliable,
    doc: "Sends nothing.",
    offers: &[Kind::New],
    build: |_| Ok(Box::new(End)),
    ..Descriptor::EMPTY
};

pub struct End;

impl Component for End {
    fn offer(&self, _: Kind, _: &Board, _: Time) -> Option<Want> {
        None
    }
}

/// The composition, whose lane has four packets and this part, with further lines of its table.
pub fn protocol(lane: &'static Descriptor, more: &[&'static Descriptor]) -> Arc<Protocol> {
    let mut text = format!(
        "[protocol.laned]\nnumber = {PROTO}\nwire = \"shim\"\nstore = \"octets\"\n\
         reliable = \"end\"\n[lane.laned]\nset = {{ packets = 4 }}\nreliable = \"{}\"\n",
        lane.name
    );
    for gate in more {
        text += &format!("gates = [\"{}\"]\n", gate.name);
    }
    let parts = wifu_engine::Registry::new(&[lane, &END]).with(more);
    let library = Library::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let registry = Registry::new(parts, library);
    registry.resolve("laned").unwrap_or_else(|e| panic!("{e}"))
}

/// `tcp-newreno` over a lane that has four packets and this part.
pub fn tcp(lane: &'static Descriptor) -> Arc<Protocol> {
    let text = format!(
        "[protocol.laned]\nextends = \"tcp-newreno\"\nnumber = {PROTO}\nwire = \"shim\"\n\
         [lane.laned]\nset = {{ packets = 4 }}\nreliable = \"{}\"\n",
        lane.name
    );
    let own = Library::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let parts = wifu_parts::registry().with(&[lane]);
    let registry = Registry::new(parts, wifu_parts::library().merge(own));
    registry.resolve("laned").unwrap_or_else(|e| panic!("{e}"))
}

/// The payload of the packet that has this number.
fn octets(number: u32, length: usize) -> Vec<u8> {
    let octet = |i: usize| (number as usize * 7 + i) as u8;
    (0..length).map(octet).collect()
}

/// A packet that left is whole: its checksums are right, its payload is what its number says; data
/// have been through a lane, unless handlers sent them.
pub fn check(wire: &dyn Wire, bytes: &[u8], handlers: bool) {
    let (ip, segment) = ipv4::parse(bytes).expect("the checksum of its header is right");
    let IpInfo {
        src, dst, proto, ..
    } = ip;
    if proto != PROTO {
        return;
    }
    assert!(wire.verify(&Pseudo::new(src, dst, proto), segment));
    let mut head = Head::default();
    let header = wire.parse(segment, &mut head).expect("it can be read");
    let payload = &segment[header..];
    assert_eq!(payload, octets(head.seq.0, payload.len()));
    let mark = wire.place("mark").expect("it was declared").read(segment);
    assert!(handlers || payload.is_empty() || mark == 9, "past its lane");
}

/// A packet of the flow between two ends.
pub fn packet(
    wire: &dyn Wire,
    (from, to): (SocketAddrV4, SocketAddrV4),
    number: u32,
    payload: usize,
) -> Vec<u8> {
    let (src, dst, proto, ttl) = (*from.ip(), *to.ip(), PROTO, 60);
    let mut head = Head::default();
    (head.sport, head.dport, head.seq) = (from.port(), to.port(), Seq(number));
    let mut bytes = vec![0; 200 + payload];
    let header = wire.emit(&head, &mut bytes[ipv4::HEADER..]);
    bytes.truncate(ipv4::HEADER + header + payload);
    bytes[ipv4::HEADER + header..].copy_from_slice(&octets(number, payload));
    let pseudo = Pseudo::new(src, dst, proto);
    wire.seal(&pseudo, &mut bytes[ipv4::HEADER..]);
    let ip = IpInfo {
        src,
        dst,
        proto,
        ttl,
        ecn: Ecn::NotEct,
    };
    ipv4::emit(&ip, header + payload, &mut bytes);
    bytes
}
