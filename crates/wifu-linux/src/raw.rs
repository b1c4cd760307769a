//! The `raw` carrier: IPv4 raw sockets, one per protocol number.
//!
//! As long as a socket for a number is open, the kernel answers packets of that number with no
//! ICMP "protocol unreachable". The first socket sends for all of them: with `IP_HDRINCL` the
//! header alone says which protocol a packet belongs to.
//!
//! Raw sockets cost a route lookup with a fresh route entry, the whole IP layer and a wake-up per
//! packet. A *direct* carrier has the same sockets open, but what arrives on this host's Ethernet
//! interfaces for its addresses it takes from a ring shared with the kernel ([`crate::ingress`]),
//! and it sends straight to neighbours that the kernel has resolved. Everything else still goes
//! through the sockets. The same packets are on the wire at about half the cost; but what works on
//! the IP layer (netfilter, NFQUEUE, policy routing) does not see them.

use crate::carrier::{Accept, BATCH, Counters, Outbox, Packets, Source, is_local_address};
use crate::carrier::{open_raw_socket, route_to};
use crate::ingress::{Ingress, Selection};
use crate::neighbours::Neighbours;
use crate::poller::Poller;
use crate::ring::{PacketRing, open_link_sender};
use crate::sys::{self, RecvBatch};
use core::net::Ipv4Addr;
use rustix::net::sockopt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wifu_wire::ipv4::{self, IpInfo};
use wifu_wire::units::Time;

/// How a [`RawCarrier`] is opened.
#[derive(Clone, Debug)]
pub struct RawConfig {
    /// Protocol numbers, at least one, none twice; 1 to 254, never a number that the kernel
    /// itself speaks.
    pub protocols: Vec<u8>,
    /// The longest IP packet sent, in octets.
    pub mtu: usize,
    /// Size of each socket's receive buffer as the kernel counts it, in octets. A 1500-octet
    /// packet counts as about 2300.
    pub receive_buffer: usize,
    /// Size of the send buffer as the kernel counts it, in octets. It bounds what waits in the
    /// local queue, and with it local delay; `None` leaves the system's default.
    pub send_buffer: Option<usize>,
    /// Send to neighbours and receive from a ring, past the kernel's IP layer and its filters.
    /// Needs CAP_NET_ADMIN, CAP_BPF and Linux 6.6. Interfaces and addresses that come later work,
    /// through the sockets.
    pub direct: bool,
}

impl RawConfig {
    /// The defaults for these protocol numbers: 1500 octets, 16 MiB to receive.
    pub fn new(protocols: Vec<u8>) -> RawConfig {
        RawConfig {
            protocols,
            mtu: 1500,
            receive_buffer: 16 << 20,
            send_buffer: None,
            direct: false,
        }
    }
}

/// Protocol numbers that Linux hosts answer themselves; taking them would disturb others.
const TAKEN: [u8; 9] = [0, 1, 2, 4, 6, 17, 41, 47, 255];

/// Raw sockets, ready to carry.
pub struct RawCarrier {
    sockets: Vec<OwnedFd>,
    /// Sockets that the poller saw readable and that are not drained.
    ready: Vec<bool>,
    turn: usize,
    inbox: RecvBatch,
    direct: Option<Direct>,
    outbox: Outbox,
    counters: Counters,
    mtu: usize,
}

/// The way past the kernel's IP layer.
struct Direct {
    ring: PacketRing,
    ready: bool,
    sender: OwnedFd,
    neighbours: Neighbours,
    /// Keeps from the IP layer what the ring takes.
    _ingress: Ingress,
    /// When the last batch began, as good as now for what is known about neighbours.
    clock: Time,
}

impl Direct {
    fn open(config: &RawConfig) -> io::Result<Direct> {
        let sender = open_link_sender()?;
        set_send_buffer(&sender, config)?;
        let mut neighbours = Neighbours::open()?;
        let ethernets = neighbours.ethernets()?;
        let mut addresses = neighbours.local_addresses()?;
        addresses.retain(|(interface, _)| ethernets.contains(interface));
        let mut interfaces: Vec<i32> = addresses.iter().map(|(i, _)| *i).collect();
        interfaces.sort_unstable();
        interfaces.dedup();
        let selection = Selection {
            interfaces,
            protocols: config.protocols.clone(),
            addresses: addresses.iter().map(|(_, a)| *a).collect(),
        };
        let selection = selection.bounded();
        // The ring first: what arrives in between comes twice, which a network may do, and is not
        // lost.
        let ring = PacketRing::open(&selection, config.mtu, config.receive_buffer)?;
        Ok(Direct {
            ring,
            ready: false,
            sender,
            neighbours,
            _ingress: Ingress::attach(&selection)?,
            clock: Poller::now(),
        })
    }
}

impl RawCarrier {
    /// Open the sockets in this thread's network namespace.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_NET_RAW, `InvalidInput` for a protocol list or mtu that
    /// [`RawConfig`] forbids.
    pub fn open(config: &RawConfig) -> io::Result<RawCarrier> {
        let bad = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        if config.protocols.is_empty() {
            return bad("the raw carrier needs at least one protocol number".into());
        }
        if !(68..=65_535).contains(&config.mtu) {
            return bad(format!("mtu {}: must be 68 to 65535", config.mtu));
        }
        let mut sockets = Vec::with_capacity(config.protocols.len());
        for (i, number) in config.protocols.iter().enumerate() {
            if TAKEN.contains(number) {
                return bad(format!("protocol number {number} belongs to the kernel"));
            }
            if config.protocols[..i].contains(number) {
                return bad(format!("protocol number {number} is listed twice"));
            }
            sockets.push(open_socket(*number, config)?);
        }
        let direct = config.direct.then(|| Direct::open(config)).transpose()?;
        Ok(RawCarrier {
            direct,
            ready: vec![false; sockets.len()],
            sockets,
            turn: 0,
            // A peer's interface may allow more than ours; what is longer still is counted.
            inbox: RecvBatch::new(BATCH, config.mtu.max(2048)),
            outbox: Outbox::new(config.mtu),
            counters: Counters::default(),
            mtu: config.mtu,
        })
    }

    /// How many descriptors there are: one socket per protocol; a direct carrier has the ring and
    /// the socket that sends to neighbours after those.
    pub fn descriptors(&self) -> usize {
        self.sockets.len() + if self.direct.is_some() { 2 } else { 0 }
    }

    /// Descriptor `i`.
    ///
    /// # Panics
    /// If there is no such descriptor.
    pub fn descriptor(&self, i: usize) -> BorrowedFd<'_> {
        match &self.direct {
            Some(direct) if i == self.ring_index() => direct.ring.as_fd(),
            Some(direct) if i == self.ring_index() + 1 => direct.sender.as_fd(),
            _ => self.sockets[i].as_fd(),
        }
    }

    fn ring_index(&self) -> usize {
        self.sockets.len()
    }

    /// Can there be input on descriptor `i`?
    pub(crate) fn receives(&self, i: usize) -> bool {
        i <= self.ring_index()
    }

    /// The descriptor to watch for room, if the carrier is blocked.
    pub(crate) fn blocked_on(&self) -> Option<usize> {
        let linked = self.outbox.is_linked();
        let sender = if linked { self.ring_index() + 1 } else { 0 };
        self.outbox.is_blocked().then_some(sender)
    }

    pub(crate) fn armed(&mut self) -> &mut Option<usize> {
        &mut self.outbox.armed
    }

    /// Descriptor `i` was seen readable.
    pub fn mark_ready(&mut self, i: usize) {
        if let Some(ready) = self.ready.get_mut(i) {
            *ready = true;
        } else if let Some(direct) = &mut self.direct {
            direct.ready = true;
        }
    }

    /// See [`Carrier::receive`](crate::carrier::Carrier::receive). Takes turns between sockets.
    pub fn receive(&mut self) -> Option<Packets<'_>> {
        if let Some(direct) = self.direct.as_mut().filter(|d| d.ready) {
            let n = direct.ring.take(BATCH);
            if n > 0 {
                let source = Source::Ring(&direct.ring);
                return Some(Packets::new(source, n, Accept::All, &mut self.counters));
            }
            direct.ready = false;
        }
        let sockets = self.sockets.len();
        for _ in 0..sockets {
            let i = self.turn;
            self.turn = (i + 1) % sockets;
            if !self.ready[i] {
                continue;
            }
            self.counters.receive_calls += 1;
            let n = match self.inbox.receive(&self.sockets[i]) {
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => 0,
                Err(_) => {
                    self.counters.receive_errors += 1;
                    0
                }
            };
            // A batch that is not full has emptied the socket; the poller will tell of more.
            self.ready[i] = n == self.inbox.capacity();
            if n > 0 {
                let counters = &mut self.counters;
                return Some(Packets::new(
                    Source::Batch(&self.inbox),
                    n,
                    Accept::All,
                    counters,
                ));
            }
        }
        None
    }

    /// See [`Carrier::room`](crate::carrier::Carrier::room).
    pub fn room(&self) -> u32 {
        self.outbox.room()
    }

    /// See [`Carrier::is_blocked`](crate::carrier::Carrier::is_blocked).
    pub fn is_blocked(&self) -> bool {
        self.outbox.is_blocked()
    }

    /// See [`Carrier::slot`](crate::carrier::Carrier::slot).
    pub fn slot(&mut self) -> Option<&mut [u8]> {
        if self.outbox.room() == 0 && !self.outbox.is_blocked() {
            self.flush();
        }
        self.outbox.slot()
    }

    /// See [`Carrier::commit`](crate::carrier::Carrier::commit).
    ///
    /// # Panics
    /// If `len` exceeds the slot or there was no slot.
    pub fn commit(&mut self, ip: &IpInfo, len: usize) -> &[u8] {
        let direct = self.direct.as_mut();
        let link = direct.and_then(|d| d.neighbours.next_hop(ip.dst, d.clock));
        self.outbox.commit(ip, len, link)
    }

    /// See [`Carrier::flush`](crate::carrier::Carrier::flush).
    pub fn flush(&mut self) {
        let (socket, direct) = (&self.sockets[0], &mut self.direct);
        if let Some(direct) = direct {
            direct.clock = Poller::now();
        }
        let linked_fd = direct.as_ref().map_or(socket, |d| &d.sender);
        self.outbox
            .flush(&mut self.counters, |batch, range, linked| {
                let fd = if linked { linked_fd } else { socket };
                batch.send(fd, range.start, range.end)
            });
    }

    /// The longest IP packet sent, in octets.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// See [`Carrier::path_mtu`](crate::carrier::Carrier::path_mtu).
    ///
    /// # Errors
    /// If there is no route.
    pub fn path_mtu(&self, dst: Ipv4Addr) -> io::Result<usize> {
        Ok(route_to(dst)?.mtu.clamp(ipv4::HEADER, self.mtu))
    }

    /// See [`Carrier::source_for`](crate::carrier::Carrier::source_for).
    ///
    /// # Errors
    /// If there is no route.
    pub fn source_for(&self, dst: Ipv4Addr) -> io::Result<Ipv4Addr> {
        Ok(route_to(dst)?.source)
    }

    /// Is `address` one of this host's?
    pub fn is_local(&self, address: Ipv4Addr) -> bool {
        is_local_address(address)
    }

    /// What has been carried, and what was lost here and why.
    pub fn counters(&self) -> Counters {
        let drops = |s: &OwnedFd| u64::from(sys::receive_drops(s).unwrap_or(0));
        let ring = self.direct.as_ref().map_or(0, |d| d.ring.lost());
        Counters {
            overflowed: ring + self.sockets.iter().map(drops).sum::<u64>(),
            ..self.counters
        }
    }
}

fn open_socket(number: u8, config: &RawConfig) -> io::Result<OwnedFd> {
    let socket = open_raw_socket(number)?;
    sys::set_header_included(&socket)?;
    // Beyond net.core.rmem_max only CAP_NET_ADMIN helps; without it take what we may have.
    if sockopt::set_socket_recv_buffer_size_force(&socket, config.receive_buffer / 2).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, config.receive_buffer / 2)?;
    }
    set_send_buffer(&socket, config)?;
    Ok(socket)
}

fn set_send_buffer(socket: &OwnedFd, config: &RawConfig) -> io::Result<()> {
    if let Some(size) = config.send_buffer
        && sockopt::set_socket_send_buffer_size_force(socket, size / 2).is_err()
    {
        sockopt::set_socket_send_buffer_size(socket, size / 2)?;
    }
    Ok(())
}
