//! What is written down while a run goes on.

use super::air::Air;
use super::clock::Clock;
use super::events::{Class, What};
use crate::outcome::Series;
use crate::scenario::RecordSpec;
use std::collections::BTreeMap;
use wifu_engine::signal::Sent;
use wifu_engine::{Conn, Kind, Reason};
use wifu_wire::{Span, Time};

/// The series of one flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlowSeries {
    pub(crate) delivered: Series,
    pub(crate) cwnd: Series,
    pub(crate) srtt: Series,
    pub(crate) sent: Series,
    pub(crate) offered: Series,
    sampled: Option<Time>,
}

/// All series, and which are wanted.
pub(crate) struct Recorder {
    pub(crate) delivery: bool,
    pub(crate) windows: bool,
    pub(crate) all: bool,
    pub(crate) interval: Span,
    pub(crate) flows: Vec<FlowSeries>,
    /// Per node: queue length, delay in microseconds.
    pub(crate) nodes: Vec<[Series; 2]>,
}

impl Recorder {
    pub(crate) fn new(spec: &RecordSpec, flows: usize, nodes: usize) -> Recorder {
        let interval = spec.interval.map_or(Span::MILLI * 10, |i| i.0);
        Recorder {
            delivery: spec.series || spec.delivery,
            windows: spec.series || spec.cwnd,
            all: spec.series,
            interval: Span(interval.0.max(1)),
            flows: vec![FlowSeries::default(); flows],
            nodes: vec![Default::default(); if spec.series { nodes } else { 0 }],
        }
    }

    /// The flow's cumulative octets at the receiver's application.
    pub(crate) fn delivered(&mut self, flow: usize, now: Time, octets: u64) {
        if self.delivery {
            let point = (now.as_secs_f64(), octets as f64);
            self.flows[flow].delivered.push(point);
        }
    }

    /// The sender's window and round-trip time, at most once per interval.
    pub(crate) fn window(&mut self, flow: usize, now: Time, conn: &Conn) {
        let series = &mut self.flows[flow];
        if series.sampled.is_some_and(|at| now - at < self.interval) {
            return;
        }
        series.sampled = Some(now);
        let (t, board) = (now.as_secs_f64(), conn.board());
        series.cwnd.push((t, f64::from(board.win.cwnd)));
        if board.rtt.samples > 0 {
            series.srtt.push((t, board.rtt.srtt.as_secs_f64()));
        }
    }

    /// The sender sent data: its offset from the first octet, negative for repetitions. A SYN sent
    /// again is the repetition of nothing, but one.
    pub(crate) fn sent(&mut self, flow: usize, now: Time, conn: &Conn) {
        let tx = &conn.board().tx;
        let opens = |s: &Sent| s.kind == Kind::Control && s.seq == tx.iss && tx.syn_lost;
        let wanted = |s: &Sent| s.kind.is_data() || opens(s);
        let Some(sent) = conn.last_sent().filter(wanted) else {
            return;
        };
        let offset = f64::from(sent.seq.since(conn.board().tx.iss.plus(1)));
        let value = match sent.reason {
            Reason::First if sent.kind != Kind::Control => offset,
            // Octet 0 sent again must differ from octet 0 sent.
            _ => -offset.max(0.5),
        };
        self.flows[flow].sent.push((now.as_secs_f64(), value));
    }

    /// The flow's cumulative octets that its application had sent, repetitions excluded.
    pub(crate) fn offered(&mut self, flow: usize, now: Time, octets: u64) {
        let series = &mut self.flows[flow].offered;
        if series.last().map_or(0.0, |p| p.1) < octets as f64 {
            series.push((now.as_secs_f64(), octets as f64));
        }
    }

    /// Everything by name.
    pub(crate) fn take(&mut self, nodes: &[String]) -> BTreeMap<String, Series> {
        let mut all = BTreeMap::new();
        for (i, series) in self.flows.iter_mut().enumerate() {
            let named = [
                ("delivered", core::mem::take(&mut series.delivered)),
                ("cwnd", core::mem::take(&mut series.cwnd)),
                ("srtt", core::mem::take(&mut series.srtt)),
                ("sent", core::mem::take(&mut series.sent)),
                ("offered", core::mem::take(&mut series.offered)),
            ];
            for (name, points) in named {
                if !points.is_empty() {
                    all.insert(format!("flow.{}.{name}", i + 1), points);
                }
            }
        }
        for ([queue, delay], name) in self.nodes.iter_mut().zip(nodes) {
            let named = [("queue", queue), ("delay", delay)];
            for (what, points) in named {
                if !points.is_empty() {
                    all.insert(format!("node.{name}.{what}"), core::mem::take(points));
                }
            }
        }
        all
    }

    /// Look at every node's queue, and again an interval later.
    pub(crate) fn sample(&mut self, clock: &mut Clock, air: &Air) {
        let t = clock.now.as_secs_f64();
        for (i, [queue, delay]) in self.nodes.iter_mut().enumerate() {
            let Some(facts) = air.link(i as u16) else {
                continue;
            };
            if let Some(queued) = facts.queued {
                queue.push((t, f64::from(queued)));
            }
            if let Some(d) = facts.delay {
                delay.push((t, d.as_secs_f64() * 1e6));
            }
        }
        clock.push(clock.now + self.interval, Class::World, What::Sample);
    }
}
