//! The outcome for people: how each flow did, what held it up, and where its packets' time went.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value as Json, json};
use wifu_sim::causes::{Causes, Link};
use wifu_sim::outcome::{FlowOutcome, HopOutcome, LostOutcome, Outcome};
use wifu_sim::why::{Losses, percent};

use super::flows::flows;
use super::handlers;
use super::lost::{crowded, lost, shut_out};
use super::table::Table;
use super::waits::{self, own_cause};

/// Flows whose hops are shown, unless more are asked for.
const SHOWN: usize = 4;

/// Causes of failed attempts that are named.
const CAUSES: usize = 3;

/// Shares below this are not worth a word.
const LEAST_SHARE: f64 = 0.005;
/// The same of what a connection took to open.
const LEAST_OPENING: f64 = 0.05;
/// What a send buffer holds longer than this share of a flow's time is worth a sentence.
const LEAST_LATE: f64 = 0.01;

/// What to print beside the flows.
#[derive(Clone, Debug, Default)]
pub struct Wants {
    /// The profile of each protocol, where flows have different ones.
    pub profiles: BTreeMap<String, String>,
    /// Why flows may have all that they ask for, by their numbers.
    pub content: BTreeMap<u32, &'static str>,
    /// What is said where flows keep step with each other.
    pub step: Option<&'static str>,
    /// A table of all nodes.
    pub nodes: bool,
    /// A table of all links.
    pub links: bool,
    /// Nodes walk: what is told of where they are and how well they hear is of the end.
    pub walk: bool,
}

/// The whole report. `title` says what was simulated.
pub fn report(title: &str, outcome: &Outcome, causes: &Causes, wants: &Wants) -> String {
    let mut text = format!("{title}\n\n{}", flows(outcome, wants));
    let name = |n: u16| name(outcome, n);
    let all = Losses::of(causes);
    if let Some(words) = all.words(&name) {
        let _ = writeln!(text, "\n{words}");
    }
    for flow in outcome.flows.iter().take(SHOWN) {
        text += &why(outcome, flow, (causes, &all));
    }
    if outcome.flows.len() > SHOWN {
        let more = outcome.flows.len() - SHOWN;
        let s = if more == 1 { "" } else { "s" };
        let _ = writeln!(text, "\n{more} more flow{s}; --json has the hops of all");
    }
    if let Some(words) = handlers::own(outcome) {
        let _ = writeln!(text, "\n{words}");
    }
    if wants.nodes {
        let _ = write!(text, "\n{}", nodes(outcome, causes, wants.walk));
        let ran = [
            dropped(outcome),
            disciplines(outcome),
            heeded(outcome),
            handlers::table(outcome),
            handlers::lanes(outcome),
            handlers::splits(outcome),
        ];
        for table in ran.iter().filter(|t| !t.is_empty()) {
            let _ = write!(text, "\n{table}");
        }
    }
    if wants.links {
        let _ = write!(text, "\n{}", links(outcome, causes, wants.walk));
    }
    text
}

/// What held a flow up, and its hops.
fn why(outcome: &Outcome, f: &FlowOutcome, (causes, all): (&Causes, &Losses)) -> String {
    let mut text = String::new();
    let own = own_cause(outcome, f, (causes, all));
    for (n, sentence) in reasons(outcome, f).into_iter().chain(own).enumerate() {
        let _ = writeln!(text, "{}{sentence}", if n == 0 { "\n" } else { "" });
    }
    let names = match f.app.as_str() {
        "request" => ["questions and acknowledgements", "answers"],
        _ => ["data", "acknowledgements"],
    };
    for (reverse, what) in [false, true].into_iter().zip(names) {
        let own = |h: &&HopOutcome| {
            let any = h.packets + h.lost + h.queue_drops + h.lane_drops > 0;
            h.flow == f.id && h.reverse == reverse && any
        };
        let hops: Vec<&HopOutcome> = outcome.hops.iter().filter(own).collect();
        if !hops.is_empty() {
            let table = hop_table(outcome, &hops, causes);
            let _ = write!(text, "\nFlow {}, {what}, time per packet:\n{table}", f.id);
        }
    }
    text
}

/// Sentences about what held a flow up.
fn reasons(outcome: &Outcome, f: &FlowOutcome) -> Vec<String> {
    let mut sentences = Vec::new();
    let held = held(f);
    if !held.is_empty() {
        let whose = match f.asked {
            Some(_) => format!(" ({}, which answers)", f.to),
            None => String::new(),
        };
        sentences.push(format!(
            "What held the sender of flow {}{whose}: {held}",
            f.id
        ));
    }
    sentences.extend(handlers::split(outcome, f));
    sentences.extend(waits::words(f));
    if let Some(late) = f
        .outlasted
        .filter(|o| o.never > 0 || o.seconds > LEAST_LATE * (o.stop_s - f.start_s))
    {
        let last = format!("the last that arrived did so {:.3} s later", late.seconds);
        let after = match late.never {
            0 => last,
            n if n >= late.bytes => String::from("none of them arrived"),
            n => format!("{} of them never arrived, and {last}", octets(n)),
        };
        sentences.push(format!(
            "Its time was over at {:.3} s, and {} were in its send buffer or on their way: {after}",
            late.stop_s,
            octets(late.bytes),
        ));
    }
    sentences.extend(lost(outcome, f));
    sentences.extend(crowded(outcome, f));
    sentences.extend(shut_out(outcome, f));
    sentences
}

/// What the report says of why flows got what they got, as data: of attempts as
/// [`wifu_sim::why::told`], of each of the `flows` its sentences and the shares of its time that
/// each limit was binding (`held`; 0 to 1), and by what attempts on its links failed while its
/// sender waited for timeouts (`waited`; seconds).
pub fn told(outcome: &Outcome, causes: &Causes) -> Json {
    let names: Vec<&str> = outcome.nodes.iter().map(|n| n.name.as_str()).collect();
    let mut all = wifu_sim::why::told(causes, &names);
    let network = Losses::of(causes);
    let flow = |f: &FlowOutcome| {
        let held: BTreeMap<&str, f64> = shares(f).collect();
        let own = own_cause(outcome, f, (causes, &network));
        let words: Vec<String> = reasons(outcome, f).into_iter().chain(own).collect();
        let waited = causes.stalls.of(f.id).map(wifu_sim::why::waited_json);
        json!({"flow": f.id, "held": held, "waited": waited, "words": words})
    };
    all["flows"] = outcome.flows.iter().map(flow).collect();
    all
}

/// The time of a flow that all shares are of, seconds.
pub(super) fn whole_s(f: &FlowOutcome) -> f64 {
    open_s(f) + unconnected_s(f)
}

/// For how long connections of a flow were open, with what the first one took to open where that
/// is worth a word, seconds.
fn open_s(f: &FlowOutcome) -> f64 {
    (f.limited_s.values().sum::<f64>() + connecting_s(f)).max(1e-9)
}

/// What the first connection took to open, seconds; 0 if that is no share worth a word.
fn connecting_s(f: &FlowOutcome) -> f64 {
    let open: f64 = f.limited_s.values().sum();
    let took = f.connected_s.map_or(0.0, |at| at - f.start_s);
    if took >= LEAST_OPENING * (took + open) {
        took
    } else {
        0.0
    }
}

/// For how long a flow of several connections had none that was open, the opening of all but the
/// first included, seconds; 0 if that is no share worth a word.
fn unconnected_s(f: &FlowOutcome) -> f64 {
    let (whole, open) = (f.until_s - f.start_s, open_s(f));
    match f.connections > 1 && whole - open >= LEAST_SHARE * whole {
        true => whole - open,
        false => 0.0,
    }
}

/// Shares of a flow's time that each limit was binding, by the engine's short names; `connecting`
/// is of the first connection, `unconnected` of a flow that had several, while none was open.
fn shares(f: &FlowOutcome) -> impl Iterator<Item = (&str, f64)> {
    let all = whole_s(f);
    let more = [
        ("connecting", connecting_s(f)),
        ("unconnected", unconnected_s(f)),
    ];
    let limits = f.limited_s.iter().map(|(name, s)| (name.as_str(), *s));
    let more = more.into_iter().filter(|(_, s)| *s > 0.0);
    limits.chain(more).map(move |(name, s)| (name, s / all))
}

/// The same in words, the largest first.
fn held(f: &FlowOutcome) -> String {
    let mut shares: Vec<(&str, f64)> = shares(f).filter(|(_, s)| *s >= LEAST_SHARE).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let words: Vec<String> = shares
        .iter()
        .map(|(name, s)| format!("{} {}", limit_of(f, name), percent(*s)))
        .collect();
    words.join(", ")
}

/// A limit of a flow in words. Where nodes split its connection, whom the sender waits for is the
/// one of them that is next to it: who answers is so at the other end of the way.
fn limit_of(f: &FlowOutcome, name: &str) -> String {
    let next = match f.asked {
        Some(_) => f.split_at.last(),
        None => f.split_at.first(),
    };
    match (name, next) {
        ("drain", Some(node)) => format!("{} of {node} alone", limit(name)),
        ("peer", Some(node)) => format!("the window of {node}"),
        _ => limit(name).to_owned(),
    }
}

/// The engine's short names in words.
fn limit(name: &str) -> &str {
    match name {
        "none" => "nothing",
        "source" => "nothing to send",
        "unconnected" => "no connection open",
        "drain" => "all sent, waiting for acknowledgements",
        "buffer" => "the send buffer",
        "state" => "connecting or closing",
        "window" => "congestion window",
        "peer" => "the receiver's window",
        "pace" => "pacing",
        "queue" => "the node's own queue",
        "host" => "the host's time",
        "lane" => "waiting for the next node (this node's lane was full)",
        "small" => "a segment too small to send",
        "feedback" => "asking anew for want of feedback",
        "custom" => "a part's own reason",
        other => other,
    }
}

/// How the time is called that sending took on these hops.
fn sending(outcome: &Outcome, hops: &[&HopOutcome]) -> &'static str {
    let linked = |h: &&&HopOutcome| {
        let mut links = outcome.links.iter();
        links.any(|l| l.from == h.from && l.to == h.to)
    };
    match hops.iter().filter(linked).count() {
        0 => ">on the wire",
        n if n < hops.len() => ">air or wire",
        _ => ">air",
    }
}

fn hop_table(outcome: &Outcome, hops: &[&HopOutcome], causes: &Causes) -> String {
    let mut table = Table::new(&[
        "<hop",
        ">packets",
        ">lane full",
        ">queue full",
        ">dropped early",
        ">in node",
        ">queue",
        ">contention",
        sending(outcome, hops),
        ">retries",
        ">propagation",
        // Of whatever flow, acknowledgements that take it included.
        ">link: attempts",
        ">failed",
        "<why",
    ]);
    for h in hops {
        let each = |sum: f64| match h.packets {
            0 => String::new(),
            n => millis(sum / n as f64),
        };
        let count = |n: u64| if n == 0 { String::new() } else { n.to_string() };
        let link = outcome
            .links
            .iter()
            .find(|l| l.from == h.from && l.to == h.to);
        // An RTS without answer is a failed attempt too, though no data was sent.
        let attempts = link.map(|l| l.tries as f64 / l.frames.max(1) as f64);
        let failed = link.map(|l| 1.0 - l.acked as f64 / l.tries.max(1) as f64);
        table.row([
            format!("{} > {}", h.from, h.to),
            h.packets.to_string(),
            count(h.lane_drops),
            count(h.queue_drops.saturating_sub(h.early_drops)),
            count(h.early_drops),
            if h.node_s > 0.0 {
                each(h.node_s)
            } else {
                String::new()
            },
            each(h.queue_s),
            if link.is_some() {
                each(h.contention_s)
            } else {
                String::new()
            },
            each(h.air_s),
            if link.is_some() {
                each(h.retry_s)
            } else {
                String::new()
            },
            if h.propagation_s > 0.0 {
                each(h.propagation_s)
            } else {
                String::new()
            },
            attempts.map_or(String::new(), |a| format!("{a:.2}")),
            failed.map_or(String::new(), percent),
            cause(outcome, causes, &h.from, &h.to),
        ]);
    }
    table.text()
}

/// What the trace of frames says of a link.
fn of_link<'a>(outcome: &Outcome, causes: &'a Causes, from: &str, to: &str) -> Option<&'a Link> {
    let ends = (index(outcome, from)?, index(outcome, to)?);
    causes.links.get(&ends)
}

pub(super) fn index(outcome: &Outcome, name: &str) -> Option<u16> {
    let at = outcome.nodes.iter().position(|n| n.name == name);
    at.and_then(|at| u16::try_from(at).ok())
}

fn name(outcome: &Outcome, number: u16) -> String {
    let node = outcome.nodes.get(usize::from(number));
    node.map_or_else(|| number.to_string(), |n| n.name.clone())
}

fn cause(outcome: &Outcome, causes: &Causes, from: &str, to: &str) -> String {
    let name = |n: u16| name(outcome, n);
    of_link(outcome, causes, from, to).map_or(String::new(), |l| l.words(CAUSES, &name))
}

/// The data frames for a node that it did not receive, as the trace of frames says: it names others
/// also where the node could not tell.
fn lost_at(causes: &Causes, node: usize) -> LostOutcome {
    let mut lost = LostOutcome::default();
    let all = |by: &BTreeMap<u16, u64>| by.values().sum::<u64>();
    let links = causes.links.iter();
    for (_, link) in links.filter(|((_, to), _)| usize::from(*to) == node) {
        lost.collision += all(&link.collisions) + all(&link.drowned) + link.interference;
        lost.noise += link.noise + link.weak;
        lost.busy += all(&link.locked) + link.transmitting;
    }
    lost
}

fn nodes(outcome: &Outcome, causes: &Causes, walk: bool) -> String {
    let mut table = Table::new(&[
        "<node",
        if walk { "<at, end (m)" } else { "<at (m)" },
        ">frames",
        ">attempts",
        ">given up",
        ">received",
        ">forwarded",
        ">queue full",
        ">collisions",
        ">noise",
        ">busy",
        ">air",
        ">medium busy",
        ">D, end",
    ]);
    for (at, n) in outcome.nodes.iter().enumerate() {
        let lost = lost_at(causes, at);
        let share = |s: f64| percent(s / outcome.sim_seconds.max(1e-9));
        let count = |c: u64| if c == 0 { String::new() } else { c.to_string() };
        // A node without a radio has no frames, which is not the same as having sent none.
        let radio = |text: String| if n.wired_only { String::new() } else { text };
        let place = |p: [f64; 3]| match p {
            [x, y, 0.0] => format!("{x:.1}, {y:.1}"),
            [x, y, z] => format!("{x:.1}, {y:.1}, {z:.1}"),
        };
        table.row([
            n.name.clone(),
            n.position.map_or(String::new(), place),
            radio(n.frames.to_string()),
            radio(n.tries.to_string()),
            count(n.failed),
            radio(n.received.to_string()),
            count(n.forwarded),
            count(n.queue_drops),
            count(lost.collision),
            count(lost.noise),
            count(lost.busy),
            radio(share(n.airtime_s)),
            radio(share(n.busy_s)),
            n.delay_us.map_or(String::new(), |us| millis(us / 1e6)),
        ]);
    }
    table.text()
}

/// A row for each reason for which an endpoint dropped packets; empty if there is none.
fn dropped(outcome: &Outcome) -> String {
    let mut table = Table::new(&["<node", ">packets", "<dropped by its endpoint"]);
    for node in &outcome.nodes {
        for (why, n) in &node.dropped {
            table.row([node.name.clone(), n.to_string(), why.clone()]);
        }
    }
    if table.is_empty() {
        String::new()
    } else {
        table.text()
    }
}

/// A row for each node whose queues have a discipline; empty if none has.
fn disciplines(outcome: &Outcome) -> String {
    let mut table = Table::new(&["<node", ">marked", ">dropped early", ">queue full"]);
    for (node, q) in outcome.nodes.iter().filter_map(|n| Some((n, n.queue?))) {
        table.row([
            node.name.clone(),
            q.marked.to_string(),
            q.dropped.to_string(),
            q.full.to_string(),
        ]);
    }
    if table.is_empty() {
        String::new()
    } else {
        table.text()
    }
}

/// A row for each node that had packets on which something was noted: those of annotations that go
/// first where the host lets them (`host.prio_feedback`), and those that its deadline ended.
fn heeded(outcome: &Outcome) -> String {
    let mut table = Table::new(&["<node", ">with priority", ">too late"]);
    for node in outcome.nodes.iter().filter(|n| n.first + n.late > 0) {
        let [first, late] = [node.first, node.late].map(|n| n.to_string());
        table.row([node.name.clone(), first, late]);
    }
    if table.is_empty() {
        String::new()
    } else {
        table.text()
    }
}

fn links(outcome: &Outcome, causes: &Causes, walk: bool) -> String {
    let mut table = Table::new(&[
        "<link",
        if walk { ">SNR, end (dB)" } else { ">SNR (dB)" },
        ">frames",
        ">attempts",
        ">failed",
        ">given up",
        ">queue full",
        ">overheard",
        "<why",
    ]);
    for l in outcome
        .links
        .iter()
        .filter(|l| l.attempts + l.tries + l.overheard > 0)
    {
        let failed = match l.tries {
            0 => String::new(),
            all => percent(1.0 - l.acked as f64 / all as f64),
        };
        table.row([
            format!("{} > {}", l.from, l.to),
            format!("{:.1}", l.snr_db),
            l.frames.to_string(),
            l.tries.to_string(),
            failed,
            if l.failed == 0 {
                String::new()
            } else {
                l.failed.to_string()
            },
            match of_link(outcome, causes, &l.from, &l.to).map_or(0, |l| l.refused) {
                0 => String::new(),
                n => n.to_string(),
            },
            if l.overheard == 0 {
                String::new()
            } else {
                l.overheard.to_string()
            },
            cause(outcome, causes, &l.from, &l.to),
        ]);
    }
    let mut text = if table.is_empty() {
        String::new()
    } else {
        table.text()
    };
    let mut wires = Table::new(&["<wire", ">packets", ">delivered", ">queue full", ">lost"]);
    for w in &outcome.wires {
        wires.row([
            format!("{} > {}", w.from, w.to),
            w.packets.to_string(),
            octets(w.bytes),
            w.queue_drops.to_string(),
            w.lost.to_string(),
        ]);
    }
    if !wires.is_empty() {
        text += &wires.text();
    }
    text
}

/// Bits per second with three digits.
pub fn rate(bps: f64) -> String {
    match bps {
        b if b >= 1e9 => format!("{} Gb/s", digits(b / 1e9)),
        b if b >= 1e6 => format!("{} Mb/s", digits(b / 1e6)),
        b if b >= 1e3 => format!("{} kb/s", digits(b / 1e3)),
        b => format!("{} b/s", digits(b)),
    }
}

pub(super) fn octets(n: u64) -> String {
    match n as f64 {
        b if b >= 1e9 => format!("{} GB", digits(b / 1e9)),
        b if b >= 1e6 => format!("{} MB", digits(b / 1e6)),
        b if b >= 1e3 => format!("{} kB", digits(b / 1e3)),
        b => format!("{b} B"),
    }
}

pub(super) fn millis(seconds: f64) -> String {
    format!("{} ms", digits(seconds * 1e3))
}

/// A number with three digits that mean something.
fn digits(x: f64) -> String {
    match x.abs() {
        a if a >= 99.95 => format!("{x:.0}"),
        a if a >= 9.995 => format!("{x:.1}"),
        0.0 => String::from("0"),
        _ => format!("{x:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::{failure, state};
    use super::*;
    use wifu_sim::outcome::{LinkOutcome, NodeOutcome, PacketOutcome};

    /// Two megabytes, one after the other: rates of 2 Mb/s each, and not four together.
    #[test]
    fn rates_at_different_times_are_not_summed() {
        let one = outcome().flows.remove(0);
        let after = |s: f64| FlowOutcome {
            start_s: s,
            until_s: s + 8.0,
            ..one.clone()
        };
        let text = |start| {
            let both = vec![after(0.0), after(start)];
            let outcome = Outcome {
                flows: both,
                ..outcome()
            };
            flows(&outcome, &Wants::default())
        };
        let said = text(8.0);
        assert!(said.contains("all flows: 2.00 Mb/s from"), "{said}");
        assert!(said.contains("not all on at the same time"), "{said}");
        let said = text(6.0);
        assert!(
            said.contains("of flows that were all on for 14 % of that time"),
            "{said}"
        );
        let said = text(0.0);
        assert!(said.contains("all flows: 4.00 Mb/s from"), "{said}");
        assert!(!said.contains("at the same time"), "{said}");
    }

    #[test]
    fn shares_of_flows_that_may_have_what_they_want_are_told() {
        let mut outcome = outcome();
        let mut other = outcome.flows[0].clone();
        (other.id, other.goodput_bps) = (2, 1e5);
        outcome.flows.push(other);
        let wants = Wants {
            content: BTreeMap::from([(2, "http")]),
            ..Wants::default()
        };
        let said = flows(&outcome, &wants);
        let line = "\nflow 2 (http) may have all that it asks for: ";
        assert!(said.contains(line), "{said}");
        assert!(!flows(&outcome, &Wants::default()).contains("may have"));
        // Alone it has no index, and none if nobody got anything.
        outcome.flows.truncate(1);
        assert!(!flows(&outcome, &wants).contains("may have"));
    }

    #[test]
    fn questions_that_are_in_no_sum_are_told() {
        let mut outcome = outcome();
        let mut other = outcome.flows[0].clone();
        (other.id, other.bytes) = (2, 56_000);
        other.asked = Some(wifu_sim::outcome::Asked {
            bytes: 8_400_000,
            ..wifu_sim::outcome::Asked::default()
        });
        outcome.flows.push(other);
        let said = flows(&outcome, &Wants::default());
        let line = "\nof flow 2 both are of the answers alone (56.0 kB), without the questions \
                    (8.40 MB)\n";
        assert!(said.contains(line), "{said}");
        // What is asked with little is no matter.
        outcome.flows[1].asked.as_mut().unwrap().bytes = 400;
        let said = flows(&outcome, &Wants::default());
        assert!(!said.contains("answers alone"), "{said}");
    }

    #[test]
    fn what_never_arrived_is_told() {
        let mut flow = outcome().flows.remove(0);
        flow.outlasted = Some(wifu_sim::outcome::Outlasted {
            stop_s: 3.0,
            bytes: 4_190_000,
            seconds: 0.0,
            never: 2_900_000,
        });
        let said = reasons(&Outcome::default(), &flow).join("\n");
        assert!(
            said.contains("2.90 MB of them never arrived, and the last"),
            "{said}"
        );
        flow.outlasted.as_mut().unwrap().never = 0;
        let said = reasons(&Outcome::default(), &flow).join("\n");
        assert!(
            !said.contains("never") && !said.contains("buffer"),
            "{said}"
        );
    }

    #[test]
    fn a_radio_that_hears_nothing_is_no_node_without_one() {
        let node = |wired_only| NodeOutcome {
            name: "n1".into(),
            wired_only,
            ..NodeOutcome::default()
        };
        let outcome = Outcome {
            sim_seconds: 10.0,
            nodes: vec![node(false), node(true)],
            ..Outcome::default()
        };
        let text = nodes(&outcome, &Causes::default(), false);
        let words = |row| {
            text.lines()
                .nth(row)
                .map(|l| l.split_whitespace().collect::<Vec<_>>())
        };
        assert_eq!(
            words(1),
            Some(vec!["n1", "0", "0", "0", "0.0", "%", "0.0", "%"]),
            "{text}"
        );
        assert_eq!(words(2), Some(vec!["n1"]), "{text}");
    }

    /// As many as the links', which have an RTS without answer among them.
    #[test]
    fn attempts_of_nodes_are_their_tries() {
        let mut outcome = outcome();
        let node = &mut outcome.nodes[0];
        (node.frames, node.attempts, node.tries) = (1000, 1011, 1234);
        assert!(nodes(&outcome, &Causes::default(), false).contains(" 1000      1234 "));
    }

    #[test]
    fn pauses_between_connections_have_their_share() {
        let mut outcome = outcome();
        let flow = &mut outcome.flows[0];
        flow.until_s = 20.0;
        assert_eq!(
            held(flow),
            "congestion window 75 %, all sent, waiting for acknowledgements 25 %"
        );
        flow.connections = 3;
        assert!(
            held(flow).starts_with("no connection open 60 %, congestion window 30 %"),
            "{}",
            held(flow)
        );
    }

    #[test]
    fn what_timeouts_took_is_a_share_of_all_its_time() {
        let mut outcome = outcome();
        let flow = &mut outcome.flows[0];
        (flow.until_s, flow.connections) = (20.0, 3);
        // That of connections which did not open yet is in it.
        (flow.timeout_s, flow.timeouts) = (Some(10.0), Some(3));
        let told = reasons(&outcome, &outcome.flows[0]).join("\n");
        let waited = "It waited 10.0 s, 50 % of its time, for 3 retransmission timeouts";
        assert!(told.contains(waited), "{told}");
    }

    fn outcome() -> Outcome {
        let node = |name: &str| NodeOutcome {
            name: name.into(),
            position: Some([1.0, 2.0, 0.0]),
            airtime_s: 1.0,
            ..NodeOutcome::default()
        };
        Outcome {
            sim_seconds: 10.0,
            nodes: vec![node("n1"), node("n2"), node("n3")],
            flows: vec![FlowOutcome {
                id: 1,
                from: "n1".into(),
                to: "n2".into(),
                protocol: "tcp-reno".into(),
                app: "file".into(),
                hops: 1,
                connected_s: Some(0.1),
                last_byte_s: Some(8.0),
                until_s: 8.0,
                finished: true,
                bytes: 2_000_000,
                goodput_bps: 2e6,
                data_segments: 1000,
                retransmissions: 15,
                min_rtt_s: Some(0.0021),
                limited_s: [("window".to_string(), 6.0), ("drain".to_string(), 2.0)].into(),
                ..FlowOutcome::default()
            }],
            links: vec![LinkOutcome {
                from: "n1".into(),
                to: "n2".into(),
                snr_db: 17.0,
                attempts: 1100,
                tries: 1100,
                acked: 990,
                frames: 1000,
                failed: 10,
                overheard: 0,
                overheard_frames: 0,
            }],
            hops: vec![HopOutcome {
                flow: 1,
                hop: 1,
                from: "n1".into(),
                to: "n2".into(),
                packets: 1000,
                queue_s: 50.0,
                contention_s: 0.2,
                air_s: 0.536,
                retry_s: 0.1,
                ..HopOutcome::default()
            }],
            ..Outcome::default()
        }
    }

    #[test]
    fn the_report_says_how_it_did_and_why() {
        let mut causes = Causes::default();
        let link = causes.links.entry((0, 1)).or_default();
        (link.attempts, link.failed, link.noise) = (1100, 110, 30);
        link.collisions.insert(2, 80);
        // What the queue refused was no attempt.
        link.refused = 4868;
        let wants = Wants {
            nodes: true,
            links: true,
            walk: true,
            profiles: [("tcp-reno".to_string(), "linux".to_string())].into(),
            ..Wants::default()
        };
        let text = report("linear,3", &outcome(), &causes, &wants);
        for part in [
            "2.00 Mb/s",
            "tcp-reno (linux)",
            "8.000 s",
            "15 (1.5 %)",
            "congestion window 75 %, all sent, waiting for acknowledgements 25 %",
            "50.0 ms",
            "0.54 ms",
            "80 collision with n3, 30 noise\n",
            "  4868 ",
            "at, end (m)",
            "SNR, end (dB)",
            "1.0, 2.0",
            "17.0",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert!(!text.contains("unfinished"));
        let titles = text.lines().find(|l| l.starts_with("hop")).unwrap();
        assert!(
            !titles.contains("propagation"),
            "nothing to say about wires"
        );
    }

    #[test]
    fn a_flow_whose_links_have_another_main_cause_says_so() {
        let mut causes = Causes::default();
        let link = causes.links.entry((0, 1)).or_default();
        (link.attempts, link.failed, link.noise) = (200, 100, 100);
        let told = |causes: &Causes| {
            let text = report("linear,3", &outcome(), causes, &Wants::default());
            (text, told(&outcome(), causes))
        };
        let (text, data) = told(&causes);
        assert!(!text.contains("On the links of flow 1"), "{text}");
        let other = causes.links.entry((2, 1)).or_default();
        (other.attempts, other.failed, other.ack_lost) = (1000, 800, 800);
        let (text, more) = told(&causes);
        let said =
            "On the links of flow 1 mostly: noise (100 %), of 100 failed of 200 attempts (50 %)";
        assert!(text.contains("89 % the ACK was lost"), "{text}");
        assert!(text.contains(said), "{text}");
        let words = |data: &Json| data["flows"][0]["words"].to_string();
        assert!(words(&more).contains(said) && !words(&data).contains(said));
    }

    #[test]
    fn the_sentences_are_data_too() {
        let mut causes = Causes::default();
        let link = causes.links.entry((0, 1)).or_default();
        (link.attempts, link.failed, link.ack_lost) = (1100, 110, 110);
        let mut outcome = outcome();
        outcome.flows[0].packets.sent = 1000;
        outcome.flows[0].packets.link = 10;
        let all = told(&outcome, &causes);
        assert_eq!(all["failed"], 110);
        assert_eq!(all["links"][0]["from"], "n1");
        assert_eq!(
            all["flows"][0]["held"],
            json!({"window": 0.75, "drain": 0.25})
        );
        assert_eq!(
            all["flows"][0]["words"][1],
            "Packets lost for good: 10 by the MAC's last attempt; of 1000 of both directions (1.0 %)"
        );
    }

    #[test]
    fn hops_of_a_flow_whose_route_changed_are_those_of_its_start() {
        let text = |outcome: &Outcome| report("", outcome, &Causes::default(), &Wants::default());
        let mut outcome = outcome();
        assert!(!text(&outcome).contains("at the start"));
        outcome.hops.push(HopOutcome {
            to: "n3".into(),
            ..outcome.hops[0].clone()
        });
        assert!(text(&outcome).contains("hops at the start"));
        (outcome.hops[1].hop, outcome.hops[1].from) = (2, "n2".into());
        assert!(
            text(&outcome).contains("hops at the start"),
            "it became longer"
        );
    }

    #[test]
    fn copies_that_nodes_made_are_packets_of_which_some_are_lost() {
        let mut outcome = outcome();
        outcome.flows[0].packets = PacketOutcome {
            sent: 100,
            copies: 60,
            delivered: 110,
            link: 30,
            inside: 20,
            ..PacketOutcome::default()
        };
        let words = reasons(&outcome, &outcome.flows[0]).join("\n");
        let said = "30 by the MAC's last attempt; of 140 of both directions, 60 of them copies";
        assert!(words.contains(said), "{words}");
    }

    #[test]
    fn what_nodes_sent_again_and_times_with_repairs_are_told_with_the_flow() {
        let mut outcome = outcome();
        let said = |outcome: &Outcome| flows(outcome, &Wants::default());
        let text = said(&outcome);
        assert!(
            !text.contains("by nodes") && !text.contains("with priority"),
            "{text}"
        );
        let flow = &mut outcome.flows[0];
        (flow.packets.copies, flow.srtt_s, flow.rtt_with_repairs) = (201, Some(0.6), true);
        let text = said(&outcome);
        assert!(text.contains("retransmitted  again by nodes"), "{text}");
        assert!(text.contains(" 201 "), "{text}");
        assert!(
            text.contains("RTT of tcp-reno: from when a packet left first"),
            "{text}"
        );
    }

    #[test]
    fn who_answers_and_what_was_asked_is_told() {
        let mut outcome = outcome();
        assert!(!flows(&outcome, &Wants::default()).contains("answers"));
        let flow = &mut outcome.flows[0];
        flow.limited_s = BTreeMap::from([(String::from("window"), 1.0)]);
        flow.asked = Some(wifu_sim::outcome::Asked {
            bytes: 2_000_000,
            retransmissions: 84,
            timeouts: Some(1),
            timeout_s: Some(1.25),
        });
        let (from, to) = (flow.from.clone(), flow.to.clone());
        let text = flows(&outcome, &Wants::default());
        let said = format!(
            "flow 1: {to} answers, and its row is of what that sent; \
             {from} asked with 2.00 MB, 84 retransmissions and 1 timeout, for which it waited \
             1.2 s\n"
        );
        assert!(text.contains(&said), "{text}");
        let held = reasons(&outcome, &outcome.flows[0]).join("\n");
        let whose = format!("the sender of flow 1 ({to}, which answers):");
        assert!(held.contains(&whose), "{held}");
    }

    #[test]
    fn what_a_connection_took_to_open_is_of_its_time() {
        let mut outcome = outcome();
        let flow = &mut outcome.flows[0];
        (flow.start_s, flow.connected_s) = (1.0, Some(4.0));
        flow.limited_s = BTreeMap::from([(String::from("window"), 1.0)]);
        (flow.timeout_s, flow.timeouts) = (Some(3.0), Some(2));
        let said = reasons(&outcome, &outcome.flows[0]).join("; ");
        assert!(
            said.contains("connecting 75 %, congestion window 25 %"),
            "{said}"
        );
        assert!(said.contains("3.0 s, 75 % of its time, for 2"), "{said}");
        // What is too little for a share of its own is of that time, too.
        let flow = &mut outcome.flows[0];
        (flow.start_s, flow.connected_s) = (0.0, Some(1.0));
        flow.limited_s = BTreeMap::from([(String::from("window"), 29.0)]);
        (flow.timeout_s, flow.timeouts) = (Some(30.0), Some(4));
        let said = reasons(&outcome, &outcome.flows[0]).join("; ");
        assert!(said.contains("30.0 s, 100 % of its time, for 4"), "{said}");
    }

    #[test]
    fn of_a_connection_that_is_split_the_other_half_is_told() {
        let mut outcome = outcome();
        let mut flow = outcome.flows[0].clone();
        let split = wifu_node::SplitCounters {
            accepted: 1,
            most_held: 8_000,
            waited_octet_us: 4_000_000_000,
            near: wifu_node::HalfCounters {
                bytes: 10_000,
                ..Default::default()
            },
            ..Default::default()
        };
        let said = |outcome: &Outcome, flow: &FlowOutcome| reasons(outcome, flow).join("; ");
        outcome.nodes[1].split = Some(split);
        assert!(!said(&outcome, &flow).contains("split"), "not on its way");
        flow.split_at = vec!["n2".into(), "n3".into()];
        let text = said(&outcome, &flow);
        assert!(text.contains("split"), "{text}");
        let waited = "n2 (data waited 400 ms there on the mean, up to 8.00 kB at a time; its far";
        assert!(text.contains(waited), "{text}");
        assert!(!text.contains("n3 ("), "it accepted nothing: {text}");
        let several = wifu_node::SplitCounters {
            accepted: 2,
            ..split
        };
        outcome.nodes[1].split = Some(several);
        let all = "n2 (all 2 connections of that node: data waited 400 ms there on the mean, up to \
                   8.00 kB at a time; far halves: 0 retransmissions";
        assert!(said(&outcome, &flow).contains(all), "of no flow's alone");
        let waits = "all sent, waiting for acknowledgements of n2 alone 25 %";
        assert!(text.contains(waits), "{text}");
        flow.limited_s.insert("peer".into(), 8.0);
        flow.asked = Some(wifu_sim::outcome::Asked::default());
        let text = said(&outcome, &flow);
        assert!(text.contains("the window of n3 50 %"), "{text}");
    }

    #[test]
    fn what_a_discipline_dropped_is_not_called_a_full_queue() {
        let mut outcome = outcome();
        (
            outcome.flows[0].packets.sent,
            outcome.flows[0].packets.queue,
        ) = (1000, 10);
        (outcome.hops[0].queue_drops, outcome.hops[0].early_drops) = (10, 10);
        let words = |outcome: &Outcome| reasons(outcome, &outcome.flows[0]).join("\n");
        let only = "Packets lost for good: 10 by the discipline of queues; of 1000 of both directions (1.0 %)";
        assert!(words(&outcome).contains(only), "{}", words(&outcome));
        outcome.hops[0].early_drops = 3;
        let both = "7 by full queues, 3 by the discipline of queues; of 1000";
        assert!(words(&outcome).contains(both), "{}", words(&outcome));
    }

    #[test]
    fn what_full_lanes_and_queues_dropped_stands_at_its_hop() {
        let mut outcome = outcome();
        let said = |outcome: &Outcome| {
            let text = report("", outcome, &Causes::default(), &Wants::default());
            let lines = text
                .lines()
                .filter(|l| l.starts_with("hop") || l.contains("lanes"));
            lines.collect::<Vec<_>>().join("\n")
        };
        assert!(!said(&outcome).contains("full"), "{}", said(&outcome));
        (
            outcome.flows[0].packets.sent,
            outcome.flows[0].packets.queue,
        ) = (1000, 10);
        (outcome.hops[0].lane_drops, outcome.hops[0].queue_drops) = (8, 2);
        let text = said(&outcome);
        assert!(text.contains("lane full  queue full"), "{text}");
        assert!(
            text.contains("2 by full queues, 8 by full lanes; of 1000"),
            "{text}"
        );
    }

    #[test]
    fn a_flow_that_failed_says_so() {
        let all = outcome();
        let mut f = all.flows[0].clone();
        assert_eq!(state(&all, &f), "");
        f.finished = false;
        let still = "unfinished: nothing arrived after 8.000 s";
        assert_eq!(state(&all, &f), still, "for 2 s of 10");
        f.last_byte_s = Some(9.5);
        assert_eq!(state(&all, &f), "unfinished");
        f.last_byte_s = None;
        assert_eq!(state(&all, &f), "unfinished: nothing arrived");
        f.connected_s = None;
        assert_eq!(state(&all, &f), "never connected");
        f.bytes = 0;
        let mute = Outcome {
            sim_seconds: all.sim_seconds,
            ..Outcome::default()
        };
        assert_eq!(state(&mute, &f), "nobody hears n1");
        f.hops = 0;
        assert_eq!(state(&all, &f), "no route");
        (f.start_s, f.sent_bytes) = (all.sim_seconds, 0);
        assert_eq!(state(&all, &f), "not started");
        assert_eq!(failure(&all, &f), None);
        f.fault = Some("TimedOut".into());
        assert_eq!(state(&all, &f), "failed: TimedOut");
        f.fault_s = Some(61.25);
        assert_eq!(state(&all, &f), "failed at 61.250 s: TimedOut");
        let failed = wifu_sim::outcome::FailedRequest {
            start_s: 60.0,
            failed_s: 1.25,
            bytes: 5,
        };
        (f.requests_failed, f.app) = (vec![failed], "http".into());
        f.requests = vec![wifu_sim::outcome::RequestOutcome::default(); 187];
        let one = "1 of 188 files failed, the last at 61.250 s: TimedOut";
        assert_eq!(state(&all, &f), one);
        f.corrupt = 3;
        assert_eq!(state(&all, &f), "3 bytes were WRONG");
        // Where there was no route when it began and there was one later, it has arrived.
        let late = FlowOutcome {
            bytes: 5,
            connected_s: Some(3.0),
            finished: true,
            ..FlowOutcome::default()
        };
        assert_eq!(state(&all, &late), "");
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(rate(1_413_000.0), "1.41 Mb/s");
        assert_eq!(rate(0.0), "0 b/s");
        assert_eq!(octets(999_500), "1000 kB");
        assert_eq!(millis(0.1234), "123 ms");
        assert_eq!(
            (percent(0.004), percent(0.71)),
            ("0.4 %".into(), "71 %".into())
        );
    }
}
