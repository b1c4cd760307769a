//! Nothing is lost without account, nothing depends on who looks, nothing is allocated.

use crate::bench::*;
use crate::common::*;
use wifu_radio::phy::{Phy, Standard};
use wifu_radio::plan::{Plan, RadioConfig};
use wifu_radio::trace::{FrameKind, What};
use wifu_radio::{Event, Frame, Radio};
use wifu_wire::{Rng, Span};

/// Eight stations in a row that vary, hidden from each other beyond two hops, with RTS for long
/// frames, small queues, broadcasts and cross traffic: everything at once.
fn muddle() -> Plan {
    let radio = RadioConfig {
        attempts: 3,
        attempts_long: 2,
        rts_threshold: 800,
        queue: 3,
        ring: 4,
        intr_batch: 4,
        intr_latency: (Span(20_000), Span(80_000)),
        mim_db: Some(10.0),
        overhear_loss: 0.3,
        ..plain(24)
    };
    let snr = line(8, |d| 16.0 - 30.0 * (d as f64).log10());
    let mut plan = Plan::from_snr(Phy::new(Standard::A, false), &radio, &snr);
    for (from, row) in plan.gains.iter_mut().enumerate() {
        for g in row {
            g.sigma_db = 2.0;
            g.tau = Span::from_secs_f64(0.5);
            g.rng = Rng::new(7).split_n(from as u64).split_n(u64::from(g.to));
        }
    }
    plan
}

fn load(scene: &mut Scene, seconds: f64) {
    let mut rng = Rng::new(21);
    for node in 0..8u16 {
        for step in [1i32, -1, 2] {
            let to = i32::from(node) + step;
            if (0..8).contains(&to) {
                let bytes = if step == 1 { 1500 } else { 200 };
                scene.poisson(
                    &mut rng,
                    90.0,
                    secs(seconds),
                    (node, Some(to as u16), bytes),
                );
            }
        }
        scene.poisson(&mut rng, 5.0, secs(seconds), (node, None, 100));
    }
}

fn muddled(seconds: f64) -> Scene {
    let mut scene = Scene::new(&muddle(), 9);
    load(&mut scene, seconds);
    // Time enough for the last to be reported.
    scene.until(secs(seconds + 5.0));
    scene
}

#[test]
fn every_packet_ends_in_exactly_one_report() {
    let scene = muddled(20.0);
    let cookies = scene.packets();
    let mut accepted = vec![false; cookies];
    let mut done = vec![0u32; cookies];
    let mut delivered = vec![false; cookies];
    let mut received = vec![0u32; cookies];
    let mut broadcast = vec![false; cookies];
    for (_, event) in &scene.events {
        match *event {
            Event::Done {
                cookie,
                delivered: d,
                to,
                ..
            } => {
                let c = cookie as usize;
                done[c] += 1;
                (delivered[c], broadcast[c]) = (d, to.is_none());
            }
            Event::Received { cookie, .. } => received[cookie as usize] += 1,
            _ => {}
        }
    }
    let mut queued = 0;
    for (cookie, taken) in &scene.handed {
        accepted[*cookie as usize] = *taken;
        queued += u64::from(*taken);
    }
    for c in 0..cookies {
        assert_eq!(done[c], u32::from(accepted[c]), "packet {c}");
        if !broadcast[c] {
            assert!(
                received[c] <= 1 && u32::from(delivered[c]) <= received[c],
                "packet {c}"
            );
        }
    }
    let refused = cookies as u64 - queued;
    let failed = done
        .iter()
        .zip(&delivered)
        .filter(|(n, d)| **n == 1 && !**d)
        .count();
    assert!(
        refused > 100 && failed > 100,
        "{refused} refused, {failed} failed: too tame a test"
    );
    let unheard = (0..cookies)
        .filter(|c| !delivered[*c] && received[*c] == 1)
        .count();
    assert!(unheard > 10, "received, but the ACK was lost: {unheard}");
}

#[test]
fn counters_and_records_tell_the_same() {
    let scene = muddled(20.0);
    let mut links = (0, 0, 0);
    let mut sums = (0, 0, 0);
    for node in 0..8u16 {
        let c = scene.radio.counters(node);
        let n = |what| scene.records(node, what).len() as u64;
        let air = |kind| scene.sent(node, kind).len() as u64;
        assert_eq!((c.queued, c.refused), (n(What::Queued), n(What::Refused)));
        assert_eq!(c.queued, c.delivered + c.failed, "nothing remains");
        assert_eq!(
            (c.delivered, c.failed),
            (n(What::Acknowledged), n(What::Dropped))
        );
        assert_eq!(c.queued, n(What::Reported));
        assert_eq!(c.attempts, air(FrameKind::Data));
        assert_eq!(
            (c.rts, c.cts, c.acks),
            (
                air(FrameKind::Rts),
                air(FrameKind::Cts),
                air(FrameKind::Ack)
            )
        );
        // An RTS without an answer is an attempt that failed, too.
        assert_eq!(c.retries, n(What::Failed) - c.failed);
        assert_eq!(c.lost.iter().sum::<u64>(), n(What::Lost));
        assert_eq!(c.duplicates, n(What::Duplicate));
        let airtime: Span = scene
            .aired
            .iter()
            .filter(|a| a.from == node)
            .fold(Span::ZERO, |sum, a| sum + (a.end - a.start));
        assert_eq!(c.airtime, airtime);
        assert!(c.busy >= c.airtime && c.busy <= Span::SECOND * 25);
        let unicast = scene.data(node).iter().filter(|a| a.to.is_some()).count() as u64;
        let (mut attempts, mut tries) = (0, 0);
        for (_, _, l) in scene.radio.links(node) {
            assert_eq!(l.frames, l.acked + l.failed);
            assert!(l.acked <= l.decoded && l.decoded <= l.attempts);
            attempts += l.attempts;
            tries += l.tries - l.acked;
            links = (
                links.0 + l.attempts,
                links.1 + l.decoded,
                links.2 + l.overheard,
            );
        }
        assert_eq!((attempts, tries), (unicast, n(What::Failed)));
        let broadcasts = scene.events.iter().filter(
            |(_, e)| matches!(e, Event::Received { node: n, broadcast: true, .. } if *n == node),
        );
        let got = c.received - broadcasts.count() as u64;
        sums = (
            sums.0 + got + c.duplicates,
            sums.1 + c.lost.iter().sum::<u64>(),
            sums.2 + c.overheard,
        );
    }
    // What was sent to somebody was decoded or lost there, no third.
    assert_eq!(links.0, links.1 + sums.1);
    assert_eq!(links.1, sums.0);
    assert_eq!(links.2, sums.2);
}

#[test]
fn equal_seeds_give_equal_runs() {
    let hash = |seed, tracing: bool| {
        let mut scene = Scene::new(&muddle(), seed);
        scene.radio.set_tracing(tracing);
        scene.radio.set_watching(tracing);
        load(&mut scene, 3.0);
        scene.until(secs(4.0));
        (scene.radio.trace_hash(), scene.events.len())
    };
    assert_eq!(hash(1, true), hash(1, true));
    assert_eq!(hash(1, true), hash(1, false), "to look changes nothing");
    assert_ne!(hash(1, true).0, hash(2, true).0);
}

#[test]
fn a_pair_far_away_changes_nothing() {
    let with = |pair: bool| {
        let mut plan = muddle();
        if pair {
            for i in 8..10u16 {
                plan.nodes.push(wifu_radio::plan::NodePlan {
                    name: format!("n{}", i + 1),
                    ..plan.nodes[0].clone()
                });
                plan.gains.push(vec![wifu_radio::plan::Gain {
                    to: 17 - i,
                    mean_dbm: -70.0,
                    sigma_db: 1.0,
                    tau: Span::SECOND,
                    rng: Rng::new(1),
                }]);
            }
        }
        let mut scene = Scene::new(&plan, 9);
        load(&mut scene, 3.0);
        if pair {
            scene.saturate(8, Some(9), 1500);
            scene.saturate(9, Some(8), 700);
        }
        scene.until(secs(4.0));
        if pair {
            assert!(scene.got(9, 8).len() > 1000);
        }
        let old: Vec<_> = scene.aired.iter().filter(|a| a.from < 8).copied().collect();
        (old, scene.done(3))
    };
    let (alone, together) = (with(false), with(true));
    assert_eq!(alone, together);
}

#[test]
fn steady_traffic_allocates_nothing() {
    let mut plan = muddle();
    for node in &mut plan.nodes {
        node.radio.queue = 100;
    }
    let mut radio = Radio::new(&plan, &Rng::new(3));
    let mut frames = 0u64;
    let mut run = |from: f64, to: f64| {
        let mut now = secs(from);
        if from == 0.0 {
            for node in 0..7u16 {
                for cookie in 0..6 {
                    let to = if cookie == 5 { None } else { Some(node + 1) };
                    let bytes = 200 + 250 * cookie as u16;
                    radio.send(now, node, Frame { to, bytes, cookie });
                }
            }
        }
        while now < secs(to) {
            now = radio.poll_timeout();
            radio.handle_timeout(now);
            while let Some(event) = radio.poll_event() {
                if let Event::Done {
                    node, to, cookie, ..
                } = event
                {
                    frames += 1;
                    let bytes = 200 + 250 * cookie as u16;
                    radio.send(now, node, Frame { to, bytes, cookie });
                }
            }
        }
    };
    run(0.0, 2.0);
    let allocated = crate::alloc::allocations_in(|| run(2.0, 12.0));
    assert_eq!(allocated, 0);
    assert!(frames > 10_000, "{frames}");
}
