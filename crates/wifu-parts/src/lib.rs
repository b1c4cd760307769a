//! The parts of WiFu Transport's protocols, one file each, and the named compositions.
//!
//! No file here imports another part: what several parts share is in `wifu_engine::kit`.
#![forbid(unsafe_code)]

pub mod ack;
pub mod congestion;
pub mod gate;
pub mod judge;
mod list;
pub mod manager;
pub mod receive;
pub mod reliable;
pub mod rtt;
pub mod watch;

pub use list::{PARTS, registry};

use std::sync::Arc;
use wifu_engine::{Blueprint, ConfigError, Library};

/// The compositions and profiles that come with WiFu, as text.
pub const PROTOCOLS: &str = include_str!("protocols/tcp.toml");

/// The compositions and profiles that come with WiFu.
///
/// # Panics
/// Never in a build that passed its tests: the text is part of the program.
pub fn library() -> Library {
    Library::parse(PROTOCOLS).expect("the built-in compositions parse")
}

/// The checked blueprint of a specification such as `tcp-newreno,iw=4`.
///
/// # Errors
/// Unknown names and values out of range, with what would be right.
pub fn blueprint(spec: &str) -> Result<Arc<Blueprint>, ConfigError> {
    library().resolve(spec, &registry())
}
