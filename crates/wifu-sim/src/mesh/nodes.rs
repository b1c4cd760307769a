//! What runs on the nodes: endpoints where flows end, and chains of handlers. It knows nothing of
//! links and routes.

use super::clock::Clock;
use super::events::{Class, What};
use super::hop::{Asked, Passage};
use std::collections::BTreeMap;
use wifu_core::Chain;
use wifu_engine::{Endpoint, EndpointConfig};
use wifu_node::{Down, Lanes};
use wifu_wire::{Note, Time};

/// No endpoint.
pub(crate) const NONE: u32 = u32::MAX;

/// A node.
pub(crate) struct Node {
    /// Number of its host, or [`NONE`].
    pub(crate) host: u32,
    /// The hooks that its chain uses.
    pub(crate) asked: Asked,
    pub(crate) chain: Option<Box<Chain>>,
    /// When its chain's next event is due.
    pub(crate) chain_at: Time,
    pub(crate) lanes: Option<Box<Lanes>>,
    /// When its lanes' next event is due.
    pub(crate) lanes_at: Time,
    /// What a lane is handing down at this moment.
    pub(crate) going: Option<Going>,
    /// Lanes are asked before the end when both may have something to send, every other time.
    pub(crate) lanes_first: bool,
    /// No composition's handlers run here.
    pub(crate) unserved: bool,
}

/// What a lane is handing down at this moment.
#[derive(Clone, Copy)]
pub(crate) struct Going {
    pub(crate) down: Down,
    /// No link took it.
    pub(crate) refused: bool,
}

/// A node where flows end, numbered in the order of the flows.
pub(crate) struct Host {
    pub(crate) node: u16,
    pub(crate) endpoint: Endpoint,
    /// When its outstanding wake-up is due; others in the queue are outdated.
    armed: Time,
}

/// All nodes.
pub(crate) struct Nodes {
    pub(crate) all: Vec<Node>,
    hosts: Vec<Host>,
    /// Held packets, as they were when a chain took them.
    pub(crate) held: BTreeMap<u32, Passage>,
    /// A packet while a chain sees it.
    pub(crate) octets: Vec<u8>,
    /// Lines that handlers wrote, by node.
    pub(crate) lines: Vec<(u16, String)>,
    /// Flows of packets of which lanes made copies, while they are counted.
    pub(crate) copies: Vec<u32>,
}

impl Nodes {
    /// So many nodes on which nothing runs.
    pub(crate) fn new(count: usize) -> Nodes {
        let node = |_| Node {
            host: NONE,
            asked: Asked::default(),
            chain: None,
            chain_at: Time::NEVER,
            lanes: None,
            lanes_at: Time::NEVER,
            going: None,
            lanes_first: false,
            unserved: false,
        };
        Nodes {
            all: (0..count).map(node).collect(),
            hosts: Vec::new(),
            held: BTreeMap::new(),
            octets: Vec::new(),
            lines: Vec::new(),
            copies: Vec::new(),
        }
    }

    /// Give a node an endpoint, unless it has one.
    pub(crate) fn settle(&mut self, node: u16, seed: u64, mtu: u32, unserved: Option<Note>) {
        let number = &mut self.all[usize::from(node)].host;
        if *number != NONE {
            return;
        }
        *number = self.hosts.len() as u32;
        let config = EndpointConfig {
            seed,
            node: u32::from(node),
            mtu,
            unserved,
            lanes: self.all[usize::from(node)].lanes.is_some(),
            ..EndpointConfig::default()
        };
        self.hosts.push(Host {
            node,
            endpoint: Endpoint::new(config),
            armed: Time::NEVER,
        });
    }

    /// The number of a node's host, or [`NONE`].
    #[inline]
    pub(crate) fn number(&self, node: u16) -> u32 {
        self.all[usize::from(node)].host
    }

    /// A host by its number.
    #[inline]
    pub(crate) fn host(&mut self, number: u32) -> &mut Host {
        &mut self.hosts[number as usize]
    }

    /// The endpoint of a node that has one.
    pub(crate) fn endpoint(&mut self, node: u16) -> &mut Endpoint {
        let number = self.number(node);
        &mut self.host(number).endpoint
    }

    /// The same, to look at.
    pub(crate) fn endpoint_of(&self, node: u16) -> &Endpoint {
        &self.hosts[self.number(node) as usize].endpoint
    }

    /// The host's wake-up; false if it is outdated.
    pub(crate) fn wake(&mut self, now: Time, number: u32) -> bool {
        let host = self.host(number);
        if host.armed != now {
            return false;
        }
        host.armed = Time::NEVER;
        // Deadlines move later far more often than earlier: the wake-up stays where it was, and
        // here it turns out that nothing is due yet.
        if host.endpoint.poll_timeout() <= now {
            host.endpoint.handle_timeout(now);
        }
        true
    }

    /// The host is to be woken at `at`, or as soon as possible if that has passed.
    pub(crate) fn arm(&mut self, clock: &mut Clock, number: u32, at: Time) {
        let at = at.max(clock.now);
        let host = self.host(number);
        if at < host.armed {
            host.armed = at;
            clock.push(at, Class::Wake, What::Wake(number));
        }
    }
}
