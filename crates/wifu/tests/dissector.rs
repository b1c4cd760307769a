//! `wifu dissector`: by its plug-in tshark reads what our protocols send, as it is declared.

use std::path::Path;
use std::process::{Command, Output};

use wifu_engine::Library;
use wifu_wire::pcapng::{Captured, LinkType, Writer};
use wifu_wire::{Ecn, Flags, Head, IpInfo, Seq, Wire, ipv4};

fn run(program: &str, args: &[&str]) -> Output {
    let output = Command::new(program).args(args).output();
    let output = output.unwrap_or_else(|e| panic!("{program}: {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said}");
    output
}

/// Sequence number and flags of each packet that tshark takes for TCP.
fn segments(capture: &Path, options: &[&str]) -> Vec<String> {
    let capture = capture.display().to_string();
    let fields = [
        "-Y",
        "tcp",
        "-T",
        "fields",
        "-e",
        "tcp.seq",
        "-e",
        "tcp.flags",
    ];
    let args = [options, &["-r", &capture][..], &fields[..]].concat();
    let output = run("tshark", &args);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(str::to_owned).collect()
}

/// A capture as the carrier `raw` writes it: one SYN from port 1000 to 2000 under this number.
fn capture(number: u8, path: &Path) {
    let tcp = [
        3, 232, 7, 208, 0, 0, 0, 9, 0, 0, 0, 0, 0x50, 2, 255, 255, 0, 0, 0, 0,
    ];
    let ip = [
        69, 0, 0, 40, 0, 0, 64, 0, 64, number, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ];
    let mut out = Vec::new();
    let mut writer = Writer::begin(&mut out, "test", 0);
    let interface = writer.interface(&mut out, "raw", LinkType::RAW);
    let packet = Captured {
        interface,
        wall_ns: 1,
        octets: &[ip, tcp].concat(),
        direction: None,
        comment: "",
    };
    writer.packet(&mut out, &packet);
    std::fs::write(path, out).expect("capture");
}

#[test]
fn wireshark_reads_our_protocols_with_it_and_not_without() {
    let wifu = env!("CARGO_BIN_EXE_wifu");
    let dir = std::env::temp_dir().join(format!("wifu-dissector-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("directory");
    let script = dir.join("wifu.lua");
    std::fs::write(&script, run(wifu, &["dissector"]).stdout).expect("script");
    let plug_in = format!("lua_script:{}", script.display());
    let library = wifu_parts::library();
    let tcp = |name: &&String| {
        let composition = library.expand(name).expect("protocol");
        composition.wire == "tcp"
    };
    for name in library.protocols().iter().filter(tcp) {
        let path = dir.join(name);
        capture(library.expand(name).expect("protocol").number, &path);
        assert_eq!(
            segments(&path, &[]),
            [""; 0],
            "{name}: nobody knows the number"
        );
        assert_eq!(segments(&path, &["-X", &plug_in]), ["0\t0x0002"], "{name}");
        let called = ["-r", &path.display().to_string(), "-X", &plug_in];
        let filter = format!("wifu.protocol == \"{name}\"");
        let shown = ["-T", "fields", "-e", "_ws.col.Protocol", "-Y", &filter];
        let output = run("tshark", &[&called[..], &shown[..]].concat());
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), *name);
    }
    std::fs::remove_dir_all(dir).expect("removal");
}

/// What the book advises: of a capture of several hops, one interface in a file of its own.
#[test]
fn one_interface_by_itself_has_no_false_retransmissions() {
    let dir = std::env::temp_dir().join(format!("wifu-advice-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("directory");
    let (all, one) = (dir.join("run.pcapng"), dir.join("n1.pcapng"));
    let (all, one) = (all.display().to_string(), one.display().to_string());
    let words = format!("sim --topo linear,4 --protocol tcp-newreno -n 100k --pcap {all}");
    let said = run(
        env!("CARGO_BIN_EXE_wifu"),
        &words.split(' ').collect::<Vec<_>>(),
    );
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("100 kB"), "{said}");
    let again = |file: &str| {
        let output = run("tshark", &["-r", file, "-Y", "tcp.analysis.retransmission"]);
        String::from_utf8_lossy(&output.stdout).lines().count()
    };
    assert!(again(&all) > 50, "forwarded copies");
    let filter = "frame.interface_name == \"n1-wlan0\"";
    run("tshark", &["-r", &all, "-Y", filter, "-w", &one]);
    assert_eq!(again(&one), 0);
    std::fs::remove_dir_all(dir).expect("removal");
}

/// Composition files with shims of their own: two under one number, told apart by their identity.
const SHIMS: &str = "[protocol.first-own]\nextends = \"tcp-reno\"\nwire = \"shim\"\nnumber = 253\n\
    [protocol.first_own]\nextends = \"tcp-sack\"\nwire = \"shim\"\nnumber = 253\n\
    [protocol.shimmed]\nextends = \"tcp-reno\"\nnumber = 208\n";

/// An IP packet with this in it.
fn packet(proto: u8, body: &[u8]) -> Vec<u8> {
    let info = IpInfo {
        src: [10, 0, 0, 1].into(),
        dst: [10, 0, 0, 2].into(),
        proto,
        ttl: 64,
        ecn: Ecn::NotEct,
    };
    let mut out = vec![0; ipv4::HEADER];
    out.extend_from_slice(body);
    ipv4::emit(&info, body.len(), &mut out);
    out
}

/// What the codec makes of a header with these words set, before `payload` zeros.
fn segment(wire: &dyn Wire, head: &Head, words: &[(&str, u32)], payload: usize) -> Vec<u8> {
    let (mut head, mut out) = (head.clone(), vec![0; 512]);
    for (name, value) in words {
        head.set(wire.place(name).expect("it is declared").word, *value);
    }
    let length = wire.emit(&head, &mut out) + payload;
    out.truncate(length);
    out
}

/// A folder with the plug-in for the library and [`SHIMS`], taken away at the end.
struct Shark(std::path::PathBuf);

impl Shark {
    fn new(test: &str) -> Shark {
        let name = format!("wifu-dissector-{test}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).expect("directory");
        let file = dir.join("shims.toml");
        std::fs::write(&file, SHIMS).expect("file");
        let file = file.display().to_string();
        let script = run(env!("CARGO_BIN_EXE_wifu"), &["dissector", "--file", &file]).stdout;
        std::fs::write(dir.join("wifu.lua"), script).expect("script");
        Shark(dir)
    }

    /// What tshark says of each of these packets, of which it sees `snap` octets (0: all).
    fn read(&self, packets: &[Vec<u8>], snap: u32, fields: &[&str]) -> Vec<Vec<String>> {
        let (path, mut out) = (self.0.join("capture"), Vec::new());
        let mut writer = Writer::begin(&mut out, "test", snap);
        let interface = writer.interface(&mut out, "raw", LinkType::RAW);
        for octets in packets {
            let packet = Captured {
                interface,
                wall_ns: 1,
                octets,
                direction: None,
                comment: "",
            };
            writer.packet(&mut out, &packet);
        }
        std::fs::write(&path, out).expect("capture");
        let plug_in = format!("lua_script:{}", self.0.join("wifu.lua").display());
        let path = path.display().to_string();
        let mut args = vec!["-X", &plug_in, "-r", &path, "-T", "fields"];
        args.extend(fields.iter().flat_map(|f| ["-e", f]));
        let output = run("tshark", &args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("Lua") && !said.contains("wifu"), "{said}");
        let text = String::from_utf8_lossy(&output.stdout);
        let rows = text.lines().map(|l| l.split('\t').map(str::to_owned));
        rows.map(Iterator::collect).collect()
    }
}

impl Drop for Shark {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An ATP feedback with a hole, and data.
fn atp() -> [Vec<u8>; 2] {
    let codec = (wifu_wire::atp::WIRE.make)();
    let mut head = Head::default();
    head.sport = 1000;
    head.dport = 9438;
    head.conn_id = 0xC0FF_EE00;
    head.seq = Seq(4_000_000_000);
    head.ack = Some(Seq(7));
    head.window = 511 << 8;
    head.ts = Some(12);
    head.ts_echo = 34;
    let data = segment(&*codec, &head, &[("hops", 3), ("ds", 2_000)], 100);
    head.push_range((Seq(10), Seq(20)));
    let words = [("feedback", 1), ("idle", 1), ("delay", 2_044)];
    [segment(&*codec, &head, &words, 0), data]
}

#[test]
fn atp_is_read_word_by_word_under_its_number_and_over_udp() {
    let shark = Shark::new("atp");
    let segments = atp();
    let packets: Vec<_> = [219, 17]
        .iter()
        .flat_map(|number| segments.iter().map(|s| packet(*number, s)))
        .collect();
    let of = |names: &str| -> Vec<String> {
        let own = |n| format!("wifu.atp.{n}");
        names.split(' ').map(own).collect()
    };
    let names = of(
        "packet.type packet.class packet.composition idle hops delay ds conn_id seq ack \
                    window ts ts_echo range.start range.end holes",
    );
    let mut fields: Vec<&str> = names.iter().map(String::as_str).collect();
    fields.extend(["_ws.col.Protocol", "_ws.col.Info"]);
    // Types and classes by number: feedback (3) is the first, data (0) the last of six.
    let feedback = "1 3 atp 1 0 2044 0 0xc0ffee00 4000000000 7 511  34 10 20 8 atp";
    let data = "6 0 atp 0 3 0 2000 0xc0ffee00 4000000000 7 511 12    0 atp";
    let mut packets = packets;
    // UDP has a length of its own.
    for p in &mut packets {
        let length = (p.len() - ipv4::HEADER) as u16;
        p[24..26].copy_from_slice(&length.to_be_bytes());
    }
    let rows = shark.read(&packets, 0, &fields);
    assert_eq!(rows.len(), 4);
    for (row, (values, info)) in rows.iter().zip(
        [
            (feedback, "feedback seq=4000000000 ack=7 len=0"),
            (data, "data seq=4000000000 ack=7 len=100"),
        ]
        .iter()
        .cycle(),
    ) {
        assert_eq!(row[..17].join(" "), *values);
        assert!(row[17].ends_with(info), "{row:?}");
    }
}

#[test]
fn the_shim_of_a_composition_is_read_by_its_identity() {
    let shark = Shark::new("shim");
    let library = wifu_parts::library().merge(Library::parse(SHIMS).expect("file"));
    let packets: Vec<_> = ["first-own", "first_own"]
        .iter()
        .map(|name| {
            let b = library.resolve(name, &wifu_parts::registry()).expect(name);
            let mut head = Head::default();
            head.sport = 5;
            head.dport = 6;
            head.flags = Flags::SYN;
            head.seq = Seq(77);
            packet(b.number, &segment(&*b.wire, &head, &[], 0))
        })
        .collect();
    let fields = [
        "wifu.shim.first_own.seq",
        "wifu.shim.first_own.syn",
        "wifu.shim.first_own.has_ack",
        "wifu.shim.first_own_2.seq",
        "_ws.col.Protocol",
        "_ws.col.Info",
    ];
    let rows = shark.read(&packets, 0, &fields);
    let info = "5 > 6 syn seq=77 len=0";
    assert_eq!(rows[0], ["77", "1", "0", "", "first-own", info]);
    assert_eq!(rows[1], ["", "", "", "77", "first_own", info]);
}

/// A TCP segment behind a delay shim.
fn shimmed() -> Vec<u8> {
    let mut head = Head::default();
    head.sport = 1000;
    head.dport = 2000;
    head.flags = Flags::SYN;
    head.seq = Seq(9);
    let plain = packet(208, &segment(&wifu_wire::tcp::Tcp, &head, &[], 0));
    let mut packet =
        wifu_core::shim::insert(&plain, wifu_core::shim::DELAY, &[0; 8]).expect("room");
    let place = |word| wifu_core::shim::DELAY_FORMAT.place(word).expect("declared");
    place("max_delay").write(&mut packet[20..], 1234);
    place("count").write(&mut packet[20..], 2);
    packet
}

#[test]
fn what_follows_a_delay_shim_is_read_as_what_it_is() {
    let shark = Shark::new("delay");
    let fields = [
        "wifu.delay_shim.max_delay",
        "wifu.delay_shim.count",
        "wifu.delay_shim.inner",
        "tcp.srcport",
        "tcp.flags",
        "_ws.col.Info",
    ];
    let rows = shark.read(&[shimmed()], 0, &fields);
    assert_eq!(rows[0][..5], ["1234", "2", "208", "1000", "0x0002"]);
    assert!(rows[0][5].starts_with("delay-shim, "), "{rows:?}");
}

#[test]
fn strange_and_cut_packets_break_nothing() {
    let shark = Shark::new("strange");
    let [feedback, data] = atp();
    let mut other = packet(219, &data);
    other[28] = 9;
    let mut many = packet(219, &feedback);
    many[32..34].copy_from_slice(&u16::MAX.to_be_bytes());
    // Shims in shims, to no end.
    let mut nested = shimmed();
    for _ in 0..300 {
        let plain = nested.clone();
        nested = wifu_core::shim::insert(&plain, wifu_core::shim::DELAY, &[0; 8]).expect("room");
    }
    let fields = [
        "wifu.atp.seq",
        "wifu.atp.delay",
        "wifu.delay_shim.inner",
        "_ws.col.Protocol",
        "_ws.malformed",
        "_ws.expert",
    ];
    let rows = shark.read(&[other, many, nested, packet(219, &[1])], 0, &fields);
    assert_eq!(rows[0], ["", "", "", "IPv4", "", ""], "of another kind");
    assert_eq!(rows[1], ["4000000000", "2044", "", "atp", "", ""]);
    assert_eq!(rows[2][2], "253,253,253,253,253");
    assert_eq!(rows[2][4..], ["", ""]);
    assert_eq!(rows[3], ["", "", "", "IPv4", "", ""]);
    // Cut in the middle of each header: what is there is shown.
    let whole = [packet(219, &feedback), shimmed()];
    for snap in [20, 21, 30, 39, 40, 47, 48, 50, 77, 83] {
        let rows = shark.read(&whole, snap, &fields);
        let there = |octets, value: &str| match snap < octets {
            true => String::new(),
            false => value.to_owned(),
        };
        assert_eq!(rows[0][0], there(20 + 8 + 12, "4000000000"), "{snap}");
        assert_eq!(rows[0][1], there(20 + 8 + 20, "2044"), "{snap}");
        assert_eq!(rows[0][5], "", "{snap}");
    }
}

/// A datagram as the carrier `udp` sends it, from this port to the other end's.
fn over_udp(ports: [u16; 2], first: &[u8], segment: &[u8]) -> Vec<u8> {
    let length = (8 + first.len() + segment.len()) as u16;
    let [from, to] = ports.map(u16::to_be_bytes);
    let udp = [&from[..], &to, &length.to_be_bytes(), &[0, 0]].concat();
    packet(17, &[&udp[..], first, segment].concat())
}

#[test]
fn what_the_carrier_over_udp_brings_is_read_as_what_it_is() {
    let shark = Shark::new("udp");
    let mut head = Head::default();
    head.sport = 1000;
    head.dport = 2000;
    head.flags = Flags::SYN;
    head.seq = Seq(9);
    let segment = segment(&wifu_wire::tcp::Tcp, &head, &[], 0);
    let number = 208;
    let same = [9438, 9438];
    // ATP under its number has ports of its own in front, unlike that at the port.
    let [feedback, _] = atp();
    let atp_in_udp = over_udp([9438, 1000], &[], &feedback[8..]);
    let header = wifu_wire::over_udp::header;
    let packets = [
        over_udp(same, &header(number), &segment),
        over_udp([40_000, 9438], &header(number), &segment),
        over_udp(same, &header(219), &feedback),
        atp_in_udp,
        over_udp(same, &header(200), &segment),
        over_udp(same, &[2, 9, 0, number], &segment),
        over_udp(same, &header(number)[..3], &[]),
        over_udp(same, &header(number), &[]),
    ];
    let fields = [
        "wifu.over_udp.inner",
        "tcp.srcport",
        "tcp.flags",
        "wifu.atp.seq",
        "_ws.malformed",
    ];
    let rows = shark.read(&packets, 0, &fields);
    let seq = "4000000000";
    assert_eq!(rows[0], ["208", "1000", "0x0002", "", ""]);
    assert_eq!(rows[1], rows[0]);
    assert_eq!(rows[2], ["219", "", "", seq, ""]);
    assert_eq!(rows[3], ["", "", "", seq, ""]);
    assert_eq!(rows[4], ["200", "", "", "", ""], "nobody's number");
    assert_eq!(rows[5], [""; 5], "another version");
    assert_eq!(rows[6], [""; 5], "cut short");
    assert_eq!(rows[7], ["208", "", "", "", ""], "without a segment");
    let info = shark.read(&packets[..1], 0, &["_ws.col.Info"]);
    assert!(info[0][0].starts_with("over-udp, "), "{info:?}");
}
