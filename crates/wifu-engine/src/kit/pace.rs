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

    /// A segment left, and the interval behind it begins when it was due, at most `most` ago: so
    /// much is made up by a burst where what wakes the sender comes late or seldom. Zero for one
    /// that had not waited for its time.
    pub fn left(&mut self, now: Time, most: Span) {
        let least = Time(now.0.saturating_sub(most.0));
        self.last = Some(self.due().max(least));
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

    #[test]
    fn a_burst_makes_up_what_was_overslept_and_no_more() {
        let mut p = Pace::default();
        p.set_gap(Span(100));
        p.left(Time(1000), Span::ZERO);
        // It wakes 350 late: three leave at once, and the fourth when it would have.
        let mut left = 0;
        while p.due() <= Time(1450) {
            p.left(Time(1450), Span(1000));
            left += 1;
        }
        assert_eq!((left, p.due()), (4, Time(1500)));
        // Nothing was sent for long: no more than 200 are made up.
        p.left(Time(9000), Span(200));
        assert_eq!(p.due(), Time(8900));
        // One that did not wait for its time begins anew, one that left early postpones the next.
        p.left(Time(20_000), Span::ZERO);
        p.left(Time(20_050), Span::ZERO);
        assert_eq!(p.due(), Time(20_200));
    }
}
