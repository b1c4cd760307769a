//! Collects the largest delay on the path into ATP's header (Behaviour 7.5, ATP thesis 3.1).

use crate::handler::{Descriptor, Handler, HopCx, HopWordSpec};
use crate::hook::{Hook, Hooks, Verdict};
use crate::packet::Packet;
use crate::select::HopWord;
use wifu_engine::Fact;
use wifu_engine::descriptor::{FEEDBACK, ParamSpec};
use wifu_wire::atp::PORT as PORT_OF_ATP;
use wifu_wire::{Note, Span, Staleness};

const PORT: ParamSpec = ParamSpec::int(
    "port",
    PORT_OF_ATP as u64,
    1,
    65_535,
    "UDP port of the service: packets to or from it are meant, too.",
);
const ETA: ParamSpec = ParamSpec::real(
    "eta",
    3.0,
    1.0,
    100.0,
    "An idle node reports this many times its delay, unless the flow is adaptive (ATP thesis 3.2).",
);

const ETA_LONG: ParamSpec = ParamSpec::real(
    "eta_long",
    0.0,
    0.0,
    100.0,
    "What takes `eta`'s place at nodes from the fifth on the path; 0: nothing (ATP thesis 3.2).",
);
const IDLE_AFTER: ParamSpec = ParamSpec::span(
    "idle_after",
    Staleness::STANDARD.idle,
    Span(1_000_000),
    Span(60_000_000_000),
    "A node that sent nothing for so long is idle, if the medium is quiet (T_idle, Behaviour 7.4).",
);
const STALE_RESET: ParamSpec = ParamSpec::flag(
    "stale_reset",
    false,
    "After 2 s in which the driver reported nothing the node's delay is that of an idle one.",
);
/// A driver's average is as old with `stale_reset`.
const STALE: Span = Span(2_000_000_000);
/// Hops from which on a path is long.
const LONG: u8 = 5;

/// See the module.
pub static DELAY_COLLECTOR: Descriptor = Descriptor {
    name: "delay-collector",
    doc: "Raises the delay word of passing packets to this node's delay and counts the hop; feedback \
          passes untouched, and is marked as such for the node's queue. For packets of ATP unless a composition brings it (Behaviour 7.5).",
    cites: &["ATP thesis 3.1"],
    hooks: Hooks::of(&[Hook::Output, Hook::Forward]),
    format: Some(&wifu_wire::atp::FORMAT),
    params: &[PORT, ETA, ETA_LONG, IDLE_AFTER, STALE_RESET],
    port_param: Some(PORT.name),
    words: &[
        HopWordSpec::written("delay"),
        HopWordSpec::written("hops"),
        HopWordSpec::read("feedback"),
        HopWordSpec::read("link_down").optional(),
        HopWordSpec::written("idle").optional(),
        HopWordSpec::read("adapt").optional(),
    ],
    prefers: &[Fact::LinkDelay],
    notes: &[FEEDBACK],
    build: |s| {
        Ok(Box::new(Collector {
            feedback: s.word("feedback"),
            note: s.params.note(FEEDBACK.name),
            delay: s.word("delay"),
            hops: s.word("hops"),
            link_down: s.find("link_down"),
            idle: s.find("idle"),
            adapt: s.find("adapt"),
            eta: s.params.real(ETA.name),
            eta_long: Some(s.params.real(ETA_LONG.name)).filter(|eta| *eta > 0.0),
            staleness: Staleness {
                idle: s.params.span(IDLE_AFTER.name),
                forgotten: s.params.flag(STALE_RESET.name).then_some(STALE),
            },
        }))
    },
    ..Descriptor::EMPTY
};

struct Collector {
    delay: HopWord,
    hops: HopWord,
    /// Marks of packets whose words are for ends only.
    feedback: HopWord,
    link_down: Option<HopWord>,
    note: Note,
    idle: Option<HopWord>,
    adapt: Option<HopWord>,
    eta: f64,
    eta_long: Option<f64>,
    staleness: Staleness,
}

impl Handler for Collector {
    fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        if packet.get(self.feedback) == 1 {
            packet.notes.set(self.note, 1);
            return Verdict::Accept;
        }
        if self.link_down.is_some_and(|w| packet.get(w) == 1) {
            return Verdict::Accept;
        }
        // This node counts itself before it looks (Behaviour 7.5).
        let hops = packet
            .get(self.hops)
            .saturating_add(1)
            .min(self.hops.place.most());
        let (delay, idle) = cx.site.link().reported_by(cx.now, &self.staleness);
        let mut us = (delay.0 / 1000).min(u64::from(u32::MAX)) as u32;
        if idle && self.adapt.is_none_or(|w| packet.get(w) == 0) {
            let long = hops >= u32::from(LONG);
            let eta = self.eta_long.filter(|_| long).unwrap_or(self.eta);
            us = (f64::from(us) * eta).min(f64::from(u32::MAX)) as u32;
        }
        packet.set(self.hops, hops);
        if us > packet.get(self.delay) {
            packet.set(self.delay, us);
            if let Some(word) = self.idle {
                packet.set(word, u32::from(idle));
            }
        }
        Verdict::Accept
    }
}
