//! What the book shows of a terminal is what the command prints today.

use std::path::{Path, PathBuf};
use std::process::Command;

const ADDING_A_PART: &str = include_str!("../../../docs/src/adding-a-part.md");
const MOCK: &str = include_str!("../../../docs/src/mock.md");
const SIM: &str = include_str!("../../../docs/src/sim.md");
/// Commands that need more than this program: the lab, a build, and the library of
/// `examples/custom`, whose own tests run what is shown of it.
const ELSEWHERE: [&str; 3] = ["wifu-lab ", "cargo ", " --load "];

/// The contents of the page's blocks in a language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("\n```{language}\n");
    let parts = page.split(begin.as_str()).skip(1);
    parts
        .map(|p| p.split_once("\n```").expect("the block's end").0)
        .collect()
}

/// Each command of a block and the lines shown below it.
fn commands(block: &str) -> Vec<(&str, Vec<&str>)> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => all.push((command, Vec::new())),
            (None, Some((_, shown))) => shown.push(line),
            (None, None) => panic!("a block begins with a command: {line}"),
        }
    }
    all
}

/// Whether what was printed is what is shown, where `...` is any number of lines, or of characters
/// of one line.
fn same(printed: &[&str], shown: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&"...", rest)) => (0..=printed.len()).any(|n| same(&printed[n..], rest)),
        Some((line, rest)) => printed
            .split_first()
            .is_some_and(|(first, more)| same_line(first, line) && same(more, rest)),
    }
}

fn same_line(printed: &str, shown: &str) -> bool {
    match shown.split_once("...") {
        None => printed == shown,
        Some((before, after)) => {
            let rest = printed.strip_prefix(before);
            rest.is_some_and(|r| r.ends_with(after))
        }
    }
}

/// What a command typed in this folder prints, in the order in which it does.
fn typed(command: &str, folder: &Path) -> String {
    let wifu = PathBuf::from(env!("CARGO_BIN_EXE_wifu"));
    let programs = wifu.parent().expect("a folder").display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("bash")
        .args(["-c", &format!("set -o pipefail\n{{ {command}\n}} 2>&1")])
        .current_dir(folder)
        .env("PATH", format!("{programs}:{path}"))
        .output()
        .expect("bash");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "$ {command}\n{said}");
    said
}

fn folder(name: &str) -> PathBuf {
    let own = std::process::id();
    let folder = std::env::temp_dir().join(format!("wifu-console-{name}-{own}"));
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

#[test]
fn the_page_about_parts_shows_what_is_printed() {
    let folder = folder("part");
    let mut compositions = blocks(ADDING_A_PART, "toml").into_iter();
    let westwood = compositions.find(|b| b.starts_with("[protocol.tcp-westwood]"));
    let westwood = westwood.expect("the composition");
    std::fs::write(folder.join("westwood.toml"), westwood).expect("a file");
    let mut ran = 0;
    for (command, shown) in blocks(ADDING_A_PART, "console")
        .into_iter()
        .flat_map(commands)
    {
        if ELSEWHERE.iter().any(|e| command.contains(e)) {
            continue;
        }
        let said = typed(command, &folder);
        let printed: Vec<&str> = said.lines().collect();
        assert!(same(&printed, &shown), "$ {command}\n{said}");
        ran += 1;
    }
    assert_eq!(ran, 5, "two checks, two runs of mock, one of sim");
    let trace = std::fs::read_to_string(folder.join("trace.csv")).expect("the trace");
    assert!(trace.contains(",flow.1.cwnd,"), "{trace:.200}");
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}

#[test]
fn the_page_about_the_mock_network_names_the_columns_of_the_trace() {
    let folder = folder("mock");
    typed(blocks(MOCK, "sh")[0], &folder);
    let trace = std::fs::read_to_string(folder.join("out.csv")).expect("the trace");
    let (names, rows) = trace.split_once('\n').expect("a line of names");
    let (_, table) = MOCK.split_once("\n|---|---|\n").expect("the columns");
    let (table, _) = table.split_once("\n\n").expect("the table's end");
    let told = table.lines().filter_map(|l| l.split(" | ").next());
    let told: Vec<&str> = told.flat_map(|l| l.split('`').skip(1).step_by(2)).collect();
    assert_eq!(told.join(","), names);
    // time_s,event,seq_index,...,reason
    let index = rows.lines().filter(|r| r.ends_with(",index"));
    let dropped: Vec<&str> = index.filter_map(|r| r.split(',').nth(2)).collect();
    assert_eq!(dropped, ["14", "26", "28"], "--drop 14,26,28");
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}

#[test]
fn the_page_about_the_simulator_shows_parts_of_what_is_printed() {
    let command = blocks(SIM, "sh")[0];
    let folder = folder("sim");
    let said = typed(command, &folder);
    let report = blocks(SIM, "text").into_iter();
    let report: Vec<&str> = report.filter(|b| b.starts_with("flow  ")).collect();
    assert_eq!(report.len(), 1, "the report's block");
    for part in report[0].split("\n\n") {
        assert!(said.contains(part), "$ {command}\n{said}\nlacks\n{part}");
    }
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}

#[test]
fn what_is_left_out_may_be_anything_and_the_rest_may_not() {
    let printed = ["one", "id 12; two", "three"];
    for shown in [
        &["one", "id 12; two", "three"][..],
        &["...", "three"],
        &["one", "..."],
        &["one", "id ...; two", "..."],
    ] {
        assert!(same(&printed, shown), "{shown:?}");
    }
    for shown in [
        &["one", "id 12; two"][..],
        &["...", "two"],
        &["one", "id ...; three", "..."],
        &["one", "id 12; two", "three", "four"],
    ] {
        assert!(!same(&printed, shown), "{shown:?}");
    }
}
