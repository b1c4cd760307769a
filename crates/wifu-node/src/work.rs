//! What working off the packets of its end takes a host: one resource, busy with one packet at a
//! time.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use wifu_engine::Ticket;
use wifu_wire::{FrameFacts, Notes, Span, Time};

/// How long a host works on each packet of its end. Meanwhile the end is not asked for packets, and
/// those that come wait.
//= spec#8.6
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostCost {
    /// On a packet that the end sends: it leaves afterwards.
    pub tx: Span,
    /// On a packet for the end, which has it afterwards.
    pub rx: Span,
    /// Bytes of IP packets that wait at most; what comes beyond is dropped.
    pub buffer: u32,
}

impl HostCost {
    /// A protocol stack in Python on the laptops of the ATP thesis: 1.2 ms and 0.6 ms; the buffer
    /// is that of a kernel's socket.
    pub const PY: HostCost = HostCost {
        tx: Span(1_200_000),
        rx: Span(600_000),
        buffer: 212_992,
    };

    /// With times so many times as long: for hosts whose network runs slower than the clock on the
    /// wall.
    #[must_use]
    pub fn slower(self, times: f64) -> HostCost {
        let longer = |span: Span| Span((span.0 as f64 * times).round() as u64);
        HostCost {
            tx: longer(self.tx),
            rx: longer(self.rx),
            ..self
        }
    }
}

/// What became of the packets of an end whose host takes its time.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct HostCounters {
    /// Packets that it worked off for the end to leave.
    pub sent: u64,
    /// Packets that it worked off for the end to read.
    pub received: u64,
    /// Packets for the end that were dropped: too many bytes waited already.
    pub dropped: u64,
    /// The most bytes that waited.
    pub most_waiting: u32,
    /// Time at work, seconds.
    pub busy_s: f64,
}

/// A packet under work.
#[derive(Clone, Copy)]
pub(crate) enum Doing {
    /// It came.
    In(Ticket, FrameFacts),
    /// It leaves.
    Out(Ticket, Notes),
}

/// A packet that waits for the host.
struct Waiting {
    packet: Ticket,
    facts: FrameFacts,
    bytes: u32,
    since: Time,
}

/// The host's work.
pub(crate) struct Work {
    cost: HostCost,
    doing: Option<Doing>,
    /// When what it is doing will be done.
    until: Time,
    /// When it was done with the last packet, if the next one follows at once. A caller that comes
    /// late does not make the host slower.
    idle: Option<Time>,
    /// The last packet came: if the end has one to send, it is the end's turn.
    inward: bool,
    waiting: VecDeque<Waiting>,
    /// Bytes that wait.
    bytes: u32,
    busy: Span,
    counters: HostCounters,
}

impl Work {
    /// Idle.
    pub(crate) fn new(cost: HostCost) -> Work {
        Work {
            cost,
            doing: None,
            until: Time::ZERO,
            idle: None,
            inward: false,
            waiting: VecDeque::new(),
            bytes: 0,
            busy: Span::ZERO,
            counters: HostCounters::default(),
        }
    }

    /// When what it is doing will be done, if it does anything.
    #[inline]
    pub(crate) fn busy_until(&self) -> Option<Time> {
        self.doing.map(|_| self.until)
    }

    /// Whether what comes goes first, if both came and the end has something to send.
    pub(crate) fn reads_first(&self) -> bool {
        !self.inward
    }

    /// There is nothing to do.
    pub(crate) fn rests(&mut self) {
        self.idle = None;
    }

    /// What it did.
    pub(crate) fn counters(&self) -> HostCounters {
        HostCounters {
            busy_s: self.busy.as_secs_f64(),
            ..self.counters
        }
    }

    /// The end sends a packet: work on it begins.
    pub(crate) fn sends(&mut self, packet: Ticket, notes: Notes, now: Time) {
        self.begin(Doing::Out(packet, notes), Time::ZERO, now);
    }

    /// Work on a packet begins, which was there from `since` on.
    fn begin(&mut self, doing: Doing, since: Time, now: Time) {
        let cost = match doing {
            Doing::In(..) => self.cost.rx,
            Doing::Out(..) => self.cost.tx,
        };
        let from = self
            .idle
            .take()
            .map_or(now, |idle| idle.max(since).min(now));
        self.until = from + cost;
        self.doing = Some(doing);
    }

    /// A packet comes; false if it does not fit.
    pub(crate) fn comes(
        &mut self,
        packet: Ticket,
        facts: FrameFacts,
        bytes: u32,
        since: Time,
    ) -> bool {
        if self.bytes.saturating_add(bytes) > self.cost.buffer {
            self.counters.dropped += 1;
            return false;
        }
        self.bytes += bytes;
        let most = &mut self.counters.most_waiting;
        *most = self.bytes.max(*most);
        self.waiting.push_back(Waiting {
            packet,
            facts,
            bytes,
            since,
        });
        true
    }

    /// The packet that waits longest is taken up, if there is one.
    pub(crate) fn take_up(&mut self, now: Time) -> bool {
        let Some(w) = self.waiting.pop_front() else {
            return false;
        };
        self.bytes -= w.bytes;
        self.begin(Doing::In(w.packet, w.facts), w.since, now);
        true
    }

    /// What was to be done by `now` is done.
    pub(crate) fn done(&mut self, now: Time) -> Option<Doing> {
        if self.until > now {
            return None;
        }
        let done = self.doing.take()?;
        self.idle = Some(self.until);
        self.inward = matches!(done, Doing::In(..));
        let (count, cost) = match self.inward {
            true => (&mut self.counters.received, self.cost.rx),
            false => (&mut self.counters.sent, self.cost.tx),
        };
        *count += 1;
        self.busy = self.busy + cost;
        Some(done)
    }
}
