//! Random meshes under random traffic: whatever is asked for, octets stay what they were, every
//! packet is accounted for, and the same scenario is the same run.

use std::sync::Arc;
use wifu_engine::Blueprint;
use wifu_sim::mesh::Simulation;
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

fn radio(rng: &mut Rng) -> String {
    let mut t = "[radio]\n".to_string();
    if rng.below(3) == 0 {
        t += "rate_control = \"minstrel\"\n";
    }
    if rng.below(3) == 0 {
        t += &format!("rts_threshold = {}\n", rng.below(1000));
    }
    if rng.below(3) == 0 {
        t += &format!("attempts = {}\n", 1 + rng.below(9));
    }
    if rng.below(4) == 0 {
        t += "mim_db = \"off\"\n";
    }
    if rng.below(4) == 0 {
        t += "capture_db = \"off\"\nmim_db = \"off\"\n";
        t = t.replacen("mim_db = \"off\"\n", "", t.matches("mim_db").count() - 1);
    }
    if rng.below(4) == 0 {
        t += &format!("intr_batch = {}\n", 1 + rng.below(9));
    }
    if rng.below(4) == 0 {
        t += &format!(
            "ring = {}\nqueue = {}\n",
            1 + rng.below(9),
            1 + rng.below(30)
        );
    }
    if rng.below(4) == 0 {
        t += "overhear_loss = 0.3\n";
    }
    match rng.below(6) {
        0 => t += "error_model = \"yans\"\n",
        1 => t += "error_model = \"ideal\"\nideal_db = 8\n",
        _ => {}
    }
    t
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
    let radio = radio(&mut rng);
    let _ = record;
    let record = "[record]\nseries = true\nframes = true\n";
    format!("seed = {seed}\n{topology}{radio}{routing}{host}{flows}{record}[stop]\ntime = \"4s\"\n")
}

fn extra() -> Vec<String> {
    let mut all = Vec::new();
    let stop = "[record]\nframes = true\n[stop]\ntime = \"4s\"\n";
    for set in [
        "PLAIN",
        "TB-A",
        "TB-B",
        "TB-STACK",
        "TB-RND",
        "TB-W3",
        "TB-W9",
        "TAP-16",
        "TAP-29",
        "TAP-PAR",
        "TAP-RND",
        "HX-9",
        "HX-2",
        "HX-4",
        "HX-1",
        "NS2-CHAIN",
    ] {
        for extra in ["", "rts_threshold = 300\n", "rate_control = \"minstrel\"\n"] {
            for words in ["linear,7", "random,12", "grid,4,4,snr=12", "parallel,5"] {
                all.push(format!("[topology]\nwords = \"{words}\"\nset = \"{set}\"\n[radio]\n{extra}[[flow]]\nfrom = \"n1\"\nto = \"n5\"\nprotocol = \"tcp-newreno\"\n[[flow]]\nfrom = \"n4\"\nto = \"n2\"\nprotocol = \"tcp-cubic\"\njitter = \"5ms\"\n{stop}"));
            }
        }
    }
    all
}

fn fnv(h: u64, octets: &[u8]) -> u64 {
    octets
        .iter()
        .fold(h, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01B3))
}

fn main() {
    let n: u64 = std::env::args()
        .nth(1)
        .and_then(|s| s.parse().ok())
        .unwrap_or(300);
    let texts = (0..n).map(scenario).chain(extra());
    for (i, text) in texts.enumerate() {
        let sc = match Scenario::from_toml(&text) {
            Ok(s) => s,
            Err(e) => {
                println!("{i} bad {e}");
                continue;
            }
        };
        let mut sim = match Simulation::new(&sc, &open) {
            Ok(s) => s,
            Err(e) => {
                println!("{i} no {e}");
                continue;
            }
        };
        sim.run();
        let mut frames = 0xCBF2_9CE4_8422_2325u64;
        let list = sim.take_frames();
        for r in &list {
            frames = fnv(frames, &r.encode());
        }
        let mut o = sim.outcome();
        let events = core::mem::take(&mut o.events);
        let h = fnv(0xCBF2_9CE4_8422_2325, o.to_json().to_string().as_bytes());
        let _ = events;
        println!("{i} {h:016x} {frames:016x} {} {}", list.len(), o.trace_hash);
    }
}
