//! A part, a handler and a composition outside WiFu's own crates.
#![forbid(unsafe_code)]

pub mod paced;
pub mod weak_signal;

use wifu_engine::Library;

/// The parts of this crate.
pub static PARTS: &[&wifu_engine::Descriptor] = &[&paced::PACED];

/// The handlers of this crate.
pub static HANDLERS: &[&wifu_core::Descriptor] = &[&weak_signal::WEAK_SIGNAL];

/// The compositions of this crate.
///
/// # Panics
/// Never in a build that passed its tests: the text is part of the program.
pub fn library() -> Library {
    Library::parse(paced::PROTOCOL).expect("the composition parses")
}
