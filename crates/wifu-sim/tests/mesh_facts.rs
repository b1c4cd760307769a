//! What endpoints and handlers learn besides octets, and what a routing daemon costs.

use core::num::NonZeroU16;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use wifu_engine::descriptor::NoteSpec;
use wifu_engine::{Access, Admit, Component, Cx, Descriptor, Library, Out, Role, Segment};
use wifu_node::Registry;
use wifu_sim::mesh::{Seen, Simulation, Tap};
use wifu_sim::scenario::Scenario;
use wifu_wire::pcapng::Direction;
use wifu_wire::{FrameFacts, Neighbour, Note, Rate};

thread_local! {
    /// What came with each segment of the test that runs in this thread.
    static FACTS: RefCell<Vec<FrameFacts>> = const { RefCell::new(Vec::new()) };
}

/// Writes down what comes with segments.
static WITNESS: Descriptor = Descriptor {
    name: "witness",
    role: Role::Watch,
    doc: "Writes down what comes with segments.",
    hooks: &["segment"],
    build: |_| Ok(Box::new(Witness)),
    ..Descriptor::EMPTY
};

struct Witness;

impl Component for Witness {
    fn on_segment(&mut self, seg: &Segment<'_>, _: &mut Cx<'_>) -> Admit {
        FACTS.with(|f| f.borrow_mut().push(*seg.frame));
        Admit::Pass
    }
}

/// Tells the handlers of its node a feedback for each segment.
static ANSWERS: Descriptor = Descriptor {
    name: "answers",
    role: Role::Watch,
    doc: "Notes a feedback on what leaves.",
    hooks: &["stamp"],
    notes: &[NoteSpec {
        name: "fb_delay",
        access: Access::Write,
        unit: "us",
        doc: "What its handlers are to say to the other end.",
    }],
    build: |p| Ok(Box::new(Answers(p.note("fb_delay")))),
    ..Descriptor::EMPTY
};

struct Answers(Note);

impl Component for Answers {
    fn stamp(&mut self, out: &mut Out<'_>, _: &mut Cx<'_>) {
        out.aside.notes.set(self.0, 1_234);
    }
}

/// The second node, as its neighbours know it.
const SECOND: Option<Neighbour> = Some(Neighbour {
    device: NonZeroU16::MIN,
    address: [2, 0, 0, 0, 0, 2],
});

/// The largest delay that handlers noted, us.
fn noted(facts: &FrameFacts) -> Option<u32> {
    facts.notes.get(registry().parts().note("max_delay")?)
}

fn registry() -> Registry {
    let own = "[protocol.watched]\nextends = \"tcp-newreno\"\nwatch.add = [\"witness\"]\n\
               [protocol.answering]\nextends = \"tcp-newreno\"\n\
               watch.add = [\"witness\", \"answers\"]\n";
    let own = Library::parse(own).unwrap_or_else(|e| panic!("{e}"));
    let parts = wifu_parts::registry().with(&[&WITNESS, &ANSWERS]);
    Registry::new(parts, wifu_parts::library().merge(own))
}

fn simulation(text: &str) -> Simulation {
    let scenario = Scenario::from_toml(text).unwrap_or_else(|e| panic!("{e}"));
    Simulation::new(&scenario, &registry()).unwrap_or_else(|e| panic!("{e}"))
}

/// A file over a chain of three; what came with its segments.
fn facts(more: &str) -> Vec<FrameFacts> {
    let mut simulation = simulation(&format!(
        "[topology]\nwords = \"linear,3\"\nset = \"TB-W9\"\n[radio]\nattempts = 7\n\
         [[flow]]\nfrom = \"n1\"\nto = \"n3\"\nprotocol = \"watched,mss=1436\"\napp = \"file\"\n\
         bytes = \"50k\"\n{more}"
    ));
    simulation.run();
    assert!(simulation.outcome().flows[0].finished);
    FACTS.with(RefCell::take)
}

#[test]
fn transports_learn_how_a_frame_came_and_what_handlers_found() {
    let plain = facts("");
    assert!(plain.len() > 35, "{} segments", plain.len());
    for f in &plain {
        // 20 dB over -94 dBm, varying by 1 dB; both ends hear n2 only, the second node.
        let dbm = f.rssi_dbm.expect("a radio says");
        assert!((-80..=-69).contains(&dbm), "{f:?}");
        assert_eq!((f.transmitter, noted(f)), (SECOND, None), "{f:?}");
        assert_eq!(f.rate, Some(Rate(24_000_000)), "{f:?}");
    }
    // The IP packet's length: room for a shim is left.
    assert_eq!(plain.iter().map(|f| f.bytes).max(), Some(1488));

    let shim = "[[handler]]\nuse = \"tpa-shim\"\nprotocol = 6\n";
    let found = facts(shim);
    // A node reports no less than a frame's airtime (536 us for 1500 octets at 24 Mb/s), or its
    // average, in which 88 octets count too.
    assert!(found.iter().all(|f| noted(f) > Some(100)), "{found:?}");
    assert!(
        found.iter().any(|f| noted(f) > Some(681)),
        "D0 of 24 Mb/s is 681.5 us"
    );
    // What is held on the way in is still known when it goes on.
    let held = format!("{shim}[[handler]]\nuse = \"delay\"\nt = \"1ms\"\nhooks = [\"input\"]\n");
    let late = facts(&held);
    assert!(
        late.iter()
            .all(|f| noted(f) > Some(100) && f.transmitter == SECOND),
        "{late:?}"
    );
}

#[test]
fn what_an_end_notes_reaches_its_handlers_and_by_them_the_other_end() {
    let mut simulation = simulation(
        "[topology]\nwords = \"linear,3\"\nset = \"TB-W9\"\n[radio]\nattempts = 7\n\
         [[handler]]\nuse = \"tpa-shim\"\nprotocol = 6\n\
         [[flow]]\nfrom = \"n1\"\nto = \"n3\"\nprotocol = \"answering,mss=1436\"\n\
         app = \"file\"\nbytes = \"50k\"\n",
    );
    simulation.run();
    assert!(simulation.outcome().flows[0].finished);
    let told = registry().parts().note("fb_delay").expect("it is declared");
    let found = FACTS.with(RefCell::take);
    let feedback: Vec<Option<u32>> = found.iter().map(|f| f.notes.get(told)).collect();
    assert!(feedback.len() > 35, "{} segments", feedback.len());
    assert!(feedback.iter().all(|f| *f == Some(1_234)), "{feedback:?}");
}

#[test]
fn a_loggers_lines_name_nodes_by_their_numbers() {
    let text = "[topology]\nwords = \"linear,2\"\nset = \"TB-W9\"\n[[handler]]\nuse = \"logger\"\n\
         hooks = [\"input\"]\nnodes = [\"n2\"]\n\
         [[flow]]\nfrom = \"n1\"\nto = \"n2\"\nprotocol = \"udp\"\nrate = \"1M\"\nbytes = 3000\n";
    let mut simulation = simulation(text);
    simulation.run();
    let lines = simulation.take_lines();
    assert_eq!(lines.len(), 3, "{lines:?}");
    for (at, line) in &lines {
        assert_eq!(*at, 1, "counted from 0");
        assert!(line.contains(" node 2 input "), "{line}");
        assert!(
            line.contains("10.0.0.1 > 10.0.0.2 proto 17")
                && line.contains(", from 02:00:00:00:00:01%1 at -")
        );
    }
    assert!(simulation.take_lines().is_empty());
}

/// Broadcasts that nodes heard: OLSR's kind of message, originator, hops so far.
#[derive(Default)]
struct Heard {
    by_kind: RefCell<BTreeMap<(u8, u8, u8), u32>>,
    wrong: Cell<u32>,
}

struct Ear(Rc<Heard>);

impl Tap for Ear {
    fn packet(&mut self, seen: &Seen<'_>) {
        let octets = seen.bytes;
        let port = octets.get(22..24).map(|p| u16::from_be_bytes([p[0], p[1]]));
        if seen.direction != Direction::In || port != Some(698) {
            return;
        }
        let message = &octets[28..];
        let length = usize::from(u16::from_be_bytes([message[0], message[1]]));
        let (kind, origin, hops) = (message[4], message[11], message[13]);
        let sound =
            length <= message.len() && message[12] == if kind == 1 { 1 } else { 255 - hops };
        self.0.wrong.set(self.0.wrong.get() + u32::from(!sound));
        *self
            .0
            .by_kind
            .borrow_mut()
            .entry((kind, origin, hops))
            .or_default() += 1;
    }
}

/// Five nodes in a row for a minute: frames in all, and what was heard.
fn overhead(flood: &str) -> (u64, f64, BTreeMap<(u8, u8, u8), u32>) {
    let mut simulation = simulation(&format!(
        "[topology]\nwords = \"linear,5\"\nset = \"TB-W9\"\n[routing.olsr]\nflood = \"{flood}\"\n\
         [[flow]]\nfrom = \"n1\"\nto = \"n5\"\nprotocol = \"udp\"\nstart = \"59.9s\"\n\
         rate = \"1k\"\nsize = 60\n[stop]\ntime = \"60s\"\n"
    ));
    let heard = Rc::new(Heard::default());
    simulation.set_tap(Box::new(Ear(Rc::clone(&heard))));
    simulation.run();
    let outcome = simulation.outcome();
    assert_eq!(heard.wrong.get(), 0);
    let frames = outcome.nodes.iter().map(|n| n.frames).sum();
    let airtime = outcome.nodes.iter().map(|n| n.airtime_s).sum();
    (frames, airtime, heard.by_kind.take())
}

#[test]
fn topology_control_floods_the_network_through_relays() {
    // A HELLO every 1.75 s on average, a TC every 4.75 s, from 0 to 60 s.
    let hellos = 5.0 * 60.0 / 1.75;
    let intervals = 60.0 / 4.75;
    // Over the chain n2, n3 and n4 are relays: each of their messages is sent by all three.
    for (flood, per_interval) in [("off", 5.0), ("mpr", 9.0), ("all", 25.0)] {
        let (frames, airtime, heard) = overhead(flood);
        let controls = intervals * per_interval;
        let expected = hellos + controls;
        let off = frames as f64 / expected - 1.0;
        assert!(
            off.abs() < 0.1,
            "{flood}: {frames} frames, expected {expected}"
        );
        // 136 and 156 octets with MAC header at 6 Mb/s.
        let time = hellos * 208e-6 + controls * 232e-6;
        assert!(
            (airtime / time - 1.0).abs() < 0.1,
            "{flood}: {airtime} s, expected {time}"
        );
        let controls: u32 = heard.iter().filter(|(k, _)| k.0 == 2).map(|(_, n)| n).sum();
        let far = |origin: u8| {
            let of = heard.keys().filter(|k| k.0 == 2 && k.1 == origin);
            of.map(|k| k.2).max()
        };
        match flood {
            "off" => assert!((1..=5).all(|n| far(n) == Some(0)), "{heard:?}"),
            "mpr" => assert_eq!(
                [1, 2, 3, 4, 5].map(far),
                [None, Some(2), Some(1), Some(2), None]
            ),
            _ => assert_eq!([1, 3, 5].map(far), [Some(4), Some(2), Some(4)]),
        }
        assert!(controls > 50, "{flood}: {heard:?}");
    }
}
