//! Whose packets a scenario's handlers mean that name a composition.

use super::build::{Open, as_tcp};
use crate::scenario::{Scenario, ScenarioError};
use std::borrow::Cow;
use std::sync::Arc;
use wifu_core::Kinds;
use wifu_node::{Protocol, mistaken, name_handlers};

/// What there is to make the scenario's handlers from, with the compositions that they name.
/// `served`: those of flows, of which hosts that send more than the scenario says (not `alone`)
/// have each its own number.
///
/// # Errors
/// The path of a handler's key, and what is wrong with it: no such composition, or no node could
/// tell its packets from those of another flow's.
pub(super) fn kinds<'o>(
    scenario: &Scenario,
    served: &[Arc<Protocol>],
    (open, alone): (Open<'o>, bool),
) -> Result<Cow<'o, Kinds>, ScenarioError> {
    let here = |p: &Arc<Protocol>| match alone {
        true => as_tcp(p),
        false => Arc::clone(p),
    };
    let served: Vec<Arc<Protocol>> = served.iter().map(here).collect();
    let find = |text: &str| {
        // Parameters may change a header: by the bare name it is that of the flows.
        let run = served.iter().find(|p| p.ends.name == text);
        let found = match run {
            Some(run) => Arc::clone(run),
            None => here(&open.protocol(text)?),
        };
        let name = &found.ends.name;
        let absent = match served.iter().any(|p| p.ends.name == *name) {
            true => String::new(),
            false => format!("no flow has the protocol {name}, and "),
        };
        match served.iter().find_map(|other| mistaken(&found, other)) {
            Some(what) => Err(absent + &what),
            None => Ok(found),
        }
    };
    let handlers = scenario.handler.iter().map(|h| &h.config);
    let named = name_handlers(open.kinds(), handlers, find);
    named.map_err(|(i, what)| ScenarioError::key(format!("handler[{i}].protocol"), what))
}
