//! Who disturbs whom: hidden and exposed terminals, capture, carrier sense and its blind moment.

use crate::bench::*;
use crate::common::secs;
use wifu_radio::OnAir;
use wifu_radio::plan::RadioConfig;
use wifu_radio::trace::{FrameKind, NOBODY, What, Why};
use wifu_wire::{Rng, Span, Time};

/// 0 -> 1 <- 2, where 0 and 2 don't hear each other; both send by chance, without memory.
fn hidden(radio: &RadioConfig, snr: &[Vec<f64>], rate: f64, seconds: f64) -> Scene {
    let mut scene = Scene::of(snr, radio, 5);
    let mut rng = Rng::new(17);
    scene.poisson(&mut rng, 40.0, secs(seconds), (0, Some(1), 1500));
    scene.poisson(&mut rng, rate, secs(seconds), (2, None, 1500));
    scene.until(secs(seconds + 1.0));
    scene
}

#[test]
fn a_hidden_station_destroys_what_it_overlaps_and_nothing_else() {
    // Broadcasts of the hidden station last 2072 us, the data 536 us.
    let (rate, seconds) = (50.0, 200.0);
    let scene = hidden(&plain(24), &beads(3, 30.0), rate, seconds);
    let disturbers = scene.data(2);
    let mine = scene.data(0);
    // A frame that the other's end leaves part of the preamble of is still followed.
    let preamble = Span(16_000);
    let hit = |a: &&OnAir| {
        disturbers
            .iter()
            .any(|d| overlap(a, d) && d.end >= a.start + preamble)
    };
    let overlapped: Vec<u32> = mine.iter().filter(hit).map(|a| a.cookie).collect();
    let done = scene.done(0);
    let lost: Vec<u32> = done.iter().filter(|d| !d.1).map(|d| d.0).collect();
    // The ACK (station 1) is heard by station 2, which then waits: only data can be hit.
    assert_eq!(lost, overlapped);
    // No memory: a frame survives if none starts in the time that both last.
    let expected = 1.0 - (-rate * (2608e-6 - 16e-6f64)).exp();
    let off = deviations(lost.len(), done.len(), expected);
    println!(
        "hidden: {} of {} lost, {expected:.4} expected",
        lost.len(),
        done.len()
    );
    assert!(
        off.abs() < 4.0,
        "{} of {}: {off} deviations from {expected}",
        lost.len(),
        done.len()
    );
    // With carrier sense between them, next to none.
    let all = line(3, |_| 30.0);
    let sensed = hidden(&plain(24), &all, rate, seconds);
    let failed = sensed.radio.counters(0).failed as usize;
    assert!(failed * 50 < lost.len(), "{failed} lost with carrier sense");
}

#[test]
fn the_hidden_station_is_blamed() {
    let scene = hidden(&plain(24), &beads(3, 30.0), 50.0, 20.0);
    let lost = scene.records(1, What::Lost);
    assert!(lost.len() > 40);
    for r in &lost {
        assert!(matches!(r.why, Why::Collision | Why::Locked), "{:?}", r.why);
        assert_eq!((r.peer, r.other), (0, 2));
    }
    let c = scene.radio.counters(1);
    let by = c.lost_by(Why::Collision) + c.lost_by(Why::Locked);
    assert_eq!(by, lost.len() as u64);
}

#[test]
fn who_drowns_a_frame_is_named_and_a_weak_one_blames_nobody() {
    // Station 1 senses 8 dB and does not follow them; 12 dB it follows in silence only.
    let radio = RadioConfig {
        lock_db: 10.0,
        ..plain(6)
    };
    let lost = |mine: f64, other: bool| {
        let mut snr = beads(3, 8.0);
        (snr[0][1], snr[1][0]) = (mine, mine);
        let mut scene = Scene::of(&snr, &radio, 5);
        if other {
            scene.send(us(1000.0), 2, None, 1500);
        }
        scene.send(us(1500.0), 0, Some(1), 500);
        scene.until(secs(0.1));
        let lost = scene.records(1, What::Lost);
        lost.iter().map(|r| (r.why, r.other)).collect::<Vec<_>>()
    };
    assert_eq!(lost(12.0, true), [(Why::Weak, 2)]);
    assert_eq!(lost(12.0, false), []);
    for other in [true, false] {
        assert_eq!(lost(9.0, other), [(Why::Weak, NOBODY)]);
    }
}

/// Packets that arrive at station 1 from two saturated stations hidden from each other.
fn hidden_pair(radio: &RadioConfig) -> (usize, u64) {
    let mut scene = Scene::of(&beads(3, 30.0), radio, 5);
    scene.saturate(0, Some(1), 1500);
    scene.saturate(2, Some(1), 1500);
    scene.until(secs(20.0));
    let lost = scene.radio.counters(1).lost.iter().sum();
    (scene.got(1, 0).len() + scene.got(1, 2).len(), lost)
}

#[test]
fn rts_cures_most_of_it() {
    let (rate, seconds) = (50.0, 100.0);
    let rts = RadioConfig {
        rts_threshold: 500,
        ..plain(24)
    };
    let scene = hidden(&rts, &beads(3, 30.0), rate, seconds);
    // The RTS is as exposed as any frame; the data after it is not.
    let data = scene.data(0).len();
    let lost: u64 = scene.radio.counters(1).lost.iter().sum();
    assert!(
        data > 3000 && lost as usize * 100 < data,
        "{lost} of {data}"
    );
    let asked = scene.sent(0, FrameKind::Rts).len();
    let refused = 1.0 - data as f64 / asked as f64;
    // Vulnerable to 2072 us of the other's and the own 28 us without the preamble.
    let expected = 1.0 - (-rate * (2100e-6 - 16e-6f64)).exp();
    let off = deviations(asked - data, asked, expected);
    println!("with RTS: {lost} of {data} data lost; {refused:.4} of RTS, {expected:.4} expected");
    assert!(
        off.abs() < 4.0,
        "{refused} of the RTS fail, {expected} expected"
    );
    // Under saturation, with the usual repetitions.
    let patient = RadioConfig {
        attempts: 7,
        attempts_long: 4,
        ..plain(24)
    };
    let (basic, lost) = hidden_pair(&patient);
    let (reserved, lost_reserved) = hidden_pair(&RadioConfig {
        rts_threshold: 500,
        ..patient
    });
    println!("saturated: {basic} packets, {lost} lost; with RTS {reserved}, {lost_reserved} lost");
    assert!(
        reserved > basic * 3 / 2,
        "{basic} without RTS, {reserved} with it"
    );
    assert!(
        lost_reserved * 20 < lost,
        "{lost} data frames lost, {lost_reserved}"
    );
}

#[test]
fn an_exposed_station_waits_for_nothing() {
    // 0 <- 1   2 -> 3: the senders hear each other, the receivers only their own sender.
    let snr = beads(4, 30.0);
    let run = |snr: &[Vec<f64>]| {
        let mut scene = Scene::of(snr, &plain(24), 3);
        scene.saturate(1, Some(0), 1500);
        scene.saturate(2, Some(3), 1500);
        scene.until(secs(10.0));
        let sum = scene.got(0, 1).len() + scene.got(3, 2).len();
        (sum as f64 * 12_000.0 / 10.0 / 1e6, scene)
    };
    let (exposed, scene) = run(&snr);
    let mut deaf = snr.clone();
    (deaf[1][2], deaf[2][1]) = (NONE, NONE);
    let (free, _) = run(&deaf);
    // One cell's capacity, except that a collision between the two is two successes: each sends
    // in a share of 2/17 of the slots, and the window never doubles.
    let tau = 2.0 / 17.0;
    let idle = (1.0 - tau) * (1.0 - tau);
    let expected = 2.0 * tau * 12_000.0 / (idle * 9.0 + (1.0 - idle) * 614.0);
    println!("exposed: {exposed:.2} Mb/s, {expected:.2} expected; deaf {free:.2}");
    assert!(
        (exposed / expected - 1.0).abs() < 0.02,
        "{exposed} Mb/s, not {expected}"
    );
    assert!(
        (free - 2.0 * 17.61).abs() < 0.3,
        "{free} Mb/s if they were deaf"
    );
    // Frames of the two overlap only where both began within the same moment.
    let (a, b) = (scene.data(1), scene.data(2));
    for x in &a {
        let from = b.partition_point(|y| y.end <= x.start);
        for y in b[from..].iter().take_while(|y| y.start < x.end) {
            assert!(x.start.0.abs_diff(y.start.0) <= 5_000, "{x:?} {y:?}");
        }
    }
}

/// Two stations that don't hear each other send to 1: 0 first with `first` dB, 2 with `second` dB
/// `after` us later. What arrives: from 0, from 2.
fn clash(radio: &RadioConfig, first: f64, second: f64, after: f64) -> (bool, bool) {
    let snr = [
        vec![NONE, first, NONE],
        vec![30.0, NONE, 30.0],
        vec![NONE, second, NONE],
    ];
    let mut scene = Scene::of(&snr, radio, 1);
    scene.send(us(1000.0), 0, Some(1), 1500);
    scene.send(us(1000.0 + after), 2, Some(1), 1500);
    scene.until(secs(0.1));
    assert_eq!(scene.data(0)[0].start, us(1000.0));
    assert_eq!(scene.data(2)[0].start, us(1000.0 + after));
    (!scene.got(1, 0).is_empty(), !scene.got(1, 2).is_empty())
}

#[test]
fn a_stronger_frame_captures_the_receiver_during_the_preamble() {
    let six = plain(6);
    // 6 Mb/s needs 4.6 dB, so who is followed is received.
    assert_eq!(clash(&six, 20.0, 26.0, 10.0), (false, true));
    assert_eq!(clash(&six, 20.0, 26.0, 15.9), (false, true));
    assert_eq!(
        clash(&six, 20.0, 26.0, 16.0),
        (false, false),
        "the preamble is over"
    );
    assert_eq!(
        clash(&six, 20.0, 24.9, 10.0),
        (false, false),
        "not 5 dB stronger"
    );
    let never = RadioConfig {
        capture_db: f64::INFINITY,
        ..plain(6)
    };
    assert_eq!(clash(&never, 20.0, 40.0, 10.0), (false, false));
    // The first one survives what is weak enough, early or late.
    assert_eq!(clash(&six, 26.0, 20.0, 10.0), (true, false));
    assert_eq!(clash(&six, 26.0, 20.0, 1000.0), (true, false));
    assert_eq!(clash(&six, 24.0, 21.5, 1000.0), (false, false));
    // 24 Mb/s needs 14.2 dB: following is not receiving.
    assert_eq!(clash(&plain(24), 20.0, 30.0, 10.0), (false, false));
    assert_eq!(clash(&plain(24), 20.0, 36.0, 10.0), (false, true));
}

#[test]
fn message_in_message_captures_at_any_time() {
    let mim = RadioConfig {
        mim_db: Some(10.0),
        ..plain(6)
    };
    for after in [20.0, 300.0, 2000.0] {
        assert_eq!(
            clash(&plain(6), 14.0, 30.0, after),
            (false, false),
            "{after}"
        );
        assert_eq!(clash(&mim, 14.0, 30.0, after), (false, true), "{after}");
        assert_eq!(clash(&mim, 14.0, 23.9, after), (false, false), "{after}");
    }
}

#[test]
fn a_frame_below_the_threshold_of_carrier_sense_is_only_interference() {
    // 3.5 dB: above what the error model needs with short frames, below carrier sense (4 dB).
    let alone = |db: f64| {
        let snr = [vec![NONE, db], vec![30.0, NONE]];
        let mut scene = Scene::of(&snr, &plain(6), 1);
        scene.send(us(1000.0), 0, Some(1), 60);
        scene.until(secs(0.1));
        scene.got(1, 0).len()
    };
    assert_eq!((alone(4.2), alone(3.9)), (1, 0));
    // Two of them together are sensed: 1 then waits, and would not for one.
    let starts = |disturbers: usize| {
        let snr = [
            vec![NONE, NONE, 2.5, NONE],
            vec![NONE, NONE, 2.5, NONE],
            vec![NONE, NONE, NONE, 30.0],
            vec![NONE, NONE, 30.0, NONE],
        ];
        let mut scene = Scene::of(&snr, &plain(6), 1);
        for d in 0..disturbers {
            scene.send(us(1000.0), d as u16, None, 1500);
        }
        scene.send(us(1500.0), 2, Some(3), 1500);
        scene.until(secs(0.1));
        scene.data(2)[0].start
    };
    assert_eq!((starts(0), starts(1)), (us(1500.0), us(1500.0)));
    assert!(starts(2) >= us(1000.0 + 2072.0 + 34.0));
}

/// When station 2 begins its second frame if station 0 hands one over `before` us earlier than
/// that; and whether both overlap.
fn blind(before: f64) -> bool {
    let snr = line(4, |_| 30.0);
    let scene = |intruder: Option<Time>| {
        let mut s = Scene::of(&snr, &plain(24), 8);
        s.send(us(1000.0), 2, Some(3), 1500);
        s.send(us(1000.0), 2, Some(3), 1500);
        if let Some(at) = intruder {
            s.send(at, 0, Some(1), 1500);
        }
        s.until(secs(0.1));
        (s.data(2)[1], s.data(0))
    };
    let planned = scene(None).0.start;
    let ack_end = us(1000.0 + 536.0 + 16.0 + 28.0);
    assert!(
        planned >= ack_end + Span(34_000 + 27_000),
        "the seed draws few slots"
    );
    let intruder = Time(planned.0 - (before * 1e3) as u64);
    let (second, mine) = scene(Some(intruder));
    assert_eq!(mine[0].start, intruder, "the medium was idle: at once");
    let together = overlap(&second, &mine[0]);
    assert_eq!(together, second.start == planned);
    together
}

#[test]
fn who_has_decided_does_not_notice_a_start_within_5_us() {
    for before in [0.5, 1.0, 3.0, 5.0] {
        assert!(blind(before), "{before} us");
    }
    for before in [5.5, 6.0, 9.0, 14.0, 20.0] {
        assert!(!blind(before), "{before} us");
    }
}

#[test]
fn a_transmitting_station_receives_nothing() {
    let scene = |intruder: Option<Time>| {
        let mut s = Scene::of(&line(2, |_| 30.0), &plain(24), 8);
        s.send(us(1000.0), 1, Some(0), 1500);
        s.send(us(1000.0), 1, Some(0), 1500);
        if let Some(at) = intruder {
            s.send(at, 0, Some(1), 1500);
        }
        s.until(secs(0.1));
        s
    };
    let planned = scene(None).data(1)[1].start;
    let clash = scene(Some(Time(planned.0 - 3_000)));
    assert_eq!(clash.data(1)[1].start, planned);
    for node in [0, 1] {
        assert_eq!(clash.radio.counters(node).lost_by(Why::Transmitting), 1);
    }
    assert_eq!(clash.done(0), [(2, false, 1)]);
    assert_eq!(clash.done(1), [(0, true, 1), (1, false, 1)]);
}

/// A station that owes an ACK decodes a hidden station's RTS before the ACK leaves. It cannot
/// answer both: the ACK is sent, the RTS is repeated, and nobody waits for ever.
#[test]
fn an_answer_that_is_due_is_not_replaced_by_another() {
    let announced = RadioConfig {
        attempts: 7,
        attempts_long: 7,
        rts_threshold: 1000,
        ..plain(24)
    };
    let snr = [
        vec![NONE, 40.0, NONE],
        vec![40.0, NONE, 20.0],
        vec![NONE, 20.0, NONE],
    ];
    let ends = us(1000.0) + Span(56_000); // 60 B at 24 Mb/s
    let mut close = 0;
    for before in 1..40 {
        let begins = Time(ends.0 - before * 500);
        let mut scene = Scene::of(&snr, &announced, 1);
        scene.send(us(1000.0), 0, Some(1), 60);
        scene.send(begins, 2, Some(1), 1500);
        scene.until(secs(0.1));
        assert_eq!(scene.data(0)[0].end, ends);
        let asked = scene.sent(2, FrameKind::Rts)[0];
        assert_eq!(asked.start, begins);
        close += u32::from(asked.end > ends && asked.end < ends + Span(16_000));
        let answers = scene.sent(1, FrameKind::Ack);
        assert_eq!(answers[0].start, ends + Span(16_000), "{before}");
        for node in [0, 2] {
            let done = scene.done(node);
            assert!(
                matches!(done[..], [(_, true, _)]),
                "{before} {node} {done:?}"
            );
        }
    }
    assert!(close > 4, "{close} RTS ended while the ACK was due");
}
