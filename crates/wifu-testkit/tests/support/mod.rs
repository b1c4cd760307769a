//! Parts that exist for these tests only, and how a composition becomes a chain. Nothing here is
//! known to the engine: each file could live in another crate.
#![allow(dead_code)]

pub mod opener;

use std::sync::Arc;
use wifu_engine::{Blueprint, Conn, Library, Registry};
use wifu_testkit::chain::LinkPlan;
use wifu_wire::{Rate, Span};

/// The checked composition `name` of `text`.
pub fn blueprint(text: &str, name: &str, registry: &Registry) -> Arc<Blueprint> {
    let library = Library::parse(text).unwrap_or_else(|e| panic!("{e}"));
    library
        .resolve(name, registry)
        .unwrap_or_else(|e| panic!("{e}"))
}

/// The checked composition `name` of `text`, over the packets of `carried`.
pub fn lane(text: &str, name: &str, carried: &Blueprint, registry: &Registry) -> Arc<Blueprint> {
    let library = Library::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let c = library.expand(name).unwrap_or_else(|e| panic!("{e}"));
    Arc::new(Blueprint::new_over(carried, &c, registry).unwrap_or_else(|e| panic!("{e}")))
}

/// A probability in parts of 2^32.
pub fn percent(p: u32) -> u32 {
    ((1u64 << 32) * u64::from(p) / 100) as u32
}

/// Links of these rates in Mb/s, 1 ms long.
pub fn links(rates: &[u64], queue: usize, loss: u32) -> Vec<LinkPlan> {
    let link = |mbps: &u64| LinkPlan {
        rate: Rate(mbps * 1_000_000),
        delay: Span::MILLI,
        queue,
        loss,
        deaf: loss,
    };
    rates.iter().map(link).collect()
}

/// The internal quantity `name` of whichever part reports it first.
pub fn probe(conn: &Conn, name: &str) -> f64 {
    let mut found = None;
    conn.observe(&mut |_, probe, value| {
        if probe == name {
            found.get_or_insert(value);
        }
    });
    found.unwrap_or_else(|| panic!("no part has the probe {name}"))
}
