//! What one side measured, as it tells the other; the outcome puts the two sides' together.

use serde::{Deserialize, Serialize};

/// What one side measured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Results {
    /// One entry per stream, by index.
    pub streams: Vec<Totals>,
    /// This process's processor time in percent of one processor: user, system.
    pub cpu_percent: (f64, f64),
    /// The whole machine's busy time in percent of one processor.
    pub machine_percent: f64,
    /// The congestion control of the streams this side sends on or, lacking those, receives on.
    pub congestion: Option<String>,
    /// The server's report, if the client asked for it in this form.
    pub output_json: Option<serde_json::Value>,
    /// The server's lines, if the client asked for them in this form.
    pub output_text: Option<String>,
}

/// What one side counted on one stream.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Bytes handed to or taken from the socket.
    pub bytes: u64,
    /// Seconds from the start to the end, or in tests of fixed size to the last byte.
    pub seconds: f64,
    /// Completion of the first and the last write or read, seconds since the start.
    pub times: Option<(f64, f64)>,
    /// Round-trip times and windows over the test; at the sender.
    pub tcp: Option<Extremes>,
    /// Time that connecting took, seconds.
    pub connect_s: Option<f64>,
}

/// A sender's state over the whole test.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq)]
pub struct Extremes {
    /// Segments retransmitted in the whole test.
    pub retransmits: u64,
    /// Largest congestion window, bytes.
    pub max_snd_cwnd: u64,
    /// Largest window of the peer, bytes.
    pub max_snd_wnd: u64,
    /// Largest smoothed round-trip time at an interval's end, microseconds.
    pub max_rtt: u32,
    /// Smallest smoothed round-trip time at an interval's end, microseconds.
    pub min_rtt: u32,
    /// Mean of the smoothed round-trip times at the intervals' ends, microseconds.
    pub mean_rtt: u32,
}
