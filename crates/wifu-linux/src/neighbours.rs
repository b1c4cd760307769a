//! Which station on which link is the next hop to a destination, as the kernel's routes and
//! neighbour table have it.
//!
//! Answers are kept for a second. Only stations whose Ethernet address the kernel has resolved are
//! given; for all others the caller sends through an IP socket, which makes the kernel resolve
//! them. The first packet after each renewal also goes that way, so that the kernel keeps
//! confirming the neighbour as it would without us.

use crate::ring::open_netlink;
use crate::sys::LinkAddress;
use core::net::Ipv4Addr;
use rustix::net::{RecvFlags, SendFlags};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use wifu_wire::units::{Span, Time};

/// How long an answer holds.
const FRESH: Span = Span::SECOND;
/// How soon to ask again while there is no answer.
const RETRY: Span = Span(10_000_000);
/// Destinations remembered; beyond it everything is asked afresh.
const REMEMBERED: usize = 4096;

/// linux/rtnetlink.h, linux/neighbour.h and linux/netlink.h; the names are the kernel's.
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const ARPHRD_ETHER: u16 = 1;
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
    /// The interface.
    pub interface: i32,
    /// The next hop; the destination itself if it is on the link.
    pub hop: Ipv4Addr,
    /// Its station, as far as the kernel has resolved it.
    pub station: Option<LinkAddress>,
}

#[derive(Clone, Copy)]
struct Entry {
    link: Option<LinkAddress>,
    until: Time,
}

/// The next hops of destinations.
pub struct Neighbours {
    netlink: OwnedFd,
    entries: BTreeMap<Ipv4Addr, Entry>,
    /// The last one asked for, which is nearly always the next one too.
    last: Option<(Ipv4Addr, Entry)>,
    sequence: u32,
}

impl Neighbours {
    /// Of this thread's network namespace.
    ///
    /// # Errors
    /// What `socket` says.
    pub fn open() -> io::Result<Neighbours> {
        Ok(Neighbours {
            netlink: open_netlink()?,
            entries: BTreeMap::new(),
            last: None,
            sequence: 0,
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
        let Some(answer) = self.request(RTM_GETROUTE, RTM_NEWROUTE, &body, &mut reply)? else {
            return Ok(None);
        };
        // Local, broadcast and multicast destinations have no station.
        if answer.len() < 12 || answer[7] != RTN_UNICAST {
            return Ok(None);
        }
        let (mut interface, mut hop) = (None, dst);
        for (kind, value) in Attributes(&answer[12..]) {
            if let Ok(octets) = <[u8; 4]>::try_from(value) {
                match kind {
                    RTA_OIF => interface = Some(i32::from_ne_bytes(octets)),
                    RTA_GATEWAY => hop = octets.into(),
                    _ => {}
                }
            }
        }
        let Some(interface) = interface else {
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
        let Some(answer) = self.request(RTM_GETNEIGH, RTM_NEWNEIGH, &body, &mut reply)? else {
            return Ok(Some(unresolved));
        };
        if answer.len() < 12 || u16::from_ne_bytes([answer[8], answer[9]]) & NUD_USABLE == 0 {
            return Ok(Some(unresolved));
        }
        let mac = Attributes(&answer[12..]).find(|(kind, _)| *kind == NDA_LLADDR);
        let mac = mac.and_then(|(_, value)| <[u8; 6]>::try_from(value).ok());
        let station = mac.map(|mac| LinkAddress { interface, mac });
        Ok(Some(Way {
            station,
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
        self.dump(
            RTM_GETADDR,
            RTM_NEWADDR,
            &[AF_INET, 0, 0, 0, 0, 0, 0, 0],
            |body| {
                let index = index_at(body, 4);
                let local = Attributes(&body[8..]).find(|(kind, _)| *kind == IFA_LOCAL);
                let local = local.and_then(|(_, value)| <[u8; 4]>::try_from(value).ok());
                found.extend(local.map(|a| (index, Ipv4Addr::from(a))));
            },
        )?;
        Ok(found)
    }

    /// The indices of this namespace's Ethernet interfaces, and their MTUs, octets.
    ///
    /// # Errors
    /// What the route socket says.
    pub fn ethernets(&mut self) -> io::Result<BTreeMap<i32, u32>> {
        let mut found = BTreeMap::new();
        // struct ifinfomsg: family, padding, type of hardware, index, flags, change.
        self.dump(RTM_GETLINK, RTM_NEWLINK, &[0; 16], |body| {
            if u16::from_ne_bytes([body[2], body[3]]) == ARPHRD_ETHER {
                let mtu = Attributes(&body[16..]).find(|(kind, _)| *kind == IFLA_MTU);
                let mtu = mtu.and_then(|(_, value)| <[u8; 4]>::try_from(value).ok());
                found.insert(index_at(body, 4), mtu.map_or(u32::MAX, u32::from_ne_bytes));
            }
        })?;
        Ok(found)
    }

    /// Ask for all objects of a kind; `each` gets the body of every answer.
    fn dump(
        &mut self,
        kind: u16,
        wanted: u16,
        body: &[u8],
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        self.send(kind, NLM_F_REQUEST | NLM_F_DUMP, body)?;
        let mut buffer = vec![0u8; 64 << 10];
        loop {
            let (n, _) = rustix::net::recv(&self.netlink, &mut *buffer, RecvFlags::empty())?;
            let mut rest = &buffer[..n];
            while rest.len() >= 16 {
                let length = u32::from_ne_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
                if !(16..=rest.len()).contains(&length) {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                match u16::from_ne_bytes([rest[4], rest[5]]) {
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => return Err(io::ErrorKind::Other.into()),
                    kind if kind == wanted && length >= 16 + body.len() => {
                        each(&rest[16..length]);
                    }
                    _ => {}
                }
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
            }
        }
    }

    /// One request and its answer's body; `None` if the kernel answers with an error.
    fn request<'a>(
        &mut self,
        kind: u16,
        wanted: u16,
        body: &[u8],
        reply: &'a mut [u8],
    ) -> io::Result<Option<&'a [u8]>> {
        self.send(kind, NLM_F_REQUEST, body)?;
        // The kernel answers such requests before `send` returns.
        let (n, _) = rustix::net::recv(&self.netlink, &mut *reply, RecvFlags::DONTWAIT)?;
        let reply = &reply[..n];
        if n < 16 || u16::from_ne_bytes([reply[4], reply[5]]) != wanted {
            return Ok(None);
        }
        let length = u32::from_ne_bytes([reply[0], reply[1], reply[2], reply[3]]) as usize;
        Ok(reply.get(16..length.min(n)))
    }

    fn send(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = Vec::with_capacity(16 + body.len());
        message.extend((16 + body.len() as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        message.extend(self.sequence.to_ne_bytes());
        message.extend(0u32.to_ne_bytes());
        message.extend(body);
        rustix::net::send(&self.netlink, &message, SendFlags::empty())?;
        Ok(())
    }
}

fn index_at(body: &[u8], at: usize) -> i32 {
    i32::from_ne_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]])
}

/// Append an attribute to a netlink message.
pub(crate) fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend(((4 + value.len()) as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// The attributes of a netlink message, as (kind, value).
pub(crate) struct Attributes<'a>(pub &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let head = self.0.get(..4)?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let kind = u16::from_ne_bytes([head[2], head[3]]);
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    }
}
