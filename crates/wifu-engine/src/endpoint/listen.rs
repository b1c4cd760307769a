//! Listening: who takes what opens a connection.

use super::types::{ConnId, ListenError, ListenId};
use crate::admission::{Admission, Kept, Key, Tuple};
use crate::blueprint::Blueprint;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wifu_wire::{FrameFacts, Rng, Seq, Time};

/// All that an embryonic connection is made of: with it the same one can be made again.
#[derive(Clone, Debug)]
pub(super) struct Opener {
    /// What the listener answered with.
    pub(super) blueprint: Arc<Blueprint>,
    pub(super) tuple: Tuple,
    /// The connection's identifier.
    pub(super) conn_id: u32,
    /// Who says by what key its packets find it.
    pub(super) answers: &'static dyn Admission,
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

impl Opener {
    fn key(&self) -> Key {
        self.answers.key(&self.tuple, self.conn_id)
    }
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
        let key = opener.key();
        self.order.push_back((self.inserted, key));
        self.openers.insert(key, (self.inserted, opener));
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
    embryos: VecDeque<(ConnId, Opener)>,
    cache: Cache,
    addresses: Vec<Address>,
    /// In the list of those to which an opener came.
    asked: bool,
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

    /// One more; there is a connection of its key again.
    pub(super) fn embryo(&mut self, id: ConnId, opener: Opener) {
        self.cache.openers.remove(&opener.key());
        self.embryos.push_back((id, opener));
    }

    /// It opened, or is gone.
    fn no_embryo(&mut self, id: ConnId) {
        if let Some(at) = self.embryos.iter().position(|(e, _)| *e == id) {
            self.embryos.remove(at);
        }
    }
}

/// The address that means "any of ours", of the same family.
fn any(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

type Address = (u8, u16, IpAddr);

#[derive(Debug, Default)]
pub(super) struct Listeners {
    by_address: BTreeMap<Address, ListenId>,
    /// By protocol number, those that take what no other listener has an address for.
    everywhere: BTreeMap<u8, ListenId>,
    by_id: BTreeMap<ListenId, Listener>,
    /// Those to which an opener came since that was polled, each once.
    asked: VecDeque<ListenId>,
    next: u32,
}

impl Listeners {
    /// The listener for an address: the exact one before "any address", and that before one that
    /// takes all.
    pub(super) fn find(&self, proto: u8, local: SocketAddr) -> Option<ListenId> {
        let all = || self.everywhere.get(&proto).copied();
        self.holder(proto, local).or_else(all)
    }

    /// The listener that has an address, or its port at any address.
    pub(super) fn holder(&self, proto: u8, local: SocketAddr) -> Option<ListenId> {
        let at = |ip| self.by_address.get(&(proto, local.port(), ip)).copied();
        at(local.ip()).or_else(|| at(any(local.ip())))
    }

    pub(super) fn get_mut(&mut self, id: ListenId) -> Option<&mut Listener> {
        self.by_id.get_mut(&id)
    }

    /// An opener came.
    pub(super) fn ask(&mut self, id: ListenId) {
        if let Some(listener) = self.by_id.get_mut(&id).filter(|l| !l.asked) {
            listener.asked = true;
            self.asked.push_back(id);
        }
    }

    /// The next listener to which an opener came.
    pub(super) fn next_asked(&mut self) -> Option<ListenId> {
        loop {
            let id = self.asked.pop_front()?;
            if let Some(listener) = self.by_id.get_mut(&id) {
                listener.asked = false;
                return Some(id);
            }
        }
    }

    /// A connection is no embryo of this listener any more.
    pub(super) fn no_embryo(&mut self, id: ListenId, conn: ConnId) {
        if let Some(listener) = self.by_id.get_mut(&id) {
            listener.no_embryo(conn);
        }
    }

    /// Another listener, if its address is free.
    pub(super) fn insert(
        &mut self,
        blueprint: Arc<Blueprint>,
        local: SocketAddr,
        backlog: usize,
        kept: Kept,
    ) -> Result<ListenId, ListenError> {
        let address = (blueprint.number, local.port(), local.ip());
        if self.by_address.contains_key(&address) {
            return Err(ListenError(local));
        }
        let id = self.add(blueprint, vec![address], (backlog, kept));
        self.by_address.insert(address, id);
        Ok(id)
    }

    /// One that takes what no other listener has an address for, whatever it is for; in place of
    /// the one before.
    pub(super) fn everywhere(
        &mut self,
        blueprint: Arc<Blueprint>,
        backlog: usize,
        kept: Kept,
    ) -> ListenId {
        let number = blueprint.number;
        let id = self.add(blueprint, Vec::new(), (backlog, kept));
        self.everywhere.insert(number, id);
        id
    }

    fn add(
        &mut self,
        blueprint: Arc<Blueprint>,
        addresses: Vec<Address>,
        (backlog, kept): (usize, Kept),
    ) -> ListenId {
        let id = ListenId(self.next);
        self.next += 1;
        let listener = Listener {
            blueprint,
            backlog: backlog.max(1),
            embryos: VecDeque::new(),
            cache: Cache::new(kept),
            addresses,
            asked: false,
        };
        self.by_id.insert(id, listener);
        id
    }

    /// What is opened from now on is of another blueprint; false if its packets would be others, or
    /// there is no such listener.
    pub(super) fn retune(
        &mut self,
        id: ListenId,
        blueprint: &Arc<Blueprint>,
        (backlog, kept): (usize, Kept),
    ) -> bool {
        let listener = self.by_id.get_mut(&id);
        let Some(listener) = listener.filter(|l| l.blueprint.number == blueprint.number) else {
            return false;
        };
        listener.blueprint = Arc::clone(blueprint);
        listener.backlog = backlog.max(1);
        listener.cache.kept = kept;
        true
    }

    /// Another address of a listener, if it is free.
    pub(super) fn also(&mut self, id: ListenId, local: SocketAddr) -> Result<(), ListenError> {
        let Some(listener) = self.by_id.get_mut(&id) else {
            return Ok(());
        };
        let address = (listener.blueprint.number, local.port(), local.ip());
        if self.by_address.contains_key(&address) {
            return Err(ListenError(local));
        }
        self.by_address.insert(address, id);
        listener.addresses.push(address);
        Ok(())
    }

    /// The ports at which packets of this protocol number are taken.
    pub(super) fn ports(&self, proto: u8) -> impl Iterator<Item = u16> + '_ {
        let own = self.by_address.keys().filter(move |a| a.0 == proto);
        own.map(|a| a.1)
    }

    /// It takes no more; its embryos.
    pub(super) fn remove(&mut self, id: ListenId) -> impl Iterator<Item = ConnId> + use<> {
        let gone = self.by_id.remove(&id);
        self.everywhere.retain(|_, l| *l != id);
        if let Some(gone) = &gone {
            for address in &gone.addresses {
                self.by_address.remove(address);
            }
        }
        let embryos = gone.map(|l| l.embryos).unwrap_or_default();
        embryos.into_iter().map(|(id, _)| id)
    }
}
