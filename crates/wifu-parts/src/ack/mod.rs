//! When to acknowledge.

pub mod dynamic;
pub mod every;
