//! A rate-gated protocol in the shape of ATP (ATP thesis): no window, no retransmission timer. Hops
//! raise a header word to the largest node delay on the path; the receiver averages it and feeds it
//! back in epochs, with the holes that it sees; the sender sends one packet per delay.

use std::collections::VecDeque;
use wifu_engine::board::TxFacts;
use wifu_engine::component::Cx;
use wifu_engine::kit::{Ewma, Pace};
use wifu_engine::signal::{Acked, ExtId, Lost};
use wifu_engine::{
    Admit, Board, Cause, Component, Descriptor, Facts, FieldUse, Kind, Limit, Out, ParamSpec,
    Payload, Permit, Reason, Role, Segment, Signal, Want, WordSpec,
};
use wifu_wire::{Class, Flags, Head, HeadField, Seq, Span, Time, Word};

const EPOCH: ParamSpec = ParamSpec::span(
    "epoch",
    Span(40_000_000),
    Span(1_000_000),
    Span(10_000_000_000),
    "Time between feedbacks.",
);

// ------------------------------------------------------------------ reliability

/// Acknowledges by feedback only: what lies in a reported hole goes again; when the receiver has
/// heard nothing for a while ("more"), everything beyond the last hole too. Hears no timer.
pub static HOLE_LIST: Descriptor = Descriptor {
    name: "hole-list",
    role: Role::Reliable,
    doc: "Sends again what a feedback reports missing. No timer.",
    words: &[
        WordSpec::new("fb_seq", 8),
        WordSpec::new("hold", 32),
        WordSpec::new("more", 1),
        WordSpec::new("feedback", 1).marking(Class::Feedback).read(),
    ],
    probes: &["resent"],
    reads: Facts::CONN,
    writes: Facts::TX,
    hears: &[("segment", &["acked", "lost"]), ("opened", &[])],
    offers: &[Kind::Resend, Kind::New],
    needs: &[("unit", &["octets"])],
    hooks: &["segment"],
    fields: &[
        FieldUse::of(HeadField::Seq),
        FieldUse::of(HeadField::Ack),
        FieldUse::of(HeadField::Ranges),
        FieldUse::of(HeadField::Ts).optional(),
        FieldUse::of(HeadField::TsEcho),
        FieldUse::of(HeadField::FIN),
    ],
    build: |p| {
        Ok(Box::new(HoleList {
            words: ["fb_seq", "hold", "more", "feedback"].map(|w| p.word(w)),
            last: None,
            table: VecDeque::new(),
            queued: 0,
            srtt: Ewma::new(0.875),
            resent: 0,
        }))
    },
    ..Descriptor::EMPTY
};

#[derive(Clone, Copy)]
struct Sending {
    start: Seq,
    len: u32,
    fin: bool,
    last: u32,
    queued: bool,
    known: bool,
}

impl Sending {
    fn end(&self) -> Seq {
        self.start.plus(self.len + u32::from(self.fin))
    }
}

struct HoleList {
    /// fb_seq, hold, more, feedback.
    words: [Word; 4],
    last: Option<u8>,
    table: VecDeque<Sending>,
    queued: u32,
    srtt: Ewma,
    resent: u32,
}

impl HoleList {
    fn acknowledge(&mut self, ack: Seq, cx: &mut Cx<'_>) {
        let tx = &cx.board.tx;
        if !ack.after(tx.una) || ack.after(tx.max) {
            return;
        }
        let (limited_by, in_recovery) = (cx.board.app.limited, self.queued > 0);
        while let Some(s) = self.table.front().filter(|s| s.end().upto(ack)) {
            self.queued -= u32::from(s.queued);
            self.table.pop_front();
        }
        // The receiver took part of a segment: its window ended there.
        if let Some(s) = self.table.front_mut().filter(|s| s.start.before(ack)) {
            let taken = ack.since(s.start);
            (s.start, s.len) = (ack, s.len - taken);
        }
        let bytes = cx.store.free(ack);
        cx.write(|t: &mut TxFacts| t.una = ack);
        let upto = ack;
        cx.out.emit(Signal::Acked(Acked {
            bytes,
            upto,
            in_recovery,
            limited_by,
        }));
    }

    /// Mark what is missing; returns how many octets that newly are.
    fn miss(&mut self, head: &Head, now: Time) -> u32 {
        let holes = head.ranges();
        let more = head.get(self.words[2]) == 1;
        let told = holes.last().map(|h| h.1);
        let srtt_us = self.srtt.value().unwrap_or(0.0) as u32;
        let mut lost = 0;
        for s in self.table.iter_mut().filter(|s| !s.queued) {
            let inside = holes
                .iter()
                .any(|h| s.start.before(h.1) && h.0.before(s.end()));
            s.known |= !inside && told.is_some_and(|t| s.end().upto(t));
            let sent_before = (s.last.wrapping_sub(head.ts_echo) as i32) <= 0;
            let old = now.wire_micros().wrapping_sub(s.last) >= srtt_us;
            let gone = if inside {
                sent_before || more && old
            } else {
                more && old && !s.known
            };
            if gone {
                s.queued = true;
                self.queued += 1;
                lost += s.len;
            }
        }
        lost
    }
}

impl Component for HoleList {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let head = seg.head;
        if head.get(self.words[3]) != 1 || !cx.board.conn.running {
            return Admit::Pass;
        }
        let number = head.get(self.words[0]) as u8;
        if self
            .last
            .is_some_and(|l| (number.wrapping_sub(l) as i8) <= 0)
        {
            return Admit::Drop("stale feedback");
        }
        self.last = Some(number);
        let since = cx.now.wire_micros().wrapping_sub(head.ts_echo);
        self.srtt
            .add(f64::from(since.saturating_sub(head.get(self.words[1]))));
        if let Some(ack) = head.ack {
            self.acknowledge(ack, cx);
        }
        let (now, flight) = (cx.now, cx.board.tx.max.since(cx.board.tx.una));
        let bytes = self.miss(head, now);
        if bytes > 0 {
            let (cause, new_episode, repeat) = (Cause::Explicit, true, false);
            cx.out.emit(Signal::Lost(Lost {
                bytes,
                flight,
                cause,
                new_episode,
                repeat,
            }));
        }
        Admit::Pass
    }

    fn on_signal(&mut self, _opened: &Signal, cx: &mut Cx<'_>) {
        let first = cx.board.tx.iss.plus(1);
        self.table
            .reserve((cx.board.site.snd_buf / cx.board.conn.mss) as usize + 64);
        cx.write(|t: &mut TxFacts| (t.una, t.nxt, t.max) = (first, first, first));
    }

    fn offer(&self, kind: Kind, board: &Board, _now: Time) -> Option<Want> {
        let (tx, app, mss) = (&board.tx, &board.app, board.conn.mss);
        if !board.conn.running {
            return None;
        }
        if kind == Kind::Resend {
            let s = self
                .table
                .iter()
                .find(|s| s.queued)
                .filter(|_| self.queued > 0)?;
            let bytes = s.len + u32::from(s.fin);
            return Some(Want {
                kind,
                bytes,
                least: bytes,
            });
        }
        let room = self.table.len() < self.table.capacity();
        let waiting = if tx.nxt.before(app.end) {
            app.end.since(tx.nxt)
        } else {
            0
        };
        if waiting > 0 && room {
            let bytes = waiting.min(mss);
            return Some(Want {
                kind,
                bytes,
                least: bytes,
            });
        }
        let fin = app.fin && tx.nxt == app.end && room;
        fin.then_some(Want {
            kind,
            bytes: 1,
            least: 0,
        })
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let last = cx.now.wire_micros();
        let s = if want.kind == Kind::Resend {
            let Some(s) = self.table.iter_mut().find(|s| s.queued) else {
                return;
            };
            (s.queued, s.last) = (false, last);
            self.queued -= 1;
            self.resent += 1;
            out.reason = Reason::Sack;
            cx.write(|t: &mut TxFacts| t.retransmits += 1);
            *s
        } else {
            let (start, fin) = (cx.board.tx.nxt, cx.board.tx.nxt == cx.board.app.end);
            let len = if fin { 0 } else { want.bytes };
            let s = Sending {
                start,
                len,
                fin,
                last,
                queued: false,
                known: false,
            };
            self.table.push_back(s);
            cx.write(|t: &mut TxFacts| (t.nxt, t.max) = (s.end(), s.end()));
            s
        };
        (out.head.seq, out.head.ts) = (s.start, Some(last));
        if s.fin {
            out.head.flags = Flags::FIN;
        }
        if s.len > 0 {
            out.payload = Payload::Stream {
                start: s.start,
                len: s.len,
            };
        }
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("resent", f64::from(self.resent));
    }
}

// ------------------------------------------------------------------ the rate

/// One data packet per delay; the delay follows the feedback (ATP thesis).
pub static DELAY_RATE: Descriptor = Descriptor {
    name: "delay-rate",
    role: Role::Gate,
    doc: "One data packet per path delay as fed back; halves when feedback stays away.",
    params: &[
        EPOCH,
        ParamSpec::real(
            "phi",
            1.1,
            1.0,
            2.0,
            "How much faster the path must be to speed up.",
        ),
        ParamSpec::real("kappa", 0.5, 0.0, 1.0, "Share of the difference taken up."),
    ],
    words: &[
        WordSpec::new("delay", 32).by_hops().read(),
        WordSpec::new("feedback", 1).marking(Class::Feedback).read(),
        WordSpec::new("quick", 1).read(),
    ],
    probes: &["delay_us", "raised", "lowered", "missed", "stalls"],
    reads: Facts::CONN.with(Facts::TX),
    hears: &[("segment", &[]), ("sent", &[]), ("timer", &["stalled"])],
    hooks: &["segment", "permit"],
    fields: &[FieldUse::of(HeadField::TsEcho)],
    build: |p| {
        Ok(Box::new(DelayRate {
            words: ["delay", "feedback", "quick"].map(|w| p.word(w)),
            stalled: p.ext("stalled"),
            epoch: p.span("epoch"),
            phi: p.real("phi"),
            kappa: p.real("kappa"),
            ds_us: 20_000.0,
            pace: Pace::default(),
            probing: true,
            missed: 0,
            counts: [0; 4],
        }))
    },
    ..Descriptor::EMPTY
};

const DEADLINE: u8 = 0;

struct DelayRate {
    /// delay, feedback, quick.
    words: [Word; 3],
    stalled: ExtId,
    epoch: Span,
    phi: f64,
    kappa: f64,
    ds_us: f64,
    pace: Pace,
    probing: bool,
    missed: u32,
    /// Raised, lowered, missed, stalls.
    counts: [u32; 4],
}

impl DelayRate {
    fn set(&mut self, ds_us: f64) {
        self.ds_us = ds_us.clamp(100.0, 1e6);
        self.pace.set_gap(Span((self.ds_us * 1e3) as u64));
    }

    fn patience(&self) -> Span {
        self.epoch * 11 / 10
    }
}

impl Component for DelayRate {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let [d_us, feedback, quick] = self.words.map(|w| seg.head.get(w));
        let d_us = f64::from(d_us);
        if feedback != 1 || !cx.board.conn.running {
            return Admit::Pass;
        }
        self.missed = 0;
        let mut patience = self.patience();
        if self.probing && quick == 1 {
            self.probing = false;
            self.set(if d_us > 0.0 { d_us } else { self.ds_us });
            let since = cx.now.wire_micros().wrapping_sub(seg.head.ts_echo);
            patience = patience + Span::MICRO * u64::from(since);
        } else if d_us > 0.0 {
            let (r, s) = (1.0 / d_us, 1.0 / self.ds_us);
            if r > self.phi * s {
                self.counts[0] += 1;
                self.set(1.0 / (s + self.kappa * (r - s)));
            } else if r < s {
                self.counts[1] += 1;
                self.set(d_us);
            }
        }
        cx.out.arm_after(DEADLINE, patience);
        Admit::Pass
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        if let Signal::Sent(s) = signal
            && s.kind.is_data()
        {
            self.pace.sent(cx.now, s.late);
            if !cx.out.armed(DEADLINE) {
                cx.out.arm_after(DEADLINE, self.patience() * 2);
            }
        }
    }

    fn on_timer(&mut self, _timer: u8, cx: &mut Cx<'_>) {
        let (tx, app) = (&cx.board.tx, &cx.board.app);
        if tx.una == tx.max && tx.nxt == app.end {
            return;
        }
        self.missed += 1;
        self.counts[2] += 1;
        if self.missed < 3 {
            self.set(self.ds_us * 2.0);
            cx.out.arm_after(DEADLINE, self.patience());
        } else if !self.probing {
            self.probing = true;
            self.counts[3] += 1;
            cx.out.emit(Signal::Ext(self.stalled, [0; 2]));
        }
    }

    fn permit(&self, want: &Want, board: &Board, _now: Time) -> Permit {
        match want.kind.is_data() {
            false => Permit::OPEN,
            true if board.conn.running && !self.probing => Permit::at(self.pace.due(), Limit::Pace),
            true => Permit::shut(Limit::State),
        }
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("delay_us", self.ds_us);
        for (name, n) in ["raised", "lowered", "missed", "stalls"]
            .into_iter()
            .zip(self.counts)
        {
            probe(name, f64::from(n));
        }
    }
}

// ------------------------------------------------------------------ feedback

/// Averages the delay that the hops wrote and reports it once per epoch, with the holes.
pub static EPOCH_FEEDBACK: Descriptor = Descriptor {
    name: "epoch-feedback",
    role: Role::Ack,
    doc: "Reports delay and holes once per epoch, at once when asked.",
    params: &[EPOCH],
    words: &[
        WordSpec::new("delay", 32).by_hops(),
        WordSpec::new("hops", 8).counting_hops(),
        WordSpec::new("feedback", 1).marking(Class::Feedback),
        WordSpec::new("fb_seq", 8),
        WordSpec::new("hold", 32),
        WordSpec::new("more", 1),
        WordSpec::new("request", 1).read(),
        WordSpec::new("quick", 1),
    ],
    probes: &["feedbacks", "hops", "delay_us", "holes"],
    reads: Facts::RX,
    wants: Facts::TX,
    hears: &[
        ("segment", &[]),
        ("arrived", &[]),
        ("timer", &[]),
        ("sent", &[]),
    ],
    offers: &[Kind::Ack],
    hooks: &["segment", "stamp"],
    fields: &[
        FieldUse::of(HeadField::Seq),
        FieldUse::of(HeadField::Ts),
        FieldUse::of(HeadField::TsEcho),
        FieldUse::of(HeadField::Ranges),
    ],
    build: |p| {
        Ok(Box::new(EpochFeedback {
            words: ["delay", "hops", "feedback", "fb_seq", "hold", "more"].map(|w| p.word(w)),
            asked: ["request", "quick"].map(|w| p.word(w)),
            epoch: p.span("epoch"),
            delay: Ewma::new(0.85),
            hops: 0,
            heard_at: Time::ZERO,
            ts: 0,
            highest: None,
            number: 0,
            due: false,
            quick: false,
            more: false,
            holes: 0,
        }))
    },
    ..Descriptor::EMPTY
};

const TICK: u8 = 0;
const IDLE_STOP: Span = Span(3_000_000_000);
const MOST_HOLES: usize = 20;

struct EpochFeedback {
    /// delay, hops, feedback, fb_seq, hold, more.
    words: [Word; 6],
    /// request, quick.
    asked: [Word; 2],
    epoch: Span,
    delay: Ewma,
    hops: u32,
    heard_at: Time,
    ts: u32,
    highest: Option<Seq>,
    number: u32,
    due: bool,
    quick: bool,
    more: bool,
    holes: u64,
}

impl EpochFeedback {
    fn push_holes(&mut self, out: &mut Out<'_>, cx: &Cx<'_>) {
        let mut from = cx.board.rx.nxt;
        for (start, end) in cx.store.ranges().iter().take(MOST_HOLES) {
            self.holes += u64::from(out.head.push_range((from, *start)));
            from = *end;
        }
        if let Some(h) = self.highest.filter(|h| h.after(from))
            && out.head.ranges().len() < MOST_HOLES
        {
            self.holes += u64::from(out.head.push_range((from, h)));
        }
    }
}

impl Component for EpochFeedback {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let head = seg.head;
        if head.get(self.words[2]) == 1 {
            return Admit::Pass;
        }
        let d = head.get(self.words[0]);
        let asked = head.get(self.asked[0]) == 1;
        if asked {
            self.delay.clear();
            self.highest = Some(self.highest.map_or(head.seq, |h| h.later(head.seq)));
            self.quick |= !head.flags.has(Flags::SYN);
            self.due |= self.quick;
        }
        if d != 0 {
            self.delay.add(f64::from(d));
        }
        (self.hops, self.heard_at, self.ts) =
            (head.get(self.words[1]), cx.now, head.ts.unwrap_or(0));
        Admit::Pass
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        match signal {
            Signal::Arrived(a) => {
                self.due |= a.fin || cx.board.rx.fin;
                if !cx.out.armed(TICK) {
                    cx.out.arm_after(TICK, self.epoch);
                }
            }
            Signal::Sent(s) if s.kind == Kind::Ack => (self.due, self.quick) = (false, false),
            _ => {}
        }
    }

    fn on_timer(&mut self, _timer: u8, cx: &mut Cx<'_>) {
        let silence = cx.now - self.heard_at;
        self.due = true;
        self.more = silence >= self.epoch / 2 && !cx.board.rx.fin;
        if silence < IDLE_STOP || !cx.store.ranges().is_empty() {
            cx.out.arm_after(TICK, self.epoch);
        }
    }

    fn offer(&self, kind: Kind, _board: &Board, _now: Time) -> Option<Want> {
        self.due.then_some(Want::bare(kind))
    }

    fn fill(&mut self, _want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        out.head.seq = cx.board.tx.max;
        out.head.set(self.words[2], 1);
        out.head.set(self.asked[1], u32::from(self.quick));
    }

    fn stamp(&mut self, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        if out.head.get(self.words[2]) != 1 {
            return;
        }
        self.number += 1;
        let hold = (cx.now - self.heard_at).micros() as u32;
        let delay = self.delay.value().unwrap_or(0.0) as u32;
        let values = [delay, self.hops, 1, self.number, hold, u32::from(self.more)];
        for (word, value) in self.words.into_iter().zip(values) {
            out.head.set(word, value);
        }
        out.head.ts_echo = self.ts;
        self.more = false;
        self.push_holes(out, cx);
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("feedbacks", f64::from(self.number));
        probe("hops", f64::from(self.hops));
        probe("delay_us", self.delay.value().unwrap_or(0.0));
        probe("holes", self.holes as f64);
    }
}
