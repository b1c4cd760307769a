//! What is known of a handler.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};
use wifu_core::{Descriptor, Verbs};

use super::described::{self, head, params, requires, uses};

/// For machines.
pub fn json(d: &Descriptor) -> Json {
    let own = json!({
        "hooks": d.hooks.iter().map(|h| h.name()).collect::<Vec<_>>(),
        "protocol": d.protocol, "format": d.format.map(|f| f.name),
        "inserts": d.inserts.map(|f| f.name), "adds": d.adds(), "holds": d.holds,
        "needs": d.needs.beyond(Verbs::NONE), "super_packets": d.super_packets,
        "counts": d.counts,
    });
    described::json(&d.face(), own)
}

/// For people.
pub fn text(d: &Descriptor) -> String {
    let face = d.face();
    let mut t = head(&face);
    let _ = writeln!(t, "  At {}", d.hooks);
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
        let _ = writeln!(t, "  Inserts {}: {} bytes", shim.name, d.adds());
    }
    t += &uses(&face);
    let needs = d.needs.beyond(Verbs::NONE);
    if !needs.is_empty() {
        let _ = writeln!(t, "  Must {}", needs.join(" and "));
    }
    t += &requires(&face);
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
    t + &params(&face)
}
