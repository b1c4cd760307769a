//! The C library's calls. What C programs need to know is in wifu-c's include/wifu.h.

use crate::{call, shim, sys};
use core::ffi::{c_int, c_void};
use libc::{size_t, sockaddr, socklen_t, ssize_t};
use wifu_wire::numbers::composition;

/// `wifu_socket`: `protocol` is 0, `IPPROTO_TCP`, or the IP protocol number of a named composition.
#[unsafe(no_mangle)]
pub extern "C" fn wifu_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let number = match protocol {
        0 | libc::IPPROTO_TCP => 0,
        n => u8::try_from(n).unwrap_or(0),
    };
    let known = number != 0 && composition(number).is_some();
    let plain = if known { 0 } else { protocol };
    if !call::is_tcp(domain, kind, plain) {
        return sys::c_call(|| {
            Err(sys::Errno(match domain {
                libc::AF_INET | libc::AF_INET6 => libc::EPROTONOSUPPORT,
                _ => libc::EAFNOSUPPORT,
            }))
        });
    }
    shim::socket(domain, kind, number)
}

/// `bind`.
///
/// # Safety
/// As for `bind(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wifu_bind(fd: c_int, a: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { shim::bind(fd, a, len) }
}

/// `connect`.
///
/// # Safety
/// As for `connect(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wifu_connect(fd: c_int, a: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { shim::connect(fd, a, len) }
}

/// `listen`.
#[unsafe(no_mangle)]
pub extern "C" fn wifu_listen(fd: c_int, backlog: c_int) -> c_int {
    shim::listen(fd, backlog)
}

/// `accept`.
///
/// # Safety
/// As for `accept(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wifu_accept(fd: c_int, a: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { shim::accept4(fd, a, len, 0) }
}

/// `accept4`.
///
/// # Safety
/// As for `accept4(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wifu_accept4(
    fd: c_int,
    a: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { shim::accept4(fd, a, len, flags) }
}

/// `getsockname`.
///
/// # Safety
/// As for `getsockname(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wifu_getsockname(
    fd: c_int,
    a: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { shim::getsockname(fd, a, len) }
}

/// `getpeername`.
///
/// # Safety
/// As for `getpeername(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wifu_getpeername(
    fd: c_int,
    a: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { shim::getpeername(fd, a, len) }
}

/// `setsockopt`.
///
/// # Safety
/// As for `setsockopt(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wifu_setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    v: *const c_void,
    len: socklen_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { shim::setsockopt(fd, level, name, v, len) }
}

/// `getsockopt`.
///
/// # Safety
/// As for `getsockopt(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wifu_getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    v: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { shim::getsockopt(fd, level, name, v, len) }
}

/// `send`.
///
/// # Safety
/// As for `send(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wifu_send(
    fd: c_int,
    b: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { libc::send(fd, b, len, flags) }
}

/// `sendto`: as TCP does, a connected stream ignores the address.
///
/// # Safety
/// As for `sendto(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wifu_sendto(
    fd: c_int,
    b: *const c_void,
    len: size_t,
    flags: c_int,
    _to: *const sockaddr,
    _to_len: socklen_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { libc::send(fd, b, len, flags) }
}

/// `recv`.
///
/// # Safety
/// As for `recv(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wifu_recv(
    fd: c_int,
    b: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { libc::recv(fd, b, len, flags) }
}

/// `recvfrom`: as TCP does, a stream reports no address.
///
/// # Safety
/// As for `recvfrom(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wifu_recvfrom(
    fd: c_int,
    b: *mut c_void,
    len: size_t,
    flags: c_int,
    _from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    let n = unsafe { libc::recv(fd, b, len, flags) };
    if n >= 0 && !from_len.is_null() {
        // SAFETY: the caller's promise.
        unsafe { from_len.write_unaligned(0) };
    }
    n
}

/// `shutdown`.
#[unsafe(no_mangle)]
pub extern "C" fn wifu_shutdown(fd: c_int, how: c_int) -> c_int {
    shim::shutdown(fd, how)
}

/// `close`.
#[unsafe(no_mangle)]
pub extern "C" fn wifu_close(fd: c_int) -> c_int {
    shim::close(fd)
}
