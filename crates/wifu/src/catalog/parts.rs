//! What is known of a part.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};
use wifu_engine::{Descriptor, Fact, Facts, Preference};

use super::described::{self, head, params, requires, uses};

fn offers(d: &Descriptor) -> Vec<String> {
    let kinds = d.offers.iter();
    kinds.map(|k| format!("{k:?}").to_lowercase()).collect()
}

fn preference_json(p: &Preference) -> Json {
    json!({"fact": p.fact.name(), "param": p.param, "without": p.then})
}

/// A line for people.
pub fn preference(p: &Preference) -> String {
    let set = p.param.map_or(String::new(), |p| format!(" ({p} sets it)"));
    format!("  Prefers {}{set}; without it {}\n", p.fact, p.then)
}

fn either_json((fact, section): &(Fact, Facts)) -> Json {
    json!({"fact": fact.name(), "section": sections(*section)})
}

/// A line for people.
fn either((fact, section): &(Fact, Facts)) -> String {
    format!(
        "  Requires {fact}, or a part that writes {}\n",
        sections(*section)
    )
}

/// For machines.
pub fn json(d: &Descriptor) -> Json {
    let own = json!({
        "reads": d.reads.names().collect::<Vec<_>>(), "wants": d.wants.names().collect::<Vec<_>>(),
        "writes": d.writes.names().collect::<Vec<_>>(),
        "hears": d.hears, "probes": d.probes, "offers": offers(d),
        "requires_either": d.requires_either.iter().map(either_json).collect::<Vec<_>>(),
        "prefers": d.prefers.iter().map(preference_json).collect::<Vec<_>>(),
    });
    described::json(&d.face(), own)
}

fn sections(f: Facts) -> String {
    let names: Vec<&str> = f.names().collect();
    if names.is_empty() {
        String::from("nothing")
    } else {
        names.join(", ")
    }
}

/// For people.
pub fn text(d: &Descriptor) -> String {
    let face = d.face();
    let mut t = head(&face);
    let _ = writeln!(
        t,
        "  Reads {}; uses {}; writes {}.",
        sections(d.reads),
        sections(d.wants),
        sections(d.writes)
    );
    t += &uses(&face);
    t += &requires(&face);
    t.extend(d.requires_either.iter().map(either));
    t.extend(d.prefers.iter().map(preference));
    for (heard, emits) in d.hears {
        let then = if emits.is_empty() {
            String::new()
        } else {
            format!(" -> {}", emits.join(", "))
        };
        let _ = writeln!(t, "  Hears {heard}{then}");
    }
    if !d.offers.is_empty() {
        let _ = writeln!(t, "  Offers {}", offers(d).join(", "));
    }
    for (slot, allowed) in d.needs {
        let _ = writeln!(t, "  Needs {slot} = {}", allowed.join(" or "));
    }
    for (param, value, slot, allowed) in d.needs_with {
        let allowed = allowed.join(" or ");
        let _ = writeln!(t, "  With {param} = {value} needs {slot} = {allowed}");
    }
    t + &params(&face)
}
