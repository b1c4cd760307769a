//! Time, rates, sequence numbers and named random streams.
//!
//! Nothing here reads a clock or a source of entropy: time and seeds are arguments everywhere.

use core::fmt;
use core::num::NonZeroU64;
use core::ops::{Add, AddAssign, Div, Mul, Sub};
use core::str::FromStr;

/// Nanoseconds since the substrate's epoch. The core never reads a clock; it is told the time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Time(pub u64);

/// A [`Time`] that takes no more room where it may be absent: of any time but [`Time::NEVER`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Moment(NonZeroU64);

const _: () = assert!(size_of::<Option<Moment>>() == size_of::<Time>());

impl Moment {
    /// This time; `None` for [`Time::NEVER`].
    #[inline]
    pub const fn new(at: Time) -> Option<Moment> {
        match NonZeroU64::new(!at.0) {
            Some(n) => Some(Moment(n)),
            None => None,
        }
    }

    /// As a plain [`Time`].
    #[inline]
    pub const fn time(self) -> Time {
        Time(!self.0.get())
    }
}

/// A length of time in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Span(pub u64);

/// Bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Rate(pub u64);

/// A 32-bit serial number (RFC 1982 arithmetic). Deliberately not `Ord`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Seq(pub u32);

impl Time {
    /// The epoch.
    pub const ZERO: Time = Time(0);
    /// Later than any event: "no deadline".
    pub const NEVER: Time = Time(u64::MAX);

    /// Microseconds since the epoch, low 32 bits: the time on the wire (Behaviour 0).
    pub fn wire_micros(self) -> u32 {
        (self.0 / 1_000) as u32
    }

    /// Seconds since the epoch.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, d: Span) -> Time {
        Time(self.0.saturating_add(d.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, d: Span) {
        *self = *self + d;
    }
}

impl Sub for Time {
    type Output = Span;
    /// The time from `o` to `self`; zero if `o` is later.
    fn sub(self, o: Time) -> Span {
        Span(self.0.saturating_sub(o.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// One microsecond.
    pub const MICRO: Span = Span(1_000);
    /// One millisecond.
    pub const MILLI: Span = Span(1_000_000);
    /// One second.
    pub const SECOND: Span = Span(1_000_000_000);

    /// From seconds; negative values and NaN give zero.
    pub fn from_secs_f64(s: f64) -> Span {
        Span((s * 1e9) as u64)
    }

    /// In seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// In whole microseconds, rounded down.
    pub fn micros(self) -> u64 {
        self.0 / 1_000
    }

    /// The difference of two spans, without sign.
    pub fn abs_diff(self, o: Span) -> Span {
        Span(self.0.abs_diff(o.0))
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, o: Span) -> Span {
        Span(self.0.saturating_add(o.0))
    }
}

impl Sub for Span {
    type Output = Span;
    fn sub(self, o: Span) -> Span {
        Span(self.0.saturating_sub(o.0))
    }
}

impl Mul<u64> for Span {
    type Output = Span;
    fn mul(self, k: u64) -> Span {
        Span(self.0.saturating_mul(k))
    }
}

impl Div<u64> for Span {
    type Output = Span;
    fn div(self, k: u64) -> Span {
        Span(self.0 / k)
    }
}

impl Rate {
    /// The time that `bytes` take at this rate, rounded up; [`Span`]'s maximum at rate zero.
    pub fn time_for(self, bytes: u64) -> Span {
        if self.0 == 0 {
            return Span(u64::MAX);
        }
        let ns = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(self.0));
        Span(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

impl Seq {
    /// How far `self` lies after `o`, modulo 2^32.
    pub fn since(self, o: Seq) -> u32 {
        self.0.wrapping_sub(o.0)
    }

    /// How far `self` lies after `o`; 0 if it does not.
    pub fn beyond(self, o: Seq) -> u32 {
        if self.after(o) { self.since(o) } else { 0 }
    }

    /// `self` before `o`, in serial arithmetic.
    pub fn before(self, o: Seq) -> bool {
        (self.0.wrapping_sub(o.0) as i32) < 0
    }

    /// `self` after `o`, in serial arithmetic.
    pub fn after(self, o: Seq) -> bool {
        o.before(self)
    }

    /// `self` at or before `o`.
    pub fn upto(self, o: Seq) -> bool {
        !o.before(self)
    }

    /// `self` at or after `o`.
    pub fn from(self, o: Seq) -> bool {
        !self.before(o)
    }

    /// `self` moved forward by `n`.
    pub fn plus(self, n: u32) -> Seq {
        Seq(self.0.wrapping_add(n))
    }

    /// `self` moved back by `n`.
    pub fn minus(self, n: u32) -> Seq {
        Seq(self.0.wrapping_sub(n))
    }

    /// The later of the two.
    pub fn later(self, o: Seq) -> Seq {
        if self.before(o) { o } else { self }
    }

    /// The earlier of the two.
    pub fn earlier(self, o: Seq) -> Seq {
        if o.before(self) { o } else { self }
    }
}

/// Why a quantity with a unit could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError(String);

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for UnitError {}

/// Split `"24 Mb/s"` into 24.0 and `"Mb/s"`.
fn number_and_unit(s: &str) -> Result<(f64, &str), UnitError> {
    let s = s.trim();
    let digits = |c: char| c.is_ascii_digit() || c == '.' || c == '_';
    let cut = s.find(|c| !digits(c)).unwrap_or(s.len());
    let (number, unit) = s.split_at(cut);
    let number = number.replace('_', "");
    match number.parse::<f64>() {
        Ok(n) => Ok((n, unit.trim())),
        Err(_) if s.strip_prefix('-').is_some_and(|n| n.starts_with(digits)) => {
            Err(UnitError(format!("\"{s}\" must not be negative")))
        }
        Err(_) => Err(UnitError(format!("\"{s}\" does not begin with a number"))),
    }
}

impl FromStr for Span {
    type Err = UnitError;
    /// `"100ms"`, `"0.5 s"`, `"20 us"`, `"7 ns"`, `"2 min"`, `"1 h"`.
    fn from_str(s: &str) -> Result<Span, UnitError> {
        let (n, unit) = number_and_unit(s)?;
        let ns = match unit {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" | "sec" => 1e9,
            "min" => 60e9,
            "h" => 3600e9,
            "" if n == 0.0 => 1.0,
            _ => return Err(no_time(s, unit)),
        };
        Ok(Span((n * ns).round() as u64))
    }
}

/// Why this is no time: what stands behind its first number is no unit.
fn no_time(s: &str, unit: &str) -> UnitError {
    let of_times = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | ' ');
    if !unit.contains(|c: char| c.is_ascii_digit()) || !unit.chars().all(of_times) {
        let what = format!("\"{s}\" needs a unit of time: ns, us, ms, s, min, h");
        return UnitError(what);
    }
    let sum = s.split_once('+').and_then(|(one, more)| {
        let (one, more): (Span, Span) = (one.parse().ok()?, more.parse().ok()?);
        one.0.checked_add(more.0).map(Span)
    });
    let meant = match sum {
        Some(sum) => format!("\"{sum}\""),
        None => String::from("one such as \"90s\" or \"1.5min\""),
    };
    UnitError(format!(
        "\"{s}\": a time is one number with one unit: write {meant}"
    ))
}

/// Whether a rate is a bare number of so few bit/s (below 1000) that it was to have a unit.
pub fn lacks_unit(rate: &str) -> bool {
    rate.trim()
        .parse()
        .is_ok_and(|n: f64| n > 0.0 && n < 1000.0)
}

impl FromStr for Rate {
    type Err = UnitError;
    /// `"24 Mb/s"`, `"0.8Mb/s"`, `"6mbit"`, `"11M"`, `"500 kbit/s"`, `"1Gbps"`, `"6 Mbits/sec"`.
    fn from_str(s: &str) -> Result<Rate, UnitError> {
        let (n, unit) = number_and_unit(s)?;
        let time = ["/sec", "/s"];
        let amount = time.into_iter().find_map(|t| unit.strip_suffix(t));
        let (unit, timed) = (amount.unwrap_or(unit), amount.is_some());
        if unit.ends_with('B') || unit.ends_with("Bps") {
            return Err(UnitError(format!(
                "\"{s}\" is in bytes: rates are in bits, 1 MB/s is 8 Mb/s"
            )));
        }
        let lower = unit.to_ascii_lowercase();
        let scale = match lower.chars().next() {
            Some('k') => 1e3,
            Some('m') => 1e6,
            Some('g') => 1e9,
            Some('b') | None => 1.0,
            _ => 0.0,
        };
        let known = match lower.strip_prefix(['k', 'm', 'g']).unwrap_or(&lower) {
            "b" | "bit" | "bits" => true,
            "" | "bps" => !timed,
            _ => false,
        };
        if scale == 0.0 || !known {
            return Err(UnitError(format!(
                "\"{s}\" is no rate: write 24 Mb/s, 6mbit or 500 kbit/s"
            )));
        }
        Ok(Rate((n * scale).round() as u64))
    }
}

/// Octets with an optional unit: `"64 KiB"`, `"1M"` (10^6), `"131071"`, `"2 MB"`.
///
/// # Errors
/// If there is no number in front, the unit is unknown, or it is more than 64 bits hold.
pub fn parse_octets(s: &str) -> Result<u64, UnitError> {
    let (n, unit) = number_and_unit(s)?;
    let scale = match unit {
        "" | "B" => 1.0,
        "k" | "K" | "kB" | "KB" => 1e3,
        "M" | "MB" => 1e6,
        "G" | "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        _ => {
            return Err(UnitError(format!(
                "\"{s}\": unknown unit; write B, kB, MB, GB, KiB, MiB or GiB"
            )));
        }
    };
    whole_octets(n * scale).ok_or_else(|| UnitError(format!("\"{s}\" is {TOO_MANY}")))
}

/// What is wrong with a number of octets that [`whole_octets`] has none for.
pub const TOO_MANY: &str = "16 EiB or more, which no run gets through: write less";

/// So many octets, in whole ones; `None` if 64 bits do not hold them. The largest number that they
/// hold would be taken for all that are more.
pub fn whole_octets(n: f64) -> Option<u64> {
    const END: f64 = (1u128 << 64) as f64;
    Some(n.round()).filter(|n| *n < END).map(|n| n as u64)
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0;
        match ns {
            0 => write!(f, "0 s"),
            _ if ns.is_multiple_of(1_000_000_000) => write!(f, "{} s", ns / 1_000_000_000),
            _ if ns >= 1_000_000_000 => write!(f, "{} s", ns as f64 / 1e9),
            _ if ns >= 1_000_000 => write!(f, "{} ms", ns as f64 / 1e6),
            _ if ns >= 1_000 => write!(f, "{} us", ns as f64 / 1e3),
            _ => write!(f, "{ns} ns"),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            r if r >= 1_000_000_000 => write!(f, "{} Gb/s", r as f64 / 1e9),
            r if r >= 1_000_000 => write!(f, "{} Mb/s", r as f64 / 1e6),
            r if r >= 1_000 => write!(f, "{} kb/s", r as f64 / 1e3),
            r => write!(f, "{r} b/s"),
        }
    }
}

/// A small, value-stable random stream (SplitMix64), split by name so that adding a consumer
/// shifts nobody else's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rng(u64);

impl Rng {
    /// A stream from a seed.
    pub fn new(seed: u64) -> Rng {
        Rng(mix(seed ^ 0x9E37_79B9_7F4A_7C15))
    }

    /// The stream whose [`Rng::state`] is this.
    pub fn from_state(state: u64) -> Rng {
        Rng(state)
    }

    /// What it is now: [`Rng::from_state`] goes on from there, in another process for instance.
    pub fn state(&self) -> u64 {
        self.0
    }

    /// The stream of a named purpose below this one; `self` is not advanced.
    pub fn split(&self, name: &str) -> Rng {
        let mut h = self.0 ^ 0xCBF2_9CE4_8422_2325;
        for b in name.bytes() {
            h = mix(h ^ u64::from(b));
        }
        Rng(mix(h))
    }

    /// The stream number `n` below this one; `self` is not advanced.
    pub fn split_n(&self, n: u64) -> Rng {
        Rng(mix(self.0 ^ mix(n.wrapping_add(0x9E37_79B9_7F4A_7C15))))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// The next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// Uniform in `0..n`; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in [0, 1), 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with probability `p` of 2^32.
    pub fn chance(&mut self, p: u32) -> bool {
        self.next_u32() < p
    }
}

/// Finaliser of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_numbers_compare_across_the_wrap() {
        let (a, b) = (Seq(u32::MAX - 10), Seq(10));
        assert!(a.before(b) && b.after(a) && !b.before(a));
        assert_eq!(b.since(a), 21);
        assert_eq!(a.later(b), b);
        assert_eq!(a.plus(21), b);
    }

    #[test]
    fn quantities_read_their_units() {
        assert_eq!("0.1ms".parse(), Ok(Span(100_000)));
        assert_eq!("100 ms".parse(), Ok(Span(100_000_000)));
        assert_eq!("0.8Mb/s".parse(), Ok(Rate(800_000)));
        assert_eq!("6mbit".parse(), Ok(Rate(6_000_000)));
        assert_eq!(parse_octets("1M"), Ok(1_000_000));
        assert_eq!(parse_octets("64 KiB"), Ok(65_536));
        assert!("5".parse::<Span>().is_err());
        let wrong = |s: &str| s.parse::<Span>().unwrap_err().to_string();
        assert!(wrong("3s+1s").ends_with("one number with one unit: write \"4 s\""));
        assert!(wrong("1min30s").ends_with("write one such as \"90s\" or \"1.5min\""));
        assert!(wrong("3ms,1").contains("needs a unit of time"));
        assert!(wrong("3s+x").ends_with("needs a unit of time: ns, us, ms, s, min, h"));
        assert!("5 parsecs".parse::<Rate>().is_err());
        assert_eq!(
            parse_octets("17_179_869_183 GiB"),
            Ok(u64::MAX - (1 << 30) + 1)
        );
        for text in ["17179869184GiB", "18446744073709551616", "99999999999G"] {
            let told = parse_octets(text).expect_err(text).to_string();
            assert_eq!(told, format!("\"{text}\" is {TOO_MANY}"));
        }
    }

    #[test]
    fn rates_in_bytes_are_no_rates() {
        for text in [
            "1MB/s", "1 MB/s", "1MBps", "500 kB/s", "8B/s", "1 MB", "1MB/sec",
        ] {
            let told = text.parse::<Rate>().unwrap_err().to_string();
            assert!(
                told.contains("in bytes: rates are in bits, 1 MB/s is 8 Mb/s"),
                "{told}"
            );
        }
    }

    #[test]
    fn rates_are_read_as_programs_write_them() {
        let all = "1Mb/s, 1 mb/s, 1Mbps, 1M, 1Mbit, 1Mb, 1 Mbits, 1 Mbits/sec, 1mbit/s, 1000 kb";
        for text in all.split(", ") {
            assert_eq!(text.parse(), Ok(Rate(1_000_000)), "{text}");
        }
        assert_eq!("6".parse(), Ok(Rate(6)));
        // Whatever is a second's there.
        for text in [
            "1M/s",
            "1/s",
            "1Mbps/s",
            "1 Mbit/min",
            "1 megabit",
            "10kg",
            "1mkbit",
        ] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_split_stream_does_not_depend_on_use() {
        let (mut used, fresh) = (Rng::new(7), Rng::new(7));
        let before = fresh.split("loss");
        used.next_u64();
        assert_eq!(before, fresh.split("loss"));
        assert_ne!(before.clone().next_u64(), fresh.split("delay").next_u64());
    }

    #[test]
    fn a_rate_rounds_transmission_time_up() {
        assert_eq!(Rate(800_000).time_for(1040), Span(10_400_000));
        assert_eq!(Rate(3).time_for(1), Span(2_666_666_667));
    }
}
