//! The emulated radio with real kernels: as the model says, under control, and gone afterwards.
//!
//! Where the machine is too slow for a run to be VALID, tests say so and do not judge its numbers.

use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, RecvFlags, SocketType, eth, recv, socket};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use wifu_linux::netns::{NETNS, Namespace, RUN};
use wifu_radio::topology::{Topology, resolve};
use wifu_radio::{Event, Frame, Radio};
use wifu_wire::{Rng, Time};

use common::privileged;

#[path = "emu/atp.rs"]
mod atp;
#[path = "../../wifu-linux/tests/common/mod.rs"]
mod common;
#[path = "emu/hops.rs"]
mod hops;
#[path = "emu/hxh.rs"]
mod hxh;
#[path = "emu/monitor.rs"]
mod monitor;
#[path = "emu/moves.rs"]
mod moves;
#[path = "emu/programs.rs"]
mod programs;
#[path = "emu/push_back.rs"]
mod push_back;
#[path = "emu/safety.rs"]
mod safety;
#[path = "emu/soak.rs"]
mod soak;

const WIFU: &str = env!("CARGO_BIN_EXE_wifu");

/// A line of the prompt that goes on once a program said a word into a file.
const AWAIT: &str = concat!("sh ", env!("CARGO_MANIFEST_DIR"), "/tests/emu/await.sh");

/// Emulations make each other late.
static ONE: Mutex<()> = Mutex::new(());

/// A running `wifu emu` that is told what to do by a pipe.
struct Emu {
    child: Child,
    stdin: Option<ChildStdin>,
    label: String,
    _alone: MutexGuard<'static, ()>,
}

impl Emu {
    /// Its label is made unique, so that several checkouts can be tested at once.
    fn start(name: &str, args: &[&str]) -> Emu {
        Emu::start_with(name, args, &[])
    }

    fn start_with(name: &str, args: &[&str], variables: &[(&str, &str)]) -> Emu {
        let alone = ONE.lock().unwrap_or_else(|e| e.into_inner());
        let label = format!("t-{name}-{}", std::process::id());
        let mut child = Command::new(WIFU)
            .args(["emu", "--share", "--name", &label])
            .args(args)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("wifu emu");
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        assert!(line.contains(" hosts: "), "{line}");
        // It must never wait for somebody to read what it says.
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        Emu {
            child,
            stdin,
            label,
            _alone: alone,
        }
    }

    fn namespace(&self, node: &str) -> Namespace {
        Namespace::named(&format!("wifu-{}-{node}", self.label))
    }

    fn on(&self, node: &str, program: &str, args: &[&str]) -> Output {
        let mut command = self.namespace(node).command(program).expect("namespace");
        let output = command.args(args).stdin(Stdio::null()).output();
        output.unwrap_or_else(|e| panic!("{program}: {e}"))
    }

    /// What `wifu emu ctl` says, as JSON.
    fn ctl(&self, words: &str) -> Value {
        let mut command = Command::new(WIFU);
        command.args(["emu", "ctl", "--json", "--name", &self.label]);
        let output = command.args(words.split(' ')).output().expect("ctl");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let answer: Value = serde_json::from_str(&text)
            .unwrap_or_else(|e| panic!("{e}: {text}{}", String::from_utf8_lossy(&output.stderr)));
        assert_eq!(answer["ok"], output.status.success(), "{answer}");
        answer
    }

    fn done(&self, words: &str) {
        let answer = self.ctl(words);
        assert_eq!(answer["ok"], true, "{words}: {answer}");
    }

    /// A row of `links`.
    fn link(&self, from: &str, to: &str) -> Value {
        let links = self.ctl("links")["data"].clone();
        let rows = links.as_array().expect("rows").clone();
        let found = rows
            .into_iter()
            .find(|l| l["from"] == from && l["to"] == to);
        found.unwrap_or_else(|| panic!("no link {from}-{to}"))
    }

    /// Prints how the run does; what a test checks after this holds on any machine.
    fn print_status(&self) -> Value {
        let status = self.ctl("status");
        println!("{}", status["text"].as_str().unwrap_or_default());
        status
    }

    /// Whether its numbers may be judged; says why not.
    fn is_valid(&self) -> bool {
        let status = self.print_status();
        let valid = status["data"]["verdict"] == "VALID";
        if !valid {
            println!("numbers are not judged: this machine is too slow for this run now");
        }
        valid
    }

    /// Round-trip times of answered pings, ms.
    fn ping(&self, from: &str, words: &str) -> Vec<f64> {
        let args: Vec<&str> = words.split(' ').collect();
        let output = self.on(from, "ping", &args);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let times = text
            .lines()
            .filter_map(|l| l.split_once("time=")?.1.split(' ').next());
        times.flat_map(str::parse).collect()
    }

    /// A socket for all packets that a node's kernel sees.
    fn capture(&self, node: &str) -> OwnedFd {
        let every = Some(eth::ALL);
        let opened = self
            .namespace(node)
            .run(|| socket(AddressFamily::PACKET, SocketType::RAW, every));
        opened.expect("namespace").expect("packet socket")
    }

    fn exit(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().expect("wait").success());
    }
}

impl Drop for Emu {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// Datagrams of 1500 octets of IP, faster than the radio can, until the value is dropped.
struct Flood {
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Flood {
    fn start(namespace: &Namespace, to: &str, per_second: u32) -> Flood {
        use std::sync::atomic::Ordering;
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let socket = namespace
            .run(|| UdpSocket::bind("0.0.0.0:0"))
            .expect("namespace");
        let socket = socket.expect("socket");
        socket.connect((to, 9)).expect("connect");
        // It waits for the driver, but not for long when it is to stop.
        let patience = Some(Duration::from_millis(50));
        socket.set_write_timeout(patience).expect("timeout");
        let told = stop.clone();
        let thread = std::thread::spawn(move || {
            let payload = [0u8; 1472];
            let pause = Duration::from_millis(10);
            while !told.load(Ordering::Relaxed) {
                for _ in 0..per_second / 100 {
                    // The answer to the first may be that nobody listens.
                    let _ = socket.send(&payload);
                }
                std::thread::sleep(pause);
            }
        });
        Flood {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

fn median(values: Vec<f64>) -> f64 {
    quantile(values, 0.5)
}

/// The value that `share` of the others are less than.
fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    assert!(!values.is_empty());
    values.sort_by(f64::total_cmp);
    values[(values.len() as f64 * share) as usize]
}

/// Medians of round trips over one hop by the model alone, ms: the answer enters when the
/// question has left.
fn model_rtt(topology: &Topology, bytes: u16) -> f64 {
    let rng = Rng::new(7);
    let plan = resolve(topology, &rng).expect("plan");
    let mut radio = Radio::new(&plan, &rng);
    let mut times = Vec::new();
    for i in 1..=400u64 {
        let start = Time(i * 50_000_000);
        let frame = |to, cookie| Frame {
            to: Some(to),
            bytes,
            cookie,
        };
        while radio.poll_timeout() < start {
            radio.handle_timeout(radio.poll_timeout());
            while radio.poll_event().is_some() {}
        }
        assert!(radio.send(start, 0, frame(1, 1)));
        let mut end = None;
        while end.is_none() {
            let now = radio.poll_timeout();
            radio.handle_timeout(now);
            while let Some(event) = radio.poll_event() {
                match event {
                    Event::Received { node: 1, .. } => {
                        assert!(radio.send(now, 1, frame(0, 2)));
                    }
                    Event::Received { node: 0, .. } => end = Some(now),
                    _ => {}
                }
            }
        }
        times.extend(end.map(|e| (e - start).0 as f64 / 1e6));
    }
    median(times)
}

#[test]
fn a_ping_over_one_idle_hop_takes_what_the_model_says() {
    if !privileged() {
        return;
    }
    for (rate, size) in [("6M", 56), ("24M", 1472)] {
        let words = format!("linear,2,rate={rate}");
        let topology = Topology::from_words(&words, None).expect("words");
        let model = model_rtt(&topology, size + 28);
        let emu = Emu::start("ping", &["--topo", &words]);
        let times = emu.ping("n1", &format!("-n -c 150 -i 0.02 -s {size} 10.0.0.2"));
        assert!(times.len() > 140, "{} answers", times.len());
        // A kernel answers an echo while it is handed it: the model's time stands still meanwhile.
        let at_once = emu.ctl("status")["data"]["at_once"].as_u64();
        assert!(at_once >= Some(times.len() as u64), "{at_once:?}");
        let measured = median(times);
        println!("{rate}, {size} bytes: ping {measured:.3} ms at p50, the model {model:.3} ms");
        if emu.is_valid() {
            assert!(
                (measured - model).abs() < 0.3,
                "{measured} ms, not {model} ms"
            );
        }
        emu.exit();
    }
}

#[test]
fn one_node_alone_is_refused() {
    let mut command = Command::new(WIFU);
    let output = command.args(["emu", "--topo", "linear,1", "--dry-run"]);
    let output = output.output().expect("wifu emu");
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(wrong.contains("one node only"), "{wrong}");
    assert!(!output.status.success());
}

#[test]
fn time_can_be_stretched() {
    if !privileged() {
        return;
    }
    let topology = Topology::from_words("linear,2", None).expect("words");
    let model = model_rtt(&topology, 1500);
    let emu = Emu::start("slow", &["--dilation", "3"]);
    let times = emu.ping("n1", "-n -c 50 -i 0.03 -s 1472 10.0.0.2");
    let measured = median(times);
    println!(
        "ping {measured:.3} ms, three times the model's are {:.3} ms",
        3.0 * model
    );
    // Never less, whatever the machine does: the radio's own time is three times as long.
    assert!(measured > 2.9 * model, "{measured} ms");
    if emu.is_valid() {
        let off = (measured - 3.0 * model).abs();
        assert!(off < 1.0, "{measured} ms, not {} ms", 3.0 * model);
    }
    emu.exit();
}

/// What the simulator says, bit/s.
fn simulated(args: &[&str]) -> f64 {
    let output = Command::new(WIFU)
        .args(["sim", "--json"])
        .args(args)
        .output();
    let output = output.expect("wifu sim");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rate = all["end"]["sum_received"]["bits_per_second"].as_f64();
    rate.expect("a rate")
}

#[test]
fn datagrams_saturate_a_hop_as_in_the_simulator() {
    if !privileged() {
        return;
    }
    for (rate, per_second) in [("6M", 1000), ("24M", 3000)] {
        let words = format!("linear,2,rate={rate}");
        let flow = "n1:n2:udp,size=1500";
        let expected = simulated(&["--topo", &words, "--flow", flow, "--stop", "5s"]);
        let emu = Emu::start("udp", &["--topo", &words]);
        let flood = Flood::start(&emu.namespace("n1"), "10.0.0.2", per_second);
        let count = || {
            let seconds = emu.ctl("status")["data"]["seconds"]
                .as_f64()
                .expect("seconds");
            (
                seconds,
                emu.link("n1", "n2")["acked"].as_f64().expect("a number"),
            )
        };
        std::thread::sleep(Duration::from_secs(1));
        let (t0, n0) = count();
        std::thread::sleep(Duration::from_secs(4));
        let (t1, n1) = count();
        drop(flood);
        let measured = (n1 - n0) * 1472.0 * 8.0 / (t1 - t0);
        println!("{rate}: {measured:.0} bit/s emulated, {expected:.0} bit/s simulated");
        assert!(measured > 0.2 * expected, "hardly anything arrives");
        if emu.is_valid() {
            let off = measured / expected - 1.0;
            assert!(off.abs() < 0.05, "{:.1} % off", off * 100.0);
        }
        emu.exit();
    }
}

/// `WIFU_GRID=8,10` measures what the machine can do with so many, and judges nothing.
#[test]
fn twenty_hosts_sustain_a_radio_of_6_mbps() {
    if !privileged() {
        return;
    }
    let other = std::env::var("WIFU_GRID").ok();
    let grid = other.as_deref().unwrap_or("5,4");
    let sides = grid.split(',').map(|n| n.parse::<u32>().expect("a number"));
    let hosts: u32 = sides.product();
    let mut stolen = false;
    // Three times, for a moment of the machine's is not what it can do.
    for _ in 0..3 {
        let emu = Emu::start("many", &["--topo", &format!("grid,{grid},rate=6M")]);
        let floods: Vec<Flood> = (1..hosts)
            .map(|n| {
                let to = format!("10.0.0.{}", n + 1);
                Flood::start(&emu.namespace(&format!("n{n}")), &to, 200)
            })
            .collect();
        std::thread::sleep(Duration::from_secs(6));
        let links = emu.ctl("links")["data"].clone();
        let sum = |key: &str| {
            let rows = links.as_array().expect("rows").iter();
            rows.map(|l| l[key].as_u64().expect("a number"))
                .sum::<u64>()
        };
        let (attempts, acked) = (sum("attempts"), sum("acked"));
        println!("{attempts} attempts, {acked} packets acknowledged");
        // 1500 octets at 6 Mb/s take 2.3 ms, and many rows send at a time.
        assert!(acked > 2000, "the radio has hardly anything to do");
        println!("{hosts} hosts:");
        let status = &emu.print_status()["data"];
        let valid = status["verdict"] == "VALID";
        let reasons = status["reasons"].to_string();
        drop(floods);
        emu.exit();
        if valid || other.is_some() {
            return;
        }
        stolen |= reasons.contains("stolen");
    }
    assert!(stolen, "never VALID, with the machine's processors ours");
}

#[test]
fn the_kernels_reno_gets_over_three_hops_what_the_simulators_gets() {
    if !privileged() {
        return;
    }
    let words = "linear,4,rate=6M";
    let emu = Emu::start("tcp", &["--topo", words]);
    for (to, address) in [("n2", "10.0.0.2"), ("n3", "10.0.0.3"), ("n4", "10.0.0.4")] {
        let mut server = emu.namespace(to).command("iperf3").expect("namespace");
        let mut server = server
            .args(["-s", "-1"])
            .stdout(Stdio::null())
            .spawn()
            .expect("iperf3");
        std::thread::sleep(Duration::from_millis(300));
        // The window of the simulated receiver, and every second segment acknowledged as there.
        let args = [
            "-J", "-t", "5", "-O", "1", "-C", "reno", "-w", "64K", "-c", address,
        ];
        let output = emu.on("n1", "iperf3", &args);
        assert!(server.wait().expect("wait").success());
        let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let measured = all["end"]["sum_received"]["bits_per_second"].as_f64();
        let measured = measured.unwrap_or_else(|| panic!("{all}"));
        let flow = format!("n1:{to}:tcp-newreno,ack_every=2,time=6s");
        let expected = simulated(&["--topo", words, "--flow", &flow]);
        println!("n1 to {to}: {measured:.0} bit/s emulated, {expected:.0} bit/s simulated");
        assert!(measured > 100_000.0, "hardly anything arrives");
        if emu.is_valid() {
            let off = measured / expected - 1.0;
            assert!(off.abs() < 0.10, "{to}: {:.1} % off", off * 100.0);
        }
        // Some frames are read as soon as they are sent, others later; none overtakes another.
        let counted = emu.on(to, "nstat", &["-az", "TcpExtTCPOFOQueue"]);
        let counted = String::from_utf8_lossy(&counted.stdout).into_owned();
        let row = counted.lines().find(|l| l.starts_with("TcpExtTCPOFOQueue"));
        let early = row.and_then(|l| l.split_whitespace().nth(1));
        assert_eq!(
            early,
            Some("0"),
            "{to} got segments out of order: {counted}"
        );
    }
    emu.exit();
}

/// A directory that goes with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("wifu-t-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("directory");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn hidden_nodes_collide_and_nodes_that_hear_each_other_do_not() {
    if !privileged() {
        return;
    }
    let dir = Scratch::new("hidden");
    let file = dir.0.join("hidden.toml");
    let text = "[matrix]\nsnr_db = [[nan, 20.0, -20.0], [20.0, nan, 20.0], [-20.0, 20.0, nan]]\n\
                [[node]]\nname = \"n1\"\n[[node]]\nname = \"n2\"\n[[node]]\nname = \"n3\"\n";
    std::fs::write(&file, text).expect("file");
    let emu = Emu::start("hidden", &["--topo", &file.display().to_string()]);
    let floods = ["n1", "n3"].map(|n| Flood::start(&emu.namespace(n), "10.0.0.2", 1000));
    // Transmissions per packet that arrives, over two seconds.
    let effort = || {
        let count = || {
            let (a, b) = (emu.link("n1", "n2"), emu.link("n3", "n2"));
            let sum = |key: &str| a[key].as_f64().unwrap_or(0.0) + b[key].as_f64().unwrap_or(0.0);
            (sum("attempts"), sum("acked"))
        };
        let before = count();
        std::thread::sleep(Duration::from_secs(2));
        let after = count();
        (after.0 - before.0) / (after.1 - before.1).max(1.0)
    };
    std::thread::sleep(Duration::from_millis(500));
    let hidden = effort();
    emu.done("snr n1 n3 20");
    emu.done("snr n3 n1 20");
    let heard = effort();
    drop(floods);
    println!("{hidden:.2} transmissions per packet hidden, {heard:.2} heard");
    assert!(hidden > 1.7 * heard && heard < 1.4, "{hidden} and {heard}");
    emu.exit();
}

#[test]
fn frames_for_others_reach_whoever_captures_and_files_tell_the_drivers_delay() {
    if !privileged() {
        return;
    }
    let emu = Emu::start("hear", &["--topo", "linear,3"]);
    let capture = emu.capture("n3");
    let other = [0x02, 0x57, 0x69, 0x46, 0, 2];
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut seen = 0;
    while seen == 0 && Instant::now() < deadline {
        emu.ping("n1", "-n -c 2 -i 0.05 -W 1 10.0.0.2");
        let mut frame = [0; 2048];
        while let Ok((n, _)) = recv(&capture, &mut frame[..], RecvFlags::DONTWAIT) {
            seen += u32::from(n > 14 && frame[..6] == other);
        }
    }
    assert!(seen > 0, "n3 saw no frame from n1 for n2");
    let read = |name: &str| -> u64 {
        let path = Path::new(RUN)
            .join("emu")
            .join(&emu.label)
            .join("n1")
            .join(name);
        let text = std::fs::read_to_string(&path).expect("file");
        assert!(text.ends_with('\n'), "{text:?}");
        text.lines()
            .next()
            .unwrap_or_default()
            .parse()
            .expect("a number")
    };
    // An exchange of a small packet takes 0.2 ms at least, and interrupts wait up to 80 us.
    for name in ["Da", "sample"] {
        assert!(
            (200..5000).contains(&read(name)),
            "{name}: {} us",
            read(name)
        );
    }
    emu.exit();
}

#[test]
fn links_are_cut_and_nodes_paused_from_outside() {
    if !privileged() {
        return;
    }
    let emu = Emu::start("cut", &["--topo", "linear,3,spacing=15"]);
    let answers = |to: &str| emu.ping("n1", &format!("-n -c 3 -i 0.1 -W 1 {to}")).len();
    assert_eq!(answers("10.0.0.3"), 3);
    emu.done("cut n2 n3");
    assert_eq!((answers("10.0.0.3"), answers("10.0.0.2")), (0, 3));
    assert_eq!(emu.link("n2", "n3")["cut"], true);
    emu.done("restore n2 n3");
    assert_eq!(answers("10.0.0.3"), 3);
    emu.done("pause n2");
    assert_eq!(answers("10.0.0.2"), 0);
    emu.done("resume n2");
    assert_eq!(answers("10.0.0.2"), 3);
    emu.done("snr n1 n2 -10");
    assert_eq!(answers("10.0.0.2"), 0);
    emu.done("move n1 0 0 0");
    assert_eq!(
        answers("10.0.0.2"),
        3,
        "back where it was, positions decide again"
    );
    emu.done("move n1 -100000 0 0");
    assert_eq!(answers("10.0.0.2"), 0);
    for (words, hint) in [
        ("cut n1 n9", "n9"),
        ("jump", "no command is called `jump`"),
        ("snr n1 n2 x", "number"),
    ] {
        let answer = emu.ctl(words);
        assert!(answer["ok"] == false && answer["text"].as_str().unwrap().contains(hint));
    }
    emu.exit();
}

/// What is there of a label.
fn traces(label: &str) -> Vec<String> {
    let prefix = format!("wifu-{label}-");
    let names = |dir: &str| -> Vec<String> {
        let list = std::fs::read_dir(dir).into_iter().flatten().flatten();
        list.flat_map(|e| e.file_name().into_string()).collect()
    };
    let mut found: Vec<String> = names(NETNS);
    found.retain(|n| n.starts_with(&prefix));
    found.extend(names(RUN).into_iter().filter(|n| n.contains(label)));
    let emu = format!("{RUN}/emu");
    found.extend(names(&emu).into_iter().filter(|n| n == label));
    found
}

fn gone_within(label: &str, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    while !traces(label).is_empty() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// The guardian of an emulation: the only child that reads names from a pipe.
fn guardian(of: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).ok()?;
    let is = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("wifu-guardian")
    };
    text.split_whitespace().flat_map(str::parse).find(is)
}

#[test]
fn nothing_is_left_however_it_ends_and_strangers_stay() {
    if !privileged() {
        return;
    }
    let stranger = format!("wifu-t-stranger-{}", std::process::id());
    let ip = |args: &[&str]| {
        let status = Command::new("ip").args(args).status().expect("ip");
        assert!(status.success(), "{args:?}");
    };
    ip(&["netns", "add", &stranger]);

    let emu = Emu::start("exit", &["--topo", "linear,3"]);
    let label = emu.label.clone();
    assert!(traces(&label).len() >= 5, "{:?}", traces(&label));
    emu.exit();
    assert_eq!(traces(&label), Vec::<String>::new(), "after its end");

    let emu = Emu::start("int", &["--topo", "linear,3"]);
    let label = emu.label.clone();
    let mut sleeper = emu.namespace("n2").command("sleep").expect("namespace");
    let mut sleeper = sleeper.arg("100").spawn().expect("sleep");
    kill_process(Pid::from_child(&emu.child), Signal::INT).expect("signal");
    assert!(
        gone_within(&label, Duration::from_secs(20)),
        "{:?}",
        traces(&label)
    );
    assert!(
        !sleeper.wait().expect("wait").success(),
        "what ran inside was ended"
    );
    drop(emu);

    let mut emu = Emu::start("kill", &["--topo", "linear,3"]);
    let label = emu.label.clone();
    emu.child.kill().expect("kill");
    assert!(
        gone_within(&label, Duration::from_secs(20)),
        "{:?}",
        traces(&label)
    );
    drop(emu);

    let mut emu = Emu::start("kill2", &["--topo", "linear,3"]);
    let label = emu.label.clone();
    let guard = guardian(emu.child.id()).and_then(|p| Pid::from_raw(p as i32));
    kill_process(guard.expect("a guardian"), Signal::KILL).expect("signal");
    emu.child.kill().expect("kill");
    emu.child.wait().expect("wait");
    assert!(traces(&label).len() >= 5, "nobody was left to remove them");
    let cleaned = Command::new(WIFU)
        .arg("clean")
        .output()
        .expect("wifu clean");
    assert!(cleaned.status.success(), "{cleaned:?}");
    assert_eq!(traces(&label), Vec::<String>::new(), "after wifu clean");
    drop(emu);

    assert!(Path::new(NETNS).join(&stranger).exists(), "not ours");
    ip(&["netns", "del", &stranger]);
}

#[test]
fn a_signal_ends_it_in_the_middle_of_a_test() {
    if !privileged() {
        return;
    }
    let emu = Emu::start("middle", &["--test", "iperf"]);
    let name = emu.namespace("n1").name().to_string();
    let runs = || {
        let pids = Command::new("ip").args(["netns", "pids", &name]).output();
        !pids.expect("ip").stdout.is_empty()
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    while !runs() {
        assert!(Instant::now() < deadline, "no iperf3");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&emu.child), Signal::TERM).expect("signal");
    // The test takes ten seconds.
    assert!(gone_within(&emu.label, Duration::from_secs(6)));
}

#[test]
fn a_dry_run_prints_the_steps_and_takes_none() {
    let label = format!("t-dry-{}", std::process::id());
    let output = Command::new(WIFU)
        .args(["emu", "--topo", "linear,3", "--dry-run", "--name", &label])
        .output()
        .expect("wifu emu");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for step in [
        format!("ip netns add wifu-{label}-n1"),
        format!("ip netns exec wifu-{label}-n2 ip tuntap add wlan0 mode tap"),
        format!("ip netns exec wifu-{label}-n2 ip tuntap add mon0 mode tap"),
        format!("tun: link type 803 for mon0 of wifu-{label}-n2"),
        format!("ip -n wifu-{label}-n1 route replace 10.0.0.3/32 via 10.0.0.2 dev wlan0"),
        format!("ip netns del wifu-{label}-n3"),
    ] {
        assert!(text.lines().any(|l| l == step), "{step} is missing: {text}");
    }
    assert_eq!(traces(&label), Vec::<String>::new());
}

#[test]
fn scripts_and_tests_end_with_a_report() {
    if !privileged() {
        return;
    }
    let _alone = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let dir = Scratch::new("pre");
    let pre = dir.0.join("pre.cli");
    std::fs::write(&pre, "# before all\nsnr n1 n2 15\nn1 true\n").expect("file");
    let label = format!("t-json-{}", std::process::id());
    let mut command = Command::new(WIFU);
    command.args([
        "emu", "--share", "--json", "--topo", "linear,3", "--test", "pingall",
    ]);
    command.args(["--name", &label, "--pre"]).arg(&pre);
    let output = command.stdin(Stdio::null()).output().expect("wifu emu");
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    let all = &all["wifu"];
    assert_eq!(all["tests"]["pingall"]["sent"], 6);
    assert!(all["tests"]["pingall"]["received"].as_u64() >= Some(5));
    assert!(["VALID", "SUSPECT", "INVALID"].contains(&all["status"]["verdict"].as_str().unwrap()));
    let links = all["links"].as_array().expect("links");
    let first = links.iter().find(|l| l["from"] == "n1" && l["to"] == "n2");
    assert_eq!(
        first.expect("n1-n2")["snr_db"].as_f64().map(f64::round),
        Some(15.0)
    );

    let mut command = Command::new(WIFU);
    command.args(["emu", "--share", "--name", &label]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("wifu emu");
    let words = "n1 ping -c1 n2\nnet\nnonsense\niperf n1 n1\niperf n1 n2 -t abc\n\
                 iperf n1 n2 -C cubicc\niperf n1 n2 -n 1M tcp-sack\n\
                 iperf n1 n2 -n 9K -C kernel:nosuch\nn9 true\nn1 false\nexit\nn1 echo never\n";
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(words.as_bytes())
        .expect("written");
    let output = child.wait_with_output().expect("end");
    let (said, wrong) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert!(
        said.contains("1 received") && said.contains("n2 wlan0 hears n1"),
        "{said}"
    );
    assert!(
        !said.contains("never") && wrong.contains("nonsense"),
        "{said}{wrong}"
    );
    for refusal in [
        "two different hosts",
        "-t abc: expected",
        "did you mean `cubic`?",
        "a protocol is given by -C tcp-sack",
        "; the kernel here has ",
        "there is no host n9; hosts are n1 to n2",
    ] {
        assert!(wrong.contains(refusal), "{refusal}: {wrong}");
    }
    // Who waits for them by a pipe learns that seven were refused and one went wrong.
    assert!(wrong.contains("commands that failed: 8"), "{wrong}");
    assert_eq!(output.status.code(), Some(1));
}
