//! What is told of a connection's rate and of what held its sender: while it runs, while nothing
//! arrives, and once all is said.

use wifu_engine::endpoint::ConnInfo;
use wifu_engine::{ConnId, State};
use wifu_testkit::pair::{Fate, Pair, Step, pattern};
use wifu_wire::{Span, Time};

/// Those whose windows fill the wire, or whose pace is what the wire's delay tells.
const PROTOCOLS: [&str; 11] = [
    "tcp-tahoe",
    "tcp-reno",
    "tcp-newreno",
    "tcp-sack",
    "tcp-cubic",
    "tcp-linux",
    "tcp-vegas",
    "tcp-bbr",
    "ap-next",
    "tp-alpha,ds_first=2ms",
    "atp",
];

/// The wire carries so many octets of segments in a second.
const WIRE: u64 = 1_000_000;

fn ms(n: u64) -> Time {
    Time::ZERO + Span::MILLI * n
}

/// A client writes so much over a wire with a queue of 100 ms, which is cut at some time.
fn transfer(spec: &str, octets: usize, cut: Time) -> (Pair, ConnId) {
    let mut pair = Pair::new(7);
    pair.apps[0].to_write = pattern(octets, 1);
    pair.apps[0].close_after = true;
    let mut free = Time::ZERO;
    pair.spoil = Box::new(move |f| {
        if f.from == 1 || f.at >= cut {
            return if f.from == 1 {
                Fate::Deliver
            } else {
                Fate::Drop
            };
        }
        free = free.max(f.at);
        if free - f.at > Span::MILLI * 100 {
            return Fate::Drop;
        }
        free += Span(f.bytes.len() as u64 * 1_000_000_000 / WIRE);
        Fate::Late(free - f.at)
    });
    let blueprint = wifu_parts::blueprint(spec).unwrap_or_else(|e| panic!("{e}"));
    let id = pair.connect(&blueprint);
    (pair, id)
}

fn info(pair: &mut Pair, id: ConnId, at: Time) -> ConnInfo {
    while pair.step(at) == Step::Going {
        pair.apps[1].close_after |= pair.apps[1].eof;
    }
    pair.ends[0].info_until(id, pair.now).expect("it lives")
}

#[test]
fn the_rate_while_it_runs_is_what_arrives() {
    for spec in PROTOCOLS {
        let (mut pair, id) = transfer(spec, 20_000_000, Time::NEVER);
        let begun = info(&mut pair, id, ms(10_000)).counters.octets_acked;
        let (mut sum, mut most) = (0, 0);
        for i in 1..=1000 {
            let rate = info(&mut pair, id, ms(10_000 + i * 5)).delivery_rate;
            (sum, most) = (sum + rate, most.max(rate));
        }
        let acked = info(&mut pair, id, ms(15_000)).counters.octets_acked - begun;
        let (told, true_mean) = (sum / 1000, acked / 5);
        let ratio = told as f64 / true_mean as f64;
        assert!((0.8..1.2).contains(&ratio), "{spec}: {told} of {true_mean}");
        // What had arrived before a recovery of more than a second ends is acknowledged at once.
        assert!(most <= WIRE * 3 / 2, "{spec}: {most}");
    }
}

#[test]
fn the_rate_falls_while_nothing_arrives() {
    for spec in PROTOCOLS {
        let (mut pair, id) = transfer(spec, 40_000_000, ms(20_000));
        let before = info(&mut pair, id, ms(20_000));
        assert!(before.delivery_rate > 0, "{spec}");
        for later in [2_000, 4_000, 8_000] {
            let now = info(&mut pair, id, ms(20_000 + later));
            // Twice what wire and queue hold.
            let most = 300_000 * 1000 / later;
            assert!(now.delivery_rate < most, "{spec}: {}", now.delivery_rate);
        }
    }
}

#[test]
fn once_all_is_said_neither_the_rate_nor_the_limits_go_on() {
    for spec in PROTOCOLS {
        let (mut pair, id) = transfer(spec, 500_000, Time::NEVER);
        let mut at = ms(100);
        let closed = loop {
            let now = info(&mut pair, id, at);
            if now.state == State::TimeWait {
                break now;
            }
            at += Span::MILLI;
        };
        let open = at - closed.opened_at.expect("it opened");
        let limits = |i: &ConnInfo| Span(i.limits.iter().map(|s| s.0).sum());
        assert!(
            open - limits(&closed) < Span::MILLI * 100,
            "{spec}: all of it"
        );
        let later = info(&mut pair, id, at + Span::MILLI * 900);
        assert_eq!(later.state, State::TimeWait, "{spec}");
        assert_eq!(limits(&later), limits(&closed), "{spec}");
        assert_eq!(later.delivery_rate, closed.delivery_rate, "{spec}");
        let mean = 500_000 * 1000 / ((at - Time::ZERO).0 / 1_000_000);
        let rate = later.delivery_rate;
        assert!(rate <= WIRE && rate >= mean / 2, "{spec}: {rate} of {mean}");
    }
}
