//! The Internet checksum (RFC 1071).

use core::net::IpAddr;

/// A running ones' complement sum over big-endian 16-bit words, kept in 64 bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// Add bytes; an odd last byte counts as if a zero followed, so only the last call may be odd.
    // It adds octets to a sum, not two sums, so `Add` would promise more than there is.
    #[allow(clippy::should_implement_trait)]
    pub fn add(mut self, bytes: &[u8]) -> Sum {
        // Whole words of 64 bits in native byte order, the carry added at the other end: RFC 1071
        // section 2 allows both, and the swap is done once at the end. The carry runs through four
        // words before it is kept.
        let (mut sum, mut carry) = (0u64, false);
        let (fours, rest) = bytes.as_chunks::<32>();
        for four in fours {
            let (words, _) = four.as_chunks::<8>();
            for word in words {
                (sum, carry) = sum.carrying_add(u64::from_ne_bytes(*word), carry);
            }
            // No overflow: all ones and a carry would need all ones and a carry before that word.
            (sum, carry) = (sum + u64::from(carry), false);
        }
        let (words, rest) = rest.as_chunks::<4>();
        for w in words {
            self.0 += u64::from(u32::from_ne_bytes(*w));
        }
        let last = match rest {
            [a, b, c] => u32::from_ne_bytes([*a, *b, *c, 0]),
            [a, b] => u32::from_ne_bytes([*a, *b, 0, 0]),
            [a] => u32::from_ne_bytes([*a, 0, 0, 0]),
            _ => 0,
        };
        self.0 += u64::from(last);
        self.0 += (sum & 0xFFFF_FFFF) + (sum >> 32);
        self
    }

    /// Add one big-endian word.
    pub fn add_word(mut self, word: u16) -> Sum {
        self.0 += u64::from(word.to_be());
        self
    }

    /// The checksum: complement of the folded sum, as a number in host order.
    pub fn finish(self) -> u16 {
        let mut s = self.0;
        s = (s & 0xFFFF_FFFF) + (s >> 32);
        while s >> 16 != 0 {
            s = (s & 0xFFFF) + (s >> 16);
        }
        u16::from_be(!(s as u16))
    }
}

/// The addresses and protocol that transport checksums cover besides the segment: RFC 9293 3.1, RFC
/// 8200 8.1. Both sum up the same, for what IPv6 has longer is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pseudo {
    /// The sum over both addresses.
    ends: u64,
    /// IP protocol number that the packet really carries (Behaviour 4.1).
    proto: u8,
}

impl Pseudo {
    /// Of a packet from `src` to `dst`, both of one family.
    #[inline]
    pub fn new(src: impl Into<IpAddr>, dst: impl Into<IpAddr>, proto: u8) -> Pseudo {
        let ends = words(src.into()) + words(dst.into());
        Pseudo { ends, proto }
    }

    /// The same under another protocol number.
    #[must_use]
    pub const fn under(self, proto: u8) -> Pseudo {
        Pseudo { proto, ..self }
    }

    /// The sum over the pseudo-header of a segment of `len` octets.
    #[inline]
    pub fn sum(&self, len: usize) -> Sum {
        let plain = Sum(self.ends).add_word(u16::from(self.proto));
        plain.add_word(len as u16)
    }
}

/// The sum of an address's words, which two of do not overflow.
#[inline]
fn words(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(a) => u64::from(u32::from_ne_bytes(a.octets())),
        IpAddr::V6(a) => {
            let octets = a.octets();
            let (words, _) = octets.as_chunks::<4>();
            let words = words.iter().map(|w| u64::from(u32::from_ne_bytes(*w)));
            words.sum()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn the_example_of_rfc_1071() {
        let sum = Sum::default().add(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.finish(), !0xddf2);
    }

    #[test]
    fn a_pseudo_header_sums_up_as_if_it_were_written_out() {
        // RFC 8200 8.1: addresses, length in 32 bits, three zeros, next header.
        let (src, dst) = ("2001:db8::ffff:1", "fe80::ab:cdef:fedc:1");
        let (src, dst): (Ipv6Addr, Ipv6Addr) = (src.parse().unwrap(), dst.parse().unwrap());
        let mut octets = [&src.octets()[..], &dst.octets()].concat();
        octets.extend([0, 0, 5, 220, 0, 0, 0, 215]);
        let plain = Sum::default().add(&octets).finish();
        assert_eq!(Pseudo::new(src, dst, 215).sum(1500).finish(), plain);
        assert_eq!(
            Pseudo::new(src, dst, 6).under(215).sum(1500).finish(),
            plain
        );
        // RFC 9293 3.1: addresses, zero, protocol, length.
        let octets = [10, 0, 0, 1, 192, 168, 255, 2, 0, 6, 5, 220];
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(192, 168, 255, 2));
        let plain = Sum::default().add(&octets).finish();
        assert_eq!(Pseudo::new(src, dst, 6).sum(1500).finish(), plain);
    }

    #[test]
    fn any_length_agrees_with_the_plain_definition() {
        let mixed: Vec<u8> = (0..97u32).map(|i| (i * 37 + 11) as u8).collect();
        // Every word of these carries over.
        let full = vec![0xFF; 1501];
        for (bytes, n) in (0..97)
            .map(|n| (&mixed, n))
            .chain((1400..1501).map(|n| (&full, n)))
        {
            let mut plain = 0u32;
            for pair in bytes[..n].chunks(2) {
                plain += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            }
            while plain >> 16 != 0 {
                plain = (plain & 0xFFFF) + (plain >> 16);
            }
            assert_eq!(
                Sum::default().add(&bytes[..n]).finish(),
                !(plain as u16),
                "length {n}"
            );
        }
    }
}
