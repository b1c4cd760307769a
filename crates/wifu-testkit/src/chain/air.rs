//! Links, frames on their way, and the order of events.

use core::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use wifu_wire::{Rate, Rng, Span, Time};

/// One hop, both directions alike.
#[derive(Clone, Copy, Debug)]
pub struct LinkPlan {
    /// Rate.
    pub rate: Rate,
    /// Propagation.
    pub delay: Span,
    /// Frames that wait at most, the one on the air not counted.
    pub queue: usize,
    /// Probability, in parts of 2^32, that the addressee does not receive a frame.
    pub loss: u32,
    /// The same for the neighbour that overhears it.
    pub deaf: u32,
}

/// What a handler may know of the link that it sends by.
#[derive(Clone, Copy, Debug)]
pub struct LinkFacts {
    /// Frames that wait or are on the air.
    pub queued: usize,
    /// Average time from entering the queue to leaving the air (weight 0.75, Behaviour 7.1); `None`
    /// before the first frame.
    pub delay: Option<Span>,
    /// Rate.
    pub rate: Rate,
}

/// A frame about to enter a link, for a handler.
pub struct Hop<'a> {
    /// The present.
    pub now: Time,
    /// The node.
    pub node: usize,
    /// From source to sink.
    pub onward: bool,
    /// The transport header and payload.
    pub bytes: &'a mut [u8],
    /// The link.
    pub link: LinkFacts,
}

/// One direction of a hop.
#[derive(Debug)]
pub struct Link {
    plan: LinkPlan,
    first: VecDeque<(u32, Time)>,
    queue: VecDeque<(u32, Time)>,
    busy: Option<(u32, Time)>,
    delay: Option<Span>,
    cut_until: Time,
    rng: Rng,
    /// Frames sent.
    pub sent: u64,
    /// Frames that found the queue full.
    pub overflows: u64,
    /// Frames that the addressee did not receive.
    pub lost: u64,
    /// The most frames that ever waited.
    pub most: usize,
}

impl Link {
    /// How many frames the queue takes.
    pub fn room(&self) -> u32 {
        self.plan.queue.saturating_sub(self.queue.len()) as u32
    }

    /// What handlers may know.
    pub fn facts(&self) -> LinkFacts {
        LinkFacts {
            queued: self.queue.len() + self.first.len() + usize::from(self.busy.is_some()),
            delay: self.delay,
            rate: self.plan.rate,
        }
    }
}

/// A frame.
#[derive(Debug, Default)]
pub struct Frame {
    /// Transport header and payload.
    pub bytes: Vec<u8>,
    /// TTL as it stands in the IP header.
    pub ttl: u8,
    /// From source to sink.
    pub onward: bool,
    /// The node that transmitted it last.
    pub transmitter: usize,
}

/// What happens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Happening {
    /// A frame left the air.
    Done {
        /// Who sent it.
        node: usize,
        /// Which way.
        onward: bool,
    },
    /// A frame reaches its addressee.
    Arrive {
        /// Where.
        node: usize,
        /// Which.
        frame: u32,
    },
    /// A frame reaches somebody else.
    Hear {
        /// Where.
        node: usize,
        /// Which.
        frame: u32,
    },
}

/// When what happens; `order` tells apart what happens at one instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Event {
    at: Time,
    order: u64,
    /// What.
    pub what: Happening,
}

/// All links, frames and events. Frames live in a pool, so that steady traffic allocates nothing.
pub struct Air {
    /// Per node: its links onward and back.
    links: Vec<[Link; 2]>,
    frames: Vec<Frame>,
    free: Vec<u32>,
    events: BinaryHeap<Reverse<Event>>,
    order: u64,
    ttl: u8,
    /// Of everything transmitted.
    pub hash: u64,
}

const FRAMES: usize = 512;

impl Air {
    /// Idle links.
    pub fn new(plans: &[LinkPlan], rng: &Rng, ttl: u8) -> Air {
        let link = |node: usize, onward: bool| {
            let plan = plans[if onward { node } else { node.wrapping_sub(1) }.min(plans.len() - 1)];
            Link {
                plan,
                first: VecDeque::with_capacity(64),
                queue: VecDeque::with_capacity(plan.queue + 1),
                busy: None,
                delay: None,
                cut_until: Time::ZERO,
                rng: rng
                    .split(if onward { "onward" } else { "back" })
                    .split_n(node as u64),
                sent: 0,
                overflows: 0,
                lost: 0,
                most: 0,
            }
        };
        let frame = || Frame {
            bytes: Vec::with_capacity(2048),
            ..Frame::default()
        };
        Air {
            links: (0..=plans.len())
                .map(|n| [link(n, true), link(n, false)])
                .collect(),
            frames: (0..FRAMES).map(|_| frame()).collect(),
            free: (0..FRAMES as u32).collect(),
            events: BinaryHeap::with_capacity(2 * FRAMES),
            order: 0,
            ttl,
            hash: 0xCBF2_9CE4_8422_2325,
        }
    }

    pub(super) fn link(&self, node: usize, onward: bool) -> &Link {
        &self.links[node][usize::from(!onward)]
    }

    pub(super) fn rate(&self, node: usize, onward: bool) -> Rate {
        self.link(node, onward).plan.rate
    }

    pub(super) fn link_and_frame(&mut self, node: usize, frame: u32) -> (&Link, &mut Frame) {
        let frame = &mut self.frames[frame as usize];
        (&self.links[node][usize::from(!frame.onward)], frame)
    }

    pub(super) fn frame(&self, frame: u32) -> &Frame {
        &self.frames[frame as usize]
    }

    pub(super) fn frame_mut(&mut self, frame: u32) -> &mut Frame {
        &mut self.frames[frame as usize]
    }

    /// A fresh frame.
    pub(super) fn take(&mut self, transmitter: usize, onward: bool) -> u32 {
        let n = self.free.pop().unwrap_or_else(|| {
            self.frames.push(Frame::default());
            self.frames.len() as u32 - 1
        });
        let f = &mut self.frames[n as usize];
        (f.ttl, f.onward, f.transmitter) = (self.ttl, onward, transmitter);
        n
    }

    /// A copy of a frame.
    pub(super) fn copy(&mut self, of: u32) -> u32 {
        let (from, onward) = (self.frame(of).transmitter, self.frame(of).onward);
        let n = self.take(from, onward);
        let mut bytes = core::mem::take(&mut self.frames[n as usize].bytes);
        bytes.clear();
        bytes.extend_from_slice(&self.frames[of as usize].bytes);
        let ttl = self.frames[of as usize].ttl;
        let f = &mut self.frames[n as usize];
        (f.bytes, f.ttl) = (bytes, ttl);
        n
    }

    pub(super) fn give_back(&mut self, frame: u32) {
        debug_assert!(!self.free.contains(&frame), "a frame was given back twice");
        self.free.push(frame);
    }

    pub(super) fn cut(&mut self, node: usize, onward: bool, until: Time) {
        self.links[node][usize::from(!onward)].cut_until = until;
    }

    pub(super) fn set_rate(&mut self, node: usize, onward: bool, rate: Rate) {
        self.links[node][usize::from(!onward)].plan.rate = rate;
    }

    pub(super) fn next(&self) -> Time {
        self.events.peek().map_or(Time::NEVER, |e| e.0.at)
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        self.events.pop().map(|e| e.0)
    }

    fn at(&mut self, at: Time, what: Happening) {
        self.order += 1;
        let order = self.order;
        self.events.push(Reverse(Event { at, order, what }));
    }

    /// A frame joins the queue of its link; `first` is before all others, and never refused.
    pub(super) fn enter(&mut self, now: Time, node: usize, frame: u32, first: bool) {
        let onward = self.frames[frame as usize].onward;
        self.frames[frame as usize].transmitter = node;
        let link = &mut self.links[node][usize::from(!onward)];
        if first {
            link.first.push_back((frame, now));
        } else if link.room() > 0 || (link.busy.is_none() && link.queue.is_empty()) {
            link.queue.push_back((frame, now));
        } else {
            link.overflows += 1;
            self.give_back(frame);
        }
        self.serve(now, node, onward);
        let link = &mut self.links[node][usize::from(!onward)];
        link.most = link.most.max(link.queue.len());
    }

    fn serve(&mut self, now: Time, node: usize, onward: bool) {
        let link = &mut self.links[node][usize::from(!onward)];
        if link.busy.is_some() {
            return;
        }
        link.busy = link.first.pop_front().or_else(|| link.queue.pop_front());
        let Some((frame, _)) = link.busy else { return };
        link.sent += 1;
        let bytes = &self.frames[frame as usize].bytes;
        let airtime = link.plan.rate.time_for((bytes.len() + super::IP) as u64);
        let mut hash = self.hash ^ now.0 ^ (node as u64) << 56 ^ u64::from(onward) << 55;
        for b in bytes {
            hash = (hash ^ u64::from(*b)).wrapping_mul(0x0100_0000_01B3);
        }
        self.hash = hash;
        self.at(now + airtime, Happening::Done { node, onward });
    }

    /// The frame on the air is through: it flies on, perhaps to two nodes.
    pub(super) fn done(&mut self, now: Time, node: usize, onward: bool, hear: bool) {
        let last = self.links.len() - 1;
        let link = &mut self.links[node][usize::from(!onward)];
        let Some((frame, since)) = link.busy.take() else {
            return;
        };
        let (sample, plan) = (now - since, link.plan);
        link.delay = Some(link.delay.map_or(sample, |d| (d * 3 + sample) / 4));
        let lost = link.rng.chance(plan.loss) || now < link.cut_until;
        let deaf = link.rng.chance(plan.deaf);
        link.lost += u64::from(lost);
        let (to, other) = if onward {
            (node + 1, node.checked_sub(1))
        } else {
            (node - 1, (node < last).then_some(node + 1))
        };
        if let (Some(other), true, false) = (other, hear, deaf) {
            let frame = self.copy(frame);
            self.at(now + plan.delay, Happening::Hear { node: other, frame });
        }
        if lost {
            self.give_back(frame);
        } else {
            self.at(now + plan.delay, Happening::Arrive { node: to, frame });
        }
        self.serve(now, node, onward);
    }
}
