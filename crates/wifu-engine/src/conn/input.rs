//! Input: segments, overheard frames, timers, and the signals that they cause.

use super::Conn;
use crate::component::{Admit, SLOTS, Segment, TIMERS};
use crate::signal::Signal;
use crate::store::SendStore;
use wifu_wire::{FrameFacts, Head, Time};

impl Conn {
    /// A segment arrived. `head` loses its acknowledgement if a part declares it old. Returns why
    /// it was dropped, if it was.
    pub fn handle_segment(
        &mut self,
        now: Time,
        head: &mut Head,
        payload: &[u8],
        frame: &FrameFacts,
    ) -> Option<&'static str> {
        self.counters.segments_in += 1;
        if let Some(missing) = frame.unserved {
            self.core.board.site.unserved = missing;
            self.counters.unserved += u64::from(missing > 0);
        }
        let Self {
            slots,
            routes,
            core,
            ..
        } = self;
        let mut dropped = None;
        for &i in &routes.segment {
            let s = &mut slots[i as usize];
            let seg = Segment {
                head: &*head,
                payload,
                frame,
            };
            match s
                .part
                .on_segment(&seg, &mut core.cx(now, i as usize, s.desc))
            {
                Admit::Pass => {}
                Admit::DataOnly => head.ack = None,
                Admit::Drop(reason) => {
                    dropped = Some(reason);
                    break;
                }
            }
        }
        self.settle(now);
        self.counters.dropped += u64::from(dropped.is_some());
        dropped
    }

    /// The radio heard a frame that was not addressed to this node.
    pub fn handle_overheard(&mut self, now: Time, head: &Head, payload: &[u8], frame: &FrameFacts) {
        let Self {
            slots,
            routes,
            core,
            ..
        } = self;
        for &i in &routes.overheard {
            let s = &mut slots[i as usize];
            let seg = Segment {
                head,
                payload,
                frame,
            };
            s.part
                .on_overheard(&seg, &mut core.cx(now, i as usize, s.desc));
        }
        self.settle(now);
    }

    /// Timers that are due fire in order of (deadline, slot, timer), each drained before the next.
    pub fn handle_timeout(&mut self, now: Time) {
        // What waited for this moment is asked again when it is polled.
        if self.core.wake <= now {
            self.core.wake = Time::NEVER;
        }
        while let Some((_, i, t)) = self.core.due(now) {
            self.core.timers[i][t] = Time::NEVER;
            let s = &mut self.slots[i];
            s.part.on_timer(t as u8, &mut self.core.cx(now, i, s.desc));
            self.settle(now);
        }
    }

    /// Deliver signals, breadth first, until none is left. The blueprint proved the graph acyclic.
    pub(super) fn settle(&mut self, now: Time) {
        while let Some(signal) = self.core.ring.pop() {
            let Self {
                slots,
                routes,
                core,
                ..
            } = self;
            if let Some(hearers) = routes.signal.get(signal.index()) {
                for &i in hearers {
                    let s = &mut slots[i as usize];
                    s.part
                        .on_signal(&signal, &mut core.cx(now, i as usize, s.desc));
                }
            }
            self.note(now, &signal);
        }
        if let Some(store) = &self.core.store {
            let app = &mut self.core.board.app;
            app.unread = store.rx.unread();
            match &store.tx {
                SendStore::Octets(ring) => app.room = ring.room(),
                SendStore::Records(r) => (app.room, app.end) = (r.room(), r.end()),
                SendStore::Packets(p) => (app.queued, app.room) = (p.len(), p.room()),
            }
        }
    }

    /// What the engine itself takes from signals.
    pub(super) fn note(&mut self, now: Time, signal: &Signal) {
        match signal {
            Signal::Opened => {
                self.news.opened = true;
                self.opened_at = Some(now);
                self.limit_since = now;
            }
            Signal::Arrived(a) => {
                self.news.readable = true;
                self.news.eof |= a.fin;
                if !matches!(a.order, crate::signal::Arrival::Duplicate) {
                    self.counters.octets_in += u64::from(a.bytes);
                }
            }
            Signal::Acked(a) => {
                self.counters.octets_acked += u64::from(a.bytes);
                self.news.writable |= a.bytes > 0;
            }
            Signal::Ended(fault) => {
                self.news.ended = Some(*fault);
                self.over = true;
                self.core.timers = [[Time::NEVER; TIMERS]; SLOTS];
                self.core.wake = Time::NEVER;
            }
            _ => {}
        }
    }
}
