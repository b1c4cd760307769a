//! Who opens a connection: which connection a packet is of, whether it opens one, what an opening
//! packet is to a connection that is there already, and what a connection leaves behind.
//!
//! The manager's descriptor names the answers ([`Descriptor::admission`]); the endpoint asks and
//! does the rest: it keeps embryonic connections within the listener's backlog, lets the oldest
//! make room, and counts those that rest. Answers keep no state of their own.
//!
//! [`Descriptor::admission`]: ../descriptor/struct.Descriptor.html#structfield.admission

use crate::board::{Board, State};
use core::fmt::Debug;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use wifu_wire::{Flags, Head, Seq, Span};

/// The two ends of a connection and the IP protocol between them.
#[derive(Clone, Copy, Eq, PartialOrd, Ord, Debug)]
pub struct Tuple {
    /// IP protocol number.
    pub proto: u8,
    /// Our end.
    pub local: SocketAddr,
    /// The peer's end, whose address is of the same family.
    pub remote: SocketAddr,
}

impl PartialEq for Tuple {
    /// Asked for every packet: the library's comparison is a call, which costs more than this.
    #[inline(always)]
    fn eq(&self, other: &Tuple) -> bool {
        use SocketAddr::V4;
        if self.proto != other.proto {
            return false;
        }
        match (&self.local, &self.remote, &other.local, &other.remote) {
            (V4(a), V4(b), V4(c), V4(d)) => a == c && b == d,
            (a, b, c, d) => a == c && b == d,
        }
    }
}

const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// By what connections are told apart. One format's packets have one kind of key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key {
    ends: Tuple,
    id: u32,
}

impl Key {
    /// By both ends, as TCP does (RFC 9293 section 3.4).
    pub const fn ends(ends: &Tuple) -> Key {
        Key { ends: *ends, id: 0 }
    }

    /// By the peer's address and the connection's identifier, whatever the ports are.
    pub const fn identifier(ends: &Tuple, id: u32) -> Key {
        let ends = Tuple {
            proto: ends.proto,
            local: NOWHERE,
            remote: SocketAddr::new(ends.remote.ip(), 0),
        };
        Key { ends, id }
    }
}

/// The connection that occupies a place which an opening packet claims.
#[derive(Clone, Copy, Debug)]
pub struct Holder<'a> {
    /// Its facts.
    pub board: &'a Board,
    /// It only waits for old packets to die out ([`Admission::rests`]).
    pub rests: bool,
    /// How long nothing of its peer arrived.
    pub silent: Span,
}

/// What an opening packet is to the connection that holds its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// The connection's own affair: it gets the packet.
    Own,
    /// A new connection takes its place. If it was open, it ends as if it had been reset.
    Replaces,
    /// A packet of no connection: it is refused.
    Refused,
}

/// How many openers are kept of embryonic connections that made room for others, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    /// How many per listener; beyond, the oldest is forgotten.
    pub openers: usize,
    /// How long one is of use: as long as its peer's answer may take.
    pub span: Span,
}

/// The answers of one manager.
pub trait Admission: Send + Sync + Debug {
    /// Which connection a packet between these ends with this identifier is of. Also the key of a
    /// connection that we open.
    fn key(&self, ends: &Tuple, id: u32) -> Key;

    /// What only one connection at a time may occupy; by default nothing beyond its key.
    fn place(&self, ends: &Tuple, id: u32) -> Key {
        self.key(ends, id)
    }

    /// Whether connections that we open draw an identifier at random (`site.conn_id`); without it
    /// they have 0, and what a peer opened has the identifier of its opener.
    fn draws_identifier(&self) -> bool {
        false
    }

    /// Whether the packet opens a connection, if somebody listens and its place is free.
    fn opens(&self, head: &Head) -> bool;

    /// Whether a packet that finds a listener, and neither opens nor restores a connection, is
    /// refused; else it is dropped without a word.
    fn refuses(&self, _head: &Head) -> bool {
        true
    }

    /// What a packet that opens is to the connection that holds its place. Asked of a connection
    /// with the packet's own key only while that rests: else it gets the packet.
    fn claim(&self, _holder: &Holder<'_>, _head: &Head) -> Claim {
        Claim::Own
    }

    /// Whether a packet that an embryonic connection got, whose initial number is `iss`, shows that
    /// its peer hears our answers: as soon as the connection is open as well, it counts against the
    /// backlog no more, and the application learns of it. Where a handshake opens, that is proof
    /// enough.
    fn proves(&self, _head: &Head, _iss: Seq) -> bool {
        true
    }

    /// What is kept of embryonic connections that made room.
    fn keeps(&self) -> Kept {
        Kept {
            openers: 0,
            span: Span::ZERO,
        }
    }

    /// Whether this packet makes such a connection again, whose initial number was `iss`. Asked
    /// while its opener is kept; the packet has its key.
    fn restores(&self, _head: &Head, _iss: Seq) -> bool {
        false
    }

    /// What makes the end that a packet was for speak, if it has a connection with the one that
    /// sent it: asked by an endpoint between the two that knows of no such connection, about a
    /// packet that it refuses. False if nothing would.
    fn wakes(&self, _head: &Head, _instead: &mut Head) -> bool {
        false
    }

    /// What is left behind: whether a connection in this state only waits for old packets to die
    /// out. It then counts against `max_resting`, gives its stores back once its application let
    /// go, and leaves its place to a connection that we open.
    fn rests(&self, _state: State) -> bool {
        false
    }
}

/// The answers for a manager that names none: the first packet of an initial exchange opens, ends
/// are told apart by addresses and ports, and nothing is left behind.
#[derive(Debug)]
pub struct Plain;

impl Admission for Plain {
    fn key(&self, ends: &Tuple, _id: u32) -> Key {
        Key::ends(ends)
    }

    fn opens(&self, head: &Head) -> bool {
        first(head)
    }
}

/// The answers of TCP: a SYN opens, connections are told apart by both ends, and TIME_WAIT is left
/// behind.
#[derive(Debug)]
pub struct BySyn;

impl Admission for BySyn {
    fn key(&self, ends: &Tuple, _id: u32) -> Key {
        Key::ends(ends)
    }

    //= rfc9293#section-3.10.7.2
    fn opens(&self, head: &Head) -> bool {
        first(head)
    }

    /// What acknowledges is of some connection, if not of ours. Without an acknowledgement only a
    /// SYN means anything.
    //= rfc9293#section-3.10.7.2
    fn refuses(&self, head: &Head) -> bool {
        head.ack.is_some()
    }

    /// A new SYN for a connection that only waits for old segments to die out: it may open anew if
    /// its number lies beyond all that was received (RFC 9293 3.10.7.4, TIME-WAIT), or if its
    /// timestamp does: fast transfers outrun the clock of initial numbers (RFC 6191).
    //= rfc9293#section-3.10.7.4
    fn claim(&self, holder: &Holder<'_>, head: &Head) -> Claim {
        let rx = &holder.board.rx;
        let later = |ts: u32| ts.wrapping_sub(rx.ts_recent) as i32 > 0;
        let stamped = rx.ts_recent_at.is_some() && head.ts.is_some_and(later);
        if holder.rests && (head.seq.after(rx.nxt) || stamped) {
            Claim::Replaces
        } else {
            Claim::Own
        }
    }

    /// The SYN cache of RFC 4987 section 3.5.
    fn keeps(&self) -> Kept {
        Kept {
            openers: 4_096,
            span: Span::SECOND * 60,
        }
    }

    /// Its SYN again, while the SYN+ACK is under way: a second SYN+ACK has to be the same. A SYN
    /// with another number is the connection's own affair (RFC 5961 section 4). Or the answer to
    /// the SYN+ACK: the peer believes in the connection already.
    fn restores(&self, head: &Head, iss: Seq) -> bool {
        let answers = !head.flags.has(Flags::SYN) && !head.flags.has(Flags::RST);
        self.opens(head) || answers && head.ack == Some(iss.plus(1))
    }

    /// A bare acknowledgement out of the connection's numbers is answered by one that has the right
    /// ones.
    //= rfc9293#section-3.10.7.4
    fn wakes(&self, head: &Head, instead: &mut Head) -> bool {
        instead.reset();
        (instead.sport, instead.dport) = (head.sport, head.dport);
        (instead.seq, instead.ack) = (head.seq, head.ack);
        head.ack.is_some()
    }

    fn rests(&self, state: State) -> bool {
        state == State::TimeWait
    }
}

/// Whether this is the first packet of an initial exchange: it opens a sequence space,
/// acknowledges nothing, destroys nothing, and can be answered.
pub fn first(head: &Head) -> bool {
    head.flags.has(Flags::SYN)
        && head.ack.is_none()
        && !head.flags.has(Flags::RST)
        && head.sport != 0
}
