//! What a node knows of a packet while it passes, and what of the node packets meet at all.

use wifu_core::{Hook, Hooks, LinkTo, Released};
use wifu_engine::Ticket;
use wifu_wire::{FrameFacts, Notes};

/// What runs on a node: the hooks at which handlers are asked, and what else there is. Where a bit
/// is not set, packets pass without a look at them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Mask(u16);

impl Mask {
    /// Lanes run there.
    pub const LANES: Mask = Mask(1 << 8);
    /// Lanes or the end want to know what the radio overhears.
    pub const EARS: Mask = Mask(1 << 9);
    /// Lanes or the end want to know what the driver reports.
    pub const STATUS: Mask = Mask(1 << 10);
    /// The host takes its time over packets of the end.
    pub const WORK: Mask = Mask(1 << 11);
    /// Annotations that the node heeds may be on packets that leave.
    pub const NOTED: Mask = Mask(1 << 12);
    /// Connections that pass are split.
    pub const SPLIT: Mask = Mask(1 << 13);

    /// With the bits of these hooks in place of those before.
    #[must_use]
    pub(crate) fn hooks(self, hooks: Hooks) -> Mask {
        let bits = hooks.iter().fold(0, |bits, hook| bits | 1 << hook as u8);
        Mask(self.0 & 0xFF00 | bits)
    }

    /// With these bits, or without them.
    #[must_use]
    pub(crate) fn with(self, bits: Mask, on: bool) -> Mask {
        Mask(if on {
            self.0 | bits.0
        } else {
            self.0 & !bits.0
        })
    }

    /// Whether all of these bits are set.
    #[inline(always)]
    pub fn has(self, bits: Mask) -> bool {
        self.0 & bits.0 == bits.0
    }

    /// Whether any bit is set.
    #[inline(always)]
    pub fn any(self) -> bool {
        self.0 != 0
    }

    /// Whether a handler is asked at a hook.
    #[inline(always)]
    pub fn at(self, hook: Hook) -> bool {
        self.0 & 1 << hook as u8 != 0
    }

    /// Whether packets that come meet nothing here on their way.
    #[inline(always)]
    pub fn is_clear(self) -> bool {
        const HEARD: u16 = 1 << Hook::Overheard as u8;
        const SENT: u16 = 1 << Hook::Output as u8;
        // Who could note anything on what comes is a handler or a lane.
        const OUT: u16 = SENT | Mask::NOTED.0;
        self.0 & !(HEARD | OUT | Mask::EARS.0 | Mask::STATUS.0) == 0
    }

    /// Whether packets that this node sends meet nothing here on their way.
    #[inline(always)]
    pub(crate) fn is_clear_out(self) -> bool {
        const SENT: u16 = 1 << Hook::Output as u8 | 1 << Hook::Postrouting as u8;
        self.0 & (SENT | Mask::LANES.0 | Mask::NOTED.0) == 0
    }

    /// Whether packets that the radio hears for others are of interest.
    pub fn listens(self) -> bool {
        self.at(Hook::Overheard) || self.has(Mask::EARS)
    }
}

/// A packet on its way over a node, from hook to hook.
#[derive(Clone, Copy)]
pub(crate) struct Passage {
    pub(crate) packet: Ticket,
    /// Where it is.
    pub(crate) hook: Hook,
    /// How it came, and what this node's handlers noted on it.
    pub(crate) facts: FrameFacts,
    /// To whom it leaves: what a handler sent may not take the route.
    pub(crate) to: LinkTo,
    /// The copy that chains see is this packet's, but for its TTL.
    pub(crate) copied: bool,
    /// It is for another node, and the splitter has taken it.
    pub(crate) between: bool,
}

impl Passage {
    /// It begins here, with what was noted on it.
    pub(crate) fn here(packet: Ticket, hook: Hook, notes: Notes) -> Passage {
        let facts = FrameFacts {
            notes,
            ..FrameFacts::NONE
        };
        Passage::new(packet, hook, facts)
    }

    /// It begins at `hook`.
    pub(crate) fn new(packet: Ticket, hook: Hook, facts: FrameFacts) -> Passage {
        Passage {
            packet,
            hook,
            facts,
            to: LinkTo::Route,
            copied: false,
            between: false,
        }
    }
}

/// Why a chain is asked about a packet.
#[derive(Clone, Copy)]
pub(crate) enum Asking {
    /// It reached a hook.
    New,
    /// It was held there, and let go.
    Again(Released),
    /// A handler of the chain sent it; by its place.
    Sent(usize),
}
