//! Which crate may know which. The picture is in docs/src/architecture.md.

use crate::source::Finding;

/// (crate, the crates of ours that it may depend on).
const ARROWS: &[(&str, &[&str])] = &[
    ("wifu-wire", &[]),
    ("wifu-engine", &["wifu-wire"]),
    ("wifu-parts", &["wifu-wire", "wifu-engine"]),
    ("wifu-core", &["wifu-wire", "wifu-engine"]),
    ("wifu-node", &["wifu-wire", "wifu-engine", "wifu-core"]),
    ("wifu-radio", &["wifu-wire"]),
    (
        "wifu-sim",
        &[
            "wifu-wire",
            "wifu-engine",
            "wifu-parts",
            "wifu-core",
            "wifu-node",
            "wifu-radio",
        ],
    ),
    (
        "wifu-linux",
        &[
            "wifu-wire",
            "wifu-engine",
            "wifu-parts",
            "wifu-core",
            "wifu-node",
            "wifu-radio",
        ],
    ),
    ("wifu-socket", &["wifu-wire"]),
    ("wifu-c", &["wifu-socket"]),
    ("wifu-preload", &["wifu-wire", "wifu-socket"]),
    (
        "wifu",
        &[
            "wifu-wire",
            "wifu-engine",
            "wifu-parts",
            "wifu-core",
            "wifu-node",
            "wifu-radio",
            "wifu-sim",
            "wifu-linux",
        ],
    ),
    (
        "wifu-py",
        &[
            "wifu-wire",
            "wifu-engine",
            "wifu-parts",
            "wifu-core",
            "wifu-node",
            "wifu-radio",
            "wifu-sim",
            "wifu-linux",
        ],
    ),
    (
        "wifu-testkit",
        &[
            "wifu-wire",
            "wifu-engine",
            "wifu-parts",
            "wifu-core",
            "wifu-node",
            "wifu-radio",
            "wifu-sim",
        ],
    ),
];

/// Crates that are told the time and handed their packets.
pub const SANS_IO: &[&str] = &[
    "wifu-wire",
    "wifu-engine",
    "wifu-parts",
    "wifu-core",
    "wifu-node",
    "wifu-radio",
    "wifu-sim",
];

/// What a crate without input and output has no use for.
const SYSTEM: &[&str] = &[
    "libc",
    "rustix",
    "nix",
    "mio",
    "tokio",
    "socket2",
    "rand",
    "getrandom",
    "tracing",
    "log",
    "pyo3",
];

/// Checks one crate's Cargo.toml.
pub fn check(path: &str, manifest: &str) -> Vec<Finding> {
    let table: toml::Table = manifest
        .parse()
        .expect("cargo accepted this file before us");
    let name = table["package"]["name"]
        .as_str()
        .expect("a package has a name");
    let finding = |needle: &str, message: String| {
        let line = manifest
            .lines()
            .position(|l| l.starts_with(needle))
            .map_or(1, |n| n + 1);
        Finding {
            path: path.to_string(),
            line,
            message,
        }
    };
    let Some((_, allowed)) = ARROWS.iter().find(|(n, _)| *n == name) else {
        let message = format!(
            "{name} is not in the table of arrows (crates/wifu-testkit/tests/tidy/arrows.rs). \
             Decide which crates it may know, and draw it in docs/src/architecture.md."
        );
        return vec![finding("name", message)];
    };
    let mut found = Vec::new();
    for dep in dependencies(&table) {
        if dep == "wifu-testkit" {
            found.push(finding(&dep, format!(
                "{name} depends on wifu-testkit, which is for tests. Move it to [dev-dependencies]."
            )));
        } else if dep.starts_with("wifu") && !allowed.contains(&dep.as_str()) {
            let may = if allowed.is_empty() {
                "no crate of ours".into()
            } else {
                allowed.join(", ")
            };
            found.push(finding(&dep, format!(
                "{name} may not know {dep}; it may know {may}. What both need belongs in a crate \
                 below both; what only {dep} can do is passed in as an argument."
            )));
        } else if SANS_IO.contains(&name) && SYSTEM.contains(&dep.as_str()) {
            found.push(finding(
                &dep,
                format!(
                    "{name} is told the time and handed its packets, so it has no use for {dep}. \
                 What touches the system belongs in wifu-linux."
                ),
            ));
        }
    }
    let inherits = table
        .get("lints")
        .and_then(|l| l.get("workspace"))
        .and_then(|w| w.as_bool());
    if inherits != Some(true) {
        let message =
            format!("{name} does not use the workspace's lints. Add `[lints] workspace = true`.");
        found.push(finding("name", message));
    }
    found
}

/// Names under `[dependencies]`, `[build-dependencies]` and the same per target.
fn dependencies(table: &toml::Table) -> Vec<String> {
    let targets = table.get("target").and_then(|t| t.as_table());
    let per_target = targets
        .into_iter()
        .flat_map(|t| t.values())
        .filter_map(|t| t.as_table());
    let sections = std::iter::once(table).chain(per_target).flat_map(|t| {
        ["dependencies", "build-dependencies"]
            .into_iter()
            .filter_map(|key| t.get(key)?.as_table())
    });
    sections.flat_map(|s| s.keys().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, deps: &str) -> String {
        format!("[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n[dependencies]\n{deps}\n")
    }

    #[test]
    fn an_arrow_upwards_is_refused_with_its_place() {
        let found = check("Cargo.toml", &manifest("wifu-engine", "wifu-parts = \"1\""));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 6);
        assert!(
            found[0]
                .message
                .starts_with("wifu-engine may not know wifu-parts; it may know wifu-wire")
        );
    }

    #[test]
    fn substrates_do_not_know_each_other() {
        assert_eq!(
            check("Cargo.toml", &manifest("wifu-linux", "wifu-sim = \"1\"")).len(),
            1
        );
        assert_eq!(
            check("Cargo.toml", &manifest("wifu-sim", "wifu-linux = \"1\"")).len(),
            1
        );
        assert_eq!(
            check("Cargo.toml", &manifest("wifu-linux", "wifu-engine = \"1\"")),
            []
        );
    }

    #[test]
    fn test_equipment_and_system_crates_stay_out_of_the_engine() {
        assert_eq!(
            check("Cargo.toml", &manifest("wifu-engine", "libc = \"1\"")).len(),
            1
        );
        assert_eq!(
            check(
                "Cargo.toml",
                &manifest("wifu-engine", "wifu-testkit = \"1\"")
            )
            .len(),
            1
        );
        let dev = manifest("wifu-engine", "[dev-dependencies]\nwifu-testkit = \"1\"");
        assert_eq!(check("Cargo.toml", &dev), []);
        let target = manifest(
            "wifu-parts",
            "[target.'cfg(unix)'.dependencies]\nlibc = \"1\"",
        );
        assert_eq!(check("Cargo.toml", &target).len(), 1);
    }

    #[test]
    fn a_new_crate_must_be_placed_and_use_the_lints() {
        assert!(
            check("Cargo.toml", &manifest("wifu-new", ""))[0]
                .message
                .contains("table of arrows")
        );
        let bare = "[package]\nname = \"wifu-wire\"\n";
        assert!(
            check("Cargo.toml", bare)[0]
                .message
                .contains("workspace's lints")
        );
    }
}
