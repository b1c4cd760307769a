//! What becomes of packets that a lane hands down and no device takes, and of what its parts say
//! while their way is full.

mod laned;
mod world;

use core::net::SocketAddrV4;
use core::num::NonZeroU32;
use laned::{A, B, ME};
use std::sync::Arc;
use wifu_core::{
    Chain, Full, Handler, Hook, Hooks, HopCx, LinkTo, Packet, Seat, TxStatus, Verdict,
};
use wifu_engine::component::Cx;
use wifu_engine::{
    Admit, Board, Component, Descriptor, Kind, Out, Payload, Segment, Signal, Status, Want,
};
use wifu_node::{Lanes, LanesConfig, Node};
use wifu_wire::{FrameFacts, Neighbour, Rng, Span, Time, Wire, Word};
use world::World;

/// Hands down what came first; answers each report, to whom its packet's sequence number says.
static TALKER: Descriptor = Descriptor {
    doc: "Hands packets down and answers reports.",
    offers: &[Kind::Urgent, Kind::New],
    build: |p| {
        Ok(Box::new(Talker {
            says: p.word("says"),
            owes: 0,
            from: None,
        }))
    },
    ..laned::QUEUE
};

struct Talker {
    says: Word,
    owes: u32,
    /// Who transmitted the last packet, if it is to be answered rather than the route.
    from: Option<Neighbour>,
}

impl Component for Talker {
    fn on_segment(&mut self, seg: &Segment<'_>, _: &mut Cx<'_>) -> Admit {
        self.from = seg.frame.transmitter;
        Admit::Pass
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        let told = |s: &Status| s.airtime_ns == NonZeroU32::new(3);
        self.owes += u32::from(matches!(signal, Signal::Status(s) if told(s)));
        laned::open(cx);
    }

    fn offer(&self, kind: Kind, board: &Board, _: Time) -> Option<Want> {
        let any = match kind {
            Kind::Urgent => self.owes > 0,
            _ => board.app.queued > 0,
        };
        let (bytes, least) = (1, 1);
        any.then_some(Want { kind, bytes, least })
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        if want.kind == Kind::Urgent {
            self.owes -= 1;
            out.head.set(self.says, 1);
            out.aside.to = self.from.map_or(LinkTo::Route, LinkTo::Neighbour);
        } else if let Some((ticket, number)) = cx.store.pop() {
            out.head.seq = number;
            let keep = false;
            out.payload = Payload::Packet { ticket, keep };
        }
    }
}

/// Before a packet leaves, sends one of its own: it takes the room.
struct Greedy;

impl Handler for Greedy {
    fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        cx.send(packet.octets(), LinkTo::Route);
        Verdict::Accept
    }
}

struct Rig {
    node: Node,
    world: World,
    wire: Arc<dyn Wire>,
}

impl Rig {
    fn new() -> Rig {
        let protocol = laned::protocol(&TALKER, &[]);
        let wire = Arc::clone(&protocol.ends.wire);
        let lanes = Lanes::new(LanesConfig::default(), &[protocol], Rng::new(1));
        let mut node = Node::new(5);
        node.set_lanes(lanes.expect("it has one"));
        let world = World::new(ME);
        Rig { node, world, wire }
    }

    fn greedy() -> Rig {
        let mut rig = Rig::new();
        let seat = Seat {
            most: 6,
            full: Full::Closed,
            ..Seat::new("greedy", Hooks::of(&[Hook::Postrouting]), Rng::new(1))
        };
        let mut chain = Chain::new();
        chain.push(seat, Box::new(Greedy));
        rig.node.set_chain(chain);
        rig
    }

    /// A packet of the flow comes, from this neighbour if its transmitter is known.
    fn comes(&mut self, from: Option<Neighbour>) {
        let ends = (SocketAddrV4::new(A, 1), SocketAddrV4::new(B, 7));
        let packet = laned::packet(&*self.wire, ends, 1, 100);
        let ticket = self.world.insert(packet, true);
        let facts = FrameFacts {
            transmitter: from,
            ..FrameFacts::NONE
        };
        self.node.arrive(&mut self.world, ticket, facts);
    }

    /// The driver reports this packet, and the lane has something to say.
    fn reports(&mut self, packet: &[u8]) {
        let ticket = self.world.show(packet.to_vec());
        let status = TxStatus {
            ticket: 1,
            delivered: false,
            attempts: 7,
            airtime: Some(Span(3)),
            delay: Span(5),
        };
        self.node.report(&mut self.world, ticket, &status);
        self.world.take_back(ticket);
        self.sends();
    }

    fn sends(&mut self) {
        while self.node.transmit(&mut self.world) {}
    }

    fn counted(&self) -> wifu_node::LaneCounters {
        self.node.lanes().expect("it has some").counters()
    }
}

#[test]
fn a_refused_lane_is_asked_again_by_a_driver_that_is_late() {
    for late in [0, 1, 1_000_000] {
        let mut rig = Rig::new();
        rig.world.refuses = 1;
        rig.comes(None);
        assert_eq!(rig.counted().returned, 1);
        let due = rig.node.poll_timeout(&mut rig.world);
        assert!(due > rig.world.now && due <= rig.world.now + Span(10_000_000));
        // Something else happens, and the event loop asks before it does what is due.
        rig.world.now = due + Span(late);
        let again = rig.node.poll_timeout(&mut rig.world);
        assert!(again <= rig.world.now, "{late}: due at {again:?}");
        rig.node.handle_timeout(&mut rig.world);
        rig.sends();
        assert_eq!(rig.counted().sent, 2, "it left at last");
        assert!(
            rig.node.poll_timeout(&mut rig.world) > rig.world.now,
            "no spin"
        );
    }
}

#[test]
fn a_lane_that_is_refused_by_a_device_that_is_full_now_waits_for_room_not_for_the_time() {
    let mut rig = Rig::greedy();
    rig.world.confine(B, 1);
    rig.comes(None);
    rig.world.confine(B, 0);
    rig.sends();
    rig.world.confine(B, 9);
    rig.sends();
    assert_eq!((rig.counted().returned, rig.counted().sent), (1, 2));
}

#[test]
fn what_a_lane_says_while_its_way_is_full_waits_and_is_not_replaced() {
    // Along the route, and to the neighbour there.
    let next = Neighbour::new(1, [2, 0, 0, 0, 0, B.octets()[3]]);
    for to in [None, next] {
        let mut rig = Rig::new();
        rig.comes(to);
        let (_, bytes) = rig.world.sent.pop_back().expect("it went on");
        rig.world.confine(B, 0);
        for _ in 0..20 {
            rig.reports(&bytes);
        }
        assert_eq!(rig.world.sent.len(), 0, "no room");
        assert_eq!(rig.counted().made, 8, "no more is asked for than can wait");
        rig.world.confine(B, 30);
        rig.sends();
        let counted = rig.counted();
        assert_eq!((counted.made, counted.unsent), (20, 0), "{to:?}");
        assert_eq!(rig.world.sent.len(), 20, "{to:?}");
    }
}

#[test]
fn a_new_route_stirs_a_node_with_lanes() {
    let mut rig = Rig::new();
    rig.sends();
    assert!(!rig.node.is_stirred());
    rig.node.reroute(&mut rig.world);
    assert!(rig.node.is_stirred());
}
