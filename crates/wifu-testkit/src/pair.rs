//! Two endpoints in virtual time with a wire between them that a test can spoil.

use crate::seg::Seg;
use core::net::{Ipv4Addr, SocketAddrV4};
use std::collections::BTreeMap;
use std::sync::Arc;
use wifu_engine::signal::Sent;
use wifu_engine::{Blueprint, Conn, ConnId, Endpoint, EndpointConfig, Event, Fault};
use wifu_wire::{AnyIpInfo, Ecn, IpInfo, Rng, Span, Time};

/// The client's address; the server's is one higher.
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// The server's address.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// A segment on its way.
#[derive(Clone, Debug)]
pub struct Flying {
    /// 0: the client sent it; 1: the server.
    pub from: usize,
    /// When it was handed to the wire.
    pub at: Time,
    /// Number of the segment in its direction, from 0.
    pub number: u64,
    /// Its IP header.
    pub ip: AnyIpInfo,
    /// The segment.
    pub bytes: Vec<u8>,
}

impl Flying {
    /// The segment, decoded.
    pub fn seg(&self) -> Seg {
        Seg::parse(&self.bytes)
    }
}

/// A segment that was handed to the wire.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When.
    pub at: Time,
    /// 0: the client sent it; 1: the server.
    pub from: usize,
    /// What became of it.
    pub fate: Fate,
    /// The ECN field that it left with.
    pub ecn: Ecn,
    /// The segment.
    pub seg: Seg,
}

/// What [`Pair::step`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Something happened, and more will.
    Going,
    /// Nothing will happen any more.
    Quiet,
    /// The next thing lies beyond the limit.
    Limit,
}

/// What becomes of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It arrives after the wire's delay.
    Deliver,
    /// It is lost.
    Drop,
    /// It arrives later by this much.
    Late(Span),
    /// It arrives after so many later segments of its direction, at the latest after 0.2 s.
    Behind(u32),
    /// It arrives twice.
    Twice,
    /// One bit is wrong.
    Corrupt,
    /// A queue on the way marks it (RFC 3168), or drops it if its sender would not understand.
    Mark,
}

type Spoil = Box<dyn FnMut(&Flying) -> Fate>;

/// What one side's application does and saw.
#[derive(Default)]
pub struct App {
    /// Octets that it will write.
    pub to_write: Vec<u8>,
    /// How many of them it wrote.
    pub written: usize,
    /// Close as soon as all is written.
    pub close_after: bool,
    /// It closed.
    pub closed: bool,
    /// Octets that it read.
    pub read: Vec<u8>,
    /// It does not read while this is set.
    pub stalled: bool,
    /// It saw the end of the peer's stream.
    pub eof: bool,
    /// Its connection ended, so.
    pub ended: Option<Option<Fault>>,
    /// Its connection, once there is one.
    pub conn: Option<ConnId>,
    /// It lets go of the connection once that ended, or both sides have closed.
    pub let_go: bool,
}

impl App {
    /// Let the application read, write and close as far as it can.
    fn act(&mut self, now: Time, end: &mut Endpoint) {
        let Some(id) = self.conn else { return };
        while !self.stalled {
            let [a, b] = end.readable(id);
            let n = a.len() + b.len();
            self.read.extend_from_slice(a);
            self.read.extend_from_slice(b);
            if n == 0 {
                break;
            }
            end.consumed(now, id, n);
        }
        while self.written < self.to_write.len() {
            let n = end.write(now, id, &self.to_write[self.written..]);
            self.written += n;
            if n == 0 {
                break;
            }
        }
        let open = end.conn(id).is_some_and(|c| c.opened_at().is_some());
        if self.close_after && open && !self.closed && self.written == self.to_write.len() {
            self.closed = true;
            end.shutdown_write(now, id);
        }
    }

    fn hear(&mut self, id: ConnId, event: Event) {
        match event {
            Event::Accepted(_) | Event::Connected => self.conn = Some(id),
            Event::PeerClosed => self.eof = true,
            Event::Closed(fault) => self.ended = Some(fault),
            Event::Readable | Event::Writable => {}
        }
    }
}

/// Two endpoints, virtual time, one wire.
pub struct Pair {
    /// Client and server.
    pub ends: [Endpoint; 2],
    /// Their applications (one connection at a time is driven).
    pub apps: [App; 2],
    /// Applications of further connections, by connection.
    pub crowd: [BTreeMap<ConnId, App>; 2],
    /// Makes the application of each accepted connection, which then joins the crowd.
    pub usher: Option<Box<dyn FnMut() -> App>>,
    /// The present.
    pub now: Time,
    /// One-way delay.
    pub delay: Span,
    /// What becomes of each segment.
    pub spoil: Spoil,
    flying: BTreeMap<(Time, u64), Flying>,
    /// Segments that wait for later ones to pass: direction, how many, where they fly.
    held: Vec<(usize, u32, (Time, u64))>,
    sequence: u64,
    numbers: [u64; 2],
    /// Segments handed to the wire, per direction.
    pub sent: [u64; 2],
    /// What was handed to the wire, once recording is on.
    pub seen: Vec<Seen>,
    /// Keep [`Pair::seen`] and [`Pair::departures`].
    pub record: bool,
    /// What each side's connection says that it sent while recording was on, from when its
    /// application knows of the connection.
    pub departures: [Vec<(Time, Sent)>; 2],
    /// The connections' counts of segments when they were last asked.
    asked: [u64; 2],
    rng: Rng,
    /// Steps at the present instant: time that stands still is a bug.
    still: u32,
}

impl Pair {
    /// A perfect wire of 10 ms.
    pub fn new(seed: u64) -> Pair {
        let end = |node| {
            Endpoint::new(EndpointConfig {
                seed,
                node,
                ..EndpointConfig::default()
            })
        };
        Pair {
            ends: [end(1), end(2)],
            apps: [App::default(), App::default()],
            crowd: [BTreeMap::new(), BTreeMap::new()],
            usher: None,
            now: Time(1_000_000),
            delay: Span::MILLI * 10,
            spoil: Box::new(|_| Fate::Deliver),
            flying: BTreeMap::new(),
            held: Vec::new(),
            sequence: 0,
            numbers: [0; 2],
            sent: [0; 2],
            seen: Vec::new(),
            record: false,
            departures: [Vec::new(), Vec::new()],
            asked: [0; 2],
            rng: Rng::new(seed).split("wire"),
            still: 0,
        }
    }

    /// The connection of one side.
    ///
    /// # Panics
    /// If there is none.
    pub fn conn(&self, side: usize) -> &Conn {
        let id = self.apps[side].conn.expect("a connection");
        self.ends[side].conn(id).expect("the connection exists")
    }

    /// Connect the client to a listening server, both of this blueprint.
    pub fn connect(&mut self, blueprint: &Arc<Blueprint>) -> ConnId {
        let server = SocketAddrV4::new(SERVER, 80);
        self.ends[1]
            .listen(blueprint, server, 16)
            .expect("the port is free");
        let id = self.dial(blueprint);
        self.apps[0].conn = Some(id);
        id
    }

    /// Connect the client only.
    pub fn dial(&mut self, blueprint: &Arc<Blueprint>) -> ConnId {
        let (local, remote) = (SocketAddrV4::new(CLIENT, 0), SocketAddrV4::new(SERVER, 80));
        self.ends[0]
            .connect(self.now, blueprint, local, remote)
            .expect("a port is free")
    }

    /// Run until nothing happens any more or `limit` is reached; true if it went quiet.
    pub fn run(&mut self, limit: Time) -> bool {
        loop {
            match self.step(limit) {
                Step::Going => {}
                Step::Quiet => return true,
                Step::Limit => return false,
            }
        }
    }

    /// Let happen what happens at the next instant.
    ///
    /// # Panics
    /// If time stands still.
    pub fn step(&mut self, limit: Time) -> Step {
        for side in 0..2 {
            self.pump(side);
        }
        let wire = self
            .flying
            .first_key_value()
            .map_or(Time::NEVER, |(k, _)| k.0);
        let timers = self.ends[0].poll_timeout().min(self.ends[1].poll_timeout());
        let next = wire.min(timers);
        if next == Time::NEVER {
            return Step::Quiet;
        }
        if next > limit {
            self.now = limit;
            return Step::Limit;
        }
        self.still = if next > self.now { 0 } else { self.still + 1 };
        assert!(self.still < 100_000, "time stands still at {:?}", self.now);
        self.now = self.now.max(next);
        while let Some(entry) = self.flying.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let f = entry.remove();
            self.ends[1 - f.from].handle_packet(self.now, &f.ip, &f.bytes);
            self.pump(1 - f.from);
        }
        for end in &mut self.ends {
            end.handle_timeout(self.now);
        }
        Step::Going
    }

    /// Let one side's applications and endpoint do what they can.
    pub fn pump(&mut self, side: usize) {
        loop {
            self.events(side);
            self.apps[side].act(self.now, &mut self.ends[side]);
            let mut out = [0u8; 9_216];
            let mut any = false;
            while let Some(d) = self.ends[side].poll_transmit(self.now, &mut out) {
                any = true;
                if self.record {
                    self.note(side);
                }
                self.launch(side, d.ip, &out[..d.len]);
            }
            if !any {
                return;
            }
        }
    }

    /// Note a departure, if the segment was one of the connection's.
    fn note(&mut self, side: usize) {
        let conn = self.apps[side].conn.and_then(|id| self.ends[side].conn(id));
        let Some(conn) = conn else { return };
        let count = conn.counters().segments_out;
        let new = count != core::mem::replace(&mut self.asked[side], count);
        let sent = conn.last_sent().filter(|_| new);
        self.departures[side].extend(sent.map(|s| (self.now, s)));
    }

    fn events(&mut self, side: usize) {
        while let Some((id, event)) = self.ends[side].poll_event() {
            if let (Event::Accepted(_), Some(usher)) = (event, &mut self.usher) {
                self.crowd[side].insert(id, usher());
            }
            let end = &mut self.ends[side];
            match self.crowd[side].get_mut(&id) {
                Some(app) => {
                    app.hear(id, event);
                    app.act(self.now, end);
                    if app.let_go && (app.ended.is_some() || app.eof && app.closed) {
                        end.close(self.now, id);
                    }
                }
                None => self.apps[side].hear(id, event),
            }
        }
    }

    /// Put a segment on the wire, as if `side` had sent it.
    pub fn launch(&mut self, side: usize, ip: AnyIpInfo, bytes: &[u8]) {
        let mut f = Flying {
            from: side,
            at: self.now,
            number: self.numbers[side],
            ip,
            bytes: bytes.to_vec(),
        };
        self.numbers[side] += 1;
        self.sent[side] += 1;
        let at = self.now + self.delay;
        let fate = (self.spoil)(&f);
        if self.record {
            self.seen.push(Seen {
                at: self.now,
                from: side,
                fate,
                ecn: f.ip.ecn,
                seg: f.seg(),
            });
        }
        match fate {
            Fate::Mark if f.ip.ecn != Ecn::NotEct => {
                f.ip.ecn = Ecn::Ce;
                self.fly(at, f);
            }
            Fate::Drop | Fate::Mark => {}
            Fate::Deliver => self.fly(at, f),
            Fate::Late(more) => self.fly(at + more, f),
            Fate::Behind(others) => {
                self.fly(at + Span::MILLI * 200, f);
                let place = (at + Span::MILLI * 200, self.sequence);
                self.held.push((side, others, place));
                return;
            }
            Fate::Twice => {
                self.fly(at, f.clone());
                self.fly(at, f);
            }
            Fate::Corrupt => {
                let bit = self.rng.below(f.bytes.len() as u64 * 8) as usize;
                f.bytes[bit / 8] ^= 1 << (bit % 8);
                self.fly(at, f);
            }
        }
        self.passed(side, at);
    }

    /// One more segment passed those that are held back.
    fn passed(&mut self, side: usize, at: Time) {
        for i in (0..self.held.len()).rev() {
            if self.held[i].0 != side {
                continue;
            }
            self.held[i].1 -= 1;
            if self.held[i].1 == 0 {
                let (_, _, place) = self.held.swap_remove(i);
                if let Some(f) = self.flying.remove(&place) {
                    self.fly(at, f);
                }
            }
        }
    }

    /// Let a forged segment arrive at the other side now, past wire and records.
    pub fn inject(&mut self, from: usize, seg: &Seg) {
        self.inject_as(from, seg, Ecn::NotEct);
    }

    /// The same with this ECN field.
    pub fn inject_as(&mut self, from: usize, seg: &Seg, ecn: Ecn) {
        let id = self.apps[0].conn.expect("a connection");
        let proto = self.ends[0].conn(id).map_or(0, |c| c.tuple().proto);
        let (src, dst) = if from == 0 {
            (CLIENT, SERVER)
        } else {
            (SERVER, CLIENT)
        };
        let ip = IpInfo {
            src,
            dst,
            proto,
            ttl: 64,
            ecn,
        };
        self.ends[1 - from].handle_packet(self.now, &ip, &seg.bytes(&ip));
        self.pump(1 - from);
    }

    fn fly(&mut self, at: Time, f: Flying) {
        self.sequence += 1;
        self.flying.insert((at, self.sequence), f);
    }
}

/// `n` octets that tell their own position.
pub fn pattern(n: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut bytes = Vec::with_capacity(n + 8);
    while bytes.len() < n {
        bytes.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    bytes.truncate(n);
    bytes
}
