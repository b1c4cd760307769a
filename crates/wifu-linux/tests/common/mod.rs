//! What tests that need root share.

/// Whether namespaces can be made. A test that can't run fails, unless that is asked for.
pub fn privileged() -> bool {
    let root = rustix::process::geteuid().is_root();
    let skip = std::env::var_os("WIFU_SKIP_PRIVILEGED").is_some_and(|v| v == "1");
    assert!(
        root || skip,
        "this test makes network namespaces and needs root; WIFU_SKIP_PRIVILEGED=1 leaves it out"
    );
    if !root {
        eprintln!("skipped: needs root");
    }
    root
}
