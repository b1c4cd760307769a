//! Flows that may have all that they ask for, or keep step at a queue: what they got is no share of
//! the network.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use wifu_radio::plan::{Plan, WirePlan};
use wifu_sim::outcome::{FlowOutcome, Outcome};
use wifu_sim::scenario::{AppKind, FlowSpec, Scenario};

/// Flows that are named.
const NAMED: usize = 8;

/// Why flows may have all that they ask for, by their numbers: those that pause by their
/// application, or have a rate. Nothing if all flows ask for the same.
/// Of datagrams of which a tenth or more was lost it is known that they had not.
pub(super) fn content(flows: &[FlowSpec], outcome: &Outcome) -> BTreeMap<u32, &'static str> {
    if flows
        .windows(2)
        .all(|two| demand(&two[0]) == demand(&two[1]))
    {
        return BTreeMap::new();
    }
    let numbered = (1..).zip(flows);
    let short =
        |f: &FlowOutcome| f.datagram.is_some() && f.bytes as f64 <= 0.9 * f.sent_bytes as f64;
    let lacks = |n: u32| outcome.flows.iter().any(|f| f.id == n && short(f));
    let paced = numbered.filter_map(|(n, flow)| Some((n, paced(flow)?)));
    let paced = paced.filter(|(n, _)| !lacks(*n));
    paced.collect()
}

/// What a flow asks for, wherever and whenever.
fn demand(flow: &FlowSpec) -> FlowSpec {
    FlowSpec {
        from: String::new(),
        to: String::new(),
        protocol: String::new(),
        start: FlowSpec::default().start,
        jitter: FlowSpec::default().jitter,
        stop_at: None,
        ..flow.clone()
    }
}

/// What keeps a flow from asking for all that there is.
fn paced(flow: &FlowSpec) -> Option<&'static str> {
    match flow.app {
        AppKind::Http | AppKind::OnOff | AppKind::Request | AppKind::Trace => Some(flow.app.name()),
        AppKind::Bulk | AppKind::File | AppKind::Stream => flow.rate.map(|_| "a rate"),
    }
}

/// What is to be said of an index over shares where some flows are [`content`].
pub(super) fn words(content: &BTreeMap<u32, &'static str>) -> String {
    let numbers: Vec<u32> = content.keys().copied().collect();
    let (they, are) = match numbers.len() {
        0 => return String::new(),
        1 => ("it asks", "its share is"),
        _ => ("they ask", "their shares are"),
    };
    let kinds: BTreeSet<&str> = content.values().copied().collect();
    let kinds: Vec<&str> = kinds.into_iter().collect();
    format!(
        "{} ({}) may have all that {they} for: {are} then what was wanted, of which Jain's index \
         knows nothing\n",
        numbered(&numbers),
        kinds.join(", ")
    )
}

/// Beside an index over shares that a fraction of a packet's time decides (Floyd and Jacobson, "On
/// Traffic Phase Effects in Packet-Switched Gateways", 1992).
const IN_STEP: &str = "Nothing on the way is random: flows keep step at a full queue, and a fraction of a packet's time \
     decides how they share it (phase effects), whatever the seed; a `variation` of the wires \
     breaks the step\n";

/// Where the same is so on the air.
const AT_ONCE: &str = "Datagrams of several nodes leave at one rate, or a multiple of it, and begin at fixed moments: \
     whether they meet on the air is decided by these once for all, whatever the seed; a `jitter` \
     gives each run others\n";

/// What is to be said where flows keep step with each other.
pub(super) fn step(plan: &Plan, scenario: &Scenario, outcome: &Outcome) -> Option<&'static str> {
    // Who loses nothing there has its share by something else.
    let lost = outcome.wires.iter().any(|w| w.queue_drops > 0);
    if lost && in_step(plan, scenario) {
        return Some(IN_STEP);
    }
    // Where queues do not empty, back-off decides who sends, and that anew in each run.
    let late = |f: &FlowOutcome| f.outlasted.is_some_and(|o| o.seconds > 0.05 * o.stop_s);
    let waits = |f: &FlowOutcome| f.packets.inside * 20 > f.packets.sent;
    let full = |f: &FlowOutcome| f.packets.queue > 0 || late(f) || waits(f);
    let waited = outcome.flows.iter().any(full);
    (plan.wires.is_empty() && !waited && at_once(&scenario.flow)).then_some(AT_ONCE)
}

/// Whether all flows are of datagrams, of which some leave unlike nodes at one rate or a multiple
/// of it, and begin by less chance than a period.
fn at_once(flows: &[FlowSpec]) -> bool {
    let period = |f: &FlowSpec| {
        let rate = f.rate.as_ref().filter(|_| f.app != AppKind::OnOff)?.0.0 as f64;
        let seconds = f64::from(f.size.unwrap_or(1500)) * 8.0 / rate;
        (f.jitter.0.as_secs_f64() < seconds).then_some(seconds)
    };
    let multiple = |one: f64, two: f64| {
        let ratio = one.max(two) / one.min(two);
        ratio < 10.0 && (ratio - ratio.round()).abs() < 1e-6
    };
    let met = |a: &FlowSpec, b: &FlowSpec| match (period(a), period(b)) {
        (Some(one), Some(two)) => a.from != b.from && multiple(one, two),
        _ => false,
    };
    let alone = flows.iter().all(|f| f.protocol == "udp");
    alone
        && flows
            .iter()
            .enumerate()
            .any(|(n, a)| flows[n..].iter().any(|b| met(a, b)))
}

/// Bits of a packet.
const PACKET: f64 = 12_000.0;

/// Whether several flows over connections cross wires alone, and nothing there is random.
fn in_step(plan: &Plan, scenario: &Scenario) -> bool {
    let wired = |n: u16| plan.nodes[usize::from(n)].wired_only;
    let steady = |w: &WirePlan| wired(w.a) && wired(w.b) && w.loss == 0.0;
    let slowest = plan.wires.iter().map(|w| w.rate.0).min();
    let most = plan.wires.iter().map(|w| w.variation).max();
    let (Some(slowest), Some(most)) = (slowest, most) else {
        return false;
    };
    // What varies by less than a packet takes at the bottleneck breaks no step.
    let varied = most.as_secs_f64() * slowest as f64 >= PACKET;
    let random = |f: &FlowSpec| matches!(f.app, AppKind::Http | AppKind::OnOff | AppKind::Trace);
    // Neither do datagrams that talk and pause, which are few.
    let carried = scenario.flow.iter().filter(|f| f.protocol != "udp");
    let (loose, tied): (Vec<&FlowSpec>, Vec<&FlowSpec>) = carried.partition(|f| random(f));
    let meets = |a: &FlowSpec, b: &FlowSpec| {
        let ends = [&b.from, &b.to];
        ends.contains(&&a.from) || ends.contains(&&a.to)
    };
    let crossed = loose.iter().any(|a| tied.iter().any(|b| meets(a, b)));
    // By their seeds flows may begin a packet's time apart: another phase in each run.
    let begin = |f: &&FlowSpec| f.jitter.0.as_secs_f64() * slowest as f64 >= PACKET;
    let bare = scenario.host.queue.is_none() && !varied && !crossed && !tied.iter().any(begin);
    bare && plan.wires.iter().all(steady) && shares(plan, &tied)
}

/// Whether data of two flows wait for one wire.
fn shares(plan: &Plan, flows: &[&FlowSpec]) -> bool {
    let ways: Vec<BTreeSet<(u16, u16)>> = flows.iter().map(|f| way(plan, f)).collect();
    let pair = |(n, one): (usize, &BTreeSet<(u16, u16)>)| {
        ways[n + 1..].iter().any(|two| !one.is_disjoint(two))
    };
    ways.iter().enumerate().any(pair)
}

/// The wires on the shortest way of a flow's data, each by its direction.
fn way(plan: &Plan, flow: &FlowSpec) -> BTreeSet<(u16, u16)> {
    let number = |name: &str| plan.nodes.iter().position(|n| n.name == name);
    let ends = match flow.app {
        AppKind::Request => (&flow.to, &flow.from),
        _ => (&flow.from, &flow.to),
    };
    let (Some(begin), Some(end)) = (number(ends.0), number(ends.1)) else {
        return BTreeSet::new();
    };
    let (begin, end) = (begin as u16, end as u16);
    let mut before = BTreeMap::from([(begin, begin)]);
    let mut left = VecDeque::from([begin]);
    while let Some(node) = left.pop_front() {
        for wire in &plan.wires {
            let near = [(wire.a, wire.b), (wire.b, wire.a)];
            for (_, other) in near.into_iter().filter(|(from, _)| *from == node) {
                if let Entry::Vacant(place) = before.entry(other) {
                    place.insert(node);
                    left.push_back(other);
                }
            }
        }
    }
    let (mut found, mut node) = (BTreeSet::new(), end);
    while let Some(last) = before.get(&node).filter(|last| **last != node) {
        found.insert((*last, node));
        node = *last;
    }
    found
}

/// Flows by their numbers, of which the first are named.
pub(super) fn numbered(numbers: &[u32]) -> String {
    let s = if numbers.len() == 1 { "" } else { "s" };
    let named: Vec<String> = numbers.iter().take(NAMED).map(u32::to_string).collect();
    let more = match numbers.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!("flow{s} {}{more}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(to: &str, app: AppKind, rate: Option<&str>) -> FlowSpec {
        FlowSpec {
            to: to.into(),
            app,
            rate: rate.map(|r| serde_json::from_value(r.into()).expect("a rate")),
            ..FlowSpec::default()
        }
    }

    #[test]
    fn flows_that_pause_or_have_a_rate_are_told_beside_others() {
        let said = |flows: &[FlowSpec]| words(&content(flows, &Outcome::default()));
        let bulk = flow("n2", AppKind::Bulk, None);
        let http = flow("n2", AppKind::Http, None);
        let slow = flow("n2", AppKind::Bulk, Some("500k"));
        assert_eq!(
            said(&[bulk.clone(), http.clone()]),
            "flow 2 (http) may have all that it asks for: its share is then what was wanted, of \
             which Jain's index knows nothing\n"
        );
        let three = said(&[slow.clone(), http.clone(), bulk.clone()]);
        assert!(
            three.starts_with("flows 1, 2 (a rate, http) may have all that they ask for: their"),
            "{three}"
        );
        // Who asks for the same shares, wherever it is.
        let alike = [http.clone(), flow("n5", AppKind::Http, None)];
        assert_eq!(said(&alike), "");
        assert_eq!(said(&[bulk.clone(), flow("n5", AppKind::Bulk, None)]), "");
        let crowded = Outcome {
            flows: vec![FlowOutcome {
                id: 1,
                datagram: Some(1472),
                bytes: 30,
                sent_bytes: 100,
                ..FlowOutcome::default()
            }],
            ..Outcome::default()
        };
        let both = [slow.clone(), bulk.clone()];
        assert!(said(&both).starts_with("flow 1 (a rate) may"));
        assert_eq!(words(&content(&both, &crowded)), "");
        let fast = flow("n2", AppKind::Bulk, Some("1M"));
        assert!(said(&[slow, fast]).starts_with("flows 1, 2 (a rate) may"));
        assert_eq!(said(&[bulk.clone(), flow("n2", AppKind::File, None)]), "");
    }

    #[test]
    fn not_all_of_many_flows_are_named() {
        let all: Vec<u32> = (1..=10).collect();
        assert_eq!(numbered(&all), "flows 1, 2, 3, 4, 5, 6, 7, 8 and 2 more");
    }
}
