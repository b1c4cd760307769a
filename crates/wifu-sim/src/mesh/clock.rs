//! The time, what is to happen, and the hash over what happened: what every part of the simulation
//! is given to act.

use super::events::{Class, Events, What};
use wifu_wire::{Rng, Time};

/// The run's clock.
pub(crate) struct Clock {
    pub(crate) now: Time,
    pub(crate) events: Events,
    hash: Hash,
}

impl Clock {
    /// Nothing has happened. `rng` decides ties, `seed` begins the hash.
    pub(crate) fn new(rng: &Rng, seed: u64) -> Clock {
        Clock {
            now: Time::ZERO,
            events: Events::new(rng),
            hash: Hash(seed ^ 0x243F_6A88_85A3_08D3),
        }
    }

    /// `what` will happen at `at`.
    pub(crate) fn push(&mut self, at: Time, class: Class, what: What) {
        self.events.push(at, class, what);
    }

    /// Something happened now.
    #[inline]
    pub(crate) fn mix(&mut self, what: u64) {
        self.hash.mix(self.now, what);
    }

    /// The hash so far.
    pub(crate) fn hash(&self) -> u64 {
        self.hash.0 ^ self.hash.0 >> 31
    }
}

/// A hash over everything that happens, in order.
#[derive(Clone, Copy, Debug)]
struct Hash(u64);

impl Hash {
    fn mix(&mut self, at: Time, what: u64) {
        let x = (self.0 ^ at.0).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = (x.rotate_left(29) ^ what).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    }
}
