//! Situations that TCP-AP must survive as its base does: every octet arrives and both ends close in
//! order. Times are those of a pacer, so no test counts on a window that leaves at once.

mod tcp_common;

use tcp_common::*;
use wifu_engine::{Fault, Kind};
use wifu_testkit::pair::{App, Fate, Flying, Pair, pattern};
use wifu_wire::{Rng, Span};

/// Both forms, and the first as WiFu had it. One hop of 20 ms is a segment in 8 to 40 ms.
const PACED: [&str; 3] = ["tcp-ap05", "tcp-ap05,profile=ap05-wifu", "tcp-ap11"];

/// Both ways, through what `spoil` does.
fn survives(spec: &str, octets: usize, spoil: impl FnMut(&Flying) -> Fate + 'static) -> Pair {
    let mut pair = pair_of(octets);
    pair.spoil = Box::new(spoil);
    complete(pair, spec, 1_000_000)
}

fn dropped(when: bool) -> Fate {
    if when { Fate::Drop } else { Fate::Deliver }
}

//= spec#18
#[test]
fn random_loss_both_ways_is_survived() {
    for spec in PACED {
        for (percent, octets) in [(1, 500_000), (5, 100_000), (10, 60_000), (20, 40_000)] {
            for seed in 1..4 {
                let mut rng = Rng::new(seed * 100 + percent);
                let full = format!("{spec},syn_tries=11");
                let pair = survives(&full, octets, move |_| dropped(rng.below(100) < percent));
                let again: u32 = (0..2).map(|s| pair.conn(s).board().tx.retransmits).sum();
                assert!(again > 0, "{spec}");
            }
        }
        for (percent, tries) in [
            (30, ",syn_tries=25,data_tries=30"),
            (50, ",syn_tries=25,data_tries=30"),
        ] {
            let mut rng = Rng::new(percent);
            let full = format!("{spec}{tries}");
            survives(&full, 20_000, move |_| dropped(rng.below(100) < percent));
        }
    }
}

#[test]
fn a_syn_lost_five_times_connects_and_lost_six_times_does_not() {
    for spec in PACED {
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
        // Its answer lost: the SYN is answered again.
        survives(spec, 20_000, |f| dropped(f.from == 1 && f.number == 0));
    }
}

#[test]
fn each_of_the_first_and_of_the_last_segments_may_be_lost() {
    let octets = 30_000;
    for spec in PACED {
        let clean = survives(spec, octets, |_| Fate::Deliver);
        let count = clean.sent[0];
        for number in (1..6).chain(count - 10..count) {
            for side in 0..2 {
                survives(spec, octets, move |f| {
                    dropped(f.from == side && f.number == number)
                });
            }
        }
        // The last n of data at once.
        for tail in 1..=10 {
            let mut first = None;
            survives(spec, octets, move |f| {
                let seg = f.seg();
                let start = *first.get_or_insert(seg.seq);
                let at = seg.seq.since(start) as usize;
                let new = at >= octets.saturating_sub(tail * 1460) && f.from == 0;
                dropped(new && !seg.is_empty() && f.number < count)
            });
        }
    }
}

#[test]
fn five_seconds_without_acknowledgements_are_waited_out() {
    for spec in PACED {
        let pair = survives(spec, 200_000, |f| {
            dropped(f.from == 1 && (0.4..5.4).contains(&f.at.as_secs_f64()))
        });
        assert!(pair.conn(0).board().tx.timeouts > 0, "{spec}");
    }
}

#[test]
fn what_comes_late_twice_or_spoilt_does_no_harm() {
    for spec in PACED {
        let mut rng = Rng::new(5);
        survives(spec, 150_000, move |_| match rng.below(10) {
            0 => Fate::Twice,
            1 => Fate::Behind(rng.below(10) as u32 + 1),
            2 => Fate::Corrupt,
            3 => Fate::Late(Span::MILLI * rng.below(80)),
            _ => Fate::Deliver,
        });
    }
}

#[test]
fn what_two_others_overtake_is_not_sent_again() {
    for spec in PACED {
        let pair = survives(spec, 100_000, |f| {
            match f.number % 20 == 10 && f.from == 0 {
                true => Fate::Behind(2),
                false => Fate::Deliver,
            }
        });
        assert_eq!(pair.conn(0).board().tx.retransmits, 0, "{spec}");
    }
}

#[test]
fn numbers_wrap() {
    for spec in PACED {
        let full = format!("{spec},isn=fixed,iss={}", u32::MAX - 5000);
        let mut rng = Rng::new(3);
        survives(&full, 100_000, move |_| dropped(rng.below(50) == 0));
    }
}

#[test]
fn a_reader_that_stops_for_thirty_seconds_is_probed_and_served() {
    for spec in PACED {
        let mut pair = pair_of(300_000);
        pair.apps[1].to_write.clear();
        pair.apps[1].stalled = true;
        connect(&mut pair, spec, spec);
        run_for(&mut pair, Span::SECOND * 30);
        let shut = pair.conn(0).board().peer.window;
        assert!(shut < 1460, "{spec}: {shut}");
        pair.apps[1].stalled = false;
        pair.run(secs(1_000_000));
        assert_delivered(&pair, spec);
        let probes = pair.departures[0].iter();
        let probes = probes.filter(|d| d.1.kind == Kind::Probe).count();
        assert!(probes > 2, "{spec}: {probes}");
    }
}

#[test]
fn after_two_idle_minutes_data_are_paced_as_before() {
    for spec in PACED {
        let mut pair = pair_of(60_000);
        pair.apps[0].close_after = false;
        open(&mut pair, spec);
        run_for(&mut pair, Span::SECOND * 120);
        let from = pair.now;
        pair.apps[0].to_write.extend(pattern(60_000, 1));
        pair.apps[0].close_after = true;
        pair.run(secs(1_000_000));
        assert_delivered(&pair, spec);
        let later = pair.departures[0].iter();
        let later = later.filter(|d| d.0 >= from && d.1.kind == Kind::New);
        let times: Vec<_> = later.map(|d| d.0).collect();
        let gaps = times.windows(2).map(|w| w[1] - w[0]);
        let least = gaps.min().unwrap();
        assert!(
            times.len() > 30 && least > Span::MILLI * 5,
            "{spec}: {least:?}"
        );
    }
}

#[test]
fn a_host_that_restarts_resets_what_it_has_forgotten() {
    for spec in PACED {
        let mut pair = pair_of(500_000);
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
fn thirty_two_at_once_are_all_served() {
    for spec in PACED {
        let blueprint = wifu_parts::blueprint(spec).unwrap();
        let mut pair = Pair::new(3);
        pair.usher = Some(Box::new(|| App {
            close_after: true,
            ..App::default()
        }));
        pair.connect(&blueprint);
        pair.apps[0].close_after = true;
        for seed in 0..32 {
            let id = pair.dial(&blueprint);
            let app = App {
                to_write: pattern(40_000, seed),
                close_after: true,
                ..App::default()
            };
            pair.crowd[0].insert(id, app);
        }
        pair.run(secs(100_000));
        let mut wrote: Vec<_> = pair.crowd[0].values().map(|a| a.to_write.clone()).collect();
        let read = pair.crowd[1].values().map(|a| a.read.clone());
        let mut read: Vec<_> = read.filter(|r| !r.is_empty()).collect();
        wrote.sort();
        read.sort();
        assert_eq!(read.len(), 32, "{spec}");
        assert!(read == wrote, "{spec}");
        assert!(
            pair.crowd[0].values().all(|a| a.ended == Some(None)),
            "{spec}"
        );
    }
}
