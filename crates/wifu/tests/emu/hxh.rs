//! HxH and Hop between unmodified programs: lanes in the daemons of all hosts, which overhear by
//! monitor interfaces.

use super::*;

fn number(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("{key} in {of}"))
}

/// curl fetches `bytes` from a web server over four hops, while the prompt obeys `midst`; the
/// daemons' accounts, and what the relay n3 said of its lanes while it lasted.
fn fetch(protocol: &str, bytes: usize, midst: &str) -> Option<(Value, String)> {
    let _alone = privileged().then(|| ONE.lock().unwrap_or_else(|e| e.into_inner()))?;
    let name = format!("hxh{}{}", protocol.len(), midst.len());
    let dir = Scratch::new(&name);
    let made: Vec<u8> = (0..bytes).map(|n| ((n * n) >> 8) as u8).collect();
    std::fs::write(dir.0.join("file"), made).expect("a file");
    let label = format!("t-{name}-{}", std::process::id());
    let (at, over) = (dir.0.display(), format!("{WIFU} exec -p {protocol} --"));
    let lines = format!(
        "n5 cd {at}; {over} python3 -um http.server 8000 --bind 10.0.0.5 >server 2>&1 & \
            echo $! >{at}/pid; {AWAIT} Serving {at}/server\n\
         n3 for i in $(seq 60); do timeout 1 {WIFU} ss --watch --json --interval 0.05; \
            test -e {at}/cmp && break; done >{at}/watch 2>&1 &\n\
         n1 (cd {at}; {over} curl -sS -m 100 -o got http://10.0.0.5:8000/file >curl 2>&1; \
            cmp file got >cmp 2>&1 && echo same >>cmp; echo over >ended) &\n\
         {midst}\
         n1 for i in $(seq 5); do {AWAIT} over {at}/ended && break; done 2>&-; true\n\
         n5 kill $(cat {at}/pid)\n"
    );
    let mut emu = Command::new(WIFU);
    emu.args(["emu", "--share", "--name", &label, "--json"]);
    emu.args(["--topo", "linear,5,rate=24M", "--serve", protocol]);
    let emu = emu.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut emu = emu.expect("wifu emu");
    let mut stdin = emu.stdin.take().expect("piped");
    stdin.write_all(lines.as_bytes()).expect("lines");
    drop(stdin);
    let output = emu.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let read = |name: &str| std::fs::read_to_string(dir.0.join(name)).expect("what was said");
    assert_eq!(read("cmp").trim(), "same", "{}", read("curl"));
    Some((all["wifu"]["daemons"].clone(), read("watch")))
}

/// The largest value of a number that `wifu ss --watch --json` wrote.
fn largest(watch: &str, name: &str) -> f64 {
    let key = format!("{name}\":");
    let after = watch.split(&key).skip(1);
    let values = after.filter_map(|rest| {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        rest[..end].parse::<f64>().ok()
    });
    values.fold(0.0, f64::max)
}

#[test]
fn curl_fetches_over_four_hops_whose_relays_use_credits() {
    for protocol in ["hxh-nolh", "hxh"] {
        let Some((daemons, watch)) = fetch(protocol, 500_000, "") else {
            return;
        };
        // Packets of the file: each relay, and the host that serves it.
        let packets = 500_000 / 1_444;
        for name in ["n2", "n3", "n4", "n5"] {
            let (lanes, monitor) = (&daemons[name]["lanes"], &daemons[name]["monitor"]);
            println!("{name}: {lanes} {monitor}");
            assert!(number(lanes, "taken") > packets, "{name}: {lanes}");
            assert!(number(lanes, "most") <= 8, "{name}: {lanes}");
            for none in ["full", "strangers", "unlaned"] {
                assert_eq!(number(lanes, none), 0, "{name}: {none}");
            }
        }
        // Only the node before the client keeps packets, if the client is to confirm them.
        let kept = |name: &str| number(&daemons[name]["lanes"], "kept");
        assert_eq!(kept("n2") > packets, protocol == "hxh", "{protocol}");
        assert_eq!(kept("n3"), 0);
        let heard = largest(&watch, "hop-credit.heard");
        println!("n3 heard {heard} credits");
        assert!(heard > packets as f64 / 10.0, "{watch}");
    }
}

#[test]
fn curl_fetches_over_four_hops_whose_relays_hand_on_blocks() {
    let Some((daemons, watch)) = fetch("hop", 500_000, "") else {
        return;
    };
    let (packets, block) = (500_000 / 1_444, 64);
    for name in ["n2", "n3", "n4", "n5"] {
        let lanes = &daemons[name]["lanes"];
        println!("{name}: {lanes}");
        assert!(number(lanes, "taken") > packets, "{name}: {lanes}");
        // Questions, and but for the first host answers.
        assert!(number(lanes, "made") >= packets / block, "{name}: {lanes}");
    }
    let handed = largest(&watch, "hop-block.handed");
    println!("n3 handed on {handed} blocks");
    assert!(handed >= 2.0, "{watch}");
}

//= spec#10.8
// "Intermediate restart loses queued packets -> NACK recovers"
#[test]
fn a_relay_is_killed_and_starts_again_while_curl_fetches() {
    for protocol in ["hxh-nolh", "hxh", "hop"] {
        let midst = "sh sleep 1\nkill n3\nsh sleep 2\nserve n3\n";
        let Some((daemons, _)) = fetch(protocol, 1_000_000, midst) else {
            return;
        };
        // What it counts began anew: it had not taken all.
        let (all, relay) = (&daemons["n4"]["lanes"], &daemons["n3"]["lanes"]);
        let [all, relay] = [all, relay].map(|l| number(l, "taken"));
        println!("{protocol}: n4 took {all}, n3 since its restart {relay}");
        assert!(relay > 50 && relay < all, "{relay} of {all}");
    }
}

// What a node says to the one before it bears the addresses of the data, so the host that serves
// the file gets packets over the link that are from itself.
#[test]
fn the_first_host_heeds_what_the_next_one_says_of_its_packets() {
    let told = [("lane.hop_ack=4", 4), ("lane.credit_request=on", 0)];
    for (set, every) in told {
        let protocol = format!("hxh-nolh,{set}");
        let Some((daemons, _)) = fetch(&protocol, 300_000, "") else {
            return;
        };
        let (lanes, packets) = (&daemons["n5"]["lanes"], &daemons["n5"]["packets"]);
        println!("{set}: {lanes} {packets}, n4 {}", daemons["n4"]["lanes"]);
        assert_eq!(number(packets, "martian"), 0, "{set}: {packets}");
        // Who hears nothing of what it keeps sends it again and again.
        let sent = number(lanes, "sent");
        assert!(sent < 2 * (300_000 / 1_444), "{set}: {lanes}");
        let made = number(&daemons["n4"]["lanes"], "made");
        assert!(made > 0 && (every == 0 || made > 300_000 / 1_444 / every / 2));
    }
}
