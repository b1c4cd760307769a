//! ATP over a pair in virtual time: what Behaviour 18 asks of it, and that its mechanisms act. No
//! node stands between the ends, so the interval stays what it is at first.

use core::net::SocketAddrV4;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use wifu_engine::{Blueprint, Conn, Endpoint, EndpointConfig, Event, Fault, State};
use wifu_testkit::pair::{App, CLIENT, Fate, Flying, Pair, SERVER, pattern};
use wifu_testkit::seg::between;
use wifu_wire::{Flags, Head, Rng, Seq, Span, Time};

/// With epochs of a second and of 40 ms, and an interval of 2 ms.
const SPECS: [&str; 3] = [
    "atp,ds_first=2ms",
    "atp-aggressive,ds_first=2ms",
    "atp-adaptive,ds_first=2ms",
];

/// Whether it reports every 40 ms.
fn often(spec: &str) -> bool {
    !spec.starts_with("atp,")
}

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
    head: Head,
    octets: usize,
    fate: Fate,
}

type Seen = Rc<RefCell<Vec<Left>>>;

/// What is said of a packet by name.
struct Said {
    wire: Arc<dyn wifu_wire::Wire>,
}

impl Said {
    fn word(&self, head: &Head, name: &str) -> u32 {
        head.get(self.wire.place(name).expect("a word of ATP").word)
    }

    fn feedback(&self, head: &Head) -> bool {
        self.word(head, "feedback") == 1
    }

    fn probe(&self, head: &Head) -> bool {
        self.word(head, "request") == 1 && !head.flags.has(Flags::SYN)
    }

    fn parse(&self, f: &Flying) -> Left {
        let mut head = Head::default();
        let n = self.wire.parse(&f.bytes, &mut head).expect("ATP");
        Left {
            from: f.from,
            at: f.at,
            octets: f.bytes.len() - n,
            head,
            fate: Fate::Deliver,
        }
    }
}

fn said(spec: &str) -> Said {
    Said {
        wire: Arc::clone(&protocol(spec).wire),
    }
}

/// A pair in which the client writes `octets` and the server `back`, whose packets are seen, and
/// judged by `which`.
fn pair(
    spec: &str,
    (octets, back): (usize, usize),
    mut which: impl FnMut(&Said, &Left) -> Fate + 'static,
) -> (Pair, Seen) {
    let (mut pair, seen) = (Pair::new(7), Seen::default());
    for (side, n) in [octets, back].into_iter().enumerate() {
        pair.apps[side].to_write = pattern(n, side as u64 + 1);
    }
    pair.apps[0].close_after = true;
    pair.apps[1].close_after = back > 0;
    let (said, log) = (said(spec), Rc::clone(&seen));
    pair.spoil = Box::new(move |f| {
        let mut left = said.parse(f);
        left.fate = which(&said, &left);
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
    while pair.step(limit) == wifu_testkit::pair::Step::Going {
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
    which: impl FnMut(&Said, &Left) -> Fate + 'static,
) -> (Pair, Vec<Left>) {
    let (mut pair, seen) = pair(spec, (octets, 0), which);
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
    seen.iter().filter(move |l| l.from == side && l.octets > 0)
}

#[test]
fn a_clean_wire_repeats_nothing_and_spaces_data_by_the_interval() {
    for spec in SPECS {
        let (pair, seen) = complete(spec, 300_000, |_, _| Fate::Deliver);
        let said = said(spec);
        let times: Vec<Time> = data(&seen, 0).map(|l| l.at).collect();
        assert_eq!(times.len(), 300_000_usize.div_ceil(1_432), "{spec}");
        assert!(times.windows(2).all(|w| w[1] - w[0] == ms(2)), "{spec}");
        assert_eq!(probe(&pair, 0, "atp-rate", "missed"), 0.0, "{spec}");
        // The answer to the SYN, one per epoch, the end as it came, and the last word.
        let feedback = seen.iter().filter(|l| said.feedback(&l.head)).count();
        let epochs = if often(spec) { 420 / 40 } else { 0 };
        assert!((3..=4).contains(&(feedback - epochs)), "{spec}: {feedback}");
        let last = seen.last().expect("packets").head.clone();
        assert!(!said.feedback(&last) && last.flags == Flags(0) && last.ack.is_some());
        assert_eq!(
            seen.iter().filter(|l| said.probe(&l.head)).count(),
            0,
            "{spec}"
        );
    }
}

#[test]
fn five_lost_syns_are_repeated_and_six_are_too_many() {
    for spec in SPECS {
        for lost in 1..=6 {
            let mut count = 0;
            let (mut pair, _) = pair(spec, (20_000, 0), move |_, l| {
                count += u32::from(l.from == 0);
                if l.from == 0 && count <= lost {
                    Fate::Drop
                } else {
                    Fate::Deliver
                }
            });
            run(&mut pair, spec, 600);
            if lost < 6 {
                delivered(&pair, spec);
            } else {
                assert_eq!(pair.apps[0].ended, Some(Some(Fault::TimedOut)), "{spec}");
            }
        }
    }
}

#[test]
fn a_lost_answer_to_the_syn_is_given_again_and_says_the_same() {
    for spec in SPECS {
        let mut answers = 0;
        let (pair, seen) = complete(spec, 20_000, move |_, l| {
            answers += u32::from(l.from == 1);
            if l.from == 1 && answers <= 2 {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        });
        let syn = |l: &&Left| l.from == 1 && l.head.flags.has(Flags::SYN);
        let numbers: Vec<_> = seen
            .iter()
            .filter(syn)
            .map(|l| (l.head.seq, l.head.conn_id))
            .collect();
        assert_eq!(numbers.len(), 3, "{spec}");
        assert!(numbers.iter().all(|n| *n == numbers[0]), "{spec}");
        assert_eq!(pair.conn(0).board().site.conn_id, numbers[0].1);
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
                // Of ten questions in a minute all are lost once in twenty times, at 50 %.
                let limit = if percent < 50 { 60 } else { 600 };
                let full = format!("{spec},syn_tries={tries},ask_limit={limit}s");
                let mut rng = Rng::new(seed * 100 + percent);
                let (mut pair, seen) = pair(&full, (octets, octets / 2), move |_, _| {
                    if rng.below(100) < percent {
                        Fate::Drop
                    } else {
                        Fate::Deliver
                    }
                });
                run(&mut pair, &full, 7_200);
                delivered(&pair, &format!("{full} at {percent} %, seed {seed}"));
                let lost = data(&seen.borrow(), 0)
                    .filter(|l| l.fate == Fate::Drop)
                    .count();
                let again = pair.conn(0).board().tx.retransmits;
                assert!(again as usize >= lost, "{full}: {again} for {lost}");
            }
        }
    }
}

#[test]
fn a_hole_is_reported_and_only_what_was_lost_goes_again() {
    for spec in SPECS {
        let mut count = 0;
        let (pair, seen) = complete(spec, 1_500_000, move |_, l| {
            count += u32::from(l.octets > 0);
            if l.octets > 0 && [20, 21, 40].contains(&count) {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        });
        assert_eq!(pair.conn(0).board().tx.retransmits, 3, "{spec}");
        let lost: Vec<_> = data(&seen, 0).filter(|l| l.fate == Fate::Drop).collect();
        let holes = seen.iter().flat_map(|l| l.head.ranges().to_vec());
        let holes: Vec<_> = holes.collect();
        assert!(
            holes.contains(&(lost[0].head.seq, lost[1].head.seq.plus(1_432))),
            "{spec}"
        );
    }
}

/// Nothing comes behind what is lost: no hole shows it.
#[test]
fn a_lost_tail_goes_again_when_the_receiver_says_that_more_is_missing() {
    for spec in SPECS {
        for tail in [1, 3, 10] {
            let first = 40 - tail;
            let mut count = 0;
            let (pair, seen) = complete(spec, 40 * 1_432, move |_, l| {
                count += usize::from(l.from == 0 && (l.octets > 0 || l.head.flags.has(Flags::FIN)));
                let sent = l.from == 0 && (l.octets > 0 || l.head.flags.has(Flags::FIN));
                if sent && (first..=40).contains(&(count - 1)) {
                    Fate::Drop
                } else {
                    Fate::Deliver
                }
            });
            let said = said(spec);
            let more = seen.iter().filter(|l| said.word(&l.head, "more") == 1);
            assert!(more.count() >= 1, "{spec} {tail}");
            assert!(pair.conn(0).board().tx.retransmits > tail as u32, "{spec}");
            assert_eq!(
                probe(&pair, 0, "atp-rate", "starts"),
                1.0,
                "{spec} {tail}: not asked"
            );
        }
    }
}

#[test]
fn the_only_packet_may_be_lost() {
    for spec in SPECS {
        let mut count = 0;
        complete(spec, 1_000, move |_, l| {
            count += u32::from(l.octets > 0);
            if l.octets > 0 && count == 1 {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        });
    }
}

/// The rate is halved twice, the way is asked for at the third time.
#[test]
fn feedback_that_stays_away_halves_the_rate_twice_and_then_the_way_is_asked_for() {
    for spec in SPECS {
        let from = Time(1_000_000) + ms(100);
        let mut asked = false;
        let mut heard = false;
        let (pair, seen) = complete(spec, 3_000_000, move |s, l| {
            asked |= s.probe(&l.head);
            heard |= asked && s.word(&l.head, "quick") == 1;
            if l.at >= from && s.feedback(&l.head) && !heard {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        });
        assert_eq!(probe(&pair, 0, "atp-rate", "missed"), 3.0, "{spec}");
        assert_eq!(probe(&pair, 0, "atp-rate", "starts"), 2.0, "{spec}");
        let gaps: Vec<Span> = {
            let times: Vec<Time> = data(&seen, 0).map(|l| l.at).collect();
            times.windows(2).map(|w| w[1] - w[0]).collect()
        };
        for gap in [2, 4, 8] {
            assert!(gaps.contains(&ms(gap)), "{spec}: {gap} ms");
        }
        let said = said(spec);
        let asked = seen
            .iter()
            .find(|l| said.probe(&l.head))
            .expect("a question");
        let answer = seen
            .iter()
            .find(|l| said.word(&l.head, "quick") == 1 && l.at > asked.at);
        let answer = answer.expect("an answer").at;
        let between = data(&seen, 0).any(|l| l.at > asked.at && l.at < answer);
        assert!(!between, "{spec}: no data while it asks");
    }
}

#[test]
fn feedback_that_is_late_or_doubled_is_told_by_its_number() {
    for spec in SPECS {
        let mut rng = Rng::new(5);
        let (pair, _) = complete(spec, 1_500_000, move |s, l| match s.feedback(&l.head) {
            true if rng.below(3) == 0 => Fate::Late(ms(60)),
            true if rng.below(2) == 0 => Fate::Twice,
            _ => Fate::Deliver,
        });
        if often(spec) {
            assert!(probe(&pair, 0, "quick-start", "stale") > 2.0, "{spec}");
        }
        assert_eq!(pair.conn(0).board().tx.retransmits, 0, "{spec}");
    }
}

#[test]
fn packets_that_are_overtaken_go_again_once_at_the_most() {
    for spec in SPECS {
        let mut rng = Rng::new(5);
        let (pair, seen) = complete(spec, 600_000, move |_, l| {
            if l.octets > 0 && rng.below(10) == 0 {
                Fate::Behind(10)
            } else {
                Fate::Deliver
            }
        });
        // What feedback saw as a hole goes again once: what left later was there.
        let again = pair.conn(0).board().tx.retransmits;
        let behind = |l: &&Left| matches!(l.fate, Fate::Behind(_));
        let held = data(&seen, 0).filter(behind).count();
        assert!(again as usize <= held, "{spec}: {again} of {held}");
    }
}

#[test]
fn every_packet_of_the_close_may_be_lost() {
    for spec in SPECS {
        type Which = fn(&Said, &Left) -> bool;
        let fin: Which = |s, l| l.head.flags.has(Flags::FIN) && !s.feedback(&l.head);
        let answer: Which = |s, l| l.head.flags.has(Flags::FIN) && s.feedback(&l.head);
        let last: Which = |s, l| {
            let marks = Flags::SYN.with(Flags::FIN);
            l.from == 0 && l.octets == 0 && !l.head.flags.has(marks) && !s.probe(&l.head)
        };
        for which in [fin, answer, last] {
            for most in [1, 3] {
                let mut lost = 0;
                let (_, seen) = complete(spec, 20_000, move |s, l| {
                    lost += u32::from(which(s, l));
                    if which(s, l) && lost <= most {
                        Fate::Drop
                    } else {
                        Fate::Deliver
                    }
                });
                let lost = seen.iter().filter(|l| l.fate == Fate::Drop).count();
                assert_eq!(lost, most as usize, "{spec}");
            }
        }
    }
}

/// Of the server's last word nothing arrives: it says it ten times, and then keeps still; the
/// client finds out by asking.
#[test]
fn the_last_word_is_said_ten_times() {
    let spec = SPECS[1];
    let (mut pair, seen) = pair(spec, (20_000, 0), move |s, l| {
        let end = l.head.flags.has(Flags::FIN) && s.feedback(&l.head);
        if end { Fate::Drop } else { Fate::Deliver }
    });
    run(&mut pair, spec, 50);
    let said = said(spec);
    let ends: Vec<Time> = {
        let seen = seen.borrow();
        let end = |l: &&Left| l.head.flags.has(Flags::FIN) && said.feedback(&l.head);
        seen.iter().filter(end).map(|l| l.at).collect()
    };
    assert_eq!(ends.len(), 10);
    assert!(ends.windows(2).all(|w| w[1] - w[0] == ms(200)));
}

#[test]
fn a_reader_that_stops_shuts_the_window_and_a_lost_update_is_asked_for() {
    for spec in SPECS {
        let spec = &format!("{spec},rcv_wnd=65536");
        let (mut pair, seen) = pair(spec, (300_000, 0), |_, _| Fate::Deliver);
        pair.apps[1].stalled = true;
        run(&mut pair, spec, 30);
        let board = pair.conn(0).board();
        assert!(board.peer.persist && board.peer.window < 1_432, "{spec}");
        assert_eq!(
            pair.conn(1).board().app.unread / 1_432,
            65_536 / 1_432,
            "{spec}"
        );
        let said = said(spec);
        let asked = seen.borrow().iter().filter(|l| said.probe(&l.head)).count();
        assert!((3..20).contains(&asked), "{spec}: {asked}");
        assert_eq!(probe(&pair, 0, "atp-rate", "missed"), 0.0, "{spec}");
        pair.apps[1].stalled = false;
        run(&mut pair, spec, 600);
        delivered(&pair, spec);
        assert_eq!(
            probe(&pair, 0, "atp-rate", "starts"),
            1.0,
            "{spec}: a probe is no start"
        );
    }
}

#[test]
fn both_ends_may_write_and_close_in_any_order() {
    for spec in SPECS {
        for (octets, back) in [(100_000, 100_000), (0, 50_000), (200_000, 1), (1, 200_000)] {
            let (mut pair, seen) = pair(spec, (octets, back), |_, _| Fate::Deliver);
            run(&mut pair, spec, 600);
            delivered(&pair, &format!("{spec} {octets} {back}"));
            let said = said(spec);
            // The server's half begins with a question of its own.
            let seen = seen.borrow();
            let first = seen.iter().find(|l| l.from == 1 && !said.feedback(&l.head));
            assert!(first.is_some_and(|l| said.probe(&l.head)), "{spec}");
            assert_eq!(data(&seen, 1).count(), back.div_ceil(1_432), "{spec}");
        }
    }
}

#[test]
fn a_server_that_answers_after_the_end_of_what_it_read_is_heard() {
    for spec in SPECS {
        let (mut pair, _) = pair(spec, (30_000, 0), |_, _| Fate::Deliver);
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

#[test]
fn a_host_that_restarts_refuses_by_identifier() {
    for spec in SPECS {
        let (mut pair, _) = pair(spec, (3_000_000, 0), |_, _| Fate::Deliver);
        run(&mut pair, spec, 1);
        pair.ends[1] = Endpoint::new(EndpointConfig::default());
        pair.ends[1].serve(&protocol(spec));
        run(&mut pair, spec, 10);
        assert_eq!(pair.apps[0].ended, Some(Some(Fault::Reset)), "{spec}");
    }
}

#[test]
fn a_port_without_a_listener_refuses() {
    let (mut pair, _) = pair(SPECS[0], (1_000, 0), |_, _| Fate::Deliver);
    pair.ends[1].serve(&protocol(SPECS[0]));
    pair.apps[0].conn = Some(pair.dial(&protocol(SPECS[0])));
    run(&mut pair, SPECS[0], 10);
    assert_eq!(pair.apps[0].ended, Some(Some(Fault::Refused)));
}

#[test]
fn a_client_that_forgot_connects_again_from_the_same_port_after_three_seconds() {
    let spec = SPECS[0];
    // The server is not told that nobody knows its connection any more.
    let (mut pair, _) = pair(spec, (3_000_000, 0), |_, l| {
        if l.from == 0 && l.head.flags.has(Flags::RST) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
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
    // What the old one heard last is younger: refused.
    run(&mut pair, spec, 2);
    assert_eq!(pair.apps[0].ended, Some(Some(Fault::Refused)));
    let now = pair.now;
    pair.ends[0].close(now, id);
    let later = pair.now + secs(3);
    pair.run(later);
    pair.now = later;
    let id = pair.ends[0]
        .connect(pair.now, &protocol(spec), local, remote)
        .expect("free");
    pair.apps[0] = App {
        to_write: to_write.clone(),
        close_after: true,
        conn: Some(id),
        ..App::default()
    };
    pair.apps[1] = App::default();
    run(&mut pair, spec, 60);
    assert_ne!(pair.apps[1].conn, Some(old));
    assert!(pair.apps[1].read == to_write);
    assert_eq!(pair.apps[0].ended, Some(None));
    assert_eq!((local.ip(), remote.ip()), (CLIENT.into(), SERVER.into()));
}

#[test]
fn thirty_two_connections_between_one_pair_of_hosts_all_deliver() {
    let protocol = protocol(SPECS[0]);
    let mut pair = Pair::new(3);
    let at = core::net::SocketAddrV4::new(SERVER, 80);
    pair.ends[1].listen(&protocol, at, 64).expect("free");
    pair.usher = Some(Box::new(|| App {
        let_go: true,
        ..App::default()
    }));
    let mut payloads: Vec<Vec<u8>> = (0..32).map(|n| pattern(30_000 + n, n as u64)).collect();
    for payload in &payloads {
        let id = pair.dial(&protocol);
        let app = App {
            to_write: payload.clone(),
            close_after: true,
            conn: Some(id),
            ..App::default()
        };
        pair.crowd[0].insert(id, app);
    }
    let limit = pair.now + secs(20);
    pair.run(limit);
    let mut read: Vec<Vec<u8>> = pair.crowd[1].values().map(|a| a.read.clone()).collect();
    payloads.sort();
    read.sort();
    assert!(read == payloads);
}

/// Data every half second, at an epoch of 40 ms.
#[test]
fn a_slow_writer_misses_no_feedback_and_one_that_idled_asks_first() {
    let spec = SPECS[1];
    let (mut pair, seen) = pair(spec, (0, 0), |_, _| Fate::Deliver);
    pair.apps[0].close_after = false;
    run(&mut pair, spec, 1);
    for n in 1..=40 {
        pair.apps[0].to_write = pattern(1_000 * n, 4);
        let limit = pair.now + ms(500);
        run_until(&mut pair, limit);
    }
    assert_eq!(probe(&pair, 0, "atp-rate", "missed"), 0.0);
    let starts = |pair: &Pair| probe(pair, 0, "atp-rate", "starts");
    assert_eq!(starts(&pair), 1.0);
    let limit = pair.now + secs(120);
    run_until(&mut pair, limit);
    let packets = seen.borrow().len();
    pair.apps[0].to_write = pattern(60_000, 4);
    let limit = pair.now + secs(1);
    run_until(&mut pair, limit);
    assert_eq!(starts(&pair), 2.0);
    assert!(said(spec).probe(&seen.borrow()[packets].head));
    pair.apps[0].close_after = true;
    run(&mut pair, spec, 60);
    delivered(&pair, spec);
}

fn run_until(pair: &mut Pair, limit: Time) {
    pair.run(limit);
    pair.now = limit;
}

#[test]
fn what_is_broken_on_the_way_counts_as_lost_and_clocks_may_wrap() {
    for spec in SPECS {
        let mut rng = Rng::new(11);
        let (mut pair, _) = pair(spec, (200_000, 100_000), move |_, _| {
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

/// Each half in turn begins 5,000 below the end of the space, and clocks of the wire wrap with it.
#[test]
fn sequence_numbers_may_wrap_in_either_half_while_packets_are_lost() {
    const FIRST: u32 = u32::MAX - 4_999;
    let begin = |spec: &str, side: usize, late: u32| {
        let mut rng = Rng::new(17);
        let (mut pair, seen) = pair(spec, (150_000, 100_000), move |_, l| {
            if l.octets > 0 && rng.below(15) == 0 {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        });
        // Initial numbers follow a clock of 4 us.
        pair.now += Span::MICRO * 4 * u64::from(late);
        pair.connect(&protocol(spec));
        while pair.apps.iter().any(|a| a.conn.is_none()) {
            let limit = pair.now + secs(1);
            pair.step(limit);
        }
        let iss = pair.conn(side).board().tx.iss.0;
        (pair, seen, iss)
    };
    for spec in SPECS {
        for side in 0..2 {
            let (.., iss) = begin(spec, side, 0);
            let (mut pair, seen, iss) = begin(spec, side, FIRST.wrapping_sub(iss));
            assert_eq!(iss, FIRST, "{spec}");
            run(&mut pair, spec, 600);
            delivered(&pair, spec);
            let seen = seen.borrow();
            let sent: Vec<&Left> = data(&seen, side).collect();
            let above = |l: &&&Left| l.head.seq.0 >= FIRST;
            let [last, rest] = [sent.iter().filter(above).count(), sent.len()];
            assert!((3..rest).contains(&last), "{spec}: {last} of {rest}");
            let again = pair.conn(side).board().tx.retransmits;
            assert!((1..60).contains(&again), "{spec}: {again}");
            // A hole may begin below the end of the space and end beyond it.
            let holes = seen.iter().filter(|l| l.from != side);
            let mut holes = holes.flat_map(|l| l.head.ranges().to_vec());
            assert!(holes.all(|(a, b)| b.since(a) < 150_000), "{spec}");
        }
    }
}

/// The window is worth no segment, and what tells that it has opened again is lost.
#[test]
fn a_stall_with_375_octets_left_and_a_lost_update_is_probed() {
    for spec in SPECS {
        // 375 beyond 45 segments; in units of 256 octets one of them is told.
        let spec = &format!("{spec},rcv_wnd=64815");
        let deaf = Rc::new(RefCell::new(false));
        let hears = Rc::clone(&deaf);
        let (mut pair, seen) = pair(spec, (300_000, 0), move |s, l| {
            // Whatever tells of the window is lost until it is asked for.
            let deaf = &mut *hears.borrow_mut();
            *deaf &= l.from == 1 || !s.probe(&l.head);
            if *deaf { Fate::Drop } else { Fate::Deliver }
        });
        pair.apps[1].stalled = true;
        run(&mut pair, spec, 5);
        assert_eq!(pair.conn(1).board().app.unread, 64_440, "{spec}");
        let peer = &pair.conn(0).board().peer;
        assert!(peer.persist && peer.window == 256, "{spec}: {peer:?}");
        *deaf.borrow_mut() = true;
        pair.apps[1].stalled = false;
        let woken = pair.now;
        pair.pump(1);
        run(&mut pair, spec, 600);
        delivered(&pair, spec);
        let seen = seen.borrow();
        let after = seen.iter().filter(|l| l.at >= woken);
        let lost: Vec<u32> = after
            .clone()
            .filter(|l| l.fate == Fate::Drop)
            .map(|l| l.head.window)
            .collect();
        assert!(
            lost.iter().any(|window| *window > 60_000),
            "{spec}: {lost:?}"
        );
        let mut sent = after.filter(|l| l.from == 0);
        let said = said(spec);
        let asked = sent.next().expect("a question");
        assert!(said.probe(&asked.head) && asked.octets == 0, "{spec}");
        let first = sent.find(|l| l.octets > 0).map(|l| l.octets);
        assert_eq!(first, Some(1_432), "{spec}: full segments again");
        assert_eq!(pair.conn(0).board().tx.retransmits, 0, "{spec}");
    }
}

#[test]
fn an_application_that_is_gone_before_the_end_resets() {
    let spec = SPECS[0];
    let (mut pair, _) = pair(spec, (3_000_000, 0), |_, _| Fate::Deliver);
    run(&mut pair, spec, 1);
    let (now, id) = (pair.now, pair.apps[1].conn.expect("accepted"));
    pair.ends[1].close(now, id);
    pair.apps[1].conn = None;
    run(&mut pair, spec, 5);
    assert_eq!(pair.apps[0].ended, Some(Some(Fault::Reset)));
}

/// Its radio is off for good, and something it sent is missing.
#[test]
fn who_is_silent_for_a_minute_is_told_of_holes_no_longer() {
    let spec = SPECS[1];
    let mut count = 0;
    let (mut pair, seen) = pair(spec, (1_000_000, 0), move |_, l| {
        count += u32::from(l.octets > 0);
        if l.from == 0 && (count == 39 || count > 40) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    run(&mut pair, spec, 1);
    let limit = pair.now + secs(200);
    run_until(&mut pair, limit);
    let heard = data(&seen.borrow(), 0).nth(39).map(|l| l.at).expect("data");
    let told = seen.borrow().iter().rfind(|l| l.from == 1).map(|l| l.at);
    let lasted = told.expect("feedback") - heard;
    assert!(lasted > secs(59) && lasted < secs(61), "{lasted:?}");
}

/// What a peer that lies could say to the connection of `side`: anything, under its identifier.
fn lie(pair: &Pair, side: usize, rng: &mut Rng) -> Option<Vec<u8>> {
    const EDGES: [u32; 8] = [0, 1, 2, 1_000, 1 << 20, i32::MAX as u32, 1 << 31, u32::MAX];
    let conn = pair.ends[side].conn(pair.apps[side].conn?)?;
    let (tuple, board, wire) = (conn.tuple(), conn.board(), &protocol(SPECS[0]).wire);
    let mut any = |of: &[u32]| of[rng.below(of.len() as u64) as usize];
    let mut head = Head::default();
    (head.sport, head.dport) = (tuple.remote.port(), tuple.local.port());
    head.conn_id = board.site.conn_id;
    let near = |at: Seq, by: u32| at.plus(by);
    head.seq = near(board.rx.nxt, any(&EDGES));
    head.ack = Some(match any(&[0, 1, 2]) {
        0 => board.tx.una,
        1 => board.tx.max,
        _ => near(board.tx.una, any(&EDGES)),
    });
    head.flags = [Flags(0), Flags(0), Flags::FIN, Flags::SYN][any(&[0, 1, 2, 3]) as usize];
    head.window = any(&EDGES);
    (head.ts, head.ts_echo) = (Some(any(&EDGES)), any(&EDGES));
    let feedback = any(&[0, 1, 1]);
    let mut set = |word: &str, value: u32| {
        let place = wire.place(word).expect("a word");
        head.set(place.word, value.min(place.most()));
    };
    set("feedback", feedback);
    for word in ["quick", "more", "request", "idle", "adapt"] {
        set(word, any(&[0, 1]));
    }
    set("link_down", any(&[0, 0, 0, 1]));
    for word in ["delay", "ds", "hold", "hops", "fb_seq"] {
        set(word, any(&EDGES));
    }
    let holes = any(&[0, 1, 3, 20]) * feedback;
    for _ in 0..holes {
        let start = near(board.tx.una, any(&EDGES));
        head.push_range((start, near(start, any(&EDGES))));
    }
    let mut bytes = vec![0; 300];
    let n = wire.emit(&head, &mut bytes);
    bytes.truncate(n);
    let ip = between(tuple.remote, tuple.local, tuple.proto);
    wire.seal(&ip.pseudo(), &mut bytes);
    Some(bytes)
}

/// Whatever a peer says hurts its own connection at the most.
#[test]
fn a_peer_that_lies_stops_nothing_else() {
    let switched = "atp,rtx_guard=off,route_restart=on,elfn=on";
    for spec in [SPECS[0], SPECS[2], switched] {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let (mut pair, _) = pair(spec, (200_000, 100_000), |_, _| Fate::Deliver);
            pair.connect(&protocol(spec));
            let mut told = 0;
            for _ in 0..300 {
                let limit = pair.now + Span::MICRO * rng.below(200_000);
                run_until(&mut pair, limit);
                let side = rng.below(2) as usize;
                let Some(bytes) = lie(&pair, side, &mut rng) else {
                    continue;
                };
                told += 1;
                let tuple = pair.conn(side).tuple();
                let ip = between(tuple.remote, tuple.local, tuple.proto);
                pair.ends[side].handle_packet(pair.now, &ip, &bytes);
                pair.pump(side);
                let (tx, rate) = (&pair.conn(side).board().tx, &pair.conn(side).board().rate);
                assert!(tx.una.upto(tx.nxt) && tx.nxt.upto(tx.max), "{spec} {seed}");
                let gap = rate.gap.unwrap_or(Span::MILLI);
                assert!(
                    gap >= Span::MICRO * 100 && gap <= Span::SECOND,
                    "{spec} {seed}"
                );
            }
            assert!(told > 3, "{spec} {seed}: {told}");
            assert!(pair.ends[1].conns().count() <= 1, "{spec} {seed}");
        }
    }
}

/// A notice to the client of a packet of this number, under this identifier.
fn notice(pair: &mut Pair, conn_id: u32, seq: Seq) {
    let tuple = pair.conn(0).tuple();
    let wire = &protocol(SPECS[0]).wire;
    let mut head = Head::default();
    (head.sport, head.dport) = (tuple.remote.port(), tuple.local.port());
    (head.conn_id, head.seq) = (conn_id, seq);
    head.set(wire.place("link_down").expect("a word").word, 1);
    let mut bytes = vec![0; 300];
    let n = wire.emit(&head, &mut bytes);
    bytes.truncate(n);
    let ip = between(tuple.remote, tuple.local, tuple.proto);
    wire.seal(&ip.pseudo(), &mut bytes);
    pair.ends[0].handle_packet(pair.now, &ip, &bytes);
    pair.pump(0);
}

//= spec#8.6
#[test]
fn notices_of_other_connections_and_of_what_is_not_on_its_way_change_nothing() {
    let spec = "atp,elfn=on,ds_first=2ms";
    let frozen = |pair: &Pair| probe(pair, 0, "quick-start", "frozen");
    let run_of = |forges: bool| {
        let (mut pair, seen) = pair(spec, (600_000, 0), |_, _| Fate::Deliver);
        pair.connect(&protocol(spec));
        let mut rng = Rng::new(3);
        for _ in 0..200 {
            let limit = pair.now + ms(3);
            run_until(&mut pair, limit);
            let board = pair.conn(0).board();
            let (id, tx) = (board.site.conn_id, board.tx.clone());
            if !forges || board.conn.state != State::Established {
                continue;
            }
            let bit = 1 << rng.below(32);
            notice(&mut pair, id ^ bit, tx.una);
            for seq in [
                tx.una.minus(1),
                tx.max,
                tx.max.plus(rng.below(1 << 30) as u32),
            ] {
                notice(&mut pair, id, seq);
            }
        }
        assert_eq!(frozen(&pair), 0.0);
        run(&mut pair, spec, 60);
        delivered(&pair, spec);
        let times: Vec<Time> = data(&seen.borrow(), 0).map(|l| l.at).collect();
        times
    };
    assert_eq!(run_of(true), run_of(false));
}

/// Who is on the path can forge any: each costs a question, and data go on between two.
#[test]
fn whoever_forges_notices_of_what_is_on_its_way_slows_a_sender_and_stops_none() {
    for spec in ["atp,elfn=on", "atp-adaptive,elfn=on"] {
        let spec = &format!("{spec},ds_first=2ms");
        let (mut pair, seen) = pair(spec, (60_000, 0), |_, _| Fate::Deliver);
        pair.connect(&protocol(spec));
        let begun = pair.now;
        while pair.apps[1].read.len() < 60_000 && pair.now - begun < secs(60) {
            let limit = pair.now + ms(1);
            run_until(&mut pair, limit);
            let (id, una) = (
                pair.conn(0).board().site.conn_id,
                pair.conn(0).board().tx.una,
            );
            notice(&mut pair, id, una);
        }
        let lasted = pair.now - begun;
        assert_eq!(pair.apps[1].read.len(), 60_000, "{spec}: after {lasted:?}");
        let frozen = probe(&pair, 0, "quick-start", "frozen");
        // One in a round trip of 20 ms, however many there are.
        let most = lasted.0 as f64 / 20e6 + 1.0;
        assert!(
            frozen > 10.0 && frozen <= most,
            "{spec}: {frozen} of {most}"
        );
        let said = said(spec);
        let asked = seen.borrow().iter().filter(|l| said.probe(&l.head)).count();
        assert!(asked as f64 <= frozen + 1.0, "{spec}: {asked} {frozen}");
        run(&mut pair, spec, 60);
        delivered(&pair, spec);
    }
}

/// SYNs with sources of their own invention are no connections: none is accepted, and no more are
/// kept than the backlog has room for.
#[test]
fn a_flood_of_syns_is_no_flood_of_connections() {
    let spec = SPECS[0];
    let (mut pair, _) = pair(spec, (1_000, 0), |_, _| Fate::Deliver);
    pair.connect(&protocol(spec));
    let wire = &protocol(spec).wire;
    let tuple = pair.conn(0).tuple();
    let before = pair.ends[1].conns().count();
    for n in 0..5_000u32 {
        let mut head = Head::default();
        (head.sport, head.dport) = (1_024 + n as u16, tuple.remote.port());
        (head.conn_id, head.seq, head.ts) = (n + 1, Seq(n), Some(n));
        head.flags = Flags::SYN;
        let request = wire.place("request").expect("a word").word;
        head.set(request, 1);
        let mut bytes = vec![0; 300];
        let len = wire.emit(&head, &mut bytes);
        bytes.truncate(len);
        let mut from = tuple.local;
        from.set_port(1_024 + n as u16);
        let ip = between(from, tuple.remote, tuple.proto);
        wire.seal(&ip.pseudo(), &mut bytes);
        pair.ends[1].handle_packet(pair.now, &ip, &bytes);
        pair.pump(1);
    }
    let kept = pair.ends[1].conns().count() - before;
    assert!((1..=256).contains(&kept), "{kept}");
    run(&mut pair, spec, 60);
    assert_eq!(pair.apps[1].read.len(), 1_000, "who means it is served");
}

/// Who opened has nothing to say, and what confirms the answer is lost: the answer goes again.
#[test]
fn a_server_that_speaks_first_is_heard_although_the_confirmation_was_lost() {
    for spec in SPECS {
        let mut count = 0;
        let (mut pair, seen) = pair(spec, (0, 100_000), move |_, l| {
            count += u32::from(l.from == 0);
            if l.from == 0 && (2..4).contains(&count) {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        });
        pair.apps[0].close_after = false;
        run(&mut pair, spec, 30);
        assert_eq!(pair.apps[0].read.len(), 100_000, "{spec}");
        let answers = |l: &&Left| l.from == 1 && l.head.flags.has(Flags::SYN);
        assert_eq!(seen.borrow().iter().filter(answers).count(), 3, "{spec}");
    }
}

const HOST: SocketAddrV4 = SocketAddrV4::new(SERVER, 80);

/// Hands a listener what somebody sends whose port and identifier are of this number.
fn hand(end: &mut Endpoint, protocol: &Blueprint, n: u16, head: &Head, payload: &[u8]) {
    let mut head = head.clone();
    (head.sport, head.dport, head.conn_id) = (1_024 + n, HOST.port(), n.into());
    let mut bytes = vec![0; 300];
    let len = protocol.wire.emit(&head, &mut bytes);
    bytes.truncate(len);
    bytes.extend_from_slice(payload);
    let from = SocketAddrV4::new(CLIENT, 1_024 + n);
    let ip = between(from, HOST, protocol.number);
    protocol.wire.seal(&ip.pseudo(), &mut bytes);
    end.handle_packet(Time(1), &ip, &bytes);
}

/// What a listener says now.
fn answers(end: &mut Endpoint, protocol: &Blueprint) -> Vec<Head> {
    let mut out = [0; 2_048];
    let next = || {
        end.poll_transmit(Time(1), &mut out)
            .map(|d| out[..d.len].to_vec())
    };
    let bytes = std::iter::from_fn(next);
    let parsed = bytes.map(|bytes| {
        let mut head = Head::default();
        protocol.wire.parse(&bytes, &mut head).expect("ATP");
        head
    });
    parsed.collect()
}

/// The connection that somebody opened, as far as the endpoint keeps one.
fn of(end: &Endpoint, n: u16) -> Option<&Conn> {
    let mut conns = end.conns().filter_map(|id| end.conn(id));
    conns.find(|c| c.board().site.conn_id == u32::from(n))
}

fn accepted(end: &mut Endpoint) -> usize {
    let events = std::iter::from_fn(|| end.poll_event());
    events
        .filter(|(_, e)| matches!(e, Event::Accepted(_)))
        .count()
}

fn first_syn(protocol: &Blueprint) -> Head {
    let mut syn = Head::default();
    (syn.flags, syn.seq, syn.ts) = (Flags::SYN, Seq(1_000), Some(1));
    syn.set(protocol.wire.place("request").expect("a word").word, 1);
    syn
}

/// Who invents the source of its SYN sees no answer, and does not know the number in it: what it
/// sends in the dark is no confirmation, whatever it is.
#[test]
fn who_confirms_without_the_number_of_the_answer_is_not_believed() {
    for spec in SPECS {
        let protocol = protocol(spec);
        let word = |name| protocol.wire.place(name).expect("a word of ATP").word;
        let mut end = Endpoint::new(EndpointConfig::default());
        end.listen(&protocol, HOST, 100).expect("a free address");
        let mut bare = Head::default();
        (bare.seq, bare.ts) = (Seq(1_001), Some(2));
        let (mut fin, mut probe, mut feedback) = (bare.clone(), bare.clone(), bare.clone());
        fin.flags = Flags::FIN;
        probe.set(word("request"), 1);
        feedback.set(word("feedback"), 1);
        feedback.set(word("fb_seq"), 1);
        let forms: [(&Head, &[u8]); 5] = [
            (&bare, b""),
            (&bare, b"forged"),
            (&fin, b""),
            (&probe, b""),
            (&feedback, b""),
        ];
        let mut n = 0;
        for (at, (form, payload)) in forms.into_iter().enumerate() {
            let guesses = [
                None,
                Some(0),
                Some(2),
                Some(1 << 30),
                Some(3 << 30),
                Some(1),
            ];
            for guess in guesses {
                n += 1;
                hand(&mut end, &protocol, n, &first_syn(&protocol), b"");
                let iss = answers(&mut end, &protocol)[0].seq;
                let mut head = form.clone();
                head.ack = guess.map(|g: u32| iss.plus(g));
                hand(&mut end, &protocol, n, &head, payload);
                let (believed, right) = (accepted(&mut end), guess == Some(1));
                let what = format!("{spec}, {at} with {guess:?}");
                assert_eq!(believed, usize::from(right), "{what}");
                let taken = of(&end, n).expect("it waits").board().rx.nxt;
                assert!(
                    right || taken == Seq(1_001),
                    "{what}: nothing of it is taken"
                );
            }
        }
    }
}

/// The same of a connection that made room for others and is made again.
#[test]
fn who_made_room_is_made_again_by_the_number_of_the_answer_alone() {
    let protocol = protocol(SPECS[0]);
    let mut end = Endpoint::new(EndpointConfig::default());
    end.listen(&protocol, HOST, 4).expect("a free address");
    let mut numbers = Vec::new();
    for n in 0..5 {
        hand(&mut end, &protocol, n + 1, &first_syn(&protocol), b"");
        numbers.push(answers(&mut end, &protocol)[0].seq);
    }
    assert!(of(&end, 1).is_none() && of(&end, 2).is_some());
    let mut data = Head::default();
    (data.seq, data.ts) = (Seq(1_001), Some(2));
    for guess in [None, Some(0), Some(2)] {
        data.ack = guess.map(|g| numbers[0].plus(g));
        hand(&mut end, &protocol, 1, &data, b"octets");
        assert!(of(&end, 1).is_none() && of(&end, 2).is_some(), "{guess:?}");
        let said = answers(&mut end, &protocol);
        assert!(
            said.len() == 1 && said[0].flags.has(Flags::RST),
            "{guess:?}"
        );
    }
    // Its SYN once more: the same answer.
    hand(&mut end, &protocol, 1, &first_syn(&protocol), b"");
    assert_eq!(answers(&mut end, &protocol)[0].seq, numbers[0]);
    assert_eq!(accepted(&mut end), 0);
    // The second one made room for it.
    assert!(of(&end, 1).is_some() && of(&end, 2).is_none());
    data.ack = Some(numbers[1].plus(1));
    hand(&mut end, &protocol, 2, &data, b"octets");
    assert_eq!(accepted(&mut end), 1);
    assert_eq!(of(&end, 2).expect("it is open").board().rx.nxt, Seq(1_007));
}
