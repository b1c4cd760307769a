//! Socket options: what the kernel's AF_UNIX socket answers itself, what the tag knows, what the
//! daemon knows, and what is taken without effect ([`inert`]).

use crate::call::{cookie, reason, spec};
use crate::daemon::{self, Failure, Reply};
use crate::inert;
use crate::linger;
use crate::note;
use crate::sys::{self, Errno, Result};
use crate::tag::Tag;
use crate::tcp_info;
use core::ffi::c_int;
use core::ops::RangeInclusive;
use wifu_wire::front::{MAX_NAME, MAX_VALUE, Request, SMALL_BUFFER};

pub use wifu_wire::front::{SOL_WIFU, WIFU_PARAM};
/// The composition, as in `tcp-newreno,iw=4`; to be set before `connect` or `listen`.
pub const WIFU_PROTOCOL: c_int = 2;

// Names of options as the daemon knows them, beside the parameters of the composition.
const PROTOCOL: &str = "protocol";
const NODELAY: &str = "nodelay";
const LINGER0: &str = "linger0";
const SNDBUF: &str = "snd_buf";
const RCVBUF: &str = "rcv_wnd";
const MAX_SEG: &str = "max_seg";

/// The bytes of an option as the caller passes them.
#[derive(Clone, Copy)]
pub struct Given<'a>(pub &'a [u8]);

impl<'a> Given<'a> {
    fn int(self) -> Result<i32> {
        let b = self.0.first_chunk::<4>().ok_or(Errno(libc::EINVAL))?;
        Ok(i32::from_ne_bytes(*b))
    }

    /// A number for an option of this level: only IP's takes one octet for one.
    fn number(self, level: c_int) -> Result<i32> {
        match self.0 {
            [b] | [b, _] | [b, _, _] if level == libc::IPPROTO_IP => Ok(i32::from(*b)),
            _ => self.int(),
        }
    }

    /// Text, which may end with a NUL.
    fn text(self) -> Result<&'a str> {
        let end = self.0.iter().position(|b| *b == 0).unwrap_or(self.0.len());
        core::str::from_utf8(&self.0[..end]).map_err(|_| Errno(libc::EINVAL))
    }
}

/// `setsockopt`.
///
/// # Errors
/// `ENOPROTOOPT` for options that WiFu doesn't have, with a note, and for those of IPv6 where the
/// socket is IPv4's; else what the daemon says.
pub fn set(fd: c_int, tag: Tag, level: c_int, name: c_int, v: Given<'_>) -> Result<c_int> {
    match (level, name) {
        (SOL_WIFU, WIFU_PARAM) => {
            let text = v.text()?;
            let (name, value) = text.split_once('=').ok_or(Errno(libc::EINVAL))?;
            tell(fd, tag, name.trim(), value.trim())?;
        }
        (SOL_WIFU, WIFU_PROTOCOL) | (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
            tell(fd, tag, PROTOCOL, v.text()?)?;
        }
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => {
            set_bit(fd, tag, Tag::NODELAY, NODELAY, v.int()? != 0)?;
        }
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => set_max_seg(fd, tag, v.int()?)?,
        (libc::SOL_SOCKET, libc::SO_LINGER) => {
            let on = v.int()? != 0;
            let seconds = Given(v.0.get(4..).unwrap_or(&[])).int()?;
            let tag = native_set(fd, tag, name, v)?;
            if on && seconds > 0 {
                linger::remember();
            }
            set_bit(fd, tag, Tag::LINGER0, LINGER0, on && seconds == 0)?;
        }
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => set_send_buffer(fd, tag, v.int()?)?,
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => tell_number(fd, tag, RCVBUF, v.int()?)?,
        (libc::SOL_SOCKET, libc::SO_REUSEPORT) => {
            tag.set(Tag::SHARED, v.int()? != 0).write(fd)?;
        }
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => {
            let tag = native_set(fd, tag, name, v)?;
            let on = if v.int()? != 0 { "on" } else { "off" };
            tune(fd, tag, (level, name, v.int()?), ("keepalive", on));
        }
        (libc::IPPROTO_TCP, n) if let Some(how) = tuned(n) => {
            tune_number(fd, tag, (n, v.int()?), how)?;
        }
        (libc::SOL_SOCKET, n) if is_native(n) => {
            native_set(fd, tag, name, v)?;
            if let Ok(value) = v.int() {
                inert::say(level, name, value);
            }
        }
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) if tag.has(Tag::V6) => {
            let only = v.int()? != 0;
            // A socket that has its name is of the families that it was of.
            if crate::bind::bound(fd).is_some() {
                return Err(Errno(libc::EINVAL));
            }
            tag.set(Tag::V6ONLY, only).write(fd)?;
        }
        // As of the kernel's: servers for both families try whichever socket they have got.
        (libc::IPPROTO_IPV6, _) if !tag.has(Tag::V6) => return Err(Errno(libc::ENOPROTOOPT)),
        // OpenSSL asks whether the kernel can encrypt and takes the answer without complaint.
        (libc::IPPROTO_TCP, libc::TCP_ULP) => return Err(Errno(libc::ENOPROTOOPT)),
        _ if inert::is(level, name) => {
            let value = v.number(level)?;
            inert::set(fd, level, name, value)?;
            inert::say(level, name, value);
        }
        _ => {
            note::unsupported("setting", level, name);
            return Err(Errno(libc::ENOPROTOOPT));
        }
    }
    Ok(0)
}

/// Options that mean on the AF_UNIX socket what they mean on a TCP one, or are stored for whoever
/// reads them back.
fn is_native(name: c_int) -> bool {
    matches!(
        name,
        libc::SO_REUSEADDR
            | libc::SO_BROADCAST
            | libc::SO_DONTROUTE
            | libc::SO_PRIORITY
            | libc::SO_RCVLOWAT
            | libc::SO_RCVTIMEO
            | libc::SO_SNDTIMEO
            | libc::SO_TIMESTAMP
            | libc::SO_BUSY_POLL
            | libc::SO_DEBUG
            | libc::SO_INCOMING_CPU
            | libc::SO_MARK
            | libc::SO_BINDTODEVICE
            | libc::SO_BINDTOIFINDEX
            // Urgent data are in line anyway.
            | libc::SO_OOBINLINE
    )
}

/// Options that the kernel keeps in the socket and hands on to accepted ones; the tag knows by
/// their places which were set. Some take capabilities that the program may have given up since.
const KEPT: [c_int; 15] = [
    libc::SO_LINGER,
    libc::SO_RCVTIMEO,
    libc::SO_SNDTIMEO,
    libc::SO_REUSEADDR,
    libc::SO_BINDTOIFINDEX,
    libc::SO_KEEPALIVE,
    libc::SO_BROADCAST,
    libc::SO_OOBINLINE,
    libc::SO_RCVLOWAT,
    libc::SO_TIMESTAMP,
    libc::SO_DONTROUTE,
    libc::SO_BUSY_POLL,
    libc::SO_DEBUG,
    libc::SO_INCOMING_CPU,
    libc::SO_MARK,
];

/// Gives a fresh socket all options of another one, into whose place it comes.
///
/// # Errors
/// What the kernel says, if that counts for the connection; `ENETDOWN` without a daemon.
pub fn pass_on(from: c_int, to: c_int, tag: Tag) -> Result<()> {
    hand_on(from, to, tag)?;
    hand_on_number(from, to, libc::SO_PRIORITY)?;
    hand_on_buffer(from, to, tag)?;
    inert::pass_on(from, to)?;
    let (former, cookie) = (cookie(from)?, cookie(to)?);
    match daemon::ask(&Request::Move { former, cookie }) {
        Ok(_) => tag.write(to),
        // As `connect` says of a daemon that takes no question.
        Err(Failure::HungUp) => Err(Errno(libc::ENOBUFS)),
        Err(failure) => Err(failure.errno()),
    }
}

/// Gives a fresh socket a small send buffer as another one has it.
///
/// # Errors
/// What the kernel says.
pub fn hand_on_buffer(from: c_int, to: c_int, tag: Tag) -> Result<()> {
    if !tag.has(Tag::SMALL) {
        return Ok(());
    }
    let size: i32 = sys::getsockopt(from, libc::SOL_SOCKET, libc::SO_SNDBUF)?;
    // The kernel doubles what it is given.
    sys::setsockopt(to, libc::SOL_SOCKET, libc::SO_SNDBUF, size / 2)
}

/// Gives a fresh socket what was set on another one and the kernel hands on when it accepts.
///
/// # Errors
/// What the kernel says, if that counts for the connection.
pub fn hand_on(from: c_int, to: c_int, tag: Tag) -> Result<()> {
    let level = libc::SOL_SOCKET;
    set_before(tag).try_for_each(|name| match name {
        libc::SO_LINGER => {
            let v: libc::linger = sys::getsockopt(from, level, name)?;
            sys::setsockopt(to, level, name, v)
        }
        libc::SO_RCVTIMEO | libc::SO_SNDTIMEO => {
            let v: libc::timeval = sys::getsockopt(from, level, name)?;
            sys::setsockopt(to, level, name, v)
        }
        _ => hand_on_number(from, to, name),
    })
}

/// Those of [`KEPT`] that were set.
fn set_before(tag: Tag) -> impl Iterator<Item = c_int> {
    let all = KEPT.into_iter().enumerate();
    all.filter(move |(nth, _)| tag.tuned(*nth))
        .map(|(_, name)| name)
}

fn hand_on_number(from: c_int, to: c_int, name: c_int) -> Result<()> {
    let level = libc::SOL_SOCKET;
    // A kernel that lacks one keeps none.
    let (Ok(old), Ok(new)) = (
        sys::getsockopt::<i32>(from, level, name),
        sys::getsockopt::<i32>(to, level, name),
    ) else {
        return Ok(());
    };
    if old == new {
        return Ok(());
    }
    match sys::setsockopt(to, level, name, old) {
        // SO_DEBUG has another errno than the others.
        Err(Errno(libc::EPERM | libc::EACCES)) if name != libc::SO_BINDTOIFINDEX => Ok(()),
        done => done,
    }
}

/// Sets it in the kernel's socket; the tag as it is then.
fn native_set(fd: c_int, tag: Tag, name: c_int, v: Given<'_>) -> Result<Tag> {
    sys::setsockopt_bytes(fd, libc::SOL_SOCKET, name, v.0)?;
    let name = match name {
        libc::SO_BINDTODEVICE => libc::SO_BINDTOIFINDEX,
        name => name,
    };
    match KEPT.iter().position(|kept| *kept == name) {
        Some(nth) if !tag.tuned(nth) => {
            let tag = tag.tune(nth);
            tag.write(fd)?;
            Ok(tag)
        }
        _ => Ok(tag),
    }
}

/// The parameter that an option tunes, what Linux lets it be, and the parameter's unit.
type Tuned = (&'static str, RangeInclusive<i32>, &'static str);

fn tuned(name: c_int) -> Option<Tuned> {
    Some(match name {
        libc::TCP_KEEPIDLE => ("keep_idle", 1..=32_767, "s"),
        libc::TCP_KEEPINTVL => ("keep_interval", 1..=32_767, "s"),
        libc::TCP_KEEPCNT => ("keep_count", 1..=127, ""),
        libc::TCP_USER_TIMEOUT => ("user_timeout", 0..=i32::MAX, "ms"),
        _ => return None,
    })
}

/// Tunes a parameter where the composition has it. Programs set such options as a matter of course:
/// where nothing comes of it, that is a note and no error.
fn tune(fd: c_int, tag: Tag, (level, name, value): (c_int, c_int, i32), param: (&str, &str)) {
    let reply = put(fd, tag, param.0, param.1);
    if !reply.is_ok_and(|r| r.answer().errno == 0) {
        inert::say(level, name, value);
    }
}

fn tune_number(fd: c_int, tag: Tag, (name, value): (c_int, i32), how: Tuned) -> Result<()> {
    let (param, range, unit) = how;
    if !range.contains(&value) {
        return Err(Errno(libc::EINVAL));
    }
    inert::set(fd, libc::IPPROTO_TCP, name, value)?;
    let mut text = Digits::default();
    let text = text.with(value as u32, unit);
    tune(fd, tag, (libc::IPPROTO_TCP, name, value), (param, text));
    Ok(())
}

/// What was set on this socket, else what its connection has of its listening socket.
fn tuned_number(fd: c_int, tag: Tag, name: c_int, (param, _, unit): Tuned) -> Result<i32> {
    let (own, default) = inert::kept(fd, libc::IPPROTO_TCP, name)?;
    if own.is_some() || sys::getpeername(fd).is_err() {
        return Ok(own.unwrap_or(default));
    }
    let reply = read(fd, tag, PROTOCOL);
    let told = reply.as_ref().ok().and_then(|r| r.answer().value);
    let mut params = told
        .unwrap_or("")
        .split(',')
        .filter_map(|p| p.split_once('='));
    let value = params.find_map(|(key, value)| (key == param).then_some(value));
    let number = value.and_then(|v| v.strip_suffix(unit)?.parse().ok());
    Ok(number.unwrap_or(default))
}

/// The daemon's buffer has this size. The kernel's own one in front of it has, too, if it is small:
/// then it bounds what `write` takes, and no byte can be held in it ([`call`](crate::call)).
fn set_send_buffer(fd: c_int, tag: Tag, size: i32) -> Result<()> {
    let size = size.max(0);
    tell_number(fd, tag, SNDBUF, size)?;
    let small = size < SMALL_BUFFER;
    if small || tag.has(Tag::SMALL) {
        tag.set(Tag::SMALL, small).write(fd)?;
        let native = if small { size } else { i32::MAX };
        sys::setsockopt(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, native)?;
    }
    Ok(())
}

/// Keeps a switch in the tag, and tells the daemon if it already knows the socket.
fn set_bit(fd: c_int, tag: Tag, bit: Tag, name: &str, on: bool) -> Result<()> {
    if tag.has(bit) == on {
        return Ok(());
    }
    tag.set(bit, on).write(fd)?;
    let known = sys::getpeername(fd).is_ok()
        || sys::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN)? == 1;
    // A dead connection takes options in TCP too.
    if known && let Err(Errno(e)) = tell(fd, tag, name, if on { "on" } else { "off" }) {
        return if e == libc::ENOENT || e == libc::ENETDOWN {
            Ok(())
        } else {
            Err(Errno(e))
        };
    }
    Ok(())
}

fn tell(fd: c_int, tag: Tag, name: &str, value: &str) -> Result<()> {
    let reply = put(fd, tag, name, value)?;
    let answer = reply.answer();
    if answer.errno == 0 {
        return Ok(());
    }
    if let Some(text) = answer.value {
        static SAID: note::Once = note::Once::new();
        SAID.say(format_args!("{text}"));
    }
    Err(Errno(answer.errno as c_int))
}

/// What the daemon answers to an option.
fn put(fd: c_int, tag: Tag, name: &str, value: &str) -> Result<Reply> {
    if name.len() > MAX_NAME || value.len() > MAX_VALUE {
        return Err(Errno(libc::EINVAL));
    }
    let reply = daemon::ask(&Request::SetOpt {
        cookie: cookie(fd)?,
        spec: spec(tag),
        name,
        value,
    });
    reply.map_err(Failure::errno)
}

fn set_max_seg(fd: c_int, tag: Tag, octets: i32) -> Result<()> {
    match octets {
        // Linux: TCP_MIN_MSS and MAX_TCP_WINDOW; 0 takes the limit back.
        0 | 88..=32_767 => tell_number(fd, tag, MAX_SEG, octets),
        _ => Err(Errno(libc::EINVAL)),
    }
}

fn tell_number(fd: c_int, tag: Tag, name: &str, value: i32) -> Result<()> {
    let mut text = Digits::default();
    tell(fd, tag, name, text.of(value.max(0) as u32))
}

/// Room for the digits of a number and a unit of two letters.
#[derive(Default)]
struct Digits([u8; 10], [u8; 12]);

impl Digits {
    fn with(&mut self, value: u32, unit: &str) -> &str {
        let mut text = [0; 12];
        let number = self.of(value).as_bytes();
        let n = number.len();
        text[..n].copy_from_slice(number);
        text[n..n + unit.len()].copy_from_slice(unit.as_bytes());
        self.1 = text;
        core::str::from_utf8(&self.1[..n + unit.len()]).unwrap_or("0")
    }

    fn of(&mut self, mut v: u32) -> &str {
        let mut at = self.0.len();
        loop {
            at -= 1;
            self.0[at] = b'0' + (v % 10) as u8;
            v /= 10;
            if v == 0 {
                break;
            }
        }
        core::str::from_utf8(&self.0[at..]).unwrap_or("0")
    }
}

/// The value of an option: at most this many bytes (`struct tcp_info` and texts).
pub struct Value {
    bytes: [u8; MAX_VALUE],
    len: usize,
}

impl Value {
    fn bytes(b: &[u8]) -> Value {
        let mut v = Value {
            bytes: [0; MAX_VALUE],
            len: b.len().min(MAX_VALUE),
        };
        v.bytes[..v.len].copy_from_slice(&b[..v.len]);
        v
    }

    fn int(n: i32) -> Value {
        Value::bytes(&n.to_ne_bytes())
    }

    /// What the application is given, in its byte order.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// `getsockopt`. `given` is what the caller's buffer holds.
///
/// # Errors
/// `ENOPROTOOPT` for options that WiFu doesn't have, with a note; `EOPNOTSUPP` for those of IPv6
/// where the socket is IPv4's; else what the daemon says.
pub fn get(fd: c_int, tag: Tag, level: c_int, name: c_int, given: &[u8]) -> Result<Value> {
    Ok(match (level, name) {
        (SOL_WIFU, WIFU_PARAM) => {
            let reply = read(fd, tag, Given(given).text()?)?;
            Value::bytes(reply.answer().value.unwrap_or("").as_bytes())
        }
        (SOL_WIFU, WIFU_PROTOCOL) => protocol(fd, tag, |s| s),
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
            let mut v = protocol(fd, tag, |s| s.split(',').next().unwrap_or(s));
            // C programs print it: it ends with a NUL as in Linux.
            v.len = v.len.min(15) + 1;
            v.bytes[v.len - 1] = 0;
            v
        }
        (libc::IPPROTO_TCP, libc::TCP_INFO) => Value::bytes(&info(fd)?),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => Value::int(tag.has(Tag::NODELAY).into()),
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => Value::int(mss(fd, tag)),
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) if tag.has(Tag::V6) => {
            Value::int(tag.has(Tag::V6ONLY).into())
        }
        (libc::IPPROTO_IPV6, _) if !tag.has(Tag::V6) => return Err(Errno(libc::EOPNOTSUPP)),
        (libc::SOL_SOCKET, libc::SO_REUSEPORT) => Value::int(tag.has(Tag::SHARED).into()),
        (libc::SOL_SOCKET, libc::SO_ERROR) => Value::int(error(fd, tag)?),
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => Value::int(if tag.has(Tag::V6) {
            libc::AF_INET6
        } else {
            libc::AF_INET
        }),
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => Value::int(libc::IPPROTO_TCP),
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => Value::int(buffer(fd, tag, SNDBUF, name)?),
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => Value::int(buffer(fd, tag, RCVBUF, name)?),
        (libc::SOL_SOCKET, _) => native(fd, name, given.len())?,
        (libc::IPPROTO_TCP, n) if let Some(how) = tuned(n) => {
            Value::int(tuned_number(fd, tag, n, how)?)
        }
        _ => match inert::get(fd, level, name)? {
            Some(v) => Value::int(v),
            None => {
                note::unsupported("reading", level, name);
                return Err(Errno(libc::ENOPROTOOPT));
            }
        },
    })
}

/// Whether the value is a text, which gets a final NUL if there is room.
pub fn is_text(level: c_int) -> bool {
    level == SOL_WIFU
}

fn native(fd: c_int, name: c_int, room: usize) -> Result<Value> {
    let mut v = Value {
        bytes: [0; MAX_VALUE],
        len: room.min(MAX_VALUE),
    };
    v.len = sys::getsockopt_bytes(fd, libc::SOL_SOCKET, name, &mut v.bytes[..v.len])?;
    Ok(v)
}

fn read(fd: c_int, tag: Tag, name: &str) -> Result<daemon::Reply> {
    if name.len() > MAX_NAME {
        return Err(Errno(libc::EINVAL));
    }
    daemon::ask_ok(&Request::GetOpt {
        cookie: cookie(fd)?,
        spec: spec(tag),
        name,
    })
}

/// A number that the daemon knows of a socket.
pub(crate) fn number(fd: c_int, tag: Tag, name: &str) -> Option<i32> {
    read(fd, tag, name).ok()?.answer().value?.parse().ok()
}

/// As Linux, twice what was set; the kernel's own buffer if nothing was.
fn buffer(fd: c_int, tag: Tag, name: &str, option: c_int) -> Result<i32> {
    match number(fd, tag, name) {
        Some(n) => Ok(n.saturating_mul(2)),
        None => sys::getsockopt(fd, libc::SOL_SOCKET, option),
    }
}

/// The composition that the daemon uses for this socket, or would.
fn protocol(fd: c_int, tag: Tag, part: impl Fn(&str) -> &str) -> Value {
    let reply = read(fd, tag, PROTOCOL);
    let told = reply.as_ref().ok().and_then(|r| r.answer().value);
    Value::bytes(part(told.unwrap_or(spec(tag))).as_bytes())
}

/// `SO_ERROR`: takes the pending error and finds out what it means.
fn error(fd: c_int, tag: Tag) -> Result<i32> {
    let pending: i32 = sys::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR)?;
    if pending != 0 {
        return Ok(reason(fd, tag, pending).0);
    }
    if tag.has(Tag::CONNECTING) && sys::poll(fd, libc::POLLOUT, Some(0))? & libc::POLLOUT != 0 {
        // The success is reported: from here on a reset is a reset, and not a refusal.
        tag.set(Tag::CONNECTING, false).write(fd)?;
    }
    Ok(0)
}

/// What the connection uses, else what was set, else Linux's value for an untouched socket.
fn mss(fd: c_int, tag: Tag) -> i32 {
    let ask = |cookie| daemon::ask(&Request::Info { cookie }).ok();
    let reply = cookie(fd).ok().and_then(ask);
    let used = reply
        .and_then(|r| r.answer().info)
        .map(|i| i.snd_mss as i32);
    let known = |n: &i32| *n > 0;
    used.filter(known)
        .or_else(|| number(fd, tag, MAX_SEG).filter(known))
        .unwrap_or(536)
}

fn info(fd: c_int) -> Result<[u8; tcp_info::LEN]> {
    // TCP_CLOSE, TCP_LISTEN
    let listening = sys::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN)? == 1;
    let state = if listening { 10 } else { 7 };
    let reply = daemon::ask(&Request::Info {
        cookie: cookie(fd)?,
    });
    let told = reply.as_ref().ok().and_then(|r| r.answer().info);
    let info = told.unwrap_or(wifu_wire::front::Info {
        state,
        ..Default::default()
    });
    Ok(tcp_info::arrange(&info))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_numbers() {
        assert_eq!(Digits::default().of(0), "0");
        assert_eq!(Digits::default().of(u32::MAX), "4294967295");
        assert_eq!(Digits::default().with(u32::MAX, "ms"), "4294967295ms");
        assert_eq!(Digits::default().with(7, ""), "7");
    }

    #[test]
    fn the_tag_knows_which_options_were_set() {
        let [fd, other] = sys::socketpair().unwrap();
        let was = |tag| set_before(tag).collect::<Vec<_>>();
        let mut tag = Tag::default().with_protocol(215).set(Tag::V6, true);
        assert_eq!(was(tag), []);
        let one = 1i32.to_ne_bytes();
        for name in [libc::SO_KEEPALIVE, libc::SO_KEEPALIVE, libc::SO_PRIORITY] {
            tag = native_set(fd, tag, name, Given(&one)).unwrap();
            assert_eq!(was(tag), [libc::SO_KEEPALIVE]);
        }
        let limit = [one, [0; 4], [0; 4], [0; 4]].concat();
        tag = native_set(fd, tag, libc::SO_SNDTIMEO, Given(&limit)).unwrap();
        assert_eq!(was(tag), [libc::SO_SNDTIMEO, libc::SO_KEEPALIVE]);
        assert_eq!((tag.protocol(), tag.has(Tag::V6)), (215, true));
        assert_eq!(Tag::read(fd), Some(tag));
        [fd, other].into_iter().for_each(sys::close);
    }

    #[test]
    fn texts_may_end_with_nul_and_must_be_utf8() {
        assert_eq!(Given(b"iw=4\0junk").text(), Ok("iw=4"));
        assert_eq!(Given(b"iw=4").text(), Ok("iw=4"));
        assert_eq!(Given(b"\xff").text(), Err(Errno(libc::EINVAL)));
        assert_eq!(Given(b"\x01\0").int(), Err(Errno(libc::EINVAL)));
    }

    #[test]
    fn one_octet_is_a_number_for_the_ip_level_only() {
        let short = Err(Errno(libc::EINVAL));
        for (level, one) in [
            (libc::IPPROTO_IP, Ok(7)),
            (libc::IPPROTO_TCP, short),
            (libc::IPPROTO_IPV6, short),
        ] {
            assert_eq!(Given(&[7]).number(level), one, "{level}");
            assert_eq!(Given(&[7, 1, 1]).number(level), one, "{level}");
            assert_eq!(Given(&[]).number(level), short, "{level}");
            assert_eq!(Given(&7i32.to_ne_bytes()).number(level), Ok(7), "{level}");
        }
    }
}
