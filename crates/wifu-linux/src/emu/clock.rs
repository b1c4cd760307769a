//! Model time from the wall clock: stretched by the dilation.

use wifu_wire::Time;

/// Maps `CLOCK_MONOTONIC` to model time and back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Time,
    dilation: f64,
}

impl Clock {
    /// Model time zero is at `start`; one model second takes `dilation` (at least 1) seconds.
    pub fn new(start: Time, dilation: f64) -> Clock {
        Clock { start, dilation }
    }

    /// The model time of a moment.
    pub fn model(&self, wall: Time) -> Time {
        let elapsed = (wall - self.start).0;
        if self.dilation == 1.0 {
            return Time(elapsed);
        }
        Time((elapsed as f64 / self.dilation) as u64)
    }

    /// The first moment whose model time is not before `model`.
    pub fn wall(&self, model: Time) -> Time {
        if model == Time::NEVER {
            return Time::NEVER;
        }
        if self.dilation == 1.0 {
            return Time(self.start.0.saturating_add(model.0));
        }
        Time(
            self.start
                .0
                .saturating_add((model.0 as f64 * self.dilation).ceil() as u64),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for dilation in [1.0, 2.0, 3.7] {
            let clock = Clock::new(Time(5_000), dilation);
            for ns in [0, 1, 999, 1_000_000_007] {
                let wall = clock.wall(Time(ns));
                assert!(clock.model(wall).0.abs_diff(ns) <= 1, "{dilation} {ns}");
            }
            assert_eq!(clock.wall(Time::NEVER), Time::NEVER);
            // Before the start nothing has happened.
            assert_eq!(clock.model(Time(0)), Time::ZERO);
        }
    }
}
