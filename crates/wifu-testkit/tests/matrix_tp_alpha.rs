//! TP-alpha over a pair in virtual time: what Behaviour 18 asks of the TCP family, and that its
//! mechanisms act. No handler stands between these ends, so that nothing is fed back: D_s stays
//! what it is at first, or what the fixed rate says.

mod tcp_common;

use tcp_common::*;
use wifu_engine::{Fault, Kind, Reason};
use wifu_testkit::pair::{App, Fate, Flying, Pair, SERVER, pattern};
use wifu_testkit::seg::Seg;
use wifu_wire::{Flags, Rng, Seq, Span, Time};

/// A packet each 2 ms, by the first interval and by a rate.
const SPECS: [&str; 2] = ["tp-alpha,ds_first=2ms", "tp-alpha,fixed_rate=6Mb/s"];

/// Octets of a full segment, where no shim takes of them.
const MSS: usize = 1_448;

/// The interval of [`SPECS`].
const GAP: Span = Span(2_000_000);

fn dropped(when: bool) -> Fate {
    match when {
        true => Fate::Drop,
        false => Fate::Deliver,
    }
}

/// Both ways, through what `spoil` does.
fn survives(spec: &str, octets: usize, spoil: impl FnMut(&Flying) -> Fate + 'static) -> Pair {
    let mut pair = pair_of(octets);
    pair.spoil = Box::new(spoil);
    complete(pair, spec, 1_000_000)
}

/// One way, without the segments that `which` picks.
fn without(spec: &str, octets: usize, which: impl FnMut(&Flying, &Seg) -> bool + 'static) -> Pair {
    let mut pair = one_way(octets);
    lose(&mut pair, which);
    complete(pair, spec, 1_000_000)
}

/// When one side's data left, whatever for.
fn turns(pair: &Pair, side: usize) -> Vec<Time> {
    data(pair, side).map(|s| s.at).collect()
}

/// Data leave one interval apart or more.
#[track_caller]
fn assert_paced(pair: &Pair, spec: &str) {
    for side in 0..2 {
        for pair in turns(pair, side).windows(2) {
            let gap = pair[1] - pair[0];
            assert!(gap >= GAP, "{spec}: {gap} at {:?}", pair[0]);
        }
    }
}

//= spec#9
// "No cwnd: send limit = rwnd only. Pacing: one data packet (new or retransmitted) per D_s"
#[test]
fn a_clean_wire_repeats_nothing_and_spaces_data_by_the_interval_from_the_first_on() {
    for spec in SPECS {
        let pair = survives(spec, 300_000, |_| Fate::Deliver);
        for side in 0..2 {
            let times = turns(&pair, side);
            assert_eq!(times.len(), 300_000_usize.div_ceil(MSS), "{spec}");
            // Ten packets are on their way at a time: no window grew to that.
            assert!(times.windows(2).all(|w| w[1] - w[0] == GAP), "{spec}");
            assert_eq!(losses(&pair, side), (0, 0), "{spec}");
            assert_eq!(pair.conn(side).board().win.cwnd, 0, "nobody keeps one");
        }
        // No node said a delay, and nothing was fed back.
        let told = ["d_us", "raised", "lowered", "samples"].map(|p| probe(&pair, 0, p));
        assert_eq!(told, [Some(0.0); 4], "{spec}");
    }
}

//= spec#9
// "send limit = rwnd only"
#[test]
fn only_the_peers_window_limits_what_is_in_flight() {
    for spec in SPECS {
        let mut pair = one_way(500_000);
        pair.delay = ms(300);
        let pair = complete(pair, spec, 1_000);
        let first = data(&pair, 0).next().expect("data").at;
        let before = data(&pair, 0).filter(|s| s.at < first + ms(600));
        let flight: usize = before.map(|s| s.seg.data.len()).sum();
        assert!(
            (65_535 - MSS..=65_535).contains(&flight),
            "{spec}: {flight}"
        );
        assert_eq!(pair.conn(0).board().tx.retransmits, 0, "{spec}");
    }
}

//= spec#9
// "Resend (RTO or 3 dup ACKs): clear pacing queue, nxt := una, go-back-N through the pacer; rate
// unchanged by loss."
#[test]
fn a_loss_goes_back_through_the_pacer_and_leaves_the_rate() {
    for spec in SPECS {
        let mut number = 0;
        let pair = without(spec, 300_000, move |f, s| {
            number += usize::from(f.from == 0 && !s.is_empty());
            f.from == 0 && !s.is_empty() && number == 50
        });
        assert_eq!(losses(&pair, 0), (1, 0), "{spec}");
        assert_paced(&pair, spec);
        let times = turns(&pair, 0);
        // No pause, and no slower: the third duplicate comes 20 ms and three packets later.
        assert!(times.windows(2).all(|w| w[1] - w[0] == GAP), "{spec}");
        let starts: Vec<Seq> = data(&pair, 0).map(|s| s.seg.seq).collect();
        let lost = starts[49];
        let back = starts
            .iter()
            .rposition(|s| *s == lost)
            .expect("it goes again");
        assert_eq!(back, 49 + 10 + 3, "{spec}");
        // All behind it follows, from where the acknowledgement of what was buffered finds it.
        assert_eq!(starts[back + 1], starts[50], "{spec}");
        let again = repeated(&pair, 0).len();
        assert_eq!(again, 10, "{spec}: until the acknowledgement is there");
    }
}

#[test]
fn what_a_timeout_sends_again_takes_its_turns() {
    for spec in SPECS {
        // The last 20 are lost: nothing tells but the timer.
        let mut seen = 0;
        let pair = without(spec, 100 * MSS, move |f, s| {
            seen += usize::from(f.from == 0 && !s.is_empty());
            f.from == 0 && !s.is_empty() && (81..=100).contains(&seen)
        });
        assert_eq!(losses(&pair, 0).1, 1, "{spec}");
        assert_paced(&pair, spec);
        let again: Vec<Time> = repeated(&pair, 0).iter().map(|s| s.at).collect();
        assert_eq!(again.len(), 20, "{spec}");
        assert!(again.windows(2).all(|w| w[1] - w[0] == GAP), "{spec}");
    }
}

//= spec#9
// "pure ACKs, SYN, FIN unpaced (FIN not before the last data byte left)"
#[test]
fn a_fin_leaves_with_the_last_data_or_at_once_behind_them() {
    for spec in SPECS {
        let pair = survives(spec, 20 * MSS, |_| Fate::Deliver);
        let last = data(&pair, 0).last().expect("data");
        assert!(last.seg.has(Flags::FIN), "{spec}: it rides along");
        // The application closes once everything left.
        let mut pair = one_way(20 * MSS);
        pair.apps[0].close_after = false;
        open(&mut pair, spec);
        let end = pair.now;
        pair.apps[0].to_write.extend(pattern(MSS, 3));
        run_for(&mut pair, Span::MICRO * 100);
        pair.apps[0].close_after = true;
        pair.run(secs(100));
        let fin = flagged(&pair, 0, Flags::FIN)[0];
        assert!(fin.seg.is_empty() && fin.at - end < GAP, "{spec}");
        assert!(turns(&pair, 0).iter().all(|t| *t <= fin.at), "{spec}");
    }
}

//= spec#18
#[test]
fn five_lost_syns_are_repeated_six_are_too_many_and_the_answer_is_given_again() {
    for spec in SPECS {
        for lost in 1..=5 {
            survives(spec, 20_000, move |f| {
                dropped(f.from == 0 && f.number < lost)
            });
        }
        let mut pair = pair_of(20_000);
        pair.spoil = Box::new(|f| dropped(f.from == 0));
        connect(&mut pair, spec, spec);
        pair.run(secs(400));
        assert_eq!(pair.apps[0].ended, Some(Some(Fault::TimedOut)), "{spec}");
        let pair = survives(spec, 20_000, |f| dropped(f.from == 1 && f.number == 0));
        assert!(flagged(&pair, 1, Flags::SYN).len() >= 2, "{spec}");
    }
}

#[test]
fn the_only_packet_may_be_lost() {
    for spec in SPECS {
        let mut seen = 0;
        let pair = without(spec, 1_000, move |f, s| {
            seen += usize::from(f.from == 0 && !s.is_empty());
            f.from == 0 && !s.is_empty() && seen == 1
        });
        let times = turns(&pair, 0);
        // The handshake was timed: the least timeout of the profile.
        assert_eq!(times[1] - times[0], Span::SECOND, "{spec}");
        assert_eq!(losses(&pair, 0), (0, 1), "{spec}");
    }
}

#[test]
fn losses_at_random_both_ways_are_survived() {
    for spec in SPECS {
        for (percent, octets, tries) in [
            (1, 300_000, ""),
            (5, 100_000, ""),
            (10, 60_000, ""),
            (20, 40_000, ",syn_tries=7"),
            (30, 20_000, ",syn_tries=11"),
            (50, 10_000, ",syn_tries=25,data_tries=30"),
        ] {
            for seed in 1..4 {
                let mut rng = Rng::new(seed * 100 + percent);
                let full = format!("{spec}{tries}");
                let pair = survives(&full, octets, move |_| dropped(rng.below(100) < percent));
                let again: u32 = (0..2).map(|s| pair.conn(s).board().tx.retransmits).sum();
                assert!(again > 0, "{full} at {percent} %");
                assert_paced(&pair, &full);
            }
        }
    }
}

#[test]
fn five_seconds_without_acknowledgements_back_the_timeout_off() {
    for spec in SPECS {
        let pair = survives(spec, 200_000, |f| {
            dropped(f.from == 1 && (0.1..5.1).contains(&f.at.as_secs_f64()))
        });
        let timeouts = pair.conn(0).board().tx.timeouts;
        assert!(
            (2..=3).contains(&timeouts),
            "{spec}: 1 s, 2 s, 4 s: {timeouts}"
        );
        assert_paced(&pair, spec);
    }
}

#[test]
fn acknowledgements_that_come_late_or_twice_do_no_harm() {
    for spec in SPECS {
        let mut rng = Rng::new(5);
        let mut pair = one_way(300_000);
        pair.spoil = Box::new(move |f| match (f.from, rng.below(4)) {
            (1, 0) => Fate::Twice,
            (1, 1) => Fate::Late(ms(30)),
            _ => Fate::Deliver,
        });
        let pair = complete(pair, spec, 1_000);
        assert_eq!(pair.conn(0).board().tx.timeouts, 0, "{spec}");
        assert_paced(&pair, spec);
    }
}

#[test]
fn a_lost_tail_of_up_to_ten_goes_again() {
    for spec in SPECS {
        for tail in 1..=10 {
            let mut seen = 0;
            let pair = without(spec, 40 * MSS, move |f, s| {
                seen += usize::from(f.from == 0 && !s.is_empty());
                f.from == 0 && !s.is_empty() && (41 - tail..=40).contains(&seen)
            });
            assert_eq!(losses(&pair, 0).1, 1, "{spec} {tail}");
            assert_eq!(repeated(&pair, 0).len(), tail, "{spec}");
        }
    }
}

#[test]
fn each_of_the_first_and_of_the_last_segments_may_be_lost() {
    for spec in SPECS {
        // The client closes first: its FIN, the server's, and the last acknowledgement.
        let octets = 20_000;
        let clean = complete(one_way(octets), spec, 1_000);
        for side in 0..2 {
            let count = clean.sent[side];
            for number in (1..4).chain(count - 4..count) {
                let mut pair = one_way(octets);
                pair.spoil = Box::new(move |f| dropped(f.from == side && f.number == number));
                let pair = complete(pair, spec, 1_000);
                let gone = pair.seen.iter().filter(|s| s.fate == Fate::Drop).count();
                assert_eq!(gone, 1, "{spec}: {side} {number}");
            }
        }
        // The FIN of either side, its repetition, and whatever acknowledges them for a while.
        for side in 0..2 {
            let mut lost = 0;
            let pair = without(spec, octets, move |f, s| {
                let which = f.from == side && s.has(Flags::FIN);
                lost += u32::from(which);
                which && lost <= 2
            });
            assert!(flagged(&pair, side, Flags::FIN).len() >= 3, "{spec}");
        }
    }
}

#[test]
fn a_reader_that_stops_for_thirty_seconds_is_probed_and_served() {
    for spec in SPECS {
        let mut pair = one_way(300_000);
        pair.apps[1].stalled = true;
        connect(&mut pair, spec, spec);
        run_for(&mut pair, Span::SECOND * 30);
        let peer = &pair.conn(0).board().peer;
        assert!(peer.persist && peer.window < MSS as u32, "{spec}");
        pair.apps[1].stalled = false;
        pair.run(secs(1_000));
        assert_delivered(&pair, spec);
        assert!(sent_because(&pair, 0, Reason::Probe).len() > 2, "{spec}");
        assert_eq!(losses(&pair, 0), (0, 0), "{spec}");
    }
}

#[test]
fn a_stall_with_375_octets_left_and_a_lost_update_is_probed_with_375() {
    for spec in SPECS {
        let mut pair = one_way(300_000);
        pair.apps[1].stalled = true;
        pair.apps[1].close_after = false;
        connect(&mut pair, spec, spec);
        run_for(&mut pair, ms(900));
        assert_eq!(pair.conn(0).board().peer.window, 375, "{spec}");
        let woken = pair.now;
        pair.spoil = Box::new(|f| dropped(f.from == 1));
        pair.apps[1].stalled = false;
        pair.apps[1].close_after = true;
        pair.pump(1);
        run_for(&mut pair, ms(50));
        let updates = pair.seen.iter().filter(|s| s.fate == Fate::Drop);
        assert!(updates.count() > 0, "{spec}");
        heal(&mut pair);
        pair.run(secs(600));
        assert_delivered(&pair, spec);
        let sizes: Vec<u32> = data(&pair, 0)
            .filter(|s| s.at > woken)
            .map(|s| s.seg.len())
            .take(2)
            .collect();
        assert_eq!(sizes, [375, 1448], "{spec}: the probe, then full segments");
        assert_eq!((losses(&pair, 0), repeated(&pair, 0).len()), ((0, 0), 0));
    }
}

#[test]
fn numbers_and_clocks_wrap() {
    for spec in SPECS {
        let full = format!("{spec},isn=fixed,iss={}", u32::MAX - 5000);
        let mut rng = Rng::new(3);
        survives(&full, 100_000, move |_| dropped(rng.below(50) == 0));
        let mut pair = pair_of(200_000);
        pair.now = Time((1 << 32) * 1_000 - 150_000_000);
        connect(&mut pair, spec, spec);
        let limit = pair.now + Span::SECOND * 100;
        pair.run(limit);
        assert_delivered(&pair, spec);
        assert_eq!(losses(&pair, 0), (0, 0), "{spec}");
        assert!(pair.now > Time((1 << 32) * 1_000), "{spec}");
    }
}

#[test]
fn a_longer_path_in_mid_flow_gives_a_new_round_trip_time_and_the_same_rate() {
    for spec in SPECS {
        let mut pair = one_way(2_000_000);
        pair.delay = ms(5);
        connect(&mut pair, spec, spec);
        run_for(&mut pair, ms(300));
        let before = pair.conn(0).board().rtt.srtt;
        pair.delay = ms(40);
        run_for(&mut pair, Span::SECOND);
        let after = pair.conn(0).board().rtt.srtt;
        assert!(
            before < ms(12) && after > ms(70),
            "{spec}: {before} {after}"
        );
        pair.run(secs(100));
        assert_delivered(&pair, spec);
        assert_eq!(losses(&pair, 0), (0, 0), "{spec}");
        assert!(turns(&pair, 0).windows(2).all(|w| w[1] - w[0] == GAP));
    }
}

#[test]
fn a_host_that_restarts_resets_what_it_has_forgotten() {
    for spec in SPECS {
        let mut pair = pair_of(2_000_000);
        open(&mut pair, spec);
        let [_, end] = Pair::new(8).ends;
        pair.ends[1] = end;
        pair.ends[1].serve(&wifu_parts::blueprint(spec).unwrap());
        pair.apps[1] = App::default();
        pair.run(secs(100_000));
        assert_eq!(pair.apps[0].ended, Some(Some(Fault::Reset)), "{spec}");
    }
}

#[test]
fn a_peer_that_kept_old_state_is_reset_and_the_next_syn_connects() {
    for spec in SPECS {
        let mut pair = pair_of(20_000);
        pair.apps[0].close_after = false;
        pair.apps[1].close_after = false;
        open(&mut pair, spec);
        let old = pair.conn(0).tuple();
        let [end, _] = Pair::new(8).ends;
        pair.ends[0] = end;
        pair.apps = Default::default();
        for (app, seed) in pair.apps.iter_mut().zip([5, 6]) {
            app.to_write = pattern(30_000, seed);
            app.close_after = true;
        }
        let (mark, now) = (pair.seen.len(), pair.now);
        let blueprint = wifu_parts::blueprint(spec).unwrap();
        let id = pair.ends[0].connect(now, &blueprint, old.local, old.remote);
        pair.apps[0].conn = Some(id.unwrap());
        pair.run(now + Span::SECOND * 600);
        assert_delivered(&pair, spec);
        let resets = pair.seen[mark..].iter().filter(|s| s.seg.has(Flags::RST));
        assert_eq!(resets.count(), 1, "{spec}");
    }
}

#[test]
fn what_two_others_overtake_is_not_sent_again_and_ten_do_no_harm() {
    for spec in SPECS {
        for (others, again) in [(2, 0), (10, 1)] {
            let pair = survives(spec, 100_000, move |f| {
                match f.number % 50 == 30 && f.from == 0 {
                    true => Fate::Behind(others),
                    false => Fate::Deliver,
                }
            });
            let least = pair.conn(0).board().tx.retransmits;
            assert_eq!(least.min(1), again, "{spec} {others}");
            assert_paced(&pair, spec);
        }
    }
}

#[test]
fn what_is_broken_on_the_way_counts_as_lost() {
    for spec in SPECS {
        let mut rng = Rng::new(11);
        let pair = survives(spec, 200_000, move |_| match rng.below(30) {
            0 => Fate::Corrupt,
            _ => Fate::Deliver,
        });
        assert!(pair.conn(0).board().tx.retransmits > 0, "{spec}");
    }
}

#[test]
fn thirty_two_connections_between_one_pair_of_hosts_all_deliver() {
    for spec in SPECS {
        let blueprint = wifu_parts::blueprint(spec).unwrap();
        let mut pair = Pair::new(3);
        let at = core::net::SocketAddrV4::new(SERVER, 80);
        pair.ends[1].listen(&blueprint, at, 64).unwrap();
        pair.usher = Some(Box::new(|| App {
            close_after: true,
            ..App::default()
        }));
        let mut wrote: Vec<Vec<u8>> = (0..32).map(|n| pattern(30_000 + n, n as u64)).collect();
        for payload in &wrote {
            let id = pair.dial(&blueprint);
            let app = App {
                to_write: payload.clone(),
                close_after: true,
                conn: Some(id),
                ..App::default()
            };
            pair.crowd[0].insert(id, app);
        }
        assert!(pair.run(secs(1_000)), "{spec}");
        let mut read: Vec<_> = pair.crowd[1].values().map(|a| a.read.clone()).collect();
        wrote.sort();
        read.sort();
        assert!(read == wrote, "{spec}");
        assert!(pair.crowd[0].values().all(|a| a.ended == Some(None)));
    }
}

#[test]
fn after_two_idle_minutes_data_are_paced_as_before() {
    for spec in SPECS {
        let mut pair = one_way(60_000);
        pair.apps[0].close_after = false;
        open(&mut pair, spec);
        run_for(&mut pair, Span::SECOND * 120);
        let from = pair.now;
        pair.apps[0].to_write.extend(pattern(60_000, 1));
        pair.apps[0].close_after = true;
        pair.run(secs(1_000));
        assert_delivered(&pair, spec);
        let later: Vec<Time> = turns(&pair, 0).into_iter().filter(|t| *t >= from).collect();
        assert!(later.len() > 40 && later[0] == from, "{spec}");
        assert!(later.windows(2).all(|w| w[1] - w[0] == GAP), "{spec}");
    }
}

/// A packet a second, and a timeout of one second: what waits in the pacer starts no timer.
//= spec#16.1
// "the RTO timer (started at Released, stopped when una == max even if bytes wait in the pacer"
#[test]
fn a_sender_slower_than_its_timeout_sees_none() {
    for spec in ["tp-alpha,ds_first=1s", "tp-alpha,fixed_rate=12kb/s"] {
        let pair = complete(one_way(20 * MSS), spec, 1_000);
        let times = turns(&pair, 0);
        assert!(times.windows(2).all(|w| w[1] - w[0] == Span::SECOND));
        assert_eq!(pair.conn(0).board().tx.rto, Span::SECOND, "{spec}");
        assert_eq!((losses(&pair, 0), times.len()), ((0, 0), 20), "{spec}");
    }
    // Nor does one whose application is slow.
    for spec in SPECS {
        let mut pair = one_way(0);
        pair.apps[0].close_after = false;
        open(&mut pair, spec);
        for i in 0..40 {
            pair.apps[0].to_write.extend(pattern(1_000, i));
            run_for(&mut pair, ms(500));
        }
        pair.apps[0].close_after = true;
        pair.run(secs(600));
        assert_delivered(&pair, spec);
        assert_eq!((losses(&pair, 0), turns(&pair, 0).len()), ((0, 0), 40));
        let kinds = pair.departures[0].iter().map(|d| d.1.kind);
        assert_eq!(kinds.filter(|k| *k == Kind::Resend).count(), 0, "{spec}");
    }
}
