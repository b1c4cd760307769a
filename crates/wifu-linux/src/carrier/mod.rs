//! What carries packets: one enum over the live carriers, and what they share.
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

pub(crate) use input::{Accept, Source};
pub use input::{BATCH, Counters, Packet, Packets};
pub(crate) use outbox::Outbox;

use crate::poller::{Interest, Poller};
use crate::raw::RawCarrier;
use crate::tun::TunCarrier;
use core::net::Ipv4Addr;
use rustix::net::{AddressFamily, SocketType, sockopt};
use std::io;
use std::os::fd::BorrowedFd;
use wifu_wire::ipv4::IpInfo;

/// How segments reach other hosts: what the daemon reads them from and writes them to.
pub enum Carrier {
    /// IPv4 raw sockets, one per protocol number.
    Raw(RawCarrier),
    /// A TUN device on which this host's kernel, and whatever it routes, talks to us.
    Tun(TunCarrier),
}

macro_rules! each {
    ($self:expr, $c:ident => $body:expr) => {
        match $self {
            Carrier::Raw($c) => $body,
            Carrier::Tun($c) => $body,
        }
    };
}

impl Carrier {
    /// `"raw"` or the TUN device's name: the name of the capture's interface.
    pub fn name(&self) -> &str {
        match self {
            Carrier::Raw(_) => "raw",
            Carrier::Tun(t) => t.name(),
        }
    }

    /// How many descriptors there are to watch.
    pub fn descriptors(&self) -> usize {
        each!(self, c => c.descriptors())
    }

    /// Descriptor number `i`.
    ///
    /// # Panics
    /// If there is no such descriptor.
    pub fn descriptor(&self, i: usize) -> BorrowedFd<'_> {
        each!(self, c => c.descriptor(i))
    }

    /// Let `poller` watch all descriptors; number `i` will have the token `base + i`.
    ///
    /// # Errors
    /// What the poller says.
    pub fn attach(&mut self, poller: &Poller, base: u64) -> io::Result<()> {
        for i in 0..self.descriptors() {
            poller.add(self.descriptor(i), base + i as u64, self.interest(i))?;
        }
        *self.armed() = None;
        Ok(())
    }

    /// After a flush: let `poller` tell of room while the carrier is blocked, and no longer. Costs
    /// a system call only when that changes.
    ///
    /// # Errors
    /// What the poller says.
    pub fn rearm(&mut self, poller: &Poller, base: u64) -> io::Result<()> {
        let wanted = each!(self, c => c.blocked_on());
        let armed = self.armed().take();
        if wanted != armed {
            if let Some(i) = armed {
                poller.modify(self.descriptor(i), base + i as u64, self.interest(i))?;
            }
            if let Some(i) = wanted {
                let interest = self.interest(i).and(Interest::WRITE);
                poller.modify(self.descriptor(i), base + i as u64, interest)?;
            }
        }
        *self.armed() = wanted;
        Ok(())
    }

    /// What descriptor `i` is watched for when nothing is blocked.
    fn interest(&self, i: usize) -> Interest {
        let receives = match self {
            Carrier::Raw(r) => r.receives(i),
            Carrier::Tun(_) => true,
        };
        if receives {
            Interest::READ
        } else {
            Interest::NONE
        }
    }

    fn armed(&mut self) -> &mut Option<usize> {
        each!(self, c => c.armed())
    }

    /// Descriptor `i` was seen readable.
    pub fn mark_ready(&mut self, i: usize) {
        each!(self, c => c.mark_ready(i));
    }

    /// The next batch from a descriptor that is ready; `None` when all are drained. A batch may
    /// hold nothing but bad packets and so give no item.
    pub fn receive(&mut self) -> Option<Packets<'_>> {
        each!(self, c => c.receive())
    }

    /// Packets that [`slot`](Carrier::slot) takes before the next [`flush`](Carrier::flush).
    pub fn room(&self) -> u32 {
        each!(self, c => c.room())
    }

    /// The kernel refused a packet for lack of room; flush again when one of the descriptors is
    /// writable, of which [`rearm`](Carrier::rearm) makes the poller tell.
    pub fn is_blocked(&self) -> bool {
        each!(self, c => c.is_blocked())
    }

    /// Where the next segment (without IP header) goes: `mtu - 20` octets. `None` without room.
    /// Flushes by itself when all slots are full.
    pub fn slot(&mut self) -> Option<&mut [u8]> {
        each!(self, c => c.slot())
    }

    /// The last slot holds a segment of `len` octets: put the IP header before it and queue it.
    /// Gives the whole packet, for a capture.
    ///
    /// # Panics
    /// If `len` exceeds the slot or there was no slot.
    pub fn commit(&mut self, ip: &IpInfo, len: usize) -> &[u8] {
        each!(self, c => c.commit(ip, len))
    }

    /// Give the kernel what is committed.
    pub fn flush(&mut self) {
        each!(self, c => c.flush());
    }

    /// The longest IP packet this carrier sends.
    pub fn mtu(&self) -> usize {
        each!(self, c => c.mtu())
    }

    /// The longest IP packet that goes to `dst` by its route, at most [`mtu`](Carrier::mtu).
    ///
    /// # Errors
    /// `NetworkUnreachable` and the like if there is no route.
    pub fn path_mtu(&self, dst: Ipv4Addr) -> io::Result<usize> {
        each!(self, c => c.path_mtu(dst))
    }

    /// The address that packets to `dst` come from.
    ///
    /// # Errors
    /// `NetworkUnreachable` and the like if there is no route.
    pub fn source_for(&self, dst: Ipv4Addr) -> io::Result<Ipv4Addr> {
        each!(self, c => c.source_for(dst))
    }

    /// May a connection use `address` as its own?
    pub fn is_local(&self, address: Ipv4Addr) -> bool {
        each!(self, c => c.is_local(address))
    }

    /// What has been carried, and what was lost here and why.
    pub fn counters(&self) -> Counters {
        each!(self, c => c.counters())
    }
}

/// What the kernel's routes say about a destination, from this thread's network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The address that packets come from.
    pub source: Ipv4Addr,
    /// The longest packet, in octets.
    pub mtu: usize,
}

/// Ask the kernel for its route to `dst` by connecting a UDP socket; sends nothing.
///
/// # Errors
/// `NetworkUnreachable` and the like if there is none.
pub fn route_to(dst: Ipv4Addr) -> io::Result<Route> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // Port 9 is "discard"; it matters to no route.
    socket.connect((dst, 9))?;
    let source = match socket.local_addr()? {
        std::net::SocketAddr::V4(a) => *a.ip(),
        std::net::SocketAddr::V6(_) => return Err(io::ErrorKind::AddrNotAvailable.into()),
    };
    let mtu = sockopt::ip_mtu(&socket)? as usize;
    Ok(Route { source, mtu })
}

/// Is `address` one of this host's, in this thread's network namespace?
pub fn is_local_address(address: Ipv4Addr) -> bool {
    // All of 127/8 is local, though the kernel would answer from 127.0.0.1.
    address.is_loopback() || route_to(address).is_ok_and(|r| r.source == address)
}

/// Can raw sockets be opened here?
///
/// # Errors
/// `PermissionDenied` without CAP_NET_RAW.
pub fn open_raw_socket(protocol: u8) -> io::Result<std::os::fd::OwnedFd> {
    use core::num::NonZeroU32;
    use rustix::net::{Protocol, SocketFlags, socket_with};
    let number = NonZeroU32::new(u32::from(protocol)).ok_or(io::ErrorKind::InvalidInput)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let protocol = Some(Protocol::from_raw(number));
    Ok(socket_with(
        AddressFamily::INET,
        SocketType::RAW,
        flags,
        protocol,
    )?)
}
