//! Packets for the next node's lane that a handler sends to all who hear.

mod laned;

use laned::Words;
use wifu_core::{Chain, Full, Handler, Hook, Hooks, HopCx, Packet, Seat, Verdict};
use wifu_engine::component::Cx;
use wifu_engine::{Board, Component, Descriptor, Kind, Library, Out, Role, Signal, Want, WordSpec};
use wifu_node::Registry;
use wifu_wire::{Class, LinkTo, Rng, Time, Word};

/// A lane that hands packets on.
static PLAIN: Descriptor = Descriptor {
    name: "plain",
    doc: "Hands packets on.",
    offers: &[Kind::New],
    hooks: &[],
    hears: &[("wrote", &["opened"])],
    build: |p| Ok(Box::new(Plain(Words::of(p)))),
    ..laned::QUEUE
};

struct Plain(Words);

impl Component for Plain {
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

/// At an end: says of every segment that it is for the next node's lane.
static NEXT: Descriptor = Descriptor {
    name: "next",
    role: Role::Gate,
    doc: "Addresses every segment to the next node's lane.",
    words: &[WordSpec::new("says", 1).marking(Class::Hop)],
    hooks: &["stamp"],
    build: |p| Ok(Box::new(Next(p.word("says")))),
    ..Descriptor::EMPTY
};

struct Next(Word);

impl Component for Next {
    fn stamp(&mut self, out: &mut Out<'_>, _: &mut Cx<'_>) {
        out.head.set(self.0, 1);
    }
}

/// Sends a copy of what the end sends to all.
struct Shouts;

impl Handler for Shouts {
    fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        if let Some(copy) = packet.copy() {
            cx.send_kept(copy, false, LinkTo::All);
        }
        Verdict::Accept
    }
}

#[test]
fn what_lanes_of_other_nodes_read_did_not_arrive_twice() {
    let own = "[protocol.laned]\nextends = \"tcp-newreno\"\nnumber = 249\nwire = \"shim\"\n\
               gates = [\"peer-window\", \"nagle\", \"next\"]\n[lane.laned]\n\
               set = { packets = 4 }\nreliable = \"plain\"\n";
    let own = Library::parse(own).unwrap_or_else(|e| panic!("{e}"));
    let parts = wifu_parts::registry().with(&[&PLAIN, &NEXT]);
    let registry = Registry::new(parts, wifu_parts::library().merge(own));
    // Both neighbours of the second node hear what it sends to all.
    let text = "[topology]\nwords = \"linear,4\"\nset = \"TB-W9\"\n[stop]\ntime = \"10s\"\n\
                [[flow]]\nfrom = \"n2\"\nto = \"n4\"\nprotocol = \"laned\"\napp = \"file\"\n\
                bytes = \"10k\"\n";
    let mut s = laned::simulation(text, &registry);
    let seat = Seat {
        most: 100,
        full: Full::Closed,
        ..Seat::new("shouts", Hooks::of(&[Hook::Output]), Rng::new(1))
    };
    let mut chain = Chain::new();
    chain.push(seat, Box::new(Shouts));
    s.set_chain(1, chain);
    s.run();
    let p = s.outcome().flows[0].packets;
    let lost = p.queue + p.link + p.wire + p.route + p.hop;
    assert!(p.copies > 0 && p.delivered > p.copies, "{p:?}");
    assert_eq!(p.sent + p.copies, p.delivered + lost + p.inside, "{p:?}");
}
