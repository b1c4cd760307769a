//! What a rule of the window does to the queue of a bottleneck, and what that queue's discipline
//! does to it.

use std::sync::Arc;
use wifu_engine::Blueprint;
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::Outcome;
use wifu_sim::scenario::Scenario;

fn open(spec: &str) -> Result<Arc<Blueprint>, String> {
    wifu_parts::blueprint(spec).map_err(|e| e.to_string())
}

/// A packet of 1500 octets and 38 of Ethernet at 10 Mb/s, seconds.
const SLOT: f64 = 1538.0 * 8.0 / 10e6;

/// What fills the path without any queue: 42 ms of it, and the packet being sent.
const PATH: f64 = 0.042 / SLOT + 1.0;

/// One flow for so many seconds from n1 over 100 Mb/s and 1 ms to n2, over 10 Mb/s, 20 ms and a
/// queue of 100 packets to n3; with more lines of a scenario before its tables.
fn bottleneck(protocol: &str, seconds: u32, more: &str) -> Outcome {
    let nodes: String = (1..=3)
        .map(|i| format!("[[topology.node]]\nname = \"n{i}\"\nwired_only = true\n"))
        .collect();
    let text = format!(
        "{more}\n{nodes}\
         [[topology.wire]]\na = \"n1\"\nb = \"n2\"\nrate = \"100Mb/s\"\ndelay = \"1ms\"\n\
         [[topology.wire]]\na = \"n2\"\nb = \"n3\"\nrate = \"10Mb/s\"\ndelay = \"20ms\"\n\
         queue = 100\n\
         [[flow]]\nfrom = \"n1\"\nto = \"n3\"\nprotocol = \"{protocol}\"\n\
         [stop]\ntime = \"{seconds}s\"\n[record]\ninterval = \"5ms\"\n\
         series = [\"flow.1.cwnd\", \"flow.1.srtt\"]\n"
    );
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}"));
    let mut simulation = Simulation::new(&scenario, &open).unwrap_or_else(|e| panic!("{e}"));
    simulation.run();
    let outcome = simulation.outcome();
    let flow = &outcome.flows[0];
    let p = flow.packets;
    let known = p.delivered + p.queue + p.link + p.wire + p.route + p.hop + p.inside;
    assert_eq!((flow.corrupt, p.sent), (0, known), "{p:?}");
    outcome
}

/// The share of the bottleneck that data got, 1448 of 1538 octets being the most.
fn share(outcome: &Outcome) -> f64 {
    outcome.flows[0].goodput_bps / (10e6 * 1448.0 / 1538.0)
}

/// Packets that wait at the bottleneck on average from some second on, by round-trip times: those
/// of a path without queue are 42 ms, a packet on each wire, its acknowledgement, and a second
/// packet that this waits for.
fn waiting(outcome: &Outcome, from: f64) -> f64 {
    let empty = 0.042 + 1.1 * SLOT + 0.1e-3 + SLOT;
    let all = outcome.series["flow.1.srtt"].iter();
    let late: Vec<f64> = all.filter(|p| p.0 >= from).map(|p| p.1).collect();
    (late.iter().sum::<f64>() / late.len() as f64 - empty) / SLOT
}

fn drops(outcome: &Outcome) -> u64 {
    outcome.wires.iter().map(|w| w.queue_drops).sum()
}

/// The least and the greatest value of a series from some second on.
fn range(outcome: &Outcome, series: &str, from: f64) -> (f64, f64) {
    let all = outcome.series[series].iter();
    let late = all.filter(|p| p.0 >= from && !p.1.is_nan()).map(|p| p.1);
    late.fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)))
}

/// Brakmo and Peterson: between alpha and beta segments wait in the queue, where Reno fills it.
#[test]
fn vegas_holds_a_few_packets_in_the_queue_and_newreno_fills_it() {
    let vegas = bottleneck("tcp-vegas", 60, "");
    let newreno = bottleneck("tcp-newreno", 60, "");
    let (few, many) = (waiting(&vegas, 20.0), waiting(&newreno, 20.0));
    assert!((1.0..=5.0).contains(&few), "{few}");
    assert!(many > 30.0, "{many}");
    let (low, high) = range(&vegas, "flow.1.cwnd", 20.0);
    let [low, high] = [low, high].map(|octets| octets / 1448.0);
    assert!(low >= PATH + 1.0 && high <= PATH + 5.0, "{low} to {high}");
    assert_eq!((drops(&vegas), vegas.flows[0].retransmissions), (0, 0));
    assert!(drops(&newreno) > 0);
    assert!(share(&vegas) > 0.97, "{}", share(&vegas));
}
