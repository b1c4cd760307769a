//! An ACK policy: the longer the way, the fewer acknowledgements compete with its data.

use wifu_engine::kit::{AckRule, Acking, Held};
use wifu_engine::signal::Arrived;
use wifu_engine::{Board, Descriptor, Fact, Facts, FieldUse, Kind, ParamSpec, Preference, Role};
use wifu_wire::{HeadField, Span};

/// What it hears, offers and fills in is what `Acking` needs, and the same for every rule.
pub static HOP_ACKS: Descriptor = Descriptor {
    name: "hop-acks",
    role: Role::Ack,
    doc: "One acknowledgement for as many segments as there are hops, but at most for `most`; for \
          2 where hops are not known.",
    cites: &["an example of the book's, of no paper", "RFC 5681 4.2"],
    params: &[
        ParamSpec::int("most", 4, 1, 64, "Most segments per acknowledgement."),
        ParamSpec::span(
            "patience",
            Span(100_000_000),
            Span::MILLI,
            Span(500_000_000),
            "Longest wait for the others (RFC 5681 4.2: at most 0.5 s).",
        ),
    ],
    reads: Facts::RX,
    wants: Facts::CONN.with(Facts::RTT),
    prefers: &[Preference {
        fact: Fact::RouteHops,
        param: None,
        then: "it acknowledges two segments at a time",
    }],
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
        let rule = HopAcks {
            most: params.int("most") as u32,
            patience: params.span("patience"),
        };
        Ok(Box::new(Acking::new(rule, 1)))
    },
    ..Descriptor::EMPTY
};

struct HopAcks {
    most: u32,
    patience: Span,
}

impl AckRule for HopAcks {
    fn enough(&mut self, held: Held, _arrived: &Arrived, board: &Board) -> bool {
        let hops = board.site.route_hops.map_or(2, |n| n.get().into());
        held.segments >= hops.min(self.most)
    }

    fn patience(&self) -> Span {
        self.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroU8;
    use wifu_engine::{Arrival, Bench, Signal};

    #[test]
    fn as_many_segments_as_hops_are_acknowledged_at_once() {
        for (hops, after) in [(None, 2), (NonZeroU8::new(3), 3), (NonZeroU8::new(9), 4)] {
            let mut bench = Bench::new(&HOP_ACKS, &[]).unwrap();
            bench.board.site.route_hops = hops;
            for n in 1..=after {
                let seq = bench.board.rx.nxt;
                bench.board.rx.nxt = seq.plus(1000);
                bench.signal(Signal::Arrived(Arrived {
                    seq,
                    bytes: 1000,
                    gap: 0,
                    order: Arrival::InOrder,
                    fin: false,
                    ce: false,
                }));
                assert_eq!(bench.offer(Kind::Ack).is_some(), n == after, "{hops:?} {n}");
            }
        }
    }
}
