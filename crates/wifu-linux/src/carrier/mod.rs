//! What carries packets: what all live carriers do alike, over what each does in its own way.
//!
//! All carriers work the same way. [`Carrier::attach`] them to a poller. To receive: tell the
//! carrier which of its descriptors the poller saw readable ([`Carrier::mark_ready`]), then take
//! batches with [`Carrier::receive`] until it gives `None`. To send: ask [`Carrier::room`], write
//! segments into [`Carrier::slot`]s, hand each over with [`Carrier::commit`], and at the end of the
//! round [`Carrier::flush`] and [`Carrier::rearm`]. A packet that the kernel does not take now
//! stays in its slot and is counted; `room` is then 0 until a flush succeeds, to be tried when the
//! poller tells of room, so that no committed segment is ever lost for lack of room.

mod input;
mod outbox;

pub(crate) use input::{Accept, ICMP, Source, Stack, neighbour};
pub use input::{BATCH, Came, Counters, Packet, Packets};

use crate::kind::Kind;
use crate::poller::{Interest, Poller};
use crate::raw::{RawConfig, RawSockets};
use crate::steps::StepError;
use crate::sys::{self, LinkAddress, RecvBatch, SendBatch, Target};
use crate::tun::{TunConfig, TunDevice};
use crate::udp::{UdpConfig, UdpSocket};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::Range;
pub(crate) use outbox::{Outbox, Via};
use rustix::net::{AddressFamily, SocketType, sockopt};
use std::io;
use std::os::fd::BorrowedFd;
use wifu_wire::{AnyIpInfo, ipv4};

/// What carriers differ in: where packets come from and go to.
pub(crate) trait Medium {
    /// How many descriptors there are to watch.
    fn descriptors(&self) -> usize;

    /// Descriptor number `i`.
    fn descriptor(&self, i: usize) -> BorrowedFd<'_>;

    /// Can there be input on descriptor `i`?
    fn receives(&self, i: usize) -> bool;

    /// The descriptor that sends.
    fn sender(&self, via: Via) -> usize;

    /// Descriptor `i` was seen readable.
    fn mark_ready(&mut self, i: usize);

    /// The next batch from a descriptor that is ready, put into `inbox` if it does not lie in
    /// memory already: where it lies and how many packets it has. `None` when all are drained.
    fn receive<'a>(
        &'a mut self,
        inbox: &'a mut RecvBatch,
        counters: &mut Counters,
    ) -> Option<(Source<'a>, usize)>;

    /// Whether there are more in memory, of which no descriptor tells.
    fn holds(&self) -> bool {
        false
    }

    /// Which of them are for us.
    fn accept(&self) -> Accept;

    /// The station on a link that packets to `dst` go straight to, if there is one.
    fn next_hop(&mut self, _dst: IpAddr) -> Option<LinkAddress> {
        None
    }

    /// All that was committed is about to be sent.
    fn begin_flush(&mut self) {}

    /// Sends a range of packets, by the [`sender`](Medium::sender) for all of them; gives how many
    /// were taken.
    ///
    /// # Errors
    /// That of the first packet, if not even that was taken.
    fn send(&mut self, batch: &mut SendBatch, range: Range<usize>, via: Via) -> io::Result<usize>;

    /// The way of packets to `dst`.
    ///
    /// # Errors
    /// If there is none.
    fn route_to(&self, dst: IpAddr) -> io::Result<Route>;

    /// May a connection use `address` as its own?
    fn is_local(&self, address: IpAddr) -> bool;

    /// Packets lost so far because a receive buffer was full, where that is known.
    fn overflowed(&self) -> u64 {
        0
    }
}

/// The media there are. Calls go to each by name and not through a table: some are made for every
/// packet.
enum AnyMedium {
    Raw(RawSockets),
    Tun(TunDevice),
    Udp(UdpSocket),
}

macro_rules! each {
    ($self:expr, $m:ident => $body:expr) => {
        match $self {
            AnyMedium::Raw($m) => $body,
            AnyMedium::Tun($m) => $body,
            AnyMedium::Udp($m) => $body,
        }
    };
}

/// How segments reach other hosts: what the daemon reads them from and writes them to.
pub struct Carrier {
    medium: AnyMedium,
    inbox: RecvBatch,
    outbox: Outbox,
    counters: Counters,
    mtu: usize,
    /// The descriptor that the poller watches for room.
    armed: Option<usize>,
}

impl Carrier {
    /// Raw sockets, one per protocol number and version of IP that the kernel has, in this thread's
    /// network namespace.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_NET_RAW, `InvalidInput` for a protocol list or mtu that
    /// [`RawConfig`] forbids.
    pub fn raw(config: &RawConfig) -> io::Result<Carrier> {
        let medium = AnyMedium::Raw(RawSockets::open(config)?);
        Ok(Carrier::over(medium, config.mtu))
    }

    /// A TUN device on which this host's kernel, and whatever it routes, talks to us; made and set
    /// up in this thread's network namespace. It goes when this value goes, however the process
    /// ends.
    ///
    /// # Errors
    /// If the device cannot be made (CAP_NET_ADMIN, /dev/net/tun) or `ip` fails.
    pub fn tun(config: &TunConfig) -> Result<Carrier, StepError> {
        let medium = AnyMedium::Tun(TunDevice::open(config)?);
        Ok(Carrier::over(medium, config.mtu))
    }

    /// A UDP socket in this thread's network namespace, for which no rights are needed.
    ///
    /// # Errors
    /// `AddrInUse` if somebody has the port, `InvalidInput` for an mtu that [`UdpConfig`] forbids.
    pub fn udp(config: &UdpConfig) -> io::Result<Carrier> {
        let medium = AnyMedium::Udp(UdpSocket::open(config)?);
        Ok(Carrier::over(medium, config.mtu))
    }

    fn over(medium: AnyMedium, mtu: usize) -> Carrier {
        Carrier {
            medium,
            // A peer's interface may allow more than ours; what is longer still is counted.
            inbox: RecvBatch::new(BATCH, mtu.max(2048)),
            outbox: Outbox::new(mtu),
            counters: Counters::default(),
            mtu,
            armed: None,
        }
    }

    /// `"raw"`, `"udp"` or the TUN device's name: the name of the capture's interface.
    pub fn name(&self) -> &str {
        match &self.medium {
            AnyMedium::Raw(_) => "raw",
            AnyMedium::Tun(t) => t.name(),
            AnyMedium::Udp(_) => "udp",
        }
    }

    /// What kind it is.
    pub fn kind(&self) -> Kind {
        match self.medium {
            AnyMedium::Raw(_) => Kind::Raw,
            AnyMedium::Tun(_) => Kind::Tun,
            AnyMedium::Udp(_) => Kind::Udp,
        }
    }

    /// What it is and does, for people.
    pub fn described(&self) -> String {
        let name = self.name();
        match &self.medium {
            AnyMedium::Raw(_) => String::from(name),
            AnyMedium::Tun(_) => format!("tun ({name})"),
            AnyMedium::Udp(u) => format!("udp ({u})"),
        }
    }

    /// The only addresses that our connections may have on this carrier, if they are given to
    /// nobody else.
    pub fn stack(&self) -> Option<Stack> {
        match &self.medium {
            AnyMedium::Raw(_) | AnyMedium::Udp(_) => None,
            AnyMedium::Tun(t) => Some(t.stack()),
        }
    }

    /// Whether it carries IPv6.
    ///
    /// # Errors
    /// Why not, and what helps.
    pub fn carries_v6(&self) -> Result<(), &'static str> {
        match &self.medium {
            AnyMedium::Raw(r) if !r.has_v6() => Err("this host's kernel has no IPv6"),
            AnyMedium::Tun(t) if t.stack().v6.is_none() => Err(
                "its TUN device has no IPv6 address: give the daemon --address and \
                 --kernel-address once more, with one each",
            ),
            AnyMedium::Udp(_) => Err("the carrier udp carries IPv4 alone: take raw"),
            AnyMedium::Raw(_) | AnyMedium::Tun(_) => Ok(()),
        }
    }

    /// How many descriptors there are to watch.
    pub fn descriptors(&self) -> usize {
        each!(&self.medium, m => m.descriptors())
    }

    /// Descriptor number `i`.
    ///
    /// # Panics
    /// If there is no such descriptor.
    pub fn descriptor(&self, i: usize) -> BorrowedFd<'_> {
        each!(&self.medium, m => m.descriptor(i))
    }

    /// Let `poller` watch all descriptors; number `i` will have the token `base + i`.
    ///
    /// # Errors
    /// What the poller says.
    pub fn attach(&mut self, poller: &Poller, base: u64) -> io::Result<()> {
        for i in 0..self.descriptors() {
            poller.add(self.descriptor(i), base + i as u64, self.interest(i))?;
        }
        self.armed = None;
        Ok(())
    }

    /// After a flush: let `poller` tell of room while the carrier is blocked, and no longer. Costs
    /// a system call only when that changes.
    ///
    /// # Errors
    /// What the poller says.
    pub fn rearm(&mut self, poller: &Poller, base: u64) -> io::Result<()> {
        let via = self.outbox.via();
        let sender = each!(&self.medium, m => m.sender(via));
        let wanted = self.is_blocked().then_some(sender);
        let armed = self.armed.take();
        if wanted != armed {
            if let Some(i) = armed {
                poller.modify(self.descriptor(i), base + i as u64, self.interest(i))?;
            }
            if let Some(i) = wanted {
                let interest = self.interest(i).and(Interest::WRITE);
                poller.modify(self.descriptor(i), base + i as u64, interest)?;
            }
        }
        self.armed = wanted;
        Ok(())
    }

    /// What descriptor `i` is watched for when nothing is blocked.
    fn interest(&self, i: usize) -> Interest {
        if each!(&self.medium, m => m.receives(i)) {
            Interest::READ
        } else {
            Interest::NONE
        }
    }

    /// Have one more socket of packets that are datagrams of UDP by their own format, at its port.
    ///
    /// # Errors
    /// What the poller says, or the kernel of an option.
    pub(crate) fn adopt(
        &mut self,
        port: (u16, std::os::fd::OwnedFd),
        watched: (&Poller, u64),
    ) -> io::Result<()> {
        match &mut self.medium {
            AnyMedium::Udp(udp) => udp.adopt(port, watched),
            AnyMedium::Raw(_) | AnyMedium::Tun(_) => Ok(()),
        }
    }

    /// Give up such a socket.
    pub(crate) fn release(&mut self, port: u16) {
        if let AnyMedium::Udp(udp) = &mut self.medium {
            let gone = udp.release(port);
            self.armed = self.armed.filter(|i| Some(*i) != gone);
        }
    }

    /// Descriptor `i` was seen readable.
    pub fn mark_ready(&mut self, i: usize) {
        each!(&mut self.medium, m => m.mark_ready(i));
    }

    /// The next batch from a descriptor that is ready; `None` when all are drained. A batch may
    /// hold nothing but bad packets and so give no item.
    pub fn receive(&mut self) -> Option<Packets<'_>> {
        let Carrier {
            medium,
            inbox,
            counters,
            ..
        } = self;
        each!(medium, m => {
            let accept = m.accept();
            let (source, count) = m.receive(inbox, counters)?;
            Some(Packets::new(source, count, accept, counters))
        })
    }

    /// Whether [`receive`](Carrier::receive) has more though no descriptor is readable.
    pub fn holds(&self) -> bool {
        each!(&self.medium, m => m.holds())
    }

    /// Packets that [`slot`](Carrier::slot) takes before the next [`flush`](Carrier::flush).
    pub fn room(&self) -> u32 {
        self.outbox.room()
    }

    /// The kernel refused a packet for lack of room; flush again when one of the descriptors is
    /// writable, of which [`rearm`](Carrier::rearm) makes the poller tell.
    pub fn is_blocked(&self) -> bool {
        self.outbox.is_blocked()
    }

    /// Where the next segment (without IP header) goes: `mtu - 20` octets, of which those to IPv6
    /// addresses fill 20 less. `None` without room.
    /// Flushes by itself when all slots are full.
    pub fn slot(&mut self) -> Option<&mut [u8]> {
        if self.room() == 0 && !self.is_blocked() {
            self.flush();
        }
        self.outbox.slot()
    }

    /// The last slot holds a segment of `len` octets: put the IP header before it and queue it.
    /// Gives the whole packet, for a capture.
    ///
    /// # Panics
    /// If `len` exceeds the slot, there was no slot, or the addresses are of two families.
    pub fn commit(&mut self, ip: &AnyIpInfo, len: usize) -> &[u8] {
        let link = each!(&mut self.medium, m => m.next_hop(ip.dst));
        self.outbox.commit(ip, len, link)
    }

    /// Queue a segment from elsewhere, as [`slot`](Carrier::slot) and [`commit`](Carrier::commit)
    /// do. `None` without room, or, which is counted, if it is longer than the carrier sends.
    pub fn load(&mut self, ip: &AnyIpInfo, segment: &[u8]) -> Option<&[u8]> {
        let Some(room) = self.slot()?.get_mut(..segment.len()) else {
            self.counters.refused += 1;
            return None;
        };
        room.copy_from_slice(segment);
        Some(self.commit(ip, segment.len()))
    }

    /// Queue a whole packet of IPv4, as it is. False without room, or if it is longer than the
    /// carrier sends.
    pub fn put(&mut self, packet: &[u8], dst: Ipv4Addr) -> bool {
        if self.slot().is_none() || packet.len() > self.mtu {
            return false;
        }
        let station = each!(&mut self.medium, m => m.next_hop(dst.into()));
        let target = station.map_or(Target::Ip(dst), Target::Link);
        self.outbox.put(packet, target);
        true
    }

    /// Give the kernel what is committed.
    pub fn flush(&mut self) {
        let Carrier {
            medium,
            outbox,
            counters,
            ..
        } = self;
        each!(medium, m => {
            m.begin_flush();
            outbox.flush(counters, |batch, range, via| m.send(batch, range, via));
        });
    }

    /// The longest IP packet this carrier sends.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// The longest IP packet that goes to `dst` by its route, at most [`mtu`](Carrier::mtu).
    ///
    /// # Errors
    /// `NetworkUnreachable` and the like if there is no route.
    pub fn path_mtu(&self, dst: impl Into<IpAddr>) -> io::Result<usize> {
        let dst = dst.into();
        let route = each!(&self.medium, m => m.route_to(dst))?;
        Ok(route.mtu.clamp(ipv4::HEADER, self.mtu))
    }

    /// The address that packets to `dst` come from.
    ///
    /// # Errors
    /// `NetworkUnreachable` and the like if there is no route.
    pub fn source_for(&self, dst: impl Into<IpAddr>) -> io::Result<IpAddr> {
        let dst = dst.into();
        Ok(each!(&self.medium, m => m.route_to(dst))?.source)
    }

    /// May a connection use `address` as its own?
    pub fn is_local(&self, address: impl Into<IpAddr>) -> bool {
        let address = address.into();
        each!(&self.medium, m => m.is_local(address))
    }

    /// What has been carried, and what was lost here and why.
    pub fn counters(&self) -> Counters {
        Counters {
            overflowed: each!(&self.medium, m => m.overflowed()),
            ..self.counters
        }
    }
}

/// Whether IP packets can be so long.
///
/// # Errors
/// The text that says between what an mtu must be.
pub(crate) fn check_mtu(mtu: usize) -> Result<(), String> {
    if (68..=65_535).contains(&mtu) {
        return Ok(());
    }
    Err(format!("mtu {mtu}: must be 68 to 65535"))
}

/// What the kernel's routes say about a destination, from this thread's network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The address that packets come from.
    pub source: IpAddr,
    /// The longest packet, in octets.
    pub mtu: usize,
}

/// Ask the kernel for its route to `dst` by connecting a UDP socket; sends nothing.
///
/// # Errors
/// `NetworkUnreachable` and the like if there is none.
pub fn route_to(dst: impl Into<IpAddr>) -> io::Result<Route> {
    let dst = dst.into();
    let any: IpAddr = match dst {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = std::net::UdpSocket::bind((any, 0))?;
    // Port 9 is "discard"; it matters to no route.
    socket.connect((dst, 9))?;
    let source = socket.local_addr()?.ip();
    let mtu = match dst {
        IpAddr::V4(_) => sockopt::ip_mtu(&socket)?,
        IpAddr::V6(_) => sys::get_int(&socket, libc::IPPROTO_IPV6, IPV6_MTU)? as u32,
    };
    let mtu = mtu as usize;
    Ok(Route { source, mtu })
}

/// linux/in6.h
const IPV6_MTU: libc::c_int = 24;

/// Is `address` one of this host's, in this thread's network namespace?
pub fn is_local_address(address: impl Into<IpAddr>) -> bool {
    let address = address.into();
    // All of 127/8 is local, though the kernel would answer from 127.0.0.1.
    let loopback = matches!(address, IpAddr::V4(a) if a.is_loopback());
    loopback || route_to(address).is_ok_and(|r| r.source == address)
}

/// Can raw sockets be opened here?
///
/// # Errors
/// `PermissionDenied` without CAP_NET_RAW.
pub fn open_raw_socket(family: AddressFamily, protocol: u8) -> io::Result<std::os::fd::OwnedFd> {
    use core::num::NonZeroU32;
    use rustix::net::{Protocol, SocketFlags, socket_with};
    let number = NonZeroU32::new(u32::from(protocol)).ok_or(io::ErrorKind::InvalidInput)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let protocol = Some(Protocol::from_raw(number));
    Ok(socket_with(family, SocketType::RAW, flags, protocol)?)
}

/// The same of IPv6; `None` if the kernel has none.
pub(crate) fn open_raw_v6(protocol: u8) -> io::Result<Option<std::os::fd::OwnedFd>> {
    match open_raw_socket(AddressFamily::INET6, protocol) {
        Err(e) if e.raw_os_error() == Some(libc::EAFNOSUPPORT) => Ok(None),
        fd => fd.map(Some),
    }
}
