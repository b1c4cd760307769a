//! `wifu sim` and `wifu trace` as a user runs them. Captures are read by tshark.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value as Json;

fn wifu(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wifu"));
    command.args(words).output().expect("wifu runs")
}

fn sim(words: &str) -> Output {
    let words: Vec<&str> = std::iter::once("sim")
        .chain(words.split_whitespace())
        .collect();
    wifu(&words)
}

fn printed(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout.clone()).expect("text")
}

#[test]
fn a_node_that_splits_has_its_rows_and_its_place_in_json() {
    let words = "--topo linear,4 --set TB-W9 --protocol tcp-newreno -n 100k";
    let text = printed(&sim(&format!("{words} --split n2,far=tcp-cubic --nodes")));
    let row = |half: &str| {
        let mut lines = text
            .lines()
            .map(|l| l.split_whitespace().collect::<Vec<_>>());
        lines.any(|w| w.contains(&half))
    };
    assert!(
        row("near") && row("far") && text.contains("accepted"),
        "{text}"
    );
    let json = printed(&sim(&format!("{words} --split n2,n3 --json")));
    let json: Json = serde_json::from_str(&json).expect("JSON");
    let nodes = json["wifu"]["nodes"].as_array().expect("nodes");
    let joined = nodes.iter().map(|n| n["split"]["joined"].as_u64());
    assert_eq!(joined.collect::<Vec<_>>(), [None, Some(1), Some(1), None]);
    let wrong = sim(&format!("{words} --split n2,father=tcp-cubic"));
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(said.contains("split.1.father: unknown key"), "{said}");
}

/// Phase effects: over wires without variation nothing is random but when flows begin.
#[test]
fn flows_that_keep_step_at_a_queue_are_told() {
    let folder = Folder::new("step");
    let said = |more: &str, ends: [&str; 2], flow: &str| {
        let wire = |a: &str, rate: &str| {
            let more = if a == "r" { "" } else { more };
            format!(
                "{{ a = \"{a}\", b = \"{}\", rate = \"{rate}\", delay = \"5ms\", queue = 10{more} }}",
                if a == "r" { "d" } else { "r" }
            )
        };
        let nodes =
            ["a", "b", "r", "d"].map(|n| format!("{{ name = \"{n}\", wired_only = true }}"));
        let wires = [
            wire("a", "100Mb/s"),
            wire("b", "100Mb/s"),
            wire("r", "5Mb/s"),
        ];
        let one = |ends: &str| {
            let (from, to) = ends.split_once('>').expect("two ends");
            format!("[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nprotocol = \"tcp-sack\"\n")
        };
        let text = format!(
            "topology.node = [{}]\ntopology.wire = [{}]\nstop.time = \"6s\"\n{}{}{flow}",
            nodes.join(", "),
            wires.join(", "),
            one(ends[0]),
            one(ends[1])
        );
        let file = folder.file("step.toml");
        std::fs::write(&file, text).expect("a file");
        let printed = printed(&sim(&format!("--scenario {file}")));
        printed.contains("flows keep step at a full queue")
    };
    let (both, talk) = (["a>d", "b>d"], "[[flow]]\nfrom = \"a\"\nto = \"d\"\n");
    assert!(said("", both, ""));
    assert!(said(", variation = \"1ms\"", both, ""));
    assert!(!said(", variation = \"3ms\"", both, ""));
    assert!(!said(", loss = 0.01", both, ""));
    assert!(
        !said("", ["a>d", "d>b"], ""),
        "no wire that data of both wait for"
    );
    // The second flow begins by its seed, and less than a packet's time of it is none.
    assert!(!said("", both, "jitter = \"1s\"\n"));
    assert!(said("", both, "jitter = \"1ms\"\n"));
    let udp = format!("{talk}protocol = \"udp\"\nrate = \"50k\"\n");
    assert!(said("", both, &udp));
    let web = format!("{talk}protocol = \"tcp-sack\"\napp = \"http\"\npause = \"100ms\"\n");
    assert!(!said("", both, &web));
}

#[test]
fn datagrams_that_always_meet_or_never_are_told() {
    let said = |first: &str, second: &str| {
        let flows = format!("--flow n1:n2:udp,{first} --flow n3:n2:udp,{second} --stop 1");
        printed(&sim(&format!("--topo linear,3 {flows}")))
            .contains("leave at one rate, or a multiple")
    };
    assert!(said("rate=500k", "rate=500k"));
    assert!(said("rate=500k", "rate=500k,start=5ms"));
    assert!(!said("rate=500k", "rate=400k"));
    assert!(!said("rate=500k", "rate=500k,jitter=24ms"));
    assert!(said("rate=500k", "rate=500k,jitter=1ms"));
    assert!(said("rate=500k", "rate=250k"));
    // Queues that do not empty leave no phase.
    assert!(!said("rate=8M,time=500ms", "rate=8M,time=500ms"));
}

#[test]
fn what_is_there_in_vain_is_said_once() {
    let folder = Folder::new("vain");
    let file = folder.file("vain.toml");
    let flow = |from: &str, to: &str| {
        format!(
            "[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\napp = \"file\"\nbytes = \"20k\"\n\
             protocol = \"tcp-tahoe,profile=rfc-modern\"\n"
        )
    };
    let file_text = format!(
        "[topology]\nwords = \"linear,3\"\nset = \"TB-W9\"\n[[handler]]\nuse = \"drop\"\n\
         nodes = [\"n1\"]\nhooks = [\"forward\"]\n[[handler]]\nuse = \"null\"\n{}{}",
        flow("n1", "n2"),
        flow("n2", "n3")
    );
    std::fs::write(&file, &file_text).expect("a scenario");
    let ran = sim(&format!("--scenario {file} --nodes"));
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    let notes: Vec<&str> = said.lines().filter(|l| l.starts_with("Note: ")).collect();
    assert_eq!(
        notes,
        [
            "Note: tcp-tahoe: profile rfc-modern sets hystart, which nothing here takes",
            "Note: the handler drop was asked about no packet: none here was for it"
        ],
        "{said}"
    );
    let text = printed(&ran);
    let row = text
        .lines()
        .find(|l| l.contains("(none)"))
        .expect("its row");
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words, ["(none)", "drop", "0"], "{text}");
    let other = file_text.replace("use = \"null\"", "use = \"tpa-shim\"");
    std::fs::write(&file, other).expect("a scenario");
    let ran = sim(&format!("--scenario {file}"));
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(!ran.status.success() && ran.stdout.is_empty());
    assert!(
        said.contains("handler.2: tpa-shim: no packet is for it"),
        "{said}"
    );
}

fn outcome(words: &str) -> Json {
    let text = printed(&sim(&format!("{words} --json")));
    serde_json::from_str(&text).expect("JSON")
}

/// A folder that is removed with everything in it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("wifu-sim-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Folder(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What tshark says of a file: the fields of each packet that passes the filter.
fn tshark(file: &str, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args([
        "-n",
        "-r",
        file,
        "-Y",
        filter,
        "-T",
        "fields",
        "-E",
        "separator=|",
    ]);
    command.args(["-o", "wlan.check_checksum:TRUE"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command
        .output()
        .expect("tshark is there: scripts/setup.sh test installs it");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).expect("text");
    let row = |line: &str| line.split('|').map(String::from).collect();
    text.lines().map(row).collect()
}

const CHAIN: &str = "--topo linear,4 --set TB-A --protocol tcp-sack -n 200k";

#[test]
fn the_report_says_how_a_transport_does_and_why() {
    let text = printed(&sim(&format!("{CHAIN} --nodes --links")));
    for part in [
        "n1 > n4",
        "tcp-sack",
        "200 kB",
        "What held the sender of flow 1",
        "Flow 1, data, time per packet",
        "Flow 1, acknowledgements, time per packet",
        "contention",
        "collision with",
        "SNR (dB)",
        "medium busy",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn the_same_scenario_gives_the_same_octets_however_it_is_told() {
    let folder = Folder::new("same");
    let words = format!("{CHAIN} --seed 5 --run 3 radio.attempts=4");
    let first = printed(&sim(&format!("{words} --json")));
    assert_eq!(first, printed(&sim(&format!("{words} --json"))));
    let file = folder.file("scenario.toml");
    let scenario = printed(&sim(&format!("{words} --print-scenario")));
    std::fs::write(&file, scenario).expect("written");
    let second = outcome(&format!("--scenario {file}"));
    let first: Json = serde_json::from_str(&first).expect("JSON");
    assert_eq!(first["wifu"]["trace_hash"], second["wifu"]["trace_hash"]);
    assert_eq!(first["wifu"]["flows"], second["wifu"]["flows"]);
    let other = outcome(&format!("{CHAIN} --seed 5 --run 4 radio.attempts=4"));
    assert_ne!(first["wifu"]["trace_hash"], other["wifu"]["trace_hash"]);
    // Looking on changes nothing.
    let (pcap, frames) = (folder.file("x.pcapng"), folder.file("x.bin"));
    let watched = outcome(&format!("{words} --pcap-radio {pcap} --frames {frames}"));
    assert_eq!(first["wifu"]["trace_hash"], watched["wifu"]["trace_hash"]);
}

#[test]
fn a_set_whose_hosts_take_their_time_is_told_of() {
    let folder = Folder::new("py");
    let words = "--topo linear,2 --set TB-B --protocol tcp-sack -n 20k";
    let note = "Note: the set says host.profile=py: each packet that a host sends takes it 1.2 ms, \
                and each that it receives 0.6 ms";
    let report = printed(&sim(words));
    assert!(report.starts_with(note), "{report}");
    let without = printed(&sim(&format!("{words} host.profile=off")));
    assert!(!without.contains("host.profile"), "{without}");
    let scenario = printed(&sim(&format!("{words} --print-scenario")));
    assert!(scenario.contains("profile = \"py\""), "{scenario}");
    let file = folder.file("scenario.toml");
    std::fs::write(&file, scenario).expect("written");
    let (one, two) = (outcome(words), outcome(&format!("--scenario {file}")));
    assert_eq!(one["wifu"]["trace_hash"], two["wifu"]["trace_hash"]);
    // Datagrams cost hosts nothing.
    let datagrams =
        "--topo linear,2 --set TB-B --flow n1:n2:udp,size=500 --stop 1s --print-scenario";
    let datagrams = printed(&sim(datagrams));
    assert!(!datagrams.contains("profile = "), "{datagrams}");
}

#[test]
fn series_by_name_are_of_the_flow_that_the_words_make() {
    let file = std::env::temp_dir().join(format!("series-{}.csv", std::process::id()));
    let words = format!(
        "--topo linear,3 --protocol tcp-cubic -n 200k --trace {} --series flow.1.cwnd,flow.1.cubic.w_max",
        file.display()
    );
    let output = sim(&words);
    let csv = std::fs::read_to_string(&file);
    let _ = std::fs::remove_file(&file);
    printed(&output);
    let csv = csv.expect("it was written");
    let of = |name: &str| csv.lines().filter(|l| l.contains(name)).count();
    assert!(
        of(",flow.1.cwnd,") > 5 && of(",flow.1.cubic.w_max,") > 5,
        "{csv}"
    );
    let wrong = sim(&words.replace("flow.1.cwnd", "flow.2.cwnd"));
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(said.contains("numbered from 1 to 1"), "{said}");
}

#[test]
fn intervals_add_up_to_what_was_delivered() {
    let all = outcome(&format!("{CHAIN} -i 0.1"));
    let rows = all["intervals"].as_array().expect("a list");
    assert!(rows.len() > 3, "{} intervals", rows.len());
    let bytes = |row: &Json| row["streams"][0]["bytes"].as_u64().expect("a number");
    let sum: u64 = rows.iter().map(bytes).sum();
    assert_eq!(sum, 200_000);
    let arrived = |row: &Json| row["sum"]["wifu"]["received"]["bytes"].as_u64();
    assert_eq!(rows.iter().filter_map(arrived).sum::<u64>(), 200_000);
    assert!(
        rows.iter().any(|r| arrived(r) != Some(bytes(r))),
        "what is sent in an interval need not arrive in it"
    );
    assert!(rows.iter().all(|r| r["streams"][0]["sender"] == true));
    let again = |row: &Json| row["sum"]["retransmits"].as_u64();
    let again: u64 = rows.iter().filter_map(again).sum();
    assert_eq!(all["end"]["sum_sent"]["retransmits"], again);
    assert_eq!(all["end"]["sum_received"]["bytes"], 200_000);
    assert_eq!(all["end"]["sum_sent"]["bytes"], 200_000);
    for sum in ["sum_sent", "sum_received"] {
        let number = |key: &str| all["end"][sum][key].as_f64().expect("a number");
        let rate = number("bytes") * 8.0 / number("seconds");
        assert!(
            (number("bits_per_second") / rate - 1.0).abs() < 1e-9,
            "{sum}"
        );
    }
    let again: u64 = rows
        .iter()
        .map(|row| row["streams"][0]["retransmits"].as_u64().expect("a number"))
        .sum();
    assert_eq!(all["wifu"]["flows"][0]["retransmissions"], again);
    assert_eq!(all["wifu"]["substrate"], "sim");
}

/// Scenarios in which a flow's last segments leave in different ways.
const ENDINGS: &[(&str, &str)] = &[
    ("--set TB-W3", "n1:n4:tcp-sack,bytes=500k"),
    ("--set TB-A", "n1:n2:tcp-newreno,bytes=200k"),
    ("--set TB-A", "n1:n4:tcp-newreno,bytes=50k"),
    ("--set TB-B", "n1:n4:tcp-tahoe,bytes=200k"),
    ("--set TB-W9", "n2:n4:tcp-cubic,bytes=200k"),
    ("", "n1:n3:tcp-sack,time=2s"),
    ("", "n1:n3:tcp-sack"),
    ("", "n1:n3:tcp-sack,rate=1M,on=1s,off=1s"),
    ("", "n1:n3:tcp-sack,pause=0.1s,count=5,scale=20k"),
    ("", "n3:n1:tcp-sack,request=200,response=30k,count=5"),
    ("", "n1:n3:udp,rate=1M,time=2s"),
    ("", "n1:n3:udp,bytes=100k"),
    ("--link rate_6mbit_delay_10ms", "n1:n3:tcp-sack,bytes=1M"),
    (
        "--link rate_6mbit_delay_10ms_loss_5%",
        "n1:n3:tcp-reno,pause=0.1s,count=5,scale=20k",
    ),
    (
        "--link rate_6mbit_loss_2%",
        "n1:n4:tcp-sack,bytes=100k --flow n4:n1:tcp-newreno,bytes=80k --flow n2:n3:udp,bytes=100k",
    ),
];

#[test]
fn intervals_add_up_however_a_flow_ends() {
    for (network, flows) in ENDINGS {
        let words = format!("--topo linear,4 {network} --flow {flows} --stop 8s --json");
        // Of `--link`, whose words are one argument, blanks are underscores here.
        let words: Vec<String> = words
            .split_whitespace()
            .map(|w| match w.starts_with("rate_") {
                true => w.replace('_', " "),
                false => w.to_owned(),
            })
            .collect();
        let all: Vec<&str> = std::iter::once("sim")
            .chain(words.iter().map(String::as_str))
            .collect();
        let all: Json = serde_json::from_str(&printed(&wifu(&all))).expect("JSON");
        let rows = all["intervals"].as_array().expect("a list");
        let streams = all["end"]["streams"].as_array().expect("a list");
        for (i, stream) in streams.iter().enumerate() {
            let sum = |of: &dyn Fn(&Json) -> Option<u64>| -> u64 {
                rows.iter().filter_map(|r| of(&r["streams"][i])).sum()
            };
            let sent = sum(&|row| row["bytes"].as_u64());
            assert_eq!(stream["sender"]["bytes"], sent, "{network} {flows}");
            let arrived = sum(&|row| row["wifu"]["received"]["bytes"].as_u64());
            assert_eq!(stream["receiver"]["bytes"], arrived, "{network} {flows}");
            assert!(0 < arrived && arrived <= sent, "{network} {flows}");
            let key = ["retransmits", "packets"][usize::from(stream["udp"].is_object())];
            let again = sum(&|row| row[key].as_u64());
            assert_eq!(stream["sender"][key], again, "{network} {flows}: {key}");
        }
    }
}

#[test]
fn datagrams_that_were_lost_were_sent() {
    let link = ["sim", "--topo", "minimal", "--link", "rate 6mbit limit 10"];
    let flow = ["--flow", "n1:n2:udp,rate=12M,bytes=1M", "--json"];
    let all: Json =
        serde_json::from_str(&printed(&wifu(&[&link[..], &flow[..]].concat()))).expect("JSON");
    let stream = &all["end"]["streams"][0];
    let number = |side: &str, key: &str| stream[side][key].as_u64().expect("a number");
    assert_eq!(number("sender", "bytes"), 1_000_000);
    assert_eq!(number("sender", "packets"), 1_000_000_u64.div_ceil(1472));
    assert_eq!(number("udp", "packets"), number("sender", "packets"));
    let (lost, packets) = (number("udp", "lost_packets"), number("udp", "packets"));
    assert!(
        lost * 3 > packets && lost * 2 < packets * 2,
        "{lost} of {packets}"
    );
    let bytes = number("receiver", "bytes");
    assert!(
        bytes < 700_000 && bytes.abs_diff((packets - lost) * 1472) < 1472,
        "{bytes}"
    );
    assert!(stream["udp"]["jitter_ms"].as_f64().expect("a number") > 0.0);
    let rows = all["intervals"].as_array().expect("a list");
    let seen: u64 = rows
        .iter()
        .filter_map(|r| r["sum"]["wifu"]["received"]["packets"].as_u64())
        .sum();
    assert_eq!(seen, packets - lost);
    let sent = rows.iter().filter_map(|r| r["sum"]["packets"].as_u64());
    let all_sent = &all["end"]["sum_sent"]["packets"];
    assert_eq!(*all_sent, sent.sum::<u64>());
    assert_eq!(all["start"]["test_start"]["target_bitrate"], 12_000_000);
}

#[test]
fn the_report_names_hidden_stations_and_waiting_for_timeouts() {
    // Over six hops of TB-A interference reaches further than carrier sense.
    let text = printed(&sim(
        "--topo linear,7 --set TB-A --protocol tcp-newreno -n 200k",
    ));
    let line = |start: &str| {
        let found = text.lines().find(|l| l.starts_with(start));
        found.unwrap_or_else(|| panic!("no line begins with {start}:\n{text}"))
    };
    let why = line("Why ");
    assert!(why.contains("the sender does not sense (hidden; "), "{why}");
    assert!(why.contains("n4 during n1 > n2: "), "{why}");
    assert!(
        line("It waited ").ends_with(" retransmission timeouts"),
        "{text}"
    );
    // With all in range of each other nobody is hidden.
    let near = printed(&sim(
        "--topo linear,3 --set TB-W3 --protocol tcp-newreno -n 1M",
    ));
    assert!(!near.contains("hidden"), "{near}");
}

/// Who starves makes few attempts: a burst of others that failed by noise while nobody waited says
/// nothing of what made it wait.
#[test]
fn what_failed_while_a_sender_waited_counts_by_how_long_it_did() {
    let words = "--topo linear,6 --set TB-A --flow n1:n3:tcp-newreno --flow n6:n4:tcp-newreno \
                 --stop 20";
    let text = printed(&sim(words));
    let begin = "While flow 1 waited, attempts on its links failed by: ";
    let line = text.lines().find_map(|l| l.strip_prefix(begin));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    assert!(
        line.starts_with("a station was on the air that the sender does not sense ("),
        "{line}"
    );
    let told = printed(&sim(&format!("{words} --json")));
    let all: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let flow = &all["wifu"]["why"]["flows"][0];
    let waited = flow["waited"].as_object().expect("it waited");
    let sum: f64 = waited.values().filter_map(|v| v.as_f64()).sum();
    let told = all["wifu"]["flows"][0]["timeout_s"].as_f64();
    assert!((sum - told.expect("it has a timer")).abs() < 1e-6, "{sum}");
    let hidden = waited["hidden"].as_f64().expect("some");
    assert!(hidden > 0.8 * sum && sum > 15.0, "{waited:?}");
    // By attempts it would be noise.
    let links = &all["wifu"]["why"]["links"];
    let causes = links.as_array().expect("links").iter();
    let first = causes
        .clone()
        .find(|l| (&l["from"], &l["to"]) == (&"n1".into(), &"n2".into()));
    let causes = &first.expect("n1 > n2")["causes"];
    assert!(
        causes["noise"].as_u64() > causes["hidden"].as_u64(),
        "{causes}"
    );
}

/// A connection that is split waits for what its first half lost: what fails behind the splitter
/// makes nobody wait there.
#[test]
fn what_fails_behind_a_splitter_is_no_cause_of_what_the_first_half_waits_for() {
    let folder = Folder::new("halves");
    let file = folder.file("s.toml");
    let cut = |at: &str, a: &str, b: &str| {
        format!("[[event]]\nat = \"{at}\"\ncut = [\"{a}\", \"{b}\"]\n")
    };
    let text = |ends: [&str; 2]| {
        format!(
            "[topology]\nwords = \"linear,4,snr=40\"\n[stop]\ntime = \"8s\"\n[[split]]\n\
             nodes = [\"n3\"]\n[[flow]]\nfrom = \"{}\"\nto = \"{}\"\n\
             protocol = \"tcp-newreno\"\n{}{}",
            ends[0],
            ends[1],
            cut("2s", "n1", "n2"),
            cut("3s", "n3", "n4")
        )
    };
    for (ends, near) in [(["n1", "n4"], ["n1", "n2"]), (["n4", "n1"], ["n4", "n3"])] {
        std::fs::write(&file, text(ends)).expect("a file");
        let told = outcome(&format!("--scenario {file}"));
        let waited = told["wifu"]["why"]["flows"][0]["waited"].as_object();
        let causes: Vec<&String> = waited.expect("it waited").keys().collect();
        let gone = causes.iter().any(|cause| cause.contains("cut"));
        assert!(gone, "the link {near:?} was cut: {causes:?}");
    }
    // The far half has noise all the time, and the near one a link that is cut.
    let spoiled = text(["n1", "n4"]).replace(&cut("3s", "n3", "n4"), "");
    std::fs::write(
        &file,
        spoiled.replace("words = \"linear,4,snr=40\"", "chain.snr_db = [40, 40, 8]"),
    )
    .expect("a file");
    let told = outcome(&format!("--scenario {file}"));
    let waited = told["wifu"]["why"]["flows"][0]["waited"].as_object();
    let waited = waited.expect("it waited");
    assert!(
        !waited.contains_key("noise"),
        "that is of the far half: {waited:?}"
    );
}

/// The last wait ends with the connection, and is the longest.
#[test]
fn what_a_connection_waited_that_gives_up_has_a_cause_too() {
    let folder = Folder::new("waited");
    let scenario = folder.file("s.toml");
    let flow = |more: &str| {
        format!("[[flow]]\nfrom = \"n1\"\nto = \"n3\"\nprotocol = \"tcp-newreno\"\n{more}\n")
    };
    let cut = "[topology]\nwords = \"linear,3\"\n[[event]]\nat = \"2s\"\ncut = [\"n2\", \"n3\"]\n";
    let [file, http] = [
        flow("app = \"file\"\nbytes = \"50M\""),
        flow("app = \"http\"\npause = 1"),
    ];
    for flows in [file, http] {
        let text = format!("{cut}{flows}[stop]\ntime = \"1200s\"\n");
        std::fs::write(&scenario, text).expect("written");
        let told = sim(&format!("--scenario {scenario} --json")).stdout;
        let all: Json = serde_json::from_slice(&told).expect("JSON");
        let waited = &all["wifu"]["why"]["flows"][0]["waited"];
        let waited = waited.as_object().expect("it waited");
        let sum: f64 = waited.values().filter_map(|v| v.as_f64()).sum();
        let told = all["wifu"]["flows"][0]["timeout_s"].as_f64();
        let told = told.expect("it has a timer");
        assert!((sum - told).abs() < 1e-6, "{sum}, not {told}: {waited:?}");
        assert!(waited["cut"].as_f64() > Some(0.9 * sum), "{waited:?}");
        assert!(sum > 200.0, "{sum}");
    }
}

#[test]
fn lines_of_handlers_go_to_standard_error_or_to_a_file() {
    let folder = Folder::new("log");
    let (scenario, log) = (folder.file("s.toml"), folder.file("log.txt"));
    let text = "[[handler]]\nuse = \"logger\"\nhooks = [\"forward\"]\n";
    std::fs::write(&scenario, text).expect("written");
    let words = format!("--scenario {scenario} --topo linear,3 --protocol tcp-sack -n 20k");
    let output = sim(&words);
    let report = printed(&output);
    let lines = String::from_utf8(output.stderr).expect("text");
    assert!(lines.lines().count() > 20, "{lines}");
    for line in lines.lines() {
        assert!(line.contains(" node 2 forward "), "{line}");
    }
    let filed = sim(&format!("{words} --log {log}"));
    assert!(filed.stderr.is_empty());
    assert_eq!(std::fs::read_to_string(&log).expect("a log"), lines);
    let hash = |text: &str| text.rsplit_once("hash ").map(|h| h.1[..16].to_owned());
    assert_eq!(hash(&printed(&filed)), hash(&report));
}

#[test]
fn keys_of_radios_that_nobody_has_are_told() {
    let told = |words: &str| {
        let out = sim(&format!("--topo linear,3{words} -p tcp-newreno -n 10k"));
        assert!(out.status.success());
        String::from_utf8(out.stderr).expect("text")
    };
    assert_eq!(
        told(",wire=10M radio.queue=10 radio.attempts=2"),
        "Note: radio.attempts, radio.queue change nothing here, where no node has a radio\n"
    );
    assert_eq!(
        told(" radio.queue=10 radio.ring=2") + &told(",wire=10M"),
        ""
    );
}

#[test]
fn queues_in_front_of_long_rings_and_profiles_in_place_of_others_are_told() {
    let notes = |words: &str| {
        let output = sim(&format!("--topo linear,2 -n 10k {words}"));
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let told = notes("-p tcp-sack radio.queue=10");
    let front = "queues of radios are 10 packets long here, in front of a driver's ring that holds \
                 200: 210 packets wait before one is lost.";
    assert!(told.contains(front), "{told}");
    for fine in [
        "-p tcp-sack",
        "-p tcp-sack radio.queue=10 radio.ring=2",
        "-p tcp-linux",
    ] {
        let told = notes(fine);
        let wrong = told.contains("queues of radios") || told.contains("profile of its own");
        assert!(!wrong, "{fine}: {told}");
    }
    let told = notes("-p tcp-linux,profile=rfc-modern");
    assert!(told.contains("; what is left is tcp-cubic."), "{told}");
}

#[test]
fn an_end_of_the_short_form_may_be_said() {
    for (words, way) in [
        ("flow.1.to=n3", "n1 > n3"),
        ("flow.1.from=n2", "n2 > n4"),
        ("", "n1 > n4"),
    ] {
        let told = sim(&format!("--topo linear,4 -p tcp-newreno -n 10k {words}"));
        let text = printed(&told);
        assert!(text.contains(way) && text.contains("10.0 kB"), "{text}");
    }
}

#[test]
fn wrong_words_get_an_answer_that_helps() {
    let chain = "--topo linear,3 --protocol tcp-newreno";
    for (words, says) in [
        ("mine.toml", "--scenario mine.toml"),
        ("mine.toml -n 1M", "--scenario mine.toml"),
        ("tcp-sack -n 1M", "given by --protocol tcp-sack"),
        (
            "tcp-newren -t 5",
            "given by --protocol; did you mean `tcp-newreno`?",
        ),
        (
            "--topo linear,3 --protocol tcp-sack ack_every=4",
            "ack_every is a parameter of the protocol: write --protocol tcp-sack,ack_every=4",
        ),
        (
            "--topo linear,3 --protocol tcp-sack,iw=3,sack=on iw=4",
            "write --protocol tcp-sack,sack=on,iw=4",
        ),
        ("linear,3 -p tcp-sack", "given by --topo linear,3"),
        ("--topo linear,3 tcp-sack", "given by --protocol tcp-sack"),
        (
            "--topo linear,3 tcp-sack,iw=4",
            "given by --protocol tcp-sack,iw=4",
        ),
        (
            "--topo linear,3 n1:n3:tcp-sack",
            "given by --flow n1:n3:tcp-sack",
        ),
        ("--topo linear,3 -p tcp-sack bytes=2M", "-n 2M"),
        (
            "--topo linear,3 --protocol tcp-sack flow=n1",
            "flow: is a list: write [[flow]]",
        ),
        (
            "--topo liner,7 --protocol tcp-sack",
            "did you mean `linear`",
        ),
        ("--topo linear --protocol tcp-sack", "write linear,N"),
        ("--topo linear,1 --protocol tcp-sack", "one node only"),
        (
            "--topo linear,3,spacing=0 --protocol tcp-sack",
            "greater than 0",
        ),
        (
            "--topo linear,3 --set TB-Z --protocol tcp-sack",
            "no testbed set is called `TB-Z`; did you mean `TB-A`? There are PLAIN,",
        ),
        (
            "--topo linear,3 --protocol tcp-newrno",
            "did you mean `tcp-newreno`?",
        ),
        (
            "--topo linear,3 --protocol reno",
            "did you mean `tcp-reno`?",
        ),
        (
            "--topo linear,3 --flow n1:n3:tcp-sack",
            "say when to stop (`--stop 30s`, in a plan `stop.time = \"30s\"`), or give a flow bytes=1M",
        ),
        (
            "--topo linear,3 --flow n1:n3:tcp-sack -n 1M",
            "a --flow sends stands in its words: --flow n1:n7:tcp-newreno,bytes=2M",
        ),
        (
            "--topo linear,3 -p tcp-sack,bytes=2M -t 5",
            "--time has no meaning",
        ),
        (
            "--topo linear,3 --flow n1:n9:udp --stop 1",
            "There are 3, from n1 to n3",
        ),
        (
            "--topo linear,3 --flow n1:n1:udp --stop 1",
            "a flow ends where it begins",
        ),
        (
            "--topo linear,3 --flow n1:n3 --stop 1",
            "SOURCE:DESTINATION:PROTOCOL",
        ),
        (
            "--topo linear,3 --flow n1:n3:udp,rate=-5M --stop 1",
            "must not be negative",
        ),
        (
            "--topo linear,3 --flow n1:n3:udp,rate=1e30 --stop 1",
            "at most 100 Gb/s",
        ),
        ("--topo linear,3 --flow n1:n3:udp", "say when to stop"),
        (&format!("{chain} -n -5M"), "must not be negative"),
        (
            &format!("{chain} -n 5X"),
            "unknown unit; write B, kB, MB, GB",
        ),
        (&format!("{chain} -t -1"), "must not be negative"),
        (
            &format!("{chain} -n 1k --stop 0"),
            "stop.time: must be greater than 0",
        ),
        (
            &format!("{chain} -n 1k --seed -1"),
            "invalid value '-1' for '--seed <N>'",
        ),
        (&format!("{chain} -n 1k -i inf"), "a number of seconds"),
        (
            &format!("{chain} -n 1k radio.power_dbm=x"),
            "expected a number",
        ),
        (
            &format!("{chain} -n 1k radio.rate=7M"),
            "none of the rates of 802.11a",
        ),
        (
            &format!("{chain} -n 1k routing.kind=shortst"),
            "did you mean `shortest`?",
        ),
        (
            &format!("{chain} -n 1k --log /nonexistent/x"),
            "--log /nonexistent/x: No such file",
        ),
        (
            &format!("{chain} -n 1k rate=6M"),
            "rate: unknown key; did you mean `radio.rate`?",
        ),
        (
            &format!("{chain},iw=4segments -n 1k"),
            "iw = \"4segments\": write 4 without a unit, or write auto",
        ),
        (
            &format!("{chain} -n 1k topology.word=linear,4"),
            "topology.word: no key is called `word`; did you mean `words`?",
        ),
        (
            "--topo TB-A --protocol tcp-sack",
            "`TB-A` is a testbed set, which needs a shape: linear,3,set=TB-A",
        ),
        (
            "--topo nothing.toml --protocol tcp-sack",
            "topology file nothing.toml",
        ),
        ("--protocol tcp-sack", "no topology: begin with --topo"),
        ("--topo linear,3", "nobody sends anything"),
    ] {
        let output = sim(words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && output.stdout.is_empty(),
            "{words}"
        );
        assert!(errors.contains(says), "{words}: {errors}");
        assert!(errors.lines().count() < 8, "{words}: {errors}");
    }
}

#[test]
fn wires_are_as_fast_as_tcs_words_say() {
    let words = [
        "sim",
        "--topo",
        "linear,3",
        "--link",
        "rate 6mbit delay 10ms limit 100",
    ];
    let flow = ["--protocol", "tcp-cubic", "-t", "10", "--json"];
    let text = printed(&wifu(&[&words[..], &flow[..]].concat()));
    let all: Json = serde_json::from_str(&text).expect("JSON");
    let goodput = all["wifu"]["flows"][0]["goodput_bps"]
        .as_f64()
        .expect("a number");
    // 1448 octets of data in 1538 on the wire.
    assert!((5.3e6..5.65e6).contains(&goodput), "{goodput}");
    let least = all["wifu"]["flows"][0]["min_rtt_s"]
        .as_f64()
        .expect("a number");
    assert!((0.040..0.050).contains(&least), "{least}");
}

#[test]
fn wireshark_reads_the_packets_of_every_interface() {
    let folder = Folder::new("ip");
    let file = folder.file("ip.pcapng");
    let all = outcome(&format!("{CHAIN} --pcap {file}"));
    let fields = [
        "frame.interface_name",
        "frame.time_epoch",
        "tcp.len",
        "tcp.checksum.status",
    ];
    let packets = tshark(&file, "tcp", &fields);
    assert_eq!(
        packets.len(),
        tshark(&file, "", &fields[..1]).len(),
        "all is TCP"
    );
    let names: std::collections::BTreeSet<&str> = packets.iter().map(|p| p[0].as_str()).collect();
    assert_eq!(
        names.into_iter().collect::<Vec<_>>(),
        ["n1-wlan0", "n2-wlan0", "n3-wlan0", "n4-wlan0"]
    );
    assert_eq!(tshark(&file, "_ws.malformed", &fields[..1]).len(), 0);
    let digits = packets[packets.len() / 2][1]
        .split('.')
        .nth(1)
        .expect("a fraction");
    assert_eq!(digits.len(), 9, "nanoseconds");
    // What the sender's interface saw of the flow's segments is what the sender counted.
    let sent = tshark(
        &file,
        "frame.interface_name == \"n1-wlan0\" && ip.src == 10.0.0.1 && tcp.len > 0",
        &fields[..1],
    );
    assert_eq!(all["wifu"]["flows"][0]["data_segments"], sent.len());
}

#[test]
fn wires_have_interfaces_of_their_own() {
    let folder = Folder::new("wires");
    let file = folder.file("ip.pcapng");
    let link = [
        "sim",
        "--topo",
        "linear,3",
        "--link",
        "rate 6mbit delay 10ms loss 2%",
    ];
    let rest = [
        "--protocol",
        "tcp-sack",
        "-n",
        "200k",
        "--json",
        "--pcap",
        &file,
    ];
    let text = printed(&wifu(&[&link[..], &rest[..]].concat()));
    let all: Json = serde_json::from_str(&text).expect("JSON");
    let count = |name: &str, direction: u8| {
        let filter = format!(
            "frame.interface_name == \"{name}\" && frame.packet_flags_direction == {direction}"
        );
        tshark(&file, &filter, &["frame.number"]).len() as u64
    };
    let wire = |from: &str, to: &str| {
        let wires = all["wifu"]["wires"].as_array().expect("a list");
        let found = wires.iter().find(|w| w["from"] == from && w["to"] == to);
        found.expect("the wire").clone()
    };
    let number = |wire: &Json, key: &str| wire[key].as_u64().expect("a number");
    let inside = number(&all["wifu"]["flows"][0]["packets"], "inside");
    let names = tshark(&file, "", &["frame.interface_name"]);
    assert!(!names.is_empty());
    let octets = std::fs::read(&file).expect("there");
    let wireless = octets.windows(5).any(|w| w == b"wlan0");
    assert!(!wireless, "a node that has wires only has no radio");
    for (from, out, to, inward) in [
        ("n1", "n1-eth0", "n2", "n2-eth0"),
        ("n2", "n2-eth0", "n1", "n1-eth0"),
        ("n2", "n2-eth1", "n3", "n3-eth0"),
    ] {
        let wire = wire(from, to);
        let (arrived, lost) = (number(&wire, "packets"), number(&wire, "lost"));
        assert_eq!(count(inward, 1), arrived, "{from} > {to}");
        // The run ends with packets on their way.
        let flying = count(out, 2) - arrived - lost;
        assert!(flying <= inside, "{from} > {to}: {flying} of {inside}");
    }
    assert!(
        number(&wire("n1", "n2"), "lost") > 0,
        "2 % of a hundred packets"
    );
}

/// The trace's records of one kind, by `what`.
fn records(file: &str) -> Vec<BTreeMap<String, String>> {
    let text = printed(&wifu(&["trace", file, "--csv"]));
    let mut lines = text.lines();
    let titles: Vec<&str> = lines.next().expect("titles").split(',').collect();
    lines
        .map(|line| {
            let cells = line.split(',').map(String::from);
            titles.iter().map(|t| t.to_string()).zip(cells).collect()
        })
        .collect()
}

#[test]
fn wireshark_reads_the_radio_view_with_retries_and_signals() {
    let folder = Folder::new("radio");
    let (file, frames) = (folder.file("radio.pcapng"), folder.file("frames.bin"));
    let all = outcome(&format!("{CHAIN} --pcap-radio {file} --frames {frames}"));
    let count = |filter: &str| tshark(&file, filter, &["frame.number"]).len();
    assert_eq!(count("_ws.malformed && radiotap.flags.badfcs == 0"), 0);
    let sent = "frame.packet_flags_direction == 2";
    let records = records(&frames);
    let traced = |what: &str, kind: &str, retry: bool| {
        let found = records
            .iter()
            .filter(|r| r["what"] == what && r["kind"] == kind && (!retry || r["retry"] == "1"));
        found.count()
    };
    let nodes = all["wifu"]["nodes"].as_array().expect("a list");
    let sum = |key: &str| -> u64 { nodes.iter().filter_map(|n| n[key].as_u64()).sum() };
    let data = count(&format!("{sent} && wlan.fc.type == 2"));
    assert_eq!(data as u64, sum("attempts"));
    assert_eq!(data, traced("sent", "data", false));
    let retries = count(&format!(
        "{sent} && wlan.fc.type == 2 && wlan.fc.retry == 1"
    ));
    assert!(retries > 0, "a chain without retries shows nothing");
    assert_eq!(retries as u64, sum("retries"));
    assert_eq!(retries, traced("sent", "data", true));
    assert_eq!(count("radiotap.data_retries > 0"), retries);
    assert_eq!(
        count("radiotap.data_retries > 4"),
        0,
        "five attempts at the most"
    );
    let acks = count(&format!("{sent} && wlan.fc.type_subtype == 0x1d"));
    assert_eq!(acks, traced("sent", "ack", false));
    assert_eq!(
        count("wlan.fcs.status == 1") + count("radiotap.flags.badfcs == 1"),
        { tshark(&file, "", &["frame.number"]).len() }
    );
    // Data alone are shown as who lost them received them.
    let lost = records.iter().filter(|r| {
        let why = r["why"].as_str();
        r["what"] == "lost" && r["kind"] == "data" && ["collision", "noise"].contains(&why)
    });
    assert_eq!(count("radiotap.flags.badfcs == 1"), lost.count());
    assert!(count("frame.comment contains \"lost: collision with\"") > 0);
    // Received, in order: the same signal in both files.
    let heard = tshark(&file, "radiotap.dbm_antsignal", &["radiotap.dbm_antsignal"]);
    let traced = records.iter().filter(|r| r["what"] == "received");
    let signals: Vec<f64> = traced
        .map(|r| r["signal_dbm"].parse().expect("a number"))
        .collect();
    assert_eq!(heard.len(), signals.len());
    for (heard, signal) in heard.iter().zip(&signals) {
        let heard: f64 = heard[0].parse().expect("a number");
        assert!((heard - signal).abs() <= 0.51, "{heard} for {signal}");
    }
    let rates = tshark(&file, "wlan.fc.type == 2", &["radiotap.datarate"]);
    assert!(rates.iter().all(|r| r[0] == "24"), "TB-A sends at 24 Mb/s");
}

/// Data after an RTS have attempts of their own: who sets the others and switches RTS on is told.
#[test]
fn attempts_that_data_after_an_rts_do_not_have_are_said() {
    let notes = |words: &str| {
        let ran = sim(&format!(
            "--topo linear,2 --set TB-W3 --protocol tcp-sack -n 20k {words}"
        ));
        printed(&ran);
        String::from_utf8_lossy(&ran.stderr).into_owned()
    };
    let said = notes("radio.attempts=2 radio.rts_threshold=0");
    let note = "Note: radio.attempts = 2 counts RTS and frames without: data that follow an RTS are \
                sent up to 4 times, by radio.attempts_long, which the scenario does not set\n";
    assert!(said.contains(note), "{said}");
    for words in [
        "radio.attempts=2",
        "radio.rts_threshold=0",
        "radio.attempts=4 radio.rts_threshold=0",
        "radio.attempts=2 radio.attempts_long=2 radio.rts_threshold=0",
    ] {
        let said = notes(words);
        assert!(!said.contains("radio.attempts"), "{words}: {said}");
    }
}

/// A handler without a place acts ten times on a way of three hops, and rows of nodes that move
/// stay the ways of their packets.
#[test]
fn what_is_everywhere_and_what_stays_is_said_before_the_run() {
    let said = |text: &str| {
        let folder = Folder::new("advice");
        let path = folder.file("scenario.toml");
        std::fs::write(&path, text).expect("a folder of its own");
        let ran = sim(&format!("--scenario {path}"));
        printed(&ran);
        String::from_utf8_lossy(&ran.stderr).into_owned()
    };
    let flow =
        "[stop]\ntime = \"1s\"\n[[flow]]\nfrom = \"n1\"\nto = \"n3\"\nprotocol = \"tcp-sack\"\n";
    let row = format!(
        "[topology.placement]\nkind = \"line\"\ncount = 3\nspacing_m = 20.0\n[topology.radio]\nrate = \"6Mb/s\"\n{flow}"
    );
    let everywhere =
        "Note: handler drop says neither `nodes` nor `hooks`: it acts at each hook of each";
    let drop = format!("{row}[[handler]]\nuse = \"drop\"\np = 0.001\n");
    assert!(said(&drop).contains(everywhere));
    let placed = said(&format!("{drop}nodes = [\"n2\"]\n"));
    assert!(
        placed.contains("Note: handler drop says no `hooks`: it acts at each of its nodes', of"),
        "{placed}"
    );
    let forward = said(&format!("{drop}hooks = [\"forward\"]\n"));
    assert!(!forward.contains("Note: handler drop says"), "{forward}");
    // Nodes go by their numbers, too, whatever they are called.
    let named = "[topology]\nchain = { snr_db = [25.0, 25.0] }\n[[topology.node]]\nname = \"a\"\n\
                 [[topology.node]]\nname = \"b\"\n[[topology.node]]\nname = \"c\"\n";
    let numbered =
        format!("{named}{flow}[[handler]]\nuse = \"drop\"\np = 0.001\nnodes = [\"n2\"]\n");
    let relay = said(&numbered);
    assert!(relay.contains("a packet meets 3 at a relay"), "{relay}");
    // Where packets begin and end nobody forwards.
    let end = said(&format!("{drop}nodes = [\"n3\"]\n"));
    let input = "a packet meets 2 where it begins and 2 where it ends, and an answer as many. \
                 hooks = [\"input\"] is once where packets end";
    assert!(end.contains(input), "{end}");
    let moves = "[[mobility]]\nkind = \"trace\"\nrows = [[0.5, \"n2\", 20.0, 5.0]]\n";
    let stays = "Note: nodes move, and routes go along the row all the time";
    assert!(said(&format!("{row}{moves}")).contains(stays));
    assert!(!said(&row).contains(stays));
    let moving = said(&format!("{drop}nodes = [\"n3\"]\n{moves}"));
    assert!(moving.contains(input), "{moving}");
    // Between two rows ways follow from links, and go elsewhere as nodes move.
    let rows = "[topology.placement]\nkind = \"rows\"\ncount = 2\nrows = 2\nspacing_m = 50.0\n\
                gap_m = 50.0\n";
    let between = said(&format!(
        "{rows}{flow}[[handler]]\nuse = \"drop\"\np = 0.001\n{moves}"
    ));
    assert!(
        between.contains("hooks = [\"forward\"] is once"),
        "{between}"
    );
    let follows = format!("{row}{moves}[routing]\nkind = \"etx\"\n");
    assert!(!said(&follows).contains(stays));
    let listed = "[routing]\nkind = \"static\"\nroutes = [{ from = \"n1\", to = \"n3\", via = \"n3\" }, \
                  { from = \"n3\", to = \"n1\", via = \"n1\" }]\n";
    let static_ways = said(&format!("{row}{moves}{listed}"));
    assert!(static_ways.contains("nodes move, and routes are those that are listed"));
}

/// A link that is cut is gone around by routes that follow from links, at full seconds, and by no
/// others; where nobody else joins its ends there is nothing to say.
#[test]
fn ways_around_a_cut_are_said_before_the_run() {
    let said = |spacing: &str, at: &str, more: &str| {
        let folder = Folder::new("around");
        let path = folder.file("scenario.toml");
        let text = format!(
            "[topology.placement]\nkind = \"line\"\ncount = 3\nspacing_m = {spacing}\n\
             [topology.propagation]\nanchor = {{ snr_db = 12.0, distance_m = 60.0 }}\n\
             [stop]\ntime = \"1s\"\n[[flow]]\nfrom = \"n1\"\nto = \"n3\"\n\
             protocol = \"tcp-sack\"\n[[event]]\nat = \"{at}\"\ncut = [\"n2\", \"n3\"]\n{more}"
        );
        std::fs::write(&path, text).expect("a folder of its own");
        let ran = sim(&format!("--scenario {path}"));
        printed(&ran);
        String::from_utf8_lossy(&ran.stderr).into_owned()
    };
    let stays = "could take the place of the link of n2 and n3 when it is cut, and routes go along";
    let direct = "n1 and n3 reach each other without relays, and packets go along the row over 2";
    let near = said("30", "0.3s", "");
    assert!(near.contains(stays) && near.contains(direct), "{near}");
    let far = said("60", "0.3s", "");
    assert!(!far.contains(stays) && !far.contains(direct), "{far}");
    // Of a square of which no diagonal holds there are two ways from corner to corner.
    let square = |at: &str| {
        let folder = Folder::new("square");
        let path = folder.file("scenario.toml");
        let text = format!(
            "[topology]\nmatrix = {{ snr_db = [[0, 25, 25, -99], [25, 0, -99, 25], \
             [25, -99, 0, 25], [-99, 25, 25, 0]] }}\n[stop]\ntime = \"1s\"\n[[flow]]\n\
             from = \"n1\"\nto = \"n4\"\nprotocol = \"tcp-sack\"\n[[event]]\nat = \"{at}\"\n\
             cut = [\"n1\", \"n2\"]\n[[event]]\nat = \"0.9s\"\ncut = [\"n3\", \"n4\"]\n"
        );
        std::fs::write(&path, text).expect("a folder of its own");
        let ran = sim(&format!("--scenario {path}"));
        printed(&ran);
        String::from_utf8_lossy(&ran.stderr).into_owned()
    };
    let late = "routes follow at full seconds: what goes to the link of n1 and n2 when it is cut is \
                lost for the next 0.7 s";
    let between = square("0.3s");
    assert!(between.contains(late), "{between}");
    assert!(!square("0s").contains("routes follow at full seconds"));
}

/// Sixty-five hops are the most that a packet lives.
#[test]
fn a_route_longer_than_packets_live_is_said_before_the_run() {
    let ran = |nodes: u32| {
        let words = format!("--topo linear,{nodes},wire=10M --protocol tcp-sack -n 2k --stop 5s");
        let ran = sim(&words);
        let report = String::from_utf8_lossy(&ran.stdout).into_owned();
        let arrived = !report.contains("never connected");
        (arrived, String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    let (arrived, said) = ran(66);
    assert!(arrived && !said.contains("TTL"), "{said}");
    let (arrived, said) = ran(67);
    let note = "Note: flow 1: its route has 66 hops at the start, and the TTL of packets (65)";
    assert!(!arrived && said.contains(note), "{said}");
}

#[test]
fn requests_to_send_are_in_the_radio_view() {
    let folder = Folder::new("rts");
    let file = folder.file("radio.pcapng");
    let words = "--topo linear,2 --set TB-W3 --protocol tcp-sack -n 20k radio.rts_threshold=0";
    printed(&sim(&format!("{words} --pcap-radio {file}")));
    let count = |filter: &str| tshark(&file, filter, &["frame.number"]).len();
    let rts = count("wlan.fc.type_subtype == 0x1b && frame.packet_flags_direction == 2");
    let cts = count("wlan.fc.type_subtype == 0x1c && frame.packet_flags_direction == 2");
    let data = count("wlan.fc.type == 2 && frame.packet_flags_direction == 2");
    assert!(
        rts >= data && rts >= cts && cts >= data && data > 20,
        "{rts} {cts} {data}"
    );
    // What an RTS reserves ends with the ACK: data and two control frames, four gaps or so.
    let longest = tshark(&file, "wlan.fc.type_subtype == 0x1b", &["wlan.duration"]);
    let longest = longest
        .iter()
        .filter_map(|r| r[0].parse::<u32>().ok())
        .max();
    assert_eq!(longest, Some(16 + 28 + 16 + 536 + 16 + 28));
}

#[test]
fn a_trace_of_frames_is_summed_up_per_link() {
    let folder = Folder::new("frames");
    let file = folder.file("frames.bin");
    printed(&sim(&format!("{CHAIN} --frames {file}")));
    let text = printed(&wifu(&["trace", &file]));
    assert!(
        text.contains("n1 > n2") && text.contains("collision with"),
        "{text}"
    );
    let octets = std::fs::read(&file).expect("there");
    let count = records(&file).len();
    assert_eq!(octets.len(), 32 * count);
    std::fs::write(&file, &octets[..100]).expect("written");
    let cut = wifu(&["trace", &file]);
    assert!(!cut.status.success());
    assert!(String::from_utf8_lossy(&cut.stderr).contains("no multiple of 32"));
}

#[test]
fn series_are_tidy_csv() {
    let folder = Folder::new("series");
    let file = folder.file("series.csv");
    printed(&sim(&format!("{CHAIN} --trace {file}")));
    let text = std::fs::read_to_string(Path::new(&file)).expect("there");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("time_s,series,value"));
    let mut last: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let (time, value) = (
            cells[0].parse().expect("s"),
            cells[2].parse().expect("value"),
        );
        if let Some((before, _)) = last.insert(cells[1], (time, value)) {
            assert!(before <= time, "{line}");
        }
    }
    assert_eq!(last["flow.1.delivered"].1, 200_000.0);
    assert!(last.contains_key("flow.1.cwnd") && last.contains_key("node.n2.queue"));
}

#[test]
fn errors_say_what_would_be_right() {
    let wrong = |words: &str| {
        let output = sim(words);
        assert!(!output.status.success(), "{words} was taken");
        String::from_utf8(output.stderr).expect("text")
    };
    let cases = [
        ("--protocol tcp-reno", "--topo linear,7"),
        ("--topo linear,3", "nobody sends anything"),
        ("--topo lineer,3 --protocol tcp-reno", "linear"),
        ("--topo linear,3 --set TB-X --protocol tcp-reno", "TB-A"),
        (
            "--topo linear,3 --protocol tcp-ren",
            "did you mean `tcp-reno`",
        ),
        ("--topo linear,3 --flow n1:n9:tcp-reno,bytes=1M", "n9"),
        (
            "--topo linear,3 --flow n1:n3",
            "SOURCE:DESTINATION:PROTOCOL",
        ),
        ("--topo linear,3 --flow n1:n3:tcp-reno", "stop"),
        ("--topo linear,3 --flow n1:n3:tcp-reno,byts=1M", "bytes"),
        (
            "--topo linear,3 --flow n1:n3:tcp-reno,gate=nagle,bytes=1M",
            "did you mean `gates`",
        ),
        (
            "--topo linear,3 --protocol tcp-reno radio.rat=6M",
            "did you mean `rate`",
        ),
        ("--topo linear,3 --protocol tcp-reno radio.rate=7M", "7"),
        (
            "--topo linear,3 --protocol tcp-reno stop.tiem=5",
            "did you mean `time`?",
        ),
        ("--topo linear,3 --protocol tcp-reno radio", "KEY=VALUE"),
        ("--topo linear,3 --protocol tcp-reno -n lots", "number"),
        ("--topo linear,3 --protocol tcp-reno -n 0", "flow.1.bytes"),
        ("--topo linear,3 --protocol tcp-reno -t 0", "flow.1.time"),
        ("--topo linear,3 --protocol udp -t 0", "flow.1.time"),
        (
            "--topo linear,3 --protocol tcp-reno radio.cs_dbm=-200",
            "below the noise",
        ),
        (
            "--topo linear,3 --protocol tcp-reno radio.power_dbm=100",
            "between -60 and 60 dBm",
        ),
        (
            "--topo linear,3 --link rate --protocol tcp-reno",
            "tc's words",
        ),
        (
            "--scenario /nonexistent/scenario --protocol tcp-reno",
            "/nonexistent/scenario",
        ),
    ];
    for (words, hint) in cases {
        let message = wrong(words);
        assert!(message.contains(hint), "{words}: {message}");
        assert!(!message.contains("panicked"), "{words}: {message}");
    }
}

#[test]
fn without_radios_no_attempt_is_explained() {
    let words = ["sim", "--topo", "linear,3", "--link", "rate 6mbit loss 1%"];
    let text = printed(&wifu(
        &[&words[..], &["--protocol", "tcp-sack", "-n", "200k"]].concat(),
    ));
    assert!(
        text.contains("n1 > n3") && !text.contains("attempts failed"),
        "{text}"
    );
}

/// A line of a shell as words; quotation marks hold words together.
fn words_of(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().expect("never empty").push(c),
        }
    }
    words.retain(|w| !w.is_empty());
    words
}

#[test]
fn every_command_of_the_page_delivers() {
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/sim.md");
    let page = std::fs::read_to_string(PAGE).expect("the page");
    let blocks = page.split("```sh\n").skip(1);
    let blocks = blocks.filter_map(|b| b.split("```").next());
    let lines = blocks.flat_map(str::lines);
    let commands: Vec<&str> = lines.filter_map(|l| l.strip_prefix("wifu sim")).collect();
    assert!(commands.len() >= 4, "{} commands", commands.len());
    for command in commands {
        let words = words_of(command);
        let mut all = vec!["sim", "--json"];
        all.extend(words.iter().map(String::as_str));
        let outcome: Json = serde_json::from_str(&printed(&wifu(&all))).expect("JSON");
        for flow in outcome["wifu"]["flows"].as_array().expect("a list") {
            let delivered = flow["bytes"].as_u64().unwrap_or(0);
            assert!(delivered > 0, "nothing was delivered: {command}");
        }
    }
}

#[test]
fn a_flow_that_failed_is_the_exit_status() {
    for (spacing, why) in [
        (120, "failed at 63.000 s: TimedOut"),
        (900, "nobody hears n1"),
    ] {
        let far = sim(&format!(
            "--topo linear,2,spacing={spacing} --protocol tcp-sack -n 1k"
        ));
        assert_eq!(far.status.code(), Some(1), "{why}");
        let report = String::from_utf8_lossy(&far.stdout);
        assert!(report.contains(why), "{report}");
        let errors = String::from_utf8_lossy(&far.stderr);
        assert!(
            errors.contains(&format!("flow 1, n1 > n2: {why}")),
            "{errors}"
        );
    }
    // Not to be done yet is no failure.
    let cut = sim("--topo linear,2 --flow n1:n2:tcp-sack,bytes=10M --stop 1s");
    assert_eq!(cut.status.code(), Some(0));
}

#[test]
fn an_interrupted_run_prints_what_there_is() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wifu"));
    let words = "sim --topo linear,7 --set TB-A --flow n1:n7:tcp-newreno --stop 1000000s";
    let child = command
        .args(words.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("wifu runs");
    // Earlier than this the program may not have asked for the signal yet.
    let pid = child.id().to_string();
    let blocked = format!("/proc/{pid}/status");
    let ready = || {
        let status = std::fs::read_to_string(&blocked).unwrap_or_default();
        let line = status
            .lines()
            .find(|l| l.starts_with("SigBlk"))
            .unwrap_or("");
        u64::from_str_radix(line.split_whitespace().nth(1).unwrap_or("0"), 16).unwrap_or(0) & 2 != 0
    };
    while !ready() {
        std::thread::yield_now();
    }
    let killed = Command::new("kill").args(["-INT", &pid]).status();
    assert!(killed.expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&output.stdout).contains("n1 > n7"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted after"));
}
