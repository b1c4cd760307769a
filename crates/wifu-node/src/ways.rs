//! What a node asks its substrate for.

use core::net::Ipv4Addr;
use wifu_engine::{RouteFacts, Ticket};

/// Packets and the ways that they leave by: the substrate's.
pub trait Ways {
    /// What is known of the way to a destination; `None` without a route.
    fn route(&mut self, to: Ipv4Addr) -> Option<RouteFacts>;

    /// Packets that the device takes now on the way to a destination; 0 without a route.
    fn room(&mut self, to: Ipv4Addr) -> u32;

    /// Length of a packet from its IP header on, bytes.
    fn bytes(&self, packet: Ticket) -> usize;

    /// A further packet of the same content. The first one stays where it is.
    fn twin(&mut self, packet: Ticket) -> Ticket;

    /// The lane lets a packet go down itself, of which it may have sent copies.
    fn go(&mut self, packet: Ticket);

    /// Change a packet, from its IP header on, whose length stays. Who shares its content with it
    /// sees no change.
    fn patch(&mut self, packet: Ticket, change: &mut dyn FnMut(&mut [u8]));
}
