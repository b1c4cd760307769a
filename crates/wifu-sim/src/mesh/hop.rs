//! Handlers of WiFu Core at the nodes (Behaviour 3): chains that see every packet on its
//! way, may change, drop or hold it.

use super::air::Air;
use super::clock::Clock;
use super::events::{Class, What};
use super::nodes::Nodes;
use super::pool::{Pool, lower_ttl};
use super::tap::RadioFacts;
use wifu_core::{Chain, Counters, Hook, Hooks, LinkFacts, Packet, Released};
use wifu_core::{Site, TxStatus, Verdict, ip};
use wifu_wire::{FrameFacts, Neighbour, Notes, Time};

/// The hooks at which a node is asked: a bit for each.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Asked(u8);

impl Asked {
    fn of(hooks: Hooks) -> Asked {
        Asked(hooks.iter().fold(0, |bits, hook| bits | 1 << hook as u8))
    }

    /// Whether any handler of the node is asked anywhere.
    #[inline(always)]
    pub(crate) fn any(self) -> bool {
        self.0 != 0
    }

    /// Whether any handler of the node is asked there.
    #[inline(always)]
    pub(crate) fn at(self, hook: Hook) -> bool {
        self.0 & 1 << hook as u8 != 0
    }
}

/// How a packet came.
#[derive(Clone, Copy)]
pub(crate) struct Came {
    /// Who transmitted it; `None` if this node sends it.
    pub(crate) from: Option<u16>,
    /// How it was received, if by radio.
    pub(crate) radio: Option<RadioFacts>,
    /// What this node's handlers noted on it.
    pub(crate) notes: Notes,
}

impl Came {
    pub(crate) const HERE: Came = Came {
        from: None,
        radio: None,
        notes: Notes::EMPTY,
    };

    /// It came over a link.
    #[inline]
    pub(crate) fn over(from: u16, radio: Option<RadioFacts>) -> Came {
        Came {
            from: Some(from),
            radio,
            notes: Notes::EMPTY,
        }
    }

    /// For a transport.
    pub(crate) fn facts(self) -> FrameFacts {
        FrameFacts {
            rssi_dbm: self.radio.map(|r| r.rssi_dbm),
            rate: self.radio.map(|r| r.mode.rate()),
            transmitter: self.from.and_then(neighbour),
            notes: self.notes,
            ..FrameFacts::default()
        }
    }
}

/// A node as its neighbours know it. Its radio and its wires are one device.
pub(crate) fn neighbour(node: u16) -> Option<Neighbour> {
    Neighbour::new(1, crate::air_pcap::address(node))
}

/// A packet on its way over a node, from hook to hook.
#[derive(Clone, Copy)]
pub(crate) struct Passage {
    pub(crate) id: u32,
    /// Where it is.
    pub(crate) hook: Hook,
    pub(crate) came: Came,
    /// The copy that chains see is this packet's, but for its TTL.
    pub(crate) copied: bool,
}

impl Passage {
    /// It begins at `hook`.
    pub(crate) fn new(id: u32, hook: Hook, came: Came) -> Passage {
        Passage {
            id,
            hook,
            came,
            copied: false,
        }
    }
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
        self.air.link(self.node).unwrap_or_default()
    }
}

impl Nodes {
    /// Put a chain at a node, in place of the one before.
    pub(crate) fn set_chain(&mut self, node: u16, chain: Chain) {
        let node = &mut self.all[usize::from(node)];
        node.asked = Asked::of(chain.hooks());
        node.chain = Some(Box::new(chain));
    }

    /// The hooks at which a node is asked.
    #[inline]
    pub(crate) fn asked(&self, node: u16) -> Asked {
        self.all[usize::from(node)].asked
    }

    fn chain(&mut self, node: u16) -> Option<&mut Chain> {
        self.all[usize::from(node)].chain.as_deref_mut()
    }

    /// A node's handlers by name, with their accounts.
    pub(crate) fn counters(&self, node: u16) -> impl Iterator<Item = (&str, Counters)> {
        let chain = self.all[usize::from(node)].chain.as_deref();
        chain.into_iter().flat_map(Chain::counters)
    }

    /// What handlers wrote since the last call.
    pub(crate) fn take_lines(&mut self) -> Vec<(u16, String)> {
        core::mem::take(&mut self.lines)
    }

    /// Ask the chain of the node that holds a packet, or go on asking it about one that was held.
    pub(crate) fn ask(
        &mut self,
        (pool, air, now): (&mut Pool, &Air, Time),
        way: &mut Passage,
        again: Option<Released>,
    ) -> Verdict {
        let (id, hook) = (way.id, way.hook);
        let node = pool[id].at;
        let Some(chain) = self.all[usize::from(node)].chain.as_deref_mut() else {
            return Verdict::Accept;
        };
        if way.copied {
            lower_ttl(&mut self.octets, pool[id].ttl);
        } else {
            pool.copy_seen(id, &mut self.octets);
        }
        way.copied = true;
        let mut packet = Packet::new(&mut self.octets, u64::from(id));
        packet.transmitter = way.came.from.and_then(neighbour);
        packet.rssi_dbm = way.came.radio.map(|r| r.rssi_dbm);
        packet.rate = way.came.radio.map(|r| r.mode.rate());
        packet.notes = way.came.notes;
        let here = Here { node, air };
        let verdict = match again {
            None => chain.on_packet(hook, &mut packet, now, &here),
            Some(released) => chain.resume(released, &mut packet, now, &here),
        };
        let changed = packet.changed();
        way.came.notes = packet.notes;
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
            self.held.insert(id, (hook, way.came));
        }
        verdict
    }

    /// Ask about a packet that a node overheard; what the chain says of it changes nothing.
    pub(crate) fn overhear(&mut self, with: (&mut Pool, &Air, Time), mut way: Passage) {
        let node = with.0[way.id].at;
        if self.ask(with, &mut way, None) == Verdict::Hold {
            // Nobody waits for an overheard packet: it isn't kept.
            self.held.remove(&way.id);
            if let Some(chain) = self.chain(node) {
                chain.forget(u64::from(way.id));
            }
        }
    }

    /// A packet that the node's chain let go since, and where it was held.
    pub(crate) fn released(&mut self, node: u16) -> Option<(Released, Passage)> {
        loop {
            let released = self.chain(node)?.poll_released()?;
            let id = released.ticket as u32;
            if let Some((hook, came)) = self.held.remove(&id) {
                return Some((released, Passage::new(id, hook, came)));
            }
        }
    }

    /// A chain's time has come.
    pub(crate) fn chain_due(&mut self, air: &Air, now: Time, node: u16) {
        if let Some(chain) = self.chain(node).filter(|c| c.poll_timeout() <= now) {
            chain.handle_timeout(now, &Here { node, air });
        }
    }

    /// The driver reported a packet.
    pub(crate) fn status(&mut self, air: &Air, now: Time, node: u16, status: &TxStatus) {
        if let Some(chain) = self.chain(node) {
            chain.on_tx_status(status, now, &Here { node, air });
        }
    }

    /// Remember when a node's chain wants to be called.
    pub(crate) fn arm_chain(&mut self, clock: &mut Clock, number: u16) {
        let node = &mut self.all[usize::from(number)];
        let Some(chain) = node.chain.as_deref() else {
            return;
        };
        let at = chain.poll_timeout();
        if at < node.chain_at || node.chain_at <= clock.now {
            node.chain_at = at;
            if at != Time::NEVER {
                let what = What::Chain(u32::from(number));
                clock.push(at.max(clock.now), Class::Packet, what);
            }
        }
    }
}
