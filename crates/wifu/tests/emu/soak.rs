//! Mixed traffic for a long time, while nodes are paused, links cut, and the relays, what runs on
//! them and the daemons restarted: every transfer is exact or ends with an error that says why, and
//! memory stays flat. WIFU_SOAK_SECONDS=600 makes it long.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use wifu_linux::netns::Namespace;

use super::{Emu, Flood, Scratch, WIFU, privileged};

/// Octets of a transfer, each way, and how long it may stand still, s.
const SIZE: &str = "200000";
const PATIENCE: &str = "30";

/// Errors that a program may see when hosts and daemons fail under it.
const CLEAR: [&str; 8] = [
    "Connection reset by peer",
    "Connection refused",
    "Connection timed out",
    "timed out",
    "Broken pipe",
    "Network is unreachable",
    "No route to host",
    "Connection aborted",
];

/// A program in the background, killed with the value.
pub struct Program(pub Child, PathBuf);

impl Program {
    pub fn start(mut command: Command, log: &Path, ready: &str) -> Program {
        let file = File::create(log).expect("log");
        let both = file.try_clone().expect("log");
        let command = command.stdin(Stdio::null()).stdout(file).stderr(both);
        let child = command.spawn().expect("program");
        let program = Program(child, log.to_owned());
        let deadline = Instant::now() + Duration::from_secs(20);
        while !program.said().contains(ready) {
            assert!(Instant::now() < deadline, "{ready}: {}", program.said());
            std::thread::sleep(Duration::from_millis(20));
        }
        program
    }

    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.1).unwrap_or_default()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The library beside the command that `wifu exec` loads.
fn preload() -> PathBuf {
    let dir = Path::new(WIFU).parent().expect("a folder");
    let places = ["", "deps"].map(|d| dir.join(d).join("libwifu_preload.so"));
    let age = |p: &PathBuf| p.metadata().ok()?.modified().ok()?.elapsed().ok();
    let there = places.into_iter().filter(|p| p.exists());
    there.min_by_key(age).expect("cargo build --workspace")
}

/// The hosts' programs.
struct Hosts<'a> {
    emu: &'a Emu,
    dir: &'a Path,
}

impl Hosts<'_> {
    fn command(&self, node: &str, over: Option<&str>) -> Command {
        command(&self.emu.namespace(node), over)
    }

    fn daemon(&self, node: &str) -> Program {
        let mut command = self.emu.namespace(node).command(WIFU).expect("namespace");
        command.arg("daemon");
        let log = self.dir.join(format!("daemon-{node}"));
        Program::start(command, &log, "ready: ")
    }

    fn core(&self, node: &str) -> Program {
        let config = self.dir.join("core.toml");
        let text = "[[handler]]\nuse = \"null\"\nhooks = [\"forward\"]\n\
                    [[handler]]\nuse = \"drop\"\nprotocol = 17\nhooks = [\"forward\"]\np = 0.05\n";
        std::fs::write(&config, text).expect("file");
        let mut command = self.emu.namespace(node).command(WIFU).expect("namespace");
        command.args(["core", "--config"]).arg(&config);
        Program::start(command, &self.dir.join("core"), "ready")
    }

    fn server(&self, node: &str, ip: &str, port: &str, over: Option<&str>) -> Program {
        let mut command = self.command(node, over);
        command.args(["serve", ip, port]);
        let log = self.dir.join(format!("server-{port}"));
        Program::start(command, &log, "listening")
    }
}

/// The script, over the kernel's TCP or a WiFu protocol.
pub fn command(namespace: &Namespace, over: Option<&str>) -> Command {
    let mut command = match over {
        None => namespace.command("python3").expect("namespace"),
        Some(spec) => {
            let mut command = namespace.command(WIFU).expect("namespace");
            command.env("WIFU_PRELOAD", preload());
            command.args(["exec", "--protocol", spec, "--", "python3"]);
            command
        }
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/emu/peer.py");
    command.arg("-u").arg(script);
    command
}

/// How transfers ended, by system.
type Ends = Arc<Mutex<BTreeMap<&'static str, BTreeMap<String, u32>>>>;

/// One transfer after the other.
struct Transfers(Option<std::thread::JoinHandle<()>>);

impl Transfers {
    fn start(
        system: &'static str,
        way: (Namespace, &'static str, &'static str),
        over: Option<&'static str>,
        (ends, stop): (&Ends, &Arc<AtomicBool>),
    ) -> Transfers {
        let (ends, stop) = (ends.clone(), stop.clone());
        Transfers(Some(std::thread::spawn(move || {
            let (namespace, ip, port) = way;
            while !stop.load(Ordering::Relaxed) {
                let mut command = command(&namespace, over);
                command.args(["send", ip, port, SIZE, PATIENCE]);
                let output = command.stdin(Stdio::null()).output().expect("python3");
                let text = String::from_utf8_lossy(&output.stdout).trim().to_string();
                let wrong = String::from_utf8_lossy(&output.stderr).trim().to_string();
                let how = if text.is_empty() { wrong } else { text };
                let mut all = ends.lock().expect("no panic");
                *all.entry(system).or_default().entry(how).or_default() += 1;
                drop(all);
                std::thread::sleep(Duration::from_millis(100));
            }
        })))
    }

    fn end(mut self) {
        let _ = self.0.take().map(std::thread::JoinHandle::join);
    }
}

/// What a process has in memory, KiB.
fn memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS:"));
    let kib = line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok());
    kib.expect("it runs")
}

fn wait(seconds: f64) {
    std::thread::sleep(Duration::from_secs_f64(seconds));
}

/// What goes wrong, over and over; gives how often each did.
fn disturb(
    hosts: &Hosts<'_>,
    core: &mut Program,
    far: &mut Program,
    until: Instant,
    mut look: impl FnMut(),
) -> [u32; 6] {
    let emu = hosts.emu;
    let kill = |p: &Program| {
        kill_process(Pid::from_child(&p.0), Signal::KILL).expect("signal");
    };
    let mut counts = [0; 6];
    for round in 0usize.. {
        let kind = round % counts.len();
        if Instant::now() > until && round >= counts.len() {
            break;
        }
        match kind {
            0 => {
                emu.done("cut n2 n3");
                wait(1.5);
                emu.done("restore n2 n3");
            }
            1 => emu.done("restart n2 1"),
            2 => {
                kill(core);
                wait(0.5);
                *core = hosts.core("n2");
            }
            3 => {
                emu.done("pause n3");
                wait(1.0);
                emu.done("resume n3");
            }
            4 => {
                kill(far);
                wait(0.2);
                *far = hosts.daemon("n4");
            }
            _ => {
                let before = emu.link("n3", "n4")["snr_db"].as_f64().expect("a number");
                emu.done("snr n3 n4 3");
                wait(1.0);
                emu.done(&format!("snr n3 n4 {before}"));
            }
        }
        counts[kind] += 1;
        look();
        // Long enough for transfers to pass unharmed.
        wait(4.5);
    }
    counts
}

fn duration() -> Duration {
    let asked = std::env::var("WIFU_SOAK_SECONDS").ok();
    let seconds = asked.map_or(35, |s| s.parse().expect("WIFU_SOAK_SECONDS: seconds"));
    Duration::from_secs(seconds)
}

/// Growth that a flat line may have: what allocators keep, KiB.
const FLAT: u64 = 4096;

#[test]
fn mixed_traffic_survives_what_happens_to_relays_links_and_daemons() {
    if !privileged() {
        return;
    }
    let dir = Scratch::new("soak");
    let emu = Emu::start("soak", &["--topo", "linear,4,rate=24M"]);
    let hosts = Hosts {
        emu: &emu,
        dir: &dir.0,
    };
    let spec = "tcp-newreno,rto_min=200ms";
    let near = hosts.daemon("n1");
    let (mut far, mut core) = (hosts.daemon("n4"), hosts.core("n2"));
    let (first, last) = ("10.0.0.1", "10.0.0.4");
    let _servers = [
        hosts.server("n4", last, "7001", None),
        hosts.server("n1", first, "7002", None),
        hosts.server("n4", last, "7003", Some(spec)),
    ];
    let (ends, stop) = (Ends::default(), Arc::new(AtomicBool::new(false)));
    let told = (&ends, &stop);
    let way = |node, ip, port| (emu.namespace(node), ip, port);
    let transfers = [
        Transfers::start("kernel, n1 to n4", way("n1", last, "7001"), None, told),
        Transfers::start("kernel, n4 to n1", way("n4", first, "7002"), None, told),
        Transfers::start("wifu, n1 to n4", way("n1", last, "7003"), Some(spec), told),
    ];
    let datagrams = Flood::start(&emu.namespace("n2"), last, 100);
    let begun = Instant::now();
    let mut sizes: Vec<[u64; 2]> = Vec::new();
    let pids = [emu.child.id(), near.0.id()];
    let counts = disturb(&hosts, &mut core, &mut far, begun + duration(), || {
        sizes.push(pids.map(memory));
    });
    stop.store(true, Ordering::Relaxed);
    transfers.into_iter().for_each(Transfers::end);
    drop(datagrams);
    let seconds = begun.elapsed().as_secs();
    println!("{seconds} s: {counts:?} cuts, restarts of n2, kills of its wifu core, pauses,");
    println!("kills of a daemon, fades");
    println!("{:#?}", ends.lock().expect("no panic"));
    println!("memory of emu and daemon, KiB, in the course of time: {sizes:?}");
    // Everything is there again: one more of each must be exact.
    for (node, ip, port, over) in [
        ("n1", last, "7001", None),
        ("n4", first, "7002", None),
        ("n1", last, "7003", Some(spec)),
    ] {
        let mut again = hosts.command(node, over);
        again.args(["send", ip, port, SIZE, PATIENCE]);
        let output = again.stdin(Stdio::null()).output().expect("python3");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(said.trim(), "exact", "{port} after the end");
    }
    emu.print_status();
    judge(&ends, &sizes);
    let status: Value = emu.ctl("status")["data"].clone();
    assert!(status["sent"].as_u64() > Some(1000), "{status}");
    drop((near, far, core));
    emu.exit();
}

fn judge(ends: &Ends, sizes: &[[u64; 2]]) {
    let all = ends.lock().expect("no panic");
    assert_eq!(all.len(), 3);
    for (system, how) in all.iter() {
        let exact = how.get("exact").copied().unwrap_or(0);
        assert!(exact >= 3, "{system}: {how:?}");
        for said in how.keys().filter(|h| *h != "exact") {
            let error = said.strip_prefix("error: ").unwrap_or("no word");
            assert!(CLEAR.contains(&error), "{system}: {said}");
        }
    }
    // What comes at the beginning only is no leak: from the first third on.
    let third = sizes.len() / 3;
    for (i, what) in ["wifu emu", "wifu daemon"].iter().enumerate() {
        let most = |part: &[[u64; 2]]| part.iter().map(|s| s[i]).max().expect("samples");
        let (early, late) = (most(&sizes[..=third]), most(&sizes[third..]));
        assert!(late <= early + FLAT, "{what} grows: {sizes:?}");
    }
}
