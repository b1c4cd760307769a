//! The mock network under every protocol of the library: what is lost, repeated, swapped, broken
//! or forged on the way, every octet arrives and both ends close.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use wifu_engine::Blueprint;
use wifu_sim::record::Event;
use wifu_sim::{
    App, Close, Fate, Flow, Impair, LinkSpec, Lost, Mock, MockBuilder, Open, Rate, Side, Span,
    Stop, Time, csv,
};

const LONG: Span = Span(7_200_000_000_000);

fn protocols() -> Vec<(String, Arc<Blueprint>)> {
    let library = wifu_parts::library();
    let make = |name: &String| {
        let blueprint = library.resolve(name, &wifu_parts::registry());
        (name.clone(), blueprint.expect("a protocol of the library"))
    };
    library.protocols().iter().map(make).collect()
}

fn blueprint(spec: &str) -> Arc<Blueprint> {
    wifu_parts::blueprint(spec).expect("a protocol of the library")
}

/// All there is to see of a run.
fn everything(mock: &Mock) -> (String, Vec<u8>) {
    (csv(mock.rows()), mock.capture().to_vec())
}

fn finish(mock: &mut Mock, who: &str) {
    assert_eq!(mock.run(LONG), Stop::Idle, "{who}: still busy");
    for flow in 0..mock.flows() {
        assert_eq!(mock.verify(flow), Ok(()), "{who}");
    }
    assert!(mock.quiet(), "{who}: connections left");
}

#[test]
fn the_same_description_gives_the_same_octets_and_another_seed_others() {
    let run = |seed| {
        let newreno = blueprint("tcp-newreno");
        let all = Impair {
            loss: 2.0,
            duplicate: 1.0,
            corrupt: 1.0,
            reorder: 5.0,
            reorder_by: 4,
        };
        let mut builder = MockBuilder::new().seed(seed).record(true);
        builder = builder.impair(Side::A, all).impair(Side::B, all);
        for _ in 0..3 {
            builder = builder.flow(Flow::bulk(&newreno, 200_000));
        }
        let mut mock = builder.capture(&Side::BOTH).build();
        finish(&mut mock, "three flows");
        everything(&mock)
    };
    let first = run(1);
    assert!(first.0.len() > 10_000 && first.1.len() > 600_000);
    assert!(first == run(1), "same seed");
    assert!(first != run(2), "another seed");
}

#[test]
fn every_protocol_delivers_through_everything_at_once_both_ways() {
    let all = Impair {
        loss: 2.0,
        duplicate: 2.0,
        corrupt: 1.0,
        reorder: 5.0,
        reorder_by: 10,
    };
    for (name, blueprint) in protocols() {
        for seed in 1..=5 {
            let flow = Flow::new(&blueprint)
                .a(App::send(300_000))
                .b(App::send(200_001));
            let mut mock = MockBuilder::new()
                .seed(seed)
                .impair(Side::A, all)
                .impair(Side::B, all)
                .flow(flow)
                .build();
            finish(&mut mock, &format!("{name}, seed {seed}"));
            for why in [Lost::Random, Lost::Corrupt] {
                assert!(mock.lost().contains_key(&why), "{name}: {why:?}");
            }
        }
    }
}

#[test]
fn a_clean_path_is_used_fully_and_nothing_is_sent_twice() {
    for (name, blueprint) in protocols() {
        // The pipe and the queue together hold every window.
        let link = LinkSpec::new(Rate(10_000_000), Span::MILLI * 10).queue(5_000);
        let mut mock = MockBuilder::new()
            .bottleneck(link)
            .flow(Flow::bulk(&blueprint, 5_000_000))
            .build();
        finish(&mut mock, &name);
        assert_eq!(mock.tally(0, Side::A).retransmissions, 0, "{name}");
        // 1448 octets in packets of 1500.
        let most = 1e7 * 1448.0 / 1500.0;
        let share = mock.goodput(0, Side::B).expect("delivered") / most;
        // One hop, by the TTL of what arrives, holds two segments of those that hops limit; TCP-AP
        // takes the time of a hop for waiting, and leaves half a round trip or two between packets.
        let least = match name.as_str() {
            "tcp-cwl" => 0.1,
            "tcp-ap05" | "tcp-ap05-delack" | "tcp-ap11" => 0.03,
            // Nobody stands between these ends who would say a delay: a packet every 20 ms.
            "atp" | "atp-aggressive" | "atp-adaptive" | "atp-next" | "tp-alpha" => 0.05,
            _ => 0.95,
        };
        assert!((least..=1.0).contains(&share), "{name}: {share}");
    }
}

/// An application that reads at once frees room with every segment; that alone is no reason to
/// acknowledge it.
#[test]
fn delayed_acknowledgements_stay_delayed_where_the_application_reads_at_once() {
    for (spec, segments) in [
        ("tcp-reno,rcv_wnd=65535,ack_every=1", 1),
        ("tcp-reno,rcv_wnd=65535,ack_every=2", 2),
        ("tcp-reno,rcv_wnd=65535,ack_every=4", 4),
    ] {
        let reno = blueprint(spec);
        let mut mock = MockBuilder::new()
            .record(true)
            .flow(Flow::bulk(&reno, 1_448_000))
            .build();
        finish(&mut mock, spec);
        let acks = mock.rows().iter().filter(|r| r.event == Event::Ack).count();
        let expected = 1_000 / segments;
        assert!((expected..=expected + 3).contains(&acks), "{spec}: {acks}");
    }
}

#[test]
fn a_full_queue_drops_and_the_trace_says_so() {
    let link = LinkSpec::new(Rate(2_000_000), Span::MILLI * 20).queue(5);
    let mut mock = MockBuilder::new()
        .bottleneck(link)
        .record(true)
        .flow(Flow::bulk(&blueprint("tcp-newreno"), 500_000))
        .build();
    finish(&mut mock, "short queue");
    let dropped = mock.lost()[&Lost::Queue];
    assert!(dropped > 0);
    let rows = mock.rows().iter().filter(|r| r.event == Event::Drop);
    let named = rows.filter(|r| r.reason == "queue" && r.len > 0);
    assert_eq!(named.count() as u64, dropped);
}

#[test]
fn a_trace_balances() {
    let mut mock = MockBuilder::new()
        .record(true)
        .flow(Flow::bulk(&blueprint("tcp-newreno,mss=1000"), 300_500).drop_data(&[3, 40, 41, 299]))
        .build();
    finish(&mut mock, "four drops");
    let count = |event| mock.rows().iter().filter(|r| r.event == event).count();
    assert_eq!(count(Event::Drop), 4);
    assert_eq!(count(Event::Send), count(Event::Arrival) + 4);
    let first = mock
        .rows()
        .iter()
        .filter(|r| r.event == Event::Send && !r.again);
    assert!(first.filter_map(|r| r.index).eq(0..301));
    let last_ack = mock.rows().iter().rfind(|r| r.event == Event::Ack);
    assert_eq!(last_ack.and_then(|r| r.index), Some(301));
    assert!(mock.rows().is_sorted_by_key(|r| r.at));
}

#[test]
fn rules_catch_single_packets() {
    // The SYN, the SYN's answer, the first data segment twice; then one held for 300 ms.
    let rules = "1 0 -1\n1 2 -1\n2 2 -1\n2 2 -1\ndata_index 5 delay 300000\ndata_index 9 duplicate";
    let mut mock = MockBuilder::new()
        .rules(rules.parse().expect("rules"))
        .record(true)
        .flow(Flow::bulk(
            &blueprint("tcp-reno,profile=wifu-tahoe"),
            50_000,
        ))
        .build();
    finish(&mut mock, "rules");
    assert_eq!(mock.rules_left(), 0);
    assert_eq!(mock.lost()[&Lost::Rule], 4);
    let copies = mock
        .rows()
        .iter()
        .filter(|r| r.event == Event::Arrival && r.index == Some(9));
    assert!(copies.count() >= 2);
    assert!(mock.tally(0, Side::A).timeouts > Some(0));
}

#[test]
fn a_closure_sees_and_alters_packets() {
    let seen = Rc::new(RefCell::new(0));
    let count = Rc::clone(&seen);
    let newreno = blueprint("tcp-newreno");
    let wire = Arc::clone(&newreno.wire);
    let mut mock = MockBuilder::new()
        .flow(Flow::bulk(&newreno, 100_000))
        .tamper(move |_, packet| {
            *count.borrow_mut() += 1;
            match packet.index {
                Some(7) if !packet.again => Fate::Drop,
                // A zero window, now and then: the sender must not stop for good.
                None if packet.from == Side::B && packet.number % 20 == 9 => {
                    packet.rewrite(&*wire, |segment| segment[14..16].fill(0));
                    Fate::Pass
                }
                _ => Fate::Pass,
            }
        })
        .build();
    finish(&mut mock, "closure");
    assert!(*seen.borrow() > 100);
    assert_eq!(mock.lost()[&Lost::Rule], 1);
}

#[test]
fn reordering_beyond_the_threshold_only_costs_repetitions() {
    for by in [2, 30] {
        let reorder = Impair {
            reorder: 10.0,
            reorder_by: by,
            ..Impair::default()
        };
        // A window that no queue is too short for: nothing is lost.
        let newreno = blueprint("tcp-newreno,rcv_wnd=65535");
        let mut mock = MockBuilder::new()
            .impair(Side::A, reorder)
            .record(true)
            .flow(Flow::bulk(&newreno, 500_000))
            .build();
        finish(&mut mock, "reordering");
        let arrivals = mock.rows().iter().filter(|r| r.event == Event::Arrival);
        let order: Vec<u64> = arrivals.filter_map(|r| r.index).collect();
        assert!(!order.is_sorted(), "something was overtaken");
        let again = mock.tally(0, Side::A).retransmissions;
        assert_eq!(
            again > 0,
            by > 3,
            "overtaken by up to {by}: {again} retransmitted"
        );
    }
}

#[test]
fn every_way_to_open_and_close_ends_in_order() {
    let closes = [Close::Written, Close::AfterPeer];
    for (name, blueprint) in protocols() {
        // Where connections have identifiers, two that open at once are two, and each is refused.
        let both = blueprint.parts[0].desc.name == "handshake";
        let ways = [Open::A, Open::B, Open::Both];
        for open in ways.into_iter().filter(|o| both || *o != Open::Both) {
            for (a, b) in [(0, 0), (0, 1), (1, 0)] {
                let flow = Flow::new(&blueprint)
                    .open(open)
                    .a(App::send(20_000).close(closes[a]))
                    .b(App::send(30_000).close(closes[b]));
                let mut mock = MockBuilder::new().flow(flow).build();
                finish(&mut mock, &format!("{name}, {open:?}, {a}{b}"));
            }
        }
    }
}

#[test]
fn a_reader_that_stalls_gets_everything_afterwards() {
    for (name, mut blueprint) in protocols() {
        let reader = App::receive().stall(10_000, Span::SECOND * 30);
        if name.starts_with("atp") || name.starts_with("hxh") || name == "hop" || name == "tp-alpha"
        {
            // In that time a packet every 20 ms fills no larger buffers; HxH's would hold the file.
            blueprint = self::blueprint(&format!("{name},rcv_wnd=65535,snd_buf=131071"));
        }
        let mut mock = MockBuilder::new()
            .flow(Flow::bulk(&blueprint, 6_000_000).b(reader))
            .build();
        mock.run_for(Span::SECOND * 20);
        assert_eq!(mock.outcome(0, Side::B).read, 10_000, "{name}");
        let stuck = mock.outcome(0, Side::A).written;
        mock.run_for(Span::SECOND * 5);
        assert_eq!(
            mock.outcome(0, Side::A).written,
            stuck,
            "{name}: a full buffer"
        );
        finish(&mut mock, &name);
    }
}

#[test]
fn slow_and_idle_writers_need_no_timeout() {
    for (name, blueprint) in protocols() {
        let writer = App::send(60_000)
            .paced(1_000, Span::MILLI * 500)
            .idle(30_000, Span::SECOND * 120);
        let mut mock = MockBuilder::new()
            .flow(Flow::new(&blueprint).a(writer))
            .build();
        finish(&mut mock, &name);
        let timeouts = mock.tally(0, Side::A).timeouts;
        assert!(timeouts.is_none_or(|n| n == 0), "{name}: {timeouts:?}");
        assert!(mock.elapsed() > Span::SECOND * 149, "{name}");
    }
}

#[test]
fn timestamps_and_time_wrap_around_in_mid_flow() {
    for (name, blueprint) in protocols() {
        let mut mock = MockBuilder::new()
            .start(Time((1 << 32) * 1_000 - 500_000_000))
            .flow(Flow::bulk(&blueprint, 2_000_000))
            .build();
        finish(&mut mock, &name);
    }
}

#[test]
fn the_path_may_change_in_mid_flow() {
    let hop = LinkSpec::new(Rate(6_000_000), Span::MILLI * 2).queue(50);
    for (name, blueprint) in protocols() {
        let mut mock = MockBuilder::new()
            .path(&[hop; 3])
            .flow(Flow::bulk(&blueprint, 2_000_000))
            .build();
        mock.run_for(Span::SECOND);
        mock.set_path(&[hop; 5]);
        mock.run_for(Span::SECOND);
        mock.set_path(&[hop; 2]);
        finish(&mut mock, &name);
    }
}

#[test]
fn thirty_two_flows_share_a_path() {
    let newreno = blueprint("tcp-newreno");
    let mut builder = MockBuilder::new();
    for _ in 0..32 {
        builder = builder.flow(Flow::bulk(&newreno, 200_000));
    }
    let mut mock = builder.build();
    finish(&mut mock, "32 flows");
    let last = (0..32).filter_map(|f| mock.outcome(f, Side::B).last_read_at);
    let total = 32.0 * 200_000.0 * 8.0 / last.max().expect("some").as_secs_f64();
    assert!(total > 0.9 * 1e7 * 1448.0 / 1500.0, "{total} b/s");
}

#[test]
fn a_restarted_receiver_resets_the_sender() {
    let newreno = blueprint("tcp-newreno");
    let mut mock = MockBuilder::new()
        .flow(Flow::bulk(&newreno, 5_000_000))
        .build();
    mock.run_for(Span::SECOND);
    mock.restart(Side::B);
    assert_eq!(mock.run(LONG), Stop::Idle);
    let fault = mock.outcome(0, Side::A).fault();
    assert_eq!(fault, Some(wifu_engine::Fault::Reset));
    assert!(mock.quiet());
    // The same ports serve again.
    let again = mock.add(Flow::bulk(&newreno, 100_000).ports(10_000, 10_000));
    mock.run(LONG * 2);
    assert_eq!(mock.verify(again), Ok(()));
}

#[test]
fn a_sender_that_finds_no_receiver_gives_up() {
    let mut mock = MockBuilder::new()
        .flow(Flow::bulk(&blueprint("tcp-newreno"), 1_000))
        .tamper(|_, packet| match packet.from {
            Side::A => Fate::Drop,
            Side::B => Fate::Pass,
        })
        .build();
    assert_eq!(mock.run(LONG), Stop::Idle);
    let fault = mock.outcome(0, Side::A).fault();
    assert_eq!(fault, Some(wifu_engine::Fault::TimedOut));
    assert!(mock.verify(0).is_err());
}

#[test]
fn a_flow_that_stands_still_says_since_when() {
    let mut mock = MockBuilder::new()
        .flow(Flow::bulk(&blueprint("tcp-newreno"), 1_000_000))
        .tamper(|now, packet| match packet.from {
            Side::A if now > Time::ZERO + Span(500_000_000) => Fate::Drop,
            _ => Fate::Pass,
        })
        .build();
    mock.run(Span(10_000_000_000));
    let said = mock.verify(0).expect_err("half of it is missing");
    assert!(
        said.contains(" of 1000000 bytes, the last of them at 0.6"),
        "{said}"
    );
}
