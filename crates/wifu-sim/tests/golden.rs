//! What must not change by itself: the hashes of small runs, over versions and machines, and what a
//! transmission costs in a network that grows.

use std::sync::Arc;
use wifu_engine::Blueprint;
use wifu_radio::topology::{Topology, resolve};
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::Outcome;
use wifu_sim::scenario::Scenario;
use wifu_wire::Rng;

fn open(spec: &str) -> Result<Arc<Blueprint>, String> {
    wifu_parts::blueprint(spec).map_err(|e| e.to_string())
}

fn run(text: &str) -> Outcome {
    let scenario = Scenario::from_toml(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let simulation = Simulation::new(&scenario, &open);
    let mut simulation = simulation.unwrap_or_else(|e| panic!("{e}\n{text}"));
    simulation.run();
    simulation.outcome()
}

/// Name, topology and other tables, flows as (from, to, protocol), hash.
type Golden = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str, &'static str)],
    &'static str,
);

const FILE: &str = "app = \"file\"\nbytes = \"100k\"\njitter = \"5ms\"";

/// A changed hash is a changed simulation: published figures then belong to an older version. If
/// that is meant, put the new one here, and say so in the changelog.
const GOLDEN: &[Golden] = &[
    (
        "a chain at 24 Mb/s with fading and hidden stations",
        "topology = { words = \"linear,5\", set = \"TB-A\" }",
        &[("n1", "n5", "tcp-newreno,profile=wifu-tahoe")],
        "6882c16b88121880",
    ),
    (
        "three flows over a chain at 6 Mb/s",
        "topology = { words = \"linear,4\", set = \"TB-B\" }",
        &[
            ("n1", "n4", "tcp-sack,profile=wifu-tahoe"),
            ("n1", "n4", "tcp-cubic"),
            ("n4", "n1", "tcp-tahoe,profile=wifu-tahoe"),
        ],
        "8b7885685e9c0221",
    ),
    (
        "802.11b with RTS",
        "topology = { words = \"linear,4\", set = \"TAP-16\" }\nradio.rts_threshold = 0",
        &[("n1", "n4", "tcp-reno,profile=wifu-tahoe")],
        "35893fbde5ff3dde",
    ),
    (
        "a random mesh with a daemon",
        "topology = { words = \"random,12\" }\nrouting.olsr = { withdraw = true }\nseed = 3",
        &[
            ("n1", "n12", "tcp-sack,profile=wifu-tahoe"),
            ("n7", "n2", "tcp-newreno,profile=wifu-tahoe"),
        ],
        "8a952ed98a3c1813",
    ),
    (
        "wires that lose and vary",
        "topology = { words = \"linear,3,wire=2Mb/s,delay=3ms,queue=8,loss=0.02,variation=1ms\" }",
        &[
            ("n1", "n3", "tcp-sack,profile=wifu-tahoe"),
            ("n2", "n3", "tcp-tahoe,profile=wifu-tahoe"),
        ],
        "c7f6030858385b99",
    ),
    (
        "Minstrel and nodes that walk",
        "topology = { words = \"random,6\" }\nradio.rate_control = \"minstrel\"\n\
         [[mobility]]\nkind = \"waypoint\"\narea = [0, 0, 60, 60]\nspeed = [2, 20]\n",
        &[("n1", "n6", "tcp-sack,profile=wifu-tahoe")],
        "44e123a633d80190",
    ),
];

#[test]
fn small_runs_have_the_hashes_of_the_record() {
    let mut wrong = Vec::new();
    for (name, tables, flows, hash) in GOLDEN {
        let flows: String = flows
            .iter()
            .map(|(from, to, protocol)| {
                format!(
                    "[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nprotocol = \"{protocol}\"\n{FILE}\n"
                )
            })
            .collect();
        let outcome = run(&format!("stop.time = \"30s\"\n{tables}\n{flows}"));
        assert!(outcome.flows.iter().all(|f| f.bytes > 0), "{name}");
        if outcome.trace_hash != *hash {
            wrong.push(format!("{name}: {}, not {hash}", outcome.trace_hash));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A chain alone, and the same chain beside ever more nodes that nobody hears: not one event more.
#[test]
fn nodes_out_of_range_cost_nothing_per_transmission() {
    let with = |others: u32| {
        let more: String = (0..others)
            .map(|i| {
                let at = 5000 + 500 * i;
                format!("[[topology.node]]\nname = \"far{i}\"\nposition = [{at}, 0, 0]\n")
            })
            .collect();
        run(&format!(
            "[topology]\nwords = \"linear,4\"\nset = \"TB-W9\"\n{more}[[flow]]\n\
             from = \"n1\"\nto = \"n3\"\nprotocol = \"tcp-sack,profile=wifu-tahoe\"\napp = \"file\"\nbytes = \"100k\"\n\
             jitter = \"5ms\"\n"
        ))
    };
    let alone = with(0);
    assert!(alone.events > 1000, "{} events", alone.events);
    for others in [1, 100, 1000] {
        let beside = with(others);
        assert_eq!(beside.nodes.len(), alone.nodes.len() + others as usize);
        assert_eq!(beside.events, alone.events, "{others} more nodes");
        assert_eq!(beside.nodes[..4], alone.nodes[..4]);
        assert_eq!(
            beside.flows[0].start_s, alone.flows[0].start_s,
            "its own stream"
        );
    }
}

/// The longest transfers keep their draws when a node joins that takes no part, and is not heard.
#[test]
fn a_node_that_takes_no_part_changes_nothing() {
    let with = |more: &str| {
        run(&format!(
            "[topology]\nwords = \"linear,4\"\nset = \"TB-A\"\n{more}[[flow]]\nfrom = \"n1\"\n\
             to = \"n4\"\nprotocol = \"tcp-newreno\"\n{FILE}\n"
        ))
    };
    let alone = with("");
    let beside = with("[[topology.node]]\nname = \"far\"\nposition = [90000, 0, 0]\n");
    assert_eq!(alone.trace_hash, beside.trace_hash);
    assert_eq!(alone.flows, beside.flows);
}

/// What a transmission visits are the receivers of its row: their number is that of the
/// neighbourhood, however large the network is.
#[test]
fn a_transmission_visits_its_neighbourhood_however_large_the_mesh() {
    let most = |side: u16| {
        let words = format!("grid,{side},{side},spacing=150");
        let topology = Topology::from_words(&words, None).expect("words");
        let plan = resolve(&topology, &Rng::new(1)).expect("a plan");
        let rows = plan.gains.iter().map(Vec::len);
        rows.max().expect("nodes")
    };
    let (small, large) = (most(16), most(32));
    assert!((8..100).contains(&small), "{small} receivers");
    assert_eq!(small, large);
}
