//! From a topology to a plan.

use wifu_wire::{Rate, Rng, Span};

use crate::etx::{self, Curves, Routes};
use crate::geometry::{Emission, Geometry};
use crate::phy::Phy;
use crate::plan::{Gain, NodePlan, Plan, RadioConfig, Variation, WirePlan};
use crate::propagation::Shadowing;

use super::chain::{Chain, mean_hop};
use super::error::TopologyError;
use super::radio::{channel, configure};
use super::spec::*;
use super::{effect, interferer, law, place, values};

/// A table of SNRs as received power: what is added to an SNR.
struct Reference {
    power_dbm: f64,
    noise_dbm: f64,
}

/// What is the same in every draw of a random placement.
struct Fixed<'a> {
    topology: &'a Topology,
    phy: Phy,
    specs: Vec<NodeSpec>,
    /// The radio of `[radio]`, without what nodes override.
    base: (RadioConfig, Emission),
    nodes: Vec<NodePlan>,
    emissions: Vec<Emission>,
}

pub(super) fn resolve(topology: &Topology, rng: &Rng) -> Result<Plan, TopologyError> {
    let fixed = Fixed::new(topology)?;
    let (placement, shadowing) = (rng.split("placement"), rng.split("shadowing"));
    let accept = topology.placement.as_ref().and_then(|p| p.accept.clone());
    let draws = match &accept {
        None => 1,
        Some(a) => a.max_draws.unwrap_or(100_000),
    };
    let fading = rng.split("fading");
    let links = fixed.links()?;
    let chain = topology.chain.as_ref();
    let chain = chain.map(|c| Chain::new(c, fixed.chained(), topology));
    let mut curves = Curves::default();
    for draw in 0..u64::from(draws) {
        let drawn = Drawn {
            fixed: &fixed,
            links: &links,
            chain: chain.as_ref(),
            places: place::positions(topology, &fixed.specs, &placement.split_n(draw))?,
            geometry: fixed.geometry(&shadowing.split_n(draw)),
            fading: &fading,
        };
        let gains = match &accept {
            None => drawn.gains(),
            Some(a) => match drawn.accepted(a, &mut curves) {
                Some(gains) => gains,
                None => continue,
            },
        };
        let draw = accept.is_some().then_some(draw);
        let Drawn {
            places, geometry, ..
        } = drawn;
        return fixed.plan(places, geometry, gains, &fading, draw);
    }
    Err(TopologyError::Placement(format!(
        "none of {draws} random placements is what placement.accept asks for; more nodes or a \
         smaller area help"
    )))
}

/// Whether a placement's links are what `accept` asks for.
fn acceptable(accept: &AcceptSpec, mut costs: Vec<Vec<f64>>) -> bool {
    if let Some(longest) = accept.longest_route {
        let routes = Routes::over(&costs);
        if !routes.connected() || routes.longest() != longest {
            return false;
        }
    }
    let Some(limit) = accept.connected_etx else {
        return true;
    };
    for cost in costs.iter_mut().flatten() {
        if *cost >= limit {
            *cost = f64::INFINITY;
        }
    }
    // Links of ETX are alike in both directions: one tree tells.
    reachable(&costs)
}

fn reachable(costs: &[Vec<f64>]) -> bool {
    let mut seen = vec![false; costs.len()];
    let mut open: Vec<usize> = (0..costs.len()).take(1).collect();
    while let Some(at) = open.pop() {
        if core::mem::replace(&mut seen[at], true) {
            continue;
        }
        let near = costs[at].iter().enumerate();
        open.extend(
            near.filter(|(to, c)| !seen[*to] && c.is_finite())
                .map(|(to, _)| to),
        );
    }
    seen.iter().all(|s| *s)
}

/// A placement that was drawn.
struct Drawn<'a> {
    fixed: &'a Fixed<'a>,
    links: &'a Links,
    chain: Option<&'a Chain>,
    places: Vec<Option<[f64; 3]>>,
    geometry: Geometry,
    fading: &'a Rng,
}

impl Drawn<'_> {
    /// Mean received powers of all pairs.
    fn gains(&self) -> Vec<Vec<Gain>> {
        let nodes = 0..self.fixed.nodes.len();
        let row = |from| nodes.clone().filter_map(|to| self.gain(from, to)).collect();
        nodes.clone().map(row).collect()
    }

    /// [`Drawn::gains`], if they are what is asked for.
    fn accepted(&self, accept: &AcceptSpec, curves: &mut Curves) -> Option<Vec<Vec<Gain>>> {
        let nodes = &self.fixed.nodes;
        // Of a thousand random placements nearly all leave some node alone, which takes a row or
        // two of the matrix to see.
        let routed = accept.connected_etx.is_some() || accept.longest_route.is_some();
        let radios = self.radios();
        if routed && (radios.iter()).any(|node| self.alone(*node, accept, curves)) {
            return None;
        }
        let gains = self.gains();
        let costs = etx::matrix(nodes, &gains, curves);
        let row = |from: &usize| radios.iter().map(|to| costs[*from][*to]).collect();
        acceptable(accept, radios.iter().map(row).collect()).then_some(gains)
    }

    /// The nodes that have a radio: what joins the others is no matter of where nodes stand.
    fn radios(&self) -> Vec<usize> {
        let specs = self.fixed.specs.iter().enumerate();
        let radios = specs.filter(|(_, spec)| !spec.wired_only);
        radios.map(|(node, _)| node).collect()
    }

    /// Whether a node has no link that counts to any other, so that no route reaches it.
    fn alone(&self, node: usize, accept: &AcceptSpec, curves: &mut Curves) -> bool {
        let nodes = &self.fixed.nodes;
        let limit = accept.connected_etx.unwrap_or(f64::INFINITY);
        let mut chance = |from: usize, to: usize| match self.gain(from, to) {
            None => 0.0,
            Some(gain) => curves.delivery(nodes[from].radio.rate, &gain, &nodes[to].radio),
        };
        let mut others = (0..nodes.len()).filter(|other| *other != node);
        let linked = others.any(|other| {
            let there = chance(node, other);
            there > 0.0 && etx::cost(there, chance(other, node)) < limit
        });
        !linked && self.radios().len() > 1
    }

    /// From one node to another, from all sources, each overriding the one before: geometry, chain,
    /// matrix, links; none if nothing is received.
    fn gain(&self, from: usize, to: usize) -> Option<Gain> {
        let fixed = self.fixed;
        let (a, b) = (from as u16, to as u16);
        let link = self.links.get(&(a, b));
        let wired = fixed.specs[from].wired_only || fixed.specs[to].wired_only;
        if from == to || wired {
            return None;
        }
        let mean_dbm = match link.and_then(|l| l.mean_dbm) {
            Some(dbm) => dbm,
            None => self.mean_dbm(a, b),
        };
        let cutoff = fixed.topology.propagation.cutoff_db.unwrap_or(20.0);
        if mean_dbm.is_nan() || mean_dbm < fixed.nodes[to].radio.noise_dbm - cutoff {
            return None;
        }
        let (sigma_db, tau) = fixed.variation(link);
        Some(Gain {
            to: b,
            mean_dbm,
            sigma_db,
            tau,
            rng: self.fading.split_n(a.into()).split_n(b.into()),
        })
    }

    fn mean_dbm(&self, from: u16, to: u16) -> f64 {
        let (i, j) = (usize::from(from), usize::from(to));
        let (fixed, t) = (self.fixed, self.fixed.topology);
        if let Some(m) = &t.matrix
            && i.max(j) < m.snr_db.len()
        {
            let reference = fixed.reference(m.power_dbm, m.noise_dbm);
            return fixed.shifted(m.snr_db[i][j], from, &reference);
        }
        if let (Some(chain), Some(c)) = (self.chain, &t.chain)
            && i.max(j) < chain.nodes()
        {
            let reference = fixed.reference(c.power_dbm, c.noise_dbm);
            return fixed.shifted(chain.snr_db(i, j), from, &reference);
        }
        match (self.places[i], self.places[j]) {
            (Some(here), Some(there)) => self.geometry.mean_dbm(from, to, &here, &there),
            _ => f64::NEG_INFINITY,
        }
    }
}

impl<'a> Fixed<'a> {
    fn new(topology: &'a Topology) -> Result<Fixed<'a>, TopologyError> {
        let phy = channel(&topology.channel)?;
        values::check(topology)?;
        let specs = place::nodes(topology)?;
        // Whoever resolves may move nodes later; who knows that none moves asks again.
        effect::check(topology, &specs, true)?;
        let base = configure(
            &topology.radio,
            &RadioSpec::default(),
            topology,
            &phy,
            "radio",
        )?;
        let mut nodes = Vec::with_capacity(specs.len());
        let mut emissions = Vec::with_capacity(specs.len());
        for (i, spec) in specs.iter().enumerate() {
            let path = format!("node[{i}].radio");
            let (radio, emission) = configure(&topology.radio, &spec.radio, topology, &phy, &path)?;
            emissions.push(emission);
            nodes.push(NodePlan {
                name: spec.name.clone(),
                position: None,
                radio,
                wired_only: spec.wired_only,
            });
        }
        Ok(Fixed {
            topology,
            phy,
            specs,
            base,
            nodes,
            emissions,
        })
    }

    fn geometry(&self, shadowing: &Rng) -> Geometry {
        let p = &self.topology.propagation;
        let frequency = law::frequency(self.topology.channel.frequency_mhz, &self.phy);
        Geometry {
            law: law::law(p, frequency, &self.base.0, &self.base.1),
            emissions: self.emissions.clone(),
            shadowing: Shadowing::new(
                p.shadowing_db.unwrap_or(0.0),
                p.asymmetry_db.unwrap_or(0.0),
                shadowing,
            ),
            floors: (
                p.floor_loss_db.unwrap_or(0.0),
                p.floor_height_m.unwrap_or(4.0),
            ),
        }
    }

    fn reference(&self, power: Option<f64>, noise: Option<f64>) -> Reference {
        Reference {
            power_dbm: power.unwrap_or(self.base.1.power_dbm),
            noise_dbm: noise.unwrap_or(self.base.0.noise_dbm),
        }
    }

    /// An SNR of a table as received power.
    fn shifted(&self, snr_db: f64, from: u16, reference: &Reference) -> f64 {
        let power = self.emissions[usize::from(from)].power_dbm;
        snr_db + reference.noise_dbm + power - reference.power_dbm
    }

    /// Nodes that a chain's table is for: those of the placement, or all.
    fn chained(&self) -> usize {
        match &self.topology.placement {
            Some(p) => usize::from(p.count),
            None => self.nodes.len(),
        }
    }

    fn variation(&self, link: Option<&Link>) -> (f64, Span) {
        let f = &self.topology.fading;
        let sigma = link.and_then(|l| l.sigma_db).or(f.sigma_db);
        let tau = link.and_then(|l| l.tau).or(f.tau.map(|t| t.0));
        (sigma.unwrap_or(0.0), tau.unwrap_or(Span::SECOND))
    }

    /// `[[link]]` by direction.
    fn links(&self) -> Result<Links, TopologyError> {
        let mut links = Links::new();
        for (i, spec) in self.topology.link.iter().enumerate() {
            let end =
                |name: &str, key: &str| place::find(&self.specs, name, &format!("link[{i}].{key}"));
            let (from, to) = (end(&spec.from, "from")?, end(&spec.to, "to")?);
            if from == to {
                let what = format!("\"{}\" is linked to itself", spec.from);
                return Err(TopologyError::key(format!("link[{i}].to"), what));
            }
            for (a, b, snr) in [(from, to, spec.snr_db), (to, from, spec.reverse_db)] {
                let noise = self.nodes[usize::from(b)].radio.noise_dbm;
                let link = links.entry((a, b)).or_default();
                link.mean_dbm = match spec.off {
                    true => Some(f64::NEG_INFINITY),
                    false => snr.map(|db| db + noise).or(link.mean_dbm),
                };
                link.sigma_db = spec.sigma_db.or(link.sigma_db);
                link.tau = spec.tau.map(|t| t.0).or(link.tau);
            }
        }
        Ok(links)
    }

    fn plan(
        mut self,
        places: Vec<Option<[f64; 3]>>,
        geometry: Geometry,
        gains: Vec<Vec<Gain>>,
        fading: &Rng,
        draw: Option<u64>,
    ) -> Result<Plan, TopologyError> {
        let wires = self.wires()?;
        let nodes = (&self.specs[..], &self.nodes[..]);
        let interferers = interferer::plans(self.topology, nodes, &places, &geometry)?;
        let mut notes = self.topology.notes.clone();
        notes.extend(self.chain_note());
        notes.extend(self.topology.transport_note());
        notes.extend(lossy(&wires));
        notes.extend(draw.map(|d| format!("random placement: draw {} was accepted", d + 1)));
        for (node, place) in self.nodes.iter_mut().zip(places) {
            node.position = place;
        }
        let (sigma_db, tau) = self.variation(None);
        Ok(Plan {
            variation: Variation {
                sigma_db,
                tau,
                rng: *fading,
            },
            host: self.topology.host.profile.unwrap_or_default(),
            phy: self.phy,
            nodes: self.nodes,
            gains,
            wires,
            interferers,
            geometry: Some(geometry),
            notes,
            world: self.topology.world.clone(),
            transport: self.topology.transport.clone(),
        })
    }

    /// Say so if a chain is longer than its table.
    fn chain_note(&self) -> Option<String> {
        let chain = self.topology.chain.as_ref()?;
        let (hops, nodes) = (chain.snr_db.len(), self.chained());
        if chain.repeat || nodes <= hops + 1 {
            return None;
        }
        let (forward, reverse) = mean_hop(chain);
        Some(format!(
            "the chain's table has {hops} hops: hops {} to {} have its mean SNR, {forward:.2} dB \
             forward and {reverse:.2} dB reverse",
            hops + 1,
            nodes - 1
        ))
    }

    fn wires(&self) -> Result<Vec<WirePlan>, TopologyError> {
        let wire = |(i, w): (usize, &WireSpec)| {
            let end =
                |name: &str, key: &str| place::find(&self.specs, name, &format!("wire[{i}].{key}"));
            if w.rate.0 == Rate(0) {
                return Err(TopologyError::key(
                    format!("wire[{i}].rate"),
                    "must not be 0",
                ));
            }
            let loss = w.loss.unwrap_or(0.0);
            if !(0.0..=1.0).contains(&loss) {
                let what = "must be a probability, 0 to 1 (0.005 is 0.5 %)";
                return Err(TopologyError::key(format!("wire[{i}].loss"), what));
            }
            let (a, b) = (end(&w.a, "a")?, end(&w.b, "b")?);
            Ok(WirePlan {
                a,
                b,
                rate: w.rate.0,
                delay: w.delay.map_or(Span::ZERO, |d| d.0),
                queue: w.queue.unwrap_or(1000),
                overhead: w.overhead.unwrap_or(38),
                loss,
                variation: w.variation.map_or(Span::ZERO, |v| v.0),
                overheard_by: self.hearers(i, w, [a, b])?,
            })
        };
        self.topology.wire.iter().enumerate().map(wire).collect()
    }

    /// The nodes that overhear a wire between these ends.
    fn hearers(&self, i: usize, w: &WireSpec, ends: [u16; 2]) -> Result<Vec<u16>, TopologyError> {
        let mut found = Vec::new();
        for (at, name) in w.overheard_by.iter().enumerate() {
            let path = format!("wire[{i}].overheard_by[{at}]");
            let node = place::find(&self.specs, name, &path)?;
            if ends.contains(&node) {
                let what = format!("{name} is an end of the wire, which gets its packets anyway");
                return Err(TopologyError::key(path, what));
            }
            if found.contains(&node) {
                return Err(TopologyError::key(path, format!("{name} is named twice")));
            }
            found.push(node);
        }
        Ok(found)
    }
}

/// Wires that lose this share of their packets or more may have been meant to lose it per cent.
const LOSSY: f64 = 0.1;

/// Say so if wires lose many packets.
fn lossy(wires: &[WirePlan]) -> Option<String> {
    let most = wires.iter().map(|w| w.loss).fold(0.0, f64::max);
    // Without the digits that a product of floats has too many.
    let percent = (most * 1e8).round() / 1e6;
    (most >= LOSSY).then(|| {
        format!(
            "wires lose up to {percent} % of their packets: `loss` of a wire is a share, 0.005 is 0.5 % \
             (loss=0.5% in words)"
        )
    })
}

/// What `[[link]]` says of one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    mean_dbm: Option<f64>,
    sigma_db: Option<f64>,
    tau: Option<Span>,
}

type Links = std::collections::BTreeMap<(u16, u16), Link>;
