//! `peer-window`: the peer's receive window and the persist timer (RFC 9293 3.8.6, Behaviour 4.4).
//!
//! Contributes a gate on new and resent data, and says *when* to probe a closed window;
//! reliability, which owns the cursor, offers the probe. Hears segments and what moves the sender;
//! writes `peer`.

use wifu_engine::board::PeerFacts;
use wifu_engine::component::Cx;
use wifu_engine::kit::Backoff;
use wifu_engine::{
    Admit, Board, Component, Descriptor, Facts, FieldUse, Kind, Limit, ParamSpec, Params, Permit,
    Role, Segment, Signal, Want,
};
use wifu_wire::{Flags, HeadField, Seq, Span, Time};

/// See the module.
pub static PEER_WINDOW: Descriptor = Descriptor {
    name: "peer-window",
    role: Role::Gate,
    doc: "Keeps data inside the peer's window and probes a window that stays too small, with \
          doubling intervals, as long as the peer answers.",
    cites: &[
        "RFC 9293 section 3.8.6",
        "RFC 9293 section 3.10.7.4",
        "Behaviour 4.4",
    ],
    params: &[
        ParamSpec::span(
            "persist_max",
            Span(60_000_000_000),
            Span(1_000_000),
            Span(600_000_000_000),
            "Longest interval between window probes.",
        ),
        ParamSpec::int(
            "persist_tries",
            12,
            1,
            1000,
            "Unanswered window probes before giving up; twice as many, answered or not, once the \
             application is gone.",
        ),
    ],
    reads: Facts::TX,
    wants: Facts::CONN.with(Facts::RTT),
    writes: Facts::PEER,
    hears: &[
        ("segment", &[]),
        ("timer", &["gave-up"]),
        ("?opened", &[]),
        ("?acked", &[]),
        ("wrote", &[]),
        ("closing", &[]),
        ("sent", &[]),
    ],
    hooks: &["segment", "permit"],
    fields: &[FieldUse::of(HeadField::Window)],
    build: |p| Ok(Box::new(PeerWindow::new(p))),
    ..Descriptor::EMPTY
};

const PERSIST: u8 = 0;

/// Interval of the first probe while no timeout was computed.
const UNKNOWN_RTO: Span = Span(1_000_000_000);

struct PeerWindow {
    longest: Span,
    /// WL1, WL2 and the window of that segment (RFC 9293 3.10.7.4).
    last: Option<(Seq, Seq, u32)>,
    /// Octets that a probe may carry now.
    due: bool,
    backoff: Backoff,
    tries: u32,
    /// Probes since the peer was last heard.
    silent: u32,
}

impl PeerWindow {
    fn new(p: &Params<'_>) -> PeerWindow {
        let longest = p.span("persist_max");
        PeerWindow {
            longest,
            last: None,
            due: false,
            backoff: Backoff::default(),
            tries: p.int("persist_tries") as u32,
            silent: 0,
        }
    }

    /// Octets that the window leaves beyond `from`.
    fn beyond(&self, from: Seq) -> u32 {
        let Some((_, ack, window)) = self.last else {
            return 0;
        };
        let right = ack.plus(window);
        right.beyond(from)
    }

    /// Octets that the window leaves beyond the cursor.
    fn left(&self, board: &Board) -> u32 {
        self.beyond(board.tx.nxt)
    }

    /// Nothing is in flight, data waits, and the window forbids sending what is worth it.
    fn stuck(&self, board: &Board) -> bool {
        let (tx, app) = (&board.tx, &board.app);
        let end = app.end.plus(u32::from(app.fin));
        if !board.conn.running || tx.nxt != tx.una || !end.after(tx.nxt) {
            return false;
        }
        let unsent = end.since(tx.nxt).min(board.conn.mss);
        let worth = unsent.min((board.peer.max_window / 2).max(1));
        self.left(board) < worth
    }

    fn review(&mut self, cx: &mut Cx<'_>) {
        let stuck = self.stuck(&cx.board);
        if stuck == cx.board.peer.persist {
            return;
        }
        cx.write(|p: &mut PeerFacts| p.persist = stuck);
        self.due = false;
        self.backoff.clear();
        if stuck {
            self.rearm(cx);
        } else {
            cx.out.disarm(PERSIST);
        }
    }

    fn rearm(&mut self, cx: &mut Cx<'_>) {
        let rto = cx.board.rtt.rto;
        let base = if rto == Span::ZERO { UNKNOWN_RTO } else { rto };
        cx.out
            .arm_after(PERSIST, self.backoff.apply(base, self.longest));
    }
}

impl Component for PeerWindow {
    //= rfc9293#section-3.10.7.4
    // Fifth check.
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let head = seg.head;
        self.silent = 0;
        let Some(ack) = head
            .ack
            .or(head.flags.has(Flags::SYN).then_some(cx.board.tx.una))
        else {
            return Admit::Pass;
        };
        // What goes again bears an old number, but acknowledges more (Linux,
        // tcp_may_update_window): its window belongs to that.
        let fresh = self.last.is_none_or(|(wl1, wl2, _)| {
            wl1.before(head.seq) || wl1 == head.seq && wl2.upto(ack) || wl2.before(ack)
        });
        if !fresh {
            return Admit::Pass;
        }
        let window = if head.flags.has(Flags::SYN) {
            head.window
        } else {
            head.window << cx.board.conn.snd_shift
        };
        let newest = self.last.map_or(head.seq, |(wl1, ..)| wl1.later(head.seq));
        self.last = Some((newest, ack, window));
        cx.write(|p: &mut PeerFacts| {
            (p.window, p.max_window) = (window, p.max_window.max(window));
        });
        self.review(cx);
        Admit::Pass
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        if let Signal::Sent(s) = signal
            && s.kind == Kind::Probe
            && cx.board.peer.persist
        {
            self.due = false;
            self.silent += 1;
            self.backoff.fail();
            self.rearm(cx);
        }
        // The peer takes something: it is asked again soon.
        if matches!(signal, Signal::Acked(_)) && cx.board.peer.persist {
            self.due = false;
            self.backoff.clear();
            self.rearm(cx);
        }
        self.review(cx);
    }

    //= rfc9293#section-3.8.6.1
    // Open as long as the peer answers.
    fn on_timer(&mut self, _timer: u8, cx: &mut Cx<'_>) {
        let orphan = cx.board.app.gone && self.backoff.tries() >= 2 * self.tries;
        if self.silent >= self.tries || orphan {
            cx.out.emit(Signal::GaveUp);
        } else {
            self.due = true;
        }
    }

    fn permit(&self, want: &Want, board: &Board, _now: Time) -> Permit {
        match want.kind {
            Kind::New => Permit::upto(self.left(board), Limit::Peer),
            // What goes again was inside the window once; only a window that shrank forbids it.
            Kind::Resend => Permit::upto(self.beyond(board.tx.una), Limit::Peer),
            Kind::Probe if want.least > 0 && !self.due => Permit::shut(Limit::Peer),
            Kind::Probe if want.least > 0 => Permit::upto(self.left(board).max(1), Limit::Peer),
            _ => Permit::OPEN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::Bench;
    use wifu_wire::Head;

    /// A sender whose octets up to 1000 are out, and what the peer says: number, acknowledgement,
    /// window. Returns how many octets the gate lets out beyond those, and what the board says
    /// that the window is.
    fn told(segments: &[(u32, u32, u32)]) -> (u32, u32) {
        let mut t = Bench::new(&PEER_WINDOW, &[]).unwrap();
        t.board.conn.running = true;
        (t.board.tx.nxt, t.board.tx.max) = (Seq(1000), Seq(1000));
        for (seq, ack, window) in segments {
            let mut head = Head::default();
            (head.seq, head.ack, head.window) = (Seq(*seq), Some(Seq(*ack)), *window);
            // Reliability comes first.
            t.board.tx.una = t.board.tx.una.later(Seq(*ack));
            assert_eq!(t.segment(&head, &[]).0, Admit::Pass);
        }
        let want = Want {
            kind: Kind::New,
            bytes: 10_000,
            least: 1,
        };
        (t.permit(&want).bytes, t.board.peer.window)
    }

    //= rfc9293#section-3.10.7.4
    #[test]
    fn a_window_counts_from_the_acknowledgement_that_it_came_with() {
        assert_eq!(told(&[(100, 0, 5000)]), (4000, 5000));
        assert_eq!(told(&[(100, 0, 5000), (100, 400, 4600)]), (4000, 4600));
        // What was overtaken says nothing of the window.
        assert_eq!(told(&[(100, 400, 4600), (90, 0, 9000)]), (4000, 4600));
        // What goes again bears an old number, and says what is true now (Linux,
        // tcp_may_update_window).
        assert_eq!(told(&[(100, 0, 5000), (90, 400, 4600)]), (4000, 4600));
        assert_eq!(told(&[(100, 0, 5000), (90, 400, 7000)]), (6400, 7000));
        // It makes nothing of a number that lies between them new.
        let stale = [(100, 0, 5000), (90, 400, 4600), (95, 0, 9000)];
        assert_eq!(told(&stale), (4000, 4600));
    }
}
