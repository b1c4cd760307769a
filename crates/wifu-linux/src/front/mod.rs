//! The daemon's side of the applications: their connections to the daemon's socket, their requests,
//! their data, their listening sockets.
//!
//! [`wifu_wire::front`] has the protocol's bytes; the crate `wifu-socket` has the other side and
//! the reasons. Everything is non-blocking and driven by one event loop, which hands in events of
//! the poller whose token [`is_front_token`] claims, events of the endpoint, and deadlines.

mod apps;
mod context;
mod dials;
mod door;
mod listeners;
mod memory;
mod options;
mod private;
mod report;
mod serve;
mod stream;
#[cfg(test)]
mod tests;
mod unix;
mod users;

pub use context::{Context, Host, is_front_token};

use crate::poller::{Event, Poller};
use apps::{Apps, Role};
use dials::{Dials, Taken};
use door::{DOOR, Door, SIDE_DOOR};
use listeners::Listeners;
use memory::{Memories, Why};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use unix::Peer;
use wifu_engine::endpoint::{ConnId, Event as Told};
use wifu_wire::Time;
use wifu_wire::front::{HEADER_LEN, Header, Kind, MAX_REQUEST, Request};

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
    /// Those of them that failed because the network said that they must.
    pub unreachable: u64,
    /// Connections handed to listening applications.
    pub handed: u64,
    /// Connections that a listening application did not take.
    pub untaken: u64,
    /// Listening sockets found dead.
    pub listeners_gone: u64,
}

/// The application side of a daemon (see the module).
pub struct Front {
    door: Door,
    apps: Apps,
    dials: Dials,
    listeners: Listeners,
    memories: Memories,
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
            door: Door::open(socket, (mode, group), state.with_extension("key"), poller)?,
            apps: Apps::default(),
            dials: Dials::default(),
            listeners: Listeners::new(state),
            memories: Memories::default(),
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
        if matches!(event.token, DOOR | SIDE_DOOR) {
            return self.accept(event.token, cx);
        }
        let Some(app) = self.apps.get_mut(event.token) else {
            return;
        };
        match &mut app.role {
            Role::Stranger | Role::Fresh => self.read_frame(event.token, cx),
            Role::Answering(..) => self.apps.answer_on(event.token),
            Role::Stream(s) => {
                s.on_socket(event);
                self.advance(event.token, cx);
            }
        }
    }

    /// Looks whether those are there still for whom connections have just begun to come: to be
    /// called after packets came and before any are sent.
    pub fn look_at_listeners(&mut self, cx: &mut Context<'_>) {
        while let Some(id) = cx.endpoint.poll_opener() {
            self.listeners.probe_one(id, cx);
        }
    }

    /// Something happened in the endpoint.
    pub fn on_endpoint_event(&mut self, conn: ConnId, told: Told, cx: &mut Context<'_>) {
        if let Told::Accepted(listener) = told {
            let begun = self.dials.begin(conn, listener, &mut self.listeners, cx);
            if let Some(taken) = begun {
                self.hand_over(taken, cx);
            }
            return;
        }
        if self.dials.on_endpoint_event(conn, told) {
            return;
        }
        let Some((token, s)) = self.apps.by_conn(conn) else {
            return;
        };
        match told {
            Told::Connected => s.on_connected(),
            Told::PeerClosed => s.on_peer_ended(),
            Told::Closed(fault) => s.on_over(fault),
            // The peer was heard.
            Told::Readable | Told::Writable => s.trust(),
            Told::Accepted(_) => {}
        }
        self.advance(token, cx);
    }

    /// A packet of a connection does not arrive, as the network says: `errno` is for its
    /// application. One that is being made fails at once, as the kernel's does; one that is open is
    /// kept, and says so if it times out.
    //= rfc1122#section-4.2.3.9
    //= rfc5461#section-4.1
    pub fn on_unreachable(
        &mut self,
        conn: ConnId,
        errno: i32,
        text: Option<String>,
        cx: &mut Context<'_>,
    ) {
        let Some((token, s)) = self.apps.by_conn(conn) else {
            return;
        };
        if !s.is_connecting() {
            return s.doubt(errno);
        }
        let cookie = s.cookie;
        cx.endpoint.abort(cx.now, conn);
        self.counters.unreachable += 1;
        let app = self.apps.remove(token);
        if let (Some(app), Some(cookie)) = (app, cookie) {
            self.memories
                .of(app.peer.uid)
                .fail(cookie, Why { errno, text });
        }
    }

    /// When [`Front::handle_timeout`] wants to be called.
    pub fn poll_timeout(&self) -> Time {
        let all = [
            self.apps.poll_timeout(),
            self.dials.poll_timeout(),
            self.listeners.poll_timeout(),
            self.door.poll_timeout(),
        ];
        all.into_iter().fold(Time::NEVER, Time::min)
    }

    /// Do what is due: give up on silent applications, try full accept queues again, look for dead
    /// listening sockets.
    pub fn handle_timeout(&mut self, cx: &mut Context<'_>) {
        self.apps.handle_timeout(cx);
        while let Some(taken) = self.dials.retry(&mut self.listeners, cx) {
            self.hand_over(taken, cx);
        }
        self.listeners.handle_timeout(cx);
        self.door.handle_timeout(cx);
    }

    /// What happened since the start.
    pub fn counters(&self) -> FrontCounters {
        FrontCounters {
            late: self.apps.late(),
            untaken: self.dials.untaken(),
            listeners_gone: self.listeners.gone(),
            ..self.counters
        }
    }

    /// How many applications' sockets are open.
    pub fn len(&self) -> usize {
        self.apps.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The orderly end: the list of listening sockets stays if there are any, for the next daemon.
    pub fn close(self) {
        self.listeners.close();
    }

    fn accept(&mut self, door: u64, cx: &mut Context<'_>) {
        for _ in 0..ACCEPTS {
            match self.door.accept(door, cx) {
                Ok((fd, peer)) => {
                    self.counters.accepted += 1;
                    // Frames are there at once, nearly always. Reading them now keeps the order of
                    // an application's requests.
                    let role = match door {
                        DOOR => Role::Fresh,
                        _ => Role::Stranger,
                    };
                    if let Some(token) = self.apps.enter(fd, peer, role, cx) {
                        self.read_frame(token, cx);
                    }
                }
                Err(Errno::AGAIN) => return,
                // This one is gone already; the next may be fine.
                Err(_) => {}
            }
        }
    }

    /// Looks whether the whole head of a frame is there, and does what it says.
    fn read_frame(&mut self, token: u64, cx: &mut Context<'_>) {
        let mut buf = [0; HEADER_LEN + MAX_REQUEST];
        let Some(app) = self.apps.get_mut(token) else {
            return;
        };
        let n = match unix::peek(app.fd.as_fd(), &mut buf) {
            Ok(0) => {
                self.apps.remove(token);
                return;
            }
            Ok(n) => n,
            Err(Errno::AGAIN) => return,
            Err(_) => {
                self.apps.remove(token);
                return;
            }
        };
        let header = match Header::decode(&buf[..n]) {
            Ok(Some(h)) if n >= HEADER_LEN + h.body as usize => h,
            Ok(_) => return,
            Err(e) => return self.refuse(token, &e),
        };
        let body = &buf[HEADER_LEN..HEADER_LEN + header.body as usize];
        let stranger = matches!(app.role, Role::Stranger);
        match Request::decode(header.kind, body) {
            Ok(Request::Admit { secret }) if stranger && self.door.opens_to(secret) => {
                self.admit(token, header.total(), cx);
            }
            Ok(Request::Admit { .. }) => self.refuse(token, &"a key that opens nothing"),
            Ok(_) if stranger => self.refuse(token, &"it does not show the key"),
            Ok(request) if header.kind == Kind::Connect => {
                self.connect(token, &request, header.total(), cx);
            }
            Ok(request) => self.serve(token, &request, header.total(), cx),
            Err(e) => self.refuse(token, &e),
        }
    }

    /// Who showed the key may ask for the same as others.
    fn admit(&mut self, token: u64, total: usize, cx: &mut Context<'_>) {
        let Some(app) = self.apps.get_mut(token) else {
            return;
        };
        let mut shown = [0; HEADER_LEN + MAX_REQUEST];
        let n = total.min(shown.len());
        let _ = unix::take(app.fd.as_fd(), &mut shown[..n]);
        app.role = Role::Fresh;
        self.read_frame(token, cx);
    }

    fn refuse(&mut self, token: u64, why: &dyn core::fmt::Display) {
        self.counters.garbage += 1;
        if let Some(app) = self.apps.remove(token) {
            let Peer { uid, pid } = app.peer;
            tracing::debug!("process {pid} of user {uid} sent garbage: {why}");
        }
    }

    /// A connection has its place in an application's accept queue.
    fn hand_over(&mut self, taken: Taken, cx: &mut Context<'_>) {
        let Taken { fd, uid, stream } = taken;
        let conn = stream.conn;
        let Some(token) = self.apps.accepted(fd, uid, stream, cx) else {
            return cx.endpoint.abort(cx.now, conn);
        };
        self.counters.handed += 1;
        self.advance(token, cx);
    }

    /// Does all that can be done for a stream now, and remembers what it was if it is over.
    fn advance(&mut self, token: u64, cx: &mut Context<'_>) {
        if let Some(gone) = self.apps.advance(token, cx) {
            let memory = self.memories.of(gone.uid);
            memory.keep_ends(gone.cookie, gone.ends);
            if let Some(errno) = gone.errno {
                memory.fail(gone.cookie, Why::errno(errno));
            }
        }
    }
}
