//! `mon0`: frames with radiotap headers, what `wifu core` learns from them, and that the same
//! handler learns the same in the simulator.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, RecvFlags, SocketType, netdevice, recv, socket, sockopt};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use wifu_linux::sys;
use wifu_wire::Rate;
use wifu_wire::dot11::{self, Mac};
use wifu_wire::radiotap::{self, Radiotap};

use super::programs::{dump, within};
use super::soak::Program;
use super::{Emu, Scratch, WIFU, privileged, quantile};

/// The link address of a node, by number.
fn mac(node: u8) -> Mac {
    [0x02, 0x57, 0x69, 0x46, 0, node]
}

/// A packet socket on a node's monitor.
struct Listener(OwnedFd);

/// A frame as a monitor showed it.
struct Shown {
    radio: Radiotap,
    header: dot11::DataHeader,
    octets: usize,
}

impl Listener {
    /// Frames from its return on are seen.
    fn new(emu: &Emu, node: &str) -> Listener {
        let opened = emu.namespace(node).run(|| {
            // Without a protocol it hears nothing before it is bound to the monitor.
            let fd = socket(AddressFamily::PACKET, SocketType::RAW, None)?;
            let interface = netdevice::name_to_index(&fd, "mon0")?;
            sockopt::set_socket_recv_buffer_size_force(&fd, 4 << 20)?;
            sys::bind_packets(&fd, interface as i32)?;
            std::io::Result::Ok(fd)
        });
        let fd = opened.expect("namespace").expect("mon0");
        std::thread::sleep(Duration::from_millis(200));
        Listener(fd)
    }

    /// What it showed since.
    fn take(&self) -> Vec<Shown> {
        let mut room = [0; 4096];
        let mut shown = Vec::new();
        while let Ok((n, _)) = recv(&self.0, &mut room[..], RecvFlags::DONTWAIT) {
            let (radio, frame) = Radiotap::parse(&room[..n]).expect("radiotap");
            let data = dot11::parse(radio.without_fcs(frame), false).expect("a data frame");
            assert_eq!(data.kind, dot11::IPV4);
            shown.push(Shown {
                radio,
                header: data.header,
                octets: data.packet.len(),
            });
        }
        shown
    }
}

/// Frames that the kernel got from a node's monitor.
fn received_from_monitor(emu: &Emu, node: &str) -> u64 {
    let output = emu.on(node, "cat", &["/proc/net/dev"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|l| l.trim().strip_prefix("mon0:"));
    let column = line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok());
    column.expect("mon0")
}

#[test]
fn a_monitor_shows_what_a_relay_hears_and_sends() {
    if !privileged() {
        return;
    }
    let emu = Emu::start("mon", &["--topo", "linear,3,rate=24M"]);
    let show = emu.on("n2", "ip", &["-d", "addr", "show", "mon0"]);
    let show = String::from_utf8_lossy(&show.stdout).into_owned();
    assert!(
        show.contains("link/ieee802.11/radiotap") && show.contains("UP"),
        "{show}"
    );
    assert!(
        !show.contains("inet") && show.contains("alias wifu:"),
        "{show}"
    );
    emu.ping("n1", "-n -c 5 -i 0.02 -W 1 10.0.0.2");
    assert_eq!(received_from_monitor(&emu, "n2"), 0, "nobody listens");

    let monitor = Listener::new(&emu, "n2");
    assert_eq!(
        emu.ping("n1", "-n -c 10 -i 0.02 -W 1 -s 72 10.0.0.3").len(),
        10
    );
    std::thread::sleep(Duration::from_millis(100));
    let shown = monitor.take();
    // Questions from n1 and answers from n3 come, both go on.
    let mut ways = BTreeMap::new();
    for s in &shown {
        let h = &s.header;
        *ways.entry((h.transmitter, h.receiver)).or_insert(0) += 1;
        assert_eq!(s.octets, 100);
        assert_eq!(s.radio.rate, Some(Rate(24_000_000)));
        let channel = s.radio.channel.map(|c| (c.mhz, c.flags));
        assert_eq!(channel, Some((5200, radiotap::OFDM_5GHZ)));
        let own = h.transmitter == mac(2);
        assert_eq!(s.radio.tx_flags, own.then_some(0));
        assert_eq!(s.radio.signal_dbm.is_some(), !own);
        if !own {
            let from = if h.transmitter == mac(1) { "n1" } else { "n3" };
            let snr = emu.link(from, "n2")["snr_db"].as_f64().expect("a number");
            let noise = f64::from(s.radio.noise_dbm.expect("noise"));
            let signal = f64::from(s.radio.signal_dbm.expect("signal"));
            assert!(
                (signal - noise - snr).abs() <= 1.0,
                "{signal} dBm, SNR {snr} dB"
            );
        }
    }
    let all = [(1, 2), (2, 1), (2, 3), (3, 2)].map(|(from, to)| ways.get(&(mac(from), mac(to))));
    assert_eq!(all, [Some(&10); 4], "{ways:?}");
    let mut numbers = shown.iter().filter(|s| s.header.transmitter == mac(2));
    let first = numbers.next().expect("a frame").header.sequence;
    assert!(numbers.all(|s| s.header.sequence > first), "numbers go up");
    emu.exit();
}

#[test]
fn a_monitor_shows_repetitions_and_what_failed() {
    if !privileged() {
        return;
    }
    let emu = Emu::start("monbad", &["--topo", "linear,2,rate=24M"]);
    let (sender, receiver) = (Listener::new(&emu, "n1"), Listener::new(&emu, "n2"));
    // About a third of the attempts are lost, by the model's table of errors.
    emu.done("snr n1 n2 13");
    let before = emu.link("n1", "n2");
    emu.ping("n1", "-n -c 100 -i 0.01 -W 1 -s 1000 10.0.0.2");
    std::thread::sleep(Duration::from_millis(100));
    let after = emu.link("n1", "n2");
    let grown = |key: &str| after[key].as_u64().unwrap() - before[key].as_u64().unwrap();
    let own = sender.take();
    let own: Vec<_> = own.iter().filter(|s| s.radio.tx_flags.is_some()).collect();
    assert_eq!(own.len() as u64, grown("frames"));
    // What the driver reports adds up to what the model counted on the link.
    let tries = |s: &&Shown| u64::from(s.radio.data_retries.expect("retries")) + 1;
    let attempts: u64 = own.iter().map(tries).sum();
    assert_eq!(attempts, grown("attempts"));
    assert!(attempts > 120, "hardly any repetition: {attempts} attempts");
    assert!(
        own.iter()
            .all(|s| s.header.retry == (s.radio.data_retries > Some(0)))
    );
    let heard = receiver.take();
    let heard: Vec<_> = heard
        .iter()
        .filter(|s| s.radio.signal_dbm.is_some())
        .collect();
    let again = heard.iter().filter(|s| s.header.retry).count();
    println!(
        "{} frames, {attempts} attempts; {} heard, {again} of them repeated",
        own.len(),
        heard.len()
    );
    assert!(again > 0 && again < heard.len());

    emu.done("cut n1 n2");
    let _ = sender.take();
    emu.ping("n1", "-n -c 3 -i 0.1 -W 1 10.0.0.2");
    let failed = sender.take();
    assert_eq!(failed.len(), 3);
    for s in failed {
        assert_eq!(s.radio.tx_flags, Some(radiotap::TX_FAILED));
        assert_eq!(
            s.radio.data_retries,
            Some(6),
            "seven attempts, as the model's limit says"
        );
        assert_eq!(s.header.receiver, mac(2));
    }
    // After a power failure it is there again.
    emu.done("restore");
    emu.done("restart n2 0");
    let receiver = Listener::new(&emu, "n2");
    assert!(within(10, || {
        emu.ping("n1", "-n -c 1 -W 1 10.0.0.2");
        !receiver.take().is_empty()
    }));
    emu.exit();
}

#[test]
fn tcpdump_decodes_a_monitor() {
    if !privileged() {
        return;
    }
    let emu = Emu::start("mondump", &["--topo", "linear,3"]);
    let said = dump(
        &emu,
        "-c 1 -i mon0 -y IEEE802_11_RADIO icmp and wlan addr1 02:57:69:46:00:02",
    );
    for part in [
        "6.0 Mb/s",
        "dBm signal",
        "SA:02:57:69:46:00:01",
        "10.0.0.1 > 10.0.0.2: ICMP echo request",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    emu.exit();
}

/// `wifu core` with a logger of everything, on a node's monitor.
struct Core {
    program: Program,
    dir: std::path::PathBuf,
}

impl Core {
    fn start(emu: &Emu, dir: &Path, node: &str, hooks: &str) -> Core {
        let dir = dir.join(node);
        std::fs::create_dir_all(&dir).expect("directory");
        let text = format!(
            "[core]\nmonitor = \"mon0\"\n[[handler]]\nuse = \"logger\"\nstatus = true\n\
             hooks = [{hooks}]\n"
        );
        std::fs::write(dir.join("core.toml"), text).expect("file");
        let mut command = emu.namespace(node).command(WIFU).expect("namespace");
        command
            .args(["core", "--config"])
            .arg(dir.join("core.toml"));
        command.arg("--report").arg(dir.join("report"));
        let program = Program::start(command, &dir.join("log"), "ready");
        // Until the emulation knows that somebody listens.
        std::thread::sleep(Duration::from_millis(200));
        Core { program, dir }
    }

    fn lines(&self, word: &str) -> Vec<String> {
        lines(&self.program.said(), word)
    }

    /// Ends it; gives its last report.
    fn end(mut self) -> Value {
        let pid = Pid::from_child(&self.program.0);
        kill_process(pid, Signal::TERM).expect("signal");
        assert!(self.program.0.wait().expect("wait").success());
        let text = std::fs::read_to_string(self.dir.join("report")).expect("report");
        serde_json::from_str(text.lines().last().expect("a line")).expect("JSON")
    }
}

/// Lines of a logger with this word in the third place after "node".
fn lines(text: &str, word: &str) -> Vec<String> {
    let has = |l: &&str| l.split_whitespace().nth(3) == Some(word);
    text.lines().filter(has).map(str::to_owned).collect()
}

/// The words behind another one, up to a comma or semicolon.
fn after<'a>(line: &'a str, word: &str) -> &'a str {
    let rest = line.split_once(word).map_or("", |(_, rest)| rest);
    rest.split([',', ';']).next().unwrap_or("").trim()
}

/// A time such as `482.628 us`, in us.
fn micros(text: &str) -> f64 {
    let span: wifu_wire::Span = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    span.0 as f64 / 1000.0
}

/// Datagrams of `size` octets of IP, from a node to another's address.
fn send(emu: &Emu, from: &str, to: &str, (count, size): (u32, usize), pause: Duration) {
    let opened = emu.namespace(from).run(|| UdpSocket::bind("0.0.0.0:0"));
    let socket = opened.expect("namespace").expect("socket");
    let payload = vec![7; size - 28];
    for _ in 0..count {
        // An earlier one may be answered by "nobody listens".
        let sent = socket.send_to(&payload, (to, 9));
        if sent.is_err() {
            let _ = socket.send_to(&payload, (to, 9));
        }
        std::thread::sleep(pause);
    }
}

/// Nobody complains about datagrams to the port that nobody has, so every frame is one of ours.
fn silence(emu: &Emu, node: &str) {
    let line = "-A OUTPUT -p icmp -j DROP";
    let args: Vec<&str> = ["-w"].into_iter().chain(line.split(' ')).collect();
    assert!(emu.on(node, "iptables", &args).status.success());
}

#[test]
fn handlers_are_told_what_became_of_every_packet() {
    if !privileged() {
        return;
    }
    let dir = Scratch::new("status");
    let emu = Emu::start("status", &["--topo", "linear,3,rate=24M"]);
    silence(&emu, "n3");
    let core = Core::start(&emu, &dir.0, "n1", "\"output\", \"postrouting\"");
    let relay = Core::start(&emu, &dir.0, "n2", "\"forward\"");
    // Half a millisecond each, and the relay takes as much: they queue.
    send(&emu, "n1", "10.0.0.3", (300, 1000), Duration::ZERO);
    assert!(
        within(20, || core.lines("status").len() >= 300
            && relay.lines("status").len() >= 300),
        "{} and {} of 300",
        core.lines("status").len(),
        relay.lines("status").len()
    );
    let told = core.lines("status");
    assert!(
        told.iter()
            .all(|l| l.contains("delivered") && l.contains("rate 24 Mb/s"))
    );
    let queued = |l: &String| after(l, "queued").parse::<u32>().expect("a number");
    let most = told.iter().map(queued).max().expect("lines");
    println!("at most {most} queued; the last: {}", told[told.len() - 1]);
    assert!(most > 50, "they were sent at once: {most} queued");
    assert_eq!(queued(&told[told.len() - 1]), 0, "all are gone");
    // Whoever waited behind others was reported that much later.
    let slowest = told.iter().map(|l| micros(after(l, "sample")));
    assert!(slowest.fold(0.0, f64::max) > 20_000.0);
    let report = relay.end();
    let m = &report["monitor"];
    assert_eq!(
        (&m["matched"], &m["lost"], &m["missed"]),
        (&300.into(), &0.into(), &0.into())
    );

    emu.done("cut n1 n2");
    send(&emu, "n1", "10.0.0.2", (10, 200), Duration::from_millis(20));
    let failed = || -> Vec<String> {
        let all = core.lines("status");
        all.into_iter()
            .filter(|l| l.contains("failed, attempts 7"))
            .collect()
    };
    assert!(
        within(10, || failed().len() == 10),
        "{} of 10",
        failed().len()
    );
    let report = core.end();
    let m = &report["monitor"];
    println!("n1: {m}");
    for (key, count) in [
        ("matched", 310),
        ("reported", 310),
        ("failed", 10),
        ("unmatched", 0),
        ("lost", 0),
        ("queued", 0),
        ("garbled", 0),
        ("missed", 0),
    ] {
        assert_eq!(m[key], count, "{key}: {m}");
    }
    assert_eq!(report["hooks"]["output"]["accepted"], 310, "{report}");
    assert_eq!(report["hooks"]["postrouting"]["accepted"], 310, "{report}");
    emu.exit();
}

/// What a handler learned: attempts of each transmission, rates, signals of what was overheard, and
/// the delays, us.
#[derive(PartialEq, Debug)]
struct Learned {
    transmissions: BTreeMap<String, usize>,
    overheard: BTreeMap<String, usize>,
}

impl Learned {
    fn of(sender: &[String], listener: &[String]) -> Learned {
        let mut learned = Learned {
            transmissions: BTreeMap::new(),
            overheard: BTreeMap::new(),
        };
        for l in sender {
            let how = l.split_whitespace().nth(4).unwrap_or("");
            let what = format!(
                "{how} attempts {} rate {}",
                after(l, "attempts"),
                after(l, "rate")
            );
            *learned.transmissions.entry(what).or_insert(0) += 1;
        }
        for l in listener {
            let (_, packet) = l.split_once("overheard").expect("the hook");
            // Numbers of nodes are link addresses live.
            let (packet, how) = packet.split_once(", from").expect("a transmitter");
            let how = how.split_once(" at ").expect("a signal").1;
            let what = format!("{} at {how}", packet.trim());
            *learned.overheard.entry(what).or_insert(0) += 1;
        }
        learned
    }
}

#[test]
fn a_handler_learns_on_emulated_radios_what_it_learns_in_the_simulator() {
    if !privileged() {
        return;
    }
    let dir = Scratch::new("agree");
    let scenario = dir.0.join("scenario.toml");
    let text = "topology.words = \"linear,3,rate=6M\"\n\
                [[handler]]\nuse = \"logger\"\nstatus = true\nnodes = [\"n1\", \"n3\"]\n\
                hooks = [\"overheard\"]\n\
                [[flow]]\nfrom = \"n1\"\nto = \"n2\"\nprotocol = \"udp\"\napp = \"file\"\n\
                size = 1000\nrate = \"800kb/s\"\nbytes = 97200\n";
    std::fs::write(&scenario, text).expect("file");
    let log = dir.0.join("sim.log");
    let mut sim = Command::new(WIFU);
    sim.args(["sim", "--scenario"])
        .arg(&scenario)
        .arg("--log")
        .arg(&log);
    let output = sim.output().expect("wifu sim");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = std::fs::read_to_string(&log).expect("log");
    let sent = lines(&text, "status");
    let simulated = Learned::of(&sent, &lines(&text, "overheard"));
    // A busy machine wakes the process that takes the time late, most of the time: the tenth part
    // of the packets that are best off shows what is measured, the others what else was running.
    let delays = |lines: &[String]| {
        let all: Vec<f64> = lines.iter().map(|l| micros(after(l, "sample"))).collect();
        (quantile(all.clone(), 0.1), quantile(all, 0.5))
    };
    let simulated_delay = delays(&sent);

    let emu = Emu::start("agree", &["--topo", "linear,3,rate=6M"]);
    silence(&emu, "n2");
    let sender = Core::start(&emu, &dir.0, "n1", "\"output\"");
    let listener = Core::start(&emu, &dir.0, "n3", "\"overheard\"");
    send(
        &emu,
        "n1",
        "10.0.0.2",
        (100, 1000),
        Duration::from_millis(10),
    );
    let all = || sender.lines("status").len() >= 100 && listener.lines("overheard").len() >= 100;
    assert!(within(10, all));
    let told = sender.lines("status");
    let emulated = Learned::of(&told, &listener.lines("overheard"));
    let emulated_delay = delays(&told);
    println!(
        "{simulated:#?}\nlowest tenth and median of delays, us: {simulated_delay:.0?}; \
         emulated {emulated_delay:.0?}"
    );
    // A simulation is over when the last packet has come, before the driver reports it.
    let mut whole = simulated;
    assert_eq!(whole.transmissions.len(), 1, "{whole:?}");
    whole.transmissions.values_mut().for_each(|n| *n += 1);
    assert_eq!(emulated, whole);
    // From the hook instead of from the ring, and read by a process that has to be woken.
    if emu.is_valid() {
        let off = (emulated_delay.0 - simulated_delay.0).abs();
        assert!(
            off < 300.0,
            "{emulated_delay:?} us, not {simulated_delay:?} us"
        );
    }
    drop((sender, listener));
    emu.exit();
}

/// What listening costs is said, not judged: it depends on the machine.
#[test]
fn a_monitor_follows_a_saturated_radio() {
    if !privileged() {
        return;
    }
    let emu = Emu::start("monsat", &["--topo", "linear,2,rate=24M"]);
    let monitor = Listener::new(&emu, "n2");
    let before = emu.link("n1", "n2")["acked"].as_u64().expect("a number");
    let flood = super::Flood::start(&emu.namespace("n1"), "10.0.0.2", 2000);
    let until = Instant::now() + Duration::from_secs(2);
    let mut shown = 0;
    let count = |all: Vec<Shown>| all.iter().filter(|s| s.header.receiver == mac(2)).count();
    while Instant::now() < until {
        shown += count(monitor.take());
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(flood);
    // What is queued goes on for half a second or so.
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        shown += count(monitor.take());
        std::thread::sleep(Duration::from_millis(1));
    }
    let acked = emu.link("n1", "n2")["acked"].as_u64().expect("a number") - before;
    println!("{acked} frames acknowledged, {shown} shown");
    assert!(acked > 2000, "{acked}");
    assert_eq!(shown as u64, acked);
    emu.print_status();
    emu.exit();
}
