//! Round-trip times and the retransmission timeout.

pub mod rfc6298;
