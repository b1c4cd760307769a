//! The testbed sets as `wifu list` shows them.

use anyhow::Context as _;
use serde_json::{Value as Json, json};
use wifu_radio::plan::RateControl;
use wifu_radio::{sets, topology};
use wifu_wire::Rng;

/// A set and what its file says in a few words.
pub struct Listed {
    name: &'static str,
    standard: &'static str,
    rate: &'static str,
    nodes: usize,
    worlds: Vec<String>,
    source: String,
}

/// All sets.
///
/// # Errors
/// A set's file is no topology.
pub fn all() -> anyhow::Result<Vec<Listed>> {
    let found = sets::names().map(|name| read(name).with_context(|| format!("set {name}")));
    found.collect()
}

fn read(name: &'static str) -> anyhow::Result<Listed> {
    let set = sets::get(name)?;
    let plan = topology::resolve(&set, &Rng::new(0))?;
    let radio = &plan.nodes.first().context("it has no nodes")?.radio;
    Ok(Listed {
        name,
        standard: plan.phy.standard.name(),
        rate: match radio.rate_control {
            RateControl::Fixed => radio.rate.name(),
            RateControl::Minstrel => "Minstrel",
        },
        nodes: plan.nodes.len(),
        worlds: sets::worlds(name)?,
        source: set.source.unwrap_or_default(),
    })
}

impl Listed {
    /// A line for people.
    pub fn line(&self) -> String {
        let worlds = match self.worlds.is_empty() {
            true => String::new(),
            false => format!(" [world={}]", self.worlds.join("|")),
        };
        let Listed {
            name,
            standard,
            rate,
            nodes,
            source,
            ..
        } = self;
        format!("  {name:<10} {standard:<8} {rate:>8} {nodes:>3} nodes  {source}{worlds}")
    }

    /// For machines.
    pub fn json(&self) -> Json {
        json!({"name": self.name, "standard": self.standard, "rate": self.rate,
            "nodes": self.nodes, "worlds": self.worlds, "source": self.source})
    }
}
