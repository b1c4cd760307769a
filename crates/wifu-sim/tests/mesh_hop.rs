//! Hop over simulated radios: blocks go from node to node, a node takes few of them, and what is
//! lost on the way goes again from where it still is.

use wifu_node::{LaneCounters, Registry};
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::Outcome;
use wifu_sim::scenario::Scenario;

fn registry() -> Registry {
    Registry::new(wifu_parts::registry(), wifu_parts::library())
}

const ENDS: [&str; 7] = [
    "hop-source.blocks",
    "hop-source.vtx",
    "hop-source.resent",
    "srtt",
    "peer.hop-sink.backs",
    "peer.hop-sink.acks",
    "peer.hop-sink.refused",
];
const LANES: [&str; 9] = [
    "asked",
    "answered",
    "held_back",
    "refused",
    "handed",
    "again",
    "from_cache",
    "custody",
    "revived",
];

/// Numbers of the ends, and of the lanes of the first nodes.
fn names(nodes: u32) -> Vec<String> {
    let lanes = (1..nodes).flat_map(|n| LANES.map(|s| format!("n{n}.hop-block.{s}")));
    ENDS.map(String::from).into_iter().chain(lanes).collect()
}

fn run_on(topology: &str, nodes: u32, flow: &str, more: &str) -> Outcome {
    let series = names(nodes).into_iter().map(|s| format!("\"flow.1.{s}\""));
    let series = series.collect::<Vec<_>>().join(", ");
    let text = format!(
        "{topology}\n[stop]\ntime = \"600s\"\n[record]\ninterval = \"1ms\"\nseries = [{series}]\n\
         {more}\n{flow}"
    );
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut simulation = Simulation::new(&scenario, &registry()).unwrap_or_else(|e| panic!("{e}"));
    simulation.run();
    let outcome = simulation.outcome();
    tell(&outcome, nodes);
    for flow in &outcome.flows {
        assert!(flow.finished, "{flow:?} {:?}", lanes(&outcome));
        assert_eq!((flow.corrupt, &flow.fault), (0, &None));
    }
    // Before its time, because the source knows that all arrived.
    assert_eq!(outcome.end, "done");
    outcome
}

fn flow(from: u32, to: u32, protocol: &str, bytes: &str) -> String {
    format!(
        "[[flow]]\nfrom = \"n{from}\"\nto = \"n{to}\"\nprotocol = \"{protocol}\"\napp = \"file\"\n\
         bytes = \"{bytes}\"\n"
    )
}

/// A file over a chain of so many hops.
fn run(protocol: &str, hops: u32, bytes: &str, more: &str) -> Outcome {
    let nodes = hops + 1;
    let topology = format!("[topology]\nwords = \"linear,{nodes},snr=20\"\nset = \"TB-W9\"\n");
    run_on(&topology, nodes, &flow(1, nodes, protocol, bytes), more)
}

const PATIENT: &str = "[radio]\nattempts = 7\n";

/// n3 takes blocks that it cannot pass on, and gets no word for longer than a lane is kept: it
/// drops what it has, as if it had been started anew.
const FORGETS: &str = "[[event]]\nat = \"0.4s\"\ncut = [\"n3\", \"n4\"]\n\
                       [[event]]\nat = \"1s\"\ncut = [\"n2\", \"n3\"]\n\
                       [[event]]\nat = \"40s\"\nrestore = [\"n2\", \"n3\"]\n\
                       [[event]]\nat = \"40s\"\nrestore = [\"n3\", \"n4\"]\n";

/// The last value of a series; 0 if it was never known.
fn last(outcome: &Outcome, name: &str) -> f64 {
    let series = outcome.series.get(&format!("flow.1.{name}"));
    series
        .and_then(|s| s.last())
        .map_or(0.0, |(_, value)| *value)
}

fn most(outcome: &Outcome, name: &str) -> f64 {
    let series = outcome.series.get(&format!("flow.1.{name}"));
    let values = series.into_iter().flatten().map(|s| s.1);
    values.fold(0.0, f64::max)
}

fn lanes(outcome: &Outcome) -> Vec<LaneCounters> {
    outcome.nodes.iter().filter_map(|n| n.lanes).collect()
}

fn tell(outcome: &Outcome, nodes: u32) {
    let flow = &outcome.flows[0];
    let values: Vec<String> = names(nodes)
        .iter()
        .map(|s| format!("{s} {}", last(outcome, s)))
        .collect();
    println!(
        "{:.3} s, {} again, {} lost\n  {}",
        flow.until_s,
        flow.retransmissions,
        flow.packets.wire + flow.packets.link,
        values.join(", ")
    );
}

#[test]
fn files_arrive_over_one_to_five_clean_hops_and_nothing_goes_twice() {
    for hops in [1, 2, 3, 5] {
        let outcome = run("hop", hops, "300k", PATIENT);
        let flow = &outcome.flows[0];
        assert_eq!((flow.bytes, flow.unserved), (300_000, 0));
        let packets = 300_000_u64.div_ceil(1_444) + 1;
        for (n, lane) in lanes(&outcome).iter().take(hops as usize).enumerate() {
            let at = format!("n{} of {hops}: {lane:?}", n + 1);
            assert_eq!((lane.full, lane.idled, lane.unlaned), (0, 0, 0), "{at}");
            assert!(lane.sent <= packets + packets / 20, "{at}");
        }
        // Each block is asked for before it goes, and when it went.
        let [blocks, asked] =
            ["hop-source.blocks", "n1.hop-block.asked"].map(|n| last(&outcome, n));
        assert!(
            blocks >= 4.0 && asked >= 2.0 * blocks - 4.0,
            "{blocks} {asked}"
        );
        assert_eq!(last(&outcome, "hop-source.resent"), 0.0);
    }
}

/// Hop, "Reliable Per-Hop Block Transfer": what a BACK lists goes again, by the node before, and
/// nothing else.
#[test]
fn what_is_lost_on_a_hop_goes_again_on_that_hop() {
    for (hops, seed) in [(3, 1), (4, 2), (5, 3)] {
        let nodes = hops + 1;
        let topology =
            format!("seed = {seed}\n[topology]\nwords = \"linear,{nodes},wire=10Mb/s,loss=10%\"\n");
        let outcome = run_on(&topology, nodes, &flow(1, nodes, "hop", "300k"), "");
        let (again, lost): (f64, f64) = (1..nodes)
            .map(|n| last(&outcome, &format!("n{n}.hop-block.again")))
            .fold((0.0, outcome.flows[0].packets.wire as f64), |a, n| {
                (a.0 + n, a.1)
            });
        assert!(lost > 30.0 && again > 20.0, "{lost} {again}");
        // A question or its answer may be lost, which makes nothing go again.
        assert!(again <= lost, "{lost} {again}");
        assert_eq!(last(&outcome, "hop-source.resent"), 0.0);
    }
}

/// Hop, "Backpressure": one block in service and one beyond it.
#[test]
fn a_node_has_no_more_blocks_than_it_may_and_holds_back_the_one_before() {
    for places in [0, 1, 3] {
        let slow = "[[event]]\nat = \"0.3s\"\ncut = [\"n3\", \"n4\"]\n\
                    [[event]]\nat = \"6s\"\nrestore = [\"n3\", \"n4\"]\n";
        let protocol = format!("hop,block=16,lane.outstanding={places}");
        let outcome = run(&protocol, 4, "1M", &format!("{PATIENT}{slow}"));
        for n in 1..=4 {
            let custody = most(&outcome, &format!("n{n}.hop-block.custody"));
            assert!(custody <= f64::from(places + 1), "n{n}: {custody}");
        }
        assert!(last(&outcome, "n3.hop-block.held_back") > 3.0);
        assert!(last(&outcome, "n2.hop-block.held_back") > 3.0);
        assert!(lanes(&outcome).iter().all(|l| l.most <= 64));
        // While nothing passes n3 the source stands, too.
        let lane = outcome.flows[0].limited_s.get("lane").copied();
        assert!(
            lane.unwrap_or_default() > 4.0,
            "{:?}",
            outcome.flows[0].limited_s
        );
    }
}

/// Hop, "Virtual Retransmission": what a relay lost that had confirmed it comes from the relay
/// before, not from the source.
#[test]
fn a_relay_that_lost_its_blocks_gets_them_from_the_one_before() {
    let events = FORGETS;
    let outcome = run("hop,block=16", 4, "1M", &format!("{PATIENT}{events}"));
    let relay = lanes(&outcome)[2];
    assert!(relay.opened >= 2 && relay.idled > 0, "{relay:?}");
    assert!(last(&outcome, "hop-source.vtx") > 2.0);
    assert!(last(&outcome, "n2.hop-block.from_cache") >= 16.0);
    assert_eq!(last(&outcome, "n1.hop-block.from_cache"), 0.0);
}

/// Where nothing is kept the source itself sends again.
#[test]
fn without_caches_the_source_sends_a_lost_block_itself() {
    let events = FORGETS;
    let outcome = run(
        "hop,block=16,lane.cache=0",
        4,
        "1M",
        &format!("{PATIENT}{events}"),
    );
    assert!(last(&outcome, "hop-source.resent") >= 16.0);
}

#[test]
fn data_go_both_ways_at_once_and_streams_share_a_chain() {
    let topology = "seed = 2\n[topology]\nwords = \"linear,5,wire=10Mb/s,loss=10%\"\n";
    let flows = flow(1, 5, "hop", "200k") + &flow(5, 1, "hop", "200k") + &flow(2, 4, "hop", "200k");
    let outcome = run_on(topology, 5, &flows, "");
    assert_eq!(outcome.flows.len(), 3);
}

/// Hop, "Micro-block Prioritization": what fits into few packets is not asked for before it goes.
#[test]
fn a_small_block_takes_no_round_of_questions() {
    let took = |micro: u32| {
        let outcome = run(&format!("hop,lane.micro={micro}"), 4, "3k", PATIENT);
        outcome.flows[0].until_s
    };
    let (at_once, asked) = (took(4), took(0));
    assert!(at_once < 0.9 * asked, "{at_once} {asked}");
}

/// An acknowledgement that is lost is told again: both ends close, however often that happens, and
/// in either direction.
#[test]
fn both_ends_close_over_lossy_hops() {
    for (hops, loss) in [(3, 10), (3, 20), (5, 10)] {
        for seed in 1..=12 {
            let nodes = hops + 1;
            let topology = format!(
                "seed = {seed}\n[topology]\nwords = \"linear,{nodes},wire=10Mb/s,loss={loss}%\"\n"
            );
            // The second one begins when whoever waited for an answer would have given up.
            let late = flow(1, 2, MANY_SYNS, "1k") + "start = \"200s\"\n";
            let flows = flow(1, nodes, MANY_SYNS, "60k") + &late;
            let outcome = run_on(&topology, nodes, &flows, "");
            assert!(outcome.sim_seconds > 200.0);
        }
    }
}

/// That of ends is as ever: here lanes are tried.
const MANY_SYNS: &str = "hop,syn_tries=30";

/// A relay lost blocks that the others are done with, and the destination has no room for what is
/// behind them: they pass all that.
#[test]
fn lost_blocks_pass_those_for_which_there_is_no_room() {
    let memory = ["20k", "64k", "200k", "500k"];
    for (room, more) in memory.iter().flat_map(|m| [(m, ""), (m, ",lane.cache=0")]) {
        for block in [3, 16] {
            let protocol = format!("hop,block={block},rcv_wnd={room}{more}");
            let outcome = run(&protocol, 4, "1M", &format!("{PATIENT}{FORGETS}"));
            let took = outcome.flows[0].until_s;
            assert!(took < 100.0, "{protocol}: {took}");
            // No round goes on and on in vain.
            let sent: u64 = lanes(&outcome).iter().map(|l| l.sent).sum();
            assert!(sent < 5 * 800, "{protocol}: {sent}");
        }
    }
}

/// A destination with little room acknowledges parts of blocks. Of such a block relays that were
/// started anew got no more than the rest, waited for the whole, and nothing went on any more.
#[test]
fn a_block_of_which_the_destination_has_a_part_does_not_wait_for_it() {
    let cut = |at: u32, until: u32, from: u32| {
        format!(
            "[[event]]\nat = \"{at}ms\"\ncut = [\"n{from}\", \"n{0}\"]\n\
             [[event]]\nat = \"{until}ms\"\nrestore = [\"n{from}\", \"n{0}\"]\n",
            from + 1
        )
    };
    let more = format!(
        "seed = 15\n[topology]\nwords = \"linear,6,snr=20\"\nset = \"TB-W9\"\n\
         [radio]\nattempts = 2\n{}{}",
        cut(755, 38_000, 5),
        cut(1_495, 40_000, 4)
    );
    let protocol = "hop,lane.cache=0,block=16,rcv_wnd=32k,syn_tries=30";
    let outcome = run_on(&more, 6, &flow(1, 6, protocol, "1M"), "");
    assert!(outcome.flows[0].until_s < 200.0);
    let resent = last(&outcome, "hop-source.resent");
    assert!(resent > 0.0, "no relay lost a block for good");
}

/// Blocks do not pass a relay that does not answer, which is said by its name.
#[test]
fn a_relay_that_does_not_serve_it_is_named_as_what_nothing_passes() {
    for (protocol, unserved) in [("hop", true), ("hop", false), ("hxh", true)] {
        let host = if unserved {
            "[host]\nunserved = [\"n3\"]\n"
        } else {
            ""
        };
        let text = format!(
            "[topology]\nwords = \"linear,5\"\nset = \"TB-W9\"\n[stop]\ntime = \"60s\"\n\
             {host}{}",
            flow(1, 5, protocol, "20k")
        );
        let scenario = Scenario::from_toml(&text).unwrap();
        let mut simulation = Simulation::new(&scenario, &registry()).unwrap();
        simulation.run();
        let outcome = simulation.outcome();
        let stands = protocol == "hop" && unserved;
        assert_eq!(outcome.flows[0].bytes == 0, stands);
        let named = outcome
            .warnings
            .iter()
            .any(|w| w.contains("flow 1: nothing was delivered") && w.contains("n3 on its way"));
        assert_eq!(named, stands, "{:?}", outcome.warnings);
    }
}
