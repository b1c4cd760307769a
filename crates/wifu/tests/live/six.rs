//! IPv6: between hosts, on one host, with the kernel's TCP, and where it is refused.

use crate::common::privileged;
use crate::world::{A, B, Host, KERNEL, Running, STACK, WIFU, World, peer, wait_until};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Addresses of the two hosts.
const A6: &str = "fd79::1";
const B6: &str = "fd79::2";
/// The kernel's address on the TUN device, and WiFu's.
const KERNEL6: &str = "fd79:1::1";
const STACK6: &str = "fd79:1::2";

/// Two hosts on a link with addresses of both families. No daemon runs yet.
fn hosts(test: &str) -> World {
    let w = World::raw(test);
    for (host, ip) in w.hosts.iter().zip([A6, B6]) {
        let address = format!("{ip}/64");
        let add = ["-6", "addr", "add", &address, "dev", "eth0", "nodad"];
        host.run(host.command("ip").args(add));
    }
    w
}

fn up(test: &str, args: &[&str]) -> World {
    let mut w = hosts(test);
    w.hosts.iter_mut().for_each(|h| h.start_daemon(args));
    w
}

fn script(mut command: Command, args: &[&str]) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/six.py");
    command.arg("-u").arg(script).args(args);
    command
}

/// Both ways at once, to this address of a server that listens at that one.
fn exchange(hosts: [&Host; 2], spec: &str, (at, to): (&str, &str), octets: &str) {
    let [client, server] = hosts;
    let play = |host: &Host, who, ip| {
        peer(
            host.over(spec, "python3"),
            &[who, ip, "7000", "exchange", octets],
        )
    };
    // One before it may still be listed at this port: it says itself that it listens.
    let mut there = server.start(&mut play(server, "listen", at));
    there.says("listening");
    let mut here = client.start(&mut play(client, "connect", to));
    let (there, here) = (there.report(), here.report());
    assert_eq!(there["count"].to_string(), octets);
    assert_eq!(
        (&there["got"], &here["got"]),
        (&here["sent"], &there["sent"])
    );
}

/// Connections that the kernel's TCP opened or took.
fn of_the_kernel(host: &Host) -> u64 {
    host.kernel("Tcp", "ActiveOpens") + host.kernel("Tcp", "PassiveOpens")
}

/// How many packets of a capture go from `src` to `dst` by IPv6 under this protocol number.
fn captured(file: &Path, src: &str, dst: &str, number: u8) -> usize {
    let octets = std::fs::read(file).expect("a capture");
    let [src, dst] = [src, dst].map(|a| a.parse::<std::net::Ipv6Addr>().expect("address"));
    let ends = [src.octets(), dst.octets()].concat();
    let headers = octets.windows(40).filter(|w| w[8..] == ends);
    headers.filter(|w| w[0] == 0x60 && w[6] == number).count()
}

fn carried(counted: &Value, carrier: &str) -> u64 {
    let all = counted["carriers"].as_array().expect("carriers");
    let found = all.iter().find(|c| c[0] == carrier).expect("the carrier");
    found[1]["received"].as_u64().expect("a number")
}

#[test]
fn octets_cross_a_link_whole_and_it_is_not_the_kernel_that_carries_them() {
    if !privileged() {
        return;
    }
    let mut w = hosts("six");
    let captures = [0, 1].map(|i| w.dir.join(format!("{i}.pcapng")));
    for (host, capture) in w.hosts.iter_mut().zip(&captures) {
        host.start_daemon(&["--pcap", capture.to_str().expect("a name")]);
    }
    let [a, b] = [&w.hosts[0], &w.hosts[1]];
    exchange([a, b], "tcp-cubic", (B6, B6), "5000000");
    exchange([a, b], "tcp-sack", ("::", B6), "1000000");
    assert_eq!([of_the_kernel(a), of_the_kernel(b)], [0, 0]);
    for (i, [from, to]) in [[A6, B6], [B6, A6]].into_iter().enumerate() {
        let counted = w.hosts[i].stop_daemon();
        assert!(carried(&counted, "raw") > 3000, "{counted}");
        for (number, least) in [(220, 2500), (216, 500)] {
            let n = captured(&captures[i], from, to, number);
            assert!(n > least, "{n} packets of {number} from {from}");
        }
    }
}

#[test]
fn octets_survive_a_bad_link() {
    if !privileged() {
        return;
    }
    let faults = "loss=2%,reorder=5%,duplicate=1%,corrupt=0.5%,seed=1";
    let mut w = up("six-bad", &["--faults", faults]);
    let [a, b] = [&w.hosts[0], &w.hosts[1]];
    exchange([a, b], "tcp-newreno,rto_min=200ms", ("::", B6), "1000000");
    let counted = w.hosts[1].stop_daemon();
    assert!(
        counted["dropped"]["checksum"].as_u64() > Some(0),
        "{counted}"
    );
}

/// A connection that is there until it is told to end: its names, and itself.
fn held(host: &Host, spec: &str, ip: &str, port: &str) -> Running {
    let mut client = script(host.over(spec, "python3"), &["hold", ip, port]);
    let mut client = host.start(client.stdin(Stdio::piped()));
    client.says("from");
    client
}

fn ends(mut client: Running) -> String {
    let input = client.child.stdin.as_mut().expect("input");
    input.write_all(b"\n").expect("a line");
    client.succeeds()
}

#[test]
fn one_host_talks_to_itself_and_wifu_ss_shows_it() {
    if !privileged() {
        return;
    }
    let mut w = up("six-self", &[]);
    let a = &w.hosts[0];
    exchange([a, a], "tcp-newreno", ("::1", "::1"), "3000000");
    exchange([a, a], "tcp-newreno", (A6, A6), "300000");
    let mut server = script(a.over("tcp-newreno", "python3"), &["both", "7001"]);
    let server = a.serve(7001, &mut server);
    let client = held(a, "tcp-newreno", "::1", "7001");
    let all = a.connections();
    let listening = all.iter().find(|c| c["state"] == "LISTEN").expect("it");
    assert_eq!(
        (&listening["local"], &listening["remote"]),
        (&"*:7001".into(), &"*:*".into())
    );
    let open = all.iter().filter(|c| c["state"] == "ESTAB");
    let remotes: Vec<&str> = open.filter_map(|c| c["remote"].as_str()).collect();
    assert_eq!(remotes.len(), 2, "{all:?}");
    assert!(remotes.contains(&"[::1]:7001"), "{remotes:?}");
    // RFC 9293 3.7.1: what the MTU leaves beside both headers and timestamps.
    let mss: Vec<&Value> = all
        .iter()
        .filter(|c| c["state"] == "ESTAB")
        .map(|c| &c["mss"])
        .collect();
    assert_eq!(mss, [&Value::from(1500 - 40 - 32); 2]);
    let shown = a.run(a.command(WIFU).arg("ss"));
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("[::1]:7001"), "{shown}");
    assert!(ends(client).contains("from ::1 to ::1"));
    assert!(
        server.said().contains("from ::1 at ::1"),
        "{}",
        server.said()
    );
    assert_eq!(of_the_kernel(a), 0);
    let counted = w.hosts[0].stop_daemon();
    assert!(carried(&counted, "raw") > 1000, "{counted}");
}

#[test]
fn a_socket_at_no_address_takes_both_families_and_two_take_one_each() {
    if !privileged() {
        return;
    }
    let w = up("six-both", &[]);
    let [a, b] = [&w.hosts[0], &w.hosts[1]];
    for (how, port, v4) in [("both", "7001", "::ffff:"), ("only", "7002", "")] {
        let mut server = script(b.over("tcp-sack", "python3"), &[how, port]);
        let server = b.serve(port.parse().expect("a port"), &mut server);
        let mapped = format!("::ffff:{B}");
        for (to, said) in [
            (B6, format!("from {A6} at {B6}")),
            (&mapped, format!("from {v4}{A} at {v4}{B}")),
        ] {
            let names = ends(held(a, "tcp-sack", to, port));
            assert!(names.contains(&format!("to {to}")), "{names}");
            let heard = wait_until(Duration::from_secs(5), || server.said().contains(&said));
            assert!(heard, "{said}: {}", server.said());
        }
    }
}

#[test]
fn names_and_errors_are_those_of_the_kernels_tcp() {
    if !privileged() {
        return;
    }
    let w = up("six-names", &[]);
    let a = &w.hosts[0];
    for command in [a.command("python3"), a.over("tcp-newreno", "python3")] {
        let said = a.run(&mut script(command, &["names", "7003"]));
        assert_eq!(said.stdout, b"as it should be\n");
        assert_eq!(String::from_utf8_lossy(&said.stderr), "");
    }
    // Of addresses that need a scope WiFu has none.
    let said = a.run(&mut script(
        a.over("tcp-newreno", "python3"),
        &["hold", "fe80::1%eth0", "1"],
    ));
    assert_eq!(said.stdout, b"ENETUNREACH\n");
    let noted = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(
        noted.contains("addresses of one link (fe80::/10)"),
        "{noted}"
    );
    // Nobody else may have what a socket for both has.
    let code = "import errno, socket, sys; a = socket.socket(socket.AF_INET6); \
                a.bind(('::', 7004)); a.listen(); b = socket.socket(socket.AF_INET6); \
                b.setsockopt(41, 26, 1); \
                b.bind(('::', 7004)); b.listen()";
    let mut command = a.over("tcp-newreno", "python3");
    let output = command.args(["-c", code]).output().expect("python3");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("Address already in use"), "{said}");
}

/// The error of a connection, and what was noted.
fn tried(host: &Host, spec: &str, ip: &str) -> (String, String) {
    let output = host.run(&mut script(
        host.over(spec, "python3"),
        &["hold", ip, "7000"],
    ));
    let [said, noted] =
        [output.stdout, output.stderr].map(|o| String::from_utf8_lossy(&o).into_owned());
    (said.trim().to_owned(), noted)
}

/// A host without an address of the network: the kernel takes that of the link, which nobody
/// answers.
#[test]
fn where_a_host_has_an_address_of_a_link_only_it_is_told_so() {
    if !privileged() {
        return;
    }
    let w = up("six-link", &[]);
    let a = &w.hosts[0];
    let whole = format!("{A6}/64");
    for args in [
        &["-6", "addr", "del", &whole, "dev", "eth0"][..],
        &[
            "-6",
            "addr",
            "replace",
            "fe80::aa/64",
            "dev",
            "eth0",
            "nodad",
        ],
        &["-6", "route", "replace", "fd79::/64", "dev", "eth0"],
    ] {
        a.run(a.command("ip").args(args));
    }
    let begun = std::time::Instant::now();
    let (error, noted) = tried(a, "tcp-newreno", B6);
    assert_eq!(error, "EADDRNOTAVAIL", "{noted}");
    assert!(noted.contains("this host has no other one"), "{noted}");
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn who_is_not_there_fails_as_soon_as_icmpv6_says_so() {
    if !privileged() {
        return;
    }
    let mut w = hosts("six-none");
    for args in [&[][..], &["--direct"]] {
        w.hosts[0].start_daemon(args);
        let a = &w.hosts[0];
        let (error, noted) = tried(a, "tcp-newreno", B6);
        assert_eq!(error, "ECONNREFUSED");
        let text = format!("{B6} has no daemon that carries IP protocol 215");
        assert!(noted.contains(&text), "{noted}");
        assert_eq!(tried(a, "tcp-newreno", "fd79::77").0, "EHOSTUNREACH");
        assert_eq!(tried(a, "tcp-newreno", "2001:db8::1").0, "ENETUNREACH");
        let counted = w.hosts[0].stop_daemon();
        assert_eq!(counted["applications"]["unreachable"], 2, "{counted}");
    }
}

#[test]
fn programs_that_ask_for_names_first_talk_over_ipv6() {
    if !privileged() {
        return;
    }
    let w = up("six-http", &[]);
    let [a, b] = [&w.hosts[0], &w.hosts[1]];
    let digest = w.random_file("served", 2_000_000);
    let mut server = b.over("tcp-cubic", "python3");
    let _server = b.serve(
        8000,
        server.args(["-m", "http.server", "--bind", "::", "8000"]),
    );
    for (ip, family) in [(format!("[{B6}]"), "-6"), (B.to_owned(), "-4")] {
        let url = format!("http://{ip}:8000/served");
        let mut curl = a.over("tcp-cubic", "curl");
        a.run(curl.args([family, "-sSgfo", "got", &url]));
        assert_eq!(w.digest("got"), digest, "{url}");
    }
    assert_eq!([of_the_kernel(a), of_the_kernel(b)], [0, 0]);
}

#[test]
fn the_kernels_tcp_talks_to_ours_through_a_tun_device() {
    if !privileged() {
        return;
    }
    let mut w = World::tun("six-tun");
    w.hosts[0].start_daemon(&["--address", STACK6, "--kernel-address", KERNEL6]);
    let host = &w.hosts[0];
    let digest = w.random_file("served", 2_000_000);
    let mut server = host.over("tcp-cubic", "python3");
    let _server = host.serve(
        8000,
        server.args(["-m", "http.server", "--bind", "::", "8000"]),
    );
    for (ip, family) in [(format!("[{STACK6}]"), "-6"), (STACK.to_owned(), "-4")] {
        let url = format!("http://{ip}:8000/served");
        host.run(host.command("curl").args([family, "-sSgfo", "got", &url]));
        assert_eq!(w.digest("got"), digest, "{url}");
    }
    // And ours to the kernel's.
    let mut server = host.command("python3");
    server.args(["-m", "http.server", "--bind", KERNEL6, "8001"]);
    let _server = host.start(&mut server);
    let url = format!("http://[{KERNEL6}]:8001/served");
    let mut curl = host.over("tcp-cubic", "curl");
    curl.args([
        "-sSgfo",
        "back",
        "--retry",
        "20",
        "--retry-delay",
        "1",
        "--retry-connrefused",
        &url,
    ]);
    host.run(&mut curl);
    assert_eq!(w.digest("back"), digest);
    assert_eq!(host.kernel("TcpExt", "TCPAbortOnData"), 0);
    assert_ne!(KERNEL, STACK);
    w.hosts[0].stop_daemon();
    w.hosts[0].start_daemon(&[]);
    let (error, noted) = tried(&w.hosts[0], "tcp-cubic", KERNEL6);
    assert_eq!(error, "ENETUNREACH");
    assert!(
        noted.contains("its TUN device has no IPv6 address"),
        "{noted}"
    );
}

#[test]
fn what_knows_ipv4_alone_is_refused_with_the_reason() {
    if !privileged() {
        return;
    }
    let mut w = hosts("six-refused");
    let text = "[protocol.snooped]\nextends = \"tcp-newreno\"\nnumber = 245\n\
                [handlers.snooped]\nchain = [\"snoop\"]\n";
    let file = w.dir.join("snooped.toml");
    std::fs::write(&file, text).expect("file");
    let file = file.to_str().expect("a name");
    for host in &mut w.hosts {
        host.start_daemon(&["--file", file, "--serve", "snooped"]);
    }
    let [a, b] = [&w.hosts[0], &w.hosts[1]];
    let (error, noted) = tried(a, "snooped", B6);
    assert_eq!(error, "ENETUNREACH");
    let why = "snooped is not carried over IPv6: it has something to do on every node";
    assert!(noted.contains(why), "{noted}");
    // It takes IPv4 at a socket for both, and at one for IPv6 alone nothing, of which it is told.
    let mut server = script(b.over("snooped", "python3"), &["both", "7001"]);
    let _server = b.serve(7001, &mut server);
    ends(held(a, "snooped", &format!("::ffff:{B}"), "7001"));
    let mut server = script(b.over("snooped", "python3"), &["only", "7002"]);
    let mut server = b.start(&mut server);
    server.says("the IPv6-only socket on port 7002 stays silent: snooped is not carried");
    ends(held(a, "snooped", &format!("::ffff:{B}"), "7002"));
    // Nor do packets of it come in: the kernel answers that it knows no such next header.
    let refused = |host: &Host| {
        let text = host
            .ns
            .run(|| std::fs::read_to_string("/proc/thread-self/net/snmp6"));
        let text = text.expect("namespace").expect("counters");
        let line = text.lines().find(|l| l.starts_with("Icmp6OutParmProblems"));
        line.expect("a counter").ends_with(" 1") || line.expect("it").ends_with("\t1")
    };
    assert!(!refused(b));
    let code = "import socket, sys; s = socket.socket(socket.AF_INET6, socket.SOCK_RAW, 245); \
                s.sendto(bytes(40), (sys.argv[1], 0))";
    a.run(a.command("python3").args(["-c", code, B6]));
    assert!(wait_until(Duration::from_secs(5), || refused(b)));
    // What the node has nothing to do with passes it by.
    exchange([a, b], "tcp-sack", ("::", B6), "1000000");
    for host in &mut w.hosts {
        host.stop_daemon();
        host.start_daemon(&["--carrier", "udp"]);
    }
    let (error, noted) = tried(&w.hosts[0], "tcp-sack", B6);
    assert_eq!(error, "ENETUNREACH");
    assert!(
        noted.contains("the carrier udp carries IPv4 alone"),
        "{noted}"
    );
}
