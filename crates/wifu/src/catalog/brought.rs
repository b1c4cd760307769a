//! What a protocol brings along for the nodes on the way.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};
use wifu_core::HandlerConfig;
use wifu_engine::Blueprint;
use wifu_node::Protocol;

/// The parts of a lane, in the order in which the engine calls them.
fn parts(lane: &Blueprint) -> Vec<String> {
    let named =
        |p: &wifu_engine::blueprint::PartPlan| format!("{} = {}", p.desc.role.key(), p.desc.name);
    lane.parts.iter().map(named).collect()
}

/// For machines: the handlers as they are written, the lane's parts, and the bytes that packets
/// grow by.
pub fn json(p: &Protocol) -> Json {
    let lane = p.ends.lane.as_ref();
    json!({
        "handlers": p.handlers.handlers,
        "lane": lane.map(|l| json!({"id": format!("{:08x}", l.id), "parts": parts(l)})),
        "adds": p.ends.below, "counts_nodes": p.counts_nodes,
    })
}

fn handler(h: &HandlerConfig) -> String {
    let mut said: Vec<String> = h.params.iter().map(|(k, v)| format!("{k} = {v}")).collect();
    said.extend(
        h.hooks
            .as_ref()
            .map(|at| format!("at {}", at.join(" and "))),
    );
    said.extend(h.most_held.map(|n| format!("most_held = {n}")));
    said.extend(
        h.when_full
            .as_ref()
            .map(|full| format!("when_full = {full}")),
    );
    if said.is_empty() {
        h.name.clone()
    } else {
        format!("{} ({})", h.name, said.join(", "))
    }
}

/// For people; empty if it brings nothing.
pub fn text(p: &Protocol) -> String {
    let mut t = String::new();
    let handlers: Vec<String> = p.handlers.handlers.iter().map(handler).collect();
    if !handlers.is_empty() {
        let _ = writeln!(t, "  Brings handlers: {}.", handlers.join("; "));
    }
    if p.ends.below > 0 {
        let _ = writeln!(
            t,
            "  They add {} bytes between IP and transport.",
            p.ends.below
        );
    }
    if let Some(lane) = &p.ends.lane {
        let _ = writeln!(t, "  Lane, id {:08x}: {}.", lane.id, parts(lane).join("; "));
    }
    if let Some(said) = unnoticed(p) {
        let _ = writeln!(t, "  Note: {said}.");
    }
    t
}

/// That nobody would notice a relay that does not serve it, as a sentence without its full stop.
pub fn unnoticed(p: &Protocol) -> Option<String> {
    p.relays_unnoticed().then(|| {
        format!(
            "relays that do not serve it will not be noticed: nothing counts the nodes on its \
             packets (wire = \"{}\")",
            p.ends.wire.name()
        )
    })
}
