//! The driver's measurement of delay (Behaviour 7), and rate control.

use crate::bench::*;
use crate::common::*;
use wifu_radio::discipline::{CodelParams, Discipline, PacketClass, Put};
use wifu_radio::phy::{Phy, Standard};
use wifu_radio::plan::{Plan, RadioConfig, RateControl};
use wifu_radio::{Event, Frame, Radio};
use wifu_wire::{Rng, Span, Time};

/// Delay samples in us of a station whose hardware always has 12 packets at hand: each frame that
/// begins is followed by a new packet, however late it is reported.
fn samples(batch: u32, latency: (u64, u64)) -> Vec<f64> {
    let radio = RadioConfig {
        intr_batch: batch,
        intr_latency: (Span(latency.0 * 1000), Span(latency.1 * 1000)),
        ..plain(24)
    };
    let plan = cell(&Phy::new(Standard::A, false), &radio, 2);
    let mut radio = Radio::new(&plan, &Rng::new(4));
    radio.set_watching(true);
    let packet = Frame {
        to: Some(1),
        bytes: 1500,
        cookie: 0,
    };
    let mut samples = Vec::new();
    for _ in 0..12 {
        assert!(radio.send(Time::ZERO, 0, packet));
    }
    let mut now = Time::ZERO;
    while now < secs(30.0) {
        now = radio.poll_timeout();
        radio.handle_timeout(now);
        while let Some(event) = radio.poll_event() {
            if let Event::Done { sample, .. } = event {
                samples.push(micros(sample));
            }
        }
        for frame in radio.take_aired() {
            if frame.from == 0 {
                assert!(radio.send(now, 0, packet));
            }
        }
    }
    samples.split_off(100)
}

fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

#[test]
fn coalesced_interrupts_inflate_what_the_driver_measures() {
    let ideal = mean(&samples(1, (0, 0)));
    // Half a batch, less one half, of cycles of 681.5 us.
    for (batch, expected) in [(4, 1022.0), (8, 2385.0)] {
        let found = samples(batch, (0, 0));
        let bias = mean(&found) - ideal;
        println!("batch of {batch}: {bias:.0} us more, {expected} expected");
        assert!((bias - expected).abs() < 12.0, "batch {batch}: {bias} us");
        // The first of a batch waited for all others.
        let in_batch = |k: u32| -> Vec<f64> {
            let begin = (0..found.len() - 1).find(|i| found[*i + 1] > found[*i] + 300.0);
            let from = begin.expect("a batch ends") + 1 + k as usize;
            found[from..]
                .iter()
                .step_by(batch as usize)
                .copied()
                .collect()
        };
        let spread = mean(&in_batch(0)) - mean(&in_batch(batch - 1));
        let cycles = spread / 681.5;
        assert!(
            (cycles - f64::from(batch - 1)).abs() < 0.05,
            "{cycles} cycles"
        );
    }
    // The latency of the interrupt comes on top.
    let late = mean(&samples(1, (20, 80))) - ideal;
    assert!((late - 50.0).abs() < 12.0, "{late} us");
}

#[test]
fn a_full_queue_refuses_and_tells_when_it_has_room() {
    let radio = RadioConfig {
        queue: 20,
        ring: 10,
        ..plain(24)
    };
    let mut scene = Scene::of(&line(2, |_| 30.0), &radio, 1);
    for _ in 0..40 {
        scene.send(us(1000.0), 0, Some(1), 1500);
    }
    scene.until(secs(0.5));
    let c = scene.radio.counters(0);
    assert_eq!((scene.refused, c.refused, c.queued), (10, 10, 30));
    assert_eq!(scene.got(1, 0).len(), 30);
    let room = |e: &&(Time, Event)| matches!(e.1, Event::Room { node: 0 });
    // Once: when the ring is half empty and the queue moves on.
    let rooms: Vec<_> = scene.events.iter().filter(room).collect();
    assert_eq!(rooms.len(), 1);
    let reported = |e: &&(Time, Event)| matches!(e.1, Event::Done { .. }) && e.0 <= rooms[0].0;
    assert_eq!(scene.events.iter().filter(reported).count(), 5);
}

/// Goodput in Mb/s of a link with this SNR and rate.
fn goodput(snr: f64, radio: &RadioConfig) -> f64 {
    let phy = Phy::new(Standard::A, false);
    let plan = Plan::from_snr(phy, radio, &line(2, |_| snr));
    let mut run = Run::new(&plan, 6, &[saturate(0, 1)]);
    run.until(secs(6.0));
    run.received(1, secs(1.0), secs(6.0)) as f64 * 12_000.0 / 5.0 / 1e6
}

#[test]
fn minstrel_finds_a_rate_for_every_link() {
    let phy = Phy::new(Standard::A, false);
    let seven = |mbit| RadioConfig {
        attempts: 7,
        ..plain(mbit)
    };
    for snr in [5.0, 8.0, 11.0, 15.0, 19.0, 24.0, 30.0] {
        let fixed: Vec<f64> = phy
            .modes()
            .iter()
            .map(|m| goodput(snr, &seven(m.rate().0 / MBIT)))
            .collect();
        let best = fixed.iter().copied().fold(0.0, f64::max);
        for start in [6, 54] {
            let minstrel = RadioConfig {
                rate_control: RateControl::Minstrel,
                ..seven(start)
            };
            let found = goodput(snr, &minstrel);
            println!("{snr} dB, from {start} Mb/s: {found:.2} Mb/s, best {best:.2}");
            assert!(
                found > 0.75 * best,
                "{snr} dB from {start}: {found}, best {best}"
            );
            assert!(found < 1.02 * best, "{snr} dB: {found} of {best}");
            let beaten = fixed.iter().filter(|f| **f < found).count();
            assert!(beaten >= 6, "{snr} dB: {found} beats {beaten} of {fixed:?}");
        }
    }
}

#[test]
fn minstrel_follows_a_link_that_gets_worse() {
    let minstrel = RadioConfig {
        rate_control: RateControl::Minstrel,
        attempts: 7,
        ..plain(54)
    };
    let phy = Phy::new(Standard::A, false);
    let plan = Plan::from_snr(phy, &minstrel, &line(2, |_| 30.0));
    let mut run = Run::new(&plan, 6, &[saturate(0, 1)]);
    run.until(secs(3.0));
    let noise = minstrel.noise_dbm;
    run.radio.set_gain(0, 1, noise + 9.0);
    run.until(secs(8.0));
    let mbps = |from, to| run.received(1, secs(from), secs(to)) as f64 * 12e3 / 1e6 / (to - from);
    let (before, after) = (mbps(1.0, 3.0), mbps(5.0, 8.0));
    assert!(before > 20.0, "{before}");
    let best = goodput(9.0, &plain(12)).max(goodput(9.0, &plain(9)));
    assert!(after > 0.7 * best, "{after} of {best}");
}

/// Two stations that hear each other.
fn pair(config: &RadioConfig) -> Radio {
    let phy = Phy::new(Standard::A, false);
    let plan = Plan::from_snr(phy, config, &beads(2, 30.0));
    Radio::new(&plan, &Rng::new(1))
}

/// A packet of 1 for 0.
fn put(radio: &mut Radio, cookie: u32, ect: bool) -> Put {
    let class = PacketClass {
        ect,
        ..PacketClass::default()
    };
    let frame = Frame {
        to: Some(0),
        bytes: 1500,
        cookie,
    };
    radio.put(us(1000.0), 1, frame, class)
}

/// All that the nodes learn until nothing happens any more.
fn events(radio: &mut Radio) -> Vec<Event> {
    let mut all = Vec::new();
    loop {
        all.extend(core::iter::from_fn(|| radio.poll_event()));
        let next = radio.poll_timeout();
        if next == Time::NEVER {
            return all;
        }
        radio.handle_timeout(next);
    }
}

/// Cookies of the packets for 0 that were reported without an attempt.
fn untried(events: &[Event]) -> Vec<u32> {
    let pick = |e: &Event| match *e {
        Event::Done {
            node: 1,
            to: Some(0),
            cookie,
            delivered: false,
            tries: 0,
            ..
        } => Some(cookie),
        _ => None,
    };
    events.iter().filter_map(pick).collect()
}

#[test]
fn what_a_discipline_marks_and_drops_is_counted_apart_from_what_finds_the_queue_full() {
    let config = RadioConfig {
        queue: 4,
        ring: 1,
        discipline: Some(Discipline::Step(1)),
        ..plain(24)
    };
    let mut radio = pair(&config);
    // One in the ring; then the queue fills, which signals with two in it.
    let ect = [false, false, false, false, true, true, true];
    let became: Vec<Put> = ect
        .into_iter()
        .zip(0..)
        .map(|(e, n)| put(&mut radio, n, e))
        .collect();
    let (taken, marked) = (Put::Taken, Put::Marked);
    assert_eq!(
        became,
        [taken, taken, taken, Put::Early, marked, marked, Put::Full]
    );
    let c = radio.counters(1);
    assert_eq!((c.queued, c.early, c.marked, c.refused), (5, 1, 2, 1));
    assert_eq!((c.waited, c.ring), (4, 1));
}

#[test]
fn what_a_discipline_does_as_packets_leave_is_told_and_counted() {
    let config = RadioConfig {
        queue: 100,
        ring: 1,
        discipline: Some(Discipline::Codel(CodelParams {
            target: Span(1_000),
            interval: Span::MILLI,
        })),
        ..plain(24)
    };
    let mut radio = pair(&config);
    for cookie in 0..80 {
        assert_eq!(put(&mut radio, cookie, cookie >= 40), Put::Taken);
    }
    let events = events(&mut radio);
    let marked: Vec<u32> = events
        .iter()
        .filter_map(|e| match *e {
            Event::Marked { node: 1, cookie } => Some(cookie),
            _ => None,
        })
        .collect();
    let dropped = untried(&events);
    // Of those that do not understand marks some are dropped, the others are marked.
    assert!(
        marked.len() > 2 && marked.iter().all(|c| *c >= 40),
        "{marked:?}"
    );
    assert!(
        dropped.len() > 2 && dropped.iter().all(|c| *c < 40),
        "{dropped:?}"
    );
    let c = radio.counters(1);
    assert_eq!(
        (c.marked, c.early),
        (marked.len() as u64, dropped.len() as u64)
    );
    assert_eq!((c.queued, c.delivered), (80, 80 - c.early));
}

#[test]
fn what_is_lost_as_a_radio_starts_anew_is_reported_and_counted_as_failed() {
    let mut radio = pair(&plain(24));
    for cookie in 0..3 {
        assert_eq!(put(&mut radio, cookie, false), Put::Taken);
    }
    radio.restart(us(1100.0), 1);
    assert_eq!(radio.counters(1).failed, 2);
    assert_eq!(untried(&events(&mut radio)), [1, 2]);
    // The first was in the hardware.
    let c = radio.counters(1);
    assert_eq!((c.queued, c.delivered, c.failed), (3, 1, 2));
}
