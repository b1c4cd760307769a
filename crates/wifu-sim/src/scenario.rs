//! What a mesh simulation is told: topology, radios, routing, flows, when to stop, what to record.
//!
//! The same document comes as TOML from people and as JSON from programs. Unknown keys are errors
//! that name the key's path and the nearest valid name; nothing falls back. Quantities are text
//! with a unit (`"24Mb/s"`, `"5ms"`, `"2M"`); bare numbers mean seconds, bits per second, octets.

mod flow;
mod quantity;
mod queue;
mod read;
mod split;
mod told;
mod world;

pub use flow::{AppKind, FlowSpec};
pub use quantity::{Bps, Octets, Secs};
pub use queue::{QueueKind, QueueSpec};
pub(crate) use read::as_toml;
pub use split::SplitSpec;
pub use world::{EventSpec, MobilitySpec};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wifu_node::Scheduler;
pub use wifu_radio::plan::HostProfile;
use wifu_wire::names::counted;
use wifu_wire::{Rng, Span};

/// Why a scenario cannot be run. The message is complete without the source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// It is no TOML, no JSON.
    #[error("{0}")]
    Syntax(String),
    /// A key is wrong: its path, such as `flow.1.bytes`, and what about it.
    #[error("{path}: {what}")]
    Key {
        /// Where, as `table.key` or `array.1.key`, counted from 1.
        path: String,
        /// What is wrong with it, with the nearest valid name if it is a name.
        what: String,
    },
}

impl ScenarioError {
    /// An error at a key.
    pub fn key(path: impl Into<String>, what: impl Into<String>) -> ScenarioError {
        let path = counted(&path.into());
        let what = told::told(&path, what.into());
        ScenarioError::Key { path, what }
    }
}

/// A whole simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Master seed of every random stream.
    #[serde(default = "one")]
    pub seed: u64,
    /// Replicate: streams are split from (seed, run, purpose, ...).
    #[serde(default = "one")]
    pub run: u64,
    /// The nodes and how they hear each other.
    #[serde(default)]
    pub topology: TopologySpec,
    /// Overrides of any key of the topology's radios, by the names of the topology file.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub radio: Map<String, Value>,
    /// How packets find their way.
    #[serde(default)]
    pub routing: RoutingSpec,
    /// What every node's host does with packets.
    #[serde(default)]
    pub host: HostSpec,
    /// Who sends what to whom.
    #[serde(default)]
    pub flow: Vec<FlowSpec>,
    /// Handlers of WiFu Core that see every packet at the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handler: Vec<HandlerSpec>,
    /// Nodes that split connections which pass them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub split: Vec<SplitSpec>,
    /// Nodes that move.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mobility: Vec<MobilitySpec>,
    /// Links that are cut and restored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub event: Vec<EventSpec>,
    /// When the run ends.
    #[serde(default)]
    pub stop: StopSpec,
    /// What is written down besides the outcome.
    #[serde(default)]
    pub record: RecordSpec,
}

/// A handler at some nodes: `use = "drop"`, its parameters beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HandlerSpec {
    /// At these nodes; none named: at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Which, where, and how.
    #[serde(flatten)]
    pub config: wifu_core::HandlerConfig,
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario {
            seed: 1,
            run: 1,
            topology: TopologySpec::default(),
            radio: Map::new(),
            routing: RoutingSpec::default(),
            host: HostSpec::default(),
            flow: Vec::new(),
            handler: Vec::new(),
            split: Vec::new(),
            mobility: Vec::new(),
            event: Vec::new(),
            stop: StopSpec::default(),
            record: RecordSpec::default(),
        }
    }
}

fn one() -> u64 {
    1
}

/// Where the nodes come from: words, a named set, the content of a topology file, or a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Map<String, Value>", into = "Map<String, Value>")]
pub struct TopologySpec {
    /// In the words of Mininet: `linear,7`, `grid,3,3`, `random,20`.
    pub words: Option<String>,
    /// A testbed set by name: `TB-A`.
    pub set: Option<String>,
    /// A topology file. Nothing here reads files: the caller puts its content into `inline`.
    pub file: Option<String>,
    /// Everything else: the content of a topology file.
    pub inline: Map<String, Value>,
}

impl From<Map<String, Value>> for TopologySpec {
    fn from(mut map: Map<String, Value>) -> TopologySpec {
        let mut text = |key: &str| match map.get(key) {
            Some(Value::String(_)) => match map.remove(key) {
                Some(Value::String(s)) => Some(s),
                _ => None,
            },
            // Of another type it stays among the rest, whose reader refuses it.
            _ => None,
        };
        TopologySpec {
            words: text("words"),
            set: text("set"),
            file: text("file"),
            inline: map,
        }
    }
}

impl From<TopologySpec> for Map<String, Value> {
    fn from(spec: TopologySpec) -> Map<String, Value> {
        let mut map = spec.inline;
        let named = [
            ("words", spec.words),
            ("set", spec.set),
            ("file", spec.file),
        ];
        for (key, value) in named {
            if let Some(text) = value {
                map.insert(key.to_string(), Value::String(text));
            }
        }
        map
    }
}

/// How routes are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoutingKind {
    /// Along the rows of a topology that has rows (`linear`, `parallel`, chains of SNRs) from
    /// neighbour to neighbour, elsewhere as `etx`.
    #[default]
    Auto,
    /// As `auto`, and an error if the topology has no rows.
    Chain,
    /// As `routes` says; other destinations are unreachable.
    Static,
    /// Fewest hops over usable links; among equals the lower node number.
    Shortest,
    /// Least sum of ETX = 1/(df*dr), from the isolated loss of 1500 B packets.
    Etx,
}

/// How packets find their way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoutingSpec {
    /// The rule; `auto` if not said.
    #[serde(default)]
    pub kind: RoutingKind,
    /// With `static`, all routes; otherwise single ones that override.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteSpec>,
    /// The overhead of a routing daemon; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub olsr: Option<OlsrSpec>,
    /// A link with a greater ETX is not used at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_etx: Option<f64>,
}

/// At `from`, packets to `to` go to `via`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteSpec {
    /// The node that forwards.
    pub from: String,
    /// The destination.
    pub to: String,
    /// The neighbour.
    pub via: String,
}

/// Broadcasts as OLSR sends them (Behaviour 11.4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OlsrSpec {
    /// Between two HELLOs of a node (100 octets).
    #[serde(default = "hello")]
    pub hello: Secs,
    /// Between two TCs of a node (120 octets).
    #[serde(default = "tc")]
    pub tc: Secs,
    /// How far TCs go.
    #[serde(default)]
    pub flood: Flood,
    /// A neighbour whose last HELLOs were lost is no neighbour until one is heard.
    #[serde(default)]
    pub withdraw: bool,
    /// With `withdraw`: so many HELLOs in a row; 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses: Option<u8>,
}

/// How topology control messages spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flood {
    /// Through the network by multipoint relays, which alone originate any (RFC 3626).
    #[default]
    Mpr,
    /// Through the network: every node originates, and sends on each message once.
    All,
    /// One hop; every node originates.
    Off,
}

impl OlsrSpec {
    fn check(&self) -> Result<(), ScenarioError> {
        if self.hello.0 < Span::MILLI || self.tc.0 < Span::MILLI {
            let what = "less than 1 ms between two broadcasts";
            return Err(ScenarioError::key("routing.olsr", what));
        }
        match self.misses {
            Some(0) => Err(ScenarioError::key("routing.olsr.misses", "must not be 0")),
            Some(_) if !self.withdraw => {
                let what = "has no effect without withdraw";
                Err(ScenarioError::key("routing.olsr.misses", what))
            }
            _ => Ok(()),
        }
    }
}

impl Default for OlsrSpec {
    fn default() -> OlsrSpec {
        OlsrSpec {
            hello: hello(),
            tc: tc(),
            flood: Flood::default(),
            withdraw: false,
            misses: None,
        }
    }
}

fn hello() -> Secs {
    Secs(Span::SECOND * 2)
}

fn tc() -> Secs {
    Secs(Span::SECOND * 5)
}

/// What every host does with packets (Behaviour 16.4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Time to forward one packet.
    #[serde(default)]
    pub fwd_cost: Secs,
    /// What a packet costs the host where it begins or ends; what the topology says if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<HostProfile>,
    /// Largest IP packet, octets.
    #[serde(default = "mtu")]
    pub mtu: u16,
    /// What queues do before they are full; nothing if absent (drop-tail).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueSpec>,
    /// What carries feedback or has priority, by the annotations `feedback` and `priority`, goes
    /// before all else that waits for a link.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub prio_feedback: bool,
    /// Nodes that forward packets and serve no protocol: none of the handlers that compositions
    /// bring along run there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unserved: Vec<String>,
    /// How the lanes of hop protocols share the links of their node: `drr` (deficit round robin),
    /// `fifo` or `strict` (the lane opened first goes first).
    #[serde(default, with = "scheduler", skip_serializing_if = "scheduler::usual")]
    pub lanes: Scheduler,
}

/// Schedulers by name.
mod scheduler {
    use super::Scheduler;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn usual(scheduler: &Scheduler) -> bool {
        *scheduler == Scheduler::default()
    }

    pub(super) fn serialize<S: Serializer>(of: &Scheduler, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(of.name())
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Scheduler, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl Default for HostSpec {
    fn default() -> HostSpec {
        HostSpec {
            fwd_cost: Secs(Span::ZERO),
            profile: None,
            mtu: mtu(),
            queue: None,
            prio_feedback: false,
            unserved: Vec::new(),
            lanes: Scheduler::default(),
        }
    }
}

/// Ethernet's. The profile `tap-newreno` of Behaviour 16.2 needs 1512.
fn mtu() -> u16 {
    1500
}

/// When the run ends. Without any rule: as soon as all finite flows are done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopSpec {
    /// At the latest then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Secs>,
    /// As soon as so many full segments were delivered, all flows together (Behaviour 13).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// With `packets`: a batch ends each time so many more were delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// As soon as every flow of files or requests has completed so many; the outcome has so many of
    /// each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
}

/// Which series are recorded: `true` for the usual ones, or a list of names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "write true, false, or a list of names of series"
)]
pub enum SeriesSpec {
    /// Deliveries, windows, round-trip times and segments of all flows, queues of all nodes; or
    /// nothing.
    Usual(bool),
    /// These: `flow.1.cwnd`, `flow.*.cubic.w_max`, `flow.2.peer.window`, `node.n3.queue`, and
    /// `all` for the usual ones besides.
    Named(Vec<String>),
}

impl Default for SeriesSpec {
    fn default() -> SeriesSpec {
        SeriesSpec::Usual(false)
    }
}

impl SeriesSpec {
    /// Stands for the usual series in a list of names.
    pub const ALL: &str = "all";

    /// The usual series are recorded, perhaps others too.
    pub fn usual(&self) -> bool {
        match self {
            SeriesSpec::Usual(usual) => *usual,
            SeriesSpec::Named(names) => names.iter().any(|n| n == SeriesSpec::ALL),
        }
    }

    /// Those that are named.
    pub fn names(&self) -> &[String] {
        match self {
            SeriesSpec::Usual(_) => &[],
            SeriesSpec::Named(names) => names,
        }
    }
}

/// What is written down besides the outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordSpec {
    /// Which series; `delivery` and `cwnd` add to them.
    #[serde(default)]
    pub series: SeriesSpec,
    /// Series of quantities (windows, queues) have at most one value per interval (10 ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Secs>,
    /// The series `flow.N.delivered`.
    #[serde(default)]
    pub delivery: bool,
    /// The series `flow.N.cwnd` and `flow.N.srtt`.
    #[serde(default)]
    pub cwnd: bool,
    /// The binary trace of every frame's fate.
    #[serde(default)]
    pub frames: bool,
    /// Where the caller writes a capture; nothing here writes files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcap: Option<String>,
}

impl Scenario {
    /// As JSON, so that the same run can be done again.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or(Value::Null)
    }

    /// The stream that all others of this replicate are split from.
    pub fn rng(&self) -> Rng {
        Rng::new(self.seed).split_n(self.run)
    }

    /// What can be checked without knowing the topology. Reading does it; scenarios that were put
    /// together by a program should do it too.
    ///
    /// # Errors
    /// The first wrong key.
    pub fn check(&self) -> Result<(), ScenarioError> {
        for (i, flow) in self.flow.iter().enumerate() {
            flow.check(&format!("flow[{i}]"))?;
            if let Some(size) = flow.size.filter(|s| *s > self.host.mtu) {
                let what = format!("{size} bytes, and host.mtu is {}", self.host.mtu);
                return Err(ScenarioError::key(format!("flow[{i}].size"), what));
            }
        }
        if self.host.mtu < LEAST_MTU {
            let what = format!("at least {LEAST_MTU} bytes (RFC 791)");
            return Err(ScenarioError::key("host.mtu", what));
        }
        if let Some(queue) = &self.host.queue {
            queue.discipline()?;
            if self.host.prio_feedback {
                let what = "goes with drop-tail queues only: leave out host.queue, or this key";
                return Err(ScenarioError::key("host.prio_feedback", what));
            }
        }
        if let Some(olsr) = &self.routing.olsr {
            olsr.check()?;
        }
        for (i, s) in self.split.iter().enumerate() {
            s.check(&format!("split[{i}]"))?;
        }
        for (i, m) in self.mobility.iter().enumerate() {
            m.check(&format!("mobility[{i}]"))?;
        }
        for (i, e) in self.event.iter().enumerate() {
            e.check(&format!("event[{i}]"))?;
        }
        if self.stop.time == Some(Secs(Span::ZERO)) {
            return Err(ScenarioError::key("stop.time", "must be greater than 0"));
        }
        if self.stop.packets == Some(0) {
            return Err(ScenarioError::key("stop.packets", "must be at least 1"));
        }
        self.check_requests()?;
        match (self.stop.batch, self.stop.packets) {
            (Some(0), _) => Err(ScenarioError::key("stop.batch", "must be at least 1")),
            (Some(_), None) => Err(ScenarioError::key(
                "stop.batch",
                "batches are parts of `stop.packets`, which is missing",
            )),
            _ => Ok(()),
        }
    }

    /// Whether there are flows that can complete as many requests as end the run.
    fn check_requests(&self) -> Result<(), ScenarioError> {
        let wrong = |what: &str| Err(ScenarioError::key("stop.requests", what));
        let Some(wanted) = self.stop.requests else {
            return Ok(());
        };
        if wanted == 0 {
            return wrong("must be at least 1");
        }
        if self.stop.packets.is_some() {
            return wrong("`stop.packets` says when the run ends, too: choose one");
        }
        let mut asking = self.flow.iter().enumerate().filter(|(_, f)| f.app.asks());
        if asking.clone().next().is_none() {
            return wrong("counts files of `http` and answers of `request`, and no flow has any");
        }
        match asking.find(|(_, flow)| flow.count.is_some() || flow.stop_at.is_some()) {
            Some((i, flow)) => {
                let key = if flow.count.is_some() {
                    "count"
                } else {
                    "stop_at"
                };
                Err(ScenarioError::key(
                    format!("flow[{i}].{key}"),
                    "with `stop.requests` flows go on until all have so many: leave it out",
                ))
            }
            None => Ok(()),
        }
    }
}

/// Every IPv4 network carries so much (RFC 791 3.2).
const LEAST_MTU: u16 = 68;
#[cfg(test)]
mod tests;
