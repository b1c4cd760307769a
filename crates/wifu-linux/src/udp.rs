//! The `udp` carrier: packets of all protocols in UDP datagrams, for networks that drop protocol
//! numbers they don't know, and for users without rights.
//!
//! A datagram's payload is four octets (2, the version 1, 0, the protocol number) and the segment;
//! both ends have the same port. The 2 tells it from ATP's own header, whose first octet is 1, on
//! the same port. To the rest of the daemon a datagram is a packet of that protocol: its IP header
//! is made of the addresses and the TTL that the kernel tells. Twelve octets more than such a
//! header are on the wire, so that packets are so much shorter.

use crate::carrier::{Accept, Counters, Medium, Route, Source, check_mtu};
use crate::carrier::{is_local_address, route_to};
use crate::datagram;
use crate::sys::{self, RecvBatch, SendBatch};
use core::net::{Ipv4Addr, SocketAddrV4};
use core::ops::Range;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with, sockopt};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wifu_wire::ipv4::{self, HEADER, IpInfo};

/// The port, unless another is asked for: that of ATP.
pub const PORT: u16 = 9438;
/// Octets before the segment.
const SHIM: usize = 4;
const KIND: u8 = 2;
const VERSION: u8 = 1;
/// What is on the wire beyond the packets that the daemon sees: IP and UDP header and ours, instead
/// of an IP header alone.
const MORE: usize = HEADER + 8 + SHIM - HEADER;

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
}

impl UdpConfig {
    /// The defaults for these protocol numbers: 1500 octets, port [`PORT`], 16 MiB to receive.
    pub fn new(protocols: Vec<u8>) -> UdpConfig {
        UdpConfig {
            protocols,
            mtu: 1500,
            port: PORT,
            receive_buffer: 16 << 20,
        }
    }

    /// The longest packet of a protocol, its IP header included, in octets.
    pub(crate) fn inner_mtu(&self) -> usize {
        self.mtu - MORE
    }
}

/// A UDP socket, ready to carry.
pub(crate) struct UdpSocket {
    fd: OwnedFd,
    port: u16,
    protocols: Vec<u8>,
    ready: bool,
}

impl UdpSocket {
    /// A socket at this port of all addresses, in this thread's network namespace.
    ///
    /// # Errors
    /// `AddrInUse` if somebody has the port, `InvalidInput` for an mtu that is no such.
    pub(crate) fn open(config: &UdpConfig) -> io::Result<UdpSocket> {
        let invalid = |text| io::Error::new(io::ErrorKind::InvalidInput, text);
        check_mtu(config.mtu).map_err(invalid)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let udp = Some(ipproto::UDP);
        let fd = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, udp)?;
        // As much as is granted: without rights it is what the system allows everybody.
        if sockopt::set_socket_recv_buffer_size_force(&fd, config.receive_buffer).is_err() {
            sockopt::set_socket_recv_buffer_size(&fd, config.receive_buffer)?;
        }
        for (option, value) in [
            (libc::IP_PKTINFO, 1),
            (libc::IP_RECVTTL, 1),
            (libc::IP_TTL, libc::c_int::from(ipv4::TTL)),
            // As the packets of other carriers: never in fragments.
            (libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO),
        ] {
            sys::set_option(&fd, libc::IPPROTO_IP, option, value)?;
        }
        bind(&fd, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, config.port))?;
        Ok(UdpSocket {
            fd,
            port: config.port,
            protocols: config.protocols.clone(),
            ready: false,
        })
    }
}

/// Read a datagram into `buffer` as the packet that it carries: its octets, and whether there are
/// more. Without octets it is none of ours.
fn read(fd: BorrowedFd<'_>, protocols: &[u8], buffer: &mut [u8]) -> io::Result<(usize, bool)> {
    let start = HEADER - SHIM;
    let got = datagram::receive(fd, &mut buffer[start..])?;
    let segment = match buffer[start..start + got.len] {
        [KIND, VERSION, 0, proto, ref segment @ ..] if protocols.contains(&proto) => {
            Some((proto, segment.len()))
        }
        _ => None,
    };
    let Some((proto, len)) = segment else {
        return Ok((0, false));
    };
    let info = IpInfo {
        src: got.from,
        dst: got.to,
        proto,
        ttl: got.ttl,
    };
    ipv4::emit(&info, len, buffer);
    Ok((HEADER + len, got.cut))
}

impl Medium for UdpSocket {
    fn descriptors(&self) -> usize {
        1
    }

    fn descriptor(&self, _i: usize) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn receives(&self, _i: usize) -> bool {
        true
    }

    fn sender(&self, _linked: bool) -> usize {
        0
    }

    fn mark_ready(&mut self, _i: usize) {
        self.ready = true;
    }

    /// One datagram per call, until there are no more or so many were looked at. After strangers
    /// alone, others have their turn first: the poller tells of the rest.
    fn receive<'a>(
        &'a mut self,
        inbox: &'a mut RecvBatch,
        counters: &mut Counters,
    ) -> Option<(Source<'a>, usize)> {
        if !self.ready {
            return None;
        }
        let mut n = 0;
        self.ready = false;
        for _ in 0..inbox.capacity() {
            let fd = self.fd.as_fd();
            let gave = inbox.fill(n, |buffer| read(fd, &self.protocols, buffer));
            match counters.count_call(gave) {
                None => break,
                Some(0) => counters.foreign += 1,
                Some(_) => n += 1,
            }
        }
        self.ready = n == inbox.capacity();
        (n > 0).then_some((Source::Batch(inbox), n))
    }

    fn accept(&self) -> Accept {
        Accept::All
    }

    fn send(
        &mut self,
        batch: &mut SendBatch,
        range: Range<usize>,
        _linked: bool,
    ) -> io::Result<usize> {
        let packet = batch.message(range.start);
        let ip = ipv4::facts(packet);
        let shim = [KIND, VERSION, 0, ip.proto];
        let to = SocketAddrV4::new(ip.dst, self.port);
        datagram::send(&self.fd, [&shim, &packet[HEADER..]], ip.src, to)?;
        Ok(1)
    }

    fn route_to(&self, dst: Ipv4Addr) -> io::Result<Route> {
        let route = route_to(dst)?;
        Ok(Route {
            mtu: route.mtu.saturating_sub(MORE),
            ..route
        })
    }

    fn is_local(&self, address: Ipv4Addr) -> bool {
        is_local_address(address)
    }

    fn overflowed(&self) -> u64 {
        sys::receive_drops(&self.fd).map_or(0, u64::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carrier::{BATCH, Carrier};
    use crate::poller::{Coalesce, Poller};
    use std::time::Duration;
    use wifu_wire::Time;

    const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;

    fn open(port: u16) -> (Carrier, Poller) {
        let config = UdpConfig {
            port,
            ..UdpConfig::new(vec![214])
        };
        let mut carrier = Carrier::udp(&config).expect("carrier");
        let poller = Poller::new(Coalesce::OFF).expect("poller");
        carrier.attach(&poller, 0).expect("watched");
        (carrier, poller)
    }

    /// What came until nothing more comes: payloads and the facts of their headers.
    fn all(carrier: &mut Carrier, poller: &mut Poller) -> Vec<(IpInfo, Vec<u8>)> {
        let (mut came, mut events) = (Vec::new(), Vec::new());
        loop {
            let until = Time(Poller::now().0 + Duration::from_millis(100).as_nanos() as u64);
            poller.wait(until, 0, &mut events).expect("wait");
            if events.is_empty() {
                return came;
            }
            carrier.mark_ready(0);
            while let Some(packets) = carrier.receive() {
                came.extend(packets.map(|p| (p.ip, p.payload.to_vec())));
            }
        }
    }

    fn free_port() -> u16 {
        let socket = std::net::UdpSocket::bind((HERE, 0)).expect("socket");
        socket.local_addr().expect("address").port()
    }

    #[test]
    fn a_packet_comes_as_it_left_and_what_is_none_is_counted() {
        let (mut carrier, mut poller) = open(free_port());
        let name = rustix::net::getsockname(carrier.descriptor(0)).expect("name");
        let port = SocketAddrV4::try_from(name).expect("IPv4").port();
        assert_eq!(carrier.mtu(), 1488);
        let ip = IpInfo {
            src: Ipv4Addr::new(127, 0, 0, 5),
            dst: Ipv4Addr::new(127, 0, 0, 9),
            proto: 214,
            ttl: ipv4::TTL,
        };
        for n in 0..2 * BATCH {
            let slot = carrier.slot().expect("room");
            slot[..1000].fill(n as u8);
            carrier.commit(&ip, 1000 - n % 2);
        }
        carrier.flush();
        let came = all(&mut carrier, &mut poller);
        assert_eq!(came.len(), 2 * BATCH);
        for (n, (info, payload)) in came.iter().enumerate() {
            assert_eq!((info, payload), (&ip, &vec![n as u8; 1000 - n % 2]));
        }
        let stranger = std::net::UdpSocket::bind((HERE, 0)).expect("socket");
        let long = [&[2, 1, 0, 214][..], &[0; 3000]].concat();
        let bad: [&[u8]; 7] = [
            &[],
            &[2, 1, 0],
            &[1, 1, 0, 214, 9],
            &[2, 2, 0, 214, 9],
            &[2, 1, 1, 214, 9],
            &[2, 1, 0, 6, 9],
            &long,
        ];
        for payload in bad {
            stranger.send_to(payload, (HERE, port)).expect("send");
        }
        stranger
            .send_to(&[2, 1, 0, 214, 7], (HERE, port))
            .expect("send");
        let came = all(&mut carrier, &mut poller);
        let last: Vec<_> = came.iter().map(|(_, payload)| &payload[..]).collect();
        assert_eq!(last, [[7]]);
        let counters = carrier.counters();
        assert_eq!((counters.foreign, counters.truncated), (6, 1));
        assert_eq!(counters.received, 2 * BATCH as u64 + 1);
    }

    #[test]
    fn a_port_that_another_has_is_an_error() {
        let (carrier, _) = open(free_port());
        let name = rustix::net::getsockname(carrier.descriptor(0)).expect("name");
        let port = SocketAddrV4::try_from(name).expect("IPv4").port();
        let config = UdpConfig {
            port,
            ..UdpConfig::new(vec![214])
        };
        let error = Carrier::udp(&config).err().map(|e| e.kind());
        assert_eq!(error, Some(io::ErrorKind::AddrInUse));
    }
}
