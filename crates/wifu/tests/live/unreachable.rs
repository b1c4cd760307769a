//! Hosts without a daemon, and addresses without a host: what ICMP says of them is heard.

use crate::common::privileged;
use crate::world::{A, B, Host, KERNEL, STACK, World, wait_until};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Nobody has this address on the link of the two hosts.
const NOBODY: &str = "10.79.1.77";

fn script(mut command: Command, args: &[&str]) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/reach.py");
    command.arg("-u").arg(script).args(args);
    command
}

/// The error of a connection, after how long it came, and what was noted.
fn tried(host: &Host, command: Command, ip: &str) -> (String, f64, String) {
    let output = host.run(&mut script(command, &["connect", ip, "7000"]));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let noted = String::from_utf8_lossy(&output.stderr).into_owned();
    let (error, after) = said.trim().split_once(' ').expect("two words");
    (error.to_owned(), after.parse().expect("seconds"), noted)
}

/// Over WiFu as over the kernel's TCP, which says so at once or after three seconds of asking for a
/// neighbour.
fn as_the_kernel_says(host: &Host, ip: &str, error: &str, within: core::ops::Range<f64>) {
    for command in [host.command("python3"), host.over("tcp-newreno", "python3")] {
        let said = format!("{command:?}");
        let (got, after, _) = tried(host, command, ip);
        assert_eq!(got, error, "{ip} by {said}");
        assert!(within.contains(&after), "{ip} by {said}: {after} s");
    }
}

#[test]
fn who_is_not_there_fails_as_soon_as_the_network_says_so() {
    if !privileged() {
        return;
    }
    let mut w = World::raw("unreach");
    for args in [&[][..], &["--direct"]] {
        w.hosts[0].start_daemon(args);
        let a = &w.hosts[0];
        as_the_kernel_says(a, B, "ECONNREFUSED", 0.0..2.0);
        as_the_kernel_says(a, NOBODY, "EHOSTUNREACH", 1.0..12.0);
        as_the_kernel_says(a, "10.99.0.1", "ENETUNREACH", 0.0..2.0);
        let (.., noted) = tried(a, a.over("tcp-newreno", "python3"), B);
        let text = format!("{B} has no daemon that carries IP protocol 215");
        assert!(noted.contains(&text), "{noted}");
        let counted = w.hosts[0].stop_daemon();
        assert_eq!(counted["applications"]["unreachable"], 3, "{counted}");
    }
    w.hosts[0].start_daemon(&["--carrier", "udp"]);
    let a = &w.hosts[0];
    as_the_kernel_says(a, B, "ECONNREFUSED", 0.0..2.0);
    as_the_kernel_says(a, NOBODY, "EHOSTUNREACH", 1.0..12.0);
}

/// A program that does not wait hears the same as from the kernel: at once that there is no route,
/// and that nothing can be written before there is a connection. What it writes then arrives.
#[test]
fn who_does_not_wait_for_a_connection_can_not_write_yet() {
    if !privileged() {
        return;
    }
    let mut w = World::raw("begin");
    // Time to write before there is a connection.
    w.hosts[0].start_daemon(&["--faults", "delay=100ms"]);
    w.hosts[1].start_daemon(&[]);
    let [a, b] = [&w.hosts[0], &w.hosts[1]];
    let echo = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/echo.py");
    let mut server = b.over("tcp-newreno", "python3");
    let _server = b.serve(9000, server.arg(echo).args(["serve", "9000"]));
    let begin = |command: Command, ip: &str| {
        let output = a.run(&mut script(command, &["begin", ip, "9000"]));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let words: Vec<String> = said.split_whitespace().map(str::to_owned).collect();
        let after: f64 = words[1].parse().expect("seconds");
        assert!(after < 0.1, "{said}");
        (words[0].clone(), words[2..].join(" "))
    };
    let over = |spec| a.over(spec, "python3");
    let (waits, early) = ("EINPROGRESS".to_owned(), "EAGAIN in-time".to_owned());
    for spec in ["tcp-newreno", "tcp-newreno,snd_buf=2M"] {
        let got = begin(over(spec), B);
        assert_eq!(got, (waits.clone(), early.clone()), "{spec}");
    }
    for command in [a.command("python3"), over("tcp-newreno")] {
        let got = begin(command, NOBODY);
        assert_eq!(got, (waits.clone(), "EAGAIN EHOSTUNREACH".to_owned()));
    }
    for command in [a.command("python3"), over("tcp-newreno")] {
        let (error, _) = begin(command, "10.99.0.1");
        assert_eq!(error, "ENETUNREACH");
    }
}

#[test]
fn a_device_that_is_not_on_the_way_is_no_way() {
    if !privileged() {
        return;
    }
    let w = World::raw_up("device");
    let [a, b] = [&w.hosts[0], &w.hosts[1]];
    let echo = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/echo.py");
    let mut server = b.over("tcp-newreno", "python3");
    let _server = b.serve(9000, server.arg(echo).args(["serve", "9000"]));
    let code = "import errno, socket, sys; s = socket.socket(); \
                s.setsockopt(1, socket.SO_BINDTODEVICE, sys.argv[1].encode()); \
                print(errno.errorcode.get(s.connect_ex((sys.argv[2], 9000)), 'connected'))";
    let tried = |device| {
        let mut command = a.over("tcp-newreno", "python3");
        let output = a.run(command.args(["-c", code, device, B]));
        let noted = String::from_utf8_lossy(&output.stderr).into_owned();
        (
            String::from_utf8_lossy(&output.stdout).trim().to_owned(),
            noted,
        )
    };
    assert_eq!(tried("eth0"), ("connected".to_owned(), String::new()));
    let (error, noted) = tried("lo");
    assert_eq!(error, "ENETUNREACH");
    assert!(noted.contains("SO_BINDTODEVICE"), "{noted}");
}

#[test]
fn with_both_carriers_each_connection_hears_of_its_own() {
    if !privileged() {
        return;
    }
    let mut w = World::raw("unreach2");
    w.hosts[0].start_daemon(&["--carrier", "raw", "--carrier", "udp"]);
    let a = &w.hosts[0];
    for (spec, what) in [
        ("tcp-sack,carrier=raw", "protocol unreachable"),
        ("tcp-sack,carrier=udp", "port unreachable"),
    ] {
        let (error, after, noted) = tried(a, a.over(spec, "python3"), B);
        assert_eq!(error, "ECONNREFUSED");
        assert!(after < 2.0, "{after}");
        assert!(noted.contains(what), "{noted}");
    }
}

#[test]
fn a_router_that_knows_no_way_is_heard_on_a_tun_device() {
    if !privileged() {
        return;
    }
    let mut w = World::tun("unreach3");
    w.hosts[0].start_daemon(&[]);
    let host = &w.hosts[0];
    host.run(
        host.command("sysctl")
            .args(["-qw", "net.ipv4.ip_forward=1"]),
    );
    let (error, after, _) = tried(host, host.over("tcp-newreno", "python3"), "10.99.0.1");
    assert_eq!(error, "ENETUNREACH");
    assert!(after < 2.0, "{after}");
    // The kernel itself refuses by RST, as it did.
    let (error, ..) = tried(host, host.over("tcp-newreno", "python3"), KERNEL);
    assert_eq!(error, "ECONNREFUSED");
    assert_ne!(KERNEL, STACK);
}

#[test]
fn an_open_connection_outlives_what_the_network_says() {
    if !privileged() {
        return;
    }
    let mut w = World::raw_up("unreach4");
    let [a, b] = [0, 1];
    let echo = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/echo.py");
    let mut server = w.hosts[b].over("tcp-newreno", "python3");
    let server = w.hosts[b].serve(9000, server.arg(echo).args(["serve", "9000"]));
    let holds = |spec: &str| {
        let mut client = script(w.hosts[a].over(spec, "python3"), &["hold", B, "9000"]);
        let mut client = w.hosts[a].start(client.stdin(Stdio::piped()));
        client.says("open");
        client
    };
    // One gives up after three retransmissions, the other goes on.
    let mut short = holds("tcp-newreno,data_tries=3,rto_max=1s");
    let mut long = holds("tcp-newreno");
    w.hosts[b].kill_daemon();
    for client in [&mut short, &mut long] {
        let input = client.child.stdin.as_mut().expect("input");
        input.write_all(b"\n").expect("a line");
    }
    // What ended it in the end is what the network said of it.
    assert!(
        short.succeeds().contains("ECONNREFUSED"),
        "{}",
        short.said()
    );
    let open = |host: &Host| host.connections().iter().any(|c| c["state"] == "ESTAB");
    assert!(open(&w.hosts[a]), "{:?}", w.hosts[a].connections());
    drop(server);
    // The next daemon over there knows nothing of it, and says so.
    w.hosts[b].start_daemon(&[]);
    assert!(long.succeeds().contains("ECONNRESET"), "{}", long.said());
    assert!(wait_until(Duration::from_secs(5), || !open(&w.hosts[a])));
    assert_ne!(A, B);
}
