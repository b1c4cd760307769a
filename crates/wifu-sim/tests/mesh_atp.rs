//! ATP over simulated radios: every node collects its delay, the rate follows what comes back,
//! holes are repaired, and after silence the way is asked for anew.

use wifu_node::Registry;
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::{Outcome, Series};
use wifu_sim::scenario::Scenario;

const SERIES: [&str; 12] = [
    "atp-rate.ds_us",
    "atp-rate.d_us",
    "atp-rate.raised",
    "atp-rate.lowered",
    "atp-rate.missed",
    "atp-rate.starts",
    "holes.resent",
    "unserved",
    "peer.epochs.hops",
    "peer.epochs.holes",
    "peer.epochs.feedbacks",
    "peer.epochs.early",
];

/// A flow over a chain of so many hops, whose nodes idled for a second, and what is said besides.
fn run(protocol: &str, hops: u32, flow: &str, more: &str) -> Outcome {
    let nodes = hops + 1;
    let series = SERIES.map(|s| format!("\"flow.1.{s}\"")).join(", ");
    let text = format!(
        "[topology]\nwords = \"linear,{nodes},snr=20\"\nset = \"TB-W9\"\n\
         [record]\ninterval = \"1ms\"\nseries = [{series}]\n{more}\n\
         [[flow]]\nfrom = \"n1\"\nto = \"n{nodes}\"\nprotocol = \"{protocol}\"\n\
         start = \"1s\"\n{flow}\n"
    );
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let registry = Registry::new(wifu_parts::registry(), wifu_parts::library());
    let mut simulation = Simulation::new(&scenario, &registry).unwrap_or_else(|e| panic!("{e}"));
    simulation.run();
    simulation.outcome()
}

fn file(bytes: &str) -> String {
    format!("app = \"file\"\nbytes = \"{bytes}\"")
}

const PATIENT: &str = "[radio]\nattempts = 7\n[stop]\ntime = \"120s\"\n";

#[track_caller]
fn delivered(outcome: &Outcome, bytes: u64) {
    let flow = &outcome.flows[0];
    assert!(flow.finished, "{flow:?}");
    assert_eq!((flow.bytes, flow.corrupt, flow.timeouts), (bytes, 0, 0));
}

fn series<'a>(outcome: &'a Outcome, name: &str) -> &'a Series {
    let found = outcome.series.get(&format!("flow.1.{name}"));
    found.unwrap_or_else(|| panic!("{name}: {:?}", outcome.series.keys()))
}

fn last(outcome: &Outcome, name: &str) -> f64 {
    series(outcome, name).last().expect("it was recorded").1
}

/// What a series said last before a time.
fn at(series: &Series, time: f64) -> f64 {
    let i = series.partition_point(|p| p.0 <= time);
    series[i.saturating_sub(1)].1
}

#[test]
fn each_node_collects_and_the_rate_follows_what_comes_back() {
    for hops in [1, 2, 4] {
        let outcome = run("atp", hops, &file("2M"), PATIENT);
        delivered(&outcome, 2_000_000);
        let flow = &outcome.flows[0];
        for node in &outcome.nodes[..hops as usize] {
            assert!(
                node.handlers[0].changed > 500,
                "{}: {:?}",
                node.name,
                node.handlers
            );
        }
        let counted = series(&outcome, "peer.epochs.hops").iter().map(|p| p.1);
        assert_eq!(counted.fold(0.0, f64::max), f64::from(hops));
        // An idle node says three times the time of a frame at 24 Mb/s (Behaviour 7.4).
        let ds = series(&outcome, "atp-rate.ds_us");
        let first = ds.iter().map(|p| p.1).find(|us| *us != 20_000.0);
        assert_eq!(first, Some(2_043.0), "{hops} hops");
        let paced = flow.limited_s.get("pace").copied().unwrap_or_default();
        assert!(
            paced > 0.8 * (flow.until_s - flow.start_s),
            "{hops} hops: {:?}",
            flow.limited_s
        );
        // Each feedback moves the interval as the rule says.
        let (mut moved, d) = (0, series(&outcome, "atp-rate.d_us"));
        for pair in ds.windows(2).filter(|p| p[0].1 != 20_000.0) {
            let [before, after, d] = [pair[0].1, pair[1].1, at(d, pair[1].0)];
            // Feedback that stayed away halves the rate.
            if before == after || after == 2.0 * before {
                continue;
            }
            moved += 1;
            let expected = if before > 1.1 * d {
                let (s, r) = (1.0 / before, 1.0 / d);
                1.0 / (s + 0.2 * (r - s))
            } else {
                d
            };
            assert!((after - expected).abs() < 1.0, "{before} to {after} by {d}");
        }
        assert!(moved >= 1, "{hops} hops: {ds:?}");
    }
}

#[test]
fn what_radios_lose_is_reported_in_holes_and_goes_again() {
    let outcome = run(
        "atp",
        3,
        &file("1M"),
        "[radio]\nattempts = 2\n[stop]\ntime = \"600s\"\n",
    );
    delivered(&outcome, 1_000_000);
    let flow = &outcome.flows[0];
    assert!(flow.retransmissions >= 10, "{flow:?}");
    assert_eq!(last(&outcome, "holes.resent"), flow.retransmissions as f64);
    assert!(last(&outcome, "peer.epochs.holes") >= 5.0);
}

#[test]
fn a_path_that_is_cut_costs_two_halvings_and_a_question() {
    let cut = "[[event]]\nat = \"4s\"\ncut = [\"n2\", \"n3\"]\n\
               [[event]]\nat = \"14s\"\nrestore = [\"n2\", \"n3\"]\n";
    let outcome = run("atp", 2, &file("4M"), &format!("{PATIENT}{cut}"));
    delivered(&outcome, 4_000_000);
    assert_eq!(last(&outcome, "atp-rate.missed"), 3.0);
    assert_eq!(last(&outcome, "atp-rate.starts"), 2.0);
    let ds = series(&outcome, "atp-rate.ds_us");
    let (before, during) = (at(ds, 4.0), at(ds, 9.0));
    assert!(
        (during / before - 4.0).abs() < 0.01,
        "{before}, then {during}"
    );
    // The answer to the first probe that passes tells of a queue that waited ten seconds, and D_s
    // is at its bound; as that drains the rate comes back.
    let (answered, end) = (at(ds, 15.0), last(&outcome, "atp-rate.ds_us"));
    assert!(answered == 1e6 && end < 2.0 * before, "{answered}, {end}");
}

#[test]
fn a_path_shared_by_more_flows_slows_each_down() {
    let alone = run(
        "atp",
        2,
        "app = \"bulk\"",
        "[radio]\nattempts = 7\n[stop]\ntime = \"20s\"\n",
    );
    let second = "[[flow]]\nfrom = \"n1\"\nto = \"n3\"\nprotocol = \"atp\"\napp = \"bulk\"\n";
    let flow = format!("app = \"bulk\"\n{second}");
    let shared = run(
        "atp",
        2,
        &flow,
        "[radio]\nattempts = 7\n[stop]\ntime = \"20s\"\n",
    );
    let bytes = |o: &Outcome| o.flows[0].bytes;
    assert!(
        4 * bytes(&shared) < 3 * bytes(&alone),
        "{} {}",
        bytes(&shared),
        bytes(&alone)
    );
    assert!(
        shared
            .flows
            .iter()
            .all(|f| f.bytes > 100_000 && f.corrupt == 0)
    );
    assert!(shared.jain() > 0.7, "{}", shared.jain());
}

#[test]
fn a_relay_that_does_not_serve_is_named() {
    let outcome = run(
        "atp",
        4,
        &file("300k"),
        &format!("{PATIENT}[host]\nunserved = [\"n3\"]\n"),
    );
    delivered(&outcome, 300_000);
    assert!(outcome.flows[0].unserved > 100);
    assert_eq!(outcome.flows[0].unserved_at, ["n3"]);
    // Feedback is counted by nobody: the bit UNSERVED tells the sender.
    assert_eq!(last(&outcome, "unserved"), 1.0);
}

#[test]
fn the_same_scenario_is_the_same_run() {
    let text = |o: Outcome| o.to_json().to_string();
    let one = || run("atp", 3, &file("300k"), PATIENT);
    assert_eq!(text(one()), text(one()));
}

/// An idle path of 24 Mb/s: nodes say the time of a frame, and the sender takes 3 and half for each
/// further hop of it (Behaviour 8.2). What does not fit is told before the epoch is over.
#[test]
fn the_adaptive_form_multiplies_at_the_sender_and_is_told_early() {
    for (hops, first) in [(1, 3.0), (2, 3.5), (4, 4.5)] {
        let outcome = run("atp-adaptive", hops, &file("2M"), PATIENT);
        delivered(&outcome, 2_000_000);
        let ds = series(&outcome, "atp-rate.ds_us").iter().map(|p| p.1);
        let start = ds.into_iter().find(|us| *us != 20_000.0);
        assert_eq!(start, Some(681.0 * first), "{hops} hops");
        let [early, all] =
            ["early", "feedbacks"].map(|n| last(&outcome, &format!("peer.epochs.{n}")));
        assert!(early > 0.0 && early < all, "{hops} hops: {early} of {all}");
    }
}

#[test]
fn the_aggressive_form_reports_every_forty_milliseconds() {
    let outcome = run("atp-aggressive", 2, &file("2M"), PATIENT);
    delivered(&outcome, 2_000_000);
    let flow = &outcome.flows[0];
    let lasted = flow.until_s - flow.connected_s.unwrap_or_default();
    let reports = last(&outcome, "peer.epochs.feedbacks") / (lasted / 0.04);
    assert!((0.8..1.3).contains(&reports), "{reports} of one per epoch");
    assert_eq!(last(&outcome, "peer.epochs.early"), 0.0);
}

/// The thesis blames lost and clustered feedback on queues that treat it as data.
#[test]
fn feedback_may_go_before_data() {
    let more = format!("{PATIENT}[host]\nprio_feedback = true\n");
    let outcome = run("atp-aggressive", 3, &file("2M"), &more);
    delivered(&outcome, 2_000_000);
    let reports = last(&outcome, "peer.epochs.feedbacks");
    let first: u64 = outcome.nodes.iter().map(|n| n.first).sum();
    assert!(first as f64 > 0.9 * reports, "{first} of {reports}");
}
