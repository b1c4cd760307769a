//! A hop protocol on the same engine: a lane per node over a packet store, credits and the passive
//! acknowledgement read from what the next node is heard sending, last-hop acknowledgements, ends
//! that number packets (the shape of HxH).

#[path = "support/hop.rs"]
mod hop;
mod support;

use std::sync::Arc;
use support::{blueprint, links, percent, probe, seconds};
use wifu_engine::{Library, Limit, Registry};
use wifu_testkit::alloc::{Counting, allocations_in};
use wifu_testkit::chain::{Chain, Class, LanePlan, Plan};
use wifu_wire::{Head, Span, Wire};

#[global_allocator]
static COUNTING: Counting = Counting;

const HOP: &str = r#"
[protocol.hop]
wire = "shim"
store = "records"
manager = { use = "opener", isn_zero = "on" }
reliable = "record-source"
receive = "record-sink"

[lane.hop]
set = { packets = 8 }
reliable = "hop-queue"
gates = ["hop-credit"]

[protocol.hop-without-credits]
extends = "hop"

[lane.hop-without-credits]
gates = []
"#;

/// Packets that a lane holds.
const CAPACITY: u32 = 8;

fn classify(wire: &dyn Wire, head: &Head, payload: usize) -> Class {
    let word = |name| wire.place(name).expect("it was declared").word;
    if head.get(word(hop::LAST_HOP)) == 1 {
        Class::Local
    } else if payload > 0 || head.get(word("last")) == 1 {
        Class::Data
    } else {
        Class::Control
    }
}

fn registry() -> Registry {
    Registry::new(&[
        &support::opener::OPENER,
        &hop::HOP_QUEUE,
        &hop::HOP_CREDIT,
        &hop::RECORD_SOURCE,
        &hop::RECORD_SINK,
    ])
}

/// Four hops; the last is the slowest, and a driver takes two frames.
fn chain(name: &str, octets: u64, loss: u32, seed: u64) -> Chain {
    let ends = blueprint(HOP, name, &registry());
    let lane = ends.lane.clone().expect("it brings one");
    let mut chain = Chain::new(Plan {
        seed,
        links: links(&[10, 8, 8, 4], 2, loss),
        ends: [Arc::clone(&ends), ends],
        lanes: Some(LanePlan {
            blueprint: lane,
            classify,
        }),
        octets,
        ttl: 64,
    });
    chain.start();
    chain
}

fn overflows(chain: &Chain) -> u64 {
    (0..4).map(|n| chain.lane(n, true).overflows).sum()
}

#[test]
fn credits_hold_every_sender_back_and_no_queue_overflows() {
    let mut chain = chain("hop", 1_000_000, 0, 1);
    assert!(chain.run_to_end(Span::SECOND * 30), "{}", chain.report());
    let time = seconds(&chain);
    println!("{time:.2} s");
    for node in 0..4 {
        let lane = chain.lane(node, true);
        let conn = lane.conn().expect("packets came");
        let stopped = conn.limits()[Limit::Peer.index()].as_secs_f64() / time;
        println!(
            "lane {node}: without credit {:.0} % of the time, at most {} of {CAPACITY} packets, \
             {} forced",
            stopped * 100.0,
            lane.most,
            if node < 3 { probe(conn, "forced") } else { 0.0 },
        );
        assert!(lane.most <= CAPACITY && lane.overflows == 0);
        assert!(
            node == 3 || stopped > 0.2,
            "credits never stopped node {node}"
        );
        assert_eq!(probe(conn, "kept"), 0.0, "everything was given back");
    }
    let (source, sink) = (chain.source(), chain.sink());
    let (passive, explicit) = (probe(source, "passive"), probe(source, "explicit"));
    let records = source.board().tx.max.0;
    println!("{records} records, acknowledged {passive} times passively, {explicit} explicitly");
    assert!(
        passive > 20.0 * explicit,
        "the passive acknowledgement did the work"
    );
    assert_eq!(probe(sink, "last_hop_acks"), f64::from(records - 1));
    assert!(source.limits()[Limit::Queue.index()].as_secs_f64() / time > 0.2);
    assert_eq!(
        (probe(source, "resent"), source.board().tx.timeouts),
        (0.0, 0)
    );
    // The last hop is kept busy: 1424 octets of payload in 1500, at 4 Mb/s.
    assert!(time < 1.1 * 1_000_000.0 * 8.0 / 4e6 * 1500.0 / 1420.0);
}

#[test]
fn ends_that_read_what_lanes_write_are_refused_without_their_lane() {
    let error = |text: &str| {
        let library = Library::parse(text).unwrap();
        let refused = library.resolve("hop", &registry());
        refused.unwrap_err().to_string()
    };
    let lane = HOP.find("[lane.hop]").unwrap();
    let without = error(&HOP[..lane]);
    let pack =
        "record-source reads the header word \"pack\", which nodes write, and nothing in this";
    assert!(
        without.contains(pack) && without.contains("[lane.hop]"),
        "{without}"
    );
    let tcp = HOP.replace("wire = \"shim\"", "wire = \"tcp\"");
    assert!(error(&tcp).contains("hop.wire: record-source uses the header word \"pack\""));
    let alone = Library::parse(&HOP[lane..]).unwrap_err().to_string();
    assert!(alone.contains("there is no [protocol.hop]"), "{alone}");
    let keys = HOP.replace("[lane.hop]\n", "[lane.hop]\nstore = \"octets\"\n");
    assert!(error(&keys).contains("a lane has the packets of its protocol"));
}

#[test]
fn a_lane_takes_parameters_of_its_own() {
    let library = Library::parse(HOP).unwrap();
    let packets = |spec: &str| {
        let ends = library.resolve(spec, &registry()).unwrap();
        ends.lane.as_ref().unwrap().engine_int("packets")
    };
    assert_eq!((packets("hop"), packets("hop,lane.packets=32")), (8, 32));
}

#[test]
fn without_the_gate_the_same_lanes_overflow() {
    let mut chain = chain("hop-without-credits", 1_000_000, 0, 1);
    assert!(chain.run_to_end(Span::SECOND * 120), "{}", chain.report());
    println!("{} packets found a lane full", overflows(&chain));
    assert!(overflows(&chain) > 100);
}

#[test]
fn losses_of_packets_acknowledgements_and_credits_are_survived() {
    for seed in 1..=5 {
        let mut chain = chain("hop", 1_000_000, percent(2), seed);
        assert!(chain.run_to_end(Span::SECOND * 120), "{}", chain.report());
        let onward: u64 = (0..4).map(|n| chain.link(n, true).lost).sum();
        let back: u64 = (1..5).map(|n| chain.link(n, false).lost).sum();
        let (source, sink) = (chain.source(), chain.sink());
        let lane = |n: usize| chain.lane(n, true).conn().expect("packets came");
        let forced: f64 = (0..3).map(|n| probe(lane(n), "forced")).sum();
        let again = probe(lane(3), "again");
        println!(
            "seed {seed}: {:.2} s, lost {onward} and {back}, resent by the source {}, by the last \
             hop {again}, sent without credit {forced}, parked {}, lists {}, overflows {}",
            seconds(&chain),
            probe(source, "resent"),
            probe(sink, "parked"),
            probe(sink, "lists"),
            overflows(&chain),
        );
        assert!(probe(source, "resent") > 10.0 && again > 5.0);
        assert!(probe(sink, "parked") > 10.0 && probe(sink, "lists") > 10.0);
        assert!((0..4).all(|n| chain.lane(n, true).most <= CAPACITY));
    }
}

#[test]
fn a_packet_costs_no_allocation() {
    let mut chain = chain("hop", 20_000_000, percent(1), 1);
    let sent = |c: &Chain| c.source().counters().segments_out;
    assert!(chain.run(Span::SECOND * 60, |c| sent(c) >= 100));
    let taken = allocations_in(|| {
        assert!(chain.run(Span::SECOND * 600, |c| sent(c) >= 10_000));
    });
    println!(
        "{taken} allocations from the 100th to the {}th packet",
        sent(&chain)
    );
    assert_eq!(taken, 0);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let hash = |seed| {
        let mut chain = chain("hop", 200_000, percent(2), seed);
        assert!(chain.run_to_end(Span::SECOND * 60), "{}", chain.report());
        chain.trace_hash()
    };
    assert_eq!(hash(7), hash(7));
    assert_ne!(hash(7), hash(8));
}
