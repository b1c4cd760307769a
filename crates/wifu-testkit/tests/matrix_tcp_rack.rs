//! RACK-TLP (RFC 8985): losses by time, and probes for acknowledgements that stay out.

mod tcp_common;

use tcp_common::*;
use wifu_engine::Reason;
use wifu_testkit::pair::{Fate, Pair, Seen, pattern};
use wifu_wire::{Flags, Seq, Span, SynOptions, Time};

/// Protocols that report ranges, with or without; round trips of 100 ms.
fn specs(rack: &'static str) -> impl Iterator<Item = String> {
    ["tcp-sack", "tcp-cubic"].into_iter().flat_map(move |base| {
        ["on", "off"]
            .map(move |dsack| format!("{base},profile=rfc-modern,iw=10,rack={rack},dsack={dsack}"))
    })
}

fn transfer(octets: usize) -> Pair {
    let mut pair = one_way(octets);
    pair.delay = ms(50);
    pair
}

/// The transmissions of the segment that begins at the `n`th octet of the client's stream.
fn copies(pair: &Pair, n: u32) -> Vec<&Seen> {
    let first = data(pair, 0).next().unwrap().seg.seq;
    data(pair, 0)
        .filter(|s| s.seg.seq == first.plus(n))
        .collect()
}

/// Lose the first `times` transmissions of each of these segments of 1448 octets.
fn lose_segments(pair: &mut Pair, segments: &'static [u32], times: usize) {
    let (mut first, mut counts) = (None::<Seq>, vec![0; segments.len()]);
    lose(pair, move |f, seg| {
        if f.from != 0 || seg.is_empty() {
            return false;
        }
        let start = *first.get_or_insert(seg.seq);
        let n = seg.seq.since(start) / 1448;
        match segments.iter().position(|s| *s == n) {
            Some(i) => {
                counts[i] += 1;
                counts[i] <= times
            }
            None => false,
        }
    });
}

//= rfc8985#section-6.2
#[test]
fn a_retransmission_that_is_lost_is_repaired_without_the_timer() {
    for (rack, timeouts) in [("on", 0), ("off", 1)] {
        for spec in specs(rack) {
            let mut pair = transfer(400_000);
            lose_segments(&mut pair, &[30, 32, 33], 2);
            let pair = complete(pair, &spec, 600);
            assert_eq!(pair.conn(0).board().tx.timeouts, timeouts, "{spec}");
            assert_eq!(copies(&pair, 30 * 1448).len(), 3, "{spec}");
            if rack == "on" {
                // Each copy a round trip after the one before, or little more.
                let at: Vec<Time> = copies(&pair, 30 * 1448).iter().map(|s| s.at).collect();
                assert!(at[2] - at[1] < ms(150), "{spec}: {at:?}");
                assert_eq!(
                    repeated(&pair, 0).len(),
                    6,
                    "{spec}: nothing else went again"
                );
            }
        }
    }
}

//= rfc8985#section-7
#[test]
fn the_last_segments_are_asked_for_before_the_timer_takes_them_for_lost() {
    // 100 segments; of the last ones nothing arrives that could tell of them.
    for lost in [&[99][..], &[98, 99], &[96, 97, 98, 99]] {
        for (rack, timeouts) in [("on", 0), ("off", 1)] {
            for spec in specs(rack) {
                let mut pair = transfer(100 * 1448);
                lose_segments(&mut pair, lost, 1);
                let pair = complete(pair, &spec, 600);
                let what = format!("{spec}, {lost:?}");
                assert_eq!(pair.conn(0).board().tx.timeouts, timeouts, "{what}");
                let probes = probe(&pair, 0, "probes").unwrap();
                assert_eq!(probes > 0.0, rack == "on", "{what}");
                let last = copies(&pair, 99 * 1448);
                let wait = last[1].at - last[0].at;
                if rack == "on" {
                    // Two round trips after an acknowledgement that was withheld for 200 ms.
                    assert!(wait <= ms(900), "{what}: {wait}");
                } else {
                    assert!(wait >= Span::SECOND, "{what}: {wait}");
                }
            }
        }
    }
}

//= rfc8985#section-7.4.2
#[test]
fn a_loss_that_only_the_probe_repaired_is_congestion_and_one_that_was_none_is_not() {
    for spec in specs("on") {
        // The application pauses after 20 segments, and goes on after a second.
        let run = |spoilt: bool| {
            let mut pair = transfer(20 * 1448);
            pair.apps[0].close_after = false;
            if spoilt {
                lose_segments(&mut pair, &[19], 1);
            } else {
                // What is lost are the acknowledgements of the last ten segments.
                lose(&mut pair, |f, seg| {
                    let last = f.at > START + ms(240) && f.at < START + ms(440);
                    f.from == 1 && seg.is_bare_ack() && last
                });
            }
            connect(&mut pair, &spec, &spec);
            run_for(&mut pair, ms(900));
            let more = wifu_testkit::pair::pattern(20 * 1448, 2);
            pair.apps[0].to_write.extend_from_slice(&more);
            run_for(&mut pair, ms(600));
            assert_eq!(pair.conn(0).board().tx.timeouts, 0, "{spec}");
            assert_eq!(pair.apps[1].read.len(), 40 * 1448, "{spec}");
            let probes = probe(&pair, 0, "probes").unwrap();
            (probes, pair.conn(0).board().win.ssthresh)
        };
        let (probes, ssthresh) = run(true);
        assert!(
            probes >= 1.0 && ssthresh < 100 * 1448,
            "{spec}: {probes} {ssthresh}"
        );
        // Without the report that the probe came twice nobody could tell.
        let (probes, ssthresh) = run(false);
        assert!(probes >= 1.0, "{spec}: {probes}");
        let known = spec.ends_with("dsack=on");
        assert_eq!(ssthresh == u32::MAX, known, "{spec}: {ssthresh}");
    }
}

//= rfc8985#section-6.2
#[test]
fn packets_that_overtake_each_other_are_waited_for() {
    let run = |spec: &str| {
        let mut pair = transfer(3_000_000);
        let mut count = 0;
        pair.spoil = Box::new(move |f| {
            count += u32::from(f.from == 0 && !f.seg().is_empty());
            // Each twentieth is late by 15 ms: less than a quarter of the round trip.
            match (f.from, count % 20) {
                (0, 10) => Fate::Late(ms(15)),
                _ => Fate::Deliver,
            }
        });
        let pair = complete(pair, spec, 3_600);
        (losses(&pair, 0), repeated(&pair, 0).len())
    };
    for (with, without) in specs("on").zip(specs("off")) {
        // Until one came late that had not gone again nobody knew that packets overtake each other.
        let (few, again) = run(&with);
        let (many, more) = run(&without);
        assert!(
            few.0 <= 5 && few.0 * 5 <= many.0,
            "{with}: {few:?}, {many:?}"
        );
        assert!(again * 5 <= more, "{with}: {again}, {more}");
        assert_eq!((few.1, many.1), (0, 0), "{with}");
    }
}

#[test]
fn a_peer_without_reports_is_served_as_before() {
    for rack in ["on", "off"] {
        let run = |spec: &str| {
            let mut pair = transfer(300_000);
            lose_segments(&mut pair, &[20, 25, 26], 1);
            let server = "tcp-sack,profile=rfc-modern,iw=10,receive=reassemble,sack=off";
            connect(&mut pair, spec, server);
            pair.run(secs(600));
            assert_delivered(&pair, spec);
            pair.seen
                .into_iter()
                .map(|s| (s.at, s.seg))
                .collect::<Vec<_>>()
        };
        let with = run(&format!("tcp-sack,profile=rfc-modern,iw=10,rack={rack}"));
        let without = run("tcp-sack,profile=rfc-modern,iw=10");
        assert!(with == without, "rack {rack}");
    }
}

#[test]
fn everything_arrives_whatever_is_lost() {
    for spec in specs("on") {
        for (percent, seed) in [(2, 1), (10, 2), (25, 3)] {
            let mut pair = pair_of(200_000);
            pair.delay = ms(50);
            lose_randomly(&mut pair, percent, seed);
            complete(pair, &format!("{spec},prr=on,data_tries=40"), 7_200);
        }
    }
}

#[test]
fn losses_among_many_are_repaired_in_fewer_timeouts() {
    let timeouts = |rack: &'static str| -> u32 {
        let run = |spec: String| {
            let mut pair = transfer(1_000_000);
            lose_randomly(&mut pair, 5, 11);
            let pair = complete(pair, &spec, 7_200);
            pair.conn(0).board().tx.timeouts
        };
        specs(rack).map(run).sum()
    };
    let (with, without) = (timeouts("on"), timeouts("off"));
    assert!(with * 2 < without, "{with} and {without}");
}

/// A probe leaves in its time, and its own reason is told.
#[test]
fn probes_are_told_from_other_retransmissions() {
    let spec = specs("on").next().unwrap();
    let mut pair = transfer(50 * 1448);
    lose_segments(&mut pair, &[49], 1);
    let pair = complete(pair, &spec, 600);
    assert_eq!(sent_because(&pair, 0, Reason::Probe).len(), 1);
}

//= rfc9937#section-6.2
#[test]
fn the_rate_of_a_reduction_grows_while_each_acknowledgement_tells_of_no_further_loss() {
    for spec in ["tcp-sack", "tcp-cubic"] {
        let end = |rack: &str| {
            let mut pair = transfer(64 * 1448);
            lose_segments(&mut pair, &MOST, 1);
            let set = "profile=rfc-modern,iw=64,prr=on,hystart=off";
            let pair = complete(pair, &format!("{spec},{set},rack={rack}"), 600);
            assert_eq!(pair.conn(0).board().tx.timeouts, 0, "{spec}, rack={rack}");
            data(&pair, 0).last().unwrap().at - START
        };
        // 56 segments, 9 of them in the first round trip of the repair: 5 round trips if the rate
        // grows by a segment for each that arrives, 8 if it stays.
        let (timed, counted) = (end("on"), end("off"));
        assert!(timed < ms(900), "{spec}: {timed}, by counts {counted}");
    }
}

/// All but the first two and the last six of 64 segments.
const MOST: [u32; 56] = {
    let mut all = [0; 56];
    let mut i = 0;
    while i < 56 {
        all[i] = i as u32 + 2;
        i += 1;
    }
    all
};

/// Segments by number: the first, and the one behind the last.
type Segments = (u32, u32);

/// A client with `n` segments of 1000 octets on their way, and what acknowledges the first of them
/// and reports others, by their numbers.
fn reporting(spec: &str, n: u32) -> (Pair, impl Fn(&mut Pair, u32, &[Segments])) {
    let set = format!("profile=rfc-modern,iw={n},ltx=off,hystart=off,timestamps=off,prr=on");
    let (mut pair, syn) = dialled(&format!("{spec},{set}"));
    let mut said = answer(&syn, 1000);
    said.options.sack_ok = true;
    pair.inject(1, &said);
    pair.apps[0].to_write = pattern(200_000, 1);
    run_for(&mut pair, ms(1));
    let at = move |segment: u32| syn.seq.plus(1 + 1000 * segment);
    let report = move |pair: &mut Pair, ack: u32, ranges: &[Segments]| {
        let mut seg = text(&said, 1001, b"");
        seg.ack = Some(at(ack));
        seg.ranges = ranges.iter().map(|r| (at(r.0), at(r.1))).collect();
        pair.inject(1, &seg);
    };
    (pair, report)
}

/// RecoverFS is what could still be delivered when the acknowledgement came that began the episode:
/// without what was reported before it, with all that it told of, by number or by report. The rate
/// of a reduction shows it, until the flight is as small as the window.
//= rfc9937#section-6.2
#[test]
fn a_reduction_is_spread_over_what_can_be_delivered() {
    /// What has left, in whole segments, when `d` are delivered of `flight`, with this window; the
    /// first goes at once.
    fn spread(d: usize, flight: usize, window: usize) -> usize {
        ((1000 * window * d).div_ceil(flight) / 1000).max(1)
    }
    for rack in ["on", "off"] {
        let spec = format!("tcp-sack,rack={rack}");
        // Two are reported before the third that begins it: 18 of 20.
        let (mut pair, report) = reporting(&spec, 20);
        for upto in 2..=15 {
            assert_eq!(data(&pair, 0).count() > 20, upto > 4, "{spec}");
            report(&mut pair, 0, &[(1, upto)]);
            if let d @ 1.. = (upto as usize).saturating_sub(3) {
                assert_eq!(
                    data(&pair, 0).count() - 20,
                    spread(d, 18, 10),
                    "{spec}: {d}"
                );
            }
        }
        // Two are acknowledged and three reported by the first that is heard: all 20.
        let (mut pair, report) = reporting(&spec, 20);
        for upto in 6..=16 {
            report(&mut pair, 2, &[(3, upto)]);
            let (left, d) = (data(&pair, 0).count() - 20, upto as usize - 1);
            assert_eq!(left, spread(d, 20, 9), "{spec}: {d}");
        }
    }
}

/// An acknowledgement that goes past all that counts as lost tells of no further loss.
//= rfc9937#section-6.2
#[test]
fn the_acknowledgement_of_the_last_that_was_lost_is_safe() {
    let (mut pair, report) = reporting("tcp-cubic,rack=off", 50);
    // The first 30 are lost, the next eight arrive, twelve are late; the window falls to 35.
    for upto in 31..=38 {
        report(&mut pair, 0, &[(30, upto)]);
    }
    assert_eq!(pair.conn(0).board().win.cwnd, 35_000);
    let again = |pair: &Pair| data(pair, 0).count() as u32 - 50;
    let mut acked = 0;
    while acked < 30 {
        let before = again(&pair);
        let upto = before.min(30);
        assert!(upto > acked, "nothing goes after {acked}");
        match upto {
            30 => report(&mut pair, 38, &[]),
            _ => report(&mut pair, upto, &[(30, 38)]),
        }
        // One more than arrived: slow start, not conservation of packets.
        assert_eq!(again(&pair) - before, upto - acked + 1, "{upto}");
        acked = upto;
    }
}

/// A peer that reports single octets, and then takes it all back.
#[test]
fn reports_of_single_octets_do_not_make_segments_of_single_octets() {
    for spec in specs("on") {
        let spec = format!("{spec},timestamps=off").replace("iw=10", "iw=40");
        let (mut pair, syn) = dialled(&spec);
        let mut said = answer(&syn, 1460);
        said.options.sack_ok = true;
        pair.inject(1, &said);
        pair.apps[0].to_write = pattern(60_000, 1);
        run_for(&mut pair, ms(5));
        let una = syn.seq.plus(1);
        (said.seq, said.flags, said.options) = (Seq(1001), Flags(0), SynOptions::default());
        for n in (0..8_000).step_by(4) {
            let octet = |i: u32| una.plus(4_000 + 2 * (n + i));
            said.ranges = (0..4).map(|i| (octet(i), octet(i).plus(1))).collect();
            pair.inject(1, &said);
        }
        let mark = pair.seen.len();
        for k in [0, 1] {
            said.ack = Some(una.plus(4_000 + k));
            said.ranges = vec![(una.plus(20_100), una.plus(60_000)); k as usize];
            pair.inject(1, &said);
            run_for(&mut pair, ms(20));
        }
        let again = pair.seen[mark..].iter().filter(|s| s.from == 0);
        let sizes: Vec<u32> = again.map(|s| s.seg.len()).filter(|n| *n > 0).collect();
        let small = sizes.iter().filter(|n| **n < 1_000).count();
        assert!(sizes.len() >= 10, "{spec}: {sizes:?}");
        assert!(small <= 4, "{spec}: {small} of {}", sizes.len());
    }
}
