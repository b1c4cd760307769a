//! From a scenario to a simulation.

use super::Simulation;
use super::address::address;
use super::air::Air;
use super::clock::Clock;
use super::daemon::Daemon;
use super::events::{Class, What};
use super::flow::{Account, End, Flow, PORT, Udp};
use super::flows::Flows;
use super::forward::Forwarding;
use super::hops::Hops;
use super::nodes::Nodes;
use super::pattern::Pattern;
use super::pool::Pool;
use super::record::Recorder;
use super::routes::Routes;
use super::sent::Sent;
use super::split::{place_splits, splittings};
use super::stop::Stop;
use super::told::{place, told};
use super::ways::ear;
use super::whose;
use super::wire::Wire;
use crate::routing;
use crate::scenario::{FlowSpec, HostProfile, Scenario, ScenarioError};
use crate::tables::{self, Fixed};
use crate::traffic::{App, Streams, jitter};
use crate::world::World;
use core::net::SocketAddrV4;
use core::ops::Range;
use std::collections::BTreeSet;
use std::sync::Arc;
use wifu_core::{Ground, Kinds, Verbs};
use wifu_engine::descriptor::UNSERVED;
use wifu_engine::{Blueprint, Fact};
use wifu_node::{Catalog, Heeds, HostCost, Lanes, LanesConfig, Protocol, Scheduler, tell_apart};
use wifu_radio::discipline::Discipline;
use wifu_radio::etx::Curves;
use wifu_radio::plan::Plan;
use wifu_radio::topology::{Topology, TopologyError, resolve};
use wifu_wire::numbers::TCP;
use wifu_wire::{Note, Rng, Time, names};

/// Knows the protocols and handlers that a scenario names.
pub type Open<'a> = &'a dyn Catalog;

/// The simulation of a scenario; `alone`: nothing is sent that it does not say.
///
/// # Errors
/// The path of the first wrong key and what is wrong with it.
pub(crate) fn scenario(
    scenario: &Scenario,
    open: Open<'_>,
    alone: bool,
) -> Result<Simulation, ScenarioError> {
    let (plan, rows) = plan(scenario)?;
    over(scenario, plan, &rows, (open, alone))
}

/// The nodes and links of a scenario, and which stand in rows.
///
/// # Errors
/// The path of the first wrong key and what is wrong with it.
pub(crate) fn plan(scenario: &Scenario) -> Result<(Plan, Vec<Range<u16>>), ScenarioError> {
    let topology = topology(scenario)?;
    let moves = !scenario.mobility.is_empty();
    topology.effective(moves).map_err(|e| at_key(scenario, e))?;
    let plan = resolve(&topology, &scenario.rng()).map_err(|e| at_key(scenario, e))?;
    if let Some(i) = plan
        .interferers
        .iter()
        .position(|i| i.placed)
        .filter(|_| moves)
    {
        let what = "what moving nodes receive of it would not follow; write received_dbm instead, \
                    or leave out mobility";
        let path = format!("topology.interferer[{i}].position");
        return Err(ScenarioError::key(path, what));
    }
    let rows = tables::rows(&topology, plan.nodes.len());
    Ok((plan, rows))
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
    let (path, what) = match error {
        TopologyError::Key { path, what } => (path, what),
        TopologyError::Unknown { path, name, known } => {
            // A scenario's topology may be in a file, too.
            let file = (path == name).then_some("file");
            let known = known.iter().map(String::as_str).chain(file);
            (path, names::unknown("key", &name, known))
        }
        other => return ScenarioError::key("topology", other.to_string()),
    };
    let of_radio = path.strip_prefix("radio.");
    let key = of_radio.and_then(|p| p.split(['.', '[']).next());
    match key.filter(|k| scenario.radio.contains_key(*k)) {
        Some(_) => ScenarioError::key(path, what),
        None => ScenarioError::key(format!("topology.{path}"), what),
    }
}

/// The same over a plan, along whose `rows` packets go from neighbour to neighbour.
///
/// # Errors
/// The path of the first wrong key and what is wrong with it.
pub(crate) fn over(
    scenario: &Scenario,
    mut plan: Plan,
    rows: &[Range<u16>],
    (open, alone): (Open<'_>, bool),
) -> Result<Simulation, ScenarioError> {
    scenario.check()?;
    manage(scenario, &mut plan)?;
    let scenario = &here(scenario, &plan);
    let (rng, mtu) = (scenario.rng(), scenario.host.mtu);
    let count = plan.nodes.len();
    let told = told(scenario, &plan);
    let (flows, served) = flows(scenario, &plan, &rng, (open, &told))?;
    let apart = |all: &[Arc<Protocol>]| tell_apart(all).map_err(|e| ScenarioError::key("flow", e));
    // By their own numbers, by which live hosts go, and by those that they have here.
    apart(&served)?;
    let kinds = &*whose::kinds(scenario, &served, (open, alone))?;
    let served = apart(&served.iter().map(as_tcp).collect::<Vec<_>>())?;
    let splits = splittings(scenario, &plan, &flows, (open, &told))?;
    let finite = flows.iter().filter(|f| f.finite).count();
    let fixed = Fixed::new(&scenario.routing, &plan, rows)?;
    let links = routing::links(&plan, &scenario.routing, &mut Curves::default());
    let olsr = scenario.routing.olsr.as_ref();
    let flows = Flows {
        stop: Stop::new(scenario, finite)?,
        rec: Recorder::new(&scenario.record, &flows, &plan, &splits)?,
        to_look: Vec::new(),
        all: flows,
    };
    let mut simulation = Simulation {
        clock: Clock::new(&rng, scenario.seed),
        net: network(scenario, &plan, &flows.all, fixed, &rng),
        nodes: Nodes::new(count),
        daemon: olsr.map(|o| Daemon::new(o, &links, count, &rng.split("traffic"))),
        world: World::new(scenario, &plan)?,
        waits: None,
        counted: 0,
        scenario: scenario.clone(),
        flows,
        plan,
    };
    let unserved = unserved(&simulation, &served)?;
    orders_lanes(&simulation, &served)?;
    let parts = (
        &mut simulation.nodes,
        &mut simulation.net,
        &mut simulation.clock,
    );
    place_splits(splits, &simulation.flows.all, (&rng, mtu), parts);
    place_lanes(&mut simulation, &rng.split("lanes"), &served, &unserved);
    settle(&mut simulation, &rng, kinds.parts.note(UNSERVED.name))?;
    let ground = Ground {
        kinds,
        can: Verbs::ALL,
        told: &told,
    };
    let handlers = rng.split("handlers");
    place_handlers(&mut simulation, &handlers, ground, (&served, &unserved))?;
    if alone {
        let sent = Sent::new(&simulation.flows.all, &served, olsr.is_some());
        sent.reach_all(&scenario.handler, kinds)?;
    }
    simulation.net.lay_routes(&links);
    simulation.net.laid = false;
    simulation.reroute();
    begin(&mut simulation);
    Ok(simulation)
}

/// The scenario with its flows' protocols as the testbed has them.
pub(crate) fn here(scenario: &Scenario, plan: &Plan) -> Scenario {
    let mut scenario = scenario.clone();
    for flow in &mut scenario.flow {
        flow.protocol = plan.transport(&flow.protocol);
    }
    scenario
}

/// The queues of nodes get the scenario's discipline.
fn manage(scenario: &Scenario, plan: &mut Plan) -> Result<(), ScenarioError> {
    if scenario.host.prio_feedback {
        let nodes = plan.nodes.iter_mut();
        nodes.for_each(|node| node.radio.discipline = Some(Discipline::Priority));
    }
    let Some(spec) = &scenario.host.queue else {
        return Ok(());
    };
    let discipline = spec.discipline()?;
    let named = spec.nodes.iter().enumerate();
    let number = |(at, name): (usize, &String)| {
        routing::index(plan, name, &format!("host.queue.nodes[{at}]")).map(usize::from)
    };
    let mut nodes: Vec<usize> = named.map(number).collect::<Result<_, _>>()?;
    if nodes.is_empty() {
        nodes = (0..plan.nodes.len()).collect();
    }
    for node in nodes {
        plan.nodes[node].radio.discipline = Some(discipline);
    }
    Ok(())
}

/// What carries the packets of these flows; no route is laid yet.
fn network(
    scenario: &Scenario,
    plan: &Plan,
    flows: &[Flow],
    fixed: Fixed,
    rng: &Rng,
) -> Forwarding {
    let count = plan.nodes.len();
    let wires = plan.wires.iter().enumerate().flat_map(|(i, w)| {
        let stream = rng.split("per").split("wire").split_n(i as u64);
        [(w.a, w.b, 0), (w.b, w.a, 1)].map(|(from, to, side)| {
            let stream = stream.split_n(side);
            let discipline = plan.nodes[usize::from(from)].radio.discipline;
            let managed = discipline.map(|d| (d, stream.split("discipline")));
            let mut wire = Wire::new(w, from, to, stream);
            let number = 2 * i as u32 + side as u32;
            let ears = w.overheard_by.iter();
            wire.ears = ears.map(|n| ear(plan, *n, (from, number))).collect();
            if let Some((discipline, rng)) = managed {
                wire.manage(&discipline, rng);
            }
            wire
        })
    });
    let parts = (
        Pool::new(usize::from(scenario.host.mtu)),
        Air::new(plan, !scenario.mobility.is_empty(), rng),
        wires.collect(),
    );
    let ends = flows.iter().map(|f| (f.src, f.dst, f.blueprint.is_some()));
    let routes = Routes::new(count, &ends.collect::<Vec<_>>(), fixed);
    let hops = Hops::new(flows.len());
    let mut net = Forwarding::new(count, parts, routes, hops, scenario.host.fwd_cost.0);
    net.managed = scenario.host.queue.is_some() || scenario.host.prio_feedback;
    net.hastens = scenario.host.prio_feedback;
    net
}

/// The nodes that serve no composition.
fn unserved(
    simulation: &Simulation,
    served: &[Arc<Protocol>],
) -> Result<BTreeSet<u16>, ScenarioError> {
    if served.is_empty() && !simulation.scenario.host.unserved.is_empty() {
        return Err(ScenarioError::key(
            "host.unserved",
            "no flow's protocol brings handlers or a lane, so there is nothing that a node would \
             not serve; leave the key out, or give a flow a protocol that does (wifu describe \
             PROTOCOL says what one brings)",
        ));
    }
    let named = simulation.scenario.host.unserved.iter().enumerate();
    let number = |(at, name): (usize, &String)| {
        routing::index(&simulation.plan, name, &format!("host.unserved[{at}]"))
    };
    named.map(number).collect()
}

/// That there are lanes to be ordered where the scenario says how.
fn orders_lanes(simulation: &Simulation, served: &[Arc<Protocol>]) -> Result<(), ScenarioError> {
    let laned = served.iter().any(|p| p.ends.lane.is_some());
    if simulation.scenario.host.lanes != Scheduler::default() && !laned {
        return Err(ScenarioError::key(
            "host.lanes",
            "no flow's protocol has lanes, whose order it would set; leave the key out, or give a \
             flow a protocol that has (wifu describe PROTOCOL says what one brings)",
        ));
    }
    Ok(())
}

/// The lanes of the protocols that nodes serve, and what their ends want to learn from links.
fn place_lanes(
    simulation: &mut Simulation,
    rng: &Rng,
    served: &[Arc<Protocol>],
    unserved: &BTreeSet<u16>,
) {
    let flows = simulation.flows.all.iter();
    let ends = flows.filter_map(|f| Some(([f.src, f.dst], f.blueprint.clone()?)));
    let ends: Vec<_> = ends.collect();
    for node in 0..simulation.plan.nodes.len() as u16 {
        let serves = !unserved.contains(&node);
        simulation.nodes.unserved[usize::from(node)] = !serves;
        let config = LanesConfig {
            node: u32::from(node),
            mtu: u32::from(simulation.scenario.host.mtu),
            scheduler: simulation.scenario.host.lanes,
            ..LanesConfig::default()
        };
        let stream = rng.split_n(u64::from(node));
        let lanes = Lanes::new(config, if serves { served } else { &[] }, stream);
        let mine = || ends.iter().filter(|(at, _)| at.contains(&node));
        let overhear = mine().any(|(_, b)| b.overhears());
        let status = mine().any(|(_, b)| b.hears("status"));
        let here = &mut simulation.nodes.all[usize::from(node)];
        if let Some(lanes) = lanes {
            here.set_lanes(lanes);
        }
        here.listen(overhear, status);
        simulation.listen(node);
    }
}

/// The chains that the scenario puts at the nodes, and what nodes heed.
fn place_handlers(
    simulation: &mut Simulation,
    rng: &Rng,
    ground: Ground<'_>,
    (served, unserved): (&[Arc<Protocol>], &BTreeSet<u16>),
) -> Result<(), ScenarioError> {
    let specs = simulation.scenario.handler.clone();
    // By number: a node may be called by its place (`n3`) although it has a name.
    let mut places = Vec::with_capacity(specs.len());
    for (i, spec) in specs.iter().enumerate() {
        let path = format!("handler[{i}]");
        let mut numbers = BTreeSet::new();
        for (at, name) in spec.nodes.iter().enumerate() {
            let path = format!("{path}.nodes[{at}]");
            numbers.insert(routing::index(&simulation.plan, name, &path)?);
        }
        places.push(numbers);
        // Checked by itself first, so that the error names the entry.
        let checked = spec.config.check(rng, ground);
        checked.map_err(|e| ScenarioError::key(&path, format!("{}: {e}", spec.config.name)))?;
    }
    for number in 0..simulation.plan.nodes.len() as u16 {
        let here = specs
            .iter()
            .zip(&places)
            .filter(|(_, at)| at.is_empty() || at.contains(&number));
        let config = wifu_core::Config {
            handlers: here.map(|(s, _)| s.config.clone()).collect(),
        };
        let stream = rng.split_n(u64::from(number));
        let mut chain = config
            .chain(&stream, ground)
            .map_err(|e| ScenarioError::key("handler", e.to_string()))?;
        for protocol in served.iter().filter(|_| !unserved.contains(&number)) {
            let own = rng.split("served").split_n(u64::from(number));
            let appended = protocol.append(&mut chain, &own, ground);
            appended.map_err(|e| ScenarioError::key("flow", e.to_string()))?;
        }
        if !chain.is_empty() {
            simulation.set_chain(number, chain);
        }
    }
    heed(simulation, ground.kinds, served)
}

/// Nodes heed the annotations that somebody may write.
fn heed(
    simulation: &mut Simulation,
    kinds: &Kinds,
    served: &[Arc<Protocol>],
) -> Result<(), ScenarioError> {
    let scenario = &simulation.scenario;
    let ends = simulation.flows.all.iter();
    let ends = ends.filter_map(|f| f.blueprint.as_deref());
    let brought = served.iter().flat_map(|p| &p.handlers.handlers);
    let handlers = scenario.handler.iter().map(|h| &h.config).chain(brought);
    let heeds = Heeds::of(kinds, ends, handlers);
    if scenario.host.prio_feedback && !heeds.hastens() {
        return Err(ScenarioError::key(
            "host.prio_feedback",
            "nothing would go first: no part or handler of this scenario writes the annotation \
             \"feedback\" or \"priority\" (wifu describe feedback says who does); leave the key out, \
             or add one that does",
        ));
    }
    for node in &mut simulation.nodes.all {
        node.heed(heeds);
    }
    Ok(())
}

/// Where each flow begins and ends.
fn ends(scenario: &Scenario, plan: &Plan) -> Result<Vec<(u16, u16)>, ScenarioError> {
    let end = |(i, spec): (usize, &FlowSpec)| {
        let at = |key: &str| format!("flow[{i}].{key}");
        let src = routing::index(plan, &spec.from, &at("from"))?;
        let dst = routing::index(plan, &spec.to, &at("to"))?;
        match src == dst {
            true => Err(ScenarioError::key(at("to"), "a flow ends where it begins")),
            false => Ok((src, dst)),
        }
    };
    scenario.flow.iter().enumerate().map(end).collect()
}

fn flows(
    scenario: &Scenario,
    plan: &Plan,
    rng: &Rng,
    (open, told): (Open<'_>, &[Fact]),
) -> Result<(Vec<Flow>, Vec<Arc<Protocol>>), ScenarioError> {
    let mtu = scenario.host.mtu;
    let (mut known, mut served) = (Vec::new(), Vec::new());
    let most = 32_768 - u32::from(PORT);
    if scenario.flow.len() > most as usize {
        let what = format!("at most {most} flows");
        return Err(ScenarioError::key("flow", what));
    }
    let mut flows = Vec::with_capacity(scenario.flow.len());
    let ends = ends(scenario, plan)?;
    let with_spec = ends.iter().zip(&scenario.flow);
    let mut streams = Streams::new(rng, with_spec.map(|((src, dst), spec)| (*src, *dst, spec)));
    for (i, spec) in scenario.flow.iter().enumerate() {
        let at = |key: &str| format!("flow[{i}].{key}");
        let (src, dst) = ends[i];
        let own = streams.next(src, dst, spec);
        let udp = spec.is_udp().then(|| Udp::new(spec, mtu, &own));
        let blueprint = match &udp {
            Some(_) => None,
            None => {
                let opened = opened(&spec.protocol, &mut known, &mut served, (open, told));
                Some(opened.map_err(|e| ScenarioError::key(at("protocol"), e))?)
            }
        };
        flows.push(Flow {
            src,
            dst,
            blueprint,
            app: App::new(spec, &own),
            ends: [End::default(); 2],
            patterns: [Pattern::new(i, 0), Pattern::new(i, 1)],
            step: Time::ZERO + spec.start.0 + jitter(spec, &own),
            stop_at: spec.stop_at.map_or(Time::NEVER, |s| Time::ZERO + s.0),
            stopped: false,
            finite: spec.is_finite(),
            done: false,
            mss: udp.as_ref().map_or(1, |u| u.payload),
            part: 0,
            request: None,
            answered: 0,
            account: Account::default(),
            udp,
            spec: spec.clone(),
        });
    }
    Ok((flows, served))
}

/// What the ends of a flow run, by the text that says so: looked up where it is not known yet, and
/// then served by all nodes.
fn opened<'s>(
    text: &'s str,
    known: &mut Vec<(&'s str, Arc<Blueprint>)>,
    served: &mut Vec<Arc<Protocol>>,
    (open, told): (Open<'_>, &[Fact]),
) -> Result<Arc<Blueprint>, String> {
    // Few flows differ, and a composition takes longer to check than a packet to simulate.
    if let Some((_, blueprint)) = known.iter().find(|(known, _)| *known == text) {
        return Ok(Arc::clone(blueprint));
    }
    let found = open.protocol(text)?;
    let informed = found.informed(place(told), told);
    informed.map_err(|e| e.to_string())?;
    let name = |p: &Protocol| (p.ends.id, p.ends.number);
    if served.iter().all(|p| name(p) != name(&found)) {
        served.push(Arc::clone(&found));
    }
    let blueprint = Arc::clone(&as_tcp(&found).ends);
    known.push((text, Arc::clone(&blueprint)));
    Ok(blueprint)
}

/// A protocol whose segments are TCP's has TCP's number, so that captures need no explanation,
/// unless it has a hop half: its handlers know its packets by its own number.
pub(super) fn as_tcp(protocol: &Arc<Protocol>) -> Arc<Protocol> {
    if protocol.ends.wire.name() != "tcp" || protocol.has_hops() {
        return Arc::clone(protocol);
    }
    let mut tcp = (*protocol.ends).clone();
    tcp.number = TCP;
    Arc::new(Protocol::of(Arc::new(tcp)))
}

/// Endpoints where connections begin and end.
fn settle(
    simulation: &mut Simulation,
    rng: &Rng,
    unserved: Option<Note>,
) -> Result<(), ScenarioError> {
    let seed = rng.split("host").next_u64();
    let mtu = u32::from(simulation.scenario.host.mtu);
    let cost = cost(simulation)?;
    let nodes = &mut simulation.nodes;
    for (i, flow) in simulation.flows.all.iter().enumerate() {
        let Some(blueprint) = &flow.blueprint else {
            continue;
        };
        for node in [flow.src, flow.dst] {
            nodes.settle(node, seed, mtu, unserved);
            if let Some(cost) = cost {
                nodes.all[usize::from(node)].set_cost(cost);
            }
        }
        let local = SocketAddrV4::new(address(flow.dst), Flow::port(i as u32));
        let listening = nodes.endpoint(flow.dst).listen(blueprint, local, 16);
        listening.map_err(|e| ScenarioError::key(format!("flow[{i}]"), e.to_string()))?;
    }
    Ok(())
}

/// What packets cost the hosts at the ends of flows, if anything: as the scenario says, else as its
/// topology does.
fn cost(simulation: &Simulation) -> Result<Option<HostCost>, ScenarioError> {
    let own = simulation.scenario.host.profile;
    let ends = simulation.flows.all.iter().any(|f| f.blueprint.is_some());
    if own == Some(HostProfile::Py) && !ends && !simulation.flows.all.is_empty() {
        let what = "is about packets of protocols, and every flow is udp, whose datagrams cost \
                    hosts nothing; leave the key out, or give a flow a protocol";
        return Err(ScenarioError::key("host.profile", what));
    }
    Ok(match own.unwrap_or(simulation.plan.host) {
        HostProfile::Off => None,
        HostProfile::Py => Some(HostCost::PY),
    })
}

/// Everything that happens by itself.
fn begin(simulation: &mut Simulation) {
    let clock = &mut simulation.clock;
    for (i, flow) in simulation.flows.all.iter().enumerate() {
        let what = What::App(i as u32);
        clock.push(flow.step, Class::Application, what);
        if flow.stop_at < flow.step {
            clock.push(flow.stop_at, Class::Application, what);
        }
    }
    if let Some(daemon) = &mut simulation.daemon {
        daemon.start(clock);
    }
    if let Some(world) = &simulation.world {
        clock.push(world.next(), Class::World, What::Move);
    }
    if simulation.flows.rec.samples() {
        clock.push(Time::ZERO, Class::World, What::Sample);
    }
    let air = &mut simulation.net.air;
    air.watch(simulation.scenario.record.frames, false);
}
