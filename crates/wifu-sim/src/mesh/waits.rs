//! When senders waited for retransmission timeouts, and on which links their packets were, for
//! whoever asks why they did.

use super::flows::Flows;
use super::hops::Hops;
use super::nodes::Nodes;
use wifu_engine::ConnId;
use wifu_wire::{Span, Time};

/// A sender waited for a retransmission timeout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Number of the flow, from 1.
    pub flow: u32,
    /// When the last segment before it left.
    pub from: Time,
    /// When the first one after it did, or the run ended.
    pub until: Time,
    /// Links that packets of the flow had taken until then, in both directions: from, to.
    pub links: Vec<(u16, u16)>,
}

/// What is known of each flow's waits, and which are over.
#[derive(Default)]
pub(crate) struct Waits {
    /// Its sender's connection, and for how long that has waited.
    flows: Vec<(Option<ConnId>, Span)>,
    over: Vec<Wait>,
}

impl Waits {
    /// The waits that ended since the last call.
    pub(crate) fn take(&mut self) -> Vec<Wait> {
        core::mem::take(&mut self.over)
    }

    /// A timer of this node may have ended a wait just now; at the end of the run (`None`) all end
    /// that are under way.
    pub(crate) fn look(
        &mut self,
        now: Time,
        node: Option<u16>,
        (flows, nodes, hops): (&Flows, &Nodes, &Hops),
    ) {
        self.flows.resize(flows.all.len(), (None, Span::ZERO));
        for (number, (flow, known)) in flows.all.iter().zip(&mut self.flows).enumerate() {
            let end = flow.counted_end();
            let (at, id) = (flow.node(end), flow.ends[end].conn);
            if node.is_some_and(|node| node != at) {
                continue;
            }
            let Some(conn) = id.and_then(|id| nodes.endpoint_of(at).conn(id)) else {
                continue;
            };
            let waited = match node {
                Some(_) => conn.counters().timeout_wait,
                None => conn.timeout_wait_until(now),
            };
            // A file may have a connection of its own.
            let before = if known.0 == id { known.1 } else { Span::ZERO };
            *known = (id, waited);
            if waited > before {
                let links = hops.of_flow(number);
                self.over.push(Wait {
                    flow: number as u32 + 1,
                    from: Time(now.0.saturating_sub((waited - before).0)),
                    until: now,
                    links: links.map(|(_, _, sums)| (sums.from, sums.to)).collect(),
                });
            }
        }
    }
}
