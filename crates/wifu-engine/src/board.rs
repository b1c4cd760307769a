//! The board: what is true of a connection now. Each section has one writing component (the
//! blueprint checks it), `app` and `site` the engine alone; everybody reads everything.

use crate::permit::Limit;
use core::cell::Cell;
use core::num::NonZeroU8;
use wifu_wire::{Neighbour, Rate, Seq, Span, SynOptions, Time};

/// All facts of one connection. Those that are numbers have names: [`crate::quantity`].
#[derive(Clone, Debug, Default)]
pub struct Board {
    /// Written by the manager.
    pub conn: ConnFacts,
    /// Written by the reliability part.
    pub tx: TxFacts,
    /// Written by the rtt part.
    pub rtt: RttFacts,
    /// Written by the congestion part.
    pub win: WinFacts,
    /// Written by the part that follows the peer's window.
    pub peer: PeerFacts,
    /// Written by the receiver.
    pub rx: RxFacts,
    /// Written by a watcher of the path.
    pub path: PathFacts,
    /// Written by the part that paces: a gate, or a window.
    pub rate: RateFacts,
    /// Written by the engine.
    pub app: AppFacts,
    /// Written by the engine.
    pub site: SiteFacts,
    /// No fact of the connection: marked by default bodies of hooks.
    pub defaulted: Defaulted,
}

impl Board {
    /// What was written and is not acknowledged, octets; packets where those are numbered.
    pub fn unacked(&self) -> u32 {
        // With the FIN acknowledged, `una` is one past the end.
        let end = self.app.end;
        end.since(self.tx.una.earlier(end))
    }

    /// What was written and never sent, octets; packets where those are numbered.
    pub fn unsent(&self) -> u32 {
        let end = self.app.end;
        end.since(self.tx.max.earlier(end))
    }
}

/// Says that the default body of a hook ran, so that nobody overrides it. Every hook sees the
/// board, if only for reading; connections never call a hook that its part does not declare.
#[derive(Clone, Debug, Default)]
pub struct Defaulted(Cell<bool>);

impl Defaulted {
    /// The default body of a hook runs.
    pub fn mark(&self) {
        self.0.set(true);
    }

    /// Whether one ran since the last time this was asked.
    pub fn take(&self) -> bool {
        self.0.take()
    }
}

/// The states of a connection (RFC 9293 3.3.2; other managers use those that fit).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub enum State {
    #[default]
    Closed,
    Listen,
    SynSent,
    SynRcvd,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
}

impl State {
    /// Linux's number of it (include/net/tcp_states.h).
    pub fn number(self) -> u8 {
        match self {
            State::Established => 1,
            State::SynSent => 2,
            State::SynRcvd => 3,
            State::FinWait1 => 4,
            State::FinWait2 => 5,
            State::TimeWait => 6,
            State::Closed => 7,
            State::CloseWait => 8,
            State::LastAck => 9,
            State::Listen => 10,
            State::Closing => 11,
        }
    }

    /// All that this end ever sends, its FIN included, is acknowledged.
    #[inline]
    pub fn has_said_all(self) -> bool {
        matches!(self, State::FinWait2 | State::TimeWait)
    }

    /// The name as `ss` prints it.
    pub fn name(self) -> &'static str {
        match self {
            State::Closed => "CLOSED",
            State::Listen => "LISTEN",
            State::SynSent => "SYN-SENT",
            State::SynRcvd => "SYN-RECV",
            State::Established => "ESTAB",
            State::FinWait1 => "FIN-WAIT-1",
            State::FinWait2 => "FIN-WAIT-2",
            State::CloseWait => "CLOSE-WAIT",
            State::Closing => "CLOSING",
            State::LastAck => "LAST-ACK",
            State::TimeWait => "TIME-WAIT",
        }
    }
}

/// The connection as the manager sees it.
#[derive(Clone, Debug, Default)]
pub struct ConnFacts {
    /// Payload octets of a full segment.
    pub mss: u32,
    /// Header octets of a full data segment, IP included.
    pub overhead: u32,
    /// Payload octets of the largest segment that we announced to take (RMSS of RFC 5681), less
    /// what options take; 0 if nothing was announced.
    pub rmss: u32,
    /// Data may flow.
    pub running: bool,
    /// No data flow for want of feedback: the way is asked for.
    pub asking: bool,
    /// How often a receiver reports, where it does so by time; else zero.
    pub epoch: Span,
    /// State, for people and for the endpoint's house-keeping.
    pub state: State,
    /// What the peer's SYN offered.
    pub peer: SynOptions,
    /// Both ends understand marks of congestion (RFC 3168).
    pub ecn: bool,
    /// What acknowledges ours says that a queue marked it: no window grows by that (RFC 3168).
    pub marked: bool,
    /// The windows that we announce are shifted right by so many bits: Rcv.Wind.Shift of RFC 7323,
    /// 0 to 14; 0 unless both ends offered a scale.
    pub rcv_shift: u8,
    /// The windows that the peer announces are to be shifted left by so many bits: Snd.Wind.Shift.
    pub snd_shift: u8,
}

impl ConnFacts {
    /// The peer's SYN came with these options: note them, and the scales that they agree upon with
    /// what we offer. Windows in segments with SYN are never scaled.
    pub fn meet(&mut self, peer: SynOptions, site: &SiteFacts) {
        self.peer = peer;
        //= rfc7323#section-2.2
        (self.rcv_shift, self.snd_shift) = match (site.scale(), peer.scale) {
            (Some(ours), Some(theirs)) => (ours, theirs),
            _ => (0, 0),
        };
    }
}

/// Sequence space as the sender sees it: octets in stream compositions, packet numbers in
/// packet-numbered ones.
#[derive(Clone, Debug, Default)]
pub struct TxFacts {
    /// Initial sequence number.
    pub iss: Seq,
    /// Oldest unacknowledged.
    pub una: Seq,
    /// The cursor: go-back-N pulls it back to `una`.
    pub nxt: Seq,
    /// Highest ever sent; never goes back. FlightSize is `max - una`.
    pub max: Seq,
    /// Octets believed to be in the network (RFC 6675).
    pub pipe: u32,
    /// A recovery episode is under way.
    pub recovering: bool,
    /// The SYN was retransmitted (RFC 5681 3.1 then asks for an initial window of one segment).
    pub syn_lost: bool,
    /// Segments retransmitted since the connection opened.
    pub retransmits: u32,
    /// Retransmission timeouts since the connection opened.
    pub timeouts: u32,
    /// Consecutive timeouts without progress.
    pub backoff: u32,
    /// The timeout now in force, with back-off.
    pub rto: Span,
    /// Octets selectively acknowledged above `una`.
    pub sacked: u32,
    /// Octets taken for lost since the connection opened, each transmission once: always those on
    /// their way that left first.
    pub lost: u64,
    /// Octets that the latest acknowledgement told of for the first time, by its number or by a
    /// report; `None`: as many as it acknowledges.
    pub fresh: Option<u32>,
    /// In a recovery episode, octets that may leave now by proportional rate reduction (RFC 9937),
    /// instead of what the window leaves beside `pipe`; `None`: the window decides.
    pub quota: Option<u32>,
}

impl TxFacts {
    /// FlightSize (RFC 5681 2): what was sent and is not acknowledged.
    pub fn flight(&self) -> u32 {
        self.max.since(self.una)
    }
}

/// Round-trip times.
#[derive(Clone, Debug, Default)]
pub struct RttFacts {
    /// The latest sample.
    pub last: Span,
    /// Smoothed (RFC 6298).
    pub srtt: Span,
    /// Variation (RFC 6298).
    pub var: Span,
    /// The smallest sample, that of the handshake among them. A SYN is a short packet: over radios
    /// its round trip takes a fraction of that of data, also where no queue is, and stays the
    /// smallest. What compares round trips of data with the smallest keeps its own, from the signal
    /// `rtt` without the samples that come while `tx.una` is one past `tx.iss`.
    pub min: Span,
    /// How many samples were taken.
    pub samples: u32,
    /// Retransmission timeout without back-off; zero if nobody computes it.
    pub rto: Span,
    /// The limit of back-off.
    pub rto_max: Span,
    /// Timers fire at multiples of this; zero: when they are due.
    pub tick: Span,
}

/// The congestion window.
#[derive(Clone, Debug, Default)]
pub struct WinFacts {
    /// Octets, without inflation.
    pub cwnd: u32,
    /// Octets.
    pub ssthresh: u32,
}

/// The peer's receive window.
#[derive(Clone, Debug, Default)]
pub struct PeerFacts {
    /// Octets from `tx.una` on, unscaled.
    pub window: u32,
    /// The largest window seen; 0 while nobody follows it.
    pub max_window: u32,
    /// The persist timer runs (RFC 9293 3.8.6.1).
    pub persist: bool,
}

/// Sequence space as the receiver sees it.
#[derive(Clone, Debug, Default)]
pub struct RxFacts {
    /// The peer's initial sequence number, once `synced`.
    pub irs: Seq,
    /// The peer's SYN was seen.
    pub synced: bool,
    /// Next in order.
    pub nxt: Seq,
    /// Octets that we allow from `nxt` on.
    pub window: u32,
    /// The peer's FIN was consumed.
    pub fin: bool,
    /// The receiver wants to see what comes twice: it reports it (RFC 2883), or its timestamp
    /// counts.
    pub dsack: bool,
    /// TS.Recent of RFC 7323.
    pub ts_recent: u32,
    /// When `ts_recent` was taken; `None` before the first.
    pub ts_recent_at: Option<Time>,
}

/// What packets that arrive tell of the way they came; a part that watches them writes it.
#[derive(Clone, Debug, Default)]
pub struct PathFacts {
    /// Hops to the peer, as packets that arrive tell.
    pub hops: Option<NonZeroU8>,
}

/// What a pacer allows, beside the window.
#[derive(Clone, Debug, Default)]
pub struct RateFacts {
    /// Data may leave at so many bits per second; `None` while the pacer knows none.
    pub rate: Option<Rate>,
    /// From one full segment to the next; `None` while the pacer does not wait.
    pub gap: Option<Span>,
    /// The pacer is a queue that nothing leaves before its turn: what goes again leaves behind the
    /// data that the window allowed when the loss was noticed (Behaviour 16.1).
    pub behind: bool,
}

/// What the application and the driver did.
#[derive(Clone, Debug, Default)]
pub struct AppFacts {
    /// Sequence number of the SYN mark, once set.
    pub syn: Option<Seq>,
    /// One past the last octet written.
    pub end: Seq,
    /// A FIN mark follows `end`.
    pub fin: bool,
    /// Octets free to write; packets in a packet store.
    pub room: u32,
    /// Octets not yet read by the application.
    pub unread: u32,
    /// Packets waiting in a packet store.
    pub queued: u32,
    /// Packets of data that the node takes now: the lane of this flow, or else the device.
    pub local_room: u32,
    /// Packets of all other kinds that it takes now: the device of this way.
    pub device_room: u32,
    /// The application closed: nobody will read.
    pub gone: bool,
    /// What was binding when the sender last stopped.
    pub limited: Limit,
}

/// Nodes of the path that do not serve a composition: what its handlers should have done did not
/// happen there.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Unserved {
    /// On the way here, by the last packet that counts its nodes. Where the format has a word for
    /// it (`Field::Unserved`), whatever leaves tells the peer.
    pub coming: Option<u8>,
    /// On the way to the peer, as it told last.
    pub leaving: Option<u8>,
}

impl Unserved {
    /// Those on the way where there are more.
    pub fn most(self) -> u8 {
        self.coming.max(self.leaving).unwrap_or(0)
    }
}

/// Where the connection lives.
#[derive(Clone, Debug, Default)]
pub struct SiteFacts {
    /// Number of this node, for people and random streams.
    pub me: u32,
    /// Neighbour to which packets to the peer leave; `None` without a route. The substrate sets it.
    pub next_hop: Option<Neighbour>,
    /// Hops to the peer by the routing table.
    pub route_hops: Option<NonZeroU8>,
    /// Nodes of the path that do not serve this composition.
    pub unserved: Unserved,
    /// The next hop is the destination; false while the route is not known.
    pub last_hop: bool,
    /// Rate of unicast data on the link.
    pub rate: Option<Rate>,
    /// Transmit power, dBm.
    pub tx_power_dbm: Option<i8>,
    /// Received power from which on the radio senses the medium as busy, dBm.
    pub sense_dbm: Option<i8>,
    /// Largest IP packet, octets.
    pub mtu: u32,
    /// Octets of the IP header: 20, or 40 of version 6.
    pub ip_header: u32,
    /// Header octets of a full segment in the composition's wire format, IP included.
    pub overhead: u32,
    /// How many of these are timestamps, which segments carry only if the peer offers them too; 0
    /// if the composition offers none, or carries them in any case.
    pub stamps: u32,
    /// The format announces windows in units of 2^n octets and has no scale of RFC 7323; else 0.
    pub window_unit: u8,
    /// Initial sequence number by RFC 6528.
    pub isn: Seq,
    /// The connection's identifier, in formats that carry one: drawn, or taken from the peer's
    /// opener. Else 0.
    pub conn_id: u32,
    /// Octets of the send store.
    pub snd_buf: u32,
    /// Octets of the receive store.
    pub rcv_buf: u32,
    /// Payload limit set by the user, octets; 0: what the MTU allows.
    pub mss_limit: u32,
    /// Limit of segments in both directions set by the user, octets as the MSS option counts them;
    /// 0: what the MTU allows.
    pub max_seg: u32,
}

/// What a node knows of the way to a destination. The substrate tells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RouteFacts {
    /// Neighbour to which packets to the peer leave; `None` without a route. The substrate sets it.
    pub next_hop: Option<Neighbour>,
    /// Hops of the whole way, this node's included.
    pub hops: Option<NonZeroU8>,
    /// The next hop is the destination.
    pub last_hop: bool,
    /// Rate of unicast data on the link.
    pub rate: Option<Rate>,
    /// Transmit power, dBm.
    pub tx_power_dbm: Option<i8>,
    /// Received power from which on the radio senses the medium as busy, dBm.
    pub sense_dbm: Option<i8>,
}

impl SiteFacts {
    /// What was known of the way.
    pub fn route(&self) -> RouteFacts {
        RouteFacts {
            next_hop: self.next_hop,
            hops: self.route_hops,
            last_hop: self.last_hop,
            rate: self.rate,
            tx_power_dbm: self.tx_power_dbm,
            sense_dbm: self.sense_dbm,
        }
    }

    /// This is the way now.
    pub fn set_route(&mut self, route: &RouteFacts) {
        self.next_hop = route.next_hop;
        self.route_hops = route.hops;
        self.last_hop = route.last_hop;
        self.rate = route.rate;
        self.tx_power_dbm = route.tx_power_dbm;
        self.sense_dbm = route.sense_dbm;
    }

    /// The largest window that a segment can announce while no scale is agreed upon, octets.
    pub fn window_most(&self) -> u32 {
        65_535u32
            .checked_shl(u32::from(self.window_unit))
            .unwrap_or(u32::MAX)
    }

    /// The window scale that we offer: what a full receive store needs; none if it needs none.
    pub fn scale(&self) -> Option<u8> {
        let fits = |shift: &u8| self.rcv_buf >> shift <= 65_535;
        (self.rcv_buf > 65_535).then(|| (0..14).find(fits).unwrap_or(14))
    }
}

/// A set of board sections (`reads`, `wants`, `writes`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts(pub u16);

impl Facts {
    /// Nothing.
    pub const NONE: Facts = Facts(0);
    /// [`Board::conn`].
    pub const CONN: Facts = Facts(1);
    /// [`Board::tx`].
    pub const TX: Facts = Facts(2);
    /// [`Board::rtt`].
    pub const RTT: Facts = Facts(4);
    /// [`Board::win`].
    pub const WIN: Facts = Facts(8);
    /// [`Board::peer`].
    pub const PEER: Facts = Facts(16);
    /// [`Board::rx`].
    pub const RX: Facts = Facts(32);
    /// [`Board::path`].
    pub const PATH: Facts = Facts(64);
    /// [`Board::rate`].
    pub const RATE: Facts = Facts(128);

    /// All of `other` is in this set.
    pub const fn has(self, other: Facts) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets together.
    pub const fn with(self, other: Facts) -> Facts {
        Facts(self.0 | other.0)
    }

    /// Each section with its name.
    pub const ALL: [(Facts, &'static str); 8] = [
        (Facts::CONN, "conn"),
        (Facts::TX, "tx"),
        (Facts::RTT, "rtt"),
        (Facts::WIN, "win"),
        (Facts::PEER, "peer"),
        (Facts::RX, "rx"),
        (Facts::PATH, "path"),
        (Facts::RATE, "rate"),
    ];

    /// Every section.
    pub const EVERY: Facts = Facts(255);

    /// The names of the sections in this set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Facts::ALL
            .into_iter()
            .filter(move |(f, _)| self.has(*f))
            .map(|(_, name)| name)
    }
}

/// A section of the board that a part may own.
pub trait Section {
    /// The grant that allows writing it.
    const GRANT: Facts;
    /// The section itself.
    fn of(board: &mut Board) -> &mut Self;
}

macro_rules! sections {
    ($($ty:ident $grant:ident $field:ident),*) => {$(
        impl Section for $ty {
            const GRANT: Facts = Facts::$grant;
            fn of(board: &mut Board) -> &mut Self {
                &mut board.$field
            }
        }
    )*};
}
sections!(ConnFacts CONN conn, TxFacts TX tx, RttFacts RTT rtt, WinFacts WIN win,
    PeerFacts PEER peer, RxFacts RX rx, PathFacts PATH path, RateFacts RATE rate);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_scaled_only_if_both_ends_offer_it() {
        let agreed = |rcv_buf: u32, theirs: Option<u8>| {
            let site = SiteFacts {
                rcv_buf,
                ..SiteFacts::default()
            };
            let peer = SynOptions {
                scale: theirs,
                ..SynOptions::default()
            };
            let mut conn = ConnFacts::default();
            conn.meet(peer, &site);
            (conn.rcv_shift, conn.snd_shift)
        };
        assert_eq!(agreed(65_535, Some(7)), (0, 0));
        assert_eq!(agreed(65_536, None), (0, 0));
        assert_eq!(agreed(65_536, Some(0)), (1, 0));
        assert_eq!(agreed(4 << 20, Some(7)), (7, 7));
        assert_eq!(agreed(1 << 30, Some(14)), (14, 14));
    }
}
