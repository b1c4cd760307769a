//! Series by name: numbers on the board and probes of parts.

use std::sync::Arc;
use wifu_engine::Blueprint;
use wifu_sim::Span;
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

const WIRED: &str = r#"
    [topology]
    words = "linear,2,wire=2Mb/s,delay=5ms,queue=50"
    [[flow]]
    from = "n1"
    to = "n2"
    protocol = "tcp-newreno,snd_buf=200000,rcv_wnd=50000"
    app = "stream"
    time = "2s"
    [[flow]]
    from = "n1"
    to = "n2"
    protocol = "udp"
    rate = "40k"
    size = 128
    stop_at = "3s"
    [stop]
    time = "60s"
    [record]
    series = ["flow.*.delay", "node.*.queue", "flow.1.last_rtt"]
    interval = "2ms"
"#;

fn sorted(values: &[f64], q: f64) -> f64 {
    let mut all = values.to_vec();
    all.sort_by(f64::total_cmp);
    all[((all.len() - 1) as f64 * q) as usize]
}

#[test]
fn delays_of_datagrams_are_recorded_and_told_as_percentiles() {
    let mut simulation = Simulation::new(&Scenario::from_toml(WIRED).unwrap(), &open).unwrap();
    simulation.run();
    let outcome = simulation.outcome();
    let probes = &outcome.flows[1];
    let delays: Vec<f64> = known(&outcome.series["flow.2.delay"]);
    let told = probes.one_way.expect("percentiles");
    assert_eq!(told.samples as usize, delays.len());
    assert_eq!(delays.len() as u64, probes.packets.delivered);
    for (q, found) in [(0.5, told.p50_s), (0.95, told.p95_s), (0.99, told.p99_s)] {
        let truth = sorted(&delays, q);
        assert!(
            (found / truth - 1.0).abs() < 1.0 / 16.0,
            "{q}: {found} {truth}"
        );
    }
    // 5 ms and its own time on an idle wire; behind a window of 50 kB 200 ms.
    let least = delays.iter().copied().fold(f64::MAX, f64::min);
    assert!((0.005..0.012).contains(&least), "{least}");
    assert!(told.p95_s > 0.15 && told.p95_s < 0.25, "{told:?}");
    // A connection has no such series, and what it tells is round-trip times.
    assert!(!outcome.series.contains_key("flow.1.delay") && outcome.flows[0].one_way.is_none());
    let trips = outcome.flows[0].rtt.expect("percentiles");
    let last = known(&outcome.series["flow.1.last_rtt"]);
    let (low, high) = (sorted(&last, 0.0), sorted(&last, 1.0));
    assert!(low <= trips.p50_s && trips.p50_s <= trips.p95_s && trips.p99_s <= high * 1.07);
    assert!(trips.samples > 100 && probes.rtt.is_none(), "{trips:?}");
    // The wire's queue is what they wait in.
    let queue = known(&outcome.series["node.n1.queue"]);
    assert!(queue.iter().any(|n| *n > 25.0) && queue.iter().all(|n| *n <= 51.0));
    let text = WIRED.replace("flow.*.delay", "flow.1.delay");
    let refused = Simulation::new(&Scenario::from_toml(&text).unwrap(), &open).err();
    assert!(refused.unwrap().to_string().contains("flow.1.delay"));
}

#[test]
fn what_a_send_buffer_holds_when_the_time_is_over_is_told() {
    let mut simulation = Simulation::new(&Scenario::from_toml(WIRED).unwrap(), &open).unwrap();
    simulation.run();
    let outcome = simulation.outcome();
    let late = outcome.flows[0]
        .outlasted
        .expect("a buffer of 200 kB at 2 Mb/s");
    assert_eq!(late.stop_s, 2.0);
    assert!((150_000..=210_000).contains(&late.bytes), "{late:?}");
    let expected = late.bytes as f64 * 8.0 / 2e6;
    assert!((late.seconds / expected - 1.0).abs() < 0.15, "{late:?}");
    assert_eq!(
        outcome.flows[0].last_byte_s.unwrap(),
        late.stop_s + late.seconds
    );
    assert!(
        outcome.flows[1].outlasted.is_none(),
        "datagrams have no buffer"
    );
    // What ends by its size has no time that anything could outlast.
    let text = WIRED.replace(
        "app = \"stream\"\n    time = \"2s\"",
        "app = \"file\"\n    bytes = \"100k\"",
    );
    let mut simulation = Simulation::new(&Scenario::from_toml(&text).unwrap(), &open).unwrap();
    simulation.run();
    assert!(simulation.outcome().flows[0].outlasted.is_none());
}

#[test]
fn a_stopped_flow_that_stalls_has_the_goodput_of_the_whole_run() {
    let text = WIRED.replace(
        "    [stop]\n",
        "    [[event]]\n    cut = [\"n1\", \"n2\"]\n    at = \"2300ms\"\n    [stop]\n",
    );
    let mut simulation = Simulation::new(&Scenario::from_toml(&text).unwrap(), &open).unwrap();
    simulation.run();
    let outcome = simulation.outcome();
    let flow = &outcome.flows[0];
    let late = flow.outlasted.expect("a full buffer");
    assert!(
        !flow.finished && flow.last_byte_s.unwrap() < 3.0,
        "{flow:?}"
    );
    assert!((50_000..late.bytes).contains(&late.never), "{late:?}");
    assert_eq!(flow.until_s, outcome.sim_seconds);
    let whole = flow.bytes as f64 * 8.0 / (outcome.sim_seconds - flow.start_s);
    assert!((flow.goodput_bps / whole - 1.0).abs() < 1e-9, "{flow:?}");
}

#[test]
fn who_has_no_window_or_no_timer_has_no_numbers_of_it() {
    let library = wifu_parts::library();
    let mut lacking = Vec::new();
    for name in library.protocols() {
        let blueprint = open(name).expect("a protocol of the library");
        let has = |quantity: &str| {
            let recordable = blueprint.recordable().iter().any(|r| r.name == quantity);
            let watched = blueprint.watched(quantity);
            assert_eq!(watched.is_ok(), recordable, "{name}: {quantity}");
            recordable
        };
        let (window, timer) = (has("cwnd"), has("timeouts"));
        assert_eq!((window, timer), (has("ssthresh"), has("backoff")), "{name}");
        assert_eq!(
            (timer, timer),
            (has("rto"), blueprint.times_out()),
            "{name}"
        );
        assert!(has("retransmits") && blueprint.finds_losses(), "{name}");
        if !(window && timer) {
            lacking.push((name.as_str(), window, timer));
        }
    }
    let none = |name| (name, false, false);
    let atp = ["atp", "atp-adaptive", "atp-aggressive", "atp-next"].map(none);
    let hxh = ["hxh", "hxh-next", "hxh-nolh", "hxh-ns2"].map(none);
    lacking.sort_unstable();
    assert_eq!(
        lacking,
        [
            &atp[..],
            &[("hop", false, true)],
            &hxh,
            &[("tp-alpha", false, true)]
        ]
        .concat()
    );
    let atp = open("atp").expect("a protocol of the library");
    let said = atp.watched("timeouts").expect_err("it has none");
    assert_eq!(
        said,
        "no part of atp has a retransmission timer, which timeouts is of"
    );
    let said = atp.watched("cwnd").expect_err("it has none");
    assert!(
        said.contains("no part of atp writes the facts `win`"),
        "{said}"
    );
}

#[test]
fn a_retransmitted_syn_stands_before_the_first_octet() {
    let text = "[topology]\nwords = \"linear,2\"\n[record]\nseries = true\n[stop]\ntime = \"8s\"\n\
                [[event]]\nat = 0\ncut = [\"n1\", \"n2\"]\n[[flow]]\nfrom = \"n1\"\nto = \"n2\"\n\
                protocol = \"tcp-newreno\"\n";
    let scenario = Scenario::from_toml(text).expect("a scenario");
    let mut simulation = Simulation::new(&scenario, &open).expect("all known");
    simulation.run();
    let sent = simulation.outcome().series["flow.1.sent"].clone();
    assert!(sent.len() > 1, "{sent:?}");
    assert!(sent.iter().all(|(_, at)| *at == -0.5), "{sent:?}");
}

#[test]
fn of_questions_and_answers_who_answers_is_the_sender() {
    // It has a window and retransmits; who asks sends a small segment now and then.
    let text = r#"
        [topology]
        words = "linear,4"
        set = "TB-A"
        [topology.radio]
        attempts = 2
        [[flow]]
        from = "n1"
        to = "n4"
        protocol = "tcp-newreno"
        app = "request"
        response = "30k"
        pause = "100ms"
        count = 40
        [stop]
        time = "60s"
        [record]
        series = ["all", "flow.1.peer.cwnd"]
        "#;
    let scenario = Scenario::from_toml(text).expect("a scenario");
    let mut simulation = Simulation::new(&scenario, &open).expect("all known");
    simulation.run();
    let outcome = simulation.outcome();
    let flow = &outcome.flows[0];
    let series = |name: &str| known(&outcome.series[&format!("flow.1.{name}")]);
    let sent = series("sent");
    let again = sent.iter().filter(|offset| **offset < 0.0).count() as u64;
    assert_eq!(
        (sent.len() as u64, again),
        (flow.data_segments, flow.retransmissions)
    );
    assert!(again > 10, "the other end has a few: {again}");
    let most = |name: &str| series(name).into_iter().fold(0.0, f64::max);
    assert!(most("cwnd") > 8000.0, "{}", most("cwnd"));
    assert!(most("peer.cwnd") < most("cwnd"));
    let last = series("srtt").last().copied().expect("samples");
    let told = flow.srtt_s.expect("of the same end");
    assert!((last - told).abs() < 0.3 * told, "{last} {told}");
}

/// The value that was written last at `at`.
fn shown(series: &Series, at: f64) -> Option<f64> {
    let before = series.iter().take_while(|p| p.0 <= at);
    before.last().map(|p| p.1)
}

/// The sender hears nothing of its timer.
#[test]
fn what_a_timeout_does_to_the_window_is_in_the_usual_series() {
    let over_a_chain = |record: &str| {
        let mut scenario = scenario("tcp-newreno", record);
        scenario.topology.words = Some("linear,7".into());
        scenario.flow.truncate(1);
        scenario.flow[0].to = "n7".into();
        let mut simulation = Simulation::new(&scenario, &open).expect("all known");
        simulation.run();
        simulation.outcome()
    };
    let usual = over_a_chain("series = true");
    let named = over_a_chain(r#"series = ["flow.1.cwnd"]"#);
    assert!(usual.flows[0].timeouts > Some(3), "{:?}", usual.flows[0]);
    let [usual, named] = [usual, named].map(|o| o.series["flow.1.cwnd"].clone());
    let mut compared = 0;
    // What lasts for three looks was to be seen.
    for three in named.windows(3) {
        let (first, last) = (three[0].1, three[2].1);
        if three[1].1 == first && first == last {
            assert_eq!(shown(&usual, three[2].0), Some(last), "{three:?}");
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}");
    // It is zero until there is a connection.
    let values = usual.iter().map(|p| p.1).filter(|v| *v > 0.0);
    let least = values.fold(f64::MAX, f64::min);
    assert_eq!(least, 1448.0, "one segment after a timeout");
}

/// A run that ends as nothing happens any more does so whatever is looked at.
#[test]
fn what_is_looked_at_keeps_no_run_going() {
    let lasted = |record: &str| {
        let text = format!(
            "topology.words = \"linear,2,wire=10M\"\nstop.packets = 100000\n[[flow]]\n\
             from = \"n1\"\nto = \"n2\"\nprotocol = \"tcp-newreno\"\napp = \"file\"\n\
             bytes = \"100k\"\n[record]\n{record}\n"
        );
        let scenario = Scenario::from_toml(&text).expect("a scenario");
        let mut simulation = Simulation::new(&scenario, &open).expect("all known");
        // As the command does, which shows how far it is.
        while !simulation.step_until(simulation.now() + Span::MILLI * 20) {}
        let outcome = simulation.outcome();
        (outcome.end, outcome.sim_seconds, outcome.trace_hash)
    };
    let bare = lasted("");
    assert!(bare.1 < 100.0, "{bare:?}");
    for record in [
        "cwnd = true\ninterval = \"50ms\"",
        "series = true",
        "series = [\"flow.1.cwnd\"]",
    ] {
        assert_eq!(lasted(record), bare, "{record}");
    }
}
