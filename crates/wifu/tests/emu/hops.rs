//! `--serve`: daemons on all hosts run what a composition brings, and touch nothing else.

use super::*;

/// Snoop on every node; a number of its own.
const SNOOPED: &str = "[protocol.snooped]\nextends = \"tcp-newreno\"\nnumber = 245\n\
    [handlers.snooped]\nchain = [\"snoop\"]\n";

/// Hosts for one test at a time, with a folder; none without the right to make them.
fn hosts(name: &str) -> Option<(std::sync::MutexGuard<'static, ()>, Scratch)> {
    let alone = privileged().then(|| ONE.lock().unwrap_or_else(|e| e.into_inner()))?;
    Some((alone, Scratch::new(name)))
}

#[test]
fn snoop_resends_on_a_relay_and_all_else_is_the_kernels() {
    let Some((_alone, dir)) = hosts("hops") else {
        return;
    };
    let file = dir.0.join("own.toml");
    std::fs::write(&file, SNOOPED).expect("a file");
    let peer = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/emu/peer.py");
    let label = format!("t-hops-{}", std::process::id());
    let log = format!("/run/wifu/emu/{label}/n2/daemon.log");
    let over = format!("{WIFU} exec -p snooped -- python3 {peer}");
    let kernel = format!("python3 {peer}");
    let (said, rules) = (dir.0.join("said"), dir.0.join("rules"));
    let (said, rules) = (said.display(), rules.display());
    // One frame in ten or so is lost on the last link, and not repeated.
    let lines = format!(
        "kill n2\nserve n2\n\
         sh cp {log} {said}.log\n\
         n2 nft add table inet others\n\
         n2 nft list ruleset >{rules}.before\n\
         snr n2 n3 15.6\n\
         n3 {over} serve 10.0.0.3 7000 >{said}.server & echo $! >>{said}.pids; \
            {AWAIT} listening {said}.server\n\
         n3 {kernel} serve 10.0.0.3 7001 >{said}.kernel & echo $! >>{said}.pids; \
            {AWAIT} listening {said}.kernel\n\
         n1 {over} send 10.0.0.3 7000 300000 60 >{said}.client\n\
         n1 {kernel} send 10.0.0.3 7001 100000 60 >{said}.clientk\n\
         n1 ping -c3 -i0.2 10.0.0.2 >{said}.ping\n\
         n2 for p in $(ip netns pids $(ip netns identify)); do \
            grep -qx wifu /proc/$p/comm && grep Cap /proc/$p/status; done >{said}.caps; true\n\
         n2 nft list ruleset >{rules}.after\n\
         n3 kill $(cat {said}.pids)\n"
    );
    let mut emu = Command::new(WIFU);
    emu.args(["emu", "--share", "--name", &label, "--json"]);
    emu.args([
        "--topo",
        "linear,3,rate=24M,attempts=1",
        "--serve",
        "snooped",
    ]);
    let mut emu = emu
        .arg("--file")
        .arg(&file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("wifu emu");
    let mut stdin = emu.stdin.take().expect("piped");
    stdin.write_all(lines.as_bytes()).expect("lines");
    drop(stdin);
    let output = emu.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let read = |name: &str| std::fs::read_to_string(dir.0.join(name)).expect(name);
    assert_eq!(read("said.client").trim(), "exact");
    assert_eq!(read("said.clientk").trim(), "exact");
    assert!(read("said.ping").contains(" 0% packet loss"));
    let starts = read("said.log").matches("ready: ").count();
    assert_eq!(
        starts,
        2,
        "also what the killed one said: {}",
        read("said.log")
    );
    let caps = read("said.caps");
    assert!(caps.contains("CapEff"), "the daemon is found");
    for line in caps.lines().filter(|l| !l.starts_with("CapBnd")) {
        assert!(line.ends_with("\t0000000000000000"), "{line}");
    }
    let before = read("rules.before");
    assert!(before.contains("table inet others"), "{before}");
    assert_eq!(before, read("rules.after"));
    let relay = &all["wifu"]["daemons"]["n2"];
    let snoop = &relay["handlers"][0];
    println!("{snoop}");
    assert!(snoop["sent"].as_u64() > Some(5), "{snoop}");
    assert!(snoop["counts"]["resent"].as_u64() > Some(0), "{snoop}");
    assert_eq!(relay["packets"]["route"], 0);
}

/// Between kernels the shim goes in and comes out in the ends' daemons and is raised in all of
/// them, in both directions; what it brings back sets the interval.
#[test]
fn the_delay_of_the_slowest_host_comes_back_in_tp_alphas_shim() {
    let Some((_alone, dir)) = hosts("tpa") else {
        return;
    };
    let peer = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/emu/peer.py");
    let over = format!("{WIFU} exec -p tp-alpha -- python3 {peer}");
    let said = dir.0.join("said");
    let said = said.display();
    let lines = format!(
        "n4 {over} serve 10.0.0.4 7000 >{said}.server & echo $! >{said}.pid; \
            {AWAIT} listening {said}.server\n\
         n1 {over} send 10.0.0.4 7000 1000000 60 >{said}.client &\n\
         n1 for i in $(seq 60); do test -s {said}.client && break; \
            timeout 1 {WIFU} ss --watch --json --interval 0.05; done >{said}.watch 2>&1\n\
         n4 kill $(cat {said}.pid)\n"
    );
    let label = format!("t-tpa-{}", std::process::id());
    let mut emu = Command::new(WIFU);
    emu.args(["emu", "--share", "--name", &label, "--json"]);
    emu.args(["--topo", "linear,4,rate=24M", "--serve", "tp-alpha"]);
    let emu = emu.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut emu = emu.spawn().expect("wifu emu");
    let mut stdin = emu.stdin.take().expect("piped");
    stdin.write_all(lines.as_bytes()).expect("lines");
    drop(stdin);
    let output = emu.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let read = |name: &str| std::fs::read_to_string(dir.0.join(name)).expect(name);
    assert_eq!(read("said.client").trim(), "exact");
    for name in ["n1", "n2", "n3", "n4"] {
        let daemon = &all["wifu"]["daemons"][name];
        let shim = &daemon["handlers"][0];
        println!("{name}: {shim}");
        assert_eq!(shim["name"], "tpa-shim");
        // 697 segments each way.
        assert!(shim["changed"].as_u64() > Some(1_394), "{name}: {shim}");
        assert_eq!(daemon["packets"]["route"], 0, "{name}");
    }
    let values = |name: &str| -> Vec<f64> {
        let lines = read("said.watch");
        let lines = lines.lines().flat_map(serde_json::from_str::<Value>);
        lines.filter_map(|l| l["values"][name].as_f64()).collect()
    };
    let (ds, d) = (values("tpa-rate.ds_us"), values("tpa-rate.d_us"));
    println!("{ds:?} {d:?}");
    // A frame at 24 Mb/s takes half a millisecond, and no node here says less on data.
    assert!(d.iter().any(|us| *us > 300.0), "{d:?}");
    assert!(ds.iter().any(|us| *us < 20_000.0), "{ds:?}");
}

/// What packets cost a stack in Python, in the daemons: both ends count it, the relay does not.
#[test]
fn daemons_take_the_time_of_a_stack_in_python() {
    let Some((_alone, dir)) = hosts("py") else {
        return;
    };
    let (own, scene) = (dir.0.join("own.toml"), dir.0.join("scene.toml"));
    std::fs::write(&own, SNOOPED).expect("a file");
    let text = "host.profile = \"py\"\ntopology = { words = \"linear,3\", set = \"TB-W3\" }\n";
    std::fs::write(&scene, text).expect("a file");
    let peer = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/emu/peer.py");
    let over = format!("{WIFU} exec -p snooped -- python3 {peer}");
    let said = dir.0.join("said");
    let said = said.display();
    let lines = format!(
        "n3 {over} serve 10.0.0.3 7000 >{said}.server & echo $! >{said}.pid; \
            {AWAIT} listening {said}.server\n\
         n1 {over} send 10.0.0.3 7000 300000 60 >{said}.client\n\
         n3 kill $(cat {said}.pid)\n"
    );
    let label = format!("t-py-{}", std::process::id());
    let mut emu = Command::new(WIFU);
    emu.args(["emu", "--share", "--name", &label, "--json", "--scenario"]);
    emu.arg(&scene)
        .args(["--serve", "snooped", "--dilation", "2", "--file"]);
    let emu = emu.arg(&own).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut emu = emu.spawn().expect("wifu emu");
    let mut stdin = emu.stdin.take().expect("piped");
    stdin.write_all(lines.as_bytes()).expect("lines");
    drop(stdin);
    let output = emu.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let client = std::fs::read_to_string(dir.0.join("said.client")).expect("client");
    assert_eq!(client.trim(), "exact");
    let host = |name: &str| all["wifu"]["daemons"][name]["host"].clone();
    for name in ["n1", "n3"] {
        let host = host(name);
        println!("{name}: {host}");
        let number = |key: &str| host[key].as_f64().unwrap_or_else(|| panic!("{host}"));
        let (sent, received) = (number("sent"), number("received"));
        assert!(
            sent > 207.0 && received > 100.0 || received > 207.0,
            "{host}"
        );
        // By the clock of the radios, which is half as fast as that on the wall.
        let took = 1.2e-3 * sent + 0.6e-3 * received;
        assert!((number("busy_s") - took).abs() < 1e-6, "{host}");
    }
    assert_eq!(host("n2")["sent"], 0, "a relay forwards as before");
}

/// The kernel's TCP over such a link, with a handler of `wifu core` at the relay before it.
#[test]
fn snoop_resends_for_the_kernels_tcp_as_well() {
    let Some((_alone, dir)) = hosts("snoop-core") else {
        return;
    };
    let file = dir.0.join("core.toml");
    std::fs::write(
        &file,
        "[[handler]]\nuse = \"snoop\"\nhooks = [\"forward\"]\n",
    )
    .expect("a file");
    let peer = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/emu/peer.py");
    let said = dir.0.join("said");
    let (said, file) = (said.display(), file.display());
    let lines = format!(
        "snr n2 n3 15.6\n\
         n2 {WIFU} core --config {file} >{said}.core 2>{said}.log & echo $! >{said}.pid; \
            {AWAIT} ready {said}.log {said}.core\n\
         n3 python3 {peer} serve 10.0.0.3 7001 >{said}.server & echo $! >{said}.pids; \
            {AWAIT} listening {said}.server\n\
         n1 python3 {peer} send 10.0.0.3 7001 1000000 60 >{said}.client\n\
         n2 kill $(cat {said}.pid); while kill -0 $(cat {said}.pid) 2>&-; do sleep 0.05; done\n\
         n3 kill $(cat {said}.pids)\n"
    );
    let label = format!("t-snoop-{}", std::process::id());
    let mut emu = Command::new(WIFU);
    emu.args(["emu", "--share", "--name", &label, "--json"]);
    let mut emu = emu
        .args(["--topo", "linear,3,rate=24M,attempts=1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("wifu emu");
    let mut stdin = emu.stdin.take().expect("piped");
    stdin.write_all(lines.as_bytes()).expect("lines");
    drop(stdin);
    assert!(emu.wait().expect("it ends").success());
    let read = |name: &str| std::fs::read_to_string(dir.0.join(name)).expect(name);
    assert_eq!(read("said.client").trim(), "exact", "{}", read("said.log"));
    let told = read("said.core");
    let report = told.lines().last().expect("a report");
    let report: Value = serde_json::from_str(report).expect("JSON");
    let snoop = &report["handlers"][0];
    println!("{snoop}");
    let [counts, sent] = [&snoop["counts"], &snoop["sent"]];
    // The kernel's own probes are quick to repair as well: Snoop comes first for a few only.
    assert!(sent.as_u64() > Some(5), "{snoop}");
    assert!(counts["dup_acks_held"].as_u64() > Some(0), "{snoop}");
}
