//! What readers of formats say of wrong types, in words that say what to write.

/// Keys that are lists of tables.
const TABLES: [&str; 10] = [
    "flow",
    "handler",
    "split",
    "mobility",
    "event",
    "routes",
    "link",
    "node",
    "wire",
    "interferer",
];

/// What is wrong at a path, in words that say what to write where types are wrong.
pub(super) fn told(path: &str, what: String) -> String {
    let mut what = plain(what);
    // Where bytes could be meant.
    let packets = path == "queue" || path.ends_with(".queue");
    if packets && what.ends_with("expected a whole number") {
        what += " of packets";
    }
    if let Some(of) = TABLES
        .iter()
        .find(|of| path == **of || path.ends_with(&format!(".{of}")))
        && what == "invalid type: map, expected a list"
    {
        what = match path == *of {
            true => format!("is a list: write [[{path}]]"),
            // A topology is a file of its own, or below the key.
            false => format!("is a list: write its name in two brackets, [[...{of}]]"),
        };
    }
    what
}

/// What readers of formats say of types, in words.
fn plain(what: String) -> String {
    let what = what.trim_end().to_string();
    if !what.starts_with("invalid ") {
        return what;
    }
    let types = [
        ("expected f64", "expected a number"),
        ("expected u64", "expected a whole number"),
        ("expected u32", "expected a whole number"),
        ("expected u16", "expected a whole number up to 65535"),
        ("expected u8", "expected a whole number up to 255"),
        ("expected a boolean", "expected true or false"),
        ("expected a sequence", "expected a list"),
    ];
    let found = types.iter().find(|(t, _)| what.ends_with(t));
    found.map_or_else(|| what.clone(), |(t, words)| what.replace(t, words))
}
