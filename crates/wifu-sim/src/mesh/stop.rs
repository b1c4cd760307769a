//! When a run ends, and how far it is.

use super::Simulation;
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
    delivered: u64,
    next_batch: u64,
    /// Finite flows that are not done.
    pub(crate) waiting: usize,
    /// There are finite flows.
    finite: bool,
    pub(crate) batches_end: Vec<Time>,
    pub(crate) ended: Option<EndReason>,
}

impl Stop {
    /// The rules of a scenario whose flows of these numbers are finite.
    pub(crate) fn new(scenario: &Scenario, finite: usize) -> Result<Stop, ScenarioError> {
        let spec = &scenario.stop;
        if spec.time.is_none() && spec.packets.is_none() && finite == 0 {
            let what = "no flow comes to an end by itself: say when to stop";
            return Err(ScenarioError::key("stop.time", what));
        }
        Ok(Stop {
            time: Time::ZERO + spec.time.map_or(PATIENCE, |t| t.0),
            packets: spec.packets,
            batch: spec.batch,
            delivered: 0,
            next_batch: spec.batch.unwrap_or(u64::MAX),
            waiting: finite,
            finite: finite > 0,
            batches_end: Vec::new(),
            ended: None,
        })
    }
}

impl Simulation {
    /// Full segments (or datagrams) of a flow were delivered.
    pub(crate) fn count_packets(&mut self, n: u64) {
        self.stop.delivered += n;
        while self.stop.delivered >= self.stop.next_batch {
            self.stop.next_batch += self.stop.batch.unwrap_or(u64::MAX);
            self.stop.batches_end.push(self.now);
            for flow in &mut self.flows {
                let account = &mut flow.account;
                account.batches.push(account.bytes - account.batched);
                account.batched = account.bytes;
            }
        }
        if self.stop.packets.is_some_and(|p| self.stop.delivered >= p) {
            self.stop.ended.get_or_insert(EndReason::Packets);
        }
    }

    /// A flow has nothing left to do.
    pub(crate) fn flow_done(&mut self, flow: u32) {
        let flow = &mut self.flows[flow as usize];
        if core::mem::replace(&mut flow.done, true) || !flow.finite {
            return;
        }
        self.stop.waiting -= 1;
        if self.stop.waiting == 0 && self.stop.packets.is_none() {
            self.stop.ended.get_or_insert(EndReason::Done);
        }
    }

    /// How far the run is.
    pub fn progress(&self) -> Progress {
        let of_time = self.now.as_secs_f64() / self.stop.time.as_secs_f64().max(1e-9);
        let mut share = match self.scenario.stop.time {
            Some(_) => of_time,
            None => 0.0,
        };
        if let Some(packets) = self.stop.packets {
            share = share.max(self.stop.delivered as f64 / packets as f64);
        } else if self.stop.finite {
            let finite = self.flows.iter().filter(|f| f.finite);
            let least = finite.map(|f| match (f.done, f.spec.bytes) {
                (true, _) => 1.0,
                (false, Some(bytes)) => f.account.bytes as f64 / bytes.0.max(1) as f64,
                (false, None) => match (f.spec.time, f.account.start) {
                    (Some(t), Some(start)) => {
                        (self.now - start).as_secs_f64() / t.0.as_secs_f64().max(1e-9)
                    }
                    _ => match f.spec.count {
                        Some(count) => f.account.requests.len() as f64 / count.max(1) as f64,
                        None => 0.0,
                    },
                },
            });
            share = share.max(least.fold(1.0, f64::min));
        }
        Progress {
            seconds: self.now.as_secs_f64(),
            share: if self.stop.ended.is_some() {
                1.0
            } else {
                share.clamp(0.0, 1.0)
            },
            ended: self.stop.ended,
        }
    }
}
