//! The law of path loss that `[propagation]` states, in numbers.

use crate::geometry::Emission;
use crate::phy::Phy;
use crate::plan::RadioConfig;
use crate::propagation::{PathLoss, reference_loss};

use super::spec::{PropagationModel, PropagationSpec};

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
