//! `quick-start`: opens with a question and its answer, asks a way anew, closes (ATP thesis 3.1,
//! Behaviour 8.3, 8.5, 16.6).
//!
//! Contributes the states, the marks, the questions (SYN and probe) and the answers that are no
//! feedback of an epoch. Which feedback is new is decided here: later parts see no other. Hears
//! segments, the application, what reliability and the receiver infer, and `stalled`; emits
//! `opened` and `ended`; writes `conn`. Data may flow (`running`) but while the way is asked for.
//!
//! Both ends may send, each under the same identifier and in a sequence space of its own: what is
//! no feedback is of the half that its sender fills, feedback of the other one. The half of the end
//! that opened starts with the SYN; the other one, if it is ever used, with a probe on the first
//! octet written (Behaviour 16.6 has a second connection with a flipped identifier instead). So
//! what one end alone fills is on the wire as in the thesis. An end that wrote nothing closes with
//! the feedback that acknowledges the peer's end, which bears FIN; one that wrote sends its own
//! FIN. A listener's connection counts as open, for the application too, with the SYN: the peer may
//! wait for it to speak.
//!
//! With `elfn` a node that loses a packet for good says so (LINK_DOWN, Behaviour 8.6): the way is
//! asked for at once, and what was on its way already is no answer. Emits `frozen` then.

mod by_identifier;

use by_identifier::{ByIdentifier, confirms};
use wifu_engine::board::{ConnFacts, State};
use wifu_engine::component::Cx;
use wifu_engine::kit::{EPOCH, epoch};
use wifu_engine::signal::ExtId;
use wifu_engine::{
    Admit, Board, Component, Descriptor, Facts, Fault, FieldUse, Kind, Out, ParamSpec, Params,
    Role, Segment, Signal, Want, WordSpec,
};
use wifu_wire::{Class, Flags, Head, HeadField, Span, Time, Word};

/// See the module.
pub static QUICK_START: Descriptor = Descriptor {
    name: "quick-start",
    role: Role::Manager,
    doc: "Opens with a question for the path's delay and its answer, asks anew when feedback stays \
          away, closes with FIN and its feedback; connections have identifiers.",
    cites: &[
        "ATP thesis 3.1",
        "Behaviour 8.3",
        "Behaviour 8.5",
        "Behaviour 16.6",
    ],
    params: &[
        EPOCH,
        ParamSpec::int(
            "syn_tries",
            6,
            1,
            100,
            "SYNs sent before giving up (Behaviour 16.6).",
        ),
        ParamSpec::span(
            "ask_limit",
            Span(60_000_000_000),
            Span(1_000_000_000),
            Span(3_600_000_000_000),
            "A peer that was open and answers no probe for so long is given up.",
        ),
        ParamSpec::flag(
            "elfn",
            false,
            "Stop, and ask for the way, when a node says that it lost a packet for good: nodes bring \
             the handler `link-notice` then (Behaviour 8.6).",
        ),
    ],
    words: &[
        WordSpec::new("request", 1),
        WordSpec::new("feedback", 1).marking(Class::Feedback),
        WordSpec::new("quick", 1),
        WordSpec::new("fb_seq", 8).read(),
        WordSpec::new("link_down", 1)
            .marking(Class::Feedback)
            .read(),
    ],
    probes: &["asked", "stale", "frozen"],
    reads: Facts::TX.with(Facts::RX),
    wants: Facts::PEER,
    writes: Facts::CONN,
    hears: &[
        ("?stalled", &[]),
        ("segment", &["opened", "ended", "frozen"]),
        ("timer", &["ended"]),
        ("connect", &[]),
        ("listen", &[]),
        ("wrote", &[]),
        ("closing", &["ended"]),
        ("abort", &["ended"]),
        ("acked", &["ended"]),
        ("arrived", &[]),
        ("?gave-up", &["ended"]),
    ],
    offers: &[Kind::Control, Kind::Probe, Kind::Ack],
    needs: &[("unit", &["octets"])],
    hooks: &["segment"],
    fields: &[
        FieldUse::of(HeadField::Seq),
        FieldUse::of(HeadField::Ack),
        FieldUse::of(HeadField::NoAck),
        FieldUse::of(HeadField::SYN),
        FieldUse::of(HeadField::FIN),
        FieldUse::of(HeadField::RST),
        FieldUse::of(HeadField::Ts),
    ],
    admission: Some(&ByIdentifier),
    build: |p| Ok(Box::new(QuickStart::new(p))),
    ..Descriptor::EMPTY
};

const RETRY: u8 = 0;
const LINGER: u8 = 1;
const AGAIN: u8 = 2;

/// Longest interval between questions (Behaviour 8.2).
const RARELY: Span = Span(8_000_000_000);

/// How often the end is acknowledged without being asked (Behaviour 8.5).
const REPEATS: u32 = 10;

/// Then, and where a peer that closed is waited for, so long in silence (Behaviour 8.5).
const SILENCE: Span = Span(60_000_000_000);

/// A listener's connection of which nothing but its SYN was seen (Behaviour 8.5).
const HALF_OPEN: Span = Span(120_000_000_000);

struct QuickStart {
    /// request, feedback, quick, fb_seq.
    words: [Word; 4],
    link_down: Word,
    freeze: ExtId,
    elfn: bool,
    epoch: Span,
    tries: u32,
    limit: Span,
    /// The number of the newest feedback.
    latest: Option<u8>,
    /// Since when the way is asked for.
    probing: Option<Time>,
    /// A node lost a packet: nothing but the answer to that question ends it.
    frozen: bool,
    /// Questions since then, or SYNs.
    asked: u32,
    /// Nothing but the SYN was seen.
    half_open: bool,
    /// We wrote nothing and answer the peer's end by feedback that bears ours: so often by now.
    last_word: Option<u32>,
    owes: Owes,
    /// Questions so far; feedbacks that were old; notices that were heeded.
    counts: [u32; 3],
}

/// What is to be sent.
#[derive(Clone, Copy, Default)]
struct Owes {
    rst: bool,
    syn: bool,
    answer: bool,
    probe: bool,
    /// The feedback that bears FIN.
    end: bool,
    /// The acknowledgement of such a one.
    confirm: bool,
}

impl QuickStart {
    fn new(p: &Params<'_>) -> QuickStart {
        QuickStart {
            words: ["request", "feedback", "quick", "fb_seq"].map(|w| p.word(w)),
            link_down: p.word("link_down"),
            freeze: p.ext("frozen"),
            elfn: p.flag("elfn"),
            epoch: p.span("epoch"),
            tries: p.int("syn_tries") as u32,
            limit: p.span("ask_limit"),
            latest: None,
            probing: None,
            frozen: false,
            asked: 0,
            half_open: false,
            last_word: None,
            owes: Owes::default(),
            counts: [0; 3],
        }
    }

    fn enter(&mut self, state: State, cx: &mut Cx<'_>) {
        cx.write(|c: &mut ConnFacts| c.state = state);
        if state == State::TimeWait {
            //= spec#8.5
            // "TIME_WAIT 10*max(E,0.2 s)+1 s (longer than the repeats)"
            let wait = epoch::repeat(self.epoch) * u64::from(REPEATS) + Span::SECOND;
            cx.out.arm_after(LINGER, wait);
        }
    }

    fn end(&mut self, fault: Option<Fault>, cx: &mut Cx<'_>) {
        cx.write(|c: &mut ConnFacts| {
            (c.state, c.running, c.asking) = (State::Closed, false, false);
        });
        self.owes = Owes {
            rst: self.owes.rst,
            ..Owes::default()
        };
        cx.out.emit(Signal::Ended(fault));
    }

    fn start(&mut self, state: State, cx: &mut Cx<'_>) {
        let epoch = self.epoch;
        cx.write(|c: &mut ConnFacts| c.epoch = epoch);
        let isn = cx.board.site.isn;
        cx.mark_syn(isn);
        self.enter(state, cx);
    }

    /// The peer's SYN, or its answer to ours.
    fn open(&mut self, head: &Head, running: bool, cx: &mut Cx<'_>) {
        let site = cx.board.site.clone();
        let full = site.mtu.saturating_sub(site.overhead);
        let mss = if site.mss_limit > 0 {
            full.min(site.mss_limit)
        } else {
            full
        };
        cx.write(|c: &mut ConnFacts| {
            (c.mss, c.overhead, c.running) = (mss, site.overhead, running);
            c.meet(head.options, &site);
        });
        cx.attach(head.seq.plus(1));
        self.enter(State::Established, cx);
        cx.out.disarm(RETRY);
        (self.asked, self.owes.syn) = (0, false);
        cx.out.emit(Signal::Opened);
    }

    /// The way is asked for: no data until the answer.
    //= spec#8.3
    // "quick_start(): phase := PROBING ; stop pacing ; send probe"
    fn ask(&mut self, cx: &mut Cx<'_>) {
        if self.probing.is_some() {
            return;
        }
        (self.probing, self.asked, self.owes.probe) = (Some(cx.now), 0, true);
        cx.write(|c: &mut ConnFacts| (c.running, c.asking) = (false, true));
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        (self.probing, self.asked, self.owes.probe) = (None, 0, false);
        self.frozen = false;
        cx.out.disarm(RETRY);
        cx.write(|c: &mut ConnFacts| (c.running, c.asking) = (true, false));
    }

    /// Whether we fill our half, or are about to.
    fn speaks(&self, cx: &Cx<'_>) -> bool {
        cx.board.conn.running || self.probing.is_some()
    }

    fn on_rst(&mut self, cx: &mut Cx<'_>) -> Admit {
        let fault = match cx.board.conn.state {
            State::SynSent => Some(Fault::Refused),
            //= spec#8.3
            // "silently in CLOSING with all data acknowledged, LAST_ACK and TIME_WAIT"
            State::LastAck | State::TimeWait => None,
            State::FinWait1 | State::Closing if cx.board.unacked() == 0 => None,
            State::FinWait2 if cx.board.app.gone => None,
            _ => Some(Fault::Reset),
        };
        self.end(fault, cx);
        Admit::Drop("RST")
    }

    fn in_syn_sent(&mut self, head: &Head, cx: &mut Cx<'_>) -> Admit {
        let [_, feedback, quick, fb_seq] = self.words.map(|w| head.get(w));
        let ours = head.ack == Some(cx.board.tx.iss.plus(1));
        if !(head.flags.has(Flags::SYN) && feedback == 1 && quick == 1 && ours) {
            return Admit::Drop("SYN_SENT: no answer");
        }
        self.latest = Some(fb_seq as u8);
        self.open(head, true, cx);
        self.owes.confirm = true;
        Admit::Pass
    }

    /// A node on the way lost a packet for good. It means nothing of what is not on its way, nor
    /// while the way is asked for.
    //= spec#8.6
    // "the sender freezes (no data, probes as in PROBING) until a probe is answered, then
    // quick-start"
    fn on_notice(&mut self, head: &Head, cx: &mut Cx<'_>) -> Admit {
        let tx = &cx.board.tx;
        let outstanding = tx.una.upto(head.seq) && head.seq.before(tx.max);
        if !(self.elfn && outstanding) {
            return Admit::Drop("notice of nothing on its way");
        }
        if cx.board.conn.running {
            self.frozen = true;
            self.counts[2] += 1;
            self.ask(cx);
            cx.out.emit(Signal::Ext(self.freeze, [0; 2]));
        }
        Admit::Drop("notice of a lost packet")
    }

    /// Feedback, told by its number from what is old.
    //= spec#8.3
    // "fb_seq newer than last (serial 8 bit)"; 16.6: "ordinary feedback | counts as life sign"
    fn on_feedback(&mut self, head: &Head, cx: &mut Cx<'_>) -> Admit {
        let [_, _, quick, fb_seq] = self.words.map(|w| head.get(w));
        let number = fb_seq as u8;
        // The answer to our SYN once more: that it came was lost.
        self.owes.confirm |= head.flags.has(Flags::SYN);
        let newer = |l: u8| (number.wrapping_sub(l) as i8) > 0;
        let newer = self.latest.is_none_or(newer);
        // So many may have been lost that the number looks old: an answer to what is asked counts.
        let asked_at = self.probing.map(Time::wire_micros);
        let answers = |at: u32| quick == 1 && (head.ts_echo.wrapping_sub(at) as i32) >= 0;
        let answered = asked_at.is_some_and(answers);
        if !newer && !answered {
            self.counts[1] += 1;
            return Admit::Drop("stale feedback");
        }
        self.latest = Some(number);
        if self.probing.is_some() && (answered || !self.frozen) {
            self.run(cx);
        }
        //= spec#8.5
        // "Sender answers FIN|ACK with ACK"
        self.owes.confirm |= head.flags.has(Flags::FIN);
        match cx.board.conn.state {
            State::TimeWait => Admit::Drop("TIME_WAIT"),
            _ => Admit::Pass,
        }
    }

    /// What came of the peer's half when we have said our last word about it.
    //= spec#16.6
    fn after_last_word(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let head = seg.head;
        let asks = head.get(self.words[0]) == 1 || head.flags.has(Flags::FIN);
        if asks || !seg.payload.is_empty() {
            self.owes.end = true;
            return Admit::Pass;
        }
        if head.ack == Some(cx.board.tx.max.plus(1)) {
            self.end(None, cx);
            return Admit::Drop("the end is acknowledged");
        }
        Admit::Pass
    }

    //= spec#8.5
    fn on_closing(&mut self, cx: &mut Cx<'_>) {
        match cx.board.conn.state {
            State::Listen | State::SynSent => self.end(None, cx),
            State::Established if !self.speaks(cx) && cx.board.app.gone => {
                // "Receiver application closing before the FIN: RST."
                self.abort(cx);
            }
            State::Established => {
                cx.mark_fin();
                self.enter(State::FinWait1, cx);
                if !self.speaks(cx) {
                    self.ask(cx);
                }
            }
            State::CloseWait => {
                cx.mark_fin();
                let speaks = self.speaks(cx);
                self.enter(State::LastAck, cx);
                if !speaks {
                    (self.last_word, self.owes.end) = (Some(0), true);
                }
            }
            State::FinWait2 if cx.board.app.gone => cx.out.arm_after(LINGER, SILENCE),
            _ => {}
        }
    }

    fn abort(&mut self, cx: &mut Cx<'_>) {
        let state = cx.board.conn.state;
        self.owes.rst = !matches!(
            state,
            State::Closed | State::Listen | State::SynSent | State::TimeWait
        );
        self.end(Some(Fault::Aborted), cx);
    }

    /// Our end was acknowledged.
    fn fin_acked(&mut self, cx: &mut Cx<'_>) {
        match cx.board.conn.state {
            State::FinWait1 => {
                self.enter(State::FinWait2, cx);
                if cx.board.app.gone {
                    cx.out.arm_after(LINGER, SILENCE);
                }
            }
            State::Closing => self.enter(State::TimeWait, cx),
            State::LastAck => self.end(None, cx),
            _ => {}
        }
    }

    /// The peer's end came, in order.
    fn fin_arrived(&mut self, cx: &mut Cx<'_>) {
        match cx.board.conn.state {
            State::Established => self.enter(State::CloseWait, cx),
            State::FinWait1 => self.enter(State::Closing, cx),
            State::FinWait2 => self.enter(State::TimeWait, cx),
            _ => {}
        }
    }

    fn say_end(&mut self, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        self.owes.end = false;
        out.head.flags = Flags::FIN;
        out.head.seq = cx.board.tx.max;
        out.head.set(self.words[1], 1);
        let said = self.last_word.unwrap_or(0) + 1;
        self.last_word = Some(said);
        //= spec#8.5
        // "repeat each max(E,0.2 s) up to 10 times until ACK, then keep the state 60 s in silence"
        if said < REPEATS {
            cx.out.arm_after(AGAIN, epoch::repeat(self.epoch));
        } else if said == REPEATS {
            cx.out.arm_after(LINGER, SILENCE);
        }
    }

    /// How long an answer is waited for: 1, 2, 4, 8, 8 s and so on.
    fn patience(&self) -> Span {
        (Span::SECOND * (1 << self.asked.min(3))).min(RARELY)
    }
}

impl Component for QuickStart {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let (head, state) = (seg.head, cx.board.conn.state);
        let feedback = head.get(self.words[1]) == 1;
        let opens = head.flags.has(Flags::SYN);
        if matches!(state, State::Closed) {
            return Admit::Drop("closed");
        }
        if head.flags.has(Flags::RST) {
            return match state {
                State::Listen => Admit::Drop("LISTEN: RST"),
                _ => self.on_rst(cx),
            };
        }
        if head.get(self.link_down) == 1 {
            return self.on_notice(head, cx);
        }
        if state == State::SynSent {
            return self.in_syn_sent(head, cx);
        }
        if state == State::Listen {
            if !opens || feedback {
                return Admit::Drop("LISTEN: no SYN");
            }
            self.start(State::Listen, cx);
            self.open(head, false, cx);
            (self.owes.answer, self.half_open) = (true, true);
            cx.out.arm_after(LINGER, HALF_OPEN);
            cx.out.arm_after(AGAIN, Span::SECOND);
            return Admit::Pass;
        }
        if !opens && self.half_open {
            if !confirms(head, cx.board.tx.iss) {
                return Admit::Drop("no confirmation of the answer");
            }
            self.half_open = false;
            cx.out.disarm(LINGER);
            cx.out.disarm(AGAIN);
            self.asked = 0;
        }
        if feedback {
            return self.on_feedback(head, cx);
        }
        //= spec#16.6
        // "duplicate SYN same conn id | repeat QSR (iss, D fresh)"
        if opens {
            self.owes.answer = true;
            if self.half_open {
                cx.out.arm_after(LINGER, HALF_OPEN);
            }
            return Admit::Pass;
        }
        match self.last_word {
            Some(_) => self.after_last_word(seg, cx),
            None => Admit::Pass,
        }
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        match signal {
            Signal::Connect => {
                self.start(State::SynSent, cx);
                self.owes.syn = true;
            }
            Signal::Listen => self.enter(State::Listen, cx),
            // The half of the end that did not open is opened by the first octet written.
            Signal::Wrote if !cx.board.conn.running => self.ask(cx),
            Signal::Closing => self.on_closing(cx),
            Signal::Abort => self.abort(cx),
            Signal::Acked(a) if cx.board.app.fin && a.upto.after(cx.board.app.end) => {
                self.fin_acked(cx);
            }
            Signal::Arrived(a) if a.fin => self.fin_arrived(cx),
            Signal::GaveUp => self.end(Some(Fault::TimedOut), cx),
            Signal::Ext(..) => self.ask(cx),
            _ => {}
        }
    }

    fn on_timer(&mut self, timer: u8, cx: &mut Cx<'_>) {
        match (timer, self.probing) {
            (LINGER, _) => self.end(self.half_open.then_some(Fault::TimedOut), cx),
            // The answer, until the peer shows that it hears us: as often as a SYN goes.
            (AGAIN, _) if self.half_open => {
                self.asked += 1;
                if self.asked < self.tries {
                    self.owes.answer = true;
                    cx.out.arm_after(AGAIN, self.patience());
                }
            }
            (AGAIN, _) => self.owes.end = self.last_word.is_some(),
            (_, None) if cx.board.conn.state == State::SynSent && self.asked < self.tries => {
                self.owes.syn = true;
            }
            (_, Some(since)) if cx.now - since < self.limit => self.owes.probe = true,
            _ => self.end(Some(Fault::TimedOut), cx),
        }
    }

    fn offer(&self, kind: Kind, board: &Board, _now: Time) -> Option<Want> {
        let owes = &self.owes;
        // What a shut window forbids to send, its gate lets ask for when that is due.
        if kind == Kind::Probe && board.peer.persist && board.conn.running {
            let (bytes, least) = (1, 1);
            return Some(Want { kind, bytes, least });
        }
        let wanted = match kind {
            Kind::Control => owes.rst || owes.syn || owes.answer,
            Kind::Probe => owes.probe,
            _ => owes.end || owes.confirm,
        };
        wanted.then_some(Want::bare(kind))
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let [request, feedback, quick, _] = self.words;
        let (tx, now) = (&cx.board.tx, cx.now.wire_micros());
        (out.head.seq, out.head.ts) = (tx.max, Some(now));
        let owes = &mut self.owes;
        match want.kind {
            Kind::Control if owes.rst => {
                owes.rst = false;
                out.head.flags = Flags::RST;
            }
            Kind::Control if owes.answer => {
                owes.answer = false;
                (out.head.flags, out.head.seq, out.head.ts) = (Flags::SYN, tx.iss, None);
                out.head.set(feedback, 1);
                out.head.set(quick, 1);
            }
            Kind::Ack if owes.end => {
                out.head.ts = None;
                self.say_end(out, cx);
            }
            Kind::Ack => owes.confirm = false,
            kind => {
                if kind == Kind::Control {
                    owes.syn = false;
                    (out.head.flags, out.head.seq) = (Flags::SYN, tx.iss);
                }
                owes.probe = false;
                out.head.set(request, 1);
                self.counts[0] += 1;
                // A question for the window is repeated by its gate.
                if want.least == 0 {
                    cx.out.arm_after(RETRY, self.patience());
                    self.asked += 1;
                }
            }
        }
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        let [asked, stale, frozen] = self.counts.map(f64::from);
        probe("asked", asked);
        probe("stale", stale);
        probe("frozen", frozen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::Bench;
    use wifu_wire::Seq;

    /// Words by their places in the descriptor.
    const REQUEST: Word = Word(0);
    const FEEDBACK: Word = Word(1);
    const QUICK: Word = Word(2);
    const FB_SEQ: Word = Word(3);
    const LINK_DOWN: Word = Word(4);

    fn opened() -> Bench {
        let mut t = Bench::new(&QUICK_START, &[]).unwrap();
        opened_from(&mut t);
        t
    }

    fn opened_from(t: &mut Bench) {
        t.board.site.isn = Seq(100);
        (t.board.site.mtu, t.board.site.overhead) = (1500, 68);
        (t.board.site.snd_buf, t.board.site.rcv_buf) = (65_535, 65_535);
        t.now = Time(1_000_000_000);
        let _ = t.signal(Signal::Connect);
    }

    /// What it sends of this kind.
    fn said(t: &mut Bench, kind: Kind) -> Option<Head> {
        let want = t.offer(kind)?;
        let mut head = Head::default();
        let _ = t.send(&want, &mut head);
        Some(head)
    }

    fn feedback(t: &mut Bench, number: u32, quick: bool, flags: Flags) -> Admit {
        let mut head = Head::default();
        (head.flags, head.ack) = (flags, Some(Seq(101)));
        head.ts_echo = t.now.wire_micros();
        for (word, value) in [(FEEDBACK, 1), (QUICK, u32::from(quick)), (FB_SEQ, number)] {
            head.set(word, value);
        }
        t.segment(&head, &[]).0
    }

    fn running() -> Bench {
        let mut t = Bench::new(&QUICK_START, &[]).unwrap();
        running_from(&mut t);
        t
    }

    fn running_from(t: &mut Bench) {
        opened_from(t);
        let syn = said(t, Kind::Control).expect("a SYN");
        assert_eq!(
            (syn.flags, syn.seq, syn.get(REQUEST)),
            (Flags::SYN, Seq(100), 1)
        );
        assert_eq!(feedback(t, 1, true, Flags::SYN), Admit::Pass);
        assert!(t.board.conn.running && t.board.conn.mss == 1_432);
    }

    /// When the next question leaves, in seconds from now.
    fn waits(t: &Bench) -> f64 {
        (t.due(RETRY) - t.now).as_secs_f64()
    }

    //= spec#16.6
    #[test]
    fn six_syns_leave_at_doubling_intervals() {
        let mut t = opened();
        let mut intervals = Vec::new();
        for _ in 0..6 {
            assert!(said(&mut t, Kind::Control).is_some());
            intervals.push(waits(&t));
            let _ = t.advance(t.due(RETRY));
        }
        assert_eq!(intervals, [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]);
        assert_eq!(t.board.conn.state, State::Closed);
        assert!(said(&mut t, Kind::Control).is_none());
    }

    #[test]
    fn feedback_that_is_old_is_seen_by_nobody() {
        let mut t = running();
        let stale = Admit::Drop("stale feedback");
        assert_eq!(feedback(&mut t, 1, true, Flags(0)), stale);
        assert_eq!(feedback(&mut t, 3, false, Flags(0)), Admit::Pass);
        assert_eq!(feedback(&mut t, 2, false, Flags(0)), stale);
        assert_eq!(feedback(&mut t, 100, false, Flags(0)), Admit::Pass);
        assert_eq!(feedback(&mut t, 200, false, Flags(0)), Admit::Pass);
        assert_eq!(
            feedback(&mut t, 10, false, Flags(0)),
            Admit::Pass,
            "of the next round"
        );
        assert_eq!(t.probe("stale"), Some(2.0));
    }

    #[test]
    fn while_it_asks_no_data_flow_and_an_answer_counts_whatever_its_number() {
        let mut t = running();
        let stall = Signal::Ext(wifu_engine::signal::ExtId(0), [0; 2]);
        assert_eq!(t.name(&stall), "stalled");
        t.board.tx.max = Seq(9_000);
        let _ = t.signal(stall);
        assert!(!t.board.conn.running && t.board.conn.asking);
        let probe = said(&mut t, Kind::Probe).expect("a question");
        assert_eq!((probe.seq, probe.get(REQUEST)), (Seq(9_000), 1));
        assert!(probe.flags == Flags(0) && waits(&t) == 1.0);
        // Late feedback is a sign of life only if it is new.
        assert_ne!(feedback(&mut t, 1, false, Flags(0)), Admit::Pass);
        assert!(!t.board.conn.running);
        assert_eq!(feedback(&mut t, 1, true, Flags(0)), Admit::Pass);
        assert!(t.board.conn.running && t.due(RETRY) == Time::NEVER);
        assert!(!t.board.conn.asking);
        let _ = t.signal(stall);
        assert_eq!(feedback(&mut t, 2, false, Flags(0)), Admit::Pass);
        assert!(t.board.conn.running, "ordinary feedback, and new");
    }

    /// A notice of the packet of this number, and whether it was heeded.
    fn notice(t: &mut Bench, seq: u32) -> bool {
        let mut head = Head::default();
        head.seq = Seq(seq);
        head.set(LINK_DOWN, 1);
        let (verdict, said) = t.segment(&head, &[]);
        assert!(matches!(verdict, Admit::Drop(_)), "nobody else sees it");
        said.iter().any(|s| t.name(s) == "frozen")
    }

    //= spec#8.6
    #[test]
    fn a_notice_stops_the_sender_until_its_question_is_answered() {
        let mut t = Bench::new(&QUICK_START, &[("elfn", "on")]).unwrap();
        running_from(&mut t);
        (t.board.tx.una, t.board.tx.max) = (Seq(5_000), Seq(9_000));
        // Of what is acknowledged, and of what never left, none is heeded.
        for seq in [4_999, 9_000, 5_000u32.wrapping_sub(1 << 31)] {
            assert!(!notice(&mut t, seq) && t.board.conn.running, "{seq}");
        }
        assert!(notice(&mut t, 5_000) && !t.board.conn.running);
        let probe = said(&mut t, Kind::Probe).expect("a question");
        assert_eq!((probe.seq, probe.get(REQUEST)), (Seq(9_000), 1));
        assert_eq!(waits(&t), 1.0);
        assert!(!notice(&mut t, 8_999), "it asks already");
        assert!(said(&mut t, Kind::Probe).is_none());
        // What was on its way when the link went, and an old answer, are heard and end nothing.
        assert_eq!(feedback(&mut t, 2, false, Flags(0)), Admit::Pass);
        assert!(!t.board.conn.running);
        let mut late = Head::default();
        (late.ack, late.ts_echo) = (Some(Seq(101)), t.now.wire_micros() - 1);
        for (word, value) in [(FEEDBACK, 1), (QUICK, 1), (FB_SEQ, 3)] {
            late.set(word, value);
        }
        assert_eq!(t.segment(&late, &[]).0, Admit::Pass);
        assert!(!t.board.conn.running);
        t.now += Span::MILLI * 30;
        assert_eq!(feedback(&mut t, 4, true, Flags(0)), Admit::Pass);
        assert!(t.board.conn.running && t.due(RETRY) == Time::NEVER);
        // Asked for feedback that stays away, any is a sign of life, as before.
        let _ = t.signal(Signal::Ext(ExtId(0), [0; 2]));
        assert!(!t.board.conn.running);
        assert_eq!(feedback(&mut t, 5, false, Flags(0)), Admit::Pass);
        assert!(t.board.conn.running && t.probe("frozen") == Some(1.0));
    }

    #[test]
    fn without_elfn_and_before_it_is_open_no_notice_is_heeded() {
        let mut t = running();
        (t.board.tx.una, t.board.tx.max) = (Seq(5_000), Seq(9_000));
        assert!(!notice(&mut t, 5_000) && t.board.conn.running);
        let mut t = Bench::new(&QUICK_START, &[("elfn", "on")]).unwrap();
        let _ = t.signal(Signal::Listen);
        assert!(!notice(&mut t, 0) && t.board.conn.state == State::Listen);
    }

    #[test]
    fn who_does_not_answer_for_a_minute_is_given_up() {
        let mut t = running();
        let since = t.now;
        let _ = t.signal(Signal::Ext(wifu_engine::signal::ExtId(0), [0; 2]));
        let mut asked = 0;
        while t.board.conn.state != State::Closed {
            asked += u32::from(said(&mut t, Kind::Probe).is_some());
            let _ = t.advance(t.due(RETRY));
        }
        // At 0, 1, 3, 7, 15, 23, 31, 39, 47 and 55 s.
        assert_eq!((asked, (t.now - since).as_secs_f64()), (10, 63.0));
    }

    #[test]
    fn a_syn_that_was_to_go_again_does_not_once_it_is_answered() {
        let mut t = opened();
        assert!(said(&mut t, Kind::Control).is_some());
        let _ = t.advance(t.due(RETRY));
        assert_eq!(feedback(&mut t, 1, true, Flags::SYN), Admit::Pass);
        assert!(said(&mut t, Kind::Control).is_none());
        let _ = t.advance(t.now + Span::SECOND * 60);
        assert_eq!(t.board.conn.state, State::Established);
    }

    /// Who listens, numbers from `isn`, and got a SYN.
    fn asked(isn: u32) -> Bench {
        let mut t = Bench::new(&QUICK_START, &[]).unwrap();
        t.board.site.isn = Seq(isn);
        (t.board.site.mtu, t.board.site.overhead) = (1500, 68);
        (t.board.site.snd_buf, t.board.site.rcv_buf) = (65_535, 65_535);
        let _ = t.signal(Signal::Listen);
        let mut head = Head::default();
        (head.flags, head.seq) = (Flags::SYN, Seq(7));
        assert_eq!(t.segment(&head, &[]).0, Admit::Pass);
        t
    }

    /// A client that listens alone says nothing but feedback.
    #[test]
    fn who_answers_by_feedback_alone_is_there() {
        let mut t = asked(100);
        let _ = t.signal(Signal::Wrote);
        assert!(said(&mut t, Kind::Probe).is_some());
        assert_eq!(feedback(&mut t, 2, true, Flags(0)), Admit::Pass);
        assert!(t.board.conn.running);
        let _ = t.advance(t.now + HALF_OPEN * 2);
        assert_eq!(t.board.conn.state, State::Established);
    }

    /// The answer goes on being said to who did not confirm it.
    #[test]
    fn what_does_not_bear_the_number_of_the_answer_confirms_nothing() {
        let mut t = asked(100);
        let mut head = Head::default();
        assert_eq!(
            said(&mut t, Kind::Control).expect("the answer").seq,
            Seq(100)
        );
        (head.flags, head.seq) = (Flags(0), Seq(8));
        for ack in [None, Some(Seq(100)), Some(Seq(102))] {
            head.ack = ack;
            let verdict = t.segment(&head, b"octets").0;
            assert_eq!(verdict, Admit::Drop("no confirmation of the answer"));
        }
        let _ = t.advance(t.due(AGAIN));
        assert_eq!(said(&mut t, Kind::Control).expect("again").seq, Seq(100));
        head.ack = Some(Seq(101));
        assert_eq!(t.segment(&head, b"octets").0, Admit::Pass);
        assert!(t.due(AGAIN) == Time::NEVER && t.due(LINGER) == Time::NEVER);
        head.ack = None;
        assert_eq!(t.segment(&head, b"octets").0, Admit::Pass, "it is open");
    }

    //= spec#8.5
    #[test]
    fn the_end_is_acknowledged_ten_times_and_then_when_it_is_asked_for() {
        let mut t = asked(0);
        let mut head = Head::default();
        assert!(said(&mut t, Kind::Control).is_some() && !t.board.conn.running);
        let arrived = |fin| {
            Signal::Arrived(wifu_engine::signal::Arrived {
                seq: Seq(8),
                bytes: 0,
                gap: 0,
                order: wifu_engine::Arrival::InOrder,
                fin,
                ce: false,
            })
        };
        (head.flags, head.seq, head.ack) = (Flags::FIN, Seq(8), Some(Seq(1)));
        let _ = t.segment(&head, &[]);
        let _ = t.signal(arrived(true));
        assert_eq!(t.board.conn.state, State::CloseWait);
        assert!(
            said(&mut t, Kind::Ack).is_none(),
            "the application is asked first"
        );
        let _ = t.signal(Signal::Closing);
        for n in 0..10 {
            let end = said(&mut t, Kind::Ack).unwrap_or_else(|| panic!("{n}"));
            assert!(end.flags == Flags::FIN && end.get(FEEDBACK) == 1);
            let _ = t.advance(t.now + Span::SECOND);
        }
        assert!(said(&mut t, Kind::Ack).is_none());
        let _ = t.segment(&head, &[]);
        assert!(said(&mut t, Kind::Ack).is_some());
        (head.flags, head.ack) = (Flags(0), Some(t.board.tx.max.plus(1)));
        let _ = t.segment(&head, &[]);
        assert_eq!(t.board.conn.state, State::Closed);
    }
}
