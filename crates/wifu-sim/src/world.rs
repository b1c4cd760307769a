//! What changes by itself about a network: nodes move, links are cut and restored, routes follow.
//!
//! Positions and mean powers are computed anew every 0.1 s, routes at full seconds. Nothing here
//! reads a clock: whoever runs the network, the simulator or an emulation in real time, says what
//! time it is and is told what changes.

use crate::routing::{self, Link};
use crate::scenario::{EventSpec, MobilitySpec, RoutingSpec, Scenario, ScenarioError};
use std::collections::{BTreeMap, BTreeSet};
use wifu_radio::etx::Curves;
use wifu_radio::plan::{Gain, Plan};
use wifu_wire::{Rng, Span, Time};

/// Between two positions: at 10 m/s a node moves a metre.
const TICK: Span = Span(100_000_000);
/// A link this much below noise carries nothing and disturbs nobody (as in the plan).
const FLOOR_DB: f64 = 20.0;

/// What is different from now on. Nodes are numbers from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// A node is there, metres.
    Place(u16, [f64; 3]),
    /// The mean received power of a direction, dBm.
    Gain(u16, u16, f64),
    /// Nothing passes between two nodes, by whatever link.
    Cut(u16, u16),
    /// It passes again. What the radios' directions have follows as [`Change::Gain`].
    Restored(u16, u16),
}

/// How one node moves.
enum Path {
    Waypoint(Waypoint),
    /// (when, x, y) in order of time.
    Trace(Vec<(Time, f64, f64)>),
}

struct Waypoint {
    area: [f64; 4],
    speed: [f64; 2],
    pause: Span,
    rng: Rng,
    from: [f64; 2],
    to: [f64; 2],
    leaves: Time,
    arrives: Time,
}

/// A link is cut, or restored.
#[derive(Clone, Copy)]
struct Event {
    at: Time,
    pair: (u16, u16),
    cut: bool,
}

/// All that changes by itself.
pub struct World {
    paths: Vec<(u16, Path)>,
    /// When nodes move next.
    tick: Time,
    /// In order of time, and how many have happened.
    events: Vec<Event>,
    done: usize,
    /// Pairs that are cut, the lower number first.
    cut: BTreeSet<(u16, u16)>,
    /// What directions that are cut would have.
    behind: BTreeMap<(u16, u16), Gain>,
    /// What routes are computed from links by.
    routing: RoutingSpec,
    curves: Curves,
    /// Something changed since routes were computed.
    stale: bool,
    /// The next full second.
    full: Time,
}

impl Waypoint {
    fn next(&mut self) {
        let [x0, y0, x1, y1] = self.area;
        self.from = self.to;
        let rng = &mut self.rng;
        self.to = [x0 + (x1 - x0) * rng.unit(), y0 + (y1 - y0) * rng.unit()];
        let speed = self.speed[0] + (self.speed[1] - self.speed[0]) * rng.unit();
        let (dx, dy) = (self.to[0] - self.from[0], self.to[1] - self.from[1]);
        let way = (dx * dx + dy * dy).sqrt();
        self.leaves = self.arrives + self.pause;
        // However near the next point is, time goes on.
        self.arrives = self.leaves + Span::from_secs_f64(way / speed).max(Span::MILLI);
    }

    fn at(&mut self, now: Time) -> [f64; 2] {
        while now >= self.arrives + self.pause {
            self.next();
        }
        if now <= self.leaves {
            return self.from;
        }
        if now >= self.arrives {
            return self.to;
        }
        let part = (now - self.leaves).as_secs_f64() / (self.arrives - self.leaves).as_secs_f64();
        let along = |i: usize| self.from[i] + part * (self.to[i] - self.from[i]);
        [along(0), along(1)]
    }
}

/// Where a trace is at `now`: on straight lines between its rows, at the ends before and after.
fn along(rows: &[(Time, f64, f64)], now: Time) -> Option<[f64; 2]> {
    let after = rows.partition_point(|r| r.0 <= now);
    let (Some(a), Some(b)) = (after.checked_sub(1).map(|i| rows[i]), rows.get(after)) else {
        let end = rows.get(after).or(rows.last())?;
        return Some([end.1, end.2]);
    };
    let part = (now - a.0).as_secs_f64() / (b.0 - a.0).as_secs_f64();
    Some([a.1 + part * (b.1 - a.1), a.2 + part * (b.2 - a.2)])
}

/// How the nodes of `specs` move.
fn paths(
    specs: &[MobilitySpec],
    plan: &Plan,
    rng: &Rng,
) -> Result<Vec<(u16, Path)>, ScenarioError> {
    if specs.is_empty() {
        return Ok(Vec::new());
    }
    if plan.nodes.iter().all(|n| n.wired_only) {
        let what = "movement changes who hears whom, and no node here has a radio";
        return Err(ScenarioError::key("mobility", what));
    }
    if plan.geometry.is_none() || plan.nodes.iter().all(|n| n.position.is_none()) {
        let what = "nodes move only where positions decide who hears whom, and this topology \
                    states signal-to-noise ratios";
        return Err(ScenarioError::key("mobility", what));
    }
    let mut paths = Vec::new();
    for (i, spec) in specs.iter().enumerate() {
        match spec {
            MobilitySpec::Waypoint { nodes, .. } => {
                let at = format!("mobility[{i}].nodes");
                let named = nodes.iter().map(|n| routing::index(plan, n, &at));
                let mut chosen = named.collect::<Result<Vec<u16>, _>>()?;
                if nodes.is_empty() {
                    chosen = (0..plan.nodes.len() as u16).collect();
                }
                let walks = chosen
                    .into_iter()
                    .filter_map(|node| Some((node, Path::Waypoint(walk(spec, node, plan, rng)?))));
                paths.extend(walks);
            }
            MobilitySpec::Trace { rows } => {
                let mut by_node = BTreeMap::<u16, Vec<_>>::new();
                for (k, (seconds, name, x, y)) in rows.iter().enumerate() {
                    let at = format!("mobility[{i}].rows[{k}]");
                    let node = routing::index(plan, name, &at)?;
                    let when = Time::ZERO + Span::from_secs_f64(*seconds);
                    by_node.entry(node).or_default().push((when, *x, *y));
                }
                let traces = by_node.into_iter();
                paths.extend(traces.map(|(node, rows)| (node, Path::Trace(rows))));
            }
        }
    }
    Ok(paths)
}

/// The walk of one node, from where the plan has it.
fn walk(spec: &MobilitySpec, node: u16, plan: &Plan, rng: &Rng) -> Option<Waypoint> {
    let MobilitySpec::Waypoint {
        area, speed, pause, ..
    } = spec
    else {
        return None;
    };
    let place = plan.nodes[usize::from(node)].position.unwrap_or_default();
    let here = [place[0], place[1]];
    let own = rng.split("placement").split("walk");
    Some(Waypoint {
        area: *area,
        speed: *speed,
        pause: pause.0,
        rng: own.split_n(u64::from(node)),
        from: here,
        to: here,
        leaves: Time::ZERO,
        arrives: Time::ZERO,
    })
}

/// The cuts of `specs`, in order of time.
fn events(specs: &[EventSpec], moves: bool, plan: &Plan) -> Result<Vec<Event>, ScenarioError> {
    let mut found = Vec::with_capacity(specs.len());
    for (i, spec) in specs.iter().enumerate() {
        let (key, [a, b], cut) = match (&spec.cut, &spec.restore) {
            (Some(pair), None) => ("cut", pair, true),
            (None, Some(pair)) => ("restore", pair, false),
            // Reading has refused the others.
            _ => continue,
        };
        let path = format!("event[{i}].{key}");
        let (a, b) = (
            routing::index(plan, a, &path)?,
            routing::index(plan, b, &path)?,
        );
        let name = |n: u16| &plan.nodes[usize::from(n)].name;
        let wired = |w: &wifu_radio::plan::WirePlan| [(a, b), (b, a)].contains(&(w.a, w.b));
        let joined = plan.gain(a, b).is_some() || plan.gain(b, a).is_some();
        if a == b || !(joined || moves || plan.wires.iter().any(wired)) {
            let what = format!("nothing passes from {} to {} anyhow", name(a), name(b));
            return Err(ScenarioError::key(path, what));
        }
        let (at, pair) = (Time::ZERO + spec.at.0, (a.min(b), a.max(b)));
        found.push((Event { at, pair, cut }, path));
    }
    found.sort_by_key(|(e, _)| e.at);
    let mut down = BTreeSet::new();
    for (event, path) in &found {
        let changes = match event.cut {
            true => down.insert(event.pair),
            false => down.remove(&event.pair),
        };
        if !changes {
            let what = match event.cut {
                true => "this link is cut already by then",
                false => "this link is not cut by then",
            };
            return Err(ScenarioError::key(path, what));
        }
    }
    Ok(found.into_iter().map(|(e, _)| e).collect())
}

impl World {
    /// What a scenario over this plan has happen; none if nothing changes by itself.
    ///
    /// # Errors
    /// Names of no node; movement in a topology whose nodes have no positions; cuts of what does
    /// not exist, or not then.
    pub fn new(scenario: &Scenario, plan: &Plan) -> Result<Option<World>, ScenarioError> {
        let paths = paths(&scenario.mobility, plan, &scenario.rng())?;
        let events = events(&scenario.event, !paths.is_empty(), plan)?;
        Ok((!paths.is_empty() || !events.is_empty()).then(|| World {
            paths,
            tick: Time::ZERO,
            events,
            done: 0,
            cut: BTreeSet::new(),
            behind: BTreeMap::new(),
            routing: scenario.routing.clone(),
            curves: Curves::default(),
            stale: false,
            full: Time::ZERO,
        }))
    }

    /// When something changes next; [`Time::NEVER`] if nothing does any more.
    pub fn next(&self) -> Time {
        let tick = match self.paths.is_empty() {
            true => Time::NEVER,
            false => self.tick,
        };
        let event = self.events.get(self.done).map_or(Time::NEVER, |e| e.at);
        let routes = if self.stale { self.full } else { Time::NEVER };
        tick.min(event).min(routes)
    }

    /// Let happen what is due at `now`, which is no later than [`World::next`] says: `plan` is as
    /// it is from then on, and `tell` is told what changed. Gives the links that routes lead over
    /// from now on, if they follow now.
    pub fn step(
        &mut self,
        now: Time,
        plan: &mut Plan,
        tell: &mut dyn FnMut(Change),
    ) -> Option<Vec<Link>> {
        while let Some(event) = self.events.get(self.done).filter(|e| e.at <= now).copied() {
            self.done += 1;
            self.stale = true;
            match event.cut {
                true => self.cut(event.pair, plan, tell),
                false => self.restore(event.pair, plan, tell),
            }
        }
        if !self.paths.is_empty() && self.tick <= now {
            self.tick = now + TICK;
            self.walk(now, plan, tell);
        }
        // Also after the last step of a way: nobody may come to rest with routes from before.
        if !now.0.is_multiple_of(Span::SECOND.0) {
            self.full = Time((now.0 / Span::SECOND.0 + 1) * Span::SECOND.0);
            return None;
        }
        let stale = core::mem::take(&mut self.stale);
        stale.then(|| {
            let mut links = routing::links(plan, &self.routing, &mut self.curves);
            links.retain(|l| !self.cut.contains(&(l.from.min(l.to), l.from.max(l.to))));
            links
        })
    }

    fn cut(&mut self, (a, b): (u16, u16), plan: &mut Plan, tell: &mut dyn FnMut(Change)) {
        self.cut.insert((a, b));
        tell(Change::Cut(a, b));
        for (from, to) in [(a, b), (b, a)] {
            let row = &mut plan.gains[usize::from(from)];
            if let Ok(at) = row.binary_search_by_key(&to, |g| g.to) {
                self.behind.insert((from, to), row.remove(at));
            }
        }
    }

    fn restore(&mut self, (a, b): (u16, u16), plan: &mut Plan, tell: &mut dyn FnMut(Change)) {
        self.cut.remove(&(a, b));
        tell(Change::Restored(a, b));
        for (from, to) in [(a, b), (b, a)] {
            let Some(gain) = self.behind.remove(&(from, to)) else {
                continue;
            };
            let row = &mut plan.gains[usize::from(from)];
            // It may have become too weak meanwhile.
            if gain.mean_dbm >= plan.nodes[usize::from(to)].radio.noise_dbm - FLOOR_DB
                && let Err(at) = row.binary_search_by_key(&to, |g| g.to)
            {
                tell(Change::Gain(from, to, gain.mean_dbm));
                row.insert(at, gain);
            }
        }
    }

    /// A direction has this mean power, dBm, or would have if it were not cut.
    fn set_gain(
        &mut self,
        plan: &mut Plan,
        (from, to, mean_dbm): (u16, u16, f64),
        tell: &mut dyn FnMut(Change),
    ) {
        if self.cut.contains(&(from.min(to), from.max(to))) {
            let fresh = || plan.variation.gain(from, to, mean_dbm);
            let gain = self.behind.entry((from, to)).or_insert_with(fresh);
            gain.mean_dbm = mean_dbm;
        } else if set_gain(plan, from, to, mean_dbm) {
            tell(Change::Gain(from, to, mean_dbm));
        }
    }

    /// Put nodes where their paths have them now, and make links as strong as that makes them.
    fn walk(&mut self, now: Time, plan: &mut Plan, tell: &mut dyn FnMut(Change)) {
        let moved = self.places(now, plan);
        let Some(geometry) = plan.geometry.clone() else {
            return;
        };
        self.stale |= !moved.is_empty();
        for &node in &moved {
            let Some(here) = plan.nodes[usize::from(node)].position else {
                continue;
            };
            tell(Change::Place(node, here));
            if plan.nodes[usize::from(node)].wired_only {
                continue;
            }
            for other in 0..plan.nodes.len() as u16 {
                let peer = &plan.nodes[usize::from(other)];
                let hears = other != node && !peer.wired_only;
                let Some(there) = peer.position.filter(|_| hears) else {
                    continue;
                };
                for (from, to, a, b) in [(node, other, here, there), (other, node, there, here)] {
                    let dbm = geometry.mean_dbm(from, to, &a, &b);
                    self.set_gain(plan, (from, to, dbm), tell);
                }
            }
        }
    }

    /// Put nodes where their paths have them now; gives those that are elsewhere than before.
    fn places(&mut self, now: Time, plan: &mut Plan) -> Vec<u16> {
        let mut moved = Vec::with_capacity(self.paths.len());
        for (node, path) in &mut self.paths {
            let place = match path {
                Path::Waypoint(walk) => Some(walk.at(now)),
                Path::Trace(rows) => along(rows, now),
            };
            let position = &mut plan.nodes[usize::from(*node)].position;
            if let (Some([x, y]), Some(old)) = (place, position.as_mut())
                && (old[0], old[1]) != (x, y)
            {
                (old[0], old[1]) = (x, y);
                moved.push(*node);
            }
        }
        moved
    }
}

/// Change a plan's mean power of one direction. True if it is, or was, worth mentioning.
fn set_gain(plan: &mut Plan, from: u16, to: u16, mean_dbm: f64) -> bool {
    let floor = plan.nodes[usize::from(to)].radio.noise_dbm - FLOOR_DB;
    let row = &mut plan.gains[usize::from(from)];
    match row.binary_search_by_key(&to, |g| g.to) {
        Ok(at) if mean_dbm < floor => {
            row.remove(at);
            true
        }
        Ok(at) => {
            row[at].mean_dbm = mean_dbm;
            true
        }
        Err(_) if mean_dbm < floor => false,
        Err(at) => {
            let gain = plan.variation.gain(from, to, mean_dbm);
            plan.gains[usize::from(from)].insert(at, gain);
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(seed: u64) -> Waypoint {
        Waypoint {
            area: [0.0, 0.0, 100.0, 50.0],
            speed: [1.0, 2.0],
            pause: Span::SECOND * 3,
            rng: Rng::new(seed),
            from: [10.0, 10.0],
            to: [10.0, 10.0],
            leaves: Time::ZERO,
            arrives: Time::ZERO,
        }
    }

    #[test]
    fn a_walk_stays_in_its_area_and_within_its_speeds() {
        let mut w = walk(1);
        let mut last = w.at(Time::ZERO);
        assert_eq!(last, [10.0, 10.0]);
        let (mut rests, mut moves) = (0, 0);
        for k in 1..20_000u64 {
            let here = w.at(Time::ZERO + TICK * k);
            assert!((0.0..=100.0).contains(&here[0]) && (0.0..=50.0).contains(&here[1]));
            let (dx, dy) = (here[0] - last[0], here[1] - last[1]);
            let way = (dx * dx + dy * dy).sqrt();
            assert!(way <= 0.2 + 1e-9, "{way} m in 0.1 s");
            if way == 0.0 {
                rests += 1;
            } else {
                moves += 1;
            }
            last = here;
        }
        assert!(rests > 500 && moves > 5_000, "{rests} {moves}");
    }

    #[test]
    fn a_trace_is_followed_on_straight_lines() {
        let s = |n: u64| Time(n * 1_000_000_000);
        let rows = [(s(1), 0.0, 0.0), (s(3), 10.0, 4.0), (s(4), 10.0, 0.0)];
        assert_eq!(along(&rows, s(0)), Some([0.0, 0.0]));
        assert_eq!(along(&rows, s(2)), Some([5.0, 2.0]));
        assert_eq!(along(&rows, s(9)), Some([10.0, 0.0]));
        assert_eq!(along(&[], s(9)), None);
    }
}
