//! What a host that relays says of packets that it cannot send on: ICMP errors (RFC 792, RFC 1812
//! section 4.3).

use core::net::Ipv4Addr;
use wifu_core::ip;
use wifu_wire::checksum::Sum;
use wifu_wire::ipv4::{self, HEADER};
use wifu_wire::{Ecn, IpInfo, Span, Time};

/// IP protocol number of ICMP.
const ICMP: u8 = 1;
/// What an error quotes at most, so that it is not longer than 576 octets (RFC 1812 section
/// 4.3.2.3).
pub(crate) const QUOTED: usize = 576 - HEADER - ICMP_HEADER;
const ICMP_HEADER: usize = 8;
/// As many errors at once, and one more in this time (RFC 1812 section 4.3.2.8).
const BURST: u64 = 50;
const EVERY: Span = Span(10_000_000);

/// Why a packet does not go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// Its TTL is used up.
    Expired,
    /// There is no route to its destination.
    NoRoute,
    /// It is longer than the next link takes, octets.
    Long(u16),
    /// It is a fragment, which no handler and no lane can read.
    Fragment,
}

impl Refused {
    /// Type, code, and the last two octets of the header.
    fn words(self) -> (u8, u8, u16) {
        match self {
            Refused::Expired => (11, 0, 0),
            Refused::NoRoute => (3, 0, 0),
            // RFC 1191 section 4.
            Refused::Long(mtu) => (3, 4, mtu),
            // "Administratively prohibited", RFC 1812 section 5.2.7.1.
            Refused::Fragment => (3, 13, 0),
        }
    }
}

/// Writes errors, not too many of them.
pub(crate) struct Errors {
    octets: Vec<u8>,
    /// As if this many tokens' time had passed: a bucket that is full at `BURST`.
    full_at: Time,
}

impl Errors {
    pub(crate) fn new() -> Errors {
        Errors {
            octets: Vec::with_capacity(576),
            full_at: Time::ZERO,
        }
    }

    /// The error about a packet, a message from the address that the kernel will fill in, and
    /// who gets it; `None` if there were too many. The packet came in a frame to this host, from an
    /// address that a host can have, is no later fragment and no ICMP itself.
    pub(crate) fn about(
        &mut self,
        now: Time,
        packet: &[u8],
        why: Refused,
    ) -> Option<(&[u8], Ipv4Addr)> {
        let after = self.full_at.max(now) + EVERY;
        if after > now + EVERY * BURST {
            return None;
        }
        self.full_at = after;
        let (to, _) = ip::addresses(packet);
        let quoted = &packet[..packet.len().min(QUOTED)];
        let (kind, code, last) = why.words();
        self.octets.clear();
        self.octets.resize(HEADER, 0);
        self.octets.extend([kind, code, 0, 0, 0, 0]);
        self.octets.extend(last.to_be_bytes());
        self.octets.extend(quoted);
        let sum = Sum::default().add(&self.octets[HEADER..]).finish();
        self.octets[HEADER + 2..HEADER + 4].copy_from_slice(&sum.to_be_bytes());
        let info = IpInfo {
            src: Ipv4Addr::UNSPECIFIED,
            dst: to,
            proto: ICMP,
            ttl: ipv4::TTL,
            ecn: Ecn::NotEct,
        };
        ipv4::emit(&info, self.octets.len() - HEADER, &mut self.octets);
        Some((&self.octets, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(len: usize) -> Vec<u8> {
        let mut packet = vec![7; len];
        let info = IpInfo {
            src: Ipv4Addr::new(10, 0, 0, 1),
            dst: Ipv4Addr::new(10, 0, 0, 9),
            proto: 245,
            ttl: 1,
            ecn: Ecn::NotEct,
        };
        ipv4::emit(&info, len - HEADER, &mut packet);
        packet
    }

    #[test]
    fn an_error_quotes_the_packet_and_has_its_sum() {
        let mut errors = Errors::new();
        for (why, words) in [
            (Refused::Expired, [11, 0, 0, 0]),
            (Refused::NoRoute, [3, 0, 0, 0]),
            (Refused::Long(1400), [3, 4, 5, 120]),
            (Refused::Fragment, [3, 13, 0, 0]),
        ] {
            for len in [60, 1500] {
                let packet = packet(len);
                let (octets, to) = errors.about(Time(1), &packet, why).unwrap();
                assert_eq!(to, Ipv4Addr::new(10, 0, 0, 1));
                let (info, body) = ipv4::parse(octets).unwrap();
                assert_eq!((info.proto, info.dst), (1, to));
                assert_eq!([body[0], body[1], body[6], body[7]], words);
                assert_eq!(Sum::default().add(body).finish(), 0);
                assert_eq!(octets.len(), 576.min(28 + len));
                assert_eq!(body[8..], packet[..octets.len() - 28]);
            }
        }
    }

    #[test]
    fn a_flood_of_packets_is_not_answered_by_a_flood_of_errors() {
        let mut errors = Errors::new();
        let packet = packet(60);
        let mut said = |now| errors.about(now, &packet, Refused::Expired).is_some();
        let at_once = (0..1000).filter(|_| said(Time(5))).count();
        assert_eq!(at_once as u64, BURST);
        // Another second.
        let later = (0..1000).filter(|i| said(Time(1_000_000 * i))).count();
        assert!((90..=110).contains(&later), "{later}");
    }
}
