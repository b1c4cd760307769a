//! Quantities as topology files write them: text with a unit, or a number in the basic unit.

use core::fmt;
use core::marker::PhantomData;
use core::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use wifu_wire::{Rate, Span};

/// A time: `"50 ms"`, or a number of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(pub Span);

/// A rate: `"24 Mb/s"`, or a number of bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitRate(pub Rate);

/// A number of decibels or octets at which something happens, or `"off"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Never.
    Off,
    /// From this on.
    At(f64),
}

/// What is common to them: a word or a number.
trait Quantity: Sized {
    const WHAT: &'static str;
    fn word(s: &str) -> Result<Self, String>;
    fn number(n: f64) -> Result<Self, String>;
}

fn not_negative(n: f64) -> Result<f64, String> {
    match n.is_finite() && n >= 0.0 {
        true => Ok(n),
        false => Err(format!("{n} is negative or no number")),
    }
}

impl Quantity for Seconds {
    const WHAT: &'static str = "a time such as \"50 ms\", or a number of seconds";
    fn word(s: &str) -> Result<Seconds, String> {
        Span::from_str(s).map(Seconds).map_err(|e| e.to_string())
    }
    fn number(n: f64) -> Result<Seconds, String> {
        not_negative(n).map(|n| Seconds(Span((n * 1e9).round() as u64)))
    }
}

impl Quantity for BitRate {
    const WHAT: &'static str = "a rate such as \"24 Mb/s\", or a number of bits per second";
    fn word(s: &str) -> Result<BitRate, String> {
        Rate::from_str(s).map(BitRate).map_err(|e| e.to_string())
    }
    fn number(n: f64) -> Result<BitRate, String> {
        not_negative(n).map(|n| BitRate(Rate(n.round() as u64)))
    }
}

impl Quantity for Limit {
    const WHAT: &'static str = "a number, or \"off\"";
    fn word(s: &str) -> Result<Limit, String> {
        match s {
            "off" => Ok(Limit::Off),
            "on" => Err("\"on\" is neither a number nor \"off\"; 0 is for all frames".into()),
            _ => s
                .parse()
                .map(Limit::At)
                .map_err(|_| format!("\"{s}\" is neither a number nor \"off\"")),
        }
    }
    fn number(n: f64) -> Result<Limit, String> {
        match n.is_nan() {
            true => Err("not a number".into()),
            false => Ok(Limit::At(n)),
        }
    }
}

struct Reader<Q>(PhantomData<Q>);

impl<Q: Quantity> Visitor<'_> for Reader<Q> {
    type Value = Q;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Q::WHAT)
    }

    fn visit_str<E: de::Error>(self, s: &str) -> Result<Q, E> {
        Q::word(s).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, n: u64) -> Result<Q, E> {
        Q::number(n as f64).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, n: i64) -> Result<Q, E> {
        Q::number(n as f64).map_err(E::custom)
    }

    fn visit_f64<E: de::Error>(self, n: f64) -> Result<Q, E> {
        Q::number(n).map_err(E::custom)
    }
}

macro_rules! read {
    ($($name:ident),*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<$name, D::Error> {
                d.deserialize_any(Reader::<$name>(PhantomData))
            }
        }
    )*};
}

read!(Seconds, BitRate, Limit);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&self.0)
    }
}

impl Serialize for BitRate {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&self.0)
    }
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Limit::Off => s.serialize_str("off"),
            Limit::At(n) => s.serialize_f64(*n),
        }
    }
}
