//! The event queue: what happens next in virtual time.

use core::cmp::Ordering;
use std::collections::BinaryHeap;
use wifu_wire::{Rng, Time};

/// Order among events of the same time: what arrives is seen before a timer that expires just
/// then, and both before an application acts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// A packet arrives somewhere.
    Packet,
    /// A node wakes for a timer.
    Wake,
    /// An application does something by itself.
    Application,
}

struct Entry<E> {
    at: Time,
    class: Class,
    shuffle: u64,
    sequence: u64,
    event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (Time, Class, u64, u64) {
        (self.at, self.class, self.shuffle, self.sequence)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, o: &Self) -> bool {
        self.key() == o.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, o: &Self) -> Option<Ordering> {
        Some(self.cmp(o))
    }
}

impl<E> Ord for Entry<E> {
    /// Reversed: the heap's greatest is the earliest.
    fn cmp(&self, o: &Self) -> Ordering {
        o.key().cmp(&self.key())
    }
}

/// Events by (time, class, shuffle, sequence). `shuffle` is a seeded hash of time and source, so
/// that ties between sources are fair and vary with the seed; events of one source at one time
/// keep their order through `sequence`.
pub struct EventQueue<E> {
    heap: BinaryHeap<Entry<E>>,
    rng: Rng,
    pushed: u64,
}

impl<E> EventQueue<E> {
    /// An empty queue; `seed` decides ties.
    pub fn new(seed: u64) -> EventQueue<E> {
        EventQueue {
            heap: BinaryHeap::new(),
            rng: Rng::new(seed).split("ties"),
            pushed: 0,
        }
    }

    /// Something will happen at `at`. `source` names what causes it: a link, a node.
    pub fn push(&mut self, at: Time, class: Class, source: u64, event: E) {
        let shuffle = self.rng.split_n(at.0).split_n(source).next_u64();
        self.heap.push(Entry {
            at,
            class,
            shuffle,
            sequence: self.pushed,
            event,
        });
        self.pushed += 1;
    }

    /// When the next event is due.
    pub fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|e| e.at)
    }

    /// Take the next event.
    pub fn pop(&mut self) -> Option<(Time, E)> {
        self.heap.pop().map(|e| (e.at, e.event))
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(seed: u64) -> Vec<u64> {
        let mut queue = EventQueue::new(seed);
        for source in 0..20 {
            for n in 0..3 {
                queue.push(Time(5), Class::Packet, source, source * 10 + n);
            }
        }
        std::iter::from_fn(|| queue.pop().map(|(_, e)| e)).collect()
    }

    #[test]
    fn time_and_class_come_first() {
        let mut queue = EventQueue::new(1);
        queue.push(Time(7), Class::Packet, 0, "later packet");
        queue.push(Time(3), Class::Application, 0, "application");
        queue.push(Time(3), Class::Wake, 0, "timer");
        queue.push(Time(3), Class::Packet, 0, "packet");
        assert_eq!(queue.next_at(), Some(Time(3)));
        let order: Vec<&str> = std::iter::from_fn(|| queue.pop().map(|(_, e)| e)).collect();
        assert_eq!(order, ["packet", "timer", "application", "later packet"]);
    }

    #[test]
    fn ties_vary_with_the_seed_and_one_source_keeps_its_order() {
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let got = order(3);
        for source in 0..20 {
            let of: Vec<u64> = got.iter().copied().filter(|e| e / 10 == source).collect();
            assert_eq!(of, [source * 10, source * 10 + 1, source * 10 + 2]);
        }
    }
}
