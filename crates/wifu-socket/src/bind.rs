//! `bind`: a socket's local address is its abstract UNIX name, which a network namespace has once.

use crate::addr::{self, Given};
use crate::daemon;
use crate::sys::{self, Errno, Result, UnixAddr};
use crate::tag::Tag;
use core::ffi::c_int;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use wifu_wire::front::{self, Name, Options, Request};

/// Ports for sockets that are bound to port 0, as Linux's `ip_local_port_range`.
const EPHEMERAL: core::ops::Range<u16> = 32768..61000;

/// `bind`.
///
/// # Safety
/// As [`addr::read`].
pub unsafe fn bind(
    fd: c_int,
    tag: Tag,
    a: *const libc::sockaddr,
    len: libc::socklen_t,
) -> Result<c_int> {
    // SAFETY: the caller's promise.
    let local = match unsafe { addr::read(a, len, tag.has(Tag::V6)) }? {
        Given::At(a) if a.is_ipv4() && tag.has(Tag::V6ONLY) => return Err(Errno(libc::EINVAL)),
        Given::At(a) => a,
        Given::AnyV6(port) => SocketAddr::new(any(tag), port),
        Given::Link => return Err(Errno(libc::EADDRNOTAVAIL)),
        // Linux takes AF_UNSPEC with a zero address for AF_INET.
        Given::Unspecified(Some(port)) => SocketAddr::new(any(tag), port),
        Given::Unspecified(None) => return Err(Errno(libc::EAFNOSUPPORT)),
    };
    check_is_local(local.ip())?;
    bind_service(fd, tag, local)?;
    Ok(0)
}

/// Asks the kernel, as `bind` to this address would, whether it is ours.
fn check_is_local(ip: IpAddr) -> Result<()> {
    if ip.is_unspecified() {
        return Ok(());
    }
    if ip.is_ipv6() && ip.is_multicast() {
        // A UDP socket could; Linux has this for one of TCP.
        return Err(Errno(libc::EINVAL));
    }
    let probe = sys::socket(family(ip), libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0)?;
    let r = sys::bind_ip(probe, SocketAddr::new(ip, 0));
    sys::close(probe);
    match r {
        // The daemon's address on a TUN device, which the kernel must not know as its own.
        Err(Errno(libc::EADDRNOTAVAIL)) if is_daemons(ip) => Ok(()),
        r => r,
    }
}

fn is_daemons(ip: IpAddr) -> bool {
    let is = |a: Option<SocketAddr>| a.is_some_and(|a| a.ip() == ip);
    let reply = daemon::ask(&Request::Ping);
    reply.is_ok_and(|r| is(r.answer().local) || is(r.answer().remote))
}

/// The family of an address.
pub(crate) fn family(ip: IpAddr) -> c_int {
    match ip {
        IpAddr::V4(_) => libc::AF_INET,
        IpAddr::V6(_) => libc::AF_INET6,
    }
}

/// The address that means all of ours, as far as the socket takes them. The one of both families is
/// that of IPv4, so that neither a socket of IPv4 alone nor another one of both has it as well.
pub(crate) fn any(tag: Tag) -> IpAddr {
    match tag.has(Tag::V6ONLY) {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => Ipv4Addr::UNSPECIFIED.into(),
    }
}

/// The bits for the daemon, of a socket that is bound to `local`.
pub(crate) fn options(tag: Tag, local: SocketAddr) -> Options {
    let dual = tag.has(Tag::V6) && local.is_ipv4() && local.ip().is_unspecified();
    match dual {
        true => tag.options().with(Options::DUAL),
        false => tag.options(),
    }
}

fn bind_name(fd: c_int, name: &Name) -> Result<()> {
    let name = UnixAddr::new(name.as_bytes()).ok_or(Errno(libc::EINVAL))?;
    sys::bind(fd, &name)
}

/// Binds beside a socket that has the address already, if this one asks to share and the daemon has
/// nothing against it: that knows of those that listen alone, so nothing is asked of one that does
/// not, where the kernel wants the option of both.
fn bind_beside(fd: c_int, tag: Tag, local: SocketAddr) -> Result<()> {
    let in_use = Err(Errno(libc::EADDRINUSE));
    let reuse = sys::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR)? != 0;
    if !reuse && !tag.has(Tag::SHARED) {
        return in_use;
    }
    // Who listens there need not be a process that we can ask.
    let options = options(tag, local);
    let answer = daemon::ask(&Request::Share { local, options });
    if answer.map_or(libc::EADDRINUSE as u32, |r| r.answer().errno) != 0 {
        return in_use;
    }
    for nth in 1..=u8::MAX {
        match bind_name(fd, &Name::service_nth(local, nth)) {
            Err(Errno(libc::EADDRINUSE)) => {}
            other => return other,
        }
    }
    in_use
}

pub(crate) fn bind_service(fd: c_int, tag: Tag, local: SocketAddr) -> Result<()> {
    let try_port = |port| bind_name(fd, &Name::service(SocketAddr::new(local.ip(), port)));
    if local.port() != 0 {
        return match try_port(local.port()) {
            Err(Errno(libc::EADDRINUSE)) => bind_beside(fd, tag, local),
            other => other,
        };
    }
    let ports = EPHEMERAL.end - EPHEMERAL.start;
    let first = sys::random16() % ports;
    for i in 0..ports {
        let port = EPHEMERAL.start + (first + i) % ports;
        match try_port(port) {
            Err(Errno(libc::EADDRINUSE)) => {}
            other => return other,
        }
    }
    Err(Errno(libc::EADDRINUSE))
}

/// The address that the socket is bound to by `bind`, if it is, and which of its names it has.
pub(crate) fn bound_nth(fd: c_int) -> Option<(SocketAddr, u8)> {
    front::parse_service(sys::getsockname(fd).ok()?.name())
}

/// The address alone.
pub(crate) fn bound(fd: c_int) -> Option<SocketAddr> {
    bound_nth(fd).map(|(local, _)| local)
}

/// Any address of ours, any port.
pub(crate) const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
