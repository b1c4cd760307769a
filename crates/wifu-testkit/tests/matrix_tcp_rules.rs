//! The TCP family by single rules of the RFCs, as the scripts of others test them: the peer is the
//! test itself, or the wire is watched.

mod tcp_common;

use std::cell::Cell;
use std::rc::Rc;
use tcp_common::*;
use wifu_engine::{Fault, Reason, State};
use wifu_testkit::pair::{Fate, Pair, pattern};
use wifu_testkit::seg::Seg;
use wifu_wire::{Flags, Seq, Span};

const FAMILY: [&str; 5] = [
    "tcp-tahoe",
    "tcp-reno",
    "tcp-newreno",
    "tcp-sack",
    "tcp-cubic",
];

/// The family, with the profile of the papers and with that of the RFCs.
fn specs() -> impl Iterator<Item = String> {
    let profiles = ["wifu-tahoe", "rfc-modern"];
    let all = |p: &'static str| FAMILY.map(move |spec| format!("{spec},profile={p}"));
    profiles.into_iter().flat_map(all)
}

//= rfc9293#section-3.7.1
#[test]
fn the_peers_segment_size_is_less_what_options_take_and_nothing_else() {
    for spec in specs() {
        for (ours, theirs, size) in [
            ("", true, 988),
            ("", false, 1000),
            (",timestamps=off", true, 1000),
            (",timestamps=off", false, 1000),
        ] {
            let what = format!("{spec}{ours}, peer {theirs}");
            let (mut pair, syn) = dialled(&format!("{spec}{ours}"));
            let mut said = answer(&syn, 1000);
            said.ts = theirs.then_some((1, 0));
            pair.inject(1, &said);
            pair.apps[0].to_write = pattern(20_000, 1);
            run_for(&mut pair, ms(1));
            let sizes: Vec<u32> = data(&pair, 0).map(|s| s.seg.len()).collect();
            assert!(!sizes.is_empty(), "{what}");
            assert!(sizes.iter().all(|n| *n == size), "{what}: {sizes:?}");
        }
    }
}

#[test]
fn without_timestamps_segments_fill_the_packet_and_ranges_make_none_too_long() {
    for spec in specs() {
        let spec = format!("{spec},timestamps=off");
        let mut pair = pair_of(200_000);
        let longest = Rc::new(Cell::new(0));
        let (seen, mut rng) = (Rc::clone(&longest), wifu_wire::Rng::new(4));
        pair.spoil = Box::new(move |f| {
            seen.set(seen.get().max(f.bytes.len() + 20));
            match rng.below(100) {
                0..3 => Fate::Drop,
                _ => Fate::Deliver,
            }
        });
        connect(&mut pair, &spec, &spec);
        pair.run(secs(3_600));
        assert_delivered(&pair, &spec);
        assert_eq!(longest.get(), 1500, "{spec}");
        let most = data(&pair, 0).map(|s| s.seg.len()).max();
        assert_eq!(most, Some(1460), "{spec}");
        let ranges = pair.seen.iter().any(|s| !s.seg.ranges.is_empty());
        let reports = spec.contains("sack") || spec.contains("cubic");
        assert_eq!(ranges, reports, "{spec}");
    }
}

/// What is lost in [`first_data_waits`].
#[derive(Clone, Copy, PartialEq)]
enum Lost {
    Data,
    SynToo,
}

/// How long the first data of `side`, once lost, wait to go again: microseconds.
fn first_data_waits(spec: &str, side: usize, lost: Lost) -> u64 {
    let mut pair = pair_of(1000);
    pair.delay = ms(50);
    pair.apps[1 - side].to_write.clear();
    let (mut syn, mut first) = (lost == Lost::SynToo, true);
    lose(&mut pair, move |f, seg| {
        let hit = f.from == side && (syn && seg.has(Flags::SYN) || first && !seg.is_empty());
        syn &= !(hit && seg.has(Flags::SYN));
        first &= !hit || seg.is_empty();
        hit
    });
    let pair = complete(pair, spec, 600);
    let times: Vec<_> = data(&pair, side).map(|s| s.at).collect();
    assert_eq!(times.len(), 2, "{spec}");
    (times[1] - times[0]).micros()
}

//= rfc6298#section-3
#[test]
fn the_handshake_times_the_round_trip_with_timestamps_and_without() {
    for spec in specs() {
        for set in ["", ",timestamps=off"] {
            let spec = format!("{spec}{set},rto_min=10ms,rto_initial=2s,syn_tries=9");
            for side in 0..2 {
                // 100 ms, and four times their half.
                let waits = first_data_waits(&spec, side, Lost::Data);
                assert_eq!(waits, 300_000, "{spec}, side {side}");
                // Karn's rule, then RFC 6298 5.7.
                let waits = first_data_waits(&spec, side, Lost::SynToo);
                assert_eq!(waits, 3_000_000, "{spec}, side {side}");
            }
        }
    }
}

//= rfc7323#section-3.2
#[test]
fn a_reset_carries_timestamps_if_they_were_agreed() {
    for spec in specs() {
        for (theirs, stamped) in [("", true), (",timestamps=off", false)] {
            let mut pair = one_way(5_000);
            for app in &mut pair.apps {
                app.close_after = false;
            }
            connect(&mut pair, &spec, &format!("{spec}{theirs}"));
            run_for(&mut pair, ms(900));
            let (echo, id) = (
                sent(&pair, 1).next_back().unwrap().seg.ts,
                pair.apps[0].conn,
            );
            let now = pair.now;
            pair.ends[0].abort(now, id.unwrap());
            run_for(&mut pair, ms(30));
            let rst = flagged(&pair, 0, Flags::RST)[0].seg.clone();
            let expected = echo.map(|(ts, _)| (now.wire_micros(), ts));
            assert_eq!(rst.ts.is_some(), stamped, "{spec}{theirs}");
            assert_eq!(rst.ts, expected, "{spec}{theirs}");
            assert_eq!(fault(&pair, 1), Some(Some(Fault::Reset)), "{spec}{theirs}");
        }
    }
}

//= rfc7323#section-3.2
#[test]
fn a_reset_that_acknowledges_nothing_echoes_nothing() {
    // An embryo answers a wrong acknowledgement with a reset that has none itself.
    let spec = "tcp-newreno,profile=wifu-tahoe";
    let mut pair = one_way(0);
    lose(&mut pair, |f, seg| f.from == 0 && !seg.has(Flags::SYN));
    connect(&mut pair, spec, spec);
    run_for(&mut pair, ms(15));
    let syn = flagged(&pair, 0, Flags::SYN)[0].seg.clone();
    let answer = pair.seen.iter().rev().find(|s| s.from == 1);
    let iss = answer.unwrap().seg.seq;
    let wrong = Seg {
        seq: syn.seq.plus(1),
        ack: Some(iss.plus(77)),
        flags: Flags(0),
        ts: syn.ts.map(|(ts, _)| (ts + 9, 1)),
        ..syn
    };
    pair.inject(0, &wrong);
    let rst = flagged(&pair, 1, Flags::RST)[0].seg.clone();
    assert_eq!((rst.seq, rst.ack), (iss.plus(77), None));
    assert_eq!(rst.ts.map(|(_, echo)| echo), Some(0));
}

//= rfc5961#section-3.2
#[test]
fn a_reset_is_challenged_inside_the_window_only() {
    for spec in specs() {
        let mut pair = one_way(5_000);
        for app in &mut pair.apps {
            app.close_after = false;
        }
        open(&mut pair, &spec);
        let window = pair.conn(0).board().rx.window;
        let mark = pair.seen.len();
        for (offset, answered) in [
            (1, true),
            (window - 1, true),
            (window, false),
            (window + 1, false),
            (u32::MAX, false),
        ] {
            for text in [0, 1, 1000] {
                let mark = pair.seen.len();
                let mut rst = forge(&pair, 1);
                (rst.flags, rst.data) = (Flags::RST, vec![b'!'; text]);
                rst.seq = rst.seq.plus(offset);
                pair.inject(1, &rst);
                run_for(&mut pair, Span::SECOND);
                let what = format!("{spec}: {offset} of {window}, {text} bytes");
                assert_eq!(pair.seen.len() - mark, usize::from(answered), "{what}");
                assert_eq!(fault(&pair, 0), None, "{what}");
            }
        }
        assert!(pair.seen[mark..].iter().all(|s| s.seg.is_bare_ack()));
        let mut rst = forge(&pair, 1);
        rst.flags = Flags::RST;
        pair.inject(1, &rst);
        assert_eq!(fault(&pair, 0), Some(Some(Fault::Reset)), "{spec}");
    }
}

//= rfc9293#section-3.10.7.2
#[test]
fn a_listener_refuses_acknowledgements_and_hears_nothing_else_but_syns() {
    for spec in specs() {
        let blueprint = wifu_parts::blueprint(&spec).unwrap();
        for (flags, ack, text, answered) in [
            (Flags::FIN, None, 0, false),
            (Flags::FIN, None, 9, false),
            (Flags(0), None, 0, false),
            (Flags(0), None, 9, false),
            (Flags::RST, None, 0, false),
            (Flags::RST, Some(Seq(5)), 0, false),
            (Flags(0), Some(Seq(5)), 0, true),
            (Flags::FIN, Some(Seq(5)), 9, true),
            (Flags::SYN, Some(Seq(5)), 0, true),
        ] {
            let (mut pair, syn) = dialled(&spec);
            let here = std::net::SocketAddrV4::new(wifu_testkit::pair::SERVER, 80);
            pair.ends[1].listen(&blueprint, here, 4).unwrap();
            let mark = pair.seen.len();
            let stray = Seg {
                ports: (77, 80),
                flags,
                ack,
                data: vec![0; text],
                ..syn
            };
            pair.inject(0, &stray);
            let said: Vec<_> = pair.seen[mark..].iter().map(|s| &s.seg).collect();
            let what = format!("{spec}: {flags:?}, {ack:?}, {text} bytes");
            assert_eq!(said.len(), usize::from(answered), "{what}");
            assert!(said.iter().all(|s| s.has(Flags::RST)), "{what}");
            assert!(pair.ends[1].is_empty(), "{what}");
            let quiet = pair.ends[1]
                .drops()
                .contains_key("means nothing to a listener");
            assert_eq!(quiet, ack.is_none(), "{what}");
        }
    }
}

//= rfc9293#section-3.10.7.3
#[test]
fn text_on_the_answer_to_a_syn_is_read_and_acknowledged() {
    for spec in specs() {
        for fin in [false, true] {
            let (mut pair, syn) = dialled(&spec);
            let mut said = answer(&syn, 1460);
            said.data = b"hello".to_vec();
            if fin {
                said.flags = said.flags.with(Flags::FIN);
            }
            let mark = pair.seen.len();
            pair.inject(1, &said);
            assert_eq!(pair.apps[0].read, b"hello", "{spec}");
            assert_eq!(pair.apps[0].eof, fin, "{spec}");
            let acks = pair.seen[mark..].iter().map(|s| s.seg.ack);
            let upto = Seq(1006 + u32::from(fin));
            assert!(acks.clone().all(|a| a == Some(upto)), "{spec}: {acks:?}");
            assert!((1..=2).contains(&acks.count()), "{spec}");
            let state = if fin {
                State::CloseWait
            } else {
                State::Established
            };
            assert_eq!(pair.conn(0).state(), state, "{spec}");
        }
    }
}

//= rfc9293#section-3.10.7.3
#[test]
fn text_on_a_syn_that_crosses_ours_waits_for_the_connection_to_open() {
    for spec in specs() {
        for fin in [false, true] {
            let (mut pair, syn) = dialled(&spec);
            let mut crossing = answer(&syn, 1460);
            (crossing.ack, crossing.data) = (None, b"hello".to_vec());
            if fin {
                crossing.flags = crossing.flags.with(Flags::FIN);
            }
            let mark = pair.seen.len();
            pair.inject(1, &crossing);
            assert_eq!(pair.conn(0).state(), State::SynRcvd, "{spec}");
            // Acknowledged is the SYN, and nothing is read yet.
            let said = &pair.seen[mark].seg;
            assert!(
                said.has(Flags::SYN) && said.ack == Some(Seq(1001)),
                "{spec}"
            );
            assert_eq!(pair.apps[0].read, b"", "{spec}");
            // The peer's SYN+ACK; the text goes on behind what waited.
            let ack = Some(syn.seq.plus(1));
            let more = if fin { &b""[..] } else { b" world" };
            let opens = Seg {
                ack,
                ..text(&crossing, 1006 + u32::from(fin), more)
            };
            pair.inject(1, &opens);
            let whole = [b"hello", more].concat();
            assert_eq!(pair.apps[0].read, whole, "{spec}");
            assert_eq!(pair.apps[0].eof, fin, "{spec}");
            let state = if fin {
                State::CloseWait
            } else {
                State::Established
            };
            assert_eq!(pair.conn(0).state(), state, "{spec}");
            run_for(&mut pair, Span::SECOND);
            let acked = sent(&pair, 0).next_back().unwrap().seg.ack;
            let end = 1001 + whole.len() as u32 + u32::from(fin);
            assert_eq!(acked, Some(Seq(end)), "{spec}");
        }
    }
}

//= rfc9293#section-3.10.7.2
#[test]
fn text_on_the_syn_for_a_listener_waits_and_is_bounded_by_one_packet() {
    for spec in specs() {
        for (length, kept) in [(5, 5), (1_400, 1_400), (60_000, 1_500)] {
            let (mut pair, mut syn) = dialled(&spec);
            let blueprint = wifu_parts::blueprint(&spec).unwrap();
            let here = std::net::SocketAddrV4::new(wifu_testkit::pair::SERVER, 80);
            pair.ends[1].listen(&blueprint, here, 4).unwrap();
            let octets = pattern(length, 3);
            (syn.ports, syn.seq, syn.ts) = ((77, 80), Seq(1000), None);
            syn.data.clone_from(&octets);
            let mark = pair.seen.len();
            pair.inject(0, &syn);
            let said = pair.seen[mark].seg.clone();
            assert!(
                said.has(Flags::SYN) && said.ack == Some(Seq(1001)),
                "{spec}"
            );
            assert_eq!(pair.apps[1].conn, None, "{spec}: nobody hears of it yet");
            let ack = Seg {
                ack: Some(said.seq.plus(1)),
                ..text(&syn, 1001, b"")
            };
            pair.inject(0, &ack);
            assert!(pair.apps[1].read == octets[..kept], "{spec}: {length}");
            // What was not kept comes again.
            for at in (0..length).step_by(1_000) {
                let piece = &octets[at..length.min(at + 1_000)];
                let again = Seg {
                    data: piece.to_vec(),
                    ..text(&ack, 1001 + at as u32, b"")
                };
                pair.inject(0, &again);
            }
            assert!(pair.apps[1].read == octets, "{spec}: {length}");
        }
    }
}

//= rfc9293#section-3.8.6.3
#[test]
fn acknowledgements_are_withheld_by_octets() {
    for spec in FAMILY {
        let spec = format!("{spec},profile=rfc-modern");
        for (sizes, waits) in [(&[100, 100, 100][..], true), (&[1448, 1448], false)] {
            let (mut pair, syn) = dialled(&spec);
            pair.inject(1, &answer(&syn, 1460));
            let (mark, mut at) = (pair.seen.len(), 1001);
            for size in sizes {
                let octets = pattern(*size, 1);
                let ack = Some(syn.seq.plus(1));
                let seg = Seg {
                    ack,
                    ..text(&answer(&syn, 0), at, &octets)
                };
                pair.inject(1, &seg);
                at += *size as u32;
            }
            let what = format!("{spec}: {sizes:?}");
            assert_eq!(pair.seen.len() == mark, waits, "{what}");
            run_for(&mut pair, ms(250));
            assert_eq!(pair.seen.len(), mark + 1, "{what}");
            assert_eq!(pair.seen[mark].seg.ack, Some(Seq(at)), "{what}");
            let after = pair.seen[mark].at - pair.seen[mark - 1].at;
            assert_eq!(after.micros() == 200_000, waits, "{what}: {after}");
        }
    }
}

//= rfc9293#section-3.7.1
#[test]
fn the_largest_segment_that_was_set_is_announced_and_kept_by_both() {
    for spec in specs() {
        for (theirs, payload) in [("", 988), (",timestamps=off", 1000)] {
            let mut pair = pair_of(20_000);
            let ours = format!("{spec},max_seg=1000");
            connect(&mut pair, &ours, &format!("{spec}{theirs}"));
            pair.run(secs(600));
            assert_delivered(&pair, &spec);
            let announced = [0, 1].map(|side| flagged(&pair, side, Flags::SYN)[0].seg.options.mss);
            assert_eq!(announced, [1000, 1460], "{spec}{theirs}");
            for side in 0..2 {
                let largest = data(&pair, side).map(|s| s.seg.len()).max();
                assert_eq!(largest, Some(payload), "{spec}{theirs}, side {side}");
            }
        }
    }
}

/// The window after three seconds in which the application writes so many segments at a time, one
/// batch per round trip of 100 ms, with its initial window of ten.
fn window_after_batches(spec: &str, batch: usize) -> u32 {
    let mut pair = one_way(0);
    for app in &mut pair.apps {
        app.close_after = false;
    }
    pair.delay = ms(50);
    open(&mut pair, &format!("{spec},iw=10,cwv=on"));
    for n in 0..30 {
        let more = pattern(batch * 1448, n);
        pair.apps[0].to_write.extend_from_slice(&more);
        run_for(&mut pair, ms(100));
    }
    let board = pair.conn(0).board();
    board.win.cwnd / board.conn.mss
}

//= rfc7661#section-4.3
#[test]
fn a_window_that_is_used_by_half_grows_and_one_that_is_not_stays() {
    for spec in specs() {
        let little = window_after_batches(&spec, 2);
        assert!((10..=12).contains(&little), "{spec}: {little}");
        // Never binding, and more than half until it has grown to twice as many.
        let much = window_after_batches(&spec, 8);
        assert!((15..=19).contains(&much), "{spec}: {much}");
    }
}

/// What arrives at a receiver that has the first thousand octets: text by (first, one past the
/// last), counted from the first octet of the stream, and the ranges that answer it.
type Twice = (&'static [(u32, u32)], &'static [(u32, u32)]);

/// The examples of RFC 2883 4.1 to 4.3 in this stream.
const TWICE: &[Twice] = &[
    (&[(0, 500)], &[(0, 500)]),
    (&[(0, 1_000)], &[(0, 1_000)]),
    // Partly new: what came before is reported, and no more (4.2.1).
    (&[(500, 1_500)], &[(500, 1_000)]),
    (
        &[(2_000, 3_000), (500, 1_500)],
        &[(500, 1_000), (2_000, 3_000)],
    ),
    // Beyond a hole: the range around it follows, be it the same.
    (
        &[(2_000, 3_000), (2_000, 3_000)],
        &[(2_000, 3_000), (2_000, 3_000)],
    ),
    (
        &[(2_000, 3_000), (3_000, 4_000), (2_500, 3_500)],
        &[(2_500, 3_500), (2_000, 4_000)],
    ),
    (
        &[(2_000, 2_500), (3_000, 3_500), (2_200, 3_200)],
        &[(2_200, 2_500), (2_000, 3_500)],
    ),
    // Nothing twice.
    (&[(2_000, 3_000)], &[(2_000, 3_000)]),
    (&[(2_000, 3_000), (1_000, 2_000)], &[]),
];

//= rfc2883#section-4
#[test]
fn what_comes_twice_is_reported_first_and_once() {
    let octets = pattern(4_000, 9);
    for (arrivals, expected) in TWICE {
        for (dsack, stamps) in [("on", true), ("on", false), ("off", true)] {
            let spec = format!("tcp-sack,profile=rfc-modern,dsack={dsack}");
            let (mut pair, syn) = dialled(&spec);
            let mut said = answer(&syn, 1460);
            said.options.sack_ok = true;
            said.ts = stamps.then_some((1, 0));
            pair.inject(1, &said);
            let ack = Some(syn.seq.plus(1));
            let mut last = Seg::default();
            for (i, (from, to)) in [(0, 1_000)].iter().chain(*arrivals).enumerate() {
                let mark = pair.seen.len();
                let mut seg = text(&said, 1001 + from, &octets[*from as usize..*to as usize]);
                (seg.ack, seg.ts) = (ack, stamps.then_some((2 + i as u32, 0)));
                pair.inject(1, &seg);
                run_for(&mut pair, ms(250));
                assert_eq!(
                    pair.seen.len(),
                    mark + 1,
                    "{arrivals:?}: one acknowledgement"
                );
                last = pair.seen[mark].seg.clone();
            }
            let ranges = last.ranges.iter().map(|(a, b)| (a.0 - 1001, b.0 - 1001));
            let ranges: Vec<_> = ranges.collect();
            let what = format!("{arrivals:?}, dsack {dsack}, timestamps {stamps}");
            if dsack == "on" {
                assert_eq!(ranges, *expected, "{what}");
            } else {
                assert!(ranges.len() < 2 || ranges[0] != ranges[1], "{what}");
                assert!(
                    ranges.iter().all(|r| 1001 + r.0 >= last.ack.unwrap().0),
                    "{what}"
                );
            }
            // Read once, whatever came, and no report is repeated.
            assert!(octets.starts_with(&pair.apps[0].read), "{what}");
            pair.apps[0].to_write = b"more".to_vec();
            run_for(&mut pair, ms(1));
            let later = sent(&pair, 0).next_back().unwrap().seg.clone();
            let below = later.ranges.iter().any(|r| r.0.before(later.ack.unwrap()));
            assert!(!later.is_empty() && !below, "{what}");
        }
    }
}

//= rfc2883#section-4
#[test]
fn a_sender_learns_what_came_twice_and_takes_it_for_no_loss() {
    for spec in ["tcp-sack", "tcp-cubic"] {
        for (dsack, known) in [("on", true), ("off", false)] {
            let spec = format!("{spec},profile=rfc-modern,dsack={dsack}");
            let mut pair = one_way(300_000);
            let mut count = 0;
            pair.spoil = Box::new(move |f| {
                count += u32::from(f.from == 0 && !f.seg().is_empty());
                match (f.from, count % 7) {
                    (0, 0) => Fate::Twice,
                    _ => Fate::Deliver,
                }
            });
            let pair = complete(pair, &spec, 600);
            let twice = data(&pair, 0).filter(|s| s.fate == Fate::Twice).count();
            let told = probe(&pair, 0, "dsacks").unwrap() as usize;
            assert!(twice >= 25, "{spec}: {twice}");
            assert_eq!(told, if known { twice } else { 0 }, "{spec}");
            assert_eq!(losses(&pair, 0), (0, 0), "{spec}");
            assert!(repeated(&pair, 0).is_empty(), "{spec}");
        }
    }
}

//= rfc1337#section-3
#[test]
fn a_reset_ends_the_last_wait_unless_it_is_not_to_be_heard() {
    for spec in specs() {
        for (set, lives) in [("", false), (",rfc1337=on", true)] {
            let spec = format!("{spec}{set},two_msl=10s");
            let mut pair = one_way(2_000);
            pair.apps[1].close_after = false;
            open(&mut pair, &spec);
            let (server, now) = (pair.apps[1].conn.unwrap(), pair.now);
            pair.ends[1].shutdown_write(now, server);
            run_for(&mut pair, ms(100));
            assert_eq!(pair.conn(0).state(), State::TimeWait, "{spec}");
            let mark = pair.seen.len();
            for offset in [0, 1] {
                let mut rst = forge(&pair, 0);
                rst.ports = (rst.ports.1, rst.ports.0);
                (rst.seq, rst.ack) = (pair.conn(0).board().rx.nxt.plus(offset), None);
                rst.flags = Flags::RST;
                pair.inject(1, &rst);
                run_for(&mut pair, ms(10));
            }
            let state = if lives {
                State::TimeWait
            } else {
                State::Closed
            };
            assert_eq!(pair.conn(0).state(), state, "{spec}");
            assert_eq!(pair.seen.len(), mark, "{spec}: no word about it");
            assert!(pair.run(secs(60)), "{spec}");
            assert_eq!(pair.conn(0).state(), State::Closed, "{spec}");
        }
    }
}

/// What is unacknowledged for the user timeout.
#[derive(Clone, Copy, Debug)]
enum Waits {
    Syn,
    Data,
    Window,
}

/// A client of which something stays unacknowledged from the returned time on.
fn unanswered(spec: &str, waits: Waits) -> (Pair, wifu_wire::Time) {
    let mut pair = one_way(0);
    for app in &mut pair.apps {
        app.close_after = false;
    }
    pair.apps[1].stalled = true;
    match waits {
        Waits::Syn => {
            lose(&mut pair, |f, _| f.from == 0);
            connect(&mut pair, spec, spec);
            (pair, START)
        }
        Waits::Data => {
            open(&mut pair, spec);
            lose(&mut pair, |f, _| f.from == 0);
            pair.apps[0].to_write = pattern(5_000, 1);
            let now = pair.now;
            (pair, now)
        }
        Waits::Window => {
            open(&mut pair, spec);
            pair.apps[0].to_write = pattern(100_000, 1);
            let begun = |pair: &Pair| sent_because(pair, 0, Reason::Probe).first().copied();
            while begun(&pair).is_none() {
                run_for(&mut pair, ms(1));
            }
            let probe = begun(&pair).unwrap();
            (pair, probe)
        }
    }
}

//= rfc9293#section-3.8.3
#[test]
fn the_user_timeout_bounds_how_long_anything_waits() {
    for spec in specs() {
        for waits in [Waits::Syn, Waits::Data, Waits::Window] {
            let what = format!("{spec}: {waits:?}");
            // 14 segments: the window closes to nothing.
            let with = format!("{spec},rcv_wnd=20272,user_timeout=7s");
            let (mut pair, since) = unanswered(&with, waits);
            pair.run(since + ms(6_999));
            assert_eq!(fault(&pair, 0), None, "{what}");
            pair.run(since + ms(7_001));
            assert_eq!(fault(&pair, 0), Some(Some(Fault::TimedOut)), "{what}");
        }
    }
}

#[test]
fn a_long_user_timeout_outlasts_the_count_of_tries() {
    for spec in specs() {
        let spec = format!("{spec},data_tries=2,rto_max=4s");
        let (mut pair, since) = unanswered(&spec, Waits::Data);
        pair.run(since + Span::SECOND * 40);
        assert_eq!(fault(&pair, 0), Some(Some(Fault::TimedOut)), "{spec}");
        let (mut pair, since) = unanswered(&format!("{spec},user_timeout=60s"), Waits::Data);
        pair.run(since + Span::SECOND * 40);
        assert_eq!(fault(&pair, 0), None, "{spec}");
        heal(&mut pair);
        pair.apps[1].stalled = false;
        run_for(&mut pair, Span::SECOND * 90);
        assert_eq!(fault(&pair, 0), None, "{spec}: progress");
        assert_eq!(pair.apps[1].read.len(), 5_000, "{spec}");
    }
}

#[test]
fn progress_begins_the_user_timeout_anew_and_so_does_setting_it() {
    for spec in specs() {
        // One segment per round trip of a second and more: never seven seconds without progress.
        let with = format!("{spec},iw=1,user_timeout=7s,rcv_wnd=1448");
        let mut pair = one_way(30_000);
        pair.delay = Span::SECOND;
        connect(&mut pair, &with, &with);
        pair.run(secs(600));
        assert_delivered(&pair, &with);
        let end = pair.seen.last().unwrap().at;
        assert!(end > secs(30), "{spec}: {end:?}");
        let (mut pair, _) = unanswered(&format!("{spec},data_tries=50"), Waits::Data);
        run_for(&mut pair, Span::SECOND * 20);
        let (id, now) = (pair.apps[0].conn.unwrap(), pair.now);
        let set = pair.ends[0].set_param(now, id, "user_timeout", "5s");
        set.unwrap();
        pair.run(now + ms(4_999));
        assert_eq!(fault(&pair, 0), None, "{spec}");
        pair.run(now + ms(5_001));
        assert_eq!(fault(&pair, 0), Some(Some(Fault::TimedOut)), "{spec}");
    }
}

#[test]
fn the_user_timeout_rests_once_the_last_octet_probed_for_is_acknowledged() {
    for spec in specs() {
        let spec = format!("{spec},user_timeout=7s,timestamps=off");
        let (mut pair, syn) = dialled(&spec);
        let mut said = answer(&syn, 1460);
        said.window = 1000;
        pair.inject(1, &said);
        pair.apps[0].to_write = pattern(1001, 1);
        run_for(&mut pair, ms(5));
        let last = syn.seq.plus(1002);
        let mut ack = text(&said, 1001, &[]);
        (ack.ack, ack.window) = (Some(last.minus(1)), 0);
        pair.inject(1, &ack);
        run_for(&mut pair, Span::SECOND * 4);
        assert_eq!(pair.conn(0).board().tx.max, last, "{spec}: probed");
        (ack.ack, ack.window) = (Some(last), 60_000);
        pair.inject(1, &ack);
        assert_eq!(pair.conn(0).board().tx.una, last, "{spec}");
        run_for(&mut pair, Span::SECOND * 30);
        assert_eq!(fault(&pair, 0), None, "{spec}: nothing waits");
    }
}

/// Two ends that have nothing to say; the client asks after 10 s, then every 2 s, three times.
fn idle(spec: &str, set: &str) -> (Pair, usize) {
    let mut pair = one_way(1_000);
    for app in &mut pair.apps {
        app.close_after = false;
    }
    let asks = format!("{spec},keep_idle=10s,keep_interval=2s,keep_count=3{set}");
    connect(&mut pair, &asks, spec);
    run_for(&mut pair, Span::SECOND);
    let mark = pair.seen.len();
    (pair, mark)
}

//= rfc9293#section-3.8.4
#[test]
fn a_peer_that_answers_keep_alives_is_asked_again_and_again() {
    for spec in specs() {
        let (mut pair, mark) = idle(&spec, ",keepalive=on");
        let heard = pair.seen.iter().rev().find(|s| s.from == 1).unwrap().at + ms(10);
        let before = [marks(&pair, 0), marks(&pair, 1)];
        pair.run(secs(44));
        let kinds: Vec<_> = pair.seen[mark..].iter().map(|s| s.from).collect();
        assert_eq!(kinds, [0, 1, 0, 1, 0, 1, 0, 1], "{spec}: question, answer");
        let asked: Vec<_> = pair.seen[mark..].iter().filter(|s| s.from == 0).collect();
        for (i, s) in asked.iter().enumerate() {
            assert!(s.seg.is_bare_ack(), "{spec}: {:?}", s.seg);
            assert_eq!(s.seg.seq, before[0].1.minus(1), "{spec}");
            let wait = Span::SECOND * 10 + ms(20);
            assert_eq!(s.at, heard + Span::SECOND * 10 + wait * i as u64, "{spec}");
        }
        assert_eq!([marks(&pair, 0), marks(&pair, 1)], before, "{spec}");
        assert_eq!(losses(&pair, 0), (0, 0), "{spec}");
    }
}

//= rfc9293#section-3.8.4
#[test]
fn a_peer_that_answers_no_keep_alive_is_given_up_and_reset() {
    for spec in specs() {
        let (mut pair, mark) = idle(&spec, ",keepalive=on");
        let mut answers = 0;
        // One answer comes: after it three more have to stay out.
        lose(&mut pair, move |f, _| {
            answers += u32::from(f.from == 1);
            f.from == 1 && answers > 1
        });
        pair.run(secs(60));
        assert_eq!(fault(&pair, 0), Some(Some(Fault::TimedOut)), "{spec}");
        let asked: Vec<_> = pair.seen[mark..].iter().filter(|s| s.from == 0).collect();
        let gaps: Vec<u64> = asked
            .windows(2)
            .map(|w| (w[1].at - w[0].at).micros())
            .collect();
        assert_eq!(
            gaps,
            [10_020_000, 2_000_000, 2_000_000, 2_000_000],
            "{spec}"
        );
        let rst: Vec<_> = asked.iter().map(|s| s.seg.has(Flags::RST)).collect();
        assert_eq!(rst, [false, false, false, false, true], "{spec}");
        assert_eq!(fault(&pair, 1), Some(Some(Fault::Reset)), "{spec}");
    }
}

//= rfc9293#section-3.8.4
#[test]
fn nobody_is_asked_by_default_or_while_data_are_on_their_way() {
    for spec in specs() {
        let (mut pair, mark) = idle(&spec, "");
        assert!(pair.run(secs(60)), "{spec}: nothing waits for anything");
        assert_eq!(pair.seen.len(), mark, "{spec}");
        pair.now = secs(60);
        // It may be asked for at any time, and be taken back.
        let (id, now) = (pair.apps[0].conn.unwrap(), pair.now);
        let end = &mut pair.ends[0];
        end.set_param(now, id, "keepalive", "on").unwrap();
        run_for(&mut pair, ms(500));
        assert_eq!(
            pair.seen.len(),
            mark + 2,
            "{spec}: idle for long, so at once"
        );
        let now = pair.now;
        pair.ends[0].set_param(now, id, "keepalive", "off").unwrap();
        assert!(pair.run(now + Span::SECOND * 60), "{spec}");
        assert_eq!(pair.seen.len(), mark + 2, "{spec}");
        // Data that nobody acknowledges ask by themselves.
        let (mut pair, mark) = idle(&spec, ",keepalive=on");
        lose(&mut pair, |f, _| f.from == 1);
        pair.apps[0].to_write.extend_from_slice(b"anybody there?");
        pair.run(secs(40));
        let all = pair.seen[mark..].iter().filter(|s| s.from == 0);
        assert!(all.clone().count() > 3, "{spec}");
        assert!(all.clone().all(|s| !s.seg.is_empty()), "{spec}");
    }
}

/// RFC 9293, figure 13: FINs that cross.
//= rfc9293#section-3.6
#[test]
fn both_ends_close_at_once_as_in_figure_13() {
    for spec in specs() {
        let spec = format!("{spec},two_msl=4s");
        let (mut pair, mark) = idle(&spec, "");
        let (a, b) = (marks(&pair, 0).1, marks(&pair, 1).1);
        let now = pair.now;
        for side in 0..2 {
            let id = pair.apps[side].conn.unwrap();
            pair.ends[side].shutdown_write(now, id);
        }
        let states = |pair: &Pair| [0, 1].map(|side| pair.conn(side).state());
        run_for(&mut pair, ms(5));
        assert_eq!(states(&pair), [State::FinWait1; 2], "{spec}");
        run_for(&mut pair, ms(10));
        assert_eq!(states(&pair), [State::Closing; 2], "{spec}");
        run_for(&mut pair, ms(10));
        assert_eq!(states(&pair), [State::TimeWait; 2], "{spec}");
        // <SEQ=100><ACK=300><FIN,ACK>, then <SEQ=101><ACK=301><ACK>, and the same from the other.
        for (side, ours, theirs) in [(0, a, b), (1, b, a)] {
            let said = pair.seen[mark..].iter().filter(|s| s.from == side);
            let said: Vec<_> = said
                .map(|s| (s.at - now, s.seg.seq, s.seg.ack, s.seg.flags, s.seg.len()))
                .collect();
            let expected = [
                (Span::ZERO, ours, Some(theirs), Flags::FIN, 0),
                (ms(10), ours.plus(1), Some(theirs.plus(1)), Flags(0), 0),
            ];
            assert_eq!(said, expected, "{spec}, side {side}");
        }
        assert!(pair.run(secs(60)), "{spec}");
        assert_eq!(states(&pair), [State::Closed; 2], "{spec}");
        let waited = pair.now - now - ms(20);
        assert_eq!(
            waited.micros(),
            4_000_000,
            "{spec}: two maximum segment lifetimes"
        );
        assert_eq!(
            [fault(&pair, 0), fault(&pair, 1)],
            [Some(None); 2],
            "{spec}"
        );
    }
}
