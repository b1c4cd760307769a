//! What the tests of this crate's protocols between kernels have in common.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde_json::Value;
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::Outcome;
use wifu_sim::scenario::Scenario;

/// The command with this crate's protocols.
pub const CUSTOM: &str = env!("CARGO_BIN_EXE_custom");
/// The program that plays either end.
pub const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peer.py");

/// Whether namespaces can be made. A test that can't run fails, unless that is asked for.
pub fn privileged() -> bool {
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
    let skip = std::env::var_os("WIFU_SKIP_PRIVILEGED").is_some_and(|v| v == "1");
    assert!(
        root || skip,
        "this test makes network namespaces and needs root"
    );
    root
}

pub fn number(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("{key} in {of}"))
}

/// Remove a folder with what programs said, unless the test has failed.
pub fn remove(said: &Path) {
    match std::thread::panicking() {
        true => eprintln!("what was said is kept in {}", said.display()),
        false => drop(std::fs::remove_dir_all(said)),
    }
}

/// The simulator's outcome of a transfer of so many octets, from n1 to the host `to` of a topology
/// in words.
pub fn simulate(topology: &str, to: &str, protocol: &str, octets: u32) -> Outcome {
    let text = format!(
        "[topology]\nwords = \"{topology}\"\n[stop]\ntime = \"60s\"\n[[flow]]\nfrom = \"n1\"\n\
         to = \"{to}\"\nprotocol = \"{protocol}\"\napp = \"file\"\nbytes = \"{octets}\"\n"
    );
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}"));
    let registry = custom::register(wifu::standard());
    let simulation = Simulation::new(&scenario, &registry);
    let mut simulation = simulation.unwrap_or_else(|e| panic!("{e}"));
    simulation.run();
    simulation.outcome()
}
