//! `holes`: goes by what feedback reports missing (Behaviour 8.3, ATP thesis 3.1).
//!
//! Contributes sending and resending: what lies in a reported hole goes again, before anything new;
//! when the receiver has heard nothing for a while ("more"), what is beyond the last hole too.
//! There is no timer: feedback that stays away is the gate's business. Hears segments and `opened`;
//! emits `acked` and `lost`; writes `tx`.
//!
//! Of a segment that lies in a hole in part the whole goes again. What a feedback shows received is
//! not sent again, unless a later one has it in a hole: a receiver whose table of ranges is full
//! may forget.

use std::collections::VecDeque;
use wifu_engine::board::TxFacts;
use wifu_engine::component::Cx;
use wifu_engine::signal::{Acked, Lost};
use wifu_engine::{
    Admit, Board, Cause, Component, Descriptor, Facts, FieldUse, Kind, Out, ParamSpec, Payload,
    Reason, Role, Segment, Signal, Want, WordSpec,
};
use wifu_wire::{Class, Flags, Head, HeadField, Seq, Time, Word};

/// See the module.
pub static HOLES: Descriptor = Descriptor {
    name: "holes",
    role: Role::Reliable,
    doc: "Sends again what feedback reports missing, before anything new. No timer.",
    cites: &["ATP thesis 3.1", "Behaviour 8.3"],
    params: &[ParamSpec::flag(
        "rtx_guard",
        true,
        "What is reported missing goes again only if it left before something that arrived, or, \
         when nothing comes any more, a round trip ago (Behaviour D9).",
    )],
    words: &[
        WordSpec::new("more", 1).read(),
        WordSpec::new("feedback", 1).marking(Class::Feedback).read(),
    ],
    probes: &["resent", "queued", "guarded"],
    reads: Facts::CONN,
    wants: Facts::RTT,
    writes: Facts::TX,
    hears: &[("segment", &["acked", "lost"]), ("opened", &[])],
    offers: &[Kind::Resend, Kind::New],
    needs: &[("unit", &["octets"])],
    hooks: &["segment"],
    fields: &[
        FieldUse::of(HeadField::Seq),
        FieldUse::of(HeadField::Ack),
        FieldUse::of(HeadField::Ranges),
        FieldUse::of(HeadField::Ts),
        FieldUse::of(HeadField::TsEcho),
        FieldUse::of(HeadField::FIN),
    ],
    build: |p| {
        Ok(Box::new(Holes {
            more: p.word("more"),
            feedback: p.word("feedback"),
            guard: p.flag("rtx_guard"),
            table: VecDeque::new(),
            most: 0,
            first: NONE,
            queued: 0,
            counts: [0; 2],
        }))
    },
    ..Descriptor::EMPTY
};

/// No segment waits to go again.
const NONE: usize = usize::MAX;

/// Segments beyond those that a full buffer makes: shorter ones, and the end.
const SPARE: usize = 64;

/// A segment that was sent and is not acknowledged.
#[derive(Clone, Copy)]
struct Sending {
    start: Seq,
    len: u32,
    fin: bool,
    /// When it left last, by our clock on the wire.
    last: u32,
    queued: bool,
    /// The receiver has it.
    known: bool,
}

impl Sending {
    fn end(&self) -> Seq {
        self.start.plus(self.len + u32::from(self.fin))
    }
}

struct Holes {
    more: Word,
    feedback: Word,
    guard: bool,
    /// It grows by doubling to what is ever on its way at once.
    table: VecDeque<Sending>,
    /// So many segments are on their way at most.
    most: usize,
    /// Where in the table the first one is that waits to go again.
    first: usize,
    queued: u32,
    /// Sent again; kept back by the guard.
    counts: [u32; 2],
}

impl Holes {
    fn acknowledge(&mut self, ack: Seq, cx: &mut Cx<'_>) {
        let tx = &cx.board.tx;
        if !ack.after(tx.una) || ack.after(tx.max) {
            return;
        }
        let (limited_by, in_recovery) = (cx.board.app.limited, self.queued > 0);
        while let Some(s) = self.table.front().filter(|s| s.end().upto(ack)) {
            self.queued -= u32::from(s.queued);
            self.table.pop_front();
            self.first = match self.first {
                NONE => NONE,
                0 => 0,
                at => at - 1,
            };
        }
        // The receiver took part of a segment: its window ended there.
        if let Some(s) = self.table.front_mut().filter(|s| s.start.before(ack)) {
            let taken = ack.since(s.start);
            (s.start, s.len) = (ack, s.len.saturating_sub(taken));
        }
        self.seek();
        let bytes = cx.store.free(ack);
        let recovering = self.queued > 0;
        cx.write(|t: &mut TxFacts| (t.una, t.recovering) = (ack, recovering));
        cx.out.emit(Signal::Acked(Acked {
            bytes,
            upto: ack,
            in_recovery,
            limited_by,
        }));
    }

    /// Where the first queued one is, from where it may be.
    fn seek(&mut self) {
        if self.queued == 0 {
            self.first = NONE;
            return;
        }
        while self.table.get(self.first).is_some_and(|s| !s.queued) {
            self.first += 1;
        }
    }

    /// Queue what is missing; returns how many octets that newly are. Holes and segments are both
    /// in order.
    //= spec#8.3
    fn miss(&mut self, head: &Head, cx: &Cx<'_>) -> u32 {
        let (holes, more) = (head.ranges(), head.get(self.more) == 1);
        let told = holes.last().map(|h| h.1);
        let (now, srtt) = (cx.now.wire_micros(), cx.board.rtt.srtt.micros() as u32);
        let (mut lost, mut hole) = (0, 0);
        for (i, s) in self.table.iter_mut().enumerate() {
            while holes.get(hole).is_some_and(|h| h.1.upto(s.start)) {
                hole += 1;
            }
            let inside = holes.get(hole).is_some_and(|h| h.0.before(s.end()));
            s.known = !inside && (s.known || told.is_some_and(|t| s.end().upto(t)));
            if s.queued || s.known || !(inside || more) {
                continue;
            }
            // Sent before a packet that arrived; or a round trip ago, and nothing comes any more.
            let overtaken = (s.last.wrapping_sub(head.ts_echo) as i32) <= 0;
            let old = more && now.wrapping_sub(s.last) >= srtt;
            if self.guard && !overtaken && !old {
                self.counts[1] += 1;
                continue;
            }
            (s.queued, self.queued) = (true, self.queued + 1);
            self.first = self.first.min(i);
            lost += s.len;
        }
        lost
    }
}

impl Component for Holes {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let head = seg.head;
        if head.get(self.feedback) != 1 {
            return Admit::Pass;
        }
        if let Some(ack) = head.ack {
            self.acknowledge(ack, cx);
        }
        // "more" means nothing to who has nothing on its way.
        let flight = cx.board.tx.flight();
        let bytes = if flight > 0 { self.miss(head, cx) } else { 0 };
        if bytes > 0 {
            cx.write(|t: &mut TxFacts| {
                (t.recovering, t.lost) = (true, t.lost + u64::from(bytes));
            });
            let (cause, new_episode, repeat) = (Cause::Explicit, true, false);
            cx.out.emit(Signal::Lost(Lost {
                bytes,
                flight,
                cause,
                new_episode,
                repeat,
            }));
        }
        Admit::Pass
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        if *signal != Signal::Opened {
            return;
        }
        let first = cx.board.tx.iss.plus(1);
        let full = cx.board.site.snd_buf / cx.board.conn.mss.max(1);
        self.most = full as usize + SPARE;
        self.table.reserve(SPARE);
        cx.write(|t: &mut TxFacts| (t.una, t.nxt, t.max) = (first, first, first));
    }

    fn offer(&self, kind: Kind, board: &Board, _now: Time) -> Option<Want> {
        let (tx, app, mss) = (&board.tx, &board.app, board.conn.mss);
        if !board.conn.running {
            return None;
        }
        if kind == Kind::Resend {
            let s = self.table.get(self.first)?;
            let bytes = s.len + u32::from(s.fin);
            return Some(Want {
                kind,
                bytes,
                least: bytes,
            });
        }
        if self.table.len() >= self.most {
            return None;
        }
        let waiting = app.end.beyond(tx.nxt);
        let bytes = waiting.min(mss);
        let fin = waiting == 0 && app.fin && tx.nxt == app.end;
        (bytes > 0 || fin).then_some(Want {
            kind,
            bytes: if fin { 1 } else { bytes },
            least: bytes,
        })
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let last = cx.now.wire_micros();
        let s = if want.kind == Kind::Resend {
            let Some(s) = self.table.get_mut(self.first) else {
                return;
            };
            (s.queued, s.last) = (false, last);
            let s = *s;
            self.queued -= 1;
            self.seek();
            self.counts[0] += 1;
            out.reason = Reason::Sack;
            let recovering = self.queued > 0;
            cx.write(|t: &mut TxFacts| {
                (t.retransmits, t.recovering) = (t.retransmits + 1, recovering);
            });
            s
        } else {
            let (start, fin) = (cx.board.tx.nxt, cx.board.tx.nxt == cx.board.app.end);
            let len = if fin { 0 } else { want.bytes };
            let (queued, known) = (false, false);
            let s = Sending {
                start,
                len,
                fin,
                last,
                queued,
                known,
            };
            self.table.push_back(s);
            cx.write(|t: &mut TxFacts| (t.nxt, t.max) = (s.end(), s.end()));
            s
        };
        (out.head.seq, out.head.ts) = (s.start, Some(last));
        if s.fin {
            out.head.flags = Flags::FIN;
        }
        if s.len > 0 {
            out.payload = Payload::Stream {
                start: s.start,
                len: s.len,
            };
        }
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        let [resent, guarded] = self.counts.map(f64::from);
        probe("resent", resent);
        probe("queued", f64::from(self.queued));
        probe("guarded", guarded);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::Bench;
    use wifu_wire::Span;

    const MSS: u32 = 1_000;

    /// A sender whose segments 1 to `n` left at 1 ms, 2 ms, and so on.
    fn sent(n: u32, set: &[(&str, &str)]) -> Bench {
        let mut t = Bench::new(&HOLES, set).unwrap();
        (t.board.conn.mss, t.board.conn.running) = (MSS, true);
        (t.board.site.snd_buf, t.board.rtt.srtt) = (64 * MSS, Span::MILLI * 20);
        let _ = t.signal(Signal::Opened);
        t.board.app.end = t.board.tx.nxt.plus(n * MSS);
        for i in 1..=n {
            t.now = Time::ZERO + Span::MILLI * u64::from(i);
            let want = t.offer(Kind::New).expect("data wait");
            let _ = t.fill(&want, &mut Head::default());
        }
        t
    }

    fn at(n: u32) -> Seq {
        Seq(1 + (n - 1) * MSS)
    }

    /// Feedback at `ms`: the next segment expected, holes by their first and last segment, the one
    /// that came last, and whether there is more.
    fn feedback(t: &mut Bench, ms: u64, ack: u32, holes: &[(u32, u32)], came: u32, more: bool) {
        t.now = Time::ZERO + Span::MILLI * ms;
        let mut head = Head::default();
        (head.ack, head.ts_echo) = (Some(at(ack)), came * 1_000);
        head.set(Word(0), u32::from(more));
        head.set(Word(1), 1);
        for (first, last) in holes {
            head.push_range((at(*first), at(last + 1)));
        }
        let _ = t.segment(&head, &[]);
    }

    /// The segments that go again, in order.
    fn resent(t: &mut Bench) -> Vec<u32> {
        let mut all = Vec::new();
        while let Some(want) = t.offer(Kind::Resend) {
            let mut head = Head::default();
            let _ = t.fill(&want, &mut head);
            all.push(head.seq.since(Seq(1)) / MSS + 1);
        }
        all
    }

    #[test]
    fn what_lies_in_holes_goes_again_in_order_and_nothing_else() {
        let mut t = sent(12, &[]);
        feedback(&mut t, 40, 3, &[(3, 4), (7, 7)], 12, false);
        assert_eq!(t.board.tx.una, at(3));
        assert_eq!(resent(&mut t), [3, 4, 7]);
        assert_eq!((t.board.tx.retransmits, t.board.tx.lost), (3, 3_000));
    }

    #[test]
    fn what_was_sent_again_after_what_arrived_last_does_not_go_a_third_time() {
        let mut t = sent(12, &[]);
        feedback(&mut t, 40, 3, &[(3, 3)], 12, false);
        assert_eq!(resent(&mut t), [3]);
        feedback(&mut t, 45, 3, &[(3, 3)], 12, false);
        assert_eq!((resent(&mut t), t.probe("guarded")), (vec![], Some(1.0)));
        // A packet that left later came, and it did not.
        feedback(&mut t, 60, 3, &[(3, 3)], 50, false);
        assert_eq!(resent(&mut t), [3]);
        let mut literal = sent(12, &[("rtx_guard", "off")]);
        for ms in [40, 45] {
            feedback(&mut literal, ms, 3, &[(3, 3)], 12, false);
            assert_eq!(resent(&mut literal), [3]);
        }
    }

    //= spec#8.3
    // "if SACK_MORE: lost += every other sent segment >= f.ack not known received"
    #[test]
    fn when_nothing_comes_any_more_what_is_beyond_the_last_hole_goes_again() {
        let mut t = sent(12, &[]);
        // 10 came last; 5 and 11, 12 are lost.
        feedback(&mut t, 40, 5, &[(5, 5)], 10, true);
        assert_eq!(resent(&mut t), [5, 6, 7, 8, 9, 10, 11, 12]);
        // With a round trip of 50 ms those that left after it may be on their way.
        let mut t = sent(12, &[]);
        t.board.rtt.srtt = Span::MILLI * 50;
        feedback(&mut t, 40, 5, &[(5, 5), (8, 9)], 10, true);
        assert_eq!(
            (resent(&mut t), t.probe("guarded")),
            (vec![5, 8, 9, 10], Some(2.0))
        );
    }

    #[test]
    fn what_is_known_to_have_arrived_stays_so_until_a_hole_says_otherwise() {
        let mut t = sent(12, &[]);
        feedback(&mut t, 40, 2, &[(2, 2), (9, 9)], 12, false);
        assert_eq!(resent(&mut t), [2, 9]);
        feedback(&mut t, 70, 2, &[(2, 2)], 41, true);
        assert_eq!(resent(&mut t), [2, 9, 10, 11, 12], "3 to 8 are known");
        feedback(&mut t, 140, 4, &[(4, 5)], 80, false);
        assert_eq!(resent(&mut t), [4, 5], "the receiver forgot them");
    }

    #[test]
    fn a_segment_that_was_taken_in_part_goes_on_from_there() {
        let mut t = sent(3, &[]);
        let mut head = Head::default();
        (head.ack, head.ts_echo) = (Some(at(2).plus(300)), 3_000);
        head.set(Word(1), 1);
        head.push_range((at(2).plus(300), at(3)));
        let _ = t.segment(&head, &[]);
        let want = t.offer(Kind::Resend).unwrap();
        assert_eq!(want.bytes, 700);
        let mut head = Head::default();
        let (payload, ..) = t.fill(&want, &mut head);
        let (start, len) = (at(2).plus(300), 700);
        assert_eq!(payload, Payload::Stream { start, len });
    }

    #[test]
    fn no_more_segments_are_on_their_way_than_a_full_buffer_makes_and_some() {
        let mut t = sent(0, &[]);
        let mut n = 0;
        while n < 1_000 {
            t.board.app.end = t.board.tx.nxt.plus(1);
            let Some(want) = t.offer(Kind::New) else {
                break;
            };
            let _ = t.fill(&want, &mut Head::default());
            n += 1;
        }
        assert_eq!(n, 64 + SPARE);
    }

    #[test]
    fn the_end_is_a_segment_that_carries_nothing() {
        let mut t = sent(2, &[]);
        t.board.app.fin = true;
        let want = t.offer(Kind::New).unwrap();
        assert_eq!((want.bytes, want.least), (1, 0));
        let mut head = Head::default();
        let (payload, ..) = t.fill(&want, &mut head);
        assert_eq!((payload, head.seq), (Payload::None, at(3)));
        assert!(head.flags.has(Flags::FIN) && t.offer(Kind::New).is_none());
        head.reset();
        (head.ack, head.ts_echo) = (Some(at(3)), 2_000);
        head.set(Word(0), 1);
        head.set(Word(1), 1);
        t.now = Time::ZERO + Span::MILLI * 100;
        let _ = t.segment(&head, &[]);
        assert_eq!(t.offer(Kind::Resend).map(|w| w.bytes), Some(1));
    }
}
