//! Input: segments, overheard frames, timers, the signals that they cause; and what the application
//! or the lane runner says.

use super::{Conn, Core, News};
use crate::board::{RouteFacts, State};
use crate::component::{Admit, Segment};
use crate::composition::ConfigError;
use crate::descriptor::Value;
use crate::signal::{Fault, Signal, Status};
use crate::store::{SendStore, Ticket};
use crate::timers::Timers;
use wifu_wire::{Class, FrameFacts, Head, Seq, Time};

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
        if !payload.is_empty() {
            self.tally.came(now);
        }
        let unserved = &mut self.core.board.site.unserved;
        unserved.coming = frame.unserved.or(unserved.coming);
        unserved.leaving = frame.told.or(unserved.leaving);
        self.counters.unserved += u64::from(frame.tells_of_unserved());
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
        while let Some((i, t)) = self.core.outbox.timers.take(now) {
            let s = &mut self.slots[i];
            s.part.on_timer(t as u8, &mut self.core.cx(now, i, s.desc));
            self.settle(now);
        }
    }

    /// Deliver signals, breadth first, until none is left. The blueprint proved the graph acyclic.
    pub(super) fn settle(&mut self, now: Time) {
        while let Some(signal) = self.core.outbox.ring.pop() {
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
        self.tally.look(&self.core.board.rtt);
        if let Some(store) = &self.core.stores.kept {
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
                let acked = self.counters.octets_acked;
                self.delivered.acked(now, &self.core.board, acked);
                self.news.writable |= a.bytes > 0;
            }
            Signal::Ended(fault) => {
                self.news.ended = Some(*fault);
                self.limits = self.limits_until(now);
                self.counters.timeout_wait = self.timeout_wait_until(now);
                self.over = true;
                self.core.outbox.timers = Timers::new();
                self.core.wake = Time::NEVER;
            }
            _ => {}
        }
    }
}

/// Calls of the application and of the lane runner.
impl Conn {
    /// Start opening, actively.
    pub fn connect(&mut self, now: Time) {
        self.tell(now, Signal::Connect);
    }

    /// Wait for the peer's SYN, which the caller hands in next.
    pub fn listen(&mut self, now: Time) {
        self.tell(now, Signal::Listen);
    }

    pub(super) fn tell(&mut self, now: Time, signal: Signal) {
        self.core.outbox.ring.push(signal);
        self.settle(now);
    }

    /// The half of the store that takes what is written; none before the connection is open, and
    /// none behind the FIN.
    fn writable(&mut self) -> Option<&mut SendStore> {
        let shut = self.core.board.app.fin || self.core.board.app.gone || self.over;
        let store = self.core.stores.kept.as_mut().filter(|_| !shut);
        store.map(|s| &mut s.tx)
    }

    /// Append octets; returns how many fitted. None fit before the connection is open or after it
    /// was closed for writing.
    pub fn write(&mut self, now: Time, bytes: &[u8]) -> usize {
        let n = match self.writable() {
            Some(SendStore::Octets(ring)) => ring.write(bytes),
            Some(SendStore::Records(records)) => records.write(bytes),
            _ => 0,
        };
        self.after_write(now, n);
        n as usize
    }

    /// The free space of the send store, to be filled in place and committed with
    /// [`Conn::wrote`].
    pub fn write_space(&mut self) -> [&mut [u8]; 2] {
        match self.writable() {
            Some(SendStore::Octets(ring)) => ring.space(),
            Some(SendStore::Records(records)) => records.space(),
            _ => [&mut [], &mut []],
        }
    }

    /// `n` octets of the space were filled.
    pub fn wrote(&mut self, now: Time, n: usize) {
        match self.writable() {
            Some(SendStore::Octets(ring)) => ring.wrote(n as u32),
            Some(SendStore::Records(records)) => records.wrote(n as u32),
            _ => return,
        }
        self.after_write(now, n as u32);
    }

    fn after_write(&mut self, now: Time, n: u32) {
        if n > 0 {
            if self.core.stores.plan.kind == crate::store::StoreKind::Octets {
                self.core.board.app.end = self.core.board.app.end.plus(n);
            }
            self.core.outbox.ring.push(Signal::Wrote);
            self.settle_facts();
            self.settle(now);
        }
    }

    /// Facts that signals read must be true before they are delivered.
    pub(super) fn settle_facts(&mut self) {
        let app = &mut self.core.board.app;
        match self.core.stores.kept.as_ref().map(|s| &s.tx) {
            Some(SendStore::Records(r)) => app.end = r.end(),
            Some(SendStore::Packets(p)) => (app.queued, app.room) = (p.len(), p.room()),
            _ => {}
        }
    }

    /// Take octets; returns how many there were.
    pub fn read(&mut self, now: Time, out: &mut [u8]) -> usize {
        let Some(store) = self.core.stores.kept.as_mut() else {
            return 0;
        };
        let mut n = 0;
        for piece in store.rx.readable() {
            let take = piece.len().min(out.len() - n);
            out[n..n + take].copy_from_slice(&piece[..take]);
            n += take;
        }
        self.consumed(now, n);
        n
    }

    /// `n` octets of [`Conn::readable`] were taken.
    pub fn consumed(&mut self, now: Time, n: usize) {
        if let (Some(store), true) = (self.core.stores.kept.as_mut(), n > 0) {
            store.rx.consume(n as u32);
            self.core.board.app.unread = store.rx.unread();
            self.tell(now, Signal::Read);
        }
    }

    /// The application writes no more: FIN follows what was written.
    pub fn shutdown_write(&mut self, now: Time) {
        self.tell(now, Signal::Closing);
    }

    /// The application is gone: nobody reads any more, FIN follows what was written.
    pub fn close(&mut self, now: Time) {
        self.core.board.app.gone = true;
        self.tell(now, Signal::Closing);
        if let Some(store) = self.core.stores.kept.as_mut() {
            let n = store.rx.unread();
            store.rx.consume(n);
        }
        self.tell(now, Signal::Read);
    }

    /// Destroy the connection: the peer gets a RST.
    pub fn abort(&mut self, now: Time) {
        self.core.board.app.gone = true;
        self.tell(now, Signal::Abort);
    }

    /// Another connection of the same peer took its place: as if it had been reset, but without a
    /// word to the peer, who has forgotten it.
    pub fn replaced(&mut self, now: Time) {
        let conn = &mut self.core.board.conn;
        (conn.state, conn.running, conn.asking) = (State::Closed, false, false);
        self.tell(now, Signal::Ended(Some(Fault::Reset)));
    }

    /// A packet for a packet store; false if there is no room.
    pub fn push(&mut self, now: Time, ticket: Ticket, number: Seq) -> bool {
        if self.core.stores.kept.is_none() {
            let Core { board, stores, .. } = &mut self.core;
            stores.kept = Some(Box::new(stores.plan.build(board, Seq(0), Seq(0))));
        }
        let fits = match self.core.stores.kept.as_mut().map(|s| &mut s.tx) {
            Some(SendStore::Packets(p)) => p.push(ticket, number),
            _ => false,
        };
        if fits {
            self.settle_facts();
            self.tell(now, Signal::Wrote);
        }
        fits
    }

    /// A handed-down packet comes back: to the head of the queue, unless it was kept
    /// ([`super::Transmit::Packet`]): then the part has it still, and `ticket` is `None`.
    pub fn put_back(&mut self, now: Time, ticket: Option<Ticket>, number: Seq) {
        if let Some(SendStore::Packets(p)) = self.core.stores.kept.as_mut().map(|s| &mut s.tx) {
            if let Some(ticket) = ticket {
                p.put_back(ticket, number);
            }
            self.settle_facts();
            self.tell(now, Signal::Returned(number));
        }
    }

    /// A handed-down packet is lost, because the deadline that was noted on it had passed.
    pub fn handle_expired(&mut self, now: Time, number: Seq) {
        self.tell(now, Signal::Expired(number));
    }

    /// Packets that parts gave back to the pool since the last call.
    pub fn take_freed(&mut self) -> impl Iterator<Item = Ticket> + '_ {
        self.core.outbox.freed.drain(..)
    }

    /// Packets that the node takes now, before each poll: of data, and of all other kinds. With a
    /// lane between they differ: data enter the lane, what frees it must not wait behind them.
    pub fn set_room(&mut self, data: u32, device: u32) {
        let app = &mut self.core.board.app;
        (app.local_room, app.device_room) = (data, device);
    }

    /// The way to the peer is this one now.
    pub fn set_route(&mut self, now: Time, route: &RouteFacts) {
        let site = &mut self.core.board.site;
        if site.route() != *route {
            site.set_route(route);
            self.tell(now, Signal::Route);
        }
    }

    /// Whether a packet with this header, which this end sent, may not have arrived yet.
    pub fn may_be_on_its_way(&self, head: &Head) -> bool {
        let tx = &self.core.board.tx;
        head.seq.from(tx.una) && head.seq.upto(tx.max)
    }

    /// The driver reported the packet with this header; its number and class are filled in here.
    pub fn handle_status(&mut self, now: Time, head: &Head, class: Class, status: &Status) {
        let status = Status {
            number: head.seq,
            class,
            ..*status
        };
        self.tell(now, Signal::Status(status));
    }

    /// Change a parameter at run time.
    ///
    /// # Errors
    /// Unknown name, value out of range, or a parameter that is fixed once a connection exists.
    pub fn set_param(&mut self, now: Time, name: &str, text: &str) -> Result<Value, ConfigError> {
        let (role, bare) = name
            .split_once('.')
            .map_or((None, name), |(r, n)| (Some(r), n));
        for (i, slot) in self.slots.iter_mut().enumerate() {
            let fits = role.is_none_or(|r| slot.desc.role.key() == r);
            let spec = slot.desc.params.iter().find(|p| p.name == bare);
            if let (true, Some(spec)) = (fits, spec) {
                let value = spec.parse(text).map_err(|e| ConfigError::one(name, e))?;
                if slot.part.set(bare, value) {
                    slot.part.on_set(&mut self.core.cx(now, i, slot.desc));
                    self.settle(now);
                    return Ok(value);
                }
                let what = "fixed once the connection exists; set it before connect or listen";
                return Err(ConfigError::one(name, what));
            }
        }
        Err(ConfigError::one(
            name,
            "no part of this connection has this parameter",
        ))
    }

    /// Whether there was anything that the application has to learn since the last call of
    /// [`Conn::take_news`].
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// What the application has to learn since the last call.
    #[inline]
    pub fn take_news(&mut self) -> News {
        let mut news = core::mem::take(&mut self.news);
        news.readable &= self.core.board.app.unread > 0;
        news.writable &= self.core.board.app.room > 0;
        news
    }

    /// Give the stores back: everything was delivered and nothing is left to send.
    pub fn detach(&mut self) {
        self.core.stores.kept = None;
        (self.core.board.app.unread, self.core.board.app.room) = (0, 0);
    }
}
