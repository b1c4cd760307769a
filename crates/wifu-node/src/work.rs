//! What working off the packets of its end takes a host: one resource, busy with one packet at a
//! time.

use crate::node::Node;
use crate::passage::Mask;
use crate::ways::{Lost, Ways};
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
enum Doing {
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
    fn new(cost: HostCost) -> Work {
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
    fn comes(&mut self, packet: Ticket, facts: FrameFacts, bytes: u32, since: Time) -> bool {
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
    fn take_up(&mut self, now: Time) -> bool {
        let Some(w) = self.waiting.pop_front() else {
            return false;
        };
        self.bytes -= w.bytes;
        self.begin(Doing::In(w.packet, w.facts), w.since, now);
        true
    }

    /// What was to be done by `now` is done.
    fn done(&mut self, now: Time) -> Option<Doing> {
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

impl Node {
    /// Its host takes its time over each packet of the end from now on.
    pub fn set_cost(&mut self, cost: HostCost) {
        self.mask = self.mask.with(Mask::WORK, true);
        self.work = Some(Box::new(Work::new(cost)));
    }

    /// What its host did, if that takes time.
    pub fn host(&self) -> Option<HostCounters> {
        let work = self.work.as_deref()?;
        let busy_s = work.busy.as_secs_f64();
        Some(HostCounters {
            busy_s,
            ..work.counters
        })
    }

    /// Until when the host is at work, if it is.
    #[inline]
    pub(crate) fn busy_until(&self) -> Option<Time> {
        let work = self.work.as_deref()?;
        work.doing.map(|_| work.until)
    }

    /// A packet for the end came to its host.
    pub(crate) fn comes(&mut self, ways: &mut impl Ways, packet: Ticket, facts: FrameFacts) {
        let (now, bytes) = (ways.now(), ways.octets(packet).len() as u32);
        let Some(work) = self.work.as_deref_mut() else {
            return;
        };
        match work.comes(packet, facts, bytes, now) {
            true => self.stirred = true,
            false => ways.lose(packet, Lost::Host),
        }
    }

    /// The host takes up what is next, of what came and what the end sends in turns; false if
    /// there is nothing, or it is at work.
    #[inline(never)]
    pub(crate) fn take_up(&mut self, ways: &mut impl Ways) -> bool {
        let now = ways.now();
        let Some(work) = self.work.as_deref_mut() else {
            return false;
        };
        if work.doing.is_some() {
            return false;
        }
        if !work.inward && work.take_up(now) {
            return true;
        }
        let sends = self.end.as_deref_mut().filter(|end| end.is_waiting());
        let sends = sends.and_then(|end| {
            ways.tell_room(end);
            ways.emit(end)
        });
        match sends {
            Some((packet, notes)) => work.begin(Doing::Out(packet, notes), Time::ZERO, now),
            None if work.take_up(now) => {}
            None => {
                work.idle = None;
                return false;
            }
        }
        true
    }

    /// The host is done with what was to be done by now.
    pub(crate) fn worked(&mut self, ways: &mut impl Ways) {
        let now = ways.now();
        let Some(done) = self.work.as_deref_mut().and_then(|work| work.done(now)) else {
            return;
        };
        match done {
            Doing::In(packet, facts) => self.read(ways, packet, facts),
            Doing::Out(packet, notes) => {
                self.originate(ways, packet, notes);
            }
        }
        self.stirred = true;
    }
}
