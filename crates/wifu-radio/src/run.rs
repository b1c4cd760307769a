//! What medium and MAC share of a run: the time, what is awaited, and what is told of it.

use crate::event::{Event, OnAir};
use crate::queue::Queue;
use crate::signal::Signal;
use crate::trace::{FrameKind, NOBODY, Record, What, Why};
use std::collections::VecDeque;
use wifu_wire::{Rng, Time};

pub(crate) struct Run {
    pub now: Time,
    pub queue: Queue,
    /// What nodes have to learn.
    pub events: VecDeque<Event>,
    /// Depends on every transmission and its fate so far.
    pub hash: u64,
    pub tracing: bool,
    pub trace: Vec<Record>,
    pub watching: bool,
    pub aired: Vec<OnAir>,
}

impl Run {
    /// Before anything happens.
    pub fn new(stations: usize, rng: &Rng) -> Run {
        Run {
            now: Time::ZERO,
            queue: Queue::new(stations, rng),
            events: VecDeque::with_capacity(256),
            hash: 0xCBF2_9CE4_8422_2325,
            tracing: false,
            trace: Vec::new(),
            watching: false,
            aired: Vec::new(),
        }
    }

    pub fn note(&mut self, a: u64, b: u64) {
        let x = self.now.0 ^ a.rotate_left(48) ^ b.rotate_left(24);
        self.hash = (self.hash ^ x).wrapping_mul(0x0000_0100_0000_01B3);
    }

    pub fn entry(&self, what: What, frame: u32, node: u16, peer: u16) -> Record {
        Record {
            time: self.now,
            frame,
            node,
            peer,
            what,
            mode: 0,
            tries: 0,
            why: Why::None,
            bytes: 0,
            signal: 0,
            other: NOBODY,
            kind: FrameKind::Data,
            flags: 0,
            value: 0,
        }
    }

    // Only who asked for a trace pays: what fills the record stays out of the way, too.
    #[cold]
    pub fn record(&mut self, record: Record) {
        self.trace.push(record);
    }

    /// A transmission begins, and somebody looks.
    #[cold]
    pub fn show(&mut self, s: &Signal) {
        if self.watching {
            self.aired.push(OnAir {
                start: s.start,
                end: s.end,
                from: s.from,
                to: (s.to != NOBODY).then_some(s.to),
                kind: s.kind,
                mode: s.mode,
                retry: s.retry,
                seq: s.seq,
                bytes: s.bytes,
                duration: s.duration,
                cookie: s.cookie,
            });
        }
        if self.tracing {
            let length = s.end - s.start;
            self.record(Record {
                mode: s.mode.0,
                bytes: s.bytes as u16,
                kind: s.kind,
                flags: u8::from(s.retry),
                value: length.0.min(u64::from(u32::MAX)) as u32,
                ..self.entry(What::Sent, s.frame, s.from, s.to)
            });
        }
    }
}
