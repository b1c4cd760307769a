//! A hop-by-hop protocol of one's own: a gate for lanes, and the composition that has it.
#![forbid(unsafe_code)]

mod heard_window;
#[cfg(test)]
mod tests;

use wifu_engine::Library;
use wifu_node::Registry;

wifu_node::export!(register);

/// What there is, with what this crate adds to it.
fn register(registry: Registry) -> Registry {
    let mine = Library::parse(include_str!("hopwise.toml")).expect("a test holds that it parses");
    let registry = registry.with_parts(&[&heard_window::HEARD_WINDOW]);
    registry.with_library(mine)
}
