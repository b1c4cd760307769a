//! Accepts everything: what interception alone costs.

use crate::handler::{Descriptor, Handler, HopCx};
use crate::hook::{Hook, Hooks, Packet, Verdict};

/// See the module.
pub static NULL: Descriptor = Descriptor {
    name: "null",
    doc: "Accepts every packet. For measuring what interception itself costs (WiFu paper, V.B).",
    hooks: Hooks::ALL,
    protocol: None,
    params: &[],
    holds: 0,
    super_packets: true,
    build: |_| Ok(Box::new(Null)),
};

struct Null;

impl Handler for Null {
    fn on_packet(&mut self, _: Hook, _: &mut Packet<'_>, _: &mut HopCx<'_>) -> Verdict {
        Verdict::Accept
    }
}
