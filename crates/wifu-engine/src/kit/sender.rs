//! What reliability parts of stream compositions share: the marks, the cursor, the retransmission
//! timer and the window probe. Recovery (what goes again, and when) is the part's own.

use super::Backoff;
use super::ticks::on_tick;
use crate::board::{Board, Facts, State, TxFacts};
use crate::component::{Cx, Out, Payload};
use crate::descriptor::{Descriptor, FieldUse, Role};
use crate::params::{ParamSpec, Params, Value};
use crate::permit::{Kind, Reason, Want};
use crate::signal::{Acked, Signal};
use wifu_wire::{Flags, Head, HeadField, Seq, Span};

/// Number of the retransmission timer among the part's timers.
pub const RTO: u8 = 0;

/// Number of the timer that bounds how long anything stays unacknowledged.
pub const USER: u8 = 1;

/// Used while nobody computes a timeout (RFC 2988 2.1).
const UNKNOWN_RTO: Span = Span(3_000_000_000);

/// Parameters that a part using [`Sender`] declares.
pub const SENDER_PARAMS: [ParamSpec; 5] = [
    ParamSpec::int(
        "syn_tries",
        6,
        1,
        100,
        "SYNs sent before giving up (Behaviour 4.3).",
    ),
    ParamSpec::int(
        "data_tries",
        12,
        1,
        100,
        "Consecutive timeouts of data before giving up (Behaviour 4.3).",
    ),
    ParamSpec::flag(
        "psh",
        true,
        "PSH on what ends with the last byte written (RFC 9293 section 3.9.1).",
    ),
    ParamSpec::span(
        "user_timeout",
        Span(0),
        Span(0),
        Span(2_592_000_000_000_000),
        "So long SYN, data or FIN may stay unacknowledged, or unsent for a shut window, before the \
         connection is given up, instead of data_tries; may change at run time \
         (`TCP_USER_TIMEOUT`; RFC 9293 3.8.3; the option of RFC 5482 is not exchanged); 0: for \
         data_tries.",
    ),
    ParamSpec::flag(
        "ap_rto_backoff",
        true,
        "Each timeout of data in a row doubles the next (RFC 6298 5.5); off: all are alike, as in \
         TCP-AP's ns-2 agent.",
    ),
];

/// What descriptors of parts using [`Sender`] have in common, for struct update syntax.
pub const SENDING: Descriptor = Descriptor {
    role: Role::Reliable,
    reads: Facts::PEER,
    wants: Facts::CONN.with(Facts::RTT).with(Facts::WIN),
    writes: Facts::TX,
    hears: &[
        ("segment", &["acked", "dup-ack", "lost", "recovered"]),
        ("timer", &["lost", "gave-up"]),
    ],
    offers: &[
        Kind::Control,
        Kind::Rescue,
        Kind::Resend,
        Kind::New,
        Kind::Probe,
    ],
    needs: &[("unit", &["octets"])],
    fields: &[
        FieldUse::of(HeadField::Seq),
        FieldUse::of(HeadField::Ack),
        FieldUse::of(HeadField::SYN),
        FieldUse::of(HeadField::FIN),
        FieldUse::of(HeadField::PSH).optional(),
    ],
    hooks: &["segment", "stamp"],
    ..Descriptor::EMPTY
};

/// What an acknowledgement moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advance {
    /// Sequence space.
    pub space: u32,
    /// Data octets: without SYN and FIN.
    pub data: u32,
}

impl Advance {
    /// Say that everything up to `ack` was acknowledged, and that a recovery episode ended if one
    /// was under way and is no more.
    pub fn announce(&self, ack: Seq, was: bool, recovering: bool, cx: &mut Cx<'_>) {
        self.announce_as(ack, was, (was, recovering), cx);
    }

    /// The same; `held`: the window does not grow by it.
    pub fn announce_as(
        &self,
        ack: Seq,
        held: bool,
        (was, recovering): (bool, bool),
        cx: &mut Cx<'_>,
    ) {
        self.acked(ack, held, cx);
        if was && !recovering {
            let flight = cx.board.tx.max.since(ack);
            cx.out.emit(Signal::Recovered { flight });
        }
    }

    /// The first half of it.
    pub fn acked(&self, ack: Seq, held: bool, cx: &mut Cx<'_>) {
        let limited_by = cx.board.app.limited;
        cx.out.emit(Signal::Acked(Acked {
            bytes: self.data,
            upto: ack,
            in_recovery: held,
            limited_by,
        }));
    }
}

/// The common state.
#[derive(Debug)]
pub struct Sender {
    backoff: Backoff,
    /// Consecutive timeouts without progress.
    tries: u32,
    /// Samples of the round trip when the timeout last backed off (Karn: it stays backed off until
    /// a segment that was sent once is timed).
    samples: u32,
    /// Something came from the peer since the last timeout.
    heard: bool,
    /// Timeouts that don't count: the peer answers, but keeps its window shut.
    excused: u32,
    syn_again: bool,
    syn_tries: u32,
    data_tries: u32,
    psh: bool,
    user: Span,
    /// Timeouts of data double.
    doubles: bool,
}

impl Sender {
    /// From [`SENDER_PARAMS`].
    pub fn new(p: &Params<'_>) -> Sender {
        Sender {
            backoff: Backoff::default(),
            tries: 0,
            samples: 0,
            heard: false,
            excused: 0,
            syn_again: false,
            syn_tries: p.int("syn_tries") as u32,
            data_tries: p.int("data_tries") as u32,
            psh: p.flag("psh"),
            user: p.span("user_timeout"),
            doubles: p.flag("ap_rto_backoff"),
        }
    }

    /// A parameter changes at run time; false if it can't.
    pub fn set(&mut self, param: &str, value: Value) -> bool {
        match (param, value) {
            ("user_timeout", Value::Span(s)) => self.user = s,
            _ => return false,
        }
        true
    }

    /// It changed: what waits, waits from now on.
    pub fn on_set(&mut self, cx: &mut Cx<'_>) {
        self.watch_anew(cx);
        if cx.board.peer.persist {
            self.watch(cx);
        }
    }

    /// Bound how long what was sent, or may not be sent, stays unacknowledged.
    //= rfc9293#section-3.8.3
    fn watch(&self, cx: &mut Cx<'_>) {
        if self.user > Span::ZERO && !cx.out.armed(USER) {
            cx.out.arm_after(USER, self.user);
        }
    }

    fn watch_anew(&self, cx: &mut Cx<'_>) {
        cx.out.disarm(USER);
        if cx.board.tx.una != cx.board.tx.max {
            self.watch(cx);
        }
    }

    /// The SYN mark is set and not acknowledged.
    fn opening(board: &Board) -> bool {
        board.app.syn == Some(board.tx.una) && board.tx.una == board.tx.iss
    }

    /// One past the last octet or mark that may be sent.
    pub fn end(board: &Board) -> Seq {
        board.app.end.plus(u32::from(board.app.fin))
    }

    /// How much waits beyond `from`.
    pub fn waiting(board: &Board, from: Seq) -> u32 {
        let end = Sender::end(board);
        end.beyond(from)
    }

    /// A want for the segment that begins at `from`: at most one MSS of data; the FIN rides free,
    /// and a FIN alone takes one. SWS avoidance by RFC 9293 3.8.6.2.1: a full segment, all there
    /// is, or half the largest window seen.
    pub fn want(board: &Board, kind: Kind, from: Seq) -> Option<Want> {
        let waiting = Sender::waiting(board, from);
        if waiting == 0 {
            return None;
        }
        let data = board.app.end.beyond(from);
        let bytes = data.min(board.conn.mss).max(1);
        let half = match board.peer.max_window {
            0 => bytes,
            w => (w / 2).max(1),
        };
        Some(Want {
            kind,
            bytes,
            least: bytes.min(half),
        })
    }

    /// The SYN, first or again.
    pub fn offer_syn(&self, board: &Board) -> Option<Want> {
        let due = Sender::opening(board) && (board.tx.nxt == board.tx.iss || self.syn_again);
        (due && board.conn.state != State::Closed).then_some(Want::bare(Kind::Control))
    }

    /// New data, once everything sent before has gone again.
    pub fn offer_new(&self, board: &Board) -> Option<Want> {
        let ready = board.conn.running && board.tx.nxt == board.tx.max;
        if ready {
            Sender::want(board, Kind::New, board.tx.nxt)
        } else {
            None
        }
    }

    /// Data for a window that is too small, while whoever follows the window persists.
    pub fn offer_probe(&self, board: &Board) -> Option<Want> {
        if !board.conn.running || !board.peer.persist {
            return None;
        }
        Sender::want(board, Kind::Probe, board.tx.una).map(|w| Want { least: 1, ..w })
    }

    /// A leaving SYN gets the initial number; one that left before goes again after a timeout.
    pub fn fill_syn(&mut self, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let iss = cx.board.tx.iss;
        let again = cx.board.tx.max != iss;
        self.syn_again = false;
        out.head.seq = iss;
        out.head.flags = out.head.flags.with(Flags::SYN);
        out.reason = if again {
            Reason::Timeout
        } else {
            Reason::First
        };
        cx.write(|t: &mut TxFacts| (t.nxt, t.max) = (iss.plus(1), iss.plus(1)));
        self.arm_if_idle(cx);
    }

    /// Put the segment of `bytes` from `seq` into `out`; returns where it ends. Moves nothing.
    pub fn put(&self, seq: Seq, bytes: u32, out: &mut Out<'_>, board: &Board) -> Seq {
        let data = board.app.end.beyond(seq).min(bytes);
        let fin = board.app.fin && seq.plus(data) == board.app.end;
        out.head.seq = seq;
        if fin {
            out.head.flags = out.head.flags.with(Flags::FIN);
        }
        if data > 0 {
            //= rfc9293#section-3.9.1
            // "MUST set the PSH bit in the last buffered segment" (MUST-61)
            if self.psh && seq.plus(data) == board.app.end {
                out.head.flags = out.head.flags.with(Flags::PSH);
            }
            out.payload = Payload::Stream {
                start: seq,
                len: data,
            };
        }
        seq.plus(data + u32::from(fin))
    }

    /// Fill new data: the cursor moves.
    pub fn fill_new(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        if cx.board.tx.nxt == cx.board.tx.una {
            cx.out.disarm(USER); // what waited for a window waits no more
        }
        let end = self.put(cx.board.tx.nxt, want.bytes, out, &cx.board);
        cx.write(|t: &mut TxFacts| (t.nxt, t.max) = (end, t.max.later(end)));
        self.arm_if_idle(cx);
    }

    /// Fill a probe: `max` moves, the cursor does not, no timer starts (Behaviour 4.4).
    pub fn fill_probe(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let end = self.put(cx.board.tx.una, want.bytes, out, &cx.board);
        out.reason = Reason::Probe;
        cx.write(|t: &mut TxFacts| t.max = t.max.later(end));
        self.watch(cx);
    }

    /// A bare acknowledgement carries the highest number sent, or the window's edge if that is
    /// earlier (a refused probe); never `nxt`, which after a rewind would fail the peer's test.
    pub fn stamp(&self, out: &mut Out<'_>, board: &Board) {
        if matches!(out.kind, Kind::Ack | Kind::Urgent) {
            let edge = board.tx.una.plus(board.peer.window);
            let limit = if board.peer.persist {
                edge
            } else {
                board.tx.max
            };
            out.head.seq = board.tx.max.earlier(limit);
        }
    }

    /// A segment came. If it is a SYN although ours is not acknowledged (simultaneous open, or the
    /// peer repeats its own), SYN+ACK goes (again).
    pub fn on_segment(&mut self, head: &Head, board: &Board) {
        self.heard = true;
        let syn = head.flags.has(Flags::SYN);
        let acked = head.ack.is_some_and(|a| a.after(board.tx.iss));
        if syn && Sender::opening(board) && board.tx.nxt != board.tx.iss && !acked {
            self.syn_again = true;
        }
    }

    /// The acknowledgement moved `una`: free, follow with the cursor, stop or restart the timer.
    pub fn advance(&mut self, ack: Seq, restart: bool, cx: &mut Cx<'_>) -> Advance {
        let (una, iss, end) = (cx.board.tx.una, cx.board.tx.iss, cx.board.app.end);
        let space = ack.since(una);
        let syn = u32::from(Sender::opening(&cx.board) && una == iss);
        let fin = u32::from(cx.board.app.fin && ack == end.plus(1));
        cx.store.free(ack);
        self.tries = 0;
        //= rfc6298#section-5
        // Rule 5.7 and Karn's rule.
        if syn > 0 || cx.board.rtt.samples != self.samples {
            self.backoff.clear();
        }
        (self.excused, self.syn_again) = (0, false);
        cx.write(|t: &mut TxFacts| {
            (t.una, t.nxt, t.backoff) = (ack, t.nxt.later(ack), 0);
        });
        // The gate has not seen this segment: whether its window is shut is not known here. A probe
        // of a shut window begins the time anew.
        self.watch_anew(cx);
        if cx.board.tx.una == cx.board.tx.max {
            cx.out.disarm(RTO);
        } else if restart || !cx.out.armed(RTO) {
            self.arm(cx);
        }
        Advance {
            space,
            data: space - syn.min(space) - fin.min(space - syn.min(space)),
        }
    }

    /// Start the timer with the present timeout.
    pub fn arm(&mut self, cx: &mut Cx<'_>) {
        let r = &cx.board.rtt;
        let mut base = if r.rto == Span::ZERO {
            UNKNOWN_RTO
        } else {
            r.rto
        };
        // RFC 6298 5.7: after a lost SYN data starts with at least 3 s, until a round trip of
        // data was timed. The SYN itself goes on doubling what it began with.
        if cx.board.tx.syn_lost && r.samples <= 1 && !Sender::opening(&cx.board) {
            base = base.max(UNKNOWN_RTO);
        }
        let max = if r.rto_max == Span::ZERO {
            base.max(UNKNOWN_RTO)
        } else {
            r.rto_max
        };
        let alike = Backoff::default();
        let doubles = self.doubles || Sender::opening(&cx.board);
        let backoff = if doubles { &self.backoff } else { &alike };
        let rto = backoff.apply(base, max);
        cx.write(|t: &mut TxFacts| t.rto = rto);
        cx.out.arm(RTO, on_tick(cx.now, rto, cx.board.rtt.tick));
    }

    /// Start the timer unless it runs.
    #[inline]
    pub fn arm_if_idle(&mut self, cx: &mut Cx<'_>) {
        self.watch(cx);
        if !cx.out.armed(RTO) {
            self.arm(cx);
        }
    }

    /// A timer fired: [`USER`], or [`RTO`] with something outstanding. Counts, backs off, re-arms;
    /// a SYN goes again by itself. The part rewinds and reports the loss of data.
    pub fn on_timer(&mut self, timer: u8, cx: &mut Cx<'_>) -> Expiry {
        let waits = cx.board.tx.una != cx.board.tx.max;
        if timer == USER && (waits || cx.board.peer.persist) {
            return Expiry::GaveUp;
        }
        if timer == USER || !waits {
            return Expiry::Nothing;
        }
        self.backoff.fail();
        self.tries += 1;
        self.samples = cx.board.rtt.samples;
        let (opening, tries) = (Sender::opening(&cx.board), self.tries);
        let limit = match (opening, self.user) {
            (true, _) => self.syn_tries - 1,
            (false, Span::ZERO) => self.data_tries,
            (false, _) => u32::MAX,
        };
        cx.write(|t: &mut TxFacts| (t.timeouts, t.backoff) = (t.timeouts + 1, tries));
        // A peer that took its window back and still answers is waited for (RFC 9293 3.8.6.1).
        let shut = cx.board.peer.max_window > 0 && cx.board.peer.window == 0;
        let heard = core::mem::take(&mut self.heard);
        self.excused += u32::from(shut && heard);
        if tries - self.excused.min(tries) > limit {
            return Expiry::GaveUp;
        }
        if opening {
            self.syn_again = true;
            cx.write(|t: &mut TxFacts| (t.syn_lost, t.retransmits) = (true, t.retransmits + 1));
        }
        self.arm(cx);
        if opening {
            Expiry::Syn
        } else {
            Expiry::Data { repeat: tries > 1 }
        }
    }
}

/// What the retransmission timer found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expiry {
    /// Nothing was outstanding.
    Nothing,
    /// Tries ran out.
    GaveUp,
    /// A SYN, which goes again.
    Syn,
    /// Data; `repeat`: it timed out before.
    Data {
        /// The same data timed out before.
        repeat: bool,
    },
}
