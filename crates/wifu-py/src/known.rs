//! What can be named: what comes with WiFu, and what libraries bring that the environment names.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::OnceLock;
use wifu_node::Registry;

/// Where shared libraries are told, as paths behind colons, as to every `wifu`.
const LIBRARIES: &str = "WIFU_LOAD";

/// Loaded when it is asked for first: libraries stay in the process.
static KNOWN: OnceLock<Result<Registry, String>> = OnceLock::new();

/// What there is without compositions of one's own; ValueError if a library can't be loaded.
pub fn known() -> PyResult<&'static Registry> {
    let known = KNOWN.get_or_init(load).as_ref();
    known.map_err(|e| PyValueError::new_err(e.clone()))
}

fn load() -> Result<Registry, String> {
    let mut all = Registry::new(wifu_parts::registry(), wifu_parts::library());
    let told = std::env::var_os(LIBRARIES).unwrap_or_default();
    let mut loaded = Vec::new();
    for path in std::env::split_paths(&told).filter(|p| !p.as_os_str().is_empty()) {
        let at = |e: &dyn std::fmt::Display| format!("{LIBRARIES}: {}: {e}", path.display());
        let whole = std::fs::canonicalize(&path).map_err(|e| at(&e))?;
        if !loaded.contains(&whole) {
            let brought = wifu_linux::load::load(&whole).map_err(|e| at(&e))?;
            all = all.with_brought(brought).map_err(|e| at(&e))?;
            loaded.push(whole);
        }
    }
    Ok(all)
}
