//! The `udp` carrier: packets of all protocols in UDP datagrams, for networks that drop protocol
//! numbers they don't know, and for users without rights.
//!
//! A datagram's payload is a header of four octets ([`over_udp`]) and the segment; both ends have
//! the same port. To the rest of the daemon a datagram is a packet of that protocol: its IP header
//! is made of the addresses and the TTL that the kernel tells. Twelve octets more than such a
//! header are on the wire, so that packets are so much shorter.
//!
//! Packets that are datagrams of UDP by their own format (ATP, Behaviour 8.1) go as they are, from
//! the port that they have: each of their local ports has a socket (the module `ports`). In the
//! daemon they have the number of UDP. UDP's checksum is 0 there: nodes on the way write in them,
//! and their own covers what matters.

use crate::carrier::{Accept, BATCH, Counters, Medium, Route, Source, Via, check_mtu};
use crate::carrier::{is_local_address, route_to};
use crate::datagram::{Datagram, Outgoing, Receiver, Sender};
use crate::doubles::Doubles;
use crate::poller::{Interest, Poller};
use crate::ports;
use crate::sys::{self, RecvBatch, SendBatch};
use core::fmt;
use core::net::{IpAddr, SocketAddrV4};
use core::ops::Range;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wifu_wire::ipv4::{self, HEADER, IpInfo};
use wifu_wire::numbers::UDP;
use wifu_wire::over_udp;

pub use wifu_wire::over_udp::PORT;
/// What is on the wire beyond the packets that the daemon sees: IP and UDP header and ours, instead
/// of an IP header alone.
pub(crate) const MORE: usize = HEADER + 8 + over_udp::HEADER - HEADER;
/// UDP's own header.
const UDP_HEADER: usize = 8;
/// linux/socket.h
const SO_NO_CHECK: libc::c_int = 11;
/// Where the kernel joins datagrams: messages per call, and room for the longest.
const GROUPS: usize = 16;
const GROUP: usize = 65_536;
/// What the kernel says of a group that it cannot cut, whatever is in it.
const UNABLE: [i32; 3] = [libc::EIO, libc::EINVAL, libc::EOPNOTSUPP];

/// How a UDP [`Carrier`](crate::carrier::Carrier) is opened.
#[derive(Clone, Debug)]
pub struct UdpConfig {
    /// Protocol numbers that are received.
    pub protocols: Vec<u8>,
    /// The longest IP packet on the wire, in octets.
    pub mtu: usize,
    /// The port of both ends.
    pub port: u16,
    /// Size of the receive buffer as the kernel counts it, in octets, as far as this user may.
    pub receive_buffer: usize,
    /// The numbers of packets in the carrier, for those on the wire: where another carrier has the
    /// same protocols.
    pub doubles: Option<Doubles>,
    /// The kernel may cut and join datagrams of one way, as far as it can: fewer passes through it,
    /// and the same datagrams on the wire.
    pub offload: bool,
    /// There are packets that are datagrams by their own format: what comes at the port and is not
    /// ours is one of them.
    pub own_form: bool,
    /// The protocol number of which datagrams say 0: TCP beside ATP, as its thesis ran it
    /// (Behaviour 8.1).
    pub tcp: Option<u8>,
}

impl UdpConfig {
    /// The defaults for these protocol numbers: 1500 octets, port [`PORT`], 16 MiB to receive.
    pub fn new(protocols: Vec<u8>) -> UdpConfig {
        UdpConfig {
            protocols,
            mtu: 1500,
            port: PORT,
            receive_buffer: 16 << 20,
            doubles: None,
            offload: true,
            own_form: false,
            tcp: None,
        }
    }
}

/// A socket at its port.
struct Port {
    number: u16,
    fd: OwnedFd,
    ready: bool,
    /// The kernel makes UDP's checksum.
    summed: bool,
}

impl Port {
    fn new(number: u16, fd: OwnedFd) -> Port {
        Port {
            number,
            fd,
            ready: false,
            summed: true,
        }
    }

    /// Let datagrams have UDP's checksum from now on, or not.
    fn sum(&mut self, wanted: bool) -> io::Result<()> {
        if self.summed != wanted {
            let without = libc::c_int::from(!wanted);
            sys::set_option(&self.fd, libc::SOL_SOCKET, SO_NO_CHECK, without)?;
            self.summed = wanted;
        }
        Ok(())
    }
}

/// UDP sockets, ready to carry: the carrier's own, and those of packets that are datagrams by their
/// own format.
pub(crate) struct UdpSocket {
    /// The first one is the carrier's; one that is gone leaves its place to the next.
    ports: Vec<Option<Port>>,
    by_number: BTreeMap<u16, usize>,
    /// Those that the poller saw readable and that are not drained.
    ready: VecDeque<usize>,
    /// What is in the receiver came at this one.
    at: usize,
    /// The one that had no room.
    blocked: usize,
    own_form: bool,
    tcp: Option<u8>,
    /// Lost at ports that are gone.
    overflowed: u64,
    protocols: Vec<u8>,
    doubles: Option<Doubles>,
    receiver: Receiver,
    sender: Sender,
    offload: Offload,
    /// So many packets go one by one, because the kernel refused them as a group, and why.
    alone: (usize, i32),
}

/// What the kernel does with groups of datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Offload {
    /// It cuts them where they leave (`UDP_SEGMENT`).
    pub cuts: bool,
    /// It joins them where they come (`UDP_GRO`).
    pub joins: bool,
}

/// `UDP_SEGMENT` and `UDP_GRO`, switched on at a socket as far as this kernel has them.
pub(crate) fn offload(socket: impl AsFd) -> Offload {
    let set = |name, value: libc::c_int| {
        sys::set_option(socket.as_fd(), libc::SOL_UDP, name, value).is_ok()
    };
    Offload {
        // No length for all: each message has its own.
        cuts: set(libc::UDP_SEGMENT, 0),
        joins: set(libc::UDP_GRO, 1),
    }
}

impl UdpSocket {
    /// A socket at this port of all addresses, in this thread's network namespace.
    ///
    /// # Errors
    /// `AddrInUse` if somebody has the port, `InvalidInput` for an mtu that is no such.
    pub(crate) fn open(config: &UdpConfig) -> io::Result<UdpSocket> {
        let invalid = |text| io::Error::new(io::ErrorKind::InvalidInput, text);
        check_mtu(config.mtu).map_err(invalid)?;
        let fd = ports::open(config.port, config.receive_buffer)?;
        let offload = match config.offload {
            true => offload(&fd),
            false => Offload::default(),
        };
        Ok(UdpSocket {
            ports: vec![Some(Port::new(config.port, fd))],
            by_number: BTreeMap::from([(config.port, 0)]),
            ready: VecDeque::new(),
            at: 0,
            blocked: 0,
            own_form: config.own_form,
            tcp: config.tcp,
            overflowed: 0,
            protocols: config.protocols.clone(),
            doubles: config.doubles.clone(),
            receiver: match offload.joins {
                true => Receiver::new(GROUPS, GROUP),
                false => Receiver::new(BATCH, config.mtu.max(2048)),
            },
            sender: Sender::new(BATCH),
            offload,
            alone: (0, 0),
        })
    }

    /// One more socket, watched from now on: its number among the descriptors.
    ///
    /// # Errors
    /// What the poller says, or the kernel of an option.
    pub(crate) fn adopt(
        &mut self,
        (number, fd): (u16, OwnedFd),
        (poller, base): (&Poller, u64),
    ) -> io::Result<()> {
        if self.offload.joins {
            offload(&fd);
        }
        let free = self.ports.iter().position(Option::is_none);
        let i = free.unwrap_or(self.ports.len());
        poller.add(&fd, base + i as u64, Interest::READ)?;
        if i == self.ports.len() {
            self.ports.push(None);
        }
        self.ports[i] = Some(Port::new(number, fd));
        self.by_number.insert(number, i);
        // Something may have come before anybody watched.
        self.mark_ready(i);
        Ok(())
    }

    /// Give up the socket at a port; gives its number among the descriptors.
    pub(crate) fn release(&mut self, number: u16) -> Option<usize> {
        let i = self.by_number.get(&number).copied().filter(|i| *i > 0)?;
        self.by_number.remove(&number);
        self.ready.retain(|r| *r != i);
        let port = self.ports[i].take()?;
        self.overflowed += sys::receive_drops(&port.fd).map_or(0, u64::from);
        Some(i)
    }

    /// Put what was taken already into `inbox`, behind `n` packets; gives how many there are then.
    fn unpack(&mut self, inbox: &mut RecvBatch, mut n: usize, counters: &mut Counters) -> usize {
        let own_form = self.own_form;
        let at = self.ports[self.at].as_ref().map(|p| (self.at, p.number));
        while n < inbox.capacity()
            && let Some(datagram) = self.receiver.next()
        {
            // Beside raw sockets the numbers that have no doubles are those of raw alone.
            let number = |n: u8| if n == 0 { self.tcp } else { Some(n) };
            let inside = |n: u8| match &self.doubles {
                Some(doubles) => doubles.double(n),
                None => Some(n).filter(|n| self.protocols.contains(n)),
            };
            let found = match at {
                Some((i, port)) if own_form && (i > 0 || !over_udp::is_ours(datagram.octets)) => {
                    Some((UDP, Some(port), datagram.octets))
                }
                Some((0, _)) => over_udp::parse(datagram.octets)
                    .and_then(|(n, segment)| Some((inside(number(n)?)?, None, segment))),
                _ => None,
            };
            let Some((proto, port, segment)) = found else {
                counters.foreign += 1;
                continue;
            };
            let written = inbox.fill(n, |room| {
                Ok(packet(&datagram, proto, (port, segment), room))
            });
            n += usize::from(written.is_ok());
        }
        n
    }

    /// The kernel refused a group: it goes one by one, so that only what is refused is lost.
    fn divide(&mut self, e: io::Error) -> io::Error {
        let (count, why) = (self.sender.first(), e.raw_os_error().unwrap_or(0));
        if count < 2 || [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted].contains(&e.kind())
        {
            return e;
        }
        self.alone = (count, why);
        io::ErrorKind::Interrupted.into()
    }

    /// What became of packets that go one by one. If the kernel takes the first one of a group that
    /// it refused for what it was, it can cut none.
    fn divided(&mut self, gave: &io::Result<usize>) {
        let (left, why) = &mut self.alone;
        match gave {
            Ok(n) => {
                *left -= n;
                if UNABLE.contains(&core::mem::take(why)) && self.offload.cuts {
                    self.offload.cuts = false;
                    tracing::info!("carrier udp: UDP_SEGMENT does not work here: sent one by one");
                }
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => (*left, *why) = (*left - 1, 0),
        }
    }
}

/// Write a packet into `room`, with UDP's header if it came at a port of its own; gives its length,
/// and whether there was more of it.
fn packet(
    datagram: &Datagram<'_>,
    proto: u8,
    (port, segment): (Option<u16>, &[u8]),
    room: &mut [u8],
) -> (usize, bool) {
    let info = IpInfo {
        src: *datagram.from.ip(),
        dst: datagram.to,
        proto,
        ttl: datagram.ttl,
        ecn: datagram.ecn,
    };
    let ahead = port.map_or(0, |_| UDP_HEADER);
    let len = segment.len().min(room.len() - HEADER - ahead);
    room[HEADER + ahead..][..len].copy_from_slice(&segment[..len]);
    let (len, cut) = (ahead + len, datagram.cut || len < segment.len());
    if let Some(port) = port {
        let words = [datagram.from.port(), port, len as u16, 0];
        for (octets, word) in room[HEADER..][..UDP_HEADER].chunks_exact_mut(2).zip(words) {
            octets.copy_from_slice(&word.to_be_bytes());
        }
    }
    ipv4::emit(&info, len, room);
    (HEADER + len, cut)
}

/// The ports of a packet that is a datagram by its own format: from, and to.
fn own_ports(packet: &[u8]) -> Option<(u16, u16)> {
    let ports = packet.get(HEADER..HEADER + UDP_HEADER)?;
    let port = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
    (packet[9] == UDP).then(|| (port(0), port(2)))
}

impl fmt::Display for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.ports[0].as_ref().map_or(0, |p| p.number);
        write!(f, "port {port}, {}", self.offload)
    }
}

impl fmt::Display for Offload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.cuts, self.joins) {
            (true, true) => "UDP_SEGMENT and UDP_GRO",
            (true, false) => "UDP_SEGMENT, no UDP_GRO",
            (false, true) => "UDP_GRO, no UDP_SEGMENT",
            (false, false) => "neither UDP_SEGMENT nor UDP_GRO",
        })
    }
}

impl Medium for UdpSocket {
    fn descriptors(&self) -> usize {
        self.ports.len()
    }

    /// # Panics
    /// If that one is gone.
    fn descriptor(&self, i: usize) -> BorrowedFd<'_> {
        self.ports[i]
            .as_ref()
            .expect("a port that is there")
            .fd
            .as_fd()
    }

    fn receives(&self, _i: usize) -> bool {
        true
    }

    fn sender(&self, _via: Via) -> usize {
        self.blocked
    }

    fn mark_ready(&mut self, i: usize) {
        if let Some(Some(port)) = self.ports.get_mut(i)
            && !core::mem::replace(&mut port.ready, true)
        {
            self.ready.push_back(i);
        }
    }

    /// At most one call for each socket. After strangers alone, others have their turn first: the
    /// poller tells of the rest.
    fn receive<'a>(
        &'a mut self,
        inbox: &'a mut RecvBatch,
        counters: &mut Counters,
    ) -> Option<(Source<'a>, usize)> {
        // What was held is handed on before more is taken, so that a round ends.
        let held = self.receiver.holds();
        let mut n = self.unpack(inbox, 0, counters);
        while !held
            && n == 0
            && let Some(at) = self.ready.pop_front()
        {
            let Some(port) = &mut self.ports[at] else {
                continue;
            };
            port.ready = false;
            let gave = self.receiver.receive(&port.fd);
            let more = counters.count_call(gave).unwrap_or(false);
            self.at = at;
            n = self.unpack(inbox, n, counters);
            if more && n > 0 {
                self.mark_ready(at);
            }
        }
        (n > 0).then_some((Source::Batch(inbox), n))
    }

    /// Of a group that did not fit.
    fn holds(&self) -> bool {
        self.receiver.holds()
    }

    fn accept(&self) -> Accept {
        Accept::All
    }

    fn send(&mut self, batch: &mut SendBatch, range: Range<usize>, _via: Via) -> io::Result<usize> {
        let (alone, _) = self.alone;
        let end = match alone {
            0 => range.end,
            n => range.end.min(range.start + n),
        };
        // Those that leave by one socket, alike.
        let from = |i: usize| own_ports(batch.message(i)).map(|(from, _)| from);
        let first = from(range.start);
        let others = (range.start..end).find(|i| from(*i) != first);
        let end = others.unwrap_or(end);
        let at = match first {
            None => 0,
            Some(number) => *self
                .by_number
                .get(&number)
                .ok_or(io::ErrorKind::AddrNotAvailable)?,
        };
        let Self {
            ports,
            sender,
            doubles,
            tcp,
            ..
        } = self;
        let own = ports[0].as_ref().map_or(0, |p| p.number);
        let said = |number: u8| if Some(number) == *tcp { 0 } else { number };
        let packets = (range.start..end).map(|i| {
            let packet = batch.message(i);
            let ip = ipv4::facts(packet);
            let proper = doubles.as_ref().and_then(|d| d.proper(ip.proto));
            let ports = own_ports(packet);
            Outgoing {
                shim: match ports {
                    None => Some(over_udp::header(said(proper.unwrap_or(ip.proto)))),
                    Some(_) => None,
                },
                rest: &packet[HEADER + ports.map_or(0, |_| UDP_HEADER)..],
                from: ip.src,
                to: SocketAddrV4::new(ip.dst, ports.map_or(own, |(_, to)| to)),
                ecn: ip.ecn,
            }
        });
        let port = ports[at].as_mut().ok_or(io::ErrorKind::AddrNotAvailable)?;
        port.sum(first.is_none())?;
        // The kernel cuts none without checksums.
        let grouped = alone == 0 && self.offload.cuts && first.is_none();
        let gave = sender.send(&port.fd, packets, grouped);
        if gave
            .as_ref()
            .is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
        {
            self.blocked = at;
        }
        if alone > 0 {
            self.divided(&gave);
            return gave;
        }
        gave.map_err(|e| self.divide(e))
    }

    fn route_to(&self, dst: IpAddr) -> io::Result<Route> {
        route_to(dst)
    }

    fn is_local(&self, address: IpAddr) -> bool {
        is_local_address(address)
    }

    fn overflowed(&self) -> u64 {
        let drops = |p: &Port| sys::receive_drops(&p.fd).map_or(0, u64::from);
        self.overflowed + self.ports.iter().flatten().map(drops).sum::<u64>()
    }
}

#[cfg(test)]
mod tests;
