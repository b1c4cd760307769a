//! A chain of nodes in virtual time: node 0 sends to node `hops`, those between forward, or run a
//! lane. The ends hold engine connections directly; no endpoint, no radio, no operating system.
//!
//! Links have a rate, a delay, a queue and a loss probability per direction. A frame is also heard
//! by the neighbour on the transmitter's other side. Handlers see every frame that enters a link,
//! as bytes. In steady state nothing is allocated.

mod air;
mod app;

pub use air::{Air, Hop, Link, LinkFacts, LinkPlan};
use air::{Event, Happening};
pub use app::{App, octet};

use core::net::{Ipv4Addr, SocketAddrV4};
use core::num::NonZeroU8;
use std::sync::Arc;
use wifu_engine::board::SiteFacts;
use wifu_engine::{Blueprint, Conn, Ticket, Transmit, Tuple};
use wifu_wire::{FrameFacts, Head, Neighbour, Pseudo, Rate, Rng, Seq, Span, Time, Wire};

/// Called for every frame that enters a link; false drops it.
pub type Handler = Box<dyn FnMut(&mut Hop<'_>) -> bool>;

/// What a lane runner makes of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Waits in the lane.
    Data,
    /// Passes the lane by, before all data; the lane of the other direction sees it.
    Control,
    /// For the lane of the next node only; goes no further.
    Local,
}

/// The lanes of a hop protocol.
pub struct LanePlan {
    /// What a lane is made of.
    pub blueprint: Arc<Blueprint>,
    /// Sorts frames by header and payload length.
    pub classify: fn(&dyn Wire, &Head, usize) -> Class,
}

/// What to build.
pub struct Plan {
    /// Seed of all randomness.
    pub seed: u64,
    /// One per hop, for both directions.
    pub links: Vec<LinkPlan>,
    /// The protocol of the source and of the sink (they may differ in receiver parts).
    pub ends: [Arc<Blueprint>; 2],
    /// Lanes at every sending node, if any.
    pub lanes: Option<LanePlan>,
    /// Octets that the source's application writes.
    pub octets: u64,
    /// TTL of a fresh packet.
    pub ttl: u8,
}

/// A lane and what was seen of it.
#[derive(Default)]
pub struct Lane {
    conn: Option<Box<Conn>>,
    /// Packets refused because the lane was full.
    pub overflows: u64,
    /// The most packets that ever waited.
    pub most: u32,
}

impl Lane {
    /// The lane's connection, once a packet came.
    pub fn conn(&self) -> Option<&Conn> {
        self.conn.as_deref()
    }
}

#[derive(Default)]
struct Node {
    end: Option<Box<Conn>>,
    /// By direction of travel: onward, back.
    lanes: [Lane; 2],
    wake: Time,
}

/// The chain.
pub struct Chain {
    now: Time,
    nodes: Vec<Node>,
    air: Air,
    wires: [Arc<dyn Wire>; 2],
    lanes: Option<LanePlan>,
    handlers: Vec<Handler>,
    app: App,
    head: Head,
    tuples: [Tuple; 2],
    rng: Rng,
    mtu: u32,
    /// When the source sent data, as far as there was room: reserve with
    /// [`Chain::keep_departures`].
    pub departures: Vec<Time>,
}

/// Largest IP packet on every link, octets.
pub const MTU: u32 = 1500;
const IP: usize = wifu_wire::ipv4::HEADER;

impl Chain {
    /// Build it. Nothing moves before [`Chain::start`].
    ///
    /// # Panics
    /// If a connection cannot be opened.
    pub fn new(plan: Plan) -> Chain {
        let hops = plan.links.len();
        let at =
            |node: usize, port| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, node as u8 + 1), port);
        let (source, sink) = (at(0, 1000), at(hops, 2000));
        let proto = 253;
        let tuples = [
            Tuple {
                proto,
                local: source,
                remote: sink,
            },
            Tuple {
                proto,
                local: sink,
                remote: source,
            },
        ];
        let rng = Rng::new(plan.seed);
        let mut chain = Chain {
            now: Time(1_000_000),
            nodes: (0..=hops).map(|_| Node::default()).collect(),
            air: Air::new(&plan.links, &rng, plan.ttl),
            wires: plan.ends.clone().map(|b| Arc::clone(&b.wire)),
            lanes: plan.lanes,
            handlers: Vec::new(),
            app: App::new(plan.octets),
            head: Head::default(),
            tuples,
            rng,
            mtu: MTU,
            departures: Vec::new(),
        };
        for (end, blueprint) in plan.ends.iter().enumerate() {
            let node = end * hops;
            let site = chain.site(node, end == 0);
            let rng = chain.rng.split(["source", "sink"][end]);
            let conn = blueprint.open(tuples[end], site, rng);
            chain.nodes[node].end = Some(Box::new(conn.expect("the blueprint was checked")));
        }
        chain
    }

    /// Add a handler, after those that are there.
    pub fn handle(&mut self, handler: Handler) {
        self.handlers.push(handler);
    }

    /// Keep the first `n` departures of data.
    pub fn keep_departures(&mut self, n: usize) {
        self.departures = Vec::with_capacity(n);
    }

    /// Nothing that `node` sends onward, or that comes back to it, arrives for so long.
    pub fn cut(&mut self, node: usize, time: Span) {
        let until = self.now + time;
        self.air.cut(node, true, until);
        self.air.cut(node + 1, false, until);
    }

    /// `node` sends onward at another rate from its next frame on.
    pub fn set_rate(&mut self, node: usize, rate: Rate) {
        self.air.set_rate(node, true, rate);
    }

    fn site(&self, node: usize, onward: bool) -> SiteFacts {
        let last = self.nodes.len() - 1;
        let next = if onward {
            node + 1
        } else {
            node.wrapping_sub(1)
        };
        SiteFacts {
            me: node as u32 + 1,
            next_hop: neighbour(next),
            route_hops: NonZeroU8::new(if onward { last - node } else { node } as u8),
            last_hop: next == if onward { last } else { 0 },
            rate: Some(self.air.rate(node, onward)),
            mtu: self.mtu,
            isn: Seq(self.rng.split("isn").split_n(node as u64).next_u32()),
            ..SiteFacts::default()
        }
    }

    /// The sink listens, the source connects.
    pub fn start(&mut self) {
        let (last, now) = (self.nodes.len() - 1, self.now);
        if let Some(conn) = &mut self.nodes[last].end {
            conn.listen(now);
        }
        if let Some(conn) = &mut self.nodes[0].end {
            conn.connect(now);
        }
        self.pump(last);
        self.pump(0);
    }

    /// Run until `stop` says so, at most until `limit`; whether it said so.
    ///
    /// # Panics
    /// If a node does not come to rest at one instant.
    pub fn run(&mut self, limit: Span, mut stop: impl FnMut(&Chain) -> bool) -> bool {
        let end = self.now + limit;
        let (mut instant, mut steps) = (self.now, 0u32);
        while !stop(self) {
            let wake = self
                .nodes
                .iter()
                .map(|n| n.wake)
                .fold(Time::NEVER, Time::min);
            let at = wake.min(self.air.next());
            if at > end {
                return false;
            }
            self.now = self.now.max(at);
            steps = if self.now == instant { steps + 1 } else { 0 };
            instant = self.now;
            assert!(
                steps < 100_000,
                "a node spins at {} s",
                instant.as_secs_f64()
            );
            if wake <= self.now {
                self.wake();
            } else if let Some(event) = self.air.pop() {
                self.handle_event(&event);
            }
        }
        true
    }

    /// Run until everything was delivered and the source is done.
    pub fn run_to_end(&mut self, limit: Span) -> bool {
        self.run(limit, |c| c.app.done())
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The connection of the source.
    pub fn source(&self) -> &Conn {
        self.nodes[0]
            .end
            .as_ref()
            .expect("it is only lent within calls")
    }

    /// The same, e.g. to start its trace.
    pub fn source_mut(&mut self) -> &mut Conn {
        let conn = &mut self.nodes[0].end;
        conn.as_mut().expect("it is only lent within calls")
    }

    /// The connection of the sink.
    pub fn sink(&self) -> &Conn {
        let last = self.nodes.len() - 1;
        self.nodes[last]
            .end
            .as_ref()
            .expect("it is only lent within calls")
    }

    /// The lane of a node; `onward` is from source to sink.
    pub fn lane(&self, node: usize, onward: bool) -> &Lane {
        &self.nodes[node].lanes[usize::from(!onward)]
    }

    /// The applications.
    pub fn app(&self) -> &App {
        &self.app
    }

    /// The link by which `node` sends; `onward` is from source to sink.
    pub fn link(&self, node: usize, onward: bool) -> &Link {
        self.air.link(node, onward)
    }

    /// Hash of everything that was transmitted, with its times.
    pub fn trace_hash(&self) -> u64 {
        self.air.hash
    }

    /// Where everything stands, for a test that fails.
    pub fn report(&self) -> String {
        let conn = |c: &Conn| {
            let b = c.board();
            let (state, limited) = (b.conn.state.name(), b.app.limited.name());
            format!(
                "{state}, limited by {limited}, {:?}, {:?}, {:?}",
                b.tx,
                b.rx,
                c.counters()
            )
        };
        let lanes = (0..self.nodes.len()).filter_map(|n| Some((n, self.lane(n, true).conn()?)));
        let lanes = lanes.map(|(n, c)| format!("\nlane {n}: {} {:?}", conn(c), c.board().app));
        format!(
            "{} s, {} octets read, ended {:?}\nsource {}\nsink {}{}",
            self.now.as_secs_f64(),
            self.app.octets_read(),
            self.app.ended(),
            conn(self.source()),
            conn(self.sink()),
            lanes.collect::<String>(),
        )
    }

    fn wake(&mut self) {
        let now = self.now;
        for i in 0..self.nodes.len() {
            if self.nodes[i].wake > now {
                continue;
            }
            let node = &mut self.nodes[i];
            let lanes = node.lanes.iter_mut().filter_map(|l| l.conn.as_mut());
            for conn in node.end.iter_mut().chain(lanes) {
                conn.handle_timeout(now);
            }
            self.pump(i);
        }
    }

    fn handle_event(&mut self, event: &Event) {
        match event.what {
            Happening::Done { node, onward } => {
                let hear = self.lanes.is_some();
                self.air.done(self.now, node, onward, hear);
                self.pump(node);
            }
            Happening::Arrive { node, frame } => self.arrive(node, frame),
            Happening::Hear { node, frame } => self.hear(node, frame),
        }
    }

    fn is_end(&self, node: usize, onward: bool) -> bool {
        node == if onward { self.nodes.len() - 1 } else { 0 }
    }

    /// Parse a frame into `self.head`; the header's length, if it is in order.
    fn parse(&mut self, frame: u32) -> Option<(usize, FrameFacts)> {
        let f = self.air.frame(frame);
        let from = usize::from(!f.onward);
        let (wire, tuple) = (&self.wires[from], &self.tuples[from]);
        let (src, dst) = (*tuple.local.ip(), *tuple.remote.ip());
        let pseudo = Pseudo {
            src,
            dst,
            proto: tuple.proto,
        };
        let n = wire.parse(&f.bytes, &mut self.head).ok()?;
        self.head.ttl = f.ttl;
        let facts = FrameFacts {
            transmitter: neighbour(f.transmitter),
            bytes: (f.bytes.len() + IP) as u16,
            ..FrameFacts::default()
        };
        wire.verify(&pseudo, &f.bytes).then_some((n, facts))
    }

    fn class(&self, frame: u32, header: usize) -> Option<Class> {
        let f = self.air.frame(frame);
        let wire = &self.wires[usize::from(!f.onward)];
        let plan = self.lanes.as_ref()?;
        Some((plan.classify)(&**wire, &self.head, f.bytes.len() - header))
    }

    fn arrive(&mut self, node: usize, frame: u32) {
        let Some((header, facts)) = self.parse(frame) else {
            self.air.give_back(frame);
            return;
        };
        let (now, onward) = (self.now, self.air.frame(frame).onward);
        let class = self.class(frame, header);
        // What passes is news for the lane that sends the other way.
        if let (Some(Class::Control | Class::Local), Some(lane)) =
            (class, &mut self.nodes[node].lanes[usize::from(onward)].conn)
        {
            let payload = &self.air.frame(frame).bytes[header..];
            let _ = lane.handle_segment(now, &mut self.head, payload, &facts);
            free(lane, &mut self.air);
            let _ = self.parse(frame); // a lane may have hidden the acknowledgement
        }
        if self.is_end(node, onward) {
            let payload = &self.air.frame(frame).bytes[header..];
            if let Some(conn) = &mut self.nodes[node].end {
                let _ = conn.handle_segment(now, &mut self.head, payload, &facts);
            }
            self.air.give_back(frame);
        } else if class == Some(Class::Local) {
            self.air.give_back(frame);
        } else {
            self.air.frame_mut(frame).ttl -= 1;
            self.submit(node, frame, class);
        }
        self.pump(node);
    }

    fn hear(&mut self, node: usize, frame: u32) {
        if let Some((header, facts)) = self.parse(frame) {
            let f = self.air.frame(frame);
            let payload = &f.bytes[header..];
            let Node { end, lanes, .. } = &mut self.nodes[node];
            let lane = &mut lanes[usize::from(!f.onward)].conn;
            for conn in lane.iter_mut().chain(end) {
                conn.handle_overheard(self.now, &self.head, payload, &facts);
            }
        }
        self.air.give_back(frame);
        self.pump(node);
    }

    /// A frame to send: into the lane if it is data of a hop protocol, else to the link.
    fn submit(&mut self, node: usize, frame: u32, class: Option<Class>) {
        match class {
            None => self.enter(node, frame, false),
            Some(Class::Data) => self.push(node, frame),
            Some(_) => self.enter(node, frame, true),
        }
    }

    fn push(&mut self, node: usize, frame: u32) {
        let onward = self.air.frame(frame).onward;
        let number = self.head.seq;
        let at = usize::from(!onward);
        if self.nodes[node].lanes[at].conn.is_none()
            && let Some(plan) = &self.lanes
        {
            let rng = self.rng.split("lane").split_n(node as u64);
            let conn = plan
                .blueprint
                .open(self.tuples[at], self.site(node, onward), rng);
            let conn = conn.expect("the blueprint was checked");
            self.nodes[node].lanes[at].conn = Some(Box::new(conn));
        }
        let lane = &mut self.nodes[node].lanes[at];
        let Some(conn) = &mut lane.conn else { return };
        if conn.push(self.now, Ticket(frame), number) {
            lane.most = lane.most.max(conn.board().app.queued);
        } else {
            lane.overflows += 1;
            self.air.give_back(frame);
        }
    }

    /// Handlers, then the link.
    fn enter(&mut self, node: usize, frame: u32, first: bool) {
        let now = self.now;
        let keep = {
            let (link, f) = self.air.link_and_frame(node, frame);
            let link = link.facts();
            let onward = f.onward;
            let mut hop = Hop {
                now,
                node,
                onward,
                bytes: &mut f.bytes,
                link,
            };
            self.handlers.iter_mut().all(|h| h(&mut hop))
        };
        if keep {
            self.air.enter(now, node, frame, first);
        } else {
            self.air.give_back(frame);
        }
    }

    /// Let a node come to rest: applications, ends, lanes, until nothing moves.
    fn pump(&mut self, node: usize) {
        while self.pump_end(node) | self.pump_lane(node, true) | self.pump_lane(node, false) {}
        let n = &self.nodes[node];
        let lanes = n.lanes.iter().filter_map(|l| l.conn.as_ref());
        let conns = n.end.iter().chain(lanes);
        self.nodes[node].wake = conns.map(|c| c.poll_timeout()).fold(Time::NEVER, Time::min);
    }

    fn pump_end(&mut self, node: usize) -> bool {
        let Some(mut conn) = self.nodes[node].end.take() else {
            return false;
        };
        let (onward, now) = (node == 0, self.now);
        let mut moved = if onward {
            self.app.send(now, &mut conn)
        } else {
            self.app.receive(now, &mut conn)
        };
        loop {
            if self.lanes.is_some() && onward {
                let lane = &self.nodes[node].lanes[0].conn;
                conn.set_local_room(lane.as_ref().map_or(1, |l| l.board().app.room));
            }
            let frame = self.air.take(node, onward);
            let out = &mut self.air.frame_mut(frame).bytes;
            out.resize(self.mtu as usize - IP, 0);
            let Some(Transmit::Bytes(n)) = conn.poll_transmit(now, &mut self.head, out) else {
                self.air.give_back(frame);
                break;
            };
            out.truncate(n);
            moved = true;
            let data = conn.last_sent().is_some_and(|s| s.kind.is_data());
            if onward && data && self.departures.len() < self.departures.capacity() {
                self.departures.push(now);
            }
            let class = match self.parse(frame) {
                Some((header, _)) => self.class(frame, header),
                None => panic!("a connection sent what its own wire refuses"),
            };
            self.submit(node, frame, class);
        }
        let eof = self.app.eof_at();
        self.app.hear_news(now, onward, conn.take_news());
        moved |= self.app.eof_at() != eof;
        self.nodes[node].end = Some(conn);
        moved
    }

    fn pump_lane(&mut self, node: usize, onward: bool) -> bool {
        let at = usize::from(!onward);
        let Some(mut conn) = self.nodes[node].lanes[at].conn.take() else {
            return false;
        };
        let mut moved = false;
        loop {
            conn.set_local_room(self.air.link(node, onward).room());
            let Some(Transmit::Packet { ticket, keep }) =
                conn.poll_transmit(self.now, &mut self.head, &mut [])
            else {
                break;
            };
            moved = true;
            let frame = if keep {
                self.air.copy(ticket.0)
            } else {
                ticket.0
            };
            conn.wire()
                .patch(&self.head, &mut self.air.frame_mut(frame).bytes);
            self.enter(node, frame, false);
        }
        free(&mut conn, &mut self.air);
        self.nodes[node].lanes[at].conn = Some(conn);
        moved
    }
}

/// A node as its neighbours know it.
fn neighbour(node: usize) -> Option<Neighbour> {
    Neighbour::new(1, [2, 0, 0, 0, 0, node as u8 + 1])
}

/// Take back the packets that a lane kept and needs no more.
fn free(conn: &mut Conn, air: &mut Air) {
    for ticket in conn.take_freed() {
        air.give_back(ticket.0);
    }
}
