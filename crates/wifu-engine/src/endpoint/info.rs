//! What can be asked about a connection: the numbers behind `ss` and TCP_INFO.

use crate::board::{Facts, State};
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
    /// Congestion window, octets; `None` if no part has one.
    pub cwnd: Option<u32>,
    /// Slow start threshold, octets; `None` if no part has a window.
    pub ssthresh: Option<u32>,
    /// Payload octets of a full segment.
    pub mss: u32,
    /// Smoothed round-trip time.
    pub srtt: Span,
    /// Round-trip times are from when packets left first, with what these waited to be repaired.
    pub rtt_with_repairs: bool,
    /// Round-trip time variation.
    pub rttvar: Span,
    /// Smallest round-trip time.
    pub min_rtt: Span,
    /// Retransmission timeout, with back-off; `None` if no part has a retransmission timer.
    pub rto: Option<Span>,
    /// Consecutive timeouts; `None` as above.
    pub backoff: Option<u32>,
    /// Octets in flight.
    pub flight: u32,
    /// Octets selectively acknowledged.
    pub sacked: u32,
    /// The peer's window, octets; `None` if no part hears of one.
    pub peer_window: Option<u32>,
    /// Our window, octets.
    pub window: u32,
    /// Segments retransmitted, SYNs among them.
    pub retransmits: u32,
    /// Retransmission timeouts; `None` if no part has a retransmission timer.
    pub timeouts: Option<u32>,
    /// See [`Counters::timeout_wait`]; `None` as above.
    pub timeout_wait: Option<Span>,
    /// See [`Counters::fast_retransmits`]; `None` if no part takes losses from what arrives.
    pub fast_retransmits: Option<u64>,
    /// A recovery episode is under way.
    pub recovering: bool,
    /// Octets written and not yet acknowledged.
    pub unacked: u32,
    /// Octets written and never sent.
    pub unsent: u32,
    /// Octets received and not yet read.
    pub unread: u32,
    /// Octets per second, see [`Conn::delivery_rate`].
    pub delivery_rate: u64,
    /// What is binding now.
    pub limited: Limit,
    /// How long each limit was binding, by [`Limit::index`], see [`Conn::limits`].
    pub limits: [Span; Limit::COUNT],
    /// What was counted.
    pub counters: Counters,
    /// When it opened.
    pub opened_at: Option<Time>,
    /// What was agreed upon, in the words of `ss`: `ts sack wscale:n` (the peer's scale).
    pub options: String,
}

impl ConnInfo {
    /// As [`ConnInfo::of`], and what is under way at `now` counts.
    pub(crate) fn until(conn: &Conn, now: Time) -> ConnInfo {
        let info = ConnInfo::of(conn);
        ConnInfo {
            delivery_rate: conn.delivery_rate_until(now),
            limits: conn.limits_until(now),
            timeout_wait: info.timeout_wait.map(|_| conn.timeout_wait_until(now)),
            ..info
        }
    }

    pub(crate) fn of(conn: &Conn) -> ConnInfo {
        let (b, blueprint) = (conn.board(), conn.blueprint());
        let (windowed, timed) = (blueprint.writes(Facts::WIN), blueprint.times_out());
        let counters = conn.counters();
        let mut options = Vec::new();
        if b.rtt.samples > 0 && b.conn.peer.ts_ok {
            options.push(String::from("ts"));
        }
        // Offered by both: a composition without such a parameter decides by itself.
        let off = Some(crate::descriptor::Value::Flag(false));
        if b.conn.peer.sack_ok && blueprint.value("sack") != off {
            options.push(String::from("sack"));
        }
        if let Some(scale) = b.conn.peer.scale {
            options.push(format!("wscale:{scale}"));
        }
        ConnInfo {
            protocol: blueprint.name.clone(),
            tuple: conn.tuple(),
            state: conn.state(),
            cwnd: windowed.then_some(b.win.cwnd),
            ssthresh: windowed.then_some(b.win.ssthresh),
            mss: b.conn.mss,
            srtt: b.rtt.srtt,
            rtt_with_repairs: blueprint.times_repairs(),
            rttvar: b.rtt.var,
            min_rtt: b.rtt.min,
            rto: timed.then_some(b.tx.rto),
            backoff: timed.then_some(b.tx.backoff),
            flight: conn.flight(),
            sacked: b.tx.sacked,
            peer_window: blueprint.writes(Facts::PEER).then_some(b.peer.window),
            window: b.rx.window,
            retransmits: b.tx.retransmits + counters.openers_again as u32,
            timeouts: timed.then_some(b.tx.timeouts),
            timeout_wait: timed.then_some(counters.timeout_wait),
            fast_retransmits: blueprint
                .finds_losses()
                .then_some(counters.fast_retransmits),
            recovering: b.tx.recovering,
            unacked: conn.unacked(),
            unsent: conn.unsent(),
            unread: b.app.unread,
            delivery_rate: conn.delivery_rate(),
            limited: b.app.limited,
            limits: conn.limits(),
            counters,
            opened_at: conn.opened_at(),
            options: options.join(" "),
        }
    }
}
