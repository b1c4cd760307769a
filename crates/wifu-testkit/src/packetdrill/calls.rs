//! System calls on the stack's sockets, and those that wait.

use super::socket::{Life, Role, Socket, errno};
use super::stack::Stack;
use core::fmt;
use core::net::{SocketAddr, SocketAddrV4};
use wifu_engine::{ConnId, ConnectError};
use wifu_wire::{Span, Time};

/// The first descriptor: above those of a process that plays scripts.
const FIRST: i32 = 1_000;

/// An error number of the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match super::names::errno(self.0) {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

/// A system call. Descriptors are the stack's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Domain, type (with `SOCK_NONBLOCK`) and protocol.
    Socket(i32, i32, i32),
    /// To an address of ours.
    Bind(i32, SocketAddrV4),
    /// With a backlog.
    Listen(i32, i32),
    /// The next connection of a listening socket.
    Accept(i32),
    /// To a peer.
    Connect(i32, SocketAddrV4),
    /// At most so many octets, with `MSG_*`.
    Recv(i32, usize, i32),
    /// These octets, with `MSG_*`.
    Send(i32, Vec<u8>, i32),
    /// `SHUT_*`.
    Shutdown(i32, i32),
    /// No more of it.
    Close(i32),
    /// `F_GETFL`.
    GetFlags(i32),
    /// `F_SETFL`.
    SetFlags(i32, i32),
    /// `FIONREAD`: octets to read.
    Unread(i32),
    /// `SIOCOUTQ`: octets that the peer has not acknowledged.
    Unsent(i32),
    /// Descriptors with what is asked of each; milliseconds, negative: for ever.
    Poll(Vec<(i32, i16)>, i32),
    /// Level, name, value.
    SetOption(i32, i32, i32, Vec<u8>),
    /// Level, name, and what the caller's buffer holds.
    GetOption(i32, i32, i32, Vec<u8>),
}

/// What a call gives besides its error.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Value {
    /// What it returns.
    pub number: i64,
    /// Octets read, or an option's value.
    pub bytes: Vec<u8>,
    /// Who connected.
    pub peer: Option<SocketAddrV4>,
    /// What is true of each descriptor that was polled.
    pub events: Vec<i16>,
}

impl Value {
    pub(super) fn number(n: i64) -> Value {
        Value {
            number: n,
            ..Value::default()
        }
    }
}

/// The result of a call.
pub type Answer = Result<Value, Errno>;

/// A call that waits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CallId(u64);

/// What a call came to when it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It returned.
    Done(Answer),
    /// It waits: see [`Stack::finished`].
    Waits(CallId),
}

/// A call that waits, with how far it got.
pub(super) struct Waiting {
    pub(super) id: CallId,
    pub(super) call: Call,
    pub(super) progress: usize,
    pub(super) deadline: Time,
}

/// Nothing yet: what a call gives that does not wait.
pub(super) type Attempt = Result<Answer, Errno>;

fn done(n: i64) -> Attempt {
    Ok(Ok(Value::number(n)))
}

fn fail(errno: i32) -> Attempt {
    Ok(Err(Errno(errno)))
}

impl Call {
    /// What it gives when its time is over: only `poll` has one.
    pub(super) fn expired(&self) -> Answer {
        let n = match self {
            Call::Poll(asked, _) => asked.len(),
            _ => 0,
        };
        Ok(Value {
            events: vec![0; n],
            ..Value::default()
        })
    }
}

impl Stack {
    /// Makes a call. One that would wait, and may, waits: the clock stands still until a method
    /// moves it.
    pub fn begin(&mut self, call: Call) -> Begun {
        let (patient, deadline) = self.patience(&call);
        let mut progress = 0;
        let first = self.attempt(&call, &mut progress, patient);
        let begun = match first {
            Ok(answer) => Begun::Done(answer),
            Err(_) if patient => {
                self.calls += 1;
                let id = CallId(self.calls);
                self.waiting.push(Waiting {
                    id,
                    call,
                    progress,
                    deadline,
                });
                Begun::Waits(id)
            }
            Err(_) if matches!(call, Call::Poll(..)) => Begun::Done(call.expired()),
            Err(errno) => Begun::Done(Err(errno)),
        };
        self.settle();
        match begun {
            Begun::Waits(id) => match self.finished(id) {
                Some((_, answer)) => Begun::Done(answer),
                None => begun,
            },
            begun => begun,
        }
    }

    /// Whether a call waits, and until when.
    fn patience(&self, call: &Call) -> (bool, Time) {
        let (fd, flags) = match call {
            Call::Accept(fd) | Call::Connect(fd, _) => (fd, 0),
            Call::Recv(fd, _, flags) | Call::Send(fd, _, flags) => (fd, *flags),
            Call::Poll(_, 0) => return (false, Time::NEVER),
            Call::Poll(_, ms) if *ms > 0 => {
                return (true, self.now + Span::MILLI * *ms as u64);
            }
            _ => return (true, Time::NEVER),
        };
        let nonblocking = self.sockets.get(fd).is_some_and(|s| s.nonblocking);
        let patient = !nonblocking && flags & libc::MSG_DONTWAIT == 0;
        (patient, Time::NEVER)
    }

    /// Does what a call can do now.
    pub(super) fn attempt(&mut self, call: &Call, progress: &mut usize, patient: bool) -> Attempt {
        if let Call::Socket(domain, kind, protocol) = call {
            return Ok(self.socket(*domain, *kind, *protocol));
        }
        if let Call::Poll(asked, _) = call {
            return self.poll(asked);
        }
        let fd = match call {
            Call::Bind(fd, _) | Call::Listen(fd, _) | Call::Accept(fd) | Call::Connect(fd, _) => fd,
            Call::Recv(fd, ..) | Call::Send(fd, ..) | Call::Shutdown(fd, _) => fd,
            Call::Close(fd) | Call::GetFlags(fd) | Call::SetFlags(fd, _) => fd,
            Call::SetOption(fd, ..) | Call::GetOption(fd, ..) => fd,
            Call::Unread(fd) | Call::Unsent(fd) => fd,
            Call::Socket(..) | Call::Poll(..) => return fail(libc::ENOSYS),
        };
        // Out of its place, which stays taken, while it works with the rest.
        let Some(place) = self.sockets.get_mut(fd) else {
            return fail(libc::EBADF);
        };
        let mut s = core::mem::replace(place, Socket::new());
        let attempt = self.on(&mut s, call, progress, patient);
        if matches!(call, Call::Close(_)) {
            self.sockets.remove(fd);
        } else {
            self.sockets.insert(*fd, s);
        }
        attempt
    }

    fn on(&mut self, s: &mut Socket, call: &Call, progress: &mut usize, patient: bool) -> Attempt {
        match call {
            Call::Bind(_, to) => self.bind(s, *to),
            Call::Listen(_, backlog) => self.listen(s, *backlog),
            Call::Accept(_) => self.accept(s),
            Call::Connect(_, to) => self.connect(s, *to, progress),
            Call::Recv(_, len, flags) => self.recv(s, *len, *flags, patient),
            Call::Send(_, bytes, flags) => self.send_octets(s, bytes, *flags, progress, patient),
            Call::Shutdown(_, how) => self.shutdown(s, *how),
            Call::Close(_) => self.close(s),
            Call::GetFlags(_) => {
                let waits = if s.nonblocking { libc::O_NONBLOCK } else { 0 };
                done(i64::from(libc::O_RDWR | waits))
            }
            Call::SetFlags(_, flags) => {
                s.nonblocking = flags & libc::O_NONBLOCK != 0;
                done(0)
            }
            Call::Unread(_) => done(self.unread(s) as i64),
            Call::Unsent(_) => done(i64::from(self.unsent(s))),
            Call::SetOption(_, level, name, value) => Ok(self.set_option(s, *level, *name, value)),
            Call::GetOption(_, level, name, given) => Ok(self.get_option(s, *level, *name, given)),
            Call::Socket(..) | Call::Poll(..) => fail(libc::ENOSYS),
        }
    }

    fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Answer {
        if domain != libc::AF_INET {
            return Err(Errno(libc::EAFNOSUPPORT));
        }
        let plain = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
        if plain != libc::SOCK_STREAM || ![0, libc::IPPROTO_TCP].contains(&protocol) {
            return Err(Errno(libc::EPROTONOSUPPORT));
        }
        let mut s = Socket::new();
        s.nonblocking = kind & libc::SOCK_NONBLOCK != 0;
        Ok(Value::number(i64::from(self.enter(s))))
    }

    /// A descriptor for a socket: the lowest that is free.
    fn enter(&mut self, s: Socket) -> i32 {
        let free = (FIRST..).find(|fd| !self.sockets.contains_key(fd));
        let fd = free.unwrap_or(i32::MAX);
        self.sockets.insert(fd, s);
        fd
    }

    fn bind(&mut self, s: &mut Socket, to: SocketAddrV4) -> Attempt {
        if !matches!(s.role, Role::Fresh) || s.local.port() != 0 {
            return fail(libc::EINVAL);
        }
        s.local = to;
        done(0)
    }

    fn listen(&mut self, s: &mut Socket, backlog: i32) -> Attempt {
        match s.role {
            Role::Fresh => {}
            Role::Listening { .. } => return done(0),
            _ => return fail(libc::EINVAL),
        }
        let Ok(blueprint) = self.setup.blueprint(&self.spec(s)) else {
            return fail(libc::EINVAL);
        };
        let backlog = usize::try_from(backlog).unwrap_or(0);
        match self.end.listen(&blueprint, s.local, backlog) {
            Ok(id) => {
                s.role = Role::Listening {
                    id,
                    backlog,
                    queue: Default::default(),
                };
                done(0)
            }
            Err(_) => fail(libc::EADDRINUSE),
        }
    }

    fn accept(&mut self, s: &mut Socket) -> Attempt {
        let Role::Listening { queue, .. } = &mut s.role else {
            return fail(libc::EINVAL);
        };
        let Some(id) = queue.pop_front() else {
            return Err(Errno(libc::EAGAIN));
        };
        let Some(tuple) = self.end.conn(id).map(|c| c.tuple()) else {
            return fail(libc::ECONNABORTED);
        };
        let mut child = Socket::accepted(id, (v4(tuple.local), v4(tuple.remote)));
        child.params.clone_from(&s.params);
        child.protocol.clone_from(&s.protocol);
        child.kept.clone_from(&s.kept);
        child.linger0 = s.linger0;
        Ok(Ok(Value {
            number: i64::from(self.enter(child)),
            peer: Some(v4(tuple.remote)),
            ..Value::default()
        }))
    }

    fn connect(&mut self, s: &mut Socket, to: SocketAddrV4, begun: &mut usize) -> Attempt {
        match s.role {
            Role::Fresh | Role::Failed => {
                let mut local = s.local;
                if local.ip().is_unspecified() {
                    local.set_ip(self.setup.local);
                }
                let Ok(blueprint) = self.setup.blueprint(&self.spec(s)) else {
                    return fail(libc::EINVAL);
                };
                match self.end.connect(self.now, &blueprint, local, to) {
                    Ok(id) => s.role = Role::Connection(id),
                    Err(ConnectError::InUse(_)) => return fail(libc::EADDRINUSE),
                    Err(ConnectError::NoPorts) => return fail(libc::EADDRNOTAVAIL),
                    Err(ConnectError::TooMany) => return fail(libc::ENOBUFS),
                    Err(_) => return fail(libc::EINVAL),
                }
                (s.remote, s.error) = (Some(to), None);
                s.connecting = true;
                *begun = 1;
            }
            Role::Listening { .. } => return fail(libc::EISCONN),
            Role::Connection(_) => {}
        }
        let Some((_, life)) = self.life(s) else {
            return fail(libc::EINVAL);
        };
        if !s.connecting {
            return fail(libc::EISCONN);
        }
        if let Some(fault) = life.over.filter(|_| !life.open) {
            s.connecting = false;
            self.forget(s);
            return fail(fault.map_or(libc::ECONNREFUSED, |f| errno(f, true)));
        }
        if life.open {
            s.connecting = false;
            return done(0);
        }
        Err(Errno(match *begun {
            0 => libc::EALREADY,
            _ => libc::EINPROGRESS,
        }))
    }

    /// A connection that never opened is gone; the socket may try again.
    fn forget(&mut self, s: &mut Socket) {
        if let Some(id) = s.conn() {
            self.end.close(self.now, id);
            self.lives.remove(&id);
            s.role = Role::Failed;
        }
    }

    /// The connection and what happened to it.
    pub(super) fn life(&self, s: &Socket) -> Option<(ConnId, Life)> {
        let id = s.conn()?;
        Some((id, self.lives.get(&id).copied().unwrap_or_default()))
    }

    /// The fault that nobody was told of yet; now somebody is.
    pub(super) fn take_fault(&mut self, s: &mut Socket) -> Option<i32> {
        if let Some(errno) = s.error.take() {
            return Some(errno);
        }
        let life = self.lives.get_mut(&s.conn()?)?;
        let fault = life.over.flatten().filter(|_| !life.told)?;
        life.told = true;
        Some(errno(fault, !life.open))
    }

    fn recv(&mut self, s: &mut Socket, len: usize, flags: i32, patient: bool) -> Attempt {
        let known = libc::MSG_PEEK | libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
        if flags & !known != 0 {
            return fail(libc::EOPNOTSUPP);
        }
        let Some((id, life)) = self.life(s) else {
            return fail(libc::ENOTCONN);
        };
        let ended = life.peer_ended || life.over.is_some() || s.deaf;
        let [a, b] = self.end.readable(id);
        let n = len.min(a.len() + b.len());
        let all = flags & libc::MSG_WAITALL != 0 && patient && !ended;
        if n > 0 && !(all && n < len) {
            let bytes: Vec<u8> = a.iter().chain(b).take(n).copied().collect();
            if flags & libc::MSG_PEEK == 0 {
                self.end.consumed(self.now, id, n);
            }
            return Ok(Ok(Value {
                number: n as i64,
                bytes,
                ..Value::default()
            }));
        }
        match self.take_fault(s) {
            Some(errno) => fail(errno),
            None if ended || len == 0 => done(0),
            None => Err(Errno(libc::EAGAIN)),
        }
    }

    fn send_octets(
        &mut self,
        s: &mut Socket,
        bytes: &[u8],
        flags: i32,
        sent: &mut usize,
        patient: bool,
    ) -> Attempt {
        // MSG_MORE and MSG_EOR are hints about how to cut segments, which are not taken.
        let hints = libc::MSG_MORE | libc::MSG_EOR;
        if flags & !(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | hints) != 0 {
            return fail(libc::EOPNOTSUPP);
        }
        let Some((id, life)) = self.life(s) else {
            return fail(libc::ENOTCONN);
        };
        if life.over.is_some() || s.mute {
            let errno = self.take_fault(s).unwrap_or(libc::EPIPE);
            return match *sent {
                0 => fail(errno),
                n => done(n as i64),
            };
        }
        *sent += self.end.write(self.now, id, &bytes[*sent..]);
        match *sent {
            n if n == bytes.len() => done(n as i64),
            n if n > 0 && !patient => done(n as i64),
            _ => Err(Errno(libc::EAGAIN)),
        }
    }

    fn shutdown(&mut self, s: &mut Socket, how: i32) -> Attempt {
        if ![libc::SHUT_RD, libc::SHUT_WR, libc::SHUT_RDWR].contains(&how) {
            return fail(libc::EINVAL);
        }
        let Some((id, life)) = self.life(s) else {
            return fail(libc::ENOTCONN);
        };
        if life.over.is_some() {
            return fail(libc::ENOTCONN);
        }
        s.deaf |= how != libc::SHUT_WR;
        if how != libc::SHUT_RD && !s.mute {
            s.mute = true;
            self.end.shutdown_write(self.now, id);
        }
        done(0)
    }

    fn close(&mut self, s: &mut Socket) -> Attempt {
        match &mut s.role {
            Role::Fresh | Role::Failed => {}
            Role::Listening { id, queue, .. } => {
                self.end.unlisten(*id);
                for id in queue.drain(..) {
                    self.end.abort(self.now, id);
                    self.lives.remove(&id);
                }
            }
            Role::Connection(id) => {
                let id = *id;
                let open = self.lives.get(&id).is_some_and(|l| l.open);
                // As in TCP: who closes with data unread destroys the connection.
                if s.linger0 || !open || self.unread(s) > 0 {
                    self.end.abort(self.now, id);
                } else {
                    self.end.close(self.now, id);
                }
                self.lives.remove(&id);
            }
        }
        done(0)
    }

    fn unread(&self, s: &Socket) -> usize {
        let [a, b] = s.conn().map_or([&[][..], &[]], |id| self.end.readable(id));
        a.len() + b.len()
    }

    fn unsent(&self, s: &Socket) -> u32 {
        let conn = s.conn().and_then(|id| self.end.conn(id));
        conn.map_or(0, |c| {
            let (app, tx) = (&c.board().app, &c.board().tx);
            match app.end.after(tx.una) {
                true => app.end.since(tx.una),
                false => 0,
            }
        })
    }

    fn poll(&mut self, asked: &[(i32, i16)]) -> Attempt {
        let mut events = Vec::with_capacity(asked.len());
        for (fd, wanted) in asked {
            let always = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
            let now = match self.sockets.remove(fd) {
                None => libc::POLLNVAL,
                Some(s) => {
                    let now = self.ready(&s);
                    self.sockets.insert(*fd, s);
                    now
                }
            };
            events.push(now & (*wanted | always));
        }
        let n = events.iter().filter(|e| **e != 0).count() as i64;
        if n == 0 {
            return Err(Errno(libc::EAGAIN));
        }
        Ok(Ok(Value {
            number: n,
            events,
            ..Value::default()
        }))
    }

    /// What `poll` may say of a socket.
    fn ready(&mut self, s: &Socket) -> i16 {
        let read = libc::POLLIN | libc::POLLRDNORM;
        let write = libc::POLLOUT | libc::POLLWRNORM;
        let (id, life) = match (&s.role, self.life(s)) {
            (Role::Listening { queue, .. }, _) if !queue.is_empty() => return read,
            (Role::Listening { .. }, _) => return 0,
            (_, Some(connection)) => connection,
            _ => return write | libc::POLLHUP,
        };
        let ended = life.peer_ended || s.deaf;
        let over = life.over.is_some();
        let mut events = 0;
        if self.unread(s) > 0 || ended || over {
            events |= read;
        }
        if ended || over {
            events |= libc::POLLRDHUP;
        }
        let room = |[a, b]: [&mut [u8]; 2]| !a.is_empty() || !b.is_empty();
        if over || s.mute || life.open && room(self.end.write_space(id)) {
            events |= write;
        }
        if over || ended && s.mute {
            events |= libc::POLLHUP;
        }
        if life.over.flatten().is_some() && !life.told {
            events |= libc::POLLERR;
        }
        events
    }
}

/// Scripts are of IPv4.
fn v4(address: SocketAddr) -> SocketAddrV4 {
    match address {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(_) => unreachable!("no script connects to {address}"),
    }
}
