//! Who transmitted when, for the records of frames that were lost: carrier sense cannot prevent
//! that two stations begin in the same slot, and what else it did not prevent has another cause;
//! and a receiver does not know all whose signals it loses frames to. Kept only while frames are
//! recorded.

use std::collections::VecDeque;

use crate::signal::Signal;
use crate::trace::{FrameKind, NOBODY};
use wifu_wire::{Span, Time};

/// Longer than any exchange of RTS, CTS, data and ACK: 4095 octets at 1 Mb/s take 33 ms.
const KEPT: Span = Span(100_000_000);

/// An answer on the air, which leaves without carrier sense.
struct Answer {
    by: u16,
    to: u16,
    start: Time,
    end: Time,
}

/// What stations did lately.
#[derive(Default)]
pub(crate) struct Contention {
    /// When stations that contended began, and which, in order of time.
    begun: VecDeque<(Time, u16)>,
    /// CTS and ACK, in order of time.
    answers: VecDeque<Answer>,
    /// All that was on the air: whose, from when until when; in order of time.
    air: VecDeque<(u16, Time, Time)>,
    /// By station: when it began what it sends or sent last.
    last: Vec<Last>,
}

/// What a station sent last.
#[derive(Clone, Copy)]
struct Last {
    began: Time,
    /// For whom its RTS was, if it was one.
    rts: u16,
    /// When the CTS that answers this ended.
    cleared: Option<Time>,
}

impl Last {
    const NOTHING: Last = Last {
        began: Time::ZERO,
        rts: NOBODY,
        cleared: None,
    };
}

/// Data follow a CTS so soon that nobody contends in between: SIFS is 10 or 16 us, DIFS 28 or more.
const FOLLOWS: Span = Span(20_000);

impl Contention {
    /// A transmission begins.
    #[cold]
    pub fn begin(&mut self, signal: &Signal) {
        let (now, from) = (signal.start, signal.from);
        let old = |at: Time| at + KEPT < now;
        while self.begun.front().is_some_and(|(at, _)| old(*at)) {
            self.begun.pop_front();
        }
        while self.answers.front().is_some_and(|a| old(a.end)) {
            self.answers.pop_front();
        }
        while self.air.front().is_some_and(|(_, at, _)| old(*at)) {
            self.air.pop_front();
        }
        self.air.push_back((from, now, signal.end));
        if matches!(signal.kind, FrameKind::Cts | FrameKind::Ack) {
            let asked = self.last.get_mut(usize::from(signal.to));
            if let Some(asked) = asked.filter(|asked| asked.rts == from) {
                asked.cleared = Some(signal.end);
            }
            return self.answers.push_back(Answer {
                by: from,
                to: signal.to,
                start: now,
                end: signal.end,
            });
        }
        let at = usize::from(from);
        if self.last.len() <= at {
            self.last.resize(at + 1, Last::NOTHING);
        }
        let rts = signal.kind == FrameKind::Rts;
        let last = self.last[at];
        // Data that an RTS announced follow its CTS: the station contended before the RTS.
        let soon = |end: Time| now <= end + FOLLOWS;
        let follows = !rts && last.rts == signal.to && last.cleared.is_some_and(soon);
        self.last[at] = Last {
            began: if follows { last.began } else { now },
            rts: if rts { signal.to } else { NOBODY },
            cleared: None,
        };
        if !follows {
            self.begun.push_back((now, from));
        }
    }

    /// Whose were on the air with a frame before a moment, but for its own ends'.
    pub fn beside(&self, signal: &Signal, until: Time) -> impl Iterator<Item = u16> {
        let (own, begin) = ([signal.from, signal.to], signal.start);
        let met = move |(_, start, end): &&(u16, Time, Time)| *start < until && *end > begin;
        let air = self.air.iter().rev().filter(met);
        air.map(|(from, ..)| *from)
            .filter(move |from| !own.contains(from))
    }

    /// Whether the sender of a frame, and another station that was on the air beside it or whom
    /// that one answered, began to transmit within a slot of one another.
    pub fn together(&self, signal: &Signal, other: u16, slot: Span) -> bool {
        let Some(Last { began: own, .. }) = self.last.get(usize::from(signal.from)) else {
            return false;
        };
        let answered = self.answers.iter().filter(|a| {
            a.by == other && a.to != signal.from && a.start < signal.end && a.end > signal.start
        });
        let mut whom = answered.map(|a| a.to).chain([other]);
        whom.any(|station| {
            let first = self.begun.partition_point(|(at, _)| *at + slot < *own);
            let begun = self.begun.range(first..);
            let mut within = begun.take_while(|(at, _)| *at <= *own + slot);
            within.any(|(_, who)| *who == station)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phy::Mode;

    const SLOT: Span = Span(9_000);

    fn signal(kind: FrameKind, (from, to): (u16, u16), us: (u64, u64)) -> Signal {
        Signal {
            from,
            start: Time(us.0 * 1000),
            end: Time(us.1 * 1000),
            ..Signal::new(kind, to, Mode(0), 100)
        }
    }

    #[test]
    fn stations_begin_together_within_a_slot() {
        for (at, together) in [(91, true), (100, true), (109, true), (110, false)] {
            let mut all = Contention::default();
            let own = signal(FrameKind::Data, (0, 1), (100, 300));
            let other = signal(FrameKind::Data, (2, 3), (at, at + 50));
            let mut both = [&own, &other];
            both.sort_by_key(|s| s.start);
            both.iter().for_each(|s| all.begin(s));
            // What it began later is another matter.
            all.begin(&signal(FrameKind::Data, (2, 3), (200, 280)));
            assert_eq!(all.together(&own, 2, SLOT), together, "{at}");
            assert!(!all.together(&own, 3, SLOT));
        }
    }

    #[test]
    fn data_behind_an_rts_began_with_it() {
        let mut all = Contention::default();
        all.begin(&signal(FrameKind::Rts, (0, 1), (100, 150)));
        all.begin(&signal(FrameKind::Data, (2, 3), (105, 900)));
        all.begin(&signal(FrameKind::Cts, (1, 0), (160, 190)));
        let data = signal(FrameKind::Data, (0, 1), (200, 400));
        all.begin(&data);
        assert!(all.together(&data, 2, SLOT));
        // The next one contends anew.
        let next = signal(FrameKind::Data, (0, 1), (500, 700));
        all.begin(&next);
        assert!(!all.together(&next, 2, SLOT));
    }

    #[test]
    fn a_frame_after_an_rts_that_nobody_answered_contends_anew() {
        let mut all = Contention::default();
        all.begin(&signal(FrameKind::Rts, (0, 1), (100, 150)));
        let short = signal(FrameKind::Data, (0, 1), (500, 600));
        all.begin(&signal(FrameKind::Data, (2, 3), (496, 700)));
        all.begin(&short);
        assert!(all.together(&short, 2, SLOT));
        // Nor does what comes long after a CTS follow it.
        all.begin(&signal(FrameKind::Rts, (0, 1), (1000, 1050)));
        all.begin(&signal(FrameKind::Cts, (1, 0), (1060, 1090)));
        all.begin(&signal(FrameKind::Data, (2, 3), (1500, 1700)));
        let late = signal(FrameKind::Data, (0, 1), (1505, 1600));
        all.begin(&late);
        assert!(all.together(&late, 2, SLOT));
    }

    #[test]
    fn an_answer_is_of_the_one_that_it_answers() {
        // 3 answers 2, which began with 0; 4 answers 5, which began before.
        let mut all = Contention::default();
        all.begin(&signal(FrameKind::Data, (5, 4), (40, 110)));
        all.begin(&signal(FrameKind::Data, (2, 3), (100, 200)));
        let own = signal(FrameKind::Data, (0, 1), (100, 400));
        all.begin(&own);
        all.begin(&signal(FrameKind::Ack, (4, 5), (120, 150)));
        all.begin(&signal(FrameKind::Ack, (3, 2), (210, 250)));
        assert!(all.together(&own, 3, SLOT));
        assert!(!all.together(&own, 4, SLOT));
    }

    #[test]
    fn who_is_on_the_air_beside_a_frame_is_known() {
        let mut all = Contention::default();
        let own = signal(FrameKind::Data, (0, 1), (100, 300));
        all.begin(&signal(FrameKind::Data, (5, 3), (10, 100)));
        all.begin(&signal(FrameKind::Data, (2, 3), (50, 120)));
        all.begin(&own);
        all.begin(&signal(FrameKind::Ack, (1, 4), (150, 160)));
        all.begin(&signal(FrameKind::Ack, (3, 2), (200, 220)));
        let beside = |until: u64| -> Vec<u16> { all.beside(&own, Time(until * 1000)).collect() };
        assert_eq!(beside(300), [3, 2]);
        assert_eq!(beside(116), [2], "while its preamble lasts");
    }

    #[test]
    fn what_is_long_over_is_forgotten() {
        let mut all = Contention::default();
        for n in 0..1000 {
            all.begin(&signal(FrameKind::Data, (0, 1), (n * 1000, n * 1000 + 500)));
            all.begin(&signal(
                FrameKind::Ack,
                (1, 0),
                (n * 1000 + 510, n * 1000 + 520),
            ));
        }
        assert!(all.begun.len() <= 101 && all.answers.len() <= 101);
    }
}
