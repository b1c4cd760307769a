//! What the nodes before ask of a lane, and what the source is to be told.

use super::table::Phase;
use super::{Count, HopBlock};
use std::collections::VecDeque;
use wifu_engine::component::Cx;
use wifu_engine::{Out, Segment};
use wifu_wire::{Neighbour, Seq, Time, hop};

/// Questions that are owed an answer, or held back, at most: the node before asks for one block at
/// a time, the source for another.
const OPEN: usize = 4;
/// Questions for a block that the destination has, after one of the source's, at most.
const BEGS: u32 = 4;

/// A block that the destination has, of which the source did not hear: asked for until an
/// acknowledgement passes.
#[derive(Clone, Copy)]
pub(super) struct Beg {
    pub first: Seq,
    pub size: u32,
    pub at: Time,
    tries: u32,
}

/// What was asked of this node.
#[derive(Clone, Copy)]
pub(super) struct Question {
    pub first: Seq,
    pub size: u32,
    pub round: u32,
    pub by: Neighbour,
    pub vtx: bool,
}

impl Question {
    /// Whether the same node asks for the same block.
    fn is_same(&self, other: &Question) -> bool {
        (self.by, self.first) == (other.by, other.first)
    }

    /// Onto a list of few, in place of an earlier one for the same block.
    fn note(self, list: &mut VecDeque<Question>) {
        list.retain(|q| !q.is_same(&self));
        if list.len() >= OPEN {
            list.pop_front();
        }
        list.push_back(self);
    }
}

/// See the module.
pub(super) struct Asked {
    /// What is to be answered, and what is not before there is a place.
    pub owed: VecDeque<Question>,
    pub withheld: VecDeque<Question>,
    pub beg: Option<Beg>,
}

impl Asked {
    pub(super) fn new() -> Asked {
        Asked {
            owed: VecDeque::with_capacity(OPEN + 1),
            withheld: VecDeque::with_capacity(OPEN + 1),
            beg: None,
        }
    }
}

impl HopBlock {
    /// The node before asks for a block.
    pub(super) fn questioned(&mut self, q: Question, now: Time) {
        let known = self.arrived(q.first.plus(q.size - 1));
        if known && q.vtx {
            // The source does not know, and only the destination can tell it.
            let same = self
                .asked
                .beg
                .filter(|b| (b.first, b.size) == (q.first, q.size));
            self.asked.beg = Some(Beg {
                first: q.first,
                size: q.size,
                at: same.map_or(now, |b| b.at),
                tries: 0,
            });
        }
        self.asked.withheld.retain(|w| !w.is_same(&q));
        if known || self.table.open(q.first, q.size, q.vtx).is_some() {
            q.note(&mut self.asked.owed);
        } else {
            q.note(&mut self.asked.withheld);
            self.add(Count::HeldBack, 1);
        }
    }

    pub(super) fn on_bsyn(&mut self, seg: &Segment<'_>, by: Neighbour, cx: &mut Cx<'_>) {
        let Some((first, size)) = self.named(seg) else {
            return;
        };
        let [_, _, _, round, _, vtx] = self.words.map(|w| seg.head.get(w));
        self.seen(first.plus(size));
        let q = Question {
            first,
            size,
            round,
            by,
            vtx: vtx == 1,
        };
        self.questioned(q, cx.now);
        if vtx == 1 {
            self.urge(first, cx);
        }
    }

    /// The source asks for a block. What has gone on goes on anew, and what is to go passes what is
    /// behind it: that may wait for it.
    pub(super) fn urge(&mut self, first: Seq, cx: &mut Cx<'_>) {
        let block = self.table.find(first).map(|at| &mut self.table.blocks[at]);
        match block {
            Some(b) if b.phase == Phase::Done => b.again(),
            Some(b) => b.urged = true,
            None => return,
        }
        self.drive(cx);
    }

    /// Which question is answered now.
    pub(super) fn answers(&self, now: Time) -> Option<usize> {
        let comes = |q: &Question| {
            let block = self.table.find(q.first);
            block.is_some_and(|at| self.table.blocks[at].coming())
        };
        let mut owed = self.asked.owed.iter();
        owed.position(|q| now >= self.patient || !comes(q))
    }

    /// Whether the next node is to be asked for a block that the destination has.
    pub(super) fn begs(&self, now: Time) -> bool {
        self.asked.beg.is_some_and(|b| b.at <= now)
    }

    /// The question for that.
    pub(super) fn plead(&mut self, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let Some(beg) = self.asked.beg.take() else {
            return;
        };
        let [kind, block, size, round, _, vtx] = self.words;
        out.head.seq = beg.first;
        for (w, v) in [(kind, hop::BSYN), (block, beg.first.0), (size, beg.size)] {
            out.head.set(w, v);
        }
        // What is answered to it is nothing new.
        out.head.set(round, 0);
        out.head.set(vtx, 1);
        let tries = beg.tries + 1;
        let at = cx.now + self.patience(beg.tries);
        self.asked.beg = (tries < BEGS).then_some(Beg { at, tries, ..beg });
        self.add(Count::Asked, 1);
        self.rearm(cx);
    }

    /// What was held back may have a place.
    pub(super) fn answer_withheld(&mut self) {
        for _ in 0..self.asked.withheld.len() {
            let Some(q) = self.asked.withheld.pop_front() else {
                break;
            };
            let passed = self.arrived(q.first.plus(q.size - 1));
            match passed || self.table.open(q.first, q.size, q.vtx).is_some() {
                true => q.note(&mut self.asked.owed),
                false => self.asked.withheld.push_back(q),
            }
        }
    }
}
