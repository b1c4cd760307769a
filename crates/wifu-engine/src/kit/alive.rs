//! Keep-alives: questions to the peer of an idle connection (RFC 9293 3.8.4).

use crate::board::{Board, State};
use crate::component::{Cx, Out};
use crate::params::{ParamSpec, Params, Value};
use crate::permit::{Kind, Reason, Want};
use wifu_wire::{Span, Time};

/// Number of the timer among the manager's.
pub const KEEP: u8 = 1;

const SECOND: u64 = 1_000_000_000;

/// Parameters that a manager using [`KeepAlive`] declares.
pub const KEEP_PARAMS: [ParamSpec; 4] = [
    ParamSpec::flag(
        "keepalive",
        false,
        "Ask the peer of an idle connection whether it is still there; may change at run time, as \
         may what follows (`SO_KEEPALIVE`; RFC 9293 3.8.4).",
    ),
    ParamSpec::span(
        "keep_idle",
        Span(7_200 * SECOND),
        Span(10_000_000),
        Span(100_000 * SECOND),
        "How long nothing comes before the first question (`TCP_KEEPIDLE`).",
    ),
    ParamSpec::span(
        "keep_interval",
        Span(75 * SECOND),
        Span(10_000_000),
        Span(100_000 * SECOND),
        "From one question to the next (`TCP_KEEPINTVL`).",
    ),
    ParamSpec::int(
        "keep_count",
        9,
        1,
        127,
        "So many questions without an answer end the connection (`TCP_KEEPCNT`).",
    ),
];

/// Whether the peer is there.
#[derive(Clone, Debug)]
pub struct KeepAlive {
    on: bool,
    idle: Span,
    interval: Span,
    count: u32,
    /// When the peer was heard last.
    heard: Time,
    /// Questions since then.
    asked: u32,
    /// One waits to be sent.
    due: bool,
}

impl KeepAlive {
    /// From [`KEEP_PARAMS`].
    pub fn new(p: &Params<'_>) -> KeepAlive {
        KeepAlive {
            on: p.flag("keepalive"),
            idle: p.span("keep_idle"),
            interval: p.span("keep_interval"),
            count: p.int("keep_count") as u32,
            heard: Time::ZERO,
            asked: 0,
            due: false,
        }
    }

    /// A parameter changes at run time; false if it is none of these. [`KeepAlive::start`] follows.
    pub fn set(&mut self, param: &str, value: Value) -> bool {
        match (param, value) {
            ("keepalive", Value::Flag(on)) => self.on = on,
            ("keep_idle", Value::Span(s)) => self.idle = s,
            ("keep_interval", Value::Span(s)) => self.interval = s,
            ("keep_count", Value::Int(n)) => self.count = n as u32,
            _ => return false,
        }
        true
    }

    /// A segment of the peer's was taken.
    #[inline]
    pub fn heard(&mut self, now: Time) {
        (self.heard, self.asked) = (now, 0);
    }

    fn open(board: &Board) -> bool {
        board.conn.running && !matches!(board.conn.state, State::TimeWait | State::Closed)
    }

    /// The connection opened, or a parameter changed: the time begins, or ends.
    pub fn start(&mut self, cx: &mut Cx<'_>) {
        self.stop();
        cx.out.disarm(KEEP);
        if self.on && KeepAlive::open(&cx.board) {
            let due = self.heard + self.idle;
            cx.out.arm(KEEP, due.max(cx.now + Span::MILLI));
        }
    }

    /// The connection is over.
    pub fn stop(&mut self) {
        (self.asked, self.due) = (0, false);
    }

    //= rfc9293#section-3.8.4
    /// The timer fired; false if the peer is gone. Nobody is asked while data are unacknowledged,
    /// which ask by themselves.
    #[must_use]
    pub fn expire(&mut self, cx: &mut Cx<'_>) -> bool {
        let (tx, peer) = (&cx.board.tx, &cx.board.peer);
        let asks = tx.una != tx.max || peer.persist;
        if !KeepAlive::open(&cx.board) {
            return true;
        }
        if asks {
            self.asked = 0;
            cx.out.arm_after(KEEP, self.idle);
        } else if self.asked == 0 && cx.now - self.heard < self.idle {
            cx.out.arm(KEEP, self.heard + self.idle);
        } else if self.asked >= self.count {
            return false;
        } else {
            self.asked += 1;
            self.due = true;
            cx.out.arm_after(KEEP, self.interval);
        }
        true
    }

    /// A question, if one is due.
    pub fn offer(&self) -> Option<Want> {
        self.due.then_some(Want::bare(Kind::Probe))
    }

    /// It carries no data, and a number that the peer has seen: to be refused, and so answered.
    pub fn fill(&mut self, out: &mut Out<'_>, board: &Board) {
        self.due = false;
        out.reason = Reason::Probe;
        out.head.seq = board.tx.max.minus(1);
    }
}
