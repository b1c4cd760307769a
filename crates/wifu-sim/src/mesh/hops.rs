//! The account of every hop: where the time of a flow's packets went, per direction, hop and link.

use super::pool::{NO_FLOW, Packet};
use super::wire::{Entered, Flown};
use wifu_radio::Times;
use wifu_radio::trace::NOBODY;
use wifu_wire::Span;

/// Where the time of the packets of one flow, direction and hop went that took the same link there;
/// of those that came over it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HopSums {
    pub(crate) from: u16,
    pub(crate) to: u16,
    pub(crate) packets: u64,
    pub(crate) lost: u64,
    /// Refused by a full queue, and dropped by its discipline.
    pub(crate) full: u64,
    pub(crate) early: u64,
    /// Dropped by lanes.
    pub(crate) lane: u64,
    /// At the transmitting node, before its link had them.
    pub(crate) stayed: Span,
    pub(crate) times: Times,
    pub(crate) propagation: Span,
}

impl HopSums {
    /// Of a link that is not known yet.
    const UNUSED: HopSums = HopSums {
        from: NOBODY,
        to: NOBODY,
        packets: 0,
        lost: 0,
        full: 0,
        early: 0,
        lane: 0,
        stayed: Span::ZERO,
        times: Times {
            queue: Span::ZERO,
            contention: Span::ZERO,
            retries: Span::ZERO,
            air: Span::ZERO,
        },
        propagation: Span::ZERO,
    };

    fn of(from: u16, to: u16) -> HopSums {
        HopSums {
            from,
            to,
            ..HopSums::UNUSED
        }
    }
}

/// One flow in one direction.
#[derive(Clone, Default)]
struct Way {
    /// By hop: the link that was the first one there.
    first: Vec<HopSums>,
    /// Further links of later routes, with their hop.
    more: Vec<(usize, HopSums)>,
}

impl Way {
    /// The account of a link that is not the first one at its hop, or is, but not known yet.
    #[cold]
    fn other(&mut self, hop: usize, from: u16, to: u16) -> &mut HopSums {
        if self.first.len() <= hop {
            self.first.resize(hop + 1, HopSums::UNUSED);
        }
        if self.first[hop].from == NOBODY {
            self.first[hop] = HopSums::of(from, to);
            return &mut self.first[hop];
        }
        let same = |(n, sums): &(usize, HopSums)| *n == hop && (sums.from, sums.to) == (from, to);
        let at = self.more.iter().position(same).unwrap_or_else(|| {
            self.more.push((hop, HopSums::of(from, to)));
            self.more.len() - 1
        });
        &mut self.more[at].1
    }

    /// Hop by hop, at each the links in the order in which they were taken.
    fn iter(&self) -> impl Iterator<Item = (usize, &HopSums)> {
        self.first.iter().enumerate().flat_map(|(hop, first)| {
            let more = self.more.iter().filter(move |(n, _)| *n == hop);
            let all = core::iter::once(first).chain(more.map(|(_, sums)| sums));
            all.filter(|sums| sums.from != NOBODY)
                .map(move |sums| (hop, sums))
        })
    }
}

/// Per flow and direction. Packets of no flow have no account.
pub(crate) struct Hops(Vec<[Way; 2]>);

impl Hops {
    /// Accounts of so many flows.
    pub(crate) fn new(flows: usize) -> Hops {
        Hops((0..flows).map(|_| Default::default()).collect())
    }

    /// A radio's queue did not take a packet.
    #[cold]
    pub(crate) fn kept_out(&mut self, packet: &Packet, from: u16, to: u16, early: bool) {
        if let Some(sums) = self.of(packet, from, to) {
            sums.full += u64::from(!early);
            sums.early += u64::from(early);
        }
    }

    /// A lane in front of a link had no place for a packet.
    #[cold]
    pub(crate) fn kept_out_of_lane(&mut self, packet: &Packet, from: u16, to: u16) {
        if let Some(sums) = self.of(packet, from, to) {
            sums.lane += 1;
        }
    }

    /// A radio is done with a packet, which its discipline dropped if it was never tried.
    #[inline]
    pub(crate) fn by_radio(
        &mut self,
        packet: &Packet,
        (from, to): (u16, u16),
        (stayed, times, tried): (Span, &Times, bool),
    ) {
        let Some(sums) = self.of(packet, from, to) else {
            return;
        };
        if !packet.passed {
            sums.lost += u64::from(tried);
            sums.early += u64::from(!tried);
            return;
        }
        sums.packets += 1;
        sums.stayed = sums.stayed + stayed;
        let sum = &mut sums.times;
        sum.queue = sum.queue + times.queue;
        sum.contention = sum.contention + times.contention;
        sum.retries = sum.retries + times.retries;
        sum.air = sum.air + times.air;
    }

    /// A wire's queue did not take a packet.
    #[cold]
    pub(crate) fn kept_off_wire(&mut self, packet: &Packet, from: u16, to: u16, entered: Entered) {
        match entered {
            Entered::Full => self.kept_out(packet, from, to, false),
            Entered::Early => self.kept_out(packet, from, to, true),
            Entered::Waits | Entered::Flies { .. } => {}
        }
    }

    /// A packet that had stayed so long at its node is over a wire.
    #[inline]
    pub(crate) fn by_wire(
        &mut self,
        packet: &Packet,
        (from, to): (u16, u16),
        flown: &Flown,
        stayed: Span,
    ) {
        let Some(sums) = self.of(packet, from, to) else {
            return;
        };
        if flown.lost {
            sums.lost += 1;
            return;
        }
        sums.packets += 1;
        sums.stayed = sums.stayed + stayed;
        sums.times.queue = sums.times.queue + flown.waits;
        sums.times.air = sums.times.air + flown.takes;
        sums.propagation = sums.propagation + flown.propagates;
    }

    /// All accounts: flow, whether from its receiver to its sender, hop from 0; of a hop that
    /// several routes had one for each of its links.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, bool, usize, &HopSums)> {
        (0..self.0.len()).flat_map(|flow| {
            let all = self.of_flow(flow);
            all.map(move |(reverse, hop, sums)| (flow, reverse, hop, sums))
        })
    }

    /// Those of one flow.
    pub(crate) fn of_flow(&self, flow: usize) -> impl Iterator<Item = (bool, usize, &HopSums)> {
        let ways = self.0[flow].iter().enumerate();
        ways.flat_map(|(way, links)| links.iter().map(move |(hop, sums)| (way == 1, hop, sums)))
    }

    #[inline]
    fn of(&mut self, packet: &Packet, from: u16, to: u16) -> Option<&mut HopSums> {
        if packet.flow == NO_FLOW {
            return None;
        }
        let hop = usize::from(packet.hop);
        let way = &mut self.0[packet.flow as usize][usize::from(packet.reverse)];
        let known = way.first.get(hop);
        if known.is_some_and(|sums| (sums.from, sums.to) == (from, to)) {
            return Some(&mut way.first[hop]);
        }
        Some(way.other(hop, from, to))
    }
}
