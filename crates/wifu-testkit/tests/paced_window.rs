//! TCP's own parts and a gate that spaces their segments by the delay of four hops, in one
//! composition: neither knows of the other (the shape of TCP-AP).

#[path = "../../../examples/custom/src/paced.rs"]
mod paced;
mod support;

use std::sync::Arc;
use support::{blueprint_in, links, median_gap_us, percent, probe, seconds, share};
use wifu_engine::trace::{Record, What};
use wifu_engine::{Blueprint, Kind, Library, Limit, Signal};
use wifu_testkit::alloc::{Counting, allocations_in};
use wifu_testkit::chain::{Chain, Plan};
use wifu_wire::{Span, Time};

#[global_allocator]
static COUNTING: Counting = Counting;

fn protocol(name: &str) -> Arc<Blueprint> {
    let library = Library::parse(paced::PROTOCOL).unwrap_or_else(|e| panic!("{e}"));
    let registry = wifu_parts::registry().with(&[&paced::PACED]);
    blueprint_in(&wifu_parts::library().merge(library), name, &registry)
}

/// Four hops of 24 Mb/s and 1 ms.
fn chain(name: &str, octets: u64, loss: u32, seed: u64) -> Chain {
    let protocol = protocol(name);
    let mut chain = Chain::new(Plan {
        seed,
        links: links(&[24; 4], 100, loss),
        ends: [Arc::clone(&protocol), protocol],
        lanes: None,
        octets,
        ttl: 65,
    });
    chain.keep_departures(20_000);
    chain.start();
    chain
}

/// With nothing queued a round trip takes `hops * ((data + ack) * 8 / b + 2 * d)`, which leaves of
/// `factor / 2 * (rtt / hops + (data - ack) * 8 / b)` this: one packet and one delay per hop.
fn closed_form_us() -> f64 {
    4.0 * (1500.0 * 8.0 / 24.0 + 1000.0)
}

#[test]
fn the_gap_is_that_of_the_closed_form_and_the_pacer_is_what_limits() {
    let mut chain = chain("paced", 1_000_000, 0, 1);
    assert!(chain.run_to_end(Span::SECOND * 60), "{}", chain.report());
    let (gap, paced) = (median_gap_us(&chain), share(&chain, Limit::Pace));
    let hops = chain.source().board().path.hops.map_or(0, u8::from);
    println!(
        "{:.2} s, limited by the pacer {:.0} % and the window {:.1} % of the time, median gap \
         {gap} us (closed form {}), {hops} hops",
        seconds(&chain),
        paced * 100.0,
        share(&chain, Limit::Window) * 100.0,
        closed_form_us(),
    );
    assert!(paced > 0.9);
    assert!((gap / closed_form_us() - 1.0).abs() < 0.05);
    assert_eq!(hops, 4);
    assert!(probe(chain.source(), "samples") > 100.0);
    assert_eq!(chain.link(1, true).most, 0, "paced packets never queue");
}

#[test]
fn the_same_window_without_the_gate_sends_in_bursts() {
    let mut chain = chain("tcp-newreno", 1_000_000, 0, 1);
    assert!(chain.run_to_end(Span::SECOND * 60), "{}", chain.report());
    println!("median gap {} us", median_gap_us(&chain));
    assert_eq!(share(&chain, Limit::Pace), 0.0);
    assert!(median_gap_us(&chain) < 0.2 * closed_form_us());
}

/// Rescues that left ahead of the pacer's usual time; data in turn that left ahead of the shortest
/// interval there can be: short segments lower the estimate to the propagation, two thirds.
fn impatient(records: &[Record], usual: Span) -> (usize, usize) {
    let (mut last, mut rescues, mut in_turn) = (Time::ZERO, 0, 0);
    for r in records {
        let What::Signal(Signal::Sent(s)) = r.what else {
            continue;
        };
        let gap = r.at - last;
        rescues += usize::from(gap < usual * 9 / 10 && s.kind == Kind::Rescue);
        in_turn += usize::from(gap < usual * 6 / 10 && s.kind.in_turn());
        if s.kind.in_turn() {
            last = r.at;
        }
    }
    (rescues, in_turn)
}

#[test]
fn losses_are_repaired_and_rescues_do_not_wait_for_the_pacer() {
    let mut soon = 0;
    for seed in 1..=5 {
        // One hop's delay instead of four: enough in flight for duplicate acknowledgements.
        let mut chain = chain("paced,hop_factor=1", 1_000_000, percent(1), seed);
        chain.source_mut().start_trace();
        assert!(chain.run_to_end(Span::SECOND * 300), "{}", chain.report());
        let lost: u64 = (0..4).map(|n| chain.link(n, true).lost).sum();
        let trace = chain.source_mut().take_trace();
        let (rescues, in_turn) = impatient(&trace, Span::from_secs_f64(closed_form_us() / 4e6));
        let tx = &chain.source().board().tx;
        println!(
            "seed {seed}: {:.2} s, {lost} lost, {} resent, {} timeouts, {rescues} rescues ahead \
             of their time",
            seconds(&chain),
            tx.retransmits,
            tx.timeouts
        );
        assert!(lost > 5 && u64::from(tx.retransmits) >= lost / 2);
        assert!(share(&chain, Limit::Pace) > 0.0);
        assert_eq!(in_turn, 0, "the pacer let data pass ahead of its time");
        soon += rescues;
    }
    assert!(soon > 10);
}

#[test]
fn a_packet_costs_no_allocation() {
    let mut chain = chain("paced", 20_000_000, percent(1), 1);
    let sent = |c: &Chain| c.source().counters().segments_out;
    assert!(chain.run(Span::SECOND * 60, |c| sent(c) >= 100));
    let taken = allocations_in(|| {
        assert!(chain.run(Span::SECOND * 6000, |c| sent(c) >= 10_000));
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
        let mut chain = chain("paced", 200_000, percent(2), seed);
        assert!(chain.run_to_end(Span::SECOND * 300), "{}", chain.report());
        chain.trace_hash()
    };
    assert_eq!(hash(7), hash(7));
    assert_ne!(hash(7), hash(8));
}
