//! The window of TCP Reno: half of what was in flight after a fast retransmit, one segment after a
//! timeout.
//!
//! Hears `opened`, `acked`, `congested`, `undone`, `rtt`, `wrote` and `sent`; says nothing; writes
//! `win`; gates data in turn by `cwnd - pipe`. Source: RFC 5681. Deviation in form, not in what is
//! sent: the window is not inflated during recovery, since `pipe` counts the departures that
//! inflation stands for; so `cwnd` in traces is what the RFC deflates to. Growth is per
//! acknowledgement, as equation 3 has it, unless `abc` is on; slow start ends at the threshold,
//! unless `hystart` is on.

use wifu_engine::kit::{
    ABC, ABC_LIMIT, CWV, Growth, HYSTART, IDLE_RESTART, IW, REDUCES, RTO_HOLD, SSTHRESH,
    WindowControl, Windowed,
};
use wifu_engine::signal::{Cause, Congested};
use wifu_engine::{Board, Descriptor, Facts, Role};
use wifu_wire::Time;

/// Window of TCP Reno.
pub static RENO: Descriptor = Descriptor {
    name: "reno",
    role: Role::Congestion,
    doc: "Window of TCP Reno: halved after duplicate acknowledgements, one segment after a timeout.",
    cites: &["RFC 5681", "RFC 9406", "RFC 4015"],
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
        ("?undone", &[]),
        ("?rtt", &[]),
        ("wrote", &[]),
        ("sent", &[]),
    ],
    hooks: &["permit"],
    build: |params| {
        let growth = Growth::with_hystart(params).variant(params);
        Ok(Box::new(Windowed(Reno(growth))))
    },
    ..Descriptor::EMPTY
};

struct Reno(Growth);

impl WindowControl for Reno {
    wifu_engine::from_growth!(
        0: window, on_opened, on_acked, on_undone, on_rtt, on_sent, on_wrote, set
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
    use wifu_engine::signal::Acked;
    use wifu_engine::{Bench, Kind, Limit, Signal, Want};
    use wifu_wire::Seq;

    #[test]
    fn a_loss_halves_and_a_timeout_collapses() {
        let cases = [
            (Cause::DupAcks, 20_000, (10_000, 10_000)),
            (Cause::Mark, 20_000, (10_000, 10_000)),
            (Cause::DupAcks, 3_000, (2_000, 2_000)),
            (Cause::Timeout, 20_000, (1_000, 10_000)),
            (Cause::Timeout, 0, (1_000, 2_000)),
        ];
        for (cause, flight, expected) in cases {
            let mut t = Bench::new(&RENO, &[("iw", "20")]).unwrap();
            t.board.conn.mss = 1000;
            t.signal(Signal::Opened);
            let congested = Signal::Congested(Congested {
                flight,
                cause,
                repeat: false,
            });
            assert_eq!(t.signal(congested), []);
            let win = &t.board.win;
            assert_eq!((win.cwnd, win.ssthresh), expected, "{cause:?} {flight}");
        }
    }

    /// Linux, tcp_reno_ssthresh and tcp_cong_avoid_ai: five segments leave two, and what is left of
    /// sixty that slow start has no room for counts for avoidance, all at once.
    #[test]
    fn as_linux_windows_are_whole_segments_and_grow_by_all_that_was_delivered() {
        let set = |abc, abc_limit| {
            let set = [("iw", "5"), ("reduces", "window"), abc, abc_limit];
            let mut t = Bench::new(&RENO, &set).unwrap();
            t.board.conn.mss = 1000;
            t.signal(Signal::Opened);
            t.signal(Signal::Congested(Congested {
                flight: 60_000,
                cause: Cause::Timeout,
                repeat: false,
            }));
            assert_eq!((t.board.win.cwnd, t.board.win.ssthresh), (1000, 2000));
            t.signal(Signal::Acked(Acked {
                bytes: 58_000,
                upto: Seq(58_000),
                in_recovery: false,
                limited_by: Limit::Window,
            }));
            t.board.win.cwnd
        };
        // One of 58 to the threshold, and 57 / 2.
        assert_eq!(set(("abc", "on"), ("abc_limit", "65535")), 30_000);
        assert_eq!(set(("abc", "on"), ("abc_limit", "auto")), 2000);
        // The limit is one of octets that are counted.
        assert_eq!(set(("abc", "off"), ("abc_limit", "65535")), 2000);
    }

    /// What a report told of is not delivered again (`fresh`).
    #[test]
    fn what_is_delivered_counts_not_what_is_acknowledged() {
        let set = [("iw", "10"), ("abc", "on"), ("abc_limit", "65535")];
        let grown = |fresh| {
            let mut t = Bench::new(&RENO, &set).unwrap();
            t.board.conn.mss = 1000;
            t.board.tx.fresh = fresh;
            t.signal(Signal::Opened);
            t.signal(Signal::Acked(Acked {
                bytes: 4000,
                upto: Seq(4000),
                in_recovery: false,
                limited_by: Limit::Window,
            }));
            t.board.win.cwnd
        };
        assert_eq!(
            [None, Some(1000), Some(6000)].map(grown),
            [14_000, 11_000, 16_000]
        );
    }

    #[test]
    fn acknowledgements_in_recovery_do_not_grow_the_window() {
        let mut t = Bench::new(&RENO, &[("iw", "4")]).unwrap();
        t.board.conn.mss = 1000;
        t.signal(Signal::Opened);
        let mut acked = Acked {
            bytes: 5000,
            upto: Seq(0),
            in_recovery: true,
            limited_by: Limit::Window,
        };
        t.signal(Signal::Acked(acked));
        assert_eq!(t.board.win.cwnd, 4000);
        acked.in_recovery = false;
        t.signal(Signal::Acked(acked));
        assert_eq!(t.board.win.cwnd, 5000);
    }

    #[test]
    fn data_in_turn_fits_between_pipe_and_window_and_a_rescue_passes() {
        let mut t = Bench::new(&RENO, &[("iw", "4")]).unwrap();
        t.board.conn.mss = 1000;
        t.signal(Signal::Opened);
        t.board.tx.pipe = 3400;
        let mut want = Want {
            kind: Kind::New,
            bytes: 1000,
            least: 1000,
        };
        assert_eq!(t.permit(&want).bytes, 600);
        assert!(t.permit(&want).refuses(&want, t.now).is_some());
        want.kind = Kind::Rescue;
        assert!(t.permit(&want).refuses(&want, t.now).is_none());
    }
}
