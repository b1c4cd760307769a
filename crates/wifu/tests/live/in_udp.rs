//! ATP in datagrams of UDP, with its own header behind UDP's (Behaviour 8.1): what is on the wire,
//! whose the ports are, and that nodes on the way collect.

use crate::common::privileged;
use crate::world::{FAR, Host, Running, World, peer, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The service's usual port, which is the carrier's as well.
const PORT: u16 = 9438;
const ENDS: [&str; 4] = ["--carrier", "raw", "--carrier", "udp"];
const SERVED: &str = "atp-adaptive";
/// A short guess, so that tests are.
const SPEC: &str = "atp-adaptive,carrier=udp,ds_first=1ms";

/// Three hosts in a row that serve ATP; the one in the middle has raw sockets alone.
fn row(test: &str, more: &[&str], middle: &[&str]) -> World {
    let mut w = World::row(test);
    let relay = &w.hosts[1];
    let mut sysctl = relay.command("sysctl");
    relay.run(sysctl.args(["-qw", "net.ipv4.ip_forward=1"]));
    let delays = delays(&w);
    for (i, host) in w.hosts.iter_mut().enumerate() {
        let own = if i == 1 { middle } else { &ENDS };
        let told = ["--serve", SERVED, "--delay-dir", &delays[i]];
        host.start_daemon(&[&told, more, own].concat());
    }
    w
}

/// What the drivers of the hosts say, us.
const DELAYS: [&str; 3] = ["1000", "3000", "1000"];

/// ... in files, as drivers do: a sender whom nobody tells a delay would never be faster again.
fn delays(w: &World) -> Vec<String> {
    let written = DELAYS.iter().enumerate().map(|(i, us)| {
        let dir = w.dir.join(format!("delay-{i}"));
        std::fs::create_dir_all(&dir).expect("directory");
        for file in ["Da", "sample"] {
            std::fs::write(dir.join(file), format!("{us}\n")).expect("delay");
        }
        dir.display().to_string()
    });
    written.collect()
}

fn play(host: &Host, who: &str, port: u16, octets: usize) -> Command {
    let args = [who, FAR, &port.to_string(), "exchange", &octets.to_string()];
    peer(host.over(SPEC, "python3"), &args)
}

/// The first host and the last one send so many octets to each other.
fn transfer(w: &World, port: u16, octets: usize) {
    let [near, _, far] = &w.hosts[..] else {
        unreachable!("three hosts");
    };
    let mut server = far.serve(port, &mut play(far, "listen", port, octets));
    let mut client = near.start(&mut play(near, "connect", port, octets));
    let (there, here) = (server.report(), client.report());
    assert_eq!(
        (&there["got"], &here["got"]),
        (&here["sent"], &there["sent"])
    );
}

fn number(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("{key} in {of}"))
}

/// A capture of what passes a device of a host.
struct Sniffer {
    running: Running,
    file: PathBuf,
}

impl Sniffer {
    fn on(w: &World, host: &Host, device: &str) -> Sniffer {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/sniff.py");
        let file = w.dir.join(format!("{}-{device}.pcap", host.ns.name()));
        let mut python = host.command("python3");
        let mut running = host.start(python.arg("-u").arg(script).arg(device).arg(&file));
        running.says("listening");
        Sniffer { running, file }
    }

    /// What tshark with our plug-in reads of it.
    fn read(mut self, w: &World, fields: &[&str]) -> Vec<Vec<String>> {
        self.running.signal(Signal::TERM);
        self.running.succeeds();
        let plug_in = w.dir.join("wifu.lua");
        let script = Command::new(crate::world::WIFU).arg("dissector").output();
        std::fs::write(&plug_in, script.expect("wifu").stdout).expect("plug-in");
        let mut tshark = Command::new("tshark");
        tshark
            .arg("-X")
            .arg(format!("lua_script:{}", plug_in.display()));
        tshark.arg("-r").arg(&self.file).args(["-T", "fields"]);
        fields.iter().for_each(|f| _ = tshark.args(["-e", f]));
        let output = tshark.output().expect("tshark");
        let text = String::from_utf8(output.stdout).expect("text");
        let rows = text.lines().map(|l| l.split('\t').map(str::to_owned));
        rows.map(Iterator::collect).collect()
    }
}

#[test]
fn atp_is_in_datagrams_of_its_ports_and_a_relay_collects() {
    if !privileged() {
        return;
    }
    let mut w = row("in-udp", &[], &[]);
    let kernel = |w: &World| {
        let forwarded = w.hosts[1].kernel("Ip", "ForwDatagrams");
        (forwarded, w.hosts[0].kernel("Icmp", "InDestUnreachs"))
    };
    let before = kernel(&w);
    let sniffers = ["eth0", "eth1"].map(|d| Sniffer::on(&w, &w.hosts[1], d));
    transfer(&w, PORT, 300_000);
    assert_eq!(kernel(&w), before, "the IP layer forwards and answers none");
    let fields = [
        "ip.proto",
        "udp.srcport",
        "udp.dstport",
        "udp.checksum",
        "ip.len",
        "ip.src",
        "wifu.atp.packet.type",
        "wifu.atp.hops",
        "wifu.atp.delay",
        "_ws.col.Protocol",
    ];
    let [near, far] = sniffers.map(|s| s.read(&w, &fields));
    // Packet types by number: data is the last of six, feedback the first.
    let data = |row: &&Vec<String>| row[6] == "6" && row[4].parse::<u32>().unwrap() > 68;
    let [end, relay, _] = DELAYS;
    for (rows, told) in [
        (&near, [("1", end), ("2", relay)]),
        (&far, [("2", relay), ("1", end)]),
    ] {
        assert!(rows.len() > 2 * 300_000 / 1432, "{}", rows.len());
        for row in rows {
            assert_eq!((&row[0][..], &row[3][..]), ("17", "0x0000"), "{row:?}");
            let ports = [&row[1], &row[2]].map(|p| p.parse::<u16>().expect("port"));
            let [service, ephemeral] = if row[5] == FAR {
                ports
            } else {
                [ports[1], ports[0]]
            };
            assert!(service == PORT && ephemeral > 1024, "{row:?}");
            assert!(row[9].starts_with("atp"), "{row:?}");
        }
        for row in rows.iter().filter(data) {
            let from_far = usize::from(row[5] == FAR);
            let (hops, delay) = told[from_far];
            assert_eq!((&row[7][..], &row[8][..]), (hops, delay), "{row:?}");
        }
        // MSS 1432.
        assert!(rows.iter().any(|row| row[4] == "1500"));
    }
    let counted = w.hosts[1].stop_daemon();
    assert!(number(&counted["packets"], "forwarded") > 2 * 300_000 / 1432);
    let collector = &counted["handlers"][0];
    assert_eq!(collector["name"], "delay-collector");
    assert!(
        number(collector, "changed") > 2 * 300_000 / 1432,
        "{collector}"
    );
    for i in [0, 2] {
        let counted = w.hosts[i].stop_daemon();
        assert_eq!(counted["unserved"], serde_json::json!({}), "{counted}");
    }
}

/// A program over the kernel that has a UDP port.
fn squatter(host: &Host, port: u16) -> Running {
    let script = format!(
        "import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         s.bind(('', {port}))\nprint('bound', flush=True)\ntime.sleep(600)"
    );
    let mut python = host.command("python3");
    let mut running = host.start(python.args(["-c", &script]));
    let ended = |r: &mut Running| r.child.try_wait().expect("wait").is_some();
    wait_until(Duration::from_secs(20), || {
        running.said().contains("bound") || ended(&mut running)
    });
    running
}

#[test]
fn a_port_belongs_to_who_has_it_first() {
    if !privileged() {
        return;
    }
    let w = row(
        "udp-ports",
        &["--service-port", "7000", "--service-port", "7001"],
        &[],
    );
    let [near, _, far] = &w.hosts[..] else {
        unreachable!("three hosts");
    };
    let refused = |host: &Host, who: &str, port: u16| {
        let mut ended = host.start(&mut play(host, who, port, 1000));
        assert!(!ended.ends().success(), "{}", ended.said());
        ended.said()
    };
    let other = squatter(far, 7000);
    let said = refused(far, "listen", 7000);
    assert!(said.contains("Address already in use"), "{said}");
    other.kill();
    transfer(&w, 7000, 20_000);
    // By then nobody needs it any more, be it after a rest.
    let mut server = far.serve(7001, &mut play(far, "listen", 7001, 1000));
    let late = squatter(far, 7001);
    assert!(
        late.said().contains("Address already in use"),
        "{}",
        late.said()
    );
    let mut client = near.start(&mut play(near, "connect", 7001, 1000));
    client.report();
    server.report();
    let free = wait_until(Duration::from_secs(60), || {
        let said = squatter(far, 7001).said();
        said.contains("bound")
    });
    assert!(free, "given up");
    // Nobody is there: the kernel says so. No node would know the other.
    let said = refused(near, "connect", 7001);
    assert!(said.contains("Connection refused"), "{said}");
    let said = refused(near, "connect", 7002);
    assert!(said.contains("Cannot assign requested address"), "{said}");
    let said = refused(far, "listen", 7002);
    assert!(said.contains("Cannot assign requested address"), "{said}");
}

#[test]
fn without_tcx_a_rule_keeps_the_kernel_off() {
    if !privileged() {
        return;
    }
    let mut w = row("udp-rule", &[], &["--keep-off", "rule"]);
    let forwarded = |w: &World| w.hosts[1].kernel("Ip", "ForwDatagrams");
    let before = forwarded(&w);
    transfer(&w, PORT, 50_000);
    assert_eq!(forwarded(&w), before);
    let counted = w.hosts[1].stop_daemon();
    assert!(number(&counted["packets"], "forwarded") > 2 * 50_000 / 1432);
}

/// The same row, whose ends carry Tahoe without a number in the service's port.
fn beside(test: &str) -> World {
    let mut w = World::row(test);
    let delays = delays(&w);
    let mut sysctl = w.hosts[1].command("sysctl");
    w.hosts[1].run(sysctl.args(["-qw", "net.ipv4.ip_forward=1"]));
    for (i, host) in w.hosts.iter_mut().enumerate() {
        let own: &[&str] = match i {
            1 => &[],
            _ => &[
                "--carrier",
                "raw",
                "--carrier",
                "udp",
                "--no-offload",
                "--udp-tcp",
                "tcp-tahoe",
            ],
        };
        host.start_daemon(&[&["--serve", SERVED, "--delay-dir", &delays[i]], own].concat());
    }
    w
}

/// As the thesis compared them: Tahoe in datagrams of the same port, with id 2 and no number.
#[test]
fn tahoe_goes_beside_atp_in_the_same_port() {
    if !privileged() {
        return;
    }
    let mut w = beside("udp-tahoe");
    let sniffer = Sniffer::on(&w, &w.hosts[1], "eth1");
    let [near, _, far] = &w.hosts[..] else {
        unreachable!("three hosts");
    };
    let tahoe = |host: &Host, who: &str| {
        let args = [who, FAR, "7100", "exchange", "200000"];
        peer(host.over("tcp-tahoe,carrier=udp", "python3"), &args)
    };
    let mut server = far.serve(7100, &mut tahoe(far, "listen"));
    let mut client = near.start(&mut tahoe(near, "connect"));
    transfer(&w, PORT, 50_000);
    let (there, here) = (server.report(), client.report());
    assert_eq!(
        (&there["got"], &here["got"]),
        (&here["sent"], &there["sent"])
    );
    let fields = [
        "udp.payload",
        "udp.srcport",
        "udp.dstport",
        "tcp.dstport",
        "tcp.len",
        "ip.len",
        "wifu.atp.hops",
    ];
    let rows = sniffer.read(&w, &fields);
    let (tcp, atp): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row[0].starts_with("0201"));
    assert!(tcp.len() > 2 * 200_000 / 1436 && atp.len() > 2 * 50_000 / 1432);
    for row in &tcp {
        assert!(row[0].starts_with("02010000"), "{row:?}");
        assert_eq!((&row[1][..], &row[2][..]), ("9438", "9438"), "{row:?}");
        assert!(!row[3].is_empty() && row[6].is_empty(), "{row:?}");
    }
    // MSS 1436, with the timestamps that Tahoe has here.
    assert!(
        tcp.iter()
            .any(|row| (&row[4][..], &row[5][..]) == ("1436", "1500"))
    );
    assert!(
        atp.iter()
            .all(|row| row[0].starts_with("0101") && row[3].is_empty())
    );
    // The relay collected for one, and left the other to the kernel.
    assert_eq!(w.hosts[1].kernel("Ip", "ForwDatagrams"), tcp.len() as u64);
    let counted = w.hosts[1].stop_daemon();
    let forwarded = number(&counted["packets"], "forwarded");
    assert!(
        forwarded >= atp.len() as u64,
        "{forwarded}: feedback goes on for a while"
    );
    assert_eq!(number(&counted["handlers"][0], "packets"), forwarded);
}
