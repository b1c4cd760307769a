//! Managers: open, close and validate.

pub mod handshake;
