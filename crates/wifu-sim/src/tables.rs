//! All nodes' next hops: routes over links, and what the topology or the user lays down beside
//! them.

use crate::routing::{self, Link, Table, Via};
use crate::scenario::{RoutingKind, RoutingSpec, ScenarioError};
use core::ops::Range;
use std::collections::BTreeSet;
use wifu_radio::plan::Plan;
use wifu_radio::topology::{PlacementKind, Topology};

/// The nodes that stand in rows: along a row packets go from neighbour to neighbour.
pub(crate) fn rows(topology: &Topology, nodes: usize) -> Vec<Range<u16>> {
    let n = nodes as u16;
    match &topology.placement {
        Some(p) if p.kind == PlacementKind::Line => core::iter::once(0..p.count.min(n)).collect(),
        Some(p) if p.kind == PlacementKind::Rows => {
            let rows = p.rows.unwrap_or(1);
            (0..rows).map(|r| r * p.count..(r + 1) * p.count).collect()
        }
        None if topology.chain.is_some() => core::iter::once(0..n).collect(),
        _ => Vec::new(),
    }
}

/// Routes that do not follow from what links are like.
#[derive(Default)]
pub(crate) struct Fixed {
    /// Along each packets go from neighbour to neighbour.
    rows: Vec<Range<u16>>,
    /// (from, to, by which link).
    named: Vec<(u16, u16, Via)>,
    /// There are no others.
    only: bool,
    /// A daemon judges links: it takes away what the topology or the user says.
    judged: bool,
}

impl Fixed {
    /// What the topology, along whose `rows` packets go from neighbour to neighbour, and the user
    /// lay down.
    ///
    /// # Errors
    /// The key of what cannot be.
    pub(crate) fn new(
        spec: &RoutingSpec,
        plan: &Plan,
        rows: &[Range<u16>],
    ) -> Result<Fixed, ScenarioError> {
        if spec.kind == RoutingKind::Chain && rows.is_empty() {
            let what = "`chain` follows the rows of a topology, and this one has none";
            return Err(ScenarioError::key("routing.kind", what));
        }
        let plain = spec.kind == RoutingKind::Auto || spec.kind == RoutingKind::Chain;
        Ok(Fixed {
            rows: if plain { rows.to_vec() } else { Vec::new() },
            named: routing::named(plan, spec)?,
            only: spec.kind == RoutingKind::Static,
            judged: spec.olsr.is_some(),
        })
    }

    fn along_rows(&self) -> impl Iterator<Item = (u16, u16, Via)> {
        self.rows.iter().flat_map(|row| {
            row.clone().flat_map(move |to| {
                let others = row.clone().filter(move |from| *from != to);
                others.map(move |from| {
                    let next = if from < to { from + 1 } else { from - 1 };
                    (from, to, Via::Radio(next))
                })
            })
        })
    }
}

/// All routes.
pub(crate) struct Tables {
    table: Table,
    fixed: Fixed,
}

impl Tables {
    /// Routes to the destinations `to`; nothing is reachable yet.
    pub(crate) fn new(nodes: usize, to: &[u16], fixed: Fixed) -> Tables {
        Tables {
            table: Table::new(nodes, to),
            fixed,
        }
    }

    /// Routes over these links, which are all there are.
    pub(crate) fn lay(&mut self, links: &[Link]) {
        self.table.clear();
        if !self.fixed.only {
            self.table.fill(links);
        }
        let fixed = &self.fixed;
        let up: BTreeSet<(u16, Via)> = links.iter().map(|l| (l.from, l.via)).collect();
        for (from, to, via) in fixed.along_rows().chain(fixed.named.iter().copied()) {
            let down = fixed.judged && !up.contains(&(from, via));
            let way = if down { Via::Nowhere } else { via };
            self.table.set(from, to, way);
        }
    }

    /// By which link a packet to `to` leaves `from`.
    pub(crate) fn via(&self, from: u16, to: u16) -> Via {
        self.table.via(from, to)
    }

    /// See [`Table::walk`].
    pub(crate) fn walk(
        &self,
        from: u16,
        to: u16,
        leads: impl Fn(u32) -> u16,
    ) -> impl Iterator<Item = Option<u16>> {
        self.table.walk(from, to, leads)
    }
}
