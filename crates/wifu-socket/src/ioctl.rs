//! The requests of `ioctl` that mean something else on a TCP socket than on an AF_UNIX one.

use crate::call::cookie;
use crate::daemon;
use crate::opt;
use crate::sys::{self, Errno, Result};
use crate::tag::Tag;
use core::ffi::{c_int, c_void};
use wifu_wire::front::SEND_QUEUE;

/// Octets that the peer has not acknowledged. FIONREAD, the other direction, is the kernel's own.
const SIOCOUTQ: u32 = 0x5411;
/// Octets that were never sent (linux/sockios.h).
const SIOCOUTQNSD: u32 = 0x894B;
/// From linux/sockios.h: addresses of interfaces, which sockets of the family AF_INET alone answer.
const ADDRESSES: core::ops::RangeInclusive<u32> = 0x8915..=0x891C;

/// Whether a request is one of these, for any socket; all others are the kernel's.
pub fn is_special(request: u32) -> bool {
    request == SIOCOUTQ || request == SIOCOUTQNSD || ADDRESSES.contains(&request)
}

/// Such a request on one of our sockets.
///
/// # Safety
/// `argument` must be what the request wants.
///
/// # Errors
/// What the kernel says.
pub unsafe fn ioctl(fd: c_int, tag: Tag, request: u32, argument: *mut c_void) -> Result<c_int> {
    if ADDRESSES.contains(&request) {
        let other = sys::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0)?;
        // SAFETY: the caller's promise.
        let done = unsafe { sys::ioctl(other, request, argument) };
        sys::close(other);
        return done;
    }
    if argument.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    if sys::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Ok(1) {
        return Err(Errno(libc::EINVAL));
    }
    let waits = match (cookie(fd), request) {
        (Ok(cookie), SIOCOUTQNSD) => unsent(cookie),
        _ => opt::number(fd, tag, SEND_QUEUE).unwrap_or(0),
    };
    // SAFETY: the caller promises room for an int.
    unsafe { argument.cast::<c_int>().write_unaligned(waits) };
    Ok(0)
}

fn unsent(cookie: u64) -> c_int {
    let reply = daemon::ask(&wifu_wire::front::Request::Info { cookie }).ok();
    let info = reply.and_then(|r| r.answer().info);
    info.map_or(0, |i| i.notsent_bytes as c_int)
}
