//! Writes a line for each packet.

use crate::handler::{Descriptor, Handler, HopCx, TxStatus};
use crate::hook::{Hook, Hooks, Verdict};
use crate::packet::Packet;
use crate::{ip, shim};
use wifu_engine::Fact;
use wifu_engine::descriptor::ParamSpec;

const EVERY: ParamSpec = ParamSpec::int(
    "every",
    1,
    1,
    1_000_000_000,
    "Write of one packet in so many.",
);

const STATUS: ParamSpec = ParamSpec::flag(
    "status",
    false,
    "Write a line for each transmission that the driver reports, too.",
);

/// See the module.
pub static LOGGER: Descriptor = Descriptor {
    name: "logger",
    doc: "Writes hook, addresses, protocol, length, and who transmitted it; accepts everything.",
    hooks: Hooks::ALL,
    params: &[EVERY, STATUS],
    requires_with: &[(STATUS.name, &[Fact::Status])],
    build: |p| {
        Ok(Box::new(Logger {
            every: p.params.int(EVERY.name),
            status: p.params.flag(STATUS.name),
            seen: 0,
        }))
    },
    ..Descriptor::EMPTY
};

struct Logger {
    every: u64,
    status: bool,
    seen: u64,
}

impl Handler for Logger {
    fn on_packet(&mut self, hook: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        self.seen += 1;
        if !self.seen.is_multiple_of(self.every) {
            return Verdict::Accept;
        }
        let octets = packet.octets();
        let (seconds, node, name) = (cx.now.as_secs_f64(), cx.site.node(), hook.name());
        let mut line = format!("{seconds:.6} node {node} {name:11} ");
        match ip::header(octets) {
            None => line += "not IPv4",
            Some(_) => {
                let (from, to) = ip::addresses(octets);
                line += &format!("{from} > {to} proto {}", octets[9]);
                if let Some((head, _)) = shim::parse(octets) {
                    line += &format!(" (shim type {}, inner {})", head.kind, head.inner);
                }
            }
        }
        line += &format!(", {} bytes", octets.len());
        if let Some(from) = packet.transmitter {
            line += &format!(", from {from}");
        }
        if let Some(dbm) = packet.rssi_dbm {
            line += &format!(" at {dbm} dBm");
        }
        if let Some(rate) = packet.rate {
            line += &format!(", {rate}");
        }
        cx.log(line);
        Verdict::Accept
    }

    fn on_tx_status(&mut self, status: &TxStatus, cx: &mut HopCx<'_>) {
        if !self.status {
            return;
        }
        let link = cx.site.link();
        let (seconds, node) = (cx.now.as_secs_f64(), cx.site.node());
        let how = if status.delivered {
            "delivered"
        } else {
            "failed"
        };
        let mut line = format!("{seconds:.6} node {node} status      {how}");
        line += &format!(", attempts {}, sample {}", status.attempts, status.delay);
        if let Some(queued) = link.queued {
            line += &format!("; queued {queued}");
        }
        if let Some(rate) = link.rate {
            line += &format!(", rate {rate}");
        }
        if let Some(delay) = link.delay {
            line += &format!(", delay {delay}");
        }
        cx.log(line);
    }
}
