//! What a mesh simulation is told: topology, radios, routing, flows, when to stop, what to record.
//!
//! The same document comes as TOML from people and as JSON from programs. Unknown keys are errors
//! that name the key's path and the nearest valid name; nothing falls back. Quantities are text
//! with a unit (`"24Mb/s"`, `"5ms"`, `"2M"`); bare numbers mean seconds, bits per second, octets.

mod quantity;

pub use quantity::{Bps, Octets, Secs};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wifu_engine::descriptor::nearest;
use wifu_wire::{Rng, Span};

/// Why a scenario cannot be run. The message is complete without the source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// It is no TOML, no JSON.
    #[error("{0}")]
    Syntax(String),
    /// A key is wrong: its path, such as `flow[0].bytes`, and what about it.
    #[error("{path}: {what}")]
    Key {
        /// Where, as `table.key` or `array[index].key`.
        path: String,
        /// What is wrong with it, with the nearest valid name if it is a name.
        what: String,
    },
}

impl ScenarioError {
    /// An error at a key.
    pub fn key(path: impl Into<String>, what: impl Into<String>) -> ScenarioError {
        ScenarioError::Key {
            path: path.into(),
            what: what.into(),
        }
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
    /// Nodes that move.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mobility: Vec<MobilitySpec>,
    /// When the run ends.
    #[serde(default)]
    pub stop: StopSpec,
    /// What is written down besides the outcome.
    #[serde(default)]
    pub record: RecordSpec,
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
            mobility: Vec::new(),
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

/// Broadcasts as OLSR sends them (spec 11.4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OlsrSpec {
    /// Between two HELLOs of a node (100 octets).
    #[serde(default = "hello")]
    pub hello: Secs,
    /// Between two TCs of a node (120 octets).
    #[serde(default = "tc")]
    pub tc: Secs,
    /// A neighbour whose last three HELLOs were lost is no neighbour until one is heard.
    #[serde(default)]
    pub withdraw: bool,
}

impl Default for OlsrSpec {
    fn default() -> OlsrSpec {
        OlsrSpec {
            hello: hello(),
            tc: tc(),
            withdraw: false,
        }
    }
}

fn hello() -> Secs {
    Secs(Span::SECOND * 2)
}

fn tc() -> Secs {
    Secs(Span::SECOND * 5)
}

/// What every host does with packets (spec 16.4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Time to forward one packet.
    #[serde(default)]
    pub fwd_cost: Secs,
    /// Largest IP packet, octets.
    #[serde(default = "mtu")]
    pub mtu: u16,
}

impl Default for HostSpec {
    fn default() -> HostSpec {
        HostSpec {
            fwd_cost: Secs(Span::ZERO),
            mtu: mtu(),
        }
    }
}

/// Ethernet's. The profile `tap-newreno` of spec 16.2 needs 1512.
fn mtu() -> u16 {
    1500
}

/// What an application does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AppKind {
    /// Sends without end.
    #[default]
    Bulk,
    /// Sends `bytes`.
    File,
    /// Sends as much as goes for `time`, then closes.
    Stream,
    /// One file after the other, each over its own connection: sizes Pareto, pauses exponential.
    Http,
    /// Talks at `rate` for about `on`, is silent for about `off`.
    OnOff,
    /// Sends `request` octets, gets `response` octets, pauses.
    Request,
    /// Writes as `rows` say.
    Trace,
}

impl AppKind {
    /// The name in scenarios and outcomes.
    pub fn name(self) -> &'static str {
        match self {
            AppKind::Bulk => "bulk",
            AppKind::File => "file",
            AppKind::Stream => "stream",
            AppKind::Http => "http",
            AppKind::OnOff => "onoff",
            AppKind::Request => "request",
            AppKind::Trace => "trace",
        }
    }
}

/// One flow: an application at `from` that sends to `to`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// Name of the sending node.
    pub from: String,
    /// Name of the receiving node.
    pub to: String,
    /// A composition with parameters (`tcp-newreno,iw=4`), or `udp`.
    pub protocol: String,
    /// What the application does; `bulk` if not said.
    #[serde(default)]
    pub app: AppKind,
    /// `file`, and `udp`: octets of the application in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Octets>,
    /// `stream`, and `udp`: how long it sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Secs>,
    /// `onoff`, and `udp`: octets of the application per second, times 8. A `udp` flow without
    /// rate keeps its node's queue from running empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Bps>,
    /// `udp`: length of the IP packets, octets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u16>,
    /// `http`: the mean of the pauses between two files. `request`: likewise; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Secs>,
    /// `http`, `request`: how many; without end if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// `http`: the Pareto distribution's shape (1.5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<f64>,
    /// `http`: the Pareto distribution's least value (10 kB).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<Octets>,
    /// `http`: no file is longer (10 MB).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<Octets>,
    /// `onoff`: mean time of talk (exponential).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Secs>,
    /// `onoff`: mean time of silence (exponential).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<Secs>,
    /// `request`: octets of a request (200).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Octets>,
    /// `request`: octets of an answer (30 kB).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Octets>,
    /// `trace`: (seconds since the flow's start, octets) in order of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<Vec<(f64, u64)>>,
    /// When it connects.
    #[serde(default)]
    pub start: Secs,
    /// A uniform time up to this is added to the start (spec 16.5).
    #[serde(default)]
    pub jitter: Secs,
    /// From then on its application writes nothing more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_at: Option<Secs>,
}

/// How a node moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "lowercase")]
pub enum MobilitySpec {
    /// Random waypoint: to a uniform point of the area, at a uniform speed, then a pause.
    Waypoint {
        /// Names of the nodes; all if empty.
        #[serde(default)]
        nodes: Vec<String>,
        /// `[x0, y0, x1, y1]`, metres.
        area: [f64; 4],
        /// Least and greatest speed, metres per second; both above zero.
        speed: [f64; 2],
        /// At each point.
        #[serde(default)]
        pause: Secs,
    },
    /// Straight lines between known places.
    Trace {
        /// (seconds, node, x, y), metres, in order of time.
        rows: Vec<(f64, String, f64, f64)>,
    },
}

/// When the run ends. Without any rule: as soon as all finite flows are done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopSpec {
    /// At the latest then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Secs>,
    /// As soon as so many full segments were delivered, all flows together (spec 13).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// With `packets`: a batch ends each time so many more were delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
}

/// What is written down besides the outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordSpec {
    /// All series.
    #[serde(default)]
    pub series: bool,
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
    /// Read TOML.
    ///
    /// # Errors
    /// The key's path and what is wrong with it.
    pub fn from_toml(text: &str) -> Result<Scenario, ScenarioError> {
        let de = toml::Deserializer::parse(text)
            .map_err(|e| ScenarioError::Syntax(e.to_string().trim_end().to_string()))?;
        let read: Result<Scenario, _> = serde_path_to_error::deserialize(de);
        let scenario = read.map_err(|e| {
            let path = e.path().to_string();
            explained(&path, e.inner().message())
        })?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Read JSON.
    ///
    /// # Errors
    /// The key's path and what is wrong with it.
    pub fn from_json(text: &str) -> Result<Scenario, ScenarioError> {
        let mut de = serde_json::Deserializer::from_str(text);
        let read: Result<Scenario, _> = serde_path_to_error::deserialize(&mut de);
        let scenario = read.map_err(|e| {
            let path = e.path().to_string();
            let inner = e.inner();
            if inner.is_data() {
                let message = inner.to_string();
                let cut = message.rfind(" at line ").unwrap_or(message.len());
                explained(&path, &message[..cut])
            } else {
                ScenarioError::Syntax(inner.to_string())
            }
        })?;
        de.end().map_err(|e| ScenarioError::Syntax(e.to_string()))?;
        scenario.check()?;
        Ok(scenario)
    }

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
        }
        if self
            .routing
            .olsr
            .as_ref()
            .is_some_and(|o| o.hello.0 < Span::MILLI || o.tc.0 < Span::MILLI)
        {
            let what = "less than 1 ms between two broadcasts";
            return Err(ScenarioError::key("routing.olsr", what));
        }
        for (i, m) in self.mobility.iter().enumerate() {
            m.check(&format!("mobility[{i}]"))?;
        }
        if self.stop.packets == Some(0) {
            return Err(ScenarioError::key("stop.packets", "must be at least 1"));
        }
        match (self.stop.batch, self.stop.packets) {
            (Some(0), _) => Err(ScenarioError::key("stop.batch", "must be at least 1")),
            (Some(_), None) => Err(ScenarioError::key(
                "stop.batch",
                "batches are parts of `stop.packets`, which is missing",
            )),
            _ => Ok(()),
        }
    }
}

impl MobilitySpec {
    fn check(&self, path: &str) -> Result<(), ScenarioError> {
        match self {
            MobilitySpec::Waypoint { speed, .. } if !(speed[0] > 0.0 && speed[1] >= speed[0]) => {
                let what = "write [least, greatest] in m/s, both above zero";
                Err(ScenarioError::key(format!("{path}.speed"), what))
            }
            MobilitySpec::Trace { rows } if rows.windows(2).any(|w| w[1].0 < w[0].0) => Err(
                ScenarioError::key(format!("{path}.rows"), "times must not decrease"),
            ),
            _ => Ok(()),
        }
    }
}

/// A table of a scenario as TOML, for readers who want that.
pub(crate) fn as_toml(map: &Map<String, Value>, path: &str) -> Result<toml::Table, ScenarioError> {
    let mut table = toml::Table::new();
    for (key, value) in map {
        let at = format!("{path}.{key}");
        table.insert(key.clone(), toml_value(value, &at)?);
    }
    Ok(table)
}

fn toml_value(value: &Value, path: &str) -> Result<toml::Value, ScenarioError> {
    Ok(match value {
        Value::Null => {
            return Err(ScenarioError::key(
                path,
                "null is no value; leave the key out",
            ));
        }
        Value::Bool(b) => toml::Value::Boolean(*b),
        Value::String(s) => toml::Value::String(s.clone()),
        Value::Number(n) => match (n.as_i64(), n.as_f64()) {
            (Some(i), _) => toml::Value::Integer(i),
            (None, Some(f)) => toml::Value::Float(f),
            (None, None) => return Err(ScenarioError::key(path, "the number is too large")),
        },
        Value::Array(items) => {
            let items = items.iter().enumerate();
            let each = items.map(|(i, v)| toml_value(v, &format!("{path}[{i}]")));
            toml::Value::Array(each.collect::<Result<_, _>>()?)
        }
        Value::Object(map) => toml::Value::Table(as_toml(map, path)?),
    })
}

impl TopologySpec {
    /// Put the content of the topology file in place: keys that are here already win.
    ///
    /// # Errors
    /// If it is no TOML.
    pub fn take_file(&mut self, text: &str) -> Result<(), ScenarioError> {
        let name = self.file.take().unwrap_or_default();
        let mut content: Map<String, Value> = toml::from_str(text)
            .map_err(|e| ScenarioError::Syntax(format!("{name}: {}", e.to_string().trim_end())))?;
        lay_over(&mut content, core::mem::take(&mut self.inline));
        let read = TopologySpec::from(content);
        self.words = self.words.take().or(read.words);
        self.set = self.set.take().or(read.set);
        self.inline = read.inline;
        Ok(())
    }
}

fn lay_over(under: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(Value::Object(a)), Value::Object(b)) => lay_over(a, b),
            (_, value) => {
                under.insert(key, value);
            }
        }
    }
}

/// The keys that only some applications use.
const OPTIONAL: [&str; 13] = [
    "bytes", "time", "rate", "size", "pause", "count", "shape", "scale", "cap", "on", "off",
    "request", "response",
];

impl FlowSpec {
    /// Whether it sends datagrams without any protocol.
    pub fn is_udp(&self) -> bool {
        self.protocol == "udp"
    }

    /// Whether its application comes to an end by itself.
    pub fn is_finite(&self) -> bool {
        if self.stop_at.is_some() {
            return true;
        }
        match self.app {
            AppKind::File | AppKind::Stream | AppKind::Trace => true,
            AppKind::Bulk => self.is_udp() && (self.bytes.is_some() || self.time.is_some()),
            AppKind::OnOff => self.time.is_some(),
            AppKind::Http | AppKind::Request => self.count.is_some(),
        }
    }

    fn uses(&self) -> (&'static [&'static str], &'static [&'static str]) {
        match (self.is_udp(), self.app) {
            (true, AppKind::Bulk) => (&[], &["rate", "size", "bytes", "time"]),
            (true, AppKind::File) => (&["bytes"], &["rate", "size"]),
            (true, AppKind::Stream) => (&["time"], &["rate", "size"]),
            (true, AppKind::OnOff) => (&["rate", "on", "off"], &["size", "time"]),
            (_, AppKind::Bulk) => (&[], &[]),
            (_, AppKind::File) => (&["bytes"], &[]),
            (_, AppKind::Stream) => (&["time"], &[]),
            (_, AppKind::Http) => (&["pause"], &["count", "shape", "scale", "cap"]),
            (_, AppKind::OnOff) => (&["rate", "on", "off"], &["time"]),
            (_, AppKind::Request) => (&[], &["request", "response", "pause", "count"]),
            (_, AppKind::Trace) => (&["rows"], &[]),
        }
    }

    fn has(&self, key: &str) -> bool {
        match key {
            "bytes" => self.bytes.is_some(),
            "time" => self.time.is_some(),
            "rate" => self.rate.is_some(),
            "size" => self.size.is_some(),
            "pause" => self.pause.is_some(),
            "count" => self.count.is_some(),
            "shape" => self.shape.is_some(),
            "scale" => self.scale.is_some(),
            "cap" => self.cap.is_some(),
            "on" => self.on.is_some(),
            "off" => self.off.is_some(),
            "request" => self.request.is_some(),
            "response" => self.response.is_some(),
            _ => self.rows.is_some(),
        }
    }

    fn check(&self, path: &str) -> Result<(), ScenarioError> {
        let app = self.app.name();
        let at = |key: &str| format!("{path}.{key}");
        if self.is_udp() && matches!(self.app, AppKind::Http | AppKind::Request | AppKind::Trace) {
            let what = format!("`{app}` needs a protocol with connections, and this flow is udp");
            return Err(ScenarioError::key(at("app"), what));
        }
        let (needs, may) = self.uses();
        let of = if self.is_udp() {
            format!("`{app}` over udp")
        } else {
            format!("`{app}`")
        };
        for key in needs {
            if !self.has(key) {
                return Err(ScenarioError::key(path, format!("{of} needs `{key}`")));
            }
        }
        for key in OPTIONAL.iter().chain(&["rows"]) {
            if self.has(key) && !needs.contains(key) && !may.contains(key) {
                let all: Vec<&str> = needs.iter().chain(may).copied().collect();
                let what = match all.len() {
                    0 => format!("{of} has no parameters"),
                    _ => format!("{of} does not use it; its keys: {}", all.join(", ")),
                };
                return Err(ScenarioError::key(at(key), what));
            }
        }
        let zero = |key: &str| Err(ScenarioError::key(at(key), "must be greater than 0"));
        match () {
            () if self.bytes == Some(Octets(0)) => zero("bytes"),
            () if self.rate.is_some_and(|r| r.0.0 == 0) => zero("rate"),
            () if self.shape.is_some_and(|s| s.is_nan() || s <= 0.0) => zero("shape"),
            () if self.scale == Some(Octets(0)) => zero("scale"),
            () if self.response == Some(Octets(0)) => zero("response"),
            () if self.request == Some(Octets(0)) => zero("request"),
            () if self.on == Some(Secs(Span::ZERO)) => zero("on"),
            () if self.size.is_some_and(|s| s < 40) => Err(ScenarioError::key(
                at("size"),
                "an IP packet of this simulator has at least 40 octets",
            )),
            () if decreasing(self.rows.as_deref()) => Err(ScenarioError::key(
                at("rows"),
                "times must not be negative nor decrease",
            )),
            () => Ok(()),
        }
    }
}

fn decreasing(rows: Option<&[(f64, u64)]>) -> bool {
    let rows = rows.unwrap_or_default();
    rows.iter().any(|r| !(0.0..1e9).contains(&r.0)) || rows.windows(2).any(|w| w[1].0 < w[0].0)
}

/// Serde's message about an unknown name, with the nearest valid one; others as they are.
fn explained(path: &str, message: &str) -> ScenarioError {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    let (true, Some(name)) = (unknown, quoted.next()) else {
        return ScenarioError::key(if path == "." { "scenario" } else { path }, message);
    };
    let valid: Vec<&str> = quoted.collect();
    let hint = nearest(name, valid.iter().copied()).map_or_else(
        || format!("valid here: {}", valid.join(", ")),
        |n| format!("did you mean {n}?"),
    );
    let field = message.starts_with("unknown field");
    let what = if field {
        format!("unknown key; {hint}")
    } else {
        format!("unknown name `{name}`; {hint}")
    };
    // The path ends with the unknown key if the format says so.
    let path = match (field, path) {
        (true, ".") => name.to_string(),
        (true, p) if p != name && !p.ends_with(&format!(".{name}")) => format!("{p}.{name}"),
        (_, p) => p.to_string(),
    };
    ScenarioError::Key { path, what }
}

#[cfg(test)]
mod tests;
