//! The congestion windows.

pub mod cubic;
pub mod newreno;
pub mod reno;
pub mod tahoe;
pub mod westwood;
