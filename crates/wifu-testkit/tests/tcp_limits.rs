//! Where patience ends and where guesses must not reach: slow paths without timestamps, peers that
//! die with their window shut, strangers at a closing connection, and reports of many holes.

use wifu_engine::{Fault, State};
use wifu_testkit::pair::{Fate, Pair, pattern};
use wifu_testkit::seg::Seg as Raw;
use wifu_wire::{Flags, Span, Time};

const PROTOCOLS: [&str; 5] = [
    "tcp-tahoe",
    "tcp-reno",
    "tcp-newreno",
    "tcp-sack",
    "tcp-cubic",
];

fn secs(s: u64) -> Time {
    Time(s * 1_000_000_000)
}

fn open(spec: &str, octets: usize) -> Pair {
    let blueprint = wifu_parts::blueprint(spec).unwrap();
    let mut pair = Pair::new(7);
    pair.apps[0].to_write = pattern(octets, 1);
    pair.connect(&blueprint);
    pair
}

#[test]
fn a_path_slower_than_the_timeout_is_learnt_without_timestamps() {
    for spec in PROTOCOLS {
        let spec = format!("{spec},timestamps=off,rto_initial=3s");
        let mut pair = open(&spec, 200_000);
        pair.delay = Span::SECOND * 2;
        pair.run(secs(600));
        assert_eq!(pair.apps[1].read.len(), 200_000, "{spec}");
        let id = pair.apps[0].conn.unwrap();
        let tx = &pair.ends[0].conn(id).unwrap().board().tx;
        assert!(
            (1..=3).contains(&tx.timeouts),
            "{spec}: {} timeouts",
            tx.timeouts
        );
        assert!(tx.rto > Span::SECOND * 4, "{spec}: {}", tx.rto);
    }
}

#[test]
fn a_peer_that_dies_with_its_window_shut_is_given_up() {
    for spec in PROTOCOLS {
        for gone in [false, true] {
            let mut pair = open(&format!("{spec},rcv_wnd=20000"), 200_000);
            pair.apps[1].stalled = true;
            pair.run(secs(20));
            let id = pair.apps[0].conn.unwrap();
            let board = pair.ends[0].conn(id).unwrap().board();
            assert!(board.peer.persist, "{spec}: the window is shut");
            pair.spoil = Box::new(|_| Fate::Drop);
            if gone {
                pair.ends[0].close(pair.now, id);
            }
            pair.run(secs(4 * 3600));
            if gone {
                assert!(
                    pair.ends[0].conn(id).is_none(),
                    "{spec}: an orphan lives for ever"
                );
            } else {
                assert_eq!(pair.apps[0].ended, Some(Some(Fault::TimedOut)), "{spec}");
            }
        }
    }
}

#[test]
fn an_orphan_does_not_wait_for_ever_for_a_reader_that_only_answers() {
    let mut pair = open("tcp-newreno,rcv_wnd=20000", 200_000);
    pair.apps[1].stalled = true;
    pair.run(secs(20));
    let id = pair.apps[0].conn.unwrap();
    pair.ends[0].close(pair.now, id);
    pair.run(secs(24 * 3600));
    assert!(pair.ends[0].conn(id).is_none());
}

#[test]
fn a_guess_with_data_does_not_end_a_closing_connection() {
    for spec in PROTOCOLS {
        let mut pair = open(&format!("{spec},timestamps=off"), 100_000);
        pair.run(Time(pair.now.0 + 60_000_000));
        let id = pair.apps[0].conn.unwrap();
        pair.ends[0].close(pair.now, id);
        let conn = pair.ends[0].conn(id).unwrap();
        assert_eq!(conn.state(), State::FinWait1, "{spec}");
        let (t, nxt, max) = (conn.tuple(), conn.board().rx.nxt, conn.board().tx.max);
        let ip = wifu_testkit::seg::between(t.remote, t.local, t.proto);
        let guesses = [
            (nxt, None),
            (nxt.plus(100), None),
            (nxt, Some(max.plus(99_999))),
        ];
        for (seq, ack) in guesses {
            let guess = Raw {
                seq,
                ack,
                data: b"evil".to_vec(),
                ..raw(&pair)
            };
            pair.ends[0].handle_packet(pair.now, &ip, &guess.bytes(&ip));
        }
        assert!(pair.ends[0].conn(id).is_some(), "{spec}: a guess ended it");
        pair.apps[1].close_after = true;
        pair.run(secs(600));
        assert_eq!(
            pair.apps[1].read.len(),
            pair.apps[0].to_write.len().min(100_000),
            "{spec}"
        );
    }
}

/// A bare segment from the server to the client.
fn raw(pair: &Pair) -> Raw {
    let t = pair.ends[0]
        .conn(pair.apps[0].conn.unwrap())
        .unwrap()
        .tuple();
    let mut head = wifu_wire::Head::default();
    (head.sport, head.dport, head.window) = (t.remote.port(), t.local.port(), 1000);
    head.flags = Flags(0);
    let mut bytes = [0u8; 60];
    let n = wifu_wire::Wire::emit(&wifu_wire::tcp::Tcp, &head, &mut bytes);
    Raw::parse(&bytes[..n])
}

#[test]
fn a_hole_behind_the_peers_window_is_filled_without_a_timeout() {
    // The reader stalls, the window fills, one early and one late segment are lost, and more data
    // waits: RFC 6675's rule 2 (new data) can't be followed, so rule 3 must.
    let mut pair = open("tcp-sack,rcv_wnd=40000,iw=27", 400_000);
    pair.apps[1].stalled = true;
    let mut lost = 0;
    pair.spoil = Box::new(move |f| {
        let data = f.from == 0 && f.bytes.len() > 1000;
        lost += u32::from(data);
        if data && matches!(lost, 6 | 25) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    pair.run(secs(10));
    let id = pair.apps[0].conn.unwrap();
    let tx = pair.ends[0].conn(id).unwrap().board().tx.clone();
    assert_eq!((tx.timeouts, tx.sacked), (0, 0));
    assert!(tx.retransmits >= 2);
}

#[test]
fn a_composition_without_the_peers_window_is_refused() {
    let text = "[protocol.mine]\nextends = \"tcp-newreno\"\nnumber = 240\ngates = [\"nagle\"]\n";
    let library = wifu_parts::library().merge(wifu_engine::Library::parse(text).unwrap());
    let error = library
        .resolve("mine", &wifu_parts::registry())
        .unwrap_err()
        .to_string();
    assert!(error.contains("peer-window"), "{error}");
}

#[test]
fn nothing_is_written_behind_the_fin() {
    let mut pair = open("tcp-newreno", 1000);
    pair.run(secs(2));
    let id = pair.apps[0].conn.unwrap();
    pair.ends[0].shutdown_write(pair.now, id);
    assert_eq!(pair.ends[0].write(pair.now, id, b"more"), 0);
    assert_eq!(pair.ends[0].write_space(id).concat().len(), 0);
    pair.apps[1].close_after = true;
    pair.run(secs(600));
    assert_eq!(
        (pair.apps[1].read.len(), pair.apps[0].ended),
        (1000, Some(None))
    );
}
