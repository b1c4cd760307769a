//! Delayed acknowledgements that become rarer as the stream goes on: one for `d` segments in
//! order, `d` growing with the offset of the segment in the stream.
//!
//! Hears `arrived`, `ack-now`, `sent` and `ended`; says nothing; offers `Urgent` for disorder and
//! `Ack` otherwise. Source: E. Altman and T. Jimenez, "Novel delayed ACK techniques for improving
//! TCP performance in multihop wireless networks", PWC 2003, in the forms of `da_profile`
//! (Behaviour 5): that of the WiFu paper, that of its public code, that of Altman and Jimenez,
//! and RFC 5681's. A segment retransmitted has a small offset, so it is acknowledged soon; the
//! sender is unchanged. For batches see `every`.
//!
//! What is out of order, comes twice or fills a hole is acknowledged at once (RFC 5681 4.2), though
//! the public code delays that too: `da_delay_dupacks`. But what asks for an answer (a keep-alive,
//! a probe of a shut window, all that came before) has it at once (RFC 9293 3.8.4). A sender whose
//! window is smaller than `d` segments, as after a timeout, waits for the timer in every round
//! trip: so the paper.

use wifu_engine::kit::{AckRule, Acking, Held};
use wifu_engine::signal::Arrived;
use wifu_engine::{
    Arrival, Board, Descriptor, Facts, FieldUse, Kind, ParamSpec, Params, Role, Value,
};
use wifu_wire::{HeadField, Seq, Span};

/// One acknowledgement per d segments, d growing.
pub static DYNAMIC: Descriptor = Descriptor {
    name: "dynamic",
    role: Role::Ack,
    doc: "One acknowledgement per d segments in order, d growing from 1 to 4 with the offset in \
          the stream; at once on disorder and at the end.",
    cites: &[
        "Altman and Jimenez, PWC 2003",
        "RFC 5681 4.2",
        "Behaviour 5",
    ],
    params: &[
        ParamSpec::text(
            "da_profile",
            "da-wifu",
            &["da-wifu", "da-code", "da-altman", "da-rfc"],
            "Offsets at which d grows: da-wifu 1, 10 and 100 kB (d 1 2 3 4); da-code 10 kB, \
             100 kB and 1 MB (d 1 3 3 4); da-altman 2, 5 and 9 segments (d 1 2 3 4), all after \
             0.1 s at the latest; da-rfc always 2, after 0.2 s.",
        ),
        LIMITS[0],
        LIMITS[1],
        LIMITS[2],
        COUNTS[0],
        COUNTS[1],
        COUNTS[2],
        COUNTS[3],
        ParamSpec::span(
            "da_timeout",
            Span::ZERO,
            Span::ZERO,
            Span(500_000_000),
            "Longest wait, from the first segment withheld on (RFC 5681 4.2: less than 0.5 s); \
             0: that of the profile.",
        ),
        ParamSpec::flag(
            "da_reset",
            false,
            "After disorder the next ten segments are acknowledged one by one.",
        ),
        ParamSpec::flag(
            "da_delay_dupacks",
            false,
            "What is out of order, comes twice or fills a hole is withheld like the rest, as by the \
             public WiFu code: fast retransmission needs three times d segments.",
        ),
        ParamSpec::int(
            "stretch",
            1,
            1,
            64,
            "So many acknowledgements that a received batch owes may leave as one.",
        ),
    ],
    reads: Facts::RX.with(Facts::CONN),
    wants: Facts::RTT,
    hears: &[
        ("arrived", &[]),
        ("?ack-now", &[]),
        ("sent", &[]),
        ("?ended", &[]),
        ("timer", &[]),
    ],
    offers: &[Kind::Urgent, Kind::Ack],
    hooks: &["stamp"],
    fields: &[
        FieldUse::of(HeadField::Ack),
        FieldUse::of(HeadField::Window),
    ],
    build: |params| {
        let rule = Dynamic {
            profile: Profile::of(params),
            reset: params.flag("da_reset"),
            delay_dupacks: params.flag("da_delay_dupacks"),
            singly: 0,
            here: None,
        };
        Ok(Box::new(Acking::new(rule, params.int("stretch") as u32)))
    },
    ..Descriptor::EMPTY
};

const LIMITS: [ParamSpec; 3] = [
    limit(
        "da_l1",
        "Offset in the stream, bytes (da-altman: segments), from which d is da_d2; auto: that of \
         the profile.",
    ),
    limit("da_l2", "From this offset on d is da_d3."),
    limit("da_l3", "From this offset on d is da_d4."),
];

const COUNTS: [ParamSpec; 4] = [
    count(
        "da_d1",
        "Segments per acknowledgement below da_l1; auto: those of the profile.",
    ),
    count("da_d2", "Segments per acknowledgement from da_l1 on."),
    count("da_d3", "Segments per acknowledgement from da_l2 on."),
    count("da_d4", "Segments per acknowledgement from da_l3 on."),
];

const fn limit(name: &'static str, doc: &'static str) -> ParamSpec {
    ParamSpec::optional(name, 0, 1 << 31, doc)
}

const fn count(name: &'static str, doc: &'static str) -> ParamSpec {
    ParamSpec::optional(name, 1, 64, doc)
}

/// Thresholds and counts.
struct Profile {
    limits: [u32; 3],
    /// Thresholds count segments, not octets.
    in_segments: bool,
    counts: [u32; 4],
    patience: Span,
}

impl Profile {
    fn named(name: &str) -> Profile {
        let (limits, counts, patience_ms) = match name {
            "da-code" => ([10_000, 100_000, 1_000_000], [1, 3, 3, 4], 100),
            "da-altman" => ([2, 5, 9], [1, 2, 3, 4], 100),
            "da-rfc" => ([0, 0, 0], [2, 2, 2, 2], 200),
            _ => ([1_000, 10_000, 100_000], [1, 2, 3, 4], 100),
        };
        Profile {
            limits,
            in_segments: name == "da-altman",
            counts,
            patience: Span::MILLI * patience_ms,
        }
    }

    /// The profile, but for what is set beside it.
    fn of(params: &Params<'_>) -> Profile {
        let mut profile = Profile::named(params.text("da_profile"));
        let places = profile.limits.iter_mut().zip(&LIMITS);
        for (place, spec) in places.chain(profile.counts.iter_mut().zip(&COUNTS)) {
            *place = params.optional(spec.name).map_or(*place, |n| n as u32);
        }
        let own = params.span("da_timeout");
        if own > Span::ZERO {
            profile.patience = own;
        }
        profile
    }

    /// Segments per acknowledgement at this offset, where segments have so many octets.
    fn count(&self, offset: u64, mss: u32) -> u32 {
        let unit = if self.in_segments { mss } else { 1 };
        let below = |limit: &u32| offset < u64::from(*limit) * u64::from(unit);
        let at = self.limits.iter().position(below);
        self.counts[at.unwrap_or(self.limits.len())]
    }
}

struct Dynamic {
    profile: Profile,
    reset: bool,
    delay_dupacks: bool,
    /// Segments still to be acknowledged one by one after disorder.
    singly: u32,
    /// What was next in order when we looked last, and its offset: sequence numbers begin again
    /// after 4 GiB, the stream does not.
    here: Option<(Seq, u64)>,
}

impl Dynamic {
    /// The offset of a segment in the stream.
    fn offset(&mut self, seq: Seq, board: &Board) -> u64 {
        let (began, nxt) = (board.rx.irs.plus(1), board.rx.nxt);
        let (last, at) = self.here.unwrap_or((began, 0));
        let at = at + u64::from(nxt.since(last));
        self.here = Some((nxt, at));
        match seq.before(nxt) {
            true => at.saturating_sub(u64::from(nxt.since(seq))),
            false => at + u64::from(seq.since(nxt)),
        }
    }
}

impl AckRule for Dynamic {
    //= spec#5
    fn enough(&mut self, held: Held, arrived: &Arrived, board: &Board) -> bool {
        let offset = self.offset(arrived.seq, board);
        if self.singly > 0 {
            self.singly -= 1;
            return true;
        }
        held.segments >= self.profile.count(offset, board.conn.mss)
    }

    fn disorder(&mut self, _order: Arrival) {
        if self.reset {
            self.singly = 10; // Behaviour 5, da_reset
        }
    }

    fn withholds_disorder(&self) -> bool {
        self.delay_dupacks
    }

    fn patience(&self) -> Span {
        self.profile.patience
    }

    fn set(&mut self, param: &str, value: Value) -> bool {
        match (param, value) {
            ("da_reset", Value::Flag(on)) => self.reset = on,
            ("da_delay_dupacks", Value::Flag(on)) => self.delay_dupacks = on,
            ("da_timeout", Value::Span(s)) if s > Span::ZERO => self.profile.patience = s,
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::{Bench, Signal};
    use wifu_wire::{Head, Time};

    const MSS: u32 = 1448;

    fn receiver(set: &[(&str, &str)]) -> Bench {
        let mut t = Bench::new(&DYNAMIC, set).unwrap();
        t.board.conn.mss = MSS;
        (t.board.rx.irs, t.board.rx.nxt) = (Seq(u32::MAX - 5000), Seq(u32::MAX - 4999));
        t.board.rx.window = 60_000;
        t
    }

    /// A segment arrives and what is owed leaves; returns how many acknowledgements left.
    fn arrive(t: &mut Bench, order: Arrival) -> usize {
        let seq = t.board.rx.nxt;
        if order == Arrival::InOrder {
            t.board.rx.nxt = seq.plus(MSS);
        }
        t.signal(Signal::Arrived(Arrived {
            seq,
            bytes: MSS,
            gap: 0,
            order,
            fin: false,
            ce: false,
        }));
        leave(t)
    }

    fn leave(t: &mut Bench) -> usize {
        let mut n = 0;
        for kind in [Kind::Urgent, Kind::Ack] {
            while let Some(want) = t.offer(kind) {
                let mut head = Head::default();
                head.ack = Some(t.board.rx.nxt);
                t.send(&want, &mut head);
                n += 1;
            }
        }
        n
    }

    //= spec#17
    #[test]
    fn a_megabyte_takes_180_acknowledgements_and_one_by_the_timer() {
        let mut t = receiver(&[]);
        let acks: Vec<usize> = (0..691).map(|_| arrive(&mut t, Arrival::InOrder)).collect();
        assert_eq!(acks[..12], [1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 0, 0]);
        assert_eq!(acks.iter().sum::<usize>(), 180);
        t.advance(Time(100_000_000));
        assert_eq!(leave(&mut t), 1);
    }

    #[test]
    fn the_first_acknowledgements_of_each_profile() {
        let cases = [
            ("da-code", [1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0]),
            ("da-altman", [1, 1, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0]),
            ("da-rfc", [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]),
        ];
        for (profile, expected) in cases {
            let mut t = receiver(&[("da_profile", profile)]);
            let acks: Vec<usize> = (0..12).map(|_| arrive(&mut t, Arrival::InOrder)).collect();
            assert_eq!(acks, expected, "{profile}");
        }
    }

    #[test]
    fn disorder_is_acknowledged_at_once_and_with_da_reset_so_are_the_next_ten() {
        for (reset, expected) in [("off", 4), ("on", 12)] {
            let mut t = receiver(&[("da_reset", reset)]);
            for _ in 0..200 {
                arrive(&mut t, Arrival::InOrder);
            }
            assert_eq!(arrive(&mut t, Arrival::Ahead), 1);
            assert_eq!(t.due(0), Time::NEVER);
            let n: usize = (0..18).map(|_| arrive(&mut t, Arrival::InOrder)).sum();
            assert_eq!(n, expected);
        }
    }

    #[test]
    fn the_public_code_withholds_what_is_out_of_order_too() {
        use Arrival::{Ahead, Duplicate, Fills, InOrder};
        let acks = |on: &str| {
            let mut t = receiver(&[("da_delay_dupacks", on)]);
            for _ in 0..200 {
                arrive(&mut t, InOrder);
            }
            while arrive(&mut t, InOrder) == 0 {}
            let orders = [Ahead, Ahead, Duplicate, Ahead, Ahead, Fills];
            let seen = orders.map(|order| arrive(&mut t, order));
            (seen, t.due(0) < Time::NEVER)
        };
        assert_eq!(acks("off"), ([1, 1, 1, 1, 1, 1], false));
        assert_eq!(acks("on"), ([0, 0, 0, 1, 0, 0], true));
    }

    #[test]
    fn offsets_go_on_where_sequence_numbers_begin_again() {
        for profile in ["da-wifu", "da-altman", "da-code"] {
            let mut t = receiver(&[("da_profile", profile)]);
            arrive(&mut t, Arrival::InOrder);
            // Four gigabytes less a few segments come in pieces as large as a window may be.
            for _ in 0..4 {
                t.board.rx.nxt = t.board.rx.nxt.plus((1 << 30) - 3 * MSS);
                arrive(&mut t, Arrival::InOrder);
            }
            while arrive(&mut t, Arrival::InOrder) == 0 {}
            let acks: usize = (0..40).map(|_| arrive(&mut t, Arrival::InOrder)).sum();
            assert_eq!(acks, 10, "{profile}: one of four");
        }
    }

    #[test]
    fn what_is_sent_again_lies_where_it_lay_before() {
        let mut t = receiver(&[("da_delay_dupacks", "on")]);
        for _ in 0..3000 {
            arrive(&mut t, Arrival::InOrder);
        }
        while arrive(&mut t, Arrival::InOrder) == 0 {}
        let board = t.board.clone();
        let mut rule = Dynamic {
            profile: Profile::named("da-wifu"),
            reset: false,
            delay_dupacks: true,
            singly: 0,
            here: None,
        };
        let began = board.rx.irs.plus(1);
        let far = board.rx.nxt.since(began);
        assert_eq!(rule.offset(board.rx.nxt, &board), u64::from(far));
        assert_eq!(rule.offset(began.plus(MSS), &board), u64::from(MSS));
        assert_eq!(
            rule.offset(board.rx.nxt.plus(MSS), &board),
            u64::from(far + MSS)
        );
    }

    /// Keep-alives of a peer whose acknowledgements came late, and questions to a shut window.
    //= rfc9293#section-3.8.4
    #[test]
    fn what_asks_for_an_answer_has_it_at_once_whatever_is_withheld() {
        let ask = |window: u32, seq: fn(Seq) -> Seq, bytes: u32| {
            let mut t = receiver(&[("da_delay_dupacks", "on")]);
            for _ in 0..200 {
                arrive(&mut t, Arrival::InOrder);
            }
            while arrive(&mut t, Arrival::InOrder) == 0 {}
            t.board.rx.window = window;
            let (seq, order) = (seq(t.board.rx.nxt), Arrival::Duplicate);
            let (gap, fin, ce) = (0, false, false);
            t.signal(Signal::Arrived(Arrived {
                seq,
                bytes,
                gap,
                order,
                fin,
                ce,
            }));
            leave(&mut t)
        };
        assert_eq!(ask(60_000, |nxt| nxt.minus(1), 1), 1, "a keep-alive");
        assert_eq!(
            ask(60_000, |nxt| nxt.minus(MSS), MSS),
            1,
            "all of it came before"
        );
        assert_eq!(ask(0, |nxt| nxt, 1), 1, "a shut window");
        assert_eq!(
            ask(60_000, |nxt| nxt.plus(MSS), MSS),
            0,
            "twice beyond a hole"
        );
    }

    //= spec#5
    #[test]
    fn the_timer_runs_from_the_first_segment_withheld() {
        for (set, ms) in [
            (&[][..], 100),
            (&[("da_timeout", "40ms")], 40),
            (&[("da_profile", "da-rfc")], 200),
        ] {
            let mut t = receiver(set);
            for _ in 0..100 {
                arrive(&mut t, Arrival::InOrder);
                if t.due(0) == Time::NEVER {
                    continue;
                }
                break;
            }
            let due = t.due(0);
            assert_eq!(due, Time(ms * 1_000_000), "{set:?}");
            t.advance(Time(ms * 1_000_000 - 1));
            // A later one does not move it.
            if set.is_empty() {
                assert_eq!(leave(&mut t), 0);
            }
            t.advance(due);
            assert_eq!((leave(&mut t), t.due(0)), (1, Time::NEVER), "{set:?}");
        }
        let mut t = receiver(&[("da_l1", "0"), ("da_l2", "0"), ("da_l3", "0")]);
        arrive(&mut t, Arrival::InOrder);
        t.advance(Time(60_000_000));
        assert_eq!(arrive(&mut t, Arrival::InOrder), 0);
        assert_eq!(t.due(0), Time(100_000_000));
    }

    #[test]
    fn what_acknowledges_for_another_reason_settles_what_is_withheld() {
        let mut t = receiver(&[("da_l1", "0"), ("da_l2", "0"), ("da_l3", "0")]);
        let acks = |t: &mut Bench, n: usize| {
            let all = (0..n).map(|_| arrive(t, Arrival::InOrder));
            all.collect::<Vec<usize>>()
        };
        assert_eq!(acks(&mut t, 3), [0, 0, 0]);
        t.signal(Signal::Sent(wifu_engine::signal::Sent {
            kind: Kind::New,
            reason: wifu_engine::Reason::First,
            acks: true,
            seq: Seq(1),
            bytes: 5,
            late: Span::ZERO,
        }));
        assert_eq!(t.due(0), Time::NEVER);
        assert_eq!(acks(&mut t, 4), [0, 0, 0, 1]);
        // A window update counts as well.
        assert_eq!(acks(&mut t, 3), [0, 0, 0]);
        t.signal(Signal::AckNow);
        assert_eq!(leave(&mut t), 1);
        assert_eq!(acks(&mut t, 4), [0, 0, 0, 1]);
    }

    #[test]
    fn thresholds_counts_and_a_retransmission() {
        let mut t = receiver(&[
            ("da_profile", "da-code"),
            ("da_d4", "8"),
            ("da_l3", "200000"),
        ]);
        let mut acks =
            |n: usize| -> usize { (0..n).map(|_| arrive(&mut t, Arrival::InOrder)).sum() };
        assert_eq!((acks(7), acks(132), acks(80)), (7, 44, 10));
        let profile = Profile::named("da-wifu");
        let ats = [0, 999, 1000, 9999, 10_000, 99_999, 100_000];
        let counts = ats.map(|at| profile.count(at, MSS));
        assert_eq!(counts, [1, 1, 2, 2, 3, 3, 4]);
    }
}
