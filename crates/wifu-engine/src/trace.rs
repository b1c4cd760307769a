//! Traces: what happened to a connection, as values. Substrates turn them into files.

use crate::signal::Signal;
use wifu_wire::Time;

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// When.
    pub at: Time,
    /// What.
    pub what: What,
    /// Congestion window after it, octets.
    pub cwnd: u32,
    /// Slow start threshold after it, octets.
    pub ssthresh: u32,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    /// A signal was delivered.
    Signal(Signal),
    /// An arriving segment was dropped.
    Dropped(&'static str),
}
