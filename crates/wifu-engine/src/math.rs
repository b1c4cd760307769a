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
}
