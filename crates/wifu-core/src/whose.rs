//! Whose packets a handler is asked about: `protocol` of a configuration.

use crate::error::ConfigError;
use crate::kinds::Own;
use crate::select::Select;
use core::fmt;
use core::str::FromStr;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::sync::Arc;
use wifu_wire::Wire;

/// Whose packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Whose {
    /// Those of an IP protocol.
    Number(u8),
    /// Those of a composition, by its name; with parameters (`mine,gates.add=nagle`) where these
    /// change its header.
    Composition(String),
}

impl Whose {
    /// The composition's name without parameters, if it is one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Whose::Number(_) => None,
            Whose::Composition(text) => Some(name(text)),
        }
    }
}

/// The name in a composition's text.
pub(crate) fn name(text: &str) -> &str {
    text.split(',').next().unwrap_or_default().trim()
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whose::Number(n) => write!(f, "{n}"),
            Whose::Composition(text) => write!(f, "\"{text}\""),
        }
    }
}

/// What is right, for people.
const RIGHT: &str = "an IP protocol number (0 to 255) or the name of a composition";

impl FromStr for Whose {
    type Err = String;

    fn from_str(text: &str) -> Result<Whose, String> {
        let text = text.trim();
        if let Ok(n) = text.parse() {
            return Ok(Whose::Number(n));
        }
        match name(text).starts_with(|c: char| c.is_ascii_alphabetic()) {
            true => Ok(Whose::Composition(text.to_owned())),
            false => Err(format!("\"{text}\" is not {RIGHT}")),
        }
    }
}

impl Serialize for Whose {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Whose::Number(n) => to.serialize_u8(*n),
            Whose::Composition(text) => to.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Whose {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Whose, D::Error> {
        struct Reader;

        impl Visitor<'_> for Reader {
            type Value = Whose;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "protocol: {RIGHT}")
            }

            fn visit_u64<E: Error>(self, n: u64) -> Result<Whose, E> {
                let number = u8::try_from(n).map(Whose::Number);
                number.map_err(|_| E::custom(format!("protocol: {n} is not {RIGHT}")))
            }

            fn visit_i64<E: Error>(self, n: i64) -> Result<Whose, E> {
                let number = u8::try_from(n).map(Whose::Number);
                number.map_err(|_| E::custom(format!("protocol: {n} is not {RIGHT}")))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Whose, E> {
                let whose = text.parse();
                whose.map_err(|e| E::custom(format!("protocol: {e}")))
            }
        }
        from.deserialize_any(Reader)
    }
}

/// What tells the packets of a composition.
#[derive(Clone, Debug)]
pub struct Header {
    /// Its wire format.
    pub wire: Arc<dyn Wire>,
    /// Its IP protocol number, as its packets have it here.
    pub number: u8,
}

impl Header {
    /// Which packets are its own.
    pub fn select(&self) -> Select {
        Select::composition(&*self.wire, self.number)
    }

    /// The same, for handlers that belong to it.
    pub(crate) fn own(&self) -> Own<'_> {
        Own {
            wire: &*self.wire,
            number: self.number,
            ports: self.wire.format().port.as_slice(),
        }
    }
}

/// The compositions that handlers of a configuration name, by the text in which they do.
#[derive(Clone, Default, Debug)]
pub struct Headers(BTreeMap<String, Header>);

impl Headers {
    /// Know one more.
    pub fn add(&mut self, text: &str, header: Header) {
        self.0.insert(text.to_owned(), header);
    }

    /// Whose packets a handler wants that names a composition; `None` if it names none.
    ///
    /// # Errors
    /// It is one that nobody looked up.
    pub(crate) fn of(&self, whose: Option<&Whose>) -> Result<Option<&Header>, ConfigError> {
        let Some(Whose::Composition(text)) = whose else {
            return Ok(None);
        };
        let found = self.0.get(text).map(Some);
        found.ok_or_else(|| {
            ConfigError(format!(
                "protocol = \"{text}\": compositions are not known here; write a number"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Table {
        protocol: Whose,
    }

    #[test]
    fn a_number_or_a_name_and_nothing_else() {
        let read = |text: &str| {
            let table = toml::from_str::<Table>(&format!("protocol = {text}\n"));
            table.map(|t| t.protocol).map_err(|e| e.to_string())
        };
        assert_eq!(read("17"), Ok(Whose::Number(17)));
        assert_eq!(read("\"17\""), Ok(Whose::Number(17)));
        let named = Whose::Composition(String::from("tcp-newreno"));
        assert_eq!(read("\"tcp-newreno\""), Ok(named.clone()));
        assert_eq!(named.name(), Some("tcp-newreno"));
        let with: Whose = "mine,gates.add=nagle".parse().unwrap();
        assert_eq!(with.name(), Some("mine"));
        for wrong in ["256", "-1", "\"256\"", "\"\"", "true", "1.5"] {
            let said = read(wrong).unwrap_err();
            assert!(said.contains(RIGHT), "{wrong}: {said}");
        }
        for whose in [Whose::Number(6), with] {
            let table = Table {
                protocol: whose.clone(),
            };
            let text = toml::to_string(&table).unwrap();
            assert_eq!(toml::from_str::<Table>(&text).unwrap().protocol, whose);
        }
    }
}
