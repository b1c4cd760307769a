//! What is said of a scenario before it runs, on standard error.

use wifu_node::Registry;
use wifu_sim::mesh::Simulation;
use wifu_sim::scenario::Scenario;
use wifu_wire::ipv4::TTL;

use super::alike;
use crate::catalog::{note_numbers, note_unused};

/// Say what a scenario has in vain, and what it has that is easily overlooked.
pub(super) fn tell(scenario: &Scenario, simulation: &Simulation, registry: &Registry) {
    let spoken = || scenario.flow.iter().map(|f| &f.protocol[..]);
    note_unused(spoken(), registry);
    note_numbers(spoken(), registry);
    let there = spoken().map(|p| simulation.plan().transport(p));
    for note in alike::replaced(&there.collect::<Vec<_>>(), registry) {
        eprintln!("Note: {note}");
    }
    for note in wifu_sim::advice::advice(scenario) {
        eprintln!("Note: {note}");
    }
    note_far(scenario, simulation);
    note_wired(scenario, simulation);
    if let Some(note) = behind(scenario, simulation) {
        eprintln!("Note: {note}");
    }
}

/// That queues of radios stand in front of rings that hold more than they do, where the scenario
/// says how long they are to be.
fn behind(scenario: &Scenario, simulation: &Simulation) -> Option<String> {
    let words = scenario.topology.words.as_deref().unwrap_or_default();
    let said = scenario.radio.contains_key("queue")
        || words.split(',').any(|w| w.trim().starts_with("queue="));
    let nodes = simulation.plan().nodes.iter();
    let mut radios = nodes.filter(|n| !n.wired_only).map(|n| &n.radio);
    let radio = radios.find(|radio| said && radio.ring >= radio.queue)?;
    let (queue, ring) = (radio.queue, radio.ring);
    Some(format!(
        "queues of radios are {queue} packets long here, in front of a driver's ring that holds \
         {ring}: {} packets wait before one is lost. What fits into the ring meets no queue, and \
         is the same whatever that is: radio.ring = 2 leaves the work to radio.queue",
        u64::from(queue) + u64::from(ring)
    ))
}

/// Say of flows whose first route is longer than packets live that nothing will arrive.
fn note_far(scenario: &Scenario, simulation: &Simulation) {
    let nodes = &simulation.plan().nodes;
    let number = |name: &str| nodes.iter().position(|n| n.name == name);
    for (i, flow) in scenario.flow.iter().enumerate() {
        let (Some(from), Some(to)) = (number(&flow.from), number(&flow.to)) else {
            continue;
        };
        let route = simulation.route(from as u16, to as u16);
        let hops = route.len().saturating_sub(1);
        if hops > usize::from(TTL) {
            eprintln!(
                "Note: flow {}: its route has {hops} hops at the start, and the TTL of packets \
                 ({TTL}) is used up before: nothing arrives that way",
                i + 1
            );
        }
    }
}

/// Say of what is said of radios that there are none.
fn note_wired(scenario: &Scenario, simulation: &Simulation) {
    let keys: Vec<String> = scenario
        .radio
        .keys()
        .map(|k| format!("radio.{k}"))
        .collect();
    if !keys.is_empty() && simulation.plan().nodes.iter().all(|n| n.wired_only) {
        let changes = if keys.len() == 1 { "changes" } else { "change" };
        eprintln!(
            "Note: {} {changes} nothing here, where no node has a radio",
            keys.join(", ")
        );
    }
}
