//! Packets by ticket: the store of a hop protocol's lane.

use std::collections::VecDeque;
use wifu_wire::Seq;

/// A packet in the node's pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ticket(pub u32);

/// Packets that wait to be handed down, oldest first.
#[derive(Debug)]
pub struct Packets {
    queue: VecDeque<(Ticket, Seq)>,
    limit: usize,
}

impl Packets {
    /// Room for `limit` packets.
    pub fn new(limit: usize) -> Packets {
        Packets {
            // One more: a packet that is put back may find the queue full.
            queue: VecDeque::with_capacity(limit + 1),
            limit,
        }
    }

    /// Append; false if there is no room.
    pub fn push(&mut self, ticket: Ticket, number: Seq) -> bool {
        let fits = self.queue.len() < self.limit;
        if fits {
            self.queue.push_back((ticket, number));
        }
        fits
    }

    /// Back to the head of the queue: the link refused it, or the route went.
    pub fn put_back(&mut self, ticket: Ticket, number: Seq) {
        self.queue.push_front((ticket, number));
    }

    /// The oldest.
    pub fn front(&self) -> Option<(Ticket, Seq)> {
        self.queue.front().copied()
    }

    /// Take the oldest.
    pub fn pop(&mut self) -> Option<(Ticket, Seq)> {
        self.queue.pop_front()
    }

    /// Take one from wherever it waits.
    pub fn take(&mut self, number: Seq) -> Option<Ticket> {
        let at = self.queue.iter().position(|p| p.1 == number)?;
        self.queue.remove(at).map(|p| p.0)
    }

    /// How many more fit.
    pub fn room(&self) -> u32 {
        self.limit.saturating_sub(self.queue.len()) as u32
    }

    /// How many wait.
    pub fn len(&self) -> u32 {
        self.queue.len() as u32
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}
