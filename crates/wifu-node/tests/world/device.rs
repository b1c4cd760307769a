//! Devices: queues in front of links, which fill and drain.

use std::collections::VecDeque;
use wifu_engine::Ticket;
use wifu_wire::{LinkTo, Span, Time};

/// What a device does with what it takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// Whatever it takes has left at once.
    Open,
    /// Nothing ever leaves.
    Shut,
    /// It says by itself what became of a packet, and that it has room again.
    Radio,
    /// It can be asked when it has room again, and says nothing by itself.
    Wire,
}

/// A packet in a device.
pub struct Leaving {
    pub packet: Ticket,
    pub to: LinkTo,
    pub came: Time,
    /// When it will have left.
    pub left: Time,
}

pub struct Device {
    pub kind: Link,
    /// Packets that it takes, the one that it is sending included.
    limit: usize,
    /// How long it takes for one.
    takes: Span,
    queue: VecDeque<Leaving>,
}

impl Device {
    pub fn new(kind: Link, limit: usize, takes: Span) -> Device {
        Device {
            kind,
            limit,
            takes,
            queue: VecDeque::new(),
        }
    }

    /// Packets that it holds.
    pub fn queued(&self, now: Time) -> usize {
        match self.kind {
            // What has left a wire has left, whether anybody looks or not.
            Link::Wire => self.queue.iter().filter(|l| l.left > now).count(),
            _ => self.queue.len(),
        }
    }

    /// Packets that it takes now.
    pub fn room(&self, now: Time) -> usize {
        self.limit.saturating_sub(self.queued(now))
    }

    /// When it takes one again, if it can say so: at once if it has room.
    pub fn room_at(&self, now: Time) -> Time {
        match self.kind {
            Link::Wire if self.room(now) > 0 => now,
            Link::Wire => self.next(),
            _ => Time::NEVER,
        }
    }

    /// When the first packet will have left.
    pub fn next(&self) -> Time {
        let first = self.queue.front().map(|l| l.left);
        first.unwrap_or(Time::NEVER)
    }

    /// It takes a packet.
    pub fn enter(&mut self, now: Time, packet: Ticket, to: LinkTo) {
        let begins = self.queue.back().map_or(now, |l| l.left.max(now));
        let left = match self.kind {
            Link::Shut => Time::NEVER,
            _ => begins + self.takes,
        };
        let came = now;
        self.queue.push_back(Leaving {
            packet,
            to,
            came,
            left,
        });
    }

    /// A packet that has left by now, and whether there was no room before.
    pub fn leave(&mut self, now: Time) -> Option<(Leaving, bool)> {
        let full = self.queue.len() >= self.limit;
        let first = self.queue.pop_front_if(|l| l.left <= now)?;
        Some((first, full))
    }
}
