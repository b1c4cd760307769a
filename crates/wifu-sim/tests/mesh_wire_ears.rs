//! Wires that other nodes overhear: what passes is heard when it arrives, by those who are named,
//! and a lane acts upon it.

mod laned;

use laned::Words;
use std::cell::RefCell;
use wifu_core::{Descriptor as HandlerDescriptor, Handler, Hook, Hooks, HopCx, Packet, Verdict};
use wifu_engine::component::Cx;
use wifu_engine::{
    Admit, Board, Component, Descriptor, Fact, Kind, Limit, Out, Permit, Role, Segment, Signal,
    Want,
};
use wifu_node::Registry;
use wifu_sim::outcome::Outcome;
use wifu_sim::scenario::Scenario;
use wifu_wire::{LinkTo, Rate, Span, Time};

/// A packet that came, or was overheard.
#[derive(Clone, PartialEq, Debug)]
struct Saw {
    at: Time,
    node: u16,
    hook: Hook,
    rssi: Option<i8>,
    rate: Option<Rate>,
    /// Number of the transmitter, from 1.
    from: u8,
    octets: Vec<u8>,
}

thread_local! {
    static SAW: RefCell<Vec<Saw>> = const { RefCell::new(Vec::new()) };
}

static WITNESS: HandlerDescriptor = HandlerDescriptor {
    name: "witness",
    doc: "Writes down what comes and what is overheard, and spoils the bytes of the latter.",
    hooks: Hooks::of(&[Hook::Prerouting, Hook::Overheard]),
    build: |_| Ok(Box::new(Witness)),
    ..HandlerDescriptor::EMPTY
};

struct Witness;

impl Handler for Witness {
    fn on_packet(&mut self, hook: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        let from = packet.transmitter.expect("known").address[5];
        SAW.with_borrow_mut(|all| {
            all.push(Saw {
                at: cx.now,
                node: cx.site.node(),
                hook,
                rssi: packet.rssi_dbm,
                rate: packet.rate,
                from,
                octets: packet.octets().to_vec(),
            });
        });
        if hook == Hook::Overheard {
            packet.octets_mut().fill(0);
            return Verdict::Drop("overheard");
        }
        Verdict::Accept
    }
}

/// Hands packets on.
static HANDS_ON: Descriptor = Descriptor {
    name: "hands-on",
    doc: "Hands packets on.",
    build: |p| Ok(Box::new(HandsOn(Words::of(p)))),
    ..laned::QUEUE
};

struct HandsOn(Words);

impl Component for HandsOn {
    fn on_segment(&mut self, _: &Segment<'_>, _: &mut Cx<'_>) -> Admit {
        Admit::Pass
    }

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

/// How long it waits where it hears nothing.
const PATIENCE: Span = Span(100_000_000);

/// A packet each time the next node is heard passing one on, or has been silent for long.
static HEEDS: Descriptor = Descriptor {
    name: "heeds",
    role: Role::Gate,
    doc: "A packet each time the next node is heard passing one on.",
    requires: &[Fact::NextHop, Fact::Transmitter],
    hears: &[("sent", &[]), ("overheard", &[])],
    hooks: &["overheard", "permit"],
    build: |_| Ok(Box::new(Heeds(Time::ZERO))),
    ..Descriptor::EMPTY
};

/// The same, where something is overheard at all.
static DEPENDS: Descriptor = Descriptor {
    name: "depends",
    requires: &[Fact::Overheard],
    ..HEEDS
};

struct Heeds(Time);

impl Component for Heeds {
    fn on_overheard(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        let from = seg.frame.transmitter;
        if seg.frame.along && from.is_some() && from == cx.board.site.next_hop {
            self.0 = Time::ZERO;
        }
    }

    fn on_signal(&mut self, _sent: &Signal, cx: &mut Cx<'_>) {
        // The destination passes nothing on.
        if !cx.board.site.last_hop {
            self.0 = cx.now + PATIENCE;
        }
    }

    fn permit(&self, _: &Want, _: &Board, _: Time) -> Permit {
        Permit::at(self.0, Limit::Pace)
    }
}

fn registry(gate: &str) -> Registry {
    let lane = format!("reliable = \"hands-on\"\n{gate}");
    laned::registry(40, &lane, &[&HANDS_ON, &HEEDS, &DEPENDS]).with_handlers(&[&WITNESS])
}

/// Four nodes in a row, wires between them, each with these keys.
fn row(wires: [&str; 3]) -> String {
    let node = |n: usize| format!("[[topology.node]]\nname = \"n{n}\"\nwired_only = true\n");
    let wire = |(i, keys): (usize, &&str)| {
        format!(
            "[[topology.wire]]\na = \"n{}\"\nb = \"n{}\"\nrate = \"2Mb/s\"\ndelay = \"3ms\"\n\
             {keys}\n",
            i + 1,
            i + 2
        )
    };
    let nodes: String = (1..=4).map(node).collect();
    let wires: String = wires.iter().enumerate().map(wire).collect();
    nodes + &wires
}

fn text(network: &str, protocol: &str, more: &str) -> String {
    format!(
        "{network}[stop]\ntime = \"120s\"\n[[flow]]\nfrom = \"n1\"\nto = \"n4\"\n\
         protocol = \"{protocol}\"\napp = \"file\"\nbytes = \"100k\"\n{more}"
    )
}

fn run(network: &str, protocol: &str, gate: &str, more: &str) -> (Outcome, Vec<Saw>) {
    let mut simulation = laned::simulation(&text(network, protocol, more), &registry(gate));
    SAW.take();
    simulation.run();
    let outcome = simulation.outcome();
    assert!(outcome.flows[0].finished && outcome.flows[0].corrupt == 0);
    (outcome, SAW.take())
}

const WITNESSES: &str = "[[handler]]\nuse = \"witness\"\n";

/// What came over the second wire, and what others heard there.
fn over_second(saw: &[Saw]) -> [Vec<&Saw>; 2] {
    let by = |hook: Hook| {
        let of = saw.iter().filter(move |s| {
            let came = [(2, 3), (3, 2)].contains(&(s.from, s.node));
            s.hook == hook && (came || hook == Hook::Overheard)
        });
        of.collect::<Vec<_>>()
    };
    [by(Hook::Prerouting), by(Hook::Overheard)]
}

#[test]
fn what_arrives_is_heard_at_the_same_moment_and_nothing_else_is() {
    let plain = run(&row([""; 3]), "tcp-newreno", "", WITNESSES);
    assert!(over_second(&plain.1)[1].is_empty(), "nobody is named");
    let lossy = "loss = 0.05\noverheard_by = [\"n1\", \"n4\"]";
    let cut = "[[event]]\nat = \"300ms\"\ncut = [\"n2\", \"n3\"]\n\
               [[event]]\nat = \"400ms\"\nrestore = [\"n2\", \"n3\"]\n";
    let whole = "overheard_by = [\"n1\", \"n4\"]";
    for (keys, more, loses) in [(whole, "", false), (lossy, "", true), (whole, cut, true)] {
        let more = format!("{WITNESSES}{more}");
        let (outcome, saw) = run(&row(["", keys, ""]), "tcp-newreno", "", &more);
        let lost = outcome.flows[0].packets.wire;
        assert_eq!(lost > 0, loses, "{lost} lost");
        let [came, heard] = over_second(&saw);
        assert!(came.len() > 80, "{}", came.len());
        for hearer in [1, 4] {
            let heard: Vec<&&Saw> = heard.iter().filter(|s| s.node == hearer).collect();
            assert_eq!(heard.len(), came.len(), "n{hearer}");
            for (heard, came) in heard.iter().zip(&came) {
                assert_eq!((heard.at, heard.from), (came.at, came.from));
                assert_eq!(heard.octets, came.octets);
                assert_eq!((heard.rssi, heard.rate), (None, Some(Rate(2_000_000))));
            }
        }
        assert!(heard.iter().all(|s| [1, 4].contains(&s.node)));
        // Hearing changes nothing, whatever is done with what is heard.
        if !loses {
            let hash = |o: &Outcome| o.trace_hash.clone();
            assert_eq!(hash(&outcome), hash(&plain.0));
        }
    }
}

#[test]
fn a_lane_acts_on_what_it_hears_over_wires() {
    let heard = ["", "overheard_by = [\"n1\"]", "overheard_by = [\"n2\"]"];
    let gate = "gates = [\"heeds\"]";
    let [with, without] = [heard, [""; 3]].map(|wires| run(&row(wires), "laned", gate, "").0);
    let [fast, slow] = [&with, &without].map(|o| o.flows[0].goodput_bps);
    println!("{fast:.0} b/s, and {slow:.0} without ears");
    // 70 segments, each after 100 ms at the first node.
    assert!(slow < 8e5 / 7.0, "{slow}");
    assert!(fast > 3.0 * slow, "{fast} beside {slow}");
    // One that cannot do without is refused where no wire has the key.
    let gate = "gates = [\"depends\"]";
    let said = |wires| {
        let scenario = Scenario::from_toml(&text(&row(wires), "laned", "")).expect("a scenario");
        let made = wifu_sim::mesh::Simulation::new(&scenario, &registry(gate));
        made.err().map(|e| e.to_string()).unwrap_or_default()
    };
    assert_eq!(said(heard), "");
    let refused = said([""; 3]);
    assert!(
        refused.contains("depends requires overheard")
            && refused.contains("`wifu sim` over wires with `overheard_by`"),
        "{refused}"
    );
}

#[test]
fn ends_of_a_wire_and_strangers_do_not_overhear_it() {
    for (names, wanted) in [
        ("\"n2\"", "n2 is an end of the wire"),
        ("\"n1\", \"n1\"", "n1 is named twice"),
        ("\"m1\"", "no node is called \"m1\"; did you mean `n1`?"),
    ] {
        let keys = format!("overheard_by = [{names}]");
        let scenario = text(&row(["", &keys, ""]), "tcp-newreno", "");
        let scenario = Scenario::from_toml(&scenario).expect("a scenario");
        let said = wifu_sim::mesh::Simulation::new(&scenario, &registry(""));
        let said = said.err().expect("it is refused").to_string();
        let path = "topology.wire.2.overheard_by.";
        assert!(said.starts_with(path) && said.contains(wanted), "{said}");
    }
}
