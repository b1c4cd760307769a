//! When a run ends, and how far it is.

use crate::scenario::{Scenario, ScenarioError};
use wifu_wire::{Span, Time};

/// A run without an end in sight stops after a simulated day.
const PATIENCE: Span = Span(86_400_000_000_000);

/// Why a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndReason {
    /// All finite flows are done.
    Done,
    /// As many packets as wanted were delivered.
    Packets,
    /// Every flow that asks has as many answers, or files, as wanted, or gets no more.
    Requests,
    /// `stop.time`, or a day.
    Time,
    /// Nothing will ever happen again.
    Idle,
}

impl EndReason {
    /// The name in outcomes.
    pub fn name(self) -> &'static str {
        match self {
            EndReason::Done => "done",
            EndReason::Packets => "packets",
            EndReason::Requests => "requests",
            EndReason::Time => "time",
            EndReason::Idle => "idle",
        }
    }
}

/// How far a run is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// Simulated seconds.
    pub seconds: f64,
    /// Share that is done, 0 to 1, as far as one can tell.
    pub share: f64,
    /// It is over.
    pub ended: Option<EndReason>,
}

/// The rules and where they stand.
pub(crate) struct Stop {
    pub(crate) time: Time,
    packets: Option<u64>,
    batch: Option<u64>,
    /// Files or answers that each flow of such is to have.
    pub(crate) requests: Option<u64>,
    /// Flows that have not so many yet, and may.
    asking: usize,
    delivered: u64,
    next_batch: u64,
    /// Finite flows that are not done.
    waiting: usize,
    /// There are finite flows.
    finite: bool,
    /// The scenario says when it ends.
    pub(crate) timed: bool,
    pub(crate) batches_end: Vec<Time>,
    pub(crate) ended: Option<EndReason>,
}

impl Stop {
    /// The rules of a scenario whose flows of these numbers are finite.
    pub(crate) fn new(scenario: &Scenario, finite: usize) -> Result<Stop, ScenarioError> {
        let spec = &scenario.stop;
        let counted = spec.packets.or(spec.requests).is_some();
        if spec.time.is_none() && !counted && finite == 0 {
            let what = "no flow comes to an end by itself: say when to stop (`--stop 30s`, in a plan \
                        `stop.time = \"30s\"`), or give a flow bytes=1M or time=10s";
            return Err(ScenarioError::key("stop.time", what));
        }
        Ok(Stop {
            time: Time::ZERO + spec.time.map_or(PATIENCE, |t| t.0),
            packets: spec.packets,
            batch: spec.batch,
            requests: spec.requests,
            asking: scenario.flow.iter().filter(|f| f.app.asks()).count(),
            delivered: 0,
            next_batch: spec.batch.unwrap_or(u64::MAX),
            waiting: finite,
            finite: finite > 0,
            timed: spec.time.is_some(),
            batches_end: Vec::new(),
            ended: None,
        })
    }

    /// Full segments (or datagrams) of a flow were delivered; says how many batches that ends.
    pub(crate) fn count(&mut self, now: Time, n: u64) -> usize {
        self.delivered += n;
        let before = self.batches_end.len();
        while self.delivered >= self.next_batch {
            self.next_batch += self.batch.unwrap_or(u64::MAX);
            self.batches_end.push(now);
        }
        if self.packets.is_some_and(|p| self.delivered >= p) {
            self.ended.get_or_insert(EndReason::Packets);
        }
        self.batches_end.len() - before
    }

    /// One more finite flow has nothing left to do.
    pub(crate) fn flow_done(&mut self) {
        self.waiting -= 1;
        if self.waiting == 0 && self.packets.or(self.requests).is_none() {
            self.ended.get_or_insert(EndReason::Done);
        }
    }

    /// A flow that asks has so many answers, or files, by now.
    pub(crate) fn answered(&mut self, count: usize) {
        if self.requests == Some(count as u64) {
            self.asks_less();
        }
    }

    /// A flow that asks gets no more than so many: nobody waits for it any longer.
    pub(crate) fn asks_no_more(&mut self, count: usize) {
        if self.requests.is_some_and(|wanted| (count as u64) < wanted) {
            self.asks_less();
        }
    }

    fn asks_less(&mut self) {
        self.asking -= 1;
        if self.asking == 0 {
            self.ended.get_or_insert(EndReason::Requests);
        }
    }

    /// How far the run is at `now`; `least` is the share of the flow that is least far, of those
    /// that decide when it ends.
    pub(crate) fn progress(&self, now: Time, least: impl FnOnce() -> f64) -> Progress {
        let of_time = now.as_secs_f64() / self.time.as_secs_f64().max(1e-9);
        let mut share = if self.timed { of_time } else { 0.0 };
        if let Some(packets) = self.packets {
            share = share.max(self.delivered as f64 / packets as f64);
        } else if self.finite || self.requests.is_some() {
            share = share.max(least());
        }
        Progress {
            seconds: now.as_secs_f64(),
            share: if self.ended.is_some() {
                1.0
            } else {
                share.clamp(0.0, 1.0)
            },
            ended: self.ended,
        }
    }
}
