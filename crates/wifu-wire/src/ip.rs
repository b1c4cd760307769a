//! IP headers of either version, as much as a carrier needs.

pub use crate::ip_info::{AnyIpInfo, Ecn, IpError, IpInfo, TTL};
use crate::{ipv4, ipv6};
use core::net::IpAddr;

/// Length of the header that we write before packets to this address, octets.
#[inline]
pub const fn header_to(dst: IpAddr) -> usize {
    match dst {
        IpAddr::V4(_) => ipv4::HEADER,
        IpAddr::V6(_) => ipv6::HEADER,
    }
}

/// Whether a packet is of version 6; of what is empty not.
#[inline]
pub fn is_v6(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first >> 4 == 6)
}

/// Read a header of either version; gives the facts and the payload, trimmed to the length that the
/// header says.
///
/// # Errors
/// [`IpError`] says what is wrong; the caller counts it and drops the packet.
#[inline]
pub fn parse(packet: &[u8]) -> Result<(AnyIpInfo, &[u8]), IpError> {
    if is_v6(packet) {
        let (ip, payload) = ipv6::parse(packet)?;
        return Ok((ip.any(), payload));
    }
    let (ip, payload) = ipv4::parse(packet)?;
    Ok((ip.any(), payload))
}

/// A packet without what a link may have padded it with, of one that [`parse`] understands.
///
/// # Panics
/// If it is shorter than its header.
pub fn trimmed(packet: &[u8]) -> &[u8] {
    let octets = |at: usize| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
    let total = match is_v6(packet) {
        true => ipv6::HEADER + octets(4),
        false => octets(2),
    };
    &packet[..total.min(packet.len())]
}
