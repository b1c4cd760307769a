//! ATP between unmodified programs, its collectors on the kernels of all hosts.

use super::*;

/// curl fetches `bytes` from a web server over three hops with daemons that serve ATP, after the
/// prompt obeyed `first`; the outcome's daemons, and what was said by the name of a file.
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
            echo $! >{at}/pid; until grep -q Serving {at}/server; do sleep 0.05; done\n\
         n1 cd {at}; {over} curl -sS -m 60 -o got http://10.0.0.4:8000/file >curl 2>&1; \
            cmp file got >cmp 2>&1 && echo same >>cmp; true\n\
         n4 {WIFU} ss >{at}/ss\n\
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
