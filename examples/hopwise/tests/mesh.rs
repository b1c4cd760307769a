//! The protocol over simulated radios, as `wifu sim --load` runs it.

mod common;

use common::{built, library};
use serde_json::Value;
use std::process::Command;

/// What `wifu` says; whether it went well.
fn wifu(args: &[&str]) -> (bool, String) {
    let output = Command::new(built().join("wifu"))
        .env("WIFU_LOAD", library())
        .args(args)
        .output()
        .unwrap();
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (output.status.success(), said)
}

/// The outcome of a scenario, and the numbers of the gates of so many nodes.
struct Run {
    outcome: Value,
    trace: String,
}

impl Run {
    fn new(name: &str, scenario: &str, gates: u32) -> Run {
        let own = format!("hopwise-{name}-{}", std::process::id());
        let file = |end| std::env::temp_dir().join(format!("{own}.{end}"));
        let [scene, trace] = ["toml", "csv"].map(file);
        let series = (1..=gates).flat_map(|n| {
            ["beyond", "heard", "silent"].map(|p| format!("\"flow.1.n{n}.heard-window.{p}\""))
        });
        let series: Vec<String> = series.collect();
        let record = format!(
            "[stop]\ntime = \"120s\"\n[record]\ninterval = \"1ms\"\nseries = [{}]\n",
            series.join(", ")
        );
        std::fs::write(&scene, format!("{scenario}{record}")).unwrap();
        let [scene, trace] = [scene, trace].map(|p| p.display().to_string());
        let (ok, said) = wifu(&["sim", "--scenario", &scene, "--json", "--trace", &trace]);
        let read = std::fs::read_to_string(&trace).unwrap_or_default();
        let _ = (std::fs::remove_file(scene), std::fs::remove_file(trace));
        assert!(ok, "{said}");
        let from = said.find('{').expect("JSON");
        let all: Value = serde_json::from_str(&said[from..]).expect("JSON");
        let outcome = all["wifu"].clone();
        let flow = &outcome["flows"][0];
        assert!(flow["finished"] == true && flow["corrupt"] == 0, "{flow}");
        Run {
            outcome,
            trace: read,
        }
    }

    /// All values of a number of a node's gate.
    fn values(&self, node: u32, probe: &str) -> Vec<f64> {
        let name = format!(",flow.1.n{node}.heard-window.{probe},");
        let of = self.trace.lines().filter_map(|l| l.split_once(&name));
        of.map(|(_, value)| value.parse().unwrap()).collect()
    }

    fn last(&self, node: u32, probe: &str) -> f64 {
        self.values(node, probe).last().copied().unwrap_or(0.0)
    }

    /// A number of the lanes of a node.
    fn lanes(&self, node: usize, count: &str) -> u64 {
        let lanes = &self.outcome["nodes"][node - 1]["lanes"];
        lanes[count].as_u64().unwrap_or_else(|| panic!("{lanes}"))
    }
}

const CHAIN: &str = "[topology]\nwords = \"linear,5,snr=20\"\nset = \"TB-W9\"\n";

fn flow(to: u32, protocol: &str, bytes: &str) -> String {
    format!(
        "[[flow]]\nfrom = \"n1\"\nto = \"n{to}\"\nprotocol = \"{protocol}\"\napp = \"file\"\n\
         bytes = \"{bytes}\"\n"
    )
}

#[test]
fn no_node_has_more_than_the_window_and_no_queue_overflows() {
    for window in [1_u32, 2, 4] {
        let protocol = format!("hopwise,lane.window={window}");
        let text = format!(
            "{CHAIN}[radio]\nattempts = 7\n{}",
            flow(5, &protocol, "300k")
        );
        let run = Run::new(&format!("window{window}"), &text, 3);
        for node in 1..=3 {
            let beyond = run.values(node, "beyond");
            assert!(beyond.iter().all(|n| *n <= f64::from(window)), "n{node}");
            assert!(run.last(node, "heard") > 100.0, "n{node}");
        }
        let held = run.values(1, "beyond");
        let full = held.iter().filter(|n| **n == f64::from(window)).count();
        println!("window {window}: full in {full} of {} looks", held.len());
        assert!(2 * full > held.len(), "the source is held back");
        for node in 1..=4 {
            assert_eq!(run.lanes(node, "full"), 0, "n{node}");
        }
        // Beside what it waits for there is what passed on unheard.
        let most = run.lanes(2, "most");
        assert!(most <= u64::from(window) + 3, "{most} waited at n2");
    }
}

#[test]
fn losses_are_survived() {
    for seed in 1..=3 {
        let text = format!(
            "seed = {seed}\n{CHAIN}[radio]\nattempts = 1\noverhear_loss = 0.05\n{}",
            flow(5, "hopwise", "300k")
        );
        let run = Run::new(&format!("loss{seed}"), &text, 3);
        let flow = &run.outcome["flows"][0];
        let lost = flow["packets"]["link"].as_u64().unwrap();
        println!(
            "seed {seed}: {lost} lost, {} again",
            flow["retransmissions"]
        );
        assert!(lost > 20 && flow["retransmissions"].as_u64() > Some(0));
        assert_eq!(run.lanes(2, "full"), 0);
    }
}

#[test]
fn where_nothing_is_heard_one_packet_goes_per_20_ms() {
    let text = format!(
        "{CHAIN}[radio]\nattempts = 7\npromiscuous = false\n{}",
        flow(5, "hopwise", "150k")
    );
    let run = Run::new("deaf", &text, 3);
    let until = run.outcome["flows"][0]["until_s"].as_f64().unwrap();
    println!("{until} s, {} silences", run.last(1, "silent"));
    assert_eq!(run.last(1, "heard"), 0.0);
    // 104 packets and the last, of which two go at once.
    assert!(run.last(1, "silent") >= 100.0 && until > 2.0);
}

/// n2 and n3 both lead from n1 to n4; n2 walks away after half a second.
#[test]
fn a_new_route_is_survived() {
    let place = [("n1", 0, 0), ("n2", 20, 10), ("n3", 21, -12), ("n4", 40, 0)];
    let nodes: String = place
        .iter()
        .map(|(n, x, y)| format!("[[topology.node]]\nname = \"{n}\"\nposition = [{x}, {y}, 0]\n"))
        .collect();
    let text = format!(
        "[radio]\nrate = \"24Mb/s\"\n[topology]\n[topology.radio]\npower_dbm = 8\n{nodes}\
         [routing]\nkind = \"shortest\"\n[[mobility]]\nkind = \"trace\"\n\
         rows = [[0.5, \"n2\", 20, 10], [0.7, \"n2\", 400, 400]]\n{}",
        flow(4, "hopwise", "2M"),
    );
    let run = Run::new("route", &text, 1);
    let taken = [2, 3].map(|node| run.lanes(node, "taken"));
    println!("{taken:?}");
    assert!(taken.iter().all(|n| *n > 100), "both relays: {taken:?}");
}

#[test]
fn it_is_refused_where_nobody_tells_who_transmits() {
    let (ok, said) = wifu(&["mock", "--protocol", "hopwise", "--bytes", "10k"]);
    let why = "heard-window requires site.next_hop (the next hop), which is not known";
    assert!(!ok && said.contains(why), "{said}");
}
