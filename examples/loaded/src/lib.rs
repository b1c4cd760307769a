//! A judge for links that lose frames by themselves, a protocol with it, and an ACK policy.
#![forbid(unsafe_code)]

mod hop_acks;

use wifu_engine::signal::{Cause, Congested};
use wifu_engine::{Board, Component, Cx, Descriptor, Facts, Library, ParamSpec, Role, Signal};
use wifu_node::Registry;

wifu_node::export!(register);

/// What there is, with what this crate adds to it.
fn register(registry: Registry) -> Registry {
    let mine = Library::parse(include_str!("mine.toml")).expect("a test holds that it parses");
    registry.with_parts(PARTS).with_library(mine)
}

static PARTS: &[&Descriptor] = &[&LATE_LOSS, &hop_acks::HOP_ACKS];

/// Hears `lost`, says `congested`. A loss without a queue is the link's: round trips are no longer
/// than the shortest. A timeout and a mark always count.
static LATE_LOSS: Descriptor = Descriptor {
    name: "late-loss",
    role: Role::Judge,
    doc: "Takes a loss for congestion only if round trips are longer than the shortest.",
    cites: &["an example of the book's, of no paper"],
    params: &[ParamSpec::real(
        "factor",
        1.5,
        1.0,
        100.0,
        "So many times the shortest round trip is late.",
    )],
    probes: &["spared"],
    reads: Facts::RTT,
    hears: &[("lost", &["congested"])],
    build: |params| {
        let factor = params.real("factor");
        Ok(Box::new(LateLoss { factor, spared: 0 }))
    },
    ..Descriptor::EMPTY
};

struct LateLoss {
    factor: f64,
    /// Losses that the window did not hear of.
    spared: u64,
}

impl LateLoss {
    fn late(&self, board: &Board) -> bool {
        let (shortest, now) = (board.rtt.min.as_secs_f64(), board.rtt.srtt.as_secs_f64());
        board.rtt.samples == 0 || now >= self.factor * shortest
    }
}

impl Component for LateLoss {
    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        let Signal::Lost(lost) = signal else { return };
        let always = matches!(lost.cause, Cause::Timeout | Cause::Mark);
        if !lost.new_episode && !always {
            return;
        }
        if !always && !self.late(&cx.board) {
            self.spared += 1;
            return;
        }
        cx.out.emit(Signal::Congested(Congested {
            flight: lost.flight,
            cause: lost.cause,
            repeat: lost.repeat,
        }));
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("spared", self.spared as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::Bench;
    use wifu_engine::signal::Lost;
    use wifu_testkit::conform::{described, edges_build, hooked};
    use wifu_wire::Span;

    #[test]
    fn the_parts_are_what_they_say() {
        for part in PARTS {
            let faults = [described(part), hooked(part), edges_build(part)].concat();
            assert!(faults.is_empty(), "{faults:#?}");
        }
    }

    #[test]
    fn a_loss_counts_where_round_trips_are_late() {
        for (srtt_ms, counts) in [(80, false), (119, false), (120, true)] {
            let mut bench = Bench::new(&LATE_LOSS, &[]).unwrap();
            bench.board.rtt.samples = 1;
            bench.board.rtt.min = Span::MILLI * 80;
            bench.board.rtt.srtt = Span::MILLI * srtt_ms;
            let said = bench.signal(Signal::Lost(Lost {
                bytes: 1000,
                flight: 20_000,
                cause: Cause::DupAcks,
                new_episode: true,
                repeat: false,
            }));
            assert_eq!(said.len() == 1, counts, "{srtt_ms}");
            let spared = if counts { 0.0 } else { 1.0 };
            assert_eq!(bench.probe("spared"), Some(spared));
        }
    }
}
