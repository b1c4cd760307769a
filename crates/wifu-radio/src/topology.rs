//! Topology files: radios, channel, propagation, nodes, links and wires as TOML, and how they
//! become a [`Plan`].
//!
//! A topology is made in layers of TOML tables, each laid over the one below: a testbed set, what
//! the words of `linear,7` change in it, the content of a file, overrides of the radio. Tables
//! merge key by key, everything else replaces. Only the result is read as a [`Topology`], so every
//! layer may set every key.

mod chain;
mod effect;
mod geometry;
mod place;
mod quantity;
mod radio;
mod resolve;
mod spec;

pub(crate) use chain::mean_hop;
pub(crate) use effect::overlay;
pub use geometry::{Emission, Geometry};
pub(crate) use geometry::{distance_of, reach};
pub use quantity::{BitRate, Limit, Seconds};
pub use spec::*;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};
use wifu_wire::Rng;
use wifu_wire::names::{nearest, unknown as unknown_name};

use crate::plan::Plan;
use crate::{sets, words};

/// Why a topology cannot be used. The message is complete without the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// It is no TOML.
    #[error("{0}")]
    Syntax(String),
    /// A key is wrong.
    #[error("{path}: {what}")]
    Key {
        /// Where, as `table.key` or `array[index].key`.
        path: String,
        /// What is wrong with it, with the nearest valid name if it is a name.
        what: String,
    },
    /// The words that describe a topology are wrong.
    #[error("topology \"{words}\": {what}")]
    Words {
        /// All of them.
        words: String,
        /// What is wrong.
        what: String,
    },
    /// No testbed set has this name.
    #[error("no testbed set is called \"{name}\"{what}")]
    Set {
        /// The name.
        name: String,
        /// The nearest one and all others.
        what: String,
    },
    /// No random placement satisfies what `accept` asks for.
    #[error("{0}")]
    Placement(String),
    /// An error in a file.
    #[error("{origin}: {error}")]
    In {
        /// The file.
        origin: String,
        /// What is wrong in it.
        error: Box<TopologyError>,
    },
}

impl TopologyError {
    pub(crate) fn key(path: impl Into<String>, what: impl Into<String>) -> TopologyError {
        TopologyError::Key {
            path: path.into(),
            what: what.into(),
        }
    }

    pub(crate) fn words(words: &str, what: impl Into<String>) -> TopologyError {
        TopologyError::Words {
            words: words.into(),
            what: what.into(),
        }
    }
}

/// Everything that a topology file can say. What it leaves out has the defaults that the types of
/// the tables state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Topology {
    /// A name for reports.
    pub name: Option<String>,
    /// Where the numbers come from.
    pub source: Option<String>,
    /// The observable against which they were calibrated.
    pub observable: Option<String>,
    /// What all radios share.
    pub channel: ChannelSpec,
    /// Radio, MAC and driver of every node.
    pub radio: RadioSpec,
    /// How geometry becomes received power.
    pub propagation: PropagationSpec,
    /// Variation over time.
    pub fading: FadingSpec,
    /// Nodes that are generated.
    pub placement: Option<PlacementSpec>,
    /// SNRs of a chain's hops.
    pub chain: Option<ChainSpec>,
    /// SNRs of all pairs.
    pub matrix: Option<MatrixSpec>,
    /// Single pairs; they override every other source.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub link: Vec<LinkSpec>,
    /// Nodes that are named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub node: Vec<NodeSpec>,
    /// Wires.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wire: Vec<WireSpec>,
    /// What had to be assumed so far, for the user to read.
    #[serde(skip)]
    pub notes: Vec<String>,
    /// The file that it was read from, for messages.
    #[serde(skip)]
    pub origin: Option<String>,
}

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
        let own_words = text(&mut inline, "words")?;
        let own_set = text(&mut inline, "set")?;
        let words = words.map(str::to_string).or(own_words);
        let set = set.map(str::to_string).or(own_set);
        let mut notes = Vec::new();
        let mut table = match (&words, &set) {
            (Some(words), _) => words::table(words, set.as_deref(), &mut notes)?,
            (None, Some(set)) => sets::table(set)?,
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

    /// Lay overrides of any key of `[radio]` over the topology.
    ///
    /// # Errors
    /// Unless all keys are known and their values of the right kind.
    pub fn apply_radio(&mut self, overrides: &Table) -> Result<(), TopologyError> {
        let wrap = |table| Table::from_iter([("radio".to_string(), Value::Table(table))]);
        let mut whole = wrap(Table::try_from(&self.radio).unwrap_or_default());
        overlay(&mut whole, &wrap(overrides.clone()));
        self.radio = read(whole)?.radio;
        Ok(())
    }

    /// The topology as a file; reading it again gives the same topology.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_default()
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

/// A document as a table.
pub(crate) fn parse(text: &str) -> Result<Table, TopologyError> {
    text.parse::<Table>()
        .map_err(|e| TopologyError::Syntax(e.to_string().trim_end().to_string()))
}

/// Lay `over` over `under`.
pub(crate) fn merge(under: &mut Table, over: &Table) {
    for (key, value) in over {
        match (under.get_mut(key), value) {
            (Some(Value::Table(a)), Value::Table(b)) => merge(a, b),
            _ => {
                under.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Take a word out of a table.
fn text(table: &mut Table, key: &str) -> Result<Option<String>, TopologyError> {
    match table.remove(key) {
        None => Ok(None),
        Some(Value::String(s)) => Ok(Some(s)),
        Some(_) => Err(TopologyError::key(key, "must be text")),
    }
}

/// Read a table as a topology; errors carry the key's path.
pub(crate) fn read(table: Table) -> Result<Topology, TopologyError> {
    serde_path_to_error::deserialize(Value::Table(table)).map_err(|e| {
        let path = e.path().to_string();
        let what = e.inner().message();
        TopologyError::key(path, suggest(what).unwrap_or_else(|| what.to_string()))
    })
}

/// Serde's complaint about an unknown name, with the nearest one in front of the list.
fn suggest(complaint: &str) -> Option<String> {
    let mut quoted = complaint.split('`').skip(1).step_by(2);
    let unknown = quoted.next()?;
    let known: Vec<&str> = quoted.collect();
    if !complaint.starts_with("unknown") || known.is_empty() {
        return None;
    }
    let kind = match complaint.starts_with("unknown field") {
        true => "key",
        false => "name",
    };
    Some(unknown_name(kind, unknown, known.iter().copied()))
}

/// `, did you mean x`, if there is a name near enough.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map_or(String::new(), |best| format!(", did you mean `{best}`"))
}
