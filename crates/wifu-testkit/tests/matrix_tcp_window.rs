//! The TCP family and the peer's window: closed, too small, scaled, probed, lost updates.

mod tcp_common;

use tcp_common::*;
use wifu_engine::{Reason, State};
use wifu_testkit::pair::{Fate, Pair, pattern};
use wifu_wire::{Flags, Span, Time};

/// A pair whose client writes `octets` to a server that does not read.
fn stalled(spec: &str, octets: usize) -> Pair {
    let mut pair = one_way(octets);
    pair.apps[1].stalled = true;
    pair.apps[1].close_after = false;
    open(&mut pair, spec);
    pair
}

/// The server reads again, and closes when the client does.
fn wake(pair: &mut Pair) {
    pair.apps[1].stalled = false;
    pair.apps[1].close_after = true;
}

/// Windows of 64 KiB for all, so that a stalled reader closes them.
fn small(spec: &str) -> String {
    format!("{spec},rcv_wnd=65160,snd_buf=131071")
}

#[test]
fn a_receiver_that_stops_for_thirty_seconds_is_probed_and_then_served() {
    for spec in PROTOCOLS {
        // 65160 are 45 full segments: the window closes to nothing.
        let spec = small(spec);
        let mut pair = stalled(&spec, 300_000);
        run_for(&mut pair, Span::SECOND * 29);
        let (sender, receiver) = (pair.conn(0).board(), pair.conn(1).board());
        assert!(sender.peer.persist, "{spec}");
        assert_eq!((sender.peer.window, receiver.rx.window), (0, 0), "{spec}");
        assert_eq!(receiver.app.unread, 65_160, "{spec}");
        let probes = sent_because(&pair, 0, Reason::Probe);
        // The timeout is 1 s: probes after 1, 3, 7, 15, 31 s.
        let since: Vec<u64> = probes
            .iter()
            .map(|t| (*t - START).micros() / 1_000_000)
            .collect();
        assert_eq!(since, [1, 3, 7, 15], "{spec}");
        let probe_len = |t: &Time| data(&pair, 0).find(|s| s.at == *t).unwrap().seg.len();
        assert!(probes.iter().map(probe_len).all(|n| n == 1), "{spec}");
        // Each probe was answered, and no answer looked like a loss.
        let answers = sent(&pair, 1).filter(|s| s.at > START + ms(500)).count();
        assert_eq!(answers, probes.len(), "{spec}");
        assert_eq!(losses(&pair, 0), (0, 0), "{spec}");
        wake(&mut pair);
        let resumed = pair.now;
        pair.run(secs(600));
        assert_delivered(&pair, &spec);
        assert_eq!(losses(&pair, 0), (0, 0), "{spec}");
        let took = pair.seen.last().unwrap().at - resumed;
        assert!(
            took < Span::SECOND,
            "{spec}: the update restarts it at once, {took}"
        );
        assert_eq!(pair.conn(0).board().tx.timeouts, 0, "{spec}");
    }
}

#[test]
fn a_window_closed_for_an_hour_does_not_end_the_connection() {
    for spec in PROTOCOLS {
        let spec = small(spec);
        let mut pair = stalled(&spec, 300_000);
        run_for(&mut pair, Span::SECOND * 3_600);
        let probes = sent_because(&pair, 0, Reason::Probe);
        let gaps: Vec<u64> = probes.windows(2).map(|w| (w[1] - w[0]).micros()).collect();
        assert_eq!(gaps.iter().max(), Some(&60_000_000), "{spec}");
        assert!(probes.len() > 60 && probes.len() < 70, "{spec}");
        wake(&mut pair);
        let limit = pair.now + Span::SECOND * 600;
        pair.run(limit);
        assert_delivered(&pair, &spec);
    }
}

#[test]
fn a_stall_with_375_octets_left_and_a_lost_update_is_probed_with_375() {
    for spec in PROTOCOLS {
        // 65535 mod 1448 = 375.
        let spec = format!("{spec},rcv_wnd=65535,snd_buf=131071");
        let mut pair = one_way(300_000);
        pair.apps[1].stalled = true;
        pair.apps[1].close_after = false;
        connect(&mut pair, &spec, &spec);
        run_for(&mut pair, ms(900));
        assert_eq!(pair.conn(0).board().peer.window, 375, "{spec}");
        assert!(pair.conn(0).board().peer.persist, "{spec}");
        // The reader wakes; every update of the window is lost.
        let woken = pair.now;
        pair.spoil = Box::new(|f| match f.from {
            1 => Fate::Drop,
            _ => Fate::Deliver,
        });
        wake(&mut pair);
        run_for(&mut pair, ms(100));
        assert!(
            pair.seen
                .iter()
                .any(|s| s.fate == Fate::Drop && s.at >= woken)
        );
        heal(&mut pair);
        pair.run(secs(600));
        assert_delivered(&pair, &spec);
        let sizes: Vec<u32> = data(&pair, 0)
            .filter(|s| s.at > woken)
            .map(|s| s.seg.len())
            .take(2)
            .collect();
        assert_eq!(sizes, [375, 1448], "{spec}: the probe, then full segments");
        assert_eq!(losses(&pair, 0), (0, 0), "{spec}");
        assert_eq!(repeated(&pair, 0).len(), 0, "{spec}");
    }
}

#[test]
fn many_answers_to_probes_are_no_duplicate_acknowledgements() {
    for spec in PROTOCOLS {
        let spec = small(spec);
        let mut pair = stalled(&spec, 300_000);
        pair.spoil = Box::new(|f| match f.from {
            1 => Fate::Twice,
            _ => Fate::Deliver,
        });
        run_for(&mut pair, Span::SECOND * 300);
        assert!(sent_because(&pair, 0, Reason::Probe).len() >= 8, "{spec}");
        // Nothing new was acknowledged since the window closed: the count stands.
        let counted = probe(&pair, 0, "dupacks");
        assert!(counted.is_none_or(|n| n <= 1.0), "{spec}: {counted:?}");
        assert_eq!(losses(&pair, 0), (0, 0), "{spec}");
    }
}

#[test]
fn lost_probes_and_lost_answers_are_made_up_for() {
    for spec in PROTOCOLS {
        let spec = small(spec);
        let mut pair = stalled(&spec, 300_000);
        run_for(&mut pair, ms(500));
        lose_randomly(&mut pair, 50, 5);
        run_for(&mut pair, Span::SECOND * 200);
        wake(&mut pair);
        run_for(&mut pair, Span::SECOND * 400);
        heal(&mut pair);
        let limit = pair.now + Span::SECOND * 3_600;
        pair.run(limit);
        assert_delivered(&pair, &spec);
    }
}

#[test]
fn the_right_edge_of_the_window_never_retreats() {
    for spec in PROTOCOLS {
        for seed in 0..3 {
            let spec = format!("{spec},rcv_wnd=20000");
            let mut pair = pair_of(200_000);
            lose_randomly(&mut pair, 5, seed);
            connect(&mut pair, &spec, &spec);
            let mut edges = [None; 2];
            let mut mark = 0;
            let mut rng = wifu_wire::Rng::new(seed);
            while fault(&pair, 0).is_none() {
                for app in &mut pair.apps {
                    app.stalled = rng.below(2) == 0;
                }
                run_for(&mut pair, ms(20));
                for s in &pair.seen[mark..] {
                    let Some(ack) = s.seg.ack.filter(|_| !s.seg.has(Flags::RST)) else {
                        continue;
                    };
                    // An ACK that a batch owed says less than is known: its edge may be older.
                    let right = ack.plus(s.seg.window);
                    let last = edges[s.from].unwrap_or(right);
                    if !s.seg.is_empty() || s.seg.has(Flags::SYN) {
                        assert!(!right.before(last), "{spec}: {right:?} after {last:?}");
                    }
                    edges[s.from] = Some(right.later(last));
                }
                mark = pair.seen.len();
            }
            for app in &mut pair.apps {
                app.stalled = false;
            }
            pair.run(secs(3_600));
            assert_delivered(&pair, &spec);
        }
    }
}

#[test]
fn out_of_order_octets_don_t_shrink_the_window() {
    for spec in PROTOCOLS {
        let spec = small(spec);
        let mut pair = one_way(300_000);
        let mut count = 0;
        lose(&mut pair, move |f, seg| {
            count += u32::from(f.from == 0 && !seg.is_empty());
            count == 30 && f.from == 0 && !seg.is_empty()
        });
        let pair = complete(pair, &spec, 600);
        let duplicates = duplicates(&pair, 1);
        assert!(duplicates.len() >= 3, "{spec}");
        assert!(duplicates.iter().all(|s| s.window == 65_160), "{spec}");
    }
}

#[test]
fn a_scaled_window_carries_more_than_sixteen_bits() {
    for spec in PROTOCOLS {
        let spec = format!("{spec},rcv_wnd=1MiB,snd_buf=2MiB");
        let mut pair = one_way(3_000_000);
        pair.delay = ms(100);
        let pair = complete(pair, &spec, 600);
        let board = pair.conn(0).board();
        assert_eq!(board.peer.max_window >> 5, (1 << 20) >> 5, "{spec}");
        assert_eq!(board.conn.peer.scale, Some(5), "{spec}");
        let syn = flagged(&pair, 0, Flags::SYN)[0].seg.window;
        assert_eq!(syn, 65_535, "{spec}: a SYN's window is not scaled");
        // More than 64 KiB were in flight.
        let (mut most, mut acked) = (0, None);
        for s in &pair.seen {
            match s.from {
                1 => acked = s.seg.ack,
                _ => most = most.max(acked.map_or(0, |a| s.seg.end().since(a))),
            }
        }
        assert!(most > 70_000, "{spec}: {most}");
    }
}

#[test]
fn a_stalled_reader_of_a_scaled_window_is_served_too() {
    for spec in PROTOCOLS {
        let spec = format!("{spec},rcv_wnd=300000,snd_buf=2MiB");
        let mut pair = stalled(&spec, 1_000_000);
        run_for(&mut pair, Span::SECOND * 100);
        assert!(pair.conn(1).board().app.unread > 290_000, "{spec}");
        wake(&mut pair);
        let limit = pair.now + Span::SECOND * 600;
        pair.run(limit);
        assert_delivered(&pair, &spec);
    }
}

#[test]
fn the_zero_length_probe_of_a_kernel_is_answered() {
    for spec in PROTOCOLS {
        let spec = small(spec);
        let mut pair = stalled(&spec, 300_000);
        run_for(&mut pair, ms(500));
        for window_open in [false, true] {
            pair.apps[1].stalled = !window_open;
            run_for(&mut pair, ms(1));
            let before = (marks(&pair, 1), pair.seen.len());
            let mut probe = forge(&pair, 0);
            probe.seq = pair.conn(1).board().rx.nxt.minus(1);
            pair.inject(0, &probe);
            let answer = &pair.seen[before.1];
            assert_eq!(answer.from, 1, "{spec}");
            assert!(answer.seg.is_bare_ack(), "{spec}");
            assert_eq!(answer.seg.ack, Some(before.0.2), "{spec}");
            assert_eq!(marks(&pair, 1).3, State::Established, "{spec}");
        }
    }
}

#[test]
fn a_keep_alive_with_one_old_octet_is_answered_and_not_delivered() {
    for spec in PROTOCOLS {
        let mut pair = one_way(5_000);
        pair.apps[0].close_after = false;
        pair.apps[1].close_after = false;
        open(&mut pair, spec);
        let mark = pair.seen.len();
        let mut probe = forge(&pair, 0);
        (probe.seq, probe.data) = (probe.seq.minus(1), vec![b'?']);
        pair.inject(0, &probe);
        let answer = &pair.seen[mark].seg;
        assert!(answer.is_bare_ack(), "{spec}");
        assert_eq!(answer.ack, Some(pair.conn(1).board().rx.nxt), "{spec}");
        assert_eq!(pair.apps[1].read.len(), 5_000, "{spec}");
    }
}

#[test]
fn a_fin_behind_data_that_fills_the_window_is_taken_with_it() {
    for spec in PROTOCOLS {
        let spec = format!("{spec},rcv_wnd=1000,snd_buf=20000");
        let pair = complete(one_way(10_000), &spec, 600);
        assert_eq!(pair.conn(0).board().tx.timeouts, 0, "{spec}");
        assert_eq!(flagged(&pair, 0, Flags::FIN).len(), 1, "{spec}");
    }
}

#[test]
fn the_fin_of_a_stalled_receiver_s_peer_arrives_through_a_closed_window() {
    for spec in PROTOCOLS {
        let spec = small(spec);
        // Exactly what fits: the FIN alone meets a closed window.
        let mut pair = stalled(&spec, 65_160);
        run_for(&mut pair, Span::SECOND * 5);
        assert!(pair.apps[1].eof, "{spec}");
        assert_eq!(pair.conn(1).state(), State::CloseWait, "{spec}");
        wake(&mut pair);
        pair.run(secs(600));
        assert_delivered(&pair, &spec);
    }
}

#[test]
fn a_peer_that_takes_its_window_back_is_waited_for() {
    // RFC 9293 3.8.6: discouraged, but a sender must survive it, as long as the peer answers.
    for spec in PROTOCOLS {
        let spec = small(spec);
        let mut pair = one_way(300_000);
        for app in &mut pair.apps {
            app.close_after = false;
        }
        pair.apps[1].to_write.clear();
        pair.apps[0].to_write.clear();
        open(&mut pair, &spec);
        // From now on a peer of ours answers: it takes nothing, its window is zero.
        pair.spoil = Box::new(|_| Fate::Drop);
        pair.apps[0].to_write = pattern(100_000, 1);
        run_for(&mut pair, ms(5));
        let una = pair.conn(0).board().tx.una;
        for _ in 0..1_500 {
            let mut answer = forge(&pair, 1);
            (answer.ack, answer.window) = (Some(una), 0);
            answer.seq = pair.conn(0).board().rx.nxt;
            pair.inject(1, &answer);
            run_for(&mut pair, Span::SECOND);
            assert_eq!(fault(&pair, 0), None, "{spec}: after {:?}", pair.now);
        }
        // It opens again, and everything is sent.
        heal(&mut pair);
        let mut answer = forge(&pair, 1);
        answer.ack = Some(una);
        answer.seq = pair.conn(0).board().rx.nxt;
        pair.inject(1, &answer);
        pair.apps[0].close_after = true;
        pair.apps[1].close_after = true;
        let limit = pair.now + Span::SECOND * 3_600;
        pair.run(limit);
        assert_delivered(&pair, &spec);
    }
}

#[test]
fn a_reader_of_single_octets_does_not_cause_small_segments() {
    // Silly window syndrome (RFC 9293 3.8.6.2): updates come in steps worth a segment.
    for spec in PROTOCOLS {
        let spec = small(spec);
        let mut pair = stalled(&spec, 200_000);
        run_for(&mut pair, ms(900));
        let mark = pair.seen.len();
        let id = pair.apps[1].conn.unwrap();
        for _ in 0..3_000 {
            let mut one = [0u8; 1];
            let n = pair.ends[1].read(pair.now, id, &mut one);
            pair.apps[1].read.extend_from_slice(&one[..n]);
            run_for(&mut pair, ms(1));
        }
        let small = |s: &&wifu_testkit::pair::Seen| !s.seg.is_empty() && s.seg.len() < 1448;
        let tiny = pair.seen[mark..].iter().filter(small).count();
        assert!(tiny <= 3, "{spec}: {tiny} small segments");
        let acks = pair.seen[mark..].iter().filter(|s| s.from == 1).count();
        assert!(acks < 12, "{spec}: {acks} updates for two segments' room");
        wake(&mut pair);
        pair.run(secs(600));
        assert_delivered(&pair, &spec);
    }
}

#[test]
fn what_goes_again_after_a_timeout_takes_along_nothing_beyond_the_window() {
    for spec in PROTOCOLS {
        // Segments of 1000, as large as the window; the MSS would hold more.
        let spec = format!("{spec},rcv_wnd=1000,snd_buf=20000");
        let mut pair = one_way(10_000);
        let mut count = 0;
        lose(&mut pair, move |f, seg| {
            count += u32::from(f.from == 0 && !seg.is_empty());
            count == 3 && f.from == 0 && !seg.is_empty()
        });
        let pair = complete(pair, &spec, 600);
        let mut edge = None;
        for s in &pair.seen {
            match (s.from, s.seg.ack) {
                (1, Some(ack)) => edge = Some(ack.plus(s.seg.window)),
                (0, _) if !s.seg.is_empty() => {
                    let end = s.seg.seq.plus(s.seg.len());
                    assert!(end.upto(edge.unwrap()), "{spec}: {end:?} beyond {edge:?}");
                }
                _ => {}
            }
        }
        assert_eq!(pair.conn(0).board().tx.timeouts, 1, "{spec}");
    }
}
