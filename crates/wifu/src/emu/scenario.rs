//! `wifu emu --scenario`: nodes, links, routes, movement and cuts of a scenario, by the code that
//! the simulator runs.

use std::path::Path;

use anyhow::bail;
use toml::Table;
use wifu_linux::emu::{Change, Script};
use wifu_sim::scenario::{HostProfile, HostSpec, RoutingKind, Scenario};
use wifu_sim::stage::Stage;
use wifu_sim::world;
use wifu_wire::Time;

/// The scenario of a file, with these keys of the radio and this rule for routes laid over it.
///
/// # Errors
/// The key that is wrong, or that means nothing here.
pub fn read(path: &Path, radio: Table, kind: Option<RoutingKind>) -> anyhow::Result<Scenario> {
    let mut scenario = crate::sim::scenario_of(path)?;
    for (key, value) in radio {
        let value = serde_json::to_value(value)?;
        scenario.radio.insert(key, value);
    }
    scenario.routing.kind = kind.unwrap_or(scenario.routing.kind);
    check(&scenario, path)?;
    Ok(scenario)
}

/// Refuses what cannot act here, and tells what is left to programs.
fn check(scenario: &Scenario, path: &Path) -> anyhow::Result<()> {
    let at = path.display();
    if scenario.routing.olsr.is_some() {
        bail!("{at}: routing.olsr: runs in the simulator only; here, start a routing daemon");
    }
    let host = HostSpec {
        profile: None,
        ..scenario.host.clone()
    };
    if host != HostSpec::default() {
        bail!(
            "{at}: host: hosts are this machine's kernels; these keys are of the simulator, but for \
             profile"
        );
    }
    let unused = [
        ("flow", scenario.flow.is_empty()),
        ("handler", scenario.handler.is_empty()),
    ];
    for (key, _) in unused.iter().filter(|(_, empty)| !empty) {
        eprintln!("Note: {at}: {key} is not run: start programs on the hosts instead");
    }
    Ok(())
}

/// What packets cost the daemons' hosts, if there are `daemons`: as the scenario says, else as the
/// topology does.
///
/// # Errors
/// The scenario asks for it, and there are no daemons.
pub fn host(
    topology: HostProfile,
    scenario: Option<HostProfile>,
    daemons: bool,
) -> anyhow::Result<HostProfile> {
    let meant = scenario.unwrap_or(topology);
    if meant == HostProfile::Off || daemons {
        return Ok(meant);
    }
    let who = "acts in daemons, which --serve starts, never in kernels: start your own on the \
               hosts with `wifu daemon --host-profile py`";
    if scenario.is_some() {
        bail!(
            "host.profile = \"{}\": {who}, and leave the key out",
            meant.name()
        );
    }
    eprintln!("Note: host.profile = \"{}\": {who}", meant.name());
    Ok(HostProfile::Off)
}

/// What moves and is cut as the simulator has it.
pub struct Scene {
    stage: Stage,
    /// Routes are left to daemons.
    unrouted: bool,
}

impl Scene {
    /// Of a scenario; `unrouted`: without routes.
    pub fn new(stage: Stage, unrouted: bool) -> Scene {
        Scene { stage, unrouted }
    }
}

impl Script for Scene {
    fn next(&self) -> Time {
        self.stage.next()
    }

    fn step(&mut self, now: Time, tell: &mut dyn FnMut(Change)) {
        let routed = self.stage.step(now, &mut |change| {
            tell(match change {
                world::Change::Place(node, at) => Change::Place(node, at),
                world::Change::Gain(from, to, dbm) => Change::Gain(from, to, dbm),
                world::Change::Cut(a, b) => Change::Cut(a, b),
                world::Change::Restored(a, b) => Change::Restored(a, b),
            });
        });
        if routed && !self.unrouted {
            tell(Change::Routes(self.stage.next_hops()));
        }
    }
}
