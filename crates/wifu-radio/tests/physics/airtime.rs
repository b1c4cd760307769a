//! Airtime anchors (Behaviour 11.1) as the machine produces them.

use crate::bench::*;
use crate::common::*;
use wifu_radio::phy::{Mode, Phy, Standard};
use wifu_radio::plan::RadioConfig;
use wifu_radio::{OnAir, Radio};
use wifu_wire::Span;

fn pair(phy: &Phy, rate: Mode, control: Option<Mode>) -> Scene {
    let mut radio = RadioConfig {
        intr_batch: 1,
        intr_latency: (Span::ZERO, Span::ZERO),
        ..RadioConfig::new(phy, rate)
    };
    if let Some(control) = control {
        radio.control_rates = vec![control];
    }
    Scene::new(&cell(phy, &radio, 2), 3)
}

/// Time from one start to the next, with the back-off counted as `cw_min / 2` slots instead of
/// what it was. Fails unless every difference is a fixed time plus 0 to `cw_min` slots.
fn cycle(phy: &Phy, starts: &[OnAir]) -> f64 {
    let gaps: Vec<u64> = starts
        .windows(2)
        .map(|w| (w[1].start - w[0].start).0)
        .collect();
    let shortest = gaps.iter().copied().min().expect("frames were sent");
    let mut seen = vec![0u32; usize::from(phy.cw_min) + 1];
    for gap in &gaps {
        assert_eq!((gap - shortest) % phy.slot.0, 0, "no whole number of slots");
        seen[((gap - shortest) / phy.slot.0) as usize] += 1;
    }
    // Uniform: chi-square below its 99.99 % point for so many classes.
    let expected = gaps.len() as f64 / seen.len() as f64;
    let chi: f64 = seen
        .iter()
        .map(|n| (f64::from(*n) - expected).powi(2) / expected)
        .sum();
    let freedom = seen.len() as f64 - 1.0;
    assert!(
        chi < freedom + 4.0 * (2.0 * freedom).sqrt(),
        "back-offs {seen:?}"
    );
    (shortest + phy.slot.0 * u64::from(phy.cw_min) / 2) as f64 / 1e3
}

fn saturated(phy: &Phy, rate: Mode, control: Option<Mode>, bytes: u16) -> f64 {
    let mut scene = pair(phy, rate, control);
    scene.saturate(0, Some(1), bytes);
    scene.until(secs(8.0));
    assert_eq!(scene.radio.counters(0).retries, 0);
    cycle(phy, &scene.data(0))
}

#[test]
fn cycles_of_802_11a_are_the_anchors() {
    let phy = Phy::new(Standard::A, false);
    for (mbit, bytes, expected) in [
        (24, 1500, 681.5),
        (24, 52, 197.5),
        (6, 1500, 2233.5),
        (6, 52, 305.5),
    ] {
        assert_eq!(saturated(&phy, mode_a(mbit), None, bytes), expected);
    }
}

#[test]
fn frames_on_the_air_have_the_lengths_of_the_anchors() {
    let phy = Phy::new(Standard::A, false);
    for (mbit, data, ack) in [(24, 536.0, 28.0), (6, 2072.0, 44.0)] {
        let mut scene = pair(&phy, mode_a(mbit), None);
        scene.send(us(100.0), 0, Some(1), 1500);
        scene.until(secs(0.1));
        let [d, a] = scene.aired[..] else {
            panic!("{:?}", scene.aired)
        };
        assert_eq!(
            (micros(d.end - d.start), micros(a.end - a.start)),
            (data, ack)
        );
        assert_eq!(micros(a.start - d.end), 16.0);
        assert_eq!(
            d.duration,
            a.end - d.end,
            "reserved up to the end of the ACK"
        );
        assert_eq!(a.duration, Span::ZERO);
    }
}

/// Mb/s of segments of `payload` octets and their acknowledgements as they take turns without
/// collisions, each with its mean back-off.
fn turns(data: f64, ack: f64, per_ack: f64, payload: f64) -> f64 {
    per_ack * payload * 8.0 / (per_ack * data + ack)
}

fn near(found: f64, anchor: f64) {
    assert!((found - anchor).abs() < 0.006, "{found} for {anchor}");
}

#[test]
fn a_transport_on_one_hop_gets_what_the_anchors_say() {
    let phy = Phy::new(Standard::A, false);
    for (mbit, every, second, none) in [(24, 13.18, 14.85, 17.0), (6, 4.56, 4.85, 5.19)] {
        let data = saturated(&phy, mode_a(mbit), None, 1500);
        let ack = saturated(&phy, mode_a(mbit), None, 52);
        near(turns(data, ack, 1.0, 1448.0), every);
        near(turns(data, ack, 2.0, 1448.0), second);
        near(turns(data, 0.0, 1.0, 1448.0), none);
    }
    let eleven = mode(Standard::B, 11);
    for (short, control, ip, second, every) in [
        (true, 1, (1500, 40), 5.64, 4.85),
        (true, 1, (1512, 52), 5.60, 4.81),
        (false, 0, (1500, 40), 4.78, 4.02),
    ] {
        let phy = Phy::new(Standard::B, short);
        let data = saturated(&phy, eleven, Some(Mode(control)), ip.0);
        let ack = saturated(&phy, eleven, Some(Mode(control)), ip.1);
        near(turns(data, ack, 2.0, 1460.0), second);
        near(turns(data, ack, 1.0, 1460.0), every);
    }
}

/// Mean slots that a station waits if two stations take turns and each draws its back-off when its
/// own frame is done, so that it counts off while the other one waits. What is left counts next
/// time, else a new one is drawn.
fn slots_of_turns(cw: usize) -> f64 {
    let n = cw + 1;
    let share = 1.0 / n as f64;
    let mut left = vec![0.0; n];
    left[0] = 1.0;
    for _ in 0..200 {
        let mut next = vec![0.0; n];
        for (waits, p) in waiting(&left).iter().enumerate() {
            for drawn in 0..n {
                // The slot in which the medium becomes busy counts.
                next[drawn.saturating_sub(waits + 1)] += p * share;
            }
        }
        left = next;
    }
    waiting(&left)
        .iter()
        .enumerate()
        .map(|(w, p)| w as f64 * p)
        .sum()
}

/// The distribution of the wait, from that of what is left: nothing left means a new draw.
fn waiting(left: &[f64]) -> Vec<f64> {
    let fresh = left[0] / left.len() as f64;
    left.iter()
        .enumerate()
        .map(|(w, p)| if w == 0 { fresh } else { fresh + p })
        .collect()
}

#[test]
fn stations_that_take_turns_wait_as_the_rest_of_the_post_back_off_says() {
    let phy = Phy::new(Standard::A, false);
    let mut scene = pair(&phy, mode_a(24), None);
    scene.send(us(1000.0), 0, Some(1), 1500);
    scene.until(us(1000.0));
    let mut seen = 0;
    for _ in 0..20_000 {
        // Whoever has received something answers.
        while scene.events.len() == seen {
            let at = scene.radio.poll_timeout();
            scene.until(at);
        }
        let at = scene.now;
        for i in core::mem::replace(&mut seen, scene.events.len())..seen {
            if let wifu_radio::Event::Received { node, from, .. } = scene.events[i].1 {
                let bytes = if node == 1 { 52 } else { 1500 };
                scene.send(at, node, Some(from), bytes);
            }
        }
    }
    let frames = scene.data(0).len() + scene.data(1).len();
    assert!(frames > 9_900 && scene.radio.counters(0).retries == 0);
    let rounds = scene.data(0);
    let mean = micros(rounds[rounds.len() - 1].start - rounds[0].start) / (rounds.len() - 1) as f64;
    let fixed = 681.5 + 197.5 - 2.0 * 67.5;
    let slots = (mean - fixed) / 9.0 / 2.0;
    let expected = slots_of_turns(15);
    println!("taking turns: {slots:.3} slots, {expected:.3} expected");
    assert!(
        (slots - expected).abs() < 0.1,
        "{slots} slots, not {expected}"
    );
    assert!(expected < 7.5 - 0.5, "the post-back-off saves time");
}

#[test]
fn d0_is_a_cycle_without_contention() {
    let phy = Phy::new(Standard::A, false);
    for (mbit, expected) in [(24, 681.5), (6, 2233.5)] {
        let radio: Radio = pair(&phy, mode_a(mbit), None).radio;
        assert_eq!(radio.link(0).first.map(micros), Some(expected));
    }
}
