//! A doc comment says more than the name below it: a unit, a range, who sets it, what `None` means.

use crate::source::{Finding, Source};
use std::collections::BTreeSet;

/// Words that say nothing by themselves.
const SMALL: [&str; 5] = ["a", "an", "the", "its", "of"];

/// What may stand between `///` and an item's name.
const BEFORE_NAMES: &[&str] = &[
    "async", "const", "enum", "fn", "mod", "pub", "static", "struct", "trait", "type", "unsafe",
];

/// Doc comments whose words are all words of the item's own name. What stands in backquotes is a
/// name of something else, and says where to look.
pub fn restated(source: &Source) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut doc = String::new();
    let mut first = 0;
    for (i, line) in source.text.lines().map(str::trim).enumerate() {
        if let Some(words) = line.strip_prefix("///") {
            if doc.is_empty() {
                first = i + 1;
            }
            doc.push_str(words);
            continue;
        }
        if doc.is_empty() || line.starts_with("#[") || line.starts_with("//") {
            continue;
        }
        if !source.is_test(first) && says_nothing(&doc, item(line)) {
            let message = format!(
                "\"{}\" says no more than the name below it. Say its unit, its range, who sets \
                 it, what `None` or 0 means, or where it is defined.",
                doc.trim()
            );
            found.push(source.finding(first, message));
        }
        doc.clear();
    }
    found
}

/// The name that a line declares.
fn item(line: &str) -> &str {
    let line = match line.strip_prefix("pub(") {
        Some(within) => within.split_once(')').map_or("", |(_, rest)| rest),
        None => line,
    };
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut words = line.split(|c| !is_word(c)).filter(|w| !w.is_empty());
    words.find(|w| !BEFORE_NAMES.contains(w)).unwrap_or("")
}

fn says_nothing(doc: &str, name: &str) -> bool {
    let name = words(&apart(name));
    let plural = |w: &str| name.iter().any(|n| n.strip_suffix('s') == Some(w));
    let of_name = |w: &str| {
        let singular = w.strip_suffix('s').unwrap_or(w);
        SMALL.contains(&w) || name.contains(w) || name.contains(singular) || plural(w)
    };
    !doc.contains('`') && !doc.trim().is_empty() && words(doc).iter().all(|w| of_name(w))
}

/// The words of a text, in lower case.
fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words
        .filter(|w| !w.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// A name in capitals and small letters, with its words apart.
fn apart(name: &str) -> String {
    let mut apart = String::new();
    let mut small = false;
    for c in name.chars() {
        if small && c.is_uppercase() {
            apart.push(' ');
        }
        small = c.is_lowercase();
        apart.push(c);
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of doc comments that say nothing.
    fn lines(text: &str) -> Vec<usize> {
        let found = restated(&Source::new("crates/wifu-sim/src/a.rs", text));
        found.iter().map(|f| f.line).collect()
    }

    #[test]
    fn a_comment_that_repeats_the_name_is_caught() {
        for (doc, item) in [
            ("Name.", "pub name: String,"),
            ("Its next hop.", "pub next_hop: u8,"),
            ("The wires.", "#[serde(default)]\n    pub wire: Vec<u8>,"),
            ("Noise, dBm.", "pub(crate) noise_dbm: i8,"),
            ("The path facts.", "pub struct PathFacts {"),
            ("Fill a SYN.", "pub const fn fill_syn() {"),
            ("DupThresh.", "pub dupthresh: u8,"),
            ("Of the\n/// path.", "Path,"),
        ] {
            assert_eq!(lines(&format!("\n/// {doc}\n{item}\n")), [2], "{doc}");
        }
    }

    #[test]
    fn a_comment_that_says_more_is_not() {
        for (doc, item) in [
            ("Octets.", "pub cwnd: u32,"),
            (
                "Noise, dBm; `None`: not told.",
                "pub noise_dbm: Option<i8>,",
            ),
            ("[`SCHEMA`].", "pub schema: String,"),
            ("`listen`.", "pub fn listen() {"),
            ("Name of the node.", "pub name: String,"),
            ("Name.", "pub node: String,"),
        ] {
            assert_eq!(lines(&format!("/// {doc}\n{item}\n")), [0; 0], "{doc}");
        }
        let test = "#[cfg(test)]\nmod tests {\n    /// The name.\n    fn name() {}\n}\n";
        assert_eq!(lines(test), [0; 0]);
    }
}
