//! By TUN devices in the place of NFQUEUE.

use crate::common::privileged;
use crate::world::{
    B, MILLISECOND, PORT, World, by_tun, chain, count, datagrams, roomy, sender, settings,
};
use std::time::Duration;
use wifu_core::{Full, Verdict};
use wifu_linux::core::config::Settings;

#[test]
fn by_tun_packets_pass_or_stop_when_a_handler_fails() {
    if !privileged() {
        return;
    }
    for full in [Full::Open, Full::Closed] {
        for (panics, state) in [(true, "panicked"), (false, "stalled")] {
            // Whoever forks meanwhile keeps the device for a moment.
            let w = World::new("tunfail");
            let bad = chain(move |n, _| {
                assert!(n < 10 || !panics, "the handler is broken on purpose");
                if n == 10 {
                    std::thread::sleep(Duration::from_millis(1200));
                }
                Verdict::Accept
            });
            let send = || datagrams(&w, 300, 100, MILLISECOND);
            let (came, report) = by_tun(&w.a, bad, &settings(full), send);
            assert_eq!(report.state, state);
            match full {
                Full::Open => assert_eq!((came.len(), report.failed_open), (300, 291)),
                Full::Closed => assert_eq!((came.len(), report.failed_closed), (9, 291)),
            }
        }
    }
}

#[test]
fn by_tun_what_still_waits_at_the_end_passes_or_is_dropped_and_is_counted() {
    if !privileged() {
        return;
    }
    for full in [Full::Open, Full::Closed] {
        // Whoever forks meanwhile keeps the device for a moment.
        let w = World::new("tunend");
        let receiver = roomy(&w);
        let slow = chain(|_, _| {
            std::thread::sleep(8 * MILLISECOND);
            Verdict::Accept
        });
        let sender = sender(&w);
        let burst = || {
            for _ in 0..150 {
                sender.send_to(&[0; 100], (B, PORT)).expect("send");
            }
        };
        let ((), report) = by_tun(&w.a, slow, &settings(full), burst);
        let came = count(&receiver);
        assert_eq!(report.state, "working");
        let left = report.failed_open + report.failed_closed;
        assert!((1..150).contains(&left), "{report:?}");
        match full {
            Full::Open => assert_eq!((came, report.failed_closed), (150, 0)),
            Full::Closed => assert_eq!((came, report.failed_open), (150 - left, 0)),
        }
    }
}

#[test]
fn by_tun_what_finds_the_queue_full_is_dropped_and_counted() {
    if !privileged() {
        return;
    }
    let w = World::new("tunfull");
    let receiver = roomy(&w);
    let slow = chain(|_, _| {
        std::thread::sleep(2 * MILLISECOND);
        Verdict::Accept
    });
    let short = Settings {
        queue_length: 10,
        ..settings(Full::Open)
    };
    let sender = sender(&w);
    let burst = || {
        for _ in 0..500 {
            let _ = sender.send_to(&[0; 100], (B, PORT));
        }
        std::thread::sleep(200 * MILLISECOND);
    };
    let ((), report) = by_tun(&w.a, slow, &short, burst);
    let queue = report.kernel["output"];
    assert!(queue.dropped_full > 0, "{report:?}");
    assert_eq!(queue.packets + queue.dropped_full, 500, "{report:?}");
    assert_eq!(count(&receiver), queue.packets, "{report:?}");
}
