//! Which handlers run at a node: as TOML, or in the lines of the WiFu paper.
//!
//! ```toml
//! [[handler]]
//! use = "drop"
//! protocol = 17
//! hooks = ["forward"]
//! p = 0.1
//! ```
//!
//! The paper's form has one line per handler, `handler NAME PROTOCOL [KEY=VALUE]...`, with `*` for
//! every protocol; `#` begins a comment.

use crate::chain::{Chain, Full};
use crate::handler::Descriptor;
use crate::handlers::{HANDLERS, find};
use crate::hook::{Hook, Hooks};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wifu_engine::composition::text_of;
use wifu_engine::params::{Params, Value, values};
use wifu_wire::Rng;
use wifu_wire::names::unknown;

/// What is wrong with a configuration, and what would be right.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// One handler of a configuration.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HandlerConfig {
    /// Which.
    #[serde(rename = "use")]
    pub name: String,
    /// For packets of this IP protocol only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// At these hooks only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<Vec<String>>,
    /// Holds at most so many packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_held: Option<u32>,
    /// Beyond that, `open` (they go on) or `closed` (they are dropped).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_full: Option<String>,
    /// Parameters of the handler.
    #[serde(flatten)]
    pub params: BTreeMap<String, toml::Value>,
}

/// The handlers of a node, in order.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
pub struct Config {
    /// Them.
    #[serde(default, rename = "handler")]
    pub handlers: Vec<HandlerConfig>,
}

fn wrong<T>(text: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError(text.into()))
}

impl Config {
    /// From TOML.
    ///
    /// # Errors
    /// What TOML says. Names and values are checked by [`Config::chain`].
    pub fn from_toml(text: &str) -> Result<Config, ConfigError> {
        toml::from_str(text).map_err(|e| ConfigError(e.to_string().trim_end().to_owned()))
    }

    /// One handler from a line of the paper's form; `Ok(None)` for other lines.
    ///
    /// # Errors
    /// If the line begins with `handler` and goes on wrongly.
    pub fn line(line: &str) -> Result<Option<HandlerConfig>, ConfigError> {
        let mut words = line.split('#').next().unwrap_or("").split_whitespace();
        if words.next() != Some("handler") {
            return Ok(None);
        }
        let (Some(name), Some(protocol)) = (words.next(), words.next()) else {
            return wrong(format!(
                "\"{line}\": a line is `handler NAME PROTOCOL [KEY=VALUE]...`"
            ));
        };
        let protocol = match protocol {
            "*" => None,
            n => match n.parse() {
                Ok(n) => Some(n),
                Err(_) => return wrong(format!("\"{n}\" is no IP protocol (0 to 255, or *)")),
            },
        };
        let mut params = BTreeMap::new();
        for word in words {
            let Some((key, value)) = word.split_once('=') else {
                return wrong(format!("\"{word}\": write KEY=VALUE"));
            };
            params.insert(key.to_owned(), toml::Value::String(value.to_owned()));
        }
        Ok(Some(HandlerConfig {
            name: name.to_owned(),
            protocol,
            hooks: None,
            most_held: None,
            when_full: None,
            params,
        }))
    }

    /// Make the handlers. Each gets a stream of its own, split from `rng`.
    ///
    /// # Errors
    /// Unknown names with the nearest known one; parameters that are unknown or out of range;
    /// hooks at which a handler does nothing.
    pub fn chain(&self, rng: &Rng) -> Result<Chain, ConfigError> {
        let mut chain = Chain::new();
        for (i, config) in self.handlers.iter().enumerate() {
            let own = rng.split(&config.name).split_n(i as u64);
            config
                .push(&mut chain, own)
                .map_err(|e| ConfigError(format!("handler {} ({}): {e}", i + 1, config.name)))?;
        }
        Ok(chain)
    }
}

impl HandlerConfig {
    /// Where it is asked: its hooks, and the protocol (`None`: all).
    ///
    /// # Errors
    /// Unknown names, hooks at which it does nothing.
    pub fn place(&self) -> Result<(Hooks, Option<u8>), ConfigError> {
        let descriptor = self.descriptor()?;
        let protocol = self.protocol.or(descriptor.protocol);
        Ok((self.hooks(descriptor)?, protocol))
    }

    /// Its descriptor.
    ///
    /// # Errors
    /// Unknown names, with the nearest known one.
    pub fn descriptor(&self) -> Result<&'static Descriptor, ConfigError> {
        find(&self.name).ok_or_else(|| {
            let names = HANDLERS.iter().map(|d| d.name);
            ConfigError(unknown("handler", &self.name, names))
        })
    }

    fn push(&self, chain: &mut Chain, rng: Rng) -> Result<(), ConfigError> {
        let descriptor = self.descriptor()?;
        let values = self.values(descriptor)?;
        let params = Params {
            part: descriptor.name,
            values: &values,
            words: &[],
            exts: &[],
        };
        let handler = (descriptor.build)(&params).map_err(ConfigError)?;
        let full = match self.when_full.as_deref() {
            None | Some("open") => Full::Open,
            Some("closed") => Full::Closed,
            Some(other) => return wrong(format!("when_full = \"{other}\": write open or closed")),
        };
        chain.push(
            descriptor.name,
            handler,
            self.hooks(descriptor)?,
            self.protocol.or(descriptor.protocol),
            self.most_held.unwrap_or(descriptor.holds),
            full,
            rng,
        );
        Ok(())
    }

    fn hooks(&self, descriptor: &Descriptor) -> Result<Hooks, ConfigError> {
        let Some(names) = &self.hooks else {
            return Ok(descriptor.hooks);
        };
        let mut hooks = Vec::new();
        for name in names {
            let hook: Hook = name.parse().map_err(ConfigError)?;
            if !descriptor.hooks.has(hook) {
                return wrong(format!(
                    "{} does nothing at {name}; it works at {}",
                    descriptor.name, descriptor.hooks
                ));
            }
            hooks.push(hook);
        }
        Ok(Hooks::of(&hooks))
    }

    fn values(&self, descriptor: &Descriptor) -> Result<Vec<(&'static str, Value)>, ConfigError> {
        let mut texts = Vec::new();
        for (key, value) in &self.params {
            match text_of(value) {
                Some(text) => texts.push((key.as_str(), text)),
                None => return wrong(format!("{key}: write a text, a number or a boolean")),
            }
        }
        let texts = texts.iter().map(|(key, text)| (*key, text.as_str()));
        values(descriptor.params, texts).map_err(|wrong| ConfigError(wrong.join("; ")))
    }
}
