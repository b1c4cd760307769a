//! What a scenario has that is easily taken for something else.

mod ways;

use crate::scenario::{HandlerSpec, Scenario};

/// Handlers that act on a packet again at every hook that it meets.
const AT_EVERY_HOOK: [&str; 2] = ["drop", "delay"];

/// Sentences about a scenario, before it is run; none of one that is wrong.
pub fn advice(scenario: &Scenario) -> Vec<String> {
    let everywhere = scenario.handler.iter().filter_map(everywhere);
    everywhere.chain(ways::sentences(scenario)).collect()
}

/// A handler that is at all hooks of its nodes, as none is said.
fn everywhere(handler: &HandlerSpec) -> Option<String> {
    let name = &handler.config.name;
    if handler.config.hooks.is_some() || !AT_EVERY_HOOK.contains(&&name[..]) {
        return None;
    }
    let (says, times) = match handler.nodes.is_empty() {
        true => (
            "neither `nodes` nor `hooks`: it acts at each hook of each node",
            "10 on a way of three hops, and an answer as many",
        ),
        false => ("no `hooks`: it acts at each of its nodes'", "3 at a relay"),
    };
    Some(format!(
        "handler {name} says {says}, of which a packet meets {times}. hooks = [\"forward\"] is \
         once at each relay"
    ))
}
