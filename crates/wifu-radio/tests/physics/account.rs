//! Nothing is lost without account, nothing depends on who looks, nothing is allocated.

use crate::bench::*;
use crate::common::*;
use wifu_radio::phy::{Phy, Standard};
use wifu_radio::plan::{Plan, RadioConfig};
use wifu_radio::trace::{FrameKind, NOBODY, Record, What, Why};
use wifu_radio::{Counters, Event, Frame, LinkCounters, Radio};
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
        // What control frames were lost to has records and no counters.
        let lost = scene.records(node, What::Lost);
        let data = lost.iter().filter(|r| r.kind == FrameKind::Data);
        assert_eq!(c.lost.iter().sum::<u64>(), data.count() as u64);
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

/// An entry about packet 1 of one of two stations to the other, of which nothing is known but this.
fn entry(at: f64, what: What, node: u16) -> Record {
    Record {
        time: us(at),
        frame: 1,
        node,
        peer: 1 - node,
        what,
        mode: 0,
        tries: 0,
        why: Why::None,
        bytes: 0,
        signal: 0,
        other: NOBODY,
        kind: FrameKind::Data,
        flags: 0,
        value: 0,
    }
}

/// Received power as records have it, from one station at another.
fn hundredths(scene: &Scene, from: u16, to: u16) -> i16 {
    let dbm = scene
        .radio
        .power_dbm(from, to)
        .expect("they hear each other");
    (dbm * 100.0) as i16
}

/// Nothing else was recorded.
fn all_told(scene: &Scene, all: &[Record]) {
    for (told, expected) in scene.trace.iter().zip(all) {
        assert_eq!(told, expected);
    }
    assert_eq!(scene.trace.len(), all.len());
}

/// The exchange is in the accounts of who took part in it and who heard it, and nothing else is.
fn all_counted(scene: &Scene, from: u16, to: u16) {
    let busy = Span((52 + 44 + 536 + 44) * 1_000);
    let sender = Counters {
        queued: 1,
        delivered: 1,
        attempts: 1,
        tries: 1,
        rts: 1,
        airtime: Span((52 + 536) * 1_000),
        busy,
        ..Counters::default()
    };
    let receiver = Counters {
        received: 1,
        cts: 1,
        acks: 1,
        airtime: Span((44 + 44) * 1_000),
        busy,
        ..Counters::default()
    };
    let third = Counters {
        overheard: 1,
        busy,
        ..Counters::default()
    };
    let told = [from, to, 2, 3].map(|node| scene.radio.counters(node));
    assert_eq!(told, [sender, receiver, third, Counters::default()]);
    let link = LinkCounters {
        frames: 1,
        attempts: 1,
        decoded: 1,
        tries: 1,
        acked: 1,
        ..LinkCounters::default()
    };
    let beside = LinkCounters {
        overheard: 1,
        overheard_frames: 1,
        ..LinkCounters::default()
    };
    let done = scene.events.iter().find_map(|(_, event)| match *event {
        Event::Done { node, to, .. } => Some((node, to)),
        _ => None,
    });
    assert_eq!(done, Some((from, Some(to))));
    let links: Vec<_> = scene.radio.links(from).map(|(n, _, l)| (n, *l)).collect();
    let none = LinkCounters::default();
    assert_eq!(links, [(to, link), (2, beside), (3, none)]);
    assert!(scene.radio.links(to).all(|(.., l)| *l == none));
    let (_, snr, _) = scene.radio.links(0).next().expect("there is one");
    assert!((snr - 30.0).abs() < 0.01, "{snr} dB");
}

#[test]
fn records_tell_all_of_a_packet_that_arrives() {
    let mut radio = plain(24);
    radio.rts_threshold = 500;
    radio.control_rates = vec![mode_a(6)];
    let (data, control) = (mode_a(24).0, mode_a(6).0);
    // Station 2 hears both and is told nothing; what 3 hears is too weak.
    let snr = [
        vec![NONE, 30.0, 30.0, 3.0],
        vec![25.0, NONE, 30.0, 3.0],
        vec![NONE; 4],
        vec![NONE; 4],
    ];
    for (from, to) in [(0, 1), (1, 0)] {
        let mut scene = Scene::of(&snr, &radio, 1);
        scene.send(us(1000.0), from, Some(to), 1500);
        scene.until(secs(0.1));
        let shown: Vec<_> = scene.aired.iter().map(|a| (a.from, a.to)).collect();
        assert_eq!(shown, [(from, Some(to)), (to, Some(from))].repeat(2));
        // One frame of the exchange: when it begins, for how long, who sends it, and what.
        let frame = |at, took: f64, node, (kind, mode, bytes)| {
            let own = |at, what, node| Record {
                kind,
                mode,
                bytes,
                ..entry(at, what, node)
            };
            let sent = Record {
                value: (took * 1e3) as u32,
                ..own(at, What::Sent, node)
            };
            let received = Record {
                signal: hundredths(&scene, node, 1 - node),
                ..own(at + took, What::Received, 1 - node)
            };
            [sent, received]
        };
        let done = |what, mode| Record {
            mode,
            tries: 1,
            value: 724_000,
            ..entry(1724.0, what, from)
        };
        let mut all = vec![Record {
            bytes: 1500,
            value: 1,
            ..entry(1000.0, What::Queued, from)
        }];
        all.extend(frame(1000.0, 52.0, from, (FrameKind::Rts, control, 20)));
        all.extend(frame(1068.0, 44.0, to, (FrameKind::Cts, control, 14)));
        all.extend(frame(1128.0, 536.0, from, (FrameKind::Data, data, 1536)));
        all.extend(frame(1680.0, 44.0, to, (FrameKind::Ack, control, 14)));
        all.extend([done(What::Acknowledged, data), done(What::Reported, 0)]);
        all_told(&scene, &all);
        all_counted(&scene, from, to);
    }
}

#[test]
fn records_tell_all_of_a_packet_that_nobody_hears() {
    let mut radio = plain(24);
    radio.attempts = 2;
    let mode = mode_a(24).0;
    for (from, to) in [(0, 1), (1, 0)] {
        let mut scene = Scene::of(&[vec![NONE, NONE], vec![NONE, NONE]], &radio, 1);
        scene.send(us(1000.0), from, Some(to), 1500);
        scene.until(secs(0.1));
        let slots = scene.records(from, What::Deferred)[0].value;
        let again = 1536.0 + 94.0 + 9.0 * f64::from(slots);
        let attempt = |at: f64, flags| {
            let frame = |at, what, node| Record {
                mode,
                bytes: 1536,
                flags,
                ..entry(at, what, node)
            };
            let sent = Record {
                value: 536_000,
                ..frame(at, What::Sent, from)
            };
            let lost = Record {
                why: Why::Weak,
                ..frame(at + 536.0, What::Lost, to)
            };
            let failed = Record {
                mode,
                tries: 1 + flags,
                ..entry(at + 586.0, What::Failed, from)
            };
            [sent, lost, failed]
        };
        let over = |what, mode| Record {
            mode,
            tries: 2,
            value: ((again - 1000.0 + 586.0) * 1e3) as u32,
            ..entry(again + 586.0, what, from)
        };
        let mut all = vec![Record {
            bytes: 1500,
            value: 1,
            ..entry(1000.0, What::Queued, from)
        }];
        all.extend(attempt(1000.0, 0));
        // What is drawn is drawn for the attempt to come.
        all.push(Record {
            tries: 2,
            value: slots,
            ..entry(1586.0, What::Deferred, from)
        });
        all.extend(attempt(again, 1));
        all.extend([over(What::Dropped, mode), over(What::Reported, 0)]);
        all_told(&scene, &all);
        let air = Span(2 * 536_000);
        let sender = Counters {
            queued: 1,
            failed: 1,
            attempts: 2,
            tries: 2,
            retries: 1,
            airtime: air,
            busy: air,
            ..Counters::default()
        };
        assert_eq!(scene.radio.counters(from), sender);
        let mut receiver = Counters::default();
        receiver.lost[Why::Weak as usize] = 2;
        assert_eq!(scene.radio.counters(to), receiver);
    }
}

#[test]
fn records_of_a_broadcast_name_nobody_it_is_for() {
    let radio = RadioConfig {
        broadcast_rate: mode_a(6),
        ..plain(24)
    };
    let mut scene = Scene::of(&line(3, |_| 30.0), &radio, 1);
    scene.send(us(1000.0), 0, None, 100);
    scene.until(secs(0.1));
    let told: Vec<_> = scene
        .trace
        .iter()
        .map(|r| (r.what, r.node, r.peer))
        .collect();
    let expected = [
        (What::Queued, 0, NOBODY),
        (What::Sent, 0, NOBODY),
        (What::Received, 1, 0),
        (What::Received, 2, 0),
        (What::Acknowledged, 0, NOBODY),
        (What::Reported, 0, NOBODY),
    ];
    assert_eq!(told, expected);
    assert!(scene.trace.iter().all(|r| r.other == NOBODY));
    assert_eq!(scene.aired[0].to, None);
    // It is an attempt of the station, and of no link.
    assert_eq!(scene.radio.counters(0).attempts, 1);
    assert!(
        scene
            .radio
            .links(0)
            .all(|(.., l)| *l == LinkCounters::default())
    );
}

#[test]
fn records_tell_of_copies_and_of_what_found_the_queue_full() {
    // The way back is closed.
    let radio = RadioConfig {
        attempts: 2,
        queue: 1,
        ring: 1,
        ..plain(24)
    };
    let mut scene = Scene::of(&[vec![NONE, 30.0], vec![NONE, NONE]], &radio, 1);
    for _ in 0..3 {
        scene.send(us(1000.0), 0, Some(1), 1500);
    }
    scene.until(secs(0.1));
    let handed = |frame, what, value| Record {
        frame,
        bytes: 1500,
        value,
        ..entry(1000.0, what, 0)
    };
    assert_eq!(
        scene.records(0, What::Queued),
        [handed(1, What::Queued, 1), handed(2, What::Queued, 2)]
    );
    let c = scene.radio.counters(0);
    assert_eq!((c.queued, c.refused), (2, 1));
    // All arrived, and none was acknowledged.
    let link = LinkCounters {
        frames: 2,
        attempts: 4,
        decoded: 4,
        tries: 4,
        failed: 2,
        ..LinkCounters::default()
    };
    assert_eq!(scene.radio.links(0).next().map(|l| *l.2), Some(link));
    assert_eq!(
        scene.records(0, What::Refused),
        [handed(3, What::Refused, 2)]
    );
    let received = scene.records(1, What::Received);
    let told: Vec<_> = received.iter().map(|r| (r.frame, r.flags)).collect();
    assert_eq!(told, [(1, 0), (1, 1), (2, 0), (2, 1)]);
    // The second of each two is a copy, as soon as it is there.
    let copy = |frame, time| Record {
        frame,
        time,
        ..entry(0.0, What::Duplicate, 1)
    };
    assert_eq!(
        scene.records(1, What::Duplicate),
        [copy(1, received[1].time), copy(2, received[3].time)]
    );
}

#[test]
fn equal_seeds_give_equal_runs() {
    let hash = |seed, tracing: bool| {
        let mut scene = Scene::new(&muddle(), seed);
        scene.radio.set_tracing(tracing);
        scene.radio.set_watching(tracing);
        load(&mut scene, 3.0);
        scene.until(secs(4.0));
        let seen = [scene.trace.is_empty(), scene.aired.is_empty()];
        assert_eq!(seen, [!tracing; 2], "only who asks is told");
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
