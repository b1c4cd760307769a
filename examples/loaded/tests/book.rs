//! What the book shows of this crate is what happens.

use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: &str = include_str!("../../../docs/src/loaded.md");

/// Where cargo puts what it builds, `wifu` of WiFu's own workspace beside it.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().to_path_buf()
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
    let library = built.join("libmine.so");
    let mut shown = block.split("$ ").skip(1);
    assert_eq!(shown.next(), Some("cargo build\n"));
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked"]);
    cargo.env("CARGO_TARGET_DIR", built.parent().unwrap());
    let cargo = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status();
    assert!(cargo.unwrap().success());
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
