//! How much of the window was used, by what acknowledgements brought (RFC 7661 4.2).

use crate::board::Board;
use crate::signal::Acked;
use wifu_wire::{Seq, Span, Time};

/// How many stretches the sampling period is cut into: what is older than the period is forgotten
/// by one of them at a time.
const BINS: usize = 4;

/// The sampling period is at least this long (RFC 7661 4.2).
const LEAST: Span = Span::SECOND;

/// pipeACK: the largest volume that one round trip acknowledged, of those in the last three round
/// trips, or in the last second if that is longer. After longer silence it is nothing (the RFC
/// says "undefined", for which a window may grow): CUBIC would take the silence for time to grow.
#[derive(Clone, Copy, Debug, Default)]
pub struct PipeAck {
    /// The end of what was in flight when the round trip began, and what was acknowledged since.
    round: Option<(Seq, u32)>,
    /// When each stretch began, and the largest volume in it, octets, 0 if there is none; the
    /// newest last.
    bins: [(Time, u32); BINS],
}

impl PipeAck {
    //= rfc7661#section-4.2
    /// Data was acknowledged.
    pub fn acked(&mut self, acked: &Acked, board: &Board, now: Time) {
        let (end, volume) = self.round.unwrap_or((board.tx.max, 0));
        let volume = volume.saturating_add(acked.bytes);
        if acked.upto.before(end) {
            self.round = Some((end, volume));
            return;
        }
        // Without anything in flight the next round trip begins with what is sent next.
        self.round = (board.tx.max != acked.upto).then_some((board.tx.max, 0));
        let stretch = PipeAck::period(board) / BINS as u64;
        let (began, most) = &mut self.bins[BINS - 1];
        if *most > 0 && now - *began < stretch {
            *most = volume.max(*most);
        } else {
            self.bins.rotate_left(1);
            self.bins[BINS - 1] = (now, volume);
        }
    }

    /// The volume, octets; 0 after a period of silence. `None` while it is not defined: no round
    /// trip was completed since the start or since a loss.
    pub fn octets(&self, board: &Board, now: Time) -> Option<u32> {
        if self.bins[BINS - 1].1 == 0 {
            return None;
        }
        let period = PipeAck::period(board);
        let recent = self.bins.iter().filter(|b| now - b.0 <= period);
        recent.map(|b| b.1).max().or(Some(0))
    }

    /// Forget everything: what was in flight was lost.
    pub fn clear(&mut self) {
        *self = PipeAck::default();
    }

    fn period(board: &Board) -> Span {
        (board.rtt.srtt * 3).max(LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permit::Limit;

    /// A sender whose segments of 1000 octets are acknowledged in order.
    struct Flow(PipeAck, Board);

    impl Flow {
        fn new(rtt_ms: u64) -> Flow {
            let mut board = Board::default();
            board.rtt.srtt = Span::MILLI * rtt_ms;
            Flow(PipeAck::default(), board)
        }

        /// So many segments leave, and come back one by one from `at_ms` on.
        fn burst(&mut self, segments: u32, at_ms: u64) -> Option<u32> {
            self.1.tx.max = self.1.tx.max.plus(1000 * segments);
            let now = Time(at_ms * 1_000_000);
            for _ in 0..segments {
                self.1.tx.una = self.1.tx.una.plus(1000);
                let acked = Acked {
                    bytes: 1000,
                    upto: self.1.tx.una,
                    in_recovery: false,
                    limited_by: Limit::Source,
                };
                self.0.acked(&acked, &self.1, now);
            }
            self.octets(at_ms)
        }

        fn octets(&self, at_ms: u64) -> Option<u32> {
            self.0.octets(&self.1, Time(at_ms * 1_000_000))
        }
    }

    #[test]
    fn the_largest_round_trip_of_the_period_counts_and_is_forgotten_after_it() {
        let mut f = Flow::new(100);
        assert_eq!(f.octets(0), None);
        assert_eq!(f.burst(1, 100), Some(1000));
        assert_eq!(f.burst(8, 200), Some(8000));
        for at in [300, 500, 700, 900, 1_100] {
            assert_eq!(f.burst(2, at), Some(8000), "{at}");
        }
        assert_eq!(f.burst(2, 1_400), Some(2000));
        assert_eq!(f.octets(2_700), Some(0), "silence is no use");
        f.burst(2, 2_800);
        f.0.clear();
        assert_eq!(f.octets(2_800), None, "unknown");
    }

    #[test]
    fn the_period_is_three_round_trips_where_those_are_longer_than_a_second() {
        let mut f = Flow::new(1_000);
        f.burst(5, 1_000);
        assert_eq!((f.octets(3_900), f.octets(4_100)), (Some(5000), Some(0)));
    }

    #[test]
    fn a_round_trip_ends_with_what_was_in_flight_when_it_began() {
        let mut f = Flow::new(100);
        f.1.tx.max = Seq(4000);
        let mut seen = Vec::new();
        for i in 1..=8 {
            // One more leaves for each that is acknowledged: always four in flight.
            f.1.tx.una = Seq(1000 * i);
            f.1.tx.max = Seq(4000 + 1000 * i);
            let acked = Acked {
                bytes: 1000,
                upto: f.1.tx.una,
                in_recovery: false,
                limited_by: Limit::Window,
            };
            f.0.acked(&acked, &f.1, Time(u64::from(i)));
            seen.push(f.octets(0));
        }
        // The first ends with all that was in flight at its first acknowledgement.
        let five = Some(5000);
        assert_eq!(seen[..4], [None; 4]);
        assert_eq!(seen[4..], [five; 4]);
    }
}
