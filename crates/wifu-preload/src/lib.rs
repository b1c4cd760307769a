//! `libwifu_preload.so`: with it in `LD_PRELOAD` and `WIFU_PROTOCOL` set, the TCP sockets of an
//! unmodified program are WiFu's. What that means is in `wifu-socket`; here are only the names.
//!
//! Replaced are the calls that make and name connections, and none on the data path. `sendto` is
//! not: that an address on a connected stream gives EISCONN is rarer than programs are sensitive to
//! their `send`.

use core::ffi::{c_char, c_int, c_ulong, c_void};
use libc::{sockaddr, socklen_t};
use wifu_socket::{call, config, shim};

/// Reads the environment before the program can change it.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        config::config();
    }
    at_load
};

/// `socket`: WiFu's for TCP, if the environment asks for it.
#[unsafe(no_mangle)]
pub extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if config::config().wanted() && call::is_tcp(domain, kind, protocol) {
        return shim::socket(domain, kind, 0);
    }
    shim::kernel_socket(domain, kind, protocol)
}

/// `bind`.
///
/// # Safety
/// As for `bind(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(fd: c_int, a: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { shim::bind(fd, a, len) }
}

/// `connect`.
///
/// # Safety
/// As for `connect(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(fd: c_int, a: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { shim::connect(fd, a, len) }
}

/// `listen`.
#[unsafe(no_mangle)]
pub extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
    shim::listen(fd, backlog)
}

/// `shutdown`.
#[unsafe(no_mangle)]
pub extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    shim::shutdown(fd, how)
}

/// `close`, for sockets that linger.
#[unsafe(no_mangle)]
pub extern "C" fn close(fd: c_int) -> c_int {
    shim::close(fd)
}

/// `chroot`: no socket call, but the daemon's path means nothing behind it.
///
/// # Safety
/// As for `chroot(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chroot(path: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { shim::chroot(path) }
}

/// `accept`.
///
/// # Safety
/// As for `accept(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept(fd: c_int, a: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { shim::accept4(fd, a, len, 0) }
}

/// `accept4`.
///
/// # Safety
/// As for `accept4(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept4(
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
pub unsafe extern "C" fn getsockname(fd: c_int, a: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { shim::getsockname(fd, a, len) }
}

/// `getpeername`.
///
/// # Safety
/// As for `getpeername(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getpeername(fd: c_int, a: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { shim::getpeername(fd, a, len) }
}

/// `ioctl`. In C it takes any arguments after the request: one, which every calling convention of
/// 64-bit Linux passes as if it were declared.
///
/// # Safety
/// As for `ioctl(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    // SAFETY: the caller's promise. The kernel knows requests of 32 bits.
    unsafe { shim::ioctl(fd, request as u32, argument) }
}

/// `setsockopt`.
///
/// # Safety
/// As for `setsockopt(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsockopt(
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
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    v: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { shim::getsockopt(fd, level, name, v, len) }
}
