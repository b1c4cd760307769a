//! The paced window over a chain of radios: it delivers, its gate is what limits, and it saw what
//! the radios and the path told it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use custom::paced::PACED;
use wifu_engine::{
    Admit, Board, Component, Cx, Descriptor, Library, Out, Permit, Segment, Signal, Want,
};
use wifu_node::Registry;
use wifu_sim::mesh::Simulation;
use wifu_sim::outcome::Outcome;
use wifu_sim::scenario::Scenario;
use wifu_wire::Time;

thread_local! {
    /// What the gate reported last, by name.
    static PROBES: RefCell<BTreeMap<&'static str, f64>> = const { RefCell::new(BTreeMap::new()) };
}

/// The gate, and what it reports after each segment.
struct Told(Box<dyn Component>);

impl Component for Told {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let admit = self.0.on_segment(seg, cx);
        PROBES.with_borrow_mut(|all| {
            self.0.observe(&mut |name, value| {
                all.insert(name, value);
            });
        });
        admit
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        self.0.on_signal(signal, cx);
    }

    fn permit(&self, want: &Want, board: &Board, now: Time) -> Permit {
        self.0.permit(want, board, now)
    }

    fn stamp(&mut self, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        self.0.stamp(out, cx);
    }
}

static TOLD: Descriptor = Descriptor {
    name: "told",
    doc: "The gate of this crate, and what it reports.",
    role: PACED.role,
    params: PACED.params,
    probes: PACED.probes,
    reads: PACED.reads,
    wants: PACED.wants,
    notes: PACED.notes,
    hears: PACED.hears,
    hooks: PACED.hooks,
    build: |p| Ok(Box::new(Told((PACED.build)(p)?))),
    ..Descriptor::EMPTY
};

fn registry() -> Registry {
    let told = custom::paced::PROTOCOL
        .replace("protocol.paced", "protocol.told")
        .replace("four-hop-delay", "told")
        .replace("240", "241");
    wifu::standard()
        .with_parts(custom::PARTS)
        .with_handlers(custom::HANDLERS)
        .with_wires(custom::WIRES)
        .with_library(custom::library())
        .with_parts(&[&TOLD])
        .with_library(Library::parse(&told).unwrap_or_else(|e| panic!("{e}")))
}

/// A file of 300 kB over a chain of five nodes.
fn outcome(protocol: &str, more: &str) -> Outcome {
    let text = format!(
        "[topology]\nwords = \"linear,5,snr=20\"\nset = \"TB-W9\"\n[stop]\ntime = \"60s\"\n\
         [[flow]]\nfrom = \"n1\"\nto = \"n5\"\nprotocol = \"{protocol}\"\napp = \"file\"\n\
         bytes = \"300k\"\n{more}"
    );
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}"));
    let mut simulation = Simulation::new(&scenario, &registry()).unwrap_or_else(|e| panic!("{e}"));
    simulation.run();
    simulation.outcome()
}

#[test]
fn the_gate_limits_and_everything_arrives_as_it_was_sent() {
    let flow = &outcome("paced", "").flows[0];
    assert!(flow.finished, "{flow:?}");
    assert_eq!((flow.bytes, flow.corrupt, flow.hops), (300_000, 0, 4));
    let paced = flow.limited_s.get("pace").copied().unwrap_or_default();
    println!("limited by the gate {paced:.3} s of {:.3} s", flow.until_s);
    assert!(paced > 0.0, "{:?}", flow.limited_s);
    let plain = &outcome("tcp-newreno", "").flows[0];
    assert_eq!(
        plain.limited_s.get("pace").copied().unwrap_or_default(),
        0.0
    );
}

#[test]
fn the_gate_saw_signal_and_hops() {
    let flow = &outcome("told", "").flows[0];
    assert!(flow.finished, "{flow:?}");
    let probes = PROBES.take();
    // 20 dB over -94 dBm, varying by 1 dB.
    assert!((-80.0..=-69.0).contains(&probes["rssi_dbm"]), "{probes:?}");
    assert_eq!(probes["hops"], 4.0);
    assert!(
        probes["samples"] > 10.0 && probes["gap_us"] > 0.0,
        "{probes:?}"
    );
}

/// What a host took over segments is known, and what it takes too long over does not leave.
#[test]
fn the_gate_knows_its_host_and_until_when_data_are_worth_sending() {
    let py = "[host]\nprofile = \"py\"\n";
    let at_once = outcome("told", "").flows[0].packets.late;
    let quick = PROBES.take()["host_us"];
    let worked = &outcome("told,worth=60s", py).flows[0];
    let slow = PROBES.take()["host_us"];
    assert!(quick < 1.0 && slow > 100.0, "{quick} and {slow} us");
    assert!(worked.finished && worked.packets.late == 0 && at_once == 0);
    let late = &outcome("told,worth=1us", py).flows[0];
    assert!(!late.finished && late.packets.late > 1, "{late:?}");
}

#[test]
fn the_handler_drops_what_came_too_weak() {
    let handler = |dbm: &str| format!("[[handler]]\nuse = \"weak-signal\"\ndbm = {dbm}\n");
    assert!(outcome("paced", &handler("-90.0")).flows[0].finished);
    let deaf = outcome("paced", &handler("-60.0"));
    assert_eq!(deaf.flows[0].bytes, 0);
    assert!(
        deaf.nodes
            .iter()
            .flat_map(|n| &n.handlers)
            .any(|h| h.dropped > 0)
    );
}
