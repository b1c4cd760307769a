//! What a transport knows of an IP header, of either version.

use crate::checksum::Pseudo;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The initial TTL, or hop limit, of all our packets, so that hop count = 65 - received TTL + 1
/// (Behaviour 2.8).
pub const TTL: u8 = 65;

/// The ECN field (RFC 3168 section 5): whether a queue may mark instead of dropping, and whether
/// one did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not understand marks: a queue drops.
    #[default]
    NotEct = 0,
    /// ECT(1).
    Ect1 = 1,
    /// ECT(0), which a transport sends that understands marks.
    Ect0 = 2,
    /// Congestion was experienced on the way.
    Ce = 3,
}

impl Ecn {
    /// Of the second octet of an IPv4 header, or of the traffic class of an IPv6 header.
    #[inline]
    pub fn of(octet: u8) -> Ecn {
        match octet & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
}

/// What the transport needs to know of an IP header. Nodes on the way, their handlers and lanes see
/// headers of version 4 alone, which is the default; ends see either ([`AnyIpInfo`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpInfo<A = Ipv4Addr> {
    /// Source address.
    pub src: A,
    /// Destination address.
    pub dst: A,
    /// Protocol number; of version 6 that of the last next header.
    pub proto: u8,
    /// Time to live, or hop limit, as received.
    pub ttl: u8,
    /// Whether a queue may mark it, or did.
    pub ecn: Ecn,
}

/// Of a header of either version. Both addresses are of one family.
pub type AnyIpInfo = IpInfo<IpAddr>;

impl<A: Copy + Into<IpAddr>> IpInfo<A> {
    /// The same, as one of either version.
    #[inline]
    pub fn any(&self) -> AnyIpInfo {
        IpInfo {
            src: self.src.into(),
            dst: self.dst.into(),
            proto: self.proto,
            ttl: self.ttl,
            ecn: self.ecn,
        }
    }

    /// What transport checksums cover of it.
    #[inline]
    pub fn pseudo(&self) -> Pseudo {
        Pseudo::new(self.src, self.dst, self.proto)
    }
}

impl AnyIpInfo {
    /// The same as one of version 4, if it is such.
    #[inline]
    pub fn v4(&self) -> Option<IpInfo> {
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (self.src, self.dst) else {
            return None;
        };
        Some(self.between(src, dst))
    }

    /// The same as one of version 6, if it is such.
    #[inline]
    pub fn v6(&self) -> Option<IpInfo<Ipv6Addr>> {
        let (IpAddr::V6(src), IpAddr::V6(dst)) = (self.src, self.dst) else {
            return None;
        };
        Some(self.between(src, dst))
    }

    fn between<A>(&self, src: A, dst: A) -> IpInfo<A> {
        IpInfo {
            src,
            dst,
            proto: self.proto,
            ttl: self.ttl,
            ecn: self.ecn,
        }
    }
}

/// Why bytes are no IP packet for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpError {
    /// Shorter than its header says.
    Short,
    /// Neither version 4 nor 6, a nonsensical header length, or, of version 6, an extension header
    /// that has to be obeyed and is not known.
    Malformed,
    /// A fragment: we set "don't fragment" and reassemble nothing.
    Fragment,
    /// The header checksum is wrong.
    Checksum,
}
