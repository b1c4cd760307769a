//! A hop protocol in the shape of HxH (HxH thesis), in two compositions. A lane holds packets at
//! every node and sends one per credit; credits and the passive acknowledgement are read upstream
//! from what the next node is heard sending. The ends number packets, not octets.

use std::collections::VecDeque;
use wifu_engine::board::{ConnFacts, RxFacts, TxFacts};
use wifu_engine::component::Cx;
use wifu_engine::kit::{Ewma, Ranges};
use wifu_engine::signal::{Acked, Arrived};
use wifu_engine::{
    Admit, Arrival, Board, Component, Descriptor, Facts, Kind, Limit, Out, Payload, Permit, Reason,
    Role, Segment, Signal, Ticket, Want, WordSpec,
};
use wifu_wire::{Class, Flags, Head, Seq, Span, Time, Word};

/// All packets up to this number reached the destination.
const PACK: WordSpec = WordSpec::new("pack", 32).by_hops();
/// Packets that the transmitter takes beyond those it has.
const CREDITS: WordSpec = WordSpec::new("credits", 16).by_hops();
/// Not passed on: the destination has the packet `seq`.
pub const LAST_HOP: &str = "last_hop";
const LHACK: WordSpec = WordSpec::new(LAST_HOP, 1).marking(Class::Hop);
/// "Answer me."
const REQUEST: WordSpec = WordSpec::new("request", 1);
/// The last record, which carries nothing.
pub const LAST: WordSpec = WordSpec::new("last", 1).marking(Class::Data);

/// Whether the next hop transmitted this.
fn is_next(seg: &Segment<'_>, cx: &Cx<'_>) -> bool {
    seg.frame.transmitter.is_some() && seg.frame.transmitter == cx.board.site.next_hop
}

// ------------------------------------------------------------------ the lane's queue

/// Hands packets down in order, advertises half of its free places, passes the passive
/// acknowledgement on; before the last hop it keeps a packet until the destination says it has it.
pub static HOP_QUEUE: Descriptor = Descriptor {
    name: "hop-queue",
    role: Role::Reliable,
    doc: "The queue of a lane: credits, passive and last-hop acknowledgement.",
    words: &[PACK, CREDITS, LHACK],
    probes: &["pack", "kept", "again", "given_up"],
    writes: Facts::TX.with(Facts::CONN),
    hears: &[
        ("segment", &[]),
        ("overheard", &[]),
        ("timer", &[]),
        ("wrote", &["opened"]),
    ],
    offers: &[Kind::Resend, Kind::New],
    needs: &[("store", &["packets"])],
    hooks: &["segment", "overheard"],
    build: |p| {
        Ok(Box::new(HopQueue {
            words: ["pack", "credits", LAST_HOP].map(|w| p.word(w)),
            capacity: 0,
            pack: Seq(0),
            kept: VecDeque::new(),
            got: Ranges::new(256),
            rtt: Ewma::new(0.875),
            again: 0,
            given_up: 0,
        }))
    },
    ..Descriptor::EMPTY
};

const LAST_HOP_TRIES: u32 = 20;

struct Kept {
    ticket: Ticket,
    number: Seq,
    sent: Time,
    due: bool,
    tries: u32,
}

struct HopQueue {
    /// pack, credits, last_hop.
    words: [Word; 3],
    capacity: u32,
    pack: Seq,
    kept: VecDeque<Kept>,
    /// What the destination has, beyond `pack`.
    got: Ranges,
    rtt: Ewma,
    again: u32,
    given_up: u32,
}

impl HopQueue {
    fn learn(&mut self, pack: Seq) {
        self.pack = self.pack.later(pack);
        self.got.forget(self.pack.plus(1));
    }

    fn patience(&self) -> Span {
        let rtt = self
            .rtt
            .value()
            .map_or(Span(25_000_000), Span::from_secs_f64);
        (rtt * 2).clamp(Span::MILLI * 10, Span::SECOND)
    }

    /// The destination has `number`.
    fn delivered(&mut self, number: Seq, cx: &mut Cx<'_>) {
        let Some(at) = self.kept.iter().position(|k| k.number == number) else {
            return;
        };
        let Some(k) = self.kept.remove(at) else {
            return;
        };
        if k.tries == 0 {
            self.rtt.add((cx.now - k.sent).as_secs_f64());
        }
        cx.out.release(k.ticket);
        self.got.insert(number, number.plus(1));
        if let Some((_, end)) = self.got.covering(self.pack.plus(1)) {
            self.learn(end.minus(1));
        }
        self.rearm(cx);
    }

    fn rearm(&mut self, cx: &mut Cx<'_>) {
        let first = self.kept.iter().filter(|k| !k.due).map(|k| k.sent).min();
        match first {
            Some(t) => cx.out.arm(0, (t + self.patience()).max(Time(cx.now.0 + 1))),
            None => cx.out.disarm(0),
        }
    }

    fn stamp_words(&self, head: &mut Head, waiting: u32) {
        let taken = waiting + self.kept.len() as u32;
        head.set(self.words[0], self.pack.0);
        head.set(self.words[1], self.capacity.saturating_sub(taken) / 2);
    }
}

impl Component for HopQueue {
    /// What passes on its way back, or a last-hop acknowledgement.
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        if seg.head.get(self.words[2]) == 1 {
            self.delivered(seg.head.seq, cx);
            self.learn(Seq(seg.head.get(self.words[0])));
        } else if let Some(ack) = seg.head.ack.filter(|_| !seg.head.flags.has(Flags::SYN)) {
            self.learn(ack.minus(1));
        }
        Admit::Pass
    }

    fn on_overheard(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        if is_next(seg, cx) {
            self.learn(Seq(seg.head.get(self.words[0])));
        }
    }

    /// The first packet opens the lane.
    fn on_signal(&mut self, _wrote: &Signal, cx: &mut Cx<'_>) {
        if self.capacity == 0 {
            self.capacity = cx.board.app.queued + cx.board.app.room;
            self.kept.reserve(self.capacity as usize);
            cx.write(|c: &mut ConnFacts| c.running = true);
            cx.out.emit(Signal::Opened);
        }
    }

    fn on_timer(&mut self, _timer: u8, cx: &mut Cx<'_>) {
        let (now, patience) = (cx.now, self.patience());
        for k in self.kept.iter_mut().filter(|k| k.sent + patience <= now) {
            k.due = true;
        }
        while let Some(at) = self
            .kept
            .iter()
            .position(|k| k.due && k.tries >= LAST_HOP_TRIES)
        {
            if let Some(k) = self.kept.remove(at) {
                cx.out.release(k.ticket);
                self.given_up += 1;
            }
        }
        self.rearm(cx);
    }

    fn offer(&self, kind: Kind, board: &Board, _now: Time) -> Option<Want> {
        let any = match kind {
            Kind::Resend => self.kept.iter().any(|k| k.due),
            _ => board.app.queued > 0 && (self.kept.len() as u32) < (self.capacity / 2).max(1),
        };
        any.then_some(Want {
            kind,
            bytes: 1,
            least: 1,
        })
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let now = cx.now;
        let mut waiting = cx.board.app.queued;
        if want.kind == Kind::Resend {
            let Some(k) = self.kept.iter_mut().find(|k| k.due) else {
                return;
            };
            (k.due, k.sent, k.tries) = (false, now, k.tries + 1);
            (out.reason, out.head.seq) = (Reason::Timeout, k.number);
            out.payload = Payload::Packet {
                ticket: k.ticket,
                keep: true,
            };
            self.again += 1;
            cx.write(|t: &mut TxFacts| t.retransmits += 1);
        } else if let Some((ticket, number)) = cx.store.pop() {
            let keep = cx.board.site.last_hop;
            waiting -= 1;
            out.head.seq = number;
            out.payload = Payload::Packet { ticket, keep };
            if keep {
                let (sent, due, tries) = (now, false, 0);
                self.kept.push_back(Kept {
                    ticket,
                    number,
                    sent,
                    due,
                    tries,
                });
            }
        }
        self.stamp_words(out.head, waiting);
        self.rearm(cx);
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("pack", f64::from(self.pack.0));
        probe("kept", self.kept.len() as f64);
        probe("again", f64::from(self.again));
        probe("given_up", f64::from(self.given_up));
    }
}

// ------------------------------------------------------------------ the lane's gate

/// One credit, one packet; absolute, less what the next hop cannot have counted yet (HxH thesis).
pub static HOP_CREDIT: Descriptor = Descriptor {
    name: "hop-credit",
    role: Role::Gate,
    doc: "Sends a packet per credit overheard from the next hop.",
    words: &[CREDITS],
    probes: &["credits", "forced"],
    hears: &[
        ("overheard", &[]),
        ("wrote", &[]),
        ("sent", &[]),
        ("timer", &[]),
    ],
    needs: &[("store", &["packets"])],
    hooks: &["overheard", "permit"],
    build: |p| {
        Ok(Box::new(HopCredit {
            credits: p.word("credits"),
            left: None,
            sent: VecDeque::new(),
            rtt: Ewma::new(0.875),
            force: false,
            forced: 0,
        }))
    },
    ..Descriptor::EMPTY
};

struct HopCredit {
    credits: Word,
    left: Option<u32>,
    sent: VecDeque<(Seq, Time)>,
    rtt: Ewma,
    force: bool,
    forced: u32,
}

impl HopCredit {
    /// The credit timer runs while packets wait and no credit is left.
    fn review(&mut self, cx: &mut Cx<'_>) {
        let stuck = self.left == Some(0) && cx.board.app.queued > 0 && !cx.board.site.last_hop;
        if !stuck {
            cx.out.disarm(0);
        } else if !cx.out.armed(0) && !self.force {
            let rtt = self
                .rtt
                .value()
                .map_or(Span::MILLI * 100, Span::from_secs_f64);
            cx.out.arm_after(0, (rtt * 5).min(Span::SECOND * 2));
        }
    }
}

impl Component for HopCredit {
    fn on_overheard(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        if !is_next(seg, cx) {
            return;
        }
        let found = self.sent.iter().position(|x| x.0 == seg.head.seq);
        if let Some(i) = found {
            self.rtt.add((cx.now - self.sent[i].1).as_secs_f64());
            self.sent.drain(..=i);
        }
        let fresh = seg
            .head
            .get(self.credits)
            .saturating_sub(self.sent.len() as u32);
        let left = self.left.unwrap_or(fresh);
        let sure = found.is_some() || self.sent.is_empty();
        self.left = Some(if sure { fresh } else { left.min(fresh) });
        cx.out.disarm(0);
        self.review(cx);
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        let capacity = cx.board.app.queued + cx.board.app.room;
        let left = *self.left.get_or_insert_with(|| {
            self.sent.reserve(2 * capacity as usize + 1);
            capacity / 2
        });
        if let Signal::Sent(s) = signal
            && s.kind == Kind::New
        {
            self.left = Some(left.saturating_sub(1));
            self.force = false;
            self.sent.push_back((s.seq, cx.now));
            if self.sent.len() > 2 * capacity as usize {
                self.sent.pop_front();
            }
        }
        self.review(cx);
    }

    fn on_timer(&mut self, _timer: u8, _cx: &mut Cx<'_>) {
        self.force = true;
        self.forced += 1;
        self.sent.pop_front();
    }

    fn permit(&self, want: &Want, board: &Board, _now: Time) -> Permit {
        let open = self.force || self.left != Some(0) || board.site.last_hop;
        if open || want.kind != Kind::New {
            Permit::OPEN
        } else {
            Permit::shut(Limit::Peer)
        }
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("credits", f64::from(self.left.unwrap_or(0)));
        probe("forced", f64::from(self.forced));
    }
}

// ------------------------------------------------------------------ the source

/// Numbers records, frees them by what it overhears, sends again what the sink lists, asks for an
/// answer behind the last one.
pub static RECORD_SOURCE: Descriptor = Descriptor {
    name: "record-source",
    role: Role::Reliable,
    doc: "End-to-end reliability over packet numbers: passive acknowledgement and lists.",
    words: &[PACK.read(), REQUEST.written(), LAST.written()],
    probes: &["passive", "explicit", "resent", "asked"],
    reads: Facts::CONN,
    writes: Facts::TX,
    hears: &[
        ("segment", &["acked"]),
        ("overheard", &["acked"]),
        ("opened", &[]),
        ("timer", &[]),
    ],
    offers: &[Kind::Resend, Kind::New, Kind::Probe],
    needs: &[("store", &["records"])],
    hooks: &["segment", "overheard"],
    build: |p| {
        Ok(Box::new(RecordSource {
            words: ["pack", "request", "last"].map(|w| p.word(w)),
            table: VecDeque::new(),
            queued: 0,
            ask: false,
            tries: 0,
            counts: [0; 4],
        }))
    },
    ..Descriptor::EMPTY
};

#[derive(Clone, Copy)]
struct Going {
    last: u32,
    queued: bool,
}

struct RecordSource {
    /// pack, request, last.
    words: [Word; 3],
    /// From `una` on.
    table: VecDeque<Going>,
    queued: u32,
    ask: bool,
    tries: u32,
    /// Passive, explicit, resent, asked.
    counts: [u32; 4],
}

impl RecordSource {
    fn acknowledge(&mut self, next: Seq, cx: &mut Cx<'_>) -> bool {
        let tx = &cx.board.tx;
        if !next.after(tx.una) || next.after(tx.max) {
            return false;
        }
        let n = next.since(tx.una);
        for gone in self.table.drain(..n as usize) {
            self.queued -= u32::from(gone.queued);
        }
        let limited_by = cx.board.app.limited;
        let bytes = cx.store.free(next);
        cx.write(|t: &mut TxFacts| t.una = next);
        self.tries = 0;
        let (upto, in_recovery) = (next, self.queued > 0);
        cx.out.emit(Signal::Acked(Acked {
            bytes,
            upto,
            in_recovery,
            limited_by,
        }));
        true
    }

    fn send(&mut self, number: Seq, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let last = number == cx.board.app.end && cx.board.app.fin;
        (out.head.seq, out.head.ts) = (number, Some(cx.now.wire_micros()));
        if last {
            out.head.set(self.words[2], 1);
        } else {
            out.payload = Payload::Record(number);
        }
        if last || out.kind == Kind::Probe || (out.kind == Kind::Resend && self.queued == 0) {
            out.head.set(self.words[1], 1);
            cx.out.arm_after(
                0,
                (Span::SECOND * (1 << self.tries.min(3))).min(Span::SECOND * 8),
            );
        }
    }
}

impl Component for RecordSource {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let head = seg.head;
        if !cx.board.conn.running || head.flags.has(Flags::SYN) {
            return Admit::Pass;
        }
        if let Some(ack) = head.ack
            && self.acknowledge(ack, cx)
        {
            self.counts[1] += 1;
        }
        let una = cx.board.tx.una;
        for (at, g) in self.table.iter_mut().enumerate().filter(|(_, g)| !g.queued) {
            let number = una.plus(at as u32);
            let missing = head
                .ranges()
                .iter()
                .any(|r| r.0.upto(number) && number.before(r.1));
            // Queues on the path are FIFO: what went after a packet that arrived may still come.
            if missing && (g.last.wrapping_sub(head.ts_echo) as i32) <= 0 {
                g.queued = true;
                self.queued += 1;
            }
        }
        Admit::Pass
    }

    fn on_overheard(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        if is_next(seg, cx) && self.acknowledge(Seq(seg.head.get(self.words[0])).plus(1), cx) {
            self.counts[0] += 1;
        }
    }

    fn on_signal(&mut self, _opened: &Signal, cx: &mut Cx<'_>) {
        let first = cx.board.tx.iss.plus(1);
        self.table
            .reserve((cx.board.site.snd_buf / cx.board.conn.mss) as usize + 66);
        cx.write(|t: &mut TxFacts| (t.una, t.nxt, t.max) = (first, first, first));
    }

    fn on_timer(&mut self, _timer: u8, cx: &mut Cx<'_>) {
        self.ask = cx.board.tx.una != cx.board.tx.max;
        self.tries += u32::from(self.ask);
    }

    fn offer(&self, kind: Kind, board: &Board, _now: Time) -> Option<Want> {
        let (tx, app) = (&board.tx, &board.app);
        let end = app.end.plus(u32::from(app.fin));
        let any = match kind {
            Kind::Resend => self.queued > 0,
            Kind::New => tx.nxt.before(end) && self.table.len() < self.table.capacity(),
            _ => self.ask,
        };
        (any && board.conn.running).then_some(Want {
            kind,
            bytes: 1,
            least: 1,
        })
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let last = cx.now.wire_micros();
        match want.kind {
            Kind::New => {
                let number = cx.board.tx.nxt;
                self.table.push_back(Going {
                    last,
                    queued: false,
                });
                let next = number.plus(1);
                cx.write(|t: &mut TxFacts| (t.nxt, t.max) = (next, next));
                self.send(number, out, cx);
            }
            Kind::Resend => {
                let Some(at) = self.table.iter().position(|g| g.queued) else {
                    return;
                };
                self.table[at] = Going {
                    last,
                    queued: false,
                };
                self.queued -= 1;
                self.counts[2] += 1;
                out.reason = Reason::Sack;
                cx.write(|t: &mut TxFacts| t.retransmits += 1);
                self.send(cx.board.tx.una.plus(at as u32), out, cx);
            }
            _ => {
                self.ask = false;
                self.counts[3] += 1;
                out.reason = Reason::Probe;
                if let Some(g) = self.table.back_mut() {
                    g.last = last;
                }
                self.send(cx.board.tx.max.minus(1), out, cx);
            }
        }
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        for (name, n) in ["passive", "explicit", "resent", "asked"]
            .into_iter()
            .zip(self.counts)
        {
            probe(name, f64::from(n));
        }
    }
}

// ------------------------------------------------------------------ the sink

/// Appends records in order, keeps those beyond a hole, tells the last hop what it has and the
/// source what is missing.
pub static RECORD_SINK: Descriptor = Descriptor {
    name: "record-sink",
    role: Role::Receive,
    doc: "Delivers records in order; acknowledges to the last hop, lists what is missing.",
    // The credits are between hops: the ends only lay out their place.
    words: &[
        PACK.written(),
        CREDITS.written(),
        LHACK.written(),
        REQUEST.read(),
        LAST.read(),
    ],
    probes: &["last_hop_acks", "lists", "parked"],
    reads: Facts::CONN,
    wants: Facts::TX,
    writes: Facts::RX,
    hears: &[
        ("segment", &["arrived"]),
        ("timer", &[]),
        ("opened", &[]),
        ("read", &["arrived"]),
    ],
    offers: &[Kind::Urgent, Kind::Ack],
    needs: &[("store", &["records"])],
    hooks: &["segment", "stamp"],
    build: |p| {
        Ok(Box::new(RecordSink {
            words: ["pack", "credits", LAST_HOP, "request", "last"].map(|w| p.word(w)),
            owed: VecDeque::new(),
            parked: vec![None; PARKED as usize],
            memory: Vec::new(),
            highest: Seq(0),
            last: None,
            ts: 0,
            due: false,
            counts: [0; 3],
        }))
    },
    ..Descriptor::EMPTY
};

/// Records that wait beyond a hole at most.
const PARKED: u32 = 256;
const GAP: Span = Span(50_000_000);
const AGAIN: Span = Span(200_000_000);

struct RecordSink {
    /// pack, credits, last_hop, request, last.
    words: [Word; 5],
    /// Numbers to acknowledge to the last hop.
    owed: VecDeque<Seq>,
    /// Number and length of what waits, at number modulo PARKED.
    parked: Vec<Option<(Seq, usize)>>,
    memory: Vec<u8>,
    highest: Seq,
    last: Option<Seq>,
    ts: u32,
    due: bool,
    /// Last-hop ACKs, lists, parked.
    counts: [u32; 3],
}

impl RecordSink {
    fn place(number: Seq) -> usize {
        (number.0 % PARKED) as usize
    }

    fn has(&self, number: Seq, nxt: Seq) -> bool {
        let parked = self.parked[Self::place(number)];
        number.before(nxt) || parked.is_some_and(|p| p.0 == number)
    }

    /// Keep a record; false if there is no room for it.
    fn keep(&mut self, number: Seq, payload: &[u8], cx: &mut Cx<'_>) -> bool {
        let nxt = cx.board.rx.nxt;
        if number != nxt {
            let slot = cx.board.conn.mss as usize;
            let fits = number.since(nxt) < PARKED && payload.len() <= slot;
            if fits {
                let at = Self::place(number);
                self.memory[at * slot..at * slot + payload.len()].copy_from_slice(payload);
                self.parked[at] = Some((number, payload.len()));
                self.counts[2] += 1;
            }
            return fits;
        }
        if !cx.store.append(payload) {
            return false;
        }
        cx.write(|r: &mut RxFacts| r.nxt = r.nxt.plus(1));
        self.unpark(cx);
        true
    }

    fn unpark(&mut self, cx: &mut Cx<'_>) {
        let slot = cx.board.conn.mss as usize;
        loop {
            let nxt = cx.board.rx.nxt;
            let at = Self::place(nxt);
            let Some((_, len)) = self.parked[at].filter(|p| p.0 == nxt) else {
                return;
            };
            if !cx.store.append(&self.memory[at * slot..at * slot + len]) {
                return;
            }
            self.parked[at] = None;
            cx.write(|r: &mut RxFacts| r.nxt = r.nxt.plus(1));
        }
    }

    fn on_data(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        let (number, nxt) = (seg.head.seq, cx.board.rx.nxt);
        let known = self.has(number, nxt);
        if !known && !self.keep(number, seg.payload, cx) {
            return;
        }
        if seg.head.get(self.words[4]) == 1 {
            self.last = Some(number);
        }
        self.owed.push_back(number);
        let missing = if number.after(self.highest) {
            number.since(self.highest) - 1
        } else {
            0
        };
        self.highest = self.highest.later(number);
        let order = match number {
            _ if known => Arrival::Duplicate,
            n if n.after(nxt) => Arrival::Ahead,
            n if n == nxt && cx.board.rx.nxt == nxt.plus(1) => Arrival::InOrder,
            _ => Arrival::Fills,
        };
        let fin = self.finish(cx);
        self.due |= seg.head.get(self.words[3]) == 1;
        if cx.board.rx.nxt.upto(self.highest) && !cx.out.armed(0) {
            cx.out.arm_after(0, GAP);
        }
        let (seq, bytes, gap, ce) = (number, seg.payload.len() as u32, missing, false);
        cx.out.emit(Signal::Arrived(Arrived {
            seq,
            bytes,
            gap,
            order,
            fin,
            ce,
        }));
    }

    /// Whether the last record was just delivered; it is acknowledged at once.
    fn finish(&mut self, cx: &mut Cx<'_>) -> bool {
        let fin = !cx.board.rx.fin && self.last.is_some_and(|l| cx.board.rx.nxt == l.plus(1));
        if fin {
            self.due = true;
            cx.write(|r: &mut RxFacts| r.fin = true);
        }
        fin
    }

    /// All ranges of numbers that are missing below the highest one seen.
    fn list(&mut self, head: &mut Head, nxt: Seq) {
        let (mut at, mut from) = (nxt, None);
        while at.upto(self.highest) {
            match (self.has(at, nxt), from) {
                (false, None) => from = Some(at),
                (true, Some(start)) => {
                    self.counts[1] += u32::from(head.push_range((start, at)));
                    from = None;
                }
                _ => {}
            }
            at = at.plus(1);
        }
    }
}

impl Component for RecordSink {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let head = seg.head;
        if head.flags.has(Flags::SYN) && !cx.board.rx.synced {
            let (irs, first) = (head.seq, head.seq.plus(1));
            self.highest = irs;
            cx.write(|r: &mut RxFacts| (r.irs, r.nxt, r.synced) = (irs, first, true));
        } else if !seg.payload.is_empty() || head.get(self.words[4]) == 1 {
            self.ts = head.ts.unwrap_or(self.ts);
            self.on_data(seg, cx);
        }
        Admit::Pass
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        if *signal == Signal::Read {
            // There is room again for what waits behind the octets that were read.
            let (seq, order) = (cx.board.rx.nxt, Arrival::Fills);
            self.unpark(cx);
            if cx.board.rx.nxt != seq {
                let (fin, bytes, gap, ce) = (self.finish(cx), 0, 0, false);
                cx.out.emit(Signal::Arrived(Arrived {
                    seq,
                    bytes,
                    gap,
                    order,
                    fin,
                    ce,
                }));
            }
            return;
        }
        self.memory = vec![0; (PARKED * cx.board.conn.mss) as usize];
        self.owed.reserve(64);
    }

    fn on_timer(&mut self, _timer: u8, cx: &mut Cx<'_>) {
        if cx.board.rx.nxt.upto(self.highest) {
            self.due = true;
            cx.out.arm_after(0, AGAIN);
        }
    }

    fn offer(&self, kind: Kind, _board: &Board, _now: Time) -> Option<Want> {
        let any = if kind == Kind::Urgent {
            !self.owed.is_empty()
        } else {
            self.due
        };
        any.then_some(Want::bare(kind))
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let nxt = cx.board.rx.nxt;
        if want.kind == Kind::Urgent {
            let Some(number) = self.owed.pop_front() else {
                return;
            };
            out.head.seq = number;
            out.head.set(self.words[0], nxt.minus(1).0);
            out.head.set(self.words[2], 1);
            self.counts[0] += 1;
        } else {
            self.due = false;
            out.head.seq = cx.board.tx.max;
            out.head.ts_echo = self.ts;
            self.list(out.head, nxt);
        }
    }

    fn stamp(&mut self, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        if cx.board.rx.synced {
            out.head.ack = Some(cx.board.rx.nxt);
        }
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        for (name, n) in ["last_hop_acks", "lists", "parked"]
            .into_iter()
            .zip(self.counts)
        {
            probe(name, f64::from(n));
        }
    }
}
