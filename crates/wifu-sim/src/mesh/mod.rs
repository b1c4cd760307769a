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

mod air;
mod app;
mod build;
mod daemon;
mod events;
mod flood;
mod flow;
mod forward;
mod hop;
mod host;
mod motion;
mod pattern;
mod pool;
mod record;
mod report;
mod step;
mod stop;
mod tap;
mod udp;
mod wire;

pub use build::{Open, topology};
pub use stop::{EndReason, Progress};
pub use tap::{RadioFacts, Seen, Tap};

use crate::routing::Table;
use crate::scenario::Scenario;
use air::Air;
use build::Fixed;
use daemon::Daemon;
use events::Events;
use flow::Flow;
use forward::HopSums;
use hop::Handlers;
use host::Host;
use motion::Motion;
use pool::Pool;
use record::{Hash, Recorder};
use stop::Stop;
use wifu_core::Chain;
use wifu_radio::plan::Plan;
use wifu_wire::{Span, Time};
use wire::Wire;

/// No host, no wire.
const NONE: u32 = u32::MAX;

/// What a node is apart from its radio and its endpoint.
struct Node {
    /// Number of its host, or [`NONE`].
    host: u32,
    forwarded: u64,
    /// When its chain's next event is due.
    chain_at: Time,
}

/// A mesh in virtual time. The same scenario gives the same events in the same order.
pub struct Simulation {
    scenario: Scenario,
    plan: Plan,
    now: Time,
    events: Events,
    pool: Pool,
    air: Air,
    wires: Vec<Wire>,
    table: Table,
    fixed: Fixed,
    nodes: Vec<Node>,
    hosts: Vec<Host>,
    flows: Vec<Flow>,
    /// Per flow and direction, per hop.
    hops: Vec<[Vec<HopSums>; 2]>,
    fwd_cost: Span,
    daemon: Option<Daemon>,
    motion: Option<Motion>,
    stop: Stop,
    rec: Recorder,
    hash: Hash,
    counted: u64,
    tap: Option<Box<dyn Tap>>,
    aired: bool,
    handlers: Handlers,
}

impl Simulation {
    /// Show packets to `tap` from now on.
    pub fn set_tap(&mut self, tap: Box<dyn Tap>) {
        self.aired = tap.wants_air();
        self.tap = Some(tap);
        self.air.watch(self.scenario.record.frames, self.aired);
    }

    /// Let go of the tap.
    pub fn take_tap(&mut self) -> Option<Box<dyn Tap>> {
        self.aired = false;
        self.air.watch(self.scenario.record.frames, false);
        self.tap.take()
    }

    /// Put a chain of handlers at a node, in place of the one before.
    ///
    /// # Panics
    /// If there is no node of that number.
    pub fn set_chain(&mut self, node: u16, chain: Chain) {
        self.air.listen(&self.plan, node);
        self.handlers.insert(node, chain);
    }

    /// What handlers wrote since the last call, with the numbers of their nodes.
    pub fn take_lines(&mut self) -> Vec<(u16, String)> {
        self.handlers.take_lines()
    }

    /// Simulated time so far.
    pub fn now(&self) -> Time {
        self.now
    }

    /// What the simulation runs on: names, positions, radios.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The records of frames' fates since the last call (`record.frames`).
    pub fn take_frames(&mut self) -> Vec<wifu_radio::trace::Record> {
        self.air.take_trace()
    }

    /// How many things happened so far.
    pub fn events(&self) -> u64 {
        self.counted
    }

    /// The route of a flow now: the nodes on the way, both ends included; empty if there is none.
    pub fn route(&self, from: u16, to: u16) -> Vec<u16> {
        self.table.path(from, to, &self.wires_to())
    }

    fn wires_to(&self) -> Vec<u16> {
        self.wires.iter().map(|w| w.to).collect()
    }
}
