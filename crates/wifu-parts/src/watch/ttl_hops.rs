//! Counts the hops of the path from the TTL of arriving segments.
//!
//! Reads every segment that the parts before it admitted; says nothing; writes `path`. Source: the
//! WiFu implementation, whose hosts send with TTL 65, so that the count is 65 - TTL + 1: 1 for a
//! neighbour whose packet no router touched. A TTL above that is of a host that starts elsewhere
//! and teaches nothing.

use core::num::NonZeroU8;
use wifu_engine::board::PathFacts;
use wifu_engine::{Admit, Component, Cx, Descriptor, Facts, ParamSpec, Role, Segment};

/// Hops from TTL.
pub static TTL_HOPS: Descriptor = Descriptor {
    name: "ttl-hops",
    role: Role::Watch,
    doc: "Hops to the peer: first_ttl - received TTL + 1.",
    cites: &["WiFu Transport (first_ttl 65)"],
    params: &[ParamSpec::int(
        "first_ttl",
        65,
        1,
        255,
        "TTL with which the peer sends (WiFu: 65).",
    )],
    writes: Facts::PATH,
    hooks: &["segment"],
    build: |params| {
        Ok(Box::new(TtlHops {
            first: params.int("first_ttl") as u8,
        }))
    },
    ..Descriptor::EMPTY
};

struct TtlHops {
    first: u8,
}

impl Component for TtlHops {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let ttl = seg.head.ttl;
        if ttl > 0 && ttl <= self.first {
            let hops = NonZeroU8::new((self.first - ttl).saturating_add(1));
            cx.write(|path: &mut PathFacts| path.hops = hops);
        }
        Admit::Pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::Bench;
    use wifu_wire::Head;

    #[test]
    fn hops_follow_from_the_ttl() {
        let mut t = Bench::new(&TTL_HOPS, &[]).unwrap();
        let mut head = Head::default();
        for (ttl, hops) in [(65, 1), (64, 2), (57, 9), (255, 9), (0, 9)] {
            head.ttl = ttl;
            let (admit, said) = t.segment(&head, &[]);
            assert_eq!((admit, said.len()), (Admit::Pass, 0));
            assert_eq!(t.board.path.hops, NonZeroU8::new(hops), "{ttl}");
        }
    }
}
