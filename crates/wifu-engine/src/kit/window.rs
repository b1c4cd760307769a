//! The narrow tier: a window rule, and its lift to a component.

use crate::board::{Board, WinFacts};
use crate::component::{Component, Cx};
use crate::params::Value;
use crate::permit::{Limit, Permit, Want};
use crate::signal::{Acked, Congested, RttSample, Sent, Signal};
use wifu_wire::Time;

/// What most congestion work needs: two numbers and when they change. The descriptor's `hears`
/// lists the signal of each method that a window implements (`("rtt", &[])` for `on_rtt`).
#[allow(unused_variables)]
pub trait WindowControl: Send {
    /// cwnd and ssthresh, octets.
    fn window(&self) -> (u32, u32);
    /// The connection opened.
    fn on_opened(&mut self, board: &Board, now: Time);
    /// Data was acknowledged.
    fn on_acked(&mut self, acked: &Acked, board: &Board, now: Time);
    /// The judge says that the network is congested.
    fn on_congested(&mut self, what: &Congested, board: &Board, now: Time);
    /// A recovery episode ended with `flight` octets out.
    fn on_recovered(&mut self, flight: u32, board: &Board, now: Time) {
        board.defaulted.mark();
    }
    /// The last reduction was for nothing.
    fn on_undone(&mut self, board: &Board, now: Time) {
        board.defaulted.mark();
    }
    /// A round trip was timed.
    fn on_rtt(&mut self, sample: &RttSample, board: &Board, now: Time) {
        board.defaulted.mark();
    }
    /// The sender is about to send after a pause (`board.app.limited` says why it paused).
    fn on_wrote(&mut self, board: &Board, now: Time) {
        board.defaulted.mark();
    }
    /// A segment left.
    fn on_sent(&mut self, sent: &Sent, board: &Board, now: Time) {
        board.defaulted.mark();
    }
    /// A duplicate acknowledgement came: some segment reached the peer.
    fn on_dup_ack(&mut self, board: &Board, now: Time) {
        board.defaulted.mark();
    }
    /// A parameter changes at run time; false if it can't.
    fn set(&mut self, param: &str, value: Value) -> bool {
        false
    }
    /// Report internal quantities by declared name.
    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {}
}

/// Lifts a window rule to a component: publishes `win` and gates data in turn by `cwnd - pipe`.
pub struct Windowed<W>(pub W);

impl<W: WindowControl> Component for Windowed<W> {
    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        let now = cx.now;
        match signal {
            Signal::Opened => self.0.on_opened(&cx.board, now),
            Signal::Acked(a) => self.0.on_acked(a, &cx.board, now),
            Signal::Congested(c) => self.0.on_congested(c, &cx.board, now),
            Signal::Recovered { flight } => self.0.on_recovered(*flight, &cx.board, now),
            Signal::Undone => self.0.on_undone(&cx.board, now),
            Signal::Rtt(sample) => self.0.on_rtt(sample, &cx.board, now),
            Signal::Wrote => self.0.on_wrote(&cx.board, now),
            Signal::Sent(sent) => self.0.on_sent(sent, &cx.board, now),
            Signal::DupAck => self.0.on_dup_ack(&cx.board, now),
            _ => return,
        }
        let (cwnd, ssthresh) = self.0.window();
        cx.write(|f: &mut WinFacts| (f.cwnd, f.ssthresh) = (cwnd, ssthresh));
    }

    fn permit(&self, want: &Want, board: &Board, _now: Time) -> Permit {
        if !want.kind.in_turn() {
            return Permit::OPEN;
        }
        let room = self.0.window().0.saturating_sub(board.tx.pipe);
        Permit::upto(board.tx.quota.unwrap_or(room), Limit::Window)
    }

    fn set(&mut self, param: &str, value: Value) -> bool {
        self.0.set(param, value)
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        self.0.observe(probe);
    }

    fn methods(&self) -> &'static [&'static str] {
        &[
            "opened",
            "acked",
            "congested",
            "recovered",
            "undone",
            "rtt",
            "wrote",
            "sent",
            "dup-ack",
        ]
    }
}
