//! The carrier over UDP: through a network that drops what it does not know, and without rights.

use crate::common::privileged;
use crate::world::{FAR, Host, Running, WIFU, World, peer};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Three hosts in a row, of which the one in the middle forwards UDP and drops all else.
fn row(test: &str) -> World {
    let w = World::row(test);
    let relay = &w.hosts[1];
    relay.run(
        relay
            .command("sysctl")
            .args(["-qw", "net.ipv4.ip_forward=1"]),
    );
    let drop = ["-A", "FORWARD", "!", "-p", "udp", "-j", "DROP"];
    relay.run(relay.command("iptables").args(drop));
    w
}

fn transfer(w: &World, reach: impl Fn(&Host) -> Vec<(&'static str, String)>) -> (Value, Value) {
    let [near, _, far] = &w.hosts[..] else {
        unreachable!("three hosts");
    };
    let play = |host: &Host, who: &str| -> Command {
        let mut command = peer(
            host.over("tcp-newreno", "python3"),
            &[who, FAR, "7000", "exchange", "3000000"],
        );
        command.envs(reach(host));
        command
    };
    let mut server = far.start(&mut play(far, "listen"));
    server.says("listening");
    let mut client = near.start(&mut play(near, "connect"));
    let (there, here) = (server.report(), client.report());
    assert_eq!(
        (&there["got"], &here["got"]),
        (&here["sent"], &there["sent"])
    );
    (there, here)
}

#[test]
fn packets_pass_where_only_udp_does() {
    if !privileged() {
        return;
    }
    let mut w = row("udp");
    for i in [0, 2] {
        w.hosts[i].start_daemon(&["--carrier", "udp"]);
    }
    let (there, _) = transfer(&w, |_| Vec::new());
    assert_eq!(there["count"], 3_000_000);
    let counted = w.hosts[2].stop_daemon();
    let carrier = &counted["carriers"][0];
    assert_eq!(carrier[0], "udp");
    let number = |key: &str| {
        carrier[1][key]
            .as_u64()
            .unwrap_or_else(|| panic!("{carrier}"))
    };
    // Twelve octets less than by raw sockets, and none of them in fragments.
    assert!(number("received_octets") / number("received") <= 1488);
    assert!(number("received") > 3_000_000 / 1448, "{carrier}");
    assert_eq!(
        (number("refused"), number("truncated")),
        (0, 0),
        "{carrier}"
    );
}

#[test]
fn a_daemon_needs_no_rights_for_it() {
    if !privileged() {
        return;
    }
    let w = row("user");
    let folder = w.dir.join("theirs");
    std::fs::create_dir(&folder).expect("folder");
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).expect("rights");
    let socket = |host: &Host| folder.join(format!("{}.sock", host.ns.name()));
    let daemons: Vec<Running> = [0, 2]
        .map(|i| {
            let host = &w.hosts[i];
            let mut command = host.command("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
            command.args([WIFU, "daemon", "--carrier", "udp", "--port", "9777"]);
            command.arg("--socket").arg(socket(host));
            let mut daemon = host.start(&mut command);
            daemon.says("ready: ");
            daemon
        })
        .into();
    let (there, _) = transfer(&w, |host| {
        vec![("WIFU_SOCKET", socket(host).display().to_string())]
    });
    assert_eq!(there["count"], 3_000_000);
    for daemon in daemons {
        daemon.kill();
    }
}
