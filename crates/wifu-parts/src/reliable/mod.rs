//! Reliability: what was lost, what goes again.

pub mod cumulative;
pub mod selective;
