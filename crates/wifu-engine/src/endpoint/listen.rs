//! Listening: who takes a SYN.

use super::{ANY, ConnId, Endpoint};
use crate::blueprint::Blueprint;
use crate::conn::Tuple;
use core::net::{Ipv4Addr, SocketAddrV4};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wifu_wire::{FrameFacts, Rng, Seq, Span, Time};

/// SYNs in a listener's cache.
const SYN_CACHE: usize = 4_096;
/// How long one is valid: as long as the peer's answer may take.
const SYN_CACHE_FOR: Span = Span(60_000_000_000);

/// A listener of this endpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct ListenId(u32);

/// Somebody listens there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0} is taken by another listener")]
pub struct ListenError(pub SocketAddrV4);

/// All that an embryonic connection is made of: with it the same one can be made again.
#[derive(Clone, Debug)]
pub(super) struct Syn {
    pub(super) tuple: Tuple,
    pub(super) at: Time,
    /// Its header, as it came: shorter than a decoded one.
    pub(super) header: Box<[u8]>,
    pub(super) ttl: u8,
    pub(super) frame: FrameFacts,
    /// The connection's random numbers.
    pub(super) rng: Rng,
    /// Its initial send sequence number.
    pub(super) iss: Seq,
}

/// SYNs of embryos that made room for others: the oldest half-open connection is recycled
/// (RFC 4987 section 3.4), and restored from here (section 3.5).
#[derive(Debug, Default)]
struct SynCache {
    /// With the number of their entry in `order`.
    syns: BTreeMap<Tuple, (u64, Syn)>,
    /// Oldest first; an entry whose SYN is gone or was replaced says nothing.
    order: VecDeque<(u64, Tuple)>,
    inserted: u64,
}

impl SynCache {
    fn insert(&mut self, syn: Syn) {
        self.inserted += 1;
        self.order.push_back((self.inserted, syn.tuple));
        self.syns.insert(syn.tuple, (self.inserted, syn));
        while self.order.len() > SYN_CACHE
            && let Some((number, tuple)) = self.order.pop_front()
        {
            if self.syns.get(&tuple).is_some_and(|(n, _)| *n == number) {
                self.syns.remove(&tuple);
            }
        }
    }

    fn get(&self, tuple: &Tuple, now: Time) -> Option<&Syn> {
        let (_, syn) = self.syns.get(tuple)?;
        (now - syn.at <= SYN_CACHE_FOR).then_some(syn)
    }
}

#[derive(Debug)]
pub(super) struct Listener {
    pub(super) blueprint: Arc<Blueprint>,
    backlog: usize,
    /// Embryonic connections, oldest first.
    pub(super) embryos: VecDeque<(ConnId, Syn)>,
    syn_cache: SynCache,
    key: Key,
}

impl Listener {
    /// Makes room for another embryo: the oldest one goes, and only its SYN is kept.
    pub(super) fn evict(&mut self) -> Option<ConnId> {
        if self.embryos.len() < self.backlog {
            return None;
        }
        let (id, syn) = self.embryos.pop_front()?;
        self.syn_cache.insert(syn);
        Some(id)
    }

    /// The SYN of an embryo that made room, if its peer may still answer.
    pub(super) fn cached(&self, tuple: &Tuple, now: Time) -> Option<&Syn> {
        self.syn_cache.get(tuple, now)
    }

    /// There is a connection between these two ends again.
    pub(super) fn uncache(&mut self, tuple: &Tuple) {
        self.syn_cache.syns.remove(tuple);
    }

    /// It opened, or is gone.
    pub(super) fn no_embryo(&mut self, id: ConnId) {
        if let Some(at) = self.embryos.iter().position(|(e, _)| *e == id) {
            self.embryos.remove(at);
        }
    }
}

type Key = (u8, u16, Ipv4Addr);

#[derive(Debug, Default)]
pub(super) struct Listeners {
    by_key: BTreeMap<Key, ListenId>,
    by_id: BTreeMap<ListenId, Listener>,
    next: u32,
}

impl Listeners {
    /// The listener for an address: the exact one before "any address".
    pub(super) fn find(&self, proto: u8, local: SocketAddrV4) -> Option<ListenId> {
        let at = |ip| self.by_key.get(&(proto, local.port(), ip)).copied();
        at(*local.ip()).or_else(|| at(ANY))
    }

    pub(super) fn get_mut(&mut self, id: ListenId) -> Option<&mut Listener> {
        self.by_id.get_mut(&id)
    }
}

impl Endpoint {
    /// Take SYNs for an address (0.0.0.0: any of ours). `backlog` bounds embryonic connections.
    ///
    /// # Errors
    /// If the address is taken.
    pub fn listen(
        &mut self,
        blueprint: &Arc<Blueprint>,
        local: SocketAddrV4,
        backlog: usize,
    ) -> Result<ListenId, ListenError> {
        let key = (blueprint.number, local.port(), *local.ip());
        if self.listeners.by_key.contains_key(&key) {
            return Err(ListenError(local));
        }
        self.serve(blueprint);
        let l = &mut self.listeners;
        let id = ListenId(l.next);
        l.next += 1;
        l.by_key.insert(key, id);
        let blueprint = Arc::clone(blueprint);
        l.by_id.insert(
            id,
            Listener {
                blueprint,
                backlog: backlog.max(1),
                embryos: VecDeque::new(),
                syn_cache: SynCache::default(),
                key,
            },
        );
        Ok(id)
    }

    /// Take no more SYNs; embryonic connections are forgotten, open ones live on.
    pub fn unlisten(&mut self, id: ListenId) {
        let Some(listener) = self.listeners.by_id.remove(&id) else {
            return;
        };
        self.listeners.by_key.remove(&listener.key);
        for (embryo, _) in listener.embryos {
            if self.slot(embryo).is_some_and(|s| s.embryo) {
                self.remove(embryo.index);
            }
        }
    }
}
