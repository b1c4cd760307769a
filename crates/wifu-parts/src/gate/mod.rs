//! What restricts sending.

pub mod nagle;
pub mod peer_window;
