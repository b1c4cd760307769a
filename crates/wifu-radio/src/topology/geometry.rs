//! Positions, powers and the law of path loss together: the mean power that a node receives.

use wifu_wire::{Rng, Span};

use crate::etx::Curves;
use crate::phy::Phy;
use crate::plan::{Gain, RadioConfig};
use crate::propagation::{PathLoss, Shadowing, distance, reference_loss};

use super::chain::mean_hop;
use super::radio::{channel, configure};
use super::{PropagationModel, PropagationSpec, RadioSpec, Topology, TopologyError};

/// What a node sends with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Emission {
    /// Transmit power, dBm.
    pub power_dbm: f64,
    /// Antenna gain less attenuation, dB; acts on sending and on receiving.
    pub gain_db: f64,
}

/// The geometry of a resolved topology: kept in the plan, because nodes may move.
#[derive(Clone, Debug)]
pub struct Geometry {
    /// The law.
    pub law: PathLoss,
    /// What each node sends with.
    pub emissions: Vec<Emission>,
    /// Deviations of pairs.
    pub shadowing: Shadowing,
    /// Loss of one floor, dB, and the height of a storey, m.
    pub floors: (f64, f64),
}

impl Geometry {
    /// Mean power in dBm that `to` at `there` receives from `from` at `here`; minus infinity if
    /// nothing.
    pub fn mean_dbm(&self, from: u16, to: u16, here: &[f64; 3], there: &[f64; 3]) -> f64 {
        let sender = &self.emissions[usize::from(from)];
        let receiver = &self.emissions[usize::from(to)];
        let (floor_loss, height) = self.floors;
        let storey = |z: f64| (z / height).round();
        let floors = (storey(here[2]) - storey(there[2])).abs();
        sender.power_dbm + sender.gain_db + receiver.gain_db
            - self.law.loss_db(distance(here, there))
            - floor_loss * floors
            + self.shadowing.of(from, to)
    }
}

/// Received power at the limit of decoding with `range`, dBm: ns-2's threshold, 3.652e-10 W.
const RANGE_DBM: f64 = -64.37;

/// The law that a topology's `[propagation]` states, for the radio of `[radio]`.
pub(super) fn law(
    spec: &PropagationSpec,
    frequency_mhz: f64,
    radio: &RadioConfig,
    emission: &Emission,
) -> PathLoss {
    let exponent = spec.exponent.unwrap_or(3.0);
    match spec.model.unwrap_or_default() {
        PropagationModel::FreeSpace => PathLoss::FreeSpace { frequency_mhz },
        PropagationModel::TwoRay => PathLoss::TwoRay {
            frequency_mhz,
            height_m: spec.antenna_m.unwrap_or(1.5),
        },
        PropagationModel::Range => {
            let (decode, sense) = ranges(spec);
            let reference_db = emission.power_dbm - RANGE_DBM - decades(exponent, decode);
            PathLoss::Range {
                reference_db,
                exponent,
                sense_m: sense,
            }
        }
        PropagationModel::LogDistance => {
            let reference_db = match &spec.anchor {
                Some(a) => {
                    let power = a.power_dbm.unwrap_or(emission.power_dbm);
                    let noise = a.noise_dbm.unwrap_or(radio.noise_dbm);
                    power - noise - a.snr_db - decades(exponent, a.distance_m)
                }
                None => spec
                    .reference_db
                    .unwrap_or_else(|| reference_loss(frequency_mhz)),
            };
            PathLoss::LogDistance {
                reference_db,
                exponent,
            }
        }
    }
}

/// Distances up to which `range` decodes and senses, m: ns-2's unless set.
fn ranges(spec: &PropagationSpec) -> (f64, f64) {
    (
        spec.decode_m.unwrap_or(250.0),
        spec.sense_m.unwrap_or(550.0),
    )
}

/// The thresholds (carrier sense, decoding) that `range` gives all radios, dBm.
pub(super) fn range_thresholds(spec: &PropagationSpec) -> Option<(f64, f64)> {
    if spec.model != Some(PropagationModel::Range) {
        return None;
    }
    let (decode, sense) = ranges(spec);
    let exponent = spec.exponent.unwrap_or(3.0);
    let sensed = RANGE_DBM + decades(exponent, decode) - decades(exponent, sense);
    // A hair below, so that a node exactly at the limit is within it.
    Some((sensed - 1e-6, RANGE_DBM - 1e-6))
}

fn decades(exponent: f64, distance_m: f64) -> f64 {
    10.0 * exponent * libm::log10(distance_m)
}

/// The carrier: as set, or the standard's.
pub(super) fn frequency(set: Option<f64>, phy: &Phy) -> f64 {
    set.unwrap_or_else(|| phy.frequency_mhz())
}

/// The distance at which the law of a topology gives a mean SNR, m.
pub(crate) fn distance_of(topology: &Topology, snr_db: f64) -> Result<f64, TopologyError> {
    let phy = channel(&topology.channel)?;
    let none = RadioSpec::default();
    let (radio, emission) = configure(&topology.radio, &none, topology, &phy, "radio")?;
    let mhz = frequency(topology.channel.frequency_mhz, &phy);
    let law = law(&topology.propagation, mhz, &radio, &emission);
    let snr =
        |d: f64| emission.power_dbm + 2.0 * emission.gain_db - law.loss_db(d) - radio.noise_dbm;
    let (mut near, mut far) = (1e-3, 1e6);
    for _ in 0..200 {
        let mid = libm::sqrt(near * far);
        if snr(mid) >= snr_db {
            near = mid;
        } else {
            far = mid;
        }
    }
    Ok(near)
}

/// The distance up to which a link without shadowing has an ETX below 2, m.
pub(crate) fn reach(topology: &Topology) -> Result<f64, TopologyError> {
    let phy = channel(&topology.channel)?;
    let none = RadioSpec::default();
    let (radio, _) = configure(&topology.radio, &none, topology, &phy, "radio")?;
    let mut curves = Curves::default();
    let mut chance = |snr: f64| {
        let gain = Gain {
            to: 0,
            mean_dbm: radio.noise_dbm + snr,
            sigma_db: topology.fading.sigma_db.unwrap_or(0.0),
            tau: Span::SECOND,
            rng: Rng::new(0),
        };
        curves.delivery(radio.rate, &gain, &radio)
    };
    let (mut low, mut high) = (-10.0, 50.0);
    for _ in 0..60 {
        let mid = (low + high) / 2.0;
        if chance(mid) * chance(mid) > 0.5 {
            high = mid;
        } else {
            low = mid;
        }
    }
    let Some(chain) = &topology.chain else {
        return distance_of(topology, high);
    };
    // A table's law goes through its mean SNR at the placement's spacing.
    let (forward, reverse) = mean_hop(chain);
    let spacing = topology.placement.as_ref().and_then(|p| p.spacing_m);
    let per_decade = 10.0 * topology.propagation.exponent.unwrap_or(3.0);
    let decades = ((forward + reverse) / 2.0 - high) / per_decade;
    Ok(spacing.unwrap_or(10.0) * libm::pow(10.0, decades))
}
