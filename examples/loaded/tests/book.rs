//! What the book shows of this crate is what happens.

use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: &str = include_str!("../../../docs/src/loaded.md");

/// Where cargo puts what it builds, `wifu` of WiFu's own workspace beside it.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().to_path_buf()
}

/// The library, as `cargo build` makes it.
fn library() -> PathBuf {
    let built = built();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked"]);
    cargo.env("CARGO_TARGET_DIR", built.parent().unwrap());
    let cargo = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status();
    assert!(cargo.unwrap().success());
    built.join("libmine.so")
}

/// The files of this crate stand on the page, whole.
#[test]
fn the_page_has_the_whole_crate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in [
        "Cargo.toml",
        "src/lib.rs",
        "src/hop_acks.rs",
        "src/mine.toml",
    ] {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        let quoted = format!("<!-- from examples/loaded/{file} -->\n```");
        let (_, rest) = PAGE.split_once(&quoted).expect(file);
        let (_, rest) = rest.split_once('\n').unwrap();
        let (shown, _) = rest.split_once("```").unwrap();
        assert_eq!(shown, text, "{file}");
    }
}

/// How many losses the judge took for the link's own.
fn spared(words: &str) -> f64 {
    let built = built();
    let name = words.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let trace = built.join(format!("spared-{name}.csv"));
    let mut wifu = Command::new(built.join("wifu"));
    wifu.arg("sim").arg("--load").arg(library());
    wifu.args(["--protocol", "mine", "--topo"])
        .args(words.split(' '));
    wifu.args(["--series", "flow.1.late-loss.spared", "--trace"]);
    let run = wifu.arg(&trace).output().unwrap();
    assert!(run.status.success(), "{run:?}");
    let series = std::fs::read_to_string(&trace).unwrap();
    std::fs::remove_file(&trace).unwrap();
    series
        .trim_end()
        .rsplit_once(',')
        .unwrap()
        .1
        .parse()
        .unwrap()
}

/// Over radios data take several times as long as the SYN, so that its round trip must not be what
/// theirs are compared with.
#[test]
fn losses_are_spared_over_radios_as_over_a_wire() {
    for words in [
        "linear,2,wire=10Mb/s,delay=20ms,queue=1000,loss=0.005 -n 10M",
        "linear,4,snr=14 -n 5M radio.attempts=2",
        "linear,4 --set TB-W3 -n 5M radio.attempts=2",
    ] {
        let spared = spared(words);
        assert!(spared >= 3.0, "{words}: {spared}");
    }
}

/// Every command of the page's terminal prints what is shown below it, where `...` is anything.
#[test]
fn the_page_shows_what_is_printed() {
    let (_, block) = PAGE.split_once("```console\n").unwrap();
    let (block, _) = block.split_once("\n```").unwrap();
    let built = built();
    let wifu = built.join("wifu");
    let hint = "`cargo build -p wifu` in WiFu's own workspace builds it";
    assert!(wifu.exists(), "{} is not there: {hint}", wifu.display());
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", built.display());
    let library = library();
    let mut shown = block.split("$ ").skip(1);
    assert_eq!(shown.next(), Some("cargo build\n"));
    let mut count = 0;
    for (command, lines) in shown.map(|s| s.split_once('\n').unwrap_or((s, ""))) {
        let here = command.replace("target/debug/libmine.so", library.to_str().unwrap());
        assert_ne!(here, command, "the library");
        let shell = Command::new("bash")
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(["-c", &format!("{here} 2>&1")])
            .env("PATH", &path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&shell.stdout);
        assert!(shell.status.success(), "{said}");
        let mut rest = said.as_ref();
        for part in lines.trim_end().split("...") {
            let found = rest.split_once(part);
            rest = found.unwrap_or_else(|| panic!("$ {command}\n{said}")).1;
        }
        count += 1;
    }
    assert!(count >= 3, "{block}");
}
