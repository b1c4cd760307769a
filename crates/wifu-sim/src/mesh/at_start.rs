//! Routes as they are when a run begins, for those who do not run it.

use super::build::plan;
use super::routes::Routes;
use crate::routing;
use crate::scenario::{Scenario, ScenarioError};
use crate::tables::Fixed;
use wifu_radio::etx::Curves;

/// The routes of a scenario when it begins: of each pair of names the nodes on the way from the one
/// to the other, both included; empty if there is none.
///
/// # Errors
/// The path of the first key of its topology or routing that is wrong, or a name of no node.
pub fn routes_at_start(
    scenario: &Scenario,
    ends: &[(String, String)],
) -> Result<Vec<Vec<String>>, ScenarioError> {
    let (plan, rows) = plan(scenario)?;
    let number = |name: &str| routing::index(&plan, name, "flow");
    let pairs = ends
        .iter()
        .map(|(from, to)| Ok((number(from)?, number(to)?)));
    let pairs = pairs.collect::<Result<Vec<_>, ScenarioError>>()?;
    let fixed = Fixed::new(&scenario.routing, &plan, &rows)?;
    let ends: Vec<_> = pairs.iter().map(|&(from, to)| (from, to, false)).collect();
    let mut routes = Routes::new(plan.nodes.len(), &ends, fixed);
    let mut curves = Curves::default();
    routes.lay(&routing::links(&plan, &scenario.routing, &mut curves));
    let leads = |direction: u32| {
        let wire = &plan.wires[direction as usize / 2];
        if direction.is_multiple_of(2) {
            wire.b
        } else {
            wire.a
        }
    };
    let name = |node: u16| plan.nodes[usize::from(node)].name.clone();
    let paths = pairs.iter().map(|&(from, to)| routes.path(from, to, leads));
    Ok(paths
        .map(|path| path.into_iter().map(name).collect())
        .collect())
}
