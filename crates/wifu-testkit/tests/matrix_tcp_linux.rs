//! `tcp-linux` and `tcp-linux-reno`: what a Linux kernel does, as far as the wire shows it.

mod tcp_common;

use tcp_common::*;
use wifu_testkit::pair::{Fate, Pair, pattern};
use wifu_wire::{Flags, Seq, Span, SynOptions};

const MODELS: [&str; 2] = ["tcp-linux", "tcp-linux-reno"];

/// A transfer one way over a round trip of 40 ms.
fn transfer(octets: usize) -> Pair {
    let mut pair = one_way(octets);
    pair.delay = ms(20);
    pair
}

#[test]
fn ten_segments_leave_at_first() {
    for spec in MODELS {
        let pair = complete(transfer(100_000), spec, 600);
        let first = data(&pair, 0).next().unwrap().at;
        let burst = data(&pair, 0).filter(|s| s.at == first).count();
        assert_eq!(burst, 10, "{spec}");
    }
}

/// The kernel adds four times the variation, but at least 200 ms, to the round-trip time, where RFC
/// 6298 bounds the sum: a timer of 200 ms on a path of 190 ms would fire for any delay.
#[test]
fn the_timeout_is_the_round_trip_and_at_least_200_ms() {
    for (delay, spec) in [1, 20, 150]
        .into_iter()
        .flat_map(|d| MODELS.map(|m| (d, m)))
    {
        let mut pair = one_way(2_000_000);
        pair.delay = ms(delay);
        connect(&mut pair, spec, spec);
        run_for(&mut pair, Span::SECOND * 2);
        let rtt = &pair.conn(0).board().rtt;
        assert!(rtt.samples > 10, "{spec}");
        let floor = rtt.srtt + ms(200);
        assert!(
            rtt.rto >= floor,
            "{spec}: {:?} after {:?}",
            rtt.rto,
            rtt.srtt
        );
        assert!(rtt.rto < floor + ms(2 * delay), "{spec}: {:?}", rtt.rto);
    }
}

/// One by one while the peer's window is small, then every second segment.
#[test]
fn the_first_sixteen_segments_are_acknowledged_one_by_one() {
    // What comes in one batch is not joined here, as a slow link's does not.
    for spec in MODELS.map(|m| format!("{m},stretch=1")) {
        let pair = complete(transfer(400_000), &spec, 600);
        let acks: Vec<_> = sent(&pair, 1).filter(|s| s.seg.is_bare_ack()).collect();
        let steps: Vec<u32> = acks
            .windows(2)
            .filter_map(|w| Some(w[1].seg.ack?.since(w[0].seg.ack?)))
            .filter(|n| *n > 0)
            .collect();
        assert!(steps[..14].iter().all(|n| *n == 1448), "{spec}: {steps:?}");
        let pairs = steps[20..].iter().filter(|n| **n == 2 * 1448).count();
        assert!(pairs * 10 > (steps.len() - 20) * 8, "{spec}: {steps:?}");
    }
}

/// A lost tail is probed for (RACK-TLP), which the timer alone would wait 200 ms longer for.
#[test]
fn a_lost_tail_needs_no_timeout() {
    for spec in MODELS {
        let mut pair = transfer(100_000);
        pair.apps[0].close_after = false;
        let mut losses = 0;
        lose(&mut pair, move |f, seg| {
            let last = f.from == 0 && seg.has(Flags::PSH) && losses == 0;
            losses += u32::from(last);
            last
        });
        connect(&mut pair, spec, spec);
        run_for(&mut pair, Span::SECOND * 5);
        assert_eq!(pair.apps[1].read.len(), 100_000, "{spec}");
        let tx = &pair.conn(0).board().tx;
        assert_eq!((tx.timeouts, tx.retransmits), (0, 1), "{spec}");
    }
}

/// Timestamps count milliseconds, as kernels' do.
#[test]
fn timestamps_are_in_milliseconds() {
    for spec in MODELS {
        let pair = complete(transfer(100_000), spec, 600);
        let stamps: Vec<_> = data(&pair, 0)
            .filter_map(|s| Some((s.at, s.seg.ts?.0)))
            .collect();
        let ((from, first), (to, last)) = (stamps[0], *stamps.last().unwrap());
        let passed = (to - from).0 / 1_000_000;
        assert!(passed >= 80, "{spec}: {passed} ms");
        assert!(
            u64::from(last.wrapping_sub(first)).abs_diff(passed) <= 1,
            "{spec}"
        );
    }
}

/// Without reports: the kernel of Table I of the WiFu paper.
const PLAIN: &str = "tcp-linux-reno,sack=off,dsack=off,frto=off,rcv_wnd=65535";

/// Lose the first `times` transmissions of the segment that begins at octet `n`.
fn lose_first(pair: &mut Pair, n: u32, times: u32) {
    let (mut first, mut count) = (None::<Seq>, 0);
    lose(pair, move |f, seg| {
        if f.from != 0 || seg.is_empty() {
            return false;
        }
        let hit = seg.seq.since(*first.get_or_insert(seg.seq)) == n;
        count += u32::from(hit);
        hit && count <= times
    });
}

/// Nothing gets through for half a second, and then all of it does; what the sender made of it:
/// reductions taken back, segments sent again, and the threshold.
fn held_up(spec: &str) -> (f64, u32, u32) {
    let mut pair = transfer(3_000_000);
    let (from, to) = (START + ms(120), START + ms(620));
    pair.spoil = Box::new(move |f| match f.at >= from && f.at < to {
        true => Fate::Late(to - f.at),
        false => Fate::Deliver,
    });
    let pair = complete(pair, spec, 600);
    let tx = &pair.conn(0).board().tx;
    assert!(tx.timeouts > 0, "{spec}");
    let undone = probe(&pair, 0, "undone").unwrap();
    (undone, tx.retransmits, pair.conn(0).board().win.ssthresh)
}

//= rfc5682#section-3.1
#[test]
fn a_timeout_that_nothing_was_lost_by_is_taken_back() {
    for model in MODELS {
        for on in ["undo=off", "frto=off", "dsack=off"] {
            let (undone, again, ssthresh) = held_up(&format!("{model},hystart=off,{on}"));
            assert!(undone >= 1.0, "{model},{on}");
            assert!(again <= 3, "{model},{on}: {again}");
            assert_eq!(ssthresh, u32::MAX, "{model},{on}");
        }
        let (undone, _, ssthresh) = held_up(&format!("{model},hystart=off,frto=off,undo=off"));
        assert_eq!(undone, 0.0, "{model}");
        assert!(ssthresh < 1_000_000, "{model}: {ssthresh}");
    }
}

/// A tail loss probe's copy is late, and so the timer fires: its echo is older than what the timer
/// sent, though not than the probe (Linux, tcp_send_loss_probe leaves retrans_stamp alone).
#[test]
fn a_timeout_after_a_probe_that_was_only_late_is_taken_back() {
    for model in MODELS {
        let spec = format!("{model},frto=off,dsack=off");
        let mut pair = transfer(100_000);
        pair.apps[0].close_after = false;
        let mut copies = 0;
        pair.spoil = Box::new(move |f| {
            let last = f.from == 0 && f.seg().has(Flags::PSH);
            copies += u32::from(last);
            match (last, copies) {
                (true, 1) => Fate::Drop,
                (true, _) => Fate::Late(ms(500)),
                (false, _) => Fate::Deliver,
            }
        });
        connect(&mut pair, &spec, &spec);
        run_for(&mut pair, Span::SECOND * 5);
        assert_eq!(pair.apps[1].read.len(), 100_000, "{spec}");
        let tx = &pair.conn(0).board().tx;
        assert!(tx.timeouts > 0, "{spec}");
        assert_eq!(probe(&pair, 0, "undone"), Some(1.0), "{spec}");
    }
}

/// A timeout for a loss stays one: new data went first, then what was lost.
#[test]
fn a_timeout_for_a_loss_is_not_taken_back() {
    for model in MODELS {
        let mut pair = transfer(1_000_000);
        let (from, to) = (START + ms(120), START + ms(270));
        lose(&mut pair, move |f, seg| {
            f.from == 0 && !seg.is_empty() && f.at >= from && f.at < to
        });
        let pair = complete(pair, model, 600);
        let board = pair.conn(0).board();
        assert!(board.tx.timeouts > 0, "{model}");
        assert_eq!(probe(&pair, 0, "undone"), Some(0.0), "{model}");
        assert!(board.win.ssthresh < 1_000_000, "{model}");
    }
}

/// What overtakes others is not lost: their timestamps say that the first copy came.
#[test]
fn a_reduction_for_what_was_only_late_is_taken_back() {
    for model in MODELS {
        let ssthresh = |more: &str| {
            let mut pair = transfer(1_000_000);
            let mut n = 0;
            pair.spoil = Box::new(move |f| {
                n += u32::from(f.from == 0);
                if n == 120 && f.from == 0 {
                    return Fate::Late(ms(8));
                }
                Fate::Deliver
            });
            let spec = format!("{model},hystart=off,rack=off,{more}");
            let pair = complete(pair, &spec, 600);
            assert_eq!(pair.conn(0).board().tx.timeouts, 0, "{spec}");
            let undone = probe(&pair, 0, "undone").unwrap();
            (undone, pair.conn(0).board().win.ssthresh)
        };
        let (undone, high) = ssthresh("undo=on");
        assert!(
            undone >= 1.0 && high == u32::MAX,
            "{model}: {undone} {high}"
        );
        let (undone, low) = ssthresh("undo=off");
        assert!(undone == 0.0 && low < u32::MAX, "{model}: {undone} {low}");
    }
}

/// Two of the first fourteen are late. The first comes after twelve duplicates, which say nothing
/// of the second: two beyond that are no sign of a loss.
#[test]
fn duplicates_of_a_reduction_that_was_taken_back_begin_no_other() {
    let linux = MODELS.map(|m| format!("{m},rack=off,iw=14"));
    let sack = "tcp-sack,dsack=on,undo=on,iw=14,mss=1448".to_string();
    for spec in linux.into_iter().chain([sack]) {
        let mut pair = transfer(200_000);
        let mut n = 0;
        pair.spoil = Box::new(move |f| {
            if f.from == 1 || f.seg().is_empty() {
                return Fate::Deliver;
            }
            n += 1;
            match n - 1 {
                0 => Fate::Behind(13),
                11 => Fate::Late(ms(2)),
                _ => Fate::Deliver,
            }
        });
        let pair = complete(pair, &spec, 600);
        assert_eq!(probe(&pair, 0, "undone"), Some(1.0), "{spec}");
        assert_eq!(losses(&pair, 0), (1, 0), "{spec}");
        assert_eq!(pair.conn(0).board().tx.retransmits, 1, "{spec}");
    }
}

/// One loss without reports: the third duplicate tells of it, each lets one leave.
#[test]
fn duplicates_stand_for_reports() {
    let mut pair = transfer(400_000);
    lose_first(&mut pair, 60 * 1448, 1);
    let pair = complete(pair, PLAIN, 600);
    let tx = &pair.conn(0).board().tx;
    assert_eq!((tx.timeouts, tx.retransmits), (0, 1));
    assert_eq!(probe(&pair, 0, "threshold"), Some(3.0));
}

/// What came twice is reported if that is asked for, whatever the timestamps echo.
//= rfc2883#section-4
#[test]
fn what_came_twice_is_not_reported_where_that_is_off() {
    for model in MODELS {
        for (more, reported) in [("", true), (",dsack=off", false)] {
            let mut pair = transfer(400_000);
            let mut n = 0;
            pair.spoil = Box::new(move |f| {
                n += u32::from(f.from == 0);
                match n == 120 && f.from == 0 {
                    true => Fate::Twice,
                    false => Fate::Deliver,
                }
            });
            let spec = format!("{model}{more}");
            let pair = complete(pair, &spec, 600);
            let dsacks = probe(&pair, 0, "dsacks").unwrap();
            assert_eq!(dsacks > 0.0, reported, "{spec}: {dsacks}");
        }
    }
}

/// What goes again was taken for lost once (`tx.lost`), whatever told of it.
#[test]
fn each_loss_is_counted_once() {
    for spec in [
        "tcp-newreno",
        "tcp-sack",
        "tcp-sack,rack=on",
        "tcp-linux",
        PLAIN,
    ] {
        let mut pair = transfer(400_000);
        let (mut first, mut gone) = (None::<Seq>, Vec::new());
        lose(&mut pair, move |f, seg| {
            if f.from != 0 || seg.is_empty() {
                return false;
            }
            let n = seg.seq.since(*first.get_or_insert(seg.seq)) / 1448;
            let hit = [60, 64, 65].contains(&n) && !gone.contains(&n);
            gone.extend(hit.then_some(n));
            hit
        });
        let pair = complete(pair, spec, 600);
        let tx = &pair.conn(0).board().tx;
        assert_eq!(tx.timeouts, 0, "{spec}");
        assert_eq!(tx.lost, 1448 * u64::from(tx.retransmits), "{spec}");
    }
}

/// The retransmission is lost, too, and nothing tells of it: the window fell once already, and the
/// timer began anew with what was repeated.
#[test]
fn a_timeout_that_ends_a_recovery_leaves_the_threshold_and_counts_from_the_retransmission() {
    let run = |more: &str| {
        let mut pair = transfer(400_000);
        let (mut first, mut count) = (None::<Seq>, 0);
        pair.spoil = Box::new(move |f| {
            let seg = f.seg();
            if f.from != 0 || seg.is_empty() {
                return Fate::Deliver;
            }
            let n = seg.seq.since(*first.get_or_insert(seg.seq)) / 1448;
            count += u32::from(n == 60);
            match n {
                60 if count <= 2 => Fate::Drop,
                61.. => Fate::Late(ms(30)), // so do the duplicates
                _ => Fate::Deliver,
            }
        });
        let spec = format!("{PLAIN}{more}");
        connect(&mut pair, &spec, &spec);
        let (mut before, mut after) = (0, 0);
        for _ in 0..2000 {
            run_for(&mut pair, ms(1));
            let board = pair.conn(0).board();
            if board.tx.timeouts > 0 && after == 0 {
                after = board.win.ssthresh;
            } else if board.tx.recovering && after == 0 {
                before = board.win.ssthresh;
            }
        }
        let again = repeated(&pair, 0);
        (before, after, again[1].at - again[0].at)
    };
    let (before, after, wait) = run("");
    assert_eq!(before, after);
    let (lower, lowest, shorter) = run(",episodes=rfc,rearm=off");
    assert!(lower > lowest, "{lower} {lowest}");
    assert!(shorter + ms(20) <= wait, "{shorter} {wait}");
}

/// The acknowledgement is lost and the segment goes again: the answer times the retransmission, not
/// the wait for it.
#[test]
fn the_answer_to_a_needless_retransmission_times_that() {
    for model in ["tcp-linux", "tcp-linux-reno", PLAIN] {
        let longest = |more: &str| {
            let mut pair = transfer(1448);
            for app in &mut pair.apps {
                app.close_after = false;
            }
            let mut lost = 0;
            lose(&mut pair, move |f, seg| {
                let hit = f.from == 1 && seg.is_empty() && f.at > START + ms(30) && lost < 2;
                lost += u32::from(hit);
                hit
            });
            let spec = format!("{model}{more}");
            connect(&mut pair, &spec, &spec);
            run_for(&mut pair, Span::SECOND * 3);
            let board = pair.conn(0).board();
            assert_eq!(board.tx.una, board.tx.max, "{spec}");
            assert!(board.tx.retransmits > 0, "{spec}");
            board.rtt.last
        };
        assert!(longest("") < ms(100), "{model}: {}", longest(""));
        assert!(longest(",ts_echo=rfc7323") > ms(200), "{model}");
    }
}

/// Acknowledgements are lost for a while: the next one is of segments that left long ago, whatever
/// it echoes.
#[test]
fn a_lost_acknowledgement_makes_the_round_trip_longer() {
    let longest = |spec: &str| {
        let mut pair = transfer(1_000_000);
        let (from, to) = (START + ms(130), START + ms(230));
        lose(&mut pair, move |f, seg| {
            f.from == 1 && seg.is_empty() && f.at >= from && f.at < to
        });
        connect(&mut pair, spec, spec);
        let mut longest = Span::ZERO;
        for _ in 0..400 {
            run_for(&mut pair, ms(1));
            longest = longest.max(pair.conn(0).board().rtt.srtt);
        }
        assert_eq!(pair.conn(0).board().tx.timeouts, 0, "{spec}");
        longest
    };
    for model in MODELS {
        let (by_echo, by_time) = (longest(&format!("{model},trips=echo")), longest(model));
        assert!(by_time > by_echo + ms(5), "{model}: {by_echo} {by_time}");
    }
}

/// The retransmission timer fires at ticks of 4 ms.
#[test]
fn timers_fire_at_ticks() {
    let times = |spec: &str| {
        let mut pair = transfer(400_000);
        lose_first(&mut pair, 60 * 1448, 4);
        let pair = complete(pair, spec, 600);
        let again = repeated(&pair, 0);
        let pauses = again.windows(2).filter(|w| w[1].at - w[0].at > ms(150));
        pauses.map(|w| w[1].at.0 % 4_000_000).collect::<Vec<_>>()
    };
    let at = times(PLAIN);
    assert!(at.len() > 1 && at.iter().all(|n| *n == 0), "{at:?}");
    let at = times(&format!("{PLAIN},tick=0s"));
    assert!(at.len() > 1 && at.iter().any(|n| *n > 0), "{at:?}");
}

/// Without reports most duplicates are lost, so that much seems to be in flight: the next hole,
/// which a partial acknowledgement shows, waits for room that nothing makes but the timer.
#[test]
fn without_reports_the_next_hole_waits_for_room() {
    let timeouts = |more: &str| {
        let mut pair = transfer(300_000);
        let (mut first, mut gone, mut duplicates) = (None::<Seq>, Vec::new(), 0);
        lose(&mut pair, move |f, seg| {
            if f.from == 1 {
                let hole = first.is_some_and(|s| seg.ack == Some(s.plus(60 * 1448)));
                duplicates += u32::from(hole && seg.is_empty());
                return hole && duplicates > 4;
            }
            if seg.is_empty() {
                return false;
            }
            let n = seg.seq.since(*first.get_or_insert(seg.seq)) / 1448;
            let hit = [60, 63].contains(&n) && !gone.contains(&n);
            gone.extend(hit.then_some(n));
            hit
        });
        let pair = complete(pair, &format!("{PLAIN}{more}"), 600);
        pair.conn(0).board().tx.timeouts
    };
    assert_eq!((timeouts(""), timeouts(",prr=off")), (1, 0));
}

/// tcp_dsack_seen: a report that more came twice than a window holds, or than ever went again,
/// opens no window.
#[test]
fn who_says_that_too_much_came_twice_is_not_believed() {
    let spec = "tcp-linux-reno,profile=linux,timestamps=off";
    let (mut pair, syn) = dialled(spec);
    let mut said = answer(&syn, 1000);
    said.options.sack_ok = true;
    pair.inject(1, &said);
    pair.apps[0].to_write = pattern(60_000, 1);
    run_for(&mut pair, ms(5));
    let una = syn.seq.plus(1);
    let segments = |pair: &Pair| pair.conn(0).board().win.cwnd / 1000;
    assert_eq!(segments(&pair), 10);
    (said.seq, said.flags, said.options) = (Seq(1001), Flags(0), SynOptions::default());
    let mut answered = |pair: &mut Pair, acked: u32, twice: u32| {
        let ack = una.plus(acked * 1000);
        (said.ack, said.ranges) = (Some(ack), vec![(ack.minus(twice), ack)]);
        pair.inject(1, &said);
        run_for(pair, ms(1));
    };
    answered(&mut pair, 2, 1 << 30);
    assert_eq!(
        (segments(&pair), probe(&pair, 0, "dsacks")),
        (12, Some(0.0))
    );
    answered(&mut pair, 4, 1000);
    assert_eq!(
        (segments(&pair), probe(&pair, 0, "dsacks")),
        (14, Some(1.0))
    );
}
