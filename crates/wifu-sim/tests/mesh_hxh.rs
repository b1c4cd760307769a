//! HxH over simulated radios: nodes hold packets back by the credits that they overhear, free them
//! by what they overhear of the destination, and what is lost is repaired.

use wifu_node::{LaneCounters, Registry};
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::{HopOutcome, Outcome};
use wifu_sim::scenario::Scenario;

fn registry() -> Registry {
    Registry::new(wifu_parts::registry(), wifu_parts::library())
}

/// Numbers of the ends and of the lane at the source.
const SERIES: [&str; 15] = [
    "hxh-source.passive",
    "hxh-source.explicit",
    "hxh-source.resent",
    "hxh-source.asked",
    "srtt",
    "peer.hxh-sink.last_hop_acks",
    "peer.hxh-sink.nacks",
    "peer.hxh-sink.acks",
    "peer.hxh-sink.refused",
    "n1.hop-credit.credits",
    "n1.hop-credit.heard",
    "n1.hop-credit.forced",
    "n1.hop-credit.asked",
    "n1.hop-credit.rerouted",
    "n1.hop-queue.pack",
];

fn run_on(topology: &str, flow: &str, more: &str) -> Outcome {
    let series = SERIES.map(|s| format!("\"flow.1.{s}\"")).join(", ");
    let text = format!(
        "{topology}\n[stop]\ntime = \"300s\"\n[record]\ninterval = \"1ms\"\nseries = [{series}, \
         \"flow.1.n2.hop-queue.again\", \"flow.1.n2.hop-queue.hop_acks\", \
         \"flow.1.n2.hop-queue.answered\", \"flow.1.n1.hop-queue.again\"]\n{more}\n{flow}"
    );
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut simulation = Simulation::new(&scenario, &registry()).unwrap_or_else(|e| panic!("{e}"));
    simulation.run();
    let outcome = simulation.outcome();
    for flow in &outcome.flows {
        assert!(flow.finished, "{flow:?} {:?}", lanes(&outcome));
        assert_eq!(flow.corrupt, 0);
    }
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
    run_on(&topology, &flow(1, nodes, protocol, bytes), more)
}

const PATIENT: &str = "[radio]\nattempts = 7\n";

/// The last value of a series; 0 if it was never known.
fn last(outcome: &Outcome, name: &str) -> f64 {
    let series = outcome.series.get(&format!("flow.1.{name}"));
    series
        .and_then(|s| s.last())
        .map_or(0.0, |(_, value)| *value)
}

fn lanes(outcome: &Outcome) -> Vec<LaneCounters> {
    outcome.nodes.iter().filter_map(|n| n.lanes).collect()
}

fn tell(what: &str, outcome: &Outcome) {
    let flow = &outcome.flows[0];
    let values: Vec<String> = SERIES
        .iter()
        .map(|s| format!("{s} {}", last(outcome, s)))
        .collect();
    println!(
        "{what}: {:.3} s, {} again, {:?}\n  {}",
        flow.until_s,
        flow.retransmissions,
        lanes(outcome),
        values.join(", ")
    );
}

#[test]
fn files_arrive_over_one_two_and_four_clean_hops_and_no_queue_overflows() {
    for protocol in ["hxh", "hxh-nolh"] {
        for hops in [1, 2, 4] {
            let outcome = run(protocol, hops, "300k", PATIENT);
            tell(&format!("{protocol} over {hops}"), &outcome);
            // 207 full packets, one that is shorter, the last one without payload.
            let flow = &outcome.flows[0];
            assert_eq!((flow.bytes, flow.unserved), (300_000, 0));
            for (node, lane) in lanes(&outcome).iter().enumerate() {
                assert_eq!(
                    (lane.full, lane.idled, lane.unlaned, lane.strangers),
                    (0, 0, 0, 0)
                );
                assert!(lane.most <= 8, "n{}", node + 1);
            }
            assert!(last(&outcome, "n1.hop-queue.pack") >= 1.0 || hops == 1);
        }
    }
}

/// What a hop protocol stands on: the sender is held by credits that it overhears.
#[test]
fn credits_hold_the_source_back_and_passive_words_free_its_packets() {
    let outcome = run("hxh", 4, "300k", PATIENT);
    tell("hxh", &outcome);
    let credits = &outcome.series["flow.1.n1.hop-credit.credits"];
    assert!(credits.iter().any(|c| c.1 == 0.0), "it was held back");
    assert!(last(&outcome, "n1.hop-credit.heard") > 150.0);
    let lane = outcome.flows[0]
        .limited_s
        .get("lane")
        .copied()
        .unwrap_or_default();
    assert!(
        lane > 0.5 * outcome.flows[0].until_s,
        "{:?}",
        outcome.flows[0].limited_s
    );
    // Its packets are freed by what it overhears; the destination says one word at the end.
    assert!(last(&outcome, "hxh-source.passive") > 50.0);
    assert!(last(&outcome, "hxh-source.explicit") <= 2.0);
    assert!(last(&outcome, "srtt") > 0.0);
    // Without confirmation of the last hop it only knows how long they took.
    let outcome = run("hxh-nolh", 4, "300k", PATIENT);
    assert!(last(&outcome, "hxh-source.passive") > 50.0);
    assert_eq!(last(&outcome, "peer.hxh-sink.last_hop_acks"), 0.0);
}

#[test]
fn every_packet_is_confirmed_over_the_last_hop_and_kept_so_long() {
    let outcome = run("hxh", 2, "300k", PATIENT);
    tell("hxh", &outcome);
    let packets = 300_000u32.div_ceil(1_444) + 1;
    // The series ends before the last of them.
    assert!(last(&outcome, "peer.hxh-sink.last_hop_acks") >= f64::from(packets - 5));
    let [source, relay] = lanes(&outcome)[..2] else {
        panic!("two lanes")
    };
    assert_eq!((source.kept, relay.kept), (0, relay.sent));
    // And of the other way its end.
    assert_eq!(relay.taken, u64::from(packets) + 1);
}

/// Where the queue and the ring before the last hop hold packets for longer than any first guess,
/// they still go once.
#[test]
fn long_queues_before_the_last_hop_make_nothing_go_twice() {
    let mut took = Vec::new();
    for places in [8, 32, 256] {
        let protocol = format!("hxh,lane.packets={places}");
        let outcome = run(&protocol, 2, "1M", PATIENT);
        tell(&protocol, &outcome);
        let relay = lanes(&outcome)[1];
        let packets = 1_000_000_u64.div_ceil(1_444) + 1;
        assert!(relay.sent < packets + packets / 4, "{places}: {relay:?}");
        took.push(outcome.flows[0].until_s);
    }
    assert!(took[2] < 1.5 * took[0], "{took:?}");
}

//= spec#10.9
// What has no room at the destination is not delivered, whatever the MAC says of it.
#[test]
fn where_the_last_hop_is_confirmed_the_mac_is_not_believed_there() {
    for more in ["", ",lane.credits=simple,lane.packets=16"] {
        let protocol = format!("hxh,lane.custody=mac,rcv_wnd=11552{more}");
        let outcome = run(&protocol, 4, "500k", "[radio]\nattempts = 1\n");
        tell(&protocol, &outcome);
        assert!(last(&outcome, "peer.hxh-sink.refused") > 0.0, "{protocol}");
    }
}

#[test]
fn losses_are_repaired_at_the_last_hop_and_end_to_end() {
    for protocol in ["hxh", "hxh-nolh"] {
        let [mut lost, mut nacks, mut resent, mut again] = [0.0; 4];
        for seed in 1..=3 {
            let more = "[radio]\nattempts = 1\noverhear_loss = 0.05\n";
            let topology = format!(
                "seed = {seed}\n[topology]\nwords = \"linear,5,snr=20\"\nset = \"TB-W9\"\n"
            );
            let outcome = run_on(&topology, &flow(1, 5, protocol, "300k"), more);
            tell(&format!("{protocol}, seed {seed}"), &outcome);
            lost += outcome.flows[0].packets.link as f64;
            nacks += last(&outcome, "peer.hxh-sink.nacks");
            resent += last(&outcome, "hxh-source.resent");
            again += lanes(&outcome)[3].sent as f64 - lanes(&outcome)[3].taken as f64;
            assert!(lanes(&outcome).iter().all(|l| l.most <= 8));
        }
        assert!(
            lost > 50.0 && nacks > 5.0 && resent > 20.0,
            "{protocol}: {lost} {nacks} {resent}"
        );
        assert_eq!(again > 10.0, protocol == "hxh", "{protocol}: {again}");
    }
}

//= spec#10.8
// "All passive ACKs lost: progress = one packet per credit timeout"
#[test]
fn where_nothing_is_overheard_one_packet_goes_per_wait() {
    let outcome = run(
        "hxh-nolh",
        4,
        "60k",
        "[radio]\nattempts = 7\npromiscuous = false\n",
    );
    tell("deaf", &outcome);
    // Of 43 packets four went by the credits that a lane begins with.
    assert_eq!(last(&outcome, "n1.hop-credit.heard"), 0.0);
    assert!(last(&outcome, "n1.hop-credit.forced") >= 30.0);
    let slow = outcome.flows[0].until_s;
    assert!(slow > 0.25 * 35.0, "five initial round trips each: {slow}");
    let asking = run(
        "hxh-nolh,lane.credit_request=on",
        4,
        "60k",
        "[radio]\nattempts = 7\npromiscuous = false\n",
    );
    tell("asking", &asking);
    assert!(
        last(&asking, "n1.hop-credit.asked") > 5.0 && last(&asking, "n2.hop-queue.answered") > 5.0
    );
    assert!(
        asking.flows[0].until_s < 0.5 * slow,
        "{}",
        asking.flows[0].until_s
    );
    let shrinking = run(
        "hxh-nolh,lane.credit_timer=shrink",
        4,
        "60k",
        "[radio]\nattempts = 7\npromiscuous = false\n",
    );
    tell("shrinking", &shrinking);
    assert!(
        shrinking.flows[0].until_s < 0.5 * slow,
        "{}",
        shrinking.flows[0].until_s
    );
}

//= spec#10.9
// "`credit_request` (control type 8 to the next hop, answered by type 9 with its credits)"
#[test]
fn hxh_next_asks_where_the_form_that_it_extends_waits() {
    let deaf = "[radio]\nattempts = 7\npromiscuous = false\n";
    let waits = run("hxh-nolh,lane.packets=16", 4, "300k", deaf);
    tell("waits", &waits);
    let asks = run("hxh-next", 4, "300k", deaf);
    tell("asks", &asks);
    assert_eq!(last(&asks, "n1.hop-credit.heard"), 0.0);
    assert!(last(&asks, "n1.hop-credit.asked") > 1.0);
    assert!(last(&asks, "n2.hop-queue.answered") > 1.0);
    let [waited, asked] = [&waits, &asks].map(|o| o.flows[0].until_s);
    assert!(asked < 0.5 * waited, "{asked} and {waited} s");
}

//= spec#10.9
#[test]
fn as_in_ns2_the_mac_repairs_each_hop() {
    let ring = "ring = 1\nqueue = 1\n";
    let outcome = run(
        "hxh-ns2",
        4,
        "300k",
        &format!("[radio]\nattempts = 1\nrts_threshold = 0\n{ring}"),
    );
    tell("hxh-ns2", &outcome);
    for lane in &lanes(&outcome)[..4] {
        assert_eq!(lane.kept, lane.sent, "each is kept until the MAC reports");
        assert!(
            lane.sent > lane.taken,
            "what the link lost goes again from there: {lane:?}"
        );
        assert_eq!(lane.full, 0);
    }
    let flow = &outcome.flows[0];
    assert!(flow.packets.link > 20);
    assert!(
        flow.retransmissions < 10,
        "hardly any end to end: {}",
        flow.retransmissions
    );
}

//= spec#10.9
#[test]
fn nodes_that_acknowledge_to_each_other_repair_each_hop() {
    let lossy = "[radio]\nattempts = 1\n";
    let without = run("hxh-nolh", 4, "300k", lossy);
    let with = run("hxh-nolh,lane.hop_ack=4", 4, "300k", lossy);
    tell("without", &without);
    tell("with", &with);
    assert!(last(&with, "n2.hop-queue.hop_acks") > 30.0);
    assert!(last(&with, "n1.hop-queue.again") > 0.0);
    let [few, many] = [&with, &without].map(|o| o.flows[0].retransmissions);
    assert!(2 * few < many, "{few} and {many} end to end");
    // More than a node may keep are as many as it may.
    let many = run("hxh-nolh,lane.hop_ack=64", 4, "300k", lossy);
    tell("with 64", &many);
    let [four, all] = [&with, &many].map(|o| o.flows[0].until_s);
    assert!(all < 1.5 * four, "{all} and {four} s");
}

//= spec#10.8
#[test]
fn a_new_route_begins_afresh_and_what_the_old_one_took_along_is_repaired() {
    let place = [("n1", 0, 0), ("n2", 20, 10), ("n3", 21, -12), ("n4", 40, 0)];
    let nodes: String = place
        .iter()
        .map(|(n, x, y)| format!("[[topology.node]]\nname = \"{n}\"\nposition = [{x}, {y}, 0]\n"))
        .collect();
    for protocol in ["hxh", "hxh-nolh"] {
        let outcome = run_on(
            &format!(
                "[radio]\nrate = \"24Mb/s\"\n[topology]\n[topology.radio]\npower_dbm = 8\n{nodes}\
                 [routing]\nkind = \"shortest\"\n[[mobility]]\nkind = \"trace\"\n\
                 rows = [[0.5, \"n2\", 20, 10], [0.7, \"n2\", 400, 400]]\n"
            ),
            &flow(1, 4, protocol, "2M"),
            "",
        );
        tell(protocol, &outcome);
        assert_eq!(outcome.flows[0].bytes, 2_000_000);
        assert!(last(&outcome, "n1.hop-credit.rerouted") >= 1.0);
        let taken: Vec<u64> = lanes(&outcome).iter().map(|l| l.taken).collect();
        assert!(
            taken[1] > 50 && taken[2] > 50,
            "both relays had their share: {taken:?}"
        );
    }
}

//= spec#18
// "32 simultaneous flows, one host pair | DRR fairness within 5 % on ideal link"
#[test]
fn flows_of_one_pair_of_hosts_share_the_link_alike() {
    let nodes: String = (1..=2)
        .map(|i| format!("[[topology.node]]\nname = \"n{i}\"\nwired_only = true\n"))
        .collect();
    let wire = "[[topology.wire]]\na = \"n1\"\nb = \"n2\"\nrate = \"10Mb/s\"\ndelay = \"1ms\"\nqueue = 32\n";
    let flows: String = (0..32).map(|_| flow(1, 2, "hxh-nolh", "2M")).collect();
    let outcome = run_on(&format!("[topology]\n{nodes}{wire}"), &flows, "");
    let ends: Vec<f64> = outcome.flows.iter().map(|f| f.until_s).collect();
    let [first, last] = [f64::min, f64::max].map(|of| ends.iter().copied().reduce(of).unwrap());
    println!("{first:.3} to {last:.3} s");
    assert!(last < 1.05 * first);
}

//= spec#10.2
// "deficit round robin over flows, quantum 1500 B": packets of unlike sizes, as many bytes.
#[test]
fn flows_of_unlike_packets_have_as_many_bytes() {
    let nodes: String = (1..=2)
        .map(|i| format!("[[topology.node]]\nname = \"n{i}\"\nwired_only = true\n"))
        .collect();
    let wire = "[[topology.wire]]\na = \"n1\"\nb = \"n2\"\nrate = \"10Mb/s\"\ndelay = \"1ms\"\nqueue = 4\n";
    let flows = flow(1, 2, "hxh-nolh", "1M") + &flow(1, 2, "hxh-nolh,mss=400", "1M");
    let ends = |more: &str| {
        let outcome = run_on(&format!("[topology]\n{nodes}{wire}"), &flows, more);
        let [large, small] = [0, 1].map(|i| outcome.flows[i].until_s);
        println!("{more}: {large:.3} and {small:.3} s");
        small / large
    };
    // Its headers take their share as well.
    let drr = ends("");
    let fifo = ends("[host]\nlanes = \"fifo\"\n");
    assert!(
        drr < 1.25 && fifo > 1.5,
        "{drr} and {fifo}: packets would have their turns"
    );
}

//= spec#18
// "Path length changes mid-connection (3 to 5 hops)"
#[test]
fn a_way_of_three_hops_becomes_one_of_five_and_the_first_again() {
    let nodes: String = (1..=8)
        .map(|n| format!("[[topology.node]]\nname = \"n{n}\"\n"))
        .collect();
    let ways = [
        [1, 2],
        [2, 3],
        [3, 4],
        [1, 5],
        [5, 6],
        [6, 7],
        [7, 8],
        [8, 4],
    ];
    let links: String = ways
        .iter()
        .flat_map(|[a, b]| [(a, b), (b, a)])
        .map(|(a, b)| format!("[[topology.link]]\nfrom = \"n{a}\"\nto = \"n{b}\"\nsnr_db = 20.0\n"))
        .collect();
    let topology = format!("[topology]\n{nodes}{links}[routing]\nkind = \"shortest\"\n");
    let events = "[[event]]\nat = \"0.5s\"\ncut = [\"n2\", \"n3\"]\n\
                  [[event]]\nat = \"3.5s\"\nrestore = [\"n2\", \"n3\"]\n";
    for protocol in ["hxh", "hxh-nolh"] {
        let flow = flow(1, 4, protocol, "1M");
        let outcome = run_on(
            &topology,
            &flow,
            &format!("{PATIENT}rate = \"24Mb/s\"\n{events}"),
        );
        tell(protocol, &outcome);
        let taken: Vec<u64> = outcome
            .nodes
            .iter()
            .map(|n| n.lanes.map_or(0, |l| l.taken))
            .collect();
        let relays = [1, 2, 4, 5, 6, 7].map(|i| taken[i]);
        assert!(relays.iter().all(|n| *n > 50), "{taken:?}");
        assert!(last(&outcome, "n1.hop-credit.rerouted") >= 2.0);
        assert!(outcome.flows[0].retransmissions > 0);
    }
}

//= spec#18
// "Idle 120 s": lanes are closed and opened anew, as if the flow were new.
#[test]
fn a_connection_that_rests_for_minutes_goes_on_with_new_lanes() {
    for protocol in ["hxh", "hxh-nolh"] {
        let http = format!(
            "[[flow]]\nfrom = \"n1\"\nto = \"n4\"\nprotocol = \"{protocol}\"\napp = \"http\"\n\
             persistent = true\npause = \"100s\"\ncount = 3\nscale = \"20k\"\ncap = \"60k\"\n"
        );
        let topology = "[topology]\nwords = \"linear,4,snr=20\"\nset = \"TB-W9\"\n";
        let outcome = run_on(topology, &http, PATIENT);
        tell(protocol, &outcome);
        for lane in &lanes(&outcome)[..3] {
            // One of each direction at first.
            assert!(lane.opened > 2 && lane.idled == 0, "{lane:?}");
        }
    }
}

#[test]
fn a_relay_that_does_not_serve_is_named() {
    let served = run("hxh", 4, "100k", PATIENT);
    assert_eq!(served.flows[0].unserved, 0, "every node lowers the hop TTL");
    let outcome = run(
        "hxh",
        4,
        "100k",
        &format!("{PATIENT}[host]\nunserved = [\"n3\"]\n"),
    );
    assert!(
        outcome.flows[0].unserved > 60,
        "{}",
        outcome.flows[0].unserved
    );
    assert_eq!(outcome.flows[0].unserved_at, ["n3"]);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let hash = |seed: u32| {
        let topology =
            format!("seed = {seed}\n[topology]\nwords = \"linear,4,snr=20\"\nset = \"TB-W9\"\n");
        run_on(&topology, &flow(1, 4, "hxh", "100k"), "").trace_hash
    };
    assert_eq!(hash(7), hash(7));
    assert_ne!(hash(7), hash(8));
}

//= spec#10.8
// "Intermediate restart loses queued packets -> NACK recovers"; a node that is cut off for longer
// than its lane lives loses them as well, and knows nothing of the flow afterwards.
#[test]
fn a_relay_that_lost_its_lane_begins_afresh_and_what_it_held_is_repaired() {
    let mut off = String::new();
    for (at, what) in [("0.2s", "cut"), ("35s", "restore")] {
        for other in ["n1", "n3"] {
            off += &format!("[[event]]\nat = \"{at}\"\n{what} = [\"n2\", \"{other}\"]\n");
        }
    }
    for protocol in ["hxh", "hxh-nolh", "hxh-ns2"] {
        let outcome = run(protocol, 4, "300k", &format!("{PATIENT}{off}"));
        tell(protocol, &outcome);
        // One of each direction, and another one when data came again.
        let relay = lanes(&outcome)[1];
        assert!(relay.opened >= 3, "{relay:?}");
        // Only what waits for a report of the MAC is still there when the lane closes.
        assert_eq!(relay.idled > 0, protocol == "hxh-ns2", "{relay:?}");
        assert!(outcome.flows[0].retransmissions > 0);
        match protocol {
            // The source's own lane closed as well, and began anew.
            "hxh-ns2" => assert!(outcome.flows[0].retransmissions >= relay.idled),
            _ => assert!(last(&outcome, "n1.hop-queue.pack") > 100.0),
        }
    }
}

/// Two files that meet in a mesh where lanes have few places.
#[test]
fn what_full_lanes_drop_is_told_at_the_hops_in_front_of_which_it_was() {
    let flow = |from: &str, to: &str| {
        format!(
            "[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\napp = \"file\"\nbytes = \"60k\"\n\
             protocol = \"hxh-nolh,lane.packets=4\"\n"
        )
    };
    let flows = flow("mesh8", "mesh3") + &flow("mesh3", "mesh8");
    let text = format!("[topology]\nset = \"HX-9\"\n[stop]\ntime = \"60s\"\n{flows}");
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}"));
    let mut simulation = Simulation::new(&scenario, &registry()).unwrap_or_else(|e| panic!("{e}"));
    simulation.run();
    let outcome = simulation.outcome();
    let full: u64 = lanes(&outcome).iter().map(|l| l.full).sum();
    let told = |of: fn(&HopOutcome) -> u64| outcome.hops.iter().map(of).sum::<u64>();
    assert!(full > 50, "{full}");
    assert_eq!((told(|h| h.lane_drops), told(|h| h.queue_drops)), (full, 0));
    let lost = outcome.flows.iter().map(|f| f.packets.queue).sum::<u64>();
    assert_eq!(lost, full);
    for node in &outcome.nodes {
        let own = outcome.hops.iter().filter(|h| h.from == node.name);
        let full = node.lanes.map_or(0, |l| l.full);
        assert_eq!(
            own.map(|h| h.lane_drops).sum::<u64>(),
            full,
            "{}",
            node.name
        );
    }
}

/// Where packets wait for credits is in the lanes: their time there is told, at the source's, too.
#[test]
fn what_packets_wait_in_lanes_is_told_at_their_hops() {
    let outcome = run("hxh-nolh", 4, "300k", PATIENT);
    let data = || outcome.hops.iter().filter(|h| !h.reverse);
    let ms: Vec<f64> = data().map(|h| h.node_s * 1e3 / h.packets as f64).collect();
    println!("{ms:?}");
    assert!(ms[0] > 10.0 && ms[1] > 0.1 && ms[2] > 0.01, "{ms:?}");
    assert_eq!(ms[3], 0.0, "the last node has places enough");
    let queues: f64 = data().map(|h| h.queue_s * 1e3 / h.packets as f64).sum();
    assert!(ms.iter().sum::<f64>() > queues, "{ms:?} against {queues}");
    // Acknowledgements enter no lane.
    let back = outcome.hops.iter().filter(|h| h.reverse);
    assert_eq!(back.map(|h| h.node_s).sum::<f64>(), 0.0);
}

/// The source hears its lane of them alone, whose word is no packet of its connection.
#[test]
fn round_trips_that_lanes_time_are_recorded() {
    let text = format!(
        "[topology]\nwords = \"linear,4,snr=20\"\nset = \"TB-W9\"\n[record]\nseries = \
         [\"flow.1.srtt\"]\ncwnd = true\ninterval = \"10ms\"\n{}",
        flow(1, 4, "hxh", "500k")
    );
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}"));
    let mut simulation = Simulation::new(&scenario, &registry()).unwrap_or_else(|e| panic!("{e}"));
    simulation.run();
    let outcome = simulation.outcome();
    let timed = &outcome.flows[0];
    let points = &outcome.series["flow.1.srtt"];
    assert!(points.len() > 50, "{} of {timed:?}", points.len());
}

/// Packets are numbered; what is recorded is of octets, like that of TCP.
#[test]
fn what_is_in_flight_and_what_was_sent_are_octets() {
    let names = ["flight", "send_q", "unsent", "sent"].map(|n| format!("\"flow.1.{n}\""));
    let text = format!(
        "[topology]\nwords = \"linear,3,snr=20\"\nset = \"TB-W9\"\n[record]\nseries = [{}]\n\
         interval = \"1ms\"\n{}",
        names.join(", "),
        flow(1, 3, "hxh", "100k")
    );
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}"));
    let mut simulation = Simulation::new(&scenario, &registry()).unwrap_or_else(|e| panic!("{e}"));
    simulation.run();
    let outcome = simulation.outcome();
    assert!(outcome.flows[0].finished);
    let values = |name: &str| -> Vec<f64> {
        let series = &outcome.series[&format!("flow.1.{name}")];
        series.iter().map(|p| p.1).filter(|v| !v.is_nan()).collect()
    };
    let most = |name: &str| values(name).into_iter().fold(0.0, f64::max);
    let mss = 1444.0;
    assert!(
        most("flight") >= 4.0 * mss && most("flight") <= 100e3,
        "{}",
        most("flight")
    );
    assert!(
        most("send_q") > 80e3 && most("send_q") <= 100e3,
        "{}",
        most("send_q")
    );
    assert!(most("unsent") > 20e3 && most("unsent") < most("send_q"));
    let sent = values("sent");
    // The last of 70 packets, with data, and the one that carries none.
    let last = (100e3 / mss).floor() * mss;
    assert!(
        sent.contains(&0.0) && sent.contains(&mss) && sent.contains(&last),
        "{sent:?}"
    );
    assert!(most("sent") >= last);
}
