//! Series by name: numbers on the board and probes of parts.

use std::sync::Arc;
use wifu_engine::Blueprint;
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::{Outcome, Series};
use wifu_sim::scenario::Scenario;

fn open(spec: &str) -> Result<Arc<Blueprint>, String> {
    wifu_parts::blueprint(spec).map_err(|e| e.to_string())
}

fn scenario(protocol: &str, record: &str) -> Scenario {
    let text = format!(
        r#"
        [topology]
        words = "linear,3"
        set = "TB-A"
        [[flow]]
        from = "n1"
        to = "n3"
        protocol = "{protocol}"
        app = "file"
        bytes = "400k"
        [[flow]]
        from = "n3"
        to = "n1"
        protocol = "udp"
        rate = "50k"
        stop_at = "1s"
        [stop]
        time = "60s"
        [record]
        {record}
        "#
    );
    Scenario::from_toml(&text).expect("a scenario")
}

fn outcome(protocol: &str, record: &str) -> Outcome {
    let mut simulation = Simulation::new(&scenario(protocol, record), &open).expect("all known");
    simulation.run();
    simulation.outcome()
}

fn refused(names: &str) -> String {
    let record = format!("series = [{names}]");
    match Simulation::new(&scenario("tcp-cubic", &record), &open) {
        Ok(_) => panic!("{names} is taken"),
        Err(e) => e.to_string(),
    }
}

fn known(series: &Series) -> Vec<f64> {
    let values = series.iter().map(|p| p.1);
    values.filter(|v| !v.is_nan()).collect()
}

#[test]
fn a_probe_is_recorded_as_its_part_reports_it() {
    let record = r#"interval = "5ms"
        series = ["flow.1.srtt", "flow.1.rfc6298.srtt_s", "flow.1.cubic.w_max", "flow.1.cwnd"]"#;
    let outcome = outcome("tcp-cubic", record);
    let names: Vec<&str> = outcome.series.keys().map(String::as_str).collect();
    let expected = [
        "flow.1.cubic.w_max",
        "flow.1.cwnd",
        "flow.1.rfc6298.srtt_s",
        "flow.1.srtt",
    ];
    assert_eq!(names, expected);
    // The part writes what it reports to the board, in nanoseconds.
    let (board, part) = (&outcome.series[expected[3]], &outcome.series[expected[2]]);
    assert!(known(board).len() > 50);
    for ((at, board), (same, part)) in board.iter().zip(part) {
        assert_eq!(at, same);
        let near = (board - part).abs() < 1e-6;
        assert!(near || board.is_nan(), "{at}: {board} and {part}");
    }
    // Before the first sample nothing is known, which is not zero.
    assert!(board[0].1.is_nan() && !known(board).contains(&0.0));
    let window = known(&outcome.series["flow.1.cwnd"]);
    assert!(window.iter().any(|w| *w > window[0]), "the window grew");
    let steps = board.windows(2).map(|w| w[1].0 - w[0].0);
    assert!(steps.fold(0.0, f64::max) < 0.005_001);
}

#[test]
fn the_receivers_connection_and_all_flows_can_be_meant() {
    let record = r#"series = ["flow.*.peer.window", "flow.*.delivered", "node.n2.queue"]"#;
    let outcome = outcome("tcp-newreno", record);
    let names: Vec<&str> = outcome.series.keys().map(String::as_str).collect();
    let expected = [
        "flow.1.delivered",
        "flow.1.peer.window",
        "flow.2.delivered",
        "node.n2.queue",
    ];
    assert_eq!(names, expected);
    assert!(
        known(&outcome.series["flow.1.peer.window"])
            .iter()
            .any(|w| *w > 1e4)
    );
}

#[test]
fn recording_changes_nothing() {
    let hash = |record: &str| outcome("tcp-cubic", record).trace_hash;
    let none = hash("");
    assert_eq!(hash("series = true"), none);
    assert_eq!(
        hash(r#"series = ["flow.1.cubic.k_s", "flow.1.peer.srtt"]"#),
        none
    );
}

#[test]
fn the_usual_series_stay_beside_named_ones() {
    let usual = outcome("tcp-cubic", "series = true").series;
    let more = r#"series = ["all", "flow.1.cwnd", "flow.1.cubic.w_max"]"#;
    let mut more = outcome("tcp-cubic", more).series;
    assert!(more.remove("flow.1.cubic.w_max").is_some());
    assert_eq!(more, usual);
}

#[test]
fn an_unknown_name_is_refused_before_the_run() {
    let said = refused(r#""flow.1.cwnd", "flow.1.cwdn""#);
    assert!(
        said.starts_with("record.series.2: \"flow.1.cwdn\""),
        "{said}"
    );
    assert!(said.contains("did you mean `cwnd`"), "{said}");
    let said = refused(r#""flow.1.cubic.wmax""#);
    assert!(said.contains("did you mean `cubic.w_max`"), "{said}");
    let said = refused(r#""flow.*.westwood.bwe_bps""#);
    assert!(
        said.contains("no quantity of tcp-cubic is called"),
        "{said}"
    );
    let said = refused(r#""flow.1.rate""#);
    assert!(said.contains("writes the facts `rate`"), "{said}");
    assert!(refused(r#""flow.3.cwnd""#).contains("from 1 to 2"));
    assert!(refused(r#""flow.2.cwnd""#).contains("datagrams"));
    assert!(refused(r#""node.m2.queue""#).contains("did you mean `n2`"));
    assert!(refused(r#""node.n2.length""#).contains("queue and delay"));
    assert!(refused(r#""cwnd""#).contains("write flow.1.cwnd"));
}

#[test]
fn what_is_sent_can_be_looked_at_as_a_number_too() {
    let record = "series = [\"flow.1.offered\", \"flow.1.peer.offered\"]";
    let found = outcome("tcp-cubic", record);
    let (sent, back) = (
        &found.series["flow.1.offered"],
        known(&found.series["flow.1.peer.offered"]),
    );
    assert_eq!(sent.last().map(|p| p.1), Some(400_000.0), "as it is sent");
    assert!(
        back.len() > 10 && back.iter().all(|v| *v == 0.0),
        "{back:?}"
    );
}
