//! Two hosts, one path, virtual time.
//!
//! ```text
//! A --access-- router --bottleneck-- B
//! ```
//!
//! Each host is one [`Endpoint`]; packets are real IP packets, serialised at their IP length;
//! nothing reads a clock. The same description gives the same events, octet for octet.

use crate::app::{Outcome, Running};
use crate::builder::{Flow, MockBuilder, Open};
use crate::fault::{Faults, Impair, Lost, Tamper};
use crate::link::{Link, LinkSpec};
use crate::packet::{Packet, Side};
use crate::queue::{Class, EventQueue};
use crate::record::{Capture, Row};
use crate::rules::Rules;
use core::net::{Ipv4Addr, SocketAddrV4};
use std::collections::BTreeMap;
use trace::Trace;
use wifu_engine::{Conn, ConnId, Endpoint, EndpointConfig, Facts};
use wifu_wire::{Head, Seq, Span, Time, ipv4};

mod network;
mod run;
mod trace;

/// Packets that a host's own queue holds before the endpoint is told to wait.
const HOST_QUEUE: usize = 1000;

/// First port of flows that choose none.
const PORT: u16 = 10_000;

/// Why a run returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Nothing is left to happen.
    Idle,
    /// The time is up.
    Time,
}

enum Happening {
    /// A packet reaches a node: 0 is A, the last one B.
    Arrive {
        packet: Packet,
        at: usize,
    },
    /// A delayed packet goes on.
    Forward {
        packet: Packet,
        at: usize,
    },
    /// A held packet is let go.
    Release {
        side: Side,
        number: u64,
    },
    Wake {
        side: Side,
        generation: u64,
    },
    Open {
        flow: usize,
        side: Side,
    },
    Work {
        flow: usize,
        side: Side,
    },
}

struct Host {
    endpoint: Endpoint,
    wake: Time,
    generation: u64,
    sent: u64,
    restarts: u64,
}

/// What the sender of some data was like when last seen.
#[derive(Clone, Copy, Default)]
struct Seen {
    cwnd: u32,
    ssthresh: u32,
    mss: u32,
    una: Seq,
    timeouts: u32,
}

/// A flow at work, by side.
struct Lane {
    flow: Flow,
    ports: [u16; 2],
    apps: [Running; 2],
    iss: [Option<Seq>; 2],
    /// End of the data sent so far.
    high: [Option<Seq>; 2],
    seen: [Seen; 2],
    acked: [Option<Seq>; 2],
    segments: [u64; 2],
    again: [u64; 2],
    asked_at: Time,
}

/// Counts of one direction of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Data segments sent, repetitions included.
    pub segments: u64,
    /// Data segments that repeat data.
    pub retransmissions: u64,
    /// Retransmission timeouts; `None` if no part has a retransmission timer.
    pub timeouts: Option<u32>,
    /// Congestion window when last seen, octets; `None` if no part has one.
    pub cwnd: Option<u32>,
    /// Slow start threshold when last seen, octets; `None` if no part has a window.
    pub ssthresh: Option<u32>,
}

/// The network at work.
pub struct Mock {
    now: Time,
    start: Time,
    seed: u64,
    mtu: u32,
    queue: EventQueue<Happening>,
    hosts: [Host; 2],
    /// Links from A to B; by side, the direction that this side sends in.
    path: Vec<[Link; 2]>,
    faults: Faults,
    held: [Vec<(Packet, u32)>; 2],
    lanes: Vec<Lane>,
    by_ports: BTreeMap<[u16; 2], usize>,
    trace: Trace,
    capture: Option<Capture>,
    head: Head,
    out: Vec<u8>,
}

fn address(side: Side) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 1 + side.index() as u8)
}

fn links(path: &[LinkSpec]) -> Vec<[Link; 2]> {
    // A host's own packets wait in the host, however long the queue of the router behind is.
    let (first, last) = (0, path.len() - 1);
    let own = |spec: &LinkSpec| Link::new(LinkSpec::new(spec.rate, spec.delay));
    let link = |i: usize, spec: &LinkSpec| {
        let forth = if i == first {
            own(spec)
        } else {
            Link::new(*spec)
        };
        let back = if i == last {
            own(spec)
        } else {
            Link::new(*spec)
        };
        [forth, back]
    };
    path.iter().enumerate().map(|(i, s)| link(i, s)).collect()
}

impl Mock {
    pub(crate) fn new(b: MockBuilder) -> Mock {
        let mut faults = Faults::new(b.seed);
        (faults.impair, faults.rules, faults.tamper) = (b.impair, b.rules, b.tamper);
        let mut mock = Mock {
            now: b.start,
            start: b.start,
            seed: b.seed,
            mtu: b.mtu,
            queue: EventQueue::new(b.seed),
            hosts: Side::BOTH.map(|side| Host {
                endpoint: endpoint(b.seed, side, b.mtu, 0),
                wake: Time::NEVER,
                generation: 0,
                sent: 0,
                restarts: 0,
            }),
            path: links(&b.path),
            faults,
            held: [Vec::new(), Vec::new()],
            lanes: Vec::new(),
            by_ports: BTreeMap::new(),
            trace: Trace::new(b.start, b.record),
            capture: Capture::new(&b.capture),
            head: Head::default(),
            out: vec![0; 65_536],
        };
        for flow in b.flows {
            mock.add(flow);
        }
        mock
    }

    /// Add a flow; returns its number.
    pub fn add(&mut self, flow: Flow) -> usize {
        let n = self.lanes.len();
        let ports = flow.ports.unwrap_or([PORT.wrapping_add(n as u16); 2]);
        let drops = flow.drops.iter().map(|(side, index)| (n, *side, *index));
        self.faults.drops.extend(drops);
        let app = |side: Side| Running::new(flow.apps[side.index()].clone(), n, side.index());
        let (start, open) = (self.now + flow.start, flow.open);
        self.lanes.push(Lane {
            ports,
            apps: Side::BOTH.map(app),
            iss: [None; 2],
            high: [None; 2],
            seen: [Seen::default(); 2],
            acked: [None; 2],
            segments: [0; 2],
            again: [0; 2],
            asked_at: start,
            flow,
        });
        self.by_ports.insert(ports, n);
        for side in Side::BOTH {
            let active = match open {
                Open::A => side == Side::A,
                Open::B => side == Side::B,
                Open::Both => true,
            };
            if active {
                let event = Happening::Open { flow: n, side };
                self.queue.push(start, Class::Application, n as u64, event);
            } else {
                self.listen(n, side);
            }
        }
        n
    }

    fn listen(&mut self, flow: usize, side: Side) {
        let lane = &self.lanes[flow];
        let local = SocketAddrV4::new(address(side), lane.ports[side.index()]);
        let blueprint = &lane.flow.blueprints[side.index()];
        // A flow that reuses ports finds its listener already there.
        let _ = self.hosts[side.index()]
            .endpoint
            .listen(blueprint, local, 1024);
    }
}

// What can be asked.
impl Mock {
    /// The virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Span {
        self.now - self.start
    }

    /// How many flows there are.
    pub fn flows(&self) -> usize {
        self.lanes.len()
    }

    /// What became of one end of a flow so far.
    pub fn outcome(&self, flow: usize, side: Side) -> &Outcome {
        &self.lanes[flow].apps[side.index()].outcome
    }

    /// A flow's connection at one end, while the endpoint has it.
    pub fn conn(&self, flow: usize, side: Side) -> Option<&Conn> {
        let id = self.id(flow, side)?;
        self.hosts[side.index()].endpoint.conn(id)
    }

    /// Its id at that end's endpoint.
    pub fn id(&self, flow: usize, side: Side) -> Option<ConnId> {
        self.lanes[flow].apps[side.index()].id
    }

    /// An end's endpoint.
    pub fn endpoint(&self, side: Side) -> &Endpoint {
        &self.hosts[side.index()].endpoint
    }

    /// Counts of what `from` sent in a flow.
    pub fn tally(&self, flow: usize, from: Side) -> Tally {
        let (lane, i) = (&self.lanes[flow], from.index());
        let blueprint = &lane.flow.blueprints[i];
        let windowed = blueprint.writes(Facts::WIN);
        Tally {
            segments: lane.segments[i],
            retransmissions: lane.again[i],
            timeouts: blueprint.times_out().then_some(lane.seen[i].timeouts),
            cwnd: windowed.then_some(lane.seen[i].cwnd),
            ssthresh: windowed.then_some(lane.seen[i].ssthresh),
        }
    }

    /// When a flow was asked to open.
    pub fn asked_at(&self, flow: usize) -> Time {
        self.lanes[flow].asked_at
    }

    /// How long a flow lasted towards `to`: from the call to connect to the last octet that there
    /// was to read; while some of them are missing, the time so far.
    pub fn lasted(&self, flow: usize, to: Side) -> Span {
        let (got, asked_at) = (self.outcome(flow, to), self.asked_at(flow));
        let until = if self.complete(flow, to) {
            got.last_read_at.unwrap_or(asked_at)
        } else {
            self.now.max(asked_at)
        };
        until - asked_at
    }

    /// Octets that `from` is to write in all.
    pub fn asked(&self, flow: usize, from: Side) -> u64 {
        self.lanes[flow].apps[from.index()].asked()
    }

    /// Whether `to` read all that the other end was to write.
    pub fn complete(&self, flow: usize, to: Side) -> bool {
        self.outcome(flow, to).read >= self.asked(flow, to.other())
    }

    /// Useful bits per second that `to` got: its octets over the time that the flow lasted
    /// (Behaviour 13). `None` if it took none.
    pub fn goodput(&self, flow: usize, to: Side) -> Option<f64> {
        let (read, span) = (self.outcome(flow, to).read, self.lasted(flow, to));
        (span > Span::ZERO).then(|| read as f64 * 8.0 / span.as_secs_f64())
    }

    /// Whether no host has a connection left.
    pub fn quiet(&self) -> bool {
        self.hosts.iter().all(|h| h.endpoint.is_empty())
    }

    /// Packets that the network lost, by reason.
    pub fn lost(&self) -> &BTreeMap<Lost, u64> {
        &self.trace.lost
    }

    /// Rules of the file that no packet has matched yet.
    pub fn rules_left(&self) -> usize {
        self.faults.rules.left()
    }

    /// Data segments that were to be lost and have not been sent: flow, sender, index from 0.
    pub fn drops_left(&self) -> &[(usize, Side, u64)] {
        &self.faults.drops
    }

    /// The rows so far, if they are kept.
    pub fn rows(&self) -> &[Row] {
        self.trace.rows.as_deref().unwrap_or_default()
    }

    /// The capture file so far, if it is kept.
    pub fn capture(&self) -> &[u8] {
        self.capture.as_ref().map_or(&[], Capture::octets)
    }

    /// Check that both ends of a flow got exactly what the other wrote and ended in order.
    ///
    /// # Errors
    /// What is not as it should be.
    pub fn verify(&self, flow: usize) -> Result<(), String> {
        for side in Side::BOTH {
            let (got, peer) = (self.outcome(flow, side), self.outcome(flow, side.other()));
            let who = format!("flow {}, {side:?}", flow + 1);
            if let Some(at) = got.broken_at {
                return Err(format!("{who}: byte {at} is wrong"));
            }
            if got.read != peer.written {
                let (read, written) = (got.read, peer.written);
                // Of one that stood still that says more than how far it came.
                let last = got.last_read_at.map_or(String::new(), |at| {
                    format!(", the last of them at {:.3} s", at.as_secs_f64())
                });
                return Err(format!("{who}: read {read} of {written} bytes{last}"));
            }
            if let Some(fault) = got.fault() {
                return Err(format!("{who}: ended with {fault:?}"));
            }
        }
        // Who waits for octets that never come closes nothing, which is the least of it.
        for side in Side::BOTH {
            let got = self.outcome(flow, side);
            if !got.eof || !got.closed {
                return Err(format!("flow {}, {side:?}: not closed", flow + 1));
            }
        }
        Ok(())
    }
}

// What can be changed while it runs.
impl Mock {
    /// Ask this about every packet from now on.
    pub fn set_tamper(&mut self, tamper: Option<Tamper>) {
        self.faults.tamper = tamper;
    }

    /// Random faults of the packets that `from` sends, from now on.
    pub fn set_impair(&mut self, from: Side, impair: Impair) {
        self.faults.impair[from.index()] = impair;
    }

    /// Other rules from now on.
    pub fn set_rules(&mut self, rules: Rules) {
        self.faults.rules = rules;
    }

    /// Another path from now on; packets on their way arrive as they would have.
    ///
    /// # Panics
    /// If there are no links.
    pub fn set_path(&mut self, path: &[LinkSpec]) {
        assert!(!path.is_empty(), "a path has at least one link");
        self.path = links(path);
    }

    /// An IP packet from nowhere arrives at `to`.
    pub fn inject(&mut self, to: Side, octets: &[u8]) {
        if let Ok((ip, segment)) = ipv4::parse(octets) {
            let now = self.now;
            self.hosts[to.index()]
                .endpoint
                .handle_packet(now, &ip, segment);
            self.pump(to);
        }
    }

    /// A host loses all its connections, as if its machine had been switched off and on. It
    /// listens again for the flows it listened for.
    pub fn restart(&mut self, side: Side) {
        let (seed, mtu) = (self.seed, self.mtu);
        let host = &mut self.hosts[side.index()];
        host.restarts += 1;
        host.endpoint = endpoint(seed, side, mtu, host.restarts);
        (host.wake, host.generation) = (Time::NEVER, host.generation + 1);
        for n in 0..self.lanes.len() {
            let lane = &mut self.lanes[n];
            lane.apps[side.index()].id = None;
            let listens = match lane.flow.open {
                Open::A => side == Side::B,
                Open::B => side == Side::A,
                Open::Both => false,
            };
            if listens {
                self.listen(n, side);
            }
        }
    }

    /// Call an endpoint directly, then let it send and let its applications work.
    pub fn with<R>(&mut self, side: Side, call: impl FnOnce(&mut Endpoint, Time) -> R) -> R {
        let result = call(&mut self.hosts[side.index()].endpoint, self.now);
        self.pump(side);
        result
    }
}

fn endpoint(seed: u64, side: Side, mtu: u32, restarts: u64) -> Endpoint {
    Endpoint::new(EndpointConfig {
        seed: seed.wrapping_add(restarts << 32),
        node: 1 + side.index() as u32,
        mtu,
        ..EndpointConfig::default()
    })
}
