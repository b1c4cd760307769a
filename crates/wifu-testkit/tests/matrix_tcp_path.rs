//! The TCP family over paths that change, reorder and idle; sequence space and clocks that wrap;
//! slow senders; many flows.

mod tcp_common;

use std::collections::BTreeSet;
use tcp_common::*;
use wifu_engine::{Endpoint, EndpointConfig};
use wifu_testkit::pair::{App, Fate, Pair, pattern};
use wifu_wire::{Flags, Rng, Span, Time};

#[test]
fn a_packet_that_two_others_overtake_is_not_sent_again() {
    for spec in PROTOCOLS {
        let mut pair = one_way(400_000);
        let mut count = 0;
        pair.spoil = Box::new(move |f| {
            count += u32::from(f.from == 0 && !f.seg().is_empty());
            match f.from == 0 && count % 7 == 3 {
                true => Fate::Behind(2),
                false => Fate::Deliver,
            }
        });
        let pair = complete(pair, spec, 600);
        let held = |s: &&wifu_testkit::pair::Seen| s.fate == Fate::Behind(2);
        assert!(pair.seen.iter().filter(held).count() > 20, "{spec}");
        assert_eq!(repeated(&pair, 0).len(), 0, "{spec}");
        assert_eq!(losses(&pair, 0), (0, 0), "{spec}");
        assert!(duplicates(&pair, 1).len() >= 20, "{spec}");
    }
}

#[test]
fn reordering_by_up_to_ten_packets_is_survived() {
    for spec in PROTOCOLS {
        for seed in 0..5 {
            let mut pair = pair_of(300_000);
            let mut rng = Rng::new(seed);
            pair.spoil = Box::new(move |_| match rng.below(10) {
                0 => Fate::Behind(1 + rng.below(10) as u32),
                _ => Fate::Deliver,
            });
            let pair = complete(pair, spec, 3600);
            if spec.starts_with("tcp-sack") {
                // What was reported is not retransmitted: at most what looked lost.
                let again = repeated(&pair, 0).len() + repeated(&pair, 1).len();
                assert!(again < 100, "{spec}: {again} segments again");
            }
        }
    }
}

#[test]
fn sequence_numbers_that_wrap_change_nothing() {
    for spec in PROTOCOLS {
        for iss in [
            u32::MAX - 4_999,
            u32::MAX,
            0,
            0x7FFF_FFFF - 20_000,
            0x8000_0000,
            0xC000_0000,
        ] {
            for percent in [0, 3] {
                let mut pair = pair_of(100_000);
                lose_randomly(&mut pair, percent, 5);
                let pair = complete(pair, &format!("{spec},isn=fixed,iss={iss}"), 3600);
                let first = flagged(&pair, 0, Flags::SYN)[0].seg.seq;
                assert_eq!(first.0, iss);
                if percent == 0 {
                    assert_eq!(repeated(&pair, 0).len(), 0, "{spec}, iss {iss}");
                }
            }
        }
    }
}

#[test]
fn timestamps_that_wrap_change_nothing() {
    for spec in PROTOCOLS {
        for before in [30, 75, 150] {
            let mut pair = pair_of(300_000);
            pair.now = Time((1u64 << 32) * 1_000 - before * 1_000_000);
            let end = pair.now + Span::SECOND * 600;
            connect(&mut pair, spec, spec);
            assert!(pair.run(end));
            assert_delivered(&pair, spec);
            let stamps: Vec<u32> = sent(&pair, 0).filter_map(|s| Some(s.seg.ts?.0)).collect();
            assert!(stamps[0] > stamps[stamps.len() - 1], "{spec}: no wrap");
            for side in 0..2 {
                assert_eq!(repeated(&pair, side).len(), 0, "{spec}");
                let srtt = pair.conn(side).board().rtt.srtt;
                assert!(srtt < ms(250), "{spec}: srtt {srtt}");
            }
        }
    }
}

#[test]
fn a_longer_path_in_mid_flow_gives_a_new_round_trip_time() {
    for spec in PROTOCOLS {
        let mut pair = one_way(5_000_000);
        pair.delay = ms(5);
        let spec = &format!("{spec},rcv_wnd=65535");
        connect(&mut pair, spec, spec);
        run_for(&mut pair, ms(300));
        let before = pair.conn(0).board().rtt.srtt;
        pair.delay = ms(150);
        run_for(&mut pair, Span::SECOND * 4);
        let after = pair.conn(0).board().rtt.srtt;
        assert!(before < ms(40), "{spec}: {before}");
        assert!(after > ms(280) && after < ms(520), "{spec}: {after}");
        assert!(
            pair.apps[1].read.len() < 5_000_000,
            "{spec}: still under way"
        );
        pair.delay = ms(5);
        pair.run(secs(600));
        assert_delivered(&pair, spec);
        assert_eq!(pair.conn(0).board().tx.timeouts, 0, "{spec}");
    }
}

#[test]
fn a_path_slower_than_the_timeout_is_learnt() {
    for spec in PROTOCOLS {
        let mut pair = one_way(1_000_000);
        connect(&mut pair, spec, spec);
        run_for(&mut pair, ms(110));
        pair.delay = ms(1_500);
        run_for(&mut pair, Span::SECOND * 60);
        let early = pair.conn(0).board().tx.timeouts;
        assert!((1..=3).contains(&early), "{spec}: {early} timeouts");
        pair.run(secs(3600));
        assert_delivered(&pair, spec);
        let tx = &pair.conn(0).board().tx;
        assert_eq!(tx.timeouts, early, "{spec}: the new time was learnt");
        assert!(tx.rto >= ms(3_000), "{spec}: rto {}", tx.rto);
    }
}

/// Segments that leave within one instant when data is written after a pause.
fn burst_after(spec: &str, idle: Span) -> (usize, Pair) {
    let mut pair = one_way(300_000);
    pair.apps[0].close_after = false;
    pair.apps[1].close_after = false;
    open(&mut pair, spec);
    run_for(&mut pair, Span::SECOND * 5);
    assert_eq!(pair.apps[1].read.len(), 300_000, "{spec}");
    run_for(&mut pair, idle);
    let more = pattern(300_000, 9);
    pair.apps[0].to_write.extend_from_slice(&more);
    for app in &mut pair.apps {
        app.close_after = true;
    }
    let (mark, now) = (pair.seen.len(), pair.now);
    pair.run(now + Span::SECOND * 600);
    assert_delivered(&pair, spec);
    assert_eq!(pair.conn(0).board().tx.timeouts, 0, "{spec}");
    let first = pair.seen[mark..]
        .iter()
        .filter(|s| s.at == now && s.from == 0);
    (first.count(), pair)
}

#[test]
fn after_two_idle_minutes_the_window_restarts_where_that_is_on() {
    for spec in PROTOCOLS {
        let on = format!("{spec},idle_restart=on");
        let off = format!("{spec},idle_restart=off");
        assert_eq!(
            burst_after(&on, Span::SECOND * 120).0,
            3,
            "{spec}: RFC 5681 4.1"
        );
        assert!(burst_after(&off, Span::SECOND * 120).0 > 10, "{spec}");
    }
    assert_eq!(
        burst_after("tcp-cubic", Span::SECOND * 120).0,
        3,
        "rfc-modern"
    );
}

#[test]
fn silence_longer_than_half_the_clocks_range_does_not_stop_the_clock() {
    // 2^31 us are 35.8 min, 2^32 are 71.6: the peer's stamps look old, or wrapped.
    for spec in PROTOCOLS {
        for minutes in [20, 40, 60, 80, 150] {
            let (_, pair) = burst_after(spec, Span::SECOND * (60 * minutes));
            for side in 0..2 {
                let rtt = &pair.conn(side).board().rtt;
                let what = format!("{spec}, {minutes} min: srtt {}", rtt.srtt);
                assert!(rtt.srtt < ms(250), "{what}");
                assert_eq!(rtt.rto, Span::SECOND, "{what}");
            }
            let drops = pair.ends[0].drops().get("PAWS").copied();
            assert_eq!(drops, None, "{spec}");
        }
    }
}

#[test]
fn a_sender_of_a_packet_each_half_second_sees_no_timeout() {
    for spec in PROTOCOLS {
        for octets in [1, 1448] {
            let mut pair = one_way(0);
            pair.apps[0].close_after = false;
            open(&mut pair, spec);
            for i in 0..40u64 {
                let mark = pair.seen.len();
                pair.apps[0].to_write.extend(pattern(octets, i));
                run_for(&mut pair, ms(500));
                let (at, len) = (pair.seen[mark].at, pair.seen[mark].seg.len());
                assert_eq!(pair.now - at, ms(500), "{spec}: it leaves at once");
                assert_eq!(len as usize, octets, "{spec}");
            }
            pair.apps[0].close_after = true;
            pair.run(secs(600));
            assert_delivered(&pair, spec);
            assert_eq!(repeated(&pair, 0).len(), 0, "{spec}");
            assert_eq!(pair.conn(0).board().tx.timeouts, 0, "{spec}");
        }
    }
}

#[test]
fn thirty_two_flows_of_one_host_pair_don_t_mix() {
    for spec in PROTOCOLS {
        let blueprint = wifu_parts::blueprint(spec).unwrap();
        let mut pair = Pair::new(3);
        lose_randomly(&mut pair, 2, 4);
        let at = core::net::SocketAddrV4::new(wifu_testkit::pair::SERVER, 80);
        pair.ends[1].listen(&blueprint, at, 64).unwrap();
        let mut n = 100;
        pair.usher = Some(Box::new(move || {
            n += 1;
            App {
                to_write: pattern(40_000, n),
                close_after: true,
                ..App::default()
            }
        }));
        let mut ports = BTreeSet::new();
        for i in 0..32 {
            let id = pair.dial(&blueprint);
            ports.insert(pair.ends[0].conn(id).unwrap().tuple().local.port());
            let app = App {
                to_write: pattern(50_000, i),
                close_after: true,
                conn: Some(id),
                ..App::default()
            };
            pair.crowd[0].insert(id, app);
        }
        assert_eq!(ports.len(), 32);
        assert!(pair.run(secs(36_000)), "{spec}");
        assert_eq!(pair.crowd[1].len(), 32, "{spec}");
        for app in pair.crowd[1].values() {
            let tuple = pair.ends[1].conn(app.conn.unwrap()).unwrap().tuple();
            let of = |a: &&App| {
                let id = a.conn.unwrap();
                pair.ends[0].conn(id).unwrap().tuple().local == tuple.remote
            };
            let peer = pair.crowd[0].values().find(of).unwrap();
            assert!(peer.read == app.to_write, "{spec}: to the client");
            assert!(app.read == peer.to_write, "{spec}: to the server");
            assert_eq!((peer.ended, app.ended), (Some(None), Some(None)), "{spec}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_another() {
    let run = |seed| {
        let mut pair = Pair::new(seed);
        pair.record = true;
        for app in &mut pair.apps {
            app.to_write = pattern(50_000, 1);
            app.close_after = true;
        }
        lose_randomly(&mut pair, 5, 3);
        let pair = complete(pair, "tcp-sack", 600);
        let segs = pair.seen.iter().map(|s| (s.at, s.from, s.seg.clone()));
        segs.collect::<Vec<_>>()
    };
    assert!(run(1) == run(1));
    assert!(run(1) != run(2));
}

#[test]
fn smaller_packets_and_windows_than_usual_work() {
    for spec in PROTOCOLS {
        for (mtu, set) in [
            (128, ""),
            (576, ",rcv_wnd=3000,snd_buf=2000"),
            (1500, ",mss=48"),
            (9000, ",rcv_wnd=1MiB"),
            (1500, ",rcv_wnd=1000"),
            (1500, ",rcv_wnd=1448,snd_buf=4096"),
        ] {
            let mut pair = pair_of(40_000);
            for (n, end) in pair.ends.iter_mut().enumerate() {
                *end = Endpoint::new(EndpointConfig {
                    node: n as u32,
                    mtu,
                    ..EndpointConfig::default()
                });
            }
            let full = format!("{spec}{set}");
            let pair = complete(pair, &full, 36_000);
            let longest = data(&pair, 0).map(|s| s.seg.len()).max().unwrap();
            assert!(longest + 52 <= mtu, "{full}: {longest}");
            let dropped = pair.ends[0].drops();
            assert!(dropped.is_empty(), "{full}: {dropped:?}");
        }
    }
}
