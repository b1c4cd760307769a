//! Snoop at the relay before a lossy link (Balakrishnan et al., MobiCom 1995): the sender hears of
//! few of the losses there.

use std::sync::Arc;
use wifu_engine::Blueprint;
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::Outcome;
use wifu_sim::scenario::Scenario;

fn open(spec: &str) -> Result<Arc<Blueprint>, String> {
    wifu_parts::blueprint(spec).map_err(|e| e.to_string())
}

/// A fixed host, a base station 20 ms away, and a mobile host behind a link that loses 2 %.
fn run(protocol: &str, seed: u64, snoop: bool) -> Outcome {
    let nodes: String = ["fixed", "base", "mobile"]
        .iter()
        .map(|n| format!("[[topology.node]]\nname = \"{n}\"\nwired_only = true\n"))
        .collect();
    let handler = if snoop {
        "[[handler]]\nuse = \"snoop\"\nnodes = [\"base\"]\n"
    } else {
        ""
    };
    let text = format!(
        "seed = {seed}\n{nodes}\
         [[topology.wire]]\na = \"fixed\"\nb = \"base\"\nrate = \"100Mb/s\"\ndelay = \"20ms\"\n\
         [[topology.wire]]\na = \"base\"\nb = \"mobile\"\nrate = \"5Mb/s\"\ndelay = \"1ms\"\n\
         queue = 100\nloss = 0.02\n{handler}\
         [[flow]]\nfrom = \"fixed\"\nto = \"mobile\"\nprotocol = \"{protocol}\"\napp = \"file\"\n\
         bytes = \"2M\"\n[stop]\ntime = \"300s\"\n"
    );
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let simulation = Simulation::new(&scenario, &open);
    let mut simulation = simulation.unwrap_or_else(|e| panic!("{e}\n{text}"));
    simulation.run();
    let outcome = simulation.outcome();
    let flow = &outcome.flows[0];
    assert!(flow.finished && flow.bytes == 2_000_000 && flow.corrupt == 0);
    outcome
}

#[test]
fn the_sender_has_fewer_fast_retransmits_behind_a_relay_that_snoops() {
    for protocol in ["tcp-newreno", "tcp-sack"] {
        let (mut plain, mut snooped) = ([0, 0], [0, 0]);
        let mut ratio = 0.0;
        for seed in 1..=5 {
            let (without, with) = (run(protocol, seed, false), run(protocol, seed, true));
            let (a, b) = (&without.flows[0], &with.flows[0]);
            for (sum, flow) in [(&mut plain, a), (&mut snooped, b)] {
                let counts = [flow.fast_retransmits, flow.timeouts].map(|n| n.expect("of TCP"));
                sum[0] += counts[0];
                sum[1] += counts[1];
            }
            ratio += b.goodput_bps / a.goodput_bps / 5.0;
            let base = &with.nodes[1].handlers[0];
            let count = |name: &str| base.counts[name];
            println!(
                "{protocol}, seed {seed}: fast retransmits {:?} -> {:?}, timeouts {:?} -> {:?}, goodput \
                 {:.2} -> {:.2} Mb/s; base station {:?}",
                a.fast_retransmits,
                b.fast_retransmits,
                a.timeouts,
                b.timeouts,
                a.goodput_bps / 1e6,
                b.goodput_bps / 1e6,
                base.counts
            );
            assert!(count("resent") > 10 && count("dup_acks_held") > count("resent"));
            assert!(base.sent == count("resent") + count("timeouts") && base.kept > 1000);
            // Acknowledged segments free their copies: no more than a window is kept at the end.
            let p = &b.packets;
            let known = p.delivered + p.queue + p.link + p.wire + p.route + p.hop + p.inside;
            assert_eq!(p.sent + p.copies, known, "{p:?}");
        }
        println!("{protocol}: {plain:?} -> {snooped:?}, goodput x {ratio:.2}");
        assert!(
            snooped[0] * 4 < plain[0],
            "{protocol}: {plain:?} -> {snooped:?}"
        );
        assert!(ratio > 1.2, "{protocol}: {ratio}");
    }
}
