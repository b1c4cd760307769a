//! RACK-TLP (RFC 8985) for a reliability part: losses by the log of times ([`Rack`]), and tail loss
//! probes: when acknowledgements stay out, one more segment asks for them, before the
//! retransmission timer takes everything for lost.

use super::rack::{REORDER, Rack};
use super::ranges::reported;
use super::sender::{RTO, Sender};
use super::ticks::{LEAST, on_tick};
use crate::board::{Board, TxFacts};
use crate::component::{Cx, Out, Payload, Segment};
use crate::permit::{Kind, Reason, Want};
use crate::signal::{Cause, Lost, Signal};
use wifu_wire::{Flags, Seq, Span, Time};

/// Number of the probe's timer among those of a reliability part.
pub const TAIL: u8 = 3;

/// Used while no round trip was timed (RFC 8985 7.2).
const UNKNOWN: Span = Span::SECOND;

/// How long the peer may withhold the acknowledgement of a single segment (TLP.max_ack_delay).
const ACK_DELAY: Span = Span(200_000_000);

/// What became of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tail {
    /// It is under way, or there was none.
    Open,
    /// Nothing had been lost.
    Well,
    /// It repaired a loss that nothing else tells of.
    Repaired,
}

/// A segment that asks whether the last ones were lost (RFC 8985 7).
#[derive(Clone, Copy, Debug, Default)]
pub struct Probe {
    /// One is to be sent.
    due: bool,
    /// The end of what was sent when it left, and whether it went again.
    sent: Option<(Seq, bool)>,
    count: u32,
}

impl Probe {
    //= rfc8985#section-7.2
    /// Data left, or an acknowledgement came outside a recovery: the time begins anew; `quiet`:
    /// nothing is reported, and no recovery under way. `rto`: when the retransmission timer is due.
    pub fn schedule(&mut self, quiet: bool, rto: Time, cx: &mut Cx<'_>) {
        cx.out.disarm(TAIL);
        let (tx, rtt) = (&cx.board.tx, &cx.board.rtt);
        if !quiet || self.sent.is_some() || tx.una == tx.max || cx.board.peer.persist {
            self.due = false;
            return;
        }
        let mut wait = if rtt.samples == 0 {
            UNKNOWN
        } else {
            rtt.srtt * 2
        };
        if tx.flight() <= cx.board.conn.mss {
            wait = wait + ACK_DELAY;
        } else if rtt.tick > Span::ZERO {
            wait = wait + LEAST;
        }
        // Before the retransmission timer, if at all.
        let due = on_tick(cx.now, wait, rtt.tick);
        let wait = (due - cx.now).min(rto - cx.now - Span::MICRO);
        if rto != Time::NEVER && wait > Span::ZERO {
            cx.out.arm_after(TAIL, wait);
        }
    }

    /// The time is over: one is to be sent.
    pub fn expire(&mut self) {
        self.due = true;
    }

    /// Whether one is to be sent.
    pub fn due(&self) -> bool {
        self.due
    }

    /// It left; `again`: nothing new was there to send.
    pub fn left(&mut self, again: bool, board: &Board) {
        (self.due, self.sent) = (false, Some((board.tx.max, again)));
        self.count += 1;
    }

    /// A recovery began: whatever is lost, others tell of it.
    pub fn stop(&mut self) {
        (self.due, self.sent) = (false, None);
    }

    /// How many left so far.
    pub fn count(&self) -> u32 {
        self.count
    }

    //= rfc8985#section-7.4.2
    /// An acknowledgement of everything up to `ack` came; `twice`: with a report that something
    /// came twice; `plain`: it repeats an earlier one and reports nothing.
    pub fn answered(&mut self, ack: Seq, twice: bool, plain: bool) -> Tail {
        let Some((end, again)) = self.sent.filter(|(end, _)| ack.from(*end)) else {
            return Tail::Open;
        };
        let result = match again {
            false => Tail::Well,
            true if twice || plain && ack == end => Tail::Well,
            true if ack.after(end) => Tail::Repaired,
            true => return Tail::Open,
        };
        self.sent = None;
        result
    }
}

/// Log and probe of one sender.
#[derive(Clone, Debug)]
pub struct Timed {
    /// What was sent when, and what is lost by that.
    pub rack: Rack,
    /// Whether one is due or under way.
    pub probe: Probe,
}

impl Timed {
    /// Nothing was sent; `linux`: see [`Rack::as_linux`].
    pub fn new(linux: bool) -> Timed {
        Timed {
            rack: if linux { Rack::as_linux() } else { Rack::new() },
            probe: Probe::default(),
        }
    }

    /// A segment leaves.
    pub fn sent(&mut self, out: &Out<'_>, now: Time) {
        let text = match out.payload {
            Payload::Stream { len, .. } => len,
            _ => 0,
        };
        let end = out
            .head
            .seq
            .plus(text + u32::from(out.head.flags.has(Flags::FIN)));
        self.rack.sent(out.head.seq, end, now);
    }

    /// An acknowledgement came, and `una` has moved if it `advances`; `twice`: it reports something
    /// that came twice. `busy`: see [`Rack::window`]. Returns how many octets are lost by it.
    pub fn on_segment(
        &mut self,
        seg: &Segment<'_>,
        (advances, twice, busy): (bool, bool, bool),
        cx: &mut Cx<'_>,
    ) -> u32 {
        let (una, max) = (cx.board.tx.una, cx.board.tx.max);
        let flight = max.since(una);
        let sane = reported(seg.head, una, max);
        let echo = Some(seg.head.ts_echo).filter(|e| *e != 0);
        if twice {
            self.rack.doubled(seg.head.ranges()[0]);
        }
        self.rack.arrived(una, sane, echo, &cx.board, cx.now);
        if twice {
            self.rack.repeated(una, max);
        }
        let lost = self.detect(busy, cx);
        let plain = !advances && seg.payload.is_empty() && seg.head.ranges().is_empty();
        if self.probe.answered(una, twice, plain) == Tail::Repaired {
            cx.out.emit(Signal::Lost(Lost {
                bytes: cx.board.conn.mss,
                flight,
                cause: Cause::DupAcks,
                new_episode: true,
                repeat: false,
            }));
            cx.out.emit(Signal::Recovered { flight });
        }
        lost
    }

    /// Look for what is lost, now and when the next piece may be. Returns how many octets are lost
    /// that were not before.
    pub fn detect(&mut self, busy: bool, cx: &mut Cx<'_>) -> u32 {
        let window = self.rack.window(busy, &cx.board);
        let before = self.rack.total();
        let (lost, next) = self.rack.detect(window, cx.now);
        if lost > 0 {
            self.count(before, cx);
        }
        let tick = cx.board.rtt.tick;
        match next {
            Some(at) if tick > Span::ZERO => {
                let due = on_tick(cx.now, at - cx.now + LEAST, tick);
                cx.out.arm(REORDER, due);
            }
            Some(at) => cx.out.arm(REORDER, at),
            None => cx.out.disarm(REORDER),
        }
        lost
    }

    /// The retransmission timer fired.
    pub fn on_timeout(&mut self, cx: &mut Cx<'_>) {
        self.probe.stop();
        cx.out.disarm(TAIL);
        let window = self.rack.window(true, &cx.board);
        let before = self.rack.total();
        self.rack.timeout(window, cx.now);
        self.count(before, cx);
    }

    /// The peer takes its reports back: see [`Rack::renege`].
    pub fn renege(&mut self, cx: &mut Cx<'_>) {
        let before = self.rack.total();
        self.rack.renege();
        self.count(before, cx);
    }

    /// What is taken for lost since `before` is told.
    fn count(&self, before: u64, cx: &mut Cx<'_>) {
        let more = self.rack.total() - before;
        cx.write(|t: &mut TxFacts| t.lost += more);
    }

    /// See [`Probe::schedule`].
    pub fn schedule(&mut self, calm: bool, cx: &mut Cx<'_>) {
        let rto = cx.out.due(RTO);
        self.probe.schedule(calm, rto, cx);
    }

    //= rfc8985#section-7.3
    /// What a probe carries: new data if the peer's window has room, else what was sent last. Where
    /// it begins, its octets, and whether it goes again.
    fn tail(&self, sender: &Sender, board: &Board) -> Option<(Seq, u32, bool)> {
        let (tx, mss) = (&board.tx, board.conn.mss);
        let edge = tx.una.plus(board.peer.window);
        let new = sender.offer_new(board);
        if let Some(w) = new.filter(|w| tx.nxt.plus(w.bytes).upto(edge)) {
            return Some((tx.nxt, w.bytes, false));
        }
        let (start, octets) = self.rack.last()?;
        let last = octets.min(mss);
        Some((start.plus(octets - last), last, true))
    }

    /// The probe, if it is due.
    pub fn offer(&self, sender: &Sender, board: &Board) -> Option<Want> {
        let (_, bytes, _) = self.tail(sender, board).filter(|_| self.probe.due)?;
        Some(Want {
            kind: Kind::Rescue,
            bytes,
            least: 1,
        })
    }

    /// Fill it. The retransmission timer begins anew.
    pub fn fill(&mut self, sender: &mut Sender, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let Some((seq, bytes, again)) = self.tail(sender, &cx.board) else {
            return;
        };
        out.reason = if again { Reason::Probe } else { Reason::First };
        let end = sender.put(seq, bytes, out, &cx.board);
        cx.write(|t: &mut TxFacts| {
            t.retransmits += u32::from(again);
            (t.nxt, t.max) = (t.nxt.later(end), t.max.later(end));
        });
        self.probe.left(again, &cx.board);
        sender.arm(cx);
    }
}
