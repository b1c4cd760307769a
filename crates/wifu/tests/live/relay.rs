//! Three hosts in a row whose daemons serve a composition: its handlers act on the one in the
//! middle as they do in the simulator.

use crate::common::privileged;
use crate::world::{FAR, World, peer};
use serde_json::Value;

/// Snoop on every node; a number of its own.
const SNOOPED: &str = "[protocol.snooped]\nextends = \"tcp-newreno\"\nnumber = 245\n\
    [handlers.snooped]\nchain = [\"snoop\"]\n";

fn row(test: &str, faults: &[&str]) -> World {
    let mut w = World::row(test);
    let file = w.dir.join("own.toml");
    std::fs::write(&file, SNOOPED).expect("file");
    let file = file.to_str().expect("a name").to_owned();
    for (i, host) in w.hosts.iter_mut().enumerate() {
        let mut args = vec!["--file", &file, "--serve", "snooped"];
        args.extend(faults.iter().filter(|_| i == 1));
        host.start_daemon(&args);
    }
    w
}

/// What the host in the middle counted, and its handler.
fn relay(w: &mut World) -> (Value, Value) {
    let counted = w.hosts[1].stop_daemon();
    (counted["packets"].clone(), counted["handlers"][0].clone())
}

fn number(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("{key} in {of}"))
}

/// The first host and the last one send so many octets to each other.
fn transfer(w: &World, octets: usize) {
    let octets = octets.to_string();
    let play = |at: usize, who: &str| {
        let host = &w.hosts[at];
        let args = [who, FAR, "7000", "exchange", &octets];
        peer(host.over("snooped", "python3"), &args)
    };
    let mut server = w.hosts[2].serve(7000, &mut play(2, "listen"));
    let mut client = w.hosts[0].start(&mut play(0, "connect"));
    let (there, here) = (server.report(), client.report());
    assert_eq!(
        (&there["got"], &here["got"]),
        (&here["sent"], &there["sent"])
    );
    assert_eq!(there["count"].to_string(), octets);
}

#[test]
fn a_handler_on_a_relay_sees_what_the_kernel_would_have_forwarded() {
    if !privileged() {
        return;
    }
    let mut w = row("relay", &[]);
    let mut sysctl = w.hosts[1].command("sysctl");
    w.hosts[1].run(sysctl.args(["-qw", "net.ipv4.ip_forward=1"]));
    let forwarded = |w: &World| w.hosts[1].kernel("Ip", "ForwDatagrams");
    let before = forwarded(&w);
    transfer(&w, 2_000_000);
    assert_eq!(forwarded(&w), before, "taken before the IP layer");
    let (packets, snoop) = relay(&mut w);
    let passed = number(&packets, "forwarded");
    assert!(passed > 2 * 2_000_000 / 1460, "{packets}");
    assert_eq!(number(&snoop, "packets"), passed);
    assert!(number(&snoop, "kept") > 2 * 2_000_000 / 1460, "{snoop}");
    assert_eq!(number(&packets, "route") + number(&packets, "queue"), 0);
}

#[test]
fn snoop_on_a_relay_resends_what_the_link_behind_it_loses() {
    if !privileged() {
        return;
    }
    let mut w = row("snoop", &["--faults", "loss=2%,seed=1"]);
    transfer(&w, 3_000_000);
    let (_, snoop) = relay(&mut w);
    let counts = &snoop["counts"];
    assert!(number(counts, "resent") > 10, "{snoop}");
    assert!(number(counts, "dup_acks_held") > 10, "{snoop}");
}
