//! Parts, a handler, a wire format, a lane and compositions outside WiFu's own crates.
#![forbid(unsafe_code)]

pub mod hop_ends;
pub mod hop_lane;
pub mod opener;
pub mod paced;
pub mod record_wire;
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
pub static PARTS: &[&wifu_engine::Descriptor] = &[
    &paced::PACED,
    &opener::PLAIN_OPENER,
    &hop_lane::HOP_QUEUE,
    &hop_lane::HOP_CREDIT,
    &hop_ends::RECORD_SOURCE,
    &hop_ends::RECORD_SINK,
];

/// The handlers of this crate.
pub static HANDLERS: &[&wifu_core::Descriptor] = &[&weak_signal::WEAK_SIGNAL];

/// The wire formats of this crate.
pub static WIRES: &[&wifu_wire::WireSpec] = &[&record_wire::WIRE];

/// The hop protocol, whose lane comes with it.
pub const HOP: &str = include_str!("hop.toml");

/// The compositions of this crate.
///
/// # Panics
/// Never in a build that passed its tests: the text is part of the program.
pub fn library() -> Library {
    let all = [paced::PROTOCOL, HOP].map(|text| Library::parse(text).expect("it parses"));
    all.into_iter().fold(Library::default(), Library::merge)
}
