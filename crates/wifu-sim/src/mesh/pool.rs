//! Packets and their octets.
//!
//! A packet on a radio is held by its sender until the driver reports it and, from its reception
//! on, by the next hop: two entries of a slab that share one buffer by count. What changes from
//! hop to hop (TTL, hop number) is in the entry; the octets are written once and never copied on
//! the way. Entries and buffers are reused: nothing is allocated once a run is in full swing.

use super::address::node_of;
use wifu_wire::ipv4::{HEADER, TTL};
use wifu_wire::{Span, Time};

/// No flow: routing daemons, answers to segments of no connection.
pub(crate) const NO_FLOW: u32 = u32::MAX;

/// How a packet came to its holder, and to whom it leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// It is this node's own, or was relayed here: its TTL is what it leaves with.
    Leaves,
    /// The same, and it goes before others that wait.
    Hastens,
    /// It leaves to all who hear, by a handler.
    Shouts,
    /// It came over a link, and its TTL has not been lowered here.
    Came,
    /// The same, and it was for all who hear: nobody relays it.
    Heard,
}

// Copied at each hop.
const _: () = assert!(size_of::<Packet>() <= 32);

/// One packet at one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) buffer: u32,
    /// Number of the flow, or [`NO_FLOW`].
    pub(crate) flow: u32,
    /// Length of the IP packet.
    pub(crate) len: u16,
    pub(crate) src: u16,
    pub(crate) dst: u16,
    /// The node that holds it.
    pub(crate) at: u16,
    pub(crate) proto: u8,
    pub(crate) ttl: u8,
    /// When a datagram was sent.
    pub(crate) born: Time,
    /// Links crossed so far.
    pub(crate) hop: u8,
    /// From the flow's receiver to its sender.
    pub(crate) reverse: bool,
    /// The next hop has its own entry already.
    pub(crate) passed: bool,
    /// A copy that a handler or a lane keeps: it is on no way.
    pub(crate) kept: bool,
    pub(crate) stage: Stage,
    /// The entry is in use.
    live: bool,
}

/// How long a packet is at a node, from outside its links' queues.
#[derive(Clone, Copy, Debug)]
struct Stay {
    /// When it came, or the node sent it.
    came: Time,
    /// When it was handed to a link last.
    left: Time,
}

/// The slab and the buffers.
pub(crate) struct Pool {
    packets: Vec<Packet>,
    /// Beside each packet: not all who copy one look at it.
    stays: Vec<Stay>,
    free: Vec<u32>,
    octets: Vec<u8>,
    counts: Vec<u32>,
    spare: Vec<u32>,
    stride: usize,
    mtu: usize,
    scratch: Vec<u8>,
}

impl Pool {
    /// Buffers for packets of up to `mtu` octets.
    pub(crate) fn new(mtu: usize) -> Pool {
        Pool {
            packets: Vec::with_capacity(1024),
            stays: Vec::with_capacity(1024),
            free: Vec::with_capacity(1024),
            octets: Vec::new(),
            counts: Vec::with_capacity(1024),
            spare: Vec::with_capacity(1024),
            // Not a power of two, lest the headers of all packets share a few cache lines.
            stride: mtu.next_multiple_of(64) + 64,
            mtu,
            scratch: vec![0; mtu.next_multiple_of(64)],
        }
    }

    /// A buffer with one holder, with whatever was in it before.
    pub(crate) fn buffer(&mut self) -> u32 {
        if let Some(buffer) = self.spare.pop() {
            self.counts[buffer as usize] = 1;
            return buffer;
        }
        let buffer = self.counts.len();
        self.counts.push(1);
        self.octets.resize((buffer + 1) * self.stride, 0);
        buffer as u32
    }

    /// One holder lets go of a buffer.
    pub(crate) fn drop_buffer(&mut self, buffer: u32) {
        let count = &mut self.counts[buffer as usize];
        *count -= 1;
        if *count == 0 {
            self.spare.push(buffer);
        }
    }

    /// All octets of a buffer.
    pub(crate) fn octets_mut(&mut self, buffer: u32) -> &mut [u8] {
        let at = buffer as usize * self.stride;
        &mut self.octets[at..at + self.stride]
    }

    /// The octets of a packet as its origin wrote them: the TTL is that of the first hop.
    pub(crate) fn octets(&self, id: u32) -> &[u8] {
        let packet = &self.packets[id as usize];
        let at = packet.buffer as usize * self.stride;
        &self.octets[at..at + usize::from(packet.len)]
    }

    /// Replace a packet's octets by its holder's; length, addresses, protocol and TTL follow.
    /// False, and nothing changed, if they are more than the MTU or no IPv4 packet.
    pub(crate) fn rewrite(&mut self, id: u32, octets: &[u8]) -> bool {
        if octets.len() > self.mtu || octets.len() < HEADER {
            return false;
        }
        let packet = &mut self.packets[id as usize];
        (packet.len, packet.ttl, packet.proto) = (octets.len() as u16, octets[8], octets[9]);
        let (src, dst) = wifu_core::ip::addresses(octets);
        (packet.src, packet.dst) = (node_of(src), node_of(dst));
        let old = packet.buffer;
        if self.counts[old as usize] > 1 {
            self.drop_buffer(old);
            self.packets[id as usize].buffer = self.buffer();
        }
        let buffer = self.packets[id as usize].buffer;
        self.octets_mut(buffer)[..octets.len()].copy_from_slice(octets);
        true
    }

    /// The octets of a packet, to be changed in place: nobody shares them.
    pub(crate) fn own(&mut self, id: u32) -> &mut [u8] {
        let Packet { buffer, len, .. } = self.packets[id as usize];
        let len = usize::from(len);
        let mut mine = buffer;
        if self.counts[buffer as usize] > 1 {
            mine = self.buffer();
            let from = buffer as usize * self.stride;
            let to = mine as usize * self.stride;
            self.octets.copy_within(from..from + len, to);
            self.drop_buffer(buffer);
            self.packets[id as usize].buffer = mine;
        }
        &mut self.octets_mut(mine)[..len]
    }

    /// The packet as it looks where it is now, in memory of the pool's: TTL and checksum patched.
    pub(crate) fn as_seen(&mut self, id: u32) -> &[u8] {
        let mut scratch = core::mem::take(&mut self.scratch);
        scratch.clear();
        scratch.extend_from_slice(self.octets(id));
        wifu_core::ip::lower_ttl(&mut scratch, self.packets[id as usize].ttl);
        self.scratch = scratch;
        &self.scratch
    }

    /// A new packet that holds the buffer, and came to its holder now.
    #[inline]
    pub(crate) fn insert(&mut self, now: Time, mut packet: Packet) -> u32 {
        packet.live = true;
        let stay = Stay {
            came: now,
            left: now,
        };
        if let Some(id) = self.free.pop() {
            self.packets[id as usize] = packet;
            self.stays[id as usize] = stay;
            return id;
        }
        self.packets.push(packet);
        self.stays.push(stay);
        (self.packets.len() - 1) as u32
    }

    /// A packet came to its holder now, over a link that kept its entry.
    #[inline]
    pub(crate) fn came(&mut self, now: Time, id: u32) {
        self.stays[id as usize].came = now;
    }

    /// A packet is handed to a link now.
    #[inline]
    pub(crate) fn leaves(&mut self, now: Time, id: u32) {
        self.stays[id as usize].left = now;
    }

    /// How long a packet that was handed to a link was at its holder before.
    #[inline]
    pub(crate) fn stayed(&self, id: u32) -> Span {
        let stay = &self.stays[id as usize];
        stay.left - stay.came
    }

    /// The next hop's entry for a packet that comes to it now.
    pub(crate) fn pass(&mut self, now: Time, id: u32, to: u16) -> u32 {
        let old = &mut self.packets[id as usize];
        old.passed = true;
        let mut packet = *old;
        packet.stage = match packet.stage {
            Stage::Shouts => Stage::Heard,
            _ => Stage::Came,
        };
        packet.passed = false;
        packet.at = to;
        packet.hop = packet.hop.saturating_add(1);
        self.counts[packet.buffer as usize] += 1;
        self.insert(now, packet)
    }

    /// A copy of a packet for somebody to keep, which shares its octets and came with it.
    pub(crate) fn copy(&mut self, id: u32) -> u32 {
        let mut packet = self.packets[id as usize];
        (packet.passed, packet.kept) = (false, true);
        self.counts[packet.buffer as usize] += 1;
        let came = self.stays[id as usize].came;
        self.insert(came, packet)
    }

    /// The entry's holder lets go of it.
    pub(crate) fn release(&mut self, id: u32) {
        let packet = &mut self.packets[id as usize];
        debug_assert!(packet.live, "packet {id} released twice");
        packet.live = false;
        let buffer = packet.buffer;
        self.free.push(id);
        self.drop_buffer(buffer);
    }

    /// All packets that are somewhere, those that the next hop has already left out.
    pub(crate) fn inside(&self) -> impl Iterator<Item = &Packet> {
        self.packets
            .iter()
            .filter(|p| p.live && !p.passed && !p.kept)
    }

    /// Entries and buffers that were ever needed at once.
    #[cfg(test)]
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.packets.len(), self.counts.len())
    }
}

impl core::ops::Index<u32> for Pool {
    type Output = Packet;
    fn index(&self, id: u32) -> &Packet {
        &self.packets[id as usize]
    }
}

impl core::ops::IndexMut<u32> for Pool {
    fn index_mut(&mut self, id: u32) -> &mut Packet {
        &mut self.packets[id as usize]
    }
}

impl Packet {
    /// A packet that enters the network at `src`.
    pub(crate) fn new(buffer: u32, len: u16, src: u16, dst: u16, proto: u8) -> Packet {
        Packet {
            buffer,
            flow: NO_FLOW,
            len,
            src,
            dst,
            at: src,
            proto,
            ttl: TTL,
            born: Time::ZERO,
            hop: 0,
            reverse: false,
            passed: false,
            kept: false,
            stage: Stage::Leaves,
            live: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use wifu_wire::{Ecn, IpInfo, ipv4};

    fn packet(pool: &mut Pool) -> u32 {
        let buffer = pool.buffer();
        let info = IpInfo {
            src: Ipv4Addr::new(10, 0, 0, 1),
            dst: Ipv4Addr::new(10, 0, 0, 2),
            proto: 6,
            ttl: TTL,
            ecn: Ecn::NotEct,
        };
        ipv4::emit(&info, 80, pool.octets_mut(buffer));
        pool.insert(Time::ZERO, Packet::new(buffer, 100, 0, 1, 6))
    }

    #[test]
    fn the_ttl_is_patched_with_its_checksum_where_it_is_looked_at() {
        let mut pool = Pool::new(1500);
        let id = packet(&mut pool);
        for ttl in [TTL, TTL - 1, 30, 1] {
            pool[id].ttl = ttl;
            let (info, _) = ipv4::parse(pool.as_seen(id)).expect("checksum holds");
            assert_eq!(info.ttl, ttl);
        }
        assert_eq!(pool.octets(id)[8], TTL);
    }

    #[test]
    fn a_packet_stays_at_a_node_until_it_is_handed_to_a_link() {
        let mut pool = Pool::new(1500);
        let first = packet(&mut pool);
        pool.leaves(Time(30), first);
        assert_eq!(pool.stayed(first), Span(30));
        let second = pool.pass(Time(100), first, 7);
        pool.leaves(Time(100), second);
        assert_eq!(
            (pool.stayed(first), pool.stayed(second)),
            (Span(30), Span(0))
        );
        // What is kept goes again, and has been there since the first one came.
        let copy = pool.copy(second);
        pool.leaves(Time(150), copy);
        assert_eq!(pool.stayed(copy), Span(50));
        pool.came(Time(200), second);
        pool.leaves(Time(260), second);
        assert_eq!(pool.stayed(second), Span(60));
    }

    #[test]
    fn hops_share_octets_until_one_changes_them() {
        let mut pool = Pool::new(1500);
        let first = packet(&mut pool);
        let second = pool.pass(Time::ZERO, first, 7);
        assert_eq!((pool[second].at, pool[second].hop), (7, 1));
        assert_eq!(pool[first].buffer, pool[second].buffer);
        assert_eq!(pool.inside().count(), 1);
        let mut changed = pool.as_seen(second).to_vec();
        changed[50] = 99;
        changed.push(7);
        assert!(pool.rewrite(second, &changed));
        assert_eq!((pool.octets(first)[50], pool.octets(second)[50]), (0, 99));
        assert_eq!((pool[first].len, pool[second].len), (100, 101));
        assert!(!pool.rewrite(second, &[0; 3000]) && !pool.rewrite(second, &[0; 19]));
        pool.release(first);
        pool.release(second);
        assert_eq!(pool.inside().count(), 0);
        assert_eq!(pool.size(), (2, 2));
        for _ in 0..100 {
            let id = packet(&mut pool);
            let next = pool.pass(Time::ZERO, id, 3);
            pool.release(id);
            pool.release(next);
        }
        assert_eq!(pool.size(), (2, 2), "memory is reused");
    }
}
