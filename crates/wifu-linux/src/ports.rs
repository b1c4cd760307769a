//! UDP ports of packets that are datagrams by their own format (ATP, Behaviour 8.1): whoever has
//! such a connection, or listens so, has its local port at the kernel as well. So the kernel
//! answers nobody there in its own name, and no other program takes the port meanwhile.

use crate::sys;
use core::net::{Ipv4Addr, SocketAddrV4};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with, sockopt};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use wifu_wire::{Span, Time, ipv4};

/// How often ports are looked at that nobody may need any more.
const EVERY: Span = Span::SECOND;

/// The ports that this host has.
pub(crate) struct Ports {
    /// The carrier's, which stays.
    own: u16,
    receive_buffer: usize,
    /// By one of these nodes on the way tell its packets.
    services: Vec<u16>,
    held: BTreeSet<u16>,
    /// Those that the carrier does not have yet.
    fresh: Vec<(u16, OwnedFd)>,
    looked: Time,
}

impl Ports {
    /// None but the carrier's own yet.
    pub(crate) fn new(own: u16, receive_buffer: usize, services: &[u16]) -> Ports {
        Ports {
            own,
            receive_buffer,
            services: services.to_vec(),
            held: BTreeSet::from([own]),
            fresh: Vec::new(),
            looked: Time::ZERO,
        }
    }

    /// Have a local port, for connections to `remote` or for a listener; 0: any. Gives the port.
    ///
    /// # Errors
    /// Why it cannot be had, as an errno and for people.
    pub(crate) fn claim(&mut self, local: u16, remote: Option<u16>) -> Result<u16, (i32, String)> {
        let told = |p: &u16| self.services.contains(p);
        if !told(&local) && !remote.as_ref().is_some_and(told) {
            let all: Vec<String> = self.services.iter().map(u16::to_string).collect();
            return Err((
                libc::EADDRNOTAVAIL,
                format!(
                    "in UDP nodes on the way know this protocol by the port of its service ({}), \
                     and {} is none: take one of those, or start the daemons with --service-port",
                    all.join(", "),
                    remote.unwrap_or(local)
                ),
            ));
        }
        if local != 0 && self.held.contains(&local) {
            return Ok(local);
        }
        let had = open(local, self.receive_buffer).and_then(|fd| Ok((number(&fd)?, fd)));
        let (port, fd) = had.map_err(|e| {
            let errno = e.raw_os_error().unwrap_or(libc::EADDRNOTAVAIL);
            let who = match errno {
                libc::EADDRINUSE => "another program has it",
                libc::EACCES => "this daemon has no right to it",
                _ => "the kernel does not give it",
            };
            (errno, format!("UDP port {local}: {who} ({e})"))
        })?;
        self.held.insert(port);
        self.fresh.push((port, fd));
        Ok(port)
    }

    /// Sockets that the carrier does not have yet.
    pub(crate) fn take_fresh(&mut self) -> Vec<(u16, OwnedFd)> {
        core::mem::take(&mut self.fresh)
    }

    /// When those are to be looked at that nobody may need any more.
    pub(crate) fn look_at(&self) -> Time {
        match self.held.len() {
            1 => Time::NEVER,
            _ => self.looked + EVERY,
        }
    }

    /// If it is time: those that nobody needs any more. They are not held from now on.
    pub(crate) fn release(
        &mut self,
        now: Time,
        needed: impl FnOnce() -> BTreeSet<u16>,
    ) -> BTreeSet<u16> {
        if now < self.look_at() {
            return BTreeSet::new();
        }
        self.looked = now;
        let needed = needed();
        let gone = |p: &u16| *p != self.own && !needed.contains(p);
        let gone: BTreeSet<u16> = self.held.iter().copied().filter(gone).collect();
        self.held.retain(|p| !gone.contains(p));
        self.fresh.retain(|(p, _)| !gone.contains(p));
        gone
    }
}

/// A UDP socket at this port of all addresses, in this thread's network namespace; 0: at any.
///
/// # Errors
/// `AddrInUse` if somebody has the port; what the kernel says.
pub(crate) fn open(port: u16, receive_buffer: usize) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let udp = Some(ipproto::UDP);
    let fd = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, udp)?;
    // As much as is granted: without rights it is what the system allows everybody.
    if sockopt::set_socket_recv_buffer_size_force(&fd, receive_buffer).is_err() {
        sockopt::set_socket_recv_buffer_size(&fd, receive_buffer)?;
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
    bind(&fd, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))?;
    Ok(fd)
}

/// The port of a socket.
fn number(fd: &OwnedFd) -> io::Result<u16> {
    let name = rustix::net::getsockname(fd)?;
    let name = SocketAddrV4::try_from(name)?;
    Ok(name.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_held_as_long_as_somebody_needs_it() {
        let other = std::net::UdpSocket::bind(("0.0.0.0", 0)).expect("socket");
        let taken = other.local_addr().expect("address").port();
        let mut ports = Ports::new(9438, 1 << 16, &[9438, taken]);
        assert_eq!(ports.claim(9438, None), Ok(9438), "the carrier has it");
        assert!(ports.take_fresh().is_empty());
        assert_eq!(ports.look_at(), Time::NEVER);
        let (errno, said) = ports.claim(taken, None).expect_err("taken");
        assert_eq!(errno, libc::EADDRINUSE);
        assert!(
            said.starts_with(&format!("UDP port {taken}: another program")),
            "{said}"
        );
        let (errno, said) = ports.claim(0, Some(80)).expect_err("no service");
        assert_eq!(errno, libc::EADDRNOTAVAIL);
        assert!(
            said.contains("(9438, ") && said.contains("80 is none"),
            "{said}"
        );
        let port = ports.claim(0, Some(9438)).expect("any");
        let again = std::net::UdpSocket::bind(("127.0.0.1", port));
        assert_eq!(again.expect_err("held").kind(), io::ErrorKind::AddrInUse);
        let fresh = ports.take_fresh();
        assert_eq!(fresh.iter().map(|f| f.0).collect::<Vec<_>>(), [port]);
        let due = ports.look_at();
        assert!(ports.release(due, || BTreeSet::from([port])).is_empty());
        assert!(
            ports.release(due, BTreeSet::new).is_empty(),
            "not yet again"
        );
        let gone = ports.release(due + EVERY, BTreeSet::new);
        assert_eq!(gone, BTreeSet::from([port]));
        assert_eq!(ports.look_at(), Time::NEVER);
    }
}
