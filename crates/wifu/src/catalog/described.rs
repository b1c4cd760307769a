//! What is known of parts and handlers alike.

use std::fmt::Write as _;

use anyhow::ensure;
use serde_json::{Value as Json, json};
use wifu_engine::{Access, Face, FieldUse, ParamSpec};
use wifu_node::Registry;

fn access(a: Access) -> &'static str {
    match a {
        Access::Read => "reads",
        Access::Write => "writes",
        Access::Both => "reads and writes",
    }
}

/// Refuses what stands behind the name `stem` in `word`, which only a protocol takes.
///
/// # Errors
/// There is something, and it is the name of no protocol.
pub fn bare(
    kind: Option<&str>,
    (word, stem): (&str, &str),
    registry: &Registry,
) -> anyhow::Result<()> {
    let known = registry.library().protocols().iter().any(|p| p == stem);
    ensure!(
        word == stem || known && kind.is_none_or(|kind| kind == "protocol"),
        "{word}: only a protocol takes parameters: write wifu describe {stem}, or a protocol's name \
         before the comma"
    );
    Ok(())
}

/// For machines, with what only parts or only handlers have.
pub fn json(f: &Face, own: Json) -> Json {
    let words = f
        .words
        .iter()
        .map(|w| json!({"name": w.name, "access": access(w.access), "optional": w.optional}));
    let fields = f.fields.iter().map(|u| {
        let unless = u.unless.map(|(param, value)| format!("{param} = {value}"));
        json!({"name": u.field.name(), "unless": unless, "optional": u.optional})
    });
    let notes = f
        .notes
        .iter()
        .map(|n| json!({"name": n.name, "access": access(n.access), "unit": n.unit, "doc": n.doc}));
    let mut all = json!({
        "name": f.name, "role": f.role.unwrap_or("handler"), "doc": f.doc, "cites": f.cites,
        "params": f.params.iter().map(param_json).collect::<Vec<_>>(),
        "words": words.collect::<Vec<_>>(), "fields": fields.collect::<Vec<_>>(),
        "notes": notes.collect::<Vec<_>>(),
        "requires": f.requires.iter().map(|fact| fact.name()).collect::<Vec<_>>(),
    });
    if let (Json::Object(all), Json::Object(own)) = (&mut all, own) {
        all.extend(own);
    }
    all
}

fn param_json(p: &ParamSpec) -> Json {
    json!({
        "name": p.name, "default": p.default.to_string(), "low": p.low.to_string(),
        "high": p.high.to_string(), "choices": p.choices, "doc": p.doc,
    })
}

/// How the page for people begins: what it is, and sources.
pub fn head(f: &Face) -> String {
    let kind = match f.role {
        Some(role) => format!("part for {role}"),
        None => String::from("handler"),
    };
    let mut t = format!("{} ({kind})\n\n  {}\n", f.name, f.doc);
    if !f.cites.is_empty() {
        let _ = writeln!(t, "\n  Sources: {}", f.cites.join("; "));
    }
    t.push('\n');
    t
}

/// Fields of the header on one line; header words and annotations, a line each.
pub fn uses(f: &Face) -> String {
    let mut t = String::new();
    let field = |u: &FieldUse| match (u.unless, u.optional) {
        (Some((param, value)), _) => format!("{} (unless {param} = {value})", u.field.name()),
        (None, true) => format!("{} (if the format has it)", u.field.name()),
        (None, false) => String::from(u.field.name()),
    };
    if !f.fields.is_empty() {
        let fields: Vec<_> = f.fields.iter().map(field).collect();
        let _ = writeln!(t, "  Of the header: {}", fields.join(", "));
    }
    for w in &f.words {
        let optional = if w.optional {
            ", if the format has it"
        } else {
            ""
        };
        let _ = writeln!(t, "  Word {}: {}{optional}", w.name, access(w.access));
    }
    for n in f.notes {
        let unit = if n.unit.is_empty() {
            String::new()
        } else {
            format!(" ({})", n.unit)
        };
        let access = access(n.access);
        let _ = writeln!(t, "  Annotation {}{unit}: {access}. {}", n.name, n.doc);
    }
    t
}

/// Facts, a line each.
pub fn requires(f: &Face) -> String {
    let line = |fact| format!("  Requires {fact}\n");
    f.requires.iter().map(line).collect()
}

/// How the page for people ends: the parameters.
pub fn params(f: &Face) -> String {
    if f.params.is_empty() {
        return String::new();
    }
    let rows = params_text(f.params, |p| p.default.to_string());
    format!("\n  Parameters (default, range):\n{rows}")
}

/// Parameters, each with a value and its range.
pub fn params_text(params: &[ParamSpec], value: impl Fn(&ParamSpec) -> String) -> String {
    let mut text = String::new();
    for p in params {
        let range = if p.choices.is_empty() {
            format!("{} to {}", p.low, p.high)
        } else {
            p.choices.join(" | ")
        };
        let _ = writeln!(text, "    {:<16} {:<12} ({range})", p.name, value(p));
        let _ = writeln!(text, "        {}", p.doc);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::{Descriptor, NoteSpec, WordSpec};
    use wifu_wire::HeadField;

    #[test]
    fn a_part_says_which_words_and_annotations_it_uses_as_a_handler_does() {
        static PART: Descriptor = Descriptor {
            name: "mine",
            words: &[WordSpec::new("rate", 32).read()],
            fields: &[
                FieldUse::of(HeadField::Ts).unless("timestamps", "off"),
                FieldUse::of(HeadField::Scale).optional(),
            ],
            notes: &[NoteSpec {
                name: "age",
                access: Access::Both,
                unit: "us",
                doc: "Since it was made.",
            }],
            ..Descriptor::EMPTY
        };
        let said = "  Of the header: timestamp (unless timestamps = off), window scale (if the \
                    format has it)\n  Word rate: reads\n  Annotation age (us): reads and writes. Since it was made.\n";
        assert_eq!(uses(&PART.face()), said);
        let all = json(&PART.face(), json!({"holds": 3}));
        assert_eq!(all["words"][0]["access"], "reads");
        let field = json!({"name": "timestamp", "unless": "timestamps = off", "optional": false});
        assert_eq!(all["fields"][0], field);
        assert_eq!((&all["name"], &all["holds"]), (&json!("mine"), &json!(3)));
    }
}
