//! The gate of TCP-AP as of 2005: data leave one interval after another, and the interval is the
//! time that a packet takes over the next four hops, longer when round trips vary.
//!
//! Hears `opened`, `rtt`, `route` and `sent`; says nothing; writes `rate`; gates data in turn by
//! time. Sources: S. M. ElRakabawy, A. Klemm and C. Lindemann, "TCP with Adaptive Pacing for
//! Multihop Wireless Networks", MobiHoc 2005, as the WiFu paper uses it, with what its authors'
//! agent for ns-2 and WiFu's code do otherwise as parameters. The handshake's round trip is the
//! first sample and in the history, too; without one the interval is 50 ms. While the hops of the
//! path are not known it counts one. The interval is taken after each sample and holds for whoever
//! waits.

use wifu_engine::board::RateFacts;
use wifu_engine::kit::{ADAPTIVE_PARAMS, Adaptive, Ewma, Trip, UNKNOWN};
use wifu_engine::signal::RttSample;
use wifu_engine::{
    Board, Component, Cx, Descriptor, Fact, Facts, ParamSpec, Params, Permit, Preference, Role,
    Signal, Want,
};
use wifu_wire::{Rate, Span, Time};

/// Pacing by the delay of four hops.
pub static AP05: Descriptor = Descriptor {
    name: "ap05",
    role: Role::Gate,
    doc: "TCP-AP of 2005: data leave one by one, as far apart as a packet takes over the next nf \
          hops, and farther when round trips vary. Counts one hop while the path's are not known.",
    cites: &[
        "ElRakabawy, Klemm and Lindemann, TCP with Adaptive Pacing, MobiHoc 2005",
        "Behaviour 6, 6.1, 16.1",
    ],
    params: &[
        ADAPTIVE_PARAMS[0],
        ADAPTIVE_PARAMS[1],
        ADAPTIVE_PARAMS[2],
        ADAPTIVE_PARAMS[3],
        ADAPTIVE_PARAMS[4],
        ParamSpec::int(
            "nf",
            4,
            1,
            5,
            "Hops of which the delay is kept: n-hop factor.",
        ),
        ParamSpec::optional_rate(
            "bandwidth",
            Rate(1_000),
            Rate(10_000_000_000),
            "Data rate of the links; auto: that of the link to the next hop, or 24 Mb/s where \
             nobody tells it (WiFu's code).",
        ),
        ParamSpec::flag(
            "ap05_nosize",
            false,
            "The interval is nf/2 * RTT/h, without the times to transmit (what WiFu's code comes \
             to, which adds seconds to microseconds).",
        ),
        ParamSpec::flag(
            "ap_cap",
            false,
            "No more hops than the path has; off: nf hops always (WiFu's code).",
        ),
        ParamSpec::real(
            "tq_weight",
            0.0,
            0.0,
            0.99,
            "Weight of the old queueing delay per hop when a sample comes; 0: samples count alone \
             (TCP-AP's ns-2 agent: 0.5).",
        ),
        ParamSpec::span(
            "tq_bound",
            Span(0),
            Span(0),
            Span(10_000_000_000),
            "A queueing delay per hop is taken for so much at the most, and no less than nothing; \
             0: as it is (TCP-AP's ns-2 agent: 0.5 s).",
        ),
        ParamSpec::int(
            "link_octets",
            0,
            0,
            1_000,
            "Bytes that the link layer adds to each packet (TCP-AP's ns-2 agent: 112).",
        ),
    ],
    probes: &["interval_s", "fhd_s", "t_q_s", "cov", "hop_rtt_s"],
    reads: Facts::PATH,
    wants: Facts::CONN,
    writes: Facts::RATE,
    prefers: &[Preference {
        fact: Fact::SiteRate,
        param: Some("bandwidth"),
        then: "it takes links of 24 Mb/s",
    }],
    hears: &[("opened", &[]), ("rtt", &[]), ("route", &[]), ("sent", &[])],
    // It lets what the window allowed leave first.
    needs_with: &[(
        "retransmissions",
        "behind-window",
        "reliable",
        &["cumulative"],
    )],
    hooks: &["permit"],
    build: |p| Ok(Box::new(Ap05::new(p))),
    ..Descriptor::EMPTY
};

/// Hard-wired in WiFu's code.
const BANDWIDTH: Rate = Rate(24_000_000);

struct Ap05 {
    adaptive: Adaptive,
    law: Law,
    bandwidth: Option<Rate>,
    /// RTT/h of the latest sample, s.
    hop_rtt: f64,
    /// The latest queueing delay per hop, s.
    queueing: f64,
}

/// How a delay of nf hops is made of a round trip.
struct Law {
    hops: f64,
    capped: bool,
    sizes: bool,
    averaged: Option<Ewma>,
    bound: Option<f64>,
    link_octets: f64,
}

impl Law {
    /// Queueing delay per hop and the delay of nf hops, s.
    //= spec#6.1
    // "t_q = 0.5*(RTT/h - 8(S_data+S_ack)/b); FHD = nf*(t_q + 8 S_data/b)"
    fn delay(&mut self, trip: &Trip, h: f64, b: f64) -> (f64, f64) {
        let bits = |octets: f64| (octets + self.link_octets) * 8.0;
        let (data, ack) = match self.sizes {
            true => (bits(trip.data) / b, bits(trip.ack) / b),
            false => (0.0, 0.0),
        };
        let mut queueing = 0.5 * (trip.rtt / h - data - ack);
        if let Some(bound) = self.bound {
            queueing = queueing.clamp(0.0, bound);
        }
        if let Some(averaged) = &mut self.averaged {
            queueing = averaged.add(queueing);
        }
        let hops = if self.capped {
            self.hops.min(h)
        } else {
            self.hops
        };
        (queueing, hops * (queueing + data))
    }
}

impl Ap05 {
    fn new(p: &Params<'_>) -> Ap05 {
        let weight = p.real("tq_weight");
        let bound = p.span("tq_bound");
        Ap05 {
            adaptive: Adaptive::new(p),
            law: Law {
                hops: p.int("nf") as f64,
                capped: p.flag("ap_cap"),
                sizes: !p.flag("ap05_nosize"),
                averaged: (weight > 0.0).then(|| Ewma::new(weight)),
                bound: (bound > Span::ZERO).then(|| bound.as_secs_f64()),
                link_octets: p.int("link_octets") as f64,
            },
            bandwidth: p.optional_rate("bandwidth"),
            hop_rtt: UNKNOWN,
            queueing: UNKNOWN,
        }
    }

    /// Another way's delays say nothing of this one.
    fn on_way(&mut self, board: &Board) {
        let changed = self.adaptive.on_way(&board.site, board.path.hops);
        if let Some(averaged) = self.law.averaged.as_mut().filter(|_| changed) {
            averaged.clear();
        }
    }

    fn sample(&mut self, sample: &RttSample, board: &Board) {
        let Some(trip) = self.adaptive.trip(sample, board) else {
            return;
        };
        self.on_way(board);
        let h = board.path.hops.map_or(1.0, |h| f64::from(h.get()));
        let b = self.bandwidth.or(board.site.rate).unwrap_or(BANDWIDTH);
        let (queueing, delay) = self.law.delay(&trip, h, b.0 as f64);
        (self.hop_rtt, self.queueing) = (trip.rtt / h, queueing);
        self.adaptive.add(trip.rtt, delay);
    }
}

impl Component for Ap05 {
    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        match signal {
            Signal::Sent(sent) => return self.adaptive.left(sent, cx.now),
            Signal::Rtt(sample) => self.sample(sample, &cx.board),
            Signal::Route => self.on_way(&cx.board),
            Signal::Opened => {}
            _ => return,
        }
        let mss = cx.board.conn.mss;
        cx.write(|r: &mut RateFacts| self.adaptive.publish(r, mss));
    }

    fn permit(&self, want: &Want, _board: &Board, _now: Time) -> Permit {
        self.adaptive.permit(want)
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("interval_s", self.adaptive.interval());
        probe("fhd_s", self.adaptive.delay());
        probe("t_q_s", self.queueing);
        probe("cov", self.adaptive.variation());
        probe("hop_rtt_s", self.hop_rtt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroU8;
    use wifu_engine::signal::Sent;
    use wifu_engine::{Bench, Kind, Limit, Reason};
    use wifu_wire::Seq;

    /// A connection of segments of 1500 octets over `h` hops.
    fn opened(set: &[(&str, &str)], h: u8) -> Bench {
        let mut t = Bench::new(&AP05, set).unwrap();
        (t.board.conn.mss, t.board.conn.overhead) = (1448, 52);
        t.board.path.hops = NonZeroU8::new(h);
        t.signal(Signal::Opened);
        t
    }

    fn rtt(t: &mut Bench, ms: u64) {
        let (data_bytes, ack_bytes) = (1500, 52);
        let rtt = Span::MILLI * ms;
        t.signal(Signal::Rtt(RttSample {
            rtt,
            data_bytes,
            ack_bytes,
        }));
    }

    /// The first delay of nf hops, us.
    fn fhd(set: &[(&str, &str)], h: u8, ms: u64) -> f64 {
        let mut t = opened(set, h);
        rtt(&mut t, ms);
        t.probe("fhd_s").unwrap() * 1e6
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 0.005
    }

    //= spec#17
    #[test]
    fn the_test_vectors_of_the_four_hop_delay() {
        assert!(near(fhd(&[("bandwidth", "24 Mb/s")], 9, 40), 9854.22));
        assert!(
            near(fhd(&[("nf", "1")], 9, 40), 2463.56),
            "24 Mb/s is the default"
        );
        assert!(near(fhd(&[("bandwidth", "11 Mb/s")], 8, 60), 17106.18));
    }

    #[test]
    fn the_rate_of_the_link_counts_unless_the_parameter_says_otherwise() {
        let of = |set: &[(&str, &str)]| {
            let mut t = opened(set, 8);
            t.board.site.rate = Some(Rate(11_000_000));
            rtt(&mut t, 60);
            t.probe("fhd_s").unwrap() * 1e6
        };
        assert!(near(of(&[]), 17106.18));
        let set = [("bandwidth", "24 Mb/s")];
        assert!(near(of(&set), fhd(&[], 8, 60)));
    }

    #[test]
    fn the_variants_differ_by_what_they_name() {
        // 4/2 * 40 ms/9, and nothing of sizes.
        assert!(near(fhd(&[("ap05_nosize", "on")], 9, 40), 8888.89));
        // Two hops instead of four.
        let two = fhd(&[], 2, 40) / 2.0;
        assert!(near(fhd(&[("ap_cap", "on")], 2, 40), two));
        assert!(near(fhd(&[("ap_cap", "on")], 9, 40), 9854.22));
        // 112 octets more in both sizes cancel in data - ack: 4/2 * (RTT/h + 8 * 1448/b).
        assert!(near(fhd(&[("link_octets", "112")], 9, 40), 9854.22));
        let mut t = opened(&[("link_octets", "112")], 9);
        rtt(&mut t, 40);
        let queueing = 0.5 * (40e3 / 9.0 - 8.0 * 1776.0 / 24.0);
        assert!(near(t.probe("t_q_s").unwrap() * 1e6, queueing));
        // A queue of 10 ms per hop, and the data packet of 0.5 ms.
        let bound = [("tq_bound", "10 ms")];
        assert!(near(fhd(&bound, 1, 400), 4.0 * (10_000.0 + 500.0)));
    }

    #[test]
    fn queueing_is_averaged_with_a_weight() {
        let mut t = opened(&[("tq_weight", "0.5"), ("ap05_nosize", "on")], 1);
        rtt(&mut t, 40);
        rtt(&mut t, 80);
        assert!(near(t.probe("t_q_s").unwrap() * 1e6, 30_000.0));
    }

    #[test]
    fn the_interval_grows_with_the_variation_of_round_trips() {
        let mut t = opened(&[("ap05_nosize", "on"), ("nf", "2")], 1);
        for ms in [30, 32, 31, 35, 40] {
            rtt(&mut t, ms);
        }
        let (fhd, cov) = (t.probe("fhd_s").unwrap(), t.probe("cov").unwrap());
        assert!((cov - 0.120_159).abs() < 1e-6);
        let interval = t.probe("interval_s").unwrap();
        assert!((interval - fhd * (1.0 + 2.0 * cov)).abs() < 1e-8);
        assert_eq!(t.board.rate.gap.unwrap().as_secs_f64(), interval);
    }

    fn leaves(t: &mut Bench, kind: Kind) {
        t.signal(Signal::Sent(Sent {
            kind,
            reason: Reason::First,
            acks: true,
            seq: Seq(0),
            bytes: 1448,
            late: Span::ZERO,
        }));
    }

    fn permit(t: &Bench, kind: Kind) -> Permit {
        let (bytes, least) = (1448, 1448);
        t.permit(&Want { kind, bytes, least })
    }

    //= spec#16.8
    #[test]
    fn data_in_turn_wait_one_interval_and_what_a_recovery_turns_on_does_not() {
        let mut t = opened(&[], 4);
        assert_eq!(permit(&t, Kind::New).not_before, Time::ZERO, "the first");
        t.now = Time(1_000_000_000);
        leaves(&mut t, Kind::New);
        // Nothing was timed: 50 ms.
        for kind in [Kind::New, Kind::Resend] {
            let due = permit(&t, kind);
            assert_eq!(
                due,
                Permit::at(Time(1_050_000_000), Limit::Pace),
                "{kind:?}"
            );
        }
        for kind in [Kind::Rescue, Kind::Control, Kind::Ack, Kind::Probe] {
            assert_eq!(permit(&t, kind), Permit::OPEN, "{kind:?}");
        }
        // What waits, waits by the interval as it is now: 4/2 * (40 ms/4 + ...).
        rtt(&mut t, 40);
        let due = permit(&t, Kind::New).not_before;
        assert!((20_900_000..21_000_000).contains(&(due - Time(1_000_000_000)).0));
        // A rescue leaves the clock alone.
        leaves(&mut t, Kind::Rescue);
        assert_eq!(permit(&t, Kind::New).not_before, due);
    }

    #[test]
    fn in_a_queue_the_rescue_waits_too() {
        let mut t = opened(&[("retransmissions", "behind-window")], 4);
        assert!(t.board.rate.behind);
        leaves(&mut t, Kind::New);
        let turn = Permit::at(Time(50_000_000), Limit::Pace);
        assert_eq!(permit(&t, Kind::Rescue), turn);
        t.now = Time(60_000_000);
        leaves(&mut t, Kind::Rescue);
        assert_eq!(permit(&t, Kind::New).not_before, Time(110_000_000));
    }

    #[test]
    fn a_path_of_another_length_is_another_path() {
        for weight in ["0", "0.99"] {
            let mut t = opened(&[("ap05_nosize", "on"), ("tq_weight", weight)], 3);
            rtt(&mut t, 30);
            rtt(&mut t, 60);
            t.board.path.hops = NonZeroU8::new(5);
            rtt(&mut t, 100);
            assert_eq!(t.probe("cov"), Some(0.0));
            assert!(
                near(t.probe("fhd_s").unwrap() * 1e6, 40_000.0),
                "2 * 100 ms / 5, {weight}"
            );
        }
    }
}
