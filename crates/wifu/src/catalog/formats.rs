//! What is known of a wire format.

use std::fmt::Write as _;
use std::sync::LazyLock;

use serde_json::{Value as Json, json};
use wifu_node::{Catalog as _, Registry};
use wifu_wire::format::{By, Field, Format, PacketType, WordDecl};
use wifu_wire::shim;

/// What every composition's shim begins with.
static SHIM: LazyLock<Format> = LazyLock::new(|| shim::format(0, &[]));

/// The formats that compositions name, and those of shims that handlers insert.
pub fn all(registry: &Registry) -> impl Iterator<Item = &'static Format> {
    let mut found: Vec<&'static Format> =
        registry.parts().wires().iter().map(|w| w.format).collect();
    found.push(&SHIM);
    let handlers = &registry.kinds().handlers;
    for f in handlers
        .iter()
        .flat_map(|d| [d.format, d.inserts])
        .flatten()
    {
        if found.iter().all(|known| known.name != f.name) {
            found.push(f);
        }
    }
    found.into_iter()
}

fn by(by: By) -> &'static str {
    match by {
        By::End => "end",
        By::Hop => "hop",
        By::Both => "end and hop",
    }
}

/// Who writes a word, by packet type: types that agree are together, the type `*` stands for all.
fn writers(f: &Format, w: &WordDecl) -> Vec<(String, &'static str)> {
    let on = |t: &&PacketType| w.stands_on(t.name);
    let mut found: Vec<(Vec<&str>, &'static str)> = Vec::new();
    for t in f.types.iter().filter(on) {
        let who = by(w.writer(t.name));
        match found.iter_mut().find(|(_, known)| *known == who) {
            Some((types, _)) => types.push(t.name),
            None => found.push((vec![t.name], who)),
        }
    }
    if let [(types, _)] = &mut found[..]
        && types.len() == f.types.len()
    {
        *types = vec!["*"];
    }
    found
        .into_iter()
        .map(|(types, who)| (types.join(", "), who))
        .collect()
}

/// What a word always is, if it is.
fn constant(w: &WordDecl) -> Option<u32> {
    match w.field {
        Field::Is(value, _) => Some(value),
        _ => None,
    }
}

/// How a packet of the type is told.
fn told(t: &PacketType) -> String {
    let payload = t
        .payload
        .map(|some| if some { "a payload" } else { "no payload" });
    let word = t.when.map(|(word, value)| format!("{word} = {value}"));
    match (word, payload) {
        (Some(word), Some(payload)) => format!("{word}, {payload}"),
        (Some(one), None) => one,
        (None, Some(one)) => one.into(),
        (None, None) => "all others".into(),
    }
}

/// For machines.
pub fn json(f: &Format) -> Json {
    let word = |w: &WordDecl| {
        let writers: serde_json::Map<String, Json> = f
            .types
            .iter()
            .filter(|t| w.stands_on(t.name))
            .map(|t| (t.name.to_string(), json!(by(w.writer(t.name)))))
            .collect();
        json!({
            "name": w.name, "byte": f.base + w.byte, "bit": w.bit, "bits": w.bits, "unit": w.unit,
            "zero": w.zero, "is": constant(w), "writers": writers, "doc": w.doc,
        })
    };
    let types = f
        .types
        .iter()
        .map(|t| json!({"name": t.name, "class": t.class.name(), "when": told(t)}));
    json!({
        "name": f.name, "doc": f.doc, "cites": f.cites, "number": f.number, "port": f.port,
        "octets": f.fixed(), "covers_hops": f.covers_hops,
        "types": types.collect::<Vec<_>>(), "words": f.words.iter().map(word).collect::<Vec<_>>(),
    })
}

/// For people.
pub fn text(f: &Format) -> String {
    let mut t = format!("{} (wire format)\n\n  {}\n", f.name, f.doc);
    if !f.cites.is_empty() {
        let _ = writeln!(t, "\n  Sources: {}", f.cites.join("; "));
    }
    let _ = writeln!(t, "\n  {} bytes before options and payload", f.fixed());
    if let Some(number) = f.number {
        let _ = writeln!(t, "  IP protocol {number}");
    }
    if let Some(port) = f.port {
        let _ = writeln!(t, "  In UDP: port {port}");
    }
    if f.words.iter().any(WordDecl::hop_writable) {
        let _ = writeln!(
            t,
            "  The checksum {} words that hops write",
            if f.covers_hops {
                "covers"
            } else {
                "leaves out"
            }
        );
    }
    t += "\n  Packet types (class, told by):\n";
    for p in f.types.iter() {
        let _ = writeln!(t, "    {:<16} {:<10} {}", p.name, p.class.name(), told(p));
    }
    t += "\n  Words (byte.bit, bits, unit; who writes it on which types):\n";
    for w in f.words.iter() {
        let at = format!("{}.{}", f.base + w.byte, w.bit);
        let who = writers(f, w)
            .into_iter()
            .map(|(types, who)| match types.as_str() {
                "*" => who.to_string(),
                _ => format!("{who} on {types}"),
            });
        let who = who.collect::<Vec<_>>().join("; ");
        let _ = writeln!(
            t,
            "    {:<16} {at:<6} {:>2} {:<6} {who}",
            w.name, w.bits, w.unit
        );
        let mut more = String::from(w.doc);
        if let Some(value) = constant(w) {
            let _ = write!(more, " Always {value}.");
        }
        if !w.zero.is_empty() {
            let _ = write!(more, " Zero means: {}.", w.zero.trim_end_matches('.'));
        }
        if !more.trim().is_empty() {
            let _ = writeln!(t, "        {}", more.trim());
        }
    }
    t
}
