//! The outcome of a run.

use super::Simulation;
use super::daemon::Daemon;
use super::flow::{Account, Flow, Totals};
use super::flows::Flows;
use super::forward::Forwarding;
use super::hops::HopSums;
use super::nodes::Nodes;
use super::wire::Wire;
use crate::outcome::{
    Asked, FlowOutcome, HandlerOutcome, HopOutcome, LinkOutcome, LostOutcome, NodeOutcome, Outcome,
    Outlasted, Percentiles, QueueOutcome, SCHEMA, WireOutcome, idle_disciplines,
};
use std::collections::BTreeMap;
use wifu_engine::{Blueprint, Endpoint, Facts, Limit};
use wifu_node::{Lanes, Node, Split, SplitCounters};
use wifu_radio::discipline::Discipline;
use wifu_radio::phy::RTS_OFF;
use wifu_radio::plan::{NodePlan, Plan};
use wifu_radio::trace::Why;
use wifu_wire::{Span, Time};

fn seconds(at: Option<Time>) -> Option<f64> {
    at.map(Time::as_secs_f64)
}

fn span(of: Option<Span>) -> Option<f64> {
    of.map(Span::as_secs_f64)
}

/// What was found so far. Series are handed over.
pub(crate) fn outcome(of: &mut Simulation) -> Outcome {
    let (net, nodes, flows) = (&of.net, &of.nodes, &of.flows);
    let name = |node: u16| of.plan.nodes[usize::from(node)].name.clone();
    let names: Vec<String> = (0..of.plan.nodes.len() as u16).map(name).collect();
    let mut inside = vec![0u64; flows.all.len()];
    for packet in net.pool.inside() {
        if let Some(n) = inside.get_mut(packet.flow as usize) {
            *n += 1;
        }
    }
    let inside = inside.into_iter().enumerate();
    let stop = &flows.stop;
    let mut found = Outcome {
        schema: SCHEMA.to_string(),
        seed: of.scenario.seed,
        run: of.scenario.run,
        sim_seconds: of.clock.now.as_secs_f64(),
        world: of.plan.world.clone(),
        end: stop.ended.map_or("stopped", |e| e.name()).to_string(),
        trace_hash: format!("{:016x}", of.clock.hash() ^ net.air.hash()),
        events: of.counted,
        warnings: idle_queues(of)
            .into_iter()
            .chain(rts_attempts(of))
            .collect(),
        flows: inside
            .map(|(i, n)| flow_outcome(of.clock.now, (flows, nodes), i, &names, n))
            .map(|flow| unserved(flow, (net, nodes, flows), &names))
            .map(|flow| halved(flow, (net, nodes, flows), &names))
            .collect(),
        batches_end_s: stop.batches_end.iter().map(|t| t.as_secs_f64()).collect(),
        nodes: node_outcomes(of.clock.now, (net, nodes), &of.plan, &names),
        links: link_outcomes(net, &names),
        wires: wire_outcomes(net, &names),
        hops: net
            .hops
            .iter()
            .map(|(flow, reverse, hop, sums)| hop_outcome(sums, flow, reverse, hop, &names))
            .collect(),
        withdrawals: of.daemon.as_ref().and_then(Daemon::withdrawals),
        series: of.flows.rec.take(&names),
    };
    found.warnings.extend(idle_splits(&found));
    found.warnings.extend(uncrossed(&found));
    let all = found.flows.iter().zip(&of.flows.all);
    let unpassed: Vec<String> = all.filter_map(|(f, flow)| unpassed(f, flow)).collect();
    found.warnings.extend(unpassed);
    found
}

/// What is to be said of disciplines above rings that hold all that waits. Wires have no ring.
fn idle_queues(of: &Simulation) -> Option<String> {
    let kind = of.scenario.host.queue.as_ref()?.kind.name();
    let managed = |(i, n): (usize, &NodePlan)| n.radio.discipline.is_some().then_some(i);
    let all = of.plan.nodes.iter().enumerate();
    let nodes: Vec<usize> = all.filter_map(managed).collect();
    let ring = of.plan.nodes[*nodes.first()?].radio.ring;
    let told = nodes.into_iter().map(|i| {
        let c = of.net.air.counters(i as u16);
        (of.plan.nodes[i].name.as_str(), c.waited, c.ring)
    });
    idle_disciplines(kind, ring, told)
}

/// The nodes that had nothing to split.
fn idle_splits(outcome: &Outcome) -> Option<String> {
    let idle = |s: &SplitCounters| s.taken == 0;
    let nodes = outcome
        .nodes
        .iter()
        .filter(|n| n.split.as_ref().is_some_and(idle));
    let names: Vec<&str> = nodes.map(|n| &n.name[..]).collect();
    (!names.is_empty()).then(|| {
        format!(
            "split: no connection passed {}, which had nothing to split: a node splits what it \
             relays, not what begins or ends there",
            names.join(", ")
        )
    })
}

/// What is to be said of wires, of which nothing crossed any though something was delivered.
fn uncrossed(outcome: &Outcome) -> Option<String> {
    let delivered = outcome.flows.iter().any(|f| f.bytes > 0);
    let crossed = outcome.wires.iter().any(|w| w.packets > 0);
    (delivered && !crossed && !outcome.wires.is_empty()).then(|| {
        String::from(
            "wires: no packet crossed any of them, for routes took the radios that their nodes \
             have, too: `wired_only` nodes have none, nor have those of `linear,3,wire=10M`",
        )
    })
}

/// What is to be said of a flow that nothing came of, because relays do not serve its lanes.
fn unpassed(told: &FlowOutcome, flow: &Flow) -> Option<String> {
    let laned = flow.blueprint.as_deref().is_some_and(|b| b.lane.is_some());
    if !laned || told.bytes > 0 || told.unserved_at.is_empty() {
        return None;
    }
    let name = told.protocol.split(',').next().unwrap_or_default();
    Some(format!(
        "flow {}: nothing was delivered, for {} on its way {} not serve {name}, whose nodes hand \
         packets to the next one and wait for what it says",
        told.id,
        told.unserved_at.join(", "),
        if told.unserved_at.len() == 1 {
            "does"
        } else {
            "do"
        },
    ))
}

/// What is to be said where the scenario set the attempts of frames and data follow an RTS, whose
/// attempts are others. Those of a testbed set are its own affair.
fn rts_attempts(of: &Simulation) -> Option<String> {
    let topology = &of.scenario.topology;
    let words = topology.words.as_deref().unwrap_or_default();
    let chosen = |key: &str| {
        let inline = topology.inline.get("radio").and_then(|r| r.get(key));
        let mut words = words.split(',').filter_map(|w| w.split_once('='));
        of.scenario.radio.contains_key(key)
            || inline.is_some()
            || words.any(|(k, _)| k.trim() == key)
    };
    if !chosen("attempts") || chosen("attempts_long") {
        return None;
    }
    let mut radios = of.plan.nodes.iter().map(|n| &n.radio);
    let r = radios.find(|r| r.rts_threshold < RTS_OFF && r.attempts != r.attempts_long)?;
    Some(format!(
        "radio.attempts = {} counts RTS and frames without: data that follow an RTS are sent up to \
         {} times, by radio.attempts_long, which the scenario does not set",
        r.attempts, r.attempts_long
    ))
}

/// Name the relays that do not serve a flow, if segments told of some.
fn unserved(
    mut outcome: FlowOutcome,
    (net, nodes, flows): (&Forwarding, &Nodes, &Flows),
    names: &[String],
) -> FlowOutcome {
    if outcome.unserved > 0 {
        let flow = &flows.all[outcome.id as usize - 1];
        let (there, back) = (net.path(flow.src, flow.dst), net.path(flow.dst, flow.src));
        let others = back.iter().filter(|n| !there.contains(n));
        let all = there.iter().chain(others).map(|n| usize::from(*n));
        let idle = all.filter(|n| nodes.unserved[*n]);
        outcome.unserved_at = idle.map(|n| names[n].clone()).collect();
    }
    outcome
}

/// Name the nodes that split a flow, in the order of its way: they take every packet of its
/// protocol number that is for somebody else. The first of them tells the sender that all has
/// arrived, and nobody tells it when the destination had it.
fn halved(
    outcome: FlowOutcome,
    (net, nodes, flows): (&Forwarding, &Nodes, &Flows),
    names: &[String],
) -> FlowOutcome {
    let index = outcome.id as usize - 1;
    let flow = &flows.all[index];
    let mut split_at: Vec<String> = Vec::new();
    let from = net.hops.of_flow(index).map(|(.., sums)| sums.from);
    for node in from.filter(|n| nodes.splits(*n, flow)) {
        let name = &names[usize::from(node)];
        if !split_at.contains(name) {
            split_at.push(name.clone());
        }
    }
    FlowOutcome {
        known_s: outcome.known_s.filter(|_| split_at.is_empty()),
        split_at,
        ..outcome
    }
}

/// Octets in a time, b/s; none in no time.
fn rate(bytes: u64, time: Span) -> f64 {
    match time.as_secs_f64() {
        0.0 => 0.0,
        seconds => bytes as f64 * 8.0 / seconds,
    }
}

fn flow_outcome(
    now: Time,
    (flows, nodes): (&Flows, &Nodes),
    index: usize,
    names: &[String],
    inside: u64,
) -> FlowOutcome {
    let flow = &flows.all[index];
    let account = &flow.account;
    let totals = totals(now, flow, nodes);
    let start = account.start.unwrap_or(now);
    let until = match (account.finished, account.last) {
        (true, Some(last)) => last,
        // What its buffer still held came later, but not if it never came.
        (_, last) if flow.stopped && arrived(flow) => {
            flow.stop_at.max(last.unwrap_or(Time::ZERO)).min(now)
        }
        _ => now,
    };
    let mut packets = account.packets;
    packets.inside = inside;
    let limits = Limit::NAMES.iter().zip(totals.limits);
    FlowOutcome {
        id: index as u32 + 1,
        from: names[usize::from(flow.src)].clone(),
        to: names[usize::from(flow.dst)].clone(),
        protocol: flow.spec.protocol.clone(),
        app: flow.spec.app.name().to_string(),
        hops: account.hops,
        start_s: start.as_secs_f64(),
        connected_s: seconds(account.connected),
        first_byte_s: seconds(account.first),
        last_byte_s: seconds(account.last),
        known_s: seconds(account.known),
        routeless_s: account.routeless.longest(now).as_secs_f64(),
        finished: account.finished && !in_vain(flow),
        until_s: until.as_secs_f64(),
        bytes: account.bytes,
        goodput_bps: rate(account.bytes, until - start),
        outlasted: outlasted(account),
        corrupt: account.corrupt,
        connections: account.connections,
        segments: totals.segments,
        data_segments: totals.data_segments,
        feedback_segments: totals.feedback,
        retransmissions: totals.retransmissions,
        srtt_s: span(totals.srtt),
        min_rtt_s: span(totals.min_rtt),
        limited_s: limits
            .filter(|(_, s)| *s > Span::ZERO)
            .map(|(n, s)| (n.to_string(), s.as_secs_f64()))
            .collect(),
        fault: account.fault.clone(),
        fault_s: seconds(account.failed),
        unserved: totals.unserved,
        packets,
        lost_s: mean_time(account.lost_ns, packets.lost()),
        late_bytes: (account.bytes > 0)
            .then(|| account.course.since(start + Span((until - start).0 / 2))),
        batches: account.batches.clone(),
        requests: account.requests.clone(),
        under_way_s: flows.under_way(flow).map(Time::as_secs_f64),
        requests_failed: account.requests_failed.clone(),
        ..sender_outcome(flow, index as u32, &totals)
    }
}

/// The mean of so many times, seconds, whose sum is known in nanoseconds.
fn mean_time(sum_ns: u128, count: u64) -> Option<f64> {
    (count > 0).then(|| sum_ns as f64 / count as f64 / 1e9)
}

/// The time of a flow was over before it had a connection: that nothing is left to send is no end.
fn in_vain(flow: &Flow) -> bool {
    let late = flow.account.connected.is_none_or(|at| at >= flow.stop_at);
    flow.stopped && flow.udp.is_none() && flow.ends[0].written == 0 && late
}

/// All that the application of a flow had written when its time was over has arrived.
fn arrived(flow: &Flow) -> bool {
    let account = &flow.account;
    account.fault.is_none() && account.bytes >= account.written
}

/// The numbers of all its connections, the present one included.
fn totals(now: Time, flow: &Flow, nodes: &Nodes) -> Totals {
    let mut totals = flow.account.totals.clone();
    for (end, of) in flow.ends.iter().enumerate() {
        let Some(id) = of.conn else { continue };
        let endpoint = nodes.endpoint_of(flow.node(end));
        if let Some(info) = endpoint.info_until(id, now) {
            totals.add(end, end == flow.counted_end(), &info, endpoint.conn(id));
        }
    }
    if flow.udp.is_some() {
        totals.segments = flow.account.packets.sent;
        totals.data_segments = flow.account.packets.sent;
    }
    totals
}

fn node_outcomes(
    now: Time,
    (net, nodes): (&Forwarding, &Nodes),
    plan: &Plan,
    names: &[String],
) -> Vec<NodeOutcome> {
    let node = |((i, name), planned): ((usize, &String), &NodePlan)| {
        let c = net.air.counters(i as u16);
        let lost = |why: &[Why]| why.iter().map(|w| c.lost_by(*w)).sum();
        NodeOutcome {
            name: name.clone(),
            position: planned.position,
            wired_only: planned.wired_only,
            frames: c.delivered + c.failed,
            attempts: c.attempts,
            tries: c.tries,
            retries: c.retries,
            failed: c.failed,
            received: c.received,
            duplicates: c.duplicates,
            queue_drops: queue_outcome(net, i as u16).full,
            lost: LostOutcome {
                collision: lost(&[Why::Collision, Why::Captured]),
                noise: lost(&[Why::Noise, Why::Weak]),
                busy: lost(&[Why::Transmitting, Why::Locked]),
                interference: lost(&[Why::Interference]),
                cut: lost(&[Why::Cut]),
            },
            airtime_s: c.airtime.as_secs_f64(),
            busy_s: c.busy.as_secs_f64(),
            delay_us: net
                .air
                .link(i as u16)
                .and_then(|l| l.delay)
                .map(|d| d.as_secs_f64() * 1e6),
            forwarded: net.relayed[i],
            late: nodes.all[i].heeded().late,
            first: nodes.all[i].heeded().first,
            dropped: dropped(&nodes.all[i]),
            handlers: nodes.all[i]
                .counters()
                .map(|(name, c)| HandlerOutcome {
                    name: name.to_owned(),
                    packets: c.packets,
                    changed: c.changed,
                    dropped: c.dropped.values().sum(),
                    held: c.held,
                    overflows: c.overflows,
                    kept: c.kept,
                    sent: c.sent,
                    counts: c.counts.iter().map(|(n, k)| (n.to_string(), *k)).collect(),
                })
                .collect(),
            lanes: nodes.all[i].lanes().map(Lanes::counters),
            split: nodes.all[i].split().map(|s| s.counters(now)),
            host: nodes.all[i].host(),
            queue: planned
                .radio
                .discipline
                .filter(|d| *d != Discipline::Priority)
                .map(|_| queue_outcome(net, i as u16)),
        }
    };
    let planned = names.iter().enumerate().zip(&plan.nodes);
    planned.map(node).collect()
}

/// What the node's end dropped, and what stands between ends there, by reason.
fn dropped(node: &Node) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    let end = node.end().map(Endpoint::drops);
    let split = node.split().map(Split::drops);
    for (why, n) in end.into_iter().chain(split).flatten() {
        *all.entry(why.to_owned()).or_default() += n;
    }
    all
}

/// What the disciplines of a node's queues did.
fn queue_outcome(net: &Forwarding, node: u16) -> QueueOutcome {
    let c = net.air.counters(node);
    let wires = net.wires.iter().filter(|w| w.from == node);
    wires.fold(
        QueueOutcome {
            marked: c.marked,
            dropped: c.early,
            full: c.refused,
        },
        |sum, w| QueueOutcome {
            marked: sum.marked + w.marked,
            dropped: sum.dropped + w.early,
            full: sum.full + w.full,
        },
    )
}

fn link_outcomes(net: &Forwarding, names: &[String]) -> Vec<LinkOutcome> {
    let mut links = Vec::new();
    for (from, name) in names.iter().enumerate() {
        for (to, snr_db, c) in net.air.links(from as u16) {
            // Who cannot even hear a neighbour has no link to it, unless it tried to send there.
            if c.attempts + c.tries + c.overheard + c.decoded == 0 {
                continue;
            }
            links.push(LinkOutcome {
                from: name.clone(),
                to: names[usize::from(to)].clone(),
                snr_db,
                attempts: c.attempts,
                tries: c.tries,
                acked: c.acked,
                frames: c.frames,
                failed: c.failed,
                overheard: c.overheard,
                overheard_frames: c.overheard_frames,
            });
        }
    }
    links
}

fn wire_outcomes(net: &Forwarding, names: &[String]) -> Vec<WireOutcome> {
    let wire = |w: &Wire| WireOutcome {
        from: names[usize::from(w.from)].clone(),
        to: names[usize::from(w.to)].clone(),
        packets: w.packets,
        bytes: w.octets,
        queue_drops: w.full,
        lost: w.lost,
    };
    net.wires.iter().map(wire).collect()
}

/// What came after its time, if anything did.
fn outlasted(account: &Account) -> Option<Outlasted> {
    let (stop, bytes) = account.held.filter(|(_, bytes)| *bytes > 0)?;
    let last = account.last.unwrap_or(stop).max(stop);
    Some(Outlasted {
        stop_s: stop.as_secs_f64(),
        bytes,
        seconds: (last - stop).as_secs_f64(),
        never: account.written.saturating_sub(account.bytes),
    })
}

/// What the sender handed to the network, between which ports, and what its parts count.
fn sender_outcome(flow: &Flow, number: u32, totals: &Totals) -> FlowOutcome {
    let port = Flow::port(number);
    let delivered = flow.account.packets.delivered;
    let ends = |does: fn(&Blueprint) -> bool| flow.blueprint.as_deref().is_some_and(does);
    let (timed, windowed) = (ends(Blueprint::times_out), ends(|b| b.writes(Facts::WIN)));
    match &flow.udp {
        Some(udp) => FlowOutcome {
            sent_bytes: udp.offered,
            jitter_s: udp.jitter.seconds(delivered),
            one_way: Percentiles::of(&udp.transits),
            datagram: Some(udp.payload),
            sender_port: Some(port),
            port,
            ..FlowOutcome::default()
        },
        None => FlowOutcome {
            sent_bytes: totals.octets[flow.counted_end()],
            asked: (flow.counted_end() == 1).then_some(Asked {
                bytes: totals.octets[0],
                retransmissions: totals.asked.0,
                timeouts: timed.then_some(totals.asked.1),
                timeout_s: timed.then_some(totals.asked_wait.as_secs_f64()),
            }),
            rtt: Percentiles::of(&totals.round_trips),
            ack_delay: Percentiles::of(&totals.ack_delays),
            rtt_with_repairs: ends(Blueprint::times_repairs),
            timeouts: timed.then_some(totals.timeouts),
            timeout_s: timed.then_some(totals.timeout_wait.as_secs_f64()),
            fast_retransmits: ends(Blueprint::finds_losses).then_some(totals.fast_retransmits),
            cwnd: windowed.then_some(totals.cwnd),
            sender_port: flow.account.port,
            port,
            ..FlowOutcome::default()
        },
    }
}

fn hop_outcome(
    sums: &HopSums,
    flow: usize,
    reverse: bool,
    hop: usize,
    names: &[String],
) -> HopOutcome {
    HopOutcome {
        flow: flow as u32 + 1,
        reverse,
        hop: hop as u32 + 1,
        from: names[usize::from(sums.from)].clone(),
        to: names[usize::from(sums.to)].clone(),
        packets: sums.packets,
        lost: sums.lost,
        queue_drops: sums.full + sums.early,
        early_drops: sums.early,
        lane_drops: sums.lane,
        node_s: sums.stayed.as_secs_f64(),
        queue_s: sums.times.queue.as_secs_f64(),
        contention_s: sums.times.contention.as_secs_f64(),
        air_s: sums.times.air.as_secs_f64(),
        retry_s: sums.times.retries.as_secs_f64(),
        propagation_s: sums.propagation.as_secs_f64(),
    }
}
