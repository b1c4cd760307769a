//! What turns loss into congestion, or does not.

pub mod backlog;
pub mod loss_is_congestion;
