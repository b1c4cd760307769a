//! `wifu perf --app`: applications over real connections, with the simulator's draws.

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::common::{Server, WIFU, at, begin, finish, number};
use rustix::process::Signal;
use serde_json::Value;
use wifu_sim::scenario::FlowSpec;
use wifu_sim::traffic::App;
use wifu_wire::{Rng, Span, Time};

/// The application of these words, drawing from this seed.
fn app(words: &str, seed: u64) -> App {
    App::new(&FlowSpec::application(words).unwrap(), &Rng::new(seed))
}

fn requests(report: &Value) -> Vec<(f64, u64, f64)> {
    let all = at(report, "wifu.application.requests").as_array().unwrap();
    let each = |r: &Value| {
        let bytes = at(r, "bytes").as_u64().unwrap();
        (number(r, "start_s"), bytes, number(r, "delay_s"))
    };
    all.iter().map(each).collect()
}

fn arrivals(report: &Value) -> Vec<(f64, u64)> {
    let streams = at(report, "end.streams").as_array().unwrap();
    let all = at(&streams[0], "wifu.arrivals").as_array().unwrap();
    let pair = |p: &Value| (p[0].as_f64().unwrap(), p[1].as_u64().unwrap());
    all.iter().map(pair).collect()
}

#[test]
fn files_have_the_lengths_and_pauses_that_the_simulator_draws() {
    let server = Server::start(&[]);
    let words = "http,pause=30ms,count=6";
    let report = server.test(&["--app", words, "--seed", "7", "--arrivals", "0.0001"]);
    let mut alone = app(words, 7);
    let found = requests(&report);
    assert_eq!(found.len(), 6);
    let mut next: Option<Time> = Some(Time::ZERO);
    for (start, bytes, delay) in &found {
        assert_eq!(alone.step(Time::ZERO).expects, Some(*bytes));
        let due = next.take().unwrap().as_secs_f64();
        // Never before its time; how much later is a matter of the machine.
        assert!(*start >= due && *delay > 0.0, "{start} {due}");
        let complete = Time::ZERO + Span::from_secs_f64(start + delay);
        next = alone.completed(complete, false);
    }
    assert_eq!(next, None);
    let total: u64 = found.iter().map(|r| r.1).sum();
    assert_eq!(at(&report, "end.sum_received.bytes").as_u64(), Some(total));
    assert_eq!(at(&report, "wifu.application.connections"), 6);
    assert_eq!(at(&report, "wifu.application.finished"), true);
    assert_eq!(arrivals(&report).last().unwrap().1, total);
    let another = server.test(&["--app", words, "--seed", "8"]);
    assert_ne!(requests(&another)[0].1, found[0].1);
}

#[test]
fn files_go_over_one_connection_if_it_persists() {
    let server = Server::start(&[]);
    let words = "http,pause=20ms,count=6,persistent=true";
    let report = server.test(&["--app", words, "--seed", "7", "--arrivals", "0.0001"]);
    let mut alone = app("http,pause=20ms,count=6", 7);
    let found = requests(&report);
    assert_eq!(found.len(), 6);
    for (_, bytes, delay) in &found {
        let expected = alone.step(Time::ZERO).expects;
        alone.completed(Time::ZERO, false);
        assert!(expected == Some(*bytes) && *delay > 0.0, "{found:?}");
    }
    let total: u64 = found.iter().map(|r| r.1).sum();
    assert_eq!(at(&report, "end.sum_received.bytes").as_u64(), Some(total));
    assert_eq!(at(&report, "wifu.application.connections"), 1);
    assert_eq!(at(&report, "wifu.application.finished"), true);
}

#[test]
fn answers_are_read_at_the_client_and_count() {
    let server = Server::start(&[]);
    let words = "request,request=300,response=20k,pause=10ms,count=5";
    let report = server.test(&["--app", words, "--arrivals", "0.001"]);
    let found = requests(&report);
    assert_eq!(found.len(), 5);
    assert!(found.iter().all(|r| r.1 == 20_000 && r.2 > 0.0));
    assert_eq!(
        at(&report, "end.sum_received.bytes").as_u64(),
        Some(100_000)
    );
    assert_eq!(at(&report, "wifu.application.connections"), 1);
    assert_eq!(at(&report, "wifu.application.asked_bytes"), 1500);
    assert_eq!(arrivals(&report).last().unwrap().1, 100_000);
}

/// Who uploads by questions has them in no row.
#[test]
fn what_was_asked_is_told_where_rows_are_of_the_answers() {
    let server = Server::start(&[]);
    for (words, told) in [
        ("request,request=20k,response=300,pause=1ms,count=5", true),
        ("request,request=300,response=20k,pause=1ms,count=5", false),
    ] {
        let client = server.client(&["--app", words]);
        let words = client.get_args().filter(|word| *word != "-J");
        let output = Command::new(WIFU).args(words).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = "[wifu] rows are of the answers; the client asked with 97.7 KBytes";
        assert_eq!(text.contains(line), told, "{text}");
    }
}

#[test]
fn an_application_has_two_ends_and_a_count_of_what_was_retransmitted() {
    let server = Server::start(&[]);
    let host = "127.0.0.1:";
    for words in ["request,pause=1ms,count=3", "http,pause=1ms,count=3"] {
        let report = server.test(&["--app", words]);
        assert_eq!(at(&report, "end.sum_sent.retransmits"), 0, "{words}");
        let stream = &at(&report, "end.streams")[0];
        assert_eq!(at(stream, "sender.retransmits"), 0, "{words}");
        assert_eq!(stream.pointer("/receiver/retransmits"), None, "{words}");
        for end in ["wifu.from", "wifu.to"] {
            let end = at(stream, end).as_str().expect("an address");
            let port = end.strip_prefix(host).expect("of this host");
            assert_ne!(port, "0", "{words}");
        }
    }
}

#[test]
fn talk_and_tables_keep_their_times() {
    let server = Server::start(&[]);
    let words = "onoff,rate=400kb/s,on=200ms,off=100ms";
    let report = server.test(&["--app", words, "--seed", "3", "-t", "1"]);
    let (mut alone, mut due, mut wanted) = (app(words, 3), Time::ZERO, 0);
    alone.begin(due);
    while due < Time::ZERO + Span::SECOND {
        let step = alone.step(due);
        (wanted, due) = (wanted + step.write, step.next);
    }
    assert!(wanted > 10_000, "{wanted}");
    assert_eq!(at(&report, "end.sum_received.bytes").as_u64(), Some(wanted));
    assert_eq!(at(&report, "wifu.application.finished"), true);

    let rows = "trace,rows=0:1000+0.3:5000+0.3:1+0.6:4000";
    let report = server.test(&["--app", rows, "--arrivals", "0.001"]);
    let found = arrivals(&report);
    let by = |t: f64| found.iter().filter(|p| p.0 < t).map(|p| p.1).max();
    assert_eq!(by(0.29), Some(1000));
    assert!(by(0.59) <= Some(6001));
    assert_eq!(found.last().unwrap().1, 10_001);
    assert!(found.last().unwrap().0 >= 0.59);
}

#[test]
fn an_interrupted_application_tells_what_it_had() {
    let server = Server::start(&[]);
    let client = begin(server.client(&["--app", "http,pause=5ms", "-t", "60"]));
    sleep(Duration::from_millis(1500));
    client.signal(Signal::TERM);
    let (report, code) = finish(client);
    assert_eq!(code, Some(143));
    assert!(at(&report, "error").as_str().unwrap().contains("interrupt"));
    let whole: u64 = requests(&report).iter().map(|r| r.1).sum();
    let received = at(&report, "end.sum_received.bytes").as_u64().unwrap();
    assert!(whole > 0 && received >= whole, "{whole} {received}");
    assert_eq!(at(&report, "wifu.application.finished"), false);
    // The server serves on.
    let after = server.test(&["--app", "request,count=1"]);
    assert_eq!(requests(&after).len(), 1);
}

#[test]
fn a_time_ends_what_would_not_end_and_completes_what_is_under_way() {
    let server = Server::start(&[]);
    let report = server.test(&["--app", "http,pause=1ms", "-t", "0.5"]);
    let found = requests(&report);
    // What a busy host comes to late began late.
    assert!(found.last().unwrap().0 <= 0.8);
    let whole: u64 = found.iter().map(|r| r.1).sum();
    assert_eq!(at(&report, "end.sum_received.bytes").as_u64(), Some(whole));
    assert_eq!(at(&report, "wifu.application.finished"), true);
}

#[test]
fn steady_streams_record_what_arrives_when_they_are_asked_to() {
    let server = Server::start(&[]);
    let report = server.test(&["-n", "2M", "-b", "32M", "--arrivals", "0.01"]);
    let found = arrivals(&report);
    assert_eq!(found.last().unwrap().1, 2 << 20);
    assert!(found.len() > 10, "{}", found.len());
    assert!(found.windows(3).all(|w| w[2].0 - w[0].0 >= 0.01));
    assert!(found.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1));
    let streams = at(&report, "end.streams").as_array().unwrap();
    assert_eq!(
        at(&streams[0], "wifu.corrupt"),
        0,
        "compared octet by octet"
    );
    let without = server.test(&["-n", "1K"]);
    let streams = at(&without, "end.streams").as_array().unwrap();
    for key in ["arrivals", "corrupt"] {
        assert_eq!(streams[0].pointer(&format!("/wifu/{key}")), None);
    }
}

#[test]
fn what_is_no_application_is_refused_with_words() {
    for (arguments, says) in [
        (&["--app", "file,bytes=1M"][..], "needs no --app"),
        (&["--app", "http"], "needs `pause`"),
        (&["--app", "htp,pause=1s"], "did you mean `http`"),
        (
            &["--app", "onoff,rate=1M,on=1s,off=1s,time=3s"],
            "-t SECONDS",
        ),
        (
            &["--app", "http,pause=1s", "-n", "1M"],
            "cannot be used with",
        ),
        (&["--seed", "1"], "--app"),
        (&["--arrivals", "0"], "between 0.0001"),
    ] {
        let output = Command::new(WIFU)
            .args(["perf", "-c", "127.0.0.1"])
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(says), "{said}");
    }
}
