//! The delivery rate, for whoever asks how fast a connection is now. What congestion control needs
//! of it, a sample with each acknowledgement, is [`crate::kit::delivery`].

use crate::board::Board;
use wifu_wire::{Seq, Span, Time};

/// A round trip that lasts this long ends with the next acknowledgement: all that nodes on the way
/// store may take minutes, and so may a recovery.
const LONG: Span = Span::SECOND;

/// How fast the peer acknowledged data in the latest round trip.
///
/// Time with something in flight is cut into round trips, each from an acknowledgement, or from the
/// first segment after nothing was in flight, to the one that acknowledges the last of what was in
/// flight at its beginning (at its first acknowledgement, if nothing was). A recovery is all in
/// one, or the end of it in one that is [`LONG`]: its last acknowledgement tells at once of what
/// had arrived before. The rest of a transfer, which may be a few acknowledgements that come
/// together, is none if it takes less than the smoothed round-trip time.
#[derive(Debug, Default)]
pub(super) struct Delivered {
    /// In the latest one that is over, octets per second.
    rate: u64,
    under_way: Option<Round>,
}

/// A round trip that is not over.
#[derive(Clone, Copy, Debug)]
struct Round {
    since: Time,
    /// Octets that were acknowledged before.
    before: u64,
    /// What was in flight at its beginning ends here; `None` before its first acknowledgement, if
    /// nothing was.
    upto: Option<Seq>,
    /// It takes so long at least.
    least: Span,
}

impl Round {
    /// Octets per second, with so many acknowledged in all.
    fn rate(&self, now: Time, acked: u64) -> Option<u64> {
        let Span(ns) = now - self.since;
        let octets = acked - self.before;
        octets.saturating_mul(1_000_000_000).checked_div(ns)
    }
}

impl Delivered {
    /// New data has left; `acked` octets were acknowledged so far.
    #[inline]
    pub(super) fn sent(&mut self, now: Time, acked: u64) {
        if self.under_way.is_none() {
            self.under_way = Some(Round {
                since: now,
                before: acked,
                upto: None,
                least: Span::ZERO,
            });
        }
    }

    /// Something was acknowledged, `acked` octets of data so far.
    #[inline]
    pub(super) fn acked(&mut self, now: Time, board: &Board, acked: u64) {
        let (tx, Some(round)) = (&board.tx, &mut self.under_way) else {
            return;
        };
        let (upto, took) = (*round.upto.get_or_insert(tx.max), now - round.since);
        let whole = tx.una.from(upto) && !tx.recovering && took >= round.least;
        let over = whole || took >= LONG;
        if over {
            self.rate = round.rate(now, acked).unwrap_or(self.rate);
        }
        if tx.una == tx.max {
            self.under_way = None;
        } else if over {
            self.under_way = Some(Round {
                since: now,
                before: acked,
                upto: Some(tx.max),
                least: if tx.recovering { LONG } else { board.rtt.srtt },
            });
        }
    }

    /// In the latest round trip, octets per second; 0 before the first is over.
    pub(super) fn latest(&self) -> u64 {
        self.rate
    }

    /// The same, or what the round trip under way comes to if all of `flight` octets are
    /// acknowledged now, if that is less.
    pub(super) fn until(&self, now: Time, flight: u32, acked: u64) -> u64 {
        let most = self
            .under_way
            .and_then(|r| r.rate(now, acked + u64::from(flight)));
        most.map_or(self.rate, |most| most.min(self.rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time::ZERO + Span::MILLI * n
    }

    /// A sender of segments of 1000 octets.
    #[derive(Default)]
    struct Flow {
        delivered: Delivered,
        board: Board,
        acked: u64,
    }

    impl Flow {
        fn sends(&mut self, at: u64, segments: u32) {
            for _ in 0..segments {
                self.board.tx.max = self.board.tx.max.plus(1000);
                self.delivered.sent(ms(at), self.acked);
            }
        }

        fn hears(&mut self, at: u64, segments: u32) {
            self.board.tx.una = self.board.tx.una.plus(1000 * segments);
            self.acked += 1000 * u64::from(segments);
            self.delivered.acked(ms(at), &self.board, self.acked);
        }

        fn rate(&self, at: u64) -> u64 {
            self.delivered
                .until(ms(at), self.board.tx.flight(), self.acked)
        }
    }

    #[test]
    fn the_rate_is_of_a_round_trip() {
        let mut f = Flow::default();
        f.sends(0, 4);
        for at in [100, 110, 120] {
            f.hears(at, 1);
            assert_eq!(f.rate(at), 0, "it is not over");
        }
        f.hears(130, 1);
        assert_eq!(f.rate(130), 30_769, "four in 130 ms");
        // One more leaves with each acknowledgement: four in 100 ms.
        f.sends(200, 4);
        for at in 0..40 {
            f.hears(300 + at * 25, 1);
            f.sends(300 + at * 25, 1);
        }
        assert_eq!(f.rate(1_300), 40_000);
    }

    #[test]
    fn time_without_anything_in_flight_is_in_none() {
        let mut f = Flow::default();
        for second in 0..3 {
            f.sends(second * 1000, 2);
            f.hears(second * 1000 + 80, 1);
            f.hears(second * 1000 + 100, 1);
            assert_eq!(f.rate(second * 1000 + 999), 20_000);
        }
        // The end alone is no data.
        f.board.tx.max = f.board.tx.max.plus(1);
        f.board.tx.una = f.board.tx.max;
        f.delivered.acked(ms(3_000), &f.board, f.acked);
        assert_eq!(f.rate(100_000), 20_000, "the latest stays");
    }

    #[test]
    fn the_rest_of_a_transfer_is_none_if_its_acknowledgements_come_together() {
        let mut f = Flow::default();
        f.board.rtt.srtt = Span::MILLI * 100;
        f.sends(0, 10);
        f.hears(100, 5);
        f.sends(100, 2);
        f.hears(101, 5);
        assert_eq!(f.rate(101), 99_009);
        f.hears(102, 2);
        assert_eq!(f.rate(102), 99_009, "not two in a millisecond");
        // Where there is more to come, they are in the next whole one.
        f.sends(1_000, 10);
        f.hears(1_100, 10);
        f.sends(1_100, 2);
        f.hears(1_200, 1);
        f.sends(1_200, 1);
        f.hears(1_201, 1);
        f.sends(1_201, 5);
        f.hears(1_202, 1);
        f.hears(1_301, 1);
        assert_eq!(f.rate(1_301), 20_000);
    }

    #[test]
    fn in_a_stall_the_rate_falls_to_what_the_round_trip_can_come_to() {
        let mut f = Flow::default();
        f.sends(0, 10);
        f.hears(100, 10);
        f.sends(100, 10);
        assert_eq!(f.rate(199), 100_000, "it may still be as much");
        assert_eq!(f.rate(1_100), 10_000);
        assert_eq!(f.rate(10_100), 1_000);
        f.hears(10_100, 10);
        assert_eq!(f.rate(20_000), 1_000);
    }

    #[test]
    fn a_recovery_is_all_in_one() {
        let mut f = Flow::default();
        f.sends(0, 10);
        f.hears(100, 10);
        f.sends(100, 10);
        f.hears(200, 1);
        f.board.tx.recovering = true;
        f.sends(250, 2);
        f.hears(300, 9);
        assert_eq!(
            f.rate(300),
            60_000,
            "all that was in flight, but not the end"
        );
        f.board.tx.recovering = false;
        f.hears(400, 2);
        assert_eq!(f.rate(400), 40_000);
        // One that does not end is in several.
        f.sends(400, 10);
        f.board.tx.recovering = true;
        for second in 1..=5 {
            f.hears(400 + second * 1000, 1);
            assert_eq!(f.rate(400 + second * 1000), 1_000);
        }
        f.sends(5_450, 5);
        f.board.tx.recovering = false;
        f.hears(5_500, 5);
        assert_eq!(f.rate(5_500), 1_000, "what had arrived before");
        f.hears(6_400, 5);
        assert_eq!(f.rate(6_400), 10_000);
    }
}
