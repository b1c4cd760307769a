//! One acknowledgement for every so many segments' worth of octets in order, at once for anything
//! else.
//!
//! Hears `arrived`, `ack-now`, `sent` and `ended`; says nothing; offers `Urgent` for disorder,
//! which data does not cancel, and `Ack` otherwise, which any segment that acknowledges does.
//! Sources: RFC 9293 3.8.6.3, RFC 5681 4.2. `quickack` is the kernel's habit of acknowledging the
//! first segments of a connection one by one.
//!
//! A full-sized segment is as large as the largest that came, at least 536 octets and at most what
//! we announced to take, so that a peer whose path carries less than we take is acknowledged as
//! often (RFC 5681 4.2). The last of so many need not be full: its first octet tells of it, as in
//! the kernel.
//!
//! A driver that hands in several segments before it polls finds several acknowledgements owed;
//! each carries the number that it would have carried at its own time (this part lowers the
//! acknowledgement number in segments that it offered itself), lest the sender count duplicates.
//! With `stretch` above 1 so many of them leave as one, as they do from a kernel that coalesces
//! received segments. A sender in slow start counts at most eight segments per acknowledgement (RFC
//! 9406 4.3): an acknowledgement for a whole batch would let it grow by eight per round trip.

use wifu_engine::kit::{AckRule, Acking, Held};
use wifu_engine::signal::Arrived;
use wifu_engine::{Arrival, Board, Descriptor, Facts, FieldUse, Kind, ParamSpec, Role, Value};
use wifu_wire::{HeadField, Span, Time};

/// One acknowledgement per `ack_every` segments.
pub static EVERY: Descriptor = Descriptor {
    name: "every",
    role: Role::Ack,
    doc: "One acknowledgement per ack_every full-sized segments in order, at the latest ack_delay \
          after the first bytes; at once on disorder and at the end.",
    cites: &["RFC 9293 3.8.6.3", "RFC 5681 4.2", "RFC 8257 3.2"],
    params: &[
        ParamSpec::int(
            "ack_every",
            1,
            1,
            64,
            "Full-sized segments per acknowledgement (RFC 5681 4.2 allows 2): it leaves with the \
             first byte beyond so many less one; 1: with each segment.",
        ),
        ParamSpec::span(
            "ack_delay",
            Span(200_000_000),
            Span::MILLI,
            Span(500_000_000),
            "Longest wait for the others (RFC 9293 3.8.6.3: less than 0.5 s).",
        ),
        ParamSpec::int(
            "quickack",
            0,
            0,
            1_000,
            "So many segments at the start of the connection are acknowledged one by one.",
        ),
        ParamSpec::flag(
            "quickack_again",
            false,
            "As many again, at most 16 and half the window, after a pause longer than our own timeout \
             and after what came twice; acknowledgements of disorder count to them (Linux, \
             tcp_event_data_recv, tcp_enter_quickack_mode, tcp_dec_quickack_mode).",
        ),
        ParamSpec::int(
            "stretch",
            1,
            1,
            64,
            "So many acknowledgements that a received batch owes may leave as one.",
        ),
        ParamSpec::flag(
            "exact_echo",
            false,
            "Each acknowledgement says whether what it acknowledges was marked (RFC 8257 3.2); \
             needs ecn_echo=ack.",
        ),
    ],
    reads: Facts::RX,
    wants: Facts::CONN.with(Facts::RTT),
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
        FieldUse::of(HeadField::ECE).unless("exact_echo", "off"),
    ],
    build: |params| {
        let rule = Every {
            every: params.int("ack_every") as u32,
            delay: params.span("ack_delay"),
            quick: params.int("quickack"),
            again: params.flag("quickack_again"),
            last: None,
            twice: false,
            spent: 0,
            largest: 0,
        };
        let acking = Acking::new(rule, params.int("stretch") as u32);
        Ok(Box::new(acking.exact(params.flag("exact_echo"))))
    },
    ..Descriptor::EMPTY
};

struct Every {
    every: u32,
    delay: Span,
    /// Segments still to be acknowledged one by one.
    quick: u64,
    /// By `quickack_again`.
    again: bool,
    /// When a segment last came in order, where that matters.
    last: Option<Time>,
    /// Something came twice since.
    twice: bool,
    /// Acknowledgements since that did.
    spent: u64,
    /// Payload of the largest segment so far, octets.
    largest: u32,
}

/// A full-sized segment carries at least so much, if nothing smaller was announced: the size of
/// segments that a peer without an MSS option takes (RFC 9293 3.7.1).
const LEAST_FULL: u32 = 536;

impl Every {
    /// After a pause or a repetition acknowledgements go one by one for a while.
    #[inline(never)]
    fn look_back(&mut self, board: &Board, now: Time) {
        let paused = self.last.is_some_and(|t| now - t > board.rtt.rto);
        if paused || self.twice {
            let half = u64::from(board.rx.window / (2 * self.largest.max(1)));
            let spent = if paused { 0 } else { self.spent };
            self.quick = self.quick.max(half.clamp(2, AGAIN).saturating_sub(spent));
        }
        (self.last, self.twice) = (Some(now), false);
    }
}

/// TCP_MAX_QUICKACKS.
const AGAIN: u64 = 16;

impl AckRule for Every {
    //= rfc9293#section-3.8.6.3
    fn enough(&mut self, held: Held, arrived: &Arrived, board: &Board) -> bool {
        self.largest = self.largest.max(arrived.bytes);
        if self.quick > 0 {
            self.quick -= 1;
            return true;
        }
        let rmss = match board.conn.rmss {
            0 => u32::MAX,
            rmss => rmss,
        };
        let full = self.largest.max(LEAST_FULL).min(rmss);
        self.every == 1 || held.octets > (self.every - 1) * full
    }

    fn disorder(&mut self, order: Arrival) {
        if !self.again {
            return;
        }
        if order == Arrival::Duplicate {
            (self.twice, self.spent) = (true, 0);
        }
        self.quick = self.quick.saturating_sub(1);
        self.spent += 1;
    }

    #[inline]
    fn follows(&mut self, board: &Board, now: Time) {
        if self.again {
            self.look_back(board, now);
        }
    }

    fn patience(&self) -> Span {
        self.delay
    }

    fn set(&mut self, param: &str, value: Value) -> bool {
        match (param, value) {
            ("ack_every", Value::Int(n)) => self.every = n as u32,
            ("ack_delay", Value::Span(s)) => self.delay = s,
            ("quickack", Value::Int(n)) => self.quick = n,
            ("quickack_again", Value::Flag(on)) => self.again = on,
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::{Bench, Signal};
    use wifu_wire::{Flags, Head, Seq};

    /// A receiver, and the right edges that its acknowledgements showed.
    struct Receiver(Bench, Vec<u32>);

    impl Receiver {
        fn new(set: &[(&str, &str)]) -> Receiver {
            let mut bench = Bench::new(&EVERY, set).unwrap();
            bench.board.conn.rcv_shift = 3;
            bench.board.conn.ecn = true;
            Receiver(bench, Vec::new())
        }

        fn arrive(&mut self, bytes: u32, order: Arrival, fin: bool) {
            self.arrive_marked(bytes, order, fin, false);
        }

        fn arrive_marked(&mut self, bytes: u32, order: Arrival, fin: bool, ce: bool) {
            let seq = self.0.board.rx.nxt;
            if matches!(order, Arrival::InOrder | Arrival::Fills) {
                self.0.board.rx.nxt = seq.plus(bytes + u32::from(fin));
            }
            self.0.signal(Signal::Arrived(Arrived {
                seq,
                bytes,
                gap: 0,
                order,
                fin,
                ce,
            }));
        }

        /// What the engine would send now: kind and acknowledgement number.
        fn acks(&mut self) -> Vec<(Kind, u32)> {
            self.echoes()
                .iter()
                .map(|(kind, ack, _)| (*kind, *ack))
                .collect()
        }

        /// The same, and whether it echoes a mark.
        fn echoes(&mut self) -> Vec<(Kind, u32, bool)> {
            let mut all = Vec::new();
            for kind in [Kind::Urgent, Kind::Ack] {
                while let Some(want) = self.0.offer(kind) {
                    let mut head = Head::default();
                    let rx = &mut self.0.board.rx;
                    rx.window = 64_000 - rx.nxt.0;
                    (head.ack, head.window) = (Some(rx.nxt), rx.window >> 3);
                    self.0.send(&want, &mut head);
                    let ack = head.ack.unwrap().0;
                    all.push((kind, ack, head.flags.has(Flags::ECE)));
                    self.1.push(ack + (head.window << 3));
                }
            }
            all
        }
    }

    #[test]
    fn every_segment_is_acknowledged_even_in_a_batch() {
        let mut r = Receiver::new(&[]);
        r.arrive(1000, Arrival::InOrder, false);
        assert_eq!(r.acks(), [(Kind::Ack, 1000)]);
        for _ in 0..3 {
            r.arrive(1000, Arrival::InOrder, false);
        }
        let expected = [(Kind::Ack, 2000), (Kind::Ack, 3000), (Kind::Ack, 4000)];
        assert_eq!(r.acks(), expected);
        assert_eq!(r.1, [64_000, 64_000, 64_000, 64_000]);
        let mut r = Receiver::new(&[("stretch", "3")]);
        for _ in 0..4 {
            r.arrive(1000, Arrival::InOrder, false);
        }
        assert_eq!(r.acks(), [(Kind::Ack, 3000), (Kind::Ack, 4000)]);
    }

    /// Linux: a sender that begins anew after its timeout is told of each segment.
    #[test]
    fn after_a_pause_or_a_repetition_segments_are_acknowledged_one_by_one_again() {
        let set = [
            ("ack_every", "2"),
            ("quickack", "1"),
            ("quickack_again", "on"),
        ];
        let counts = |set: &[(&str, &str)], pause: Span, twice: bool| {
            let mut r = Receiver::new(set);
            r.0.board.rtt.rto = Span::MILLI * 250;
            let mut come = |n: u32| {
                (0..n)
                    .map(|_| {
                        r.arrive(1000, Arrival::InOrder, false);
                        r.acks().len()
                    })
                    .sum::<usize>()
            };
            assert_eq!(come(5), 3);
            r.0.advance(Time::ZERO + pause);
            if twice {
                r.arrive(1000, Arrival::Duplicate, false);
            }
            r.acks();
            let mut come = |n: u32| {
                (0..n)
                    .map(|_| {
                        r.arrive(1000, Arrival::InOrder, false);
                        r.acks().len()
                    })
                    .sum::<usize>()
            };
            come(24)
        };
        let ms = |n: u64| Span::MILLI * n;
        assert_eq!(counts(&set, ms(240), false), 12);
        assert_eq!(
            counts(&set, ms(260), false),
            20,
            "sixteen, then every second"
        );
        assert_eq!(counts(&set, ms(240), true), 19, "its own is of the sixteen");
        assert_eq!(counts(&set[..2], ms(260), true), 12, "without it");
    }

    //= rfc8257#section-3.2
    #[test]
    fn no_acknowledgement_is_about_marked_and_unmarked_segments() {
        let set = [
            ("ack_every", "2"),
            ("exact_echo", "on"),
            ("ack_delay", "40ms"),
        ];
        let mut r = Receiver::new(&set);
        let mut come = |marks: &[bool]| {
            for ce in marks {
                r.arrive_marked(1000, Arrival::InOrder, false, *ce);
            }
            r.echoes()
        };
        assert_eq!(come(&[false, false]), [(Kind::Ack, 2000, false)]);
        // The first is acknowledged by itself as the second is marked, which is told at once.
        let turn = [(Kind::Urgent, 3000, false), (Kind::Ack, 4000, true)];
        assert_eq!(come(&[false, true]), turn);
        assert_eq!(come(&[true]), []);
        assert_eq!(come(&[true]), [(Kind::Ack, 6000, true)]);
        // Nothing is withheld.
        assert_eq!(come(&[false]), [(Kind::Ack, 7000, false)]);
        assert_eq!(come(&[false]), []);
        r.0.advance(Time(40_000_000));
        assert_eq!(r.echoes(), [(Kind::Ack, 8000, false)]);
        // In a batch, too, and where one would stand for several.
        let set = [("exact_echo", "on"), ("stretch", "8")];
        let mut r = Receiver::new(&set);
        for ce in [false, false, true, true, false] {
            r.arrive_marked(1000, Arrival::InOrder, false, ce);
        }
        let said = [(2000, false), (4000, true), (5000, false)];
        assert_eq!(r.echoes(), said.map(|(ack, ce)| (Kind::Ack, ack, ce)));
        // Without it nothing is said, nor where nobody agreed upon marks.
        for (set, agreed) in [(&[][..], true), (&set, false)] {
            let mut r = Receiver::new(set);
            r.0.board.conn.ecn = agreed;
            r.arrive_marked(1000, Arrival::InOrder, false, true);
            assert_eq!(r.echoes(), [(Kind::Ack, 1000, false)]);
        }
    }

    #[test]
    fn an_older_acknowledgement_shows_the_same_right_edge_by_the_scale_that_was_agreed() {
        let mut r = Receiver::new(&[]);
        r.arrive(1000, Arrival::InOrder, false);
        r.arrive(62_995, Arrival::InOrder, false);
        // The 5 octets that are left are none in units of 8; before, there were 63000.
        assert_eq!(r.acks(), [(Kind::Ack, 1000), (Kind::Ack, 63_995)]);
        assert_eq!(r.1, [64_000, 63_995]);
    }

    #[test]
    fn every_second_waits_for_the_timer_from_the_first_on() {
        let mut r = Receiver::new(&[("ack_every", "2"), ("ack_delay", "40ms")]);
        r.arrive(1000, Arrival::InOrder, false);
        assert_eq!(r.acks(), []);
        assert_eq!(r.0.due(0), Time(40_000_000));
        r.0.advance(Time(30_000_000));
        r.arrive(1000, Arrival::InOrder, false);
        assert_eq!(r.acks(), [(Kind::Ack, 2000)]);
        assert_eq!(r.0.due(0), Time::NEVER);
        r.arrive(1000, Arrival::InOrder, false);
        r.0.advance(Time(70_000_000));
        assert_eq!(r.acks(), [(Kind::Ack, 3000)]);
    }

    #[test]
    fn small_segments_share_an_acknowledgement_and_large_ones_need_none_to_join() {
        let owes = |set: &[(&str, &str)], rmss: u32, sizes: &[u32]| {
            let mut r = Receiver::new(set);
            r.0.board.conn.rmss = rmss;
            let one = |bytes: &u32| {
                r.arrive(*bytes, Arrival::InOrder, false);
                r.acks().len()
            };
            sizes.iter().map(one).collect::<Vec<_>>()
        };
        let two = [("ack_every", "2")];
        // 536 octets are a full-sized segment until a larger one came.
        assert_eq!(owes(&two, 1000, &[200, 200, 136, 1]), [0, 0, 0, 1]);
        assert_eq!(owes(&two, 1000, &[1000, 1, 500, 500, 1]), [0, 1, 0, 0, 1]);
        // As large as two that were announced (coalesced on the way), and where less was announced.
        assert_eq!(owes(&two, 1000, &[2000, 1001]), [1, 1]);
        assert_eq!(owes(&two, 100, &[100, 100, 100, 100]), [0, 1, 0, 1]);
        let four = [("ack_every", "4")];
        assert_eq!(owes(&four, 1000, &[1000, 1000, 1000, 1]), [0, 0, 0, 1]);
        assert_eq!(owes(&[], 1000, &[1, 1, 1]), [1, 1, 1]);
    }

    #[test]
    fn disorder_counts_once_per_segment_and_data_does_not_cancel_it() {
        let mut r = Receiver::new(&[("ack_every", "2")]);
        r.arrive(1000, Arrival::InOrder, false);
        r.arrive(1000, Arrival::Ahead, false);
        r.arrive(1000, Arrival::Ahead, false);
        r.arrive(3000, Arrival::Fills, false);
        let expected = [
            (Kind::Urgent, 1000),
            (Kind::Urgent, 1000),
            (Kind::Urgent, 4000),
        ];
        assert_eq!(r.acks(), expected);
    }

    #[test]
    fn data_that_acknowledges_settles_the_rest_and_the_end_is_acknowledged_at_once() {
        let mut r = Receiver::new(&[("ack_every", "2"), ("quickack", "1")]);
        r.arrive(1000, Arrival::InOrder, false);
        let data = wifu_engine::signal::Sent {
            kind: Kind::New,
            reason: wifu_engine::Reason::First,
            acks: true,
            seq: Seq(1),
            bytes: 5,
            late: Span::ZERO,
        };
        r.0.signal(Signal::Sent(data));
        assert_eq!(r.acks(), []);
        r.arrive(0, Arrival::InOrder, true);
        assert_eq!(r.acks(), [(Kind::Ack, 1001)]);
        r.0.signal(Signal::AckNow);
        r.0.signal(Signal::AckNow);
        assert_eq!(r.acks(), [(Kind::Ack, 1001)]);
    }

    /// Linux, tcp_dec_quickack_mode: acknowledgements of disorder are of the sixteen, too.
    #[test]
    fn acknowledgements_of_disorder_use_up_those_that_go_one_by_one() {
        let singly = |again: &str, disorder: u32| {
            let set = [
                ("ack_every", "2"),
                ("quickack", "8"),
                ("quickack_again", again),
            ];
            let mut r = Receiver::new(&set);
            r.0.board.rtt.rto = Span::SECOND;
            for _ in 0..disorder {
                r.arrive(1000, Arrival::Ahead, false);
                r.acks();
            }
            (0..20)
                .take_while(|_| {
                    r.arrive(1000, Arrival::InOrder, false);
                    r.acks().len() == 1
                })
                .count()
        };
        assert_eq!(
            (singly("on", 0), singly("on", 5), singly("on", 9)),
            (8, 3, 0)
        );
        assert_eq!(singly("off", 5), 8);
    }
}
