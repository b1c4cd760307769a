//! Static routes, the same that the simulator computes for the same topology.

use wifu_radio::etx::{Routes, etx};
use wifu_radio::plan::Plan;
use wifu_radio::topology::{PlacementKind, Topology};

/// How routes are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RoutingKind {
    /// Along the rows of a topology that has rows, elsewhere as `Etx`.
    #[default]
    Auto,
    /// Least sum of ETX.
    Etx,
    /// Fewest hops over links with an ETX of at most 4.
    Shortest,
    /// None: a routing daemon will see to it.
    None,
}

/// `[from][to]`: the neighbour to whom packets go; none if there is no route.
pub type NextHops = Vec<Vec<Option<u16>>>;

/// The routes that the hosts' kernels get.
#[derive(Clone, Debug)]
pub enum Routing {
    /// By these neighbours.
    Via(NextHops),
    /// No routes: a routing daemon sets them.
    None,
}

/// A link with a greater ETX is none to [`RoutingKind::Shortest`].
const USABLE_ETX: f64 = 4.0;

/// The routes of a plan that was made from `topology`.
pub fn routes(topology: &Topology, plan: &Plan, kind: RoutingKind) -> Routing {
    if kind == RoutingKind::None {
        return Routing::None;
    }
    let mut costs = etx(plan);
    if kind == RoutingKind::Shortest {
        for (from, row) in costs.iter_mut().enumerate() {
            for (_, cost) in row.iter_mut().enumerate().filter(|(to, _)| *to != from) {
                let usable = *cost <= USABLE_ETX;
                *cost = if usable { 1.0 } else { f64::INFINITY };
            }
        }
    }
    let mut next = Routes::over(&costs).next;
    if kind == RoutingKind::Auto {
        for row in rows(topology, plan.nodes.len()) {
            for (from, to) in row.clone().flat_map(|f| row.clone().map(move |t| (f, t))) {
                if from != to {
                    let via = if from < to { from + 1 } else { from - 1 };
                    next[from][to] = Some(via as u16);
                }
            }
        }
    }
    Routing::Via(next)
}

/// The nodes that stand in rows.
fn rows(topology: &Topology, nodes: usize) -> Vec<core::ops::Range<usize>> {
    match &topology.placement {
        Some(p) => {
            let count = usize::from(p.count);
            match p.kind {
                PlacementKind::Line => core::iter::once(0..count.min(nodes)).collect(),
                PlacementKind::Rows => {
                    let rows = usize::from(p.rows.unwrap_or(1));
                    (0..rows).map(|r| r * count..(r + 1) * count).collect()
                }
                PlacementKind::Grid | PlacementKind::Uniform => Vec::new(),
            }
        }
        None if topology.chain.is_some() => core::iter::once(0..nodes).collect(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_radio::topology::resolve;
    use wifu_wire::Rng;

    fn via(words: &str, kind: RoutingKind) -> Vec<Vec<Option<u16>>> {
        let topology = Topology::from_words(words, None).unwrap();
        let plan = resolve(&topology, &Rng::new(1)).unwrap();
        match routes(&topology, &plan, kind) {
            Routing::Via(next) => next,
            Routing::None => Vec::new(),
        }
    }

    #[test]
    fn chains_go_from_neighbour_to_neighbour() {
        let next = via("linear,4", RoutingKind::Auto);
        assert_eq!(next[0], [None, Some(1), Some(1), Some(1)]);
        assert_eq!(next[3], [Some(2), Some(2), Some(2), None]);
        let rows = via("parallel,3,2", RoutingKind::Auto);
        assert_eq!((rows[0][2], rows[3][5]), (Some(1), Some(4)));
    }

    #[test]
    fn elsewhere_links_decide() {
        for kind in [RoutingKind::Auto, RoutingKind::Etx, RoutingKind::Shortest] {
            let next = via("grid,2,2", kind);
            assert_eq!(next[0][1], Some(1), "{kind:?}");
        }
        assert!(via("linear,3", RoutingKind::None).is_empty());
    }
}
