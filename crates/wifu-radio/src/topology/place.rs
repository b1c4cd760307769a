//! Where nodes are: generated names, regular shapes, and random placements.

use wifu_wire::{Rng, names};

use crate::propagation::distance;

use super::error::TopologyError;
use super::spec::{NodeSpec, PlacementKind, PlacementSpec, Topology};

/// The nodes of a topology in order, before anything random.
pub(super) fn nodes(topology: &Topology) -> Result<Vec<NodeSpec>, TopologyError> {
    let generated = generated_names(topology)?;
    let nodes = match generated {
        None => topology.node.clone(),
        Some(names) => merge(names, topology)?,
    };
    if nodes.is_empty() {
        return Err(TopologyError::key(
            "node",
            "the topology has no nodes: give a set, words such as linear,3, [placement] or [[node]]",
        ));
    }
    if nodes.len() > usize::from(u16::MAX) {
        let what = format!("{} nodes are more than 65535", nodes.len());
        return Err(TopologyError::key("placement.count", what));
    }
    for (i, node) in nodes.iter().enumerate() {
        if nodes[..i].iter().any(|n| n.name == node.name) {
            let what = format!("two nodes are called \"{}\"", node.name);
            return Err(TopologyError::key(format!("node[{i}].name"), what));
        }
    }
    Ok(nodes)
}

/// Names that `[placement]`, or a table of SNRs without nodes, gives; none if nodes are listed.
fn generated_names(topology: &Topology) -> Result<Option<Vec<String>>, TopologyError> {
    let (count, names) = match &topology.placement {
        Some(p) => (usize::from(p.count) * usize::from(lines(p)), &p.names[..]),
        None if !topology.node.is_empty() => return Ok(None),
        None => match (&topology.chain, &topology.matrix) {
            (_, Some(m)) => (m.snr_db.len(), &[][..]),
            (Some(c), None) => (c.snr_db.len() + 1, &[][..]),
            (None, None) => (0, &[][..]),
        },
    };
    if names.len() > count {
        let what = format!("{} names for {count} nodes", names.len());
        return Err(TopologyError::key("placement.names", what));
    }
    let name = |i: usize| names.get(i).cloned().unwrap_or(format!("n{}", i + 1));
    Ok(Some((0..count).map(name).collect()))
}

/// Rows whose nodes `count` does not include.
fn lines(p: &PlacementSpec) -> u16 {
    match p.kind {
        PlacementKind::Rows => p.rows.unwrap_or(1),
        _ => 1,
    }
}

/// `[[node]]` entries onto the generated nodes.
fn merge(names: Vec<String>, topology: &Topology) -> Result<Vec<NodeSpec>, TopologyError> {
    let blank = |name: String| NodeSpec {
        name,
        position: None,
        radio: Default::default(),
        wired_only: false,
    };
    let mut nodes: Vec<NodeSpec> = names.into_iter().map(blank).collect();
    for (i, extra) in topology.node.iter().enumerate() {
        match nodes.iter_mut().find(|n| n.name == extra.name) {
            Some(node) => *node = extra.clone(),
            // Nodes beside the generated ones: hosts on wires, gateways.
            None if extra.wired_only || extra.position.is_some() => nodes.push(extra.clone()),
            None => {
                let known = nodes.iter().map(|n| n.name.as_str());
                let what = format!(
                    "no generated node is called \"{}\"{} A further node needs a position",
                    extra.name,
                    names::ending(&extra.name, known)
                );
                return Err(TopologyError::key(format!("node[{i}].name"), what));
            }
        }
    }
    Ok(nodes)
}

/// The index of a node by its name, or by `n<number>` counted from 1.
pub(super) fn find(nodes: &[NodeSpec], name: &str, path: &str) -> Result<u16, TopologyError> {
    let by_name = nodes.iter().position(|n| n.name == name);
    let by_number = || {
        let number: usize = name.strip_prefix('n')?.parse().ok()?;
        (1..=nodes.len()).contains(&number).then(|| number - 1)
    };
    match by_name.or_else(by_number) {
        Some(i) => Ok(i as u16),
        None => {
            let known = nodes.iter().map(|n| n.name.as_str());
            let what = format!("no node is called \"{name}\"{}", names::hint(name, known));
            Err(TopologyError::key(path, what))
        }
    }
}

/// Positions of all nodes; random ones from `rng`. None where a topology gives no position.
pub(super) fn positions(
    topology: &Topology,
    nodes: &[NodeSpec],
    rng: &Rng,
) -> Result<Vec<Option<[f64; 3]>>, TopologyError> {
    let mut at: Vec<Option<[f64; 3]>> = match &topology.placement {
        None => Vec::new(),
        Some(p) => shape(topology, p, rng)?.into_iter().map(Some).collect(),
    };
    at.resize(nodes.len(), None);
    for (place, node) in at.iter_mut().zip(nodes) {
        *place = node.position.or(*place);
    }
    Ok(at)
}

fn shape(t: &Topology, p: &PlacementSpec, rng: &Rng) -> Result<Vec<[f64; 3]>, TopologyError> {
    let spacing = p.spacing_m.unwrap_or(10.0);
    let gap = p.gap_m.unwrap_or(spacing);
    let rows = p.rows.unwrap_or(1).max(1);
    let lattice = |columns: u16, rows: u16| -> Vec<[f64; 3]> {
        let cell = |i: u16| [f64::from(i % columns), f64::from(i / columns)];
        (0..columns * rows)
            .map(cell)
            .map(|[x, y]| [x * spacing, y * gap, 0.0])
            .collect()
    };
    match p.kind {
        PlacementKind::Line => Ok(lattice(p.count, 1)),
        PlacementKind::Rows => Ok(lattice(p.count, rows)),
        PlacementKind::Grid if !p.count.is_multiple_of(rows) => Err(TopologyError::key(
            "placement.count",
            format!("{} nodes do not fill {rows} rows", p.count),
        )),
        PlacementKind::Grid => Ok(lattice(p.count / rows, rows)),
        PlacementKind::Uniform => uniform(t, p, rng),
    }
}

/// How often one node may be drawn again because it is too near another.
const TRIES: u32 = 10_000;

fn uniform(t: &Topology, p: &PlacementSpec, rng: &Rng) -> Result<Vec<[f64; 3]>, TopologyError> {
    let Some([width, depth]) = p.area_m else {
        let what = "a uniform placement needs the sides of its area, [x, y] in metres";
        return Err(TopologyError::key("placement.area_m", what));
    };
    let floors = p.floors.unwrap_or(1).max(1);
    let height = t.propagation.floor_height_m.unwrap_or(4.0);
    let least = p.min_distance_m.unwrap_or(0.0);
    let mut rng = *rng;
    let mut placed: Vec<[f64; 3]> = Vec::with_capacity(p.count.into());
    for i in 0..p.count {
        let floor = u32::from(i) * u32::from(floors) / u32::from(p.count);
        let z = f64::from(floor) * height;
        let mut tries = 0;
        loop {
            let at = [rng.unit() * width, rng.unit() * depth, z];
            if placed.iter().all(|other| distance(other, &at) >= least) {
                placed.push(at);
                break;
            }
            tries += 1;
            if tries == TRIES {
                return Err(TopologyError::Placement(format!(
                    "node {} of {} finds no place {least} m from all others in {width} x {depth} m",
                    i + 1,
                    p.count
                )));
            }
        }
    }
    Ok(placed)
}
