//! Queueing disciplines: what a queue does before it is full. Each says of some packets that the
//! sender is to slow down; who carries that out marks those whose transport understands marks (RFC
//! 3168 section 5) and drops the others.

mod codel;
mod red;

pub use codel::{Codel, CodelParams, Head, behind};
pub use red::{Red, RedParams};

use wifu_wire::{Rng, Span, Time};

/// What a queue does besides refusing what comes when it is full.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Discipline {
    /// Signals to what comes while more than so many packets wait (RFC 8257 section 3.1).
    Step(u32),
    /// Random early detection.
    Red(RedParams),
    /// Controlled delay.
    Codel(CodelParams),
}

/// What became of a packet at the entrance of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// The queue has it.
    Taken,
    /// The queue has it, and it is to be marked.
    Marked,
    /// The discipline dropped it: it understands no marks.
    Early,
    /// The queue is full.
    Full,
}

impl Put {
    /// Whether the queue has the packet.
    #[inline]
    pub fn taken(self) -> bool {
        matches!(self, Put::Taken | Put::Marked)
    }
}

/// A discipline at work, of one queue.
#[derive(Clone, Debug)]
pub enum Managed {
    /// See [`Discipline::Step`].
    Step(u32),
    /// See [`Discipline::Red`].
    Red(Red),
    /// See [`Discipline::Codel`].
    Codel(Codel),
}

impl Managed {
    /// Of an empty queue. `slot` is the time that a packet takes which leaves at once, of so many
    /// octets ([`RedParams::mean_octets`] or 1500).
    pub fn new(discipline: &Discipline, slot: impl Fn(u32) -> Span, rng: Rng) -> Managed {
        match discipline {
            Discipline::Step(above) => Managed::Step(*above),
            Discipline::Red(p) => Managed::Red(Red::new(*p, slot(p.mean_octets), rng)),
            Discipline::Codel(p) => Managed::Codel(Codel::new(*p)),
        }
    }

    /// A packet comes while so many wait, itself not counted: whether the sender is to slow down.
    pub fn arrives(&mut self, now: Time, waiting: usize) -> bool {
        match self {
            Managed::Step(above) => waiting > *above as usize,
            Managed::Red(red) => red.arrives(now, waiting),
            Managed::Codel(_) => false,
        }
    }

    /// Nothing waits, and what comes leaves at once.
    pub fn emptied(&mut self, now: Time) {
        match self {
            Managed::Red(red) => red.emptied(now),
            Managed::Codel(codel) => codel.rest(),
            Managed::Step(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //= rfc8257#section-3.1
    #[test]
    fn a_step_signals_above_its_threshold() {
        let rng = Rng::new(1);
        let mut step = Managed::new(&Discipline::Step(20), |_| Span::ZERO, rng);
        let signals = [0, 19, 20, 21, 500].map(|n| step.arrives(Time::ZERO, n));
        assert_eq!(signals, [false, false, false, true, true]);
    }
}
