//! Topologies as TOML tables, before anything is known of what their keys mean.

use toml::{Table, Value};

use super::error::TopologyError;

/// A document as a table.
pub(crate) fn parse(text: &str) -> Result<Table, TopologyError> {
    text.parse::<Table>()
        .map_err(|e| TopologyError::Syntax(e.to_string().trim_end().to_string()))
}

/// Lay `over` over `under`.
pub(crate) fn merge(under: &mut Table, over: &Table) {
    for (key, value) in over {
        match (under.get_mut(key), value) {
            (Some(Value::Table(a)), Value::Table(b)) => merge(a, b),
            _ => {
                under.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Take a word out of a table.
pub(super) fn text(table: &mut Table, key: &str) -> Result<Option<String>, TopologyError> {
    match table.remove(key) {
        None => Ok(None),
        Some(Value::String(s)) => Ok(Some(s)),
        Some(_) => Err(TopologyError::key(key, "must be text")),
    }
}
