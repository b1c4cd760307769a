//! What forwarding a packet costs: datagrams over a chain of wires, for counting instructions
//! (scripts/count.sh).
//!
//!     forward_cost NAME SECONDS
//!
//! NAME is `bare`, no node has a handler, or a hook at which every node has the handler `null`.
//! Prints how many packets relays forwarded. Links without radio leave of a hop what the simulator
//! itself does: the event, the arrival, the hooks, the route, the queue.

use wifu_sim::mesh::Simulation;
use wifu_sim::scenario::Scenario;

/// Relays between the source and the sink: so many that the ends hardly count.
const RELAYS: u32 = 30;

fn scenario(name: &str, seconds: u64) -> String {
    let last = RELAYS + 2;
    let nodes: String = (1..=last)
        .map(|n| format!("[[topology.node]]\nname = \"n{n}\"\nwired_only = true\n"))
        .collect();
    let wires: String = (1..last)
        .map(|n| {
            let ends = format!("a = \"n{n}\"\nb = \"n{}\"\n", n + 1);
            format!("[[topology.wire]]\n{ends}rate = \"100Mb/s\"\ndelay = \"0.1ms\"\n")
        })
        .collect();
    let handler = match name {
        "bare" => String::new(),
        hook => format!("[[handler]]\nuse = \"null\"\nhooks = [\"{hook}\"]\n"),
    };
    format!(
        "{nodes}{wires}{handler}[[flow]]\nfrom = \"n1\"\nto = \"n{last}\"\nprotocol = \"udp\"\n\
         rate = \"8Mb/s\"\n[stop]\ntime = \"{seconds}s\"\n"
    )
}

fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_else(|| "bare".into());
    let seconds = args.next().and_then(|s| s.parse().ok()).unwrap_or(1);
    let parsed = Scenario::from_toml(&scenario(&name, seconds)).unwrap_or_else(|e| panic!("{e}"));
    let open = |spec: &str| wifu_parts::blueprint(spec).map_err(|e| e.to_string());
    let mut simulation = Simulation::new(&parsed, &open).unwrap_or_else(|e| panic!("{e}"));
    simulation.run();
    let outcome = simulation.outcome();
    println!("{}", outcome.nodes.iter().map(|n| n.forwarded).sum::<u64>());
}
