//! What is written down while a run goes on.

use super::flow::Flow;
use super::forward::Forwarding;
use super::nodes::Splitting;
use crate::outcome::Series;
use crate::scenario::{RecordSpec, ScenarioError, SeriesSpec};
use std::collections::{BTreeMap, BTreeSet};
use wifu_engine::quantity::Watched;
use wifu_engine::signal::Sent;
use wifu_engine::{Blueprint, Conn, Facts, Kind, Reason};
use wifu_node::Half;
use wifu_radio::plan::Plan;
use wifu_wire::{Span, Time, names};

/// The series of one flow.
#[derive(Clone, Debug, Default)]
struct FlowSeries {
    delivered: Series,
    cwnd: Series,
    srtt: Series,
    sent: Series,
    offered: Series,
    delay: Series,
    sampled: Option<Time>,
}

/// A number of a connection, looked at once an interval.
struct Sampled {
    /// Of its series.
    name: String,
    flow: usize,
    whose: Whose,
    of: Watched,
    points: Series,
}

/// Whose number it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whose {
    /// The connection's of the sender (0) or the receiver (1); of questions and answers, who
    /// answers is the sender.
    End(usize),
    /// That of the lane of this node, from where the flow begins to its target: of questions and
    /// answers that of the questions.
    Lane(u16),
    /// That of a half at this node, which splits it.
    Half(u16, Half),
}

/// All series, and which are wanted.
pub(crate) struct Recorder {
    pub(crate) delivery: bool,
    pub(crate) windows: bool,
    /// Segments as they are sent: `sent` and `offered`.
    pub(crate) segments: bool,
    /// How long each datagram was on its way.
    transits: bool,
    pub(crate) interval: Span,
    flows: Vec<FlowSeries>,
    /// Per node: queue length, delay in microseconds.
    nodes: Vec<[Series; 2]>,
    sampled: Vec<Sampled>,
    /// All others are thrown away; `None` if all are wanted.
    wanted: Option<BTreeSet<String>>,
}

/// Series of flows that are written as things happen.
const DELIVERED: &str = "delivered";
const SEGMENTS: [&str; 2] = ["sent", "offered"];
/// Of datagrams alone.
const TRANSIT: &str = "delay";
/// Series of nodes.
const QUEUES: [&str; 2] = ["queue", "delay"];

fn of_flow(flow: usize, name: &str) -> String {
    format!("flow.{}.{name}", flow + 1)
}

/// A sender's window in octets, if it has one, and its smoothed round-trip time in seconds, if it
/// knows one.
fn looked_at(conn: &Conn) -> [Option<f64>; 2] {
    let board = conn.board();
    let window = conn.blueprint().writes(Facts::WIN);
    [
        // It is zero until there is a connection.
        (window && board.win.cwnd > 0).then(|| f64::from(board.win.cwnd)),
        (board.rtt.samples > 0).then(|| board.rtt.srtt.as_secs_f64()),
    ]
}

fn of_node(node: &str, name: &str) -> String {
    format!("node.{node}.{name}")
}

/// Whose number a name is, of a flow of this composition: the sender's, the receiver's (`peer.`),
/// that of a node's lane (`NODE.`), or of a half at a node that splits (`NODE.near.`, `NODE.far.`).
fn whose(
    blueprint: &Blueprint,
    name: &str,
    (plan, splits): (&Plan, &[Splitting]),
) -> Result<(Whose, Watched), String> {
    let (first, rest) = name.split_once('.').unwrap_or(("", name));
    let node = plan.nodes.iter().position(|n| n.name == first);
    match (first, node) {
        ("peer", _) => Ok((Whose::End(1), blueprint.watched(rest)?)),
        (_, Some(node)) => {
            let split = splits.iter().find(|s| usize::from(s.node) == node);
            let half = |h: &Half| rest.strip_prefix(h.name())?.strip_prefix('.');
            let half = Half::ALL.into_iter().find_map(|h| Some((h, half(&h)?)));
            if let (Some(split), Some((half, rest))) = (split, half) {
                let of = split.halves[half as usize].watched(rest)?;
                return Ok((Whose::Half(node as u16, half), of));
            }
            let lane = blueprint.lane.as_ref().ok_or_else(|| {
                format!(
                    "{} has no lane: nodes on the way know nothing",
                    blueprint.name
                )
            })?;
            Ok((Whose::Lane(node as u16), lane.watched(rest)?))
        }
        _ => Ok((Whose::End(0), blueprint.watched(name)?)),
    }
}

impl Recorder {
    /// What `spec` asks for.
    ///
    /// # Errors
    /// A name of a series that there is not, with the nearest.
    pub(crate) fn new(
        spec: &RecordSpec,
        flows: &[Flow],
        plan: &Plan,
        splits: &[Splitting],
    ) -> Result<Recorder, ScenarioError> {
        let (interval, usual) = (
            spec.interval.map_or(Span::MILLI * 10, |i| i.0),
            spec.series.usual(),
        );
        let mut recorder = Recorder {
            delivery: usual || spec.delivery,
            windows: usual || spec.cwnd,
            segments: usual,
            transits: false,
            interval: Span(interval.0.max(1)),
            flows: vec![FlowSeries::default(); flows.len()],
            nodes: vec![Default::default(); if usual { plan.nodes.len() } else { 0 }],
            sampled: Vec::new(),
            wanted: None,
        };
        if !usual && !spec.series.names().is_empty() {
            let flags = [
                (spec.delivery, DELIVERED),
                (spec.cwnd, "cwnd"),
                (spec.cwnd, "srtt"),
            ];
            let wanted = flags.into_iter().filter(|(on, _)| *on);
            let each = wanted.flat_map(|(_, n)| (0..flows.len()).map(move |f| of_flow(f, n)));
            recorder.wanted = Some(each.collect());
        }
        for (i, name) in spec.series.names().iter().enumerate() {
            let found = match name.split_once('.') {
                None if name == SeriesSpec::ALL => Ok(()),
                Some(("flow", rest)) => recorder.want_of_flows(rest, flows, (plan, splits)),
                Some(("node", rest)) => recorder.want_of_nodes(rest, plan),
                _ => Err(String::from(
                    "write flow.1.cwnd, flow.*.cwnd, flow.1.peer.window, flow.1.n2.PART.PROBE of a \
                     lane, flow.1.n2.far.cwnd where n2 splits, node.n1.queue, or all",
                )),
            };
            let at = || format!("record.series[{i}]");
            found.map_err(|what| ScenarioError::key(at(), format!("\"{name}\": {what}")))?;
        }
        Ok(recorder)
    }

    /// `N.NAME`, `N.peer.NAME`; `*` stands for all flows that know the name.
    fn want_of_flows(
        &mut self,
        rest: &str,
        flows: &[Flow],
        plan: (&Plan, &[Splitting]),
    ) -> Result<(), String> {
        let Some((number, name)) = rest.split_once('.') else {
            return Err(String::from("write flow.NUMBER.NAME, as in flow.1.cwnd"));
        };
        if number == "*" {
            let each = (0..flows.len()).map(|i| self.want_of_flow(i, name, &flows[i], plan));
            let results: Vec<_> = each.collect();
            return match results.iter().any(Result::is_ok) {
                true => Ok(()),
                false => results.into_iter().next().unwrap_or(Ok(())),
            };
        }
        let index = number.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
        let known = index.and_then(|i| Some((i, flows.get(i)?)));
        let count = flows.len();
        let (i, flow) = known.ok_or_else(|| format!("flows are numbered from 1 to {count}"))?;
        self.want_of_flow(i, name, flow, plan)
    }

    /// `N.NAME`, `N.peer.NAME`, `N.NODE.NAME`, `N.NODE.far.NAME`.
    fn want_of_flow(
        &mut self,
        i: usize,
        name: &str,
        flow: &Flow,
        plan: (&Plan, &[Splitting]),
    ) -> Result<(), String> {
        let full = of_flow(i, name);
        let segments = SEGMENTS.contains(&name);
        if segments || name == DELIVERED {
            self.segments |= segments;
            self.delivery |= !segments;
        } else if name == TRANSIT && flow.udp.is_some() {
            self.transits = true;
        } else {
            let Some(blueprint) = &flow.blueprint else {
                let what = "this flow has datagrams and no connection: it knows delivered, \
                            offered, delay";
                return Err(String::from(what));
            };
            let (whose, of) = whose(blueprint, name, plan)?;
            let flow = i;
            if !self.sampled.iter().any(|s| s.name == full) {
                let (name, points) = (full.clone(), Series::new());
                self.sampled.push(Sampled {
                    name,
                    flow,
                    whose,
                    of,
                    points,
                });
            }
        }
        if let Some(wanted) = &mut self.wanted {
            wanted.insert(full);
        }
        Ok(())
    }

    /// `NAME.queue`, `NAME.delay`; `*` stands for all nodes.
    fn want_of_nodes(&mut self, rest: &str, plan: &Plan) -> Result<(), String> {
        let found = rest
            .rsplit_once('.')
            .filter(|(_, what)| QUEUES.contains(what));
        let Some((node, what)) = found else {
            return Err(String::from(
                "nodes know queue and delay, as in node.n1.queue",
            ));
        };
        let names = || plan.nodes.iter().map(|n| n.name.as_str());
        if node != "*" && !names().any(|n| n == node) {
            return Err(names::unknown("node", node, names()));
        }
        self.nodes.resize_with(plan.nodes.len(), Default::default);
        if let Some(wanted) = &mut self.wanted {
            let meant = names().filter(|n| node == "*" || *n == node);
            wanted.extend(meant.map(|n| of_node(n, what)));
        }
        Ok(())
    }

    /// Something is looked at once an interval.
    pub(crate) fn samples(&self) -> bool {
        self.windows || !self.nodes.is_empty() || !self.sampled.is_empty()
    }

    /// The numbers of connections now. One that its connection does not know is NaN.
    pub(crate) fn values<'a>(
        &mut self,
        now: Time,
        conn: impl Fn(usize, Whose) -> Option<&'a Conn>,
    ) {
        let t = now.as_secs_f64();
        for sampled in &mut self.sampled {
            if let Some(conn) = conn(sampled.flow, sampled.whose) {
                let value = conn.value(sampled.of).unwrap_or(f64::NAN);
                sampled.points.push((t, value));
            }
        }
    }

    /// The flow's cumulative octets at the receiver's application.
    pub(crate) fn delivered(&mut self, flow: usize, now: Time, octets: u64) {
        if self.delivery {
            let point = (now.as_secs_f64(), octets as f64);
            self.flows[flow].delivered.push(point);
        }
    }

    /// A datagram of the flow was on its way for so long, and is where it was to go.
    pub(crate) fn transit(&mut self, flow: usize, now: Time, took: Span) {
        if self.transits {
            let point = (now.as_secs_f64(), took.as_secs_f64());
            self.flows[flow].delay.push(point);
        }
    }

    /// Whether a sender's window or round-trip time is another one than was last written down.
    pub(crate) fn differs(&self, flow: usize, conn: &Conn) -> bool {
        let (series, [cwnd, srtt]) = (&self.flows[flow], looked_at(conn));
        let other = |of: &Series, is: Option<f64>| is.is_some() && of.last().map(|p| p.1) != is;
        other(&series.cwnd, cwnd) || other(&series.srtt, srtt)
    }

    /// The sender's window, if it has one, and round-trip time as they change, at most once per
    /// interval.
    pub(crate) fn window(&mut self, flow: usize, now: Time, conn: &Conn) {
        let series = &mut self.flows[flow];
        if series.sampled.is_some_and(|at| now - at < self.interval) {
            return;
        }
        series.sampled = Some(now);
        let (t, [cwnd, srtt]) = (now.as_secs_f64(), looked_at(conn));
        series.cwnd.extend(cwnd.map(|octets| (t, octets)));
        series.srtt.extend(srtt.map(|seconds| (t, seconds)));
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
        let opens = sent.kind == Kind::Control;
        // A SYN stands before the first octet.
        let offset = match opens {
            true => 0.0,
            false => f64::from(conn.position(sent.seq)),
        };
        let value = match sent.reason {
            Reason::First if !opens => offset,
            // Octet 0 retransmitted must differ from octet 0 sent.
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
                (DELIVERED, core::mem::take(&mut series.delivered)),
                ("cwnd", core::mem::take(&mut series.cwnd)),
                ("srtt", core::mem::take(&mut series.srtt)),
                (SEGMENTS[0], core::mem::take(&mut series.sent)),
                (SEGMENTS[1], core::mem::take(&mut series.offered)),
                (TRANSIT, core::mem::take(&mut series.delay)),
            ];
            for (name, points) in named {
                all.insert(of_flow(i, name), points);
            }
        }
        for (series, name) in self.nodes.iter_mut().zip(nodes) {
            for (what, points) in QUEUES.into_iter().zip(series) {
                all.insert(of_node(name, what), core::mem::take(points));
            }
        }
        if let Some(wanted) = &self.wanted {
            all.retain(|name, _| wanted.contains(name));
        }
        // The usual ones are written as things change: they say more than samples.
        all.retain(|_, points| !points.is_empty());
        for sampled in &mut self.sampled {
            let points = core::mem::take(&mut sampled.points);
            if !points.is_empty() {
                all.entry(sampled.name.clone()).or_insert(points);
            }
        }
        all
    }

    /// Every node's queues now: of its radio and of the wires that begin there; and its radio's
    /// delay.
    pub(crate) fn queues(&mut self, now: Time, net: &Forwarding) {
        if self.nodes.is_empty() {
            return;
        }
        let t = now.as_secs_f64();
        let mut queued: Vec<Option<u32>> = vec![None; self.nodes.len()];
        for wire in &net.wires {
            let own = &mut queued[usize::from(wire.from)];
            *own = Some(own.unwrap_or(0) + wire.facts(now).queued.unwrap_or(0));
        }
        for (i, [queue, delay]) in self.nodes.iter_mut().enumerate() {
            let facts = net.air.link(i as u16);
            let radio = facts.as_ref().and_then(|f| f.queued);
            if radio.is_some() || queued[i].is_some() {
                let all = radio.unwrap_or(0) + queued[i].unwrap_or(0);
                queue.push((t, f64::from(all)));
            }
            if let Some(d) = facts.and_then(|f| f.delay) {
                delay.push((t, d.as_secs_f64() * 1e6));
            }
        }
    }
}
