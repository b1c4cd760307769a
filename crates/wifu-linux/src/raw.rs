//! The `raw` carrier: raw sockets, one per protocol number and version of IP.
//!
//! As long as a socket for a number is open, the kernel answers packets of that number with no
//! ICMP "protocol unreachable" and no ICMPv6 "unrecognized next header". The first socket of each
//! version sends for all of them: with `IP_HDRINCL` the header alone says which protocol a packet
//! belongs to.
//!
//! Raw sockets cost a route lookup with a fresh route entry, the whole IP layer and a wake-up per
//! packet. A *direct* carrier has the same sockets open, but what arrives on this host's Ethernet
//! interfaces for its addresses it takes from a ring shared with the kernel ([`crate::ingress`]),
//! and it sends straight to neighbours that the kernel has resolved. Everything else still goes
//! through the sockets. The same packets are on the wire at about half the cost; but what works on
//! the IP layer (netfilter, NFQUEUE, policy routing) does not see them. IPv6 goes through the
//! sockets in any case.

use crate::carrier::{Accept, BATCH, Counters, Medium, Route, Source, Via};
use crate::carrier::{check_mtu, is_local_address, open_raw_socket, open_raw_v6, route_to};
use crate::core::rules::{self, Rules};
use crate::guard::{self, Guard};
use crate::ingress::{Ingress, Selection};
use crate::neighbours::{Neighbours, is_among};
use crate::netns::own_inode;
use crate::poller::Poller;
use crate::ring::{PacketRing, open_link_sender};
use crate::six::{self, SixBatch};
use crate::steps::Steps;
use crate::sys::{self, LinkAddress, RecvBatch, SendBatch};
use core::net::IpAddr;
use core::ops::Range;
use rustix::net::netdevice::index_to_name;
use rustix::net::{AddressFamily, sockopt};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wifu_wire::units::Time;

/// How a raw [`Carrier`](crate::carrier::Carrier) is opened.
#[derive(Clone, Debug)]
pub struct RawConfig {
    /// Protocol numbers, at least one, none twice; 1 to 254, never a number that the kernel
    /// itself speaks.
    pub protocols: Vec<u8>,
    /// Carry IPv6 as well, where the kernel has it: those of the protocols that are not relayed.
    pub v6: bool,
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
    /// Those of the protocols whose packets are taken from the links wherever they are bound, for
    /// a node that relays them. Needs what `direct` needs, or else iptables.
    pub relayed: Vec<u8>,
    /// Those of `relayed` that the kernel forwards not even when the process was killed.
    pub guarded: Vec<u8>,
    /// UDP ports of services: datagrams to or from one of them are taken from the links unless they
    /// are for this host. Needs `relayed`.
    pub services: Vec<u16>,
    /// How the kernel is kept from forwarding what is relayed.
    pub keep_off: KeepOff,
    /// The interfaces, by name, from which packets are taken past the IP layer; none: all Ethernet
    /// interfaces with addresses.
    pub devices: Vec<String>,
}

/// How the kernel's IP layer is kept off packets that are relayed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum KeepOff {
    /// By a program, or before Linux 6.6 by a rule.
    #[default]
    Best,
    /// By a program on the interfaces' ingress (tcx).
    Program,
    /// By a DROP rule of iptables. A process that has the right to remove it waits until it shall.
    Rule,
}

impl RawConfig {
    /// The defaults for these protocol numbers: 1500 octets, 16 MiB to receive.
    pub fn new(protocols: Vec<u8>) -> RawConfig {
        RawConfig {
            protocols,
            v6: true,
            mtu: 1500,
            receive_buffer: 16 << 20,
            send_buffer: None,
            direct: false,
            relayed: Vec::new(),
            guarded: Vec::new(),
            services: Vec::new(),
            keep_off: KeepOff::Best,
            devices: Vec::new(),
        }
    }
}

/// Protocol numbers that Linux hosts answer themselves; taking them would disturb others.
const TAKEN: [u8; 9] = [0, 1, 2, 4, 6, 17, 41, 47, 255];

/// Why raw sockets cannot carry a protocol of this number.
///
/// # Errors
/// For people, with the numbers that are nobody's.
pub fn check_number(number: u8) -> Result<(), String> {
    if TAKEN.contains(&number) {
        return Err(format!(
            "IP protocol number {number} belongs to the kernel; 143 to 252 are unassigned"
        ));
    }
    Ok(())
}

/// Raw sockets, ready to carry.
pub(crate) struct RawSockets {
    /// Of IPv4, then, where the kernel has it, of IPv6.
    sockets: Vec<OwnedFd>,
    /// How many are of IPv4.
    v4: usize,
    /// The numbers of those of IPv6.
    v6: Vec<u8>,
    six: SixBatch,
    /// Sockets that the poller saw readable and that are not drained.
    ready: Vec<bool>,
    turn: usize,
    relays: bool,
    direct: Option<Direct>,
}

/// The way past the kernel's IP layer.
struct Direct {
    ring: PacketRing,
    ready: bool,
    sender: OwnedFd,
    neighbours: Neighbours,
    /// Keeps from the IP layer what the ring takes.
    _off: Box<Off>,
    /// When the last batch began, as good as now for what is known about neighbours.
    clock: Time,
}

/// What keeps the IP layer off packets.
enum Off {
    /// The second one stays if the process is killed.
    Program {
        _ingress: Ingress,
        _guard: Option<Guard>,
    },
    Rule {
        _rules: Rules,
    },
}

impl Off {
    fn open(config: &RawConfig, selection: &Selection) -> io::Result<Off> {
        if config.keep_off == KeepOff::Rule {
            return Off::rule(config, selection);
        }
        let guarded = Selection {
            protocols: Vec::new(),
            relayed: config.guarded.clone(),
            services: Vec::new(),
            ..selection.clone()
        };
        // Each goes before those that are there: the guard sees what the other has left.
        let guard = (!config.guarded.is_empty()).then(|| Guard::attach(&guarded));
        let ingress = match Ingress::attach(selection) {
            // Before Linux 6.6. What is for this host only goes without.
            Err(e)
                if e.kind() == io::ErrorKind::InvalidInput
                    && config.keep_off == KeepOff::Best
                    && selection.protocols.is_empty() =>
            {
                return Off::rule(config, selection);
            }
            ingress => ingress?,
        };
        remove_stale()?;
        let guard = guard.transpose().unwrap_or_else(|e| {
            tracing::warn!("if this daemon is killed the kernel forwards what lanes had: {e}");
            None
        });
        Ok(Off::Program {
            _ingress: ingress,
            _guard: guard,
        })
    }

    /// Rules for what is relayed.
    fn rule(config: &RawConfig, selection: &Selection) -> io::Result<Off> {
        let mut rules = Vec::new();
        let any = open_link_sender()?;
        for interface in &selection.interfaces {
            let device = index_to_name(&any, *interface as u32)?;
            for number in &selection.relayed {
                let stays = config.guarded.contains(number);
                rules.push(rules::dropping(&device, *number, stays));
            }
            if !selection.services.is_empty() {
                rules.push(rules::dropping_udp(&device, &selection.services));
            }
        }
        let mut steps = Steps::real();
        let rules = Rules::install(&rules, &mut steps).map_err(io::Error::other)?;
        remove_stale()?;
        Ok(Off::Rule { _rules: rules })
    }
}

/// What daemons left here that were killed, of either kind.
fn remove_stale() -> io::Result<()> {
    guard::remove_stale(&[own_inode()?]);
    rules::remove_stale();
    Ok(())
}

impl Direct {
    fn open(config: &RawConfig) -> io::Result<Direct> {
        let sender = open_link_sender()?;
        set_send_buffer(&sender, config)?;
        let mut neighbours = Neighbours::open()?;
        let ethernets = neighbours.ethernets()?;
        let mut addresses = neighbours.local_addresses()?;
        addresses.retain(|(interface, _)| ethernets.contains_key(interface));
        let mut interfaces: Vec<i32> = addresses.iter().map(|(i, _)| *i).collect();
        interfaces.retain(|i| is_among(&config.devices, &ethernets[i].name));
        interfaces.sort_unstable();
        interfaces.dedup();
        let selection = Selection {
            interfaces,
            protocols: match config.direct {
                true => config.protocols.clone(),
                false => Vec::new(),
            },
            relayed: config.relayed.clone(),
            services: config.services.clone(),
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
            _off: Box::new(Off::open(config, &selection)?),
            clock: Poller::now(),
        })
    }
}

impl RawSockets {
    /// Open the sockets in this thread's network namespace.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_NET_RAW, `InvalidInput` for a protocol list or mtu that
    /// [`RawConfig`] forbids.
    pub(crate) fn open(config: &RawConfig) -> io::Result<RawSockets> {
        let bad = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        if config.protocols.is_empty() {
            return bad("the raw carrier needs at least one protocol number".into());
        }
        if let Err(text) = check_mtu(config.mtu) {
            return bad(text);
        }
        let mut sockets = Vec::with_capacity(2 * config.protocols.len());
        for (i, number) in config.protocols.iter().enumerate() {
            if TAKEN.contains(number) {
                return bad(format!("protocol number {number} belongs to the kernel"));
            }
            if config.protocols[..i].contains(number) {
                return bad(format!("protocol number {number} is listed twice"));
            }
            let socket = open_raw_socket(AddressFamily::INET, *number)?;
            sys::set_header_included(&socket)?;
            sockets.push(socket);
        }
        // Nodes forward IPv4 alone: whose packets they have something to do with has no other.
        let asked = |number: &&u8| config.v6 && !config.relayed.contains(number);
        let mut v6 = Vec::new();
        for number in config.protocols.iter().filter(asked) {
            let Some(socket) = open_raw_v6(*number)? else {
                break;
            };
            six::prepare(&socket)?;
            sockets.push(socket);
            v6.push(*number);
        }
        for socket in &sockets {
            set_buffers(socket, config)?;
        }
        let linked = config.direct || !config.relayed.is_empty();
        let direct = linked.then(|| Direct::open(config)).transpose()?;
        Ok(RawSockets {
            direct,
            ready: vec![false; sockets.len()],
            sockets,
            v4: config.protocols.len(),
            v6,
            six: SixBatch::new(BATCH, config.mtu.max(2048)),
            turn: 0,
            relays: !config.relayed.is_empty(),
        })
    }

    /// Whether the kernel has IPv6.
    pub(crate) fn has_v6(&self) -> bool {
        !self.v6.is_empty()
    }

    fn ring_index(&self) -> usize {
        self.sockets.len()
    }
}

impl Medium for RawSockets {
    /// One socket per protocol and version; a direct carrier has the ring and the socket that sends
    /// to neighbours after those.
    fn descriptors(&self) -> usize {
        self.sockets.len() + if self.direct.is_some() { 2 } else { 0 }
    }

    fn descriptor(&self, i: usize) -> BorrowedFd<'_> {
        match &self.direct {
            Some(direct) if i == self.ring_index() => direct.ring.as_fd(),
            Some(direct) if i == self.ring_index() + 1 => direct.sender.as_fd(),
            _ => self.sockets[i].as_fd(),
        }
    }

    fn receives(&self, i: usize) -> bool {
        i <= self.ring_index()
    }

    fn sender(&self, via: Via) -> usize {
        match via {
            Via::Link => self.ring_index() + 1,
            Via::Six if self.has_v6() => self.v4,
            // Nobody else sends what is of IPv6: the socket refuses it.
            Via::Four | Via::Six => 0,
        }
    }

    fn mark_ready(&mut self, i: usize) {
        if let Some(ready) = self.ready.get_mut(i) {
            *ready = true;
        } else if let Some(direct) = &mut self.direct {
            direct.ready = true;
        }
    }

    /// Takes turns between sockets.
    fn receive<'a>(
        &'a mut self,
        inbox: &'a mut RecvBatch,
        counters: &mut Counters,
    ) -> Option<(Source<'a>, usize)> {
        if let Some(direct) = self.direct.as_mut().filter(|d| d.ready) {
            let n = direct.ring.take(BATCH);
            if n > 0 {
                return Some((Source::Ring(&direct.ring), n));
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
            let gave = match i.checked_sub(self.v4) {
                None => inbox.receive(&self.sockets[i]),
                Some(at) => self.six.receive(&self.sockets[i], self.v6[at]),
            };
            let n = counters.count_call(gave).unwrap_or(0);
            // A batch that is not full has emptied the socket; the poller will tell of more.
            self.ready[i] = n == BATCH;
            if n > 0 && i < self.v4 {
                return Some((Source::Batch(inbox), n));
            }
            if n > 0 {
                return Some((Source::Six(&self.six), n));
            }
        }
        None
    }

    /// Sockets have their numbers and the ring its filter: the kernel has chosen.
    fn accept(&self) -> Accept {
        match self.relays {
            true => Accept::Relayed,
            false => Accept::All,
        }
    }

    fn next_hop(&mut self, dst: IpAddr) -> Option<LinkAddress> {
        let direct = self.direct.as_mut()?;
        let IpAddr::V4(dst) = dst else { return None };
        direct.neighbours.next_hop(dst, direct.clock)
    }

    fn begin_flush(&mut self) {
        if let Some(direct) = &mut self.direct {
            direct.clock = Poller::now();
        }
    }

    fn send(&mut self, batch: &mut SendBatch, range: Range<usize>, via: Via) -> io::Result<usize> {
        let sender = self.descriptor(self.sender(via));
        batch.send(sender, range.start, range.end)
    }

    fn route_to(&self, dst: IpAddr) -> io::Result<Route> {
        route_to(dst)
    }

    fn is_local(&self, address: IpAddr) -> bool {
        is_local_address(address)
    }

    fn overflowed(&self) -> u64 {
        let drops = |s: &OwnedFd| u64::from(sys::receive_drops(s).unwrap_or(0));
        let ring = self.direct.as_ref().map_or(0, |d| d.ring.lost());
        ring + self.sockets.iter().map(drops).sum::<u64>()
    }
}

fn set_buffers(socket: &OwnedFd, config: &RawConfig) -> io::Result<()> {
    // Beyond net.core.rmem_max only CAP_NET_ADMIN helps; without it take what we may have.
    if sockopt::set_socket_recv_buffer_size_force(socket, config.receive_buffer / 2).is_err() {
        sockopt::set_socket_recv_buffer_size(socket, config.receive_buffer / 2)?;
    }
    set_send_buffer(socket, config)
}

fn set_send_buffer(socket: &OwnedFd, config: &RawConfig) -> io::Result<()> {
    if let Some(size) = config.send_buffer
        && sockopt::set_socket_send_buffer_size_force(socket, size / 2).is_err()
    {
        sockopt::set_socket_send_buffer_size(socket, size / 2)?;
    }
    Ok(())
}
