//! The IPv4 header as a handler needs it: without checks that the kernel has made already.

use core::net::Ipv4Addr;
use core::ops::Range;
use wifu_wire::checksum::Sum;

pub use wifu_wire::numbers::UDP;

/// Protocol of an IPv4 packet; `None` if it is none.
pub fn protocol(packet: &[u8]) -> Option<u8> {
    header(packet).map(|_| packet[9])
}

/// Length of the header of an IPv4 packet; `None` if it is none.
pub fn header(packet: &[u8]) -> Option<usize> {
    let length = usize::from(packet.first()? & 0x0F) * 4;
    (packet[0] >> 4 == 4 && length >= 20 && packet.len() >= length).then_some(length)
}

/// Whether it begins a fragmented packet, or is one whole.
///
/// # Panics
/// If it is no IPv4 packet.
pub fn is_first_fragment(packet: &[u8]) -> bool {
    u16::from_be_bytes([packet[6], packet[7]]) & 0x1FFF == 0
}

/// Source and destination.
///
/// # Panics
/// If it is no IPv4 packet.
#[inline]
pub fn addresses(packet: &[u8]) -> (Ipv4Addr, Ipv4Addr) {
    let ends = &packet[12..20];
    let at = |i: usize| Ipv4Addr::new(ends[i], ends[i + 1], ends[i + 2], ends[i + 3]);
    (at(0), at(4))
}

/// Where the payload of an IPv4 packet lies, if it is the first or only fragment.
pub fn payload(packet: &[u8]) -> Option<Range<usize>> {
    let start = header(packet)?;
    let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    let end = if total == 0 {
        packet.len()
    } else {
        total.min(packet.len())
    };
    let first = u16::from_be_bytes([packet[6], packet[7]]) & 0x1FFF == 0;
    (first && end >= start).then_some(start..end)
}

/// Bring the TTL of an IPv4 packet down to `ttl`, and the checksum with it. A lower one stays.
pub fn lower_ttl(packet: &mut [u8], ttl: u8) {
    if header(packet).is_some() && packet[8] > ttl {
        let sum = u16::from_be_bytes([packet[10], packet[11]]);
        let gone = u16::from(packet[8] - ttl) << 8;
        //= rfc1624#section-3
        // The sum is over complements, so what the TTL lost is added.
        let (new, carry) = sum.overflowing_add(gone);
        let new = new + u16::from(carry);
        packet[8] = ttl;
        packet[10..12].copy_from_slice(&new.to_be_bytes());
    }
}

/// Give an IPv4 packet one more hop to live, and bring the checksum along. Gives false if it has
/// the most already, or is none.
pub fn raise_ttl(packet: &mut [u8]) -> bool {
    if header(packet).is_none() || packet[8] == u8::MAX {
        return false;
    }
    let sum = u16::from_be_bytes([packet[10], packet[11]]);
    //= rfc1624#section-3
    let (new, borrow) = sum.overflowing_sub(1 << 8);
    let new = new - u16::from(borrow);
    packet[8] += 1;
    packet[10..12].copy_from_slice(&new.to_be_bytes());
    true
}

/// Make total length and header checksum right after a handler changed a packet.
pub fn repair(packet: &mut [u8]) {
    let Some(length) = header(packet) else { return };
    let total = packet.len().min(usize::from(u16::MAX)) as u16;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet[10..12].fill(0);
    let sum = Sum::default().add(&packet[..length]).finish();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_more_to_live_keeps_the_checksum_right() {
        // Of headers whose checksums are everywhere, also where the subtraction borrows.
        for n in 0..=u8::MAX {
            let mut packet = vec![0; 20];
            (packet[0], packet[8], packet[9], packet[15]) = (0x45, n, 6, n.wrapping_mul(37));
            repair(&mut packet);
            let before = packet.clone();
            let raised = raise_ttl(&mut packet);
            assert_eq!(raised, n < u8::MAX, "{n}");
            assert_eq!(packet[8], n.saturating_add(1));
            if raised {
                assert_eq!(Sum::default().add(&packet).finish(), 0, "{n}");
                lower_ttl(&mut packet, n);
                assert_eq!(packet[8], n);
                assert_eq!(Sum::default().add(&packet).finish(), 0, "{n}");
            } else {
                assert_eq!(packet, before);
            }
        }
        assert!(!raise_ttl(&mut [0x45; 10]));
    }
    use wifu_wire::ipv4::{emit, parse};
    use wifu_wire::{Ecn, IpInfo};

    #[test]
    fn a_packet_is_whole_again_after_repair() {
        let info = IpInfo {
            src: Ipv4Addr::new(10, 0, 0, 1),
            dst: Ipv4Addr::new(10, 0, 0, 2),
            proto: 214,
            ttl: 60,
            ecn: Ecn::NotEct,
        };
        let mut packet = vec![0; 40];
        emit(&info, 20, &mut packet);
        assert_eq!(
            (protocol(&packet), payload(&packet)),
            (Some(214), Some(20..40))
        );
        packet.extend_from_slice(&[1, 2, 3, 4]);
        packet[9] = 253;
        assert!(parse(&packet).is_err());
        repair(&mut packet);
        let (found, rest) = parse(&packet).unwrap();
        assert_eq!((found.proto, rest.len()), (253, 24));
        assert_eq!(addresses(&packet), (info.src, info.dst));
    }

    #[test]
    fn what_is_no_ipv4_packet_is_left_alone() {
        for bad in [&[][..], &[0x45; 19], &[0x60; 40], &[0x42; 40]] {
            assert_eq!(
                (header(bad), protocol(bad), payload(bad)),
                (None, None, None)
            );
            let mut copy = bad.to_vec();
            repair(&mut copy);
            assert_eq!(copy, bad);
        }
        let mut fragment = vec![0x45; 40];
        fragment[6..8].copy_from_slice(&100u16.to_be_bytes());
        assert_eq!(payload(&fragment), None);
    }
}
