//! The octets of [`crate::app::pattern`], eight at a time: every octet that crosses a simulated
//! network is written and checked, so it has to be cheap.

use crate::app::{PATTERN_STEP, pattern_start};

/// The stream of one side (0, 1) of a flow: its first word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern(u64);

impl Pattern {
    pub(crate) fn new(flow: usize, side: usize) -> Pattern {
        Pattern(pattern_start(flow, side))
    }

    fn word(self, word: u64) -> u64 {
        self.0.wrapping_add(word.wrapping_mul(PATTERN_STEP))
    }

    fn octet(self, at: u64) -> u8 {
        (self.word(at >> 3) >> ((at & 7) * 8)) as u8
    }

    /// Write the octets from `offset` on.
    pub(crate) fn fill(self, out: &mut [u8], offset: u64) {
        let (head, first) = self.split(out.len(), offset);
        let (head, rest) = out.split_at_mut(head);
        for (octet, at) in head.iter_mut().zip(offset..) {
            *octet = self.octet(at);
        }
        let mut word = self.word(first);
        let (eights, tail) = rest.as_chunks_mut::<8>();
        for eight in eights {
            *eight = word.to_le_bytes();
            word = word.wrapping_add(PATTERN_STEP);
        }
        let n = tail.len();
        tail.copy_from_slice(&word.to_le_bytes()[..n]);
    }

    /// How many octets differ from those from `offset` on.
    pub(crate) fn wrong(self, octets: &[u8], offset: u64) -> u64 {
        let (head, first) = self.split(octets.len(), offset);
        let (head, rest) = octets.split_at(head);
        let (eights, tail) = rest.as_chunks::<8>();
        let (mut word, mut differences) = (self.word(first), 0);
        for eight in eights {
            differences |= u64::from_le_bytes(*eight) ^ word;
            word = word.wrapping_add(PATTERN_STEP);
        }
        let end = (first + eights.len() as u64) << 3;
        let mut wrong = self.differ(head, offset) + self.differ(tail, end);
        if differences != 0 {
            wrong += self.differ(eights.as_flattened(), first << 3);
        }
        wrong
    }

    /// [`Pattern::wrong`], one octet at a time.
    fn differ(self, octets: &[u8], offset: u64) -> u64 {
        let pairs = octets.iter().zip(offset..);
        pairs.filter(|(o, at)| **o != self.octet(*at)).count() as u64
    }

    /// Octets before the first whole word, and that word's number.
    fn split(self, len: usize, offset: u64) -> (usize, u64) {
        let head = (offset.wrapping_neg() & 7) as usize;
        (head.min(len), offset.div_ceil(8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::pattern;

    #[test]
    fn it_is_the_mock_networks_pattern_at_every_alignment() {
        for (flow, side) in [(0, 0), (3, 1)] {
            for offset in (0..20).chain([1448, 2_000_003]) {
                for len in [0, 1, 3, 7, 8, 9, 20, 1448] {
                    let mut out = vec![0; len];
                    let p = Pattern::new(flow, side);
                    p.fill(&mut out, offset);
                    let expected: Vec<u8> = (offset..offset + len as u64)
                        .map(|at| pattern(flow, side, at))
                        .collect();
                    assert_eq!(out, expected, "{flow} {side} {offset} {len}");
                    assert_eq!(p.wrong(&out, offset), 0);
                }
            }
        }
    }

    #[test]
    fn every_wrong_octet_counts() {
        let p = Pattern::new(1, 0);
        let mut out = vec![0; 100];
        p.fill(&mut out, 5);
        for at in [0, 2, 3, 50, 51, 99] {
            out[at] ^= 1;
        }
        assert_eq!(p.wrong(&out, 5), 6);
    }
}
