//! Handlers of WiFu Core at the nodes (Behaviour 3): chains that see every packet on its
//! way, may change, drop or hold it.

use super::Simulation;
use super::air::Air;
use super::events::{Class, What};
use super::forward::Lost;
use super::pool::Pool;
use super::tap::RadioFacts;
use std::collections::BTreeMap;
use wifu_core::{Chain, Counters, Hook, LinkFacts, Packet, Released, Site, TxStatus, Verdict, ip};
use wifu_wire::{FrameFacts, Rate, Time};

/// The chains of all nodes that have one.
#[derive(Default)]
pub(crate) struct Handlers {
    chains: BTreeMap<u16, Chain>,
    /// Held packets: where they go on, and how they came.
    held: BTreeMap<u32, (Hook, Came)>,
    /// A packet while a chain sees it.
    octets: Vec<u8>,
    /// Lines that handlers wrote, by node.
    lines: Vec<(u16, String)>,
}

/// How a packet came.
#[derive(Clone, Copy)]
pub(crate) struct Came {
    /// Who transmitted it; `None` if this node sends it.
    pub(crate) from: Option<u16>,
    /// How it was received, if by radio.
    pub(crate) radio: Option<RadioFacts>,
    /// What this node's handlers found to be the largest delay on its way, us; 0 if nothing.
    pub(crate) max_delay: u32,
}

impl Came {
    pub(crate) const HERE: Came = Came {
        from: None,
        radio: None,
        max_delay: 0,
    };

    /// For a transport.
    pub(crate) fn facts(self) -> FrameFacts {
        FrameFacts {
            rssi_dbm: self.radio.map_or(0, |r| r.rssi_dbm),
            rate: self.radio.map_or(Rate(0), |r| r.mode.rate()),
            transmitter: self.from.map_or(0, number) as u32,
            max_delay: self.max_delay,
            ..FrameFacts::default()
        }
    }
}

/// The number by which handlers and transports know a node: that of its name and address, from 1.
fn number(node: u16) -> u64 {
    u64::from(node) + 1
}

struct Here<'a> {
    node: u16,
    air: &'a Air,
}

impl Site for Here<'_> {
    fn node(&self) -> u16 {
        self.node.saturating_add(1)
    }

    fn link(&self) -> LinkFacts {
        let Some(facts) = self.air.link(self.node) else {
            return LinkFacts::default();
        };
        LinkFacts {
            delay: facts.delay,
            sample: facts.sample,
            first: facts.first,
            queued: facts.queued,
            room: facts.room,
            last_done: facts.last_done,
            busy: Some(facts.busy),
            rate: facts.rate,
        }
    }
}

impl Handlers {
    /// Whether any node has a chain.
    pub(crate) fn any(&self) -> bool {
        !self.chains.is_empty()
    }

    pub(crate) fn insert(&mut self, node: u16, chain: Chain) {
        self.chains.insert(node, chain);
    }

    /// A node's handlers by name, with their accounts.
    pub(crate) fn counters(&self, node: u16) -> impl Iterator<Item = (&str, &Counters)> {
        self.chains.get(&node).into_iter().flat_map(Chain::counters)
    }

    pub(crate) fn take_lines(&mut self) -> Vec<(u16, String)> {
        core::mem::take(&mut self.lines)
    }

    /// Ask a node's chain, or go on asking it about a packet that was held.
    fn ask(
        &mut self,
        (pool, air, now): (&mut Pool, &Air, Time),
        hook: Hook,
        id: u32,
        came: &mut Came,
        again: Option<Released>,
    ) -> Verdict {
        let node = pool[id].at;
        let Some(chain) = self.chains.get_mut(&node) else {
            return Verdict::Accept;
        };
        self.octets.clear();
        self.octets.extend_from_slice(pool.as_seen(id));
        let mut packet = Packet::new(&mut self.octets, u64::from(id));
        packet.transmitter = came.from.map(number);
        packet.rssi_dbm = came.radio.map(|r| r.rssi_dbm);
        packet.rate = came.radio.map(|r| r.mode.rate());
        packet.max_delay = came.max_delay;
        let here = Here { node, air };
        let verdict = match again {
            None => chain.on_packet(hook, &mut packet, now, &here),
            Some(released) => chain.resume(released, &mut packet, now, &here),
        };
        let changed = packet.changed();
        came.max_delay = packet.max_delay;
        for line in chain.take_lines() {
            self.lines.push((node, line));
        }
        if changed && hook != Hook::Overheard {
            ip::repair(&mut self.octets);
            if !pool.rewrite(id, &self.octets) {
                return Verdict::Drop("longer than the interface takes");
            }
        }
        if verdict == Verdict::Hold {
            self.held.insert(id, (hook, *came));
        }
        verdict
    }
}

impl Simulation {
    /// A packet reaches a hook; it goes on if the node's handlers accept it.
    pub(crate) fn at_hook(&mut self, hook: Hook, id: u32, mut came: Came) {
        if self.handlers.any() && !self.accepted(hook, id, &mut came) {
            return;
        }
        self.beyond(hook, id, came);
    }

    #[inline(never)]
    fn accepted(&mut self, hook: Hook, id: u32, came: &mut Came) -> bool {
        let node = self.pool[id].at;
        let with = (&mut self.pool, &self.air, self.now);
        let verdict = self.handlers.ask(with, hook, id, came, None);
        self.watch_chain(node);
        if let Verdict::Drop(_) = verdict {
            self.lose(id, Lost::Hop);
        }
        verdict == Verdict::Accept
    }

    /// A packet was accepted at a hook.
    fn beyond(&mut self, hook: Hook, id: u32, came: Came) {
        match hook {
            Hook::Prerouting if self.pool[id].dst == self.pool[id].at => {
                self.at_hook(Hook::Input, id, came);
            }
            Hook::Prerouting => self.at_hook(Hook::Forward, id, came),
            Hook::Input => self.deliver(id, came),
            Hook::Forward => self.forward(id),
            Hook::Output => self.at_hook(Hook::Postrouting, id, Came::HERE),
            Hook::Postrouting => self.dispatch(id),
            Hook::Overheard => {}
        }
    }

    /// A radio heard a packet for somebody else.
    pub(crate) fn overhear(&mut self, node: u16, cookie: u32, mut came: Came) {
        if !self.handlers.any() {
            return;
        }
        // Hearing it says nothing of whether it has arrived where it was meant to.
        let passed = self.pool[cookie].passed;
        let id = self.pool.pass(cookie, node);
        self.pool[cookie].passed = passed;
        let with = (&mut self.pool, &self.air, self.now);
        let verdict = (self.handlers).ask(with, Hook::Overheard, id, &mut came, None);
        if verdict == Verdict::Hold {
            // Nobody waits for an overheard packet: it isn't kept.
            self.handlers.held.remove(&id);
            if let Some(chain) = self.handlers.chains.get_mut(&node) {
                chain.forget(u64::from(id));
            }
        }
        self.watch_chain(node);
        self.pool.release(id);
    }

    /// A chain's time has come.
    pub(crate) fn chain_due(&mut self, node: u16) {
        let here = Here {
            node,
            air: &self.air,
        };
        if let Some(chain) = self.handlers.chains.get_mut(&node)
            && chain.poll_timeout() <= self.now
        {
            chain.handle_timeout(self.now, &here);
        }
        self.watch_chain(node);
    }

    /// The driver reported a packet.
    pub(crate) fn chain_status(&mut self, node: u16, status: &TxStatus) {
        let here = Here {
            node,
            air: &self.air,
        };
        if let Some(chain) = self.handlers.chains.get_mut(&node) {
            chain.on_tx_status(status, self.now, &here);
            self.watch_chain(node);
        }
    }

    /// Let go on what a chain released, and remember when it wants to be called.
    fn watch_chain(&mut self, node: u16) {
        while let Some(released) = self
            .handlers
            .chains
            .get_mut(&node)
            .and_then(Chain::poll_released)
        {
            let id = released.ticket as u32;
            let Some((hook, mut came)) = self.handlers.held.remove(&id) else {
                continue;
            };
            let with = (&mut self.pool, &self.air, self.now);
            match self.handlers.ask(with, hook, id, &mut came, Some(released)) {
                Verdict::Accept => self.beyond(hook, id, came),
                Verdict::Drop(_) => self.lose(id, Lost::Hop),
                Verdict::Hold => {}
            }
        }
        let Some(chain) = self.handlers.chains.get(&node) else {
            return;
        };
        let at = chain.poll_timeout();
        let marked = &mut self.nodes[usize::from(node)].chain_at;
        if at < *marked || *marked <= self.now {
            *marked = at;
            if at != Time::NEVER {
                let at = at.max(self.now);
                self.events
                    .push(at, Class::Packet, What::Chain(u32::from(node)));
            }
        }
    }
}
