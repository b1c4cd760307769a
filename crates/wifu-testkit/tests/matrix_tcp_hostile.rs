//! The TCP family under segments that an attacker or a confused host could send: RST, SYN and data
//! by guess (RFC 5961), old duplicates (RFC 7323), senseless options.

mod tcp_common;

use core::net::{Ipv4Addr, SocketAddrV4};
use tcp_common::*;
use wifu_engine::{ConnId, Fault, State};
use wifu_testkit::pair::{Fate, Pair, pattern};
use wifu_testkit::seg::{Seg, between};
use wifu_wire::{Flags, Seq, Span, Time};

/// States in which sequence numbers are agreed, except SYN_RCVD, which has tests of its own.
const SYNCHRONISED: [State; 8] = [
    State::Established,
    State::FinWait1,
    State::FinWait2,
    State::CloseWait,
    State::Closing,
    State::LastAck,
    State::TimeWait,
    State::SynRcvd,
];

/// A pair whose side and connection are in `state`; nothing is under way.
fn reach(spec: &str, state: State) -> (Pair, usize, ConnId) {
    let mut pair = one_way(0);
    for app in &mut pair.apps {
        app.close_after = false;
    }
    let quiet = |pair: &mut Pair| pair.spoil = Box::new(|_| Fate::Drop);
    if matches!(state, State::SynSent | State::SynRcvd) {
        lose(&mut pair, move |f, _| {
            f.from == 1 || state == State::SynSent
        });
        connect(&mut pair, spec, spec);
        run_for(&mut pair, ms(15));
        let side = usize::from(state == State::SynRcvd);
        let id = pair.ends[side].conns().next().unwrap();
        quiet(&mut pair);
        assert_eq!(pair.ends[side].conn(id).unwrap().state(), state);
        return (pair, side, id);
    }
    open(&mut pair, spec);
    let close = |pair: &mut Pair, side: usize| {
        pair.apps[side].close_after = true;
        run_for(pair, ms(50));
    };
    match state {
        State::FinWait1 => {
            quiet(&mut pair);
            close(&mut pair, 0);
        }
        State::FinWait2 => close(&mut pair, 0),
        State::CloseWait => close(&mut pair, 1),
        State::Closing => {
            lose(&mut pair, |_, seg| seg.is_bare_ack());
            pair.apps[1].close_after = true;
            close(&mut pair, 0);
        }
        State::LastAck => {
            close(&mut pair, 1);
            quiet(&mut pair);
            close(&mut pair, 0);
        }
        State::TimeWait => {
            close(&mut pair, 0);
            close(&mut pair, 1);
        }
        _ => {}
    }
    let id = pair.apps[0].conn.unwrap();
    assert_eq!(pair.conn(0).state(), state, "{spec}");
    (pair, 0, id)
}

/// A segment that the connection's peer could send now.
fn answer_to(pair: &Pair, side: usize, id: ConnId) -> Seg {
    let conn = pair.ends[side].conn(id).unwrap();
    let (tuple, b) = (conn.tuple(), conn.board());
    let clock = pair
        .now
        .wire_micros()
        .wrapping_sub(pair.delay.micros() as u32);
    Seg {
        ports: (tuple.remote.port(), tuple.local.port()),
        seq: b.rx.nxt,
        ack: Some(b.tx.max),
        window: 65_535,
        ts: b.conn.peer.ts_ok.then_some((clock, clock)),
        ..Seg::default()
    }
}

/// Inject and return what the side under test said.
fn provoke(pair: &mut Pair, side: usize, seg: &Seg) -> Vec<Seg> {
    let mark = pair.seen.len();
    pair.inject(1 - side, seg);
    let said = pair.seen[mark..].iter().filter(|s| s.from == side);
    said.map(|s| s.seg.clone()).collect()
}

/// (una, nxt, max, rx.nxt, state), which hostile segments must leave alone.
type Facts = (Seq, Seq, Seq, Seq, State);

fn facts(pair: &Pair, side: usize, id: ConnId) -> Option<Facts> {
    let b = pair.ends[side].conn(id)?.board();
    Some((b.tx.una, b.tx.nxt, b.tx.max, b.rx.nxt, b.conn.state))
}

#[test]
fn an_exact_rst_ends_every_state_as_the_table_says() {
    for spec in PROTOCOLS {
        for state in SYNCHRONISED {
            let (mut pair, side, id) = reach(spec, state);
            let mut rst = answer_to(&pair, side, id);
            (rst.flags, rst.ts) = (Flags::RST, None);
            let said = provoke(&mut pair, side, &rst);
            assert!(said.is_empty(), "{spec}, {state:?}: {said:?}");
            let left = pair.ends[side].conn(id).map(|c| c.state());
            if state == State::SynRcvd {
                assert_eq!(left, None, "{spec}: the embryo is forgotten");
                assert!(pair.ends[1].is_empty(), "{spec}");
                continue;
            }
            let expected = match state {
                State::Closing | State::LastAck | State::TimeWait => None,
                _ => Some(Fault::Reset),
            };
            assert_eq!(left, Some(State::Closed), "{spec}, {state:?}");
            assert_eq!(fault(&pair, 0), Some(expected), "{spec}, {state:?}");
        }
    }
}

#[test]
fn a_rst_inside_the_window_is_challenged_and_one_outside_is_ignored() {
    for spec in PROTOCOLS {
        for state in SYNCHRONISED {
            let (mut pair, side, id) = reach(spec, state);
            let before = facts(&pair, side, id);
            let window = pair.ends[side].conn(id).unwrap().board().rx.window;
            for (offset, challenged) in [
                (1, true),
                (window - 1, true),
                (window + 1, false),
                (0x8000_0000, false),
                (u32::MAX, false),
            ] {
                let mut rst = answer_to(&pair, side, id);
                (rst.flags, rst.ts) = (Flags::RST, None);
                rst.seq = rst.seq.plus(offset);
                let said = provoke(&mut pair, side, &rst);
                let what = format!("{spec}, {state:?}, rcv_nxt + {offset}");
                assert_eq!(facts(&pair, side, id), before, "{what}");
                assert_eq!(said.len(), usize::from(challenged), "{what}: {said:?}");
                for s in said {
                    assert!(s.is_bare_ack(), "{what}");
                    assert_eq!(s.ack, before.map(|b| b.3), "{what}");
                }
            }
        }
    }
}

#[test]
fn in_syn_sent_only_a_rst_that_acknowledges_the_syn_refuses() {
    for spec in PROTOCOLS {
        for (offset, with_ack, refused) in [
            (0, true, true),
            (0, false, false),
            (1, true, false),
            (u32::MAX, true, false),
        ] {
            let (mut pair, side, id) = reach(spec, State::SynSent);
            let mut rst = answer_to(&pair, side, id);
            (rst.flags, rst.ts) = (Flags::RST, None);
            rst.ack = rst.ack.map(|a| a.plus(offset)).filter(|_| with_ack);
            let said = provoke(&mut pair, side, &rst);
            assert!(said.is_empty(), "{spec}");
            let expected = refused.then_some(Some(Fault::Refused));
            assert_eq!(fault(&pair, 0), expected, "{spec}, ack + {offset}");
        }
    }
}

#[test]
fn a_syn_for_a_synchronised_connection_is_challenged_wherever_it_points() {
    for spec in PROTOCOLS {
        for state in SYNCHRONISED {
            for offset in [0, 1, 1000, 0x1000_0000, 0x8000_0000, 0xF000_0000] {
                let (mut pair, side, id) = reach(spec, state);
                let before = facts(&pair, side, id);
                let mut syn = answer_to(&pair, side, id);
                (syn.flags, syn.ack) = (Flags::SYN, None);
                syn.seq = syn.seq.plus(offset);
                let said = provoke(&mut pair, side, &syn);
                let what = format!("{spec}, {state:?}, rcv_nxt + {offset}");
                assert_eq!(facts(&pair, side, id), before, "{what}");
                assert_eq!(said.len(), 1, "{what}");
                assert!(said[0].is_bare_ack(), "{what}: {:?}", said[0]);
            }
        }
    }
}

#[test]
fn data_by_guess_is_not_taken() {
    for spec in PROTOCOLS {
        let (mut pair, side, id) = reach(spec, State::Established);
        // Some history, so that old acknowledgements exist.
        pair.apps[0].to_write = pattern(100_000, 1);
        pair.apps[1].to_write = pattern(100_000, 2);
        run_for(&mut pair, Span::SECOND * 5);
        let before = facts(&pair, side, id).unwrap();
        let read = pair.apps[0].read.len();
        let honest = answer_to(&pair, side, id);
        let most = pair.conn(0).board().peer.max_window;
        let mut guesses = Vec::new();
        // Right place, wrong acknowledgement (RFC 5961 section 5).
        for ack in [1, 1000, 0x4000_0000, u32::MAX - most, 0x9000_0000] {
            guesses.push((honest.seq, Some(honest.ack.unwrap().plus(ack))));
        }
        guesses.push((honest.seq, None));
        // Outside the window.
        let window = pair.conn(0).board().rx.window;
        for seq in [window, 0x8000_0000, u32::MAX - 3] {
            guesses.push((honest.seq.plus(seq), honest.ack));
        }
        for (seq, ack) in guesses {
            let guess = Seg {
                seq,
                ack,
                data: b"evil".to_vec(),
                ..honest.clone()
            };
            let said = provoke(&mut pair, side, &guess);
            assert_eq!(facts(&pair, side, id), Some(before), "{spec}: {guess:?}");
            assert_eq!(pair.apps[0].read.len(), read, "{spec}");
            assert!(said.iter().all(Seg::is_bare_ack), "{spec}: {said:?}");
        }
        for app in &mut pair.apps {
            app.close_after = true;
        }
        pair.run(secs(600));
        assert_delivered(&pair, spec);
    }
}

#[test]
fn blind_attacks_on_a_transfer_change_nothing() {
    for spec in PROTOCOLS {
        let mut pair = pair_of(400_000);
        connect(&mut pair, spec, spec);
        run_for(&mut pair, ms(35));
        let ids = [0, 1].map(|side| pair.apps[side].conn.unwrap());
        let mut rng = wifu_wire::Rng::new(1);
        for _ in 0..200 {
            for (side, id) in ids.into_iter().enumerate() {
                let mut seg = answer_to(&pair, side, id);
                seg.seq = Seq(rng.next_u32());
                seg.ack = Some(Seq(rng.next_u32())).filter(|_| rng.below(3) > 0);
                seg.flags = Flags(rng.below(8) as u32);
                seg.window = rng.below(65_536) as u32;
                seg.ts = seg.ts.filter(|_| rng.below(2) > 0);
                seg.data = vec![b'!'; rng.below(1449) as usize];
                // A guess that hits is no blind one.
                let b = pair.ends[side].conn(ids[side]).unwrap().board();
                let near = |a: Seq, b: Seq| a.since(b).wrapping_add(200_000) < 400_000;
                if near(seg.seq, b.rx.nxt) || seg.ack.is_some_and(|a| near(a, b.tx.una)) {
                    continue;
                }
                pair.inject(1 - side, &seg);
            }
            run_for(&mut pair, ms(1));
        }
        pair.run(secs(600));
        assert_delivered(&pair, spec);
        for side in 0..2 {
            assert_eq!(pair.conn(side).board().tx.timeouts, 0, "{spec}");
        }
    }
}

#[test]
fn at_most_ten_challenges_leave_in_a_second() {
    for spec in PROTOCOLS {
        for flags in [Flags::RST, Flags::SYN, Flags(0), Flags::PSH] {
            let (mut pair, side, id) = reach(spec, State::Established);
            let mut per_second = [0; 3];
            pair.now = wifu_wire::Time(5_000_000_000);
            for count in &mut per_second {
                for _ in 0..100 {
                    let mut seg = answer_to(&pair, side, id);
                    (seg.flags, seg.ts) = (flags, None);
                    seg.seq = seg.seq.plus(5);
                    if flags == Flags(0) {
                        // Acknowledges what was never sent.
                        (seg.seq, seg.ack) = (seg.seq.minus(5), seg.ack.map(|a| a.plus(9)));
                    }
                    if flags == Flags::PSH {
                        seg.seq = seg.seq.minus(1_000); // a bare ACK outside the window
                    }
                    *count += provoke(&mut pair, side, &seg).len();
                    run_for(&mut pair, ms(10));
                }
            }
            assert_eq!(per_second, [10; 3], "{spec}, {flags:?}");
        }
    }
}

#[test]
fn an_old_duplicate_in_the_window_is_refused_by_its_timestamp() {
    for spec in PROTOCOLS {
        let (mut pair, side, id) = reach(spec, State::Established);
        pair.apps[1].to_write = pattern(5_000, 2);
        run_for(&mut pair, Span::SECOND * 2);
        let before = facts(&pair, side, id);
        let honest = answer_to(&pair, side, id);
        let recent = pair.conn(0).board().rx.ts_recent;
        for (age, taken) in [
            (1, false),
            (1_000_000, false),
            (0x7FFF_FFFF, false),
            (0, true),
        ] {
            let old = Seg {
                ts: Some((recent.wrapping_sub(age), 0)),
                data: b"old".to_vec(),
                ..honest.clone()
            };
            let said = provoke(&mut pair, side, &old);
            assert_eq!(
                facts(&pair, side, id) == before,
                !taken,
                "{spec}, age {age}"
            );
            if !taken {
                assert_eq!(said.len(), 1, "{spec}");
                assert!(said[0].is_bare_ack(), "{spec}");
            }
        }
        let paws = pair.ends[0].drops().get("PAWS").copied();
        assert_eq!(paws, Some(3), "{spec}");
        // A RST is not held to it (RFC 7323 5.2).
        let mut rst = answer_to(&pair, side, id);
        (rst.flags, rst.ts) = (Flags::RST, Some((recent.wrapping_sub(1000), 0)));
        provoke(&mut pair, side, &rst);
        assert_eq!(fault(&pair, 0), Some(Some(Fault::Reset)), "{spec}");
    }
}

#[test]
fn an_embryo_answers_its_syn_again_and_refuses_wrong_acknowledgements() {
    for spec in PROTOCOLS {
        let (mut pair, side, id) = reach(spec, State::SynRcvd);
        let syn = flagged(&pair, 0, Flags::SYN)[0].seg.clone();
        let said = provoke(&mut pair, side, &syn);
        assert_eq!(said.len(), 1, "{spec}");
        assert!(said[0].has(Flags::SYN) && said[0].ack == Some(syn.seq.plus(1)));
        for offset in [1, u32::MAX, 0x7000_0000] {
            let mut ack = answer_to(&pair, side, id);
            ack.ack = ack.ack.map(|a| a.plus(offset));
            let said = provoke(&mut pair, side, &ack);
            assert_eq!(said.len(), 1, "{spec}");
            assert!(said[0].has(Flags::RST), "{spec}");
            assert_eq!(Some(said[0].seq), ack.ack, "{spec}");
            let state = pair.ends[1].conn(id).unwrap().state();
            assert_eq!(state, State::SynRcvd, "{spec}");
        }
        // RST together with SYN is a RST, and this one lies outside the window.
        let both = Seg {
            flags: Flags::SYN.with(Flags::RST),
            ..syn
        };
        assert!(provoke(&mut pair, side, &both).is_empty(), "{spec}");
    }
}

#[test]
fn a_segment_for_nobody_is_answered_by_rst_except_a_rst() {
    let blueprint = wifu_parts::blueprint("tcp-newreno").unwrap();
    for (flags, ack, data, expected) in [
        (Flags::SYN, None, 0, Some((0, Some(101)))),
        (Flags(0), None, 7, Some((0, Some(107)))),
        (Flags::FIN, None, 7, Some((0, Some(108)))),
        (Flags(0), Some(55), 7, Some((55, None))),
        (Flags::RST, Some(55), 0, None),
        (Flags::RST, None, 0, None),
    ] {
        let mut pair = one_way(0);
        let id = pair.dial(&blueprint);
        pair.apps[0].conn = Some(id);
        pair.ends[1].serve(&blueprint);
        let seg = Seg {
            ports: (5, 6),
            seq: Seq(100),
            ack: ack.map(Seq),
            flags,
            data: vec![0; data],
            ..Seg::default()
        };
        let said = provoke(&mut pair, 1, &seg);
        let said = said.first().map(|s| {
            assert!(s.has(Flags::RST));
            (s.seq.0, s.ack.map(|a| a.0))
        });
        assert_eq!(said, expected);
    }
}

#[test]
fn a_syn_for_many_stations_is_no_connection_and_gets_no_answer() {
    let blueprint = wifu_parts::blueprint("tcp-newreno").unwrap();
    for address in [[224, 0, 0, 1], [255, 255, 255, 255], [0, 0, 0, 0]] {
        let mut pair = one_way(0);
        let end = &mut pair.ends[1];
        let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 6);
        end.listen(&blueprint, any, 8).unwrap();
        let seg = Seg {
            ports: (5, 6),
            seq: Seq(100),
            flags: Flags::SYN,
            ..Seg::default()
        };
        let from = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 9), 5);
        let to = SocketAddrV4::new(Ipv4Addr::from(address), 6);
        for (a, b) in [(from, to), (to, from)] {
            let ip = between(a, b, blueprint.number);
            end.handle_packet(Time::ZERO, &ip, &seg.bytes(&ip));
        }
        assert_eq!(end.drops()["group address"], 2);
        assert!(end.is_empty() && end.poll_transmit(Time::ZERO, &mut [0; 2000]).is_none());
    }
}

#[test]
fn senseless_sack_ranges_harm_nobody() {
    for spec in ["tcp-sack", "tcp-cubic"] {
        let mut pair = one_way(300_000);
        connect(&mut pair, spec, spec);
        run_for(&mut pair, ms(35));
        let id = pair.apps[0].conn.unwrap();
        let mut rng = wifu_wire::Rng::new(9);
        for _ in 0..100 {
            let mut seg = answer_to(&pair, 0, id);
            let b = pair.conn(0).board();
            seg.ack = Some(b.tx.una);
            let (una, max) = (b.tx.una, b.tx.max);
            for _ in 0..4 {
                let any = |rng: &mut wifu_wire::Rng| match rng.below(4) {
                    0 => Seq(rng.next_u32()),
                    1 => una,
                    2 => max.plus(rng.below(3_000) as u32),
                    _ => una.plus(rng.below(20_000) as u32),
                };
                let range = (any(&mut rng), any(&mut rng));
                // Ranges that a liar makes up inside the flight cost the liar alone; the timer
                // repairs them. Here only senseless ones.
                let (from, to) = (range.0.since(una), range.1.since(una));
                if from == 0 || from >= to || to > max.since(una) {
                    seg.ranges.push(range);
                }
            }
            pair.inject(1, &seg);
            run_for(&mut pair, ms(1));
        }
        pair.run(secs(600));
        assert_delivered(&pair, spec);
        assert_eq!(pair.conn(0).board().tx.timeouts, 0, "{spec}");
    }
}

#[test]
fn a_receiver_that_lies_in_sack_and_takes_it_back_is_served_after_a_timeout() {
    // RFC 2018 section 8: reports are advisory; what was reported may be discarded.
    for spec in ["tcp-sack", "tcp-cubic"] {
        let mut pair = one_way(100_000);
        let mut count = 0;
        lose(&mut pair, move |f, seg| {
            count += u32::from(f.from == 0 && !seg.is_empty());
            f.from == 0 && !seg.is_empty() && (8..12).contains(&count)
        });
        connect(&mut pair, spec, spec);
        run_for(&mut pair, ms(70));
        let id = pair.apps[0].conn.unwrap();
        let b = pair.conn(0).board();
        let (una, max) = (b.tx.una, b.tx.max);
        assert!(max.since(una) > 4 * 1448, "{spec}");
        let mut lie = answer_to(&pair, 0, id);
        lie.ack = Some(una);
        lie.ranges = vec![(una.plus(1448), max)];
        pair.inject(1, &lie);
        pair.run(secs(600));
        assert_delivered(&pair, spec);
    }
}

#[test]
fn absurd_options_of_a_syn_are_survived() {
    for spec in PROTOCOLS {
        for (mss, scale, window) in [(0, None, 0), (1, Some(14), 1), (65_535, Some(0), 65_535)] {
            let (mut pair, side, id) = reach(spec, State::SynSent);
            heal(&mut pair);
            let mut answer = answer_to(&pair, side, id);
            answer.flags = Flags::SYN;
            answer.seq = Seq(u32::MAX - 1);
            answer.window = window;
            answer.options = wifu_wire::SynOptions {
                mss,
                scale,
                ..Default::default()
            };
            let said = provoke(&mut pair, side, &answer);
            assert!(said[0].is_bare_ack(), "{spec}");
            assert_eq!(pair.conn(0).state(), State::Established, "{spec}");
            let size = pair.conn(0).board().conn.mss;
            // The answer offers no timestamps.
            assert!((48..=1460).contains(&size), "{spec}: {size}");
            pair.apps[0].to_write = pattern(2_000, 1);
            run_for(&mut pair, ms(500));
            if window > 0 {
                assert!(data(&pair, 0).count() > 0, "{spec}");
            }
        }
    }
}

#[test]
fn a_fin_by_guess_does_not_end_the_stream_early() {
    for spec in PROTOCOLS {
        let (mut pair, side, id) = reach(spec, State::Established);
        let honest = answer_to(&pair, side, id);
        // In the window, but the acknowledgement is a guess.
        let fin = Seg {
            flags: Flags::FIN,
            seq: honest.seq.plus(500),
            ack: honest.ack.map(|a| a.plus(0x5000_0000)),
            ..honest
        };
        provoke(&mut pair, side, &fin);
        pair.apps[1].to_write = pattern(10_000, 3);
        for app in &mut pair.apps {
            app.close_after = true;
        }
        pair.run(secs(600));
        assert_delivered(&pair, spec);
    }
}

#[test]
fn a_segment_longer_than_any_packet_is_cut_to_the_window() {
    for spec in PROTOCOLS {
        for length in [1_500, 65_495, 65_535, 70_000] {
            let (mut pair, side, id) = reach(spec, State::Established);
            let giant = Seg {
                data: pattern(length, 5),
                ..answer_to(&pair, side, id)
            };
            let window = pair.conn(0).board().rx.window as usize;
            provoke(&mut pair, side, &giant);
            let taken = length.min(window);
            assert!(pair.apps[0].read == giant.data[..taken], "{spec}, {length}");
        }
    }
}
