//! `selective`: reliability by selective acknowledgements (RFC 2018, RFC 6675, Behaviour 4.8).
//!
//! Contributes the scoreboard, loss detection and recovery of RFC 6675, the retransmission timer.
//! Hears segments; emits `acked`, `dup-ack`, `lost`, `recovered`, `gave-up`; writes `tx`. Where the
//! peer does not report ranges it recovers as NewReno does.
//!
//! The cursor never goes back: after a timeout everything not reported is marked lost and goes
//! again by NextSeg rule 1, as the window opens.

mod episodes;

use wifu_engine::board::TxFacts;
use wifu_engine::component::Cx;
use wifu_engine::kit::{
    Advance, EMULATE, EPISODES, Expiry, FRTO, Holes, Known, LTX, PRR, PRR_UNIT, Prr, RACK, RANGES,
    REARM, REORDER, RTO, Rack, SENDER_PARAMS, SENDING, Sender, Spurious, TAIL, Timed, UNDO,
};
use wifu_engine::{
    Admit, Board, Component, Descriptor, FieldUse, Kind, Out, ParamSpec, Params, Reason, Segment,
    Signal, Value, Want,
};
use wifu_wire::{HeadField, Seq, Time};

/// See the module.
pub static SELECTIVE: Descriptor = Descriptor {
    name: "selective",
    doc: "Selective acknowledgements: a scoreboard, and recovery by RFC 6675.",
    cites: &[
        "RFC 2018",
        "RFC 6675",
        "RFC 2883",
        "RFC 3042",
        "RFC 8985, 9937",
        "RFC 5682, 4015",
        "Behaviour 4.8",
    ],
    params: &[
        SENDER_PARAMS[0],
        SENDER_PARAMS[1],
        SENDER_PARAMS[2],
        SENDER_PARAMS[3],
        SENDER_PARAMS[4],
        ParamSpec::int("dupthresh", 3, 1, 100, "DupThresh of RFC 6675."),
        LTX,
        PRR,
        PRR_UNIT,
        RACK,
        FRTO,
        UNDO,
        EMULATE,
        EPISODES,
        REARM,
        RANGES,
    ],
    hears: &[
        (
            "segment",
            &["acked", "dup-ack", "lost", "recovered", "undone"],
        ),
        ("timer", &["lost", "gave-up"]),
    ],
    probes: &[
        "sacked",
        "lost_edge",
        "dsacks",
        "probes",
        "undone",
        "threshold",
    ],
    fields: &[
        FieldUse::of(HeadField::Seq),
        FieldUse::of(HeadField::Ack),
        FieldUse::of(HeadField::SYN),
        FieldUse::of(HeadField::FIN),
        FieldUse::of(HeadField::PSH).optional(),
        FieldUse::of(HeadField::Ranges),
        FieldUse::of(HeadField::SackOk),
    ],
    build: |p| Ok(Box::new(Selective::new(p))),
    ..SENDING
};

struct Selective {
    sender: Sender,
    holes: Holes,
    reduces: bool,
    /// By whole segments.
    whole: bool,
    /// The reduction under way.
    prr: Option<Prr>,
    /// With `rack`.
    timed: Option<Box<Timed>>,
    rescue: Option<Reason>,
    /// Segments that the peer says came twice.
    dsacks: u32,
    /// Octets of them that count as delivered by the present acknowledgement.
    spare: u32,
    spurious: Option<Spurious>,
    /// `episodes=linux`.
    linux: bool,
    rearm: bool,
    /// Reductions that were taken back.
    undone: u32,
}

impl Selective {
    fn new(p: &Params<'_>) -> Selective {
        let linux = p.text("episodes") == "linux";
        let (dupthresh, ranges) = (p.int("dupthresh") as u32, p.int("ranges") as usize);
        Selective {
            sender: Sender::new(p),
            holes: Holes::new(dupthresh, p.flag("ltx"), ranges, p.flag("emulate")),
            reduces: p.flag("prr"),
            whole: p.text("prr_unit") == "segments",
            prr: None,
            timed: p.flag("rack").then(|| Box::new(Timed::new(linux))),
            rescue: None,
            dsacks: 0,
            spare: 0,
            spurious: Spurious::new(p.flag("frto"), p.flag("undo")),
            linux,
            rearm: p.flag("rearm"),
            undone: 0,
        }
    }

    /// Losses are told by time.
    fn rack(&self, board: &Board) -> Option<&Rack> {
        let timed = self.timed.as_ref().filter(|_| Holes::reports(board))?;
        Some(&timed.rack)
    }

    /// Octets in flight; what a probe of a shut window left behind `nxt` is not.
    fn pipe(&self, board: &Board) -> u32 {
        match self.rack(board) {
            Some(rack) => rack.flying().min(board.tx.nxt.beyond(board.tx.una)),
            None => self.holes.pipe(board),
        }
    }

    /// What goes again next: where it begins, its octets.
    fn next_seg(&self, board: &Board) -> Option<(Seq, u32)> {
        match self.rack(board) {
            Some(rack) => rack.first_lost(board.conn.mss),
            None => self.holes.next_seg(board),
        }
    }

    /// Only new data may leave.
    fn waits(&self) -> bool {
        self.spurious.is_some_and(|s| s.waits())
    }

    /// What is known before an acknowledgement, where anybody asks.
    fn known(&self, board: &Board) -> Option<Known> {
        self.spurious.map(|_| Known::new(&self.holes, board))
    }

    /// A probe is due.
    fn probes(&self) -> bool {
        self.timed.as_ref().is_some_and(|t| t.probe.due())
    }

    /// Nobody waits for reordering that was never seen.
    fn busy(&self, board: &Board) -> bool {
        self.holes.repairs()
            || self.holes.ranges.total() / board.conn.mss.max(1) >= self.holes.dupthresh
    }

    /// Data left, or an acknowledgement came: a probe is due if nothing is amiss and none follows.
    fn schedule(&mut self, cx: &mut Cx<'_>) {
        let calm = !self.holes.repairs() && self.holes.ranges.is_empty();
        if let Some(timed) = self.timed.as_mut().filter(|_| Holes::reports(&cx.board)) {
            timed.schedule(calm, cx);
        }
    }

    fn publish(&mut self, cx: &mut Cx<'_>) {
        self.holes.lost_edge = self.holes.find_lost_edge(&cx.board);
        let recovering = self.holes.in_recovery;
        // Outside recovery RFC 5681 counts what is outstanding, reported or not, unless limited
        // transmit may use what left.
        let pipe = if !self.holes.repairs() && !self.holes.ltx {
            cx.board.tx.nxt.since(cx.board.tx.una)
        } else {
            self.pipe(&cx.board)
        };
        let sacked = self.holes.ranges.total();
        if !recovering {
            self.prr = None;
        }
        // Where nothing goes again, the window alone says what leaves first.
        let lost = self.rack(&cx.board).is_none_or(|r| r.lost() > 0);
        let prr = self.prr.filter(|p| lost || !p.pending());
        let quota = prr.map(|p| p.quota());
        cx.write(|t: &mut TxFacts| {
            (t.pipe, t.recovering, t.sacked) = (pipe, recovering, sacked);
            t.quota = quota;
        });
    }

    /// Returns what is announced once all is decided, and whether the window is held.
    fn on_advance(&mut self, ack: Seq, before: Seq, cx: &mut Cx<'_>) -> Option<(Advance, bool)> {
        let advance = self.sender.advance(ack, true, cx);
        let was = self.holes.in_recovery;
        let passed = self.holes.pass(ack, advance.space, before, &cx.board);
        if let Some(timed) = &mut self.timed {
            if passed.reneged {
                timed.renege(cx);
            }
            passed.ended.then(|| timed.rack.recovered());
        }
        self.rescue = None;
        if self.linux {
            let delivered = passed.delivered + self.spare;
            cx.write(|t: &mut TxFacts| t.fresh = Some(delivered));
        }
        if !self.holes.in_recovery {
            self.holes.dupacks = 0;
        } else if self.holes.ranges.is_empty()
            && self.holes.high_rxt == ack
            && self.rack(&cx.board).is_none()
        {
            // With `emulate` the edge of loss moves past it, and that is counted; it goes again
            // when `prr` has room, which may be never (tcp_xmit_retransmit_queue).
            let emulated = self.holes.emulated(&cx.board).is_some();
            self.rescue = (!emulated || self.prr.is_none()).then_some(Reason::Partial);
            if !emulated {
                self.count_lost(cx.board.conn.mss.min(cx.board.tx.max.since(ack)), cx);
            }
            self.holes.dupacks = self
                .holes
                .dupacks
                .saturating_sub(advance.space / cx.board.conn.mss.max(1));
        }
        self.publish(cx);
        let ended = was && !self.holes.in_recovery;
        if self.linux {
            if ended {
                let flight = cx.board.tx.max.since(ack);
                cx.out.emit(Signal::Recovered { flight });
            }
            // One that ends there exactly, without reports, holds it until the next
            // (tcp_is_non_sack_preventing_reopen).
            return Some((advance, was && self.holes.recover == Some(ack)));
        }
        advance.announce(ack, was, self.holes.in_recovery, cx);
        None
    }

    fn fill_again(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let una = cx.board.tx.una;
        let (seq, bytes, last_resort) = match (want.kind, self.rescue.take()) {
            (Kind::Rescue, reason) => {
                out.reason = reason.unwrap_or_default();
                let next = self.holes.ranges.next_after(una);
                let hole = next.map_or(cx.board.tx.max, |r| r.0);
                let timed = self.rack(&cx.board).and_then(|r| r.first_lost(want.bytes));
                let (seq, octets) = timed.unwrap_or((una, hole.since(una)));
                (seq, want.bytes.min(octets), false)
            }
            _ => {
                out.reason = match self.holes.timeout_edge {
                    Some(_) => Reason::Timeout,
                    None => Reason::Sack,
                };
                let Some((seq, size)) = self.next_seg(&cx.board) else {
                    return;
                };
                let highest = self.holes.ranges.list().last();
                let beyond = highest.is_some_and(|r| seq.from(r.1));
                let last = beyond && seq.from(self.holes.lost_edge);
                (seq, want.bytes.min(size), last)
            }
        };
        let end = self.sender.put(seq, bytes, out, &cx.board);
        if let Some(prr) = &mut self.prr {
            let (window, mss) = (cx.board.win.cwnd, cx.board.conn.mss);
            prr.begin((window, cx.board.tx.pipe, mss));
        }
        // Rule 4 must not move HighRxt: the holes below are still to be filled.
        if last_resort {
            self.holes.last_resort = true;
        } else {
            self.holes.high_rxt = self.holes.high_rxt.later(end);
        }
        cx.write(|t: &mut TxFacts| {
            t.retransmits += 1;
            (t.nxt, t.max) = (t.nxt.later(end), t.max.later(end));
        });
        if self.rearm && seq == una {
            self.sender.arm(cx);
        } else {
            self.sender.arm_if_idle(cx);
        }
    }
}

impl Component for Selective {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        self.sender.on_segment(seg.head, &cx.board);
        let Some(ack) = seg.head.ack else {
            return Admit::Pass;
        };
        // Nothing went again when the recovery began, which all had gone already: the window has
        // fallen since.
        if let Some(prr) = self.prr.as_mut().filter(|p| p.pending()) {
            prr.begin((cx.board.win.cwnd, cx.board.tx.pipe, cx.board.conn.mss));
        }
        let (before, edge) = (self.holes.delivered(&cx.board), self.holes.lost_edge);
        let known = self.known(&cx.board);
        let fresh = self.holes.note(seg, &cx.board);
        let mut twice = Holes::reports(&cx.board) && seg.head.came_twice(ack);
        self.spare = 0;
        if twice {
            let segments = self.count_twice(seg.head.ranges()[0], &cx.board);
            twice = segments > 0;
            if let Some(s) = &mut self.spurious {
                s.twice(seg.head.ranges()[0].1, segments);
            }
        }
        let advances = ack.after(cx.board.tx.una) && ack.upto(cx.board.tx.max);
        let mut advance = None;
        if advances {
            advance = self.on_advance(ack, before, cx);
        } else if self.holes.is_duplicate(seg, ack, fresh, &cx.board) {
            self.holes.dupacks += 1;
            self.holes.count_duplicate(&cx.board);
            cx.out.emit(Signal::DupAck);
        }
        let further = if self.rack(&cx.board).is_some() {
            let what = (advances, twice, self.busy(&cx.board));
            let timed = self.timed.as_mut();
            timed.is_some_and(|t| t.on_segment(seg, what, cx) > 0)
        } else {
            let known = edge.later(cx.board.tx.una);
            let found = self.holes.find_lost_edge(&cx.board);
            let further = self.holes.in_recovery && found.after(known);
            if further {
                self.count_lost(self.holes.ranges.missing(known, found), cx);
            }
            further
        };
        let overtaken = self.rack(&cx.board).is_some_and(|r| r.overtaken());
        if self.rearm && !advances && overtaken && cx.out.armed(RTO) {
            self.sender.arm(cx);
        }
        if self.holes.in_recovery {
            self.reduce(before, advances && !further, cx);
        }
        if let Some(known) = known {
            self.reconsider(seg.head, (advances, fresh), known, cx);
        }
        let again = self.timed.as_mut().is_some_and(|t| t.rack.lost_again());
        self.begins_anew(again);
        self.look_for_loss(before, cx);
        if let Some((advance, held)) = advance {
            // By what it came to: that which ends a recovery or undoes it counts for the window,
            // that which begins one does not (tcp_cong_control).
            advance.acked(ack, held || self.holes.in_recovery, cx);
        }
        if !self.holes.repairs() {
            self.spurious.iter_mut().for_each(Spurious::calm);
        }
        self.publish(cx);
        self.schedule(cx);
        self.holes.last_window = seg.head.window;
        Admit::Pass
    }

    fn on_timer(&mut self, timer: u8, cx: &mut Cx<'_>) {
        match timer {
            REORDER => {
                let (busy, before) = (self.busy(&cx.board), self.holes.delivered(&cx.board));
                let lost = self.timed.as_mut().map_or(0, |t| t.detect(busy, cx));
                // tcp_rack_reo_timeout, where that counts as one segment delivered.
                self.spare = if self.linux { cx.board.conn.mss } else { 0 };
                self.prr
                    .iter_mut()
                    .filter(|_| self.linux)
                    .for_each(|p| p.freed(lost));
                self.begins_anew(lost > 0);
                self.look_for_loss(before, cx);
                return self.publish(cx);
            }
            TAIL => return self.timed.iter_mut().for_each(|t| t.probe.expire()),
            _ => {}
        }
        match self.sender.on_timer(timer, cx) {
            Expiry::Nothing | Expiry::Syn => {}
            Expiry::GaveUp => cx.out.emit(Signal::GaveUp),
            Expiry::Data { repeat } => self.on_expiry(repeat, cx),
        }
    }

    fn offer(&self, kind: Kind, board: &Board, _now: Time) -> Option<Want> {
        let tx = &board.tx;
        match kind {
            Kind::Control => self.sender.offer_syn(board),
            Kind::Rescue if self.probes() => self.timed.as_ref()?.offer(&self.sender, board),
            Kind::Rescue => {
                self.rescue.filter(|_| !self.waits())?;
                self.rack(board)
                    .is_none_or(|r| r.lost() > 0)
                    .then_some(())?;
                Sender::want(board, kind, tx.una).filter(|_| tx.una != tx.max)
            }
            Kind::Resend if !board.peer.persist => {
                if tx.nxt != tx.max {
                    return Sender::want(board, kind, tx.nxt);
                }
                (self.holes.repairs() && !self.waits()).then_some(())?;
                let (_, bytes) = self.next_seg(board)?;
                Some(Want {
                    kind,
                    bytes,
                    least: bytes,
                })
            }
            Kind::New => self.sender.offer_new(board),
            Kind::Probe => self.sender.offer_probe(board),
            _ => None,
        }
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        match want.kind {
            Kind::Control => {
                // Marks that were never set would lie ahead of half of all initial numbers.
                let iss = cx.board.tx.iss;
                (self.holes.lost_edge, self.holes.high_rxt) = (iss, iss);
                self.sender.fill_syn(out, cx);
            }
            Kind::Probe => self.sender.fill_probe(want, out, cx),
            Kind::Resend if cx.board.tx.nxt != cx.board.tx.max => {
                out.reason = Reason::Probe;
                self.sender.fill_new(want, out, cx);
            }
            Kind::Rescue if self.probes() => {
                if let Some(timed) = &mut self.timed {
                    timed.fill(&mut self.sender, out, cx);
                }
            }
            Kind::Rescue | Kind::Resend => self.fill_again(want, out, cx),
            _ => {
                self.holes.ranges.prepare(); // an embryo, which sends no data, has no scoreboard
                self.sender.fill_new(want, out, cx);
            }
        }
        if let (Some(prr), true) = (&mut self.prr, want.kind.is_data()) {
            prr.begin((cx.board.win.cwnd, cx.board.tx.pipe, cx.board.conn.mss));
            prr.sent(want.bytes);
        }
        // What no report will tell of is not logged: it would stay for ever.
        let told = want.kind != Kind::Control && Holes::reports(&cx.board);
        if let Some(timed) = self.timed.as_mut().filter(|_| told) {
            timed.sent(out, cx.now);
        }
        self.publish(cx);
        self.schedule(cx);
    }

    fn stamp(&mut self, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        if let Some(timed) = self.timed.as_mut().filter(|_| out.kind.is_data()) {
            timed.rack.stamped(out.head.ts);
        }
        if let Some(s) = &mut self.spurious {
            let again = matches!(out.kind, Kind::Rescue | Kind::Resend);
            if again && !matches!(out.reason, Reason::First | Reason::Probe) {
                s.resent(out.head.ts);
            }
        }
        self.sender.stamp(out, &cx.board);
    }

    fn set(&mut self, param: &str, value: Value) -> bool {
        self.sender.set(param, value)
    }

    fn on_set(&mut self, cx: &mut Cx<'_>) {
        self.sender.on_set(cx);
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("sacked", f64::from(self.holes.ranges.total()));
        probe("lost_edge", f64::from(self.holes.lost_edge.0));
        probe("dsacks", f64::from(self.dsacks));
        let probes = self.timed.as_ref().map_or(0, |t| t.probe.count());
        probe("probes", f64::from(probes));
        probe("undone", f64::from(self.undone));
        probe("threshold", f64::from(self.holes.threshold()));
    }
}
