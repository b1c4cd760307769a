//! Queueing disciplines: what a queue does before it is full. Each says of some packets that the
//! sender is to slow down; who carries that out marks those whose transport understands marks (RFC
//! 3168 section 5) and drops the others.

mod codel;
mod fq;
mod red;

use codel::behind;
pub use codel::{Codel, CodelParams, Head};
pub use fq::{FqCodel, FqParams};
pub use red::{Red, RedParams};

use std::collections::VecDeque;
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
    /// A queue for each flow, with controlled delay.
    FqCodel(FqParams),
    /// What has priority ([`PacketClass::first`]) goes before all others that wait.
    Priority,
}

/// What a discipline has to know of a packet that waits.
pub trait Waits: Copy {
    /// When it came.
    fn since(&self) -> Time;
    /// Whether its transport understands marks.
    fn ect(&self) -> bool;
    /// Length of the IP packet.
    fn octets(&self) -> u16;
    /// It goes before those of which this is not said.
    fn first(&self) -> bool;
}

/// A packet joins those that wait, behind those that go before it.
#[inline]
pub(crate) fn join<T: Waits>(line: &mut VecDeque<T>, packet: T) {
    if packet.first() {
        let before = line.iter().take_while(|waits| waits.first()).count();
        line.insert(before, packet);
    } else {
        line.push_back(packet);
    }
}

/// To whom a packet belongs, as queueing disciplines see it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PacketClass {
    /// Its transport understands marks.
    pub ect: bool,
    /// A number of its flow, equal for all packets of it: of a hash, say.
    pub flow: u64,
    /// It has priority, for [`Discipline::Priority`].
    pub first: bool,
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
pub enum Managed<T> {
    /// See [`Discipline::Step`].
    Step(u32),
    /// See [`Discipline::Red`].
    Red(Red),
    /// See [`Discipline::Codel`].
    Codel(Codel),
    /// See [`Discipline::FqCodel`]; all that waits is in it.
    FqCodel(FqCodel<T>),
    /// See [`Discipline::Priority`].
    Priority,
}

impl<T: Waits> Managed<T> {
    /// Of an empty queue. `slot` is the time that a packet takes which leaves at once, of so many
    /// octets ([`RedParams::mean_octets`] or 1500).
    pub fn new(discipline: &Discipline, slot: impl Fn(u32) -> Span, rng: Rng) -> Managed<T> {
        match discipline {
            Discipline::Step(above) => Managed::Step(*above),
            Discipline::Red(p) => Managed::Red(Red::new(*p, slot(p.mean_octets), rng)),
            Discipline::Codel(p) => Managed::Codel(Codel::new(*p)),
            Discipline::FqCodel(p) => Managed::FqCodel(FqCodel::new(*p, rng)),
            Discipline::Priority => Managed::Priority,
        }
    }

    /// A packet comes while so many wait, itself not counted: whether the sender is to slow down.
    pub fn arrives(&mut self, now: Time, waiting: usize) -> bool {
        match self {
            Managed::Step(above) => waiting > *above as usize,
            Managed::Red(red) => red.arrives(now, waiting),
            Managed::Codel(_) | Managed::FqCodel(_) | Managed::Priority => false,
        }
    }

    /// Nothing waits, and what comes leaves at once.
    pub fn emptied(&mut self, now: Time) {
        match self {
            Managed::Red(red) => red.emptied(now),
            Managed::Codel(codel) => codel.rest(),
            Managed::Step(_) | Managed::FqCodel(_) | Managed::Priority => {}
        }
    }

    /// Whether it says what goes next no sooner than when the link is free.
    pub fn chooses(&self) -> bool {
        matches!(
            self,
            Managed::Codel(_) | Managed::FqCodel(_) | Managed::Priority
        )
    }

    /// How many packets wait in it.
    #[inline]
    pub fn keeps(&self) -> usize {
        match self {
            Managed::FqCodel(fq) => fq.len(),
            _ => 0,
        }
    }

    /// A packet waits from now on, in it or in `line`.
    pub fn queue(&mut self, line: &mut VecDeque<T>, flow: u64, packet: T) {
        match self {
            Managed::FqCodel(fq) => fq.push(flow, packet),
            Managed::Priority => join(line, packet),
            _ => line.push_back(packet),
        }
    }

    /// The next of those that wait, in it or in `line`, and whether it is to be marked; `drop` is
    /// told of those that it drops.
    pub fn next(
        &mut self,
        now: Time,
        line: &mut VecDeque<T>,
        drop: impl FnMut(T),
    ) -> Option<(T, bool)> {
        match self {
            Managed::FqCodel(fq) => fq.next(now, drop),
            Managed::Codel(codel) => {
                let pop = || {
                    let item = line.pop_front()?;
                    Some(Head {
                        item,
                        since: item.since(),
                        ect: item.ect(),
                        behind: behind(line.iter().map(T::octets)),
                    })
                };
                codel.next(now, pop, drop)
            }
            Managed::Step(_) | Managed::Red(_) | Managed::Priority => {
                let item = line.pop_front();
                if item.is_none() {
                    self.emptied(now);
                }
                Some((item?, false))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    enum Never {}

    impl Waits for Never {
        fn since(&self) -> Time {
            match *self {}
        }
        fn ect(&self) -> bool {
            match *self {}
        }
        fn octets(&self) -> u16 {
            match *self {}
        }
        fn first(&self) -> bool {
            match *self {}
        }
    }

    //= rfc8257#section-3.1
    #[test]
    fn a_step_signals_above_its_threshold() {
        let rng = Rng::new(1);
        let mut step: Managed<Never> = Managed::new(&Discipline::Step(20), |_| Span::ZERO, rng);
        let signals = [0, 19, 20, 21, 500].map(|n| step.arrives(Time::ZERO, n));
        assert_eq!(signals, [false, false, false, true, true]);
    }
}
