//! The overhead of a routing daemon (Behaviour 11.4): broadcasts as OLSR sends them, HELLOs one hop
//! far, topology control messages through the whole network. What they say is not believed: routes
//! and relays are computed from what links are like, at once and for all nodes. With `withdraw` a
//! link is dropped from all tables once `misses` HELLOs in a row were lost in one of its
//! directions, and comes back with the next one.

use super::address::address;
use super::clock::Clock;
use super::events::{Class, What};
use super::flood::{Flooding, Kind};
use super::forward::Forwarding;
use super::pool::{NO_FLOW, Packet, Pool};
use super::udp::UDP;
use crate::routing::{Link, Via};
use crate::scenario::OlsrSpec;
use wifu_wire::ipv4::{self, HEADER};
use wifu_wire::{Ecn, IpInfo, Rng, Span, Time};

/// Lengths of the IP packets (Behaviour 11.4).
const HELLO: u16 = 100;
const TC: u16 = 120;
/// UDP port of OLSR (RFC 3626 3.1).
const PORT: u16 = 698;
/// Where the message begins: behind the headers of IP and UDP.
const MESSAGE: usize = HEADER + 8;

/// All daemons of the network.
pub(crate) struct Daemon {
    spec: OlsrSpec,
    rngs: Vec<Rng>,
    /// All links, with when the last HELLO came over each by radio, in the order of the list.
    links: Vec<Link>,
    heard: Vec<Time>,
    /// Index of the first link into each node; links are sorted by receiver, then sender.
    first: Vec<usize>,
    withdrawn: Vec<bool>,
    withdrawals: u64,
    flooding: Flooding,
}

impl Daemon {
    /// Daemons over these links; `rng` is split by node.
    pub(crate) fn new(spec: &OlsrSpec, links: &[Link], nodes: usize, rng: &Rng) -> Daemon {
        let streams = (0..nodes).map(|n| rng.split("olsr").split_n(n as u64));
        let mut daemon = Daemon {
            rngs: streams.collect(),
            links: Vec::new(),
            heard: Vec::new(),
            withdrawn: Vec::new(),
            withdrawals: 0,
            flooding: Flooding::new(spec.flood, nodes),
            first: vec![0; nodes + 1],
            spec: spec.clone(),
        };
        daemon.relink(links, Time::ZERO);
        daemon
    }

    /// Nodes moved: these are the links now. What is known of those that were there before stays;
    /// new ones count as heard at `now`.
    pub(crate) fn relink(&mut self, links: &[Link], now: Time) {
        let key = |l: &Link| (l.to, l.from, l.via);
        let mut new = links.to_vec();
        new.sort_by_key(key);
        let state = |l: &Link| match self.links.binary_search_by_key(&key(l), key) {
            Ok(at) => (self.heard[at], self.withdrawn[at]),
            Err(_) => (now, false),
        };
        let (heard, withdrawn) = new.iter().map(state).unzip();
        (self.heard, self.withdrawn) = (heard, withdrawn);
        for (node, first) in self.first.iter_mut().enumerate() {
            *first = new.partition_point(|l| usize::from(l.to) < node);
        }
        self.links = new;
        self.relays();
    }

    /// Who relays for whom over the links that are up.
    fn relays(&mut self) -> Vec<Link> {
        let up = self.up();
        self.flooding.relink(&up);
        up
    }

    /// A random instant within an interval: daemons do not start together.
    fn phase(&mut self, node: usize, interval: Span) -> Span {
        Span(self.rngs[node].below(interval.0))
    }

    /// RFC 3626 18.3: each interval is shortened by up to a quarter of HELLO's.
    fn gap(&mut self, node: u16, interval: Span) -> Span {
        let jitter = self.spec.hello.0 / 4;
        Span(
            interval.0
                - self.rngs[usize::from(node)]
                    .below(jitter.0 + 1)
                    .min(interval.0 / 2),
        )
    }

    fn heard(&mut self, node: u16, from: u16, now: Time) -> bool {
        let (a, b) = (
            self.first[usize::from(node)],
            self.first[usize::from(node) + 1],
        );
        let at = self.links[a..b]
            .iter()
            .position(|l| l.via == Via::Radio(node) && l.from == from);
        let Some(at) = at.map(|i| a + i) else {
            return false;
        };
        self.heard[at] = now;
        core::mem::replace(&mut self.withdrawn[at], false)
    }

    /// Withdraw what has not been heard; true if anything changed.
    fn judge(&mut self, node: u16, now: Time) -> bool {
        let limit = self.spec.hello.0 * u64::from(self.spec.misses.unwrap_or(3));
        let mut changed = false;
        for at in self.first[usize::from(node)]..self.first[usize::from(node) + 1] {
            let silent =
                matches!(self.links[at].via, Via::Radio(_)) && now - self.heard[at] > limit;
            if silent && !self.withdrawn[at] {
                self.withdrawn[at] = true;
                self.withdrawals += 1;
                changed = true;
            }
        }
        changed
    }

    /// How often a direction of a link was withdrawn, if any ever is.
    pub(crate) fn withdrawals(&self) -> Option<u64> {
        self.spec.withdraw.then_some(self.withdrawals)
    }

    /// The links that are up in both directions.
    fn up(&self) -> Vec<Link> {
        let down = |from: u16, to: u16| {
            let (a, b) = (self.first[usize::from(to)], self.first[usize::from(to) + 1]);
            (a..b).any(|i| self.links[i].from == from && self.withdrawn[i])
        };
        let links = self.links.iter().copied();
        links
            .filter(|l| !down(l.from, l.to) && !down(l.to, l.from))
            .collect()
    }

    /// Start all daemons.
    pub(crate) fn start(&mut self, clock: &mut Clock) {
        let (hello, tc) = (self.spec.hello.0, self.spec.tc.0);
        for node in 0..self.rngs.len() {
            let at = Time::ZERO + self.phase(node, hello);
            clock.push(at, Class::Application, What::Hello(node as u32));
            let at = Time::ZERO + self.phase(node, tc);
            clock.push(at, Class::Application, What::Control(node as u32));
        }
    }

    /// A node broadcasts its HELLO, and looks which neighbours it has lost.
    pub(crate) fn hello(&mut self, clock: &mut Clock, net: &mut Forwarding, node: u16) {
        self.originate(clock.now, net, node, Kind::Hello);
        let at = clock.now + self.gap(node, self.spec.hello.0);
        let what = What::Hello(u32::from(node));
        clock.push(at, Class::Application, what);
        if self.spec.withdraw && self.judge(node, clock.now) {
            self.reroute(net);
        }
    }

    /// A node broadcasts its topology control message.
    pub(crate) fn topology_control(&mut self, clock: &mut Clock, net: &mut Forwarding, node: u16) {
        self.originate(clock.now, net, node, Kind::Control);
        let at = clock.now + self.gap(node, self.spec.tc.0);
        let what = What::Control(u32::from(node));
        clock.push(at, Class::Application, what);
    }

    fn originate(&mut self, now: Time, net: &mut Forwarding, node: u16, kind: Kind) {
        let (len, interval) = match kind {
            Kind::Hello => (HELLO, self.spec.hello.0),
            Kind::Control if self.flooding.originates(node) => (TC, self.spec.tc.0),
            Kind::Control => return,
        };
        let buffer = net.pool.buffer();
        let out = &mut net.pool.octets_mut(buffer)[..usize::from(len)];
        (self.flooding).message(kind, node, interval, &mut out[MESSAGE..]);
        let id = packet(&mut net.pool, now, node, buffer, len);
        net.broadcast(now, id);
    }

    /// A broadcast was heard: it may have to be sent on, after a random time lest all relays that
    /// heard it begin together (RFC 3626 3.4.1, 18.3).
    pub(crate) fn heard_message(
        &mut self,
        clock: &mut Clock,
        net: &mut Forwarding,
        (node, from): (u16, u16),
        id: u32,
    ) {
        if net.pool[id].len == HELLO {
            if self.spec.withdraw && self.heard(node, from, clock.now) {
                self.reroute(net);
            }
            return;
        }
        let mut message = [0; TC as usize - MESSAGE];
        message.copy_from_slice(&net.pool.octets(id)[MESSAGE..usize::from(TC)]);
        if !self.flooding.heard(node, from, &mut message) {
            return;
        }
        let most = self.spec.hello.0.0 / 4;
        let wait = Span(self.rngs[usize::from(node)].below(most + 1));
        let buffer = net.pool.buffer();
        net.pool.octets_mut(buffer)[MESSAGE..usize::from(TC)].copy_from_slice(&message);
        let id = packet(&mut net.pool, clock.now, node, buffer, TC);
        clock.push(clock.now + wait, Class::Application, What::Relay(id));
    }

    /// Compute all routes anew.
    pub(crate) fn reroute(&mut self, net: &mut Forwarding) {
        net.lay_routes(&self.relays());
    }
}

/// A packet of a daemon with the message in the buffer.
fn packet(pool: &mut Pool, now: Time, node: u16, buffer: u32, len: u16) -> u32 {
    let out = &mut pool.octets_mut(buffer)[..usize::from(len)];
    let body = usize::from(len) - HEADER;
    let ip = IpInfo {
        src: address(node),
        dst: core::net::Ipv4Addr::BROADCAST,
        proto: UDP,
        ttl: 1,
        ecn: Ecn::NotEct,
    };
    ipv4::emit(&ip, body, out);
    out[HEADER..HEADER + 2].copy_from_slice(&PORT.to_be_bytes());
    out[HEADER + 2..HEADER + 4].copy_from_slice(&PORT.to_be_bytes());
    out[HEADER + 4..HEADER + 6].copy_from_slice(&(body as u16).to_be_bytes());
    // No checksum (RFC 768).
    out[HEADER + 6..MESSAGE].copy_from_slice(&[0, 0]);
    let mut packet = Packet::new(buffer, len, node, node, UDP);
    (packet.flow, packet.ttl) = (NO_FLOW, 1);
    pool.insert(now, packet)
}
