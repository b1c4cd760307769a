//! What is known of annotations: values that packets carry inside one node.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};
use wifu_engine::NoteSpec;
use wifu_engine::descriptor::UNSERVED;
use wifu_node::{Catalog as _, Registry};

/// Names of the parts and handlers that write an annotation, and of those that read it.
fn users(registry: &Registry, name: &str) -> [Vec<&'static str>; 2] {
    let mut found = [Vec::new(), Vec::new()];
    if name == UNSERVED.name {
        found[1].push("the engine");
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
