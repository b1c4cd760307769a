//! ATP between unmodified programs, its collectors on the kernels of all hosts.

use super::soak::{Program, command};
use super::*;

/// curl fetches `bytes` from a web server over three hops with daemons that serve ATP, after the
/// prompt obeyed `first`; the outcome's daemons, and what was said by the name of a file. `ss` is
/// the last that the server's host told while it had the connection, which does not stay for long.
fn fetch(name: &str, bytes: usize, first: &str) -> Option<(Value, impl Fn(&str) -> String)> {
    let alone = privileged().then(|| ONE.lock().unwrap_or_else(|e| e.into_inner()))?;
    let dir = Scratch::new(name);
    let made: Vec<u8> = (0..bytes).map(|n| ((n * n) >> 8) as u8).collect();
    std::fs::write(dir.0.join("file"), made).expect("a file");
    let label = format!("t-{name}-{}", std::process::id());
    let log = format!("/run/wifu/emu/{label}/n1/daemon.log");
    let (at, over) = (dir.0.display(), format!("{WIFU} exec -p atp-adaptive --"));
    let lines = format!(
        "{first}\
         n4 cd {at}; {over} python3 -um http.server 8000 --bind 10.0.0.4 >server 2>&1 & \
            echo $! >{at}/pid; {AWAIT} Serving {at}/server\n\
         n4 while sleep 0.1; do {WIFU} ss >{at}/new; grep -q atp {at}/new && mv {at}/new {at}/ss; \
            done & echo $! >{at}/watch\n\
         n1 cd {at}; {over} curl -sS -m 60 -o got http://10.0.0.4:8000/file >curl 2>&1; \
            cmp file got >cmp 2>&1 && echo same >>cmp; true\n\
         n4 kill $(cat {at}/watch)\n\
         sh cp {log} {at}/log\n\
         n4 kill $(cat {at}/pid)\n"
    );
    let mut emu = Command::new(WIFU);
    emu.args(["emu", "--share", "--name", &label, "--json"]);
    emu.args(["--topo", "linear,4,rate=24M", "--serve", "atp-adaptive"]);
    let emu = emu.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut emu = emu.expect("wifu emu");
    let mut stdin = emu.stdin.take().expect("piped");
    stdin.write_all(lines.as_bytes()).expect("lines");
    drop(stdin);
    let output = emu.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let read = move |name: &str| {
        let _alone = &alone;
        std::fs::read_to_string(dir.0.join(name)).expect("what was said")
    };
    assert_eq!(read("cmp").trim(), "same", "{}", read("curl"));
    Some((all["wifu"]["daemons"].clone(), read))
}

#[test]
fn curl_fetches_over_atp_with_a_collector_on_each_hop() {
    let Some((daemons, read)) = fetch("atp", 2_000_000, "") else {
        return;
    };
    for name in ["n2", "n3", "n4"] {
        let collector = &daemons[name]["handlers"][0];
        println!("{name}: {collector}");
        assert_eq!(collector["name"], "delay-collector");
        // It counts itself in all data.
        assert!(collector["changed"].as_u64() > Some(1_396), "{collector}");
    }
    let ss = read("ss");
    assert!(
        ss.contains("atp-adaptive") && !ss.contains("unserved"),
        "{ss}"
    );
    let curl = read("curl");
    assert!(!curl.contains("no parameter"), "{curl}");
}

#[test]
fn a_relay_that_does_not_collect_is_named_and_passes_packets_on() {
    let Some((daemons, read)) = fetch("atp-less", 300_000, "kill n2\n") else {
        return;
    };
    assert!(daemons["n3"]["handlers"][0]["changed"].as_u64() > Some(209));
    let (ss, log) = (read("ss"), read("log"));
    let unserved = ss
        .split("unserved:")
        .nth(1)
        .unwrap_or_else(|| panic!("{ss}"));
    let count: u64 = unserved
        .split(' ')
        .next()
        .unwrap_or_default()
        .parse()
        .expect("a count");
    // Feedback, which tells of the way there.
    assert!(count > 5, "{ss}");
    println!("{log}");
    assert!(
        log.contains("atp-adaptive") && log.contains("serve"),
        "{log}"
    );
}

/// Ends a daemon as a service manager does; gives its counters.
fn counted(daemon: &mut Program) -> Value {
    kill_process(Pid::from_child(&daemon.0), Signal::TERM).expect("signal");
    assert!(
        daemon.0.wait().expect("its end").success(),
        "{}",
        daemon.said()
    );
    let said = daemon.said();
    let counted = said.lines().find_map(|l| l.split_once("counted: "));
    serde_json::from_str(counted.expect("counters").1).expect("JSON")
}

/// The same in datagrams of UDP, with daemons that were started on each host.
#[test]
fn on_emulated_hosts_relays_collect_from_datagrams() {
    if !privileged() {
        return;
    }
    let dir = Scratch::new("in-udp-said");
    let emu = Emu::start("in-udp", &["--topo", "linear,3,rate=24M"]);
    let mut daemons: Vec<Program> = ["n1", "n2", "n3"]
        .into_iter()
        .map(|node| {
            let mut daemon = emu.namespace(node).command(WIFU).expect("namespace");
            daemon.args(["daemon", "--serve", "atp-adaptive", "--monitor", "mon0"]);
            if node != "n2" {
                daemon.args(["--carrier", "raw", "--carrier", "udp"]);
            }
            Program::start(daemon, &dir.0.join(node), "ready: ")
        })
        .collect();
    let spec = "atp-adaptive,carrier=udp";
    let mut server = command(&emu.namespace("n3"), Some(spec));
    server.args(["serve", "10.0.0.3", "9438"]);
    let server = Program::start(server, &dir.0.join("server"), "listening");
    let mut client = command(&emu.namespace("n1"), Some(spec));
    client.args(["send", "10.0.0.3", "9438", "300000", "60"]);
    let output = client.stdin(Stdio::null()).output().expect("python3");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.trim(), "exact", "{wrong}");
    drop(server);
    let counted: Vec<Value> = daemons.iter_mut().map(counted).collect();
    for counted in &counted {
        let collector = &counted["handlers"][0];
        assert_eq!(collector["name"], "delay-collector");
        assert!(
            collector["changed"].as_u64() > Some(300_000 / 1432),
            "{collector}"
        );
        assert_eq!(counted["unserved"], serde_json::json!({}));
    }
    assert!(counted[1]["packets"]["forwarded"].as_u64() > Some(300_000 / 1432));
    emu.exit();
}
