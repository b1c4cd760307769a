//! Hosts that take their time over packets of their ends (`host.profile`).

use std::sync::Arc;
use wifu_engine::Blueprint;
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::Outcome;
use wifu_sim::scenario::Scenario;

fn open(spec: &str) -> Result<Arc<Blueprint>, String> {
    wifu_parts::blueprint(spec).map_err(|e| e.to_string())
}

fn made(text: &str) -> Result<Simulation, String> {
    let scenario = Scenario::from_toml(text).map_err(|e| e.to_string())?;
    Simulation::new(&scenario, &open).map_err(|e| e.to_string())
}

fn run(text: &str) -> Outcome {
    let mut simulation = made(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    simulation.run();
    let outcome = simulation.outcome();
    for flow in &outcome.flows {
        assert_eq!(flow.corrupt, 0);
        let p = flow.packets;
        let known = p.delivered + p.queue + p.link + p.wire + p.route + p.hop + p.host + p.inside;
        assert_eq!(p.sent, known, "{p:?}");
    }
    outcome
}

fn chain(hops: u32, more: &str) -> String {
    format!(
        "stop.time = \"60s\"\n{more}\n[topology]\nwords = \"linear,{}\"\nset = \"TB-W3\"\n[[flow]]\n\
         from = \"n1\"\nto = \"n{0}\"\nprotocol = \"tcp-newreno,profile=wifu-tahoe\"\napp = \"file\"\nbytes = \"2M\"\n",
        hops + 1
    )
}

const PY: &str = "host.profile = \"py\"";

#[test]
fn a_stack_in_python_is_slower_than_a_fast_radio() {
    let (free, slow) = (run(&chain(1, "")), run(&chain(1, PY)));
    assert!(slow.flows[0].finished && free.flows[0].finished);
    let goodput = |o: &Outcome| o.flows[0].goodput_bps / 1e6;
    // A segment of 1448 octets takes its sender 1.2 ms, and 0.6 ms its acknowledgement.
    let most = 1448.0 * 8.0 / 1.8e-3 / 1e6;
    assert!(goodput(&free) > 10.0, "{}", goodput(&free));
    let share = goodput(&slow) / most;
    assert!((0.9..=1.001).contains(&share), "{share} of {most} Mb/s");
    for node in &slow.nodes {
        let host = node.host.expect("both are ends");
        assert!(host.sent > 1380 && host.received > 1380, "{host:?}");
        assert!(host.busy_s <= slow.sim_seconds, "{host:?}");
    }
    assert!(free.nodes.iter().all(|n| n.host.is_none()));
    // What it waits for is its host, not a queue that is empty.
    let share = |o: &Outcome, name: &str| {
        let limits = &o.flows[0].limited_s;
        limits.get(name).copied().unwrap_or(0.0) / limits.values().sum::<f64>()
    };
    let (host, queue) = (share(&slow, "host"), share(&slow, "queue"));
    assert!(host > 0.8 && queue < 0.01, "{:?}", slow.flows[0].limited_s);
    assert!(share(&free, "host") == 0.0);
}

/// Behind a link that is slower than the host the queue is what fills.
#[test]
fn a_device_that_is_slower_than_its_host_holds_the_sender_up() {
    let text = format!(
        "{PY}\nstop.time = \"60s\"\n[topology]\nwords = \"linear,2,wire=1Mb/s,queue=4\"\n[[flow]]\n\
         from = \"n1\"\nto = \"n2\"\nprotocol = \"tcp-newreno\"\napp = \"file\"\nbytes = \"4M\"\n"
    );
    let limits = run(&text).flows[0].limited_s.clone();
    let all: f64 = limits.values().sum();
    assert!(
        limits.get("queue").is_some_and(|s| *s > 0.5 * all),
        "{limits:?}"
    );
}

#[test]
fn a_relay_forwards_as_before() {
    let slow = run(&chain(2, PY));
    let hosts: Vec<bool> = slow.nodes.iter().map(|n| n.host.is_some()).collect();
    assert_eq!(hosts, [true, false, true]);
    // Two hops share the air: the radio is slower than the hosts.
    let (free, slow) = (
        run(&chain(2, "")).flows[0].goodput_bps,
        slow.flows[0].goodput_bps,
    );
    assert!(slow > 0.8 * free, "{slow} and {free}");
}

#[test]
fn a_set_says_it_and_a_scenario_has_the_last_word() {
    let hash = |more: &str| run(&chain(1, more)).trace_hash;
    let (free, slow) = (hash(""), hash(PY));
    assert_ne!(free, slow);
    let by_topology = |more: &str| {
        let text = chain(1, more).replace("[[flow]]", "host.profile = \"py\"\n[[flow]]");
        run(&text).trace_hash
    };
    assert_eq!(by_topology(""), slow);
    assert_eq!(by_topology("host.profile = \"off\""), free);
}

/// Five windows of 64 KB meet in a host that takes longer over packets than the wires.
#[test]
fn what_does_not_fit_into_a_hosts_buffer_is_dropped_and_counted() {
    let mut text = String::from("host.profile = \"py\"\nstop.time = \"20s\"\n[topology]\n");
    for n in 1..=6 {
        text += &format!("[[topology.node]]\nname = \"n{n}\"\nwired_only = true\n");
    }
    for n in 1..=5 {
        text += &format!("[[topology.wire]]\na = \"n{n}\"\nb = \"n6\"\nrate = \"100Mb/s\"\n");
    }
    for n in 1..=5 {
        text += &format!(
            "[[flow]]\nfrom = \"n{n}\"\nto = \"n6\"\nprotocol = \"tcp-newreno,profile=wifu-tahoe\"\napp = \"file\"\n\
             bytes = \"600k\"\n"
        );
    }
    let outcome = run(&text);
    let host = outcome.nodes[5].host.expect("it is an end");
    assert!(host.dropped > 20, "{host:?}");
    assert!((211_000..=212_992).contains(&host.most_waiting), "{host:?}");
    let lost: u64 = outcome.flows.iter().map(|f| f.packets.host).sum();
    assert_eq!(lost, host.dropped);
    assert!(outcome.flows.iter().all(|f| f.finished), "all is repeated");
}

#[test]
fn where_it_cannot_act_it_is_refused() {
    let udp = chain(1, PY).replace("\"tcp-newreno,profile=wifu-tahoe\"", "\"udp\"");
    let why = made(&udp).err().expect("nothing would cost anything");
    assert!(
        why.starts_with("host.profile: is about packets of protocols"),
        "{why}"
    );
    let why = made(&chain(1, "host.profile = \"pi\""))
        .err()
        .expect("there is none");
    assert!(
        why.starts_with("host.profile: unknown name `pi`; did you mean `py`"),
        "{why}"
    );
    let of_set = chain(1, "").replace("[[flow]]", "host.profil = \"py\"\n[[flow]]");
    let why = made(&of_set).err().expect("no such key");
    assert!(
        why.contains("host.profil") && why.contains("profile"),
        "{why}"
    );
}
