//! IPv6 headers (RFC 8200), as much as a carrier needs.
//!
//! What lies between the header and the transport is walked over: options that may be skipped
//! (section 4.2), routing headers of which nothing is left (4.4), and fragment headers of packets
//! that are whole (RFC 6946). All else that asks for something is refused, for a packet that is not
//! understood must not be taken for one that is.

use crate::ip_info::{Ecn, IpError, IpInfo};
use core::net::Ipv6Addr;

/// Length of the header we write: without extension headers.
pub const HEADER: usize = 40;

/// IP protocol number of ICMP for IPv6.
pub const ICMP: u8 = 58;

// Next headers that are no transport's.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

/// Options that say nothing: one octet, and as many as they say.
const PAD1: u8 = 0;

/// Read the headers; gives the facts and the payload behind the last extension header, trimmed to
/// the payload length.
///
/// # Errors
/// [`IpError`] says what is wrong; the caller counts it and drops the packet.
pub fn parse(packet: &[u8]) -> Result<(IpInfo<Ipv6Addr>, &[u8]), IpError> {
    if packet.len() < HEADER {
        return Err(IpError::Short);
    }
    let total = HEADER + usize::from(u16::from_be_bytes([packet[4], packet[5]]));
    // A jumbogram (RFC 2675) says 0 and has an option that is refused.
    let packet = packet.get(..total).ok_or(IpError::Short)?;
    let (info, at) = upper(packet)?;
    Ok((info, &packet[at..]))
}

/// The facts of the headers and where what follows them begins, of a packet that may be cut: an
/// error message quotes as much as it has room for.
///
/// # Errors
/// As [`parse`]; `Short` if it is cut before the end of its headers.
pub fn upper(packet: &[u8]) -> Result<(IpInfo<Ipv6Addr>, usize), IpError> {
    let fixed = packet.first_chunk::<HEADER>().ok_or(IpError::Short)?;
    if fixed[0] >> 4 != 6 {
        return Err(IpError::Malformed);
    }
    let (mut proto, mut at) = (fixed[6], HEADER);
    loop {
        let length = match proto {
            // Nowhere but first: RFC 8200 section 4.1.
            HOP_BY_HOP if at > HEADER => return Err(IpError::Malformed),
            HOP_BY_HOP | DESTINATION => options(&packet[at..])?,
            ROUTING => routing(&packet[at..])?,
            FRAGMENT => whole(&packet[at..])?,
            _ => break,
        };
        (proto, at) = (packet[at], at + length);
    }
    let [src, dst] = [8, 24].map(|at| address(fixed, at));
    let info = IpInfo {
        src,
        dst,
        proto,
        ttl: fixed[7],
        // The traffic class lies across two octets; ECN is the end of it (RFC 3168 section 5).
        ecn: Ecn::of(fixed[1] >> 4),
    };
    Ok((info, at))
}

fn address(fixed: &[u8; HEADER], at: usize) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&fixed[at..at + 16]);
    Ipv6Addr::from(octets)
}

/// An extension header that tells its length in units of eight octets beyond the first.
fn extension(rest: &[u8]) -> Result<&[u8], IpError> {
    let length = (usize::from(*rest.get(1).ok_or(IpError::Short)?) + 1) * 8;
    rest.get(..length).ok_or(IpError::Short)
}

/// The length of a header of options, if all of them may be skipped by who does not know them: the
/// first two bits of their types say so.
//= rfc8200#section-4.2
fn options(rest: &[u8]) -> Result<usize, IpError> {
    let header = extension(rest)?;
    let mut left = &header[2..];
    while let [kind, after @ ..] = left {
        left = match (*kind, after) {
            (PAD1, _) => after,
            (kind, _) if kind >> 6 != 0 => return Err(IpError::Malformed),
            (_, [length, body @ ..]) => {
                body.get(usize::from(*length)..).ok_or(IpError::Malformed)?
            }
            _ => return Err(IpError::Malformed),
        };
    }
    Ok(header.len())
}

/// The length of a routing header, if this is where its packet goes.
//= rfc8200#section-4.4
fn routing(rest: &[u8]) -> Result<usize, IpError> {
    let header = extension(rest)?;
    match header[3] {
        0 => Ok(header.len()),
        _ => Err(IpError::Malformed),
    }
}

/// The length of a fragment header, if the packet is its only fragment.
//= rfc6946#section-4
fn whole(rest: &[u8]) -> Result<usize, IpError> {
    let header = rest.first_chunk::<8>().ok_or(IpError::Short)?;
    // The last bit says that more follow; the two before it are reserved.
    match u16::from_be_bytes([header[2], header[3]]) & !6 {
        0 => Ok(header.len()),
        _ => Err(IpError::Fragment),
    }
}

/// Write a header for a payload of `payload` octets; the flow label is 0.
///
/// # Panics
/// If `out` is shorter than [`HEADER`].
pub fn emit(info: &IpInfo<Ipv6Addr>, payload: usize, out: &mut [u8]) {
    out[..4].copy_from_slice(&[0x60, (info.ecn as u8) << 4, 0, 0]);
    out[4..6].copy_from_slice(&(payload as u16).to_be_bytes());
    (out[6], out[7]) = (info.proto, info.ttl);
    out[8..24].copy_from_slice(&info.src.octets());
    out[24..HEADER].copy_from_slice(&info.dst.octets());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rng;

    const INFO: IpInfo<Ipv6Addr> = IpInfo {
        src: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
        dst: Ipv6Addr::new(0xfd00, 1, 2, 3, 4, 5, 6, 7),
        proto: 214,
        ttl: 65,
        ecn: Ecn::Ect0,
    };

    /// A packet of these extension headers, each with its number, and ten octets.
    fn packet(headers: &[(u8, &[u8])]) -> Vec<u8> {
        let mut packet = vec![0; HEADER];
        let mut next = 6;
        for (number, body) in headers {
            packet[next] = *number;
            next = packet.len();
            packet.extend(*body);
        }
        let proto = packet[next];
        packet.extend([7; 10]);
        let length = packet.len() - HEADER;
        let first = packet[6];
        emit(&INFO, length, &mut packet);
        if next > 6 {
            (packet[6], packet[next]) = (first, INFO.proto);
        }
        assert_eq!(proto, 0, "a header's first byte is the next one's number");
        packet
    }

    #[test]
    fn a_header_survives_emit_and_parse() {
        let whole = packet(&[]);
        assert_eq!(whole[..8], [0x60, 0x20, 0, 0, 0, 10, 214, 65]);
        assert_eq!(parse(&whole), Ok((INFO, &[7; 10][..])));
        // What follows is none of it.
        let padded = [&whole[..], &[9; 30]].concat();
        assert_eq!(parse(&padded), Ok((INFO, &[7; 10][..])));
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole[..cut]), Err(IpError::Short), "{cut}");
        }
        let mut other = whole;
        other[0] = 0x45;
        assert_eq!(parse(&other), Err(IpError::Malformed));
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            let mut packet = vec![0; HEADER];
            emit(&IpInfo { ecn, ..INFO }, 0, &mut packet);
            assert_eq!(parse(&packet).map(|(ip, _)| ip.ecn), Ok(ecn));
        }
    }

    #[test]
    fn what_may_be_skipped_is_and_what_has_to_be_obeyed_is_refused() {
        // Padding, a router alert, and an option that nobody knows and anybody may skip.
        let skipped: &[u8] = &[0, 1, 5, 2, 0, 0, 0x1E, 3, 1, 2, 3, 0, 0, 1, 1, 0];
        let routed: &[u8] = &[
            0, 2, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8,
        ];
        let alone: &[u8] = &[0, 0, 0, 0, 1, 2, 3, 4];
        let all = packet(&[
            (HOP_BY_HOP, skipped),
            (DESTINATION, skipped),
            (ROUTING, routed),
            (FRAGMENT, alone),
            (DESTINATION, skipped),
        ]);
        assert_eq!(parse(&all), Ok((INFO, &[7; 10][..])));
        for at in 0..all.len() {
            assert_eq!(parse(&all[..at]), Err(IpError::Short));
        }
        let refused = |number, body: &[u8], why| {
            assert_eq!(
                parse(&packet(&[(number, body)])),
                Err(why),
                "{number} {body:?}"
            );
        };
        for kind in [0x40, 0x80, 0xC2] {
            refused(HOP_BY_HOP, &[0, 0, kind, 4, 0, 1, 0, 0], IpError::Malformed);
        }
        refused(
            DESTINATION,
            &[0, 0, 0x1E, 5, 0, 0, 0, 0],
            IpError::Malformed,
        );
        refused(
            DESTINATION,
            &[0, 0, 1, 3, 0, 0, 0, 0x1E],
            IpError::Malformed,
        );
        refused(DESTINATION, &[0, 2, 1, 4, 0, 0, 0, 0], IpError::Short);
        refused(ROUTING, &[0, 0, 4, 1, 0, 0, 0, 0], IpError::Malformed);
        refused(FRAGMENT, &[0, 0, 0, 1, 1, 2, 3, 4], IpError::Fragment);
        refused(FRAGMENT, &[0, 0, 0, 8, 1, 2, 3, 4], IpError::Fragment);
        let twice = packet(&[(DESTINATION, skipped), (HOP_BY_HOP, skipped)]);
        assert_eq!(parse(&twice), Err(IpError::Malformed));
    }

    #[test]
    fn any_octets_are_survived() {
        let mut rng = Rng::new(20_261_125);
        let numbers = [HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION, 6];
        let mut understood = 0;
        for _ in 0..50_000 {
            let mut octets: Vec<u8> = (0..HEADER + rng.below(64) as usize)
                .map(|_| match rng.below(3) {
                    0 => numbers[rng.below(5) as usize],
                    1 => rng.below(3) as u8,
                    _ => rng.next_u32() as u8,
                })
                .collect();
            (octets[0], octets[4]) = (0x60, 0);
            octets[5] = (octets.len() - HEADER) as u8;
            octets.truncate(rng.below(160) as usize);
            if let Ok((_, payload)) = parse(&octets) {
                understood += 1;
                assert!(payload.len() <= octets.len() - HEADER);
            }
            let _ = crate::ip::parse(&octets);
        }
        assert!(understood > 1000, "{understood}");
    }
}
