//! The lane of a hop protocol in the shape of HxH (HxH thesis): it holds packets at every node and
//! sends one per credit; credits and the passive acknowledgement are read upstream from what the
//! next node is heard sending.

use std::collections::VecDeque;
use wifu_engine::board::{ConnFacts, TxFacts};
use wifu_engine::component::Cx;
use wifu_engine::kit::{Ewma, Ranges};
use wifu_engine::{
    Admit, Board, Component, Descriptor, Fact, Facts, FieldUse, Kind, Limit, Out, Payload, Permit,
    Reason, Role, Segment, Signal, Ticket, Want, WordSpec,
};
use wifu_wire::{Class, Flags, Head, HeadField, Seq, Span, Time, Word};

/// All packets up to this number reached the destination.
pub const PACK: WordSpec = WordSpec::new("pack", 32).by_hops();
/// Packets that the transmitter takes beyond those it has.
pub const CREDITS: WordSpec = WordSpec::new("credits", 16).by_hops();
/// Who transmits this copy: lanes write it, and pass over what was sent on by nobody it names.
pub const TRANSMITTER: WordSpec = WordSpec::transmitter("transmitter");
/// Not passed on: the destination has the packet `seq`.
pub const LAST_HOP: &str = "last_hop";
pub const LHACK: WordSpec = WordSpec::new(LAST_HOP, 1).marking(Class::Hop);
/// What [`is_next`] compares; without either nothing is ever taken for the next hop's.
pub const HEARS_NEXT: [Fact; 2] = [Fact::NextHop, Fact::Transmitter];

/// Whether the next hop passed this on.
pub fn is_next(seg: &Segment<'_>, cx: &Cx<'_>) -> bool {
    let from = seg.frame.transmitter;
    seg.frame.along && from.is_some() && from == cx.board.site.next_hop
}

// ------------------------------------------------------------------ the lane's queue

/// Hands packets down in order, advertises half of its free places, passes the passive
/// acknowledgement on; before the last hop it keeps a packet until the destination says it has it.
pub static HOP_QUEUE: Descriptor = Descriptor {
    name: "held-queue",
    role: Role::Reliable,
    doc: "The queue of a lane: credits, passive and last-hop acknowledgement.",
    words: &[PACK, CREDITS, LHACK, TRANSMITTER],
    probes: &["pack", "kept", "again", "given_up"],
    writes: Facts::TX.with(Facts::CONN),
    requires: &HEARS_NEXT,
    hears: &[
        ("segment", &[]),
        ("overheard", &[]),
        ("timer", &[]),
        ("wrote", &["opened"]),
    ],
    offers: &[Kind::Resend, Kind::New],
    needs: &[("store", &["packets"])],
    hooks: &["segment", "overheard"],
    fields: &[FieldUse::of(HeadField::Seq), FieldUse::of(HeadField::Ack)],
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
        if seg.frame.along {
            return Admit::Pass;
        }
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
/// Where nothing is overheard, as over wires, a timer lets one packet go at a time; where no driver
/// reports, a credit of a packet that was lost comes back with the next one overheard.
pub static HOP_CREDIT: Descriptor = Descriptor {
    name: "held-credit",
    role: Role::Gate,
    doc: "Sends a packet per credit overheard from the next hop.",
    words: &[CREDITS],
    probes: &["credits", "forced", "undone", "rerouted"],
    requires: &HEARS_NEXT,
    hears: &[
        ("overheard", &[]),
        ("wrote", &[]),
        ("sent", &[]),
        ("returned", &[]),
        ("status", &[]),
        ("route", &[]),
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
            undone: 0,
            rerouted: 0,
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
    /// Credits that were given back: the packet never reached the next hop.
    undone: u32,
    rerouted: u32,
}

impl HopCredit {
    /// The next hop never got this one.
    fn undo(&mut self, number: Seq) {
        if let Some(at) = self.sent.iter().position(|x| x.0 == number) {
            self.sent.remove(at);
            self.left = self.left.map(|n| n + 1);
            self.undone += 1;
        }
    }

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
        match signal {
            Signal::Sent(s) if s.kind == Kind::New => {
                self.left = Some(left.saturating_sub(1));
                self.force = false;
                self.sent.push_back((s.seq, cx.now));
                if self.sent.len() > 2 * capacity as usize {
                    self.sent.pop_front();
                }
            }
            Signal::Returned(number) => self.undo(*number),
            Signal::Status(s) if s.class == Class::Data && !s.delivered => self.undo(s.number),
            // Another next hop: it has promised nothing yet.
            Signal::Route => {
                self.left = Some(capacity / 2);
                self.sent.clear();
                self.rerouted += 1;
            }
            _ => {}
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
        probe("undone", f64::from(self.undone));
        probe("rerouted", f64::from(self.rerouted));
    }
}
