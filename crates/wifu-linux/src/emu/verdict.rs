//! Whether a run may be believed: what was measured, and the limits it is held against.
//!
//! Everything on the radio is decided in model time, so a slow machine does not change who wins the
//! medium or which frames collide. What it changes is when frames leave the radio for the kernels,
//! and hence when their answers come: lateness adds to every round trip. The limits bound that
//! lateness, in model time, and how much of the processors somebody else took.

use super::late::Quantiles;
use serde::{Deserialize, Serialize};

/// The stamp of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// No limit was exceeded.
    Valid,
    /// Beyond a limit; results need a second look.
    Suspect,
    /// Far beyond a limit; results say more about the machine than about the network.
    Invalid,
}

impl core::fmt::Display for Verdict {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Verdict::Valid => "VALID",
            Verdict::Suspect => "SUSPECT",
            Verdict::Invalid => "INVALID",
        })
    }
}

/// The most that a stamp allows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// Median lateness of deliveries, microseconds of model time.
    pub p50_us: f64,
    /// 99th percentile of the lateness of deliveries, microseconds of model time.
    pub p99_us: f64,
    /// 99.9th percentile of the lateness of deliveries, microseconds of model time.
    pub p999_us: f64,
    /// Share of all processors' time that the hypervisor gave to others.
    pub steal: f64,
}

/// Beyond these a run is suspect. 0.2 ms is a seventh of a 1500 B exchange at 6 Mb/s.
pub const VALID: Limits = Limits {
    p50_us: 200.0,
    p99_us: 3_000.0,
    p999_us: 20_000.0,
    steal: 0.03,
};

/// Beyond these it is invalid.
pub const SUSPECT: Limits = Limits {
    p50_us: 1_000.0,
    p99_us: 15_000.0,
    p999_us: 100_000.0,
    steal: 0.15,
};

/// What a stamp depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Lateness of frames handed to kernels; of the radio's own events if there were none.
    pub late: Quantiles,
    /// Share of processor time stolen; none if the machine does not say.
    pub steal: Option<f64>,
}

/// The stamp, and each limit that was exceeded in words.
pub fn judge(m: &Measured) -> (Verdict, Vec<String>) {
    // A percentile needs its hundred or thousand, or it is the one worst delivery.
    let known = |value: f64, least: u64| if m.late.count < least { 0.0 } else { value };
    let rows = [
        (
            "median lateness",
            m.late.p50,
            VALID.p50_us,
            SUSPECT.p50_us,
            " us",
        ),
        (
            "p99 lateness",
            known(m.late.p99, 100),
            VALID.p99_us,
            SUSPECT.p99_us,
            " us",
        ),
        (
            "p99.9 lateness",
            known(m.late.p999, 1000),
            VALID.p999_us,
            SUSPECT.p999_us,
            " us",
        ),
        (
            "stolen processor time",
            m.steal.unwrap_or(0.0) * 100.0,
            VALID.steal * 100.0,
            SUSPECT.steal * 100.0,
            " %",
        ),
    ];
    let mut verdict = Verdict::Valid;
    let mut reasons = Vec::new();
    for (name, value, valid, suspect, unit) in rows {
        let (stamp, limit) = match value {
            v if v > suspect => (Verdict::Invalid, suspect),
            v if v > valid => (Verdict::Suspect, valid),
            _ => continue,
        };
        verdict = verdict.max(stamp);
        reasons.push(format!(
            "{name} {value:.1}{unit}, more than {limit:.1}{unit}"
        ));
    }
    (verdict, reasons)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_limit_decides() {
        let mut m = Measured::default();
        assert_eq!(judge(&m), (Verdict::Valid, Vec::new()));
        m.late.p50 = 250.0;
        let (verdict, reasons) = judge(&m);
        assert_eq!(verdict, Verdict::Suspect);
        assert_eq!(reasons, ["median lateness 250.0 us, more than 200.0 us"]);
        (m.late.p99, m.late.count) = (1e6, 99);
        assert_eq!(judge(&m).0, Verdict::Suspect, "too few for a percentile");
        m.late.count = 100;
        assert_eq!(judge(&m).0, Verdict::Invalid);
        m.late.count = 0;
        m.steal = Some(0.2);
        let (verdict, reasons) = judge(&m);
        assert_eq!((verdict, reasons.len()), (Verdict::Invalid, 2));
        assert!(reasons[1].contains("15.0 %"), "{reasons:?}");
    }
}
