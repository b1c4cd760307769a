//! What is no 802.11: it makes the medium busy, it destroys frames, and nobody follows it.

use crate::bench::*;
use crate::common::secs;
use wifu_radio::phy::{Phy, Standard};
use wifu_radio::plan::{InterfererPlan, Plan, RadioConfig};
use wifu_radio::trace::{What, Why};
use wifu_wire::Span;

/// Station `to` receives it this many dB over the noise, for so long every ten milliseconds.
fn source(radio: &RadioConfig, to: u16, db: f64, on: Span) -> InterfererPlan {
    InterfererPlan {
        name: String::from("oven"),
        received: vec![(to, radio.noise_dbm + db)],
        start: Span::MILLI,
        on,
        off: Span(10_000_000 - on.0),
        random: false,
        placed: false,
    }
}

/// Stations 0 and 1 hear each other at 20 dB, and station `to` hears the source.
fn scene(radio: &RadioConfig, to: u16, db: f64, on: Span) -> Scene {
    let mut plan = Plan::from_snr(Phy::new(Standard::A, false), radio, &beads(2, 20.0));
    plan.interferers.push(source(radio, to, db, on));
    Scene::new(&plan, 1)
}

#[test]
fn who_hears_it_waits_until_it_is_over_and_difs() {
    let radio = plain(24);
    let on = Span::MILLI * 3;
    let start = |to, db, radio: &RadioConfig| {
        let mut scene = scene(radio, to, db, on);
        scene.send(us(2000.0), 0, Some(1), 500);
        scene.until(secs(0.008));
        let sent = scene.data(0)[0].start;
        (sent, scene.radio.counters(0).busy)
    };
    // It is on from 1 ms to 4 ms; EIFS would follow a frame.
    let (sent, busy) = start(0, 6.0, &radio);
    let gap = micros(sent - us(4000.0));
    assert!((34.0..=34.0 + 135.0).contains(&gap), "{gap}");
    assert!(busy > on && busy < on + Span::MILLI, "{busy:?}");
    // 3 dB are below the threshold of energy; 6 dB are, too, if that is higher.
    assert_eq!(start(0, 3.0, &radio).0, us(2000.0));
    let high = RadioConfig {
        energy_dbm: Some(radio.noise_dbm + 10.0),
        ..radio.clone()
    };
    assert_eq!(start(0, 6.0, &high).0, us(2000.0));
}

#[test]
fn a_frame_under_it_is_lost_to_it_or_not_even_noticed() {
    let radio = plain(24);
    let lost = |db: f64, begins: f64| {
        let mut scene = scene(&radio, 1, db, Span::MILLI * 3);
        scene.send(us(begins), 0, Some(1), 1500);
        scene.until(secs(0.008));
        let records = scene.records(1, What::Lost);
        let counted = scene.radio.counters(1).lost_by(Why::Interference);
        assert_eq!(
            counted as usize,
            records
                .iter()
                .filter(|r| r.why == Why::Interference)
                .count()
        );
        (
            scene.got(1, 0).len(),
            records.iter().map(|r| r.why).collect::<Vec<_>>(),
        )
    };
    // 20 dB of signal: 24 Mb/s need 14 dB over noise and interference.
    assert_eq!(
        lost(18.0, 2000.0),
        (0, vec![Why::Interference]),
        "not followed"
    );
    assert_eq!(
        lost(10.0, 2000.0),
        (0, vec![Why::Interference]),
        "followed in vain"
    );
    assert_eq!(
        lost(10.0, 900.0),
        (0, vec![Why::Interference]),
        "it begins within the frame"
    );
    assert_eq!(
        lost(10.0, 3800.0),
        (0, vec![Why::Interference]),
        "it ends within the frame"
    );
    assert_eq!(lost(-3.0, 2000.0), (1, vec![]));
    assert_eq!(lost(18.0, 5000.0), (1, vec![]), "it is off");
}

#[test]
fn its_share_of_the_time_is_what_is_lost_and_busy() {
    // Nobody senses it but the receiver, which sends nothing: 3 of 10 ms. A frame takes 0.54 ms,
    // so what begins within 3.54 ms of each 10 is lost, but for what the preamble saves.
    let radio = plain(24);
    let mut scene = scene(&radio, 1, 18.0, Span::MILLI * 3);
    let mut rng = wifu_wire::Rng::new(3);
    scene.poisson(&mut rng, 40.0, secs(100.0), (0, Some(1), 1500));
    scene.until(secs(100.1));
    let sent = scene.data(0).len();
    let lost = scene.radio.counters(1).lost_by(Why::Interference) as usize;
    let off = deviations(lost, sent, 0.3536);
    println!("{lost} of {sent} lost, {off:.1} standard deviations from 35.4 %");
    assert!(sent > 3_000 && off.abs() < 4.0, "{lost} of {sent}: {off}");
    let busy = scene.radio.counters(1).busy.as_secs_f64() / 100.0;
    // The frames, and the ACKs, add to it where it is off.
    assert!((0.30..0.33).contains(&busy), "{busy}");
}

#[test]
fn a_source_that_nobody_needs_changes_nothing_of_the_others() {
    let radio = plain(24);
    let run = |sources: usize| {
        let mut plan = Plan::from_snr(Phy::new(Standard::A, false), &radio, &beads(3, 20.0));
        for _ in 0..sources {
            plan.interferers.push(InterfererPlan {
                random: true,
                ..source(&radio, 2, -15.0, Span::MILLI)
            });
        }
        let mut scene = Scene::new(&plan, 1);
        scene.saturate(0, Some(1), 1500);
        scene.until(secs(0.5));
        (scene.data(0), scene.radio.trace_hash())
    };
    let (frames, hash) = run(0);
    assert!(frames.len() > 500);
    let (with, with_hash) = run(3);
    assert_eq!(frames, with);
    assert_eq!(hash, with_hash);
}
