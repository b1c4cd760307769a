//! The `udp` carrier: packets of all protocols in UDP datagrams, for networks that drop protocol
//! numbers they don't know, and for users without rights.
//!
//! A datagram's payload is a header of four octets ([`over_udp`]) and the segment; both ends have
//! the same port. To the rest of the daemon a datagram is a packet of that protocol: its IP header
//! is made of the addresses and the TTL that the kernel tells. Twelve octets more than such a
//! header are on the wire, so that packets are so much shorter.

use crate::carrier::{Accept, BATCH, Counters, Medium, Route, Source, Via, check_mtu};
use crate::carrier::{is_local_address, route_to};
use crate::datagram::{Outgoing, Receiver, Sender};
use crate::doubles::Doubles;
use crate::sys::{self, RecvBatch, SendBatch};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use core::ops::Range;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with, sockopt};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wifu_wire::ipv4::{self, HEADER, IpInfo};
use wifu_wire::over_udp;

pub use wifu_wire::over_udp::PORT;
/// What is on the wire beyond the packets that the daemon sees: IP and UDP header and ours, instead
/// of an IP header alone.
pub(crate) const MORE: usize = HEADER + 8 + over_udp::HEADER - HEADER;
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
    doubles: Option<Doubles>,
    receiver: Receiver,
    sender: Sender,
    offload: Offload,
    /// So many packets go one by one, because the kernel refused them as a group, and why.
    alone: (usize, i32),
    ready: bool,
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
            (libc::IP_RECVTOS, 1),
            (libc::IP_TTL, libc::c_int::from(ipv4::TTL)),
            // As the packets of other carriers: never in fragments.
            (libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO),
        ] {
            sys::set_option(&fd, libc::IPPROTO_IP, option, value)?;
        }
        let offload = match config.offload {
            true => offload(&fd),
            false => Offload::default(),
        };
        bind(&fd, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, config.port))?;
        Ok(UdpSocket {
            fd,
            port: config.port,
            protocols: config.protocols.clone(),
            doubles: config.doubles.clone(),
            receiver: match offload.joins {
                true => Receiver::new(GROUPS, GROUP),
                false => Receiver::new(BATCH, config.mtu.max(2048)),
            },
            sender: Sender::new(BATCH),
            offload,
            alone: (0, 0),
            ready: false,
        })
    }

    /// Put what was taken already into `inbox`, behind `n` packets; gives how many there are then.
    fn unpack(&mut self, inbox: &mut RecvBatch, mut n: usize, counters: &mut Counters) -> usize {
        while n < inbox.capacity()
            && let Some(datagram) = self.receiver.next()
        {
            // Beside raw sockets the numbers that have no doubles are those of raw alone.
            let inside = |n: u8| match &self.doubles {
                Some(doubles) => doubles.double(n),
                None => Some(n).filter(|n| self.protocols.contains(n)),
            };
            let found = over_udp::parse(datagram.octets);
            let Some((proto, segment)) = found.and_then(|(n, s)| Some((inside(n)?, s))) else {
                counters.foreign += 1;
                continue;
            };
            let info = IpInfo {
                src: datagram.from,
                dst: datagram.to,
                proto,
                ttl: datagram.ttl,
                ecn: datagram.ecn,
            };
            let written = inbox.fill(n, |room| Ok(packet(&info, segment, datagram.cut, room)));
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

/// Write a packet into `room`; gives its length, and whether there was more of it.
fn packet(info: &IpInfo, segment: &[u8], cut: bool, room: &mut [u8]) -> (usize, bool) {
    let len = segment.len().min(room.len() - HEADER);
    room[HEADER..][..len].copy_from_slice(&segment[..len]);
    ipv4::emit(info, len, room);
    (HEADER + len, cut || len < segment.len())
}

impl fmt::Display for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {}, {}", self.port, self.offload)
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
        1
    }

    fn descriptor(&self, _i: usize) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn receives(&self, _i: usize) -> bool {
        true
    }

    fn sender(&self, _via: Via) -> usize {
        0
    }

    fn mark_ready(&mut self, _i: usize) {
        self.ready = true;
    }

    /// At most one call. After strangers alone, others have their turn first: the poller tells of
    /// the rest.
    fn receive<'a>(
        &'a mut self,
        inbox: &'a mut RecvBatch,
        counters: &mut Counters,
    ) -> Option<(Source<'a>, usize)> {
        // What was held is handed on before more is taken, so that a round ends.
        let held = self.receiver.holds();
        let mut n = self.unpack(inbox, 0, counters);
        if !held && n < inbox.capacity() && core::mem::take(&mut self.ready) {
            let gave = self.receiver.receive(&self.fd);
            let more = counters.count_call(gave).unwrap_or(false);
            n = self.unpack(inbox, n, counters);
            self.ready = more && n > 0;
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
        let packets = (range.start..end).map(|i| {
            let packet = batch.message(i);
            let ip = ipv4::facts(packet);
            let proper = self.doubles.as_ref().and_then(|d| d.proper(ip.proto));
            Outgoing {
                shim: over_udp::header(proper.unwrap_or(ip.proto)),
                rest: &packet[HEADER..],
                from: ip.src,
                to: SocketAddrV4::new(ip.dst, self.port),
                ecn: ip.ecn,
            }
        });
        let grouped = alone == 0 && self.offload.cuts;
        let gave = self.sender.send(&self.fd, packets, grouped);
        if alone > 0 {
            self.divided(&gave);
            return gave;
        }
        gave.map_err(|e| self.divide(e))
    }

    fn route_to(&self, dst: IpAddr) -> io::Result<Route> {
        let route = route_to(dst)?;
        Ok(Route {
            mtu: route.mtu.saturating_sub(MORE),
            ..route
        })
    }

    fn is_local(&self, address: IpAddr) -> bool {
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
    use wifu_wire::Ecn;
    use wifu_wire::Time;

    const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;

    fn open(config: &UdpConfig) -> (Carrier, Poller) {
        let mut carrier = Carrier::udp(config).expect("carrier");
        let poller = Poller::new(Coalesce::OFF).expect("poller");
        carrier.attach(&poller, 0).expect("watched");
        (carrier, poller)
    }

    fn at(port: u16) -> UdpConfig {
        UdpConfig {
            port,
            ..UdpConfig::new(vec![214])
        }
    }

    fn to(dst: Ipv4Addr) -> IpInfo {
        IpInfo {
            src: Ipv4Addr::new(127, 0, 0, 5),
            dst,
            proto: 214,
            ttl: ipv4::TTL,
            ecn: Ecn::NotEct,
        }
    }

    /// Queue a segment of so many octets, all the same.
    fn put(carrier: &mut Carrier, ip: &IpInfo, octet: usize, len: usize) {
        let segment = vec![octet as u8; len];
        carrier.load(&ip.any(), &segment).expect("room");
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
                came.extend(packets.map(|p| (p.ip.v4().expect("IPv4"), p.payload.to_vec())));
            }
        }
    }

    #[test]
    fn marks_and_who_understands_them_stay_with_each_packet() {
        let port = free_port();
        let (mut carrier, mut poller) = open(&at(port));
        let fields = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect0, Ecn::Ce, Ecn::Ect1];
        let sent: Vec<IpInfo> = (0..BATCH)
            .map(|n| IpInfo {
                ecn: fields[n / 2 % fields.len()],
                ..to(Ipv4Addr::new(127, 0, 0, 9))
            })
            .collect();
        for (n, ip) in sent.iter().enumerate() {
            put(&mut carrier, ip, n, 1000);
        }
        carrier.flush();
        let came = all(&mut carrier, &mut poller);
        let came: Vec<IpInfo> = came.into_iter().map(|(ip, _)| ip).collect();
        assert_eq!(came, sent);
    }

    fn free_port() -> u16 {
        let socket = std::net::UdpSocket::bind((HERE, 0)).expect("socket");
        socket.local_addr().expect("address").port()
    }

    #[test]
    fn a_packet_comes_as_it_left_and_what_is_none_is_counted() {
        let port = free_port();
        let (mut carrier, mut poller) = open(&at(port));
        assert_eq!(carrier.mtu(), 1488);
        let ip = to(Ipv4Addr::new(127, 0, 0, 9));
        for n in 0..2 * BATCH {
            put(&mut carrier, &ip, n, 1000 - n % 2);
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
        let port = free_port();
        let (_carrier, _) = open(&at(port));
        let error = Carrier::udp(&at(port)).err().map(|e| e.kind());
        assert_eq!(error, Some(io::ErrorKind::AddrInUse));
    }

    /// What a carrier counted after it sent a batch to itself, and what of it came.
    fn batch(config: &UdpConfig, spoil: impl Fn(&Carrier)) -> (Counters, usize, String) {
        let (mut carrier, mut poller) = open(config);
        spoil(&carrier);
        // Groups of 20: two ends, and shorter ones between.
        for n in 0..BATCH {
            let last = 9 + (n / 20 % 2) as u8;
            let ip = to(Ipv4Addr::new(127, 0, 0, last));
            put(&mut carrier, &ip, n, 1000 - n % 20 / 19);
        }
        carrier.flush();
        let came = all(&mut carrier, &mut poller);
        for (n, (info, payload)) in came.iter().enumerate() {
            assert_eq!(info.dst.octets()[3], 9 + (n / 20 % 2) as u8);
            assert_eq!(payload, &vec![n as u8; 1000 - n % 20 / 19], "packet {n}");
        }
        (carrier.counters(), came.len(), carrier.described())
    }

    #[test]
    fn a_batch_takes_few_calls_with_and_without_groups() {
        for offload in [true, false] {
            let config = UdpConfig {
                offload,
                ..at(free_port())
            };
            let (c, came, said) = batch(&config, |_| ());
            assert_eq!((c.sent, c.send_calls, came), (64, 1, 64), "{said} {c:?}");
            // One that gave them, and at most those that found nothing.
            assert!(c.receive_calls <= 4, "{said} {c:?}");
            let without = said.contains("neither UDP_SEGMENT nor UDP_GRO");
            assert!(offload || without, "{said}");
        }
    }

    #[test]
    fn a_kernel_that_cuts_no_groups_is_noticed_and_nothing_is_lost() {
        // Linux cuts none of a socket without checksums: EINVAL.
        const SO_NO_CHECK: libc::c_int = 11;
        let config = at(free_port());
        let (c, came, said) = batch(&config, |carrier| {
            let socket = carrier.descriptor(0);
            sys::set_option(socket, libc::SOL_SOCKET, SO_NO_CHECK, 1).expect("option");
        });
        assert_eq!((c.sent, c.refused, came), (64, 0, 64), "{said} {c:?}");
        assert!(!said.contains("UDP_SEGMENT and"), "{said}");
        assert!((2..=4).contains(&c.send_calls), "{c:?}");
    }

    #[test]
    fn of_a_batch_only_what_the_kernel_refuses_is_lost() {
        for offload in [true, false] {
            let config = UdpConfig {
                offload,
                ..at(free_port())
            };
            let (mut carrier, mut poller) = open(&config);
            let (sound, forbidden) = (to(HERE), to(Ipv4Addr::BROADCAST));
            // EACCES: nobody has allowed broadcast. Alone, and two in a group.
            for n in 0..BATCH {
                let ip = match n {
                    0 | 7 | 8 | 63 => &forbidden,
                    _ => &sound,
                };
                put(&mut carrier, ip, n, 500);
            }
            carrier.flush();
            assert!(!carrier.is_blocked());
            let came = all(&mut carrier, &mut poller);
            let numbers: Vec<u8> = came.iter().map(|(_, p)| p[0]).collect();
            let expected: Vec<u8> = (1..63).filter(|n| ![7, 8].contains(n)).collect();
            assert_eq!(numbers, expected);
            let c = carrier.counters();
            assert_eq!((c.sent, c.refused), (60, 4), "{c:?}");
            let said = carrier.described();
            assert_eq!(said.contains("neither"), !offload, "{said}: not for good");
        }
    }

    #[test]
    fn a_group_that_does_not_fit_is_kept_for_the_next_batch() {
        let port = free_port();
        let (mut carrier, mut poller) = open(&at(port));
        for n in 0..4 * BATCH {
            put(&mut carrier, &to(HERE), n, 100);
            if n % BATCH == BATCH - 2 {
                carrier.flush();
            }
        }
        carrier.flush();
        let came = all(&mut carrier, &mut poller);
        let numbers: Vec<usize> = came.iter().map(|(_, p)| usize::from(p[0])).collect();
        assert_eq!(numbers, (0..4 * BATCH).collect::<Vec<_>>());
        assert!(!carrier.holds());
    }

    #[test]
    fn under_doubles_the_wire_has_the_number_proper() {
        let port = free_port();
        let doubles = Doubles::new(&[214], |_| true);
        let double = doubles
            .as_ref()
            .and_then(|d| d.double(214))
            .expect("double");
        let config = UdpConfig {
            protocols: vec![214, 245],
            doubles,
            ..at(port)
        };
        let (mut carrier, mut poller) = open(&config);
        let ip = IpInfo {
            proto: double,
            ..to(HERE)
        };
        put(&mut carrier, &ip, 5, 8);
        carrier.flush();
        let came = all(&mut carrier, &mut poller);
        assert_eq!(came, [(ip, vec![5; 8])]);
        // What comes under 214 has the double inside.
        let socket = std::net::UdpSocket::bind((HERE, 0)).expect("socket");
        for number in [214, double, 245] {
            let datagram = [2, 1, 0, number, 7];
            socket.send_to(&datagram, (HERE, port)).expect("send");
        }
        let came = all(&mut carrier, &mut poller);
        assert_eq!(came.len(), 1);
        assert_eq!((came[0].0.proto, &came[0].1[..]), (double, &[7][..]));
        let foreign = carrier.counters().foreign;
        assert_eq!(
            foreign, 2,
            "a double is on no wire, and 245 is of raw alone"
        );
    }
}
