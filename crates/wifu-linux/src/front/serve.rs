//! Requests that get an answer.

use super::listeners::Listener;
use super::memory::Why;
use super::options::PROTOCOL;
use super::report;
use super::unix::Peer;
use super::{App, Context, Front, PATIENCE, Role, Timer, unix};
use core::net::{Ipv4Addr, SocketAddrV4};
use rustix::io::Errno;
use serde_json::{Value, json};
use std::os::fd::AsFd;
use std::sync::Arc;
use wifu_engine::Blueprint;
use wifu_engine::endpoint::{ConnId, ConnectError};
use wifu_wire::front::{Answer, MAX_REQUEST, Request};

/// Stands for "no address" in answers.
const NOBODY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);

/// What is said, with owned texts.
#[derive(Default)]
struct Reply {
    errno: i32,
    value: Option<String>,
    names: Option<(SocketAddrV4, SocketAddrV4)>,
    info: Option<wifu_wire::front::Info>,
}

impl Reply {
    fn errno(errno: i32) -> Reply {
        Reply {
            errno,
            ..Reply::default()
        }
    }

    fn value(text: impl Into<String>) -> Reply {
        Reply {
            value: Some(text.into()),
            ..Reply::default()
        }
    }

    fn because(why: Why) -> Reply {
        Reply {
            errno: why.errno,
            value: why.text,
            ..Reply::default()
        }
    }

    fn done(done: Result<(), Why>) -> Reply {
        done.map_or_else(Reply::because, |()| Reply::default())
    }

    fn encode(&self) -> Vec<u8> {
        let answer = Answer {
            errno: self.errno as u32,
            local: self.names.map(|n| n.0),
            remote: self.names.map(|n| n.1),
            value: self.value.as_deref(),
            info: self.info,
        };
        let mut out = vec![0; answer.room()];
        let n = answer.encode(&mut out).or_else(|_| {
            // Too long: only the list of all connections can be.
            let text = "too many connections to list";
            let answer = Answer {
                value: Some(text),
                ..Answer::errno(libc::EMSGSIZE as u32)
            };
            answer.encode(&mut out)
        });
        out.truncate(n.unwrap_or(0));
        out
    }
}

/// Opens a connection for an application.
pub(super) fn open(
    blueprint: &Arc<Blueprint>,
    local: SocketAddrV4,
    remote: SocketAddrV4,
    cx: &mut Context<'_>,
) -> Result<ConnId, Why> {
    let ip: Ipv4Addr = if local.ip().is_unspecified() {
        let found = cx.host.source_for(blueprint, *remote.ip());
        found.map_err(|e| Why::errno(e.raw_os_error().unwrap_or(libc::ENETUNREACH)))?
    } else {
        *local.ip()
    };
    let local = SocketAddrV4::new(ip, local.port());
    cx.endpoint
        .connect(cx.now, blueprint, local, remote)
        .map_err(|e| match e {
            ConnectError::InUse(_) | ConnectError::NoPorts => Why::errno(libc::EADDRNOTAVAIL),
            ConnectError::TooMany => Why::errno(libc::ENOBUFS),
            e => Why::text(libc::EINVAL, e.to_string()),
        })
}

impl Front {
    pub(super) fn serve(
        &mut self,
        token: u64,
        request: &Request<'_>,
        total: usize,
        cx: &mut Context<'_>,
    ) {
        self.counters.requests += 1;
        let Some(App { fd, peer, .. }) = self.app(token) else {
            return;
        };
        // Taken off the queue, lest closing be a reset that overtakes the answer. There is no more
        // than one peek has shown, except padding that nobody sends.
        let mut frame = [0; MAX_REQUEST + 64];
        let n = total.min(frame.len());
        let _ = unix::take(fd.as_fd(), &mut frame[..n]);
        let peer = *peer;
        let uid = peer.uid;
        if let Some(cookie) = cookie_of(request) {
            self.meet((cookie, uid), cx);
        }
        let reply = match *request {
            Request::Listen { .. } => Reply::done(self.listen(request, peer, cx)),
            Request::Why { cookie } => match self.memories.of(uid).why(cookie) {
                Some(why) => Reply::because(why.clone()),
                None => Reply::errno(libc::ENOENT),
            },
            Request::Names { cookie } => match self.stream((cookie, uid)) {
                Some(s) => Reply {
                    names: Some((s.local, s.remote)),
                    ..Reply::default()
                },
                None => Reply::errno(libc::ENOENT),
            },
            Request::SetOpt {
                cookie,
                spec,
                name,
                value,
            } => Reply::done(self.set_option((cookie, uid), spec, (name, value), cx)),
            Request::GetOpt { cookie, spec, name } => self.option((cookie, uid), spec, name, cx),
            Request::Info { cookie } => self.info((cookie, uid), cx),
            Request::Stats => Reply::value(self.stats(uid, cx).to_string()),
            Request::Values { names } => {
                let found = cx.endpoint.conns().filter_map(|id| cx.endpoint.conn(id));
                let all: Vec<Value> = found.map(|c| report::values(c, names)).collect();
                Reply::value(Value::Array(all).to_string())
            }
            Request::Ping => Reply {
                names: cx
                    .host
                    .own_address()
                    .map(|ip| (SocketAddrV4::new(ip, 0), NOBODY)),
                ..Reply::value(env!("CARGO_PKG_VERSION"))
            },
            Request::Connect { .. } => Reply::errno(libc::EINVAL),
        };
        let bytes = reply.encode();
        if let Some(app) = self.app(token) {
            app.role = Role::Answering(bytes, 0);
            self.timers
                .insert((cx.now + PATIENCE, Timer::Patience(token)));
            self.answer_on(token);
            self.watch_answer(token, cx);
        }
    }

    /// The numbers of a connection.
    fn info(&mut self, key: (u64, u32), cx: &Context<'_>) -> Reply {
        let conn = self.stream(key).map(|s| s.conn);
        match conn.and_then(|c| cx.endpoint.info(c)) {
            Some(i) => Reply {
                info: Some(report::info(&i, cx.now)),
                ..Reply::default()
            },
            None => Reply::errno(libc::ENOENT),
        }
    }

    /// A program that has just accepted a connection may ask about it before this loop has looked
    /// at the connection itself: then its marker is there already.
    fn meet(&mut self, key: (u64, u32), cx: &mut Context<'_>) {
        if self.stream(key).is_some() {
            return;
        }
        let unknown: Vec<u64> = self.greeting.iter().copied().collect();
        for token in unknown {
            if let Some(App {
                role: Role::Stream(s),
                ..
            }) = self.app(token)
            {
                s.look();
                self.advance(token, cx);
            }
        }
    }

    /// Sends what the socket takes of an answer; at its end, or if nobody wants it, closes.
    pub(super) fn answer_on(&mut self, token: u64) {
        let Some(App {
            fd,
            role: Role::Answering(bytes, sent),
            ..
        }) = self.app(token)
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

    /// A long answer goes on when there is room.
    fn watch_answer(&mut self, token: u64, cx: &Context<'_>) {
        if let Some(App { fd, .. }) = self.app(token) {
            let interest = super::stream::STREAM.and(crate::poller::Interest::WRITE);
            let _ = cx.poller.modify(fd.as_fd(), token, interest);
        }
    }

    /// The stream with this cookie that belongs to this user; everything does to root.
    fn stream(&mut self, (cookie, uid): (u64, u32)) -> Option<&mut super::Stream> {
        let others = if uid == 0 { u32::MAX } else { uid };
        let (_, token) = self
            .by_cookie
            .range((cookie, uid)..=(cookie, others))
            .next()?;
        let token = *token;
        match self.app(token) {
            Some(App {
                role: Role::Stream(s),
                ..
            }) => Some(s),
            _ => None,
        }
    }

    fn listen(
        &mut self,
        request: &Request<'_>,
        peer: Peer,
        cx: &mut Context<'_>,
    ) -> Result<(), Why> {
        let Request::Listen {
            cookie,
            inode,
            local,
            spec,
            backlog,
            options,
        } = *request
        else {
            return Err(Why::errno(libc::EINVAL));
        };
        let uid = peer.uid;
        let listener = Listener {
            cookie,
            inode,
            local,
            spec: self.memories.of(uid).merged(cookie, spec),
            backlog,
            options: options.0,
            uid,
        };
        self.listeners.listen(listener, peer, cx)
    }

    /// For what the socket is by now.
    fn set_option(
        &mut self,
        key: (u64, u32),
        spec: &str,
        option: (&str, &str),
        cx: &mut Context<'_>,
    ) -> Result<(), Why> {
        let (cookie, uid) = key;
        if let Some(s) = self.stream(key) {
            return s.set(option, cx);
        }
        if let Some((_, l)) = self.listeners.by_cookie(cookie, uid) {
            return self.listeners.set(l.clone(), option, cx);
        }
        let memory = self.memories.of(uid);
        memory.set_early(cookie, spec, option, cx.host)
    }

    fn option(
        &mut self,
        (cookie, uid): (u64, u32),
        spec: &str,
        name: &str,
        cx: &mut Context<'_>,
    ) -> Reply {
        let spec = match (self.stream((cookie, uid)).map(|s| s.spec.clone()), name) {
            (Some(spec), _) => spec,
            (None, _) => match self.listeners.by_cookie(cookie, uid) {
                Some((_, l)) => l.spec.clone(),
                None => self.memories.of(uid).merged(cookie, spec),
            },
        };
        if name == PROTOCOL {
            return Reply::value(spec);
        }
        match cx.host.blueprint(&spec) {
            Ok(b) => match b.value(name) {
                Some(v) => Reply::value(v.to_string()),
                None => {
                    let text = format!("{spec} has no parameter \"{name}\"");
                    Reply::because(Why::text(libc::ENOENT, text))
                }
            },
            Err(text) => Reply::because(Why::text(libc::EINVAL, text)),
        }
    }

    /// All connections and listening sockets; by cookie only those of the user who asks.
    fn stats(&mut self, uid: u32, cx: &mut Context<'_>) -> Value {
        let own = |other: u32| uid == 0 || uid == other;
        let mut all: Vec<Value> = Vec::new();
        for (_, l) in self.listeners.iter() {
            all.push(json!({
                "protocol": l.spec.split(',').next(),
                "spec": l.spec,
                "state": "LISTEN",
                "local": l.local.to_string(),
                "remote": "0.0.0.0:*",
                "backlog": l.backlog,
                "uid": l.uid,
                "cookie": own(l.uid).then_some(l.cookie),
            }));
        }
        let ids: Vec<ConnId> = cx.endpoint.conns().collect();
        for id in ids {
            let Some(info) = cx.endpoint.info(id) else {
                continue;
            };
            let mut v = report::json(&info, cx.now);
            let token = self.by_conn.get(&id).copied();
            if let Some(App {
                peer,
                role: Role::Stream(s),
                ..
            }) = token.and_then(|t| self.app(t))
            {
                v["spec"] = json!(s.spec);
                v["cookie"] = json!(s.cookie.filter(|_| own(peer.uid)));
                v["uid"] = json!(peer.uid);
                v["pid"] = json!((peer.pid != 0).then_some(peer.pid));
            }
            all.push(v);
        }
        Value::Array(all)
    }
}

fn cookie_of(request: &Request<'_>) -> Option<u64> {
    match *request {
        Request::Why { cookie }
        | Request::Names { cookie }
        | Request::Info { cookie }
        | Request::SetOpt { cookie, .. }
        | Request::GetOpt { cookie, .. } => Some(cookie),
        _ => None,
    }
}
