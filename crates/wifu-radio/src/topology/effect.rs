//! Keys that would change nothing. Those of a lower layer that a higher one takes the effect of are
//! dropped; those that are left are errors, because nothing a user writes is ignored silently.

use toml::{Table, Value};

use super::error::TopologyError;
use super::spec::*;
use super::table::merge;

/// The name of a law in files.
fn name(model: PropagationModel) -> &'static str {
    match model {
        PropagationModel::LogDistance => "log-distance",
        PropagationModel::FreeSpace => "free-space",
        PropagationModel::TwoRay => "two-ray",
        PropagationModel::Range => "range",
    }
}

/// Keys of `[propagation]` that only some laws have.
const LAWS: [(&str, &[PropagationModel]); 5] = [
    ("reference_db", &[PropagationModel::LogDistance]),
    ("anchor", &[PropagationModel::LogDistance]),
    ("antenna_m", &[PropagationModel::TwoRay]),
    ("decode_m", &[PropagationModel::Range]),
    ("sense_m", &[PropagationModel::Range]),
];

/// Lay `over` over `under`; what says the same in another way in `under`, or belongs to something
/// that `over` replaces, goes.
pub(crate) fn overlay(under: &mut Table, over: &Table) {
    let has = |table: &str, key: &str| {
        let table = over.get(table).and_then(Value::as_table);
        table.is_some_and(|t| t.contains_key(key))
    };
    let text = |table: &str, key: &str| {
        let table = over.get(table).and_then(Value::as_table);
        table.and_then(|t| t.get(key)).and_then(Value::as_str)
    };
    let mut gone: Vec<(&str, &str)> = Vec::new();
    for (table, one, other) in [
        ("radio", "noise_dbm", "noise_figure_db"),
        ("propagation", "anchor", "reference_db"),
    ] {
        if has(table, one) {
            gone.push((table, other));
        }
        if has(table, other) {
            gone.push((table, one));
        }
    }
    // One threshold for both, or each by itself.
    if has("radio", "cs_dbm") {
        gone.extend([("radio", "detect_dbm"), ("radio", "energy_dbm")]);
    }
    if has("radio", "detect_dbm") && has("radio", "energy_dbm") {
        gone.push(("radio", "cs_dbm"));
    }
    if text("radio", "error_model").is_some_and(|m| m != "ideal") {
        gone.push(("radio", "ideal_db"));
    }
    if text("channel", "standard").is_some_and(|s| s != "802.11b") {
        gone.push(("channel", "preamble"));
    }
    if let Some(model) = text("propagation", "model") {
        let others = LAWS
            .iter()
            .filter(|(_, of)| of.iter().all(|m| name(*m) != model));
        gone.extend(others.map(|(key, _)| ("propagation", *key)));
        if model == "free-space" || model == "two-ray" {
            gone.push(("propagation", "exponent"));
        }
    }
    for (table, key) in gone {
        if let Some(Value::Table(under)) = under.get_mut(table) {
            under.remove(key);
        }
    }
    merge(under, over);
}

impl Topology {
    /// Find keys that have no effect. `moves`: nodes may leave the places for which `[chain]` and
    /// `[matrix]` hold; `[propagation]` decides then.
    ///
    /// # Errors
    /// The path of the first such key, and why.
    pub fn effective(&self, moves: bool) -> Result<(), TopologyError> {
        let nodes = super::place::nodes(self)?;
        check(self, &nodes, moves)
    }
}

/// See [`Topology::effective`]; `nodes` are the topology's.
pub(super) fn check(t: &Topology, nodes: &[NodeSpec], moves: bool) -> Result<(), TopologyError> {
    let b = t.channel.standard == Some(StandardSpec::B);
    if t.channel.preamble.is_some() && !b {
        let what = "has no effect: only 802.11b knows two preambles";
        return Err(TopologyError::key("channel.preamble", what));
    }
    radios(t, nodes)?;
    law(&t.propagation, t)?;
    tables(t, nodes, moves)
}

/// What `[radio]` and the nodes' own say of their noise and their errors.
fn radios(t: &Topology, nodes: &[NodeSpec]) -> Result<(), TopologyError> {
    let own = nodes.iter().enumerate();
    let own = own.map(|(i, n)| (format!("node[{i}].radio"), &n.radio));
    let common = core::iter::once(("radio".to_string(), &t.radio));
    for (path, spec) in common.chain(own) {
        if spec.noise_dbm.is_some() && spec.noise_figure_db.is_some() {
            let what = "has no effect: noise_dbm says what the noise is in all; write one of them";
            return Err(TopologyError::key(format!("{path}.noise_figure_db"), what));
        }
        if spec.cs_dbm.is_some() && spec.detect_dbm.is_some() && spec.energy_dbm.is_some() {
            let what = "has no effect: detect_dbm and energy_dbm say both; write two of the three";
            return Err(TopologyError::key(format!("{path}.cs_dbm"), what));
        }
        let model = spec.error_model.or(t.radio.error_model);
        let any = core::ptr::eq(spec, &t.radio)
            && nodes
                .iter()
                .any(|n| n.radio.error_model == Some(ErrorModelSpec::Ideal));
        if spec.ideal_db.is_some() && model != Some(ErrorModelSpec::Ideal) && !any {
            let what = "has no effect: it belongs to error_model = \"ideal\"";
            return Err(TopologyError::key(format!("{path}.ideal_db"), what));
        }
    }
    Ok(())
}

/// Keys of the law that another law has, or that another key decides.
fn law(p: &PropagationSpec, t: &Topology) -> Result<(), TopologyError> {
    let model = p.model.unwrap_or_default();
    let given = [
        p.reference_db.is_some(),
        p.anchor.is_some(),
        p.antenna_m.is_some(),
        p.decode_m.is_some(),
        p.sense_m.is_some(),
    ];
    for ((key, of), given) in LAWS.iter().zip(given) {
        if given && !of.contains(&model) {
            let of: Vec<&str> = of.iter().map(|m| name(*m)).collect();
            let what = format!(
                "has no effect: it belongs to model = \"{}\", and this one is \"{}\"",
                of.join("\" or \""),
                name(model)
            );
            return Err(TopologyError::key(format!("propagation.{key}"), what));
        }
    }
    let free = matches!(
        model,
        PropagationModel::FreeSpace | PropagationModel::TwoRay
    );
    if p.exponent.is_some() && free && t.chain.is_none() {
        let what = format!("has no effect: \"{}\" has no exponent", name(model));
        return Err(TopologyError::key("propagation.exponent", what));
    }
    if p.anchor.is_some() && p.reference_db.is_some() {
        let what = "has no effect: propagation.anchor fixes the loss; write one of them";
        return Err(TopologyError::key("propagation.reference_db", what));
    }
    let fixed = match (model, &p.anchor, p.reference_db) {
        (PropagationModel::Range, _, _) => "the law \"range\"",
        (PropagationModel::LogDistance, Some(_), _) => "propagation.anchor",
        (PropagationModel::LogDistance, None, Some(_)) => "propagation.reference_db",
        _ => return Ok(()),
    };
    if t.channel.frequency_mhz.is_some() {
        let what = format!("has no effect: it is for path loss only, which {fixed} fixes");
        return Err(TopologyError::key("channel.frequency_mhz", what));
    }
    Ok(())
}

/// Tables of SNRs are for all nodes, and leave nothing to geometry unless nodes move.
fn tables(t: &Topology, nodes: &[NodeSpec], moves: bool) -> Result<(), TopologyError> {
    let radio = |from: usize| nodes.iter().skip(from).any(|n| !n.wired_only);
    let (table, covered) = match (&t.matrix, &t.chain) {
        (Some(m), _) => ("[matrix]", m.snr_db.len()),
        (None, Some(c)) => {
            let placed = t.placement.as_ref().map(|p| usize::from(p.count));
            let hops = c.snr_db.len() + 1;
            ("[chain]", placed.unwrap_or(nodes.len().max(hops)))
        }
        (None, None) => return Ok(()),
    };
    if t.matrix.is_some() && (covered > nodes.len() || radio(covered)) {
        let what = format!("{covered} rows and columns for {} nodes", nodes.len());
        return Err(TopologyError::key("matrix.snr_db", what));
    }
    let placed = t.interferer.iter().any(|i| i.position.is_some());
    if moves || placed || radio(covered) {
        return Ok(());
    }
    let p = &t.propagation;
    for (key, given) in [
        ("channel.frequency_mhz", t.channel.frequency_mhz.is_some()),
        ("propagation.reference_db", p.reference_db.is_some()),
        (
            "propagation.shadowing_db",
            p.shadowing_db.is_some_and(|db| db > 0.0),
        ),
        (
            "propagation.asymmetry_db",
            p.asymmetry_db.is_some_and(|db| db > 0.0),
        ),
        (
            "propagation.floor_loss_db",
            p.floor_loss_db.is_some_and(|db| db > 0.0),
        ),
    ] {
        if given {
            let what = format!(
                "has no effect: {table} has the SNRs of all pairs, and geometry decides none"
            );
            return Err(TopologyError::key(key, what));
        }
    }
    Ok(())
}
