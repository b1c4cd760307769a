//! The endpoint: all connections of a node, demultiplexing, listening, deadlines.

mod deadlines;
mod info;
mod listen;

pub use info::ConnInfo;
pub use listen::{ListenError, ListenId};

use crate::blueprint::Blueprint;
use crate::board::{SiteFacts, State};
use crate::composition::ConfigError;
use crate::conn::{Conn, News, Transmit, Tuple};
use crate::descriptor::Value;
use crate::signal::Fault;
use core::net::{Ipv4Addr, SocketAddrV4};
use deadlines::Deadlines;
use listen::Listeners;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wifu_wire::ipv4::TTL;
use wifu_wire::{Flags, FrameFacts, Head, IpInfo, Pseudo, Rng, Seq, Time, Wire};

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
    /// Most connections kept in TIME_WAIT; beyond, the oldest is forgotten.
    pub max_time_wait: usize,
    /// Connections keep traces from the start.
    pub trace: bool,
}

impl Default for EndpointConfig {
    fn default() -> EndpointConfig {
        EndpointConfig {
            seed: 1,
            node: 0,
            mtu: 1500,
            max_conns: 65_536,
            max_time_wait: 4_096,
            trace: false,
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
    /// Not yet open, passive: counts against the listener's backlog.
    embryo: bool,
    /// The application let go of it.
    orphan: bool,
    ended: bool,
    time_wait: bool,
}

struct Reply {
    ip: IpInfo,
    bytes: [u8; 80],
    len: usize,
}

/// Answers to segments of no connection that may wait; more are dropped and counted.
const REPLIES: usize = 256;

/// All connections of a node. Sans-IO: `handle_*` for input, application calls, `poll_*` for
/// output. After input or calls, poll [`Endpoint::poll_event`] and [`Endpoint::poll_transmit`]
/// until `None`, then sleep until [`Endpoint::poll_timeout`].
pub struct Endpoint {
    config: EndpointConfig,
    slots: Vec<Slot>,
    free: Vec<u32>,
    demux: BTreeMap<Tuple, u32>,
    latest: Option<(Tuple, u32)>,
    ready: VecDeque<u32>,
    noisy: VecDeque<u32>,
    deadlines: Deadlines,
    listeners: Listeners,
    time_wait: VecDeque<ConnId>,
    replies: VecDeque<Reply>,
    wires: Vec<Option<Arc<dyn Wire>>>,
    head: Head,
    answer: Head,
    rng: Rng,
    opened: u64,
    drops: BTreeMap<&'static str, u64>,
    room: u32,
}

impl Endpoint {
    /// An endpoint without connections.
    pub fn new(config: EndpointConfig) -> Endpoint {
        let rng = Rng::new(config.seed).split_n(u64::from(config.node));
        Endpoint {
            config,
            slots: Vec::new(),
            free: Vec::new(),
            demux: BTreeMap::new(),
            latest: None,
            ready: VecDeque::new(),
            noisy: VecDeque::new(),
            deadlines: Deadlines::default(),
            listeners: Listeners::default(),
            time_wait: VecDeque::new(),
            replies: VecDeque::new(),
            wires: vec![None; 256],
            head: Head::default(),
            answer: Head::default(),
            rng,
            opened: 0,
            drops: BTreeMap::new(),
            room: u32::MAX,
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
    pub fn drops(&self) -> &BTreeMap<&'static str, u64> {
        &self.drops
    }

    fn count_drop(&mut self, reason: &'static str) {
        *self.drops.entry(reason).or_default() += 1;
    }

    /// Understand segments of this protocol even before anything listens or connects.
    pub fn serve(&mut self, blueprint: &Blueprint) {
        self.wires[usize::from(blueprint.number)] = Some(Arc::clone(&blueprint.wire));
    }
}

// Input.
impl Endpoint {
    /// A packet arrived: its IP header's facts and what follows the header.
    pub fn handle_packet(&mut self, now: Time, ip: &IpInfo, segment: &[u8]) {
        let Some(wire) = &self.wires[usize::from(ip.proto)] else {
            return self.count_drop("protocol not served");
        };
        let pseudo = Pseudo {
            src: ip.src,
            dst: ip.dst,
            proto: ip.proto,
        };
        if !wire.verify(&pseudo, segment) {
            return self.count_drop("checksum");
        }
        let header = match wire.parse(segment, &mut self.head) {
            Ok(n) => n,
            Err(reason) => return self.count_drop(reason),
        };
        self.head.ttl = ip.ttl;
        let tuple = Tuple {
            proto: ip.proto,
            local: SocketAddrV4::new(ip.dst, self.head.dport),
            remote: SocketAddrV4::new(ip.src, self.head.sport),
        };
        let found = match self.latest {
            Some((t, i)) if t == tuple => Some(i),
            _ => self.demux.get(&tuple).copied(),
        };
        let index = match found {
            Some(i) if self.reopens(i) => {
                self.give_way(i);
                self.embryo(now, tuple)
            }
            Some(i) => Some(i),
            None => self.embryo(now, tuple),
        };
        let payload = &segment[header..];
        let Some(i) = index else {
            return self.refuse(ip, payload.len() as u32);
        };
        self.latest = Some((tuple, i));
        let frame = FrameFacts {
            bytes: segment.len() as u16 + 20,
            ..FrameFacts::default()
        };
        let Some(conn) = self.slots[i as usize].conn.as_mut() else {
            return;
        };
        let dropped = conn.handle_segment(now, &mut self.head, payload, &frame);
        if let Some(reason) = dropped {
            self.count_drop(reason);
        }
        self.touch(i);
    }

    /// A new SYN for a connection that only waits for old segments to die out: it may open anew if
    /// its number lies beyond all that was received (RFC 9293 3.10.7.4, TIME-WAIT), or if its
    /// timestamp does: fast transfers outrun the clock of initial numbers (RFC 6191).
    fn reopens(&self, i: u32) -> bool {
        let Some(conn) = &self.slots[i as usize].conn else {
            return false;
        };
        let (head, rx) = (&self.head, &conn.board().rx);
        let later = |ts: u32| ts.wrapping_sub(rx.ts_recent) as i32 > 0;
        let stamped = rx.ts_recent_at.is_some() && head.ts.is_some_and(later);
        conn.state() == State::TimeWait
            && head.flags.has(Flags::SYN)
            && !head.flags.has(Flags::RST)
            && head.ack.is_none()
            && (head.seq.after(rx.nxt) || stamped)
            && self
                .listeners
                .find(conn.tuple().proto, conn.tuple().local)
                .is_some()
    }

    /// Open an embryonic connection if the segment is a SYN for a listener.
    fn embryo(&mut self, now: Time, tuple: Tuple) -> Option<u32> {
        let head = &self.head;
        let opens = head.flags.has(Flags::SYN)
            && head.ack.is_none()
            && !head.flags.has(Flags::RST)
            && tuple.remote.port() != 0;
        if !opens {
            return None;
        }
        let id = self.listeners.find(tuple.proto, tuple.local)?;
        let listener = self.listeners.get_mut(id)?;
        let blueprint = Arc::clone(&listener.blueprint);
        // Under a flood the oldest embryo makes room: memory stays bounded, and who answers within
        // the time of `backlog` SYNs still gets in.
        let evicted = listener.evict();
        if let Some(old) = evicted
            && self.slot(old).is_some_and(|s| s.embryo)
        {
            self.count_drop("backlog full: oldest embryo evicted");
            self.remove(old.index);
        }
        let i = self.open(now, &blueprint, tuple).ok()?;
        let id_conn = self.id(i);
        let slot = &mut self.slots[i as usize];
        (slot.listener, slot.embryo) = (Some(id), true);
        if let Some(listener) = self.listeners.get_mut(id) {
            listener.embryos.push_back(id_conn);
        }
        if let Some(conn) = self.slots[i as usize].conn.as_mut() {
            conn.listen(now);
        }
        Some(i)
    }

    fn refuse(&mut self, ip: &IpInfo, len: u32) {
        self.count_drop("no such connection");
        let Some(wire) = &self.wires[usize::from(ip.proto)] else {
            return;
        };
        if !wire.refuse(&self.head, len, &mut self.answer) {
            return;
        }
        if self.replies.len() >= REPLIES {
            return self.count_drop("answer queue full");
        }
        let mut reply = Reply {
            ip: IpInfo {
                src: ip.dst,
                dst: ip.src,
                proto: ip.proto,
                ttl: TTL,
            },
            bytes: [0; 80],
            len: 0,
        };
        reply.len = wire.emit(&self.answer, &mut reply.bytes);
        let pseudo = Pseudo {
            src: ip.dst,
            dst: ip.src,
            proto: ip.proto,
        };
        wire.seal(&pseudo, &mut reply.bytes[..reply.len]);
        self.replies.push_back(reply);
    }

    /// Deadlines that passed.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some((at, i)) = self.deadlines.first() {
            if at > now {
                return;
            }
            self.deadlines.set(i, Time::NEVER);
            if let Some(conn) = self.slots[i as usize].conn.as_mut() {
                conn.handle_timeout(now);
            }
            self.touch(i);
        }
    }
}

// Connections come and go.
impl Endpoint {
    fn id(&self, index: u32) -> ConnId {
        ConnId {
            index,
            generation: self.slots[index as usize].generation,
        }
    }

    fn open(
        &mut self,
        now: Time,
        blueprint: &Arc<Blueprint>,
        tuple: Tuple,
    ) -> Result<u32, ConnectError> {
        if self.len() >= self.config.max_conns {
            self.count_drop("too many connections");
            return Err(ConnectError::TooMany);
        }
        let site = SiteFacts {
            me: self.config.node,
            mtu: self.config.mtu,
            isn: self.isn(&tuple, now),
            ..SiteFacts::default()
        };
        self.opened += 1;
        let mut conn = blueprint.open(tuple, site, self.rng.split_n(self.opened))?;
        if self.config.trace {
            conn.start_trace();
        }
        self.serve(blueprint);
        let i = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[i as usize];
        let (ready, noisy) = (slot.ready, slot.noisy);
        let generation = slot.generation.wrapping_add(1);
        *slot = Slot {
            generation,
            conn: Some(conn),
            ready,
            noisy,
            ..Slot::default()
        };
        self.demux.insert(tuple, i);
        Ok(i)
    }

    /// RFC 6528: a clock of 4 us ticks plus a keyed hash of the two ends.
    fn isn(&self, tuple: &Tuple, now: Time) -> Seq {
        use core::hash::{Hash, Hasher};
        let mut key = self.rng.split("isn");
        let mut h = siphasher::sip::SipHasher13::new_with_keys(key.next_u64(), key.next_u64());
        (tuple.proto, tuple.local, tuple.remote).hash(&mut h);
        Seq((h.finish() as u32).wrapping_add((now.0 / 4_000) as u32))
    }

    fn unlink(&mut self, i: u32) {
        let Some(conn) = &self.slots[i as usize].conn else {
            return;
        };
        let tuple = conn.tuple();
        if self.demux.get(&tuple) == Some(&i) {
            self.demux.remove(&tuple);
        }
        self.latest = None;
        self.deadlines.set(i, Time::NEVER);
    }

    /// A connection in TIME_WAIT leaves its two ends to a new one. What its application has not
    /// read stays, and the end of the wait is still reported.
    fn give_way(&mut self, i: u32) {
        if self.slots[i as usize].orphan {
            return self.remove(i);
        }
        self.unlink(i);
        self.touch(i);
    }

    fn remove(&mut self, i: u32) {
        self.unlink(i);
        let id = self.id(i);
        let slot = &mut self.slots[i as usize];
        if slot.conn.take().is_none() {
            return;
        }
        slot.news = News::default();
        if let (Some(listener), true) = (slot.listener, slot.embryo)
            && let Some(l) = self.listeners.get_mut(listener)
        {
            l.embryos.retain(|e| *e != id);
        }
        self.free.push(i);
    }

    /// After anything happened to a connection: it may send, and there may be news.
    fn touch(&mut self, i: u32) {
        let slot = &mut self.slots[i as usize];
        let Some(conn) = slot.conn.as_mut() else {
            return;
        };
        if !slot.ready {
            slot.ready = true;
            self.ready.push_back(i);
        }
        let news = conn.take_news();
        if news.opened && slot.embryo {
            slot.embryo = false;
            if let Some(l) = slot.listener.and_then(|l| self.listeners.get_mut(l)) {
                let id = ConnId {
                    index: i,
                    generation: slot.generation,
                };
                l.embryos.retain(|e| *e != id);
            }
        }
        let have = &mut slot.news;
        have.opened |= news.opened;
        have.readable |= news.readable;
        have.writable |= news.writable;
        have.eof |= news.eof;
        have.ended = have.ended.or(news.ended);
        if *have != News::default() && !slot.noisy {
            slot.noisy = true;
            self.noisy.push_back(i);
        }
        if slot.news.ended.is_some() && !slot.ended {
            slot.ended = true;
        }
        let (waits, orphan) = (conn.state() == State::TimeWait, slot.orphan);
        if waits && orphan {
            conn.detach();
        }
        if waits && !slot.time_wait {
            slot.time_wait = true;
            let id = self.id(i);
            self.enter_time_wait(id);
        }
    }

    fn enter_time_wait(&mut self, id: ConnId) {
        self.time_wait.push_back(id);
        while self.time_wait.len() > self.config.max_time_wait {
            let Some(old) = self.time_wait.pop_front() else {
                return;
            };
            // One whose application has not let go stays: it counts against max_conns.
            if self.slot(old).is_some_and(|s| s.time_wait && s.orphan) {
                self.remove(old.index);
            }
        }
    }

    /// A finished connection has said all it had to say.
    fn bury(&mut self, i: u32) {
        let slot = &self.slots[i as usize];
        if slot.conn.is_none() || !slot.ended || slot.ready {
            return;
        }
        if slot.orphan || slot.embryo {
            self.remove(i);
        } else {
            self.unlink(i);
        }
    }
}

// Application calls.
impl Endpoint {
    /// Start a connection. Port 0 of `local` asks for an ephemeral port (RFC 6056: random start).
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(
        &mut self,
        now: Time,
        blueprint: &Arc<Blueprint>,
        local: SocketAddrV4,
        remote: SocketAddrV4,
    ) -> Result<ConnId, ConnectError> {
        let proto = blueprint.number;
        let tuple = |port| Tuple {
            proto,
            local: SocketAddrV4::new(*local.ip(), port),
            remote,
        };
        let port = if local.port() != 0 {
            if let Some(i) = self.demux.get(&tuple(local.port())).copied() {
                let old = self.slots[i as usize].conn.as_ref();
                if old.is_none_or(|c| c.state() != State::TimeWait) {
                    return Err(ConnectError::InUse(local));
                }
                self.give_way(i);
            }
            local.port()
        } else {
            const FIRST: u64 = 32_768;
            const COUNT: u64 = 28_232;
            let start = self.rng.next_u64();
            let ports = (0..COUNT).map(|k| (FIRST + (start.wrapping_add(k)) % COUNT) as u16);
            let mut free = ports.filter(|p| {
                !self.demux.contains_key(&tuple(*p))
                    && self.listeners.find(proto, tuple(*p).local).is_none()
            });
            free.next().ok_or(ConnectError::NoPorts)?
        };
        let i = self.open(now, blueprint, tuple(port))?;
        if let Some(conn) = self.slots[i as usize].conn.as_mut() {
            conn.connect(now);
        }
        self.touch(i);
        Ok(self.id(i))
    }

    /// Append octets; returns how many fitted.
    pub fn write(&mut self, now: Time, id: ConnId, bytes: &[u8]) -> usize {
        self.with(id, |c| c.write(now, bytes)).unwrap_or(0)
    }

    /// See [`Conn::write_space`].
    pub fn write_space(&mut self, id: ConnId) -> [&mut [u8]; 2] {
        match self.slot(id).and_then(|s| s.conn.as_mut()) {
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
        let Some(slot) = self.slot(id) else { return };
        slot.orphan = true;
        if slot.ended {
            return self.remove(id.index);
        }
        self.with(id, |c| c.close(now));
    }

    /// Destroy the connection: the peer gets a RST.
    pub fn abort(&mut self, now: Time, id: ConnId) {
        let Some(slot) = self.slot(id) else { return };
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
    pub fn set_param(&mut self, id: ConnId, name: &str, text: &str) -> Result<Value, ConfigError> {
        let gone = || Err(ConfigError::one(name, "the connection is gone"));
        self.with(id, |c| c.set_param(name, text))
            .unwrap_or_else(gone)
    }

    /// Take a connection's trace since the last call.
    pub fn take_trace(&mut self, id: ConnId) -> Vec<crate::trace::Record> {
        self.slot(id)
            .and_then(|s| s.conn.as_mut())
            .map(Conn::take_trace)
            .unwrap_or_default()
    }

    fn with<R>(&mut self, id: ConnId, call: impl FnOnce(&mut Conn) -> R) -> Option<R> {
        let conn = self.slot(id)?.conn.as_mut()?;
        let result = call(conn);
        self.touch(id.index);
        Some(result)
    }
}

// Output.
impl Endpoint {
    /// Frames that the carrier takes now.
    pub fn set_room(&mut self, room: u32) {
        self.room = room;
    }

    /// The next segment to send. Connections take turns, one segment each.
    #[must_use]
    pub fn poll_transmit(&mut self, now: Time, out: &mut [u8]) -> Option<Datagram> {
        if self.room == 0 {
            return None;
        }
        if let Some(reply) = self.replies.pop_front() {
            self.room -= 1;
            out[..reply.len].copy_from_slice(&reply.bytes[..reply.len]);
            return Some(Datagram {
                ip: reply.ip,
                len: reply.len,
                conn: None,
            });
        }
        while let Some(i) = self.ready.pop_front() {
            let slot = &mut self.slots[i as usize];
            let sent = match slot.conn.as_mut() {
                Some(conn) => conn.poll_transmit(now, &mut self.head, out),
                None => {
                    slot.ready = false;
                    continue;
                }
            };
            match sent {
                Some(Transmit::Bytes(len)) => {
                    self.ready.push_back(i);
                    self.room -= 1;
                    self.touch(i);
                    return self.datagram(i, len);
                }
                Some(Transmit::Packet { .. }) => {
                    self.count_drop("packet stores need a lane runner")
                }
                None => {
                    slot.ready = false;
                    let at = slot.conn.as_ref().map_or(Time::NEVER, Conn::poll_timeout);
                    self.deadlines.set(i, at);
                    self.bury(i);
                }
            }
        }
        None
    }

    fn datagram(&self, i: u32, len: usize) -> Option<Datagram> {
        let t = self.slots[i as usize].conn.as_ref()?.tuple();
        let ip = IpInfo {
            src: *t.local.ip(),
            dst: *t.remote.ip(),
            proto: t.proto,
            ttl: TTL,
        };
        Some(Datagram {
            ip,
            len,
            conn: Some(self.id(i)),
        })
    }

    /// The next deadline; [`Time::ZERO`] (at once) while something waits to be polled.
    #[must_use]
    pub fn poll_timeout(&self) -> Time {
        if !self.ready.is_empty() || !self.replies.is_empty() {
            return Time::ZERO;
        }
        self.deadlines.first().map_or(Time::NEVER, |(at, _)| at)
    }

    /// The next thing that an application has to learn.
    pub fn poll_event(&mut self) -> Option<(ConnId, Event)> {
        while let Some(&i) = self.noisy.front() {
            let id = self.id(i);
            let slot = &mut self.slots[i as usize];
            let silent = slot.conn.is_none() || slot.orphan || slot.embryo;
            if silent || slot.news == News::default() {
                slot.news = News::default();
                slot.noisy = false;
                self.noisy.pop_front();
                continue;
            }
            let news = &mut slot.news;
            let event = if core::mem::take(&mut news.opened) {
                slot.listener.map_or(Event::Connected, Event::Accepted)
            } else if core::mem::take(&mut news.readable) {
                Event::Readable
            } else if core::mem::take(&mut news.eof) {
                Event::PeerClosed
            } else if core::mem::take(&mut news.writable) {
                Event::Writable
            } else {
                Event::Closed(news.ended.take().flatten())
            };
            return Some((id, event));
        }
        None
    }
}

/// An address that means "any of ours".
pub(crate) const ANY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
