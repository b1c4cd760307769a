//! A limit of what is in flight by the hops of the path: about a quarter of them, in segments.
//!
//! Hears nothing, says nothing; gates data in turn by `limit - pipe`, with a limit of its own.
//! Sources: Z. Fu, P. Zerfos, H. Luo, S. Lu, L. Zhang and M. Gerla, "The impact of multihop
//! wireless channel on TCP throughput and loss", INFOCOM 2003: on a chain of h hops of 802.11 every
//! fourth hop can send at a time, so that h/4 segments in flight carry most, and TCP's window grows
//! far beyond; K. Chen, Y. Xue and K. Nahrstedt, "On setting TCP's congestion window limit in
//! mobile ad hoc networks", ICC 2003: the limit follows the hops of the path, a fifth of those
//! there and back (`window_share=0.4`).
//!
//! The hops are those of the routing table, or else what `ttl-hops` counts on what arrives. Until
//! one of them says, there is no limit; where neither could, the gate is refused. Ours: part of a
//! segment is rounded up, and below eight hops two segments are allowed, so that a delayed
//! acknowledgement stalls nothing. The congestion window is the window's own and the smaller one
//! counts, as with ns-2's `window_`; with `cwv` it stops at twice what the limit lets out.

use wifu_engine::{
    Board, Component, Descriptor, Fact, Facts, Limit, ParamSpec, Permit, Role, Value, Want,
};
use wifu_wire::Time;

/// At most so much in flight as the hops of the path carry.
pub static HOP_WINDOW: Descriptor = Descriptor {
    name: "hop-window",
    role: Role::Gate,
    doc: "Keeps what is in flight below a share of the path's hops, in segments; no limit until the \
          hops are known (by the routing table, or by ttl-hops).",
    cites: &[
        "Fu, Zerfos, Luo, Lu, Zhang and Gerla, INFOCOM 2003",
        "Chen, Xue and Nahrstedt, ICC 2003",
    ],
    params: &[
        ParamSpec::real(
            "window_share",
            0.25,
            0.01,
            16.0,
            "Segments in flight per hop (Fu et al.: 0.25; Chen et al.: 0.4).",
        ),
        ParamSpec::int(
            "window_least",
            2,
            1,
            1000,
            "Segments that are allowed in any case.",
        ),
    ],
    reads: Facts::CONN.with(Facts::TX),
    wants: Facts::PATH,
    requires_either: &[(Fact::RouteHops, Facts::PATH)],
    hooks: &["permit"],
    build: |params| {
        Ok(Box::new(HopWindow {
            share: params.real("window_share"),
            least: params.int("window_least") as u32,
        }))
    },
    ..Descriptor::EMPTY
};

struct HopWindow {
    share: f64,
    least: u32,
}

impl HopWindow {
    /// Segments that may be in flight; `None` while the hops are not known.
    fn segments(&self, board: &Board) -> Option<u32> {
        let hops = board.site.route_hops.or(board.path.hops)?;
        // A share that is no binary fraction (0.4 of 5 hops) is not one more segment.
        let share = f64::from(hops.get()) * self.share;
        let whole = share as u32;
        let more = share - f64::from(whole) > 1e-9;
        Some((whole + u32::from(more)).max(self.least))
    }
}

impl Component for HopWindow {
    fn permit(&self, want: &Want, board: &Board, _now: Time) -> Permit {
        let Some(segments) = self.segments(board).filter(|_| want.kind.in_turn()) else {
            return Permit::OPEN;
        };
        let limit = segments.saturating_mul(board.conn.mss);
        Permit::upto(limit.saturating_sub(board.tx.pipe), Limit::Custom(0))
    }

    fn set(&mut self, param: &str, value: Value) -> bool {
        match (param, value) {
            ("window_share", Value::Real(share)) => self.share = share,
            ("window_least", Value::Int(n)) => self.least = n as u32,
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroU8;
    use wifu_engine::{Bench, Kind};

    const MSS: u32 = 1000;

    /// Octets that may leave beside so many in the network.
    fn room(t: &mut Bench, route: u8, ttl: u8, pipe: u32, kind: Kind) -> Option<u32> {
        t.board.conn.mss = MSS;
        t.board.site.route_hops = NonZeroU8::new(route);
        t.board.path.hops = NonZeroU8::new(ttl);
        t.board.tx.pipe = pipe;
        let (bytes, least) = (100 * MSS, MSS);
        let permit = t.permit(&Want { kind, bytes, least });
        if permit.bytes < MSS {
            let refused = permit.refuses(&Want { kind, bytes, least }, t.now);
            assert_eq!(refused, Some((Limit::Custom(0), Time::NEVER)));
        }
        (permit != Permit::OPEN).then_some(permit.bytes)
    }

    #[test]
    fn a_quarter_of_the_hops_rounded_up_and_two_at_least() {
        let mut t = Bench::new(&HOP_WINDOW, &[]).unwrap();
        for (hops, segments) in [(1, 2), (4, 2), (8, 2), (9, 3), (12, 3), (13, 4), (255, 64)] {
            let allowed = room(&mut t, hops, 0, 0, Kind::New);
            assert_eq!(allowed, Some(segments * MSS), "{hops} hops");
        }
        // Chen et al.: a fifth of the hops there and back.
        assert!(t.set("window_share", Value::Real(0.4)));
        for (hops, segments) in [(1, 2), (5, 2), (6, 3), (10, 4), (15, 6)] {
            assert_eq!(room(&mut t, hops, 0, 0, Kind::New), Some(segments * MSS));
        }
        assert!(t.set("window_least", Value::Int(5)));
        assert_eq!(room(&mut t, 3, 0, 0, Kind::New), Some(5 * MSS));
    }

    #[test]
    fn the_routing_table_counts_before_what_arrives_and_without_either_nothing_is_limited() {
        let mut t = Bench::new(&HOP_WINDOW, &[]).unwrap();
        assert_eq!(room(&mut t, 0, 0, 50_000, Kind::New), None);
        assert_eq!(room(&mut t, 0, 12, 1000, Kind::New), Some(2000));
        assert_eq!(room(&mut t, 16, 12, 1000, Kind::New), Some(3000));
    }

    #[test]
    fn data_in_turn_waits_and_what_a_recovery_turns_on_does_not() {
        let mut t = Bench::new(&HOP_WINDOW, &[]).unwrap();
        for (kind, allowed) in [
            (Kind::New, Some(500)),
            (Kind::Resend, Some(500)),
            (Kind::Rescue, None),
            (Kind::Probe, None),
            (Kind::Ack, None),
        ] {
            assert_eq!(room(&mut t, 8, 0, 1500, kind), allowed, "{kind:?}");
        }
        assert_eq!(room(&mut t, 8, 0, 9000, Kind::New), Some(0));
    }
}
