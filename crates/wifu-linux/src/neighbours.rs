//! Which station on which link is the next hop to a destination, as the kernel's routes and
//! neighbour table have it.
//!
//! Answers are kept for a second. Only stations whose Ethernet address the kernel has resolved are
//! given; for all others the caller sends through an IP socket, which makes the kernel resolve
//! them. The first packet after each renewal also goes that way, so that the kernel keeps
//! confirming the neighbour as it would without us.

use crate::netlink::{Attributes, Netlink, attribute};
use crate::sys::LinkAddress;
use core::net::Ipv4Addr;
use std::collections::BTreeMap;
use std::io;
use wifu_wire::units::{Span, Time};

/// How long an answer holds.
const FRESH: Span = Span::SECOND;
/// How soon to ask again while there is no answer.
const RETRY: Span = Span(10_000_000);
/// Destinations remembered; beyond it everything is asked afresh.
const REMEMBERED: usize = 4096;

/// linux/rtnetlink.h and linux/neighbour.h; the names are the kernel's.
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const ARPHRD_ETHER: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const IFA_LOCAL: u16 = 2;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWNEIGH: u16 = 28;
const RTM_GETNEIGH: u16 = 30;
const RTN_UNICAST: u8 = 1;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// REACHABLE, STALE, DELAY, PROBE, PERMANENT: states with a usable address.
const NUD_USABLE: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x80;
const AF_INET: u8 = 2;

/// How packets to a destination leave, by the kernel's routes and neighbour table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The kernel's index of the device by which they leave, from 1.
    pub interface: i32,
    /// The next hop; the destination itself if it is on the link.
    pub hop: Ipv4Addr,
    /// Its station, as far as the kernel has resolved it.
    pub station: Option<LinkAddress>,
}

/// An interface whose frames have Ethernet headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// As the kernel calls it, such as `eth0`.
    pub name: String,
    /// The longest packet, octets.
    pub mtu: u32,
}

/// Whether an interface is one of those that were named; where none was, all are.
pub(crate) fn is_among(named: &[String], device: &str) -> bool {
    named.is_empty() || named.iter().any(|name| name == device)
}

#[derive(Clone, Copy)]
struct Entry {
    link: Option<LinkAddress>,
    until: Time,
}

/// The next hops of destinations.
pub struct Neighbours {
    netlink: Netlink,
    entries: BTreeMap<Ipv4Addr, Entry>,
    /// The last one asked for, which is nearly always the next one too.
    last: Option<(Ipv4Addr, Entry)>,
}

impl Neighbours {
    /// Of this thread's network namespace.
    ///
    /// # Errors
    /// What `socket` says.
    pub fn open() -> io::Result<Neighbours> {
        Ok(Neighbours {
            netlink: Netlink::route()?,
            entries: BTreeMap::new(),
            last: None,
        })
    }

    /// The station to send to, or `None` if this packet shall go through an IP socket.
    pub fn next_hop(&mut self, dst: Ipv4Addr, now: Time) -> Option<LinkAddress> {
        if let Some((last, entry)) = self.last
            && last == dst
            && now < entry.until
        {
            return entry.link;
        }
        if let Some(entry) = self.entries.get(&dst)
            && now < entry.until
        {
            self.last = Some((dst, *entry));
            return entry.link;
        }
        let link = self.ask(dst).ok().flatten().and_then(|w| w.station);
        let until = now + if link.is_some() { FRESH } else { RETRY };
        if self.entries.len() >= REMEMBERED {
            self.entries.clear();
        }
        let entry = Entry { link, until };
        self.entries.insert(dst, entry);
        self.last = Some((dst, entry));
        None
    }

    /// How packets to a destination leave now; `None` if there is no route to it, or if it is no
    /// host on a link.
    ///
    /// # Errors
    /// What the route socket says.
    pub fn ask(&mut self, dst: Ipv4Addr) -> io::Result<Option<Way>> {
        // struct rtmsg with a 32-bit destination, then RTA_DST.
        let mut body = vec![AF_INET, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        attribute(&mut body, RTA_DST, &dst.octets());
        let mut reply = [0u8; 4096];
        let Some(answer) = self
            .netlink
            .request(RTM_GETROUTE, RTM_NEWROUTE, &body, &mut reply)?
        else {
            return Ok(None);
        };
        let Some((interface, hop)) = route_of(answer, dst) else {
            return Ok(None);
        };
        let unresolved = Way {
            interface,
            hop,
            station: None,
        };
        // struct ndmsg: family, padding, interface, state, flags, type; then NDA_DST.
        let mut body = vec![AF_INET, 0, 0, 0];
        body.extend(interface.to_ne_bytes());
        body.extend([0; 4]);
        attribute(&mut body, NDA_DST, &hop.octets());
        let Some(answer) = self
            .netlink
            .request(RTM_GETNEIGH, RTM_NEWNEIGH, &body, &mut reply)?
        else {
            return Ok(Some(unresolved));
        };
        let mac = mac_of(answer);
        Ok(Some(Way {
            station: mac.map(|mac| LinkAddress { interface, mac }),
            ..unresolved
        }))
    }

    /// All IPv4 addresses of this namespace's interfaces, with the interfaces' indices.
    ///
    /// # Errors
    /// What the route socket says.
    pub fn local_addresses(&mut self) -> io::Result<Vec<(i32, Ipv4Addr)>> {
        let mut found = Vec::new();
        // struct ifaddrmsg: family, prefix length, flags, scope, index.
        self.netlink.dump(
            RTM_GETADDR,
            RTM_NEWADDR,
            &[AF_INET, 0, 0, 0, 0, 0, 0, 0],
            |body| found.extend(address_of(body)),
        )?;
        Ok(found)
    }

    /// This namespace's Ethernet interfaces, by index.
    ///
    /// # Errors
    /// What the route socket says.
    pub fn ethernets(&mut self) -> io::Result<BTreeMap<i32, Ethernet>> {
        let mut found = BTreeMap::new();
        // struct ifinfomsg: family, padding, type of hardware, index, flags, change.
        self.netlink
            .dump(RTM_GETLINK, RTM_NEWLINK, &[0; 16], |body| {
                found.extend(ethernet_of(body));
            })?;
        Ok(found)
    }
}

/// Four octets of an answer; none if it is shorter.
fn four(body: &[u8], at: usize) -> Option<[u8; 4]> {
    body.get(at..)?.first_chunk().copied()
}

/// The attributes of an answer behind a header of so many octets.
fn attributes(body: &[u8], header: usize) -> Attributes<'_> {
    Attributes(body.get(header..).unwrap_or(&[]))
}

/// The value of an attribute that has so many octets.
fn value_of<const N: usize>(mut of: Attributes<'_>, wanted: u16) -> Option<[u8; N]> {
    let (_, value) = of.find(|(kind, _)| *kind == wanted)?;
    value.try_into().ok()
}

/// Interface and next hop to a destination, of struct rtmsg. Local, broadcast and multicast
/// destinations have no station.
fn route_of(answer: &[u8], dst: Ipv4Addr) -> Option<(i32, Ipv4Addr)> {
    if *answer.get(7)? != RTN_UNICAST {
        return None;
    }
    let interface = value_of(attributes(answer, 12), RTA_OIF)?;
    let gateway = value_of::<4>(attributes(answer, 12), RTA_GATEWAY);
    Some((
        i32::from_ne_bytes(interface),
        gateway.map_or(dst, Into::into),
    ))
}

/// The address of a neighbour that can be used, of struct ndmsg.
fn mac_of(answer: &[u8]) -> Option<[u8; 6]> {
    let [low, high, ..] = four(answer, 8)?;
    let usable = u16::from_ne_bytes([low, high]) & NUD_USABLE != 0;
    value_of(attributes(answer, 12), NDA_LLADDR).filter(|_| usable)
}

/// An address and its interface, of struct ifaddrmsg.
fn address_of(body: &[u8]) -> Option<(i32, Ipv4Addr)> {
    let local: [u8; 4] = value_of(attributes(body, 8), IFA_LOCAL)?;
    Some((i32::from_ne_bytes(four(body, 4)?), local.into()))
}

/// An interface whose frames have Ethernet headers, of struct ifinfomsg.
fn ethernet_of(body: &[u8]) -> Option<(i32, Ethernet)> {
    let [_, _, low, high] = four(body, 0)?;
    if u16::from_ne_bytes([low, high]) != ARPHRD_ETHER {
        return None;
    }
    let mtu = value_of(attributes(body, 16), IFLA_MTU).map_or(u32::MAX, u32::from_ne_bytes);
    let name = attributes(body, 16).find(|(kind, _)| *kind == IFLA_IFNAME);
    let name = name.map_or(&[][..], |(_, value)| value);
    let name = String::from_utf8_lossy(name.strip_suffix(&[0]).unwrap_or(name));
    let name = name.into_owned();
    Some((i32::from_ne_bytes(four(body, 4)?), Ethernet { name, mtu }))
}

/// Understand the body of any answer, as every kind of those that are asked for here.
///
/// # Panics
/// If what was understood cannot be.
pub(crate) fn understand(body: &[u8]) {
    let dst = Ipv4Addr::LOCALHOST;
    let route = route_of(body, dst);
    assert!(route.is_none() || body.len() >= 12 + 8, "{route:?}");
    assert!(mac_of(body).is_none() || body.len() >= 12 + 10);
    assert!(address_of(body).is_none() || body.len() >= 8 + 8);
    let name = ethernet_of(body).map(|(_, e)| e.name);
    // What is no UTF-8 takes three octets for each.
    assert!(name.is_none_or(|name| name.len() <= 3 * body.len()));
}
