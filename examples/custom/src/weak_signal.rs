//! A handler: packets that came with too weak a signal are dropped, so that a routing daemon does
//! not take a neighbour for a good one whom it hears only now and then. What came over a wire has no
//! signal and passes.

use wifu_core::{Descriptor, Handler, Hook, Hooks, HopCx, Packet, Verdict};
use wifu_engine::ParamSpec;

const DBM: ParamSpec = ParamSpec::real("dbm", -85.0, -120.0, 0.0, "Drop what came weaker, dBm.");

/// See the module.
pub static WEAK_SIGNAL: Descriptor = Descriptor {
    name: "weak-signal",
    doc: "Drops packets that came with a weaker signal than dbm; others pass. What came over a wire \
          has no signal and passes.",
    hooks: Hooks::of(&[Hook::Prerouting]),
    params: &[DBM],
    build: |p| Ok(Box::new(WeakSignal(p.params.real(DBM.name)))),
    ..Descriptor::EMPTY
};

struct WeakSignal(f64);

impl Handler for WeakSignal {
    fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, _: &mut HopCx<'_>) -> Verdict {
        match packet.rssi_dbm {
            Some(dbm) if f64::from(dbm) < self.0 => Verdict::Drop("weak signal"),
            // A wire has no signal.
            _ => Verdict::Accept,
        }
    }
}
