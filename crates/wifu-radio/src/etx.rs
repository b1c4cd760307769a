//! Expected transmission counts: how good the links of a plan are, and the routes that follow.
//!
//! ETX = 1/(df dr) with the chances that a 1500 B packet and one the other way survive one attempt
//! on the isolated link, averaged over its variation (De Couto et al., MobiCom 2003; here computed
//! from the model and not measured by probes).

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::mean_frame_error;
use crate::phy::{Mode, OVERHEAD};
use crate::plan::{Gain, NodePlan, Plan, RadioConfig};

/// Octets of the MPDU that links are judged by.
pub const PROBE: u32 = 1500 + OVERHEAD;

/// Chances of delivery as functions of mean SNR, tabulated once per kind of link: many pairs of a
/// plan share a mode, an error model and a deviation.
#[derive(Clone, Debug, Default)]
pub struct Curves {
    curves: Vec<Curve>,
}

#[derive(Clone, Debug)]
struct Curve {
    mode: Mode,
    radio: RadioConfig,
    sigma_db: f64,
    /// Distance of the points, dB.
    step: f64,
    values: Vec<f64>,
}

/// A curve covers these SNRs.
const RANGE_DB: (f64, f64) = (-10.0, 50.0);

impl Curves {
    /// Chance that one attempt of [`PROBE`] octets over `gain` arrives at `to`, without
    /// interference; 0 to 1.
    pub fn delivery(&mut self, mode: Mode, gain: &Gain, to: &RadioConfig) -> f64 {
        let snr = gain.mean_dbm - to.noise_dbm;
        if gain.sigma_db < 0.005 {
            return constant(mode, to, snr);
        }
        if snr < RANGE_DB.0 {
            return 0.0;
        }
        let same = |c: &Curve| {
            c.mode == mode && c.sigma_db == gain.sigma_db && same_receiver(&c.radio, to)
        };
        let at = match self.curves.iter().position(same) {
            Some(at) => at,
            None => {
                self.curves.push(curve(mode, to, gain.sigma_db));
                self.curves.len() - 1
            }
        };
        let Curve { step, values, .. } = &self.curves[at];
        let x = (snr - RANGE_DB.0) / step;
        let cell = (x as usize).min(values.len() - 2);
        let part = (x - cell as f64).min(1.0);
        values[cell] + part * (values[cell + 1] - values[cell])
    }
}

/// What a receiver's verdict on an isolated frame depends on.
fn same_receiver(a: &RadioConfig, b: &RadioConfig) -> bool {
    a.error == b.error
        && a.noise_dbm == b.noise_dbm
        && a.detects_dbm() == b.detects_dbm()
        && a.decode_dbm == b.decode_dbm
        && a.lock_db == b.lock_db
}

/// The least SNR at which a receiver takes a frame at all.
fn floor_db(to: &RadioConfig) -> f64 {
    let power = f64::max(to.detects_dbm(), to.decode_dbm);
    f64::max(power - to.noise_dbm, to.lock_db)
}

fn constant(mode: Mode, to: &RadioConfig, snr: f64) -> f64 {
    // A table's link at the very threshold of carrier sense is heard.
    if snr < floor_db(to) - 1e-9 {
        return 0.0;
    }
    1.0 - mean_frame_error(&to.error, mode, PROBE, snr, 0.0)
}

fn curve(mode: Mode, to: &RadioConfig, sigma_db: f64) -> Curve {
    // Fine enough for the bell, and for the jump that the fit of CCK makes at 10 dB.
    let step = (sigma_db / 20.0).clamp(0.005, 0.05);
    let cells = ((RANGE_DB.1 - RANGE_DB.0) / step) as usize + 1;
    // The chance at constant SNR once, then the mean over the deviations of each point.
    let reach = (6.0 * sigma_db / step).ceil() as usize;
    let fixed: Vec<f64> = (0..cells + 2 * reach)
        .map(|i| constant(mode, to, RANGE_DB.0 + (i as f64 - reach as f64) * step))
        .collect();
    let weight = |i: usize| {
        let z = (i as f64 - reach as f64) * step / sigma_db;
        libm::exp(-z * z / 2.0)
    };
    let weights: Vec<f64> = (0..=2 * reach).map(weight).collect();
    let total: f64 = weights.iter().sum();
    let mean = |at: usize| {
        let window = fixed[at..].iter().zip(&weights);
        window.map(|(v, w)| v * w).sum::<f64>() / total
    };
    Curve {
        mode,
        radio: to.clone(),
        sigma_db,
        step,
        values: (0..cells).map(mean).collect(),
    }
}

/// ETX of every pair of a plan, infinite where one direction never delivers; 0 on the diagonal.
pub fn etx(plan: &Plan) -> Vec<Vec<f64>> {
    matrix(&plan.nodes, &plan.gains, &mut Curves::default())
}

/// ETX of a link with these chances of delivery there and back.
pub(crate) fn cost(there: f64, back: f64) -> f64 {
    // Below one in a million both ways it is no link.
    match there * back < 1e-6 {
        true => f64::INFINITY,
        false => 1.0 / (there * back),
    }
}

/// [`etx`] with curves that are kept between plans whose radios are alike.
pub(crate) fn matrix(
    nodes: &[NodePlan],
    gains: &[Vec<Gain>],
    curves: &mut Curves,
) -> Vec<Vec<f64>> {
    let n = nodes.len();
    let mut chance = vec![vec![0.0; n]; n];
    for (from, row) in gains.iter().enumerate() {
        let mode = nodes[from].radio.rate;
        for gain in row {
            let to = usize::from(gain.to);
            chance[from][to] = curves.delivery(mode, gain, &nodes[to].radio);
        }
    }
    let pair = |i: usize, j: usize| match i == j {
        true => 0.0,
        false => cost(chance[i][j], chance[j][i]),
    };
    (0..n)
        .map(|i| (0..n).map(|j| pair(i, j)).collect())
        .collect()
}

/// Routes of least total cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Routes {
    /// `next[from][to]`: the neighbour; none if there is no route or `to` is `from`.
    pub next: Vec<Vec<Option<u16>>>,
    /// Links on the route; 0 if there is none.
    pub hops: Vec<Vec<u16>>,
    /// Sum of the costs; infinite if there is no route.
    pub cost: Vec<Vec<f64>>,
}

impl Routes {
    /// Over a matrix of link costs, infinite for no link. Of equally good routes the one with fewer
    /// hops, then the one whose last hop leaves the node with the lower number.
    pub fn over(costs: &[Vec<f64>]) -> Routes {
        let usable = |from: usize, row: &Vec<f64>| -> Vec<(u16, f64)> {
            let links = row.iter().enumerate();
            links
                .filter(|(to, cost)| *to != from && cost.is_finite())
                .map(|(to, cost)| (to as u16, *cost))
                .collect()
        };
        let links: Vec<_> = costs
            .iter()
            .enumerate()
            .map(|(i, row)| usable(i, row))
            .collect();
        let mut routes = Routes {
            next: Vec::with_capacity(links.len()),
            hops: Vec::with_capacity(links.len()),
            cost: Vec::with_capacity(links.len()),
        };
        for from in 0..links.len() {
            let tree = Tree::from(&links, from);
            routes.next.push(tree.next);
            routes.hops.push(tree.hops);
            routes.cost.push(tree.cost);
        }
        routes
    }

    /// Every node reaches every other.
    pub fn connected(&self) -> bool {
        self.cost.iter().flatten().all(|c| c.is_finite())
    }

    /// Hops of the longest route.
    pub fn longest(&self) -> u16 {
        self.hops.iter().flatten().copied().max().unwrap_or(0)
    }
}

/// The routes from one node.
struct Tree {
    next: Vec<Option<u16>>,
    hops: Vec<u16>,
    cost: Vec<f64>,
}

impl Tree {
    /// Dijkstra's algorithm.
    fn from(links: &[Vec<(u16, f64)>], from: usize) -> Tree {
        let n = links.len();
        let mut tree = Tree {
            next: vec![None; n],
            hops: vec![0; n],
            cost: vec![f64::INFINITY; n],
        };
        let mut done = vec![false; n];
        // Costs are not negative, so their bits are in their order.
        let mut open = BinaryHeap::from([Reverse((0u64, 0u16, from as u16))]);
        tree.cost[from] = 0.0;
        while let Some(Reverse((_, _, at))) = open.pop() {
            let at = usize::from(at);
            if core::mem::replace(&mut done[at], true) {
                continue;
            }
            for &(to, link) in &links[at] {
                let (node, total) = (usize::from(to), tree.cost[at] + link);
                if done[node] || !tree.better(node, total, tree.hops[at] + 1) {
                    continue;
                }
                tree.cost[node] = total;
                tree.hops[node] = tree.hops[at] + 1;
                tree.next[node] = tree.next[at].or(Some(to));
                open.push(Reverse((total.to_bits(), tree.hops[node], to)));
            }
        }
        tree
    }

    fn better(&self, to: usize, cost: f64, hops: u16) -> bool {
        // Sums of the same links in another order differ in their last bits: no reason to turn.
        let slack = 1e-9 * cost;
        let tie = (cost - self.cost[to]).abs() <= slack;
        cost < self.cost[to] - slack || (tie && hops < self.hops[to])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phy::{Phy, Standard};
    use wifu_wire::{Rng, Span};

    fn gain(radio: &RadioConfig, snr: f64, sigma_db: f64) -> Gain {
        Gain {
            to: 1,
            mean_dbm: radio.noise_dbm + snr,
            sigma_db,
            tau: Span::SECOND,
            rng: Rng::new(1),
        }
    }

    #[test]
    fn delivery_is_what_the_error_model_says() {
        let a = RadioConfig::new(&Phy::new(Standard::A, false), Mode(8));
        let mut curves = Curves::default();
        for (snr, sigma) in [
            (16.0, 2.0),
            (15.0, 1.0),
            (17.3, 2.5),
            (13.4, 0.1),
            (14.0, 0.0),
        ] {
            let exact = 1.0 - mean_frame_error(&a.error, Mode(8), PROBE, snr, sigma);
            let found = curves.delivery(Mode(8), &gain(&a, snr, sigma), &a);
            assert!(
                (exact - found).abs() < 1e-3,
                "{snr} {sigma}: {found}, not {exact}"
            );
        }
        assert_eq!(curves.curves.len(), 4);
        // The jump of the fit at 10 dB, 0.13 dB above the mean.
        let b = RadioConfig::new(&Phy::new(Standard::B, true), Mode(3));
        let lost = 1.0 - curves.delivery(Mode(3), &gain(&b, 9.87, 0.1), &b);
        assert!((0.29..0.34).contains(&lost), "{lost}");
    }

    #[test]
    fn a_frame_below_carrier_sense_is_not_received_however_clean() {
        let mut radio = RadioConfig::default();
        let g = gain(&radio, 10.0, 0.0);
        assert!(Curves::default().delivery(Mode(4), &g, &radio) > 0.999);
        radio.cs_dbm = radio.noise_dbm + 10.5;
        assert_eq!(Curves::default().delivery(Mode(4), &g, &radio), 0.0);
    }

    #[test]
    fn the_cheapest_route_wins_and_then_the_shortest() {
        let x = f64::INFINITY;
        // 0-1-2-3 costs 3, 0-3 costs 3.5, 0-2 costs 2.
        let costs = vec![
            vec![0.0, 1.0, 2.0, 3.5, x],
            vec![1.0, 0.0, 1.0, x, x],
            vec![2.0, 1.0, 0.0, 1.0, x],
            vec![3.5, x, 1.0, 0.0, x],
            vec![x, x, x, x, 0.0],
        ];
        let routes = Routes::over(&costs);
        assert_eq!((routes.next[0][3], routes.hops[0][3]), (Some(2), 2));
        assert_eq!(routes.next[3][0], Some(2));
        assert_eq!((routes.next[0][0], routes.next[0][4]), (None, None));
        assert!(!routes.connected());
        assert_eq!(routes.longest(), 2);
    }
}
