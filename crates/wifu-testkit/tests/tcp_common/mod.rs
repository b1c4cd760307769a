//! What the tests of the TCP family share.
#![allow(dead_code, missing_docs)]

use core::net::SocketAddrV4;
use wifu_engine::signal::Sent;
use wifu_engine::{ConnId, Fault, Kind, Reason, State};
use wifu_testkit::pair::{Fate, Flying, Pair, SERVER, Seen, pattern};
use wifu_testkit::seg::Seg;
use wifu_wire::{Flags, Rng, Seq, Span, SynOptions, Time};

/// All protocols of the family, and with the paper's constants those that have had them.
pub const PROTOCOLS: [&str; 9] = [
    "tcp-tahoe",
    "tcp-reno",
    "tcp-newreno",
    "tcp-sack",
    "tcp-cubic",
    "tcp-tahoe,profile=wifu-tahoe",
    "tcp-reno,profile=wifu-tahoe",
    "tcp-newreno,profile=wifu-tahoe",
    "tcp-sack,profile=wifu-tahoe",
];

/// Whether a specification has the constants of the WiFu paper (Behaviour 4.2).
pub fn papers(spec: &str) -> bool {
    spec.contains("profile=wifu-tahoe")
}

/// When a pair's clock starts.
pub const START: Time = Time(1_000_000);

pub fn secs(s: u64) -> Time {
    START + Span::SECOND * s
}

pub fn ms(n: u64) -> Span {
    Span::MILLI * n
}

/// A pair that records, both sides about to write `octets` and to close.
pub fn pair_of(octets: usize) -> Pair {
    let mut pair = Pair::new(7);
    pair.record = true;
    for (app, seed) in pair.apps.iter_mut().zip([1, 2]) {
        app.to_write = pattern(octets, seed);
        app.close_after = true;
    }
    pair
}

/// A pair in which only the client writes; the server closes when the client did.
pub fn one_way(octets: usize) -> Pair {
    let mut pair = pair_of(octets);
    pair.apps[1].to_write.clear();
    pair
}

/// Listen with one specification, connect with another; both of one protocol number.
pub fn connect(pair: &mut Pair, client: &str, server: &str) -> ConnId {
    let [c, s] = [client, server].map(|spec| wifu_parts::blueprint(spec).unwrap());
    assert_eq!(c.number, s.number);
    pair.ends[1]
        .listen(&s, SocketAddrV4::new(SERVER, 80), 16)
        .unwrap();
    let id = pair.dial(&c);
    pair.apps[0].conn = Some(id);
    id
}

/// Connect and run until both sides are established.
pub fn open(pair: &mut Pair, spec: &str) {
    connect(pair, spec, spec);
    run_for(pair, Span::SECOND);
    for side in 0..2 {
        assert!(pair.conn(side).opened_at().is_some(), "{spec}: not open");
    }
}

/// Run for a while.
pub fn run_for(pair: &mut Pair, span: Span) {
    let limit = pair.now + span;
    pair.run(limit);
    pair.now = limit;
}

/// Every octet arrived and both ends closed in order.
#[track_caller]
pub fn assert_delivered(pair: &Pair, what: &str) {
    for (side, name) in [(0, "client"), (1, "server")] {
        let (got, want) = (&pair.apps[side].read, &pair.apps[1 - side].to_write);
        let counts = (got.len(), want.len());
        assert_eq!(counts.0, counts.1, "{what}: bytes that the {name} read");
        assert!(got == want, "{what}: the {name} read other bytes");
        let ended = pair.apps[side].ended;
        assert_eq!(ended, Some(None), "{what}: how the {name} ended");
        if let Some(conn) = pair.apps[side].conn {
            let state = pair.ends[side].conn(conn).map(|c| c.state());
            assert_eq!(state, Some(State::Closed), "{what}: the {name}'s state");
        }
    }
}

/// Connect, run to the end, check delivery.
#[track_caller]
pub fn complete(mut pair: Pair, spec: &str, limit: u64) -> Pair {
    connect(&mut pair, spec, spec);
    let quiet = pair.run(secs(limit));
    assert_delivered(&pair, spec);
    assert!(quiet, "{spec}: not quiet after {limit} s");
    pair
}

/// Lose the segments that `which` picks.
pub fn lose(pair: &mut Pair, mut which: impl FnMut(&Flying, &Seg) -> bool + 'static) {
    pair.spoil = Box::new(move |f| match which(f, &f.seg()) {
        true => Fate::Drop,
        false => Fate::Deliver,
    });
}

/// Lose `percent` of all segments.
pub fn lose_randomly(pair: &mut Pair, percent: u64, seed: u64) {
    let mut rng = Rng::new(seed);
    lose(pair, move |_, _| rng.below(100) < percent);
}

/// Nothing is spoilt from now on.
pub fn heal(pair: &mut Pair) {
    pair.spoil = Box::new(|_| Fate::Deliver);
}

/// What one side sent.
pub fn sent(pair: &Pair, side: usize) -> impl DoubleEndedIterator<Item = &Seen> {
    pair.seen.iter().filter(move |s| s.from == side)
}

/// What one side sent with a flag.
pub fn flagged(pair: &Pair, side: usize, flag: Flags) -> Vec<&Seen> {
    sent(pair, side).filter(|s| s.seg.has(flag)).collect()
}

/// Data segments of one side.
pub fn data(pair: &Pair, side: usize) -> impl DoubleEndedIterator<Item = &Seen> {
    sent(pair, side).filter(|s| !s.seg.is_empty())
}

/// Data segments of which every octet had been sent before.
pub fn repeated(pair: &Pair, side: usize) -> Vec<&Seen> {
    let mut highest: Option<Seq> = None;
    let mut again = Vec::new();
    for s in data(pair, side) {
        let end = s.seg.end();
        match highest {
            Some(h) if end.upto(h) => again.push(s),
            _ => highest = Some(end),
        }
    }
    again
}

/// Bare ACKs of one side that say no more than the segment before them.
pub fn duplicates(pair: &Pair, side: usize) -> Vec<&Seg> {
    let acks: Vec<&Seg> = sent(pair, side).map(|s| &s.seg).collect();
    let again = |w: &&[&Seg]| w[0].ack == w[1].ack && w[1].is_bare_ack() && !w[0].has(Flags::FIN);
    acks.windows(2).filter(again).map(|w| w[1]).collect()
}

/// How many episodes of recovery there were: (by duplicate ACKs or scoreboard, by timeout). An
/// episode of the first kind begins with one segment that goes again, past window and pacer.
pub fn losses(pair: &Pair, side: usize) -> (usize, u32) {
    let begins = |d: &&(Time, Sent)| d.1.kind == Kind::Rescue && d.1.reason == Reason::DupAck;
    let begun = pair.departures[side].iter().filter(begins).count();
    (begun, pair.conn(side).board().tx.timeouts)
}

/// Times at which one side's segments left for a reason.
pub fn sent_because(pair: &Pair, side: usize, reason: Reason) -> Vec<Time> {
    let log = pair.departures[side].iter();
    log.filter(|d| d.1.reason == reason).map(|d| d.0).collect()
}

/// An internal quantity of one side's parts, if one of them has it.
pub fn probe(pair: &Pair, side: usize, name: &str) -> Option<f64> {
    let mut found = None;
    pair.conn(side).observe(&mut |_, probe, value| {
        found = found.or((probe == name).then_some(value));
    });
    found
}

/// A segment as one side could send it now: next number, right acknowledgement, its present clock.
pub fn forge(pair: &Pair, from: usize) -> Seg {
    let (me, peer) = (pair.conn(from), pair.conn(1 - from));
    let (tuple, board) = (me.tuple(), me.board());
    // As if it had been on its way: what honestly is must not look old beside it.
    let clock = pair
        .now
        .wire_micros()
        .wrapping_sub(pair.delay.micros() as u32);
    let stamps = board.conn.peer.ts_ok && peer.board().conn.peer.ts_ok;
    Seg {
        ports: (tuple.local.port(), tuple.remote.port()),
        seq: board.tx.max,
        ack: Some(board.rx.nxt),
        window: board.rx.window.min(65_535),
        ts: stamps.then_some((clock, clock)),
        ..Seg::default()
    }
}

/// The facts that a hostile segment must not change: (una, nxt, rx.nxt, state).
pub fn marks(pair: &Pair, side: usize) -> (Seq, Seq, Seq, State) {
    let b = pair.conn(side).board();
    (b.tx.una, b.tx.nxt, b.rx.nxt, b.conn.state)
}

/// How one side's connection ended.
pub fn fault(pair: &Pair, side: usize) -> Option<Option<Fault>> {
    pair.apps[side].ended
}

/// A client that has sent its SYN, and the SYN; nobody answers but the test.
pub fn dialled(spec: &str) -> (Pair, Seg) {
    let mut pair = Pair::new(7);
    pair.record = true;
    let blueprint = wifu_parts::blueprint(spec).unwrap();
    let id = pair.dial(&blueprint);
    pair.apps[0].conn = Some(id);
    pair.run(START + ms(1));
    let syn = pair.seen[0].seg.clone();
    (pair, syn)
}

/// The SYN+ACK for a SYN, from number 1000 on, with this size of segments and no other option.
pub fn answer(syn: &Seg, mss: u16) -> Seg {
    Seg {
        ports: (syn.ports.1, syn.ports.0),
        seq: Seq(1000),
        ack: Some(syn.seq.plus(1)),
        flags: Flags::SYN,
        window: 65_535,
        options: SynOptions {
            mss,
            ..SynOptions::default()
        },
        ..Seg::default()
    }
}

/// A segment of the test's with text, from number `seq` on.
pub fn text(after: &Seg, seq: u32, octets: &[u8]) -> Seg {
    Seg {
        seq: Seq(seq),
        flags: Flags(0),
        options: SynOptions::default(),
        data: octets.to_vec(),
        ..after.clone()
    }
}
