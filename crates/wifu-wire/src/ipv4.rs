//! IPv4 headers (RFC 791), as much as a carrier needs.

use crate::checksum::Sum;
pub use crate::ip_info::{Ecn, IpError, IpInfo, TTL};
use core::net::Ipv4Addr;

/// Length of the header we write: no options.
pub const HEADER: usize = 20;

/// A queue is congested: mark the packet, whose header checksum follows. False, and nothing is
/// changed, if its transport would not understand.
///
/// # Panics
/// If there are fewer than [`HEADER`] octets.
//= rfc3168#section-5
pub fn mark(packet: &mut [u8]) -> bool {
    let marked = packet[1] | Ecn::Ce as u8;
    if Ecn::of(packet[1]) == Ecn::NotEct {
        return false;
    }
    let word = |octet: u8| u16::from_be_bytes([packet[0], octet]);
    let sum = u16::from_be_bytes([packet[10], packet[11]]);
    //= rfc1624#section-3
    let raw = u32::from(!sum) + u32::from(!word(packet[1])) + u32::from(word(marked));
    let folded = (raw & 0xFFFF) + (raw >> 16);
    let sum = !((folded & 0xFFFF) + (folded >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet[1] = marked;
    true
}

/// Read the header; gives the facts and the payload, trimmed to the total length.
///
/// # Errors
/// [`IpError`] says what is wrong; the caller counts it and drops the packet.
pub fn parse(packet: &[u8]) -> Result<(IpInfo, &[u8]), IpError> {
    if packet.len() < HEADER {
        return Err(IpError::Short);
    }
    let header = usize::from(packet[0] & 0x0F) * 4;
    if packet[0] >> 4 != 4 || header < HEADER {
        return Err(IpError::Malformed);
    }
    let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    if total < header || packet.len() < total {
        return Err(IpError::Short);
    }
    if Sum::default().add(&packet[..header]).finish() != 0 {
        return Err(IpError::Checksum);
    }
    if u16::from_be_bytes([packet[6], packet[7]]) & 0x3FFF != 0 {
        return Err(IpError::Fragment);
    }
    Ok((facts(packet), &packet[header..total]))
}

/// What a header says, whatever follows it.
///
/// # Panics
/// If there are fewer than [`HEADER`] octets.
pub fn facts(packet: &[u8]) -> IpInfo {
    let address =
        |at: usize| Ipv4Addr::new(packet[at], packet[at + 1], packet[at + 2], packet[at + 3]);
    IpInfo {
        src: address(12),
        dst: address(16),
        proto: packet[9],
        ttl: packet[8],
        ecn: Ecn::of(packet[1]),
    }
}

/// Write a header with "don't fragment" set for a payload of `payload` octets.
///
/// # Panics
/// If `out` is shorter than [`HEADER`].
pub fn emit(info: &IpInfo, payload: usize, out: &mut [u8]) {
    out[..HEADER].fill(0);
    (out[0], out[1]) = (0x45, info.ecn as u8);
    out[2..4].copy_from_slice(&((HEADER + payload) as u16).to_be_bytes());
    out[6] = 0x40;
    out[8] = info.ttl;
    out[9] = info.proto;
    out[12..16].copy_from_slice(&info.src.octets());
    out[16..20].copy_from_slice(&info.dst.octets());
    let sum = Sum::default().add(&out[..HEADER]).finish();
    out[10..12].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_emit_and_parse() {
        let info = IpInfo {
            src: Ipv4Addr::new(10, 0, 0, 1),
            dst: Ipv4Addr::new(10, 0, 0, 2),
            proto: 214,
            ttl: 65,
            ecn: Ecn::Ect1,
        };
        let mut packet = [7u8; 30];
        emit(&info, 10, &mut packet);
        assert_eq!(parse(&packet), Ok((info, &[7u8; 10][..])));
        packet[8] ^= 1;
        assert_eq!(parse(&packet), Err(IpError::Checksum));
        assert_eq!(parse(&packet[..19]), Err(IpError::Short));
    }

    #[test]
    fn a_mark_keeps_the_rest_and_the_checksum_and_spares_who_does_not_understand() {
        for (ecn, understands) in [
            (Ecn::NotEct, false),
            (Ecn::Ect0, true),
            (Ecn::Ect1, true),
            (Ecn::Ce, true),
        ] {
            for last in 0..=255 {
                let info = IpInfo {
                    src: Ipv4Addr::new(10, 0, 0, 1),
                    dst: Ipv4Addr::new(10, 0, 0, last),
                    proto: 214,
                    ttl: 65,
                    ecn,
                };
                let mut packet = [7u8; 30];
                emit(&info, 10, &mut packet);
                assert_eq!(mark(&mut packet), understands);
                let ecn = if understands { Ecn::Ce } else { ecn };
                let (read, rest) = parse(&packet).expect("the checksum holds");
                assert_eq!((read, rest), (IpInfo { ecn, ..info }, &[7u8; 10][..]));
            }
        }
    }
}
