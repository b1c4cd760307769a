//! The replaced calls with C's signatures: ours if the descriptor is tagged, else the kernel's.
//!
//! Preload and C library both export these, under their own names.

use crate::config::config;
use crate::sys::{self, Errno, Result, c_call};
use crate::tag::Tag;
use crate::{addr, bind, call, ioctl, linger, opt, root};
use core::ffi::{c_int, c_long, c_void};
use libc::{sockaddr, socklen_t};

fn kernel(r: c_long) -> Result<c_int> {
    if r < 0 {
        Err(Errno(sys::errno()))
    } else {
        Ok(r as c_int)
    }
}

/// `socket` of the kernel.
pub fn kernel_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    c_call(|| sys::socket(domain, kind, protocol))
}

/// `socket` of WiFu; `number` as for [`call::socket`].
pub fn socket(domain: c_int, kind: c_int, number: u8) -> c_int {
    c_call(|| call::socket(domain, kind, number))
}

/// `bind`.
///
/// # Safety
/// `a` must be valid for reads of `len` bytes, or null.
pub unsafe fn bind(fd: c_int, a: *const sockaddr, len: socklen_t) -> c_int {
    c_call(|| match Tag::read(fd) {
        // SAFETY: the caller's promise.
        Some(tag) => unsafe { bind::bind(fd, tag, a, len) },
        // SAFETY: the kernel checks the pointer.
        None => kernel(unsafe { libc::syscall(libc::SYS_bind, fd, a, len) }),
    })
}

/// `connect`.
///
/// # Safety
/// `a` must be valid for reads of `len` bytes, or null.
pub unsafe fn connect(fd: c_int, a: *const sockaddr, len: socklen_t) -> c_int {
    c_call(|| match Tag::read(fd) {
        // SAFETY: the caller's promise.
        Some(tag) => unsafe { call::connect(fd, tag, a, len) },
        // SAFETY: the kernel checks the pointer.
        None => kernel(unsafe { libc::syscall(libc::SYS_connect, fd, a, len) }),
    })
}

/// `listen`.
pub fn listen(fd: c_int, backlog: c_int) -> c_int {
    c_call(|| match Tag::read(fd) {
        Some(tag) => call::listen(fd, tag, backlog),
        None => sys::listen(fd, backlog).map(|()| 0),
    })
}

/// `shutdown`.
pub fn shutdown(fd: c_int, how: c_int) -> c_int {
    c_call(|| match Tag::read(fd) {
        Some(_) => call::shutdown(fd, how),
        None => sys::shutdown(fd, how).map(|()| 0),
    })
}

/// `accept4`, and `accept` with no flags.
///
/// # Safety
/// `len` must be null or valid, and `a` null or valid for writes of `*len` bytes.
pub unsafe fn accept4(fd: c_int, a: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
    c_call(|| match Tag::read(fd) {
        // SAFETY: the caller's promise.
        Some(tag) => unsafe { call::accept4(fd, tag, a, len, flags) },
        // SAFETY: the kernel checks the pointers.
        None => kernel(unsafe { libc::syscall(libc::SYS_accept4, fd, a, len, flags) }),
    })
}

/// `close`: one that lingers waits before (`SO_LINGER`).
pub fn close(fd: c_int) -> c_int {
    c_call(|| {
        linger::wait(fd);
        // SAFETY: no pointers.
        kernel(unsafe { libc::syscall(libc::SYS_close, fd) })
    })
}

/// `chroot`: the way to the daemon is kept from before.
///
/// # Safety
/// As for `chroot(2)`.
pub unsafe fn chroot(path: *const libc::c_char) -> c_int {
    c_call(|| {
        let kept = config().wanted() && root::keep();
        // SAFETY: the kernel checks the pointer.
        let changed = unsafe { sys::chroot(path) };
        if kept && changed.is_err() {
            root::forget();
        }
        changed.map(|()| 0)
    })
}

/// `getsockname`.
///
/// # Safety
/// As [`accept4`].
pub unsafe fn getsockname(fd: c_int, a: *mut sockaddr, len: *mut socklen_t) -> c_int {
    c_call(|| match Tag::read(fd) {
        Some(tag) => {
            let name = call::local_name(fd)?;
            // SAFETY: the caller's promise.
            unsafe { addr::write(name, tag.has(Tag::V6), a, len) }.map(|()| 0)
        }
        // SAFETY: the kernel checks the pointers.
        None => kernel(unsafe { libc::syscall(libc::SYS_getsockname, fd, a, len) }),
    })
}

/// `getpeername`.
///
/// # Safety
/// As [`accept4`].
pub unsafe fn getpeername(fd: c_int, a: *mut sockaddr, len: *mut socklen_t) -> c_int {
    c_call(|| match Tag::read(fd) {
        Some(tag) => {
            let name = call::remote_name(fd, tag)?;
            // SAFETY: the caller's promise.
            unsafe { addr::write(name, tag.has(Tag::V6), a, len) }.map(|()| 0)
        }
        // SAFETY: the kernel checks the pointers.
        None => kernel(unsafe { libc::syscall(libc::SYS_getpeername, fd, a, len) }),
    })
}

/// `ioctl`, which takes one argument after the request, or none.
///
/// # Safety
/// `argument` must be what the request wants.
pub unsafe fn ioctl(fd: c_int, request: u32, argument: *mut c_void) -> c_int {
    // Which one it is costs less to know than whose the descriptor is.
    let ours = || ioctl::is_special(request).then(|| Tag::read(fd)).flatten();
    c_call(|| match ours() {
        // SAFETY: the caller's promise.
        Some(tag) => unsafe { ioctl::ioctl(fd, tag, request, argument) },
        // SAFETY: the caller's promise.
        None => unsafe { sys::ioctl(fd, request, argument) },
    })
}

/// `setsockopt`.
///
/// # Safety
/// `v` must be valid for reads of `len` bytes, or null.
pub unsafe fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    v: *const c_void,
    len: socklen_t,
) -> c_int {
    c_call(|| match Tag::read(fd) {
        Some(_) if v.is_null() => Err(Errno(libc::EFAULT)),
        Some(_) if len > i32::MAX as socklen_t => Err(Errno(libc::EINVAL)),
        Some(tag) => {
            // SAFETY: not null, and the caller promises len bytes.
            let given = unsafe { core::slice::from_raw_parts(v.cast::<u8>(), len as usize) };
            opt::set(fd, tag, level, name, opt::Given(given))
        }
        // SAFETY: the kernel checks the pointer.
        None => kernel(unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, name, v, len) }),
    })
}

/// `getsockopt`.
///
/// # Safety
/// `len` must be null or valid, and `v` null or valid for reads and writes of `*len` bytes.
pub unsafe fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    v: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    c_call(|| match Tag::read(fd) {
        Some(_) if v.is_null() || len.is_null() => Err(Errno(libc::EFAULT)),
        Some(tag) => {
            // SAFETY: the caller promises a valid length.
            let room = unsafe { len.read_unaligned() };
            if room > i32::MAX as socklen_t {
                return Err(Errno(libc::EINVAL));
            }
            // SAFETY: the caller promises room bytes; only WIFU_PARAM looks at what they hold.
            let out = unsafe { core::slice::from_raw_parts_mut(v.cast::<u8>(), room as usize) };
            let value = opt::get(fd, tag, level, name, out)?;
            let n = value.as_bytes().len().min(out.len());
            out[..n].copy_from_slice(&value.as_bytes()[..n]);
            if let Some(end) = out.get_mut(n).filter(|_| opt::is_text(level)) {
                *end = 0;
            }
            // SAFETY: the caller promises a valid length.
            unsafe { len.write_unaligned(n as socklen_t) };
            Ok(0)
        }
        // SAFETY: the kernel checks the pointers.
        None => kernel(unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, v, len) }),
    })
}
