//! ATP over simulated radios: every node collects its delay, the rate follows what comes back,
//! holes are repaired, and after silence the way is asked for anew.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use wifu_core::{Chain, Ground, Verbs};
use wifu_engine::Fact;
use wifu_node::{Catalog, Registry};
use wifu_sim::mesh::{Seen, Simulation, Tap};
use wifu_sim::outcome::{Outcome, Series};
use wifu_sim::scenario::Scenario;
use wifu_wire::pcapng::Direction;
use wifu_wire::{Head, Rng, Seq, Time, Wire, ipv4};

const SERIES: [&str; 14] = [
    "atp-rate.ds_us",
    "atp-rate.d_us",
    "atp-rate.raised",
    "atp-rate.lowered",
    "atp-rate.missed",
    "atp-rate.starts",
    "quick-start.asked",
    "quick-start.frozen",
    "holes.resent",
    "unserved",
    "peer.epochs.hops",
    "peer.epochs.holes",
    "peer.epochs.feedbacks",
    "peer.epochs.early",
];

/// A flow over a chain of so many hops, whose nodes idled for a second, and what is said besides.
fn run(protocol: &str, hops: u32, flow: &str, more: &str) -> Outcome {
    let nodes = hops + 1;
    let series = SERIES.map(|s| format!("\"flow.1.{s}\"")).join(", ");
    let text = format!(
        "[topology]\nwords = \"linear,{nodes},snr=20\"\nset = \"TB-W9\"\n\
         [record]\ninterval = \"1ms\"\nseries = [{series}]\n{more}\n\
         [[flow]]\nfrom = \"n1\"\nto = \"n{nodes}\"\nprotocol = \"{protocol}\"\n\
         start = \"1s\"\n{flow}\n"
    );
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut simulation = Simulation::new(&scenario, &registry()).unwrap_or_else(|e| panic!("{e}"));
    simulation.run();
    simulation.outcome()
}

fn file(bytes: &str) -> String {
    format!("app = \"file\"\nbytes = \"{bytes}\"")
}

const PATIENT: &str = "[radio]\nattempts = 7\n[stop]\ntime = \"120s\"\n";

#[track_caller]
fn delivered(outcome: &Outcome, bytes: u64) {
    let flow = &outcome.flows[0];
    assert!(flow.finished, "{flow:?}");
    assert_eq!((flow.bytes, flow.corrupt), (bytes, 0));
    // There are none of what ATP does not have, which is not the same as 0.
    let none = (flow.timeouts, flow.timeout_s, flow.cwnd);
    assert_eq!(none, (None, None, None));
    let told = serde_json::to_value(flow).expect("of numbers");
    let absent = ["timeouts", "timeout_s", "cwnd"];
    assert!(absent.iter().all(|key| told.get(key).is_none()), "{told}");
}

fn series<'a>(outcome: &'a Outcome, name: &str) -> &'a Series {
    let found = outcome.series.get(&format!("flow.1.{name}"));
    found.unwrap_or_else(|| panic!("{name}: {:?}", outcome.series.keys()))
}

fn last(outcome: &Outcome, name: &str) -> f64 {
    series(outcome, name).last().expect("it was recorded").1
}

/// What a series said last before a time.
fn at(series: &Series, time: f64) -> f64 {
    let i = series.partition_point(|p| p.0 <= time);
    series[i.saturating_sub(1)].1
}

/// How often feedback moved the interval from then on, each time as the rule says.
#[track_caller]
fn moves(d: &Series, ds: &Series, from: f64) -> usize {
    let mut moved = 0;
    for pair in ds
        .windows(2)
        .filter(|p| p[0].1 != 20_000.0 && p[0].0 >= from)
    {
        let [before, after, d] = [pair[0].1, pair[1].1, at(d, pair[1].0)];
        // Feedback that stayed away halves the rate.
        if before == after || after == 2.0 * before {
            continue;
        }
        moved += 1;
        let expected = if before > 1.1 * d {
            let (s, r) = (1.0 / before, 1.0 / d);
            1.0 / (s + 0.2 * (r - s))
        } else {
            d
        };
        assert!((after - expected).abs() < 1.0, "{before} to {after} by {d}");
    }
    moved
}

#[test]
fn each_node_collects_and_the_rate_follows_what_comes_back() {
    for hops in [1, 2, 4] {
        let outcome = run("atp", hops, &file("2M"), PATIENT);
        delivered(&outcome, 2_000_000);
        let flow = &outcome.flows[0];
        for node in &outcome.nodes[..hops as usize] {
            assert!(
                node.handlers[0].changed > 500,
                "{}: {:?}",
                node.name,
                node.handlers
            );
        }
        let counted = series(&outcome, "peer.epochs.hops").iter().map(|p| p.1);
        assert_eq!(counted.fold(0.0, f64::max), f64::from(hops));
        // An idle node says three times the time of a frame at 24 Mb/s (Behaviour 7.4).
        let ds = series(&outcome, "atp-rate.ds_us");
        let first = ds.iter().map(|p| p.1).find(|us| *us != 20_000.0);
        assert_eq!(first, Some(2_043.0), "{hops} hops");
        let paced = flow.limited_s.get("pace").copied().unwrap_or_default();
        assert!(
            paced > 0.8 * (flow.until_s - flow.start_s),
            "{hops} hops: {:?}",
            flow.limited_s
        );
        let moved = moves(series(&outcome, "atp-rate.d_us"), ds, 0.0);
        assert!(moved >= 1, "{hops} hops: {ds:?}");
    }
}

#[test]
fn what_radios_lose_is_reported_in_holes_and_goes_again() {
    let outcome = run(
        "atp",
        3,
        &file("1M"),
        "[radio]\nattempts = 2\n[stop]\ntime = \"600s\"\n",
    );
    delivered(&outcome, 1_000_000);
    let flow = &outcome.flows[0];
    assert!(flow.retransmissions >= 10, "{flow:?}");
    assert_eq!(last(&outcome, "holes.resent"), flow.retransmissions as f64);
    assert!(last(&outcome, "peer.epochs.holes") >= 5.0);
}

#[test]
fn a_path_that_is_cut_costs_two_halvings_and_a_question() {
    let cut = "[[event]]\nat = \"4s\"\ncut = [\"n2\", \"n3\"]\n\
               [[event]]\nat = \"14s\"\nrestore = [\"n2\", \"n3\"]\n";
    let outcome = run("atp", 2, &file("4M"), &format!("{PATIENT}{cut}"));
    delivered(&outcome, 4_000_000);
    // Half a second, one and a half, and three without feedback; the rest of the ten it asks.
    let asked = outcome.flows[0].limited_s["feedback"];
    println!("asked for {asked} s: {:?}", outcome.flows[0].limited_s);
    assert!((4.0..10.0).contains(&asked), "{asked}");
    assert_eq!(last(&outcome, "atp-rate.missed"), 3.0);
    assert_eq!(last(&outcome, "atp-rate.starts"), 2.0);
    let ds = series(&outcome, "atp-rate.ds_us");
    let (before, during) = (at(ds, 4.0), at(ds, 9.0));
    assert!(
        (during / before - 4.0).abs() < 0.01,
        "{before}, then {during}"
    );
    // The answer to the first probe that passes tells of a queue that waited ten seconds, and D_s
    // is at its bound; as that drains the rate comes back.
    let (answered, end) = (at(ds, 15.0), last(&outcome, "atp-rate.ds_us"));
    assert!(answered == 1e6 && end < 2.0 * before, "{answered}, {end}");
}

/// From n1 to n4 by n2 and n3, and by n5 to n8, over links that follow from who hears whom. Who is
/// two hops away is sensed.
fn two_ways() -> String {
    let (short, long) = ([1, 2, 3, 4], [1, 5, 6, 7, 8, 4]);
    let apart = |ways: &[u32], a: u32, b: u32| {
        let at = |n| ways.iter().position(|w| *w == n);
        at(a).zip(at(b)).map(|(a, b)| a.abs_diff(b))
    };
    let snr = |a: u32, b: u32| {
        let hops = [apart(&short, a, b), apart(&long, a, b)];
        match hops.into_iter().flatten().min() {
            Some(1) => "25",
            Some(2) => "6",
            _ => "-99",
        }
    };
    let row = |a| {
        let row: Vec<&str> = (1..=8)
            .map(|b| if a == b { "0" } else { snr(a, b) })
            .collect();
        format!("[{}]", row.join(", "))
    };
    let rows: Vec<String> = (1..=8).map(row).collect();
    format!(
        "[topology.matrix]\nsnr_db = [{}]\n[topology.radio]\nrate = \"24Mb/s\"\n\
         attempts = 7\n[routing]\nkind = \"shortest\"\n",
        rows.join(", ")
    )
}

/// A flow from n1 to n4 over such a network.
fn over(topology: &str, protocol: &str, flow: &str, more: &str) -> Simulation {
    let series = SERIES.map(|s| format!("\"flow.1.{s}\"")).join(", ");
    let text = format!(
        "{topology}[stop]\ntime = \"120s\"\n[record]\ninterval = \"1ms\"\n\
         series = [{series}]\n{more}\n[[flow]]\nfrom = \"n1\"\nto = \"n4\"\n\
         protocol = \"{protocol}\"\nstart = \"1s\"\n{flow}\n"
    );
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    Simulation::new(&scenario, &registry()).unwrap_or_else(|e| panic!("{e}"))
}

fn registry() -> Registry {
    Registry::new(wifu_parts::registry(), wifu_parts::library())
}

//= spec#18
// "path changes from 3 to 5 hops in mid-flow | N_h change, D adapts"
#[test]
fn a_path_that_grows_from_three_to_five_hops_is_counted_and_its_delay_followed() {
    // Routes follow at the next full second.
    let cut = "[[event]]\nat = \"5.9s\"\ncut = [\"n2\", \"n3\"]\n";
    for (protocol, starts) in [("atp", 1.0), ("atp,route_restart=on", 2.0)] {
        let mut simulation = over(&two_ways(), protocol, &file("6M"), cut);
        assert_eq!(simulation.route(0, 3), [0, 1, 2, 3]);
        simulation.run();
        assert_eq!(simulation.route(0, 3), [0, 4, 5, 6, 7, 3]);
        let outcome = simulation.outcome();
        delivered(&outcome, 6_000_000);
        let hops = series(&outcome, "peer.epochs.hops");
        let said: Vec<f64> = [5.8, 7.0].map(|t| at(hops, t)).into();
        assert_eq!(
            (said, last(&outcome, "peer.epochs.hops")),
            (vec![3.0, 5.0], 5.0)
        );
        assert_eq!(last(&outcome, "atp-rate.starts"), starts, "{protocol}");
        assert!(
            outcome.flows[0].retransmissions > 0,
            "what was on its way is lost"
        );
        // The new way is slower, and the interval follows what comes back.
        let (d, ds) = (
            series(&outcome, "atp-rate.d_us"),
            series(&outcome, "atp-rate.ds_us"),
        );
        let slowest = d.iter().filter(|p| p.0 > 7.0).map(|p| p.1);
        assert!(slowest.fold(0.0, f64::max) > 3.0 * at(d, 5.8), "{protocol}");
        // A question, where the route makes it ask, sets it at once.
        assert!(starts > 1.0 || moves(d, ds, 7.0) >= 5, "{protocol}");
    }
}

//= spec#18
// "intermediate node restarts": what its handlers knew is gone with what waited there. That a node
// without a sample says D0 is a test of `wifu-wire`.
#[test]
fn a_relay_that_restarts_loses_what_it_held_and_goes_on_collecting() {
    let mut off = String::new();
    for (at, what) in [("4s", "cut"), ("5s", "restore")] {
        for other in ["n1", "n3"] {
            off += &format!("[[event]]\nat = \"{at}\"\n{what} = [\"n2\", \"{other}\"]\n");
        }
    }
    let mut simulation = over(LINE, "atp", &file("4M"), &off);
    simulation.step_until(Time(4_500_000_000));
    let (registry, mut chain) = (registry(), Chain::new());
    let ground = Ground {
        kinds: registry.kinds(),
        can: Verbs::ALL,
        told: &Fact::ALL,
    };
    let protocol = registry.resolve("atp").unwrap();
    protocol.append(&mut chain, &Rng::new(1), ground).unwrap();
    simulation.set_chain(1, chain);
    simulation.run();
    let outcome = simulation.outcome();
    delivered(&outcome, 4_000_000);
    let [_, new, old, _] = [0, 1, 2, 3].map(|n| &outcome.nodes[n].handlers);
    assert!(new[0].packets > 500 && new[0].packets + 500 < old[0].packets);
    assert!(new[0].changed > 500, "{new:?}");
    assert_eq!(last(&outcome, "peer.epochs.hops"), 3.0);
    assert!(outcome.flows[0].retransmissions > 0 && outcome.flows[0].unserved == 0);
}

#[test]
fn a_path_shared_by_more_flows_slows_each_down() {
    let alone = run(
        "atp",
        2,
        "app = \"bulk\"",
        "[radio]\nattempts = 7\n[stop]\ntime = \"20s\"\n",
    );
    let second = "[[flow]]\nfrom = \"n1\"\nto = \"n3\"\nprotocol = \"atp\"\napp = \"bulk\"\n";
    let flow = format!("app = \"bulk\"\n{second}");
    let shared = run(
        "atp",
        2,
        &flow,
        "[radio]\nattempts = 7\n[stop]\ntime = \"20s\"\n",
    );
    let bytes = |o: &Outcome| o.flows[0].bytes;
    assert!(
        4 * bytes(&shared) < 3 * bytes(&alone),
        "{} {}",
        bytes(&shared),
        bytes(&alone)
    );
    assert!(
        shared
            .flows
            .iter()
            .all(|f| f.bytes > 100_000 && f.corrupt == 0)
    );
    assert!(shared.jain() > Some(0.7), "{:?}", shared.jain());
}

#[test]
fn a_relay_that_does_not_serve_is_named() {
    let outcome = run(
        "atp",
        4,
        &file("300k"),
        &format!("{PATIENT}[host]\nunserved = [\"n3\"]\n"),
    );
    delivered(&outcome, 300_000);
    assert!(outcome.flows[0].unserved > 100);
    assert_eq!(outcome.flows[0].unserved_at, ["n3"]);
    // Feedback is counted by nobody: the bit UNSERVED tells the sender.
    assert_eq!(last(&outcome, "unserved"), 1.0);
}

#[test]
fn the_same_scenario_is_the_same_run() {
    let text = |o: Outcome| o.to_json().to_string();
    let one = || run("atp", 3, &file("300k"), PATIENT);
    assert_eq!(text(one()), text(one()));
}

/// An idle path of 24 Mb/s: nodes say the time of a frame, and the sender takes 3 and half for each
/// further hop of it (Behaviour 8.2). What does not fit is told before the epoch is over.
#[test]
fn the_adaptive_form_multiplies_at_the_sender_and_is_told_early() {
    for (hops, first) in [(1, 3.0), (2, 3.5), (4, 4.5)] {
        let outcome = run("atp-adaptive", hops, &file("2M"), PATIENT);
        delivered(&outcome, 2_000_000);
        let ds = series(&outcome, "atp-rate.ds_us").iter().map(|p| p.1);
        let start = ds.into_iter().find(|us| *us != 20_000.0);
        assert_eq!(start, Some(681.0 * first), "{hops} hops");
        let [early, all] =
            ["early", "feedbacks"].map(|n| last(&outcome, &format!("peer.epochs.{n}")));
        assert!(early > 0.0 && early < all, "{hops} hops: {early} of {all}");
    }
}

#[test]
fn the_aggressive_form_reports_every_forty_milliseconds() {
    let outcome = run("atp-aggressive", 2, &file("2M"), PATIENT);
    delivered(&outcome, 2_000_000);
    let flow = &outcome.flows[0];
    let lasted = flow.until_s - flow.connected_s.unwrap_or_default();
    let reports = last(&outcome, "peer.epochs.feedbacks") / (lasted / 0.04);
    assert!((0.8..1.3).contains(&reports), "{reports} of one per epoch");
    assert_eq!(last(&outcome, "peer.epochs.early"), 0.0);
}

/// Little's law: one packet per delay is one packet at the slowest node, which is idle part of the
/// time; eight keep it busy, and small steps find the rate at which there are as many.
#[test]
fn eight_packets_per_delay_carry_more_over_a_clean_path() {
    let goodput = |protocol: &str| {
        let outcome = run(protocol, 3, &file("4M"), PATIENT);
        delivered(&outcome, 4_000_000);
        let (ds, d) = ["atp-rate.ds_us", "atp-rate.d_us"]
            .map(|name| at(series(&outcome, name), 4.0))
            .into();
        println!("{protocol}: an interval of {ds} us, a delay of {d} us");
        (outcome.flows[0].goodput_bps, d / ds)
    };
    let (one, eight) = (goodput("atp-adaptive"), goodput("atp-next"));
    assert!(eight.0 > 1.1 * one.0, "{one:?}, {eight:?}");
    assert!(one.1 < 2.0 && eight.1 > 2.0, "{one:?}, {eight:?}");
}

/// The thesis blames lost and clustered feedback on queues that treat it as data.
#[test]
fn feedback_may_go_before_data() {
    let more = format!("{PATIENT}[host]\nprio_feedback = true\n");
    let outcome = run("atp-aggressive", 3, &file("2M"), &more);
    delivered(&outcome, 2_000_000);
    let reports = last(&outcome, "peer.epochs.feedbacks");
    // At the receiver and at both relays, where data waits.
    for node in &outcome.nodes[1..] {
        assert!(node.first as f64 > 0.9 * reports, "{node:?} of {reports}");
    }
}

/// A changed hash is a changed simulation: published figures then belong to an older version. If
/// that is meant, put the new one here, and say so in the changelog.
#[test]
fn small_runs_have_the_hashes_of_the_record() {
    let golden = [
        ("atp", "7", "477fb884b75b222e"),
        ("atp", "2", "56e29a6ee5ed47b8"),
        ("atp-aggressive", "2", "0762b2a7b7d63954"),
        ("atp-adaptive", "2", "ce150ef2dca2c13e"),
        (
            "atp,rtx_guard=off,route_restart=on",
            "1",
            "b4446b1b1a210bdb",
        ),
    ];
    let mut wrong = Vec::new();
    for (protocol, attempts, hash) in golden {
        let more = format!("[radio]\nattempts = {attempts}\n[stop]\ntime = \"120s\"\n");
        let outcome = run(protocol, 3, &file("500k"), &more);
        assert!(outcome.flows[0].bytes > 100_000, "{protocol}");
        if outcome.trace_hash != hash {
            wrong.push(format!("{protocol}, {attempts}: {}", outcome.trace_hash));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What a node sent or got of ATP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Data,
    Probe,
    Answer,
    Feedback,
    Notice,
    Other,
}

/// When, at which node, whether it leaves, what it is.
type Log = Rc<RefCell<Vec<(f64, u16, bool, What)>>>;

/// Notes the packets of a flow from n1 to the last node, and looks at notices.
struct Look {
    log: Log,
    wire: Arc<dyn Wire>,
    last: u8,
}

impl Tap for Look {
    fn packet(&mut self, seen: &Seen<'_>) {
        let (ip, segment) = ipv4::parse(seen.bytes).expect("IPv4");
        let mut head = Head::default();
        let header = self.wire.parse(segment, &mut head).expect("ATP");
        let word = |name| head.get(self.wire.place(name).expect("a word").word);
        let what = match (word("feedback"), word("quick"), word("request")) {
            (1, 1, _) => What::Answer,
            (1, 0, _) => What::Feedback,
            _ if word("link_down") == 1 => What::Notice,
            (.., 1) => What::Probe,
            _ if header < segment.len() => What::Data,
            _ => What::Other,
        };
        if what == What::Notice {
            // As if the other end had sent it; no body, and nothing besides.
            let ends = [ip.src, ip.dst].map(|a| a.octets()[3]);
            assert_eq!((ends, segment.len()), ([self.last, 1], header));
            assert!(self.wire.verify(&ip.pseudo(), segment));
            assert_eq!(segment[10..12], [1, 0]);
            assert!(head.conn_id != 0 && head.seq != Seq(0) && head.ack.is_none());
        }
        let out = seen.direction == Direction::Out;
        let at = seen.at.as_secs_f64();
        self.log.borrow_mut().push((at, seen.node, out, what));
    }
}

/// Run it, its packets noted.
fn looked(mut simulation: Simulation, last: u8) -> (Outcome, Vec<(f64, u16, bool, What)>) {
    let log = Log::default();
    simulation.set_tap(Box::new(Look {
        log: Rc::clone(&log),
        wire: (wifu_wire::atp::WIRE.make)(),
        last,
    }));
    simulation.run();
    simulation.take_tap();
    (simulation.outcome(), log.take())
}

const LINE: &str = "[topology]\nwords = \"linear,4,snr=20\"\nset = \"TB-W9\"\n[radio]\n\
                    attempts = 7\n";

/// The link between two nodes is away from the fourth second on, for so long.
fn away(a: &str, b: &str, seconds: f64) -> String {
    format!(
        "[[event]]\nat = \"4s\"\ncut = [\"{a}\", \"{b}\"]\n\
         [[event]]\nat = \"{}s\"\nrestore = [\"{a}\", \"{b}\"]\n",
        4.0 + seconds
    )
}

//= spec#8.6
// "a node that [..] drops a packet of the connection at its last attempt, sends the connection's
// sender a notice [..]; the sender freezes (no data, probes as in PROBING) until a probe is
// answered"
#[test]
fn a_node_whose_link_is_gone_stops_the_sender_until_the_way_answers() {
    let cut = away("n3", "n4", 4.0);
    let simulation = over(LINE, "atp,elfn=on", &file("4M"), &cut);
    let (outcome, log) = looked(simulation, 4);
    delivered(&outcome, 4_000_000);
    let find = |node, out, what, from| {
        let mut found = log.iter().filter(move |l| l.0 >= from);
        found
            .find(|l| (l.1, l.2, l.3) == (node, out, what))
            .map(|l| l.0)
    };
    // Made where the link is gone, relayed by n2, and soon.
    let made = find(2, true, What::Notice, 0.0).expect("a notice");
    assert!(find(1, true, What::Notice, 0.0) > Some(made));
    let told = find(0, false, What::Notice, 0.0).expect("it arrived");
    assert!(4.0 < made && told < 4.5, "{made} {told}");
    let answered = find(0, false, What::Answer, told).expect("in the end");
    assert!(answered > 8.0, "{answered}");
    let between = |l: &&(f64, u16, bool, What)| l.0 >= told && l.0 < answered;
    let mut sent = log.iter().filter(between).filter(|l| l.1 == 0 && l.2);
    assert!(sent.all(|l| l.3 == What::Probe));
    let asked = log.iter().filter(between);
    let asked: Vec<f64> = asked
        .filter(|l| (l.1, l.2, l.3) == (0, true, What::Probe))
        .map(|l| l.0 - told)
        .collect();
    let near = |(asked, at): (&f64, &f64)| (asked - at).abs() < 0.1;
    assert_eq!(asked.len(), 4, "{asked:?}");
    assert!(
        asked.iter().zip(&[0.0, 1.0, 3.0, 7.0]).all(near),
        "{asked:?}"
    );
    // Meanwhile no feedback is missed; the answer sets the rate.
    let around = |name| [told - 0.01, answered + 0.01].map(|t| at(series(&outcome, name), t));
    let [before, after] = around("atp-rate.missed");
    assert_eq!(before, after, "missed");
    assert_eq!(around("atp-rate.starts"), [1.0, 2.0]);
    assert_eq!(last(&outcome, "quick-start.frozen"), 1.0);
    let counts = &outcome.nodes[2].handlers[1].counts;
    assert!(
        counts["failed"] >= 1 && counts["no_route"] == 0,
        "{counts:?}"
    );
}

/// Who waits for feedback that stays away sends into the gap for three epochs, and that is lost.
#[test]
fn a_sender_that_is_told_loses_less_at_a_cut_than_one_that_waits() {
    for base in ["atp", "atp-adaptive"] {
        for seconds in [1.0, 4.0, 10.0] {
            let lost = ["off", "on"].map(|elfn| {
                let (protocol, cut) = (format!("{base},elfn={elfn}"), away("n2", "n3", seconds));
                let mut simulation = over(LINE, &protocol, &file("4M"), &cut);
                simulation.run();
                let outcome = simulation.outcome();
                delivered(&outcome, 4_000_000);
                let frozen = last(&outcome, "quick-start.frozen");
                assert_eq!(frozen > 0.0, elfn == "on", "{protocol}");
                let flow = &outcome.flows[0];
                let (lost, until) = (flow.packets.link, flow.until_s);
                println!("{seconds} s, {protocol}: {lost} lost, done after {until:.1} s");
                lost
            });
            assert!(lost[1] > 0 && lost[0] > lost[1], "{seconds}: {lost:?}");
        }
    }
}

/// The sender's own node tells its end, and nothing is on the air.
#[test]
fn the_senders_own_node_tells_it_of_the_first_hop() {
    let cut = away("n1", "n2", 2.0);
    let (outcome, log) = looked(over(LINE, "atp-adaptive,elfn=on", &file("4M"), &cut), 4);
    delivered(&outcome, 4_000_000);
    assert!(log.iter().all(|l| l.3 != What::Notice));
    let data = |l: &&(f64, u16, bool, What)| (l.1, l.2, l.3) == (0, true, What::Data);
    let sent: Vec<f64> = log.iter().filter(data).map(|l| l.0).collect();
    assert!(
        sent.iter().any(|at| (3.9..4.1).contains(at)),
        "it was sending"
    );
    assert!(!sent.iter().any(|at| (4.2..6.0).contains(at)));
    assert!(last(&outcome, "quick-start.frozen") >= 1.0);
    assert!(outcome.nodes[0].handlers[1].counts["failed"] >= 1);
}

/// The destination walks out of reach, and comes back.
#[test]
fn a_node_that_walks_away_stops_the_sender_until_it_is_back() {
    let moves = "[topology.placement]\nkind = \"line\"\ncount = 4\nspacing_m = 25.0\n\
                 [topology.propagation]\nexponent = 4.0\n\
                 anchor = { snr_db = 22.0, distance_m = 25.0 }\n\
                 [radio]\nrate = \"24Mb/s\"\nattempts = 7\n\
                 [routing]\nkind = \"etx\"\n[[mobility]]\nkind = \"trace\"\n\
                 rows = [[4.0, \"n4\", 75.0, 0.0], [6.0, \"n4\", 75.0, 900.0], \
                 [12.0, \"n4\", 75.0, 900.0], [14.0, \"n4\", 75.0, 0.0]]\n";
    let simulation = over(moves, "atp,elfn=on", &file("6M"), "");
    assert_eq!(simulation.route(0, 3), [0, 1, 2, 3]);
    let (outcome, log) = looked(simulation, 4);
    delivered(&outcome, 6_000_000);
    assert!(log.iter().any(|l| l.1 == 0 && l.3 == What::Notice));
    let away = |l: &&(f64, u16, bool, What)| (7.5..12.0).contains(&l.0);
    let data = log
        .iter()
        .filter(away)
        .filter(|l| l.3 == What::Data)
        .count();
    assert_eq!(data, 0);
    assert!(last(&outcome, "quick-start.frozen") >= 1.0);
}

//= spec#8.6
// "a node that loses a route [..] sends the connection's sender a notice"
#[test]
fn a_node_that_has_no_route_any_more_says_so() {
    // Wires report nothing; routes follow at the full second.
    let wires = "topology.words = \"linear,4,wire=2Mb/s,delay=20ms\"\n\
                 [[event]]\nat = \"4.9s\"\ncut = [\"n3\", \"n4\"]\n\
                 [[event]]\nat = \"7.9s\"\nrestore = [\"n3\", \"n4\"]\n";
    let (outcome, log) = looked(over(wires, "atp,elfn=on", &file("1M"), ""), 4);
    delivered(&outcome, 1_000_000);
    let no_route = |n: usize| outcome.nodes[n].handlers[1].counts["no_route"];
    // Packets were on their way when the routes went, and the sender had more.
    assert!(no_route(0) + no_route(1) + no_route(2) >= 1);
    let data = |l: &&(f64, u16, bool, What)| (l.1, l.2, l.3) == (0, true, What::Data);
    let sent: Vec<f64> = log.iter().filter(data).map(|l| l.0).collect();
    assert!(
        sent.iter().any(|at| (4.8..5.0).contains(at)),
        "it was sending"
    );
    assert!(!sent.iter().any(|at| (5.2..8.0).contains(at)));
    assert_eq!(last(&outcome, "quick-start.frozen"), 1.0);
    assert_eq!(last(&outcome, "atp-rate.missed"), 0.0);
}

#[test]
fn who_has_it_off_is_sent_no_notice_and_both_in_one_network_are_refused() {
    let cut = away("n3", "n4", 2.0);
    let (outcome, log) = looked(over(LINE, "atp", &file("2M"), &cut), 4);
    delivered(&outcome, 2_000_000);
    assert!(log.iter().all(|l| l.3 != What::Notice));
    assert_eq!(outcome.nodes[2].handlers.len(), 1);
    let both = "[[flow]]\nfrom = \"n1\"\nto = \"n2\"\nprotocol = \"atp,elfn=on\"\n\
                app = \"file\"\nbytes = \"1k\"\n[[flow]]\nfrom = \"n2\"\nto = \"n3\"\n\
                protocol = \"atp\"\napp = \"file\"\nbytes = \"1k\"\n";
    let scenario = Scenario::from_toml(&format!("topology.words = \"linear,3\"\n{both}")).unwrap();
    let said = Simulation::new(&scenario, &registry())
        .err()
        .expect("refused");
    assert!(said.to_string().contains("not the same handlers"), "{said}");
}
