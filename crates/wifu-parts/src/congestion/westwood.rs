//! The window of TCP Westwood+: after a loss it falls to what the path carries, not to a half.
//!
//! Hears `opened`, `acked`, `dup-ack`, `congested`, `recovered`, `wrote` and `sent`; says nothing;
//! writes `win`; gates data in turn by `cwnd - pipe`. Source: L. A. Grieco and S. Mascolo,
//! "Performance evaluation and comparison of Westwood+, New Reno, and Vegas TCP congestion
//! control", ACM CCR 34(2), 2004: one bandwidth sample per round trip, low-pass filtered, and
//! ssthresh = bandwidth * smallest round-trip time. Differences: before the first sample half of
//! the flight is used; a recovery episode ends as carefully as NewReno's.

use wifu_engine::kit::{
    ABC, CWV, Ewma, Growth, IDLE_RESTART, IW, RTO_HOLD, SSTHRESH, WindowControl, Windowed,
};
use wifu_engine::signal::{Acked, Cause, Congested};
use wifu_engine::{Board, Descriptor, Facts, ParamSpec, Role};
use wifu_wire::Time;

/// Window of TCP Westwood+.
pub static WESTWOOD: Descriptor = Descriptor {
    name: "westwood",
    role: Role::Congestion,
    doc: "Window of TCP Westwood+: after a loss, the measured bandwidth times the smallest \
          round-trip time.",
    cites: &["Grieco and Mascolo, ACM CCR 34(2), 2004"],
    params: &[
        IW,
        SSTHRESH,
        CWV,
        RTO_HOLD,
        ABC,
        IDLE_RESTART,
        ParamSpec::real(
            "filter",
            0.9,
            0.0,
            0.99,
            "Weight of the old bandwidth estimate when a sample comes (Grieco and Mascolo: 0.9).",
        ),
    ],
    probes: &["bwe_bps"],
    reads: Facts::CONN.with(Facts::TX).with(Facts::RTT),
    writes: Facts::WIN,
    hears: &[
        ("opened", &[]),
        ("acked", &[]),
        ("?dup-ack", &[]),
        ("congested", &[]),
        ("?recovered", &[]),
        ("wrote", &[]),
        ("sent", &[]),
    ],
    hooks: &["permit"],
    build: |params| {
        Ok(Box::new(Windowed(Westwood {
            growth: Growth::new(params),
            bwe: Ewma::new(params.real("filter")),
            round: None,
            arrived: 0,
            early: 0,
        })))
    },
    ..Descriptor::EMPTY
};

struct Westwood {
    growth: Growth,
    /// Bandwidth, octets per second.
    bwe: Ewma,
    /// Start of this round trip's sample.
    round: Option<Time>,
    /// Octets that reached the peer in it.
    arrived: u32,
    /// Octets counted by duplicate acknowledgements, which a cumulative one will count again.
    early: u32,
}

impl Westwood {
    /// Octets reached the peer; a round trip after the last sample there is a new one.
    fn count(&mut self, octets: u32, board: &Board, now: Time) {
        let Some(start) = self.round else {
            self.round = Some(now);
            return;
        };
        self.arrived = self.arrived.saturating_add(octets);
        let length = now - start;
        if board.rtt.samples > 0 && length >= board.rtt.srtt && length.0 > 0 {
            self.bwe.add(f64::from(self.arrived) / length.as_secs_f64());
            (self.round, self.arrived) = (Some(now), 0);
        }
    }

    /// What the path holds, octets.
    fn holds(&self, board: &Board) -> Option<u32> {
        let octets = self.bwe.value()? * board.rtt.min.as_secs_f64();
        Some(octets as u32)
    }
}

impl WindowControl for Westwood {
    wifu_engine::from_growth!(growth: window, on_opened, on_recovered, on_sent, on_wrote, set);

    fn on_acked(&mut self, acked: &Acked, board: &Board, now: Time) {
        let known = self.early.min(acked.bytes);
        self.early -= known;
        self.count(acked.bytes - known, board, now);
        self.growth.grow(acked, board, now);
    }

    fn on_dup_ack(&mut self, board: &Board, now: Time) {
        self.early = self.early.saturating_add(board.conn.mss);
        self.count(board.conn.mss, board, now);
    }

    fn on_congested(&mut self, what: &Congested, board: &Board, _now: Time) {
        let ssthresh = self.holds(board).unwrap_or(what.flight / 2);
        self.growth.lower(ssthresh, what, board);
        if what.cause == Cause::Timeout {
            self.growth.collapse(board);
            self.early = 0;
        } else {
            let before = self.growth.cwnd;
            self.growth.fall(what.cause, board);
            self.growth.cwnd = self.growth.cwnd.min(before);
        }
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("bwe_bps", self.bwe.value().unwrap_or(0.0) * 8.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::{Bench, Limit, Signal};
    use wifu_wire::{Seq, Span};

    fn opened() -> Bench {
        let mut t = Bench::new(&WESTWOOD, &[]).unwrap();
        t.board.conn.mss = 1000;
        t.signal(Signal::Opened);
        t
    }

    fn acked(bytes: u32) -> Signal {
        Signal::Acked(Acked {
            bytes,
            upto: Seq(0),
            in_recovery: false,
            limited_by: Limit::Window,
        })
    }

    fn congested(cause: Cause) -> Signal {
        Signal::Congested(Congested {
            flight: 180_000,
            cause,
            repeat: false,
        })
    }

    /// 10 Mb/s in segments of 1000 octets, at a round trip of 100 ms whose minimum was 80 ms.
    fn measured() -> Bench {
        let mut t = opened();
        t.board.rtt.samples = 1;
        (t.board.rtt.srtt, t.board.rtt.min) = (Span::MILLI * 100, Span::MILLI * 80);
        for _ in 0..1001 {
            t.now += Span::MICRO * 800;
            t.signal(acked(1000));
        }
        t
    }

    #[test]
    fn a_loss_leaves_what_the_path_holds() {
        let mut t = measured();
        assert_eq!(t.probe("bwe_bps"), Some(10e6));
        t.signal(congested(Cause::DupAcks));
        assert_eq!((t.board.win.cwnd, t.board.win.ssthresh), (100_000, 100_000));
        t.signal(congested(Cause::Timeout));
        assert_eq!((t.board.win.cwnd, t.board.win.ssthresh), (1000, 100_000));
    }

    #[test]
    fn duplicate_acknowledgements_are_arrivals_and_are_counted_once() {
        let mut t = measured();
        for _ in 0..124 {
            t.now += Span::MICRO * 800;
            t.signal(Signal::DupAck);
        }
        t.now += Span::MICRO * 800;
        t.signal(acked(125_000));
        assert_eq!(t.probe("bwe_bps"), Some(10e6));
    }

    #[test]
    fn the_filter_moves_by_a_tenth_and_no_sample_means_half_the_flight() {
        let mut t = measured();
        t.now += Span::MILLI * 100;
        t.signal(acked(62_500));
        assert_eq!(t.probe("bwe_bps").unwrap().round(), 9.5e6);
        let mut t = opened();
        t.signal(congested(Cause::DupAcks));
        assert_eq!(t.board.win.ssthresh, 90_000);
    }
}
