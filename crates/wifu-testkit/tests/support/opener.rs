//! `opener`: opens with one question and one answer, closes when the FIN mark is acknowledged.
//!
//! No third segment, no half-open state, no TIME_WAIT. It also asks a silent peer for an answer
//! when another part says "stalled".

use wifu_engine::board::{ConnFacts, State};
use wifu_engine::component::Cx;
use wifu_engine::{
    Admit, Board, Component, Descriptor, Facts, Fault, FieldUse, Kind, Out, Role, Segment, Signal,
    Want, WordSpec,
};
use wifu_wire::{Class, Flags, HeadField, Span, Time, Word};

pub static OPENER: Descriptor = OPENS_AT_ONCE;

/// What [`OPENER`] is; others differ in who opens a connection.
pub const OPENS_AT_ONCE: Descriptor = Descriptor {
    name: "opener",
    role: Role::Manager,
    doc: "Opens with a SYN and its answer; probes a peer that fell silent.",
    words: &[
        WordSpec::new("request", 1).written(),
        WordSpec::new("feedback", 1).marking(Class::Feedback),
        WordSpec::new("quick", 1),
    ],
    wants: Facts::TX.with(Facts::RX),
    writes: Facts::CONN,
    hears: &[
        ("connect", &[]),
        ("listen", &[]),
        ("closing", &[]),
        ("segment", &["opened", "ended"]),
        ("timer", &["ended"]),
        ("acked", &["ended"]),
        ("?arrived", &[]),
        ("?stalled", &[]),
    ],
    offers: &[Kind::Control, Kind::Probe],
    hooks: &["segment"],
    fields: &[
        FieldUse::of(HeadField::Seq),
        FieldUse::of(HeadField::SYN),
        FieldUse::of(HeadField::RST).optional(),
        FieldUse::of(HeadField::Ts).optional(),
    ],
    build: |p| {
        Ok(Box::new(Opener {
            marks: ["request", "feedback", "quick"].map(|w| p.word(w)),
            ask: false,
            answer: false,
            probe: false,
            probing: false,
            tries: 0,
        }))
    },
    ..Descriptor::EMPTY
};

const RETRY: u8 = 0;
const LINGER: u8 = 1;
const TRIES: u32 = 6;

struct Opener {
    /// request, feedback, quick.
    marks: [Word; 3],
    ask: bool,
    answer: bool,
    probe: bool,
    probing: bool,
    tries: u32,
}

impl Opener {
    fn state(cx: &mut Cx<'_>, state: State) {
        let running = matches!(
            state,
            State::Established | State::CloseWait | State::FinWait1
        );
        cx.write(|c: &mut ConnFacts| (c.state, c.running) = (state, running));
    }

    fn open(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        let site = &cx.board.site;
        let (overhead, most) = (site.overhead, site.mtu - site.overhead);
        let mss = if site.mss_limit > 0 {
            most.min(site.mss_limit)
        } else {
            most
        };
        let site = cx.board.site.clone();
        cx.write(|c: &mut ConnFacts| {
            (c.mss, c.overhead) = (mss, overhead);
            c.meet(seg.head.options, &site);
        });
        Opener::state(cx, State::Established);
        cx.attach(seg.head.seq.plus(1));
        cx.out.disarm(RETRY);
        self.tries = 0;
        cx.out.emit(Signal::Opened);
    }
}

impl Component for Opener {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let (syn, ack) = (seg.head.flags.has(Flags::SYN), seg.head.ack);
        if seg.head.flags.has(Flags::RST) {
            let fault = match cx.board.conn.state {
                State::SynSent => Some(Fault::Refused),
                State::CloseWait => None,
                _ => Some(Fault::Reset),
            };
            Opener::state(cx, State::Closed);
            cx.out.emit(Signal::Ended(fault));
            return Admit::Drop("RST");
        }
        match cx.board.conn.state {
            State::Listen if syn => {
                let iss = cx.board.site.isn;
                cx.mark_syn(iss);
                self.open(seg, cx);
                self.answer = true;
            }
            State::SynSent if syn && ack == Some(cx.board.site.isn.plus(1)) => self.open(seg, cx),
            State::Listen | State::SynSent | State::Closed => return Admit::Drop("not open"),
            _ if syn && ack.is_none() => {
                self.answer = true;
                return Admit::Drop("SYN again");
            }
            _ => {}
        }
        let [_, _, quick] = self.marks;
        if self.probing && seg.head.get(quick) == 1 {
            (self.probe, self.probing, self.tries) = (false, false, 0);
            cx.out.disarm(RETRY);
        }
        if cx.board.conn.state == State::CloseWait {
            cx.out.arm_after(LINGER, Span::SECOND * 5);
        }
        Admit::Pass
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        match signal {
            Signal::Connect => {
                let iss = cx.board.site.isn;
                cx.mark_syn(iss);
                Opener::state(cx, State::SynSent);
                self.ask = true;
            }
            Signal::Listen => Opener::state(cx, State::Listen),
            // Data flows one way: who received the end has nothing to close.
            Signal::Closing if cx.board.rx.fin => {}
            Signal::Closing => {
                cx.mark_fin();
                Opener::state(cx, State::FinWait1);
            }
            Signal::Acked(a) if cx.board.app.fin && a.upto.after(cx.board.app.end) => {
                Opener::state(cx, State::Closed);
                cx.out.emit(Signal::Ended(None));
            }
            Signal::Arrived(a) if a.fin => {
                Opener::state(cx, State::CloseWait);
                cx.out.arm_after(LINGER, Span::SECOND * 5);
            }
            Signal::Ext(..) => (self.probe, self.probing) = (true, true),
            _ => {}
        }
    }

    fn on_timer(&mut self, timer: u8, cx: &mut Cx<'_>) {
        if timer == LINGER || self.tries > TRIES {
            Opener::state(cx, State::Closed);
            cx.out
                .emit(Signal::Ended((timer == RETRY).then_some(Fault::TimedOut)));
        } else if cx.board.conn.state == State::SynSent {
            self.ask = true;
        } else {
            self.probe = self.probing;
        }
    }

    fn offer(&self, kind: Kind, _board: &Board, _now: Time) -> Option<Want> {
        let wanted = match kind {
            Kind::Control => self.ask || self.answer,
            _ => self.probe,
        };
        wanted.then_some(Want::bare(kind))
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let [request, feedback, quick] = self.marks;
        if self.answer {
            out.head.flags = Flags::SYN;
            out.head.set(feedback, 1);
            out.head.set(quick, 1);
            out.head.seq = cx.board.site.isn;
            self.answer = false;
            return;
        }
        (out.head.flags, out.head.seq) = match want.kind {
            Kind::Control => (Flags::SYN, cx.board.site.isn),
            _ => (Flags::default(), cx.board.tx.max),
        };
        out.head.set(request, 1);
        (self.ask, self.probe) = (false, false);
        out.head.ts = Some(cx.now.wire_micros());
        cx.out.arm_after(
            RETRY,
            (Span::SECOND * (1 << self.tries)).min(Span::SECOND * 8),
        );
        self.tries += 1;
    }
}
