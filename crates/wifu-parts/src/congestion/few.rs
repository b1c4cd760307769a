//! The window of TCP-FeW: NewReno's, which grows by a fraction of a segment per round trip.
//!
//! Hears `opened`, `acked`, `congested`, `recovered`, `wrote` and `sent`; says nothing; writes
//! `win`; gates data in turn by `cwnd - pipe`. Source: K. Nahm, A. Helmy and C.-C. J. Kuo, "TCP
//! over multihop 802.11 networks: issues and performance enhancement", MobiHoc 2005: fractional
//! window increment, cwnd + alpha / cwnd for each acknowledgement instead of cwnd + 1 / cwnd. A
//! chain of 802.11 hops holds a few segments, and Reno's next one after every round trip is lost to
//! contention long before a queue fills, which the routing protocol takes for a broken link.
//!
//! Of the paper: the increment in congestion avoidance. That it is fractional the abstract says;
//! the equation and its alpha of 0.01 are from memory, not from the text. Ours: slow start, what a
//! loss leaves and byte counting are as in `newreno`.

use wifu_engine::kit::{
    ABC, CWV, Growth, IDLE_RESTART, IW, RTO_HOLD, SSTHRESH, WindowControl, Windowed,
};
use wifu_engine::signal::{Acked, Cause, Congested};
use wifu_engine::{Board, Descriptor, Facts, ParamSpec, Role, Value};
use wifu_wire::Time;

const ALPHA: ParamSpec = ParamSpec::real(
    "alpha",
    0.01,
    0.0001,
    1.0,
    "Segments by which the window grows per round trip in congestion avoidance (0.01 is Nahm, \
     Helmy and Kuo's, from memory); 1 is NewReno.",
);

/// Window of TCP-FeW.
pub static FEW: Descriptor = Descriptor {
    name: "few",
    role: Role::Congestion,
    doc: "Window of TCP-FeW: NewReno's, growing by alpha segments per round trip in congestion \
          avoidance.",
    cites: &["Nahm, Helmy and Kuo, MobiHoc 2005", "RFC 6582", "RFC 5681"],
    params: &[IW, SSTHRESH, CWV, RTO_HOLD, ABC, IDLE_RESTART, ALPHA],
    reads: Facts::CONN.with(Facts::TX),
    writes: Facts::WIN,
    hears: &[
        ("opened", &[]),
        ("acked", &[]),
        ("congested", &[]),
        ("?recovered", &[]),
        ("wrote", &[]),
        ("sent", &[]),
    ],
    hooks: &["permit"],
    build: |params| {
        Ok(Box::new(Windowed(Few {
            growth: Growth::new(params),
            alpha: params.real(ALPHA.name),
            abc: params.flag(ABC.name),
            part: 0.0,
        })))
    },
    ..Descriptor::EMPTY
};

struct Few {
    growth: Growth,
    alpha: f64,
    /// Count octets instead of acknowledgements.
    abc: bool,
    /// Fraction of an octet that the window has grown by.
    part: f64,
}

impl Few {
    /// One acknowledgement in congestion avoidance: alpha times RFC 5681's step.
    fn avoid(&mut self, acked: &Acked, board: &Board) {
        let mss = board.conn.mss;
        let counts_for = if self.abc { acked.bytes } else { mss };
        let (cwnd, alpha) = (f64::from(self.growth.cwnd.max(1)), self.alpha);
        self.part += alpha * f64::from(mss) * f64::from(counts_for) / cwnd;
        let octets = self.part as u32;
        self.part -= f64::from(octets);
        self.growth.cwnd = self.growth.cwnd.saturating_add(octets);
    }
}

impl WindowControl for Few {
    wifu_engine::from_growth!(growth: window, on_opened, on_recovered, on_sent, on_wrote);

    fn on_acked(&mut self, acked: &Acked, board: &Board, now: Time) {
        if !self.growth.counts(acked, board, now) {
            return;
        }
        if self.growth.slow_start() {
            self.growth.start(acked, board);
        } else {
            self.avoid(acked, board);
        }
    }

    fn on_congested(&mut self, what: &Congested, board: &Board, _now: Time) {
        self.part = 0.0;
        self.growth.halve(what, board); //= rfc5681#equation-4
        match what.cause {
            Cause::Timeout => self.growth.collapse(board),
            cause => self.growth.fall(cause, board),
        }
    }

    fn set(&mut self, param: &str, value: Value) -> bool {
        match (param, value) {
            ("alpha", Value::Real(alpha)) => self.alpha = alpha,
            ("abc", Value::Flag(on)) => {
                self.abc = on;
                return self.growth.set(param, value);
            }
            _ => return self.growth.set(param, value),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::{Bench, Limit, Signal};
    use wifu_wire::Seq;

    const MSS: u32 = 1000;

    fn opened(set: &[(&str, &str)]) -> Bench {
        let all: Vec<_> = [("iw", "4")].iter().chain(set).copied().collect();
        let mut t = Bench::new(&FEW, &all).unwrap();
        t.board.conn.mss = MSS;
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

    /// The window after so many round trips of full windows of segments.
    fn after(t: &mut Bench, trips: u32, bytes: u32) -> u32 {
        for _ in 0..trips {
            let acks = t.board.win.cwnd / bytes;
            for _ in 0..acks {
                t.signal(acked(bytes));
            }
        }
        t.board.win.cwnd
    }

    #[test]
    fn a_hundred_round_trips_open_the_window_by_a_segment() {
        // By less than a whole one: what is acknowledged per round trip are whole segments.
        let mut t = opened(&[("ssthresh", "2000")]);
        assert_eq!(after(&mut t, 50, MSS), 4472);
        assert_eq!(after(&mut t, 50, MSS), 4899);
        let mut t = opened(&[("ssthresh", "2000"), ("alpha", "0.5")]);
        assert_eq!(after(&mut t, 2, MSS), 4909);
        // Counting octets, stretched acknowledgements say as much.
        let [abc, plain] = ["on", "off"].map(|on| {
            let mut t = opened(&[("ssthresh", "2000"), ("abc", on)]);
            after(&mut t, 50, 2 * MSS)
        });
        assert_eq!((abc, plain), (4472, 4242));
    }

    #[test]
    fn with_alpha_of_one_it_grows_as_newreno() {
        let grown = |t: &mut Bench| {
            let mut seen = Vec::new();
            for _ in 0..12 {
                t.signal(acked(MSS));
                seen.push(t.board.win.cwnd);
            }
            seen
        };
        let mut few = opened(&[("ssthresh", "6000"), ("alpha", "1")]);
        let ours = grown(&mut few);
        // RFC 5681, equation 3, in whole octets.
        let mut reno = 7000;
        for few in &ours[3..] {
            reno += MSS * MSS / reno;
            assert!(few.abs_diff(reno) < 8, "{ours:?}: {reno}");
        }
        assert_eq!(ours[..3], [5000, 6000, 7000]);
    }

    #[test]
    fn slow_start_and_reductions_are_newrenos() {
        let mut t = opened(&[]);
        assert_eq!(after(&mut t, 2, MSS), 16_000);
        let congested = |flight: u32, cause: Cause| {
            Signal::Congested(Congested {
                flight,
                cause,
                repeat: false,
            })
        };
        t.signal(congested(16_000, Cause::DupAcks));
        assert_eq!((t.board.win.cwnd, t.board.win.ssthresh), (8000, 8000));
        t.signal(Signal::Recovered { flight: 3000 });
        assert_eq!(t.board.win.cwnd, 4000, "left without a burst");
        t.signal(congested(4000, Cause::Timeout));
        assert_eq!((t.board.win.cwnd, t.board.win.ssthresh), (1000, 2000));
        assert!(t.set("alpha", Value::Real(1.0)));
        assert_eq!(
            after(&mut t, 3, MSS),
            4164,
            "2 and 3 kB, then 1000 * 1000 / cwnd"
        );
    }
}
