//! The TCP family at scale: floods of SYNs, a thousand connections at once, ten thousand one after
//! another, with memory that stays where it was.

mod tcp_common;

use core::net::{Ipv4Addr, SocketAddrV4};
use tcp_common::*;
use wifu_engine::{Endpoint, State};
use wifu_testkit::alloc::{Counting, live};
use wifu_testkit::pair::{App, CLIENT, Fate, Pair, SERVER, Seen, pattern};
use wifu_testkit::seg::{Seg, between};
use wifu_wire::{AnyIpInfo, Flags, Rng, Seq, Span, SynOptions, Time};

#[global_allocator]
static COUNTING: Counting = Counting;

/// With buffers of one size, so that what is measured is not the clearing of megabytes.
fn specs() -> [String; 9] {
    PROTOCOLS.map(|p| format!("{p},rcv_wnd=65535,snd_buf=131071"))
}

const AT: SocketAddrV4 = SocketAddrV4::new(SERVER, 80);

/// Ten SYNs of strangers who will never answer.
fn flood(pair: &mut Pair, rng: &mut Rng, proto: u8) {
    for _ in 0..10 {
        let source = Ipv4Addr::from(0xC000_0000 | rng.next_u32() >> 4);
        let from = SocketAddrV4::new(source, 1 + rng.below(65_535) as u16);
        let syn = Seg {
            ports: (from.port(), 80),
            seq: Seq(rng.next_u32()),
            flags: Flags::SYN,
            window: 1_000,
            ts: Some((rng.next_u32(), 0)),
            options: SynOptions {
                mss: 1460,
                scale: Some(7),
                sack_ok: true,
                ts_ok: true,
            },
            ..Seg::default()
        };
        let ip = between(from, AT, proto);
        let bytes = syn.bytes(&ip);
        pair.ends[1].handle_packet(pair.now, &ip, &bytes);
    }
}

#[test]
fn a_hundred_thousand_syns_of_strangers_change_nothing_and_memory_is_bounded() {
    for spec in [
        "tcp-newreno,profile=wifu-tahoe",
        "tcp-cubic,rcv_wnd=65535,snd_buf=131071",
    ] {
        let blueprint = wifu_parts::blueprint(spec).unwrap();
        let mut pair = Pair::new(1);
        // Answers to strangers reach nobody.
        pair.spoil = Box::new(|f| match f.ip.v4().map(|ip| ip.dst) {
            Some(CLIENT | SERVER) => Fate::Deliver,
            _ => Fate::Drop,
        });
        let backlog = 1_024;
        pair.ends[1].listen(&blueprint, AT, backlog).unwrap();
        pair.apps[0].to_write = pattern(20_000_000, 1);
        pair.usher = None;
        let first = pair.dial(&blueprint);
        pair.apps[0].conn = Some(first);
        run_for(&mut pair, ms(100));
        let served = pair.apps[1].conn.unwrap();
        pair.usher = Some(Box::new(App::default));
        let (mut rng, mut latecomers, before) = (Rng::new(5), Vec::new(), live());
        let mut most = 0;
        for tick in 0..10_000 {
            flood(&mut pair, &mut rng, blueprint.number);
            if tick % 1_000 == 500 {
                let id = pair.dial(&blueprint);
                latecomers.push(id);
                let app = App {
                    conn: Some(id),
                    ..App::default()
                };
                pair.crowd[0].insert(id, app);
            }
            run_for(&mut pair, ms(1));
            if tick % 100 == 0 {
                // What the applications hold is the test's own.
                let read = pair.apps[1].read.capacity() as i64;
                most = most.max(live() - before - read);
            }
        }
        assert!(pair.ends[1].len() <= backlog + 12, "{spec}");
        // Some 10 kB for each embryo; the open connections' stores are the rest.
        assert!(most < 21_000_000, "{spec}: {most} bytes");
        for id in latecomers {
            let conn = pair.ends[0].conn(id).unwrap();
            assert_eq!(conn.state(), State::Established, "{spec}: a latecomer");
            let opened = conn.opened_at().unwrap();
            assert!(conn.board().tx.syn_lost.eq(&false), "{spec}: {opened:?}");
        }
        let limit = pair.now + Span::SECOND * 60;
        pair.run(limit);
        assert!(pair.apps[1].read == pair.apps[0].to_write, "{spec}");
        let tx = &pair.ends[0].conn(first).unwrap().board().tx;
        assert_eq!((tx.retransmits, tx.timeouts), (0, 0), "{spec}");
        assert!(pair.ends[1].conn(served).is_some(), "{spec}");
        // When the embryos have given up, nothing is left of the flood.
        let limit = pair.now + Span::SECOND * 600;
        pair.run(limit);
        assert_eq!(
            pair.ends[1].len(),
            11,
            "{spec}: the transfer and ten latecomers"
        );
    }
}

/// `n` clients at once at a listener with this backlog; each sends its number, and gets it back.
fn burst(spec: &str, n: u64, backlog: usize) -> Pair {
    let blueprint = wifu_parts::blueprint(spec).unwrap();
    let mut pair = Pair::new(9);
    pair.ends[1].listen(&blueprint, AT, backlog).unwrap();
    pair.usher = Some(Box::new(|| App {
        to_write: b"welcome".to_vec(),
        close_after: true,
        ..App::default()
    }));
    for i in 0..n {
        let id = pair.dial(&blueprint);
        let app = App {
            to_write: i.to_le_bytes().to_vec(),
            close_after: true,
            conn: Some(id),
            ..App::default()
        };
        pair.crowd[0].insert(id, app);
    }
    pair
}

/// All of a [`burst`] ended in order, and every client read the welcome.
fn assert_all_welcomed(pair: &Pair, spec: &str) {
    for app in pair.crowd.iter().flat_map(|c| c.values()) {
        assert_eq!(app.ended, Some(None), "{spec}");
    }
    for app in pair.crowd[0].values() {
        assert_eq!(&app.read, b"welcome", "{spec}");
    }
}

#[test]
fn more_connects_at_once_than_the_backlog_holds_all_succeed() {
    for spec in specs() {
        let mut pair = burst(&spec, 400, 50);
        run_for(&mut pair, ms(15));
        assert_eq!(pair.ends[1].len(), 50, "{spec}: memory is bounded");
        run_for(&mut pair, ms(25));
        // At once: nobody needs a second SYN.
        assert_eq!(pair.crowd[1].len(), 400, "{spec}");
        assert!(pair.run(secs(10_000)), "{spec}");
        let mut numbers: Vec<&[u8]> = pair.crowd[1].values().map(|a| &a.read[..]).collect();
        numbers.sort_by_key(|b| u64::from_le_bytes((*b).try_into().unwrap()));
        let all = (0..400u64).map(u64::to_le_bytes);
        assert!(numbers.iter().copied().eq(all), "{spec}");
        assert_all_welcomed(&pair, &spec);
    }
}

/// All segments that an end has to send now.
fn polled(end: &mut Endpoint, now: Time) -> Vec<(AnyIpInfo, Vec<u8>)> {
    let mut out = [0; 2_048];
    let next = || {
        end.poll_transmit(now, &mut out)
            .map(|d| (d.ip, out[..d.len].to_vec()))
    };
    core::iter::from_fn(next).collect()
}

/// A driver hands over what came together, and only then asks what there is to send: also who
/// made room by then has been answered.
#[test]
fn syns_that_come_together_are_all_answered() {
    for spec in specs() {
        let mut pair = burst(&spec, 400, 50);
        let now = pair.now;
        let [client, server] = &mut pair.ends;
        let syns = polled(client, now);
        assert_eq!(syns.len(), 400, "{spec}");
        for (ip, bytes) in &syns {
            server.handle_packet(now, ip, bytes);
        }
        assert_eq!(server.len(), 50, "{spec}: memory is bounded");
        let answers = polled(server, now);
        assert_eq!(answers.len(), 400, "{spec}");
        for (ip, bytes) in &answers {
            client.handle_packet(now, ip, bytes);
        }
        for (ip, bytes) in &polled(client, now) {
            server.handle_packet(now, ip, bytes);
        }
        let open = |id: &_| server.conn(*id).map(|c| c.state()) == Some(State::Established);
        assert_eq!(server.conns().filter(open).count(), 400, "{spec}");
    }
}

#[test]
fn a_burst_over_the_backlog_survives_losses() {
    for (spec, ts) in specs().iter().flat_map(|s| [(s, "on"), (s, "off")]) {
        let mut pair = burst(&format!("{spec},timestamps={ts}"), 300, 20);
        lose_randomly(&mut pair, 10, 8);
        assert!(pair.run(secs(10_000)), "{spec}");
        assert_all_welcomed(&pair, spec);
    }
}

/// The answer to the first SYN+ACK comes after the second SYN: both SYN+ACKs have to be the same,
/// also if the embryo made room in between.
#[test]
fn a_burst_over_the_backlog_survives_a_round_trip_longer_than_the_syns_timeout() {
    for (spec, ts) in specs().iter().flat_map(|s| [(s, "on"), (s, "off")]) {
        let spec = format!("{spec},rto_initial=1s,timestamps={ts}");
        let mut pair = burst(&spec, 100, 20);
        pair.delay = ms(750);
        pair.record = true;
        run_for(&mut pair, ms(1_700));
        assert_eq!(pair.ends[1].len(), 20, "{spec}: memory is bounded");
        let again = |s: &&Seen| s.from == 0 && s.seg.flags.has(Flags::SYN);
        let syns = pair.seen.iter().filter(again).count();
        assert_eq!(syns, 200, "{spec}: each client repeats its SYN once");
        run_for(&mut pair, ms(1_000));
        assert_eq!(pair.crowd[1].len(), 100, "{spec}: all are open");
        let resets = pair.seen.iter().filter(|s| s.seg.flags.has(Flags::RST));
        assert_eq!(resets.count(), 0, "{spec}");
        assert!(pair.run(secs(10_000)), "{spec}");
        assert_all_welcomed(&pair, &spec);
    }
}

/// A burst of 100 over a backlog of 50, none of them open yet; and for each client, whose port is
/// known to a stranger, what he sends in its name, made from the number of its SYN.
fn with_guesses(spec: &str, guess: impl Fn(Seq) -> Seg) -> Pair {
    let mut pair = burst(spec, 100, 50);
    run_for(&mut pair, ms(12));
    assert_eq!((pair.ends[1].len(), pair.crowd[1].len()), (50, 0));
    let protocol = wifu_parts::blueprint(spec).unwrap().number;
    let [client, server] = &mut pair.ends;
    for conn in client.conns().filter_map(|id| client.conn(id)) {
        let from = conn.tuple().local;
        let guess = Seg {
            ports: (from.port(), 80),
            window: 1_000,
            ..guess(conn.board().tx.iss)
        };
        let ip = between(from, AT, protocol);
        server.handle_packet(pair.now, &ip, &guess.bytes(&ip));
    }
    pair
}

#[test]
fn a_guess_does_not_restore_what_was_evicted() {
    // All is known but the server's number.
    let mut pair = with_guesses(&specs()[2], |iss| Seg {
        seq: iss.plus(1),
        ack: Some(Seq(12_345)),
        flags: Flags(0),
        ..Seg::default()
    });
    assert_eq!(pair.ends[1].len(), 50);
    pair.pump(1);
    assert_eq!(pair.crowd[1].len(), 0);
}

#[test]
fn a_syn_with_another_number_does_not_replace_what_was_evicted() {
    let spec = &specs()[2];
    let mut pair = with_guesses(spec, |iss| Seg {
        seq: iss.plus(12_345),
        flags: Flags::SYN,
        ..Seg::default()
    });
    run_for(&mut pair, ms(25));
    assert_eq!(pair.crowd[1].len(), 100, "all are open, with their numbers");
    assert!(pair.run(secs(10_000)));
    assert_all_welcomed(&pair, spec);
}

#[test]
fn a_thousand_connections_at_once_carry_twenty_kilobytes_each_way() {
    for spec in specs() {
        let blueprint = wifu_parts::blueprint(&spec).unwrap();
        let mut pair = Pair::new(2);
        lose_randomly(&mut pair, 1, 3);
        pair.ends[1].listen(&blueprint, AT, 1_024).unwrap();
        pair.usher = Some(Box::new(|| App {
            to_write: pattern(20_000, 77),
            close_after: true,
            ..App::default()
        }));
        for i in 0..1_000 {
            let id = pair.dial(&blueprint);
            let app = App {
                to_write: pattern(20_000, i),
                close_after: true,
                conn: Some(id),
                ..App::default()
            };
            pair.crowd[0].insert(id, app);
        }
        run_for(&mut pair, ms(25));
        assert_eq!(pair.ends[0].len(), 1_000, "{spec}");
        assert!(pair.run(secs(10_000)), "{spec}");
        assert_eq!(pair.crowd[1].len(), 1_000, "{spec}");
        let mut payloads: Vec<&Vec<u8>> = pair.crowd[1].values().map(|a| &a.read).collect();
        let mut written: Vec<&Vec<u8>> = pair.crowd[0].values().map(|a| &a.to_write).collect();
        payloads.sort();
        written.sort();
        assert!(payloads == written, "{spec}: to the server");
        let whole = pattern(20_000, 77);
        for app in pair.crowd[0].values() {
            assert!(app.read == whole, "{spec}: to a client");
        }
        for app in pair.crowd.iter().flat_map(|c| c.values()) {
            assert_eq!(app.ended, Some(None), "{spec}");
        }
    }
}

/// Open, carry a little both ways, close, `n` times; then wait until everything is forgotten.
fn cycles(pair: &mut Pair, blueprint: &std::sync::Arc<wifu_engine::Blueprint>, n: usize) {
    for _ in 0..n {
        let id = pair.dial(blueprint);
        let app = App {
            to_write: b"ping".to_vec(),
            close_after: true,
            let_go: true,
            conn: Some(id),
            ..App::default()
        };
        pair.crowd[0].insert(id, app);
        run_for(pair, ms(100));
        for crowd in &mut pair.crowd {
            for app in crowd.values() {
                assert_eq!(app.read.len(), 4);
            }
            crowd.clear();
        }
    }
    let limit = pair.now + Span::SECOND * 1_000;
    assert!(pair.run(limit));
    assert!(pair.ends[0].is_empty() && pair.ends[1].is_empty());
}

#[test]
fn ten_thousand_connections_one_after_another_leave_memory_where_it_was() {
    for spec in specs() {
        let blueprint = wifu_parts::blueprint(&spec).unwrap();
        let mut pair = Pair::new(3);
        pair.ends[1].listen(&blueprint, AT, 16).unwrap();
        pair.usher = Some(Box::new(|| App {
            to_write: b"pong".to_vec(),
            close_after: true,
            let_go: true,
            ..App::default()
        }));
        cycles(&mut pair, &blueprint, 1_000);
        let after_one = live();
        cycles(&mut pair, &blueprint, 9_000);
        let grown = live() - after_one;
        assert!(grown <= 1_024, "{spec}: {grown} bytes more");
    }
}

#[test]
fn ten_thousand_refused_and_aborted_connections_leave_nothing() {
    for spec in specs() {
        let blueprint = wifu_parts::blueprint(&spec).unwrap();
        let mut pair = Pair::new(4);
        pair.ends[1].serve(&blueprint);
        let run = |n: usize, pair: &mut Pair| {
            for i in 0..n {
                let id = pair.dial(&blueprint);
                if i % 2 == 0 {
                    pair.ends[0].abort(pair.now, id);
                }
                run_for(pair, ms(30));
                pair.ends[0].close(pair.now, id);
            }
            run_for(pair, Span::SECOND);
            assert!(pair.ends[0].is_empty());
            live()
        };
        let first = run(500, &mut pair);
        let grown = run(4_500, &mut pair) - first;
        assert!(grown <= 1_024, "{spec}: {grown} bytes more");
    }
}
