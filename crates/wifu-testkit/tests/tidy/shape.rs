//! How a crate's files hang together: state is split before files are. Paths are resolved as far as
//! the layout of files and `use` items say; what comes out of macros is not seen.

use crate::source::{Finding, Source, item_end, line_of, places};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Files that the methods of one type fill at most.
const FILES_PER_TYPE: usize = 3;

/// A path in a file: `pub use a::b as c` is `["a", "b"]` by the name `c`.
pub struct Import {
    line: usize,
    pub path: Vec<String>,
    pub name: String,
    /// Handed on to others: by itself it says nothing of what this file needs.
    handed_on: bool,
}

/// The files of one crate, by module.
struct Crate<'a> {
    files: BTreeMap<Vec<String>, &'a Source>,
    imports: BTreeMap<&'a str, Vec<Import>>,
}

fn words(path: &str) -> Vec<String> {
    let all = path.split("::").map(str::trim);
    all.filter(|w| !w.is_empty()).map(String::from).collect()
}

/// The module that a file is; `None` if it is not below a crate's src.
fn module(source: &Source) -> Option<Vec<String>> {
    let inner = source.path.split_once("/src/")?.1.strip_suffix(".rs")?;
    let mut parts: Vec<String> = inner.split('/').map(String::from).collect();
    match parts.last().map(String::as_str) {
        Some("mod") => drop(parts.pop()),
        Some("lib") if parts.len() == 1 => drop(parts.pop()),
        _ => {}
    }
    Some(parts)
}

/// The paths of a `use` item's tree, with the names by which they are known.
fn tree(prefix: &[String], text: &str, out: &mut Vec<(Vec<String>, String)>) {
    let text = text.trim();
    if let Some(open) = text.find('{') {
        let head = [prefix, &words(&text[..open])].concat();
        let inner = &text[open + 1..text.rfind('}').unwrap_or(text.len())];
        let (mut depth, mut from) = (0, 0);
        for (i, c) in inner.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    tree(&head, &inner[from..i], out);
                    from = i + 1;
                }
                _ => {}
            }
        }
        return tree(&head, &inner[from..], out);
    }
    let (path, alias) = text.split_once(" as ").unwrap_or((text, ""));
    let mut path = [prefix, &words(path)].concat();
    if path.last().is_some_and(|w| w == "self") {
        path.pop();
    }
    let Some(last) = path.last().filter(|_| !text.is_empty()) else {
        return;
    };
    let name = if alias.is_empty() { last } else { alias.trim() };
    out.push((path.clone(), name.to_string()));
}

/// The `use` items of a file: where `use` stands, and the last byte.
fn use_items(code: &str) -> impl Iterator<Item = (usize, usize)> {
    let items = places(code, "use").into_iter();
    items.filter_map(|at| Some((at, at + code[at..].find(';')?)))
}

/// A file's code with its `use` items blanked.
pub fn without_imports(source: &Source) -> String {
    let mut code = source.code.clone().into_bytes();
    for (at, end) in use_items(&source.code) {
        let item = &mut code[at..=end.min(item_end(&source.code, at))];
        item.iter_mut()
            .filter(|b| **b != b'\n')
            .for_each(|b| *b = b' ');
    }
    String::from_utf8(code).expect("whole items are blanked")
}

/// What a file imports, and the paths that it spells out.
pub fn imports(source: &Source) -> Vec<Import> {
    let code = &source.code;
    let mut all = Vec::new();
    for (at, semicolon) in use_items(code) {
        let before = code[..at].trim_end();
        let handed_on = before.ends_with("pub") || before.ends_with(')');
        let line = line_of(code, at);
        if source.is_test(line) {
            continue;
        }
        let mut paths = Vec::new();
        tree(&[], &code[at + 3..semicolon], &mut paths);
        all.extend(paths.into_iter().map(|(path, name)| Import {
            line,
            path,
            name,
            handed_on,
        }));
    }
    let spelled = without_imports(source);
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let (mut line, mut upto) = (1, 0);
    for (at, _) in spelled.match_indices("::") {
        let first = spelled[..at].rfind(|c| !is_word(c)).map_or(0, |n| n + 1);
        line += spelled[upto..at].matches('\n').count();
        upto = at;
        if first == at || spelled[..first].ends_with("::") || source.is_test(line) {
            continue;
        }
        let rest = &spelled[first..];
        let end = rest.find(|c| !is_word(c) && c != ':').unwrap_or(rest.len());
        all.push(Import {
            line,
            path: words(&rest[..end]),
            name: String::new(),
            handed_on: false,
        });
    }
    all
}

/// What comes before the name of an item that a file defines.
const KINDS: [&str; 9] = [
    "struct", "enum", "union", "trait", "type", "fn", "const", "static", "mod",
];

/// Where a file itself defines an item of this name outside its tests.
fn definition(source: &Source, name: &str) -> Option<usize> {
    places(&source.code, name).into_iter().find(|&at| {
        let before = source.code[..at].trim_end();
        let kind = before.rsplit(|c: char| !c.is_alphanumeric()).next();
        !source.is_test(line_of(&source.code, at)) && kind.is_some_and(|k| KINDS.contains(&k))
    })
}

fn defines(source: &Source, name: &str) -> bool {
    definition(source, name).is_some()
}

/// The names of all items that a file defines outside its tests.
fn items(source: &Source) -> BTreeSet<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let code = &source.code;
    let named = KINDS.iter().flat_map(|kind| {
        let after = places(code, kind).into_iter().map(|at| at + kind.len());
        after.map(|at| (at, code[at..].trim_start()))
    });
    let named = named.filter(|(at, _)| !source.is_test(line_of(code, *at)));
    let named = named.map(|(_, rest)| &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())]);
    named.filter(|n| !n.is_empty()).collect()
}

/// What `type name = path;` stands for, without what is between `<` and `>`.
fn alias(source: &Source, name: &str) -> Option<Vec<String>> {
    let at = definition(source, name)?;
    source.code[..at].trim_end().strip_suffix("type")?;
    let rest = &source.code[at + name.len()..];
    let item = without_generics(&rest[..rest.find(';')?]);
    let path = words(item.split_once('=')?.1);
    (!path.is_empty()).then_some(path)
}

/// A type or the head of an `impl` without its parameters.
pub fn without_generics(text: &str) -> String {
    let mut depth = 0;
    let mut plain = String::new();
    let mut last = ' ';
    for c in text.chars() {
        match c {
            '<' => depth += 1,
            '>' if last != '-' => depth -= 1,
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
        last = c;
    }
    plain
}

impl<'a> Crate<'a> {
    fn read(tree: &'a [Source], name: &str) -> Crate<'a> {
        let own = tree.iter().filter(|s| s.in_crate() == name);
        let own = own.filter(|s| s.len_outside_tests() > 0);
        let files: BTreeMap<_, _> = own.filter_map(|s| Some((module(s)?, s))).collect();
        let imports = files.values().map(|s| (s.path.as_str(), imports(s)));
        let imports = imports.collect();
        Crate { files, imports }
    }

    /// The file where what a path means is defined; `None` outside the crate.
    fn resolve(&self, from: &[String], path: &[String]) -> Option<&'a Source> {
        self.item(from, path, 8).map(|(file, _)| file)
    }

    /// The file where what a path means is defined, and its name there (empty for a module).
    fn item(&self, from: &[String], path: &[String], depth: usize) -> Option<(&'a Source, String)> {
        let depth = depth.checked_sub(1)?;
        let (mut at, mut rest) = match path.first()?.as_str() {
            "crate" => (Vec::new(), &path[1..]),
            "self" => (from.to_vec(), &path[1..]),
            "super" => (from.split_last()?.1.to_vec(), &path[1..]),
            first if self.files.contains_key(&[from, &[first.into()]].concat()) => {
                (from.to_vec(), path)
            }
            first if defines(self.files.get(from)?, first) => (from.to_vec(), path),
            // A name that this file imported.
            _ => return self.imported(from, path, depth),
        };
        while let Some(word) = rest.first() {
            let below = [&at[..], std::slice::from_ref(word)].concat();
            match word.as_str() {
                "super" => drop(at.pop()),
                _ if self.files.contains_key(&below) => at = below,
                _ => break,
            }
            rest = &rest[1..];
        }
        let file = *self.files.get(&at)?;
        let Some(name) = rest.first().filter(|w| *w != "*") else {
            return Some((file, String::new()));
        };
        if defines(file, name) {
            let behind = alias(file, name).and_then(|path| self.item(&at, &path, depth));
            return Some(behind.unwrap_or((file, name.clone())));
        }
        let there = self.imported(&at, rest, depth);
        Some(there.unwrap_or((file, name.clone())))
    }

    /// What a path means that begins with a name which the module `at` imports, by name or with all
    /// others of a module.
    fn imported(
        &self,
        at: &[String],
        path: &[String],
        depth: usize,
    ) -> Option<(&'a Source, String)> {
        let here = self.imports.get(self.files.get(at)?.path.as_str())?;
        let named = here.iter().filter(|i| i.name == path[0] && i.path != path);
        let mut named = named.map(|i| [&i.path, &path[1..]].concat());
        if let Some(known) = named.find_map(|p| self.item(at, &p, depth)) {
            return Some(known);
        }
        let all = here.iter().filter(|i| i.name == "*");
        let all = all.map(|i| [&i.path[..i.path.len() - 1], path].concat());
        // Of several such modules, the one that has it.
        let mut all = all.filter_map(|p| self.item(at, &p, depth));
        all.find(|(file, name)| name.is_empty() || defines(file, name))
    }

    /// Who imports whom, with the first line that does.
    fn arrows(&self) -> BTreeMap<&'a str, BTreeMap<&'a str, usize>> {
        let mut arrows: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
        for (module, source) in &self.files {
            for import in &self.imports[source.path.as_str()] {
                let there = self.resolve(module, &import.path);
                let there = there.filter(|t| t.path != source.path && needs(source, import, t));
                if let Some(there) = there {
                    let out = arrows.entry(&source.path).or_default();
                    out.entry(&there.path).or_insert(import.line);
                }
            }
        }
        arrows
    }

    /// The type whose methods an `impl` at `at` adds: where it is defined, and its name.
    fn receiver(&self, from: &[String], source: &Source, at: usize) -> Option<(String, String)> {
        let code = &source.code;
        let before = code[..at].trim_end().chars().last();
        if !before.is_none_or(|c| matches!(c, '}' | ';' | ']' | '{')) {
            return None; // `impl Trait` as the type of something
        }
        let head = without_generics(&code[at + 4..at + code[at..].find('{')?]);
        let plain = head.split(" where").next()?.trim();
        if plain.contains(" for ") {
            return None;
        }
        let (file, name) = self.item(from, &words(plain), 8)?;
        Some((file.path.clone(), name))
    }
}

/// Whether a file needs what it imports: what it hands on only if it also uses it itself.
fn needs(source: &Source, import: &Import, there: &Source) -> bool {
    if !import.handed_on {
        return true;
    }
    let code = without_imports(source);
    let used = |name: &str| {
        let mut lines = places(&code, name).into_iter().map(|at| line_of(&code, at));
        lines.any(|line| !source.is_test(line))
    };
    match import.name.as_str() {
        "*" => items(there)
            .into_iter()
            .any(|n| !defines(source, n) && used(n)),
        name => used(name),
    }
}

fn crates(tree: &[Source]) -> BTreeSet<&str> {
    tree.iter().map(Source::in_crate).collect()
}

/// A type whose methods fill many files keeps too much.
pub fn types_fill_few_files(tree: &[Source]) -> Vec<Finding> {
    let mut found = Vec::new();
    for name in crates(tree) {
        let of = Crate::read(tree, name);
        let mut filled: BTreeMap<(String, String), Vec<(&Source, usize)>> = BTreeMap::new();
        for (module, source) in &of.files {
            for at in places(&source.code, "impl") {
                let line = line_of(&source.code, at);
                let receiver = of.receiver(module, source, at);
                let Some(receiver) = receiver.filter(|_| !source.is_test(line)) else {
                    continue;
                };
                let files = filled.entry(receiver).or_default();
                if files.last().is_none_or(|(s, _)| s.path != source.path) {
                    files.push((source, line));
                }
            }
        }
        for ((_, kind), files) in filled.iter().filter(|(_, f)| f.len() > FILES_PER_TYPE) {
            let (last, line) = files[files.len() - 1];
            let all: Vec<&str> = files
                .iter()
                .filter_map(|(s, _)| s.path.rsplit('/').next())
                .collect();
            found.push(last.finding(line, format!(
                "the methods of `{kind}` fill {} files ({}); {FILES_PER_TYPE} is the limit. Split \
                 what it keeps into types of their own, each given what it needs; more files for \
                 the same state hide how much hangs together.",
                files.len(), all.join(", ")
            )));
        }
    }
    found
}

/// Files that import each other in a circle are one file; two may, as a module and its part do.
pub fn files_form_no_circle(tree: &[Source]) -> Vec<Finding> {
    let mut found = Vec::new();
    for name in crates(tree) {
        let arrows = Crate::read(tree, name).arrows();
        // One at a time: who breaks it may well have broken others.
        let each = arrows
            .iter()
            .flat_map(|(from, out)| out.iter().map(move |o| (*from, o)));
        let circles = each.filter_map(|(from, (to, line))| Some((way(&arrows, to, from)?, *line)));
        let Some((circle, line)) = circles.min_by_key(|(c, _)| c.len()) else {
            continue;
        };
        let names: Vec<&str> = circle
            .iter()
            .filter_map(|p| p.split_once("/src/"))
            .map(|p| p.1)
            .collect();
        let source = tree.iter().find(|s| s.path == circle[circle.len() - 1]);
        found.extend(source.map(|s| {
            s.finding(line, format!(
                "imports close a circle of {} files: {}. Move what two of them share below both, \
                 or hand it over as an argument.",
                circle.len(), names.join(" -> ")
            ))
        }));
    }
    found
}

/// The shortest way from one file to another that is longer than one step.
fn way<'a>(
    arrows: &BTreeMap<&'a str, BTreeMap<&'a str, usize>>,
    from: &'a str,
    to: &str,
) -> Option<Vec<&'a str>> {
    let mut came: BTreeMap<&str, &'a str> = BTreeMap::new();
    let mut next = VecDeque::from([from]);
    while let Some(at) = next.pop_front() {
        for (&there, _) in arrows.get(at).into_iter().flatten() {
            if there == from || came.contains_key(there) || (at, there) == (from, to) {
                continue;
            }
            came.insert(there, at);
            next.push_back(there);
            if there == to {
                let back = std::iter::successors(Some(there), |at| came.get(at).copied());
                let mut all: Vec<&str> = back.collect();
                all.reverse();
                return Some(all);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> Source {
        Source::new(&format!("crates/x/src/{path}"), text)
    }

    /// Methods of `Large` in the files a, b, c and `mod.rs`.
    fn large() -> Vec<Source> {
        let part = "use super::Large;\nimpl Large { fn b(&self) {} }\nimpl Copy for Large {}\n";
        let globbed = "use super::*;\nimpl<'a> Large<'a> where Large<'a>: Copy { fn c() {} }\n";
        let other = "struct Large;\nimpl Large { fn d() -> impl Fn() { || {} } }\n";
        vec![
            file("lib.rs", "mod deep;\nmod other;\n"),
            file("other.rs", other),
            file(
                "deep/mod.rs",
                "mod a;\npub struct Large;\nimpl Large {}\nimpl Large {}\n",
            ),
            file("deep/a.rs", part),
            file("deep/b.rs", globbed),
        ]
    }

    #[test]
    fn a_type_in_a_fourth_file_is_caught_and_its_namesake_is_not_counted() {
        let mut tree = large();
        assert_eq!(types_fill_few_files(&tree), []);
        let test = "#[cfg(test)]\nmod tests {\n    impl super::super::Large {}\n}\n";
        tree.push(file("deep/c.rs", test));
        tree.push(file("deep/d.rs", "impl crate::Large {}\n"));
        assert_eq!(
            types_fill_few_files(&tree),
            [],
            "a trait's methods and tests do not count"
        );
        tree[0] = file("lib.rs", "mod deep;\npub use deep::Large;\n");
        let found = types_fill_few_files(&tree);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            (found[0].path.as_str(), found[0].line),
            ("crates/x/src/deep/d.rs", 1)
        );
        assert!(
            found[0]
                .message
                .contains("fill 4 files (mod.rs, a.rs, b.rs, d.rs)")
        );
    }

    #[test]
    fn a_circle_of_three_is_caught_and_one_of_two_is_not() {
        let lib = "mod a;\nmod b;\nmod c;\npub use c::C;\n";
        let tree = |c: &str| {
            vec![
                file("lib.rs", lib),
                file("a.rs", "use crate::b::B;\npub struct A;\n"),
                file("b.rs", "use crate::{C, a::A};\npub struct B;\n"),
                file("c.rs", c),
            ]
        };
        assert_eq!(files_form_no_circle(&tree("pub struct C;\n")), []);
        for c in [
            "use super::a::A;\npub struct C;\n",
            "pub struct C;\nfn f(a: crate::a::A) {}\n",
            "use super::a;\npub struct C;\nfn f() { a::g() }\n",
        ] {
            let found = files_form_no_circle(&tree(c));
            assert_eq!(found.len(), 1, "{c}");
            assert!(found[0].message.contains("circle of 3 files"));
        }
        let test = "pub struct C;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n";
        assert_eq!(files_form_no_circle(&tree(test)), []);
    }

    #[test]
    fn a_type_by_another_name_is_the_same_type() {
        for fourth in [
            "use super::Large as L;\nimpl L {}\n",
            "type L = super::Large;\nimpl L {}\n",
            "use crate::deep::all::Other;\nimpl Other {}\n",
        ] {
            let mut tree = large();
            tree.push(file("deep/all.rs", "pub type Other<'a> = super::Large;\n"));
            assert_eq!(types_fill_few_files(&tree), []);
            tree.push(file("deep/d.rs", fourth));
            let found = types_fill_few_files(&tree);
            assert_eq!(found.len(), 1, "{fourth}");
            assert!(found[0].message.contains("methods of `Large` fill 4 files"));
        }
    }

    #[test]
    fn a_circle_through_what_is_handed_on_is_caught() {
        let through = |lib: &str, b: &str| {
            let tree = [
                file("lib.rs", lib),
                file("a.rs", "use crate::b::B;\npub struct A;\n"),
                file("b.rs", b),
                file("c.rs", "use crate::a::A;\npub struct C;\n"),
            ];
            files_form_no_circle(&tree).len()
        };
        let mods = "mod a;\nmod b;\nmod c;\n";
        let all = format!("{mods}pub use c::*;\n");
        assert_eq!(through(&all, "use crate::C;\npub struct B;\n"), 1);
        // To hand on is not to need; to use it as well is.
        assert_eq!(
            through(mods, "pub(crate) use crate::c::C;\npub struct B;\n"),
            0
        );
        assert_eq!(through(mods, "pub use crate::c::*;\npub struct B;\n"), 0);
        for used in ["pub(crate) use crate::c::C;", "pub use crate::c::*;"] {
            let b = format!("{used}\npub struct B(C);\n");
            assert_eq!(through(mods, &b), 1, "{used}");
        }
    }
}
