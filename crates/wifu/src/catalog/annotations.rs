//! What is known of annotations: values that packets carry inside one node.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};
use wifu_engine::NoteSpec;
use wifu_engine::descriptor::{READ_BELOW, UNSERVED};
use wifu_node::{Catalog as _, Registry};

/// All annotations: what parts and handlers declare, then what the node reads and nobody here
/// writes.
pub fn all(registry: &Registry) -> impl Iterator<Item = &NoteSpec> {
    let declared = registry.parts().notes();
    let known = |n: &&NoteSpec| declared.iter().all(|d| d.name != n.name);
    declared.iter().chain(READ_BELOW.iter().filter(known))
}

/// Names of the parts and handlers that write an annotation, and of those that read it.
fn users(registry: &Registry, name: &str) -> [Vec<&'static str>; 2] {
    let mut found = [Vec::new(), Vec::new()];
    if name == UNSERVED.name {
        found[1].push("the engine");
    } else if READ_BELOW.iter().any(|n| n.name == name) {
        found[1].push("the node");
    }
    for face in registry.kinds().faces() {
        for note in face.notes.iter().filter(|n| n.name == name) {
            if note.access.writes() {
                found[0].push(face.name);
            }
            if note.access.reads() {
                found[1].push(face.name);
            }
        }
    }
    found
}

/// For machines.
pub fn json(registry: &Registry, n: &NoteSpec) -> Json {
    let [writers, readers] = users(registry, n.name);
    json!({"name": n.name, "unit": n.unit, "doc": n.doc, "writers": writers, "readers": readers})
}

/// For people.
pub fn text(registry: &Registry, n: &NoteSpec) -> String {
    let mut t = format!("{} (annotation)\n\n  {}\n\n", n.name, n.doc);
    if !n.unit.is_empty() {
        let _ = writeln!(t, "  Unit: {}", n.unit);
    }
    let who = |names: &[&str]| match names {
        [] => String::from("nobody here"),
        _ => names.join(", "),
    };
    let [writers, readers] = users(registry, n.name);
    let _ = writeln!(
        t,
        "  Written by {}; read by {}.",
        who(&writers),
        who(&readers)
    );
    t
}
