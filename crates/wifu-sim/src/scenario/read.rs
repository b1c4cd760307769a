//! Reading scenarios, and their tables for other readers. Errors carry the key's path.

use super::{AppKind, FlowSpec, Scenario, ScenarioError, TopologySpec, queue};
use serde_json::{Map, Value};
use wifu_radio::words::RADIO_KEYS;
use wifu_wire::names;

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
}

impl FlowSpec {
    /// From the keys of a flow.
    pub(super) fn from_value(keys: Value) -> Result<FlowSpec, ScenarioError> {
        let read: Result<FlowSpec, _> = serde_path_to_error::deserialize(keys);
        read.map_err(|e| explained(&e.path().to_string(), &e.inner().to_string()))
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

/// Keys of tables that are taken for outermost ones, as their names say what they are of.
const INSIDE: [(&str, &str); 9] = [
    ("fading", "topology.fading"),
    ("propagation", "topology.propagation"),
    ("words", "topology.words"),
    ("set", "topology.set"),
    ("olsr", "routing.olsr"),
    ("protocol", "flow.1.protocol"),
    ("bytes", "flow.1.bytes"),
    ("start", "flow.1.start"),
    ("jitter", "flow.1.jitter"),
];

/// What a flow lacks.
const NO_PROTOCOL: &str = "has no protocol: write protocol = \"tcp-newreno\"; `wifu list` has them";

/// Serde's message about an unknown name, with the nearest valid one; others as they are.
fn explained(path: &str, message: &str) -> ScenarioError {
    let text = message.strip_prefix("invalid type: string \"");
    if let Some((text, _)) = text.and_then(|rest| rest.split_once('"'))
        && path == "host.queue"
    {
        return ScenarioError::key(path, queue::table_for(text));
    }
    if message == "missing field `protocol`" {
        return ScenarioError::key(path, NO_PROTOCOL);
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    let (true, Some(name)) = (unknown, quoted.next()) else {
        return ScenarioError::key(if path == "." { "scenario" } else { path }, message);
    };
    let valid: Vec<&str> = quoted.collect();
    let field = message.starts_with("unknown field");
    let outermost = path == "." || path == name;
    let of_radio = field && outermost && RADIO_KEYS.contains(&name);
    let inside = INSIDE
        .iter()
        .find(|(key, _)| field && outermost && *key == name);
    let hint = match names::meant(name, valid.iter().copied()) {
        _ if of_radio => names::asked(&format!("radio.{name}")),
        _ if let Some((_, path)) = inside => names::asked(path),
        Some(question) => question,
        None if !field && path.ends_with("app") => AppKind::each(),
        None => format!("valid here: {}", valid.join(", ")),
    };
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
    ScenarioError::Key {
        path: names::counted(&path),
        what,
    }
}
