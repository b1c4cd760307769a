//! What happens when daemons and programs die, are attacked or too many.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::common::privileged;
use super::world::{A, B, Host, Running, WIFU, World, built, nginx, peer, wait_until};

const SPEC: &str = "tcp-newreno,rto_min=200ms,two_msl=3s";

fn script(host: &Host, args: &[&str]) -> Command {
    peer(host.over(SPEC, "python3"), args)
}

/// A server on host A and a client on host B that have met; the last one to act says "up".
fn meet(w: &World, port: u16, listen: &[&str], connect: &[&str]) -> (Running, Running) {
    let (a, b, text) = (&w.hosts[0], &w.hosts[1], port.to_string());
    let (who, what) = listen.split_first().expect("who listens");
    let mut server = a.serve(port, &mut script(a, &[&[*who, A, &text], what].concat()));
    let mut client = b.start(&mut script(b, &[&["connect", A, &text], connect].concat()));
    for (running, what) in [(&mut server, what), (&mut client, connect)] {
        if what[0] != "exchange" {
            running.says("up");
        }
    }
    (server, client)
}

/// What a program that waited for a reset has seen. A program that writes learns by EPIPE, for
/// the kernel's UNIX sockets know no other error.
fn sees_reset(program: &mut Running, writes: bool) {
    let seen = ["[\"Connection reset by peer\"]", "[\"Broken pipe\"]"];
    let seen = if writes { &seen[..] } else { &seen[..1] };
    let report = |p: &Running| p.said().lines().last().unwrap_or_default().to_owned();
    let sees = wait_until(Duration::from_secs(15), || report(program).starts_with('{'));
    assert!(sees, "no end: {}", program.said());
    let report: Value = serde_json::from_str(&report(program)).expect("JSON");
    assert!(
        seen.contains(&report["seen"].to_string().as_str()),
        "{report}"
    );
}

/// Established connections in a daemon's list.
fn open(host: &Host) -> usize {
    let all = host.connections();
    all.iter().filter(|c| c["state"] == "ESTAB").count()
}

#[test]
fn a_killed_daemon_resets_its_applications_and_the_next_one_serves_them() {
    if !privileged() {
        return;
    }
    let mut w = World::raw_up("rb-kill");
    let mut servers = [
        meet(&w, 7001, &["listen-on", "is_reset", "read"], &["hold"]),
        meet(&w, 7002, &["listen-on", "is_reset", "write"], &["hold"]),
    ];
    let mut clients = [
        meet(&w, 7003, &["listen", "hold"], &["is_reset", "read"]),
        meet(&w, 7004, &["listen", "hold"], &["is_reset", "write"]),
    ];
    // A program that writes is held up by then: its peer does not read.
    std::thread::sleep(Duration::from_millis(500));
    w.hosts[0].kill_daemon();
    sees_reset(&mut servers[0].0, false);
    sees_reset(&mut servers[1].0, true);
    w.hosts[1].kill_daemon();
    sees_reset(&mut clients[0].1, false);
    sees_reset(&mut clients[1].1, true);
    // Programs are told what to do while there is no daemon.
    let lost = script(&w.hosts[1], &["connect", A, "7001", "take"])
        .output()
        .expect("python");
    let said = String::from_utf8_lossy(&lost.stderr);
    assert!(
        said.contains("start one with `wifu daemon`") && !lost.status.success(),
        "{said}"
    );
    // The servers go on listening; new daemons take them over.
    w.hosts.iter_mut().for_each(|h| h.start_daemon(&[]));
    for port in ["7001", "7002"] {
        let b = &w.hosts[1];
        let args = ["connect", A, port, "exchange", "300000"];
        let report = b.start(&mut script(b, &args)).report();
        assert_eq!(
            (&report["sent"], &report["count"]),
            (&report["got"], &300_000.into())
        );
    }
}

#[test]
fn a_killed_application_closes_its_connections() {
    if !privileged() {
        return;
    }
    let w = World::raw_up("rb-app");
    let (mut server, client) = meet(&w, 7001, &["listen", "is_reset", "read"], &["hold"]);
    let (server_2, mut client_2) = meet(&w, 7002, &["listen", "hold"], &["is_reset", "read"]);
    assert_eq!([open(&w.hosts[0]), open(&w.hosts[1])], [2, 2]);
    client.kill();
    server_2.kill();
    // Killed with an octet unread: a reset, as over the kernel's TCP.
    sees_reset(&mut server, false);
    sees_reset(&mut client_2, false);
    let gone = || w.hosts.iter().all(|h| open(h) == 0);
    assert!(wait_until(Duration::from_secs(5), gone));
}

#[test]
fn a_daemon_that_is_told_to_end_resets_peers_and_takes_its_socket_away() {
    if !privileged() {
        return;
    }
    let mut w = World::raw_up("rb-term");
    let (_server, mut client) = meet(&w, 7001, &["listen", "hold"], &["is_reset", "read"]);
    let socket = w.hosts[0].socket();
    assert!(socket.exists());
    w.hosts[0].stop_daemon();
    assert!(!socket.exists());
    sees_reset(&mut client, false);
}

#[test]
fn a_tun_device_goes_with_its_daemon() {
    if !privileged() {
        return;
    }
    let mut w = World::tun("rb-tun");
    let host = &mut w.hosts[0];
    let devices = |h: &Host| {
        let output = h.run(h.command("ip").args(["-o", "link"]));
        String::from_utf8_lossy(&output.stdout)
            .matches(": wifu")
            .count()
    };
    host.start_daemon(&[]);
    assert_eq!(devices(host), 1);
    host.kill_daemon();
    assert!(wait_until(Duration::from_secs(5), || devices(host) == 0));
    // What the dead one left does not hinder the next one.
    host.start_daemon(&[]);
    assert_eq!(devices(host), 1);
    host.stop_daemon();
    assert_eq!(devices(host), 0);
}

#[test]
fn garbage_on_the_daemons_socket_is_refused_and_counted() {
    if !privileged() {
        return;
    }
    let mut w = World::raw("rb-junk");
    let host = &mut w.hosts[0];
    host.start_daemon(&[]);
    let mut rng = wifu_wire::Rng::new(7);
    let socket = host.socket();
    for i in 0..200u64 {
        let mut stream = UnixStream::connect(&socket).expect("daemon");
        let size = 16 + rng.below(20_000) as usize;
        let mut junk: Vec<u8> = (0..size).map(|_| rng.next_u32() as u8).collect();
        if i % 2 == 0 {
            // The right beginning, then nonsense.
            junk[..4].copy_from_slice(b"WIFU");
        }
        // It may be refused before it is all there.
        let _ = stream.write_all(&junk);
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .expect("timeout");
        let answer = stream.read_to_end(&mut Vec::new());
        let refused = match &answer {
            Ok(n) => *n == 0,
            Err(e) => e.kind() == std::io::ErrorKind::ConnectionReset,
        };
        assert!(refused, "{answer:?}");
    }
    // One that never says all of it is sent away, too.
    let mut slow = UnixStream::connect(&socket).expect("daemon");
    slow.write_all(b"WIFU").expect("send");
    slow.set_read_timeout(Some(Duration::from_secs(10)))
        .expect("timeout");
    let answer = slow.read_to_end(&mut Vec::new());
    let kind = answer.as_ref().map_err(std::io::Error::kind);
    let reset = std::io::ErrorKind::ConnectionReset;
    assert!(kind == Ok(&0) || kind == Err(reset), "{answer:?}");
    assert!(host.connections().is_empty());
    let counted = host.stop_daemon();
    assert_eq!(counted["applications"]["late"], 1, "{counted}");
    assert_eq!(counted["applications"]["garbage"], 200, "{counted}");
}

#[test]
fn other_users_get_what_the_sockets_mode_says() {
    if !privileged() {
        return;
    }
    let mut w = World::raw_up("rb-mode");
    let library = w.dir.join("preload.so");
    std::fs::copy(built("libwifu_preload.so"), &library).expect("copy");
    let b = &w.hosts[1];
    let args = ["listen-on", B, "7001", "exchange", "10"];
    let _server = b.serve(7001, &mut script(b, &args));
    for (mode, wanted) in [("0600", "Permission denied"), ("0666", "connected")] {
        let a = &mut w.hosts[0];
        a.start_daemon(&["--mode", mode]);
        let mut client = a.command("setpriv");
        client.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "bash",
            "-c",
        ]);
        client.arg(format!("exec 3<>/dev/tcp/{B}/7001 && echo connected"));
        client
            .env("LD_PRELOAD", &library)
            .env("WIFU_PROTOCOL", SPEC);
        let output = client
            .env("WIFU_SOCKET", a.socket())
            .output()
            .expect("setpriv");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains(wanted), "{mode}: {said}");
    }
}

#[test]
fn a_second_daemon_is_told_of_the_first_and_harms_it_not() {
    if !privileged() {
        return;
    }
    let mut w = World::raw("rb-two");
    let host = &mut w.hosts[0];
    host.start_daemon(&[]);
    // Also with a socket elsewhere: both would get every packet, and each would reset the
    // connections of the other.
    for socket in [host.socket(), w.dir.join("other.sock")] {
        let mut second = host.command("timeout");
        let args = ["10", WIFU, "daemon", "--socket"];
        let second = second.args(args).arg(socket).output().expect("wifu");
        let said = String::from_utf8_lossy(&second.stderr);
        assert!(
            !second.status.success() && said.contains("another daemon"),
            "{said}"
        );
    }
    assert!(host.connections().is_empty(), "the first one answers");
    host.daemon.as_ref().expect("daemon").signal(Signal::TERM);
    host.daemon.as_mut().expect("daemon").succeeds();
}

#[test]
fn a_daemon_that_can_not_start_leaves_nothing_and_says_why_once() {
    if !privileged() {
        return;
    }
    let w = World::raw("rb-start");
    let host = &w.hosts[0];
    let socket = host.socket();
    let folder = socket.parent().expect("folder");
    // Namespaces that are gone leave their numbers to new ones, and killed daemons their folders.
    let _ = std::fs::remove_dir_all(folder);
    for (args, wanted) in [
        (&["--pcap", "/nonexistent/x"][..], "No such file"),
        (&["--carrier", "raw", "--carrier", "raw"], "2 times"),
        (&["--socket", "/nonexistent/a/b.sock"], "no folder"),
    ] {
        let out = host
            .command("timeout")
            .args(["10", WIFU, "daemon"])
            .args(args)
            .output();
        let out = out.expect("wifu");
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert_eq!(said.matches(wanted).count(), 1, "{said}");
        assert!(!folder.exists(), "{args:?}");
        assert!(!Path::new("/nonexistent").exists());
    }
}

#[test]
fn three_hundred_downloads_at_once() {
    if !privileged() {
        return;
    }
    let w = World::raw_up("rb-many");
    let digest = w.random_file("file", 100_000);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    let _server = a.serve(8080, &mut nginx(a.over(SPEC, "nginx"), &w, A));
    let url = format!("http://{A}:8080/file?[1-300]");
    let mut curl = b.over(SPEC, "curl");
    curl.args(["-sSf", "-m", "60", "--parallel", "--parallel-immediate"]);
    b.run(curl.args(["--parallel-max", "300", "-o", "got-#1", &url]));
    for i in 1..=300 {
        assert_eq!(w.digest(&format!("got-{i}")), digest, "{i}");
    }
}

/// Runs the asyncio client of echo.py; all its connections must echo.
fn echoes(host: &Host, how: &str, count: u32) {
    let mut client = host.over(SPEC, "python3");
    let args = [how, A, "9000", &count.to_string()];
    let output = host.run(client.arg(file("echo.py")).args(args));
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.trim(), format!("{count} echoed"));
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/live")
        .join(name)
}

#[test]
fn idle_connections_cost_little_and_nothing_afterwards() {
    const MANY: u64 = 1_000;
    if !privileged() {
        return;
    }
    let w = World::raw_up("rb-idle");
    let [a, b] = &w.hosts[..] else {
        unreachable!("two hosts")
    };
    let mut server = a.over(SPEC, "python3");
    let _server = a.serve(9000, server.arg(file("echo.py")).args(["serve", "9000"]));
    let memory = || [a, b].map(Host::memory);
    let before = memory();
    let mut client = b.over(SPEC, "python3");
    client
        .arg("-u")
        .arg(file("reach.py"))
        .args(["idle", A, "9000"]);
    let mut client = b.start(client.arg(MANY.to_string()).stdin(Stdio::piped()));
    client.says("open");
    let open = memory();
    drop(client.child.stdin.take());
    client.succeeds();
    // Until TIME_WAIT is over.
    let left = || {
        memory()
            .iter()
            .zip(before)
            .map(|(now, was)| now.saturating_sub(was))
            .max()
    };
    let given = || left() < Some(open[0].saturating_sub(before[0]) / 2);
    assert!(
        wait_until(Duration::from_secs(20), given),
        "{before:?} {open:?} {:?}",
        memory()
    );
    for (open, before) in open.iter().zip(before) {
        assert!(open - before < MANY * 80_000, "{before} -> {open} bytes");
    }
}

#[test]
fn a_thousand_connections_at_once_and_ten_thousand_in_turn() {
    if !privileged() {
        return;
    }
    let w = World::raw_up("rb-1000");
    let [a, b] = &w.hosts[..] else {
        unreachable!("two hosts")
    };
    let mut server = a.over(SPEC, "python3");
    let _server = a.serve(9000, server.arg(file("echo.py")).args(["serve", "9000"]));
    echoes(b, "crowd", 1_100);
    echoes(b, "turns", 5_000);
    let before = [a.memory(), b.memory()];
    echoes(b, "turns", 5_000);
    let after = [a.memory(), b.memory()];
    for (before, after) in before.iter().zip(after) {
        // Connections in TIME_WAIT are a few megabytes; how many there are depends on the speed.
        assert!(after < before + (16 << 20), "{before} -> {after} bytes");
    }
}

#[test]
fn output_that_nobody_reads_is_no_panic() {
    for args in [&["list"][..], &["describe", "tcp-cubic"]] {
        let mut command = Command::new(WIFU);
        let pipes = command
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = pipes.spawn().expect("wifu");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("wifu");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
    }
}

/// `wifu perf` of this build on a host.
fn perf(host: &Host, words: &[&str]) -> Command {
    let mut command = host.command(WIFU);
    command.env("WIFU_PRELOAD", built("libwifu_preload.so"));
    command.arg("perf").args(words);
    command
}

/// Over WiFu's protocols the daemons do most of the work, and no process of the test has it.
#[test]
fn what_daemons_do_is_told_beside_the_processes() {
    if !privileged() {
        return;
    }
    let mut w = World::raw("perf-cpu");
    for host in &mut w.hosts {
        host.start_daemon(&[]);
    }
    let mut server = w.hosts[1].start(&mut perf(&w.hosts[1], &["-s"]));
    server.says("Server listening");
    let words = ["-c", B, "-C", "tcp-newreno", "-t", "1"];
    let test = |more: &[&str]| {
        let words = [&words[..], more].concat();
        let told = w.hosts[0].run(&mut perf(&w.hosts[0], &words));
        String::from_utf8(told.stdout).expect("text")
    };
    for app in [&[][..], &["--app", "http,count=100,pause=0s,scale=1M"]] {
        let told: Value = serde_json::from_str(&test(&[&["-J"], app].concat())).expect("JSON");
        let daemons = &told["wifu"]["daemon_cpu_percent"];
        let of = |end: &str| daemons[end].as_f64().expect("it is known");
        assert!(of("host") > 1.0 && of("remote") > 1.0, "{daemons}");
    }
    let said = test(&[]);
    let line = "[wifu] CPU of the WiFu daemons, which do the protocol and are not in that: here ";
    assert!(said.contains(line) && !said.contains("unknown"), "{said}");
}

/// A host takes 1.2 ms for each segment, and the link behind it twice as long, so that the kernel's
/// send buffer fills up: what the host has taken up by then leaves when there is room.
#[test]
fn a_host_that_takes_its_time_loses_nothing_to_a_full_send_buffer() {
    if !privileged() {
        return;
    }
    let mut w = World::raw("full-py");
    let mut tc = w.hosts[0].command("tc");
    let shape = "qdisc add dev eth0 root tbf rate 5mbit burst 5000 limit 3000000";
    w.hosts[0].run(tc.args(shape.split(' ')));
    w.hosts[0].start_daemon(&["--host-profile", "py"]);
    w.hosts[1].start_daemon(&[]);
    let mut server = w.hosts[1].start(&mut perf(&w.hosts[1], &["-s", "-1"]));
    server.says("Server listening");
    // The window grows beyond what the send buffer takes.
    let words = ["-c", B, "-C", "tcp-newreno,hystart=off", "-n", "2M", "-J"];
    let told = w.hosts[0].run(&mut perf(&w.hosts[0], &words));
    let told: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    assert_eq!(told["end"]["sum_received"]["bytes"], 2 << 20, "{told}");
    server.succeeds();
    let counted = w.hosts[0].stop_daemon();
    let kept = counted["carriers"][0][1]["kept"].as_u64();
    assert!(
        kept > Some(0),
        "the kernel's buffer was never full: {counted}"
    );
    assert_eq!(counted["packets"]["queue"], 0, "{counted}");
}
