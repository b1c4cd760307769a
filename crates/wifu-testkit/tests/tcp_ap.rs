//! TCP-AP over a wire in virtual time: the pacer acts on what it should and on nothing else.

use wifu_engine::board::Board;
use wifu_engine::signal::Sent;
use wifu_engine::{Kind, Reason};
use wifu_testkit::pair::{Fate, Flying, Pair, Step, pattern};
use wifu_wire::{Span, Time};

/// One hop of 20 ms there and back, nothing for sizes: four hops are 40 ms, and so is the interval.
const AP05: &str = "tcp-ap05,ap05_nosize=on";

/// The client writes so much to a server; both record.
fn pair(spec: &str, octets: usize) -> Pair {
    let mut pair = Pair::new(7);
    pair.record = true;
    pair.apps[0].to_write = pattern(octets, 1);
    pair.apps[0].close_after = true;
    pair.apps[1].close_after = true;
    pair.connect(&wifu_parts::blueprint(spec).unwrap());
    pair
}

fn secs(s: f64) -> Time {
    Time((s * 1e9) as u64)
}

fn data(f: &Flying) -> bool {
    f.from == 0 && f.bytes.len() > 200
}

fn board(pair: &Pair) -> &Board {
    pair.conn(0).board()
}

fn probe(pair: &Pair, name: &str) -> f64 {
    let mut found = f64::NAN;
    pair.conn(0).observe(&mut |_, probe, value| {
        if probe == name {
            found = value;
        }
    });
    found
}

/// Run to a time and hold that nothing in turn left earlier than the interval, as it was then,
/// behind the one before. Returns what left in turn.
fn held_apart(pair: &mut Pair, until: f64) -> Vec<(Time, Sent)> {
    let (mut last, mut before) = (None::<Time>, Span::ZERO);
    let (mut seen, mut all) = (0, Vec::new());
    while pair.step(secs(until)) == Step::Going {
        if pair.apps[0].conn.is_none() || pair.apps[0].ended.is_some() {
            continue;
        }
        // What left before the step's segment arrived left by the interval before it.
        let now = board(pair).rate.gap.unwrap_or(Span::ZERO);
        let gap = now.min(std::mem::replace(&mut before, now));
        for (at, sent) in pair.departures[0].iter().skip(seen) {
            if !sent.kind.in_turn() {
                continue;
            }
            if let Some(last) = last {
                assert!(*at - last >= gap, "{:?} after {:?}", *at - last, gap);
            }
            last = Some(*at);
            all.push((*at, *sent));
        }
        seen = pair.departures[0].len();
    }
    all
}

#[test]
fn data_leave_one_interval_apart_whatever_the_window_allows() {
    let mut p = pair(AP05, 300_000);
    let left = held_apart(&mut p, 8.0);
    assert!(left.len() > 150, "{}", left.len());
    // The window would let all of it leave at once: what binds is the pacer.
    assert!(board(&p).win.cwnd > 60_000, "{}", board(&p).win.cwnd);
    assert!(board(&p).tx.flight() <= 2 * 1448);
    assert!((probe(&p, "interval_s") - 0.040).abs() < 1e-3);
    assert!(probe(&p, "cov") < 1e-9);
}

/// "handshake RTT gives the first OID/FHD sample"; "if none: 50 ms".
//= spec#6
#[test]
fn the_handshake_gives_the_first_interval_and_without_one_it_is_50_ms() {
    let first = |spec: &str, lose_syn: bool| {
        let mut p = pair(spec, 50_000);
        p.delay = Span::MILLI * 5;
        p.spoil = Box::new(move |f| match lose_syn && f.from == 0 && f.number == 0 {
            true => Fate::Drop,
            false => Fate::Deliver,
        });
        let left = held_apart(&mut p, 8.0);
        (left[1].0 - left[0].0).as_secs_f64() * 1e3
    };
    assert!((first(AP05, false) - 20.0).abs() < 0.1);
    // A SYN that went again times nothing without timestamps; the first data do, after 10 ms.
    let spec = format!("{AP05},timestamps=off");
    assert!((first(&spec, false) - 20.0).abs() < 0.1);
    let mut p = pair(&spec, 50_000);
    p.spoil = Box::new(|f| match f.from == 0 && f.number == 0 {
        true => Fate::Drop,
        false => Fate::Deliver,
    });
    while p.apps[0].written == 0 {
        assert_eq!(p.step(secs(8.0)), Step::Going);
    }
    assert_eq!(board(&p).rate.gap, Some(Span::MILLI * 50));
}

#[test]
fn one_that_overslept_makes_up_for_one_segment_and_no_more() {
    let mut p = pair(AP05, 300_000);
    assert!(!p.run(secs(3.0)));
    let before = p.departures[0].len();
    p.now += Span::SECOND;
    p.pump(0);
    let late = &p.departures[0][before..];
    let data = late.iter().filter(|d| d.1.kind == Kind::New).count();
    assert_eq!(data, 2, "{late:?}");
}

/// The third segment from there on is lost once. Returns what left from the loss on.
fn after_a_loss(spec: &str) -> (Pair, Vec<(Time, Sent)>, u32) {
    let mut p = pair(spec, 300_000);
    let mut n = 0;
    p.spoil = Box::new(move |f| {
        n += u32::from(data(f));
        match data(f) && n == 20 {
            true => Fate::Drop,
            false => Fate::Deliver,
        }
    });
    let (mut allowed, mut noticed) = (0, 0);
    while p.step(secs(20.0)) == Step::Going {
        if p.apps[0].conn.is_none() {
            continue;
        }
        let b = board(&p);
        if b.tx.lost > 0 {
            noticed = p.departures[0].len();
            break;
        }
        let (window, mss) = (b.win.cwnd.min(b.peer.window), b.conn.mss.max(1));
        allowed = window.saturating_sub(b.tx.flight()) / mss;
    }
    assert!(allowed > 3, "the pacer keeps back what the window allows");
    p.run(secs(20.0));
    assert_eq!(p.apps[1].read, p.apps[0].to_write, "{spec}");
    let left = p.departures[0].clone();
    // What was noticed at this instant left at this instant, if it did not wait.
    let from = left[..noticed]
        .iter()
        .rposition(|d| d.1.reason == Reason::DupAck);
    let from = from.unwrap_or(noticed);
    (p, left[from..].to_vec(), allowed)
}

//= spec#16.1
#[test]
fn a_retransmission_leaves_at_once_or_behind_what_the_window_allowed() {
    for base in [AP05, "tcp-ap11"] {
        let (_, left, _) = after_a_loss(base);
        assert_eq!(
            (left[0].1.kind, left[0].1.reason),
            (Kind::Rescue, Reason::DupAck),
            "{base}"
        );
        let (p, left, allowed) = after_a_loss(&format!("{base},retransmissions=behind-window"));
        let at = left.iter().position(|d| d.1.kind == Kind::Rescue).unwrap();
        let before = &left[..at];
        assert!(
            before
                .iter()
                .all(|d| matches!(d.1.kind, Kind::New | Kind::Ack)),
            "{before:?}"
        );
        let new: Vec<Time> = before
            .iter()
            .filter(|d| d.1.kind == Kind::New)
            .map(|d| d.0)
            .collect();
        // One may have left in the instant of the loss, before it was noticed.
        assert!(
            allowed.abs_diff(new.len() as u32) <= 1,
            "{base}: {} of {allowed}",
            new.len()
        );
        let last = left[at].0 - *new.last().unwrap();
        assert!(
            last.as_secs_f64() > 0.5 * probe_interval(&p),
            "{base}: it has its turn"
        );
    }
}

/// Of a connection that has ended.
fn probe_interval(p: &Pair) -> f64 {
    let gaps = p.departures[0].windows(2);
    let all = gaps
        .filter(|w| w[1].1.kind == Kind::New)
        .map(|w| (w[1].0 - w[0].0).as_secs_f64());
    all.fold(f64::MAX, f64::min)
}

#[test]
fn what_goes_again_behind_a_timeout_is_paced_but_for_the_first() {
    for spec in [AP05, "tcp-ap11", "tcp-ap05,profile=ap05-wifu"] {
        let mut p = pair(spec, 400_000);
        // Nothing arrives for a while.
        p.spoil = Box::new(move |f| match (0.5..2.0).contains(&f.at.as_secs_f64()) {
            true => Fate::Drop,
            false => Fate::Deliver,
        });
        let left = held_apart(&mut p, 60.0);
        let again = left.iter().filter(|d| d.1.kind == Kind::Resend).count();
        assert!(again > 2, "{spec}: {again}");
        let rescue = |d: &&(Time, Sent)| d.1.reason == Reason::Timeout;
        let first = p.departures[0].iter().find(rescue).expect("a timeout");
        assert_eq!(first.1.kind, Kind::Rescue, "{spec}");
        assert_eq!(p.apps[1].read, p.apps[0].to_write, "{spec}");
    }
}

/// The matrix: an interval of 2 s, a timeout of 1 s.
//= spec#18
#[test]
fn what_waits_in_the_pacer_never_times_out() {
    let mut p = pair("tcp-ap05,ap05_nosize=on,nf=5", 60_000);
    p.delay = Span::MILLI * 400;
    let left = held_apart(&mut p, 40.0);
    assert!(left.len() > 12, "{}", left.len());
    assert!((probe(&p, "interval_s") - 2.0).abs() < 0.01);
    assert!(
        board(&p).tx.rto < Span::from_secs_f64(1.5),
        "{:?}",
        board(&p).tx.rto
    );
    assert_eq!((board(&p).tx.timeouts, board(&p).tx.retransmits), (0, 0));
}

#[test]
fn round_trips_that_vary_raise_the_interval() {
    let interval = |jitter: u64| {
        let mut p = pair(AP05, 300_000);
        p.spoil = Box::new(move |f| match f.number % 3 {
            _ if f.from == 0 => Fate::Deliver,
            n => Fate::Late(Span::MILLI * (n * jitter)),
        });
        held_apart(&mut p, 5.0);
        let of = |name| probe(&p, name);
        let [interval, fhd, cov] = ["interval_s", "fhd_s", "cov"].map(of);
        assert!((interval / (fhd * (1.0 + 2.0 * cov)) - 1.0).abs() < 1e-6);
        (interval, cov)
    };
    let (still, varied) = (interval(0), interval(5));
    assert!(still.1 < 0.01, "{still:?}");
    // 20, 25 and 30 ms: 4.1 ms of 25 ms.
    assert!((varied.1 - 0.165).abs() < 0.01, "{varied:?}");
    assert!(varied.0 > 1.5 * still.0, "{varied:?} and {still:?}");
}

#[test]
fn timeouts_double_or_are_all_alike() {
    let waits = |spec: &str| {
        let mut p = pair(spec, 4_000_000);
        p.spoil = Box::new(|f| match f.at > secs(0.1) {
            true => Fate::Drop,
            false => Fate::Deliver,
        });
        p.run(secs(20.0));
        let times = p.departures[0]
            .iter()
            .filter(|d| d.1.reason == Reason::Timeout);
        let times: Vec<f64> = times.map(|d| d.0.as_secs_f64()).collect();
        let waits = times.windows(2).map(|w| (w[1] - w[0]).round());
        waits.take(3).collect::<Vec<_>>()
    };
    assert_eq!(waits(AP05), [2.0, 4.0, 8.0]);
    assert_eq!(
        waits(&format!("{AP05},ap_rto_backoff=off")),
        [1.0, 1.0, 1.0]
    );
    assert_eq!(
        waits("tcp-sack,ap_rto_backoff=off,rto_min=1s"),
        [1.0, 1.0, 1.0]
    );
}
