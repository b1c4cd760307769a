//! A bench for one part: it is handed signals, segments and time, and what it says and offers is
//! collected. For the tests beside each part, the conformance suite and the check that a part
//! overrides only what it declares; connections do not use it.

use crate::board::{Board, Facts};
use crate::checks;
use crate::component::{
    Admit, Aside, Component, Cx, Lent, Out, Outbox, Outlet, Payload, SLOTS, Segment, Stores, View,
};
use crate::descriptor::{BuildError, Descriptor};
use crate::params::{Params, Value, values};
use crate::permit::{Kind, Permit, Want};
use crate::signal::{ExtId, Sent, Signal};
use crate::store::{SendStore, StoreKind, StorePlan, Ticket};
use wifu_wire::{FrameFacts, Head, Note, Notes, Rng, Seq, Span, Time, Word};

/// One part with a board of its own, which the test fills in.
pub struct Bench {
    /// The present.
    pub now: Time,
    /// The facts.
    pub board: Board,
    desc: &'static Descriptor,
    grant: Facts,
    part: Box<dyn Component>,
    outbox: Outbox,
    stores: Stores,
    exts: Vec<(&'static str, ExtId)>,
}

impl Bench {
    /// The part with its defaults, changed by `set` (parameter, text). Its words and named signals
    /// get numbers in the order of the descriptor.
    ///
    /// # Errors
    /// Unknown parameters, values out of range, and what the part says of their combination.
    pub fn new(desc: &'static Descriptor, set: &[(&str, &str)]) -> Result<Bench, BuildError> {
        let values = values(desc.params, set.iter().copied())
            .map_err(|wrong| BuildError(format!("{}: {}", desc.name, wrong.join("; "))))?;
        Bench::with_values(desc, &values)
    }

    /// The part with these values of all its parameters.
    ///
    /// # Errors
    /// What the part says of them.
    pub fn with_values(
        desc: &'static Descriptor,
        values: &[(&'static str, Value)],
    ) -> Result<Bench, BuildError> {
        let words: Vec<(&'static str, Word)> = (0u8..)
            .zip(desc.words)
            .map(|(i, w)| (w.name(), Word(i)))
            .collect();
        let notes: Vec<(&'static str, Note)> = (0u8..)
            .zip(desc.notes)
            .map(|(i, n)| (n.name, Note(i)))
            .collect();
        let exts = checks::intern(&[desc]);
        let part = (desc.build)(&Params {
            part: desc.name,
            values,
            words: &words,
            notes: &notes,
            exts: &exts,
        })?;
        Ok(Bench {
            exts,
            ..Bench::holding(desc, part, desc.writes)
        })
    }

    /// Around a part that a blueprint built. It may write every section: what an undeclared hook
    /// would write is not declared either.
    pub(crate) fn around(desc: &'static Descriptor, part: Box<dyn Component>) -> Bench {
        let mut bench = Bench::holding(desc, part, Facts::EVERY);
        bench.board.conn.mss = 1000;
        bench
    }

    fn holding(desc: &'static Descriptor, part: Box<dyn Component>, grant: Facts) -> Bench {
        Bench {
            now: Time::ZERO,
            board: Board::default(),
            desc,
            grant,
            part,
            outbox: Outbox::new([Rng::new(1); SLOTS]),
            stores: Stores {
                kept: None,
                plan: StorePlan {
                    kind: StoreKind::Octets,
                    packets: 16,
                },
            },
            exts: Vec::new(),
        }
    }

    fn call<T>(&mut self, f: impl FnOnce(&mut dyn Component, &mut Cx<'_>) -> T) -> T {
        let mut cx = Cx {
            now: self.now,
            board: View {
                board: &mut self.board,
                grant: self.grant,
                part: &self.desc.name,
            },
            store: Lent {
                stores: &mut self.stores,
                grant: self.grant,
            },
            out: Outlet {
                now: self.now,
                slot: 0,
                outbox: &mut self.outbox,
            },
        };
        let result = f(&mut *self.part, &mut cx);
        self.settle();
        result
    }

    /// Attach a store, of packets with so many places, as a manager or the first packet does; data
    /// are numbered from `first` on.
    pub fn attach(&mut self, kind: StoreKind, packets: usize, first: Seq) {
        let plan = StorePlan { kind, packets };
        let store = plan.build(&self.board, first, first);
        self.stores = Stores {
            kept: Some(Box::new(store)),
            plan,
        };
        self.settle();
    }

    /// A packet enters the store of packets; false if there is no place.
    pub fn push(&mut self, ticket: Ticket, number: Seq) -> bool {
        let Some(SendStore::Packets(p)) = self.stores.kept.as_mut().map(|s| &mut s.tx) else {
            return false;
        };
        let fits = p.push(ticket, number);
        self.settle();
        fits
    }

    /// The application writes into the store of records; how many octets fitted.
    pub fn write(&mut self, bytes: &[u8]) -> u32 {
        let Some(SendStore::Records(r)) = self.stores.kept.as_mut().map(|s| &mut s.tx) else {
            return 0;
        };
        let n = r.write(bytes);
        r.cut();
        self.settle();
        n
    }

    /// The application reads so many octets.
    pub fn read(&mut self, octets: u32) {
        if let Some(store) = self.stores.kept.as_mut() {
            store.rx.consume(octets);
        }
        self.settle();
    }

    /// Packets that the part gave back to the pool since the last call.
    pub fn freed(&mut self) -> Vec<Ticket> {
        self.outbox.freed.drain(..).collect()
    }

    /// What the board says of the store is as the store is.
    fn settle(&mut self) {
        let Some(store) = self.stores.kept.as_ref() else {
            return;
        };
        let app = &mut self.board.app;
        app.unread = store.rx.unread();
        match &store.tx {
            SendStore::Packets(p) => (app.queued, app.room) = (p.len(), p.room()),
            SendStore::Records(r) => (app.room, app.end) = (r.room(), r.end()),
            SendStore::Octets(_) => {}
        }
    }

    pub(crate) fn descriptor(&self) -> &'static Descriptor {
        self.desc
    }

    /// See [`Component::methods`].
    pub fn methods(&self) -> &'static [&'static str] {
        self.part.methods()
    }

    fn said(&mut self) -> Vec<Signal> {
        std::iter::from_fn(|| self.outbox.ring.pop()).collect()
    }

    /// Something was learned; returns what the part says to it.
    pub fn signal(&mut self, signal: Signal) -> Vec<Signal> {
        self.call(|part, cx| part.on_signal(&signal, cx));
        self.said()
    }

    /// A segment arrives.
    pub fn segment(&mut self, head: &Head, payload: &[u8]) -> (Admit, Vec<Signal>) {
        self.segment_by(head, payload, &FrameFacts::default())
    }

    /// A segment arrives by a frame of which this is known.
    pub fn segment_by(
        &mut self,
        head: &Head,
        payload: &[u8],
        frame: &FrameFacts,
    ) -> (Admit, Vec<Signal>) {
        let seg = Segment {
            head,
            payload,
            frame,
        };
        let admit = self.call(|part, cx| part.on_segment(&seg, cx));
        (admit, self.said())
    }

    /// A frame for somebody else is heard.
    pub fn overheard(&mut self, head: &Head, frame: &FrameFacts) -> Vec<Signal> {
        let seg = Segment {
            head,
            payload: &[],
            frame,
        };
        self.call(|part, cx| part.on_overheard(&seg, cx));
        self.said()
    }

    /// The name of a signal, named ones included.
    pub fn name(&self, signal: &Signal) -> &'static str {
        match signal {
            Signal::Ext(id, _) => self.exts.iter().find(|e| e.1 == *id).map_or("", |e| e.0),
            plain => Signal::NAMES[plain.index()],
        }
    }

    /// When the timer is due.
    pub fn due(&self, timer: u8) -> Time {
        self.outbox.timers.at(0, usize::from(timer))
    }

    /// Time passes; due timers fire in order.
    pub fn advance(&mut self, to: Time) -> Vec<Signal> {
        let mut said = Vec::new();
        loop {
            let first = self.outbox.timers.first();
            let Some((_, timer)) = self.outbox.timers.take(to) else {
                break;
            };
            self.now = self.now.max(first);
            said.extend(self.fire(timer as u8));
        }
        self.now = to;
        said
    }

    /// The timer fires now, whether it was armed or not.
    pub fn fire(&mut self, timer: u8) -> Vec<Signal> {
        let timers = &mut self.outbox.timers;
        timers.set(0, usize::from(timer), Time::NEVER);
        self.call(|part, cx| part.on_timer(timer, cx));
        self.said()
    }

    /// Would the part send something of this kind?
    pub fn offer(&self, kind: Kind) -> Option<Want> {
        self.part.offer(kind, &self.board, self.now)
    }

    /// May this be sent?
    pub fn permit(&self, want: &Want) -> Permit {
        self.part.permit(want, &self.board, self.now)
    }

    /// Accept the part's offer: fill and, if declared, stamp `head`. Returns what left, and what
    /// the part said to it.
    pub fn fill(&mut self, want: &Want, head: &mut Head) -> (Payload, Sent, Vec<Signal>) {
        let mut aside = Aside::NONE;
        self.fill_aside(want, head, &mut aside)
    }

    /// The same, with what the part says that is on no wire.
    pub fn fill_aside(
        &mut self,
        want: &Want,
        head: &mut Head,
        aside: &mut Aside,
    ) -> (Payload, Sent, Vec<Signal>) {
        let mut out = Out::new(want.kind, head, aside);
        let stamps = self.desc.has_hook("stamp");
        self.call(|part, cx| part.fill(want, &mut out, cx));
        if stamps {
            self.call(|part, cx| part.stamp(&mut out, cx));
        }
        let sent = Sent {
            kind: want.kind,
            reason: out.reason,
            acks: out.head.ack.is_some(),
            seq: out.head.seq,
            bytes: want.bytes,
            late: Span::ZERO,
        };
        (out.payload, sent, self.said())
    }

    /// As [`Bench::fill`]; then the part is told, if it hears that, that the segment left.
    pub fn send(&mut self, want: &Want, head: &mut Head) -> (Payload, Vec<Signal>) {
        let (payload, sent, mut said) = self.fill(want, head);
        if self.desc.heard().any(|(name, _)| name == "sent") {
            said.extend(self.signal(Signal::Sent(sent)));
        }
        (payload, said)
    }

    /// Another part's segment leaves: stamp it. Returns what its node is told besides; annotations
    /// have their numbers by their places in the descriptor.
    pub fn stamp(&mut self, kind: Kind, head: &mut Head) -> Notes {
        let mut aside = Aside::NONE;
        let mut out = Out::new(kind, head, &mut aside);
        self.call(|part, cx| part.stamp(&mut out, cx));
        aside.notes
    }

    /// Change a parameter at run time.
    pub fn set(&mut self, param: &str, value: Value) -> bool {
        self.part.set(param, value)
    }

    /// An internal quantity.
    pub fn probe(&self, name: &str) -> Option<f64> {
        let mut found = None;
        self.part.observe(&mut |n, v| {
            if n == name {
                found = Some(v);
            }
        });
        found
    }

    /// All internal quantities.
    pub fn probes(&self) -> Vec<(&'static str, f64)> {
        let mut all = Vec::new();
        self.part.observe(&mut |n, v| all.push((n, v)));
        all
    }

    /// Signals emitted since the last call, as bits by [`Signal::index`].
    pub fn take_emitted(&mut self) -> u32 {
        core::mem::take(&mut self.outbox.emitted[0])
    }
}
