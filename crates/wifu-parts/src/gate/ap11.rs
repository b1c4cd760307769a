//! The gate of TCP-AP as of 2011: data leave one interval after another, and the interval is the
//! time that a packet takes until it is out of interference, which is one hop beyond where the
//! transmission of this node is sensed; longer when round trips vary.
//!
//! Hears segments, `opened`, `rtt`, `route` and `sent`; says nothing; writes `rate`; gates data in
//! turn by time. Source: S. M. ElRakabawy and C. Lindemann, "A Practical Adaptive Pacing Scheme for
//! TCP in Multihop Wireless Networks", 2011. What the paper leaves open is decided in Behaviour
//! D12, D13 and D14: a path wholly inside the range, queueing delays below zero, link layers of
//! other rates. The handshake's round trip is the first sample and in the history, too; without one
//! the interval is 50 ms. While the hops of the path are not known it counts one. The range is
//! estimated by `ap11/range.rs`.

mod range;

use core::num::NonZeroU8;
use range::CarrierSense;
use wifu_engine::board::RateFacts;
use wifu_engine::kit::{ADAPTIVE_PARAMS, Adaptive, Trip, UNKNOWN};
use wifu_engine::signal::RttSample;
use wifu_engine::{
    Admit, Board, Component, Cx, Descriptor, Fact, Facts, ParamSpec, Params, Permit, Preference,
    Role, Segment, Signal, Want,
};
use wifu_wire::{Neighbour, Rate, Time};

/// Pacing by the out-of-interference delay.
pub static AP11: Descriptor = Descriptor {
    name: "ap11",
    role: Role::Gate,
    doc: "TCP-AP of 2011: data leave one by one, as far apart as a packet takes until it is one hop \
          beyond where this node is sensed, and farther when round trips vary. Counts one hop while \
          the path's are not known.",
    cites: &[
        "ElRakabawy and Lindemann, A Practical Adaptive Pacing Scheme for TCP, 2011",
        "Behaviour 6, 6.2, 16.1",
    ],
    params: &PARAMS,
    probes: &[
        "interval_s",
        "oid_s",
        "t_q_s",
        "t_lld_s",
        "t_lla_s",
        "cov",
        "h_cs",
        "hop_rtt_s",
        "p_rx_dbm",
        "l1_db",
        "hops",
    ],
    wants: Facts::CONN.with(Facts::PATH),
    writes: Facts::RATE,
    requires_either: &[(Fact::RouteHops, Facts::PATH)],
    prefers: &[
        Preference {
            fact: Fact::RouteHops,
            param: None,
            then: "it counts hops by the TTL of what arrives",
        },
        Preference {
            fact: Fact::SiteRate,
            param: Some("bandwidth"),
            then: "it takes links of 11 Mb/s",
        },
        Preference {
            fact: Fact::Rssi,
            param: None,
            then: "H_cs is 3",
        },
        Preference {
            fact: Fact::NextHop,
            param: None,
            then: "H_cs is 3, and a new next hop begins no new estimate",
        },
        Preference {
            fact: Fact::Transmitter,
            param: None,
            then: "H_cs is 3, for it does not know what comes from the next hop",
        },
        Preference {
            fact: Fact::Sense,
            param: Some("sense_dbm"),
            then: "H_cs is 3",
        },
        Preference {
            fact: Fact::TxPower,
            param: Some("tx_power_dbm"),
            then: "l1_db is not reported",
        },
    ],
    hears: &[
        ("segment", &[]),
        ("opened", &[]),
        ("rtt", &[]),
        ("route", &[]),
        ("sent", &[]),
    ],
    needs_with: &[
        // It lets what the window allowed leave first.
        (
            "retransmissions",
            "behind-window",
            "reliable",
            &["cumulative"],
        ),
        ("ap_hops", "ttl", "watch", &["ttl-hops"]),
    ],
    hooks: &["segment", "permit"],
    build: |p| Ok(Box::new(Ap11::new(p))),
    ..Descriptor::EMPTY
};

const OWN: [ParamSpec; 8] = [
    ParamSpec::optional_rate(
        "bandwidth",
        Rate(1_000),
        Rate(10_000_000_000),
        "Data rate of the links, b; auto: that of the link to the next hop, or 11 Mb/s where nobody \
         tells it (that of the testbed).",
    ),
    ParamSpec::text(
        "ap_hops",
        "route",
        &["route", "ttl"],
        "Whence the hops of the path: of the routing table, by TTL if it does not tell them; or of \
         TTL alone.",
    ),
    ParamSpec::text(
        "ap_phy",
        "auto",
        &["auto", "802.11b", "802.11a"],
        "Slots, contention windows and the rate of control frames; auto: by the bandwidth.",
    ),
    ParamSpec::text(
        "ap_ll",
        "formula",
        &["formula", "paper"],
        "Delays of the link layer: midway between the bounds of equations 9 and 10; or 3.9 ms for \
         data and 2.4 ms for acknowledgements whatever the rate, as printed.",
    ),
    ParamSpec::int(
        "ap_attempts",
        4,
        1,
        64,
        "Attempts of the link layer per frame (4: the short retry limit of TCP-AP IV.E).",
    ),
    ParamSpec::flag(
        "ap_rts",
        false,
        "The link layer reserves the medium (RTS/CTS).",
    ),
    ParamSpec::flag(
        "ap_cap",
        true,
        "No more hops than the path has; off: H_cs + 1 always, as printed.",
    ),
    ParamSpec::flag(
        "oid_lld",
        false,
        "The delay has that of the link layer for data in it; off: equation 14 as printed.",
    ),
];

const PARAMS: [ParamSpec; 23] = {
    let mut all = [OWN[0]; 23];
    let parts: [&[ParamSpec]; 3] = [&ADAPTIVE_PARAMS, &OWN, &range::PARAMS];
    let (mut at, mut i) = (0, 0);
    while i < parts.len() {
        let mut k = 0;
        while k < parts[i].len() {
            all[at] = parts[i][k];
            (at, k) = (at + 1, k + 1);
        }
        i += 1;
    }
    assert!(at == all.len());
    all
};

/// Of the testbed.
const BANDWIDTH: Rate = Rate(11_000_000);

/// What the link layer adds to a packet: header 24, check 4, LLC 8 octets.
const FRAMING: f64 = 36.0;

/// t_q is taken for so much at the most, s (TCP-AP's ns-2 agent).
const LONGEST: f64 = 0.5;

/// What the link layer does with a frame beside transmitting it once.
struct LinkLayer {
    phy: Option<Phy>,
    attempts: u8,
    rts: bool,
    as_printed: bool,
}

/// Of a standard: the rate of control frames, b/s, the slot, s, and the mean contention window of
/// the retransmissions, slots.
#[derive(Clone, Copy)]
struct Phy {
    base: f64,
    slot: f64,
    window: f64,
}

const B: Phy = Phy {
    base: 1e6,
    slot: 20e-6,
    window: (31.0 + 63.0 + 127.0) / 3.0,
};
const A: Phy = Phy {
    base: 6e6,
    slot: 9e-6,
    window: (15.0 + 31.0 + 63.0) / 3.0,
};

/// Octets of an acknowledgement of the link layer, of RTS and of CTS.
const ACK_LL: f64 = 14.0;
const RTS_CTS: f64 = 20.0 + 14.0;

/// S_ACK of the bounds (Behaviour D14).
const SHORT: f64 = 30.0;

impl LinkLayer {
    fn phy(&self, b: Rate) -> Phy {
        let by_rate = match b.0 {
            1_000_000 | 2_000_000 | 5_500_000 | 11_000_000 => B,
            _ => A,
        };
        self.phy.unwrap_or(by_rate)
    }

    /// Shortest and longest delay of a packet, s.
    //= spec#6.2
    //= tcp-ap#equation-9
    // "LLmin = 8*14/b_base ; LLmax(S) = LLmin + 3*(8S/b + cW*t_slot)"
    fn bounds(&self, octets: f64, b: Rate) -> (f64, f64) {
        let phy = self.phy(b);
        let reserved = if self.rts { RTS_CTS } else { 0.0 };
        let least = 8.0 * (ACK_LL + reserved) / phy.base;
        let again = f64::from(self.attempts - 1);
        let each = 8.0 * octets / b.0 as f64 + phy.window * phy.slot;
        (least, least + again * each)
    }

    /// t_LLD and t_LLA, s, of segments with `payload` octets.
    fn delays(&self, payload: u32, b: Rate) -> (f64, f64) {
        if self.as_printed {
            return (3.9e-3, 2.4e-3);
        }
        let midway = |(least, most): (f64, f64)| (least + most) / 2.0;
        let data = self.bounds(f64::from(payload), b);
        (midway(data), midway(self.bounds(SHORT, b)))
    }
}

/// How the delay until a packet is out of interference is made of a round trip.
struct Law {
    capped: bool,
    with_link: bool,
}

impl Law {
    /// t_q and OID, s.
    //= spec#6.2
    //= tcp-ap#equation-13
    //= tcp-ap#equation-14
    fn delay(&self, trip: &Trip, (h, range): (u8, u8), b: Rate, ll: (f64, f64)) -> (f64, f64) {
        let time = |octets: f64| (octets + FRAMING) * 8.0 / b.0 as f64;
        let (data, ack) = (time(trip.data), time(trip.ack));
        let per_hop = trip.rtt / f64::from(h);
        let queueing = 0.5 * (per_hop - data - ack - ll.0 - ll.1);
        let queueing = queueing.clamp(0.0, LONGEST);
        let beyond = range.saturating_add(1);
        let hops = if self.capped { beyond.min(h) } else { beyond };
        let link = if self.with_link { ll.0 } else { 0.0 };
        (queueing, f64::from(hops) * (queueing + data + link))
    }
}

struct Ap11 {
    adaptive: Adaptive,
    law: Law,
    link: LinkLayer,
    sense: CarrierSense,
    bandwidth: Option<Rate>,
    by_ttl: bool,
    /// Whose power is averaged.
    next_hop: Option<Neighbour>,
    seen: Seen,
}

/// Of the latest sample, for those who watch.
struct Seen {
    queueing: f64,
    link: (f64, f64),
    hop_rtt: f64,
    range: f64,
    loss: f64,
    hops: f64,
}

impl Ap11 {
    fn new(p: &Params<'_>) -> Ap11 {
        Ap11 {
            adaptive: Adaptive::new(p),
            law: Law {
                capped: p.flag("ap_cap"),
                with_link: p.flag("oid_lld"),
            },
            link: LinkLayer {
                phy: match p.text("ap_phy") {
                    "802.11b" => Some(B),
                    "802.11a" => Some(A),
                    _ => None,
                },
                attempts: p.int("ap_attempts") as u8,
                rts: p.flag("ap_rts"),
                as_printed: p.text("ap_ll") == "paper",
            },
            sense: CarrierSense::new(p),
            bandwidth: p.optional_rate("bandwidth"),
            by_ttl: p.text("ap_hops") == "ttl",
            next_hop: None,
            seen: Seen {
                queueing: UNKNOWN,
                link: (UNKNOWN, UNKNOWN),
                hop_rtt: UNKNOWN,
                range: UNKNOWN,
                loss: UNKNOWN,
                hops: UNKNOWN,
            },
        }
    }

    fn hops(&self, board: &Board) -> Option<NonZeroU8> {
        let routed = board.site.route_hops.filter(|_| !self.by_ttl);
        routed.or(board.path.hops)
    }

    fn on_way(&mut self, board: &Board) {
        if self.next_hop != board.site.next_hop {
            self.sense.forget();
            self.next_hop = board.site.next_hop;
        }
        let hops = self.hops(board);
        self.adaptive.on_way(&board.site, hops);
    }

    fn sample(&mut self, sample: &RttSample, board: &Board) {
        let Some(trip) = self.adaptive.trip(sample, board) else {
            return;
        };
        self.on_way(board);
        let h = self.hops(board).map_or(1, NonZeroU8::get);
        let b = self.bandwidth.or(board.site.rate).unwrap_or(BANDWIDTH);
        let range = self.sense.range(h, board.site.sense_dbm);
        let ll = self.link.delays(board.conn.mss, b);
        let (queueing, delay) = self.law.delay(&trip, (h, range), b, ll);
        self.adaptive.add(trip.rtt, delay);
        self.seen = Seen {
            queueing,
            link: ll,
            hop_rtt: trip.rtt / f64::from(h),
            range: f64::from(range),
            loss: self.sense.loss(board.site.tx_power_dbm).unwrap_or(UNKNOWN),
            hops: f64::from(h),
        };
    }
}

impl Component for Ap11 {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let next = cx.board.site.next_hop;
        if self.next_hop != next {
            self.on_way(&cx.board);
        }
        if let Some(dbm) = seg.frame.rssi_dbm
            && next.is_some()
            && seg.frame.transmitter == next
        {
            self.sense.hear(dbm, cx.now);
        }
        Admit::Pass
    }

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
        probe("oid_s", self.adaptive.delay());
        probe("t_q_s", self.seen.queueing);
        probe("t_lld_s", self.seen.link.0);
        probe("t_lla_s", self.seen.link.1);
        probe("cov", self.adaptive.variation());
        probe("h_cs", self.seen.range);
        probe("hop_rtt_s", self.seen.hop_rtt);
        probe("p_rx_dbm", self.sense.received().unwrap_or(UNKNOWN));
        probe("l1_db", self.seen.loss);
        probe("hops", self.seen.hops);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroU16;
    use wifu_engine::Bench;
    use wifu_wire::Span;

    const LAW: Law = Law {
        capped: true,
        with_link: false,
    };

    /// Of the test vectors, s.
    const LL: (f64, f64) = (3915e-6, 2355e-6);

    fn trip(ms: f64) -> Trip {
        Trip {
            rtt: ms / 1e3,
            data: 1512.0,
            ack: 52.0,
        }
    }

    /// t_q and OID, us.
    fn of(law: &Law, ms: f64, h: u8, range: u8) -> (f64, f64) {
        let (queueing, oid) = law.delay(&trip(ms), (h, range), BANDWIDTH, LL);
        (queueing * 1e6, oid * 1e6)
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 0.005
    }

    //= spec#17
    // ap11
    #[test]
    fn the_test_vectors_of_the_out_of_interference_delay() {
        let (queueing, oid) = of(&LAW, 60.0, 6, 3);
        assert!(
            near(queueing, 1270.09) && near(oid, 9583.64),
            "{queueing} {oid}"
        );
        let (queueing, oid) = of(&LAW, 70.0, 9, 3);
        assert!(
            near(queueing, 158.98) && near(oid, 5139.19),
            "{queueing} {oid}"
        );
        let (_, oid) = of(&LAW, 20.0, 2, 2);
        assert!(near(oid, 4791.82), "{oid}");
    }

    #[test]
    fn queueing_is_clamped_and_the_path_caps_the_hops() {
        assert_eq!(of(&LAW, 1.0, 9, 3).0, 0.0);
        assert_eq!(of(&LAW, 20_000.0, 2, 2).0, 500_000.0);
        let printed = Law {
            capped: false,
            with_link: false,
        };
        let (capped, uncapped) = (of(&LAW, 20.0, 2, 2).1, of(&printed, 20.0, 2, 2).1);
        assert!(near(uncapped, capped * 1.5));
        let with_link = Law {
            capped: true,
            with_link: true,
        };
        let more = of(&with_link, 60.0, 6, 3).1 - of(&LAW, 60.0, 6, 3).1;
        assert!(near(more, 4.0 * 3915.0));
    }

    fn link(set: &[(&str, &str)]) -> LinkLayer {
        let set = set.iter().copied();
        let values = wifu_engine::params::values(&PARAMS, set).unwrap();
        Ap11::new(&Params {
            part: "ap11",
            values: &values,
            words: &[],
            notes: &[],
            exts: &[],
        })
        .link
    }

    //= spec#15.3
    // AP-EQ
    #[test]
    fn the_bounds_of_the_link_layer_are_the_printed_ones() {
        let l = link(&[]);
        let ms = |(least, most): (f64, f64)| [least * 1e3, most * 1e3];
        let within = |a: [f64; 2], b: [f64; 2]| (0..2).all(|i| (a[i] - b[i]).abs() < 0.01);
        assert!(within(ms(l.bounds(1460.0, BANDWIDTH)), [0.11, 7.72]));
        assert!(within(ms(l.bounds(30.0, BANDWIDTH)), [0.11, 4.60]));
        assert!(within(ms(l.delays(1460, BANDWIDTH)), [3.915, 2.355]));
        let printed = link(&[("ap_ll", "paper")]);
        assert_eq!(printed.delays(1460, Rate(54_000_000)), (3.9e-3, 2.4e-3));
    }

    #[test]
    fn the_bounds_follow_rate_standard_attempts_and_reservation() {
        let us = |set: &[(&str, &str)], b: u64| {
            let (least, most) = link(set).bounds(1500.0, Rate(b));
            [(least * 1e9) as i64, (most * 1e9) as i64]
        };
        // 8 * 14 / 6 Mb/s; three times 500 us and 36.33 slots of 9 us.
        assert_eq!(us(&[], 24_000_000), [18_666, 2_499_666]);
        assert_eq!(
            us(&[("ap_phy", "802.11b")], 24_000_000),
            [112_000, 6_032_000]
        );
        let once = us(&[("ap_attempts", "1")], 24_000_000);
        assert_eq!(once, [18_666, 18_666]);
        let reserved = us(&[("ap_rts", "on"), ("ap_attempts", "1")], 11_000_000);
        assert_eq!(reserved, [384_000, 384_000]);
    }

    const NEXT: Neighbour = Neighbour {
        device: NonZeroU16::MIN,
        address: [2, 0, 0, 0, 0, 2],
    };

    /// Four hops by the routing table, of which the first is -78 dBm, sensed down to -90.
    fn opened(set: &[(&str, &str)]) -> Bench {
        let mut t = Bench::new(&AP11, set).unwrap();
        (t.board.conn.mss, t.board.conn.overhead) = (1460, 52);
        t.board.site.next_hop = Some(NEXT);
        t.board.site.route_hops = NonZeroU8::new(4);
        t.board.site.rate = Some(BANDWIDTH);
        t.board.site.sense_dbm = Some(-90);
        t.signal(Signal::Opened);
        t
    }

    fn rtt(t: &mut Bench, ms: u64) {
        t.signal(Signal::Rtt(RttSample {
            rtt: Span::MILLI * ms,
            data_bytes: 1512,
            ack_bytes: 52,
        }));
    }

    fn hears(t: &mut Bench, dbm: i8, from: Option<Neighbour>) {
        let mut frame = wifu_wire::FrameFacts::NONE;
        (frame.rssi_dbm, frame.transmitter) = (Some(dbm), from);
        let _ = t.segment_by(&wifu_wire::Head::default(), &[], &frame);
    }

    #[test]
    fn only_the_next_hop_tells_how_far_this_node_is_sensed() {
        let mut t = opened(&[]);
        let other = Neighbour {
            address: [2, 0, 0, 0, 0, 3],
            ..NEXT
        };
        hears(&mut t, -40, Some(other));
        hears(&mut t, -40, None);
        rtt(&mut t, 60);
        assert_eq!(t.probe("h_cs"), Some(3.0), "nothing was heard");
        assert_eq!(t.probe("p_rx_dbm"), Some(UNKNOWN));
        hears(&mut t, -86, Some(NEXT));
        rtt(&mut t, 60);
        assert_eq!(
            (t.probe("h_cs"), t.probe("p_rx_dbm")),
            (Some(2.0), Some(-86.0))
        );
        // -40 dBm are sensed over all four hops.
        let mut t = opened(&[]);
        hears(&mut t, -40, Some(NEXT));
        rtt(&mut t, 60);
        assert_eq!(t.probe("h_cs"), Some(4.0));
    }

    #[test]
    fn the_interval_is_that_of_the_law() {
        let mut t = opened(&[]);
        rtt(&mut t, 60);
        let ll = link(&[]).delays(1460, BANDWIDTH);
        let (queueing, oid) = LAW.delay(&trip(60.0), (4, 3), BANDWIDTH, ll);
        assert_eq!(t.probe("t_q_s"), Some(queueing));
        assert_eq!(t.probe("oid_s"), Some(oid));
        assert_eq!(
            (t.probe("t_lld_s"), t.probe("t_lla_s")),
            (Some(ll.0), Some(ll.1))
        );
        assert_eq!(t.probe("hop_rtt_s"), Some(0.015));
        assert_eq!(t.board.rate.gap, Some(Span::from_secs_f64(oid)));
    }

    //= spec#6.2
    #[test]
    fn a_change_of_the_route_begins_anew() {
        let mut t = opened(&[]);
        for ms in [40, 60, 80] {
            hears(&mut t, -86, Some(NEXT));
            rtt(&mut t, ms);
        }
        assert!(t.probe("cov").unwrap() > 0.3);
        let interval = t.probe("interval_s");
        // Another rate of the link is the same way.
        t.board.site.rate = Some(Rate(5_500_000));
        t.signal(Signal::Route);
        assert!(t.probe("oid_s").unwrap() < 1.0);
        t.board.site.rate = Some(BANDWIDTH);
        t.board.site.route_hops = NonZeroU8::new(6);
        t.signal(Signal::Route);
        assert_eq!(
            (t.probe("oid_s"), t.probe("interval_s")),
            (Some(UNKNOWN), interval)
        );
        assert_eq!(
            t.probe("p_rx_dbm"),
            Some(-86.0),
            "the neighbour is the same"
        );
        rtt(&mut t, 60);
        let ll = link(&[]).delays(1460, BANDWIDTH);
        let oid = LAW.delay(&trip(60.0), (6, 2), BANDWIDTH, ll).1;
        assert_eq!((t.probe("oid_s"), t.probe("cov")), (Some(oid), Some(0.0)));
        assert_eq!(
            t.probe("interval_s").map(|s| (s * 1e9) as u64),
            Some((oid * 1e9) as u64)
        );
        t.board.site.next_hop = Some(Neighbour {
            address: [2, 0, 0, 0, 0, 9],
            ..NEXT
        });
        t.signal(Signal::Route);
        assert_eq!(
            (t.probe("oid_s"), t.probe("p_rx_dbm")),
            (Some(UNKNOWN), Some(UNKNOWN))
        );
    }

    #[test]
    fn hops_are_those_of_the_routing_table_or_by_ttl() {
        let hops = |set: &[(&str, &str)], routed: u8, by_ttl: u8| {
            let mut t = opened(set);
            t.board.site.route_hops = NonZeroU8::new(routed);
            t.board.path.hops = NonZeroU8::new(by_ttl);
            rtt(&mut t, 60);
            t.probe("hops")
        };
        assert_eq!(hops(&[], 4, 7), Some(4.0));
        assert_eq!(hops(&[], 0, 7), Some(7.0));
        assert_eq!(hops(&[("ap_hops", "ttl")], 4, 7), Some(7.0));
        assert_eq!(hops(&[], 0, 0), Some(1.0));
    }
}
