//! The testbed sets: topology files that come with the program, by name.
//!
//! Each file states its source and the observable that its numbers were chosen by.

pub(crate) mod files;
pub(crate) mod worlds;

pub use files::{names, text};
pub use worlds::worlds;

use toml::Table;

use crate::topology::{Topology, TopologyError};

/// A set as a topology, by `NAME` or `NAME,world=WORLD`.
///
/// # Errors
/// Unless there is a set of this name with such a world.
pub fn get(name: &str) -> Result<Topology, TopologyError> {
    Topology::build(None, Some(name), &Table::new(), &Table::new())
}
