//! From a scenario to a simulation.

use super::air::Air;
use super::app::App;
use super::daemon::Daemon;
use super::events::{Class, Events, What};
use super::flow::{Account, End, Flow, Streams, Udp};
use super::hop::Handlers;
use super::host::{Host, address};
use super::motion::Motion;
use super::pattern::Pattern;
use super::pool::Pool;
use super::record::{Hash, Recorder};
use super::stop::Stop;
use super::wire::Wire;
use super::{NONE, Node, Simulation};
use crate::routing::{self, Link, Table, Via};
use crate::scenario::{RoutingKind, Scenario, ScenarioError};
use core::net::SocketAddrV4;
use core::ops::Range;
use std::collections::BTreeSet;
use std::sync::Arc;
use wifu_core::{Ground, Kinds, Verbs};
use wifu_engine::{Blueprint, Endpoint, EndpointConfig};
use wifu_node::Catalog;
use wifu_radio::etx::Curves;
use wifu_radio::plan::Plan;
use wifu_radio::topology::{PlacementKind, Topology, TopologyError, resolve};
use wifu_wire::{Rng, Span, Time};

/// Knows the protocols and handlers that a scenario names.
pub type Open<'a> = &'a dyn Catalog;

/// The IP protocol number of every protocol whose segments are TCP's: captures then need no
/// explanation.
const TCP: u8 = 6;

impl Simulation {
    /// The simulation of a scenario; `open` knows the protocols.
    ///
    /// # Errors
    /// The path of the first wrong key and what is wrong with it.
    pub fn new(scenario: &Scenario, open: Open<'_>) -> Result<Simulation, ScenarioError> {
        let topology = topology(scenario)?;
        let moves = !scenario.mobility.is_empty();
        topology.effective(moves).map_err(|e| at_key(scenario, e))?;
        let plan = resolve(&topology, &scenario.rng()).map_err(|e| at_key(scenario, e))?;
        let rows = rows(&topology, plan.nodes.len());
        build(scenario, plan, &rows, open)
    }

    /// The same over a plan that the caller made; the scenario's topology and radio keys are not
    /// looked at.
    ///
    /// # Errors
    /// The path of the first wrong key and what is wrong with it.
    pub fn from_plan(
        scenario: &Scenario,
        plan: Plan,
        open: Open<'_>,
    ) -> Result<Simulation, ScenarioError> {
        build(scenario, plan, &[], open)
    }
}

/// Routes that do not follow from what links are like.
pub(crate) struct Fixed {
    /// Along each packets go from neighbour to neighbour.
    rows: Vec<Range<u16>>,
    /// (from, to, by which link).
    named: Vec<(u16, u16, Via)>,
}

impl Fixed {
    fn along_rows(&self) -> impl Iterator<Item = (u16, u16, Via)> {
        self.rows.iter().flat_map(|row| {
            row.clone().flat_map(move |to| {
                let others = row.clone().filter(move |from| *from != to);
                others.map(move |from| {
                    let next = if from < to { from + 1 } else { from - 1 };
                    (from, to, Via::Radio(next))
                })
            })
        })
    }
}

/// The topology of a scenario, all layers in place.
///
/// # Errors
/// The path of the first wrong key and what is wrong with it.
pub fn topology(scenario: &Scenario) -> Result<Topology, ScenarioError> {
    let spec = &scenario.topology;
    if let Some(file) = &spec.file {
        let what = format!("the content of {file} must be put in place before the run");
        return Err(ScenarioError::key("topology.file", what));
    }
    let inline = crate::scenario::as_toml(&spec.inline, "topology")?;
    let radio = crate::scenario::as_toml(&scenario.radio, "radio")?;
    let words = spec.words.as_deref();
    Topology::build(words, spec.set.as_deref(), &inline, &radio).map_err(|e| at_key(scenario, e))
}

/// A topology's error at the key of the scenario.
fn at_key(scenario: &Scenario, error: TopologyError) -> ScenarioError {
    match error {
        TopologyError::Key { path, what } => {
            let of_radio = path.strip_prefix("radio.");
            let key = of_radio.and_then(|p| p.split(['.', '[']).next());
            match key.filter(|k| scenario.radio.contains_key(*k)) {
                Some(_) => ScenarioError::key(path, what),
                None => ScenarioError::key(format!("topology.{path}"), what),
            }
        }
        other => ScenarioError::key("topology", other.to_string()),
    }
}

/// The nodes that stand in rows: along a row packets go from neighbour to neighbour.
fn rows(topology: &Topology, nodes: usize) -> Vec<Range<u16>> {
    let n = nodes as u16;
    match &topology.placement {
        Some(p) if p.kind == PlacementKind::Line => core::iter::once(0..p.count.min(n)).collect(),
        Some(p) if p.kind == PlacementKind::Rows => {
            let rows = p.rows.unwrap_or(1);
            (0..rows).map(|r| r * p.count..(r + 1) * p.count).collect()
        }
        None if topology.chain.is_some() => core::iter::once(0..n).collect(),
        _ => Vec::new(),
    }
}

fn build(
    scenario: &Scenario,
    plan: Plan,
    rows: &[Range<u16>],
    open: Open<'_>,
) -> Result<Simulation, ScenarioError> {
    scenario.check()?;
    let rng = scenario.rng();
    let count = plan.nodes.len();
    let flows = flows(scenario, &plan, &rng, open)?;
    let finite = flows.iter().filter(|f| f.finite).count();
    let table = Table::new(count, &ends(&flows));
    let spec = &scenario.routing;
    if spec.kind == RoutingKind::Chain && rows.is_empty() {
        let what = "`chain` follows the rows of a topology, and this one has none";
        return Err(ScenarioError::key("routing.kind", what));
    }
    let plain = spec.kind == RoutingKind::Auto || spec.kind == RoutingKind::Chain;
    let fixed = Fixed {
        rows: if plain { rows.to_vec() } else { Vec::new() },
        named: routing::named(&plan, spec)?,
    };
    let links = routing::links(&plan, spec, &mut Curves::default());
    let wires = plan.wires.iter().enumerate().flat_map(|(i, w)| {
        let stream = rng.split("per").split("wire").split_n(i as u64);
        [(w.a, w.b, 0), (w.b, w.a, 1)]
            .map(|(from, to, side)| Wire::new(w, from, to, stream.split_n(side)))
    });
    let daemon = spec.olsr.as_ref();
    let mut simulation = Simulation {
        now: Time::ZERO,
        events: Events::new(&rng),
        pool: Pool::new(usize::from(scenario.host.mtu)),
        air: Air::new(&plan, !scenario.mobility.is_empty(), &rng),
        wires: wires.collect(),
        table,
        fixed,
        nodes: Vec::new(),
        hosts: Vec::new(),
        hops: flows.iter().map(|_| Default::default()).collect(),
        fwd_cost: scenario.host.fwd_cost.0,
        daemon: daemon.map(|o| Daemon::new(o, &links, count, &rng.split("traffic"))),
        motion: Motion::new(&scenario.mobility, &plan, &rng)?,
        stop: Stop::new(scenario, finite)?,
        rec: Recorder::new(&scenario.record, flows.len(), count),
        hash: Hash::new(scenario.seed),
        counted: 0,
        tap: None,
        aired: false,
        handlers: Handlers::default(),
        scenario: scenario.clone(),
        flows,
        plan,
    };
    simulation.settle(&rng)?;
    simulation.place_handlers(&rng.split("handlers"), open.kinds())?;
    simulation.lay_routes(&links);
    simulation.begin();
    Ok(simulation)
}

impl Simulation {
    /// The chains that the scenario puts at the nodes.
    fn place_handlers(&mut self, rng: &Rng, kinds: &Kinds) -> Result<(), ScenarioError> {
        let specs = self.scenario.handler.clone();
        let ground = Ground {
            kinds,
            can: Verbs::HOLD.with(Verbs::STATUS),
        };
        // By number: a node may be called by its place (`n3`) although it has a name.
        let mut places = Vec::with_capacity(specs.len());
        for (i, spec) in specs.iter().enumerate() {
            let path = format!("handler[{i}]");
            let mut numbers = BTreeSet::new();
            for (at, name) in spec.nodes.iter().enumerate() {
                let path = format!("{path}.nodes[{at}]");
                numbers.insert(routing::index(&self.plan, name, &path)?);
            }
            places.push(numbers);
            // Checked by itself first, so that the error names the entry.
            let alone = wifu_core::Config {
                handlers: vec![spec.config.clone()],
            };
            alone
                .chain(rng, ground)
                .map_err(|e| ScenarioError::key(&path, e.to_string()))?;
        }
        for number in 0..self.nodes.len() as u16 {
            let here = specs
                .iter()
                .zip(&places)
                .filter(|(_, at)| at.is_empty() || at.contains(&number));
            let config = wifu_core::Config {
                handlers: here.map(|(s, _)| s.config.clone()).collect(),
            };
            if config.handlers.is_empty() {
                continue;
            }
            let stream = rng.split_n(u64::from(number));
            let chain = config
                .chain(&stream, ground)
                .map_err(|e| ScenarioError::key("handler", e.to_string()))?;
            self.set_chain(number, chain);
        }
        Ok(())
    }
}

/// Destinations: both ends of every flow.
fn ends(flows: &[Flow]) -> Vec<u16> {
    flows.iter().flat_map(|f| [f.src, f.dst]).collect()
}

fn flows(
    scenario: &Scenario,
    plan: &Plan,
    rng: &Rng,
    open: Open<'_>,
) -> Result<Vec<Flow>, ScenarioError> {
    let mtu = scenario.host.mtu;
    let most = 32_768 - u32::from(super::flow::PORT);
    if scenario.flow.len() > most as usize {
        let what = format!("at most {most} flows");
        return Err(ScenarioError::key("flow", what));
    }
    let mut flows = Vec::with_capacity(scenario.flow.len());
    let mut streams = Streams::new(&rng.split("traffic"), plan.nodes.len());
    for (i, spec) in scenario.flow.iter().enumerate() {
        let at = |key: &str| format!("flow[{i}].{key}");
        let src = routing::index(plan, &spec.from, &at("from"))?;
        let dst = routing::index(plan, &spec.to, &at("to"))?;
        if src == dst {
            return Err(ScenarioError::key(at("to"), "a flow ends where it begins"));
        }
        let own = streams.next(src, dst, spec);
        let udp = spec.is_udp().then(|| Udp::new(spec, mtu, &own));
        let blueprint = match &udp {
            Some(_) => None,
            None => {
                let named = open.protocol(&spec.protocol);
                let found = named.map_err(|e| ScenarioError::key(at("protocol"), e))?;
                Some(as_tcp(Arc::clone(&found.ends)))
            }
        };
        let jitter = own.split("start").below(spec.jitter.0.0 + 1);
        flows.push(Flow {
            src,
            dst,
            blueprint,
            app: App::new(spec, &own),
            ends: [End::default(); 2],
            patterns: [Pattern::new(i, 0), Pattern::new(i, 1)],
            step: Time::ZERO + spec.start.0 + Span(jitter),
            stop_at: spec.stop_at.map_or(Time::NEVER, |s| Time::ZERO + s.0),
            stopped: false,
            finite: spec.is_finite(),
            done: false,
            mss: udp.as_ref().map_or(1, |u| u.payload),
            part: 0,
            recovery: None,
            last_out: (Time::ZERO, 0),
            request: None,
            answered: 0,
            account: Account::default(),
            udp,
            spec: spec.clone(),
        });
    }
    Ok(flows)
}

fn as_tcp(blueprint: Arc<Blueprint>) -> Arc<Blueprint> {
    if blueprint.wire.name() != "tcp" {
        return blueprint;
    }
    let mut tcp = (*blueprint).clone();
    tcp.number = TCP;
    Arc::new(tcp)
}

impl Simulation {
    /// Nodes, and hosts where flows end.
    fn settle(&mut self, rng: &Rng) -> Result<(), ScenarioError> {
        let count = self.plan.nodes.len();
        self.nodes = (0..count)
            .map(|_| Node {
                host: NONE,
                forwarded: 0,
                chain_at: Time::NEVER,
            })
            .collect();
        let seed = rng.split("host").next_u64();
        for i in 0..self.flows.len() {
            let flow = &self.flows[i];
            let Some(blueprint) = flow.blueprint.clone() else {
                continue;
            };
            let (src, dst) = (flow.src, flow.dst);
            for node in [src, dst] {
                self.host(node, seed);
            }
            let local = SocketAddrV4::new(address(dst), Flow::port(i as u32));
            let host = self.nodes[usize::from(dst)].host as usize;
            let listening = self.hosts[host].endpoint.listen(&blueprint, local, 16);
            listening.map_err(|e| ScenarioError::key(format!("flow[{i}]"), e.to_string()))?;
        }
        Ok(())
    }

    /// Everything that happens by itself.
    fn begin(&mut self) {
        for (i, flow) in self.flows.iter().enumerate() {
            let what = What::App(i as u32);
            self.events.push(flow.step, Class::Application, what);
            if flow.stop_at < flow.step {
                self.events.push(flow.stop_at, Class::Application, what);
            }
        }
        self.start_daemons();
        if self.motion.is_some() {
            self.events.push(Time::ZERO, Class::World, What::Move);
        }
        if self.rec.all {
            self.events.push(Time::ZERO, Class::World, What::Sample);
        }
        self.air.watch(self.scenario.record.frames, false);
    }

    fn host(&mut self, node: u16, seed: u64) {
        let number = &mut self.nodes[usize::from(node)].host;
        if *number != NONE {
            return;
        }
        *number = self.hosts.len() as u32;
        let config = EndpointConfig {
            seed,
            node: u32::from(node),
            mtu: u32::from(self.scenario.host.mtu),
            ..EndpointConfig::default()
        };
        self.hosts.push(Host {
            node,
            endpoint: Endpoint::new(config),
            armed: Time::NEVER,
            ways: Vec::new(),
        });
    }

    /// Routes over these links, which are all there are.
    pub(crate) fn lay_routes(&mut self, links: &[Link]) {
        self.table.clear();
        if self.scenario.routing.kind != RoutingKind::Static {
            self.table.fill(links);
        }
        let fixed = &self.fixed;
        let up: BTreeSet<(u16, Via)> = links.iter().map(|l| (l.from, l.via)).collect();
        for (from, to, via) in fixed.along_rows().chain(fixed.named.iter().copied()) {
            // Only a daemon takes away what the topology or the user says.
            let down = self.daemon.is_some() && !up.contains(&(from, via));
            let way = if down { Via::Nowhere } else { via };
            self.table.set(from, to, way);
        }
        self.find_ways();
    }

    /// By which links each host's own packets leave.
    fn find_ways(&mut self) {
        for host in &mut self.hosts {
            host.ways.clear();
            for flow in self.flows.iter().filter(|f| f.blueprint.is_some()) {
                let peer = match host.node {
                    n if n == flow.src => flow.dst,
                    n if n == flow.dst => flow.src,
                    _ => continue,
                };
                host.ways.push(match self.table.via(host.node, peer) {
                    // One radio, whoever the neighbour.
                    Via::Radio(_) => Via::Radio(0),
                    via => via,
                });
            }
            host.ways.sort_unstable();
            host.ways.dedup();
        }
    }
}
