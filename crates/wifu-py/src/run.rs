//! Scenarios in, outcomes out.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::known::known;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::{Map, Value as Json};
use wifu_engine::Library;
use wifu_node::Registry;
use wifu_sim::air_pcap::Captures;
use wifu_sim::causes::Causes;
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::Outcome;
use wifu_sim::scenario::{AppKind, FlowSpec, Scenario};
use wifu_sim::traffic;
use wifu_sim::why;
use wifu_sim::{Rng, Span};

/// Simulated time between two looks at the clock.
const STEP: Span = Span(100_000_000);
/// Time between two questions to Python whether somebody pressed Ctrl-C.
const PATIENCE: Duration = Duration::from_millis(200);

/// What one run gave.
#[pyclass(frozen, module = "wifu._native")]
pub struct RunResult {
    outcome: Outcome,
    frames: Vec<u8>,
    pcap: Vec<u8>,
    why: Option<Json>,
}

#[pymethods]
impl RunResult {
    /// The outcome as JSON; the same for the same scenario, octet for octet. If the scenario
    /// records frames, `why` says why attempts failed.
    fn json(&self) -> String {
        let mut all = self.outcome.to_json();
        if let Some(why) = &self.why {
            all["why"] = why.clone();
        }
        all.to_string()
    }

    /// Names of the recorded series, sorted.
    fn series_names(&self) -> Vec<String> {
        self.outcome.series.keys().cloned().collect()
    }

    /// Pairs of little-endian doubles (time in s, value); KeyError if there is none.
    fn series<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyBytes>> {
        let Some(points) = self.outcome.series.get(name) else {
            return Err(PyKeyError::new_err(name.to_string()));
        };
        let pairs = points.iter().flat_map(|(t, v)| [*t, *v]);
        let octets: Vec<u8> = pairs.flat_map(f64::to_le_bytes).collect();
        Ok(PyBytes::new(py, &octets))
    }

    /// The frame trace, 32 bytes a record; empty unless the scenario records it.
    fn frames<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.frames)
    }

    /// The capture of all nodes' IP packets as pcapng; empty unless the scenario records it.
    fn pcap<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.pcap)
    }

    fn __repr__(&self) -> String {
        let o = &self.outcome;
        format!(
            "<RunResult: {} flows, {:.3} s simulated, hash {}>",
            o.flows.len(),
            o.sim_seconds,
            o.trace_hash
        )
    }
}

/// Run a scenario; other threads run meanwhile.
///
/// ValueError if it means nothing, with the key's path; KeyboardInterrupt stops it.
///
/// `compositions`: TOML texts with protocols and profiles beside the built-in ones.
#[pyfunction]
#[pyo3(signature = (scenario_json, compositions = Vec::new()))]
pub fn run(py: Python<'_>, scenario_json: &str, compositions: Vec<String>) -> PyResult<RunResult> {
    let scenario = parsed(scenario_json)?;
    let registry = with(&compositions)?;
    py.detach(|| simulated(&scenario, &registry))
}

/// The scenario with everything that it leaves out filled in; ValueError if it means nothing.
///
/// Protocols, node names and the topology are checked as well. With `others` it is for hosts that
/// send more than it says.
#[pyfunction]
#[pyo3(signature = (scenario_json, compositions = Vec::new(), others = false))]
pub fn check_scenario(
    py: Python<'_>,
    scenario_json: &str,
    compositions: Vec<String>,
    others: bool,
) -> PyResult<String> {
    let scenario = parsed(scenario_json)?;
    let registry = with(&compositions)?;
    py.detach(|| match others {
        true => Simulation::check_among_others(&scenario, &registry).map_err(wrong),
        false => opened(&scenario, &registry).map(drop),
    })?;
    Ok(scenario.to_json().to_string())
}

/// What packets cost the hosts where they begin and end: `off` or `py`, by the scenario's
/// `host.profile` or else by its topology's.
#[pyfunction]
pub fn host_profile(py: Python<'_>, scenario_json: &str) -> PyResult<&'static str> {
    let scenario = parsed(scenario_json)?;
    py.detach(|| {
        let topology = wifu_sim::mesh::topology(&scenario).map_err(wrong)?;
        let profile = scenario.host.profile.or(topology.host.profile);
        Ok(profile.unwrap_or_default().name())
    })
}

/// What a scenario has that is easily taken for something else, as sentences.
#[pyfunction]
pub fn advice(py: Python<'_>, scenario_json: &str) -> PyResult<Vec<String>> {
    let scenario = parsed(scenario_json)?;
    Ok(py.detach(|| wifu_sim::advice::advice(&scenario)))
}

/// What is random of each flow of a scenario, as JSON: a list of `start_s` and `stream`, which
/// `wifu perf --stream` takes. Protocols are not looked at.
///
/// `names`: the nodes in order, for scenarios that do not say where they come from.
#[pyfunction]
#[pyo3(signature = (scenario_json, names = Vec::new()))]
pub fn draws(py: Python<'_>, scenario_json: &str, names: Vec<String>) -> PyResult<String> {
    let scenario = parsed(scenario_json)?;
    py.detach(|| {
        let names = match names.is_empty() {
            true => nodes(&scenario).map_err(wrong)?,
            false => names,
        };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let drawn = traffic::draws(&scenario, &names).map_err(wrong)?;
        let rows = drawn.iter().map(|flow| {
            let stream = format!("{:016x}", flow.stream.state());
            serde_json::json!({"start_s": flow.start.as_secs_f64(), "stream": stream})
        });
        Ok(rows.collect::<Json>().to_string())
    })
}

/// What the testbed of a scenario says beside its radios, as JSON: the `world` of its set, or null,
/// and the `protocols` of the flows as they are there.
#[pyfunction]
pub fn testbed(scenario_json: &str) -> PyResult<String> {
    let scenario = parsed(scenario_json)?;
    let topology = wifu_sim::mesh::topology(&scenario).map_err(wrong)?;
    let flows = scenario.flow.iter();
    let protocols: Vec<String> = flows.map(|f| topology.transport(&f.protocol)).collect();
    Ok(serde_json::json!({"world": topology.world, "protocols": protocols}).to_string())
}

/// When a flow of `onoff` over `udp` sends its datagrams, as JSON: `spurts` of (begin, how many),
/// and the `gap` between two datagrams of one; all in seconds since its start, before `seconds`.
///
/// `words`: the application as `wifu perf --app` takes it. `stream`: what `draws` said. `payload`:
/// octets of the application in a datagram.
#[pyfunction]
pub fn spurts(
    py: Python<'_>,
    words: &str,
    stream: &str,
    payload: u64,
    seconds: f64,
) -> PyResult<String> {
    let spec = FlowSpec::application(words).map_err(wrong)?;
    if spec.app != AppKind::OnOff {
        return Err(wrong(format!("{}: only `onoff` talks", spec.app.name())));
    }
    let state = u64::from_str_radix(stream, 16).map_err(wrong)?;
    py.detach(|| {
        let until = Span::from_secs_f64(seconds);
        let found = traffic::spurts(&spec, payload, &Rng::from_state(state), until);
        let rows = found.spurts.iter();
        let rows: Vec<_> = rows.map(|(at, n)| (at.as_secs_f64(), n)).collect();
        let told = serde_json::json!({"gap": found.gap.as_secs_f64(), "spurts": rows});
        Ok(told.to_string())
    })
}

/// The nodes of a scenario's topology, in order.
fn nodes(scenario: &Scenario) -> Result<Vec<String>, String> {
    let topology = wifu_sim::mesh::topology(scenario).map_err(|e| e.to_string())?;
    let plan = wifu_radio::topology::resolve(&topology, &scenario.rng());
    let plan = plan.map_err(|e| format!("topology: {e}"))?;
    Ok(plan.nodes.into_iter().map(|node| node.name).collect())
}

pub(crate) fn wrong(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Reads it; the content of a topology file is put in.
pub(crate) fn parsed(text: &str) -> PyResult<Scenario> {
    let scenario = Scenario::from_json(text).map_err(wrong)?;
    let Some(file) = &scenario.topology.file else {
        return Ok(scenario);
    };
    let content = topology(&PathBuf::from(file)).map_err(wrong)?;
    let mut all = scenario.to_json();
    if let Some(own) = all["topology"].as_object_mut() {
        own.remove("file");
        for (key, value) in content {
            own.entry(key).or_insert(value);
        }
    }
    Scenario::from_json(&all.to_string()).map_err(wrong)
}

fn topology(path: &Path) -> Result<Map<String, Json>, String> {
    let at = |e: &dyn std::fmt::Display| format!("topology.file: {}: {e}", path.display());
    let text = std::fs::read_to_string(path).map_err(|e| at(&e))?;
    toml::from_str(&text).map_err(|e| at(&e))
}

/// What there is, and these compositions.
pub(crate) fn with(compositions: &[String]) -> PyResult<Registry> {
    let mut all = known()?.clone();
    for text in compositions {
        all = all.with_library(Library::parse(text).map_err(wrong)?);
    }
    Ok(all)
}

fn opened(scenario: &Scenario, registry: &Registry) -> PyResult<Simulation> {
    Simulation::new(scenario, registry).map_err(wrong)
}

fn simulated(scenario: &Scenario, registry: &Registry) -> PyResult<RunResult> {
    let mut simulation = opened(scenario, registry)?;
    let captures = scenario
        .record
        .pcap
        .is_some()
        .then(|| Captures::new(simulation.plan(), true, false));
    if let Some(captures) = &captures {
        simulation.set_tap(captures.tap());
    }
    let mut frames = Vec::new();
    let mut causes = Causes::default();
    let mut asked = Instant::now();
    loop {
        let ended = simulation.step_until(simulation.now() + STEP);
        for record in simulation.take_frames() {
            causes.add(&record);
            frames.extend(record.encode());
        }
        if ended {
            break;
        }
        if asked.elapsed() > PATIENCE {
            Python::attach(|py| py.check_signals())?;
            asked = Instant::now();
        }
    }
    let why = scenario.record.frames.then(|| {
        let plan = simulation.plan();
        let names: Vec<&str> = plan.nodes.iter().map(|n| n.name.as_str()).collect();
        why::told(&causes, &names)
    });
    Ok(RunResult {
        outcome: simulation.outcome(),
        why,
        frames,
        pcap: captures.map_or(Vec::new(), |c| c.take_ip()),
    })
}
