//! What is known of a handler.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};
use wifu_core::{Descriptor, Verbs};
use wifu_engine::Access;

use super::{param_json, params_text};

fn access(a: Access) -> &'static str {
    match a {
        Access::Read => "reads",
        Access::Write => "writes",
        Access::Both => "reads and writes",
    }
}

/// For machines.
pub fn json(d: &Descriptor) -> Json {
    let words = d
        .words
        .iter()
        .map(|w| json!({"name": w.name, "access": access(w.access), "optional": w.optional}));
    let notes = d
        .notes
        .iter()
        .map(|n| json!({"name": n.name, "access": access(n.access), "unit": n.unit, "doc": n.doc}));
    json!({
        "name": d.name, "role": "handler", "doc": d.doc, "cites": d.cites,
        "hooks": d.hooks.iter().map(|h| h.name()).collect::<Vec<_>>(),
        "protocol": d.protocol, "format": d.format.map(|f| f.name),
        "inserts": d.inserts.map(|f| f.name), "adds": d.adds(), "holds": d.holds,
        "needs": d.needs.beyond(Verbs::NONE),
        "requires": d.requires.iter().map(|f| f.name()).collect::<Vec<_>>(), "super_packets": d.super_packets,
        "words": words.collect::<Vec<_>>(), "notes": notes.collect::<Vec<_>>(),
        "counts": d.counts, "params": d.params.iter().map(param_json).collect::<Vec<_>>(),
    })
}

/// For people.
pub fn text(d: &Descriptor) -> String {
    let mut t = format!("{} (handler)\n\n  {}\n", d.name, d.doc);
    if !d.cites.is_empty() {
        let _ = writeln!(t, "\n  Sources: {}", d.cites.join("; "));
    }
    let _ = writeln!(t, "\n  At {}", d.hooks);
    match (d.format, d.protocol) {
        (Some(f), _) => {
            let _ = writeln!(t, "  For packets of the format {}", f.name);
        }
        (None, Some(number)) => {
            let _ = writeln!(t, "  For packets of IP protocol {number}");
        }
        (None, None) => {}
    }
    if let Some(shim) = d.inserts {
        let _ = writeln!(t, "  Inserts {}: {} octets", shim.name, d.adds());
    }
    for w in d.words {
        let optional = if w.optional {
            ", if the format has it"
        } else {
            ""
        };
        let _ = writeln!(t, "  Word {}: {}{optional}", w.name, access(w.access));
    }
    for n in d.notes {
        let unit = if n.unit.is_empty() {
            String::new()
        } else {
            format!(" ({})", n.unit)
        };
        let _ = writeln!(
            t,
            "  Annotation {}{unit}: {}. {}",
            n.name,
            access(n.access),
            n.doc
        );
    }
    let needs = d.needs.beyond(Verbs::NONE);
    if !needs.is_empty() {
        let _ = writeln!(t, "  Must {}", needs.join(" and "));
    }
    for fact in d.requires {
        let _ = writeln!(t, "  Requires {fact}");
    }
    for (param, facts) in d.requires_with {
        for fact in *facts {
            let _ = writeln!(t, "  With {param} = on requires {fact}");
        }
    }
    if d.holds > 0 {
        let _ = writeln!(t, "  Holds {} packets at most", d.holds);
    }
    if !d.counts.is_empty() {
        let _ = writeln!(t, "  Counts {}", d.counts.join(", "));
    }
    if !d.params.is_empty() {
        t += "\n  Parameters (default, range):\n";
        t += &params_text(d.params, |p| p.default.to_string());
    }
    t
}
