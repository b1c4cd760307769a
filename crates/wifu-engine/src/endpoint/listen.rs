//! Listening: who takes a SYN.

use super::{ANY, ConnId, Endpoint};
use crate::blueprint::Blueprint;
use core::net::{Ipv4Addr, SocketAddrV4};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A listener of this endpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct ListenId(u32);

/// Somebody listens there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0} is taken by another listener")]
pub struct ListenError(pub SocketAddrV4);

#[derive(Debug)]
pub(super) struct Listener {
    pub(super) blueprint: Arc<Blueprint>,
    pub(super) backlog: usize,
    /// Embryonic connections, oldest first.
    pub(super) embryos: VecDeque<ConnId>,
    key: Key,
}

impl Listener {
    /// The embryo that must go before another is taken.
    pub(super) fn evict(&mut self) -> Option<ConnId> {
        if self.embryos.len() >= self.backlog {
            self.embryos.pop_front()
        } else {
            None
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
        let embryos = VecDeque::with_capacity(backlog.clamp(1, 4096));
        l.by_id.insert(
            id,
            Listener {
                blueprint,
                backlog: backlog.max(1),
                embryos,
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
        for embryo in listener.embryos {
            if self.slot(embryo).is_some_and(|s| s.embryo) {
                self.remove(embryo.index);
            }
        }
    }
}
