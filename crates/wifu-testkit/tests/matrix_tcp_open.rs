//! The TCP family while it opens: lost SYNs and answers, refusal, simultaneous open, options, old
//! state at the peer.

mod tcp_common;

use core::net::SocketAddrV4;
use tcp_common::*;
use wifu_engine::{Event, Fault, State};
use wifu_testkit::pair::{CLIENT, Fate, Pair, SERVER};
use wifu_wire::{Flags, Span};

/// Seconds between the SYNs of a protocol (Behaviour 4.2: initial RTO 3 s, rfc-modern 1 s).
fn syn_gaps(spec: &str) -> [u64; 6] {
    match papers(spec) {
        true => [3, 6, 12, 24, 48, 60],
        false => [1, 2, 4, 8, 16, 32],
    }
}

#[test]
fn a_syn_lost_one_to_five_times_still_connects_after_the_doubling_timeouts() {
    for spec in PROTOCOLS {
        for lost in 1..=5 {
            let mut pair = pair_of(20_000);
            let mut syns = 0;
            lose(&mut pair, move |f, seg| {
                let syn = f.from == 0 && seg.has(Flags::SYN);
                syns += usize::from(syn);
                syn && syns <= lost
            });
            let pair = complete(pair, spec, 600);
            let times: Vec<u64> = flagged(&pair, 0, Flags::SYN)
                .iter()
                .map(|s| (s.at - START).micros())
                .collect();
            let mut due = vec![0];
            for gap in &syn_gaps(spec)[..lost] {
                due.push(due.last().unwrap() + gap * 1_000_000);
            }
            assert_eq!(times, due, "{spec}, {lost} SYNs lost");
        }
    }
}

#[test]
fn a_syn_lost_six_times_times_out() {
    for spec in PROTOCOLS {
        let mut pair = pair_of(1000);
        lose(&mut pair, |f, seg| f.from == 0 && seg.has(Flags::SYN));
        connect(&mut pair, spec, spec);
        assert!(pair.run(secs(600)));
        assert_eq!(fault(&pair, 0), Some(Some(Fault::TimedOut)), "{spec}");
        assert_eq!(pair.seen.len(), 6, "{spec}");
        let whole: u64 = syn_gaps(spec).iter().sum();
        assert_eq!(pair.now, secs(whole), "{spec}");
        assert_eq!(pair.conn(0).state(), State::Closed);
    }
}

#[test]
fn after_a_lost_syn_one_segment_goes_and_its_timeout_is_three_seconds() {
    for spec in PROTOCOLS {
        let mut pair = one_way(20_000);
        let (mut syn, mut first) = (false, false);
        lose(&mut pair, move |f, seg| {
            let lost_syn = f.from == 0 && seg.has(Flags::SYN) && !syn;
            syn |= lost_syn;
            let lost_data = f.from == 0 && !seg.is_empty() && !first;
            first |= lost_data;
            lost_syn || lost_data
        });
        let pair = complete(pair, spec, 600);
        let times: Vec<_> = data(&pair, 0).take(2).map(|s| (s.at, s.seg.seq)).collect();
        assert_eq!(times[0].1, times[1].1, "{spec}: more than one segment went");
        let wait = (times[1].0 - times[0].0).micros();
        assert_eq!(wait, 3_000_000, "{spec}: RFC 6298 5.7");
    }
}

#[test]
fn a_lost_answer_is_repeated_when_the_syn_comes_again() {
    for spec in PROTOCOLS {
        let mut pair = pair_of(20_000);
        let mut first = true;
        lose(&mut pair, move |f, seg| {
            let hit = f.from == 1 && seg.has(Flags::SYN) && first;
            first &= !hit;
            hit
        });
        // The server's own timer is far away: only the client's SYN can bring the answer.
        connect(&mut pair, spec, &format!("{spec},rto_initial=30s"));
        pair.run(secs(600));
        assert_delivered(&pair, spec);
        let answers = flagged(&pair, 1, Flags::SYN);
        let syns = flagged(&pair, 0, Flags::SYN);
        assert_eq!((syns.len(), answers.len()), (2, 2), "{spec}");
        assert_eq!(answers[1].at, syns[1].at + ms(10), "{spec}");
        assert_eq!(answers[0].seg.seq, answers[1].seg.seq, "{spec}");
    }
}

#[test]
fn a_lost_answer_is_repeated_by_the_servers_own_timer() {
    for spec in PROTOCOLS {
        let mut pair = pair_of(20_000);
        let mut first = true;
        lose(&mut pair, move |f, seg| {
            let hit = f.from == 1 && seg.has(Flags::SYN) && first;
            first &= !hit;
            hit
        });
        connect(&mut pair, &format!("{spec},rto_initial=30s"), spec);
        pair.run(secs(600));
        assert_delivered(&pair, spec);
        let answers = flagged(&pair, 1, Flags::SYN);
        let gap = (answers[1].at - answers[0].at).micros() / 1_000_000;
        assert_eq!(gap, syn_gaps(spec)[0], "{spec}");
        // RFC 5681 3.1: whoever had to repeat its SYN begins with one segment.
        let opened = pair.conn(1).opened_at().unwrap();
        let first = data(&pair, 1).filter(|s| s.at < opened + ms(15));
        assert_eq!(first.count(), 1, "{spec}");
        assert_eq!(flagged(&pair, 0, Flags::SYN).len(), 1, "{spec}");
    }
}

#[test]
fn a_lost_last_handshake_ack_is_made_good_by_the_first_data() {
    for spec in PROTOCOLS {
        let mut pair = one_way(5_000);
        let mut first = true;
        lose(&mut pair, move |f, seg| {
            let hit = f.from == 0 && seg.is_bare_ack() && first;
            first &= !hit;
            hit
        });
        let pair = complete(pair, spec, 600);
        // Nothing waited for a timer.
        let opened = pair.conn(1).opened_at().unwrap();
        assert!(opened - START < ms(100), "{spec}");
        assert_eq!(flagged(&pair, 1, Flags::SYN).len(), 1, "{spec}");
    }
}

#[test]
fn the_first_data_packet_lost_waits_for_the_retransmission_timer() {
    for spec in PROTOCOLS {
        // The handshake was timed, with timestamps or without: 1 s, the least (Behaviour 4.2).
        for set in [",timestamps=off", ""] {
            let spec = format!("{spec}{set}");
            let mut pair = one_way(1000);
            let mut first = true;
            lose(&mut pair, move |_, seg| {
                let hit = !seg.is_empty() && first;
                first &= !hit;
                hit
            });
            let pair = complete(pair, &spec, 600);
            let times: Vec<_> = data(&pair, 0).map(|s| s.at).collect();
            assert_eq!(times.len(), 2, "{spec}");
            assert_eq!((times[1] - times[0]).micros(), 1_000_000, "{spec}");
        }
    }
}

#[test]
fn a_closed_port_refuses() {
    for spec in PROTOCOLS {
        let blueprint = wifu_parts::blueprint(spec).unwrap();
        let mut pair = pair_of(1000);
        pair.ends[1].serve(&blueprint);
        let id = pair.dial(&blueprint);
        pair.apps[0].conn = Some(id);
        assert!(pair.run(secs(60)));
        assert_eq!(fault(&pair, 0), Some(Some(Fault::Refused)), "{spec}");
        assert_eq!(pair.now, START + ms(20), "{spec}");
    }
}

#[test]
fn a_simultaneous_open_makes_one_connection() {
    for spec in PROTOCOLS {
        let blueprint = wifu_parts::blueprint(spec).unwrap();
        let mut pair = pair_of(50_000);
        let (a, b) = (
            SocketAddrV4::new(CLIENT, 4000),
            SocketAddrV4::new(SERVER, 80),
        );
        let first = pair.ends[0].connect(pair.now, &blueprint, a, b).unwrap();
        let second = pair.ends[1].connect(pair.now, &blueprint, b, a).unwrap();
        (pair.apps[0].conn, pair.apps[1].conn) = (Some(first), Some(second));
        assert!(pair.run(secs(600)), "{spec}");
        assert_delivered(&pair, spec);
        for side in 0..2 {
            let syns = flagged(&pair, side, Flags::SYN);
            let acks: Vec<bool> = syns.iter().map(|s| s.seg.ack.is_some()).collect();
            assert_eq!(acks, [false, true], "{spec}: SYN, then SYN+ACK");
            assert_eq!(pair.conn(side).counters().dropped, 0, "{spec}");
        }
    }
}

#[test]
fn a_simultaneous_open_survives_a_lost_segment_of_each_kind() {
    for spec in PROTOCOLS {
        for nth in 0..2 {
            let blueprint = wifu_parts::blueprint(spec).unwrap();
            let mut pair = pair_of(50_000);
            let mut count = 0;
            lose(&mut pair, move |f, seg| {
                let syn = f.from == 0 && seg.has(Flags::SYN);
                count += usize::from(syn);
                syn && count == nth + 1
            });
            let (a, b) = (
                SocketAddrV4::new(CLIENT, 4000),
                SocketAddrV4::new(SERVER, 80),
            );
            let first = pair.ends[0].connect(pair.now, &blueprint, a, b).unwrap();
            let second = pair.ends[1].connect(pair.now, &blueprint, b, a).unwrap();
            (pair.apps[0].conn, pair.apps[1].conn) = (Some(first), Some(second));
            assert!(pair.run(secs(600)), "{spec}");
            assert_delivered(&pair, spec);
        }
    }
}

#[test]
fn a_simultaneous_open_that_is_reset_is_refused() {
    let blueprint = wifu_parts::blueprint("tcp-newreno").unwrap();
    let mut pair = Pair::new(7);
    pair.record = true;
    pair.spoil = Box::new(|_| Fate::Drop);
    let (a, b) = (
        SocketAddrV4::new(CLIENT, 4000),
        SocketAddrV4::new(SERVER, 80),
    );
    let id = pair.ends[0].connect(pair.now, &blueprint, a, b).unwrap();
    pair.apps[0].conn = Some(id);
    pair.run(START + ms(1));
    let mut syn = pair.seen[0].seg.clone();
    syn.ports = (80, 4000);
    pair.inject(1, &syn);
    assert_eq!(pair.conn(0).state(), State::SynRcvd);
    let mut rst = syn.clone();
    (rst.seq, rst.flags) = (syn.seq.plus(1), Flags::RST);
    pair.inject(1, &rst);
    assert_eq!(fault(&pair, 0), Some(Some(Fault::Refused)));
}

#[test]
fn a_peer_that_kept_old_state_is_reset_and_the_next_syn_connects() {
    for spec in PROTOCOLS {
        let mut pair = pair_of(20_000);
        for app in &mut pair.apps {
            app.close_after = false;
        }
        open(&mut pair, spec);
        run_for(&mut pair, Span::SECOND * 5);
        // The client's host restarts: nothing is said, the same port is used again.
        let old = pair.conn(0).tuple();
        let survivor = pair.apps[1].conn.unwrap();
        let fresh = Pair::new(8);
        let [end, _] = fresh.ends;
        pair.ends[0] = end;
        pair.apps = Default::default();
        for (app, seed) in pair.apps.iter_mut().zip([5, 6]) {
            app.to_write = wifu_testkit::pair::pattern(30_000, seed);
            app.close_after = true;
        }
        let mark = pair.seen.len();
        let blueprint = wifu_parts::blueprint(spec).unwrap();
        let now = pair.now;
        let id = pair.ends[0].connect(now, &blueprint, old.local, old.remote);
        pair.apps[0].conn = Some(id.unwrap());
        pair.run(now + Span::SECOND * 600);
        assert_delivered(&pair, spec);
        let kinds: Vec<_> = pair.seen[mark..]
            .iter()
            .take(4)
            .map(|s| (s.from, s.seg.flags.0, s.seg.ack.is_some()))
            .collect();
        let (syn, rst) = (Flags::SYN.0, Flags::RST.0);
        let expected = [
            (0, syn, false),
            (1, 0, true),
            (0, rst, false),
            (0, syn, false),
        ];
        assert_eq!(kinds, expected, "{spec}: SYN, challenge ACK, RST, SYN");
        let gone = pair.ends[1].conn(survivor).map(|c| c.state());
        assert_eq!(gone, Some(State::Closed), "{spec}");
    }
}

#[test]
fn a_restarted_server_answers_old_segments_with_rst() {
    for spec in PROTOCOLS {
        let mut pair = pair_of(20_000);
        for app in &mut pair.apps {
            app.close_after = false;
        }
        open(&mut pair, spec);
        run_for(&mut pair, Span::SECOND * 5);
        let [_, end] = Pair::new(8).ends;
        pair.ends[1] = end;
        pair.ends[1].serve(&wifu_parts::blueprint(spec).unwrap());
        pair.apps[1] = Default::default();
        pair.apps[0].to_write.extend_from_slice(b"anybody there?");
        let mark = pair.seen.len();
        run_for(&mut pair, Span::SECOND);
        assert_eq!(fault(&pair, 0), Some(Some(Fault::Reset)), "{spec}");
        let answers: Vec<_> = pair.seen[mark..].iter().map(|s| s.from).collect();
        assert_eq!(answers, [0, 1], "{spec}: one segment, one RST");
    }
}

#[test]
fn the_syn_offers_what_the_composition_has() {
    for (spec, sack, scale) in [
        ("tcp-newreno,profile=wifu-tahoe", false, None),
        ("tcp-sack,profile=wifu-tahoe", true, None),
        ("tcp-newreno,rcv_wnd=1MiB", false, Some(5)),
        ("tcp-newreno", false, Some(7)),
        ("tcp-cubic", true, Some(7)),
    ] {
        let mut pair = pair_of(300_000);
        pair = {
            connect(&mut pair, spec, spec);
            pair.run(secs(600));
            assert_delivered(&pair, spec);
            pair
        };
        for side in 0..2 {
            let o = flagged(&pair, side, Flags::SYN)[0].seg.options;
            assert_eq!((o.mss, o.ts_ok), (1460, true), "{spec}");
            assert_eq!((o.sack_ok, o.scale), (sack, scale), "{spec}");
        }
    }
}

#[test]
fn an_option_that_one_side_lacks_is_used_by_neither() {
    // A SACK sender and a NewReno receiver share the wire; so do a scaled and a plain window.
    for (client, server) in [
        ("tcp-sack", "tcp-sack,receive=reassemble,sack=off"),
        ("tcp-sack,sack=off", "tcp-sack"),
        ("tcp-sack,timestamps=off", "tcp-sack"),
        ("tcp-sack", "tcp-sack,timestamps=off"),
        ("tcp-sack", "tcp-sack,rcv_wnd=65535"),
        ("tcp-sack,rcv_wnd=65535", "tcp-sack"),
    ] {
        let what = format!("{client} to {server}");
        let mut pair = pair_of(300_000);
        let mut rng = wifu_wire::Rng::new(5);
        lose(&mut pair, move |_, seg| {
            !seg.is_empty() && rng.below(50) == 0
        });
        connect(&mut pair, client, server);
        pair.run(secs(3600));
        assert_delivered(&pair, &what);
        let established = pair.seen.iter().filter(|s| !s.seg.has(Flags::SYN));
        for s in established {
            if what.contains("sack=off") {
                assert!(s.seg.ranges.is_empty(), "{what}");
            }
            if what.contains("timestamps") {
                assert_eq!(s.seg.ts, None, "{what}");
            }
        }
        let both = [0, 1].map(|side| flagged(&pair, side, Flags::SYN)[0].seg.options);
        if what.contains("rcv_wnd") {
            assert!(both[0].scale.is_none() || both[1].scale.is_none(), "{what}");
        }
    }
}

#[test]
fn a_syn_that_carries_data_loses_none_of_it() {
    // RFC 9293 3.10.7.3: what is acknowledged of it counts, the rest comes again.
    let mut pair = one_way(0);
    pair.apps[0].close_after = false;
    pair.apps[1].close_after = false;
    pair.apps[0].stalled = false;
    let blueprint = wifu_parts::blueprint("tcp-newreno").unwrap();
    let id = pair.ends[0]
        .connect(
            pair.now,
            &blueprint,
            SocketAddrV4::new(CLIENT, 4000),
            SocketAddrV4::new(SERVER, 80),
        )
        .unwrap();
    pair.apps[0].conn = Some(id);
    pair.run(START + ms(1));
    let syn = pair.seen[0].seg.clone();
    let answer = wifu_testkit::seg::Seg {
        ports: (80, 4000),
        seq: wifu_wire::Seq(1000),
        ack: Some(syn.seq.plus(1)),
        flags: Flags::SYN,
        window: 65_535,
        options: syn.options,
        ts: Some((1, syn.ts.unwrap().0)),
        data: b"hello".to_vec(),
        ..Default::default()
    };
    pair.inject(1, &answer);
    assert_eq!(pair.conn(0).state(), State::Established);
    let acked = sent(&pair, 0).next_back().unwrap().seg.ack.unwrap();
    let rest = acked.since(wifu_wire::Seq(1001)) as usize;
    let again = wifu_testkit::seg::Seg {
        flags: Flags(0),
        seq: acked,
        ts: Some((2, syn.ts.unwrap().0)),
        data: b"hello world"[rest..].to_vec(),
        ..answer
    };
    pair.inject(1, &again);
    assert_eq!(pair.apps[0].read, b"hello world");
}

#[test]
fn a_connection_that_waits_does_not_lose_what_was_not_read_when_its_port_is_used_again() {
    let mut pair = one_way(0);
    let blueprint = wifu_parts::blueprint("tcp-newreno").unwrap();
    let listener = SocketAddrV4::new(SERVER, 80);
    pair.ends[1].listen(&blueprint, listener, 4).unwrap();
    // The server closes first, so it is the server that waits; it has not read the client's data.
    let local = SocketAddrV4::new(CLIENT, 4000);
    let id = pair.ends[0]
        .connect(pair.now, &blueprint, local, listener)
        .unwrap();
    pair.apps[0].conn = Some(id);
    pair.apps[0].to_write = b"read me".to_vec();
    pair.apps[0].close_after = false;
    pair.apps[1].stalled = true;
    run_for(&mut pair, ms(500));
    pair.apps[0].close_after = true;
    run_for(&mut pair, ms(500));
    let old = pair.apps[1].conn.unwrap();
    assert_eq!(pair.ends[1].conn(old).unwrap().state(), State::TimeWait);
    pair.ends[0].close(pair.now, id);
    let again = pair.ends[0]
        .connect(pair.now, &blueprint, local, listener)
        .unwrap();
    pair.apps[0] = Default::default();
    pair.apps[0].conn = Some(again);
    run_for(&mut pair, ms(500));
    assert!(pair.conn(0).opened_at().is_some(), "the new one opened");
    let unread = pair.ends[1].readable(old).concat();
    assert_eq!(unread, b"read me", "the old one kept its data");
    let mut events = Vec::new();
    run_for(&mut pair, Span::SECOND * 70);
    while let Some((id, e)) = pair.ends[1].poll_event() {
        events.push((id, e));
    }
    let over = fault(&pair, 1) == Some(None) || events.contains(&(old, Event::Closed(None)));
    assert!(over, "the old one ended");
}

#[test]
fn initial_numbers_follow_a_clock_and_differ_between_connections_and_hosts() {
    // RFC 6528: 4 us ticks, plus a keyed hash of the two ends.
    let blueprint = wifu_parts::blueprint("tcp-newreno").unwrap();
    let number = |seed: u64, port: u16, at: Span| {
        let mut pair = Pair::new(seed);
        pair.now = START + at;
        let (a, b) = (
            SocketAddrV4::new(CLIENT, port),
            SocketAddrV4::new(SERVER, 80),
        );
        let id = pair.ends[0].connect(pair.now, &blueprint, a, b).unwrap();
        pair.ends[0].conn(id).unwrap().board().tx.iss
    };
    let first = number(1, 4000, Span::ZERO);
    let tick = number(1, 4000, Span::SECOND);
    assert_eq!(tick.since(first), 250_000);
    assert_ne!(number(1, 4001, Span::ZERO), first);
    assert_ne!(number(2, 4000, Span::ZERO), first);
}

/// Another composition for a listener is for those that come later, and needs the same packets.
#[test]
fn who_is_let_in_meanwhile_is_let_in_as_he_asked() {
    for spec in PROTOCOLS {
        let blueprint = |set: &str| wifu_parts::blueprint(&format!("{spec}{set}")).unwrap();
        let (before, after) = (blueprint(""), blueprint(",keepalive=on,rcv_wnd=20000"));
        for retuned_at in [0, 15] {
            let mut pair = one_way(20_000);
            pair.delay = ms(10);
            let here = SocketAddrV4::new(SERVER, 80);
            let id = pair.ends[1].listen(&before, here, 16).unwrap();
            pair.apps[0].conn = Some(pair.dial(&before));
            // At 15 ms the SYN has come, and its answer has not.
            pair.run(START + ms(retuned_at));
            let other = if spec.starts_with("tcp-reno") {
                "tcp-tahoe"
            } else {
                "tcp-reno"
            };
            let other = wifu_parts::blueprint(other).unwrap();
            assert!(!pair.ends[1].retune(id, &other, 16), "{spec}");
            assert!(pair.ends[1].retune(id, &after, 16), "{spec}");
            pair.run(START + ms(100));
            let server = pair.conn(1);
            let kept = server.blueprint().value("keepalive").unwrap().to_string();
            let wanted = if retuned_at == 0 { "on" } else { "off" };
            assert_eq!(kept, wanted, "{spec}, {retuned_at}");
            pair.run(secs(600));
            assert_delivered(&pair, spec);
        }
    }
}
