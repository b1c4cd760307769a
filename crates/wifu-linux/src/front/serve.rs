//! What applications ask for: connections, and what gets an answer.

use super::apps::App;
use super::listeners::Listener;
use super::memory::Why;
use super::options::PROTOCOL;
use super::stream::Stream;
use super::unix::{self, Peer};
use super::{Context, Front, report, users};
use crate::carrier::Stack;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use wifu_engine::Blueprint;
use wifu_engine::endpoint::{ConnId, ConnectError};
use wifu_wire::front::{Answer, COUNTED, MAX_REQUEST, Options, Request, SEND_QUEUE};

/// Stands for "no address" in answers.
const NOBODY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// What is said, with owned texts.
#[derive(Default)]
struct Reply {
    errno: i32,
    value: Option<String>,
    names: Option<(SocketAddr, SocketAddr)>,
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

    fn noted(done: Result<Option<String>, Why>) -> Reply {
        let note = |value| Reply {
            value,
            ..Reply::default()
        };
        done.map_or_else(Reply::because, note)
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

/// Addresses of a TUN device, one of each family, in place of two ends.
fn own(stack: Stack) -> (SocketAddr, SocketAddr) {
    let v6 = stack.v6.map(|ip| SocketAddr::new(ip.into(), 0));
    (SocketAddr::new(stack.v4.into(), 0), v6.unwrap_or(NOBODY))
}

/// Where a connection goes: to this host, as Linux has it, for the address that is none. A
/// composition that has no IPv6 reaches it by IPv4, for who listens at `::` has both.
fn this_host(blueprint: &Blueprint, remote: SocketAddr, cx: &Context<'_>) -> SocketAddr {
    let ip: IpAddr = match remote.ip() {
        IpAddr::V6(ip) if ip.is_unspecified() => match cx.host.carries_v6(blueprint) {
            Ok(()) => Ipv6Addr::LOCALHOST.into(),
            Err(_) => Ipv4Addr::LOCALHOST.into(),
        },
        ip => ip,
    };
    SocketAddr::new(ip, remote.port())
}

/// The address that the kernel would take. Without another one it is one of a link, which nobody
/// answers ([`carrier::input`](crate::carrier)).
fn usable(source: IpAddr, remote: IpAddr) -> Result<IpAddr, Why> {
    match source {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => {
            let text = format!(
                "packets to {remote} would leave from {ip}: addresses of one link (fe80::/10) are \
                 not carried, and this host has no other one"
            );
            Err(Why::text(libc::EADDRNOTAVAIL, text))
        }
        ip => Ok(ip),
    }
}

/// Opens a connection for an application.
fn open(
    blueprint: &Arc<Blueprint>,
    local: SocketAddr,
    remote: SocketAddr,
    cx: &mut Context<'_>,
) -> Result<ConnId, Why> {
    let remote = this_host(blueprint, remote, cx);
    if remote.is_ipv6() {
        let carried = cx.host.carries_v6(blueprint);
        carried.map_err(|text| Why::text(libc::ENETUNREACH, text))?;
    }
    let ip = match local.ip() {
        any if any.is_unspecified() => {
            let found = cx.host.source_for(blueprint, remote.ip());
            let found = found.map_err(|e| e.raw_os_error().unwrap_or(libc::ENETUNREACH));
            usable(found.map_err(Why::errno)?, remote.ip())?
        }
        ip if ip.is_ipv4() != remote.is_ipv4() => return Err(Why::errno(libc::EAFNOSUPPORT)),
        ip => ip,
    };
    let port = cx.host.claim(blueprint, local.port(), Some(remote.port()));
    let port = port.map_err(|(errno, text)| Why::text(errno, text))?;
    let local = SocketAddr::new(ip, port);
    cx.endpoint
        .connect(cx.now, blueprint, local, remote)
        .map_err(|e| match e {
            ConnectError::InUse(_) | ConnectError::NoPorts => Why::errno(libc::EADDRNOTAVAIL),
            ConnectError::TooMany => Why::errno(libc::ENOBUFS),
            e => Why::text(libc::EINVAL, e.to_string()),
        })
}

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
        let Some(peer) = self.apps.get_mut(token).map(|a| a.peer) else {
            return;
        };
        let spec = self.memories.of(peer.uid).merged(cookie, spec);
        let opened = cx.host.blueprint(&spec);
        let opened = opened.map_err(|text| Why::text(libc::EPROTONOSUPPORT, text));
        let opened = opened.and_then(|b| {
            users::check_local(peer, local, cx)?;
            open(&b, local, remote, cx)
        });
        let conn = match opened {
            Ok(conn) => conn,
            Err(why) => {
                self.memories.of(peer.uid).fail(cookie, why);
                self.apps.remove(token);
                return;
            }
        };
        let opened = cx.endpoint.conn(conn).map(|c| c.tuple());
        let (local, remote) = opened.map_or((local, remote), |t| (t.local, t.remote));
        let hold = !options.has(Options::NO_HOLD);
        let mut stream = Stream::connecting(conn, (local, remote), total, hold);
        stream.linger0 = options.has(Options::LINGER0);
        stream.spec = spec;
        if options.has(Options::NODELAY) {
            stream.set_nodelay(true, cx);
        }
        self.apps.connects(token, cookie, stream);
    }

    /// Does what a request asks for, and answers it.
    pub(super) fn serve(
        &mut self,
        token: u64,
        request: &Request<'_>,
        total: usize,
        cx: &mut Context<'_>,
    ) {
        self.counters.requests += 1;
        let Some(App { fd, peer, .. }) = self.apps.get_mut(token) else {
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
            Request::Listen { .. } => Reply::noted(self.listen(request, peer, cx)),
            Request::Why { cookie } => match self.memories.of(uid).why(cookie) {
                Some(why) => Reply::because(why.clone()),
                None => Reply::errno(libc::ENOENT),
            },
            Request::Names { cookie } => {
                let open = self.apps.by_cookie((cookie, uid));
                let open = open.map(|s| (s.local, s.remote));
                match open.or_else(|| self.memories.of(uid).ends(cookie)) {
                    Some(names) => Reply {
                        names: Some(names),
                        ..Reply::default()
                    },
                    None => Reply::errno(libc::ENOENT),
                }
            }
            Request::SetOpt {
                cookie,
                spec,
                name,
                value,
            } => Reply::done(self.set_option((cookie, uid), spec, (name, value), cx)),
            Request::GetOpt { cookie, spec, name } => self.option((cookie, uid), spec, name, cx),
            Request::Info { cookie } => self.info((cookie, uid), cx),
            Request::Share { local, options } => {
                Reply::done(self.listeners.share(local, options, uid))
            }
            Request::Move { former, cookie } => {
                self.memories.of(uid).pass_on(former, cookie);
                Reply::default()
            }
            Request::Stats => {
                let all = report::all(&self.listeners, &self.apps, uid, cx);
                Reply::value(all.to_string())
            }
            Request::Values { names } => Reply::value(report::watched(names, cx).to_string()),
            Request::Ping => Reply {
                names: cx.host.own_addresses().map(own),
                ..Reply::value(env!("CARGO_PKG_VERSION"))
            },
            Request::Key => self.door.key(cx).map_or_else(Reply::because, Reply::value),
            Request::Connect { .. } | Request::Admit { .. } => Reply::errno(libc::EINVAL),
        };
        self.apps.answer(token, reply.encode(), cx);
    }

    /// The numbers of a connection.
    fn info(&mut self, key: (u64, u32), cx: &Context<'_>) -> Reply {
        let conn = self.apps.by_cookie(key).map(|s| s.conn);
        match conn.and_then(|c| cx.endpoint.info_until(c, cx.now)) {
            Some(i) => Reply {
                info: Some(report::info(&i)),
                ..Reply::default()
            },
            None => Reply::errno(libc::ENOENT),
        }
    }

    /// A program that has just accepted a connection may ask about it before this loop has looked
    /// at the connection itself: then its marker is there already.
    fn meet(&mut self, key: (u64, u32), cx: &mut Context<'_>) {
        if self.apps.by_cookie(key).is_some() {
            return;
        }
        for token in self.apps.look() {
            self.advance(token, cx);
        }
    }

    /// Gives what its user has to know.
    fn listen(
        &mut self,
        request: &Request<'_>,
        peer: Peer,
        cx: &mut Context<'_>,
    ) -> Result<Option<String>, Why> {
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
            tuned: Vec::new(),
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
        if let Some(s) = self.apps.by_cookie(key) {
            let conn = s.conn;
            s.set(option, cx)?;
            if s.is_connecting() {
                self.memories.of(uid).keep(cookie, option);
            }
            if let Some((token, _)) = self.apps.by_conn(conn) {
                self.advance(token, cx);
            }
            return Ok(());
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
        if name == SEND_QUEUE {
            let waits = self.apps.unsent((cookie, uid), cx);
            return Reply::value(waits.to_string());
        }
        if name == COUNTED {
            let conn = self.apps.by_cookie((cookie, uid)).map(|s| s.conn);
            let told = conn.and_then(|id| report::counted(id, cx.endpoint, cx.now));
            return told.map_or_else(|| Reply::errno(libc::ENOENT), Reply::value);
        }
        let spec = match self.apps.by_cookie((cookie, uid)) {
            Some(s) => s.spec.clone(),
            None => match self.listeners.by_cookie(cookie, uid) {
                Some((_, l)) => l.whole(),
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
