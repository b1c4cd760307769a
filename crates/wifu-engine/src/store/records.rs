//! Records: octets cut once into numbered packets and never re-cut (the ends of HxH).

use super::ring::Ring;
use std::collections::VecDeque;
use wifu_wire::Seq;

/// The send store of packet-numbered compositions at their ends.
#[derive(Debug)]
pub struct Records {
    ring: Ring,
    /// Position of the first octet kept and the number of octets kept.
    base: u32,
    len: u32,
    limit: u32,
    payload: u32,
    /// Number of the first record kept.
    first: Seq,
    /// (position, length) of each record kept; the last may still grow.
    cut: VecDeque<(u32, u32)>,
    open: bool,
}

impl Records {
    /// Room for `limit` octets in records of up to `payload` octets, numbered from `first`.
    pub fn new(limit: u32, payload: u32, first: Seq) -> Records {
        let payload = payload.max(1);
        // A record of one octet is the worst case; the table is bounded like the octets.
        let most = (limit / payload + 64) as usize;
        let cut = VecDeque::with_capacity(most);
        Records {
            ring: Ring::new(limit),
            base: 0,
            len: 0,
            limit,
            payload,
            first,
            cut,
            open: false,
        }
    }

    /// Octets that can be written; none while the table of records is full.
    pub fn room(&self) -> u32 {
        let tail = if self.open {
            self.payload - self.cut.back().map_or(0, |r| r.1)
        } else {
            0
        };
        let spare = (self.cut.capacity() - self.cut.len()) as u32;
        (self.limit - self.len).min(tail.saturating_add(spare.saturating_mul(self.payload)))
    }

    /// Append; returns how many octets fitted. Full records are cut at once.
    pub fn write(&mut self, bytes: &[u8]) -> u32 {
        let n = self
            .room()
            .min(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        let position = self.base.wrapping_add(self.len);
        self.ring.put(position, &bytes[..n as usize]);
        self.wrote(n);
        n
    }

    /// The free space, to be filled in place and committed with [`Records::wrote`].
    pub fn space(&mut self) -> [&mut [u8]; 2] {
        let room = self.room();
        let position = self.base.wrapping_add(self.len);
        self.ring.pieces_mut(position, room)
    }

    /// `n` octets of the space were filled: full records are cut at once.
    pub fn wrote(&mut self, n: u32) {
        let mut left = n.min(self.room());
        while left > 0 {
            let position = self.base.wrapping_add(self.len);
            if !self.open {
                self.cut.push_back((position, 0));
                self.open = true;
            }
            let Some(last) = self.cut.back_mut() else {
                break;
            };
            let take = (self.payload - last.1).min(left);
            last.1 += take;
            self.open = last.1 < self.payload;
            self.len += take;
            left -= take;
        }
    }

    /// The last record is cut, whatever its size.
    pub fn cut(&mut self) {
        self.open = false;
    }

    /// One past the last record that may be sent.
    pub fn end(&self) -> Seq {
        self.first
            .plus(self.cut.len() as u32 - u32::from(self.open))
    }

    /// The octets of a record, in two pieces; empty if it is not kept.
    pub fn record(&self, number: Seq) -> [&[u8]; 2] {
        match self.cut.get(number.since(self.first) as usize) {
            Some((position, len)) => self.ring.pieces(*position, *len),
            None => [&[], &[]],
        }
    }

    /// The position of a record's first octet among all that were written, modulo 2^32; of what is
    /// not kept any more or not cut yet that of the nearest that is.
    pub fn position(&self, number: Seq) -> u32 {
        if number.before(self.first) {
            return self.base;
        }
        let cut = self.cut.get(number.since(self.first) as usize);
        cut.map_or(self.written(), |(position, _)| *position)
    }

    /// How many octets were written so far, modulo 2^32.
    pub fn written(&self) -> u32 {
        self.base.wrapping_add(self.len)
    }

    /// Forget records before `upto`; returns how many octets they had.
    pub fn free(&mut self, upto: Seq) -> u32 {
        let before = self.base;
        while self.first.before(upto) {
            let Some((_, len)) = self.cut.pop_front() else {
                break;
            };
            self.base = self.base.wrapping_add(len);
            self.len -= len;
            self.first = self.first.plus(1);
        }
        self.base.wrapping_sub(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_are_cut_once() {
        let mut r = Records::new(100, 4, Seq(1));
        assert_eq!(r.write(b"abcdef"), 6);
        assert_eq!(r.end(), Seq(2));
        r.cut();
        assert_eq!(r.end(), Seq(3));
        r.write(b"gh");
        r.cut();
        assert_eq!(r.record(Seq(2)).concat(), b"ef");
        assert_eq!(r.record(Seq(3)).concat(), b"gh");
        assert_eq!(r.free(Seq(3)), 6, "octets, of two records");
        assert_eq!(r.free(Seq(3)), 0);
        assert_eq!(r.record(Seq(2)).concat(), b"");
        assert_eq!(r.room(), 98);
    }

    #[test]
    fn records_have_positions_among_octets() {
        let mut r = Records::new(100, 4, Seq(1));
        r.write(b"abcdef");
        r.cut();
        r.write(b"gh");
        let all = |r: &Records| [0, 1, 2, 3, 4].map(|n| r.position(Seq(n)));
        assert_eq!((all(&r), r.written()), ([0, 0, 4, 6, 8], 8));
        r.free(Seq(3));
        assert_eq!(all(&r), [6, 6, 6, 6, 8]);
    }

    #[test]
    fn what_is_filled_in_place_is_cut_as_what_is_written() {
        let mut r = Records::new(100, 4, Seq(1));
        let [a, _] = r.space();
        assert_eq!(a.len(), 100);
        a[..6].copy_from_slice(b"abcdef");
        r.wrote(6);
        assert_eq!(
            (r.end(), r.record(Seq(1)).concat()),
            (Seq(2), b"abcd".to_vec())
        );
        r.wrote(1_000);
        assert_eq!(r.room(), 0, "no more than there is room for");
    }
}
