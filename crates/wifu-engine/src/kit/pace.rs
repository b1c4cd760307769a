//! A pacing clock.

use wifu_wire::{Span, Time};

/// One interval after the last departure, by the interval as it is *now* (Behaviour 16.8).
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    last: Option<Time>,
    gap: Span,
}

impl Pace {
    /// Change the interval; felt at once by whoever waits.
    pub fn set_gap(&mut self, gap: Span) {
        self.gap = gap;
    }

    /// The interval.
    pub fn gap(&self) -> Span {
        self.gap
    }

    /// When the next segment may leave.
    pub fn due(&self) -> Time {
        self.last.map_or(Time::ZERO, |t| t + self.gap)
    }

    /// A segment left. `late` is `Sent.late`: the engine knows what overslept, a pure `permit`
    /// cannot. At most one segment is made up (Behaviour 16.1).
    pub fn sent(&mut self, now: Time, late: Span) {
        self.last = Some(Time(now.0.saturating_sub(late.0.min(self.gap.0))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_made_up_by_one_interval_at_most() {
        let mut p = Pace::default();
        assert_eq!(p.due(), Time::ZERO);
        p.set_gap(Span(100));
        p.sent(Time(1000), Span(30));
        assert_eq!(p.due(), Time(1070));
        p.sent(Time(2000), Span(930));
        assert_eq!(p.due(), Time(2000));
        p.set_gap(Span(50));
        assert_eq!(p.due(), Time(1950));
    }
}
