//! What a running daemon is still allowed to do: nothing beyond its work, which goes on.

use std::path::Path;

use super::common::privileged;
use super::world::{A, WIFU, World};

/// `CapEff`, `CapPrm` and `NoNewPrivs` of every thread of a process.
fn rights(pid: u32) -> Vec<[u64; 3]> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("tasks");
    let of = |path: &Path| {
        let text = std::fs::read_to_string(path.join("status")).expect("status");
        ["CapEff:", "CapPrm:", "NoNewPrivs:"].map(|name| {
            let value = text.lines().find_map(|l| l.strip_prefix(name));
            u64::from_str_radix(value.expect(name).trim(), 16).expect("number")
        })
    };
    tasks.map(|t| of(&t.expect("task").path())).collect()
}

#[test]
fn a_running_daemon_has_no_capabilities_and_does_its_work() {
    if !privileged() {
        return;
    }
    let mut w = World::raw("privileges");
    let capture = w.dir.join("all.pcapng");
    w.hosts[0].start_daemon(&["--direct", "--pcap", capture.to_str().expect("UTF-8")]);
    w.hosts[1].start_daemon(&[]);
    for (host, threads) in w.hosts.iter().zip([2, 1]) {
        let pid = host.daemon.as_ref().expect("a daemon").child.id();
        // The program may be started by another one that waits for it: the daemon is what is left.
        let rights = rights(pid);
        assert_eq!(rights, vec![[0, 0, 1]; threads]);
    }
    let serve = "import socket; s = socket.socket(); s.bind(('0.0.0.0', 80)); s.listen(); \
                 a, _ = s.accept(); a.sendall(a.recv(9))";
    let ask = format!(
        "import socket; c = socket.create_connection(('{A}', 80)); c.sendall(b'x'); \
         assert c.recv(9) == b'x'"
    );
    let mut server = w.hosts[0].serve(
        80,
        w.hosts[0]
            .over("tcp-newreno", "python3")
            .args(["-c", serve]),
    );
    let state = w.hosts[0].socket().with_file_name("listeners.json");
    assert!(state.exists(), "what listens is written down");
    w.hosts[1].run(w.hosts[1].over("tcp-newreno", "python3").args(["-c", &ask]));
    server.succeeds();
    for host in &mut w.hosts {
        let socket = host.socket();
        assert!(socket.exists());
        let state = socket.with_file_name("listeners.json");
        host.stop_daemon();
        assert!(!socket.exists(), "{WIFU} takes its socket away");
        assert!(!state.exists(), "nothing listens any more");
        let folder = socket.parent().expect("a folder");
        assert!(!folder.exists(), "{WIFU} takes its folder away");
    }
    assert!(capture.metadata().expect("capture").len() > 500);
}
