//! The DCF: interframe spaces, NAV, back-off, repetition, duplicates.

use crate::bench::*;
use crate::common::secs;
use wifu_radio::OnAir;
use wifu_radio::phy::{Phy, Standard};
use wifu_radio::plan::{Plan, RadioConfig};
use wifu_radio::trace::{FrameKind, What, Why};
use wifu_wire::Time;

/// 0 broadcasts, and 2 (a packet for 3 waiting) hears it with `db`. How long after the end of the
/// broadcast 2 begins, in us, over many seeds: the least and the most.
fn deference(db: f64) -> (f64, f64) {
    deference_by(&plain(24), db)
}

/// The same of these radios.
fn deference_by(radio: &RadioConfig, db: f64) -> (f64, f64) {
    let snr = [
        vec![NONE, NONE, db, NONE],
        vec![NONE; 4],
        vec![NONE, NONE, NONE, 30.0],
        vec![NONE, NONE, 30.0, NONE],
    ];
    let mut radio = radio.clone();
    radio.broadcast_rate = mode_a(24);
    let mut least = f64::INFINITY;
    let mut most = 0.0f64;
    for seed in 0..200 {
        let mut scene = Scene::of(&snr, &radio, seed);
        scene.send(us(1000.0), 0, None, 1500);
        scene.send(us(1100.0), 2, Some(3), 1500);
        scene.until(secs(0.1));
        let gap = micros(scene.data(2)[0].start - scene.data(0)[0].end);
        least = least.min(gap);
        most = most.max(gap);
    }
    (least, most)
}

#[test]
fn eifs_follows_a_frame_that_could_not_be_decoded() {
    // DIFS and 0 to 15 slots after a good frame.
    assert_eq!(deference(30.0), (34.0, 34.0 + 135.0));
    // 8 dB: the receiver locks, reads the header, and loses the payload at 24 Mb/s.
    assert_eq!(deference(8.0), (94.0, 94.0 + 135.0));
}

/// Thresholds apart, in dB over the noise.
fn apart(detect: Option<f64>, energy: Option<f64>) -> RadioConfig {
    let radio = plain(24);
    let over = |db: Option<f64>| db.map(|db| radio.noise_dbm + db);
    RadioConfig {
        detect_dbm: over(detect),
        energy_dbm: over(energy),
        ..radio
    }
}

#[test]
fn who_is_busy_by_energy_alone_follows_no_frame_and_waits_difs_after_it() {
    // 8 dB, as above, but its preamble is not detected.
    let energy = apart(Some(12.0), None);
    assert_eq!(deference_by(&energy, 8.0), (34.0, 34.0 + 135.0));
    // Nor is a good frame: it is not reported, and not lost for interference.
    let mut scene = Scene::of(&beads(2, 30.0), &apart(Some(35.0), None), 1);
    scene.send(us(1000.0), 0, Some(1), 1500);
    scene.send(us(1100.0), 1, Some(0), 1500);
    scene.until(secs(0.1));
    assert!(scene.got(1, 0).is_empty());
    let lost = scene.records(1, What::Lost);
    assert_eq!((lost.len(), lost[0].why), (1, Why::Weak));
    let gap = micros(scene.data(1)[0].start - scene.data(0)[0].end);
    assert!((34.0..=34.0 + 135.0).contains(&gap), "it waited: {gap}");
    // Below both thresholds nothing holds it back.
    let deaf = apart(Some(12.0), Some(12.0));
    assert_eq!(
        deference_by(&deaf, 8.0),
        (0.0, 0.0),
        "it begins before the end"
    );
}

#[test]
fn what_is_not_detected_reserves_nothing() {
    // 0 -> 1 with RTS; 2, which has a packet for 3, hears the CTS of 1 as energy only.
    let radio = RadioConfig {
        rts_threshold: 500,
        ..plain(24)
    };
    let begins = |detect: Option<f64>| {
        let phy = Phy::new(Standard::A, false);
        let mut plan = Plan::from_snr(phy, &radio, &beads(4, 30.0));
        let ears = &mut plan.nodes[2].radio;
        ears.detect_dbm = detect.map(|db| ears.noise_dbm + db);
        let mut scene = Scene::new(&plan, 1);
        scene.send(us(1000.0), 0, Some(1), 1500);
        scene.send(us(1150.0), 2, Some(3), 60);
        scene.until(secs(0.1));
        let cts = scene.sent(1, FrameKind::Cts)[0];
        (scene.data(2)[0].start, cts.end, cts.end + cts.duration)
    };
    let (start, _, reserved) = begins(None);
    assert!(start > reserved, "it heeds the reservation");
    let (start, cts, reserved) = begins(Some(35.0));
    assert!(cts < start && start < reserved, "{start:?} after {cts:?}");
}

#[test]
fn who_missed_a_preamble_senses_the_frame_by_its_energy() {
    // The broadcast of 0 begins while 2 sends; 2 has another packet then.
    let begins = |radio: &RadioConfig| {
        let snr = [
            vec![NONE, NONE, 20.0, NONE],
            vec![NONE; 4],
            vec![NONE, NONE, NONE, 30.0],
            vec![NONE, NONE, 30.0, NONE],
        ];
        let mut scene = Scene::of(&snr, radio, 1);
        scene.send(us(990.0), 2, Some(3), 60);
        scene.send(us(991.0), 2, Some(3), 60);
        scene.send(us(1000.0), 0, None, 1500);
        scene.until(secs(0.1));
        (scene.data(2)[1].start, scene.data(0)[0].end)
    };
    let (start, end) = begins(&plain(24));
    assert!(start > end, "by default it waits");
    let (start, end) = begins(&apart(None, Some(25.0)));
    assert!(start < end, "20 dB are not energy enough");
    let off = RadioConfig {
        energy_dbm: Some(f64::INFINITY),
        ..plain(24)
    };
    assert_eq!(begins(&off), (start, end));
}

#[test]
fn a_good_frame_ends_eifs() {
    // 2 cannot decode the data of 0, but the ACK of 1 (same rate, but stronger).
    let snr = [
        vec![NONE, 30.0, 8.0, NONE],
        vec![30.0, NONE, 25.0, NONE],
        vec![NONE, NONE, NONE, 30.0],
        vec![NONE, NONE, 30.0, NONE],
    ];
    let mut least = f64::INFINITY;
    for seed in 0..200 {
        let mut scene = Scene::of(&snr, &plain(24), seed);
        scene.send(us(1000.0), 0, Some(1), 1500);
        scene.send(us(1100.0), 2, Some(3), 1500);
        scene.until(secs(0.1));
        let ack = scene.sent(1, FrameKind::Ack)[0];
        least = least.min(micros(scene.data(2)[0].start - ack.end));
    }
    assert_eq!(least, 34.0);
}

/// 0 -> 1; 2 hears 1 alone and has a packet for 3. Where the exchange of 0 lies, and what 2 did.
fn reserved(threshold: u32, seed: u64) -> (Scene, Option<OnAir>, OnAir) {
    let radio = RadioConfig {
        rts_threshold: threshold,
        ..plain(24)
    };
    let mut scene = Scene::of(&beads(4, 30.0), &radio, seed);
    scene.send(us(1000.0), 0, Some(1), 1500);
    scene.send(us(1150.0), 2, Some(3), 60);
    scene.until(secs(0.1));
    let exchange = scene.sent(1, FrameKind::Ack).first().copied();
    let other = scene.data(2)[0];
    (scene, exchange, other)
}

#[test]
fn nav_keeps_a_station_silent_that_decoded_only_the_cts() {
    let (scene, ack, other) = reserved(2347, 1);
    assert_eq!(other.start, us(1150.0), "nothing tells 2 of the frame");
    assert!(ack.is_none() && scene.radio.counters(0).failed == 1);
    for seed in 0..50 {
        let (scene, ack, other) = reserved(500, seed);
        let ack = ack.expect("the exchange is complete");
        let cts = scene.sent(1, FrameKind::Cts)[0];
        assert_eq!(
            cts.end + cts.duration,
            ack.end,
            "the CTS reserves all of it"
        );
        let gap = micros(other.start - ack.end);
        assert!((34.0..=34.0 + 135.0).contains(&gap), "{gap}");
        assert_eq!((gap - 34.0) % 9.0, 0.0);
    }
}

#[test]
fn a_reserved_station_does_not_answer_rts() {
    // 4 asks 2 while the CTS of 1 holds 2 back. 4 hears nobody but 2.
    let snr = beads(4, 30.0);
    let mut radio = plain(24);
    radio.rts_threshold = 500;
    let mut scene = Scene::of(&snr, &radio, 1);
    scene.send(us(1000.0), 0, Some(1), 1500);
    scene.send(us(1200.0), 3, Some(2), 1500);
    scene.until(secs(0.1));
    let asked = scene.sent(3, FrameKind::Rts);
    assert_eq!((asked.len(), asked[0].start), (1, us(1200.0)));
    assert!(scene.sent(2, FrameKind::Cts).is_empty());
    assert_eq!(scene.done(3), [(1, false, 1)]);
    // Without the reservation it does.
    let mut scene = Scene::of(&snr, &radio, 1);
    scene.send(us(1200.0), 3, Some(2), 1500);
    scene.until(secs(0.1));
    assert_eq!(scene.done(3), [(0, true, 1)]);
}

/// 0 asks 1 by RTS while 1 senses a frame of 2, which 0 does not: too weak to be decoded, or to
/// destroy the RTS. What comes of it.
fn asked_beside_a_weak_frame(reserve_undecoded: bool, begins: f64) -> (usize, Option<OnAir>) {
    let snr = [
        vec![NONE, 30.0, NONE],
        vec![30.0, NONE, 8.0],
        vec![NONE, 8.0, NONE],
    ];
    let radio = RadioConfig {
        rts_threshold: 500,
        reserve_undecoded,
        broadcast_rate: mode_a(24),
        ..plain(24)
    };
    let mut scene = Scene::of(&snr, &radio, 1);
    scene.send(us(begins), 2, None, 100);
    scene.send(us(1000.0), 0, Some(1), 1500);
    scene.until(secs(0.1));
    let answer = scene.sent(1, FrameKind::Cts).first().copied();
    (scene.got(1, 0).len(), answer)
}

#[test]
fn an_undecoded_frame_keeps_nobody_from_answering_unless_it_is_to_reserve() {
    // The RTS lasts 28 us. The other begins within it, or ended 30 us before it.
    for begins in [1010.0, 1000.0 - 30.0 - 68.0] {
        let (got, answer) = asked_beside_a_weak_frame(false, begins);
        assert_eq!(
            (got, answer.map(|a| a.start)),
            (1, Some(us(1044.0))),
            "{begins}"
        );
        let (got, answer) = asked_beside_a_weak_frame(true, begins);
        assert_eq!((got, answer.is_some()), (0, false), "{begins}");
    }
    // Long before, it does not matter.
    assert_eq!(asked_beside_a_weak_frame(true, 500.0).0, 1);
}

#[test]
fn after_each_frame_comes_a_back_off_even_if_nothing_waits() {
    let ack_end = 1000.0 + 536.0 + 16.0 + 28.0;
    let second = |after: f64, seed| {
        let mut scene = Scene::of(&line(2, |_| 30.0), &plain(24), seed);
        scene.send(us(1000.0), 0, Some(1), 1500);
        scene.send(us(ack_end + after), 0, Some(1), 1500);
        scene.until(secs(0.1));
        micros(scene.data(0)[1].start - us(ack_end))
    };
    let mut seen = [false; 16];
    let mut expired = 0;
    for seed in 0..150 {
        let soon = second(1.0, seed);
        assert_eq!((soon - 34.0) % 9.0, 0.0);
        seen[((soon - 34.0) / 9.0) as usize] = true;
        // Later the same back-off has less to go, or is over: then the packet leaves at once.
        let later = second(100.0, seed);
        assert_eq!(later, if soon > 100.0 { soon } else { 100.0 });
        expired += u32::from(later == 100.0);
        assert_eq!(second(200.0, seed), 200.0);
    }
    assert!(seen.iter().all(|s| *s), "{seen:?}");
    // 0 to 7 slots end within 100 us.
    let off = deviations(expired as usize, 150, 0.5);
    assert!(off.abs() < 4.0, "{expired} of 150");
}

#[test]
fn the_window_doubles_with_each_failure_and_is_small_again_afterwards() {
    // Nobody answers.
    let radio = RadioConfig {
        attempts: 8,
        ..plain(24)
    };
    let mut scene = Scene::of(&[vec![NONE, NONE], vec![NONE, NONE]], &radio, 2);
    scene.saturate(0, Some(1), 100);
    scene.until(secs(100.0));
    let sent = scene.data(0);
    let mut slots: Vec<Vec<u64>> = vec![Vec::new(); 8];
    for (i, w) in sent.windows(2).enumerate() {
        // EIFS, then the back-off; the timeout of 50 us lies within EIFS.
        let gap = (w[1].start - w[0].end).0 - 94_000;
        assert_eq!(gap % 9_000, 0);
        assert_eq!(w[1].retry, (i + 1) % 8 != 0);
        slots[(i + 1) % 8].push(gap / 9_000);
    }
    let windows = [15, 31, 63, 127, 255, 511, 1023, 1023];
    for (attempt, (slots, window)) in slots.iter().zip(windows).enumerate() {
        let n = slots.len() as f64;
        assert!(n > 1500.0);
        let mean = slots.iter().sum::<u64>() as f64 / n;
        let expected = window as f64 / 2.0;
        let error = window as f64 / 12f64.sqrt() / n.sqrt();
        let most = slots.iter().copied().max();
        assert!(
            most <= Some(window) && most > Some(window * 9 / 10),
            "attempt {attempt}: {most:?}"
        );
        assert!(
            (mean - expected).abs() < 4.0 * error,
            "attempt {attempt}: {mean}"
        );
    }
    // The same numbers as the trace tells them.
    let told = scene.records(0, What::Deferred);
    assert!(
        told.iter()
            .all(|r| u64::from(r.value) <= windows[usize::from(r.tries) - 1])
    );
}

#[test]
fn a_frame_is_tried_as_often_as_allowed() {
    for attempts in [1, 2, 4, 7] {
        let radio = RadioConfig {
            attempts,
            ..plain(24)
        };
        let mut scene = Scene::of(&[vec![NONE, NONE], vec![NONE, NONE]], &radio, 2);
        let cookie = scene.send(us(1000.0), 0, Some(1), 1500);
        scene.until(secs(1.0));
        let sent = scene.data(0);
        assert_eq!(sent.len(), usize::from(attempts));
        assert!(sent.iter().enumerate().all(|(i, a)| a.retry == (i > 0)));
        assert!(sent.iter().all(|a| a.seq == sent[0].seq));
        assert_eq!(scene.done(0), [(cookie, false, attempts)]);
        assert_eq!(scene.records(0, What::Failed).len(), usize::from(attempts));
        assert_eq!(scene.records(0, What::Dropped).len(), 1);
    }
}

#[test]
fn with_rts_there_are_two_limits() {
    // 9 dB: RTS and CTS at 6 Mb/s always arrive, data at 24 Mb/s never.
    let mut radio = RadioConfig {
        attempts: 5,
        attempts_long: 3,
        rts_threshold: 500,
        ..plain(24)
    };
    radio.control_rates = vec![mode_a(6)];
    let tried = |snr: &[Vec<f64>], bytes| {
        let mut scene = Scene::of(snr, &radio, 2);
        scene.send(us(1000.0), 0, Some(1), bytes);
        scene.until(secs(1.0));
        let done = scene.done(0);
        assert!(done.len() == 1 && !done[0].1);
        (scene.sent(0, FrameKind::Rts).len(), scene.data(0).len())
    };
    assert_eq!(
        tried(&line(2, |_| 9.0), 1500),
        (3, 3),
        "data is lost: the long limit"
    );
    let mute = [vec![NONE, 9.0], vec![NONE, NONE]];
    assert_eq!(tried(&mute, 1500), (5, 0), "no CTS: the short limit");
    assert_eq!(
        tried(&line(2, |_| 9.0), 464),
        (0, 5),
        "MPDU of 500 bytes: no RTS"
    );
    assert_eq!(tried(&line(2, |_| 9.0), 465), (3, 3), "501");
}

#[test]
fn a_broadcast_has_one_attempt_and_no_acknowledgement() {
    let radio = RadioConfig {
        attempts: 7,
        rts_threshold: 0,
        ..plain(24)
    };
    let snr = [
        vec![NONE, 30.0, 2.0],
        vec![30.0, NONE, NONE],
        vec![2.0, NONE, NONE],
    ];
    let mut scene = Scene::of(&snr, &radio, 1);
    let cookie = scene.send(us(1000.0), 0, None, 1500);
    scene.until(secs(0.1));
    assert_eq!(scene.aired.len(), 1);
    let a = scene.aired[0];
    assert_eq!((a.to, a.mode, a.duration.0), (None, mode_a(6), 0));
    assert_eq!(scene.done(0), [(cookie, true, 1)]);
    assert_eq!((scene.got(1, 0).len(), scene.got(2, 0).len()), (1, 0));
}

#[test]
fn copies_are_filtered_and_counted() {
    // The way back is closed: every ACK is lost.
    let radio = RadioConfig {
        attempts: 4,
        ..plain(24)
    };
    let snr = [vec![NONE, 30.0], vec![NONE, NONE]];
    let mut scene = Scene::of(&snr, &radio, 1);
    for i in 0..50 {
        scene.send(us(1000.0 + 20_000.0 * f64::from(i)), 0, Some(1), 1500);
    }
    scene.until(secs(2.0));
    let c = scene.radio.counters(1);
    assert_eq!((c.received, c.duplicates, c.acks), (50, 150, 200));
    assert_eq!(scene.got(1, 0).len(), 50);
    assert_eq!(scene.records(1, What::Duplicate).len(), 150);
    assert!(scene.done(0).iter().all(|d| !d.1 && d.2 == 4));
}

/// 0 sends to nobody who answers; 2 broadcasts `after` us after its end, for 2072 us. When 0 gives
/// the attempt up, and when its next one begins, in us after the first.
fn timeout(after: Option<f64>, seed: u64) -> (f64, f64) {
    let radio = RadioConfig {
        attempts: 2,
        ..plain(24)
    };
    let mut snr = vec![vec![NONE; 3]; 3];
    snr[2][0] = 30.0;
    let mut scene = Scene::of(&snr, &radio, seed);
    scene.send(us(1000.0), 0, Some(1), 1500);
    if let Some(after) = after {
        scene.send(us(1536.0 + after), 2, None, 1500);
    }
    scene.until(secs(0.1));
    let failed = scene.records(0, What::Failed)[0].time;
    let next = scene.data(0)[1].start;
    (micros(failed - us(1536.0)), micros(next - us(1536.0)))
}

#[test]
fn a_frame_that_arrives_at_the_timeout_may_be_the_ack() {
    for seed in 0..60 {
        let (failed, next) = timeout(None, seed);
        assert_eq!(failed, 50.0);
        assert!(next >= 94.0 && (next - 94.0) % 9.0 == 0.0);
        for after in [1.0, 20.0, 49.0] {
            let (failed, next) = timeout(Some(after), seed);
            assert_eq!(failed, after + 2072.0, "{after}: waits for its end");
            // It was decoded: DIFS, not EIFS.
            let gap = next - failed;
            assert_eq!((gap - 34.0) % 9.0, 0.0, "{gap}");
        }
        let (failed, _) = timeout(Some(51.0), seed);
        assert_eq!(failed, 50.0);
    }
    let least = |after| {
        (0..60)
            .map(|s| timeout(after, s))
            .map(|t| t.1 - t.0)
            .fold(1e9, f64::min)
    };
    assert_eq!(least(Some(20.0)), 34.0);
}

#[test]
fn a_frame_received_before_the_timeout_ends_eifs_too() {
    // A short broadcast at 24 Mb/s fits between the end of the data and the timeout: 10 to 46 us.
    let mut least = f64::INFINITY;
    for seed in 0..100 {
        let mut radio = RadioConfig {
            attempts: 2,
            ..plain(24)
        };
        radio.broadcast_rate = mode_a(54);
        let mut snr = vec![vec![NONE; 3]; 3];
        snr[2][0] = 40.0;
        let mut scene = Scene::of(&snr, &radio, seed);
        scene.send(us(1000.0), 0, Some(1), 1500);
        scene.send(us(1540.0), 2, None, 20);
        scene.until(secs(0.1));
        let other = scene.data(2)[0];
        assert!(micros(other.end - us(1536.0)) < 50.0);
        assert_eq!(
            micros(scene.records(0, What::Failed)[0].time - us(1536.0)),
            50.0
        );
        least = least.min(micros(scene.data(0)[1].start - other.end));
    }
    assert_eq!(least, 34.0);
}

#[test]
fn an_ack_longer_than_the_timeout_is_awaited() {
    // At 6 Mb/s the ACK lasts from 16 to 60 us after the data; the timeout is at 50 us.
    let mut radio = plain(24);
    radio.control_rates = vec![mode_a(6)];
    let mut scene = Scene::of(&line(2, |_| 30.0), &radio, 1);
    scene.send(us(1000.0), 0, Some(1), 1500);
    scene.until(secs(0.1));
    assert_eq!(scene.done(0), [(0, true, 1)]);
    assert!(scene.records(0, What::Failed).is_empty());
    assert_eq!(scene.events.last().map(|e| e.0), Some(us(1536.0 + 60.0)));
}

/// 1 has a back-off to go; 0 broadcasts `before` us before its end. Slots left after that.
fn slots_left(legacy: bool, before: f64) -> f64 {
    let radio = RadioConfig {
        legacy_backoff: legacy,
        ..plain(24)
    };
    let run = |seed, at: Option<Time>| {
        let mut scene = Scene::of(&line(3, |_| 30.0), &radio, seed);
        scene.send(us(1000.0), 1, Some(2), 1500);
        scene.send(us(1000.0), 1, Some(2), 1500);
        if let Some(at) = at {
            scene.send(at, 0, None, 1500);
        }
        scene.until(secs(0.1));
        scene
    };
    let planned = |seed| run(seed, None).data(1)[1].start;
    // A seed that draws at least 10 slots.
    let seed = (0..)
        .find(|s| planned(*s) >= us(1580.0 + 34.0 + 90.0))
        .expect("one of few");
    let at = Time(planned(seed).0 - (before * 1e3) as u64);
    let scene = run(seed, Some(at));
    let broadcast = scene.data(0)[0];
    assert_eq!(broadcast.start, at);
    (micros(scene.data(1)[1].start - broadcast.end) - 34.0) / 9.0
}

#[test]
fn a_back_off_stands_still_while_the_medium_is_busy() {
    // The slot in which the medium becomes busy counts, or with `legacy_backoff` it does not.
    for (before, left) in [(7.0, 1.0), (9.0, 1.0), (9.5, 2.0), (34.0, 4.0), (70.0, 8.0)] {
        assert_eq!(slots_left(true, before), left, "{before}");
        assert_eq!(slots_left(false, before), left - 1.0, "{before}");
    }
}
