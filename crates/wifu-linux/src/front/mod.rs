//! The daemon's side of the applications: their connections to the daemon's socket, their requests,
//! their data, their listening sockets.
//!
//! [`wifu_wire::front`] has the protocol's bytes; the crate `wifu-socket` has the other side and
//! the reasons. Everything is non-blocking and driven by one event loop, which hands in events of
//! the poller whose token [`is_front_token`] claims, events of the endpoint, and deadlines.

mod connections;
mod listeners;
mod listening;
mod memory;
mod report;
mod serve;
mod stream;
#[cfg(test)]
mod tests;
mod unix;
mod users;

use crate::poller::{Event, Interest, Poller};
use core::net::Ipv4Addr;
use listeners::Listeners;
use memory::Memory;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use stream::Stream;
use unix::Peer;
use users::Pending;
use wifu_engine::Blueprint;
use wifu_engine::endpoint::{ConnId, Endpoint, Event as Told, ListenId};
use wifu_engine::signal::Fault;
use wifu_wire::front::{HEADER_LEN, Header, Kind, MAX_REQUEST, Request};
use wifu_wire::{Span, Time};

/// Marks tokens of the front: the upper half of a token, whose lower half is an index.
const TOKEN: u64 = 0x4657 << 48;
/// The listening socket's index.
const LISTENER: u64 = 0xffff_ffff;
/// How long a new connection may take to send its frame, or an answer to leave.
const PATIENCE: Span = Span(5_000_000_000);
/// How often existing listeners are looked at.
const PROBE_EVERY: Span = Span(250_000_000);
/// How soon a full accept queue is tried again.
const DIAL_EVERY: Span = Span(10_000_000);
/// How long a connection waits for room in the accept queue.
const DIAL_FOR: Span = Span(30_000_000_000);
/// How many connections may wait so.
const DIALS: usize = 4096;
/// How long no connection is accepted after the process ran out of descriptors.
const OUT_OF_DESCRIPTORS: Span = Span(100_000_000);
/// How many connections are accepted before others get their turn.
const ACCEPTS: usize = 64;

/// Whether an event of the poller is the front's.
pub fn is_front_token(token: u64) -> bool {
    token >> 48 == TOKEN >> 48
}

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

/// What the front needs from the daemon beside the endpoint.
pub trait Host {
    /// The blueprint of a composition text, ready for traffic: carriers understand its protocol.
    ///
    /// # Errors
    /// What is wrong with the text, for the user to read.
    fn blueprint(&mut self, spec: &str) -> Result<Arc<Blueprint>, String>;

    /// The address that connections of a blueprint to `remote` come from.
    ///
    /// # Errors
    /// What the system says if there is no route.
    fn source_for(&mut self, blueprint: &Blueprint, remote: Ipv4Addr) -> io::Result<Ipv4Addr> {
        let _ = blueprint;
        Ok(crate::carrier::route_to(remote)?.source)
    }

    /// An address that connections may have though the kernel does not know it as this host's.
    fn own_address(&self) -> Option<Ipv4Addr> {
        None
    }
}

/// What every call works with.
pub struct Context<'a> {
    /// The endpoint with all connections.
    pub endpoint: &'a mut Endpoint,
    /// Where descriptors are watched.
    pub poller: &'a Poller,
    /// What the daemon knows beside: protocols and routes.
    pub host: &'a mut dyn Host,
    /// The time of this round.
    pub now: Time,
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
    Probe,
    Accept,
}

/// The application side of a daemon (see the module).
pub struct Front {
    config: FrontConfig,
    listener: OwnedFd,
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
    memories: BTreeMap<u32, Memory>,
    timers: BTreeSet<(Time, Timer)>,
    counters: FrontCounters,
}

impl Front {
    /// Opens the daemon's socket.
    ///
    /// # Errors
    /// `AddrInUse` if another daemon is there, else what the system says.
    pub fn new(config: FrontConfig, poller: &Poller) -> io::Result<Front> {
        let listener = unix::listen_at(&config.socket, config.mode, config.group)?;
        poller.add(&listener, TOKEN | LISTENER, Interest::READ)?;
        Ok(Front {
            config,
            listener,
            slots: Vec::new(),
            free: Vec::new(),
            pending: Pending::default(),
            by_conn: BTreeMap::new(),
            by_cookie: BTreeMap::new(),
            greeting: BTreeSet::new(),
            dials: BTreeMap::new(),
            dialled: 0,
            listeners: Listeners::new(),
            memories: BTreeMap::new(),
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
        let mut n = 0;
        for l in listeners::load(&self.config.state)? {
            if !self.listeners.lives(&l) {
                continue;
            }
            match self.register(l, cx) {
                Ok(()) => n += 1,
                Err(why) => tracing::warn!("a listening socket is lost: {why:?}"),
            }
        }
        self.save();
        Ok(n)
    }

    /// Something happened at a descriptor whose token the front claims.
    pub fn on_event(&mut self, event: &Event, cx: &mut Context<'_>) {
        if event.token == TOKEN | LISTENER {
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
        self.timers.first().map_or(Time::NEVER, |(at, _)| *at)
    }

    /// Do what is due: give up on silent applications, try full accept queues again, look for dead
    /// listening sockets.
    pub fn handle_timeout(&mut self, cx: &mut Context<'_>) {
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
                Timer::Probe => self.probe(cx),
                Timer::Accept => {
                    let _ = cx
                        .poller
                        .modify(&self.listener, TOKEN | LISTENER, Interest::READ);
                }
            }
        }
    }

    /// What happened since the start.
    pub fn counters(&self) -> FrontCounters {
        self.counters
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
    pub fn close(mut self) {
        let listeners = &self.listeners;
        let gone = |(id, l)| (!listeners.lives(l)).then_some(id);
        let dead: Vec<ListenId> = listeners.iter().filter_map(gone).collect();
        for id in dead {
            self.listeners.remove(id);
        }
        self.save();
    }
}

impl Drop for Front {
    /// Takes the socket's name away, so that programs learn at once that there is no daemon; also
    /// if the daemon did not come to its work.
    fn drop(&mut self) {
        // Somebody may have removed it already.
        let _ = std::fs::remove_file(&self.config.socket);
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
            match unix::accept(&self.listener) {
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
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                    tracing::warn!("out of descriptors or memory: new applications wait");
                    let _ = cx
                        .poller
                        .modify(&self.listener, TOKEN | LISTENER, Interest::NONE);
                    self.timers
                        .insert((cx.now + OUT_OF_DESCRIPTORS, Timer::Accept));
                    return;
                }
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

fn as_strs(options: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> + Clone {
    options.iter().map(|(n, v)| (n.as_str(), v.as_str()))
}
