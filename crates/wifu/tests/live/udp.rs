//! The carrier over UDP: through a network that drops what it does not know, and without rights.

use crate::common::privileged;
use crate::world::{A, B, FAR, Host, KERNEL, Running, STACK, WIFU, World, peer, wait_until};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

/// Three hosts in a row, of which the one in the middle forwards UDP and drops all else.
fn row(test: &str) -> World {
    let w = World::row(test);
    let relay = &w.hosts[1];
    relay.run(
        relay
            .command("sysctl")
            .args(["-qw", "net.ipv4.ip_forward=1"]),
    );
    let drop = ["-A", "FORWARD", "!", "-p", "udp", "-j", "DROP"];
    relay.run(relay.command("iptables").args(drop));
    w
}

fn transfer(w: &World, reach: impl Fn(&Host) -> Vec<(&'static str, String)>) -> (Value, Value) {
    let [near, _, far] = &w.hosts[..] else {
        unreachable!("three hosts");
    };
    let play = |host: &Host, who: &str| -> Command {
        let mut command = peer(
            host.over("tcp-newreno", "python3"),
            &[who, FAR, "7000", "exchange", "3000000"],
        );
        command.envs(reach(host));
        command
    };
    let mut server = far.start(&mut play(far, "listen"));
    server.says("listening");
    let mut client = near.start(&mut play(near, "connect"));
    let (there, here) = (server.report(), client.report());
    assert_eq!(
        (&there["got"], &here["got"]),
        (&here["sent"], &there["sent"])
    );
    (there, here)
}

#[test]
fn packets_pass_where_only_udp_does() {
    if !privileged() {
        return;
    }
    let mut w = row("udp");
    for i in [0, 2] {
        w.hosts[i].start_daemon(&["--carrier", "udp"]);
    }
    let (there, _) = transfer(&w, |_| Vec::new());
    assert_eq!(there["count"], 3_000_000);
    let counted = w.hosts[2].stop_daemon();
    let carrier = &counted["carriers"][0];
    assert_eq!(carrier[0], "udp");
    let number = |key: &str| {
        carrier[1][key]
            .as_u64()
            .unwrap_or_else(|| panic!("{carrier}"))
    };
    // Twelve octets less than by raw sockets, and none of them in fragments.
    assert!(number("received_octets") / number("received") <= 1488);
    assert!(number("received") > 3_000_000 / 1448, "{carrier}");
    assert_eq!(
        (number("refused"), number("truncated")),
        (0, 0),
        "{carrier}"
    );
}

/// By whichever carrier: what each packet takes is counted, and is what the time went to.
#[test]
fn a_daemon_takes_the_time_of_a_stack_in_python() {
    if !privileged() {
        return;
    }
    for carrier in ["raw", "udp"] {
        let mut w = row(&format!("py-{carrier}"));
        let relay = &w.hosts[1];
        relay.run(relay.command("iptables").args(["-F", "FORWARD"]));
        let more = ["--carrier", carrier, "--host-profile", "py"];
        w.hosts[0].start_daemon(&[&more[..], &["--host-slower", "0.5"]].concat());
        w.hosts[2].start_daemon(&["--carrier", carrier]);
        let begun = std::time::Instant::now();
        let (there, _) = transfer(&w, |_| Vec::new());
        let lasted = begun.elapsed().as_secs_f64();
        assert_eq!(there["count"], 3_000_000);
        let host = w.hosts[0].stop_daemon()["host"].clone();
        println!("{carrier}: {host}, {lasted:.3} s");
        let number = |key: &str| host[key].as_f64().unwrap_or_else(|| panic!("{host}"));
        let (sent, received, busy) = (number("sent"), number("received"), number("busy_s"));
        // 3 MB in segments of 1448 octets each way, and what acknowledges them.
        assert!(sent > 2072.0 && received > 2072.0, "{host}");
        assert!(
            (busy - 1.2e-3 * sent - 0.6e-3 * received).abs() < 1e-6,
            "{host}"
        );
        assert!(
            lasted > 0.5 * busy,
            "{host}: {lasted} s, of half the length"
        );
        // The window is larger than the buffer: what does not fit is dropped and comes again.
        assert!(number("most_waiting") <= 212_992.0, "{host}");
        assert!(w.hosts[2].stop_daemon()["host"].is_null());
    }
}

#[test]
fn a_daemon_needs_no_rights_for_it() {
    if !privileged() {
        return;
    }
    let w = row("user");
    let folder = w.dir.join("theirs");
    std::fs::create_dir(&folder).expect("folder");
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).expect("rights");
    let socket = |host: &Host| folder.join(format!("{}.sock", host.ns.name()));
    let daemons: Vec<Running> = [0, 2]
        .map(|i| {
            let host = &w.hosts[i];
            let mut command = host.command("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
            command.args([WIFU, "daemon", "--carrier", "udp", "--port", "9777"]);
            command.arg("--socket").arg(socket(host));
            let mut daemon = host.start(&mut command);
            daemon.says("ready: ");
            daemon
        })
        .into();
    let (there, _) = transfer(&w, |host| {
        vec![("WIFU_SOCKET", socket(host).display().to_string())]
    });
    assert_eq!(there["count"], 3_000_000);
    for daemon in daemons {
        daemon.kill();
    }
}

/// A number of a daemon's carrier by its name.
fn of(counted: &Value, name: &str, key: &str) -> u64 {
    let carriers = counted["carriers"].as_array().expect("a list");
    let carrier = carriers
        .iter()
        .find(|c| c[0].as_str().is_some_and(|n| n.starts_with(name)));
    let carrier = carrier.unwrap_or_else(|| panic!("no {name}: {counted}"));
    carrier[1][key]
        .as_u64()
        .unwrap_or_else(|| panic!("{carrier}"))
}

const TUN: [&str; 6] = [
    "--carrier",
    "tun",
    "--address",
    STACK,
    "--kernel-address",
    KERNEL,
];

/// A server of the world's folder.
fn http(mut command: Command, ip: &str, port: u16) -> Command {
    command.args(["-m", "http.server", "--bind", ip, &port.to_string()]);
    command
}

#[test]
fn one_daemon_serves_by_three_carriers_at_once() {
    if !privileged() {
        return;
    }
    const SIZE: usize = 20_000_000;
    let mut w = World::raw("three");
    let digest = w.random_file("file", SIZE);
    let both = ["--carrier", "raw", "--carrier", "udp"];
    let args = [&both[..], &TUN, &["--pcap", "three.pcapng"]].concat();
    w.hosts[0].start_daemon(&args);
    w.hosts[1].start_daemon(&both);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    without_rights(a);
    // The same composition on all three; without a word it is the first that is no TUN device.
    let ways = [
        ("tcp-sack", A, 8001_u16, "raw"),
        ("tcp-sack,carrier=udp", A, 8002, "udp"),
        ("tcp-sack,carrier=tun", STACK, 8003, "tun"),
    ];
    let _servers =
        ways.map(|(spec, ip, port, _)| a.serve(port, &mut http(a.over(spec, "python3"), ip, port)));
    // Who comes by another carrier than the socket's finds nobody.
    let mut curl = b.over("tcp-sack", "curl");
    curl.args(["-sS", "-m", "20", &format!("http://{A}:8002/file")]);
    let output = curl.output().expect("curl");
    assert_eq!(output.status.code(), Some(7), "{output:?}: refused");
    let curls = ways.map(|(spec, ip, port, name)| {
        let mut curl = match name {
            "tun" => a.command("curl"),
            _ => b.over(spec, "curl"),
        };
        let url = format!("http://{ip}:{port}/file");
        let host = if name == "tun" { a } else { b };
        host.start(curl.args(["-sSf", "-m", "80", "-o", name, &url]))
    });
    for mut curl in curls {
        curl.succeeds();
    }
    for (.., name) in ways {
        assert_eq!(w.digest(name), digest, "by {name}");
    }
    // Who closed first remembers its connection for a while.
    let listed = [a.connections(), b.connections()].concat();
    for (name, number) in [("raw", 216), ("udp", 216), ("tun", 6)] {
        // Its number proper, whichever the daemon has for it.
        let ours = |c: &&Value| c["carrier"] == name && c["number"] == number;
        let moved = |c: &Value| {
            let octets = ["octets_in", "octets_out"].map(|way| c[way].as_u64());
            octets.iter().any(|n| *n > Some(SIZE as u64))
        };
        assert!(listed.iter().filter(ours).any(moved), "{name}: {listed:?}");
    }
    let counted = w.hosts[0].stop_daemon();
    for name in ["raw", "udp", "wifu"] {
        let sent = of(&counted, name, "sent_octets");
        assert!(
            (20_000_000..30_000_000).contains(&sent),
            "{name}: {counted}"
        );
    }
    // Many packets per call, of which the one over UDP alone may be groups.
    let per_call = of(&counted, "udp", "sent") / of(&counted, "udp", "send_calls");
    assert!(per_call >= 2, "{counted}");
    shown(&w);
}

/// A running daemon has no capabilities, whatever carriers it has.
fn without_rights(host: &Host) {
    let pid = host.daemon.as_ref().expect("a daemon").child.id();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    for set in ["CapEff:", "CapPrm:", "CapInh:"] {
        let line = status.lines().find_map(|l| l.strip_prefix(set));
        assert_eq!(line.map(str::trim), Some("0000000000000000"), "{set}");
    }
}

/// The capture has each carrier's packets under its name, with the number proper.
fn shown(w: &World) {
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(w.dir.join("three.pcapng"));
    tshark.args([
        "-T",
        "fields",
        "-e",
        "frame.interface_name",
        "-e",
        "ip.proto",
    ]);
    let output = tshark.output().expect("tshark");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut kinds: Vec<&str> = text.lines().collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), 3, "{kinds:?}");
    assert_eq!(kinds[..2], ["raw\t216", "udp\t216"]);
    assert!(kinds[2].starts_with("wifu") && kinds[2].ends_with("\t6"));
}

#[test]
fn the_first_carrier_is_the_one_of_compositions_that_name_none() {
    if !privileged() {
        return;
    }
    let mut w = World::raw("first");
    for host in &mut w.hosts {
        host.start_daemon(&["--carrier", "udp", "--carrier", "raw"]);
    }
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    for (spec, port) in [("tcp-cubic", "7001"), ("tcp-cubic,carrier=raw", "7002")] {
        let play = |host: &Host, who: &str| {
            let args = [who, A, port, "exchange", "1000000"];
            peer(host.over(spec, "python3"), &args)
        };
        let mut server = a.start(&mut play(a, "listen"));
        server.says("listening");
        let mut client = b.start(&mut play(b, "connect"));
        let (there, here) = (server.report(), client.report());
        assert_eq!(there["got"], here["sent"]);
    }
    let output = b.over("tcp-cubic,carrier=tun", "true").output();
    let said = String::from_utf8_lossy(&output.expect("wifu").stderr).into_owned();
    assert!(said.contains("start it with --carrier tun"), "{said}");
    let counted = w.hosts[0].stop_daemon();
    for name in ["raw", "udp"] {
        let got = of(&counted, name, "received_octets");
        assert!((1_000_000..2_000_000).contains(&got), "{name}: {counted}");
    }
}

#[test]
fn errors_of_the_path_end_nothing() {
    if !privileged() {
        return;
    }
    let mut w = World::raw("path");
    for host in &mut w.hosts {
        host.start_daemon(&["--carrier", "udp"]);
    }
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    // An address that refuses, by ICMP, and one to which the way takes less than the daemon sends:
    // the kernel refuses each long datagram with EMSGSIZE.
    let narrow = "10.79.3.1";
    for address in ["10.79.1.66/24", "10.79.3.1/24"] {
        let mut ip = b.command("ip");
        b.run(ip.args(["addr", "add", address, "dev", "eth0"]));
    }
    let reject = [
        "-A",
        "INPUT",
        "-d",
        "10.79.1.66",
        "-p",
        "udp",
        "-j",
        "REJECT",
    ];
    b.run(b.command("iptables").args(reject));
    let mut ip = a.command("ip");
    a.run(ip.args(["route", "add", narrow, "via", B, "mtu", "lock", "700"]));
    let mut curl = a.over("tcp-newreno", "curl");
    let mut refused = a.start(curl.args(["-sS", "-m", "10", "http://10.79.1.66:9/"]));
    let play = |host: &Host, who: &str, ip: &str, port: &str| {
        let args = [who, ip, port, "exchange", "3000000"];
        peer(host.over("tcp-newreno", "python3"), &args)
    };
    let mut server = b.start(&mut play(b, "listen", B, "7000"));
    let mut other = b.start(&mut play(b, "listen", narrow, "7001"));
    server.says("listening");
    other.says("listening");
    let stuck = a.start(&mut play(a, "connect", narrow, "7001"));
    // The kernel has refused what it sent: it is taken for lost.
    let stands = |c: &Value| {
        let there = c["remote"].as_str().is_some_and(|r| r.starts_with(narrow));
        there && c["timeouts"].as_u64() > Some(0)
    };
    assert!(wait_until(Duration::from_secs(20), || {
        a.connections().iter().any(stands)
    }));
    let mut client = a.start(&mut play(a, "connect", B, "7000"));
    let (there, here) = (server.report(), client.report());
    assert_eq!(there["got"], here["sent"]);
    assert!(!refused.ends().success(), "{}", refused.said());
    stuck.kill();
    other.kill();
    let counted = w.hosts[0].stop_daemon();
    assert_eq!(of(&counted, "udp", "receive_errors"), 0, "{counted}");
    assert!(of(&counted, "udp", "refused") > 0, "{counted}");
    assert!(of(&counted, "udp", "sent_octets") > 3_000_000, "{counted}");
}

#[test]
fn a_daemon_that_serves_carries_others_over_udp() {
    if !privileged() {
        return;
    }
    let mut w = World::raw("udp-serve");
    let snooped = "[protocol.snooped]\nextends = \"tcp-newreno\"\nnumber = 245\n\
        [handlers.snooped]\nchain = [\"snoop\"]\n";
    std::fs::write(w.dir.join("snooped.toml"), snooped).expect("file");
    let args = "--file snooped.toml --serve snooped --carrier raw --carrier udp";
    let args: Vec<&str> = args.split(' ').collect();
    w.hosts.iter_mut().for_each(|h| h.start_daemon(&args));
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    for (spec, port) in [("tcp-newreno,carrier=udp", "7001"), ("snooped", "7002")] {
        let play = |host: &Host, who: &str| {
            let args = [who, A, port, "exchange", "1000000"];
            peer(host.over(spec, "python3"), &args)
        };
        let mut server = a.start(&mut play(a, "listen"));
        server.says("listening");
        let mut client = b.start(&mut play(b, "connect"));
        let (there, here) = (server.report(), client.report());
        assert_eq!(
            (&there["got"], &here["got"]),
            (&here["sent"], &there["sent"])
        );
    }
    let output = b.over("snooped,carrier=udp", "true").output();
    let said = String::from_utf8_lossy(&output.expect("wifu").stderr).into_owned();
    assert!(said.contains("take carrier=raw"), "{said}");
    let counted = w.hosts[0].stop_daemon();
    let got = of(&counted, "udp", "received_octets");
    assert!((1_000_000..1_300_000).contains(&got), "{counted}");
    assert_eq!(counted["packets"]["queue"], 0, "{counted}");
}
