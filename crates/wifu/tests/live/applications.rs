//! Unmodified programs between two daemons over raw sockets. What each transfers is compared, and
//! the kernel's TCP must not have sent a segment meanwhile: a program that WiFu does not reach
//! cannot pass.

use std::path::Path;
use std::process::Command;

use super::common::privileged;
use super::world::{A, Host, WIFU, World, built, nginx};

const SIZE: usize = 5_000_000;

/// Two hosts with daemons; what the programs move goes over WiFu's `spec` alone.
fn over_wifu(test: &str, moves: u64, act: impl FnOnce(&World, &Host, &Host)) {
    if !privileged() {
        return;
    }
    let mut w = World::raw_up(test);
    let segments = |w: &World| [0, 1].map(|i| w.hosts[i].kernel("Tcp", "OutSegs"));
    let before = segments(&w);
    act(&w, &w.hosts[0], &w.hosts[1]);
    assert_eq!(segments(&w), before, "the kernel's TCP was used");
    let counted = w.hosts[0].stop_daemon();
    let carried = &counted["carriers"][0][1];
    let octets = ["sent_octets", "received_octets"].map(|way| carried[way].as_u64().unwrap_or(0));
    assert!(
        octets.iter().sum::<u64>() > moves,
        "{moves} to be moved: {counted}"
    );
    assert_eq!(carried["refused"], 0, "{counted}");
}

#[test]
fn no_program_is_run_over_a_protocol_that_the_daemon_does_not_know() {
    if !privileged() {
        return;
    }
    let mut w = World::raw("app-exec");
    let own = "[protocol.mine]\nextends = \"tcp-reno\"\nnumber = 240\n";
    std::fs::write(w.dir.join("mine.toml"), own).expect("composition");
    w.hosts[0].start_daemon(&["--file", "mine.toml"]);
    let a = &w.hosts[0];
    for (spec, why) in [
        ("mine,iw=3", None),
        ("mine,iww=3", Some("did you mean `iw`")),
        ("nope", Some("no protocol of this name")),
    ] {
        let ran = w.dir.join(spec);
        let output = a.over(spec, "touch").arg(&ran).output().expect("wifu");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(ran.exists(), why.is_none(), "{spec}: {said}");
        assert_eq!(output.status.success(), why.is_none(), "{spec}: {said}");
        assert!(said.contains(why.unwrap_or_default()), "{spec}: {said}");
    }
}

#[test]
fn what_the_library_notes_is_no_data_of_a_program() {
    if !privileged() {
        return;
    }
    let w = World::raw_up("app-notes");
    let a = &w.hosts[0];
    let code = "import os, socket, sys; set = lambda o: socket.socket().setsockopt(6, o, 1); \
                set(socket.TCP_CORK); os.dup2(os.open(sys.argv[1], os.O_CREAT | os.O_RDWR), 2); \
                set(socket.TCP_SYNCNT)";
    let noted = |notes: &[&str], name: &str| {
        let mut command = a.command(WIFU);
        command.env("WIFU_PRELOAD", built("libwifu_preload.so"));
        command.args(["exec", "--protocol", "tcp-reno"]).args(notes);
        let output = a.run(command.args(["--", "python3", "-c", code, name]));
        let file = std::fs::read_to_string(w.dir.join(name)).expect("its file");
        (String::from_utf8_lossy(&output.stderr).into_owned(), file)
    };
    let line = |option: &str| format!("wifu: {option} is taken and has no effect\n");
    assert_eq!(noted(&[], "auto"), (line("TCP_CORK"), String::new()));
    let both = (line("TCP_CORK"), line("TCP_SYNCNT"));
    assert_eq!(noted(&["--notes", "always"], "always"), both);
    let neither = (String::new(), String::new());
    assert_eq!(noted(&["--notes", "never"], "never"), neither);
}

#[test]
fn curl_from_an_nginx_with_two_workers() {
    over_wifu("app-curl", 4 * SIZE as u64, |w, a, b| {
        let digest = w.random_file("file", SIZE);
        let _server = a.serve(8080, &mut nginx(a.over("tcp-newreno", "nginx"), w, A));
        let url = format!("http://{A}:8080/file");
        let names = ["got0", "got1", "got2", "got3"];
        let mut curls = names.map(|name| {
            let mut curl = b.over("tcp-newreno", "curl");
            b.start(curl.args(["-sSf", "-m", "60", "-o", name, &url]))
        });
        curls.iter_mut().for_each(|c| drop(c.succeeds()));
        names
            .iter()
            .for_each(|name| assert_eq!(w.digest(name), digest));
        // The client closed first and remembers its connections for a while.
        let listed = b.connections();
        let ours = listed
            .iter()
            .filter(|c| c["protocol"] == "tcp-newreno" && c["number"] == 215);
        let got = ours.filter(|c| c["octets_in"].as_u64() > Some(SIZE as u64));
        assert!(got.count() >= 1, "{listed:?}");
        // A port where nobody listens refuses, as over the kernel's TCP.
        let mut curl = b.over("tcp-newreno", "curl");
        let refused = curl
            .args(["-sS", "-m", "20", &format!("http://{A}:8099/")])
            .output();
        assert_eq!(refused.expect("curl").status.code(), Some(7));
    });
}

#[test]
fn wget_from_nginx() {
    over_wifu("app-wget", SIZE as u64, |w, a, b| {
        let digest = w.random_file("file", SIZE);
        let _server = a.serve(8080, &mut nginx(a.over("tcp-cubic", "nginx"), w, A));
        let url = format!("http://{A}:8080/file");
        b.run(
            b.over("tcp-cubic", "wget")
                .args(["-q", "-T", "30", "-O", "got", &url]),
        );
        assert_eq!(w.digest("got"), digest);
    });
}

#[test]
fn python_http_server_with_curl_and_urllib() {
    over_wifu("app-http", 2 * SIZE as u64, |w, a, b| {
        let digest = w.random_file("file", SIZE);
        let mut server = a.over("tcp-sack", "python3");
        let _server = a.serve(8000, server.args(["-u", "-m", "http.server", "8000"]));
        let url = format!("http://{A}:8000/file");
        b.run(
            b.over("tcp-sack", "curl")
                .args(["-sSf", "-m", "60", "-o", "got0", &url]),
        );
        let fetch = "import sys, urllib.request as u; u.urlretrieve(*sys.argv[1:])";
        b.run(
            b.over("tcp-sack", "python3")
                .args(["-c", fetch, &url, "got1"]),
        );
        assert_eq!(
            [w.digest("got0"), w.digest("got1")],
            [digest.clone(), digest]
        );
    });
}

#[test]
fn early_answers_of_servers_reach_clients_that_still_write() {
    const PERL: &str = r#"use IO::Socket::INET; $SIG{PIPE} = "IGNORE";
        $s = IO::Socket::INET->new(LocalPort => 8002, Listen => 16, ReuseAddr => 1) or die;
        while ($c = $s->accept) {
            sysread($c, $b, 200);
            syswrite($c, "HTTP/1.0 413 Too Large\r\n\r\n" . ("x" x 3000));
            close($c);
        }"#;
    const TRIES: &str = "30";
    over_wifu("app-early", 0, |_, a, b| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/early.py");
        let mut python = a.over("tcp-newreno", "python3");
        let _python = a.serve(8001, python.arg(&script).args(["serve", "8001"]));
        let mut perl = a.over("tcp-newreno", "perl");
        let _perl = a.serve(8002, perl.args(["-e", PERL]));
        for port in ["8001", "8002"] {
            let mut client = b.over("tcp-newreno", "python3");
            let output = b.run(client.arg(&script).args(["post", A, port, TRIES]));
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(said.trim(), format!("{TRIES} answered"), "port {port}");
        }
    });
}

#[test]
fn python_asyncio_client_and_server() {
    over_wifu("app-async", 10_000_000, |_, a, b| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/echo.py");
        let mut server = a.over("tcp-reno", "python3");
        let _server = a.serve(9000, server.arg(&script).args(["serve", "9000"]));
        let mut client = b.over("tcp-reno", "python3");
        let output = b.run(client.arg(&script).args(["ask", A, "9000", "25"]));
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "25 echoed");
    });
}

#[test]
fn iperf3_at_both_ends() {
    over_wifu("app-iperf", 3_000_000, |_, a, b| {
        let mut server = a.over("tcp-newreno", "iperf3");
        let _server = a.serve(5201, server.arg("-s"));
        for more in [&[][..], &["-R"], &["-P", "4"]] {
            let mut client = b.over("tcp-newreno", "iperf3");
            let output = b.run(client.args(["-c", A, "-t", "1", "-J"]).args(more));
            let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let end = &report["end"];
            let [sent, got] = ["sum_sent", "sum_received"].map(|k| end[k]["bytes"].as_u64());
            // What is on its way at the end of the time is sent and not counted as received.
            assert!(got > Some(1 << 20) && got <= sent, "{end}");
            // iperf3's server needs a moment between tests.
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
    });
}

#[test]
fn socat_both_ways() {
    over_wifu("app-socat", 2 * SIZE as u64, |w, a, b| {
        let digests = [w.random_file("up", SIZE), w.random_file("down", SIZE - 1)];
        let listen = format!("TCP4-LISTEN:7000,bind={A}");
        let mut server = a.over("tcp-tahoe", "socat");
        server.args([
            "-t",
            "30",
            &listen,
            "OPEN:down,rdonly!!OPEN:got-up,creat,wronly",
        ]);
        let mut server = a.serve(7000, &mut server);
        let mut client = b.over("tcp-tahoe", "socat");
        let to = format!("TCP4:{A}:7000");
        b.run(client.args([
            "-t",
            "30",
            &to,
            "OPEN:up,rdonly!!OPEN:got-down,creat,wronly",
        ]));
        server.succeeds();
        assert_eq!([w.digest("got-up"), w.digest("got-down")], digests);
    });
}

#[test]
fn a_c_program_on_the_static_library() {
    over_wifu("app-c", 2 * SIZE as u64, |w, a, b| {
        w.random_file("file", SIZE);
        let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wifu-c");
        let program = w.dir.join("wifu-file");
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-I"]);
        cc.arg(crate_dir.join("include"))
            .arg(crate_dir.join("examples-c/wifu-file.c"));
        cc.arg(built("libwifu.a")).arg("-o").arg(&program);
        a.run(cc.args(["-lpthread", "-ldl", "-lm"]));
        let with = |host: &Host| {
            let mut c = host.command(&program);
            c.env("WIFU_PROTOCOL", "tcp-cubic")
                .env("WIFU_SOCKET", host.socket());
            c
        };
        let mut server = a.serve(6000, with(a).args(["serve", "6000", "1"]));
        let output = b.run(with(b).args(["send", A, "6000", "file"]));
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            said.contains(&format!("{SIZE} bytes there and back")),
            "{said}"
        );
        server.succeeds();
    });
}
