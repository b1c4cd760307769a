//! What can be asked about a connection: the numbers behind `ss` and TCP_INFO.

use crate::board::State;
use crate::conn::{Conn, Counters, Tuple};
use crate::permit::Limit;
use wifu_wire::{Span, Time};

/// The numbers of one connection at one moment.
#[derive(Clone, Debug)]
pub struct ConnInfo {
    /// Name of the protocol.
    pub protocol: String,
    /// The two ends.
    pub tuple: Tuple,
    /// Where the connection is between opening and its end, in RFC 9293's words.
    pub state: State,
    /// Congestion window, octets.
    pub cwnd: u32,
    /// Slow start threshold, octets.
    pub ssthresh: u32,
    /// Payload octets of a full segment.
    pub mss: u32,
    /// Smoothed round-trip time.
    pub srtt: Span,
    /// Round-trip time variation.
    pub rttvar: Span,
    /// Smallest round-trip time.
    pub min_rtt: Span,
    /// Retransmission timeout, with back-off.
    pub rto: Span,
    /// Consecutive timeouts.
    pub backoff: u32,
    /// Octets in flight.
    pub flight: u32,
    /// Octets selectively acknowledged.
    pub sacked: u32,
    /// The peer's window, octets.
    pub peer_window: u32,
    /// Our window, octets.
    pub window: u32,
    /// Segments retransmitted.
    pub retransmits: u32,
    /// Retransmission timeouts.
    pub timeouts: u32,
    /// A recovery episode is under way.
    pub recovering: bool,
    /// Octets written and not yet acknowledged.
    pub unacked: u32,
    /// Octets written and never sent.
    pub unsent: u32,
    /// Octets received and not yet read.
    pub unread: u32,
    /// What is binding now.
    pub limited: Limit,
    /// How long each limit was binding, by [`Limit::index`].
    pub limits: [Span; Limit::COUNT],
    /// What was counted.
    pub counters: Counters,
    /// When it opened.
    pub opened_at: Option<Time>,
    /// What was agreed upon, in the words of `ss`: `ts sack wscale:n` (the peer's scale).
    pub options: String,
}

impl ConnInfo {
    pub(crate) fn of(conn: &Conn) -> ConnInfo {
        let b = conn.board();
        let mut options = Vec::new();
        if b.rtt.samples > 0 && b.conn.peer.ts_ok {
            options.push(String::from("ts"));
        }
        // Offered by both: a composition without such a parameter decides by itself.
        let off = Some(crate::descriptor::Value::Flag(false));
        if b.conn.peer.sack_ok && conn.blueprint().value("sack") != off {
            options.push(String::from("sack"));
        }
        if let Some(scale) = b.conn.peer.scale {
            options.push(format!("wscale:{scale}"));
        }
        ConnInfo {
            protocol: conn.blueprint().name.clone(),
            tuple: conn.tuple(),
            state: conn.state(),
            cwnd: b.win.cwnd,
            ssthresh: b.win.ssthresh,
            mss: b.conn.mss,
            srtt: b.rtt.srtt,
            rttvar: b.rtt.var,
            min_rtt: b.rtt.min,
            rto: b.tx.rto,
            backoff: b.tx.backoff,
            flight: b.tx.flight(),
            sacked: b.tx.sacked,
            peer_window: b.peer.window,
            window: b.rx.window,
            retransmits: b.tx.retransmits,
            timeouts: b.tx.timeouts,
            recovering: b.tx.recovering,
            unacked: b.unacked(),
            unsent: b.unsent(),
            unread: b.app.unread,
            limited: b.app.limited,
            limits: conn.limits(),
            counters: conn.counters(),
            opened_at: conn.opened_at(),
            options: options.join(" "),
        }
    }
}
