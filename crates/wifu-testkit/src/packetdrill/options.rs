//! Socket options: what WiFu's sockets know, here without a daemon.

use super::calls::{Answer, Errno, Value};
use super::socket::{Role, Socket};
use super::stack::Stack;
use core::ops::RangeInclusive;
use std::sync::Arc;
use wifu_engine::Blueprint;
use wifu_engine::descriptor::Value as Param;

/// The level of WiFu's own options.
const SOL_WIFU: i32 = 0x5769;
/// A parameter: `name=value` to set; to get, the buffer holds the name.
const WIFU_PARAM: i32 = 1;
/// The composition; to be set before `connect` or `listen`.
const WIFU_PROTOCOL: i32 = 2;

/// Options that are numbers kept for whoever reads them back, with what an untouched socket has.
/// Those that [`tuned`] does not know have no effect, as with WiFu's sockets.
const KEPT: [(i32, i32, i32); 21] = [
    (libc::SOL_SOCKET, libc::SO_REUSEADDR, 0),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 0),
    (libc::SOL_SOCKET, libc::SO_BROADCAST, 0),
    (libc::SOL_SOCKET, libc::SO_PRIORITY, 0),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE, 0),
    (libc::IPPROTO_IP, libc::IP_TOS, 0),
    (libc::IPPROTO_IP, libc::IP_TTL, 64),
    (libc::IPPROTO_IP, libc::IP_RECVERR, 0),
    (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, 1),
    (libc::IPPROTO_IP, libc::IP_FREEBIND, 0),
    (libc::IPPROTO_TCP, libc::TCP_CORK, 0),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 7200),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 75),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 9),
    (libc::IPPROTO_TCP, libc::TCP_SYNCNT, 6),
    (libc::IPPROTO_TCP, libc::TCP_LINGER2, 60),
    (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, 0),
    (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, 0),
    (libc::IPPROTO_TCP, libc::TCP_QUICKACK, 1),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 0),
    (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, -1),
];

/// The parameter that an option of TCP tunes, what Linux lets it be, and the parameter's unit.
fn tuned(level: i32, name: i32) -> Option<(&'static str, RangeInclusive<i32>, &'static str)> {
    if level != libc::IPPROTO_TCP {
        return None;
    }
    Some(match name {
        libc::TCP_KEEPIDLE => ("keep_idle", 1..=32_767, "s"),
        libc::TCP_KEEPINTVL => ("keep_interval", 1..=32_767, "s"),
        libc::TCP_KEEPCNT => ("keep_count", 1..=127, ""),
        libc::TCP_USER_TIMEOUT => ("user_timeout", 0..=i32::MAX, "ms"),
        _ => return None,
    })
}

fn int(value: &[u8]) -> Result<i32, Errno> {
    let b = value.first_chunk::<4>().ok_or(Errno(libc::EINVAL))?;
    Ok(i32::from_ne_bytes(*b))
}

/// A number for an option of this level: only IP's takes one octet for one.
fn number(level: i32, value: &[u8]) -> Result<i32, Errno> {
    match value {
        [b] if level == libc::IPPROTO_IP => Ok(i32::from(*b)),
        _ => int(value),
    }
}

fn text(value: &[u8]) -> Result<&str, Errno> {
    let end = value.iter().position(|b| *b == 0).unwrap_or(value.len());
    core::str::from_utf8(&value[..end]).map_err(|_| Errno(libc::EINVAL))
}

fn is_kept(level: i32, name: i32) -> Option<i32> {
    let mut all = KEPT.iter();
    all.find_map(|(l, n, default)| (*l == level && *n == name).then_some(*default))
}

impl Stack {
    /// The composition of a socket: the stack's, or its own, with what options set in the place of
    /// what it says itself.
    pub(super) fn spec(&self, s: &Socket) -> String {
        let spec = s.protocol.as_ref().unwrap_or(&self.setup.spec);
        let is_set = |word: &str| {
            let name = word.split('=').next().unwrap_or_default().trim();
            s.params.iter().any(|(n, _)| n == name)
        };
        let mut words: Vec<String> = spec
            .split(',')
            .filter(|word| !is_set(word))
            .map(str::to_owned)
            .collect();
        words.extend(s.params.iter().map(|(n, value)| format!("{n}={value}")));
        words.join(",")
    }

    pub(super) fn set_option(
        &mut self,
        s: &mut Socket,
        level: i32,
        name: i32,
        value: &[u8],
    ) -> Answer {
        match (level, name) {
            (SOL_WIFU, WIFU_PARAM) => {
                let (name, value) = text(value)?.split_once('=').ok_or(Errno(libc::EINVAL))?;
                self.set_param(s, name.trim(), value.trim())?;
            }
            (SOL_WIFU, WIFU_PROTOCOL) | (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
                if !matches!(s.role, Role::Fresh) {
                    return Err(Errno(libc::EISCONN));
                }
                let spec = text(value)?;
                let known = self.setup.blueprint(spec);
                known.map_err(|_| Errno(libc::ENOENT))?;
                s.protocol = Some(spec.into());
            }
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => {
                let nagle = if int(value)? != 0 { "off" } else { "on" };
                self.set_param(s, "nagle", nagle)?;
            }
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
                self.set_param(s, "max_seg", &int(value)?.to_string())?;
            }
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let seconds = int(value.get(4..).unwrap_or(&[]))?;
                s.linger0 = int(value)? != 0 && seconds == 0;
            }
            (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_RCVBUF) => {
                let bytes = int(value)?.clamp(1_000, 1 << 30).to_string();
                let param = match name {
                    libc::SO_SNDBUF => "snd_buf",
                    _ => "rcv_wnd",
                };
                // As with a daemon it counts before the connection, and is taken at any time.
                s.set_param(param, &bytes);
            }
            _ if is_kept(level, name).is_some() => {
                let n = number(level, value)?;
                self.tune(s, (level, name), n)?;
                s.kept.insert((level, name), n);
            }
            _ => return Err(Errno(libc::ENOPROTOOPT)),
        }
        Ok(Value::number(0))
    }

    /// Sets the parameter that such an option tunes. Programs set them as a matter of course: a
    /// composition without the parameter is no mistake.
    fn tune(&mut self, s: &mut Socket, option: (i32, i32), n: i32) -> Result<(), Errno> {
        let (param, value) = match (option, tuned(option.0, option.1)) {
            ((libc::SOL_SOCKET, libc::SO_KEEPALIVE), _) => {
                ("keepalive", if n != 0 { "on" } else { "off" }.into())
            }
            (_, Some((_, range, _))) if !range.contains(&n) => return Err(Errno(libc::EINVAL)),
            (_, Some((param, _, unit))) => (param, format!("{n}{unit}")),
            (_, None) => return Ok(()),
        };
        let _ = self.set_param(s, param, &value);
        Ok(())
    }

    /// Sets a parameter of the composition: at run time if there is a connection.
    fn set_param(&mut self, s: &mut Socket, name: &str, value: &str) -> Result<(), Errno> {
        match &s.role {
            Role::Connection(id) => {
                let set = self.end.set_param(self.now, *id, name, value);
                set.map_err(|_| Errno(libc::EINVAL))?;
                s.set_param(name, value);
            }
            Role::Listening { .. } | Role::Fresh | Role::Failed => {
                let before = s.params.clone();
                s.set_param(name, value);
                let Ok(blueprint) = self.setup.blueprint(&self.spec(s)) else {
                    s.params = before;
                    return Err(Errno(libc::EINVAL));
                };
                self.listen_anew(s, &blueprint)?;
            }
        }
        Ok(())
    }

    /// A listener takes further connections by another blueprint; those half open are forgotten.
    fn listen_anew(&mut self, s: &mut Socket, blueprint: &Arc<Blueprint>) -> Result<(), Errno> {
        if let Role::Listening { id, backlog, .. } = &mut s.role {
            self.end.unlisten(*id);
            let anew = self.end.listen(blueprint, s.local, *backlog);
            *id = anew.map_err(|_| Errno(libc::EADDRINUSE))?;
        }
        Ok(())
    }

    pub(super) fn get_option(
        &mut self,
        s: &mut Socket,
        level: i32,
        name: i32,
        given: &[u8],
    ) -> Answer {
        let n = match (level, name) {
            (SOL_WIFU, WIFU_PARAM) => {
                let value = self.param(s, text(given)?).ok_or(Errno(libc::EINVAL))?;
                return Ok(octets(value.to_string().as_bytes()));
            }
            (SOL_WIFU, WIFU_PROTOCOL) => return Ok(octets(self.spec(s).as_bytes())),
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
                let spec = self.spec(s);
                let name = spec.split(',').next().unwrap_or_default();
                return Ok(octets(format!("{name}\0").as_bytes()));
            }
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => {
                i32::from(self.param(s, "nagle") == Some(Param::Flag(false)))
            }
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => self.mss(s),
            (libc::SOL_SOCKET, libc::SO_ERROR) => self.take_fault(s).unwrap_or(0),
            (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_STREAM,
            (libc::SOL_SOCKET, libc::SO_DOMAIN) => libc::AF_INET,
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) => libc::IPPROTO_TCP,
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => {
                i32::from(matches!(s.role, Role::Listening { .. }))
            }
            // As Linux, twice what was set.
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => self.octets(s, "snd_buf").saturating_mul(2),
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => self.octets(s, "rcv_wnd").saturating_mul(2),
            _ => match is_kept(level, name) {
                Some(default) => *s.kept.get(&(level, name)).unwrap_or(&default),
                None => return Err(Errno(libc::ENOPROTOOPT)),
            },
        };
        Ok(octets(&n.to_ne_bytes()))
    }

    /// What a parameter is, or would be.
    fn param(&self, s: &Socket, name: &str) -> Option<Param> {
        self.setup.blueprint(&self.spec(s)).ok()?.value(name)
    }

    fn octets(&self, s: &Socket, name: &str) -> i32 {
        match self.param(s, name) {
            Some(Param::Int(n)) => i32::try_from(n).unwrap_or(i32::MAX),
            _ => 0,
        }
    }

    /// What the connection uses, else what was set, else Linux's value for an untouched socket.
    fn mss(&self, s: &Socket) -> i32 {
        let conn = s.conn().and_then(|id| self.end.conn(id));
        match conn.map(|c| c.board().conn.mss) {
            Some(mss) if mss > 0 => mss as i32,
            _ => match self.octets(s, "max_seg") {
                0 => 536,
                mss => mss,
            },
        }
    }
}

fn octets(bytes: &[u8]) -> Value {
    Value {
        bytes: bytes.to_vec(),
        ..Value::default()
    }
}
