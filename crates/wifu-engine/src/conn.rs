//! One connection: parts, facts, stores, and the order in which things happen.

use crate::blueprint::{Blueprint, Routes, StorePlan};
use crate::board::{Board, SiteFacts, State};
use crate::component::{
    Admit, Component, Cx, Lent, Out, Outlet, Payload, SLOTS, Segment, TIMERS, View,
};
use crate::composition::ConfigError;
use crate::descriptor::{Descriptor, Role, Value};
use crate::permit::{Limit, Permit, Reason, Want};
use crate::signal::{Fault, Ring, Sent, Signal};
use crate::store::{SendStore, Store, Ticket};
use crate::trace::{Record, What};
use core::net::SocketAddrV4;
use std::sync::Arc;
use wifu_wire::{FrameFacts, Head, Pseudo, Rng, Seq, Span, Time, Wire};

/// The two ends of a connection and the IP protocol between them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Tuple {
    /// IP protocol number.
    pub proto: u8,
    /// Our end.
    pub local: SocketAddrV4,
    /// The peer's end.
    pub remote: SocketAddrV4,
}

/// What left.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transmit {
    /// A whole segment of this length in `out`.
    Bytes(usize),
    /// A held packet, into which the caller lets [`Wire::patch`] write the words of the header.
    Packet {
        /// Which.
        ticket: Ticket,
        /// Keep it after it was handed down.
        keep: bool,
    },
}

/// What the application has to learn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct News {
    /// The connection opened.
    pub opened: bool,
    /// There is something to read.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// The peer will send no more.
    pub eof: bool,
    /// The connection is over, with its fault if it ended badly.
    pub ended: Option<Option<Fault>>,
}

struct Slot {
    part: Box<dyn Component>,
    desc: &'static Descriptor,
}

pub(crate) struct Core {
    pub(crate) board: Board,
    ring: Ring,
    timers: [[Time; TIMERS]; SLOTS],
    rngs: [Rng; SLOTS],
    store: Option<Box<Store>>,
    plan: StorePlan,
    freed: Vec<Ticket>,
    wake: Time,
    /// When data that was refused at the last poll may leave.
    due: Time,
    #[cfg(feature = "conform")]
    emitted: [u32; SLOTS],
}

impl Core {
    fn cx(&mut self, now: Time, slot: usize, desc: &Descriptor) -> Cx<'_> {
        let Core {
            board,
            ring,
            timers,
            rngs,
            store,
            plan,
            freed,
            ..
        } = self;
        Cx {
            now,
            board: View {
                board,
                grant: desc.writes,
                slot,
            },
            store: Lent {
                store,
                plan,
                grant: desc.writes,
            },
            out: Outlet {
                now,
                ring,
                timers: &mut timers[slot],
                rng: &mut rngs[slot],
                freed,
                #[cfg(feature = "conform")]
                emitted: &mut self.emitted[slot],
            },
        }
    }

    /// The earliest due timer, by (deadline, slot, timer).
    fn due(&self, now: Time) -> Option<(Time, usize, usize)> {
        let mut first: Option<(Time, usize, usize)> = None;
        for (slot, timers) in self.timers.iter().enumerate() {
            for (timer, at) in timers.iter().enumerate() {
                if *at <= now && first.is_none_or(|f| *at < f.0) {
                    first = Some((*at, slot, timer));
                }
            }
        }
        first
    }
}

/// One connection.
///
/// Methods are of four kinds: getters; `handle_*` for input; application calls (`write`, `read`,
/// `close`, `push`, ...); `poll_*` for output. After any input or application call, poll
/// [`Conn::poll_transmit`] until it gives `None`, then [`Conn::poll_timeout`]. Time must not go
/// backwards. Spurious calls do nothing.
pub struct Conn {
    slots: Vec<Slot>,
    routes: Arc<Routes>,
    core: Core,
    wire: Arc<dyn Wire>,
    tuple: Tuple,
    news: News,
    last_sent: Option<Sent>,
    limits: [Span; Limit::COUNT],
    limit_since: Time,
    over: bool,
    opened_at: Option<Time>,
    counters: Counters,
    trace: Option<Vec<Record>>,
    blueprint: Arc<Blueprint>,
}

/// What a connection counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Segments sent.
    pub segments_out: u64,
    /// Segments received.
    pub segments_in: u64,
    /// Data segments sent.
    pub data_out: u64,
    /// Payload octets sent, repetitions included.
    pub octets_out: u64,
    /// Payload octets sent again.
    pub octets_again: u64,
    /// Payload octets acknowledged by the peer.
    pub octets_acked: u64,
    /// Payload octets received for the first time.
    pub octets_in: u64,
    /// Segments dropped by a part.
    pub dropped: u64,
}

impl Blueprint {
    /// Open a connection: `rng` is split by slot name. The connection does nothing before
    /// [`Conn::connect`] or [`Conn::listen`].
    ///
    /// # Errors
    /// What a part says of its parameters; those were tried when the blueprint was made, so this
    /// happens only with parts that keep outside state.
    pub fn open(
        self: &Arc<Self>,
        tuple: Tuple,
        mut site: SiteFacts,
        rng: Rng,
    ) -> Result<Conn, ConfigError> {
        site.snd_buf = self.engine_int("snd_buf");
        site.rcv_buf = self.engine_int("rcv_wnd");
        site.mss_limit = self.engine_int("mss");
        site.overhead = self.wire.overhead() + wifu_wire::ipv4::HEADER as u32;
        let mut rngs = [Rng::default(); SLOTS];
        for (slot, part) in rngs.iter_mut().zip(&self.parts) {
            *slot = rng.split(part.desc.name);
        }
        let parts = self.build_parts()?.into_iter().zip(&self.parts);
        let mut board = Board {
            site,
            ..Board::default()
        };
        board.app.local_room = u32::MAX;
        Ok(Conn {
            slots: parts
                .map(|(part, plan)| Slot {
                    part,
                    desc: plan.desc,
                })
                .collect(),
            routes: Arc::clone(&self.routes),
            core: Core {
                board,
                ring: Ring::new(),
                timers: [[Time::NEVER; TIMERS]; SLOTS],
                rngs,
                store: None,
                plan: self.store,
                freed: Vec::new(),
                wake: Time::NEVER,
                due: Time::NEVER,
                #[cfg(feature = "conform")]
                emitted: [0; SLOTS],
            },
            wire: Arc::clone(&self.wire),
            tuple,
            news: News::default(),
            last_sent: None,
            limits: [Span::ZERO; Limit::COUNT],
            limit_since: Time::ZERO,
            over: false,
            opened_at: None,
            counters: Counters::default(),
            trace: None,
            blueprint: Arc::clone(self),
        })
    }
}

// Getters.
impl Conn {
    /// The facts.
    pub fn board(&self) -> &Board {
        &self.core.board
    }

    /// The two ends.
    pub fn tuple(&self) -> Tuple {
        self.tuple
    }

    /// What it was opened from.
    pub fn blueprint(&self) -> &Arc<Blueprint> {
        &self.blueprint
    }

    /// The wire format.
    pub fn wire(&self) -> &Arc<dyn Wire> {
        &self.wire
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// When the connection opened.
    pub fn opened_at(&self) -> Option<Time> {
        self.opened_at
    }

    /// How long each limit was binding since the connection opened, by [`Limit::index`].
    pub fn limits(&self) -> [Span; Limit::COUNT] {
        self.limits
    }

    /// The segment that the latest [`Conn::poll_transmit`] gave.
    pub fn last_sent(&self) -> Option<Sent> {
        self.last_sent
    }

    /// Ask every part for its internal quantities: (part, probe, value).
    pub fn observe(&self, probe: &mut dyn FnMut(&'static str, &'static str, f64)) {
        for slot in &self.slots {
            slot.part
                .observe(&mut |name, value| probe(slot.desc.name, name, value));
        }
    }

    /// What can be read, in two pieces.
    pub fn readable(&self) -> [&[u8]; 2] {
        self.core
            .store
            .as_ref()
            .map_or([&[], &[]], |s| s.rx.readable())
    }

    /// Whether stores are attached.
    pub fn has_store(&self) -> bool {
        self.core.store.is_some()
    }

    #[cfg(feature = "conform")]
    /// Signals emitted by each slot since the last call, as bits by [`Signal::index`].
    pub fn take_emitted(&mut self) -> [u32; SLOTS] {
        core::mem::take(&mut self.core.emitted)
    }
}

// Input.
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
        if let Some(reason) = dropped {
            self.counters.dropped += 1;
            self.record(now, What::Dropped(reason));
        }
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
        while let Some((_, i, t)) = self.core.due(now) {
            self.core.timers[i][t] = Time::NEVER;
            let s = &mut self.slots[i];
            s.part.on_timer(t as u8, &mut self.core.cx(now, i, s.desc));
            self.settle(now);
        }
    }

    /// Deliver signals, breadth first, until none is left. The blueprint proved the graph acyclic.
    fn settle(&mut self, now: Time) {
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
            self.record(now, What::Signal(signal));
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
    fn note(&mut self, now: Time, signal: &Signal) {
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

// Application calls.
impl Conn {
    /// Start opening, actively.
    pub fn connect(&mut self, now: Time) {
        self.tell(now, Signal::Connect);
    }

    /// Wait for the peer's SYN, which the caller hands in next.
    pub fn listen(&mut self, now: Time) {
        self.tell(now, Signal::Listen);
    }

    fn tell(&mut self, now: Time, signal: Signal) {
        self.core.ring.push(signal);
        self.settle(now);
    }

    /// Append octets; returns how many fitted. None fit before the connection is open.
    pub fn write(&mut self, now: Time, bytes: &[u8]) -> usize {
        let n = match self.core.store.as_mut().map(|s| &mut s.tx) {
            Some(SendStore::Octets(ring)) => ring.write(bytes),
            Some(SendStore::Records(records)) => records.write(bytes),
            _ => 0,
        };
        self.after_write(now, n);
        n as usize
    }

    /// The free space of the send ring, to be filled in place and committed with
    /// [`Conn::wrote`].
    pub fn write_space(&mut self) -> [&mut [u8]; 2] {
        match self.core.store.as_mut().map(|s| &mut s.tx) {
            Some(SendStore::Octets(ring)) => ring.space(),
            _ => [&mut [], &mut []],
        }
    }

    /// `n` octets of the space were filled.
    pub fn wrote(&mut self, now: Time, n: usize) {
        if let Some(SendStore::Octets(ring)) = self.core.store.as_mut().map(|s| &mut s.tx) {
            ring.wrote(n as u32);
            self.after_write(now, n as u32);
        }
    }

    fn after_write(&mut self, now: Time, n: u32) {
        if n > 0 {
            if self.core.plan.kind == crate::store::StoreKind::Octets {
                self.core.board.app.end = self.core.board.app.end.plus(n);
            }
            self.core.ring.push(Signal::Wrote);
            self.settle_facts();
            self.settle(now);
        }
    }

    /// Facts that signals read must be true before they are delivered.
    fn settle_facts(&mut self) {
        let app = &mut self.core.board.app;
        match self.core.store.as_ref().map(|s| &s.tx) {
            Some(SendStore::Records(r)) => app.end = r.end(),
            Some(SendStore::Packets(p)) => (app.queued, app.room) = (p.len(), p.room()),
            _ => {}
        }
    }

    /// Take octets; returns how many there were.
    pub fn read(&mut self, now: Time, out: &mut [u8]) -> usize {
        let Some(store) = self.core.store.as_mut() else {
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
        if let (Some(store), true) = (self.core.store.as_mut(), n > 0) {
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
        if let Some(store) = self.core.store.as_mut() {
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

    /// A packet for a packet store; false if there is no room.
    pub fn push(&mut self, now: Time, ticket: Ticket, number: Seq) -> bool {
        if self.core.store.is_none() {
            let Core {
                board, plan, store, ..
            } = &mut self.core;
            *store = Some(Box::new(plan.build(board, Seq(0), Seq(0))));
        }
        let fits = match self.core.store.as_mut().map(|s| &mut s.tx) {
            Some(SendStore::Packets(p)) => p.push(ticket, number),
            _ => false,
        };
        if fits {
            self.settle_facts();
            self.tell(now, Signal::Wrote);
        }
        fits
    }

    /// A handed-down packet comes back: to the head of the queue.
    pub fn put_back(&mut self, now: Time, ticket: Ticket, number: Seq) {
        if let Some(SendStore::Packets(p)) = self.core.store.as_mut().map(|s| &mut s.tx) {
            p.put_back(ticket, number);
            self.settle_facts();
            self.tell(now, Signal::Wrote);
        }
    }

    /// Packets that parts gave back to the pool since the last call.
    pub fn take_freed(&mut self) -> impl Iterator<Item = Ticket> + '_ {
        self.core.freed.drain(..)
    }

    /// Frames that the local queue takes now: ask before each poll.
    pub fn set_local_room(&mut self, room: u32) {
        self.core.board.app.local_room = room;
    }

    /// The site changed (route, link).
    pub fn set_site(&mut self, change: impl FnOnce(&mut SiteFacts)) {
        change(&mut self.core.board.site);
    }

    /// Change a parameter at run time.
    ///
    /// # Errors
    /// Unknown name, value out of range, or a parameter that is fixed once a connection exists.
    pub fn set_param(&mut self, name: &str, text: &str) -> Result<Value, ConfigError> {
        let (role, bare) = name
            .split_once('.')
            .map_or((None, name), |(r, n)| (Some(r), n));
        for slot in &mut self.slots {
            let fits = role.is_none_or(|r| slot.desc.role.key() == r);
            let spec = slot.desc.params.iter().find(|p| p.name == bare);
            if let (true, Some(spec)) = (fits, spec) {
                let value = spec.parse(text).map_err(|e| ConfigError::one(name, e))?;
                if slot.part.set(bare, value) {
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

    /// What the application has to learn since the last call.
    pub fn take_news(&mut self) -> News {
        let mut news = core::mem::take(&mut self.news);
        news.readable &= self.core.board.app.unread > 0;
        news.writable &= self.core.board.app.room > 0;
        news
    }

    /// Give the stores back: everything was delivered and nothing is left to send.
    pub fn detach(&mut self) {
        self.core.store = None;
        (self.core.board.app.unread, self.core.board.app.room) = (0, 0);
    }

    /// Keep a trace from now on.
    pub fn start_trace(&mut self) {
        self.trace = Some(Vec::new());
    }

    /// The trace since the last call.
    pub fn take_trace(&mut self) -> Vec<Record> {
        self.trace.as_mut().map(core::mem::take).unwrap_or_default()
    }

    fn record(&mut self, at: Time, what: What) {
        if let Some(trace) = &mut self.trace {
            let b = &self.core.board;
            trace.push(Record {
                at,
                what,
                cwnd: b.win.cwnd,
                ssthresh: b.win.ssthresh,
            });
        }
    }
}

// Output.
impl Conn {
    /// The next deadline; [`Time::NEVER`] if there is none.
    #[must_use]
    pub fn poll_timeout(&self) -> Time {
        let timers = &self.core.timers[..self.slots.len()];
        timers
            .iter()
            .flatten()
            .copied()
            .fold(self.core.wake, Time::min)
    }

    /// The next segment to send, or `None`: kinds in order of precedence; gates meet; the owner
    /// fills; everyone stamps; the codec encodes once.
    #[must_use]
    pub fn poll_transmit(
        &mut self,
        now: Time,
        head: &mut Head,
        out: &mut [u8],
    ) -> Option<Transmit> {
        if self.core.board.app.local_room == 0 {
            // The next poll comes with room, not with time: a deadline left here would spin.
            self.core.wake = Time::NEVER;
            self.limited(now, Limit::Queue);
            return None;
        }
        self.cut_record();
        self.core.wake = Time::NEVER;
        let (mut blocked, mut due) = (None, Time::NEVER);
        for at in 0..self.routes.offer.len() {
            let (kind, i) = self.routes.offer[at];
            let Slot { part, desc } = &self.slots[i as usize];
            // After the end only the manager may speak: a last RST.
            if self.over && desc.role != Role::Manager {
                continue;
            }
            let Some(want) = part.offer(kind, &self.core.board, now) else {
                continue;
            };
            let permit = self.permit(&want, now);
            if let Some((why, at)) = permit.refuses(&want, now) {
                self.core.wake = self.core.wake.min(at);
                if kind.is_data() {
                    due = due.min(at);
                    blocked.get_or_insert(why);
                }
                continue;
            }
            let want = Want {
                bytes: want.bytes.min(permit.bytes),
                ..want
            };
            // Data that waited for a time; an ACK that leaves first does not take its lateness.
            let late = if kind.is_data() && self.core.due != Time::NEVER {
                now - core::mem::replace(&mut self.core.due, Time::NEVER)
            } else {
                Span::ZERO
            };
            return Some(self.send(now, i as usize, &want, late, head, out));
        }
        self.core.due = due;
        let (tx, running) = (&self.core.board.tx, self.core.board.conn.running);
        let limit = match blocked {
            Some(why) => why,
            None if !running => Limit::State,
            None if tx.una != tx.max => Limit::Drain,
            None => Limit::Source,
        };
        self.limited(now, limit);
        None
    }

    /// A packet may leave and the application paused within a record: it goes as it is, else
    /// interactive data never leaves.
    fn cut_record(&mut self) {
        if let Some(SendStore::Records(r)) = self.core.store.as_mut().map(|s| &mut s.tx)
            && r.end() == self.core.board.tx.nxt
        {
            r.cut();
            self.core.board.app.end = r.end();
        }
    }

    fn permit(&self, want: &Want, now: Time) -> Permit {
        let gates = self.routes.permit.iter();
        gates.fold(Permit::OPEN, |p, &g| {
            p.and(
                self.slots[g as usize]
                    .part
                    .permit(want, &self.core.board, now),
            )
        })
    }

    fn send(
        &mut self,
        now: Time,
        slot: usize,
        want: &Want,
        late: Span,
        head: &mut Head,
        out: &mut [u8],
    ) -> Transmit {
        let Self {
            slots,
            routes,
            core,
            wire,
            tuple,
            ..
        } = self;
        head.reset();
        (head.sport, head.dport) = (tuple.local.port(), tuple.remote.port());
        let mut seg = Out {
            kind: want.kind,
            reason: Reason::First,
            head,
            payload: Payload::None,
        };
        let s = &mut slots[slot];
        s.part.fill(want, &mut seg, &mut core.cx(now, slot, s.desc));
        for &t in &routes.stamp {
            let s = &mut slots[t as usize];
            s.part
                .stamp(&mut seg, &mut core.cx(now, t as usize, s.desc));
        }
        let (reason, payload, kind) = (seg.reason, seg.payload, want.kind);
        let (seq, acks) = (head.seq, head.ack.is_some());
        let pseudo = Pseudo {
            src: *tuple.local.ip(),
            dst: *tuple.remote.ip(),
            proto: tuple.proto,
        };
        let (transmit, octets) = match payload {
            Payload::Packet { ticket, keep } => (Transmit::Packet { ticket, keep }, 0),
            _ => {
                let (n, octets) = encode(&**wire, head, core, payload, &pseudo, out);
                (Transmit::Bytes(n), octets)
            }
        };
        let sent = Sent {
            kind,
            reason,
            acks,
            seq,
            bytes: want.bytes,
            late,
        };
        core.ring.push(Signal::Sent(sent));
        self.last_sent = Some(sent);
        self.counters.segments_out += 1;
        if octets > 0 || matches!(transmit, Transmit::Packet { .. }) {
            self.counters.data_out += 1;
            self.counters.octets_out += u64::from(octets);
            if reason != Reason::First {
                self.counters.octets_again += u64::from(octets);
            }
        }
        self.settle(now);
        transmit
    }

    /// Latch what is binding and run its stopwatch.
    fn limited(&mut self, now: Time, limit: Limit) {
        let running = self.opened_at.is_some() && !self.over;
        if running {
            let last = self.core.board.app.limited.index();
            self.limits[last] = self.limits[last] + (now - self.limit_since);
            self.limit_since = now;
        }
        self.core.board.app.limited = limit;
    }

    /// The manager's state.
    pub fn state(&self) -> State {
        self.core.board.conn.state
    }
}

/// Emit the header, copy the payload in, seal. The header may use what the payload leaves of the
/// MTU, so that optional parts (SACK ranges) yield to data. Returns the segment's length and the
/// payload's.
fn encode(
    wire: &dyn Wire,
    head: &Head,
    core: &Core,
    payload: Payload,
    pseudo: &Pseudo,
    out: &mut [u8],
) -> (usize, u32) {
    let pieces: [&[u8]; 2] = match (payload, core.store.as_ref().map(|s| &s.tx)) {
        (Payload::Stream { start, len }, Some(SendStore::Octets(ring))) => ring.slice(start, len),
        (Payload::Record(number), Some(SendStore::Records(records))) => records.record(number),
        _ => [&[], &[]],
    };
    let octets = pieces[0].len() + pieces[1].len();
    if let Payload::Stream { start, len } = payload {
        debug_assert_eq!(octets, len as usize, "{start:?} is not all in the store");
    }
    let mtu = core.board.site.mtu as usize;
    let room = mtu.saturating_sub(wifu_wire::ipv4::HEADER + octets);
    let room = room.max(wire.overhead() as usize).min(out.len());
    let mut n = wire.emit(head, &mut out[..room]);
    for piece in pieces {
        out[n..n + piece.len()].copy_from_slice(piece);
        n += piece.len();
    }
    wire.seal(pseudo, &mut out[..n]);
    (n, octets as u32)
}
