//! A connection of an application that never blocks: what is to be written into it by now, and how
//! much was read from it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wifu_linux::bsd::{self, TcpInfo};

use crate::perf::control::plain;
use crate::perf::measured::{Counted, Stack};

/// Writes in a row before others have their turn.
const TURN: usize = 16;

/// One end of a connection.
#[derive(Debug)]
pub struct Conn {
    socket: TcpStream,
    /// It is established.
    open: bool,
    /// Bytes that the application wants written by now; `u64::MAX` is without end.
    goal: u64,
    written: u64,
    read: u64,
    /// Nothing will be added to the goal.
    last: bool,
    shut: bool,
    /// The peer writes nothing more.
    over: bool,
}

/// What happened to a connection.
#[derive(Debug, Default, Clone, Copy)]
pub struct News {
    /// Bytes that the socket took.
    pub wrote: u64,
    /// Bytes that came out of it.
    pub read: u64,
    /// The peer writes nothing more.
    pub over: bool,
}

impl Conn {
    /// Begins to connect to `remote`.
    pub fn connect(socket: OwnedFd, remote: SocketAddr) -> io::Result<Self> {
        let (socket, open) = bsd::begin_to_connect(socket, remote)?;
        Ok(Self::new(socket, open))
    }

    /// One that was accepted.
    pub fn accepted(socket: TcpStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self::new(socket, true))
    }

    fn new(socket: TcpStream, open: bool) -> Self {
        Self {
            socket,
            open,
            goal: 0,
            written: 0,
            read: 0,
            last: false,
            shut: false,
            over: false,
        }
    }

    /// Whether it is established.
    pub fn open(&self) -> bool {
        self.open
    }

    /// The address of this end.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr().map(plain)
    }

    /// All that is ever written into it, once that is known.
    pub fn whole(&self) -> Option<u64> {
        (self.last && self.goal < u64::MAX).then_some(self.goal)
    }

    /// All that it is given to write so far.
    pub fn goal(&self) -> u64 {
        self.goal
    }

    /// Bytes read from it so far.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// The connection's state, if the stack tells and it is not over.
    pub fn info(&self) -> Option<TcpInfo> {
        let info = bsd::tcp_info(&self.socket).ok()?;
        (info.snd_mss > 0).then_some(info)
    }

    /// What its stack has counted; `info` is the connection's state.
    pub fn stack(&self, info: &TcpInfo) -> Stack {
        let counted = bsd::counted(&self.socket).ok();
        Stack::new(info, counted.and_then(|text| Counted::of(&text)))
    }

    /// Have so many more bytes written; `last`: nothing follows.
    pub fn write_more(&mut self, bytes: u64, last: bool) {
        self.goal = self.goal.saturating_add(bytes);
        self.last |= last;
    }

    /// Have written so many bytes in all, if it is more than before.
    pub fn write_up_to(&mut self, bytes: u64) {
        self.goal = self.goal.max(bytes);
    }

    /// What is not written yet never will be.
    pub fn write_no_more(&mut self) {
        (self.goal, self.last) = (self.written, true);
    }

    fn interest(&self) -> PollFlags {
        let writes = !self.open || self.written < self.goal || (self.last && !self.shut);
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::OUT, writes);
        flags.set(PollFlags::IN, self.open && !self.over);
        flags
    }

    /// Does what can be done, now that the socket is `ready` for it. `block` is written from,
    /// `buffer` read into.
    pub fn progress(
        &mut self,
        ready: PollFlags,
        block: &[u8],
        buffer: &mut [u8],
    ) -> io::Result<News> {
        let mut news = News::default();
        if !self.open {
            if ready.is_empty() {
                return Ok(news);
            }
            if let Some(error) = self.socket.take_error()? {
                return Err(error);
            }
            self.open = true;
        }
        news.wrote = self.write(block)?;
        if !self.over && ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            match self.socket.read(buffer) {
                Ok(0) => self.over = true,
                Ok(count) => news.read = count as u64,
                Err(error) if passes(&error) => {}
                Err(error) => return Err(error),
            }
        }
        self.read += news.read;
        news.over = self.over;
        Ok(news)
    }

    fn write(&mut self, block: &[u8]) -> io::Result<u64> {
        let before = self.written;
        for _ in 0..TURN {
            let left = usize::try_from(self.goal - self.written).unwrap_or(usize::MAX);
            if left == 0 {
                break;
            }
            match self.socket.write(&block[..left.min(block.len())]) {
                Ok(count) => self.written += count as u64,
                Err(error) if passes(&error) => break,
                Err(error) => return Err(error),
            }
        }
        if self.last && self.written == self.goal && !self.shut {
            self.socket.shutdown(Shutdown::Write)?;
            self.shut = true;
        }
        Ok(self.written - before)
    }
}

fn passes(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Waits until something can be read from one of `idle`, a connection is ready, or `timeout`
/// passes. For each connection, what it is ready for.
pub fn wait(
    idle: &[BorrowedFd<'_>],
    conns: &[Option<&Conn>],
    timeout: Option<Duration>,
) -> Vec<PollFlags> {
    let idle = idle
        .iter()
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN));
    let mut fds: Vec<PollFd<'_>> = idle.collect();
    let mut places = Vec::with_capacity(conns.len());
    for conn in conns {
        let wanted = conn.filter(|conn| !conn.interest().is_empty());
        places.push(wanted.map(|_| fds.len()));
        fds.extend(wanted.map(|conn| PollFd::new(&conn.socket, conn.interest())));
    }
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    // Whatever poll says, the caller looks at everything again.
    let _ = poll(&mut fds, timeout.as_ref());
    let ready = |place: Option<usize>| place.map_or(PollFlags::empty(), |at| fds[at].revents());
    places.into_iter().map(ready).collect()
}
