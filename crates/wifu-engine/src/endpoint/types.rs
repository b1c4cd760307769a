//! What an endpoint is told and tells: limits, names of connections and listeners, events, errors.

use crate::composition::ConfigError;
use crate::conn::Conn;
use crate::signal::Fault;
use core::net::SocketAddr;
use wifu_wire::{AnyIpInfo, Ecn, IpInfo, Note};

/// Limits and identity of an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Seed of every random stream; live, from the system's entropy.
    pub seed: u64,
    /// This node.
    pub node: u32,
    /// Largest IP packet, octets.
    pub mtu: u32,
    /// Most connections at once.
    pub max_conns: usize,
    /// Most connections kept that only rest (of TCP: TIME_WAIT); beyond, the oldest is forgotten.
    pub max_resting: usize,
    /// The annotation by which handlers tell of nodes that do not serve a composition.
    pub unserved: Option<Note>,
    /// The node runs the lanes of compositions that have one.
    pub lanes: bool,
    /// It stands between the ends of connections, which both believe to talk to each other: where
    /// it knows nothing of one, it does not only refuse the end that spoke, but makes the other
    /// speak, to refuse that, too.
    pub between: bool,
}

impl Default for EndpointConfig {
    fn default() -> EndpointConfig {
        EndpointConfig {
            seed: 1,
            node: 0,
            mtu: 1500,
            max_conns: 65_536,
            max_resting: 4_096,
            unserved: None,
            lanes: false,
            between: false,
        }
    }
}

/// A listener of this endpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct ListenId(pub(super) u32);

/// Somebody listens there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0} is taken by another listener")]
pub struct ListenError(pub SocketAddr);

/// A connection of this endpoint. Ids are not reused for another connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct ConnId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl ConnId {
    /// As one number, for tokens and logs.
    pub fn as_u64(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }
}

/// What the application has to learn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A peer connected to a listener.
    Accepted(ListenId),
    /// Our connection opened.
    Connected,
    /// There is something to read.
    Readable,
    /// There is room to write.
    Writable,
    /// The peer sends no more: after what is readable comes the end.
    PeerClosed,
    /// The connection is over, with its fault if it ended badly. Its data can still be read until
    /// [`crate::Endpoint::close`].
    Closed(Option<Fault>),
}

/// Why a connection could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The same two ends are connected already.
    #[error("{0} is in use for this destination")]
    InUse(SocketAddr),
    /// No ephemeral port is free for this destination.
    #[error("no free port for this destination")]
    NoPorts,
    /// `max_conns` is reached.
    #[error("too many connections")]
    TooMany,
    /// A part refused its parameters.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// A segment that leaves: `out[..len]` is the transport segment, without IP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Addresses, protocol and TTL for the IP header.
    pub ip: AnyIpInfo,
    /// Length of the segment.
    pub len: usize,
    /// Whose it is; `None` for stateless answers.
    pub conn: Option<ConnId>,
}

impl Datagram {
    /// What a connection sends.
    #[inline]
    pub(super) fn of(conn: &Conn, id: ConnId, len: usize, ecn: Ecn) -> Datagram {
        let ip = IpInfo {
            ecn,
            ..conn.path().ip
        };
        Datagram {
            ip,
            len,
            conn: Some(id),
        }
    }
}
