//! What happens next in virtual time, apart from radios: wires, hosts' wake-ups, applications.
//!
//! A 4-ary heap of packed keys: (time, class, shuffle, sequence) as one 128-bit number, so that an
//! order is one comparison. `shuffle` is a seeded hash of time and source: ties between sources are
//! fair and vary with the seed, events of one source keep their order through `sequence`.

use wifu_wire::{Rng, Time};

/// Order among events of the same time: what arrives is seen before a timer that expires just
/// then, and both before an application acts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Class {
    /// A packet arrives somewhere.
    Packet,
    /// A host wakes for a timer.
    Wake,
    /// An application or a routing daemon does something by itself.
    Application,
    /// Nodes move; nothing else of that instant has seen it.
    World,
}

/// What happens; the number says to whom.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum What {
    /// The packet at the head of this wire arrives.
    Arrive(u32),
    /// This wire, whose queue has a discipline, is free.
    Leave(u32),
    /// This packet's forwarding is done.
    Forward(u32),
    /// This host's wake-up.
    Wake(u32),
    /// This flow's application.
    App(u32),
    /// This node broadcasts a HELLO.
    Hello(u32),
    /// This node broadcasts a TC.
    Control(u32),
    /// A routing daemon sends this packet on.
    Relay(u32),
    /// Nodes move on.
    Move,
    /// What this node splits is forgotten.
    Restart(u32),
    /// Series are sampled.
    Sample,
}

#[derive(Clone, Copy)]
struct Entry {
    key: u128,
    what: What,
}

/// The queue.
pub(crate) struct Events {
    heap: Vec<Entry>,
    ties: u64,
    pushed: u64,
}

const CLASS_AT: u32 = 61;
const SHUFFLE_AT: u32 = 40;
const SHUFFLE_BITS: u32 = CLASS_AT - SHUFFLE_AT;

impl Events {
    /// An empty queue; `rng` decides ties.
    pub(crate) fn new(rng: &Rng) -> Events {
        Events {
            heap: Vec::with_capacity(256),
            ties: rng.split("ties").next_u64() | 1,
            pushed: 0,
        }
    }

    /// `what` happens at `at`; its source for fair ties is what it happens to.
    pub(crate) fn push(&mut self, at: Time, class: Class, what: What) {
        let source = match what {
            What::Arrive(n) => 1 << 32 | u64::from(n),
            // Of one node in order, whichever packets they are.
            What::Forward(_) => 2 << 32,
            What::Wake(n) => 3 << 32 | u64::from(n),
            What::App(n) => 4 << 32 | u64::from(n),
            What::Hello(n) => 5 << 32 | u64::from(n),
            What::Control(n) => 6 << 32 | u64::from(n),
            What::Move => 7 << 32,
            What::Sample => 8 << 32,
            What::Relay(n) => 10 << 32 | u64::from(n),
            What::Leave(n) => 11 << 32 | u64::from(n),
            What::Restart(n) => 12 << 32 | u64::from(n),
        };
        let mixed = (at.0 ^ source.rotate_left(24)).wrapping_mul(self.ties);
        let hash = (mixed ^ mixed >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let shuffle = hash >> (64 - SHUFFLE_BITS);
        // 2^40 events are a year of 30,000 per second.
        let low = (class as u64) << CLASS_AT | shuffle << SHUFFLE_AT | self.pushed;
        self.pushed += 1;
        let key = u128::from(at.0) << 64 | u128::from(low);
        self.heap.push(Entry { key, what });
        self.up(self.heap.len() - 1);
    }

    /// When the next event is due; [`Time::NEVER`] if there is none.
    pub(crate) fn next_at(&self) -> Time {
        let first = self.heap.first();
        first.map_or(Time::NEVER, |e| Time((e.key >> 64) as u64))
    }

    /// Whether such an event is all that there is.
    pub(crate) fn are_only(&self, what: What) -> bool {
        self.heap.len() == 1 && self.heap[0].what == what
    }

    /// Take the next event.
    pub(crate) fn pop(&mut self) -> Option<(Time, What)> {
        let first = *self.heap.first()?;
        let last = self.heap.pop()?;
        if !self.heap.is_empty() {
            self.heap[0] = last;
            self.down();
        }
        Some((Time((first.key >> 64) as u64), first.what))
    }

    fn up(&mut self, mut i: usize) {
        let entry = self.heap[i];
        while i > 0 {
            let parent = (i - 1) / 4;
            if self.heap[parent].key <= entry.key {
                break;
            }
            self.heap[i] = self.heap[parent];
            i = parent;
        }
        self.heap[i] = entry;
    }

    fn down(&mut self) {
        let (mut i, n) = (0, self.heap.len());
        let entry = self.heap[0];
        loop {
            let first = 4 * i + 1;
            if first >= n {
                break;
            }
            let mut least = first;
            for child in first + 1..(first + 4).min(n) {
                if self.heap[child].key < self.heap[least].key {
                    least = child;
                }
            }
            if self.heap[least].key >= entry.key {
                break;
            }
            self.heap[i] = self.heap[least];
            i = least;
        }
        self.heap[i] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Random pushes and pops; the oracle is an ordered map over the same keys.
    #[test]
    fn the_order_is_that_of_an_ordered_map() {
        let mut rng = Rng::new(5);
        let mut events = Events::new(&Rng::new(1));
        let mut oracle: BTreeMap<u128, What> = BTreeMap::new();
        let mut now = 0;
        for round in 0..200_000u64 {
            // Now many, now few wait.
            let grow = if round / 20_000 % 2 == 0 { 60 } else { 40 };
            if rng.below(100) < grow {
                let at = Time(now + rng.below(50) * 9);
                let class = [Class::Packet, Class::Wake, Class::Application][rng.below(3) as usize];
                let what = What::Wake(rng.below(20) as u32);
                events.push(at, class, what);
                let key = events
                    .heap
                    .iter()
                    .map(|e| e.key)
                    .find(|k| (*k as u64) & ((1 << SHUFFLE_AT) - 1) == events.pushed - 1);
                oracle.insert(key.expect("just pushed"), what);
            } else {
                let expected = oracle.pop_first();
                let got = events.pop();
                let of = |(k, what): (u128, What)| (Time((k >> 64) as u64), what);
                assert_eq!(got, expected.map(of));
                now = got.map_or(now, |(at, _)| at.0);
            }
            assert_eq!(events.heap.len(), oracle.len());
            if events.heap.len() > 400 {
                while events.pop().is_some() {
                    oracle.pop_first();
                }
            }
        }
    }

    #[test]
    fn time_then_class_then_fair_ties() {
        let order = |seed| {
            let mut events = Events::new(&Rng::new(seed));
            for n in 0..20 {
                events.push(Time(9), Class::Application, What::App(n));
                events.push(Time(9), Class::Packet, What::Arrive(n));
            }
            events.push(Time(8), Class::World, What::Move);
            core::iter::from_fn(|| events.pop()).collect::<Vec<_>>()
        };
        let one = order(1);
        assert_eq!(one[0], (Time(8), What::Move));
        assert!(matches!(one[20].1, What::Arrive(_)) && matches!(one[21].1, What::App(_)));
        assert_eq!(one, order(1));
        assert_ne!(one, order(2));
    }

    #[test]
    fn one_source_keeps_its_order() {
        let mut events = Events::new(&Rng::new(3));
        for n in 0..50 {
            events.push(Time(1), Class::Packet, What::Forward(n));
        }
        for n in 0..50 {
            assert_eq!(events.pop(), Some((Time(1), What::Forward(n))));
        }
        assert_eq!(events.next_at(), Time::NEVER);
    }
}
