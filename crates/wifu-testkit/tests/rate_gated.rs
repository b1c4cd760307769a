//! A protocol without a window and without a retransmission timer, on the same engine: hops raise a
//! header word, the receiver feeds it back in epochs, the sender paces by it (the shape of ATP).

#[path = "../../../examples/custom/src/rated.rs"]
mod rated;
mod support;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use support::{links, median_gap_us, percent, probe, seconds, share};
use wifu_engine::blueprint::HopHalf;
use wifu_engine::{Blueprint, Library, Limit};
use wifu_testkit::alloc::{Counting, allocations_in};
use wifu_testkit::chain::{Chain, Hop, Plan};
use wifu_wire::{Place, Rate, Span};

#[global_allocator]
static COUNTING: Counting = Counting;

const RATED: &str = r#"
[protocol.rated]
wire = "shim"
store = "octets"
manager = "opener"
reliable = "hole-list"
receive = "reassemble"
gates = ["delay-rate", "peer-window"]
ack = "epoch-feedback"
"#;

fn rated() -> Arc<Blueprint> {
    let registry = wifu_parts::registry().with(&[
        &support::opener::OPENER,
        &rated::HOLE_LIST,
        &rated::DELAY_RATE,
        &rated::EPOCH_FEEDBACK,
    ]);
    let composition = Library::parse(RATED).and_then(|l| l.expand("rated"));
    // What the closure below writes at each hop.
    let hops = HopHalf {
        writes: &["delay", "hops"],
        adds: 0,
    };
    let checked = composition.and_then(|c| Blueprint::with(&c, &registry, hops));
    Arc::new(checked.unwrap_or_else(|e| panic!("{e}")))
}

/// How often each of the hops raised the delay of a packet.
type Raised = Rc<[Cell<u64>; 4]>;

/// At every sending hop: the largest node delay on the path so far (Behaviour 7.5).
fn stamp(blueprint: &Blueprint, raised: Raised) -> impl FnMut(&mut Hop<'_>) -> bool + use<> {
    let place = |name: &str| -> Place { blueprint.wire.place(name).expect("it was declared") };
    let (delay, hops, feedback) = (place("delay"), place("hops"), place("feedback"));
    move |hop| {
        if feedback.read(hop.bytes) == 1 {
            return true;
        }
        let here = hop
            .link
            .delay
            .unwrap_or(hop.link.rate.time_for(1500))
            .micros() as u32;
        hops.write(hop.bytes, (hops.read(hop.bytes) + 1).min(255));
        if here > delay.read(hop.bytes) {
            delay.write(hop.bytes, here);
            raised[hop.node].set(raised[hop.node].get() + 1);
        }
        true
    }
}

/// Four hops; the third is the slowest.
fn chain(octets: u64, loss: u32, seed: u64) -> (Chain, Raised) {
    let protocol = rated();
    let mut chain = Chain::new(Plan {
        seed,
        links: links(&[10, 8, 5, 8], 100, loss),
        ends: [Arc::clone(&protocol), Arc::clone(&protocol)],
        lanes: None,
        octets,
        ttl: 64,
    });
    let raised = Raised::default();
    chain.handle(Box::new(stamp(&protocol, Rc::clone(&raised))));
    chain.keep_departures(20_000);
    chain.start();
    (chain, raised)
}

#[test]
fn a_megabyte_arrives_at_the_rate_of_the_slowest_hop_and_every_mechanism_acts() {
    let (mut chain, raised) = chain(1_000_000, 0, 1);
    assert!(
        chain.run_to_end(Span::SECOND * 30),
        "stuck at {}",
        chain.app().octets_read()
    );
    let (source, sink) = (chain.source(), chain.sink());
    let time = seconds(&chain);
    let paced = share(&chain, Limit::Pace);
    let closed_form_us = 1500.0 * 8.0 / 5.0;
    let gap = median_gap_us(&chain);
    println!(
        "{time:.2} s, paced {:.0} %, median gap {gap} us (one packet on the slowest hop takes \
         {closed_form_us}), feedbacks {}, rate raised {} and lowered {} times, hops {}, stamps {:?}",
        paced * 100.0,
        probe(sink, "feedbacks"),
        probe(source, "raised"),
        probe(source, "lowered"),
        probe(sink, "hops"),
        raised.iter().map(Cell::get).collect::<Vec<_>>(),
    );
    assert!(paced > 0.8);
    assert!((gap / closed_form_us - 1.0).abs() < 0.15);
    assert_eq!(probe(sink, "hops") as u32, 4);
    assert!(raised[0].get() > 100 && raised[2].get() > 100);
    assert_eq!(raised[3].get(), 0, "the last hop is faster than the third");
    assert!(probe(sink, "feedbacks") >= (time / 0.040).floor() - 3.0);
    assert!(probe(source, "raised") + probe(source, "lowered") > 0.0);
    assert_eq!(source.board().tx.timeouts, 0);
    assert_eq!(source.board().win.cwnd, 0, "nobody keeps a window");
}

#[test]
fn the_rate_follows_a_hop_that_becomes_slower() {
    let (mut chain, _) = chain(2_000_000, 0, 1);
    assert!(chain.run(Span::SECOND * 5, |c| c.app().octets_read() > 1_000_000));
    chain.set_rate(1, Rate(2_000_000));
    chain.departures.clear();
    assert!(chain.run_to_end(Span::SECOND * 30), "{}", chain.report());
    let (gap, closed_form_us) = (median_gap_us(&chain), 1500.0 * 8.0 / 2.0);
    let lowered = probe(chain.source(), "lowered");
    println!("median gap {gap} us (closed form {closed_form_us}), lowered {lowered} times");
    assert!(lowered > 0.0 && (gap / closed_form_us - 1.0).abs() < 0.15);
}

#[test]
fn holes_alone_repair_losses_on_every_hop() {
    for seed in 1..=5 {
        let (mut chain, _) = chain(1_000_000, percent(2), seed);
        assert!(
            chain.run_to_end(Span::SECOND * 120),
            "stuck at {}",
            chain.app().octets_read()
        );
        let lost: u64 = (0..4).map(|n| chain.link(n, true).lost).sum();
        let (resent, holes) = (
            probe(chain.source(), "resent"),
            probe(chain.sink(), "holes"),
        );
        println!(
            "seed {seed}: {:.2} s, {lost} lost, {resent} resent, {holes} holes reported, {} stalls",
            seconds(&chain),
            probe(chain.source(), "stalls")
        );
        assert!(lost > 20 && resent > 20.0 && holes > 20.0);
        assert!(
            resent < 1.5 * lost as f64,
            "more was retransmitted than lost"
        );
        assert_eq!(chain.source().board().tx.timeouts, 0);
    }
}

#[test]
fn a_silent_path_halves_the_rate_and_is_asked_again() {
    let (mut chain, _) = chain(1_000_000, 0, 1);
    assert!(chain.run(Span::SECOND, |c| c.app().octets_read() > 300_000));
    chain.cut(3, Span::SECOND);
    assert!(chain.run_to_end(Span::SECOND * 30), "{}", chain.report());
    let source = chain.source();
    println!(
        "missed {}, stalls {}",
        probe(source, "missed"),
        probe(source, "stalls")
    );
    assert!(probe(source, "missed") >= 3.0 && probe(source, "stalls") >= 1.0);
}

#[test]
fn a_packet_costs_no_allocation() {
    let (mut chain, _) = chain(20_000_000, percent(1), 1);
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
        let (mut chain, _) = chain(200_000, percent(2), seed);
        assert!(chain.run_to_end(Span::SECOND * 60), "{}", chain.report());
        chain.trace_hash()
    };
    assert_eq!(hash(7), hash(7));
    assert_ne!(hash(7), hash(8));
}
