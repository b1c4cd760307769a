//! The ends of Hop over a pair in virtual time, without nodes and lanes between them: what lanes do
//! is tried over radios.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use wifu_engine::{Blueprint, State};
use wifu_testkit::pair::{Fate, Flying, Pair, Step, pattern};
use wifu_wire::{Rng, Span, hop, hxh};

fn protocol(spec: &str) -> Arc<Blueprint> {
    wifu_parts::blueprint(spec).unwrap_or_else(|e| panic!("{e}"))
}

/// A pair whose client writes `octets` and whose server writes `back`, until both have closed;
/// which types of packets each sent.
fn complete(
    spec: &str,
    (octets, back): (usize, usize),
    mut which: impl FnMut(&Flying) -> Fate + 'static,
) -> (Pair, Vec<(usize, u32)>) {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (mut pair, log) = (Pair::new(7), Rc::clone(&seen));
    for (side, n) in [octets, back].into_iter().enumerate() {
        pair.apps[side].to_write = pattern(n, side as u64 + 1);
    }
    pair.apps[0].close_after = true;
    pair.apps[1].close_after = back > 0;
    pair.spoil = Box::new(move |f| {
        log.borrow_mut().push((f.from, u32::from(f.bytes[0] & 15)));
        which(f)
    });
    pair.connect(&protocol(spec));
    let limit = pair.now + Span::SECOND * 7_200;
    while pair.step(limit) == Step::Going {
        pair.apps[1].close_after |= pair.apps[1].eof;
    }
    for side in 0..2 {
        let (got, want) = (&pair.apps[side].read, &pair.apps[1 - side].to_write);
        assert!(got == want, "{spec}: {side} read {} octets", got.len());
        assert_eq!(pair.apps[side].ended, Some(None), "{spec}: {side}");
        assert_eq!(pair.conn(side).state(), State::Closed, "{spec}");
    }
    let seen = seen.take();
    (pair, seen)
}

#[test]
fn a_clean_wire_repeats_nothing_and_each_block_is_acknowledged() {
    let (pair, seen) = complete("hop", (300_000, 0), |_| Fate::Deliver);
    let count = |side, kind| seen.iter().filter(|s| **s == (side, kind)).count();
    let packets = 300_000_usize.div_ceil(1_444) + 1;
    assert_eq!(count(0, hxh::DATA), packets);
    assert_eq!(count(0, hop::BSYN), 0);
    let acks = count(1, hxh::ACK);
    assert!((4..=8).contains(&acks), "{acks}");
    assert_eq!(pair.conn(0).board().tx.retransmits, 0);
}

#[test]
fn losses_at_random_both_ways_are_repaired_by_questions_and_lists() {
    for percent in [1, 5, 10, 20, 30] {
        for seed in 0..4 {
            let mut rng = Rng::new(seed * 100 + percent);
            let spec = "hop,syn_tries=20,ack_limit=600s";
            let (pair, seen) = complete(spec, (200_000, 100_000), move |_| {
                if rng.below(100) < percent {
                    Fate::Drop
                } else {
                    Fate::Deliver
                }
            });
            let asked = seen.iter().filter(|s| s.1 == hop::BSYN).count();
            let again = pair.conn(0).board().tx.retransmits + pair.conn(1).board().tx.retransmits;
            println!("{percent} %, seed {seed}: {asked} questions, {again} again");
            assert!(percent < 5 || asked > 0 && again > 0);
        }
    }
}
