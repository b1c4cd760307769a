//! What becomes of packets that a lane hands down and no device takes, and of what its parts say
//! while their way is full.

mod laned;
mod world;

use core::net::SocketAddrV4;
use core::num::NonZeroU32;
use laned::{A, B, ME};
use std::cell::RefCell;
use std::sync::Arc;
use wifu_core::{
    Chain, Full, Handler, Hook, Hooks, HopCx, LinkTo, Packet, Seat, TxStatus, Verdict,
};
use wifu_engine::component::Cx;
use wifu_engine::{
    Admit, Board, Component, Descriptor, Kind, Out, Payload, Segment, Signal, Status, Ticket, Want,
};
use wifu_node::{Heeds, Lanes, LanesConfig, Lost, Node};
use wifu_wire::{FrameFacts, Neighbour, Note, Rng, Seq, Span, Time, Wire, Word};
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

thread_local! {
    /// Numbers of packets that came too late, as parts were told in this thread's test.
    static EXPIRED: RefCell<Vec<Seq>> = const { RefCell::new(Vec::new()) };
}

/// Hands down what came first, and keeps it until it is told that it was late: what has an odd
/// number is worth nothing 5 ms later.
static DATED: Descriptor = Descriptor {
    doc: "Notes deadlines on packets that it keeps.",
    build: |_| Ok(Box::new(Dated(None))),
    ..laned::QUEUE
};

struct Dated(Option<(Ticket, Seq)>);

const DEADLINE: Note = Note(7);
const WORTH: Span = Span(5_000_000);

impl Component for Dated {
    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        if let Signal::Expired(number) = signal {
            EXPIRED.with_borrow_mut(|all| all.push(*number));
            if let Some((ticket, _)) = self.0.take_if(|kept| kept.1 == *number) {
                cx.out.release(ticket);
            }
        }
        laned::open(cx);
    }

    fn offer(&self, kind: Kind, board: &Board, _: Time) -> Option<Want> {
        let (bytes, least) = (1, 1);
        let any = board.app.queued > 0 && self.0.is_none();
        any.then_some(Want { kind, bytes, least })
    }

    fn fill(&mut self, _: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let Some((ticket, number)) = cx.store.pop() else {
            return;
        };
        out.head.seq = number;
        if number.0 % 2 == 1 {
            self.0 = Some((ticket, number));
            out.aside.notes.set_time(DEADLINE, cx.now + WORTH);
        }
        let keep = self.0.is_some();
        out.payload = Payload::Packet { ticket, keep };
    }
}

/// Holds packets for 8 ms before they leave.
struct Slow(Vec<u64>);

impl Handler for Slow {
    fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        self.0.push(packet.ticket);
        cx.arm(0, cx.now + Span::MILLI * 8);
        Verdict::Hold
    }

    fn on_timer(&mut self, _: u8, cx: &mut HopCx<'_>) {
        for ticket in self.0.drain(..) {
            cx.release(ticket, Verdict::Accept);
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
        Rig::of(&TALKER)
    }

    fn of(part: &'static Descriptor) -> Rig {
        let protocol = laned::protocol(part, &[]);
        let wire = Arc::clone(&protocol.ends.wire);
        let lanes = Lanes::new(LanesConfig::default(), &[protocol], Rng::new(1));
        let mut node = Node::new(5);
        node.set_lanes(lanes.expect("it has one"));
        let world = World::new(ME);
        Rig { node, world, wire }
    }

    fn greedy() -> Rig {
        let mut rig = Rig::new();
        rig.asks("greedy", Box::new(Greedy));
        rig
    }

    /// This handler sees what leaves.
    fn asks(&mut self, name: &'static str, handler: Box<dyn Handler>) {
        let seat = Seat {
            most: 6,
            full: Full::Closed,
            ..Seat::new(name, Hooks::of(&[Hook::Postrouting]), Rng::new(1))
        };
        let mut chain = Chain::new();
        chain.push(seat, handler);
        self.node.set_chain(chain);
    }

    /// A packet of the flow comes, from this neighbour if its transmitter is known.
    fn comes(&mut self, from: Option<Neighbour>) {
        self.numbered(1, from);
    }

    fn numbered(&mut self, number: u32, from: Option<Neighbour>) {
        let ends = (SocketAddrV4::new(A, 1), SocketAddrV4::new(B, 7));
        let packet = laned::packet(&*self.wire, ends, number, 100);
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
fn a_lane_is_told_of_what_left_too_late_and_of_nothing_else() {
    for (slow, told) in [(false, &[][..]), (true, &[Seq(1), Seq(3)][..])] {
        EXPIRED.take();
        let mut rig = Rig::of(&DATED);
        rig.node.heed(Heeds {
            deadline: Some(DEADLINE),
            ..Heeds::default()
        });
        if slow {
            rig.asks("slow", Box::new(Slow(Vec::new())));
        }
        for number in 1..=4 {
            rig.numbered(number, None);
        }
        for _ in 0..10 {
            rig.world.now += Span::MILLI * 4;
            rig.node.handle_timeout(&mut rig.world);
            rig.sends();
        }
        assert_eq!(EXPIRED.take(), told, "{slow}");
        assert_eq!(rig.world.lost, vec![Lost::Late; told.len()]);
        assert_eq!(rig.node.heeded().late, told.len() as u64);
        // It keeps the first until it knows what became of it; 2 and 4 never expire.
        assert_eq!(rig.world.sent.len(), if slow { 2 } else { 1 });
    }
}

/// Keeps what came first and hands it down whenever it is asked, with a deadline that has passed.
static STUBBORN: Descriptor = Descriptor {
    doc: "Hands down what is too late, again and again.",
    build: |_| Ok(Box::new(Stubborn(None))),
    ..laned::QUEUE
};

struct Stubborn(Option<(Ticket, Seq)>);

impl Component for Stubborn {
    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        if let Signal::Expired(number) = signal {
            let told = EXPIRED.with_borrow_mut(|all| {
                all.push(*number);
                all.len()
            });
            assert!(told < 100, "it is asked for ever");
        }
        laned::open(cx);
    }

    fn offer(&self, kind: Kind, board: &Board, _: Time) -> Option<Want> {
        let (bytes, least) = (1, 1);
        let any = board.app.queued > 0 || self.0.is_some();
        any.then_some(Want { kind, bytes, least })
    }

    fn fill(&mut self, _: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let Some((ticket, number)) = self.0.or_else(|| cx.store.pop()) else {
            return;
        };
        self.0 = Some((ticket, number));
        out.head.seq = number;
        out.aside.notes.set_time(DEADLINE, Time::ZERO + WORTH);
        out.payload = Payload::Packet { ticket, keep: true };
    }
}

#[test]
fn a_lane_that_hands_down_again_what_is_too_late_is_not_asked_for_ever() {
    EXPIRED.take();
    let mut rig = Rig::of(&STUBBORN);
    rig.node.heed(Heeds {
        deadline: Some(DEADLINE),
        ..Heeds::default()
    });
    rig.world.now += Span::SECOND;
    rig.numbered(1, None);
    assert_eq!(EXPIRED.take(), [Seq(1); 2], "once, and once more");
    let due = rig.node.poll_timeout(&mut rig.world);
    assert_eq!(due, rig.world.now + Span::MILLI * 10);
    rig.world.now = due;
    rig.node.handle_timeout(&mut rig.world);
    rig.sends();
    assert_eq!(EXPIRED.take(), [Seq(1); 2], "the same again");
    assert!(rig.world.sent.is_empty());
}

#[test]
fn a_new_route_stirs_a_node_with_lanes() {
    let mut rig = Rig::new();
    rig.sends();
    assert!(!rig.node.is_stirred());
    rig.node.reroute(&mut rig.world);
    assert!(rig.node.is_stirred());
}
