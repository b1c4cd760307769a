//! Declared formats as JSON: what the book's page is made from.

use serde_json::{Value, json};
use wifu_wire::Format;
use wifu_wire::format::{By, Field, WordDecl};

/// All that a declaration says.
pub fn format(f: &Format) -> Value {
    let words: Vec<Value> = f.words.iter().map(|w| word(f, w)).collect();
    let types = f.types.iter().map(|t| {
        let when = t
            .when
            .map(|(word, value)| json!({"word": word, "is": value}));
        json!({"name": t.name, "class": t.class.name(), "when": when, "payload": t.payload})
    });
    json!({
        "name": f.name, "doc": f.doc, "cites": f.cites, "number": f.number, "port": f.port,
        "base": f.base, "header": f.header, "covers_hops": f.covers_hops,
        "words": words, "types": types.collect::<Vec<_>>(),
    })
}

fn word(f: &Format, w: &WordDecl) -> Value {
    let stands = f.types.iter().filter(|t| w.stands_on(t.name));
    let by: serde_json::Map<String, Value> = stands
        .map(|t| (String::from(t.name), json!(writer(w.writer(t.name)))))
        .collect();
    let is = match w.field {
        Field::Is(value, _) => Some(value),
        _ => None,
    };
    json!({
        "name": w.name, "byte": w.byte, "bit": w.bit, "bits": w.bits, "unit": w.unit,
        "zero": w.zero, "doc": w.doc, "is": is, "on": w.on, "by": by, "own": w.is_own(),
    })
}

fn writer(by: By) -> &'static str {
    match by {
        By::End => "end",
        By::Hop => "hop",
        By::Both => "both",
    }
}
