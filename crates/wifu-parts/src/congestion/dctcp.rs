//! The window of DCTCP: marks reduce it by as much as there are of them.
//!
//! Hears `opened`, `acked`, `congested`, `recovered`, `rtt`, `wrote` and `sent`; says
//! nothing; writes `win`; gates data in turn by `cwnd - pipe`. Source: RFC 8257, the sender
//! (section 3.3). What acknowledgements say of marks is exact only if the peer's do
//! (`exact_echo`; section 3.2); when a window is reduced, and that the peer is told, is the
//! manager's business (`ecn`, once per window). Losses are losses (section 3.5). Growth is that
//! of RFC 5681, but for acknowledgements that echo a mark (RFC 3168 6.1.2); a recovery episode
//! ends as carefully as NewReno's.

use wifu_engine::kit::{
    ABC, CWV, Growth, HYSTART, IDLE_RESTART, IW, RTO_HOLD, SSTHRESH, WindowControl, Windowed,
};
use wifu_engine::signal::{Acked, Cause, Congested};
use wifu_engine::{Board, Descriptor, Facts, ParamSpec, Role, Value};
use wifu_wire::{Seq, Time};

/// Window of DCTCP.
pub static DCTCP: Descriptor = Descriptor {
    name: "dctcp",
    role: Role::Congestion,
    doc: "Window of DCTCP: a mark leaves 1 - alpha / 2 of it, where alpha is the average share of \
          marked bytes per window.",
    cites: &["RFC 8257"],
    params: &[
        IW,
        SSTHRESH,
        CWV,
        RTO_HOLD,
        ABC,
        IDLE_RESTART,
        HYSTART,
        ParamSpec::real(
            "g",
            0.0625,
            0.0001,
            1.0,
            "Weight of the latest window in alpha (RFC 8257 4.2: 1/16).",
        ),
    ],
    probes: &["alpha"],
    reads: Facts::CONN.with(Facts::TX),
    writes: Facts::WIN,
    hears: &[
        ("opened", &[]),
        ("acked", &[]),
        ("congested", &[]),
        ("?recovered", &[]),
        ("?rtt", &[]),
        ("wrote", &[]),
        ("sent", &[]),
    ],
    hooks: &["permit"],
    build: |params| {
        Ok(Box::new(Windowed(Dctcp {
            growth: Growth::with_hystart(params),
            g: params.real("g"),
            alpha: 1.0,
            acked: 0,
            marked: 0,
            end: None,
        })))
    },
    ..Descriptor::EMPTY
};

struct Dctcp {
    growth: Growth,
    g: f64,
    /// DCTCP.Alpha: the average share of marked octets.
    alpha: f64,
    /// DCTCP.BytesAcked and DCTCP.BytesMarked.
    acked: u64,
    marked: u64,
    /// DCTCP.WindowEnd.
    end: Option<Seq>,
}

impl Dctcp {
    //= rfc8257#section-3.3
    fn count(&mut self, acked: &Acked, board: &Board) {
        self.acked += u64::from(acked.bytes);
        self.marked += if board.conn.marked {
            u64::from(acked.bytes)
        } else {
            0
        };
        let end = *self.end.get_or_insert(board.tx.max);
        if acked.upto.upto(end) || self.acked == 0 {
            return;
        }
        let share = self.marked as f64 / self.acked as f64;
        self.alpha = (1.0 - self.g) * self.alpha + self.g * share;
        self.end = Some(board.tx.max);
        (self.acked, self.marked) = (0, 0);
    }
}

impl WindowControl for Dctcp {
    wifu_engine::from_growth!(growth: window, on_recovered, on_rtt, on_sent, on_wrote);

    fn on_opened(&mut self, board: &Board, _now: Time) {
        self.growth.open(board);
        self.end = Some(board.tx.max);
    }

    fn on_acked(&mut self, acked: &Acked, board: &Board, now: Time) {
        self.count(acked, board);
        self.growth.grow(acked, board, now);
    }

    fn on_congested(&mut self, what: &Congested, board: &Board, _now: Time) {
        if what.cause == Cause::Mark {
            let left = f64::from(self.growth.cwnd) * (1.0 - self.alpha / 2.0); //= rfc8257#section-3.3
            self.growth.lower(left as u32, what, board);
            self.growth.fall(what.cause, board);
            return;
        }
        //= rfc8257#section-3.5
        self.growth.halve(what, board);
        match what.cause {
            Cause::Timeout => self.growth.collapse(board),
            cause => self.growth.fall(cause, board),
        }
    }

    fn set(&mut self, param: &str, value: Value) -> bool {
        match (param, value) {
            ("g", Value::Real(g)) => {
                self.g = g;
                true
            }
            _ => self.growth.set(param, value),
        }
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("alpha", self.alpha);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::{Bench, Limit, Signal};

    const MSS: u32 = 1000;

    fn opened() -> Bench {
        let mut t = Bench::new(&DCTCP, &[("iw", "10")]).unwrap();
        t.board.conn.mss = MSS;
        t.board.tx.max = Seq(9 * MSS);
        t.signal(Signal::Opened);
        t
    }

    /// One acknowledgement of a segment.
    fn acked(t: &mut Bench, echo: bool) {
        heard(t, echo, Limit::Window);
    }

    fn heard(t: &mut Bench, echo: bool, limited_by: Limit) {
        t.board.conn.marked = echo;
        t.board.tx.una = t.board.tx.una.plus(MSS);
        t.signal(Signal::Acked(Acked {
            bytes: MSS,
            upto: t.board.tx.una,
            in_recovery: false,
            limited_by,
        }));
    }

    /// A window of ten segments, of whose acknowledgements so many echo a mark; alpha then. The
    /// first acknowledgement beyond the window ends it, and counts in it.
    fn window(t: &mut Bench, marked: u32) -> f64 {
        for n in 0..10 {
            if n == 9 {
                t.board.tx.max = t.board.tx.una.plus(10 * MSS);
            }
            acked(t, n < marked);
        }
        t.probe("alpha").unwrap()
    }

    fn congested(t: &mut Bench, cause: Cause) -> (u32, u32) {
        t.signal(Signal::Congested(Congested {
            flight: 10 * MSS,
            cause,
            repeat: false,
        }));
        (t.board.win.cwnd, t.board.win.ssthresh)
    }

    // alpha = alpha * (1 - 1/16) + F / 16.
    #[test]
    fn alpha_averages_the_share_of_marked_octets_per_window() {
        let mut t = opened();
        assert_eq!(t.probe("alpha"), Some(1.0));
        let seen: Vec<f64> = [0, 0, 10, 5].map(|n| window(&mut t, n)).into();
        let a = 0.9375;
        let b = 0.9375 * a;
        let c = 0.9375 * b + 0.0625;
        let d = 0.9375 * c + 0.0625 * 0.5;
        assert_eq!(seen, [a, b, c, d]);
    }

    #[test]
    fn a_mark_takes_half_of_alpha_and_a_loss_takes_half() {
        let mut t = opened();
        assert_eq!(congested(&mut t, Cause::Mark), (5000, 5000));
        for _ in 0..20 {
            window(&mut t, 0);
        }
        let alpha = t.probe("alpha").unwrap();
        assert!((alpha - 0.9375f64.powi(20)).abs() < 1e-12);
        let before = f64::from(t.board.win.cwnd);
        let left = (before * (1.0 - alpha / 2.0)) as u32;
        assert_eq!(congested(&mut t, Cause::Mark), (left, left));
        assert_eq!(congested(&mut t, Cause::DupAcks), (5000, 5000));
        assert_eq!(congested(&mut t, Cause::Timeout), (1000, 5000));
    }

    #[test]
    fn an_acknowledgement_that_echoes_a_mark_does_not_grow_the_window() {
        let mut t = opened();
        acked(&mut t, true);
        assert_eq!(t.board.win.cwnd, 10_000);
        acked(&mut t, false);
        assert_eq!(t.board.win.cwnd, 11_000);
    }

    /// What was marked was sent in that window, too.
    //= rfc7661#section-4.2
    #[test]
    fn a_window_of_marked_octets_was_used() {
        let grown = |marked: u32| {
            let mut t = Bench::new(&DCTCP, &[("iw", "10"), ("cwv", "on")]).unwrap();
            t.board.conn.mss = MSS;
            t.signal(Signal::Opened);
            t.board.tx.max = Seq(MSS);
            heard(&mut t, false, Limit::Source);
            t.board.tx.max = Seq(11 * MSS);
            let before = t.board.win.cwnd;
            for n in 0..10 {
                heard(&mut t, n < marked, Limit::Source);
            }
            t.board.win.cwnd - before
        };
        assert_eq!(grown(0), 1000, "the last one knows that all were used");
        assert_eq!(grown(9), 1000);
        assert_eq!(grown(10), 0);
    }
}
