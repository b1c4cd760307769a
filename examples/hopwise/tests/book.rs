//! What the tutorial shows of this crate is what happens.

mod common;

use common::{built, library};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

const PAGE: &str = include_str!("../../../docs/src/tutorial.md");

fn file(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(root.join(name)).unwrap()
}

/// What the page quotes of a file, piece by piece.
fn quoted(name: &str) -> Vec<&'static str> {
    let mark = format!("<!-- from examples/hopwise/{name} -->\n```");
    let pieces = PAGE.split(&mark).skip(1);
    let code = pieces.map(|p| p.split_once('\n').unwrap().1.split_once("```").unwrap().0);
    code.collect()
}

/// Who types what the page quotes has the whole crate.
#[test]
fn the_page_has_every_line_of_the_crate() {
    for name in ["Cargo.toml", "src/lib.rs", "src/hopwise.toml", "plan.toml"] {
        assert_eq!(quoted(name), [file(name)], "{name}");
    }
    let lines = |text: &str| {
        let lines = text.lines().filter(|l| !l.is_empty());
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let part = file("src/heard_window.rs");
    assert_eq!(lines(&quoted("src/heard_window.rs").concat()), lines(&part));
    assert!(
        part.lines().count() <= 100,
        "that is what the page promises"
    );
}

/// The blocks of the page's terminal.
fn terminals() -> Vec<&'static str> {
    let blocks = PAGE.split("```console\n").skip(1);
    blocks.map(|b| b.split_once("\n```").unwrap().0).collect()
}

/// A shell in the crate's folder that finds `wifu`, and the library where cargo puts it.
fn shell(line: &str) -> Command {
    let line = line.replace("target/debug/libhopwise.so", library().to_str().unwrap());
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("bash");
    shell.current_dir(env!("CARGO_MANIFEST_DIR"));
    shell.args(["-c", &format!("{line} 2>&1")]);
    shell.env("PATH", format!("{}:{path}", built().display()));
    shell
}

/// Holds what was said against what is shown, where `...` is anything.
fn hold(command: &str, said: &str, shown: &str) {
    let mut rest = said;
    for part in shown.trim_end().split("...") {
        let found = rest.split_once(part);
        rest = found.unwrap_or_else(|| panic!("$ {command}\n{said}")).1;
    }
}

/// Every command prints what is shown below it; those of the lab are its own tests' affair.
#[test]
fn the_page_shows_what_is_printed() {
    let (mut count, mut load) = (0, None);
    for block in terminals() {
        for shown in block.split("$ ").skip(1) {
            let (command, lines) = shown.split_once('\n').unwrap_or((shown, ""));
            if let Some(named) = command.strip_prefix("export WIFU_LOAD=$PWD/") {
                assert_eq!(named, "target/debug/libhopwise.so");
                load = Some(library());
                continue;
            }
            if ["cargo ", "sudo ", "wifu-lab "]
                .iter()
                .any(|p| command.starts_with(p))
            {
                continue;
            }
            let mut shell = shell(command);
            if let Some(library) = &load {
                shell.env("WIFU_LOAD", library);
            }
            let output = shell.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "$ {command}\n{said}");
            hold(command, &said, lines);
            count += 1;
        }
    }
    let _ = std::fs::remove_file(Path::new(env!("CARGO_MANIFEST_DIR")).join("hop.csv"));
    assert!(count >= 5, "{count} commands");
}

/// The same of the emulation's prompt. Needs root.
#[test]
fn hosts_do_what_is_shown() {
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
    let skip = std::env::var_os("WIFU_SKIP_PRIVILEGED").is_some_and(|v| v == "1");
    assert!(
        root || skip,
        "this test makes network namespaces and needs root"
    );
    if !root {
        return;
    }
    let block = terminals()
        .into_iter()
        .find(|b| b.starts_with("$ sudo wifu emu"));
    let (command, typed) = block.expect("an emulation").split_once('\n').unwrap();
    let command = command.trim_start_matches("$ sudo ");
    let own = format!("t-hopwise-{}", std::process::id());
    let mut emu = shell(&format!("timeout 300 {command} --share --name {own}"));
    let emu = emu.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut emu = emu.unwrap();
    let mut stdin = emu.stdin.take().unwrap();
    let lines = typed.lines().filter_map(|l| l.strip_prefix("wifu> "));
    for line in lines.clone() {
        writeln!(stdin, "{line}").unwrap();
    }
    drop(stdin);
    let output = emu.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success(), "{said}");
    let mut rest = said.as_ref();
    for shown in typed.split("wifu> ").skip(1) {
        let (_, below) = shown.split_once('\n').unwrap_or((shown, ""));
        for part in below.trim_end().split("...") {
            let found = rest.split_once(part.trim());
            rest = found.unwrap_or_else(|| panic!("{shown}\n{said}")).1;
        }
    }
    let _ = std::fs::remove_file(Path::new(env!("CARGO_MANIFEST_DIR")).join("got"));
    assert!(lines.count() >= 4);
}
