//! Nodes that move: waypoints and traces. Every 0.1 s positions and mean powers are computed anew,
//! every second the routes.

use super::clock::Clock;
use super::daemon::Daemon;
use super::events::{Class, What};
use super::forward::Forwarding;
use crate::routing;
use crate::scenario::{MobilitySpec, RoutingSpec, ScenarioError};
use wifu_radio::etx::Curves;
use wifu_radio::plan::Plan;
use wifu_wire::{Rng, Span, Time};

/// Between two positions: at 10 m/s a node moves a metre.
const TICK: Span = Span(100_000_000);
/// Routes follow every so many ticks.
const ROUTES_EVERY: u64 = 10;
/// A link this much below noise carries nothing and disturbs nobody (as in the plan).
const FLOOR_DB: f64 = 20.0;

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

/// All nodes that move.
pub(crate) struct Motion {
    paths: Vec<(u16, Path)>,
    /// What routes are computed from links by.
    routing: RoutingSpec,
    curves: Curves,
    ticks: u64,
    /// Nodes moved since routes were computed.
    stale: bool,
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

impl Motion {
    /// The movements that a scenario asks for; none if it asks for none.
    ///
    /// # Errors
    /// Names of no node; a topology whose nodes have no positions.
    pub(crate) fn new(
        specs: &[MobilitySpec],
        routing: &RoutingSpec,
        plan: &Plan,
        rng: &Rng,
    ) -> Result<Option<Motion>, ScenarioError> {
        if specs.is_empty() {
            return Ok(None);
        }
        if plan.geometry.is_none() || plan.nodes.iter().all(|n| n.position.is_none()) {
            let what = "nodes move only where positions decide who hears whom, and this topology \
                        states signal-to-noise ratios";
            return Err(ScenarioError::key("mobility", what));
        }
        let mut paths = Vec::new();
        for (i, spec) in specs.iter().enumerate() {
            match spec {
                MobilitySpec::Waypoint {
                    nodes,
                    area,
                    speed,
                    pause,
                } => {
                    let at = format!("mobility[{i}].nodes");
                    let named = nodes.iter().map(|n| routing::index(plan, n, &at));
                    let mut chosen = named.collect::<Result<Vec<u16>, _>>()?;
                    if nodes.is_empty() {
                        chosen = (0..plan.nodes.len() as u16).collect();
                    }
                    for node in chosen {
                        let place = plan.nodes[usize::from(node)].position.unwrap_or_default();
                        let here = [place[0], place[1]];
                        let walk = Waypoint {
                            area: *area,
                            speed: *speed,
                            pause: pause.0,
                            rng: rng
                                .split("placement")
                                .split("walk")
                                .split_n(u64::from(node)),
                            from: here,
                            to: here,
                            leaves: Time::ZERO,
                            arrives: Time::ZERO,
                        };
                        paths.push((node, Path::Waypoint(walk)));
                    }
                }
                MobilitySpec::Trace { rows } => {
                    let mut by_node = std::collections::BTreeMap::<u16, Vec<_>>::new();
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
        Ok(Some(Motion {
            paths,
            routing: routing.clone(),
            curves: Curves::default(),
            ticks: 0,
            stale: false,
        }))
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

impl Motion {
    /// Nodes are where their paths have them now, and links are as strong as that makes them.
    pub(crate) fn step(
        &mut self,
        clock: &mut Clock,
        plan: &mut Plan,
        net: &mut Forwarding,
        daemon: Option<&mut Daemon>,
    ) {
        clock.push(clock.now + TICK, Class::World, What::Move);
        let moved = self.walk(clock.now, plan);
        let Some(geometry) = plan.geometry.clone() else {
            return;
        };
        self.stale |= !moved.is_empty();
        for &node in &moved {
            let Some(here) = plan.nodes[usize::from(node)].position else {
                continue;
            };
            for other in 0..plan.nodes.len() as u16 {
                let place = plan.nodes[usize::from(other)].position;
                let Some(there) = place.filter(|_| other != node) else {
                    continue;
                };
                for (from, to, a, b) in [(node, other, here, there), (other, node, there, here)] {
                    let dbm = geometry.mean_dbm(from, to, &a, &b);
                    if set_gain(plan, from, to, dbm) {
                        net.air.set_gain(from, to, dbm);
                    }
                }
            }
        }
        // Also after the last step of a way: nobody may come to rest with routes from before.
        self.ticks += 1;
        if self.ticks % ROUTES_EVERY == 1 && core::mem::take(&mut self.stale) {
            let links = routing::links(plan, &self.routing, &mut self.curves);
            match daemon {
                Some(daemon) => {
                    daemon.relink(&links, clock.now);
                    daemon.reroute(net);
                }
                None => net.lay_routes(&links),
            }
        }
    }

    /// Put nodes where their paths have them now; gives those that are elsewhere than before.
    fn walk(&mut self, now: Time, plan: &mut Plan) -> Vec<u16> {
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
