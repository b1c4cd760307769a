//! Collects the largest delay on the path into ATP's header (Behaviour 7.5, ATP thesis 3.1).

use crate::handler::{Descriptor, Handler, HopCx, HopWordSpec};
use crate::hook::{Hook, Hooks, Verdict};
use crate::packet::Packet;
use crate::select::HopWord;
use wifu_engine::Fact;
use wifu_engine::descriptor::ParamSpec;
use wifu_wire::atp::PORT as PORT_OF_ATP;

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
/// Hops from which on a path is long.
const LONG: u8 = 5;

/// See the module.
pub static DELAY_COLLECTOR: Descriptor = Descriptor {
    name: "delay-collector",
    doc: "Raises the delay word of passing packets to this node's delay and counts the hop; feedback \
          passes untouched. For packets of ATP unless a composition brings it (Behaviour 7.5).",
    cites: &["ATP thesis 3.1"],
    hooks: Hooks::of(&[Hook::Output, Hook::Forward]),
    format: Some(&wifu_wire::atp::FORMAT),
    params: &[PORT, ETA, ETA_LONG],
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
    build: |s| {
        Ok(Box::new(Collector {
            delay: s.word("delay"),
            hops: s.word("hops"),
            untouched: [Some(s.word("feedback")), s.find("link_down")],
            idle: s.find("idle"),
            adapt: s.find("adapt"),
            eta: s.params.real(ETA.name),
            eta_long: Some(s.params.real(ETA_LONG.name)).filter(|eta| *eta > 0.0),
        }))
    },
    ..Descriptor::EMPTY
};

struct Collector {
    delay: HopWord,
    hops: HopWord,
    /// Marks of packets whose words are for ends only.
    untouched: [Option<HopWord>; 2],
    idle: Option<HopWord>,
    adapt: Option<HopWord>,
    eta: f64,
    eta_long: Option<f64>,
}

impl Handler for Collector {
    fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        if self.untouched.iter().flatten().any(|w| packet.get(*w) == 1) {
            return Verdict::Accept;
        }
        // This node counts itself before it looks (Behaviour 7.5).
        let hops = packet
            .get(self.hops)
            .saturating_add(1)
            .min(self.hops.place.most());
        let (delay, idle) = cx.site.link().reported(cx.now);
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
