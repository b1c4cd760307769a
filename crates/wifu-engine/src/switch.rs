//! Handlers that a composition brings only while one of its parameters is on.

use crate::composition::{Composition, ConfigError};
use crate::params::Value;
use toml::Table;
use wifu_wire::names;

/// The key of a handler in a chain that names the switch.
const WITH: &str = "with";

/// A switch of a composition's parts, and whether it is on.
pub(crate) type Switch = (&'static str, bool);

/// The switches among parameters.
pub(crate) fn switches<'a>(
    values: impl Iterator<Item = &'a (&'static str, Value)>,
) -> impl Iterator<Item = Switch> {
    values.filter_map(|(name, value)| match value {
        Value::Flag(on) => Some((*name, *on)),
        _ => None,
    })
}

fn name(handler: &Table) -> Option<&str> {
    handler.get(WITH)?.as_str()
}

/// Whether a composition with these switches brings a handler of its chain; `None`: no part has the
/// switch that it names.
pub(crate) fn is_on(handler: &Table, switches: &[Switch]) -> Option<bool> {
    let Some(name) = name(handler) else {
        return Some(true);
    };
    switches.iter().find(|s| s.0 == name).map(|s| s.1)
}

/// Whether a handler of a composition hangs on a switch.
pub(crate) fn has_any(c: &Composition) -> bool {
    c.handlers.iter().any(|h| name(h).is_some())
}

/// A composition without those of its handlers that are off.
///
/// # Errors
/// A switch that no part has, with the nearest that one has.
pub(crate) fn without_off(
    c: &Composition,
    switches: &[Switch],
) -> Result<Composition, ConfigError> {
    let mut handlers = Vec::new();
    for (i, handler) in c.handlers.iter().enumerate() {
        let Some(on) = is_on(handler, switches) else {
            let name = name(handler).unwrap_or_default();
            let near = names::hint(name, switches.iter().map(|s| s.0));
            let what = format!(
                "chain.{}: with = \"{name}\": no part here has a switch of this name{near}",
                i + 1
            );
            return Err(ConfigError::one(format!("handlers.{}", c.name), what));
        };
        handlers.extend(on.then(|| handler.clone()));
    }
    Ok(Composition {
        handlers,
        ..c.clone()
    })
}
