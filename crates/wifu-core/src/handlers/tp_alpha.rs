//! The shim of TP-alpha (Behaviour 9): the largest delay on the path, between IP and TCP.

use crate::handler::{Descriptor, Handler, HopCx};
use crate::hook::{Hook, Hooks, Packet, Verdict};
use crate::{ip, shim};
use wifu_engine::descriptor::ParamSpec;

const ETA: ParamSpec = ParamSpec::real(
    "eta",
    3.0,
    1.0,
    100.0,
    "On a SYN, an idle node reports this many times its delay (Behaviour 9, 7.4).",
);

/// See the module.
pub static TPA_SHIM: Descriptor = Descriptor {
    name: "tpa-shim",
    doc: "Inserts TP-alpha's shim where a packet is sent, raises its max_delay to this node's at \
          each hop, and strips it where the packet arrives (Behaviour 9). For packets of \
          `protocol`, 208 unless set. The interface needs room for \
          12 octets more.",
    hooks: Hooks::of(&[Hook::Output, Hook::Forward, Hook::Input]),
    protocol: Some(PROTOCOL),
    params: &[ETA],
    holds: 0,
    super_packets: false,
    build: |p| {
        Ok(Box::new(TpAlpha {
            eta: p.real(ETA.name),
        }))
    },
};

/// IP protocol of TP-alpha.
const PROTOCOL: u8 = 208;
/// Words of the shim: the largest delay so far, and the delay that the receiver feeds back, us.
const MAX_DELAY: usize = 0;
const WORDS: [u32; 2] = [0, 0];

struct TpAlpha {
    eta: f64,
}

impl TpAlpha {
    /// What this node reports, us.
    fn here(&self, syn: bool, cx: &HopCx<'_>) -> u32 {
        let (delay, idle) = cx.site.link().reported(cx.now);
        let us = (delay.0 / 1000) as f64 * if idle && syn { self.eta } else { 1.0 };
        us.min(f64::from(u32::MAX)) as u32
    }
}

/// Whether the TCP segment behind a shim, or the packet's payload, has SYN set.
fn syn(octets: &[u8]) -> bool {
    let start = match shim::parse(octets) {
        Some((head, start)) => Some(start + usize::from(head.length)),
        None => ip::payload(octets).map(|r| r.start),
    };
    start
        .and_then(|s| octets.get(s + 13))
        .is_some_and(|flags| flags & 2 != 0)
}

impl Handler for TpAlpha {
    fn on_packet(&mut self, hook: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        let octets = packet.octets();
        let delay_shim = shim::parse(octets).filter(|(h, _)| h.kind == shim::DELAY);
        match (hook, delay_shim) {
            (Hook::Output, None) if ip::protocol(octets) != Some(shim::PROTOCOL) => {
                let here = self.here(syn(octets), cx);
                let mut words = WORDS;
                words[MAX_DELAY] = here;
                match shim::insert(octets, shim::DELAY, &words) {
                    Some(with) => packet.replace(&with),
                    None => return Verdict::Drop("no room for the shim"),
                }
            }
            (Hook::Forward, Some((head, start))) => {
                let here = self.here(syn(octets), cx);
                let so_far = shim::word(octets, &head, start, MAX_DELAY).unwrap_or(0);
                if here > so_far {
                    shim::set_word(packet.octets_mut(), &head, start, MAX_DELAY, here);
                }
            }
            (Hook::Input, Some((head, start))) => {
                let max_delay = shim::word(octets, &head, start, MAX_DELAY).unwrap_or(0);
                if let Some(without) = shim::remove(octets) {
                    packet.replace(&without);
                }
                packet.max_delay = max_delay;
            }
            _ => {}
        }
        Verdict::Accept
    }
}
