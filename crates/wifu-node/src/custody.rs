//! Flows and their packets as lanes see them: names, limits, accounts, verdicts.

use crate::turn::Scheduler;
use core::net::SocketAddrV4;
use serde::{Deserialize, Serialize};
use wifu_engine::{Ticket, Tuple};
use wifu_wire::{Notes, Span, Time};

/// A flow in one direction, as its packets name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FlowKey {
    /// Number of the composition among those that the node serves.
    pub(crate) served: u16,
    /// IP protocol number.
    pub proto: u8,
    /// The connection's identifier, in formats that carry one.
    pub conn_id: u32,
    /// Where its packets come from.
    pub source: SocketAddrV4,
    /// Where they go.
    pub target: SocketAddrV4,
}

impl FlowKey {
    /// The same flow in the other direction.
    #[must_use]
    pub fn back(self) -> FlowKey {
        FlowKey {
            source: self.target,
            target: self.source,
            ..self
        }
    }

    /// The ends as the sender of its packets sees them.
    pub fn tuple(self) -> Tuple {
        Tuple {
            proto: self.proto,
            local: self.source.into(),
            remote: self.target.into(),
        }
    }
}

/// Limits and identity of a node's lanes.
#[derive(Clone, Debug)]
pub struct LanesConfig {
    /// This node, for people.
    pub node: u32,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Most lanes at once. The one idle longest makes room if it holds nothing; if all hold
    /// packets, data of a further flow are dropped and counted.
    pub most: usize,
    /// A lane that saw no packet for so long is closed, and what it holds is dropped.
    pub idle: Span,
    /// Whose turn it is.
    pub scheduler: Scheduler,
}

impl Default for LanesConfig {
    fn default() -> LanesConfig {
        LanesConfig {
            node: 0,
            mtu: 1500,
            most: 1_024,
            idle: Span::SECOND * 30,
            scheduler: Scheduler::default(),
        }
    }
}

/// The account of a node's lanes, all flows together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct LaneCounters {
    /// Packets taken into custody.
    pub taken: u64,
    /// Packets handed down, repetitions included.
    pub sent: u64,
    /// Packets that parts of lanes made.
    pub made: u64,
    /// Of these, those that no device took.
    pub unsent: u64,
    /// Overheard packets that name another transmitter than the link did.
    pub strangers: u64,
    /// Of those handed down, packets that the lane kept, to hand them down again if need be.
    #[serde(alias = "copies")]
    pub kept: u64,
    /// Packets whose checksum is wrong: dropped, and not believed where they are overheard.
    pub damaged: u64,
    /// Packets that came back because nothing would take them.
    pub returned: u64,
    /// Packets dropped: the lane was full.
    pub full: u64,
    /// Packets dropped by a part of a lane.
    pub refused: u64,
    /// Packets dropped because no further lane could be opened.
    pub unlaned: u64,
    /// Packets dropped with their lane, which was idle.
    pub idled: u64,
    /// Lanes opened.
    pub opened: u64,
    /// The most packets that waited in one lane.
    pub most: u32,
}

/// What lanes make of a packet that passes.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// It goes on.
    On,
    /// It was meant for the lane of the next node, and ends here.
    Here,
    /// A part dropped it.
    Dropped(&'static str),
}

/// What lanes make of a packet that is about to leave.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Took {
    /// It leaves now: no lane is for it.
    Not,
    /// A lane has it.
    Taken,
    /// Its lane is full, or none could be opened.
    Dropped,
}

/// Where a packet that a lane sees comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Over a link, and it goes on from here.
    Link,
    /// Over a link, and it is for this node.
    ForHere,
    /// Over a link, for all who hear; another node than this one is its destination.
    Heard,
    /// From this node's own end.
    Own,
}

/// A packet in the custody of a lane.
pub(crate) struct Held {
    pub(crate) ticket: Ticket,
    /// What was noted on it.
    pub(crate) notes: Notes,
    /// When it was too late last, as a copy of it was handed down.
    pub(crate) late: Option<Time>,
}

impl Held {
    pub(crate) fn new(ticket: Ticket, notes: Notes) -> Held {
        let late = None;
        Held {
            ticket,
            notes,
            late,
        }
    }
}
