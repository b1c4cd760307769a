//! Packets for stations on links, past the IP layer: a queue per interface, so that a slow one
//! holds up nobody but who sends by it.

use crate::carrier::{Counters, Outbox, open_raw_socket};
use crate::poller::{Interest, Poller};
use crate::ring::open_link_sender;
use crate::sys::{self, LinkAddress, SendBatch, Target};
use core::cell::Cell;
use core::net::Ipv4Addr;
use rustix::net::AddressFamily;
use std::io;
use std::os::fd::OwnedFd;

struct Queue {
    interface: i32,
    sender: OwnedFd,
    outbox: Outbox,
    /// The poller watches it for room.
    armed: bool,
    /// Packets that the send buffer took at the first question since the last flush.
    takes: Cell<Option<u32>>,
}

impl Queue {
    /// Packets that are taken now, each of at most `mtu` octets. Of those that the kernel still
    /// has, it is asked once between flushes, and not for each packet. Only a refusal is no room,
    /// since nothing else is followed by word from the poller.
    fn room(&self, mtu: usize) -> u32 {
        let free = self.outbox.room();
        if free == 0 {
            return 0;
        }
        let takes = self.takes.get().unwrap_or_else(|| {
            let buffer = sys::send_buffer(&self.sender);
            let takes = buffer.map_or(u32::MAX, |buffer| packets_taken(buffer, mtu));
            self.takes.set(Some(takes));
            takes
        });
        free.min(takes.saturating_sub(self.outbox.waiting()).max(1))
    }
}

/// Packets of `mtu` octets that a send buffer takes, of whose size in octets so many are taken.
fn packets_taken([taken, size]: [u32; 2], mtu: usize) -> u32 {
    /// What the kernel reserves in a packet's memory for headers, and keeps behind its octets
    /// (`struct skb_shared_info`), on 64-bit machines.
    const BESIDE: usize = 64 + 320;
    /// `struct sk_buff`.
    const HEAD: usize = 256;
    // Its allocator has sizes that are powers of two.
    let truesize = (mtu + BESIDE).next_power_of_two() + HEAD;
    // The last one may be longer than what is left.
    size.saturating_sub(taken).div_ceil(truesize as u32)
}

/// The queues of a host's links.
pub(crate) struct Links {
    queues: Vec<Queue>,
    /// For stations that the kernel has yet to find: what it holds for them meanwhile counts
    /// against nobody else's buffer.
    stray: OwnedFd,
    /// Where a packet for the stray socket is written.
    one: SendBatch,
    mtu: usize,
    counters: Counters,
}

impl Links {
    /// Of these interfaces, for packets of at most `mtu` octets.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_NET_RAW.
    pub(crate) fn open(interfaces: &[i32], mtu: usize) -> io::Result<Links> {
        let open = |interface: &i32| {
            Ok(Queue {
                interface: *interface,
                sender: open_link_sender()?,
                outbox: Outbox::new(mtu),
                armed: false,
                takes: Cell::new(None),
            })
        };
        let stray = open_raw_socket(AddressFamily::INET, libc::IPPROTO_RAW as u8)?;
        sys::set_header_included(&stray)?;
        Ok(Links {
            queues: interfaces.iter().map(open).collect::<io::Result<_>>()?,
            stray,
            one: SendBatch::new(1, mtu),
            mtu,
            counters: Counters::default(),
        })
    }

    /// Let `poller` know them; number `i` will have the token `base + i`.
    ///
    /// # Errors
    /// What the poller says.
    pub(crate) fn attach(&self, poller: &Poller, base: u64) -> io::Result<()> {
        for (i, queue) in self.queues.iter().enumerate() {
            poller.add(&queue.sender, base + i as u64, Interest::NONE)?;
        }
        Ok(())
    }

    /// Let `poller` tell of room where there is none, and no longer.
    ///
    /// # Errors
    /// What the poller says.
    pub(crate) fn rearm(&mut self, poller: &Poller, base: u64) -> io::Result<()> {
        for (i, queue) in self.queues.iter_mut().enumerate() {
            let blocked = queue.outbox.is_blocked();
            if core::mem::replace(&mut queue.armed, blocked) != blocked {
                let interest = match blocked {
                    true => Interest::WRITE,
                    false => Interest::NONE,
                };
                poller.modify(&queue.sender, base + i as u64, interest)?;
            }
        }
        Ok(())
    }

    fn queue(&mut self, interface: i32) -> Option<&mut Queue> {
        self.queues.iter_mut().find(|q| q.interface == interface)
    }

    /// Packets that an interface takes now: as many as there are free slots, and as many full ones
    /// as the socket's send buffer takes beside those that the kernel has yet to send. None if it
    /// is not one of these.
    pub(crate) fn room(&self, interface: i32) -> u32 {
        let queue = self.queues.iter().find(|q| q.interface == interface);
        queue.map_or(0, |q| q.room(self.mtu))
    }

    /// ... that each of them takes.
    pub(crate) fn rooms(&self) -> impl Iterator<Item = (i32, u32)> {
        self.queues.iter().map(|q| (q.interface, q.room(self.mtu)))
    }

    /// Whether any takes packets now.
    pub(crate) fn has_room(&self) -> bool {
        self.queues.iter().any(|q| q.outbox.room() > 0)
    }

    /// Whether an interface has a queue here.
    pub(crate) fn has(&self, interface: i32) -> bool {
        self.queues.iter().any(|q| q.interface == interface)
    }

    /// Whether a station is on one of these links.
    pub(crate) fn is_linked(&self, station: LinkAddress) -> bool {
        self.has(station.interface)
    }

    /// Queue a whole packet for a station; false without room.
    pub(crate) fn put(&mut self, packet: &[u8], station: LinkAddress) -> bool {
        let mtu = self.mtu;
        let full = |q: &mut Queue| q.outbox.room() == 0;
        if self.queue(station.interface).is_some_and(full) {
            self.flush();
        }
        let queue = self.queue(station.interface);
        let Some(queue) = queue.filter(|q| q.outbox.room() > 0 && packet.len() <= mtu) else {
            return false;
        };
        queue.outbox.put(packet, Target::Link(station));
        true
    }

    /// Hand a whole packet to the IP layer at once, which finds the station; false without room.
    pub(crate) fn stray(&mut self, packet: &[u8], dst: Ipv4Addr) -> bool {
        if packet.len() > self.mtu {
            return false;
        }
        self.one.buffer(0)[..packet.len()].copy_from_slice(packet);
        self.one.set(0, 0..packet.len(), Target::Ip(dst));
        self.counters.send_calls += 1;
        match self.one.send(&self.stray, 0, 1) {
            Ok(_) => {
                self.counters.sent += 1;
                self.counters.sent_octets += packet.len() as u64;
                true
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => false,
            Err(_) => {
                self.counters.refused += 1;
                true
            }
        }
    }

    /// Give the kernel what waits.
    pub(crate) fn flush(&mut self) {
        let Links {
            queues, counters, ..
        } = self;
        for queue in queues {
            queue.takes.set(None);
            if queue.outbox.is_empty() {
                continue;
            }
            let sender = &queue.sender;
            queue.outbox.flush(counters, |batch, range, _| {
                batch.send(sender, range.start, range.end)
            });
        }
    }

    /// What was sent.
    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_buffer_takes_as_many_packets_as_the_kernel_lets_in() {
        // By default, and one packet too long for what is left.
        assert_eq!(packets_taken([0, 212_992], 1500), 93);
        assert_eq!(packets_taken([2304, 212_992], 1500), 92);
        assert_eq!(packets_taken([92 * 2304, 212_992], 1500), 1);
        assert_eq!(packets_taken([93 * 2304, 212_992], 1500), 0);
    }
}
