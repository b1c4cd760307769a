//! When to acknowledge.

pub mod every;
