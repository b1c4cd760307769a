//! Events of the model in order of (time, class, shuffle, sequence).

use core::cmp::Reverse;
use std::collections::BinaryHeap;
use wifu_wire::{Rng, Time};

/// What wakes the model. The order is the order at one instant: what ends is seen before what
/// begins, so that two stations whose back-off expires together collide.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Wake {
    /// A transmission ends (its number).
    End,
    /// A response is due after SIFS (node).
    Respond,
    /// CTS or ACK did not come (node).
    Timeout,
    /// A station's back-off expires (node).
    Access,
    /// The driver learns of completed frames (node).
    Interrupt,
}

const WAKES: [Wake; 5] = [
    Wake::End,
    Wake::Respond,
    Wake::Timeout,
    Wake::Access,
    Wake::Interrupt,
];

/// One event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Due {
    pub at: Time,
    pub wake: Wake,
    /// Node, or number of the transmission.
    pub who: u32,
    /// The owner's count when it was made: another value means that it was cancelled.
    pub generation: u32,
}

/// The queue. Ties between sources are broken by a seeded hash of time and source, events of one
/// source keep their order.
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<(u128, u64)>>,
    ties: u64,
    pushed: u32,
}

impl Queue {
    pub fn new(rng: &Rng) -> Queue {
        Queue {
            heap: BinaryHeap::with_capacity(256),
            ties: rng.split("ties").next_u64() | 1,
            pushed: 0,
        }
    }

    pub fn push(&mut self, due: Due) {
        let source = u64::from(due.who) << 3 | due.wake as u64;
        let mixed = (due.at.0 ^ source.rotate_left(40)).wrapping_mul(self.ties);
        let shuffle = (mixed ^ mixed >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 35;
        self.pushed = self.pushed.wrapping_add(1);
        let low = (due.wake as u64) << 61 | shuffle << 32 | u64::from(self.pushed);
        let key = u128::from(due.at.0) << 64 | u128::from(low);
        let value = u64::from(due.who) << 32 | u64::from(due.generation);
        self.heap.push(Reverse((key, value)));
    }

    /// When the next one is due.
    pub fn next(&self) -> Time {
        self.heap
            .peek()
            .map_or(Time::NEVER, |Reverse((key, _))| Time((key >> 64) as u64))
    }

    /// The next one that is due at `now` or before.
    pub fn pop(&mut self, now: Time) -> Option<Due> {
        let Reverse((key, value)) = self.heap.peek().copied()?;
        let at = Time((key >> 64) as u64);
        if at > now {
            return None;
        }
        self.heap.pop();
        Some(Due {
            at,
            wake: WAKES[(key as u64 >> 61) as usize],
            who: (value >> 32) as u32,
            generation: value as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(at: u64, wake: Wake, who: u32) -> Due {
        Due {
            at: Time(at),
            wake,
            who,
            generation: 0,
        }
    }

    #[test]
    fn ends_come_before_beginnings_and_ties_depend_on_the_seed() {
        let order = |seed| {
            let mut q = Queue::new(&Rng::new(seed));
            for who in 0..8 {
                q.push(due(10, Wake::Access, who));
            }
            q.push(due(10, Wake::End, 99));
            q.push(due(5, Wake::Interrupt, 7));
            assert_eq!(q.next(), Time(5));
            assert_eq!(q.pop(Time(4)), None);
            let all: Vec<_> = core::iter::from_fn(|| q.pop(Time(10))).collect();
            assert_eq!((all[0].at, all[0].wake), (Time(5), Wake::Interrupt));
            assert_eq!((all[1].wake, all[1].who), (Wake::End, 99));
            all[2..].iter().map(|d| d.who).collect::<Vec<_>>()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }
}
