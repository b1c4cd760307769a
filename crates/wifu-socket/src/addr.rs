//! Socket addresses of C programs.

use crate::sys::{Errno, Result};
use core::ffi::c_int;
use core::mem::size_of;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// An address as an application gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Given {
    /// An address, an IPv4-mapped one as what it maps to.
    At(SocketAddr),
    /// `::` and a port.
    AnyV6(u16),
    /// One that means something on one interface alone (`fe80::/10`), which WiFu does not carry.
    Link,
    /// `AF_UNSPEC`: dissolve; to `bind` the same as 0.0.0.0 with this port, if all else is 0.
    Unspecified(Option<u16>),
}

/// Reads a socket address; `v6` says which family the socket has, which is the only one that it
/// takes, with the IPv4-mapped addresses of IPv6.
///
/// # Safety
/// `addr` must be valid for reads of `len` bytes, or null.
///
/// # Errors
/// `EFAULT` for null, `EINVAL` if too short, `EAFNOSUPPORT` for another family: of an address that
/// is both the kernel says that it is too short.
pub unsafe fn read(addr: *const libc::sockaddr, len: libc::socklen_t, v6: bool) -> Result<Given> {
    let len = len as usize;
    if addr.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    if len < size_of::<libc::sa_family_t>() {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: at least the family can be read; the address may be unaligned.
    let family = c_int::from(unsafe { addr.cast::<libc::sa_family_t>().read_unaligned() });
    match family {
        libc::AF_UNSPEC => {
            let whole = !v6 && len >= size_of::<libc::sockaddr_in>();
            // SAFETY: len covers the structure, which may be unaligned.
            let a = whole.then(|| unsafe { addr.cast::<libc::sockaddr_in>().read_unaligned() });
            let any = a.filter(|a| a.sin_addr.s_addr == 0);
            Ok(Given::Unspecified(any.map(|a| u16::from_be(a.sin_port))))
        }
        // Linux accepts addresses without the scope id.
        _ if v6 && len < 24 => Err(Errno(libc::EINVAL)),
        libc::AF_INET if v6 => Err(Errno(libc::EAFNOSUPPORT)),
        _ if len < size_of::<libc::sockaddr_in>() => Err(Errno(libc::EINVAL)),
        libc::AF_INET => {
            // SAFETY: len covers the structure, which may be unaligned.
            let a = unsafe { addr.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(a.sin_addr.s_addr));
            Ok(Given::At(SocketAddr::new(
                ip.into(),
                u16::from_be(a.sin_port),
            )))
        }
        libc::AF_INET6 if v6 => {
            // SAFETY: len covers port and address, which lie at 2 and 8 in the structure.
            let (port, octets) = unsafe {
                let base = addr.cast::<u8>();
                (
                    base.add(2).cast::<[u8; 2]>().read_unaligned(),
                    base.add(8).cast::<[u8; 16]>().read_unaligned(),
                )
            };
            let (port, ip) = (u16::from_be_bytes(port), Ipv6Addr::from(octets));
            Ok(match ip.to_ipv4_mapped() {
                Some(v4) => Given::At(SocketAddr::new(v4.into(), port)),
                None if ip.is_unspecified() => Given::AnyV6(port),
                None if ip.is_unicast_link_local() => Given::Link,
                None => Given::At(SocketAddr::new(ip.into(), port)),
            })
        }
        _ => Err(Errno(libc::EAFNOSUPPORT)),
    }
}

/// Writes an address as the kernel does: cut to the caller's room, with the whole length stored.
///
/// # Safety
/// `len` must be null or valid for reads and writes, and `addr` null or valid for writes of `*len`
/// bytes.
///
/// # Errors
/// `EINVAL` for a negative length.
pub unsafe fn write(
    a: SocketAddr,
    v6: bool,
    addr: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) -> Result<()> {
    if addr.is_null() || len.is_null() {
        return Ok(());
    }
    let mut bytes = [0; size_of::<libc::sockaddr_in6>()];
    let port = a.port().to_be_bytes();
    let size = match a.ip() {
        // No socket of IPv4 has a peer of the other family.
        IpAddr::V4(ip) if !v6 => {
            bytes[..2].copy_from_slice(&(libc::AF_INET as libc::sa_family_t).to_ne_bytes());
            bytes[4..8].copy_from_slice(&ip.octets());
            size_of::<libc::sockaddr_in>()
        }
        ip => {
            let ip = match ip {
                IpAddr::V4(ip) if ip.is_unspecified() => Ipv6Addr::UNSPECIFIED,
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            bytes[..2].copy_from_slice(&(libc::AF_INET6 as libc::sa_family_t).to_ne_bytes());
            bytes[8..24].copy_from_slice(&ip.octets());
            size_of::<libc::sockaddr_in6>()
        }
    };
    bytes[2..4].copy_from_slice(&port);
    // SAFETY: the caller vouches for both pointers.
    unsafe {
        let room = len.read_unaligned();
        if (room as i32) < 0 {
            return Err(Errno(libc::EINVAL));
        }
        let n = size.min(room as usize);
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), addr.cast::<u8>(), n);
        len.write_unaligned(size as libc::socklen_t);
    }
    Ok(())
}
