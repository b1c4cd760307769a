//! How packets find their way: tables that are computed offline from what links are like.

use crate::scenario::{RoutingKind, RoutingSpec, ScenarioError};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use wifu_radio::etx::Curves;
use wifu_radio::plan::Plan;
use wifu_wire::names;

/// By which link a packet leaves a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Via {
    /// To this neighbour by radio.
    Radio(u16),
    /// By this direction of a wire.
    Wire(u32),
    /// There is no route.
    Nowhere,
}

/// With `shortest`, a link whose ETX is greater is none: one attempt in four comes through with
/// its acknowledgement.
const USABLE_ETX: f64 = 4.0;

/// A directed link as routing sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Transmitter.
    pub from: u16,
    /// Receiver.
    pub to: u16,
    /// By which.
    pub via: Via,
    /// Least sum wins.
    pub cost: f64,
}

/// The links of a plan with their costs: radio links in both of whose directions packets survive,
/// and wires, which cost 1.
pub fn links(plan: &Plan, spec: &RoutingSpec, curves: &mut Curves) -> Vec<Link> {
    let mut chance: BTreeMap<(u16, u16), f64> = BTreeMap::new();
    for (from, row) in plan.gains.iter().enumerate() {
        let mode = plan.nodes[from].radio.rate;
        for gain in row {
            let to = &plan.nodes[usize::from(gain.to)].radio;
            let p = curves.delivery(mode, gain, to);
            if p > 1e-3 {
                chance.insert((from as u16, gain.to), p);
            }
        }
    }
    let shortest = spec.kind == RoutingKind::Shortest;
    let limit = match (spec.max_etx, shortest) {
        (Some(most), _) => most,
        (None, true) => USABLE_ETX,
        (None, false) => f64::INFINITY,
    };
    let mut all = Vec::new();
    for (&(from, to), there) in &chance {
        let etx = chance.get(&(to, from)).map(|back| 1.0 / (there * back));
        if let Some(etx) = etx.filter(|e| *e <= limit) {
            let cost = if shortest { 1.0 } else { etx };
            let via = Via::Radio(to);
            all.push(Link {
                from,
                to,
                via,
                cost,
            });
        }
    }
    for (i, wire) in plan.wires.iter().enumerate() {
        let directions = [(wire.a, wire.b, 2 * i), (wire.b, wire.a, 2 * i + 1)];
        for (from, to, number) in directions {
            all.push(Link {
                from,
                to,
                via: Via::Wire(number as u32),
                cost: 1.0,
            });
        }
    }
    all
}

/// Next hops, one column per destination that is asked for.
#[derive(Clone, Debug, Default)]
pub struct Table {
    nodes: usize,
    columns: Vec<u32>,
    next: Vec<Via>,
}

const NO_COLUMN: u32 = u32::MAX;

impl Table {
    /// A table for these destinations in which nothing is reachable.
    pub fn new(nodes: usize, destinations: &[u16]) -> Table {
        let mut table = Table {
            nodes,
            columns: vec![NO_COLUMN; nodes],
            next: Vec::new(),
        };
        for &to in destinations {
            let column = &mut table.columns[usize::from(to)];
            if *column == NO_COLUMN {
                *column = (table.next.len() / nodes) as u32;
                table.next.resize(table.next.len() + nodes, Via::Nowhere);
            }
        }
        table
    }

    /// By which link a packet to `to` leaves `from`.
    pub fn via(&self, from: u16, to: u16) -> Via {
        match self.columns.get(usize::from(to)).copied() {
            None | Some(NO_COLUMN) => Via::Nowhere,
            Some(column) => self.next[column as usize * self.nodes + usize::from(from)],
        }
    }

    /// Set one entry; nothing happens for a destination that nobody asked for.
    pub fn set(&mut self, from: u16, to: u16, via: Via) {
        if let Some(column) = Some(self.columns[usize::from(to)]).filter(|c| *c != NO_COLUMN) {
            self.next[column as usize * self.nodes + usize::from(from)] = via;
        }
    }

    /// Nothing is reachable any more.
    pub fn clear(&mut self) {
        self.next.fill(Via::Nowhere);
    }

    /// Routes of least cost over `links` to every destination of the table. Of equally good ones
    /// that with fewer hops, then that to the neighbour with the lower number.
    pub fn fill(&mut self, links: &[Link]) {
        // Trees grow from the destination, so links are looked up by their receiver.
        let mut into: Vec<Vec<Link>> = vec![Vec::new(); self.nodes];
        for link in links {
            into[usize::from(link.to)].push(*link);
        }
        for to in 0..self.nodes {
            if self.columns[to] != NO_COLUMN {
                self.tree(to as u16, &into);
            }
        }
    }

    fn tree(&mut self, to: u16, into: &[Vec<Link>]) {
        // Costs in millionths: sums of the same links are equal in any order.
        let mut best: Vec<(u64, u16)> = vec![(u64::MAX, 0); self.nodes];
        let mut next = vec![Via::Nowhere; self.nodes];
        let mut heap = BinaryHeap::new();
        best[usize::from(to)] = (0, 0);
        heap.push(Reverse((0u64, 0u16, to)));
        while let Some(Reverse((cost, hops, at))) = heap.pop() {
            if (cost, hops) > best[usize::from(at)] {
                continue;
            }
            for link in &into[usize::from(at)] {
                let from = usize::from(link.from);
                let total = (cost + (link.cost * 1e6).round() as u64, hops + 1);
                let lower = total == best[from] && order(link.via) < order(next[from]);
                if total < best[from] || (lower && link.from != to) {
                    next[from] = link.via;
                    if total < best[from] {
                        best[from] = total;
                        heap.push(Reverse((total.0, total.1, link.from)));
                    }
                }
            }
        }
        for (from, via) in next.into_iter().enumerate() {
            if from != usize::from(to) {
                self.set(from as u16, to, via);
            }
        }
    }

    /// The nodes on the way from `from` to `to`, the last one included; `None`, at the end, if the
    /// way does not lead there. `leads` says where a direction of a wire leads.
    pub fn walk(
        &self,
        from: u16,
        to: u16,
        leads: impl Fn(u32) -> u16,
    ) -> impl Iterator<Item = Option<u16>> {
        let (mut at, mut left) = (Some(from), self.nodes);
        core::iter::from_fn(move || {
            let here = at.filter(|here| *here != to)?;
            at = match self.via(here, to) {
                _ if left == 0 => None,
                Via::Radio(next) => Some(next),
                Via::Wire(n) => Some(leads(n)),
                Via::Nowhere => None,
            };
            left -= 1;
            Some(at)
        })
    }
}

/// Among equals: radios by neighbour, then wires.
fn order(via: Via) -> u32 {
    match via {
        Via::Radio(n) => u32::from(n),
        Via::Wire(n) => n + (1 << 16),
        Via::Nowhere => u32::MAX,
    }
}

/// The number of a node by name.
///
/// # Errors
/// At `path`, with the nearest name.
pub(crate) fn index(plan: &Plan, name: &str, path: &str) -> Result<u16, ScenarioError> {
    plan.index(name).ok_or_else(|| {
        let near = names::ending(name, plan.nodes.iter().map(|n| n.name.as_str()));
        let there = match plan.nodes.as_slice() {
            [] => String::from("The topology has none"),
            [one] => format!("There is {} only", one.name),
            [first, .., last] => format!(
                "There are {}, from {} to {}",
                plan.nodes.len(),
                first.name,
                last.name
            ),
        };
        ScenarioError::key(path, format!("no node `{name}`{near} {there}"))
    })
}

/// The routes that a scenario names one by one: from, to, by which link.
///
/// # Errors
/// Names of no node, and neighbours that are none.
pub(crate) fn named(
    plan: &Plan,
    spec: &RoutingSpec,
) -> Result<Vec<(u16, u16, Via)>, ScenarioError> {
    let mut all = Vec::with_capacity(spec.routes.len());
    for (i, route) in spec.routes.iter().enumerate() {
        let at = |key: &str| format!("routing.routes[{i}].{key}");
        let from = index(plan, &route.from, &at("from"))?;
        let to = index(plan, &route.to, &at("to"))?;
        let next = index(plan, &route.via, &at("via"))?;
        let wire = plan.wires.iter().position(|w| (w.a, w.b) == (from, next));
        let back = plan.wires.iter().position(|w| (w.b, w.a) == (from, next));
        let via = match (wire, back) {
            (Some(n), _) => Via::Wire(2 * n as u32),
            (_, Some(n)) => Via::Wire(2 * n as u32 + 1),
            _ if plan.gain(from, next).is_some() => Via::Radio(next),
            _ => {
                let what = format!("{} does not hear {}", route.via, route.from);
                return Err(ScenarioError::key(at("via"), what));
            }
        };
        all.push((from, to, via));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole way over radios, or nothing.
    fn path(table: &Table, from: u16, to: u16) -> Vec<u16> {
        let way = table.walk(from, to, |_| unreachable!("there are no wires"));
        let all: Option<Vec<u16>> = core::iter::once(Some(from)).chain(way).collect();
        all.unwrap_or_default()
    }
    use wifu_wire::Rng;

    fn link(from: u16, to: u16, cost: f64) -> Link {
        let via = Via::Radio(to);
        Link {
            from,
            to,
            via,
            cost,
        }
    }

    fn both(a: u16, b: u16, cost: f64) -> [Link; 2] {
        [link(a, b, cost), link(b, a, cost)]
    }

    #[test]
    fn the_cheaper_route_wins_and_equal_ones_go_by_fewer_hops_and_lower_numbers() {
        let mut links = Vec::new();
        links.extend(both(0, 1, 1.0));
        links.extend(both(1, 2, 1.0));
        links.extend(both(0, 2, 2.5));
        links.extend(both(2, 3, 1.0));
        links.extend(both(1, 3, 2.0));
        let mut table = Table::new(5, &[2, 3, 4]);
        table.fill(&links);
        assert_eq!(path(&table, 0, 2), [0, 1, 2]);
        // 0-1-3 costs as much as 0-1-2-3, with fewer hops.
        assert_eq!(path(&table, 0, 3), [0, 1, 3]);
        assert_eq!(table.via(0, 4), Via::Nowhere);
        assert_eq!(
            table.via(2, 0),
            Via::Nowhere,
            "nobody asked for routes to 0"
        );
        let mut links: Vec<Link> = both(0, 2, 1.0).to_vec();
        links.extend(both(0, 1, 1.0));
        links.extend(both(2, 3, 1.0));
        links.extend(both(1, 3, 1.0));
        let mut table = Table::new(4, &[3]);
        table.fill(&links);
        assert_eq!(path(&table, 0, 3), [0, 1, 3]);
    }

    /// Floyd and Warshall's algorithm gives the same costs.
    #[test]
    fn routes_are_the_cheapest_in_random_graphs() {
        let mut rng = Rng::new(9);
        for _ in 0..50 {
            let n = 12;
            let mut cost = vec![vec![u64::MAX / 4; n]; n];
            let mut links = Vec::new();
            for (from, row) in cost.iter_mut().enumerate() {
                row[from] = 0;
                for (to, c) in row.iter_mut().enumerate() {
                    if from != to && rng.below(4) == 0 {
                        *c = 1 + rng.below(9);
                        links.push(link(from as u16, to as u16, *c as f64));
                    }
                }
            }
            let direct = cost.clone();
            for k in 0..n {
                for i in 0..n {
                    for j in 0..n {
                        cost[i][j] = cost[i][j].min(cost[i][k] + cost[k][j]);
                    }
                }
            }
            let all: Vec<u16> = (0..n as u16).collect();
            let mut table = Table::new(n, &all);
            table.fill(&links);
            for (from, row) in cost.iter().enumerate() {
                for (to, least) in row.iter().enumerate() {
                    let path = path(&table, from as u16, to as u16);
                    let sum: u64 = path
                        .windows(2)
                        .map(|w| direct[usize::from(w[0])][usize::from(w[1])])
                        .sum();
                    match *least < u64::MAX / 8 {
                        true => assert_eq!(sum, *least, "{from} {to} {path:?}"),
                        false => assert!(path.is_empty()),
                    }
                }
            }
        }
    }
}
