//! What takes memory of what was before to be counted: recoveries, waits for timeouts, round trips.

use super::Counters;
use crate::board::{RttFacts, TxFacts};
use crate::permit::Reason;
use wifu_wire::{Delays, Seq, Time};

/// What a connection remembers in order to count.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Where the recovery under way ends.
    recovery: Option<Seq>,
    /// When the last segment left, and how many timeouts there had been then.
    last_out: (Time, u32),
    /// When the first data came that nothing has acknowledged since.
    unacknowledged: Option<Time>,
    /// A SYN has left.
    opened: bool,
    /// Samples of the round-trip time counted so far.
    samples: u32,
    pub(super) round_trips: Delays,
    /// How long that data waited, each time.
    pub(super) ack_delays: Delays,
}

impl Tally {
    /// A SYN leaves of which its part does not say that it is a repetition.
    pub(super) fn opens(&mut self, counters: &mut Counters) {
        counters.openers_again += u64::from(core::mem::replace(&mut self.opened, true));
    }

    /// Data came.
    #[inline]
    pub(super) fn came(&mut self, now: Time) {
        self.unacknowledged.get_or_insert(now);
    }

    /// An acknowledgement has left.
    #[inline]
    fn acknowledged(&mut self, now: Time) {
        if let Some(came) = self.unacknowledged.take() {
            self.ack_delays.add(now - came);
        }
    }

    /// A segment has left, for this reason, with an acknowledgement or not.
    #[inline]
    pub(super) fn sent(
        &mut self,
        now: Time,
        (reason, acks): (Reason, bool),
        tx: &TxFacts,
        counters: &mut Counters,
    ) {
        if acks {
            self.acknowledged(now);
        }
        let (before, timeouts) = core::mem::replace(&mut self.last_out, (now, tx.timeouts));
        if tx.timeouts > timeouts {
            counters.timeout_wait = counters.timeout_wait + (now - before);
        }
        let repeats = matches!(reason, Reason::DupAck | Reason::Partial | Reason::Sack);
        if repeats && self.recovery.is_none_or(|until| tx.una.from(until)) {
            self.recovery = Some(tx.max);
            counters.fast_retransmits += 1;
        }
    }

    /// When the last segment left.
    pub(super) fn last_sent(&self) -> Time {
        self.last_out.0
    }

    /// Parts have done what they do: if one of them timed a round trip, it counts.
    #[inline]
    pub(super) fn look(&mut self, rtt: &RttFacts) {
        if rtt.samples != self.samples {
            self.samples = rtt.samples;
            self.round_trips.add(rtt.last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_wire::Span;

    #[test]
    fn what_waits_to_be_acknowledged_does_so_from_the_first_of_it() {
        let mut tally = Tally::default();
        let at = |ms: u64| Time::ZERO + Span::MILLI * ms;
        tally.acknowledged(at(1));
        assert_eq!(tally.ack_delays.total(), 0, "nothing had come");
        tally.came(at(10));
        tally.came(at(90));
        tally.acknowledged(at(110));
        tally.acknowledged(at(500));
        tally.came(at(600));
        tally.acknowledged(at(600));
        assert_eq!(tally.ack_delays.total(), 2);
        let longest = tally.ack_delays.quantile(1.0).unwrap();
        assert!((0.1..0.107).contains(&longest), "{longest}");
        assert!(tally.ack_delays.quantile(0.4).unwrap() < 1e-5);
    }
}
