//! What handlers send.

use super::{Replaced, Worker};
use crate::core::held::Held;
use crate::core::queue::Ticket;
use crate::core::repair::Borrowed;
use wifu_core::{Hook, Packet, Sending, Verdict, What, ip};
use wifu_wire::{LinkTo, Time};

/// In place of a queue's number: packets that handlers sent.
const SENT: u16 = 6;

impl Worker {
    /// Let a packet of a handler leave. What goes along routes comes by the hook `postrouting` if
    /// that is ours; about what does not, the handlers there are asked here.
    pub(super) fn send(&mut self, sending: Sending, now: Time) -> Result<(), Replaced> {
        let Sending { by, what, to, .. } = sending;
        let octets = match what {
            What::Octets(mut octets) => {
                ip::repair(&mut octets);
                octets
            }
            What::Kept { ticket, stays } => {
                // Its octets are there as long as the chain knows of it.
                let octets = self.copies.get(ticket).map(<[u8]>::to_vec);
                if !stays {
                    self.copies.forget(ticket);
                }
                let Some(octets) = octets else { return Ok(()) };
                octets
            }
        };
        if to != LinkTo::Route && self.wired.has(Hook::Postrouting) {
            self.ask_about(&octets, (by, to), now)?;
        } else {
            self.leave(by, &octets, to);
        }
        self.chain.recycle(octets);
        Ok(())
    }

    /// Ask the handlers at `postrouting` about a packet that none of our queues shows.
    fn ask_about(
        &mut self,
        sent: &[u8],
        (by, to): (usize, LinkTo),
        now: Time,
    ) -> Result<(), Replaced> {
        self.asked_about = self.asked_about.wrapping_add(1);
        let ticket = Ticket {
            queue: SENT,
            id: self.asked_about,
        };
        let mut room = core::mem::take(&mut self.room);
        let mut copies = self.lend_copies();
        let mut octets = Borrowed::new(sent, &mut room).kept_in(&mut copies, true);
        let mut packet = Packet::new(&mut octets, ticket.number());
        let hook = Hook::Postrouting;
        self.shared.step();
        let (chain, here) = (&mut self.chain, &self.here);
        let verdict = chain.on_sent(by, hook, &mut packet, now, here);
        self.shared.step();
        self.check()?;
        let changed = octets.repaired();
        self.copies = copies;
        match verdict {
            Verdict::Drop(_) => {}
            Verdict::Accept => self.leave(by, changed.unwrap_or(sent), to),
            Verdict::Hold => {
                let held = Held {
                    octets: changed.unwrap_or(sent).to_vec(),
                    changed: changed.is_some(),
                    whole: true,
                    partial: false,
                    hook,
                    source: None,
                    device: 0,
                    sent: Some((by, to)),
                };
                self.hold(ticket, held, now);
            }
        }
        self.room = room;
        Ok(())
    }

    /// A packet of a handler leaves, or is counted with the reason why not.
    pub(super) fn leave(&mut self, by: usize, octets: &[u8], to: LinkTo) {
        let sent = match &mut self.sender {
            Some(sender) => sender.send(by, octets, to),
            None => Err("sent, but there is no socket to send by"),
        };
        if let Err(why) = sent {
            self.chain.unsent(by, why);
        }
    }
}
