//! How busy the medium is at a station.

use wifu_wire::{Span, Time};

/// Snapshots that are kept, and the time between two.
const SNAPSHOTS: usize = 11;
const STEP: Span = Span(10_000_000);

/// How busy the medium was during the last tenth of a second: snapshots of the time that it was
/// busy in all.
#[derive(Clone, Debug, Default)]
pub(crate) struct BusyMeter {
    /// When, and busy until then; the oldest is overwritten.
    taken: [(Time, Span); SNAPSHOTS],
    next: usize,
    due: Time,
}

impl BusyMeter {
    /// At `now` a busy period ends; with it the medium was busy for `busy` in all.
    #[inline]
    pub fn note(&mut self, now: Time, busy: Span) {
        if now >= self.due {
            self.snapshot(now, busy);
        }
    }

    fn snapshot(&mut self, now: Time, busy: Span) {
        self.taken[self.next] = (now, busy);
        self.next = (self.next + 1) % SNAPSHOTS;
        self.due = now + STEP;
    }

    /// Share of the last 100 ms before `now`, at which the medium was busy for `busy` in all. It
    /// counts from the snapshot next to the window's beginning.
    pub fn share(&self, now: Time, busy: Span) -> f32 {
        let begin = Time(now.0.saturating_sub(SNAPSHOTS as u64 * STEP.0 - STEP.0));
        let before = self
            .taken
            .iter()
            .filter(|s| s.0 <= begin)
            .max_by_key(|s| s.0);
        let (from, then) = match before {
            // Between the snapshot and the window nothing or something was busy: at most all.
            Some(&(_, then)) => (begin, then),
            None => (Time::ZERO, Span::ZERO),
        };
        let span = (now - from).0.max(1);
        ((busy - then).0 as f64 / span as f64).min(1.0) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_meter_forgets_after_a_tenth_of_a_second() {
        let ms = |n: u64| Time(n * 1_000_000);
        let mut m = BusyMeter::default();
        let mut busy = Span::ZERO;
        // Busy for half of each millisecond, until 200 ms; then for 10 ms at 490.
        for n in 0..200 {
            busy = busy + Span(500_000);
            m.note(ms(n) + Span(500_000), busy);
        }
        let near = |found: f32, right: f32| assert!((found - right).abs() < 0.06, "{found}");
        near(m.share(ms(200), busy), 0.5);
        near(m.share(ms(250), busy), 0.25);
        near(m.share(ms(400), busy), 0.0);
        busy = busy + Span(10_000_000);
        m.note(ms(500), busy);
        near(m.share(ms(500), busy), 0.1);
        near(m.share(ms(605), busy), 0.0);
    }
}
