//! `plain-opener`: opens with one question and one answer, closes when the FIN mark is acknowledged.
//!
//! No third segment, no half-open state, no TIME_WAIT. Sequence space may count octets or packets.

use wifu_engine::admission::{Admission, Key, first};
use wifu_engine::board::{ConnFacts, State};
use wifu_engine::component::Cx;
use wifu_engine::{
    Admit, Board, Component, Descriptor, Facts, Fault, FieldUse, Kind, Out, ParamSpec, Role,
    Segment, Signal, Tuple, Want,
};
use wifu_wire::{Flags, Head, HeadField, Seq, Span, Time};

/// See the module.
pub static PLAIN_OPENER: Descriptor = Descriptor {
    name: "plain-opener",
    role: Role::Manager,
    doc: "Opens with a SYN and its answer.",
    params: &[ParamSpec::flag(
        "isn_zero",
        false,
        "Number from 0 instead of RFC 6528.",
    )],
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
    ],
    offers: &[Kind::Control],
    hooks: &["segment"],
    fields: &[
        FieldUse::of(HeadField::Seq),
        FieldUse::of(HeadField::SYN),
        FieldUse::of(HeadField::RST).optional(),
        FieldUse::of(HeadField::Ts).optional(),
    ],
    admission: Some(&ByIdentifier),
    build: |p| {
        Ok(Box::new(Opener {
            zero: p.flag("isn_zero"),
            ..Opener::default()
        }))
    },
    ..Descriptor::EMPTY
};

/// A connection is whose number its packets carry: what an earlier one left under way between the
/// same ports is nobody's.
#[derive(Debug)]
struct ByIdentifier;

impl Admission for ByIdentifier {
    fn key(&self, ends: &Tuple, id: u32) -> Key {
        Key::identifier(ends, id)
    }

    fn draws_identifier(&self) -> bool {
        true
    }

    fn opens(&self, head: &Head) -> bool {
        first(head)
    }
}

const RETRY: u8 = 0;
const LINGER: u8 = 1;
const TRIES: u32 = 6;

#[derive(Default)]
struct Opener {
    zero: bool,
    ask: bool,
    answer: bool,
    tries: u32,
}

impl Opener {
    fn iss(&self, cx: &Cx<'_>) -> Seq {
        if self.zero { Seq(0) } else { cx.board.site.isn }
    }

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
                let iss = self.iss(cx);
                cx.mark_syn(iss);
                self.open(seg, cx);
                self.answer = true;
            }
            State::SynSent if syn && ack == Some(self.iss(cx).plus(1)) => self.open(seg, cx),
            State::Listen | State::SynSent | State::Closed => return Admit::Drop("not open"),
            _ if syn && ack.is_none() => {
                self.answer = true;
                return Admit::Drop("SYN again");
            }
            _ => {}
        }
        if cx.board.conn.state == State::CloseWait {
            cx.out.arm_after(LINGER, Span::SECOND * 5);
        }
        Admit::Pass
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        match signal {
            Signal::Connect => {
                let iss = self.iss(cx);
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
            _ => {}
        }
    }

    fn on_timer(&mut self, timer: u8, cx: &mut Cx<'_>) {
        if timer == LINGER || self.tries > TRIES {
            Opener::state(cx, State::Closed);
            cx.out
                .emit(Signal::Ended((timer == RETRY).then_some(Fault::TimedOut)));
        } else {
            self.ask = cx.board.conn.state == State::SynSent;
        }
    }

    fn offer(&self, kind: Kind, _board: &Board, _now: Time) -> Option<Want> {
        let wanted = kind == Kind::Control && (self.ask || self.answer);
        wanted.then_some(Want::bare(kind))
    }

    fn fill(&mut self, _want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        if self.answer {
            out.head.flags = Flags::SYN;
            out.head.seq = self.iss(cx);
            self.answer = false;
            return;
        }
        self.ask = false;
        (out.head.flags, out.head.seq) = (Flags::SYN, self.iss(cx));
        out.head.ts = Some(cx.now.wire_micros());
        cx.out.arm_after(
            RETRY,
            (Span::SECOND * (1 << self.tries)).min(Span::SECOND * 8),
        );
        self.tries += 1;
    }
}
