//! The TCP family while it closes: lost FINs and answers, half-close, simultaneous close,
//! TIME_WAIT, FIN_WAIT_2, data after our close.

mod tcp_common;

use core::net::SocketAddrV4;
use tcp_common::*;
use wifu_engine::{Fault, State};
use wifu_testkit::pair::{App, Fate, Pair, SERVER, pattern};
use wifu_testkit::seg::Seg;
use wifu_wire::{Flags, Span};

fn two_msl(spec: &str) -> Span {
    match papers(spec) {
        true => Span::SECOND * 3,
        false => Span::SECOND * 60,
    }
}

/// An established pair in which nothing was written and nobody closes.
fn idle(spec: &str) -> Pair {
    let mut pair = one_way(0);
    for app in &mut pair.apps {
        app.close_after = false;
    }
    open(&mut pair, spec);
    pair
}

fn close(pair: &mut Pair, side: usize) {
    pair.apps[side].close_after = true;
}

fn states(pair: &Pair) -> [State; 2] {
    [pair.conn(0).state(), pair.conn(1).state()]
}

#[test]
fn closing_goes_through_the_states_of_rfc_9293() {
    for spec in PROTOCOLS {
        let mut pair = idle(spec);
        close(&mut pair, 0);
        run_for(&mut pair, ms(5));
        assert_eq!(states(&pair), [State::FinWait1, State::Established]);
        run_for(&mut pair, ms(10));
        assert_eq!(states(&pair), [State::FinWait1, State::CloseWait]);
        assert!(pair.apps[1].eof, "{spec}");
        run_for(&mut pair, ms(10));
        assert_eq!(states(&pair), [State::FinWait2, State::CloseWait]);
        close(&mut pair, 1);
        run_for(&mut pair, ms(5));
        assert_eq!(states(&pair), [State::FinWait2, State::LastAck]);
        run_for(&mut pair, ms(10));
        assert_eq!(states(&pair), [State::TimeWait, State::LastAck]);
        let waiting = pair.now;
        run_for(&mut pair, ms(10));
        assert_eq!(states(&pair), [State::TimeWait, State::Closed]);
        assert!(pair.run(secs(600)));
        assert_eq!(states(&pair), [State::Closed; 2]);
        let waited = pair.now - waiting + ms(5);
        assert!(waited.abs_diff(two_msl(spec)) <= ms(10), "{spec}: {waited}");
    }
}

#[test]
fn an_ack_that_does_not_cover_the_fin_leaves_the_state() {
    for spec in PROTOCOLS {
        let mut pair = idle(spec);
        pair.apps[0].to_write = pattern(1448, 1);
        let mut lost = false;
        lose(&mut pair, move |_, seg| {
            let fin = seg.has(Flags::FIN) && !lost;
            lost |= fin;
            fin
        });
        run_for(&mut pair, ms(1));
        close(&mut pair, 0);
        run_for(&mut pair, ms(500));
        let b = pair.conn(0).board();
        assert_eq!(
            b.tx.max.since(b.tx.una),
            1,
            "{spec}: the data is acknowledged"
        );
        assert_eq!(states(&pair), [State::FinWait1, State::Established]);
    }
}

#[test]
fn a_simultaneous_close_ends_both_in_time_wait() {
    for spec in PROTOCOLS {
        let mut pair = idle(spec);
        close(&mut pair, 0);
        close(&mut pair, 1);
        run_for(&mut pair, ms(15));
        assert_eq!(states(&pair), [State::Closing; 2], "{spec}");
        run_for(&mut pair, ms(10));
        assert_eq!(states(&pair), [State::TimeWait; 2], "{spec}");
        pair.run(secs(600));
        assert_delivered(&pair, spec);
        assert_eq!(
            pair.seen.len(),
            7,
            "{spec}: SYN, SYN+ACK, ACK, 2 FIN, 2 ACK"
        );
    }
}

#[test]
fn a_simultaneous_close_survives_each_single_loss() {
    for spec in PROTOCOLS {
        for nth in 3..7 {
            let mut pair = idle(spec);
            let mut count = pair.seen.len();
            assert_eq!(count, 3);
            lose(&mut pair, move |_, _| {
                count += 1;
                count == nth + 1
            });
            close(&mut pair, 0);
            close(&mut pair, 1);
            pair.run(secs(600));
            assert_delivered(&pair, spec);
        }
    }
}

#[test]
fn half_closed_either_way_the_other_direction_still_carries() {
    for spec in PROTOCOLS {
        for first in 0..2 {
            let mut pair = idle(spec);
            close(&mut pair, first);
            run_for(&mut pair, ms(200));
            let other = 1 - first;
            assert!(pair.apps[other].eof, "{spec}");
            pair.apps[other].to_write = pattern(200_000, 3);
            run_for(&mut pair, Span::SECOND * 5);
            assert_eq!(pair.apps[first].read.len(), 200_000, "{spec}");
            assert_eq!(pair.conn(first).state(), State::FinWait2, "{spec}");
            assert_eq!(pair.conn(other).state(), State::CloseWait, "{spec}");
            close(&mut pair, other);
            pair.run(secs(600));
            assert_delivered(&pair, spec);
        }
    }
}

/// Close in order with the `lost` first segments that match being lost; returns the pair.
fn closing_with_loss(spec: &str, lost: usize, which: fn(usize, &Seg) -> bool) -> Pair {
    let mut pair = one_way(1_000);
    let mut count = 0;
    lose(&mut pair, move |f, seg| {
        let hit = which(f.from, seg);
        count += usize::from(hit);
        hit && count <= lost
    });
    pair.apps[1].close_after = false;
    connect(&mut pair, spec, spec);
    run_for(&mut pair, Span::SECOND * 20);
    pair.apps[1].close_after = true;
    pair.run(secs(3_600));
    assert_delivered(&pair, spec);
    pair
}

#[test]
fn the_peers_lost_fin_comes_again() {
    for spec in PROTOCOLS {
        for lost in 1..=3 {
            let pair = closing_with_loss(spec, lost, |from, s| from == 1 && s.has(Flags::FIN));
            assert_eq!(flagged(&pair, 1, Flags::FIN).len(), lost + 1, "{spec}");
            assert_eq!(repeated(&pair, 0).len(), 0, "{spec}");
        }
    }
}

#[test]
fn a_lost_ack_of_the_first_fin_is_asked_for_again() {
    for spec in PROTOCOLS {
        // The client's FIN rides on its only segment.
        let pair = closing_with_loss(spec, 3, |from, s| from == 1 && s.is_bare_ack());
        assert_eq!(flagged(&pair, 0, Flags::FIN).len(), 4, "{spec}");
    }
}

#[test]
fn a_lost_last_ack_is_repeated_from_time_wait_and_restarts_it() {
    for spec in PROTOCOLS {
        let mut pair = idle(spec);
        close(&mut pair, 0);
        run_for(&mut pair, ms(100));
        let mut lost = false;
        lose(&mut pair, move |f, seg| {
            let hit = f.from == 0 && seg.is_bare_ack() && !lost;
            lost |= hit;
            hit
        });
        close(&mut pair, 1);
        run_for(&mut pair, ms(100));
        assert_eq!(states(&pair), [State::TimeWait, State::LastAck], "{spec}");
        run_for(&mut pair, Span::SECOND * 2);
        let fins = flagged(&pair, 1, Flags::FIN);
        assert_eq!(fins.len(), 2, "{spec}");
        let again = fins[1].at;
        assert_eq!(pair.conn(1).state(), State::Closed, "{spec}");
        assert_eq!(fault(&pair, 1), Some(None), "{spec}");
        pair.run(secs(600));
        assert_delivered(&pair, spec);
        let restarted = pair.now - (again + ms(10));
        assert_eq!(restarted, two_msl(spec), "{spec}");
    }
}

#[test]
fn a_fin_that_arrives_ahead_of_data_waits_for_it() {
    for spec in PROTOCOLS {
        let mut pair = one_way(1448 * 4);
        pair.apps[0].close_after = false;
        connect(&mut pair, spec, spec);
        let mut count = 0;
        pair.spoil = Box::new(move |f| {
            let data = f.from == 0 && !f.seg().is_empty();
            count += u32::from(data);
            match data && count == 2 {
                true => Fate::Late(ms(700)),
                false => Fate::Deliver,
            }
        });
        run_for(&mut pair, ms(25));
        pair.apps[0].close_after = true;
        run_for(&mut pair, ms(100));
        assert!(!pair.apps[1].eof, "{spec}: the end before the data");
        pair.run(secs(600));
        assert_delivered(&pair, spec);
    }
}

#[test]
fn new_data_for_an_application_that_is_gone_is_answered_with_rst() {
    // RFC 1122 4.2.2.13. What the application had not read is lost with it, and the peer is told.
    for spec in PROTOCOLS {
        for unread in [false, true] {
            let mut pair = idle(spec);
            if unread {
                pair.apps[0].stalled = true;
                pair.apps[1].to_write = pattern(300_000, 3);
                run_for(&mut pair, Span::SECOND * 5);
            }
            let id = pair.apps[0].conn.take().unwrap();
            pair.ends[0].close(pair.now, id);
            run_for(&mut pair, ms(100));
            pair.apps[1].to_write.extend(pattern(300_000, 4));
            run_for(&mut pair, Span::SECOND * 5);
            assert_eq!(fault(&pair, 1), Some(Some(Fault::Reset)), "{spec}");
            assert!(!flagged(&pair, 0, Flags::RST).is_empty(), "{spec}");
            assert!(pair.ends[0].is_empty(), "{spec}: nothing is left");
        }
    }
}

#[test]
fn what_was_written_before_our_close_reaches_a_peer_that_still_sends() {
    for spec in PROTOCOLS {
        let mut pair = idle(spec);
        pair.apps[1].to_write = pattern(1_000_000, 3);
        run_for(&mut pair, ms(100));
        let id = pair.apps[0].conn.take().unwrap();
        let answer = pattern(1_000, 5);
        assert_eq!(pair.ends[0].write(pair.now, id, &answer), 1_000);
        pair.ends[0].close(pair.now, id);
        pair.run(secs(600));
        assert!(pair.apps[1].read == answer, "{spec}");
        assert_eq!(fault(&pair, 1), Some(Some(Fault::Reset)), "{spec}");
        assert!(pair.ends[0].is_empty(), "{spec}: nothing is left");
    }
}

#[test]
fn a_peer_that_does_not_hear_our_last_words_does_not_send_forever() {
    const BUFFER: usize = 60_000;
    for spec in PROTOCOLS {
        let mut pair = idle(&format!("{spec},snd_buf={BUFFER},rcv_wnd={BUFFER}"));
        pair.apps[1].stalled = true;
        let id = pair.apps[0].conn.take().unwrap();
        let more = pattern(BUFFER, 5);
        // Until the peer's window is closed, and the buffer before it is full.
        while pair.ends[0].write(pair.now, id, &more) > 0 {
            run_for(&mut pair, Span::SECOND);
        }
        pair.ends[0].close(pair.now, id);
        pair.apps[1].to_write = pattern(1_000_000, 3);
        run_for(&mut pair, Span::SECOND * 10);
        assert_eq!(fault(&pair, 1), Some(Some(Fault::Reset)), "{spec}");
        let got: u64 = sent(&pair, 1).map(|f| u64::from(f.seg.len())).sum();
        assert!(got < 4 * BUFFER as u64, "{spec}: {got} bytes for nobody");
    }
}

#[test]
fn old_data_after_our_close_is_acknowledged() {
    // It was taken before the close; only its acknowledgement was lost.
    for spec in PROTOCOLS {
        let mut pair = idle(spec);
        lose(&mut pair, |f, seg| f.from == 0 && seg.is_bare_ack());
        pair.apps[1].to_write = pattern(1_000, 3);
        run_for(&mut pair, ms(50));
        assert_eq!(pair.apps[0].read.len(), 1_000, "{spec}");
        let id = pair.apps[0].conn.take().unwrap();
        lose(&mut pair, |f, seg| f.from == 0 && seg.has(Flags::FIN));
        pair.ends[0].close(pair.now, id);
        run_for(&mut pair, ms(1_500));
        assert!(repeated(&pair, 1).len() == 1, "{spec}");
        heal(&mut pair);
        close(&mut pair, 1);
        pair.run(secs(600));
        assert_eq!(fault(&pair, 1), Some(None), "{spec}");
        assert_eq!(flagged(&pair, 0, Flags::RST).len(), 0, "{spec}");
        assert!(pair.ends[0].is_empty(), "{spec}");
    }
}

#[test]
fn what_was_not_read_before_our_close_is_discarded_and_the_peers_end_still_orderly() {
    for spec in PROTOCOLS {
        let mut pair = idle(spec);
        pair.apps[0].stalled = true;
        pair.apps[1].to_write = pattern(20_000, 3);
        run_for(&mut pair, Span::SECOND * 5);
        let id = pair.apps[0].conn.take().unwrap();
        pair.ends[0].close(pair.now, id);
        run_for(&mut pair, ms(100));
        close(&mut pair, 1);
        pair.run(secs(600));
        assert_eq!(fault(&pair, 1), Some(None), "{spec}");
        assert_eq!(flagged(&pair, 0, Flags::RST).len(), 0, "{spec}");
        assert!(pair.ends[0].is_empty(), "{spec}");
    }
}

#[test]
fn late_data_is_acknowledged_and_discarded_with_the_window_open_where_that_is_chosen() {
    for spec in PROTOCOLS {
        for unread in [false, true] {
            let spec = format!("{spec},late_data=discard");
            let mut pair = idle(&spec);
            if unread {
                pair.apps[0].stalled = true;
                pair.apps[1].to_write = pattern(100_000, 3);
                run_for(&mut pair, Span::SECOND * 5);
            }
            let id = pair.apps[0].conn.take().unwrap();
            pair.ends[0].close(pair.now, id);
            // Several times what the window holds: it must stay open for the peer to reach its FIN.
            pair.apps[1].to_write.extend(pattern(300_000, 4));
            close(&mut pair, 1);
            pair.run(secs(600));
            assert_eq!(fault(&pair, 1), Some(None), "{spec}");
            assert_eq!(flagged(&pair, 0, Flags::RST).len(), 0, "{spec}");
            let last = sent(&pair, 0).next_back().unwrap();
            let fin = flagged(&pair, 1, Flags::FIN)[0].seg.end();
            assert_eq!(last.seg.ack, Some(fin), "{spec}");
            assert!(pair.ends[0].is_empty(), "{spec}: nothing is left");
        }
    }
}

#[test]
fn fin_wait_2_ends_by_itself_once_the_application_is_gone() {
    for spec in PROTOCOLS {
        let mut pair = idle(spec);
        let id = pair.apps[0].conn.take().unwrap();
        pair.ends[0].close(pair.now, id);
        run_for(&mut pair, Span::SECOND * 59);
        let state = pair.ends[0].conn(id).map(|c| c.state());
        assert_eq!(state, Some(State::FinWait2), "{spec}");
        run_for(&mut pair, Span::SECOND * 2);
        assert!(pair.ends[0].is_empty(), "{spec}");
        // The peer, which knows nothing of it, learns it with its next segment.
        pair.apps[1].to_write = pattern(10, 1);
        run_for(&mut pair, Span::SECOND);
        assert_eq!(fault(&pair, 1), Some(Some(Fault::Reset)), "{spec}");
    }
}

#[test]
fn fin_wait_2_lasts_while_the_application_still_reads() {
    for spec in PROTOCOLS {
        let mut pair = idle(spec);
        close(&mut pair, 0);
        run_for(&mut pair, Span::SECOND * 600);
        assert_eq!(states(&pair), [State::FinWait2, State::CloseWait], "{spec}");
        pair.apps[1].to_write = pattern(5_000, 3);
        close(&mut pair, 1);
        let limit = pair.now + Span::SECOND * 600;
        pair.run(limit);
        assert_delivered(&pair, spec);
    }
}

#[test]
fn closing_before_the_peer_answers_ends_the_attempt() {
    for spec in PROTOCOLS {
        let mut pair = one_way(0);
        pair.spoil = Box::new(|_| Fate::Drop);
        connect(&mut pair, spec, spec);
        run_for(&mut pair, ms(100));
        let id = pair.apps[0].conn.take().unwrap();
        pair.ends[0].close(pair.now, id);
        assert!(pair.run(secs(600)), "{spec}");
        assert!(pair.ends[0].is_empty(), "{spec}");
        assert_eq!(pair.seen.len(), 1, "{spec}");
    }
}

#[test]
fn aborting_sends_one_rst_and_the_peer_learns_it() {
    for spec in PROTOCOLS {
        let mut pair = one_way(300_000);
        pair.apps[0].close_after = false;
        pair.apps[1].stalled = true;
        open(&mut pair, spec);
        let id = pair.apps[0].conn.unwrap();
        pair.ends[0].abort(pair.now, id);
        run_for(&mut pair, Span::SECOND);
        assert_eq!(fault(&pair, 1), Some(Some(Fault::Reset)), "{spec}");
        assert_eq!(flagged(&pair, 0, Flags::RST).len(), 1, "{spec}");
        assert!(pair.ends[0].is_empty(), "{spec}");
    }
}

#[test]
fn aborting_into_a_closed_window_still_reaches_the_peer() {
    // A refused probe lies beyond the window: a RST numbered behind it is only challenged.
    for spec in PROTOCOLS {
        let spec = format!("{spec},rcv_wnd=14480");
        let mut pair = one_way(300_000);
        pair.apps[1].stalled = true;
        open(&mut pair, &spec);
        run_for(&mut pair, Span::SECOND * 10);
        let tx = &pair.conn(0).board().tx;
        assert!(tx.max != tx.una, "{spec}: a probe is outstanding");
        let id = pair.apps[0].conn.unwrap();
        pair.ends[0].abort(pair.now, id);
        run_for(&mut pair, Span::SECOND);
        assert_eq!(fault(&pair, 1), Some(Some(Fault::Reset)), "{spec}");
    }
}

#[test]
fn a_waiting_connection_opens_anew_for_a_later_syn() {
    for spec in PROTOCOLS {
        // Slowly or fast: a fast transfer outruns the clock that numbers initial segments, then
        // only the timestamp tells that the SYN is new (RFC 6191).
        for octets in [1_000, 3_000_000] {
            let blueprint = wifu_parts::blueprint(spec).unwrap();
            let mut pair = one_way(octets);
            let at = SocketAddrV4::new(SERVER, 80);
            pair.ends[1].listen(&blueprint, at, 4).unwrap();
            let id = pair.dial(&blueprint);
            pair.apps[0].conn = Some(id);
            let local = pair.ends[0].conn(id).unwrap().tuple().local;
            // The server closes first and waits.
            pair.apps[0].close_after = false;
            pair.delay = ms(1);
            while pair.apps[1].read.len() < octets {
                run_for(&mut pair, ms(10));
            }
            run_for(&mut pair, ms(20));
            pair.apps[0].close_after = true;
            run_for(&mut pair, ms(20));
            assert_eq!(pair.conn(1).state(), State::TimeWait, "{spec}");
            let old = pair.apps[1].conn.take().unwrap();
            pair.ends[1].close(pair.now, old);
            pair.ends[0].close(pair.now, id);
            for app in &mut pair.apps {
                *app = App::default();
                app.to_write = pattern(20_000, 4);
                app.close_after = true;
            }
            let (mark, now) = (pair.seen.len(), pair.now);
            let id = pair.ends[0].connect(now, &blueprint, local, at).unwrap();
            pair.apps[0].conn = Some(id);
            pair.run(now + Span::SECOND * 600);
            assert_delivered(&pair, spec);
            let answer = &pair.seen[mark + 1];
            let what = format!("{spec}, {octets} bytes before");
            assert_eq!((answer.from, answer.at), (1, now + ms(1)), "{what}");
            assert!(answer.seg.has(Flags::SYN), "{what}: answered at once");
        }
    }
}

#[test]
fn an_old_syn_does_not_open_a_waiting_connection_anew() {
    for spec in PROTOCOLS {
        let mut pair = idle(spec);
        close(&mut pair, 1);
        run_for(&mut pair, ms(100));
        close(&mut pair, 0);
        run_for(&mut pair, ms(100));
        assert_eq!(pair.conn(1).state(), State::TimeWait, "{spec}");
        let old = flagged(&pair, 0, Flags::SYN)[0].seg.clone();
        let mark = pair.seen.len();
        pair.inject(0, &old);
        assert_eq!(pair.conn(1).state(), State::TimeWait, "{spec}");
        let answer = &pair.seen[mark].seg;
        assert!(answer.is_bare_ack(), "{spec}: {answer:?}");
    }
}

#[test]
fn the_oldest_waiting_connections_give_way_when_too_many_wait() {
    let blueprint = wifu_parts::blueprint("tcp-cubic").unwrap();
    let config = wifu_engine::EndpointConfig {
        max_resting: 10,
        ..Default::default()
    };
    let mut pair = Pair::new(1);
    pair.ends[1] = wifu_engine::Endpoint::new(config);
    let at = SocketAddrV4::new(SERVER, 80);
    pair.ends[1].listen(&blueprint, at, 64).unwrap();
    pair.usher = Some(Box::new(|| App {
        close_after: true,
        let_go: true,
        ..App::default()
    }));
    for _ in 0..40 {
        let id = pair.dial(&blueprint);
        run_for(&mut pair, ms(50));
        pair.ends[0].close(pair.now, id);
        run_for(&mut pair, ms(100));
    }
    assert_eq!(pair.ends[0].len(), 0);
    assert_eq!(pair.ends[1].len(), 10);
}
