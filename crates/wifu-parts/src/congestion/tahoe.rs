//! The window of TCP Tahoe: slow start to a threshold, then linear growth; back to one segment on
//! any congestion.
//!
//! Hears `opened`, `acked`, `congested`, `wrote` and `sent`; says nothing; writes `win`; gates
//! data in turn by `cwnd - pipe`. Sources: V. Jacobson, "Congestion Avoidance and Control"
//! (SIGCOMM 1988); RFC 2581 for the threshold, which is taken from the octets in flight, or with
//! `ssthresh_window` from the window as ns-2 has it. Which segments go again is reliability's
//! (`recovery = "go-back-n"`).

use wifu_engine::kit::{
    ABC, CWV, Growth, IDLE_RESTART, IW, RTO_HOLD, SSTHRESH, WindowControl, Windowed,
};
use wifu_engine::signal::Congested;
use wifu_engine::{Board, Descriptor, Facts, ParamSpec, Role};
use wifu_wire::Time;

const SSTHRESH_WINDOW: ParamSpec = ParamSpec::flag(
    "ssthresh_window",
    false,
    "The threshold is half of what might have been in flight, the smaller of cwnd and the peer's \
     window, as in ns-2; off: half of what was (RFC 2581).",
);

/// Window of TCP Tahoe.
pub static TAHOE: Descriptor = Descriptor {
    name: "tahoe",
    role: Role::Congestion,
    doc: "Window of TCP Tahoe: slow start, congestion avoidance, one segment after any congestion.",
    cites: &[
        "Jacobson, Congestion Avoidance and Control, 1988",
        "RFC 2581",
    ],
    params: &[
        IW,
        SSTHRESH,
        CWV,
        RTO_HOLD,
        ABC,
        IDLE_RESTART,
        SSTHRESH_WINDOW,
    ],
    reads: Facts::CONN.with(Facts::TX),
    wants: Facts::PEER,
    writes: Facts::WIN,
    hears: &[
        ("opened", &[]),
        ("acked", &[]),
        ("congested", &[]),
        ("wrote", &[]),
        ("sent", &[]),
    ],
    hooks: &["permit"],
    build: |params| {
        Ok(Box::new(Windowed(Tahoe {
            growth: Growth::new(params),
            of_window: params.flag(SSTHRESH_WINDOW.name),
        })))
    },
    ..Descriptor::EMPTY
};

struct Tahoe {
    growth: Growth,
    /// See `ssthresh_window`.
    of_window: bool,
}

impl WindowControl for Tahoe {
    wifu_engine::from_growth!(growth: window, on_opened, on_acked, on_sent, on_wrote, set);

    fn on_congested(&mut self, what: &Congested, board: &Board, _now: Time) {
        let mut what = *what;
        if self.of_window {
            let peer = board.peer.window;
            let followed = board.peer.max_window > 0;
            what.flight = self.growth.cwnd.min(if followed { peer } else { u32::MAX });
        }
        self.growth.halve(&what, board);
        self.growth.collapse(board);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::signal::Acked;
    use wifu_engine::{Bench, Cause, Limit, Signal};
    use wifu_wire::Seq;

    #[test]
    fn any_congestion_leaves_one_segment_and_half_the_flight_as_threshold() {
        for cause in [Cause::DupAcks, Cause::Timeout] {
            let mut t = Bench::new(&TAHOE, &[("iw", "1")]).unwrap();
            t.board.conn.mss = 1000;
            t.signal(Signal::Opened);
            assert_eq!((t.board.win.cwnd, t.board.win.ssthresh), (1000, u32::MAX));
            let acked = Signal::Acked(Acked {
                bytes: 1000,
                upto: Seq(0),
                in_recovery: false,
                limited_by: Limit::Window,
            });
            for _ in 0..14 {
                t.signal(acked);
            }
            assert_eq!(t.board.win.cwnd, 15_000);
            let congested = Signal::Congested(Congested {
                flight: 15_000,
                cause,
                repeat: false,
            });
            t.signal(congested);
            assert_eq!((t.board.win.cwnd, t.board.win.ssthresh), (1000, 7500));
            let mut seen = Vec::new();
            for _ in 0..9 {
                t.signal(acked);
                seen.push(t.board.win.cwnd);
            }
            let expected = [2000, 3000, 4000, 5000, 6000, 7000, 8000, 8125, 8248];
            assert_eq!(seen, expected);
        }
    }

    #[test]
    fn the_threshold_may_be_half_of_what_might_have_been_in_flight() {
        for (option, peer, expected) in [
            ("off", 50_000, 2000),
            ("on", 50_000, 4000),
            ("on", 6000, 3000),
            // Nobody follows it.
            ("on", 0, 4000),
        ] {
            let options = [("iw", "8"), ("ssthresh_window", option)];
            let mut t = Bench::new(&TAHOE, &options).unwrap();
            t.board.conn.mss = 1000;
            (t.board.peer.window, t.board.peer.max_window) = (peer, peer);
            t.signal(Signal::Opened);
            t.signal(Signal::Congested(Congested {
                flight: 4000,
                cause: Cause::DupAcks,
                repeat: false,
            }));
            let win = &t.board.win;
            assert_eq!(
                (win.cwnd, win.ssthresh),
                (1000, expected),
                "{option} {peer}"
            );
        }
    }
}
