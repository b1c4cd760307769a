//! The netlink socket of our queues: set-up, packets in batches, verdicts in batches.

use super::message::{self, Message, Queued};
use super::watch::Shared;
use crate::poller::Poller;
use crate::sys::RecvBatch;
use core::num::NonZeroU32;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send,
    socket_with, sockopt,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use wifu_core::Hook;
use wifu_wire::{Span, Time};

/// Messages taken by one call; each may be as long as an IP packet.
const BATCH: usize = 32;
/// The longest message: a packet of 65535 octets and what is said of it.
const LONGEST: usize = (64 << 10) + 1024;
/// Verdicts are handed over when they have grown to this.
const HAND_OVER: usize = 48 << 10;
/// Before verdicts that the kernel had no memory for are handed over again.
const FOR_MEMORY: Span = Span(1_000_000);
/// `NETLINK_NETFILTER`.
const NETFILTER: NonZeroU32 = NonZeroU32::new(12).expect("not zero");
/// Netlink's sockets, for options.
const SOL_NETLINK: libc::c_int = 270;
/// Answers to requests leave the request out.
const NETLINK_CAP_ACK: libc::c_int = 10;

/// The queues' socket, which two threads may use.
#[derive(Clone)]
pub(crate) struct Socket(Arc<OwnedFd>);

impl Socket {
    /// A socket without queues.
    pub(crate) fn open(receive_buffer: usize) -> io::Result<Socket> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let protocol = Some(Protocol::from_raw(NETFILTER));
        let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        sockopt::set_socket_recv_buffer_size_force(&fd, receive_buffer)?;
        // What is handed over at once must fit, whatever the system's default is.
        sockopt::set_socket_send_buffer_size_force(&fd, 4 * (HAND_OVER + LONGEST))?;
        crate::sys::set_option(&fd, SOL_NETLINK, NETLINK_CAP_ACK, 1 as libc::c_int)?;
        Ok(Socket(Arc::new(fd)))
    }

    /// Bind the queue of a hook: packets that rules send there wait for our verdicts from now on.
    pub(crate) fn bind(&self, hook: Hook, length: u32, flags: u32) -> io::Result<()> {
        self.ask(&message::bind(hook.number(), true))?;
        self.ask(&message::set_up(hook.number(), length, flags))
    }

    /// Give a queue up, whoever else still has this socket. What waits in it is dropped.
    pub(crate) fn unbind(&self, hook: Hook) -> io::Result<()> {
        self.ask(&message::bind(hook.number(), false))
    }

    /// Send a request and wait for its answer.
    fn ask(&self, request: &[u8]) -> io::Result<()> {
        send(&*self.0, request, SendFlags::empty())?;
        let mut room = vec![0; LONGEST];
        let patience = Timespec {
            tv_sec: 2,
            tv_nsec: 0,
        };
        loop {
            let mut waiting = [PollFd::new(&*self.0, PollFlags::IN)];
            if retry_on_intr(|| poll(&mut waiting, Some(&patience)))? == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let length = match recv(&*self.0, &mut room[..], RecvFlags::empty()) {
                Ok((length, _)) => length,
                Err(rustix::io::Errno::NOBUFS) => continue,
                Err(e) => return Err(e.into()),
            };
            let mut answer = None;
            message::read(&room[..length], |m| {
                if let Message::Answer(e) = m {
                    answer = Some(e);
                }
            });
            match answer {
                Some(0) => return Ok(()),
                Some(e) => return Err(io::Error::from_raw_os_error(-e)),
                // A packet: there are no rules yet, or no more.
                None => {}
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What a look at the socket found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// So many messages, to be read before the next look.
    Some(usize),
    /// Nothing waits.
    Empty,
    /// The receive buffer was full: packets were lost, or let pass.
    Overflow,
}

/// Receives messages in batches.
pub(crate) struct Inbox {
    socket: Socket,
    batch: RecvBatch,
}

impl Inbox {
    pub(crate) fn new(socket: Socket) -> Inbox {
        let batch = RecvBatch::new(BATCH, LONGEST);
        Inbox { socket, batch }
    }

    /// Take what waits, up to a batch; never blocks.
    pub(crate) fn look(&mut self) -> io::Result<Look> {
        match self.batch.receive(&self.socket) {
            Ok(n) => Ok(Look::Some(n)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(Look::Empty),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(Look::Empty),
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => Ok(Look::Overflow),
            Err(e) => Err(e),
        }
    }

    /// The packets of message `i`, and how many requests of ours failed.
    pub(crate) fn each<'a>(&'a self, i: usize, mut packet: impl FnMut(Queued<'a>)) -> u64 {
        let mut failed = 0;
        message::read(self.batch.message(i).0, |m| match m {
            Message::Packet(queued) => packet(queued),
            Message::Answer(0) => {}
            Message::Answer(_) => failed += 1,
        });
        failed
    }
}

/// Gathers verdicts and hands them over in one call.
pub(crate) struct Outbox {
    socket: Socket,
    octets: Vec<u8>,
    refused: u64,
    /// Whose verdicts they are, if handlers'.
    handlers: Option<Arc<Shared>>,
}

impl Outbox {
    pub(crate) fn new(socket: Socket) -> Outbox {
        Outbox {
            socket,
            octets: Vec::with_capacity(HAND_OVER + LONGEST),
            refused: 0,
            handlers: None,
        }
    }

    /// For verdicts of handlers: once they are replaced, no more are handed over.
    pub(crate) fn of_handlers(socket: Socket, shared: Arc<Shared>) -> Outbox {
        let handlers = Some(shared);
        Outbox {
            handlers,
            ..Outbox::new(socket)
        }
    }

    /// What becomes of a packet, and what takes its place.
    pub(crate) fn verdict(&mut self, ticket: Ticket, accept: bool, payload: Option<&[u8]>) {
        message::verdict(&mut self.octets, ticket.queue, ticket.id, accept, payload);
        if self.octets.len() >= HAND_OVER {
            self.hand_over();
        }
    }

    /// What becomes of all packets of a queue up to this one.
    pub(crate) fn verdict_up_to(&mut self, ticket: Ticket, accept: bool) {
        message::verdict_up_to(&mut self.octets, ticket.queue, ticket.id, accept);
    }

    /// Hand over what was gathered. What the kernel has no memory for stays, for the next time:
    /// else its packets would wait for ever.
    pub(crate) fn hand_over(&mut self) {
        if self.octets.is_empty() {
            return;
        }
        let turn = self.handlers.as_ref().map(|shared| shared.turn());
        if turn.as_ref().is_some_and(Option::is_none) {
            return;
        }
        let mut sent = match self.give(&self.octets) {
            Ok(()) => self.octets.len(),
            // One by one they need less at a time.
            Err(_) => 0,
        };
        while sent < self.octets.len() {
            let rest = &self.octets[sent..];
            let one = &rest[..message::first_length(rest)];
            match self.give(one) {
                Err(e) if is_short_of_memory(e) => {
                    self.refused += 1;
                    break;
                }
                Err(e) => tracing::error!("the kernel did not take a verdict: {e}"),
                Ok(()) => {}
            }
            sent += one.len();
        }
        self.octets.drain(..sent);
    }

    fn give(&self, messages: &[u8]) -> rustix::io::Result<()> {
        send(&self.socket, messages, SendFlags::empty()).map(|_| ())
    }

    /// Whether verdicts wait for memory. Whoever gathers more meanwhile only makes it worse.
    pub(crate) fn is_stuck(&self) -> bool {
        !self.octets.is_empty()
    }

    /// How long one may sleep who would until `deadline`: nothing tells when there is memory again.
    pub(crate) fn wake_by(&self, deadline: Time) -> Time {
        if self.is_stuck() {
            deadline.min(Poller::now() + FOR_MEMORY)
        } else {
            deadline
        }
    }

    /// Give the kernel time to find memory.
    pub(crate) fn wait_for_memory(&self) {
        std::thread::sleep(Duration::from_nanos(FOR_MEMORY.0));
    }

    /// Hand over what was gathered, again and again if need be, but not after `until`.
    pub(crate) fn hand_over_until(&mut self, until: Time) {
        self.hand_over();
        while self.is_stuck() && Poller::now() < until {
            self.wait_for_memory();
            self.hand_over();
        }
    }

    /// Times that the kernel had no memory for a verdict.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }
}

fn is_short_of_memory(e: rustix::io::Errno) -> bool {
    use rustix::io::Errno;
    matches!(e, Errno::NOBUFS | Errno::NOMEM | Errno::AGAIN)
}

/// A packet's name in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Ticket {
    pub(crate) queue: u16,
    pub(crate) id: u32,
}

impl Ticket {
    pub(crate) fn number(self) -> u64 {
        u64::from(self.queue) << 32 | u64::from(self.id)
    }

    pub(crate) fn of(number: u64) -> Ticket {
        Ticket {
            queue: (number >> 32) as u16,
            id: number as u32,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::core::watch::State;
    use std::os::unix::net::UnixDatagram;

    /// A socket whose other end, in the kernel's place, has no room: what is handed over is
    /// refused until that end reads.
    pub(crate) fn full_socket() -> (Socket, UnixDatagram) {
        let (ours, kernel) = UnixDatagram::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut stuffed = 0;
        while ours.send(&[0]).is_ok() {
            stuffed += 1;
        }
        assert!(stuffed > 1);
        (Socket(Arc::new(OwnedFd::from(ours))), kernel)
    }

    /// What was handed over within `patience`, without what the socket was filled with.
    pub(crate) fn handed_over(kernel: &UnixDatagram, patience: Duration) -> Vec<u8> {
        let until = std::time::Instant::now() + patience;
        kernel.set_read_timeout(Some(patience / 10)).unwrap();
        let mut room = [0; 1 << 16];
        let mut seen = Vec::new();
        while std::time::Instant::now() < until {
            match kernel.recv(&mut room) {
                Ok(n) if room[..n] != [0] => seen.extend_from_slice(&room[..n]),
                Ok(_) => {}
                Err(_) if !seen.is_empty() => break,
                Err(_) => {}
            }
        }
        seen
    }

    #[test]
    fn verdicts_that_there_is_no_memory_for_are_handed_over_later_in_order_and_once() {
        let (ours, kernel) = full_socket();
        kernel.set_nonblocking(true).unwrap();
        let mut outbox = Outbox::new(ours);
        let mut expected = Vec::new();
        for id in 0..100 {
            let payload = (id % 3 == 0).then_some(&[7u8; 61][..]);
            message::verdict(&mut expected, 2, id, id % 2 == 0, payload);
            outbox.verdict(Ticket { queue: 2, id }, id % 2 == 0, payload);
        }
        outbox.hand_over();
        assert!(outbox.is_stuck());
        assert_eq!(outbox.refused(), 1);
        let mut room = [0; 1 << 16];
        let mut seen = Vec::new();
        let mut calls = 0;
        while seen.len() < expected.len() {
            // Room for one message at a time, so that gathering breaks up.
            let n = kernel.recv(&mut room).expect("something was handed over");
            if room[..n] != [0] {
                seen.extend_from_slice(&room[..n]);
            }
            outbox.hand_over();
            calls += 1;
            assert!(calls < 10_000);
        }
        assert_eq!(seen, expected);
        assert!(!outbox.is_stuck());
        assert!(kernel.recv(&mut room).is_err(), "nothing comes twice");
    }

    #[test]
    fn handlers_that_were_replaced_hand_no_verdict_over() {
        let (ours, kernel) = full_socket();
        handed_over(&kernel, Duration::from_millis(100));
        let (sender, _lines) = std::sync::mpsc::sync_channel(1);
        let watcher = Poller::new(crate::poller::Coalesce::OFF).unwrap();
        let shared = Shared::new(sender, watcher.waker());
        let mut outbox = Outbox::of_handlers(ours, shared.clone());
        let mut expected = Vec::new();
        message::verdict(&mut expected, 2, 1, true, None);
        for id in [1, 2] {
            outbox.verdict(Ticket { queue: 2, id }, true, None);
            outbox.hand_over();
            shared.replace(State::Stalled);
        }
        outbox.hand_over_until(Poller::now() + FOR_MEMORY);
        let seen = handed_over(&kernel, Duration::from_millis(100));
        assert_eq!(seen, expected);
    }
}
