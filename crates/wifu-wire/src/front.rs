//! The protocol between applications and the daemon, as bytes.
//!
//! A connection to the daemon's UNIX socket starts with one frame: a [`Header`], a body of
//! tag-length-value records, and padding. A [`Request::Connect`] frame turns the connection into
//! the data path of a WiFu connection; every other request gets one [`Answer`] frame and the
//! connection ends. All numbers are little-endian: both ends are on one machine.
//!
//! Encoding needs no allocation, since the library encodes on the stack of a caller that may be
//! between `fork` and `exec`. Decoding checks every length, refuses unknown and repeated tags, and
//! borrows its texts from the frame.
//!
//! Addresses of applications are abstract UNIX names, which exist per network namespace:
//! [`Name::service`] for bound sockets and [`Name::peer`] for the daemon's end of an accepted
//! connection, from which the application reads both addresses without asking anybody.

mod codec;
mod info;
mod name;
mod options;

pub use info::Info;
pub use name::{
    Key, MARKER_LEN, MAX_NAME_LEN, Name, marker, parse_marker, parse_peer, parse_service,
};
pub use options::Options;

use codec::{RECORD_LEN, Records, Writer};
use core::net::SocketAddr;

/// The four bytes that open every frame.
pub const MAGIC: [u8; 4] = *b"WIFU";
/// The version of this protocol; other versions are refused.
pub const VERSION: u16 = 1;
/// Length of an encoded [`Header`], bytes.
pub const HEADER_LEN: usize = 16;
/// The longest body of a request, bytes: a frame's head fits one peek into a stack buffer.
pub const MAX_REQUEST: usize = 4096;
/// The longest body of an answer, bytes (the list of all connections is one).
pub const MAX_ANSWER: usize = 16 << 20;
/// The longest padding, bytes: ten times the send buffer that systems allow by default.
pub const MAX_PAD: usize = 4 << 20;
/// The longest composition text, bytes.
pub const MAX_SPEC: usize = 1024;
/// The longest option name, bytes.
pub const MAX_NAME: usize = 128;
/// The option that only reads: octets that a connection's peer has not acknowledged, those that the
/// daemon has not taken from the socket included.
pub const SEND_QUEUE: &str = "send-queue";
/// The option that only reads: what a connection has counted and `TCP_INFO` has no room for, as
/// JSON with the names of the simulator's outcome. `rtt` is text of [`Delays`](crate::Delays).
pub const COUNTED: &str = "counted";
/// The level of WiFu's own options of sockets.
pub const SOL_WIFU: i32 = 0x5769;
/// A protocol parameter: `name=value` to set; to get, the buffer holds the name and receives the
/// value.
pub const WIFU_PARAM: i32 = 1;
/// Send buffers that a program sets below this, in octets as `SO_SNDBUF` takes them, are bounds of
/// the kernel's own buffer as well, in which then no byte is held.
pub const SMALL_BUFFER: i32 = 32_768;
/// The longest option value in a request, bytes.
pub const MAX_VALUE: usize = 2048;

/// Why bytes are no frame of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrontError {
    /// The first bytes are not [`MAGIC`].
    Magic,
    /// Another version than [`VERSION`].
    Version(u16),
    /// No such kind of frame.
    Kind(u16),
    /// Body or padding longer than allowed, bytes.
    TooLong(u32),
    /// The bytes end within a record.
    Truncated,
    /// No such tag.
    Tag(u16),
    /// A record has the wrong length for its tag, or appears twice.
    Record(u16),
    /// A text is not UTF-8.
    Text(u16),
    /// A record that this kind of frame needs is missing.
    Missing(Tag),
    /// The buffer to encode into is too small.
    Space,
}

impl core::fmt::Display for FrontError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            FrontError::Magic => f.write_str("not a WiFu frame (wrong magic)"),
            FrontError::Version(v) => write!(f, "protocol version {v}, expected {VERSION}"),
            FrontError::Kind(k) => write!(f, "unknown frame kind {k}"),
            FrontError::TooLong(n) => write!(f, "frame too long ({n} bytes)"),
            FrontError::Truncated => f.write_str("frame ends within a record"),
            FrontError::Tag(t) => write!(f, "unknown record tag {t}"),
            FrontError::Record(t) => write!(f, "malformed or repeated record with tag {t}"),
            FrontError::Text(t) => write!(f, "text of the record with tag {t} is not UTF-8"),
            FrontError::Missing(t) => write!(f, "record {t:?} is missing"),
            FrontError::Space => f.write_str("buffer too small for the frame"),
        }
    }
}

impl core::error::Error for FrontError {}

macro_rules! numbered {
    ($(#[$m:meta])* $vis:vis enum $name:ident { $($(#[$vm:meta])* $v:ident = $n:literal,)+ }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        $vis enum $name { $($(#[$vm])* $v = $n,)+ }
        impl $name {
            /// The variant with this number.
            pub const fn from_u16(n: u16) -> Option<$name> {
                match n { $($n => Some($name::$v),)+ _ => None }
            }
        }
    };
}

numbered! {
    /// What a frame asks for.
    pub enum Kind {
        /// Open a connection; this UNIX connection becomes its data path.
        Connect = 1,
        /// Register a listening socket.
        Listen = 2,
        /// Why did my connection fail?
        Why = 3,
        /// Which addresses has my connection?
        Names = 4,
        /// Set an option.
        SetOpt = 5,
        /// Read an option.
        GetOpt = 6,
        /// The numbers behind `TCP_INFO`.
        Info = 7,
        /// All connections, as JSON text.
        Stats = 8,
        /// Is the daemon there? The answer's value is its version.
        Ping = 9,
        /// Named numbers of all connections, as JSON text.
        Values = 10,
        /// May another socket be bound to an address?
        Share = 11,
        /// What was set on one socket is another's now.
        Move = 12,
        /// What opens the door for programs whose root is another one, which the daemon's path
        /// means nothing to. The answer's value is a [`Key`].
        Key = 13,
        /// Opens that door: the first frame of a connection to it, without an answer. Any other
        /// frame follows.
        Admit = 14,
        /// The daemon's answer to any of these.
        Answer = 100,
    }
}

numbered! {
    /// The records of a body.
    pub enum Tag {
        /// `SO_COOKIE` of the application's socket.
        Cookie = 1,
        /// Local address: its 4 or 16 octets and a port.
        Local = 2,
        /// Remote address: its 4 or 16 octets and a port.
        Remote = 3,
        /// Composition text, as in `tcp-newreno,iw=4`.
        Spec = 4,
        /// [`Options`] bits.
        Options = 5,
        /// Length of the accept queue.
        Backlog = 6,
        /// Inode of the application's socket, by which the daemon finds out if it still exists.
        Inode = 7,
        /// An errno, 0 for success.
        Errno = 8,
        /// Name of an option.
        Name = 9,
        /// Value of an option, or any text.
        Value = 10,
        /// The fields of [`Info`] in order, eight bytes each.
        Info = 11,
        /// `SO_COOKIE` of the socket in whose place another one comes.
        Former = 12,
    }
}

/// The fixed start of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame asks for.
    pub kind: Kind,
    /// Length of the records that follow, bytes.
    pub body: u32,
    /// Length of the padding after the records, bytes.
    pub pad: u32,
}

impl Header {
    /// The header as bytes.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut b = [0; HEADER_LEN];
        b[..4].copy_from_slice(&MAGIC);
        b[4..6].copy_from_slice(&VERSION.to_le_bytes());
        b[6..8].copy_from_slice(&(self.kind as u16).to_le_bytes());
        b[8..12].copy_from_slice(&self.body.to_le_bytes());
        b[12..].copy_from_slice(&self.pad.to_le_bytes());
        b
    }

    /// Decodes the first [`HEADER_LEN`] bytes. `Ok(None)` means that more bytes are needed and that
    /// those present are right so far.
    ///
    /// # Errors
    /// Wrong magic, version or kind, or lengths above the limits of this module.
    pub fn decode(b: &[u8]) -> Result<Option<Header>, FrontError> {
        let n = b.len().min(MAGIC.len());
        if b[..n] != MAGIC[..n] {
            return Err(FrontError::Magic);
        }
        if b.len() < HEADER_LEN {
            return Ok(None);
        }
        let version = u16::from_le_bytes([b[4], b[5]]);
        if version != VERSION {
            return Err(FrontError::Version(version));
        }
        let number = u16::from_le_bytes([b[6], b[7]]);
        let kind = Kind::from_u16(number).ok_or(FrontError::Kind(number))?;
        let body = u32::from_le_bytes([b[8], b[9], b[10], b[11]]);
        let pad = u32::from_le_bytes([b[12], b[13], b[14], b[15]]);
        let limit = if kind == Kind::Answer {
            MAX_ANSWER
        } else {
            MAX_REQUEST
        };
        if body as usize > limit {
            return Err(FrontError::TooLong(body));
        }
        if pad as usize > MAX_PAD {
            return Err(FrontError::TooLong(pad));
        }
        Ok(Some(Header { kind, body, pad }))
    }

    /// Length of the whole frame, bytes.
    pub fn total(&self) -> usize {
        HEADER_LEN + self.body as usize + self.pad as usize
    }
}

/// What an application asks the daemon for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// See [`Kind::Connect`].
    Connect {
        /// `SO_COOKIE` of the application's socket.
        cookie: u64,
        /// The address bound to; if that is unspecified, of either family, the way to `remote`
        /// decides.
        local: SocketAddr,
        /// Where to; `::` is this host.
        remote: SocketAddr,
        /// Composition text.
        spec: &'a str,
        /// Options set so far.
        options: Options,
    },
    /// See [`Kind::Listen`].
    Listen {
        /// `SO_COOKIE` of the listening socket.
        cookie: u64,
        /// `st_ino` of the same socket, by which a reader of `/proc` finds its owner.
        inode: u64,
        /// The address bound to; 0.0.0.0 or `::` for all of a family, 0.0.0.0 with
        /// [`Options::DUAL`] for all.
        local: SocketAddr,
        /// Composition text.
        spec: &'a str,
        /// Length of the accept queue.
        backlog: u32,
        /// Options set so far; accepted connections inherit them.
        options: Options,
    },
    /// See [`Kind::Why`].
    Why {
        /// `SO_COOKIE` of the application's socket.
        cookie: u64,
    },
    /// See [`Kind::Names`].
    Names {
        /// `SO_COOKIE` of the application's socket.
        cookie: u64,
    },
    /// See [`Kind::SetOpt`].
    SetOpt {
        /// `SO_COOKIE` of the application's socket.
        cookie: u64,
        /// Composition text of a socket that the daemon doesn't know yet.
        spec: &'a str,
        /// Name of the option.
        name: &'a str,
        /// Its new value.
        value: &'a str,
    },
    /// See [`Kind::GetOpt`].
    GetOpt {
        /// `SO_COOKIE` of the application's socket.
        cookie: u64,
        /// Composition text of a socket that the daemon doesn't know yet.
        spec: &'a str,
        /// Name of the option.
        name: &'a str,
    },
    /// See [`Kind::Info`].
    Info {
        /// `SO_COOKIE` of the application's socket.
        cookie: u64,
    },
    /// See [`Kind::Share`].
    Share {
        /// The address, which another socket is bound to.
        local: SocketAddr,
        /// Options of the one that asks.
        options: Options,
    },
    /// See [`Kind::Move`].
    Move {
        /// `SO_COOKIE` of the socket whose options they were.
        former: u64,
        /// `SO_COOKIE` of the one in its place.
        cookie: u64,
    },
    /// See [`Kind::Key`].
    Key,
    /// See [`Kind::Admit`].
    Admit {
        /// [`Key::secret`].
        secret: &'a str,
    },
    /// See [`Kind::Stats`].
    Stats,
    /// See [`Kind::Ping`].
    Ping,
    /// See [`Kind::Values`].
    Values {
        /// Names of quantities with commas between: `cwnd,cubic.w_max`; empty for all.
        names: &'a str,
    },
}

impl<'a> Request<'a> {
    /// The kind of frame that carries this request.
    pub fn kind(&self) -> Kind {
        match self {
            Request::Connect { .. } => Kind::Connect,
            Request::Listen { .. } => Kind::Listen,
            Request::Why { .. } => Kind::Why,
            Request::Names { .. } => Kind::Names,
            Request::SetOpt { .. } => Kind::SetOpt,
            Request::GetOpt { .. } => Kind::GetOpt,
            Request::Info { .. } => Kind::Info,
            Request::Share { .. } => Kind::Share,
            Request::Move { .. } => Kind::Move,
            Request::Key => Kind::Key,
            Request::Admit { .. } => Kind::Admit,
            Request::Stats => Kind::Stats,
            Request::Ping => Kind::Ping,
            Request::Values { .. } => Kind::Values,
        }
    }

    /// Writes header and records to `buf` and returns their length; `pad` bytes of any value must
    /// follow on the wire.
    ///
    /// # Errors
    /// [`FrontError::Space`] if `buf` is too small, [`FrontError::TooLong`] if a limit is exceeded.
    pub fn encode(&self, buf: &mut [u8], pad: u32) -> Result<usize, FrontError> {
        let mut w = Writer::new(buf)?;
        match *self {
            Request::Connect {
                cookie,
                local,
                remote,
                spec,
                options,
            } => {
                w.u64(Tag::Cookie, cookie)?;
                w.addr(Tag::Local, local)?;
                w.addr(Tag::Remote, remote)?;
                w.text(Tag::Spec, spec, MAX_SPEC)?;
                w.u32(Tag::Options, options.0)?;
            }
            Request::Listen {
                cookie,
                inode,
                local,
                spec,
                backlog,
                options,
            } => {
                w.u64(Tag::Cookie, cookie)?;
                w.u64(Tag::Inode, inode)?;
                w.addr(Tag::Local, local)?;
                w.text(Tag::Spec, spec, MAX_SPEC)?;
                w.u32(Tag::Backlog, backlog)?;
                w.u32(Tag::Options, options.0)?;
            }
            Request::Why { cookie } | Request::Names { cookie } | Request::Info { cookie } => {
                w.u64(Tag::Cookie, cookie)?;
            }
            Request::SetOpt {
                cookie,
                spec,
                name,
                value,
            } => {
                w.u64(Tag::Cookie, cookie)?;
                w.text(Tag::Spec, spec, MAX_SPEC)?;
                w.text(Tag::Name, name, MAX_NAME)?;
                w.text(Tag::Value, value, MAX_VALUE)?;
            }
            Request::GetOpt { cookie, spec, name } => {
                w.u64(Tag::Cookie, cookie)?;
                w.text(Tag::Spec, spec, MAX_SPEC)?;
                w.text(Tag::Name, name, MAX_NAME)?;
            }
            Request::Share { local, options } => {
                w.addr(Tag::Local, local)?;
                w.u32(Tag::Options, options.0)?;
            }
            Request::Move { former, cookie } => {
                w.u64(Tag::Former, former)?;
                w.u64(Tag::Cookie, cookie)?;
            }
            Request::Values { names } => w.text(Tag::Value, names, MAX_VALUE)?,
            Request::Admit { secret } => w.text(Tag::Value, secret, Key::LEN)?,
            Request::Stats | Request::Ping | Request::Key => {}
        }
        w.finish(self.kind(), pad)
    }

    /// Decodes the records of a request frame.
    ///
    /// # Errors
    /// Anything but exactly the records that the kind needs, with lengths within the limits.
    pub fn decode(kind: Kind, body: &'a [u8]) -> Result<Request<'a>, FrontError> {
        let r = Records::decode(body)?;
        let cookie = || r.cookie.ok_or(FrontError::Missing(Tag::Cookie));
        let name = || short(r.name, Tag::Name, MAX_NAME);
        let spec = || short(r.spec, Tag::Spec, MAX_SPEC);
        let options = || {
            r.options
                .map(Options)
                .ok_or(FrontError::Missing(Tag::Options))
        };
        let local = || r.local.ok_or(FrontError::Missing(Tag::Local));
        Ok(match kind {
            Kind::Connect => Request::Connect {
                cookie: cookie()?,
                local: local()?,
                remote: r.remote.ok_or(FrontError::Missing(Tag::Remote))?,
                spec: spec()?,
                options: options()?,
            },
            Kind::Listen => Request::Listen {
                cookie: cookie()?,
                inode: r.inode.ok_or(FrontError::Missing(Tag::Inode))?,
                local: local()?,
                spec: spec()?,
                backlog: r.backlog.ok_or(FrontError::Missing(Tag::Backlog))?,
                options: options()?,
            },
            Kind::Why => Request::Why { cookie: cookie()? },
            Kind::Names => Request::Names { cookie: cookie()? },
            Kind::SetOpt => Request::SetOpt {
                cookie: cookie()?,
                spec: spec()?,
                name: name()?,
                value: short(r.value, Tag::Value, MAX_VALUE)?,
            },
            Kind::GetOpt => Request::GetOpt {
                cookie: cookie()?,
                spec: spec()?,
                name: name()?,
            },
            Kind::Info => Request::Info { cookie: cookie()? },
            Kind::Share => Request::Share {
                local: local()?,
                options: options()?,
            },
            Kind::Move => Request::Move {
                former: r.former.ok_or(FrontError::Missing(Tag::Former))?,
                cookie: cookie()?,
            },
            Kind::Key => Request::Key,
            Kind::Admit => Request::Admit {
                secret: short(r.value, Tag::Value, Key::LEN)?,
            },
            Kind::Stats => Request::Stats,
            Kind::Ping => Request::Ping,
            Kind::Values => Request::Values {
                names: short(r.value, Tag::Value, MAX_VALUE)?,
            },
            Kind::Answer => return Err(FrontError::Kind(Kind::Answer as u16)),
        })
    }
}

fn short(text: Option<&str>, tag: Tag, max: usize) -> Result<&str, FrontError> {
    let text = text.ok_or(FrontError::Missing(tag))?;
    if text.len() > max {
        return Err(FrontError::TooLong(text.len() as u32));
    }
    Ok(text)
}

/// What the daemon says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Answer<'a> {
    /// 0, or the errno with which the request failed (for [`Request::Why`]: the connection).
    pub errno: u32,
    /// Local address, for [`Request::Names`] and [`Request::Listen`].
    pub local: Option<SocketAddr>,
    /// Remote address, for [`Request::Names`].
    pub remote: Option<SocketAddr>,
    /// Value of an option, JSON text, a version, or what an error means.
    pub value: Option<&'a str>,
    /// For [`Request::Info`].
    pub info: Option<Info>,
}

impl<'a> Answer<'a> {
    /// An answer that says only this errno.
    pub fn errno(errno: u32) -> Answer<'static> {
        Answer {
            errno,
            ..Answer::default()
        }
    }

    /// The longest frame that [`Answer::encode`] may write, bytes.
    pub fn room(&self) -> usize {
        HEADER_LEN
            + 3 * (RECORD_LEN + 18)
            + RECORD_LEN
            + self.value.map_or(0, str::len)
            + RECORD_LEN
            + Info::LEN
    }

    /// Writes the frame to `buf` and returns its length.
    ///
    /// # Errors
    /// [`FrontError::Space`] if `buf` is too small, [`FrontError::TooLong`] if a limit is exceeded.
    pub fn encode(&self, buf: &mut [u8]) -> Result<usize, FrontError> {
        let mut w = Writer::new(buf)?;
        w.u32(Tag::Errno, self.errno)?;
        if let Some(a) = self.local {
            w.addr(Tag::Local, a)?;
        }
        if let Some(a) = self.remote {
            w.addr(Tag::Remote, a)?;
        }
        if let Some(text) = self.value {
            w.text(Tag::Value, text, MAX_ANSWER - 1024)?;
        }
        if let Some(info) = &self.info {
            w.info(info)?;
        }
        w.finish(Kind::Answer, 0)
    }

    /// Decodes the records of an answer frame.
    ///
    /// # Errors
    /// Malformed records or no errno.
    pub fn decode(body: &'a [u8]) -> Result<Answer<'a>, FrontError> {
        let r = Records::decode(body)?;
        Ok(Answer {
            errno: r.errno.ok_or(FrontError::Missing(Tag::Errno))?,
            local: r.local,
            remote: r.remote,
            value: r.value,
            info: r.info,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rng;
    use core::net::Ipv4Addr;

    fn addr(ip: [u8; 4], port: u16) -> SocketAddr {
        SocketAddr::new(Ipv4Addr::from(ip).into(), port)
    }

    fn samples() -> Vec<Request<'static>> {
        let local = addr([0, 0, 0, 0], 0);
        let remote = addr([10, 1, 2, 3], 65535);
        vec![
            Request::Connect {
                cookie: u64::MAX,
                local,
                remote,
                spec: "tcp-newreno,iw=4",
                options: Options::NODELAY.with(Options::NO_HOLD),
            },
            Request::Listen {
                cookie: 7,
                inode: 99,
                local: remote,
                spec: "",
                backlog: 4096,
                options: Options::default(),
            },
            Request::Why { cookie: 1 },
            Request::Names { cookie: 2 },
            Request::SetOpt {
                cookie: 3,
                spec: "tcp-reno",
                name: "iw",
                value: "10",
            },
            Request::GetOpt {
                cookie: 4,
                spec: "tcp-reno",
                name: "protocol",
            },
            Request::Info { cookie: 5 },
            Request::Stats,
            Request::Ping,
            Request::Values {
                names: "cwnd,cubic.w_max",
            },
            Request::Values { names: "" },
            Request::Move {
                former: 6,
                cookie: 7,
            },
            Request::Key,
            Request::Admit { secret: "0123" },
            Request::Share {
                local: addr([10, 0, 0, 1], 80),
                options: Options::SHARED.with_nth(3),
            },
        ]
    }

    #[test]
    fn requests_survive_the_wire() {
        for request in samples() {
            let mut buf = [0; HEADER_LEN + MAX_REQUEST];
            let n = request.encode(&mut buf, 5).unwrap();
            let header = Header::decode(&buf[..n]).unwrap().unwrap();
            assert_eq!(header.kind, request.kind());
            assert_eq!(header.total(), n + 5);
            assert_eq!(
                Request::decode(header.kind, &buf[HEADER_LEN..n]).unwrap(),
                request
            );
        }
    }

    #[test]
    fn answers_survive_the_wire() {
        let mut fields = [0; Info::LEN / 8];
        for (i, f) in fields.iter_mut().enumerate() {
            *f = (i as u64 + 1) << (i % 57);
        }
        let long = "x".repeat(100_000);
        let answers = [
            Answer::errno(111),
            Answer {
                local: Some(addr([1, 2, 3, 4], 5)),
                ..Answer::default()
            },
            Answer {
                remote: Some(addr([1, 2, 3, 4], 5)),
                value: Some(&long),
                ..Answer::default()
            },
            Answer {
                info: Some(Info::from_fields(fields)),
                ..Answer::default()
            },
        ];
        for answer in answers {
            let mut buf = vec![0; answer.room()];
            let n = answer.encode(&mut buf).unwrap();
            let header = Header::decode(&buf).unwrap().unwrap();
            assert_eq!((header.kind, header.total()), (Kind::Answer, n));
            assert_eq!(Answer::decode(&buf[HEADER_LEN..n]).unwrap(), answer);
        }
    }

    #[test]
    fn a_partial_header_is_awaited_and_a_wrong_one_refused_at_once() {
        let whole = Header {
            kind: Kind::Ping,
            body: 0,
            pad: 0,
        }
        .encode();
        for n in 0..HEADER_LEN {
            assert_eq!(Header::decode(&whole[..n]), Ok(None), "{n} bytes");
        }
        assert_eq!(Header::decode(b"G"), Err(FrontError::Magic));
        assert_eq!(
            Header::decode(b"GET / HTTP/1.1\r\n"),
            Err(FrontError::Magic)
        );
        let mut other = whole;
        other[4] = 9;
        assert_eq!(Header::decode(&other), Err(FrontError::Version(9)));
        let mut other = whole;
        other[6] = 77;
        assert_eq!(Header::decode(&other), Err(FrontError::Kind(77)));
        let mut other = whole;
        other[8..12].copy_from_slice(&(MAX_REQUEST as u32 + 1).to_le_bytes());
        assert_eq!(Header::decode(&other), Err(FrontError::TooLong(4097)));
        let mut other = whole;
        other[12..].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(Header::decode(&other), Err(FrontError::TooLong(u32::MAX)));
    }

    #[test]
    fn missing_and_repeated_records_are_refused() {
        for request in samples() {
            let mut buf = [0; HEADER_LEN + MAX_REQUEST];
            let n = request.encode(&mut buf, 0).unwrap();
            let body = &buf[HEADER_LEN..n];
            if body.is_empty() {
                continue;
            }
            assert!(matches!(
                Request::decode(request.kind(), &[]),
                Err(FrontError::Missing(_))
            ));
            let twice = [body, body].concat();
            assert!(matches!(
                Request::decode(request.kind(), &twice),
                Err(FrontError::Record(_))
            ));
            for cut in 1..body.len() {
                assert!(
                    Request::decode(request.kind(), &body[..cut]).is_err(),
                    "{cut}"
                );
            }
        }
    }

    #[test]
    fn limits_hold_on_both_sides() {
        let long = "v".repeat(MAX_VALUE + 1);
        let request = Request::SetOpt {
            cookie: 1,
            spec: "",
            name: "n",
            value: &long,
        };
        let mut buf = [0; HEADER_LEN + MAX_REQUEST];
        assert_eq!(request.encode(&mut buf, 0), Err(FrontError::TooLong(2049)));
        assert_eq!(
            Request::Ping.encode(&mut buf[..15], 0),
            Err(FrontError::Space)
        );
        assert_eq!(
            Request::Why { cookie: 0 }.encode(&mut buf[..29], 0),
            Err(FrontError::Space)
        );
        assert_eq!(Request::Why { cookie: 0 }.encode(&mut buf[..30], 0), Ok(30));
        assert!(Request::Ping.encode(&mut buf, MAX_PAD as u32 + 1).is_err());
    }

    #[test]
    fn garbage_is_refused_without_panic() {
        let mut rng = Rng::new(1);
        let mut seen = 0;
        for round in 0..200_000 {
            let mut buf = [0; 128];
            for b in &mut buf {
                // Small values make plausible tags and lengths, which reach deeper.
                *b = (rng.next_u64() as u8) >> (rng.next_u64() % 8);
            }
            let n = (rng.next_u64() % 129) as usize;
            let kind = Kind::from_u16((round % 15) as u16).unwrap_or(Kind::Answer);
            seen += usize::from(Request::decode(kind, &buf[..n]).is_ok());
            let _ = Answer::decode(&buf[..n]);
            let _ = Header::decode(&buf[..n]);
            let _ = parse_service(&buf[..n]);
            let _ = parse_peer(&buf[..n]);
        }
        // Only kinds without records may accept anything (the empty body).
        assert!(seen < 2_000, "{seen}");
    }

    #[test]
    fn flipped_bytes_never_panic_and_never_change_the_shape() {
        let mut rng = Rng::new(2);
        for request in samples() {
            let mut buf = [0; HEADER_LEN + MAX_REQUEST];
            let n = request.encode(&mut buf, 0).unwrap();
            for _ in 0..2_000 {
                let mut bad = buf[..n].to_vec();
                let at = (rng.next_u64() % n as u64) as usize;
                bad[at] ^= 1 << (rng.next_u64() % 8);
                let Ok(Some(header)) = Header::decode(&bad) else {
                    continue;
                };
                if let Ok(got) = Request::decode(header.kind, &bad[HEADER_LEN..]) {
                    assert_eq!(got.kind(), header.kind);
                }
            }
        }
    }
}
