//! How far the radios of a topology reach by its law of path loss.

use wifu_wire::{Rng, Span};

use crate::etx::Curves;
use crate::plan::Gain;

use super::chain::mean_hop;
use super::error::TopologyError;
use super::law::{frequency, law};
use super::radio::{channel, configure};
use super::spec::{RadioSpec, Topology};

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
