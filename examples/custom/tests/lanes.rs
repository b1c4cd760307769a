//! What nodes do with lanes that no gate holds back, over chains of radios and wires: queues
//! overflow, packets come back from the link, flows take turns; what the ends send beside is not
//! starved.

use wifu_engine::Library;
use wifu_node::LaneCounters;
use wifu_node::Registry;
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::Outcome;
use wifu_sim::scenario::Scenario;

fn registry() -> Registry {
    wifu::standard()
        .with_wires(custom::WIRES)
        .with_library(custom::library())
}

const CHAIN: &str = "[topology]\nwords = \"linear,5,snr=20\"\nset = \"TB-W9\"\n";

fn flow(from: &str, to: &str, protocol: &str, bytes: &str) -> String {
    format!(
        "[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nprotocol = \"{protocol}\"\n\
         app = \"file\"\nbytes = \"{bytes}\"\n"
    )
}

fn simulation(text: &str, registry: &Registry) -> Result<Simulation, String> {
    let text = format!("{text}[stop]\ntime = \"120s\"\n");
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

fn lanes(outcome: &Outcome) -> Vec<LaneCounters> {
    outcome.nodes.iter().filter_map(|n| n.lanes).collect()
}

#[test]
fn packets_that_come_back_to_their_lane_are_counted_once() {
    let outcome = run(&format!(
        "{CHAIN}[radio]\nattempts = 1\nqueue = 2\nring = 1\n[host]\nunserved = [\"n3\"]\n{}",
        flow("n1", "n5", "ungated,lane.packets=64", "300k")
    ));
    let lanes = lanes(&outcome);
    let again: u64 = lanes.iter().map(|l| l.returned + l.kept).sum();
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
    let (without, with) = (few("ungated"), few("hxh"));
    println!("{without} packets found a lane full, {with} with credits");
    assert!(without > 10 && with == 0);
}

#[test]
fn lanes_of_two_flows_share_a_link_as_the_scheduler_says() {
    let two = |scheduler: &str| {
        let text = format!(
            "{CHAIN}[radio]\nattempts = 7\nqueue = 2\nring = 1\n[host]\nlanes = \"{scheduler}\"\n{}{}",
            flow("n1", "n3", "ungated,lane.packets=64", "300k"),
            flow("n1", "n3", "ungated,lane.packets=64", "300k"),
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
fn ends_are_refused_without_their_lane() {
    let ends = "[protocol.alone]\nnumber = 249\nwire = \"short\"\nstore = \"records\"\n\
                manager = \"hxh-manager\"\nreliable = \"hxh-source\"\nreceive = \"hxh-sink\"\n";
    let registry = registry().with_library(Library::parse(ends).unwrap());
    let text = format!("{CHAIN}{}", flow("n1", "n5", "alone", "300k"));
    let error = simulation(&text, &registry).err().expect("it is refused");
    assert!(
        error.contains(
            "hxh-source reads the header word \"pack\", which nodes write, and nothing in this"
        ) && error.contains("[lane.alone]"),
        "{error}"
    );
}

/// The only relay is away for longer than an idle lane lives.
#[test]
fn a_source_whose_lane_was_closed_meanwhile_goes_on() {
    let outcome = run(&format!(
        "[topology]\nwords = \"linear,3,spacing=20\"\n[topology.radio]\npower_dbm = 8\n\
         [radio]\nrate = \"24Mb/s\"\n[routing]\nkind = \"shortest\"\n[[mobility]]\n\
         kind = \"trace\"\nrows = [[0.3, \"n2\", 20, 0], [0.4, \"n2\", 20, 4000], \
         [50, \"n2\", 20, 4000], [50.1, \"n2\", 20, 0]]\n{}",
        flow("n1", "n3", "hxh-short", "2M"),
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
        flow("n1", "n5", "hxh-short,snd_buf=100KiB", "300k")
    ));
    let flow = &outcome.flows[0];
    println!("{:.2} s", flow.until_s);
    assert_eq!(flow.bytes, 300_000);
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
        flow("n1", "n3", "ungated", "500k")
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
        flow("n1", "n3", "ungated,lane.packets=64", "2M"),
    ));
    let [long, short] = &outcome.flows[..] else {
        panic!("two flows")
    };
    println!("{:.2} s and {:.2} s", long.until_s, short.until_s);
    assert!(short.until_s < 1.0 && long.until_s > 1.5);
}

/// Copies count where packets are accounted for: what the node before the destination keeps is
/// handed down again and again.
#[test]
fn the_books_balance_where_the_last_hop_is_confirmed() {
    let outcome = run(&format!(
        "{CHAIN}[radio]\nattempts = 7\n{}",
        flow("n1", "n5", "hxh-short", "300k")
    ));
    let (lanes, packets) = (lanes(&outcome), outcome.flows[0].packets);
    for lane in &lanes[..4] {
        // 1448 bytes of payload each, and one that says it is the last.
        assert!(
            lane.most <= 8 && lane.full == 0 && lane.taken >= 209,
            "{lane:?}"
        );
    }
    assert!(lanes[3].kept >= 209, "{:?}", lanes[3]);
    let away = packets.delivered + packets.link + packets.queue + packets.hop + packets.inside;
    assert_eq!(packets.sent + packets.copies, away, "{packets:?}");
}
