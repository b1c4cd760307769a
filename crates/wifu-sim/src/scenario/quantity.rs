//! Quantities as scenarios write them: text with a unit, or a number in the basic unit.

use core::fmt;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use wifu_wire::units::{TOO_MANY, parse_octets, whole_octets};
use wifu_wire::{Rate, Span};

/// A time: `"5ms"`, or a number of seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Secs(pub Span);

/// A rate: `"24Mb/s"`, or a number of bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bps(pub Rate);

/// A length: `"2M"`, `"64KiB"`, or a number of octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Octets(pub u64);

trait Quantity: Sized {
    const WHAT: &'static str;
    fn text(s: &str) -> Result<Self, String>;
    fn number(n: f64) -> Result<Self, String>;
}

impl Quantity for Secs {
    const WHAT: &'static str = "a time such as \"5ms\", or a number of seconds";
    fn text(s: &str) -> Result<Secs, String> {
        s.parse().map(Secs).map_err(|e| format!("{e}"))
    }
    fn number(n: f64) -> Result<Secs, String> {
        Ok(Secs(Span((n * 1e9).round() as u64)))
    }
}

impl Quantity for Bps {
    const WHAT: &'static str = "a rate such as \"24Mb/s\", or a number of bits per second";
    fn text(s: &str) -> Result<Bps, String> {
        s.parse().map(Bps).map_err(|e| format!("{e}"))
    }
    fn number(n: f64) -> Result<Bps, String> {
        Ok(Bps(Rate(n.round() as u64)))
    }
}

impl Quantity for Octets {
    const WHAT: &'static str = "a length such as \"2M\", or a number of bytes";
    fn text(s: &str) -> Result<Octets, String> {
        parse_octets(s).map(Octets).map_err(|e| format!("{e}"))
    }
    fn number(n: f64) -> Result<Octets, String> {
        let whole = whole_octets(n).map(Octets);
        whole.ok_or_else(|| format!("{n} is {TOO_MANY}"))
    }
}

struct Reader<Q>(core::marker::PhantomData<Q>);

impl<Q: Quantity> Visitor<'_> for Reader<Q> {
    type Value = Q;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Q::WHAT)
    }

    fn visit_str<E: de::Error>(self, s: &str) -> Result<Q, E> {
        Q::text(s).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, n: u64) -> Result<Q, E> {
        Q::number(n as f64).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, n: i64) -> Result<Q, E> {
        self.visit_f64(n as f64)
    }

    fn visit_f64<E: de::Error>(self, n: f64) -> Result<Q, E> {
        if n.is_finite() && n >= 0.0 {
            Q::number(n).map_err(E::custom)
        } else {
            Err(E::custom(format_args!("{n} is not {}", Q::WHAT)))
        }
    }
}

macro_rules! serde_quantity {
    ($name:ident, $self:ident, $text:expr) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<$name, D::Error> {
                d.deserialize_any(Reader::<$name>(core::marker::PhantomData))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&$self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(&$text)
            }
        }
    };
}

serde_quantity!(Secs, self, self.0.to_string());
serde_quantity!(Bps, self, format!("{} b/s", self.0.0));
serde_quantity!(Octets, self, self.0.to_string());
