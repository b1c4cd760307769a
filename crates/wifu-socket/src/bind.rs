//! `bind`: a socket's local address is its abstract UNIX name, which a network namespace has once.

use crate::addr::{self, Given};
use crate::daemon;
use crate::note::Once;
use crate::sys::{self, Errno, Result, UnixAddr};
use crate::tag::Tag;
use core::ffi::c_int;
use core::net::{Ipv4Addr, SocketAddrV4};
use wifu_wire::front::{self, Name, Request};

/// Ports for sockets that are bound to port 0, as Linux's `ip_local_port_range`.
const EPHEMERAL: core::ops::Range<u16> = 32768..61000;
/// Where IPv6-only sockets are bound, which nothing can connect to.
pub(crate) const SERVICE_V6: &[u8] = b"\0wifu/6/";

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
        Given::V4(a) => a,
        Given::AnyV6(port) if tag.has(Tag::V6ONLY) => return bind_v6_only(fd, port),
        Given::AnyV6(port) => SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port),
        Given::V6 => return Err(Errno(libc::EADDRNOTAVAIL)),
        // Linux takes AF_UNSPEC with a zero address for AF_INET.
        Given::Unspecified(Some(port)) => SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port),
        Given::Unspecified(None) => return Err(Errno(libc::EAFNOSUPPORT)),
    };
    check_is_local(*local.ip())?;
    bind_service(fd, tag, local)?;
    Ok(0)
}

/// An IPv6-only socket can be bound and listen, and never gets a connection.
fn bind_v6_only(fd: c_int, port: u16) -> Result<c_int> {
    static SAID: Once = Once::new();
    SAID.say(format_args!(
        "IPv6 is not carried: the IPv6-only socket on port {port} stays silent"
    ));
    let mut name = [0; SERVICE_V6.len() + 2];
    name[..SERVICE_V6.len()].copy_from_slice(SERVICE_V6);
    name[SERVICE_V6.len()..].copy_from_slice(&port.to_be_bytes());
    let name = UnixAddr::new(&name).ok_or(Errno(libc::EINVAL))?;
    sys::bind(fd, &name)?;
    Ok(0)
}

pub(crate) fn bound_v6_only(name: &[u8]) -> Option<SocketAddrV4> {
    let port = name.strip_prefix(SERVICE_V6)?.try_into().ok()?;
    Some(SocketAddrV4::new(
        Ipv4Addr::UNSPECIFIED,
        u16::from_be_bytes(port),
    ))
}

/// Asks the kernel, as `bind` to this address would, whether it is ours.
fn check_is_local(ip: Ipv4Addr) -> Result<()> {
    if ip.is_unspecified() {
        return Ok(());
    }
    let probe = sys::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0)?;
    let r = sys::bind_v4(probe, SocketAddrV4::new(ip, 0));
    sys::close(probe);
    match r {
        // The daemon's address on a TUN device, which the kernel must not know as its own.
        Err(Errno(libc::EADDRNOTAVAIL)) if is_daemons(ip) => Ok(()),
        r => r,
    }
}

fn is_daemons(ip: Ipv4Addr) -> bool {
    let reply = daemon::ask(&Request::Ping);
    reply.is_ok_and(|r| r.answer().local.is_some_and(|a| *a.ip() == ip))
}

fn bind_name(fd: c_int, name: &Name) -> Result<()> {
    let name = UnixAddr::new(name.as_bytes()).ok_or(Errno(libc::EINVAL))?;
    sys::bind(fd, &name)
}

/// Binds beside a socket that has the address already, if this one asks to share and the daemon has
/// nothing against it: that knows of those that listen alone, so nothing is asked of one that does
/// not, where the kernel wants the option of both.
fn bind_beside(fd: c_int, tag: Tag, local: SocketAddrV4) -> Result<()> {
    let in_use = Err(Errno(libc::EADDRINUSE));
    let reuse = sys::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR)? != 0;
    if !reuse && !tag.has(Tag::SHARED) {
        return in_use;
    }
    // Who listens there need not be a process that we can ask.
    let options = tag.options();
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

pub(crate) fn bind_service(fd: c_int, tag: Tag, local: SocketAddrV4) -> Result<()> {
    let try_port = |port| bind_name(fd, &Name::service(SocketAddrV4::new(*local.ip(), port)));
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
pub(crate) fn bound_nth(fd: c_int) -> Option<(SocketAddrV4, u8)> {
    front::parse_service(sys::getsockname(fd).ok()?.name())
}

/// The address alone.
pub(crate) fn bound(fd: c_int) -> Option<SocketAddrV4> {
    bound_nth(fd).map(|(local, _)| local)
}

/// Any address of ours, any port.
pub(crate) const ANY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
