//! Handlers that fail, that are too slow, and that end: what becomes of packets, and whether it is
//! counted.

use crate::common::privileged;
use crate::world::{
    B, MILLISECOND, PORT, World, chain, count, datagrams, hold, roomy, rule_of, ruled, sender,
    settings, told, with,
};
use core::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wifu_core::{Chain, Full, Hook, Hooks, Verdict};
use wifu_linux::core::config::{Needs, Settings};
use wifu_linux::core::{Control, Interception, Told};
use wifu_wire::Span;

#[test]
fn packets_pass_or_stop_when_a_handler_panics() {
    if !privileged() {
        return;
    }
    let w = World::new("panic");
    for full in [Full::Open, Full::Closed] {
        let bad = chain(|n, _| {
            assert!(n < 10, "the handler is broken on purpose");
            Verdict::Accept
        });
        let send = || datagrams(&w, 100, 100, MILLISECOND);
        let (came, report) = with(&w.b, bad, "INPUT", &settings(full), true, send);
        assert_eq!(report.state, "panicked");
        let decided = report.failed_open + report.failed_closed;
        // Those before, too, if their verdicts were in the same batch.
        assert!((91..=100).contains(&decided), "{report:?}");
        match full {
            Full::Open => assert_eq!((came.len(), report.failed_closed), (100, 0)),
            Full::Closed => assert_eq!(came.len() as u64, 100 - report.failed_closed),
        }
    }
}

#[test]
fn packets_pass_or_stop_when_a_handler_stalls() {
    if !privileged() {
        return;
    }
    let w = World::new("stall");
    for full in [Full::Open, Full::Closed] {
        let slow = chain(|n, _| {
            if n == 10 {
                std::thread::sleep(Duration::from_millis(1200));
            }
            Verdict::Accept
        });
        let begun = Instant::now();
        let send = || datagrams(&w, 300, 100, MILLISECOND);
        let (came, report) = with(&w.b, slow, "INPUT", &settings(full), true, send);
        assert_eq!(report.state, "stalled");
        match full {
            // Long before the handler comes back.
            Full::Open => {
                assert_eq!((came.len(), report.failed_closed), (300, 0));
                assert!(begun.elapsed() < Duration::from_millis(2500));
            }
            Full::Closed => assert_eq!(came.len() as u64, 300 - report.failed_closed),
        }
        let decided = report.failed_open + report.failed_closed;
        assert!((291..=300).contains(&decided), "{report:?}");
        // What it does when it comes back disturbs nobody.
        std::thread::sleep(Duration::from_millis(600));
    }
}

#[test]
fn a_buffer_that_overflows_is_counted_and_costs_packets_only_where_asked_for() {
    if !privileged() {
        return;
    }
    let w = World::new("enobufs");
    for full in [Full::Open, Full::Closed] {
        let slow = chain(|_, _| {
            std::thread::sleep(2 * MILLISECOND);
            Verdict::Accept
        });
        let tight = Settings {
            receive_buffer: 4096,
            ..settings(full)
        };
        let send = || datagrams(&w, 200, 1000, MILLISECOND / 10);
        let (came, report) = with(&w.b, slow, "INPUT", &tight, true, send);
        assert_eq!(report.state, "working");
        assert!(report.handlers.overflows > 0, "{report:?}");
        match full {
            Full::Open => {
                assert_eq!(came.len(), 200, "{report:?}");
                let hook = &report.handlers.hooks["input"];
                assert!(hook.passed_unseen > 0, "{report:?}");
                assert_eq!(hook.packets + hook.passed_unseen, 200, "{report:?}");
            }
            Full::Closed => {
                let lost = 200 - came.len() as u64;
                assert!(lost > 0, "{report:?}");
                assert_eq!(report.kernel["input"].dropped_buffer, lost);
            }
        }
    }
}

#[test]
fn packets_that_a_full_queue_let_pass_are_counted_to_the_last() {
    if !privileged() {
        return;
    }
    let w = World::new("full");
    for (length, some) in [(5, true), (4096, false)] {
        let slow = chain(|_, _| {
            std::thread::sleep(MILLISECOND);
            Verdict::Accept
        });
        let short = Settings {
            // The test opens with 100 more, for packets that are held.
            queue_length: length,
            ..settings(Full::Open)
        };
        let send = || datagrams(&w, 1000, 500, MILLISECOND / 10);
        let (came, report) = with(&w.b, slow, "INPUT", &short, true, send);
        assert_eq!(came.len(), 1000, "{report:?}");
        let hook = &report.handlers.hooks["input"];
        assert_eq!(hook.passed_unseen > 0, some, "{report:?}");
        assert_eq!(hook.packets + hook.passed_unseen, 1000, "{report:?}");
        let octets = hook.octets + hook.passed_unseen_octets;
        assert_eq!(octets, 1000 * 528, "{report:?}");
    }
}

#[test]
fn what_is_known_to_have_passed_unseen_is_not_taken_back_by_traffic_at_the_end() {
    if !privileged() {
        return;
    }
    let w = World::new("flow");
    let slow_at_first = chain(|n, _| {
        if n < 200 {
            std::thread::sleep(MILLISECOND);
        }
        Verdict::Accept
    });
    let short = Settings {
        queue_length: 5,
        ..settings(Full::Open)
    };
    let often = Control {
        interval: Some(Span(30_000_000)),
        ..Control::default()
    };
    let mut said = Vec::new();
    let hear = |told| {
        if let Told::Report(report) = told {
            let hook = report.handlers.hooks.get("input");
            said.push(hook.map_or(0, |h| h.passed_unseen));
        }
    };
    let over = AtomicBool::new(false);
    let sender = sender(&w);
    let send = || sender.send_to(&[0; 100], (B, PORT)).expect("send");
    let last = std::thread::scope(|scope| {
        let work = || {
            for _ in 0..1000 {
                send();
            }
            std::thread::sleep(1500 * MILLISECOND);
            // It goes on until the very end, and beyond.
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    send();
                    std::thread::sleep(MILLISECOND / 10);
                }
            });
            std::thread::sleep(300 * MILLISECOND);
        };
        let ((), last) = told(
            &w.b,
            slow_at_first,
            "INPUT",
            &short,
            true,
            &often,
            hear,
            work,
        );
        over.store(true, Ordering::Relaxed);
        last
    });
    let known = said[..said.len() - 1].iter().copied().max();
    let known = known.expect("reports");
    assert!(known > 500, "{said:?}");
    let unseen = last.handlers.hooks["input"].passed_unseen;
    assert!(unseen >= known, "{unseen}: {said:?}");
}

#[test]
fn what_still_waits_at_the_end_passes_or_is_dropped_and_is_counted() {
    if !privileged() {
        return;
    }
    let w = World::new("end");
    let receiver = roomy(&w);
    const COUNT: u64 = 150;
    for (what, state) in [
        ("slow", "working"),
        ("hangs", "working"),
        ("panics", "panicked"),
    ] {
        for full in [Full::Open, Full::Closed] {
            let bad = chain(move |n, _| {
                assert!(what != "panics" || n < 20, "broken on purpose");
                let hangs = what == "hangs" && n == 10;
                std::thread::sleep(if hangs { 1500 } else { 8 } * MILLISECOND);
                Verdict::Accept
            });
            let settings = Settings {
                stall: Span(5_000_000_000),
                ..settings(full)
            };
            let sender = sender(&w);
            let burst = || {
                for _ in 0..COUNT {
                    sender.send_to(&[0; 100], (B, PORT)).expect("send");
                }
            };
            let ((), report) = with(&w.b, bad, "INPUT", &settings, true, burst);
            let came = count(&receiver);
            assert_eq!(report.state, state, "{what}");
            match full {
                Full::Open => {
                    assert_eq!(
                        (came, report.failed_closed),
                        (COUNT, 0),
                        "{what}: {report:?}"
                    );
                    assert!(report.failed_open > 10, "{what}: {report:?}");
                }
                Full::Closed => {
                    assert_eq!(came + report.failed_closed, COUNT, "{what}: {report:?}");
                    assert_eq!(report.failed_open, 0, "{what}");
                }
            }
            assert_eq!(report.kernel["input"].waiting, 0, "{what}");
        }
    }
}

#[test]
fn what_comes_while_the_rules_go_is_counted_also_when_handlers_failed_before() {
    if !privileged() {
        return;
    }
    let w = World::new("late");
    let receiver = roomy(&w);
    const LATE: u64 = 4000;
    for full in [Full::Open, Full::Closed] {
        let bad = chain(|_, _| panic!("broken on purpose"));
        // They go one by one, and the one that matters is the last.
        let others = (1..=80).map(|port| {
            format!("INPUT -p tcp --dport {port} -j NFQUEUE --queue-bypass --queue-num 0")
        });
        let rules: Vec<String> = others.chain([rule_of(Hook::Input)]).collect();
        let long = Settings {
            queue_length: 100_000,
            receive_buffer: 1 << 26,
            ..settings(full)
        };
        let sender = sender(&w);
        let send = || sender.send_to(&[0; 100], (B, PORT)).expect("send");
        let report = std::thread::scope(|scope| {
            let work = || {
                send();
                std::thread::sleep(100 * MILLISECOND);
                scope.spawn(|| {
                    std::thread::sleep(50 * MILLISECOND);
                    for n in 0..LATE {
                        send();
                        // A backlog that all namespaces share has room for 1000.
                        if n % 100 == 0 {
                            std::thread::sleep(MILLISECOND);
                        }
                    }
                });
            };
            let quiet = Control::default();
            ruled(&w.b, bad, &rules, &long, true, &quiet, |_| {}, work).1
        });
        let came = count(&receiver);
        assert_eq!(report.state, "panicked");
        let (open, closed) = (report.failed_open, report.failed_closed);
        // Those of the last moments find no rule any more.
        assert!(
            (LATE / 4 * 3..=LATE + 1).contains(&(open + closed)),
            "{report:?}"
        );
        match full {
            Full::Open => assert_eq!((came, closed), (LATE + 1, 0), "{report:?}"),
            Full::Closed => assert_eq!((came + closed, open), (LATE + 1, 0), "{report:?}"),
        }
    }
}

#[test]
fn what_is_held_at_the_end_is_waited_for_and_what_remains_is_counted() {
    if !privileged() {
        return;
    }
    let w = World::new("wait");
    let receiver = roomy(&w);
    const COUNT: u64 = 50;
    // Less than the time that is left, and more.
    for (ms, in_time) in [(120, true), (3000, false)] {
        for full in [Full::Open, Full::Closed] {
            let mut chain = Chain::new();
            hold(&mut chain, Span(ms * 1_000_000));
            let sender = sender(&w);
            let burst = || {
                for _ in 0..COUNT {
                    sender.send_to(&[0; 100], (B, PORT)).expect("send");
                }
            };
            let ((), report) = with(&w.b, chain, "INPUT", &settings(full), true, burst);
            let came = count(&receiver);
            let hook = &report.handlers.hooks["input"];
            assert_eq!((hook.packets, hook.held), (COUNT, COUNT), "{report:?}");
            assert_eq!(hook.dropped, 0, "{report:?}");
            let failed = if in_time { 0 } else { COUNT };
            assert_eq!(hook.accepted + failed, COUNT, "{ms} {report:?}");
            let (came_wanted, counts) = match full {
                Full::Open => (COUNT, (failed, 0)),
                Full::Closed => (hook.accepted, (0, failed)),
            };
            assert_eq!(came, came_wanted, "{ms} {report:?}");
            let counted = (report.failed_open, report.failed_closed);
            assert_eq!(counted, counts, "{ms} {report:?}");
            assert_eq!(report.kernel["input"].waiting, 0, "{report:?}");
            let held = (report.handlers.held_now, report.handlers.held_octets);
            assert_eq!(held, (0, 0), "{report:?}");
            assert_eq!(hook.passed_unseen, 0, "{report:?}");
        }
    }
}

#[test]
fn packets_that_a_slow_handler_has_yet_to_see_are_not_taken_for_unseen_ones() {
    if !privileged() {
        return;
    }
    let w = World::new("slow");
    // Batches of 32 take less time than a report waits, and more.
    for (each, count) in [(2, 600), (5, 300)] {
        let slow = chain(move |_, _| {
            std::thread::sleep(each * MILLISECOND);
            Verdict::Accept
        });
        let often = Control {
            interval: Some(Span(30_000_000)),
            ..Control::default()
        };
        let mut reports = Vec::new();
        let hear = |told| {
            if let Told::Report(report) = told {
                reports.push(report);
            }
        };
        let send = || datagrams(&w, count, 500, MILLISECOND / 10);
        let settings = settings(Full::Open);
        let (came, last) = told(&w.b, slow, "INPUT", &settings, true, &often, hear, send);
        assert_eq!(came.len(), count as usize, "{last:?}");
        assert!(reports.len() > 5, "{last:?}");
        for report in &reports {
            let hook = report.handlers.hooks.get("input");
            assert_eq!(hook.map_or(0, |h| h.passed_unseen), 0, "{report:?}");
        }
        assert_eq!(last.handlers.hooks["input"].packets, u64::from(count));
    }
}

#[test]
fn a_queue_that_another_has_is_said_to_be_so() {
    if !privileged() {
        return;
    }
    let w = World::new("taken");
    let open = || {
        let hooks = Hooks::of(&[Hook::Input]);
        let chain = chain(|_, _| Verdict::Accept);
        Interception::open(chain, hooks, &settings(Full::Open), Needs::default())
    };
    let second = w.a.run(|| {
        let _first = open().expect("queue");
        open().err().map(|e| e.to_string())
    });
    let error = second.expect("namespace").expect("an error");
    assert!(error.contains("another program has it"), "{error}");
}
