//! The congestion windows.

pub mod newreno;
pub mod reno;
pub mod tahoe;
