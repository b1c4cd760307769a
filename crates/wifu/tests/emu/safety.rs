//! What belongs to others stays as it is, whatever `wifu emu`, `wifu core` and `wifu delay` do on
//! the host, and however they end: namespaces, devices, addresses, routes, rules of nftables and
//! iptables, queueing disciplines, settings and processes.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use wifu_linux::netns::{NETNS, Namespace};

use super::soak::Program;
use super::{Emu, Scratch, WIFU, gone_within, guardian, privileged, traces};

/// A namespace that plays somebody else's host, and what is in it.
struct Stranger {
    namespace: Namespace,
    sleeper: Child,
}

/// Everything that an administrator may have set up on the host's two devices.
const SET_UP: [&str; 20] = [
    "ip link set lo up",
    "ip link add out type veth peer name in",
    "ip link set out addrgenmode none",
    "ip link set in addrgenmode none",
    "ip link set out up",
    "ip link set in up",
    "ip addr add 192.0.2.1/24 dev out",
    "ip route add 198.51.100.0/24 via 192.0.2.7 dev out",
    "ip rule add from 192.0.2.0/24 lookup 77",
    "ip route add default dev out table 77",
    "ip neigh add 192.0.2.7 lladdr 02:00:00:00:00:07 dev out",
    "tc qdisc add dev out root handle 9: tbf rate 50mbit burst 20k limit 100k",
    "tc qdisc add dev in clsact",
    "tc qdisc add dev out clsact",
    "nft add table inet theirs",
    "nft add chain inet theirs input { type filter hook input priority 5 ; policy accept ; }",
    "nft add rule inet theirs input ip saddr 203.0.113.0/24 drop comment \"wifu:1:1\"",
    "iptables -w -t mangle -A FORWARD -p tcp -m comment --comment wifu -j NFQUEUE --queue-num 9",
    "iptables -w -t mangle -A OUTPUT -p 99 -m comment --comment wifu:1:x -j ACCEPT",
    "iptables -w -A INPUT -p 98 -j DROP",
];

/// What tells of all that.
const SHOW: [&str; 11] = [
    "ip -d -o link",
    "ip -o addr",
    "ip route show table all",
    "ip rule",
    "ip neigh",
    "tc qdisc",
    "iptables -w -S",
    "iptables -w -t mangle -S",
    "nft list table inet theirs",
    "sysctl net.ipv4.ip_forward net.ipv4.conf.all.rp_filter net.ipv4.conf.out.rp_filter",
    "sysctl net.ipv4.tcp_congestion_control net.core.somaxconn net.ipv4.conf.all.send_redirects",
];

impl Stranger {
    fn new(name: &str) -> Stranger {
        let name = format!("wifu-t-{name}-{}", std::process::id());
        let made = Command::new("ip").args(["netns", "add", &name]).status();
        assert!(made.expect("ip").success());
        let namespace = Namespace::named(&name);
        let mut sleep = namespace.command("sleep").expect("namespace");
        let sleeper = sleep.arg("1000").spawn().expect("sleep");
        // It goes again whatever fails from here on.
        let stranger = Stranger { namespace, sleeper };
        for line in SET_UP {
            run(&stranger.namespace, line);
        }
        stranger
    }

    /// Lines of all that is there, by what shows them.
    fn picture(&self) -> BTreeMap<&'static str, Vec<String>> {
        let lines = |line: &'static str| {
            let all = run(&self.namespace, line);
            (line, all.lines().map(|l| l.trim().to_owned()).collect())
        };
        SHOW.into_iter().map(lines).collect()
    }

    fn wifu(&self, args: &[&str]) -> Command {
        let mut command = self.namespace.command(WIFU).expect("namespace");
        command.args(args).stdin(Stdio::null());
        command
    }

    fn clean(&self) {
        let output = self.wifu(&["clean"]).output().expect("wifu clean");
        let wrong = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "wifu clean: {wrong}");
    }

    fn lives(&mut self) -> bool {
        self.sleeper.try_wait().expect("wait").is_none()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.sleeper.kill();
        let _ = self.sleeper.wait();
        let name = self.namespace.name();
        let _ = Command::new("ip").args(["netns", "del", name]).status();
    }
}

fn run(namespace: &Namespace, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let mut command = namespace.command(words[0]).expect("namespace");
    let output = command.args(&words[1..]).output().expect(words[0]);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {wrong}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn kill(pid: u32) {
    let pid = Pid::from_raw(pid as i32).expect("a process");
    kill_process(pid, Signal::KILL).expect("signal");
}

/// Children that hold the right to clean up.
fn children(of: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children"));
    let text = text.unwrap_or_default();
    text.split_whitespace().flat_map(str::parse).collect()
}

/// `wifu clean` removes what killed programs left, another test's as well: one at a time.
static CLEANS: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[test]
fn an_emulation_touches_nothing_of_others() {
    if !privileged() {
        return;
    }
    let _alone = CLEANS.lock();
    let mut there = Stranger::new("there");
    let before = there.picture();
    for end in ["exit", "kill", "kill all"] {
        let mut emu = Emu::start("safe", &["--topo", "linear,3"]);
        let label = emu.label.clone();
        assert_eq!(there.picture(), before, "while it runs");
        emu.done("restart n2 0");
        match end {
            "exit" => emu.exit(),
            "kill" => {
                emu.child.kill().expect("kill");
                drop(emu);
            }
            _ => {
                kill(guardian(emu.child.id()).expect("a guardian"));
                emu.child.kill().expect("kill");
                drop(emu);
                assert!(!traces(&label).is_empty());
                // Nobody minds that another one was there first.
                std::thread::scope(|s| {
                    for _ in 0..3 {
                        s.spawn(|| there.clean());
                    }
                });
            }
        }
        let gone = gone_within(&label, std::time::Duration::from_secs(20));
        assert!(gone, "{end}: {:?}", traces(&label));
        assert_eq!(there.picture(), before, "after {end}");
        assert!(there.lives(), "{end}");
    }
    assert!(
        std::path::Path::new(NETNS)
            .join(there.namespace.name())
            .exists()
    );
}

#[test]
fn handlers_and_measurements_touch_nothing_of_others() {
    if !privileged() {
        return;
    }
    let _alone = CLEANS.lock();
    let dir = Scratch::new("safe");
    let mut host = Stranger::new("host");
    let config = dir.0.join("null.toml");
    let text = "[[handler]]\nuse = \"null\"\nhooks = [\"forward\", \"postrouting\"]\n";
    std::fs::write(&config, text).expect("file");
    let config = config.display().to_string();
    let files = dir.0.join("delay").display().to_string();
    let core = ["core", "--config", &config];
    let delay = [
        "delay",
        "--dev",
        "out",
        "--measure",
        "queue",
        "--stamp",
        "--dir",
        &files,
    ];
    // A table's chains appear with the first rule of whomever, and stay; here they do before.
    for chain in ["FORWARD", "POSTROUTING"] {
        let rule = format!("{chain} -p 97 -j ACCEPT");
        run(&host.namespace, &format!("iptables -w -t mangle -A {rule}"));
    }
    let before = host.picture();
    for (args, ready) in [(&core[..], "ready"), (&delay[..], "wifu delay:")] {
        for end in ["exit", "kill", "kill all"] {
            let mut program = Program::start(host.wifu(args), &dir.0.join("log"), ready);
            let now = host.picture();
            for (what, lines) in &before {
                // In the same order, and more only from us.
                let mut left = lines.iter().peekable();
                let mut more = Vec::new();
                for line in &now[what] {
                    match left.peek() == Some(&line) {
                        true => drop(left.next()),
                        false => more.push(line),
                    }
                }
                assert!(
                    left.next().is_none(),
                    "{what}: {lines:?} became {:?}",
                    now[what]
                );
                let tag = format!("wifu:{}:", program.0.id());
                assert!(more.iter().all(|l| l.contains(&tag)), "{what}: {more:?}");
            }
            let pid = program.0.id();
            let guards = children(pid);
            match end {
                "exit" => {
                    let pid = Pid::from_raw(pid as i32).expect("a process");
                    kill_process(pid, Signal::TERM).expect("signal");
                }
                "kill" => kill(pid),
                _ => {
                    guards.into_iter().for_each(kill);
                    kill(pid);
                }
            }
            program.0.wait().expect("wait");
            let back = || host.picture() == before;
            if end == "exit" || args[0] == "core" && end == "kill" {
                let since = std::time::Instant::now();
                while !back() && since.elapsed().as_secs() < 10 {
                    std::thread::sleep(std::time::Duration::from_millis(50));
                }
            } else {
                host.clean();
            }
            assert_eq!(host.picture(), before, "{args:?} after {end}");
        }
    }
    assert!(host.lives());
}

#[test]
fn a_dry_run_of_a_measurement_says_everything_and_does_nothing() {
    if !privileged() {
        return;
    }
    let dir = Scratch::new("dry");
    let host = Stranger::new("dry");
    let before = host.picture();
    let files = dir.0.join("delay");
    let shown = |more: &[&str]| {
        let mut command = host.wifu(&["delay", "--dry-run", "--dev", "out", "--dir"]);
        let output = command.arg(&files).args(more).output().expect("wifu");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let all = shown(&["--stamp", "--measure", "both"]);
    for step in [
        "bpf: load on_queue, attach it to tracepoint net_dev_queue",
        "bpf: load on_consume, attach it to tracepoint consume_skb",
        "bpf: load stamp, attach it to tcx egress of out",
        &format!("mkdir -p {}", files.display()),
        &format!("rmdir {}", files.display()),
    ] {
        assert!(all.lines().any(|l| l == step), "{step} is missing: {all}");
    }
    assert!(!shown(&["--measure", "queue"]).contains("consume_skb"));
    assert!(!shown(&["--stamp", "--fixed", "2ms"]).contains("tracepoint"));
    assert!(!files.exists());
    assert_eq!(host.picture(), before);
}

#[test]
fn a_host_without_its_device_or_namespace_makes_the_run_invalid() {
    if !privileged() {
        return;
    }
    let emu = Emu::start("gone", &["--topo", "linear,3", "--set", "TB-B"]);
    let reasons = || {
        let status = emu.ctl("status")["data"].clone();
        let invalid = status["verdict"] == "INVALID";
        let reasons = status["reasons"].as_array().expect("reasons").clone();
        let gone = reasons
            .iter()
            .filter_map(|r| r.as_str()?.strip_prefix("device or namespace"));
        (invalid, gone.collect::<String>(), status["gone"].clone())
    };
    let (_, why, gone) = reasons();
    assert_eq!((why.as_str(), gone), ("", json!([])));
    run(&emu.namespace("n3"), "ip link del wlan0");
    let told = |what: &str| {
        let hosts: Vec<&str> = what.split(", ").collect();
        let expected = (true, format!(" is gone: {what}"), json!(hosts));
        let pause = || std::thread::sleep(std::time::Duration::from_millis(50));
        (0..100).any(|_| reasons() == expected || (pause(), false).1)
    };
    assert!(told("n3"), "{:?}", reasons());
    let n2 = emu.namespace("n2").name().to_owned();
    let removed = Command::new("ip").args(["netns", "del", &n2]).status();
    assert!(removed.expect("ip").success());
    assert!(told("n2, n3"), "{:?}", reasons());
    emu.exit();
}
