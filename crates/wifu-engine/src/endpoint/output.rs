//! Output: segments, deadlines and events.

use super::link::device;
use super::*;
use core::num::NonZeroU16;

impl Endpoint {
    /// The next segment to send. Connections take turns, one segment each.
    #[must_use]
    pub fn poll_transmit(&mut self, now: Time, out: &mut [u8]) -> Option<Datagram> {
        if !self.rooms.any() && self.laned == 0 {
            return None;
        }
        if let Some(reply) = self.next_reply() {
            out[..reply.len].copy_from_slice(&reply.bytes[..reply.len]);
            return Some(Datagram {
                ip: reply.ip,
                len: reply.len,
                conn: None,
            });
        }
        for _ in 0..self.ready.len() {
            let i = self.ready.pop_front()?;
            let slot = &mut self.slots[i as usize];
            let Some(conn) = slot.conn.as_mut() else {
                slot.ready = false;
                continue;
            };
            let room = self.rooms.of(device(conn.board().site.next_hop));
            let data = slot.lane_room.unwrap_or(room);
            if data == 0 && room == 0 {
                self.wait(i);
                continue;
            }
            conn.set_room(data, room);
            let sent = conn.poll_transmit(now, &mut self.head, out);
            match sent {
                Some(Transmit::Bytes(len)) => {
                    self.ready.push_back(i);
                    self.took(i);
                    self.touch(i);
                    return self.datagram(i, len);
                }
                Some(Transmit::Packet { .. }) => {
                    self.count_drop("packet stores need a lane runner")
                }
                None => {
                    slot.ready = false;
                    if room == 0 && !core::mem::replace(&mut slot.starved, true) {
                        // It may have something to say that no lane takes.
                        let id = self.id(i);
                        self.starved.push_back(id);
                    }
                    let conn = &self.slots[i as usize].conn;
                    let at = conn.as_ref().map_or(Time::NEVER, Conn::poll_timeout);
                    self.deadlines.set(i, at);
                    self.bury(i);
                }
            }
        }
        None
    }

    /// A connection finds no room: others take their turn.
    #[cold]
    fn wait(&mut self, i: u32) {
        self.ready.push_back(i);
    }

    /// The next answer to a segment of no connection whose way has room.
    fn next_reply(&mut self) -> Option<Reply> {
        let device = |r: &Reply| self.device_to(&r.ip.dst);
        let mut replies = self.replies.iter();
        let at = replies.position(|r| self.rooms.of(device(r)) > 0)?;
        let reply = self.replies.remove(at)?;
        self.rooms.used(self.device_to(&reply.ip.dst));
        Some(reply)
    }

    /// The device by which packets to a peer leave, if its route is known.
    fn device_to(&self, peer: &Ipv4Addr) -> Option<NonZeroU16> {
        device(self.ways.get(peer)?.next_hop)
    }

    /// A segment left: data into its lane, if there is one, all else into the device.
    #[inline]
    fn took(&mut self, i: u32) {
        let slot = &mut self.slots[i as usize];
        let Some(conn) = &slot.conn else { return };
        let data = |conn: &Conn| conn.last_sent().is_some_and(|s| s.kind.is_data());
        match &mut slot.lane_room {
            Some(room) if data(conn) => *room -= 1,
            _ => self.rooms.used(device(conn.board().site.next_hop)),
        }
    }

    #[inline]
    pub(super) fn datagram(&self, i: u32, len: usize) -> Option<Datagram> {
        let t = self.slots[i as usize].conn.as_ref()?.tuple();
        let ip = IpInfo {
            src: *t.local.ip(),
            dst: *t.remote.ip(),
            proto: t.proto,
            ttl: TTL,
        };
        Some(Datagram {
            ip,
            len,
            conn: Some(self.id(i)),
        })
    }

    /// The next deadline; [`Time::ZERO`] (at once) while something waits to be polled.
    #[must_use]
    pub fn poll_timeout(&self) -> Time {
        // Without room nothing can be polled: who waits then waits for room, not for time.
        let waiting = !self.ready.is_empty() || !self.replies.is_empty();
        if waiting && self.rooms.any() && (self.rooms.all() || self.polls()) {
            return Time::ZERO;
        }
        self.deadlines.first().map_or(Time::NEVER, |(at, _)| at)
    }

    /// Whether anything that waits has room on its way.
    fn polls(&self) -> bool {
        let room = |device| self.rooms.of(device) > 0;
        let conns = self.ready.iter().map(|i| &self.slots[*i as usize].conn);
        let mut hops = conns.flatten().map(|c| c.board().site.next_hop);
        let mut replies = self.replies.iter().map(|r| self.device_to(&r.ip.dst));
        replies.any(room) || hops.any(|hop| room(device(hop)))
    }

    /// The next thing that an application has to learn.
    pub fn poll_event(&mut self) -> Option<(ConnId, Event)> {
        while let Some(&i) = self.noisy.front() {
            let id = self.id(i);
            let slot = &mut self.slots[i as usize];
            let silent = slot.conn.is_none() || slot.orphan;
            // The news of an embryo wait until it is one no more.
            if silent || slot.embryo || slot.news == News::default() {
                if silent {
                    slot.news = News::default();
                }
                slot.noisy = false;
                self.noisy.pop_front();
                continue;
            }
            let news = &mut slot.news;
            let event = if core::mem::take(&mut news.opened) {
                slot.listener.map_or(Event::Connected, Event::Accepted)
            } else if core::mem::take(&mut news.readable) {
                Event::Readable
            } else if core::mem::take(&mut news.eof) {
                Event::PeerClosed
            } else if core::mem::take(&mut news.writable) {
                Event::Writable
            } else {
                Event::Closed(news.ended.take().flatten())
            };
            return Some((id, event));
        }
        None
    }
}
