//! With the kernel's TCP, through TUN devices.

use serde_json::Value;
use std::process::Command;
use std::time::Duration;

use super::common::privileged;
use super::world::{A, Host, KERNEL, Running, STACK, World, nginx, peer, wait_until};

/// What goes each way in an exchange, octets.
const SIZE: &str = "10000000";
const FAULTS: &str = "loss=2%,reorder=5%,duplicate=1%,corrupt=0.1%,seed=1";

/// Bits of `tcpi_options`.
const TIMESTAMPS: u64 = 1;
const SACK: u64 = 2;
const SCALING: u64 = 4;

/// Either end over WiFu's TCP.
fn ours(host: &Host, spec: &str, args: &[&str]) -> Command {
    peer(host.over(spec, "python3"), args)
}

/// Either end over the kernel's TCP.
fn theirs(host: &Host, args: &[&str]) -> Command {
    peer(host.command("python3"), args)
}

/// A kernel's server and our client: who listens, who connects.
fn kernel_listens(
    host: &Host,
    spec: &str,
    port: u16,
    listen: &[&str],
    connect: &[&str],
) -> (Running, Running) {
    let port = port.to_string();
    let mut server = host.start(&mut theirs(
        host,
        &[&["listen", KERNEL, &port], listen].concat(),
    ));
    server.says("listening");
    let client = ours(host, spec, &[&["connect", KERNEL, &port], connect].concat());
    (server, host.start(&mut { client }))
}

/// Our server and a kernel's client.
fn we_listen(
    host: &Host,
    spec: &str,
    port: u16,
    listen: &[&str],
    connect: &[&str],
) -> (Running, Running) {
    let text = port.to_string();
    let mut server = ours(host, spec, &[&["listen", STACK, &text], listen].concat());
    let server = host.serve(port, &mut server);
    let client = theirs(host, &[&["connect", STACK, &text], connect].concat());
    (server, host.start(&mut { client }))
}

/// What one sent, the other one got; gives both reports.
fn compare((mut a, mut b): (Running, Running), size: &str) -> [Value; 2] {
    let (a, b) = (a.report(), b.report());
    for (from, to) in [(&a, &b), (&b, &a)] {
        assert_eq!(to["count"].to_string(), size, "{a} {b}");
        assert_eq!(from["sent"], to["got"], "{a} {b}");
    }
    [a, b]
}

/// Both ways at once and both roles at once, clean and with faults in both directions.
fn exchanges(protocol: &str) {
    if !privileged() {
        return;
    }
    let mut w = World::tun(&format!("io-{}", protocol.trim_start_matches("tcp-")));
    let host = &mut w.hosts[0];
    let spec = format!("{protocol},profile=rfc-modern,rto_min=200ms");
    let selective = ["tcp-sack", "tcp-cubic"].contains(&protocol);
    let wanted = TIMESTAMPS | SCALING | if selective { SACK } else { 0 };
    for faults in [&[][..], &["--faults", FAULTS, "--faults-in", FAULTS]] {
        host.start_daemon(faults);
        let before = host.kernel("Tcp", "RetransSegs");
        // Without faults they wait for a file, so that both are seen while they are open.
        let begin = if faults.is_empty() { "go" } else { "0" };
        let how = ["exchange", SIZE, begin];
        let first = kernel_listens(host, &spec, 7001, &how, &how);
        let second = we_listen(host, &spec, 7002, &how, &how);
        if faults.is_empty() {
            seen(host, protocol, selective);
            std::fs::write(w.dir.join("go"), "").expect("file");
        }
        for report in [compare(first, SIZE), compare(second, SIZE)]
            .iter()
            .flatten()
        {
            // Both what the kernel says and what WiFu says in the kernel's words.
            assert_eq!(report["options"], wanted, "{report}");
        }
        let counted = host.stop_daemon();
        let carried = &counted["carriers"][0][1];
        for way in ["sent_octets", "received_octets"] {
            assert!(carried[way].as_u64() > Some(20_000_000), "{counted}");
        }
        if faults.is_empty() {
            // Nothing gets lost between the kernel and us unless we order it.
            let again = host.kernel("Tcp", "RetransSegs") - before;
            assert!(again < 20, "{again} retransmissions: {counted}");
            continue;
        }
        for way in ["faults", "faults_in"] {
            for kind in ["lost", "reordered", "duplicated"] {
                assert!(
                    counted[way][kind].as_u64() > Some(50),
                    "{way} {kind}: {counted}"
                );
            }
        }
    }
}

/// Both connections are in the daemon's list, as what they are.
fn seen(host: &Host, protocol: &str, selective: bool) {
    let open = |c: &Value| c["number"] == 6 && c["state"] == "ESTAB";
    let mut all = Vec::new();
    wait_until(Duration::from_secs(20), || {
        all = host.connections();
        all.retain(open);
        all.len() == 2
    });
    assert_eq!(all.len(), 2, "{all:?}");
    for c in all {
        assert_eq!(c["protocol"], protocol);
        let options = c["options"].as_str().expect("text").split(' ');
        let options: Vec<&str> = options.collect();
        assert!(options.contains(&"ts"), "{c}");
        assert!(options.iter().any(|o| o.starts_with("wscale:")), "{c}");
        assert_eq!(options.contains(&"sack"), selective, "{c}");
    }
}

#[test]
fn tahoe_and_the_kernel_exchange_10_mb_both_ways() {
    exchanges("tcp-tahoe");
}

#[test]
fn reno_and_the_kernel_exchange_10_mb_both_ways() {
    exchanges("tcp-reno");
}

#[test]
fn newreno_and_the_kernel_exchange_10_mb_both_ways() {
    exchanges("tcp-newreno");
}

#[test]
fn sack_and_the_kernel_exchange_10_mb_both_ways() {
    exchanges("tcp-sack");
}

#[test]
fn cubic_and_the_kernel_exchange_10_mb_both_ways() {
    exchanges("tcp-cubic");
}

/// A composition that most of the single situations use.
const SPEC: &str = "tcp-sack,profile=rfc-modern,rto_min=200ms";

/// One host whose kernel and daemon talk to each other, cleanly.
fn tun(test: &str) -> Option<World> {
    privileged().then(|| {
        let mut w = World::tun(test);
        w.hosts[0].start_daemon(&[]);
        w
    })
}

#[test]
fn a_window_that_closes_opens_again_on_either_side() {
    let Some(w) = tun("io-zero") else { return };
    let host = &w.hosts[0];
    let before = host.kernel("TcpExt", "TCPWinProbe");
    // Our application does not read for a while: the kernel probes our window.
    let small = format!("{SPEC},rcv_wnd=64KiB");
    let (mut server, mut client) =
        we_listen(host, &small, 7001, &["take", "2"], &["give", "5000000"]);
    let (got, sent) = (server.report(), client.report());
    assert_eq!(
        (&got["got"], &got["count"]),
        (&sent["sent"], &5_000_000.into())
    );
    let probes = host.kernel("TcpExt", "TCPWinProbe") - before;
    assert!(probes >= 2, "the kernel sent {probes} window probes");
    // The kernel's application does not read: we probe.
    let mut server = host.start(&mut theirs(
        host,
        &["listen", KERNEL, "7002", "take", "2.5"],
    ));
    server.says("listening");
    let client = ours(host, SPEC, &["connect", KERNEL, "7002", "give", "20000000"]);
    let mut client = host.start(&mut { client });
    let waits = || {
        let all = host.connections();
        all.iter()
            .any(|c| c["peer_window"] == 0 && c["limited"] == "peer")
    };
    assert!(
        wait_until(Duration::from_secs(10), waits),
        "{:?}",
        host.connections()
    );
    let (got, sent) = (server.report(), client.report());
    assert_eq!(
        (&got["got"], &got["count"]),
        (&sent["sent"], &20_000_000.into())
    );
}

#[test]
fn keepalive_probes_of_the_kernel_are_answered() {
    let Some(w) = tun("io-keep") else { return };
    let host = &w.hosts[0];
    let before = host.kernel("TcpExt", "TCPKeepAlive");
    // Two unanswered probes would end the connection after 3 s.
    let listen = ["exchange", "1000", "4.5"];
    let pair = we_listen(host, SPEC, 7001, &listen, &["quiet", "4.5"]);
    compare(pair, "1000");
    let probes = host.kernel("TcpExt", "TCPKeepAlive") - before;
    assert!(probes >= 3, "{probes}");
}

#[test]
fn resets_reach_the_other_side() {
    let Some(w) = tun("io-rst") else { return };
    let host = &w.hosts[0];
    let reset: Value = serde_json::json!(["Connection reset by peer"]);
    let pipe: Value = serde_json::json!(["Broken pipe"]);
    let pairs = [
        kernel_listens(host, SPEC, 7001, &["reset"], &["is_reset", "read"]),
        kernel_listens(host, SPEC, 7002, &["is_reset", "read"], &["reset"]),
        we_listen(host, SPEC, 7003, &["reset"], &["is_reset", "read"]),
        we_listen(host, SPEC, 7004, &["is_reset", "write"], &["reset"]),
    ];
    for (mut a, mut b) in pairs {
        let (a, b) = (a.report(), b.report());
        let seen = if a["seen"].is_null() {
            &b["seen"]
        } else {
            &a["seen"]
        };
        assert!(*seen == reset || *seen == pipe, "{a} {b}");
    }
    // Nobody listens: the same error as over the kernel alone, on either side.
    for mut client in [
        ours(host, SPEC, &["connect", KERNEL, "7099", "take"]),
        theirs(host, &["connect", STACK, "7099", "take"]),
    ] {
        let output = client.output().expect("python");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("Connection refused"), "{said}");
    }
}

#[test]
fn half_closed_connections_carry_the_answer() {
    let Some(w) = tun("io-half") else { return };
    let host = &w.hosts[0];
    let (answer, exchange) = (["answer", "300000"], ["exchange", "200000"]);
    for (mut a, mut b) in [
        kernel_listens(host, SPEC, 7001, &answer, &exchange),
        kernel_listens(host, SPEC, 7002, &exchange, &answer),
        we_listen(host, SPEC, 7003, &answer, &exchange),
        we_listen(host, SPEC, 7004, &exchange, &answer),
    ] {
        let (a, b) = (a.report(), b.report());
        assert_eq!((&a["sent"], &b["sent"]), (&b["got"], &a["got"]));
        let total = a["count"].as_u64().unwrap_or(0) + b["count"].as_u64().unwrap_or(0);
        assert_eq!(total, 500_000, "{a} {b}");
    }
}

#[test]
fn curl_and_nginx_meet_over_both_kinds_of_tcp() {
    let Some(w) = tun("io-http") else { return };
    let host = &w.hosts[0];
    let digest = w.random_file("file", 10_000_000);
    let fetch = |curl: &mut Command, ip: &str, name: &str| {
        host.run(curl.args([
            "-sSf",
            "-m",
            "60",
            "-o",
            name,
            &format!("http://{ip}:8080/file"),
        ]));
        assert_eq!(w.digest(name), digest);
    };
    let ours = host.serve(8080, &mut nginx(host.over(SPEC, "nginx"), &w, STACK));
    fetch(&mut host.command("curl"), STACK, "ours");
    drop(ours);
    let mut theirs = host.start(&mut nginx(host.command("nginx"), &w, KERNEL));
    let there = || {
        host.command("curl")
            .arg(format!("http://{KERNEL}:8080"))
            .output()
    };
    wait_until(Duration::from_secs(10), || {
        there().expect("curl").status.success()
    });
    fetch(&mut host.over(SPEC, "curl"), KERNEL, "theirs");
    assert!(
        theirs.child.try_wait().expect("wait").is_none(),
        "{}",
        theirs.said()
    );
    let counted = &w.hosts[0].connections();
    assert!(
        counted
            .iter()
            .all(|c| c["number"] == 6 || c["state"] == "LISTEN"),
        "{counted:?}"
    );
}

#[test]
fn one_daemon_speaks_to_kernels_and_to_wifu_hosts() {
    if !privileged() {
        return;
    }
    let mut w = World::raw("io-both");
    // The delay shows in what the connections measure, and goes through the faults' queue.
    let both = [
        "--carrier",
        "raw",
        "--carrier",
        "tun",
        "--faults",
        "delay=20ms",
    ];
    let addresses = ["--address", STACK, "--kernel-address", KERNEL];
    w.hosts[0].start_daemon(&[&both[..], &addresses].concat());
    w.hosts[1].start_daemon(&[]);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    let exchange = ["exchange", "300000", "go"];
    let kernel = we_listen(
        a,
        &format!("{SPEC},carrier=tun"),
        7001,
        &exchange,
        &exchange,
    );
    let listen = [&["listen", A, "7002"], &exchange[..]].concat();
    let server = a.serve(7002, &mut ours(a, SPEC, &listen));
    let connect = [&["connect", A, "7002"], &exchange[..]].concat();
    let client = b.start(&mut ours(b, SPEC, &connect));
    let numbers = |c: &Value| {
        (c["state"] == "ESTAB")
            .then(|| c["number"].as_u64())
            .flatten()
    };
    let mut listed = Vec::new();
    wait_until(Duration::from_secs(20), || {
        listed = a.connections();
        let mut found: Vec<u64> = listed.iter().filter_map(numbers).collect();
        found.sort_unstable();
        found == [6, 216]
    });
    std::fs::write(w.dir.join("go"), "").expect("file");
    let open = listed.iter().filter(|c| numbers(c).is_some());
    let delayed = open.filter(|c| c["min_rtt_ns"].as_u64() >= Some(20_000_000));
    assert_eq!(delayed.count(), 2, "{listed:?}");
    compare(kernel, "300000");
    compare((server, client), "300000");
}
