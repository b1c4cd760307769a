//! The system calls of a script as calls of the stack, and their results as the script has them.

use super::calls::{Answer, Call};
use super::names;
use super::script::Expr;
use core::net::SocketAddrV4;
use std::collections::BTreeMap;
use wifu_wire::names::unknown;

/// What the script's words mean where it is played.
pub(super) struct Live<'a> {
    /// The stack's descriptors by the script's.
    pub(super) fds: &'a BTreeMap<i64, i32>,
    /// Where `bind` binds.
    pub(super) local: SocketAddrV4,
    /// Where `connect` goes.
    pub(super) remote: SocketAddrV4,
}

/// What is compared besides what the call returns.
#[derive(Clone, Debug)]
pub(super) enum Check {
    /// Nothing.
    Number,
    /// What is returned is a new descriptor.
    Descriptor,
    /// The number that the call puts into its argument, while it returns 0.
    Inside(i64),
    /// An option's value.
    Option(Expr),
    /// What is true of each descriptor.
    Events(Vec<i16>),
}

/// The calls, for messages.
const CALLS: [&str; 22] = [
    "socket",
    "bind",
    "listen",
    "accept",
    "connect",
    "read",
    "readv",
    "recv",
    "recvfrom",
    "recvmsg",
    "write",
    "writev",
    "send",
    "sendto",
    "sendmsg",
    "shutdown",
    "close",
    "fcntl",
    "ioctl",
    "poll",
    "setsockopt",
    "getsockopt",
];

/// Arguments by their place.
struct Args<'a>(&'a [Expr], &'a Live<'a>);

impl Args<'_> {
    fn number(&self, at: usize) -> Result<i64, String> {
        match self.0.get(at) {
            Some(Expr::Number(n)) => Ok(*n),
            Some(_) => Err(format!("argument {} is to be a number", at + 1)),
            None => Err(format!("argument {} is missing", at + 1)),
        }
    }

    fn int(&self, at: usize) -> Result<i32, String> {
        let n = self.number(at)?;
        i32::try_from(n).map_err(|_| format!("argument {} is out of range", at + 1))
    }

    fn octets(&self, at: usize) -> Result<usize, String> {
        let n = self.number(at)?;
        usize::try_from(n).map_err(|_| format!("argument {} is out of range", at + 1))
    }

    fn fd(&self, at: usize) -> Result<i32, String> {
        self.live(self.number(at)?)
    }

    fn live(&self, fd: i64) -> Result<i32, String> {
        let known = self.1.fds.get(&fd).copied();
        known.ok_or_else(|| format!("no call of this script gave descriptor {fd}"))
    }

    fn value(&self, at: usize) -> Result<&Expr, String> {
        let value = self.0.get(at);
        value.ok_or_else(|| format!("argument {} is missing", at + 1))
    }

    /// Octets of a list of `{..., n}`.
    fn vector(&self, at: usize) -> Result<usize, String> {
        match self.value(at)? {
            Expr::List(list) => vector(list),
            _ => Err(format!("argument {} is to be [{{..., n}}, ...]", at + 1)),
        }
    }

    /// Octets of the message of `sendmsg` and `recvmsg`.
    fn message(&self, at: usize) -> Result<usize, String> {
        if let Expr::Struct(fields) = self.value(at)? {
            let iov = fields.iter().find(|(name, _)| name == "msg_iov");
            if let Some((_, Expr::List(list))) = iov {
                return vector(list);
            }
        }
        Err(format!(
            "argument {} is to be {{..., msg_iov(1)=[{{..., n}}], ...}}",
            at + 1
        ))
    }

    /// The octets that an option is set to.
    fn option(&self, at: usize) -> Result<Vec<u8>, String> {
        let wrong = || format!("argument {}: write [number], \"text\" or fields", at + 1);
        match self.value(at)? {
            Expr::Text(text) => Ok(text.as_bytes().to_vec()),
            Expr::List(list) => match list.as_slice() {
                [Expr::Number(n)] => Ok((*n as i32).to_ne_bytes().to_vec()),
                _ => Err(wrong()),
            },
            Expr::Struct(fields) => {
                let numbers = fields.iter().map(|(_, value)| match value {
                    Expr::Number(n) => Ok((*n as i32).to_ne_bytes()),
                    _ => Err(wrong()),
                });
                Ok(numbers.collect::<Result<Vec<_>, _>>()?.concat())
            }
            _ => Err(wrong()),
        }
    }
}

fn vector(list: &[Expr]) -> Result<usize, String> {
    let mut sum = 0;
    for piece in list {
        match piece {
            Expr::Struct(fields) => match fields.as_slice() {
                [(_, Expr::Any), (_, Expr::Number(n))] if *n >= 0 => sum += *n as usize,
                _ => return Err("a piece of a vector is {..., octets}".into()),
            },
            _ => return Err("a piece of a vector is {..., octets}".into()),
        }
    }
    Ok(sum)
}

/// A call of a script as one of the stack, and what is compared afterwards.
///
/// # Errors
/// What is wrong with the name or an argument.
pub(super) fn translate(
    name: &str,
    args: &[Expr],
    live: &Live<'_>,
) -> Result<(Call, Check), String> {
    let a = Args(args, live);
    let zeros = |n: usize| vec![0; n];
    let call = match name {
        "socket" => {
            let call = Call::Socket(libc::AF_INET, a.int(1)?, a.int(2)?);
            return Ok((call, Check::Descriptor));
        }
        "accept" => return Ok((Call::Accept(a.fd(0)?), Check::Descriptor)),
        "bind" => Call::Bind(a.fd(0)?, live.local),
        "listen" => Call::Listen(a.fd(0)?, a.int(1)?),
        "connect" => Call::Connect(a.fd(0)?, live.remote),
        "read" => Call::Recv(a.fd(0)?, a.octets(2)?, 0),
        "readv" => Call::Recv(a.fd(0)?, a.vector(1)?, 0),
        "recv" | "recvfrom" => Call::Recv(a.fd(0)?, a.octets(2)?, a.int(3)?),
        "recvmsg" => Call::Recv(a.fd(0)?, a.message(1)?, a.int(2)?),
        "write" => Call::Send(a.fd(0)?, zeros(a.octets(2)?), 0),
        "writev" => Call::Send(a.fd(0)?, zeros(a.vector(1)?), 0),
        "send" | "sendto" => Call::Send(a.fd(0)?, zeros(a.octets(2)?), a.int(3)?),
        "sendmsg" => Call::Send(a.fd(0)?, zeros(a.message(1)?), a.int(2)?),
        "shutdown" => Call::Shutdown(a.fd(0)?, a.int(1)?),
        "close" => Call::Close(a.fd(0)?),
        "fcntl" => match a.int(1)? {
            libc::F_GETFL => Call::GetFlags(a.fd(0)?),
            libc::F_SETFL => Call::SetFlags(a.fd(0)?, a.int(2)?),
            _ => return Err("fcntl has F_GETFL and F_SETFL here".into()),
        },
        "ioctl" => {
            let fd = a.fd(0)?;
            let call = match a.number(1)? as u64 {
                libc::FIONREAD => Call::Unread(fd),
                libc::TIOCOUTQ => Call::Unsent(fd),
                _ => return Err("ioctl has SIOCINQ and SIOCOUTQ here".into()),
            };
            return match a.value(2)? {
                Expr::List(list) => match list.as_slice() {
                    [Expr::Number(n)] => Ok((call, Check::Inside(*n))),
                    _ => Err("argument 3 is to be [number]".into()),
                },
                _ => Err("argument 3 is to be [number]".into()),
            };
        }
        "poll" => return poll(&a),
        "setsockopt" => Call::SetOption(a.fd(0)?, a.int(1)?, a.int(2)?, a.option(3)?),
        "getsockopt" => {
            let call = Call::GetOption(a.fd(0)?, a.int(1)?, a.int(2)?, Vec::new());
            return Ok((call, Check::Option(a.value(3)?.clone())));
        }
        _ => {
            return Err(unknown("call", name, CALLS));
        }
    };
    Ok((call, Check::Number))
}

/// `poll([{fd=4, events=POLLIN, revents=0}], 1, timeout)`.
fn poll(a: &Args<'_>) -> Result<(Call, Check), String> {
    let wrong = || String::from("argument 1 is to be [{fd=4, events=POLLIN, revents=POLLIN}, ...]");
    let Expr::List(list) = a.value(0)? else {
        return Err(wrong());
    };
    let (mut asked, mut expected) = (Vec::new(), Vec::new());
    for entry in list {
        let Expr::Struct(fields) = entry else {
            return Err(wrong());
        };
        let field = |name: &str| match fields.iter().find(|(n, _)| n == name) {
            Some((_, Expr::Number(n))) => Ok(*n),
            _ => Err(wrong()),
        };
        asked.push((a.live(field("fd")?)?, field("events")? as i16));
        expected.push(field("revents")? as i16);
    }
    Ok((Call::Poll(asked, a.int(2)?), Check::Events(expected)))
}

/// Compares what a call came to with what the script says; gives the new descriptor if there is
/// one.
///
/// # Errors
/// The difference.
pub(super) fn compare(
    answer: &Answer,
    check: &Check,
    (result, errno): (i64, Option<i64>),
) -> Result<Option<i32>, String> {
    let expected = || {
        let name = errno.and_then(|n| names::errno(n as i32));
        match name {
            Some(name) => format!("{result} {name}"),
            None => result.to_string(),
        }
    };
    let value = match answer {
        Err(got) => {
            let same = result == -1 && errno.is_none_or(|n| n == i64::from(got.0));
            return match same {
                true => Ok(None),
                false => Err(format!("it returned -1 {got}, expected {}", expected())),
            };
        }
        Ok(value) => value,
    };
    let returned = match check {
        Check::Inside(_) | Check::Option(_) => 0,
        _ => value.number,
    };
    if matches!(check, Check::Descriptor) && result >= 0 {
        return Ok(Some(value.number as i32));
    }
    if returned != result {
        return Err(format!("it returned {returned}, expected {}", expected()));
    }
    match check {
        Check::Inside(n) if *n != value.number => {
            Err(format!("it gave {}, expected {n}", value.number))
        }
        Check::Option(expr) => option(&value.bytes, expr).map(|()| None),
        Check::Events(events) if *events != value.events => Err(format!(
            "the events were {:#x?}, expected {events:#x?}",
            value.events
        )),
        _ => Ok(None),
    }
}

/// Compares an option's value.
fn option(got: &[u8], expected: &Expr) -> Result<(), String> {
    let number = got.first_chunk::<4>().map(|b| i32::from_ne_bytes(*b));
    match (expected, number) {
        (Expr::Any, _) => Ok(()),
        (Expr::Text(text), _) => {
            let end = got.iter().position(|b| *b == 0).unwrap_or(got.len());
            let got = String::from_utf8_lossy(&got[..end]);
            match got == text.as_str() {
                true => Ok(()),
                false => Err(format!("the value is \"{got}\", expected \"{text}\"")),
            }
        }
        (Expr::List(list), Some(n)) => match list.as_slice() {
            [Expr::Number(e)] if *e == i64::from(n) => Ok(()),
            [Expr::Number(e)] => Err(format!("the value is {n}, expected {e}")),
            _ => Err("write the expected value as [number]".into()),
        },
        _ => Err("write the expected value as [number], \"text\" or ...".into()),
    }
}
