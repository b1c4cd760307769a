//! The octets of [`crate::app::pattern`], eight at a time: every octet that crosses a simulated
//! network is written and checked, so it has to be cheap.

const LEFT: u64 = 0x9E37_79B9_7F4A_7C15;
const TIMES: u64 = 0xBF58_476D_1CE4_E5B9;

/// The stream of one side (0, 1) of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern(u64);

impl Pattern {
    pub(crate) fn new(flow: usize, side: usize) -> Pattern {
        Pattern((flow as u64) << 40 ^ (side as u64) << 60 ^ LEFT)
    }

    fn word(self, word: u64) -> u64 {
        let mixed = (word ^ self.0).wrapping_mul(TIMES);
        mixed ^ mixed >> 29
    }

    /// Write the octets from `offset` on.
    pub(crate) fn fill(self, out: &mut [u8], offset: u64) {
        let (head, mut word) = self.split(out.len(), offset);
        let (first, rest) = out.split_at_mut(head);
        for (octet, at) in first.iter_mut().zip(offset..) {
            *octet = (self.word(at >> 3) >> ((at & 7) * 8)) as u8;
        }
        let mut eights = rest.chunks_exact_mut(8);
        for eight in &mut eights {
            eight.copy_from_slice(&self.word(word).to_le_bytes());
            word += 1;
        }
        let last = self.word(word).to_le_bytes();
        let tail = eights.into_remainder();
        let n = tail.len();
        tail.copy_from_slice(&last[..n]);
    }

    /// How many octets differ from those from `offset` on.
    pub(crate) fn wrong(self, octets: &[u8], offset: u64) -> u64 {
        let (head, mut word) = self.split(octets.len(), offset);
        let (first, rest) = octets.split_at(head);
        let byte = |at: u64| (self.word(at >> 3) >> ((at & 7) * 8)) as u8;
        let differ = |piece: &[u8], from: u64| {
            let pairs = piece.iter().zip(from..);
            pairs.filter(|(octet, at)| **octet != byte(*at)).count() as u64
        };
        let mut wrong = differ(first, offset);
        let mut eights = rest.chunks_exact(8);
        for eight in &mut eights {
            let mut octets = [0; 8];
            octets.copy_from_slice(eight);
            if u64::from_le_bytes(octets) != self.word(word) {
                wrong += differ(eight, word << 3);
            }
            word += 1;
        }
        wrong + differ(eights.remainder(), word << 3)
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
