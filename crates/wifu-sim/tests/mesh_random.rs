//! Random meshes under random traffic: whatever is asked for, octets stay what they were, every
//! packet is accounted for, and the same scenario is the same run.

use std::sync::Arc;
use wifu_engine::Blueprint;
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::Outcome;
use wifu_sim::scenario::Scenario;
use wifu_wire::Rng;

fn open(spec: &str) -> Result<Arc<Blueprint>, String> {
    wifu_parts::blueprint(spec).map_err(|e| e.to_string())
}

fn one_of<'a>(rng: &mut Rng, all: &[&'a str]) -> &'a str {
    all[rng.below(all.len() as u64) as usize]
}

/// The tables of a topology, and how many nodes it has.
fn topology(rng: &mut Rng) -> (String, u64) {
    let n = 2 + rng.below(7);
    match rng.below(5) {
        0 => {
            let set = one_of(rng, &["TB-A", "TB-B", "TB-W9", "TAP-16", "TAP-29"]);
            (
                format!("[topology]\nwords = \"linear,{n}\"\nset = \"{set}\"\n"),
                n,
            )
        }
        1 => ("[topology]\nwords = \"grid,3,3\"\n".to_string(), 9),
        2 => (format!("[topology]\nwords = \"random,{n}\"\n"), n),
        3 => {
            let wire = "wire=2Mb/s,delay=3ms,queue=5,loss=0.02,variation=1ms";
            (format!("[topology]\nwords = \"linear,{n},{wire}\"\n"), n)
        }
        _ => {
            // Walkers in a yard: links come and go.
            let area = "[topology.placement]\nkind = \"uniform\"\narea_m = [60.0, 60.0]\n";
            let walk = "[[mobility]]\nkind = \"waypoint\"\narea = [0, 0, 60, 60]\n\
                        speed = [2, 20]\npause = \"0.5s\"\n";
            (
                format!("{area}count = {n}\n[topology.fading]\nsigma_db = 2\n{walk}"),
                n,
            )
        }
    }
}

fn flow(rng: &mut Rng, nodes: u64) -> String {
    let from = 1 + rng.below(nodes);
    let to = 1 + (from + rng.below(nodes - 1)) % nodes;
    let tcp = one_of(
        rng,
        &[
            "tcp-newreno",
            "tcp-tahoe",
            "tcp-reno",
            "tcp-sack",
            "tcp-cubic",
        ],
    );
    let app = match rng.below(11) {
        0 => format!("\"{tcp}\""),
        1 => format!(
            "\"{tcp}\"\napp = \"file\"\nbytes = {}",
            1 + rng.below(300_000)
        ),
        2 => format!(
            "\"{tcp}\"\napp = \"stream\"\ntime = \"{}ms\"",
            rng.below(3000)
        ),
        3 => format!("\"{tcp}\"\napp = \"http\"\npause = \"20ms\"\ncount = 20"),
        4 => format!("\"{tcp}\"\napp = \"http\"\npause = \"0.1s\"\nstop_at = \"1s\""),
        5 => {
            format!("\"{tcp}\"\napp = \"onoff\"\nrate = \"300kb/s\"\non = \"0.3s\"\noff = \"0.1s\"")
        }
        6 => format!("\"{tcp}\"\napp = \"request\"\nresponse = 5000\ncount = 30"),
        7 => format!("\"{tcp}\"\napp = \"trace\"\nrows = [[0.0, 0], [0.1, 9999], [1.0, 1]]"),
        8 => "\"udp\"\nrate = \"400kb/s\"\nsize = 300\ntime = \"1s\"".to_string(),
        9 => "\"udp\"\nbytes = 100001".to_string(),
        _ => {
            "\"udp\"\napp = \"onoff\"\nrate = \"1Mb/s\"\non = \"0.2s\"\noff = \"0.2s\"".to_string()
        }
    };
    let start = rng.below(500);
    format!(
        "[[flow]]\nfrom = \"n{from}\"\nto = \"n{to}\"\nstart = \"{start}ms\"\njitter = \"5ms\"\n\
         protocol = {app}\n"
    )
}

fn scenario(seed: u64) -> String {
    let mut rng = Rng::new(seed);
    let (topology, nodes) = topology(&mut rng);
    let flows: String = (0..1 + rng.below(6))
        .map(|_| flow(&mut rng, nodes))
        .collect();
    let routing = match rng.below(4) {
        0 => "[routing]\nkind = \"shortest\"\n",
        1 => "[routing.olsr]\nwithdraw = true\nhello = \"0.2s\"\n",
        2 => "[routing.olsr]\n",
        _ => "",
    };
    let host = ["", "[host]\nfwd_cost = \"300us\"\n", "[host]\nmtu = 600\n"];
    let host = one_of(&mut rng, &host);
    let record = ["", "[record]\nseries = true\nframes = true\n"];
    let record = one_of(&mut rng, &record);
    format!("seed = {seed}\n{topology}{routing}{host}{flows}{record}[stop]\ntime = \"4s\"\n")
}

fn run(text: &str) -> Outcome {
    let scenario = Scenario::from_toml(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let simulation = Simulation::new(&scenario, &open);
    let mut simulation = simulation.unwrap_or_else(|e| panic!("{e}\n{text}"));
    simulation.run();
    simulation.outcome()
}

#[test]
fn whatever_is_asked_for_the_books_balance() {
    let (mut delivered, mut lost) = (0, 0);
    for seed in 0..150 {
        let text = scenario(seed);
        let outcome = run(&text);
        for flow in &outcome.flows {
            let p = flow.packets;
            let known = p.delivered + p.queue + p.link + p.wire + p.route + p.hop + p.inside;
            assert_eq!(
                (p.sent, flow.corrupt),
                (known, 0),
                "flow {}: {p:?}\n{text}",
                flow.id
            );
            if let (true, Some(wanted)) = (flow.finished, flow.requests.last()) {
                assert!(flow.bytes >= wanted.bytes);
            }
            delivered += p.delivered;
            lost += p.sent - p.delivered - p.inside;
        }
        if seed % 5 == 0 {
            assert_eq!(outcome, run(&text), "{text}");
        }
    }
    assert!(delivered > 50_000 && lost > 1_000, "{delivered} {lost}");
}
