//! A node: the end, the handlers and the lanes of one host.

use crate::Ways;
use crate::down::Down;
use crate::heeds::{Heeded, Heeds};
use crate::lanes::Lanes;
use crate::passage::{Mask, Passage};
use crate::split::Split;
use crate::work::{HostCost, HostCounters, Work};
use std::collections::BTreeMap;
use wifu_core::{Chain, Counters};
use wifu_engine::Endpoint;
use wifu_wire::{Notes, Time};

/// What runs on one host: an end with its connections, handlers at the hooks, lanes. Sans-IO; a
/// substrate hands it what happens ([`Node::arrive`], [`Node::overhear`], [`Node::report`],
/// [`Node::reroute`], [`Node::handle_timeout`]) and does what it asks for ([`Ways`]).
///
/// After that, if the node is stirred ([`Node::is_stirred`]), and always after a timeout, after
/// calls of the end ([`Node::end_mut`]) and when a device has room again: poll the end's events and
/// [`Node::transmit`] until neither gives anything. Then sleep until [`Node::poll_timeout`].
pub struct Node {
    pub(crate) number: u16,
    pub(crate) mask: Mask,
    pub(crate) chain: Option<Box<Chain>>,
    pub(crate) lanes: Option<Box<Lanes>>,
    pub(crate) end: Option<Box<Endpoint>>,
    /// What stands between the ends of connections that pass, if anything.
    pub(crate) split: Option<Box<Split>>,
    /// What its packets take the host, if anything.
    pub(crate) work: Option<Box<Work>>,
    /// Held packets, as they were when the chain took them.
    pub(crate) held: BTreeMap<u32, Passage>,
    /// The annotations that it heeds.
    pub(crate) heeds: Heeds,
    pub(crate) heeded: Heeded,
    /// What was noted on packets with which the substrate is not done yet.
    pub(crate) later: BTreeMap<u32, Notes>,
    /// A packet while the chain sees it.
    pub(crate) octets: Vec<u8>,
    /// What a lane is handing down at this moment.
    pub(crate) going: Option<Going>,
    /// The end may have news, or something to send.
    pub(crate) stirred: bool,
    /// Lanes are asked before the end when both may have something to send, every other time.
    lanes_first: bool,
}

/// What a lane is handing down at this moment.
#[derive(Clone, Copy)]
pub(crate) struct Going {
    pub(crate) down: Down,
    /// No device took it.
    pub(crate) refused: bool,
}

impl Node {
    /// A node on which nothing runs; its number is for people.
    pub fn new(number: u16) -> Node {
        Node {
            number,
            mask: Mask::default(),
            chain: None,
            lanes: None,
            end: None,
            split: None,
            work: None,
            held: BTreeMap::new(),
            heeds: Heeds::default(),
            heeded: Heeded::default(),
            later: BTreeMap::new(),
            octets: Vec::new(),
            going: None,
            stirred: false,
            lanes_first: false,
        }
    }

    /// Put handlers at the node, in place of those before.
    pub fn set_chain(&mut self, chain: Chain) {
        self.mask = self.mask.hooks(chain.hooks());
        self.chain = Some(Box::new(chain));
    }

    /// Put lanes at the node.
    pub fn set_lanes(&mut self, lanes: Lanes) {
        let (ears, status) = (lanes.overhears(), lanes.wants_status());
        self.mask = self.mask.with(Mask::LANES, true);
        self.listen(ears, status);
        self.lanes = Some(Box::new(lanes));
    }

    /// Give the node its end.
    pub fn set_end(&mut self, mut end: Endpoint) {
        if self.mask.has(Mask::WORK) {
            end.set_worked();
        }
        self.end = Some(Box::new(end));
    }

    /// Its host takes its time over each packet of the end from now on.
    pub fn set_cost(&mut self, cost: HostCost) {
        self.mask = self.mask.with(Mask::WORK, true);
        self.work = Some(Box::new(Work::new(cost)));
        if let Some(end) = self.end.as_deref_mut() {
            end.set_worked();
        }
    }

    /// What its host did, if that takes time.
    pub fn host(&self) -> Option<HostCounters> {
        self.work.as_deref().map(Work::counters)
    }

    /// Connections of the end hear what the radio overhears, or what the driver reports.
    pub fn listen(&mut self, overhear: bool, status: bool) {
        let mask = self.mask;
        self.mask = mask
            .with(Mask::EARS, overhear || mask.has(Mask::EARS))
            .with(Mask::STATUS, status || mask.has(Mask::STATUS));
    }

    /// What runs here.
    #[inline(always)]
    pub fn mask(&self) -> Mask {
        self.mask
    }

    /// The end, if there is one.
    #[inline]
    pub fn end(&self) -> Option<&Endpoint> {
        self.end.as_deref()
    }

    /// The same, to call it.
    #[inline]
    pub fn end_mut(&mut self) -> Option<&mut Endpoint> {
        self.end.as_deref_mut()
    }

    /// The lanes, if there are any.
    pub fn lanes(&self) -> Option<&Lanes> {
        self.lanes.as_deref()
    }

    /// The lanes, to ask them about packets.
    pub fn lanes_mut(&mut self) -> Option<&mut Lanes> {
        self.lanes.as_deref_mut()
    }

    /// The end, to call it, and the lanes beside it.
    #[inline]
    pub fn end_and_lanes(&mut self) -> (Option<&mut Endpoint>, Option<&Lanes>) {
        (self.end.as_deref_mut(), self.lanes.as_deref())
    }

    /// Handlers by name, with their accounts.
    pub fn counters(&self) -> impl Iterator<Item = (&str, Counters)> {
        self.chain.as_deref().into_iter().flat_map(Chain::counters)
    }

    /// Whether the end may have news, or end or lanes something to send, since
    /// [`Node::transmit`] was called last.
    pub fn is_stirred(&self) -> bool {
        self.stirred
    }

    /// When the next thing is due; a full device may take packets again then.
    pub fn poll_timeout(&mut self, ways: &mut impl Ways) -> Time {
        let chain = self.chain.as_deref();
        let mut at = chain.map_or(Time::NEVER, Chain::poll_timeout);
        if let Some(lanes) = self.lanes.as_deref() {
            at = at.min(lanes.poll_timeout()).min(lanes.retries());
            for to in lanes.stuck() {
                at = at.min(ways.room_toward_at(to));
            }
        }
        let busy = self.work.as_deref().and_then(Work::busy_until);
        if let Some(end) = self.end.as_deref_mut() {
            if let Some(until) = busy {
                // What waits to be sent waits for the host, not for time.
                end.set_room(0);
                at = at.min(until);
            } else if end.is_waiting() {
                at = at.min(ways.tell_room(end));
            }
            at = at.min(end.poll_timeout());
        }
        if self.mask.has(Mask::SPLIT) {
            let split = self.split.as_deref_mut();
            at = at.min(split.map_or(Time::NEVER, |split| split.poll_timeout(ways)));
        }
        at
    }

    /// Split the connections that pass the node.
    pub fn set_split(&mut self, split: Split) {
        self.mask = self.mask.with(Mask::SPLIT, true);
        let (overhear, status) = split.listens();
        self.listen(overhear, status);
        self.split = Some(Box::new(split));
    }

    /// What splits them, if anything.
    pub fn split(&self) -> Option<&Split> {
        self.split.as_deref()
    }

    /// The same, to call it.
    pub fn split_mut(&mut self) -> Option<&mut Split> {
        self.split.as_deref_mut()
    }

    /// What is due.
    pub fn handle_timeout(&mut self, ways: &mut impl Ways) {
        let now = ways.now();
        let chain = self.chain.as_deref();
        if chain.is_some_and(|c| c.poll_timeout() <= now) {
            self.chain_due(ways);
        }
        if let Some(lanes) = self.lanes.as_deref_mut() {
            lanes.handle_timeout(now);
        }
        if self.mask.has(Mask::WORK) {
            self.worked(ways);
        }
        // Deadlines move later far more often than earlier: it may turn out that nothing is due.
        if let Some(end) = self.end.as_deref_mut()
            && end.poll_timeout() <= now
        {
            end.handle_timeout(now);
        }
        if let Some(split) = self.split.as_deref_mut() {
            split.handle_timeout(now);
        }
    }

    /// Send what end and lanes have to send now. Neither is always first: a lane does not take all
    /// the room there is. True if there may be more: it is to be called again.
    #[inline]
    pub fn transmit(&mut self, ways: &mut impl Ways) -> bool {
        self.stirred = false;
        let between = self.mask.has(Mask::SPLIT) && self.send_between(ways);
        if self.lanes.is_none() {
            return self.send_own(ways) || between;
        }
        let sent = if self.lanes_first {
            self.lanes_first = !self.hand_down(ways);
            self.send_own(ways)
        } else {
            let sent = self.send_own(ways);
            self.lanes_first = sent;
            self.hand_down(ways);
            sent
        };
        // What left a lane gave its end room.
        sent || between || self.stirred
    }

    #[inline]
    fn send_own(&mut self, ways: &mut impl Ways) -> bool {
        if self.mask.has(Mask::WORK) {
            return self.take_up(ways);
        }
        let Some(end) = self.end.as_deref_mut() else {
            return false;
        };
        if !end.is_waiting() {
            return false;
        }
        ways.tell_room(end);
        let mut any = false;
        while let Some(end) = self.end.as_deref_mut()
            && let Some((packet, notes)) = ways.emit(end)
        {
            any = true;
            self.originate(ways, packet, notes);
            if self.mask.has(Mask::LANES)
                && let Some(end) = self.end.as_deref_mut()
            {
                // What entered a lane may have left it at once.
                ways.tell_room(end);
            }
        }
        any
    }

    /// Move what can be moved between halves, and send what they have to send now. True if there
    /// may be more.
    #[inline(never)]
    fn send_between(&mut self, ways: &mut impl Ways) -> bool {
        let Some(split) = self.split.as_deref_mut() else {
            return false;
        };
        let mut any = split.news(ways);
        let end = split.end_mut();
        if !end.is_waiting() {
            return any;
        }
        ways.tell_room(end);
        while let Some((packet, notes)) = self.split.as_deref_mut().and_then(|s| s.emit(ways)) {
            any = true;
            self.originate(ways, packet, notes);
        }
        any
    }

    /// Annotations that may be on packets that leave from now on, and mean something to the node.
    pub fn heed(&mut self, heeds: Heeds) {
        self.mask = self.mask.with(Mask::NOTED, heeds != Heeds::default());
        self.heeds = heeds;
    }

    /// What became of packets by annotations that it heeds.
    pub fn heeded(&self) -> Heeded {
        self.heeded
    }
}
