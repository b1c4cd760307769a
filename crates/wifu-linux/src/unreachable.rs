//! What networks and hosts say of packets that do not arrive: ICMP errors (RFC 792), and those of
//! ICMPv6 (RFC 4443).
//!
//! The kernel hands copies of them to a raw socket; on a TUN device they come as packets. Each
//! quotes the packet that it is about: whose that is, and whether it may be on its way at all, the
//! endpoint says ([`wifu_engine::Endpoint::sender_of`]), so that strangers cannot end connections
//! of which they know nothing (RFC 5927).

use crate::carrier::{ICMP, open_raw_socket, open_raw_v6};
use crate::doubles::Doubles;
use crate::sys;
use rustix::net::{AddressFamily, RecvFlags, recv};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wifu_core::ip;
use wifu_wire::checksum::Sum;
use wifu_wire::{AnyIpInfo, ipv4, ipv6, over_udp};

/// Type, code, checksum and four octets more.
const HEADER: usize = 8;
const UNREACHABLE: u8 = 3;
const EXPIRED: u8 = 11;
// Of ICMPv6.
const UNREACHABLE6: u8 = 1;
const EXPIRED6: u8 = 3;
const PARAMETER6: u8 = 4;
// linux/icmp.h, linux/icmpv6.h, linux/socket.h
const ICMP_FILTER: libc::c_int = 1;
const ICMPV6_FILTER: libc::c_int = 1;
const SOL_ICMPV6: libc::c_int = 58;
const SOL_RAW: libc::c_int = 255;
/// Source and destination port, length, checksum.
const UDP_HEADER: usize = 8;
/// Messages taken before anything else gets its turn.
const BURST: usize = 64;

/// Why a packet did not arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// Nobody knows a way to its network.
    Network,
    /// Its host does not answer, or somebody on the way forbids it.
    Host,
    /// Its host has nobody for its protocol.
    Protocol,
    /// Its host has nobody for its port.
    Port,
}

impl Why {
    /// The meaning of a message's type and code; `None` for what says nothing about the way.
    fn of(kind: u8, code: u8) -> Option<Why> {
        //= rfc1122#section-3.2.2.1
        Some(match (kind, code) {
            (UNREACHABLE, 0 | 6 | 9 | 11) => Why::Network,
            (UNREACHABLE, 1 | 7 | 8 | 10 | 12..=15) => Why::Host,
            (UNREACHABLE, 2) => Why::Protocol,
            (UNREACHABLE, 3) => Why::Port,
            // In transit; a part of a fragmented packet (code 1) says nothing about the way.
            (EXPIRED, 0) => Why::Host,
            _ => return None,
        })
    }

    /// The same of ICMPv6.
    fn of_v6(kind: u8, code: u8) -> Option<Why> {
        //= rfc4443#section-3.1
        Some(match (kind, code) {
            (UNREACHABLE6, 0 | 2) => Why::Network,
            (UNREACHABLE6, 1 | 3 | 5 | 6) => Why::Host,
            (UNREACHABLE6, 4) => Why::Port,
            (EXPIRED6, 0) => Why::Host,
            // Its next header is not recognized.
            (PARAMETER6, 1) => Why::Protocol,
            _ => return None,
        })
    }

    /// What `connect` gives for it, as the kernel's TCP has it. A host without a daemon refuses as
    /// one does on which nobody listens.
    pub(crate) fn errno(self) -> i32 {
        match self {
            Why::Network => libc::ENETUNREACH,
            Why::Host => libc::EHOSTUNREACH,
            Why::Protocol | Why::Port => libc::ECONNREFUSED,
        }
    }

    /// What an errno cannot say.
    pub(crate) fn text(self, about: &AnyIpInfo) -> Option<String> {
        let (host, number) = (about.dst, about.proto);
        match self {
            Why::Protocol => Some(format!(
                "{host} has no daemon that carries IP protocol {number} (ICMP: protocol \
                 unreachable)"
            )),
            Why::Port => Some(format!("{host} has no daemon (ICMP: port unreachable)")),
            Why::Network | Why::Host => None,
        }
    }
}

/// A packet that did not arrive.
#[derive(Debug)]
pub(crate) struct Unreachable {
    pub(crate) why: Why,
    /// The facts of its header. The protocol is the one that it has inside the daemon.
    pub(crate) about: AnyIpInfo,
    /// As much as is quoted of what followed its header.
    pub(crate) segment: Vec<u8>,
}

/// Reads an ICMP error of either version.
pub(crate) fn understand(packet: &[u8]) -> Option<Unreachable> {
    if wifu_wire::ip::is_v6(packet) {
        let (info, body) = ipv6::parse(packet).ok()?;
        let sum = info.pseudo().sum(body.len()).add(body).finish();
        let sound = info.proto == ipv6::ICMP && sum == 0;
        return sound.then(|| understand_v6(body)).flatten();
    }
    let (info, body) = ipv4::parse(packet).ok()?;
    let quoted = body.get(HEADER..)?;
    if info.proto != ICMP || Sum::default().add(body).finish() != 0 {
        return None;
    }
    let why = Why::of(body[0], body[1])?;
    let header = ip::header(quoted)?;
    if !ip::is_first_fragment(quoted) {
        return None;
    }
    // Behind the quotation there may be more (RFC 4884).
    let total = usize::from(u16::from_be_bytes([quoted[2], quoted[3]]));
    Some(Unreachable {
        why,
        about: ipv4::facts(quoted).any(),
        segment: quoted.get(header..total.min(quoted.len()))?.to_vec(),
    })
}

/// Reads an ICMPv6 error behind its IP header, whose checksum is right.
fn understand_v6(body: &[u8]) -> Option<Unreachable> {
    let quoted = body.get(HEADER..)?;
    let why = Why::of_v6(body[0], body[1])?;
    let (about, at) = ipv6::upper(quoted).ok()?;
    let total = ipv6::HEADER + usize::from(u16::from_be_bytes([quoted[4], quoted[5]]));
    Some(Unreachable {
        why,
        about: about.any(),
        segment: quoted.get(at..total.min(quoted.len()))?.to_vec(),
    })
}

/// Of a datagram of the carrier `udp` what is in it, under the number that it has in the daemon;
/// what is none stays as it is.
pub(crate) fn unwrapped(
    mut told: Unreachable,
    doubles: Option<&Doubles>,
    tcp: Option<u8>,
) -> Unreachable {
    if told.about.proto != ip::UDP {
        return told;
    }
    let inside = told.segment.get(UDP_HEADER..).and_then(over_udp::parse);
    if let Some((number, segment)) = inside {
        let number = tcp.filter(|_| number == 0).unwrap_or(number);
        told.about.proto = match doubles {
            Some(doubles) => doubles.double(number).unwrap_or(number),
            None => number,
        };
        told.segment = segment.to_vec();
    }
    told
}

/// Hears the errors that the kernel gets.
pub(crate) struct Ear {
    fd: OwnedFd,
    /// Where the kernel has IPv6.
    six: Option<OwnedFd>,
    octets: Vec<u8>,
}

impl Ear {
    /// Sockets in this thread's network namespace.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_NET_RAW.
    pub(crate) fn open() -> io::Result<Ear> {
        let fd = open_raw_socket(AddressFamily::INET, ICMP)?;
        let others = !(1u32 << UNREACHABLE | 1 << EXPIRED);
        sys::set_option(&fd, SOL_RAW, ICMP_FILTER, others)?;
        Ok(Ear {
            fd,
            six: open_six()?,
            octets: vec![0; 2048],
        })
    }

    /// Puts what came into `heard`; the poller tells of more.
    pub(crate) fn hear(&mut self, heard: &mut Vec<Unreachable>) {
        for _ in 0..BURST {
            let Ok((n, _)) = recv(&self.fd, &mut self.octets[..], RecvFlags::DONTWAIT) else {
                return;
            };
            heard.extend(understand(&self.octets[..n]));
        }
    }

    /// The same of the socket for ICMPv6, which gives what follows the IP header and looks at the
    /// checksum itself.
    pub(crate) fn hear_v6(&mut self, heard: &mut Vec<Unreachable>) {
        for _ in 0..BURST {
            let Some(fd) = &self.six else { return };
            let Ok((n, _)) = recv(fd, &mut self.octets[..], RecvFlags::DONTWAIT) else {
                return;
            };
            heard.extend(understand_v6(&self.octets[..n]));
        }
    }

    /// The descriptor of ICMP, and that of ICMPv6.
    pub(crate) fn descriptors(&self) -> (BorrowedFd<'_>, Option<BorrowedFd<'_>>) {
        (self.fd.as_fd(), self.six.as_ref().map(AsFd::as_fd))
    }
}

fn open_six() -> io::Result<Option<OwnedFd>> {
    let Some(fd) = open_raw_v6(ipv6::ICMP)? else {
        return Ok(None);
    };
    // A bit for each type that is not wanted.
    let mut others = [u32::MAX; 8];
    others[0] &= !(1 << UNREACHABLE6 | 1 << EXPIRED6 | 1 << PARAMETER6);
    sys::set_option(&fd, SOL_ICMPV6, ICMPV6_FILTER, others)?;
    Ok(Some(fd))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use core::net::Ipv6Addr;
    use wifu_wire::{Ecn, IpInfo};

    const ME: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);

    fn packet(src: Ipv4Addr, dst: Ipv4Addr, proto: u8, payload: &[u8]) -> Vec<u8> {
        let ttl = ipv4::TTL;
        let info = IpInfo {
            src,
            dst,
            proto,
            ttl,
            ecn: Ecn::NotEct,
        };
        let mut packet = vec![0; ipv4::HEADER];
        packet.extend(payload);
        ipv4::emit(&info, payload.len(), &mut packet);
        packet
    }

    /// An error about a packet, of which it quotes so much.
    fn error(kind: u8, code: u8, about: &[u8], quoted: usize) -> Vec<u8> {
        let mut body = vec![kind, code, 0, 0, 0, 0, 0, 0];
        body.extend(&about[..quoted.min(about.len())]);
        let sum = Sum::default().add(&body).finish();
        body[2..4].copy_from_slice(&sum.to_be_bytes());
        packet(PEER, ME, ICMP, &body)
    }

    #[test]
    fn errors_are_about_the_packet_that_they_quote() {
        let sent = packet(ME, PEER, 215, &[7; 1000]);
        for (kind, code, errno) in [
            (3, 0, libc::ENETUNREACH),
            (3, 1, libc::EHOSTUNREACH),
            (3, 2, libc::ECONNREFUSED),
            (3, 3, libc::ECONNREFUSED),
            (3, 13, libc::EHOSTUNREACH),
            (11, 0, libc::EHOSTUNREACH),
        ] {
            let told = understand(&error(kind, code, &sent, 548)).expect("an error");
            assert_eq!(told.why.errno(), errno, "{kind}/{code}");
            assert_eq!(told.about, ipv4::facts(&sent).any());
            assert_eq!(told.segment, [7; 528]);
        }
        // A longer path MTU is no end, nor is an echo.
        for (kind, code) in [(3, 4), (3, 5), (11, 1), (0, 0), (8, 0), (5, 1)] {
            assert!(
                understand(&error(kind, code, &sent, 548)).is_none(),
                "{kind}/{code}"
            );
        }
    }

    const ME6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
    const PEER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9);

    fn packet6(src: Ipv6Addr, dst: Ipv6Addr, proto: u8, payload: &[u8]) -> Vec<u8> {
        let info = IpInfo {
            src,
            dst,
            proto,
            ttl: ipv4::TTL,
            ecn: Ecn::NotEct,
        };
        let mut packet = vec![0; ipv6::HEADER];
        packet.extend(payload);
        ipv6::emit(&info, payload.len(), &mut packet);
        packet
    }

    fn error6(kind: u8, code: u8, about: &[u8], quoted: usize) -> Vec<u8> {
        let mut body = vec![kind, code, 0, 0, 0, 0, 0, 0];
        body.extend(&about[..quoted.min(about.len())]);
        let pseudo = wifu_wire::Pseudo::new(PEER6, ME6, ipv6::ICMP);
        let sum = pseudo.sum(body.len()).add(&body).finish();
        body[2..4].copy_from_slice(&sum.to_be_bytes());
        packet6(PEER6, ME6, ipv6::ICMP, &body)
    }

    #[test]
    fn errors_of_icmpv6_are_about_the_packet_that_they_quote() {
        let sent = packet6(ME6, PEER6, 215, &[7; 1000]);
        for (kind, code, errno) in [
            (1, 0, libc::ENETUNREACH),
            (1, 1, libc::EHOSTUNREACH),
            (1, 3, libc::EHOSTUNREACH),
            (1, 4, libc::ECONNREFUSED),
            (3, 0, libc::EHOSTUNREACH),
            (4, 1, libc::ECONNREFUSED),
        ] {
            let told = understand(&error6(kind, code, &sent, 568)).expect("an error");
            assert_eq!(told.why.errno(), errno, "{kind}/{code}");
            let expected = ipv6::parse(&sent).expect("whole").0.any();
            assert_eq!((told.about, told.segment), (expected, vec![7; 528]));
        }
        // A longer path MTU is no end, nor is what is wrong with a field, nor an echo.
        for (kind, code) in [(2, 0), (3, 1), (4, 0), (4, 2), (128, 0), (129, 0)] {
            assert!(understand(&error6(kind, code, &sent, 568)).is_none());
        }
        let whole = error6(1, 3, &sent, 80);
        for at in ipv6::HEADER..whole.len() {
            let mut bad = whole.clone();
            bad[at] ^= 4;
            assert!(understand(&bad).is_none(), "byte {at}");
        }
        for quoted in 0..ipv6::HEADER {
            assert!(
                understand(&error6(1, 3, &sent, quoted)).is_none(),
                "{quoted}"
            );
        }
    }

    #[test]
    fn what_is_damaged_or_cut_is_nothing() {
        let sent = packet(ME, PEER, 215, &[7; 40]);
        let whole = error(3, 1, &sent, 60);
        assert!(understand(&whole).is_some());
        for at in ipv4::HEADER..whole.len() {
            let mut bad = whole.clone();
            bad[at] ^= 4;
            assert!(understand(&bad).is_none(), "byte {at}");
        }
        for quoted in 0..ipv4::HEADER {
            assert!(
                understand(&error(3, 1, &sent, quoted)).is_none(),
                "{quoted}"
            );
        }
        let mut later = sent.clone();
        later[7] = 1;
        assert!(
            understand(&error(3, 1, &later, 60)).is_none(),
            "a later fragment"
        );
        // What follows the quotation is not of it.
        let mut more = sent;
        more.extend([9; 30]);
        let told = understand(&error(3, 1, &more, 90)).expect("an error");
        assert_eq!(told.segment, [7; 40]);
    }

    #[test]
    fn datagrams_are_unwrapped_under_the_number_inside() {
        let inside = [&over_udp::header(215)[..], &[7; 30]].concat();
        let datagram = [&[0; UDP_HEADER][..], &inside].concat();
        let sent = packet(ME, PEER, ip::UDP, &datagram);
        let told = || understand(&error(3, 3, &sent, 548)).expect("an error");
        let plain = unwrapped(told(), None, None);
        assert_eq!((plain.about.proto, &plain.segment[..]), (215, &[7; 30][..]));
        let doubles = Doubles::new(&[215], |n| n == 250).expect("numbers");
        assert_eq!(unwrapped(told(), Some(&doubles), None).about.proto, 250);
        let inside = [&over_udp::header(0)[..], &[7; 30]].concat();
        let datagram = [&[0; UDP_HEADER][..], &inside].concat();
        let bare = packet(ME, PEER, ip::UDP, &datagram);
        let told = understand(&error(3, 3, &bare, 548)).expect("an error");
        assert_eq!(unwrapped(told, None, Some(207)).about.proto, 207);
        let foreign = packet(ME, PEER, ip::UDP, &[0; 20]);
        let told = understand(&error(3, 3, &foreign, 548)).expect("an error");
        assert_eq!(unwrapped(told, None, None).about.proto, ip::UDP);
    }
}
