//! Receivers.

pub mod reassemble;
