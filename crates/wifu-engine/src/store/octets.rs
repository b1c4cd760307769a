//! The send ring of stream compositions: octets kept until they are acknowledged.

use super::ring::Ring;
use wifu_wire::Seq;

/// Octets written by the application and not yet freed.
#[derive(Debug)]
pub struct SendRing {
    ring: Ring,
    /// Sequence number of the first octet kept.
    base: Seq,
    len: u32,
    limit: u32,
}

impl SendRing {
    /// Room for `limit` octets; the first written will be number `base`.
    pub fn new(limit: u32, base: Seq) -> SendRing {
        SendRing {
            ring: Ring::new(limit),
            base,
            len: 0,
            limit,
        }
    }

    /// Octets that can be written.
    pub fn room(&self) -> u32 {
        self.limit - self.len
    }

    /// Octets kept.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Append; returns how many octets fitted.
    pub fn write(&mut self, bytes: &[u8]) -> u32 {
        let n = self
            .room()
            .min(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.ring
            .put(self.base.0.wrapping_add(self.len), &bytes[..n as usize]);
        self.len += n;
        n
    }

    /// The free space, to be filled in place and committed with [`SendRing::wrote`].
    pub fn space(&mut self) -> [&mut [u8]; 2] {
        let (at, room) = (self.base.0.wrapping_add(self.len), self.room());
        self.ring.pieces_mut(at, room)
    }

    /// `n` octets of the space were filled.
    pub fn wrote(&mut self, n: u32) {
        assert!(
            n <= self.room(),
            "more bytes committed than there was space"
        );
        self.len += n;
    }

    /// The octets from `start`, `len` of them, in two pieces. Cut to what is kept.
    #[inline]
    pub fn slice(&self, start: Seq, len: u32) -> [&[u8]; 2] {
        let offset = start.since(self.base);
        if offset > self.len {
            return [&[], &[]];
        }
        self.ring.pieces(start.0, len.min(self.len - offset))
    }

    /// Forget octets before `upto`; returns how many.
    pub fn free(&mut self, upto: Seq) -> u32 {
        if upto.upto(self.base) {
            return 0;
        }
        let n = upto.since(self.base).min(self.len);
        self.base = self.base.plus(n);
        self.len -= n;
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_wrap_around_memory_and_sequence_space() {
        let mut s = SendRing::new(8, Seq(u32::MAX - 3));
        assert_eq!(s.write(b"abcdefghij"), 8);
        assert_eq!(s.free(Seq(1)), 5);
        assert_eq!(s.write(b"klmnop"), 5);
        let [a, b] = s.slice(Seq(1), 8);
        assert_eq!([a, b].concat(), b"fghklmno");
        assert_eq!(s.room(), 0);
        assert_eq!(s.slice(Seq(100), 8).concat(), b"");
    }
}
