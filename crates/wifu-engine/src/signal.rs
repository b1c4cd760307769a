//! Signals: what was learned. Small, copyable, delivered breadth first within the call.

use crate::permit::{Kind, Limit, Reason};
use core::num::NonZeroU32;
use wifu_wire::{Class, Notes, Seq, Span};

/// Where a loss was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Duplicate acknowledgements or a scoreboard.
    DupAcks,
    /// A list of holes.
    Explicit,
    /// A congestion mark.
    Mark,
    /// The retransmission timer.
    Timeout,
}

/// How data arrived (Behaviour 16.8: "in order" alone would delay the ACK of a hole filler).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// Next in order, nothing waiting behind it.
    InOrder,
    /// Beyond a hole.
    Ahead,
    /// Fills (part of) a hole.
    Fills,
    /// Nothing new.
    Duplicate,
}

/// Something was acknowledged. `bytes` counts data only, so SYN and FIN never open a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked {
    /// Octets of data newly acknowledged, cumulatively.
    pub bytes: u32,
    /// The new `una`.
    pub upto: Seq,
    /// In a recovery episode, its last ACK included.
    pub in_recovery: bool,
    /// What limited the sender.
    pub limited_by: Limit,
}

/// Data arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// First octet.
    pub seq: Seq,
    /// Octets in the segment.
    pub bytes: u32,
    /// Octets (or packets) missing for the first time before this one.
    pub gap: u32,
    /// How it fits.
    pub order: Arrival,
    /// The peer's FIN was consumed.
    pub fin: bool,
    /// Congestion was experienced.
    pub ce: bool,
}

/// Something was lost: a fact about a segment. Carries the flight of that moment, because by the
/// time a signal is delivered go-back-N has moved the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Octets presumed lost.
    pub bytes: u32,
    /// Octets in flight when it was noticed.
    pub flight: u32,
    /// How it was noticed.
    pub cause: Cause,
    /// Opens a recovery episode.
    pub new_episode: bool,
    /// The same data timed out before.
    pub repeat: bool,
}

/// The network is congested: a judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Congested {
    /// As in [`Lost`].
    pub flight: u32,
    /// As in [`Lost`].
    pub cause: Cause,
    /// As in [`Lost`].
    pub repeat: bool,
}

/// A round trip was timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttSample {
    /// The round-trip time.
    pub rtt: Span,
    /// IP length of the segment that was timed, as far as the part that timed it knows. It is that
    /// of a full segment for the handshake's, whose options are not complete when it is stamped,
    /// and with `rfc6298` wherever no echoed timestamp says which segment it was (without
    /// timestamps, with `trips=linux`). So it does not tell the handshake's sample from others:
    /// that is the one that comes while `tx.una` is one past `tx.iss`.
    pub data_bytes: u32,
    /// IP length of its acknowledgement.
    pub ack_bytes: u32,
}

/// A segment left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// What it was.
    pub kind: Kind,
    /// Why it was retransmitted, if it was.
    pub reason: Reason,
    /// It acknowledged.
    pub acks: bool,
    /// First sequence number.
    pub seq: Seq,
    /// Sequence space it took.
    pub bytes: u32,
    /// How long a segment that waited for its time overslept; zero after idling.
    pub late: Span,
}

/// What the driver says of a packet that this end or lane handed down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its first sequence number; of what carries no data, whatever its number field says.
    pub number: Seq,
    /// What it was for: what a lane's part sends by itself may have the number of data.
    pub class: Class,
    /// The next hop acknowledged it.
    pub delivered: bool,
    /// Transmissions, 1 or more.
    pub attempts: u8,
    /// How long the last of them took with its acknowledgement, or the wait for one, nanoseconds;
    /// `None` where nobody says.
    pub airtime_ns: Option<NonZeroU32>,
    /// From handing it down to the driver's report, where that is measured.
    pub delay: Option<Span>,
}

/// Why a connection ended badly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The peer refused it.
    Refused,
    /// The peer destroyed it, or a valid RST came.
    Reset,
    /// Tries ran out.
    TimedOut,
    /// We destroyed it.
    Aborted,
}

/// A named signal interned when the blueprint is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExtId(pub u8);

/// What parts and the engine tell each other.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Engine: the application connects.
    Connect,
    /// Engine: this connection waits for a SYN.
    Listen,
    /// Engine: octets were written.
    Wrote,
    /// Engine: octets were read.
    Read,
    /// Engine: the application will write no more.
    Closing,
    /// Engine: the application wants the connection destroyed.
    Abort,
    /// Engine: a segment left. With a lane behind it: it entered the lane.
    Sent(Sent),
    /// Engine: a packet that was handed down came back, to the head of the queue: what its leaving
    /// changed is undone.
    Returned(Seq),
    /// Engine: a packet that a lane handed down is lost: the deadline noted on it had passed.
    Expired(Seq),
    /// Engine: what became of a packet on its first link. Only where the driver reports it.
    Status(Status),
    /// Engine: the route changed: next hop, hops or rate ([`crate::board::SiteFacts`]).
    Route,
    /// The connection is open.
    Opened,
    /// Reliability ran out of tries.
    GaveUp,
    /// An ACK is owed although nothing new arrived.
    AckNow,
    /// Data arrived.
    Arrived(Arrived),
    /// Data was acknowledged.
    Acked(Acked),
    /// A duplicate acknowledgement.
    DupAck,
    /// Data was lost.
    Lost(Lost),
    /// A recovery episode ended.
    Recovered {
        /// Octets in flight now.
        flight: u32,
    },
    /// The last reduction of the window was for nothing: what was taken for lost was only late.
    Undone,
    /// A round trip was timed.
    Rtt(RttSample),
    /// The network is congested.
    Congested(Congested),
    /// Manager: the connection is over.
    Ended(Option<Fault>),
    /// A named signal of experimental parts.
    Ext(ExtId, [u64; 2]),
}

const _: () = assert!(size_of::<Signal>() <= 32);

impl Signal {
    /// Number of signals that are not `Ext`.
    pub const PLAIN: usize = 23;
    /// Number of `Ext` names per composition.
    pub const EXTS: usize = 8;
    /// Signals that the engine emits.
    pub const FROM_ENGINE: [&'static str; 11] = [
        "connect", "listen", "wrote", "read", "closing", "abort", "sent", "returned", "expired",
        "status", "route",
    ];
    /// Names by [`Signal::index`].
    pub const NAMES: [&'static str; Signal::PLAIN] = [
        "connect",
        "listen",
        "wrote",
        "read",
        "closing",
        "abort",
        "sent",
        "returned",
        "status",
        "route",
        "opened",
        "gave-up",
        "ack-now",
        "arrived",
        "acked",
        "dup-ack",
        "lost",
        "recovered",
        "rtt",
        "congested",
        "ended",
        "undone",
        "expired",
    ];

    /// Dense number, for the routing table.
    pub fn index(&self) -> usize {
        match self {
            Signal::Connect => 0,
            Signal::Listen => 1,
            Signal::Wrote => 2,
            Signal::Read => 3,
            Signal::Closing => 4,
            Signal::Abort => 5,
            Signal::Sent(_) => 6,
            Signal::Returned(_) => 7,
            Signal::Status(_) => 8,
            Signal::Route => 9,
            Signal::Opened => 10,
            Signal::GaveUp => 11,
            Signal::AckNow => 12,
            Signal::Arrived(_) => 13,
            Signal::Acked(_) => 14,
            Signal::DupAck => 15,
            Signal::Lost(_) => 16,
            Signal::Recovered { .. } => 17,
            Signal::Rtt(_) => 18,
            Signal::Congested(_) => 19,
            Signal::Ended(_) => 20,
            Signal::Undone => 21,
            Signal::Expired(_) => 22,
            Signal::Ext(id, _) => Signal::PLAIN + usize::from(id.0),
        }
    }
}

/// The signals on their way: a fixed ring, drained to empty within every call.
#[derive(Debug)]
pub struct Ring {
    places: [Option<Signal>; Ring::PLACES],
    head: usize,
    len: usize,
    /// What parts note on the packet that they are shown, beside what they learn from it.
    pub(crate) noted: Notes,
}

impl Ring {
    /// How many signals fit; the blueprint proves that no cascade needs more.
    pub const PLACES: usize = 32;

    /// An empty ring.
    pub fn new() -> Ring {
        Ring {
            places: [None; Ring::PLACES],
            head: 0,
            len: 0,
            noted: Notes::EMPTY,
        }
    }

    /// Append.
    ///
    /// # Panics
    /// If the ring is full: the blueprint's bound was wrong.
    pub fn push(&mut self, s: Signal) {
        assert!(
            self.len < Ring::PLACES,
            "cascade above the blueprint's bound"
        );
        self.places[(self.head + self.len) % Ring::PLACES] = Some(s);
        self.len += 1;
    }

    /// Take the oldest.
    pub fn pop(&mut self) -> Option<Signal> {
        if self.len == 0 {
            return None;
        }
        let s = self.places[self.head].take();
        self.head = (self.head + 1) % Ring::PLACES;
        self.len -= 1;
        s
    }
}

impl Default for Ring {
    fn default() -> Ring {
        Ring::new()
    }
}
