//! What the links tell: ways to peers, room, what radios overhear and drivers report.

use super::*;
use crate::board::RouteFacts;
use crate::signal::Status;
use core::num::NonZeroU16;
use wifu_wire::Neighbour;

impl Endpoint {
    /// Packets that the node's devices take now, whichever a packet leaves by.
    #[inline]
    pub fn set_room(&mut self, room: u32) {
        self.rooms.named.clear();
        self.rooms.rest = room;
        if room > 0 && !self.starved.is_empty() {
            self.retry_starved();
        }
    }

    /// Packets that one device takes now: for those connections whose next hop is behind it
    /// ([`RouteFacts::next_hop`]). Where some devices are named, others take what they get.
    pub fn set_device_room(&mut self, device: NonZeroU16, room: u32) {
        if self.rooms.named.is_empty() {
            self.rooms.rest = u32::MAX;
        }
        match self.rooms.named.iter_mut().find(|n| n.0 == device) {
            Some(named) => named.1 = room,
            None => self.rooms.named.push((device, room)),
        }
        if room > 0 {
            self.retry_starved();
        }
    }

    /// Those who found no room try again.
    fn retry_starved(&mut self) {
        while let Some(id) = self.starved.pop_front() {
            if let Some(slot) = self.slot(id) {
                slot.starved = false;
                self.touch(id.index);
            }
        }
    }

    /// Packets of data that the lane of a flow takes now; `tuple` as this end sees it. Asked for
    /// connections whose composition has a lane, if the node runs it ([`EndpointConfig::lanes`]).
    pub fn set_lane_room(&mut self, tuple: &Tuple, conn_id: u32, room: u32) {
        let Some(i) = self.find(tuple, conn_id) else {
            return;
        };
        let slot = &mut self.slots[i as usize];
        if slot.lane_room.is_some_and(|before| before != room) {
            let opened = slot.lane_room == Some(0);
            slot.lane_room = Some(room);
            if opened {
                self.touch(i);
            }
        }
    }

    /// The way to a peer, for its connections and those to come ([`crate::Signal::Route`]). As
    /// many are remembered as there may be connections; more are counted and forgotten.
    pub fn set_route(&mut self, now: Time, to: Ipv4Addr, route: RouteFacts) {
        if self.ways.len() >= self.config.max_conns && !self.ways.contains_key(&to) {
            return self.count_drop("too many routes to remember");
        }
        if self.ways.insert(to, route) == Some(route) {
            return;
        }
        for i in 0..self.slots.len() as u32 {
            let conn = self.slots[i as usize].conn.as_mut();
            if let Some(conn) = conn.filter(|c| *c.tuple().remote.ip() == to) {
                conn.set_route(now, &route);
                self.touch(i);
            }
        }
    }

    /// A radio overheard a packet that this node sent, or that is on its way to it.
    pub fn handle_overheard(&mut self, now: Time, ip: &IpInfo, segment: &[u8], frame: &FrameFacts) {
        // What we sent first: a packet to ourselves is not on the air.
        for along in [true, false] {
            let Some((i, header)) = self.hearer(ip, segment, along, Blueprint::overhears) else {
                continue;
            };
            let bytes = u16::try_from(segment.len() + wifu_wire::ipv4::HEADER).unwrap_or(u16::MAX);
            let frame = FrameFacts {
                bytes,
                along,
                ..*frame
            };
            if let Some(conn) = self.slots[i as usize].conn.as_mut() {
                conn.handle_overheard(now, &self.head, &segment[header..], &frame);
                self.touch(i);
            }
        }
    }

    /// The driver reported a packet that this node sent; [`Status::number`] is filled in here.
    pub fn handle_status(&mut self, now: Time, ip: &IpInfo, segment: &[u8], status: &Status) {
        let hears = |b: &Blueprint| b.hears("status");
        if let Some((i, _)) = self.hearer(ip, segment, true, hears)
            && let Some(conn) = self.slots[i as usize].conn.as_mut()
        {
            conn.handle_status(now, &self.head, status);
            self.touch(i);
        }
    }

    /// The connection that sent a packet (`along`) or is to get it, if its parts hear of that; and
    /// the length of the header. `self.head` is the packet's.
    fn hearer(
        &mut self,
        ip: &IpInfo,
        segment: &[u8],
        along: bool,
        hears: fn(&Blueprint) -> bool,
    ) -> Option<(u32, usize)> {
        let Served { wire, .. } = self.served[usize::from(ip.proto)].as_ref()?;
        let header = wire.parse(segment, &mut self.head).ok()?;
        self.head.ttl = ip.ttl;
        let source = SocketAddrV4::new(ip.src, self.head.sport);
        let target = SocketAddrV4::new(ip.dst, self.head.dport);
        let (local, remote) = if along {
            (source, target)
        } else {
            (target, source)
        };
        let proto = ip.proto;
        let tuple = Tuple {
            proto,
            local,
            remote,
        };
        let i = self.find(&tuple, self.head.conn_id)?;
        let conn = self.slots[i as usize].conn.as_ref()?;
        hears(conn.blueprint()).then_some((i, header))
    }

    /// The connection whose packets these are.
    fn find(&self, tuple: &Tuple, conn_id: u32) -> Option<u32> {
        let served = self.served[usize::from(tuple.proto)].as_ref()?;
        let key = served.admission.key(tuple, conn_id);
        self.demux.get(&key).copied()
    }
}

/// What devices take.
#[derive(Debug)]
pub(super) struct Rooms {
    /// All that are not named.
    rest: u32,
    named: Vec<(NonZeroU16, u32)>,
}

impl Default for Rooms {
    fn default() -> Rooms {
        Rooms {
            rest: u32::MAX,
            named: Vec::new(),
        }
    }
}

impl Rooms {
    /// Whether any takes something.
    pub(super) fn any(&self) -> bool {
        self.rest > 0 || self.named.iter().any(|n| n.1 > 0)
    }

    /// Whether all take something.
    pub(super) fn all(&self) -> bool {
        self.rest > 0 && self.named.iter().all(|n| n.1 > 0)
    }

    /// Of a device, or of those that are not named.
    #[inline]
    pub(super) fn of(&self, device: Option<NonZeroU16>) -> u32 {
        if self.named.is_empty() {
            return self.rest;
        }
        let mut named = self.named.iter();
        named
            .find(|n| Some(n.0) == device)
            .map_or(self.rest, |n| n.1)
    }

    /// A packet left by a device.
    #[inline]
    pub(super) fn used(&mut self, device: Option<NonZeroU16>) {
        if self.named.is_empty() {
            self.rest = self.rest.saturating_sub(1);
            return;
        }
        let mut named = self.named.iter_mut();
        let room = match named.find(|n| Some(n.0) == device) {
            Some(named) => &mut named.1,
            None => &mut self.rest,
        };
        *room = room.saturating_sub(1);
    }
}

/// The device behind which the next hop on a way is.
#[inline]
pub(super) fn device(next_hop: Option<Neighbour>) -> Option<NonZeroU16> {
    next_hop.map(|n| n.device)
}
