//! The endpoint: all connections of a node, demultiplexing, listening, deadlines.

mod app;
mod deadlines;
mod info;
mod input;
mod life;
mod link;
mod listen;
mod output;

pub use deadlines::Deadlines;
pub use info::ConnInfo;
pub use listen::{ListenError, ListenId};

use crate::admission::{Admission, Key, Plain};
use crate::blueprint::Blueprint;
use crate::board::{RouteFacts, SiteFacts, State};
use crate::composition::ConfigError;
use crate::conn::{Conn, News, Transmit, Tuple};
use crate::descriptor::{Role, Value};
use crate::signal::Fault;
use core::net::{Ipv4Addr, SocketAddrV4};
use listen::{Listeners, Opener};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wifu_wire::ipv4::TTL;
use wifu_wire::{Class, FrameFacts, Head, IpInfo, Note, Place, Pseudo, Rng, Seq, Time, Wire};

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
    pub max_time_wait: usize,
    /// The annotation by which handlers tell of nodes that do not serve a composition.
    pub unserved: Option<Note>,
    /// The node runs the lanes of compositions that have one.
    pub lanes: bool,
}

impl Default for EndpointConfig {
    fn default() -> EndpointConfig {
        EndpointConfig {
            seed: 1,
            node: 0,
            mtu: 1500,
            max_conns: 65_536,
            max_time_wait: 4_096,
            unserved: None,
            lanes: false,
        }
    }
}

/// A connection of this endpoint. Ids are not reused for another connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct ConnId {
    index: u32,
    generation: u32,
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
    /// [`Endpoint::close`].
    Closed(Option<Fault>),
}

/// Why a connection could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The same two ends are connected already.
    #[error("{0} is in use for this destination")]
    InUse(SocketAddrV4),
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
    pub ip: IpInfo,
    /// Length of the segment.
    pub len: usize,
    /// Whose it is; `None` for stateless answers.
    pub conn: Option<ConnId>,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    conn: Option<Conn>,
    ready: bool,
    /// In the list of connections with news.
    noisy: bool,
    news: News,
    listener: Option<ListenId>,
    /// Passive, not yet open or its peer not yet proved: counts against the listener's backlog.
    embryo: bool,
    /// A packet showed that the peer hears us.
    proved: bool,
    /// By what its packets find it, and what it occupies beyond that.
    key: Option<Key>,
    place: Option<Key>,
    /// When its peer was heard last; of one that we opened, when that was.
    heard: Time,
    /// The manager's state when the admission was asked last whether it rests, and the answer.
    state: State,
    rests: bool,
    /// The application let go of it.
    orphan: bool,
    ended: bool,
    /// In the list of those that rest.
    listed: bool,
    /// Packets that the lane behind it takes; `None` if there is none.
    lane_room: Option<u32>,
    /// It was polled while its device had no room.
    starved: bool,
}

/// What the packets of an IP protocol number are understood by.
#[derive(Clone)]
struct Served {
    wire: Arc<dyn Wire>,
    /// Where its packets count the nodes that looked at them.
    hop_count: Option<Place>,
    admission: &'static dyn Admission,
}

/// The answers of a composition's manager.
fn admission(blueprint: &Blueprint) -> &'static dyn Admission {
    let managers = blueprint.parts.iter().map(|p| p.desc);
    let mut managers = managers.filter(|d| d.role == Role::Manager);
    managers.find_map(|d| d.admission).unwrap_or(&Plain)
}

struct Reply {
    ip: IpInfo,
    bytes: [u8; REPLY],
    len: usize,
}

/// Room for one: the longest TCP header, and for a protocol that has more to say.
const REPLY: usize = 160;

/// Answers to segments of no connection that may wait, and of embryos that made room; more are
/// dropped and counted. As many as a driver may hand over before it polls.
const REPLIES: usize = 1_024;

/// All connections of a node. Sans-IO: `handle_*` for input, application calls, `poll_*` for
/// output. After input or calls, poll [`Endpoint::poll_event`] and [`Endpoint::poll_transmit`]
/// until `None`, then sleep until [`Endpoint::poll_timeout`].
pub struct Endpoint {
    config: EndpointConfig,
    slots: Vec<Slot>,
    free: Vec<u32>,
    demux: BTreeMap<Key, u32>,
    /// Who occupies a place that is not its key.
    places: BTreeMap<Key, u32>,
    /// Ends and identifier of the latest packet, and whose it was.
    latest: Option<(Tuple, u32, u32)>,
    ready: VecDeque<u32>,
    noisy: VecDeque<u32>,
    deadlines: Deadlines,
    listeners: Listeners,
    resting: VecDeque<ConnId>,
    replies: VecDeque<Reply>,
    served: Vec<Option<Served>>,
    head: Head,
    answer: Head,
    rng: Rng,
    /// The secret of RFC 6528: it stays, so that a tuple's numbers only grow.
    isn_key: [u64; 2],
    opened: u64,
    /// Few reasons, known at compile time: a list whose memory is taken once.
    drops: Vec<(&'static str, u64)>,
    rooms: link::Rooms,
    /// Connections in front of lanes.
    laned: u32,
    /// Those of them that were polled while their device had no room.
    starved: VecDeque<ConnId>,
    /// Ways to peers.
    ways: BTreeMap<Ipv4Addr, RouteFacts>,
}

impl Endpoint {
    /// An endpoint without connections.
    pub fn new(config: EndpointConfig) -> Endpoint {
        let rng = Rng::new(config.seed).split_n(u64::from(config.node));
        let mut key = rng.split("isn");
        Endpoint {
            config,
            slots: Vec::new(),
            free: Vec::new(),
            demux: BTreeMap::new(),
            places: BTreeMap::new(),
            latest: None,
            ready: VecDeque::new(),
            noisy: VecDeque::new(),
            deadlines: Deadlines::default(),
            listeners: Listeners::default(),
            resting: VecDeque::new(),
            replies: VecDeque::new(),
            served: vec![None; 256],
            head: Head::default(),
            answer: Head::default(),
            rng,
            isn_key: [key.next_u64(), key.next_u64()],
            opened: 0,
            drops: Vec::with_capacity(64),
            rooms: link::Rooms::default(),
            laned: 0,
            starved: VecDeque::new(),
            ways: BTreeMap::new(),
        }
    }

    /// The connection, while it exists.
    pub fn conn(&self, id: ConnId) -> Option<&Conn> {
        let slot = self.slots.get(id.index as usize)?;
        if slot.generation == id.generation {
            slot.conn.as_ref()
        } else {
            None
        }
    }

    fn slot(&mut self, id: ConnId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(id.index as usize)?;
        (slot.generation == id.generation && slot.conn.is_some()).then_some(slot)
    }

    /// All connections, embryonic ones included.
    pub fn conns(&self) -> impl Iterator<Item = ConnId> + '_ {
        let slots = self
            .slots
            .iter()
            .enumerate()
            .filter(|(_, s)| s.conn.is_some());
        slots.map(|(i, s)| ConnId {
            index: i as u32,
            generation: s.generation,
        })
    }

    /// How many connections there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers of a connection.
    pub fn info(&self, id: ConnId) -> Option<ConnInfo> {
        self.conn(id).map(ConnInfo::of)
    }

    /// Segments dropped, by reason.
    pub fn drops(&self) -> BTreeMap<&'static str, u64> {
        self.drops.iter().copied().collect()
    }

    fn count_drop(&mut self, reason: &'static str) {
        match self.drops.iter_mut().find(|(r, _)| *r == reason) {
            Some((_, n)) => *n += 1,
            None => self.drops.push((reason, 1)),
        }
    }

    /// Understand segments of this protocol even before anything listens or connects.
    pub fn serve(&mut self, blueprint: &Blueprint) {
        self.served[usize::from(blueprint.number)] = Some(Served {
            wire: Arc::clone(&blueprint.wire),
            hop_count: blueprint.wire.hop_count(),
            admission: admission(blueprint),
        });
    }
}

/// An address that means "any of ours".
pub(crate) const ANY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
