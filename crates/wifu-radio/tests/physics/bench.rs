//! A scene: packets handed over at given times or as fast as the hardware takes them, and a record
//! of all that happened.

use crate::common::*;
use wifu_radio::error::ErrorModel;
use wifu_radio::phy::{Mode, Phy, Standard};
use wifu_radio::plan::{Plan, RadioConfig};
use wifu_radio::trace::{FrameKind, Record, What};
use wifu_radio::{Event, Frame, OnAir, Radio};
use wifu_wire::{Rng, Span, Time};

/// Not heard at all.
pub const NONE: f64 = f64::NAN;

/// A time in microseconds.
pub fn us(n: f64) -> Time {
    Time((n * 1e3).round() as u64)
}

pub fn micros(s: Span) -> f64 {
    s.0 as f64 / 1e3
}

pub struct Scene {
    pub radio: Radio,
    pub now: Time,
    pub events: Vec<(Time, Event)>,
    pub aired: Vec<OnAir>,
    pub trace: Vec<Record>,
    /// Packets to come, latest first.
    script: Vec<(Time, u16, Frame)>,
    /// A report of this cookie is followed by the same packet again.
    again: Vec<Option<(u16, Frame)>>,
    pub refused: u64,
    /// Packets handed over: cookie, whether the queue took it.
    pub handed: Vec<(u32, bool)>,
}

impl Scene {
    pub fn new(plan: &Plan, seed: u64) -> Scene {
        let mut radio = Radio::new(plan, &Rng::new(seed));
        radio.set_watching(true);
        radio.set_tracing(true);
        Scene {
            radio,
            now: Time::ZERO,
            events: Vec::new(),
            aired: Vec::new(),
            trace: Vec::new(),
            script: Vec::new(),
            again: Vec::new(),
            refused: 0,
            handed: Vec::new(),
        }
    }

    /// A scene of 802.11a radios with these SNRs, in dB.
    pub fn of(snr: &[Vec<f64>], radio: &RadioConfig, seed: u64) -> Scene {
        let phy = Phy::new(Standard::A, false);
        Scene::new(&Plan::from_snr(phy, radio, snr), seed)
    }

    /// One packet of `bytes` at `at`, its cookie is the answer.
    pub fn send(&mut self, at: Time, from: u16, to: Option<u16>, bytes: u16) -> u32 {
        let cookie = self.again.len() as u32;
        self.again.push(None);
        let frame = Frame { to, bytes, cookie };
        let place = self.script.partition_point(|s| s.0 > at);
        self.script.insert(place, (at, from, frame));
        cookie
    }

    /// A source that is never empty: two packets are always waiting.
    pub fn saturate(&mut self, from: u16, to: Option<u16>, bytes: u16) {
        for _ in 0..3 {
            let cookie = self.send(self.now, from, to, bytes);
            let frame = Frame { to, bytes, cookie };
            self.again[cookie as usize] = Some((from, frame));
        }
    }

    /// Packets at exponential intervals: no memory, `rate` per second.
    pub fn poisson(
        &mut self,
        rng: &mut Rng,
        rate: f64,
        end: Time,
        packet: (u16, Option<u16>, u16),
    ) {
        let mut at = self.now;
        loop {
            at += Span::from_secs_f64(-(1.0 - rng.unit()).ln() / rate);
            if at >= end {
                return;
            }
            self.send(at, packet.0, packet.1, packet.2);
        }
    }

    fn hand_over(&mut self, now: Time, from: u16, frame: Frame) {
        let taken = self.radio.send(now, from, frame);
        self.refused += u64::from(!taken);
        self.handed.push((frame.cookie, taken));
        self.drain(now);
    }

    fn drain(&mut self, now: Time) {
        while let Some(event) = self.radio.poll_event() {
            self.events.push((now, event));
            if let Event::Done { cookie, .. } = event
                && let Some((from, frame)) = self.again[cookie as usize]
            {
                assert!(self.radio.send(now, from, frame));
            }
        }
        self.aired.append(&mut self.radio.take_aired());
        self.trace.append(&mut self.radio.take_trace());
    }

    /// How many packets there were.
    pub fn packets(&self) -> usize {
        self.again.len()
    }

    /// Everything up to and including `end`.
    pub fn until(&mut self, end: Time) -> &mut Scene {
        loop {
            let due = self.radio.poll_timeout();
            let scripted = self.script.last().map_or(Time::NEVER, |s| s.0);
            let next = due.min(scripted);
            if next > end || next == Time::NEVER {
                self.now = end;
                return self;
            }
            self.now = next;
            if due <= scripted {
                self.radio.handle_timeout(due);
                self.drain(due);
            } else if let Some((at, from, frame)) = self.script.pop() {
                self.hand_over(at, from, frame);
            }
        }
    }

    /// Data frames of a station on the air.
    pub fn data(&self, from: u16) -> Vec<OnAir> {
        self.sent(from, FrameKind::Data)
    }

    pub fn sent(&self, from: u16, kind: FrameKind) -> Vec<OnAir> {
        let mine = |a: &&OnAir| a.from == from && a.kind == kind;
        self.aired.iter().filter(mine).copied().collect()
    }

    /// Times at which a station received packets from another.
    pub fn got(&self, node: u16, from: u16) -> Vec<(Time, u32)> {
        let pick = |(at, e): &(Time, Event)| match *e {
            Event::Received {
                node: n,
                from: f,
                cookie,
                ..
            } if n == node && f == from => Some((*at, cookie)),
            _ => None,
        };
        self.events.iter().filter_map(pick).collect()
    }

    /// Packets finished at a station: cookie, delivered, tries.
    pub fn done(&self, node: u16) -> Vec<(u32, bool, u8)> {
        let pick = |(_, e): &(Time, Event)| match *e {
            Event::Done {
                node: n,
                cookie,
                delivered,
                tries,
                ..
            } if n == node => Some((cookie, delivered, tries)),
            _ => None,
        };
        self.events.iter().filter_map(pick).collect()
    }

    pub fn records(&self, node: u16, what: What) -> Vec<Record> {
        let mine = |r: &&Record| r.node == node && r.what == what;
        self.trace.iter().filter(mine).copied().collect()
    }
}

/// 802.11a at `mbit`, one attempt, an interrupt per frame without latency, no capture beyond the
/// preamble: mechanisms are switched on where they are looked at.
pub fn plain(mbit: u64) -> RadioConfig {
    let phy = Phy::new(Standard::A, false);
    RadioConfig {
        attempts: 1,
        attempts_long: 1,
        intr_batch: 1,
        intr_latency: (Span::ZERO, Span::ZERO),
        mim_db: None,
        ..RadioConfig::new(&phy, mode_a(mbit))
    }
}

pub fn mode_a(mbit: u64) -> Mode {
    mode(Standard::A, mbit)
}

/// SNRs in dB by distance along a line of `n` stations: `by(hops)`.
pub fn line(n: usize, by: impl Fn(usize) -> f64) -> Vec<Vec<f64>> {
    let row = |i: usize| {
        let cell = |j: usize| if i == j { NONE } else { by(i.abs_diff(j)) };
        (0..n).map(cell).collect()
    };
    (0..n).map(row).collect()
}

/// Neighbours at `db`, everybody else out of reach.
pub fn beads(n: usize, db: f64) -> Vec<Vec<f64>> {
    line(n, |d| if d == 1 { db } else { NONE })
}

/// Two of these times overlap.
pub fn overlap(a: &OnAir, b: &OnAir) -> bool {
    a.start < b.end && b.start < a.end
}

/// How far the share `k` of `n` lies from `p`, in standard deviations.
pub fn deviations(k: usize, n: usize, p: f64) -> f64 {
    let n = n as f64;
    (k as f64 - n * p) / (n * p * (1.0 - p)).sqrt()
}

/// The geometry of many ns-2 studies: received power falls with the fourth power of distance,
/// frames are decoded up to 250 m and sensed up to 550 m, the first sensed frame is followed, and
/// whatever comes within 10 dB of it destroys it.
pub fn ns2(phy: &Phy, rate: Mode, control: Mode, at: &[f64]) -> Plan {
    let db = |d: f64| 60.0 - 40.0 * (d / 250.0).log10();
    let mut radio = RadioConfig {
        control_rates: vec![control],
        broadcast_rate: control,
        intr_batch: 1,
        lock_db: -100.0,
        capture_db: f64::INFINITY,
        mim_db: None,
        queue: 50,
        ring: 1,
        error: ErrorModel::Ideal { threshold_db: 10.0 },
        ..RadioConfig::new(phy, rate)
    };
    radio.cs_dbm = radio.noise_dbm + db(550.0) - 0.01;
    radio.decode_dbm = radio.noise_dbm + db(250.0) - 0.01;
    let row = |i: usize| {
        let cell = |j: usize| {
            if i == j {
                NONE
            } else {
                db((at[i] - at[j]).abs())
            }
        };
        (0..at.len()).map(cell).collect()
    };
    let snr: Vec<Vec<f64>> = (0..at.len()).map(row).collect();
    Plan::from_snr(phy.clone(), &radio, &snr)
}
