//! The mesh simulator: nodes with endpoints, IP forwarding, radios and wires in virtual time.
//!
//! ```no_run
//! # fn open(name: &str) -> Result<std::sync::Arc<wifu_engine::Blueprint>, String> { todo(name) }
//! # fn todo(_: &str) -> Result<std::sync::Arc<wifu_engine::Blueprint>, String> { Err("".into()) }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use wifu_sim::{mesh::Simulation, scenario::Scenario};
//! let scenario = Scenario::from_toml(r#"
//!     [topology]
//!     words = "linear,7"
//!     set = "TB-A"
//!     [[flow]]
//!     from = "n1"
//!     to = "n7"
//!     protocol = "tcp-newreno"
//!     app = "file"
//!     bytes = "2M"
//! "#)?;
//! let mut simulation = Simulation::new(&scenario, &open)?;
//! simulation.run();
//! println!("{}", simulation.outcome().flows[0].goodput_bps);
//! # Ok(())
//! # }
//! ```

mod address;
mod air;
mod at_start;
mod build;
mod clock;
mod course;
mod daemon;
mod ends;
mod events;
mod flood;
mod flow;
mod flows;
mod forward;
mod hops;
mod nodes;
mod passage;
mod pattern;
mod pool;
mod record;
mod report;
mod routes;
mod sent;
mod split;
mod steps;
mod stop;
mod tap;
mod told;
mod udp;
mod waits;
mod ways;
mod whose;
mod wire;

pub use at_start::routes_at_start;
pub(crate) use build::plan;
pub use build::{Open, topology};
pub use stop::{EndReason, Progress};
pub use tap::{RadioFacts, Seen, Tap};
pub use waits::Wait;

use crate::outcome::Outcome;
use crate::scenario::{Scenario, ScenarioError};
use crate::world::World;
use clock::Clock;
use daemon::Daemon;
use events::{Class, What};
use flows::Flows;
use forward::Forwarding;
use nodes::Nodes;
use waits::Waits;
use wifu_core::{Chain, Hooks};
use wifu_node::Lost;
use wifu_radio::plan::Plan;
use wifu_wire::Time;

/// A mesh in virtual time. The same scenario gives the same events in the same order.
///
/// It conducts: what carries packets (`Forwarding`), what runs on nodes (`Nodes`) and what is
/// known of flows (`Flows`) do not call each other; each is given what it needs, and says what
/// follows from it.
pub struct Simulation {
    scenario: Scenario,
    plan: Plan,
    clock: Clock,
    net: Forwarding,
    nodes: Nodes,
    flows: Flows,
    daemon: Option<Daemon>,
    world: Option<World>,
    /// Of whoever asks for them.
    waits: Option<Waits>,
    counted: u64,
}

impl Simulation {
    /// The simulation of a scenario; `open` knows the protocols.
    ///
    /// # Errors
    /// The path of the first wrong key and what is wrong with it.
    pub fn new(scenario: &Scenario, open: Open<'_>) -> Result<Simulation, ScenarioError> {
        build::scenario(scenario, open, true)
    }

    /// Whether a scenario means something for hosts that send more than it says: handlers may be
    /// for that.
    ///
    /// # Errors
    /// The path of the first wrong key and what is wrong with it.
    pub fn check_among_others(scenario: &Scenario, open: Open<'_>) -> Result<(), ScenarioError> {
        build::scenario(scenario, open, false).map(drop)
    }

    /// The same over a plan that the caller made; the scenario's topology and radio keys are not
    /// looked at.
    ///
    /// # Errors
    /// The path of the first wrong key and what is wrong with it.
    pub fn from_plan(
        scenario: &Scenario,
        plan: Plan,
        open: Open<'_>,
    ) -> Result<Simulation, ScenarioError> {
        build::over(scenario, plan, &[], (open, true))
    }

    /// Show packets to `tap` from now on.
    pub fn set_tap(&mut self, tap: Box<dyn Tap>) {
        self.net.set_tap(Some(tap), self.scenario.record.frames);
    }

    /// Let go of the tap.
    pub fn take_tap(&mut self) -> Option<Box<dyn Tap>> {
        self.net.set_tap(None, self.scenario.record.frames)
    }

    /// Put a chain of handlers at a node, in place of the one before.
    ///
    /// # Panics
    /// If there is no node of that number.
    pub fn set_chain(&mut self, node: u16, chain: Chain) {
        let watches = chain.hooks().and(Hooks::WIRED) != Hooks::NONE;
        self.nodes.all[usize::from(node)].set_chain(chain);
        for wire in self.net.wires.iter_mut().filter(|w| w.from == node) {
            wire.watched = watches;
        }
        self.listen(node);
    }

    /// Its radio reports what it overhears if anything at the node wants to know.
    fn listen(&mut self, node: u16) {
        let listens = self.nodes.all[usize::from(node)].mask().listens();
        self.net.air.listen(&self.plan, node, listens);
    }

    /// What handlers wrote since the last call, with the numbers of their nodes.
    pub fn take_lines(&mut self) -> Vec<(u16, String)> {
        core::mem::take(&mut self.nodes.lines)
    }

    /// Simulated time so far.
    pub fn now(&self) -> Time {
        self.clock.now
    }

    /// What the simulation runs on: names, positions, radios.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The records of frames' fates since the last call (`record.frames`).
    pub fn take_frames(&mut self) -> Vec<wifu_radio::trace::Record> {
        self.net.air.take_trace()
    }

    /// Look at when senders wait for retransmission timeouts: to be said before the first step.
    pub fn watch_waits(&mut self) {
        self.waits = Some(Waits::new(&self.flows, self.nodes.all.len()));
    }

    /// The waits that ended since the last call ([`Simulation::watch_waits`]).
    pub fn take_waits(&mut self) -> Vec<Wait> {
        self.waits.as_mut().map_or(Vec::new(), Waits::take)
    }

    /// The same, and what of waits that are under way is over now: for the end of a run.
    pub fn take_all_waits(&mut self) -> Vec<Wait> {
        if let Some(waits) = &mut self.waits {
            waits.end(self.clock.now, (&self.flows, &self.nodes, &self.net.hops));
        }
        self.take_waits()
    }

    /// How many things happened so far.
    pub fn events(&self) -> u64 {
        self.counted
    }

    /// The route of a flow now: the nodes on the way, both ends included; empty if there is none.
    pub fn route(&self, from: u16, to: u16) -> Vec<u16> {
        self.net.path(from, to)
    }

    /// How far the run is.
    pub fn progress(&self) -> Progress {
        self.flows.progress(self.clock.now)
    }

    /// What was found so far. Numbers of open connections are included;
    /// series are handed over, so that a second call has only what came after the first.
    pub fn outcome(&mut self) -> Outcome {
        report::outcome(self)
    }
}

/// Time goes on: what is due next, on the air or off it, and whom it concerns.
impl Simulation {
    /// Run to the end.
    pub fn run(&mut self) -> EndReason {
        self.step_until(Time::NEVER);
        self.flows.stop.ended.unwrap_or(EndReason::Idle)
    }

    /// Run until `time`; true if the run ended before. So a caller can show progress and be
    /// interrupted.
    pub fn step_until(&mut self, time: Time) -> bool {
        let limit = time.min(self.flows.stop.time);
        while self.flows.stop.ended.is_none() {
            let (radio, own) = (self.net.air.next(), self.clock.events.next_at());
            let at = radio.min(own);
            if at > limit {
                self.pass_to(limit, at == Time::NEVER || self.is_idle());
                break;
            }
            if radio <= own {
                let (now, moments) = self.net.air.run_until(own.min(limit));
                self.clock.now = now;
                self.counted += moments;
            } else if self.is_idle() {
                self.pass_to(limit, true);
            } else if let Some((_, what)) = self.clock.events.pop() {
                self.clock.now = at;
                self.net.air.pass_to(at);
                self.happen(what);
            }
            self.drain_air();
        }
        self.flows.stop.ended.is_some()
    }

    /// Nothing will happen any more, in a run that ends then, but that somebody looks at it.
    fn is_idle(&self) -> bool {
        let looks = self.clock.events.are_only(What::Sample);
        looks && !self.flows.stop.timed && self.net.air.next() == Time::NEVER
    }

    /// Nothing happens until `limit`, or never again.
    fn pass_to(&mut self, limit: Time, never: bool) {
        let stop = &mut self.flows.stop;
        if never && !stop.timed {
            stop.ended = Some(EndReason::Idle);
            return;
        }
        if limit == stop.time {
            stop.ended = Some(EndReason::Time);
        }
        self.clock.now = self.clock.now.max(limit);
        self.net.air.pass_to(self.clock.now);
    }

    fn happen(&mut self, what: What) {
        self.counted += u64::from(what != What::Sample);
        let (clock, net) = (&mut self.clock, &mut self.net);
        match what {
            What::Arrive(wire) => match net.wire_arrival(clock, wire) {
                Some(Ok((id, from, heard))) => {
                    let rate = net.wires[wire as usize].rate();
                    if heard {
                        self.overhear_wire(id, wire);
                    }
                    self.arrive(id, ways::Came::Wire(from, wire, rate));
                }
                Some(Err(lost)) => self.lose(lost, Lost::Wire),
                None => {}
            },
            What::Leave(wire) => {
                for (id, why) in net.wire_free(clock, wire) {
                    self.lose(id, why);
                }
            }
            What::Forward(packet) => self.relayed(packet),
            What::Wake(host) => {
                if let Some(node) = self.nodes.wakes(clock.now, host) {
                    self.wake(node);
                    if let Some(waits) = &mut self.waits {
                        let of = (&self.flows, &self.nodes, &self.net.hops);
                        waits.look(self.clock.now, node, of);
                    }
                }
            }
            What::App(flow) => self.app_step(flow),
            What::Hello(node) => {
                if let Some(daemon) = &mut self.daemon {
                    daemon.hello(clock, net, node as u16);
                }
            }
            What::Control(node) => {
                if let Some(daemon) = &mut self.daemon {
                    daemon.topology_control(clock, net, node as u16);
                }
            }
            What::Relay(packet) => net.broadcast(clock.now, packet),
            What::Move => self.change(),
            What::Restart(node) => self.restart(node as u16),
            What::Sample => self.flows.sample(clock, &self.nodes, net),
        }
        if core::mem::take(&mut self.net.laid) {
            self.reroute();
        }
    }

    /// Nodes move, links are cut or restored, and routes follow.
    fn change(&mut self) {
        let Some(world) = &mut self.world else {
            return;
        };
        let (now, net) = (self.clock.now, &mut self.net);
        let links = world.step(now, &mut self.plan, &mut |change| net.change(change));
        let next = world.next();
        if next != Time::NEVER {
            self.clock.push(next, Class::World, What::Move);
        }
        match (links, &mut self.daemon) {
            (None, _) => {}
            (Some(links), Some(daemon)) => {
                daemon.relink(&links, now);
                daemon.reroute(net);
            }
            (Some(links), None) => net.lay_routes(&links),
        }
    }
}
