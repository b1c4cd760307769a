//! How fast the mesh simulator is: simulated seconds per CPU second on standard runs.
//!
//!     cargo run --release -p wifu-sim --example mesh_speed [NAME] [SECONDS] [--json]
//!
//! `chain`, `chain6`: 6 hops of 802.11a at 24 and 6 Mb/s, one flow. `random`: 20 nodes, 10 flows.
//! `grid`: 10 by 10 nodes, 50 flows over 7 hops. `thousand`: 1000 nodes, 100 flows of 2 hops.
//! `wire`: no radio.

use std::sync::Arc;
use wifu_engine::Blueprint;
use wifu_sim::mesh::Simulation;
use wifu_sim::scenario::Scenario;

fn open(spec: &str) -> Result<Arc<Blueprint>, String> {
    wifu_parts::blueprint(spec).map_err(|e| e.to_string())
}

fn flow(from: u64, to: u64) -> String {
    format!(
        "[[flow]]\nfrom = \"n{from}\"\nto = \"n{to}\"\nprotocol = \"tcp-newreno\"\n\
         jitter = \"5ms\"\n"
    )
}

/// The scenario of a name.
fn scenario(name: &str, seconds: u64) -> String {
    let stop = format!("[stop]\ntime = \"{seconds}s\"\n");
    match name {
        "chain" => format!(
            "[topology]\nwords = \"linear,7,snr=20\"\nset = \"TB-W9\"\n[radio]\nattempts = 7\n{}{stop}",
            flow(1, 7)
        ),
        "chain6" => format!(
            "host.profile = \"off\"\n[topology]\nwords = \"linear,7\"\nset = \"TB-B\"\n[radio]\nattempts = 7\n{}{stop}",
            flow(1, 7)
        ),
        "random" => {
            let flows: String = (0..10).map(|i| flow(i + 1, i + 11)).collect();
            format!("[topology]\nwords = \"random,20\"\n{flows}{stop}")
        }
        "grid" => {
            // Along a row or a column, and one more column or row if 7 hops need it.
            let place = |row: u64, column: u64| row * 10 + column + 1;
            let flows: String = (0..50)
                .map(|i| {
                    let (line, start) = (i % 10, i / 10 % 3);
                    match i < 25 {
                        true => flow(place(line, start), place(line, start + 7)),
                        false => flow(place(start + 7, line), place(start, line)),
                    }
                })
                .collect();
            format!("[topology]\nwords = \"grid,10,10,snr=12\"\n{flows}{stop}")
        }
        "thousand" => {
            let flows: String = (0..100).map(|i| flow(i * 10 + 1, i * 10 + 3)).collect();
            format!("[topology]\nwords = \"grid,25,40,snr=12\"\n{flows}{stop}")
        }
        "large" => {
            // 1000 nodes in the open, 100 flows to neighbours a few hops away.
            let flows: String = (0..100).map(|i| flow(10 * i + 1, 10 * i + 4)).collect();
            format!("[topology]\nwords = \"grid,25,40\"\n{flows}{stop}")
        }
        _ => format!(
            "[[topology.node]]\nname = \"n1\"\nwired_only = true\n\
             [[topology.node]]\nname = \"n2\"\nwired_only = true\n\
             [[topology.wire]]\na = \"n1\"\nb = \"n2\"\nrate = \"100Mb/s\"\ndelay = \"1ms\"\n\
             {}{stop}",
            flow(1, 2)
        ),
    }
}

/// CPU time of this process, seconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let ns = stat.split(' ').next().and_then(|n| n.parse::<f64>().ok());
    ns.unwrap_or(0.0) / 1e9
}

fn main() {
    let mut args: Vec<String> = std::env::args().collect();
    let json = args.iter().any(|a| a == "--json");
    args.retain(|a| a != "--json");
    let chosen = args.get(1).map(String::as_str);
    let seconds = args.get(2).and_then(|s| s.parse().ok());
    for (name, default) in [
        ("chain", 1000),
        ("chain6", 1000),
        ("random", 200),
        ("grid", 50),
        ("large", 2),
        ("thousand", 5),
        ("wire", 100),
    ] {
        if chosen.is_some_and(|c| c != name) {
            continue;
        }
        let text = scenario(name, seconds.unwrap_or(default));
        let parsed = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}"));
        let mut simulation = Simulation::new(&parsed, &open).unwrap_or_else(|e| panic!("{e}"));
        let begin = cpu();
        simulation.run();
        let spent = cpu() - begin;
        let outcome = simulation.outcome();
        let frames: u64 = outcome.nodes.iter().map(|n| n.attempts).sum();
        let hops: f64 = outcome.flows.iter().map(|f| f64::from(f.hops)).sum();
        let goodput: f64 = outcome.flows.iter().map(|f| f.goodput_bps).sum();
        let rate = outcome.sim_seconds / spent;
        let each_us = spent * 1e6 / frames.max(1) as f64;
        if json {
            println!(
                "{{\"run\":\"{name}\",\"seconds_per_cpu_second\":{rate:.2},\
                 \"attempts\":{frames},\"us_per_attempt\":{each_us:.3}}}"
            );
            continue;
        }
        println!(
            "{name:8} {rate:8.1} simulated s per CPU s; {:.0} attempts/s, {each_us:.2} us each; \
             {:.2} Mb/s in all, {:.1} hops; {}",
            frames as f64 / outcome.sim_seconds,
            goodput / 1e6,
            hops / outcome.flows.len() as f64,
            outcome.trace_hash,
        );
    }
}
