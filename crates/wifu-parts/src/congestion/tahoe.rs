//! The window of TCP Tahoe: slow start to a threshold, then linear growth; back to one segment on
//! any congestion.
//!
//! Hears `opened`, `acked`, `congested`, `wrote` and `sent`; says nothing; writes `win`; gates
//! data in turn by `cwnd - pipe`. Sources: V. Jacobson, "Congestion Avoidance and Control"
//! (SIGCOMM 1988); RFC 2581 for the threshold, which is taken from the octets in flight (ns-2
//! takes it from the window). Which segments go again is reliability's (`recovery = "go-back-n"`).

use wifu_engine::kit::{
    ABC, CWV, Growth, IDLE_RESTART, IW, RTO_HOLD, SSTHRESH, WindowControl, Windowed,
};
use wifu_engine::signal::{Acked, Congested, Sent};
use wifu_engine::{Board, Descriptor, Facts, Role, Value};
use wifu_wire::Time;

/// Window of TCP Tahoe.
pub static TAHOE: Descriptor = Descriptor {
    name: "tahoe",
    role: Role::Congestion,
    doc: "Window of TCP Tahoe: slow start, congestion avoidance, one segment after any congestion.",
    cites: &[
        "Jacobson, Congestion Avoidance and Control, 1988",
        "RFC 2581",
    ],
    params: &[IW, SSTHRESH, CWV, RTO_HOLD, ABC, IDLE_RESTART],
    reads: Facts::CONN.with(Facts::TX),
    writes: Facts::WIN,
    hears: &[
        ("opened", &[]),
        ("acked", &[]),
        ("congested", &[]),
        ("wrote", &[]),
        ("sent", &[]),
    ],
    hooks: &["permit"],
    build: |params| Ok(Box::new(Windowed(Tahoe(Growth::new(params))))),
    ..Descriptor::EMPTY
};

struct Tahoe(Growth);

impl WindowControl for Tahoe {
    fn window(&self) -> (u32, u32) {
        (self.0.cwnd, self.0.ssthresh)
    }

    fn on_opened(&mut self, board: &Board, _now: Time) {
        self.0.open(board);
    }

    fn on_acked(&mut self, acked: &Acked, board: &Board, _now: Time) {
        self.0.grow(acked, board);
    }

    fn on_congested(&mut self, what: &Congested, board: &Board, _now: Time) {
        self.0.halve(what, board);
        self.0.collapse(board);
    }

    fn on_sent(&mut self, sent: &Sent, _board: &Board, now: Time) {
        self.0.sent(sent, now);
    }

    fn on_wrote(&mut self, board: &Board, now: Time) {
        self.0.restart(board, now);
    }

    fn set(&mut self, param: &str, value: Value) -> bool {
        self.0.set(param, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
}
