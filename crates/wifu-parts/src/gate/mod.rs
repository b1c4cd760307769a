//! What restricts sending.

pub mod peer_window;
