//! What waits to be sent.

use super::input::{BATCH, Counters};
use crate::sys::{LinkAddress, SendBatch, Target};
use core::ops::Range;
use std::io;
use wifu_wire::{AnyIpInfo, ipv4, ipv6};

/// Room before each segment: for the longer one of the headers.
const ROOM: usize = ipv6::HEADER;

/// By what kind of socket a packet leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// The IPv4 layer's.
    Four,
    /// The IPv6 layer's.
    Six,
    /// One that sends straight to stations on links.
    Link,
}

impl Via {
    fn of(target: Target) -> Via {
        match target {
            Target::Ip(_) => Via::Four,
            Target::Six(_) => Via::Six,
            Target::Link(_) => Via::Link,
        }
    }
}

/// The slots into which segments are written, and what of them the kernel has not yet taken.
pub(crate) struct Outbox {
    batch: SendBatch,
    /// First slot that the kernel has not taken.
    head: usize,
    /// First free slot.
    tail: usize,
    /// By what each slot goes.
    via: [Via; BATCH],
    blocked: bool,
}

impl Outbox {
    pub(crate) fn new(mtu: usize) -> Outbox {
        Outbox {
            batch: SendBatch::new(BATCH, mtu + ROOM - ipv4::HEADER),
            head: 0,
            tail: 0,
            via: [Via::Four; BATCH],
            blocked: false,
        }
    }

    pub(crate) fn room(&self) -> u32 {
        if self.blocked {
            return 0;
        }
        (self.batch.capacity() - self.tail) as u32
    }

    /// Packets that the kernel has not taken.
    pub(crate) fn waiting(&self) -> u32 {
        (self.tail - self.head) as u32
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tail == 0
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// By what the next packet to be sent goes.
    pub(crate) fn via(&self) -> Via {
        match self.head < self.tail {
            true => self.via[self.head],
            false => Via::Four,
        }
    }

    pub(crate) fn slot(&mut self) -> Option<&mut [u8]> {
        if self.room() == 0 {
            return None;
        }
        Some(&mut self.batch.buffer(self.tail)[ROOM..])
    }

    /// The last slot holds a segment of `len` octets.
    ///
    /// # Panics
    /// If there was no slot, or the addresses are of two families.
    pub(crate) fn commit(
        &mut self,
        ip: &AnyIpInfo,
        len: usize,
        link: Option<LinkAddress>,
    ) -> &[u8] {
        assert!(self.room() > 0, "commit without a slot");
        let buffer = self.batch.buffer(self.tail);
        let (from, target) = match ip.v4() {
            Some(ip) => {
                let from = ROOM - ipv4::HEADER;
                ipv4::emit(&ip, len, &mut buffer[from..]);
                (from, link.map_or(Target::Ip(ip.dst), Target::Link))
            }
            None => {
                let ip = ip.v6().expect("both addresses are of one family");
                ipv6::emit(&ip, len, buffer);
                (0, Target::Six(ip.dst))
            }
        };
        self.queue(from..ROOM + len, target)
    }

    /// Queue a whole packet as it is.
    pub(crate) fn put(&mut self, packet: &[u8], target: Target) {
        assert!(self.room() > 0, "no room");
        self.batch.buffer(self.tail)[..packet.len()].copy_from_slice(packet);
        self.queue(0..packet.len(), target);
    }

    /// These octets of the last slot are a packet.
    fn queue(&mut self, octets: Range<usize>, target: Target) -> &[u8] {
        let i = self.tail;
        self.batch.set(i, octets, target);
        self.via[i] = Via::of(target);
        self.tail += 1;
        self.batch.message(i)
    }

    /// Offer everything to `send`, which gives how many of a range were taken; all of a range go by
    /// the same.
    pub(crate) fn flush(
        &mut self,
        counters: &mut Counters,
        mut send: impl FnMut(&mut SendBatch, Range<usize>, Via) -> io::Result<usize>,
    ) {
        self.blocked = false;
        while self.head < self.tail {
            counters.send_calls += 1;
            let via = self.via[self.head];
            let alike = self.via[self.head..self.tail]
                .iter()
                .take_while(|v| **v == via);
            let range = self.head..self.head + alike.count();
            match send(&mut self.batch, range, via) {
                Ok(n) => {
                    for i in self.head..self.head + n {
                        counters.sent_octets += self.batch.message(i).len() as u64;
                    }
                    counters.sent += n as u64;
                    self.head += n;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    counters.kept += 1;
                    self.blocked = true;
                    return;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    // This one packet is refused; a network would have lost it.
                    counters.refused += 1;
                    self.head += 1;
                }
            }
        }
        self.head = 0;
        self.tail = 0;
    }
}
