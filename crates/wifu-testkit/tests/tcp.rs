//! The TCP family over a pair in virtual time: the matrix of situations that every protocol must
//! survive, and that its mechanisms act.

use wifu_engine::{ConnId, Limit, State};
use wifu_testkit::pair::{Fate, Pair, Seen, pattern};
use wifu_wire::{Flags, Rng, Seq, Span, Time};

const PROTOCOLS: [&str; 21] = [
    "tcp-tahoe",
    "tcp-reno",
    "tcp-newreno",
    "tcp-sack",
    "tcp-cubic",
    "tcp-linux",
    "tcp-linux-reno",
    "tcp-vegas",
    "tcp-dctcp",
    "tcp-bbr",
    "tcp-tahoe,ack=dynamic",
    "tcp-few",
    "tcp-cwl",
    "tcp-clamp",
    "tcp-sack,ack=dynamic,da_reset=on,da_delay_dupacks=on",
    "tcp-ap05",
    "tcp-ap05,profile=ap05-wifu",
    "tcp-ap05-delack",
    "tcp-ap11",
    "ap-next",
    "tp-alpha,ds_first=2ms",
];

fn secs(s: u64) -> Time {
    Time(s * 1_000_000_000)
}

/// Both directions, then a close from both sides; checks every octet and the end state.
fn transfer(spec: &str, octets: usize, limit: u64, prepare: impl FnOnce(&mut Pair)) -> Pair {
    let blueprint = wifu_parts::blueprint(spec).unwrap();
    let mut pair = Pair::new(7);
    for (app, seed) in pair.apps.iter_mut().zip([1, 2]) {
        app.to_write = pattern(octets, seed);
        app.close_after = true;
    }
    prepare(&mut pair);
    pair.connect(&blueprint);
    pair.run(secs(limit));
    for (side, name) in [(0, "client"), (1, "server")] {
        let (got, want) = (&pair.apps[side].read, &pair.apps[1 - side].to_write);
        assert_eq!(
            got.len(),
            want.len(),
            "{spec}: {name} read {} of {}",
            got.len(),
            want.len()
        );
        assert!(got == want, "{spec}: {name} read other bytes");
        assert_eq!(
            pair.apps[side].ended,
            Some(None),
            "{spec}: {name} did not end in order"
        );
    }
    pair
}

fn conn(pair: &Pair, side: usize) -> ConnId {
    pair.apps[side].conn.unwrap()
}

#[test]
fn a_clean_wire_carries_both_directions_without_repeating_anything() {
    for spec in PROTOCOLS {
        let pair = transfer(spec, 300_000, 600, |_| {});
        for side in 0..2 {
            let info = pair.ends[side].info(conn(&pair, side)).unwrap();
            assert_eq!((info.retransmits, info.timeouts), (0, Some(0)), "{spec}");
            assert_eq!(info.state, State::Closed);
        }
    }
}

#[test]
fn random_loss_in_both_directions_is_survived() {
    for spec in PROTOCOLS {
        for percent in [1, 5, 10, 20] {
            transfer(&format!("{spec},syn_tries=11"), 100_000, 36_000, |pair| {
                let mut rng = Rng::new(percent);
                pair.spoil = Box::new(move |_| {
                    if rng.below(100) < percent {
                        Fate::Drop
                    } else {
                        Fate::Deliver
                    }
                });
            });
        }
    }
}

#[test]
fn reordering_duplication_and_corruption_are_survived() {
    for spec in PROTOCOLS {
        transfer(spec, 200_000, 3_600, |pair| {
            let mut rng = Rng::new(3);
            pair.spoil = Box::new(move |_| match rng.below(20) {
                0 => Fate::Twice,
                1 => Fate::Corrupt,
                2 => Fate::Late(Span::MILLI * 7),
                _ => Fate::Deliver,
            });
        });
    }
}

#[test]
fn a_sender_that_the_local_queue_stops_is_not_taken_for_window_limited() {
    let blueprint = wifu_parts::blueprint("tcp-newreno").unwrap();
    let mut pair = Pair::new(7);
    let id = pair.connect(&blueprint);
    pair.run(secs(1));
    pair.ends[0].write(pair.now, id, &pattern(100_000, 1));
    let mut out = [0u8; 2048];
    pair.ends[0].set_room(1);
    assert!(pair.ends[0].poll_transmit(pair.now, &mut out).is_some());
    assert!(pair.ends[0].poll_transmit(pair.now, &mut out).is_none());
    let limited = pair.ends[0].info(id).unwrap().limited;
    assert_eq!(limited, wifu_engine::Limit::Queue);
    assert!(
        pair.ends[0].poll_timeout() > pair.now,
        "nobody spins for want of room"
    );
    pair.ends[0].set_room(1000);
    while pair.ends[0].poll_transmit(pair.now, &mut out).is_some() {}
    let limited = pair.ends[0].info(id).unwrap().limited;
    assert_eq!(limited, wifu_engine::Limit::Window);
}

/// A larger send buffer would help; who has written all has no use for one.
#[test]
fn what_holds_a_sender_that_has_sent_all_is_its_buffer_its_writer_or_the_answer() {
    let blueprint = wifu_parts::blueprint("tcp-newreno,snd_buf=8192,iw=10").unwrap();
    let limited = |octets: usize, shut: bool| {
        let mut pair = Pair::new(7);
        let id = pair.connect(&blueprint);
        pair.run(secs(1));
        let written = pair.ends[0].write(pair.now, id, &pattern(octets, 1));
        if shut {
            pair.ends[0].shutdown_write(pair.now, id);
        }
        let mut out = [0u8; 2048];
        while pair.ends[0].poll_transmit(pair.now, &mut out).is_some() {}
        (written, pair.ends[0].info(id).unwrap().limited)
    };
    assert_eq!(limited(100_000, false), (8192, Limit::Buffer));
    assert_eq!(limited(5 * 1448, false), (5 * 1448, Limit::Buffer));
    assert_eq!(limited(8192, true), (8192, Limit::Drain));
    assert_eq!(limited(2 * 1448, false), (2 * 1448, Limit::Source));
}

/// RFC 9293 3.9.1: what ends with the last octet written is pushed, first or again, and nothing
/// else is. The paper's Tahoe pushes nothing.
#[test]
fn what_ends_with_the_last_octet_written_is_pushed() {
    let pushes = |spec: &&str| {
        let b = wifu_parts::blueprint(spec).unwrap();
        let on = ("psh", wifu_engine::Value::Flag(true));
        b.parts.iter().any(|p| p.values.contains(&on))
    };
    for spec in PROTOCOLS.into_iter().filter(pushes) {
        let drop_first = |pair: &mut Pair| {
            pair.record = true;
            let mut dropped = false;
            pair.spoil = Box::new(move |flying| {
                let pushed = flying.from == 0 && flying.seg().has(Flags::PSH);
                match pushed && !core::mem::replace(&mut dropped, true) {
                    true => Fate::Drop,
                    false => Fate::Deliver,
                }
            });
        };
        let pair = transfer(spec, 100_000, 600, drop_first);
        for side in 0..2 {
            let data = || {
                pair.seen
                    .iter()
                    .filter(|s| s.from == side && !s.seg.is_empty())
            };
            let end = |s: &Seen| s.seg.seq.plus(s.seg.len());
            let last = data().map(end).reduce(Seq::later);
            let pushed: Vec<Seq> = data().filter(|s| s.seg.has(Flags::PSH)).map(end).collect();
            assert!(
                pushed.iter().all(|at| Some(*at) == last),
                "{spec}: {pushed:?}"
            );
            assert_eq!(pushed.len(), if side == 0 { 2 } else { 1 }, "{spec}");
        }
        let silent = transfer(
            &format!("{spec},profile=wifu-tahoe"),
            100_000,
            600,
            |pair| {
                pair.record = true;
            },
        );
        assert!(silent.seen.iter().all(|s| !s.seg.has(Flags::PSH)), "{spec}");
    }
}
