//! Whose turn it is among the lanes of a node that have packets for a link.

use crate::ways::Toward;
use core::str::FromStr;
use std::collections::VecDeque;
use wifu_wire::Time;

/// What a lane may send per round, bytes (HxH thesis: fair queuing; a full Ethernet frame's).
pub(crate) const QUANTUM: i64 = 1_500;

/// How lanes share the links of their node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scheduler {
    /// Deficit round robin: the same number of bytes for each. A packet is charged when it left,
    /// for only then its lane has said which one it is.
    #[default]
    DeficitRoundRobin,
    /// The packet that came first, of those whose lanes let them go.
    Fifo,
    /// The lane that was opened first, as long as it has something to send.
    Strict,
}

impl Scheduler {
    /// All, by name.
    pub const ALL: [(&'static str, Scheduler); 3] = [
        ("drr", Scheduler::DeficitRoundRobin),
        ("fifo", Scheduler::Fifo),
        ("strict", Scheduler::Strict),
    ];

    /// Its word in `host.lanes`.
    pub fn name(self) -> &'static str {
        Scheduler::ALL[self as usize].0
    }
}

impl FromStr for Scheduler {
    type Err = String;
    fn from_str(s: &str) -> Result<Scheduler, String> {
        let found = Scheduler::ALL.into_iter().find(|(name, _)| *name == s);
        found.map(|f| f.1).ok_or_else(|| {
            let names = Scheduler::ALL.map(|s| s.0).join(", ");
            format!("no scheduler \"{s}\"; there are {names}")
        })
    }
}

/// A lane's part in it.
#[derive(Debug)]
pub(crate) struct Turn {
    /// It may have something to send.
    pub(crate) active: bool,
    /// Bytes that it may send in this round; below zero after a packet larger than was left.
    pub(crate) credit: i64,
    /// Its way has no room: nothing of it leaves before the next poll.
    pub(crate) stuck: bool,
    /// Which ways had no room at the last poll: ahead, back, and that of what waits.
    pub(crate) full: [Option<Toward>; 3],
    /// A device that had room refused a packet of it, or one was too late twice at once: nothing of
    /// it leaves before.
    pub(crate) refused: Option<Time>,
    /// Its number among the lanes of the node since the beginning.
    pub(crate) opened: u64,
    /// When its waiting packets came, as a running number.
    came: VecDeque<u64>,
}

impl Turn {
    pub(crate) fn new(opened: u64, packets: usize) -> Turn {
        Turn {
            active: false,
            credit: 0,
            stuck: false,
            full: [None; 3],
            refused: None,
            opened,
            came: VecDeque::with_capacity(packets + 1),
        }
    }

    /// A packet came.
    pub(crate) fn came(&mut self, stamp: u64) {
        self.came.push_back(stamp);
    }

    /// A packet of so many bytes, for which it was charged, did not leave.
    pub(crate) fn refund(&mut self, bytes: u32) {
        self.credit += i64::from(bytes);
    }

    /// A packet came back.
    pub(crate) fn back(&mut self, stamp: u64) {
        let first = self.came.front().copied().unwrap_or(stamp);
        self.came.push_front(first);
    }

    /// A packet of so many bytes left, and so many still wait: one that was kept waits no more.
    pub(crate) fn left(&mut self, bytes: usize, queued: u32) {
        while self.came.len() > queued as usize {
            self.came.pop_front();
        }
        self.credit -= bytes as i64;
    }

    /// Nothing to send: what is left of the round is lost, what is owed is not.
    pub(crate) fn rest(&mut self) {
        self.active = false;
        self.credit = self.credit.min(0);
    }

    /// When the oldest packet that waits came; first of all if only kept ones are to go again.
    pub(crate) fn first(&self) -> u64 {
        self.came.front().copied().unwrap_or(0)
    }
}
