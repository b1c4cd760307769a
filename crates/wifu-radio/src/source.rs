//! Sources of power that are no 802.11: they listen to nobody, and nobody decodes them.

use crate::plan::{InterfererPlan, Plan};
use crate::power::Power;
use wifu_wire::{Rng, Span, Time};

/// A source at work.
pub(crate) struct Source {
    /// Who receives how much of it.
    pub received: Vec<(u16, Power)>,
    pub start: Time,
    pub on: bool,
    /// How long it is on and off; not off at all if that is zero.
    lengths: (Span, Span),
    /// Both are means.
    random: Option<Rng>,
}

impl Source {
    /// The sources of `plan`, silent; each has a stream of its own below `rng`.
    pub fn all(plan: &Plan, rng: &Rng) -> Vec<Source> {
        let own = rng.split("interference");
        let sources = plan.interferers.iter().enumerate();
        sources
            .map(|(i, s)| Source::new(s, own.split_n(i as u64)))
            .collect()
    }

    fn new(plan: &InterfererPlan, rng: Rng) -> Source {
        let received = plan.received.iter();
        Source {
            received: received
                .map(|(to, dbm)| (*to, Power::received(*dbm)))
                .collect(),
            start: Time::ZERO + plan.start,
            on: false,
            lengths: (plan.on, plan.off),
            random: plan.random.then_some(rng),
        }
    }

    /// It turns on or off at `now`: when it does so again.
    pub fn turn(&mut self, now: Time) -> Time {
        self.on = !self.on;
        let (on, off) = self.lengths;
        if off == Span::ZERO {
            return Time::NEVER;
        }
        let mean = if self.on { on } else { off };
        now + match &mut self.random {
            None => mean,
            Some(rng) => {
                let drawn = -libm::log(1.0 - rng.unit()) * mean.0 as f64;
                Span((drawn.round() as u64).max(1))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(random: bool) -> Source {
        let plan = InterfererPlan {
            name: String::from("oven"),
            received: vec![(0, -60.0)],
            start: Span::ZERO,
            on: Span::MILLI * 8,
            off: Span::MILLI * 12,
            random,
            placed: false,
        };
        Source::new(&plan, Rng::new(7))
    }

    /// Share of the time on, and the lengths of the times on, over so many turns.
    fn play(source: &mut Source, turns: usize) -> (f64, Vec<u64>) {
        let (mut now, mut on, mut lengths) = (Time::ZERO, 0, Vec::new());
        for _ in 0..turns {
            let next = source.turn(now);
            if source.on {
                on += (next - now).0;
                lengths.push((next - now).0);
            }
            now = next;
        }
        (on as f64 / now.0 as f64, lengths)
    }

    #[test]
    fn it_is_on_for_its_share_of_the_time_exactly_or_on_average() {
        let (share, lengths) = play(&mut source(false), 1_000);
        assert_eq!(share, 0.4);
        assert!(lengths.iter().all(|n| *n == 8_000_000));
        let (share, lengths) = play(&mut source(true), 100_000);
        assert!((share - 0.4).abs() < 0.01, "{share}");
        let long = lengths.iter().filter(|n| **n > 8_000_000).count() as f64;
        let share = long / lengths.len() as f64;
        assert!((share - (-1.0f64).exp()).abs() < 0.01, "{share}");
    }

    #[test]
    fn without_a_pause_it_turns_on_once() {
        let mut steady = source(false);
        steady.lengths.1 = Span::ZERO;
        assert_eq!(steady.turn(Time(5)), Time::NEVER);
        assert!(steady.on);
    }
}
