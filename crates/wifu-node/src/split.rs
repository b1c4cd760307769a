//! Split-TCP: a node on the way answers the openers of connections that are meant for another, as
//! if it were that one, opens a second connection there in the opener's name, and moves octets
//! between the two (I-TCP; RFC 3135 section 2.4).

use crate::Protocol;
use crate::ways::Ways;
use core::net::{IpAddr, SocketAddr};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use wifu_core::ip;
use wifu_engine::store::StoreKind;
use wifu_engine::{
    Blueprint, Conn, ConnId, ConnInfo, Endpoint, EndpointConfig, Event, RouteFacts, State, Ticket,
    Tuple,
};
use wifu_wire::{FrameFacts, Notes, Time};

/// Limits and identity of a node's splitter.
#[derive(Clone, Debug)]
pub struct SplitConfig {
    /// Seed of its random streams.
    pub seed: u64,
    /// This node, for people.
    pub node: u32,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Most connections between two ends at once; openers of further ones are dropped and counted.
    pub most: usize,
}

impl Default for SplitConfig {
    fn default() -> SplitConfig {
        SplitConfig {
            seed: 1,
            node: 0,
            mtu: 1500,
            most: 1_024,
        }
    }
}

/// One of the two halves of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Half {
    /// With the end that opened it.
    Near,
    /// With the end that it was opened to.
    Far,
}

impl Half {
    /// Both.
    pub const ALL: [Half; 2] = [Half::Near, Half::Far];

    /// The name in scenarios and series.
    pub fn name(self) -> &'static str {
        ["near", "far"][self as usize]
    }

    fn other(self) -> Half {
        [Half::Far, Half::Near][self as usize]
    }
}

/// What one half's connections did, all together, those that are open included.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct HalfCounters {
    /// Octets of its peer's that were moved to the other half.
    pub bytes: u64,
    /// Segments that it sent, repetitions and acknowledgements included.
    pub segments: u64,
    /// Data segments that it sent again.
    pub retransmissions: u64,
    /// Its retransmission timeouts.
    pub timeouts: u64,
}

impl HalfCounters {
    fn add(&mut self, info: &ConnInfo) {
        self.segments += info.counters.segments_out;
        self.retransmissions += u64::from(info.retransmits);
        self.timeouts += u64::from(info.timeouts.unwrap_or(0));
    }
}

/// The account of a splitter.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct SplitCounters {
    /// Packets that it took off their way.
    pub taken: u64,
    /// Packets that it sent.
    pub sent: u64,
    /// Connections whose near half opened.
    pub accepted: u64,
    /// Of these, those whose far half opened, too.
    pub joined: u64,
    /// Of these, those whose far half did not: no route, refused, or no answer. The near half was
    /// reset.
    pub unopened: u64,
    /// Connections with both halves of which one failed; the other one was reset.
    pub broken: u64,
    /// Connections that both ends closed.
    pub closed: u64,
    /// Connections that are there now.
    pub open: u64,
    /// Connections that were forgotten when it was started again.
    pub forgotten: u64,
    /// The most octets of one connection that were ever here, received or sent on and not
    /// acknowledged, in both directions together.
    pub most_held: u64,
    /// How long octets waited here, received by one half and never sent by the other: octets by
    /// microseconds. Over the octets of both halves it is the mean of one.
    pub waited_octet_us: u64,
    /// The halves with those that open connections.
    pub near: HalfCounters,
    /// The halves with those whom they are opened to.
    pub far: HalfCounters,
}

impl SplitCounters {
    fn half(&mut self, half: Half) -> &mut HalfCounters {
        match half {
            Half::Near => &mut self.near,
            Half::Far => &mut self.far,
        }
    }
}

/// One half of a connection.
#[derive(Clone, Copy, Default)]
struct Side {
    /// `None`: it was let go, or there is none yet.
    conn: Option<ConnId>,
    open: bool,
    /// Its peer sends no more.
    heard_all: bool,
    /// Nothing more is written to it.
    shut: bool,
}

/// A connection between two ends that passes here.
struct Pair {
    /// As its near half sees it: the local end is the one that it was opened to.
    tuple: Tuple,
    sides: [Side; 2],
    /// Octets that one half has received and the other one never sent, since when.
    waiting: u64,
    since: Time,
}

impl Pair {
    /// Octets that wait, by nanoseconds since it was last looked at: on fast wires it is looked at
    /// every microsecond.
    fn waited(&self, now: Time) -> u128 {
        u128::from(self.waiting) * u128::from((now - self.since).0)
    }
}

/// The halves of all connections that a node splits. It takes every packet of its protocol numbers
/// that is for somebody else: both directions of a connection have to pass the node from the first
/// packet on. What is of no connection that it knows is refused, at both ends.
pub struct Split {
    end: Endpoint,
    config: SplitConfig,
    /// Compositions of near and far halves, each with one protocol number.
    served: Vec<[Arc<Blueprint>; 2]>,
    pairs: Vec<Option<Pair>>,
    free: Vec<u32>,
    whose: BTreeMap<ConnId, (u32, Half)>,
    counters: SplitCounters,
    /// How long octets waited, until each pair was last looked at: octets by nanoseconds.
    waited: u128,
    /// Ways to ends, for an endpoint that begins anew.
    routes: BTreeMap<IpAddr, RouteFacts>,
    /// What endpoints before this one dropped.
    dropped: BTreeMap<&'static str, u64>,
    scratch: Box<[u8]>,
}

/// Octets that are moved at once.
const PIECE: usize = 16_384;
/// Connections whose near half is being opened.
const BACKLOG: usize = 128;

impl Split {
    /// One that splits nothing yet.
    pub fn new(config: SplitConfig) -> Split {
        Split {
            end: Split::endpoint(&config, 0),
            config,
            served: Vec::new(),
            pairs: Vec::new(),
            free: Vec::new(),
            whose: BTreeMap::new(),
            counters: SplitCounters::default(),
            waited: 0,
            routes: BTreeMap::new(),
            dropped: BTreeMap::new(),
            scratch: vec![0; PIECE].into(),
        }
    }

    /// That of the n-th start: initial numbers are others each time.
    fn endpoint(config: &SplitConfig, n: u64) -> Endpoint {
        Endpoint::new(EndpointConfig {
            seed: config.seed.wrapping_add(n),
            node: config.node,
            mtu: config.mtu,
            max_conns: config.most.saturating_mul(2),
            between: true,
            ..EndpointConfig::default()
        })
    }

    /// Whether connections can have halves of these compositions, of which `near` answers.
    ///
    /// # Errors
    /// What stands against it.
    pub fn fits(near: &Protocol, far: &Protocol) -> Result<(), String> {
        for p in [near, far] {
            let name = &p.ends.name;
            if p.has_hops() {
                return Err(format!(
                    "{name} brings handlers or a lane, which know connections from end to end: it \
                     can't be split"
                ));
            }
            if p.ends.wire.name() != "tcp" || p.ends.store_kind() != StoreKind::Octets {
                return Err(format!(
                    "{name} is no TCP (wire = \"tcp\", store = \"octets\"): it can't be split"
                ));
            }
        }
        if near.ends.number != far.ends.number {
            return Err(format!(
                "{} and {} have different IP protocol numbers: both halves have one",
                near.ends.name, far.ends.name
            ));
        }
        Ok(())
    }

    /// Split the connections with the protocol number of these compositions, which fit
    /// ([`Split::fits`]).
    pub fn serve(&mut self, near: Arc<Blueprint>, far: Arc<Blueprint>) {
        debug_assert_eq!(near.number, far.number, "they fit");
        self.end.listen_everywhere(&near, BACKLOG);
        self.served.push([near, far]);
    }

    /// Whether packets of this protocol number are taken off their way.
    #[inline]
    pub fn takes(&self, proto: u8) -> bool {
        self.served.iter().any(|s| s[0].number == proto)
    }

    /// Whether its connections want to hear what the radio overhears, and what the driver reports.
    pub(crate) fn listens(&self) -> (bool, bool) {
        let blueprints = || self.served.iter().flatten();
        let overhears = blueprints().any(|b| b.overhears());
        (overhears, blueprints().any(|b| b.hears("status")))
    }

    /// A packet that was taken off its way.
    pub(crate) fn read(&mut self, ways: &mut impl Ways, packet: Ticket, facts: FrameFacts) {
        let (now, ip) = (ways.now(), ways.ip(packet));
        let octets = ways.octets(packet);
        if let Some(at) = ip::header(octets) {
            self.counters.taken += 1;
            self.end.handle_frame(now, &ip, &octets[at..], facts);
        }
    }

    /// The next packet to send, if there is one.
    pub(crate) fn emit(&mut self, ways: &mut impl Ways) -> Option<(Ticket, Notes)> {
        let (ticket, notes, of) = ways.emit_between(&mut self.end)?;
        self.counters.sent += 1;
        if let Some(&(number, _)) = of.and_then(|id| self.whose.get(&id)) {
            self.weigh(ways.now(), number);
        }
        Some((ticket, notes))
    }

    /// Count for how long a connection's octets have waited here since it was last looked at: as
    /// often as they become more or less.
    fn weigh(&mut self, now: Time, number: u32) {
        let Some(pair) = self.pairs[number as usize].as_mut() else {
            return;
        };
        self.waited += pair.waited(now);
        let conns = pair.sides.iter().filter_map(|side| side.conn);
        let waits = conns.filter_map(|id| self.end.conn(id)).map(|conn| {
            let unread = conn.board().app.unread;
            u64::from(unread) + u64::from(conn.unsent())
        });
        (pair.waiting, pair.since) = (waits.sum(), now);
    }

    /// Its connections, to tell them what happens.
    pub(crate) fn end_mut(&mut self) -> &mut Endpoint {
        &mut self.end
    }

    /// When the next thing is due.
    pub(crate) fn poll_timeout(&mut self, ways: &mut impl Ways) -> Time {
        let room = match self.end.is_waiting() {
            true => ways.tell_room(&mut self.end),
            false => Time::NEVER,
        };
        room.min(self.end.poll_timeout())
    }

    /// What is due.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if self.end.poll_timeout() <= now {
            self.end.handle_timeout(now);
        }
    }

    /// The way to an end, for the connections with it and those to come.
    pub fn set_route(&mut self, now: Time, to: impl Into<IpAddr>, route: RouteFacts) {
        let to = to.into();
        self.routes.insert(to, route);
        self.end.set_route(now, to, route);
    }

    /// Forget all connections, as one that crashes and is started again: the ends learn of it as
    /// soon as one of them sends.
    pub fn restart(&mut self, now: Time) {
        let pairs = core::mem::take(&mut self.pairs);
        for pair in pairs.into_iter().flatten() {
            self.counters.forgotten += 1;
            self.waited += pair.waited(now);
            for half in Half::ALL {
                if let Some(info) = pair.sides[half as usize]
                    .conn
                    .and_then(|c| self.end.info(c))
                {
                    self.counters.half(half).add(&info);
                }
            }
        }
        self.free.clear();
        self.whose.clear();
        self.dropped = self.drops();
        self.end = Split::endpoint(&self.config, now.0 | 1);
        for [near, _] in &self.served {
            self.end.listen_everywhere(near, BACKLOG);
        }
        for (to, route) in &self.routes {
            self.end.set_route(now, *to, *route);
        }
    }

    /// What it did until now.
    pub fn counters(&self, now: Time) -> SplitCounters {
        let mut sum = self.counters;
        let waited = self.pairs.iter().flatten().map(|pair| pair.waited(now));
        let waited = self.waited + waited.sum::<u128>();
        sum.waited_octet_us = u64::try_from(waited / 1000).unwrap_or(u64::MAX);
        for pair in self.pairs.iter().flatten() {
            sum.open += 1;
            for half in Half::ALL {
                if let Some(info) = pair.sides[half as usize]
                    .conn
                    .and_then(|c| self.end.info(c))
                {
                    sum.half(half).add(&info);
                }
            }
        }
        sum
    }

    /// Packets that were dropped, by reason.
    pub fn drops(&self) -> BTreeMap<&'static str, u64> {
        let mut all = self.dropped.clone();
        for (reason, n) in self.end.drops() {
            *all.entry(reason).or_default() += n;
        }
        all
    }

    /// A half of a connection between these ends, as its near half sees them.
    pub fn conn(&self, local: SocketAddr, remote: SocketAddr, half: Half) -> Option<&Conn> {
        let ends = |p: &&Pair| (p.tuple.local, p.tuple.remote) == (local, remote);
        let pair = self.pairs.iter().flatten().find(ends)?;
        self.end.conn(pair.sides[half as usize].conn?)
    }

    /// What the connections have to tell; octets are moved. True if there was anything.
    pub(crate) fn news(&mut self, ways: &mut impl Ways) -> bool {
        let (now, mut any) = (ways.now(), false);
        while let Some((id, event)) = self.end.poll_event() {
            any = true;
            if let Event::Accepted(_) = event {
                self.accepted(id, ways);
                continue;
            }
            let Some(&(number, half)) = self.whose.get(&id) else {
                continue;
            };
            let Some(pair) = self.pairs[number as usize].as_mut() else {
                continue;
            };
            let side = &mut pair.sides[half as usize];
            match event {
                Event::Accepted(_) => {}
                Event::Connected => {
                    side.open = true;
                    self.counters.joined += 1;
                    self.splice(now, number, Half::Near);
                }
                Event::Readable => self.splice(now, number, half),
                Event::Writable => self.splice(now, number, half.other()),
                Event::PeerClosed | Event::Closed(None) => {
                    side.heard_all = true;
                    self.splice(now, number, half);
                }
                Event::Closed(Some(_)) => self.failed(now, number, half),
            }
        }
        any
    }

    /// A near half opened: the far one follows.
    fn accepted(&mut self, id: ConnId, ways: &mut impl Ways) {
        let now = ways.now();
        let Some(tuple) = self.end.conn(id).map(Conn::tuple) else {
            return;
        };
        self.counters.accepted += 1;
        let far = self.served.iter().find(|s| s[0].number == tuple.proto);
        let routed = match tuple.local.ip() {
            IpAddr::V4(to) => ways.route(to).is_some(),
            IpAddr::V6(_) => false,
        };
        let opened = far.filter(|_| routed).and_then(|[_, far]| {
            let opened = self.end.connect(now, far, tuple.remote, tuple.local);
            opened.ok()
        });
        let Some(far) = opened else {
            self.counters.unopened += 1;
            self.forget(id, Half::Near);
            return self.end.abort(now, id);
        };
        let number = self.free.pop().unwrap_or_else(|| {
            self.pairs.push(None);
            (self.pairs.len() - 1) as u32
        });
        self.whose.insert(id, (number, Half::Near));
        self.whose.insert(far, (number, Half::Far));
        let side = |conn, open| Side {
            conn: Some(conn),
            open,
            ..Side::default()
        };
        self.pairs[number as usize] = Some(Pair {
            tuple,
            sides: [side(id, true), side(far, false)],
            waiting: 0,
            since: now,
        });
    }

    /// Move what a half has from its peer to the other one, as far as that takes it: what does not
    /// fit stays where it is and closes the window of who sends it.
    fn splice(&mut self, now: Time, number: u32, from: Half) {
        self.weigh(now, number);
        self.carry(now, number, from);
        for half in Half::ALL {
            self.rest(now, number, half);
        }
    }

    fn carry(&mut self, now: Time, number: u32, from: Half) {
        let Some(pair) = self.pairs[number as usize].as_mut() else {
            return;
        };
        let [source, target] = [from, from.other()].map(|h| pair.sides[h as usize]);
        let (Some(a), Some(b), true) = (source.conn, target.conn, target.open) else {
            return;
        };
        let end = &mut self.end;
        let held = |end: &Endpoint| -> u64 {
            let boards = [a, b].map(|c| end.conn(c).map(Conn::board));
            let of = boards.into_iter().flatten();
            of.map(|b| u64::from(b.app.unread) + u64::from(b.unacked()))
                .sum()
        };
        self.counters.most_held = self.counters.most_held.max(held(end));
        loop {
            let space: usize = end.write_space(b).iter().map(|s| s.len()).sum();
            let n = end.read(now, a, &mut self.scratch[..space.min(PIECE)]);
            if n == 0 {
                break;
            }
            let wrote = end.write(now, b, &self.scratch[..n]);
            debug_assert_eq!(wrote, n, "there was room");
            self.counters.half(from).bytes += n as u64;
        }
        let unread = end.readable(a).iter().any(|s| !s.is_empty());
        if source.heard_all && !unread && !target.shut {
            pair.sides[from.other() as usize].shut = true;
            end.shutdown_write(now, b);
        }
    }

    /// A half is let go that is over, or on whose way only old segments may still be, once all that
    /// it has was read.
    fn rest(&mut self, now: Time, number: u32, half: Half) {
        let Some(pair) = self.pairs[number as usize].as_mut() else {
            return;
        };
        let side = &mut pair.sides[half as usize];
        let (Some(id), true, true) = (side.conn, side.heard_all, side.shut) else {
            return;
        };
        let state = self.end.conn(id).map(Conn::state);
        let unread = self.end.readable(id).iter().any(|s| !s.is_empty());
        if unread || !matches!(state, None | Some(State::TimeWait | State::Closed)) {
            return;
        }
        side.conn = None;
        let over = pair.sides.iter().all(|s| s.conn.is_none());
        self.forget(id, half);
        self.end.close(now, id);
        if over {
            self.counters.closed += 1;
            self.pairs[number as usize] = None;
            self.free.push(number);
        }
    }

    /// A half failed, or could not be opened: the other one is reset.
    fn failed(&mut self, now: Time, number: u32, half: Half) {
        self.weigh(now, number);
        let Some(pair) = self.pairs[number as usize].take() else {
            return;
        };
        self.free.push(number);
        match pair.sides[Half::Far as usize].open {
            true => self.counters.broken += 1,
            false => self.counters.unopened += 1,
        }
        for which in Half::ALL {
            let Some(id) = pair.sides[which as usize].conn else {
                continue;
            };
            self.forget(id, which);
            match which == half {
                true => self.end.close(now, id),
                false => self.end.abort(now, id),
            }
        }
    }

    /// Count what a connection did that is looked after no more.
    fn forget(&mut self, id: ConnId, half: Half) {
        self.whose.remove(&id);
        if let Some(info) = self.end.info(id) {
            self.counters.half(half).add(&info);
        }
    }
}
