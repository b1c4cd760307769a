//! `handshake`: TCP's connection manager (RFC 9293 3.10, RFC 5961, RFC 6528).
//!
//! Contributes the states, the marks (SYN, FIN), validation of arriving segments and RST. Who
//! carries SYN and FIN is reliability's business. Hears segments, the application and what
//! reliability and the receiver infer; emits `opened`, `ack-now`, `ended` and, of marks, `lost`;
//! writes `conn`.
//!
//! Deviations: a segment without payload is acceptable at the right edge of the window too (as in
//! Linux), because a peer that filled the window acknowledges from there. New data for an
//! application that has closed both ways is answered with RST (RFC 1122 4.2.2.13), which overrides
//! Behaviour 4.3: a killed application's peer would else send to nobody. What the application wrote
//! before is acknowledged first, unless the peer sends more than a buffer meanwhile: it would be
//! lost where it has not left yet, and RFC 9293 lets a close bring it all over. Answers to bare
//! segments outside the window are limited as challenges are.

use wifu_engine::admission::BySyn;
use wifu_engine::board::{ConnFacts, SiteFacts, State};
use wifu_engine::component::Cx;
use wifu_engine::kit::{ECN, ECN_ECHO, KEEP, KEEP_PARAMS, KeepAlive, Marks, accept};
use wifu_engine::{
    Admit, Board, Component, Descriptor, Facts, Fault, FieldUse, Kind, Out, ParamSpec, Params,
    Role, Segment, Signal, Value, Want,
};
use wifu_wire::{Flags, Head, HeadField, Seq, Span, Time, ipv6};

/// See the module.
pub static HANDSHAKE: Descriptor = Descriptor {
    name: "handshake",
    role: Role::Manager,
    doc: "Opens and closes with SYN and FIN as TCP does: simultaneous open and close, half-close, \
          RST, TIME_WAIT, challenge ACKs, keep-alives, initial sequence numbers by RFC 6528.",
    cites: &[
        "RFC 9293 section 3.10",
        "RFC 5961",
        "RFC 6528",
        "RFC 1337",
        "RFC 3168",
        "RFC 7323 section 5",
    ],
    params: &[
        ParamSpec::span(
            "two_msl",
            Span(3_000_000_000),
            Span(1_000_000),
            Span(240_000_000_000),
            "How long TIME_WAIT lasts (twice the maximum segment lifetime).",
        ),
        ParamSpec::flag(
            "rfc1337",
            false,
            "In TIME_WAIT no RST is heard, lest an old segment and its answer end it early (RFC \
             1337, fix F1).",
        ),
        ParamSpec::span(
            "fin_wait",
            Span(60_000_000_000),
            Span(1_000_000),
            Span(3_600_000_000_000),
            "How long FIN_WAIT_2 waits for the peer's FIN once the application is gone.",
        ),
        ParamSpec::text(
            "isn",
            "rfc6528",
            &["rfc6528", "fixed"],
            "Initial sequence number: keyed hash and clock, or `iss` (test profiles).",
        ),
        ParamSpec::text(
            "late_data",
            "reset",
            &["reset", "discard"],
            "New data for an application that has closed: answer RST (RFC 1122 4.2.2.13), so that \
             a peer does not send a whole file to nobody; or acknowledge and discard \
             (Behaviour 4.3).",
        ),
        ParamSpec::int(
            "iss",
            1,
            0,
            0xFFFF_FFFF,
            "Initial sequence number with isn = fixed.",
        ),
        KEEP_PARAMS[0],
        KEEP_PARAMS[1],
        KEEP_PARAMS[2],
        KEEP_PARAMS[3],
        ECN,
        ECN_ECHO,
    ],
    probes: &["ce", "ecn_cuts"],
    reads: Facts::TX.with(Facts::RX),
    wants: Facts::PEER,
    writes: Facts::CONN,
    hears: &[
        ("segment", &["opened", "ack-now", "lost", "ended"]),
        ("timer", &["ended"]),
        ("connect", &[]),
        ("listen", &[]),
        ("closing", &["ended"]),
        ("abort", &["ended"]),
        ("acked", &["ended"]),
        ("arrived", &[]),
        ("gave-up", &["ended"]),
        ("?congested", &[]),
    ],
    offers: &[Kind::Control, Kind::Probe],
    needs: &[("unit", &["octets"])],
    hooks: &["segment", "stamp"],
    admission: Some(&BySyn),
    fields: &[
        FieldUse::of(HeadField::Seq),
        FieldUse::of(HeadField::Ack),
        FieldUse::of(HeadField::NoAck),
        FieldUse::of(HeadField::SYN),
        FieldUse::of(HeadField::RST),
        FieldUse::of(HeadField::Mss).optional(),
        FieldUse::of(HeadField::ECE).unless("ecn", "off"),
        FieldUse::of(HeadField::CWR).unless("ecn", "off"),
    ],
    build: |p| Ok(Box::new(Handshake::new(p))),
    ..Descriptor::EMPTY
};

/// Challenge ACKs per second (RFC 5961 section 7, Behaviour 2.5).
const CHALLENGES: u32 = 10;

/// Smallest payload that a peer's MSS option can force on us.
const LEAST_MSS: u32 = 48;

/// Assumed when a SYN carries no MSS option (RFC 9293 MUST-15), and of IPv6.
const DEFAULT_MSS: u32 = 536;
const DEFAULT_MSS_V6: u32 = 1220;

struct Handshake {
    two_msl: Span,
    rfc1337: bool,
    fin_wait: Span,
    fixed: Option<Seq>,
    closing: bool,
    reset_late: bool,
    /// Octets that came for an application that is gone, before its last ones were acknowledged.
    late: u32,
    rst: Option<(Seq, Option<Seq>)>,
    challenges: (u64, u32),
    keep: KeepAlive,
    marks: Marks,
}

impl Handshake {
    fn new(p: &Params<'_>) -> Handshake {
        Handshake {
            two_msl: p.span("two_msl"),
            rfc1337: p.flag("rfc1337"),
            fin_wait: p.span("fin_wait"),
            fixed: (p.text("isn") == "fixed").then_some(Seq(p.int("iss") as u32)),
            closing: false,
            reset_late: p.text("late_data") == "reset",
            late: 0,
            rst: None,
            challenges: (0, 0),
            keep: KeepAlive::new(p),
            marks: Marks::new(p),
        }
    }

    fn enter(&mut self, state: State, cx: &mut Cx<'_>) {
        cx.write(|c: &mut ConnFacts| c.state = state);
        if state == State::TimeWait {
            cx.out.arm_after(0, self.two_msl);
        }
    }

    fn end(&mut self, fault: Option<Fault>, cx: &mut Cx<'_>) {
        cx.write(|c: &mut ConnFacts| (c.state, c.running) = (State::Closed, false));
        self.keep.stop();
        cx.out.disarm(0);
        cx.out.emit(Signal::Ended(fault));
    }

    /// A challenge ACK, at most ten a second (RFC 5961 section 7).
    fn challenge(&mut self, cx: &mut Cx<'_>) {
        let second = cx.now.0 / Span::SECOND.0;
        if self.challenges.0 != second {
            self.challenges = (second, 0);
        }
        if self.challenges.1 < CHALLENGES {
            self.challenges.1 += 1;
            cx.out.emit(Signal::AckNow);
        }
    }

    fn start(&mut self, state: State, cx: &mut Cx<'_>) {
        let iss = self.fixed.unwrap_or(cx.board.site.isn);
        cx.mark_syn(iss);
        self.enter(state, cx);
    }

    /// What the peer's SYN says: options and the size of our segments.
    fn meet(&mut self, head: &Head, cx: &mut Cx<'_>) {
        self.marks.meet(head);
        let ecn = self.marks.agreed();
        let site = cx.board.site.clone();
        let stamps = if head.options.ts_ok { site.stamps } else { 0 };
        let overhead = site.overhead - (site.stamps - stamps);
        let full = site.mtu.saturating_sub(overhead);
        let limit = if site.mss_limit == 0 {
            full
        } else {
            site.mss_limit.min(full)
        };
        let offered = match u32::from(head.options.mss) {
            0 if site.ip_header as usize == ipv6::HEADER => DEFAULT_MSS_V6,
            0 => DEFAULT_MSS,
            mss => mss,
        };
        let offered = match site.max_seg {
            0 => offered,
            most => most.min(offered),
        };
        //= rfc9293#section-3.7.1
        // The peer's number leaves room for no options: those that segments carry are ours to take
        // off, and only those.
        let mss = limit.min(offered.saturating_sub(stamps)).max(LEAST_MSS);
        let rmss = Self::announced(&site).saturating_sub(stamps);
        cx.write(|c: &mut ConnFacts| {
            (c.mss, c.rmss, c.overhead, c.ecn) = (mss, rmss, overhead, ecn);
            c.meet(head.options, &site);
        });
    }

    /// Our MSS option: what a packet carries beside headers; timestamps count as payload.
    //= rfc9293#section-3.7.1
    fn announced(site: &SiteFacts) -> u32 {
        let most = site.mtu.saturating_sub(site.overhead) + site.stamps;
        let limit = match site.max_seg {
            0 => 65_535,
            limit => limit,
        };
        most.min(limit)
    }

    fn established(&mut self, receive: Seq, cx: &mut Cx<'_>) {
        cx.attach(receive);
        cx.write(|c: &mut ConnFacts| c.running = true);
        self.enter(State::Established, cx);
        self.keep.heard(cx.now);
        self.keep.start(cx);
        cx.out.emit(Signal::Opened);
        if self.closing {
            self.finish(cx);
        }
    }

    /// The application writes no more: FIN follows what was written.
    fn finish(&mut self, cx: &mut Cx<'_>) {
        match cx.board.conn.state {
            State::Established => {
                cx.mark_fin();
                self.enter(State::FinWait1, cx);
            }
            State::CloseWait => {
                cx.mark_fin();
                self.enter(State::LastAck, cx);
            }
            State::SynRcvd => self.closing = true,
            State::SynSent | State::Listen => self.end(None, cx),
            State::FinWait2 if cx.board.app.gone => cx.out.arm_after(0, self.fin_wait),
            _ => {}
        }
    }

    //= rfc9293#section-3.10.7.3
    fn in_syn_sent(&mut self, head: &Head, cx: &mut Cx<'_>) -> Admit {
        let (iss, max) = (cx.board.tx.iss, cx.board.tx.max);
        let good = head.ack.is_some_and(|a| a.after(iss) && a.upto(max));
        let rst = head.flags.has(Flags::RST);
        if let (Some(ack), false, false) = (head.ack, good, rst) {
            // A peer that kept old state: our RST lets our next SYN in (Behaviour 4.3).
            self.rst = Some((ack, None));
            return Admit::Drop("SYN_SENT: unacceptable ACK");
        }
        if rst {
            if good {
                self.end(Some(Fault::Refused), cx);
            }
            return Admit::Drop("SYN_SENT: RST");
        }
        if !head.flags.has(Flags::SYN) {
            return Admit::Drop("SYN_SENT: neither SYN nor RST");
        }
        self.meet(head, cx);
        if good {
            self.established(head.seq.plus(1), cx);
            cx.out.emit(Signal::AckNow);
        } else {
            self.enter(State::SynRcvd, cx);
        }
        Admit::Pass
    }

    /// Nothing but text, all of which came before, for a receiver that reports it, and so
    /// acknowledges.
    //= rfc2883#section-4
    fn came_before(seg: &Segment<'_>, board: &Board) -> bool {
        let text = seg.payload.len() as u32;
        if !board.rx.dsack || text == 0 || seg.head.seq.plus(text).after(board.rx.nxt) {
            return false;
        }
        let marks = Flags::SYN.with(Flags::FIN).with(Flags::RST);
        let alive = board.conn.running && board.conn.state != State::TimeWait;
        alive && !seg.head.flags.has(marks)
    }

    /// What becomes of it: what it acknowledges is heard if it is news.
    fn heard_again(seg: &Segment<'_>, cx: &Cx<'_>) -> Admit {
        let (head, text) = (seg.head, seg.payload.len() as u32);
        match accept::repeats(head, text, &cx.board) && accept::paws(head, &cx.board, cx.now) {
            true => Admit::Pass,
            false => Admit::DataOnly,
        }
    }

    fn synchronised(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let (head, state) = (seg.head, cx.board.conn.state);
        let (syn, rst) = (head.flags.has(Flags::SYN), head.flags.has(Flags::RST));
        let again = state == State::SynRcvd && syn && !rst && head.seq == cx.board.rx.irs;
        //= rfc1337#section-3
        if rst && state == State::TimeWait && self.rfc1337 {
            return Admit::Drop("RST in TIME_WAIT");
        }
        if again && head.ack.is_none() {
            self.marks.meet_again(head);
            return Admit::Pass; // reliability sends SYN+ACK again
        }
        //= rfc5961#section-4.2
        // Wherever it points.
        if syn && !rst && !again {
            self.challenge(cx);
            return Admit::Drop("SYN in a synchronised state");
        }
        let marks = u32::from(syn) + u32::from(head.flags.has(Flags::FIN));
        let len = seg.payload.len() as u32 + marks;
        if Self::came_before(seg, &cx.board) {
            return Self::heard_again(seg, cx);
        }
        if !rst && !accept::paws(head, &cx.board, cx.now) {
            cx.out.emit(Signal::AckNow);
            return Admit::Drop("PAWS");
        }
        if !rst && accept::behind_probe(head, len, &cx.board) {
            return Admit::Pass; // an answer would look like a duplicate
        }
        let inside = if rst {
            accept::in_window(head.seq, &cx.board)
        } else {
            accept::acceptable(head, len, &cx.board)
        };
        if !again && !inside {
            if accept::repeats(head, seg.payload.len() as u32, &cx.board) {
                return Admit::Pass;
            }
            if !rst {
                if state == State::TimeWait && head.flags.has(Flags::FIN) {
                    cx.out.arm_after(0, self.two_msl);
                }
                // Without payload it may itself answer one of ours: a limit ends such loops.
                if len == 0 {
                    self.challenge(cx);
                } else {
                    cx.out.emit(Signal::AckNow);
                }
            }
            return Admit::Drop("outside the window");
        }
        if rst {
            return self.on_rst(head, cx);
        }
        let admit = self.on_ack(head, cx);
        if admit == Admit::Pass && cx.board.app.gone && self.too_late(seg, cx) {
            self.abort(cx);
            return Admit::Drop("data after the application closed");
        }
        admit
    }

    /// New data, beyond guessing, for an application that has closed both ways and whose last words
    /// have been heard.
    //= rfc1122#section-4.2.2.13
    fn too_late(&mut self, seg: &Segment<'_>, cx: &Cx<'_>) -> bool {
        let upto = seg.head.seq.plus(seg.payload.len() as u32);
        let closing = matches!(cx.board.conn.state, State::FinWait1 | State::FinWait2);
        let fresh = !seg.payload.is_empty() && upto.after(cx.board.rx.nxt);
        if !(self.reset_late && closing && !cx.board.rx.fin && fresh) {
            return false;
        }
        let room = cx.board.rx.window >= cx.board.conn.mss;
        let waits = cx.board.unacked() > 0 && room && self.late < cx.board.site.rcv_buf;
        if waits {
            self.late = self.late.saturating_add(seg.payload.len() as u32);
        }
        !waits
    }

    //= rfc5961#section-3.2
    fn on_rst(&mut self, head: &Head, cx: &mut Cx<'_>) -> Admit {
        if head.seq != cx.board.rx.nxt {
            self.challenge(cx);
            return Admit::Drop("RST inside the window");
        }
        let fault = match cx.board.conn.state {
            State::SynRcvd => Some(Fault::Refused),
            State::Closing | State::LastAck | State::TimeWait => None,
            _ => Some(Fault::Reset),
        };
        self.end(fault, cx);
        Admit::Drop("RST")
    }

    //= rfc9293#section-3.10.7.4
    //= rfc5961#section-5.2
    // Fifth check.
    #[inline]
    fn on_ack(&mut self, head: &Head, cx: &mut Cx<'_>) -> Admit {
        let Some(ack) = head.ack else {
            return Admit::Drop("no ACK");
        };
        let (una, max) = (cx.board.tx.una, cx.board.tx.max);
        if cx.board.conn.state == State::SynRcvd {
            if !ack.after(una) || ack.after(max) {
                self.rst = Some((ack, None));
                return Admit::Drop("SYN_RCVD: unacceptable ACK");
            }
            let receive = cx.board.rx.nxt;
            self.established(receive, cx);
            return Admit::Pass;
        }
        if ack.after(max) {
            self.challenge(cx);
            return Admit::Drop("ACK of what was never sent");
        }
        if ack.before(una) {
            let window = cx.board.peer.max_window;
            if ack.before(una.minus(window)) {
                self.challenge(cx);
                return Admit::Drop("ACK too old");
            }
            return Admit::DataOnly;
        }
        Admit::Pass
    }

    fn fin_arrived(&mut self, cx: &mut Cx<'_>) {
        match cx.board.conn.state {
            State::Established => self.enter(State::CloseWait, cx),
            State::FinWait1 => self.enter(State::Closing, cx),
            State::FinWait2 => self.enter(State::TimeWait, cx),
            _ => {}
        }
    }

    fn fin_acked(&mut self, cx: &mut Cx<'_>) {
        match cx.board.conn.state {
            State::FinWait1 => {
                self.enter(State::FinWait2, cx);
                if cx.board.app.gone {
                    cx.out.arm_after(0, self.fin_wait);
                }
            }
            State::Closing => self.enter(State::TimeWait, cx),
            State::LastAck => self.end(None, cx),
            _ => {}
        }
    }

    fn abort(&mut self, cx: &mut Cx<'_>) {
        let state = cx.board.conn.state;
        if !matches!(
            state,
            State::Closed | State::Listen | State::SynSent | State::TimeWait
        ) {
            // A refused probe is no reason to name a number that the peer does not take.
            let (tx, peer) = (&cx.board.tx, &cx.board.peer);
            let edge = if peer.persist {
                tx.una.plus(peer.window)
            } else {
                tx.max
            };
            self.rst = Some((tx.max.earlier(edge), Some(cx.board.rx.nxt)));
        }
        self.end(Some(Fault::Aborted), cx);
    }
}

impl Component for Handshake {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        match cx.board.conn.state {
            State::Closed => Admit::Drop("closed"),
            State::Listen => {
                let flags = seg.head.flags;
                if !flags.has(Flags::SYN) || flags.has(Flags::RST) || seg.head.ack.is_some() {
                    return Admit::Drop("LISTEN: no SYN");
                }
                self.meet(seg.head, cx);
                self.start(State::SynRcvd, cx);
                Admit::Pass
            }
            State::SynSent => self.in_syn_sent(seg.head, cx),
            _ => {
                let admit = self.synchronised(seg, cx);
                if !matches!(admit, Admit::Drop(_)) {
                    self.keep.heard(cx.now);
                    if self.marks.agreed() {
                        let news = seg.head.ack.filter(|_| admit == Admit::Pass);
                        self.marks.arrived(seg, news, cx);
                    }
                }
                admit
            }
        }
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        match signal {
            Signal::Connect => self.start(State::SynSent, cx),
            Signal::Listen => {
                self.enter(State::Listen, cx);
            }
            Signal::Closing => self.finish(cx),
            Signal::Abort => self.abort(cx),
            Signal::Acked(_) => {
                let (app, tx) = (&cx.board.app, &cx.board.tx);
                if app.fin && tx.una == app.end.plus(1) {
                    self.fin_acked(cx);
                }
            }
            Signal::Arrived(a) if a.fin => self.fin_arrived(cx),
            Signal::Congested(_) => self.marks.reduced(&cx.board),
            Signal::GaveUp => self.end(Some(Fault::TimedOut), cx),
            _ => {}
        }
    }

    fn on_timer(&mut self, timer: u8, cx: &mut Cx<'_>) {
        if timer != KEEP {
            self.end(None, cx);
        } else if !self.keep.expire(cx) {
            self.rst = Some((cx.board.tx.max, Some(cx.board.rx.nxt)));
            self.end(Some(Fault::TimedOut), cx);
        }
    }

    fn offer(&self, kind: Kind, _board: &Board, _now: Time) -> Option<Want> {
        match kind {
            Kind::Probe => self.keep.offer(),
            _ => self.rst.map(|_| Want::bare(Kind::Control)),
        }
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        if want.kind == Kind::Probe {
            self.keep.fill(out, &cx.board);
        } else if let Some((seq, ack)) = self.rst.take() {
            (out.head.seq, out.head.ack) = (seq, ack);
            out.head.flags = Flags::RST;
        }
    }

    fn stamp(&mut self, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        if out.head.flags.has(Flags::SYN) {
            out.head.options.mss = Self::announced(&cx.board.site) as u16;
            self.marks.stamp_syn(out, &cx.board);
        } else if self.marks.agreed() {
            self.marks.stamp(out);
        }
    }

    fn set(&mut self, param: &str, value: Value) -> bool {
        self.keep.set(param, value)
    }

    fn on_set(&mut self, cx: &mut Cx<'_>) {
        self.keep.start(cx);
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        let (came, heeded) = self.marks.counts();
        probe("ce", f64::from(came));
        probe("ecn_cuts", f64::from(heeded));
    }
}
