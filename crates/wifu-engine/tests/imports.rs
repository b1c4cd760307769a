//! The modules of the engine import each other in no circle, so that each can be read with what is
//! below it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{read_dir, read_to_string};
use std::path::Path;

/// The code of a module: without comments and tests.
fn code(path: &Path, into: &mut String) {
    if path.is_dir() {
        for entry in read_dir(path).expect("a folder of sources").flatten() {
            code(&entry.path(), into);
        }
        return;
    }
    let text = read_to_string(path).expect("a source file");
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or("");
    let lines = text
        .lines()
        .map(|l| l.split("//").next().unwrap_or_default());
    into.extend(lines.flat_map(|l| [l, "\n"]));
}

/// The names that follow `crate::` in `code`.
fn imported(code: &str) -> BTreeSet<String> {
    let places = code.match_indices("crate::").map(|(at, w)| at + w.len());
    places
        .map(|at| {
            let word = code[at..].split(|c: char| c != '_' && !c.is_ascii_alphanumeric());
            word.take(1).collect()
        })
        .collect()
}

#[test]
fn no_modules_import_each_other_in_a_circle() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut reach: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in read_dir(source).expect("the sources").flatten() {
        let name = entry.path().file_stem().map(|n| n.to_string_lossy().into());
        let name: String = name.unwrap_or_default();
        let mut text = String::new();
        code(&entry.path(), &mut text);
        let mut others = imported(&text);
        others.remove(&name); // between the files of one module
        reach.insert(name, others);
    }
    reach.remove("lib");
    assert!(reach["blueprint"].contains("composition"), "{reach:?}");
    loop {
        let before = reach.clone();
        for (name, direct) in &before {
            let beyond = direct.iter().filter_map(|d| before.get(d)).flatten();
            let found = reach.get_mut(name).expect("it is a module");
            found.extend(beyond.cloned());
        }
        if reach == before {
            break;
        }
    }
    let circle: Vec<_> = reach.iter().filter(|(n, r)| r.contains(*n)).collect();
    let names: Vec<_> = circle.iter().map(|c| c.0).collect();
    assert!(names.is_empty(), "in circles: {names:?}");
}
