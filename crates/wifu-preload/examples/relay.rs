//! A daemon without a network: joins connections to listening sockets of the same machine.
//!
//! It speaks the whole protocol between applications and the daemon with two threads per
//! connection, so that the libraries can be tested alone:
//!
//! ```text
//! relay /tmp/relay.sock &
//! WIFU_PROTOCOL=tcp-newreno WIFU_SOCKET=/tmp/relay.sock LD_PRELOAD=libwifu_preload.so CMD
//! ```
//!
//! Connections to 192.0.2.1 (a documentation address) stay pending for a second and time out.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wifu_wire::front::{
    self, Answer, HEADER_LEN, Header, Info, MARKER_LEN, MAX_REQUEST, Name, Options, Request,
};

const BLACK_HOLE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

#[derive(Default)]
struct World {
    next: u64,
    failures: BTreeMap<u64, i32>,
    names: BTreeMap<u64, (SocketAddr, SocketAddr)>,
    options: BTreeMap<(u64, String), String>,
    listeners: BTreeMap<SocketAddr, u64>,
}

type Shared = Arc<Mutex<World>>;

fn main() -> io::Result<()> {
    let path = std::env::args().nth(1).expect("usage: relay PATH");
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    println!("ready");
    let world = Shared::default();
    for app in listener.incoming() {
        let (app, world) = (app?, world.clone());
        std::thread::spawn(move || {
            if let Err(e) = serve(&app, &world) {
                eprintln!("relay: {e}");
            }
        });
    }
    Ok(())
}

/// Reads the head of a frame without taking it from the queue.
fn peek_head(app: &UnixStream, buf: &mut [u8]) -> io::Result<(Header, usize)> {
    loop {
        let n = recv(app, buf, libc::MSG_PEEK)?;
        let header = Header::decode(&buf[..n]).map_err(io::Error::other)?;
        match header {
            Some(h) if n >= HEADER_LEN + h.body as usize => return Ok((h, n)),
            _ if n == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn serve(app: &UnixStream, world: &Shared) -> io::Result<()> {
    let mut buf = [0; HEADER_LEN + MAX_REQUEST];
    let (header, _) = peek_head(app, &mut buf)?;
    let body = &buf[HEADER_LEN..HEADER_LEN + header.body as usize];
    let request = Request::decode(header.kind, body).map_err(io::Error::other)?;
    if let Request::Connect {
        cookie,
        local,
        remote,
        options,
        ..
    } = request
    {
        return join(app, world, cookie, (local, remote), options, header.total());
    }
    // Unread bytes would make closing a reset.
    take(app, header.total())?;
    let mut w = world.lock().unwrap();
    let text;
    let answer = match request {
        Request::Listen { cookie, local, .. } => match w.listeners.insert(local, cookie) {
            _ if local.port() == 9 => Answer::errno(libc::EADDRINUSE as u32),
            _ => Answer {
                local: Some(local),
                ..Answer::default()
            },
        },
        Request::Why { cookie } => {
            Answer::errno(w.failures.get(&cookie).map_or(libc::ENOENT, |e| *e) as u32)
        }
        Request::Names { cookie } => match w.names.get(&cookie) {
            Some((l, r)) => Answer {
                local: Some(*l),
                remote: Some(*r),
                ..Answer::default()
            },
            None => Answer::errno(libc::ENOENT as u32),
        },
        Request::SetOpt {
            name: "nonsense", ..
        } => Answer {
            errno: libc::EINVAL as u32,
            value: Some("no such thing"),
            ..Answer::default()
        },
        Request::SetOpt {
            cookie,
            name,
            value,
            ..
        } => {
            w.options
                .insert((cookie, name.to_owned()), value.to_owned());
            Answer::default()
        }
        Request::GetOpt { cookie, name, .. } => match w.options.get(&(cookie, name.to_owned())) {
            Some(v) => {
                text = v.clone();
                Answer {
                    value: Some(&text),
                    ..Answer::default()
                }
            }
            None => Answer::errno(libc::ENOENT as u32),
        },
        Request::Move { former, cookie } => {
            let names: Vec<String> = w
                .options
                .keys()
                .filter(|k| k.0 == former)
                .map(|k| k.1.clone())
                .collect();
            for name in names {
                if let Some(v) = w.options.remove(&(former, name.clone())) {
                    w.options.insert((cookie, name), v);
                }
            }
            Answer::default()
        }
        // It has one door.
        Request::Key | Request::Admit { .. } => Answer::errno(libc::EOPNOTSUPP as u32),
        Request::Info { .. } => Answer {
            info: Some(Info {
                state: 1,
                rtt_us: 1234,
                snd_cwnd: 10,
                ..Info::default()
            }),
            ..Answer::default()
        },
        Request::Stats => {
            let all: Vec<String> = w.listeners.keys().map(|l| format!("\"{l}\"")).collect();
            text = format!("[{}]", all.join(","));
            Answer {
                value: Some(&text),
                ..Answer::default()
            }
        }
        Request::Ping => Answer {
            value: Some("relay"),
            ..Answer::default()
        },
        Request::Share { .. } => Answer::errno(libc::EADDRINUSE as u32),
        Request::Values { .. } => Answer {
            value: Some("[]"),
            ..Answer::default()
        },
        Request::Connect { .. } => unreachable!("handled above"),
    };
    let mut out = vec![0; answer.room()];
    let n = answer.encode(&mut out).map_err(io::Error::other)?;
    (&*app).write_all(&out[..n])
}

fn join(
    app: &UnixStream,
    world: &Shared,
    cookie: u64,
    (local, remote): (SocketAddr, SocketAddr),
    options: Options,
    total: usize,
) -> io::Result<()> {
    // It has IPv4 alone, by which who listens at `::` is reached, too.
    let remote = match remote.ip() {
        IpAddr::V6(ip) if ip.is_unspecified() => {
            SocketAddr::new(Ipv4Addr::LOCALHOST.into(), remote.port())
        }
        IpAddr::V6(_) => {
            let failures = &mut world.lock().unwrap().failures;
            failures.insert(cookie, libc::ENETUNREACH);
            return Ok(());
        }
        IpAddr::V4(_) => remote,
    };
    let id = {
        let mut w = world.lock().unwrap();
        w.next += 1;
        w.next
    };
    let port = if local.port() == 0 {
        40_000 + (id % 20_000) as u16
    } else {
        local.port()
    };
    let ip = if local.ip().is_unspecified() {
        remote.ip()
    } else {
        local.ip()
    };
    let local = SocketAddr::new(ip, port);
    world.lock().unwrap().names.insert(cookie, (local, remote));
    if remote.ip() == BLACK_HOLE {
        std::thread::sleep(Duration::from_secs(1));
        world
            .lock()
            .unwrap()
            .failures
            .insert(cookie, libc::ETIMEDOUT);
        return Ok(());
    }
    let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), remote.port());
    let server = [remote, any].into_iter().find_map(|to| {
        // Without a registration nobody listens, whatever names there are.
        world.lock().unwrap().listeners.get(&to)?;
        dial(&Name::peer(local, remote, id), &Name::service(to)).ok()
    });
    let Some(server) = server else {
        world
            .lock()
            .unwrap()
            .failures
            .insert(cookie, libc::ECONNREFUSED);
        return Ok(());
    };
    // All but the last byte, which stays in the queue.
    take(app, total - 1)?;
    let from_app = Pipe {
        from: app.try_clone()?,
        to: server.try_clone()?,
        held: true,
    };
    let hold = !options.has(Options::NO_HOLD);
    let upward = std::thread::spawn(move || from_app.run(hold));
    let mut hello = [0; MARKER_LEN];
    loop {
        match recv(&server, &mut hello, libc::MSG_PEEK)? {
            MARKER_LEN => break,
            0 => return Ok(()),
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    let (accepted, hold) = front::parse_marker(&hello).ok_or(io::ErrorKind::InvalidData)?;
    world
        .lock()
        .unwrap()
        .names
        .insert(accepted, (remote, local));
    take(&server, MARKER_LEN - 1)?;
    Pipe {
        from: server,
        to: app.try_clone()?,
        held: true,
    }
    .run(hold);
    let _ = upward.join();
    Ok(())
}

/// One direction of a connection.
struct Pipe {
    from: UnixStream,
    to: UnixStream,
    /// The first byte in the queue has been passed on already.
    held: bool,
}

impl Pipe {
    fn run(mut self, hold: bool) {
        while let Ok(true) = self.step(hold) {}
        let _ = self.to.shutdown(std::net::Shutdown::Write);
    }

    /// Passes on what is there; false at the end.
    fn step(&mut self, hold: bool) -> io::Result<bool> {
        let mut p = libc::pollfd {
            fd: self.from.as_raw_fd(),
            events: libc::POLLRDHUP,
            revents: 0,
        };
        let mut queued: i32 = 0;
        loop {
            // SAFETY: one pollfd; FIONREAD writes one int.
            unsafe {
                libc::poll(&raw mut p, 1, 0);
                libc::ioctl(p.fd, libc::FIONREAD, &raw mut queued);
            }
            if queued > i32::from(self.held) {
                break;
            }
            if p.revents != 0 {
                if self.held {
                    take(&self.from, 1)?;
                }
                return Ok(false);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        let mut buf = vec![0; queued as usize];
        let n = buf.len();
        if hold {
            let _ = recv(&self.from, &mut buf, libc::MSG_PEEK)?;
            (&self.from).read_exact(&mut vec![0; n - 1])?;
        } else {
            (&self.from).read_exact(&mut buf)?;
        }
        let fresh = &buf[usize::from(self.held)..];
        self.held = hold;
        (&self.to).write_all(fresh)?;
        Ok(true)
    }
}

fn recv(s: &UnixStream, buf: &mut [u8], flags: i32) -> io::Result<usize> {
    // SAFETY: the slice is valid for writes of its length.
    let n = unsafe { libc::recv(s.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len(), flags) };
    if n < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(n as usize)
    }
}

fn take(mut s: &UnixStream, n: usize) -> io::Result<()> {
    s.read_exact(&mut vec![0; n])
}

fn dial(from: &Name, to: &Name) -> io::Result<UnixStream> {
    let address = |name: &Name| {
        // SAFETY: all bytes zero is a valid sockaddr_un.
        let mut a: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        a.sun_family = libc::AF_UNIX as _;
        for (to, from) in a.sun_path.iter_mut().zip(name.as_bytes()) {
            *to = *from as _;
        }
        (a, (2 + name.as_bytes().len()) as libc::socklen_t)
    };
    let ((from, from_len), (to, to_len)) = (address(from), address(to));
    // SAFETY: both structures live through the calls; the descriptor is owned by nobody else.
    unsafe {
        let fd = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        let s = UnixStream::from_raw_fd(fd);
        if libc::bind(fd, (&raw const from).cast(), from_len) < 0
            || libc::connect(fd, (&raw const to).cast(), to_len) < 0
        {
            return Err(io::Error::last_os_error());
        }
        Ok(s)
    }
}
