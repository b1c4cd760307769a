//! What turns loss into congestion, or does not.

pub mod loss_is_congestion;
