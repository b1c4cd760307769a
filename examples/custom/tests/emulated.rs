//! The protocols of this crate between the kernels of emulated hosts, with a daemon on each: what
//! `wifu emu --serve` starts. Needs root.

mod common;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard};

use common::{CUSTOM, PEER, number, privileged, remove};
use serde_json::Value;
use wifu_sim::outcome::Outcome;

/// What a plan of the simulator and the emulation have in common.
const ROW: &str = "linear,4,rate=24M";

/// Emulations make each other late.
static ONE: Mutex<()> = Mutex::new(());

/// A folder for what programs say, removed in the end.
struct Run {
    dir: PathBuf,
    label: String,
    _alone: MutexGuard<'static, ()>,
}

impl Run {
    fn new(name: &str) -> Run {
        let alone = ONE.lock().unwrap_or_else(|e| e.into_inner());
        let label = format!("t-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(format!("custom-{label}"));
        std::fs::create_dir(&dir).expect("a folder");
        Run {
            dir,
            label,
            _alone: alone,
        }
    }

    /// A line for the prompt: a program on a host over a protocol, in the background. The first host
    /// asks the last one: octets of question and answer.
    fn peer(&self, host: u8, protocol: &str, octets: [u32; 2]) -> String {
        let (said, [out, back]) = (self.said(host), octets);
        let said = said.display();
        let run = format!("{CUSTOM} exec -p {protocol} -- python3 {PEER}");
        match host {
            4 => format!(
                "n4 {run} serve 10.0.0.4 7000 {out} {back} >{said} 2>&1 & \
                 until grep -q listening {said}; do sleep 0.05; done\n"
            ),
            _ => format!("n{host} {run} connect 10.0.0.4 7000 {out} {back} >{said} 2>&1 &\n"),
        }
    }

    /// Wait until both have said how it ended.
    fn waits(&self) -> String {
        let done = [1, 4].map(|host| format!("grep -q ' s$' {}", self.said(host).display()));
        let [a, b] = done;
        format!("sh for i in $(seq 600); do {a} && {b} && break; sleep 0.1; done\n")
    }

    fn said(&self, host: u8) -> PathBuf {
        self.dir.join(format!("n{host}"))
    }

    /// Let an emulation obey these lines, after which both peers have got what was sent; its
    /// outcome.
    fn emulate(&self, topology: &str, protocol: &str, lines: &str) -> Value {
        let outcome = self.obey(topology, protocol, lines);
        for host in [1, 4] {
            let said = std::fs::read_to_string(self.said(host)).expect("a program's words");
            assert!(said.contains("exact "), "n{host}: {said}");
            println!("n{host}: {said}");
        }
        outcome
    }

    /// Let an emulation obey these lines; its outcome.
    fn obey(&self, topology: &str, protocol: &str, lines: &str) -> Value {
        let mut emu = Command::new(CUSTOM);
        emu.args(["emu", "--share", "--name", &self.label, "--topo", topology]);
        let mut emu = emu
            .args(["--serve", protocol, "--json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("emu");
        let mut stdin = emu.stdin.take().expect("piped");
        stdin.write_all(lines.as_bytes()).expect("a line");
        drop(stdin);
        let output = emu.wait_with_output().expect("emu ends");
        assert!(output.status.success());
        let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        all["wifu"].clone()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        remove(&self.dir);
    }
}

/// The same transfer in the simulator.
fn simulate(protocol: &str, bytes: u32) -> Outcome {
    common::simulate(ROW, "n4", protocol, bytes)
}

#[test]
fn lanes_between_kernels_do_what_they_do_in_the_simulator() {
    if !privileged() {
        return;
    }
    let run = Run::new("hop");
    let sends = [300_000, 0];
    let lines = run.peer(4, "hxh", sends) + &run.peer(1, "hxh", sends) + &run.waits();
    let emulated = run.emulate(ROW, "hxh", &lines);
    let simulated = simulate("hxh", sends[0]);
    assert!(simulated.flows[0].finished);
    for (node, name) in ["n1", "n2", "n3"].into_iter().enumerate() {
        let (daemon, node) = (&emulated["daemons"][name], &simulated.nodes[node]);
        let lanes = &daemon["lanes"];
        let there = node.lanes.expect("lanes");
        println!("{name}: {lanes} {there:?}");
        assert_eq!(number(lanes, "taken"), there.taken, "{name}");
        assert_eq!(number(lanes, "opened"), there.opened, "{name}");
        // Only custody of the last hop sends copies, as often as its own clock says.
        let (sent, kept) = (number(lanes, "sent"), number(lanes, "kept"));
        assert_eq!(kept > 0, there.kept > 0, "{name}");
        assert!(sent >= there.taken, "{name}");
        assert!(kept > 0 || sent == there.taken, "{name}");
        for none in ["full", "strangers", "unlaned", "returned"] {
            assert_eq!(number(lanes, none), 0, "{name}: {none}");
        }
    }
    let first = &emulated["daemons"]["n1"];
    assert_eq!(
        number(&first["lanes"], "most"),
        8,
        "the lane fills: credits hold it"
    );
    assert!(number(&first["monitor"], "overheard") > 209, "{first}");
    let [reported, lost] = ["reported", "lost"].map(|key| number(&first["monitor"], key));
    assert!(reported >= 209 && lost == 0, "{first}");
}

#[test]
fn an_answer_comes_while_a_relay_is_killed_and_started_again() {
    if !privileged() {
        return;
    }
    let run = Run::new("kill");
    let sends = [100, 2_000_000];
    let lines = run.peer(4, "hxh", sends)
        + &run.peer(1, "hxh", sends)
        + "sh sleep 1\nkill n2\nsh sleep 1\nserve n2\n"
        + &run.waits();
    let emulated = run.emulate(ROW, "hxh", &lines);
    // The one that was started again has lanes of its own.
    let relay = &emulated["daemons"]["n2"];
    assert!(number(&relay["lanes"], "taken") > 100, "{relay}");
}

/// Unmodified programs across two relays, one of which loses its daemon; what is not served goes its
/// way as before.
#[test]
fn curl_downloads_while_a_relay_is_killed_and_started_again() {
    if !privileged() {
        return;
    }
    let run = Run::new("curl");
    let dir = run.dir.display();
    let http = "python3 -m http.server --bind 10.0.0.4 --directory";
    let foreign = "-s 10.9.9.9/32 -j DROP";
    let curl = "curl -sS --retry 20 --retry-connrefused --retry-delay 1 -o";
    let status = format!(
        "for p in $(ip netns pids wifu-{}-n$n); do tr '\\0' ' ' </proc/$p/cmdline; \
         tr '\\n' ' ' </proc/$p/status; echo; done",
        run.label
    );
    let lines = format!(
        "sh head -c 10000000 /dev/urandom >{dir}/file; head -c 100000 {dir}/file >{dir}/small\n\
         n2 iptables -A FORWARD {foreign}; iptables-save -c | grep -v '^[#:]' >{dir}/before\n\
         n4 {CUSTOM} exec -p hxh -- {http} {dir} 8000 >{dir}/n4 2>&1 &\n\
         n4 {http} {dir} 8001 >{dir}/kernel 2>&1 &\n\
         n1 ( {CUSTOM} exec -p hxh -- {curl} {dir}/got http://10.0.0.4:8000/file 2>{dir}/n1; \
            echo ends $? >>{dir}/n1 ) &\n\
         sh sleep 4; for n in 1 2 3 4; do {status}; done >{dir}/status; stat -c %s {dir}/got >{dir}/had\n\
         kill n2\nn1 ping -c2 10.0.0.4 >{dir}/ping\nserve n2\n\
         n1 {curl} {dir}/by-kernel http://10.0.0.4:8001/small\n\
         n2 iptables-save -c | grep -v '^[#:]' >{dir}/after\n\
         sh for i in $(seq 900); do grep -q ends {dir}/n1 && break; sleep 0.1; done\n"
    );
    let emulated = run.obey(ROW, "hxh", &lines);
    let read = |name: &str| std::fs::read(run.dir.join(name)).expect("a file");
    let text = |name: &str| String::from_utf8_lossy(&read(name)).into_owned();
    assert!(text("n1").ends_with("\nends 0\n"), "{}", text("n1"));
    let had: u64 = text("had").trim().parse().expect("a number");
    assert!((1..10_000_000).contains(&had), "it was under way: {had}");
    assert!(read("got") == read("file"), "the file came as it is");
    assert!(
        read("by-kernel") == read("small"),
        "by the kernel's TCP, too"
    );
    assert!(text("ping").contains(" 0% packet loss"), "{}", text("ping"));
    let before = text("before");
    assert!(before.contains(foreign), "somebody's are there: {before}");
    assert_eq!(before, text("after"), "nobody's rules change");
    let status = text("status");
    let daemons = status
        .lines()
        .filter(|l| l.contains(" daemon "))
        .map(|line| {
            let capabilities = line
                .split("CapPrm:\t")
                .nth(1)
                .and_then(|l| l.split(' ').next());
            assert_eq!(capabilities, Some("0000000000000000"), "{line}");
        });
    assert_eq!(daemons.count(), 4, "{status}");
    for name in ["n4", "n3"] {
        let lanes = &emulated["daemons"][name]["lanes"];
        assert!(
            number(lanes, "taken") > 10_000_000 / 1460,
            "{name}: {lanes}"
        );
    }
}

/// The kernel of a relay, which forwards everything else, does not forward what lanes had when their
/// daemon was killed: custody would end without anybody's knowing.
#[test]
fn packets_of_lanes_stay_dropped_where_a_daemon_was_killed() {
    if !privileged() {
        return;
    }
    let run = Run::new("closed");
    let file = |name: &str| run.dir.join(name).display().to_string();
    let pins = "ls /sys/fs/bpf/wifu/ 2>/dev/null";
    let (snmp, log) = (
        "/proc/self/net/snmp",
        format!("/run/wifu/emu/{}/n2/daemon.log", run.label),
    );
    let look = |at: &str| {
        let name = file(at);
        format!("n2 cat {snmp} >{name}\nsh {pins} >{name}-pins\n")
    };
    let sends = [100, 2_000_000];
    let lines = run.peer(4, "hxh", sends)
        + &run.peer(1, "hxh", sends)
        + "sh sleep 1\nkill n2\nsh sleep 0.2\n"
        + &look("killed")
        + "n1 ping -c3 -i0.2 10.0.0.4\nsh sleep 1.5\n"
        + &look("later")
        + &format!("n2 stat -Lc %i /proc/self/ns/net >{}\n", file("number"))
        + &format!("sh {CUSTOM} clean --dry-run >{}\n", file("elsewhere"))
        + &format!("n2 {CUSTOM} clean --dry-run >{}\n", file("clean"))
        + "serve n2\n"
        + &format!("sh cat {log} >{}\n", file("log"))
        + &run.waits();
    let emulated = run.emulate(ROW, "hxh", &lines);
    let read = |name: &str| std::fs::read_to_string(file(name)).expect("a file");
    let forwarded = |at: &str| {
        let text = read(at);
        let line = text.lines().filter(|l| l.starts_with("Ip: ")).nth(1);
        let field = line.and_then(|l| l.split(' ').nth(6));
        field
            .expect("ForwDatagrams")
            .parse::<u64>()
            .expect("a number")
    };
    // Three pings there and three back, and nothing of the protocol.
    assert_eq!(forwarded("later"), forwarded("killed") + 6);
    // Each daemon's; of the killed one as well.
    assert_eq!(
        read("later-pins").lines().count(),
        4,
        "{}",
        read("later-pins")
    );
    // Only who cleans in its network namespace ends that.
    let inode = read("number");
    let inode = inode.trim();
    for (name, here) in [("elsewhere", false), ("clean", true)] {
        let said = read(name);
        let removed = format!("\nrm -r /sys/fs/bpf/wifu/{inode}-");
        let kept = format!(", which was killed: in network namespace {inode}, not here\n");
        assert_eq!(said.contains(&kept), !here, "{said}");
        assert_eq!(format!("\n{said}").contains(&removed), here, "{said}");
    }
    let log = read("log");
    let (_, dropped) = log.split_once("was killed: ").expect(&log);
    let dropped = dropped.split(' ').next().expect("a number");
    assert!(dropped.parse::<u64>().expect("a number") > 0, "{log}");
    assert!(number(&emulated["daemons"]["n2"]["lanes"], "taken") > 100);
    let left = Command::new("sh").args(["-c", pins]).output().expect("ls");
    let left = String::from_utf8_lossy(&left.stdout).into_owned();
    assert_eq!(left, "", "all are gone with the emulation");
}

/// Two relays side by side, of which the ends take first one and then the other.
#[test]
fn a_flow_changes_its_relay_while_it_lasts() {
    if !privileged() {
        return;
    }
    let run = Run::new("route");
    let table = run.dir.join("diamond.toml");
    let text = "[radio]\nrate = \"24Mb/s\"\n[matrix]\nsnr_db = [[nan, 30.0, 30.0, -30.0], [30.0, nan, -30.0, 30.0], \
                [30.0, -30.0, nan, 30.0], [-30.0, 30.0, 30.0, nan]]\n\
                [[node]]\nname = \"n1\"\n[[node]]\nname = \"n2\"\n\
                [[node]]\nname = \"n3\"\n[[node]]\nname = \"n4\"\n";
    std::fs::write(&table, text).expect("a file");
    let by = |relay: u8| {
        format!(
            "n1 ip route replace 10.0.0.4 via 10.0.0.{relay}\n\
             n4 ip route replace 10.0.0.1 via 10.0.0.{relay}\n"
        )
    };
    let sends = [100, 6_000_000];
    let lines = by(2)
        + &run.peer(4, "hxh", sends)
        + &run.peer(1, "hxh", sends)
        + "sh sleep 3\n"
        + &by(3)
        + &run.waits();
    let topology = table.display().to_string();
    let emulated = run.emulate(&topology, "hxh", &lines);
    let lanes = |name: &str| number(&emulated["daemons"][name]["lanes"], "taken");
    println!("{} by n2, {} by n3", lanes("n2"), lanes("n3"));
    assert!(lanes("n2") > 100 && lanes("n3") > 100);
    // What the first one held has arrived, too.
    assert!(lanes("n2") + lanes("n3") >= 6_000_000 / 1460);
}

#[test]
fn a_handler_on_kernels_raises_the_word_that_sets_the_rate() {
    if !privileged() {
        return;
    }
    let run = Run::new("delays");
    // Some seconds.
    let sends = [2_000_000, 0];
    let file = |name: &str| run.dir.join(name).display().to_string();
    let ended = format!("grep -q ' s$' {}", run.said(4).display());
    // The largest delay of the nodes that send, as the emulation tells it.
    let told = format!(
        "sh for i in $(seq 600); do {ended} && break; sleep 0.05; \
         sort -n /run/wifu/emu/{}/n[123]/Da | tail -n 1; done >{} 2>&1 &\n",
        run.label,
        file("told")
    );
    let watch = format!(
        "n4 for i in $(seq 30); do {ended} && break; \
         timeout 1 {CUSTOM} ss --watch --json --interval 0.05; done >{} 2>&1\n",
        file("collected")
    );
    let lines = run.peer(4, "atp-aggressive", sends)
        + &run.peer(1, "atp-aggressive", sends)
        + &told
        + &watch
        + &run.waits();
    let emulated = run.emulate(ROW, "atp-aggressive", &lines);
    for name in ["n1", "n2", "n3"] {
        let handler = &emulated["daemons"][name]["handlers"][0];
        println!("{name}: {handler}");
        assert_eq!(handler["name"], "delay-collector");
        // Every data packet and at least one feedback pass.
        assert!(
            number(handler, "packets") > 2_000_000 / 1_460,
            "{name}: {handler}"
        );
        assert!(number(handler, "changed") > 100, "{name}: {handler}");
    }
    let read = |name: &str| std::fs::read_to_string(file(name)).expect("a file");
    let mut told: Vec<f64> = read("told").lines().flat_map(str::parse).collect();
    // Before the transfer it was that of a few packets of ARP.
    let before = told.iter().take_while(|us| **us == told[0]).count();
    told.drain(..before);
    let collected = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        line["values"]["epochs.delay_us"].as_f64()
    };
    let collected: Vec<f64> = read("collected").lines().filter_map(collected).collect();
    let [told, collected] = [told, collected].map(median);
    println!("told {told} us, collected {collected} us");
    // An idle node reports thrice its delay; what is collected is an average over packets.
    let ratio = collected / told;
    assert!((0.3..3.5).contains(&ratio), "{collected} us, not {told} us");
}

fn median(mut all: Vec<f64>) -> f64 {
    assert!(all.len() > 5, "{all:?}");
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

#[test]
fn a_part_reads_the_signal_of_frames_for_its_own_host() {
    if !privileged() {
        return;
    }
    let run = Run::new("paced");
    let sends = [150_000, 0];
    let watched = run.dir.join("watched");
    let watched = watched.display();
    let lines = run.peer(4, "paced", sends)
        + &run.peer(1, "paced", sends)
        + &format!(
            "n1 timeout 2 {CUSTOM} ss --watch --json --interval 0.1 >{watched} 2>&1; [ $? = 124 ]\n"
        )
        + &run.waits();
    run.emulate(ROW, "paced", &lines);
    let text = std::fs::read_to_string(run.dir.join("watched")).expect("a file");
    let seen = |name: &str| {
        text.lines().rev().find_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            let values = line["values"].as_object()?.clone();
            values
                .iter()
                .find(|(n, v)| n.ends_with(name) && v.is_number())
                .map(|(_, v)| v.as_f64())
        })
    };
    println!("{:?} {:?}", seen("rssi_dbm"), seen(".hops"));
    let rssi = seen("rssi_dbm").flatten().expect("a signal");
    assert!((-90.0..-20.0).contains(&rssi), "{rssi} dBm");
    assert_eq!(seen(".hops").flatten(), Some(3.0));
}

/// Its radio, its queues and its kernel's routes are gone for a while; its daemon stays.
#[test]
fn a_relay_that_restarts_is_served_on() {
    if !privileged() {
        return;
    }
    let run = Run::new("restart");
    let sends = [100, 3_000_000];
    let lines = run.peer(4, "hxh", sends)
        + &run.peer(1, "hxh", sends)
        + &format!(
            "sh sleep 1; cat {} >{}\n",
            run.said(1).display(),
            run.dir.join("had").display()
        )
        + "restart n2 1\n"
        + &run.waits();
    let emulated = run.emulate(ROW, "hxh", &lines);
    let had = std::fs::read_to_string(run.dir.join("had")).expect("a file");
    assert_eq!(had, "", "it was under way");
    let relay = &emulated["daemons"]["n2"];
    println!("{}", relay["lanes"]);
    assert!(
        number(&relay["lanes"], "taken") > 3_000_000 / 1_460,
        "{relay}"
    );
}
