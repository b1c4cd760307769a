//! Random early detection: S. Floyd and V. Jacobson, "Random early detection gateways for
//! congestion avoidance", IEEE/ACM Transactions on Networking 1(4), 1993, by the names and defaults
//! of ns-2, lengths in packets. Deviation from ns-2, as in Linux without `harddrop`: above the
//! upper threshold what understands marks is marked, too, as long as there is room.

use wifu_wire::{Rng, Span, Time};

/// Parameters, by the names of ns-2.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RedParams {
    /// Averages below are no congestion, packets.
    pub thresh: f64,
    /// From this average on every packet signals (with `gentle`: from twice as much on), packets.
    pub maxthresh: f64,
    /// Weight of the present queue in the average.
    pub q_weight: f64,
    /// 1 / the probability at `maxthresh`.
    pub linterm: f64,
    /// The probability rises to 1 between `maxthresh` and twice `maxthresh`.
    pub gentle: bool,
    /// Of these the average counts as many as would have left in an idle time, octets.
    pub mean_octets: u32,
}

impl Default for RedParams {
    fn default() -> RedParams {
        RedParams {
            thresh: 5.0,
            maxthresh: 15.0,
            q_weight: 0.002,
            linterm: 10.0,
            gentle: true,
            mean_octets: 500,
        }
    }
}

/// The average of one queue, and what it says.
#[derive(Clone, Debug)]
pub struct Red {
    p: RedParams,
    /// Time of a small packet.
    slot: Span,
    average: f64,
    /// Packets since the last signal; `None`: the average is no congestion.
    since: Option<u32>,
    idle: Option<Time>,
    rng: Rng,
}

impl Red {
    /// An empty queue; a small packet takes `slot`.
    pub fn new(p: RedParams, slot: Span, rng: Rng) -> Red {
        Red {
            p,
            slot,
            average: 0.0,
            since: None,
            idle: Some(Time::ZERO),
            rng,
        }
    }

    /// Nothing waits from now on.
    pub fn emptied(&mut self, now: Time) {
        self.idle = self.idle.or(Some(now));
    }

    /// A packet comes while so many wait: whether the sender is to slow down.
    pub fn arrives(&mut self, now: Time, waiting: usize) -> bool {
        let (keep, idle) = (1.0 - self.p.q_weight, self.idle.take());
        if let (Some(since), true) = (idle, self.slot > Span::ZERO) {
            self.average *= power(keep, (now - since).0 / self.slot.0);
        }
        self.average = keep * self.average + self.p.q_weight * waiting as f64;
        let Some(p) = self.probability() else {
            self.since = None;
            return false;
        };
        let since = self.since.map_or(0, |n| n.saturating_add(1));
        self.since = Some(since);
        // Intervals between signals are uniform (section 7): from 1 to 1/p - 1 packets.
        let rest = 1.0 - f64::from(since) * p;
        let signals = p >= 1.0 || p >= rest || self.rng.unit() < p / rest;
        if signals {
            self.since = Some(0);
        }
        signals
    }

    /// How likely the average makes a signal; `None`: it is no congestion.
    fn probability(&self) -> Option<f64> {
        let RedParams {
            thresh, maxthresh, ..
        } = self.p;
        let most = 1.0 / self.p.linterm;
        if self.average < thresh {
            return None;
        }
        Some(if self.average < maxthresh {
            most * (self.average - thresh) / (maxthresh - thresh)
        } else if self.p.gentle && self.average < 2.0 * maxthresh {
            most + (1.0 - most) * (self.average - maxthresh) / maxthresh
        } else {
            1.0
        })
    }
}

/// The same on every machine.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut product = 1.0;
    while exponent > 0 && product > 0.0 {
        if exponent & 1 == 1 {
            product *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    fn red(p: RedParams) -> Red {
        Red::new(p, Span::MILLI, Rng::new(1))
    }

    #[test]
    fn the_average_follows_by_its_weight_and_decays_by_packets_that_might_have_left() {
        let mut r = red(RedParams {
            q_weight: 0.25,
            ..RedParams::default()
        });
        let averages = [4, 8, 0].map(|n| {
            r.arrives(Time(5), n);
            r.average
        });
        assert_eq!(averages, [1.0, 2.75, 2.0625]);
        // Two milliseconds are two packets, and this one is a third.
        r.emptied(Time(1_000_000));
        r.emptied(Time(1_500_000));
        r.arrives(Time(3_900_000), 0);
        assert_eq!(r.average, 2.0625 * 0.75 * 0.75 * 0.75);
        r.arrives(Time(9_000_000), 0);
        assert_eq!(r.average, 2.0625 * 0.75 * 0.75 * 0.75 * 0.75);
    }

    #[test]
    fn the_probability_rises_in_two_pieces() {
        let at = |average: f64, gentle: bool| {
            let mut r = red(RedParams {
                gentle,
                ..RedParams::default()
            });
            r.average = average;
            r.probability()
        };
        assert_eq!(
            [4.9, 5.0, 10.0].map(|a| at(a, true)),
            [None, Some(0.0), Some(0.05)]
        );
        assert_eq!(at(15.0, true), Some(0.1));
        assert!((at(22.5, true).unwrap() - 0.55).abs() < 1e-12);
        assert_eq!([at(30.0, true), at(15.0, false)], [Some(1.0); 2]);
    }

    /// Section 7: with a constant average the gaps are uniform between 1 and 1/p - 1 packets.
    #[test]
    fn signals_are_evenly_spread() {
        let mut r = red(RedParams {
            q_weight: 1.0,
            ..RedParams::default()
        });
        let (mut gaps, mut gap) = (Vec::new(), 0u32);
        for _ in 0..200_000 {
            gap += 1;
            if r.arrives(Time(1), 10) {
                gaps.push(gap);
                gap = 0;
            }
        }
        let mean = f64::from(gaps.iter().sum::<u32>()) / gaps.len() as f64;
        assert!((mean - 10.0).abs() < 0.15, "{mean}");
        assert_eq!(gaps.iter().max(), Some(&19));
        for n in 1..=19 {
            let share = gaps.iter().filter(|g| **g == n).count() as f64 / gaps.len() as f64;
            assert!((share - 1.0 / 19.0).abs() < 0.01, "{n}: {share}");
        }
    }

    #[test]
    fn thresholds_that_are_one_make_a_step() {
        let mut r = red(RedParams {
            thresh: 20.0,
            maxthresh: 20.0,
            q_weight: 1.0,
            gentle: false,
            ..RedParams::default()
        });
        assert_eq!(
            [19, 20, 21, 3].map(|n| r.arrives(Time(1), n)),
            [false, true, true, false]
        );
    }
}
