//! HxH over a pair in virtual time: what Behaviour 18 asks of its ends, and that their mechanisms
//! act. No node stands between them and no lane: what lanes do is tried over radios.

use core::net::SocketAddrV4;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use wifu_engine::{Blueprint, Endpoint, EndpointConfig, Fault, State};
use wifu_testkit::pair::{App, Fate, Flying, Pair, SERVER, Step, pattern};
use wifu_wire::{Head, Rng, Seq, Span, Time, Wire, hxh};

/// With confirmation over the last hop, without, as in ns-2, and with requests for credits.
const SPECS: [&str; 4] = ["hxh", "hxh-nolh", "hxh-ns2", "hxh-next"];

/// Payload of a full packet.
const FULL: usize = 1_444;

fn secs(n: u64) -> Span {
    Span::SECOND * n
}

fn ms(n: u64) -> Span {
    Span::MILLI * n
}

fn protocol(spec: &str) -> Arc<Blueprint> {
    wifu_parts::blueprint(spec).unwrap_or_else(|e| panic!("{e}"))
}

/// A packet as it left: who sent it, when, what it says, what it carries, what became of it.
#[derive(Clone)]
struct Left {
    from: usize,
    at: Time,
    kind: u32,
    /// Bits of octet 1.
    flags: u8,
    credits: u16,
    head: Head,
    octets: usize,
    fate: Fate,
}

const ACKREQ: u8 = 1;
const LAST: u8 = 2;
const RTX: u8 = 4;
const LH: u8 = 8;

impl Left {
    fn parse(wire: &dyn Wire, f: &Flying) -> Left {
        let mut head = Head::default();
        let n = wire.parse(&f.bytes, &mut head).expect("HxH");
        Left {
            from: f.from,
            at: f.at,
            kind: u32::from(f.bytes[0] & 15),
            flags: f.bytes[1],
            credits: u16::from_be_bytes([f.bytes[20], f.bytes[21]]),
            octets: f.bytes.len() - n,
            head,
            fate: Fate::Deliver,
        }
    }

    fn is_data(&self) -> bool {
        self.kind == hxh::DATA
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// It tells the source of what came.
    fn answers(&self) -> bool {
        matches!(self.kind, hxh::ACK | hxh::NACK)
    }
}

type Seen = Rc<RefCell<Vec<Left>>>;

/// A pair in which the client writes `octets` and the server `back`, whose packets are seen, and
/// judged by `which`.
fn pair(
    (octets, back): (usize, usize),
    mut which: impl FnMut(&Left) -> Fate + 'static,
) -> (Pair, Seen) {
    let (mut pair, seen) = (Pair::new(7), Seen::default());
    for (side, n) in [octets, back].into_iter().enumerate() {
        pair.apps[side].to_write = pattern(n, side as u64 + 1);
    }
    pair.apps[0].close_after = true;
    pair.apps[1].close_after = back > 0;
    let (wire, log) = (Arc::clone(&protocol("hxh").wire), Rc::clone(&seen));
    pair.spoil = Box::new(move |f| {
        let mut left = Left::parse(&*wire, f);
        left.fate = which(&left);
        let fate = left.fate;
        log.borrow_mut().push(left);
        fate
    });
    (pair, seen)
}

/// Run for at most so many seconds; a server that wrote nothing closes when the client did.
fn run(pair: &mut Pair, spec: &str, limit: u64) {
    if pair.apps[0].conn.is_none() {
        pair.connect(&protocol(spec));
    }
    let limit = pair.now + secs(limit);
    while pair.step(limit) == Step::Going {
        pair.apps[1].close_after |= pair.apps[1].eof;
    }
}

#[track_caller]
fn delivered(pair: &Pair, what: &str) {
    for side in 0..2 {
        let (got, want) = (&pair.apps[side].read, &pair.apps[1 - side].to_write);
        assert_eq!(got.len(), want.len(), "{what}: bytes that {side} read");
        assert!(got == want, "{what}: {side} read other bytes");
        assert_eq!(
            pair.apps[side].ended,
            Some(None),
            "{what}: how {side} ended"
        );
        assert!(pair.apps[side].eof, "{what}: {side} saw no end");
        assert_eq!(pair.conn(side).state(), State::Closed, "{what}");
    }
}

fn complete(
    spec: &str,
    octets: usize,
    which: impl FnMut(&Left) -> Fate + 'static,
) -> (Pair, Vec<Left>) {
    let (mut pair, seen) = pair((octets, 0), which);
    run(&mut pair, spec, 7_200);
    delivered(&pair, spec);
    (pair, seen.take())
}

fn probe(pair: &Pair, side: usize, part: &str, name: &str) -> f64 {
    let mut found = None;
    pair.conn(side).observe(&mut |p, n, v| {
        if (p, n) == (part, name) {
            found = Some(v);
        }
    });
    found.unwrap_or_else(|| panic!("no {part}.{name}"))
}

fn data(seen: &[Left], side: usize) -> impl Iterator<Item = &Left> {
    seen.iter().filter(move |l| l.from == side && l.is_data())
}

/// Loses the packets of one side that `which` names, so many of them.
fn losing(
    mut most: u32,
    which: impl Fn(&Left) -> bool + 'static,
) -> impl FnMut(&Left) -> Fate + 'static {
    move |l| {
        let lost = which(l) && most > 0;
        most -= u32::from(lost);
        if lost { Fate::Drop } else { Fate::Deliver }
    }
}

#[test]
fn a_clean_wire_repeats_nothing_and_asks_once() {
    for spec in SPECS {
        let (pair, seen) = complete(spec, 300_000, |_| Fate::Deliver);
        let sent: Vec<&Left> = data(&seen, 0).collect();
        // The last one is empty, and asks.
        assert_eq!(sent.len(), 300_000_usize.div_ceil(FULL) + 1, "{spec}");
        let numbers = sent.iter().map(|l| l.head.seq.0);
        assert!(numbers.eq(1..=sent.len() as u32), "{spec}");
        assert!(
            sent[..207]
                .iter()
                .all(|l| l.octets == FULL && !l.has(ACKREQ | LAST)),
            "{spec}"
        );
        let last = sent.last().expect("packets");
        assert!(
            last.has(ACKREQ) && last.has(LAST) && last.octets == 0,
            "{spec}"
        );
        assert!(sent.iter().all(|l| l.has(LH) == (spec == "hxh")), "{spec}");
        // Each is confirmed over the last hop, or none.
        let confirmed = seen
            .iter()
            .filter(|l| l.from == 1 && l.kind == hxh::LHACK)
            .count();
        assert_eq!(
            confirmed,
            if spec == "hxh" { sent.len() } else { 0 },
            "{spec}"
        );
        let answers = seen.iter().filter(|l| l.from == 1 && l.answers()).count();
        assert_eq!(answers, 1, "{spec}");
        assert_eq!(pair.conn(0).board().tx.retransmits, 0, "{spec}");
    }
}

//= spec#10.8
#[test]
fn five_lost_syns_are_repeated_and_six_are_too_many() {
    for spec in SPECS {
        for lost in 1..=6 {
            let (mut pair, seen) = pair((20_000, 0), losing(lost, |l| l.from == 0));
            run(&mut pair, spec, 600);
            if lost < 6 {
                delivered(&pair, spec);
            } else {
                assert_eq!(pair.apps[0].ended, Some(Some(Fault::TimedOut)), "{spec}");
            }
            let seen = seen.borrow();
            let syns = seen.iter().filter(|l| l.kind == hxh::SYN).map(|l| l.at);
            let syns: Vec<Time> = syns.collect();
            let gaps = syns.windows(2).map(|w| (w[1] - w[0]).as_secs_f64());
            assert!(gaps.eq([1.0, 2.0, 4.0, 8.0, 16.0].into_iter().take(syns.len() - 1)));
        }
    }
}

#[test]
fn a_lost_answer_to_the_syn_is_given_again() {
    for spec in SPECS {
        let (_, seen) = complete(spec, 20_000, losing(2, |l| l.kind == hxh::SYNACK));
        let answers = seen.iter().filter(|l| l.kind == hxh::SYNACK);
        assert_eq!(answers.count(), 3, "{spec}");
    }
}

#[test]
fn losses_at_random_both_ways_are_repaired() {
    for spec in SPECS {
        for (percent, octets, tries) in [
            (1, 300_000, 6),
            (5, 200_000, 6),
            (10, 100_000, 6),
            (20, 60_000, 7),
            (30, 40_000, 11),
            (50, 20_000, 25),
        ] {
            for seed in 0..4 {
                let limit = if percent < 50 { 60 } else { 600 };
                let full = format!("{spec},syn_tries={tries},ack_limit={limit}s");
                let mut rng = Rng::new(seed * 100 + percent);
                let (mut pair, seen) = pair((octets, octets / 2), move |_| {
                    if rng.below(100) < percent {
                        Fate::Drop
                    } else {
                        Fate::Deliver
                    }
                });
                run(&mut pair, &full, 7_200);
                delivered(&pair, &format!("{full} at {percent} %, seed {seed}"));
                let seen = seen.borrow();
                let lost = data(&seen, 0).filter(|l| l.fate == Fate::Drop).count();
                let again = data(&seen, 0).filter(|l| l.has(RTX)).count();
                assert!(again >= lost, "{full}: {again} for {lost}");
                assert_eq!(again, pair.conn(0).board().tx.retransmits as usize);
            }
        }
    }
}

/// The ends tell each other what they take: none sends what the other has no place for.
#[test]
fn ends_that_take_packets_of_unlike_size_agree_on_the_smaller() {
    for (client, server) in [("hxh,mss=500", "hxh"), ("hxh-nolh", "hxh-nolh,mss=500")] {
        let (mut pair, seen) = pair((100_000, 50_000), |_| Fate::Deliver);
        let at = SocketAddrV4::new(SERVER, 80);
        let listens = pair.ends[1].listen(&protocol(server), at, 16);
        listens.expect("the port is free");
        pair.apps[0].conn = Some(pair.dial(&protocol(client)));
        run(&mut pair, client, 7_200);
        delivered(&pair, client);
        for side in 0..2 {
            let longest = data(&seen.borrow(), side).map(|l| l.octets).max();
            assert_eq!(longest, Some(500), "{client} and {server}");
        }
    }
}

/// A packet comes whole: a buffer holds one at least.
#[test]
fn a_buffer_below_one_packet_holds_one() {
    for spec in ["hxh,rcv_wnd=1443", "hxh-nolh,rcv_wnd=1000"] {
        let (pair, _) = complete(spec, 20_000, |_| Fate::Deliver);
        assert!(pair.now < Time::ZERO + secs(300), "{spec}: {:?}", pair.now);
    }
}

//= spec#10.7
// "gap detected (seq > highest+1) -> start 50 ms timer": each gap its own.
#[test]
fn a_gap_that_closed_leaves_the_next_one_its_whole_wait() {
    for spec in SPECS {
        let (_, seen) = complete(spec, 300_000, move |l| {
            match (l.is_data() && l.from == 0 && !l.has(RTX), l.head.seq.0) {
                (true, 20) => Fate::Behind(2),
                (true, 90) => Fate::Drop,
                _ if l.kind == hxh::ACK && l.at < Time(1_000_000) + ms(90) => Fate::Drop,
                _ => Fate::Deliver,
            }
        });
        let first = seen.iter().find(|l| l.kind == hxh::NACK);
        let first = first.expect("a list");
        let gap = data(&seen, 0).find(|l| l.head.seq == Seq(91));
        assert_eq!(first.at - gap.expect("it came").at, ms(60), "{spec}");
        assert_eq!(first.head.ranges(), [(Seq(90), Seq(91))], "{spec}");
    }
}

//= spec#10.7
#[test]
fn a_gap_is_listed_after_50_ms_and_only_what_was_lost_goes_again() {
    for spec in SPECS {
        let lost = [20, 21, 40].map(Seq);
        // The end asks for an answer, which would tell of the gap at once.
        let (pair, seen) = complete(spec, 300_000, move |l| {
            let gone = l.is_data() && l.from == 0 && lost.contains(&l.head.seq) && !l.has(RTX);
            let early = l.kind == hxh::ACK && l.at < Time(1_000_000) + ms(70);
            if gone || early {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        });
        assert_eq!(pair.conn(0).board().tx.retransmits, 3, "{spec}");
        let first = seen
            .iter()
            .position(|l| l.kind == hxh::NACK)
            .expect("a list");
        let gap = data(&seen, 0)
            .find(|l| l.head.seq == Seq(22))
            .expect("it came");
        assert_eq!(seen[first].at - gap.at, ms(60), "{spec}: 10 ms on its way");
        assert_eq!(seen[first].head.ack, Some(Seq(19)), "{spec}");
        let listed = seen[first].head.ranges();
        if spec == "hxh-ns2" {
            assert_eq!(listed, [(Seq(20), Seq(21))]);
        } else {
            assert_eq!(listed, [(Seq(20), Seq(22)), (Seq(40), Seq(41))], "{spec}");
        }
        // The last of a round asks for an answer.
        let round: Vec<&Left> = data(&seen, 0).filter(|l| l.has(RTX)).collect();
        assert!(round.last().is_some_and(|l| l.has(ACKREQ)), "{spec}");
    }
}

#[test]
fn a_list_that_comes_twice_or_late_is_heeded_once() {
    for spec in SPECS {
        let mut rng = Rng::new(3);
        let (pair, seen) = complete(spec, 600_000, move |l| {
            if l.answers() && rng.below(2) == 0 {
                return if rng.below(2) == 0 {
                    Fate::Twice
                } else {
                    Fate::Late(ms(60))
                };
            }
            let lose = l.is_data() && l.from == 0 && !l.has(RTX) && rng.below(20) == 0;
            if lose { Fate::Drop } else { Fate::Deliver }
        });
        let lost = data(&seen, 0).filter(|l| l.fate == Fate::Drop).count() as u32;
        let again = pair.conn(0).board().tx.retransmits;
        let asked = probe(&pair, 0, "hxh-source", "asked") as u32;
        assert_eq!(again, lost + asked, "{spec}");
    }
}

#[test]
fn a_lost_tail_goes_again_when_it_was_asked_for() {
    for spec in SPECS {
        for tail in [1, 3, 10] {
            // Forty full packets and the one that ends.
            let first = 41 - tail;
            let mut count = 0;
            let (pair, seen) = complete(spec, 40 * FULL, move |l| {
                count += usize::from(l.from == 0 && l.is_data());
                let lost = l.from == 0 && l.is_data() && count > first && count <= 41;
                if lost { Fate::Drop } else { Fate::Deliver }
            });
            let asked = data(&seen, 0).find(|l| l.has(RTX)).expect("a request");
            let before = data(&seen, 0).take(41).last().expect("packets").at;
            assert!(asked.has(ACKREQ) && asked.has(LAST), "{spec}");
            assert!(asked.at - before >= secs(1), "{spec}: T_ack");
            assert_eq!(probe(&pair, 0, "hxh-source", "asked"), 1.0, "{spec} {tail}");
        }
    }
}

#[test]
fn the_first_packet_may_be_lost() {
    for spec in SPECS {
        complete(spec, 1_000, losing(1, |l| l.is_data()));
        complete(spec, 100_000, losing(1, |l| l.is_data()));
    }
}

/// Of what the server says nothing arrives for so long, last-hop ACKs included.
#[test]
fn answers_that_stay_away_are_asked_for_rarer_and_rarer() {
    for spec in SPECS {
        let (from, to) = (Time(1_000_000) + ms(25), Time(1_000_000) + secs(20));
        let (pair, seen) = complete(spec, 300_000, move |l| {
            let lost = l.from == 1 && l.at >= from && l.at < to;
            if lost { Fate::Drop } else { Fate::Deliver }
        });
        let asked: Vec<Time> = data(&seen, 0)
            .filter(|l| l.has(ACKREQ))
            .map(|l| l.at)
            .collect();
        let gaps: Vec<f64> = asked
            .windows(2)
            .map(|w| (w[1] - w[0]).as_secs_f64())
            .collect();
        // Four times a round trip that nobody could measure yet, then twice as long, up to 8 s.
        assert_eq!(gaps[..2], [4.0, 8.0], "{spec}: {gaps:?}");
        let asked = probe(&pair, 0, "hxh-source", "asked");
        assert_eq!(asked as usize, gaps.len(), "{spec}");
    }
}

//= spec#10.7
// "60 s with an ACKREQ outstanding and no ACK, NACK or advance of P -> ETIMEDOUT"
#[test]
fn after_a_minute_without_any_answer_the_source_gives_up() {
    for spec in SPECS {
        let (mut pair, seen) = pair((300_000, 0), |l| {
            let lost = l.from == 1 && l.kind != hxh::SYNACK;
            if lost { Fate::Drop } else { Fate::Deliver }
        });
        run(&mut pair, spec, 600);
        assert_eq!(pair.apps[0].ended, Some(Some(Fault::TimedOut)), "{spec}");
        let sent = seen.borrow();
        let last = sent
            .iter()
            .filter(|l| l.from == 0)
            .map(|l| l.at)
            .max()
            .expect("packets");
        let whole = (last - sent[0].at).as_secs_f64();
        assert!((50.0..61.0).contains(&whole), "{spec}: {whole}");
    }
}

#[test]
fn packets_that_are_overtaken_go_again_once_at_the_most() {
    for spec in SPECS {
        let mut rng = Rng::new(5);
        let (pair, seen) = complete(spec, 600_000, move |l| {
            if l.is_data() && l.from == 0 && rng.below(10) == 0 {
                Fate::Behind(10)
            } else {
                Fate::Deliver
            }
        });
        let held = data(&seen, 0)
            .filter(|l| matches!(l.fate, Fate::Behind(_)))
            .count();
        let again = pair.conn(0).board().tx.retransmits as usize;
        // Those at the end, which nothing overtakes, are 0.2 s late.
        assert!(held > 20 && again <= 3, "{spec}: {again} of {held}");
    }
}

#[test]
fn every_packet_of_the_close_may_be_lost() {
    type Which = fn(&Left) -> bool;
    let last: Which = |l| l.from == 0 && l.has(LAST);
    let answer: Which = |l| l.from == 1 && l.answers();
    let back: Which = |l| l.from == 1 && l.is_data() && l.has(LAST);
    let final_answer: Which = |l| l.from == 0 && l.answers();
    for spec in SPECS {
        for which in [last, answer, back, final_answer] {
            for most in [1, 3] {
                let (_, seen) = complete(spec, 20_000, losing(most, which));
                let lost = seen.iter().filter(|l| l.fate == Fate::Drop).count();
                // Where the last hop is confirmed, that the end came is known by that, too.
                assert!(lost == most as usize || spec == "hxh" && lost > 0, "{spec}");
            }
        }
    }
}

//= spec#10.7
// "No room: DATA is dropped without LHACK; the destination's ACK/NACK carries its free packets in
// `credits`, and at 0 the source sends nothing but the ACKREQ packet every T_ack (doubling); room
// again: ACK at once."
#[test]
fn a_reader_that_stops_fills_its_buffer_and_the_source_asks() {
    for spec in SPECS {
        let spec = &format!("{spec},rcv_wnd={}", 100 * FULL);
        let (mut pair, seen) = pair((300_000, 0), |_| Fate::Deliver);
        pair.apps[1].stalled = true;
        run(&mut pair, spec, 30);
        assert_eq!(
            pair.conn(1).board().app.unread as usize,
            100 * FULL,
            "{spec}"
        );
        assert!(probe(&pair, 1, "hxh-sink", "refused") > 100.0, "{spec}");
        let told = seen
            .borrow()
            .iter()
            .filter(|l| l.answers())
            .map(|l| l.credits)
            .next_back();
        assert_eq!(told, Some(0), "{spec}");
        let asked: Vec<Left> = data(&seen.borrow(), 0)
            .filter(|l| l.has(ACKREQ))
            .cloned()
            .collect();
        // A packet by itself: nothing else leaves while there is no room.
        let since = asked[1].at;
        let all = data(&seen.borrow(), 0).filter(|l| l.at >= since).count();
        assert_eq!(all, asked.len() - 1, "{spec}");
        assert!((3..12).contains(&asked.len()), "{spec}: {}", asked.len());
        pair.apps[1].stalled = false;
        let woken = pair.now;
        pair.pump(1);
        let told = seen
            .borrow()
            .iter()
            .filter(|l| l.at >= woken)
            .map(|l| l.credits)
            .next();
        assert_eq!(told, Some(100), "{spec}: at once");
        run(&mut pair, spec, 600);
        delivered(&pair, spec);
    }
}

/// What tells that there is room again is lost.
#[test]
fn a_lost_word_of_room_is_asked_for() {
    for spec in SPECS {
        let spec = &format!("{spec},rcv_wnd={}", 100 * FULL);
        let deaf = Rc::new(RefCell::new(false));
        let hears = Rc::clone(&deaf);
        let (mut pair, _) = pair((300_000, 0), move |l| {
            let deaf = &mut *hears.borrow_mut();
            *deaf &= l.from == 1;
            if *deaf { Fate::Drop } else { Fate::Deliver }
        });
        pair.apps[1].stalled = true;
        run(&mut pair, spec, 5);
        *deaf.borrow_mut() = true;
        pair.apps[1].stalled = false;
        pair.pump(1);
        run(&mut pair, spec, 600);
        delivered(&pair, spec);
    }
}

#[test]
fn both_ends_may_write_and_close_in_any_order() {
    for spec in SPECS {
        for (octets, back) in [(100_000, 100_000), (0, 50_000), (200_000, 1), (1, 200_000)] {
            let (mut pair, _) = pair((octets, back), |_| Fate::Deliver);
            run(&mut pair, spec, 600);
            delivered(&pair, &format!("{spec} {octets} {back}"));
        }
        // A server that answers after the end of what it read is heard.
        let (mut pair, _) = pair((30_000, 0), |_| Fate::Deliver);
        pair.connect(&protocol(spec));
        while !pair.apps[1].eof {
            let limit = pair.now + secs(60);
            pair.step(limit);
        }
        pair.apps[1].to_write = pattern(40_000, 9);
        pair.apps[1].close_after = true;
        run(&mut pair, spec, 600);
        delivered(&pair, spec);
    }
}

//= spec#10.8
// "Destination restart: unknown conn id on DATA -> RST to source."
#[test]
fn a_host_that_restarts_refuses_by_identifier() {
    for spec in SPECS {
        let (mut pair, _) = pair((300_000, 0), |l| {
            let early = l.from == 1 && l.kind != hxh::SYNACK && l.at < Time(1_000_000) + secs(1);
            if early { Fate::Drop } else { Fate::Deliver }
        });
        run(&mut pair, spec, 1);
        pair.ends[1] = Endpoint::new(EndpointConfig::default());
        pair.ends[1].serve(&protocol(spec));
        run(&mut pair, spec, 30);
        assert_eq!(pair.apps[0].ended, Some(Some(Fault::Reset)), "{spec}");
    }
}

#[test]
fn a_port_without_a_listener_refuses() {
    let (mut pair, _) = pair((1_000, 0), |_| Fate::Deliver);
    pair.ends[1].serve(&protocol("hxh"));
    pair.apps[0].conn = Some(pair.dial(&protocol("hxh")));
    run(&mut pair, "hxh", 10);
    assert_eq!(pair.apps[0].ended, Some(Some(Fault::Refused)));
}

#[test]
fn a_client_that_forgot_connects_again_from_the_same_port() {
    let spec = SPECS[0];
    let (mut pair, _) = pair((3_000_000, 0), |_| Fate::Deliver);
    pair.apps[0].close_after = false;
    run(&mut pair, spec, 1);
    let (local, remote) = {
        let tuple = pair.conn(0).tuple();
        (tuple.local, tuple.remote)
    };
    let old = pair.apps[1].conn.expect("accepted");
    pair.ends[0] = Endpoint::new(EndpointConfig {
        seed: 99,
        ..EndpointConfig::default()
    });
    let id = pair.ends[0]
        .connect(pair.now, &protocol(spec), local, remote)
        .expect("free");
    let to_write = pattern(50_000, 3);
    pair.apps[0] = App {
        to_write: to_write.clone(),
        close_after: true,
        conn: Some(id),
        ..App::default()
    };
    pair.apps[1] = App::default();
    run(&mut pair, spec, 200);
    assert_ne!(
        pair.apps[1].conn,
        Some(old),
        "another identifier, another connection"
    );
    assert!(pair.apps[1].read == to_write);
    assert_eq!(pair.apps[0].ended, Some(None));
}

#[test]
fn what_is_broken_on_the_way_counts_as_lost_and_clocks_may_wrap() {
    for spec in SPECS {
        let mut rng = Rng::new(11);
        let (mut pair, _) = pair((200_000, 100_000), move |_| {
            if rng.below(20) == 0 {
                Fate::Corrupt
            } else {
                Fate::Deliver
            }
        });
        pair.now = Time((1 << 32) * 1_000 - 300_000_000);
        run(&mut pair, spec, 600);
        delivered(&pair, spec);
    }
}

#[test]
fn a_writer_that_pauses_for_two_minutes_goes_on() {
    for spec in SPECS {
        let (mut pair, seen) = pair((10_000, 0), |_| Fate::Deliver);
        pair.apps[0].close_after = false;
        run(&mut pair, spec, 120);
        assert!(pair.apps[1].read == pair.apps[0].to_write, "{spec}");
        let before = seen.borrow().len();
        pair.apps[0].to_write = pattern(60_000, 1);
        pair.apps[0].close_after = true;
        run(&mut pair, spec, 600);
        delivered(&pair, spec);
        let again = data(&seen.borrow()[before..], 0)
            .filter(|l| l.has(RTX))
            .count();
        assert_eq!(again, 0, "{spec}");
    }
}

/// Data every half second: each packet is the last that the buffer holds.
#[test]
fn a_slow_writer_is_answered_at_once() {
    for spec in SPECS {
        let (mut pair, seen) = pair((0, 0), |_| Fate::Deliver);
        pair.apps[0].close_after = false;
        run(&mut pair, spec, 1);
        for n in 1..=40 {
            pair.apps[0].to_write = pattern(1_000 * n, 4);
            let limit = pair.now + ms(500);
            pair.run(limit);
            pair.now = limit;
            assert_eq!(pair.apps[1].read.len(), 1_000 * n, "{spec}");
        }
        let sent: Vec<Left> = data(&seen.borrow(), 0).cloned().collect();
        assert_eq!(sent.len(), 40, "{spec}");
        assert!(sent.iter().all(|l| l.has(ACKREQ) && !l.has(RTX)), "{spec}");
        pair.apps[0].close_after = true;
        run(&mut pair, spec, 600);
        delivered(&pair, spec);
    }
}
