//! Adaptive pacing: what the two forms of TCP-AP share. Of round trips they make the delay of some
//! hops, each by a law of its own; here it is averaged, stretched by how much round trips vary, and
//! waited for.

use super::{Ewma, Pace};
use crate::board::{Board, RateFacts, SiteFacts};
use crate::params::{ParamSpec, Params};
use crate::permit::{Kind, Limit, Permit, Want};
use crate::signal::{RttSample, Sent};
use core::num::NonZeroU8;
use wifu_wire::{Neighbour, Rate, Span, Time};

/// Parameters that a part using [`Adaptive`] declares.
pub const ADAPTIVE_PARAMS: [ParamSpec; 5] = [
    ParamSpec::real(
        "alpha",
        0.7,
        0.0,
        0.99,
        "Weight of the old delay when a sample comes (TCP-AP IV.F).",
    ),
    ParamSpec::int(
        "history",
        50,
        2,
        256,
        "Round trips of which the variation is taken: N of equation 1.",
    ),
    ParamSpec::text(
        "cov",
        "sample-std",
        &["sample-std", "population", "mean-abs-dev"],
        "How variation is measured, in means: the standard deviation of the sample (equation 1) or \
         of the population (WiFu's code) of round trips, or the mean absolute deviation of the \
         delays that are made of them (TCP-AP's ns-2 agent).",
    ),
    ParamSpec::optional_real(
        "cov_fixed",
        0.0,
        100.0,
        "The variation, in means, whatever round trips do: 1 + 2 cov is the same always, so that \
         what it is good for can be measured; auto: it is measured.",
    ),
    ParamSpec::text(
        "retransmissions",
        "bypass",
        &["bypass", "behind-window"],
        "The segment that a recovery turns on leaves at once; or, as with a queue that nothing \
         overtakes (WiFu's code), in its turn and behind what the window allowed when the loss was \
         noticed.",
    ),
];

/// Before the first sample (TCP-AP's ns-2 agent).
const FIRST: Span = Span(50_000_000);

/// A longer round trip says nothing.
const LONGEST: Span = Span(30_000_000_000);

/// What a probe reports while nothing is known: recorded as such, for no number is infinite.
pub const UNKNOWN: f64 = f64::INFINITY;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Spread {
    Sample,
    Population,
    MeanAbsolute,
}

/// The latest values, at most so many as it has places.
#[derive(Clone, Debug)]
struct History {
    values: Box<[f64]>,
    count: usize,
    next: usize,
}

impl History {
    fn new(places: usize) -> History {
        History {
            values: vec![0.0; places].into_boxed_slice(),
            count: 0,
            next: 0,
        }
    }

    fn push(&mut self, value: f64) {
        self.values[self.next] = value;
        self.next = (self.next + 1) % self.values.len();
        self.count = (self.count + 1).min(self.values.len());
    }

    fn clear(&mut self) {
        (self.count, self.next) = (0, 0);
    }

    /// The spread in means; 0 of fewer than two values.
    //= tcp-ap#equation-1
    fn variation(&self, spread: Spread) -> f64 {
        let values = &self.values[..self.count];
        let n = self.count as f64;
        let mean = values.iter().sum::<f64>() / n;
        if self.count < 2 || mean <= 0.0 {
            return 0.0;
        }
        let away = values.iter().map(|v| v - mean);
        let squares = |among: f64| (away.clone().map(|d| d * d).sum::<f64>() / among).sqrt();
        let spread = match spread {
            Spread::Sample => squares(n - 1.0),
            Spread::Population => squares(n),
            Spread::MeanAbsolute => away.map(f64::abs).sum::<f64>() / n,
        };
        spread / mean
    }
}

/// What a round trip tells, in the units of the formulas: seconds and octets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trip {
    /// The round-trip time, s.
    pub rtt: f64,
    /// IP length of the data packet; of the handshake's that of a full segment.
    pub data: f64,
    /// IP length of its acknowledgement.
    pub ack: f64,
}

/// The state: samples, their averages, and the clock.
#[derive(Clone, Debug)]
pub struct Adaptive {
    history: History,
    spread: Spread,
    fixed: Option<f64>,
    behind: bool,
    /// Of some hops, s.
    delay: Ewma,
    variation: f64,
    pace: Pace,
    /// Data have left: what is timed is no handshake.
    sent: bool,
    /// Where the samples come from, once it is known.
    way: Option<(Option<Neighbour>, Option<NonZeroU8>)>,
}

impl Adaptive {
    /// From [`ADAPTIVE_PARAMS`].
    pub fn new(p: &Params<'_>) -> Adaptive {
        let mut pace = Pace::default();
        pace.set_gap(FIRST);
        Adaptive {
            history: History::new(p.int("history") as usize),
            spread: match p.text("cov") {
                "population" => Spread::Population,
                "mean-abs-dev" => Spread::MeanAbsolute,
                _ => Spread::Sample,
            },
            fixed: p.optional_real("cov_fixed"),
            behind: p.text("retransmissions") == "behind-window",
            delay: Ewma::new(p.real("alpha")),
            variation: 0.0,
            pace,
            sent: false,
            way: None,
        }
    }

    /// What is to be made of a sample; nothing if it cannot be one.
    //= spec#6
    // "if rtt<=0 or > 30 s ignore"; "handshake RTT gives the first OID/FHD sample (computed with
    // S_data of a full segment)"
    pub fn trip(&self, sample: &RttSample, board: &Board) -> Option<Trip> {
        if sample.rtt == Span::ZERO || sample.rtt > LONGEST {
            return None;
        }
        let full = board.conn.mss + board.conn.overhead;
        let data = if self.sent { sample.data_bytes } else { full };
        Some(Trip {
            rtt: sample.rtt.as_secs_f64(),
            data: f64::from(data),
            ack: f64::from(sample.ack_bytes),
        })
    }

    /// The way is this one; what was learned on another one is forgotten. The interval stays until
    /// the next sample. Whether it is another way than before.
    //= spec#6.2
    // "Route change (h or next hop changes): clear RTT history, OID^ := next OID."
    pub fn on_way(&mut self, site: &SiteFacts, hops: Option<NonZeroU8>) -> bool {
        let way = (site.next_hop, hops);
        let changed = self.way.is_some_and(|before| before != way);
        if changed {
            self.history.clear();
            self.delay.clear();
        }
        self.way = Some(way);
        changed
    }

    /// A round trip of `rtt` gave a delay of some hops; seconds.
    //= spec#6.1
    //= tcp-ap#equation-16
    // "IPD = FHD^*(1+2 cov)"
    pub fn add(&mut self, rtt: f64, delay: f64) {
        let of_delays = self.spread == Spread::MeanAbsolute;
        self.history.push(if of_delays { delay } else { rtt });
        let delay = self.delay.add(delay);
        let measured = || self.history.variation(self.spread);
        self.variation = self.fixed.unwrap_or_else(measured);
        let gap = delay * (1.0 + 2.0 * self.variation);
        self.pace.set_gap(Span::from_secs_f64(gap));
    }

    /// A segment left. One that overslept is made up by the next, and no more than one (Behaviour
    /// 16.1).
    pub fn left(&mut self, sent: &Sent, now: Time) {
        if !sent.kind.is_data() || sent.bytes == 0 {
            return;
        }
        self.sent = true;
        if self.waits(sent.kind) {
            self.pace.sent(now, sent.late);
        }
    }

    /// Whether what is of this kind waits for its time.
    //= spec#16.8
    // "the single resend at una (fast rtx, partial ACK, first after RTO) and SYN pass ungated"
    fn waits(&self, kind: Kind) -> bool {
        kind.in_turn() || kind == Kind::Rescue && self.behind
    }

    /// One interval after the last departure, by the interval as it is now.
    pub fn permit(&self, want: &Want) -> Permit {
        if self.waits(want.kind) {
            Permit::at(self.pace.due(), Limit::Pace)
        } else {
            Permit::OPEN
        }
    }

    /// What the board is to say.
    pub fn publish(&self, rate: &mut RateFacts, mss: u32) {
        let gap = self.pace.gap();
        let bits = f64::from(mss) * 8.0 / gap.as_secs_f64().max(1e-9);
        (rate.rate, rate.gap) = (Some(Rate(bits as u64)), Some(gap));
        rate.behind = self.behind;
    }

    /// The interval, s.
    pub fn interval(&self) -> f64 {
        self.pace.gap().as_secs_f64()
    }

    /// The averaged delay, s; [`UNKNOWN`] before a sample.
    pub fn delay(&self) -> f64 {
        self.delay.value().unwrap_or(UNKNOWN)
    }

    /// cov.
    pub fn variation(&self) -> f64 {
        self.variation
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{Value, defaults};

    fn adaptive(set: &[(&'static str, Value)]) -> Adaptive {
        let mut values = defaults(&ADAPTIVE_PARAMS);
        for (name, value) in set {
            let at = values.iter().position(|v| v.0 == *name).unwrap();
            values[at].1 = *value;
        }
        Adaptive::new(&Params {
            part: "test",
            values: &values,
            words: &[],
            notes: &[],
            exts: &[],
        })
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    const RTTS: [f64; 5] = [0.030, 0.032, 0.031, 0.035, 0.040];

    //= spec#17
    // cov
    #[test]
    fn the_test_vector_of_the_variation() {
        let mut a = adaptive(&[]);
        for rtt in RTTS {
            a.add(rtt, 0.010);
        }
        assert!(near(a.variation(), 0.120_159), "{}", a.variation());
        let interval = a.interval() * 1e3;
        assert!((interval - 12.4032).abs() < 5e-5, "{interval}");
        assert!(near(a.delay(), 0.010));
    }

    #[test]
    fn the_variation_has_three_forms() {
        let of = |name: &'static str, delay: &dyn Fn(f64) -> f64| {
            let mut a = adaptive(&[("cov", Value::Text(name))]);
            for rtt in RTTS {
                a.add(rtt, delay(rtt));
            }
            a.variation()
        };
        let still = |_: f64| 0.010;
        // Mean 33.6 ms, squares 65.2 ms2; absolute deviations 3.6 + 1.6 + 2.6 + 1.4 + 6.4 ms.
        assert!(near(
            of("population", &still),
            (65.2_f64 / 5.0).sqrt() / 33.6
        ));
        assert!(near(
            of("sample-std", &still),
            (65.2_f64 / 4.0).sqrt() / 33.6
        ));
        assert!(near(of("mean-abs-dev", &still), 0.0), "delays did not vary");
        let half = |rtt: f64| rtt / 2.0;
        assert!(near(of("mean-abs-dev", &half), 15.6 / 5.0 / 33.6));
    }

    #[test]
    fn a_variation_that_is_fixed_stretches_the_interval_whatever_round_trips_do() {
        let mut a = adaptive(&[("cov_fixed", Value::OptReal(Some(0.25)))]);
        for rtt in RTTS {
            a.add(rtt, 0.010);
            assert!(near(a.variation(), 0.25) && near(a.interval(), 0.015));
        }
    }

    #[test]
    fn only_the_latest_round_trips_count_and_one_does_not_vary() {
        let mut a = adaptive(&[("history", Value::Int(3))]);
        a.add(9.0, 0.010);
        assert!(near(a.variation(), 0.0) && near(a.interval(), 0.010));
        for rtt in [0.030, 0.032, 0.031] {
            a.add(rtt, 0.010);
        }
        assert!(near(a.variation(), 1.0 / 31.0), "{}", a.variation());
    }

    #[test]
    fn delays_are_averaged_and_begin_with_the_first() {
        let mut a = adaptive(&[]);
        assert_eq!(a.delay(), UNKNOWN);
        a.add(0.030, 0.010);
        a.add(0.030, 0.020);
        assert!(near(a.delay(), 0.013), "{}", a.delay());
        assert!(near(a.interval(), 0.013));
    }

    #[test]
    fn another_way_forgets_what_was_learned_and_waits_on_until_it_knows_better() {
        let hops = NonZeroU8::new;
        let mut a = adaptive(&[]);
        let mut site = SiteFacts::default();
        a.on_way(&site, hops(3));
        for rtt in RTTS {
            a.add(rtt, 0.010);
        }
        let before = a.interval();
        a.on_way(&site, hops(3));
        assert!(near(a.delay(), 0.010), "the same way");
        a.on_way(&site, hops(5));
        assert_eq!((a.delay(), a.interval()), (UNKNOWN, before));
        a.add(0.060, 0.025);
        assert!(near(a.interval(), 0.025), "no old round trip, no old delay");
        site.next_hop = Some(Neighbour {
            device: core::num::NonZeroU16::MIN,
            address: [2, 0, 0, 0, 0, 7],
        });
        a.on_way(&site, hops(5));
        assert_eq!(a.delay(), UNKNOWN);
    }

    #[test]
    fn the_handshake_counts_as_a_full_segment_and_what_cannot_be_is_ignored() {
        let mut a = adaptive(&[]);
        let mut board = Board::default();
        (board.conn.mss, board.conn.overhead) = (1460, 52);
        let sample = |rtt: Span| RttSample {
            rtt,
            data_bytes: 60,
            ack_bytes: 52,
        };
        let ms = Span::MILLI;
        assert_eq!(a.trip(&sample(ms * 20), &board).unwrap().data, 1512.0);
        assert_eq!(a.trip(&sample(Span::ZERO), &board), None);
        assert_eq!(a.trip(&sample(Span::SECOND * 31), &board), None);
        let sent = Sent {
            kind: Kind::New,
            reason: crate::permit::Reason::First,
            acks: true,
            seq: wifu_wire::Seq(1),
            bytes: 10,
            late: Span::ZERO,
        };
        a.left(&sent, Time(1));
        assert_eq!(a.trip(&sample(ms * 20), &board).unwrap().data, 60.0);
    }
}
