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
             auto or chain: nobody who comes near is used, and neighbours who part are not left. \
             With routing.kind = \"etx\" routes follow",
        )
        .map(str::to_owned);
    everywhere.chain(staying).collect()
}

/// A handler that is at all hooks of all nodes, as neither is said.
fn everywhere(handler: &HandlerSpec) -> Option<String> {
    let config = &handler.config;
    let anywhere = handler.nodes.is_empty() && config.hooks.is_none();
    if !anywhere || !AT_EVERY_HOOK.contains(&&config.name[..]) {
        return None;
    }
    Some(format!(
        "handler {} says neither `nodes` nor `hooks`: it acts at each hook of each node, of which \
         a packet meets 10 on a way of three hops, and an answer as many",
        config.name
    ))
}

/// Whether nodes move whose routes go from neighbour to neighbour of a row whatever happens.
fn along_rows(scenario: &Scenario) -> bool {
    let plain = matches!(
        scenario.routing.kind,
        RoutingKind::Auto | RoutingKind::Chain
    );
    let topology = mesh::topology(scenario);
    plain
        && !scenario.mobility.is_empty()
        && topology.is_ok_and(|t| !tables::rows(&t, usize::from(u16::MAX)).is_empty())
}
