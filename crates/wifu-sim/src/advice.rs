//! What a scenario has that is easily taken for something else.

mod ways;

use crate::scenario::{HandlerSpec, Scenario};
use ways::Ways;

/// Handlers that act on a packet again at every hook that it meets.
const AT_EVERY_HOOK: [&str; 2] = ["drop", "delay"];

/// Sentences about a scenario, before it is run; none of one that is wrong.
pub fn advice(scenario: &Scenario) -> Vec<String> {
    let bare: Vec<_> = scenario.handler.iter().filter(|h| is_bare(h)).collect();
    // Most scenarios have nothing of which routes would have to be known.
    if bare.is_empty() && !ways::matter(scenario) {
        return Vec::new();
    }
    let Some(ways) = Ways::new(scenario) else {
        return Vec::new();
    };
    let everywhere = bare.into_iter().map(|handler| everywhere(handler, &ways));
    everywhere.chain(ways.sentences()).collect()
}

/// Whether a handler of which each act counts is at all hooks, as none is said.
fn is_bare(handler: &HandlerSpec) -> bool {
    handler.config.hooks.is_none() && AT_EVERY_HOOK.contains(&&handler.config.name[..])
}

/// A handler that is at all hooks of its nodes, as none is said.
fn everywhere(handler: &HandlerSpec, ways: &Ways<'_>) -> String {
    let name = &handler.config.name;
    let everywhere = handler.nodes.is_empty();
    let says = match everywhere {
        true => "neither `nodes` nor `hooks`: it acts at each hook of each node",
        false => "no `hooks`: it acts at each of its nodes'",
    };
    let (times, once) = match (ways.relayed(&handler.nodes), everywhere) {
        (true, true) => (
            "10 on a way of three hops, and an answer as many",
            "[\"forward\"] is once at each relay",
        ),
        (true, false) => ("3 at a relay", "[\"forward\"] is once at each relay"),
        (false, _) => (
            "2 where it begins and 2 where it ends, and an answer as many",
            "[\"input\"] is once where packets end",
        ),
    };
    format!("handler {name} says {says}, of which a packet meets {times}. hooks = {once}")
}
