//! A gate that paces by what its node measures: it knows no rate, no range of carrier sense and no
//! path loss. Data leave one after another, as far apart as a packet alone takes over the own hop,
//! times a number of hops that is learned: the packets before must be out of the way of this one.
//!
//! Whether they are shows where packets pass: at the own hop by the driver's reports, at the next
//! one by hearing it forward what was handed to it. Once in a while a packet leaves after a pause
//! in which those before are gone. What it takes, and how often it is sent, is what noise and the
//! traffic of others do; what other packets cost beyond it is this flow's own doing, and the number
//! of hops follows that until they cost as much beyond as is meant. The traffic of others
//! makes a packet alone take longer, and so widens the interval in proportion: flows make room for
//! each other.
//!
//! Hears `opened`, `route`, `sent`, `status` and what is overheard; says nothing; writes `rate`;
//! gates data in turn by time. How much round trips vary does not matter, so that none that spans
//! a timeout holds a sender back. Source: the idea of pacing by the time until a packet is out of
//! interference is that of S. M. ElRakabawy and C. Lindemann, "A Practical Adaptive Pacing Scheme
//! for TCP in Multihop Wireless Networks", 2011; the estimator is WiFu's own. Where the driver
//! reports nothing, it does not pace. Estimates of a hop are in `learned/hop.rs`.

mod hop;

use hop::{Hop, Passed};
use wifu_engine::board::RateFacts;
use wifu_engine::kit::{Pace, UNKNOWN};
use wifu_engine::math::exp;
use wifu_engine::signal::{Sent, Status};
use wifu_engine::{
    Board, Component, Cx, Descriptor, Fact, Facts, Limit, ParamSpec, Params, Permit, Preference,
    Role, Segment, Signal, Want,
};
use wifu_wire::{Class, Neighbour, Rate, Seq, Span, Time};

/// Pacing by what is measured.
pub static LEARNED: Descriptor = Descriptor {
    name: "learned",
    role: Role::Gate,
    doc: "Data leave one by one, as far apart as a packet takes over so many hops that those before \
          do not disturb it: both are learned from the driver's reports and from hearing the next \
          hop forward, nothing is known beforehand. Where the driver reports nothing it does not \
          pace.",
    cites: &[
        "ElRakabawy and Lindemann, A Practical Adaptive Pacing Scheme for TCP, 2011 (the idea)",
        "WiFu (the estimator)",
    ],
    params: &PARAMS,
    probes: &[
        "interval_s",
        "hops",
        "service_s",
        "shortest_s",
        "beyond",
        "next_service_s",
        "next_beyond",
    ],
    wants: Facts::CONN.with(Facts::PATH).with(Facts::RTT),
    writes: Facts::RATE,
    prefers: &[
        Preference {
            fact: Fact::Status,
            param: None,
            then: "it does not pace, and the window alone holds data back",
        },
        Preference {
            fact: Fact::Overheard,
            param: None,
            then: "it judges by its own hop alone",
        },
        Preference {
            fact: Fact::Transmitter,
            param: None,
            then: "it judges by its own hop alone",
        },
        Preference {
            fact: Fact::RouteHops,
            param: None,
            then: "it begins with the hops that TTLs tell",
        },
        Preference {
            fact: Fact::NextHop,
            param: None,
            then: "it judges by its own hop alone, and another way is none to it",
        },
    ],
    hears: &[
        ("opened", &[]),
        ("route", &[]),
        ("sent", &[]),
        ("status", &[]),
    ],
    hooks: &["overheard", "permit"],
    build: |p| Ok(Box::new(Learned::new(p))),
    ..Descriptor::EMPTY
};

const PARAMS: [ParamSpec; 7] = [
    ParamSpec::real(
        "learn_first",
        4.0,
        1.0,
        64.0,
        "Hops between two packets before anything is learned, or as many as the path has if these \
         are fewer.",
    ),
    ParamSpec::real(
        "learn_excess",
        0.6,
        0.0,
        8.0,
        "What a packet may cost beyond one alone, in shortest times of the hop: more hops are put \
         between packets above it, fewer below.",
    ),
    ParamSpec::real(
        "learn_wait",
        0.25,
        0.0,
        1.0,
        "How much of a packet's cost its time is; the rest are its attempts. Waiting for what is \
         sensed costs time alone, what is not sensed costs attempts.",
    ),
    ParamSpec::real(
        "learn_gain",
        0.02,
        0.0,
        1.0,
        "By how much a packet changes the hops, per shortest time too much or too little.",
    ),
    ParamSpec::real(
        "learn_pause",
        12.0,
        2.0,
        256.0,
        "A packet counts as alone after so many shortest times in which none of its flow left, and \
         no sooner than after a smoothed round trip.",
    ),
    ParamSpec::real(
        "learn_share",
        0.05,
        0.001,
        0.5,
        "Share of the time that is given to such pauses.",
    ),
    ParamSpec::real(
        "learn_weight",
        0.8,
        0.0,
        0.999,
        "Weight of the old averages when a packet alone has passed.",
    ),
];

/// Packets that are remembered until they were heard from the next hop.
const PLACES: usize = 32;

/// The most hops between two packets while those of the path are not known.
const FARTHEST: f64 = 64.0;

/// A packet and its acknowledgement are gone after so many times the path's hops.
const BOTH_WAYS: f64 = 2.0;

/// A cost beyond this counts as this, shortest times: one packet is one voice.
const LOUDEST: f64 = 4.0;

/// One that left later than so many intervals after the last did not leave by them, and teaches
/// nothing about shorter ones.
const IN_TIME: f64 = 1.5;

/// Packets after which the first one leaves alone.
const SOON: u32 = 8;

/// A packet that left.
#[derive(Clone, Copy)]
struct Left {
    seq: Seq,
    alone: bool,
    in_time: bool,
    /// The next hop has it since then.
    arrived: Option<Time>,
    /// When the next hop was last heard to send it, and how often.
    heard: Option<(Time, u32)>,
}

struct Learned {
    first: f64,
    excess: f64,
    gain: f64,
    pause: f64,
    share: f64,
    own: Hop,
    next: Hop,
    next_hop: Option<Neighbour>,
    /// Between two packets, and the most that can be.
    hops: f64,
    most: f64,
    /// The smoothed round trip, s.
    trip: f64,
    pace: Pace,
    /// Packets until one leaves alone.
    until: u32,
    /// When data last left.
    last: Option<Time>,
    left: [Option<Left>; PLACES],
    place: usize,
}

impl Learned {
    fn new(p: &Params<'_>) -> Learned {
        let hop = Hop::new(p.real("learn_weight"), p.real("learn_wait"));
        Learned {
            first: p.real("learn_first"),
            excess: p.real("learn_excess"),
            gain: p.real("learn_gain"),
            pause: p.real("learn_pause"),
            share: p.real("learn_share"),
            own: hop.clone(),
            next: hop,
            next_hop: None,
            hops: p.real("learn_first"),
            most: FARTHEST,
            trip: 0.0,
            pace: Pace::default(),
            until: SOON,
            last: None,
            left: [None; PLACES],
            place: 0,
        }
    }

    /// Another way, or the first: nothing is known of it but how many hops it has.
    fn begin(&mut self, board: &Board) {
        let hops = board.site.route_hops.or(board.path.hops);
        let hops = hops.map(|h| f64::from(h.get()));
        self.hops = hops.map_or(self.first, |h| h.min(self.first));
        self.most = hops.map_or(FARTHEST, |h| BOTH_WAYS * h);
        self.next_hop = board.site.next_hop;
        self.own.forget();
        self.next.forget();
        self.left = [None; PLACES];
        self.until = SOON;
    }

    /// Between two packets, s; nothing while no packet was reported.
    fn interval(&self) -> Option<f64> {
        Some(self.own.alone()? * self.hops)
    }

    /// The pause after which a packet is alone, s: those before are through.
    fn alone_after(&self) -> Option<f64> {
        Some((self.own.shortest()? * self.pause).max(self.trip))
    }

    /// Packets until one is to leave alone, so that what pauses take beside the interval is no more
    /// than their share.
    fn spell(&self) -> u32 {
        let (Some(pause), Some(interval)) = (self.alone_after(), self.interval()) else {
            return SOON;
        };
        let more = (pause - interval) / (self.share * interval);
        more.clamp(f64::from(SOON), 1e4) as u32
    }

    /// A packet cost so much beyond one alone. `share` is how much of the judgement its hop has.
    fn learn(&mut self, beyond: f64, in_time: bool, share: f64) {
        let over = beyond.min(LOUDEST) - self.excess;
        if over > 0.0 || in_time {
            let hops = self.hops * exp(self.gain * share * over);
            self.hops = hops.clamp(1.0, self.most);
        }
    }

    /// The time to the next packet.
    fn set_gap(&mut self) {
        let Some(interval) = self.interval() else {
            return;
        };
        let pause = self.alone_after().filter(|_| self.until == 0);
        let gap = interval.max(pause.unwrap_or(0.0));
        self.pace.set_gap(Span::from_secs_f64(gap));
    }

    fn leaves(&mut self, sent: &Sent, now: Time) {
        if !sent.kind.is_data() || sent.bytes == 0 {
            return;
        }
        let since = self.last.map(|last| (now - last).as_secs_f64());
        let beyond = |limit: f64| since.is_none_or(|s| s >= limit);
        let alone = match (self.last, self.alone_after()) {
            (None, _) => true,
            (_, Some(pause)) => beyond(0.95 * pause),
            (_, None) => false,
        };
        let in_time = self.interval().is_some_and(|i| !beyond(IN_TIME * i));
        // What goes again is another packet: its number's first one tells nothing any more.
        for old in &mut self.left {
            *old = old.filter(|l| l.seq != sent.seq);
        }
        self.place = (self.place + 1) % PLACES;
        self.settle(self.place);
        self.left[self.place] = Some(Left {
            seq: sent.seq,
            alone,
            in_time,
            arrived: None,
            heard: None,
        });
        self.last = Some(now);
        self.until = if alone {
            self.spell()
        } else {
            self.until.saturating_sub(1)
        };
        self.set_gap();
        self.pace.sent(now, sent.late);
    }

    fn find(&mut self, seq: Seq) -> Option<usize> {
        let is = |l: &Option<Left>| l.is_some_and(|l| l.seq == seq);
        self.left.iter().position(is)
    }

    fn reported(&mut self, status: &Status, now: Time) {
        if status.class != Class::Data {
            return;
        }
        let (Some(i), Some(delay)) = (self.find(status.number), status.delay) else {
            return;
        };
        let Some(left) = &mut self.left[i] else {
            return;
        };
        left.arrived = status.delivered.then_some(now);
        let (alone, in_time) = (left.alone, left.in_time);
        let beyond = self.own.add(Passed {
            took: delay.as_secs_f64(),
            attempts: f64::from(status.attempts),
            alone,
        });
        let both = self.next.shortest().is_some();
        let share = if both { 0.5 } else { 1.0 };
        match beyond {
            Some(beyond) => self.learn(beyond, in_time, share),
            // Intervals are so long that all packets are alone: this cost nothing beyond it.
            None if alone && in_time => self.learn(0.0, true, share),
            None => {}
        }
        self.set_gap();
    }

    /// The next hop sends a packet that it has from here, for the first time or again.
    fn forwarded(&mut self, seq: Seq, now: Time) {
        let Some(i) = self.find(seq) else { return };
        if let Some(left) = &mut self.left[i]
            && left.arrived.is_some()
        {
            let times = left.heard.map_or(0, |(_, n)| n);
            left.heard = Some((now, times + 1));
        }
        // It is through with those before.
        for other in (0..PLACES).filter(|k| *k != i) {
            self.settle(other);
        }
        self.set_gap();
    }

    /// No more is heard of a packet: what it took at the next hop.
    fn settle(&mut self, i: usize) {
        let Some(left) = &mut self.left[i] else {
            return;
        };
        let (Some(from), Some((until, times))) = (left.arrived, left.heard.take()) else {
            return;
        };
        let (alone, in_time) = (left.alone, left.in_time);
        let beyond = self.next.add(Passed {
            took: (until - from).as_secs_f64(),
            attempts: f64::from(times),
            alone,
        });
        if let Some(beyond) = beyond {
            self.learn(beyond, in_time, 0.5);
        }
    }

    fn publish(&self, cx: &mut Cx<'_>) {
        let interval = self.interval();
        let bits = f64::from(cx.board.conn.mss) * 8.0;
        cx.write(|r: &mut RateFacts| {
            r.gap = interval.map(Span::from_secs_f64);
            r.rate = interval.map(|s| Rate((bits / s.max(1e-9)) as u64));
        });
    }
}

impl Component for Learned {
    fn on_overheard(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        let next = cx.board.site.next_hop;
        let data = u32::from(seg.frame.bytes) > cx.board.conn.overhead;
        if !seg.frame.along || !data || next.is_none() || seg.frame.transmitter != next {
            return;
        }
        self.forwarded(seg.head.seq, cx.now);
        self.publish(cx);
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        self.trip = cx.board.rtt.srtt.as_secs_f64();
        match signal {
            Signal::Sent(sent) => self.leaves(sent, cx.now),
            Signal::Status(status) => self.reported(status, cx.now),
            Signal::Opened => self.begin(&cx.board),
            Signal::Route if self.next_hop != cx.board.site.next_hop => self.begin(&cx.board),
            _ => return,
        }
        self.publish(cx);
    }

    fn permit(&self, want: &Want, _board: &Board, _now: Time) -> Permit {
        if want.kind.in_turn() && self.pace.gap() > Span::ZERO {
            Permit::at(self.pace.due(), Limit::Pace)
        } else {
            Permit::OPEN
        }
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        let known = |value: Option<f64>| value.unwrap_or(UNKNOWN);
        probe("interval_s", known(self.interval()));
        probe("hops", self.hops);
        probe("service_s", known(self.own.alone()));
        probe("shortest_s", known(self.own.shortest()));
        probe("beyond", known(self.own.beyond()));
        probe("next_service_s", known(self.next.alone()));
        probe("next_beyond", known(self.next.beyond()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::{NonZeroU8, NonZeroU16};
    use wifu_engine::Bench;
    use wifu_engine::permit::{Kind, Reason};
    use wifu_wire::{FrameFacts, Head};

    const NEXT: Neighbour = Neighbour {
        device: NonZeroU16::MIN,
        address: [2, 0, 0, 0, 0, 2],
    };

    fn opened(set: &[(&str, &str)], hops: u8) -> Bench {
        let mut t = Bench::new(&LEARNED, set).unwrap();
        (t.board.conn.mss, t.board.conn.overhead) = (1460, 52);
        t.board.site.next_hop = Some(NEXT);
        t.board.site.route_hops = NonZeroU8::new(hops);
        t.signal(Signal::Opened);
        t
    }

    fn sends(t: &mut Bench, seq: u32) {
        t.signal(Signal::Sent(Sent {
            kind: Kind::New,
            reason: Reason::First,
            acks: true,
            seq: Seq(seq),
            bytes: 1460,
            late: Span::ZERO,
        }));
    }

    fn reports(t: &mut Bench, seq: u32, us: u64, attempts: u8) {
        t.signal(Signal::Status(Status {
            number: Seq(seq),
            class: Class::Data,
            delivered: true,
            attempts,
            airtime_ns: None,
            delay: Some(Span::MICRO * us),
        }));
    }

    fn wait(t: &mut Bench, time: Span) {
        t.advance(t.now + time);
    }

    /// Packet `seq` leaves `after` us, and is reported `took` us later.
    fn passes(t: &mut Bench, seq: u32, after: u64, took: u64, attempts: u8) {
        wait(t, Span::MICRO * after);
        sends(t, seq);
        wait(t, Span::MICRO * took);
        reports(t, seq, took, attempts);
    }

    fn us(t: &mut Bench, probe: &str) -> i64 {
        (t.probe(probe).unwrap() * 1e6).round() as i64
    }

    fn gap(t: &Bench) -> Option<u64> {
        t.board.rate.gap.map(|g| g.0 / 1000)
    }

    #[test]
    fn nothing_is_paced_before_a_report_and_then_by_the_time_of_a_hop() {
        let mut t = opened(&[], 9);
        sends(&mut t, 1);
        assert_eq!(t.permit(&Want::bare(Kind::New)), Permit::OPEN);
        assert_eq!(gap(&t), None);
        wait(&mut t, Span::MICRO * 2000);
        reports(&mut t, 1, 2000, 1);
        // Four hops of 2 ms from where the packet left.
        assert_eq!(gap(&t), Some(8000));
        let due = Permit::at(t.now + Span::MICRO * 6000, Limit::Pace);
        assert_eq!(t.permit(&Want::bare(Kind::New)), due);
        assert_eq!(t.permit(&Want::bare(Kind::Rescue)), Permit::OPEN);
        // A path of two hops begins with two.
        let mut t = opened(&[], 2);
        passes(&mut t, 1, 0, 2000, 1);
        assert_eq!(gap(&t), Some(4000));
    }

    /// By hand: one alone of 2 ms; the next 8 ms later took 4 ms and two attempts, and so cost
    /// 0.25 * (2 - 1) + 0.75 * 1.5 * (2 - 1) = 1.375 shortest times beyond, 0.775 too many: hops
    /// go from 4 to 4 exp(0.02 * 0.775).
    #[test]
    fn a_packet_that_fails_more_often_than_alone_puts_more_hops_between() {
        let mut t = opened(&[("learn_excess", "0.6")], 9);
        passes(&mut t, 1, 0, 2000, 1);
        passes(&mut t, 2, 6000, 4000, 2);
        let expected = 4.0 * (0.02_f64 * 0.775).exp();
        assert!((t.probe("hops").unwrap() - expected).abs() < 1e-9);
        assert_eq!(us(&mut t, "interval_s"), (expected * 2000.0).round() as i64);
        // One that fares as one alone takes some away: 4 exp(0.02 * (0.775 - 0.6)).
        passes(&mut t, 3, 4000, 2000, 1);
        let expected = 4.0 * (0.02_f64 * 0.175).exp();
        assert!((t.probe("hops").unwrap() - expected).abs() < 1e-9);
    }

    /// With 20 hops of 2 ms between them no packet is near another, and none costs anything beyond:
    /// without that as a lesson the interval would stay for ever.
    #[test]
    fn intervals_longer_than_a_pause_become_shorter() {
        let mut t = opened(&[("learn_first", "20")], 64);
        for seq in 0..400 {
            let due = t.permit(&Want::bare(Kind::New)).not_before.max(t.now);
            let until = (due - t.now).0 / 1000;
            passes(&mut t, seq + 1, until, 2000, 1);
        }
        assert!(t.probe("hops").unwrap() < 5.0, "{:?}", t.probe("hops"));
    }

    #[test]
    fn one_that_did_not_leave_in_time_takes_no_hops_away() {
        let mut t = opened(&[], 9);
        passes(&mut t, 1, 0, 2000, 1);
        // 16 ms are two intervals, and not yet the pause of 24 ms after which one is alone.
        passes(&mut t, 2, 14_000, 2000, 1);
        assert_eq!(t.probe("hops"), Some(4.0));
        passes(&mut t, 3, 14_000, 8000, 4);
        assert!(t.probe("hops").unwrap() > 4.0);
    }

    #[test]
    fn the_next_hop_is_judged_by_what_it_is_heard_to_send() {
        let mut t = opened(&[], 9);
        let forwards = |t: &mut Bench, seq: u32, from: Neighbour| {
            let mut frame = FrameFacts::NONE;
            (frame.transmitter, frame.along, frame.bytes) = (Some(from), true, 1512);
            let mut head = Head::default();
            head.seq = Seq(seq);
            t.overheard(&head, &frame);
        };
        let other = Neighbour {
            address: [2, 0, 0, 0, 0, 3],
            ..NEXT
        };
        passes(&mut t, 1, 0, 2000, 1);
        wait(&mut t, Span::MICRO * 3000);
        forwards(&mut t, 1, other);
        forwards(&mut t, 1, NEXT);
        passes(&mut t, 2, 5000, 2000, 1);
        assert_eq!(t.probe("next_service_s"), Some(UNKNOWN), "it may go again");
        wait(&mut t, Span::MICRO * 3000);
        forwards(&mut t, 2, NEXT);
        assert_eq!(us(&mut t, "next_service_s"), 3000);
        let before = t.probe("hops").unwrap();
        // The second goes twice more, the last time 6 ms later: three attempts for one, three
        // shortest times for one.
        wait(&mut t, Span::MICRO * 3000);
        forwards(&mut t, 2, NEXT);
        wait(&mut t, Span::MICRO * 3000);
        forwards(&mut t, 2, NEXT);
        passes(&mut t, 3, 0, 2000, 1);
        let paid = t.probe("hops").unwrap();
        forwards(&mut t, 3, NEXT);
        assert!(t.probe("hops").unwrap() > paid && paid < before);
        assert!(t.probe("next_beyond").unwrap() > 0.25 * 2.0 + 0.75 * 3.0 - 1e-9);
    }

    /// 2 Mb/s for 11: packets take four times as long, and so do intervals within 64 packets.
    #[test]
    fn another_rate_of_the_link_is_another_interval() {
        let mut t = opened(&[("learn_gain", "0")], 9);
        let mut seq = 0;
        let mut train = |t: &mut Bench, took: u64| {
            for _ in 0..64 {
                seq += 1;
                let gap = gap(t).unwrap_or(8000);
                passes(t, seq, gap.saturating_sub(took), took, 1);
            }
        };
        train(&mut t, 1500);
        assert_eq!(gap(&t), Some(6000));
        train(&mut t, 6000);
        assert_eq!(gap(&t), Some(24_000));
        train(&mut t, 1500);
        assert_eq!(gap(&t), Some(6000));
    }

    #[test]
    fn pauses_take_their_share_and_are_no_shorter_than_a_round_trip() {
        let mut t = opened(&[("learn_share", "0.1"), ("learn_pause", "12")], 9);
        t.board.rtt.srtt = Span::MILLI * 40;
        let (mut at, mut pauses) = (Vec::new(), Vec::new());
        for seq in 0..600 {
            let due = t.permit(&Want::bare(Kind::New)).not_before.max(t.now);
            let until = (due - t.now).0 / 1000;
            at.push(due);
            passes(&mut t, seq + 1, until, 2000, 1);
        }
        for pair in at.windows(2) {
            let gap = pair[1] - pair[0];
            if gap >= Span::MILLI * 38 {
                pauses.push(gap);
            }
        }
        let whole = (at[599] - at[0]).as_secs_f64();
        // Beside the interval, which is 8 ms at first and shorter then.
        let beside = pauses.iter().map(|p| p.as_secs_f64() - 0.006);
        let share = beside.sum::<f64>() / whole;
        assert!(pauses.len() > 3 && (0.05..0.15).contains(&share), "{share}");
    }

    #[test]
    fn another_next_hop_begins_anew() {
        let mut t = opened(&[], 9);
        passes(&mut t, 1, 0, 2000, 1);
        passes(&mut t, 2, 6000, 4000, 2);
        t.board.site.rate = Some(Rate(5_500_000));
        t.signal(Signal::Route);
        assert!(gap(&t).is_some(), "another rate is the same way");
        t.board.site.next_hop = Some(Neighbour {
            address: [2, 0, 0, 0, 0, 9],
            ..NEXT
        });
        t.board.site.route_hops = NonZeroU8::new(3);
        t.signal(Signal::Route);
        assert_eq!((gap(&t), t.probe("hops")), (None, Some(3.0)));
    }
}
