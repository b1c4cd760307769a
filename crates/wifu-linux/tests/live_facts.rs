//! What the daemon tells parts and handlers is what the table of facts says, and what drivers say.
//! Needs root; namespaces of its own.

mod common;

use common::privileged;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use wifu_core::{Handler, Hook, Hooks, HopCx, LinkFacts, LinkTo, Packet, Verbs, Verdict};
use wifu_engine::{
    Admit, Component, Cx, Descriptor, EndpointConfig, Fact, Library, Role, Segment, Signal,
};
use wifu_linux::daemon::{CarrierConfig, Daemon, DaemonConfig, DaemonError, FactsConfig};
use wifu_linux::delay::{Files, Measure, Meter, Reading, Setup, default_directory};
use wifu_linux::front::FrontConfig;
use wifu_linux::netns::{End, Lab, Namespace, Owner, Shape};
use wifu_linux::poller::Coalesce;
use wifu_linux::raw::KeepOff;
use wifu_node::{Registry, Teller};
use wifu_wire::{Moment, Neighbour, Rate, Span, Time};

/// What is learned is for one test at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Who sent a packet, and what its handler was told of the link by which it leaves.
static LINKS: Mutex<Vec<(u8, LinkFacts)>> = Mutex::new(Vec::new());

/// Frames for others: who transmitted them, with what signal.
static HEARD: Mutex<Vec<(Option<Neighbour>, Option<i8>)>> = Mutex::new(Vec::new());

/// Writes down what is known of links, and what is overheard.
static LINKED: wifu_core::Descriptor = wifu_core::Descriptor {
    name: "linked",
    doc: "Writes down what is known of links, and what is overheard.",
    hooks: Hooks::of(&[Hook::Output, Hook::Overheard]),
    build: |_| Ok(Box::new(Linked)),
    ..wifu_core::Descriptor::EMPTY
};

struct Linked;

impl Handler for Linked {
    fn on_packet(&mut self, hook: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        if hook == Hook::Overheard {
            let heard = (packet.transmitter, packet.rssi_dbm);
            HEARD.lock().unwrap().push(heard);
            return Verdict::Accept;
        }
        let sender = packet.octets()[15];
        LINKS.lock().unwrap().push((sender, cx.site.link()));
        Verdict::Accept
    }
}

/// Packets that went to all instead.
static SHOUTED: AtomicU32 = AtomicU32::new(0);

/// Sends to all who hear what was to go along its route.
static SHOUTS: wifu_core::Descriptor = wifu_core::Descriptor {
    name: "shouts",
    doc: "Sends to all who hear what was to go along its route.",
    hooks: Hooks::of(&[Hook::Output]),
    needs: Verbs::COPY.with(Verbs::SEND),
    holds: 100,
    build: |_| Ok(Box::new(Shouts)),
    ..wifu_core::Descriptor::EMPTY
};

struct Shouts;

impl Handler for Shouts {
    fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        let Some(copy) = packet.copy() else {
            return Verdict::Accept;
        };
        cx.send_kept(copy, false, LinkTo::All);
        SHOUTED.fetch_add(1, Ordering::Relaxed);
        Verdict::Drop("it goes to all")
    }
}

/// What handlers were told since the last time, of packets of this host.
fn links_of(sender: u8) -> Vec<LinkFacts> {
    let all = LINKS.lock().unwrap();
    let own = all.iter().filter(|(who, _)| *who == sender);
    own.map(|(_, link)| *link).collect()
}

/// Segments that the part saw, and the facts that were there.
static LEARNED: Mutex<(u32, BTreeSet<Fact>)> = Mutex::new((0, BTreeSet::new()));

/// Writes down which facts are there.
static WITNESS: Descriptor = Descriptor {
    name: "witness",
    role: Role::Watch,
    doc: "Writes down which facts are there.",
    requires: &[Fact::NextHop, Fact::Transmitter, Fact::Received],
    hears: &[("status", &[])],
    hooks: &["segment"],
    build: |_| Ok(Box::new(Witness)),
    ..Descriptor::EMPTY
};

struct Witness;

impl Component for Witness {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let (frame, site) = (seg.frame, &cx.board.site);
        let received = frame.received.map(Moment::time);
        // By one clock: not in the future, and not long ago.
        let sound = |at: Time| at <= cx.now && cx.now - at < Span::SECOND;
        assert!(received.is_none_or(sound), "{received:?}, {:?}", cx.now);
        let facts = [
            (Fact::NextHop, site.next_hop.is_some()),
            (Fact::RouteHops, site.route_hops.is_some()),
            (Fact::SiteRate, site.rate.is_some()),
            (Fact::Sense, site.sense_dbm.is_some()),
            (Fact::TxPower, site.tx_power_dbm.is_some()),
            (Fact::Rssi, frame.rssi_dbm.is_some()),
            (Fact::FrameRate, frame.rate.is_some()),
            (Fact::Transmitter, frame.transmitter.is_some()),
            (Fact::Received, received.is_some()),
        ];
        let mut learned = LEARNED.lock().unwrap();
        learned.0 += 1;
        let there = facts.iter().filter(|(_, there)| *there);
        learned.1.extend(there.map(|(fact, _)| *fact));
        Admit::Pass
    }

    fn on_signal(&mut self, _status: &Signal, _: &mut Cx<'_>) {
        LEARNED.lock().unwrap().1.insert(Fact::Status);
    }
}

fn registry() -> Registry {
    let own = "[protocol.watched]\nextends = \"tcp-newreno\"\nprofile = \"wifu-tahoe\"\nnumber = 240\n\
               watch.add = [\"witness\"]\n[handlers.watched]\nchain = [\"linked\"]\n\
               [protocol.shouted]\nextends = \"tcp-newreno\"\nnumber = 241\n\
               [handlers.shouted]\nchain = [\"shouts\"]\n";
    let own = Library::parse(own).expect("a composition");
    let library = wifu_parts::library().merge(own);
    let registry = Registry::new(wifu_parts::registry(), library);
    registry
        .with_parts(&[&WITNESS])
        .with_handlers(&[&LINKED, &SHOUTS])
}

/// The newest build of the library that programs are preloaded with.
fn preload() -> std::path::PathBuf {
    let exe = std::env::current_exe().expect("a test has a path");
    let deps = exe.parent().expect("target/<profile>/deps");
    let above = deps.parent().expect("target/<profile>");
    let places = [above, deps].map(|d| d.join("libwifu_preload.so"));
    let age = |p: &Path| p.metadata().ok()?.modified().ok();
    let found = places.into_iter().filter(|p| age(p).is_some());
    found.max_by_key(|p| age(p)).expect("build wifu-preload")
}

/// Of a daemon with its socket and state in a folder.
fn config(dir: &Path, facts: FactsConfig) -> DaemonConfig {
    DaemonConfig {
        carriers: vec![CarrierConfig::Raw {
            mtu: 1500,
            direct: false,
            keep_off: KeepOff::Best,
        }],
        front: FrontConfig {
            socket: dir.join("socket"),
            mode: 0o600,
            group: None,
            state: dir.join("listeners.json"),
        },
        pcap: None,
        coalesce: Coalesce::OFF,
        faults: None,
        faults_in: None,
        endpoint: EndpointConfig::default(),
        registry: registry(),
        serve: vec![String::from("watched"), String::from("shouted")],
        service_ports: Vec::new(),
        lanes: None,
        devices: Vec::new(),
        facts,
        host: None,
    }
}

/// A host, where its daemon has its socket, and its address.
struct Host {
    ns: Namespace,
    dir: PathBuf,
    address: &'static str,
}

impl Host {
    /// A daemon. It ends with this process.
    fn start(&self, facts: FactsConfig) {
        self.start_by(&[], facts);
    }

    /// ... that serves by these interfaces.
    fn start_by(&self, devices: &[&str], facts: FactsConfig) {
        std::fs::create_dir_all(&self.dir).expect("directory");
        let config = DaemonConfig {
            devices: devices.iter().map(|d| (*d).to_owned()).collect(),
            ..config(&self.dir, facts)
        };
        let inside = self.ns.clone();
        std::thread::spawn(move || {
            let ended = inside.run(|| Daemon::open(config).and_then(Daemon::run));
            panic!("the daemon ended: {ended:?}");
        });
        let patience = Instant::now() + Duration::from_secs(10);
        while !self.dir.join("socket").exists() {
            assert!(Instant::now() < patience, "the daemon does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// A Python program over a protocol.
    fn python(&self, protocol: &str, script: &str) -> Command {
        let mut program = self.ns.command("python3").expect("namespace");
        program.args(["-c", script]).env("LD_PRELOAD", preload());
        program.env("WIFU_SOCKET", self.dir.join("socket"));
        program.env("WIFU_PROTOCOL", protocol);
        program
    }
}

/// Hosts that hear each other.
struct World {
    hosts: Vec<Host>,
    dir: PathBuf,
    lab: Lab,
    _alone: MutexGuard<'static, ()>,
}

impl World {
    fn begin(test: &str, nodes: &[&'static str]) -> World {
        let alone = ONE.lock().unwrap_or_else(|e| e.into_inner());
        let name = format!("t-{test}-{}", std::process::id());
        let mut lab = Lab::create(&name).expect("lab");
        let dir = std::env::temp_dir().join(format!("wifu-{name}"));
        let addresses = ["10.79.0.1", "10.79.0.2", "10.79.0.3"];
        let hosts = nodes.iter().zip(addresses).map(|(node, address)| Host {
            ns: lab.node(node).expect("node"),
            dir: dir.join(node),
            address,
        });
        let hosts = hosts.collect();
        LINKS.lock().unwrap().clear();
        HEARD.lock().unwrap().clear();
        World {
            hosts,
            dir,
            lab,
            _alone: alone,
        }
    }

    /// Two hosts on a link.
    fn new(test: &str) -> World {
        let mut world = World::begin(test, &["a", "b"]);
        world.join("eth0", ["10.79.0.1/24", "10.79.0.2/24"]);
        world
    }

    /// One more link between the hosts a and b.
    fn join(&mut self, device: &'static str, addresses: [&'static str; 2]) {
        let end = |node, address| End {
            node,
            device,
            address,
        };
        let ends = (end("a", addresses[0]), end("b", addresses[1]));
        self.lab.link(ends.0, ends.1, 1500).expect("link");
    }

    /// Three hosts at a hub, which repeats every frame to all others.
    fn hub(test: &str) -> World {
        let mut world = World::begin(test, &["a", "b", "c"]);
        let lab = &mut world.lab;
        lab.node("hub").expect("node");
        let ports = [
            ("a", "10.79.0.1/24", "eth0"),
            ("b", "10.79.0.2/24", "eth1"),
            ("c", "10.79.0.3/24", "eth2"),
        ];
        let mut lines = vec![
            String::from("link add name br0 type bridge ageing_time 0 stp_state 0"),
            String::from("link set dev br0 up"),
        ];
        for (node, address, port) in ports {
            let host = End {
                node,
                device: "eth0",
                address,
            };
            let hub = End {
                node: "hub",
                device: port,
                address: "",
            };
            lab.link(host, hub, 1500).expect("link");
            lines.push(format!("link set dev {port} master br0"));
        }
        lab.ip("hub", &lines).expect("a bridge");
        world
    }

    /// The first host sends so many octets to the second one's port.
    fn transfer(&self, port: u16, octets: usize) {
        self.transfer_over("watched", port, octets);
    }

    /// ... over a protocol.
    fn transfer_over(&self, protocol: &str, port: u16, octets: usize) {
        self.transfer_to(self.hosts[1].address, protocol, port, octets);
    }

    /// ... to one of its addresses.
    fn transfer_to(&self, to: &str, protocol: &str, port: u16, octets: usize) {
        LINKS.lock().unwrap().clear();
        let [a, b, ..] = &self.hosts[..] else {
            unreachable!("two hosts at least");
        };
        let server = format!(
            "import socket\ns = socket.create_server((\"{to}\", {port}))\n\
             print(\"listening\", flush=True)\nc = s.accept()[0]\n\
             print(sum(len(p) for p in iter(lambda: c.recv(65536), b\"\")))\n"
        );
        let mut server = b.python(protocol, &server);
        let mut server = server.stdout(Stdio::piped()).spawn().expect("python3");
        let mut said = BufReader::new(server.stdout.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        let client = format!(
            "import socket\ns = socket.create_connection((\"{to}\", {port}))\n\
             s.sendall(b\"w\" * {octets})\ns.close()\n"
        );
        assert!(
            a.python(protocol, &client)
                .status()
                .expect("python3")
                .success()
        );
        line.clear();
        said.read_line(&mut line).expect("a line");
        assert_eq!(line.trim(), octets.to_string());
        assert!(server.wait().expect("python3").success());
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn the_daemon_tells_what_the_table_says_and_no_more() {
    if !privileged() {
        return;
    }
    let world = World::new("facts");
    world
        .hosts
        .iter()
        .for_each(|host| host.start(FactsConfig::default()));
    world.transfer(7000, 50_000);
    let (segments, learned) = std::mem::take(&mut *LEARNED.lock().unwrap());
    assert!(segments > 10, "{segments} segments");
    let table = || Teller::Live.tells().iter().copied();
    assert_eq!(learned, table().filter(|f| f.for_parts()).collect());
    let links = links_of(1);
    assert!(links.len() > 10);
    for link in links {
        let known = [
            (Fact::LinkDelay, link.delay.is_some()),
            (Fact::LinkQueued, link.queued.is_some()),
            (Fact::LinkRoom, link.room.is_some()),
            (Fact::LinkDone, link.last_done.is_some()),
            (Fact::LinkBusy, link.busy.is_some()),
            (Fact::LinkRate, link.rate.is_some()),
        ];
        for (fact, there) in known {
            assert_eq!(table().any(|f| f == fact), there, "{fact}");
        }
    }
}

/// The room of a link is what the kernel takes as well: what it holds for a slow interface is
/// longer than what waits for the kernel.
#[test]
fn the_room_of_a_link_shrinks_while_the_kernels_queue_fills_and_comes_back() {
    if !privileged() {
        return;
    }
    let mut world = World::new("room");
    // Of the socket's 93 packets it loses none.
    let slow = Shape::new(Rate(2_000_000), 150);
    world.lab.shape("a", "eth0", slow).expect("tbf");
    let start = |host: &Host| host.start(FactsConfig::default());
    world.hosts.iter().for_each(start);
    let rooms = || -> Vec<u32> {
        let all = links_of(1);
        all.iter().map(|l| l.room.expect("a room")).collect()
    };
    // Each has a window of some 44 packets.
    std::thread::scope(|all| {
        for port in 7000..7004 {
            let world = &world;
            all.spawn(move || world.transfer(port, 300_000));
        }
    });
    let filling = rooms();
    println!("{filling:?}");
    assert!(filling.iter().min() <= Some(&1), "{filling:?}");
    // It does not hop between all and nothing, as our own slots do.
    let between = |room: &&u32| (5..50).contains(*room);
    assert!(filling.iter().filter(between).count() > 20, "{filling:?}");
    // What the kernel still had is gone.
    std::thread::sleep(Duration::from_secs(1));
    world.transfer(7004, 10_000);
    let empty = rooms();
    assert!(empty.len() > 5, "{empty:?}");
    assert!(empty.iter().all(|room| *room > 50), "{empty:?}");
}

#[test]
fn a_driver_tells_its_delay_as_long_as_it_lives() {
    if !privileged() {
        return;
    }
    let world = World::new("driver");
    let [a, b] = &world.hosts[..] else {
        unreachable!("two hosts");
    };
    // As an emulated radio, or a patched driver.
    let dir = world.dir.join("driver");
    std::fs::create_dir_all(&dir).expect("directory");
    let put = |name: &str, text: &str| std::fs::write(dir.join(name), text).expect("file");
    put("owner", &Owner::this().tag());
    put("Da", "43210\n");
    put("sample", "50000\n");
    put("busy", "250000\n");
    let of = |device: &str| FactsConfig {
        delays: vec![
            format!("{device}={}", dir.display())
                .parse()
                .expect("words"),
        ],
        ..FactsConfig::default()
    };
    let refused =
        a.ns.run(|| Daemon::open(config(&world.dir, of("eth7"))).map(drop));
    let said = match refused.expect("namespace") {
        Err(DaemonError::Serve(said)) => said,
        _ => panic!("a device that is not there"),
    };
    assert!(said.contains("eth7 is no Ethernet interface"), "{said}");
    a.start(of("eth0"));
    b.start(FactsConfig::default());
    // Where `wifu delay` writes unless told otherwise: nobody has to say so.
    let usual = b.ns.run(|| default_directory("eth0")).flatten();
    let mut files = Files::create(&usual.expect("/proc")).expect("files");
    let reading = Reading {
        samples: 1,
        average: 7_000_000,
        sample: 8_000_000,
        ..Reading::default()
    };
    files.write(&reading).expect("files");
    let told = |sender| {
        let links = links_of(sender);
        assert!(links.len() > 10, "{}", links.len());
        let of = |l: &LinkFacts| [l.delay, l.sample, l.first].map(|t| t.map(|t| t.0 / 1000));
        let mut told: Vec<_> = links.iter().map(|l| (of(l), l.busy)).collect();
        told.dedup();
        told
    };
    world.transfer(7000, 100_000);
    assert_eq!(told(1), [([Some(43_210), Some(50_000), None], Some(0.25))]);
    assert_eq!(told(2), [([Some(7_000), Some(8_000), None], None)]);
    drop(files);
    let killed = Owner {
        start: 0,
        ..Owner::this()
    };
    put("owner", &killed.tag());
    // Whose the files are is looked at once in a second.
    std::thread::sleep(Duration::from_millis(1100));
    world.transfer(7001, 100_000);
    for sender in [1, 2] {
        assert_eq!(told(sender), [([None; 3], None)]);
    }
}

#[test]
fn what_wifu_delay_measures_is_what_handlers_are_told() {
    if !privileged() {
        return;
    }
    let mut world = World::new("meter");
    let slow = Shape::new(Rate(2_000_000), 30);
    world.lab.shape("a", "eth0", slow).expect("tbf");
    let [a, b] = &world.hosts[..] else {
        unreachable!("two hosts");
    };
    a.start(FactsConfig::default());
    b.start(FactsConfig::default());
    let setup = Setup {
        measure: Measure::Queue,
        stamp: None,
    };
    let open = || Meter::open("eth0", &setup);
    let meter =
        a.ns.run(open)
            .expect("namespace")
            .expect("a kernel with BTF");
    let usual = a.ns.run(|| default_directory("eth0")).flatten();
    let mut files = Files::create(&usual.expect("/proc")).expect("files");
    let over = AtomicBool::new(false);
    // All averages that were written, in microseconds.
    let written = std::thread::scope(|scope| {
        let write = || {
            let mut written = BTreeSet::new();
            while !over.load(Ordering::Relaxed) {
                let reading = meter.read().expect("a reading");
                files.write(&reading).expect("files");
                written.insert((reading.average + 500) / 1000);
                std::thread::sleep(Duration::from_millis(2));
            }
            written
        };
        let writer = scope.spawn(write);
        world.transfer(7000, 300_000);
        over.store(true, Ordering::Relaxed);
        writer.join().expect("it writes")
    });
    let told = links_of(1);
    let told: Vec<u64> = told
        .iter()
        .filter_map(|l| Some(l.delay?.0 / 1000))
        .collect();
    println!("told {:?} ... of {} packets", told.last(), told.len());
    assert!(told.len() > 100, "{}", told.len());
    for us in &told {
        assert!(written.contains(us), "{us} us was never said");
    }
    // A queue of some packets at 2 Mb/s: each takes 6 ms.
    assert!(told.iter().any(|us| *us > 6_000), "{told:?}");
}

#[test]
fn an_interface_hears_what_is_for_others_without_a_monitor() {
    if !privileged() {
        return;
    }
    let world = World::hub("ears");
    let refused = world.hosts[2].ns.run(|| {
        let overhear = vec![String::from("eth7")];
        let facts = FactsConfig {
            overhear,
            ..FactsConfig::default()
        };
        Daemon::open(config(&world.dir, facts)).map(drop)
    });
    let said = refused.expect("namespace").expect_err("there is none");
    assert!(said.to_string().starts_with("--overhear eth7: "), "{said}");
    for (host, overhears) in world.hosts.iter().zip([false, false, true]) {
        let overhear = overhears.then(|| String::from("eth0"));
        host.start(FactsConfig {
            overhear: overhear.into_iter().collect(),
            ..FactsConfig::default()
        });
    }
    world.transfer(7000, 50_000);
    let heard = std::mem::take(&mut *HEARD.lock().unwrap());
    // Data, and their acknowledgements.
    assert!(heard.len() > 50_000 / 1460 + 10, "{}", heard.len());
    let who: BTreeSet<_> = heard.iter().map(|(who, _)| *who).collect();
    assert_eq!(who.len(), 2, "{who:?}");
    assert!(!who.contains(&None), "who transmitted is told");
    assert!(heard.iter().all(|(_, signal)| signal.is_none()));
}

#[test]
fn what_goes_to_all_who_hear_is_taken_by_whom_it_is_for() {
    if !privileged() {
        return;
    }
    let world = World::hub("all");
    let start = |host: &Host| host.start(FactsConfig::default());
    world.hosts.iter().for_each(start);
    world.transfer_over("shouted", 7000, 100_000);
    // Both ends: no packet went along its route.
    let shouted = SHOUTED.load(Ordering::Relaxed);
    assert!(shouted > 100_000 / 1460 + 10, "{shouted}");
}

/// Octets that left by an interface of a host.
fn left_by(host: &Host, device: &str) -> u64 {
    let read = || std::fs::read_to_string("/proc/thread-self/net/dev").expect("counters");
    let text = host.ns.run(read).expect("namespace");
    let of = |line: &str| {
        Some(
            line.trim()
                .strip_prefix(device)?
                .strip_prefix(':')?
                .to_owned(),
        )
    };
    let line = text.lines().find_map(of).expect("an interface");
    let sent = line.split_whitespace().nth(8).expect("a counter");
    sent.parse().expect("a number")
}

#[test]
fn what_goes_to_all_who_hear_leaves_by_the_interfaces_that_are_served() {
    if !privileged() {
        return;
    }
    for named in [&[][..], &["eth0"]] {
        let mut world = World::new("named");
        world.join("eth1", ["10.80.0.1/24", "10.80.0.2/24"]);
        let start = |host: &Host| host.start_by(named, FactsConfig::default());
        world.hosts.iter().for_each(start);
        let sent = |device: &str| left_by(&world.hosts[0], device);
        let before = sent("eth1");
        world.transfer_over("shouted", 7000, 100_000);
        let (served, beside) = (sent("eth0"), sent("eth1") - before);
        assert!(served > 100_000, "{served}");
        match named.is_empty() {
            true => assert!(beside > 100_000, "{beside}"),
            // IPv6 looks for neighbours.
            false => assert!(beside < 5_000, "{beside}"),
        }
        // By addresses of the other one, too, the connection is served: by the IP layer.
        world.transfer_to("10.80.0.2", "watched", 7001, 50_000);
        assert!(links_of(1).len() > 10);
    }
}

#[test]
fn an_interface_that_comes_later_is_a_way_like_others() {
    if !privileged() {
        return;
    }
    let mut world = World::new("later");
    let start = |host: &Host| host.start(FactsConfig::default());
    world.hosts.iter().for_each(start);
    world.transfer(7000, 50_000);
    let end = |node, address| End {
        node,
        device: "eth1",
        address,
    };
    let ends = (end("a", "10.80.0.1/24"), end("b", "10.80.0.2/24"));
    world.lab.link(ends.0, ends.1, 1500).expect("link");
    let usual = world.hosts[0].ns.run(|| default_directory("eth1"));
    let mut files = Files::create(&usual.flatten().expect("/proc")).expect("files");
    let reading = Reading {
        samples: 1,
        average: 9_000_000,
        ..Reading::default()
    };
    files.write(&reading).expect("files");
    world.transfer_to("10.80.0.2", "watched", 7001, 50_000);
    let links = links_of(1);
    assert!(links.len() > 10, "{}", links.len());
    for link in links {
        // A lane would wait for room for ever.
        assert!(link.room.is_some_and(|room| room > 0), "{link:?}");
        assert_eq!(link.delay.map(|d| d.0), Some(9_000_000), "its driver's");
    }
}
