//! The calls that make and name connections, but `bind`, which is in [`bind`](crate::bind).
//!
//! The descriptor is an AF_UNIX stream socket from `socket` on and for life. Its bound name says
//! its local address; `listen` and `accept` are the kernel's own, since the daemon connects to that
//! name; a pending `connect` is a send buffer filled so far that AF_UNIX shows no POLLOUT until the
//! daemon drains it.

use crate::addr::{self, Given};
use crate::bind::{ANY, any, bind_service, bound, bound_nth, family, options};
use crate::config::{DEFAULT_SPEC, config};
use crate::daemon::{self, Failure};
use crate::note::Once;
use crate::opt;
use crate::root;
use crate::sys::{self, Errno, Result};
use crate::tag::Tag;
use crate::watch::Watches;
use core::ffi::c_int;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::sync::atomic::{AtomicU64, Ordering};
use wifu_wire::front::{self, HEADER_LEN, MAX_SPEC, Options, Request};
use wifu_wire::numbers::composition;

/// The send buffer that a socket gets, as `SO_SNDBUF` shows it: what Linux allows by default. A
/// held byte keeps its whole kernel buffer accounted, and POLLOUT comes when at most a quarter of
/// the send buffer is; `sendfile` makes buffers of 64 KB. With less than this nothing is held.
const SNDBUF_FOR_HOLD: i32 = 425_984;
const SOCK_TYPE_MASK: c_int = 0xf;
static ZEROS: [u8; 65536] = [0; 65536];
/// Pieces of a message; with all of them [`front::MAX_PAD`] bytes of zeros and a frame.
const PIECES: usize = 2 + front::MAX_PAD / ZEROS.len();
/// How long a `connect` without a route waits for the daemon to say so, ms: it looks its routes up
/// at once.
const NO_ROUTE_WAIT_MS: u64 = 100;

/// Whether `socket` with these arguments is a TCP socket, which WiFu can stand for.
pub fn is_tcp(domain: c_int, kind: c_int, protocol: c_int) -> bool {
    matches!(domain, libc::AF_INET | libc::AF_INET6)
        && kind & SOCK_TYPE_MASK == libc::SOCK_STREAM
        && matches!(protocol, 0 | libc::IPPROTO_TCP)
}

/// Makes one of our sockets. `number` is the IP protocol number of a named composition, or 0.
pub fn socket(domain: c_int, kind: c_int, number: u8) -> Result<c_int> {
    let flags = kind & !SOCK_TYPE_MASK;
    let fd = sys::socket(libc::AF_UNIX, libc::SOCK_STREAM | flags, 0)?;
    let tag = Tag::default()
        .set(Tag::V6, domain == libc::AF_INET6)
        .with_protocol(number);
    tag.write(fd).inspect_err(|_| sys::close(fd))?;
    Ok(fd)
}

/// The composition of a socket for which no option said otherwise.
pub fn spec(tag: Tag) -> &'static str {
    match composition(tag.protocol()) {
        Some(spec) => spec,
        None if config().spec().is_empty() => DEFAULT_SPEC,
        None => config().spec(),
    }
}

/// Identifies a socket towards the daemon: stays the same for all its copies.
pub fn cookie(fd: c_int) -> Result<u64> {
    sys::getsockopt(fd, libc::SOL_SOCKET, libc::SO_COOKIE)
}

fn is_listening(fd: c_int) -> bool {
    sys::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Ok(1)
}

/// `connect`.
///
/// # Safety
/// As [`addr::read`].
pub unsafe fn connect(
    fd: c_int,
    tag: Tag,
    a: *const libc::sockaddr,
    len: libc::socklen_t,
) -> Result<c_int> {
    // SAFETY: the caller's promise.
    let given = unsafe { addr::read(a, len, tag.has(Tag::V6)) }?;
    if is_listening(fd) {
        return Err(Errno(libc::EISCONN));
    }
    if sys::getpeername(fd).is_ok() {
        return resume(fd, tag, given);
    }
    start(fd, tag, given)
}

/// Whom a `connect` really means; none if it dissolves a connection that there isn't.
fn meant(tag: Tag, given: Given) -> Result<Option<SocketAddr>> {
    static LINK: Once = Once::new();
    let remote = match given {
        Given::At(a) if a.is_ipv4() && tag.has(Tag::V6ONLY) => {
            return Err(Errno(libc::ENETUNREACH));
        }
        // Linux connects to this host for 0.0.0.0.
        Given::At(a) if a.ip().is_unspecified() => {
            SocketAddr::new(Ipv4Addr::LOCALHOST.into(), a.port())
        }
        // The daemon knows by which address of this host.
        Given::AnyV6(port) => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port),
        Given::At(a) => a,
        Given::Link => {
            LINK.say(format_args!(
                "addresses of one link (fe80::/10) are not carried"
            ));
            return Err(Errno(libc::ENETUNREACH));
        }
        Given::Unspecified(_) => return Ok(None),
    };
    let broadcast = matches!(remote.ip(), IpAddr::V4(ip) if ip.is_broadcast());
    if remote.ip().is_multicast() || broadcast {
        return Err(Errno(libc::ENETUNREACH));
    }
    Ok(Some(remote))
}

fn start(fd: c_int, tag: Tag, given: Given) -> Result<c_int> {
    let Some(remote) = meant(tag, given)? else {
        return Ok(0);
    };
    let local = bound(fd).unwrap_or(ANY);
    check_device(fd, remote.ip())?;
    let spec = spec(tag);
    let (sndbuf, options) = prepare_buffer(fd, tag)?;
    let request = Request::Connect {
        cookie: cookie(fd)?,
        local,
        remote,
        spec,
        options,
    };
    let mut frame = [0; HEADER_LEN + MAX_SPEC + 128];
    let mut encode = |pad| {
        let n = request.encode(&mut frame, pad);
        n.map_err(|_| Errno(libc::EINVAL))
    };
    let wait_here = sys::fcntl(fd, libc::F_GETFL, 0)? & libc::O_NONBLOCK == 0;
    let mut pad = sndbuf / 4 + 1;
    let mut n = encode(pad)?;
    // Who goes on meanwhile may write, which is to fail until there is a connection.
    if !wait_here && let Some(rest) = filling(sndbuf).and_then(|all| all.checked_sub(n as u32)) {
        pad = rest;
        n = encode(pad)?;
    }
    daemon::connect(fd).map_err(Failure::errno)?;
    let tag = tag.set(Tag::CONNECTING, true);
    tag.write(fd)?;
    if let Err(e) = send_padded(fd, &frame[..n], pad as usize) {
        // The next `connect` begins anew.
        tag.set(Tag::CONNECTING, false).write(fd)?;
        return Err(match e.0 {
            libc::EPIPE | libc::ECONNRESET => {
                daemon::hung_up();
                Errno(libc::ENOBUFS)
            }
            _ => e,
        });
    }
    if wait_here {
        return wait(fd, tag);
    }
    // The kernel's TCP says at once that there is no route.
    if !has_route(remote.ip()) {
        match sys::poll(fd, libc::POLLOUT, Some(NO_ROUTE_WAIT_MS)) {
            Ok(events) if failed(events) => return Err(failure(fd, tag)),
            _ => {}
        }
    }
    Err(Errno(libc::EINPROGRESS))
}

/// Whether the kernel knows a way to an address; the daemon may be elsewhere and know better.
fn has_route(remote: IpAddr) -> bool {
    let Ok(probe) = sys::socket(family(remote), libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) else {
        return true;
    };
    let found = sys::source_for(probe, remote);
    sys::close(probe);
    found.is_ok()
}

/// Index of the loopback device, the first one of each network namespace.
const LOOPBACK: i32 = 1;

/// Packets of a socket that is bound to a device (`SO_BINDTODEVICE`) leave by no other: where the
/// way to its peer is another one, there is none.
fn check_device(fd: c_int, remote: IpAddr) -> Result<()> {
    let device: i32 = sys::getsockopt(fd, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX).unwrap_or(0);
    if device == 0 {
        return Ok(());
    }
    let source = |device: i32| {
        let probe = sys::socket(family(remote), libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0)?;
        let found = sys::setsockopt(probe, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, device)
            .and_then(|()| sys::source_for(probe, remote));
        sys::close(probe);
        found
    };
    // The loopback device lends the addresses of others.
    let by_route = source(0)?;
    let local = by_route.is_loopback() == (device == LOOPBACK);
    if local && source(device)? == by_route {
        return Ok(());
    }
    static SAID: Once = Once::new();
    SAID.say(format_args!(
        "packets to {remote} leave by another device than SO_BINDTODEVICE says: WiFu's go by the \
         routes"
    ));
    Err(Errno(libc::ENETUNREACH))
}

/// Makes sure that the send buffer is large enough for a held byte if the system allows it.
/// Returns its size as the kernel counts, and the options for the daemon.
fn prepare_buffer(fd: c_int, tag: Tag) -> Result<(u32, Options)> {
    let size = || sys::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_SNDBUF);
    if size()? < SNDBUF_FOR_HOLD && !tag.has(Tag::SMALL) {
        // The kernel doubles what it is given.
        let _ = sys::setsockopt(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, SNDBUF_FOR_HOLD / 2);
    }
    let size = size()?;
    let options = tag.options();
    let options = if size < SNDBUF_FOR_HOLD {
        options.with(Options::NO_HOLD)
    } else {
        options
    };
    Ok((size as u32, options))
}

/// How many bytes, sent as one message, fill an empty send buffer of this size (as `SO_SNDBUF`
/// shows it), so that a further `write` gives EAGAIN: tried out, for that depends on how the kernel
/// cuts a message. `None` where that would be too many, or can't be tried.
fn filling(sndbuf: u32) -> Option<u32> {
    static KNOWN: AtomicU64 = AtomicU64::new(0);
    let known = KNOWN.load(Ordering::Relaxed);
    if (known >> 32) as u32 == sndbuf {
        return Some(known as u32);
    }
    if sndbuf as usize > front::MAX_PAD {
        return None;
    }
    let [one, other] = sys::socketpair().ok()?;
    // The kernel doubles what it is given.
    let _ = sys::setsockopt(one, libc::SOL_SOCKET, libc::SO_SNDBUF, (sndbuf / 2) as i32);
    let same = sys::getsockopt::<i32>(one, libc::SOL_SOCKET, libc::SO_SNDBUF) == Ok(sndbuf as i32);
    // It takes no more than the size of the buffer in any case.
    let taken = same.then(|| send_zeros(one, &[], sndbuf as usize));
    sys::close(one);
    sys::close(other);
    let all = taken?.ok()? as u32;
    KNOWN.store(u64::from(sndbuf) << 32 | u64::from(all), Ordering::Relaxed);
    Some(all)
}

/// Sends the frame and its padding, which a fresh send buffer always has room for.
fn send_padded(fd: c_int, frame: &[u8], pad: usize) -> Result<()> {
    judge(fd, send_zeros(fd, frame, pad), frame.len(), pad)
}

/// Whether the daemon has the request, `head` bytes of it and `pad` of padding, of which `sent`
/// were taken. They go in pieces, and a refusal by the own host can be here before the last one:
/// then the connection has failed, which the program is told as of any other.
fn judge(fd: c_int, sent: Result<usize>, head: usize, pad: usize) -> Result<()> {
    let ended = || sys::poll(fd, libc::POLLOUT, Some(0)).is_ok_and(failed);
    match sent {
        Ok(n) if n == head + pad => Ok(()),
        Ok(n) if n >= head && ended() => Ok(()),
        Ok(_) | Err(Errno(libc::EAGAIN)) => Err(Errno(libc::ENOBUFS)),
        Err(e) => Err(e),
    }
}

/// Sends `head` and so many zeros, at most [`front::MAX_PAD`], as one message; how much of it was
/// taken.
fn send_zeros(fd: c_int, head: &[u8], zeros: usize) -> Result<usize> {
    let piece = |b: &[u8]| libc::iovec {
        iov_base: b.as_ptr().cast_mut().cast(),
        iov_len: b.len(),
    };
    let mut iov = [piece(&[]); PIECES];
    iov[0] = piece(head);
    let (mut used, mut left) = (1, zeros);
    while left > 0 && used < PIECES {
        let size = left.min(ZEROS.len());
        iov[used] = piece(&ZEROS[..size]);
        (used, left) = (used + 1, left - size);
    }
    sys::sendmsg(fd, &iov[..used], libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
}

/// Waits until the connection is there or has failed, as a blocking `connect` does.
fn wait(fd: c_int, tag: Tag) -> Result<c_int> {
    let limit: libc::timeval = sys::getsockopt(fd, libc::SOL_SOCKET, libc::SO_SNDTIMEO)?;
    let limit_ms = limit.tv_sec as u64 * 1000 + limit.tv_usec as u64 / 1000;
    let timeout = (limit_ms > 0).then_some(limit_ms);
    loop {
        match sys::poll(fd, libc::POLLOUT, timeout) {
            Ok(0) => return Err(Errno(libc::EINPROGRESS)),
            Ok(events) if failed(events) => return Err(failure(fd, tag)),
            Ok(_) => break,
            Err(Errno(libc::EINTR)) if timeout.is_some() || sys::handlers_want_eintr() => {
                return Err(Errno(libc::EINTR));
            }
            Err(Errno(libc::EINTR)) => {}
            Err(e) => return Err(e),
        }
    }
    tag.set(Tag::CONNECTING, false).write(fd)?;
    Ok(0)
}

fn failed(events: i16) -> bool {
    events & (libc::POLLERR | libc::POLLHUP) != 0
}

/// Fetches why the connection failed, and takes the pending error off the socket.
fn failure(fd: c_int, tag: Tag) -> Errno {
    let pending = sys::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or(0);
    reason(fd, tag, pending)
}

/// What a pending error really is: the kernel knows only ECONNRESET.
pub fn reason(fd: c_int, tag: Tag, pending: i32) -> Errno {
    static SAID: Once = Once::new();
    let _ = tag.set(Tag::CONNECTING, false).write(fd);
    let unknown = match (pending, tag.has(Tag::CONNECTING)) {
        (0 | libc::ECONNRESET, true) => libc::ECONNREFUSED,
        (0, false) => libc::ECONNRESET,
        (e, _) => e,
    };
    let Ok(cookie) = cookie(fd) else {
        return Errno(unknown);
    };
    let Ok(reply) = daemon::ask(&Request::Why { cookie }) else {
        return Errno(unknown);
    };
    let answer = reply.answer();
    if let Some(text) = answer.value {
        SAID.say(format_args!("{text}"));
    }
    // ENOENT: the daemon doesn't know this socket, for it was restarted, or forgot.
    match answer.errno as c_int {
        0 | libc::ENOENT => Errno(unknown),
        e => Errno(e),
    }
}

/// `connect` on a socket that has been connected before.
fn resume(fd: c_int, tag: Tag, given: Given) -> Result<c_int> {
    let events = sys::poll(fd, libc::POLLOUT, Some(0))?;
    let connecting = tag.has(Tag::CONNECTING);
    if failed(events) {
        if connecting {
            return Err(failure(fd, tag));
        }
        let watches = renew(fd, tag)?;
        let started = start(fd, tag, given);
        // Only now: before, it looks as if it were connected.
        watches.give(fd);
        return started;
    }
    if matches!(given, Given::Unspecified(_)) {
        static SAID: Once = Once::new();
        SAID.say(format_args!(
            "dissolving a connection by connect(AF_UNSPEC) is not supported"
        ));
        return Err(Errno(libc::EOPNOTSUPP));
    }
    if !connecting {
        return Err(Errno(libc::EISCONN));
    }
    if events & libc::POLLOUT != 0 {
        tag.set(Tag::CONNECTING, false).write(fd)?;
        return Ok(0);
    }
    if sys::fcntl(fd, libc::F_GETFL, 0)? & libc::O_NONBLOCK == 0 {
        return wait(fd, tag);
    }
    Err(Errno(libc::EALREADY))
}

/// Puts a fresh socket in the place of one whose connection failed: TCP sockets can connect again,
/// AF_UNIX ones can't. It has the options that were set. Copies of the descriptor keep the old one.
/// Returns the epoll sets that held that.
fn renew(fd: c_int, tag: Tag) -> Result<Watches> {
    let local = bound(fd);
    let status = sys::fcntl(fd, libc::F_GETFL, 0)? & libc::O_NONBLOCK;
    let on_exec = sys::fcntl(fd, libc::F_GETFD, 0)? & libc::FD_CLOEXEC;
    let cloexec = if on_exec != 0 { libc::O_CLOEXEC } else { 0 };
    let new = sys::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0)?;
    let ready = || {
        opt::pass_on(fd, new, tag)?;
        sys::fcntl(new, libc::F_SETFL, status)
    };
    let placed = ready().and_then(|_| {
        let watches = Watches::take(fd);
        match sys::dup3(new, fd, cloexec) {
            Ok(()) => Ok(watches),
            Err(e) => {
                watches.give(fd);
                Err(e)
            }
        }
    });
    sys::close(new);
    let watches = placed?;
    match local.map_or(Ok(()), |local| bind_service(fd, tag, local)) {
        Ok(()) => Ok(watches),
        Err(e) => {
            watches.give(fd);
            Err(e)
        }
    }
}

/// `listen`.
pub fn listen(fd: c_int, tag: Tag, backlog: c_int) -> Result<c_int> {
    static SAID: Once = Once::new();
    if sys::getpeername(fd).is_ok() {
        return Err(Errno(libc::EINVAL));
    }
    if sys::getsockname(fd)?.name().is_empty() {
        bind_service(fd, tag, SocketAddr::new(any(tag), 0))?;
    }
    let (local, nth) = bound_nth(fd).ok_or(Errno(libc::EINVAL))?;
    // First the kernel, so that the daemon never finds a registered name that refuses.
    sys::listen(fd, backlog)?;
    let request = Request::Listen {
        cookie: cookie(fd)?,
        inode: sys::fstat(fd)?.0,
        local,
        spec: spec(tag),
        // Negative means "as much as possible", as in Linux.
        backlog: backlog as u32,
        options: options(tag, local).with_nth(nth),
    };
    let reply = daemon::ask(&request).map_err(Failure::errno)?;
    let answer = reply.answer();
    if let Some(text) = answer.value {
        SAID.say(format_args!("{text}"));
    }
    match answer.errno as c_int {
        0 => Ok(0),
        e => Err(Errno(e)),
    }
}

/// `shutdown`, which AF_UNIX takes before there is a connection, and TCP does not.
pub fn shutdown(fd: c_int, how: c_int) -> Result<c_int> {
    if !is_listening(fd) && sys::getpeername(fd).is_err() {
        return Err(Errno(libc::ENOTCONN));
    }
    sys::shutdown(fd, how)?;
    Ok(0)
}

/// `accept4`.
///
/// # Safety
/// As [`addr::write`].
pub unsafe fn accept4(
    fd: c_int,
    tag: Tag,
    a: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
    flags: c_int,
) -> Result<c_int> {
    loop {
        let (new, from) = sys::accept4(fd, flags)?;
        let Some((remote, _, _)) = front::parse_peer(from.name()) else {
            // Anybody may connect to an abstract name; only the daemon calls itself so.
            sys::close(new);
            continue;
        };
        if !is_daemon(new) {
            sys::close(new);
            continue;
        }
        let ready = inherit(fd, new, tag)
            .and_then(|()| greet(new, tag.inherited()))
            .and_then(|()| {
                // SAFETY: the caller's promise.
                unsafe { addr::write(remote, tag.has(Tag::V6), a, len) }
            });
        return match ready {
            Ok(()) => Ok(new),
            Err(e) => {
                sys::close(new);
                Err(e)
            }
        };
    }
}

/// An accepted socket has what was set on its listening one.
fn inherit(listening: c_int, new: c_int, tag: Tag) -> Result<()> {
    opt::hand_on(listening, new, tag)?;
    opt::hand_on_buffer(listening, new, tag)
}

/// Tags an accepted socket and tells the daemon its cookie. The daemon leaves the last byte of that
/// in the queue: if it dies, the kernel reports a reset and not an end.
fn greet(new: c_int, tag: Tag) -> Result<()> {
    tag.write(new)?;
    let (_, options) = prepare_buffer(new, tag)?;
    let hello = front::marker(cookie(new)?, !options.has(Options::NO_HOLD));
    match sys::send(new, &hello, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) {
        Ok(_) => Ok(()),
        Err(Errno(libc::EPIPE | libc::ECONNRESET)) => Err(Errno(libc::ECONNABORTED)),
        Err(e) => Err(e),
    }
}

/// Whether the process at the other end is root or owns the daemon's socket.
fn is_daemon(fd: c_int) -> bool {
    let Ok(peer) = sys::getsockopt::<libc::ucred>(fd, libc::SOL_SOCKET, libc::SO_PEERCRED) else {
        return false;
    };
    if peer.uid == 0 {
        return true;
    }
    let mut path = [0; 108];
    let text = config().path();
    path[..text.as_bytes().len()].copy_from_slice(text.as_bytes());
    root::owner(&path) == Ok(peer.uid)
}

/// `getsockname`.
pub fn local_name(fd: c_int) -> Result<SocketAddr> {
    let name = sys::getsockname(fd)?;
    let own = front::parse_service(name.name()).map(|(local, _)| local);
    let Ok(peer) = sys::getpeername(fd) else {
        return Ok(own.unwrap_or(ANY));
    };
    if let Some((_, local, _)) = front::parse_peer(peer.name()) {
        return Ok(local);
    }
    if let Some(own) = own.filter(|a| !a.ip().is_unspecified()) {
        return Ok(own);
    }
    let told = daemon::ask_ok(&Request::Names {
        cookie: cookie(fd)?,
    });
    Ok(told
        .ok()
        .and_then(|r| r.answer().local)
        .or(own)
        .unwrap_or(ANY))
}

/// `getpeername`.
pub fn remote_name(fd: c_int, tag: Tag) -> Result<SocketAddr> {
    let not_connected = Errno(libc::ENOTCONN);
    let peer = sys::getpeername(fd).map_err(|_| not_connected)?;
    let events = sys::poll(fd, libc::POLLOUT, Some(0))?;
    if failed(events) || (tag.has(Tag::CONNECTING) && events & libc::POLLOUT == 0) {
        return Err(not_connected);
    }
    if let Some((remote, _, _)) = front::parse_peer(peer.name()) {
        return Ok(remote);
    }
    let told = daemon::ask_ok(&Request::Names {
        cookie: cookie(fd)?,
    })?;
    told.answer().remote.ok_or(not_connected)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half of a request was sent when the daemon hung up, or when the send buffer was full.
    #[test]
    fn a_refusal_before_the_last_piece_is_no_lack_of_buffers() {
        let [one, other] = sys::socketpair().unwrap();
        let sent = send_zeros(one, b"request", front::MAX_PAD);
        let n = sent.unwrap();
        assert!(7 < n && n < front::MAX_PAD, "{n}");
        let full = judge(one, sent, 7, front::MAX_PAD);
        assert_eq!(full, Err(Errno(libc::ENOBUFS)));
        sys::close(other);
        assert_eq!(judge(one, sent, 7, front::MAX_PAD), Ok(()));
        assert_eq!(judge(one, Ok(3), 7, 0), Err(Errno(libc::ENOBUFS)));
        sys::close(one);
    }
}
