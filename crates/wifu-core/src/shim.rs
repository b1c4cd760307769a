//! The shim between IP and transport (Behaviour 3): protocol 253, a head of four octets, then words
//! of its type.

use crate::ip;
use std::borrow::Cow;
use wifu_wire::format::{BY_BOTH, BY_END, Class, Field, Format, PacketType, WordDecl};

/// IP protocol number of packets with a shim.
pub const PROTOCOL: u8 = 253;
/// The version that we understand; others pass untouched.
pub const VERSION: u8 = 1;
/// Type 1: the delay shim of TP-alpha (Behaviour 9).
pub const DELAY: u8 = 1;
/// Octets of the head.
pub const HEAD: usize = 4;

/// A shim's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// What its words are.
    pub kind: u8,
    /// Protocol of what follows the shim.
    pub inner: u8,
    /// Octets of the whole shim.
    pub length: u8,
}

/// The shim of a packet: its head and where it begins; `None` if it has none that we understand.
pub fn parse(packet: &[u8]) -> Option<(Head, usize)> {
    if ip::protocol(packet)? != PROTOCOL {
        return None;
    }
    let body = ip::payload(packet)?;
    let bytes = &packet[body.clone()];
    let head = Head {
        kind: *bytes.get(1)?,
        inner: *bytes.get(2)?,
        length: *bytes.get(3)?,
    };
    let fits = usize::from(head.length) >= HEAD && usize::from(head.length) <= bytes.len();
    (bytes[0] == VERSION && fits).then_some((head, body.start))
}

/// The packet with a shim of this kind in front of its payload, `body` behind the head; `None` if
/// it is no IPv4 packet or would be too long. Length and checksum of the IP header are right.
pub fn insert(packet: &[u8], kind: u8, body: &[u8]) -> Option<Vec<u8>> {
    let start = ip::payload(packet)?.start;
    let length = HEAD + body.len();
    if packet.len() + length > usize::from(u16::MAX) || length > usize::from(u8::MAX) {
        return None;
    }
    let mut out = Vec::with_capacity(packet.len() + length);
    out.extend_from_slice(&packet[..start]);
    out.extend_from_slice(&[VERSION, kind, packet[9], length as u8]);
    out.extend_from_slice(body);
    out.extend_from_slice(&packet[start..]);
    out[9] = PROTOCOL;
    ip::repair(&mut out);
    Some(out)
}

/// The packet without its shim.
pub fn remove(packet: &[u8]) -> Option<Vec<u8>> {
    let (head, start) = parse(packet)?;
    let mut out = Vec::with_capacity(packet.len());
    out.extend_from_slice(&packet[..start]);
    out.extend_from_slice(&packet[start + usize::from(head.length)..]);
    out[9] = head.inner;
    ip::repair(&mut out);
    Some(out)
}

const fn octets(name: &'static str, byte: u8, octets: u8, field: Field) -> WordDecl {
    WordDecl::octets(name, byte, octets, field)
}

const WORDS: &[WordDecl] = &[
    octets(
        "version",
        0,
        1,
        Field::Is(VERSION as u32, "unknown shim version"),
    )
    .doc("1."),
    octets(
        "type",
        1,
        1,
        Field::Is(DELAY as u32, "another kind of shim"),
    )
    .doc("1: delays."),
    octets("inner", 2, 1, Field::Inner).doc("IP protocol of what follows."),
    octets("length", 3, 1, Field::Length(1))
        .unit("B")
        .doc("Of the whole shim."),
    octets("count", 4, 1, Field::HopCount)
        .by(BY_BOTH)
        .doc("Nodes that looked at the packet, the sender included."),
    octets("max_delay", 5, 3, Field::Own)
        .by(BY_BOTH)
        .unit("us")
        .doc("The largest delay of a node on the path; 16.7 s at most."),
    octets("missing", 8, 1, Field::Own)
        .by(BY_END)
        .doc("Nodes that did not look at what came the other way."),
    WordDecl {
        zero: "nothing to feed back yet",
        ..octets("fb_delay", 9, 3, Field::Own)
            .unit("us")
            .doc("The delay that the receiver feeds back; 16.7 s at most.")
    },
];

/// The delay shim of TP-alpha (Behaviour 9), with a count of nodes of our own.
pub static DELAY_FORMAT: Format = Format {
    name: "delay-shim",
    doc: "Between IP and TCP: the largest delay on the path, and what the receiver feeds back.",
    cites: &["WiFu paper V.B", "Behaviour 9"],
    number: Some(PROTOCOL),
    port: None,
    base: 0,
    header: 12,
    words: Cow::Borrowed(WORDS),
    types: Cow::Borrowed(const { &[PacketType::rest("any", Class::Data)] }),
    covers_hops: false,
};

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use wifu_wire::ipv4::{emit, parse as parse_ip};
    use wifu_wire::{Ecn, IpInfo};

    fn packet() -> Vec<u8> {
        let info = IpInfo {
            src: Ipv4Addr::new(10, 0, 0, 1),
            dst: Ipv4Addr::new(10, 0, 0, 2),
            proto: 208,
            ttl: 60,
            ecn: Ecn::NotEct,
        };
        let mut packet = vec![9; 50];
        emit(&info, 30, &mut packet);
        packet
    }

    #[test]
    fn a_shim_goes_in_is_changed_and_comes_out() {
        let plain = packet();
        let mut with = insert(&plain, DELAY, &[0; 8]).unwrap();
        assert_eq!(with.len(), plain.len() + 12);
        assert_eq!(parse_ip(&with).unwrap().0.proto, PROTOCOL);
        let (head, start) = parse(&with).unwrap();
        assert_eq!(
            (head.kind, head.inner, head.length, start),
            (DELAY, 208, 12, 20)
        );
        let place = DELAY_FORMAT.place("max_delay").unwrap();
        place.write(&mut with[start..], 1234);
        assert_eq!(with[start + 4..start + 8], [0, 0, 4, 210]);
        assert_eq!(DELAY_FORMAT.faults(), Vec::<String>::new());
        assert_eq!(remove(&with).unwrap(), plain);
    }

    #[test]
    fn other_versions_and_broken_shims_are_none_of_ours() {
        let with = insert(&packet(), DELAY, &[0; 8]).unwrap();
        for (at, value) in [(20, 2), (23, 3), (23, 200)] {
            let mut bad = with.clone();
            bad[at] = value;
            assert_eq!(parse(&bad), None);
            assert_eq!(remove(&bad), None);
        }
        assert_eq!(parse(&packet()), None);
        assert_eq!(insert(&vec![0x45; 65_530], DELAY, &[0; 8]), None);
    }
}
