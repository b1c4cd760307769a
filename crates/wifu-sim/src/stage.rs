//! What a scenario's flows meet, without the flows: nodes, links, routes, and what changes of them.
//! For substrates that have radios and hosts of their own, such as the emulation.

use crate::mesh;
use crate::routing::{self, Via};
use crate::scenario::{Scenario, ScenarioError};
use crate::tables::{Fixed, Tables};
use crate::world::{Change, World};
use wifu_radio::etx::Curves;
use wifu_radio::plan::Plan;
use wifu_wire::Time;

/// The neighbour to which each node hands packets for each other: `[from][to]`, none without a
/// route.
pub type NextHops = Vec<Vec<Option<u16>>>;

/// Nodes and links of a scenario, where they are and what they are like at each time.
pub struct Stage {
    plan: Plan,
    world: Option<World>,
    tables: Tables,
}

impl Stage {
    /// As the scenario begins. Its flows and handlers are not looked at.
    ///
    /// # Errors
    /// The path of the first wrong key and what is wrong with it; wires, which have no next hops
    /// by radio.
    pub fn new(scenario: &Scenario) -> Result<Stage, ScenarioError> {
        scenario.check()?;
        let (plan, rows) = mesh::plan(scenario)?;
        if !plan.wires.is_empty() {
            let what = "wires are not emulated";
            return Err(ScenarioError::key("topology.wire", what));
        }
        let all: Vec<u16> = (0..plan.nodes.len() as u16).collect();
        let fixed = Fixed::new(&scenario.routing, &plan, &rows)?;
        let mut tables = Tables::new(all.len(), &all, fixed);
        let links = routing::links(&plan, &scenario.routing, &mut Curves::default());
        tables.lay(&links);
        let world = World::new(scenario, &plan)?;
        Ok(Stage {
            plan,
            world,
            tables,
        })
    }

    /// What everything is like now.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The routes now, from and to all nodes.
    pub fn next_hops(&self) -> NextHops {
        let all = 0..self.plan.nodes.len() as u16;
        let row = |from: u16| {
            let next = |to: u16| match self.tables.via(from, to) {
                Via::Radio(next) if from != to => Some(next),
                _ => None,
            };
            all.clone().map(next).collect()
        };
        all.clone().map(row).collect()
    }

    /// When something changes next; [`Time::NEVER`] if nothing does any more.
    pub fn next(&self) -> Time {
        self.world.as_ref().map_or(Time::NEVER, World::next)
    }

    /// Let happen what is due at `now`, which is no later than [`Stage::next`] says, and `tell`
    /// what changed. True if routes were laid anew, as the simulator does at that time.
    pub fn step(&mut self, now: Time, tell: &mut dyn FnMut(Change)) -> bool {
        let world = self.world.as_mut();
        let links = world.and_then(|w| w.step(now, &mut self.plan, tell));
        if let Some(links) = &links {
            self.tables.lay(links);
        }
        links.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(more: &str) -> Stage {
        let text = format!(
            "[topology.placement]\nkind = \"line\"\ncount = 3\nspacing_m = 60.0\n\
             [topology.propagation]\nanchor = {{ snr_db = 12.0, distance_m = 60.0 }}\n\
             [routing]\nkind = \"shortest\"\n{more}"
        );
        Stage::new(&Scenario::from_toml(&text).unwrap()).unwrap()
    }

    /// When, seconds, and what.
    type Timed<T> = Vec<(f64, T)>;

    /// Everything until `end`, seconds.
    fn play(stage: &mut Stage, end: f64) -> (Timed<Change>, Timed<NextHops>) {
        let (mut changes, mut routes) = (Vec::new(), Vec::new());
        while stage.next().as_secs_f64() <= end {
            let now = stage.next();
            if stage.step(now, &mut |c| changes.push((now.as_secs_f64(), c))) {
                routes.push((now.as_secs_f64(), stage.next_hops()));
            }
        }
        (changes, routes)
    }

    #[test]
    fn a_cut_is_what_it_was_once_it_is_restored_and_routes_follow_at_full_seconds() {
        let mut stage = stage(
            "[[event]]\nat = 1.5\ncut = [\"n2\", \"n1\"]\n\
             [[event]]\nat = 4\nrestore = [\"n1\", \"n2\"]\n",
        );
        let before = stage.plan().gain(0, 1).unwrap().mean_dbm;
        let first = stage.next_hops();
        assert_eq!(first[0][2], Some(1), "over the relay");
        let (changes, routes) = play(&mut stage, 60.0);
        assert_eq!(
            changes,
            [
                (1.5, Change::Cut(0, 1)),
                (4.0, Change::Restored(0, 1)),
                (4.0, Change::Gain(0, 1, before)),
                (4.0, Change::Gain(1, 0, before)),
            ]
        );
        assert_eq!(
            routes.iter().map(|r| r.0).collect::<Vec<_>>(),
            [2.0, 4.0],
            "a cut between full seconds is noticed at the next"
        );
        assert_eq!(routes[0].1[0], [None, None, None], "nobody is reached");
        assert_eq!(routes[1].1, first);
        assert_eq!(stage.next(), Time::NEVER);
    }

    #[test]
    fn a_node_that_walks_away_behind_a_cut_is_not_heard_when_it_is_restored() {
        let mut stage = stage(
            "[[event]]\nat = 1\ncut = [\"n2\", \"n3\"]\n\
             [[event]]\nat = 5\nrestore = [\"n2\", \"n3\"]\n\
             [[mobility]]\nkind = \"trace\"\nrows = [[2, \"n3\", 120, 0], [3, \"n3\", 120, 9000]]\n",
        );
        let (changes, routes) = play(&mut stage, 6.0);
        let heard = |c: &Change| matches!(c, Change::Gain(1, 2, _) | Change::Gain(2, 1, _));
        assert!(
            !changes.iter().any(|(t, c)| *t > 1.0 && heard(c)),
            "{changes:?}"
        );
        let placed = changes
            .iter()
            .filter(|(_, c)| matches!(c, Change::Place(2, _)));
        assert_eq!(placed.count(), 10, "every 0.1 s between 2 and 3 s");
        let last = &routes.last().unwrap().1;
        assert_eq!((last[0][2], last[0][1]), (None, Some(1)));
    }

    #[test]
    fn what_cannot_be_cut_is_refused_by_name() {
        let wrong = |more: &str| {
            let text = format!("topology.words = \"linear,3\"\n{more}");
            let scenario = Scenario::from_toml(&text);
            let made = scenario.and_then(|s| Stage::new(&s));
            made.err().map(|e| e.to_string()).unwrap_or_default()
        };
        let cut = |pair: &str| wrong(&format!("[[event]]\nat = 1\ncut = {pair}"));
        assert!(cut("[\"n1\", \"n4\"]").starts_with("event.1.cut: no node `n4`"));
        assert!(cut("[\"n1\", \"n1\"]").contains("nothing passes from n1 to n1 anyhow"));
        assert!(cut("[\"n1\"]").starts_with("event.1.cut: "), "one name");
        assert!(wrong("[[event]]\nat = 1").starts_with("event.1: write one of cut"));
        let restore = wrong("[[event]]\nat = 1\nrestore = [\"n1\", \"n2\"]");
        assert_eq!(restore, "event.1.restore: this link is not cut by then");
        let wires = wrong("topology.words = \"linear,3,wire=1M\"");
        assert!(!wires.is_empty());
    }
}
