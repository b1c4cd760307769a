//! How far a transmission is sensed, in hops, by the power with which the next hop is received.

use wifu_engine::math::log10;
use wifu_engine::{ParamSpec, Params};
use wifu_wire::{Span, Time};

/// Of the estimate, after those of pacing.
pub const PARAMS: [ParamSpec; 10] = [
    ParamSpec::optional_real(
        "tx_power_dbm",
        -30.0,
        60.0,
        "Transmit power P_tx; auto: what the driver says. It is common to what is sent and what is \
         sensed and so moves no estimate, but is reported (l1_db).",
    ),
    ParamSpec::real(
        "antenna_dbi",
        2.1,
        -20.0,
        40.0,
        "Gain of the antenna, G_ant (TCP-AP table I).",
    ),
    ParamSpec::real(
        "cable_db",
        3.71,
        0.0,
        100.0,
        "Attenuation of the cable, A_cab (TCP-AP table I: 7 m of 0.53 dB).",
    ),
    ParamSpec::real(
        "attenuator_db",
        0.0,
        0.0,
        100.0,
        "Attenuation of the attenuator, A_v.",
    ),
    ParamSpec::optional_real(
        "sense_dbm",
        -120.0,
        0.0,
        "Carrier-sense threshold T_cs; auto: what the node says, and without that H_cs is 3.",
    ),
    ParamSpec::real(
        "path_loss",
        3.0,
        1.0,
        6.0,
        "Path loss exponent p (TCP-AP IV.E: 3, 2 in free space to 5 indoors).",
    ),
    distance(
        "d2",
        "Distance of the node two hops away, in distances of the first hop, where it is \
         known (TCP-AP IV.E); auto: one first hop more than that of the node before.",
    ),
    distance("d3", "The same, three hops away."),
    distance("d4", "The same, four hops away."),
    distance("d5", "The same, five hops away."),
];

const fn distance(name: &'static str, doc: &'static str) -> ParamSpec {
    ParamSpec::optional_real(name, 0.01, 1_000.0, doc)
}

/// Where neither a received power nor the threshold is known.
//= spec#6.2
// "none at all: H_cs=3"
const UNTOLD: u8 = 3;

/// An average forgets samples that are older.
const FRESH: Span = Span(1_000_000_000);

/// Weight of the old average.
const WEIGHT: f64 = 0.9;

/// Nodes whose distance may be given.
const KNOWN: usize = 6;

/// The estimator.
pub struct CarrierSense {
    power: Option<f64>,
    gain: f64,
    threshold: Option<f64>,
    exponent: f64,
    /// Of the nodes so many hops away, in first hops; the first two are 0 and 1.
    distances: [f64; KNOWN],
    /// P_rx, dBm, and when it was last heard.
    heard: Option<(f64, Time)>,
}

impl CarrierSense {
    /// From [`PARAMS`].
    pub fn new(p: &Params<'_>) -> CarrierSense {
        let mut distances = [0.0, 1.0, 0.0, 0.0, 0.0, 0.0];
        for (k, name) in (2..).zip(["d2", "d3", "d4", "d5"]) {
            distances[k] = p.optional_real(name).unwrap_or(distances[k - 1] + 1.0);
        }
        CarrierSense {
            power: p.optional_real("tx_power_dbm"),
            gain: p.real("antenna_dbi") - p.real("cable_db") - p.real("attenuator_db"),
            threshold: p.optional_real("sense_dbm"),
            exponent: p.real("path_loss"),
            distances,
            heard: None,
        }
    }

    /// The next hop was received with this power.
    //= spec#6.2
    // "P_rx = RSSI of frames from the next hop (EWMA 0.9, last 1 s)"
    pub fn hear(&mut self, dbm: i8, now: Time) {
        let sample = f64::from(dbm);
        let average = match self.heard {
            Some((old, at)) if now - at <= FRESH => WEIGHT * old + (1.0 - WEIGHT) * sample,
            _ => sample,
        };
        self.heard = Some((average, now));
    }

    /// Another neighbour is the next hop.
    pub fn forget(&mut self) {
        self.heard = None;
    }

    /// P_rx, dBm.
    pub fn received(&self) -> Option<f64> {
        self.heard.map(|h| h.0)
    }

    /// L_1, dB; `told` is what the driver says of the transmit power.
    //= tcp-ap#equation-3
    pub fn loss(&self, told: Option<i8>) -> Option<f64> {
        let power = self.power.or(told.map(f64::from))?;
        Some(power + self.gain - self.received()?)
    }

    /// H_cs of a path of `hops`; `told` is what the node says of the threshold.
    //= spec#6.2
    //= tcp-ap#equation-7
    // "H_cs = min{k in 1..h : P_out-L_k < T_cs}, or h if none". L_k = P_out - P_rx + 10 p log10
    // d_k, so that P_out cancels.
    pub fn range(&self, hops: u8, told: Option<i8>) -> u8 {
        let threshold = self.threshold.or(told.map(f64::from));
        let (Some(received), Some(threshold)) = (self.received(), threshold) else {
            return UNTOLD;
        };
        let hidden = |k: &u8| {
            let away = 10.0 * self.exponent * log10(self.distance(*k));
            received - away < threshold
        };
        (1..=hops).find(hidden).unwrap_or(hops)
    }

    fn distance(&self, k: u8) -> f64 {
        let k = usize::from(k);
        let last = KNOWN - 1;
        let beyond = k.saturating_sub(last) as f64;
        self.distances[k.min(last)] + beyond
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::params::{Value, defaults};

    fn sense(set: &[(&'static str, f64)]) -> CarrierSense {
        let mut values = defaults(&PARAMS);
        for (name, x) in set {
            let at = values.iter().position(|v| v.0 == *name).unwrap();
            values[at].1 = match values[at].1 {
                Value::Real(_) => Value::Real(*x),
                _ => Value::OptReal(Some(*x)),
            };
        }
        CarrierSense::new(&Params {
            part: "test",
            values: &values,
            words: &[],
            notes: &[],
            exts: &[],
        })
    }

    fn with(dbm: f64, set: &[(&'static str, f64)]) -> CarrierSense {
        let mut c = sense(set);
        c.heard = Some((dbm, Time(0)));
        c
    }

    //= spec#17
    // H_cs
    #[test]
    fn the_test_vectors_of_the_carrier_sense_range() {
        let c = with(-78.1, &[("sense_dbm", -90.1)]);
        let ranges = [1, 2, 3, 4, 9].map(|h| c.range(h, None));
        assert_eq!(ranges, [1, 2, 3, 3, 3]);
        let c = with(-83.6, &[("sense_dbm", -90.1)]);
        assert_eq!([2, 3, 9].map(|h| c.range(h, None)), [2, 2, 2]);
    }

    #[test]
    fn without_power_or_threshold_three_hops_are_assumed() {
        assert_eq!(sense(&[("sense_dbm", -90.0)]).range(9, None), 3);
        assert_eq!(with(-95.0, &[]).range(9, None), 3);
        assert_eq!(with(-95.0, &[]).range(9, Some(-90)), 1);
        // The parameter outdoes what the node says.
        assert_eq!(with(-95.0, &[("sense_dbm", -99.0)]).range(9, Some(-90)), 2);
    }

    #[test]
    fn power_is_averaged_and_an_old_average_is_forgotten() {
        let mut c = sense(&[]);
        c.hear(-80, Time(0));
        c.hear(-70, Time(1_000_000_000));
        assert_eq!(c.received(), Some(-79.0));
        c.hear(-70, Time(2_000_000_001));
        assert_eq!(c.received(), Some(-70.0));
        // Nothing was heard since: the last value stands.
        assert_eq!(c.range(9, Some(-75)), 2);
        c.forget();
        assert_eq!(c.received(), None);
    }

    #[test]
    fn known_distances_and_the_exponent_move_the_range() {
        // Two hops away is hardly farther than one: 1.76 dB at 1.5 is 5.3 dB.
        let c = with(-78.1, &[("sense_dbm", -90.1), ("d2", 1.5)]);
        assert_eq!(c.distance(3), 2.5);
        assert_eq!(c.range(9, None), 4);
        let c = with(
            -78.1,
            &[("sense_dbm", -90.1), ("d2", 1.2), ("d3", 1.5), ("d5", 2.4)],
        );
        // d4 = 2.5 as no one knows better, 11.94 dB below: just sensed; d5 is nearer.
        assert_eq!([c.distance(4), c.distance(6)], [2.5, 3.4]);
        assert_eq!(c.range(9, None), 6);
        let c = with(-78.1, &[("sense_dbm", -90.1), ("path_loss", 4.0)]);
        assert_eq!(c.range(9, None), 2);
    }

    #[test]
    fn the_loss_of_the_first_hop_is_told_where_the_power_is_known() {
        assert_eq!(with(-80.0, &[]).loss(None), None);
        let set = [("attenuator_db", 16.0), ("tx_power_dbm", 17.0)];
        let lost = |c: CarrierSense, told| (c.loss(told).unwrap() * 100.0).round() / 100.0;
        // 17 + 2.1 - 3.71 - 16 + 80
        assert_eq!(lost(with(-80.0, &set), Some(3)), 79.39);
        assert_eq!(lost(with(-80.0, &set[..1]), Some(3)), 65.39);
    }
}
