//! What decides about packets after the handlers failed.

use super::gate::{Gate, Inbox, Look, Outbox};
use super::queue::Ticket;
use crate::poller::Poller;
use std::io;
use wifu_core::Hook;
use wifu_wire::Time;

/// Decides instead of handlers that failed.
pub(crate) struct Fallback {
    inbox: Inbox,
    pub(crate) outbox: Outbox,
    /// By queue, the last packet that was counted already.
    counted: [u32; 5],
}

impl Fallback {
    pub(crate) fn new(gate: &Gate) -> Fallback {
        Fallback {
            inbox: Inbox::new(gate),
            outbox: Outbox::new(gate),
            counted: [0; 5],
        }
    }

    /// So many packets of a hook came so far and are counted already.
    pub(crate) fn note_counted(&mut self, hook: Hook, packets: u64) {
        // Ids are numbers of packets, cut to their width.
        self.counted[usize::from(hook.number())] = packets as u32;
    }

    /// Let everything that waits pass, or drop it, until nothing does or the time is over; gives
    /// how many packets were not counted yet.
    pub(crate) fn decide(&mut self, accept: bool, until: Time) -> io::Result<u64> {
        let mut decided = 0;
        loop {
            match self.inbox.look()? {
                Look::Some(n) => decided += self.decide_batch(n, accept),
                Look::Overflow => {}
                Look::Empty => break,
            }
            if Poller::now() >= until {
                break;
            }
        }
        // What was refused before, too.
        self.outbox.hand_over();
        Ok(decided)
    }

    fn decide_batch(&mut self, n: usize, accept: bool) -> u64 {
        let mut decided = 0;
        let mut last = [None; 5];
        for i in 0..n {
            self.inbox.each(i, |queued| {
                let queue = usize::from(queued.queue);
                if let (Some(place), Some(counted)) = (last.get_mut(queue), self.counted.get(queue))
                {
                    *place = Some(queued.id);
                    // Ids may wrap.
                    decided += u64::from((queued.id.wrapping_sub(*counted) as i32) > 0);
                }
            });
        }
        for (queue, id) in (0..).zip(last) {
            if let Some(id) = id {
                self.outbox.verdict_up_to(Ticket { queue, id }, accept);
            }
        }
        self.outbox.hand_over();
        decided
    }
}
