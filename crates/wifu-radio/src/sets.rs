//! The testbed sets: topology files that come with the program, by name.
//!
//! Each file states its source and the observable that its numbers were chosen by.

pub(crate) mod files;

pub use files::{names, text};

use toml::Table;

use crate::topology::{Topology, TopologyError};

/// A set as a topology.
///
/// # Errors
/// Unless there is a set of this name.
pub fn get(name: &str) -> Result<Topology, TopologyError> {
    Topology::build(None, Some(name), &Table::new(), &Table::new())
}
