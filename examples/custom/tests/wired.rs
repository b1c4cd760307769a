//! The protocols of this crate over wires between the kernels of three hosts, with a daemon on each.
//! Needs root.

mod common;

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{CUSTOM, PEER, number, privileged, remove};
use serde_json::Value;
use wifu_linux::netns::{End, Lab, Namespace};
use wifu_sim::outcome::Outcome;

const NEAR: &str = "10.81.1.1";
const FAR: &str = "10.81.2.2";
const NAMES: [&str; 3] = ["n1", "n2", "n3"];

/// Three hosts in a row, and what runs there; all of it ends with this value.
struct Row {
    hosts: [Namespace; 3],
    daemons: [Option<Child>; 3],
    dir: PathBuf,
    _lab: Lab,
}

impl Row {
    fn new(test: &str) -> Row {
        let name = format!("t-{test}-{}", std::process::id());
        let mut lab = Lab::create(&name).expect("lab");
        let hosts = NAMES.map(|n| lab.node(n).expect("node"));
        let ends = [
            ["n1", "eth0", "10.81.1.1/24", "eth0", "10.81.1.2/24"],
            ["n3", "eth0", "10.81.2.2/24", "eth1", "10.81.2.1/24"],
        ];
        for [node, device, address, by, relay] in ends {
            let near = End {
                node,
                device,
                address,
            };
            let far = End {
                node: "n2",
                device: by,
                address: relay,
            };
            lab.link(near, far, 1500).expect("link");
        }
        for (node, via) in [("n1", "10.81.1.2"), ("n3", "10.81.2.1")] {
            lab.route(node, "default", via).expect("route");
        }
        lab.forward("n2").expect("forwarding");
        let dir = std::env::temp_dir().join(format!("custom-{name}"));
        std::fs::create_dir(&dir).expect("a folder");
        Row {
            hosts,
            daemons: [None, None, None],
            dir,
            _lab: lab,
        }
    }

    /// Let no more leave a host than this.
    fn shape(&self, host: usize, rate: &str) {
        let mut tc = self.hosts[host].command("tc").expect("namespace");
        tc.args(["qdisc", "replace", "dev", "eth0", "root", "tbf"]);
        tc.args(["rate", rate, "burst", "10kb", "limit", "1mb"]);
        assert!(tc.status().expect("tc").success());
    }

    /// Start a program on a host; its words go to a file, by the name of the host and this one.
    fn start(&self, host: usize, name: &str, args: &[&str]) -> Child {
        let mut command = self.hosts[host].command(CUSTOM).expect("namespace");
        let file = File::create(self.path(host, name)).expect("a file");
        let both = file.try_clone().expect("a file");
        command.args(args).stdin(Stdio::null());
        command
            .stdout(file)
            .stderr(both)
            .spawn()
            .expect("a program")
    }

    fn path(&self, host: usize, name: &str) -> PathBuf {
        self.dir.join(format!("{}-{name}", NAMES[host]))
    }

    fn said(&self, host: usize, name: &str) -> String {
        std::fs::read_to_string(self.path(host, name)).expect("a file")
    }

    fn awaits(&self, host: usize, name: &str, words: &str) {
        let until = Instant::now() + Duration::from_secs(60);
        while !self.said(host, name).contains(words) {
            let said = self.said(host, name);
            assert!(Instant::now() < until, "never said {words}: {said}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn serve(&mut self, host: usize, protocol: &str) {
        self.daemon(host, &["--serve", protocol]);
    }

    fn daemon(&mut self, host: usize, more: &[&str]) {
        let daemon = self.start(host, "daemon", &[&["daemon"], more].concat());
        self.daemons[host] = Some(daemon);
        self.awaits(host, "daemon", "ready: ");
    }

    /// The first host sends so much to the last one, which gets just that.
    fn transfer(&self, protocol: &str, octets: u32) {
        let octets = octets.to_string();
        let play = |who| {
            let over = ["exec", "-p", protocol, "--", "python3", PEER];
            [&over[..], &[who, FAR, "7000", &octets, "0"]].concat()
        };
        let mut server = self.start(2, "peer", &play("serve"));
        self.awaits(2, "peer", "listening");
        let mut client = self.start(0, "peer", &play("connect"));
        self.awaits(2, "peer", " s\n");
        self.awaits(0, "peer", " s\n");
        assert!(server.wait().expect("its end").success());
        assert!(client.wait().expect("its end").success());
        let said = self.said(2, "peer");
        println!("{protocol}: {said}");
        assert!(said.contains("exact "), "{said}");
    }

    /// A connection of a host like this, of those that `ss --json` lists, as soon as there is one.
    fn found(&self, host: usize, like: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let mut command = self.hosts[host].command(CUSTOM).expect("namespace");
            let output = command.args(["ss", "--json"]).output().expect("ss");
            let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let all = all.as_array().expect("a list");
            if let Some(found) = all.iter().find(|c| like(c)) {
                return found.clone();
            }
            assert!(Instant::now() < until, "{all:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// End a daemon as a service manager does; its counters.
    fn counted(&mut self, host: usize) -> Value {
        let mut daemon = self.daemons[host].take().expect("a daemon");
        let mut kill = Command::new("kill");
        let killed = kill.arg(daemon.id().to_string()).status().expect("kill");
        assert!(killed.success() && daemon.wait().expect("its end").success());
        let said = self.said(host, "daemon");
        let counted = said.lines().find_map(|l| l.split_once("counted: "));
        serde_json::from_str(counted.expect("counters").1).expect("JSON")
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        // One that is killed leaves in the kernel what keeps its lanes' packets dropped.
        for daemon in self.daemons.iter_mut().flatten() {
            let _ = Command::new("kill").arg(daemon.id().to_string()).status();
            let until = Instant::now() + Duration::from_secs(5);
            while matches!(daemon.try_wait(), Ok(None)) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = (daemon.kill(), daemon.wait());
        }
        remove(&self.dir);
    }
}

/// The same transfer over two wires of the simulator.
fn simulate(protocol: &str, octets: u32) -> Outcome {
    let outcome = common::simulate("linear,3,wire=1Gb/s", "n3", protocol, octets);
    assert!(outcome.flows[0].finished, "{:?}", outcome.flows);
    outcome
}

const OCTETS: u32 = 300_000;

/// All hosts serve, the first sends to the last: what each daemon counted, and the simulator.
fn both(protocol: &str) -> ([Value; 3], Outcome) {
    let mut row = Row::new("both");
    (0..3).for_each(|host| row.serve(host, protocol));
    row.transfer(protocol, OCTETS);
    (
        [0, 1, 2].map(|h| row.counted(h)),
        simulate(protocol, OCTETS),
    )
}

/// Nothing is overheard on a wire, so no credits: each packet is taken, and handed down, once.
#[test]
fn lanes_take_and_hand_down_on_wires_what_they_do_in_the_simulator() {
    if !privileged() {
        return;
    }
    let (counted, simulated) = both("ungated,last_hop=none");
    for (host, counted) in counted.iter().enumerate() {
        let (live, there) = (&counted["lanes"], simulated.nodes[host].lanes);
        println!("{}: {live} {there:?}", NAMES[host]);
        let there = there.expect("lanes");
        assert_eq!(number(live, "opened"), there.opened);
        // How often the source says something again is a matter of time, and so is whether the
        // last data or a packet of its own tells the end.
        assert!(number(live, "taken") + 1 >= there.taken);
        assert_eq!((there.taken, there.full), (there.sent, 0));
        assert_eq!(number(live, "taken"), number(live, "sent"));
        for none in ["strangers", "unlaned", "returned"] {
            assert_eq!(number(live, none), 0, "{none}: {live}");
        }
    }
    // A wire loses nothing: what both ends hand down, the relay takes, or has no place for.
    let [near, relay, far] = [0, 1, 2].map(|host| &counted[host]["lanes"]);
    let came = number(relay, "taken") + number(relay, "full");
    let sent = number(near, "sent") + number(far, "sent");
    assert_eq!(came, sent, "{near} {relay} {far}");
    assert!(number(relay, "taken") > 200, "{relay}");
}

/// Each host's driver tells another delay: the largest, that of the relay, comes back to the source
/// and is what it sends by.
#[test]
fn each_host_raises_the_word_that_sets_the_rate() {
    if !privileged() {
        return;
    }
    const DELAYS: [u32; 3] = [700, 2_500, 300];
    let mut row = Row::new("delays");
    for (host, us) in DELAYS.iter().enumerate() {
        let dir = row.path(host, "driver");
        std::fs::create_dir(&dir).expect("a folder");
        for name in ["Da", "sample"] {
            std::fs::write(dir.join(name), format!("{us}\n")).expect("a file");
        }
        let dir = dir.to_str().expect("text").to_owned();
        row.daemon(host, &["--serve", "atp-aggressive", "--delay-dir", &dir]);
        assert!(!row.said(host, "daemon").contains("goes without"));
    }
    let watch = ["ss", "--watch", "epochs.delay_us", "--interval", "0.1"];
    let mut watch = row.start(2, "watch", &watch);
    row.transfer("atp-aggressive", OCTETS);
    let _ = (watch.kill(), watch.wait());
    let said = row.said(2, "watch");
    let last = said.lines().last().and_then(|l| l.rsplit_once("delay_us:"));
    let seen: f64 = last.expect("numbers").1.parse().expect("microseconds");
    // A driver that has nothing to send reports `eta` = 3 times its delay.
    assert!((7_000.0..=7_501.0).contains(&seen), "{said}");
    let counted = [0, 1, 2].map(|h| row.counted(h));
    let simulated = simulate("atp-aggressive", OCTETS);
    let mut raised = Vec::new();
    for host in 0..2 {
        let live = &counted[host]["handlers"][0];
        let there = &simulated.nodes[host].handlers[0];
        println!("{}: {live} {there:?}", NAMES[host]);
        assert_eq!(live["name"], there.name);
        // How often something goes again is a matter of time.
        assert!(number(live, "changed") >= there.changed, "{live}");
        raised.push(number(live, "changed"));
    }
    // Each raises it in every packet of data, and a wire loses none.
    assert_eq!(raised[0], raised[1]);
    assert_eq!(number(&counted[2]["handlers"][0], "changed"), 0);
}

/// Four transfers over a wire that carries 8 Mb/s: how many packets of each arrived within 3 s, in
/// the order in which their lanes were opened. Of each the source has 91 packets under way, as many
/// as the kernel's queue holds: those of the others wait in their lanes.
fn share(order: &[&str]) -> [u64; 4] {
    const PORTS: [&str; 4] = ["7000", "7001", "7002", "7003"];
    let protocol = "ungated,lane.packets=64";
    let mut row = Row::new("share");
    row.shape(0, "8mbit");
    let serve = ["--serve", protocol];
    (0..3).for_each(|host| row.daemon(host, &[&serve, order].concat()));
    let over = ["exec", "-p", protocol, "--", "python3", PEER];
    let mut peers = Vec::new();
    for port in PORTS {
        let play = |who| [&over[..], &[who, FAR, port, "8000000", "0"]].concat();
        let server = row.start(2, port, &play("serve"));
        row.awaits(2, port, "listening");
        peers.extend([server, row.start(0, port, &play("connect"))]);
        let to = format!("{FAR}:{port}");
        row.found(0, |c| c["remote"] == to && number(c, "data_out") > 0);
    }
    // Over wires the source learns of nothing before all that it has was sent.
    let arrived = || {
        PORTS.map(|port| {
            let at = format!("{FAR}:{port}");
            number(
                &row.found(2, |c| c["local"] == at && c["state"] != "LISTEN"),
                "segments_in",
            )
        })
    };
    let before = arrived();
    std::thread::sleep(Duration::from_secs(3));
    let after = arrived();
    for mut peer in peers {
        let _ = peer.kill();
        let _ = peer.wait();
    }
    core::array::from_fn(|i| after[i] - before[i])
}

#[test]
fn lanes_share_a_link_in_the_order_that_a_daemon_is_told() {
    if !privileged() {
        return;
    }
    let [strict, drr, fifo] = [&["--lanes", "strict"][..], &[], &["--lanes", "fifo"]].map(share);
    println!("strict {strict:?}, drr {drr:?}, fifo {fifo:?}");
    // A relay that comes late loses packets, so that the link is idle for a while: in any order.
    let of_the_last = |all: [u64; 4]| all[3] as f64 / all.iter().sum::<u64>() as f64;
    for shared in [drr, fifo] {
        assert!(
            of_the_last(strict) < 0.6 * of_the_last(shared),
            "{strict:?} {shared:?}"
        );
    }
}

/// It brings nothing for the way: its ends ask for no relay, and the kernel forwards.
#[test]
fn a_pacer_that_reads_hops_needs_nothing_of_the_relay() {
    if !privileged() {
        return;
    }
    let mut row = Row::new("paced");
    let mut refused = row.start(1, "refused", &["daemon", "--serve", "paced"]);
    assert!(!refused.wait().expect("its end").success());
    let said = row.said(1, "refused");
    assert!(
        said.contains("paced brings nothing for nodes on the way"),
        "{said}"
    );
    // It brings handlers, and no lane.
    let vain = ["daemon", "--serve", "atp-aggressive", "--lanes", "strict"];
    let mut refused = row.start(1, "refused", &vain);
    assert!(!refused.wait().expect("its end").success());
    let said = row.said(1, "refused");
    assert!(
        said.contains("no composition that is served has lanes"),
        "{said}"
    );
    for host in [0, 2] {
        row.daemon(host, &[]);
    }
    let play = |who, to| {
        let over = ["exec", "-p", "paced", "--", "python3", PEER];
        [&over[..], &[who, FAR, "7000", "3000000", to]].concat()
    };
    let mut server = row.start(2, "peer", &play("serve", "0"));
    row.awaits(2, "peer", "listening");
    let mut client = row.start(0, "peer", &play("connect", "0"));
    let paced = row.found(0, |c| c["limits_ns"]["pace"].as_u64() > Some(0));
    println!("{paced}");
    row.awaits(2, "peer", " s\n");
    assert!(
        row.said(2, "peer").contains("exact "),
        "{}",
        row.said(2, "peer")
    );
    assert!(client.wait().expect("its end").success());
    assert!(server.wait().expect("its end").success());
}

/// A daemon that serves nothing lets no packet leave after the deadline that a part of it noted: here
/// none that its host takes milliseconds over.
#[test]
fn what_is_late_does_not_leave_a_daemon() {
    if !privileged() {
        return;
    }
    let mut row = Row::new("late");
    row.daemon(2, &[]);
    row.daemon(0, &["--host-profile", "py"]);
    let play = |protocol, who| {
        let over = ["exec", "-p", protocol, "--", "python3", PEER];
        [&over[..], &[who, FAR, "7000", "50000", "0"]].concat()
    };
    let mut server = row.start(2, "peer", &play("paced", "serve"));
    row.awaits(2, "peer", "listening");
    let mut client = row.start(0, "peer", &play("paced,worth=1us", "connect"));
    let waits = row.found(0, |c| c["timeouts"].as_u64() > Some(1));
    println!("{waits}");
    let _ = client.kill();
    let _ = server.kill();
    let _ = (client.wait(), server.wait());
    let counted = row.counted(0);
    assert!(number(&counted["packets"], "late") > 1, "{counted}");
}

/// The kernel of a relay without a daemon forwards what only handlers look at; the receiver notices, and
/// tells the sender.
#[test]
fn a_relay_without_a_daemon_is_noticed_by_both_ends() {
    if !privileged() {
        return;
    }
    let mut row = Row::new("unserved");
    row.serve(0, "atp-aggressive");
    row.serve(2, "atp-aggressive");
    let mut server = row.start(
        2,
        "peer",
        &[
            "exec",
            "-p",
            "atp-aggressive",
            "--",
            "python3",
            PEER,
            "serve",
            FAR,
            "7000",
            "300000",
            "1",
        ],
    );
    row.awaits(2, "peer", "listening");
    let mut client = row.start(
        0,
        "peer",
        &[
            "exec",
            "-p",
            "atp-aggressive",
            "--",
            "python3",
            PEER,
            "connect",
            FAR,
            "7000",
            "100000",
            "1",
        ],
    );
    let noticed = row.found(2, |c| c["unserved"].as_u64() > Some(20));
    println!("{noticed}");
    // Who sends learns of it from what is answered.
    row.found(0, |c| c["unserved"].as_u64() > Some(10));
    assert!(
        noticed["remote"]
            .as_str()
            .is_some_and(|r| r.starts_with(NEAR))
    );
    let _ = client.kill();
    let _ = server.kill();
    let _ = (client.wait(), server.wait());
    let sender = row.counted(0);
    assert!(number(&sender["handlers"][0], "changed") > 20, "{sender}");
    assert!(
        number(&sender["unserved"], "atp-aggressive") > 10,
        "{sender}"
    );
    let counted = row.counted(2);
    assert!(
        number(&counted["unserved"], "atp-aggressive") > 20,
        "{counted}"
    );
    let said = row.said(2, "daemon");
    let told = said.matches("packets of atp-aggressive pass a node that does not serve it");
    assert_eq!(told.count(), 1, "{said}");
}
