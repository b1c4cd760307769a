//! Functions beyond `+ - * / sqrt`, computed from these alone so that every machine gets the same
//! bits.

/// The cube root, to within a few units in the last place.
pub fn cbrt(x: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    // A third of the exponent is a guess within 6 %, from which Newton doubles the digits.
    let guess = x.abs().to_bits() / 3 + 0x2A9F_7893_0000_0000;
    let mut y = f64::from_bits(guess);
    for _ in 0..5 {
        y = (2.0 * y + x.abs() / (y * y)) / 3.0;
    }
    if x < 0.0 { -y } else { y }
}

/// The logarithm to base 10, to within a few units in the last place; not a number below zero.
pub fn log10(x: f64) -> f64 {
    if x <= 0.0 || !x.is_normal() {
        return match x {
            0.0 => f64::NEG_INFINITY,
            // Below what is normal nothing here has a use.
            x if x > 0.0 && x.is_finite() => log10(x * TWO_64) - 64.0 * LOG10_2,
            x if x > 0.0 => x,
            _ => f64::NAN,
        };
    }
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1023;
    let mut m = f64::from_bits(bits & !(0x7FF << 52) | 1023 << 52);
    if m > core::f64::consts::SQRT_2 {
        (m, exponent) = (m / 2.0, exponent + 1);
    }
    // ln m = 2 artanh t, whose series has odd powers of t, here below 0.172.
    let t = (m - 1.0) / (m + 1.0);
    let (mut power, mut sum, mut n) = (t, t, 1.0);
    while n < 25.0 {
        power *= t * t;
        n += 2.0;
        sum += power / n;
    }
    f64::from(exponent) * LOG10_2 + 2.0 * sum / LN_10
}

/// The exponential function, to within a few units in the last place.
pub fn exp(x: f64) -> f64 {
    if !(-700.0..=709.0).contains(&x) {
        return match x {
            x if x > 709.0 => f64::INFINITY,
            x if x < -700.0 => 0.0,
            x => x,
        };
    }
    let halvings = (x / core::f64::consts::LN_2).round();
    // What is left is at most 0.35, whose series has no more than these digits.
    let rest = x - halvings * LN_2_HIGH - halvings * LN_2_LOW;
    let (mut power, mut sum, mut n) = (1.0, 1.0, 0.0);
    while n < 16.0 {
        n += 1.0;
        power *= rest / n;
        sum += power;
    }
    sum * f64::from_bits(((halvings as i64 + 1023) as u64) << 52)
}

/// The natural logarithm of 2 in two parts, of which multiples of the first are exact.
const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

const LOG10_2: f64 = core::f64::consts::LOG10_2;
const LN_10: f64 = core::f64::consts::LN_10;
const TWO_64: f64 = 18_446_744_073_709_551_616.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots_are_exact_to_the_last_digits() {
        for root in [1e-6, 0.1, 1.0, 3.0, 4.217_163_326_508_746, 1e6, 7e20] {
            let x = root * root * root;
            assert!((cbrt(x) / root - 1.0).abs() < 1e-14, "{root}");
            assert_eq!(cbrt(-x), -cbrt(x));
        }
        assert_eq!(cbrt(0.0), 0.0);
        assert!(cbrt(f64::INFINITY).is_infinite() && cbrt(f64::NAN).is_nan());
    }

    #[test]
    fn logarithms_are_exact_to_the_last_digits() {
        for exponent in [-300, -17, -1, 1, 2, 9, 15, 300] {
            let x: f64 = format!("1e{exponent}").parse().unwrap();
            assert!((log10(x) / f64::from(exponent) - 1.0).abs() < 1e-15, "{x}");
        }
        for (x, log) in [
            (4.0, 0.602_059_991_327_962_4),
            (3.0, 0.477_121_254_719_662_4),
            (1.41, 0.149_219_112_655_379_9),
            (1.42, 0.152_288_344_383_056_46),
            (0.7, -0.154_901_959_985_743_2),
            (5e-324, -323.306_215_343_115_8),
        ] {
            assert!((log10(x) / log - 1.0).abs() < 1e-15, "{x}: {}", log10(x));
        }
        assert_eq!((log10(1.0), log10(0.0)), (0.0, f64::NEG_INFINITY));
        assert!(log10(-1.0).is_nan() && log10(f64::NAN).is_nan());
        assert_eq!(log10(f64::INFINITY), f64::INFINITY);
    }

    #[test]
    fn exponentials_are_exact_to_the_last_digits() {
        for (x, e) in [
            (1.0, core::f64::consts::E),
            (-1.0, 0.367_879_441_171_442_33),
            (0.1, 1.105_170_918_075_647_7),
            (-0.3, 0.740_818_220_681_717_9),
            (20.0, 485_165_195.409_790_3),
            (-50.0, 1.928_749_847_963_917_8e-22),
            (700.0, 1.014_232_054_735_004_5e304),
        ] {
            assert!((exp(x) / e - 1.0).abs() < 2e-15, "{x}: {}", exp(x));
        }
        assert_eq!((exp(0.0), exp(f64::NEG_INFINITY)), (1.0, 0.0));
        assert_eq!(exp(f64::INFINITY), f64::INFINITY);
        assert!(exp(f64::NAN).is_nan());
    }
}
