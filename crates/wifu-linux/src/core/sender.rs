//! What handlers send: along the kernel's routes by a raw socket, or by a TUN device if packets
//! come by these; to a neighbour or to all who hear by a packet socket, past the kernel's IP layer.
//!
//! What goes by the raw socket passes the kernel's hooks `output` and `postrouting`, and if rules
//! send it to our queues there, it comes back. Its mark says that it is ours and which handler sent
//! it: nobody is asked about it at `output`, and whoever sent it not at `postrouting`. What goes by
//! a TUN device or a packet socket does not come back.

use super::gate::Gate;
use super::tunnel::Tunnels;
use crate::neighbours::{Ethernet, Neighbours};
use crate::poller::Poller;
use crate::ring::open_link_sender;
use crate::sys::{LinkAddress, SendBatch, Target};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Protocol, SendFlags, SocketFlags, SocketType, sendto, socket_with,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use wifu_core::{NO_PACKET, ip};
use wifu_wire::{LinkTo, Neighbour, Span, Time};

/// The upper half of our marks ("WF"); the lower is the place of the handler in its chain.
const MARK: u32 = 0x5746_0000;
const PLACE: u32 = 0xFFFF;
/// The longest packet, octets.
const LONGEST: usize = (64 << 10) - 1;
/// Interfaces are looked at again after this time.
const FRESH: Span = Span(1_000_000_000);
/// The link-layer address of all who hear.
const ALL: [u8; 6] = [0xFF; 6];

/// Why something did not leave.
const NO_ROOM: &str = "sent, but the kernel has no room";
const REFUSED: &str = "sent, but the kernel refuses it";
const NO_ROUTE: &str = "sent, but no route";
const NO_RIGHT: &str = "sent to a neighbour, but without CAP_NET_RAW";
const NO_LINK: &str = "sent to a neighbour, but its device is gone, down or no Ethernet";
const NO_LINKS: &str = "sent to all, but there is no Ethernet with an address of IPv4";
const TOO_LONG: &str = "sent to a neighbour, but longer than the MTU";

/// Sends whole IP packets.
pub(crate) struct Sender {
    along: Along,
    /// `None` without the right to.
    links: Option<Links>,
}

/// How packets get to the kernel's routes.
enum Along {
    Socket {
        socket: OwnedFd,
        /// Whose packets it marks.
        by: Option<usize>,
    },
    Tunnels(Arc<Tunnels>),
}

impl Sender {
    /// The raw socket needs CAP_NET_RAW, and the mark of each packet that or CAP_NET_ADMIN, later;
    /// so does the packet socket, without which only neighbours can't be reached.
    pub(crate) fn open(gate: &Gate) -> io::Result<Sender> {
        let along = match gate {
            Gate::Queues(_) => Along::Socket {
                socket: open_raw()?,
                by: None,
            },
            Gate::Tunnels(tunnels) => Along::Tunnels(tunnels.clone()),
        };
        let links = Links::open().ok();
        Ok(Sender { along, links })
    }

    /// Send a packet of the handler at this place.
    ///
    /// # Errors
    /// Why it does not leave.
    pub(crate) fn send(
        &mut self,
        by: usize,
        packet: &[u8],
        to: LinkTo,
    ) -> Result<(), &'static str> {
        if ip::payload(packet).is_none() {
            return Err(NO_PACKET);
        }
        if to == LinkTo::Route {
            return self.along.send(by, packet);
        }
        let links = self.links.as_mut().ok_or(NO_RIGHT)?;
        match to {
            LinkTo::Neighbour(neighbour) => links.send(packet, neighbour),
            _ => links.send_to_all(packet),
        }
    }
}

impl Along {
    fn send(&mut self, by: usize, packet: &[u8]) -> Result<(), &'static str> {
        let (socket, marked) = match self {
            Along::Tunnels(tunnels) => {
                let sent = tunnels.send(packet);
                return sent.map_err(|e| Errno::from_io_error(&e).map_or(REFUSED, reason));
            }
            Along::Socket { socket, by } => (socket, by),
        };
        if *marked != Some(by) {
            let mark = MARK | (by as u32 & PLACE);
            let set = crate::sys::set_option(&*socket, libc::SOL_SOCKET, libc::SO_MARK, mark);
            set.map_err(|_| "sent, but it cannot be marked")?;
            *marked = Some(by);
        }
        let (_, dst) = ip::addresses(packet);
        let to = SocketAddrV4::new(dst, 0);
        let sent = sendto(&*socket, packet, SendFlags::empty(), &to);
        sent.map(drop).map_err(reason)
    }
}

fn open_raw() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // With this protocol, a header comes with each packet, and nothing is received.
    let raw = u32::try_from(libc::IPPROTO_RAW).ok();
    let raw = raw.and_then(core::num::NonZeroU32::new);
    let raw = raw.map(Protocol::from_raw);
    Ok(socket_with(
        AddressFamily::INET,
        SocketType::RAW,
        flags,
        raw,
    )?)
}

/// Sends to stations on links.
struct Links {
    socket: OwnedFd,
    neighbours: Neighbours,
    one: SendBatch,
    /// The Ethernets, and which interfaces have an address, as of `looked`.
    ethernets: BTreeMap<i32, Ethernet>,
    ours: BTreeSet<i32>,
    looked: Option<Time>,
}

impl Links {
    fn open() -> io::Result<Links> {
        Ok(Links {
            socket: open_link_sender()?,
            neighbours: Neighbours::open()?,
            one: SendBatch::new(1, LONGEST),
            ethernets: BTreeMap::new(),
            ours: BTreeSet::new(),
            looked: None,
        })
    }

    /// Learn which interfaces there are.
    fn look(&mut self) {
        let now = Poller::now();
        if self.looked.is_some_and(|at| now - at < FRESH) {
            return;
        }
        self.looked = Some(now);
        self.ethernets = self.neighbours.ethernets().unwrap_or_default();
        let addresses = self.neighbours.local_addresses().unwrap_or_default();
        self.ours = addresses.into_iter().map(|(device, _)| device).collect();
    }

    fn send(&mut self, packet: &[u8], neighbour: Neighbour) -> Result<(), &'static str> {
        self.look();
        let interface = i32::from(neighbour.device.get());
        let mac = neighbour.address;
        self.put(packet, LinkAddress { interface, mac })
    }

    fn send_to_all(&mut self, packet: &[u8]) -> Result<(), &'static str> {
        self.look();
        let all = self.ethernets.keys().filter(|d| self.ours.contains(d));
        let all: Vec<i32> = all.copied().collect();
        let mut sent = Err(NO_LINKS);
        for interface in all {
            let one = self.put(
                packet,
                LinkAddress {
                    interface,
                    mac: ALL,
                },
            );
            // It left if it did so anywhere.
            sent = sent.or(one);
        }
        sent
    }

    fn put(&mut self, packet: &[u8], to: LinkAddress) -> Result<(), &'static str> {
        let mtu = self.ethernets.get(&to.interface).ok_or(NO_LINK)?.mtu;
        if packet.len() > mtu as usize {
            return Err(TOO_LONG);
        }
        self.one.buffer(0)[..packet.len()].copy_from_slice(packet);
        self.one.set(0, 0..packet.len(), Target::Link(to));
        let sent = self.one.send(&self.socket, 0, 1);
        sent.map(drop).map_err(|e| match Errno::from_io_error(&e) {
            Some(Errno::NXIO | Errno::NODEV | Errno::NETDOWN) => NO_LINK,
            Some(Errno::MSGSIZE) => TOO_LONG,
            Some(other) => reason(other),
            None => REFUSED,
        })
    }
}

/// Which handler of the chain sent the packet with this mark.
pub(crate) fn sent_by(mark: u32) -> Option<usize> {
    (mark & !PLACE == MARK).then_some((mark & PLACE) as usize)
}

fn reason(error: Errno) -> &'static str {
    match error {
        Errno::MSGSIZE | Errno::INVAL => NO_PACKET,
        Errno::NETUNREACH | Errno::HOSTUNREACH => NO_ROUTE,
        Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM => NO_ROOM,
        _ => REFUSED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_says_who_sent_a_packet_and_others_marks_say_nothing() {
        assert_eq!(sent_by(MARK | 3), Some(3));
        for others in [0, 3, 0x5747_0003, u32::MAX] {
            assert_eq!(sent_by(others), None);
        }
    }
}
