//! The testbed sets: topology files that come with the program, by name.
//!
//! Each file states its source and the observable that its numbers were chosen by.

use toml::Table;

use crate::topology::{self, Topology, TopologyError, did_you_mean};

macro_rules! sets {
    ($($name:literal),* $(,)?) => {
        /// Name and content of each set.
        const SETS: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../sets/", $name, ".toml")))),*
        ];
    };
}

sets![
    "PLAIN",
    "TB-A",
    "TB-B",
    "TB-STACK",
    "TB-RND",
    "TB-W3",
    "TB-W9",
    "TAP-16",
    "TAP-29",
    "TAP-PAR",
    "TAP-RND",
    "HX-9",
    "HX-2",
    "HX-4",
    "HX-1",
    "NS2-CHAIN",
];

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    SETS.iter().map(|(name, _)| *name)
}

/// The file of a set, with its comments. Upper and lower case are the same.
pub fn text(name: &str) -> Option<&'static str> {
    let found = SETS.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
    found.map(|(_, text)| *text)
}

/// A set as a topology.
///
/// # Errors
/// Unless there is a set of this name.
pub fn get(name: &str) -> Result<Topology, TopologyError> {
    Topology::build(None, Some(name), &Table::new(), &Table::new())
}

/// A set as a table, to lay others over it.
pub(crate) fn table(name: &str) -> Result<Table, TopologyError> {
    let text = text(name).ok_or_else(|| TopologyError::Set {
        name: name.into(),
        what: format!(
            "{}; there are {}",
            did_you_mean(name, names()),
            names().collect::<Vec<_>>().join(", ")
        ),
    })?;
    topology::parse(text)
}
