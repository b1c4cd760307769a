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
//! every protocol; `#` begins a comment. A protocol is a number or the name of a composition.

use crate::chain::{Chain, Full, Seat};
use crate::error::ConfigError;
use crate::handler::{Descriptor, Setup, Verbs};
use crate::hook::{Hook, Hooks};
use crate::ip;
use crate::kinds::{Ground, Kinds, Own};
use crate::select::{HopWord, Select};
use crate::whose::{Header, Whose};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wifu_engine::Fact;
use wifu_engine::composition::text_of;
use wifu_engine::params::{Params, Value, values};
use wifu_wire::names;
use wifu_wire::{Format, Rng, Word};

/// One handler of a configuration.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HandlerConfig {
    /// Name of the handler, as `wifu list handlers` has it.
    #[serde(rename = "use")]
    pub name: String,
    /// For packets of this IP protocol or composition only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Whose>,
    /// At these hooks only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<Vec<String>>,
    /// Holds at most so many packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_held: Option<u32>,
    /// Beyond that, `open` (they go on) or `closed` (they are dropped).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_full: Option<String>,
    /// In the chain of a composition: only while this switch, a parameter of its parts, is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<String>,
    /// Parameters of the handler.
    #[serde(flatten)]
    pub params: BTreeMap<String, toml::Value>,
}

/// The handlers of a node, in order.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
pub struct Config {
    /// The tables `[[handler]]`, in the order in which packets meet them.
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
            whose => match whose.parse() {
                Ok(whose) => Some(whose),
                Err(e) => return wrong(format!("{e}, or *")),
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
            with: None,
            params,
        }))
    }

    /// Make the handlers. Each gets a stream of its own, split from `rng`.
    ///
    /// # Errors
    /// Unknown names with the nearest known one; parameters that are unknown or out of range;
    /// hooks at which a handler does nothing; a handler that cannot act on the ground.
    pub fn chain(&self, rng: &Rng, ground: Ground<'_>) -> Result<Chain, ConfigError> {
        let mut chain = Chain::new();
        self.append(&mut chain, rng, ground, None)?;
        Ok(chain)
    }

    /// Append the handlers to a chain; with `own`, they are asked about a composition's packets
    /// only, and their words are those of its format.
    ///
    /// # Errors
    /// As [`Config::chain`]; and a word that the format has not.
    pub fn append(
        &self,
        chain: &mut Chain,
        rng: &Rng,
        ground: Ground<'_>,
        own: Option<Own<'_>>,
    ) -> Result<(), ConfigError> {
        for (i, config) in self.handlers.iter().enumerate() {
            let stream = rng.split(&config.name).split_n(i as u64);
            let pushed = config.push(chain, stream, ground, own);
            pushed.map_err(|e| config.at(i, own.is_some(), e))?;
        }
        Ok(())
    }

    /// What the handlers of a composition cannot do without and only a substrate knows, each with
    /// its handler's name.
    ///
    /// # Errors
    /// Unknown names, values out of range.
    pub fn requires(&self, kinds: &Kinds) -> Result<Vec<(String, Fact)>, ConfigError> {
        let mut all = Vec::new();
        for (i, config) in self.handlers.iter().enumerate() {
            let facts = config.requires(kinds);
            let facts = facts.map_err(|e| config.at(i, true, e))?;
            all.extend(facts.into_iter().map(|fact| (config.name.clone(), fact)));
        }
        Ok(all)
    }
}

/// Places of the words that a handler declares: in the shim that it inserts, else in `wire` or in
/// the format for which it is meant.
fn words(
    d: &Descriptor,
    own: Option<Own<'_>>,
) -> Result<Vec<(&'static str, HopWord)>, ConfigError> {
    let mut found = Vec::new();
    for w in d.words {
        let below = d.inserts.and_then(|f| f.place(w.name));
        let above = || match own {
            Some(own) => own.wire.place(w.name),
            None => d.format.and_then(|f| f.place(w.name)),
        };
        match (below, below.or_else(above)) {
            (_, Some(place)) => {
                let below = below.is_some();
                found.push((w.name, HopWord { place, below }));
            }
            _ if w.optional => {}
            _ => {
                let format = own.map(|own| own.wire.format()).or(d.format);
                let whose = format.map_or("its packets", |f| f.name);
                let known = format.into_iter().flat_map(Format::own).map(|w| w.name);
                let near = names::hint(w.name, known);
                return wrong(format!(
                    "it uses the header word \"{}\", which {whose} does not have{near}",
                    w.name
                ));
            }
        }
    }
    Ok(found)
}

/// Of the words that a handler writes, those in a header that ends made are such that nodes on the
/// way may write: no end takes a packet whose checksum does not fit.
fn writable(d: &Descriptor, own: Option<Own<'_>>) -> Result<(), ConfigError> {
    let Some(format) = own.map(|own| own.wire.format()).or(d.format) else {
        return Ok(());
    };
    let below = |name| d.inserts.is_some_and(|f| f.word(name).is_some());
    let by_hops = |name| format.own().any(|w| w.name == name && w.hop_writable());
    let known = |name| format.word(name).is_some();
    let mut written = d.words.iter().filter(|w| w.access.writes());
    let ends = written.find(|w| known(w.name) && !below(w.name) && !by_hops(w.name));
    let Some(word) = ends else { return Ok(()) };
    let may: Vec<&str> = format
        .own()
        .filter(|w| w.hop_writable())
        .map(|w| w.name)
        .collect();
    let may = if may.is_empty() {
        String::from("they write none")
    } else {
        format!("they may write {}", may.join(", "))
    };
    wrong(format!(
        "it writes the header word \"{}\", which {} lets ends alone write, not nodes: {may}",
        word.name, format.name
    ))
}

/// What a handler reads by itself is the header that the composition's packets have.
fn legible(d: &Descriptor, own: Option<Own<'_>>) -> Result<(), ConfigError> {
    match (d.parses, own) {
        (Some(f), Some(own)) if own.wire.name() != f.name => wrong(format!(
            "it reads the header of {} by itself, and the packets of this composition have that of \
             {}: write wire = \"{}\", or leave the handler out",
            f.name,
            own.wire.name(),
            f.name
        )),
        _ => Ok(()),
    }
}

/// Whether a handler can do what it must.
fn able(d: &Descriptor, can: Verbs) -> Result<(), ConfigError> {
    let cannot = d.needs.beyond(can);
    if cannot.is_empty() {
        return Ok(());
    }
    wrong(format!(
        "it must {}, which handlers cannot here",
        cannot.join(" and ")
    ))
}

/// The facts that a handler with these parameters requires, each with the parameter that makes it
/// do so.
fn required(d: &Descriptor, values: &[(&'static str, Value)]) -> Vec<(Fact, Option<&'static str>)> {
    let on = |param: &'static str| values.contains(&(param, Value::Flag(true)));
    let always = d.requires.iter().map(|f| (*f, None));
    let set = d.requires_with.iter().filter(|(param, _)| on(param));
    always
        .chain(set.flat_map(|(param, facts)| facts.iter().map(|f| (*f, Some(*param)))))
        .collect()
}

/// Whether handlers are told all of it.
fn informed(required: &[(Fact, Option<&'static str>)], told: &[Fact]) -> Result<(), ConfigError> {
    for (fact, param) in required {
        let with = param.map_or(String::new(), |p| format!("with {p} = on "));
        if !fact.for_handlers() {
            return wrong(format!(
                "{with}it requires {fact}, which parts are told and handlers are not"
            ));
        }
        if !told.contains(fact) {
            return wrong(format!("{with}it requires {fact}, which is not known here"));
        }
    }
    Ok(())
}

/// What tells packets of a format apart, whatever composition they are of.
fn select(d: &Descriptor, protocol: Option<u8>) -> Select {
    d.format
        .map_or(Select::protocol(protocol.or(d.protocol)), |f| Select {
            protocol: f.number,
            ports: f.port.into_iter().collect(),
            identity: f
                .words
                .iter()
                .filter_map(|w| match w.field {
                    wifu_wire::format::Field::Is(value, _) => Some((f.place_of(w, Word(0)), value)),
                    _ => None,
                })
                .collect(),
            only: protocol,
        })
}

impl HandlerConfig {
    /// One handler, from a table as in `[[handler]]`.
    ///
    /// # Errors
    /// What is wrong with the table. Names and values are checked when the handler is made.
    pub fn from_table(table: &toml::Table) -> Result<HandlerConfig, ConfigError> {
        let config = toml::Value::Table(table.clone()).try_into();
        config.map_err(|e: toml::de::Error| ConfigError(e.to_string().trim_end().to_owned()))
    }

    /// Whether it can be made.
    ///
    /// # Errors
    /// As [`Config::chain`], of this one.
    pub fn check(&self, rng: &Rng, ground: Ground<'_>) -> Result<(), ConfigError> {
        self.push(&mut Chain::new(), *rng, ground, None)
    }

    /// What it cannot do without and only a substrate knows, its parameters considered.
    ///
    /// # Errors
    /// Unknown names, values out of range.
    pub fn requires(&self, kinds: &Kinds) -> Result<Vec<Fact>, ConfigError> {
        let descriptor = kinds.find(&self.name)?;
        let required = required(descriptor, &self.values(descriptor)?);
        Ok(required.into_iter().map(|(fact, _)| fact).collect())
    }

    /// Where it is asked: its hooks, and the IP protocols (`None`: all).
    ///
    /// # Errors
    /// Unknown names, hooks at which it does nothing.
    pub fn place(&self, kinds: &Kinds) -> Result<(Hooks, Option<Vec<u8>>), ConfigError> {
        let descriptor = kinds.find(&self.name)?;
        let protocols = match (&self.protocol, kinds.headers.of(self.protocol.as_ref())?) {
            (_, Some(header)) => {
                let by_port = (!header.select().ports.is_empty()).then_some(ip::UDP);
                Some([header.number].into_iter().chain(by_port).collect())
            }
            (Some(Whose::Number(n)), _) => Some(vec![*n]),
            _ => descriptor.protocol.map(|n| vec![n]),
        };
        Ok((self.hooks(descriptor)?, protocols))
    }

    /// The packets about which it is asked, hooks aside.
    ///
    /// # Errors
    /// Unknown names, values out of range.
    pub fn selects(&self, kinds: &Kinds) -> Result<Select, ConfigError> {
        let descriptor = kinds.find(&self.name)?;
        self.select(descriptor, None, kinds, &self.values(descriptor)?)
    }

    fn push(
        &self,
        chain: &mut Chain,
        rng: Rng,
        ground: Ground<'_>,
        own: Option<Own<'_>>,
    ) -> Result<(), ConfigError> {
        let descriptor = ground.kinds.find(&self.name)?;
        if let (None, Some(switch)) = (own, &self.with) {
            return wrong(format!(
                "with = \"{switch}\": that is for the chain of a composition, whose parameter it \
                 names; leave the key out"
            ));
        }
        let values = self.values(descriptor)?;
        able(descriptor, ground.can)?;
        let most = self.most(descriptor)?;
        informed(&required(descriptor, &values), ground.told)?;
        let notes = ground.kinds.parts.numbers(descriptor.notes);
        let notes = notes.map_err(ConfigError)?;
        let named = ground.kinds.headers.of(self.protocol.as_ref());
        let meant = match own {
            Some(own) => Some(own),
            None => named?.map(Header::own),
        };
        let words = words(descriptor, meant)?;
        writable(descriptor, meant)?;
        legible(descriptor, meant)?;
        let setup = Setup {
            params: Params {
                part: descriptor.name,
                values: &values,
                words: &[],
                notes: &notes,
                exts: &[],
            },
            words: &words,
        };
        let handler = (descriptor.build)(&setup).map_err(ConfigError)?;
        let hooks = self.seat_hooks(descriptor, own.is_some())?;
        let seat = Seat {
            select: self.select(descriptor, own, ground.kinds, &values)?,
            most,
            full: self.full()?,
            counts: descriptor.counts,
            ..Seat::new(descriptor.name, hooks, rng)
        };
        chain.push(seat, handler);
        Ok(())
    }

    /// The packets about which it is asked.
    fn select(
        &self,
        descriptor: &Descriptor,
        own: Option<Own<'_>>,
        kinds: &Kinds,
        values: &[(&'static str, Value)],
    ) -> Result<Select, ConfigError> {
        let mut select = match (own, &self.protocol) {
            (Some(own), None) => own.select(),
            (Some(own), Some(protocol)) => {
                return wrong(format!(
                    "protocol = {protocol}: a handler that a composition brings is asked about \
                     that one's packets only (protocol {}); leave the key out",
                    own.number
                ));
            }
            (None, Some(Whose::Number(n))) => select(descriptor, Some(*n)),
            (None, whose) => match kinds.headers.of(whose.as_ref())? {
                Some(header) => header.select(),
                None => select(descriptor, None),
            },
        };
        self.port_counts(descriptor, &select)?;
        let set = |v: &&(&str, Value)| {
            descriptor.port_param == Some(v.0) && self.params.contains_key(v.0)
        };
        if let Some((_, Value::Int(port))) = values.iter().find(set) {
            select.ports = u16::try_from(*port).into_iter().collect();
        }
        Ok(select)
    }

    /// A port that was set is one by which packets are told.
    fn port_counts(&self, descriptor: &Descriptor, select: &Select) -> Result<(), ConfigError> {
        let set = descriptor
            .port_param
            .filter(|p| self.params.contains_key(*p));
        let Some((key, value)) = set.and_then(|p| Some((p, self.params.get(p)?))) else {
            return Ok(());
        };
        if select.ports.is_empty() {
            return wrong(format!(
                "{key} = {value}: the format of these packets has no service port in UDP, so the key \
                 would do nothing; leave it out"
            ));
        }
        match select.only.filter(|only| *only != ip::UDP) {
            Some(only) => wrong(format!(
                "{key} = {value}: with protocol = {only} no packet of UDP is meant, so the key would \
                 do nothing; leave one of them out, or write protocol = {}",
                ip::UDP
            )),
            None => Ok(()),
        }
    }

    /// An error of this one, which is the `i`-th of its kind: of a composition's chain, or of a
    /// configuration.
    fn at(&self, i: usize, brought: bool, e: ConfigError) -> ConfigError {
        let list = if brought { "chain" } else { "handler" };
        ConfigError(format!("{list}.{} ({}): {e}", i + 1, self.name))
    }

    fn most(&self, descriptor: &Descriptor) -> Result<u32, ConfigError> {
        match self.most_held {
            Some(0) => wrong("most_held = 0: then it holds nothing; write 1 or more"),
            None if descriptor.holds == 0 && !descriptor.needs.beyond(Verbs::SEND).is_empty() => {
                wrong(format!(
                    "{} must hold packets or keep copies, and its descriptor's `holds` is 0: say there how \
                 many, or here by most_held",
                    descriptor.name
                ))
            }
            most => Ok(most.unwrap_or(descriptor.holds)),
        }
    }

    fn full(&self) -> Result<Full, ConfigError> {
        match self.when_full.as_deref() {
            None | Some("open") => Ok(Full::Open),
            Some("closed") => Ok(Full::Closed),
            Some(other) => wrong(format!("when_full = \"{other}\": write open or closed")),
        }
    }

    /// Its hooks; a composition's own shim must go in and come out.
    fn seat_hooks(&self, descriptor: &Descriptor, brought: bool) -> Result<Hooks, ConfigError> {
        let hooks = self.hooks(descriptor)?;
        let both = hooks.has(Hook::Output) && hooks.has(Hook::Input);
        if brought && descriptor.inserts.is_some() && !both {
            return wrong(format!(
                "it puts a header in at output and takes it out at input: hooks = [{hooks}] must \
                 have both"
            ));
        }
        Ok(hooks)
    }

    fn hooks(&self, descriptor: &Descriptor) -> Result<Hooks, ConfigError> {
        let Some(names) = &self.hooks else {
            return Ok(descriptor.hooks);
        };
        if names.is_empty() {
            return wrong(format!(
                "hooks = []: then it is never asked; name some of {}, or leave the key out",
                descriptor.hooks
            ));
        }
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
