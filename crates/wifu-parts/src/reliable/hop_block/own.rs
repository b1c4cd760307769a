//! What the own end of a lane sends, until its blocks have a place.

use super::table::Phase;
use super::{Count, HopBlock};
use std::collections::VecDeque;
use wifu_engine::component::Cx;
use wifu_engine::kit::blocks::MOST;
use wifu_engine::{Admit, Ticket};
use wifu_wire::Seq;

/// See the module.
#[derive(Default)]
pub(super) struct Own {
    /// Blocks that the own end cut and whose packets wait in the store.
    cuts: VecDeque<(Seq, u32)>,
    /// Packets of the own end that were taken out of the store before their block has a place, to
    /// come by what the source sends again; and the numbers of that.
    parked: VecDeque<(Ticket, Seq)>,
    rtx: VecDeque<Seq>,
    /// One past the last number that the own end sent for the first time, and that left the store.
    next: Seq,
    taken: Seq,
}

impl HopBlock {
    /// Of the own end, whose packets wait in the store until their block has a place.
    pub(super) fn on_own(&mut self, number: Seq, (first, size): (Seq, u32), again: bool) -> Admit {
        if self.arrived(number) {
            return Admit::Drop("the destination has it");
        }
        let at = self.table.find(number);
        let block = at.map(|at| &mut self.table.blocks[at]);
        if let Some(b) = block.filter(|b| (b.first, b.size()) == (first, size)) {
            if again && b.phase == Phase::Done {
                b.again();
            }
            if b.place(number)
                .is_some_and(|at| b.packets[at].ticket.is_some())
            {
                return Admit::Drop("it has come already");
            }
        }
        let stored = !number.before(self.own.taken) && number.before(self.own.next);
        if again && (stored || self.own.parked.iter().any(|p| p.1 == number)) {
            return Admit::Drop("it has come already");
        }
        if self.own.cuts.back() != Some(&(first, size)) && !self.own.cuts.contains(&(first, size)) {
            self.own.cuts.push_back((first, size));
        }
        if again {
            self.own.rtx.push_back(number);
        } else {
            if number != self.own.next {
                self.own.taken = number;
            }
            self.own.next = number.plus(1);
        }
        Admit::Pass
    }

    /// The own end asks for a block, and may have to send it again: what waits for a place is not
    /// to keep that out.
    pub(super) fn make_room(&mut self, first: Seq, cx: &mut Cx<'_>) {
        self.admit(cx);
        // One that went on is the next node's, which is asked itself.
        let at = self.table.find(first);
        let block = at.map(|at| &mut self.table.blocks[at]);
        if let Some(b) = block.filter(|b| b.phase != Phase::Done) {
            b.urged = true;
        }
        if cx.board.app.room == 0 && self.own.parked.len() < MOST as usize {
            self.unstore(true, cx);
        }
    }

    /// What waits in the store enters its block, if that has a place.
    pub(super) fn admit(&mut self, cx: &mut Cx<'_>) {
        // What the source sends again waits for none.
        for _ in 0..self.own.rtx.len() {
            let Some(number) = self.own.rtx.pop_front() else {
                break;
            };
            match cx.store.take(number) {
                Some(ticket) if !self.enters(ticket, number, true, cx) => {
                    self.add(Count::Refused, 1);
                    cx.out.release(ticket);
                }
                Some(_) => {}
                None => self.own.rtx.push_back(number),
            }
        }
        while let Some((ticket, number)) = self.own.parked.front().copied() {
            if !self.enters(ticket, number, false, cx) {
                break;
            }
            self.own.parked.pop_front();
        }
        while let Some((ticket, number)) = cx.store.front() {
            if !self.enters(ticket, number, false, cx) {
                return;
            }
            self.unstore(false, cx);
        }
        self.own.rtx.clear();
    }

    /// The oldest packet leaves the store.
    fn unstore(&mut self, park: bool, cx: &mut Cx<'_>) {
        let Some((ticket, number)) = cx.store.pop() else {
            return;
        };
        if number.before(self.own.next) && !number.before(self.own.taken) {
            self.own.taken = number.plus(1);
        }
        if park {
            self.own.parked.push_back((ticket, number));
        }
    }

    /// A packet enters its block, or is let go if it has none; false if that has no place yet.
    fn enters(&mut self, ticket: Ticket, number: Seq, again: bool, cx: &mut Cx<'_>) -> bool {
        let covers = |c: &(Seq, u32)| number.since(c.0) < c.1;
        let cut = self.own.cuts.iter().position(covers);
        let found = match cut.map(|at| self.own.cuts[at]) {
            _ if self.arrived(number) => None,
            Some((first, size)) => {
                if again {
                    self.table.displace(first, size, |t| cx.out.release(t));
                }
                let found = self.table.open(first, size, again);
                if found.is_none() {
                    return false;
                }
                found
            }
            None => self.table.find(number),
        };
        // They come in order.
        if let Some(old) = cut.filter(|_| !again && self.own.parked.is_empty()) {
            self.own.cuts.drain(..old);
        }
        let block = found.map(|at| &mut self.table.blocks[at]);
        let spare = match block.and_then(|b| Some((b.place(number)?, b))) {
            Some((at, b)) => {
                // The own end sends again what went on.
                if b.phase == Phase::Done {
                    b.again();
                }
                b.put(at, ticket)
            }
            None => Some(ticket),
        };
        if let Some(ticket) = spare {
            cx.out.release(ticket);
        }
        true
    }
}
