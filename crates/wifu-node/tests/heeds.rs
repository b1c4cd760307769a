//! Annotations that the node heeds where a packet leaves: its deadline, and what lets it go first.

mod world;

use core::net::Ipv4Addr;
use wifu_engine::Ticket;
use wifu_node::{Heeded, Heeds, Lost, Mask, Node};
use wifu_wire::{Ecn, FrameFacts, IpInfo, Note, Notes, Span, Time, ipv4};
use world::World;

const ME: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const HEEDS: Heeds = Heeds {
    priority: Some(Note(5)),
    feedback: Some(Note(2)),
    deadline: Some(Note(7)),
};

fn packet(world: &mut World, src: Ipv4Addr, came: bool) -> Ticket {
    let mut bytes = vec![0; 100];
    let ip = IpInfo {
        src,
        dst: PEER,
        proto: 250,
        ttl: 9,
        ecn: Ecn::NotEct,
    };
    ipv4::emit(&ip, 80, &mut bytes);
    world.insert(bytes, came)
}

/// What becomes of a packet that leaves with these notes.
fn leaves(heeds: Heeds, now: Time, notes: Notes) -> (World, Heeded) {
    let (mut node, mut world) = (Node::new(1), World::new(ME));
    node.heed(heeds);
    world.now = now;
    let ticket = packet(&mut world, ME, false);
    node.originate(&mut world, ticket, notes);
    assert_eq!(world.sent.len() + world.lost.len(), 1);
    (world, node.heeded())
}

#[test]
fn a_packet_is_late_once_the_microsecond_of_its_deadline_is_over() {
    let at = Time(5_000_000_000_123);
    let mut notes = Notes::EMPTY;
    notes.set_time(Note(7), at);
    let end = Time(at.0 - at.0 % 1_000) + Span::MICRO;
    for (now, late) in [
        (Time(at.0 - 1_000_000_000), false),
        (at, false),
        (Time(end.0 - 1), false),
        (end, true),
        (end + Span::SECOND * 60, true),
    ] {
        let (world, heeded) = leaves(HEEDS, now, notes);
        assert_eq!(heeded.late, u64::from(late), "{now:?}");
        assert_eq!(world.lost, if late { &[Lost::Late][..] } else { &[] });
        assert!(world.hastened.is_empty());
        // Who heeds no deadline looks at none.
        let (world, heeded) = leaves(Heeds::default(), now, notes);
        assert_eq!((world.sent.len(), heeded), (1, Heeded::default()));
    }
    let (world, heeded) = leaves(HEEDS, Time::ZERO, Notes::EMPTY);
    assert_eq!((world.sent.len(), heeded), (1, Heeded::default()));
}

#[test]
fn feedback_and_priority_go_first_unless_they_are_none() {
    for (note, value, first) in [(2, 1, 1), (5, 3, 1), (2, 0, 0), (5, 0, 0), (3, 1, 0)] {
        let mut notes = Notes::EMPTY;
        notes.set(Note(note), value);
        let (world, heeded) = leaves(HEEDS, Time::ZERO, notes);
        assert_eq!((heeded.first, heeded.late), (first, 0), "{note} {value}");
        assert_eq!(world.hastened.len() as u64, first);
        assert_eq!(world.sent.len(), 1);
    }
}

#[test]
fn what_is_relayed_costs_no_look_where_only_ends_note_anything() {
    let mut node = Node::new(1);
    node.heed(HEEDS);
    assert!(node.mask().has(Mask::NOTED) && node.mask().is_clear());
    let mut world = World::new(ME);
    let ticket = packet(&mut world, Ipv4Addr::new(10, 0, 0, 3), true);
    let looks = world.looks.get();
    node.arrive(&mut world, ticket, FrameFacts::NONE);
    assert_eq!((world.sent.len(), world.looks.get()), (1, looks));
    node.heed(Heeds::default());
    assert!(!node.mask().any());
}
