//! A small segment waits while anything is unacknowledged.
//!
//! Hears nothing, says nothing; gates `New` with [`Limit::Nagle`]. Sources: RFC 896, RFC 9293
//! 3.7.4. Data that the end of the stream follows does not wait: no more will come to join it.
//! Off unless asked for; the switch may change at run time (`TCP_NODELAY`).

use wifu_engine::{
    Board, Component, Descriptor, Facts, Kind, Limit, ParamSpec, Permit, Role, Value, Want,
};
use wifu_wire::Time;

/// Small segments wait for acknowledgements.
pub static NAGLE: Descriptor = Descriptor {
    name: "nagle",
    role: Role::Gate,
    doc: "A segment smaller than the MSS waits while anything is unacknowledged.",
    cites: &["RFC 896", "RFC 9293 3.7.4"],
    params: &[ParamSpec::flag(
        "nagle",
        false,
        "Small segments wait; may change at run time.",
    )],
    reads: Facts::CONN.with(Facts::TX),
    hooks: &["permit"],
    build: |params| {
        Ok(Box::new(Nagle {
            on: params.flag("nagle"),
        }))
    },
    ..Descriptor::EMPTY
};

struct Nagle {
    on: bool,
}

impl Component for Nagle {
    fn permit(&self, want: &Want, board: &Board, _now: Time) -> Permit {
        let small = want.kind == Kind::New && want.bytes < board.conn.mss;
        let unacked = board.tx.una != board.tx.max;
        if self.on && small && unacked && !board.app.fin {
            Permit::shut(Limit::Nagle)
        } else {
            Permit::OPEN
        }
    }

    fn set(&mut self, param: &str, value: Value) -> bool {
        match (param, value) {
            ("nagle", Value::Flag(on)) => {
                self.on = on;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::Bench;
    use wifu_wire::Seq;

    #[test]
    fn only_small_new_data_with_something_unacknowledged_waits() {
        // (bytes, kind, in flight, end of stream follows, waits)
        let cases = [
            (999, Kind::New, 1, false, true),
            (1000, Kind::New, 1, false, false),
            (999, Kind::New, 0, false, false),
            (999, Kind::Resend, 1, false, false),
            (999, Kind::New, 1, true, false),
            (1, Kind::New, 1, true, false),
        ];
        let mut t = Bench::new(&NAGLE, &[]).unwrap();
        t.board.conn.mss = 1000;
        for on in [true, false] {
            assert!(t.set("nagle", Value::Flag(on)));
            for (bytes, kind, flight, fin, waits) in cases {
                (t.board.tx.una, t.board.tx.max) = (Seq(0), Seq(flight));
                t.board.app.fin = fin;
                let want = Want {
                    kind,
                    bytes,
                    least: 1,
                };
                let refused = t.permit(&want).refuses(&want, t.now);
                let expected = (on && waits).then_some((Limit::Nagle, Time::NEVER));
                assert_eq!(refused, expected, "{want:?} {flight} {fin}");
            }
        }
    }
}
