//! The paced window on the mesh: over wires the gap of the closed form, losses on every hop, the same
//! seed.

use wifu_node::Registry;
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::Outcome;
use wifu_sim::scenario::Scenario;

fn registry() -> Registry {
    wifu::standard()
        .with_parts(custom::PARTS)
        .with_handlers(custom::HANDLERS)
        .with_wires(custom::WIRES)
        .with_library(custom::library())
}

fn simulation(text: &str) -> Simulation {
    let scenario = Scenario::from_toml(text).unwrap_or_else(|e| panic!("{e}"));
    Simulation::new(&scenario, &registry()).unwrap_or_else(|e| panic!("{e}"))
}

fn run(text: &str) -> Outcome {
    let mut simulation = simulation(text);
    simulation.run();
    let outcome = simulation.outcome();
    let flow = &outcome.flows[0];
    assert!(flow.finished && flow.corrupt == 0, "{flow:?}");
    outcome
}

fn flow(protocol: &str, bytes: &str) -> String {
    format!(
        "[[flow]]\nfrom = \"n1\"\nto = \"n5\"\nprotocol = \"{protocol}\"\napp = \"file\"\n\
         bytes = \"{bytes}\"\n"
    )
}

/// Four wires of 24 Mb/s and 1 ms.
fn wires(more: &str) -> String {
    let wire = |i: u32| {
        let j = i + 1;
        format!(
            "[[topology.wire]]\na = \"n{i}\"\nb = \"n{j}\"\nrate = \"24Mb/s\"\ndelay = \"1ms\"\n\
             overhead = 0\n{more}"
        )
    };
    let nodes: String = (1..=5)
        .map(|i| format!("[[topology.node]]\nname = \"n{i}\"\n"))
        .collect();
    format!(
        "[topology]\n{nodes}{}",
        (1..=4).map(wire).collect::<String>()
    )
}

const RADIOS: &str = "[topology]\nwords = \"linear,5,snr=20\"\nset = \"TB-W9\"\n";

/// Median time between departures of data, microseconds.
fn median_gap_us(outcome: &Outcome) -> f64 {
    let sent: Vec<f64> = outcome.series["flow.1.sent"].iter().map(|p| p.0).collect();
    let mut gaps: Vec<f64> = sent.windows(2).map(|w| (w[1] - w[0]) * 1e6).collect();
    gaps.sort_by(f64::total_cmp);
    gaps[gaps.len() / 2]
}

/// With nothing queued a round trip takes `hops * ((data + ack) * 8 / b + 2 * d)`, which leaves of
/// `factor / 2 * (rtt / hops + (data - ack) * 8 / b)` this: one packet and one delay per hop.
const CLOSED_FORM_US: f64 = 4.0 * (1500.0 * 8.0 / 24.0 + 1000.0);

#[test]
fn the_gap_is_that_of_the_closed_form_and_the_pacer_is_what_limits() {
    let series = "[record]\nseries = [\"flow.1.sent\"]\n";
    let text = |protocol: &str| format!("{}{series}{}", wires(""), flow(protocol, "1M"));
    let paced = run(&text("paced"));
    let share = paced.flows[0].limited_s["pace"] / paced.flows[0].until_s;
    let (gap, burst) = (
        median_gap_us(&paced),
        median_gap_us(&run(&text("tcp-newreno"))),
    );
    println!("median gap {gap} us (closed form {CLOSED_FORM_US}), without the gate {burst} us");
    println!("limited by the pacer {:.0} % of the time", share * 100.0);
    assert!(share > 0.9);
    assert!((gap / CLOSED_FORM_US - 1.0).abs() < 0.05);
    assert!(burst < 0.2 * CLOSED_FORM_US);
}

#[test]
fn losses_on_every_hop_are_repaired() {
    for seed in 1..=3 {
        let text = format!(
            "seed = {seed}\n{}{}",
            wires("loss = 0.02\n"),
            flow("paced,hop_factor=1", "1M")
        );
        let outcome = run(&text);
        let flow = &outcome.flows[0];
        let (lost, again) = (flow.packets.wire, flow.retransmissions);
        println!(
            "seed {seed}: {:.2} s, {lost} lost, {again} retransmitted, timeouts: {:?}",
            flow.until_s, flow.timeouts
        );
        assert!(lost > 20 && again > 20);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let hash = |seed: u32| {
        let text = format!("seed = {seed}\n{RADIOS}{}", flow("paced", "100k"));
        run(&text).trace_hash
    };
    assert_eq!(hash(7), hash(7));
    assert_ne!(hash(7), hash(8));
}
