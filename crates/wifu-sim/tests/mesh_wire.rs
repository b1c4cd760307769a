//! The mesh simulator over wires: what a single flow gets, how several share, and that every
//! packet is accounted for.

use std::cell::Cell;
use std::sync::Arc;
use wifu_engine::descriptor::BuildError;
use wifu_engine::{Blueprint, Component, Descriptor};
use wifu_sim::Span;
use wifu_sim::mesh::{EndReason, Simulation};
use wifu_sim::outcome::{FlowOutcome, Outcome};
use wifu_sim::scenario::{FlowSpec, Scenario};
use wifu_sim::traffic::{App, draws};
use wifu_wire::Rng;

fn open(spec: &str) -> Result<Arc<Blueprint>, String> {
    wifu_parts::blueprint(spec).map_err(|e| e.to_string())
}

fn simulation(text: &str) -> Simulation {
    let scenario = Scenario::from_toml(text).unwrap_or_else(|e| panic!("{e}"));
    Simulation::new(&scenario, &open).unwrap_or_else(|e| panic!("{e}"))
}

fn run(text: &str) -> Outcome {
    let mut simulation = simulation(text);
    simulation.run();
    let outcome = simulation.outcome();
    sound(&outcome);
    outcome
}

/// What holds for every run: no octet was changed, no packet is unaccounted for.
fn sound(outcome: &Outcome) {
    for flow in &outcome.flows {
        assert_eq!(flow.corrupt, 0, "flow {}", flow.id);
        let p = flow.packets;
        let known = p.delivered + p.queue + p.link + p.wire + p.route + p.hop + p.inside;
        assert_eq!(p.sent, known, "flow {}: {p:?}", flow.id);
    }
}

/// Two nodes and a wire of X-W3 (38 octets of overhead per frame).
fn wire(rate: &str, flows: &str) -> String {
    format!(
        "[[topology.node]]\nname = \"a\"\nwired_only = true\n\
         [[topology.node]]\nname = \"b\"\nwired_only = true\n\
         [[topology.wire]]\na = \"a\"\nb = \"b\"\nrate = \"{rate}\"\ndelay = \"50us\"\n{flows}"
    )
}

fn file(protocol: &str, bytes: &str, start: &str) -> String {
    format!(
        "[[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"{protocol}\"\napp = \"file\"\n\
         bytes = \"{bytes}\"\nstart = \"{start}\"\njitter = \"5ms\"\n"
    )
}

/// X-W3: the published goodput of one flow over Ethernet is the segment's share of the frame:
/// 1448 of 1538 octets (W Table III: 9.416 and 94.14 Mb/s).
#[test]
fn one_flow_fills_a_wire() {
    for (rate, bytes, published) in [("10Mb/s", "10M", 9.416e6), ("100Mb/s", "100M", 94.14e6)] {
        let outcome = run(&wire(
            rate,
            &file("tcp-newreno,profile=rfc-modern", bytes, "0s"),
        ));
        let flow = &outcome.flows[0];
        assert!(flow.finished && outcome.end == "done");
        let ratio = flow.goodput_bps / published;
        assert!(
            (ratio - 1.0).abs() < 0.01,
            "{rate}: {} b/s",
            flow.goodput_bps
        );
    }
}

/// X-W4: flows that share a wire share it fairly.
#[test]
fn flows_share_a_wire() {
    for n in [2, 5, 10] {
        let flows: String = (0..n)
            .map(|_| file("tcp-newreno,profile=wifu-tahoe", "10M", "0s"))
            .collect();
        let outcome = run(&wire("100Mb/s", &flows));
        assert!(outcome.flows.iter().all(|f| f.finished));
        assert!(
            outcome.jain() > Some(0.9),
            "{n} flows: {:?}",
            outcome.jain()
        );
        let sum: u64 = outcome.flows.iter().map(|f| f.bytes).sum();
        assert_eq!(sum, n * 10_000_000);
    }
}

#[test]
fn every_protocol_delivers_over_hops_that_lose_nothing() {
    let library = wifu_parts::library();
    for protocol in library.protocols() {
        let nodes: String = (1..=4)
            .map(|i| format!("[[topology.node]]\nname = \"n{i}\"\nwired_only = true\n"))
            .collect();
        let wires: String = (1..4)
            .map(|i| {
                let next = i + 1;
                format!(
                    "[[topology.wire]]\na = \"n{i}\"\nb = \"n{next}\"\nrate = \"10Mb/s\"\n\
                     delay = \"1ms\"\nqueue = 20\n"
                )
            })
            .collect();
        let flow = format!(
            "[[flow]]\nfrom = \"n1\"\nto = \"n4\"\nprotocol = \"{protocol}\"\napp = \"file\"\n\
             bytes = \"3M\"\n"
        );
        let outcome = run(&format!("{nodes}{wires}{flow}"));
        let flow = &outcome.flows[0];
        assert!(flow.finished, "{protocol}: {:?}", flow.fault);
        assert_eq!((flow.bytes, flow.hops), (3_000_000, 3));
        assert_eq!(outcome.hops.len(), 6, "three hops each way");
        assert!(flow.known_s > flow.last_byte_s);
        assert_eq!(outcome.nodes[1].forwarded, outcome.nodes[2].forwarded);
    }
}

#[test]
fn datagrams_at_a_rate_and_at_full_load() {
    let udp = "[[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"udp\"\n";
    let paced = run(&wire(
        "10Mb/s",
        &format!("{udp}rate = \"2Mb/s\"\ntime = \"10s\"\n"),
    ));
    let flow = &paced.flows[0];
    assert!(
        (flow.goodput_bps / 2e6 - 1.0).abs() < 0.01,
        "{}",
        flow.goodput_bps
    );
    assert_eq!(flow.packets.sent, flow.packets.delivered);
    assert_eq!(flow.sent_bytes, flow.bytes);
    assert_eq!(flow.jitter_s, Some(0.0), "all wait equally long");
    let full = run(&wire("10Mb/s", &format!("{udp}[stop]\ntime = \"10s\"\n")));
    // 1472 of 1538 octets.
    let ratio = full.flows[0].goodput_bps / (10e6 * 1472.0 / 1538.0);
    assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
    assert_eq!(full.flows[0].packets.queue, 0, "it asks for room");
    let over = run(&wire(
        "10Mb/s",
        &format!("{udp}rate = \"20Mb/s\"\ntime = \"5s\"\n"),
    ));
    let flow = &over.flows[0];
    assert!(flow.packets.queue > 3_000 && !flow.finished);
    assert_eq!(flow.sent_bytes, flow.packets.sent * 1472);
    assert_eq!(flow.bytes, flow.packets.delivered * 1472);
}

#[test]
fn datagrams_carry_exactly_the_octets_that_were_asked_for() {
    let udp = "[[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"udp\"\n";
    for rate in ["", "rate = \"1Mb/s\"\n"] {
        for bytes in [
            1,
            5,
            7,
            8,
            9,
            1472,
            1473,
            1477,
            1480,
            3 * 1472,
            3 * 1472 + 2,
        ] {
            let outcome = run(&wire("10Mb/s", &format!("{udp}{rate}bytes = {bytes}\n")));
            let flow = &outcome.flows[0];
            assert!(flow.finished, "{bytes}");
            assert_eq!((flow.bytes, flow.sent_bytes), (bytes, bytes));
            assert_eq!(flow.packets.sent, bytes.div_ceil(1472), "{bytes}");
        }
    }
}

/// The octets of `request` are those of the answers, and so are its counters.
#[test]
fn of_answers_the_side_that_sends_them_is_counted() {
    let text = wire("10Mb/s", "").replace("delay = \"50us\"", "delay = \"50us\"\nloss = 0.02");
    let asks = "[[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"tcp-newreno\"\n\
                app = \"request\"\nrequest = 100\nresponse = \"200k\"\ncount = 10\n";
    let flow = &run(&format!("{text}{asks}")).flows[0];
    assert!(flow.finished && flow.bytes == 2_000_000, "{flow:?}");
    // 1448 octets a segment: 2 MB are 1382 of them, some 28 of which are lost and sent again.
    assert!((1382..1500).contains(&flow.data_segments), "{flow:?}");
    assert!(
        flow.retransmissions >= 10 && flow.fast_retransmits > Some(0),
        "{flow:?}"
    );
    assert!(flow.sent_bytes >= 2_000_000, "{flow:?}");
    assert!(flow.rtt.is_some_and(|r| r.p50_s > 0.0), "{flow:?}");
    // The window of who asks never grows beyond a question.
    assert!(flow.cwnd > Some(2 * 1448), "{flow:?}");
    let limited: f64 = flow.limited_s.values().sum();
    assert!(limited > 0.5 * flow.until_s, "{flow:?}");
    // Who asks acknowledges, and sends the ten questions.
    assert!((10..1382).contains(&flow.feedback_segments), "{flow:?}");
}

#[test]
fn what_was_sent_counts_losses_and_no_repetitions() {
    let lossy = |flows: &str| {
        let text = wire("10Mb/s", flows);
        run(&text.replace("delay = \"50us\"", "delay = \"50us\"\nloss = 0.02"))
    };
    let outcome = lossy(&file("tcp-newreno", "1M", "0s"));
    let flow = &outcome.flows[0];
    assert!(flow.retransmissions > 3 && flow.finished);
    assert_eq!((flow.bytes, flow.sent_bytes), (1_000_000, 1_000_000));
    let udp = "[[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"udp\"\n";
    let outcome = lossy(&format!("{udp}rate = \"2Mb/s\"\nbytes = \"1M\"\n"));
    let flow = &outcome.flows[0];
    let lost = flow.packets.wire;
    assert!(lost > 3 && flow.sent_bytes == 1_000_000, "{lost}");
    assert!(flow.bytes >= 1_000_000 - lost * 1472 && flow.bytes < 1_000_000);
}

#[test]
fn applications_do_what_they_are_asked_to() {
    let app = |app: &str| {
        format!(
            "[[flow]]\nfrom = \"a\"\nto = \"b\"\n\
             protocol = \"tcp-newreno,profile=wifu-tahoe\"\n{app}\n"
        )
    };
    let stream = run(&wire("10Mb/s", &app("app = \"stream\"\ntime = \"5s\"")));
    let flow = &stream.flows[0];
    assert!(flow.finished && (5.0..5.5).contains(&stream.sim_seconds));
    assert!(
        (8.5e6..9.6e6).contains(&flow.goodput_bps),
        "{}",
        flow.goodput_bps
    );
    let http = run(&wire(
        "10Mb/s",
        &app("app = \"http\"\npause = \"0.1s\"\ncount = 200"),
    ));
    let flow = &http.flows[0];
    assert_eq!((flow.requests.len(), flow.connections), (200, 200));
    assert_eq!(
        flow.bytes,
        flow.requests.iter().map(|r| r.bytes).sum::<u64>()
    );
    assert!(
        flow.requests
            .iter()
            .all(|r| r.delay_s > 0.0 && r.bytes >= 10_000)
    );
    let one = run(&wire(
        "10Mb/s",
        &app("app = \"http\"\npause = \"0.1s\"\ncount = 200\npersistent = true"),
    ));
    let (each, flow) = (flow, &one.flows[0]);
    assert_eq!((flow.requests.len(), flow.connections), (200, 1));
    assert!(flow.finished && one.end == "done");
    let sizes = |f: &FlowOutcome| f.requests.iter().map(|r| r.bytes).collect::<Vec<_>>();
    assert_eq!(sizes(flow), sizes(each), "the same files");
    assert_eq!(flow.bytes, sizes(flow).iter().sum::<u64>());
    // Without handshakes, which on this wire is little, and the window is what others have left.
    let delays = |f: &FlowOutcome| f.requests.iter().map(|r| r.delay_s).sum::<f64>();
    let (less, more) = (delays(flow), delays(each));
    assert!(less < more, "{less} {more}");
    let request = run(&wire(
        "10Mb/s",
        &app("app = \"request\"\nrequest = 300\nresponse = \"20k\"\ncount = 50\npause = \"10ms\""),
    ));
    let flow = &request.flows[0];
    assert_eq!(
        (flow.requests.len(), flow.bytes, flow.connections),
        (50, 1_000_000, 1)
    );
    let onoff = run(&wire(
        "10Mb/s",
        &app("app = \"onoff\"\nrate = \"1Mb/s\"\non = \"1s\"\noff = \"1s\"\ntime = \"200s\""),
    ));
    let flow = &onoff.flows[0];
    assert!(
        flow.finished && (0.4e6..0.6e6).contains(&flow.goodput_bps),
        "{}",
        flow.goodput_bps
    );
    let trace = run(&wire(
        "10Mb/s",
        &app("app = \"trace\"\nrows = [[0.0, 1000], [2.0, 5000], [2.0, 1], [3.5, 4000]]"),
    ));
    let flow = &trace.flows[0];
    assert!(flow.finished && flow.bytes == 10_001);
    assert!((3.5..3.6).contains(&flow.last_byte_s.unwrap()));
    let stopped = run(&wire("10Mb/s", &app("stop_at = \"2s\"")));
    assert!(stopped.flows[0].finished && stopped.end == "done");
}

/// The file under way is completed, or the connection that waits for the next one closes.
#[test]
fn a_persistent_connection_closes_when_its_flow_stops() {
    for pause in ["10ms", "20s"] {
        let flow = format!(
            "[[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"tcp-newreno\"\napp = \"http\"\n\
             pause = \"{pause}\"\npersistent = true\nstop_at = \"1s\"\n"
        );
        let outcome = run(&wire("10Mb/s", &flow));
        let (flow, end) = (&outcome.flows[0], outcome.sim_seconds);
        assert!(flow.finished && outcome.end == "done", "{flow:?}");
        assert!((1.0..1.5).contains(&end), "{end}");
        let whole: u64 = flow.requests.iter().map(|r| r.bytes).sum();
        assert_eq!((flow.bytes, flow.connections), (whole, 1));
    }
}

/// A connection whose peer is away for long fails; the next file has one of its own.
#[test]
fn a_persistent_connection_that_fails_is_opened_again() {
    let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\napp = \"http\"\npause = \"10ms\"\n\
                protocol = \"tcp-newreno,user_timeout=5s\"\npersistent = true\n\
                [[event]]\nat = \"2s\"\ncut = [\"a\", \"b\"]\n\
                [[event]]\nat = \"22s\"\nrestore = [\"a\", \"b\"]\n\
                [stop]\ntime = \"60s\"\n";
    let outcome = run(&wire("10Mb/s", flow));
    let flow = &outcome.flows[0];
    assert!(flow.connections > 1 && flow.fault.is_some(), "{flow:?}");
    let late = flow.requests.iter().filter(|r| r.start_s > 22.0).count();
    assert!(late > 100, "{late}");
    // They took the files that they carried with them, which nobody asks for again.
    let failed = &flow.requests_failed;
    let last = flow.requests.iter().rfind(|r| r.start_s < 2.0);
    let before = last.map(|r| r.start_s + r.delay_s).expect("some came");
    assert!((2..6).contains(&failed.len()), "{failed:?}");
    assert!(
        failed.iter().all(|r| (before..22.0).contains(&r.start_s)
            && r.bytes >= 10_000
            && (4.9..5.1).contains(&r.failed_s)),
        "{failed:?}"
    );
    let told = &outcome.to_json()["flows"][0]["requests_failed"];
    assert_eq!(told[0]["failed_s"], failed[0].failed_s);
}

/// Each has a connection of its own, which gives up while nobody is there.
#[test]
fn files_whose_connections_fail_are_counted() {
    let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\napp = \"http\"\npause = \"10ms\"\n\
                protocol = \"tcp-newreno,syn_tries=1,data_tries=2\"\n\
                [[event]]\nat = \"2s\"\ncut = [\"a\", \"b\"]\n\
                [[event]]\nat = \"22s\"\nrestore = [\"a\", \"b\"]\n[stop]\ntime = \"40s\"\n";
    let outcome = run(&wire("10Mb/s", flow));
    let got = &outcome.flows[0];
    let (done, failed) = (&got.requests, &got.requests_failed);
    assert!(failed.len() > 2 && done.len() > 100, "{failed:?}");
    let open = usize::from(got.under_way_s.is_some());
    assert_eq!(
        got.connections as usize,
        done.len() + failed.len() + open,
        "{failed:?}"
    );
    let (before, _) = flow.split_once("[[event]]").expect("the link is cut");
    let whole = run(&wire("10Mb/s", &format!("{before}[stop]\ntime = \"4s\"\n")));
    assert!(whole.flows[0].requests_failed.is_empty());
    assert!(whole.to_json()["flows"][0].get("requests_failed").is_none());
}

/// Who waits on a connection that many files share is told apart from who pauses.
#[test]
fn the_file_that_the_end_of_a_run_cuts_off_is_told_with_when_it_began() {
    let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\napp = \"http\"\npause = \"10ms\"\n\
                protocol = \"tcp-newreno\"\npersistent = true\n\
                [[event]]\nat = \"2s\"\ncut = [\"a\", \"b\"]\n[stop]\ntime = \"5s\"\n";
    let outcome = run(&wire("10Mb/s", flow));
    let flow = &outcome.flows[0];
    let last = flow.requests.last().expect("some came");
    let since = flow.under_way_s.expect("the link is cut for good");
    assert!(
        since >= last.start_s + last.delay_s && (1.5..2.5).contains(&since),
        "{since}"
    );
    assert_eq!(outcome.to_json()["flows"][0]["under_way_s"], since);
    let three = "[[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"tcp-newreno\"\n\
                 app = \"http\"\npause = \"1ms\"\ncount = 3\n";
    let done = run(&wire("10Mb/s", three));
    assert_eq!(done.flows[0].under_way_s, None);
    assert!(done.to_json()["flows"][0]["under_way_s"].is_null());
}

thread_local! {
    /// So many parts refuse to be built, from the next on, in this thread's test.
    static REFUSALS: Cell<u32> = const { Cell::new(0) };
}

static FICKLE: Descriptor = Descriptor {
    name: "fickle",
    build: |_| match REFUSALS.get() {
        0 => Ok(Box::new(Fickle)),
        n => {
            REFUSALS.set(n - 1);
            Err(BuildError(String::from("not now")))
        }
    },
    ..Descriptor::EMPTY
};

struct Fickle;

impl Component for Fickle {}

#[test]
fn files_go_on_after_connections_that_cannot_be_opened() {
    let text = "[[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"tcp-newreno,watch.add=fickle\"\n\
                app = \"http\"\npause = \"10ms\"\ncount = 3\n";
    let scenario = Scenario::from_toml(&wire("10Mb/s", text)).unwrap();
    let own = |spec: &str| {
        let parts = wifu_parts::registry().with(&[&FICKLE]);
        let made = wifu_parts::library().resolve(spec, &parts);
        made.map_err(|e| e.to_string())
    };
    let mut simulation = Simulation::new(&scenario, &own).unwrap_or_else(|e| panic!("{e}"));
    REFUSALS.set(2);
    simulation.run();
    let outcome = simulation.outcome();
    let flow = &outcome.flows[0];
    assert!(
        flow.fault.as_ref().is_some_and(|f| f.contains("not now")),
        "{flow:?}"
    );
    assert_eq!((flow.connections, flow.requests.len()), (3, 3));
    assert!(flow.finished && outcome.end == "done", "{}", outcome.end);
}

#[test]
fn a_run_ends_once_every_flow_has_so_many_files() {
    let flow = |pause: &str| {
        format!(
            "[[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"tcp-newreno\"\napp = \"http\"\n\
             pause = \"{pause}\"\npersistent = true\n"
        )
    };
    let both = flow("10ms") + &flow("1s");
    let with = |stop: &str| wire("10Mb/s", &format!("{both}[stop]\n{stop}\n"));
    let outcome = run(&with("requests = 30"));
    assert_eq!(outcome.end, "requests");
    let [quick, slow] = &outcome.flows[..] else {
        panic!("two flows")
    };
    assert_eq!((quick.requests.len(), slow.requests.len()), (30, 30));
    // The quick one went on meanwhile, and nothing of that is written down.
    let whole = |f: &FlowOutcome| f.requests.iter().map(|r| r.bytes).sum::<u64>();
    assert!(quick.bytes > 3 * whole(quick), "{quick:?}");
    assert_eq!((quick.under_way_s, slow.under_way_s), (None, None));
    assert_eq!(slow.bytes, whole(slow));
    let last = slow.requests.last().unwrap();
    assert!((last.start_s + last.delay_s - outcome.sim_seconds).abs() < 1e-6);
    let timed = run(&with("requests = 30\ntime = \"3s\""));
    assert!(timed.end == "time" && timed.flows[1].requests.len() < 30);
    let finite = with("requests = 3").replacen("persistent", "count = 9\npersistent", 1);
    let stopped = with("requests = 3").replacen("persistent", "stop_at = 9\npersistent", 1);
    let file =
        "[[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"tcp-reno\"\n[stop]\nrequests = 3\n";
    for (text, what) in [
        (with("requests = 0"), "stop.requests: must be at least 1"),
        (
            with("requests = 3\npackets = 4"),
            "stop.requests: `stop.packets`",
        ),
        (finite, "count: with `stop.requests`"),
        (stopped, "stop_at: with `stop.requests`"),
        (wire("10Mb/s", file), "stop.requests: counts files"),
    ] {
        let error = Scenario::from_toml(&text).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}

/// The other flow goes on over a link that is there again.
#[test]
fn nobody_waits_for_the_answers_of_a_dialogue_that_died() {
    let flow = |app: &str, timeout: &str| {
        format!(
            "[[flow]]\nfrom = \"a\"\nto = \"b\"\napp = \"{app}\"\npause = \"100ms\"\n\
             protocol = \"tcp-newreno,user_timeout={timeout}\"\n"
        )
    };
    let cut = "[[event]]\nat = \"2s\"\ncut = [\"a\", \"b\"]\n\
               [[event]]\nat = \"8s\"\nrestore = [\"a\", \"b\"]\n[stop]\nrequests = 50\n";
    let outcome = run(&wire(
        "10Mb/s",
        &(flow("request", "3s") + &flow("http", "60s") + cut),
    ));
    let [dead, goes_on] = &outcome.flows[..] else {
        panic!("two flows")
    };
    assert!(dead.fault.is_some() && dead.requests.len() < 50, "{dead:?}");
    // The link is cut at 2 s; what was sent about then is given up after 3 s.
    let failed = dead.fault_s.expect("one that failed says when");
    assert!((4.9..5.6).contains(&failed), "{failed}");
    assert_eq!(goes_on.fault_s, None);
    assert_eq!(goes_on.requests.len(), 50);
    assert_eq!(outcome.end, "requests");
    let last = goes_on.requests.last().unwrap();
    assert!((last.start_s + last.delay_s - outcome.sim_seconds).abs() < 1e-6);
    // Alone it ends the run when it dies.
    let alone = run(&wire("10Mb/s", &(flow("request", "3s") + cut)));
    assert!(
        alone.end == "requests" && alone.sim_seconds < 10.0,
        "{alone:?}"
    );
}

/// A sender that stops with a full buffer: what comes later counts for the time until it came.
#[test]
fn a_stopped_flow_has_the_goodput_of_all_the_time_in_which_octets_came() {
    let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"tcp-newreno\"\n\
                app = \"bulk\"\nstop_at = \"2s\"\n[stop]\ntime = \"3s\"\n";
    let outcome = run(&wire("1Mb/s", flow));
    let flow = &outcome.flows[0];
    assert!(!flow.finished && flow.last_byte_s > Some(2.5), "{flow:?}");
    assert!((0.8e6..1e6).contains(&flow.goodput_bps), "{flow:?}");
}

#[test]
fn what_is_random_of_flows_can_be_known_without_running_them() {
    let app = |keys: &str| {
        format!("[[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"tcp-newreno\"\n{keys}\n")
    };
    let http = app("app = \"http\"\npause = \"0.1s\"\ncount = 20\njitter = \"50ms\"");
    let file = app("app = \"file\"\nbytes = 1000\njitter = \"1s\"");
    let text = format!("seed = 5\nrun = 2\n{}", wire("10Mb/s", &(http + &file)));
    let drawn = draws(&Scenario::from_toml(&text).unwrap(), &["a", "b"]).unwrap();
    let found = run(&text);
    let spec = FlowSpec::application("http,pause=0.1s,count=20").unwrap();
    let mut alone = App::new(&spec, &Rng::from_state(drawn[0].stream.state()));
    let (mut now, mut expected) = (drawn[0].start, Vec::new());
    alone.begin(now);
    for request in &found.flows[0].requests {
        let bytes = alone.step(now).expects.unwrap();
        expected.push((bytes, now.as_secs_f64()));
        let complete = now + Span((request.delay_s * 1e9).round() as u64);
        now = alone.completed(complete, false).unwrap_or(now);
    }
    assert_eq!(expected.len(), 20);
    for (request, (bytes, start)) in found.flows[0].requests.iter().zip(expected) {
        assert_eq!(request.bytes, bytes);
        assert!(
            (request.start_s - start).abs() < 1e-6,
            "{request:?} {start}"
        );
    }
    for (flow, drawn) in found.flows.iter().zip(&drawn) {
        assert!((flow.start_s - drawn.start.as_secs_f64()).abs() < 1e-9);
    }
    assert!(found.flows[1].start_s > 0.0);
    let unknown = draws(&Scenario::from_toml(&text).unwrap(), &["a"]);
    assert!(unknown.unwrap_err().to_string().contains("flow.1.to"));
}

#[test]
fn applications_in_words_are_those_of_scenarios() {
    let spec = FlowSpec::application("onoff, rate=1Mb/s, on=500ms, off=2").unwrap();
    assert_eq!(spec.on.unwrap().0, Span::MILLI * 500);
    assert_eq!(spec.off.unwrap().0, Span::SECOND * 2);
    let trace = FlowSpec::application("trace,rows=0:1000+2.5:200").unwrap();
    assert_eq!(trace.rows.unwrap(), [(0.0, 1000), (2.5, 200)]);
    for (words, says) in [
        ("htp,pause=1s", "did you mean `http`"),
        ("http,pase=1s", "did you mean `pause`"),
        ("http", "needs `pause`"),
        ("http,pause", "KEY=VALUE"),
        ("request,request=0", "greater than 0"),
        ("onoff,rate=1M,on=1s,off=1s,shape=2", "does not use it"),
        ("trace,rows=1:2+x", "SECONDS:OCTETS"),
        ("http,pause=1s,start=3", "unknown key"),
    ] {
        let error = FlowSpec::application(words).unwrap_err().to_string();
        assert!(error.contains(says), "{words}: {error}");
    }
}

#[test]
fn batches_end_a_run() {
    let bulk = "[[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"tcp-newreno\"\n";
    let text = wire(
        "10Mb/s",
        &format!("{bulk}{bulk}[stop]\npackets = 5500\nbatch = 500\n"),
    );
    let mut simulation = simulation(&text);
    assert_eq!(simulation.run(), EndReason::Packets);
    let outcome = simulation.outcome();
    assert_eq!(outcome.batches_end_s.len(), 11);
    let flows = &outcome.flows;
    assert!(flows.iter().all(|f| f.batches.len() == 11));
    for batch in 1..11 {
        let octets: u64 = flows.iter().map(|f| f.batches[batch]).sum();
        // Counted per flow in whole segments.
        assert!((octets / 1448).abs_diff(500) <= 8, "{octets}");
    }
}

#[test]
fn it_says_what_is_wrong() {
    let error = |text: &str| {
        let scenario = Scenario::from_toml(text).unwrap();
        match Simulation::new(&scenario, &open) {
            Err(e) => e.to_string(),
            Ok(_) => panic!("accepted: {text}"),
        }
    };
    let flow = |from: &str, protocol: &str| {
        format!("[[flow]]\nfrom = \"{from}\"\nto = \"b\"\nprotocol = \"{protocol}\"\n")
    };
    let to_itself = error(&wire("1Mb/s", &flow("b", "udp")));
    assert_eq!(to_itself, "flow.1.to: a flow ends where it begins");
    let nowhere = error(&wire("1Mb/s", &flow("aa", "udp")));
    assert_eq!(
        nowhere,
        "flow.1.from: no node `aa`; did you mean `a`? There are 2, from a to b"
    );
    let unknown = error(&wire("1Mb/s", &flow("a", "tcp-newrono")));
    assert!(unknown.starts_with("flow.1.protocol: ") && unknown.contains("tcp-newreno"));
    let endless = error(&wire("1Mb/s", &flow("a", "tcp-newreno")));
    assert!(endless.starts_with("stop.time: "), "{endless}");
    let key = error("[radio]\nattemps = 2\n[topology]\nwords = \"linear,3\"");
    assert!(
        key.starts_with("radio.attemps: ") && key.contains("attempts"),
        "{key}"
    );
    let key = error("[topology]\nword = \"linear,3\"");
    assert!(
        key.starts_with("topology.word: no key is called `word`; did you mean `words`? There are")
            && key.contains("words, set, name,")
            && key.ends_with(", interferer, file"),
        "{key}"
    );
    let key = error("[topology]\nfiel = \"mesh.toml\"");
    assert!(key.contains("did you mean `file`?"), "{key}");
    let key = error("[topology]\nwords = \"linear,3\"\nlonk = 1");
    assert!(
        key.starts_with("topology.lonk: ") && key.contains("link"),
        "{key}"
    );
}

/// A node's links have queues of their own: the one that is full holds back only what leaves by it.
#[test]
fn a_full_link_does_not_hold_back_those_who_leave_by_another() {
    let node = |name| format!("[[topology.node]]\nname = \"{name}\"\nwired_only = true\n");
    let wire = |to, rate| {
        format!(
            "[[topology.wire]]\na = \"a\"\nb = \"{to}\"\nrate = \"{rate}\"\n\
             delay = \"1ms\"\nqueue = 2\n"
        )
    };
    let flow = |to, bytes| {
        format!(
            "[[flow]]\nfrom = \"a\"\nto = \"{to}\"\nprotocol = \"tcp-newreno\"\n\
             app = \"file\"\nbytes = \"{bytes}\"\n"
        )
    };
    let nodes: String = ["a", "slow", "fast"].map(node).concat();
    let wires = wire("slow", "100kb/s") + &wire("fast", "10Mb/s");
    let alone = run(&format!("{nodes}{wires}{}", flow("fast", "2M")));
    let both = flow("slow", "50k") + &flow("fast", "2M");
    let both = run(&format!("{nodes}{wires}{both}"));
    let [alone, beside] = [&alone.flows[0], &both.flows[1]].map(|f| f.goodput_bps);
    assert!(beside > 0.95 * alone, "{alone} alone, {beside} beside");
    assert!(both.flows.iter().all(|f| f.packets.queue == 0), "{both:?}");
}

#[test]
fn a_wire_that_is_cut_loses_what_enters_it() {
    let datagrams = "[[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"udp\"\nrate = \"100kb/s\"\n\
                     time = \"6s\"\nsize = 500\n[routing]\nkind = \"static\"\n\
                     routes = [{ from = \"a\", to = \"b\", via = \"b\" }]\n";
    let events = "[[event]]\nat = 2\ncut = [\"a\", \"b\"]\n\
                  [[event]]\nat = 4\nrestore = [\"a\", \"b\"]\n";
    let outcome = run(&wire("10Mb/s", datagrams));
    let whole = outcome.flows[0].packets;
    assert_eq!(
        (whole.delivered, outcome.flows[0].lost_s),
        (whole.sent, None)
    );
    let outcome = run(&wire("10Mb/s", &format!("{datagrams}{events}")));
    let (cut, when) = (outcome.flows[0].packets, outcome.flows[0].lost_s);
    let (late, bytes) = (outcome.flows[0].late_bytes, outcome.flows[0].bytes);
    let half = |late: u64| late.abs_diff(bytes / 2) <= bytes / 50;
    assert!(late.is_some_and(half), "{late:?} of {bytes}");
    // From 2 s to 4 s, evenly.
    assert!(when.is_some_and(|at| (at - 3.0).abs() < 0.05), "{when:?}");
    // 2 s of 26.5 datagrams a second; the route stays.
    assert!((52..=54).contains(&cut.wire), "{cut:?}");
    assert_eq!(cut.delivered + cut.wire, cut.sent);
    let routed = datagrams.split("[routing]").next().unwrap_or_default();
    let lost = run(&wire("10Mb/s", &format!("{routed}{events}"))).flows[0].packets;
    assert!(
        (52..=54).contains(&lost.route),
        "no route while it is cut: {lost:?}"
    );
    assert_eq!(lost.delivered, cut.delivered);
}

/// Nodes without a radio that come near each other still have none: traffic stays on the wires.
#[test]
fn who_has_no_radio_gets_none_by_moving() {
    let node = |name: &str, x: f64, rest: &str| {
        format!("[[topology.node]]\nname = \"{name}\"\nposition = [{x}, 0, 0]\n{rest}")
    };
    let text = |third: &str, moves: &str| {
        let wired = "wired_only = true\n";
        let nodes = node("a", 0.0, wired) + &node("b", 500.0, wired) + &node("c", 900.0, third);
        format!(
            "stop.time = \"9s\"\n[radio]\nrate = \"6Mb/s\"\n{nodes}\
             [[topology.wire]]\na = \"a\"\nb = \"b\"\nrate = \"10Mb/s\"\n{}{moves}",
            file("tcp-newreno", "5M", "0s")
        )
    };
    let walk = "[[mobility]]\nkind = \"trace\"\nrows = [[0, \"b\", 500, 0], [1, \"b\", 5, 0]]\n";
    // Another node has a radio; these two go on as if nobody moved.
    let (rests, moves) = (run(&text("", "")), run(&text("", walk)));
    assert_eq!(moves.nodes[1].position, Some([5.0, 0.0, 0.0]));
    assert_eq!(moves.flows[0].last_byte_s, rests.flows[0].last_byte_s);
    assert!(moves.flows[0].finished && moves.nodes.iter().all(|n| n.frames == 0));
    // Where nobody has one, movement means nothing.
    let scenario = Scenario::from_toml(&text("wired_only = true\n", walk)).expect("a scenario");
    let refused = Simulation::new(&scenario, &open).err().expect("refused");
    let what = "mobility: movement changes who hears whom, and no node here has a radio";
    assert_eq!(refused.to_string(), what);
}

/// When b is cut off, packets go by c; both routes end with the wire from d to e.
#[test]
fn a_hop_that_several_routes_have_is_told_link_by_link() {
    let node = |name| format!("[[topology.node]]\nname = \"{name}\"\nwired_only = true\n");
    let wire = |(a, b, delay): (&str, &str, &str)| {
        format!(
            "[[topology.wire]]\na = \"{a}\"\nb = \"{b}\"\nrate = \"10Mb/s\"\ndelay = \"{delay}\"\n"
        )
    };
    let nodes: String = ["a", "b", "c", "d", "e"].map(node).concat();
    let wires = [
        ("a", "b", "1ms"),
        ("a", "c", "2ms"),
        ("b", "d", "3ms"),
        ("c", "d", "4ms"),
        ("d", "e", "5ms"),
    ];
    let wires: String = wires.map(wire).concat();
    let flow = "[[flow]]\nfrom = \"a\"\nto = \"e\"\nprotocol = \"udp\"\nrate = \"100kb/s\"\n\
                time = \"6s\"\nsize = 500\n";
    let whole = run(&format!("{nodes}{wires}{flow}"));
    assert_eq!(whole.hops.len(), 3, "one route, one link a hop");
    let event = "[[event]]\nat = \"2s\"\ncut = [\"a\", \"b\"]\n";
    let two = run(&format!("{nodes}{wires}{flow}{event}"));
    let rows: Vec<(u32, &str, &str)> = two
        .hops
        .iter()
        .map(|h| (h.hop, h.from.as_str(), h.to.as_str()))
        .collect();
    assert_eq!(
        rows,
        [
            (1, "a", "b"),
            (1, "a", "c"),
            (2, "b", "d"),
            (2, "c", "d"),
            (3, "d", "e")
        ]
    );
    // Each link has its own packets, and what they took: the delay of its wire.
    for (hop, ms) in two.hops.iter().zip([1.0, 2.0, 3.0, 4.0, 5.0]) {
        let each = hop.propagation_s / hop.packets as f64 * 1e3;
        assert!(
            (each - ms).abs() < 1e-9,
            "{} > {}: {each}",
            hop.from,
            hop.to
        );
    }
    let packets: Vec<u64> = two.hops.iter().map(|h| h.packets).collect();
    assert!(packets[0] >= 50 && packets[1] >= 100, "{packets:?}");
    assert_eq!(packets[0], packets[2]);
    assert_eq!(packets[1], packets[3]);
    assert_eq!(packets[4], packets[0] + packets[1], "both routes share it");
}

/// The times of all hops are what a packet takes.
#[test]
fn what_varies_is_in_the_time_of_the_hop() {
    let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"udp\"\nrate = \"100kb/s\"\n\
                time = \"60s\"\n";
    let varied = "delay = \"10ms\"\nvariation = \"5ms\"\n";
    for queue in ["", "[host.queue]\nkind = \"codel\"\n"] {
        let text = wire("6Mb/s", &format!("{flow}{queue}"));
        let outcome = run(&text.replace("delay = \"50us\"\n", varied));
        let hop = &outcome.hops[0];
        let each = |s: f64| s / hop.packets as f64 * 1e3;
        let propagation = each(hop.propagation_s);
        assert!((12.2..12.8).contains(&propagation), "{propagation}");
        let whole = each(hop.node_s + hop.queue_s + hop.air_s + hop.propagation_s);
        let told = outcome.flows[0].one_way.as_ref().unwrap().p50_s * 1e3;
        assert!((whole - told).abs() < 0.4, "{whole}, {told}");
    }
}

#[test]
fn what_was_asked_is_told_beside_what_was_answered() {
    let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"tcp-newreno\"\napp = \"request\"\n\
                request = \"100k\"\nresponse = \"200\"\ncount = 5\n";
    let text = wire("10Mb/s", flow).replace("delay = \"50us\"", "delay = \"50us\"\nloss = 0.02");
    let outcome = run(&text);
    let (flow, asked) = (&outcome.flows[0], outcome.flows[0].asked.unwrap());
    assert_eq!(
        (flow.bytes, flow.sent_bytes, asked.bytes),
        (1_000, 1_000, 500_000)
    );
    // Of 346 data segments 2 % are lost, of five answers hardly one.
    assert!(
        asked.retransmissions > 2 && flow.retransmissions < 2,
        "{asked:?}"
    );
    assert!(asked.timeouts.is_some());
    let plain = run(&wire("10Mb/s", &file("tcp-newreno", "100k", "0s")));
    assert_eq!(plain.flows[0].asked, None);
}

/// Where nothing arrives, all ask to open as often, and none is done when its time is over.
#[test]
fn openers_that_go_again_count_and_who_never_opened_has_not_finished() {
    for protocol in ["tcp-newreno", "hxh", "hop", "atp"] {
        let flow = format!(
            "[[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"{protocol}\"\napp = \"stream\"\n\
             time = \"5s\"\n"
        );
        let text =
            wire("10Mb/s", &flow).replace("delay = \"50us\"", "delay = \"50us\"\nloss = 1.0");
        let outcome = run(&format!(
            "stop.time = \"12s\"\nrecord.series = [\"flow.1.retransmits\"]\n{text}"
        ));
        let flow = &outcome.flows[0];
        let series = outcome.series["flow.1.retransmits"].last().map(|p| p.1);
        assert_eq!(series, Some(3.0), "{protocol}");
        // At 0, 1, 3 and 7 s.
        assert_eq!(
            (flow.packets.sent, flow.retransmissions),
            (4, 3),
            "{protocol}"
        );
        assert!(!flow.finished && flow.connected_s.is_none(), "{protocol}");
    }
}

/// What still waits in a wire's queue when the run ends has not crossed it, nor is it lost on it.
#[test]
fn what_waits_when_a_run_ends_is_on_no_hop_yet() {
    for loss in ["", ",loss=0.1"] {
        let outcome = run(&format!(
            "[topology]\nwords = \"linear,3,wire=1M,delay=10ms,queue=200{loss}\"\n\
             [[flow]]\nfrom = \"n1\"\nto = \"n3\"\nprotocol = \"udp\"\nrate = \"2M\"\n\
             [stop]\ntime = \"10s\"\n"
        ));
        let packets = outcome.flows[0].packets;
        assert!(packets.inside > 190, "{packets:?}");
        for (wire, hop) in outcome.wires.iter().step_by(2).zip(&outcome.hops) {
            assert_eq!((&wire.from, &wire.to), (&hop.from, &hop.to));
            assert_eq!((wire.packets, wire.lost), (hop.packets, hop.lost));
        }
        let [first, second] = &outcome.hops[..] else {
            panic!("{:?}", outcome.hops);
        };
        let sent = second.packets + second.lost;
        assert!((first.packets - sent) < 2, "{first:?} {second:?}");
        assert_eq!(packets.wire, first.lost + second.lost);
        assert!(first.air_s <= 10.0 && first.air_s > 8.0, "{first:?}");
        let share = first.lost as f64 / (first.lost + first.packets) as f64;
        let expected = if loss.is_empty() { 0.0 } else { 0.1 };
        assert!((share - expected).abs() < 0.03, "{share}");
    }
}

/// A connection that never opens waits for all of its SYNs, the last one included: 1, 2, 4, 8, 16
/// and 32 s.
#[test]
fn what_a_connection_waits_that_fails_to_open_is_all_of_it() {
    let outcome = run(&format!(
        "{}[[event]]\nat = \"0s\"\ncut = [\"a\", \"b\"]\n[stop]\ntime = \"100s\"\n",
        wire("10M", &file("tcp-newreno", "1M", "0s"))
    ));
    let flow = &outcome.flows[0];
    assert_eq!(flow.timeouts, Some(6));
    let waited = flow.timeout_s.expect("it has a timer");
    assert!((62.9..63.1).contains(&waited), "{waited}");
}

/// Nodes of a chain have radios; wires beside them stay idle.
#[test]
fn wires_that_nobody_crosses_are_told() {
    let of = |nodes: &str| {
        let text = format!(
            "[topology]\n{nodes}\nwire = [{{ a = \"n1\", b = \"n2\", rate = \"20M\" }}]\n\
             [[flow]]\nfrom = \"n1\"\nto = \"n2\"\nprotocol = \"tcp-newreno\"\napp = \"file\"\n\
             bytes = \"20k\"\n[stop]\ntime = \"9s\"\n"
        );
        run(&text).warnings
    };
    let told = of("words = \"linear,2\"");
    assert!(
        told.iter()
            .any(|w| w.starts_with("wires: no packet crossed any")),
        "{told:?}"
    );
    let only =
        "node = [{ name = \"n1\", wired_only = true }, { name = \"n2\", wired_only = true }]";
    assert_eq!(of(only), Vec::<String>::new());
}
