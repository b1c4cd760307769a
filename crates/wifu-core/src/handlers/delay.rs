//! Holds every packet for the same time.

use crate::handler::{Descriptor, Handler, HopCx, Verbs};
use crate::hook::{Hook, Hooks, Verdict};
use crate::packet::Packet;
use std::collections::VecDeque;
use wifu_engine::descriptor::ParamSpec;
use wifu_wire::{Span, Time};

const T: ParamSpec = ParamSpec::span(
    "t",
    Span(10_000_000),
    Span::ZERO,
    Span(60_000_000_000),
    "How long each packet is held.",
);

/// See the module.
pub static DELAY: Descriptor = Descriptor {
    name: "delay",
    doc: "Holds every packet for `t`; their order stays.",
    hooks: Hooks::WIRED,
    params: &[T],
    needs: Verbs::HOLD,
    holds: 10_000,
    super_packets: true,
    build: |p| {
        Ok(Box::new(Delay {
            t: p.params.span(T.name),
            waiting: VecDeque::new(),
        }))
    },
    ..Descriptor::EMPTY
};

struct Delay {
    t: Span,
    waiting: VecDeque<(Time, u64)>,
}

impl Handler for Delay {
    fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        let due = cx.now + self.t;
        if self.waiting.is_empty() {
            cx.arm(0, due);
        }
        self.waiting.push_back((due, packet.ticket));
        Verdict::Hold
    }

    fn on_timer(&mut self, _: u8, cx: &mut HopCx<'_>) {
        while let Some(&(due, ticket)) = self.waiting.front() {
            if due > cx.now {
                return cx.arm(0, due);
            }
            self.waiting.pop_front();
            cx.release(ticket, Verdict::Accept);
        }
    }
    fn on_lost(&mut self, ticket: u64) {
        // The last one, as a rule.
        if let Some(at) = self.waiting.iter().rposition(|w| w.1 == ticket) {
            self.waiting.remove(at);
        }
    }
}
