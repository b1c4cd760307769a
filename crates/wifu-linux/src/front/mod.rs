//! The daemon's side of the applications: their connections to the daemon's socket, their requests,
//! their data, their listening sockets.
//!
//! [`wifu_wire::front`] has the protocol's bytes; the crate `wifu-socket` has the other side and
//! the reasons. Everything is non-blocking and driven by one event loop, which hands in events of
//! the poller whose token [`is_front_token`] claims, events of the endpoint, and deadlines.

mod connections;
mod context;
mod door;
mod listeners;
mod memory;
mod options;
mod report;
mod serve;
mod stream;
#[cfg(test)]
mod tests;
mod unix;
mod users;

pub use context::{Context, Host, is_front_token};

use crate::poller::{Event, Interest, Poller};
use context::TOKEN;
use door::{DOOR, Door};
use listeners::Listeners;
use memory::Memories;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use stream::Stream;
use unix::Peer;
use users::Pending;
use wifu_engine::endpoint::{ConnId, Event as Told, ListenId};
use wifu_engine::signal::Fault;
use wifu_wire::front::{HEADER_LEN, Header, Kind, MAX_REQUEST, Request};
use wifu_wire::{Span, Time};

/// How long a new connection may take to send its frame, or an answer to leave.
const PATIENCE: Span = Span(5_000_000_000);
/// How soon a full accept queue is tried again.
const DIAL_EVERY: Span = Span(10_000_000);
/// How long a connection waits for room in the accept queue.
const DIAL_FOR: Span = Span(30_000_000_000);
/// How many connections may wait so.
const DIALS: usize = 4096;
/// How many connections are accepted before others get their turn.
const ACCEPTS: usize = 64;

/// Where the front is, and who may use it.
#[derive(Clone, Debug)]
pub struct FrontConfig {
    /// Path of the UNIX socket that applications connect to.
    pub socket: PathBuf,
    /// Its permissions, such as 0o660: who may connect may use everything.
    pub mode: u32,
    /// Its group id; `None` leaves the daemon's.
    pub group: Option<u32>,
    /// The file that keeps listening sockets for the next daemon.
    pub state: PathBuf,
}

/// What happened at the application side since the daemon began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct FrontCounters {
    /// Connections to the daemon's socket.
    pub accepted: u64,
    /// Frames that were no frames.
    pub garbage: u64,
    /// Connections that sent no frame in time, or too many at once.
    pub late: u64,
    /// Requests that got an answer, be it an error.
    pub requests: u64,
    /// Connections begun by applications.
    pub connects: u64,
    /// Connections handed to listening applications.
    pub handed: u64,
    /// Connections that a listening application did not take.
    pub untaken: u64,
    /// Listening sockets found dead.
    pub listeners_gone: u64,
}

enum Role {
    /// Has sent no whole frame.
    Fresh,
    /// Gets this answer, from this byte on.
    Answering(Vec<u8>, usize),
    /// Is the data path of a connection.
    Stream(Box<Stream>),
}

struct App {
    fd: OwnedFd,
    peer: Peer,
    role: Role,
}

#[derive(Default)]
struct Slot {
    generation: u16,
    app: Option<App>,
}

/// A connection that waits for room in an accept queue.
struct Dial {
    listener: ListenId,
    until: Time,
    peer_ended: bool,
    over: Option<Option<Fault>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Timer {
    Patience(u64),
    Dial(ConnId),
}

/// The application side of a daemon (see the module).
pub struct Front {
    door: Door,
    slots: Vec<Slot>,
    free: Vec<u32>,
    pending: Pending,
    by_conn: BTreeMap<ConnId, u64>,
    /// By cookie and user: cookies are what applications say they are.
    by_cookie: BTreeMap<(u64, u32), u64>,
    /// Streams whose application has not said its cookie.
    greeting: BTreeSet<u64>,
    dials: BTreeMap<ConnId, Dial>,
    dialled: u64,
    listeners: Listeners,
    memories: Memories,
    timers: BTreeSet<(Time, Timer)>,
    counters: FrontCounters,
}

impl Front {
    /// Opens the daemon's socket.
    ///
    /// # Errors
    /// `AddrInUse` if another daemon is there, else what the system says.
    pub fn new(config: FrontConfig, poller: &Poller) -> io::Result<Front> {
        let FrontConfig {
            socket,
            mode,
            group,
            state,
        } = config;
        Ok(Front {
            door: Door::open(socket, mode, group, poller)?,
            slots: Vec::new(),
            free: Vec::new(),
            pending: Pending::default(),
            by_conn: BTreeMap::new(),
            by_cookie: BTreeMap::new(),
            greeting: BTreeSet::new(),
            dials: BTreeMap::new(),
            dialled: 0,
            listeners: Listeners::new(state),
            memories: Memories::default(),
            timers: BTreeSet::new(),
            counters: FrontCounters::default(),
        })
    }

    /// Takes up the listening sockets of a daemon before this one, as far as they still exist.
    /// Returns how many. To be called once, before the first event.
    ///
    /// # Errors
    /// If the file can't be read.
    pub fn restore(&mut self, cx: &mut Context<'_>) -> io::Result<usize> {
        self.listeners.restore(cx)
    }

    /// Something happened at a descriptor whose token the front claims.
    pub fn on_event(&mut self, event: &Event, cx: &mut Context<'_>) {
        if event.token == DOOR {
            return self.accept(cx);
        }
        let Some(app) = self.app(event.token) else {
            return;
        };
        match &mut app.role {
            Role::Fresh => self.read_frame(event.token, cx),
            Role::Answering(..) => self.answer_on(event.token),
            Role::Stream(s) => {
                s.on_socket(event);
                self.advance(event.token, cx);
            }
        }
    }

    /// Something happened in the endpoint.
    pub fn on_endpoint_event(&mut self, conn: ConnId, told: Told, cx: &mut Context<'_>) {
        if let Told::Accepted(listener) = told {
            let until = cx.now + DIAL_FOR;
            let dial = Dial {
                listener,
                until,
                peer_ended: false,
                over: None,
            };
            return self.dial(conn, dial, cx);
        }
        if let Some(dial) = self.dials.get_mut(&conn) {
            match told {
                Told::PeerClosed => dial.peer_ended = true,
                Told::Closed(fault) => dial.over = Some(fault),
                _ => {}
            }
            return;
        }
        let Some(token) = self.by_conn.get(&conn).copied() else {
            return;
        };
        let Some(App {
            role: Role::Stream(s),
            ..
        }) = self.app(token)
        else {
            return;
        };
        match told {
            Told::Connected => s.on_connected(),
            Told::PeerClosed => s.on_peer_ended(),
            Told::Closed(fault) => s.on_over(fault),
            Told::Accepted(_) | Told::Readable | Told::Writable => {}
        }
        self.advance(token, cx);
    }

    /// When [`Front::handle_timeout`] wants to be called.
    pub fn poll_timeout(&self) -> Time {
        let timer = self.timers.first().map_or(Time::NEVER, |(at, _)| *at);
        let others = self.listeners.poll_timeout().min(self.door.poll_timeout());
        timer.min(others)
    }

    /// Do what is due: give up on silent applications, try full accept queues again, look for dead
    /// listening sockets.
    pub fn handle_timeout(&mut self, cx: &mut Context<'_>) {
        self.listeners.handle_timeout(cx);
        self.door.handle_timeout(cx);
        while let Some((at, timer)) = self.timers.first().copied() {
            if at > cx.now {
                return;
            }
            self.timers.remove(&(at, timer));
            match timer {
                Timer::Patience(token) => self.too_late(token),
                Timer::Dial(conn) => {
                    if let Some(dial) = self.dials.remove(&conn) {
                        self.dial(conn, dial, cx);
                    }
                }
            }
        }
    }

    /// What happened since the start.
    pub fn counters(&self) -> FrontCounters {
        FrontCounters {
            listeners_gone: self.listeners.gone(),
            ..self.counters
        }
    }

    /// How many applications' sockets are open.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The orderly end: the list of listening sockets stays if there are any, for the next daemon.
    pub fn close(self) {
        self.listeners.close();
    }
}

// Applications' sockets come and go.
impl Front {
    fn app(&mut self, token: u64) -> Option<&mut App> {
        let slot = self.slots.get_mut(token as u32 as usize)?;
        (slot.generation == (token >> 32) as u16).then_some(slot.app.as_mut())?
    }

    /// Keeps a socket and watches it; closes it if it can't be watched.
    fn add(&mut self, app: App, interest: Interest, cx: &Context<'_>) -> Option<u64> {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        let token = TOKEN | u64::from(slot.generation) << 32 | u64::from(index);
        if cx.poller.add(&app.fd, token, interest).is_err() {
            self.free.push(index);
            return None;
        }
        slot.app = Some(app);
        Some(token)
    }

    /// Forgets a socket; dropping what is returned closes it.
    fn remove(&mut self, token: u64) -> Option<App> {
        self.app(token)?;
        let index = token as u32;
        let app = self.slots[index as usize].app.take()?;
        self.free.push(index);
        match &app.role {
            Role::Fresh | Role::Answering(..) => self.pending.end(app.peer.uid),
            Role::Stream(s) => {
                self.greeting.remove(&token);
                self.by_conn.remove(&s.conn);
                for uid in [Some(app.peer.uid), s.listener_uid].into_iter().flatten() {
                    let key = (s.cookie.unwrap_or(0), uid);
                    if self.by_cookie.get(&key) == Some(&token) {
                        self.by_cookie.remove(&key);
                    }
                }
            }
        }
        Some(app)
    }

    fn accept(&mut self, cx: &mut Context<'_>) {
        for _ in 0..ACCEPTS {
            match self.door.accept(cx) {
                Ok((fd, peer)) => {
                    self.counters.accepted += 1;
                    if !self.pending.begin(peer.uid) {
                        self.counters.late += 1;
                        let Peer { uid, pid } = peer;
                        tracing::debug!("too many sockets of user {uid} wait: process {pid}");
                        continue;
                    }
                    let app = App {
                        fd,
                        peer,
                        role: Role::Fresh,
                    };
                    let Some(token) = self.add(app, stream::STREAM, cx) else {
                        self.pending.end(peer.uid);
                        continue;
                    };
                    self.timers
                        .insert((cx.now + PATIENCE, Timer::Patience(token)));
                    // Frames are there at once, nearly always. Reading them now keeps the order of
                    // an application's requests.
                    self.read_frame(token, cx);
                }
                Err(Errno::AGAIN) => return,
                // This one is gone already; the next may be fine.
                Err(_) => {}
            }
        }
    }

    fn too_late(&mut self, token: u64) {
        if let Some(App {
            role: Role::Fresh | Role::Answering(..),
            ..
        }) = self.app(token)
        {
            self.counters.late += 1;
            self.remove(token);
        }
    }

    /// Looks whether the whole head of a frame is there, and does what it says.
    fn read_frame(&mut self, token: u64, cx: &mut Context<'_>) {
        let mut buf = [0; HEADER_LEN + MAX_REQUEST];
        let Some(app) = self.app(token) else { return };
        let n = match unix::peek(app.fd.as_fd(), &mut buf) {
            Ok(0) => {
                self.remove(token);
                return;
            }
            Ok(n) => n,
            Err(Errno::AGAIN) => return,
            Err(_) => {
                self.remove(token);
                return;
            }
        };
        let header = match Header::decode(&buf[..n]) {
            Ok(Some(h)) if n >= HEADER_LEN + h.body as usize => h,
            Ok(_) => return,
            Err(e) => return self.refuse(token, &e),
        };
        let body = &buf[HEADER_LEN..HEADER_LEN + header.body as usize];
        match Request::decode(header.kind, body) {
            Ok(request) if header.kind == Kind::Connect => {
                self.connect(token, &request, header.total(), cx);
            }
            Ok(request) => self.serve(token, &request, header.total(), cx),
            Err(e) => self.refuse(token, &e),
        }
    }

    fn refuse(&mut self, token: u64, why: &wifu_wire::front::FrontError) {
        self.counters.garbage += 1;
        if let Some(app) = self.remove(token) {
            let Peer { uid, pid } = app.peer;
            tracing::debug!("process {pid} of user {uid} sent garbage: {why}");
        }
    }
}
