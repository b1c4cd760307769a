//! A paced window in the shape of TCP-AP: a gate beside TCP's own parts, which don't know of it.

use core::num::NonZeroU8;

use wifu_engine::descriptor::DEADLINE;
use wifu_engine::kit::Pace;
use wifu_engine::signal::RttSample;
use wifu_engine::{
    Admit, Board, Component, Cx, Descriptor, Facts, Limit, Out, ParamSpec, Permit, Role, Segment,
    Signal, Want,
};
use wifu_wire::{Note, Rate, Span, Time};

/// The composition, as text.
pub const PROTOCOL: &str = include_str!("paced.toml");

/// Four times the delay of one hop between packets, more when round trips vary. As long as the hops
/// of the path are not known it counts one. The received signal strength is for the record only
/// (probe `rssi_dbm`): where frames have none, as over wires and in the mock network, there is no
/// such number and nothing else changes. So it requires no fact of a substrate.
pub static PACED: Descriptor = Descriptor {
    name: "four-hop-delay",
    role: Role::Gate,
    doc: "Spaces data by the delay of a few hops, estimated from round trips. While the hops of the \
          path are not known it counts one.",
    params: &[
        ParamSpec::rate(
            "bandwidth",
            Rate(24_000_000),
            Rate(1_000),
            Rate(10_000_000_000),
            "Rate of the links.",
        ),
        ParamSpec::real("hop_factor", 4.0, 1.0, 5.0, "Hops that share the medium."),
        ParamSpec::real("alpha", 0.7, 0.0, 1.0, "Weight of the old delay."),
        ParamSpec::span(
            "worth",
            Span::ZERO,
            Span::ZERO,
            Span(60_000_000_000),
            "How long a node may take to send data on before they are not worth it (annotation \
             `deadline`); 0: as long as it likes.",
        ),
    ],
    notes: &[DEADLINE],
    probes: &[
        "gap_us", "delay_us", "samples", "hops", "rssi_dbm", "host_us",
    ],
    reads: Facts::PATH,
    wants: Facts::CONN,
    hears: &[("rtt", &[]), ("sent", &[])],
    hooks: &["segment", "permit", "stamp"],
    build: |p| {
        Ok(Box::new(Paced {
            bandwidth: p.rate("bandwidth"),
            factor: p.real("hop_factor"),
            alpha: p.real("alpha"),
            samples: [0.0; HISTORY],
            count: 0,
            delay_s: 0.0,
            hops: None,
            rssi_dbm: None,
            host: None,
            worth: (p.span("worth"), p.note("deadline")),
            pace: Pace::default(),
        }))
    },
    ..Descriptor::EMPTY
};

const HISTORY: usize = 50;

struct Paced {
    bandwidth: Rate,
    factor: f64,
    alpha: f64,
    samples: [f64; HISTORY],
    count: usize,
    delay_s: f64,
    /// Of the path; nobody says before a segment came.
    hops: Option<NonZeroU8>,
    /// Of the last segment that came by radio.
    rssi_dbm: Option<i8>,
    /// How long the last segment had been at this host, where that is known.
    host: Option<Span>,
    /// How long data are worth sending, and the annotation that says it.
    worth: (Span, Note),
    pace: Pace,
}

impl Paced {
    fn sample(&mut self, s: &RttSample, board: &Board) {
        let rtt_s = s.rtt.as_secs_f64();
        if rtt_s <= 0.0 || rtt_s > 30.0 {
            return;
        }
        self.samples[self.count % HISTORY] = rtt_s;
        self.count += 1;
        let n = self.count.min(HISTORY);
        let mean = self.samples[..n].iter().sum::<f64>() / n as f64;
        let squares = |x: &f64| (x - mean) * (x - mean);
        let var = self.samples[..n].iter().map(squares).sum::<f64>() / (n - 1).max(1) as f64;
        // The handshake's sample counts for a full segment.
        let full = board.conn.mss + board.conn.overhead;
        let data = if self.count == 1 { full } else { s.data_bytes };
        let extra_s = (f64::from(data) - f64::from(s.ack_bytes)) * 8.0 / self.bandwidth.0 as f64;
        self.hops = board.path.hops;
        let hops = f64::from(self.hops.map_or(1, u8::from));
        let delay_s = self.factor / 2.0 * (rtt_s / hops + extra_s);
        self.delay_s = match self.count {
            1 => delay_s,
            _ => self.alpha * self.delay_s + (1.0 - self.alpha) * delay_s,
        };
        let gap_s = self.delay_s * (1.0 + 2.0 * var.sqrt() / mean);
        self.pace.set_gap(Span::from_secs_f64(gap_s));
    }
}

impl Component for Paced {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        self.rssi_dbm = seg.frame.rssi_dbm.or(self.rssi_dbm);
        self.host = seg.frame.received.map(|at| cx.now - at.time());
        Admit::Pass
    }

    fn stamp(&mut self, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let (worth, note) = self.worth;
        if worth > Span::ZERO && out.kind.in_turn() {
            out.aside.notes.set_time(note, cx.now + worth);
        }
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        match signal {
            Signal::Rtt(s) => self.sample(s, &cx.board),
            Signal::Sent(s) if s.kind.in_turn() => self.pace.sent(cx.now, s.late),
            _ => {}
        }
    }

    fn permit(&self, want: &Want, _board: &Board, _now: Time) -> Permit {
        if want.kind.in_turn() {
            Permit::at(self.pace.due(), Limit::Pace)
        } else {
            Permit::OPEN
        }
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("gap_us", self.pace.gap().micros() as f64);
        probe("delay_us", self.delay_s * 1e6);
        probe("samples", self.count as f64);
        if let Some(hops) = self.hops {
            probe("hops", f64::from(u8::from(hops)));
        }
        if let Some(dbm) = self.rssi_dbm {
            probe("rssi_dbm", f64::from(dbm));
        }
        if let Some(host) = self.host {
            probe("host_us", host.micros() as f64);
        }
    }
}
