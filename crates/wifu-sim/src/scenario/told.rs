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

/// Keys that are tables, with one of the keys in them.
const OF_KEYS: [(&str, &str); 12] = [
    ("topology", "words = \"linear,4\""),
    ("topology.propagation", "exponent = 3.3"),
    ("topology.fading", "sigma_db = 4.0"),
    ("topology.chain", "snr_db = [25, 20]"),
    ("topology.channel", "standard = \"802.11a\""),
    ("radio", "rate = \"24M\""),
    ("routing", "kind = \"etx\""),
    ("routing.olsr", "withdraw = true"),
    ("host", "profile = \"py\""),
    ("stop", "time = \"10s\""),
    ("record", "series = true"),
    ("flow.N", "protocol = \"tcp-newreno\""),
];

/// What is wrong at a path, in words that say what to write where types are wrong.
pub(super) fn told(path: &str, what: String) -> String {
    let mut what = plain(what);
    if path.ends_with(".size") && what.starts_with("invalid type: string") {
        return String::from(
            "is the length of a datagram in bytes, a whole number without quotes; how much a flow \
             sends is `bytes`",
        );
    }
    // Where bytes could be meant.
    let packets = path == "queue" || path.ends_with(".queue");
    if packets && what.ends_with("expected a whole number") {
        what += " of packets";
    }
    if let Some(of) = TABLES
        .iter()
        .find(|of| path == **of || path.ends_with(&format!(".{of}")))
        && what.starts_with("invalid type: ")
        && what.ends_with(", expected a list")
    {
        what = match path == *of {
            true => format!("is a list: write [[{path}]]"),
            // A topology is a file of its own, or below the key.
            false => format!("is a list: write its name in two brackets, [[...{of}]]"),
        };
    }
    let table = what.contains(", expected struct ") || what.ends_with(", expected a map");
    if table && !what.starts_with("invalid type: map") {
        return of_keys(path);
    }
    what
}

/// A value stands where keys do.
fn of_keys(path: &str) -> String {
    let (of, number) = path.rsplit_once('.').unwrap_or((path, ""));
    let counted = number.parse::<usize>().is_ok();
    let known = OF_KEYS.iter().find(|(key, _)| match counted {
        true => key.strip_suffix(".N") == Some(of),
        false => *key == path,
    });
    match known {
        Some((_, example)) => format!("has keys of its own: write {path}.{example}"),
        None => String::from("has keys of its own, as `wifu sim --help` and the book show"),
    }
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
