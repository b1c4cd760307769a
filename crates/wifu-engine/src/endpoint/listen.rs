//! Listening: who takes what opens a connection.

use super::{ANY, ConnId, Endpoint, admission};
use crate::admission::{Kept, Key, Tuple};
use crate::blueprint::Blueprint;
use core::net::{Ipv4Addr, SocketAddrV4};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wifu_wire::{FrameFacts, Rng, Seq, Time};

/// A listener of this endpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct ListenId(u32);

/// Somebody listens there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0} is taken by another listener")]
pub struct ListenError(pub SocketAddrV4);

/// All that an embryonic connection is made of: with it the same one can be made again.
#[derive(Clone, Debug)]
pub(super) struct Opener {
    pub(super) tuple: Tuple,
    /// The connection's identifier.
    pub(super) conn_id: u32,
    pub(super) key: Key,
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

/// Openers of embryos that made room for others: the oldest half-open connection is recycled
/// (RFC 4987 section 3.4), and restored from here (section 3.5).
#[derive(Debug)]
struct Cache {
    kept: Kept,
    /// With the number of their entry in `order`.
    openers: BTreeMap<Key, (u64, Opener)>,
    /// Oldest first; an entry whose opener is gone or was replaced says nothing.
    order: VecDeque<(u64, Key)>,
    inserted: u64,
}

impl Cache {
    fn new(kept: Kept) -> Cache {
        Cache {
            kept,
            openers: BTreeMap::new(),
            order: VecDeque::new(),
            inserted: 0,
        }
    }

    fn insert(&mut self, opener: Opener) {
        self.inserted += 1;
        self.order.push_back((self.inserted, opener.key));
        self.openers.insert(opener.key, (self.inserted, opener));
        while self.order.len() > self.kept.openers
            && let Some((number, key)) = self.order.pop_front()
        {
            if self.openers.get(&key).is_some_and(|(n, _)| *n == number) {
                self.openers.remove(&key);
            }
        }
    }

    fn get(&self, key: &Key, now: Time) -> Option<&Opener> {
        let (_, opener) = self.openers.get(key)?;
        (now - opener.at <= self.kept.span).then_some(opener)
    }
}

#[derive(Debug)]
pub(super) struct Listener {
    pub(super) blueprint: Arc<Blueprint>,
    backlog: usize,
    /// Embryonic connections, oldest first.
    pub(super) embryos: VecDeque<(ConnId, Opener)>,
    cache: Cache,
    address: Address,
}

impl Listener {
    /// Makes room for another embryo: the oldest one goes, and only its opener is
    /// kept.
    pub(super) fn evict(&mut self) -> Option<ConnId> {
        if self.embryos.len() < self.backlog {
            return None;
        }
        let (id, opener) = self.embryos.pop_front()?;
        self.cache.insert(opener);
        Some(id)
    }

    /// The opener of an embryo that made room, if its peer may still answer.
    pub(super) fn cached(&self, key: &Key, now: Time) -> Option<&Opener> {
        self.cache.get(key, now)
    }

    /// There is a connection of this key again.
    pub(super) fn uncache(&mut self, key: &Key) {
        self.cache.openers.remove(key);
    }

    /// It opened, or is gone.
    pub(super) fn no_embryo(&mut self, id: ConnId) {
        if let Some(at) = self.embryos.iter().position(|(e, _)| *e == id) {
            self.embryos.remove(at);
        }
    }
}

type Address = (u8, u16, Ipv4Addr);

#[derive(Debug, Default)]
pub(super) struct Listeners {
    by_address: BTreeMap<Address, ListenId>,
    by_id: BTreeMap<ListenId, Listener>,
    next: u32,
}

impl Listeners {
    /// The listener for an address: the exact one before "any address".
    pub(super) fn find(&self, proto: u8, local: SocketAddrV4) -> Option<ListenId> {
        let at = |ip| self.by_address.get(&(proto, local.port(), ip)).copied();
        at(*local.ip()).or_else(|| at(ANY))
    }

    pub(super) fn get_mut(&mut self, id: ListenId) -> Option<&mut Listener> {
        self.by_id.get_mut(&id)
    }
}

impl Endpoint {
    /// Take what opens connections to an address (0.0.0.0: any of ours). `backlog` bounds embryonic
    /// connections.
    ///
    /// # Errors
    /// If the address is taken.
    pub fn listen(
        &mut self,
        blueprint: &Arc<Blueprint>,
        local: SocketAddrV4,
        backlog: usize,
    ) -> Result<ListenId, ListenError> {
        let address = (blueprint.number, local.port(), *local.ip());
        if self.listeners.by_address.contains_key(&address) {
            return Err(ListenError(local));
        }
        self.serve(blueprint);
        let cache = Cache::new(admission(blueprint).keeps());
        let l = &mut self.listeners;
        let id = ListenId(l.next);
        l.next += 1;
        l.by_address.insert(address, id);
        let blueprint = Arc::clone(blueprint);
        l.by_id.insert(
            id,
            Listener {
                blueprint,
                backlog: backlog.max(1),
                embryos: VecDeque::new(),
                cache,
                address,
            },
        );
        Ok(id)
    }

    /// Open no more; embryonic connections are forgotten, open ones live on.
    pub fn unlisten(&mut self, id: ListenId) {
        let Some(listener) = self.listeners.by_id.remove(&id) else {
            return;
        };
        self.listeners.by_address.remove(&listener.address);
        for (embryo, _) in listener.embryos {
            if self.slot(embryo).is_some_and(|s| s.embryo) {
                self.remove(embryo.index);
            }
        }
    }
}
