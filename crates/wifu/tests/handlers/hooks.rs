//! Rules, verdicts, the handlers, and frames that are overheard.

use std::net::UdpSocket;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::common::{privileged, receive};
use crate::world::{A, B, Core, NULL, WIFU, World, atp, errors, output, text, wait_until};

#[test]
fn a_transfer_through_a_handler_is_exact_and_super_packets_stay_whole() {
    if !privileged() {
        return;
    }
    let w = World::new("exact");
    let mut rng = wifu_wire::Rng::new(5);
    let words = (0..2_500_000).flat_map(|_| rng.next_u64().to_le_bytes());
    let data: Vec<u8> = words.collect();
    let (_server, fetch) = (w.web(&data), || w.fetch());
    assert!(wait_until(|| fetch() == data), "without handlers");
    let logger = format!("{NULL}[[handler]]\nuse = \"logger\"\nevery = 1000\n");
    for (name, text, longest) in [("null.toml", NULL, true), ("logger.toml", &logger, false)] {
        let core = w.core(&w.r, name, text, &[]);
        assert!(fetch() == data, "{name}");
        let report = core.end(Signal::TERM);
        let forward = &report["hooks"]["forward"];
        let octets = forward["octets"].as_f64().expect("octets");
        let each = octets / forward["packets"].as_f64().expect("packets");
        assert!(octets > data.len() as f64);
        // The server's kernel makes segments of up to 64 KB; acknowledgements are small.
        assert_eq!(each > 1500.0, longest, "{name}: {each} bytes per packet");
    }
}

#[test]
fn handlers_drop_their_share_and_delay_by_their_time() {
    if !privileged() {
        return;
    }
    let w = World::new("fate");
    let drop = "[[handler]]\nuse = \"drop\"\nprotocol = 1\nhooks = [\"forward\"]\np = 0.5\n";
    let core = w.core(&w.r, "drop.toml", drop, &[]);
    let (answered, _) = w.ping(400);
    let report = core.end(Signal::INT);
    // Both ways: a quarter comes back; five standard deviations are 43.
    assert!((57..=143).contains(&answered), "{answered}: {report}");
    let handler = &report["handlers"][0];
    let asked = handler["packets"].as_u64().expect("packets");
    let dropped = handler["dropped"]["drop"].as_u64().expect("dropped");
    // Requests that went on were answered, and met the handler again.
    assert_eq!(asked - dropped, (asked - 400) + u64::from(answered));
    let delay = "FORWARD -p icmp -j NFQUEUE --queue-num 2 # as in the paper\n\
                 handler delay 1 t=20ms\nhandler null *\n";
    let core = w.core(&w.r, "delay.conf", delay, &[]);
    let (answered, median) = w.ping(100);
    let report = core.end(Signal::HUP);
    assert_eq!(answered, 100, "{report}");
    assert!((40.0..45.0).contains(&median), "{median} ms");
    assert_eq!(report["hooks"]["forward"]["held"], 200);
    assert_eq!(report["handlers"][1]["packets"], 200, "after the delay");
    assert_eq!(report["held_now"], 0);
}

#[test]
fn rules_go_with_us_and_nothing_of_others_does() {
    if !privileged() {
        return;
    }
    let w = World::new("clean");
    let foreign = [
        "FORWARD -p tcp -m comment --comment wifu -j NFQUEUE --queue-num 2 --queue-bypass",
        "OUTPUT -p udp -m comment --comment wifu:1:x -j ACCEPT",
    ];
    for rule in foreign {
        let line = format!("-w -t mangle -A {rule}");
        let done = output(
            w.r.command("iptables")
                .expect("namespace")
                .args(line.split(' ')),
        );
        assert!(done.status.success(), "{rule}");
    }
    let before = w.rules(&w.r);
    assert_eq!(before.len(), 2);
    for signal in [Signal::INT, Signal::TERM] {
        let core = w.core(&w.r, "null.toml", NULL, &[]);
        assert_eq!(w.rules(&w.r).len(), 3);
        core.signal(Signal::USR1);
        assert!(wait_until(|| core.reports().len() == 1), "{}", core.said());
        core.end(signal);
        assert_eq!(w.rules(&w.r), before);
    }
    // Signals that come together: none is lost.
    let core = w.core(&w.r, "null.toml", NULL, &[]);
    for signal in [Signal::STOP, Signal::INT, Signal::USR1] {
        core.signal(signal);
    }
    core.end(Signal::CONT);
    // Killed: its guardian removes them.
    let mut core = w.core(&w.r, "null.toml", NULL, &[]);
    core.child.kill().expect("kill");
    assert!(
        wait_until(|| w.rules(&w.r) == before),
        "{:?}",
        w.rules(&w.r)
    );
    // Killed with its guardian: `wifu clean` does, once the owner is dead.
    let core = w.core(&w.r, "null.toml", NULL, &[]);
    let clean = || output(w.r.command(WIFU).expect("namespace").arg("clean"));
    clean();
    assert_eq!(w.rules(&w.r).len(), 3, "its owner lives");
    w.kill_all(&w.r);
    drop(core);
    assert_eq!(w.rules(&w.r).len(), 3, "nobody removed them");
    let said = text(&clean());
    assert!(said.contains("iptables -w -t mangle -D FORWARD"), "{said}");
    assert_eq!(w.rules(&w.r), before);
    let (answered, _) = w.ping(5);
    assert_eq!(answered, 5);
}

/// Which packets of two compositions a handler at the relay is asked about; one of them is of a
/// file.
#[test]
fn a_handler_is_asked_about_the_composition_that_it_names() {
    if !privileged() {
        return;
    }
    let w = World::new("whose");
    let file = w.dir.join("mine.toml");
    let mine = "[protocol.mine]\nextends = \"tcp-newreno\"\nnumber = 240\n";
    std::fs::write(&file, mine).expect("compositions");
    let file = file.to_str().expect("text");
    let library = wifu_parts::library();
    let cubic = library.expand("tcp-cubic").expect("a protocol").number;
    let send = "import socket, sys\n\
                for number, count in ((int(sys.argv[2]), 3), (240, 5)):\n    \
                    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, number)\n    \
                    for _ in range(count): s.sendto(bytes(40), (sys.argv[1], 0))\n";
    for (named, asked) in [("mine", 5), ("tcp-cubic", 3)] {
        let text = format!(
            "[[handler]]\nuse = \"drop\"\np = 1\nhooks = [\"forward\"]\nprotocol = \"{named}\"\n"
        );
        let core = w.core(&w.r, "whose.toml", &text, &["--file", file]);
        let mut python = w.a.command("python3").expect("namespace");
        output(python.args(["-c", send, B, &cubic.to_string()]));
        core.signal(Signal::USR1);
        assert!(wait_until(|| core.reports().len() == 1), "{}", core.said());
        let report = core.end(Signal::INT);
        let handler = &report["handlers"][0];
        assert_eq!(handler["packets"], asked, "{named}: {report}");
        assert_eq!(handler["dropped"]["drop"], asked, "{named}: {report}");
    }
    let config = w.dir.join("unknown.conf");
    std::fs::write(&config, "handler null mien\n").expect("configuration");
    let mut command = w.r.command(WIFU).expect("namespace");
    command.args(["core", "--dry-run", "--file", file, "--config"]);
    let said = errors(&output(command.arg(&config)));
    assert!(said.contains("did you mean `mine`"), "{said}");
}

#[test]
fn a_dry_run_says_everything_and_does_nothing() {
    if !privileged() {
        return;
    }
    let w = World::new("dry");
    let config = w.dir.join("null.toml");
    std::fs::write(&config, NULL).expect("configuration");
    let mut command = w.r.command(WIFU).expect("namespace");
    let args = ["core", "--dry-run", "--when-full", "closed", "--config"];
    let said = text(&output(command.args(args).arg(&config)));
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("nfqueue 2: bind"), "{said}");
    let rule = "iptables -w -t mangle -A FORWARD ! -i lo -j NFQUEUE --queue-num 2 -m comment";
    assert!(lines[1].starts_with(rule), "{said}");
    assert_eq!(lines[3], lines[1].replace(" -A ", " -D "));
    assert!(w.rules(&w.r).is_empty());
}

#[test]
fn a_dry_run_finds_every_mistake_that_needs_no_privilege() {
    if !privileged() {
        return;
    }
    let w = World::new("wrong");
    let ear = "[[handler]]\nuse = \"logger\"\nhooks = [\"overheard\"]\n";
    let rule = "FORWARD -p udp -j NFQUEUE --queue-num 1\nhandler null *\n";
    for (name, text, args, wanted) in [
        (
            "a.toml",
            ear,
            &["--overhear", "nope"][..],
            "overhearing on nope: No such device",
        ),
        (
            "a.toml",
            ear,
            &["--monitor", "nope"],
            "monitor nope: No such device",
        ),
        (
            "a.toml",
            ear,
            &["--monitor", "eth0"],
            "eth0: its frames have no radiotap header",
        ),
        ("b.conf", rule, &[], "write --queue-num 2"),
        ("c.toml", NULL, &["--queue-length", "0"], "queue_length"),
        ("c.toml", NULL, &["--stall", "0 s"], "stall"),
    ] {
        let said = w.refused(name, text, args);
        assert!(said.contains(wanted), "{args:?}: {said}");
    }
}

#[test]
fn super_packets_that_a_full_queue_let_pass_are_told_and_those_seen_are_not() {
    if !privileged() {
        return;
    }
    let w = World::new("unseen");
    let data = vec![7; 50_000_000];
    let (_server, fetch) = (w.web(&data), || w.fetch());
    assert!(wait_until(|| fetch() == data), "without handlers");
    let logger = "[[handler]]\nuse = \"logger\"\nhooks = [\"forward\"]\nevery = 100000\n";
    for (length, some) in [("1", true), ("1000000", false)] {
        // The buffer is no bound: it holds all that a sender's window lets go.
        let mut args = vec!["--queue-length", length, "--interval", "20 ms"];
        args.extend(["--receive-buffer", "200000000"]);
        let core = w.core(&w.r, "unseen.toml", logger, &args);
        assert!(fetch() == data);
        let before = core.reports().len();
        core.signal(Signal::USR1);
        assert!(wait_until(|| core.reports().len() > before + 2));
        // Whatever was under way when one of the reports was made.
        let warned = core.said().matches("without the handlers").count();
        assert_eq!(warned, usize::from(some), "{length}: {}", core.said());
        let report = core.end(Signal::TERM);
        let forward = &report["hooks"]["forward"];
        let number = |key: &str| forward[key].as_f64().expect("a number");
        assert_eq!(number("passed_unseen") > 0.0, some, "{report}");
        // Each segment has up to 1448 octets of data in 1500; acknowledgements come to that.
        let octets = number("octets") + number("passed_unseen_octets");
        let least = data.len() as f64 * 1500.0 / 1448.0;
        assert!((0.97..1.10).contains(&(octets / least)), "{report}");
    }
}

#[test]
fn an_overheard_interface_that_goes_away_is_said_to_be_silent() {
    if !privileged() {
        return;
    }
    let mut w = World::new("gone");
    let lab = w.lab.as_mut().expect("lab");
    let add = [
        String::from("link add ear0 type veth peer name ear1"),
        String::from("link set dev ear0 up"),
    ];
    lab.ip("r", &add).expect("veth");
    let text = "[[handler]]\nuse = \"logger\"\nhooks = [\"overheard\"]\n";
    let both = ["--overhear", "eth0", "--overhear", "ear0"];
    let core = w.core(&w.r, "gone.toml", text, &both);
    core.signal(Signal::USR1);
    assert!(wait_until(|| core.reports().len() == 1), "{}", core.said());
    assert_eq!(core.reports()[0]["silent"], serde_json::json!([]));
    let gone = ["link", "del", "ear0"];
    let done = output(w.r.command("ip").expect("namespace").args(gone));
    assert!(done.status.success(), "{}", errors(&done));
    let told = || core.said().matches("ear0 is silent from now on").count();
    assert!(wait_until(|| told() > 0), "{}", core.said());
    w.ping(5);
    assert_eq!(told(), 1, "{}", core.said());
    let report = core.end(Signal::TERM);
    assert_eq!(report["silent"], serde_json::json!(["ear0"]), "{report}");
}

#[test]
fn the_collector_writes_the_drivers_delay_into_packets_that_the_kernel_accepts() {
    if !privileged() {
        return;
    }
    let w = World::new("collect");
    std::fs::write(w.dir.join("Da"), "2044\n").expect("file");
    std::fs::write(w.dir.join("sample"), "1900\n").expect("file");
    let dir = w.dir.display().to_string();
    let text = "[[handler]]\nuse = \"delay-collector\"\nprotocol = 17\nhooks = [\"forward\"]\n";
    let core = w.core(&w.r, "collect.toml", text, &["--delay-dir", &dir]);
    let at_b = || UdpSocket::bind((B, 9438)).expect("socket");
    let receiver = w.b.run(at_b).expect("namespace");
    let patience = Some(Duration::from_secs(5));
    receiver.set_read_timeout(patience).expect("timeout");
    let at_a = || UdpSocket::bind((A, 0)).expect("socket");
    let sender = w.a.run(at_a).expect("namespace");
    for n in 0..20 {
        sender.send_to(&atp(), (B, 9438)).expect("send");
        let mut room = [0; 200];
        let length = receive(&receiver, &mut room).expect("its checksum is right");
        let word = u32::from_be_bytes(room[16..20].try_into().expect("four"));
        let (hops, idle) = (room[6], room[2] & 4 != 0);
        assert_eq!((length, hops), (140, 1));
        // An idle node reports three times its delay; the files' age decides.
        assert_eq!(word, if idle { 3 * 2044 } else { 2044 }, "packet {n}");
    }
    let report = core.end(Signal::TERM);
    assert_eq!(report["hooks"]["forward"]["changed"], 20);
}

#[test]
fn a_shim_goes_in_at_the_sender_is_raised_on_the_way_and_comes_out() {
    if !privileged() {
        return;
    }
    let w = World::new("shim");
    let text = "[[handler]]\nuse = \"tpa-shim\"\n[[handler]]\nuse = \"logger\"\nprotocol = 208\n";
    let cores = [&w.a, &w.r, &w.b].map(|ns| w.core(ns, "shim.toml", text, &[]));
    let script = format!(
        "import socket\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 208)\n\
         s.bind(('{B}', 0)); s.settimeout(5); print('there', flush=True)\n\
         print([s.recv(2000)[20:] == bytes(range(100)) for _ in range(20)])\n"
    );
    let mut receiver = w.b.command("python3").expect("namespace");
    let receiver = receiver.args(["-c", &script]).stdout(Stdio::piped());
    let receiver = receiver.spawn().expect("python3");
    std::thread::sleep(Duration::from_millis(500));
    let script = format!(
        "import socket, time\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 208)\n\
         for _ in range(20): s.sendto(bytes(range(100)), ('{B}', 0)); time.sleep(0.005)\n"
    );
    let sender = output(
        w.a.command("python3")
            .expect("namespace")
            .args(["-c", &script]),
    );
    assert!(sender.status.success());
    let said = receiver.wait_with_output().expect("receiver");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert_eq!(said.matches("True").count(), 20, "{said}");
    let [a, r, b] = cores;
    let on_the_way = r.said();
    assert!(
        on_the_way.contains("proto 253 (shim type 1, inner 208), 132 bytes"),
        "{on_the_way}"
    );
    let changed = |core: Core, hook: &str| core.end(Signal::TERM)["hooks"][hook]["changed"].clone();
    assert_eq!(changed(a, "output"), 20);
    assert_eq!(changed(b, "input"), 20);
    drop(r);
}

#[test]
fn frames_to_others_are_overheard_and_ones_own_are_not() {
    if !privileged() {
        return;
    }
    let w = World::new("ear");
    let text = "[[handler]]\nuse = \"logger\"\nhooks = [\"overheard\"]\n";
    let core = w.core(&w.r, "ear.toml", text, &["--overhear", "eth0"]);
    let neighbour = "neigh add 10.84.1.77 lladdr 02:00:00:00:00:77 dev eth0";
    let added = output(
        w.a.command("ip")
            .expect("namespace")
            .args(neighbour.split(' ')),
    );
    assert!(added.status.success());
    let ping = ["-c", "5", "-i", "0.01", "-W", "1", "10.84.1.77"];
    output(w.a.command("ping").expect("namespace").args(ping));
    w.ping(5);
    let heard = || {
        core.said()
            .matches("overheard   10.84.1.1 > 10.84.1.77 proto 1")
            .count()
    };
    assert!(wait_until(|| heard() == 5), "{}", core.said());
    let report = core.end(Signal::TERM);
    assert_eq!(report["overheard"], 5, "{report}");
}

#[test]
fn garbage_on_a_monitor_is_counted_and_an_interface_without_radiotap_refused() {
    if !privileged() {
        return;
    }
    let mut w = World::new("mon");
    let lab = w.lab.as_mut().expect("lab");
    let tap = lab.monitor("r", "mon7").expect("mon7").expect("no dry run");
    let up = [String::from("link set dev mon7 up")];
    lab.ip("r", &up).expect("up");
    let text = "[[handler]]\nuse = \"logger\"\nhooks = [\"overheard\"]\n";
    for (args, wanted) in [
        (
            &["--monitor", "eth0"][..],
            "monitor eth0: its frames have no radiotap header",
        ),
        (&["--monitor", "mon8"], "monitor mon8: No such device"),
        (&["--monitor", "mon7", "--overhear", "eth0"], "leave out"),
    ] {
        std::fs::write(w.dir.join("bad.toml"), text).expect("configuration");
        let mut command = w.r.command(WIFU).expect("namespace");
        command
            .args(["core", "--config"])
            .arg(w.dir.join("bad.toml"));
        let refused = output(command.args(args));
        let said = errors(&refused);
        assert!(!refused.status.success() && said.contains(wanted), "{said}");
    }
    let core = w.core(&w.r, "mon.toml", text, &["--monitor", "mon7"]);
    let mut rng = wifu_wire::Rng::new(5);
    let mut frames = 0;
    for i in 0..2000u64 {
        let length = 14 + rng.below(300) as usize;
        let mut octets: Vec<u8> = (0..length).map(|_| rng.next_u32() as u8).collect();
        if i % 2 == 0 {
            // A header without a field, and a data frame's first octet.
            octets[..9].copy_from_slice(&[0, 0, 8, 0, 0, 0, 0, 0, 8]);
        }
        frames += u64::from(rustix::io::write(&tap, &octets).is_ok());
        if i % 50 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(frames > 1900, "{frames} written");
    // In the end one that is read: from a neighbour to another, at -50 dBm.
    let mut good = vec![0, 0, 9, 0, 0x20, 0, 0, 0, 0xCE];
    good.extend([
        8, 0, 0, 0, 2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0,
    ]);
    good.extend([0xAA, 0xAA, 3, 0, 0, 0, 8, 0]);
    good.extend([
        0x45, 0, 0, 20, 0, 0, 0, 0, 64, 99, 0, 0, 10, 0, 0, 8, 10, 0, 0, 9,
    ]);
    rustix::io::write(&tap, &good).expect("written");
    let heard = "10.0.0.8 > 10.0.0.9 proto 99, 20 bytes, from 02:00:00:00:00:08%";
    assert!(
        wait_until(|| core.said().contains(heard)),
        "{}",
        core.said()
    );
    let report = core.end(Signal::TERM);
    let m = &report["monitor"];
    assert_eq!(m["frames"], frames + 1, "{report}");
    let sum = |keys: &[&str]| -> u64 { keys.iter().filter_map(|k| m[k].as_u64()).sum() };
    let told = sum(&["garbled", "other", "overheard", "reported"]);
    assert_eq!(told, frames + 1, "{report}");
    assert!(sum(&["garbled"]) > 900, "{report}");
    assert_eq!(report["state"], "working", "{report}");
}

#[test]
fn snoop_sends_again_what_the_kernels_tcp_loses_behind_the_relay() {
    if !privileged() {
        return;
    }
    let w = World::new("snoop");
    let report = w.snooped("postrouting", &[]);
    let [snoop, drop] = [0, 1].map(|i| report["handlers"][i].clone());
    let number =
        |of: &Value, key: &str| of[key].as_u64().unwrap_or_else(|| panic!("{key} in {of}"));
    let counts = &snoop["counts"];
    assert!(number(counts, "dup_acks_held") > 10, "{snoop}");
    // Nearly all of 2072 segments.
    assert!(number(&snoop, "kept") > 2000, "{snoop}");
    // The loss behind it is its own affair, and so is a copy that is lost in its turn.
    assert!(
        number(&drop, "packets") >= number(&snoop, "kept") + number(&snoop, "sent"),
        "{drop}"
    );
}
