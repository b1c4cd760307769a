//! TP-alpha over simulated radios: each node raises the delay in the shim, the receiver averages it
//! and feeds it back, and the rate follows; both ways, over another way, and at a rate that is
//! fixed.

use wifu_node::Registry;
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::{Outcome, Series};
use wifu_sim::scenario::Scenario;

const SERIES: [&str; 12] = [
    "unserved",
    "peer.unserved",
    "tpa-rate.ds_us",
    "tpa-rate.d_us",
    "tpa-rate.raised",
    "tpa-rate.lowered",
    "peer.tpa-rate.ds_us",
    "peer.tpa-rate.d_us",
    "delay-echo.samples",
    "peer.delay-echo.max_us",
    "peer.delay-echo.mean_us",
    "peer.delay-echo.samples",
];

/// The network, the flow, and what is said besides.
fn over(network: &str, protocol: &str, flow: &str, more: &str) -> Outcome {
    let series = SERIES.map(|s| format!("\"flow.1.{s}\"")).join(", ");
    let text = format!(
        "{network}\n[record]\ninterval = \"1ms\"\nseries = [{series}]\n{more}\n\
         [[flow]]\nprotocol = \"{protocol}\"\nstart = \"1s\"\n{flow}\n"
    );
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let registry = Registry::new(wifu_parts::registry(), wifu_parts::library());
    let mut simulation = Simulation::new(&scenario, &registry).unwrap_or_else(|e| panic!("{e}"));
    simulation.run();
    simulation.outcome()
}

/// A flow over a chain of so many hops, whose nodes idled for a second.
fn run(protocol: &str, hops: u32, flow: &str, more: &str) -> Outcome {
    let nodes = hops + 1;
    let network = format!("[topology]\nwords = \"linear,{nodes},snr=20\"\nset = \"TB-W9\"\n");
    let flow = format!("from = \"n1\"\nto = \"n{nodes}\"\n{flow}");
    over(&network, protocol, &flow, more)
}

fn file(bytes: &str) -> String {
    format!("app = \"file\"\nbytes = \"{bytes}\"")
}

const PATIENT: &str = "[radio]\nattempts = 7\n[stop]\ntime = \"120s\"\n";

#[track_caller]
fn delivered(outcome: &Outcome, bytes: u64) {
    let flow = &outcome.flows[0];
    assert!(flow.finished, "{flow:?}");
    assert_eq!((flow.bytes, flow.corrupt), (bytes, 0));
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

/// The mean of what a series said, looked at each millisecond between two times.
fn mean(series: &Series, (from, to): (f64, f64)) -> f64 {
    let looks = ((to - from) * 1e3) as u32;
    let looks = (0..looks).map(|ms| at(series, from + f64::from(ms) / 1e3));
    looks.clone().sum::<f64>() / looks.count() as f64
}

/// The first interval that is no more the one without any feedback.
fn first(outcome: &Outcome, name: &str) -> f64 {
    let found = series(outcome, name).iter().find(|p| p.1 != 20_000.0);
    found.expect("it was set").1
}

#[test]
fn each_node_collects_and_the_rate_follows_what_comes_back() {
    for hops in [1, 2, 4] {
        let outcome = run("tp-alpha", hops, &file("2M"), PATIENT);
        delivered(&outcome, 2_000_000);
        let flow = &outcome.flows[0];
        for node in &outcome.nodes {
            let shim = &node.handlers[0];
            assert!(shim.changed > 2_000, "{}: {:?}", node.name, node.handlers);
        }
        // The shim takes 12 bytes of each segment.
        let whole = flow.data_segments - flow.retransmissions;
        assert_eq!(whole, 2_000_000_u64.div_ceil(1_436), "{hops} hops");
        // The SYN's, and one of each segment, the last of which ends the record.
        let samples = last(&outcome, "peer.delay-echo.samples");
        let more = samples - flow.data_segments as f64;
        assert!((0.0..=1.0).contains(&more), "{hops} hops: {samples}");
        // An idle node says three times the time of a frame at 24 Mb/s (Behaviour 7.4).
        assert_eq!(first(&outcome, "tpa-rate.ds_us"), 2_043.0, "{hops} hops");
        assert_eq!(
            first(&outcome, "peer.tpa-rate.ds_us"),
            2_043.0,
            "{hops} hops"
        );
        let paced = flow.limited_s.get("pace").copied().unwrap_or_default();
        let lasted = flow.until_s - flow.start_s;
        assert!(paced > 0.8 * lasted, "{hops} hops: {:?}", flow.limited_s);
        // It is never faster than a tenth beyond what was fed back, but for the steps there.
        let (ds, d) = (
            series(&outcome, "tpa-rate.ds_us"),
            series(&outcome, "tpa-rate.d_us"),
        );
        let settled: Vec<f64> = (20..80)
            .map(|part| flow.start_s + lasted * f64::from(part) / 100.0)
            .map(|t| at(ds, t) / at(d, t))
            .collect();
        assert!(
            settled.iter().all(|r| *r >= 0.999),
            "{hops} hops: {settled:?}"
        );
        let near = settled.iter().filter(|r| **r < 1.5).count();
        assert!(near > 40, "{hops} hops: {settled:?}");
        let moved = ["raised", "lowered"].map(|n| last(&outcome, &format!("tpa-rate.{n}")));
        assert!(moved.iter().all(|n| *n > 10.0), "{hops} hops: {moved:?}");
    }
}

/// The load is another's, which no feedback slows down: a node's delay is that of all its packets.
#[test]
fn a_node_that_others_load_slows_the_flow_down_and_lets_it_go_again() {
    let load = "[[flow]]\nfrom = \"n2\"\nto = \"n3\"\nprotocol = \"udp\"\nrate = \"16M\"\n\
                bytes = 8_000_000\nstart = \"5s\"\n";
    let flow = format!("{}\n{load}", file("5M"));
    let outcome = run("tp-alpha", 2, &flow, PATIENT);
    delivered(&outcome, 5_000_000);
    let times = [(2.0, 5.0), (6.0, 8.5), (11.0, 14.0)];
    let over = |name: &str| times.map(|t| mean(series(&outcome, name), t));
    let delays = over("peer.delay-echo.max_us");
    let [fed, intervals] = ["d_us", "ds_us"].map(|n| over(&format!("tpa-rate.{n}")));
    println!("{delays:?} {fed:?} {intervals:?}");
    for [calm, loaded, again] in [delays, fed, intervals] {
        assert!(
            loaded > 2.0 * calm && again < 1.5 * calm,
            "{delays:?} {fed:?} {intervals:?}"
        );
    }
    for ((max, d), ds) in delays.iter().zip(fed).zip(intervals) {
        // What is fed back averages what came, and D_s follows it.
        assert!((0.6..1.6).contains(&(d / max)), "{delays:?} {fed:?}");
        assert!((0.9..1.6).contains(&(ds / d)), "{fed:?} {intervals:?}");
    }
}

//= spec#9
// "`fixed_rate` bps -> D_s = 8*1500/rate"
#[test]
fn a_fixed_rate_is_kept_below_capacity_and_fills_queues_above_it() {
    let fixed = |rate: &str| {
        let spec = format!("tp-alpha,fixed_rate={rate}");
        run(
            &spec,
            3,
            "app = \"bulk\"",
            "[radio]\nattempts = 7\n[stop]\ntime = \"11s\"\n",
        )
    };
    let below = fixed("2M");
    let goodput = below.flows[0].goodput_bps;
    // Each packet of 1500 bytes has 1436 of the application.
    assert!(
        (goodput / (2e6 * 1436.0 / 1500.0) - 1.0).abs() < 0.02,
        "{goodput}"
    );
    let above = fixed("8M");
    assert!(above.flows[0].goodput_bps < 6e6, "{:?}", above.flows[0]);
    for (outcome, us) in [(&below, 6_000.0), (&above, 1_500.0)] {
        // Before the first feedback, and whatever was fed back.
        assert!(series(outcome, "tpa-rate.ds_us").iter().all(|p| p.1 == us));
        assert!(last(outcome, "tpa-rate.d_us") > 0.0);
    }
    let delays = [&below, &above].map(|o| last(o, "peer.delay-echo.mean_us"));
    // Twice the time of a frame is where the sweep's bound is.
    assert!(
        delays[0] < 2.0 * 681.5 && delays[1] > 2.0 * 681.5,
        "{delays:?}"
    );
}

#[test]
fn each_direction_of_a_conversation_has_its_own_delay_and_rate() {
    let talk = "app = \"request\"\nrequest = \"200k\"\nresponse = \"300k\"\ncount = 3";
    let outcome = run("tp-alpha", 2, talk, PATIENT);
    let flow = &outcome.flows[0];
    assert!(flow.finished && flow.corrupt == 0, "{flow:?}");
    for side in ["", "peer."] {
        let ds = series(&outcome, &format!("{side}tpa-rate.ds_us"));
        let first = ds.iter().map(|p| p.1).find(|us| *us != 20_000.0);
        assert_eq!(first, Some(2_043.0), "{side}");
        let changes = ds.windows(2).filter(|w| w[0].1 != w[1].1).count();
        assert!(changes > 50, "{side}: {changes}");
        assert!(
            last(&outcome, &format!("{side}delay-echo.samples")) > 400.0,
            "{side}"
        );
        assert!(
            last(&outcome, &format!("{side}tpa-rate.d_us")) > 500.0,
            "{side}"
        );
    }
}

#[test]
fn what_radios_lose_goes_again_and_the_rate_stays_that_of_the_delay() {
    let more = "[radio]\nattempts = 2\n[stop]\ntime = \"600s\"\n";
    let outcome = run("tp-alpha", 3, &file("1M"), more);
    delivered(&outcome, 1_000_000);
    let flow = &outcome.flows[0];
    assert!(
        flow.retransmissions >= 10 && flow.fast_retransmits > Some(0),
        "{flow:?}"
    );
    let ds = series(&outcome, "tpa-rate.ds_us").iter().map(|p| p.1);
    let slowest = ds.filter(|us| *us != 20_000.0).fold(0.0, f64::max);
    let d = series(&outcome, "tpa-rate.d_us").iter().map(|p| p.1);
    assert!(slowest <= d.fold(2_043.0, f64::max), "{slowest}");
}

#[test]
fn a_path_that_is_cut_is_waited_for() {
    let cut = "[[event]]\nat = \"3s\"\ncut = [\"n2\", \"n3\"]\n\
               [[event]]\nat = \"8s\"\nrestore = [\"n2\", \"n3\"]\n";
    let outcome = run("tp-alpha", 2, &file("4M"), &format!("{PATIENT}{cut}"));
    delivered(&outcome, 4_000_000);
    let flow = &outcome.flows[0];
    assert!(
        flow.timeouts.is_some_and(|n| (2..=4).contains(&n)),
        "{flow:?}"
    );
    // The rate alone governs: there is no window to tell of, not one of nothing.
    assert_eq!(flow.cwnd, None);
}

/// n1 reaches n4 over n2 and n3, and over n5 to n8 once the way between n2 and n3 is cut.
#[test]
fn another_way_has_another_delay() {
    let names = ["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"];
    let node = |n: &str| format!("[[topology.node]]\nname = \"{n}\"\nwired_only = true\n");
    let wire = |(a, b, rate): (&str, &str, &str)| {
        format!("[[topology.wire]]\na = \"{a}\"\nb = \"{b}\"\nrate = \"{rate}\"\ndelay = \"1ms\"\n")
    };
    let wires = [
        ("n1", "n2", "10Mb/s"),
        ("n2", "n3", "10Mb/s"),
        ("n3", "n4", "10Mb/s"),
        ("n1", "n5", "10Mb/s"),
        ("n5", "n6", "10Mb/s"),
        ("n6", "n7", "2Mb/s"),
        ("n7", "n8", "10Mb/s"),
        ("n8", "n4", "10Mb/s"),
    ];
    let network = format!("{}{}", names.map(node).concat(), wires.map(wire).concat());
    let more = "[stop]\ntime = \"12s\"\n[[event]]\nat = \"5s\"\ncut = [\"n2\", \"n3\"]\n";
    let flow = "from = \"n1\"\nto = \"n4\"\napp = \"bulk\"";
    let outcome = over(&network, "tp-alpha", flow, more);
    let [ds, d] = ["ds_us", "d_us"].map(|n| series(&outcome, &format!("tpa-rate.{n}")));
    println!(
        "{} {}, {} {}",
        at(ds, 4.9),
        at(d, 4.9),
        at(ds, 11.9),
        at(d, 11.9)
    );
    assert!(at(ds, 11.9) > 3.0 * at(ds, 4.9), "the slow wire's");
    assert!(at(ds, 11.9) >= at(d, 11.9));
    assert_eq!(outcome.flows[0].corrupt, 0);
}

#[test]
fn a_relay_that_does_not_serve_is_counted_and_told_to_both_ends() {
    let more = format!("{PATIENT}[host]\nunserved = [\"n3\"]\n");
    let outcome = run("tp-alpha", 4, &file("300k"), &more);
    delivered(&outcome, 300_000);
    assert!(outcome.flows[0].unserved > 100, "{:?}", outcome.flows[0]);
    assert_eq!(outcome.flows[0].unserved_at, ["n3"]);
    for side in ["unserved", "peer.unserved"] {
        assert_eq!(last(&outcome, side), 1.0, "{side}");
    }
    let served = run("tp-alpha", 4, &file("300k"), PATIENT);
    assert_eq!(served.flows[0].unserved, 0);
}

#[test]
fn without_a_shim_the_interval_stays() {
    let more = format!("{PATIENT}[host]\nunserved = [\"n1\", \"n2\", \"n3\"]\n");
    let outcome = run("tp-alpha", 2, &file("100k"), &more);
    delivered(&outcome, 100_000);
    assert!(
        series(&outcome, "tpa-rate.ds_us")
            .iter()
            .all(|p| p.1 == 20_000.0)
    );
    assert_eq!(outcome.flows[0].retransmissions, 0);
}

#[test]
fn flows_that_share_a_path_slow_each_other_down() {
    let more = "[radio]\nattempts = 7\n[stop]\ntime = \"20s\"\n";
    let alone = run("tp-alpha", 2, "app = \"bulk\"", more);
    let second = "[[flow]]\nfrom = \"n1\"\nto = \"n3\"\nprotocol = \"tp-alpha\"\napp = \"bulk\"\n";
    let shared = run("tp-alpha", 2, &format!("app = \"bulk\"\n{second}"), more);
    let bytes = [&alone, &shared].map(|o| o.flows[0].bytes);
    assert!(4 * bytes[1] < 3 * bytes[0], "{bytes:?}");
    assert!(
        shared
            .flows
            .iter()
            .all(|f| f.bytes > 1_000_000 && f.corrupt == 0)
    );
    assert!(shared.jain() > Some(0.7), "{:?}", shared.jain());
}

#[test]
fn the_same_scenario_is_the_same_run() {
    let text = |o: Outcome| o.to_json().to_string();
    let one = || run("tp-alpha", 3, &file("300k"), PATIENT);
    assert_eq!(text(one()), text(one()));
}
