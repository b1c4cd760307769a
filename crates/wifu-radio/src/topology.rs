//! Topology files: radios, channel, propagation, nodes, links and wires as TOML, and how they
//! become a [`Plan`].
//!
//! A topology is made in layers of TOML tables, each laid over the one below: a testbed set, what
//! the words of `linear,7` change in it, the content of a file, overrides of the radio. Tables
//! merge key by key, everything else replaces. Only the result is read as a [`Topology`], so every
//! layer may set every key.

mod chain;
mod effect;
mod error;
mod interferer;
mod law;
mod place;
mod quantity;
mod radio;
mod reach;
mod resolve;
mod spec;
mod table;
mod values;

pub use crate::geometry::{Emission, Geometry};
pub(crate) use chain::mean_hop;
pub(crate) use effect::overlay;
pub use error::TopologyError;
pub use quantity::{BitRate, Limit, Seconds};
pub(crate) use reach::{distance_of, reach};
pub(crate) use spec::read;
pub use spec::{
    AcceptSpec, AnchorSpec, ChainSpec, ChannelSpec, DriverSpec, ErrorModelSpec, FadingSpec, Hop,
    HostTable, InterfererSpec, LinkSpec, MatrixSpec, NodeSpec, PlacementKind, PlacementSpec,
    PreambleSpec, PropagationModel, PropagationSpec, RadioSpec, RateControlSpec, StandardSpec,
    Topology, WireSpec,
};
pub(crate) use table::{merge, parse};
pub use values::MOST_SNR_DB;

use std::collections::BTreeMap;

use toml::{Table, Value};
use wifu_wire::Rng;

use crate::plan::{Plan, transport};
use crate::sets::worlds;
use crate::words;

impl Topology {
    /// Read a topology file. Beside the tables it may name a `set` to build on and `words`.
    ///
    /// # Errors
    /// Unless it is TOML with known keys and values of the right kind; `origin` (the file's name)
    /// is in the message.
    pub fn from_toml(text: &str, origin: &str) -> Result<Topology, TopologyError> {
        let within = |error| TopologyError::In {
            origin: origin.into(),
            error: Box::new(error),
        };
        let table = parse(text).map_err(within)?;
        let none = Table::new();
        let mut topology = Topology::build(None, None, &table, &none).map_err(within)?;
        topology.origin = Some(origin.into());
        Ok(topology)
    }

    /// From words such as `linear,7` over a testbed set; without one over the set `PLAIN`.
    ///
    /// # Errors
    /// Unless words and set are known.
    pub fn from_words(words: &str, set: Option<&str>) -> Result<Topology, TopologyError> {
        Topology::build(Some(words), set, &Table::new(), &Table::new())
    }

    /// From all layers: words, set, the content of a topology file, and overrides of any key of
    /// `[radio]`.
    ///
    /// # Errors
    /// Unless all names are known and all values of the right kind.
    pub fn build(
        words: Option<&str>,
        set: Option<&str>,
        inline: &Table,
        radio: &Table,
    ) -> Result<Topology, TopologyError> {
        let mut inline = inline.clone();
        let own_words = table::text(&mut inline, "words")?;
        let own_set = table::text(&mut inline, "set")?;
        if set.is_some() || own_set.is_some() {
            stamped(&inline)?;
        }
        let words = words.map(str::to_string).or(own_words);
        let set = set.map(str::to_string).or(own_set);
        let mut notes = Vec::new();
        let mut table = match (&words, &set) {
            (Some(words), _) => words::table(words, set.as_deref(), &mut notes)?,
            (None, Some(set)) => worlds::table(set)?,
            (None, None) => Table::new(),
        };
        overlay(&mut table, &inline);
        if !radio.is_empty() {
            let layer = Table::from_iter([("radio".to_string(), Value::Table(radio.clone()))]);
            overlay(&mut table, &layer);
        }
        let mut topology = read(table)?;
        topology.notes = notes;
        Ok(topology)
    }

    /// See [`Plan::transport`].
    pub fn transport(&self, words: &str) -> String {
        transport(&self.transport, words)
    }

    /// What the testbed says of protocols, as a sentence.
    fn transport_note(&self) -> Option<String> {
        let said = |(name, values): (&String, &BTreeMap<String, String>)| {
            let values = values.iter().map(|(key, value)| format!("{key}={value}"));
            format!("{name} has {}", values.collect::<Vec<_>>().join(","))
        };
        let all: Vec<String> = self.transport.iter().map(said).collect();
        let world = self.world.as_deref().map(|w| format!(" (world {w})"));
        let here = format!("here{}", world.unwrap_or_default());
        (!all.is_empty()).then(|| format!("{here} {}", all.join("; ")))
    }

    /// The topology as a file; reading it again gives the same topology.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }
}

/// A file over a set leaves the world to the set's name; alone it may keep the stamp that
/// [`Topology::to_toml`] wrote.
fn stamped(inline: &Table) -> Result<(), TopologyError> {
    match inline.contains_key("world") {
        true => {
            let what = "is chosen with the set, as in set = \"TB-A,world=literal\"";
            Err(TopologyError::key("world", what))
        }
        false => Ok(()),
    }
}

/// Resolve every number of a topology. Random ones come from the streams `placement`, `shadowing`
/// and `fading` below `rng`, so that the same placement and the same variation of the links meet
/// every protocol that is compared.
///
/// # Errors
/// A [`TopologyError::Key`] for a value out of its range or a name that no node has;
/// [`TopologyError::Placement`] if no placement is acceptable.
pub fn resolve(topology: &Topology, rng: &Rng) -> Result<Plan, TopologyError> {
    resolve::resolve(topology, rng).map_err(|error| match &topology.origin {
        None => error,
        Some(origin) => TopologyError::In {
            origin: origin.clone(),
            error: Box::new(error),
        },
    })
}
