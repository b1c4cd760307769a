//! What there is: protocols with their parameters.

use crate::known::known;
use crate::run::with;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Value as Json, json};
use wifu_engine::blueprint::ENGINE_PARAMS;
use wifu_engine::{Blueprint, ParamSpec};
use wifu_wire::names;

/// The version of the simulator.
#[pyfunction]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Names of the protocols: those built in, and of libraries that WIFU_LOAD names.
#[pyfunction]
pub fn protocols() -> PyResult<Vec<String>> {
    let mut names = known()?.library().protocols().to_vec();
    names.push(String::from("udp"));
    Ok(names)
}

/// Names of the built-in testbed sets.
#[pyfunction]
pub fn sets() -> Vec<String> {
    wifu_radio::sets::names().map(String::from).collect()
}

/// The question whether the one of `known` that is nearest to `name` was meant, if one is near
/// enough: "did you mean `x`?", as the programs ask it.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn meant(name: &str, known: Vec<String>) -> Option<String> {
    names::meant(name, known.iter().map(String::as_str))
}

/// Everything about a protocol as JSON: its parts and all their parameters with value and range,
/// and what its profile sets and no part of it takes (`unused`).
///
/// `name` may set parameters: `tcp-newreno,iw=4`. Raises ValueError if there is none.
///
/// `compositions`: TOML texts with protocols and profiles beside the built-in ones.
#[pyfunction]
#[pyo3(signature = (name, compositions = Vec::new()))]
#[allow(clippy::needless_pass_by_value)]
pub fn describe(name: &str, compositions: Vec<String>) -> PyResult<String> {
    let registry = &with(&compositions)?;
    let library = registry.library();
    let stem = name.split(',').next().unwrap_or_default();
    if !library.protocols().iter().any(|p| p == stem) {
        let hint = names::hint(stem, library.protocols().iter().map(String::as_str));
        let message = format!("no protocol is called \"{stem}\"{hint}");
        return Err(PyValueError::new_err(message));
    }
    match registry.resolve(name) {
        Ok(found) => Ok(protocol(&found.ends).to_string()),
        Err(error) => Err(PyValueError::new_err(error.to_string())),
    }
}

fn protocol(b: &Blueprint) -> Json {
    let parts = b.parts.iter().map(|part| {
        let value = |p: &ParamSpec| {
            let found = part.values.iter().find(|v| v.0 == p.name);
            found.map_or_else(|| p.default.to_string(), |v| v.1.to_string())
        };
        let params: Vec<Json> = part
            .desc
            .params
            .iter()
            .map(|p| param(p, value(p)))
            .collect();
        json!({"role": part.desc.role.key(), "part": part.desc.name, "doc": part.desc.doc,
            "cites": part.desc.cites, "params": params})
    });
    let engine = ENGINE_PARAMS.iter().map(|p| {
        let value = b
            .value(p.name)
            .map_or_else(|| p.default.to_string(), |v| v.to_string());
        param(p, value)
    });
    json!({
        "name": b.name, "doc": b.doc, "number": b.number, "wire": b.wire.name(),
        "profile": b.profile, "id": format!("{:08x}", b.id), "unused": b.unused,
        "parts": parts.collect::<Vec<_>>(), "engine": engine.collect::<Vec<_>>(),
    })
}

fn param(p: &ParamSpec, value: String) -> Json {
    json!({"name": p.name, "value": value, "default": p.default.to_string(),
        "low": p.low.to_string(), "high": p.high.to_string(), "choices": p.choices, "doc": p.doc})
}
