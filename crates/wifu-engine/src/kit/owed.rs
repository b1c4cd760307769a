//! Owed acknowledgements: the narrow tier for ACK policies, and its lift to a component.

use super::ticks::on_tick;
use crate::board::Board;
use crate::component::{Component, Cx, Out};
use crate::params::Value;
use crate::permit::{Kind, Want};
use crate::signal::{Arrival, Arrived, Signal};
use wifu_wire::{Flags, Seq, Span, Time};

/// What an ACK policy decides: after how much, and how long it waits for that.
pub trait AckRule: Send {
    /// Whether what is withheld, this segment included, is acknowledged now.
    fn enough(&mut self, held: Held, arrived: &Arrived, board: &Board) -> bool;
    /// A segment did not arrive in order; it is acknowledged at once, unless the rule withholds it.
    fn disorder(&mut self, _order: Arrival) {}
    /// Whether a segment that did not arrive in order waits like the others, unless its sender may
    /// wait for the answer: a keep-alive, or a probe of a shut window.
    fn withholds_disorder(&self) -> bool {
        false
    }
    /// A segment arrived in order; `enough` is asked next.
    fn follows(&mut self, _board: &Board, _now: Time) {}
    /// How long an acknowledgement may be withheld, from the first segment on.
    fn patience(&self) -> Span;
    /// A parameter changes at run time; false if it can't.
    fn set(&mut self, _param: &str, _value: Value) -> bool {
        false
    }
    /// Report internal quantities by declared name.
    fn observe(&self, _probe: &mut dyn FnMut(&'static str, f64)) {}
}

/// What arrived in order since the last acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Since then; 0: nothing waits to be acknowledged.
    pub segments: u32,
    /// Their payload.
    pub octets: u32,
}

/// One acknowledgement that somebody waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    /// What it acknowledges; the newest that there is if nothing in particular.
    upto: Option<Seq>,
    /// How often: duplicates count at the sender.
    times: u32,
    urgent: bool,
    /// What it acknowledges was marked.
    ce: bool,
    /// How many owed acknowledgements it stands for.
    covers: u32,
}

/// The acknowledgements owed, in the order in which they fell due. One batch of arrivals may owe
/// several; each says what it would have said had it left at once, so that a batch neither hides
/// duplicates from the sender nor invents any.
#[derive(Clone, Debug)]
pub struct Owed {
    marks: [Mark; Owed::PLACES],
    head: usize,
    len: usize,
    urgent: usize,
    stretch: u32,
}

impl Owed {
    /// How many different acknowledgements are kept; beyond that the newest covers for others.
    pub const PLACES: usize = 64;

    /// Nothing owed. One acknowledgement will stand for up to `stretch` that a batch owes for
    /// segments in order; with 1 each leaves.
    pub fn new(stretch: u32) -> Owed {
        Owed {
            marks: [Mark::default(); Owed::PLACES],
            head: 0,
            len: 0,
            urgent: 0,
            stretch,
        }
    }

    /// Owe one more, for what was marked or not.
    pub fn push(&mut self, upto: Option<Seq>, urgent: bool, ce: bool) {
        let (full, stretch) = (self.len == Owed::PLACES, self.stretch);
        if self.len > 0 {
            let last = &mut self.marks[(self.head + self.len - 1) % Owed::PLACES];
            let same = last.urgent == urgent && last.ce == ce;
            if same && last.upto == upto {
                last.times += u32::from(urgent);
                return;
            }
            if full || same && !urgent && last.covers < stretch {
                (last.upto, last.ce) = (upto, ce);
                last.covers += 1;
                self.urgent += usize::from(urgent && !last.urgent);
                last.urgent |= urgent;
                return;
            }
        }
        self.marks[(self.head + self.len) % Owed::PLACES] = Mark {
            upto,
            times: 1,
            urgent,
            ce,
            covers: 1,
        };
        self.len += 1;
        self.urgent += usize::from(urgent);
    }

    /// The oldest leaves; returns what it acknowledges, and whether that was marked.
    pub fn pop(&mut self) -> (Option<Seq>, bool) {
        if self.len == 0 {
            return (None, false);
        }
        let mark = &mut self.marks[self.head];
        let (upto, ce) = (mark.upto, mark.ce);
        mark.times -= 1;
        if mark.times == 0 {
            self.urgent -= usize::from(mark.urgent);
            self.head = (self.head + 1) % Owed::PLACES;
            self.len -= 1;
        }
        (upto, ce)
    }

    /// Something else acknowledged: what is not urgent is settled.
    pub fn settle(&mut self) {
        if self.urgent == 0 {
            self.len = 0;
        }
    }

    /// Forget all.
    pub fn clear(&mut self) {
        (self.len, self.urgent) = (0, 0);
    }

    /// Whether any is owed.
    pub fn any(&self) -> bool {
        self.len > 0
    }

    /// Whether one is owed that must leave before data.
    pub fn urgent(&self) -> bool {
        self.urgent > 0
    }
}

/// Lifts an ACK rule to a component: at once on disorder, FIN and `AckNow`, else when the rule has
/// `enough`, or after `patience`. Offers `Urgent` while disorder is owed, else `Ack`.
pub struct Acking<R> {
    rule: R,
    owed: Owed,
    held: Held,
    /// Acknowledgements say whether what they are about was marked.
    exact: bool,
    /// DCTCP.CE: what came last was marked.
    ce: bool,
    /// What the acknowledgement that is leaving says; `Some` from `fill` until it was sent.
    leaving: Option<(Option<Seq>, bool)>,
    /// It said less than could have been said.
    partly: bool,
}

const FLUSH: u8 = 0;

/// Whether a segment brought nothing so that its sender may be asking for an answer: all of it came
/// before, as of a keep-alive, or the window is shut.
//= rfc9293#section-3.8.4
fn asks(a: &Arrived, board: &Board) -> bool {
    let before = a.seq.plus(a.bytes).upto(board.rx.nxt);
    a.order == Arrival::Duplicate && (before || board.rx.window == 0)
}

impl<R: AckRule> Acking<R> {
    /// See [`Owed::new`] for `stretch`.
    pub fn new(rule: R, stretch: u32) -> Acking<R> {
        Acking {
            rule,
            owed: Owed::new(stretch),
            held: Held::default(),
            exact: false,
            ce: false,
            leaving: None,
            partly: false,
        }
    }

    /// The same; `exact`: each acknowledgement says whether what it acknowledges was marked, and
    /// none is about both (RFC 8257 section 3.2).
    pub fn exact(self, exact: bool) -> Acking<R> {
        Acking { exact, ..self }
    }

    fn due(&mut self, upto: Option<Seq>, urgent: bool, cx: &mut Cx<'_>) {
        self.owed.push(upto, urgent, self.ce);
        self.held = Held::default();
        cx.out.disarm(FLUSH);
    }

    /// A segment is marked and those before it were not, or the other way round: what is
    /// withheld is acknowledged by itself, and then the segment. Marks that nobody agreed upon say
    /// nothing.
    //= rfc8257#section-3.2
    fn turns(&mut self, a: &Arrived, cx: &mut Cx<'_>) -> bool {
        let fresh = a.bytes > 0 && a.order != Arrival::Duplicate;
        let ce = a.ce && cx.board.conn.ecn;
        if !fresh || ce == self.ce {
            return false;
        }
        if self.held.segments > 0 {
            let before = a.seq.earlier(cx.board.rx.nxt);
            self.due(Some(before), true, cx);
        }
        self.ce = ce;
        true
    }

    fn arrived(&mut self, a: &Arrived, cx: &mut Cx<'_>) {
        let turned = self.exact && self.turns(a, cx);
        let upto = Some(cx.board.rx.nxt);
        let disorder = a.order != Arrival::InOrder;
        if disorder {
            self.rule.disorder(a.order);
            if !self.rule.withholds_disorder() || asks(a, &cx.board) {
                return self.due(upto, true, cx); // each counts at the sender
            }
        }
        self.rule.follows(&cx.board, cx.now);
        self.held.segments += 1;
        self.held.octets = self.held.octets.saturating_add(a.bytes);
        if self.rule.enough(self.held, a, &cx.board) || a.fin || turned {
            self.due(upto, disorder, cx);
        } else if !cx.out.armed(FLUSH) {
            let patience = self.rule.patience();
            cx.out
                .arm(FLUSH, on_tick(cx.now, patience, cx.board.rtt.tick));
        }
    }

    fn sent(&mut self, cx: &mut Cx<'_>) {
        let own = self.leaving.take().is_some();
        if own && (self.partly || self.owed.any()) {
            return;
        }
        self.owed.settle();
        self.held = Held::default();
        cx.out.disarm(FLUSH);
    }
}

impl<R: AckRule> Component for Acking<R> {
    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        match signal {
            Signal::Arrived(a) => self.arrived(a, cx),
            Signal::AckNow if self.held.segments == 0 && self.owed.any() => {}
            Signal::AckNow => self.due(None, false, cx),
            Signal::Sent(s) if s.acks => self.sent(cx),
            Signal::Ended(Some(_)) => self.owed.clear(),
            _ => {}
        }
    }

    fn on_timer(&mut self, _timer: u8, cx: &mut Cx<'_>) {
        if self.held.segments > 0 {
            let upto = Some(cx.board.rx.nxt);
            self.due(upto, false, cx);
        }
    }

    fn offer(&self, kind: Kind, _board: &Board, _now: Time) -> Option<Want> {
        let owed = match kind {
            Kind::Urgent => self.owed.urgent(),
            _ => self.owed.any(),
        };
        owed.then_some(Want::bare(kind))
    }

    fn fill(&mut self, _want: &Want, _out: &mut Out<'_>, _cx: &mut Cx<'_>) {
        self.leaving = Some(self.owed.pop());
    }

    /// The receiver wrote the newest acknowledgement number; an older one that is owed goes first,
    /// with the window reaching to the same right edge.
    fn stamp(&mut self, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let (upto, ce) = self.leaving.unwrap_or((None, self.ce));
        let flags = out.head.flags;
        let bare = flags.has(Flags::SYN) || flags.has(Flags::RST) || out.head.ack.is_none();
        if self.exact && ce && !bare {
            out.head.flags = flags.with(Flags::ECE);
        }
        let behind = match (upto, out.head.ack) {
            (Some(upto), Some(newest)) if upto.before(newest) => newest.since(upto),
            _ => 0,
        };
        self.partly = behind > 0;
        if self.partly {
            let (head, window) = (&mut *out.head, cx.board.rx.window);
            let field = |window: u32| (window >> cx.board.conn.rcv_shift).min(65_535);
            // A receiver that shows another window than that of the board keeps its own.
            if head.window == field(window) {
                head.window = field(window.saturating_add(behind));
            }
            head.ack = upto;
        }
    }

    fn set(&mut self, param: &str, value: Value) -> bool {
        self.rule.set(param, value)
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        self.rule.observe(probe);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(o: &mut Owed) -> Vec<u32> {
        let mut all = Vec::new();
        while o.any() {
            all.push(o.pop().0.map_or(0, |s| s.0));
        }
        all
    }

    #[test]
    fn a_batch_owes_what_its_segments_owed_one_by_one() {
        let mut o = Owed::new(1);
        o.push(Some(Seq(10)), false, false);
        o.push(Some(Seq(20)), false, false);
        assert!(!o.urgent());
        o.push(Some(Seq(20)), true, false);
        o.push(Some(Seq(20)), true, false);
        assert!(o.urgent());
        o.push(Some(Seq(60)), true, false);
        assert_eq!(drain(&mut o), [10, 20, 20, 20, 60]);
        assert!(!o.urgent());
    }

    #[test]
    fn stretched_acknowledgements_cover_so_many_but_keep_duplicates() {
        let mut o = Owed::new(3);
        for upto in [10, 20, 30, 40] {
            o.push(Some(Seq(upto)), false, false);
        }
        o.push(Some(Seq(40)), true, false);
        o.push(Some(Seq(40)), true, false);
        assert_eq!(
            drain(&mut o),
            [30, 40, 40, 40],
            "three as one, and each that counts"
        );
    }

    #[test]
    fn data_settles_what_is_not_urgent() {
        let mut o = Owed::new(1);
        o.push(Some(Seq(10)), false, false);
        o.settle();
        assert!(!o.any());
        o.push(Some(Seq(10)), true, false);
        o.settle();
        assert!(o.any());
    }

    #[test]
    fn what_was_marked_and_what_was_not_is_acknowledged_apart() {
        let mut o = Owed::new(8);
        for (upto, ce) in [
            (10, false),
            (20, false),
            (30, true),
            (40, true),
            (50, false),
        ] {
            o.push(Some(Seq(upto)), false, ce);
        }
        let left: Vec<_> = (0..3).map(|_| o.pop()).collect();
        let said = [(20, false), (40, true), (50, false)].map(|(n, ce)| (Some(Seq(n)), ce));
        assert_eq!((left, o.any()), (said.to_vec(), false));
    }

    #[test]
    fn places_are_bounded_and_the_newest_covers() {
        let mut o = Owed::new(1);
        for upto in 1..=1000 {
            o.push(Some(Seq(upto)), false, false);
        }
        let all = drain(&mut o);
        assert_eq!((all.len(), all[63]), (Owed::PLACES, 1000));
        for upto in 1..=64 {
            o.push(Some(Seq(upto)), false, false);
        }
        o.push(Some(Seq(64)), true, false);
        assert!(o.urgent());
        drain(&mut o);
        assert!(!o.urgent());
    }
}
