//! Slow variation of a link: a stationary first-order Gauss-Markov process in dB, and the normal
//! deviates that it and the shadowing are made of.

use wifu_wire::{Rng, Span};

/// The time between two values of a link's variation.
pub const STEP: Span = Span(50_000_000);

/// The variation of one direction of one link: normal with mean 0 and a given deviation at every
/// step, correlated by exp(-step/tau) with the step before. Each step takes exactly one number from
/// the link's own stream, so its value depends on the stream and the step's number alone.
#[derive(Clone, Debug)]
pub struct Fading {
    value: f64,
    /// Correlation of neighbouring steps.
    memory: f64,
    /// Deviation of what each step adds.
    drive: f64,
    rng: Rng,
}

impl Fading {
    /// A process with deviation `sigma_db` and time constant `tau` (zero: no memory), from the
    /// link's stream. It begins at step 0 in its stationary distribution.
    pub fn new(sigma_db: f64, tau: Span, rng: &Rng) -> Fading {
        let mut rng = *rng;
        let memory = match tau {
            Span::ZERO => 0.0,
            _ => libm::exp(-STEP.as_secs_f64() / tau.as_secs_f64()),
        };
        let value = match sigma_db {
            0.0 => 0.0,
            _ => sigma_db * normal(&mut rng),
        };
        Fading {
            value,
            memory,
            drive: sigma_db * libm::sqrt(1.0 - memory * memory),
            rng,
        }
    }

    /// Advance by one [`STEP`]; the new value in dB.
    pub fn step(&mut self) -> f64 {
        if self.drive != 0.0 {
            self.value = self.memory * self.value + self.drive * normal(&mut self.rng);
        }
        self.value
    }

    /// The value of the current step, dB.
    pub fn value(&self) -> f64 {
        self.value
    }
}

/// A standard normal deviate, from one number of the stream: the quantile function of Wichura's
/// algorithm AS 241 (PPND16, Applied Statistics 37, 1988) at a uniform one. Six of seven need
/// neither logarithm nor root.
pub fn normal(rng: &mut Rng) -> f64 {
    // The middles of 2^53 intervals: never 0 nor 1, and symmetric.
    let uniform = ((rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    quantile(uniform)
}

/// A polynomial with its constant term last.
fn poly(x: f64, coefficients: &[f64; 8]) -> f64 {
    coefficients.iter().fold(0.0, |acc, c| acc * x + c)
}

const A: [f64; 8] = [
    2_509.080_928_730_122_7,
    33_430.575_583_588_13,
    67_265.770_927_008_7,
    45_921.953_931_549_87,
    13_731.693_765_509_46,
    1_971.590_950_306_551_3,
    133.141_667_891_784_38,
    3.387_132_872_796_366_5,
];
const B: [f64; 8] = [
    5_226.495_278_852_854,
    28_729.085_735_721_943,
    39_307.895_800_092_71,
    21_213.794_301_586_597,
    5_394.196_021_424_751,
    687.187_007_492_057_9,
    42.313_330_701_600_91,
    1.0,
];
const C: [f64; 8] = [
    7.745_450_142_783_414e-4,
    0.022_723_844_989_269_184,
    0.241_780_725_177_450_6,
    1.270_458_252_452_368_4,
    3.647_848_324_763_204_5,
    5.769_497_221_460_691,
    4.630_337_846_156_546,
    1.423_437_110_749_683_5,
];
const D: [f64; 8] = [
    1.050_750_071_644_416_9e-9,
    5.475_938_084_995_345e-4,
    0.015_198_666_563_616_457,
    0.148_103_976_427_480_08,
    0.689_767_334_985_1,
    1.676_384_830_183_803_8,
    2.053_191_626_637_759,
    1.0,
];
const E: [f64; 8] = [
    2.010_334_399_292_288_1e-7,
    2.711_555_568_743_487_6e-5,
    0.001_242_660_947_388_078_4,
    0.026_532_189_526_576_124,
    0.296_560_571_828_504_87,
    1.784_826_539_917_291_3,
    5.463_784_911_164_114,
    6.657_904_643_501_103,
];
const F: [f64; 8] = [
    2.044_263_103_389_939_8e-15,
    1.421_511_758_316_446e-7,
    1.846_318_317_510_054_8e-5,
    7.868_691_311_456_133e-4,
    0.014_875_361_290_850_615,
    0.136_929_880_922_735_8,
    0.599_832_206_555_887_9,
    1.0,
];

/// The value below which a standard normal deviate lies with probability `p`, 0 < p < 1.
fn quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * poly(r, &A) / poly(r, &B);
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    let r = libm::sqrt(-libm::log(tail));
    let x = if r <= 5.0 {
        poly(r - 1.6, &C) / poly(r - 1.6, &D)
    } else {
        poly(r - 5.0, &E) / poly(r - 5.0, &F)
    };
    if q < 0.0 { -x } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantile_inverts_the_normal_distribution() {
        for i in -75..=75 {
            let x = f64::from(i) / 10.0;
            let p = 0.5 * libm::erfc(-x / core::f64::consts::SQRT_2);
            // Beyond +5 the probability itself has no digits left; the other tail covers it.
            if x <= 5.0 {
                assert!((quantile(p) - x).abs() < 1e-9, "{x}: {}", quantile(p));
            }
        }
        assert_eq!(quantile(0.5), 0.0);
    }

    #[test]
    fn normal_deviates_have_the_right_moments_and_tails() {
        let mut rng = Rng::new(3);
        let n = 400_000;
        let (mut sum, mut squares, mut fourth, mut beyond) = (0.0, 0.0, 0.0, 0u32);
        for _ in 0..n {
            let x = normal(&mut rng);
            sum += x;
            squares += x * x;
            fourth += x * x * x * x;
            beyond += u32::from(x.abs() > 3.0);
        }
        let n = f64::from(n);
        assert!((sum / n).abs() < 0.006, "{}", sum / n);
        assert!((squares / n - 1.0).abs() < 0.01, "{}", squares / n);
        assert!((fourth / n - 3.0).abs() < 0.08, "{}", fourth / n);
        assert!((f64::from(beyond) / n - 0.0027).abs() < 0.0004, "{beyond}");
    }

    #[test]
    fn fading_is_stationary_with_the_given_memory() {
        let (sigma, links, steps, lag) = (2.0, 4_000u64, 60, 10);
        let root = Rng::new(11);
        let mut first = (0.0, 0.0);
        let mut last = (0.0, 0.0);
        let mut product = 0.0;
        for link in 0..links {
            let mut f = Fading::new(sigma, Span::MILLI * 500, &root.split_n(link));
            first = (first.0 + f.value(), first.1 + f.value() * f.value());
            let mut past = 0.0;
            for step in 1..=steps {
                f.step();
                if step == steps - lag {
                    past = f.value();
                }
            }
            last = (last.0 + f.value(), last.1 + f.value() * f.value());
            product += past * f.value();
        }
        let n = links as f64;
        for (sum, squares) in [first, last] {
            assert!((sum / n).abs() < 0.12, "mean {}", sum / n);
            let deviation = (squares / n).sqrt();
            assert!((deviation - sigma).abs() < 0.08, "deviation {deviation}");
        }
        // Ten steps of 50 ms are one time constant of 0.5 s.
        let correlation = product / n / (sigma * sigma);
        assert!(
            (correlation - (-1.0f64).exp()).abs() < 0.06,
            "{correlation}"
        );
    }

    #[test]
    fn a_step_does_not_depend_on_what_other_links_did() {
        let root = Rng::new(5).split("fading");
        let mut alone = Fading::new(1.0, Span::SECOND, &root.split_n(1).split_n(2));
        let mut other = Fading::new(1.0, Span::SECOND, &root.split_n(2).split_n(1));
        let mut again = Fading::new(1.0, Span::SECOND, &root.split_n(1).split_n(2));
        for _ in 0..100 {
            other.step();
            assert_eq!(alone.step(), again.step());
        }
        assert_ne!(alone.value(), other.value());
    }

    #[test]
    fn a_constant_link_stays_constant() {
        let mut f = Fading::new(0.0, Span::SECOND, &Rng::new(1));
        assert_eq!((f.value(), f.step(), f.step()), (0.0, 0.0, 0.0));
        let white = Fading::new(1.0, Span::ZERO, &Rng::new(1));
        assert_eq!(white.memory, 0.0);
    }
}
