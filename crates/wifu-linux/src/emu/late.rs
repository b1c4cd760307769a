//! How late things were: a histogram of fixed size, fine enough for quantiles.

use serde::Serialize;
use wifu_wire::Span;

/// Cells per doubling: quantiles are right to 1/32.
const FINE: u64 = 32;
/// Doublings above [`FINE`] nanoseconds: up to 18 minutes.
const DOUBLINGS: usize = 35;

/// Histogram of how late things happened, from 1 ns to 18 minutes, each cell 3 % wide.
#[derive(Clone, Debug)]
pub struct Lateness {
    cells: Vec<u64>,
    count: u64,
    max: Span,
}

/// What is told of a [`Lateness`], microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// Number of latenesses.
    pub count: u64,
    /// Median: half are later.
    pub p50: f64,
    /// One in a hundred is later.
    pub p99: f64,
    /// One in a thousand is later.
    pub p999: f64,
    /// The greatest of all.
    pub max: f64,
}

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness {
            cells: vec![0; (FINE as usize) * (DOUBLINGS + 1)],
            count: 0,
            max: Span::ZERO,
        }
    }
}

impl Lateness {
    /// Count one lateness.
    pub fn add(&mut self, late: Span) {
        let last = self.cells.len() - 1;
        self.cells[cell(late.0).min(last)] += 1;
        self.count += 1;
        self.max = self.max.max(late);
    }

    /// Forget all that was counted.
    pub fn clear(&mut self) {
        *self = Lateness::default();
    }

    /// The lateness that a share `q` (0 to 1) does not exceed; zero of none.
    pub fn quantile(&self, q: f64) -> Span {
        let wanted = (q * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (i, n) in self.cells.iter().enumerate() {
            seen += n;
            if seen >= wanted {
                return Span(upper(i)).min(self.max);
            }
        }
        self.max
    }

    /// What there is to tell.
    pub fn quantiles(&self) -> Quantiles {
        let us = |s: Span| s.0 as f64 / 1e3;
        Quantiles {
            count: self.count,
            p50: us(self.quantile(0.5)),
            p99: us(self.quantile(0.99)),
            p999: us(self.quantile(0.999)),
            max: us(self.max),
        }
    }
}

/// The cell of a value: the first [`FINE`] have one each, then [`FINE`] for each doubling.
fn cell(ns: u64) -> usize {
    if ns < FINE {
        return ns as usize;
    }
    let doubling = u64::from(ns.ilog2() - FINE.ilog2());
    (FINE * doubling + (ns >> doubling)) as usize
}

/// The greatest value of a cell.
fn upper(cell: usize) -> u64 {
    let cell = cell as u64;
    if cell < 2 * FINE {
        return cell;
    }
    let doubling = cell / FINE - 1;
    ((cell - FINE * doubling + 1) << doubling) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_cover_every_value_once_and_within_a_thirtysecond() {
        for ns in (0..5000).chain([1 << 20, (1 << 20) + 1, 1_234_567_890]) {
            let (at, top) = (cell(ns), upper(cell(ns)));
            assert!(
                top >= ns && (top - ns) as f64 <= ns as f64 / 32.0,
                "{ns}: {top}"
            );
            assert!(
                at == 0 || upper(at - 1) < ns,
                "{ns} belongs to an earlier cell"
            );
        }
    }

    #[test]
    fn quantiles_of_a_ramp() {
        let mut late = Lateness::default();
        for us in 1..=1000u64 {
            late.add(Span(us * 1000));
        }
        let q = late.quantiles();
        assert_eq!((q.count, q.max), (1000, 1000.0));
        assert!(
            (q.p50 - 500.0).abs() < 16.0 && (q.p99 - 990.0).abs() <= 31.0,
            "{q:?}"
        );
        assert_eq!(Lateness::default().quantiles(), Quantiles::default());
    }
}
