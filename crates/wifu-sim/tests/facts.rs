//! The table of facts is true of both networks: what it says they tell, parts and handlers learn in
//! a run, and nothing else. What is required and not told is refused before the first packet.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use wifu_core::{
    Descriptor as HandlerDescriptor, Handler, Hook, Hooks, HopCx, Packet, TxStatus, Verdict, ip,
};
use wifu_engine::board::ConnFacts;
use wifu_engine::{
    Admit, Board, Component, Cx, Descriptor, Fact, Facts, Kind, Library, Out, Payload, Role,
    Segment, Signal, Want,
};
use wifu_node::{Registry, Teller};
use wifu_sim::mesh::Simulation;
use wifu_sim::scenario::Scenario;
use wifu_sim::{Flow, MockBuilder, Span, Stop};
use wifu_wire::{FrameFacts, Rate, Time};

thread_local! {
    /// What parts and handlers of the test that runs in this thread learned.
    static LEARNED: RefCell<[BTreeSet<Fact>; 2]> = const { RefCell::new([BTreeSet::new(), BTreeSet::new()]) };
}

const PARTS: usize = 0;
const HANDLERS: usize = 1;

fn learn(who: usize, facts: &[(Fact, bool)]) {
    LEARNED.with_borrow_mut(|all| {
        let there = facts.iter().filter(|(_, there)| *there);
        all[who].extend(there.map(|(fact, _)| *fact));
    });
}

/// A lane's queue, which hands down what came first.
static QUEUE: Descriptor = Descriptor {
    name: "queue",
    role: Role::Reliable,
    doc: "Hands down what came first.",
    writes: Facts::TX.with(Facts::CONN),
    hears: &[("wrote", &["opened"])],
    offers: &[Kind::New],
    needs: &[("store", &["packets"])],
    build: |_| Ok(Box::new(Queue)),
    ..Descriptor::EMPTY
};

struct Queue;

impl Component for Queue {
    fn on_signal(&mut self, _wrote: &Signal, cx: &mut Cx<'_>) {
        if !cx.board.conn.running {
            cx.write(|c: &mut ConnFacts| c.running = true);
            cx.out.emit(Signal::Opened);
        }
    }

    fn offer(&self, kind: Kind, board: &Board, _: Time) -> Option<Want> {
        let (bytes, least) = (1, 1);
        (board.app.queued > 0).then_some(Want { kind, bytes, least })
    }

    fn fill(&mut self, _: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        if let Some((ticket, number)) = cx.store.pop() {
            out.head.seq = number;
            out.payload = Payload::Packet {
                ticket,
                keep: false,
            };
        }
    }
}

/// Writes down which facts are there.
static WITNESS: Descriptor = Descriptor {
    name: "witness",
    role: Role::Watch,
    doc: "Writes down which facts are there.",
    hears: &[("status", &[])],
    hooks: &["segment", "overheard"],
    build: |_| Ok(Box::new(Witness)),
    ..Descriptor::EMPTY
};

struct Witness;

fn seen(frame: &FrameFacts, board: &Board) {
    let site = &board.site;
    learn(
        PARTS,
        &[
            (Fact::NextHop, site.next_hop.is_some()),
            (Fact::RouteHops, site.route_hops.is_some()),
            (Fact::SiteRate, site.rate.is_some()),
            (Fact::Sense, site.sense_dbm.is_some()),
            (Fact::TxPower, site.tx_power_dbm.is_some()),
            (Fact::Rssi, frame.rssi_dbm.is_some()),
            (Fact::FrameRate, frame.rate.is_some()),
            (Fact::Transmitter, frame.transmitter.is_some()),
            (Fact::Received, frame.received.is_some()),
        ],
    );
}

impl Component for Witness {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        seen(seg.frame, &cx.board);
        Admit::Pass
    }

    fn on_overheard(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        learn(PARTS, &[(Fact::Overheard, true)]);
        seen(seg.frame, &cx.board);
    }

    fn on_signal(&mut self, signal: &Signal, _: &mut Cx<'_>) {
        learn(
            PARTS,
            &[(Fact::Status, matches!(signal, Signal::Status(_)))],
        );
    }
}

/// The same at every hook of every node.
static OBSERVER: HandlerDescriptor = HandlerDescriptor {
    name: "observer",
    doc: "Writes down which facts are there.",
    hooks: Hooks::ALL,
    build: |_| Ok(Box::new(Observer)),
    ..HandlerDescriptor::EMPTY
};

struct Observer;

impl Handler for Observer {
    fn on_packet(&mut self, hook: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        let link = cx.site.link();
        let next = cx.site.next_hop(ip::addresses(packet.octets()).1);
        learn(
            HANDLERS,
            &[
                (Fact::NextHop, next.is_some()),
                (Fact::RouteHops, next.is_some_and(|n| n.hops.is_some())),
                (Fact::Rssi, packet.rssi_dbm.is_some()),
                (Fact::FrameRate, packet.rate.is_some()),
                (Fact::Transmitter, packet.transmitter.is_some()),
                (Fact::Received, packet.received.is_some()),
                (Fact::Overheard, hook == Hook::Overheard),
                (Fact::LinkDelay, link.delay.is_some()),
                (Fact::LinkQueued, link.queued.is_some()),
                (Fact::LinkRoom, link.room.is_some()),
                (Fact::LinkDone, link.last_done.is_some()),
                (Fact::LinkBusy, link.busy.is_some()),
                (Fact::LinkRate, link.rate.is_some()),
            ],
        );
        Verdict::Accept
    }

    fn on_tx_status(&mut self, _: &TxStatus, _: &mut HopCx<'_>) {
        learn(HANDLERS, &[(Fact::Status, true)]);
    }
}

/// One whose ends look, and one whose lanes do.
const WATCHED: &str = "[protocol.watched]\nextends = \"tcp-newreno\"\nwatch.add = [\"witness\"]\n\
                       [protocol.laned]\nextends = \"tcp-newreno\"\nnumber = 250\n\
                       wire = \"shim\"\n\
                       [lane.laned]\nreliable = \"queue\"\nwatch = [\"witness\"]\n";

fn registry(more: &str) -> Registry {
    let own = Library::parse(&format!("{WATCHED}{more}")).unwrap_or_else(|e| panic!("{e}"));
    let registry = Registry::new(wifu_parts::registry(), wifu_parts::library().merge(own));
    registry
        .with_parts(&[&WITNESS, &QUEUE, &SENSITIVE, &QUICK])
        .with_handlers(&[&OBSERVER])
}

/// What a teller tells, by who reads it.
fn table(teller: Teller) -> [BTreeSet<Fact>; 2] {
    let told = || teller.tells().iter().copied();
    [
        told().filter(|f| f.for_parts()).collect(),
        told().filter(|f| f.for_handlers()).collect(),
    ]
}

const RADIOS: &str = "[topology]\nwords = \"linear,3\"\nset = \"TB-W9\"\n";

/// Three nodes in a row, joined by wires.
fn wires() -> String {
    let node = |n: u32| format!("[[topology.node]]\nname = \"n{n}\"\nwired_only = true\n");
    let wire = |n: u32| {
        let to = n + 1;
        format!(
            "[[topology.wire]]\na = \"n{n}\"\nb = \"n{to}\"\ndelay = \"1ms\"\n\
                 rate = \"24Mb/s\"\n"
        )
    };
    let nodes: String = (1..=3).map(node).collect();
    format!("[topology]\n{nodes}{}{}", wire(1), wire(2))
}

fn scenario(network: &str, protocol: &str, more: &str) -> Scenario {
    let text = format!(
        "{network}[[flow]]\nfrom = \"n1\"\nto = \"n3\"\nprotocol = \"{protocol}\"\napp = \"file\"\n\
         bytes = \"50k\"\n{more}"
    );
    Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}"))
}

fn simulation(
    network: &str,
    protocol: &str,
    more: &str,
    registry: &Registry,
) -> Result<Simulation, String> {
    let scenario = scenario(network, protocol, more);
    Simulation::new(&scenario, registry).map_err(|e| e.to_string())
}

/// What parts, of ends or of lanes, and handlers learn during a file's transfer over a network.
fn learned(network: &str, protocol: &str) -> [BTreeSet<Fact>; 2] {
    let observer = "[[handler]]\nuse = \"observer\"\n";
    let mut simulation = simulation(network, protocol, observer, &registry("")).unwrap();
    simulation.run();
    assert!(simulation.outcome().flows[0].finished);
    LEARNED.take()
}

#[test]
fn radios_tell_what_the_table_says_and_no_more() {
    for protocol in ["watched", "laned"] {
        assert_eq!(
            learned(RADIOS, protocol),
            table(Teller::Radios),
            "{protocol}"
        );
    }
}

#[test]
fn wires_tell_what_the_table_says_and_no_more() {
    for protocol in ["watched", "laned"] {
        assert_eq!(
            learned(&wires(), protocol),
            table(Teller::Wires),
            "{protocol}"
        );
    }
}

#[test]
fn wires_that_are_overheard_tell_that_too() {
    for protocol in ["watched", "laned"] {
        // Each end hears the wire on which it is not.
        let mut all = wires();
        for (a, by) in [("n1", "n3"), ("n2", "n1")] {
            let wire = format!("[[topology.wire]]\na = \"{a}\"\n");
            let heard = format!("{wire}overheard_by = [\"{by}\"]\n");
            assert!(all.contains(&wire));
            all = all.replace(&wire, &heard);
        }
        let [parts, handlers] = table(Teller::Wires);
        let [more_parts, more_handlers] = table(Teller::WireEars);
        let both = [&parts | &more_parts, &handlers | &more_handlers];
        assert_eq!(learned(&all, protocol), both, "{protocol}");
    }
}

#[test]
fn the_mock_network_tells_nothing() {
    let blueprint = Arc::clone(&registry("").resolve("watched").unwrap().ends);
    let mut mock = MockBuilder::new()
        .flow(Flow::bulk(&blueprint, 50_000))
        .build();
    assert_eq!(mock.run(Span(7_200_000_000_000)), Stop::Idle);
    assert_eq!(mock.verify(0), Ok(()));
    assert_eq!(LEARNED.take()[PARTS], table(Teller::Mock)[PARTS]);
}

/// Cannot do without a signal's strength.
static SENSITIVE: Descriptor = Descriptor {
    name: "sensitive",
    requires: &[Fact::Rssi],
    build: |_| Ok(Box::new(Unable)),
    ..Descriptor::EMPTY
};

/// Cannot do without the rate of the link.
static QUICK: Descriptor = Descriptor {
    name: "quick",
    requires: &[Fact::SiteRate],
    build: |_| Ok(Box::new(Unable)),
    ..Descriptor::EMPTY
};

struct Unable;

impl Component for Unable {}

#[test]
fn what_is_required_and_not_told_is_refused_before_the_first_packet() {
    let own = |part: &str| {
        let file = "\nextends = \"tcp-newreno\"\nwatch.add = ";
        registry(&format!("[protocol.own]{file}[\"{part}\"]\n"))
    };
    let said =
        |network: &str, part: &str, more: &str| simulation(network, "own", more, &own(part)).err();
    let rated = wires();
    assert_eq!(said(RADIOS, "sensitive", ""), None);
    assert_eq!(
        said(&rated, "sensitive", "").unwrap(),
        "flow.1.protocol: own.watch: sensitive requires frame.rssi_dbm (received signal \
         strength), which is not known in this scenario, which has no radios; it is in `wifu sim` \
         with radios, `wifu daemon --monitor`, `wifu daemon --serve` on Wi-Fi"
    );
    // A wire without a limit, which only plans have, has no rate.
    assert_eq!(said(&rated, "quick", ""), None);
    let built = simulation(&rated, "own", "", &own("quick")).unwrap();
    let mut plan = built.plan().clone();
    plan.wires.iter_mut().for_each(|w| w.rate = Rate(0));
    let unlimited = scenario(&rated, "own", "");
    let unlimited = Simulation::from_plan(&unlimited, plan, &own("quick"));
    assert!(
        unlimited
            .err()
            .unwrap()
            .to_string()
            .contains("quick requires site.rate")
    );
    // Where there are both, a packet may go by either.
    let both = format!(
        "{RADIOS}[[topology.wire]]\na = \"n1\"\nb = \"n2\"\ndelay = \"1ms\"\nrate = \"24Mb/s\"\n"
    );
    assert_eq!(said(&both, "sensitive", ""), None);
    let reports = "[[handler]]\nuse = \"logger\"\nstatus = true\n";
    assert_eq!(said(RADIOS, "witness", reports), None);
    assert_eq!(
        said(&rated, "witness", reports).unwrap(),
        "handler.1: logger: with status = on it requires status (what became of transmissions), \
         which is not known here"
    );
}

#[test]
fn what_is_overheard_is_not_told_where_no_radio_listens_for_others() {
    static EAR: Descriptor = Descriptor {
        name: "ear",
        requires: &[Fact::Overheard],
        build: |_| Ok(Box::new(Unable)),
        ..Descriptor::EMPTY
    };
    let file = "[protocol.own]\nextends = \"tcp-newreno\"\nwatch.add = [\"ear\"]\n";
    let registry = registry(file).with_parts(&[&EAR]);
    assert!(simulation(RADIOS, "own", "", &registry).is_ok());
    let deaf = "[radio]\npromiscuous = false\n";
    let said = simulation(RADIOS, "own", deaf, &registry).err().unwrap();
    assert!(
        said.contains("ear requires overheard (frames for other stations)"),
        "{said}"
    );
}
