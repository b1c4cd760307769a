//! How many frames a node's kernel may hand down to its driver: what the driver's ring takes.
//!
//! A real driver stops its queue when the ring is full and wakes it when the ring is half empty.
//! Here the kernel is granted frames ahead, so that it never waits for us while there is room.

/// Frames that are granted at least to an empty ring, be it smaller: the rest waits in the TAP, for
/// a grant takes longer than the hardware needs for the one frame that such a ring holds.
const LEAST: u32 = 8;

/// What one node's kernel may still hand down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit {
    /// Frames in the driver's ring at most.
    size: u32,
    /// Granted and not yet read, at most.
    left: u32,
    /// The ring was full and is not yet half empty.
    stopped: bool,
}

impl Credit {
    /// Nothing is granted yet.
    pub fn new(size: u32) -> Credit {
        Credit {
            size: size.max(LEAST),
            left: 0,
            stopped: false,
        }
    }

    /// The kernel handed a frame down.
    pub fn spend(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// Whatever was granted may be gone.
    pub fn forget(&mut self) {
        self.left = 0;
    }

    /// What to grant now, in place of what is left, with so many frames in the ring. Nothing is
    /// unless `empty` says that all was read that came down before.
    pub fn due(&mut self, waiting: u32, empty: impl FnOnce() -> bool) -> Option<u32> {
        let free = self.size.saturating_sub(waiting);
        // The ring counts as full a little early, for frames leave it while others come down.
        if self.left == 0 && free <= self.size / 8 {
            self.stopped = true;
        }
        if self.stopped && waiting > self.size / 2 {
            return None;
        }
        self.stopped = false;
        if free == 0 || 2 * self.left > free || !empty() {
            return None;
        }
        self.left = free;
        Some(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring that takes from a kernel which always has more and gives to a radio; gives how often
    /// something was granted, and the fewest and most frames in the ring after the first filling.
    fn saturate(size: u32, frames: u32) -> (u32, u32, u32) {
        let (mut credit, mut waiting, mut grants) = (Credit::new(size), 0, 0);
        let (mut least, mut most) = (size, 0);
        for _ in 0..frames {
            if let Some(granted) = credit.due(waiting, || true) {
                grants += 1;
                for _ in 0..granted {
                    credit.spend();
                    waiting += 1;
                }
            }
            most = most.max(waiting);
            waiting -= 1;
            least = least.min(waiting);
        }
        (grants, least, most)
    }

    #[test]
    fn a_full_ring_stops_and_a_half_empty_one_is_filled_at_once() {
        // The first filling, then one for each hundred frames.
        assert_eq!(saturate(200, 1100), (11, 100, 200));
        assert_eq!(saturate(50, 525), (21, 25, 50));
    }

    #[test]
    fn an_empty_ring_is_never_out_of_credit() {
        let mut credit = Credit::new(200);
        let mut grants = 0;
        for _ in 0..1000 {
            grants += u32::from(credit.due(0, || true).is_some());
            assert!(credit.left >= 100);
            credit.spend();
        }
        assert_eq!(grants, 10);
    }

    #[test]
    fn more_is_never_granted_than_the_ring_takes() {
        let mut credit = Credit::new(200);
        for waiting in [0, 199, 150, 20, 200, 240, 101, 100] {
            let _ = credit.due(waiting, || true);
            for _ in 0..40 {
                credit.spend();
            }
            if let Some(granted) = credit.due(waiting, || true) {
                assert!(granted + waiting <= 200);
            }
        }
        credit.forget();
        assert_eq!(credit.due(0, || false), None, "what came down is not read");
        assert_eq!(credit.due(0, || true), Some(200));
        assert_eq!(credit.due(0, || true), None);
        assert_eq!(Credit::new(1).due(1, || true), Some(7));
    }
}
