//! Explicit congestion notification (RFC 3168), both halves: a mark that came is echoed until the
//! peer says that it slowed down, and the peer's echo is a loss in which nothing is missing.

use crate::board::{Board, ConnFacts};
use crate::component::{Cx, Out, Payload, Segment};
use crate::params::{ParamSpec, Params};
use crate::permit::{Kind, Reason};
use crate::signal::{Cause, Lost, Signal};
use wifu_wire::{Ecn, Flags, Head, Seq};

/// Parameter that a manager using [`Marks`] declares.
pub const ECN: ParamSpec = ParamSpec::text(
    "ecn",
    "off",
    &["off", "accept", "on"],
    "Explicit congestion notification (RFC 3168): on asks the peer for it; accept, the kernel's \
     default, agrees if the peer asks. Once agreed, a queue that marks instead of dropping halves \
     the window, and nothing goes again.",
);

/// Parameter that a manager using [`Marks`] declares.
pub const ECN_ECHO: ParamSpec = ParamSpec::text(
    "ecn_echo",
    "rfc3168",
    &["rfc3168", "ack"],
    "Who echoes marks: rfc3168, each is told until the peer says that it slowed down; ack, the ACK \
     policy, whose acknowledgements say what they are about (exact_echo of `every`; RFC 8257 3.2).",
);

/// SYN flags of who asks; the answer has the first alone.
const SETUP: Flags = Flags(Flags::ECE.0 | Flags::CWR.0);

/// What was agreed, and what is owed.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// Marks are echoed here.
    latches: bool,
    asks: bool,
    accepts: bool,
    asked: bool,
    agreed: bool,
    /// A SYN went without the question, or came without it: nothing that leaves may be marked.
    plain: bool,
    /// A mark came, and the peer has not said that it knows.
    echo: bool,
    /// The window was reduced: the next new data says so.
    tell: bool,
    /// Echoes mean a window that was reduced, until more than this is acknowledged.
    until: Option<Seq>,
    came: u32,
    heeded: u32,
}

impl Marks {
    /// From [`ECN`] and [`ECN_ECHO`].
    pub fn new(p: &Params<'_>) -> Marks {
        let mode = p.text(ECN.name);
        Marks {
            latches: p.text(ECN_ECHO.name) == "rfc3168",
            asks: mode == "on",
            accepts: mode != "off",
            ..Marks::default()
        }
    }

    /// Both ends understand marks.
    #[inline]
    pub fn agreed(&self) -> bool {
        self.agreed
    }

    /// Marks that came, and reductions that the peer's echoes asked for.
    pub fn counts(&self) -> (u32, u32) {
        (self.came, self.heeded)
    }

    /// The peer's SYN came, with or without an acknowledgement of ours.
    //= rfc3168#section-6.1.1
    pub fn meet(&mut self, head: &Head) {
        let (ece, cwr) = (head.flags.has(Flags::ECE), head.flags.has(Flags::CWR));
        self.agreed = match head.ack {
            // Both flags: an old host that sends back what it got.
            Some(_) => self.asked && ece && !cwr,
            None => self.accepts && ece && cwr,
        };
    }

    /// The peer's SYN came again.
    //= rfc3168#section-6.1.1
    pub fn meet_again(&mut self, head: &Head) {
        self.plain |= !head.flags.has(SETUP);
    }

    /// A segment was taken, with what it acknowledges if that is news.
    pub fn arrived(&mut self, seg: &Segment<'_>, ack: Option<Seq>, cx: &mut Cx<'_>) {
        let upto = seg.head.seq.plus(seg.payload.len() as u32);
        //= rfc3168#section-6.1.5
        // What lies outside the window says nothing.
        if !seg.payload.is_empty() && upto.after(cx.board.rx.nxt) {
            self.echo &= !seg.head.flags.has(Flags::CWR); //= rfc3168#section-6.1.3
            if seg.head.ecn == Ecn::Ce {
                if self.latches && !self.echo {
                    // With a small window the peer may have nothing else to wait for.
                    cx.out.emit(Signal::AckNow);
                }
                self.echo = self.latches;
                self.came = self.came.saturating_add(1);
            }
        }
        let echo = ack.is_some() && seg.head.flags.has(Flags::ECE);
        if cx.board.conn.marked != echo {
            cx.write(|c: &mut ConnFacts| c.marked = echo);
        }
        let Some(ack) = ack else { return };
        if self.until.is_some_and(|u| ack.after(u)) {
            self.until = None;
        }
        let tx = &cx.board.tx;
        let fresh = self.until.is_none() && cx.board.conn.running && tx.una != tx.max;
        if echo && fresh {
            //= rfc3168#section-6.1.2
            // Once per window.
            self.until = Some(tx.max);
            self.heeded = self.heeded.saturating_add(1);
            let flight = tx.nxt.since(tx.una);
            cx.out.emit(Signal::Lost(Lost {
                bytes: 0,
                flight,
                cause: Cause::Mark,
                new_episode: true,
                repeat: false,
            }));
        }
    }

    /// The window was reduced, whatever for.
    //= rfc3168#section-6.1.2
    pub fn reduced(&mut self, board: &Board) {
        if self.agreed {
            (self.tell, self.until) = (true, Some(board.tx.max));
        }
    }

    /// A SYN leaves. A second one asks no more: something on the way may not like the flags.
    //= rfc3168#section-6.1.1.1
    pub fn stamp_syn(&mut self, out: &mut Out<'_>, board: &Board) {
        let answers = board.rx.synced;
        let flags = match answers {
            true if self.agreed && !self.plain => Flags::ECE,
            false if self.asks && out.reason == Reason::First => SETUP,
            _ => {
                self.plain = true;
                return;
            }
        };
        self.asked |= !answers;
        out.head.flags = out.head.flags.with(flags);
    }

    /// Anything else leaves. Retransmissions, bare acknowledgements and probes are not to be marked
    /// (6.1.4 to 6.1.6).
    pub fn stamp(&mut self, out: &mut Out<'_>) {
        if out.head.flags.has(Flags::RST) {
            return;
        }
        if self.echo {
            out.head.flags = out.head.flags.with(Flags::ECE);
        }
        let first = out.kind == Kind::New && out.reason == Reason::First;
        if first && out.payload != Payload::None && !self.plain {
            out.head.ecn = Ecn::Ect0;
            if core::mem::take(&mut self.tell) {
                out.head.flags = out.head.flags.with(Flags::CWR);
            }
        }
    }
}
