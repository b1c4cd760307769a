//! The account of every hop: where the time of a flow's packets went, per direction and hop.

use super::pool::{NO_FLOW, Packet};
use super::wire::Entered;
use wifu_radio::Times;
use wifu_wire::Span;

/// Where the time of the packets of one flow, direction and hop went.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HopSums {
    pub(crate) from: u16,
    pub(crate) to: u16,
    pub(crate) packets: u64,
    pub(crate) lost: u64,
    pub(crate) times: Times,
    pub(crate) propagation: Span,
}

/// Per flow and direction, per hop. Packets of no flow have no account.
pub(crate) struct Hops(Vec<[Vec<HopSums>; 2]>);

impl Hops {
    /// Accounts of so many flows.
    pub(crate) fn new(flows: usize) -> Hops {
        Hops((0..flows).map(|_| Default::default()).collect())
    }

    /// A radio is done with a packet.
    #[inline]
    pub(crate) fn by_radio(&mut self, packet: &Packet, from: u16, to: u16, times: &Times) {
        let Some(sums) = self.of(packet, from, to) else {
            return;
        };
        if packet.passed {
            sums.packets += 1;
        } else {
            sums.lost += 1;
        }
        let sum = &mut sums.times;
        sum.queue = sum.queue + times.queue;
        sum.contention = sum.contention + times.contention;
        sum.retries = sum.retries + times.retries;
        sum.air = sum.air + times.air;
    }

    /// A packet entered a wire of this delay.
    #[inline]
    pub(crate) fn by_wire(
        &mut self,
        packet: &Packet,
        (from, to): (u16, u16),
        entered: Entered,
        delay: Span,
    ) {
        let Some(sums) = self.of(packet, from, to) else {
            return;
        };
        if entered == Entered::Waits {
            return;
        }
        if let Entered::Flies { waits, takes, .. } = entered {
            sums.packets += 1;
            sums.times.queue = sums.times.queue + waits;
            sums.times.air = sums.times.air + takes;
            sums.propagation = sums.propagation + delay;
        } else {
            sums.lost += 1;
        }
    }

    /// All accounts: flow, whether from its receiver to its sender, hop from 0.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, bool, usize, &HopSums)> {
        self.0.iter().enumerate().flat_map(|(flow, ways)| {
            ways.iter().enumerate().flat_map(move |(way, hops)| {
                let hops = hops.iter().enumerate();
                hops.map(move |(hop, sums)| (flow, way == 1, hop, sums))
            })
        })
    }

    #[inline]
    fn of(&mut self, packet: &Packet, from: u16, to: u16) -> Option<&mut HopSums> {
        if packet.flow == NO_FLOW {
            return None;
        }
        let hop = usize::from(packet.hop);
        let sums = &mut self.0[packet.flow as usize][usize::from(packet.reverse)];
        if sums.len() <= hop {
            sums.resize(hop + 1, HopSums::default());
        }
        let sums = &mut sums[hop];
        if sums.packets + sums.lost == 0 {
            (sums.from, sums.to) = (from, to);
        }
        Some(sums)
    }
}
