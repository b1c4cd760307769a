//! Packets per second and latency of the raw carrier between two namespaces, with and without
//! coalescing. Needs root.
//!
//! ```text
//! cargo run --release -p wifu-linux --example carrier_bench -- [CASE ...] [sockets] [direct] \
//!     [threshold=N] [SECONDS [PAUSE_US ...]]
//! ```
//!
//! * `flood`: one side sends all it can, the other receives.
//! * `window`: 256 packets in flight, acknowledged round by round, both sides in an event loop.
//! * `apps`: the same, fed by an application through an AF_UNIX stream and read by another.
//! * `ping`: one packet there and back at a time.

use rustix::thread::ClockId;
use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use wifu_linux::carrier::Carrier;
use wifu_linux::netns::{End, Lab, Namespace};
use wifu_linux::poller::{Coalesce, Event, Interest, PollCounters, Poller};
use wifu_linux::raw::RawConfig;
use wifu_wire::ip::{AnyIpInfo, Ecn, IpInfo, TTL};
use wifu_wire::units::{Span, Time};

/// For experiments (RFC 3692).
const PROTOCOL: u8 = 253;
/// Packets in flight.
const WINDOW: u64 = 256;
/// Transport octets of a full packet.
const SEGMENT: usize = 1480;
/// Of these, what a TCP header with timestamps would take.
const HEADER: usize = 32;
const CARRIER: u64 = 0;
const APPLICATION: u64 = 100;

static STOP: AtomicBool = AtomicBool::new(false);

/// How a run is made.
#[derive(Clone, Copy)]
struct Setting {
    direct: bool,
    pause_us: u64,
    threshold: usize,
}

/// What one side measured.
#[derive(Default)]
struct Side {
    packets: u64,
    cpu: f64,
    polls: PollCounters,
    calls: u64,
    stalls: u64,
    latencies: Vec<u64>,
}

/// One side's event loop: a carrier and perhaps an application's socket.
struct Node {
    carrier: Carrier,
    poller: Poller,
    events: Vec<Event>,
    handled: usize,
    app: Option<UnixStream>,
    app_interest: Interest,
    app_ready: bool,
    header: AnyIpInfo,
}

impl Node {
    fn open(from: [u8; 4], to: [u8; 4], setting: Setting) -> Result<Node, Box<dyn Error>> {
        let mut config = RawConfig::new(vec![PROTOCOL]);
        config.direct = setting.direct;
        let mut carrier = Carrier::raw(&config)?;
        let poller = Poller::new(Coalesce {
            pause: Span::MICRO * setting.pause_us,
            threshold: setting.threshold,
            ..Coalesce::default()
        })?;
        carrier.attach(&poller, CARRIER)?;
        let header = IpInfo {
            src: from.into(),
            dst: to.into(),
            proto: PROTOCOL,
            ttl: TTL,
            ecn: Ecn::NotEct,
        };
        Ok(Node {
            carrier,
            poller,
            events: Vec::new(),
            handled: 0,
            app: None,
            app_interest: Interest::NONE,
            app_ready: false,
            header,
        })
    }

    fn attach(&mut self, app: UnixStream) -> Result<(), Box<dyn Error>> {
        app.set_nonblocking(true)?;
        self.poller.add(&app, APPLICATION, Interest::NONE)?;
        self.app = Some(app);
        Ok(())
    }

    fn wait(&mut self, limit: Span) -> Result<(), Box<dyn Error>> {
        let deadline = Poller::now() + limit;
        self.poller.wait(deadline, self.handled, &mut self.events)?;
        self.handled = 0;
        for event in &self.events {
            match event.token {
                APPLICATION => self.app_ready = true,
                i => self.carrier.mark_ready(i as usize),
            }
        }
        Ok(())
    }

    fn watch_app(&mut self, wanted: Interest) -> Result<(), Box<dyn Error>> {
        if wanted != self.app_interest
            && let Some(app) = &self.app
        {
            self.poller.modify(app, APPLICATION, wanted)?;
            self.app_interest = wanted;
        }
        Ok(())
    }

    /// Receive everything that waits.
    fn receive(&mut self, mut each: impl FnMut(&[u8])) {
        while let Some(packets) = self.carrier.receive() {
            for packet in packets {
                self.handled += 1;
                each(packet.payload);
            }
        }
    }

    fn send(&mut self, number: u64, body: &[u8]) {
        let Some(slot) = self.carrier.slot() else {
            return;
        };
        slot[..8].copy_from_slice(&number.to_be_bytes());
        let len = if body.is_empty() {
            HEADER
        } else {
            slot[HEADER..HEADER + body.len()].copy_from_slice(body);
            HEADER + body.len()
        };
        self.carrier.commit(&self.header, len);
    }

    fn flush(&mut self) -> Result<(), Box<dyn Error>> {
        self.carrier.flush();
        self.carrier.rearm(&self.poller, CARRIER)?;
        Ok(())
    }

    fn finish(self, packets: u64, cpu: Time) -> Side {
        let c = self.carrier.counters();
        Side {
            packets,
            cpu: (cpu_time() - cpu).as_secs_f64(),
            polls: self.poller.counters(),
            calls: c.send_calls + c.receive_calls,
            ..Side::default()
        }
    }
}

fn number(payload: &[u8]) -> u64 {
    let mut octets = [0; 8];
    octets.copy_from_slice(&payload[..8]);
    u64::from_be_bytes(octets)
}

fn cpu_time() -> Time {
    let t = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    Time(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

fn flood(mut node: Node) -> Result<Side, Box<dyn Error>> {
    let (cpu, body) = (cpu_time(), [0u8; SEGMENT - HEADER]);
    let mut sent = 0;
    while !STOP.load(Relaxed) {
        for _ in 0..64 {
            node.send(sent, &body);
            sent += 1;
        }
        node.flush()?;
    }
    Ok(node.finish(sent, cpu))
}

fn drain(mut node: Node) -> Result<Side, Box<dyn Error>> {
    let (cpu, mut got) = (cpu_time(), 0);
    while !STOP.load(Relaxed) {
        node.wait(Span::MILLI * 100)?;
        node.receive(|_| got += 1);
    }
    Ok(node.finish(got, cpu))
}

fn windowed(mut node: Node) -> Result<Side, Box<dyn Error>> {
    let cpu = cpu_time();
    let (mut sent, mut acked, mut stalls) = (0u64, 0u64, 0);
    let mut ring = vec![0u8; 1 << 18];
    let (mut from, mut to) = (0, 0);
    let body = SEGMENT - HEADER;
    while !STOP.load(Relaxed) {
        while sent - acked < WINDOW {
            if node.app.is_some() && to - from < body {
                ring.copy_within(from..to, 0);
                (from, to) = (0, to - from);
                match node.app.as_ref().expect("checked").read(&mut ring[to..]) {
                    Ok(n) => to += n,
                    Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                    Err(e) => return Err(e.into()),
                }
                if to - from < body {
                    node.watch_app(Interest::READ)?;
                    break;
                }
            }
            node.send(sent, &ring[from..from + body]);
            from += if node.app.is_some() { body } else { 0 };
            sent += 1;
        }
        if sent - acked == WINDOW {
            node.watch_app(Interest::NONE)?;
        }
        node.flush()?;
        let before = acked;
        node.wait(Span::MILLI * 100)?;
        node.receive(|payload| acked = acked.max(number(payload)));
        if acked == before && !node.app_ready && node.events.is_empty() && sent > acked {
            stalls += 1;
            acked = sent;
        }
        node.app_ready = false;
    }
    let mut side = node.finish(acked, cpu);
    side.stalls = stalls;
    Ok(side)
}

fn acking(mut node: Node) -> Result<Side, Box<dyn Error>> {
    let (cpu, mut got) = (cpu_time(), 0u64);
    let mut ring: Vec<u8> = Vec::with_capacity(1 << 20);
    while !STOP.load(Relaxed) {
        node.wait(Span::MILLI * 100)?;
        let (mut top, before, keep) = (0, got, node.app.is_some());
        node.receive(|payload| {
            got += 1;
            top = top.max(number(payload) + 1);
            if keep {
                ring.extend_from_slice(&payload[HEADER..]);
            }
        });
        // Every second packet asks for an acknowledgement; an event loop that drains before it
        // sends makes one of all that a round asked for.
        if got / 2 > before / 2 {
            node.send(top, &[]);
        }
        node.flush()?;
        if let Some(app) = &node.app
            && !ring.is_empty()
        {
            match (&*app).write(&ring) {
                Ok(n) => drop(ring.drain(..n)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                // The reader has stopped: the run is over.
                Err(_) => break,
            }
            let idle = ring.is_empty();
            node.watch_app(if idle {
                Interest::NONE
            } else {
                Interest::WRITE
            })?;
        }
    }
    Ok(node.finish(got, cpu))
}

fn ping(mut node: Node) -> Result<Side, Box<dyn Error>> {
    let (cpu, mut latencies) = (cpu_time(), Vec::new());
    while !STOP.load(Relaxed) {
        let start = Poller::now();
        node.send(latencies.len() as u64, &[]);
        node.flush()?;
        let mut back = false;
        while !back && !STOP.load(Relaxed) {
            node.wait(Span::MILLI * 100)?;
            node.receive(|_| back = true);
        }
        latencies.push((Poller::now() - start).0);
    }
    let mut side = node.finish(latencies.len() as u64, cpu);
    latencies.sort_unstable();
    side.latencies = latencies;
    Ok(side)
}

fn pong(mut node: Node) -> Result<Side, Box<dyn Error>> {
    let (cpu, mut got) = (cpu_time(), 0);
    while !STOP.load(Relaxed) {
        node.wait(Span::MILLI * 100)?;
        let mut count = 0;
        node.receive(|_| count += 1);
        for _ in 0..count {
            node.send(got, &[]);
        }
        got += count;
        node.flush()?;
    }
    Ok(node.finish(got, cpu))
}

/// Writes or reads 128 KiB at a time until the end; gives its CPU time in seconds.
fn application(mut stream: UnixStream, writes: bool) -> f64 {
    let cpu = cpu_time();
    let mut buffer = vec![7u8; 128 << 10];
    while !STOP.load(Relaxed) {
        let done = if writes {
            stream.write(&buffer)
        } else {
            stream.read(&mut buffer)
        };
        if matches!(done, Ok(0) | Err(_)) {
            break;
        }
    }
    (cpu_time() - cpu).as_secs_f64()
}

type Run = fn(Node) -> Result<Side, Box<dyn Error>>;

struct Case {
    name: &'static str,
    left: Run,
    right: Run,
    apps: bool,
}

fn side(ns: &Namespace, run: Run, ends: [[u8; 4]; 2], app: Option<UnixStream>, c: Setting) -> Side {
    let work = || -> Result<Side, Box<dyn Error>> {
        let mut node = Node::open(ends[0], ends[1], c)?;
        if let Some(app) = app {
            node.attach(app)?;
        }
        run(node)
    };
    let outcome = ns.run(|| work().map_err(|e| e.to_string()));
    outcome.expect("namespace").expect("run")
}

fn measure(case: &Case, ns: &[Namespace; 2], seconds: f64, setting: Setting) {
    STOP.store(false, Relaxed);
    let (a, b) = ([10, 77, 0, 1], [10, 77, 0, 2]);
    let pair = || UnixStream::pair().expect("socket pair");
    let (lefts, rights) = if case.apps {
        (Some(pair()), Some(pair()))
    } else {
        (None, None)
    };
    let (left_app, left_fd) = lefts.unzip();
    let (right_app, right_fd) = rights.unzip();
    std::thread::scope(|scope| {
        let right = scope.spawn(|| side(&ns[1], case.right, [b, a], right_fd, setting));
        let left = scope.spawn(|| side(&ns[0], case.left, [a, b], left_fd, setting));
        let source = left_app.map(|s| scope.spawn(|| application(s, true)));
        let sink = right_app.map(|s| scope.spawn(|| application(s, false)));
        std::thread::sleep(std::time::Duration::from_secs_f64(seconds));
        STOP.store(true, Relaxed);
        let (left, right) = (left.join().expect("left"), right.join().expect("right"));
        let apps = [source, sink].map(|t| t.map_or(0.0, |t| t.join().expect("application")));
        report(case.name, setting, seconds, &left, &right, apps);
    });
}

fn report(name: &str, setting: Setting, seconds: f64, left: &Side, right: &Side, apps: [f64; 2]) {
    let way = if setting.direct { "direct" } else { "sockets" };
    print!("{name:7} {way:7} pause {:3} us  ", setting.pause_us);
    if !left.latencies.is_empty() {
        let at = |q: f64| left.latencies[(left.latencies.len() as f64 * q) as usize] / 1000;
        println!("round trip p50 {} us  p99 {} us", at(0.5), at(0.99));
        return;
    }
    let rate = right.packets as f64 / seconds;
    let percent = |cpu: f64| 100.0 * cpu / seconds;
    println!(
        "{:.3} Mpps  {:5.2} Gb/s  lost {:4.1} %  cpu {:3.0}+{:3.0}+{:3.0}+{:3.0} %  \
         packets/call {:.1}+{:.1}  \
         waits/s {:.0}+{:.0}  stalls {}",
        rate / 1e6,
        rate * 1500.0 * 8.0 / 1e9,
        100.0 * (1.0 - right.packets as f64 / left.packets.max(right.packets) as f64),
        percent(left.cpu),
        percent(right.cpu),
        percent(apps[0]),
        percent(apps[1]),
        left.packets as f64 / left.calls as f64,
        right.packets as f64 / right.calls as f64,
        left.polls.waits as f64 / seconds,
        right.polls.waits as f64 / seconds,
        left.stalls,
    );
}

fn main() -> Result<(), Box<dyn Error>> {
    let (words, numbers): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|a| a.parse::<f64>().is_err());
    let chosen = |word: &str, group: &[&str]| {
        let named = group.iter().any(|g| words.iter().any(|w| w == g));
        !named || words.iter().any(|w| w == word)
    };
    let threshold = words.iter().find_map(|w| w.strip_prefix("threshold="));
    let threshold = threshold.map_or(Ok(Coalesce::default().threshold), str::parse)?;
    let mut numbers = numbers.iter();
    let seconds: f64 = numbers.next().map_or(Ok(2.0), |s| s.parse())?;
    let mut pauses: Vec<u64> = numbers.map(|s| s.parse()).collect::<Result<_, _>>()?;
    if pauses.is_empty() {
        pauses = vec![0, 25, 50, 100];
    }
    let mut lab = Lab::create(&format!("bench-{}", std::process::id()))?;
    let ns = [lab.node("a")?, lab.node("b")?];
    let end = |node, address| End {
        node,
        device: "eth0",
        address,
    };
    lab.link(end("a", "10.77.0.1/24"), end("b", "10.77.0.2/24"), 1500)?;
    let case = |name, left, right, apps| Case {
        name,
        left,
        right,
        apps,
    };
    let cases = [
        case("flood", flood as Run, drain as Run, false),
        case("window", windowed, acking, false),
        case("apps", windowed, acking, true),
        case("ping", ping, pong, false),
    ];
    let (names, ways) = (cases.each_ref().map(|c| c.name), ["sockets", "direct"]);
    for case in cases.iter().filter(|c| chosen(c.name, &names)) {
        for direct in [false, true] {
            if !chosen(ways[usize::from(direct)], &ways) {
                continue;
            }
            for pause_us in pauses.iter().copied() {
                measure(
                    case,
                    &ns,
                    seconds,
                    Setting {
                        direct,
                        pause_us,
                        threshold,
                    },
                );
            }
        }
    }
    lab.close();
    Ok(())
}
