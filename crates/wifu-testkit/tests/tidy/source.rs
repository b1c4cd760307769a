//! A source file as the rules see it: without comments and literals, and which lines are tests.

use std::path::Path;

/// One broken rule at one place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub path: String,
    pub line: usize,
    pub message: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// A Rust file of the workspace.
pub struct Source {
    /// Relative to the workspace, with `/`.
    pub path: String,
    pub text: String,
    /// `text` with comments, strings and characters replaced by blanks; same bytes, same lines.
    pub code: String,
    /// String literals with their line, counted from 1.
    pub strings: Vec<(usize, String)>,
    /// Whether a line (index 0 is line 1) belongs to a test.
    test: Vec<bool>,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Source {
        let (code, strings) = strip(text);
        let whole = is_test_path(path);
        let mut test = vec![whole; text.lines().count() + 1];
        for (from, to) in test_items(&code) {
            let (first, last) = (line_of(&code, from), line_of(&code, to));
            test[first - 1..last].fill(true);
        }
        Source {
            path: path.to_string(),
            text: text.to_string(),
            code,
            strings,
            test,
        }
    }

    /// The name of the crate's folder.
    pub fn in_crate(&self) -> &str {
        self.path.split('/').nth(1).unwrap_or("")
    }

    pub fn is_test(&self, line: usize) -> bool {
        self.test[line - 1]
    }

    /// Lines that are not tests.
    pub fn len_outside_tests(&self) -> usize {
        let lines = self.text.lines().count();
        self.test[..lines].iter().filter(|&&t| !t).count()
    }

    /// Marks everything as a test: a file behind `#[cfg(test)] mod name;`.
    pub fn mark_test(&mut self) {
        self.test.fill(true);
    }

    /// Files that this one declares by `#[cfg(test)] mod name;`, as paths without `.rs`.
    pub fn test_modules(&self) -> Vec<String> {
        let (folder, file) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let stem = file.trim_end_matches(".rs");
        let base = match stem {
            "lib" | "main" | "mod" => folder.to_string(),
            _ => format!("{folder}/{stem}"),
        };
        let items = test_items(&self.code)
            .into_iter()
            .map(|(a, b)| self.code[a..=b].to_string());
        let names = items.filter_map(|item| {
            let name = item.split_once(']')?.1.trim().trim_end_matches(';');
            name.strip_prefix("mod ")
                .filter(|n| !n.contains('{'))
                .map(|n| n.trim().to_string())
        });
        names.map(|n| format!("{base}/{n}")).collect()
    }

    /// Places of `word` in the code (not inside a longer name) outside tests.
    pub fn uses(&self, word: &str) -> Vec<usize> {
        let hits = places(&self.code, word)
            .into_iter()
            .map(|at| line_of(&self.code, at));
        hits.filter(|&line| !self.is_test(line)).collect()
    }

    pub fn finding(&self, line: usize, message: impl Into<String>) -> Finding {
        Finding {
            path: self.path.clone(),
            line,
            message: message.into(),
        }
    }
}

fn is_test_path(path: &str) -> bool {
    let folder = path
        .split('/')
        .any(|p| matches!(p, "tests" | "benches" | "examples" | "fuzz"));
    folder || path.ends_with("/tests.rs")
}

/// Line of a byte, counted from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at]
        .iter()
        .filter(|&&b| b == b'\n')
        .count()
        + 1
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// Where `word` begins in `code`; an end that is a letter must not continue into a longer name.
pub fn places(code: &str, word: &str) -> Vec<usize> {
    let bytes = code.as_bytes();
    let (first, last) = (word.as_bytes()[0], word.as_bytes()[word.len() - 1]);
    let whole = |at: usize| {
        let before = at == 0 || !is_word(first) || !is_word(bytes[at - 1]);
        let end = at + word.len();
        before && (end == bytes.len() || !is_word(last) || !is_word(bytes[end]))
    };
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(|&at| whole(at))
        .collect()
}

/// Blanks comments and literals, so that rules see code only; returns the strings beside it.
fn strip(text: &str) -> (String, Vec<(usize, String)>) {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut strings = Vec::new();
    let mut i = 0;
    while i < bytes.len() {
        let end = literal_end(bytes, i);
        let Some(end) = end else {
            i += 1;
            continue;
        };
        if let Some(body) = string_body(&text[i..end]) {
            strings.push((line_of(text, i), body.to_string()));
        }
        for b in &mut out[i..end] {
            if *b != b'\n' {
                *b = b' ';
            }
        }
        i = end;
    }
    (
        String::from_utf8(out).expect("blanking keeps UTF-8 valid"),
        strings,
    )
}

/// The end of the comment, string or character that begins at `i`, if one does.
fn literal_end(bytes: &[u8], i: usize) -> Option<usize> {
    let rest = &bytes[i..];
    if rest.starts_with(b"//") {
        return Some(i + rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len()));
    }
    if rest.starts_with(b"/*") {
        return Some(block_comment_end(bytes, i));
    }
    let in_name = i > 0 && is_word(bytes[i - 1]);
    match rest[0] {
        b'"' => Some(string_end(bytes, i + 1)),
        b'r' | b'b' | b'c' if !in_name => raw_or_byte_end(bytes, i),
        b'\'' => char_end(bytes, i),
        _ => None,
    }
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let (mut depth, mut i) = (0, start);
    while i < bytes.len() {
        if bytes[i..].starts_with(b"/*") {
            depth += 1;
            i += 2;
        } else if bytes[i..].starts_with(b"*/") {
            depth -= 1;
            i += 2;
            if depth == 0 {
                return i;
            }
        } else {
            i += 1;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], mut i: usize) -> usize {
    while i < bytes.len() && bytes[i] != b'"' {
        i += if bytes[i] == b'\\' { 2 } else { 1 };
    }
    (i + 1).min(bytes.len())
}

/// `r"..."`, `r#"..."#`, `b"..."`, `br"..."`, `c"..."`, `b'x'`.
fn raw_or_byte_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut i = start;
    while i < bytes.len() && matches!(bytes[i], b'r' | b'b' | b'c') && i < start + 2 {
        i += 1;
    }
    let raw = bytes[start..i].contains(&b'r');
    let marks = bytes[i..].iter().take_while(|&&b| b == b'#').count();
    match bytes.get(i + marks)? {
        b'"' if raw => {
            let close = [b"\"".as_slice(), &vec![b'#'; marks]].concat();
            let body = i + marks + 1;
            let found = bytes[body..].windows(close.len()).position(|w| w == close);
            Some(found.map_or(bytes.len(), |at| body + at + close.len()))
        }
        b'"' if marks == 0 => Some(string_end(bytes, i + 1)),
        b'\'' if marks == 0 && !raw => char_end(bytes, i),
        _ => None,
    }
}

/// A character, not a lifetime.
fn char_end(bytes: &[u8], i: usize) -> Option<usize> {
    if bytes.get(i + 1) == Some(&b'\\') {
        let body = i + 3;
        return bytes[body..]
            .iter()
            .position(|&b| b == b'\'')
            .map(|at| body + at + 1);
    }
    let rest = std::str::from_utf8(&bytes[i + 1..]).ok()?;
    let width = rest.chars().next()?.len_utf8();
    (bytes.get(i + 1 + width) == Some(&b'\'')).then_some(i + width + 2)
}

fn string_body(literal: &str) -> Option<&str> {
    let open = literal.find('"')?;
    let close = literal.rfind('"')?;
    let head = &literal[..open];
    let is_string = close > open && head.bytes().all(|b| matches!(b, b'r' | b'b' | b'c' | b'#'));
    is_string.then(|| &literal[open + 1..close])
}

/// First and last byte of each item under a `#[cfg(test)]` (or another `cfg` that asks for tests).
fn test_items(code: &str) -> Vec<(usize, usize)> {
    let starts = code.match_indices("#[cfg(").map(|(at, _)| at);
    let asks = |at: &usize| {
        let close = code[*at..].find(']').map_or(code.len(), |n| at + n);
        let inner = &code[*at..close];
        !places(inner, "test").is_empty() && !inner.contains("not(test")
    };
    starts
        .filter(asks)
        .map(|at| (at, item_end(code, at)))
        .collect()
}

/// The closing brace or the semicolon of the item at `start`.
pub fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0usize;
    let mut braces = 0usize;
    for (i, b) in code.bytes().enumerate().skip(start) {
        match b {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'{' => braces += 1,
            b'}' => {
                braces = braces.saturating_sub(1);
                if braces == 0 && depth == 0 {
                    return i;
                }
            }
            b';' if braces == 0 && depth == 0 => return i,
            _ => {}
        }
    }
    code.len().saturating_sub(1)
}

/// All Rust files under `crates/`, in order of their paths.
pub fn read_tree(root: &Path) -> Vec<Source> {
    let mut paths = Vec::new();
    collect(&root.join("crates"), &mut paths);
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).expect("the tree is readable");
        let relative = path.strip_prefix(root).expect("collected below the root");
        Source::new(&relative.to_string_lossy(), &text)
    };
    let mut tree: Vec<Source> = paths.iter().map(read).collect();
    let tests: Vec<String> = tree.iter().flat_map(Source::test_modules).collect();
    for source in &mut tree {
        let stem = source.path.trim_end_matches(".rs").trim_end_matches("/mod");
        if tests
            .iter()
            .any(|t| stem == t || stem.starts_with(&format!("{t}/")))
        {
            source.mark_test();
        }
    }
    tree
}

fn collect(folder: &Path, paths: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the tree is readable") {
        let path = entry.expect("the tree is readable").path();
        if path.is_dir() && !path.ends_with("target") {
            collect(&path, paths);
        } else if path.extension().is_some_and(|e| e == "rs") {
            paths.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_are_no_code() {
        let text = "a(\"unsafe\"); // unsafe\n/* unsafe /* nested */ */ b('\"'); r#\"un\"safe\"#;\n'x: loop {}";
        let source = Source::new("crates/x/src/a.rs", text);
        assert!(!source.code.contains("unsafe"));
        assert!(source.code.contains("b(   )") && source.code.contains("'x: loop {}"));
        assert_eq!(
            source.strings,
            [(1, "unsafe".to_string()), (2, "un\"safe".to_string())]
        );
        assert_eq!(source.code.len(), text.len());
    }

    #[test]
    fn a_test_module_is_a_test_and_what_follows_is_not() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        let source = Source::new("crates/x/src/a.rs", text);
        let tests: Vec<usize> = (1..=6).filter(|&l| source.is_test(l)).collect();
        assert_eq!(tests, [2, 3, 4, 5]);
        assert_eq!(source.len_outside_tests(), 2);
        assert!(!Source::new("crates/x/src/a.rs", "#[cfg(not(test))]\nfn a() {}").is_test(2));
    }

    #[test]
    fn a_declared_test_file_is_found_beside_or_below() {
        let text = "#[cfg(test)]\nmod tests;\nmod other;";
        assert_eq!(
            Source::new("crates/x/src/conn.rs", text).test_modules(),
            ["crates/x/src/conn/tests"]
        );
        assert_eq!(
            Source::new("crates/x/src/lib.rs", text).test_modules(),
            ["crates/x/src/tests"]
        );
    }

    #[test]
    fn a_word_is_not_found_inside_a_longer_one() {
        assert_eq!(places("unsafe_code unsafe", "unsafe"), [12]);
        assert_eq!(places("MyHashMap HashMap::new", "HashMap"), [10]);
    }
}
