//! What a scenario has that is easily taken for something else.

use crate::mesh;
use crate::scenario::{HandlerSpec, RoutingKind, Scenario};
use crate::tables;

/// Handlers that act on a packet again at every hook that it meets.
const AT_EVERY_HOOK: [&str; 2] = ["drop", "delay"];

/// Sentences about a scenario, before it is run; none of one that is wrong.
pub fn advice(scenario: &Scenario) -> Vec<String> {
    let everywhere = scenario.handler.iter().filter_map(everywhere);
    let staying = along_rows(scenario)
        .then_some(
            "nodes move, and routes go along the row all the time, as routing.kind is \
             auto or chain: nobody who comes nearer is used. With routing.kind = \"etx\" routes \
             follow",
        )
        .map(str::to_owned);
    everywhere.chain(staying).collect()
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

/// Whether nodes move whose routes go from neighbour to neighbour of a row whatever happens.
fn along_rows(scenario: &Scenario) -> bool {
    let plain = matches!(
        scenario.routing.kind,
        RoutingKind::Auto | RoutingKind::Chain
    );
    plain
        && !scenario.mobility.is_empty()
        && mesh::topology(scenario)
            .is_ok_and(|topology| !tables::rows(&topology, usize::from(u16::MAX)).is_empty())
}
