//! Pacing that knows nothing beforehand, over simulated radios: its interval is seen on the air,
//! what it learns is what the sets are made of, and it follows what changes.

mod aired;

use aired::{Air, open};
use std::cell::RefCell;
use std::rc::Rc;
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::{Outcome, Series};
use wifu_sim::scenario::Scenario;

const PROBES: [&str; 5] = [
    "interval_s",
    "hops",
    "service_s",
    "shortest_s",
    "next_service_s",
];

/// What becomes of a scenario, and when data of the first node were first on the air.
fn run(text: &str, seconds: u32) -> (Outcome, Vec<f64>) {
    let series = PROBES.map(|p| format!("\"flow.1.learned.{p}\"")).join(", ");
    let text = format!(
        "{text}\n[host]\nmtu = 1512\n[stop]\ntime = \"{seconds}s\"\n\
         [record]\ninterval = \"1ms\"\nseries = [{series}]\n"
    );
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut simulation = Simulation::new(&scenario, &open).unwrap_or_else(|e| panic!("{e}"));
    let air = Rc::new(RefCell::new(Vec::new()));
    simulation.set_tap(Box::new(Air(Rc::clone(&air))));
    simulation.run();
    let air = air.take();
    (simulation.outcome(), air)
}

fn flow(from: &str, to: &str, more: &str) -> String {
    format!(
        "[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nprotocol = \"ap-next\"\napp = \"bulk\"\n{more}\n"
    )
}

fn chain(set: &str, hops: u32, more: &str) -> (Outcome, Vec<f64>) {
    let nodes = hops + 1;
    let topology = format!("[topology]\nwords = \"linear,{nodes}\"\nset = \"{set}\"\n");
    let flow = flow("n1", &format!("n{nodes}"), "");
    run(&format!("{topology}{more}\n{flow}"), 20)
}

fn series<'a>(outcome: &'a Outcome, probe: &str) -> &'a Series {
    let mut all = outcome.series.iter();
    let found = all.find(|(name, _)| name.ends_with(&format!(".learned.{probe}")));
    found.unwrap_or_else(|| panic!("no {probe}")).1
}

/// The mean of a probe in a time.
fn mean(outcome: &Outcome, probe: &str, from: f64, to: f64) -> f64 {
    let within = series(outcome, probe).iter();
    let values = within.filter(|p| (from..to).contains(&p.0) && p.1.is_finite());
    let (sum, n) = values.fold((0.0, 0), |(sum, n), p| (sum + p.1, n + 1));
    assert!(n > 0, "{probe} was not known from {from} to {to} s");
    sum / f64::from(n)
}

/// What a series said last before a time.
fn at(series: &Series, time: f64) -> f64 {
    let i = series.partition_point(|p| p.0 <= time);
    series[i.saturating_sub(1)].1
}

#[test]
fn data_are_on_the_air_one_learned_interval_apart() {
    let (outcome, air) = chain("TAP-16", 4, "");
    let interval = series(&outcome, "interval_s");
    let gaps = air.windows(2).map(|w| (w[1] - w[0]) / at(interval, w[1]));
    let gaps: Vec<f64> = gaps.skip(20).filter(|g| g.is_finite()).collect();
    let share = |within: &dyn Fn(f64) -> bool| {
        gaps.iter().filter(|g| within(**g)).count() as f64 / gaps.len() as f64
    };
    let (sooner, near) = (share(&|g| g < 0.5), share(&|g| (0.7..1.5).contains(&g)));
    assert!(gaps.len() > 500);
    assert!(sooner < 0.1, "{sooner}");
    assert!(near > 0.7, "{near}");
    let pauses = share(&|g| g > 2.0);
    assert!((0.005..0.15).contains(&pauses), "{pauses} left alone");
}

/// 1512 octets at 11 Mb/s with 36 of framing, a short preamble, and the acknowledgement of the link
/// layer take 1.4 ms by the standard's sum.
#[test]
fn the_time_of_a_hop_is_that_of_the_standard() {
    let preamble = 96e-6;
    let data = preamble + (1512.0 + 36.0) * 8.0 / 11e6;
    let exchange = 50e-6 + data + 10e-6 + preamble + 14.0 * 8.0 / 2e6;
    for hops in [2, 4] {
        let (outcome, _) = chain("TAP-16", hops, "");
        let shortest = mean(&outcome, "shortest_s", 5.0, 20.0);
        let off = shortest / exchange - 1.0;
        assert!(off.abs() < 0.08, "{hops} hops: {shortest}, not {exchange}");
        let alone = mean(&outcome, "service_s", 5.0, 20.0);
        assert!((1.0..1.6).contains(&(alone / shortest)), "{alone}");
    }
    let (outcome, _) = chain("TAP-16", 4, "");
    // The next hop was heard, too.
    let next = mean(&outcome, "next_service_s", 5.0, 20.0);
    assert!((0.8..2.0).contains(&(next / exchange)), "{next}");
}

/// In TAP-16 a node four hops ahead disturbs no more (Behaviour 12: H_cs is 3, and one hop beyond
/// it a packet is out of interference): over paths that long or longer the interval is that of four
/// to five packets' times, over one and two hops as much less.
#[test]
fn hops_that_interfere_are_learned() {
    let of = |hops| {
        let (outcome, _) = chain("TAP-16", hops, "");
        mean(&outcome, "hops", 10.0, 20.0)
    };
    let [one, two, four, six] = [1, 2, 4, 6].map(of);
    assert!((1.0..1.8).contains(&one), "{one}");
    assert!(two > 1.3 * one && two < 3.5, "{two} beside {one}");
    assert!((3.5..7.5).contains(&four), "{four}");
    assert!((3.5..8.5).contains(&six), "{six}");
    // In TB-B all who could disturb are sensed three hops away.
    let (outcome, _) = chain("TB-B", 6, "");
    let hops = mean(&outcome, "hops", 10.0, 20.0);
    assert!((2.0..5.0).contains(&hops), "{hops}");
}

/// Rate control leaves 6 Mb/s far behind where the signal is good.
#[test]
fn rate_control_shortens_the_interval() {
    let fixed = chain("TB-B", 3, "").0;
    let control = chain("TB-B", 3, "[radio]\nrate_control = \"minstrel\"\n").0;
    let interval = |o: &Outcome| mean(o, "interval_s", 10.0, 20.0);
    let (slow, fast) = (interval(&fixed), interval(&control));
    assert!(fast < 0.6 * slow, "{fast} beside {slow}");
    let goodput = |o: &Outcome| o.flows[0].goodput_bps;
    assert!(goodput(&control) > 1.5 * goodput(&fixed));
}

/// Two flows between the same ends: the second makes packets of the first wait.
#[test]
fn a_second_sender_makes_the_first_make_room() {
    let topology = "[topology]\nwords = \"linear,4\"\nset = \"TB-B\"\n";
    let first = flow("n1", "n4", "stop_at = \"45s\"");
    let second = flow("n4", "n1", "start = \"15s\"\nstop_at = \"30s\"");
    let (outcome, _) = run(&format!("{topology}{first}{second}"), 45);
    let interval = |from, to| mean(&outcome, "interval_s", from, to);
    let (alone, beside, after) = (
        interval(5.0, 15.0),
        interval(18.0, 30.0),
        interval(35.0, 45.0),
    );
    assert!(beside > 1.3 * alone, "{beside} beside {alone}");
    assert!(after < 1.2 * alone, "{after} after {alone}");
    let flows = &outcome.flows;
    assert!(flows[1].goodput_bps > 0.25 * flows[0].goodput_bps);
}
