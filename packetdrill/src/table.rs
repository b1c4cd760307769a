//! The functions as packetdrill calls them, and the table in which it finds them.

use crate::asked;
use crate::world::World;
use core::ffi::{CStr, c_char, c_int, c_long, c_longlong, c_uint, c_ulong, c_void};
use core::net::{Ipv4Addr, SocketAddrV4};
use core::ptr;
use libc::{iovec, msghdr, pollfd, sockaddr, sockaddr_in, socklen_t, timeval};
use std::os::fd::{FromRawFd, OwnedFd};
use wifu_testkit::packetdrill::{Answer, Call, Errno, Value};
use wifu_wire::Span;

/// A function that the table names and that this object does not offer is never called by scripts
/// that do without it; it is there all the same, and says so.
type Other = unsafe extern "C" fn() -> c_int;

/// What packetdrill fills in by [`packetdrill_interface_init`]: one pointer for the object, then
/// functions that each get it as their first argument. Names and order are the interface's.
#[repr(C)]
#[allow(missing_docs)]
pub struct Table {
    pub userdata: *mut c_void,
    pub free: unsafe extern "C" fn(*mut c_void),
    pub socket: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int) -> c_int,
    pub bind: unsafe extern "C" fn(*mut c_void, c_int, *const sockaddr, socklen_t) -> c_int,
    pub listen: unsafe extern "C" fn(*mut c_void, c_int, c_int) -> c_int,
    pub accept: unsafe extern "C" fn(*mut c_void, c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    pub connect: unsafe extern "C" fn(*mut c_void, c_int, *const sockaddr, socklen_t) -> c_int,
    pub read: unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, usize) -> isize,
    pub readv: unsafe extern "C" fn(*mut c_void, c_int, *const iovec, c_int) -> isize,
    pub recv: unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, usize, c_int) -> isize,
    pub recvfrom: unsafe extern "C" fn(
        *mut c_void,
        c_int,
        *mut c_void,
        usize,
        c_int,
        *mut sockaddr,
        *mut socklen_t,
    ) -> isize,
    pub recvmsg: unsafe extern "C" fn(*mut c_void, c_int, *mut msghdr, c_int) -> isize,
    pub write: unsafe extern "C" fn(*mut c_void, c_int, *const c_void, usize) -> isize,
    pub writev: unsafe extern "C" fn(*mut c_void, c_int, *const iovec, c_int) -> isize,
    pub send: unsafe extern "C" fn(*mut c_void, c_int, *const c_void, usize, c_int) -> isize,
    pub sendto: unsafe extern "C" fn(
        *mut c_void,
        c_int,
        *const c_void,
        usize,
        c_int,
        *const sockaddr,
        socklen_t,
    ) -> isize,
    pub sendmsg: unsafe extern "C" fn(*mut c_void, c_int, *const msghdr, c_int) -> isize,
    pub fcntl: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_long) -> c_int,
    pub ioctl: unsafe extern "C" fn(*mut c_void, c_int, c_ulong, *mut c_int) -> c_int,
    pub close: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    pub shutdown: unsafe extern "C" fn(*mut c_void, c_int, c_int) -> c_int,
    pub getsockopt: unsafe extern "C" fn(
        *mut c_void,
        c_int,
        c_int,
        c_int,
        *mut c_void,
        *mut socklen_t,
    ) -> c_int,
    pub setsockopt:
        unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    pub poll: unsafe extern "C" fn(*mut c_void, *mut pollfd, libc::nfds_t, c_int) -> c_int,
    pub netdev_send: unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> c_int,
    pub netdev_receive:
        unsafe extern "C" fn(*mut c_void, *mut c_void, *mut usize, *mut c_longlong) -> c_int,
    pub usleep: unsafe extern "C" fn(*mut c_void, c_uint) -> c_int,
    pub gettimeofday: unsafe extern "C" fn(*mut c_void, *mut timeval, *mut c_void) -> c_int,
    pub epoll_create: Other,
    pub epoll_ctl: Other,
    pub epoll_wait: Other,
    pub pipe: Other,
    pub splice: Other,
}

/// Fills in the table. `flags` is what `--so_flags` says: a composition, such as
/// `tcp-cubic,iw=10`, and what [`wifu_testkit::packetdrill::Setup::parse`] knows. If that is wrong
/// it says so and ends the process, since the interface knows no error.
///
/// # Safety
/// `flags` is null or a C string; `table` has room for a [`Table`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(flags: *const c_char, table: *mut Table) {
    let text = match flags.is_null() {
        true => "".into(),
        // SAFETY: the caller's promise.
        false => unsafe { CStr::from_ptr(flags) }.to_string_lossy(),
    };
    let world = match World::new(&text) {
        Ok(world) => world,
        Err(what) => {
            eprintln!("libwifu_packetdrill: --so_flags: {what}");
            std::process::exit(2);
        }
    };
    let world = Box::into_raw(Box::new(world));
    asked::answer_for(world);
    let filled = Table {
        userdata: world.cast(),
        free,
        socket,
        bind,
        listen,
        accept,
        connect,
        read,
        readv,
        recv,
        recvfrom,
        recvmsg,
        write,
        writev,
        send,
        sendto,
        sendmsg,
        fcntl,
        ioctl,
        close,
        shutdown,
        getsockopt,
        setsockopt,
        poll,
        netdev_send,
        netdev_receive,
        usleep,
        gettimeofday,
        epoll_create: other,
        epoll_ctl: other,
        epoll_wait: other,
        pipe: other,
        splice: other,
    };
    // SAFETY: the caller's promise. What was there is no Rust value and is not dropped.
    unsafe { ptr::write(table, filled) };
}

/// The world of a table.
///
/// # Safety
/// `userdata` is what [`packetdrill_interface_init`] put there, and [`free`] was not called.
unsafe fn world<'a>(userdata: *mut c_void) -> &'a World {
    // SAFETY: the caller's promise. Two threads may have it: a World is made for that.
    unsafe { &*userdata.cast::<World>() }
}

fn set_errno(errno: c_int) {
    // SAFETY: the thread's own error number.
    unsafe { *libc::__errno_location() = errno };
}

/// The result as C has it.
fn give(answer: Result<i64, Errno>) -> i64 {
    match answer {
        Ok(n) => n,
        Err(Errno(errno)) => {
            set_errno(errno);
            -1
        }
    }
}

fn number(answer: Answer) -> c_int {
    give(answer.map(|v| v.number)) as c_int
}

/// What the object does not offer.
unsafe extern "C" fn other() -> c_int {
    set_errno(libc::ENOSYS);
    -1
}

unsafe extern "C" fn free(userdata: *mut c_void) {
    asked::answer_for(ptr::null_mut());
    // SAFETY: packetdrill calls it once, at the end, when its other thread is gone.
    drop(unsafe { Box::from_raw(userdata.cast::<World>()) });
}

/// An address of C; `None` if it is no IPv4 address.
///
/// # Safety
/// `addr` is null or points to `len` octets.
unsafe fn address(addr: *const sockaddr, len: socklen_t) -> Option<SocketAddrV4> {
    if addr.is_null() || (len as usize) < size_of::<sockaddr_in>() {
        return None;
    }
    // SAFETY: there are enough octets, and any octets are a sockaddr_in; it need not be aligned.
    let found = unsafe { ptr::read_unaligned(addr.cast::<sockaddr_in>()) };
    let ip = Ipv4Addr::from(u32::from_be(found.sin_addr.s_addr));
    (c_int::from(found.sin_family) == libc::AF_INET)
        .then(|| SocketAddrV4::new(ip, u16::from_be(found.sin_port)))
}

/// Writes an address for C, as much as there is room for.
///
/// # Safety
/// Each of the two is null, or `addr` points to `*len` octets.
unsafe fn put_address(from: SocketAddrV4, addr: *mut sockaddr, len: *mut socklen_t) {
    if addr.is_null() || len.is_null() {
        return;
    }
    let mut there = sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: from.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from(*from.ip()).to_be(),
        },
        sin_zero: [0; 8],
    };
    let whole = size_of::<sockaddr_in>();
    // SAFETY: the caller's promise: `*len` is there, and so many octets are.
    unsafe {
        let room = (*len as usize).min(whole);
        ptr::copy_nonoverlapping((&raw mut there).cast::<u8>(), addr.cast::<u8>(), room);
        *len = whole as socklen_t;
    }
}

unsafe extern "C" fn socket(u: *mut c_void, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: `u` is ours.
    let world = unsafe { world(u) };
    named(world, world.call(Call::Socket(domain, kind, protocol)))
}

/// A new socket of the stack as a descriptor of the process.
fn named(world: &World, answer: Answer) -> c_int {
    let name = answer.and_then(|v| world.name(v.number as i32));
    give(name.map(i64::from)) as c_int
}

unsafe extern "C" fn bind(
    u: *mut c_void,
    fd: c_int,
    addr: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: `u` is ours, and the address is as long as its length says.
    let (world, to) = unsafe { (world(u), address(addr, len)) };
    number(match to {
        Some(to) => world.call(Call::Bind(world.fd(fd), to)),
        None => Err(Errno(libc::EAFNOSUPPORT)),
    })
}

unsafe extern "C" fn listen(u: *mut c_void, fd: c_int, backlog: c_int) -> c_int {
    // SAFETY: `u` is ours.
    let world = unsafe { world(u) };
    number(world.call(Call::Listen(world.fd(fd), backlog)))
}

unsafe extern "C" fn accept(
    u: *mut c_void,
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: `u` is ours.
    let world = unsafe { world(u) };
    let answer = world.call(Call::Accept(world.fd(fd)));
    if let Ok(Value { peer: Some(p), .. }) = &answer {
        // SAFETY: the address is as long as its length says.
        unsafe { put_address(*p, addr, len) };
    }
    named(world, answer)
}

unsafe extern "C" fn connect(
    u: *mut c_void,
    fd: c_int,
    addr: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: `u` is ours, and the address is as long as its length says.
    let (world, to) = unsafe { (world(u), address(addr, len)) };
    number(match to {
        Some(to) => world.call(Call::Connect(world.fd(fd), to)),
        None => Err(Errno(libc::EAFNOSUPPORT)),
    })
}

/// Reads into pieces of memory.
///
/// # Safety
/// Each piece is null or points to as many octets as it says.
unsafe fn read_into(world: &World, fd: c_int, pieces: &[iovec], flags: c_int) -> isize {
    let room = pieces.iter().map(|p| p.iov_len).sum();
    if pieces.iter().any(|p| p.iov_base.is_null() && p.iov_len > 0) {
        return give(Err(Errno(libc::EFAULT))) as isize;
    }
    let answer = world.call(Call::Recv(world.fd(fd), room, flags));
    if let Ok(value) = &answer {
        let mut rest = value.bytes.as_slice();
        for piece in pieces {
            let n = rest.len().min(piece.iov_len);
            // SAFETY: the piece has that many octets, and is not ours.
            unsafe { ptr::copy_nonoverlapping(rest.as_ptr(), piece.iov_base.cast::<u8>(), n) };
            rest = &rest[n..];
        }
    }
    give(answer.map(|v| v.number)) as isize
}

/// Writes from pieces of memory.
///
/// # Safety
/// Each piece is null or points to as many octets as it says.
unsafe fn write_from(world: &World, fd: c_int, pieces: &[iovec], flags: c_int) -> isize {
    let mut bytes = Vec::new();
    for piece in pieces.iter().filter(|p| p.iov_len > 0) {
        if piece.iov_base.is_null() {
            return give(Err(Errno(libc::EFAULT))) as isize;
        }
        // SAFETY: the piece has that many octets.
        bytes.extend_from_slice(unsafe {
            core::slice::from_raw_parts(piece.iov_base.cast::<u8>(), piece.iov_len)
        });
    }
    give(
        world
            .call(Call::Send(world.fd(fd), bytes, flags))
            .map(|v| v.number),
    ) as isize
}

fn piece(base: *const c_void, len: usize) -> [iovec; 1] {
    [iovec {
        iov_base: base.cast_mut(),
        iov_len: len,
    }]
}

/// The pieces of a vector.
///
/// # Safety
/// `iov` is null or points to `n` pieces.
unsafe fn pieces<'a>(iov: *const iovec, n: usize) -> &'a [iovec] {
    if iov.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(iov, n) }
}

/// The three calls that move octets by a buffer, by a vector, and by a buffer with flags.
macro_rules! moves {
    ($by_buffer:ident, $by_vector:ident, $with_flags:ident: $pointer:ty, $all:ident) => {
        unsafe extern "C" fn $by_buffer(
            u: *mut c_void,
            fd: c_int,
            buf: $pointer,
            n: usize,
        ) -> isize {
            // SAFETY: `u` is ours, and the buffer has `n` octets.
            unsafe { $all(world(u), fd, &piece(buf, n), 0) }
        }

        unsafe extern "C" fn $by_vector(
            u: *mut c_void,
            fd: c_int,
            iov: *const iovec,
            n: c_int,
        ) -> isize {
            // SAFETY: `u` is ours, and the vector has `n` pieces.
            unsafe { $all(world(u), fd, pieces(iov, n.max(0) as usize), 0) }
        }

        unsafe extern "C" fn $with_flags(
            u: *mut c_void,
            fd: c_int,
            buf: $pointer,
            n: usize,
            flags: c_int,
        ) -> isize {
            // SAFETY: `u` is ours, and the buffer has `n` octets.
            unsafe { $all(world(u), fd, &piece(buf, n), flags) }
        }
    };
}

moves!(read, readv, recv: *mut c_void, read_into);
moves!(write, writev, send: *const c_void, write_from);

unsafe extern "C" fn recvfrom(
    u: *mut c_void,
    fd: c_int,
    buf: *mut c_void,
    n: usize,
    flags: c_int,
    _addr: *mut sockaddr,
    len: *mut socklen_t,
) -> isize {
    // SAFETY: `u` is ours, and the buffer has `n` octets. As Linux for TCP, no address is given.
    unsafe {
        if !len.is_null() {
            *len = 0;
        }
        read_into(world(u), fd, &piece(buf, n), flags)
    }
}

unsafe extern "C" fn recvmsg(u: *mut c_void, fd: c_int, msg: *mut msghdr, flags: c_int) -> isize {
    // SAFETY: `u` is ours, and the message is one, with as many pieces as it says.
    unsafe {
        (*msg).msg_namelen = 0;
        (*msg).msg_controllen = 0;
        (*msg).msg_flags = 0;
        let all = pieces((*msg).msg_iov, (*msg).msg_iovlen);
        read_into(world(u), fd, all, flags)
    }
}

unsafe extern "C" fn sendto(
    u: *mut c_void,
    fd: c_int,
    buf: *const c_void,
    n: usize,
    flags: c_int,
    _addr: *const sockaddr,
    _len: socklen_t,
) -> isize {
    // SAFETY: `u` is ours, and the buffer has `n` octets. As in TCP, the address is ignored.
    unsafe { write_from(world(u), fd, &piece(buf, n), flags) }
}

unsafe extern "C" fn sendmsg(u: *mut c_void, fd: c_int, msg: *const msghdr, flags: c_int) -> isize {
    // SAFETY: `u` is ours, and the message is one, with as many pieces as it says.
    unsafe {
        let all = pieces((*msg).msg_iov, (*msg).msg_iovlen);
        write_from(world(u), fd, all, flags)
    }
}

// C declares this and `ioctl` with `...` and passes at most one argument behind the others. On the
// platforms that WiFu runs on (x86-64 and AArch64 with Linux's calling convention) it comes where a
// declared one would.
unsafe extern "C" fn fcntl(u: *mut c_void, fd: c_int, command: c_int, argument: c_long) -> c_int {
    // SAFETY: `u` is ours.
    let world = unsafe { world(u) };
    let fd = world.fd(fd);
    let call = match command {
        libc::F_GETFL => Call::GetFlags(fd),
        libc::F_SETFL => Call::SetFlags(fd, argument as c_int),
        _ => return give(Err(Errno(libc::EINVAL))) as c_int,
    };
    number(world.call(call))
}

unsafe extern "C" fn ioctl(
    u: *mut c_void,
    fd: c_int,
    request: c_ulong,
    argument: *mut c_int,
) -> c_int {
    // SAFETY: `u` is ours.
    let world = unsafe { world(u) };
    let fd = world.fd(fd);
    let call = match request {
        libc::FIONREAD => Call::Unread(fd),
        libc::TIOCOUTQ => Call::Unsent(fd),
        _ => return give(Err(Errno(libc::ENOTTY))) as c_int,
    };
    let answer = world.call(call);
    if let (Ok(value), false) = (&answer, argument.is_null()) {
        // SAFETY: both requests come with a pointer to a number.
        unsafe { *argument = value.number as c_int };
    }
    give(answer.map(|_| 0)) as c_int
}

unsafe extern "C" fn close(u: *mut c_void, fd: c_int) -> c_int {
    // SAFETY: `u` is ours.
    let world = unsafe { world(u) };
    let answer = world.call(Call::Close(world.fd(fd)));
    if answer.is_ok() {
        // SAFETY: the stack knew it: it is the one that `World::name` opened, and still open.
        world.unname(unsafe { OwnedFd::from_raw_fd(fd) });
    }
    number(answer)
}

unsafe extern "C" fn shutdown(u: *mut c_void, fd: c_int, how: c_int) -> c_int {
    // SAFETY: `u` is ours.
    let world = unsafe { world(u) };
    number(world.call(Call::Shutdown(world.fd(fd), how)))
}

unsafe extern "C" fn getsockopt(
    u: *mut c_void,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if value.is_null() || len.is_null() {
        return give(Err(Errno(libc::EFAULT))) as c_int;
    }
    // SAFETY: `u` is ours, and the value has as many octets as its length says.
    unsafe {
        let given = core::slice::from_raw_parts(value.cast::<u8>(), *len as usize).to_vec();
        let world = world(u);
        let answer = world.call(Call::GetOption(world.fd(fd), level, name, given));
        if let Ok(v) = &answer {
            let n = v.bytes.len().min(*len as usize);
            ptr::copy_nonoverlapping(v.bytes.as_ptr(), value.cast::<u8>(), n);
            *len = n as socklen_t;
        }
        number(answer)
    }
}

unsafe extern "C" fn setsockopt(
    u: *mut c_void,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    if value.is_null() {
        return give(Err(Errno(libc::EFAULT))) as c_int;
    }
    // SAFETY: `u` is ours, and the value has as many octets as its length says.
    let (world, value) = unsafe {
        let value = core::slice::from_raw_parts(value.cast::<u8>(), len as usize);
        (world(u), value.to_vec())
    };
    number(world.call(Call::SetOption(world.fd(fd), level, name, value)))
}

unsafe extern "C" fn poll(
    u: *mut c_void,
    fds: *mut pollfd,
    n: libc::nfds_t,
    timeout: c_int,
) -> c_int {
    let fds = match fds.is_null() {
        true => &mut [][..],
        // SAFETY: there are `n` of them, and nobody else's meanwhile.
        false => unsafe { core::slice::from_raw_parts_mut(fds, n as usize) },
    };
    // SAFETY: `u` is ours.
    let world = unsafe { world(u) };
    let asked = fds.iter().map(|p| (world.fd(p.fd), p.events)).collect();
    let answer = world.call(Call::Poll(asked, timeout));
    if let Ok(value) = &answer {
        for (p, events) in fds.iter_mut().zip(&value.events) {
            p.revents = *events;
        }
    }
    number(answer)
}

unsafe extern "C" fn netdev_send(u: *mut c_void, packet: *const c_void, n: usize) -> c_int {
    // SAFETY: `u` is ours, and the packet has `n` octets.
    let taken = unsafe {
        let packet = core::slice::from_raw_parts(packet.cast::<u8>(), n);
        world(u).deliver(packet)
    };
    if taken { 0 } else { -1 }
}

unsafe extern "C" fn netdev_receive(
    u: *mut c_void,
    buffer: *mut c_void,
    n: *mut usize,
    micros: *mut c_longlong,
) -> c_int {
    // SAFETY: `u` is ours.
    let Some(left) = unsafe { world(u) }.packet() else {
        eprintln!(
            "libwifu_packetdrill: no packet left within {} s of the stack's time",
            crate::world::PATIENCE.0 / 1_000_000_000
        );
        // SAFETY: the interface's: no octets, which packetdrill takes for a bad packet.
        unsafe { *n = 0 };
        return 0;
    };
    // SAFETY: the buffer has `*n` octets, and both numbers are there.
    unsafe {
        let room = left.bytes.len().min(*n);
        ptr::copy_nonoverlapping(left.bytes.as_ptr(), buffer.cast::<u8>(), room);
        (*n, *micros) = (room, (left.at.0 / 1_000) as c_longlong);
    }
    0
}

unsafe extern "C" fn usleep(u: *mut c_void, micros: c_uint) -> c_int {
    // SAFETY: `u` is ours.
    unsafe { world(u) }.sleep(Span(u64::from(micros) * 1_000));
    0
}

unsafe extern "C" fn gettimeofday(u: *mut c_void, now: *mut timeval, _zone: *mut c_void) -> c_int {
    // SAFETY: `u` is ours.
    let time = unsafe { world(u) }.now();
    if !now.is_null() {
        // SAFETY: there is room for one.
        unsafe {
            (*now).tv_sec = (time.0 / 1_000_000_000) as libc::time_t;
            (*now).tv_usec = (time.0 / 1_000 % 1_000_000) as libc::suseconds_t;
        }
    }
    0
}
