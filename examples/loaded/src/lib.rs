//! A judge for links that lose frames by themselves, a protocol with it, and an ACK policy.
#![forbid(unsafe_code)]

mod hop_acks;

use wifu_engine::signal::{Cause, Congested};
use wifu_engine::{Board, Component, Cx, Descriptor, Facts, Library, ParamSpec, Role, Signal};
use wifu_node::Registry;
use wifu_wire::Span;

wifu_node::export!(register);

/// What there is, with what this crate adds to it.
fn register(registry: Registry) -> Registry {
    let mine = Library::parse(include_str!("mine.toml")).expect("a test holds that it parses");
    registry.with_parts(PARTS).with_library(mine)
}

static PARTS: &[&Descriptor] = &[&LATE_LOSS, &hop_acks::HOP_ACKS];

/// Hears `lost` and `rtt`, says `congested`. A loss is the link's where no queue stands: one of the
/// last round trips was about as short as any. A timeout and a mark always count.
static LATE_LOSS: Descriptor = Descriptor {
    name: "late-loss",
    role: Role::Judge,
    doc: "Takes a loss for congestion only if the last round trips of data are longer than the \
          shortest.",
    cites: &["an example of the book's, of no paper"],
    params: &[ParamSpec::real(
        "factor",
        1.5,
        1.0,
        100.0,
        "So many times the shortest round trip of data is late.",
    )],
    probes: &["spared"],
    reads: Facts::TX,
    hears: &[("lost", &["congested"]), ("rtt", &[])],
    build: |params| {
        Ok(Box::new(LateLoss {
            factor: params.real("factor"),
            shortest: None,
            last: [Span::ZERO; 8],
            count: 0,
            spared: 0,
        }))
    },
    ..Descriptor::EMPTY
};

struct LateLoss {
    factor: f64,
    /// Round trip of data. `board.rtt.min` has the SYN's, too, which is a short packet: over radios
    /// data take several times as long also where nothing waits.
    shortest: Option<Span>,
    /// The last ones: over radios one differs much from the next.
    last: [Span; 8],
    count: usize,
    /// Losses that the window did not hear of.
    spared: u64,
}

impl LateLoss {
    fn timed(&mut self, rtt: Span, board: &Board) {
        let only_syn = board.tx.una == board.tx.iss.plus(1);
        if !only_syn {
            self.shortest = Some(self.shortest.map_or(rtt, |least| least.min(rtt)));
            self.last[self.count % self.last.len()] = rtt;
            self.count += 1;
        }
    }

    fn late(&self) -> bool {
        let last = &self.last[..self.count.min(self.last.len())];
        match (self.shortest, last.iter().min()) {
            (Some(least), Some(now)) => now.as_secs_f64() >= self.factor * least.as_secs_f64(),
            _ => true,
        }
    }
}

impl Component for LateLoss {
    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        let lost = match signal {
            Signal::Rtt(sample) => return self.timed(sample.rtt, &cx.board),
            Signal::Lost(lost) => lost,
            _ => return,
        };
        let always = matches!(lost.cause, Cause::Timeout | Cause::Mark);
        if !lost.new_episode && !always {
            return;
        }
        if !always && !self.late() {
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
    use wifu_engine::signal::{Lost, RttSample};
    use wifu_testkit::conform::{described, edges_build, hooked};

    #[test]
    fn the_parts_are_what_they_say() {
        for part in PARTS {
            let faults = [described(part), hooked(part), edges_build(part)].concat();
            assert!(faults.is_empty(), "{faults:#?}");
        }
    }

    /// The handshake took 5 ms, data take 80 ms at least: what counts as late is told by data.
    #[test]
    fn a_loss_counts_where_round_trips_of_data_are_late() {
        for (now_ms, counts) in [(80, false), (119, false), (120, true)] {
            let mut bench = Bench::new(&LATE_LOSS, &[]).unwrap();
            bench.board.tx.una = bench.board.tx.iss.plus(1);
            for ms in [5, 80].into_iter().chain([now_ms; 8]) {
                bench.signal(Signal::Rtt(RttSample {
                    rtt: Span::MILLI * ms,
                    data_bytes: 1500,
                    ack_bytes: 52,
                }));
                bench.board.tx.una = bench.board.tx.una.plus(1448);
            }
            let said = bench.signal(Signal::Lost(Lost {
                bytes: 1000,
                flight: 20_000,
                cause: Cause::DupAcks,
                new_episode: true,
                repeat: false,
            }));
            assert_eq!(said.len() == 1, counts, "{now_ms}");
            let spared = if counts { 0.0 } else { 1.0 };
            assert_eq!(bench.probe("spared"), Some(spared));
        }
    }
}
