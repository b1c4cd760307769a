//! The window of TCP NewReno: Reno's, with one reduction per recovery episode and a careful exit.
//!
//! Hears `opened`, `acked`, `congested`, `recovered`, `rtt`, `wrote` and `sent`; says nothing;
//! writes `win`; gates data in turn by `cwnd - pipe`. Sources: RFC 6582 and RFC 5681. The episode
//! itself (`recover`, partial acknowledgements) is reliability's, so this window works unchanged
//! over selective acknowledgements. No inflation: see `reno`. An episode that the judge did not
//! call congestion leaves the window alone at its end too.

use wifu_engine::kit::{
    ABC, ABC_LIMIT, CWV, Growth, HYSTART, IDLE_RESTART, IW, REDUCES, RTO_HOLD, SSTHRESH,
    WindowControl, Windowed,
};
use wifu_engine::signal::{Cause, Congested};
use wifu_engine::{Board, Descriptor, Facts, Role};
use wifu_wire::Time;

/// Window of TCP NewReno.
pub static NEWRENO: Descriptor = Descriptor {
    name: "newreno",
    role: Role::Congestion,
    doc: "Window of TCP NewReno: halved once per recovery episode, left without a burst; one \
          segment after a timeout.",
    cites: &["RFC 6582", "RFC 5681", "RFC 9406"],
    params: &[
        IW,
        SSTHRESH,
        CWV,
        RTO_HOLD,
        ABC,
        IDLE_RESTART,
        HYSTART,
        REDUCES,
        ABC_LIMIT,
    ],
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
        let growth = Growth::with_hystart(params).variant(params);
        Ok(Box::new(Windowed(NewReno(growth))))
    },
    ..Descriptor::EMPTY
};

struct NewReno(Growth);

impl WindowControl for NewReno {
    wifu_engine::from_growth!(
        0: window, on_opened, on_acked, on_recovered, on_rtt, on_sent, on_wrote, set
    );

    fn on_congested(&mut self, what: &Congested, board: &Board, _now: Time) {
        self.0.halve(what, board); //= rfc5681#equation-4
        match what.cause {
            Cause::Timeout => self.0.collapse(board),
            cause => self.0.fall(cause, board),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::{Bench, Signal};

    fn congested(flight: u32, cause: Cause) -> Signal {
        Signal::Congested(Congested {
            flight,
            cause,
            repeat: false,
        })
    }

    #[test]
    fn recovery_ends_without_a_burst() {
        for (flight, expected) in [(0, 2000), (4000, 5000), (40_000, 10_000)] {
            let mut t = Bench::new(&NEWRENO, &[]).unwrap();
            t.board.conn.mss = 1000;
            t.signal(Signal::Opened);
            t.signal(congested(20_000, Cause::DupAcks));
            assert_eq!(t.board.win.cwnd, 10_000);
            t.signal(Signal::Recovered { flight });
            assert_eq!(t.board.win.cwnd, expected);
        }
    }

    /// What a long recovery leaves outstanding is no measure of the path: with `reduces=window` the
    /// window is, as in ns-2 and Linux.
    #[test]
    fn what_a_loss_reduces_is_flight_or_window() {
        for (reduces, expected) in [("flight", 50_000), ("window", 5000)] {
            let mut t = Bench::new(&NEWRENO, &[("iw", "10"), ("reduces", reduces)]).unwrap();
            t.board.conn.mss = 1000;
            t.signal(Signal::Opened);
            t.signal(congested(100_000, Cause::Timeout));
            assert_eq!(t.board.win.ssthresh, expected, "{reduces}");
        }
    }

    #[test]
    fn an_episode_that_was_no_congestion_changes_nothing() {
        let mut t = Bench::new(&NEWRENO, &[("iw", "20")]).unwrap();
        t.board.conn.mss = 1000;
        t.signal(Signal::Opened);
        t.signal(Signal::Recovered { flight: 3000 });
        assert_eq!(t.board.win.cwnd, 20_000);
    }

    #[test]
    fn a_timeout_collapses_and_its_end_does_not_open() {
        let mut t = Bench::new(&NEWRENO, &[]).unwrap();
        t.board.conn.mss = 1000;
        t.signal(Signal::Opened);
        t.signal(congested(20_000, Cause::DupAcks));
        t.signal(congested(12_000, Cause::Timeout));
        assert_eq!((t.board.win.cwnd, t.board.win.ssthresh), (1000, 6000));
        t.signal(Signal::Recovered { flight: 12_000 });
        assert_eq!(t.board.win.cwnd, 1000);
    }
}
