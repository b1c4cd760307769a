//! The data path of one connection between an application's socket and the endpoint.
//!
//! **The held byte.** When one end of an AF_UNIX connection closes with bytes unread, the other end
//! reads ECONNRESET; otherwise it reads the end. So that a killed daemon is never mistaken for the
//! end of a transfer, the last byte from the application always stays in the kernel's queue: it is
//! copied (peeked), passed on, and skipped by the next read. Closing on purpose with it unread is
//! how an error is told.
//!
//! **Edges.** Since a byte stays queued, the socket is always readable and only changes are
//! watched; [`Stream::input`] remembers that there was one, across times when the send buffer is
//! full.

use super::context::Context;
use super::listeners::Listener;
use super::memory::Why;
use super::options::{LINGER0, NODELAY, PROTOCOL, is_buffer, is_same, is_small_buffer, merge};
use super::unix;
use crate::poller::Interest;
use core::net::SocketAddr;
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use wifu_engine::Blueprint;
use wifu_engine::descriptor::Value as Param;
use wifu_engine::endpoint::ConnId;
use wifu_engine::signal::Fault;
use wifu_wire::front::{MARKER_LEN, parse_marker};
use wifu_wire::{Span, Time};

/// What every stream's socket is watched for.
pub(super) const STREAM: Interest = Interest::READ.and(Interest::EDGE);

/// The parameter that `TCP_NODELAY` is the opposite of.
const NAGLE: &str = "nagle";

/// How long a connection that its application destroyed may take to bring the peer what the
/// application wrote before: a lost segment is repeated once.
const LAST_WORDS: Span = Span(3_000_000_000);

/// What becomes of a stream after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Keep,
    /// It is over: close the socket. The fault is for those who ask why.
    Over(Option<Fault>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The application waits in `connect`: its frame stays queued.
    Connecting,
    /// The application has not called `accept`, which sends the marker.
    Greeting,
    Open,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) conn: ConnId,
    pub(super) cookie: Option<u64>,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    /// `SO_LINGER` with time 0.
    pub(super) linger0: bool,
    /// The user whose listening socket it came to, which need not be the one who accepts.
    pub(super) listener_uid: Option<u32>,
    /// Who accepted it, once that is known.
    pub(super) accepter: Option<unix::Peer>,
    /// The composition as it was asked for.
    pub(super) spec: String,
    phase: Phase,
    hold: bool,
    /// The first byte in the queue was passed on already.
    held: bool,
    /// Bytes to throw away before data comes: what is left of frame or marker.
    discard: usize,
    /// The queue may hold something new.
    input: bool,
    app_ended: bool,
    app_gone: bool,
    app_reset: bool,
    fin_sent: bool,
    /// The socket takes no more.
    blocked: bool,
    /// Its room is watched.
    watched: bool,
    /// It was told to have room that nobody waited for: watching it costs and gives nothing.
    idle_watch: bool,
    /// The application wants no more data.
    deaf: bool,
    peer_ended: bool,
    end_told: bool,
    over: Option<Option<Fault>>,
    /// Why packets do not arrive, as the network says since the peer was last heard.
    doubt: Option<i32>,
    /// The application is gone and left data unread: when the connection is destroyed at last.
    doomed: Option<Time>,
}

impl Stream {
    fn new(conn: ConnId, local: SocketAddr, remote: SocketAddr, phase: Phase) -> Stream {
        Stream {
            conn,
            cookie: None,
            local,
            remote,
            linger0: false,
            listener_uid: None,
            accepter: None,
            spec: String::new(),
            phase,
            hold: true,
            held: true,
            discard: 0,
            input: false,
            app_ended: false,
            app_gone: false,
            app_reset: false,
            fin_sent: false,
            blocked: false,
            watched: false,
            idle_watch: false,
            deaf: false,
            peer_ended: false,
            end_told: false,
            over: None,
            doubt: None,
            doomed: None,
        }
    }

    /// For a connection that an application opens with a frame of `total` bytes.
    pub(super) fn connecting(
        conn: ConnId,
        (local, remote): (SocketAddr, SocketAddr),
        total: usize,
        hold: bool,
    ) -> Stream {
        let mut s = Stream::new(conn, local, remote, Phase::Connecting);
        (s.hold, s.held) = (hold, hold);
        s.discard = total - usize::from(hold);
        s
    }

    /// For a connection that an application is to accept.
    pub(super) fn accepted(conn: ConnId, local: SocketAddr, remote: SocketAddr) -> Stream {
        Stream::new(conn, local, remote, Phase::Greeting)
    }

    /// Whether the application waits in `connect`.
    pub(super) fn is_connecting(&self) -> bool {
        self.phase == Phase::Connecting
    }

    /// Octets that the peer has not acknowledged, those that still are in the socket included.
    pub(super) fn unsent(&self, fd: BorrowedFd<'_>, cx: &Context<'_>) -> usize {
        let taken = cx
            .endpoint
            .conn(self.conn)
            .map_or(0, |c| c.board().unacked());
        let passed_on = self.discard + usize::from(self.held);
        taken as usize + unix::queued(fd).saturating_sub(passed_on)
    }

    /// `TCP_NODELAY`: means nothing to compositions that never wait anyway.
    pub(super) fn set_nodelay(&self, on: bool, cx: &mut Context<'_>) {
        let waits = |b: &Blueprint| matches!(b.value(NAGLE), Some(Param::Flag(_)));
        let conn = cx.endpoint.conn(self.conn);
        if conn.is_some_and(|c| waits(c.blueprint())) {
            let nagle = if on { "off" } else { "on" };
            if let Err(e) = cx.endpoint.set_param(cx.now, self.conn, NAGLE, nagle) {
                tracing::debug!("TCP_NODELAY: {e}");
            }
        }
    }

    /// Gives a connection what its listening socket has, and those do not that share its port. The
    /// size of buffers, which a connection has from the beginning, is what they agree on.
    pub(super) fn tune(&mut self, listener: &Listener, cx: &mut Context<'_>) {
        if is_same(&self.spec, &listener.whole()) {
            return;
        }
        for (name, value) in listener.tuned.iter().filter(|(n, _)| !is_buffer(n)) {
            if let Err(why) = self.set((name, value), cx) {
                tracing::debug!("{name} of a listening socket: {why:?}");
            }
        }
    }

    /// Sets an option while the connection exists.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn set(
        &mut self,
        (name, value): (&str, &str),
        cx: &mut Context<'_>,
    ) -> Result<(), Why> {
        match name {
            LINGER0 => self.linger0 = value == "on",
            NODELAY => self.set_nodelay(value == "on", cx),
            PROTOCOL => {
                let text = "the protocol is fixed once the connection exists";
                return Err(Why::text(libc::EISCONN, text));
            }
            // Programs size buffers whenever they like. Here it counts before the connection; but
            // a byte that is held must not fill a small buffer.
            n if is_buffer(n) => {
                if is_small_buffer(n, value) {
                    self.let_go();
                }
            }
            _ => match cx.endpoint.set_param(cx.now, self.conn, name, value) {
                Ok(_) => self.spec = merge(&self.spec, [(name, value)]),
                Err(e) => return Err(Why::text(libc::EINVAL, e.to_string())),
            },
        }
        Ok(())
    }

    /// Holds no byte from now on: its application's send buffer has no room for that.
    fn let_go(&mut self) {
        self.hold = false;
        if core::mem::take(&mut self.held) {
            self.discard += 1;
            self.input = true;
        }
    }

    /// Something happened at the application's socket.
    pub(super) fn on_socket(&mut self, event: &crate::poller::Event) {
        self.input |= event.readable() || event.half_closed() || event.hung_up();
        self.app_ended |= event.half_closed() || event.hung_up();
        self.app_gone |= event.hung_up();
        self.app_reset |= event.failed();
        self.idle_watch = event.writable() && !self.blocked;
        self.blocked &= !event.writable();
    }

    /// There may be input that no event has told of yet.
    pub(super) fn look(&mut self) {
        self.input = true;
    }

    pub(super) fn on_connected(&mut self) {
        self.phase = Phase::Open;
        self.input = true;
    }

    /// The peer will send no more, of which the application is told once it has read everything.
    pub(super) fn on_peer_ended(&mut self) {
        self.peer_ended = true;
    }

    /// The network says why packets do not arrive; that may pass.
    pub(super) fn doubt(&mut self, errno: i32) {
        self.doubt = Some(errno);
    }

    /// The peer was heard.
    pub(super) fn trust(&mut self) {
        self.doubt = None;
    }

    /// What a fault of the connection is called.
    pub(super) fn errno(&self, fault: Fault) -> i32 {
        match fault {
            Fault::Refused => libc::ECONNREFUSED,
            // A RST in answer to a SYN is a refusal, whatever the manager calls it.
            Fault::Reset if self.is_connecting() => libc::ECONNREFUSED,
            Fault::Reset => libc::ECONNRESET,
            Fault::TimedOut => self.doubt.unwrap_or(libc::ETIMEDOUT),
            Fault::Aborted => libc::ECONNABORTED,
        }
    }

    /// The connection is over, regularly or by a fault.
    pub(super) fn on_over(&mut self, fault: Option<Fault>) {
        self.over = Some(fault);
    }

    /// Does all that can be done now.
    pub(super) fn advance(&mut self, fd: BorrowedFd<'_>, token: u64, cx: &mut Context<'_>) -> Step {
        if self.app_reset || self.doomed.is_some() {
            // Closed with data unread, or before it accepted: in TCP, too, that is a reset.
            return self.destroy(fd, cx);
        }
        if self.phase == Phase::Connecting {
            return self.wait_for_connection(cx);
        }
        self.pump_out(fd, cx);
        if self.phase == Phase::Greeting && !self.greet(fd) {
            cx.endpoint.abort(cx.now, self.conn);
            return Step::Over(Some(Fault::Aborted));
        }
        if self.phase == Phase::Open {
            self.pump_in(fd, cx);
        }
        let step = self.finish(fd, cx);
        if step == Step::Keep {
            self.watch_room(fd, token, cx);
        }
        step
    }

    /// When [`Stream::advance`] is to be called whatever happens; never, for most.
    pub(super) fn deadline(&self) -> Time {
        self.doomed.unwrap_or(Time::NEVER)
    }

    /// The application is gone, and what it did not read is lost. What it wrote before goes out
    /// first, as in TCP, where it would be on its way already: an early answer of a server reaches
    /// the client. The reset waits for its acknowledgement, but not forever.
    fn destroy(&mut self, fd: BorrowedFd<'_>, cx: &mut Context<'_>) -> Step {
        if self.phase == Phase::Greeting {
            // It may have accepted, answered and closed since it was last looked at.
            self.greet(fd);
        }
        if self.phase == Phase::Open && self.over.is_none() && !self.linger0 {
            self.input = true;
            self.pump_in(fd, cx);
            let board = cx.endpoint.conn(self.conn).map(|c| c.board());
            let waits = self.input || board.is_some_and(|b| b.unacked() > 0);
            let until = *self.doomed.get_or_insert(cx.now + LAST_WORDS);
            if waits && cx.now < until {
                return Step::Keep;
            }
        }
        cx.endpoint.abort(cx.now, self.conn);
        Step::Over(None)
    }

    fn watch_room(&mut self, fd: BorrowedFd<'_>, token: u64, cx: &mut Context<'_>) {
        let wanted = self.blocked || (self.watched && !self.idle_watch);
        if wanted == self.watched {
            return;
        }
        let room = if wanted {
            Interest::WRITE
        } else {
            Interest::NONE
        };
        // The descriptor is watched already, so nothing can be missing.
        let _ = cx.poller.modify(fd, token, STREAM.and(room));
        self.watched = wanted;
    }

    fn wait_for_connection(&mut self, cx: &mut Context<'_>) -> Step {
        if self.app_gone {
            cx.endpoint.abort(cx.now, self.conn);
            return Step::Over(None);
        }
        match self.over {
            Some(fault) => {
                cx.endpoint.close(cx.now, self.conn);
                Step::Over(fault.or(Some(Fault::Refused)))
            }
            None => Step::Keep,
        }
    }

    /// Looks for the marker; false if something else comes first.
    fn greet(&mut self, fd: BorrowedFd<'_>) -> bool {
        if unix::queued(fd) < MARKER_LEN {
            return !self.app_gone;
        }
        let mut marker = [0; MARKER_LEN];
        let Ok((MARKER_LEN, sender)) = unix::peek_sender(fd, &mut marker) else {
            return false;
        };
        self.accepter = sender;
        let Some((cookie, hold)) = parse_marker(&marker) else {
            return false;
        };
        self.cookie = Some(cookie);
        (self.hold, self.held) = (hold, hold);
        self.discard = MARKER_LEN - usize::from(hold);
        self.phase = Phase::Open;
        self.input = true;
        true
    }

    /// From the application into the send buffer, as much as there is room for.
    fn pump_in(&mut self, fd: BorrowedFd<'_>, cx: &mut Context<'_>) {
        while self.input {
            let queued = unix::queued(fd);
            if self.discard > 0 {
                self.input = self.throw_away(fd, queued);
                continue;
            }
            let fresh = queued.saturating_sub(usize::from(self.held));
            if fresh == 0 {
                self.input = false;
                return;
            }
            let [a, b] = cx.endpoint.write_space(self.conn);
            let take = fresh.min(a.len() + b.len());
            if take == 0 {
                // The endpoint tells when there is room.
                return;
            }
            let held = self.held;
            let taken = self.take_into(fd, a, b, take, take == fresh);
            let n = taken.unwrap_or(0);
            if taken.is_err() || (n == 0 && held == self.held) {
                // What is counted and not given must not be asked for again and again.
                self.input = false;
                return;
            }
            cx.endpoint.wrote(cx.now, self.conn, n);
        }
    }

    /// Takes part of frame or marker off the queue; false if there was nothing.
    fn throw_away(&mut self, fd: BorrowedFd<'_>, queued: usize) -> bool {
        let mut scratch = [0; 16384];
        let n = queued.min(self.discard).min(scratch.len());
        match unix::take(fd, &mut scratch[..n]) {
            Ok(got) if got > 0 => {
                self.discard -= got;
                true
            }
            _ => false,
        }
    }

    /// Reads `take` new bytes into the two pieces; if they are `all` that is queued, the last of
    /// them is held. Returns how many it were.
    fn take_into(
        &mut self,
        fd: BorrowedFd<'_>,
        a: &mut [u8],
        b: &mut [u8],
        take: usize,
        all: bool,
    ) -> Result<usize, Errno> {
        let hold = self.hold && all;
        let plain = take - usize::from(hold);
        let skip = usize::from(self.held);
        if skip + plain > 0 {
            let mut skipped = [0; 1];
            let (x, y) = (plain.min(a.len()), plain.saturating_sub(a.len()));
            let mut pieces = [
                IoSliceMut::new(&mut skipped[..skip]),
                IoSliceMut::new(&mut a[..x]),
                IoSliceMut::new(&mut b[..y]),
            ];
            let n = unix::take_vectored(fd, &mut pieces)?;
            self.held = false;
            if n < skip + plain {
                // The kernel stops at descriptors passed along and at urgent data, which mean
                // nothing here.
                return Ok(n.saturating_sub(skip));
            }
        }
        if hold {
            let slot = if plain < a.len() {
                &mut a[plain]
            } else {
                &mut b[plain - a.len()]
            };
            if unix::peek(fd, core::slice::from_mut(slot))? != 1 {
                return Ok(plain);
            }
            self.held = true;
        }
        Ok(take)
    }

    /// From the receive buffer to the application, as much as its socket takes.
    fn pump_out(&mut self, fd: BorrowedFd<'_>, cx: &mut Context<'_>) {
        while !self.blocked {
            let [a, b] = cx.endpoint.readable(self.conn);
            let n = a.len() + b.len();
            if n == 0 {
                return;
            }
            let given = if self.deaf {
                Ok(n)
            } else {
                unix::give_vectored(fd, &[IoSlice::new(a), IoSlice::new(b)])
            };
            match given {
                Ok(n) => cx.endpoint.consumed(cx.now, self.conn, n),
                Err(Errno::AGAIN) => self.blocked = true,
                // It shut down its reading side: TCP takes such data and drops it.
                Err(_) => self.deaf = true,
            }
        }
    }

    /// Ends what has come to its end.
    fn finish(&mut self, fd: BorrowedFd<'_>, cx: &mut Context<'_>) -> Step {
        let [unread, _] = cx.endpoint.readable(self.conn);
        let unread = !unread.is_empty();
        if self.app_ended && !self.input {
            if self.app_gone {
                // As in TCP: who closes with data unread destroys the connection. After both ends
                // were told the kernel reports the same without a close: nothing is left to do
                // either way, and an application that is still there must find an end.
                if !self.end_told && (self.linger0 || unread) {
                    return self.destroy(fd, cx);
                }
                cx.endpoint.close(cx.now, self.conn);
                self.release(fd);
                return Step::Over(None);
            }
            if !self.fin_sent {
                self.fin_sent = true;
                cx.endpoint.shutdown_write(cx.now, self.conn);
            }
        }
        if unread {
            return Step::Keep;
        }
        if self.peer_ended && !self.end_told {
            self.end_told = true;
            unix::end_writing(fd);
        }
        match self.over {
            // It has its socket, what came and the end first, as from a kernel's queue.
            Some(_) if self.phase == Phase::Greeting => Step::Keep,
            Some(fault) => {
                cx.endpoint.close(cx.now, self.conn);
                if fault.is_none() {
                    self.release(fd);
                }
                Step::Over(fault)
            }
            None => Step::Keep,
        }
    }

    /// Empties the queue, so that closing is an end and not a reset.
    fn release(&mut self, fd: BorrowedFd<'_>) {
        let mut scratch = [0; 16384];
        while let Ok(n) = unix::take(fd, &mut scratch) {
            if n == 0 {
                return;
            }
        }
    }
}
