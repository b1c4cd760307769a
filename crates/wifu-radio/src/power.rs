//! Received power as an integer, so that sums of interference are exact in any order. They wrap:
//! when the signals of a sum that was too large have ended, what is left is right again.

use core::ops::{Add, AddAssign, Sub, SubAssign};
use std::sync::LazyLock;

/// Power in units of 10^-19 W (0.1 attowatt): -160 dBm is the smallest, +28 dBm the largest.
/// Noise of a 20 MHz channel (-94 dBm) is about 4 million units.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Power(pub u64);

/// Units per milliwatt.
const UNIT: f64 = 1e16;

const LOWEST: i32 = -128;

/// Power half-way between whole dBm, from -127.5 on.
static BOUNDS: LazyLock<[u64; 160]> = LazyLock::new(|| {
    core::array::from_fn(|i| Power::from_dbm(f64::from(LOWEST + i as i32) + 0.5).0)
});

impl Power {
    /// None.
    pub const ZERO: Power = Power(0);

    /// From dBm; saturates at the ends of the range.
    pub fn from_dbm(dbm: f64) -> Power {
        Power((libm::pow(10.0, dbm / 10.0) * UNIT).round() as u64)
    }

    /// Of a signal or of noise at a receiver, from dBm: at most 20.6 dBm, which no receiver
    /// survives, so that a sum of seven stays below 2^63.
    pub(crate) fn received(dbm: f64) -> Power {
        Power::from_dbm(dbm).min(Power(1 << 60))
    }

    /// In dBm; minus infinity for none.
    pub fn dbm(self) -> f64 {
        10.0 * libm::log10(self.0 as f64 / UNIT)
    }

    /// In dBm, rounded to 1 dB: what a radio reports as signal strength. No logarithm is computed.
    pub fn whole_dbm(self) -> i8 {
        let above = BOUNDS.partition_point(|b| *b <= self.0);
        (above as i32 + LOWEST) as i8
    }

    /// As a number, of what is received; a conversion from signed numbers is the quicker one.
    #[inline]
    pub(crate) fn float(self) -> f64 {
        self.0 as i64 as f64
    }

    /// Linear ratio to another power.
    #[inline]
    pub fn over(self, o: Power) -> f64 {
        self.float() / o.float()
    }
}

impl Add for Power {
    type Output = Power;
    fn add(self, o: Power) -> Power {
        Power(self.0.wrapping_add(o.0))
    }
}

impl AddAssign for Power {
    fn add_assign(&mut self, o: Power) {
        *self = *self + o;
    }
}

impl Sub for Power {
    type Output = Power;
    fn sub(self, o: Power) -> Power {
        Power(self.0.wrapping_sub(o.0))
    }
}

impl SubAssign for Power {
    fn sub_assign(&mut self, o: Power) {
        *self = *self - o;
    }
}

/// A ratio of decibels as a linear factor.
pub fn linear(db: f64) -> f64 {
    libm::pow(10.0, db / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dbm_survives_the_round_trip() {
        for dbm in [-110.0, -94.0, -60.5, 0.0, 17.0] {
            assert!((Power::from_dbm(dbm).dbm() - dbm).abs() < 1e-3, "{dbm}");
        }
        for dbm in [-110.2, -94.0, -93.6, -60.4, 0.4, 17.0] {
            assert_eq!(
                f64::from(Power::from_dbm(dbm).whole_dbm()),
                dbm.round(),
                "{dbm}"
            );
        }
        assert_eq!(Power::from_dbm(-94.0) + Power::ZERO, Power::from_dbm(-94.0));
    }

    /// However much is received, what others leave behind when it ends is what they are.
    #[test]
    fn a_sum_beyond_all_bounds_is_right_again_once_its_signals_have_ended() {
        let (most, weak) = (Power::received(f64::INFINITY), Power::received(-94.0));
        assert!((most.dbm() - 20.6).abs() < 0.05);
        let mut total = weak;
        for _ in 0..20 {
            total += most;
        }
        for _ in 0..20 {
            total -= most;
        }
        assert_eq!(total, weak);
        // A threshold that is off is one that no power reaches.
        assert!(most + most < Power::from_dbm(f64::INFINITY));
    }
}
