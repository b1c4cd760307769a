//! What a scenario has, whichever of its words say so: nodes, radios, wires and routes, with
//! defaults and what the testbed says in place.

use pyo3::prelude::*;
use serde_json::{Value as Json, json};
use wifu_radio::plan::{NodePlan, Plan, RateControl};
use wifu_radio::topology::{PlacementKind, Topology};
use wifu_sim::mesh;
use wifu_sim::scenario::Scenario;

use crate::run::{parsed, wrong};

/// The set below words that name none: its rate is nobody's choice.
const PLAIN: &str = "PLAIN";

/// The nodes, radios and wires of a scenario, as JSON.
///
/// `standard`: of the channel. `nodes`, in order: `name`; `place` in m, or null; `radio`: it has
/// one; `heard`: there is somebody to hear it, or may be; `rate` in b/s, and who says it
/// (`rate_by`): the `plan`, the `set` that it names, or nobody, so that it is that of the
/// `standard`; `rate_control`;
/// `queue` and `ring`: packets in front of the driver and in it; `data`: how often a frame with a
/// whole packet (`host.mtu`) is tried, and `rts`: that of the frame that announces it, or null.
/// `wires`: `a`, `b`, `rate`, `queue`, `overhead`, `loss` as a share, and `variation` in s. What is
/// drawn once for a run: `scattered`, where nodes stand; `shadowed`, how links are; and `fading`,
/// the deviations in dB of links that vary with their time constants in s, each pair once.
#[pyfunction]
pub fn network(py: Python<'_>, scenario_json: &str) -> PyResult<String> {
    let scenario = parsed(scenario_json)?;
    py.detach(|| {
        let mut topology = mesh::topology(&scenario).map_err(wrong)?;
        // Whether a placement would be taken is not asked, and may take many draws.
        if let Some(placement) = &mut topology.placement {
            placement.accept = None;
        }
        let plan = wifu_radio::topology::resolve(&topology, &scenario.rng()).map_err(wrong)?;
        let common = rate_by(&scenario, &topology);
        let size = u32::from(scenario.host.mtu);
        let nodes = plan.nodes.iter().enumerate();
        let nodes = nodes.map(|(at, node)| {
            let own = topology.node.iter().find(|spec| spec.name == node.name);
            let by = match own.is_some_and(|spec| spec.radio.rate.is_some()) {
                true => "plan",
                false => common,
            };
            described(node, (heard(&plan, at), by), size)
        });
        let random = |p| matches!(p, PlacementKind::Uniform);
        let told = json!({
            "standard": plan.phy.standard.name(),
            "nodes": nodes.collect::<Json>(),
            "wires": wires(&plan),
            "scattered": topology.placement.as_ref().is_some_and(|p| random(p.kind)),
            "shadowed": shadowed(&scenario, &topology, &plan),
            "fading": fading(&scenario, &plan),
        });
        Ok(told.to_string())
    })
}

/// The routes of a scenario when it begins, as JSON: of each pair of names the nodes on the way
/// from the one to the other, both included; empty if there is none.
#[pyfunction]
pub fn routes(
    py: Python<'_>,
    scenario_json: &str,
    ends: Vec<(String, String)>,
) -> PyResult<String> {
    let scenario = parsed(scenario_json)?;
    py.detach(|| {
        let found = mesh::routes_at_start(&scenario, &ends).map_err(wrong)?;
        Ok(Json::from(found).to_string())
    })
}

fn described(node: &NodePlan, (heard, by): (bool, &str), size: u32) -> Json {
    let radio = &node.radio;
    let rts = radio.announces(size).then(|| radio.attempts.max(1));
    let control = match radio.rate_control {
        RateControl::Fixed => "fixed",
        RateControl::Minstrel => "minstrel",
    };
    json!({
        "name": node.name,
        "place": node.position,
        "radio": !node.wired_only,
        "heard": heard,
        "rate": radio.rate.rate().0,
        "rate_by": by,
        "rate_control": control,
        "queue": radio.queue,
        "ring": radio.ring,
        "data": radio.attempts_of(size),
        "rts": rts,
    })
}

/// Who says the rate of all radios.
fn rate_by(scenario: &Scenario, topology: &Topology) -> &'static str {
    let spec = &scenario.topology;
    let words = spec.words.iter().flat_map(|words| words.split(','));
    let mut keys = words
        .filter_map(|w| w.split_once('='))
        .map(|(k, _)| k.trim());
    let inline = spec.inline.get("radio").and_then(Json::as_object);
    let said = scenario.radio.contains_key("rate")
        || keys.any(|key| key == "rate")
        || inline.is_some_and(|radio| radio.contains_key("rate"));
    if said {
        return "plan";
    }
    let (words, set) = (spec.words.as_deref(), spec.set.as_deref());
    let below = Topology::build(words, set, &Default::default(), &Default::default());
    let plain = below.is_ok_and(|set| set.name.as_deref() == Some(PLAIN));
    match topology.radio.rate.is_some() && !plain {
        true => "set",
        false => "standard",
    }
}

/// Whether a node has a radio that is somewhere, or that a table says somebody hears, or it them.
fn heard(plan: &Plan, at: usize) -> bool {
    let node = &plan.nodes[at];
    let hears = |row: &Vec<wifu_radio::plan::Gain>| row.iter().any(|g| usize::from(g.to) == at);
    let linked = || !plan.gains[at].is_empty() || plan.gains.iter().any(hears);
    !node.wired_only && (node.position.is_some() || linked())
}

fn wires(plan: &Plan) -> Json {
    let name = |node: u16| &plan.nodes[usize::from(node)].name;
    let wires = plan.wires.iter().map(|wire| {
        json!({
            "a": name(wire.a),
            "b": name(wire.b),
            "rate": wire.rate.0,
            "queue": wire.queue,
            "overhead": wire.overhead,
            "loss": wire.loss,
            "variation": wire.variation.as_secs_f64(),
        })
    });
    wires.collect()
}

/// Whether some link's mean is drawn: tables of SNRs say it of theirs while nobody moves.
fn shadowed(scenario: &Scenario, topology: &Topology, plan: &Plan) -> bool {
    let p = &topology.propagation;
    let varied = [p.shadowing_db, p.asymmetry_db];
    let placed = |node: &NodePlan| !node.wired_only && node.position.is_some();
    let count = topology.placement.as_ref().map(|p| usize::from(p.count));
    let chained = topology.chain.as_ref();
    let chained = chained.map_or(0, |_| count.unwrap_or(plan.nodes.len()));
    let table = topology.matrix.as_ref().map_or(0, |m| m.snr_db.len());
    let tabled = match scenario.mobility.is_empty() {
        true => chained.max(table),
        false => 0,
    };
    let beyond = plan.nodes.iter().skip(tabled).any(placed);
    let several = plan.nodes.iter().filter(|node| placed(node)).count() > 1;
    varied.iter().flatten().any(|db| *db > 0.0) && beyond && several
}

/// How links vary over time; those that come into being too, if nodes move.
fn fading(scenario: &Scenario, plan: &Plan) -> Json {
    let links = plan.gains.iter().flatten().map(|g| (g.sigma_db, g.tau));
    let later = (!scenario.mobility.is_empty()).then_some(&plan.variation);
    let later = later.map(|v| (v.sigma_db, v.tau));
    let mut found = Vec::new();
    for (sigma_db, tau) in links.chain(later) {
        if sigma_db > 0.0 && !found.contains(&(sigma_db, tau)) {
            found.push((sigma_db, tau));
        }
    }
    let pairs = found
        .iter()
        .map(|(sigma_db, tau)| json!([sigma_db, tau.as_secs_f64()]));
    pairs.collect()
}
