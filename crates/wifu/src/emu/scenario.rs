//! `wifu emu --scenario`: nodes, links, routes, movement and cuts of a scenario, by the code that
//! the simulator runs.

use std::path::Path;

use anyhow::bail;
use toml::Table;
use wifu_linux::emu::{Change, Script};
use wifu_node::Scheduler;
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
    if scenario.host.queue.is_some() {
        bail!(
            "{at}: host.queue: runs in the simulator only; here packets wait in the kernels' queues, \
             whose discipline `tc qdisc` sets on the hosts, and then in the radio's, which is \
             drop-tail"
        );
    }
    if !scenario.split.is_empty() {
        bail!("{at}: split: runs in the simulator only: no daemon splits connections");
    }
    let host = HostSpec {
        profile: None,
        lanes: Scheduler::default(),
        ..scenario.host.clone()
    };
    if host != HostSpec::default() {
        bail!(
            "{at}: host: hosts are this machine's kernels; these keys are of the simulator, but for \
             profile and lanes"
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

/// What daemons make of a host.
#[derive(Clone, Copy, Debug)]
pub struct HostKeys {
    /// What packets cost it where they begin and end.
    pub profile: HostProfile,
    /// How lanes share its links.
    pub lanes: Scheduler,
}

/// What the daemons, if there are some, make of their hosts: as the scenario says, and where it is
/// silent on the profile as the topology does.
///
/// # Errors
/// The scenario asks for it, and there are no daemons.
pub fn host(topology: HostProfile, scenario: &HostSpec, daemons: bool) -> anyhow::Result<HostKeys> {
    let meant = scenario.profile.unwrap_or(topology);
    let keys = |profile| HostKeys {
        profile,
        lanes: scenario.lanes,
    };
    if daemons {
        return Ok(keys(meant));
    }
    let who = "acts in daemons, which --serve starts, never in kernels: start your own on the hosts \
               with `wifu daemon";
    if scenario.lanes != Scheduler::default() {
        let name = scenario.lanes.name();
        bail!("host.lanes = \"{name}\": {who} --lanes {name}`, and leave the key out");
    }
    if meant == HostProfile::Off {
        return Ok(keys(meant));
    }
    let name = meant.name();
    let words = format!("host.profile = \"{name}\": {who} --host-profile {name}`");
    if scenario.profile.is_some() {
        bail!("{words}, and leave the key out");
    }
    eprintln!("Note: {words}");
    Ok(keys(HostProfile::Off))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_the_simulator_has_is_refused_by_its_key() {
        for (keys, said) in [
            (
                "host.queue = { kind = \"codel\" }",
                "host.queue: runs in the simulator only",
            ),
            ("host.mtu = 1400", "host: hosts are this machine's kernels"),
        ] {
            let scenario = Scenario::from_toml(keys).expect("it is a scenario");
            let error = check(&scenario, Path::new("mine.toml")).expect_err("it cannot act");
            assert!(
                error.to_string().starts_with(&format!("mine.toml: {said}")),
                "{error}"
            );
        }
    }
}
