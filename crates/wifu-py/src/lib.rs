//! `wifu._native`: what the Python package `wifu` calls. Scenarios come in as JSON and outcomes go
//! out as JSON; series and frame traces go out as bytes that numpy reads in place.
#![forbid(unsafe_code)]
// The documentation of the functions is for Python's `help`.

use pyo3::prelude::*;

mod catalog;
mod known;
mod network;
mod run;

/// The simulator of WiFu, compiled.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(catalog::version, module)?)?;
    module.add_function(wrap_pyfunction!(catalog::protocols, module)?)?;
    module.add_function(wrap_pyfunction!(catalog::describe, module)?)?;
    module.add_function(wrap_pyfunction!(catalog::sets, module)?)?;
    module.add_function(wrap_pyfunction!(catalog::meant, module)?)?;
    module.add_function(wrap_pyfunction!(run::run, module)?)?;
    module.add_function(wrap_pyfunction!(run::check_scenario, module)?)?;
    module.add_function(wrap_pyfunction!(run::advice, module)?)?;
    module.add_function(wrap_pyfunction!(run::host_profile, module)?)?;
    module.add_function(wrap_pyfunction!(run::draws, module)?)?;
    module.add_function(wrap_pyfunction!(run::spurts, module)?)?;
    module.add_function(wrap_pyfunction!(run::testbed, module)?)?;
    module.add_function(wrap_pyfunction!(network::network, module)?)?;
    module.add_function(wrap_pyfunction!(network::routes, module)?)?;
    module.add_class::<run::RunResult>()?;
    Ok(())
}
