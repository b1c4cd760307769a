//! The registered parts: one line each, in the order of the documentation.

use crate::{ack, congestion, gate, judge, manager, receive, reliable, rtt, watch};
use wifu_engine::{Descriptor, Registry};

/// All parts of this crate.
pub static PARTS: &[&Descriptor] = &[
    &manager::handshake::HANDSHAKE,
    &rtt::rfc6298::RFC6298,
    &reliable::cumulative::CUMULATIVE,
    &reliable::selective::SELECTIVE,
    &receive::reassemble::REASSEMBLE,
    &judge::loss_is_congestion::LOSS_IS_CONGESTION,
    &judge::backlog::BACKLOG,
    &congestion::tahoe::TAHOE,
    &congestion::reno::RENO,
    &congestion::newreno::NEWRENO,
    &congestion::cubic::CUBIC,
    &congestion::westwood::WESTWOOD,
    &gate::peer_window::PEER_WINDOW,
    &gate::nagle::NAGLE,
    &ack::every::EVERY,
    &ack::dynamic::DYNAMIC,
    &watch::ttl_hops::TTL_HOPS,
];

/// The registry of [`PARTS`]; other crates add theirs with [`Registry::with`].
pub fn registry() -> Registry {
    Registry::new(PARTS)
}
