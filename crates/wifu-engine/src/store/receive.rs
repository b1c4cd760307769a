//! Reassembly: a ring and a fixed table of ranges that wait beyond a hole.

use super::ring::Ring;
use crate::signal::Arrival;
use wifu_wire::Seq;

/// How many ranges may always wait out of order. Large buffers get one per 1024 octets, so that
/// what was reported need not be taken back: a sender without reports waits for its timer. Beyond,
/// the farthest are dropped and counted.
pub const RANGES: usize = 128;

/// The most ranges that wait out of order, however large the buffer is.
const MOST_RANGES: usize = 8192;

/// What an insertion did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Insert {
    /// How it fits.
    pub order: Arrival,
    /// Octets missing for the first time before it.
    pub gap: u32,
    /// Octets by which the in-order end moved.
    pub advanced: u32,
}

/// The receiving half of a store.
#[derive(Debug)]
pub struct Reassembly {
    ring: Ring,
    /// First octet that the application has not read.
    base: Seq,
    /// Next in order.
    nxt: Seq,
    limit: u32,
    most: usize,
    /// Sorted, disjoint, not adjacent; all after `nxt`. The newest is remembered for SACK.
    ranges: Vec<(Seq, Seq)>,
    newest: Option<(Seq, Seq)>,
    /// Ranges given up because the table was full.
    pub dropped: u64,
}

impl Reassembly {
    /// Room for `limit` octets; the first to come is number `base`.
    pub fn new(limit: u32, base: Seq) -> Reassembly {
        Reassembly {
            ring: Ring::new(limit),
            base,
            nxt: base,
            limit,
            most: (limit as usize / 1024).clamp(RANGES, MOST_RANGES),
            ranges: Vec::with_capacity(RANGES + 1),
            newest: None,
            dropped: 0,
        }
    }

    /// Next in order.
    pub fn nxt(&self) -> Seq {
        self.nxt
    }

    /// Octets in order that the application has not read.
    pub fn unread(&self) -> u32 {
        self.nxt.since(self.base)
    }

    /// Octets that may come from `nxt` on. Out-of-order octets don't shrink it (Behaviour 4.4).
    pub fn window(&self) -> u32 {
        self.limit - self.unread()
    }

    /// Ranges beyond a hole, in sequence order.
    pub fn ranges(&self) -> &[(Seq, Seq)] {
        &self.ranges
    }

    /// The range that the latest arrival belongs to, if it waits beyond a hole (RFC 2018: it is
    /// reported first).
    pub fn newest(&self) -> Option<(Seq, Seq)> {
        self.newest
    }

    /// Put octets where they belong. What lies before `nxt` or beyond the window is cut off.
    pub fn insert(&mut self, at: Seq, bytes: &[u8]) -> Insert {
        let nothing = Insert {
            order: Arrival::Duplicate,
            gap: 0,
            advanced: 0,
        };
        let (mut at, mut bytes) = (at, bytes);
        if at.before(self.nxt) {
            let old = self.nxt.since(at) as usize;
            if old >= bytes.len() {
                return nothing;
            }
            (at, bytes) = (self.nxt, &bytes[old..]);
        }
        let (offset, window) = (at.since(self.nxt), self.window());
        if offset >= window || bytes.is_empty() {
            return nothing;
        }
        bytes = &bytes[..bytes.len().min((window - offset) as usize)];
        let end = at.plus(bytes.len() as u32);
        if self.ranges.iter().any(|r| r.0.upto(at) && end.upto(r.1)) {
            self.newest = self
                .ranges
                .iter()
                .copied()
                .find(|r| r.0.upto(at) && end.upto(r.1));
            return nothing;
        }
        self.ring.put(at.0, bytes);
        if offset == 0 {
            return self.advance(end);
        }
        let gap = self.fresh_gap(at);
        let filled = self.ranges.last().is_some_and(|r| at.before(r.1));
        self.note(at, end);
        let order = if filled {
            Arrival::Fills
        } else {
            Arrival::Ahead
        };
        Insert {
            order,
            gap,
            advanced: 0,
        }
    }

    /// The in-order end moves to `end` and over every range that it reaches.
    fn advance(&mut self, end: Seq) -> Insert {
        let before = self.nxt;
        let waiting = !self.ranges.is_empty();
        self.nxt = end;
        let reached = self
            .ranges
            .iter()
            .take_while(|r| r.0.upto(self.nxt))
            .count();
        if reached > 0 {
            self.nxt = self.nxt.later(self.ranges[reached - 1].1);
            self.ranges.drain(..reached);
        }
        self.newest = None;
        let order = if waiting {
            Arrival::Fills
        } else {
            Arrival::InOrder
        };
        Insert {
            order,
            gap: 0,
            advanced: self.nxt.since(before),
        }
    }

    /// Octets between everything known so far and `at`.
    fn fresh_gap(&self, at: Seq) -> u32 {
        let known = self.ranges.last().map_or(self.nxt, |r| r.1);
        at.beyond(known)
    }

    /// Enter a range, joining those that it touches.
    fn note(&mut self, mut start: Seq, mut end: Seq) {
        let first = self.ranges.iter().take_while(|r| r.1.before(start)).count();
        let last = first
            + self.ranges[first..]
                .iter()
                .take_while(|r| r.0.upto(end))
                .count();
        for r in &self.ranges[first..last] {
            start = start.earlier(r.0);
            end = end.later(r.1);
        }
        self.ranges.drain(first..last);
        self.ranges.insert(first, (start, end));
        self.newest = Some((start, end));
        if self.ranges.len() > self.most {
            let farthest = self.ranges.pop();
            self.dropped += 1;
            if farthest == self.newest {
                self.newest = None;
            }
        }
    }

    /// What the application can read, in two pieces.
    pub fn readable(&self) -> [&[u8]; 2] {
        self.ring.pieces(self.base.0, self.unread())
    }

    /// The application took `n` octets.
    pub fn consume(&mut self, n: u32) {
        assert!(n <= self.unread(), "more bytes consumed than there were");
        self.base = self.base.plus(n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(r: &mut Reassembly, at: u32, bytes: &[u8]) -> (Arrival, u32, u32) {
        let i = r.insert(Seq(at), bytes);
        (i.order, i.gap, i.advanced)
    }

    #[test]
    fn holes_fill_and_the_first_copy_is_delivered() {
        let mut r = Reassembly::new(16, Seq(100));
        assert_eq!(insert(&mut r, 100, b"ab"), (Arrival::InOrder, 0, 2));
        assert_eq!(insert(&mut r, 104, b"ef"), (Arrival::Ahead, 2, 0));
        assert_eq!(insert(&mut r, 104, b"ef"), (Arrival::Duplicate, 0, 0));
        assert_eq!(insert(&mut r, 108, b"ij"), (Arrival::Ahead, 2, 0));
        assert_eq!(r.newest(), Some((Seq(108), Seq(110))));
        assert_eq!(insert(&mut r, 106, b"gh"), (Arrival::Fills, 0, 0));
        assert_eq!(r.ranges(), [(Seq(104), Seq(110))]);
        assert_eq!(insert(&mut r, 101, b"bcd"), (Arrival::Fills, 0, 8));
        assert_eq!(r.readable().concat(), b"abcdefghij");
        r.consume(10);
        assert_eq!(r.window(), 16);
    }

    #[test]
    fn nothing_enters_beyond_the_window() {
        let mut r = Reassembly::new(4, Seq(0));
        assert_eq!(insert(&mut r, 2, b"cdefgh"), (Arrival::Ahead, 2, 0));
        assert_eq!(insert(&mut r, 4, b"e"), (Arrival::Duplicate, 0, 0));
        assert_eq!(insert(&mut r, 0, b"abXX"), (Arrival::Fills, 0, 4));
        assert_eq!(r.window(), 0);
        assert_eq!(insert(&mut r, 4, b"e"), (Arrival::Duplicate, 0, 0));
    }

    #[test]
    fn the_table_of_ranges_is_bounded() {
        let mut r = Reassembly::new(4096, Seq(0));
        for i in (1..=RANGES as u32 + 5).rev() {
            r.insert(Seq(i * 2), b"x");
        }
        assert_eq!(r.ranges().len(), RANGES);
        assert_eq!(r.dropped, 5);
        assert_eq!(r.ranges()[0].0, Seq(2));
    }
}
