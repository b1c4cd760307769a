//! A part that reads what only a substrate knows says so: where nobody tells it, that is told.

use crate::source::{Finding, Source};
use wifu_engine::Fact;

const PARTS: &str = "crates/wifu-parts/src/";

/// Facts of the board and of frames that a part reads and its descriptor names nowhere: not in
/// `requires`, `requires_either` or `prefers`.
pub fn declared(source: &Source) -> Vec<Finding> {
    if !source.path.starts_with(PARTS) {
        return Vec::new();
    }
    undeclared(source)
}

/// The same of any file.
pub fn undeclared(source: &Source) -> Vec<Finding> {
    let read = |fact: &Fact| fact.for_parts() && fact.name().contains('.');
    let mut found = Vec::new();
    for fact in Fact::ALL.into_iter().filter(read) {
        let named = source.uses(&format!("Fact::{fact:?}"));
        if let (Some(line), []) = (source.uses(fact.name()).first(), &*named) {
            let message = format!(
                "reads `{}`, which not every substrate tells, and its descriptor does not say so: \
                 `Fact::{fact:?}` in `requires`, `requires_either` or `prefers`.",
                fact.name()
            );
            found.push(source.finding(*line, message));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_that_is_read_and_not_declared_is_caught() {
        let lines = |path: &str, more: &str| {
            let text = format!(
                "{more}\nfn hops(b: &Board) -> Hops {{\n    b.site.route_hops.or(b.site.rates)\n}}\n\
                 #[cfg(test)]\nmod tests {{\n    fn a() {{ b.site.rate = x; }}\n}}\n"
            );
            let found = declared(&Source::new(path, &text));
            found.iter().map(|f| f.line).collect::<Vec<_>>()
        };
        let part = "crates/wifu-parts/src/gate/x.rs";
        assert_eq!(lines(part, ""), [3]);
        assert_eq!(lines(part, "const F: Fact = Fact::RouteHops;"), [0; 0]);
        assert_eq!(lines(part, "// Fact::RouteHops"), [3]);
        assert_eq!(lines("crates/wifu-engine/src/kit/x.rs", ""), [0; 0]);
    }
}
