//! Unmodified programs on emulated hosts: the kernel's TCPs, `wifu exec`, a routing daemon, a
//! capture; and hosts that restart under them.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::soak::{Program, command};
use super::{Emu, Flood, Scratch, WIFU, privileged};

/// Whether it comes true in time.
pub fn within(seconds: u64, mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    while !done() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    true
}

fn text(emu: &Emu, node: &str, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let output = emu.on(node, words[0], &words[1..]);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_restarted_host_loses_its_queue_and_gets_its_network_back() {
    if !privileged() {
        return;
    }
    // 100 ms per frame: what is queued stays for long.
    let emu = Emu::start(
        "restart",
        &["--topo", "linear,3,rate=6M", "--dilation", "50"],
    );
    let shown = |words: &str| {
        let mut shown = text(&emu, "n2", words);
        shown.retain(|c| c != ' ');
        shown
    };
    let network = || {
        let all = [
            "ip -o -4 addr",
            "ip route",
            "ip neigh",
            "ip link show wlan0",
        ];
        all.map(&shown)
    };
    let before = network();
    let row = |name: &str| -> Value {
        let rows = emu.ctl("nodes")["data"].clone();
        let found = rows
            .as_array()
            .expect("rows")
            .iter()
            .find(|r| r["name"] == name);
        found.expect("a node").clone()
    };
    let flood = Flood::start(&emu.namespace("n2"), "10.0.0.3", 2000);
    assert!(within(10, || row("n2")["queued"].as_u64() >= Some(100)));
    drop(flood);
    // Meanwhile it is not there, and others see that; programs on it go on.
    let mut sleeper = emu.namespace("n2").command("sleep").expect("namespace");
    let mut sleeper = sleeper.arg("100").spawn().expect("sleep");
    emu.done("pause n3");
    std::thread::scope(|scope| {
        let restart = scope.spawn(|| emu.done("restart n2 2"));
        std::thread::sleep(Duration::from_secs(1));
        assert!(shown("ip link show wlan0").contains("stateDOWN"));
        assert_eq!(shown("ip -o -4 addr show dev wlan0"), "");
        restart.join().expect("it restarts");
    });
    assert!(row("n2")["queued"].as_u64() <= Some(1), "{}", row("n2"));
    assert!(
        within(5, || network() == before),
        "{before:?} {:?}",
        network()
    );
    assert_eq!(row("n3")["paused"], true);
    assert_eq!(row("n2")["paused"], false);
    assert!(sleeper.try_wait().expect("wait").is_none(), "it was ended");
    sleeper.kill().expect("kill");
    sleeper.wait().expect("wait");
    emu.done("resume n3");
    let answers = || emu.ping("n1", "-n -c 3 -i 0.2 -W 3 10.0.0.3").len();
    assert!(within(20, || answers() == 3), "n1 to n3 over n2");
    emu.exit();
}

#[test]
fn the_kernels_congestion_controls_carry_traffic_over_two_hops() {
    if !privileged() {
        return;
    }
    let emu = Emu::start("cc", &["--topo", "linear,3,rate=24M"]);
    let default = text(&emu, "n1", "sysctl -n net.ipv4.tcp_congestion_control");
    assert_eq!(default.trim(), "reno", "whatever the machine's is");
    for control in ["cubic", "bbr"] {
        let mut server = emu.namespace("n3").command("iperf3").expect("namespace");
        let server = server.args(["-s", "-1"]).stdout(Stdio::null());
        let mut server = server.spawn().expect("iperf3");
        let listens = || text(&emu, "n3", "ss -Hltn sport = :5201").contains("5201");
        assert!(within(5, listens));
        let line = format!("iperf3 -J -t 4 -O 1 -C {control} -w 64K -c 10.0.0.3");
        let all: Value = serde_json::from_str(&text(&emu, "n1", &line)).expect("JSON");
        assert!(server.wait().expect("wait").success());
        let end = &all["end"];
        assert_eq!(end["sender_tcp_congestion"], control, "{}", all["error"]);
        let rate = end["sum_received"]["bits_per_second"]
            .as_f64()
            .expect("a rate");
        println!("{control} over two hops at 24 Mb/s: {:.2} Mb/s", rate / 1e6);
        // The kernel's Reno and the simulator's get 7.2.
        let least = if emu.is_valid() { 5e6 } else { 5e5 };
        assert!((least..9e6).contains(&rate), "{control}: {rate} bit/s");
    }
    emu.exit();
}

#[test]
fn what_a_set_says_of_protocols_holds_for_programs_on_its_hosts() {
    if !privileged() {
        return;
    }
    let dir = Scratch::new("transport");
    let said = dir.0.join("said");
    let show = format!("sh -c 'echo $WIFU_PROTOCOL' >>{}", said.display());
    let lines = format!(
        "n1 {WIFU} exec -p tcp-tahoe,iw=1 {show}\n\
         n1 {WIFU} exec -p tcp-tahoe {WIFU} exec -p tcp-tahoe,rto_min=1s {show}\n\
         n1 {WIFU} exec -p tcp-reno {show}\n\
         n1 timeout 20 {WIFU} perf -c 10.0.0.2 -C tcp-tahoe -t 1; echo $? >>{}\n",
        said.display()
    );
    let label = format!("t-transport-{}", std::process::id());
    let mut emu = std::process::Command::new(WIFU)
        .args(["emu", "--share", "--name", &label, "--topo", "stack"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("wifu emu");
    let mut stdin = emu.stdin.take().expect("piped");
    std::io::Write::write_all(&mut stdin, lines.as_bytes()).expect("lines");
    drop(stdin);
    let output = emu.wait_with_output().expect("it ends");
    let noted = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{noted}");
    assert!(noted.contains("tcp-tahoe has rto_min=100ms"), "{noted}");
    let said = std::fs::read_to_string(said).expect("said");
    let lines: Vec<&str> = said.lines().collect();
    // Nobody serves there, and nothing else keeps `wifu perf` either.
    let wanted = [
        "tcp-tahoe,iw=1,rto_min=100ms",
        "tcp-tahoe,rto_min=1s",
        "tcp-reno",
        "1",
    ];
    assert_eq!(lines, wanted, "{noted}");
}

/// What an emulation says of lines at its prompt: the JSON in the end, and standard error.
fn prompted(name: &str, args: &[&str], lines: &str) -> (Value, String) {
    let label = format!("t-{name}-{}", std::process::id());
    let mut emu = std::process::Command::new(WIFU)
        .args(["emu", "--share", "--json", "--name", &label])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("wifu emu");
    let mut stdin = emu.stdin.take().expect("piped");
    std::io::Write::write_all(&mut stdin, lines.as_bytes()).expect("lines");
    drop(stdin);
    let output = emu.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let all = serde_json::from_slice(&output.stdout);
    (all.unwrap_or_else(|e| panic!("{e}: {said}")), said)
}

#[test]
fn the_prompt_measures_protocols_of_ours_and_of_a_file_beside_the_kernels() {
    if !privileged() {
        return;
    }
    let dir = Scratch::new("prompt");
    let file = dir.0.join("mine.toml");
    let mine = "[protocol.mine]\nextends = \"tcp-newreno\"\nnumber = 241\n\
                [protocol.held]\nextends = \"tcp-newreno\"\nnumber = 242\n\
                [handlers.held]\nchain = [\"snoop\"]\n";
    std::fs::write(&file, mine).expect("file");
    let file = file.display().to_string();
    let args = ["--topo", "linear,3,rate=24M", "--file", &file];
    let lines = "iperf n1 n3 -n 300K -C tcp-newreno\nn3 iperf -C mine -n 300K n1\n\
                 n1 iperf -n 300K -C kernel:reno n3\n\
                 iperf n1 n3 -n 300K -R\niperf n1 n3 -n 300K --bidir\n\
                 iperf n1 n3 -u -b 50M -t 1\niperf n1 n3 --udp -b 1M -t 1 -R\n\
                 iperf n1 n3 --udp --bidir\niperf n1 n3 -C mnie\niperf n1 n3 -C held\n\
                 pignall\nrestart\n";
    let (all, said) = prompted("prompt", &args, lines);
    let tests = all["wifu"]["tests"]["iperf"].as_array().expect("tests");
    let over = |i: usize, key: &str| tests[i][key]["start"]["test_start"]["protocol"].clone();
    assert_eq!(tests.len(), 8, "{said}");
    assert_eq!(
        [over(0, "perf"), over(1, "perf"), over(2, "iperf3")],
        ["TCP-NEWRENO", "MINE", "TCP"]
    );
    let ways = tests.iter().map(|test| (&test["from"], &test["to"]));
    let ways: Vec<String> = ways.map(|(from, to)| format!("{from} {to}")).collect();
    let (there, back) = (r#""n1" "n3""#, r#""n3" "n1""#);
    // `-R` goes back, and `--bidir` both ways.
    let and_datagrams = [there, back, there, back, there, back, there, back];
    assert_eq!(ways, and_datagrams, "{said}");
    for test in tests {
        assert!(test["bits_per_second"].as_f64() > Some(2e5), "{test}");
    }
    // Daemons of the two ends, and of nobody else.
    let daemons = all["wifu"]["daemons"].as_object().expect("daemons");
    assert_eq!(daemons.keys().collect::<Vec<_>>(), ["n1", "n3"]);
    for wanted in [
        "did you mean `mine`?",
        "leave (`exit`), and start the hosts anew with `wifu emu --serve held`",
        "no command or host is called `pignall`; did you mean `pingall`?",
        "write restart N [SECONDS]",
        "-u with --bidir",
        "% of datagrams lost; n1 was held back, and sent ",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    assert!(!said.contains("snr A B DB"), "the whole list: {said}");
}

#[test]
fn iperf_in_the_background_leaves_the_prompt_to_others_and_tells_its_outcome() {
    if !privileged() {
        return;
    }
    let lines = "n1 iperf -t 3 -C reno n3 &\niperf n2 n3 -t 1 -C tcp-newreno\nwait\n\
                 iperf n3 n1 -t 1&\niperf n3 n1 -t abc &\n";
    let label = format!("t-behind-{}", std::process::id());
    let lines = format!("{lines}iperf n3 n1 -C bogus-x &\n");
    let mut emu = Command::new(WIFU);
    emu.args(["emu", "--share", "--json", "--name", &label]);
    emu.args(["--topo", "linear,3,rate=24M"]);
    emu.stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut emu = emu.spawn().expect("wifu emu");
    let mut typed = emu.stdin.take().expect("piped");
    typed.write_all(lines.as_bytes()).expect("lines");
    drop(typed);
    let output = emu.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let all: Value = serde_json::from_slice(&output.stdout).expect(&said);
    let tests = all["wifu"]["tests"]["iperf"].as_array().expect(&said);
    let ends = |of: &Value| format!("{}{}", of["from"], of["to"]).replace('"', "");
    let order: Vec<String> = tests.iter().map(ends).collect();
    assert_eq!(order, ["n2n3", "n1n3", "n3n1"], "{said}");
    let began = |of: &Value| {
        of["start"]["timestamp"]["timesecs"]
            .as_f64()
            .expect("a time")
    };
    let (front, behind) = (began(&tests[0]["perf"]), began(&tests[1]["iperf3"]));
    assert!(front - behind < 3.0, "both at once: {front} {behind}");
    assert!(
        said.contains("iperf n1 n3 -t 3 -C reno: in the background"),
        "{said}"
    );
    assert!(said.contains("waiting for iperf n3 n1 -t 1;"), "{said}");
    assert!(said.contains("commands that failed: 2"), "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
}

/// `wifu emu` reads signals from a descriptor; its hosts' programs must not inherit that.
#[test]
fn programs_of_the_prompt_hear_signals() {
    if !privileged() {
        return;
    }
    let dir = Scratch::new("signals");
    let file = dir.0.join("status");
    let lines = format!("n1 cp /proc/self/status {}\nquit\n", file.display());
    let (_, said) = prompted("signals", &["--topo", "linear,2"], &lines);
    let status = std::fs::read_to_string(&file).expect(&said);
    let blocked = status.lines().find_map(|l| l.strip_prefix("SigBlk:"));
    assert_eq!(blocked.map(str::trim), Some("0000000000000000"));
}

/// Whether a program with these words, each but the last with a NUL behind it, runs on a host.
fn runs(label: &str, node: &str, words: &str) -> bool {
    let name = format!("wifu-{label}-{node}");
    let pids = Command::new("ip").args(["netns", "pids", &name]).output();
    let pids = String::from_utf8_lossy(&pids.expect("ip").stdout).into_owned();
    pids.lines().any(|pid| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
        line.is_ok_and(|line| line.contains(words))
    })
}

/// Its end tells what it was asked for just before once, as far as that is still the same.
#[test]
fn a_status_that_was_just_told_is_not_told_again() {
    if !privileged() {
        return;
    }
    let said = |lines: &str| {
        let label = format!("t-status-{}", std::process::id());
        let mut emu = Command::new(WIFU)
            .args(["emu", "--share", "--topo", "linear,2", "--name", &label])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("wifu emu");
        let mut stdin = emu.stdin.take().expect("piped");
        stdin.write_all(lines.as_bytes()).expect("lines");
        drop(stdin);
        let output = emu.wait_with_output().expect("it ends");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let count = |text: &str, of: &str| text.matches(of).count();
    let twice = said("status\nexit\n");
    assert_eq!(count(&twice, "radio events"), 1, "{twice}");
    assert_eq!(count(&twice, "of model time ("), 2, "both stamps: {twice}");
    let later = said("status\nn1 true\nexit\n");
    assert_eq!(count(&later, "radio events"), 2, "{later}");
}

/// At a terminal, as `script` (util-linux) makes one.
#[test]
fn a_ctrl_c_where_nothing_runs_says_how_to_end() {
    if !privileged() {
        return;
    }
    let dir = Scratch::new("terminal");
    let line = format!("{WIFU} emu --share --name terminal --topo linear,2");
    let mut script = Command::new("script");
    script
        .args(["-qefc", &line, "/dev/null"])
        .current_dir(&dir.0);
    script.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = script.spawn().expect("script");
    let (mut typed, mut shown) = (child.stdin.take().expect("a pipe"), child.stdout.take());
    let mut until = |wanted: &str| {
        let (mut text, mut octet) = (String::new(), [0]);
        while !text.ends_with(wanted) {
            let read = shown.as_mut().expect("a pipe").read(&mut octet);
            assert_eq!(read.expect("output"), 1, "{wanted}: {text}");
            text.push(char::from(octet[0]));
        }
    };
    until("wifu> ");
    let inside = "ip netns pids wifu-terminal-n1 | xargs -I{} cat /proc/{}/comm";
    let pings = format!("n1 echo $({inside} | grep -c ping) pings\r");
    let mut type_in = |keys: &str, then: &[&str]| {
        typed.write_all(keys.as_bytes()).expect("typed");
        then.iter().for_each(|wanted| until(wanted));
    };
    let told = ["another Ctrl-C ends the emulation)", "wifu> "];
    type_in("\x03", &told);
    type_in("nothing\r", &["hosts are n1 to n2", "wifu> "]);
    // Ctrl-C is for what runs in front, and what runs behind goes on.
    type_in("n1 ping -q 10.0.0.2 >ping 2>&1 &\r", &["wifu> "]);
    type_in("\x03", &told);
    type_in("n1 ping -c1000 n2\r", &["icmp_seq=1 "]);
    type_in("\x03", &["packets transmitted", "wifu> "]);
    type_in("n1 ping -c1000 n2\r", &["icmp_seq=1 "]);
    type_in("\x1a", &["goes on in the background", "wifu> "]);
    type_in("\x03", &told);
    type_in(&pings, &["2 pings", "wifu> "]);
    // One process: a shell whose child ends by itself as the key comes would go on to the next.
    type_in("sh echo $((40 + 2)); exec sleep 100\r", &["42\r\n"]);
    type_in("\x03", &["wifu> "]);
    type_in("iperf n1 n2 -t 100 -C tcp-newreno\r", &[]);
    assert!(within(20, || runs("terminal", "n1", "perf\0-J\0-c")));
    type_in(
        "\x03",
        &["-C tcp-newreno: interrupted before it was over", "wifu> "],
    );
    type_in("\x03", &told);
    type_in("\x03", &[]);
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(128 + 2), "by the second in a row");
}

#[test]
fn unmodified_programs_run_over_wifu_on_emulated_hosts() {
    if !privileged() {
        return;
    }
    let dir = Scratch::new("exec");
    let emu = Emu::start("exec", &["--topo", "linear,3,rate=24M"]);
    let daemons = ["n1", "n3"].map(|node| {
        let mut daemon = emu.namespace(node).command(WIFU).expect("namespace");
        daemon.arg("daemon");
        Program::start(daemon, &dir.0.join(node), "ready: ")
    });
    for (port, spec) in ["tcp-newreno", "tcp-cubic"].into_iter().enumerate() {
        let port = (7001 + port).to_string();
        let mut server = command(&emu.namespace("n3"), Some(spec));
        server.args(["serve", "10.0.0.3", &port]);
        let _server = Program::start(server, &dir.0.join(&port), "listening");
        let kernel = text(&emu, "n1", "cat /proc/net/snmp");
        let mut client = command(&emu.namespace("n1"), Some(spec));
        client.args(["send", "10.0.0.3", &port, "300000", "30"]);
        let output = client.stdin(Stdio::null()).output().expect("python3");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said.trim(), "exact", "{spec}: {wrong}");
        let after = text(&emu, "n1", "cat /proc/net/snmp");
        let opened = |text: &str| -> String {
            let line = text.lines().filter(|l| l.starts_with("Tcp:")).nth(1);
            line.and_then(|l| l.split(' ').nth(5))
                .expect("ActiveOpens")
                .into()
        };
        assert_eq!(
            opened(&kernel),
            opened(&after),
            "{spec}: not the kernel's TCP"
        );
    }
    drop(daemons);
    emu.exit();
}

#[test]
fn a_routing_daemon_finds_the_way_and_another_one_when_a_link_is_cut() {
    if !privileged() {
        return;
    }
    let dir = Scratch::new("babel");
    let file = dir.0.join("diamond.toml");
    // n1 and n4 do not hear each other; n2 and n3 are between, n2 the better one.
    let table = "[matrix]\nsnr_db = [[nan, 30.0, 30.0, -30.0], [30.0, nan, -30.0, 30.0], \
                 [30.0, -30.0, nan, 30.0], [-30.0, 30.0, 30.0, nan]]\n\
                 [[node]]\nname = \"n1\"\n[[node]]\nname = \"n2\"\n\
                 [[node]]\nname = \"n3\"\n[[node]]\nname = \"n4\"\n";
    std::fs::write(&file, table).expect("file");
    let topo = file.display().to_string();
    let emu = Emu::start("babel", &["--topo", &topo, "--routing", "none"]);
    let answers = || emu.ping("n1", "-n -c 2 -i 0.2 -W 1 10.0.0.4").len();
    assert_eq!(answers(), 0, "there is no route yet");
    let _daemons: Vec<Program> = ["n1", "n2", "n3", "n4"]
        .iter()
        .map(|node| {
            let mut daemon = emu.namespace(node).command("babeld").expect("namespace");
            let at = |end: &str| dir.0.join(format!("{node}.{end}"));
            daemon.arg("-I").arg(at("pid")).arg("-S").arg(at("state"));
            // Hellos each half second, so that a lost link is noticed soon; addresses of
            // interfaces are announced as routes of one host.
            let redistribute = "redistribute local ip 10.0.0.0/24 allow";
            daemon.args(["-h", "0.5", "-H", "0.5", "-C", redistribute]);
            daemon.args(["-C", "redistribute local deny", "wlan0"]);
            Program::start(daemon, &at("log"), "")
        })
        .collect();
    assert!(
        within(30, || answers() == 2),
        "{}",
        text(&emu, "n1", "ip route")
    );
    let way = || text(&emu, "n1", "ip route get 10.0.0.4");
    let first = way();
    let (used, other) = match first.contains("via 10.0.0.2") {
        true => ("n2", "10.0.0.3"),
        false => ("n3", "10.0.0.2"),
    };
    println!("first: {}", first.trim());
    emu.done(&format!("cut n1 {used}"));
    let begun = Instant::now();
    let moved = within(40, || way().contains(&format!("via {other}")));
    println!("moved after {:?}: {}", begun.elapsed(), way().trim());
    assert!(moved, "{}", way());
    assert!(within(10, || answers() == 2), "{}", way());
    emu.exit();
}

/// What tcpdump with these words shows on n3 while n1 pings n2.
pub fn dump(emu: &Emu, words: &str) -> String {
    let mut capture = emu.namespace("n3").command("tcpdump").expect("namespace");
    capture.args(["-l", "-n", "-e"]).args(words.split(' '));
    let capture = capture.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut capture = capture.expect("tcpdump");
    let over = within(15, || {
        emu.ping("n1", "-n -c 2 -i 0.05 -W 1 10.0.0.2");
        capture.try_wait().expect("wait").is_some()
    });
    let _ = capture.kill();
    let output = capture.wait_with_output().expect("tcpdump");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(over, "n3 did not hear enough: {said}");
    said
}

#[test]
fn tcpdump_shows_frames_for_others() {
    if !privileged() {
        return;
    }
    let emu = Emu::start("dump", &["--topo", "linear,3"]);
    let said = dump(&emu, "-c 2 -i wlan0 icmp and dst 10.0.0.2");
    let line = said.lines().next().expect("a line");
    assert!(
        line.contains("02:57:69:46:00:01 > 02:57:69:46:00:02"),
        "{line}"
    );
    assert!(
        line.contains("10.0.0.1 > 10.0.0.2: ICMP echo request"),
        "{line}"
    );
    emu.exit();
}

/// Transmissions of data per packet that arrives at n2 from n1 and n3, which flood it.
fn effort(dir: &Scratch, hidden: bool, words: &[&str]) -> f64 {
    let snr = if hidden { "-20.0" } else { "20.0" };
    let file = dir.0.join("triangle.toml");
    let table = format!(
        "[matrix]\nsnr_db = [[nan, 20.0, {snr}], [20.0, nan, 20.0], [{snr}, 20.0, nan]]\n\
         [[node]]\nname = \"n1\"\n[[node]]\nname = \"n2\"\n[[node]]\nname = \"n3\"\n"
    );
    std::fs::write(&file, table).expect("file");
    let topo = file.display().to_string();
    let emu = Emu::start("rts", &[&["--topo", &topo], words].concat());
    let floods = ["n1", "n3"].map(|n| Flood::start(&emu.namespace(n), "10.0.0.2", 1000));
    let count = || {
        let ends = [emu.link("n1", "n2"), emu.link("n3", "n2")];
        let sum = |key: &str| ends.iter().flat_map(|l| l[key].as_f64()).sum::<f64>();
        [sum("attempts"), sum("acked"), sum("failed")]
    };
    std::thread::sleep(Duration::from_millis(500));
    let before = count();
    std::thread::sleep(Duration::from_secs(2));
    let after = count();
    drop(floods);
    emu.exit();
    let [attempts, acked, failed] = [0, 1, 2].map(|i| after[i] - before[i]);
    println!("hidden {hidden} {words:?}: {attempts} sent, {acked} arrived, {failed} lost");
    attempts / acked.max(1.0)
}

#[test]
fn rts_helps_hidden_nodes() {
    if !privileged() {
        return;
    }
    let dir = Scratch::new("rts");
    let heard = effort(&dir, false, &[]);
    let hidden = effort(&dir, true, &[]);
    let asked = effort(&dir, true, &["radio.rts_threshold=0"]);
    println!("{heard:.2} transmissions per packet heard, {hidden:.2} hidden, {asked:.2} with RTS");
    assert!(hidden > 1.7 * heard, "{hidden} and {heard}");
    assert!(asked < 0.6 * hidden, "{asked} and {hidden}");
}

#[test]
fn a_file_for_mininet_becomes_hosts_with_radios() {
    if !privileged() {
        return;
    }
    let dir = Scratch::new("custom");
    let file = dir.0.join("mytopo.py");
    let text = "from mininet.topo import Topo\n\
                class Row(Topo):\n\
                \x20   def build(self, n=2):\n\
                \x20       hosts = [self.addHost(f'h{i}') for i in range(1, n + 1)]\n\
                \x20       for a, b in zip(hosts, hosts[1:]):\n\
                \x20           self.addLink(a, b, snr=21, reverse_snr=19, bw=10)\n\
                print('loading')\n\
                topos = {'row': Row}\n";
    std::fs::write(&file, text).expect("file");
    let run = |custom: &Path, more: &[&str]| {
        let _alone = super::ONE.lock().unwrap_or_else(|e| e.into_inner());
        let label = format!("t-custom-{}", std::process::id());
        let mut command = std::process::Command::new(WIFU);
        command.args(["emu", "--share", "--name", &label, "--custom"]);
        command.arg(custom).args(more).stdin(Stdio::null());
        let output = command.output().expect("wifu emu");
        let both = [&output.stdout, &output.stderr];
        let [said, wrong] = both.map(|b| String::from_utf8_lossy(b).into_owned());
        (output.status.success(), said, wrong)
    };
    let (fine, said, wrong) = run(&file, &["--topo", "row,3", "--json", "--test", "pingall"]);
    assert!(fine, "{wrong}");
    assert!(wrong.contains("ignored options of links: bw"), "{wrong}");
    assert!(wrong.contains("loading"), "{wrong}");
    let all: Value = serde_json::from_str(&said).expect("JSON alone");
    let all = &all["wifu"];
    assert_eq!(all["tests"]["pingall"]["received"], 6, "h1 to h3 over h2");
    let rows = all["links"].as_array().expect("links");
    let snr = |from: &str, to: &str| {
        let row = rows.iter().find(|l| l["from"] == from && l["to"] == to);
        row.and_then(|l| l["snr_db"].as_f64()).map(f64::round)
    };
    assert_eq!((snr("h1", "h2"), snr("h2", "h1")), (Some(21.0), Some(19.0)));
    assert!(
        snr("h1", "h3").is_none_or(|db| db < -20.0),
        "{:?}",
        snr("h1", "h3")
    );
    let (fine, _, wrong) = run(&file, &["--topo", "ring", "--dry-run"]);
    assert!(!fine && wrong.contains("has row"), "{wrong}");
    // Privileged steps, where they are asked for.
    let (fine, _, wrong) = run(&file, &["--verbosity", "debug", "--test", "pingall"]);
    assert!(
        fine && wrong.contains("ip netns add wifu-t-custom"),
        "{wrong}"
    );
    let pair = dir.0.join("pair.toml");
    std::fs::write(&pair, "words = \"linear,3\"\n").expect("file");
    let (fine, said, wrong) = run(&pair, &["--dry-run"]);
    assert!(
        fine && said.contains("ip netns add") && said.contains("-n3"),
        "{wrong}"
    );
    let (fine, _, wrong) = run(&pair, &["--topo", "linear,3", "--dry-run"]);
    assert!(!fine && wrong.contains("leave out --topo"), "{wrong}");
}

#[test]
fn the_map_updates_on_a_terminal_until_a_key_is_pressed() {
    use std::io::{Read as _, Write as _};
    if !privileged() {
        return;
    }
    let _alone = super::ONE.lock().unwrap_or_else(|e| e.into_inner());
    let label = format!("t-map-{}", std::process::id());
    // A terminal of 24 lines, which `script` makes.
    let line = format!("stty rows 24 cols 80; {WIFU} emu --share --name {label} --topo grid,5,4");
    let mut terminal = std::process::Command::new("script");
    terminal.args(["-q", "-e", "-c", &line, "/dev/null"]);
    let terminal = terminal.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = terminal.spawn().expect("script");
    let mut keys = child.stdin.take().expect("piped");
    let mut screen = child.stdout.take().expect("piped");
    let said = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let copy = said.clone();
    let reader = std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(n @ 1..) = screen.read(&mut piece) {
            let text = String::from_utf8_lossy(&piece[..n]).into_owned();
            copy.lock().expect("no panic").push_str(&text);
        }
    });
    let shows = |what: &str, times: usize| {
        within(20, || {
            said.lock().expect("no panic").matches(what).count() >= times
        })
    };
    assert!(shows("wifu> ", 1));
    keys.write_all(b"pause n3\nmap\n").expect("keys");
    const CLEAR: &str = "\x1b[H\x1b[2J";
    assert!(shows(CLEAR, 3), "{}", said.lock().expect("no panic"));
    keys.write_all(b"x").expect("keys");
    assert!(shows("wifu> ", 3), "the prompt is back");
    keys.write_all(b"n1 echo back on n1\nexit\n").expect("keys");
    assert!(within(20, || child.try_wait().expect("wait").is_some()));
    drop(keys);
    reader.join().expect("no panic");
    let said = said.lock().expect("no panic").clone();
    assert!(child.wait().expect("wait").success(), "{said}");
    let pictures: Vec<&str> = said.split(CLEAR).collect();
    let picture = pictures[2];
    assert!(
        picture.contains("xn3") && picture.contains("on2"),
        "{picture}"
    );
    assert!(picture.contains("any key: back to the prompt"), "{picture}");
    assert!(picture.lines().count() <= 24, "{picture}");
    assert!(said.contains("back on 10.0.0.1"), "{said}");
}
