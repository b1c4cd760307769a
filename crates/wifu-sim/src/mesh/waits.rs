//! When senders waited for retransmission timeouts, and on which links their packets were, for
//! whoever asks why they did.

use super::flow::Flow;
use super::flows::Flows;
use super::hops::Hops;
use super::nodes::Nodes;
use wifu_engine::Conn;
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
    /// Links that packets of the flow had taken until then, in both directions: from, to. Where its
    /// connection is split, those of the sender's half.
    pub links: Vec<(u16, u16)>,
}

/// How long each flow's sender has waited so far, and which waits are over.
pub(crate) struct Waits {
    known: Vec<Span>,
    /// The flows whose data begins at each node.
    at: Vec<Vec<u32>>,
    over: Vec<Wait>,
}

impl Waits {
    /// Of a run that begins.
    pub(crate) fn new(flows: &Flows, nodes: usize) -> Waits {
        let mut at = vec![Vec::new(); nodes];
        for (number, flow) in flows.all.iter().enumerate() {
            at[usize::from(flow.node(flow.counted_end()))].push(number as u32);
        }
        Waits {
            known: vec![Span::ZERO; flows.all.len()],
            at,
            over: Vec::new(),
        }
    }

    /// The waits that ended since the last call.
    pub(crate) fn take(&mut self) -> Vec<Wait> {
        core::mem::take(&mut self.over)
    }

    /// A timer of this node may have ended a wait just now.
    pub(crate) fn look(&mut self, now: Time, node: u16, of: (&Flows, &Nodes, &Hops)) {
        for i in 0..self.at[usize::from(node)].len() {
            let number = self.at[usize::from(node)][i];
            self.note(now, number, of, |conn| conn.counters().timeout_wait);
        }
    }

    /// All waits end that are under way: the run is over.
    pub(crate) fn end(&mut self, now: Time, of: (&Flows, &Nodes, &Hops)) {
        for number in 0..self.known.len() as u32 {
            self.note(now, number, of, |conn| conn.timeout_wait_until(now));
        }
    }

    /// What a flow has waited by now: in its connections of before, and in its present one.
    fn note(
        &mut self,
        now: Time,
        number: u32,
        (flows, nodes, hops): (&Flows, &Nodes, &Hops),
        waited: impl Fn(&Conn) -> Span,
    ) {
        let flow = &flows[number];
        let end = &flow.ends[flow.counted_end()];
        let endpoint = || nodes.endpoint_of(flow.node(flow.counted_end()));
        let open = end.conn.and_then(|id| endpoint().conn(id));
        let waited = flow.account.totals.timeout_wait + open.map_or(Span::ZERO, waited);
        let before = core::mem::replace(&mut self.known[number as usize], waited);
        if waited <= before {
            return;
        }
        self.over.push(Wait {
            flow: number + 1,
            from: Time(now.0.saturating_sub((waited - before).0)),
            until: now,
            links: links(number, flow, nodes, hops),
        });
    }
}

/// The links between a flow's sender and who acknowledges to it: the receiver, or the first node
/// that splits the connection.
fn links(number: u32, flow: &Flow, nodes: &Nodes, hops: &Hops) -> Vec<(u16, u16)> {
    let back = flow.counted_end() == 1;
    let of = || hops.of_flow(number as usize);
    let splits = |node: u16| nodes.splits(node, flow);
    let at =
        |way: bool| of().filter(move |(reverse, _, sums)| *reverse == way && splits(sums.from));
    let there = at(back).map(|(_, hop, _)| hop).min();
    let here = at(!back).map(|(_, hop, _)| hop).max();
    let near = |(reverse, hop): (bool, usize)| match reverse == back {
        true => there.is_none_or(|end| hop < end),
        false => here.is_none_or(|begin| hop >= begin),
    };
    of().filter(|(reverse, hop, _)| near((*reverse, *hop)))
        .map(|(.., sums)| (sums.from, sums.to))
        .collect()
}
