//! The same crate as a library, in the command that comes with WiFu.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo puts what it builds.
fn built() -> &'static Path {
    let custom = Path::new(env!("CARGO_BIN_EXE_custom"));
    custom.parent().unwrap()
}

fn library() -> PathBuf {
    built().join("deps/libcustom.so")
}

/// Whether it went well, and what was said.
fn run(command: &mut Command, args: &[&str]) -> (bool, String) {
    let output = command.args(args).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (output.status.success(), said)
}

/// The command that knows nothing of this crate.
fn wifu() -> Command {
    let wifu = built().join("wifu");
    assert!(
        wifu.exists(),
        "{} is not there: `cargo build -p wifu` in WiFu's own workspace builds it",
        wifu.display()
    );
    Command::new(wifu)
}

fn custom(args: &[&str]) -> (bool, String) {
    run(&mut Command::new(env!("CARGO_BIN_EXE_custom")), args)
}

fn loading(args: &[&str]) -> (bool, String) {
    run(wifu().arg(args[0]).arg("--load").arg(library()), &args[1..])
}

#[test]
fn names_are_known_with_the_library_and_not_without() {
    for (kind, name) in [
        ("protocols", "paced"),
        ("gates", "four-hop-delay"),
        ("handlers", "weak-signal"),
        ("formats", "short"),
    ] {
        let listed = format!("\n  {name} ");
        let (ok, said) = loading(&["list", kind]);
        assert!(ok && said.contains(&listed), "{said}");
        let (ok, said) = run(wifu().env("WIFU_LOAD", library()), &["list", kind]);
        assert!(ok && said.contains(&listed), "{said}");
        let (ok, said) = run(&mut wifu(), &["list", kind]);
        assert!(ok && !said.contains(&listed), "{said}");
    }
}

#[test]
fn the_dissector_knows_the_format_that_was_loaded() {
    let (ok, said) = loading(&["dissector"]);
    let line = "carry(246, declared[\"short\"], \"hxh-short\")";
    assert!(ok && said.contains(line), "{said}");
    let (ok, said) = run(&mut wifu(), &["dissector"]);
    assert!(ok && !said.contains("hxh-short"), "{said}");
}

#[test]
fn both_ways_do_the_same() {
    let path = std::env::temp_dir().join(format!("custom-load-{}.toml", std::process::id()));
    let mine = "[protocol.mine]\nextends = \"paced\"\nnumber = 242\nset = { hop_factor = 3.0 }\n\
                [handlers.mine]\nchain = [{ use = \"weak-signal\", dbm = -100.0 }]\n";
    std::fs::write(&path, mine).unwrap();
    let file = path.display().to_string();
    let mesh = ["sim", "--json", "--topo", "linear,3", "--set", "TB-W9"];
    let of_file = ["--flow", "n1:n3:mine,bytes=50k", "--file", &file];
    let own_header = ["--flow", "n1:n3:hxh-short,bytes=50k"];
    let commands: [&[&str]; 6] = [
        &["check", &file],
        &["describe", "ungated"],
        &["mock", "--protocol", "paced", "--bytes", "100k", "--json"],
        &[&mesh[..], &of_file].concat(),
        &[&mesh[..], &own_header].concat(),
        &["describe", "short"],
    ];
    let outcomes = commands.map(|args| (custom(args), loading(args)));
    std::fs::remove_file(&path).unwrap();
    for (linked, loaded) in outcomes {
        assert!(linked.0, "{}", linked.1);
        assert_eq!(linked, loaded);
    }
}

#[test]
fn a_library_counts_once_and_its_names_must_be_free() {
    let library = library().display().to_string();
    let (ok, said) = loading(&["list", "gates", "--load", &library]);
    assert!(ok && said.matches("four-hop-delay").count() == 1, "{said}");
    let (ok, said) = custom(&["list", "--load", &library]);
    assert!(!ok, "what is linked is there already");
    assert!(
        said.contains("its part four-hop-delay has a name"),
        "{said}"
    );
}

/// What the book shows of a terminal where this library is loaded.
#[test]
fn the_book_shows_what_is_printed() {
    let page = include_str!("../../../docs/src/adding-a-part.md");
    let (_, block) = page.split_once("```console\n$ cargo build\n").unwrap();
    let (block, _) = block.split_once("\n```").unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", built().display());
    let shown: Vec<&str> = block.split("$ ").skip(1).collect();
    assert_eq!(shown.len(), 2, "{block}");
    for (command, lines) in shown.iter().map(|s| s.split_once('\n').unwrap()) {
        let here = command.replace("target/debug/libcustom.so", library().to_str().unwrap());
        assert_ne!(here, command, "the library");
        let mut shell = Command::new("bash");
        let (ok, said) = run(shell.env("PATH", &path), &["-c", &here]);
        assert!(ok, "{said}");
        assert_eq!(said.trim_end(), lines.trim_end(), "$ {command}");
    }
}
