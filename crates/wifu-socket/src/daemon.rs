//! Talking to the daemon: one short-lived connection per question.

use crate::config::config;
use crate::note::Once;
use crate::root;
use crate::sys::{self, Errno, Result};
use core::ffi::c_int;
use wifu_wire::front::{Answer, HEADER_LEN, Header, Kind, MAX_SPEC, MAX_VALUE, Request};

/// The longest request that the library makes, bytes.
const REQUEST_ROOM: usize = MAX_VALUE + MAX_SPEC + 512;
/// The longest answer that the library waits for, bytes.
const ANSWER_ROOM: usize = 4096;
/// How long the daemon may take to answer, seconds.
const PATIENCE_S: i64 = 5;
/// How often a full accept queue of the daemon is tried again, each after one millisecond.
const CONNECT_TRIES: u32 = 1000;

/// Why a question has no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// No daemon listens.
    NoDaemon,
    /// It went away, or took no question.
    HungUp,
    /// Anything else, such as no permission for its socket or no free descriptor.
    Errno(Errno),
}

impl Failure {
    /// The errno for an application that needs the daemon now.
    pub fn errno(self) -> Errno {
        match self {
            Failure::NoDaemon | Failure::HungUp => Errno(libc::ENETDOWN),
            Failure::Errno(e) => e,
        }
    }
}

/// An answer in its buffer.
pub struct Reply {
    bytes: [u8; ANSWER_ROOM],
    len: usize,
}

impl Reply {
    /// The answer; an empty one with `EPROTO` if it can't be read.
    pub fn answer(&self) -> Answer<'_> {
        Answer::decode(&self.bytes[HEADER_LEN..self.len])
            .unwrap_or(Answer::errno(libc::EPROTO as u32))
    }
}

/// Connects `fd` to the daemon's socket and says so on standard error if there is none.
pub fn connect(fd: c_int) -> core::result::Result<(), Failure> {
    static NONE: Once = Once::new();
    static DENIED: Once = Once::new();
    let path = config().path();
    let mut tries = 0;
    loop {
        match root::connect(fd, path.as_bytes()) {
            Ok(()) => return Ok(()),
            Err(Errno(libc::EAGAIN)) if tries < CONNECT_TRIES => {
                tries += 1;
                // Nothing is waited for but time: the descriptor is not connected yet.
                let _ = sys::poll(-1, 0, Some(1));
            }
            Err(Errno(libc::ENOENT | libc::ECONNREFUSED | libc::ENOTDIR)) => {
                let path = path.as_str();
                NONE.say(format_args!(
                    "no daemon at {path}: start one with `wifu daemon`"
                ));
                return Err(Failure::NoDaemon);
            }
            Err(Errno(e @ (libc::EACCES | libc::EPERM))) => {
                let path = path.as_str();
                DENIED.say(format_args!("no permission for the daemon's socket {path}"));
                return Err(Failure::Errno(Errno(e)));
            }
            Err(e) => return Err(Failure::Errno(e)),
        }
    }
}

/// Asks the daemon and waits for the answer, at most some seconds.
pub fn ask(request: &Request<'_>) -> core::result::Result<Reply, Failure> {
    let fd = sys::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0)
        .map_err(Failure::Errno)?;
    let reply = ask_on(fd, request);
    sys::close(fd);
    reply
}

fn ask_on(fd: c_int, request: &Request<'_>) -> core::result::Result<Reply, Failure> {
    let mut frame = [0; REQUEST_ROOM];
    let n = request
        .encode(&mut frame, 0)
        .map_err(|_| Failure::Errno(Errno(libc::EINVAL)))?;
    let patience = libc::timeval {
        tv_sec: PATIENCE_S,
        tv_usec: 0,
    };
    for name in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        sys::setsockopt(fd, libc::SOL_SOCKET, name, patience).map_err(Failure::Errno)?;
    }
    connect(fd)?;
    // The frame is far smaller than any send buffer, so it goes at once or not at all.
    sys::send(fd, &frame[..n], libc::MSG_NOSIGNAL).map_err(gone)?;
    let mut reply = Reply {
        bytes: [0; ANSWER_ROOM],
        len: 0,
    };
    loop {
        if let Some(total) = total(&reply.bytes[..reply.len])?
            && reply.len >= total
        {
            reply.len = total;
            return Ok(reply);
        }
        match sys::recv(fd, &mut reply.bytes[reply.len..], 0) {
            Ok(0) => return Err(gone(Errno(libc::EPIPE))),
            Ok(n) => reply.len += n,
            Err(Errno(libc::EINTR)) => {}
            Err(e) => return Err(gone(e)),
        }
    }
}

/// The length of an answer frame once its header is there.
fn total(b: &[u8]) -> core::result::Result<Option<usize>, Failure> {
    let bad = Failure::Errno(Errno(libc::EPROTO));
    match Header::decode(b) {
        Ok(Some(h)) if h.kind == Kind::Answer && h.total() <= ANSWER_ROOM => Ok(Some(h.total())),
        Ok(None) => Ok(None),
        _ => Err(bad),
    }
}

fn gone(e: Errno) -> Failure {
    match e.0 {
        libc::EPIPE | libc::ECONNRESET => {
            hung_up();
            Failure::HungUp
        }
        _ => Failure::Errno(e),
    }
}

/// Says that the daemon closed a socket before it took the question.
pub fn hung_up() {
    static SAID: Once = Once::new();
    SAID.say(format_args!(
        "the daemon hung up: it ended, or too many sockets of this user wait for it"
    ));
}

/// Asks, and turns the daemon's errno into ours.
pub fn ask_ok(request: &Request<'_>) -> Result<Reply> {
    let reply = ask(request).map_err(Failure::errno)?;
    match reply.answer().errno {
        0 => Ok(reply),
        e => Err(Errno(e as c_int)),
    }
}
