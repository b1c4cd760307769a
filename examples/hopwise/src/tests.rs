//! The gate alone: what it lets go, and when.

use crate::heard_window::HEARD_WINDOW;
use wifu_engine::signal::{Sent, Status};
use wifu_engine::{Bench, Kind, Library, Reason, Signal, Want};
use wifu_wire::{Class, FrameFacts, Head, Neighbour, Seq, Span, Word, hxh};

fn neighbour(last: u8) -> Option<Neighbour> {
    Neighbour::new(1, [2, 0, 0, 0, 0, last])
}

/// The gate of a node whose next hop is the second one.
fn gate() -> Bench {
    let mut bench = Bench::new(&HEARD_WINDOW, &[]).unwrap();
    bench.board.site.next_hop = neighbour(2);
    bench
}

/// Whether the lane may hand the packet down; if so, it does.
fn send(bench: &mut Bench, number: u32) -> bool {
    let want = Want {
        kind: Kind::New,
        bytes: 1,
        least: 1,
    };
    let open = bench.permit(&want).refuses(&want, bench.now).is_none();
    if open {
        let _ = bench.signal(Signal::Sent(Sent {
            kind: Kind::New,
            reason: Reason::First,
            acks: false,
            seq: Seq(number),
            bytes: 1,
            late: Span::ZERO,
        }));
    }
    open
}

/// A node is heard sending the packet on.
fn hear(bench: &mut Bench, by: Option<Neighbour>, number: u32) {
    let (mut head, mut frame) = (Head::default(), FrameFacts::NONE);
    head.seq = Seq(number);
    // `type` is the first of the gate's words.
    head.set(Word(0), hxh::DATA);
    (frame.transmitter, frame.along) = (by, true);
    let _ = bench.overheard(&head, &frame);
}

#[test]
fn the_composition_parses() {
    assert!(Library::parse(include_str!("hopwise.toml")).is_ok());
}

#[test]
fn each_packet_that_is_heard_lets_one_out() {
    let mut bench = gate();
    assert!(send(&mut bench, 1) && send(&mut bench, 2) && !send(&mut bench, 3));
    hear(&mut bench, neighbour(3), 1);
    assert!(!send(&mut bench, 3), "it was not the next hop");
    hear(&mut bench, neighbour(2), 1);
    assert!(send(&mut bench, 3) && !send(&mut bench, 4));
    // 2 was passed on unheard.
    hear(&mut bench, neighbour(2), 3);
    assert_eq!(bench.probe("beyond"), Some(0.0));
    assert_eq!(bench.probe("heard"), Some(2.0));
}

#[test]
fn in_silence_one_goes_every_20_ms() {
    let mut bench = gate();
    let began = bench.now;
    assert!(send(&mut bench, 1) && send(&mut bench, 2));
    for number in 3..6 {
        assert!(!send(&mut bench, number));
        let _ = bench.advance(bench.due(0));
        assert!(send(&mut bench, number));
    }
    assert_eq!(bench.now - began, Span::MILLI * 60);
    assert_eq!(bench.probe("silent"), Some(3.0));
}

#[test]
fn what_never_got_there_and_another_next_hop_leave_the_window_empty() {
    let mut bench = gate();
    assert!(send(&mut bench, 1) && send(&mut bench, 2));
    let _ = bench.signal(Signal::Returned(Seq(2)));
    assert_eq!(bench.probe("beyond"), Some(1.0));
    let status = |delivered| Status {
        number: Seq(1),
        class: Class::Data,
        delivered,
        attempts: 7,
        airtime_ns: None,
        delay: None,
    };
    let _ = bench.signal(Signal::Status(status(true)));
    assert_eq!(bench.probe("beyond"), Some(1.0));
    let _ = bench.signal(Signal::Status(status(false)));
    assert_eq!(bench.probe("beyond"), Some(0.0));
    assert!(send(&mut bench, 1) && send(&mut bench, 2));
    let _ = bench.signal(Signal::Route);
    assert!(
        !send(&mut bench, 3),
        "the way is another, the next hop is not"
    );
    bench.board.site.next_hop = neighbour(4);
    let _ = bench.signal(Signal::Route);
    assert!(send(&mut bench, 3));
    // The destination passes nothing on.
    bench.board.site.last_hop = true;
    for number in 4..9 {
        assert!(send(&mut bench, number));
    }
}
