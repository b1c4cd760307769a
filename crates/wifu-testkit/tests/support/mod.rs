//! Parts that exist for these tests only, and how a composition becomes a chain. Nothing here is
//! known to the engine: each file could live in another crate.
#![allow(dead_code)]

#[path = "../../../../examples/custom/src/opener.rs"]
pub mod opener;

use std::sync::Arc;
use wifu_engine::{Blueprint, Conn, Library, Limit, Registry};
use wifu_testkit::chain::{Chain, LinkPlan};
use wifu_wire::{Rate, Span};

/// The checked composition `name` of `text`.
pub fn blueprint(text: &str, name: &str, registry: &Registry) -> Arc<Blueprint> {
    let library = Library::parse(text).unwrap_or_else(|e| panic!("{e}"));
    blueprint_in(&library, name, registry)
}

/// The checked composition `name` of `library`.
pub fn blueprint_in(library: &Library, name: &str, registry: &Registry) -> Arc<Blueprint> {
    library
        .resolve(name, registry)
        .unwrap_or_else(|e| panic!("{e}"))
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

/// When the sink's application had everything; the present if it has not.
pub fn seconds(chain: &Chain) -> f64 {
    chain.app().eof_at().unwrap_or(chain.now()).as_secs_f64()
}

/// The share of that time in which this was what held the source back.
pub fn share(chain: &Chain, limit: Limit) -> f64 {
    chain.source().limits()[limit.index()].as_secs_f64() / seconds(chain)
}

/// Median time between departures of data at the source, microseconds.
pub fn median_gap_us(chain: &Chain) -> f64 {
    let gaps = chain.departures.windows(2).map(|w| (w[1] - w[0]).micros());
    let mut gaps: Vec<u64> = gaps.collect();
    gaps.sort_unstable();
    gaps[gaps.len() / 2] as f64
}
