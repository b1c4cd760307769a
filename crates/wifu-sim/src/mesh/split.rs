//! Nodes of a scenario that split connections which pass them.

use super::build::{Open, as_tcp};
use super::clock::Clock;
use super::events::{Class, What};
use super::flow::Flow;
use super::forward::Forwarding;
use super::nodes::{Nodes, Splitting};
use super::told::place;
use crate::routing;
use crate::scenario::{Scenario, ScenarioError, SplitSpec};
use std::collections::BTreeSet;
use std::sync::Arc;
use wifu_engine::{Blueprint, Fact};
use wifu_node::{Split, SplitConfig};
use wifu_radio::plan::Plan;
use wifu_wire::{Rng, Time};

/// What a scenario splits.
///
/// # Errors
/// The path of the first wrong key and what is wrong with it.
pub(super) fn splittings(
    scenario: &Scenario,
    plan: &Plan,
    flows: &[Flow],
    (open, told): (Open<'_>, &[Fact]),
) -> Result<Vec<Splitting>, ScenarioError> {
    let mut all: Vec<Splitting> = Vec::new();
    for (i, spec) in scenario.split.iter().enumerate() {
        let halves = halves(spec, i, flows, (open, told))?;
        for (j, name) in spec.nodes.iter().enumerate() {
            let path = format!("split[{i}].nodes[{j}]");
            let node = routing::index(plan, name, &path)?;
            if all.iter().any(|s| s.node == node) {
                let what = format!("{name} splits already: one entry for each node");
                return Err(ScenarioError::key(path, what));
            }
            all.push(Splitting {
                node,
                halves: halves.clone(),
                restart: spec.restart.map(|at| Time::ZERO + at.0),
            });
        }
    }
    Ok(all)
}

/// What the halves of an entry run, by [`wifu_node::Half`].
fn halves(
    spec: &SplitSpec,
    i: usize,
    flows: &[Flow],
    (open, told): (Open<'_>, &[Fact]),
) -> Result<[Arc<Blueprint>; 2], ScenarioError> {
    let wrong = |key: &str, what: String| ScenarioError::key(format!("split[{i}].{key}"), what);
    let find = |text: &str| open.protocol(text).map(|found| as_tcp(&found));
    let text = match &spec.near {
        Some(text) => text,
        None => usual(flows).map_err(|e| wrong("near", e))?,
    };
    let near = find(text).map_err(|e| wrong("near", e))?;
    let far = match &spec.far {
        Some(text) => find(text).map_err(|e| wrong("far", e))?,
        None => Arc::clone(&near),
    };
    let key = if spec.far.is_some() { "far" } else { "near" };
    Split::fits(&near, &far).map_err(|e| wrong(key, e))?;
    for (p, key) in [(&near, "near"), (&far, "far")] {
        let informed = p.informed(place(told), told);
        informed.map_err(|e| wrong(key, e.to_string()))?;
    }
    let mut numbers = flows
        .iter()
        .filter_map(|f| Some(f.blueprint.as_ref()?.number));
    if !numbers.any(|n| n == near.ends.number) {
        let (name, number) = (&near.ends.name, near.ends.number);
        let what = format!("no flow has packets of {name} (IP protocol {number})");
        return Err(wrong("near", what));
    }
    Ok([near, far].map(|p| Arc::clone(&p.ends)))
}

/// What all flows run that have connections.
fn usual(flows: &[Flow]) -> Result<&str, String> {
    let with = flows.iter().filter(|f| f.blueprint.is_some());
    let run: BTreeSet<&str> = with.map(|f| &f.spec.protocol[..]).collect();
    let mut names = run.iter();
    match (names.next(), names.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(String::from(
            "no flow has connections, which could be split",
        )),
        (Some(one), Some(other)) => Err(format!(
            "flows run {one} and {other}, and nodes cannot tell whose opener comes: say which one \
             answers"
        )),
    }
}

/// Put them at their nodes, which have connections in the name of others from then on.
pub(super) fn place_splits(
    all: Vec<Splitting>,
    flows: &[Flow],
    (rng, mtu): (&Rng, u16),
    (nodes, net, clock): (&mut Nodes, &mut Forwarding, &mut Clock),
) {
    let seed = rng.split("split").next_u64();
    for of in all {
        let mut split = Split::new(SplitConfig {
            seed,
            node: u32::from(of.node),
            mtu: u32::from(mtu),
            ..SplitConfig::default()
        });
        let [near, far] = of.halves;
        let number = near.number;
        split.serve(near, far);
        let mine = |f: &&Flow| f.blueprint.as_ref().is_some_and(|b| b.number == number);
        for flow in flows.iter().filter(mine) {
            net.routes.between(of.node, [flow.src, flow.dst]);
        }
        nodes.all[usize::from(of.node)].set_split(split);
        if let Some(at) = of.restart {
            let what = What::Restart(u32::from(of.node));
            clock.push(at, Class::World, what);
        }
    }
}
