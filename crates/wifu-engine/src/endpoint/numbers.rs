//! The numbers that connections begin with: random streams, initial numbers, identifiers, ports.

use crate::conn::Tuple;
use core::net::SocketAddr;
use wifu_wire::{Rng, Seq, Time};

/// An endpoint's source of them.
pub(super) struct Numbers {
    rng: Rng,
    /// The secret of RFC 6528: it stays, so that a tuple's numbers only grow.
    isn_key: [u64; 2],
    opened: u64,
}

impl Numbers {
    pub(super) fn new(rng: Rng) -> Numbers {
        let mut key = rng.split("isn");
        Numbers {
            isn_key: [key.next_u64(), key.next_u64()],
            rng,
            opened: 0,
        }
    }

    /// Random numbers and the initial number of the next connection.
    pub(super) fn draw(&mut self, now: Time, tuple: &Tuple) -> (Rng, Seq) {
        self.opened += 1;
        (self.rng.split_n(self.opened), self.isn(tuple, now))
    }

    /// RFC 6528: a clock of 4 us ticks plus a keyed hash of the two ends.
    fn isn(&self, tuple: &Tuple, now: Time) -> Seq {
        use core::hash::{Hash, Hasher};
        let [a, b] = self.isn_key;
        let mut h = siphasher::sip::SipHasher13::new_with_keys(a, b);
        // Not which variant it is: a TCP's numbers are as they were when there was IPv4 alone.
        match (tuple.local, tuple.remote) {
            (SocketAddr::V4(local), SocketAddr::V4(remote)) => {
                (tuple.proto, local, remote).hash(&mut h);
            }
            (local, remote) => (tuple.proto, local, remote).hash(&mut h),
        }
        Seq((h.finish() as u32).wrapping_add((now.0 / 4_000) as u32))
    }

    /// The identifier of the next connection that we open, one that is not `taken`.
    pub(super) fn identifier(&self, taken: impl Fn(u32) -> bool) -> u32 {
        let mut drawn = self.rng.split("conn-id").split_n(self.opened);
        loop {
            let id = drawn.next_u32();
            if id != 0 && !taken(id) {
                return id;
            }
        }
    }

    /// All ephemeral ports, from a random one on (RFC 6056 section 3.3.1).
    pub(super) fn ports(&mut self) -> impl Iterator<Item = u16> + use<> {
        const FIRST: u64 = 32_768;
        const COUNT: u64 = 28_232;
        let start = self.rng.next_u64();
        (0..COUNT).map(move |k| (FIRST + (start.wrapping_add(k)) % COUNT) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_initial_numbers_of_two_ends_only_grow_whatever_happens_meanwhile() {
        let mut numbers = Numbers::new(Rng::new(1));
        let tuple = |port| Tuple {
            proto: 6,
            local: "10.0.0.1:80".parse().unwrap(),
            remote: SocketAddr::new([10, 0, 0, 2].into(), port),
        };
        let first = numbers.isn(&tuple(1), Time(0));
        assert_ne!(first, numbers.isn(&tuple(2), Time(0)));
        // An ephemeral port is drawn, as every connect does.
        let _ = numbers.ports();
        let later = numbers.isn(&tuple(1), Time(4_000_000));
        assert_eq!(
            later.0.wrapping_sub(first.0),
            1000,
            "a tick every 4 us (RFC 6528 3)"
        );
    }
}
