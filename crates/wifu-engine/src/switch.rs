//! Handlers that a composition brings only while one of its parameters is on.

use crate::blueprint::Blueprint;
use crate::composition::{Composition, ConfigError};
use crate::descriptor::Registry;
use crate::params::Value;
use std::borrow::Cow;
use toml::Table;
use wifu_wire::names;

/// The key of a handler in a chain that names the switch.
const WITH: &str = "with";

fn name(handler: &Table) -> Option<&str> {
    handler.get(WITH)?.as_str()
}

/// The switches of these ends.
fn switches(ends: &Blueprint) -> impl Iterator<Item = (&'static str, bool)> {
    let values = ends.parts.iter().flat_map(|p| &p.values);
    values.filter_map(|(name, value)| match value {
        Value::Flag(on) => Some((*name, *on)),
        _ => None,
    })
}

/// Whether these ends bring a handler of their chain; `None`: no part has the switch that it names.
pub(crate) fn is_on(handler: &Table, ends: &Blueprint) -> Option<bool> {
    let Some(name) = name(handler) else {
        return Some(true);
    };
    switches(ends).find(|s| s.0 == name).map(|s| s.1)
}

impl Composition {
    /// The same without those of its handlers whose switch, a parameter of its parts, is off.
    ///
    /// # Errors
    /// As [`Blueprint::new`]; a switch that no part has, with the nearest that one has.
    pub fn switched(&self, registry: &Registry) -> Result<Cow<'_, Composition>, ConfigError> {
        if self.handlers.iter().all(|h| name(h).is_none()) {
            return Ok(Cow::Borrowed(self));
        }
        let ends = Blueprint::new(self, registry)?;
        let mut handlers = Vec::new();
        for (i, handler) in self.handlers.iter().enumerate() {
            let Some(on) = is_on(handler, &ends) else {
                let name = name(handler).unwrap_or_default();
                let near = names::hint(name, switches(&ends).map(|s| s.0));
                let what = format!(
                    "chain.{}: with = \"{name}\": no part here has a switch of this name{near}",
                    i + 1
                );
                return Err(ConfigError::one(format!("handlers.{}", self.name), what));
            };
            handlers.extend(on.then(|| handler.clone()));
        }
        Ok(Cow::Owned(Composition {
            handlers,
            ..self.clone()
        }))
    }
}
