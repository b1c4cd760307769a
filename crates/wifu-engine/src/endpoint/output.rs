//! Output: segments, deadlines and events.

use super::{ConnId, Datagram, Endpoint, Event};
use crate::conn::{Conn, Transmit};
use crate::permit::Limit;
use wifu_wire::Time;

impl Endpoint {
    /// The next segment to send. Connections take turns, one segment each.
    #[must_use]
    pub fn poll_transmit(&mut self, now: Time, out: &mut [u8]) -> Option<Datagram> {
        if !self.links.any_room() && !self.table.has_lanes() && !self.worked {
            return None;
        }
        if !self.replies.is_empty()
            && let Some(reply) = self.replies.next(&mut self.links)
        {
            let segment = reply.segment();
            out[..segment.len()].copy_from_slice(segment);
            return Some(Datagram {
                ip: reply.ip,
                len: segment.len(),
                conn: None,
            });
        }
        for _ in 0..self.table.waiting() {
            let i = self.table.turn()?;
            let id = self.table.id(i);
            let slot = self.table.at_mut(i);
            let Some(conn) = slot.conn.as_mut() else {
                self.table.rested(i, false, &mut self.listeners);
                continue;
            };
            let next_hop = conn.board().site.next_hop;
            let room = self.links.room(next_hop);
            let data = slot.lane_room.unwrap_or(room);
            if data == 0 && room == 0 {
                // It is its turn at its host, and its device is full.
                if self.worked && conn.board().app.limited == Limit::Host {
                    conn.held(now, Limit::Queue);
                }
                self.table.again(i);
                continue;
            }
            conn.set_room(data, room);
            match conn.poll_transmit(now, &mut self.head, out) {
                Some(Transmit::Bytes(len)) => {
                    // Data goes into its lane, if there is one, all else into the device.
                    match &mut slot.lane_room {
                        Some(room) if conn.last_sent().is_some_and(|s| s.kind.is_data()) => {
                            *room -= 1;
                        }
                        _ => self.links.used(next_hop),
                    }
                    if self.worked {
                        conn.held(now, Limit::Host);
                    }
                    let datagram = Datagram::of(conn, id, len, self.head.ecn);
                    self.table.again(i);
                    self.touch(i);
                    return Some(datagram);
                }
                Some(Transmit::Packet { .. }) => {
                    self.drops.count("packet stores need a lane runner");
                }
                None => self.table.rested(i, room == 0, &mut self.listeners),
            }
        }
        None
    }

    /// Whether anything may have something to send, room or not: else [`Endpoint::poll_transmit`]
    /// gives nothing, and room makes no difference.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.table.waits() || !self.replies.is_empty()
    }

    /// The next deadline; [`Time::ZERO`] (at once) while something waits to be polled.
    #[must_use]
    pub fn poll_timeout(&self) -> Time {
        // Without room nothing can be polled: who waits then waits for room, not for time.
        let waiting = self.table.waiting() > 0 || !self.replies.is_empty();
        if waiting && self.links.any_room() && (self.links.all_room() || self.leaves()) {
            return Time::ZERO;
        }
        self.table.deadline()
    }

    /// Whether anything that waits has room on its way.
    fn leaves(&self) -> bool {
        let room = |conn: &Conn| self.links.room(conn.board().site.next_hop) > 0;
        self.replies.any_leaves(&self.links) || self.table.ready().any(room)
    }

    /// The next thing that an application has to learn.
    #[inline]
    pub fn poll_event(&mut self) -> Option<(ConnId, Event)> {
        self.table.poll_event()
    }
}
