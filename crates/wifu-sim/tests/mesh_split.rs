//! Split connections in the mesh: halves of their own, what they run, what is counted, and what a
//! scenario may not say.

use wifu_node::{Registry, SplitCounters};
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::Outcome;
use wifu_sim::scenario::Scenario;

fn registry() -> Registry {
    Registry::new(wifu_parts::registry(), wifu_parts::library())
}

fn refused(text: &str) -> String {
    let scenario =
        Scenario::from_toml(text).and_then(|s| Simulation::new(&s, &registry()).map(drop));
    scenario.expect_err(text).to_string()
}

fn run(text: &str) -> Outcome {
    let scenario = Scenario::from_toml(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut simulation = Simulation::new(&scenario, &registry()).unwrap_or_else(|e| panic!("{e}"));
    simulation.run();
    let outcome = simulation.outcome();
    for flow in &outcome.flows {
        let p = flow.packets;
        let lost = p.queue + p.link + p.wire + p.route + p.hop;
        assert_eq!(
            (flow.corrupt, p.sent),
            (0, p.delivered + lost + p.inside),
            "{p:?}"
        );
    }
    outcome
}

fn split(outcome: &Outcome, node: &str) -> SplitCounters {
    let node = outcome.nodes.iter().find(|n| n.name == node);
    node.and_then(|n| n.split).expect("it splits")
}

/// `n1` and `n3` over `n2`, whose wire to `n3` is so, with a file from the first to the last.
fn wires(far: &str, protocol: &str, more: &str) -> String {
    let nodes = ["n1", "n2", "n3"]
        .map(|n| format!("[[topology.node]]\nname = \"{n}\"\nwired_only = true\n"));
    format!(
        "{}[[topology.wire]]\na = \"n1\"\nb = \"n2\"\nrate = \"10Mb/s\"\ndelay = \"25ms\"\n\
         [[topology.wire]]\na = \"n2\"\nb = \"n3\"\n{far}\n\
         [[flow]]\nfrom = \"n1\"\nto = \"n3\"\nprotocol = \"{protocol}\"\napp = \"file\"\n\
         bytes = \"1M\"\n[stop]\ntime = \"300s\"\n{more}",
        nodes.concat()
    )
}

const LOSSY: &str = "rate = \"10Mb/s\"\ndelay = \"20ms\"\nloss = 0.02";
const AT_N2: &str = "[[split]]\nnodes = [\"n2\"]\n";

#[test]
fn loss_behind_the_splitter_is_repaired_by_the_splitter_alone() {
    let whole = run(&wires(LOSSY, "tcp-newreno", ""));
    let split_at = run(&wires(LOSSY, "tcp-newreno", AT_N2));
    let (whole, flow) = (&whole.flows[0], &split_at.flows[0]);
    assert!(whole.finished && flow.finished, "{flow:?}");
    assert!(whole.retransmissions > 0);
    assert_eq!((flow.retransmissions, flow.bytes), (0, 1_000_000));
    let split = split(&split_at, "n2");
    assert!(split.far.retransmissions > 0, "{split:?}");
    assert_eq!(
        (split.accepted, split.joined, split.closed + split.open),
        (1, 1, 1)
    );
    assert_eq!((split.near.bytes, split.far.bytes), (1_000_000, 0));
    // The source has its acknowledgements from next door.
    assert!(
        flow.min_rtt_s < Some(0.06) && whole.min_rtt_s > Some(0.085),
        "{:?}",
        flow.min_rtt_s
    );
    // Its last octet was acknowledged before the receiver had it, and nobody told it of that.
    assert_eq!(
        (flow.known_s, &flow.split_at[..]),
        (None, &["n2".to_owned()][..])
    );
    assert!(whole.known_s > whole.last_byte_s && whole.split_at.is_empty());
    assert!(flow.last_byte_s.is_some() && split_at.end == "done");
    assert!(
        flow.goodput_bps > 1.2 * whole.goodput_bps,
        "{} {}",
        flow.goodput_bps,
        whole.goodput_bps
    );
    // Every packet of each half is on the hop where it was.
    let hop = |n: u32, from: &str| {
        let mut on = split_at.hops.iter().filter(|h| !h.reverse && h.hop == n);
        assert!(on.all(|h| h.from == from), "{:?}", split_at.hops);
    };
    hop(1, "n1");
    hop(2, "n2");
}

#[test]
fn each_half_runs_what_it_is_told_to() {
    let more = "[[split]]\nnodes = [\"n2\"]\nnear = \"tcp-newreno\"\nfar = \"tcp-cubic\"\n\
                [record]\nseries = [\"flow.1.n2.far.cubic.w_max\", \"flow.1.n2.far.cwnd\", \
                \"flow.1.n2.near.window\"]\n";
    let outcome = run(&wires(LOSSY, "tcp-newreno", more));
    assert!(outcome.flows[0].finished);
    for name in ["far.cubic.w_max", "far.cwnd", "near.window"] {
        let series = &outcome.series[&format!("flow.1.n2.{name}")];
        assert!(series.iter().any(|(_, v)| *v > 0.0), "{name}");
    }
    let wrong = |name: &str| {
        let series = format!("{AT_N2}[record]\nseries = [\"flow.1.n2.{name}\"]\n");
        refused(&wires(LOSSY, "tcp-newreno", &series))
    };
    assert!(
        wrong("far.cubic.w_max").contains("record.series.1"),
        "{}",
        wrong("far.cubic.w_max")
    );
    assert!(wrong("cwnd").contains("has no lane"), "{}", wrong("cwnd"));
}

#[test]
fn a_slow_far_link_closes_the_window_of_the_source() {
    let slow = "rate = \"1Mb/s\"\ndelay = \"20ms\"";
    let tcp = "tcp-newreno,rcv_wnd=65535,snd_buf=131072";
    let record = |of: &str| format!("[record]\nseries = [\"flow.1.{of}.window\"]\n");
    let whole = run(&wires(slow, tcp, &record("peer")));
    let outcome = run(&wires(slow, tcp, &format!("{AT_N2}{}", record("n2.near"))));
    let least = |series: &[(f64, f64)]| series.iter().map(|p| p.1).fold(f64::MAX, f64::min);
    let window = |o: &Outcome, name: &str| least(&o.series[&format!("flow.1.{name}")]);
    let near = window(&outcome, "n2.near.window");
    assert!(near < 10_000.0, "{near} {:?}", split(&outcome, "n2"));
    assert!(window(&whole, "peer.window") > 30_000.0);
    let held = split(&outcome, "n2").most_held;
    assert!(held > 100_000 && held <= 65_535 + 131_072, "{held}");
}

/// Where it is looked at every microsecond, what is less than one counts.
#[test]
fn what_data_waits_on_fast_wires_is_not_rounded_away() {
    let names = ["near.recv_q", "far.unsent"].map(|name| format!("flow.1.n2.{name}"));
    let series = format!("{AT_N2}[record]\ninterval = \"10us\"\nseries = {names:?}\n");
    let fast = wires("rate = \"5Gb/s\"\ndelay = \"20us\"", "tcp-newreno", &series).replace(
        "\"10Mb/s\"\ndelay = \"25ms\"",
        "\"10Gb/s\"\ndelay = \"20us\"",
    );
    let outcome = run(&fast);
    let area: f64 = names
        .iter()
        .map(|name| outcome.series[name].iter().map(|p| p.1 * 1e-5).sum::<f64>())
        .sum();
    let counted = split(&outcome, "n2").waited_octet_us as f64 / 1e6;
    println!("{area} octet seconds recorded, {counted} counted");
    assert!(
        counted > 10.0 && (counted / area - 1.0).abs() < 0.05,
        "{area} {counted}"
    );
}

/// By Little's law from what is recorded, as the lab has it, and by what the splitter counts.
#[test]
fn what_data_waits_at_a_splitter_is_what_its_buffers_held() {
    let slow = "rate = \"1Mb/s\"\ndelay = \"20ms\"";
    let names = ["near.recv_q", "far.unsent"].map(|name| format!("flow.1.n2.{name}"));
    let series = format!("{AT_N2}[record]\ninterval = \"1ms\"\nseries = {names:?}\n");
    let outcome = run(&wires(slow, "tcp-newreno", &series));
    let end = outcome.sim_seconds;
    let area = |name: &String| -> f64 {
        let points = &outcome.series[name];
        let until = points.iter().skip(1).map(|p| p.0).chain([end]);
        points.iter().zip(until).map(|(p, t)| p.1 * (t - p.0)).sum()
    };
    let recorded: f64 = names.iter().map(area).sum();
    let counted = split(&outcome, "n2").waited_octet_us as f64 / 1e6;
    println!("{recorded} octet seconds recorded, {counted} counted");
    assert!(
        (counted / recorded - 1.0).abs() < 0.01,
        "{recorded} {counted}"
    );
    assert!(counted > 1e6, "a second each");
    // A restart forgets what it holds, and what that had waited until then is counted.
    let restart = format!("{AT_N2}restart = \"1s\"\n");
    let cut = split(&run(&wires(slow, "tcp-newreno", &restart)), "n2");
    assert!(cut.waited_octet_us > 100_000_000_000, "{cut:?}");
}

/// What a chain of radios carries in both directions and across each other, over splitters one
/// behind the other.
#[test]
fn flows_over_splitters_behind_each_other_arrive_whole() {
    let flow = |from: u32, to: u32, more: &str| {
        format!(
            "[[flow]]\nfrom = \"n{from}\"\nto = \"n{to}\"\nprotocol = \"tcp-newreno\"\n{more}\n"
        )
    };
    let text = format!(
        "topology = {{ words = \"linear,6\", set = \"TB-W9\" }}\n\
         [[split]]\nnodes = [\"n3\", \"n4\"]\n{}{}{}{}[stop]\ntime = \"300s\"\n",
        flow(1, 6, "app = \"file\"\nbytes = \"300k\""),
        flow(5, 2, "app = \"file\"\nbytes = \"200k\""),
        flow(
            1,
            5,
            "app = \"http\"\ncount = 5\npause = \"100ms\"\ncap = \"50k\""
        ),
        flow(
            6,
            1,
            "app = \"request\"\nrequest = 200\nresponse = 20000\ncount = 5"
        ),
    );
    let outcome = run(&text);
    for flow in &outcome.flows {
        assert!(flow.finished && flow.fault.is_none(), "{flow:?}");
        let way = if flow.id == 1 || flow.id == 3 {
            ["n3", "n4"]
        } else {
            ["n4", "n3"]
        };
        assert_eq!(
            (&flow.split_at[..], flow.known_s),
            (&way.map(String::from)[..], None)
        );
    }
    for node in ["n3", "n4"] {
        let split = split(&outcome, node);
        // Each file of the third flow has a connection of its own.
        assert_eq!((split.accepted, split.joined), (8, 8), "{split:?}");
        assert_eq!((split.broken, split.unopened), (0, 0), "{split:?}");
        assert!(
            split.far.bytes >= 100_000,
            "the answers of the last flow come back: {split:?}"
        );
    }
    assert_eq!(outcome.trace_hash, run(&text).trace_hash, "the same again");
    assert!(outcome.warnings.is_empty(), "{:?}", outcome.warnings);
}

#[test]
fn datagrams_and_flows_that_end_at_a_splitter_are_not_split() {
    let udp = wires(LOSSY, "udp", "");
    let near = wires(LOSSY, "tcp-newreno", AT_N2).replace("to = \"n3\"", "to = \"n2\"");
    for text in [udp, near] {
        let flow = run(&text).flows.remove(0);
        assert!(
            flow.split_at.is_empty() && flow.known_s.is_some(),
            "{flow:?}"
        );
    }
}

#[test]
fn a_restart_breaks_the_connection() {
    let more = format!("{AT_N2}restart = \"500ms\"\n");
    let outcome = run(&wires(LOSSY, "tcp-newreno", &more));
    let flow = &outcome.flows[0];
    assert_eq!(flow.fault.as_deref(), Some("Reset"), "{flow:?}");
    assert!(
        flow.bytes < 1_000_000 && flow.fault_s < Some(1.0),
        "{flow:?}"
    );
    assert_eq!(split(&outcome, "n2").forgotten, 1);
}

/// The route to the far end is gone when the near half opens.
#[test]
fn a_destination_without_a_route_resets_who_asks_for_it() {
    let more = format!("{AT_N2}[[event]]\nat = \"60ms\"\ncut = [\"n2\", \"n3\"]\n");
    let outcome = run(&wires(LOSSY, "tcp-newreno", &more));
    let flow = &outcome.flows[0];
    assert_eq!(flow.fault.as_deref(), Some("Reset"), "{flow:?}");
    let split = split(&outcome, "n2");
    assert_eq!((split.accepted, split.joined, split.unopened), (1, 0, 1));
}

#[test]
fn what_cannot_be_split_is_refused_and_what_was_not_is_told() {
    let with = |more: &str| refused(&wires(LOSSY, "tcp-newreno", more));
    let at = |more: &str| with(&format!("{AT_N2}{more}\n"));
    let cases = [
        (
            with("[[split]]\nnodes = []\n"),
            "split.1.nodes: no node is named",
        ),
        (with("[[split]]\nnodes = [\"n9\"]\n"), "split.1.nodes.1"),
        (with(&format!("{AT_N2}{AT_N2}")), "n2 splits already"),
        (at("near = \"tcp-nevreno\""), "split.1.near"),
        (
            at("far = \"hxh\""),
            "split.1.far: hxh brings handlers or a lane",
        ),
        (at("far = \"atp\""), "split.1.far"),
        (
            at("fare = \"tcp-cubic\""),
            "unknown key; did you mean `far`",
        ),
    ];
    for (told, wanted) in cases {
        assert!(told.contains(wanted), "{told}\nwanted: {wanted}");
    }
    let two = "[[flow]]\nfrom = \"n3\"\nto = \"n1\"\nprotocol = \"tcp-cubic\"\napp = \"file\"\n\
               bytes = \"10k\"\n";
    let told = with(&format!("{two}{AT_N2}"));
    assert!(
        told.contains("flows run tcp-cubic and tcp-newreno"),
        "{told}"
    );
    let outcome = run(&wires(
        LOSSY,
        "tcp-newreno",
        "[[split]]\nnodes = [\"n3\"]\n",
    ));
    assert!(
        outcome.warnings[0].contains("no connection passed n3"),
        "{:?}",
        outcome.warnings
    );
    assert_eq!(split(&outcome, "n3"), SplitCounters::default());
}
