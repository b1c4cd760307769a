//! The TCP family while it loses segments: at random, acknowledgements only, the tail, corruption.

mod tcp_common;

use std::cell::Cell;
use std::rc::Rc;
use tcp_common::*;
use wifu_engine::{Fault, Reason};
use wifu_testkit::pair::Fate;
use wifu_wire::{Flags, Rng, Seq, Span};

/// The tries that Behaviour 18 allows at a loss rate.
fn tries(percent: u64) -> &'static str {
    match percent {
        0..=19 => "",
        20..=29 => ",syn_tries=7",
        30..=49 => ",syn_tries=11",
        _ => ",syn_tries=25,data_tries=30",
    }
}

fn random_loss(percent: u64, octets: usize) {
    for spec in PROTOCOLS {
        for seed in 0..4 {
            let full = format!("{spec}{}", tries(percent));
            let mut pair = pair_of(octets);
            lose_randomly(&mut pair, percent, seed * 100 + percent);
            let pair = complete(pair, &full, 1_000_000);
            let lost = pair.seen.iter().filter(|s| s.fate == Fate::Drop).count();
            let again: u32 = (0..2).map(|s| pair.conn(s).board().tx.retransmits).sum();
            assert!(lost > 0 && again > 0, "{spec}: {lost} lost, {again} again");
        }
    }
}

#[test]
fn one_percent_lost_both_ways_is_delivered() {
    random_loss(1, 500_000);
}

#[test]
fn five_percent_lost_both_ways_is_delivered() {
    random_loss(5, 200_000);
}

#[test]
fn ten_percent_lost_both_ways_is_delivered() {
    random_loss(10, 100_000);
}

#[test]
fn twenty_percent_lost_both_ways_is_delivered() {
    random_loss(20, 60_000);
}

#[test]
fn thirty_percent_lost_both_ways_is_delivered() {
    random_loss(30, 40_000);
}

#[test]
fn half_of_everything_lost_both_ways_is_delivered() {
    random_loss(50, 20_000);
}

#[test]
fn one_loss_in_a_window_is_recovered_without_a_timeout() {
    for spec in PROTOCOLS {
        let mut pair = one_way(200_000);
        let mut count = 0;
        lose(&mut pair, move |f, seg| {
            count += u32::from(f.from == 0 && !seg.is_empty());
            count == 20 && f.from == 0 && !seg.is_empty()
        });
        let pair = complete(pair, spec, 600);
        assert_eq!(losses(&pair, 0), (1, 0), "{spec}");
        let dup_acks = duplicates(&pair, 1).len();
        assert!(dup_acks >= 3, "{spec}: {dup_acks} duplicate ACKs");
        let again = repeated(&pair, 0);
        let lost = pair.seen.iter().find(|s| s.fate == Fate::Drop).unwrap();
        assert_eq!(again[0].seg.seq, lost.seg.seq, "{spec}");
        assert!(again[0].at - lost.at < ms(50), "{spec}");
        if !spec.starts_with("tcp-tahoe") {
            assert_eq!(again.len(), 1, "{spec}: only what was lost goes again");
        }
    }
}

#[test]
fn several_losses_in_a_window_need_a_timeout_only_where_the_variant_does() {
    // RFC 6582 and RFC 6675 recover several losses of one window; Tahoe goes back N.
    for spec in ["tcp-tahoe", "tcp-newreno", "tcp-sack", "tcp-cubic"] {
        let mut pair = one_way(300_000);
        let mut count = 0;
        lose(&mut pair, move |f, seg| {
            count += u32::from(f.from == 0 && !seg.is_empty());
            [25, 27, 29, 30].contains(&count) && f.from == 0 && !seg.is_empty()
        });
        let pair = complete(pair, spec, 600);
        assert_eq!(losses(&pair, 0).1, 0, "{spec}: timeouts");
        if !spec.starts_with("tcp-tahoe") {
            assert_eq!(losses(&pair, 0).0, 1, "{spec}: episodes");
            assert_eq!(repeated(&pair, 0).len(), 4, "{spec}: segments again");
        }
    }
}

#[test]
fn all_acknowledgements_lost_for_five_seconds_back_the_timeout_off_and_recover() {
    for spec in PROTOCOLS {
        let mut pair = one_way(500_000);
        let (from, to) = (START + ms(75), START + ms(5_075));
        lose(&mut pair, move |f, _| {
            f.from == 1 && f.at >= from && f.at < to
        });
        let pair = complete(pair, spec, 600);
        let times = sent_because(&pair, 0, Reason::Timeout);
        let in_blackout: Vec<_> = times.iter().filter(|t| **t < to).collect();
        assert_eq!(in_blackout.len(), 2, "{spec}: {times:?}");
        let gaps = [
            *in_blackout[1] - *in_blackout[0],
            times[2] - *in_blackout[1],
        ];
        assert_eq!(gaps.map(Span::micros), [2_000_000, 4_000_000], "{spec}");
        // The whole stream was delivered, so progress ended the back-off.
        assert_eq!(pair.conn(0).board().tx.backoff, 0, "{spec}");
    }
}

#[test]
fn silence_for_ever_ends_in_a_timeout_after_twelve_tries() {
    for spec in PROTOCOLS {
        let mut pair = one_way(500_000);
        let from = START + ms(75);
        lose(&mut pair, move |f, _| f.at >= from);
        connect(&mut pair, spec, spec);
        pair.run(secs(2_000));
        assert_eq!(fault(&pair, 0), Some(Some(Fault::TimedOut)), "{spec}");
        let tx = &pair.conn(0).board().tx;
        assert_eq!((tx.timeouts, tx.backoff), (13, 13), "{spec}");
        let rescues = sent_because(&pair, 0, Reason::Timeout).len();
        assert_eq!(rescues, 12, "{spec}: data goes again twelve times");
    }
}

#[test]
fn reordered_and_duplicated_acknowledgements_are_harmless() {
    for spec in PROTOCOLS {
        for seed in 0..10 {
            let mut pair = one_way(400_000);
            let mut rng = Rng::new(seed);
            pair.spoil = Box::new(move |f| match (f.from, rng.below(4)) {
                (1, 0) => Fate::Twice,
                (1, 1) => Fate::Late(Span(rng.below(15_000_000))),
                _ => Fate::Deliver,
            });
            let pair = complete(pair, spec, 600);
            assert_eq!(repeated(&pair, 0).len(), 0, "{spec}, seed {seed}");
            assert_eq!(losses(&pair, 0), (0, 0), "{spec}, seed {seed}");
        }
    }
}

#[test]
fn a_lost_tail_of_one_to_ten_packets_comes_again_after_one_timeout() {
    for spec in PROTOCOLS {
        for tail in 1..=10 {
            let octets = 1448 * 40;
            let mut pair = one_way(octets);
            let first = Rc::new(Cell::new(None));
            let mut highest: Option<Seq> = None;
            lose(&mut pair, move |f, seg| {
                if f.from == 1 || seg.is_empty() {
                    return false;
                }
                if first.get().is_none() {
                    first.set(Some(seg.seq));
                }
                let fresh = highest.is_none_or(|h| seg.end().after(h));
                highest = Some(highest.map_or(seg.end(), |h| h.later(seg.end())));
                let index = seg.seq.since(first.get().unwrap()) / 1448;
                fresh && index >= 40 - tail
            });
            let pair = complete(pair, spec, 600);
            assert_eq!(losses(&pair, 0), (0, 1), "{spec}, last {tail} lost");
            let again = repeated(&pair, 0);
            let data: u32 = again.iter().map(|s| s.seg.len()).sum();
            assert!(data >= 1448 * tail, "{spec}, last {tail} lost");
            let lost = pair.seen.iter().find(|s| s.fate == Fate::Drop).unwrap();
            assert!(again[0].at - lost.at >= ms(900), "{spec}, {tail}");
            // The last acknowledgement, from which the timer runs anew, may be delayed by 200 ms.
            assert!(again[0].at - lost.at <= ms(1_300), "{spec}, {tail}");
        }
    }
}

#[test]
fn corrupted_packets_fail_the_checksum_and_come_again() {
    for spec in PROTOCOLS {
        let mut pair = pair_of(200_000);
        let mut rng = Rng::new(11);
        pair.spoil = Box::new(move |_| match rng.below(20) {
            0 => Fate::Corrupt,
            _ => Fate::Deliver,
        });
        let pair = complete(pair, spec, 3600);
        let hit = |s: &&wifu_testkit::pair::Seen| s.fate == Fate::Corrupt;
        let corrupted = pair.seen.iter().filter(hit).count() as u64;
        let checksum = |side: usize| pair.ends[side].drops().get("checksum").copied();
        let dropped: u64 = [0, 1].into_iter().filter_map(checksum).sum();
        assert!(corrupted > 10, "{spec}");
        assert_eq!(dropped, corrupted, "{spec}");
    }
}

#[test]
fn everything_at_once_is_survived() {
    for spec in PROTOCOLS {
        for seed in 0..8 {
            let mut pair = pair_of(100_000);
            let mut rng = Rng::new(seed);
            pair.spoil = Box::new(move |_| match rng.below(25) {
                0 => Fate::Twice,
                1 => Fate::Corrupt,
                2 => Fate::Late(Span(rng.below(60_000_000))),
                3 => Fate::Drop,
                4 => Fate::Behind(1 + rng.below(10) as u32),
                _ => Fate::Deliver,
            });
            complete(pair, &format!("{spec},syn_tries=12"), 100_000);
        }
    }
}

#[test]
fn a_lost_retransmission_is_sent_once_more() {
    for spec in PROTOCOLS {
        let mut pair = one_way(300_000);
        let mut count = 0;
        let mut target: Option<Seq> = None;
        let mut hits = 0;
        lose(&mut pair, move |f, seg| {
            if f.from == 1 || seg.is_empty() {
                return false;
            }
            count += 1;
            if count == 20 {
                target = Some(seg.seq);
            }
            let hit = target == Some(seg.seq) && hits < 2;
            hits += usize::from(hit);
            hit
        });
        let pair = complete(pair, spec, 600);
        let (fast, timeouts) = losses(&pair, 0);
        assert_eq!((fast, timeouts), (1, 1), "{spec}");
    }
}

#[test]
fn full_windows_both_ways_with_a_hole_each_don_t_answer_each_other_for_ever() {
    // Each side's bare ACKs then carry the number at the right edge of the other's window. Were
    // they refused, each refusal would be answered by such an ACK: a storm until a timer ends it.
    for spec in PROTOCOLS {
        let mut pair = pair_of(400_000);
        let mut seen = [0; 2];
        lose(&mut pair, move |f, seg| {
            let data = !seg.is_empty();
            seen[f.from] += u32::from(data);
            data && seen[f.from] == 30
        });
        let spec = format!("{spec},iw=64,rcv_wnd=43440,snd_buf=200000");
        let pair = complete(pair, &spec, 600);
        let bare = pair.seen.iter().filter(|s| s.seg.is_bare_ack()).count();
        let data = pair.seen.iter().filter(|s| !s.seg.is_empty()).count();
        assert!(bare < 2 * data, "{spec}: {bare} ACKs for {data} data");
    }
}

#[test]
fn a_lost_fin_comes_again_and_the_end_is_orderly() {
    for spec in PROTOCOLS {
        for lost in 1..=3 {
            let mut pair = one_way(3_000);
            let mut count = 0;
            lose(&mut pair, move |f, seg| {
                let fin = f.from == 0 && seg.has(Flags::FIN);
                count += usize::from(fin);
                fin && count <= lost
            });
            let pair = complete(pair, spec, 600);
            let fins = flagged(&pair, 0, Flags::FIN);
            assert_eq!(fins.len(), lost + 1, "{spec}");
        }
    }
}
