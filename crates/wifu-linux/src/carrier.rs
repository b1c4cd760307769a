//! What carries packets: one enum over the live carriers, and what they share.
//!
//! All carriers work the same way. [`Carrier::attach`] them to a poller. To receive: tell the
//! carrier which of its descriptors the poller saw readable ([`Carrier::mark_ready`]), then take
//! batches with [`Carrier::receive`] until it gives `None`. To send: ask [`Carrier::room`], write
//! segments into [`Carrier::slot`]s, hand each over with [`Carrier::commit`], and at the end of the
//! round [`Carrier::flush`] and [`Carrier::rearm`]. A packet that the kernel does not take now
//! stays in its slot and is counted; `room` is then 0 until a flush succeeds, to be tried when the
//! poller tells of room, so that no committed segment is ever lost for lack of room.

use crate::poller::{Interest, Poller};
use crate::raw::RawCarrier;
use crate::ring::PacketRing;
use crate::sys::{LinkAddress, RecvBatch, SendBatch, Target};
use crate::tun::TunCarrier;
use core::net::Ipv4Addr;
use rustix::net::{AddressFamily, SocketType, sockopt};
use serde::Serialize;
use std::io;
use std::os::fd::BorrowedFd;
use wifu_wire::ipv4::{self, IpError, IpInfo};

/// Packets that one system call takes or gives at most. More brings nothing measurable, and 64
/// frames of 1500 octets still fit the second-level cache.
pub const BATCH: usize = 64;

/// How segments reach other hosts: what the daemon reads them from and writes them to.
pub enum Carrier {
    /// IPv4 raw sockets, one per protocol number.
    Raw(RawCarrier),
    /// A TUN device on which this host's kernel, and whatever it routes, talks to us.
    Tun(TunCarrier),
}

/// What a carrier has seen since it was opened; packets unless said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Taken by the kernel.
    pub sent: u64,
    /// Octets of `sent`, IP headers included.
    pub sent_octets: u64,
    /// System calls made to send.
    pub send_calls: u64,
    /// Given to the transport.
    pub received: u64,
    /// Octets of `received`, IP headers included.
    pub received_octets: u64,
    /// System calls made to receive.
    pub receive_calls: u64,
    /// Times that the kernel had no room and a packet was kept to be sent later.
    pub kept: u64,
    /// Lost because the kernel refused them for good (no route, too long, forbidden).
    pub refused: u64,
    /// Lost because the receive buffer was full.
    pub overflowed: u64,
    /// Longer than our buffers.
    pub truncated: u64,
    /// Shorter than their headers say.
    pub short: u64,
    /// Packets whose IP header is none of version 4.
    pub malformed: u64,
    /// Parts of fragmented packets, which are not put together.
    pub fragments: u64,
    /// With a wrong IP header checksum.
    pub bad_checksum: u64,
    /// Of another protocol or for another address than ours.
    pub foreign: u64,
    /// Failed receive calls, other than for lack of packets.
    pub receive_errors: u64,
}

/// A received packet; its octets are the carrier's until the next receive call.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The facts of its IP header.
    pub ip: IpInfo,
    /// What follows the IP header.
    pub payload: &'a [u8],
    /// The whole packet from the IP header on, for a capture.
    pub frame: &'a [u8],
}

/// The packets of one batch, good ones only; the others are counted as the iterator passes them.
pub struct Packets<'a> {
    batch: Source<'a>,
    counters: &'a mut Counters,
    accept: Accept,
    next: usize,
    end: usize,
}

/// Where the packets of a batch lie.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// Copied out of a socket.
    Batch(&'a RecvBatch),
    /// In memory shared with the kernel.
    Ring(&'a PacketRing),
}

/// Which packets are for us.
#[derive(Clone, Copy)]
pub(crate) enum Accept {
    /// The kernel has already chosen.
    All,
    /// Only this protocol to this address.
    Only(u8, Ipv4Addr),
}

impl Accept {
    fn allows(&self, ip: &IpInfo) -> bool {
        match self {
            Accept::All => true,
            Accept::Only(proto, address) => ip.proto == *proto && ip.dst == *address,
        }
    }
}

impl<'a> Packets<'a> {
    pub(crate) fn new(
        batch: Source<'a>,
        count: usize,
        accept: Accept,
        counters: &'a mut Counters,
    ) -> Packets<'a> {
        Packets {
            batch,
            counters,
            accept,
            next: 0,
            end: count,
        }
    }

    /// How many are left, bad ones included.
    pub fn remaining(&self) -> usize {
        self.end - self.next
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Packet<'a>;

    fn next(&mut self) -> Option<Packet<'a>> {
        while self.next < self.end {
            let (frame, cut) = match self.batch {
                Source::Batch(batch) => batch.message(self.next),
                Source::Ring(ring) => ring.packet(self.next),
            };
            self.next += 1;
            if cut {
                self.counters.truncated += 1;
                continue;
            }
            let (ip, payload) = match ipv4::parse(frame) {
                Ok(parsed) => parsed,
                Err(e) => {
                    self.counters.count_bad(e);
                    continue;
                }
            };
            if !self.accept.allows(&ip) {
                self.counters.foreign += 1;
                continue;
            }
            // Without what a link may have padded it with.
            let total = usize::from(u16::from_be_bytes([frame[2], frame[3]]));
            let frame = &frame[..total];
            self.counters.received += 1;
            self.counters.received_octets += frame.len() as u64;
            return Some(Packet { ip, payload, frame });
        }
        None
    }
}

impl Counters {
    fn count_bad(&mut self, why: IpError) {
        match why {
            IpError::Short => self.short += 1,
            IpError::Malformed => self.malformed += 1,
            IpError::Fragment => self.fragments += 1,
            IpError::Checksum => self.bad_checksum += 1,
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
    /// Which slots go straight to a station on a link.
    linked: [bool; BATCH],
    blocked: bool,
    /// The descriptor that the poller watches for room.
    pub(crate) armed: Option<usize>,
}

impl Outbox {
    pub(crate) fn new(mtu: usize) -> Outbox {
        Outbox {
            batch: SendBatch::new(BATCH, mtu),
            head: 0,
            tail: 0,
            linked: [false; BATCH],
            blocked: false,
            armed: None,
        }
    }

    pub(crate) fn room(&self) -> u32 {
        if self.blocked {
            return 0;
        }
        (self.batch.capacity() - self.tail) as u32
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
        self.batch.set(i, ipv4::HEADER + len, target);
        self.linked[i] = link.is_some();
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

macro_rules! each {
    ($self:expr, $c:ident => $body:expr) => {
        match $self {
            Carrier::Raw($c) => $body,
            Carrier::Tun($c) => $body,
        }
    };
}

impl Carrier {
    /// `"raw"` or the TUN device's name: the name of the capture's interface.
    pub fn name(&self) -> &str {
        match self {
            Carrier::Raw(_) => "raw",
            Carrier::Tun(t) => t.name(),
        }
    }

    /// How many descriptors there are to watch.
    pub fn descriptors(&self) -> usize {
        each!(self, c => c.descriptors())
    }

    /// Descriptor number `i`.
    ///
    /// # Panics
    /// If there is no such descriptor.
    pub fn descriptor(&self, i: usize) -> BorrowedFd<'_> {
        each!(self, c => c.descriptor(i))
    }

    /// Let `poller` watch all descriptors; number `i` will have the token `base + i`.
    ///
    /// # Errors
    /// What the poller says.
    pub fn attach(&mut self, poller: &Poller, base: u64) -> io::Result<()> {
        for i in 0..self.descriptors() {
            poller.add(self.descriptor(i), base + i as u64, self.interest(i))?;
        }
        *self.armed() = None;
        Ok(())
    }

    /// After a flush: let `poller` tell of room while the carrier is blocked, and no longer. Costs
    /// a system call only when that changes.
    ///
    /// # Errors
    /// What the poller says.
    pub fn rearm(&mut self, poller: &Poller, base: u64) -> io::Result<()> {
        let wanted = each!(self, c => c.blocked_on());
        let armed = self.armed().take();
        if wanted != armed {
            if let Some(i) = armed {
                poller.modify(self.descriptor(i), base + i as u64, self.interest(i))?;
            }
            if let Some(i) = wanted {
                let interest = self.interest(i).and(Interest::WRITE);
                poller.modify(self.descriptor(i), base + i as u64, interest)?;
            }
        }
        *self.armed() = wanted;
        Ok(())
    }

    /// What descriptor `i` is watched for when nothing is blocked.
    fn interest(&self, i: usize) -> Interest {
        let receives = match self {
            Carrier::Raw(r) => r.receives(i),
            Carrier::Tun(_) => true,
        };
        if receives {
            Interest::READ
        } else {
            Interest::NONE
        }
    }

    fn armed(&mut self) -> &mut Option<usize> {
        each!(self, c => c.armed())
    }

    /// Descriptor `i` was seen readable.
    pub fn mark_ready(&mut self, i: usize) {
        each!(self, c => c.mark_ready(i));
    }

    /// The next batch from a descriptor that is ready; `None` when all are drained. A batch may
    /// hold nothing but bad packets and so give no item.
    pub fn receive(&mut self) -> Option<Packets<'_>> {
        each!(self, c => c.receive())
    }

    /// Packets that [`slot`](Carrier::slot) takes before the next [`flush`](Carrier::flush).
    pub fn room(&self) -> u32 {
        each!(self, c => c.room())
    }

    /// The kernel refused a packet for lack of room; flush again when one of the descriptors is
    /// writable, of which [`rearm`](Carrier::rearm) makes the poller tell.
    pub fn is_blocked(&self) -> bool {
        each!(self, c => c.is_blocked())
    }

    /// Where the next segment (without IP header) goes: `mtu - 20` octets. `None` without room.
    /// Flushes by itself when all slots are full.
    pub fn slot(&mut self) -> Option<&mut [u8]> {
        each!(self, c => c.slot())
    }

    /// The last slot holds a segment of `len` octets: put the IP header before it and queue it.
    /// Gives the whole packet, for a capture.
    ///
    /// # Panics
    /// If `len` exceeds the slot or there was no slot.
    pub fn commit(&mut self, ip: &IpInfo, len: usize) -> &[u8] {
        each!(self, c => c.commit(ip, len))
    }

    /// Give the kernel what is committed.
    pub fn flush(&mut self) {
        each!(self, c => c.flush());
    }

    /// The longest IP packet this carrier sends.
    pub fn mtu(&self) -> usize {
        each!(self, c => c.mtu())
    }

    /// The longest IP packet that goes to `dst` by its route, at most [`mtu`](Carrier::mtu).
    ///
    /// # Errors
    /// `NetworkUnreachable` and the like if there is no route.
    pub fn path_mtu(&self, dst: Ipv4Addr) -> io::Result<usize> {
        each!(self, c => c.path_mtu(dst))
    }

    /// The address that packets to `dst` come from.
    ///
    /// # Errors
    /// `NetworkUnreachable` and the like if there is no route.
    pub fn source_for(&self, dst: Ipv4Addr) -> io::Result<Ipv4Addr> {
        each!(self, c => c.source_for(dst))
    }

    /// May a connection use `address` as its own?
    pub fn is_local(&self, address: Ipv4Addr) -> bool {
        each!(self, c => c.is_local(address))
    }

    /// What has been carried, and what was lost here and why.
    pub fn counters(&self) -> Counters {
        each!(self, c => c.counters())
    }
}

/// What the kernel's routes say about a destination, from this thread's network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The address that packets come from.
    pub source: Ipv4Addr,
    /// The longest packet, in octets.
    pub mtu: usize,
}

/// Ask the kernel for its route to `dst` by connecting a UDP socket; sends nothing.
///
/// # Errors
/// `NetworkUnreachable` and the like if there is none.
pub fn route_to(dst: Ipv4Addr) -> io::Result<Route> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // Port 9 is "discard"; it matters to no route.
    socket.connect((dst, 9))?;
    let source = match socket.local_addr()? {
        std::net::SocketAddr::V4(a) => *a.ip(),
        std::net::SocketAddr::V6(_) => return Err(io::ErrorKind::AddrNotAvailable.into()),
    };
    let mtu = sockopt::ip_mtu(&socket)? as usize;
    Ok(Route { source, mtu })
}

/// Is `address` one of this host's, in this thread's network namespace?
pub fn is_local_address(address: Ipv4Addr) -> bool {
    // All of 127/8 is local, though the kernel would answer from 127.0.0.1.
    address.is_loopback() || route_to(address).is_ok_and(|r| r.source == address)
}

/// Can raw sockets be opened here?
///
/// # Errors
/// `PermissionDenied` without CAP_NET_RAW.
pub fn open_raw_socket(protocol: u8) -> io::Result<std::os::fd::OwnedFd> {
    use core::num::NonZeroU32;
    use rustix::net::{Protocol, SocketFlags, socket_with};
    let number = NonZeroU32::new(u32::from(protocol)).ok_or(io::ErrorKind::InvalidInput)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let protocol = Some(Protocol::from_raw(number));
    Ok(socket_with(
        AddressFamily::INET,
        SocketType::RAW,
        flags,
        protocol,
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;
    use wifu_wire::units::Rng;

    const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const SELF: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn good(len: usize) -> Vec<u8> {
        let mut packet = vec![7; ipv4::HEADER + len];
        let ip = IpInfo {
            src: PEER,
            dst: SELF,
            proto: 253,
            ttl: ipv4::TTL,
        };
        ipv4::emit(&ip, len, &mut packet);
        packet
    }

    /// Let `packets` through a batch; gives the payloads' lengths and the counts.
    fn through(packets: &[Vec<u8>], accept: Accept) -> (Vec<usize>, Counters) {
        let (ours, theirs) = UnixDatagram::pair().expect("socket pair");
        let (mut batch, mut counters) = (RecvBatch::new(BATCH, 2048), Counters::default());
        let mut lengths = Vec::new();
        for packet in packets {
            ours.send(packet).expect("send");
            let n = batch.receive(&theirs).expect("receive");
            let source = Source::Batch(&batch);
            let items = Packets::new(source, n, accept, &mut counters);
            lengths.extend(items.map(|p| p.payload.len()));
        }
        (lengths, counters)
    }

    #[test]
    fn bad_packets_are_counted_by_kind_and_good_ones_pass() {
        let mut version = good(8);
        version[0] = 0x65;
        let mut checksum = good(8);
        checksum[8] ^= 1;
        let mut fragment = good(8);
        ipv4::emit(&ipv4::parse(&good(8)).expect("good").0, 8, &mut fragment);
        // "More fragments", with the checksum corrected by the same amount.
        fragment[6] = 0x20;
        let sum = u16::from_be_bytes([fragment[10], fragment[11]]);
        fragment[10..12].copy_from_slice(&(sum + 0x2000).to_be_bytes());
        let packets = [
            good(8),
            good(0),
            good(8)[..19].to_vec(),
            good(8)[..27].to_vec(),
            version,
            checksum,
            fragment,
            good(2040),
            [good(4), vec![0; 30]].concat(),
        ];
        let (lengths, counters) = through(&packets, Accept::All);
        assert_eq!(lengths, [8, 0, 4], "the last one without its trailer");
        let expected = Counters {
            received: 3,
            received_octets: 28 + 20 + 24,
            short: 2,
            malformed: 1,
            bad_checksum: 1,
            fragments: 1,
            truncated: 1,
            ..Counters::default()
        };
        assert_eq!(counters, expected);
    }

    #[test]
    fn strangers_are_counted() {
        for (accept, passes) in [
            (Accept::All, 1),
            (Accept::Only(253, SELF), 1),
            (Accept::Only(6, SELF), 0),
            (Accept::Only(253, PEER), 0),
        ] {
            let (lengths, counters) = through(&[good(8)], accept);
            assert_eq!(
                (lengths.len(), counters.foreign),
                (passes, 1 - passes as u64)
            );
        }
    }

    #[test]
    fn garbage_of_any_shape_is_survived_and_accounted_for() {
        let mut rng = Rng::new(20_261_121);
        let packets: Vec<Vec<u8>> = (0..20_000)
            .map(|_| {
                let mut packet = good(rng.below(100) as usize);
                for _ in 0..rng.below(4) {
                    let at = rng.below(packet.len() as u64) as usize;
                    packet[at] = rng.next_u32() as u8;
                }
                packet.truncate(rng.below(130) as usize + 1);
                packet
            })
            .collect();
        let (lengths, c) = through(&packets, Accept::All);
        assert_eq!(c.received, lengths.len() as u64);
        let bad = c.short + c.malformed + c.bad_checksum + c.fragments + c.truncated;
        assert_eq!(c.received + bad, packets.len() as u64);
        assert!(c.received > 0 && c.short > 0 && c.malformed > 0 && c.bad_checksum > 0);
    }
}
