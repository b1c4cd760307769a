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
}
