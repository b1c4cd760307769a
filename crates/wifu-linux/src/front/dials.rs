//! Connections that came for listening applications, until their sockets take them.

use super::context::Context;
use super::listeners::{Listener, Listeners};
use super::stream::Stream;
use super::unix;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use wifu_engine::endpoint::{ConnId, Event as Told, ListenId};
use wifu_engine::signal::Fault;
use wifu_wire::front::{Name, Options};
use wifu_wire::{Span, Time};

/// How soon a full accept queue is tried again.
const EVERY: Span = Span(10_000_000);
/// How long a connection waits for room in the accept queue.
const PATIENCE: Span = Span(30_000_000_000);
/// How many connections may wait so.
const MOST: usize = 4096;

/// A connection that waits for room in an accept queue.
struct Dial {
    listener: ListenId,
    until: Time,
    peer_ended: bool,
    over: Option<Option<Fault>>,
}

/// A connection that has its place in an application's accept queue.
pub(super) struct Taken {
    /// Our end of the application's new socket.
    pub(super) fd: OwnedFd,
    /// The user whose listening socket it is.
    pub(super) uid: u32,
    pub(super) stream: Stream,
}

/// All that wait, and what became of the others.
#[derive(Default)]
pub(super) struct Dials {
    waiting: BTreeMap<ConnId, Dial>,
    due: BTreeSet<(Time, ConnId)>,
    /// How many were tried, which makes names unique.
    tried: u64,
    /// How many were not taken.
    untaken: u64,
}

impl Dials {
    /// How many connections a listening application did not take.
    pub(super) fn untaken(&self) -> u64 {
        self.untaken
    }

    /// A connection for `listener` has come: connects to its socket.
    pub(super) fn begin(
        &mut self,
        conn: ConnId,
        listener: ListenId,
        listeners: &mut Listeners,
        cx: &mut Context<'_>,
    ) -> Option<Taken> {
        let dial = Dial {
            listener,
            until: cx.now + PATIENCE,
            peer_ended: false,
            over: None,
        };
        self.dial(conn, dial, listeners, cx)
    }

    /// Something happened to a connection; false if it is none that waits.
    pub(super) fn on_endpoint_event(&mut self, conn: ConnId, told: Told) -> bool {
        let Some(dial) = self.waiting.get_mut(&conn) else {
            return false;
        };
        match told {
            Told::PeerClosed => dial.peer_ended = true,
            Told::Closed(fault) => dial.over = Some(fault),
            _ => {}
        }
        true
    }

    /// When one of them is to be tried again.
    pub(super) fn poll_timeout(&self) -> Time {
        self.due.first().map_or(Time::NEVER, |(at, _)| *at)
    }

    /// Tries again those for which it is time, until one is taken.
    pub(super) fn retry(
        &mut self,
        listeners: &mut Listeners,
        cx: &mut Context<'_>,
    ) -> Option<Taken> {
        while self.poll_timeout() <= cx.now {
            let (_, conn) = self.due.pop_first()?;
            let dial = self.waiting.remove(&conn);
            let taken = dial.and_then(|d| self.dial(conn, d, listeners, cx));
            if taken.is_some() {
                return taken;
            }
        }
        None
    }

    fn dial(
        &mut self,
        conn: ConnId,
        dial: Dial,
        listeners: &mut Listeners,
        cx: &mut Context<'_>,
    ) -> Option<Taken> {
        let turn = listeners.turn(dial.listener);
        let (Some((l, heard)), Some(c)) = (turn, cx.endpoint.conn(conn)) else {
            cx.endpoint.abort(cx.now, conn);
            return None;
        };
        // Names have no permissions: when an application is gone, whoever comes first has its name.
        // So the registered socket must be there, and whoever answers (it may have gone since) must
        // be of the user that registered it when he called `listen`.
        if !listeners.lives(&l) {
            self.untrue(conn, (dial.listener, &l), listeners, cx);
            return None;
        }
        let tuple = c.tuple();
        self.tried += 1;
        let from = Name::peer(tuple.remote, tuple.local, self.tried);
        match unix::dial(&from, &l.name()) {
            Ok(fd) if unix::listening_user(&fd) == Ok(l.uid) => {
                let mut stream = Stream::accepted(conn, tuple.local, tuple.remote);
                stream.listener_uid = Some(l.uid);
                stream.linger0 = l.has(Options::LINGER0);
                stream.spec = heard;
                stream.tune(&l, cx);
                if dial.peer_ended {
                    stream.on_peer_ended();
                }
                if let Some(fault) = dial.over {
                    stream.on_over(fault);
                }
                if l.has(Options::NODELAY) {
                    stream.set_nodelay(true, cx);
                }
                let uid = l.uid;
                return Some(Taken { fd, uid, stream });
            }
            Ok(_) => self.untrue(conn, (dial.listener, &l), listeners, cx),
            // The accept queue is full, or descriptors are short.
            Err(Errno::AGAIN | Errno::MFILE | Errno::NFILE | Errno::NOBUFS)
                if cx.now < dial.until && self.waiting.len() < MOST =>
            {
                self.due.insert((cx.now + EVERY, conn));
                self.waiting.insert(conn, dial);
            }
            Err(e) => {
                self.untaken += 1;
                let local = l.local;
                tracing::debug!("{local} does not take a connection: {e}");
                cx.endpoint.abort(cx.now, conn);
                listeners.probe_one(dial.listener, cx);
            }
        }
        None
    }

    /// What has a listening socket's name is not, or no longer, what was registered.
    fn untrue(
        &mut self,
        conn: ConnId,
        (id, listener): (ListenId, &Listener),
        listeners: &mut Listeners,
        cx: &mut Context<'_>,
    ) {
        self.untaken += 1;
        cx.endpoint.abort(cx.now, conn);
        listeners.drop_one(id, listener, cx);
    }
}
