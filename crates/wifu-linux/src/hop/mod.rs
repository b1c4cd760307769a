//! What a daemon's node meets: packets in memory of its own, the kernel's routes and neighbours,
//! and carriers as its ways.

mod air;
mod drivers;
mod ears;
mod host;
mod icmp;
mod store;
mod ways;

use drivers::Drivers;
use ears::Ears;
pub(crate) use host::{Hop, Sources, is_hop_token, served};
use store::{Came, Store};
use ways::{Here, Known};

use serde::Serialize;

/// What became of packets at a daemon's node. The names are those of the simulator's report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HopCounters {
    /// Packets for other hosts that went on from here.
    pub forwarded: u64,
    /// Lost: a device or a queue had no room.
    pub queue: u64,
    /// Lost: no route, no such neighbour, or no TTL left.
    pub route: u64,
    /// Lost by a handler or a lane.
    pub hop: u64,
    /// Lost: too many waited for this host to work them off (`--host-profile`).
    pub host: u64,
    /// Lost: the deadline that was noted on them had passed when they were to leave.
    pub late: u64,
    /// Dropped: longer than this host's packets may be, or than the next link takes.
    pub too_long: u64,
    /// Dropped: fragments, which no handler and no lane can read.
    pub fragments: u64,
    /// Dropped: from or for an address that no packet on a link can have (RFC 1812 sections
    /// 5.3.7 and 4.2.2.11).
    pub martian: u64,
    /// ICMP errors sent about packets that could not go on.
    pub icmp: u64,
}
