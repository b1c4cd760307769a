//! Every public function of the engine and the node has a caller that is no test: a mechanism that
//! only tests call does not exist.

use crate::source::{Finding, Source, line_of};
use std::collections::BTreeMap;
use std::path::Path;

/// Whose functions are held to it.
const HELD: [&str; 2] = ["wifu-engine", "wifu-node"];

/// Crates whose code is there for tests.
const FOR_TESTS: [&str; 1] = ["wifu-testkit"];

/// Functions for tests that are built with a feature of their own: (file, function).
const FOR_CONFORMANCE: &[(&str, &str)] = &[
    ("wifu-engine/src/bench.rs", "take_emitted"),
    ("wifu-engine/src/conn/mod.rs", "take_emitted"),
];

/// The names of functions that a file defines for all, with their lines.
fn public(source: &Source) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (at, _) in source.code.match_indices("fn ") {
        let line_start = source.code[..at].rfind('\n').map_or(0, |n| n + 1);
        let before = source.code[line_start..at].trim();
        let open = before == "pub" || before == "pub const";
        let name: String = source.code[at + 3..]
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let line = line_of(&source.code, at);
        if open && !name.is_empty() && !source.is_test(line) {
            found.push((name, line));
        }
    }
    found
}

/// Functions that nobody calls but tests; the files in `example` are users as well.
pub fn check(tree: &[Source], example: &Path) -> Vec<Finding> {
    let files = std::fs::read_dir(example).into_iter().flatten().flatten();
    let texts = files.filter_map(|f| std::fs::read_to_string(f.path()).ok());
    let example: Vec<Source> = texts.map(|t| Source::new("custom/src/x.rs", &t)).collect();
    let all: BTreeMap<&str, Vec<(String, usize)>> = tree
        .iter()
        .filter(|s| HELD.contains(&s.in_crate()))
        .map(|s| (s.path.as_str(), public(s)))
        .collect();
    let users: Vec<&Source> = tree
        .iter()
        .filter(|s| !FOR_TESTS.contains(&s.in_crate()))
        .chain(&example)
        .collect();
    let mut found = Vec::new();
    for source in tree {
        for (name, line) in all.get(source.path.as_str()).into_iter().flatten() {
            let mut exempt = FOR_CONFORMANCE.iter();
            let exempt = exempt.any(|(file, f)| source.path.ends_with(file) && f == name);
            let called = users.iter().any(|user| calls(user, name));
            if !called && !exempt {
                let what = format!(
                    "nobody but tests calls the public `{name}`. Use it, make it private, or \
                     remove it."
                );
                found.push(source.finding(*line, what));
            }
        }
    }
    found
}

/// Whether a file uses a function's name otherwise than to define it.
fn calls(user: &Source, name: &str) -> bool {
    let lines: Vec<&str> = user.code.lines().collect();
    let defined = format!("fn {name}");
    user.uses(name)
        .into_iter()
        .any(|line| !lines[line - 1].contains(&defined))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_only_tests_call_is_caught() {
        let engine = "pub fn used() {}\npub fn forgotten() {}\npub(crate) fn inside() {}\n\
                      #[cfg(test)]\nmod tests {\n fn t() { super::forgotten(); }\n}\n";
        let tree = [
            Source::new("crates/wifu-engine/src/a.rs", engine),
            Source::new("crates/wifu-sim/src/b.rs", "fn f() { used(); }\n"),
            Source::new("crates/wifu-testkit/src/c.rs", "fn f() { forgotten(); }\n"),
        ];
        let found = check(&tree, Path::new("there is none"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].message.contains("`forgotten`"), "{found:?}");
    }
}
