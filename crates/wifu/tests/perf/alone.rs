//! `wifu perf` by itself: sizes, interruptions, the forms of output, the server's ways.

use std::io::{BufRead, BufReader};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{Running, Server, WIFU, at, begin, built, finish, free_port, number, report};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

#[test]
fn a_size_is_sent_exactly_and_has_arrived_at_the_end() {
    let server = Server::start(&[]);
    for (arguments, keys, bytes) in [
        (
            &["-n", "100001", "-P", "3"][..],
            &["sum_sent", "sum_received"][..],
            100_001,
        ),
        (
            &["-n", "1M", "-R", "-l", "1000"],
            &["sum_sent", "sum_received"],
            1 << 20,
        ),
        (
            &["-k", "3", "-l", "1000"],
            &["sum_sent", "sum_received"],
            3000,
        ),
        (
            &["-n", "50000", "--bidir"],
            &[
                "sum_sent",
                "sum_received",
                "sum_sent_bidir_reverse",
                "sum_received_bidir_reverse",
            ],
            50_000,
        ),
    ] {
        let begun = Instant::now();
        let report = server.test(&[arguments, &["-i", "60"]].concat());
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "waited for an interval's end"
        );
        for key in keys {
            let found = at(&report, &format!("end.{key}.bytes")).as_u64();
            assert_eq!(found, Some(bytes), "{arguments:?} {key}");
        }
    }
}

#[test]
fn a_timed_test_reports_each_interval_and_both_ends_of_each_row() {
    let server = Server::start(&[]);
    let report = server.test(&["-t", "1", "-i", "0.25", "-O", "0.5"]);
    let intervals = at(&report, "intervals").as_array().unwrap();
    let omitted = intervals
        .iter()
        .filter(|row| row["sum"]["omitted"] == true)
        .count();
    assert_eq!((omitted, intervals.len()), (2, 6));
    let counted: u64 = intervals[2..]
        .iter()
        .filter_map(|row| row["sum"]["bytes"].as_u64())
        .sum();
    assert_eq!(Some(counted), at(&report, "end.sum_sent.bytes").as_u64());
    // On a busy machine some intervals end late, and the next ones are as much shorter; together
    // they are the whole time, whose counted part begins with the third.
    let part = |row: &Value, key| number(row, &format!("sum.{key}"));
    for rows in [&intervals[..2], &intervals[2..]] {
        assert_eq!(part(&rows[0], "start"), 0.0);
        let mut pairs = rows.windows(2);
        assert!(pairs.all(|p| part(&p[0], "end") == part(&p[1], "start")));
    }
    let mut lengths: Vec<f64> = intervals.iter().map(|row| part(row, "seconds")).collect();
    let (whole, counted_time): (f64, f64) = (lengths.iter().sum(), lengths[2..].iter().sum());
    let seconds = number(&report, "end.sum_sent.seconds");
    assert!(whole > 1.499, "{lengths:?}");
    assert!(
        (seconds - counted_time).abs() < 1e-6,
        "{seconds} s, {lengths:?}"
    );
    let rate = 8.0 * counted as f64 / seconds;
    let told = number(&report, "end.sum_sent.bits_per_second");
    assert!((told / rate - 1.0).abs() < 1e-6, "{told} bit/s, not {rate}");
    lengths.sort_by(f64::total_cmp);
    assert!((0.22..0.28).contains(&lengths[2]), "{lengths:?}");
    assert!(number(&report, "end.streams.0.sender.mean_rtt") > 0.0);

    let local = number(&report, "start.connected.0.local_port");
    let remote = number(&report, "start.connected.0.remote_port");
    let row = &intervals[0]["streams"][0]["wifu"];
    assert_eq!(row["from"], format!("127.0.0.1:{local}"));
    assert_eq!(row["to"], format!("127.0.0.1:{remote}"));
    assert_eq!(at(&report, "wifu.substrate"), "live");
}

#[test]
fn a_rate_is_kept() {
    let server = Server::start(&[]);
    for arguments in [
        &["-b", "20M", "-l", "10K", "-t", "1"][..],
        &["-b", "20M/5", "-t", "2", "-R"],
    ] {
        let report = server.test(arguments);
        let rate = number(&report, "end.sum_received.bits_per_second");
        assert!((18e6..23e6).contains(&rate), "{arguments:?}: {rate}");
    }
}

#[test]
fn an_interrupted_client_still_writes_what_both_sides_measured() {
    let server = Server::start(&[]);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let client = begin(server.client(&["-t", "30", "-i", "0.2"]));
        sleep(Duration::from_millis(1500));
        client.signal(signal);
        let (report, status) = finish(client);
        assert_eq!(status, Some(code));
        assert_eq!(
            at(&report, "error"),
            "interrupt - the client has terminated"
        );
        assert_eq!(at(&report, "wifu.interrupted"), true);
        assert!(at(&report, "intervals").as_array().unwrap().len() >= 2);
        let (sent, received) = (
            number(&report, "end.sum_sent.bytes"),
            number(&report, "end.sum_received.bytes"),
        );
        assert!(received > 0.0 && received <= sent, "{sent} {received}");
    }
    server.test(&["-n", "1000"]);
}

#[test]
fn a_client_whose_server_goes_says_so_and_reports() {
    let mut server = Server::start(&[]);
    let client = begin(server.client(&["-t", "30", "-i", "0.2"]));
    sleep(Duration::from_millis(500));
    kill_process(server.worker(), Signal::KILL).unwrap();
    let (report, status) = finish(client);
    assert_eq!(status, Some(1));
    let error = at(&report, "error").as_str().unwrap();
    assert!(
        error.contains("server") || error.contains("stream"),
        "{error}"
    );
    assert!(number(&report, "end.sum_sent.bytes") > 0.0);
    assert!(!at(&report, "intervals").as_array().unwrap().is_empty());

    let client = begin(server.client(&["-t", "30"]));
    sleep(Duration::from_millis(500));
    server.process.signal(Signal::TERM);
    let (report, status) = finish(client);
    assert_eq!(status, Some(1));
    let error = at(&report, "error").as_str().unwrap();
    assert!(
        error.contains("the server ended the test: signal 15"),
        "{error}"
    );
    assert!(number(&report, "end.sum_received.bytes") > 0.0);
    assert_eq!(server.process.end().code(), Some(143));
}

#[test]
fn a_worker_ends_with_a_server_that_is_killed() {
    let mut server = Server::start(&[]);
    let client = begin(server.client(&["-t", "30"]));
    sleep(Duration::from_millis(500));
    let worker = server.worker();
    server.process.signal(Signal::KILL);
    server.process.end();
    let (report, status) = finish(client);
    assert_eq!(status, Some(1));
    let error = at(&report, "error").as_str().unwrap();
    assert!(
        error.contains("the server ended the test: signal 15"),
        "{error}"
    );
    let deadline = Instant::now() + Duration::from_secs(10);
    let is_there =
        || match std::fs::read_to_string(format!("/proc/{}/stat", worker.as_raw_nonzero())) {
            // Nobody may wait for it where this test's container has no init that does.
            Ok(stat) => !stat.contains(") Z "),
            Err(_) => false,
        };
    while is_there() {
        assert!(Instant::now() < deadline, "the worker runs");
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_second_client_is_told_that_the_server_is_busy() {
    let server = Server::start(&[]);
    let first = begin(server.client(&["-t", "2", "-b", "1M"]));
    sleep(Duration::from_millis(500));
    let second = server.client(&["-t", "1"]).output().unwrap();
    let error = report(&second);
    assert!(
        at(&error, "error").as_str().unwrap().contains("busy"),
        "{error}"
    );
    assert_eq!(second.status.code(), Some(1));
    let (report, status) = finish(first);
    assert_eq!((report.get("error"), status), (None, Some(0)));
}

#[test]
fn who_comes_right_after_another_does_not_come_too_early() {
    let server = Server::start(&[]);
    for n in 0..20 {
        let (report, status) = finish(begin(server.client(&["-n", "1"])));
        assert_eq!((report.get("error"), status), (None, Some(0)), "{n}");
    }
}

#[test]
fn a_stream_of_json_is_one_event_a_line() {
    let server = Server::start(&[]);
    let mut client = server.client(&["-t", "1", "-i", "0.5", "--json-stream"]);
    let output = client.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let events: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names: Vec<&str> = events
        .iter()
        .filter_map(|event| event["event"].as_str())
        .collect();
    assert_eq!(names, ["start", "interval", "interval", "wifu", "end"]);
    assert!(number(&events[1], "data.sum.bytes") > 0.0);
    assert!(number(&events[4], "data.sum_received.bytes") > 0.0);

    client.arg("--json-stream-full-output");
    let text = String::from_utf8(client.output().unwrap().stdout).unwrap();
    let start = text.find("\n{\n").expect("a document after the events");
    let whole: Value = serde_json::from_str(&text[start..]).unwrap();
    assert_eq!(at(&whole, "intervals").as_array().unwrap().len(), 2);
}

#[test]
fn lines_for_people_have_titles_and_the_servers_lines() {
    let server = Server::start(&[]);
    let log = std::env::temp_dir().join(format!("wifu-perf-{}.log", std::process::id()));
    let output = Command::new(WIFU)
        .args([
            "perf",
            "-c",
            "127.0.0.1",
            "-p",
            &server.port,
            "-n",
            "1M",
            "-T",
            "title",
        ])
        .args(["--get-server-output", "-f", "M", "-V", "--logfile"])
        .arg(&log)
        .output()
        .unwrap();
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    assert!(
        output.status.success() && output.stdout.is_empty(),
        "{output:?}"
    );
    assert!(
        text.lines().all(|line| line.starts_with("title:  ")),
        "{text}"
    );
    for part in [
        "MBytes/sec",
        "receiver  127.0.0.1:",
        "Server output:",
        "[wifu] protocol kernel",
        "[wifu] CPU of the processes: ",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert!(!text.contains("daemon"), "{text}");
}

#[test]
fn a_one_off_server_ends_and_a_background_server_stays() {
    let mut server = Server::start(&["-1"]);
    server.test(&["-n", "1000"]);
    assert_eq!(server.process.end().code(), Some(0));

    let pidfile = std::env::temp_dir().join(format!("wifu-perf-{}.pid", std::process::id()));
    let port = free_port();
    let start = || {
        let mut command = Command::new(WIFU);
        command
            .args(["perf", "-s", "-D", "-p", &port, "-I"])
            .arg(&pidfile);
        command.output().unwrap()
    };
    let output = start();
    assert!(output.status.success(), "{output:?}");
    let pid: i32 = std::fs::read_to_string(&pidfile)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let client = ["perf", "-c", "127.0.0.1", "-p", &port, "-n", "1000", "-J"];
    let test = Command::new(WIFU).args(client).output().unwrap();
    let again = start();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    assert!(test.status.success(), "{test:?}");
    let error = String::from_utf8(again.stderr).unwrap();
    assert!(!again.status.success() && error.contains(&port), "{error}");
}

#[test]
fn a_server_whose_file_was_replaced_or_removed_goes_on() {
    let dir = std::env::temp_dir().join(format!("wifu-perf-old-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let program = dir.join("wifu");
    std::fs::copy(WIFU, &program).unwrap();
    let port = free_port();
    let mut command = Command::new(&program);
    command.args(["perf", "-s", "-p", &port]);
    let process = Running::start(&mut command, "Server listening");
    let server = Server { process, port };
    server.test(&["-n", "1000"]);
    std::fs::remove_file(&program).unwrap();
    server.test(&["-n", "1000"]);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let server = Server::start(&[]);
    let address = ["-c", "127.0.0.1", "-p", &server.port];
    for (arguments, reason) in [
        (&[][..], "be a server (-s) or the client of one"),
        (&["-c", "127.0.0.1", "-u"], "there is no -u"),
        (
            &["-c", "127.0.0.1", "-t", "1", "-n", "1"],
            "cannot be used with",
        ),
        (
            &["-c", "127.0.0.1", "-p", "1"],
            "is `wifu perf -s` running there?",
        ),
        (
            &["-c", "127.0.0.1", "-C", "dctcp2;"],
            "no protocol of this name",
        ),
        (
            &["-c", "127.0.0.1", "-C", "kernel:nosuch"],
            "no congestion control nosuch",
        ),
        (&["-c", "::1", "-C", "tcp-newreno"], "IPv4"),
        (&["-c", "nosuch.invalid"], "looking up nosuch.invalid"),
        (
            &["-c", "nosuch.invalid", "--protocol", "tcp-cubicc"],
            "did you mean `tcp-cubic`?",
        ),
    ] {
        let output = Command::new(WIFU)
            .arg("perf")
            .args(arguments)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && text.contains(reason),
            "{arguments:?}: {text}"
        );
    }
    // Named as WiFu's, but nothing that carries: measuring kernel TCP under that name is worse
    // than not measuring.
    let output = Command::new(WIFU)
        .env("WIFU_PROTOCOL", "tcp-newreno")
        .arg("perf")
        .args(address)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("the preload library is not at work"),
        "{text}"
    );
}

/// Whoever waits for a `-1` server to end would wait for ever.
#[test]
fn a_client_that_its_own_words_stop_says_that_the_server_waits_on() {
    let mut server = Server::start(&["-1"]);
    let address = ["-c", "127.0.0.1", "-p", &server.port];
    for words in [
        ["-C", "kernel:nosuch"],
        ["-C", "tcp-cubicc"],
        ["-i", "1e-3"],
    ] {
        let mut client = Command::new(WIFU);
        let output = client
            .arg("perf")
            .args(address)
            .args(words)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        let told = "a server on 127.0.0.1 was asked for nothing and waits on, with -1, too";
        assert!(!output.status.success() && text.contains(told), "{text}");
    }
    server.test(&["-n", "1000"]);
    assert_eq!(server.process.end().code(), Some(0));
}

#[test]
fn strangers_on_the_control_port_do_no_harm() {
    use std::io::Write;
    let server = Server::start(&[]);
    let address = format!("127.0.0.1:{}", server.port);
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\0\xff\n",
        b"{\"type\":\"start\"}\n",
        b"",
    ] {
        let mut stranger = std::net::TcpStream::connect(&address).unwrap();
        stranger.write_all(bytes).unwrap();
        drop(stranger);
        // The stranger's worker may still be there for a moment.
        sleep(Duration::from_millis(300));
        server.test(&["-n", "1000"]);
    }
}

#[test]
fn the_list_names_both_kinds_of_protocols() {
    let output = Command::new(WIFU)
        .args(["perf", "-C", "list"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("tcp-newreno") && text.contains("kernel:reno"),
        "{text}"
    );
}

/// A relay in the daemon's place, with a directory for its socket.
fn relay(name: &str) -> (Running, String) {
    let socket = std::env::temp_dir().join(format!("wifu-{name}-{}.sock", std::process::id()));
    let socket = socket.to_str().unwrap().to_owned();
    (
        Running::start(Command::new(built("relay")).arg(&socket), "ready"),
        socket,
    )
}

#[test]
fn over_a_wifu_protocol_the_streams_are_wifus_and_the_control_connection_is_not() {
    // The relay connects only sockets of processes that carry the library. The server's
    // listening process carries none, so a control connection that went by WiFu would be
    // refused.
    let (_relay, socket) = relay("perf");
    let server = Server::start(&["--socket", &socket]);
    for mode in [
        &["-n", "3M"][..],
        &["-t", "1", "--bidir", "-P", "2"],
        &["-n", "1M", "-R"],
    ] {
        let more = [
            "--socket",
            &socket,
            "-C",
            "tcp-newreno,iw=4",
            "--get-server-output",
        ];
        let report = server.test(&[mode, &more].concat());
        assert_eq!(at(&report, "start.test_start.protocol"), "TCP-NEWRENO");
        assert_eq!(at(&report, "wifu.protocol"), "tcp-newreno,iw=4");
        assert_eq!(at(&report, "end.sender_tcp_congestion"), "tcp-newreno");
        assert_eq!(at(&report, "end.receiver_tcp_congestion"), "tcp-newreno");
        assert!(number(&report, "end.sum_received.bytes") > 1e6);
        let there = at(&report, "server_output_json.start.connected.0.remote_port");
        assert_eq!(there, at(&report, "start.connected.0.local_port"));
    }
    // The same server serves kernel TCP in between.
    assert_eq!(
        at(
            &server.test(&["-n", "1M", "-C", "reno"]),
            "end.sender_tcp_congestion"
        ),
        "reno"
    );
    let _ = std::fs::remove_file(socket);
}

#[test]
fn under_exec_the_protocol_is_the_environments() {
    let (_relay, socket) = relay("exec");
    let server = Server::start(&["--socket", &socket]);
    let exec = [
        "exec",
        "--protocol",
        "tcp-reno",
        "--socket",
        &socket,
        "--",
        WIFU,
        "perf",
    ];
    let client = ["-c", "127.0.0.1", "-p", &server.port, "-n", "1M", "-J"];
    let output = Command::new(WIFU).args(exec).args(client).output().unwrap();
    assert_eq!(at(&report(&output), "wifu.protocol"), "tcp-reno");
    let output = Command::new(WIFU)
        .args(exec)
        .args(client)
        .args(["-C", "kernel"])
        .output();
    assert_eq!(at(&report(&output.unwrap()), "wifu.protocol"), "kernel");
    let _ = std::fs::remove_file(socket);
}

#[test]
fn exec_hands_the_program_what_the_library_needs_and_fails_as_shells_do() {
    let exec = |arguments: &[&str]| {
        let mut command = Command::new(WIFU);
        command.env("WIFU_PRELOAD", built("libwifu_preload.so"));
        command.args([
            "exec",
            "--protocol",
            "tcp-reno,iw=2",
            "--socket",
            "/nowhere",
        ]);
        command.args(arguments).output().unwrap()
    };
    let output = exec(&[
        "--",
        "sh",
        "-c",
        "echo $WIFU_PROTOCOL $WIFU_SOCKET $LD_PRELOAD; exit 7",
    ]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("tcp-reno,iw=2 /nowhere /"), "{text}");
    assert!(text.trim().ends_with("libwifu_preload.so"), "{text}");
    assert_eq!(output.status.code(), Some(7));

    let output = exec(&["no-such-command-anywhere"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&output.stderr).contains("command not found"));
    assert_eq!(
        exec(&[concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
            .status
            .code(),
        Some(126)
    );

    let output = Command::new(WIFU)
        .env("WIFU_PRELOAD", "/no/such/library.so")
        .args(["exec", "--protocol", "tcp-reno", "true"])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such/library.so"));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_reader_that_leaves_does_not_stop_the_measurement() {
    let server = Server::start(&[]);
    let mut client = Command::new(WIFU);
    client.args([
        "perf",
        "-c",
        "127.0.0.1",
        "-p",
        &server.port,
        "-t",
        "1",
        "-i",
        "0.1",
    ]);
    let mut client = begin(client);
    let mut first = String::new();
    BufReader::new(client.0.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    assert_eq!(client.end().code(), Some(0));
}
