//! A part, a handler, a wire format and compositions outside WiFu's own crates.
#![forbid(unsafe_code)]

pub mod paced;
pub mod short_wire;
pub mod weak_signal;

use wifu_engine::Library;
use wifu_node::Registry;

wifu_node::export!(register);

/// What there is, with what this crate adds to it.
pub fn register(registry: Registry) -> Registry {
    registry
        .with_parts(PARTS)
        .with_handlers(HANDLERS)
        .with_wires(WIRES)
        .with_library(library())
}

/// The parts of this crate.
pub static PARTS: &[&wifu_engine::Descriptor] = &[&paced::PACED];

/// The handlers of this crate.
pub static HANDLERS: &[&wifu_core::Descriptor] = &[&weak_signal::WEAK_SIGNAL];

/// The wire formats of this crate.
pub static WIRES: &[&wifu_wire::WireSpec] = &[&short_wire::WIRE];

/// HxH with the header of this crate, and without its gate.
pub const SHORT: &str = include_str!("short.toml");

/// The compositions of this crate.
///
/// # Panics
/// Never in a build that passed its tests: the text is part of the program.
pub fn library() -> Library {
    let all = [paced::PROTOCOL, SHORT].map(|text| Library::parse(text).expect("it parses"));
    all.into_iter().fold(Library::default(), Library::merge)
}
