//! Duplicate acknowledgements in the place of reports, where the peer sends none (Linux,
//! `tcp_add_reno_sack`). Each says that a segment left. More of them than segments can have left
//! are taken for reordering, and the threshold rises to what is outstanding
//! (`tcp_check_reno_reordering`), also where it was needless retransmissions that they answer; it
//! stays there. Counts segments.

use crate::params::ParamSpec;

/// `tcp_max_reordering`.
const MOST: u32 = 300;

/// The switch.
pub const EMULATE: ParamSpec = ParamSpec::flag(
    "emulate",
    false,
    "Where the peer reports no ranges duplicates stand for reports, each for a segment that left; \
     more of them than that raise the threshold to what is outstanding (Linux, tcp_add_reno_sack, \
     tcp_check_reno_reordering).",
);

/// The count, and the threshold.
#[derive(Clone, Copy, Debug)]
pub struct Duplicates {
    /// Segments that left and are not acknowledged: `sacked_out`.
    left: u32,
    /// So many mean a loss: `reordering`.
    threshold: u32,
}

impl Duplicates {
    /// None yet; so many mean a loss.
    pub fn new(threshold: u32) -> Duplicates {
        Duplicates { left: 0, threshold }
    }

    /// Segments that left.
    pub fn left(&self) -> u32 {
        self.left
    }

    /// There are so many that something was lost.
    pub fn enough(&self) -> bool {
        self.left >= self.threshold
    }

    /// So many mean a loss.
    pub fn threshold(&self) -> u32 {
        self.threshold
    }

    /// One more; `out` segments are outstanding, `lost` of them lost.
    pub fn add(&mut self, out: u32, lost: u32) {
        self.left += 1;
        self.check(out, lost, 0);
    }

    /// `acked` segments were acknowledged: one filled a hole, the others had left before. Returns
    /// how many are delivered by it.
    pub fn acked(&mut self, acked: u32, out: u32, lost: u32) -> u32 {
        let delivered = acked.saturating_sub(self.left).max(1);
        self.left = self.left.saturating_sub(acked.saturating_sub(1));
        self.check(out, lost, acked);
        delivered
    }

    /// What is outstanding begins anew.
    pub fn reset(&mut self) {
        self.left = 0;
    }

    fn check(&mut self, out: u32, lost: u32, more: u32) {
        let holes = lost.max(1).min(out);
        if self.left + holes > out {
            self.left = out - holes;
            self.threshold = (out + more).min(MOST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_duplicate_tells_of_a_loss_and_a_hole_that_is_filled_of_the_rest() {
        let mut d = Duplicates::new(3);
        for n in 1..=18 {
            d.add(20, u32::from(n > 3));
            assert_eq!(d.enough(), n >= 3);
        }
        // The second hole is the tenth segment: nine are acknowledged, ten of the others left.
        assert_eq!(d.acked(9, 11, 0), 1);
        assert_eq!((d.left(), d.threshold()), (10, 3));
    }

    #[test]
    fn more_duplicates_than_segments_raise_the_threshold() {
        let mut d = Duplicates::new(3);
        // Ten of twelve are lost: two can have left, and a third cannot.
        for (n, threshold) in [(1, 3), (2, 3), (3, 12)] {
            d.add(12, 10);
            assert_eq!((d.left(), d.threshold()), (n.min(2), threshold));
        }
        d.reset();
        for _ in 0..8 {
            d.add(12, 0);
        }
        assert!(!d.enough(), "eight of twelve are no sign any more");
        d.add(1000, 0);
        d.acked(1, 0, 0);
        d.add(0, 0);
        assert_eq!(d.left(), 0);
    }
}
