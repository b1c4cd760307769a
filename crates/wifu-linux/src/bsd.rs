//! The BSD socket calls that `wifu perf` needs and the standard library does not offer, without
//! unsafe code in the caller.
//!
//! Every call goes through libc's symbol (`socket`, `connect`, `setsockopt`, `getsockopt`, ...),
//! so that WiFu's preload library sees it exactly as it sees an ordinary program's call. That is
//! the difference from rustix, whose calls are system calls and pass the library by.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wifu_wire::front::{COUNTED, MAX_VALUE, SOL_WIFU, WIFU_PARAM};

/// A stream socket of `addr`'s family, close-on-exec.
///
/// # Errors
/// What `socket(2)` returns.
pub fn stream_socket(addr: SocketAddr) -> io::Result<OwnedFd> {
    let family = if addr.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    check(fd)?;
    // SAFETY: the descriptor is fresh and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds `socket` to `addr`; port 0 leaves the choice to the stack.
///
/// # Errors
/// What `bind(2)` returns.
pub fn bind(socket: &OwnedFd, addr: SocketAddr) -> io::Result<()> {
    let (storage, len) = sockaddr(addr);
    // SAFETY: `storage` outlives the call and holds `len` initialised bytes of a sockaddr.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const storage).cast(), len) })
}

/// Turns a bound `socket` into a listener with room for `backlog` connections.
///
/// # Errors
/// What `listen(2)` returns.
pub fn listen(socket: OwnedFd, backlog: i32) -> io::Result<TcpListener> {
    // SAFETY: no pointers are passed.
    check(unsafe { libc::listen(socket.as_raw_fd(), backlog) })?;
    Ok(TcpListener::from(socket))
}

/// Begins to connect `socket`, which is non-blocking from now on, to `addr`; whether it is
/// connected already. Else it is ready for output when it is, or cannot be: then
/// [`TcpStream::take_error`] tells.
///
/// # Errors
/// What `connect(2)` gives, but that it goes on.
pub fn begin_to_connect(socket: OwnedFd, addr: SocketAddr) -> io::Result<(TcpStream, bool)> {
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(true)?;
    let (storage, len) = sockaddr(addr);
    // SAFETY: `storage` outlives the call and holds `len` initialised bytes of a sockaddr.
    let begun =
        check(unsafe { libc::connect(stream.as_raw_fd(), (&raw const storage).cast(), len) });
    match begun {
        Ok(_) => Ok((stream, true)),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok((stream, false)),
        Err(error) => Err(error),
    }
}

/// Connects `socket` to `addr` within `timeout`, and leaves it in blocking mode.
///
/// # Errors
/// What `connect(2)` or SO_ERROR gives; `TimedOut` when `timeout` passes first.
pub fn connect(socket: OwnedFd, addr: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    let (stream, connected) = begin_to_connect(socket, addr)?;
    if !connected {
        let wait = Timespec::try_from(timeout).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut fds = [PollFd::new(&stream, PollFlags::OUT)];
        loop {
            match poll(&mut fds, Some(&wait)) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => break,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
    }
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Sets the send and receive buffers (SO_SNDBUF, SO_RCVBUF), bytes.
///
/// # Errors
/// What `setsockopt(2)` returns.
pub fn set_buffers(socket: &impl AsFd, bytes: usize) -> io::Result<()> {
    let value = i32::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    set_int(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, value)?;
    set_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, value)
}

/// The send and receive buffers in force (SO_SNDBUF, SO_RCVBUF), bytes.
///
/// # Errors
/// What `getsockopt(2)` returns.
pub fn buffers(socket: &impl AsFd) -> io::Result<(i32, i32)> {
    let sndbuf = int(socket, libc::SOL_SOCKET, libc::SO_SNDBUF)?;
    Ok((sndbuf, int(socket, libc::SOL_SOCKET, libc::SO_RCVBUF)?))
}

/// Sets TCP_MAXSEG, bytes; before the connection is made.
///
/// # Errors
/// What `setsockopt(2)` returns.
pub fn set_max_segment(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    let value = i32::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, value)
}

/// Sets SO_REUSEADDR, so that a listener can have a port that old connections still hold.
///
/// # Errors
/// What `setsockopt(2)` returns.
pub fn set_reuse_address(socket: &impl AsFd) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)
}

/// Sets TCP_NODELAY.
///
/// # Errors
/// What `setsockopt(2)` returns.
pub fn set_no_delay(socket: &impl AsFd) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)
}

/// Sets TCP_CONGESTION, by name.
///
/// # Errors
/// What `setsockopt(2)` returns: ENOENT for a name the stack does not know.
pub fn set_congestion(socket: &impl AsFd, name: &str) -> io::Result<()> {
    let (fd, level) = (socket.as_fd().as_raw_fd(), libc::IPPROTO_TCP);
    let len = libc::socklen_t::try_from(name.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `name` holds `len` bytes and outlives the call.
    let rc =
        unsafe { libc::setsockopt(fd, level, libc::TCP_CONGESTION, name.as_ptr().cast(), len) };
    check(rc)
}

/// The name of the congestion control in force (TCP_CONGESTION).
///
/// # Errors
/// What `getsockopt(2)` returns.
pub fn congestion(socket: &impl AsFd) -> io::Result<String> {
    let mut name = [0u8; 256];
    let len = option_bytes(socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name)?;
    let text = name[..len]
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// The part of Linux's `struct tcp_info` that measurements use. A field is 0 when the stack is
/// too old to report it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Sender's maximum segment size, bytes.
    pub snd_mss: u32,
    /// Path MTU, bytes.
    pub pmtu: u32,
    /// Smoothed round-trip time, microseconds.
    pub rtt_us: u32,
    /// Round-trip time variation, microseconds.
    pub rttvar_us: u32,
    /// Slow start threshold, segments.
    pub snd_ssthresh: u32,
    /// Congestion window, segments.
    pub snd_cwnd: u32,
    /// Reordering in segments that the sender tolerates.
    pub reordering: u32,
    /// Segments retransmitted since the connection began.
    pub total_retrans: u32,
    /// Delivery rate of the last measured flight, bytes per second.
    pub delivery_rate: u64,
    /// The peer's advertised window, bytes.
    pub snd_wnd: u32,
    /// Smallest round-trip time, microseconds; all ones while there is none.
    pub min_rtt_us: u32,
    /// Retransmission timeouts since the connection began, those of its SYN among them. A kernel
    /// before 6.7 does not count them.
    pub timeouts: Option<u32>,
    /// Segments sent.
    pub segs_out: u32,
    /// Segments sent that had data.
    pub data_segs_out: u32,
    /// Payload bytes sent, those sent again included; a kernel before 4.19 does not count them.
    pub bytes_sent: Option<u64>,
    /// Payload bytes of them that were sent again.
    pub bytes_retrans: u64,
}

impl TcpInfo {
    /// Decodes the kernel's layout (`linux/tcp.h`), which only ever grows at its end: fields
    /// beyond `bytes` are 0.
    fn decode(bytes: &[u8]) -> Self {
        let word = |at: usize| {
            let part = bytes.get(at..at + 4).and_then(|part| part.try_into().ok());
            part.map_or(0, u32::from_ne_bytes)
        };
        let short = |at: usize| {
            let part = bytes.get(at..at + 2).and_then(|part| part.try_into().ok());
            part.map(u16::from_ne_bytes)
        };
        let long = |at: usize| {
            let part = bytes.get(at..at + 8).and_then(|part| part.try_into().ok());
            part.map_or(0, u64::from_ne_bytes)
        };
        Self {
            snd_mss: word(16),
            pmtu: word(60),
            rtt_us: word(68),
            rttvar_us: word(72),
            snd_ssthresh: word(76),
            snd_cwnd: word(80),
            reordering: word(88),
            total_retrans: word(100),
            delivery_rate: long(160),
            snd_wnd: word(228),
            min_rtt_us: word(148),
            timeouts: short(240).map(u32::from),
            segs_out: word(136),
            data_segs_out: word(156),
            bytes_sent: (bytes.len() >= 216).then(|| long(200)),
            bytes_retrans: long(208),
        }
    }
}

/// The connection's state by TCP_INFO.
///
/// # Errors
/// What `getsockopt(2)` returns.
pub fn tcp_info(socket: &impl AsFd) -> io::Result<TcpInfo> {
    let mut bytes = [0u8; 512];
    let len = option_bytes(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)?;
    Ok(TcpInfo::decode(&bytes[..len]))
}

/// What a connection over WiFu has counted that TCP_INFO has no room for: JSON
/// ([`front::COUNTED`](wifu_wire::front::COUNTED)).
///
/// # Errors
/// What `getsockopt(2)` returns: ENOPROTOOPT for a socket of the kernel's.
pub fn counted(socket: &impl AsFd) -> io::Result<String> {
    let mut bytes = [0u8; MAX_VALUE];
    bytes[..COUNTED.len()].copy_from_slice(COUNTED.as_bytes());
    let len = option_bytes(socket, SOL_WIFU, WIFU_PARAM, &mut bytes)?;
    let text = bytes[..len].split(|byte| *byte == 0).next();
    Ok(String::from_utf8_lossy(text.unwrap_or_default()).into_owned())
}

/// The process that has, or that had as it began to listen, the other end of a UNIX socket; none
/// if it is in no namespace of processes that this one sees.
///
/// # Errors
/// What `getsockopt(2)` returns.
pub fn peer_pid(socket: &impl AsFd) -> io::Result<Option<u32>> {
    // The first of a `ucred`.
    let mut bytes = [0; size_of::<libc::ucred>()];
    option_bytes(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, &mut bytes)?;
    let pid = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    Ok((pid > 0).then_some(pid))
}

/// Processor time this process has used so far: in user mode and in the kernel.
#[must_use]
pub fn cpu_times() -> (Duration, Duration) {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a valid rusage to write to; all-zero is a valid value should it fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let duration = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs())
            + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    (duration(usage.ru_utime), duration(usage.ru_stime))
}

/// SIGINT, SIGTERM and SIGHUP as a descriptor that a loop can poll, instead of handlers.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
}

impl Signals {
    /// Blocks the three signals in the calling thread, hence in every thread it starts later,
    /// and opens a descriptor that becomes readable when one arrives.
    ///
    /// # Errors
    /// What `pthread_sigmask(3)` or `signalfd(2)` returns.
    pub fn block() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset initialises the set before anything reads it; all pointers are to
        // live locals.
        let fd = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            let rc = libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            if rc != 0 {
                return Err(io::Error::from_raw_os_error(rc));
            }
            libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        check(fd)?;
        // SAFETY: the descriptor is fresh and nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd })
    }

    /// The number of a signal that has arrived, if one has.
    #[must_use]
    pub fn take(&self) -> Option<i32> {
        let mut record = [0u8; size_of::<libc::signalfd_siginfo>()];
        let read = rustix::io::read(&self.fd, &mut record).ok()?;
        let number = record.first_chunk::<4>().filter(|_| read == record.len())?;
        Some(i32::from_ne_bytes(*number))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn set_int(socket: &impl AsFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let len = size_of::<i32>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `value` is a live i32 of `len` bytes.
    check(unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) })
}

fn int(socket: &impl AsFd, level: i32, name: i32) -> io::Result<i32> {
    let mut bytes = [0u8; 4];
    option_bytes(socket, level, name, &mut bytes)?;
    Ok(i32::from_ne_bytes(bytes))
}

/// Reads an option into `buffer` and returns its length, at most the buffer's.
fn option_bytes(socket: &impl AsFd, level: i32, name: i32, buffer: &mut [u8]) -> io::Result<usize> {
    let fd = socket.as_fd().as_raw_fd();
    let mut len = libc::socklen_t::try_from(buffer.len()).unwrap_or(libc::socklen_t::MAX);
    // SAFETY: `buffer` has room for `len` bytes; both pointers are to live memory.
    check(unsafe { libc::getsockopt(fd, level, name, buffer.as_mut_ptr().cast(), &raw mut len) })?;
    Ok((len as usize).min(buffer.len()))
}

fn sockaddr(addr: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all-zero is a valid sockaddr_storage.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let len = match addr {
        SocketAddr::V4(v4) => {
            let native = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(v4.ip().octets()),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: sockaddr_storage is large enough and aligned for every sockaddr.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(native) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            let native = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: sockaddr_storage is large enough and aligned for every sockaddr.
            unsafe {
                (&raw mut storage)
                    .cast::<libc::sockaddr_in6>()
                    .write(native)
            };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, len as libc::socklen_t)
}

fn check(rc: libc::c_int) -> io::Result<()> {
    if rc < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_info_agrees_with_the_kernels_struct() {
        let offsets = [
            (16, std::mem::offset_of!(libc::tcp_info, tcpi_snd_mss)),
            (60, std::mem::offset_of!(libc::tcp_info, tcpi_pmtu)),
            (68, std::mem::offset_of!(libc::tcp_info, tcpi_rtt)),
            (72, std::mem::offset_of!(libc::tcp_info, tcpi_rttvar)),
            (76, std::mem::offset_of!(libc::tcp_info, tcpi_snd_ssthresh)),
            (80, std::mem::offset_of!(libc::tcp_info, tcpi_snd_cwnd)),
            (88, std::mem::offset_of!(libc::tcp_info, tcpi_reordering)),
            (
                100,
                std::mem::offset_of!(libc::tcp_info, tcpi_total_retrans),
            ),
        ];
        for (ours, theirs) in offsets {
            assert_eq!(ours, theirs);
        }
        let bytes: Vec<u8> = (0..=255).collect();
        let info = TcpInfo::decode(&bytes);
        assert_eq!(info.snd_mss, u32::from_ne_bytes([16, 17, 18, 19]));
        assert_eq!(info.snd_wnd, u32::from_ne_bytes([228, 229, 230, 231]));
        assert_eq!(info.min_rtt_us, u32::from_ne_bytes([148, 149, 150, 151]));
        assert_eq!(info.timeouts, Some(u16::from_ne_bytes([240, 241]).into()));
        let old = TcpInfo::decode(&bytes[..104]);
        assert_eq!((old.snd_wnd, old.timeouts), (0, None));
    }

    #[test]
    fn a_connection_over_loopback_reports_its_options_and_state() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let socket = stream_socket(any).unwrap();
        bind(&socket, any).unwrap();
        let listener = listen(socket, 4).unwrap();
        let addr = listener.local_addr().unwrap();

        let socket = stream_socket(addr).unwrap();
        set_congestion(&socket, "reno").unwrap();
        set_buffers(&socket, 40_000).unwrap();
        let stream = connect(socket, addr, Duration::from_secs(5)).unwrap();
        assert_eq!(congestion(&stream).unwrap(), "reno");
        assert_eq!(buffers(&stream).unwrap(), (80_000, 80_000));
        let info = tcp_info(&stream).unwrap();
        assert!(info.snd_cwnd > 0 && info.snd_mss > 500, "{info:?}");

        let error = set_congestion(&stream, "no-such-thing").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn a_refused_connection_says_so() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let unused = stream_socket(any).unwrap();
        bind(&unused, any).unwrap();
        let addr = TcpListener::from(unused).local_addr().unwrap();
        let socket = stream_socket(addr).unwrap();
        let error = connect(socket, addr, Duration::from_secs(5)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
