//! What a node does with packets that pass through it (spec 3, design 7.8): handlers on the way.

use super::pool::Pool;
use wifu_wire::Time;

/// Where a handler sees a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hook {
    /// It is for this node.
    Input,
    /// It goes on.
    Forward,
    /// It comes from this node.
    Output,
    /// It was for another node.
    Overheard,
}

/// What becomes of it.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It goes on.
    Accept,
    /// It is dropped and counted.
    Drop,
}

/// A packet at a hook.
pub struct HopPacket<'a> {
    pub(crate) pool: &'a mut Pool,
    pub(crate) id: u32,
    /// Where.
    pub node: u16,
    /// Who transmitted it; this node itself at [`Hook::Output`].
    pub from: u16,
    /// When.
    pub now: Time,
    /// Received power, dBm; 0 if it did not come by radio.
    pub rssi_dbm: i8,
}

impl HopPacket<'_> {
    /// Its octets from the IP header on. The TTL in them is that of the first hop.
    pub fn bytes(&self) -> &[u8] {
        self.pool.octets(self.id)
    }

    /// Its octets to change. They are this node's own from then on: what it changes is seen by the
    /// hops after it and by nobody else.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.pool.own(self.id)
    }

    /// Its TTL here.
    pub fn ttl(&self) -> u8 {
        self.pool[self.id].ttl
    }
}

/// A handler at one node.
pub trait Handler {
    /// A packet passes.
    fn on_packet(&mut self, hook: Hook, packet: &mut HopPacket<'_>) -> Verdict;
}
