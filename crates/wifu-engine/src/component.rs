//! Components: what a part implements, and what it may touch.

use crate::board::{Board, Facts, Section};
use crate::params::Value;
use crate::permit::{Kind, Permit, Reason, Want};
use crate::signal::{Ring, Signal};
use crate::store::{Accepted, Inbox, Insert, SendStore, Store, StorePlan, Ticket};
use crate::timers::Timers;
use core::ops::Deref;
use wifu_wire::{FrameFacts, Head, LinkTo, Note, Notes, Rng, Seq, Span, Time};

pub use crate::timers::{SLOTS, TIMERS};

/// A segment that arrived.
pub struct Segment<'a> {
    /// Its header.
    pub head: &'a Head,
    /// Octets behind the header, as they came; may be empty.
    pub payload: &'a [u8],
    /// What came with the frame.
    pub frame: &'a FrameFacts,
}

/// What a leaving segment carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payload {
    /// Nothing.
    None,
    /// Octets of the send ring.
    Stream {
        /// First octet.
        start: Seq,
        /// How many.
        len: u32,
    },
    /// A record of the record store.
    Record(Seq),
    /// A held packet, into which the header's hop-writable words are patched.
    Packet {
        /// Where the caller has it.
        ticket: Ticket,
        /// Keep it after it was handed down.
        keep: bool,
    },
}

/// A segment that is leaving.
pub struct Out<'a> {
    /// What it is.
    pub kind: Kind,
    /// Why it goes again, if it does.
    pub reason: Reason,
    /// Its header.
    pub head: &'a mut Head,
    /// Where the engine takes the octets behind the header from.
    pub payload: Payload,
    /// What goes with it inside this node.
    pub aside: &'a mut Aside,
}

impl<'a> Out<'a> {
    /// A segment that leaves for the first time, with this header.
    #[inline]
    pub fn new(kind: Kind, head: &'a mut Head, aside: &'a mut Aside) -> Out<'a> {
        if !aside.is_none() {
            *aside = Aside::NONE;
        }
        Out {
            kind,
            reason: Reason::First,
            head,
            payload: Payload::None,
            aside,
        }
    }
}

/// What goes with a leaving segment inside its node; it is on no wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Aside {
    /// To whom it leaves over the link. Lanes may say; what an end sends takes the route.
    pub to: LinkTo,
    /// What the node's handlers are to know of it.
    pub notes: Notes,
}

impl Aside {
    /// Along the route, without annotations.
    pub const NONE: Aside = Aside {
        to: LinkTo::Route,
        notes: Notes::EMPTY,
    };

    /// Whether it says anything.
    #[inline]
    fn is_none(&self) -> bool {
        self.to == LinkTo::Route && self.notes.is_empty()
    }
}

/// What a part says of an arriving segment.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admit {
    /// Go on.
    Pass,
    /// An old acknowledgement: later parts see none.
    DataOnly,
    /// No later part sees it; counted under the reason.
    Drop(&'static str),
}

/// One contribution to a transport protocol. Override what the descriptor declares, and nothing
/// else: a hook that is overridden and not declared is found when a blueprint is made. All methods
/// run to completion; none may block, or allocate in steady state.
#[allow(unused_variables)]
pub trait Component: Send {
    /// A segment arrived.
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        cx.board.defaulted.mark();
        Admit::Pass
    }
    /// The radio heard a frame that was not addressed to this node.
    fn on_overheard(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        cx.board.defaulted.mark();
    }
    /// Something was learned.
    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        cx.board.defaulted.mark();
    }
    /// A timer of this part is due.
    fn on_timer(&mut self, timer: u8, cx: &mut Cx<'_>) {
        cx.board.defaulted.mark();
    }
    /// Would you send something of this kind? Pure: may be asked any number of times, only for
    /// declared kinds.
    fn offer(&self, kind: Kind, board: &Board, now: Time) -> Option<Want> {
        board.defaulted.mark();
        None
    }
    /// May this be sent? Pure.
    fn permit(&self, want: &Want, board: &Board, now: Time) -> Permit {
        board.defaulted.mark();
        Permit::OPEN
    }
    /// Your offer was accepted (perhaps for fewer octets): commit it.
    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        cx.board.defaulted.mark();
    }
    /// Any segment is leaving: write the words you own.
    fn stamp(&mut self, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        cx.board.defaulted.mark();
    }
    /// A parameter changes at run time; false if it can't.
    fn set(&mut self, param: &str, value: Value) -> bool {
        false
    }
    /// It changed: what follows from that at once, such as a timer. Called after each
    /// [`Component::set`] that returned true.
    fn on_set(&mut self, cx: &mut Cx<'_>) {}
    /// Report internal quantities by declared name.
    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {}
    /// For lifts of narrower traits: the signals that have a method of their own there, whose
    /// default bodies mark [`Board::defaulted`]. Such a method is checked as a hook is.
    fn methods(&self) -> &'static [&'static str] {
        &[]
    }
}

/// Everything a component may touch, in parts that borrow apart: a look at the board may be held
/// while emitting or arming.
pub struct Cx<'a> {
    /// The present.
    pub now: Time,
    /// The facts.
    pub board: View<'a>,
    /// Signals, timers, randomness.
    pub out: Outlet<'a>,
    /// The store, by grant.
    pub store: Lent<'a>,
}

/// Reading is free (`Deref`); writing goes through [`Cx::write`].
pub struct View<'a> {
    pub(crate) board: &'a mut Board,
    pub(crate) grant: Facts,
    /// Whose look it is: where the descriptor has the name, since each hook is given a view.
    pub(crate) part: &'static &'static str,
}

impl Deref for View<'_> {
    type Target = Board;
    fn deref(&self) -> &Board {
        self.board
    }
}

impl Cx<'_> {
    /// Change a section that the descriptor declared in `writes`.
    ///
    /// # Panics
    /// If it was not declared.
    pub fn write<S: Section>(&mut self, f: impl FnOnce(&mut S)) {
        let v = &mut self.board;
        assert!(
            v.grant.has(S::GRANT),
            "{} wrote `{}`, but its descriptor does not declare it: add it to writes",
            v.part,
            S::GRANT.names().next().unwrap_or("?")
        );
        f(S::of(v.board));
    }

    /// Manager only: set the SYN mark. The one time that the engine writes `tx`.
    pub fn mark_syn(&mut self, iss: Seq) {
        assert!(
            self.board.grant.has(Facts::CONN),
            "only a manager sets marks"
        );
        let board = &mut *self.board.board;
        board.app.syn = Some(iss);
        board.app.end = iss.plus(1);
        (board.tx.iss, board.tx.una, board.tx.nxt, board.tx.max) = (iss, iss, iss, iss);
    }

    /// Manager only: set the FIN mark behind what was written.
    pub fn mark_fin(&mut self) {
        assert!(
            self.board.grant.has(Facts::CONN),
            "only a manager sets marks"
        );
        self.board.board.app.fin = true;
    }

    /// Manager only: attach the stores; `receive` is the number of the first octet to come.
    pub fn attach(&mut self, receive: Seq) {
        assert!(
            self.board.grant.has(Facts::CONN),
            "only a manager attaches stores"
        );
        self.store.attach(self.board.board, receive);
    }
}

/// Signals out, timers, randomness.
pub struct Outlet<'a> {
    pub(crate) now: Time,
    pub(crate) slot: usize,
    pub(crate) outbox: &'a mut Outbox,
}

/// What the outlets of a connection's parts lead to.
pub(crate) struct Outbox {
    pub ring: Ring,
    pub timers: Timers,
    pub rngs: [Rng; SLOTS],
    pub freed: Vec<Ticket>,
    /// What each slot emitted, as bits by [`Signal::index`]: for the conformance suite.
    pub emitted: [u32; SLOTS],
}

impl Outbox {
    /// No signal is on its way and no timer runs; one stream per slot.
    pub fn new(rngs: [Rng; SLOTS]) -> Outbox {
        Outbox {
            ring: Ring::new(),
            timers: Timers::new(),
            rngs,
            freed: Vec::new(),
            emitted: [0; SLOTS],
        }
    }
}

impl Outlet<'_> {
    /// Say what was learned; delivered after this hook returned.
    pub fn emit(&mut self, signal: Signal) {
        self.outbox.emitted[self.slot] |= 1 << signal.index();
        self.outbox.ring.push(signal);
    }

    /// Wake this part at `at`.
    pub fn arm(&mut self, timer: u8, at: Time) {
        debug_assert!(
            at > self.now,
            "a timer in the past lets a node spin at one instant"
        );
        self.set(timer, at);
    }

    /// Wake this part after `wait`.
    pub fn arm_after(&mut self, timer: u8, wait: Span) {
        self.arm(timer, self.now + wait);
    }

    /// Forget the timer.
    pub fn disarm(&mut self, timer: u8) {
        self.set(timer, Time::NEVER);
    }

    /// Whether the timer runs.
    pub fn armed(&self, timer: u8) -> bool {
        self.due(timer) != Time::NEVER
    }

    /// When the timer is due; [`Time::NEVER`] if it does not run.
    pub fn due(&self, timer: u8) -> Time {
        self.outbox.timers.at(self.slot, usize::from(timer))
    }

    fn set(&mut self, timer: u8, at: Time) {
        let timers = &mut self.outbox.timers;
        timers.set(self.slot, usize::from(timer), at);
    }

    /// This part's own random stream.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.outbox.rngs[self.slot]
    }

    /// Note a value on the packet that this part of a lane is shown ([`Component::on_segment`]):
    /// the handlers, lanes and parts that see it after this one read it. Parts of an end are the
    /// last to see a packet; what leaves they annotate by [`Out::aside`].
    pub fn note(&mut self, note: Note, value: u32) {
        self.outbox.ring.noted.set(note, value);
    }

    /// Give a kept packet back to the pool.
    pub fn release(&mut self, ticket: Ticket) {
        self.outbox.freed.push(ticket);
    }
}

/// The stores, by grant: the writer of `tx` frees and pops, the writer of `rx` inserts.
pub struct Lent<'a> {
    pub(crate) stores: &'a mut Stores,
    pub(crate) grant: Facts,
}

/// The stores of a connection, once they are attached, and what they will be.
pub(crate) struct Stores {
    pub kept: Option<Box<Store>>,
    pub plan: StorePlan,
}

impl Lent<'_> {
    fn attach(&mut self, board: &mut Board, receive: Seq) {
        if self.stores.kept.is_none() {
            let first = board.app.end;
            self.stores.kept = Some(Box::new(self.stores.plan.build(board, first, receive)));
            board.app.room = board.site.snd_buf;
        }
    }

    fn tx(&mut self) -> Option<&mut SendStore> {
        assert!(
            self.grant.has(Facts::TX),
            "only the writer of tx may use the send store"
        );
        self.stores.kept.as_mut().map(|s| &mut s.tx)
    }

    /// Whether stores are attached.
    pub fn attached(&self) -> bool {
        self.stores.kept.is_some()
    }

    /// Forget what was acknowledged; returns how many octets (records: packets) that were.
    pub fn free(&mut self, upto: Seq) -> u32 {
        match self.tx() {
            Some(SendStore::Octets(ring)) => ring.free(upto),
            Some(SendStore::Records(records)) => records.free(upto),
            _ => 0,
        }
    }

    /// The oldest packet of a packet store.
    pub fn front(&self) -> Option<(Ticket, Seq)> {
        match self.stores.kept.as_ref().map(|s| &s.tx) {
            Some(SendStore::Packets(p)) => p.front(),
            _ => None,
        }
    }

    /// Take the oldest packet of a packet store.
    pub fn pop(&mut self) -> Option<(Ticket, Seq)> {
        match self.tx() {
            Some(SendStore::Packets(p)) => p.pop(),
            _ => None,
        }
    }

    /// Take a packet of a packet store from wherever it waits.
    pub fn take(&mut self, number: Seq) -> Option<Ticket> {
        match self.tx() {
            Some(SendStore::Packets(p)) => p.take(number),
            _ => None,
        }
    }

    /// Put arriving octets where they belong; `None` while no stores are attached.
    pub fn insert(&mut self, at: Seq, bytes: &[u8]) -> Option<Insert> {
        assert!(
            self.grant.has(Facts::RX),
            "only the writer of rx may use the receive store"
        );
        self.stores.kept.as_mut().map(|s| s.rx.insert(at, bytes))
    }

    /// A record came; `None` if there is no room for it, or no stores are attached. Of a store of
    /// records, whose numbers don't count octets.
    pub fn accept(&mut self, number: Seq, record: &[u8]) -> Option<Accepted> {
        assert!(
            self.grant.has(Facts::RX),
            "only the writer of rx may use the receive store"
        );
        let store = self.stores.kept.as_mut()?;
        let inbox = store.inbox.as_mut()?;
        inbox.accept(&mut store.rx, number, record)
    }

    /// Whether a record of so many octets that has not come would be taken.
    pub fn fits(&self, number: Seq, octets: u32) -> bool {
        let inbox = |s: &Store| Some(s.inbox.as_ref()?.fits(&s.rx, number, octets as usize));
        let store = self.stores.kept.as_deref();
        store.and_then(inbox).unwrap_or(false)
    }

    /// What came of a store of records; `None` while no stores are attached.
    pub fn inbox(&self) -> Option<&Inbox> {
        self.stores.kept.as_ref()?.inbox.as_ref()
    }

    /// Throw away what can be read: the application is gone.
    pub fn discard(&mut self) {
        if let Some(s) = self.stores.kept.as_mut() {
            let n = s.rx.unread();
            s.rx.consume(n);
        }
    }

    /// Octets that may come; 0 while no stores are attached. Records that wait beyond a hole take
    /// of it.
    pub fn window(&self) -> u32 {
        self.stores.kept.as_ref().map_or(0, |s| {
            let waiting = s.inbox.as_ref().map_or(0, Inbox::octets);
            s.rx.window().saturating_sub(waiting)
        })
    }

    /// Ranges beyond a hole, in sequence order.
    pub fn ranges(&self) -> &[(Seq, Seq)] {
        self.stores.kept.as_ref().map_or(&[], |s| s.rx.ranges())
    }

    /// The range that the latest arrival belongs to.
    pub fn newest(&self) -> Option<(Seq, Seq)> {
        self.stores.kept.as_ref().and_then(|s| s.rx.newest())
    }
}
