//! Handlers of WiFu Core at the nodes (Behaviour 3): chains that see every packet on its
//! way, may change, drop or hold it.

use super::address::node_of;
use super::clock::Clock;
use super::events::{Class, What};
use super::forward::Around;
use super::nodes::Nodes;
use super::pool::{Pool, lower_ttl};
use super::tap::RadioFacts;
use core::net::Ipv4Addr;
use core::num::NonZeroU8;
use wifu_core::{Chain, Counters, Hook, Hooks, LinkFacts, Octets, Packet, Released};
use wifu_core::{LinkTo, NextHop, Sending, Site, TxStatus, Verdict, ip};
use wifu_wire::{FrameFacts, Neighbour, Notes, Time};

/// The hooks at which a node is asked, and what else runs there: a bit for each.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Asked(u16);

impl Asked {
    /// Lanes run there.
    pub(crate) const LANES: Asked = Asked(1 << 8);
    /// Lanes or an end want to know what the radio overhears.
    pub(crate) const EARS: Asked = Asked(1 << 9);
    /// Lanes or an end want to know what the driver reports.
    pub(crate) const STATUS: Asked = Asked(1 << 10);

    fn of(hooks: Hooks) -> Asked {
        Asked(hooks.iter().fold(0, |bits, hook| bits | 1 << hook as u8))
    }

    /// With these bits, or without them.
    pub(crate) fn with(self, bits: Asked, on: bool) -> Asked {
        Asked(if on {
            self.0 | bits.0
        } else {
            self.0 & !bits.0
        })
    }

    /// Whether all of these bits are set.
    #[inline(always)]
    pub(crate) fn has(self, bits: Asked) -> bool {
        self.0 & bits.0 == bits.0
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

/// The node of a neighbour.
pub(crate) fn node_at(neighbour: Neighbour) -> u16 {
    let [_, _, _, _, high, low] = neighbour.address;
    u16::from_be_bytes([high, low]).wrapping_sub(1)
}

/// A packet on its way over a node, from hook to hook.
#[derive(Clone, Copy)]
pub(crate) struct Passage {
    pub(crate) id: u32,
    /// Where it is.
    pub(crate) hook: Hook,
    pub(crate) came: Came,
    /// To whom it leaves: what a handler sent may not take the route.
    pub(crate) to: LinkTo,
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
            to: LinkTo::Route,
            copied: false,
        }
    }
}

/// Why a chain is asked about a packet.
#[derive(Clone, Copy)]
pub(crate) enum Asking {
    /// It reached a hook.
    New,
    /// It was held there, and let go.
    Again(Released),
    /// A handler of the chain sent it; by its place.
    Sent(usize),
}

/// A packet of the pool while a chain sees it.
struct Seen<'a> {
    octets: &'a mut Vec<u8>,
    pool: &'a mut Pool,
    id: u32,
    changed: bool,
}

impl Octets for Seen<'_> {
    fn get(&self) -> &[u8] {
        self.octets
    }
    fn get_mut(&mut self) -> &mut [u8] {
        self.changed = true;
        self.octets
    }
    fn replace(&mut self, octets: &[u8]) {
        self.changed = true;
        Octets::replace(self.octets, octets);
    }
    fn copy(&mut self) -> Option<u64> {
        let id = self.pool.twin(self.id);
        if self.changed {
            let mut octets = self.octets.clone();
            ip::repair(&mut octets);
            if !self.pool.rewrite(id, &octets) {
                self.pool.release(id);
                return None;
            }
        }
        Some(u64::from(id))
    }
}

struct Here<'a> {
    node: u16,
    /// Where the packet goes that is looked at.
    to: Option<u16>,
    around: Around<'a>,
}

impl Site for Here<'_> {
    fn node(&self) -> u16 {
        self.node.saturating_add(1)
    }

    fn link(&self) -> LinkFacts {
        self.around.link(self.node, self.to).unwrap_or_default()
    }

    fn next_hop(&self, to: Ipv4Addr) -> Option<NextHop> {
        let to = node_of(to);
        let (next, hops) = self.around.next(self.node, to)?;
        Some(NextHop {
            neighbour: neighbour(next)?,
            last: next == to,
            hops: NonZeroU8::new(u8::try_from(hops).unwrap_or(u8::MAX)),
        })
    }
}

impl Nodes {
    /// Put a chain at a node, in place of the one before.
    pub(crate) fn set_chain(&mut self, node: u16, chain: Chain) {
        let node = &mut self.all[usize::from(node)];
        let more = node.asked.0 & 0xFF00;
        node.asked = Asked(Asked::of(chain.hooks()).0 | more);
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

    /// Keep what the node's handlers wrote; they also write when no packet comes.
    fn collect(&mut self, node: u16) {
        let Some(chain) = self.all[usize::from(node)].chain.as_deref_mut() else {
            return;
        };
        for line in chain.take_lines() {
            self.lines.push((node, line));
        }
    }

    /// Ask the chain of the node that holds a packet, or go on asking it about one that was held.
    pub(crate) fn ask(
        &mut self,
        (pool, around): (&mut Pool, Around<'_>),
        way: &mut Passage,
        again: Asking,
    ) -> Verdict {
        let (id, hook) = (way.id, way.hook);
        let (node, dst) = (pool[id].at, pool[id].dst);
        let Some(chain) = self.all[usize::from(node)].chain.as_deref_mut() else {
            return Verdict::Accept;
        };
        if way.copied {
            lower_ttl(&mut self.octets, pool[id].ttl);
        } else {
            pool.copy_seen(id, &mut self.octets);
        }
        way.copied = true;
        let mut seen = Seen {
            octets: &mut self.octets,
            pool,
            id,
            changed: false,
        };
        let mut packet = Packet::new(&mut seen, u64::from(id));
        packet.transmitter = way.came.from.and_then(neighbour);
        packet.rssi_dbm = way.came.radio.map(|r| r.rssi_dbm);
        packet.rate = way.came.radio.map(|r| r.mode.rate());
        packet.notes = way.came.notes;
        let to = Some(dst);
        let here = Here { node, to, around };
        let now = around.now;
        let verdict = match again {
            Asking::New => chain.on_packet(hook, &mut packet, now, &here),
            Asking::Again(released) => chain.resume(released, &mut packet, now, &here),
            Asking::Sent(by) => chain.on_sent(by, hook, &mut packet, now, &here),
        };
        let changed = packet.changed();
        way.came.notes = packet.notes;
        self.collect(node);
        if changed && hook != Hook::Overheard {
            ip::repair(&mut self.octets);
            if !pool.rewrite(id, &self.octets) {
                if verdict == Verdict::Hold
                    && let Some(chain) = self.chain(node)
                {
                    chain.forget(u64::from(id));
                }
                return Verdict::Drop("longer than the interface takes");
            }
        }
        if verdict == Verdict::Hold {
            self.held.insert(id, *way);
        }
        verdict
    }

    /// Ask about a packet that a node overheard; what the chain says of it changes nothing.
    pub(crate) fn overhear(&mut self, with: (&mut Pool, Around<'_>), mut way: Passage) {
        let node = with.0[way.id].at;
        if self.ask(with, &mut way, Asking::New) == Verdict::Hold {
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
            if let Some(mut way) = self.held.remove(&id) {
                way.copied = false;
                return Some((released, way));
            }
        }
    }

    /// What the node's chain sends.
    pub(crate) fn sending(&mut self, node: u16) -> Option<Sending> {
        self.chain(node)?.poll_sending()
    }

    /// A copy that the node's chain keeps no longer.
    pub(crate) fn dropped(&mut self, node: u16) -> Option<u32> {
        self.chain(node)?.poll_dropped().map(|ticket| ticket as u32)
    }

    /// What a handler of the node's chain sent is no packet.
    pub(crate) fn unsent(&mut self, node: u16, by: usize) {
        if let Some(chain) = self.chain(node) {
            chain.unsent(by);
        }
    }

    /// Octets of what a chain sent are not needed any more.
    pub(crate) fn recycle(&mut self, node: u16, octets: Vec<u8>) {
        if let Some(chain) = self.chain(node) {
            chain.recycle(octets);
        }
    }

    /// A chain's time has come.
    pub(crate) fn chain_due(&mut self, around: Around<'_>, node: u16) {
        let now = around.now;
        if let Some(chain) = self.chain(node).filter(|c| c.poll_timeout() <= now) {
            let to = None;
            chain.handle_timeout(now, &Here { node, to, around });
            self.collect(node);
        }
    }

    /// The driver reported a packet.
    pub(crate) fn status(&mut self, around: Around<'_>, node: u16, status: &TxStatus) {
        if let Some(chain) = self.chain(node) {
            let to = None;
            chain.on_tx_status(status, around.now, &Here { node, to, around });
            self.collect(node);
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
