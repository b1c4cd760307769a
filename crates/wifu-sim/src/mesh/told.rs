//! What the network of a scenario tells parts and handlers.

use super::air::Air;
use crate::scenario::Scenario;
use wifu_engine::Fact;
use wifu_node::{Teller, facts};
use wifu_radio::plan::Plan;

/// What the network of a scenario tells parts and handlers. Where it has radios and wires, what
/// either of them tells: which link a packet takes may change with every route.
pub(super) fn told(scenario: &Scenario, plan: &Plan) -> Vec<Fact> {
    let radios = Air::any(plan, !scenario.mobility.is_empty());
    let mut tellers = Vec::new();
    if radios {
        tellers.push(Teller::Radios);
    }
    if !plan.wires.is_empty() {
        tellers.push(Teller::Wires);
    }
    let rated = radios || plan.wires.iter().any(|w| w.rate.0 > 0);
    let tapped = plan.wires.iter().any(|w| !w.overheard_by.is_empty());
    if tapped {
        tellers.push(Teller::WireEars);
    }
    let ears = tapped || plan.nodes.iter().any(|n| n.radio.promiscuous);
    let mut told = facts::told(&tellers);
    told.retain(|f| match f {
        Fact::SiteRate | Fact::LinkRate => rated,
        Fact::Overheard => ears,
        _ => true,
    });
    told
}

/// What a network that tells this is called in errors.
pub(super) fn place(told: &[Fact]) -> &'static str {
    match told.contains(&Fact::Rssi) {
        true => "this scenario",
        false => "this scenario, which has no radios",
    }
}
