//! A packet on its way, and what the network knows of it.

use crate::rules::Numbers;
use wifu_wire::{Flags, IpInfo, Wire, ipv4};

/// The two ends of the mock network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Side {
    /// The end behind the access link: the sender of one-way examples.
    A,
    /// The end behind the bottleneck.
    B,
}

impl Side {
    /// In the order of [`Side::index`].
    pub const BOTH: [Side; 2] = [Side::A, Side::B];

    /// 0 or 1.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The opposite end.
    pub fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }
}

/// A packet on its way.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Who sent it.
    pub from: Side,
    /// Which flow it belongs to, if any.
    pub flow: Option<usize>,
    /// How many packets its sender had sent before it.
    pub number: u64,
    /// Sequence and acknowledgement number, counted as in rule files.
    pub numbers: Numbers,
    /// Flags of its header.
    pub flags: Flags,
    /// Octets of data.
    pub data: u32,
    /// Which data segment of its direction it is, from 0; `None` without data.
    pub index: Option<u64>,
    /// It repeats data that was sent before.
    pub again: bool,
    /// Why it was retransmitted: as in [`wifu_engine::Reason::name`].
    pub reason: &'static str,
    /// The IP packet.
    pub octets: Vec<u8>,
    /// The faults were already asked about it.
    pub(crate) judged: bool,
    /// A bit was flipped on its way.
    pub(crate) corrupt: bool,
}

impl Packet {
    /// Addresses and protocol, if the header is in order.
    pub fn ip(&self) -> Option<IpInfo> {
        ipv4::parse(&self.octets).ok().map(|(ip, _)| ip)
    }

    /// The transport segment, if the header is in order.
    pub fn segment(&self) -> &[u8] {
        ipv4::parse(&self.octets).map_or(&[], |(_, segment)| segment)
    }

    /// Alter the transport segment and make its checksum right again.
    pub fn rewrite(&mut self, wire: &dyn Wire, change: impl FnOnce(&mut [u8])) {
        let Some(ip) = self.ip() else { return };
        let pseudo = ip.pseudo();
        let segment = &mut self.octets[ipv4::HEADER..];
        change(segment);
        wire.seal(&pseudo, segment);
    }

    /// Pass a router. False if the packet has used up its hops.
    pub(crate) fn route(&mut self) -> bool {
        let Ok((ip, segment)) = ipv4::parse(&self.octets) else {
            return false;
        };
        let (length, ttl) = (segment.len(), ip.ttl.saturating_sub(1));
        ipv4::emit(&IpInfo { ttl, ..ip }, length, &mut self.octets);
        ttl > 0
    }
}

/// An IP packet around a transport segment.
pub fn wrap(ip: &IpInfo, segment: &[u8]) -> Vec<u8> {
    let mut octets = vec![0; ipv4::HEADER + segment.len()];
    ipv4::emit(ip, segment.len(), &mut octets);
    octets[ipv4::HEADER..].copy_from_slice(segment);
    octets
}
