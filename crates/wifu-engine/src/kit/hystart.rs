//! HyStart++: leaving slow start before the queue overflows (RFC 9406).

use crate::params::ParamSpec;
use wifu_wire::{Seq, Span};

/// The switch.
pub const HYSTART: ParamSpec = ParamSpec::flag(
    "hystart",
    false,
    "Leave the first slow start when round trips get longer (HyStart++, RFC 9406).",
);

/// How the window grows for one acknowledgement of the first slow start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// By the whole step.
    Full,
    /// By a quarter: the queue may be growing.
    Careful,
    /// Slow start is over.
    Over,
}

/// Follows round trips during the first slow start.
#[derive(Clone, Debug)]
pub struct HyStart {
    on: bool,
    /// The round ends when this is acknowledged.
    end: Option<Seq>,
    last: Option<Span>,
    current: Option<Span>,
    samples: u32,
    /// Conservative slow start: its baseline and the rounds in it.
    careful: Option<(Span, u32)>,
}

impl HyStart {
    /// Off, it answers [`Pace::Full`] to everything.
    pub fn new(on: bool) -> HyStart {
        HyStart {
            on,
            end: None,
            last: None,
            current: None,
            samples: 0,
            careful: None,
        }
    }

    /// Whether it watches the first slow start.
    pub fn watching(&self) -> bool {
        self.on
    }

    /// The first slow start is over: by a loss, or by itself.
    pub fn finish(&mut self) {
        self.on = false;
    }

    /// A round trip was timed.
    pub fn sample(&mut self, rtt: Span) {
        self.current = Some(self.current.map_or(rtt, |c| c.min(rtt)));
        self.samples += 1;
    }

    /// Data was acknowledged up to `upto`, while everything before `max` was sent.
    pub fn acked(&mut self, upto: Seq, max: Seq) -> Pace {
        if !self.on {
            return Pace::Full;
        }
        self.judge();
        let end = *self.end.get_or_insert(max);
        if upto.from(end) {
            self.end = Some(max);
            (self.last, self.current, self.samples) = (self.current, None, 0);
            if let Some((_, rounds)) = &mut self.careful {
                *rounds += 1;
                if *rounds >= CSS_ROUNDS {
                    self.finish();
                    return Pace::Over;
                }
            }
        }
        match self.careful {
            Some(_) => Pace::Careful,
            None => Pace::Full,
        }
    }

    //= rfc9406#section-4.2
    fn judge(&mut self) {
        let (Some(current), true) = (self.current, self.samples >= N_RTT_SAMPLE) else {
            return;
        };
        match (self.careful, self.last) {
            (Some((baseline, _)), _) if current < baseline => self.careful = None,
            (None, Some(last)) => {
                let threshold = (last / MIN_RTT_DIVISOR).min(MAX_RTT_THRESH);
                if current >= last + threshold.max(MIN_RTT_THRESH) {
                    self.careful = Some((current, 0));
                }
            }
            _ => {}
        }
    }
}

// Constants of RFC 9406 4.3.
const MIN_RTT_THRESH: Span = Span(4_000_000);
const MAX_RTT_THRESH: Span = Span(16_000_000);
const MIN_RTT_DIVISOR: u64 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_ROUNDS: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of ten acknowledgements with these round trips (ms); the pace at the end of each.
    fn paces(h: &mut HyStart, rounds: &[u64]) -> Vec<Pace> {
        let (mut una, mut all) = (0, Vec::new());
        for rtt_ms in rounds {
            let mut last = Pace::Full;
            for _ in 0..10 {
                una += 1;
                h.sample(Span::MILLI * *rtt_ms);
                last = h.acked(Seq(una), Seq(una / 10 * 10 + 10));
            }
            all.push(last);
        }
        all
    }

    #[test]
    fn longer_round_trips_slow_it_down_and_end_it_after_five_rounds() {
        use Pace::{Careful, Full, Over};
        let mut h = HyStart::new(true);
        // From 44 ms on, 44 / 8 = 5.5 ms more are too many.
        let rounds = [40, 40, 44, 50, 53, 53, 53, 53, 53];
        let expected = [
            Full, Full, Full, Careful, Careful, Careful, Careful, Over, Full,
        ];
        assert_eq!(paces(&mut h, &rounds), expected);
    }

    #[test]
    fn a_round_that_is_shorter_again_resumes() {
        let mut h = HyStart::new(true);
        let paces = paces(&mut h, &[40, 40, 50, 45, 45]);
        assert_eq!(paces[2], Pace::Careful);
        assert_eq!(paces[4], Pace::Full);
        h.finish();
        assert_eq!(h.acked(Seq(100), Seq(200)), Pace::Full);
    }
}
