//! Three hosts in a row whose daemons serve a composition: its handlers act on the one in the
//! middle as they do in the simulator.

use crate::common::privileged;
use crate::world::{A, FAR, Host, RELAY, WIFU, World, peer, wait_until};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Snoop on every node; a number of its own.
const SNOOPED: &str = "[protocol.snooped]\nextends = \"tcp-newreno\"\nnumber = 245\n\
    [handlers.snooped]\nchain = [\"snoop\"]\n";

fn row(test: &str, middle: &[&str]) -> World {
    serving(test, "snooped", middle)
}

/// ... that serve this one.
fn serving(test: &str, protocol: &str, middle: &[&str]) -> World {
    let mut w = World::row(test);
    let file = w.dir.join("own.toml");
    std::fs::write(&file, SNOOPED).expect("file");
    let file = file.to_str().expect("a name").to_owned();
    for (i, host) in w.hosts.iter_mut().enumerate() {
        let mut args = vec!["--file", &file, "--serve", protocol];
        args.extend(middle.iter().filter(|_| i == 1));
        host.start_daemon(&args);
    }
    w
}

/// What the host in the middle counted, and its handler.
fn relay_counts(w: &mut World) -> (Value, Value) {
    let counted = w.hosts[1].stop_daemon();
    (counted["packets"].clone(), counted["handlers"][0].clone())
}

fn number(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("{key} in {of}"))
}

/// One of two that exchange so many octets.
fn play(host: &Host, who: &str, to: (&str, u16), octets: &str) -> Command {
    let args = [who, to.0, &to.1.to_string(), "exchange", octets];
    peer(host.over("snooped", "python3"), &args)
}

/// The first host and the last one send so many octets to each other.
fn transfer(w: &World, octets: usize) {
    transfer_at(w, 7000, octets);
}

/// ... at a port, which nobody has listened at.
fn transfer_at(w: &World, port: u16, octets: usize) {
    let octets = octets.to_string();
    let [near, _, far] = &w.hosts[..] else {
        unreachable!("three hosts");
    };
    let mut server = far.serve(port, &mut play(far, "listen", (FAR, port), &octets));
    let mut client = near.start(&mut play(near, "connect", (FAR, port), &octets));
    let (there, here) = (server.report(), client.report());
    assert_eq!(
        (&there["got"], &here["got"]),
        (&here["sent"], &there["sent"])
    );
    assert_eq!(there["count"].to_string(), octets);
}

#[test]
fn a_handler_on_a_relay_sees_what_the_kernel_would_have_forwarded() {
    if !privileged() {
        return;
    }
    let mut w = row("relay", &[]);
    let mut sysctl = w.hosts[1].command("sysctl");
    w.hosts[1].run(sysctl.args(["-qw", "net.ipv4.ip_forward=1"]));
    let forwarded = |w: &World| w.hosts[1].kernel("Ip", "ForwDatagrams");
    let before = forwarded(&w);
    transfer(&w, 2_000_000);
    assert_eq!(forwarded(&w), before, "taken before the IP layer");
    let (packets, snoop) = relay_counts(&mut w);
    let passed = number(&packets, "forwarded");
    assert!(passed > 2 * 2_000_000 / 1460, "{packets}");
    assert_eq!(number(&snoop, "packets"), passed);
    assert!(number(&snoop, "kept") > 2 * 2_000_000 / 1460, "{snoop}");
    assert_eq!(number(&packets, "route") + number(&packets, "queue"), 0);
}

/// The relay has no route to the far host for two seconds: it says so, and the sender waits.
#[test]
fn a_relay_that_loses_the_route_tells_the_sender_of_atp() {
    if !privileged() {
        return;
    }
    let spec = "atp-adaptive,elfn=on,ds_first=1ms";
    let mut w = serving("elfn", spec, &[]);
    let play = |host: &Host, who: &str| {
        let args = [who, FAR, "7000", "exchange", "2000000"];
        peer(host.over(spec, "python3"), &args)
    };
    let [near, relay, far] = &w.hosts[..] else {
        unreachable!("three hosts");
    };
    let mut server = far.serve(7000, &mut play(far, "listen"));
    let mut client = near.start(&mut play(near, "connect"));
    let route = |verb: &str| {
        let mut ip = relay.command("ip");
        relay.run(ip.args(["route", verb, "10.79.2.0/24", "dev", "eth1"]));
    };
    // In the midst of it: who only asks to be let in is no connection yet.
    let under_way = || {
        let all = near.connections();
        all.iter().any(|c| number(c, "octets_acked") > 100_000)
    };
    assert!(
        wait_until(Duration::from_secs(20), under_way),
        "{:?}",
        near.connections()
    );
    route("del");
    std::thread::sleep(Duration::from_secs(2));
    route("add");
    let (there, here) = (server.report(), client.report());
    assert_eq!(
        (&there["got"], &here["got"]),
        (&here["sent"], &there["sent"])
    );
    let counted = w.hosts[1].stop_daemon();
    let notice = &counted["handlers"][1];
    assert_eq!(notice["name"], "link-notice", "{counted}");
    assert!(number(&notice["counts"], "no_route") >= 1, "{notice}");
}

#[test]
fn snoop_on_a_relay_resends_what_the_link_behind_it_loses() {
    if !privileged() {
        return;
    }
    let mut w = row("snoop", &["--faults", "loss=2%,seed=1"]);
    transfer(&w, 3_000_000);
    let (_, snoop) = relay_counts(&mut w);
    let counts = &snoop["counts"];
    assert!(number(counts, "resent") > 10, "{snoop}");
    assert!(number(counts, "dup_acks_held") > 10, "{snoop}");
}

#[test]
fn where_a_daemon_was_killed_the_kernel_forwards_what_handlers_saw() {
    if !privileged() {
        return;
    }
    for by in ["tcx", "rule"] {
        let mut w = row("open", &["--keep-off", by]);
        let mut sysctl = w.hosts[1].command("sysctl");
        w.hosts[1].run(sysctl.args(["-qw", "net.ipv4.ip_forward=1"]));
        let forwarded = |w: &World| w.hosts[1].kernel("Ip", "ForwDatagrams");
        let rules = |w: &World| {
            let mut list = w.hosts[1].command("iptables");
            let list = w.hosts[1].run(list.args(["-t", "mangle", "-S", "PREROUTING"]));
            String::from_utf8_lossy(&list.stdout)
                .matches("DROP")
                .count()
        };
        assert_eq!(rules(&w), if by == "rule" { 2 } else { 0 });
        transfer(&w, 100_000);
        assert_eq!(forwarded(&w), 0, "{by}: taken before the IP layer");
        w.hosts[1].kill_daemon();
        assert!(
            wait_until(Duration::from_secs(10), || rules(&w) == 0),
            "{by}"
        );
        transfer_at(&w, 7001, 100_000);
        assert!(forwarded(&w) > 2 * 100_000 / 1460, "{by}");
    }
}

/// The first host sends these packets of the protocol, in the words of frames.py, to the relay.
fn frames(w: &World, packets: &[String]) {
    let mut ip = w.hosts[1].command("ip");
    let link = w.hosts[1]
        .run(ip.args(["-br", "link", "show", "eth0"]))
        .stdout;
    let link = String::from_utf8_lossy(&link).into_owned();
    let mac = link.split_whitespace().nth(2).expect("an address");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/frames.py");
    let mut python = w.hosts[0].command("python3");
    w.hosts[0].run(python.arg(script).args(["eth0", mac]).args(packets));
}

#[test]
fn what_no_link_can_bring_goes_nowhere_and_is_counted() {
    if !privileged() {
        return;
    }
    let mut w = row("martian", &["--mtu", "1000"]);
    let mut sysctl = w.hosts[1].command("sysctl");
    w.hosts[1].run(sysctl.args(["-qw", "net.ipv4.ip_forward=1"]));
    let forwarded = w.hosts[1].kernel("Ip", "ForwDatagrams");
    let (near, relay) = (A, RELAY[0]);
    // Sources and destinations that the kernel, too, would refuse.
    let sources = [
        "127.0.0.1",
        "0.0.0.0",
        "224.0.0.5",
        "255.255.255.255",
        relay,
    ];
    let martian = sources.map(|a| format!("{a},{FAR}"));
    let ends = ["127.0.0.1", "239.1.2.3", "0.0.0.0"].map(|a| format!("{near},{a}"));
    frames(&w, &[martian.to_vec(), ends.to_vec()].concat());
    // Not for this station; longer than packets are here; nothing that a handler can read.
    let kinds = ["all", "long", "fragment", "later"];
    frames(&w, &kinds.map(|kind| format!("{near},{FAR},{kind}")));
    // A tag without a VLAN says nothing but a priority.
    frames(&w, &[format!("{near},{FAR},priority")]);
    // The kernel's: for itself, and of a VLAN that there is not.
    frames(
        &w,
        &[
            format!("{near},{relay},fragment"),
            format!("{near},{FAR},vlan"),
        ],
    );
    let icmp = |w: &World| w.hosts[0].kernel("Icmp", "InTimeExcds");
    let told = |w: &World| w.hosts[0].kernel("Icmp", "InDestUnreachs");
    let before = (icmp(&w), told(&w));
    frames(&w, &[format!("{near},{FAR},last")]);
    // As good as any; but there is no such route.
    let mut ip = w.hosts[1].command("ip");
    w.hosts[1].run(ip.args(["route", "add", "unreachable", "10.99.0.0/24"]));
    frames(&w, &[format!("{near},{FAR}"), format!("{near},10.99.0.1")]);
    let parts = || w.hosts[1].kernel("Ip", "ReasmReqds");
    assert!(wait_until(Duration::from_secs(10), || parts() == 1));
    assert_eq!(w.hosts[1].kernel("Ip", "ForwDatagrams"), forwarded);
    let (packets, _) = relay_counts(&mut w);
    let counts = [
        "martian",
        "too_long",
        "fragments",
        "forwarded",
        "route",
        "queue",
    ];
    assert_eq!(
        counts.map(|key| number(&packets, key)),
        [8, 1, 2, 3, 2, 0],
        "{packets}"
    );
    // About the one without a route and the one without TTL; what was too long and the first
    // fragment came before.
    assert_eq!((icmp(&w), told(&w)), (before.0 + 1, before.1 + 1));
    assert_eq!(number(&packets, "icmp"), 4, "{packets}");
}

#[test]
fn what_comes_by_an_interface_that_is_not_served_the_kernel_forwards() {
    if !privileged() {
        return;
    }
    let mut w = row("device", &["--device", "eth0"]);
    let mut sysctl = w.hosts[1].command("sysctl");
    w.hosts[1].run(sysctl.args(["-qw", "net.ipv4.ip_forward=1"]));
    let before = w.hosts[1].kernel("Ip", "ForwDatagrams");
    transfer(&w, 200_000);
    let by_kernel = w.hosts[1].kernel("Ip", "ForwDatagrams") - before;
    let (packets, snoop) = relay_counts(&mut w);
    let by_node = number(&packets, "forwarded");
    // Both hosts send as much.
    let least = 200_000 / 1460;
    assert!(
        by_node > least && by_kernel > least,
        "{by_node}, {by_kernel}"
    );
    assert_eq!(number(&snoop, "packets"), by_node);
}

#[test]
fn an_interface_that_is_not_there_is_refused_before_anything_starts() {
    if !privileged() {
        return;
    }
    let w = World::row("nodevice");
    let file = w.dir.join("own.toml");
    std::fs::write(&file, SNOOPED).expect("file");
    let [near, ..] = &w.hosts[..] else {
        unreachable!("three hosts");
    };
    let mut ip = near.command("ip");
    let pair = "link add bare0 type veth peer name bare1";
    near.run(ip.args(pair.split(' ')));
    for (device, why) in [
        (
            "eht0",
            "no Ethernet interface is called `eht0`; did you mean `eth0`?",
        ),
        (
            "lo",
            "no Ethernet interface is called `lo`; there are eth0, ",
        ),
        ("bare0", "bare0 has no IPv4 address"),
    ] {
        let mut daemon = near.command(WIFU);
        daemon.args(["daemon", "--serve", "snooped", "--device", device, "--file"]);
        let ended = daemon.arg(&file).output().expect("wifu");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(
            said.contains(&format!("--device {device}: {why}")),
            "{said}"
        );
    }
}

#[test]
fn neighbours_that_do_not_answer_hold_up_nobody_else() {
    if !privileged() {
        return;
    }
    let mut w = row("dead", &[]);
    let mut ping = w.hosts[1].command("ping");
    w.hosts[1].run(ping.args(["-c1", "-W5", FAR]));
    // The kernel holds packets for stations that it looks for, each for seconds.
    let dead: Vec<String> = (100..104).map(|i| format!("10.79.2.{i}")).collect();
    let round = dead.iter().map(String::as_str).chain([FAR]);
    let round: Vec<String> = round.map(|to| format!("{A},{to}")).collect();
    frames(&w, &vec![round; 300].concat());
    let (packets, _) = relay_counts(&mut w);
    let far = w.hosts[2].stop_daemon();
    let received = number(&far["carriers"][0][1], "received");
    assert!(received >= 300, "{received} of 300; {packets}");
    assert!(number(&packets, "queue") > 100, "{packets}");
}

/// Connections of the host itself, over a link at 1 Mb/s and another one without a limit.
#[test]
fn a_slow_link_holds_up_nobody_who_sends_by_another() {
    if !privileged() {
        return;
    }
    let w = row("slow", &[]);
    let mut tc = w.hosts[1].command("tc");
    let shape = "qdisc add dev eth1 root tbf rate 1mbit burst 3000 limit 10000000";
    w.hosts[1].run(tc.args(shape.split(' ')));
    let far = w.hosts[2].serve(
        7000,
        &mut play(&w.hosts[2], "listen", (FAR, 7000), "3000000"),
    );
    let slow = w.hosts[1].start(&mut play(&w.hosts[1], "connect", (FAR, 7000), "3000000"));
    let since = Instant::now();
    std::thread::sleep(Duration::from_secs(2));
    let mut near = w.hosts[0].serve(7000, &mut play(&w.hosts[0], "listen", (A, 7000), "3000000"));
    let mut fast = w.hosts[1].start(&mut play(&w.hosts[1], "connect", (A, 7000), "3000000"));
    let begin = Instant::now();
    assert_eq!(&near.report()["got"], &fast.report()["sent"]);
    let took = begin.elapsed();
    assert!(
        took < Duration::from_secs(10),
        "{took:?}, and 24 s at 1 Mb/s"
    );
    for mut running in [far, slow] {
        // On a busy machine the programs of the fast one may begin when it is over.
        assert!(
            since.elapsed() > Duration::from_secs(20)
                || running.child.try_wait().expect("wait").is_none(),
            "{}",
            running.said()
        );
        running.kill();
    }
}

#[test]
fn a_host_that_serves_speaks_to_itself() {
    if !privileged() {
        return;
    }
    let mut w = row("itself", &[]);
    let host = &w.hosts[1];
    for (port, to) in [(7001, "127.0.0.1"), (7002, "127.0.0.2"), (7003, RELAY[1])] {
        let port = port.to_string();
        let play = |who: &str| {
            let args = [who, to, &port, "exchange", "10000"];
            peer(host.over("snooped", "python3"), &args)
        };
        let mut server = host.serve(port.parse().expect("a port"), &mut play("listen"));
        let mut client = host.start(&mut play("connect"));
        let (there, here) = (server.report(), client.report());
        assert_eq!(&there["got"], &here["sent"], "{to}");
    }
    let (packets, _) = relay_counts(&mut w);
    assert_eq!(number(&packets, "forwarded"), 0, "{packets}");
}

/// Over wires nobody overhears the next host: a lane that asks it for credits has them all the
/// same.
#[test]
fn where_nothing_is_overheard_hosts_ask_each_other_for_credits() {
    if !privileged() {
        return;
    }
    let mut w = serving("hxh", "hxh-next", &[]);
    let play = |host: &Host, who: &str| {
        let args = [who, FAR, "7000", "exchange", "300000"];
        peer(host.over("hxh-next", "python3"), &args)
    };
    let [near, _, far] = &w.hosts[..] else {
        unreachable!("three hosts");
    };
    let mut server = far.serve(7000, &mut play(far, "listen"));
    let mut client = near.start(&mut play(near, "connect"));
    let (there, here) = (server.report(), client.report());
    assert_eq!(
        (&there["got"], &here["got"]),
        (&here["sent"], &there["sent"])
    );
    let lanes = &w.hosts[1].stop_daemon()["lanes"];
    assert!(number(lanes, "taken") > 2 * 300_000 / 1_444, "{lanes}");
    assert!(number(lanes, "made") > 5, "answers: {lanes}");
}
