//! A judge for paths that lose packets by themselves: a loss is congestion only if packets are
//! queued in the path.
//!
//! Hears `lost`, says `congested`. Source: C. P. Fu and S. C. Liew, "TCP Veno: TCP enhancement for
//! transmission over wireless access networks", IEEE JSAC 21(2), 2003, which takes from TCP Vegas
//! that cwnd * (1 - rtt_min / srtt) is queued and holds a loss for random below three segments.
//! Differences: a random loss leaves the window alone (Veno takes a fifth) and growth is the
//! window's own. Without a round-trip time every loss is congestion; a timeout always is.

use wifu_engine::signal::{Cause, Congested};
use wifu_engine::{Board, Component, Cx, Descriptor, Facts, ParamSpec, Role, Signal, Value};

/// A loss with little queued is no congestion.
pub static BACKLOG: Descriptor = Descriptor {
    name: "backlog",
    role: Role::Judge,
    doc: "Takes a loss for congestion only if at least backlog segments are queued in the path; \
          every timeout is congestion.",
    cites: &["Fu and Liew, TCP Veno, IEEE JSAC 21(2), 2003"],
    params: &[ParamSpec::real(
        "backlog",
        3.0,
        0.0,
        1000.0,
        "Segments queued in the path from which on a loss is congestion (TCP Veno: 3).",
    )],
    probes: &["random_losses"],
    reads: Facts::CONN.with(Facts::RTT).with(Facts::WIN),
    hears: &[("lost", &["congested"])],
    build: |params| {
        Ok(Box::new(Backlog {
            limit: params.real("backlog"),
            random: 0,
        }))
    },
    ..Descriptor::EMPTY
};

struct Backlog {
    limit: f64,
    /// Losses that were held for random.
    random: u64,
}

/// Segments queued in the path; `None` without a round-trip time.
fn queued(board: &Board) -> Option<f64> {
    let (min, srtt) = (board.rtt.min.as_secs_f64(), board.rtt.srtt.as_secs_f64());
    let segments = f64::from(board.win.cwnd) / f64::from(board.conn.mss.max(1));
    (board.rtt.samples > 0 && srtt > 0.0).then(|| segments * (1.0 - min / srtt))
}

impl Component for Backlog {
    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        let Signal::Lost(l) = signal else { return };
        let timeout = l.cause == Cause::Timeout;
        let marked = l.cause == Cause::Mark;
        if !l.new_episode && !timeout {
            return;
        }
        if !timeout && !marked && queued(&cx.board).is_some_and(|n| n < self.limit) {
            self.random += 1;
            return;
        }
        cx.out.emit(Signal::Congested(Congested {
            flight: l.flight,
            cause: l.cause,
            repeat: l.repeat,
        }));
    }

    fn set(&mut self, param: &str, value: Value) -> bool {
        match (param, value) {
            ("backlog", Value::Real(limit)) => {
                self.limit = limit;
                true
            }
            _ => false,
        }
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("random_losses", self.random as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::Bench;
    use wifu_engine::signal::Lost;
    use wifu_wire::Span;

    #[test]
    fn a_loss_is_congestion_if_enough_is_queued() {
        // 20 segments: 20 * (1 - 80 / srtt) are queued.
        let cases = [
            (80, Cause::DupAcks, false),
            (94, Cause::DupAcks, false),
            (95, Cause::DupAcks, true),
            (80, Cause::Timeout, true),
            (0, Cause::DupAcks, true),
        ];
        for (srtt_ms, cause, congestion) in cases {
            let mut t = Bench::new(&BACKLOG, &[]).unwrap();
            (t.board.conn.mss, t.board.win.cwnd) = (1000, 20_000);
            t.board.rtt.samples = u32::from(srtt_ms > 0);
            t.board.rtt.srtt = Span::MILLI * srtt_ms;
            t.board.rtt.min = Span::MILLI * 80;
            let said = t.signal(Signal::Lost(Lost {
                bytes: 1000,
                flight: 20_000,
                cause,
                new_episode: true,
                repeat: false,
            }));
            assert_eq!(said.len() == 1, congestion, "{srtt_ms} {cause:?}");
            assert_eq!(
                t.probe("random_losses"),
                Some(f64::from(u8::from(!congestion)))
            );
        }
    }
}
