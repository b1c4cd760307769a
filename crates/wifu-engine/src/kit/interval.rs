//! The interval between two packets of a sender that follows the path's delay as the receiver feeds
//! it back: what ATP (thesis 3.1) and TP-alpha (WiFu paper V.B) share.

use super::Pace;
use crate::board::RateFacts;
use crate::params::{ParamSpec, Params};
use wifu_wire::{Rate, Span, Time};

/// When the rate rises.
pub const PHI: ParamSpec = ParamSpec::real(
    "phi",
    1.1,
    1.0,
    2.0,
    "So many times faster the path must be before the rate rises.",
);

/// By how much it rises.
pub const KAPPA: ParamSpec = ParamSpec::real(
    "kappa",
    0.2,
    0.0,
    1.0,
    "Share of the difference between the path's rate and ours by which ours rises.",
);

/// How many packets are to be at the slowest node.
pub const TARGET: ParamSpec = ParamSpec::real(
    "target",
    1.0,
    0.25,
    16.0,
    "So many packets per delay of the path: as many of the flow wait at its slowest node on the \
     average, by Little's law.",
);

/// The interval before any feedback.
pub const DS_FIRST: ParamSpec = ParamSpec::span(
    "ds_first",
    Span(20_000_000),
    SHORTEST,
    LONGEST,
    "D_s while no node on the path says its delay (Behaviour 8.2).",
);

/// Bounds of D_s (Behaviour 8.2).
const SHORTEST: Span = Span(100_000);
const LONGEST: Span = Span(1_000_000_000);

/// D_s, the clock that it runs, and how feedback moves it.
#[derive(Clone, Debug)]
pub struct Interval {
    phi: f64,
    kappa: f64,
    /// D_init, microseconds.
    first: f64,
    /// D_s, microseconds.
    ds: f64,
    target: f64,
    pace: Pace,
    raised: u32,
    lowered: u32,
}

impl Interval {
    /// From [`PHI`], [`KAPPA`] and [`DS_FIRST`], for so many packets at the slowest node
    /// ([`TARGET`]).
    pub fn new(p: &Params<'_>, target: f64) -> Interval {
        let first = p.span(DS_FIRST.name).0 as f64 / 1e3;
        let mut interval = Interval {
            phi: p.real(PHI.name),
            kappa: p.real(KAPPA.name),
            first,
            ds: first,
            target,
            pace: Pace::default(),
            raised: 0,
            lowered: 0,
        };
        interval.set(first);
        interval
    }

    /// D_s, microseconds: 100 to 1,000,000.
    pub fn us(&self) -> f64 {
        self.ds
    }

    /// How often feedback raised the rate, and how often it lowered it.
    pub fn moved(&self) -> [u32; 2] {
        [self.raised, self.lowered]
    }

    /// D_s is this, or the bound that it exceeds; microseconds. Felt at once by whoever waits.
    pub fn set(&mut self, us: f64) {
        self.ds = us.clamp(SHORTEST.0 as f64 / 1e3, LONGEST.0 as f64 / 1e3);
        self.pace.set_gap(Span((self.ds * 1e3) as u64));
    }

    /// The delay of the path is the interval, and D_init if no node said it; microseconds.
    pub fn start(&mut self, us: f64) {
        self.set(if us > 0.0 { us } else { self.first });
    }

    /// Feedback: the path's delay is `us`.
    pub fn follow(&mut self, us: f64) {
        let next = follow(self.ds, us / self.target, self.phi, self.kappa);
        self.raised += u32::from(next < self.ds);
        self.lowered += u32::from(next > self.ds);
        self.set(next);
    }

    /// When the next packet may leave.
    pub fn due(&self) -> Time {
        self.pace.due()
    }

    /// A packet left; see [`Pace::sent`].
    pub fn sent(&mut self, now: Time, late: Span) {
        self.pace.sent(now, late);
    }

    /// What the board says of it, with segments of `mss` octets.
    pub fn publish(&self, mss: u32, r: &mut RateFacts) {
        let gap = self.pace.gap();
        let bits = f64::from(mss) * 8e9 / gap.0.max(1) as f64;
        (r.rate, r.gap) = (Some(Rate(bits as u64)), Some(gap));
    }
}

/// The interval after a feedback of `d`; both are microseconds.
//= spec#8.3
// "if R > phi*S: S += kappa*(R-S)   elif R < S: S := R   else keep"
//= spec#9
// "if S > R: S:=R; elif R > 1.1*S: S += (R-S)/5; else keep"
fn follow(ds: f64, d: f64, phi: f64, kappa: f64) -> f64 {
    if d <= 0.0 {
        return ds;
    }
    let (r, s) = (1.0 / d, 1.0 / ds);
    if ds > phi * d {
        1.0 / (s + kappa * (r - s))
    } else {
        ds.max(d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 5e-4
    }

    //= spec#17
    // ATP rate rule, kappa 0.2 and 0.5
    #[test]
    fn the_test_vectors_of_the_rate_rule() {
        let vectors = [
            (2044.0, 2044.0),
            (1900.0, 2000.0),
            (1819.0, 2000.0),
            (1818.0, 1960.742),
            (1000.0, 1666.667),
            (60_000.0, 60_000.0),
        ];
        for (d, ds) in vectors {
            let next = follow(2000.0, d, 1.1, 0.2);
            assert!(near(next, ds), "{d}: {next}");
        }
        assert!(near(follow(2000.0, 1000.0, 1.1, 0.5), 1333.333));
        assert_eq!(follow(2000.0, 0.0, 1.1, 0.2), 2000.0, "no node collects");
    }

    //= spec#17
    // recovery
    #[test]
    fn the_test_vectors_of_the_recovery() {
        assert!(near(follow(60_000.0, 2000.0, 1.1, 0.2), 8_823.529));
        let steps = |kappa: f64| {
            let (mut ds, mut rises) = (60_000.0, 0);
            while ds > 1.1 * 2000.0 {
                (ds, rises) = (follow(ds, 2000.0, 1.1, kappa), rises + 1);
            }
            rises
        };
        assert_eq!((steps(0.2), steps(0.5)), (11, 4));
    }
}
