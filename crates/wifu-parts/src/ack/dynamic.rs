//! Delayed acknowledgements that become rarer as the stream goes on: one for `d` segments in
//! order, `d` growing with the offset of the segment in the stream.
//!
//! Hears `arrived`, `ack-now`, `sent` and `ended`; says nothing; offers `Urgent` for disorder and
//! `Ack` otherwise. Source: E. Altman and T. Jimenez, "Novel delayed ACK techniques for improving
//! TCP performance in multihop wireless networks", PWC 2003, in the forms of `da_profile`. A
//! segment retransmitted has a small offset, so it is acknowledged soon; the sender is unchanged.
//! For batches see `every`.

use wifu_engine::kit::{AckRule, Acking, Held};
use wifu_engine::signal::Arrived;
use wifu_engine::{Arrival, Board, Descriptor, Facts, FieldUse, Kind, ParamSpec, Role};
use wifu_wire::{HeadField, Span};

/// One acknowledgement per d segments, d growing.
pub static DYNAMIC: Descriptor = Descriptor {
    name: "dynamic",
    role: Role::Ack,
    doc: "One acknowledgement per d segments in order, d growing from 1 to 4 with the offset in \
          the stream; at once on disorder and at the end.",
    cites: &["Altman and Jimenez, PWC 2003", "RFC 5681 4.2"],
    params: &[
        ParamSpec::text(
            "da_profile",
            "da-wifu",
            &["da-wifu", "da-code", "da-altman", "da-rfc"],
            "Offsets at which d grows: da-wifu 1, 10 and 100 kB (d 1 2 3 4); da-code 10 kB, \
             100 kB and 1 MB (d 1 3 3 4); da-altman 2, 5 and 9 segments (d 1 2 3 4), all after \
             0.1 s at the latest; da-rfc always 2, after 0.2 s.",
        ),
        ParamSpec::flag(
            "da_reset",
            false,
            "After disorder the next ten segments are acknowledged one by one.",
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
            profile: Profile::named(params.text("da_profile")),
            reset: params.flag("da_reset"),
            singly: 0,
        };
        Ok(Box::new(Acking::new(rule, params.int("stretch") as u32)))
    },
    ..Descriptor::EMPTY
};

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
}

struct Dynamic {
    profile: Profile,
    reset: bool,
    /// Segments still to be acknowledged one by one after disorder.
    singly: u32,
}

impl AckRule for Dynamic {
    fn enough(&mut self, held: Held, arrived: &Arrived, board: &Board) -> bool {
        if self.singly > 0 {
            self.singly -= 1;
            return true;
        }
        let p = &self.profile;
        let unit = if p.in_segments { board.conn.mss } else { 1 };
        let offset = arrived.seq.since(board.rx.irs.plus(1));
        let passed = p.limits.iter().filter(|l| offset >= **l * unit).count();
        held.segments >= p.counts[passed]
    }

    fn disorder(&mut self, _order: Arrival) {
        if self.reset {
            self.singly = 10; // Behaviour 5, da_reset
        }
    }

    fn patience(&self) -> Span {
        self.profile.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::{Bench, Signal};
    use wifu_wire::{Head, Seq, Time};

    const MSS: u32 = 1448;

    fn receiver(set: &[(&str, &str)]) -> Bench {
        let mut t = Bench::new(&DYNAMIC, set).unwrap();
        t.board.conn.mss = MSS;
        (t.board.rx.irs, t.board.rx.nxt) = (Seq(u32::MAX - 5000), Seq(u32::MAX - 4999));
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
}
