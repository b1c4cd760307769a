//! The files of the testbed sets, as text and as tables. Topologies are built on these, so nothing
//! here knows what one is.

use toml::Table;

use crate::topology::{TopologyError, did_you_mean, parse};

macro_rules! sets {
    ($($name:literal),* $(,)?) => {
        /// Name and content of each set.
        const SETS: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../sets/", $name, ".toml")))),*
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
    parse(text)
}
