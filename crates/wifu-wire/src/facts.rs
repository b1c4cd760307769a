//! What a node's link layer tells about itself (Behaviour 7): one type for the simulated radio, the
//! emulated one and a driver, for whoever asks.

use crate::units::{Rate, Span, Time};

/// Facts about a node's link layer, as a driver could export them (Behaviour 7). What a substrate
/// cannot tell is `None`; each field says who cannot.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct LinkFacts {
    /// The average D of queueing plus transmission delay (Behaviour 7.1); `None` before the first
    /// sample, and live where neither a monitor interface nor the driver's files tell it.
    pub delay: Option<Span>,
    /// The last sample that went into it; `None` as for `delay`.
    pub sample: Option<Span>,
    /// D0, what to assume before the first sample: one cycle of a 1500 B packet without contention
    /// (Behaviour 7.4); `None` where there is no radio.
    pub first: Option<Span>,
    /// Packets that the queue took and the driver has not reported yet; `None` live without a
    /// monitor interface.
    pub queued: Option<u32>,
    /// Packets that the queue takes now; `None` in `wifu core`.
    pub room: Option<u32>,
    /// When the driver last reported; `None` before it ever did.
    pub last_done: Option<Time>,
    /// Share of the last tenth of a second during which the medium was busy, 0 to 1; `None` live
    /// where neither an emulated radio nor a driver of Wi-Fi tells it.
    pub busy: Option<f32>,
    /// Rate of unicast data, b/s; `None` live before a frame for one station was reported, unless
    /// a driver of Wi-Fi tells it.
    pub rate: Option<Rate>,
}

// Each of 8 octets but three; asked for once per packet at most, it is copied.
const _: () = assert!(size_of::<LinkFacts>() <= 104);

/// When what a driver measured says nothing of the present any more (Behaviour 7.4).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Staleness {
    /// Idle for so long, a node reports that it is (T_idle).
    pub idle: Span,
    /// Without a report of the driver for so long its average is forgotten, if ever.
    pub forgotten: Option<Span>,
}

impl Staleness {
    /// As Behaviour 7.4 has it.
    pub const STANDARD: Staleness = Staleness {
        idle: Span(100_000_000),
        forgotten: None,
    };
}

/// Idle, unless the medium is busier than this.
const BUSY: f32 = 0.05;

impl LinkFacts {
    /// D_node of Behaviour 7.4: the delay to report, and whether the node is idle.
    ///
    /// Unknown: a delay of which not even D0 is known is 0, which adds nothing to the largest on a
    /// path; a queue is empty; a driver that never reported did so last at time 0, when the clock
    /// started; a medium is quiet ("no CCA info").
    pub fn reported(&self, now: Time) -> (Span, bool) {
        self.reported_by(now, &Staleness::STANDARD)
    }

    /// The same by another rule of what is too old. How busy the medium is stays a matter of the
    /// last tenth of a second.
    pub fn reported_by(&self, now: Time, rule: &Staleness) -> (Span, bool) {
        let empty = self.queued.is_none_or(|packets| packets == 0);
        let quiet = self.busy.is_none_or(|share| share < BUSY);
        let silent = now - self.last_done.unwrap_or(Time::ZERO);
        let forgotten = rule.forgotten.is_some_and(|limit| silent > limit);
        let delay = self.delay.filter(|_| !forgotten).or(self.first);
        let idle = empty && silent > rule.idle && quiet;
        (delay.unwrap_or(Span::ZERO), idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time(n * 1_000_000)
    }

    #[test]
    fn a_node_is_idle_after_a_tenth_of_a_second_without_traffic_of_its_own_or_others() {
        let facts = LinkFacts {
            delay: Some(Span(700_000)),
            first: Some(Span(681_500)),
            queued: Some(0),
            last_done: Some(ms(1000)),
            busy: Some(0.01),
            ..LinkFacts::default()
        };
        assert_eq!(facts.reported(ms(1101)), (Span(700_000), true));
        assert_eq!(facts.reported(ms(1099)), (Span(700_000), false));
        let rule = Staleness {
            idle: Span(500_000_000),
            forgotten: Some(Span(2_000_000_000)),
        };
        let by_rule = |at| facts.reported_by(ms(at), &rule);
        assert_eq!(by_rule(1499), (Span(700_000), false));
        assert_eq!(by_rule(3000), (Span(700_000), true));
        assert_eq!(by_rule(3001), (Span(681_500), true), "forgotten");
        let busy = LinkFacts {
            busy: Some(0.2),
            ..facts
        };
        assert!(!busy.reported(ms(2000)).1);
        let queued = LinkFacts {
            queued: Some(1),
            ..facts
        };
        assert!(!queued.reported(ms(2000)).1);
        let fresh = LinkFacts {
            delay: None,
            ..facts
        };
        assert_eq!(fresh.reported(ms(2000)).0, Span(681_500));
    }

    #[test]
    fn what_nobody_tells_makes_no_node_busy_and_no_path_longer() {
        let nothing = LinkFacts::default();
        assert_eq!(nothing.reported(ms(100)), (Span::ZERO, false));
        assert_eq!(nothing.reported(ms(101)), (Span::ZERO, true));
        let known = LinkFacts {
            queued: Some(3),
            ..nothing
        };
        assert!(!known.reported(ms(101)).1);
    }
}
