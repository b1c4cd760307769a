//! A packet between its arrival and its verdict: held by a handler, or on its way.

use super::queue::Ticket;
use wifu_core::Hook;
use wifu_wire::{LinkTo, Neighbour};

/// A packet that a handler holds; the kernel keeps the original.
pub(super) struct Held {
    pub(super) octets: Vec<u8>,
    pub(super) changed: bool,
    /// A change can be applied.
    pub(super) whole: bool,
    /// Its transport checksum is not filled in yet.
    pub(super) partial: bool,
    pub(super) hook: Hook,
    pub(super) source: Option<Neighbour>,
    pub(super) device: u32,
    /// A handler sends it: the place of that, and to whom.
    pub(super) sent: Option<(usize, LinkTo)>,
}

/// A packet that goes on.
pub(super) struct Passing<'a> {
    pub(super) hook: Hook,
    pub(super) ticket: Ticket,
    /// As it came, and as it was changed if it was.
    pub(super) original: &'a [u8],
    pub(super) changed: Option<&'a [u8]>,
    /// A change can be applied.
    pub(super) whole: bool,
    /// Number of the interface that it leaves by.
    pub(super) device: u32,
    /// A handler sends it: the place of that, and to whom.
    pub(super) sent: Option<(usize, LinkTo)>,
}

impl Held {
    /// It goes on, as it was changed now or before.
    pub(super) fn passing<'a>(&'a self, ticket: Ticket, changed: Option<&'a [u8]>) -> Passing<'a> {
        Passing {
            hook: self.hook,
            ticket,
            original: &self.octets,
            changed: changed.or(self.changed.then_some(&self.octets[..])),
            whole: self.whole,
            device: self.device,
            sent: self.sent,
        }
    }
}
