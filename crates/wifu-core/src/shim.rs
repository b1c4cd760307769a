//! The shim between IP and transport (Behaviour 3): protocol 253, a head of four octets, then words
//! of its type.

use crate::ip;

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

/// The packet with a shim of these words in front of its payload; `None` if it is no IPv4 packet
/// or would be too long. Length and checksum of the IP header are right.
pub fn insert(packet: &[u8], kind: u8, words: &[u32]) -> Option<Vec<u8>> {
    let start = ip::payload(packet)?.start;
    let length = HEAD + 4 * words.len();
    if packet.len() + length > usize::from(u16::MAX) || length > usize::from(u8::MAX) {
        return None;
    }
    let mut out = Vec::with_capacity(packet.len() + length);
    out.extend_from_slice(&packet[..start]);
    out.extend_from_slice(&[VERSION, kind, packet[9], length as u8]);
    for word in words {
        out.extend_from_slice(&word.to_be_bytes());
    }
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

/// Word number `n` of a shim that begins at `start`.
pub fn word(packet: &[u8], head: &Head, start: usize, n: usize) -> Option<u32> {
    let at = HEAD + 4 * n;
    if at + 4 > usize::from(head.length) {
        return None;
    }
    let b = packet.get(start + at..start + at + 4)?;
    Some(u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
}

/// Write word number `n` of a shim that begins at `start`.
pub fn set_word(packet: &mut [u8], head: &Head, start: usize, n: usize, value: u32) {
    let at = start + HEAD + 4 * n;
    if HEAD + 4 * n + 4 <= usize::from(head.length)
        && let Some(place) = packet.get_mut(at..at + 4)
    {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use wifu_wire::IpInfo;
    use wifu_wire::ipv4::{emit, parse as parse_ip};

    fn packet() -> Vec<u8> {
        let info = IpInfo {
            src: Ipv4Addr::new(10, 0, 0, 1),
            dst: Ipv4Addr::new(10, 0, 0, 2),
            proto: 208,
            ttl: 60,
        };
        let mut packet = vec![9; 50];
        emit(&info, 30, &mut packet);
        packet
    }

    #[test]
    fn a_shim_goes_in_is_changed_and_comes_out() {
        let plain = packet();
        let mut with = insert(&plain, DELAY, &[7, 0]).unwrap();
        assert_eq!(with.len(), plain.len() + 12);
        assert_eq!(parse_ip(&with).unwrap().0.proto, PROTOCOL);
        let (head, start) = parse(&with).unwrap();
        assert_eq!(
            (head.kind, head.inner, head.length, start),
            (DELAY, 208, 12, 20)
        );
        set_word(&mut with, &head, start, 0, 1234);
        assert_eq!(word(&with, &head, start, 0), Some(1234));
        assert_eq!(word(&with, &head, start, 2), None);
        assert_eq!(remove(&with).unwrap(), plain);
    }

    #[test]
    fn other_versions_and_broken_shims_are_none_of_ours() {
        let with = insert(&packet(), DELAY, &[7, 0]).unwrap();
        for (at, value) in [(20, 2), (23, 3), (23, 200)] {
            let mut bad = with.clone();
            bad[at] = value;
            assert_eq!(parse(&bad), None);
            assert_eq!(remove(&bad), None);
        }
        assert_eq!(parse(&packet()), None);
        assert_eq!(insert(&vec![0x45; 65_530], DELAY, &[0, 0]), None);
    }
}
