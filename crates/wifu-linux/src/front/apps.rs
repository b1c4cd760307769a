//! Applications' sockets: how many they may be, how long they may be silent, and by what they are
//! found.

use super::context::{Context, TOKEN};
use super::memory::Ends;
use super::stream::{self, Step, Stream};
use super::unix::{self, Peer};
use super::users::Pending;
use crate::poller::Interest;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use wifu_engine::endpoint::ConnId;
use wifu_wire::{Span, Time};

/// How long a new connection may take to send its frame, or an answer to leave.
const PATIENCE: Span = Span(5_000_000_000);

/// What an application's socket is for.
pub(super) enum Role {
    /// Came by the door for those behind another root, and has not shown the key.
    Stranger,
    /// Has sent no whole frame.
    Fresh,
    /// Gets this answer, from this byte on.
    Answering(Vec<u8>, usize),
    /// Is the data path of a connection.
    Stream(Box<Stream>),
}

/// Our end of an application's socket.
pub(super) struct App {
    pub(super) fd: OwnedFd,
    pub(super) peer: Peer,
    pub(super) role: Role,
}

#[derive(Default)]
struct Slot {
    generation: u16,
    app: Option<App>,
}

/// A connection that is over, whose application may still have its socket.
pub(super) struct Gone {
    pub(super) uid: u32,
    pub(super) cookie: u64,
    pub(super) ends: Ends,
    /// Why, if it ended by a fault.
    pub(super) errno: Option<i32>,
}

/// All applications' sockets, each with a token.
#[derive(Default)]
pub(super) struct Apps {
    slots: Vec<Slot>,
    free: Vec<u32>,
    pending: Pending,
    by_conn: BTreeMap<ConnId, u64>,
    /// By cookie and user: cookies are what applications say they are.
    by_cookie: BTreeMap<(u64, u32), u64>,
    /// Streams whose application has not said its cookie.
    greeting: BTreeSet<u64>,
    /// When who is silent has been so for too long, and when streams are to be looked at.
    patience: BTreeSet<(Time, u64)>,
    /// How many were closed for that, or because they were too many.
    late: u64,
}

impl Apps {
    /// How many are open.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// How many sent no frame in time, or were too many at once.
    pub(super) fn late(&self) -> u64 {
        self.late
    }

    fn get(&self, token: u64) -> Option<&App> {
        let slot = self.slots.get(token as u32 as usize)?;
        (slot.generation == (token >> 32) as u16).then_some(slot.app.as_ref())?
    }

    pub(super) fn get_mut(&mut self, token: u64) -> Option<&mut App> {
        let slot = self.slots.get_mut(token as u32 as usize)?;
        (slot.generation == (token >> 32) as u16).then_some(slot.app.as_mut())?
    }

    fn stream(&mut self, token: u64) -> Option<&mut Stream> {
        match &mut self.get_mut(token)?.role {
            Role::Stream(s) => Some(s),
            Role::Stranger | Role::Fresh | Role::Answering(..) => None,
        }
    }

    /// The stream with this cookie that belongs to this user; everything does to root.
    pub(super) fn by_cookie(&mut self, (cookie, uid): (u64, u32)) -> Option<&mut Stream> {
        let others = if uid == 0 { u32::MAX } else { uid };
        let mut found = self.by_cookie.range((cookie, uid)..=(cookie, others));
        let token = *found.next()?.1;
        self.stream(token)
    }

    /// Octets of a stream that its peer has not acknowledged; none of what is no stream.
    pub(super) fn unsent(&self, (cookie, uid): (u64, u32), cx: &Context<'_>) -> usize {
        let others = if uid == 0 { u32::MAX } else { uid };
        let mut found = self.by_cookie.range((cookie, uid)..=(cookie, others));
        let app = found.next().and_then(|(_, token)| self.get(*token));
        match app {
            Some(App {
                fd,
                role: Role::Stream(s),
                ..
            }) => s.unsent(fd.as_fd(), cx),
            _ => 0,
        }
    }

    /// The stream of a connection, and its token.
    pub(super) fn by_conn(&mut self, conn: ConnId) -> Option<(u64, &mut Stream)> {
        let token = *self.by_conn.get(&conn)?;
        Some((token, self.stream(token)?))
    }

    /// The stream of a connection, and whose it is.
    pub(super) fn user_of(&self, conn: ConnId) -> Option<(Peer, &Stream)> {
        let app = self.get(*self.by_conn.get(&conn)?)?;
        match &app.role {
            Role::Stream(s) => Some((app.peer, s)),
            Role::Stranger | Role::Fresh | Role::Answering(..) => None,
        }
    }

    /// Lets all streams look for input whose application has not said its cookie; gives their
    /// tokens.
    pub(super) fn look(&mut self) -> Vec<u64> {
        let unknown: Vec<u64> = self.greeting.iter().copied().collect();
        for token in &unknown {
            if let Some(s) = self.stream(*token) {
                s.look();
            }
        }
        unknown
    }

    /// Keeps a new socket until it has sent its frame; closes it if they are too many.
    pub(super) fn enter(
        &mut self,
        fd: OwnedFd,
        peer: Peer,
        role: Role,
        cx: &Context<'_>,
    ) -> Option<u64> {
        let Peer { uid, pid } = peer;
        if !self.pending.begin(uid) {
            self.late += 1;
            tracing::debug!("too many sockets of user {uid} wait: process {pid}");
            return None;
        }
        let token = self.add(App { fd, peer, role }, cx);
        match token {
            Some(token) => self.be_patient(token, cx),
            None => self.pending.end(uid),
        }
        token
    }

    /// Keeps the socket of a connection that is in an application's accept queue.
    pub(super) fn accepted(
        &mut self,
        fd: OwnedFd,
        uid: u32,
        stream: Stream,
        cx: &Context<'_>,
    ) -> Option<u64> {
        let conn = stream.conn;
        let app = App {
            fd,
            peer: Peer { uid, pid: 0 },
            role: Role::Stream(Box::new(stream)),
        };
        let token = self.add(app, cx)?;
        self.greeting.insert(token);
        self.by_conn.insert(conn, token);
        Some(token)
    }

    /// A socket becomes the data path of the connection that its frame asked for.
    pub(super) fn connects(&mut self, token: u64, cookie: u64, mut stream: Stream) {
        let Some(app) = self.get_mut(token) else {
            return;
        };
        stream.cookie = Some(cookie);
        let (uid, conn) = (app.peer.uid, stream.conn);
        app.role = Role::Stream(Box::new(stream));
        self.pending.end(uid);
        self.by_conn.insert(conn, token);
        self.by_cookie.insert((cookie, uid), token);
    }

    /// Keeps a socket and watches it; closes it if it can't be watched.
    fn add(&mut self, app: App, cx: &Context<'_>) -> Option<u64> {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        let token = TOKEN | u64::from(slot.generation) << 32 | u64::from(index);
        if cx.poller.add(&app.fd, token, stream::STREAM).is_err() {
            self.free.push(index);
            return None;
        }
        slot.app = Some(app);
        Some(token)
    }

    /// Forgets a socket; dropping what is returned closes it.
    pub(super) fn remove(&mut self, token: u64) -> Option<App> {
        self.get(token)?;
        let index = token as u32;
        let app = self.slots[index as usize].app.take()?;
        self.free.push(index);
        match &app.role {
            Role::Stranger | Role::Fresh | Role::Answering(..) => self.pending.end(app.peer.uid),
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

    fn be_patient(&mut self, token: u64, cx: &Context<'_>) {
        self.patience.insert((cx.now + PATIENCE, token));
    }

    /// When [`Apps::handle_timeout`] wants to be called.
    pub(super) fn poll_timeout(&self) -> Time {
        self.patience.first().map_or(Time::NEVER, |(at, _)| *at)
    }

    /// Gives up on those that are silent for too long, and on streams whose time has come.
    pub(super) fn handle_timeout(&mut self, cx: &mut Context<'_>) {
        while self.poll_timeout() <= cx.now {
            let Some((_, token)) = self.patience.pop_first() else {
                return;
            };
            match self.get(token).map(|app| &app.role) {
                Some(Role::Stranger | Role::Fresh | Role::Answering(..)) => {
                    self.late += 1;
                    self.remove(token);
                }
                // Its application is gone: nobody asks what became of it.
                Some(Role::Stream(s)) if s.deadline() <= cx.now => drop(self.advance(token, cx)),
                Some(Role::Stream(_)) | None => {}
            }
        }
    }

    /// Answers a request.
    pub(super) fn answer(&mut self, token: u64, bytes: Vec<u8>, cx: &Context<'_>) {
        let Some(app) = self.get_mut(token) else {
            return;
        };
        app.role = Role::Answering(bytes, 0);
        self.be_patient(token, cx);
        self.answer_on(token);
        // A long answer goes on when there is room.
        if let Some(App { fd, .. }) = self.get(token) {
            let interest = stream::STREAM.and(Interest::WRITE);
            let _ = cx.poller.modify(fd.as_fd(), token, interest);
        }
    }

    /// Sends what the socket takes of an answer; at its end, or if nobody wants it, closes.
    pub(super) fn answer_on(&mut self, token: u64) {
        let Some(App {
            fd,
            role: Role::Answering(bytes, sent),
            ..
        }) = self.get_mut(token)
        else {
            return;
        };
        while *sent < bytes.len() {
            match unix::give(fd.as_fd(), &bytes[*sent..]) {
                Ok(n) => *sent += n,
                Err(Errno::AGAIN) => return,
                Err(_) => break,
            }
        }
        self.remove(token);
    }

    /// Does all that can be done for a stream now; at its end, closes its socket.
    pub(super) fn advance(&mut self, token: u64, cx: &mut Context<'_>) -> Option<Gone> {
        let Some(App {
            fd,
            peer,
            role: Role::Stream(s),
        }) = self.get_mut(token)
        else {
            return None;
        };
        let had_cookie = s.cookie.is_some();
        let before = s.deadline();
        let step = s.advance(fd.as_fd(), token, cx);
        let (cookie, deadline) = (s.cookie, s.deadline());
        if let (false, Some(accepter)) = (had_cookie, s.accepter) {
            *peer = accepter;
        }
        let users = [Some(peer.uid), s.listener_uid];
        let uid = peer.uid;
        if let (false, Some(cookie)) = (had_cookie, cookie) {
            self.greeting.remove(&token);
            for uid in users.into_iter().flatten() {
                self.by_cookie.insert((cookie, uid), token);
            }
        }
        if deadline < before {
            self.patience.insert((deadline, token));
        }
        let Step::Over(fault) = step else { return None };
        let app = self.remove(token)?;
        let Role::Stream(s) = app.role else {
            return None;
        };
        Some(Gone {
            uid,
            cookie: cookie?,
            ends: (s.local, s.remote),
            errno: fault.map(|fault| s.errno(fault)),
        })
    }
}
