//! A link: it sends one packet at a time, at a rate; others wait in a queue of limited length;
//! each arrives a delay after it was sent.

use std::collections::VecDeque;
use wifu_wire::{Rate, Span, Time};

/// What a link is like. Both directions are alike and independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Bits of IP packets per second; [`Rate`] zero for no limit.
    pub rate: Rate,
    /// Time that a packet travels once it is sent.
    pub delay: Span,
    /// Packets that may wait behind the one being sent; one more is dropped (drop-tail).
    pub queue: usize,
}

impl LinkSpec {
    /// A link whose queue has room for everything.
    pub fn new(rate: Rate, delay: Span) -> LinkSpec {
        LinkSpec {
            rate,
            delay,
            queue: usize::MAX - 1,
        }
    }

    /// The same with a queue of `packets`.
    pub fn queue(self, packets: usize) -> LinkSpec {
        LinkSpec {
            queue: packets,
            ..self
        }
    }

    fn time_for(&self, octets: usize) -> Span {
        if self.rate == Rate(0) {
            return Span::ZERO;
        }
        self.rate.time_for(octets as u64)
    }
}

/// One direction of a link. As all packets are served in order at a constant rate, each one's
/// departure is known when it enters, and no event is needed for it.
#[derive(Clone, Debug)]
pub struct Link {
    spec: LinkSpec,
    /// When each packet that has not left yet will have left, in order.
    leaving: VecDeque<Time>,
}

impl Link {
    /// An idle link.
    pub fn new(spec: LinkSpec) -> Link {
        Link {
            spec,
            leaving: VecDeque::new(),
        }
    }

    /// What it is like.
    pub fn spec(&self) -> LinkSpec {
        self.spec
    }

    /// A packet of `octets` (IP length) enters; returns when it arrives at the other end, or
    /// `None` if the queue is full.
    pub fn enter(&mut self, now: Time, octets: usize) -> Option<Time> {
        if self.inside(now) > self.spec.queue {
            return None;
        }
        let begins = self.leaving.back().copied().unwrap_or(now);
        let left = begins + self.spec.time_for(octets);
        if left > now {
            self.leaving.push_back(left);
        }
        Some(left + self.spec.delay)
    }

    /// Packets that wait or are being sent.
    pub fn inside(&mut self, now: Time) -> usize {
        while self.leaving.front().is_some_and(|left| *left <= now) {
            self.leaving.pop_front();
        }
        self.leaving.len()
    }

    /// When the packet being sent will have left; `now` if there is none.
    pub fn next_left(&mut self, now: Time) -> Time {
        self.inside(now);
        self.leaving.front().copied().unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1000 octets take 10 ms.
    const SLOW: Rate = Rate(800_000);

    #[test]
    fn packets_leave_one_after_the_other() {
        let mut link = Link::new(LinkSpec::new(SLOW, Span::MILLI * 100));
        let at = |ms: u64| Some(Time(ms * 1_000_000));
        assert_eq!(link.enter(Time::ZERO, 1000), at(110));
        assert_eq!(link.enter(Time::ZERO, 500), at(115));
        assert_eq!(link.enter(Time(2_000_000), 1000), at(125));
        // Idle since 25 ms.
        assert_eq!(link.enter(Time(30_000_000), 1000), at(140));
    }

    #[test]
    fn a_queue_of_two_holds_two_besides_the_one_being_sent() {
        let mut link = Link::new(LinkSpec::new(SLOW, Span::ZERO).queue(2));
        let taken = (0..5).filter(|_| link.enter(Time::ZERO, 1000).is_some());
        assert_eq!(taken.count(), 3);
        assert_eq!(link.enter(Time(9_999_999), 1000), None);
        assert_eq!(link.next_left(Time(9_999_999)), Time(10_000_000));
        // The first has left at 10 ms.
        assert_eq!(link.enter(Time(10_000_000), 1000), Some(Time(40_000_000)));
    }

    #[test]
    fn a_link_without_rate_only_delays() {
        let mut link = Link::new(LinkSpec::new(Rate(0), Span::MILLI).queue(0));
        for _ in 0..9 {
            assert_eq!(link.enter(Time(5), 1500), Some(Time(1_000_005)));
        }
    }
}
