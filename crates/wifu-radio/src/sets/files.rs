//! The files of the testbed sets, as text and as tables. Topologies are built on these, so nothing
//! here knows what one is.

use toml::Table;
use wifu_wire::names;

use crate::topology::{TopologyError, parse};

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
    let unknown = || TopologyError::Set(names::unknown("testbed set", name, names()));
    let text = text(name).ok_or_else(unknown)?;
    parse(text)
}
