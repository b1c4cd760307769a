//! The account of an interception, for machines.

use super::unseen::Shape;
use serde::Serialize;
use std::collections::BTreeMap;
use wifu_core::{Chain, Hook};

/// What happened at one hook.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize)]
pub struct HookCounters {
    /// Packets that came; a super-packet counts once.
    pub packets: u64,
    /// ... and their octets.
    pub octets: u64,
    /// Packets that went on, changed or not.
    pub accepted: u64,
    /// Of these, changed by a handler.
    pub changed: u64,
    /// Were dropped by a handler.
    pub dropped: u64,
    /// Were held for some time.
    pub held: u64,
    /// A handler's change could not be applied, because we had only a part of the packet or it was
    /// a super-packet: it went on as it was, or was dropped, as configured.
    pub unchangeable: u64,
    /// Packets that passed without the handlers, because the queue or the socket's buffer was
    /// full; if super-packets were cut before us, an estimate. Not counted after handlers failed.
    pub passed_unseen: u64,
    /// ... and their octets.
    pub passed_unseen_octets: u64,
    /// What the estimate needs.
    #[serde(skip)]
    pub(crate) shape: Shape,
}

/// What one handler did with the packets that it was asked about.
#[derive(Clone, Default, Debug, PartialEq, Eq, Serialize)]
pub struct HandlerCounters {
    /// Name of the handler, as configuration files say it.
    pub name: String,
    /// Packets that it was asked about.
    pub packets: u64,
    /// Of these, those that it changed.
    pub changed: u64,
    /// Packets that it dropped, by the reason that it gave.
    pub dropped: BTreeMap<String, u64>,
    /// Packets that it held for some time.
    pub held: u64,
    /// Wanted to hold, but held as many as it may.
    pub overflows: u64,
    /// Copies that it kept.
    pub kept: u64,
    /// Packets and copies that it sent; those that did not leave are in `dropped`, too.
    pub sent: u64,
    /// What else it counts, by name.
    pub counts: BTreeMap<&'static str, u64>,
}

/// What a monitor interface told.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize)]
pub struct MonitorCounters {
    /// Frames that it showed.
    pub frames: u64,
    /// ... of them for other stations, with an IPv4 packet.
    pub overheard: u64,
    /// ... our own, when the driver was done with them.
    pub reported: u64,
    /// Reported frames that nobody acknowledged.
    pub failed: u64,
    /// Reported frames that are packets which a hook let go: handlers were told.
    pub matched: u64,
    /// Reported frames that are not.
    pub unmatched: u64,
    /// Packets let go of which no report came.
    pub lost: u64,
    /// Packets let go and not reported yet.
    pub queued: u32,
    /// Frames that cannot be read, or came damaged.
    pub garbled: u64,
    /// Frames that say nothing here: for us or all, encrypted, without a packet, not IPv4.
    pub other: u64,
    /// Frames that found the socket's buffer full.
    pub missed: u64,
}

/// What is known of TUN devices alone.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize)]
pub struct TunCounters {
    /// Packets let go that the kernel did not take back: they are lost.
    pub unwritten: u64,
    /// Packets let go that had the longest life (TTL 255): they left with one hop less.
    pub ttl_lowered: u64,
    /// Packets that were no IPv4: they are lost.
    pub not_ipv4: u64,
}

/// What handlers did so far.
#[derive(Clone, Default, Debug, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// By name of the hook.
    pub hooks: BTreeMap<&'static str, HookCounters>,
    /// Handlers in the order in which packets meet them.
    pub handlers: Vec<HandlerCounters>,
    /// Packets held at this moment.
    pub held_now: usize,
    /// ... and their octets.
    pub held_octets: usize,
    /// Copies that handlers keep at this moment.
    pub copies_now: usize,
    /// ... and their octets.
    pub copies_octets: usize,
    /// Packets that would have been held or copied, had there been memory for them.
    pub no_memory: u64,
    /// Times that the socket's receive buffer was full (ENOBUFS).
    pub overflows: u64,
    /// Verdicts on packets that were gone already.
    pub late_verdicts: u64,
    /// Times that the kernel had no memory for a verdict, which was then handed over later.
    pub refused_verdicts: u64,
    /// Frames for other stations that handlers were shown.
    pub overheard: u64,
    /// Interfaces, overheard or the monitor, that went down or away and are silent since.
    pub silent: Vec<String>,
    /// What the monitor interface told, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitor: Option<Box<MonitorCounters>>,
    /// Lines of handlers that nobody read in time.
    pub lost_lines: u64,
}

/// What the kernel says of one queue (/proc/net/netfilter/nfnetlink_queue).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize)]
pub struct KernelQueue {
    /// Packets that wait for a verdict.
    pub waiting: u64,
    /// Packets dropped because the queue was full.
    pub dropped_full: u64,
    /// Packets dropped because the socket's buffer was full.
    pub dropped_buffer: u64,
    /// Packets that entered the queue since it was bound.
    pub packets: u64,
}

/// The kernel's counts, by name of the hook.
pub(crate) type Queues = BTreeMap<&'static str, KernelQueue>;

/// Everything that `wifu core` tells of a run, as it writes it to JSON.
#[derive(Clone, Default, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Seconds since the start.
    pub seconds: f64,
    /// `working`, or how the handlers failed: `panicked`, `stalled`.
    pub state: &'static str,
    /// What handlers did, as of their last packet.
    #[serde(flatten)]
    pub handlers: Snapshot,
    /// By name of the hook. Of TUN devices: `waiting` for a verdict, `dropped_full` and `packets`.
    pub kernel: BTreeMap<&'static str, KernelQueue>,
    /// What is known of TUN devices alone, if packets come by these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tun: Option<TunCounters>,
    /// Packets let pass after the handlers failed, or because they still waited at the end.
    pub failed_open: u64,
    /// Packets dropped after the handlers failed, or because they still waited at the end.
    pub failed_closed: u64,
}

pub(crate) fn handlers_of(chain: &Chain) -> Vec<HandlerCounters> {
    let each = chain.counters().map(|(name, c)| HandlerCounters {
        name: name.to_owned(),
        packets: c.packets,
        changed: c.changed,
        dropped: c
            .dropped
            .iter()
            .map(|(k, v)| ((*k).to_owned(), *v))
            .collect(),
        held: c.held,
        overflows: c.overflows,
        kept: c.kept,
        sent: c.sent,
        counts: c.counts.into_iter().collect(),
    });
    each.collect()
}

/// The kernel's own counts for the queues of this namespace that have our numbers.
pub(crate) fn kernel_queues() -> Queues {
    let path = "/proc/thread-self/net/netfilter/nfnetlink_queue";
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(kernel_queue).collect()
}

/// A line of it: queue, port, waiting, mode, range, dropped (full), dropped (buffer), packets, 1.
fn kernel_queue(line: &str) -> Option<(&'static str, KernelQueue)> {
    let numbers: Vec<u64> = line.split_whitespace().flat_map(str::parse).collect();
    let hook = Hook::ALL
        .into_iter()
        .find(|h| Some(&u64::from(h.number())) == numbers.first())?;
    let found = KernelQueue {
        waiting: *numbers.get(2)?,
        dropped_full: *numbers.get(5)?,
        dropped_buffer: *numbers.get(6)?,
        packets: *numbers.get(7)?,
    };
    Some((hook.name(), found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_understood() {
        let line = "    1  31621     7 2 65531     3     4     4294  1";
        let wanted = KernelQueue {
            waiting: 7,
            dropped_full: 3,
            dropped_buffer: 4,
            packets: 4294,
        };
        assert_eq!(kernel_queue(line), Some(("output", wanted)));
        assert_eq!(kernel_queue("1 2 3"), None);
    }
}
