//! Datagrams with the addresses of both their ends, one per system call.

use core::mem::{size_of, size_of_val, zeroed};
use core::net::{Ipv4Addr, SocketAddrV4};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// A datagram that came.
pub(crate) struct Came {
    /// Octets in the buffer.
    pub(crate) len: usize,
    /// There were more.
    pub(crate) cut: bool,
    pub(crate) from: Ipv4Addr,
    /// The address of this host that it was sent to.
    pub(crate) to: Ipv4Addr,
    pub(crate) ttl: u8,
}

/// Room for what the kernel says beside a datagram: its address and its TTL.
type Beside = [u64; 8];

/// Take a datagram, without blocking, from a socket with `IP_PKTINFO` and `IP_RECVTTL`.
///
/// # Errors
/// What `recvmsg` says; `WouldBlock` if nothing waits.
pub(crate) fn receive(fd: impl AsFd, room: &mut [u8]) -> io::Result<Came> {
    let mut beside: Beside = [0; 8];
    let mut vector = libc::iovec {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: room.len(),
    };
    // SAFETY: all-zero is valid for these structures of integers and null pointers.
    let (mut name, mut head): (libc::sockaddr_in, libc::msghdr) = unsafe { zeroed() };
    head.msg_name = (&raw mut name).cast();
    head.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    head.msg_iov = &raw mut vector;
    head.msg_iovlen = 1;
    head.msg_control = beside.as_mut_ptr().cast();
    head.msg_controllen = size_of::<Beside>() as _;
    // SAFETY: each pointer of `head` is to a local or to `room`, with its length; all outlive the
    // call.
    let got = unsafe { libc::recvmsg(fd.as_fd().as_raw_fd(), &raw mut head, libc::MSG_DONTWAIT) };
    let len = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    let mut came = Came {
        len,
        cut: head.msg_flags & libc::MSG_TRUNC != 0,
        from: from_kernel(name.sin_addr),
        to: Ipv4Addr::UNSPECIFIED,
        ttl: 0,
    };
    // SAFETY: the kernel has set the length of what it wrote to `beside`, which is aligned for
    // these headers and lives still; the macros stay within that length.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(&raw const head) };
    while !at.is_null() {
        // SAFETY: as above; the kernel writes whole messages, and data are read unaligned.
        unsafe {
            match ((*at).cmsg_level, (*at).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = libc::CMSG_DATA(at).cast::<libc::in_pktinfo>();
                    came.to = from_kernel(info.read_unaligned().ipi_addr);
                }
                (libc::IPPROTO_IP, libc::IP_TTL) => {
                    let ttl = libc::CMSG_DATA(at).cast::<libc::c_int>().read_unaligned();
                    came.ttl = u8::try_from(ttl).unwrap_or(0);
                }
                _ => {}
            }
            at = libc::CMSG_NXTHDR(&raw const head, at);
        }
    }
    Ok(came)
}

/// A control message that names the own address, as `CMSG_DATA` and its like lay it out.
#[repr(C)]
struct Source {
    head: libc::cmsghdr,
    info: libc::in_pktinfo,
}

/// Send a datagram of these pieces from an address of this host, without blocking.
///
/// # Errors
/// What `sendmsg` says; `WouldBlock` if there is no room.
pub(crate) fn send(
    fd: impl AsFd,
    pieces: [&[u8]; 2],
    from: Ipv4Addr,
    to: SocketAddrV4,
) -> io::Result<()> {
    let mut vectors = pieces.map(|p| libc::iovec {
        iov_base: p.as_ptr().cast_mut().cast(),
        iov_len: p.len(),
    });
    let mut name = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: to.port().to_be(),
        sin_addr: to_kernel(*to.ip()),
        sin_zero: [0; 8],
    };
    // SAFETY: all-zero is valid for these structures of integers and null pointers.
    let (mut source, mut head): (Source, libc::msghdr) = unsafe { zeroed() };
    // SAFETY: it only computes a length.
    let length = unsafe { libc::CMSG_LEN(size_of::<libc::in_pktinfo>() as libc::c_uint) };
    source.head.cmsg_len = length as _;
    source.head.cmsg_level = libc::IPPROTO_IP;
    source.head.cmsg_type = libc::IP_PKTINFO;
    source.info.ipi_spec_dst = to_kernel(from);
    head.msg_name = (&raw mut name).cast();
    head.msg_namelen = size_of_val(&name) as libc::socklen_t;
    head.msg_iov = vectors.as_mut_ptr();
    head.msg_iovlen = vectors.len() as _;
    head.msg_control = (&raw mut source).cast();
    head.msg_controllen = size_of::<Source>() as _;
    // SAFETY: each pointer of `head` is to a local or to a piece, with its length; all outlive the
    // call, in which the kernel only reads.
    let sent =
        unsafe { libc::sendmsg(fd.as_fd().as_raw_fd(), &raw const head, libc::MSG_DONTWAIT) };
    match sent {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn from_kernel(address: libc::in_addr) -> Ipv4Addr {
    Ipv4Addr::from(u32::from_be(address.s_addr))
}

fn to_kernel(address: Ipv4Addr) -> libc::in_addr {
    libc::in_addr {
        s_addr: u32::from(address).to_be(),
    }
}
