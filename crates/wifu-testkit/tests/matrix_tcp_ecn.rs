//! The TCP family under explicit congestion notification (RFC 3168): the wire marks.

mod tcp_common;

use tcp_common::*;
use wifu_testkit::pair::{Fate, Pair, pattern};
use wifu_wire::{Ecn, Flags, Rng, Seq, Span};

fn ect(pair: &Pair, side: usize) -> usize {
    sent(pair, side).filter(|s| s.ecn == Ecn::Ect0).count()
}

/// Mark what carries data and `which` picks by its number among data segments of the client.
fn mark(pair: &mut Pair, mut which: impl FnMut(u32) -> Fate + 'static) {
    let mut n = 0;
    pair.spoil = Box::new(move |f| {
        if f.from == 1 || f.seg().is_empty() {
            return Fate::Deliver;
        }
        n += 1;
        which(n - 1)
    });
}

//= rfc3168#section-6.1.2
#[test]
fn a_mark_halves_the_window_once_and_nothing_goes_again() {
    for spec in PROTOCOLS.map(|p| format!("{p},ecn=on")) {
        let run = |marked: bool| {
            let mut pair = one_way(300_000);
            mark(&mut pair, move |n| match n {
                60..64 if marked => Fate::Mark,
                _ => Fate::Deliver,
            });
            complete(pair, &spec, 600)
        };
        let (plain, marked) = (run(false), run(true));
        assert_eq!(probe(&marked, 1, "ce"), Some(4.0), "{spec}");
        assert_eq!(probe(&marked, 0, "ecn_cuts"), Some(1.0), "{spec}");
        assert_eq!(probe(&plain, 0, "ecn_cuts"), Some(0.0), "{spec}");
        let facts = |pair: &Pair| {
            let board = pair.conn(0).board();
            (board.tx.retransmits, board.win.ssthresh)
        };
        assert_eq!((facts(&plain).0, facts(&marked).0), (0, 0), "{spec}");
        assert!(facts(&marked).1 < facts(&plain).1, "{spec}: the window");
        assert!(marked.now > plain.now, "{spec}: it took no longer");
        // Told until the sender says that it knows, which it does once.
        let (said, told) = (
            flagged(&marked, 0, Flags::CWR),
            flagged(&marked, 1, Flags::ECE),
        );
        let said: Vec<_> = said.iter().filter(|s| !s.seg.has(Flags::SYN)).collect();
        assert_eq!(said.len(), 1, "{spec}");
        assert!(
            said[0].ecn == Ecn::Ect0 && !said[0].seg.is_empty(),
            "{spec}"
        );
        let last = told.last().expect("echoes");
        assert!(
            told.len() > 1 && last.at <= said[0].at + marked.delay,
            "{spec}"
        );
    }
}

//= rfc3168#section-6.1.4
//= rfc3168#section-6.1.5
#[test]
fn only_data_that_leaves_for_the_first_time_may_be_marked() {
    for spec in PROTOCOLS.map(|p| format!("{p},ecn=on")) {
        let mut pair = pair_of(200_000);
        lose_randomly(&mut pair, 5, 3);
        let pair = complete(pair, &spec, 3_600);
        let mut marked = 0;
        for side in 0..2 {
            let mut highest: Option<Seq> = None;
            for s in sent(&pair, side) {
                let end = s.seg.seq.plus(s.seg.len());
                let fresh = !s.seg.is_empty() && highest.is_none_or(|h| end.after(h));
                let whole = fresh && highest.is_none_or(|h| s.seg.seq.from(h));
                let may = s.ecn == Ecn::Ect0;
                assert!(!may || whole, "{spec}: {s:?}");
                marked += usize::from(may);
                if fresh {
                    highest = Some(end);
                }
            }
        }
        assert!(marked > 200, "{spec}: {marked}");
    }
}

//= rfc3168#section-6.1.1
#[test]
fn marks_are_understood_only_where_both_ends_agree() {
    for (client, server, agreed) in [
        ("off", "off", false),
        ("on", "off", false),
        ("off", "on", false),
        ("accept", "on", false),
        ("accept", "accept", false),
        ("on", "accept", true),
        ("on", "on", true),
    ] {
        let mut pair = pair_of(20_000);
        let spec = |ecn: &str| format!("tcp-newreno,ecn={ecn}");
        connect(&mut pair, &spec(client), &spec(server));
        pair.run(secs(600));
        assert_delivered(&pair, client);
        for side in 0..2 {
            assert_eq!(ect(&pair, side) > 0, agreed, "{client}, {server}");
        }
        let syn = &pair.seen[0].seg;
        assert_eq!(syn.has(Flags::ECE), client == "on", "{client}");
    }
}

//= rfc3168#section-6.1.1.1
#[test]
fn a_syn_that_goes_again_asks_for_nothing() {
    let mut pair = one_way(20_000);
    let mut first = true;
    lose(&mut pair, move |_, _| core::mem::take(&mut first));
    let pair = complete(pair, "tcp-newreno,ecn=on", 600);
    let syns = flagged(&pair, 0, Flags::SYN);
    let asks: Vec<bool> = syns.iter().map(|s| s.seg.has(Flags::ECE)).collect();
    assert_eq!((asks, ect(&pair, 0)), (vec![true, false], 0));
}

#[test]
fn a_host_that_sends_flags_back_as_they_came_has_not_agreed() {
    for (flags, agreed) in [
        (Flags::ECE, true),
        (Flags::ECE.with(Flags::CWR), false),
        (Flags::CWR, false),
    ] {
        let (mut pair, syn) = dialled("tcp-newreno,ecn=on");
        let mut said = answer(&syn, 1000);
        said.flags = Flags::SYN.with(flags);
        pair.inject(1, &said);
        pair.apps[0].to_write = pattern(2_000, 1);
        run_for(&mut pair, ms(1));
        assert_eq!(ect(&pair, 0) > 0, agreed, "{flags:?}");
    }
}

/// Neither end sends what may be marked once a SYN went without the question: somebody on the way
/// may not like it. Who asked before it heeds the marks of a peer that does not know that.
//= rfc3168#section-6.1.1
#[test]
fn a_plain_syn_takes_the_question_back() {
    let (mut pair, syn) = dialled("tcp-newreno,ecn=on");
    run_for(&mut pair, Span::SECOND * 2);
    let asks: Vec<bool> = flagged(&pair, 0, Flags::SYN)
        .iter()
        .map(|s| s.seg.has(Flags::ECE))
        .collect();
    assert_eq!(asks, [true, false]);
    let mut said = answer(&syn, 1000);
    said.flags = Flags::SYN.with(Flags::ECE);
    pair.inject(1, &said);
    pair.apps[0].to_write = pattern(2_000, 1);
    run_for(&mut pair, ms(1));
    assert_eq!((data(&pair, 0).count() > 0, ect(&pair, 0)), (true, 0));
    pair.inject_as(1, &text(&said, 1001, b"marked"), Ecn::Ce);
    assert!(sent(&pair, 0).last().unwrap().seg.has(Flags::ECE));

    let (mut pair, mut syn) = dialled("tcp-newreno,ecn=off");
    let blueprint = wifu_parts::blueprint("tcp-newreno,ecn=accept").unwrap();
    let here = core::net::SocketAddrV4::new(wifu_testkit::pair::SERVER, 80);
    pair.ends[1].listen(&blueprint, here, 4).unwrap();
    for flags in [Flags::ECE.with(Flags::CWR), Flags(0)] {
        syn.flags = Flags::SYN.with(flags);
        pair.inject(0, &syn);
    }
    let agrees: Vec<bool> = flagged(&pair, 1, Flags::SYN)
        .iter()
        .map(|s| s.seg.has(Flags::ECE))
        .collect();
    assert_eq!(agrees, [true, false]);
    let mut ack = text(&syn, 0, b"");
    let theirs = flagged(&pair, 1, Flags::SYN)[0].seg.seq;
    (ack.seq, ack.ack) = (syn.seq.plus(1), Some(theirs.plus(1)));
    pair.inject(0, &ack);
    pair.apps[1].to_write = pattern(2_000, 1);
    run_for(&mut pair, ms(1));
    assert_eq!((data(&pair, 1).count() > 0, ect(&pair, 1)), (true, 0));
}

/// A client with ten segments on their way, and what acknowledges the first `n` of them.
fn under_way(spec: &str) -> (Pair, impl Fn(&mut Pair, u32, bool)) {
    let (mut pair, syn) = dialled(spec);
    let mut said = answer(&syn, 1000);
    (said.flags, said.options.sack_ok) = (Flags::SYN.with(Flags::ECE), true);
    pair.inject(1, &said);
    pair.apps[0].to_write = pattern(60_000, 1);
    run_for(&mut pair, ms(1));
    let first = syn.seq.plus(1);
    let ack = move |pair: &mut Pair, n: u32, echo: bool| {
        let mut ack = text(&said, 1001, b"");
        ack.ack = Some(first.plus(1000 * n));
        ack.flags = if echo { Flags::ECE } else { Flags(0) };
        pair.inject(1, &ack);
    };
    (pair, ack)
}

//= rfc3168#section-6.1.2
#[test]
fn no_window_grows_by_an_acknowledgement_that_echoes_a_mark() {
    for spec in [
        "tcp-reno",
        "tcp-newreno",
        "tcp-sack",
        "tcp-cubic",
        "tcp-linux",
    ] {
        let spec = format!("{spec},profile=rfc-modern,iw=10,timestamps=off,ecn=on");
        let (mut pair, ack) = under_way(&spec);
        let window = |pair: &Pair| pair.conn(0).board().win.cwnd;
        assert_eq!(window(&pair), 10_000, "{spec}");
        ack(&mut pair, 1, true);
        let halved = window(&pair);
        assert!(halved <= 7_000, "{spec}: {halved}");
        for n in 2..9 {
            ack(&mut pair, n, true);
            assert_eq!(window(&pair), halved, "{spec}: {n}");
        }
        let mut told = 9;
        while told < 30 {
            ack(&mut pair, told, false);
            run_for(&mut pair, ms(1));
            told += 1;
            if pair.conn(0).board().tx.una == pair.conn(0).board().tx.max {
                break;
            }
        }
        assert!(window(&pair) > halved, "{spec}: it never grew again");
    }
}

//= rfc3168#section-6.1.2
#[test]
fn a_mark_raises_no_window() {
    for spec in [
        "tcp-tahoe",
        "tcp-reno",
        "tcp-newreno",
        "tcp-sack",
        "tcp-cubic",
    ] {
        let spec = format!("{spec},profile=rfc-modern,iw=1,timestamps=off,ecn=on");
        let (mut pair, ack) = under_way(&spec);
        assert_eq!(data(&pair, 0).count(), 1, "{spec}");
        ack(&mut pair, 1, true);
        assert_eq!(pair.conn(0).board().win.cwnd, 1000, "{spec}");
    }
}

/// A mark and a loss in one window are one congestion.
#[test]
fn a_loss_in_a_window_that_was_marked_halves_it_no_further() {
    for spec in ["tcp-newreno,ecn=on", "tcp-sack,ecn=on", "tcp-reno,ecn=on"] {
        let threshold = |fates: [Fate; 2]| {
            let mut pair = one_way(300_000);
            mark(&mut pair, move |n| match n {
                60 => fates[0],
                66 => fates[1],
                _ => Fate::Deliver,
            });
            let pair = complete(pair, spec, 600);
            let board = pair.conn(0).board();
            (board.win.ssthresh, board.tx.retransmits)
        };
        let marked = threshold([Fate::Mark, Fate::Deliver]);
        let both = threshold([Fate::Mark, Fate::Drop]);
        assert_eq!((marked.1, both.1), (0, 1), "{spec}");
        assert_eq!(marked.0, both.0, "{spec}");
    }
}

/// A mark takes less of DCTCP's window than a loss, and no loss's place.
//= rfc8257#section-3.5
#[test]
fn a_loss_in_a_window_that_was_marked_halves_that_of_dctcp() {
    let window = |loss: Fate| {
        let mut pair = one_way(2_000_000);
        // By then the average share of marks is small.
        mark(&mut pair, move |n| match n {
            1000 => Fate::Mark,
            1006 => loss,
            _ => Fate::Deliver,
        });
        let pair = complete(pair, "tcp-dctcp", 600);
        let board = pair.conn(0).board();
        (board.win.ssthresh, board.tx.retransmits)
    };
    let (marked, lost) = (window(Fate::Deliver), window(Fate::Drop));
    assert_eq!(marked.1, 0);
    assert!(lost.0 < marked.0 * 3 / 4, "{lost:?} after {marked:?}");
}

/// A fifth of all that may be marked is, in both directions; what may not is dropped.
#[test]
fn marks_and_losses_together_deliver_every_octet() {
    for spec in PROTOCOLS.map(|p| format!("{p},ecn=on")) {
        let mut rng = Rng::new(5);
        let mut pair = pair_of(100_000);
        pair.spoil = Box::new(move |_| match rng.below(20) {
            0 => Fate::Drop,
            1..5 => Fate::Mark,
            _ => Fate::Deliver,
        });
        connect(&mut pair, &spec, &spec);
        pair.run(secs(36_000));
        assert_delivered(&pair, &spec);
    }
}

/// Octets that the server acknowledged, and those of them whose acknowledgements echo a mark.
fn echoed(pair: &Pair) -> (u32, u32) {
    let (mut upto, mut all, mut marked) = (None, 0, 0);
    for s in sent(pair, 1).filter(|s| !s.seg.has(Flags::SYN)) {
        let Some(ack) = s.seg.ack else { continue };
        let from: Seq = *upto.get_or_insert(ack);
        if ack.after(from) {
            let octets = ack.since(from);
            all += octets;
            marked += if s.seg.has(Flags::ECE) { octets } else { 0 };
            upto = Some(ack);
        }
    }
    (all, marked)
}

//= rfc8257#section-3.2
#[test]
fn dctcp_learns_how_many_octets_were_marked_however_acknowledgements_are_delayed() {
    // Alpha is an average of windows. Where those are of two or three segments and each change of
    // marks is told by itself, one window is all marked and the next not at all.
    let small = 0.35;
    for (every, of, off) in [
        (1, 3, 0.25),
        (2, 2, 0.25),
        (2, 3, 0.25),
        (2, 7, 0.25),
        (8, 5, small),
        (8, 20, 0.1),
    ] {
        let spec = format!("tcp-dctcp,ack_every={every},mss=1000");
        let mut pair = one_way(300_000);
        // From the first data segment on; a FIN is none.
        mark(&mut pair, move |n| match n % of {
            1 => Fate::Mark,
            _ => Fate::Deliver,
        });
        let pair = complete(pair, &spec, 600);
        let carried: Vec<u32> = data(&pair, 0).map(|s| s.seg.len()).collect();
        let expected: u32 = (0..)
            .zip(&carried)
            .filter(|(n, _)| n % of == 1)
            .map(|(_, l)| l)
            .sum();
        let (_, marked) = echoed(&pair);
        // A FIN that is acknowledged with marked octets counts as one.
        let fin = u32::from(marked > expected);
        assert_eq!(marked, expected + fin, "{spec}, one of {of}");
        assert_eq!(pair.conn(0).board().tx.retransmits, 0, "{spec}");
        let alpha = probe(&pair, 0, "alpha").expect("a share");
        let share = 1.0 / f64::from(of);
        assert!((alpha - share).abs() < off, "{spec}, one of {of}: {alpha}");
        assert!(probe(&pair, 0, "ecn_cuts") > Some(3.0));
    }
}

#[test]
fn dctcp_loses_and_recovers_as_others_do_and_works_without_marks() {
    let mut pair = pair_of(200_000);
    lose_randomly(&mut pair, 5, 3);
    complete(pair, "tcp-dctcp", 3_600);
    // The peer refuses: it is Reno.
    let mut pair = one_way(200_000);
    connect(&mut pair, "tcp-dctcp", "tcp-dctcp,ecn=off");
    pair.run(secs(600));
    assert_delivered(&pair, "without marks");
    assert_eq!((ect(&pair, 0), probe(&pair, 0, "ecn_cuts")), (0, Some(0.0)));
}

/// Somebody on the way marks what nobody agreed upon; that says nothing.
//= rfc3168#section-6.1.1
#[test]
fn marks_that_nobody_agreed_upon_are_not_echoed() {
    for (client, server, agreed) in [
        ("tcp-dctcp,ecn=off", "tcp-dctcp", false),
        ("tcp-dctcp", "tcp-dctcp,ecn=off", false),
        ("tcp-dctcp", "tcp-dctcp", true),
    ] {
        for from in 0..2 {
            let mut pair = Pair::new(7);
            pair.record = true;
            connect(&mut pair, client, server);
            run_for(&mut pair, Span::SECOND);
            let mut seg = forge(&pair, from);
            seg.data = vec![7; 100];
            pair.inject_as(from, &seg, Ecn::Ce);
            run_for(&mut pair, Span::SECOND);
            let last = &sent(&pair, 1 - from).last().expect("an answer").seg;
            assert_eq!(last.ack, Some(seg.seq.plus(100)), "{client}, {server}");
            assert_eq!(last.has(Flags::ECE), agreed, "{client}, {server}");
        }
    }
}

/// The peer hears of a change of marks at once, both ways, where it else would wait for more.
//= rfc8257#section-3.2
#[test]
fn a_change_of_marks_is_told_at_once() {
    let spec = "tcp-dctcp,ack_every=8,ack_delay=200ms";
    let (mut pair, mut told) = (Pair::new(7), Vec::new());
    pair.record = true;
    connect(&mut pair, spec, spec);
    run_for(&mut pair, Span::SECOND);
    let mut seg = forge(&pair, 0);
    seg.data = vec![7; 1000];
    // The first tells of the window, which the SYN had no room for.
    pair.inject_as(0, &seg, Ecn::Ect0);
    seg.seq = seg.seq.plus(1000);
    let first = seg.seq;
    for mark in [Ecn::Ect0, Ecn::Ce, Ecn::Ce, Ecn::Ect0] {
        let before = sent(&pair, 1).count();
        pair.inject_as(0, &seg, mark);
        seg.seq = seg.seq.plus(1000);
        let answers = sent(&pair, 1).skip(before).map(|s| {
            let upto = s.seg.ack.expect("a number").since(first);
            (upto, s.seg.has(Flags::ECE))
        });
        told.push(answers.collect::<Vec<_>>());
    }
    let expected = [
        vec![],
        vec![(1000, false), (2000, true)],
        vec![],
        vec![(3000, true), (4000, false)],
    ];
    assert_eq!(told, expected);
}
