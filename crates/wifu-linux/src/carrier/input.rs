//! The packets of a batch, as they come out of a carrier, and what a carrier counts.

use crate::ring::PacketRing;
use crate::six::SixBatch;
use crate::sys::{LinkAddress, RecvBatch};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use serde::Serialize;
use std::io;
use wifu_wire::ip::{self, IpError};
use wifu_wire::{AnyIpInfo, Neighbour, ipv4, ipv6};

/// IP protocol number of ICMP.
pub(crate) const ICMP: u8 = 1;

/// Packets that one system call takes or gives at most. More brings nothing measurable, and 64
/// frames of 1500 octets still fit the second-level cache.
pub const BATCH: usize = 64;

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
    /// Packets whose IP header is none of version 4 or 6, or asks for what is not understood.
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
    pub ip: AnyIpInfo,
    /// What follows the IP header.
    pub payload: &'a [u8],
    /// The whole packet from the IP header on.
    pub frame: &'a [u8],
    /// How it reached this host.
    pub came: Came,
    /// When the kernel received it, nanoseconds since 1970; `None` where the IP layer brings it.
    pub stamp: Option<u64>,
    /// It is a fragment, of which nothing but `ip` and `frame` means anything: a node that relays
    /// refuses it.
    pub fragment: bool,
}

/// How a packet reached this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// By the kernel's IP layer, for one of this host's addresses.
    Host,
    /// By a link, past the IP layer, in a frame to this station.
    Link(Option<Neighbour>),
    /// The same, in a frame to all stations of the link.
    All(Option<Neighbour>),
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
    /// The same, of IPv6, under headers that were made.
    Six(&'a SixBatch),
    /// In memory shared with the kernel.
    Ring(&'a PacketRing),
}

/// Which packets are for us.
#[derive(Clone, Copy)]
pub(crate) enum Accept {
    /// The kernel has already chosen.
    All,
    /// ... and chose fragments for a node that relays.
    Relayed,
    /// Only this protocol to these addresses, and what ICMP says to them.
    Only(u8, Stack),
}

/// Addresses that are given to nobody but our connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    /// The one of IPv4.
    pub v4: Ipv4Addr,
    /// The one of IPv6, if there is one.
    pub v6: Option<Ipv6Addr>,
}

impl Stack {
    /// Whether this is one of them.
    pub fn has(&self, address: IpAddr) -> bool {
        Some(address) == self.of(address)
    }

    /// The one of the same family.
    pub fn of(&self, other: IpAddr) -> Option<IpAddr> {
        match other {
            IpAddr::V4(_) => Some(self.v4.into()),
            IpAddr::V6(_) => self.v6.map(IpAddr::from),
        }
    }
}

impl Accept {
    fn allows(&self, ip: &AnyIpInfo) -> bool {
        match self {
            Accept::All | Accept::Relayed => !has_scope(ip.src) && !has_scope(ip.dst),
            Accept::Only(proto, stack) => {
                let icmp = match ip.dst {
                    IpAddr::V4(_) => ICMP,
                    IpAddr::V6(_) => ipv6::ICMP,
                };
                [*proto, icmp].contains(&ip.proto) && stack.has(ip.dst) && !has_scope(ip.src)
            }
        }
    }
}

/// Whether an address means nothing without the interface that it is on: none of these is answered.
fn has_scope(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(a) if a.is_unicast_link_local())
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
            let at = self.next;
            let (frame, cut) = match self.batch {
                Source::Batch(batch) => batch.message(at),
                Source::Six(batch) => batch.packet(at),
                Source::Ring(ring) => ring.packet(at),
            };
            self.next += 1;
            if cut {
                self.counters.truncated += 1;
                continue;
            }
            let (ip, payload, fragment) = match ip::parse(frame) {
                Ok((ip, payload)) => (ip, payload, false),
                Err(e) => {
                    self.counters.count_bad(e);
                    let relayed = matches!(self.accept, Accept::Relayed) && !ip::is_v6(frame);
                    if e != IpError::Fragment || !relayed {
                        continue;
                    }
                    (ipv4::facts(frame).any(), &[][..], true)
                }
            };
            if !self.accept.allows(&ip) {
                self.counters.foreign += 1;
                continue;
            }
            // Without what a link may have padded it with.
            let frame = ip::trimmed(frame);
            if !fragment {
                self.counters.received += 1;
                self.counters.received_octets += frame.len() as u64;
            }
            let (came, stamp) = match self.batch {
                Source::Batch(_) | Source::Six(_) => (Came::Host, None),
                Source::Ring(ring) => {
                    let transmitter = ring.transmitter(at).and_then(neighbour);
                    let came = match ring.is_to_all(at) {
                        true => Came::All(transmitter),
                        false => Came::Link(transmitter),
                    };
                    (came, Some(ring.stamp(at)))
                }
            };
            return Some(Packet {
                ip,
                payload,
                frame,
                came,
                stamp,
                fragment,
            });
        }
        None
    }
}

/// A station in the words of parts and handlers: its device is the interface's index.
pub(crate) fn neighbour(station: LinkAddress) -> Option<Neighbour> {
    Neighbour::new(u16::try_from(station.interface).ok()?, station.mac)
}

impl Counters {
    /// Counts a call to receive by what it gave, and gives that on; `None` if it gave nothing.
    pub(crate) fn count_call<T>(&mut self, gave: io::Result<T>) -> Option<T> {
        self.receive_calls += 1;
        match gave {
            Ok(t) => Some(t),
            Err(e) => {
                let empty = e.kind() == io::ErrorKind::WouldBlock;
                self.receive_errors += u64::from(!empty);
                None
            }
        }
    }

    fn count_bad(&mut self, why: IpError) {
        match why {
            IpError::Short => self.short += 1,
            IpError::Malformed => self.malformed += 1,
            IpError::Fragment => self.fragments += 1,
            IpError::Checksum => self.bad_checksum += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;
    use wifu_wire::units::Rng;
    use wifu_wire::{Ecn, IpInfo};

    const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const SELF: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
    const PEER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
    const SELF6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

    fn stack(v4: Ipv4Addr) -> Stack {
        let v6 = Some(SELF6);
        Stack { v4, v6 }
    }

    fn good6(src: Ipv6Addr, proto: u8) -> Vec<u8> {
        let mut packet = vec![7; ipv6::HEADER + 8];
        let ip = IpInfo {
            src,
            dst: SELF6,
            proto,
            ttl: ipv4::TTL,
            ecn: Ecn::NotEct,
        };
        ipv6::emit(&ip, 8, &mut packet);
        packet
    }

    fn good(len: usize) -> Vec<u8> {
        let mut packet = vec![7; ipv4::HEADER + len];
        let ip = IpInfo {
            src: PEER,
            dst: SELF,
            proto: 253,
            ttl: ipv4::TTL,
            ecn: Ecn::NotEct,
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
        version[0] = 0x55;
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
            (Accept::Only(253, stack(SELF)), 1),
            (Accept::Only(6, stack(SELF)), 0),
            (Accept::Only(253, stack(PEER)), 0),
        ] {
            let (lengths, counters) = through(&[good(8)], accept);
            assert_eq!(
                (lengths.len(), counters.foreign),
                (passes, 1 - passes as u64)
            );
        }
    }

    #[test]
    fn packets_of_ipv6_pass_unless_their_addresses_need_a_scope() {
        let local = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
        let padded = [good6(PEER6, 253), vec![0; 9]].concat();
        for (accept, packet, passes) in [
            (Accept::All, padded, true),
            (Accept::Relayed, good6(PEER6, 253), true),
            (Accept::All, good6(local, 253), false),
            (Accept::Only(253, stack(SELF)), good6(PEER6, 253), true),
            (Accept::Only(6, stack(SELF)), good6(PEER6, ipv6::ICMP), true),
            (Accept::Only(6, stack(SELF)), good6(PEER6, ICMP), false),
            (Accept::Only(253, stack(SELF)), good6(local, 253), false),
        ] {
            let (lengths, counters) = through(&[packet], accept);
            let expected: &[usize] = if passes { &[8] } else { &[] };
            assert_eq!(
                (&lengths[..], counters.foreign),
                (expected, u64::from(!passes))
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
