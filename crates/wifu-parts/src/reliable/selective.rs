//! `selective`: reliability by selective acknowledgements (RFC 2018, RFC 6675, Behaviour 4.8).
//!
//! Contributes the scoreboard, loss detection and recovery of RFC 6675, the retransmission timer.
//! Hears segments; emits `acked`, `dup-ack`, `lost`, `recovered`, `gave-up`; writes `tx`. Where the
//! peer does not report ranges it recovers as NewReno does.
//!
//! The cursor never goes back: after a timeout everything not reported is marked lost and goes
//! again by NextSeg rule 1, as the window opens.

use wifu_engine::board::TxFacts;
use wifu_engine::component::Cx;
use wifu_engine::kit::{
    Expiry, Prr, REORDER, Rack, Ranges, SENDER_PARAMS, SENDING, Sender, TAIL, Timed, reported,
};
use wifu_engine::signal::Lost;
use wifu_engine::{
    Admit, Board, Cause, Component, Descriptor, FieldUse, Kind, Out, ParamSpec, Params, Reason,
    Segment, Signal, Value, Want,
};
use wifu_wire::{Flags, HeadField, Seq, Time};

/// See the module.
pub static SELECTIVE: Descriptor = Descriptor {
    name: "selective",
    doc: "Selective acknowledgements: a scoreboard, and recovery by RFC 6675.",
    cites: &[
        "RFC 2018",
        "RFC 6675",
        "RFC 2883",
        "RFC 3042",
        "RFC 8985",
        "RFC 9937",
        "Behaviour 4.8",
    ],
    params: &[
        SENDER_PARAMS[0],
        SENDER_PARAMS[1],
        SENDER_PARAMS[2],
        SENDER_PARAMS[3],
        ParamSpec::int("dupthresh", 3, 1, 100, "DupThresh of RFC 6675."),
        ParamSpec::flag(
            "ltx",
            false,
            "Limited transmit on the first duplicates (RFC 3042).",
        ),
        ParamSpec::flag(
            "prr",
            false,
            "In a recovery what leaves is proportional to what was delivered (RFC 9937), instead of \
             nothing until the flight is as small as the window; where the peer reports ranges.",
        ),
        ParamSpec::flag(
            "rack",
            false,
            "Losses are told by the times of what arrives, not by the count of reports, and a probe \
             asks for acknowledgements that stay out (RACK-TLP, RFC 8985); where the peer reports \
             ranges. `dupthresh` then says only how many reports end the wait for reordering.",
        ),
        ParamSpec::int(
            "ranges",
            8192,
            4,
            65_536,
            "Ranges that the scoreboard holds.",
        ),
    ],
    probes: &["sacked", "lost_edge", "dsacks", "probes"],
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
    dupthresh: u32,
    ltx: bool,
    reduces: bool,
    /// The reduction under way.
    prr: Option<Prr>,
    /// With `rack`.
    timed: Option<Box<Timed>>,
    board: Ranges,
    /// RecoveryPoint; `None` once it was passed.
    recover: Option<Seq>,
    in_recovery: bool,
    dupacks: u32,
    /// Unreported octets below this are lost.
    lost_edge: Seq,
    /// Everything below was outstanding when the timer fired.
    timeout_edge: Option<Seq>,
    /// One past the highest octet retransmitted in this episode.
    high_rxt: Seq,
    rescue: Option<Reason>,
    /// NextSeg rule 4 was used in this episode.
    last_resort: bool,
    last_window: u32,
    /// Segments that the peer says came twice.
    dsacks: u32,
}

impl Selective {
    fn new(p: &Params<'_>) -> Selective {
        Selective {
            sender: Sender::new(p),
            dupthresh: p.int("dupthresh") as u32,
            ltx: p.flag("ltx"),
            reduces: p.flag("prr"),
            prr: None,
            timed: p.flag("rack").then(Box::default),
            board: Ranges::new(p.int("ranges") as usize),
            recover: None,
            in_recovery: false,
            dupacks: 0,
            lost_edge: Seq(0),
            timeout_edge: None,
            high_rxt: Seq(0),
            rescue: None,
            last_resort: false,
            last_window: 0,
            dsacks: 0,
        }
    }

    /// Whether the peer reports ranges.
    fn reports(board: &Board) -> bool {
        board.conn.peer.sack_ok
    }

    //= rfc6675#section-4
    // IsLost: everything unreported below the returned number is lost.
    fn find_lost_edge(&self, board: &Board) -> Seq {
        let una = board.tx.una;
        if self.board.is_empty() {
            return self.timeout_edge.map_or(una, |t| una.later(t));
        }
        let enough = (self.dupthresh - 1) * board.conn.mss;
        let (mut ranges, mut octets) = (0, 0);
        let mut edge = una;
        for r in self.board.list().iter().rev() {
            ranges += 1;
            octets += r.1.since(r.0);
            if ranges >= self.dupthresh || octets > enough {
                edge = r.0;
                break;
            }
        }
        match self.timeout_edge {
            Some(t) => edge.later(t),
            None => edge,
        }
    }

    /// Losses are told by time.
    fn rack(&self, board: &Board) -> Option<&Rack> {
        let timed = self.timed.as_ref().filter(|_| Self::reports(board))?;
        Some(&timed.rack)
    }

    /// A probe is due.
    fn probes(&self) -> bool {
        self.timed.as_ref().is_some_and(|t| t.probe.due())
    }

    /// Something is being repaired.
    fn repairs(&self) -> bool {
        self.in_recovery || self.timeout_edge.is_some()
    }

    /// Nobody waits for reordering that was never seen.
    fn busy(&self, board: &Board) -> bool {
        self.repairs() || self.board.total() / board.conn.mss.max(1) >= self.dupthresh
    }

    /// Data left, or an acknowledgement came: a probe is due if nothing is amiss and none follows.
    fn schedule(&mut self, cx: &mut Cx<'_>) {
        let calm = !self.repairs() && self.board.is_empty();
        if let Some(timed) = self.timed.as_mut().filter(|_| Self::reports(&cx.board)) {
            timed.schedule(calm, cx);
        }
    }

    //= rfc6675#section-4
    // SetPipe.
    fn pipe(&self, board: &Board) -> u32 {
        if let Some(rack) = self.rack(board) {
            return rack.flying();
        }
        let tx = &board.tx;
        let alive = self
            .board
            .missing(self.lost_edge.later(tx.una), tx.nxt.later(tx.una));
        let again = self.board.missing(tx.una, self.high_rxt.later(tx.una));
        let pipe = alive + again;
        if Self::reports(board) && !self.board.is_empty() {
            // Before recovery a reported segment has left, which is what limited transmit needs.
            return pipe;
        }
        let counts = self.in_recovery || self.ltx && self.dupacks <= 2;
        let departed = u32::from(counts) * self.dupacks * board.conn.mss;
        pipe.saturating_sub(departed)
    }

    fn publish(&mut self, cx: &mut Cx<'_>) {
        self.lost_edge = self.find_lost_edge(&cx.board);
        let recovering = self.in_recovery;
        // Outside recovery RFC 5681 counts what is outstanding, reported or not, unless limited
        // transmit may use what left.
        let pipe = if !self.repairs() && !self.ltx {
            cx.board.tx.nxt.since(cx.board.tx.una)
        } else {
            self.pipe(&cx.board)
        };
        let sacked = self.board.total();
        if !recovering {
            self.prr = None;
        }
        let quota = self.prr.map(|p| p.quota());
        cx.write(|t: &mut TxFacts| {
            (t.pipe, t.recovering, t.sacked) = (pipe, recovering, sacked);
            t.quota = quota;
        });
    }

    /// What was acknowledged and reported so far: one number that grows with every delivery.
    fn delivered(&self, board: &Board) -> Seq {
        board.tx.una.plus(self.board.total())
    }

    /// An acknowledgement of a recovery delivered so much since `before`; `safe`: it moved the edge
    /// and told of no further loss.
    fn reduce(&mut self, before: Seq, safe: bool, cx: &Cx<'_>) {
        let delivered = self.delivered(&cx.board).since(before);
        let (window, mss) = (cx.board.win.cwnd, cx.board.conn.mss);
        let pipe = self.pipe(&cx.board);
        if let Some(prr) = &mut self.prr {
            prr.acked(delivered, safe, (window, pipe, mss));
        }
    }

    /// A recovery begins, by an acknowledgement that delivered so much since `before`.
    fn reduction(&mut self, before: Seq, cx: &Cx<'_>) {
        if self.reduces && Self::reports(&cx.board) {
            let delivered = self.delivered(&cx.board).since(before);
            // What the acknowledgement itself delivered counts, whichever way it told of it.
            let flight = cx.board.tx.nxt.since(cx.board.tx.una);
            let flight = (flight + delivered).saturating_sub(self.board.total());
            self.prr = Some(Prr::new(flight, delivered));
        }
    }

    /// Enter what the segment reports; returns how many octets are new.
    fn note_ranges(&mut self, seg: &Segment<'_>, board: &Board) -> u32 {
        if !Self::reports(board) {
            return 0;
        }
        let sane = reported(seg.head, board.tx.una, board.tx.max);
        sane.map(|(a, b)| self.board.insert(*a, *b)).sum()
    }

    fn on_advance(&mut self, ack: Seq, cx: &mut Cx<'_>) {
        let advance = self.sender.advance(ack, true, cx);
        self.board.forget(ack);
        // An ACK that ends inside a reported range takes the report back (RFC 2018 section 8).
        if self.board.covering(ack).is_some() {
            self.board.clear();
            self.timed.iter_mut().for_each(|t| t.rack.renege());
        }
        self.high_rxt = self.high_rxt.later(ack);
        self.rescue = None;
        if self.timeout_edge.is_some_and(|t| ack.from(t)) {
            self.timeout_edge = None;
        }
        let was = self.in_recovery;
        if self.recover.is_some_and(|r| ack.from(r)) {
            (self.in_recovery, self.recover) = (false, None);
            self.timed.iter_mut().for_each(|t| t.rack.recovered());
        }
        if !self.in_recovery {
            self.dupacks = 0;
        } else if self.board.is_empty() && self.high_rxt == ack && self.rack(&cx.board).is_none() {
            self.rescue = Some(Reason::Partial);
            let next = cx.board.conn.mss.min(cx.board.tx.max.since(ack));
            self.count_lost(next, cx);
            self.dupacks = self
                .dupacks
                .saturating_sub(advance.space / cx.board.conn.mss.max(1));
        }
        self.publish(cx);
        advance.announce(ack, was, self.in_recovery, cx);
    }

    /// Something outstanding counts as lost.
    fn found_loss(&self, board: &Board) -> bool {
        let found = match self.rack(board) {
            Some(rack) => rack.lost() > 0,
            None => {
                let lost = self.lost_edge.after(board.tx.una) && !self.board.is_empty();
                self.dupacks >= self.dupthresh || lost
            }
        };
        found && board.tx.una != board.tx.max
    }

    /// Octets are lost, as the scoreboard says: by time they are counted where they are found.
    fn count_lost(&self, octets: u32, cx: &mut Cx<'_>) {
        if self.rack(&cx.board).is_none() {
            cx.write(|t: &mut TxFacts| t.lost += u64::from(octets));
        }
    }

    //= rfc6675#section-5
    fn look_for_loss(&mut self, before: Seq, cx: &mut Cx<'_>) {
        self.lost_edge = self.find_lost_edge(&cx.board);
        if self.in_recovery || self.recover.is_some() || !self.found_loss(&cx.board) {
            return;
        }
        let (una, max, mss) = (cx.board.tx.una, cx.board.tx.max, cx.board.conn.mss);
        let lost = match self.rack(&cx.board) {
            Some(rack) => rack.lost(),
            None => self.board.missing(una, self.lost_edge.later(una)),
        };
        let beyond = cx.board.tx.nxt.since(una).saturating_sub(cx.board.win.cwnd);
        let limited = if self.ltx { beyond.min(2 * mss) } else { 0 };
        let flight = cx.board.tx.nxt.since(una) - limited;
        (self.in_recovery, self.recover, self.last_resort) = (true, Some(max), false);
        self.high_rxt = una;
        self.rescue = Some(Reason::DupAck);
        self.reduction(before, cx);
        self.timed.iter_mut().for_each(|t| t.probe.stop());
        let bytes = lost.max(mss.min(max.since(una)));
        self.count_lost(bytes, cx);
        cx.out.emit(Signal::Lost(Lost {
            bytes,
            flight,
            cause: Cause::DupAcks,
            new_episode: true,
            repeat: false,
        }));
    }

    //= rfc6675#section-4
    // NextSeg rules 1, 3 and 4.
    fn next_seg(&self, board: &Board) -> Option<(Seq, u32)> {
        if let Some(rack) = self.rack(board) {
            return rack.first_lost(board.conn.mss);
        }
        let tx = &board.tx;
        let from = self.high_rxt.later(tx.una);
        let start = match self.board.covering(from) {
            Some(r) => r.1,
            None => from,
        };
        let next = self.board.next_after(start);
        let stop = next.map_or(tx.max, |r| r.0).earlier(tx.max);
        let size = stop.beyond(start).min(board.conn.mss);
        if size > 0 && start.before(self.lost_edge) {
            return Some((start, size));
        }
        // Rule 2, new data, goes before these if the peer's window has room worth sending.
        let room = tx.una.plus(board.peer.window).beyond(tx.nxt);
        let new = Sender::want(board, Kind::New, tx.nxt).is_some_and(|w| w.least <= room);
        if !self.in_recovery || new {
            return None;
        }
        let highest = self.board.list().last().map_or(tx.una, |r| r.1);
        if size > 0 && start.before(highest) {
            return Some((start, size));
        }
        let fresh = !self.last_resort && from.before(tx.max) && !self.board.is_empty();
        let tail = tx.max.since(from.later(highest)).min(board.conn.mss);
        (fresh && highest.before(tx.max) && tail > 0).then(|| (tx.max.minus(tail), tail))
    }

    fn is_duplicate(&self, seg: &Segment<'_>, ack: Seq, fresh: u32, board: &Board) -> bool {
        let plain = seg.payload.is_empty()
            && !seg.head.flags.has(Flags::SYN.with(Flags::FIN))
            && seg.head.window <= self.last_window;
        ack == board.tx.una
            && board.tx.una != board.tx.max
            && !board.peer.persist
            && (fresh > 0 || plain && !Self::reports(board))
    }

    fn on_expiry(&mut self, repeat: bool, cx: &mut Cx<'_>) {
        let (una, max) = (cx.board.tx.una, cx.board.tx.max);
        let flight = cx.board.tx.nxt.since(una);
        self.count_lost(self.pipe(&cx.board), cx);
        (self.in_recovery, self.dupacks) = (false, 0);
        self.recover = Some(max);
        self.timeout_edge = Some(max);
        self.high_rxt = una;
        self.rescue = Some(Reason::Timeout);
        if let Some(timed) = &mut self.timed {
            timed.on_timeout(cx);
        }
        self.publish(cx);
        cx.out.emit(Signal::Lost(Lost {
            bytes: self.board.missing(una, max),
            flight,
            cause: Cause::Timeout,
            new_episode: true,
            repeat,
        }));
    }

    fn fill_again(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let una = cx.board.tx.una;
        let (seq, bytes, last_resort) = match (want.kind, self.rescue.take()) {
            (Kind::Rescue, reason) => {
                out.reason = reason.unwrap_or_default();
                let hole = self.board.next_after(una).map_or(cx.board.tx.max, |r| r.0);
                let timed = self.rack(&cx.board).and_then(|r| r.first_lost(want.bytes));
                let (seq, octets) = timed.unwrap_or((una, hole.since(una)));
                (seq, want.bytes.min(octets), false)
            }
            _ => {
                out.reason = match self.timeout_edge {
                    Some(_) => Reason::Timeout,
                    None => Reason::Sack,
                };
                let Some((seq, size)) = self.next_seg(&cx.board) else {
                    return;
                };
                let beyond = self.board.list().last().is_some_and(|r| seq.from(r.1));
                let last = beyond && seq.from(self.lost_edge);
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
            self.last_resort = true;
        } else {
            self.high_rxt = self.high_rxt.later(end);
        }
        cx.write(|t: &mut TxFacts| {
            t.retransmits += 1;
            (t.nxt, t.max) = (t.nxt.later(end), t.max.later(end));
        });
        self.sender.arm_if_idle(cx);
    }
}

impl Component for Selective {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        self.sender.on_segment(seg.head, &cx.board);
        let Some(ack) = seg.head.ack else {
            return Admit::Pass;
        };
        let (before, edge) = (self.delivered(&cx.board), self.lost_edge);
        let fresh = self.note_ranges(seg, &cx.board);
        let twice = Self::reports(&cx.board) && seg.head.came_twice(ack);
        self.dsacks += u32::from(twice);
        let advances = ack.after(cx.board.tx.una) && ack.upto(cx.board.tx.max);
        if advances {
            self.on_advance(ack, cx);
        } else if self.is_duplicate(seg, ack, fresh, &cx.board) {
            self.dupacks += 1;
            cx.out.emit(Signal::DupAck);
        }
        let further = if self.rack(&cx.board).is_some() {
            let what = (advances, twice, self.busy(&cx.board));
            let timed = self.timed.as_mut();
            timed.is_some_and(|t| t.on_segment(seg, what, cx) > 0)
        } else {
            let known = edge.later(cx.board.tx.una);
            let found = self.find_lost_edge(&cx.board);
            let further = self.in_recovery && found.after(known);
            if further {
                self.count_lost(self.board.missing(known, found), cx);
            }
            further
        };
        if self.in_recovery {
            self.reduce(before, advances && !further, cx);
        }
        self.look_for_loss(before, cx);
        self.publish(cx);
        self.schedule(cx);
        self.last_window = seg.head.window;
        Admit::Pass
    }

    fn on_timer(&mut self, timer: u8, cx: &mut Cx<'_>) {
        match timer {
            REORDER => {
                let (busy, before) = (self.busy(&cx.board), self.delivered(&cx.board));
                self.timed.as_mut().map(|t| t.detect(busy, cx));
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
                self.rescue?;
                self.rack(board)
                    .is_none_or(|r| r.lost() > 0)
                    .then_some(())?;
                Sender::want(board, kind, tx.una).filter(|_| tx.una != tx.max)
            }
            Kind::Resend if !board.peer.persist => {
                if tx.nxt != tx.max {
                    return Sender::want(board, kind, tx.nxt);
                }
                self.repairs().then_some(())?;
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
                (self.lost_edge, self.high_rxt) = (iss, iss);
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
                self.board.prepare(); // an embryo, which sends no data, has no scoreboard
                self.sender.fill_new(want, out, cx);
            }
        }
        if let (Some(prr), true) = (&mut self.prr, want.kind.is_data()) {
            prr.sent(want.bytes);
        }
        // What no report will tell of is not logged: it would stay for ever.
        let told = want.kind != Kind::Control && Self::reports(&cx.board);
        if let Some(timed) = self.timed.as_mut().filter(|_| told) {
            timed.sent(out, cx.now);
        }
        self.publish(cx);
        self.schedule(cx);
    }

    fn stamp(&mut self, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        self.sender.stamp(out, &cx.board);
    }

    fn set(&mut self, param: &str, value: Value) -> bool {
        self.sender.set(param, value)
    }

    fn on_set(&mut self, cx: &mut Cx<'_>) {
        self.sender.on_set(cx);
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("sacked", f64::from(self.board.total()));
        probe("lost_edge", f64::from(self.lost_edge.0));
        probe("dsacks", f64::from(self.dsacks));
        let probes = self.timed.as_ref().map_or(0, |t| t.probe.count());
        probe("probes", f64::from(probes));
    }
}
