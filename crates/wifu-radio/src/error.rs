//! Error models: what becomes of bits at a given ratio of signal to interference and noise.
//!
//! The reference functions are [`bit_error_rate`] and [`chunk_success`]; [`ErrorTable`] gives the
//! same numbers without a transcendental function, for the event machine.
//!
//! Sources: G. Pei and T. Henderson, "Validation of OFDM error rate model in ns-3", Boeing, 2010
//! (NIST form); M. Lacage and T. Henderson, "Yet another network simulator", WNS2 2006; Pursley and
//! Royster, "Properties and performance of the IEEE 802.11b complementary-code-key signal sets",
//! IEEE Trans. Comm. 57(2), 2009, through the fits that ns-3's `DsssErrorRateModel` uses.

use core::f64::consts::{PI, SQRT_2};

use crate::phy::Mode;
use crate::power::linear;

/// How OFDM frames are judged. DSSS and CCK follow the formulas of ns-3's `DsssErrorRateModel`
/// with every model but `Ideal`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum ErrorModel {
    /// Pei and Henderson's form of the NIST model, validated against a channel emulator.
    #[default]
    Nist,
    /// The older model of YANS: one or two terms of the union bound.
    Yans,
    /// Every bit survives at this SINR and above, none below, in every mode.
    Ideal {
        /// Signal over noise and interference of the whole channel, dB.
        threshold_db: f64,
    },
}

/// The smallest logarithm of a bit's chance: what is called "never" here.
const NEVER: f64 = -40.0;

/// Probability that one decoded bit is wrong at `sinr` (linear, 0 and above), 0 to 1.
pub fn bit_error_rate(model: &ErrorModel, mode: Mode, sinr: f64) -> f64 {
    match *model {
        ErrorModel::Ideal { threshold_db } if sinr < linear(threshold_db) => 1.0,
        ErrorModel::Ideal { .. } => 0.0,
        _ if !mode.is_ofdm() => dsss(mode, sinr),
        ErrorModel::Nist => nist(mode, sinr),
        ErrorModel::Yans => yans(mode, sinr),
    }
}

/// Probability that `bits` bits at constant `sinr` (linear) all arrive.
pub fn chunk_success(model: &ErrorModel, mode: Mode, sinr: f64, bits: f64) -> f64 {
    libm::exp(bits * ln_survival(bit_error_rate(model, mode, sinr)))
}

/// Probability that a frame of `mpdu_bytes` without interference is lost at `snr_db`.
pub fn frame_error(model: &ErrorModel, mode: Mode, mpdu_bytes: u32, snr_db: f64) -> f64 {
    1.0 - chunk_success(model, mode, linear(snr_db), 8.0 * f64::from(mpdu_bytes))
}

/// [`frame_error`] averaged over an SNR in dB that is normal with deviation `sigma_db`: what an
/// isolated link with slow variation loses of one attempt. Simpson's rule over 6 sigma each way.
pub fn mean_frame_error(
    model: &ErrorModel,
    mode: Mode,
    mpdu_bytes: u32,
    snr_db: f64,
    sigma_db: f64,
) -> f64 {
    if sigma_db <= 0.0 {
        return frame_error(model, mode, mpdu_bytes, snr_db);
    }
    const STEPS: i32 = 240;
    let (mut sum, mut weights) = (0.0, 0.0);
    for i in 0..=STEPS {
        let z = 12.0 * f64::from(i) / f64::from(STEPS) - 6.0;
        let simpson = match i {
            0 | STEPS => 1.0,
            _ if i % 2 == 1 => 4.0,
            _ => 2.0,
        };
        let w = simpson * libm::exp(-z * z / 2.0);
        sum += w * frame_error(model, mode, mpdu_bytes, snr_db + sigma_db * z);
        weights += w;
    }
    sum / weights
}

fn ln_survival(ber: f64) -> f64 {
    if ber >= 1.0 {
        return NEVER;
    }
    libm::log1p(-ber).max(NEVER)
}

/// Modulation and code rate of an OFDM mode: bits per subcarrier, k of the rate k/(k+1).
fn ofdm(mode: Mode) -> (u32, u32) {
    const TABLE: [(u32, u32); 8] = [
        (1, 1),
        (1, 3),
        (2, 1),
        (2, 3),
        (4, 1),
        (4, 3),
        (6, 2),
        (6, 3),
    ];
    TABLE[usize::from(mode.0) - 4]
}

/// Distance spectra of the code of clause 17 (K = 7, 133 and 171 octal, punctured): the bit weights
/// from the free distance on, for rates 1/2 (even distances only), 2/3 and 3/4.
const HALF: (u32, u32, &[f64]) = (
    10,
    2,
    &[
        36.0,
        211.0,
        1404.0,
        11633.0,
        77433.0,
        502_690.0,
        3_322_763.0,
        21_292_910.0,
        134_365_911.0,
    ],
);
const TWO_THIRDS: (u32, u32, &[f64]) = (
    6,
    1,
    &[
        3.0,
        70.0,
        285.0,
        1276.0,
        6160.0,
        27128.0,
        117_019.0,
        498_860.0,
        2_103_891.0,
        8_784_123.0,
    ],
);
const THREE_QUARTERS: (u32, u32, &[f64]) = (
    5,
    1,
    &[
        42.0,
        201.0,
        1492.0,
        10469.0,
        62935.0,
        379_644.0,
        2_253_373.0,
        13_073_811.0,
        75_152_755.0,
        428_005_675.0,
    ],
);

/// The NIST form: union bound over the code's distance spectrum with hard decisions.
fn nist(mode: Mode, sinr: f64) -> f64 {
    let (bits, k) = ofdm(mode);
    let raw = match bits {
        1 => 0.5 * libm::erfc(libm::sqrt(sinr)),
        2 => 0.5 * libm::erfc(libm::sqrt(sinr / 2.0)),
        4 => 0.375 * libm::erfc(libm::sqrt(sinr / 10.0)),
        _ => 7.0 / 24.0 * libm::erfc(libm::sqrt(sinr / 42.0)),
    };
    let (first, step, weights) = match k {
        1 => HALF,
        2 => TWO_THIRDS,
        _ => THREE_QUARTERS,
    };
    let d = libm::sqrt(4.0 * raw * (1.0 - raw));
    let ratio = power(d, step);
    // Horner's rule from the largest distance down.
    let sum = weights.iter().rev().fold(0.0, |acc, w| acc * ratio + w);
    (sum * power(d, first) / (2.0 * f64::from(k))).min(1.0)
}

/// `x` to the n-th. The standard library's may round differently on another machine.
fn power(x: f64, n: u32) -> f64 {
    (0..n).fold(1.0, |acc, _| acc * x)
}

/// The YANS form: the first one or two terms of the union bound with the exact pairwise errors.
fn yans(mode: Mode, sinr: f64) -> f64 {
    let (bits, k) = ofdm(mode);
    // Energy per coded bit: 20 MHz over the coded rate (48 subcarriers per 4 us).
    let ebn0 = sinr * 20.0 / (12.0 * f64::from(bits));
    let raw = if bits == 1 {
        0.5 * libm::erfc(libm::sqrt(ebn0))
    } else {
        let m = f64::from(1u32 << bits);
        let z = libm::sqrt(1.5 * f64::from(bits) * ebn0 / (m - 1.0));
        let one_axis = (1.0 - 1.0 / libm::sqrt(m)) * libm::erfc(z);
        (1.0 - (1.0 - one_axis) * (1.0 - one_axis)) / f64::from(bits)
    };
    // Free distance, its multiplicity, that of the next distance.
    let (distance, first, next) = match (k, bits) {
        (1, _) => (10, 11.0, 0.0),
        (2, _) => (6, 1.0, 16.0),
        (_, 1) => (5, 8.0, 0.0),
        _ => (5, 8.0, 31.0),
    };
    (first * pairwise(raw, distance) + next * pairwise(raw, distance + 1)).min(1.0)
}

/// Chance that more than half of `d` bits are wrong; of exactly half counts half.
fn pairwise(p: f64, d: u32) -> f64 {
    let mut choose = 1.0;
    let mut sum = 0.0;
    for i in 0..=d {
        let term = choose * power(p, i) * power(1.0 - p, d - i);
        match (2 * i).cmp(&d) {
            core::cmp::Ordering::Greater => sum += term,
            core::cmp::Ordering::Equal => sum += term / 2.0,
            core::cmp::Ordering::Less => {}
        }
        choose = choose * f64::from(d - i) / f64::from(i + 1);
    }
    sum
}

/// DBPSK, DQPSK and the fits for CCK.
fn dsss(mode: Mode, s: f64) -> f64 {
    match mode.0 {
        0 => 0.5 * libm::exp(-22.0 * s),
        1 => dqpsk(11.0 * s),
        _ if s > 10.0 => 0.0,
        _ if s < 0.1 => 0.5,
        2 => {
            0.536_816_343
                * libm::exp(-libm::pow(
                    (s - 0.003_309_243) / 0.416_543_724,
                    1.028_898_143,
                ))
        }
        _ => {
            let above = (0.007_905_674_227 * s - 0.183_974_494) * s + 1.074_068_947;
            let below = ((s + 1.052_331_69) * s + 0.305_529_875) * s + 2.203_271_513;
            above / below
        }
    }
}

/// Bit errors of DQPSK at `x` = Eb/N0; the asymptote is no probability near zero.
fn dqpsk(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.5;
    }
    let front = (SQRT_2 + 1.0) / libm::sqrt(8.0 * PI * SQRT_2);
    (front / libm::sqrt(x) * libm::exp(-(2.0 - SQRT_2) * x)).min(0.5)
}

/// The table covers SINR from 2^-8 to 2^16 (-24 to 48 dB).
const LOW: i64 = -8;
const OCTAVES: usize = 24;
/// Cells of an octave, as a power of two.
const CELL_BITS: u32 = 7;
const CELLS: usize = OCTAVES << CELL_BITS;
/// The bits of a double below those that number the cell.
const BELOW: u32 = 52 - CELL_BITS;

/// The logarithm of a bit's chance in each mode, piecewise linear. The upper bits of the SINR, as
/// a double, number the cell and the lower ones say where in it, so a look-up has no logarithm and
/// no division. Frame error rates differ from the reference by less than 0.001.
#[derive(Clone, Debug)]
pub struct ErrorTable {
    /// Value at a cell's left end, rise to its right end; by mode.
    cells: Vec<Vec<[f64; 2]>>,
    /// `Ideal`'s threshold, linear: a step needs no table.
    step: Option<f64>,
    /// By mode: from here on a bit survives but once in 10^14.
    sure: [f64; 12],
}

impl ErrorTable {
    /// The table of a model, for the modes given; any other mode must not be asked for.
    pub fn for_modes(model: &ErrorModel, modes: &[Mode]) -> ErrorTable {
        if let ErrorModel::Ideal { threshold_db } = *model {
            let step = Some(linear(threshold_db));
            let cells = Vec::new();
            let sure = [linear(threshold_db); 12];
            return ErrorTable { cells, step, sure };
        }
        let column = |mode: Mode| match modes.contains(&mode) {
            true => column(model, mode),
            false => Vec::new(),
        };
        let cells: Vec<Vec<[f64; 2]>> = Mode::ALL.into_iter().map(column).collect();
        let mut sure = [f64::INFINITY; 12];
        for (sure, column) in sure.iter_mut().zip(&cells) {
            let risky = column.iter().rposition(|c| c[0] < -1e-14);
            let first = risky.map_or(0, |r| r + 1) as u64;
            let base = ((1023 + LOW) as u64) << CELL_BITS;
            *sure = f64::from_bits((base + first) << BELOW);
        }
        ErrorTable {
            cells,
            step: None,
            sure,
        }
    }

    /// The SINR (linear) from which on frames in this mode cannot be lost. Header bits are in a
    /// mode at least as robust.
    #[inline]
    pub fn sure(&self, mode: Mode) -> f64 {
        self.sure[usize::from(mode.0)]
    }

    /// Natural logarithm of the probability that one bit survives at `sinr` (linear); 0 or less.
    #[inline]
    pub fn ln_bit(&self, mode: Mode, sinr: f64) -> f64 {
        if let Some(step) = self.step {
            return if sinr < step { NEVER } else { 0.0 };
        }
        let bits = sinr.to_bits();
        let base = ((1023 + LOW) as u64) << CELL_BITS;
        let cell = (bits >> BELOW).saturating_sub(base) as usize;
        let column = &self.cells[usize::from(mode.0)];
        let Some(&[left, rise]) = column.get(cell) else {
            return 0.0;
        };
        let part = bits & ((1 << BELOW) - 1);
        left + rise * (part as f64 * (1.0 / (1u64 << BELOW) as f64))
    }
}

/// The cells of one mode, up to the first from which on every bit survives.
fn column(model: &ErrorModel, mode: Mode) -> Vec<[f64; 2]> {
    let at = |cell: usize| {
        let base = ((1023 + LOW) as u64) << CELL_BITS;
        f64::from_bits((base + cell as u64) << BELOW)
    };
    let value = |sinr: f64| ln_survival(bit_error_rate(model, mode, sinr));
    let mut cells = Vec::with_capacity(CELLS);
    for i in 0..CELLS {
        // A fit may jump where a cell ends, so each takes the limits from inside.
        let (left, right) = (value(at(i).next_up()), value(at(i + 1).next_down()));
        if left > -1e-12 {
            break;
        }
        cells.push([left, right - left]);
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    const NIST: ErrorModel = ErrorModel::Nist;

    /// The SNR at which `bytes` in `mode` are lost with probability `per`.
    fn threshold(model: &ErrorModel, mode: Mode, bytes: u32, per: f64) -> f64 {
        let (mut low, mut high) = (-20.0, 40.0);
        for _ in 0..60 {
            let mid = (low + high) / 2.0;
            if frame_error(model, mode, bytes, mid) > per {
                low = mid;
            } else {
                high = mid;
            }
        }
        low
    }

    #[test]
    fn thresholds_of_the_nist_model() {
        // SNR for a frame error rate of 0.5, 0.1 and 0.01.
        let published = [
            (Mode(4), 1536, [3.4, 4.0, 4.6]),
            (Mode(6), 1536, [6.4, 7.0, 7.6]),
            (Mode(8), 1536, [12.9, 13.5, 14.2]),
            (Mode(8), 88, [12.0, 12.6, 13.4]),
        ];
        for (mode, bytes, at) in published {
            for (per, snr) in [0.5, 0.1, 0.01].into_iter().zip(at) {
                let found = threshold(&NIST, mode, bytes, per);
                assert!((found - snr).abs() < 0.06, "{} {per}: {found}", mode.name());
            }
        }
    }

    #[test]
    fn cck_at_11_mbps_meets_its_fit() {
        let published = [
            (9.0, 0.91),
            (9.6, 0.54),
            (9.9, 0.31),
            (9.9999, 0.24),
            (10.001, 0.0),
        ];
        for (snr, per) in published {
            let found = frame_error(&NIST, Mode(3), 1536, snr);
            assert!((found - per).abs() < 0.006, "{snr} dB: {found}");
        }
        assert_eq!(frame_error(&NIST, Mode(3), 1536, -10.5), 1.0);
    }

    #[test]
    fn slow_variation_spreads_the_threshold() {
        // Mean frame error of 1536 octets at 24 Mb/s: deviation, mean SNR, published per cent.
        let published = [
            (1.0, 14.5, 8.0),
            (1.0, 15.0, 3.2),
            (1.0, 16.0, 0.3),
            (2.0, 15.0, 16.0),
            (2.0, 16.0, 7.0),
            (2.0, 16.5, 4.2),
            (2.0, 17.0, 2.5),
            (2.0, 18.0, 0.7),
            (2.0, 19.0, 0.16),
            (2.5, 15.0, 21.0),
            (2.5, 16.0, 11.7),
            (2.5, 17.0, 5.6),
            (2.5, 18.0, 2.4),
            (2.5, 20.0, 0.3),
        ];
        for (sigma, snr, percent) in published {
            let found = 100.0 * mean_frame_error(&NIST, Mode(8), 1536, snr, sigma);
            let slack = f64::max(0.06 * percent, 0.05);
            assert!(
                (found - percent).abs() < slack,
                "{sigma} {snr}: {found}, not {percent}"
            );
        }
    }

    #[test]
    fn more_bits_per_symbol_need_more_signal() {
        for model in [ErrorModel::Nist, ErrorModel::Yans] {
            // 9 Mb/s (BPSK 3/4) and 12 Mb/s (QPSK 1/2) cross, as in the standard's sensitivities.
            let at = [0, 2, 3, 4, 5, 6, 7].map(|i| threshold(&model, Mode(4 + i), 1536, 0.1));
            assert!(at.windows(2).all(|w| w[0] < w[1]), "{model:?} {at:?}");
        }
        let dsss = [0, 1, 2, 3].map(|i| threshold(&NIST, Mode(i), 1536, 0.5));
        assert!(dsss.windows(2).all(|w| w[0] < w[1]), "{dsss:?}");
    }

    #[test]
    fn the_yans_model_is_the_union_bound_of_its_first_term() {
        // BPSK 1/2 by hand: p = 0.5 erfc(sqrt(s 20/12)), 11 times the tail of Binomial(10, p).
        let s = linear(1.0);
        let p = 0.5 * libm::erfc(libm::sqrt(s * 20.0 / 12.0));
        let tail = |i: i32, c: f64| c * p.powi(i) * (1.0 - p).powi(10 - i);
        let terms = [(6, 210.0), (7, 120.0), (8, 45.0), (9, 10.0), (10, 1.0)];
        let sum: f64 = terms.iter().map(|&(i, c)| tail(i, c)).sum();
        let expected = 11.0 * (sum + tail(5, 252.0) / 2.0);
        let found = bit_error_rate(&ErrorModel::Yans, Mode(4), s);
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    }

    #[test]
    fn the_table_agrees_with_the_reference() {
        for model in [ErrorModel::Nist, ErrorModel::Yans] {
            let table = ErrorTable::for_modes(&model, &Mode::ALL);
            let mut worst = 0.0f64;
            for mode in Mode::ALL {
                for i in 0..20_000 {
                    let sinr = linear(-10.0 + 50.0 * (f64::from(i) + 0.37) / 20_000.0);
                    for bits in [24.0, 112.0, 704.0, 12_288.0, 18_432.0] {
                        let exact = chunk_success(&model, mode, sinr, bits);
                        let fast = (bits * table.ln_bit(mode, sinr)).exp();
                        worst = worst.max((exact - fast).abs());
                    }
                }
            }
            assert!(worst < 1e-3, "{model:?}: {worst}");
        }
    }

    #[test]
    fn the_table_has_no_edge_to_fall_off() {
        let table = ErrorTable::for_modes(&NIST, &Mode::ALL);
        for mode in Mode::ALL {
            assert_eq!(table.ln_bit(mode, 1e9), 0.0);
            assert_eq!(table.ln_bit(mode, f64::INFINITY), 0.0);
            assert!(
                table.ln_bit(mode, 0.0) < -0.5,
                "{}",
                table.ln_bit(mode, 0.0)
            );
            assert!(table.ln_bit(mode, 1e-300) < -0.5);
        }
    }

    #[test]
    fn an_ideal_receiver_is_a_step() {
        let model = ErrorModel::Ideal { threshold_db: 10.0 };
        let table = ErrorTable::for_modes(&model, &Mode::ALL);
        for mode in [Mode(0), Mode(11)] {
            assert_eq!(chunk_success(&model, mode, 10.001, 1e6), 1.0);
            assert_eq!(table.ln_bit(mode, 10.001), 0.0);
            assert!(chunk_success(&model, mode, 9.999, 24.0) < 1e-300);
            assert!((24.0 * table.ln_bit(mode, 9.999)).exp() < 1e-300);
        }
    }
}
