//! What the daemon tells parts is what the table of facts says. Needs root; a namespace of its own.

mod common;

use common::privileged;
use std::collections::BTreeSet;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use wifu_engine::{
    Admit, Component, Cx, Descriptor, EndpointConfig, Fact, Library, Role, Segment, Signal,
};
use wifu_linux::daemon::{CarrierConfig, Daemon, DaemonConfig};
use wifu_linux::front::FrontConfig;
use wifu_linux::netns::Lab;
use wifu_linux::poller::Coalesce;
use wifu_linux::tun::TunConfig;
use wifu_node::{Registry, Teller};

/// Segments that the part saw, and the facts that were there.
static LEARNED: Mutex<(u32, BTreeSet<Fact>)> = Mutex::new((0, BTreeSet::new()));

/// Writes down which facts are there.
static WITNESS: Descriptor = Descriptor {
    name: "witness",
    role: Role::Watch,
    doc: "Writes down which facts are there.",
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

#[test]
fn the_daemon_tells_what_the_table_says_and_no_more() {
    if !privileged() {
        return;
    }
    let name = format!("t-facts-{}", std::process::id());
    let mut lab = Lab::create(&name).expect("lab");
    let ns = lab.node("a").expect("node");
    let dir = std::env::temp_dir().join(format!("wifu-{name}"));
    std::fs::create_dir_all(&dir).expect("directory");
    let (kernel, stack) = (Ipv4Addr::new(10, 79, 0, 1), Ipv4Addr::new(10, 79, 0, 2));
    let config = DaemonConfig {
        carriers: vec![CarrierConfig::Tun(TunConfig::new(kernel, stack))],
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
        serve: Vec::new(),
    };
    // It ends with this process.
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
    let listener = ns.run(|| TcpListener::bind((kernel, 0))).flatten();
    let listener = listener.expect("the kernel listens");
    let port = listener.local_addr().expect("bound").port();
    let script = format!(
        "import socket\ns = socket.create_connection((\"{kernel}\", {port}))\n\
         s.sendall(b\"w\" * 50000)\ns.close()\n"
    );
    let mut program = ns.command("python3").expect("namespace");
    program.args(["-c", &script]).env("LD_PRELOAD", preload());
    program.env("WIFU_SOCKET", dir.join("socket"));
    let mut program = program
        .env("WIFU_PROTOCOL", "watched")
        .spawn()
        .expect("python3");
    let (mut connection, _) = listener.accept().expect("a connection");
    let mut octets = Vec::new();
    connection.read_to_end(&mut octets).expect("octets");
    assert!(program.wait().expect("python3").success());
    assert_eq!(octets.len(), 50_000);
    std::fs::remove_dir_all(&dir).expect("directory");
    let (segments, learned) = std::mem::take(&mut *LEARNED.lock().unwrap());
    assert!(segments > 1, "{segments} segments");
    let table = Teller::Live.tells().iter().copied();
    assert_eq!(learned, table.filter(|f| f.for_parts()).collect());
}
