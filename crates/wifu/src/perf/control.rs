//! The control connection: JSON objects, one per line, over kernel TCP.
//!
//! It must stay off the protocol under test, also in a process whose sockets WiFu's preload
//! library carries. The library works by symbol interposition: it sees calls of libc's
//! `socket`, `connect`, `accept4` and so on. rustix makes its system calls itself, without
//! libc, so a socket made here by rustix is a plain kernel socket whatever the environment
//! says; the sockets of the data streams are made through libc (`wifu_linux::bsd`).
//!
//! Order of messages: `hello` (client), `ready` (server: where the data streams go),
//! `connected` (client: which streams exist), `start` (server), the test, `done` (server, when
//! a test of fixed size has arrived or left), `end` (whoever ends the test; with a reason if
//! that is not the regular end), `results` (client), `results` (server). `error` may replace
//! any of them and is the last message.
//!
//! The test of an application (`--app`) has no streams beforehand: `connected` is empty. The client
//! says of each connection what it writes into it (`expect`), the server when that has arrived
//! (`arrived`).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrAny, SocketFlags, SocketType, sockopt,
};
use serde::{Deserialize, Serialize};

use super::measured::Results;
use super::parameters::Test;

/// Version of the messages; both ends must have the same.
pub const VERSION: u32 = 2;

/// A longer line than this is no message of ours, bytes. Server output is the longest part.
const MAX_LINE: usize = 64 << 20;

/// A message of the control connection: a line of JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message {
    /// The client's request for a test.
    Hello(Box<Hello>),
    /// The server expects the data streams at this port of the host under test.
    Ready {
        /// TCP port that listens for the data streams of this test.
        data_port: u16,
    },
    /// The client's ends of the data streams, in order of their indices.
    Connected {
        /// Addresses as the client sees them.
        streams: Vec<SocketAddr>,
    },
    /// The test runs from now on.
    Start,
    /// Of a connection of an application: all that its client writes, once that is known.
    Expect {
        /// The client's end.
        from: SocketAddr,
        /// Bytes from the connection's beginning on.
        bytes: u64,
    },
    /// All that was expected of that connection has been read from it.
    Arrived {
        /// The client's end.
        from: SocketAddr,
    },
    /// All streams of this side are finished; only in tests of fixed size.
    Done,
    /// The test is over.
    End {
        /// Why it ended before its time.
        error: Option<String>,
    },
    /// What one side measured.
    Results(Box<Results>),
    /// Nothing will come of this test.
    Error {
        /// For the user of the other side to read.
        message: String,
    },
}

/// What a client asks a server for, first of all.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`] of the client.
    pub version: u32,
    /// Identifies the test in both ends' output.
    pub cookie: String,
    /// The data streams use IPv6.
    pub ipv6: bool,
    /// The test, with all that both ends have to know.
    pub test: Test,
}

/// An end of the control connection.
#[derive(Debug)]
pub struct Control {
    fd: OwnedFd,
    pending: Vec<u8>,
}

impl Control {
    /// Connects to `addr` within `timeout`.
    pub fn connect(addr: SocketAddr, bind: Option<IpAddr>, timeout: Duration) -> io::Result<Self> {
        let fd = socket(addr)?;
        if let Some(ip) = bind {
            rustix::net::bind(&fd, &SocketAddr::new(ip, 0))?;
        }
        match rustix::net::connect(&fd, &addr) {
            Ok(()) => {}
            Err(Errno::INPROGRESS) => {
                if !wait(fd.as_fd(), PollFlags::OUT, timeout)? {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                sockopt::socket_error(&fd)??;
            }
            Err(error) => return Err(error.into()),
        }
        Self::new(fd)
    }

    /// Takes over a connected kernel socket.
    ///
    /// Keep-alive probes notice within 20 s that the other host is gone, however idle the
    /// connection; they are the kernel's, so a stopped process is not mistaken for a dead one.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        sockopt::set_tcp_nodelay(&fd, true)?;
        sockopt::set_socket_keepalive(&fd, true)?;
        sockopt::set_tcp_keepidle(&fd, Duration::from_secs(10))?;
        sockopt::set_tcp_keepintvl(&fd, Duration::from_secs(2))?;
        sockopt::set_tcp_keepcnt(&fd, 5)?;
        Ok(Self {
            fd,
            pending: Vec::new(),
        })
    }

    /// The other end's address.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        let peer = rustix::net::getpeername(&self.fd)?;
        canonical(peer.ok_or(io::ErrorKind::NotConnected)?)
    }

    /// Sends one message within `timeout`.
    pub fn send(&mut self, message: &Message, timeout: Duration) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let deadline = Instant::now() + timeout;
        let mut rest = &line[..];
        while !rest.is_empty() {
            match rustix::net::send(&self.fd, rest, SendFlags::NOSIGNAL) {
                Ok(sent) => rest = &rest[sent..],
                Err(Errno::AGAIN) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() || !wait(self.fd.as_fd(), PollFlags::OUT, left)? {
                        bail!("the control connection takes no data for {timeout:?}");
                    }
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("the control connection broke"),
            }
        }
        Ok(())
    }

    /// The next message, if it has arrived; never waits.
    pub fn try_receive(&mut self) -> anyhow::Result<Option<Message>> {
        let mut searched = 0;
        loop {
            if let Some(at) = self.pending[searched..]
                .iter()
                .position(|byte| *byte == b'\n')
            {
                let line: Vec<u8> = self.pending.drain(..=searched + at).collect();
                let message = serde_json::from_slice(&line)
                    .map_err(|error| anyhow!("not a message of wifu perf ({error})"))?;
                return Ok(Some(message));
            }
            searched = self.pending.len();
            if searched > MAX_LINE {
                bail!("a message longer than {MAX_LINE} bytes");
            }
            let mut chunk = [0u8; 16 * 1024];
            match rustix::net::recv(&self.fd, &mut chunk[..], RecvFlags::empty()) {
                Ok((0, _)) => bail!("the other side closed the control connection"),
                Ok((count, _)) => self.pending.extend_from_slice(&chunk[..count]),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("the control connection broke"),
            }
        }
    }

    /// Waits up to `timeout` for the next message.
    pub fn next(&mut self, timeout: Duration) -> anyhow::Result<Message> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(message) = self.try_receive()? {
                return Ok(message);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !wait(self.fd.as_fd(), PollFlags::IN, left)? {
                bail!("no answer on the control connection for {timeout:?}");
            }
        }
    }

    /// Like [`Control::next`], but an `error` message is an error.
    pub fn receive(&mut self, timeout: Duration) -> anyhow::Result<Message> {
        match self.next(timeout)? {
            Message::Error { message } => bail!(message),
            message => Ok(message),
        }
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The server's socket for control connections.
#[derive(Debug)]
pub struct ControlListener {
    fd: OwnedFd,
}

impl ControlListener {
    /// Listens at `addr`; the unspecified IPv6 address stands for IPv4 as well.
    pub fn bind(addr: SocketAddr) -> io::Result<Self> {
        let fd = socket(addr)?;
        sockopt::set_socket_reuseaddr(&fd, true)?;
        if addr.is_ipv6() {
            sockopt::set_ipv6_v6only(&fd, !addr.ip().is_unspecified())?;
        }
        rustix::net::bind(&fd, &addr)?;
        rustix::net::listen(&fd, 16)?;
        Ok(Self { fd })
    }

    /// A connection that has arrived, if one has; never waits.
    pub fn accept(&self) -> io::Result<Option<OwnedFd>> {
        match rustix::net::accept_with(&self.fd, SocketFlags::CLOEXEC) {
            Ok(fd) => Ok(Some(fd)),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for ControlListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// `addr` without the IPv4-mapped form that dual-stack sockets show.
pub fn plain(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip().to_canonical(), addr.port())
}

fn canonical(addr: SocketAddrAny) -> io::Result<SocketAddr> {
    Ok(plain(SocketAddr::try_from(addr)?))
}

fn socket(addr: SocketAddr) -> io::Result<OwnedFd> {
    let family = if addr.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(
        family,
        SocketType::STREAM,
        flags,
        None,
    )?)
}

/// Waits until `fd` is ready; false when `timeout` passes first.
fn wait(fd: BorrowedFd<'_>, flags: PollFlags, timeout: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(timeout).map_err(|_| io::ErrorKind::InvalidInput)?;
    match poll(&mut [PollFd::from_borrowed_fd(fd, flags)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    const SHORT: Duration = Duration::from_millis(200);

    fn pair() -> (TcpStream, Control) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let control =
            Control::connect(listener.local_addr().unwrap(), None, Duration::from_secs(5));
        (listener.accept().unwrap().0, control.unwrap())
    }

    #[test]
    fn messages_survive_being_cut_and_joined() {
        let (mut peer, mut control) = pair();
        peer.write_all(b"{\"type\":\"st").unwrap();
        assert!(
            control
                .receive(SHORT)
                .unwrap_err()
                .to_string()
                .contains("no answer")
        );
        peer.write_all(b"art\"}\n{\"type\":\"ready\",\"data_port\":7}\n{")
            .unwrap();
        assert!(matches!(control.receive(SHORT).unwrap(), Message::Start));
        assert!(matches!(
            control.receive(SHORT).unwrap(),
            Message::Ready { data_port: 7 }
        ));
        assert!(control.try_receive().unwrap().is_none());
        drop(peer);
        assert!(
            control
                .receive(SHORT)
                .unwrap_err()
                .to_string()
                .contains("closed")
        );
    }

    #[test]
    fn garbage_and_error_messages_are_errors() {
        let (mut peer, mut control) = pair();
        peer.write_all(b"GET / HTTP/1.1\n").unwrap();
        assert!(
            control
                .receive(SHORT)
                .unwrap_err()
                .to_string()
                .contains("not a message")
        );
        peer.write_all(b"{\"type\":\"error\",\"message\":\"busy\"}\n")
            .unwrap();
        assert_eq!(control.receive(SHORT).unwrap_err().to_string(), "busy");
    }
}
