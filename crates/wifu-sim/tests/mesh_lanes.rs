//! Lanes on the mesh whose parts send packets of their own, wait for time, and name who transmits.

mod laned;

use laned::Words;
use std::cell::Cell;
use wifu_engine::component::Cx;
use wifu_engine::{
    Admit, Board, Component, Descriptor, Kind, Library, Limit, Out, Params, Permit, Role, Segment,
    Signal, Want,
};
use wifu_node::{LaneCounters, Registry};
use wifu_sim::outcome::Outcome;
use wifu_wire::{LinkTo, Span, Time};

/// What lanes of the test that runs in this thread saw of each other.
#[derive(Clone, Copy, Default)]
struct Saw {
    /// Packets that a lane made, by other lanes.
    made: u32,
    /// Overheard packets that came the other way.
    overheard: u32,
}

thread_local! {
    static SAW: Cell<Saw> = const { Cell::new(Saw { made: 0, overheard: 0 }) };
}

fn saw(change: impl Fn(&mut Saw)) {
    SAW.with(|cell| {
        let mut all = cell.get();
        change(&mut all);
        cell.set(all);
    });
}

/// Hands packets on, and says after each fifth that it came, to whom `to` says.
const QUEUE: Descriptor = Descriptor {
    hears: &[("segment", &[]), ("overheard", &[]), ("wrote", &["opened"])],
    hooks: &["segment", "overheard"],
    ..laned::QUEUE
};

static ALONG: Descriptor = Descriptor {
    name: "along",
    doc: "Says to the next node.",
    build: |p| Ok(Box::new(Queue::new(p, LinkTo::Route))),
    ..QUEUE
};

static SHOUT: Descriptor = Descriptor {
    name: "shout",
    doc: "Says to all who hear.",
    build: |p| Ok(Box::new(Queue::new(p, LinkTo::All))),
    ..QUEUE
};

struct Queue {
    words: Words,
    to: LinkTo,
    seen: u32,
    owes: bool,
}

impl Queue {
    fn new(p: &Params<'_>, to: LinkTo) -> Queue {
        Queue {
            words: Words::of(p),
            to,
            seen: 0,
            owes: false,
        }
    }
}

impl Component for Queue {
    fn on_segment(&mut self, seg: &Segment<'_>, _: &mut Cx<'_>) -> Admit {
        if seg.head.get(self.words.says) == 1 {
            saw(|s| s.made += 1);
        } else if seg.frame.along && !seg.payload.is_empty() {
            self.seen += 1;
            self.owes |= self.seen.is_multiple_of(5);
        }
        Admit::Pass
    }

    fn on_overheard(&mut self, seg: &Segment<'_>, _: &mut Cx<'_>) {
        saw(|s| s.overheard += u32::from(!seg.frame.along));
    }

    fn on_signal(&mut self, _: &Signal, cx: &mut Cx<'_>) {
        laned::open(cx);
    }

    fn offer(&self, kind: Kind, board: &Board, _: Time) -> Option<Want> {
        laned::offer(self.owes, kind, board)
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        if want.kind == Kind::Urgent {
            self.owes = false;
            out.head.set(self.words.says, 1);
            out.aside.to = self.to;
        } else {
            self.words.hand_down(LinkTo::Route, out, cx);
        }
    }
}

/// A packet each 5 ms.
static SLOW: Descriptor = Descriptor {
    name: "slow",
    role: Role::Gate,
    doc: "A packet each 5 ms.",
    hears: &[("sent", &[])],
    hooks: &["permit"],
    build: |_| Ok(Box::new(Slow(Time::ZERO))),
    ..Descriptor::EMPTY
};

struct Slow(Time);

impl Component for Slow {
    fn on_signal(&mut self, _: &Signal, cx: &mut Cx<'_>) {
        self.0 = cx.now + Span::MILLI * 5;
    }

    fn permit(&self, _: &Want, _: &Board, _: Time) -> Permit {
        Permit::at(self.0, Limit::Pace)
    }
}

/// A file of 100 kB over four nodes by this lane; what lanes counted and saw.
fn run(lane: &str, words: &str) -> (Outcome, Saw) {
    let registry = laned::registry(40, lane, &[&ALONG, &SHOUT, &SLOW]);
    let mut simulation = laned::file(words, &registry);
    SAW.set(Saw::default());
    simulation.run();
    let outcome = simulation.outcome();
    assert!(outcome.flows[0].finished && outcome.flows[0].corrupt == 0);
    (outcome, SAW.get())
}

fn total(outcome: &Outcome, of: fn(&LaneCounters) -> u64) -> u64 {
    let lanes = outcome.nodes.iter().filter_map(|n| n.lanes);
    lanes.map(|l| of(&l)).sum()
}

#[test]
fn what_a_relays_lane_says_reaches_the_next_one() {
    let (outcome, saw) = run("reliable = \"along\"", "linear,4");
    // n1, n2 and n3 hand data on; the last one's words reach the receiver's end, which has no lane
    // in this direction.
    let made = total(&outcome, |l| l.made);
    assert!(made > 30 && made.is_multiple_of(3), "{made} made");
    let lost = total(&outcome, |l| l.unsent);
    assert_eq!((u64::from(saw.made), lost), (made / 3 * 2, 0));
}

#[test]
fn what_a_lane_says_to_all_is_heard_by_all_lanes_around() {
    let (outcome, saw) = run("reliable = \"shout\"", "linear,4");
    let made = total(&outcome, |l| l.made);
    // Broadcasts are not repeated, and some collide; n2 has two neighbours with lanes.
    assert!(
        made > 30 && u64::from(saw.made) > made,
        "{} of {made}",
        saw.made
    );
    // Wires carry no broadcasts. The flow does not suffer.
    let alone = run(
        "reliable = \"along\"",
        "linear,4,wire=2Mb/s,delay=3ms,queue=20",
    )
    .0;
    let (outcome, saw) = run(
        "reliable = \"shout\"",
        "linear,4,wire=2Mb/s,delay=3ms,queue=20",
    );
    let (made, unsent) = (total(&outcome, |l| l.made), total(&outcome, |l| l.unsent));
    assert!(
        made > 30 && made == unsent && saw.made == 0,
        "{made}, {unsent}"
    );
    let [with, without] = [&outcome, &alone].map(|o| o.flows[0].goodput_bps);
    assert!(with > 0.9 * without, "{with} beside {without}");
}

#[test]
fn a_lane_that_waits_for_time_goes_on_when_it_has_come() {
    let outcome = run("reliable = \"along\"\ngates = [\"slow\"]", "linear,4").0;
    // 70 segments, each of which waits 5 ms at the first node, at least.
    let flow = &outcome.flows[0];
    assert!(flow.goodput_bps < 8e5 / 0.35, "{}", flow.goodput_bps);
}

#[test]
fn overheard_packets_that_name_nobody_are_believed() {
    let (outcome, saw) = run("reliable = \"along\"", "linear,4");
    // Acknowledgements enter no lane, and carry no name.
    assert!(saw.overheard > 30, "{}", saw.overheard);
    assert_eq!(total(&outcome, |l| l.strangers), 0);
}

#[test]
fn every_node_counts_itself_and_one_that_has_no_lanes_is_named() {
    let flow = |unserved: &[&str]| {
        let registry = laned::registry(40, "reliable = \"along\"", &[&ALONG]);
        let text = format!(
            "[topology]\nwords = \"linear,4\"\nset = \"TB-W9\"\n[radio]\nattempts = 7\n[stop]\n\
             time = \"60s\"\n[host]\nunserved = {unserved:?}\n[[flow]]\nfrom = \"n1\"\nto = \"n4\"\n\
             protocol = \"laned\"\napp = \"file\"\nbytes = \"100k\"\n"
        );
        let mut simulation = laned::simulation(&text, &registry);
        simulation.run();
        let flow = simulation.outcome().flows[0].clone();
        assert!(flow.finished && flow.corrupt == 0);
        flow
    };
    assert_eq!(
        flow(&[]).unserved,
        0,
        "data, ACKs, what opens and what lanes say"
    );
    // The format counts nodes by itself for a lane: no part here declares such a word.
    let idle = flow(&["n2", "n3"]);
    println!("{} packets told of it", idle.unserved);
    assert!(idle.unserved > 100, "70 segments and their ACKs");
    assert_eq!(idle.unserved_at, ["n2", "n3"]);
}

#[test]
fn a_lane_over_a_format_that_counts_no_nodes_is_refused() {
    let own = "[protocol.blind]\nextends = \"tcp-newreno\"\nnumber = 251\n\
               [lane.blind]\nreliable = \"blind\"\n";
    static BLIND: Descriptor = Descriptor {
        name: "blind",
        words: &[],
        build: |_| Ok(Box::new(Blind)),
        hears: &[],
        hooks: &[],
        offers: &[Kind::New],
        ..QUEUE
    };
    let parts = wifu_parts::registry().with(&[&BLIND]);
    let library = Library::parse(own).unwrap_or_else(|e| panic!("{e}"));
    let registry = Registry::new(parts, wifu_parts::library().merge(library));
    let said = registry.resolve("blind").unwrap_err().to_string();
    let why = "blind.wire: wire = \"tcp\" has no word that counts the nodes (`Field::HopCount`), so \
               nobody would notice a node that does not serve [lane.blind]";
    assert!(said.contains(why), "{said}");
}

struct Blind;

impl Component for Blind {
    fn offer(&self, _: Kind, _: &Board, _: Time) -> Option<Want> {
        None
    }
}
