//! What handlers act upon, can do without, and nobody tells them.

use crate::config::Config;
use crate::kinds::Kinds;
use wifu_engine::Fact;

impl Config {
    /// Of the facts that handlers act upon and can do without those that nobody tells, each with
    /// its handler's name.
    pub fn short_of(&self, kinds: &Kinds, told: &[Fact]) -> Vec<(&'static str, Fact)> {
        let known = self
            .handlers
            .iter()
            .filter_map(|c| kinds.find(&c.name).ok());
        let facts = known.flat_map(|d| d.prefers.iter().map(|fact| (d.name, *fact)));
        facts.filter(|(_, fact)| !told.contains(fact)).collect()
    }
}
