//! The window of TCP Vegas: one segment more or less per round trip, by how many segments are
//! queued in the path.
//!
//! Hears `opened`, `acked`, `congested`, `recovered`, `rtt`, `wrote` and `sent`; says nothing;
//! writes `win`; gates data in turn by `cwnd - pipe`. Source: L. S. Brakmo and L. L. Peterson, "TCP
//! Vegas: end to end congestion avoidance on a global Internet", IEEE JSAC 13(8), 1995, in the form
//! that Linux's `tcp_vegas` gave it: once per round trip, by the smallest sample of that round
//! trip, in whole segments; slow start doubles in every round trip, not in every other one, and
//! ends with the first that has more than gamma segments queued; a loss halves. Below three samples
//! in a round trip, and until what was outstanding at a loss is acknowledged, it grows as Reno.
//! Differences from Linux: the sample of the SYN, which is a shorter packet, is no base; a window
//! that does not count (`cwv`) does not grow here either.

use wifu_engine::kit::{
    ABC, CWV, Growth, IDLE_RESTART, IW, RTO_HOLD, SSTHRESH, WindowControl, Windowed,
};
use wifu_engine::signal::{Acked, Cause, Congested, RttSample};
use wifu_engine::{Board, Descriptor, Facts, ParamSpec, Role, Value};
use wifu_wire::{Seq, Span, Time};

/// Window of TCP Vegas.
pub static VEGAS: Descriptor = Descriptor {
    name: "vegas",
    role: Role::Congestion,
    doc: "Window of TCP Vegas: keeps alpha to beta segments queued in the path, by round-trip \
          times.",
    cites: &["Brakmo and Peterson, TCP Vegas, IEEE JSAC 13(8), 1995"],
    params: &[
        IW,
        SSTHRESH,
        CWV,
        RTO_HOLD,
        ABC,
        IDLE_RESTART,
        ParamSpec::int(
            "alpha",
            2,
            0,
            1000,
            "With fewer segments queued in the path the window grows (Linux: 2).",
        ),
        ParamSpec::int(
            "beta",
            4,
            0,
            1000,
            "With more segments queued in the path, and more than alpha, the window shrinks (Linux: 4).",
        ),
        ParamSpec::int(
            "gamma",
            1,
            0,
            1000,
            "With more segments queued in the path slow start ends (Linux: 1).",
        ),
    ],
    probes: &["base_rtt_s", "queued"],
    reads: Facts::CONN.with(Facts::TX).with(Facts::RTT),
    writes: Facts::WIN,
    hears: &[
        ("opened", &[]),
        ("acked", &[]),
        ("congested", &[]),
        ("?recovered", &[]),
        ("rtt", &[]),
        ("wrote", &[]),
        ("sent", &[]),
    ],
    hooks: &["permit"],
    build: |params| {
        let limits = ["alpha", "beta", "gamma"].map(|name| params.int(name));
        Ok(Box::new(Windowed(Vegas {
            growth: Growth::new(params),
            limits,
            round: Round::default(),
            base: None,
            until: None,
            queued: None,
        })))
    },
    ..Descriptor::EMPTY
};

/// One round trip.
#[derive(Clone, Copy, Default)]
struct Round {
    /// It is over when more than this is acknowledged; `None`: it has not begun.
    end: Option<Seq>,
    /// The smallest sample in it.
    least: Option<Span>,
    samples: u32,
}

impl Round {
    fn from(end: Seq) -> Round {
        Round {
            end: Some(end),
            ..Round::default()
        }
    }
}

struct Vegas {
    growth: Growth,
    /// alpha, beta and gamma, segments.
    limits: [u64; 3],
    round: Round,
    /// The smallest sample since the last silence.
    base: Option<Span>,
    /// Reno until so much is acknowledged.
    until: Option<Seq>,
    /// What the last round trip said.
    queued: Option<u64>,
}

/// Samples that a round trip must have: of fewer, all may be of delayed acknowledgements.
const SAMPLES: u32 = 3;

/// Smallest window, segments.
const LEAST: u64 = 2;

impl Vegas {
    /// The round trip is over: what its smallest sample means for the window.
    fn judge(&mut self, base: Span, least: Span, acked: &Acked, board: &Board) {
        let mss = u64::from(board.conn.mss.max(1));
        let cwnd = u64::from(self.growth.cwnd) / mss;
        let (base, least) = (u128::from(base.0.max(1)), u128::from(least.0.max(1)));
        let queued = (u128::from(cwnd) * (least - base) / base).min(1 << 32) as u64;
        self.queued = Some(queued);
        let [alpha, beta, gamma] = self.limits;
        let starting = self.growth.cwnd < self.growth.ssthresh;
        let octets = |segments: u64| (segments * mss).min(u64::from(u32::MAX)) as u32;
        let next = match () {
            () if starting && queued > gamma => {
                let holds = (u128::from(cwnd) * base / least) as u64;
                cwnd.min(holds + 1)
            }
            () if starting => return self.growth.start(acked, board),
            () if queued > beta.max(alpha) => cwnd.saturating_sub(1),
            () if queued < alpha => {
                self.growth.cwnd = self.growth.cwnd.saturating_add(mss as u32);
                return self.raise();
            }
            () => return self.raise(),
        };
        self.growth.cwnd = octets(next.max(LEAST));
        self.growth.ssthresh = self.growth.ssthresh.min(self.growth.cwnd);
        self.raise();
    }

    /// The threshold follows the window, so that no slow start begins below it.
    fn raise(&mut self) {
        let follows = self.growth.cwnd / 2 + self.growth.cwnd / 4;
        self.growth.ssthresh = self.growth.ssthresh.max(follows);
    }
}

impl WindowControl for Vegas {
    wifu_engine::from_growth!(growth: window, on_opened, on_recovered, on_sent);

    fn on_rtt(&mut self, sample: &RttSample, board: &Board, _now: Time) {
        // Nothing but the SYN is acknowledged.
        if board.tx.una == board.tx.iss.plus(1) {
            return;
        }
        let less = |old: Option<Span>| Some(old.map_or(sample.rtt, |o| o.min(sample.rtt)));
        self.base = less(self.base);
        self.round.least = less(self.round.least);
        self.round.samples = self.round.samples.saturating_add(1);
    }

    fn on_acked(&mut self, acked: &Acked, board: &Board, now: Time) {
        if let Some(until) = self.until {
            if acked.in_recovery || acked.upto.before(until) {
                return self.growth.grow(acked, board, now);
            }
            (self.until, self.round) = (None, Round::from(board.tx.max));
        }
        let over = self.round.end.is_none_or(|end| acked.upto.after(end));
        let round = self.round;
        if over {
            self.round = Round::from(board.tx.max);
        }
        if !self.growth.counts(acked, board, now) {
            return;
        }
        match (self.base, round.least) {
            (Some(base), Some(least)) if over && round.samples >= SAMPLES => {
                self.judge(base, least, acked, board);
            }
            _ if self.growth.cwnd < self.growth.ssthresh => self.growth.start(acked, board),
            _ if over => self.growth.avoid(acked, board),
            _ => {}
        }
    }

    fn on_congested(&mut self, what: &Congested, board: &Board, _now: Time) {
        self.until = Some(board.tx.max);
        self.growth.halve(what, board);
        match what.cause {
            Cause::Timeout => self.growth.collapse(board),
            cause => self.growth.fall(cause, board),
        }
    }

    fn on_wrote(&mut self, board: &Board, now: Time) {
        self.growth.restart(board, now);
        // After a silence the path may be another one.
        if board.tx.una == board.tx.max {
            (self.base, self.round) = (None, Round::from(board.tx.max));
        }
    }

    fn set(&mut self, param: &str, value: Value) -> bool {
        let place = ["alpha", "beta", "gamma"].iter().position(|n| *n == param);
        let (Some(i), Value::Int(n)) = (place, value) else {
            return self.growth.set(param, value);
        };
        self.limits[i] = n;
        true
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        let base = self.base.map_or(0.0, Span::as_secs_f64);
        probe("base_rtt_s", base);
        probe("queued", self.queued.map_or(0.0, |n| n as f64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ops::{Deref, DerefMut};
    use wifu_engine::{Bench, Limit, Signal};

    const MSS: u32 = 1000;

    /// A window that is always full.
    struct Path {
        bench: Bench,
        /// The round trip under way ends with the first acknowledgement of more than this.
        end: Seq,
    }

    impl Deref for Path {
        type Target = Bench;
        fn deref(&self) -> &Bench {
            &self.bench
        }
    }

    impl DerefMut for Path {
        fn deref_mut(&mut self) -> &mut Bench {
            &mut self.bench
        }
    }

    impl Path {
        fn opened(set: &[(&str, &str)]) -> Path {
            let mut bench = Bench::new(&VEGAS, set).unwrap();
            bench.board.conn.mss = MSS;
            bench.signal(Signal::Opened);
            bench.board.tx.una = Seq(5000);
            bench.board.tx.max = Seq(5000).plus(bench.board.win.cwnd);
            let end = Seq(5000);
            Path { bench, end }
        }

        /// In congestion avoidance at so many segments, at the beginning of a round trip, with a
        /// base of 100 ms.
        fn avoiding(segments: u32) -> Path {
            let iw = segments.to_string();
            let set = [("iw", &*iw), ("ssthresh", "2000"), ("abc", "on")];
            let mut t = Path::opened(&set);
            t.sampled(100_000);
            t.acked(false);
            assert_eq!(t.board.win.cwnd, segments * MSS);
            t
        }

        fn sampled(&mut self, us: u64) {
            self.signal(Signal::Rtt(RttSample {
                rtt: Span::MICRO * us,
                data_bytes: MSS + 52,
                ack_bytes: 52,
            }));
        }

        /// A segment is acknowledged, and the window is filled again. Whether that ended a round
        /// trip.
        fn acked(&mut self, in_recovery: bool) -> bool {
            self.board.tx.una = self.board.tx.una.plus(MSS);
            let upto = self.board.tx.una;
            self.signal(Signal::Acked(Acked {
                bytes: MSS,
                upto,
                in_recovery,
                limited_by: Limit::Window,
            }));
            let over = upto.after(self.end);
            if over {
                self.end = self.board.tx.max;
            }
            let full = upto.plus(self.board.win.cwnd);
            self.board.tx.max = self.board.tx.max.later(full);
            over
        }

        /// Round trips of these times; the window after each, segments.
        fn rounds(&mut self, ms: &[f64]) -> Vec<u32> {
            let mut round = |ms: &f64| {
                loop {
                    self.sampled((ms * 1000.0).round() as u64);
                    if self.acked(false) {
                        return self.board.win.cwnd / MSS;
                    }
                }
            };
            ms.iter().map(&mut round).collect()
        }

        fn congested(&mut self, cause: Cause) {
            let flight = self.board.tx.flight();
            self.signal(Signal::Congested(Congested {
                flight,
                cause,
                repeat: false,
            }));
        }
    }

    // queued = floor(cwnd * (least - base) / base).
    #[test]
    fn the_window_moves_by_one_segment_per_round_trip_between_alpha_and_beta() {
        let cases = [
            (100.0, 0.0, 21),
            (109.999, 1.0, 21),
            (110.0, 2.0, 20),
            (124.999, 4.0, 20),
            (125.0, 5.0, 19),
            (300.0, 40.0, 19),
        ];
        for (ms, queued, expected) in cases {
            let mut t = Path::avoiding(20);
            assert_eq!(t.rounds(&[ms]), [expected], "{ms}");
            assert_eq!(t.probe("queued"), Some(queued), "{ms}");
            assert_eq!(t.probe("base_rtt_s"), Some(0.1));
        }
        let mut t = Path::avoiding(20);
        // 22 * 0.12 = 2.64; 22 * 0.35 = 7.7, 20 * 0.35 = 7, 18 * 0.2 = 3.6.
        let times = [100.0, 100.0, 112.0, 135.0, 135.0, 135.0, 135.0, 120.0];
        assert_eq!(t.rounds(&times), [21, 22, 22, 21, 20, 19, 18, 18]);
        assert!(t.set("beta", Value::Int(2)));
        assert_eq!(t.rounds(&[120.0]), [17]);
        // 17 * 0.2 = 3.4: not above alpha.
        assert!(t.set("alpha", Value::Int(3)));
        assert_eq!(t.rounds(&[120.0]), [17]);
    }

    #[test]
    fn the_smallest_sample_of_a_round_trip_counts_and_three_are_needed() {
        let mut t = Path::avoiding(20);
        t.sampled(110_000);
        assert_eq!(t.rounds(&[300.0]), [20]);
        // Two samples in a round trip: Reno's pace.
        let mut t = Path::avoiding(20);
        for _ in 0..40 {
            for _ in 0..2 {
                t.sampled(300_000);
            }
            while !t.acked(false) {}
            assert_eq!(t.probe("queued"), Some(0.0));
        }
        assert_eq!(t.board.win.cwnd, 22_000);
    }

    #[test]
    fn slow_start_doubles_until_more_than_gamma_segments_are_queued() {
        let mut t = Path::opened(&[("iw", "4")]);
        t.sampled(100_000);
        t.acked(false);
        // The first acknowledgement made it five; 16 * 0.05 = 0.8.
        assert_eq!(t.rounds(&[100.0, 105.0]), [9, 17]);
        assert_eq!(t.board.win.ssthresh, u32::MAX);
        // 15 acknowledgements make it 32; 32 * 0.07 = 2.24; 32 / 1.07 = 29.9.
        assert_eq!(t.rounds(&[107.0]), [30]);
        assert_eq!(t.board.win.ssthresh, 30_000);
        assert_eq!(t.rounds(&[100.0]), [31]);
    }

    #[test]
    fn a_loss_halves_and_vegas_rests_until_what_was_out_is_acknowledged() {
        for (cause, window) in [(Cause::DupAcks, 10_000), (Cause::Timeout, 1000)] {
            let mut t = Path::avoiding(20);
            t.congested(cause);
            let now = (t.board.win.cwnd, t.board.win.ssthresh);
            assert_eq!(now, (window, 10_000), "{cause:?}");
        }
        let mut t = Path::avoiding(20);
        t.congested(Cause::DupAcks);
        for _ in 0..19 {
            t.sampled(900_000);
            t.acked(true);
        }
        assert_eq!((t.board.win.cwnd, t.probe("queued")), (10_000, Some(0.0)));
        t.signal(Signal::Recovered { flight: 3000 });
        assert_eq!(t.board.win.cwnd, 4000);
        // Slow samples of the recovery are forgotten.
        t.end = t.board.tx.max;
        t.acked(false);
        let grown = t.rounds(&[100.0; 3]);
        assert!(
            grown[2] > grown[0] && t.probe("queued") == Some(0.0),
            "{grown:?}"
        );
    }

    #[test]
    fn the_syn_is_no_base_and_a_silence_forgets_it() {
        let mut t = Path::opened(&[]);
        t.board.tx.una = t.board.tx.iss.plus(1);
        t.sampled(40_000);
        assert_eq!(t.probe("base_rtt_s"), Some(0.0));
        t.board.tx.una = Seq(5000);
        t.sampled(50_000);
        t.signal(Signal::Wrote);
        assert_eq!(t.probe("base_rtt_s"), Some(0.05));
        t.board.tx.una = t.board.tx.max;
        t.signal(Signal::Wrote);
        assert_eq!(t.probe("base_rtt_s"), Some(0.0));
    }
}
