//! ATP over simulated radios: every node collects its delay, the rate follows what comes back,
//! holes are repaired, and after silence the way is asked for anew.

use wifu_core::{Chain, Ground, Verbs};
use wifu_engine::Fact;
use wifu_node::{Catalog, Registry};
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::{Outcome, Series};
use wifu_sim::scenario::Scenario;
use wifu_wire::{Rng, Time};

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
    let mut simulation = Simulation::new(&scenario, &registry()).unwrap_or_else(|e| panic!("{e}"));
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

/// How often feedback moved the interval from then on, each time as the rule says.
#[track_caller]
fn moves(d: &Series, ds: &Series, from: f64) -> usize {
    let mut moved = 0;
    for pair in ds
        .windows(2)
        .filter(|p| p[0].1 != 20_000.0 && p[0].0 >= from)
    {
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
    moved
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
        let moved = moves(series(&outcome, "atp-rate.d_us"), ds, 0.0);
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

/// From n1 to n4 by n2 and n3, and by n5 to n8, over links that follow from who hears whom. Who is
/// two hops away is sensed.
fn two_ways() -> String {
    let (short, long) = ([1, 2, 3, 4], [1, 5, 6, 7, 8, 4]);
    let apart = |ways: &[u32], a: u32, b: u32| {
        let at = |n| ways.iter().position(|w| *w == n);
        at(a).zip(at(b)).map(|(a, b)| a.abs_diff(b))
    };
    let snr = |a: u32, b: u32| {
        let hops = [apart(&short, a, b), apart(&long, a, b)];
        match hops.into_iter().flatten().min() {
            Some(1) => "25",
            Some(2) => "6",
            _ => "-99",
        }
    };
    let row = |a| {
        let row: Vec<&str> = (1..=8)
            .map(|b| if a == b { "0" } else { snr(a, b) })
            .collect();
        format!("[{}]", row.join(", "))
    };
    let rows: Vec<String> = (1..=8).map(row).collect();
    format!(
        "[topology.matrix]\nsnr_db = [{}]\n[topology.radio]\nrate = \"24Mb/s\"\n\
         attempts = 7\n[routing]\nkind = \"shortest\"\n",
        rows.join(", ")
    )
}

/// A flow from n1 to n4 over such a network.
fn over(topology: &str, protocol: &str, flow: &str, more: &str) -> Simulation {
    let series = SERIES.map(|s| format!("\"flow.1.{s}\"")).join(", ");
    let text = format!(
        "{topology}[stop]\ntime = \"120s\"\n[record]\ninterval = \"1ms\"\n\
         series = [{series}]\n{more}\n[[flow]]\nfrom = \"n1\"\nto = \"n4\"\n\
         protocol = \"{protocol}\"\nstart = \"1s\"\n{flow}\n"
    );
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    Simulation::new(&scenario, &registry()).unwrap_or_else(|e| panic!("{e}"))
}

fn registry() -> Registry {
    Registry::new(wifu_parts::registry(), wifu_parts::library())
}

//= spec#18
// "path changes from 3 to 5 hops in mid-flow | N_h change, D adapts"
#[test]
fn a_path_that_grows_from_three_to_five_hops_is_counted_and_its_delay_followed() {
    // Routes follow at the next full second.
    let cut = "[[event]]\nat = \"5.9s\"\ncut = [\"n2\", \"n3\"]\n";
    for (protocol, starts) in [("atp", 1.0), ("atp,route_restart=on", 2.0)] {
        let mut simulation = over(&two_ways(), protocol, &file("6M"), cut);
        assert_eq!(simulation.route(0, 3), [0, 1, 2, 3]);
        simulation.run();
        assert_eq!(simulation.route(0, 3), [0, 4, 5, 6, 7, 3]);
        let outcome = simulation.outcome();
        delivered(&outcome, 6_000_000);
        let hops = series(&outcome, "peer.epochs.hops");
        let said: Vec<f64> = [5.8, 7.0].map(|t| at(hops, t)).into();
        assert_eq!(
            (said, last(&outcome, "peer.epochs.hops")),
            (vec![3.0, 5.0], 5.0)
        );
        assert_eq!(last(&outcome, "atp-rate.starts"), starts, "{protocol}");
        assert!(
            outcome.flows[0].retransmissions > 0,
            "what was on its way is lost"
        );
        // The new way is slower, and the interval follows what comes back.
        let (d, ds) = (
            series(&outcome, "atp-rate.d_us"),
            series(&outcome, "atp-rate.ds_us"),
        );
        let slowest = d.iter().filter(|p| p.0 > 7.0).map(|p| p.1);
        assert!(slowest.fold(0.0, f64::max) > 3.0 * at(d, 5.8), "{protocol}");
        // A question, where the route makes it ask, sets it at once.
        assert!(starts > 1.0 || moves(d, ds, 7.0) >= 5, "{protocol}");
    }
}

//= spec#18
// "intermediate node restarts": what its handlers knew is gone with what waited there. That a node
// without a sample says D0 is a test of `wifu-wire`.
#[test]
fn a_relay_that_restarts_loses_what_it_held_and_goes_on_collecting() {
    let mut off = String::new();
    for (at, what) in [("4s", "cut"), ("5s", "restore")] {
        for other in ["n1", "n3"] {
            off += &format!("[[event]]\nat = \"{at}\"\n{what} = [\"n2\", \"{other}\"]\n");
        }
    }
    let line = "[topology]\nwords = \"linear,4,snr=20\"\nset = \"TB-W9\"\n[radio]\n\
                attempts = 7\n";
    let mut simulation = over(line, "atp", &file("4M"), &off);
    simulation.step_until(Time(4_500_000_000));
    let (registry, mut chain) = (registry(), Chain::new());
    let ground = Ground {
        kinds: registry.kinds(),
        can: Verbs::ALL,
        told: &Fact::ALL,
    };
    let protocol = registry.resolve("atp").unwrap();
    protocol.append(&mut chain, &Rng::new(1), ground).unwrap();
    simulation.set_chain(1, chain);
    simulation.run();
    let outcome = simulation.outcome();
    delivered(&outcome, 4_000_000);
    let [_, new, old, _] = [0, 1, 2, 3].map(|n| &outcome.nodes[n].handlers);
    assert!(new[0].packets > 500 && new[0].packets + 500 < old[0].packets);
    assert!(new[0].changed > 500, "{new:?}");
    assert_eq!(last(&outcome, "peer.epochs.hops"), 3.0);
    assert!(outcome.flows[0].retransmissions > 0 && outcome.flows[0].unserved == 0);
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

/// A changed hash is a changed simulation: published figures then belong to an older version. If
/// that is meant, put the new one here, and say so in the changelog.
#[test]
fn small_runs_have_the_hashes_of_the_record() {
    let golden = [
        ("atp", "7", "477fb884b75b222e"),
        ("atp", "2", "56e29a6ee5ed47b8"),
        ("atp-aggressive", "2", "0762b2a7b7d63954"),
        ("atp-adaptive", "2", "ce150ef2dca2c13e"),
        (
            "atp,rtx_guard=off,route_restart=on",
            "1",
            "b4446b1b1a210bdb",
        ),
    ];
    let mut wrong = Vec::new();
    for (protocol, attempts, hash) in golden {
        let more = format!("[radio]\nattempts = {attempts}\n[stop]\ntime = \"120s\"\n");
        let outcome = run(protocol, 3, &file("500k"), &more);
        assert!(outcome.flows[0].bytes > 100_000, "{protocol}");
        if outcome.trace_hash != hash {
            wrong.push(format!("{protocol}, {attempts}: {}", outcome.trace_hash));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
