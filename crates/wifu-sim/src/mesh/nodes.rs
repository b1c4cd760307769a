//! The nodes, and when each wants to be called.

use super::address::address;
use super::clock::Clock;
use super::events::{Class, What};
use super::flow::Flow;
use core::net::SocketAddrV4;
use std::sync::Arc;
use wifu_engine::{Blueprint, Conn, ConnId, Endpoint, EndpointConfig, Event};
use wifu_node::{FlowKey, Half, Node};
use wifu_wire::{Note, Time};

/// No number.
pub(crate) const NONE: u32 = u32::MAX;

/// All nodes.
pub(crate) struct Nodes {
    pub(crate) all: Vec<Node>,
    /// Per node, its number as a host, or [`NONE`].
    numbers: Vec<u32>,
    /// Those that are to be called ever, in the order of the flows: ends of flows come first.
    hosts: Vec<Host>,
    /// Lines that handlers wrote, by node.
    pub(crate) lines: Vec<(u16, String)>,
    /// Per node, whether no composition's handlers and lanes run there.
    pub(crate) unserved: Vec<bool>,
}

/// A node that splits, and what its halves run.
pub(crate) struct Splitting {
    pub(crate) node: u16,
    /// By [`Half`].
    pub(crate) halves: [Arc<Blueprint>; 2],
    /// When it forgets all connections.
    pub(crate) restart: Option<Time>,
}

struct Host {
    node: u16,
    /// When its outstanding wake-up is due; others in the queue are outdated.
    armed: Time,
}

impl Nodes {
    /// So many nodes on which nothing runs.
    pub(crate) fn new(count: usize) -> Nodes {
        Nodes {
            // People count from one.
            all: (1..=count).map(|n| Node::new(n as u16)).collect(),
            numbers: vec![NONE; count],
            hosts: Vec::new(),
            lines: Vec::new(),
            unserved: vec![false; count],
        }
    }

    /// Give a node an endpoint, unless it has one.
    pub(crate) fn settle(&mut self, node: u16, seed: u64, mtu: u32, unserved: Option<Note>) {
        let here = &mut self.all[usize::from(node)];
        if here.end().is_some() {
            return;
        }
        let config = EndpointConfig {
            seed,
            node: u32::from(node),
            mtu,
            unserved,
            lanes: here.lanes().is_some(),
            ..EndpointConfig::default()
        };
        here.set_end(Endpoint::new(config));
        self.number(node);
    }

    /// The number of a node as a host.
    fn number(&mut self, node: u16) -> u32 {
        let number = &mut self.numbers[usize::from(node)];
        if *number == NONE {
            *number = self.hosts.len() as u32;
            self.hosts.push(Host {
                node,
                armed: Time::NEVER,
            });
        }
        *number
    }

    /// The endpoint of a node where flows end.
    #[inline]
    pub(crate) fn endpoint(&mut self, node: u16) -> &mut Endpoint {
        let end = self.all[usize::from(node)].end_mut();
        end.expect("flows end at nodes with endpoints")
    }

    /// The same, to look at.
    #[inline]
    pub(crate) fn endpoint_of(&self, node: u16) -> &Endpoint {
        let end = self.all[usize::from(node)].end();
        end.expect("flows end at nodes with endpoints")
    }

    /// Whether a node between the ends of a flow splits its connection.
    pub(crate) fn splits(&self, node: u16, flow: &Flow) -> bool {
        let number = flow.blueprint.as_deref().map(|b| b.number);
        let split = self.all[usize::from(node)].split();
        let takes = |n| split.is_some_and(|s| s.takes(n));
        ![flow.src, flow.dst].contains(&node) && number.is_some_and(takes)
    }

    /// What applications at a node have to learn.
    #[inline]
    pub(crate) fn poll_event(&mut self, node: u16) -> Option<(ConnId, Event)> {
        self.all[usize::from(node)].end_mut()?.poll_event()
    }

    /// The lane of a node for the data of a flow.
    pub(crate) fn lane_of(&self, node: u16, flow: &Flow, number: usize) -> Option<&Conn> {
        let lanes = self.all[usize::from(node)].lanes()?;
        let (from, to) = (address(flow.src), address(flow.dst));
        let port = Flow::port(number as u32);
        let mut all = lanes.all();
        let mine = |key: &&FlowKey| {
            let ends = (*key.source.ip(), *key.target.ip(), key.target.port());
            ends == (from, to, port)
        };
        all.find(|(key, _)| mine(key)).map(|(_, conn)| conn)
    }

    /// A half of a flow's connection at a node that splits it.
    pub(crate) fn half_of(
        &self,
        node: u16,
        half: Half,
        flow: &Flow,
        number: usize,
    ) -> Option<&Conn> {
        let split = self.all[usize::from(node)].split()?;
        let local = SocketAddrV4::new(address(flow.dst), Flow::port(number as u32));
        let remote = SocketAddrV4::new(address(flow.src), flow.account.port?);
        split.conn(local.into(), remote.into(), half)
    }

    /// The node whose wake-up it is; `None` if that is outdated.
    #[inline]
    pub(crate) fn wakes(&mut self, now: Time, number: u32) -> Option<u16> {
        let host = &mut self.hosts[number as usize];
        if host.armed != now {
            return None;
        }
        host.armed = Time::NEVER;
        Some(host.node)
    }

    /// A node is to be woken at `at`, or as soon as possible if that has passed.
    #[inline]
    pub(crate) fn arm(&mut self, clock: &mut Clock, node: u16, at: Time) {
        if at == Time::NEVER {
            return;
        }
        let number = self.number(node);
        let at = at.max(clock.now);
        let host = &mut self.hosts[number as usize];
        if at < host.armed {
            host.armed = at;
            clock.push(at, Class::Wake, What::Wake(number));
        }
    }
}
