//! The kernel's calls, without libc's wrappers: in the preloaded library those names are ours.
//!
//! Nothing here allocates, locks or keeps state, so that callers may be anywhere a socket call may
//! be: in a signal handler, or between `fork` and `exec`.

use core::ffi::{CStr, c_int, c_long, c_void};
use core::mem::{MaybeUninit, size_of, size_of_val};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

/// What a system call failed with: a value of `errno`, above 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub c_int);

/// What a call gives: its value, or an errno.
pub type Result<T> = core::result::Result<T, Errno>;

/// Reads the thread's errno.
pub fn errno() -> c_int {
    // SAFETY: libc returns a valid pointer to this thread's errno.
    unsafe { *libc::__errno_location() }
}

/// Sets the thread's errno.
pub fn set_errno(e: c_int) {
    // SAFETY: libc returns a valid pointer to this thread's errno.
    unsafe { *libc::__errno_location() = e }
}

fn check(r: c_long) -> Result<c_long> {
    if r < 0 { Err(Errno(errno())) } else { Ok(r) }
}

/// Runs a call with C's conventions: on success errno is as it was before, on failure it is set and
/// the value is -1.
pub fn c_call<T: From<i8>>(f: impl FnOnce() -> Result<T>) -> T {
    let before = errno();
    match f() {
        Ok(v) => {
            set_errno(before);
            v
        }
        Err(Errno(e)) => {
            set_errno(e);
            T::from(-1)
        }
    }
}

/// A UNIX address: a path, or an abstract name with its leading NUL.
#[derive(Clone, Copy)]
pub struct UnixAddr {
    raw: libc::sockaddr_un,
    len: usize,
}

const PATH_AT: usize = core::mem::offset_of!(libc::sockaddr_un, sun_path);

impl UnixAddr {
    fn empty() -> UnixAddr {
        // SAFETY: all bytes zero is a valid sockaddr_un.
        let mut raw: libc::sockaddr_un = unsafe { MaybeUninit::zeroed().assume_init() };
        raw.sun_family = libc::AF_UNIX as libc::sa_family_t;
        UnixAddr {
            raw,
            len: size_of::<libc::sockaddr_un>(),
        }
    }

    /// The address of these bytes, or `None` if they don't fit. Paths get their final NUL from the
    /// zeroed structure.
    pub fn new(name: &[u8]) -> Option<UnixAddr> {
        let mut a = UnixAddr::empty();
        let is_path = name.first() != Some(&0);
        if name.len() + usize::from(is_path) > a.raw.sun_path.len() {
            return None;
        }
        for (to, from) in a.raw.sun_path.iter_mut().zip(name) {
            *to = *from as libc::c_char;
        }
        a.len = PATH_AT + name.len() + usize::from(is_path);
        Some(a)
    }

    /// The name as stored by the kernel; empty for an unnamed socket.
    pub fn name(&self) -> &[u8] {
        let n = self
            .len
            .min(size_of::<libc::sockaddr_un>())
            .saturating_sub(PATH_AT);
        // SAFETY: c_char and u8 have the same layout, and n is within the array.
        unsafe { core::slice::from_raw_parts(self.raw.sun_path.as_ptr().cast(), n) }
    }
}

/// The system's own `socket`, past whatever is preloaded.
pub fn socket(domain: c_int, kind: c_int, protocol: c_int) -> Result<c_int> {
    // SAFETY: no pointers.
    check(unsafe { libc::syscall(libc::SYS_socket, domain, kind, protocol) }).map(|r| r as c_int)
}

/// Two AF_UNIX stream sockets that are connected with each other.
pub fn socketpair() -> Result<[c_int; 2]> {
    let mut pair: [c_int; 2] = [-1; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel writes two descriptors, for which there is room.
    check(unsafe {
        libc::syscall(
            libc::SYS_socketpair,
            libc::AF_UNIX,
            kind,
            0,
            pair.as_mut_ptr(),
        )
    })?;
    Ok(pair)
}

/// Closes a descriptor; there is nothing useful to do if that fails.
pub fn close(fd: c_int) {
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_close, fd) };
}

/// Binds to a UNIX address.
pub fn bind(fd: c_int, a: &UnixAddr) -> Result<()> {
    // SAFETY: the structure lives through the call and len is within it.
    check(unsafe { libc::syscall(libc::SYS_bind, fd, &raw const a.raw, a.len) }).map(drop)
}

/// An Internet address as the kernel takes it.
struct Inet {
    raw: libc::sockaddr_in6,
    len: usize,
}

impl Inet {
    fn of(a: SocketAddr) -> Inet {
        // SAFETY: all bytes zero is a valid sockaddr_in6.
        let mut raw: libc::sockaddr_in6 = unsafe { MaybeUninit::zeroed().assume_init() };
        // Both families have their port at the same place.
        raw.sin6_port = a.port().to_be();
        let len = match a.ip() {
            IpAddr::V4(ip) => {
                raw.sin6_family = libc::AF_INET as libc::sa_family_t;
                // Where `sin_addr` is; what follows is `sin_zero`.
                raw.sin6_flowinfo = u32::from(ip).to_be();
                size_of::<libc::sockaddr_in>()
            }
            IpAddr::V6(ip) => {
                raw.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                raw.sin6_addr.s6_addr = ip.octets();
                size_of::<libc::sockaddr_in6>()
            }
        };
        Inet { raw, len }
    }

    fn ip(&self) -> IpAddr {
        match c_int::from(self.raw.sin6_family) {
            libc::AF_INET => Ipv4Addr::from(u32::from_be(self.raw.sin6_flowinfo)).into(),
            _ => self.raw.sin6_addr.s6_addr.into(),
        }
    }
}

/// Binds to an Internet address.
pub fn bind_ip(fd: c_int, a: SocketAddr) -> Result<()> {
    let a = Inet::of(a);
    // SAFETY: the structure lives through the call and len is within it.
    check(unsafe { libc::syscall(libc::SYS_bind, fd, &raw const a.raw, a.len) }).map(drop)
}

/// The address that packets to `remote` come from, by connecting a UDP socket, which sends nothing.
pub fn source_for(fd: c_int, remote: IpAddr) -> Result<IpAddr> {
    // "discard"; it matters to no route.
    let mut a = Inet::of(SocketAddr::new(remote, 9));
    let mut len = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
    // SAFETY: the structure lives through both calls and both lengths are within it.
    unsafe {
        check(libc::syscall(
            libc::SYS_connect,
            fd,
            &raw const a.raw,
            a.len,
        ))?;
        check(libc::syscall(
            libc::SYS_getsockname,
            fd,
            &raw mut a.raw,
            &raw mut len,
        ))?;
    }
    Ok(a.ip())
}

/// Connects to a UNIX address.
pub fn connect(fd: c_int, a: &UnixAddr) -> Result<()> {
    // SAFETY: the structure lives through the call and len is within it.
    check(unsafe { libc::syscall(libc::SYS_connect, fd, &raw const a.raw, a.len) }).map(drop)
}

/// The system's own `listen`.
pub fn listen(fd: c_int, backlog: c_int) -> Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::syscall(libc::SYS_listen, fd, backlog) }).map(drop)
}

/// Ends reading, writing or both.
pub fn shutdown(fd: c_int, how: c_int) -> Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::syscall(libc::SYS_shutdown, fd, how) }).map(drop)
}

/// Accepts a connection and returns it with the remote end's UNIX address.
pub fn accept4(fd: c_int, flags: c_int) -> Result<(c_int, UnixAddr)> {
    let mut a = UnixAddr::empty();
    let mut len = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: both pointers are valid for writes and len is the structure's size.
    let r = check(unsafe {
        libc::syscall(libc::SYS_accept4, fd, &raw mut a.raw, &raw mut len, flags)
    })?;
    a.len = len as usize;
    Ok((r as c_int, a))
}

fn name_of(call: c_long, fd: c_int) -> Result<UnixAddr> {
    let mut a = UnixAddr::empty();
    let mut len = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: both pointers are valid for writes and len is the structure's size.
    check(unsafe { libc::syscall(call, fd, &raw mut a.raw, &raw mut len) })?;
    a.len = len as usize;
    Ok(a)
}

/// The UNIX address that a socket is bound to.
pub fn getsockname(fd: c_int) -> Result<UnixAddr> {
    name_of(libc::SYS_getsockname, fd)
}

/// The UNIX address of the remote end.
pub fn getpeername(fd: c_int) -> Result<UnixAddr> {
    name_of(libc::SYS_getpeername, fd)
}

/// Types that any bytes are valid for, as the kernel fills in options.
///
/// # Safety
/// Every bit pattern must be a value, and there must be no padding.
pub unsafe trait Plain: Copy {}
// SAFETY: integers.
unsafe impl Plain for i32 {}
// SAFETY: integers.
unsafe impl Plain for u64 {}
// SAFETY: two integers without padding on every 64-bit Linux.
unsafe impl Plain for libc::timeval {}
// SAFETY: two integers.
unsafe impl Plain for libc::linger {}
// SAFETY: three integers.
unsafe impl Plain for libc::ucred {}

/// Reads an option of a fixed size.
pub fn getsockopt<T: Plain>(fd: c_int, level: c_int, name: c_int) -> Result<T> {
    // SAFETY: T is Plain, so zero is a value.
    let mut v: T = unsafe { MaybeUninit::zeroed().assume_init() };
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: both pointers are valid for writes and len is T's size; any bytes are a T.
    check(unsafe {
        libc::syscall(
            libc::SYS_getsockopt,
            fd,
            level,
            name,
            &raw mut v,
            &raw mut len,
        )
    })?;
    Ok(v)
}

/// Sets an option of a fixed size.
pub fn setsockopt<T: Plain>(fd: c_int, level: c_int, name: c_int, v: T) -> Result<()> {
    let len = size_of::<T>();
    // SAFETY: the pointer is valid for reads of len bytes.
    check(unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, name, &raw const v, len) })
        .map(drop)
}

/// Reads an option into a buffer and returns its length.
pub fn getsockopt_bytes(fd: c_int, level: c_int, name: c_int, b: &mut [u8]) -> Result<usize> {
    let mut len = b.len() as libc::socklen_t;
    // SAFETY: the slice is valid for writes of len bytes.
    check(unsafe {
        libc::syscall(
            libc::SYS_getsockopt,
            fd,
            level,
            name,
            b.as_mut_ptr(),
            &raw mut len,
        )
    })?;
    Ok(len as usize)
}

/// Sets an option from a buffer.
pub fn setsockopt_bytes(fd: c_int, level: c_int, name: c_int, b: &[u8]) -> Result<()> {
    // SAFETY: the slice is valid for reads of its length.
    check(unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, name, b.as_ptr(), b.len()) })
        .map(drop)
}

/// Waits for `events` on one descriptor, or forever if `timeout_ms` is `None`. Returns the events,
/// 0 after the time.
pub fn poll(fd: c_int, events: i16, timeout_ms: Option<u64>) -> Result<i16> {
    let mut p = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    let ts = timeout_ms.map(|ms| libc::timespec {
        tv_sec: (ms / 1000) as libc::time_t,
        tv_nsec: (ms % 1000 * 1_000_000) as c_long,
    });
    let ts_ptr = ts.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    let no_mask = core::ptr::null::<c_void>();
    // SAFETY: one pollfd, an optional timespec, no signal mask; all live through the call.
    check(unsafe { libc::syscall(libc::SYS_ppoll, &raw mut p, 1usize, ts_ptr, no_mask, 8usize) })?;
    Ok(p.revents)
}

/// Octets that came and were not read.
pub fn unread(fd: c_int) -> Result<c_int> {
    let mut octets: c_int = 0;
    // SAFETY: FIONREAD writes an int, which lives through the call.
    unsafe { ioctl(fd, libc::FIONREAD as u32, (&raw mut octets).cast()) }?;
    Ok(octets)
}

/// Milliseconds since some moment of the past.
pub fn monotonic_ms() -> u64 {
    let mut t = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: t is valid for writes, and zeros are a time.
    let t = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, t.as_mut_ptr());
        t.assume_init()
    };
    t.tv_sec as u64 * 1000 + t.tv_nsec as u64 / 1_000_000
}

/// Sends bytes to the peer of a connected socket; how many were taken.
pub fn send(fd: c_int, b: &[u8], flags: c_int) -> Result<usize> {
    let none = core::ptr::null::<c_void>();
    // SAFETY: the slice is valid for reads of its length; there is no address.
    check(unsafe {
        libc::syscall(
            libc::SYS_sendto,
            fd,
            b.as_ptr(),
            b.len(),
            flags,
            none,
            0usize,
        )
    })
    .map(|n| n as usize)
}

/// Sends a list of buffers as one message.
pub fn sendmsg(fd: c_int, iov: &[libc::iovec], flags: c_int) -> Result<usize> {
    // SAFETY: all bytes zero is a valid msghdr (no name, no control data).
    let mut m: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    m.msg_iov = iov.as_ptr().cast_mut();
    m.msg_iovlen = iov.len() as _;
    // SAFETY: the kernel only reads the list, whose entries the caller made from live slices.
    check(unsafe { libc::syscall(libc::SYS_sendmsg, fd, &raw const m, flags) }).map(|n| n as usize)
}

/// Receives what there is, up to `b.len()` bytes; 0 at the end.
pub fn recv(fd: c_int, b: &mut [u8], flags: c_int) -> Result<usize> {
    let none = core::ptr::null_mut::<c_void>();
    // SAFETY: the slice is valid for writes of its length; no address is asked for.
    check(unsafe {
        libc::syscall(
            libc::SYS_recvfrom,
            fd,
            b.as_mut_ptr(),
            b.len(),
            flags,
            none,
            none,
        )
    })
    .map(|n| n as usize)
}

/// `fcntl` with an integer argument.
pub fn fcntl(fd: c_int, cmd: c_int, arg: c_int) -> Result<c_int> {
    // SAFETY: the commands used here take integers.
    check(unsafe { libc::syscall(libc::SYS_fcntl, fd, cmd, arg) }).map(|r| r as c_int)
}

/// The system's own `ioctl`.
///
/// # Safety
/// `argument` must be what the request wants.
pub unsafe fn ioctl(fd: c_int, request: u32, argument: *mut c_void) -> Result<c_int> {
    // SAFETY: the caller's promise.
    check(unsafe { libc::syscall(libc::SYS_ioctl, fd, request, argument) }).map(|r| r as c_int)
}

/// Puts a copy of `from` in the place of `to`.
pub fn dup3(from: c_int, to: c_int, flags: c_int) -> Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::syscall(libc::SYS_dup3, from, to, flags) }).map(drop)
}

/// Opens a file to read.
pub fn open(path: &CStr, flags: c_int) -> Result<c_int> {
    let flags = flags | libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the path ends with a NUL.
    check(unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0) })
        .map(|r| r as c_int)
}

/// Reads what there is, up to `b.len()` bytes; 0 at the end.
pub fn read(fd: c_int, b: &mut [u8]) -> Result<usize> {
    // SAFETY: the slice is valid for writes of its length.
    check(unsafe { libc::syscall(libc::SYS_read, fd, b.as_mut_ptr(), b.len()) }).map(|n| n as usize)
}

/// Where a link in an open directory leads; how many bytes of that were written to `b`.
pub fn readlink(directory: c_int, name: &CStr, b: &mut [u8]) -> Result<usize> {
    // SAFETY: the name ends with a NUL, and the slice is valid for writes of its length.
    check(unsafe {
        libc::syscall(
            libc::SYS_readlinkat,
            directory,
            name.as_ptr(),
            b.as_mut_ptr(),
            b.len(),
        )
    })
    .map(|n| n as usize)
}

/// Calls `each` with the name of every entry of an open directory.
pub fn entries(directory: c_int, mut each: impl FnMut(&CStr)) -> Result<()> {
    // `struct linux_dirent64`: the record's length, and where the name begins.
    const LENGTH_AT: usize = 16;
    const NAME_AT: usize = 19;
    let mut buffer = [0u64; 256];
    loop {
        let room = size_of_val(&buffer);
        // SAFETY: the buffer is valid for writes of its size.
        let n = check(unsafe {
            libc::syscall(libc::SYS_getdents64, directory, buffer.as_mut_ptr(), room)
        })? as usize;
        // SAFETY: any octets are octets, and n is within the buffer.
        let all = unsafe { core::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), n.min(room)) };
        let mut rest = all;
        while let Some(&[low, high]) = rest.get(LENGTH_AT..LENGTH_AT + 2) {
            let length = usize::from(u16::from_ne_bytes([low, high])).max(NAME_AT);
            let (record, more) = rest.split_at(length.min(rest.len()));
            let name = record.get(NAME_AT..).unwrap_or(&[]);
            if let Ok(name) = CStr::from_bytes_until_nul(name) {
                each(name);
            }
            rest = more;
        }
        if n == 0 {
            return Ok(());
        }
    }
}

fn epoll_ctl(set: c_int, what: c_int, fd: c_int, event: &mut libc::epoll_event) -> Result<()> {
    // SAFETY: the event lives through the call.
    check(unsafe { libc::syscall(libc::SYS_epoll_ctl, set, what, fd, &raw mut *event) }).map(drop)
}

/// Lets an epoll set watch a descriptor.
pub fn epoll_add(set: c_int, fd: c_int, events: u32, word: u64) -> Result<()> {
    let mut event = libc::epoll_event { events, u64: word };
    epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &mut event)
}

/// An epoll set watches a descriptor no longer.
pub fn epoll_forget(set: c_int, fd: c_int) {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // What is not there need not go.
    let _ = epoll_ctl(set, libc::EPOLL_CTL_DEL, fd, &mut event);
}

/// Sixteen random bits of the kernel's; 0 where it has none to give.
pub fn random16() -> u16 {
    let mut v = 0u16;
    // SAFETY: two bytes to write to. On failure v stays 0, which is as good a place to start.
    unsafe { libc::syscall(libc::SYS_getrandom, &raw mut v, size_of::<u16>(), 0) };
    v
}

fn status(fd: c_int) -> Result<libc::stat> {
    let mut s = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: s is valid for writes; fstat is not among the calls this library replaces.
    check(c_long::from(unsafe { libc::fstat(fd, s.as_mut_ptr()) }))?;
    // SAFETY: filled in by the kernel.
    Ok(unsafe { s.assume_init() })
}

/// Inode number and owner of an open descriptor.
pub fn fstat(fd: c_int) -> Result<(u64, u32)> {
    status(fd).map(|s| (s.st_ino, s.st_uid))
}

/// What identifies the file behind a descriptor: device and inode.
pub fn identity(fd: c_int) -> Result<(u64, u64)> {
    status(fd).map(|s| (s.st_dev, s.st_ino))
}

/// Whether a descriptor is a terminal's.
pub fn is_terminal(fd: c_int) -> bool {
    let mut settings = MaybeUninit::<libc::termios>::zeroed();
    // SAFETY: the kernel's structure is not larger than libc's, which is valid for writes.
    unsafe { libc::syscall(libc::SYS_ioctl, fd, libc::TCGETS, settings.as_mut_ptr()) == 0 }
}

/// Inode number and owner of a path, which must end with a NUL.
pub fn stat(path: &[u8]) -> Result<(u64, u32)> {
    if path.last() != Some(&0) {
        return Err(Errno(libc::EINVAL));
    }
    let mut s = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the path ends with a NUL and s is valid for writes.
    check(c_long::from(unsafe {
        libc::stat(path.as_ptr().cast(), s.as_mut_ptr())
    }))?;
    // SAFETY: filled in by the kernel.
    let s = unsafe { s.assume_init() };
    Ok((s.st_ino, s.st_uid))
}

/// The system's own `chroot`.
///
/// # Safety
/// The kernel checks the pointer.
pub unsafe fn chroot(path: *const libc::c_char) -> Result<()> {
    // SAFETY: the kernel checks the pointer.
    check(unsafe { libc::syscall(libc::SYS_chroot, path) }).map(drop)
}

/// Whether a signal handler without `SA_RESTART` is installed: an interrupted call can't know which
/// signal it was, and restarts if no handler could have asked for `EINTR`.
pub fn handlers_want_eintr() -> bool {
    /// The kernel's own `struct sigaction` of 64-bit machines, whose mask is 8 bytes.
    #[repr(C)]
    struct Action {
        handler: usize,
        flags: usize,
        restorer: usize,
        mask: u64,
    }
    (1..=64).any(|signal| {
        let mut old = Action {
            handler: 0,
            flags: 0,
            restorer: 0,
            mask: 0,
        };
        let none = core::ptr::null::<c_void>();
        // SAFETY: old is as large as the kernel's structure on every 64-bit machine.
        let r = unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                none,
                &raw mut old,
                size_of::<u64>(),
            )
        };
        r == 0 && old.handler > libc::SIG_IGN && old.flags & libc::SA_RESTART as usize == 0
    })
}

/// Writes to standard error; a closed one is no reason to fail.
pub fn write_stderr(b: &[u8]) {
    // SAFETY: the slice is valid for reads of its length.
    unsafe { libc::syscall(libc::SYS_write, 2, b.as_ptr(), b.len()) };
}
