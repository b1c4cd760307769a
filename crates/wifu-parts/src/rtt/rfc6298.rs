//! `rfc6298`: round-trip times and the retransmission timeout (RFC 6298, RFC 7323 section 4).
//!
//! Contributes samples: by timestamps where both ends use them, else by one timed segment at a time
//! under Karn's rule. Hears segments and what left; emits `rtt`; writes `rtt`; stamps timestamps.

use wifu_engine::board::RttFacts;
use wifu_engine::component::Cx;
use wifu_engine::kit::{Ended, TICK, TRIPS, Trips, reported};
use wifu_engine::signal::{RttSample, Sent};
use wifu_engine::{
    Admit, Component, Descriptor, Facts, FieldUse, Kind, Out, ParamSpec, Params, Payload, Reason,
    Role, Segment, Signal,
};
use wifu_wire::{Flags, HeadField, Seq, Span, Time};

/// See the module.
pub static RFC6298: Descriptor = Descriptor {
    name: "rfc6298",
    role: Role::Rtt,
    doc: "Samples round-trip times by timestamps (or one timed segment by Karn's rule), smooths \
          them and computes the retransmission timeout.",
    cites: &["RFC 6298", "RFC 7323 section 4", "Behaviour 4.4"],
    params: &[
        ParamSpec::span(
            "rto_initial",
            SECOND(3),
            MS(1),
            SECOND(60),
            "Timeout before any sample.",
        ),
        ParamSpec::span("rto_min", SECOND(1), MS(1), SECOND(60), "Smallest timeout."),
        ParamSpec::span(
            "rto_max",
            SECOND(60),
            MS(1),
            SECOND(600),
            "Largest, with back-off.",
        ),
        ParamSpec::span(
            "granularity",
            MS(1),
            Span(0),
            SECOND(1),
            "Clock granularity G.",
        ),
        ParamSpec::flag("timestamps", true, "Use the timestamp option (RFC 7323)."),
        ParamSpec::span(
            "ts_unit",
            Span(1_000),
            Span(1_000),
            MS(10),
            "Unit of our timestamps: 1 us between our own stacks, 1 ms when the peer may be a \
             kernel, whose PAWS refuses us after 2^31 units of silence (Behaviour 4.1).",
        ),
        ParamSpec::text(
            "variation",
            "rfc6298",
            &["rfc6298", "linux"],
            "What is added to the smoothed round-trip time: four times the variation and at least \
             the granularity, or the largest deviation of the last round trip, at least rto_min, \
             which falls by a quarter in each (Linux, tcp_rtt_estimator).",
        ),
        TRIPS,
        TICK,
    ],
    probes: &["srtt_s", "rttvar_s"],
    reads: Facts::TX,
    wants: Facts::CONN.with(Facts::RX),
    writes: Facts::RTT,
    hears: &[
        ("segment", &["rtt"]),
        ("connect", &[]),
        ("listen", &[]),
        ("sent", &[]),
    ],
    hooks: &["segment", "stamp"],
    fields: &[
        FieldUse::of(HeadField::Ts).unless("timestamps", "off"),
        FieldUse::of(HeadField::TsPair).unless("timestamps", "off"),
        FieldUse::of(HeadField::TsOk).unless("timestamps", "off"),
    ],
    build: |p| Ok(Box::new(Rfc6298::new(p))),
    ..Descriptor::EMPTY
};

#[allow(non_snake_case)]
const fn SECOND(n: u64) -> Span {
    Span(n * 1_000_000_000)
}

#[allow(non_snake_case)]
const fn MS(n: u64) -> Span {
    Span(n * 1_000_000)
}

/// How many stamps are remembered for exact times and sizes; a power of two.
const STAMPS: usize = 256;

#[derive(Clone, Copy, Default)]
struct Stamp {
    ts: u32,
    at: Time,
    /// IP length; 0: not known here, as of a SYN, whose options other parts complete.
    bytes: u32,
}

struct Rfc6298 {
    initial: Span,
    min: Span,
    max: Span,
    granularity: Span,
    timestamps: bool,
    unit: Span,
    stamps: Box<[Stamp; STAMPS]>,
    timed: Option<(Seq, Time)>,
    peak: Option<Peak>,
    /// By `trips=linux`.
    trips: Option<Box<Trips>>,
    facts: RttFacts,
}

/// The kernel's variation: four times a smoothed deviation that follows rises at once and falls
/// slowly, of which the largest of each round trip counts.
#[derive(Clone, Copy, Default)]
struct Peak {
    /// Four times the smoothed deviation: mdev_us.
    deviation: Span,
    /// The largest of this round trip: mdev_max_us.
    largest: Span,
    /// What is added: rttvar_us.
    added: Span,
    /// The round trip ends when this is acknowledged: rtt_seq.
    end: Seq,
}

impl Peak {
    /// A sample came that acknowledges up to `ack`; `srtt`: the smoothed round trip before it,
    /// `None` for the first; `max`: what was sent.
    fn sample(&mut self, rtt: Span, srtt: Option<Span>, least: Span, (ack, max): (Seq, Seq)) {
        let Some(srtt) = srtt else {
            self.deviation = rtt * 2;
            self.added = self.deviation.max(least);
            (self.largest, self.end) = (self.added, max);
            return;
        };
        let (away, smoothed) = (srtt.abs_diff(rtt), self.deviation / 4);
        if away > smoothed {
            // A round trip that got shorter says little of the next one.
            let more = away - smoothed;
            let gain = if rtt < srtt { more / 8 } else { more };
            self.deviation = self.deviation + gain;
        } else {
            self.deviation = self.deviation - (smoothed - away);
        }
        self.largest = self.largest.max(self.deviation);
        self.added = self.added.max(self.largest);
        if ack.after(self.end) {
            let over = self.added - self.largest.min(self.added);
            self.added = self.added - over / 4;
            (self.end, self.largest) = (max, least);
        }
    }
}

impl Rfc6298 {
    fn new(p: &Params<'_>) -> Rfc6298 {
        Rfc6298 {
            initial: p.span("rto_initial"),
            min: p.span("rto_min"),
            max: p.span("rto_max"),
            granularity: p.span("granularity"),
            timestamps: p.flag("timestamps"),
            unit: p.span("ts_unit"),
            stamps: Box::new([Stamp::default(); STAMPS]),
            timed: None,
            peak: (p.text("variation") == "linux").then(Peak::default),
            trips: (p.text(TRIPS.name) == "linux").then(Box::default),
            facts: RttFacts {
                tick: p.span(TICK.name),
                ..RttFacts::default()
            },
        }
    }

    /// Never zero: a zero echo means "none" (Behaviour 4.4).
    fn clock(&self, now: Time) -> u32 {
        ((now.0 / self.unit.0) as u32).max(1)
    }

    /// How long ago the stamp was made and how long its packet was: remembered, or from the clock,
    /// then 0.
    fn echoed(&self, echo: u32, now: Time) -> (Span, u32) {
        let s = &self.stamps[echo as usize % STAMPS];
        if s.ts == echo && s.at != Time::ZERO {
            return (now - s.at, s.bytes);
        }
        (
            Span(u64::from(self.clock(now).wrapping_sub(echo)) * self.unit.0),
            0,
        )
    }

    /// An acknowledgement tells of something by which a round trip is timed as Linux does it.
    #[inline(never)]
    fn on_news(&mut self, seg: &Segment<'_>, ack: Seq, cx: &mut Cx<'_>) {
        let (una, max, mss) = (cx.board.tx.una, cx.board.tx.max, cx.board.conn.mss);
        let Some(trips) = self.trips.as_mut().filter(|_| una != max && ack.from(una)) else {
            return;
        };
        let mut ended = trips.heard(ack, reported(seg.head, ack, max), cx.now);
        let echo = seg.head.ts.is_some() && seg.head.ts_echo != 0 && self.timestamps;
        if ended.oldest.is_none() && ack.after(una) {
            if let Some((end, at)) = self.timed
                && ack.from(end)
            {
                ended.oldest = Some(cx.now - at); // the SYN, which is no data
            } else if echo {
                let ticks = self.clock(cx.now).wrapping_sub(seg.head.ts_echo);
                ended.oldest = Some(self.unit * u64::from(ticks.max(1)));
            }
            ended.latest = ended.latest.or(ended.oldest);
        }
        if ack.after(una) {
            self.timed = None;
        }
        if let Ended {
            oldest: Some(rtt),
            latest: Some(latest),
        } = ended
        {
            let bytes = (mss + cx.board.conn.overhead, u32::from(seg.frame.bytes));
            self.sample((rtt, latest), bytes, ack, cx);
        }
    }

    //= rfc6298#section-2
    fn sample(
        &mut self,
        (rtt, latest): (Span, Span),
        (data_bytes, ack_bytes): (u32, u32),
        ack: Seq,
        cx: &mut Cx<'_>,
    ) {
        let f = &mut self.facts;
        if let Some(peak) = &mut self.peak {
            let srtt = (f.samples > 0).then_some(f.srtt);
            peak.sample(rtt, srtt, self.min, (ack, cx.board.tx.max));
        }
        if f.samples == 0 {
            (f.srtt, f.var, f.min) = (rtt, rtt / 2, latest);
        } else {
            f.var = (f.var * 3 + f.srtt.abs_diff(rtt)) / 4;
            f.srtt = (f.srtt * 7 + rtt) / 8;
            f.min = f.min.min(latest);
        }
        f.last = latest;
        f.samples += 1;
        let added = match &self.peak {
            None => self.granularity.max(f.var * 4),
            Some(peak) => peak.added,
        };
        f.rto = (f.srtt + added).clamp(self.min, self.max.max(self.min));
        let facts = f.clone();
        cx.write(|r: &mut RttFacts| *r = facts);
        cx.out.emit(Signal::Rtt(RttSample {
            rtt: latest,
            data_bytes,
            ack_bytes,
        }));
    }

    /// A SYN is timed as data are, and no more once it went again.
    //= rfc6298#section-3
    fn on_syn(&mut self, out: &Out<'_>, cx: &Cx<'_>) {
        let first = out.reason == Reason::First;
        self.timed = first.then(|| (cx.board.tx.iss.plus(1), cx.now));
    }

    /// Karn: a segment retransmitted proves nothing about either copy.
    fn on_sent(&mut self, s: &Sent, now: Time) {
        let end = s.seq.plus(s.bytes);
        match (s.kind, self.timed) {
            _ if self.trips.is_some() => {
                // A probe of a shut window leaves octets that go again.
                let octets = s.bytes > 0 && (s.kind.is_data() || s.kind == Kind::Probe);
                if let (Some(trips), true) = (&mut self.trips, octets) {
                    trips.sent(s.seq, end, now);
                }
            }
            (Kind::New, None) if s.bytes > 0 => self.timed = Some((end, now)),
            (Kind::Rescue | Kind::Resend, Some((timed, _))) if s.seq.before(timed) => {
                self.timed = None;
            }
            _ => {}
        }
    }
}

impl Component for Rfc6298 {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let Some(ack) = seg.head.ack else {
            return Admit::Pass;
        };
        let tx = &cx.board.tx;
        if self.trips.is_some() && !ack.after(tx.max) {
            self.on_news(seg, ack, cx);
            return Admit::Pass;
        }
        if !ack.after(tx.una) || ack.after(tx.max) {
            return Admit::Pass;
        }
        let full = cx.board.conn.mss + cx.board.conn.overhead;
        let ack_bytes = u32::from(seg.frame.bytes);
        if self.timestamps && seg.head.ts.is_some() && seg.head.ts_echo != 0 {
            let (rtt, bytes) = self.echoed(seg.head.ts_echo, cx.now);
            self.timed = None;
            let data = if bytes == 0 { full } else { bytes };
            self.sample((rtt, rtt), (data, ack_bytes), ack, cx);
        } else if let Some((end, at)) = self.timed
            && ack.from(end)
        {
            self.timed = None;
            self.sample((cx.now - at, cx.now - at), (full, ack_bytes), ack, cx);
        }
        Admit::Pass
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        match signal {
            Signal::Connect | Signal::Listen => {
                (self.facts.rto, self.facts.rto_max) = (self.initial, self.max);
                let facts = self.facts.clone();
                cx.write(|r: &mut RttFacts| *r = facts);
            }
            Signal::Sent(s) => self.on_sent(s, cx.now),
            _ => {}
        }
    }

    fn stamp(&mut self, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        if out.head.flags.has(Flags::SYN) {
            self.on_syn(out, cx);
        }
        //= rfc7323#section-3.2
        // Our first SYN offers; everything else, RST included, carries them if the peer's SYN did.
        let opening = out.head.flags.has(Flags::SYN) && out.head.ack.is_none();
        let agreed = opening && !cx.board.rx.synced || cx.board.conn.peer.ts_ok;
        if !self.timestamps || !agreed {
            return;
        }
        let ts = self.clock(cx.now);
        out.head.ts = Some(ts);
        out.head.options.ts_ok = out.head.flags.has(Flags::SYN);
        let payload = if let Payload::Stream { len, .. } = out.payload {
            len
        } else {
            0
        };
        let at = ts as usize % STAMPS;
        if self.stamps[at].ts != ts {
            let syn = out.head.options.ts_ok;
            self.stamps[at] = Stamp {
                ts,
                at: cx.now,
                bytes: if syn {
                    0
                } else {
                    payload + cx.board.conn.overhead
                },
            };
        }
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("srtt_s", self.facts.srtt.as_secs_f64());
        probe("rttvar_s", self.facts.var.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::Bench;
    use wifu_wire::Head;

    /// Linux, tcp_rtt_estimator: one late answer counts for whole round trips, one that comes early
    /// hardly, and 200 ms are added at least.
    #[test]
    fn the_kernels_variation_rises_at_once_and_falls_by_a_quarter() {
        let (ms, least) = (|n: u64| Span::MILLI * n, Span::MILLI * 200);
        let mut peak = Peak::default();
        peak.sample(ms(40), None, least, (Seq(1), Seq(10)));
        assert_eq!((peak.deviation, peak.added), (ms(80), ms(200)));
        peak.sample(ms(440), Some(ms(40)), least, (Seq(2), Seq(10)));
        assert_eq!((peak.deviation, peak.added), (ms(460), ms(460)));
        // The first round trip ends with what is sent at its end.
        peak.sample(ms(90), Some(ms(90)), least, (Seq(11), Seq(20)));
        assert_eq!((peak.deviation, peak.added), (ms(345), ms(460)));
        assert_eq!(peak.end, Seq(20));
        peak.sample(ms(90), Some(ms(90)), least, (Seq(21), Seq(30)));
        assert!(
            peak.added < ms(460) && peak.added > ms(400),
            "{:?}",
            peak.added
        );
        for i in 3..40 {
            peak.sample(
                ms(90),
                Some(ms(90)),
                least,
                (Seq(i * 10 + 1), Seq(i * 10 + 10)),
            );
        }
        assert!(peak.added < ms(201), "{:?}", peak.added);
        let before = peak.deviation;
        peak.sample(ms(10), Some(ms(90)), least, (Seq(401), Seq(410)));
        assert!(peak.deviation < before + ms(11), "{:?}", peak.deviation);
    }

    type Said = (u64, u32, Option<(u32, u32)>, u32);

    /// A sender that sent five segments of 1000 at once: what it makes of these acknowledgements,
    /// each with the time in ms, the number, a report and the echo.
    fn srtt(trips: &str, acks: &[Said]) -> (Span, u32) {
        let mut t = Bench::new(&RFC6298, &[("trips", trips), ("ts_unit", "1 ms")]).unwrap();
        (t.board.conn.mss, t.board.tx.max) = (1000, Seq(5000));
        t.board.conn.peer.ts_ok = true;
        t.advance(Time::ZERO + Span::MILLI * 100);
        t.signal(Signal::Connect);
        for n in 0..5 {
            t.signal(Signal::Sent(Sent {
                kind: Kind::New,
                reason: Reason::First,
                acks: true,
                seq: Seq(n * 1000),
                bytes: 1000,
                late: Span::ZERO,
            }));
        }
        for (at, ack, report, echo) in acks {
            t.advance(Time::ZERO + Span::MILLI * *at);
            let mut head = Head::default();
            (head.ack, head.ts, head.ts_echo) = (Some(Seq(*ack)), Some(1), *echo);
            if let Some(r) = report {
                head.push_range((Seq(r.0), Seq(r.1)));
            }
            let _ = t.segment(&head, &[]);
            t.board.tx.una = Seq(*ack);
        }
        (t.board.rtt.srtt, t.board.rtt.samples)
    }

    /// Linux, tcp_clean_rtx_queue and tcp_ack_update_rtt: the acknowledgement of the first segments
    /// was lost, so that the third's echoes a later stamp.
    #[test]
    fn the_kernel_times_by_what_left_first_and_by_reports() {
        let late = [(190, 3000, None, 150)];
        assert_eq!(srtt("echo", &late), (Span::MILLI * 40, 1));
        assert_eq!(srtt("linux", &late), (Span::MILLI * 90, 1));
        let report = [(150, 0, Some((2000, 3000)), 100)];
        assert_eq!(srtt("echo", &report), (Span::ZERO, 0));
        assert_eq!(srtt("linux", &report), (Span::MILLI * 50, 1));
    }

    /// Karn: the octets by which a shut window was probed go again as data, and what acknowledges
    /// them may be of either.
    #[test]
    fn octets_of_a_window_probe_time_nothing_when_they_went_again() {
        let mut t = Bench::new(&RFC6298, &[("trips", "linux"), ("ts_unit", "1 ms")]).unwrap();
        (t.board.conn.mss, t.board.tx.max) = (1000, Seq(1000));
        t.signal(Signal::Connect);
        for (ms, kind, reason, bytes) in [
            (100, Kind::Probe, Reason::Probe, 10),
            (149, Kind::Resend, Reason::Timeout, 1000),
        ] {
            t.advance(Time::ZERO + Span::MILLI * ms);
            t.signal(Signal::Sent(Sent {
                kind,
                reason,
                acks: true,
                seq: Seq(0),
                bytes,
                late: Span::ZERO,
            }));
        }
        let mut head = Head::default();
        for (ms, ack, samples) in [(150, 10, 0), (200, 1000, 1)] {
            t.advance(Time::ZERO + Span::MILLI * ms);
            head.ack = Some(Seq(ack));
            let _ = t.segment(&head, &[]);
            t.board.tx.una = Seq(ack);
            assert_eq!(t.board.rtt.samples, samples, "{ack}");
        }
        assert_eq!(t.board.rtt.srtt, Span::MILLI * 51);
    }

    /// Behaviour 6: the handshake's round trip is taken for that of a full segment, at either end.
    #[test]
    fn the_handshakes_sample_has_the_length_of_a_full_segment() {
        for answers in [false, true] {
            let mut t = Bench::new(&RFC6298, &[]).unwrap();
            t.signal(Signal::Connect);
            (t.board.conn.peer.ts_ok, t.board.rx.synced) = (answers, answers);
            (t.board.conn.mss, t.board.conn.overhead) = (1448, 52);
            let timed = |t: &mut Bench, ms: u64, syn: bool, number: u32| {
                t.advance(Time::ZERO + Span::MILLI * ms);
                let mut head = Head::default();
                if syn {
                    head.flags = Flags::SYN;
                    head.ack = answers.then_some(Seq(1));
                }
                t.stamp(Kind::New, &mut head);
                let mut heard = Head::default();
                (heard.ack, heard.ts) = (Some(Seq(number)), Some(1));
                heard.ts_echo = head.ts.unwrap();
                t.advance(t.now + Span::MILLI);
                t.board.tx.max = Seq(number);
                let (_, said) = t.segment(&heard, &[]);
                t.board.tx.una = Seq(number);
                said.into_iter().find_map(|signal| match signal {
                    Signal::Rtt(sample) => Some(sample.data_bytes),
                    _ => None,
                })
            };
            assert_eq!(timed(&mut t, 100, true, 1), Some(1500), "{answers}");
            t.board.conn.peer.ts_ok = true;
            assert_eq!(timed(&mut t, 200, false, 2), Some(52), "no payload");
        }
    }

    #[test]
    fn the_tick_is_told_to_others() {
        let mut t = Bench::new(&RFC6298, &[("tick", "4 ms")]).unwrap();
        t.signal(Signal::Connect);
        assert_eq!(t.board.rtt.tick, Span::MILLI * 4);
    }
}
