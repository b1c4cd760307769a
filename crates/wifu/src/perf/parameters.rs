//! What a client asks for: both ends have to know it, and the report repeats it.

use serde::{Deserialize, Serialize};

use wifu_sim::scenario::FlowSpec;

use super::protocol::Protocol;

/// The parameters of a test.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Test {
    /// The protocol of the data streams.
    pub protocol: Protocol,
    /// Streams in each direction.
    pub streams: u32,
    /// Only the server sends.
    pub reverse: bool,
    /// Both ends send, each on streams of its own.
    pub bidir: bool,
    /// Seconds that count, unless `bytes` decides.
    pub seconds: f64,
    /// Bytes in each direction, if that is what ends the test.
    pub bytes: Option<u64>,
    /// Blocks in each direction, when `bytes` came about that way.
    pub blocks: Option<u64>,
    /// Seconds before those that count.
    pub omit: f64,
    /// Bytes in one write.
    pub block: u64,
    /// Bit/s of each stream; 0 is unlimited.
    pub rate: u64,
    /// Blocks sent at once when a rate is set.
    pub burst: u32,
    /// Size of both socket buffers, bytes; none: left as they are.
    pub window: Option<u64>,
    /// Maximum segment size, bytes.
    pub mss: Option<u32>,
    /// Whether senders set TCP_NODELAY.
    pub no_delay: bool,
    /// Milliseconds a receiving stream may be silent.
    pub rcv_timeout_ms: u64,
    /// Seconds between reports, for the output.
    pub interval: f64,
    /// The application whose traffic it is; none: steady streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<Application>,
    /// Seconds between two points of the series of what arrived when; none: none is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<f64>,
    /// Title in front of each line, which the client gave with `-T`.
    pub title: Option<String>,
    /// Text for the report, which the client gave with `--extra-data`.
    pub extra_data: Option<String>,
    /// The client wants the server's output.
    pub server_output: Option<OutputKind>,
}

/// An application at the client, with its peer at the server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Application {
    /// What it does. Who sends to whom, by what and from when on, is not looked at.
    pub spec: FlowSpec,
    /// State of the random stream that it draws from.
    pub stream: u64,
    /// Seconds after which it begins nothing new; none: it comes to an end by itself.
    pub seconds: Option<f64>,
}

/// A form of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputKind {
    /// The lines that it printed.
    Text,
    /// The report in the JSON of iperf3.
    Json,
}

impl Test {
    /// Number of data streams, both directions together.
    pub fn stream_count(&self) -> u32 {
        if self.bidir {
            2 * self.streams
        } else {
            self.streams
        }
    }

    /// Whether the client sends on the stream with this index.
    pub fn client_sends(&self, index: u32) -> bool {
        if self.bidir {
            index < self.streams
        } else {
            !self.reverse
        }
    }
}
