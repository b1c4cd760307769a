//! What became of packets.

use super::is_zero;
use serde::{Deserialize, Serialize};

/// What became of a flow's packets. `sent` and `copies` together are the sum of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketOutcome {
    /// Handed to the network by both ends.
    pub sent: u64,
    /// Arrived at the other end.
    pub delivered: u64,
    /// Refused by a full queue, or by a full lane ([`super::HopOutcome::lane_drops`]).
    pub queue: u64,
    /// Given up by the MAC, and no copy arrived.
    pub link: u64,
    /// Lost on a wire.
    pub wire: u64,
    /// Without route, or the TTL ran out.
    pub route: u64,
    /// Dropped by a hop's handler or lane, or let go by a lane: what it has twice, what the
    /// destination has, what waited when it was closed.
    pub hop: u64,
    /// Dropped by the host that it was for, where too many waited ([`super::NodeOutcome::host`]).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub host: u64,
    /// Dropped by a node that was to hand them to a link, after the deadline that was noted on them
    /// ([`super::NodeOutcome::late`]).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late: u64,
    /// On their way at the end.
    pub inside: u64,
    /// Copies that handlers and lanes of hops sent, besides the packets that the ends sent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub copies: u64,
}

impl PacketOutcome {
    /// Those that did not arrive and are not on their way.
    pub fn lost(&self) -> u64 {
        self.queue + self.link + self.wire + self.route + self.hop + self.host + self.late
    }
}
