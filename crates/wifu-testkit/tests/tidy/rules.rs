//! The rules over source files.

use crate::arrows::SANS_IO;
use crate::source::{Finding, Source, item_end, line_of, places};

const FUNCTION_LINES: usize = 70;
const FILE_LINES: usize = 600;
const COMMENT_COLUMNS: usize = 100;

/// Crates that talk to the kernel or to C, where `unsafe` is allowed.
const UNSAFE_CRATES: &[&str] = &["wifu-linux", "wifu-socket", "wifu-preload"];
/// The one file elsewhere: Rust's allocator trait is unsafe by definition.
const UNSAFE_FILES: &[&str] = &["crates/wifu-testkit/src/alloc.rs"];
/// Where a macro spells attributes that Rust calls unsafe, in whichever crate it expands.
const UNSAFE_MACROS: &[&str] = &["crates/wifu-node/src/export.rs"];
/// Functions whose last bit differs between C libraries are computed here instead.
const MATH: &str = "crates/wifu-engine/src/math.rs";
/// Where the nearest name is found, and the question formed whether it was meant.
const NAMES: &str = "crates/wifu-wire/src/names.rs";

/// (what is banned, why, what to use).
const BANNED: &[(&str, &str, &str)] = &[
    (
        "Instant::now",
        "The engine never reads a clock",
        "the argument `now: Time`",
    ),
    (
        "SystemTime",
        "The engine never reads a clock",
        "the argument `now: Time`",
    ),
    (
        "thread_rng",
        "Randomness comes from the run's seed",
        "`cx.rng()` or an `Rng` split by name",
    ),
    (
        "HashMap",
        "Its order differs from run to run",
        "`BTreeMap`, or a table by slot number",
    ),
    (
        "HashSet",
        "Its order differs from run to run",
        "`BTreeSet`, or `kit::Ranges`",
    ),
    (
        "std::thread",
        "Everything runs to completion in the caller",
        "a timer (`cx.arm`)",
    ),
    (
        "std::fs",
        "Files belong to the command",
        "`impl Read` or `impl Write` as an argument",
    ),
    (
        "std::env",
        "The environment belongs to the command",
        "a parameter with a range",
    ),
    (
        "std::process",
        "Processes belong to the command",
        "an error that the caller reports",
    ),
    (
        "UdpSocket",
        "Packets are arguments",
        "the substrate's `send`",
    ),
    (
        "TcpStream",
        "Packets are arguments",
        "the substrate's `send`",
    ),
    (
        "println!",
        "A library does not print",
        "a signal, a probe or the trace",
    ),
    (
        "print!",
        "A library does not print",
        "a signal, a probe or the trace",
    ),
    (
        "eprintln!",
        "A library does not print",
        "a signal, a probe or the trace",
    ),
];

/// Floating-point functions whose result is not the same on every machine.
const INEXACT: &[&str] = &[
    ".powf(", ".powi(", ".exp(", ".ln(", ".log2(", ".log10(", ".cbrt(", ".sin(", ".cos(", ".tan(",
];

/// The names of all registered parts: the `name` that opens each `Descriptor`.
pub fn part_names(tree: &[Source]) -> Vec<String> {
    let mut names = Vec::new();
    for source in tree
        .iter()
        .filter(|s| s.path.starts_with("crates/wifu-parts/src/"))
    {
        for at in places(&source.code, "Descriptor") {
            let rest = source.code[at + "Descriptor".len()..].trim_start();
            let field = source.code[at..]
                .find("name:")
                .filter(|_| rest.starts_with('{'));
            let Some(field) = field else { continue };
            let line = line_of(&source.code, at + field);
            let name = source.strings.iter().find(|(l, _)| *l == line);
            names.extend(
                name.filter(|_| !source.is_test(line))
                    .map(|(_, n)| n.clone()),
            );
        }
    }
    names
}

/// A string of the engine that is a part's name ties it to that part.
pub fn engine_names_no_component(source: &Source, names: &[String]) -> Vec<Finding> {
    if !source.path.starts_with("crates/wifu-engine/src/") {
        return Vec::new();
    }
    let tied = source
        .strings
        .iter()
        .filter(|(l, s)| names.contains(s) && !source.is_test(*l));
    let finding = |(line, name): &(usize, String)| {
        let message = format!(
            "names the part \"{name}\". The engine runs parts that it has never heard of: let the \
             part declare what it needs in its descriptor, or let the composition say it."
        );
        source.finding(*line, message)
    };
    tied.map(finding).collect()
}

/// Files of parts are islands: what two of them share is in the engine's kit.
pub fn part_imports_no_part(source: &Source) -> Vec<Finding> {
    let Some(inner) = source.path.strip_prefix("crates/wifu-parts/src/") else {
        return Vec::new();
    };
    if !inner.contains('/') || inner.ends_with("/mod.rs") {
        return Vec::new(); // lib.rs, list.rs and what only gathers modules
    }
    let finding = |(word, line): (&str, usize)| {
        let message = format!(
            "reaches outside its file by `{word}`. A part knows no other part: what several parts \
             share belongs in wifu-engine's `kit`; what one tells another is a signal or a fact \
             on the board."
        );
        source.finding(line, message)
    };
    // In a folder of its own a part has several files.
    let outside = if inner.matches('/').count() > 1 {
        "super::super::super::"
    } else {
        "super::"
    };
    let words = ["crate::", outside, "wifu_parts::", "include!"];
    let hits = words
        .into_iter()
        .flat_map(|w| source.uses(w).into_iter().map(move |l| (w, l)));
    hits.map(finding).collect()
}

/// A part that is not in list.rs does not exist for users, and no conformance test sees it.
pub fn every_part_is_listed(tree: &[Source]) -> Vec<Finding> {
    let list = tree
        .iter()
        .find(|s| s.path == "crates/wifu-parts/src/list.rs");
    let listed = |word: &str| list.is_some_and(|l| !places(&l.code, word).is_empty());
    let mut found = Vec::new();
    for source in tree {
        let Some(inner) = source.path.strip_prefix("crates/wifu-parts/src/") else {
            continue;
        };
        let Some((folder, file)) = inner.split_once('/') else {
            continue;
        };
        // What a part that has a folder of its own keeps there is the part's.
        let stem = file
            .split('/')
            .next()
            .unwrap_or(file)
            .trim_end_matches(".rs");
        let gathers = stem == "mod" || source.len_outside_tests() == 0;
        let is_listed = listed(folder) && listed(stem);
        if !gathers && !is_listed {
            found.push(source.finding(1, format!(
                "is not in crates/wifu-parts/src/list.rs. Add its descriptor there (one line), or \
                 remove the file: `{folder}::{stem}` is in no registry, so no composition can use \
                 it and no conformance test checks it."
            )));
        }
    }
    found
}

/// A file that no `mod` names is not compiled, and what it says is nobody's.
pub fn every_file_is_declared(tree: &[Source]) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in tree {
        let Some((folder, file)) = source.path.rsplit_once('/') else {
            continue;
        };
        let (folder, stem) = match file.trim_end_matches(".rs") {
            "lib" | "main" => continue,
            "mod" => folder.rsplit_once('/').unwrap_or(("", folder)),
            stem => (folder, stem),
        };
        // Parts are named by a macro, which `every_part_is_listed` looks after.
        if !folder.contains("/src") || folder.starts_with("crates/wifu-parts/src") {
            continue;
        }
        let above = [
            format!("{folder}.rs"),
            format!("{folder}/mod.rs"),
            format!("{folder}/lib.rs"),
            format!("{folder}/main.rs"),
        ];
        let declares = |s: &&Source| {
            above.contains(&s.path)
                && places(&s.code, stem)
                    .into_iter()
                    .any(|at| s.code[..at].ends_with("mod "))
        };
        if !tree.iter().any(|s| declares(&s)) {
            let message = format!("no `mod {stem};` above it: declare it, or remove the file.");
            found.push(source.finding(1, message));
        }
    }
    found
}

/// Clocks, randomness, threads, files and terminals are arguments or not there at all.
pub fn banned_calls(source: &Source) -> Vec<Finding> {
    // A build script runs before the crate, in cargo's hands.
    let name = source.in_crate();
    if !SANS_IO.contains(&name) || source.path == format!("crates/{name}/build.rs") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (word, why, instead) in BANNED {
        for line in source.uses(word) {
            let message = format!("uses `{word}`. {why}: use {instead} instead.");
            found.push(source.finding(line, message));
        }
    }
    for word in INEXACT.iter().filter(|_| source.path != MATH) {
        for line in source.uses(word) {
            let message = format!(
                "uses `{word})`, whose last bits differ between machines, so that runs could not be \
                 compared. Use wifu-engine's `math`, the functions of the crate libm (Rust all the \
                 way down), or integers."
            );
            found.push(source.finding(line, message));
        }
    }
    found
}

/// `unsafe` in three crates and one file only, and as an attribute that a macro spells; all others
/// forbid it at their root.
pub fn unsafe_code(source: &Source) -> Vec<Finding> {
    let name = source.in_crate();
    if UNSAFE_CRATES.contains(&name) || UNSAFE_FILES.contains(&source.path.as_str()) {
        return Vec::new();
    }
    let elsewhere = |line| {
        let message = "uses `unsafe`. Only wifu-linux (the kernel), wifu-socket and wifu-preload \
                       (C callers) do; write it there and offer a safe function.";
        source.finding(line, message)
    };
    let attribute = |at: &usize| {
        UNSAFE_MACROS.contains(&source.path.as_str()) && source.code[..*at].ends_with("#[")
    };
    let mut found: Vec<Finding> = places(&source.code, "unsafe")
        .into_iter()
        .filter(|at| !attribute(at))
        .map(|at| elsewhere(line_of(&source.code, at)))
        .collect();
    let is_root = [
        format!("crates/{name}/src/lib.rs"),
        format!("crates/{name}/src/main.rs"),
    ];
    let excused = UNSAFE_FILES
        .iter()
        .any(|f| f.starts_with(&format!("crates/{name}/")));
    let attribute = if excused {
        "#![deny(unsafe_code)]"
    } else {
        "#![forbid(unsafe_code)]"
    };
    if is_root.contains(&source.path) && !source.code.contains(attribute) {
        found.push(source.finding(
            1,
            format!("lacks `{attribute}`. Put it below the crate's doc comment."),
        ));
    }
    found
}

/// A function fits on a screen, a file in a head.
pub fn lengths(source: &Source) -> Vec<Finding> {
    let mut found = Vec::new();
    let lines = source.len_outside_tests();
    if lines > FILE_LINES {
        found.push(source.finding(lines, format!(
            "has {lines} lines outside tests; {FILE_LINES} is the limit. Split it by what it keeps \
             (its state), not by where it happens to be long."
        )));
    }
    for (name, first, last) in functions(source) {
        let lines = last - first + 1;
        if lines > FUNCTION_LINES && !source.is_test(first) {
            found.push(source.finding(
                first,
                format!(
                    "`{name}` has {lines} lines; {FUNCTION_LINES} is the limit. Give what it keeps \
                 between its steps a struct, and make the steps methods of that."
                ),
            ));
        }
    }
    for (i, line) in source.text.lines().enumerate() {
        let comment = line.trim_start().starts_with("//") && !line.contains("://");
        if comment && line.chars().count() > COMMENT_COLUMNS {
            let message = format!("comment goes past column {COMMENT_COLUMNS}. Break the line.");
            found.push(source.finding(i + 1, message));
        }
    }
    found
}

/// (name, first line, last line) of every function that has a body.
fn functions(source: &Source) -> Vec<(String, usize, usize)> {
    let code = &source.code;
    let mut all = Vec::new();
    for at in places(code, "fn") {
        let rest = code[at + 2..].trim_start();
        let name: String = rest
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let end = item_end(code, at);
        if !name.is_empty() && code.as_bytes()[end] == b'}' {
            all.push((name, line_of(code, at), line_of(code, end)));
        }
    }
    all
}

/// Messages ask in one wording which name was meant, with one measure of what is near.
pub fn questions(source: &Source) -> Vec<Finding> {
    let asks = |text: &str| {
        let line: Vec<&str> = text.split_whitespace().filter(|w| *w != "\\").collect();
        line.join(" ").to_lowercase().contains("did you mean")
    };
    let elsewhere = |line: &usize| source.path != NAMES && !source.is_test(*line);
    let mut found = Vec::new();
    for (line, _) in source
        .strings
        .iter()
        .filter(|(l, t)| elsewhere(l) && asks(t))
    {
        let message = "asks \"did you mean\" by itself. Use `wifu_wire::names`: `unknown` says it \
                       all, `hint` and `ending` what follows words of yours, `meant` the question.";
        found.push(source.finding(*line, message));
    }
    found
}

/// Work that somebody meant to finish, and tests that do not run.
pub fn leftovers(source: &Source) -> Vec<Finding> {
    const WRITE: &str = "Write it, or leave it out together with what would call it.";
    const LEFT: &[(&str, &str)] = &[
        ("todo!", WRITE),
        ("unimplemented!", WRITE),
        ("dbg!", "Remove it."),
        (
            "#[ignore",
            "A test that does not run cannot fail: run it, or remove it. One that needs root or \
             another program asks for it and says so when it is missing. One that another test \
             starts in a process of its own says `#[ignore = \"run by NAME\"]`.",
        ),
    ];
    let mut found = Vec::new();
    for (word, what) in LEFT {
        for at in places(&source.code, word) {
            let line = line_of(&source.code, at);
            if !(*word == "#[ignore" && is_run_by_another(source, line)) {
                found.push(source.finding(line, format!("has `{word}`. {what}")));
            }
        }
    }
    found
}

/// Whether the ignored test at `line` names a test of the same file that runs it.
fn is_run_by_another(source: &Source, line: usize) -> bool {
    let reason = source.strings.iter().find(|(l, _)| *l == line);
    let runner = reason.and_then(|(_, text)| text.strip_prefix("run by "));
    runner.is_some_and(|name| !places(&source.code, &format!("fn {name}")).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: &str = "crates/wifu-parts/src/gate/pacer.rs";

    fn lines(found: &[Finding]) -> Vec<usize> {
        found.iter().map(|f| f.line).collect()
    }

    #[test]
    fn the_engine_is_caught_naming_a_registered_part() {
        let text = "pub static P: Descriptor = Descriptor {\n    name: \"pacer\",\n    params: &[ParamSpec { name: \"gap\" }],\n};";
        let names = part_names(&[Source::new(PART, text)]);
        assert_eq!(names, ["pacer"]);
        let engine = "fn a() { f(\"pacer\"); f(\"gap\"); }\n// pacer\n#[cfg(test)]\nmod t { fn b() { f(\"pacer\") } }";
        let found =
            engine_names_no_component(&Source::new("crates/wifu-engine/src/a.rs", engine), &names);
        assert_eq!(lines(&found), [1]);
        let elsewhere = Source::new("crates/wifu/src/a.rs", engine);
        assert_eq!(engine_names_no_component(&elsewhere, &names), []);
    }

    #[test]
    fn a_part_is_caught_importing_its_neighbour() {
        let text = "use wifu_engine::kit::Pace;\nuse crate::judge::Backlog;\nuse super::window;\n#[cfg(test)]\nmod t { use super::*; }";
        assert_eq!(
            lines(&part_imports_no_part(&Source::new(PART, text))),
            [2, 3]
        );
        let list = Source::new("crates/wifu-parts/src/list.rs", text);
        assert_eq!(part_imports_no_part(&list), []);
        let piece = Source::new("crates/wifu-parts/src/gate/pacer/clock.rs", text);
        assert_eq!(lines(&part_imports_no_part(&piece)), [2]);
        let out = "use super::super::super::window;";
        let piece = Source::new("crates/wifu-parts/src/gate/pacer/clock.rs", out);
        assert_eq!(lines(&part_imports_no_part(&piece)), [1]);
    }

    #[test]
    fn a_part_that_nobody_listed_is_caught() {
        let part = || Source::new(PART, "pub struct Pacer;\n");
        let list = |text| Source::new("crates/wifu-parts/src/list.rs", text);
        assert_eq!(
            every_part_is_listed(&[part(), list("&gate::pacer::PACER,")]),
            []
        );
        assert_eq!(
            every_part_is_listed(&[part(), list("&gate::window::W, // gate::pacer")]).len(),
            1
        );
        assert_eq!(every_part_is_listed(&[part()]).len(), 1);
    }

    #[test]
    fn a_clock_a_hash_map_and_a_print_are_caught_with_their_replacement() {
        let text = "fn a() {\n    Instant::now();\n    let m: HashMap<u8, u8>;\n    println!();\n    x.powf(2.0);\n}\n";
        let found = banned_calls(&Source::new("crates/wifu-engine/src/a.rs", text));
        assert_eq!(lines(&found), [2, 3, 4, 5]);
        assert!(found[0].message.contains("`now: Time`"));
        assert!(found[1].message.contains("`BTreeMap`"));
        assert_eq!(
            banned_calls(&Source::new("crates/wifu-linux/src/a.rs", text)),
            []
        );
        assert_eq!(
            banned_calls(&Source::new("crates/wifu-engine/tests/a.rs", text)),
            []
        );
        let script = Source::new("crates/wifu-engine/build.rs", text);
        assert_eq!(banned_calls(&script), []);
        assert_eq!(lines(&banned_calls(&Source::new(MATH, text))), [2, 3, 4]);
    }

    #[test]
    fn unsafe_is_caught_outside_its_crates_and_the_attribute_is_asked_for() {
        let text = "#![forbid(unsafe_code)]\nfn a() { unsafe { b() } }\n";
        assert_eq!(
            lines(&unsafe_code(&Source::new(
                "crates/wifu-sim/src/lib.rs",
                text
            ))),
            [2]
        );
        assert_eq!(
            unsafe_code(&Source::new("crates/wifu-linux/src/lib.rs", text)),
            []
        );
        let bare = unsafe_code(&Source::new("crates/wifu-sim/src/lib.rs", "fn a() {}"));
        assert!(bare[0].message.contains("forbid(unsafe_code)"));
    }

    #[test]
    fn a_macro_may_spell_an_unsafe_attribute_and_nothing_else() {
        let text =
            "macro_rules! m {\n() => {\n#[unsafe(no_mangle)] fn a() {}\nunsafe { b() }\n}}\n";
        let of = |path| lines(&unsafe_code(&Source::new(path, text)));
        assert_eq!(of(UNSAFE_MACROS[0]), [4]);
        assert_eq!(of("crates/wifu-node/src/registry.rs"), [3, 4]);
    }

    #[test]
    fn a_long_function_a_long_file_and_a_long_comment_are_caught() {
        let body = |n: usize| format!("fn long() {{\n{}}}\n", "    x();\n".repeat(n - 2));
        let source = |text: &str| Source::new("crates/wifu-sim/src/a.rs", text);
        assert_eq!(lengths(&source(&body(70))), []);
        let found = lengths(&source(&format!("//! Doc.\n{}", body(71))));
        assert_eq!(lines(&found), [2]);
        assert!(found[0].message.starts_with("`long` has 71 lines"));
        assert_eq!(lengths(&source(&"const A: u8 = 0;\n".repeat(600))), []);
        assert_eq!(lengths(&source(&"const A: u8 = 0;\n".repeat(601))).len(), 1);
        assert_eq!(
            lengths(&source(&format!(
                "#[cfg(test)]\nmod t {{\n{}}}\n",
                body(900)
            ))),
            []
        );
        assert_eq!(
            lengths(&source(&format!("// {}", "a ".repeat(60)))).len(),
            1
        );
    }

    #[test]
    fn a_question_for_the_name_that_was_meant_is_caught_where_it_is_written_again() {
        let text = "fn a() {\n    f(\"; did you mean {n}?\");\n    f(\"x; did you \\\n      mean {n}?\");\n    \
                    hint(\"x\", all); // did you mean\n}\n#[cfg(test)]\nmod t { fn b() { f(\"did you mean y\") } }";
        let of = |path| lines(&questions(&Source::new(path, text)));
        assert_eq!(of("crates/wifu-sim/src/a.rs"), [2, 3]);
        assert_eq!(of("crates/wifu-sim/tests/a.rs"), []);
        assert_eq!(of(NAMES), []);
    }

    #[test]
    fn a_file_that_no_other_declares_is_caught() {
        let files = [
            (
                "crates/wifu/src/main.rs",
                "mod sim;\nfn lost() {} // mod lost;\n",
            ),
            ("crates/wifu/src/sim/mod.rs", "pub mod table;\n"),
            ("crates/wifu/src/sim/table.rs", ""),
            ("crates/wifu/src/sim/losses.rs", ""),
            ("crates/wifu/src/lost.rs", ""),
        ];
        let tree: Vec<Source> = files.iter().map(|(p, t)| Source::new(p, t)).collect();
        let found = every_file_is_declared(&tree);
        let paths: Vec<&str> = found.iter().map(|f| f.path.as_str()).collect();
        assert_eq!(
            paths,
            ["crates/wifu/src/sim/losses.rs", "crates/wifu/src/lost.rs"]
        );
    }

    #[test]
    fn unfinished_work_and_sleeping_tests_are_caught() {
        let text = "fn a() {\n    todo!()\n}\n#[test]\n#[ignore]\nfn b() { dbg!(1); } // todo!()\n";
        let found = leftovers(&Source::new("crates/wifu/src/a.rs", text));
        let mut at = lines(&found);
        at.sort();
        assert_eq!(at, [2, 5, 6]);
        let child = "#[test]\nfn a() {}\n#[test]\n#[ignore = \"run by a\"]\nfn b() {}\n";
        let of = |text: &str| leftovers(&Source::new("crates/wifu/tests/a.rs", text));
        assert_eq!(of(child), []);
        assert_eq!(lines(&of(&child.replace("fn a()", "fn c()"))), [4]);
    }
}
