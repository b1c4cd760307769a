//! Stations that always have something to send, and what became of it.
#![allow(dead_code)]

use wifu_radio::phy::{Mode, Phy, Standard};
use wifu_radio::plan::{Plan, RadioConfig};
use wifu_radio::{Event, Frame, Radio};
use wifu_wire::{Rate, Rng, Span, Time};

pub const MBIT: u64 = 1_000_000;

/// A source that keeps `depth` packets of `bytes` in a node's queue.
#[derive(Clone, Copy)]
pub struct Source {
    pub from: u16,
    pub to: Option<u16>,
    pub bytes: u16,
    pub depth: u32,
}

pub fn saturate(from: u16, to: u16) -> Source {
    Source {
        from,
        to: Some(to),
        bytes: 1500,
        depth: 3,
    }
}

pub struct Run {
    pub radio: Radio,
    pub events: Vec<(Time, Event)>,
    pub sources: Vec<Source>,
}

impl Run {
    pub fn new(plan: &Plan, seed: u64, sources: &[Source]) -> Run {
        let mut run = Run {
            radio: Radio::new(plan, &Rng::new(seed)),
            events: Vec::new(),
            sources: sources.to_vec(),
        };
        for (i, source) in sources.iter().enumerate() {
            for _ in 0..source.depth {
                run.push(Time::ZERO, i);
            }
        }
        run.drain(Time::ZERO);
        run
    }

    fn push(&mut self, now: Time, i: usize) {
        let s = self.sources[i];
        let frame = Frame {
            to: s.to,
            bytes: s.bytes,
            cookie: i as u32,
        };
        assert!(self.radio.send(now, s.from, frame));
    }

    fn drain(&mut self, now: Time) {
        while let Some(event) = self.radio.poll_event() {
            if let Event::Done { cookie, .. } = event {
                self.push(now, cookie as usize);
            }
            self.events.push((now, event));
        }
    }

    pub fn until(&mut self, end: Time) -> &mut Run {
        loop {
            let at = self.radio.poll_timeout();
            if at > end {
                return self;
            }
            self.radio.handle_timeout(at);
            self.drain(at);
        }
    }

    /// Packets received at a node between two times.
    pub fn received(&self, node: u16, from: Time, to: Time) -> u64 {
        let at = |e: &&(Time, Event)| {
            matches!(e.1, Event::Received { node: n, .. } if n == node) && e.0 >= from && e.0 < to
        };
        self.events.iter().filter(at).count() as u64
    }
}

/// All stations within reach of each other at 40 dB.
pub fn cell(phy: &Phy, radio: &RadioConfig, n: usize) -> Plan {
    let row = |i: usize| {
        (0..n)
            .map(|j| if i == j { f64::NAN } else { 40.0 })
            .collect()
    };
    let snr: Vec<Vec<f64>> = (0..n).map(row).collect();
    Plan::from_snr(phy.clone(), radio, &snr)
}

pub fn mode(standard: Standard, mbit: u64) -> Mode {
    Mode::from_rate(standard, Rate(mbit * MBIT)).expect("a rate of this standard")
}

pub fn secs(n: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(n)
}
