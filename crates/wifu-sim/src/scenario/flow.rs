//! Flows: who sends what to whom, and which keys belong to which application.

use super::{Bps, Octets, ScenarioError, Secs};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wifu_wire::Span;
use wifu_wire::names;

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
    /// One file after the other, each over its own connection or all over one: sizes Pareto, pauses
    /// exponential.
    Http,
    /// Talks at `rate` for about `on`, is silent for about `off`.
    OnOff,
    /// Sends `request` octets, gets `response` octets, pauses.
    Request,
    /// Writes as `rows` say.
    Trace,
}

impl AppKind {
    const ALL: [AppKind; 7] = [
        AppKind::Bulk,
        AppKind::File,
        AppKind::Stream,
        AppKind::Http,
        AppKind::OnOff,
        AppKind::Request,
        AppKind::Trace,
    ];

    /// Those of flows like this one that take this key, quoted.
    fn with(key: &str, like: &FlowSpec) -> String {
        let takes = |app: &AppKind| {
            let (needs, may) = like.uses_as(*app);
            needs.contains(&key) || may.contains(&key)
        };
        let names = Self::ALL.into_iter().filter(takes);
        let quoted: Vec<String> = names.map(|app| format!("\"{}\"", app.name())).collect();
        quoted.join(" or ")
    }

    /// All of them with the keys that they need, for who names none.
    pub(super) fn each() -> String {
        let said = Self::ALL.map(|app| {
            let flow = FlowSpec {
                app,
                ..FlowSpec::default()
            };
            match flow.uses().0 {
                [] => app.name().to_string(),
                needs => format!("{} (needs {})", app.name(), needs.join(", ")),
            }
        });
        format!("there are {}", said.join(", "))
    }

    /// Whether it goes from request to request, each of which is measured.
    pub fn asks(self) -> bool {
        matches!(self, AppKind::Http | AppKind::Request)
    }

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
    /// `http`: all files over one connection, which a failure alone ends (Behaviour D36).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent: Option<bool>,
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
    /// A uniform time up to this is added to the start (Behaviour 16.5).
    #[serde(default)]
    pub jitter: Secs,
    /// From then on its application writes nothing more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_at: Option<Secs>,
}

/// Beyond it, b/s, there is an event in every few nanoseconds for nothing.
const FASTEST: u64 = 100_000_000_000;

/// The keys that only some applications use.
const OPTIONAL: [&str; 14] = [
    "bytes",
    "time",
    "rate",
    "size",
    "pause",
    "count",
    "shape",
    "scale",
    "cap",
    "persistent",
    "on",
    "off",
    "request",
    "response",
];

impl FlowSpec {
    /// An application in words, its name and its keys: `http,pause=1s,count=5`. Rows of a trace are
    /// pairs behind `+`: `trace,rows=0:1000+2.5:200`. It has neither ends nor protocol nor start.
    ///
    /// # Errors
    /// The wrong key, with the nearest valid one, and what is wrong with it.
    pub fn application(words: &str) -> Result<FlowSpec, ScenarioError> {
        let mut words = words.split(',').map(str::trim);
        let app = words.next().unwrap_or_default();
        let mut given: Map<String, Value> = ["from", "to", "protocol"]
            .map(|key| (key.to_string(), Value::from("")))
            .into_iter()
            .collect();
        given.insert("app".to_string(), Value::from(app));
        for word in words {
            let known = |key: &str| OPTIONAL.contains(&key) || key == "rows";
            let Some((key, text)) = word.split_once('=') else {
                return Err(ScenarioError::key(word, "write KEY=VALUE"));
            };
            if !known(key) {
                let near = names::meant(key, OPTIONAL).unwrap_or_else(|| {
                    format!("the keys of applications: {}", OPTIONAL.join(", "))
                });
                return Err(ScenarioError::key(key, format!("unknown key; {near}")));
            }
            given.insert(key.to_string(), value(key, text)?);
        }
        let spec = FlowSpec::from_value(Value::Object(given))?;
        spec.check(app)?;
        Ok(spec)
    }

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
        self.uses_as(self.app)
    }

    /// The same if its application were this one.
    fn uses_as(&self, app: AppKind) -> (&'static [&'static str], &'static [&'static str]) {
        match (self.is_udp(), app) {
            (true, AppKind::Bulk) => (&[], &["rate", "size", "bytes", "time"]),
            (true, AppKind::File) => (&["bytes"], &["rate", "size"]),
            (true, AppKind::Stream) => (&["time"], &["rate", "size"]),
            (true, AppKind::OnOff) => (&["rate", "on", "off"], &["size", "time"]),
            (_, AppKind::Bulk) => (&[], &[]),
            (_, AppKind::File) => (&["bytes"], &[]),
            (_, AppKind::Stream) => (&["time"], &[]),
            (_, AppKind::Http) => (
                &["pause"],
                &["count", "shape", "scale", "cap", "persistent"],
            ),
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
            "persistent" => self.persistent.is_some(),
            "on" => self.on.is_some(),
            "off" => self.off.is_some(),
            "request" => self.request.is_some(),
            "response" => self.response.is_some(),
            _ => self.rows.is_some(),
        }
    }

    /// Whether its keys fit each other and its application. `path` is what it is called in errors.
    ///
    /// # Errors
    /// The first wrong key.
    pub fn check(&self, path: &str) -> Result<(), ScenarioError> {
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
                    0 => format!(
                        "{of}, as a flow without `app` is, has no parameters; `{key}` goes with \
                         app = {}",
                        AppKind::with(key, self)
                    ),
                    _ => format!("{of} does not use it; its keys: {}", all.join(", ")),
                };
                let radios = match *key {
                    "rate" => "; that of the radios is radio.rate",
                    _ => "",
                };
                return Err(ScenarioError::key(at(key), what + radios));
            }
        }
        let zero = |key: &str| Err(ScenarioError::key(at(key), "must be greater than 0"));
        match () {
            () if self.bytes == Some(Octets(0)) => zero("bytes"),
            () if self.time == Some(Secs(Span::ZERO)) => zero("time"),
            () if self.rate.is_some_and(|r| r.0.0 == 0) => zero("rate"),
            () if self.rate.is_some_and(|r| r.0.0 > FASTEST) => Err(ScenarioError::key(
                at("rate"),
                "at most 100 Gb/s; leave it out for as much as goes",
            )),
            () if self.shape.is_some_and(|s| s.is_nan() || s <= 0.0) => zero("shape"),
            () if self.scale == Some(Octets(0)) => zero("scale"),
            () if self.response == Some(Octets(0)) => zero("response"),
            () if self.request == Some(Octets(0)) => zero("request"),
            () if self.on == Some(Secs(Span::ZERO)) => zero("on"),
            // Talk is drawn spurt by spurt, until it has a packet.
            () if self.on.is_some_and(|s| s.0 < Span::MILLI) => {
                Err(ScenarioError::key(at("on"), "at least 1 ms on average"))
            }
            () if self.size.is_some_and(|s| s < 40) => Err(ScenarioError::key(
                at("size"),
                "an IP packet of this simulator has at least 40 bytes",
            )),
            () if decreasing(self.rows.as_deref()) => Err(ScenarioError::key(
                at("rows"),
                "times must not be negative nor decrease",
            )),
            () => Ok(()),
        }
    }
}

/// What a word gives a key: a number, rows, or text.
fn value(key: &str, text: &str) -> Result<Value, ScenarioError> {
    if key != "rows" {
        let whole = text.parse::<u64>().map(Value::from);
        let number = || text.parse::<f64>().map(Value::from);
        let truth = || text.parse::<bool>().map(Value::from);
        let known = whole.or_else(|_| number()).or_else(|_| truth());
        return Ok(known.unwrap_or_else(|_| text.into()));
    }
    let row = |row: &str| {
        let (at, octets) = row.split_once(':')?;
        Some(Value::from(vec![
            Value::from(at.parse::<f64>().ok()?),
            Value::from(octets.parse::<u64>().ok()?),
        ]))
    };
    let rows: Option<Vec<Value>> = text.split('+').map(row).collect();
    rows.map(Value::from).ok_or_else(|| {
        ScenarioError::key(
            key,
            "write SECONDS:OCTETS+SECONDS:OCTETS, as 0:1000+2.5:200",
        )
    })
}

fn decreasing(rows: Option<&[(f64, u64)]>) -> bool {
    let rows = rows.unwrap_or_default();
    rows.iter().any(|r| !(0.0..1e9).contains(&r.0)) || rows.windows(2).any(|w| w[1].0 < w[0].0)
}
