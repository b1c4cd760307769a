//! The window of CUBIC: growth by a cubic function of the time since the last reduction, never
//! slower than Reno.
//!
//! Hears `opened`, `acked`, `congested`, `recovered`, `rtt`, `wrote` and `sent`; says nothing;
//! writes `win`; gates data in turn by `cwnd - pipe`. Source: RFC 9438, by its sections below,
//! constants included; the first slow start ends by RFC 9406. Differences: the window is the base
//! of a reduction where more is in flight (section 4.6 allows it: with selective acknowledgements
//! the flight grows during a recovery); an episode ends as carefully as NewReno's. `cwv` is on by
//! default, as section 5.8 asks; time in which the window was not binding is taken out of the
//! epoch.

use wifu_engine::kit::{
    ABC, ABC_LIMIT, EXIT, Growth, HYSTART, IDLE_RESTART, IW, REDUCES, RTO_HOLD, SSTHRESH,
    WindowControl, Windowed,
};
use wifu_engine::math::cbrt;
use wifu_engine::signal::{Acked, Cause, Congested};
use wifu_engine::{Board, Descriptor, Facts, ParamSpec, Role, Value};
use wifu_wire::Time;

/// Window of CUBIC.
pub static CUBIC: Descriptor = Descriptor {
    name: "cubic",
    role: Role::Congestion,
    doc: "Window of CUBIC: concave up to the window of the last loss, then convex; at least as \
          fast as Reno.",
    cites: &["RFC 9438", "RFC 9406"],
    params: &[
        IW,
        SSTHRESH,
        ParamSpec::flag(
            "cwv",
            true,
            "Grow only if the window was what limited the sender (RFC 9438 5.8).",
        ),
        RTO_HOLD,
        ABC,
        IDLE_RESTART,
        ParamSpec {
            default: Value::Flag(true),
            ..HYSTART
        },
        ParamSpec::flag(
            "fast_convergence",
            true,
            "A loss below the window of the last one makes room for newcomers (RFC 9438 4.7).",
        ),
        REDUCES,
        EXIT,
        ABC_LIMIT,
    ],
    probes: &["w_max", "w_est", "k_s"],
    reads: Facts::CONN.with(Facts::TX),
    wants: Facts::RTT,
    writes: Facts::WIN,
    hears: &[
        ("opened", &[]),
        ("acked", &[]),
        ("congested", &[]),
        ("?recovered", &[]),
        ("?undone", &[]),
        ("?rtt", &[]),
        ("wrote", &[]),
        ("sent", &[]),
    ],
    hooks: &["permit"],
    build: |params| {
        Ok(Box::new(Windowed(Cubic {
            growth: Growth::with_hystart(params).variant(params).leaving(params),
            fast_convergence: params.flag("fast_convergence"),
            epoch: None,
            seen: Time::ZERO,
            w_max: 0.0,
            w_est: 0.0,
            prior: 0.0,
            k_s: 0.0,
            part: 0.0,
        })))
    },
    ..Descriptor::EMPTY
};

/// Windows are in segments, as in the RFC.
struct Cubic {
    growth: Growth,
    fast_convergence: bool,
    /// Start of this stretch of congestion avoidance.
    epoch: Option<Time>,
    /// The latest acknowledgement.
    seen: Time,
    /// Window before the last reduction; 0: none to return to.
    w_max: f64,
    /// What Reno would have.
    w_est: f64,
    /// `cwnd_prior`: from here on Reno's pace is one segment per round trip.
    prior: f64,
    /// Time from the epoch to `w_max`, seconds.
    k_s: f64,
    /// Fraction of an octet that the window has grown by.
    part: f64,
}

impl Cubic {
    fn segments(&self, board: &Board) -> f64 {
        (f64::from(self.growth.cwnd) + self.part) / f64::from(board.conn.mss.max(1))
    }

    /// The first acknowledgement of congestion avoidance.
    fn begin(&mut self, cwnd: f64, now: Time) {
        self.epoch = Some(now);
        self.w_est = cwnd; //= rfc9438#section-4.3
        if self.w_max > cwnd {
            self.k_s = cbrt((self.w_max - cwnd) / C); //= rfc9438#section-4.2
        } else {
            (self.k_s, self.w_max) = (0.0, cwnd); //= rfc9438#section-4.8
        }
    }

    fn curve(&self, t_s: f64) -> f64 {
        let d = t_s - self.k_s;
        C * d * d * d + self.w_max
    }

    fn avoid(&mut self, acked: &Acked, board: &Board, now: Time) {
        let cwnd = self.segments(board);
        if self.epoch.is_none() {
            self.begin(cwnd, now);
        }
        let t_s = self.epoch.map_or(0.0, |e| (now - e).as_secs_f64());
        // Linux (bictcp_update) keeps the pace.
        let full = self.w_est >= self.prior && !self.growth.at_once();
        let alpha = if full { 1.0 } else { ALPHA };
        let segments = f64::from(Growth::fresh(acked, board)) / f64::from(board.conn.mss.max(1));
        self.w_est += alpha * segments / cwnd; //= rfc9438#section-4.3
        let next = if self.curve(t_s) < self.w_est {
            self.w_est.max(cwnd)
        } else {
            let target = self.curve(t_s + board.rtt.srtt.as_secs_f64());
            let times = if self.growth.at_once() { segments } else { 1.0 };
            let target = target.clamp(cwnd, 1.5 * cwnd);
            cwnd + (target - cwnd) * times / cwnd //= rfc9438#section-4.4
        };
        let octets = next * f64::from(board.conn.mss);
        self.growth.cwnd = octets as u32;
        self.part = octets - f64::from(self.growth.cwnd);
    }
}

impl WindowControl for Cubic {
    wifu_engine::from_growth!(growth: window, on_recovered, on_rtt, on_sent, on_wrote);

    fn on_opened(&mut self, board: &Board, now: Time) {
        self.growth.open(board);
        self.seen = now;
    }

    fn on_acked(&mut self, acked: &Acked, board: &Board, now: Time) {
        let since = now - self.seen;
        self.seen = now;
        if !self.growth.counts(acked, board, now) {
            if let Some(epoch) = &mut self.epoch {
                *epoch += since; //= rfc9438#section-4.2
            }
        } else if self.growth.cwnd < self.growth.ssthresh {
            self.growth.start(acked, board);
        } else {
            self.avoid(acked, board, now);
        }
    }

    fn on_congested(&mut self, what: &Congested, board: &Board, _now: Time) {
        let cwnd = self.segments(board);
        self.prior = cwnd;
        let shrinking = self.fast_convergence && cwnd < self.w_max;
        self.w_max = if shrinking {
            cwnd * (1.0 + BETA) / 2.0 //= rfc9438#section-4.7
        } else {
            cwnd
        };
        (self.epoch, self.part) = (None, 0.0);
        let base = self.growth.base(what).min(self.growth.cwnd);
        let ssthresh = f64::from(base) * BETA; //= rfc9438#section-4.6
        self.growth.lower(ssthresh as u32, what, board);
        if what.cause == Cause::Timeout {
            self.growth.collapse(board);
            self.w_max = 0.0; //= rfc9438#section-4.8
        } else {
            self.growth.fall(what.cause, board);
        }
    }

    fn on_undone(&mut self, _board: &Board, _now: Time) {
        self.growth.undo();
        (self.epoch, self.part) = (None, 0.0);
    }

    fn set(&mut self, param: &str, value: Value) -> bool {
        match (param, value) {
            ("fast_convergence", Value::Flag(on)) => {
                self.fast_convergence = on;
                true
            }
            _ => self.growth.set(param, value),
        }
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("w_max", self.w_max);
        probe("w_est", self.w_est);
        probe("k_s", self.k_s);
    }
}

/// Segments per cubic second (RFC 9438 5.1).
const C: f64 = 0.4;

/// What a reduction leaves (RFC 9438 4.6).
const BETA: f64 = 0.7;

/// Reno's pace that is as fast on average with BETA instead of a half (RFC 9438 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::signal::RttSample;
    use wifu_engine::{Bench, Limit, Signal};
    use wifu_wire::{Seq, Span};

    const MSS: u32 = 1000;

    fn opened(rtt_ms: u64) -> Bench {
        let mut t = Bench::new(&CUBIC, &[("iw", "10")]).unwrap();
        t.board.conn.mss = MSS;
        t.board.rtt.srtt = Span::MILLI * rtt_ms;
        t.signal(Signal::Opened);
        t
    }

    fn acked(limited_by: Limit) -> Signal {
        Signal::Acked(Acked {
            bytes: MSS,
            upto: Seq(0),
            in_recovery: false,
            limited_by,
        })
    }

    fn congested(flight: u32, cause: Cause) -> Signal {
        Signal::Congested(Congested {
            flight,
            cause,
            repeat: false,
        })
    }

    /// Linux: whole segments are left, and what slow start leaves of an acknowledgement counts for
    /// avoidance, all at once (cubictcp_cong_avoid).
    #[test]
    fn as_linux_what_slow_start_has_no_room_for_counts_for_avoidance() {
        let set = |abc_limit| {
            let set = [("iw", "5"), ("reduces", "window"), ("abc", "on"), abc_limit];
            let mut t = Bench::new(&CUBIC, &set).unwrap();
            t.board.conn.mss = MSS;
            t.signal(Signal::Opened);
            t.signal(congested(60_000, Cause::Timeout));
            assert_eq!((t.board.win.cwnd, t.board.win.ssthresh), (MSS, 3 * MSS));
            t.signal(Signal::Acked(Acked {
                bytes: 58 * MSS,
                upto: Seq(58 * MSS),
                in_recovery: false,
                limited_by: Limit::Window,
            }));
            t.board.win.cwnd / MSS
        };
        assert_eq!(set(("abc_limit", "65535")), 3 + 56 / 3);
        assert_eq!(set(("abc_limit", "auto")), 2);
    }

    /// One ACK per segment of the window and round trip; the window after so many round trips.
    fn run(t: &mut Bench, rounds: u32) -> f64 {
        for _ in 0..rounds {
            let (start, n) = (t.now, u64::from(t.board.win.cwnd / MSS));
            for i in 0..n {
                t.now = start + t.board.rtt.srtt * i / n;
                t.signal(acked(Limit::Window));
            }
            t.now = start + t.board.rtt.srtt;
        }
        f64::from(t.board.win.cwnd) / f64::from(MSS)
    }

    fn grown_to(t: &mut Bench, segments: u32) {
        for _ in 10..segments {
            t.signal(acked(Limit::Window));
        }
        assert_eq!(t.board.win.cwnd, segments * MSS);
    }

    #[test]
    fn the_window_returns_to_that_of_the_loss_after_k_seconds() {
        let mut t = opened(200);
        grown_to(&mut t, 100);
        t.signal(congested(100 * MSS, Cause::DupAcks));
        t.signal(Signal::Recovered { flight: 90 * MSS });
        assert_eq!((t.board.win.cwnd, t.board.win.ssthresh), (70_000, 70_000));
        let middle = run(&mut t, 10);
        assert!((t.probe("k_s").unwrap() - 4.2172).abs() < 1e-4);
        assert!((95.5..97.5).contains(&middle), "{middle}");
        let back = run(&mut t, 11);
        assert!((99.5..100.5).contains(&back), "{back}");
        let beyond = run(&mut t, 10);
        assert!((102.5..104.5).contains(&beyond), "{beyond}");
    }

    #[test]
    fn on_a_short_path_it_is_as_fast_as_reno_with_the_same_average() {
        let mut t = opened(10);
        grown_to(&mut t, 20);
        t.signal(congested(20 * MSS, Cause::DupAcks));
        t.signal(Signal::Recovered { flight: 19 * MSS });
        // 0.529 segments per round trip until 20 segments, then 1: 11.3 + 18.7 round trips.
        let after = run(&mut t, 30);
        assert!((37.0..39.5).contains(&after), "{after}");
    }

    #[test]
    fn a_loss_on_the_way_up_gives_way_and_a_timeout_forgets_the_old_window() {
        let mut t = opened(100);
        grown_to(&mut t, 100);
        t.signal(congested(100 * MSS, Cause::DupAcks));
        t.signal(congested(70 * MSS, Cause::DupAcks));
        assert_eq!(t.probe("w_max"), Some(59.5));
        assert_eq!(t.board.win.cwnd, 49_000);
        t.signal(congested(40 * MSS, Cause::Timeout));
        assert_eq!((t.board.win.cwnd, t.board.win.ssthresh), (1000, 28_000));
        run(&mut t, 10);
        assert_eq!(t.probe("k_s"), Some(0.0));
    }

    #[test]
    fn what_a_long_recovery_left_in_flight_does_not_raise_the_threshold() {
        let mut t = opened(100);
        grown_to(&mut t, 100);
        t.signal(congested(900 * MSS, Cause::Timeout));
        assert_eq!((t.board.win.cwnd, t.board.win.ssthresh), (1000, 70_000));
    }

    #[test]
    fn longer_round_trips_end_the_first_slow_start() {
        for (hystart, expected) in [("on", true), ("off", false)] {
            let mut t = Bench::new(&CUBIC, &[("hystart", hystart)]).unwrap();
            t.board.conn.mss = MSS;
            t.signal(Signal::Opened);
            for i in 0..120 {
                // Ten segments are in flight; six milliseconds more in every round.
                let upto = Seq(MSS * i);
                t.board.tx.max = upto.plus(10 * MSS);
                t.signal(Signal::Rtt(RttSample {
                    rtt: Span::MILLI * u64::from(40 + i / 10 * 6),
                    data_bytes: MSS,
                    ack_bytes: 40,
                }));
                t.signal(Signal::Acked(Acked {
                    bytes: MSS,
                    upto,
                    in_recovery: false,
                    limited_by: Limit::Window,
                }));
            }
            assert_eq!(t.board.win.ssthresh < u32::MAX, expected, "{hystart}");
        }
    }

    #[test]
    fn time_in_which_the_window_was_not_binding_does_not_count() {
        let mut t = opened(100);
        grown_to(&mut t, 100);
        t.signal(congested(100 * MSS, Cause::DupAcks));
        t.signal(Signal::Recovered { flight: 90 * MSS });
        let before = run(&mut t, 10);
        t.now += Span::SECOND * 20;
        t.signal(acked(Limit::Source));
        assert_eq!(f64::from(t.board.win.cwnd) / 1000.0, before);
        let after = run(&mut t, 1);
        assert!(after - before < 1.5, "{before} {after}");
    }

    #[test]
    fn a_recovery_ends_at_the_threshold_where_that_is_asked_for() {
        for (exit, expected) in [("careful", 6000), ("threshold", 70_000)] {
            let mut t = Bench::new(&CUBIC, &[("iw", "10"), ("exit", exit)]).unwrap();
            t.board.conn.mss = MSS;
            t.signal(Signal::Opened);
            grown_to(&mut t, 100);
            t.signal(congested(100 * MSS, Cause::DupAcks));
            t.signal(Signal::Recovered { flight: 5 * MSS });
            assert_eq!(t.board.win.cwnd, expected, "{exit}");
            t.signal(Signal::Undone);
            assert_eq!(
                (t.board.win.cwnd, t.board.win.ssthresh),
                (100_000, u32::MAX)
            );
        }
    }
}
