//! TCP-AP over simulated radios: its pacing is seen on the air, its estimates meet the truth of the
//! testbed sets, and another route begins it anew.

mod aired;

use aired::{Air, open};
use std::cell::RefCell;
use std::rc::Rc;
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::{Outcome, Series};
use wifu_sim::scenario::Scenario;

/// A chain of a set; what became of a transfer, and when its data were first on the air.
fn chain(set: &str, hops: u32, protocol: &str, more: &str) -> (Outcome, Vec<f64>) {
    let part = if protocol.contains("ap05") {
        "ap05"
    } else {
        "ap11"
    };
    let probes = ["interval_s", "cov", "hop_rtt_s"].map(|p| format!("\"flow.1.{part}.{p}\""));
    let mut series = probes.join(", ");
    if part == "ap11" {
        series += ", \"flow.1.ap11.h_cs\", \"flow.1.ap11.oid_s\", \"flow.1.ap11.t_q_s\", \
                   \"flow.1.ap11.p_rx_dbm\", \"flow.1.ap11.hops\", \
                   \"flow.1.last_rtt\", \"flow.1.rtt_samples\"";
    }
    if !protocol.contains("-ap") {
        series.clear();
    }
    let nodes = hops + 1;
    let text = format!(
        "{more}\n[topology]\nwords = \"linear,{nodes}\"\nset = \"{set}\"\n[host]\nmtu = 1512\n\
         [[flow]]\nfrom = \"n1\"\nto = \"n{nodes}\"\nprotocol = \"{protocol}\"\napp = \"bulk\"\n\
         [stop]\ntime = \"20s\"\n[record]\ninterval = \"1ms\"\nseries = [{series}]\n"
    );
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut simulation = Simulation::new(&scenario, &open).unwrap_or_else(|e| panic!("{e}"));
    let air = Rc::new(RefCell::new(Vec::new()));
    simulation.set_tap(Box::new(Air(Rc::clone(&air))));
    simulation.run();
    let air = air.take();
    (simulation.outcome(), air)
}

fn series<'a>(outcome: &'a Outcome, probe: &str) -> &'a Series {
    let mut all = outcome.series.iter();
    let found = all.find(|(name, _)| name.ends_with(&format!(".{probe}")));
    found.unwrap_or_else(|| panic!("no {probe}")).1
}

fn known(outcome: &Outcome, probe: &str) -> Vec<f64> {
    let values = series(outcome, probe).iter().map(|p| p.1);
    values.filter(|v| !v.is_nan()).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// What a series said last before a time.
fn at(series: &Series, time: f64) -> f64 {
    let i = series.partition_point(|p| p.0 <= time);
    series[i.saturating_sub(1)].1
}

/// Gaps between first transmissions, in intervals as they were.
fn in_intervals(outcome: &Outcome, air: &[f64]) -> Vec<f64> {
    let interval = series(outcome, "interval_s");
    let gaps = air.windows(2).map(|w| (w[1] - w[0]) / at(interval, w[1]));
    gaps.skip(20).collect()
}

fn share(values: &[f64], within: impl Fn(f64) -> bool) -> f64 {
    values.iter().filter(|v| within(**v)).count() as f64 / values.len() as f64
}

#[test]
fn data_are_on_the_air_one_interval_apart() {
    for (protocol, hops) in [
        ("tcp-ap11", 4),
        ("tcp-ap05", 4),
        ("tcp-ap05,profile=ap05-wifu", 3),
    ] {
        let (outcome, air) = chain("TAP-16", hops, protocol, "");
        let gaps = in_intervals(&outcome, &air);
        let (sooner, near) = (
            share(&gaps, |g| g < 0.5),
            share(&gaps, |g| (0.7..1.5).contains(&g)),
        );
        assert!(gaps.len() > 200);
        assert!(sooner < 0.1, "{protocol}: {sooner}");
        assert!(near > 0.7, "{protocol}: {near}");
        // What is not paced comes in bursts, judged by the same intervals.
        let base = if protocol.contains("ap11") {
            "tcp-newreno,profile=tap-newreno"
        } else {
            "tcp-tahoe,profile=wifu-tahoe"
        };
        let (_, air) = chain("TAP-16", hops, base, "");
        let plain = in_intervals(&outcome, &air);
        let bursts = share(&plain, |g| g < 0.5);
        assert!(bursts > 5.0 * sooner && bursts > 0.2, "{base}: {bursts}");
    }
}

#[test]
fn the_range_of_carrier_sense_is_that_of_the_testbed_sets() {
    for (set, truth, heard) in [("TAP-16", 3.0, -80.6), ("TAP-29", 2.0, -83.7)] {
        let (outcome, _) = chain(set, 6, "tcp-ap11", "");
        let ranges = known(&outcome, "h_cs");
        let right = share(&ranges, |r| r == truth);
        // 13 dB over -93.6 dBm vary by 0.5 dB, and a node two hops away is sensed down to -81.0.
        let power = mean(&known(&outcome, "p_rx_dbm"));
        assert!((power - heard).abs() < 0.5, "{set}: {power}");
        assert!(right > 0.6, "{set}: {right}");
        assert_eq!(at(series(&outcome, "hops"), 10.0), 6.0);
    }
}

/// From the round trips that the connection timed, by the equations written once more: of segments
/// of 1512 octets over four hops of 802.11b at 11 Mb/s, with four attempts.
//= tcp-ap#equation-1
//= tcp-ap#equation-9
//= tcp-ap#equation-13
//= tcp-ap#equation-14
#[test]
fn the_interval_is_what_the_equations_make_of_the_round_trips() {
    let (outcome, _) = chain("TAP-16", 4, "tcp-ap11", "");
    let of = |name: &str| series(&outcome, name);
    let lasts = |octets: f64| octets * 8.0 / 11e6;
    let link = |octets: f64| 112e-6 + 1.5 * (lasts(octets) + 221.0 / 3.0 * 20e-6);
    let (data, ack) = (lasts(1512.0 + 36.0), lasts(52.0 + 36.0));
    let (mut history, mut oid, mut known) = (Vec::new(), None, 0.0);
    let (mut judged, mut most) = (0, 0.0_f64);
    for (&(time, samples), &(_, rtt)) in of("rtt_samples").iter().zip(of("last_rtt")) {
        if samples.is_nan() || samples == known {
            continue;
        }
        if samples > known + 1.0 {
            // One was over before we looked: what it leaves behind fades.
            (history, oid) = (Vec::new(), None);
        }
        known = samples;
        history.push(rtt);
        let queueing = 0.5 * (rtt / 4.0 - data - ack - link(1460.0) - link(30.0));
        let range = at(of("h_cs"), time);
        let sample = (range + 1.0).min(4.0) * (queueing.clamp(0.0, 0.5) + data);
        let averaged = oid.map_or(sample, |old: f64| 0.7 * old + 0.3 * sample);
        oid = Some(averaged);
        let Some(from) = history.len().checked_sub(50) else {
            continue;
        };
        let (latest, centre) = (&history[from..], mean(&history[from..]));
        let squares: f64 = latest.iter().map(|rtt| (rtt - centre).powi(2)).sum();
        let cov = (squares / 49.0).sqrt() / centre;
        for (name, expected) in [
            ("cov", cov),
            ("oid_s", averaged),
            ("interval_s", averaged * (1.0 + 2.0 * cov)),
            ("hop_rtt_s", rtt / 4.0),
        ] {
            let seen = at(of(name), time);
            assert!(
                (seen / expected - 1.0).abs() < 1e-5,
                "{name} at {time}: {seen}, not {expected}"
            );
        }
        most = most.max(cov);
        judged += 1;
    }
    assert!(judged > 500 && most > 0.1, "{judged} {most}");
}

/// n1 reaches n3 over n2, and over n4, n5 and n6 once the way between n2 and n3 is cut.
#[test]
fn another_route_begins_anew() {
    let names = ["n1", "n2", "n3", "n4", "n5", "n6"];
    let node = |n: &str| format!("[[topology.node]]\nname = \"{n}\"\nwired_only = true\n");
    let wire = |(a, b): (&str, &str)| {
        format!("[[topology.wire]]\na = \"{a}\"\nb = \"{b}\"\nrate = \"11Mb/s\"\ndelay = \"5ms\"\n")
    };
    let wires = [
        ("n1", "n2"),
        ("n2", "n3"),
        ("n1", "n4"),
        ("n4", "n5"),
        ("n5", "n6"),
        ("n6", "n3"),
    ];
    for part in ["ap11", "ap05"] {
        let text = format!(
            "{}{}[[flow]]\nfrom = \"n1\"\nto = \"n3\"\nprotocol = \"tcp-{part}\"\napp = \"bulk\"\n\
             [host]\nmtu = 1512\n[[event]]\nat = \"5s\"\ncut = [\"n2\", \"n3\"]\n\
             [stop]\ntime = \"12s\"\n[record]\ninterval = \"1ms\"\n\
             series = [\"flow.1.{part}.cov\", \"flow.1.{part}.hop_rtt_s\", \
             \"flow.1.{part}.interval_s\", \"flow.1.hops\", \"flow.1.rtt_samples\"]\n",
            names.map(node).concat(),
            wires.map(wire).concat(),
        );
        let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let mut simulation = Simulation::new(&scenario, &open).unwrap_or_else(|e| panic!("{e}"));
        simulation.run();
        let outcome = simulation.outcome();
        let hops = series(&outcome, "hops");
        assert_eq!((at(hops, 4.9), at(hops, 11.9)), (2.0, 4.0), "{part}");
        // The first round trip behind the change is the first of a history: with those of the way
        // before it would vary by a fifth.
        let (cov, samples) = (series(&outcome, "cov"), series(&outcome, "rtt_samples"));
        let before = at(samples, 5.0);
        let first = samples.iter().find(|p| p.1 > before).unwrap().0;
        assert!(
            first < 5.2 && at(cov, first) == 0.0,
            "{part}: {}",
            at(cov, first)
        );
        assert!(
            at(cov, first + 0.1) > 0.05,
            "{part}: round trips are longer now"
        );
        let hop = |t| at(series(&outcome, "hop_rtt_s"), t);
        assert!(
            (hop(11.9) / hop(4.9) - 1.0).abs() < 0.2,
            "{part}: {} {}",
            hop(4.9),
            hop(11.9)
        );
    }
}

/// What another gate refuses is in no pacer's queue, and what goes again does not wait for it.
#[test]
fn beside_another_gate_a_queue_that_stands_still_holds_no_retransmission_back() {
    for seed in 1..=3 {
        let text = format!(
            "seed = {seed}\n[topology]\nwords = \"linear,5,snr=5.6,attempts=2,rate=6M\"\n\
             [[flow]]\nfrom = \"n1\"\nto = \"n5\"\napp = \"file\"\nbytes = \"300k\"\n\
             protocol = \"tcp-ap05,profile=ap05-wifu,gates.add=hop-window\"\n\
             [stop]\ntime = \"600s\"\n"
        );
        let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let mut simulation = Simulation::new(&scenario, &open).unwrap_or_else(|e| panic!("{e}"));
        simulation.run();
        let flow = &simulation.outcome().flows[0];
        assert!(flow.finished, "seed {seed}: {flow:?}");
        assert!(flow.timeouts > Some(0), "seed {seed}: nothing to repair");
    }
}
