//! What is known of the links: the ways to peers, and how much devices take.

use crate::board::RouteFacts;
use core::net::IpAddr;
use core::num::NonZeroU16;
use std::collections::BTreeMap;
use wifu_wire::Neighbour;

/// Ways to peers and room by device.
#[derive(Debug)]
pub(super) struct Links {
    ways: BTreeMap<IpAddr, RouteFacts>,
    /// Packets that all devices take that are not named.
    rest: u32,
    named: Vec<(NonZeroU16, u32)>,
}

impl Default for Links {
    fn default() -> Links {
        Links {
            ways: BTreeMap::new(),
            rest: u32::MAX,
            named: Vec::new(),
        }
    }
}

impl Links {
    /// The way to a peer, if it is known.
    pub(super) fn way(&self, to: &IpAddr) -> Option<&RouteFacts> {
        self.ways.get(to)
    }

    /// The way to a peer, of at most `limit`; whether it changed.
    ///
    /// # Errors
    /// If that many are known.
    pub(super) fn set_way(
        &mut self,
        to: IpAddr,
        way: RouteFacts,
        limit: usize,
    ) -> Result<bool, &'static str> {
        if self.ways.len() >= limit && !self.ways.contains_key(&to) {
            return Err("too many routes to remember");
        }
        Ok(self.ways.insert(to, way) != Some(way))
    }

    /// All devices take this many, whichever a packet leaves by.
    #[inline]
    pub(super) fn set_room(&mut self, room: u32) {
        self.named.clear();
        self.rest = room;
    }

    /// This device takes this many; those that are not named take what they get.
    pub(super) fn set_device_room(&mut self, device: NonZeroU16, room: u32) {
        if self.named.is_empty() {
            self.rest = u32::MAX;
        }
        match self.named.iter_mut().find(|n| n.0 == device) {
            Some(named) => named.1 = room,
            None => self.named.push((device, room)),
        }
    }

    /// Those that are not named take this many.
    pub(super) fn set_other_room(&mut self, room: u32) {
        self.rest = room;
    }

    /// Whether any device takes something.
    #[inline]
    pub(super) fn any_room(&self) -> bool {
        self.rest > 0 || self.named.iter().any(|n| n.1 > 0)
    }

    /// Whether all take something.
    #[inline]
    pub(super) fn all_room(&self) -> bool {
        self.rest > 0 && self.named.iter().all(|n| n.1 > 0)
    }

    /// Of the device behind which a next hop is, or of those that are not named.
    #[inline]
    pub(super) fn room(&self, next_hop: Option<Neighbour>) -> u32 {
        if self.named.is_empty() {
            return self.rest;
        }
        let device = next_hop.map(|n| n.device);
        let mut named = self.named.iter();
        let found = named.find(|n| Some(n.0) == device);
        found.map_or(self.rest, |n| n.1)
    }

    /// A packet left for a next hop.
    #[inline]
    pub(super) fn used(&mut self, next_hop: Option<Neighbour>) {
        let device = next_hop.map(|n| n.device);
        let mut named = self.named.iter_mut();
        let room = match named.find(|n| Some(n.0) == device) {
            Some(named) => &mut named.1,
            None => &mut self.rest,
        };
        *room = room.saturating_sub(1);
    }

    /// What is behind the way to a peer takes.
    pub(super) fn room_to(&self, peer: &IpAddr) -> u32 {
        self.room(self.next_hop(peer))
    }

    /// A packet left for a peer.
    pub(super) fn used_to(&mut self, peer: &IpAddr) {
        self.used(self.next_hop(peer));
    }

    fn next_hop(&self, peer: &IpAddr) -> Option<Neighbour> {
        self.ways.get(peer)?.next_hop
    }
}
