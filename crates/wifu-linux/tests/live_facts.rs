//! What the daemon tells parts is what the table of facts says. Needs root; namespaces of its own.

mod common;

use common::privileged;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use wifu_engine::{
    Admit, Component, Cx, Descriptor, EndpointConfig, Fact, Library, Role, Segment, Signal,
};
use wifu_linux::daemon::{CarrierConfig, Daemon, DaemonConfig};
use wifu_linux::front::FrontConfig;
use wifu_linux::netns::{End, Lab, Namespace};
use wifu_linux::poller::Coalesce;
use wifu_linux::raw::KeepOff;
use wifu_node::{Registry, Teller};

/// Segments that the part saw, and the facts that were there.
static LEARNED: Mutex<(u32, BTreeSet<Fact>)> = Mutex::new((0, BTreeSet::new()));

/// Writes down which facts are there.
static WITNESS: Descriptor = Descriptor {
    name: "witness",
    role: Role::Watch,
    doc: "Writes down which facts are there.",
    requires: &[Fact::NextHop, Fact::Transmitter],
    hears: &[("status", &[])],
    hooks: &["segment"],
    build: |_| Ok(Box::new(Witness)),
    ..Descriptor::EMPTY
};

struct Witness;

impl Component for Witness {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let (frame, site) = (seg.frame, &cx.board.site);
        let facts = [
            (Fact::NextHop, site.next_hop.is_some()),
            (Fact::RouteHops, site.route_hops.is_some()),
            (Fact::SiteRate, site.rate.is_some()),
            (Fact::Sense, site.sense_dbm.is_some()),
            (Fact::TxPower, site.tx_power_dbm.is_some()),
            (Fact::Rssi, frame.rssi_dbm.is_some()),
            (Fact::FrameRate, frame.rate.is_some()),
            (Fact::Transmitter, frame.transmitter.is_some()),
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
    let own = "[protocol.watched]\nextends = \"tcp-newreno\"\nnumber = 240\n\
               watch.add = [\"witness\"]\n";
    let own = Library::parse(own).expect("a composition");
    let library = wifu_parts::library().merge(own);
    Registry::new(wifu_parts::registry(), library).with_parts(&[&WITNESS])
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

/// A daemon in a namespace, with its socket and state in a folder. It ends with this process.
fn start(ns: &Namespace, dir: &Path) {
    let config = DaemonConfig {
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
        serve: vec![String::from("watched")],
        monitor: None,
    };
    let inside = ns.clone();
    std::thread::spawn(move || {
        let ended = inside.run(|| Daemon::open(config).and_then(Daemon::run));
        panic!("the daemon ended: {ended:?}");
    });
    let patience = Instant::now() + Duration::from_secs(10);
    while !dir.join("socket").exists() {
        assert!(Instant::now() < patience, "the daemon does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A Python program over the watched protocol.
fn python(ns: &Namespace, dir: &Path, script: &str) -> Command {
    let mut program = ns.command("python3").expect("namespace");
    program.args(["-c", script]).env("LD_PRELOAD", preload());
    program.env("WIFU_SOCKET", dir.join("socket"));
    program.env("WIFU_PROTOCOL", "watched");
    program
}

#[test]
fn the_daemon_tells_what_the_table_says_and_no_more() {
    if !privileged() {
        return;
    }
    let name = format!("t-facts-{}", std::process::id());
    let mut lab = Lab::create(&name).expect("lab");
    let dir = std::env::temp_dir().join(format!("wifu-{name}"));
    let [a, b] = ["a", "b"].map(|node| (lab.node(node).expect("node"), dir.join(node)));
    let end = |node, address| End {
        node,
        device: "eth0",
        address,
    };
    let link = lab.link(end("a", "10.79.0.1/24"), end("b", "10.79.0.2/24"), 1500);
    link.expect("link");
    for (ns, dir) in [&a, &b] {
        std::fs::create_dir_all(dir).expect("directory");
        start(ns, dir);
    }
    let server = "import socket\ns = socket.create_server((\"10.79.0.2\", 7000))\n\
                  print(\"listening\", flush=True)\nc = s.accept()[0]\n\
                  print(sum(len(p) for p in iter(lambda: c.recv(65536), b\"\")))\n";
    let mut server = python(&b.0, &b.1, server);
    let mut server = server.stdout(Stdio::piped()).spawn().expect("python3");
    let mut said = BufReader::new(server.stdout.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    let client = "import socket\ns = socket.create_connection((\"10.79.0.2\", 7000))\n\
                  s.sendall(b\"w\" * 50000)\ns.close()\n";
    let status = python(&a.0, &a.1, client).status().expect("python3");
    assert!(status.success());
    line.clear();
    said.read_line(&mut line).expect("a line");
    assert_eq!(line.trim(), "50000");
    assert!(server.wait().expect("python3").success());
    std::fs::remove_dir_all(&dir).expect("directory");
    let (segments, learned) = std::mem::take(&mut *LEARNED.lock().unwrap());
    assert!(segments > 10, "{segments} segments");
    let table = Teller::Live.tells().iter().copied();
    assert_eq!(learned, table.filter(|f| f.for_parts()).collect());
}
