//! The hop protocol over chains of radios: lanes hold back what the next node has no room for and
//! learn from what they overhear; nothing overflows, and losses and new routes are survived.

use wifu_engine::Library;
use wifu_node::LaneCounters;
use wifu_node::Registry;
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::Outcome;
use wifu_sim::scenario::Scenario;

fn registry() -> Registry {
    wifu::standard()
        .with_parts(custom::PARTS)
        .with_wires(custom::WIRES)
        .with_library(custom::library())
}

const SERIES: [&str; 8] = [
    "flow.1.record-source.passive",
    "flow.1.record-source.explicit",
    "flow.1.record-source.resent",
    "flow.1.peer.record-sink.last_hop_acks",
    "flow.1.n1.held-credit.credits",
    "flow.1.n1.held-credit.forced",
    "flow.1.n1.held-credit.undone",
    "flow.1.n1.held-credit.rerouted",
];

const CHAIN: &str = "[topology]\nwords = \"linear,5,snr=20\"\nset = \"TB-W9\"\n";

fn flow(from: &str, to: &str, protocol: &str, bytes: &str) -> String {
    format!(
        "[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nprotocol = \"{protocol}\"\n\
         app = \"file\"\nbytes = \"{bytes}\"\n"
    )
}

fn simulation(text: &str, registry: &Registry) -> Result<Simulation, String> {
    let gated = !text.contains("hop-without-credits");
    let series = SERIES
        .iter()
        .filter(|s| gated || !s.contains("held-credit"));
    let series: Vec<String> = series.map(|s| format!("{s:?}")).collect();
    let series = series.join(", ");
    let text = format!("{text}[stop]\ntime = \"120s\"\n[record]\nseries = [{series}]\n");
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}"));
    Simulation::new(&scenario, registry).map_err(|e| e.to_string())
}

fn run(text: &str) -> Outcome {
    let mut simulation = simulation(text, &registry()).unwrap_or_else(|e| panic!("{e}"));
    simulation.run();
    let outcome = simulation.outcome();
    for flow in &outcome.flows {
        assert!(flow.finished, "{flow:?}");
        assert_eq!(flow.corrupt, 0);
    }
    outcome
}

/// The last value of a series; `None` if it was never known.
fn last(outcome: &Outcome, name: &str) -> Option<f64> {
    outcome.series.get(name)?.last().map(|(_, value)| *value)
}

fn lanes(outcome: &Outcome) -> Vec<LaneCounters> {
    outcome.nodes.iter().filter_map(|n| n.lanes).collect()
}

#[test]
fn credits_hold_every_sender_back_and_no_lane_overflows() {
    let outcome = run(&format!(
        "{CHAIN}[radio]\nattempts = 7\n{}",
        flow("n1", "n5", "hop", "300k")
    ));
    let flow = &outcome.flows[0];
    assert_eq!(flow.bytes, 300_000);
    let value = |name: &str| last(&outcome, name).expect("it was recorded");
    for (node, lane) in outcome.nodes.iter().zip(lanes(&outcome)) {
        println!("{}: {lane:?}", node.name);
        assert_eq!((lane.full, lane.idled, lane.unlaned), (0, 0, 0));
        assert!(lane.most <= 8);
        // 1448 bytes of payload each, and one that says it is the last.
        assert_eq!(lane.taken, if node.name == "n5" { 0 } else { 209 });
    }
    let (passive, explicit) = (
        value("flow.1.record-source.passive"),
        value("flow.1.record-source.explicit"),
    );
    println!("acknowledged {passive} times passively, {explicit} explicitly");
    assert!(passive > 20.0 * explicit.max(1.0));
    let queue = flow.limited_s.get("queue").copied().unwrap_or_default();
    assert!(queue > 0.5 * flow.until_s, "{:?}", flow.limited_s);
    assert_eq!((flow.retransmissions, flow.timeouts), (0, None));
    let credits = &outcome.series["flow.1.n1.held-credit.credits"];
    assert!(
        credits.iter().any(|c| c.1 == 0.0),
        "the source was held back"
    );
    // At the last hop each copy that the destination did not confirm in time goes again.
    let end = lanes(&outcome)[3];
    assert_eq!(end.copies, end.sent);
    assert_eq!(flow.packets.copies, end.sent - 209);
    let packets = flow.packets;
    let away = packets.delivered + packets.link + packets.queue + packets.hop + packets.inside;
    assert_eq!(packets.sent + packets.copies, away, "{packets:?}");
}

#[test]
fn a_relay_without_lanes_is_named() {
    let text = format!(
        "{CHAIN}[radio]\nattempts = 7\n{}",
        flow("n1", "n5", "hop", "100k")
    );
    let served = run(&text);
    assert_eq!(served.flows[0].unserved, 0, "every node counts itself");
    let outcome = run(&format!("[host]\nunserved = [\"n3\"]\n{text}"));
    let flow = &outcome.flows[0];
    println!(
        "{} packets told of it, {:.2} s",
        flow.unserved, flow.until_s
    );
    assert!(flow.unserved > 70, "each of 70 records that arrived does");
    assert_eq!(flow.unserved_at, ["n3"]);
}

#[test]
fn packets_that_come_back_to_their_lane_are_counted_once() {
    let outcome = run(&format!(
        "{CHAIN}[radio]\nattempts = 1\nqueue = 2\nring = 1\n[host]\nunserved = [\"n3\"]\n{}",
        flow("n1", "n5", "hop-without-credits,lane.packets=64", "300k")
    ));
    let lanes = lanes(&outcome);
    let again: u64 = lanes.iter().map(|l| l.returned + l.copies).sum();
    println!("{again} handed down again: {:?}", outcome.flows[0]);
    assert!(again > 20, "{lanes:?}");
    // Were one counted twice where it was handed down twice, it would make up for n3.
    assert!(outcome.flows[0].unserved > 200);
}

#[test]
fn without_the_gate_the_same_lanes_overflow() {
    let full = |protocol: &str| {
        let outcome = run(&format!(
            "{CHAIN}[radio]\nattempts = 7\nqueue = 2\nring = 1\n{}",
            flow("n1", "n5", protocol, "1M")
        ));
        lanes(&outcome).iter().map(|l| l.full).sum::<u64>()
    };
    let few = |name: &str| full(&format!("{name},lane.packets=4"));
    let (without, with) = (few("hop-without-credits"), few("hop"));
    println!("{without} packets found a lane full, {with} with credits");
    assert!(without > 10 && with == 0);
}

#[test]
fn losses_of_packets_acknowledgements_and_credits_are_survived() {
    for seed in 1..=5 {
        let outcome = run(&format!(
            "seed = {seed}\n{CHAIN}[radio]\nattempts = 1\noverhear_loss = 0.05\n{}",
            flow("n1", "n5", "hop", "300k")
        ));
        let flow = &outcome.flows[0];
        assert_eq!(flow.bytes, 300_000);
        let value = |name: &str| last(&outcome, name).expect("it was recorded");
        println!(
            "seed {seed}: {:.2} s, {} lost, {} resent, {} forced, {} undone",
            flow.until_s,
            flow.packets.link,
            value("flow.1.record-source.resent"),
            value("flow.1.n1.held-credit.forced"),
            value("flow.1.n1.held-credit.undone"),
        );
        assert!(flow.packets.link > 20);
        assert!(value("flow.1.record-source.resent") > 0.0);
        assert!(
            value("flow.1.n1.held-credit.undone") > 0.0,
            "the driver reports"
        );
        assert!(lanes(&outcome).iter().all(|l| l.most <= 8));
    }
}

/// n2 and n3 both lead from n1 to n4; n2 walks away after half a second.
#[test]
fn a_new_route_is_told_and_what_the_old_one_took_along_is_repaired() {
    let place = [("n1", 0, 0), ("n2", 20, 10), ("n3", 21, -12), ("n4", 40, 0)];
    let nodes: String = place
        .iter()
        .map(|(n, x, y)| format!("[[topology.node]]\nname = \"{n}\"\nposition = [{x}, {y}, 0]\n"))
        .collect();
    let outcome = run(&format!(
        "[radio]\nrate = \"24Mb/s\"\n[topology]\n[topology.radio]\npower_dbm = 8\n{nodes}\
         [routing]\nkind = \"shortest\"\n[[mobility]]\nkind = \"trace\"\n\
         rows = [[0.5, \"n2\", 20, 10], [0.7, \"n2\", 400, 400]]\n{}",
        flow("n1", "n4", "hop", "2M"),
    ));
    assert_eq!(outcome.flows[0].bytes, 2_000_000);
    let rerouted = last(&outcome, "flow.1.n1.held-credit.rerouted");
    let taken = lanes(&outcome).iter().map(|l| l.taken).collect::<Vec<_>>();
    println!(
        "{taken:?}, told {rerouted:?} times, {:.2} s",
        outcome.flows[0].until_s
    );
    assert!(rerouted >= Some(1.0));
    assert!(
        taken[1] > 100 && taken[2] > 100,
        "both relays had their share"
    );
}

#[test]
fn lanes_of_two_flows_share_a_link_as_the_scheduler_says() {
    let two = |scheduler: &str| {
        let text = format!(
            "{CHAIN}[radio]\nattempts = 7\nqueue = 2\nring = 1\n[host]\nlanes = \"{scheduler}\"\n{}{}",
            flow("n1", "n3", "hop-without-credits,lane.packets=64", "300k"),
            flow("n1", "n3", "hop-without-credits,lane.packets=64", "300k"),
        );
        let ends = run(&text)
            .flows
            .iter()
            .map(|f| f.until_s)
            .collect::<Vec<_>>();
        println!("{scheduler}: {ends:?}");
        ends[0] / ends[1]
    };
    assert!(two("drr") > 0.9);
    assert!(two("strict") < 0.7);
    assert!(two("fifo") > 0.8);
    let error = Scenario::from_toml("[host]\nlanes = \"fair\"\n")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("no scheduler \"fair\"; there are drr, fifo, strict"),
        "{error}"
    );
}

#[test]
fn it_is_refused_without_its_lane() {
    let lane = custom::HOP.find("[lane.hop]").unwrap();
    let library = Library::parse(&custom::HOP[..lane]).unwrap();
    let registry = wifu::standard()
        .with_parts(custom::PARTS)
        .with_wires(custom::WIRES)
        .with_library(library);
    let text = format!("{CHAIN}{}", flow("n1", "n5", "hop", "300k"));
    let error = simulation(&text, &registry).err().expect("it is refused");
    assert!(
        error.contains(
            "record-source reads the header word \"pack\", which nodes write, and nothing in this"
        ) && error.contains("[lane.hop]"),
        "{error}"
    );
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let hash = |seed: u32| {
        let text = format!("seed = {seed}\n{CHAIN}{}", flow("n1", "n5", "hop", "100k"));
        run(&text).trace_hash
    };
    assert_eq!(hash(7), hash(7));
    assert_ne!(hash(7), hash(8));
}

/// The only relay is away for longer than an idle lane lives.
#[test]
fn a_source_whose_lane_was_closed_meanwhile_goes_on() {
    let outcome = run(&format!(
        "[topology]\nwords = \"linear,3,spacing=20\"\n[topology.radio]\npower_dbm = 8\n\
         [radio]\nrate = \"24Mb/s\"\n[routing]\nkind = \"shortest\"\n[[mobility]]\n\
         kind = \"trace\"\nrows = [[0.3, \"n2\", 20, 0], [0.4, \"n2\", 20, 4000], \
         [50, \"n2\", 20, 4000], [50.1, \"n2\", 20, 0]]\n{}",
        flow("n1", "n3", "hop", "2M"),
    ));
    let source = lanes(&outcome)[0];
    println!("{:.2} s, {source:?}", outcome.flows[0].until_s);
    assert_eq!(outcome.flows[0].bytes, 2_000_000);
    assert!(source.idled > 0 && source.opened > 1, "its lane was closed");
}

#[test]
fn more_than_the_buffer_holds_arrives_where_nothing_is_overheard() {
    let outcome = run(&format!(
        "{CHAIN}[radio]\nattempts = 7\npromiscuous = false\n{}",
        flow("n1", "n5", "hop", "300k")
    ));
    assert_eq!(outcome.flows[0].bytes, 300_000);
    // The credit timers let it go, one packet at a time.
    assert!(last(&outcome, "flow.1.n1.held-credit.forced").is_some_and(|n| n > 20.0));
}

#[test]
fn what_a_wire_loses_is_lost_and_counted_once() {
    let nodes: String = (1..=3)
        .map(|i| format!("[[topology.node]]\nname = \"n{i}\"\nwired_only = true\n"))
        .collect();
    let wires: String = (1..=2)
        .map(|i| {
            format!(
                "[[topology.wire]]\na = \"n{i}\"\nb = \"n{}\"\nrate = \"5Mb/s\"\ndelay = \"1ms\"\n\
                 loss = 0.05\nqueue = 3\n",
                i + 1
            )
        })
        .collect();
    let outcome = run(&format!(
        "[topology]\n{nodes}{wires}{}",
        flow("n1", "n3", "hop-without-credits", "500k")
    ));
    let (packets, lost) = (
        outcome.flows[0].packets,
        outcome.wires.iter().map(|w| w.lost),
    );
    let (lost, returned) = (lost.sum::<u64>(), lanes(&outcome)[0].returned);
    println!("{lost} lost, {returned} returned, {packets:?}");
    assert!(lost > 20 && packets.wire == lost);
    let away = packets.delivered + packets.wire + packets.queue + packets.inside;
    assert_eq!(packets.sent + packets.copies, away);
}

#[test]
fn what_the_end_says_beside_is_not_starved_by_a_full_lane() {
    let late =
        flow("n1", "n2", "tcp-newreno", "20k").replace("[[flow]]", "[[flow]]\nstart = \"0.5s\"");
    let outcome = run(&format!(
        "{CHAIN}[radio]\nattempts = 7\nqueue = 2\nring = 1\n{}{late}",
        flow("n1", "n3", "hop-without-credits,lane.packets=64", "2M"),
    ));
    let [long, short] = &outcome.flows[..] else {
        panic!("two flows")
    };
    println!("{:.2} s and {:.2} s", long.until_s, short.until_s);
    assert!(short.until_s < 1.0 && long.until_s > 2.0);
}
