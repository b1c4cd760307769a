//! What the book's first page has a newcomer type.

use std::process::Command;

use super::common::privileged;
use super::world::{WIFU, World};

const PAGE: &str = include_str!("../../../../docs/src/quick-start.md");

/// The commands under a heading, without `sudo`; behind each that stays there is the pause that a
/// hand makes.
fn typed(heading: &str) -> String {
    let (_, section) = PAGE.split_once(heading).expect("a heading");
    let section = section.split_once("\n## ").map_or(section, |s| s.0);
    let blocks = section.split("```sh\n").skip(1);
    let lines = blocks.flat_map(|b| b.split_once("```").expect("the block's end").0.lines());
    lines
        .map(|line| match line.ends_with('&') {
            true => format!("{line}\nsleep 2\n"),
            false => format!("{line}\n"),
        })
        .collect::<String>()
        .replace("sudo ", "")
}

#[test]
fn the_page_to_start_with_works_as_it_is_written() {
    if !privileged() {
        return;
    }
    let own = std::process::id();
    let dir = std::env::temp_dir().join(format!("wifu-quick-{own}"));
    for name in ["there", "here"] {
        std::fs::create_dir_all(dir.join(name)).expect("a folder");
    }
    std::fs::write(dir.join("there/README.md"), PAGE).expect("a file");
    let [left, right] = ["l", "r"].map(|side| format!("quick-{own}-{side}"));
    let text = typed("## A program on another TCP")
        .replace(" left", &format!(" {left}"))
        .replace(" right", &format!(" {right}"));
    let gone = format!("ip netns del {left}; ip netns del {right}");
    let text = text
        .replace(
            "python3 -m http.server",
            "python3 -m http.server --directory there",
        )
        .replace("-o /tmp/got", "-sS -o here/README.md")
        .replace("$PWD/target/release/wifu", WIFU);
    // Programs in namespaces end before these go.
    let script = format!(
        "set -e\ntrap 'set +e; kill $(jobs -p) 2>/dev/null; wait; {gone}' EXIT\n{text}\n\
         cmp there/README.md here/README.md && echo the same\n"
    );
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(&dir)
        .output()
        .expect("bash");
    let said = String::from_utf8_lossy(&output.stdout);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{said}\n{told}");
    assert!(said.contains("the same\n"), "{said}\n{told}");
    // What is as it should be is nothing to worry a newcomer with.
    for alarm in [" WARN ", "not supported", "annotation"] {
        assert!(
            !told.contains(alarm) && !said.contains(alarm),
            "{said}\n{told}"
        );
    }
    // What `wifu ss -a` shows in the end; the connection is there only if the server closed first.
    let listens = |line: &str| line.starts_with("LISTEN") && line.contains(":8000");
    let socket = said.lines().find(|line| listens(line)).expect(&said);
    assert!(socket.contains("tcp-newreno"), "{said}");
    std::fs::remove_dir_all(&dir).expect("its own folder");
}

/// Of what acts in the simulator alone a daemon speaks if it serves what asks for it.
#[test]
fn a_daemon_speaks_of_annotations_if_what_it_serves_writes_them() {
    if !privileged() {
        return;
    }
    let mut w = World::raw("quick-notes");
    let host = &mut w.hosts[0];
    for (more, told) in [(&[][..], false), (&["--serve", "atp"], true)] {
        host.start_daemon(more);
        let said = host.daemon.as_ref().expect("daemon").said();
        let of = said
            .lines()
            .find(|line| line.contains("annotations feedback"));
        assert_eq!(of.is_some(), told, "{said}");
        let of = of.unwrap_or(" INFO atp: ");
        assert!(of.contains(" INFO ") && of.contains("atp: "), "{of}");
        host.stop_daemon();
    }
}
