//! A relay that does not serve a composition over `wire = "shim"`: both ends know, also the one
//! that hears nothing by that way. Data and acknowledgements go by different relays here.

mod laned;

use std::collections::BTreeSet;
use wifu_engine::component::Cx;
use wifu_engine::{Board, Component, Descriptor, Kind, Out, Signal, Want};
use wifu_sim::outcome::{Outcome, Series};
use wifu_wire::{LinkTo, Time};

/// Hands packets on.
static HANDS: Descriptor = Descriptor {
    name: "hands",
    doc: "Hands packets on.",
    hears: &[("wrote", &["opened"])],
    hooks: &[],
    build: |p| Ok(Box::new(Hands(laned::Words::of(p)))),
    ..laned::QUEUE
};

struct Hands(laned::Words);

impl Component for Hands {
    fn on_signal(&mut self, _: &Signal, cx: &mut Cx<'_>) {
        laned::open(cx);
    }

    fn offer(&self, kind: Kind, board: &Board, _: Time) -> Option<Want> {
        laned::offer(false, kind, board)
    }

    fn fill(&mut self, _: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        self.0.hand_down(LinkTo::Route, out, cx);
    }
}

/// From n1 to n4 by n2 as long as its wire is there, and else by n3; back by n3.
fn run(unserved: &str, loss: &str, more: &str) -> Outcome {
    let node = |n| format!("[[topology.node]]\nname = \"{n}\"\nwired_only = true\n");
    let wire = |(a, b)| {
        format!(
            "[[topology.wire]]\na = \"{a}\"\nb = \"{b}\"\nrate = \"2Mb/s\"\ndelay = \"3ms\"\n\
             queue = 20\nloss = {loss}\n"
        )
    };
    let nodes: String = ["n1", "n2", "n3", "n4"].map(node).concat();
    let ring = [("n1", "n2"), ("n2", "n4"), ("n1", "n3"), ("n3", "n4")];
    let text = format!(
        "{nodes}{}[routing]\nkind = \"shortest\"\n\
         routes = [{{ from = \"n4\", to = \"n1\", via = \"n3\" }}]\n\
         [host]\nunserved = [{unserved}]\n[stop]\ntime = \"60s\"\n\
         [record]\ninterval = \"1ms\"\nseries = [\"flow.1.unserved\", \"flow.1.peer.unserved\"]\n\
         [[flow]]\nfrom = \"n1\"\nto = \"n4\"\nprotocol = \"laned\"\n{more}\n",
        ring.map(wire).concat()
    );
    let registry = laned::registry(40, "reliable = \"hands\"", &[&HANDS]);
    let mut simulation = laned::simulation(&text, &registry);
    simulation.run();
    let outcome = simulation.outcome();
    let flow = &outcome.flows[0];
    assert!(flow.finished && flow.corrupt == 0, "{flow:?}");
    outcome
}

const FILE: &str = "app = \"file\"\nbytes = \"300k\"";

/// What each end had on its board, sender first: changes alone, without the time before it knew.
fn boards(outcome: &Outcome) -> [Vec<(f64, u8)>; 2] {
    ["flow.1.unserved", "flow.1.peer.unserved"].map(|name| {
        let series: &Series = &outcome.series[name];
        let mut changes: Vec<(f64, u8)> = Vec::new();
        for (at, value) in series.iter().filter(|p| !p.1.is_nan()) {
            if changes
                .last()
                .is_none_or(|last| f64::from(last.1) != *value)
            {
                changes.push((*at, *value as u8));
            }
        }
        changes
    })
}

fn values(changes: &[(f64, u8)]) -> Vec<u8> {
    changes.iter().map(|c| c.1).collect()
}

#[test]
fn the_end_that_hears_nothing_by_that_way_is_told_within_a_round_trip() {
    // SYN and its answer take 14 ms. The receiver's connection is looked at once it has data, which
    // are there after 33 ms.
    for (relay, told, within) in [("\"n2\"", 0, 0.015), ("\"n3\"", 1, 0.035)] {
        let outcome = run(relay, "0", FILE);
        let ends = boards(&outcome);
        println!("{relay}: {ends:?}, {}", outcome.flows[0].unserved);
        for (end, changes) in ends.iter().enumerate() {
            let last = changes.last().expect("a series");
            assert_eq!(last.1, 1, "{relay}, end {end}: {changes:?}");
            assert!(values(changes).len() <= 2, "it stays: {changes:?}");
        }
        let knew = ends[told].last().expect("a series").0;
        assert!(knew < within, "{relay}: {:?}", ends[told]);
        // Both by hearing and by being told.
        assert!(outcome.flows[0].unserved > 300, "{:?}", outcome.flows[0]);
    }
}

#[test]
fn both_ways_of_a_conversation_are_told_of() {
    let talk = "app = \"request\"\nrequest = \"20k\"\nresponse = \"20k\"\ncount = 3";
    for (relays, most) in [("\"n2\"", 1), ("\"n3\"", 1), ("\"n2\", \"n3\"", 1), ("", 0)] {
        let outcome = run(relays, "0", talk);
        for changes in boards(&outcome) {
            assert_eq!(
                changes.last().map(|c| c.1),
                Some(most),
                "{relays}: {changes:?}"
            );
        }
        assert_eq!(outcome.flows[0].unserved > 0, most > 0, "{relays}");
    }
}

#[test]
fn nobody_is_told_of_where_all_serve_whatever_is_lost_and_sent_again() {
    for loss in ["0", "0.03"] {
        let outcome = run("", loss, FILE);
        let flow = &outcome.flows[0];
        assert_eq!(flow.retransmissions > 3, loss != "0", "{flow:?}");
        let seen: BTreeSet<u8> = boards(&outcome).iter().flat_map(|c| values(c)).collect();
        assert_eq!((seen, flow.unserved), (BTreeSet::from([0]), 0), "{loss}");
    }
}

#[test]
fn another_route_is_what_the_sender_is_told_of_next() {
    let cut = format!("{FILE}\n[[event]]\nat = \"500ms\"\ncut = [\"n1\", \"n2\"]\n");
    // From where nobody serves to where all do. Acknowledgements went there all the time.
    let [sender, receiver] = boards(&run("\"n2\"", "0", &cut));
    println!("{sender:?} {receiver:?}");
    assert_eq!(values(&sender), [0, 1, 0], "{sender:?}");
    assert_eq!(values(&receiver), [1, 0], "{receiver:?}");
    // Routes follow at full seconds.
    assert!(sender[2].0 > 1.0, "{sender:?}");
    // And a new route alone is nothing that would be told of.
    let outcome = run("", "0", &cut);
    let seen: BTreeSet<u8> = boards(&outcome).iter().flat_map(|c| values(c)).collect();
    assert_eq!((seen, outcome.flows[0].unserved), (BTreeSet::from([0]), 0));
}
