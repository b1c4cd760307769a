//! The timers of a connection's parts.

use core::cell::Cell;
use wifu_wire::Time;

/// Components per composition.
pub const SLOTS: usize = 16;

/// Timers per component.
pub const TIMERS: usize = 4;

/// When each timer of each part is due; [`Time::NEVER`] if it does not run.
pub(crate) struct Timers {
    due: [[Time; TIMERS]; SLOTS],
    /// None is due before; exact unless `loose`. Looked at much more often than it changes.
    first: Cell<Time>,
    loose: Cell<bool>,
}

impl Timers {
    /// None runs.
    pub fn new() -> Timers {
        Timers {
            due: [[Time::NEVER; TIMERS]; SLOTS],
            first: Cell::new(Time::NEVER),
            loose: Cell::new(false),
        }
    }

    /// When a timer is due.
    #[inline]
    pub fn at(&self, slot: usize, timer: usize) -> Time {
        self.due[slot][timer]
    }

    /// A timer is due then, and not when it was due before; [`Time::NEVER`]: it does not run.
    #[inline]
    pub fn set(&mut self, slot: usize, timer: usize, at: Time) {
        let old = core::mem::replace(&mut self.due[slot][timer], at);
        let first = self.first.get_mut();
        if at <= *first {
            *first = at;
            *self.loose.get_mut() = false;
        } else if old == *first {
            *self.loose.get_mut() = true;
        }
    }

    /// When the earliest is due; [`Time::NEVER`]: none runs.
    #[inline]
    pub fn first(&self) -> Time {
        if self.loose.get() {
            let least = self.due.as_flattened().iter().copied().min();
            self.first.set(least.unwrap_or(Time::NEVER));
            self.loose.set(false);
        }
        self.first.get()
    }

    /// Of those that are due at `now`, the first by (deadline, slot, timer): it runs no more.
    pub fn take(&mut self, now: Time) -> Option<(usize, usize)> {
        let first = self.first();
        if first > now || first == Time::NEVER {
            return None;
        }
        let place = self.due.as_flattened().iter().position(|at| *at == first)?;
        let (slot, timer) = (place / TIMERS, place % TIMERS);
        self.set(slot, timer, Time::NEVER);
        Some((slot, timer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_wire::Rng;

    #[test]
    fn the_first_is_known_after_any_changes() {
        let (mut timers, mut plain) = (Timers::new(), [Time::NEVER; SLOTS * TIMERS]);
        let mut rng = Rng::new(7);
        for _ in 0..5000 {
            let place = rng.below((SLOTS * TIMERS) as u64) as usize;
            let at = match rng.below(3) {
                0 => Time::NEVER,
                _ => Time(rng.below(50)),
            };
            timers.set(place / TIMERS, place % TIMERS, at);
            plain[place] = at;
            if rng.below(2) == 0 {
                assert_eq!(Some(timers.first()), plain.iter().copied().min());
            }
            let now = Time(rng.below(3));
            let due = (0..plain.len()).filter(|i| plain[*i] <= now);
            let expected = due.min_by_key(|i| (plain[*i], *i));
            let taken = timers.take(now);
            assert_eq!(taken, expected.map(|i| (i / TIMERS, i % TIMERS)));
            if let Some(i) = expected {
                plain[i] = Time::NEVER;
            }
        }
    }
}
