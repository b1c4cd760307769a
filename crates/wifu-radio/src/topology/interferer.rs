//! What `[[interferer]]` says, as powers and times.

use wifu_wire::Span;

use crate::geometry::Geometry;
use crate::plan::{InterfererPlan, NodePlan};

use super::error::TopologyError;
use super::place;
use super::spec::{InterfererSpec, NodeSpec, Topology};
use super::values::finite;

/// Power by default, dBm: what radios have.
const POWER_DBM: f64 = 17.0;
/// Nothing is on or off for less time.
const SHORTEST: Span = Span(1_000);
/// Beyond these, dBm, a power is a mistake: as for radios, and 1 mW received.
const MOST: (f64, f64) = (60.0, 0.0);

/// The sources of a topology, as the nodes at these places receive them.
pub(super) fn plans(
    t: &Topology,
    (specs, nodes): (&[NodeSpec], &[NodePlan]),
    places: &[Option<[f64; 3]>],
    geometry: &Geometry,
) -> Result<Vec<InterfererPlan>, TopologyError> {
    let all = t.interferer.iter().enumerate();
    all.map(|(i, spec)| {
        let path = format!("interferer[{i}]");
        check(spec, &path)?;
        let (on, off) = lengths(spec, &path)?;
        let cutoff = t.propagation.cutoff_db.unwrap_or(20.0);
        let received = received(spec, &path, (specs, nodes), places, geometry)?;
        let received: Vec<(u16, f64)> = received
            .into_iter()
            .filter(|(to, dbm)| *dbm >= nodes[usize::from(*to)].radio.noise_dbm - cutoff)
            .collect();
        if nodes.iter().all(|n| n.wired_only) {
            let what = "has no effect: no node has a radio";
            return Err(TopologyError::key(path, what));
        }
        if received.is_empty() {
            let what = format!(
                "has no effect: no node with a radio receives more than {cutoff} dB under its noise \
                 of it"
            );
            return Err(TopologyError::key(path, what));
        }
        Ok(InterfererPlan {
            name: spec.name.clone().unwrap_or_else(|| format!("i{}", i + 1)),
            received,
            start: spec.start.map_or(Span::ZERO, |s| s.0),
            on,
            off,
            random: spec.random,
            placed: spec.position.is_some(),
        })
    })
    .collect()
}

fn check(spec: &InterfererSpec, path: &str) -> Result<(), TopologyError> {
    let at = |key: &str| format!("{path}.{key}");
    let axes = spec.position.unwrap_or_default().map(Some);
    let place = at("position");
    finite(&axes.map(|axis| (place.as_str(), axis)))?;
    finite(&[(&at("power_dbm"), spec.power_dbm)])?;
    if spec.position.is_none() && spec.received_dbm.is_empty() {
        let what = "write where it is (position, metres), or what nodes receive of it \
                    (received_dbm = { n1 = -70 })";
        return Err(TopologyError::key(path, what));
    }
    if spec.position.is_none() && spec.power_dbm.is_some() {
        let what = "has no effect without position: received_dbm says what arrives";
        return Err(TopologyError::key(at("power_dbm"), what));
    }
    if let Some(dbm) = spec.power_dbm.filter(|dbm| dbm.abs() > MOST.0) {
        let what = format!("{dbm} dBm: write a power between -{0} and {0} dBm", MOST.0);
        return Err(TopologyError::key(at("power_dbm"), what));
    }
    for (name, dbm) in &spec.received_dbm {
        let at = format!("{path}.received_dbm.{name}");
        finite(&[(&at, Some(*dbm))])?;
        if *dbm > MOST.1 {
            let what = format!("{dbm} dBm are more than any radio survives: write at most 0 dBm");
            return Err(TopologyError::key(at, what));
        }
    }
    Ok(())
}

/// How long it is on, and off; never off: zero.
fn lengths(spec: &InterfererSpec, path: &str) -> Result<(Span, Span), TopologyError> {
    let at = |key: &str| format!("{path}.{key}");
    let duty = spec.duty.unwrap_or(1.0);
    if !(duty > 0.0 && duty <= 1.0) {
        let what = format!("{duty}: write the share of the time that it is on, above 0, up to 1");
        return Err(TopologyError::key(at("duty"), what));
    }
    if duty == 1.0 {
        for (key, given) in [("period", spec.period.is_some()), ("random", spec.random)] {
            if given {
                let what = "has no effect: it is always on; write a duty below 1";
                return Err(TopologyError::key(at(key), what));
            }
        }
        return Ok((Span::SECOND, Span::ZERO));
    }
    let Some(period) = spec.period else {
        let what = "a duty below 1 needs the time after which it is on again";
        return Err(TopologyError::key(at("period"), what));
    };
    let on = Span((period.0.0 as f64 * duty).round() as u64);
    let off = Span(period.0.0.saturating_sub(on.0));
    if on < SHORTEST || off < SHORTEST {
        let what = format!(
            "{}: it would be on or off for less than 1 us; write a longer one",
            period.0
        );
        return Err(TopologyError::key(at("period"), what));
    }
    Ok((on, off))
}

/// What each node with a radio receives, dBm: by the table, else by geometry.
fn received(
    spec: &InterfererSpec,
    path: &str,
    (specs, nodes): (&[NodeSpec], &[NodePlan]),
    places: &[Option<[f64; 3]>],
    geometry: &Geometry,
) -> Result<Vec<(u16, f64)>, TopologyError> {
    let mut table = std::collections::BTreeMap::new();
    for (name, dbm) in &spec.received_dbm {
        let key = format!("{path}.received_dbm.{name}");
        let node = place::find(specs, name, &key)?;
        if nodes[usize::from(node)].wired_only {
            let what = "has wires only: no radio receives anything there";
            return Err(TopologyError::key(key, what));
        }
        table.insert(node, *dbm);
    }
    let power = spec.power_dbm.unwrap_or(POWER_DBM);
    let mut all = Vec::new();
    let radios = nodes.iter().enumerate().filter(|(_, n)| !n.wired_only);
    for i in radios.map(|(i, _)| i) {
        let to = i as u16;
        let by_place = || Some(geometry.from_outside(power, to, &spec.position?, &places[i]?));
        if let Some(dbm) = table.get(&to).copied().or_else(by_place) {
            all.push((to, dbm));
        }
    }
    Ok(all)
}
