//! Drops packets at random.

use crate::handler::{Descriptor, Handler, HopCx};
use crate::hook::{Hook, Hooks, Verdict};
use crate::packet::Packet;
use wifu_engine::descriptor::ParamSpec;

const P: ParamSpec = ParamSpec::real("p", 0.1, 0.0, 1.0, "Share of packets to drop, 0 to 1.");

/// See the module.
pub static DROP: Descriptor = Descriptor {
    name: "drop",
    doc: "Drops each packet with probability `p`, independently.",
    hooks: Hooks::WIRED,
    params: &[P],
    build: |p| {
        Ok(Box::new(Drop {
            p: p.params.real(P.name),
        }))
    },
    ..Descriptor::EMPTY
};

struct Drop {
    p: f64,
}

impl Handler for Drop {
    fn on_packet(&mut self, _: Hook, _: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        if cx.rng.unit() < self.p {
            Verdict::Drop("drop")
        } else {
            Verdict::Accept
        }
    }
}
