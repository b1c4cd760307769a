//! `tcp-linux` and `tcp-linux-reno`: what a Linux kernel does, as far as the wire shows it.

mod tcp_common;

use tcp_common::*;
use wifu_testkit::pair::Pair;
use wifu_wire::{Flags, Span};

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
