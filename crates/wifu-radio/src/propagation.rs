//! Path loss: what distance takes from a signal. Shadowing and asymmetry are drawn per pair of
//! nodes and added by whoever resolves a topology.

use wifu_wire::Rng;

use crate::fading::normal;

/// Speed of light, m/us: wavelength in metres is this over MHz.
const LIGHT: f64 = 299.792_458;

/// A law of path loss over distance.
#[derive(Clone, Debug, PartialEq)]
pub enum PathLoss {
    /// `reference_db` at 1 m and `10 exponent` dB for each factor of ten.
    LogDistance {
        /// Loss at 1 m, dB; [`reference_loss`] if nothing was measured.
        reference_db: f64,
        /// 2 in free space, 3 to 4 indoors.
        exponent: f64,
    },
    /// Friis.
    FreeSpace {
        /// Carrier, MHz.
        frequency_mhz: f64,
    },
    /// Friis up to the crossover distance 4 pi h^2/lambda, then the direct ray and the one off the
    /// ground cancel to 40 log10(d) - 40 log10(h), as in ns-2.
    TwoRay {
        /// Carrier, MHz.
        frequency_mhz: f64,
        /// Height of both antennas, m.
        height_m: f64,
    },
    /// Steps over a power law: nothing at all is received beyond `sense_m`.
    Range {
        /// Loss at 1 m, dB.
        reference_db: f64,
        /// Exponent of the law within the range.
        exponent: f64,
        /// The distance up to which frames are sensed and interfere, m.
        sense_m: f64,
    },
}

/// Loss at 1 m of the log-distance law: 20 log10(MHz) - 28 dB (46.3 dB at 5200, 39.7 at 2437 MHz).
pub fn reference_loss(frequency_mhz: f64) -> f64 {
    20.0 * libm::log10(frequency_mhz) - 28.0
}

fn friis(frequency_mhz: f64, distance_m: f64) -> f64 {
    let wavelength = LIGHT / frequency_mhz;
    20.0 * libm::log10(4.0 * core::f64::consts::PI * distance_m / wavelength)
}

impl PathLoss {
    /// Loss over a distance in metres, dB; infinite where nothing is received. Nodes are never
    /// nearer than 1 mm.
    pub fn loss_db(&self, distance_m: f64) -> f64 {
        let d = distance_m.max(1e-3);
        match *self {
            PathLoss::LogDistance {
                reference_db,
                exponent,
            } => reference_db + 10.0 * exponent * libm::log10(d),
            PathLoss::FreeSpace { frequency_mhz } => friis(frequency_mhz, d),
            PathLoss::TwoRay {
                frequency_mhz,
                height_m,
            } => {
                let wavelength = LIGHT / frequency_mhz;
                let crossover = 4.0 * core::f64::consts::PI * height_m * height_m / wavelength;
                match d < crossover {
                    true => friis(frequency_mhz, d),
                    false => 40.0 * libm::log10(d) - 40.0 * libm::log10(height_m),
                }
            }
            // A node placed exactly at the limit is within it.
            PathLoss::Range { sense_m, .. } if d > sense_m * (1.0 + 1e-9) => f64::INFINITY,
            PathLoss::Range {
                reference_db,
                exponent,
                ..
            } => reference_db + 10.0 * exponent * libm::log10(d),
        }
    }
}

/// Distance of two points, m.
pub fn distance(a: &[f64; 3], b: &[f64; 3]) -> f64 {
    let square = |i: usize| (a[i] - b[i]) * (a[i] - b[i]);
    libm::sqrt(square(0) + square(1) + square(2))
}

/// Deviations of pairs of nodes from the law, normal in dB and constant over a run.
#[derive(Clone, Debug)]
pub struct Shadowing {
    /// Deviation common to both directions of a pair, dB.
    pub sigma_db: f64,
    /// Deviation of each direction, dB.
    pub asymmetry_db: f64,
    rng: Rng,
}

impl Shadowing {
    /// Deviations drawn from a stream; every pair has its own below it.
    pub fn new(sigma_db: f64, asymmetry_db: f64, rng: &Rng) -> Shadowing {
        Shadowing {
            sigma_db,
            asymmetry_db,
            rng: *rng,
        }
    }

    /// What one direction gets more than the law says, dB.
    pub fn of(&self, from: u16, to: u16) -> f64 {
        let draw = |sigma: f64, kind: &str, a: u16, b: u16| match sigma {
            0.0 => 0.0,
            _ => {
                let pairs = self.rng.split(kind);
                sigma * normal(&mut pairs.split_n(a.into()).split_n(b.into()))
            }
        };
        draw(self.sigma_db, "pair", from.min(to), from.max(to))
            + draw(self.asymmetry_db, "direction", from, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, slack: f64) {
        assert!((a - b).abs() < slack, "{a}, not {b}");
    }

    #[test]
    fn reference_losses_of_both_bands() {
        close(reference_loss(5200.0), 46.3, 0.05);
        close(reference_loss(2437.0), 39.7, 0.05);
    }

    #[test]
    fn hops_at_equal_spacing() {
        let law = PathLoss::LogDistance {
            reference_db: 46.3,
            exponent: 3.0,
        };
        for (hops, relative) in [(2.0, 9.03), (3.0, 14.31), (4.0, 18.06), (5.0, 20.97)] {
            close(
                law.loss_db(23.0 * hops) - law.loss_db(23.0),
                relative,
                0.005,
            );
        }
        // An interferer two, three, four hops from a receiver one hop from its sender.
        close(law.loss_db(46.0) - law.loss_db(23.0), 9.03, 0.005);
    }

    #[test]
    fn free_space_loses_20_db_per_decade() {
        let law = PathLoss::FreeSpace {
            frequency_mhz: 2437.0,
        };
        // 20 log10(4 pi / 0.12302 m).
        close(law.loss_db(1.0), 40.18, 0.01);
        close(law.loss_db(100.0) - law.loss_db(10.0), 20.0, 1e-9);
    }

    #[test]
    fn two_rays_meet_the_ranges_of_ns_2() {
        // 0.28183815 W, antennas 1.5 m high, 914 MHz: thresholds 3.652e-10 W at 250 m and
        // 1.559e-11 W at 550 m.
        let law = PathLoss::TwoRay {
            frequency_mhz: 914.0,
            height_m: 1.5,
        };
        let received = |d: f64| 0.281_838_15 * 10f64.powf(-law.loss_db(d) / 10.0);
        close(received(250.0) / 3.652e-10, 1.0, 1e-3);
        close(received(550.0) / 1.559e-11, 1.0, 1e-3);
        // Continuous where the laws meet, at 86.14 m.
        close(law.loss_db(86.13), law.loss_db(86.15), 0.01);
    }

    #[test]
    fn nothing_beyond_the_range() {
        let law = PathLoss::Range {
            reference_db: 0.0,
            exponent: 4.0,
            sense_m: 550.0,
        };
        assert!(law.loss_db(550.0).is_finite());
        assert_eq!(law.loss_db(551.0), f64::INFINITY);
        close(law.loss_db(400.0) - law.loss_db(200.0), 12.04, 0.01);
    }

    #[test]
    fn shadowing_is_reciprocal_and_asymmetry_is_not() {
        let rng = Rng::new(9);
        let pairs = Shadowing::new(4.0, 0.0, &rng);
        assert_eq!(pairs.of(3, 8), pairs.of(8, 3));
        assert_ne!(pairs.of(3, 8), pairs.of(3, 9));
        let both = Shadowing::new(0.0, 1.0, &rng);
        assert_ne!(both.of(3, 8), both.of(8, 3));
        let (mut sum, mut squares, mut n) = (0.0, 0.0, 0.0);
        for a in 0..100 {
            for b in 0..a {
                let x = pairs.of(a, b);
                (sum, squares, n) = (sum + x, squares + x * x, n + 1.0);
            }
        }
        close(sum / n, 0.0, 0.2);
        close((squares / n).sqrt(), 4.0, 0.15);
        assert_eq!(Shadowing::new(0.0, 0.0, &rng).of(1, 2), 0.0);
    }
}
