//! `wifu perf` beside iperf3: the same keys with the same types, and the same values.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{Running, Server, WIFU, free_port, keys, number, report};
use serde_json::Value;

/// Keys that iperf3 writes since some later version than 3.12, where `wifu` has them always.
const LATER: [&str; 6] = [
    ".intervals[].streams[].reorder",
    ".start.fq_rate",
    ".start.test_start.bidir",
    ".start.test_start.fqrate",
    ".start.test_start.interval",
    ".start.timestamp.timemillisecs",
];

fn iperf3_server() -> (Running, String) {
    let port = free_port();
    let mut command = Command::new("iperf3");
    command.args(["-s", "-p", &port, "--forceflush"]);
    (Running::start(&mut command, "Server listening"), port)
}

fn iperf3(port: &str, arguments: &[&str]) -> Value {
    let mut command = Command::new("iperf3");
    command
        .args(["-c", "127.0.0.1", "-p", port, "-J"])
        .args(arguments);
    let report = report(&command.output().unwrap());
    assert_eq!(report.get("error"), None);
    report
}

/// What `theirs` has and `ours` lacks or has as another type.
fn missing(
    theirs: &BTreeMap<String, &'static str>,
    ours: &BTreeMap<String, &'static str>,
) -> Vec<String> {
    let differs = |(key, kind): (&String, &&str)| match ours.get(key) {
        Some(other) if other == kind => None,
        other => Some(format!("{key}: {kind} there, {other:?} here")),
    };
    theirs.iter().filter_map(differs).collect()
}

#[test]
fn every_mode_writes_iperf3s_keys_and_no_others_outside_wifu() {
    let (_iperf3, port) = iperf3_server();
    let server = Server::start(&[]);
    let modes: [&[&str]; 6] = [
        &["-t", "1", "-i", "0.5"],
        &["-t", "1", "-P", "2", "-C", "reno"],
        &["-t", "1", "-R"],
        &["-t", "1", "-O", "1", "--bidir"],
        &["-n", "64M", "-l", "64K", "-w", "256K"],
        &[
            "-t",
            "1",
            "-b",
            "20M",
            "-T",
            "title",
            "--extra-data",
            "extra",
        ],
    ];
    for mode in modes {
        let (theirs, ours) = (iperf3(&port, mode), server.test(mode));
        let (theirs, ours) = (keys(&theirs), keys(&ours));
        assert_eq!(missing(&theirs, &ours), Vec::<String>::new(), "{mode:?}");
        let more: Vec<&String> = ours
            .keys()
            .filter(|key| !theirs.contains_key(*key) && !LATER.contains(&key.as_str()))
            .collect();
        assert_eq!(more, Vec::<&String>::new(), "{mode:?}");
    }
}

#[test]
fn the_servers_report_has_iperf3s_keys() {
    let port = free_port();
    let server = Command::new("iperf3")
        .args(["-s", "-J", "-p", &port])
        .stdout(Stdio::null())
        .spawn();
    let _iperf3 = Running(server.unwrap());
    // With -J it is silent, so nothing tells when it listens.
    let deadline = Instant::now() + Duration::from_secs(10);
    let ready = || {
        Command::new("iperf3")
            .args(["-c", "127.0.0.1", "-n", "1", "-p", &port])
            .output()
    };
    while !ready().unwrap().status.success() {
        assert!(Instant::now() < deadline, "iperf3 -s does not answer");
        sleep(Duration::from_millis(50));
    }
    let server = Server::start(&[]);
    for mode in [
        &["-t", "1", "-P", "2"][..],
        &["-t", "1", "-R"],
        &["-t", "1", "--bidir"],
    ] {
        let mode = [mode, &["--get-server-output"]].concat();
        let theirs = keys(&iperf3(&port, &mode)["server_output_json"]);
        let ours = keys(&server.test(&mode)["server_output_json"]);
        assert!(theirs.len() > 50, "{theirs:?}");
        assert_eq!(missing(&theirs, &ours), Vec::<String>::new(), "{mode:?}");
    }
}

/// Two network namespaces joined by a link of 100 Mb/s each way.
struct Link {
    near: String,
    far: String,
}

impl Link {
    fn make() -> Self {
        let name = |end| format!("wifu-t-perf{}-{end}", std::process::id());
        let link = Self {
            near: name("a"),
            far: name("b"),
        };
        let (near, far) = (&link.near, &link.far);
        ip(&format!("netns add {near}"));
        ip(&format!("netns add {far}"));
        ip(&format!(
            "link add v netns {near} type veth peer name v netns {far}"
        ));
        for (namespace, address) in [(near, "10.77.9.1/24"), (far, "10.77.9.2/24")] {
            ip(&format!("-n {namespace} link set lo up"));
            ip(&format!("-n {namespace} addr add {address} dev v"));
            ip(&format!("-n {namespace} link set v up"));
            let shape = "qdisc replace dev v root tbf rate 100mbit burst 15000 limit 150000";
            run(Command::new("tc")
                .args(["-n", namespace])
                .args(shape.split(' ')));
        }
        link
    }

    fn program(namespace: &str, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]).args(words);
        command
    }

    fn client(&self, program: &[&str], arguments: &[&str]) -> Value {
        let words = [program, &["-c", "10.77.9.2", "-C", "reno", "-J"], arguments].concat();
        let report = report(&Self::program(&self.near, &words).output().unwrap());
        assert_eq!(report.get("error"), None);
        report
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for namespace in [&self.near, &self.far] {
            let _ = Command::new("ip")
                .args(["netns", "del", namespace])
                .status();
        }
    }
}

fn ip(words: &str) {
    run(Command::new("ip").args(words.split(' ')));
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?} (this test needs root): {output:?}"
    );
}

#[test]
fn on_a_shaped_link_both_measure_the_same() {
    let link = Link::make();
    let mut command = Link::program(&link.far, &["iperf3", "-s", "--forceflush"]);
    let _iperf3 = Running::start(&mut command, "Server listening");
    let mut command = Link::program(&link.far, &[WIFU, "perf", "-s", "-p", "5202"]);
    let _wifu = Running::start(&mut command, "Server listening");
    for mode in [
        &["-t", "3"][..],
        &["-t", "3", "-R"],
        &["-t", "3", "-P", "3"],
    ] {
        let theirs = link.client(&["iperf3"], mode);
        let ours = link.client(&[WIFU, "perf", "-p", "5202"], mode);
        for key in [
            "end.sum_received.bits_per_second",
            "end.sum_sent.bits_per_second",
        ] {
            let ratio = number(&ours, key) / number(&theirs, key);
            assert!((0.93..1.07).contains(&ratio), "{mode:?} {key}: {ratio}");
        }
        // 1448 bytes of each 1514-byte frame are goodput, and tbf counts frames.
        let goodput = number(&ours, "end.sum_received.wifu.goodput_bits_per_second");
        assert!((90e6..97.5e6).contains(&goodput), "{mode:?}: {goodput}");
        if mode.len() == 2 {
            // What the kernel's send buffer held when the time was over.
            let [sent, received] =
                ["sum_sent", "sum_received"].map(|sum| number(&ours, &format!("end.{sum}.bytes")));
            let late = number(&ours, "end.streams.0.wifu.outlasted.bytes");
            assert!(
                late > 20e3 && late == sent - received,
                "{late}: {sent} {received}"
            );
            let stack = [
                "segments",
                "data_segments",
                "feedback_segments",
                "sent_bytes",
            ]
            .map(|key| number(&ours, &format!("end.streams.0.wifu.{key}")));
            // Super-packets count as what they are cut into; the connection itself sent the rest.
            assert!(
                stack[1] >= received / 1448.0 && stack[0] >= stack[1],
                "{stack:?}"
            );
            assert!(stack[2] > 10.0 && stack[3] <= sent, "{stack:?}");
        }
    }
    let mut people = Link::program(
        &link.near,
        &[WIFU, "perf", "-p", "5202", "-c", "10.77.9.2", "-t", "1"],
    );
    let said = String::from_utf8(people.output().unwrap().stdout).unwrap();
    assert!(said.contains("[wifu] when the time was over, "), "{said}");
}
