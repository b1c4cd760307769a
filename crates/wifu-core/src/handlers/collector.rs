//! Collects the largest delay on the path into ATP's header (Behaviour 7.5, ATP thesis 3.1).

use crate::handler::{Descriptor, Handler, HopCx};
use crate::hook::{Hook, Hooks, Packet, Verdict};
use crate::ip;
use wifu_engine::descriptor::ParamSpec;

const PORT: ParamSpec = ParamSpec::int(
    "port",
    9438,
    1,
    65_535,
    "UDP port of the service: packets to or from it are ATP's.",
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
    doc: "Raises the delay field of passing ATP packets to this node's delay and counts the hop; \
          feedback passes untouched (Behaviour 7.5).",
    hooks: Hooks::of(&[Hook::Output, Hook::Forward]),
    protocol: None,
    params: &[PORT, ETA, ETA_LONG],
    holds: 0,
    super_packets: false,
    build: |p| {
        Ok(Box::new(Collector {
            port: p.int(PORT.name) as u16,
            eta: p.real(ETA.name),
            eta_long: Some(p.real(ETA_LONG.name)).filter(|eta| *eta > 0.0),
        }))
    },
};

/// IP protocol of ATP without UDP; the UDP-shaped header stays.
const ATP: u8 = 219;
/// Octets of the UDP header in front of ATP's.
const UDP_HEADER: usize = 8;
const LENGTH: usize = 40;
/// Offsets in ATP's header.
const CONTROL: usize = 2;
const HOPS: usize = 6;
const DELAY: usize = 16;
const SACK_OPT: u16 = 0x4000;
const ADAPT: u16 = 0x0800;
const IDLE: u16 = 0x0400;

struct Collector {
    port: u16,
    eta: f64,
    eta_long: Option<f64>,
}

impl Collector {
    /// Where ATP's header begins.
    fn find(&self, octets: &[u8]) -> Option<usize> {
        let body = ip::payload(octets)?;
        let port = |at: usize| u16::from_be_bytes([octets[at], octets[at + 1]]);
        if body.len() < UDP_HEADER + LENGTH {
            return None;
        }
        let at = body.start;
        let ours = match octets[9] {
            ATP => true,
            ip::UDP => port(at) == self.port || port(at + 2) == self.port,
            _ => false,
        };
        let header = at + UDP_HEADER;
        (ours && octets[header] == 1 && octets[header + 1] == 1).then_some(header)
    }
}

impl Handler for Collector {
    fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        let Some(at) = self.find(packet.octets()) else {
            return Verdict::Accept;
        };
        let header = &packet.octets()[at..];
        let mut control = u16::from_be_bytes([header[CONTROL], header[CONTROL + 1]]);
        if control & SACK_OPT != 0 {
            return Verdict::Accept;
        }
        // This node counts itself before it looks (Behaviour 7.5).
        let hops = header[HOPS].saturating_add(1);
        let (delay, idle) = cx.site.link().reported(cx.now);
        let mut us = (delay.0 / 1000).min(u64::from(u32::MAX)) as u32;
        if idle && control & ADAPT == 0 {
            let eta = self.eta_long.filter(|_| hops >= LONG).unwrap_or(self.eta);
            us = (f64::from(us) * eta).min(f64::from(u32::MAX)) as u32;
        }
        let word =
            |i: usize| u32::from_be_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]);
        let before = word(DELAY);
        if us > before {
            control = if idle {
                control | IDLE
            } else {
                control & !IDLE
            };
        }
        let header = &mut packet.octets_mut()[at..];
        header[HOPS] = hops;
        header[DELAY..DELAY + 4].copy_from_slice(&us.max(before).to_be_bytes());
        header[CONTROL..CONTROL + 2].copy_from_slice(&control.to_be_bytes());
        Verdict::Accept
    }
}
