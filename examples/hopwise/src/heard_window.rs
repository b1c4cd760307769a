//! A gate of lanes: it lets a packet go while the next hop has few that it was not heard to pass
//! on. Source: Scheuermann, Lochert and Mauve, "Implicit hop-by-hop congestion control in wireless
//! multihop networks", Ad Hoc Networks 6(2), 2008. There the window is 1, and who hears nothing asks.

use std::collections::VecDeque;
use wifu_engine::kit::hop::{TYPE, is_next};
use wifu_engine::{Board, Component, Cx, Descriptor, Fact, Kind, Limit, ParamSpec};
use wifu_engine::{Permit, Role, Segment, Signal, Want};
use wifu_wire::{Neighbour, Seq, Span, Time, Word};

const WINDOW: ParamSpec = ParamSpec::int("window", 2, 1, 64, "Packets at the next hop.");
const PATIENCE: Span = Span(20_000_000); // 20 ms

pub static HEARD_WINDOW: Descriptor = Descriptor {
    name: "heard-window",
    role: Role::Gate,
    doc: "Lets the next hop have `window` packets that it was not heard to pass on; of a lane.",
    cites: &["Scheuermann, Lochert and Mauve, Ad Hoc Networks 6(2), 2008"],
    params: &[WINDOW],
    words: &[TYPE.read()],
    probes: &["beyond", "heard", "silent"],
    requires: &[Fact::NextHop, Fact::Transmitter],
    hears: &[
        ("sent", &[]),
        ("overheard", &[]),
        ("timer", &[]),
        ("returned", &[]),
        ("status", &[]),
        ("route", &[]),
    ],
    needs: &[("store", &["packets"])],
    hooks: &["overheard", "permit"],
    build: |p| {
        Ok(Box::new(HeardWindow {
            kind: p.word("type"),
            window: p.int("window") as usize,
            next: None,
            beyond: VecDeque::with_capacity(p.int("window") as usize),
            counts: [0; 2],
        }))
    },
    ..Descriptor::EMPTY
};

struct HeardWindow {
    kind: Word,
    window: usize,
    next: Option<Neighbour>,
    /// What the next hop has, oldest first.
    beyond: VecDeque<Seq>,
    counts: [u32; 2],
}

impl Component for HeardWindow {
    fn on_overheard(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        if is_next(seg, self.kind, cx) {
            // Its queue keeps the order: what it got before has left, too.
            let found = self.beyond.iter().position(|n| *n == seg.head.seq);
            self.beyond.drain(..found.map_or(0, |at| at + 1));
            self.counts[0] += 1;
        }
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        match signal {
            // The destination passes nothing on.
            Signal::Sent(s) if s.kind == Kind::New && !cx.board.site.last_hop => {
                self.next = cx.board.site.next_hop;
                self.beyond.push_back(s.seq);
                cx.out.arm_after(0, PATIENCE);
            }
            // It never got there: the driver had no room for it, or gave up.
            Signal::Returned(number) => self.beyond.retain(|n| n != number),
            Signal::Status(s) if !s.delivered => self.beyond.retain(|n| *n != s.number),
            Signal::Route if cx.board.site.next_hop != self.next => self.beyond.clear(),
            _ => {}
        }
    }

    /// Nothing was sent for so long: the oldest was lost there, or passed on unheard.
    fn on_timer(&mut self, _timer: u8, cx: &mut Cx<'_>) {
        if self.beyond.pop_front().is_some() {
            self.counts[1] += 1;
            cx.out.arm_after(0, PATIENCE);
        }
    }

    fn permit(&self, want: &Want, _board: &Board, _now: Time) -> Permit {
        if want.kind == Kind::New && self.beyond.len() >= self.window {
            return Permit::shut(Limit::Peer);
        }
        Permit::OPEN
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("beyond", self.beyond.len() as f64);
        probe("heard", f64::from(self.counts[0]));
        probe("silent", f64::from(self.counts[1]));
    }
}
