//! Accepts everything: what interception alone costs.

use crate::handler::{Descriptor, Handler, HopCx};
use crate::hook::{Hook, Hooks, Verdict};
use crate::packet::Packet;

/// See the module.
pub static NULL: Descriptor = Descriptor {
    name: "null",
    doc: "Accepts every packet. For measuring what interception itself costs (WiFu paper, V.B).",
    hooks: Hooks::ALL,
    super_packets: true,
    build: |_| Ok(Box::new(Null)),
    ..Descriptor::EMPTY
};

struct Null;

impl Handler for Null {
    fn on_packet(&mut self, _: Hook, _: &mut Packet<'_>, _: &mut HopCx<'_>) -> Verdict {
        Verdict::Accept
    }
}
