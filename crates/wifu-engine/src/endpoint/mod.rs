//! The endpoint: all connections of a node, demultiplexing, listening, deadlines.

mod deadlines;
mod info;
mod input;
mod link;
mod listen;
mod numbers;
mod output;
mod replies;
mod table;
mod types;

pub use deadlines::Deadlines;
pub use info::ConnInfo;
pub use types::{ConnId, ConnectError, Datagram, EndpointConfig, Event, ListenError, ListenId};

use crate::admission::{Admission, Plain};
use crate::blueprint::Blueprint;
use crate::board::{RouteFacts, SiteFacts};
use crate::composition::ConfigError;
use crate::conn::{Conn, Tuple};
use crate::descriptor::{Role, Value};
use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU16;
use link::Links;
use listen::Listeners;
use numbers::Numbers;
use replies::Replies;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use table::Table;
use wifu_wire::{Head, Place, Rng, Seq, Time, Wire};

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

/// Packets that were dropped, by reason.
struct Drops {
    /// Few reasons, known at compile time: a list whose memory is taken once.
    counted: Vec<(&'static str, u64)>,
}

impl Drops {
    fn count(&mut self, reason: &'static str) {
        match self.counted.iter_mut().find(|(r, _)| *r == reason) {
            Some((_, n)) => *n += 1,
            None => self.counted.push((reason, 1)),
        }
    }
}

/// All connections of a node. Sans-IO: `handle_*` for input, application calls, `poll_*` for
/// output. After input or calls, poll [`Endpoint::poll_event`] and [`Endpoint::poll_transmit`]
/// until `None`, then sleep until [`Endpoint::poll_timeout`].
pub struct Endpoint {
    config: EndpointConfig,
    table: Table,
    listeners: Listeners,
    links: Links,
    replies: Replies,
    served: Vec<Option<Served>>,
    numbers: Numbers,
    drops: Drops,
    unserved: BTreeMap<u8, u64>,
    head: Head,
    answer: Head,
    worked: bool,
}

impl Endpoint {
    /// An endpoint without connections.
    pub fn new(config: EndpointConfig) -> Endpoint {
        let rng = Rng::new(config.seed).split_n(u64::from(config.node));
        Endpoint {
            table: Table::new(config.max_resting),
            config,
            listeners: Listeners::default(),
            links: Links::default(),
            replies: Replies::default(),
            served: vec![None; 256],
            numbers: Numbers::new(rng),
            drops: Drops {
                counted: Vec::with_capacity(64),
            },
            unserved: BTreeMap::new(),
            head: Head::default(),
            answer: Head::default(),
            worked: false,
        }
    }

    /// The connection, while it exists.
    pub fn conn(&self, id: ConnId) -> Option<&Conn> {
        self.table.conn(id)
    }

    /// All connections, embryonic ones included.
    pub fn conns(&self) -> impl Iterator<Item = ConnId> + '_ {
        self.table.ids()
    }

    /// How many connections there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Local ports at which packets of this protocol number have to do with a connection, be it
    /// that it only rests, or with a listener.
    pub fn local_ports(&self, proto: u8) -> BTreeSet<u16> {
        let conns = self.conns().filter_map(|id| self.conn(id));
        let tuples = conns.map(Conn::tuple).filter(|t| t.proto == proto);
        let ports = tuples.map(|t| t.local.port());
        ports.chain(self.listeners.ports(proto)).collect()
    }

    /// The numbers of a connection.
    pub fn info(&self, id: ConnId) -> Option<ConnInfo> {
        self.conn(id).map(ConnInfo::of)
    }

    /// As [`Endpoint::info`], and what is under way at `now` counts in what it tells of durations:
    /// the limit that binds ([`Conn::limits_until`]), the wait for a timeout
    /// ([`Conn::timeout_wait_until`]) and the sample of the delivery rate
    /// ([`Conn::delivery_rate_until`]).
    pub fn info_until(&self, id: ConnId, now: Time) -> Option<ConnInfo> {
        self.conn(id).map(|conn| ConnInfo::until(conn, now))
    }

    /// Segments that came, of whatever connection, over nodes that do not serve their composition,
    /// or that tell of such nodes on the way back, by protocol number.
    pub fn unserved(&self) -> &BTreeMap<u8, u64> {
        &self.unserved
    }

    /// Segments dropped, by reason.
    pub fn drops(&self) -> BTreeMap<&'static str, u64> {
        self.drops.counted.iter().copied().collect()
    }

    /// Understand segments of this protocol even before anything listens or connects.
    pub fn serve(&mut self, blueprint: &Blueprint) {
        self.served[usize::from(blueprint.number)] = Some(Served {
            wire: Arc::clone(&blueprint.wire),
            hop_count: blueprint.wire.hop_count().filter(|_| blueprint.counted),
            admission: admission(blueprint),
        });
    }

    /// Take what opens connections to an address (0.0.0.0 or `::`: any of ours of that family).
    /// `backlog` bounds embryonic connections.
    ///
    /// # Errors
    /// If the address is taken.
    pub fn listen(
        &mut self,
        blueprint: &Arc<Blueprint>,
        local: impl Into<SocketAddr>,
        backlog: usize,
    ) -> Result<ListenId, ListenError> {
        let kept = admission(blueprint).keeps();
        let listeners = &mut self.listeners;
        let id = listeners.insert(Arc::clone(blueprint), local.into(), backlog, kept)?;
        self.serve(blueprint);
        Ok(id)
    }

    /// Take what opens connections to whatever address and port, but for those that another
    /// listener has: also addresses that are not this node's, where the driver hands in such
    /// packets ([`EndpointConfig::between`]). In place of the one before of this protocol number.
    pub fn listen_everywhere(&mut self, blueprint: &Arc<Blueprint>, backlog: usize) -> ListenId {
        let kept = admission(blueprint).keeps();
        let id = self
            .listeners
            .everywhere(Arc::clone(blueprint), backlog, kept);
        self.serve(blueprint);
        id
    }

    /// Take with other parameters what opens connections from now on: those that are being opened
    /// keep theirs. False if nobody listens so, or by another protocol number.
    pub fn retune(&mut self, id: ListenId, blueprint: &Arc<Blueprint>, backlog: usize) -> bool {
        let kept = admission(blueprint).keeps();
        let done = self.listeners.retune(id, blueprint, (backlog, kept));
        if done {
            self.serve(blueprint);
        }
        done
    }

    /// Let a listener take what opens connections to another address as well.
    ///
    /// # Errors
    /// If the address is taken.
    pub fn listen_also(&mut self, id: ListenId, local: SocketAddr) -> Result<(), ListenError> {
        self.listeners.also(id, local)
    }

    /// Open no more; embryonic connections are forgotten, open ones live on.
    pub fn unlisten(&mut self, id: ListenId) {
        for embryo in self.listeners.remove(id) {
            if self.table.slot(embryo).is_some_and(|s| s.embryo) {
                self.remove(embryo.index);
            }
        }
    }

    /// The same for a listener whose application is found to be gone: embryonic connections are
    /// reset, so that a peer whose opener has just come is refused and does not ask again.
    pub fn dismiss(&mut self, now: Time, id: ListenId) {
        for embryo in self.listeners.remove(id) {
            let Some(slot) = self.table.slot(embryo).filter(|s| s.embryo) else {
                continue;
            };
            (slot.embryo, slot.orphan) = (false, true);
            self.with(embryo, |c| c.abort(now));
        }
    }

    /// A listener to which an opener came that nobody has answered yet, each once: whoever knows of
    /// its application may look whether that is there still.
    pub fn poll_opener(&mut self) -> Option<ListenId> {
        self.listeners.next_asked()
    }

    /// Start a connection. Port 0 of `local` asks for an ephemeral port (RFC 6056: random start).
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(
        &mut self,
        now: Time,
        blueprint: &Arc<Blueprint>,
        local: impl Into<SocketAddr>,
        remote: impl Into<SocketAddr>,
    ) -> Result<ConnId, ConnectError> {
        self.start(now, blueprint, local.into(), remote.into())
    }

    fn start(
        &mut self,
        now: Time,
        blueprint: &Arc<Blueprint>,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<ConnId, ConnectError> {
        let proto = blueprint.number;
        let tuple = |port| Tuple {
            proto,
            local: SocketAddr::new(local.ip(), port),
            remote,
        };
        let answers = admission(blueprint);
        let id = self.identifier(answers, &tuple(local.port()));
        let port = if local.port() != 0 {
            if let Some(i) = self.table.holder(answers, &tuple(local.port()), id) {
                if !self.table.at(i).rests {
                    return Err(ConnectError::InUse(local));
                }
                self.table.give_way(now, i, &mut self.listeners);
            }
            local.port()
        } else {
            let mut free = self.numbers.ports().filter(|p| {
                self.table.holder(answers, &tuple(*p), id).is_none()
                    && self.listeners.holder(proto, tuple(*p).local).is_none()
            });
            free.next().ok_or(ConnectError::NoPorts)?
        };
        let drawn = self.numbers.draw(now, &tuple(port));
        let i = self.open(drawn, blueprint, tuple(port), id)?;
        self.table.at_mut(i).heard = now;
        if let Some(conn) = self.table.conn_mut(i) {
            conn.connect(now);
        }
        self.touch(i);
        Ok(self.table.id(i))
    }

    /// The identifier of the next connection that we open; not one that the peer's address has.
    fn identifier(&self, answers: &dyn Admission, ends: &Tuple) -> u32 {
        if !answers.draws_identifier() {
            return 0;
        }
        let taken = |id| self.table.find(answers, ends, id).is_some();
        self.numbers.identifier(taken)
    }

    /// A new connection with its random numbers, initial number and identifier.
    fn open(
        &mut self,
        (rng, isn): (Rng, Seq),
        blueprint: &Arc<Blueprint>,
        tuple: Tuple,
        conn_id: u32,
    ) -> Result<u32, ConnectError> {
        if self.len() >= self.config.max_conns {
            self.drops.count("too many connections");
            return Err(ConnectError::TooMany);
        }
        let mut site = SiteFacts {
            me: self.config.node,
            mtu: self.config.mtu,
            isn,
            conn_id,
            ..SiteFacts::default()
        };
        if let Some(route) = self.links.way(&tuple.remote.ip()) {
            site.set_route(route);
        }
        let conn = blueprint.open(tuple, site, rng)?;
        self.serve(blueprint);
        let lane = blueprint.lane.as_ref().filter(|_| self.config.lanes);
        let lane_room = lane.map(|lane| lane.engine_int("packets"));
        let i = self.table.insert(conn, admission(blueprint), lane_room);
        Ok(i)
    }

    /// Append octets; returns how many fitted.
    pub fn write(&mut self, now: Time, id: ConnId, bytes: &[u8]) -> usize {
        self.with(id, |c| c.write(now, bytes)).unwrap_or(0)
    }

    /// See [`Conn::write_space`].
    pub fn write_space(&mut self, id: ConnId) -> [&mut [u8]; 2] {
        match self.table.slot(id).and_then(|s| s.conn.as_mut()) {
            Some(conn) => conn.write_space(),
            None => [&mut [], &mut []],
        }
    }

    /// `n` octets of the space were filled.
    pub fn wrote(&mut self, now: Time, id: ConnId, n: usize) {
        self.with(id, |c| c.wrote(now, n));
    }

    /// Take octets; returns how many there were.
    pub fn read(&mut self, now: Time, id: ConnId, out: &mut [u8]) -> usize {
        self.with(id, |c| c.read(now, out)).unwrap_or(0)
    }

    /// What can be read, in two pieces.
    pub fn readable(&self, id: ConnId) -> [&[u8]; 2] {
        self.conn(id).map_or([&[], &[]], Conn::readable)
    }

    /// `n` octets of [`Endpoint::readable`] were taken.
    pub fn consumed(&mut self, now: Time, id: ConnId, n: usize) {
        self.with(id, |c| c.consumed(now, n));
    }

    /// The application writes no more.
    pub fn shutdown_write(&mut self, now: Time, id: ConnId) {
        self.with(id, |c| c.shutdown_write(now));
    }

    /// The application is gone: the connection ends in order, nobody hears of it any more.
    pub fn close(&mut self, now: Time, id: ConnId) {
        let Some(slot) = self.table.slot(id) else {
            return;
        };
        slot.orphan = true;
        if slot.ended {
            return self.remove(id.index);
        }
        self.with(id, |c| c.close(now));
    }

    /// Destroy the connection: the peer gets a RST.
    pub fn abort(&mut self, now: Time, id: ConnId) {
        let Some(slot) = self.table.slot(id) else {
            return;
        };
        slot.orphan = true;
        if slot.ended {
            return self.remove(id.index);
        }
        self.with(id, |c| c.abort(now));
    }

    /// Change a parameter of a connection at run time.
    ///
    /// # Errors
    /// See [`Conn::set_param`].
    pub fn set_param(
        &mut self,
        now: Time,
        id: ConnId,
        name: &str,
        text: &str,
    ) -> Result<Value, ConfigError> {
        let gone = || Err(ConfigError::one(name, "the connection is gone"));
        self.with(id, |c| c.set_param(now, name, text))
            .unwrap_or_else(gone)
    }

    fn with<R>(&mut self, id: ConnId, call: impl FnOnce(&mut Conn) -> R) -> Option<R> {
        let conn = self.table.slot(id)?.conn.as_mut()?;
        let result = call(conn);
        self.touch(id.index);
        Some(result)
    }

    /// Each packet takes its host time, which calls [`Endpoint::poll_transmit`] as often as it is
    /// free: in between connections wait for the host ([`crate::Limit::Host`]).
    pub fn set_worked(&mut self) {
        self.worked = true;
    }

    /// Packets that the node's devices take now, whichever a packet leaves by.
    #[inline]
    pub fn set_room(&mut self, room: u32) {
        self.links.set_room(room);
        if room > 0 {
            self.table.retry_starved(&mut self.listeners);
        }
    }

    /// Packets that one device takes now: for those connections whose next hop is behind it
    /// ([`RouteFacts::next_hop`]). Where some devices are named, others take what they get.
    pub fn set_device_room(&mut self, device: NonZeroU16, room: u32) {
        self.links.set_device_room(device, room);
        if room > 0 {
            self.table.retry_starved(&mut self.listeners);
        }
    }

    /// Packets that all devices take that are not named ([`Endpoint::set_device_room`]).
    pub fn set_other_room(&mut self, room: u32) {
        self.links.set_other_room(room);
        if room > 0 {
            self.table.retry_starved(&mut self.listeners);
        }
    }

    /// Packets of data that the lane of a flow takes now; `tuple` as this end sees it. Asked for
    /// connections whose composition has a lane, if the node runs it ([`EndpointConfig::lanes`]).
    /// True if one that had no room may go on.
    pub fn set_lane_room(&mut self, tuple: &Tuple, conn_id: u32, room: u32) -> bool {
        let Some(i) = self.find(tuple, conn_id) else {
            return false;
        };
        let lane_room = &mut self.table.at_mut(i).lane_room;
        let opens = lane_room.is_some() && lane_room.replace(room) == Some(0) && room > 0;
        if opens {
            self.touch(i);
        }
        opens
    }

    /// The way to a peer, for its connections and those to come ([`crate::Signal::Route`]). As
    /// many are remembered as there may be connections; more are counted and forgotten.
    pub fn set_route(&mut self, now: Time, to: impl Into<IpAddr>, route: RouteFacts) {
        let to = to.into();
        match self.links.set_way(to, route, self.config.max_conns) {
            Ok(true) => {}
            Ok(false) => return,
            Err(reason) => return self.drops.count(reason),
        }
        for i in self.table.indices() {
            let conn = self.table.conn_mut(i);
            if let Some(conn) = conn.filter(|c| c.tuple().remote.ip() == to) {
                conn.set_route(now, &route);
                self.touch(i);
            }
        }
    }

    /// The connection whose packets these are.
    fn find(&self, tuple: &Tuple, conn_id: u32) -> Option<u32> {
        let served = self.served[usize::from(tuple.proto)].as_ref()?;
        self.table.find(served.admission, tuple, conn_id)
    }

    /// After anything happened to a connection.
    #[inline]
    fn touch(&mut self, i: u32) {
        self.table.touch(i, &mut self.listeners);
    }

    fn remove(&mut self, i: u32) {
        self.table.remove(i, &mut self.listeners);
    }
}
