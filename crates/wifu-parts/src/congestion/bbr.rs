//! The window and the pacer of BBR, version 3: a model of the path, its bandwidth and its
//! round-trip time, says how fast data leaves and how much may be in flight; a loss says little.
//!
//! Hears segments, `opened`, `congested`, `dup-ack`, `wrote` and `sent`; says nothing; writes `win`
//! and `rate`; gates data in turn by `cwnd - pipe` and by time. Source: draft-ietf-ccwg-bbr, the
//! working group's text of 3 August 2026 (behind -06). Losses are those that the reliability part
//! finds (`tx.lost`), whatever the judge says of them; the judge is heard of timeouts and marks.
//! What the draft leaves to the implementer: a segment is paced, not a quantum, and a send quantum
//! is what is made up at once by a sender that overslept; a mark (RFC 3168) counts as a share of
//! losses above the threshold; a recovery was spurious if everything taken for lost in it arrived
//! before it went again, sooner than a round trip after, or twice.

mod model;

use model::{Model, Now, PARAMS};
use wifu_engine::board::{RateFacts, WinFacts};
use wifu_engine::component::Cx;
use wifu_engine::kit::{Delivery, IW, LostPacket, Pace, initial_window};
use wifu_engine::signal::{Cause, Congested, Sent};
use wifu_engine::{
    Admit, Board, Component, Descriptor, Facts, FieldUse, Limit, ParamSpec, Permit, Role, Segment,
    Signal, Want,
};
use wifu_wire::{HeadField, Rate, Seq, Span, Time};

const WITH_IW: [ParamSpec; PARAMS.len() + 1] = {
    let mut all = [IW; PARAMS.len() + 1];
    let mut i = 0;
    while i < PARAMS.len() {
        all[i + 1] = PARAMS[i];
        i += 1;
    }
    all
};

/// Window and pacer of BBR.
pub static BBR: Descriptor = Descriptor {
    name: "bbr",
    role: Role::Congestion,
    doc: "Window and pacer of BBR version 3: by the bandwidth and the round-trip time of the path.",
    cites: &["draft-ietf-ccwg-bbr"],
    params: &WITH_IW,
    probes: &[
        "state",
        "max_bw_bps",
        "bw_bps",
        "min_rtt_s",
        "inflight_longterm",
        "inflight_shortterm",
        "extra_acked",
        "round",
        "full_bw_count",
        "full_bw_reached",
        "app_limited",
        "delivered",
        "undone",
    ],
    reads: Facts::CONN.with(Facts::TX),
    wants: Facts::RTT,
    writes: Facts::WIN.with(Facts::RATE),
    hears: &[
        ("segment", &[]),
        ("opened", &[]),
        ("congested", &[]),
        ("?dup-ack", &[]),
        ("wrote", &[]),
        ("sent", &[]),
    ],
    hooks: &["segment", "permit"],
    needs: &[("unit", &["octets"])],
    fields: &[
        FieldUse::of(HeadField::Ack),
        FieldUse::of(HeadField::Ranges).optional(),
    ],
    build: |params| {
        Ok(Box::new(Bbr {
            iw: params.optional(IW.name),
            model: Model::new(params),
            delivery: Delivery::default(),
            pace: Pace::default(),
            size: 0,
            opened: false,
            initial: 0,
            repair: None,
            undone: 0,
        }))
    },
    ..Descriptor::EMPTY
};

struct Bbr {
    iw: Option<u64>,
    model: Model,
    delivery: Delivery,
    pace: Pace,
    /// Octets of the segment that left last.
    size: u32,
    opened: bool,
    /// C.InitialCwnd.
    initial: u32,
    /// The recovery of a timeout lasts until this is acknowledged.
    repair: Option<Seq>,
    /// Recoveries that were spurious.
    undone: u32,
}

/// What the model is told of the connection.
macro_rules! now {
    ($bbr:ident, $cx:ident) => {
        Now {
            now: $cx.now,
            smss: $cx.board.conn.mss,
            inflight: $cx.board.tx.pipe,
            initial: $bbr.initial,
            srtt: $cx.board.rtt.srtt,
            selective: $cx.board.conn.peer.sack_ok,
            delivered: $bbr.delivery.delivered(),
            rng: $cx.out.rng(),
        }
    };
}

impl Bbr {
    fn open(&mut self, cx: &mut Cx<'_>) {
        self.opened = true;
        self.initial = initial_window(self.iw, &cx.board);
        let c = now!(self, cx);
        self.model.init(&c);
    }

    /// What the reliability part takes for lost since this was asked last.
    fn hear_losses(&mut self, cx: &mut Cx<'_>) {
        let mut c = now!(self, cx);
        let repairing = self.model.repairing;
        let model = &mut self.model;
        let each = |p: &LostPacket| model.on_lost(p, &mut c);
        self.delivery.lost(&cx.board, repairing, each);
    }

    fn on_congested(&mut self, what: &Congested, cx: &mut Cx<'_>) {
        match what.cause {
            Cause::Timeout => {
                self.hear_losses(cx);
                self.repair = Some(cx.board.tx.max);
                let c = now!(self, cx);
                self.model.on_timeout(&c);
            }
            Cause::Mark => {
                let mut c = now!(self, cx);
                self.model.on_mark(what.flight, &mut c);
            }
            // A timer found them; an acknowledgement has told already.
            Cause::DupAcks | Cause::Explicit => self.hear_losses(cx),
        }
    }

    fn on_wrote(&mut self, cx: &mut Cx<'_>) {
        self.delivery.check_limited(self.model.cwnd, &cx.board);
        if cx.board.tx.pipe == 0 && self.delivery.is_app_limited() {
            let mut c = now!(self, cx);
            self.model.restart_from_idle(&mut c);
        }
    }

    fn on_sent(&mut self, sent: &Sent, cx: &mut Cx<'_>) {
        self.delivery.sent(sent, &cx.board, cx.now);
        if !sent.kind.is_data() || sent.bytes == 0 {
            return;
        }
        self.size = sent.bytes;
        self.pace.set_gap(self.time_for(sent.bytes));
        // It waited for its time, or for those before it in the same burst.
        let waited = matches!(
            cx.board.app.limited,
            Limit::Pace | Limit::Queue | Limit::Host
        );
        let most = if waited {
            self.time_for(self.model.send_quantum)
        } else {
            Span::ZERO
        };
        self.pace.left(cx.now, most);
        let (inflight, smss) = (cx.board.tx.pipe, cx.board.conn.mss);
        self.model.on_sent(inflight, smss);
    }

    fn time_for(&self, octets: u32) -> Span {
        Span::from_secs_f64(f64::from(octets) / self.model.pacing_rate.max(1.0))
    }

    fn publish(&mut self, cx: &mut Cx<'_>) {
        self.pace.set_gap(self.time_for(self.size));
        let (cwnd, bits) = (self.model.cwnd, self.model.pacing_rate * 8.0);
        let gap = self.time_for(cx.board.conn.mss);
        cx.write(|w: &mut WinFacts| (w.cwnd, w.ssthresh) = (cwnd, u32::MAX));
        cx.write(|r: &mut RateFacts| {
            (r.rate, r.gap) = (Some(Rate(bits as u64)), Some(gap));
        });
    }
}

impl Component for Bbr {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        if !self.opened || seg.head.ack.is_none() || !self.delivery.waits() {
            return Admit::Pass;
        }
        self.delivery.check_limited(self.model.cwnd, &cx.board);
        self.delivery.arrived(seg.head, &cx.board, cx.now);
        let una = cx.board.tx.una;
        self.repair = self.repair.filter(|upto| una.before(*upto));
        self.hear_losses(cx);
        let recovering = cx.board.tx.recovering;
        self.model
            .recovery(recovering, recovering || self.repair.is_some());
        let rs = self.delivery.sample();
        let mut c = now!(self, cx);
        if self.delivery.was_spurious() {
            self.undone += 1;
            self.model.on_spurious(&c);
        }
        self.model.on_ack(&rs, &mut c);
        if self.model.marks_limited {
            self.delivery.limit();
        }
        self.publish(cx);
        Admit::Pass
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        if let Signal::Opened = signal {
            self.open(cx);
        }
        if !self.opened {
            return;
        }
        match signal {
            Signal::Congested(what) => self.on_congested(what, cx),
            Signal::DupAck => self.delivery.duplicate(&cx.board, cx.now),
            Signal::Wrote => self.on_wrote(cx),
            Signal::Sent(sent) => return self.on_sent(sent, cx),
            _ => {}
        }
        self.publish(cx);
    }

    fn permit(&self, want: &Want, board: &Board, _now: Time) -> Permit {
        if !want.kind.in_turn() {
            return Permit::OPEN;
        }
        let room = self.model.cwnd.saturating_sub(board.tx.pipe);
        let turn = Permit::at(self.pace.due(), Limit::Pace);
        Permit::upto(room, Limit::Window).and(turn)
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        let m = &self.model;
        let octets = |n: u32| match n {
            u32::MAX => f64::INFINITY,
            n => f64::from(n),
        };
        probe("state", f64::from(m.state as u8));
        probe("max_bw_bps", m.max_bw() * 8.0);
        probe("bw_bps", m.bw * 8.0);
        probe("min_rtt_s", m.trip.min.map_or(0.0, Span::as_secs_f64));
        probe("inflight_longterm", octets(m.inflight_longterm));
        probe("inflight_shortterm", octets(m.inflight_shortterm));
        probe("extra_acked", f64::from(m.extra_acked()));
        probe("round", m.round_count as f64);
        probe("full_bw_count", f64::from(m.full.count));
        probe("full_bw_reached", f64::from(u8::from(m.full.reached)));
        probe(
            "app_limited",
            f64::from(u8::from(self.delivery.is_app_limited())),
        );
        probe("delivered", self.delivery.delivered() as f64);
        probe("undone", f64::from(self.undone));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::{Bench, Kind, Reason};

    const MSS: u32 = 1000;

    /// Ten segments of initial window and a round trip of 100 ms: 277 kB/s, a segment in 3.61 ms.
    fn opened() -> Bench {
        let mut t = Bench::new(&BBR, &[("iw", "10")]).unwrap();
        t.board.conn.mss = MSS;
        t.board.conn.peer.sack_ok = true;
        t.board.rtt.srtt = Span::MILLI * 100;
        t.now = Time(1_000_000_000);
        t.signal(Signal::Opened);
        t
    }

    fn leaves(t: &mut Bench) -> Time {
        let seq = t.board.tx.max;
        t.board.tx.max = seq.plus(MSS);
        t.board.tx.pipe += MSS;
        t.signal(Signal::Sent(Sent {
            kind: Kind::New,
            reason: Reason::First,
            acks: true,
            seq,
            bytes: MSS,
            late: Span::ZERO,
        }));
        next(t, Kind::New).not_before
    }

    fn next(t: &Bench, kind: Kind) -> Permit {
        let (bytes, least) = (MSS, MSS);
        t.permit(&Want { kind, bytes, least })
    }

    //= bbr-draft#pacing-rate-bbrpacingrate
    #[test]
    fn data_in_turn_waits_for_window_and_time_and_a_rescue_for_neither() {
        let mut t = opened();
        let gap = 1_000_000_000 / 277;
        assert_eq!(t.board.rate.gap.map(|g| g.0 / 1000), Some(gap / 1000));
        let due = leaves(&mut t);
        assert_eq!((due - t.now).0 / 1000, gap / 1000);
        for kind in [Kind::New, Kind::Resend, Kind::Repair] {
            let permit = next(&t, kind);
            assert_eq!((permit.bytes, permit.wait), (9000, Limit::Pace), "{kind:?}");
        }
        for kind in [Kind::Rescue, Kind::Control, Kind::Ack, Kind::Probe] {
            assert_eq!(next(&t, kind), Permit::OPEN, "{kind:?}");
        }
    }

    //= bbr-draft#send-quantum-bbrsendquantum
    #[test]
    fn a_sender_that_overslept_makes_up_a_send_quantum() {
        let burst = |late_ms: u64, limit: Limit, next: Limit| {
            let mut t = opened();
            let due = leaves(&mut t);
            t.now = due + Span::MILLI * late_ms;
            t.board.app.limited = limit;
            let mut n = 0;
            loop {
                n += 1;
                if leaves(&mut t) > t.now {
                    return n;
                }
                t.board.app.limited = next;
            }
        };
        // Those behind the first wait for the queue, or until the host has worked on it.
        for next in [Limit::Queue, Limit::Host] {
            assert_eq!(burst(0, Limit::Pace, next), 1);
            assert_eq!(burst(4, Limit::Pace, next), 2);
            // Two segments are the quantum.
            assert_eq!(burst(30, Limit::Pace, next), 3);
            assert_eq!(burst(30, Limit::Host, next), 3);
        }
        for limit in [Limit::Window, Limit::Source, Limit::Drain, Limit::Peer] {
            assert_eq!(
                burst(30, limit, Limit::Queue),
                1,
                "{limit:?}: it had not waited for its time"
            );
        }
    }

    #[test]
    fn before_it_is_open_it_learns_nothing() {
        let mut t = Bench::new(&BBR, &[]).unwrap();
        for signal in [Signal::Wrote, Signal::DupAck] {
            t.signal(signal);
        }
        assert_eq!((t.board.win.cwnd, t.probe("round")), (0, Some(0.0)));
    }
}
