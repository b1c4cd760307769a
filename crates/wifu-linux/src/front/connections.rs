//! Connections: begun by applications, and handed to listening ones.

use super::memory::Why;
use super::stream::{self, Step, Stream};
use super::unix::{self, Peer};
use super::{App, Context, DIAL_EVERY, DIALS, Dial, Front, Role, Timer, serve, users};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use wifu_engine::endpoint::{ConnId, ListenId};
use wifu_engine::signal::Fault;
use wifu_wire::front::{Name, Options, Request};

impl Front {
    /// Open a connection for an application, which waits for the answer in `connect`.
    pub(super) fn connect(
        &mut self,
        token: u64,
        request: &Request<'_>,
        total: usize,
        cx: &mut Context<'_>,
    ) {
        let Request::Connect {
            cookie,
            local,
            remote,
            spec,
            options,
        } = *request
        else {
            return;
        };
        self.counters.connects += 1;
        let Some(peer) = self.app(token).map(|a| a.peer) else {
            return;
        };
        let spec = self.memories.of(peer.uid).merged(cookie, spec);
        let opened = cx.host.blueprint(&spec);
        let opened = opened.map_err(|text| Why::text(libc::EPROTONOSUPPORT, text));
        let opened = opened.and_then(|b| {
            users::check_local(peer, local, cx)?;
            serve::open(&b, local, remote, cx)
        });
        let conn = match opened {
            Ok(conn) => conn,
            Err(why) => {
                self.memories.of(peer.uid).fail(cookie, why);
                self.remove(token);
                return;
            }
        };
        let local = cx.endpoint.conn(conn).map_or(local, |c| c.tuple().local);
        let hold = !options.has(Options::NO_HOLD);
        let mut stream = Stream::connecting(conn, (local, remote), total, hold);
        stream.cookie = Some(cookie);
        stream.linger0 = options.has(Options::LINGER0);
        stream.spec = spec;
        if options.has(Options::NODELAY) {
            stream.set_nodelay(true, cx);
        }
        let Some(app) = self.app(token) else { return };
        app.role = Role::Stream(Box::new(stream));
        self.pending.end(peer.uid);
        self.by_conn.insert(conn, token);
        self.by_cookie.insert((cookie, peer.uid), token);
    }

    /// A connection opened towards a listening application: connects to its socket.
    pub(super) fn dial(&mut self, conn: ConnId, dial: Dial, cx: &mut Context<'_>) {
        let (listener, tuple) = match (self.listeners.get(dial.listener), cx.endpoint.conn(conn)) {
            (Some(l), Some(c)) => (l, c.tuple()),
            _ => return cx.endpoint.abort(cx.now, conn),
        };
        // Names have no permissions: when an application is gone, whoever comes first has its name.
        // So the registered socket must be there, and whoever answers (it may have gone since) must
        // be of the user that registered it when he called `listen`.
        if !self.listeners.lives(listener) {
            return self.untrue(conn, dial.listener, cx);
        }
        self.dialled += 1;
        let from = Name::peer(tuple.remote, tuple.local, self.dialled);
        match unix::dial(&from, &Name::service(listener.local)) {
            Ok(fd) if unix::listening_user(&fd) == Ok(listener.uid) => {
                self.hand_over(conn, fd, dial, cx);
            }
            Ok(_) => self.untrue(conn, dial.listener, cx),
            // The accept queue is full, or descriptors are short.
            Err(Errno::AGAIN | Errno::MFILE | Errno::NFILE | Errno::NOBUFS)
                if cx.now < dial.until && self.dials.len() < DIALS =>
            {
                self.timers.insert((cx.now + DIAL_EVERY, Timer::Dial(conn)));
                self.dials.insert(conn, dial);
            }
            Err(e) => {
                self.counters.untaken += 1;
                let local = listener.local;
                tracing::debug!("{local} does not take a connection: {e}");
                cx.endpoint.abort(cx.now, conn);
                self.listeners.probe_one(dial.listener, cx);
            }
        }
    }

    /// What has a listening socket's name is not, or no longer, what was registered.
    fn untrue(&mut self, conn: ConnId, id: ListenId, cx: &mut Context<'_>) {
        self.counters.untaken += 1;
        cx.endpoint.abort(cx.now, conn);
        self.listeners.drop_one(id, cx);
    }

    fn hand_over(&mut self, conn: ConnId, fd: OwnedFd, dial: Dial, cx: &mut Context<'_>) {
        let (Some(l), Some(c)) = (self.listeners.get(dial.listener), cx.endpoint.conn(conn)) else {
            return cx.endpoint.abort(cx.now, conn);
        };
        let tuple = c.tuple();
        let mut stream = Stream::accepted(conn, tuple.local, tuple.remote);
        stream.listener_uid = Some(l.uid);
        stream.linger0 = l.has(Options::LINGER0);
        stream.spec.clone_from(&l.spec);
        if dial.peer_ended {
            stream.on_peer_ended();
        }
        if let Some(fault) = dial.over {
            stream.on_over(fault);
        }
        let peer = Peer { uid: l.uid, pid: 0 };
        if l.has(Options::NODELAY) {
            stream.set_nodelay(true, cx);
        }
        let app = App {
            fd,
            peer,
            role: Role::Stream(Box::new(stream)),
        };
        let Some(token) = self.add(app, stream::STREAM, cx) else {
            return cx.endpoint.abort(cx.now, conn);
        };
        self.counters.handed += 1;
        self.greeting.insert(token);
        self.by_conn.insert(conn, token);
        self.advance(token, cx);
    }

    pub(super) fn advance(&mut self, token: u64, cx: &mut Context<'_>) {
        let Some(App {
            fd,
            peer,
            role: Role::Stream(s),
        }) = self.app(token)
        else {
            return;
        };
        let (had_cookie, connecting) = (s.cookie.is_some(), s.is_connecting());
        let step = s.advance(fd.as_fd(), token, cx);
        let cookie = s.cookie;
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
        let Step::Over(fault) = step else { return };
        if let (Some(cookie), Some(fault)) = (cookie, fault) {
            let errno = errno(fault, connecting);
            self.memories.of(uid).fail(cookie, Why::errno(errno));
        }
        self.remove(token);
    }
}

fn errno(fault: Fault, connecting: bool) -> i32 {
    match fault {
        Fault::Refused => libc::ECONNREFUSED,
        // A RST in answer to a SYN is a refusal, whatever the manager calls it.
        Fault::Reset if connecting => libc::ECONNREFUSED,
        Fault::Reset => libc::ECONNRESET,
        Fault::TimedOut => libc::ETIMEDOUT,
        Fault::Aborted => libc::ECONNABORTED,
    }
}
