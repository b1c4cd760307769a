//! One connection: parts, facts, stores, and the order in which things happen.

mod delivered;
mod input;
mod output;
mod tally;

use crate::blueprint::{Blueprint, Routes};
use crate::board::{Board, SiteFacts};
use crate::component::{Aside, Component, Cx, Lent, Outbox, Outlet, SLOTS, Stores, View};
use crate::composition::ConfigError;
use crate::descriptor::Descriptor;
use crate::permit::Limit;
use crate::quantity::{Of, Stretch, Watched};
use crate::signal::{Fault, Sent};
use crate::store::{Records, SendStore, Ticket};
use delivered::Delivered;
use std::sync::Arc;
use tally::Tally;
use wifu_wire::ip::{TTL, header_to};
use wifu_wire::{AnyIpInfo, Delays, Ecn, IpInfo, Notes, Pseudo, Rng, Seq, Span, Time, Wire, ipv4};

pub use crate::admission::Tuple;

/// What is the same on every segment of a connection, made once.
#[derive(Clone, Copy)]
pub(crate) struct Path {
    /// The IP header's facts, not marked.
    pub(crate) ip: AnyIpInfo,
    /// What checksums cover of it.
    pseudo: Pseudo,
    /// Source and destination.
    ports: (u16, u16),
}

impl Path {
    fn between(tuple: &Tuple) -> Path {
        let ip = IpInfo {
            src: tuple.local.ip(),
            dst: tuple.remote.ip(),
            proto: tuple.proto,
            ttl: TTL,
            ecn: Ecn::NotEct,
        };
        Path {
            ip,
            pseudo: ip.pseudo(),
            ports: (tuple.local.port(), tuple.remote.port()),
        }
    }
}

/// What left.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transmit {
    /// A whole segment of this length in `out`.
    Bytes(usize),
    /// A held packet, into which the caller lets [`Wire::patch`] write the words of the header.
    Packet {
        /// Where the caller has it.
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

impl News {
    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !(self.opened | self.readable | self.writable | self.eof) && self.ended.is_none()
    }

    /// These and later ones; the first end counts.
    #[inline]
    pub(crate) fn add(&mut self, later: News) {
        self.opened |= later.opened;
        self.readable |= later.readable;
        self.writable |= later.writable;
        self.eof |= later.eof;
        self.ended = self.ended.or(later.ended);
    }
}

struct Slot {
    part: Box<dyn Component>,
    desc: &'static Descriptor,
}

pub(crate) struct Core {
    pub(crate) board: Board,
    outbox: Outbox,
    stores: Stores,
    wake: Time,
    /// When data that was refused at the last poll may leave.
    due: Time,
}

impl Core {
    #[inline(always)]
    fn cx(&mut self, now: Time, slot: usize, desc: &'static Descriptor) -> Cx<'_> {
        let Core {
            board,
            outbox,
            stores,
            ..
        } = self;
        let (grant, part) = (desc.writes, &desc.name);
        Cx {
            now,
            board: View { board, grant, part },
            store: Lent { stores, grant },
            out: Outlet { now, slot, outbox },
        }
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
    path: Path,
    tuple: Tuple,
    news: News,
    last_sent: Option<Sent>,
    aside: Aside,
    limits: [Span; Limit::COUNT],
    limit_since: Time,
    /// All that this end ever sends is acknowledged, and the times of limits count no more.
    said_all: bool,
    over: bool,
    opened_at: Option<Time>,
    counters: Counters,
    tally: Tally,
    delivered: Delivered,
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
    /// Payload octets retransmitted.
    pub octets_again: u64,
    /// Payload octets acknowledged by the peer.
    pub octets_acked: u64,
    /// Payload octets received for the first time.
    pub octets_in: u64,
    /// Segments dropped by a part.
    pub dropped: u64,
    /// Segments received that some node on the way forwarded without looking at them, or that tell
    /// of such a node on the way back.
    pub unserved: u64,
    /// Recoveries of losses that began without a timeout: by duplicate acknowledgements, partial
    /// ones, or SACK.
    pub fast_retransmits: u64,
    /// SYNs (openers) retransmitted by parts that do not count them in `tx.retransmits`.
    pub openers_again: u64,
    /// From the last segment before each retransmission timeout to the first one after it, all
    /// together, and the last wait of a connection that ended in it.
    pub timeout_wait: Span,
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
        site.max_seg = self.engine_int("max_seg");
        site.window_unit = self.window_unit();
        site.ip_header = header_to(tuple.remote.ip()) as u32;
        let longer = site.ip_header - ipv4::HEADER as u32;
        (site.overhead, site.stamps) = (self.overhead() + longer, self.stamps());
        let mut rngs = [Rng::default(); SLOTS];
        for (slot, part) in rngs.iter_mut().zip(&self.parts) {
            *slot = rng.split(part.desc.name);
        }
        let parts = self.build_parts()?.into_iter().zip(&self.parts);
        let mut board = Board {
            site,
            ..Board::default()
        };
        (board.app.local_room, board.app.device_room) = (u32::MAX, u32::MAX);
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
                outbox: Outbox::new(rngs),
                stores: Stores {
                    kept: None,
                    plan: self.store,
                },
                wake: Time::NEVER,
                due: Time::NEVER,
            },
            wire: Arc::clone(&self.wire),
            path: Path::between(&tuple),
            tuple,
            news: News::default(),
            last_sent: None,
            aside: Aside::NONE,
            limits: [Span::ZERO; Limit::COUNT],
            limit_since: Time::ZERO,
            said_all: false,
            over: false,
            opened_at: None,
            counters: Counters::default(),
            tally: Tally::default(),
            delivered: Delivered::default(),
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

    /// What its segments have in common.
    #[inline]
    pub(crate) fn path(&self) -> &Path {
        &self.path
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

    /// All samples of the round-trip time so far.
    pub fn round_trips(&self) -> &Delays {
        &self.tally.round_trips
    }

    /// How long acknowledgements were held back so far: from the first data that each tells of.
    pub fn ack_delays(&self) -> &Delays {
        &self.tally.ack_delays
    }

    /// When the connection opened.
    pub fn opened_at(&self) -> Option<Time> {
        self.opened_at
    }

    /// How long each limit was binding since the connection opened, by [`Limit::index`], until all
    /// that this end ever sends was acknowledged.
    pub fn limits(&self) -> [Span; Limit::COUNT] {
        self.limits
    }

    /// [`Conn::limits`] with the time that the present one has been binding until `now`.
    pub fn limits_until(&self, now: Time) -> [Span; Limit::COUNT] {
        let mut limits = self.limits;
        if self.is_limited() {
            let present = &mut limits[self.core.board.app.limited.index()];
            *present = *present + (now - self.limit_since);
        }
        limits
    }

    /// It is open and may have something to send: some limit is binding.
    #[inline]
    fn is_limited(&self) -> bool {
        self.opened_at.is_some() && !self.over && !self.said_all
    }

    /// How fast the peer acknowledged data, octets per second: the latest sample, which is of a
    /// round trip; 0 before the first.
    pub fn delivery_rate(&self) -> u64 {
        self.delivered.latest()
    }

    /// [`Conn::delivery_rate`], or less if the sample that is under way at `now` can't reach that
    /// any more.
    pub fn delivery_rate_until(&self, now: Time) -> u64 {
        let acked = self.counters.octets_acked;
        self.delivered.until(now, self.flight(), acked)
    }

    /// [`Counters::timeout_wait`] with the wait that is under way at `now`: since the last segment,
    /// if that was sent for a timeout and nothing has been acknowledged since. Whether a first
    /// wait ends with a timeout nobody knows yet.
    pub fn timeout_wait_until(&self, now: Time) -> Span {
        let tx = &self.core.board.tx;
        let waits = !self.over && tx.backoff > 0 && tx.flight() > 0;
        let pending = if waits {
            now - self.tally.last_sent()
        } else {
            Span::ZERO
        };
        self.counters.timeout_wait + pending
    }

    /// The segment that the latest [`Conn::poll_transmit`] gave.
    pub fn last_sent(&self) -> Option<Sent> {
        self.last_sent
    }

    /// What goes with it inside this node: to whom it leaves, and annotations.
    pub fn aside(&self) -> &Aside {
        &self.aside
    }

    /// What parts noted on the packet that they were shown last; then it is forgotten.
    #[inline]
    pub fn take_noted(&mut self) -> Notes {
        core::mem::take(&mut self.core.outbox.ring.noted)
    }

    /// Ask every part for its internal quantities: (part, probe, value).
    pub fn observe(&self, probe: &mut dyn FnMut(&'static str, &'static str, f64)) {
        for slot in &self.slots {
            slot.part
                .observe(&mut |name, value| probe(slot.desc.name, name, value));
        }
    }

    /// Where a number stands among the octets that the application wrote, modulo 2^32: from the
    /// first one, whether octets are numbered or packets of them.
    pub fn position(&self, number: Seq) -> u32 {
        match self.records() {
            Some(records) => records.position(number),
            None => number.since(self.board().tx.iss.plus(1)),
        }
    }

    /// Sent and not acknowledged, octets; packets in a lane.
    pub fn flight(&self) -> u32 {
        let tx = &self.board().tx;
        let of = |r: &Records| r.position(tx.max).wrapping_sub(r.position(tx.una));
        self.records().map_or(tx.flight(), of)
    }

    /// Written and not acknowledged, octets; packets in a lane.
    pub fn unacked(&self) -> u32 {
        let una = self.board().tx.una;
        let of = |r: &Records| r.written().wrapping_sub(r.position(una));
        self.records().map_or(self.board().unacked(), of)
    }

    /// Written and never sent, octets; packets in a lane.
    pub fn unsent(&self) -> u32 {
        let max = self.board().tx.max;
        let of = |r: &Records| r.written().wrapping_sub(r.position(max));
        self.records().map_or(self.board().unsent(), of)
    }

    fn records(&self) -> Option<&Records> {
        match &self.core.stores.kept.as_ref()?.tx {
            SendStore::Records(records) => Some(records),
            _ => None,
        }
    }

    /// What a name of [`Blueprint::watched`] stands for now; `None` if it is not known.
    pub fn value(&self, of: Watched) -> Option<f64> {
        let (slot, name) = match of.0 {
            Of::Board(quantity) => return quantity.of(self.board()),
            Of::Sequence(stretch) => {
                let octets = match stretch {
                    Stretch::Flight => self.flight(),
                    Stretch::Unacked => self.unacked(),
                    Stretch::Unsent => self.unsent(),
                };
                return Some(f64::from(octets));
            }
            Of::Offered => {
                let c = &self.counters;
                return Some(c.octets_out.saturating_sub(c.octets_again) as f64);
            }
            Of::Retransmits => {
                let openers = self.counters.openers_again;
                return Some(f64::from(self.board().tx.retransmits) + openers as f64);
            }
            Of::Probe(slot, name) => (slot, name),
        };
        let mut found = None;
        if let Some(slot) = self.slots.get(slot) {
            slot.part.observe(&mut |probe, value| {
                if probe == name {
                    found = Some(value).filter(|v| v.is_finite());
                }
            });
        }
        found
    }

    /// What can be read, in two pieces.
    pub fn readable(&self) -> [&[u8]; 2] {
        let kept = self.core.stores.kept.as_ref();
        kept.map_or([&[], &[]], |s| s.rx.readable())
    }

    /// Whether stores are attached.
    pub fn has_store(&self) -> bool {
        self.core.stores.kept.is_some()
    }

    /// Signals emitted by each slot since the last call, as bits by `Signal::index`.
    pub fn take_emitted(&mut self) -> [u32; SLOTS] {
        core::mem::take(&mut self.core.outbox.emitted)
    }
}
