//! What waits to be sent.

use super::input::{BATCH, Counters};
use crate::sys::{LinkAddress, SendBatch, Target};
use std::io;
use wifu_wire::ipv4::{self, IpInfo};

/// The slots into which segments are written, and what of them the kernel has not yet taken.
pub(crate) struct Outbox {
    batch: SendBatch,
    /// First slot that the kernel has not taken.
    head: usize,
    /// First free slot.
    tail: usize,
    /// Which slots go straight to a station on a link.
    linked: [bool; BATCH],
    blocked: bool,
}

impl Outbox {
    pub(crate) fn new(mtu: usize) -> Outbox {
        Outbox {
            batch: SendBatch::new(BATCH, mtu),
            head: 0,
            tail: 0,
            linked: [false; BATCH],
            blocked: false,
        }
    }

    pub(crate) fn room(&self) -> u32 {
        if self.blocked {
            return 0;
        }
        (self.batch.capacity() - self.tail) as u32
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tail == 0
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Does the next packet to be sent go straight to a station on a link?
    pub(crate) fn is_linked(&self) -> bool {
        self.head < self.tail && self.linked[self.head]
    }

    pub(crate) fn slot(&mut self) -> Option<&mut [u8]> {
        if self.room() == 0 {
            return None;
        }
        Some(&mut self.batch.buffer(self.tail)[ipv4::HEADER..])
    }

    pub(crate) fn commit(&mut self, ip: &IpInfo, len: usize, link: Option<LinkAddress>) -> &[u8] {
        assert!(self.room() > 0, "commit without a slot");
        let i = self.tail;
        ipv4::emit(ip, len, self.batch.buffer(i));
        let target = link.map_or(Target::Ip(ip.dst), Target::Link);
        self.queue(ipv4::HEADER + len, target)
    }

    /// Queue a whole packet as it is.
    pub(crate) fn put(&mut self, packet: &[u8], target: Target) {
        assert!(self.room() > 0, "no room");
        self.batch.buffer(self.tail)[..packet.len()].copy_from_slice(packet);
        self.queue(packet.len(), target);
    }

    /// The last slot holds so many octets.
    fn queue(&mut self, len: usize, target: Target) -> &[u8] {
        let i = self.tail;
        self.batch.set(i, len, target);
        self.linked[i] = matches!(target, Target::Link(_));
        self.tail += 1;
        self.batch.message(i)
    }

    /// Offer everything to `send`, which gives how many of a range were taken; all of a range go
    /// to stations on links, or none.
    pub(crate) fn flush(
        &mut self,
        counters: &mut Counters,
        mut send: impl FnMut(&mut SendBatch, core::ops::Range<usize>, bool) -> io::Result<usize>,
    ) {
        self.blocked = false;
        while self.head < self.tail {
            counters.send_calls += 1;
            let linked = self.linked[self.head];
            let alike = self.linked[self.head..self.tail]
                .iter()
                .take_while(|l| **l == linked);
            let range = self.head..self.head + alike.count();
            match send(&mut self.batch, range, linked) {
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
