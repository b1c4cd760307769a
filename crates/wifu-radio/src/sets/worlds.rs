//! Worlds of a set: what is not known of a testbed in two readings, each of which is run.
//!
//! A set's file may say `[world] default = "driver"` and, for every other world, what it changes:
//! `[world.literal.radio] attempts = 1`. The name `TB-A,world=literal` chooses one. The topology
//! is stamped with the name of its world.

use toml::{Table, Value};
use wifu_wire::names;

use super::files;
use crate::topology::{TopologyError, overlay};

/// The worlds of a set's table, the default first.
fn of(table: &Table) -> Vec<&str> {
    let Some(worlds) = table.get("world").and_then(Value::as_table) else {
        return Vec::new();
    };
    let default = worlds.get("default").and_then(Value::as_str);
    let others = worlds.iter().filter(|(_, v)| v.is_table());
    let others = others.map(|(name, _)| name.as_str());
    let others = others.filter(|name| Some(*name) != default);
    default.into_iter().chain(others).collect()
}

/// The names of a set's worlds, the default first; none if its numbers have one reading.
///
/// # Errors
/// Unless there is a set of this name.
pub fn worlds(set: &str) -> Result<Vec<String>, TopologyError> {
    let table = files::table(set)?;
    Ok(of(&table).into_iter().map(String::from).collect())
}

/// The set that `NAME` or `NAME,world=WORLD` names, as a table without its other worlds.
pub(crate) fn table(words: &str) -> Result<Table, TopologyError> {
    let (name, more) = words.split_once(',').unwrap_or((words, ""));
    let mut table = files::table(name.trim())?;
    let wrong = |what: String| TopologyError::Set(format!("testbed set \"{words}\": {what}"));
    let mut chosen = None;
    for word in more.split(',').map(str::trim).filter(|w| !w.is_empty()) {
        match word.split_once('=').map(|(k, v)| (k.trim(), v.trim())) {
            Some(("world", _)) if chosen.is_some() => {
                return Err(wrong("names two worlds".to_string()));
            }
            Some(("world", world)) => chosen = Some(world),
            _ => {
                let what = format!("after the name comes world=WORLD only, not `{word}`");
                return Err(wrong(what));
            }
        }
    }
    let all = of(&table);
    let Some(world) = chosen.or(all.first().copied()).map(String::from) else {
        return Ok(table);
    };
    if all.is_empty() {
        return Err(wrong("it has no worlds to choose from".to_string()));
    }
    if !all.contains(&world.as_str()) {
        return Err(wrong(names::unknown("world", &world, all)));
    }
    if let Some(Value::Table(mut worlds)) = table.remove("world")
        && let Some(Value::Table(over)) = worlds.remove(&world)
    {
        overlay(&mut table, &over);
    }
    table.insert("world".to_string(), Value::String(world));
    Ok(table)
}
