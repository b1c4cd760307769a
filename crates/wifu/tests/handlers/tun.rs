//! The same handlers by NFQUEUE and by TUN devices, and what only one of them can do.

use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use wifu_linux::netns::Namespace;

use crate::common::{privileged, receive};
use crate::world::{A, B, Ended, WIFU, World, atp, errors, output, text, wait_until};

const BY_TUN: [&str; 2] = ["--by", "tun"];
/// A handler that does nothing, at both hooks that TUN devices serve.
const NULL: &str = "[[handler]]\nuse = \"null\"\nhooks = [\"output\", \"forward\"]\n";

/// Send numbered datagrams from a to b, for ATP's port; gives those that came, and with what TTL.
fn datagrams(w: &World, count: u8) -> Vec<(u8, u8)> {
    let script = format!(
        "import socket\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         s.setsockopt(socket.IPPROTO_IP, 12, 1)\n\
         s.bind(('{B}', 9438)); s.settimeout(10); print('there', flush=True)\n\
         while True:\n\
         \x20   data, notes, _, _ = s.recvmsg(2000, 100)\n\
         \x20   if data[0] == 9: break\n\
         \x20   print(data[139], notes[0][2][0], flush=True)\n"
    );
    let mut receiver = w.b.command("python3").expect("namespace");
    let out = w.dir.join("came");
    let log = std::fs::File::create(&out).expect("log");
    let receiver = receiver.args(["-c", &script]).stdout(log);
    let mut receiver = Ended(receiver.spawn().expect("python3"));
    let said = || std::fs::read_to_string(&out).expect("log");
    assert!(wait_until(|| said().contains("there")));
    let at_a = || UdpSocket::bind((A, 0)).expect("socket");
    let sender = w.a.run(at_a).expect("namespace");
    for n in 0..count {
        let mut packet = atp();
        packet[139] = n;
        sender.send_to(&packet, (B, 9438)).expect("send");
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(200));
    // No version of ATP: handlers may drop some, but not all.
    let is_over = |r: &mut Ended| r.0.try_wait().expect("wait").is_some();
    assert!(wait_until(|| {
        sender.send_to(&[9; 140], (B, 9438)).expect("send");
        is_over(&mut receiver)
    }));
    let said = said();
    let pair = |line: &str| {
        let (n, ttl) = line.split_once(' ')?;
        Some((n.parse().ok()?, ttl.parse().ok()?))
    };
    said.lines().filter_map(pair).collect()
}

/// What handlers counted, without the packets that only end the test.
fn counted(report: &Value) -> Value {
    let handlers = report["handlers"].as_array().expect("handlers");
    let each = handlers
        .iter()
        .map(|h| json!([h["name"], h["dropped"], h["held"], h["changed"]]));
    each.collect()
}

#[test]
fn the_same_handlers_count_the_same_and_let_the_same_packets_pass() {
    if !privileged() {
        return;
    }
    let w = World::new("same");
    std::fs::write(w.dir.join("Da"), "2044\n").expect("file");
    std::fs::write(w.dir.join("sample"), "1900\n").expect("file");
    let dir = w.dir.display().to_string();
    for (hook, ns, ttl) in [("forward", &w.r, 63), ("output", &w.a, 63)] {
        let place = format!("protocol = 17\nhooks = [\"{hook}\"]\n");
        let text = format!(
            "[[handler]]\nuse = \"delay-collector\"\n{place}\
             [[handler]]\nuse = \"drop\"\np = 0.3\n{place}\
             [[handler]]\nuse = \"delay\"\nt = \"20 ms\"\n{place}"
        );
        let run = |by: &[&str]| {
            let args = [&["--delay-dir", &dir][..], by].concat();
            let core = w.core(ns, &format!("{hook}{}.toml", by.len()), &text, &args);
            let came = datagrams(&w, 100);
            (came, core.end(Signal::TERM))
        };
        let (by_queue, first) = run(&[]);
        let (by_tun, second) = run(&BY_TUN);
        // Changed packets have right checksums, or the kernel would not have handed them out.
        assert!((50..90).contains(&by_queue.len()), "{first}");
        assert_eq!(by_queue, by_tun, "{hook}");
        assert!(by_tun.iter().all(|(_, t)| *t == ttl), "{by_tun:?}");
        // How many ended the test depends on time.
        let numbers = |report: &Value| {
            let changed = &report["handlers"][0]["changed"];
            let dropped = report["handlers"][1]["dropped"]["drop"].as_u64();
            let held = report["handlers"][2]["held"].as_u64();
            assert_eq!(*changed, 100, "{report}");
            let hook = &report["hooks"][hook];
            let packets = hook["packets"].as_u64().expect("packets");
            let gone = dropped.expect("dropped") + held.expect("held");
            assert_eq!(
                packets,
                gone,
                "each was dropped or held: {}",
                counted(report)
            );
            assert_eq!(hook["octets"], packets * 168, "{report}");
            assert_eq!(hook["accepted"], report["handlers"][2]["held"]);
            (
                packets - 100,
                report["held_now"].clone(),
                report["failed_open"].clone(),
            )
        };
        let (more, ..) = numbers(&first);
        assert!(more > 0);
        numbers(&second);
        assert_eq!(
            second["tun"],
            json!({"unwritten": 0, "ttl_lowered": 0, "not_ipv4": 0})
        );
        assert_eq!(
            second["kernel"][hook]["packets"],
            second["hooks"][hook]["packets"]
        );
    }
}

#[test]
fn a_transfer_is_exact_and_what_handlers_do_not_want_goes_its_way() {
    if !privileged() {
        return;
    }
    let w = World::new("tunexact");
    let mut rng = wifu_wire::Rng::new(5);
    let words = (0..1_250_000).flat_map(|_| rng.next_u64().to_le_bytes());
    let data: Vec<u8> = words.collect();
    let (_server, fetch) = (w.web(&data), || w.fetch());
    assert!(wait_until(|| fetch() == data), "without handlers");
    let tcp = "[[handler]]\nuse = \"logger\"\nevery = 1000\nprotocol = 6\n\
               hooks = [\"output\", \"forward\"]\n";
    let cores = [&w.a, &w.r, &w.b].map(|ns| w.core(ns, "tcp.toml", tcp, &BY_TUN));
    assert!(fetch() == data);
    assert_eq!(w.ping(5).0, 5);
    let [a, r, b] = cores.map(|core| core.end(Signal::TERM));
    let octets = |report: &Value, hook: &str| report["hooks"][hook]["octets"].as_u64();
    let octets = |report, hook| octets(report, hook).unwrap_or(0);
    assert!(octets(&b, "output") > data.len() as u64, "{b}");
    // What both ends send, and nothing else: no ICMP.
    let both = octets(&a, "output") + octets(&b, "output");
    assert_eq!(octets(&r, "forward"), both, "{a} {r} {b}");
    // Of everything, only what goes to one network.
    let core = w.core(
        &w.r,
        "to.toml",
        NULL,
        &[&BY_TUN[..], &["--to", "10.84.2.0/24"]].concat(),
    );
    assert_eq!(w.ping(5).0, 5);
    let report = core.end(Signal::TERM);
    assert_eq!(report["hooks"]["forward"]["packets"], 5, "{report}");
}

#[test]
fn the_life_of_packets_is_what_it_would_be_and_errors_come_back() {
    if !privileged() {
        return;
    }
    let w = World::new("tunttl");
    let _cores = [&w.a, &w.r].map(|ns| w.core(ns, "null.toml", NULL, &BY_TUN));
    let ping = |args: &[&str]| {
        let mut ping = w.a.command("ping").expect("namespace");
        text(&output(ping.args(["-c", "1", "-W", "2"]).args(args)))
    };
    let over = ping(&["-t", "1", B]);
    assert!(over.contains("Time to live exceeded"), "{over}");
    let just = ping(&["-t", "2", B]);
    assert!(just.contains("ttl=63"), "{just}");
    // Too long for the second link: who sends it is told.
    let mut narrow = w.r.command("ip").expect("namespace");
    let done = output(narrow.args(["link", "set", "dev", "eth1", "mtu", "1000"]));
    assert!(done.status.success());
    let long = ping(&["-M", "do", "-s", "1200", B]);
    assert!(
        long.contains("mtu = 1000") || long.contains("mtu=1000"),
        "{long}"
    );
    // And one who may not send so far to anybody.
    let nowhere = ping(&["10.84.99.1"]);
    assert!(!nowhere.contains("ttl="), "{nowhere}");
    assert_eq!(w.ping(3).0, 3);
}

#[test]
fn snoop_by_tun_sends_again_what_the_kernels_tcp_loses() {
    if !privileged() {
        return;
    }
    let w = World::new("tunsnoop");
    let report = w.snooped("forward", &BY_TUN);
    let snoop = &report["handlers"][0];
    assert_eq!(
        snoop["dropped"].as_object().map(|d| d.len()),
        Some(1),
        "{snoop}"
    );
}

/// What a host has of rules, routes, devices and settings.
fn state(ns: &Namespace) -> Vec<String> {
    let lines = [
        "ip rule show",
        "ip -4 route show table all",
        "ip -br addr show",
        "sysctl -a -r ^net.ipv4.(conf|ip_forward)",
    ];
    let say = |line: &str| {
        let mut words = line.split(' ');
        let mut command = ns
            .command(words.next().expect("a word"))
            .expect("namespace");
        text(&output(command.args(words)))
    };
    lines.map(say).to_vec()
}

#[test]
fn rules_routes_and_devices_go_with_us_and_nothing_of_others_does() {
    if !privileged() {
        return;
    }
    let w = World::new("tunclean");
    let ip = |words: &str| {
        let done = output(w.r.command("ip").expect("namespace").args(words.split(' ')));
        assert!(done.status.success(), "{words}: {}", errors(&done));
    };
    ip("rule add pref 8750 to 10.84.77.0/24 lookup main protocol 88");
    ip("rule add pref 100 to 10.84.78.0/24 lookup main protocol 87");
    let before = state(&w.r);
    for signal in [Signal::INT, Signal::TERM] {
        let core = w.core(&w.r, "null.toml", NULL, &BY_TUN);
        assert_ne!(state(&w.r), before);
        assert_eq!(w.ping(5).0, 5);
        core.end(signal);
        assert_eq!(state(&w.r), before);
    }
    // Killed: its guardian removes them.
    let mut core = w.core(&w.r, "null.toml", NULL, &BY_TUN);
    core.child.kill().expect("kill");
    core.child.wait().expect("wait");
    assert!(wait_until(|| state(&w.r) == before), "{:?}", state(&w.r));
    // Killed with its guardian: `wifu clean` does, once the owner is dead.
    for (full, answered) in [("open", 5), ("closed", 0)] {
        let args = [&BY_TUN[..], &["--when-full", full]].concat();
        let core = w.core(&w.r, "null.toml", NULL, &args);
        let clean = || output(w.r.command(WIFU).expect("namespace").arg("clean"));
        let with = state(&w.r);
        let said = text(&clean());
        assert!(said.contains("which runs"), "{said}");
        assert_eq!(state(&w.r), with, "its owner lives");
        w.kill_all(&w.r);
        drop(core);
        assert_ne!(state(&w.r), before, "nobody removed them");
        assert_eq!(w.ping(5).0, answered, "{full}");
        let said = text(&clean());
        assert!(said.contains("ip rule del pref 8730 protocol 87"), "{said}");
        assert_eq!(state(&w.r), before, "{said}");
        assert_eq!(w.ping(5).0, 5);
    }
}

#[test]
fn a_second_one_is_refused_and_disturbs_nobody() {
    if !privileged() {
        return;
    }
    let w = World::new("tuntwo");
    let _first = w.core(&w.r, "null.toml", NULL, &BY_TUN);
    let with = state(&w.r);
    let mut second = w.r.command(WIFU).expect("namespace");
    second.args(["core", "--by", "tun", "--config"]);
    let done = output(second.arg(w.dir.join("null.toml")));
    let said = errors(&done);
    assert!(!done.status.success(), "{said}");
    assert!(said.contains("another program has it"), "{said}");
    assert_eq!(state(&w.r), with);
}

#[test]
fn one_with_other_hooks_does_not_take_the_rules_of_a_living_one() {
    if !privileged() {
        return;
    }
    let w = World::new("tunother");
    let at = |hook: &str| format!("[[handler]]\nuse = \"null\"\nhooks = [\"{hook}\"]\n");
    let _first = w.core(&w.r, "forward.toml", &at("forward"), &BY_TUN);
    let with = state(&w.r);
    let other = w.dir.join("output.toml");
    std::fs::write(&other, at("output")).expect("configuration");
    let mut second = w.r.command(WIFU).expect("namespace");
    second.args(["core", "--by", "tun", "--config"]);
    let done = output(second.arg(other));
    let said = errors(&done);
    assert!(!done.status.success(), "{said}");
    assert!(said.contains("one is enough"), "{said}");
    assert_eq!(state(&w.r), with);
}

#[test]
fn who_has_no_nfqueue_is_told_of_tun_and_can_use_it() {
    if !privileged() {
        return;
    }
    let w = World::new("tunpath");
    let bin = w.dir.join("bin");
    std::fs::create_dir(&bin).expect("directory");
    for program in ["ip", "sh", "cat"] {
        let found = text(&output(Command::new("which").arg(program)));
        let to = bin.join(program);
        std::os::unix::fs::symlink(found.trim(), to).expect("link");
    }
    let config = w.dir.join("null.toml");
    std::fs::write(&config, NULL).expect("configuration");
    let core = |args: &[&str]| {
        let mut core = w.r.command(WIFU).expect("namespace");
        core.env("PATH", &bin)
            .args(["core", "--config"])
            .arg(&config);
        core.args(args);
        core
    };
    let before = state(&w.r);
    let done = output(&mut core(&[]));
    let said = errors(&done);
    assert!(
        !done.status.success() && said.contains("iptables"),
        "{said}"
    );
    assert!(said.contains("wifu core --by tun"), "{said}");
    assert_eq!(state(&w.r), before);
    let doctor = text(&output(
        w.r.command(WIFU)
            .expect("namespace")
            .env("PATH", &bin)
            .arg("doctor"),
    ));
    let nfqueue = doctor.split_once("nfqueue").expect("a line").1;
    assert!(nfqueue.trim_start().starts_with("MISSING"), "{doctor}");
    assert!(
        nfqueue.contains("do without: wifu core --by tun"),
        "{doctor}"
    );
    // What it names does: no iptables is in this path either.
    let err = w.dir.join("path.err");
    let log = std::fs::File::create(&err).expect("log");
    let mut by_tun = core(&BY_TUN);
    let child = by_tun
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("wifu core");
    let running = Ended(child);
    let said = || std::fs::read_to_string(&err).expect("log");
    assert!(wait_until(|| said().contains("ready")), "{}", said());
    assert_eq!(w.ping(5).0, 5);
    kill_process(Pid::from_child(&running.0), Signal::TERM).expect("signal");
    drop(running);
    assert!(wait_until(|| state(&w.r) == before), "{:?}", state(&w.r));
}

#[test]
fn without_any_right_it_works_by_a_device_that_belongs_to_the_user() {
    if !privileged() {
        return;
    }
    let w = World::new("tunuser");
    let config = w.dir.join("null.toml");
    std::fs::write(
        &config,
        "[[handler]]\nuse = \"logger\"\nhooks = [\"forward\"]\n",
    )
    .expect("file");
    // A device node that everybody may open, as most systems have it.
    let node = w.dir.join("tun");
    let as_user = |args: &str| {
        let node = node.display();
        let script = format!(
            "mount --bind {node} /dev/net/tun && exec setpriv --reuid 65534 --regid 65534 \
             --clear-groups --inh-caps=-all --bounding-set=-all {WIFU} core --by tun \
             --tun forward=tun7 --config {} {args}",
            config.display()
        );
        let mut command = w.r.command("unshare").expect("namespace");
        command.args(["--mount", "sh", "-c", &script]);
        command
    };
    let made = format!("mknod -m 666 {} c 10 200", node.display());
    assert!(
        output(Command::new("sh").args(["-c", &made]))
            .status
            .success()
    );
    let before = state(&w.r);
    let dry = output(&mut as_user("--dry-run"));
    let said = text(&dry);
    let (by_root, after) = said
        .split_once("# by root, when")
        .unwrap_or_else(|| panic!("{said}{}", errors(&dry)));
    let root = |lines: &str| {
        for line in lines
            .lines()
            .filter(|l| l.starts_with("ip ") || l.starts_with("sysctl "))
        {
            let mut words = line.split(' ');
            let mut command =
                w.r.command(words.next().expect("a word"))
                    .expect("namespace");
            let done = output(command.args(words));
            assert!(done.status.success(), "{line}: {}", errors(&done));
        }
    };
    root(by_root);
    assert_eq!(w.ping(5).0, 5, "nobody is there: open");
    let (out, err) = (w.dir.join("user.out"), w.dir.join("user.err"));
    let log = |path: &Path| std::fs::File::create(path).expect("log");
    let mut command = as_user("");
    let child = command.stdout(log(&out)).stderr(log(&err)).spawn();
    let running = Ended(child.expect("wifu core"));
    let said = || std::fs::read_to_string(&err).expect("log");
    assert!(wait_until(|| said().contains("ready")), "{}", said());
    let status = format!("/proc/{}/status", running.0.id());
    let status = std::fs::read_to_string(status).expect("status");
    assert!(status.contains("CapPrm:\t0000000000000000"), "{status}");
    assert!(status.contains("Uid:\t65534"), "{status}");
    assert_eq!(w.ping(5).0, 5);
    kill_process(Pid::from_child(&running.0), Signal::TERM).expect("signal");
    let reported = || std::fs::read_to_string(&out).expect("report");
    assert!(wait_until(|| reported().ends_with('\n')), "{}", said());
    let report: Value = serde_json::from_str(&reported()).expect("JSON");
    assert_eq!(report["hooks"]["forward"]["packets"], 10, "{report}");
    drop(running);
    // The kernel tells a device's loss of its carrier at most once a second.
    assert!(wait_until(|| w.ping(5).0 == 5), "nobody is there any more");
    root(after);
    assert_eq!(state(&w.r), before);
}

#[test]
fn what_tun_devices_cannot_serve_is_refused_by_name() {
    if !privileged() {
        return;
    }
    let w = World::new("tunwrong");
    let at = |hook: &str| format!("[[handler]]\nuse = \"null\"\nhooks = [\"{hook}\"]\n");
    let all = "[[handler]]\nuse = \"null\"\n";
    let rule = format!("{NULL}[[rule]]\nhook = \"output\"\nmatch = \"-p udp\"\n");
    let whole = format!("[core]\nsuper_packets = true\n{NULL}");
    let network = format!("[core]\nby = \"tun\"\nto = [\"10.0.0.1/8\"]\n{NULL}");
    let to = format!("[core]\nto = [\"10.0.0.0/8\"]\n{NULL}");
    let tun = &BY_TUN[..];
    for (text, args, wanted) in [
        (at("input"), tun, "input: NFQUEUE is needed there"),
        (at("prerouting"), tun, "prerouting: NFQUEUE is needed there"),
        (
            all.to_owned(),
            tun,
            "input, prerouting, postrouting: NFQUEUE",
        ),
        (all.to_owned(), tun, "hooks = [\"output\", \"forward\"]"),
        (rule, tun, "rules are iptables' words"),
        (whole, tun, "super_packets: the kernel cuts them"),
        (network, &[], "write 10.0.0.0/8"),
        (to, &[], "write by = \"tun\""),
        (NULL.to_owned(), &["--to", "10.0.0.0/8"], "write --by tun"),
        (
            NULL.to_owned(),
            &["--by", "tun", "--to", "x"],
            "write a network of IPv4",
        ),
        (
            NULL.to_owned(),
            &["--by", "tun", "--to", "10.84.2.1", "--to", "10.84.2.1/32"],
            "to: 10.84.2.1/32 is given twice",
        ),
        (NULL.to_owned(), &["--by", "nft"], "write nfqueue or tun"),
        (
            NULL.to_owned(),
            &["--by", "tun", "--tun", "input=tun0"],
            "TUN devices serve output and",
        ),
        (
            NULL.to_owned(),
            &["--by", "tun", "--tun", "output=tun0"],
            "write --tun forward=DEVICE",
        ),
        (
            NULL.to_owned(),
            &["--by", "tun", "--monitor", "mon0"],
            "that needs NFQUEUE",
        ),
        (
            NULL.to_owned(),
            &["--by", "tun", "--receive-buffer", "9"],
            "--queue-length",
        ),
    ] {
        let said = w.refused("wrong.toml", &text, args);
        assert!(said.contains(wanted), "{args:?} {wanted}: {said}");
    }
    // What is no TUN device, or somebody else's.
    let mut command = w.r.command(WIFU).expect("namespace");
    let config = w.dir.join("null.toml");
    std::fs::write(&config, at("output")).expect("configuration");
    command.args(["core", "--by", "tun", "--tun", "output=eth0", "--config"]);
    let said = errors(&output(command.arg(&config)));
    assert!(said.contains("it is there, and no TUN device"), "{said}");
}

#[test]
fn the_source_address_is_what_the_routes_say_without_us() {
    if !privileged() {
        return;
    }
    // A host with two addresses, and a route that says which.
    let mut w = World::new("tunsource");
    let lab = w.lab.as_mut().expect("lab");
    let more = [
        String::from("addr add 10.84.9.9/32 dev lo"),
        String::from("route add 10.84.2.0/24 via 10.84.1.2 src 10.84.9.9"),
    ];
    lab.ip("a", &more).expect("addresses");
    lab.ip("r", &[String::from("route add 10.84.9.9/32 via 10.84.1.1")])
        .expect("route");
    let _core = w.core(&w.a, "null.toml", NULL, &BY_TUN);
    let at_b = || UdpSocket::bind((B, 7000)).expect("socket");
    let receiver = w.b.run(at_b).expect("namespace");
    receiver
        .set_read_timeout(Some(Duration::from_secs(5)))
        .expect("timeout");
    let at_a = || UdpSocket::bind(("0.0.0.0", 0)).expect("socket");
    let sender = w.a.run(at_a).expect("namespace");
    sender.send_to(&[7; 10], (B, 7000)).expect("send");
    let (length, from) = receiver.recv_from(&mut [0; 20]).expect("it comes");
    assert_eq!(
        (length, from.ip().to_string()),
        (10, "10.84.9.9".to_owned())
    );
    let answer = [8; 10];
    receiver.send_to(&answer, from).expect("send");
    let mut room = [0; 20];
    sender
        .set_read_timeout(Some(Duration::from_secs(5)))
        .expect("timeout");
    assert_eq!(receive(&sender, &mut room).expect("an answer"), 10);
}
