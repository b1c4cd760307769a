//! Tables of a chain's hops, and the rule that makes a matrix of them.

use super::spec::{ChainSpec, Hop, Topology};

/// Prefix sums of a chain's hops in both directions.
pub(super) struct Chain {
    forward: Vec<f64>,
    reverse: Vec<f64>,
    /// 10 times the exponent.
    per_decade: f64,
}

impl Chain {
    pub(super) fn new(spec: &ChainSpec, nodes: usize, topology: &Topology) -> Chain {
        let mean = mean_hop(spec);
        let table: Vec<(f64, f64)> = spec.snr_db.iter().map(both).collect();
        let hop = |i: usize| match table.get(i) {
            Some(hop) => *hop,
            None if spec.repeat && !table.is_empty() => table[i % table.len()],
            None => mean,
        };
        let sums = |pick: fn((f64, f64)) -> f64| {
            let hops = (0..nodes.saturating_sub(1)).map(hop).map(pick);
            let mut sums = vec![0.0];
            sums.extend(hops.scan(0.0, |sum, snr| {
                *sum += snr;
                Some(*sum)
            }));
            sums
        };
        Chain {
            forward: sums(|h| h.0),
            reverse: sums(|h| h.1),
            per_decade: 10.0 * topology.propagation.exponent.unwrap_or(3.0),
        }
    }

    pub(super) fn nodes(&self) -> usize {
        self.forward.len()
    }

    /// Mean of the hops between, less the extra distance.
    pub(super) fn snr_db(&self, from: usize, to: usize) -> f64 {
        let sums = match from < to {
            true => &self.forward,
            false => &self.reverse,
        };
        let hops = from.abs_diff(to) as f64;
        let sum = sums[from.max(to)] - sums[from.min(to)];
        sum / hops - self.per_decade * libm::log10(hops)
    }
}

/// Forward and reverse.
pub(super) fn both(hop: &Hop) -> (f64, f64) {
    match *hop {
        Hop::Both(db) => (db, db),
        Hop::Each([forward, reverse]) => (forward, reverse),
    }
}

/// The mean of a table, forward and reverse.
pub(crate) fn mean_hop(chain: &ChainSpec) -> (f64, f64) {
    let n = chain.snr_db.len().max(1) as f64;
    let sum = chain.snr_db.iter().map(both).fold((0.0, 0.0), |a, b| {
        let (forward, reverse): (f64, f64) = a;
        (forward + b.0, reverse + b.1)
    });
    (sum.0 / n, sum.1 / n)
}
