//! Ways that packets keep where there are others, or find late.

use crate::mesh;
use crate::routing::{self, Link, Via};
use crate::scenario::{RoutingKind, Scenario};
use crate::tables;
use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};
use wifu_radio::etx::Curves;
use wifu_radio::plan::Plan;
use wifu_wire::Span;

/// One attempt in ten fails, of a packet or its acknowledgement: a link that is about as good as
/// any.
const GOOD_ETX: f64 = 1.1;

/// A pair of nodes, the lower number first.
type Pair = [u16; 2];

/// Whether a scenario has what its routes are asked about: something that changes under them, or
/// a row of nodes that no testbed has.
pub(super) fn matter(scenario: &Scenario) -> bool {
    let kind = scenario.routing.kind;
    let plain = matches!(kind, RoutingKind::Auto | RoutingKind::Chain);
    let topology = || mesh::topology(scenario);
    let rows = || topology().is_ok_and(|t| !tables::rows(&t, usize::from(u16::MAX)).is_empty());
    let moves = !scenario.mobility.is_empty();
    let own = kind == RoutingKind::Auto && is_own(scenario);
    !scenario.event.is_empty()
        || (moves && kind == RoutingKind::Static)
        || ((moves && plain || own) && rows())
}

/// Whether a scenario says itself where nodes stand: those of words and of testbeds stand as near
/// as they do.
fn is_own(scenario: &Scenario) -> bool {
    scenario.topology.set.is_none() && scenario.topology.words.is_none()
}

/// What packets of a scenario's flows may go along as it begins, and what they go along.
pub(super) struct Ways<'a> {
    scenario: &'a Scenario,
    plan: Plan,
    rows: Vec<Range<u16>>,
    /// The nodes that each flow's packets pass, both ends included; empty without a route.
    flows: Vec<Vec<u16>>,
}

/// A link that is cut and that others can take the place of.
struct Cut {
    /// Its ends.
    name: String,
    /// Until routes follow that do.
    late: Span,
}

impl Ways<'_> {
    /// None of a scenario that is wrong.
    pub(super) fn new(scenario: &Scenario) -> Option<Ways<'_>> {
        let (plan, rows) = mesh::plan(scenario).ok()?;
        let ends = scenario.flow.iter();
        let ends: Vec<_> = ends.map(|f| (f.from.clone(), f.to.clone())).collect();
        let number = |name: &String| plan.index(name);
        let flows = mesh::routes_at_start(scenario, &ends).ok()?;
        let flows = flows
            .iter()
            .map(|path| path.iter().filter_map(number).collect());
        let flows = flows.collect();
        Some(Ways {
            scenario,
            rows,
            flows,
            plan,
        })
    }

    /// All links as they begin.
    fn links(&self) -> Vec<Link> {
        routing::links(&self.plan, &self.scenario.routing, &mut Curves::default())
    }

    /// Whether packets of flows pass one of these nodes on their way, or any at all if none is
    /// named; where ways change as nodes move or are not known, they may.
    pub(super) fn relayed(&self, by: &[String]) -> bool {
        let moves = !self.scenario.mobility.is_empty();
        if (moves && !self.fixed()) || self.flows.iter().any(Vec::is_empty) {
            return true;
        }
        let inside = |path: &Vec<u16>| path.len().saturating_sub(1);
        let on_ways = self.flows.iter();
        let mut relays = on_ways.flat_map(|path| path.iter().take(inside(path)).skip(1));
        relays
            .any(|node| by.is_empty() || by.iter().any(|name| self.plan.index(name) == Some(*node)))
    }

    /// Whether all flows' packets go the same way all the time: off a row and between two of them
    /// ways follow from links.
    fn fixed(&self) -> bool {
        let along = |path: &Vec<u16>| {
            let mut rows = self.rows.iter();
            rows.any(|row| path.iter().all(|node| row.contains(node)))
        };
        self.scenario.routing.kind == RoutingKind::Static
            || (self.in_rows() && self.flows.iter().all(along))
    }

    /// Whether packets go along rows of nodes, where there are.
    fn in_rows(&self) -> bool {
        let kind = self.scenario.routing.kind;
        matches!(kind, RoutingKind::Auto | RoutingKind::Chain) && !self.rows.is_empty()
    }

    /// Why routes are the same all the time, if they are.
    fn stays(&self) -> Option<&'static str> {
        match self.scenario.routing.kind {
            RoutingKind::Static => {
                Some("are those that are listed, as routing.kind is static, all the time")
            }
            _ if self.in_rows() => {
                Some("go along the row all the time, as routing.kind is auto or chain")
            }
            _ => None,
        }
    }

    /// What is to be said of routes.
    pub(super) fn sentences(&self) -> Vec<String> {
        let moves = !self.scenario.mobility.is_empty();
        let told = match (self.stays(), self.around()) {
            (Some(how), _) if moves => Some(format!(
                "nodes move, and routes {how}: nobody who comes nearer is used. With \
                 routing.kind = \"etx\" routes follow"
            )),
            (Some(how), Some(cut)) => Some(format!(
                "others could take the place of the link of {} when it is cut, and routes {how}. \
                 With routing.kind = \"etx\" routes follow",
                cut.name
            )),
            (None, Some(cut)) if cut.late > Span::ZERO => Some(format!(
                "routes follow at full seconds: what goes to the link of {} when it is cut is lost \
                 for the next {} s, and for more or less of a cut at another part of a second",
                cut.name,
                cut.late.as_secs_f64()
            )),
            _ => None,
        };
        // Who asks for a chain has one.
        let own = is_own(self.scenario) && self.scenario.routing.kind == RoutingKind::Auto;
        let direct = (self.in_rows() && own && !moves).then(|| self.direct());
        told.into_iter().chain(direct.flatten()).collect()
    }

    /// The first link of a flow's way that is cut while others join its ends.
    fn around(&self) -> Option<Cut> {
        let used: BTreeSet<Pair> = self
            .flows
            .iter()
            .flat_map(|path| path.windows(2).map(|hop| pair(hop[0], hop[1])))
            .collect();
        let links = match self.scenario.event.is_empty() {
            true => return None,
            false => self.links(),
        };
        let mut events: Vec<_> = self.scenario.event.iter().collect();
        events.sort_by_key(|event| event.at);
        let mut cut: BTreeSet<Pair> = BTreeSet::new();
        for event in events {
            let names = event.cut.as_ref().or(event.restore.as_ref())?;
            let ends = pair(self.plan.index(&names[0])?, self.plan.index(&names[1])?);
            if event.cut.is_none() {
                cut.remove(&ends);
                continue;
            }
            cut.insert(ends);
            if used.contains(&ends) && joined(&links, ends, &cut) {
                let at = event.at.0;
                let late = Span((Span::SECOND.0 - at.0 % Span::SECOND.0) % Span::SECOND.0);
                let name = names.join(" and ");
                return Some(Cut { name, late });
            }
        }
        None
    }

    /// The first flow whose packets pass relays between ends that reach each other well.
    fn direct(&self) -> Option<String> {
        let good: BTreeSet<(u16, u16)> = self
            .links()
            .iter()
            .filter(|link| matches!(link.via, Via::Radio(_)) && link.cost <= GOOD_ETX)
            .map(|link| (link.from, link.to))
            .collect();
        let mut flows = self.flows.iter().zip(&self.scenario.flow);
        let (path, flow) = flows.find(|(path, _)| match path[..] {
            [from, _, .., to] => good.contains(&(from, to)),
            _ => false,
        })?;
        let hops = path.len() - 1;
        Some(format!(
            "{} and {} reach each other without relays, and packets go along the row over {hops} \
             hops: a chain whose nodes are nearer than a chain needs. With routing.kind = \"etx\" \
             they go the shorter way",
            flow.from, flow.to
        ))
    }
}

fn pair(a: u16, b: u16) -> Pair {
    [a.min(b), a.max(b)]
}

/// Whether links that are not cut join two nodes.
fn joined(links: &[Link], ends: Pair, cut: &BTreeSet<Pair>) -> bool {
    let mut next: BTreeMap<u16, Vec<u16>> = BTreeMap::new();
    for link in links {
        if !cut.contains(&pair(link.from, link.to)) {
            next.entry(link.from).or_default().push(link.to);
        }
    }
    let mut seen = BTreeSet::from([ends[0]]);
    let mut open = vec![ends[0]];
    while let Some(node) = open.pop() {
        let others = next.get(&node).into_iter().flatten();
        open.extend(others.filter(|to| seen.insert(**to)));
    }
    seen.contains(&ends[1])
}
