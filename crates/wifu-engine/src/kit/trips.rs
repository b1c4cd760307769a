//! Round trips as Linux times them (net/ipv4/tcp_input.c, tcp_clean_rtx_queue, tcp_sacktag_one,
//! tcp_ack_update_rtt): by when the oldest segment left that an acknowledgement tells of, and that
//! was sent once and not reported before; so a lost acknowledgement makes the next trip longer. A
//! report is such news, too.

use super::ranges::in_order;
use crate::params::ParamSpec;
use std::collections::VecDeque;
use wifu_wire::{Seq, Span, Time};

/// What is timed.
pub const TRIPS: ParamSpec = ParamSpec::text(
    "trips",
    "echo",
    &["echo", "linux"],
    "What times a round trip: the timestamp that is echoed (RFC 7323 4.1), or when the oldest \
     segment left that an acknowledgement, or else a report, tells of for the first time, and that \
     was sent once; an echo only for acknowledgements of what went again (Linux, \
     tcp_clean_rtx_queue, tcp_ack_update_rtt).",
);

/// Segments for which there is room from the beginning.
const FEW: usize = 64;

/// More are not remembered; a peer that reports single octets would have each of them kept.
const MANY: usize = 16_384;

/// What left at one time.
#[derive(Clone, Copy, Debug)]
struct Trip {
    start: Seq,
    end: Seq,
    at: Time,
    /// It went again.
    again: bool,
    /// It was reported.
    told: bool,
}

/// What is not acknowledged, and when it left.
#[derive(Clone, Debug)]
pub struct Trips {
    log: VecDeque<Trip>,
}

/// The trips that an acknowledgement ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Of what is acknowledged, or else of what is reported, the oldest: it is smoothed.
    pub oldest: Option<Span>,
    /// Of what is reported, or else of what is acknowledged, the latest: it may be the smallest.
    pub latest: Option<Span>,
}

impl Trips {
    /// Nothing was sent.
    pub fn new() -> Trips {
        Trips {
            log: VecDeque::with_capacity(FEW),
        }
    }

    /// `start..end` leaves, for the first time or again.
    pub fn sent(&mut self, start: Seq, end: Seq, now: Time) {
        let known = self.log.back().map_or(start, |t| t.end);
        for i in self.pieces(start, end.earlier(known)) {
            (self.log[i].at, self.log[i].again) = (now, true);
        }
        let start = start.later(known);
        if end.after(start) {
            self.log.push_back(Trip {
                start,
                end,
                at: now,
                again: false,
                told: false,
            });
        }
    }

    /// Everything before `ack` arrived, and what these ranges beyond it say.
    pub fn heard<'a>(
        &mut self,
        ack: Seq,
        ranges: impl Iterator<Item = &'a (Seq, Seq)> + Clone,
        now: Time,
    ) -> Ended {
        let told = self.reported(ack, ranges);
        let ended = self.acked(ack);
        let ago = |t: Time| now - t;
        Ended {
            oldest: ended.or(told).map(|t| ago(t.0)),
            latest: told.or(ended).map(|t| ago(t.1)),
        }
    }

    /// When the first and the last left of what is reported for the first time, and was sent once;
    /// in the order of their numbers.
    fn reported<'a>(
        &mut self,
        ack: Seq,
        ranges: impl Iterator<Item = &'a (Seq, Seq)> + Clone,
    ) -> Option<(Time, Time)> {
        let mut found = None;
        for (start, end) in in_order(ranges, ack) {
            for i in self.pieces(start, end) {
                let trip = &mut self.log[i];
                if !core::mem::replace(&mut trip.told, true) && !trip.again {
                    found = Some((found.map_or(trip.at, |(first, _)| first), trip.at));
                }
            }
        }
        found
    }

    /// The same of what is acknowledged; nothing if any of it went again.
    fn acked(&mut self, ack: Seq) -> Option<(Time, Time)> {
        let (mut found, mut again) = (None, false);
        self.split(ack);
        while let Some(trip) = self.log.front().copied().filter(|t| t.end.upto(ack)) {
            again |= trip.again;
            if !trip.told {
                found = Some((found.map_or(trip.at, |(first, _)| first), trip.at));
            }
            self.log.pop_front();
        }
        found.filter(|_| !again)
    }

    /// The first piece that ends beyond `at`.
    fn place(&self, at: Seq) -> usize {
        self.log.partition_point(|t| t.end.upto(at))
    }

    /// No piece goes across `at` any more, unless there are too many.
    fn split(&mut self, at: Seq) {
        let i = self.place(at);
        let full = self.log.len() >= MANY;
        let Some(trip) = self.log.get_mut(i) else {
            return;
        };
        if !full && trip.start.before(at) {
            let head = Trip { end: at, ..*trip };
            trip.start = at;
            self.log.insert(i, head);
        }
    }

    /// Numbers of the pieces that lie in `start..end`.
    fn pieces(&mut self, start: Seq, end: Seq) -> core::ops::Range<usize> {
        if !end.after(start) {
            return 0..0;
        }
        self.split(start);
        self.split(end);
        let first = self.log.partition_point(|t| t.start.before(start));
        first..self.place(end).max(first)
    }
}

impl Default for Trips {
    fn default() -> Trips {
        Trips::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    fn ended(oldest: Option<u64>, latest: Option<u64>) -> Ended {
        let span = |ms: Option<u64>| ms.map(|ms| Span::MILLI * ms);
        Ended {
            oldest: span(oldest),
            latest: span(latest),
        }
    }

    /// Ten segments of 1000, one each 10 ms.
    fn ten() -> Trips {
        let mut t = Trips::new();
        for i in 0..10 {
            t.sent(Seq(i * 1000), Seq(i * 1000 + 1000), time(u64::from(i) * 10));
        }
        t
    }

    #[test]
    fn the_oldest_that_is_acknowledged_is_timed_where_acknowledgements_were_lost() {
        let mut t = ten();
        let none = || [].iter();
        assert_eq!(
            t.heard(Seq(1000), none(), time(100)),
            ended(Some(100), Some(100))
        );
        assert_eq!(
            t.heard(Seq(4000), none(), time(140)),
            ended(Some(130), Some(110))
        );
        assert_eq!(t.heard(Seq(4000), none(), time(150)), ended(None, None));
    }

    #[test]
    fn a_report_is_timed_once_and_what_went_again_never() {
        let mut t = ten();
        let at = |t: &mut Trips, ack: u32, ranges: &[(u32, u32)], ms: u64| {
            let ranges: Vec<_> = ranges.iter().map(|r| (Seq(r.0), Seq(r.1))).collect();
            t.heard(Seq(ack), ranges.iter(), time(ms))
        };
        let one = [(5000, 6000)];
        assert_eq!(at(&mut t, 0, &one, 150), ended(Some(100), Some(100)));
        assert_eq!(at(&mut t, 0, &one, 160), ended(None, None));
        // The latest first, as a receiver reports.
        let more = [(8000, 9000), (4000, 6000)];
        assert_eq!(at(&mut t, 0, &more, 180), ended(Some(140), Some(100)));
        // What filled the hole went again: no trip, but of what is reported beside.
        t.sent(Seq(0), Seq(1000), time(190));
        assert_eq!(at(&mut t, 3000, &more, 200), ended(None, None));
        t.sent(Seq(3000), Seq(4000), time(210));
        let beside = [(7000, 9000)];
        assert_eq!(at(&mut t, 6000, &beside, 220), ended(Some(150), Some(150)));
        assert_eq!(at(&mut t, 10_000, &[], 230), ended(Some(170), Some(140)));
        assert!(t.log.is_empty());
    }
}
