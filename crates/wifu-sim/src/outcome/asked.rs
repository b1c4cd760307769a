//! What is known of who asks, where answers are what counts.

use serde::{Deserialize, Serialize};

/// What the end that asks sent, of requests and answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Octets of its questions handed to the network, each once.
    pub bytes: u64,
    /// Segments that it retransmitted.
    pub retransmissions: u64,
    /// Its retransmission timeouts; absent if its protocol has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<u64>,
    /// Seconds that it waited for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
}
