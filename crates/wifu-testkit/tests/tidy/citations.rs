//! Citations: the line `//= DOCUMENT#PLACE` says which document the code below it follows; running
//! text cites the book's page of behaviour as "Behaviour 4.3". Both must lead somewhere: the table
//! in docs/src/developing.md has the documents, docs/src/spec.md the sections.

use crate::source::Finding;
use std::collections::BTreeSet;
use std::path::Path;

const TABLE: &str = "docs/src/developing.md";
const PAGE: &str = "docs/src/spec.md";
/// This file has wrong citations to show that they are found.
const HERE: &str = "crates/wifu-testkit/tests/tidy/citations.rs";
const FOLDERS: &[&str] = &[
    "crates",
    "docs/src",
    "experiments",
    "fuzz",
    "python",
    "scripts",
    "tools",
];
const ENDINGS: &[&str] = &["c", "h", "md", "py", "rs", "sh", "toml"];

/// What can be cited.
pub struct Documents {
    /// Keys of the table: `rfc9293`, `spec`, `atp-thesis`.
    keys: BTreeSet<String>,
    /// Numbers of the page's headings, and the names of its decisions.
    sections: BTreeSet<String>,
}

impl Documents {
    /// `table`: the page on developing, whose section "Citations" has a row for each document;
    /// `page`: the page of behaviour.
    pub fn new(table: &str, page: &str) -> Documents {
        let section = table
            .split("\n## ")
            .find(|part| part.starts_with("Citations"))
            .unwrap_or("");
        let key = |line: &str| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_string());
        let heading = |line: &str| {
            let text = line.strip_prefix("##")?.trim_start_matches('#').trim();
            Some(number(text).to_string()).filter(|n| !n.is_empty())
        };
        let decision = |line: &str| {
            let name = line.strip_prefix("| ")?.split_once(' ')?.0;
            is_decision(name).then(|| name.to_string())
        };
        Documents {
            keys: section.lines().filter_map(key).collect(),
            sections: page
                .lines()
                .filter_map(|l| heading(l).or_else(|| decision(l)))
                .collect(),
        }
    }

    /// Whether the page has this section, or parts of it.
    fn has(&self, section: &str) -> bool {
        let below = format!("{section}.");
        self.sections.contains(section) || self.sections.iter().any(|s| s.starts_with(&below))
    }

    /// What is wrong with `DOCUMENT#PLACE`.
    fn fault(&self, citation: &str) -> Option<String> {
        const FORM: &str = "Write `//= DOCUMENT#PLACE` and nothing behind it: \
             `//= rfc6582#section-3.2`, `//= spec#8.3`. A second document gets a line of its own, \
             an explanation a comment below.";
        let Some((key, place)) = citation.split_once('#') else {
            return Some(format!("cites `{citation}`. {FORM}"));
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        if place.is_empty() || !place.chars().all(plain) {
            return Some(format!("cites `{citation}`. {FORM}"));
        }
        if !self.keys.contains(key) {
            return Some(format!(
                "cites `{key}`, which is no document of the table in {TABLE}. Correct it, or add \
                 the document with its full title."
            ));
        }
        if key == "spec" && !self.has(place) {
            return Some(format!("cites `{citation}`, but {PAGE} has no {place}."));
        }
        (is_rfc(key) && !is_place_of_an_rfc(place)).then(|| {
            format!(
                "cites `{citation}`. A place of an RFC is section-3.2, equation-4 or appendix-A.1."
            )
        })
    }
}

fn is_rfc(key: &str) -> bool {
    key.strip_prefix("rfc")
        .is_some_and(|n| n.parse::<u16>().is_ok())
}

fn is_decision(name: &str) -> bool {
    name.strip_prefix('D')
        .is_some_and(|n| n.parse::<u8>().is_ok())
}

fn is_place_of_an_rfc(place: &str) -> bool {
    let dotted = |text: &str| !text.is_empty() && number(text) == text;
    match place.split_once('-') {
        Some(("section", n)) => dotted(n),
        Some(("equation", n)) => dotted(n),
        Some(("appendix", at)) => {
            let (letter, rest) = at.split_at(at.len().min(1));
            letter.starts_with(|c: char| c.is_ascii_uppercase())
                && (rest.is_empty() || rest.strip_prefix('.').is_some_and(dotted))
        }
        _ => false,
    }
}

/// The number that `text` begins with, `4` or `16.8`, without the full stop of a sentence.
fn number(text: &str) -> &str {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    text[..end].trim_end_matches('.')
}

/// All citations of one file.
pub fn check(path: &str, text: &str, documents: &Documents) -> Vec<Finding> {
    let finding = |line: usize, message: String| Finding {
        path: path.to_string(),
        line,
        message,
    };
    let mut found = Vec::new();
    let is_code = !path.ends_with(".md");
    for (i, line) in text.lines().enumerate().filter(|_| is_code) {
        let citation = line.split_once("//=").map(|(_, citation)| citation.trim());
        if let Some(message) = citation.and_then(|c| documents.fault(c)) {
            found.push(finding(i + 1, message));
        }
    }
    let running = Running::new(text);
    for (at, message) in running.faults(documents) {
        found.push(finding(running.line(at), message));
    }
    found
}

/// A text in one line, without the marks of its comments and the ends of its strings' lines, so
/// that a citation may be broken anywhere.
struct Running {
    text: String,
    /// Where each line begins in `text`.
    starts: Vec<usize>,
}

impl Running {
    fn new(source: &str) -> Running {
        let (mut text, mut starts) = (String::new(), Vec::new());
        for line in source.lines() {
            starts.push(text.len());
            let bare = line.trim().trim_start_matches(['/', '!', '#', '*']);
            text.push_str(bare.trim_end_matches('\\').trim());
            text.push(' ');
        }
        Running { text, starts }
    }

    /// The line of a place, counted from 1.
    fn line(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at)
    }

    fn faults(&self, documents: &Documents) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for word in ["spec.md ", "spec ", "Spec ", "behaviour "] {
            for at in self.before_a_number(word) {
                let n = number(&self.text[at + word.len()..]);
                let old = &self.text[at..at + word.len()];
                found.push((
                    at,
                    format!("cites `{old}{n}`. Running text says Behaviour {n}."),
                ));
            }
        }
        let word = "Behaviour ";
        for (at, _) in self.text.match_indices(word) {
            for section in cited(&self.text[at + word.len()..]) {
                if !documents.has(section) {
                    found.push((
                        at,
                        format!("cites Behaviour {section}, which {PAGE} lacks."),
                    ));
                }
            }
        }
        found
    }

    /// Where `word` stands by itself in front of a number.
    fn before_a_number<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        let places = self.text.match_indices(word).map(|(at, _)| at);
        places.filter(move |&at| {
            let before = self.text[..at].chars().next_back();
            let after = self.text[at + word.len()..].chars().next();
            !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '/'))
                && after.is_some_and(|c| c.is_ascii_digit())
        })
    }
}

/// The sections at the beginning of `text`: `4.3`, `D44`, `4.4, 4.8`, `4.4 to 4.7`. Further ones
/// have a point, for "Behaviour 4.1, 1 ms" goes on with something else.
fn cited(text: &str) -> Vec<&str> {
    let name = &text[..text
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(text.len())];
    if is_decision(name) {
        return vec![name];
    }
    let mut all = Vec::new();
    let mut rest = text;
    loop {
        let n = number(rest);
        if n.is_empty() || !(all.is_empty() || n.contains('.')) {
            return all;
        }
        all.push(n);
        rest = &rest[n.len()..];
        let joined = [", ", " to ", " and ", "-"]
            .iter()
            .find_map(|j| rest.strip_prefix(j));
        let Some(more) = joined else { return all };
        rest = more;
    }
}

/// All citations of the tree.
pub fn check_tree(root: &Path) -> Vec<Finding> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect("the page is there");
    let documents = Documents::new(&read(TABLE), &read(PAGE));
    let mut paths = vec!["README.md".to_string()];
    for folder in FOLDERS {
        collect(root, folder, &mut paths);
    }
    paths.sort();
    let others = paths.iter().filter(|p| *p != HERE && *p != PAGE);
    others
        .flat_map(|path| check(path, &read(path), &documents))
        .collect()
}

fn collect(root: &Path, folder: &str, paths: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(root.join(folder)) else {
        return;
    };
    for entry in entries {
        let name = entry.expect("the tree is readable").file_name();
        let name = name.to_string_lossy();
        let path = format!("{folder}/{name}");
        let made = name.starts_with('.') || name == "target" || name == "__pycache__";
        if root.join(&path).is_dir() {
            if !made {
                collect(root, &path, paths);
            }
        } else if name
            .rsplit_once('.')
            .is_some_and(|(_, e)| ENDINGS.contains(&e))
        {
            paths.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents() -> Documents {
        let table = "# Developing\n| `no` | no |\n\n## Citations\n\n| key | document |\n|---|---|\n\
                     | `rfc9293` | TCP |\n| `spec` | Behaviour |\n| `atp-thesis` | ATP |\n\n## Next\n\
                     | `rfc1` | not of the table |\n";
        let page = "# Behaviour\n## 1. Decisions\n| D44 | x | y |\n## 4. TCP base\n\
                    ### 4.1 Segment\n#### 4.1.2 Deeper\n### 4.3 Manager\n## 16. Supplements\n\
                    ### 16.8 Needs\n";
        Documents::new(table, page)
    }

    fn faults(path: &str, text: &str) -> Vec<(usize, String)> {
        let found = check(path, text, &documents());
        found.into_iter().map(|f| (f.line, f.message)).collect()
    }

    #[test]
    fn a_line_citation_that_resolves_is_right() {
        for right in [
            "rfc9293#section-3.10.7.4",
            "rfc9293#equation-4",
            "rfc9293#appendix-A",
            "rfc9293#appendix-B.2",
            "spec#4",
            "spec#4.1",
            "spec#16.8",
            "spec#D44",
            "atp-thesis#3.1",
            "atp-thesis#figure-5.10",
        ] {
            assert_eq!(
                faults("a.rs", &format!("fn a() {{\n    //= {right}\n}}")),
                []
            );
        }
    }

    #[test]
    fn a_line_citation_of_another_form_or_to_nowhere_is_found() {
        for (wrong, says) in [
            ("RFC 9293 section 3.8", "Write `//= DOCUMENT#PLACE`"),
            ("rfc9293", "Write `//="),
            ("rfc9293#", "Write `//="),
            ("rfc9293#section-3.8, fifth check", "Write `//="),
            ("rfc9293#section-3.8; spec#4.1", "Write `//="),
            ("rfc9293#3.8", "section-3.2, equation-4"),
            ("rfc9293#section-", "section-3.2"),
            ("rfc9293#section-3.8.", "section-3.2"),
            ("rfc9293#appendix-4", "appendix-A.1"),
            ("rfc9239#section-3.8", "no document of the table"),
            ("rfc1#section-1", "no document of the table"),
            ("no#1", "no document of the table"),
            ("spec#4.2", "has no 4.2"),
            ("spec#6", "has no 6"),
            ("spec#D45", "has no D45"),
            ("spec#section-4.1", "has no section-4.1"),
        ] {
            let found = faults("a.rs", &format!("\n    //= {wrong}\nfn a() {{}}"));
            assert_eq!(found.len(), 1, "{wrong}: {found:?}");
            assert!(found[0].0 == 2 && found[0].1.contains(says), "{found:?}");
        }
        let behind = faults("a.rs", "let a = 1; //= spec#4.2");
        assert!(behind[0].1.contains("has no 4.2"), "{behind:?}");
    }

    #[test]
    fn running_text_cites_sections_that_exist() {
        for right in [
            "/// So it is (Behaviour 4.3).",
            "doc: \"So it is (Behaviour 4.1, 4.3).\"",
            "// Behaviour 4.1, 1 ms where D44 says so; Behaviour 4.",
            "# See Behaviour D44.",
            "//! As Behaviour\n//! 16.8 says",
            "| x | [Behaviour](spec.md), section 99 |",
            "let spec = 3; // a spec, 3 of them",
        ] {
            assert_eq!(faults("a.rs", right), [], "{right}");
        }
        for (wrong, line, says) in [
            ("\n// (Behaviour 4.9)", 2, "Behaviour 4.9, which"),
            ("// Behaviour 4.1 to 4.4", 1, "Behaviour 4.4, which"),
            ("\"(Behaviour 4.3, \\\n   7.4)\"", 1, "Behaviour 7.4, which"),
            ("//! Behaviour\n//! 5", 1, "Behaviour 5, which"),
            ("// Behaviour D7", 1, "Behaviour D7, which"),
        ] {
            let found = faults("a.rs", wrong);
            assert_eq!(found.len(), 1, "{wrong}: {found:?}");
            assert!(found[0].0 == line && found[0].1.contains(says), "{found:?}");
        }
    }

    #[test]
    fn running_text_names_the_page_in_one_way() {
        for old in [
            "spec.md 4.3",
            "spec 4.3",
            "Spec 4.3",
            "behaviour 4.3",
            "spec\n/// 4.3",
        ] {
            let found = faults("a.rs", &format!("/// So it is ({old})."));
            assert_eq!(found.len(), 1, "{old}: {found:?}");
            assert!(found[0].1.ends_with("says Behaviour 4.3."), "{found:?}");
        }
        assert_eq!(faults("a.md", "[behaviour 4.3](spec.md)").len(), 1);
    }
}
