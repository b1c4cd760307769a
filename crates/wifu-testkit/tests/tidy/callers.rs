//! Every public function of the engine, the node and what they stand on has a caller that is no
//! test: a mechanism that only tests call does not exist.

use crate::shape::{Import, imports, without_generics, without_imports};
use crate::source::{Finding, Source, item_end, line_of, places};
use std::collections::BTreeSet;
use std::path::Path;

/// Whose functions are held to it.
const HELD: [&str; 5] = [
    "wifu-wire",
    "wifu-engine",
    "wifu-core",
    "wifu-node",
    "wifu-radio",
];

/// Crates whose code is there for tests.
const FOR_TESTS: [&str; 1] = ["wifu-testkit"];

/// Functions for tests that no `cfg(test)` can hide, as other crates' tests call them: (file,
/// function).
const EXEMPT: &[(&str, &str)] = &[
    // For the conformance suite.
    ("wifu-engine/src/conn/mod.rs", "take_emitted"),
    // A world in a line or two, where programs go by a whole scenario.
    ("wifu-radio/src/plan.rs", "from_snr"),
    ("wifu-radio/src/topology.rs", "from_toml"),
    ("wifu-radio/src/topology.rs", "from_words"),
    // The sums of the standard, beside what the medium does.
    ("wifu-radio/src/phy.rs", "cycle"),
];

/// What authors of parts test them with.
const BENCH: &str = "wifu-engine/src/bench.rs";

/// A function that a file defines for all.
struct Public {
    name: String,
    line: usize,
    /// The type or the trait in whose block it stands.
    of: Option<String>,
    /// How many arguments a call has after a dot; `None` if it takes no `self`.
    after_dot: Option<usize>,
}

/// The blocks `impl X` and `impl T for X`: the name of X, and where the block lies.
fn blocks(code: &str) -> Vec<(String, usize, usize)> {
    let starts = places(code, "impl").into_iter().map(|at| at + 4);
    let block = |at: usize| {
        let open = at + code[at..].find(['{', ';', '(', '='])?;
        let head = without_generics(&code[at..open]);
        let head = head.split(" where").next()?;
        let path = head.rsplit(" for ").next()?.trim();
        let name = path.rsplit("::").next()?.trim().to_string();
        (code.as_bytes()[open] == b'{').then(|| (name, open, item_end(code, open)))
    };
    starts.filter_map(block).collect()
}

/// How many arguments stand behind the parenthesis that ends just before `inner`; `text` is the
/// same with its literals.
fn arguments(inner: &str, text: &str) -> usize {
    let (mut depth, mut from, mut count) = (0, 0, 0);
    let mut in_closure = false;
    for (i, b) in inner.bytes().enumerate() {
        let so_far = text[from..i].trim();
        match b {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth == 0 => return count + usize::from(!so_far.is_empty()),
            b')' | b']' | b'}' => depth -= 1,
            b'|' if depth == 0 && (in_closure || matches!(so_far, "" | "move")) => {
                in_closure = !in_closure;
            }
            b',' if depth == 0 && !in_closure => {
                count += 1;
                from = i + 1;
            }
            _ => {}
        }
    }
    count
}

/// The functions that a file defines for all.
fn public(source: &Source) -> Vec<Public> {
    let code = &source.code;
    let blocks = blocks(code);
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let line_start = code[..at].rfind('\n').map_or(0, |n| n + 1);
        let before = code[line_start..at].trim();
        let line = line_of(code, at);
        let name = word_at(&code[at + 3..]).to_string();
        if !matches!(before, "pub" | "pub const") || name.is_empty() || source.is_test(line) {
            continue;
        }
        // Generic parameters hide no parenthesis here, and commas in types are no arguments.
        let head = without_generics(&code[at..item_end(code, at)]);
        let inner = head.split_once('(').map_or("", |(_, inner)| inner);
        let first = inner.split([',', ')', ':']).next().unwrap_or("");
        let takes_self = !places(first, "self").is_empty();
        let mut within = blocks
            .iter()
            .filter(|(_, from, to)| (*from..*to).contains(&at));
        found.push(Public {
            of: within.next_back().map(|(name, ..)| name.clone()),
            after_dot: takes_self.then(|| arguments(inner, inner) - 1),
            name,
            line,
        });
    }
    found
}

fn word_at(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// Functions that nobody calls but tests; the files in `example` are users as well.
pub fn check(tree: &[Source], example: &Path) -> Vec<Finding> {
    let files = std::fs::read_dir(example).into_iter().flatten().flatten();
    let texts = files.filter_map(|f| std::fs::read_to_string(f.path()).ok());
    let example: Vec<Source> = texts.map(|t| Source::new("custom/src/x.rs", &t)).collect();
    let users = tree.iter().filter(|s| !FOR_TESTS.contains(&s.in_crate()));
    let users: Vec<User> = users.chain(&example).map(User::new).collect();
    let renamed = renamed(&users);
    let held = tree.iter().filter(|s| HELD.contains(&s.in_crate()));
    let mut found = Vec::new();
    for source in held.filter(|s| !s.path.ends_with(BENCH)) {
        for function in public(source) {
            let name = &function.name;
            let mut exempt = EXEMPT.iter();
            let exempt = exempt.any(|(file, f)| source.path.ends_with(file) && f == name);
            let called = |user: &User<'_>| user.calls(&function, source, &renamed);
            if !exempt && !users.iter().any(called) {
                let of = function.of.iter().map(|of| format!("{of}::"));
                let name: String = of.chain([name.clone()]).collect();
                let what = format!(
                    "nobody but tests calls the public `{name}`. Use it, make it private, or \
                     remove it."
                );
                found.push(source.finding(function.line, what));
            }
        }
    }
    found
}

/// (name where it is defined, name where it is used) of all that is imported as something else.
fn renamed(users: &[User<'_>]) -> Vec<(String, String)> {
    let all = users.iter().flat_map(|u| &u.imports);
    let pair = |i: &Import| Some((i.path.last()?.clone(), i.name.clone()));
    let pairs = all.filter_map(pair);
    pairs
        .filter(|(a, b)| a != b && !b.is_empty() && b != "*")
        .collect()
}

/// A file that may call.
struct User<'a> {
    source: &'a Source,
    /// Without `use` items: to import is not to call.
    code: String,
    imports: Vec<Import>,
    blocks: Vec<(String, usize, usize)>,
}

impl<'a> User<'a> {
    fn new(source: &'a Source) -> User<'a> {
        User {
            code: without_imports(source),
            imports: imports(source),
            blocks: blocks(&source.code),
            source,
        }
    }

    /// Whether the file calls a function: a method after a dot, with as many arguments as it
    /// takes; what belongs to a type behind the type's name or `Self`; others behind a module, or
    /// by a name that is theirs here.
    fn calls(&self, function: &Public, defined: &Source, renamed: &[(String, String)]) -> bool {
        let original = &function.name;
        let same = |i: &&Import| i.path.last() == Some(original) && !i.name.is_empty();
        let free = function.of.is_none();
        let here = self
            .imports
            .iter()
            .filter(|i| free && same(i))
            .map(|i| &i.name);
        let names: BTreeSet<&String> = here.chain([original]).collect();
        let mut imports = self.imports.iter();
        let theirs = imports.any(|i| i.name == "*" || same(&i));
        let bare = theirs || defined.path == self.source.path;
        names.iter().any(|name| {
            let mut places = places(&self.code, name).into_iter();
            places.any(|at| self.is_call((function, renamed), name, at, bare))
        })
    }

    fn is_call(
        &self,
        (function, renamed): (&Public, &[(String, String)]),
        name: &str,
        at: usize,
        bare: bool,
    ) -> bool {
        let before = self.code[..at].trim_end();
        let after = self.code[at + name.len()..].trim_start();
        let inner = match after.strip_prefix("::<") {
            Some(types) => types.split_once(">(").map(|(_, inner)| inner),
            None => after.strip_prefix('('),
        };
        let defines = before.ends_with("fn");
        if defines || self.source.is_test(line_of(&self.code, at)) {
            return false;
        }
        if before.ends_with('.') {
            let text = |inner: &str| &self.source.text[self.code.len() - inner.len()..];
            let takes = |inner| function.after_dot == Some(arguments(inner, text(inner)));
            return inner.is_some_and(takes);
        }
        match (before.strip_suffix("::"), &function.of) {
            (None, of) => {
                of.is_none() && bare && (inner.is_some() || after.starts_with([')', ',']))
            }
            (Some(path), None) => last_word(path).starts_with(char::is_lowercase),
            (Some(path), Some(of)) => match last_word(path) {
                "Self" => self
                    .blocks
                    .iter()
                    .any(|(n, from, to)| n == of && (from..to).contains(&&at)),
                "" => true,
                // A macro's `$name`, which may be any type.
                _ if of.starts_with('$') => true,
                kind => kind == of || renamed.iter().any(|(a, b)| a == of && b == kind),
            },
        }
    }
}

/// The last word of a path, without what stands behind it between `<` and `>`; empty for `<T>`.
fn last_word(path: &str) -> &str {
    let path = match path.trim_end().strip_suffix('>') {
        Some(inner) => inner.rsplit_once('<').map_or("", |(before, _)| before),
        None => path,
    };
    let path = path.trim_end_matches("::");
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    &path[path.rfind(|c| !is_word(c)).map_or(0, |n| n + 1)..]
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
            Source::new(
                "crates/wifu-sim/src/b.rs",
                "use wifu_engine::used;\nfn f() { used(); }\n",
            ),
            Source::new(
                "crates/wifu-testkit/src/c.rs",
                "fn f() { x::forgotten(); }\n",
            ),
        ];
        let found = check(&tree, Path::new("there is none"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].message.contains("`forgotten`"), "{found:?}");
    }

    /// Which functions of `engine` nobody but tests calls, if the simulator is `sim`.
    fn forgotten(engine: &str, sim: &str) -> Vec<String> {
        let tree = [
            Source::new("crates/wifu-engine/src/a.rs", engine),
            Source::new("crates/wifu-sim/src/b.rs", sim),
        ];
        let found = check(&tree, Path::new("there is none"));
        let name = |f: Finding| f.message.split('`').nth(1).map(String::from);
        found.into_iter().filter_map(name).collect()
    }

    #[test]
    fn a_namesake_is_no_caller() {
        let engine = "pub struct A<T>(T);\nimpl<T> A<T> {\n    pub fn new(x: u8) -> A<T> { todo!() }\n    \
                      pub fn put(&mut self, m: BTreeMap<u8, u8>, t: (u8, T)) {}\n}\npub fn at(n: u8) {}\n";
        let all = ["A::new", "A::put", "at"].map(String::from);
        for sim in [
            "",
            "fn f() { B::new(1); Self::new(2); b.put(1); b.put(); b.put; b.put(1, 2, 3); at(1); x.at(1); }",
            "impl B { fn f() { Self::new(1); C::at(1) } }",
            "pub use wifu_engine::{a::at, A};",
            "use wifu_engine::at;\nfn f(at: u8) { at + 1; }",
            "#[cfg(test)]\nmod tests {\n use wifu_engine::at;\n fn t() { at(1); A::new(1).put(m, t); }\n}",
        ] {
            assert_eq!(forgotten(engine, sim), all, "{sim}");
        }
        for sim in [
            "fn f() { A::new(1).put(\"m\", (1, 2),); a::at(1) }",
            "fn f() { A::<u8>::new(1).put(m.map(|a, b| a), t); }\nuse wifu_engine::at as b;\nfn g() { b(1) }",
            "use x::A as B;\nfn f() { B::new(1); A::put(a, m, t); }\nuse x::*;\nfn g() { h(at) }",
        ] {
            assert_eq!(forgotten(engine, sim), [""; 0], "{sim}");
        }
        let spelled = "macro_rules! m { () => { impl $name {\npub fn of() {}\n} } }";
        assert_eq!(forgotten(spelled, "fn f() { of() }"), ["$name::of"]);
        assert_eq!(forgotten(spelled, "fn f() { B::of() }"), [""; 0]);
        let own = "impl A {\n    pub fn new() {}\n    fn f() { Self::new() }\n}\n";
        assert_eq!(forgotten(own, ""), [""; 0]);
    }
}
