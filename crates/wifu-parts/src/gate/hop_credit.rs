//! `hop-credit`: a node sends on as many packets as it overheard credits for (HxH thesis 2.1, 3.2;
//! Behaviour 10.5).
//!
//! Hears what the next hop sends on, which says how many packets that takes; gates new data of its
//! lane; publishes the time to the next hop and back (`rtt`). Credits are absolute: each one heard
//! replaces those that are left, less the packets that the next hop cannot have counted yet
//! (`adjusted`), or as it is (`simple`: MAC and driver told ns-2's when a frame went on the air).
//! Before the last hop there are as many as anybody likes. Who hears nothing for five round trips
//! sends one packet all the same.
//!
//! Two changes that the thesis proposes (6.1.1) are parameters: a wait that gets shorter, and a
//! question for credits. What was sent before the question arrived before it or is lost, the way
//! to the next hop being a queue: its answer counts less what left since.

use std::collections::VecDeque;
use wifu_engine::board::RttFacts;
use wifu_engine::component::Cx;
use wifu_engine::kit::Ewma;
use wifu_engine::kit::hop::{CREDITS, TYPE, is_next};
use wifu_engine::{
    Admit, Board, Component, Descriptor, Fact, Facts, Kind, Limit, Out, ParamSpec, Params, Permit,
    Role, Segment, Signal, Want,
};
use wifu_wire::{Neighbour, Seq, Span, Time, Word, hxh};

/// See the module.
pub static HOP_CREDIT: Descriptor = Descriptor {
    name: "hop-credit",
    role: Role::Gate,
    doc: "Sends a packet per credit overheard from the next hop; of a lane.",
    cites: &["HxH thesis 2.1", "HxH thesis 3.2", "Behaviour 10.5"],
    params: &[
        ParamSpec::text(
            "credits",
            "adjusted",
            &["adjusted", "simple"],
            "What a credit heard is worth: less what was sent since the packet that bears it (HxH \
             thesis Fig. 3.3), or as it is (Fig. 3.2).",
        ),
        ParamSpec::int(
            "credit_wait",
            5,
            1,
            100,
            "Round trips to the next hop, at most 2 s, for which credits are waited for before a \
             packet goes without.",
        ),
        ParamSpec::text(
            "credit_timer",
            "fixed",
            &["fixed", "shrink"],
            "Whether each further wait in a row is half as long, not below one round trip (HxH \
             thesis 6.1.1).",
        ),
        ParamSpec::flag(
            "credit_request",
            false,
            "Ask the next hop for credits when there are none (HxH thesis 6.1.1).",
        ),
    ],
    words: &[TYPE, CREDITS],
    probes: &[
        "credits", "waiting", "heard", "forced", "asked", "undone", "rerouted",
    ],
    writes: Facts::RTT,
    requires: &[Fact::NextHop, Fact::Transmitter],
    hears: &[
        ("segment", &[]),
        ("overheard", &[]),
        ("wrote", &[]),
        ("sent", &[]),
        ("returned", &[]),
        ("route", &[]),
        ("timer", &[]),
    ],
    offers: &[Kind::Probe],
    needs: &[("store", &["packets"])],
    hooks: &["segment", "overheard", "permit"],
    build: |p| Ok(Box::new(HopCredit::new(p))),
    ..Descriptor::EMPTY
};

/// Before the first was measured.
const FIRST: Span = Span(50_000_000);
const SHORTEST: Span = Span(1_000_000);
const LONGEST: Span = Span(2_000_000_000);

struct HopCredit {
    kind: Word,
    credits: Word,
    adjusted: bool,
    wait: u64,
    shrinks: bool,
    asks: bool,
    /// `None` before the first packet.
    left: Option<u32>,
    /// Of whom they are.
    next: Option<Neighbour>,
    /// Places of the queue: those of the next hop's are taken to be as many.
    places: u32,
    /// Handed down and not heard of since, oldest first, at most twice as many as places.
    sent: VecDeque<(Seq, Time)>,
    rtt: Ewma,
    /// A packet may go without a credit.
    force: bool,
    /// A question is due; when one was asked that neither an answer nor the wait has ended, and
    /// the last packet that had been handed down before the first one without an answer.
    ask: bool,
    asked: Option<Time>,
    before: Option<Seq>,
    /// Waits in a row that nothing ended.
    streak: u32,
    /// Packets that came back and wait as those of the queue do, perhaps outside of it.
    back: u32,
    /// Heard, forced, asked, undone, rerouted.
    counts: [u32; 5],
}

impl HopCredit {
    fn new(p: &Params<'_>) -> HopCredit {
        HopCredit {
            kind: p.word("type"),
            credits: p.word("credits"),
            adjusted: p.text("credits") == "adjusted",
            wait: p.int("credit_wait"),
            shrinks: p.text("credit_timer") == "shrink",
            asks: p.flag("credit_request"),
            left: None,
            next: None,
            places: 0,
            sent: VecDeque::new(),
            rtt: Ewma::new(0.875),
            force: false,
            ask: false,
            asked: None,
            before: None,
            streak: 0,
            back: 0,
            counts: [0; 5],
        }
    }

    fn round_trip(&self) -> Span {
        let measured = self.rtt.value().map(Span::from_secs_f64);
        measured.unwrap_or(FIRST).clamp(SHORTEST, LONGEST)
    }

    //= spec#10.5
    // "period min(5*hopRTT, 2 s) (no back-off)"
    fn patience(&self) -> Span {
        let rtt = self.round_trip();
        let whole = (rtt * self.wait).min(LONGEST);
        let halvings = if self.shrinks { self.streak.min(20) } else { 0 };
        Span(whole.0 >> halvings).max(rtt.min(whole))
    }

    /// The timer runs while packets wait and there is no credit.
    fn review(&mut self, cx: &mut Cx<'_>) {
        let waits = cx.board.app.queued > 0 || self.back > 0;
        let dry = self.left == Some(0) && waits && !cx.board.site.last_hop;
        if !dry {
            cx.out.disarm(0);
            self.ask = false;
        } else if !cx.out.armed(0) && !self.force {
            cx.out.arm_after(0, self.patience());
            let waited = |at| cx.now >= at + self.patience();
            self.ask = self.asks && self.asked.is_none_or(waited);
        }
    }

    /// So many credits there are, whatever there were.
    fn refill(&mut self, left: u32, cx: &mut Cx<'_>) {
        self.left = Some(left);
        (self.streak, self.force) = (0, false);
        cx.out.disarm(0);
        self.review(cx);
    }

    fn sample(&mut self, rtt: Span, cx: &mut Cx<'_>) {
        self.rtt.add(rtt.as_secs_f64());
        let smooth = self.round_trip();
        cx.write(|r: &mut RttFacts| {
            r.min = if r.samples == 0 { rtt } else { r.min.min(rtt) };
            (r.last, r.srtt, r.samples) = (rtt, smooth, r.samples + 1);
        });
    }

    /// What the next hop says it takes, less what is on its way there.
    fn fresh(&self, says: u32) -> u32 {
        let under_way = if self.adjusted { self.sent.len() } else { 0 };
        says.saturating_sub(under_way as u32)
    }

    /// The next hop never got this one: as if it had not been sent.
    fn undo(&mut self, number: Seq) {
        if let Some(at) = self.sent.iter().rposition(|x| x.0 == number) {
            self.sent.remove(at);
            if self.before == Some(number) {
                self.before = at.checked_sub(1).map(|i| self.sent[i].0);
            }
            self.left = self.left.map(|n| n + 1);
            self.counts[3] += 1;
        }
    }

    fn went(&mut self, number: Seq, cx: &mut Cx<'_>) {
        self.open(cx);
        self.force = false;
        self.back = self.back.saturating_sub(1);
        if cx.board.site.last_hop {
            return;
        }
        self.left = self.left.map(|n| n.saturating_sub(1));
        //= spec#10.5
        // "L longer than 2B: drop oldest."
        if self.sent.len() >= 2 * self.places as usize {
            self.sent.pop_front();
        }
        self.sent.push_back((number, cx.now));
    }

    /// The first packet opens the lane.
    fn open(&mut self, cx: &mut Cx<'_>) {
        if self.left.is_none() {
            self.places = cx.board.app.queued + cx.board.app.room;
            self.sent.reserve(2 * self.places as usize + 1);
            self.left = Some(self.places / 2);
            self.next = cx.board.site.next_hop;
        }
    }
}

impl Component for HopCredit {
    /// The answer to a question.
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let from = seg.frame.transmitter;
        let next = seg.frame.along && from.is_some() && from == cx.board.site.next_hop;
        if next && seg.head.get(self.kind) == hxh::CREDITS && self.left.is_some() {
            // A driver sends in order: what was handed down before the question is there, or lost.
            let before = self.before.take();
            let at = self.sent.iter().position(|x| Some(x.0) == before);
            self.sent.drain(..at.map_or(0, |i| i + 1));
            let says = seg.head.get(self.credits);
            // Whoever has none to give is asked again when the wait is over.
            self.asked = self.asked.filter(|_| says == 0);
            self.refill(self.fresh(says), cx);
        }
        Admit::Pass
    }

    //= spec#10.5
    fn on_overheard(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        if !is_next(seg, self.kind, cx) {
            return;
        }
        self.open(cx);
        self.counts[0] += 1;
        let found = self.sent.iter().position(|x| x.0 == seg.head.seq);
        if let Some(i) = found {
            let rtt = cx.now - self.sent[i].1;
            self.sample(rtt, cx);
            self.sent.drain(..=i);
        }
        let says = seg.head.get(self.credits);
        let left = if self.adjusted {
            let fresh = self.fresh(says);
            // What is heard of is older than all that is known: at most so many.
            let sure = found.is_some() || self.sent.is_empty();
            let most = if sure {
                u32::MAX
            } else {
                self.left.unwrap_or(0)
            };
            fresh.min(most)
        } else {
            says
        };
        self.refill(left, cx);
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        match signal {
            Signal::Wrote => self.open(cx),
            Signal::Sent(s) if s.kind == Kind::New => self.went(s.seq, cx),
            Signal::Sent(_) => return,
            Signal::Returned(number) => {
                self.back += 1;
                self.undo(*number);
            }
            // Another next hop: it has promised nothing yet.
            //= spec#10.8
            Signal::Route if cx.board.site.next_hop != self.next => {
                self.next = cx.board.site.next_hop;
                self.sent.clear();
                (self.asked, self.before) = (None, None);
                self.counts[4] += 1;
                self.refill(self.places / 2, cx);
            }
            _ => return,
        }
        self.review(cx);
    }

    //= spec#10.5
    // "on expiry: transmit one packet regardless (C stays 0), remove the oldest entry of L (assumed
    // lost or unheard), re-arm"
    fn on_timer(&mut self, _timer: u8, _cx: &mut Cx<'_>) {
        self.force = true;
        (self.streak, self.asked) = (self.streak + 1, None);
        self.counts[1] += 1;
        self.sent.pop_front();
    }

    fn offer(&self, _kind: Kind, _board: &Board, _now: Time) -> Option<Want> {
        self.ask.then_some(Want::bare(Kind::Probe))
    }

    fn fill(&mut self, _want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        (self.ask, self.asked) = (false, Some(cx.now));
        // An answer does not say to which question: if one stays away, the next counts as the
        // first one's.
        self.before = self.before.or(self.sent.back().map(|x| x.0));
        self.counts[2] += 1;
        out.head.set(self.kind, hxh::CREDIT_REQUEST);
    }

    fn permit(&self, want: &Want, board: &Board, _now: Time) -> Permit {
        let open = self.force || self.left != Some(0) || board.site.last_hop;
        if open || want.kind != Kind::New {
            Permit::OPEN
        } else {
            Permit::shut(Limit::Peer)
        }
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("credits", f64::from(self.left.unwrap_or(0)));
        probe("waiting", self.sent.len() as f64);
        let names = ["heard", "forced", "asked", "undone", "rerouted"];
        for (name, n) in names.into_iter().zip(self.counts) {
            probe(name, f64::from(n));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::signal::Sent;
    use wifu_engine::{Bench, Reason};
    use wifu_wire::{FrameFacts, Head};

    const KIND: Word = Word(0);
    const CREDITS: Word = Word(1);

    fn neighbour() -> Neighbour {
        Neighbour::new(1, [2, 0, 0, 0, 0, 2]).unwrap()
    }

    fn lane(places: u32, set: &[(&str, &str)]) -> Bench {
        let mut t = Bench::new(&HOP_CREDIT, set).unwrap();
        t.now = Time(1_000_000_000);
        t.board.site.next_hop = Some(neighbour());
        (t.board.app.queued, t.board.app.room) = (1, places - 1);
        let _ = t.signal(Signal::Wrote);
        t
    }

    /// The lane hands a packet down, as far as its credits go.
    fn send(t: &mut Bench, number: u32) -> bool {
        let want = Want {
            kind: Kind::New,
            bytes: 1,
            least: 1,
        };
        if t.permit(&want).refuses(&want, t.now).is_some() {
            return false;
        }
        let _ = t.signal(Signal::Sent(Sent {
            kind: Kind::New,
            reason: Reason::First,
            acks: false,
            seq: Seq(number),
            bytes: 1,
            late: Span::ZERO,
        }));
        true
    }

    fn hear(t: &mut Bench, number: u32, credits: u32) {
        let mut head = Head::default();
        head.seq = Seq(number);
        head.set(KIND, hxh::DATA);
        head.set(CREDITS, credits);
        let frame = FrameFacts {
            transmitter: Some(neighbour()),
            along: true,
            ..FrameFacts::NONE
        };
        let _ = t.overheard(&head, &frame);
    }

    fn credits(t: &Bench) -> u32 {
        t.probe("credits").unwrap() as u32
    }

    fn ask(t: &mut Bench) -> bool {
        let Some(want) = t.offer(Kind::Probe) else {
            return false;
        };
        let _ = t.fill(&want, &mut Head::default());
        true
    }

    fn answer(t: &mut Bench, credits: u32) {
        let mut head = Head::default();
        head.set(KIND, hxh::CREDITS);
        head.set(CREDITS, credits);
        let frame = FrameFacts {
            transmitter: Some(neighbour()),
            along: true,
            ..FrameFacts::NONE
        };
        let _ = t.segment_by(&head, &[], &frame);
    }

    //= spec#17
    // "HxH initial credits | B 6, 8, 128, 256, 512 | 3, 4, 64, 128, 256"
    #[test]
    fn a_lane_begins_with_half_of_its_places() {
        for (places, first) in [(6, 3), (8, 4), (128, 64), (256, 128), (512, 256)] {
            let mut t = lane(places, &[]);
            assert_eq!(credits(&t), first);
            let sent = (1..=places).take_while(|n| send(&mut t, *n)).count();
            assert_eq!(sent as u32, first);
        }
    }

    //= spec#17
    // "L=[1,2,3], overhear 1 adv 3 | L=[2,3], C=1; then send 4, overhear 2 adv 3 -> L=[3,4], C=1;
    // overhear 4 adv 3 -> L=[], C=3"
    #[test]
    fn what_was_sent_since_is_taken_off_a_credit() {
        let mut t = lane(6, &[]);
        for n in 1..=3 {
            assert!(send(&mut t, n));
        }
        assert!(!send(&mut t, 4));
        hear(&mut t, 1, 3);
        assert_eq!((credits(&t), t.probe("waiting")), (1, Some(2.0)));
        assert!(send(&mut t, 4) && !send(&mut t, 5));
        hear(&mut t, 2, 3);
        assert_eq!((credits(&t), t.probe("waiting")), (1, Some(2.0)));
        hear(&mut t, 4, 3);
        assert_eq!((credits(&t), t.probe("waiting")), (3, Some(0.0)));
    }

    /// Node A before node B, whose driver has a packet on its way as long as the thesis draws it:
    /// what B handed to its driver bears the credits of that moment. Returns the numbers that B had
    /// no place for.
    fn stale(mode: &str) -> Vec<u32> {
        const PLACES: usize = 6;
        let mut a = lane(PLACES as u32, &[("credits", mode)]);
        let (mut next, mut dropped, mut queue) = (1, Vec::new(), 0);
        // B's driver takes the first three at once, each with half of an empty queue.
        let mut driver: VecDeque<u32> = VecDeque::new();
        while send(&mut a, next) {
            driver.push_back(next);
            next += 1;
        }
        assert_eq!(driver, [1, 2, 3]);
        while let Some(number) = driver.pop_front() {
            hear(&mut a, number, PLACES as u32 / 2);
            while send(&mut a, next) {
                if queue < PLACES {
                    queue += 1;
                } else {
                    dropped.push(next);
                }
                next += 1;
            }
        }
        dropped
    }

    //= spec#15.4
    // HXH-3.2: "B=6 buffer overflows at packets 10-12 in simple mode"; HXH-3.3: "no overflow"
    #[test]
    fn stale_credits_overflow_the_next_queue_unless_they_are_adjusted() {
        assert_eq!(stale("simple"), [10, 11, 12]);
        assert_eq!(stale("adjusted"), [0; 0]);
    }

    //= spec#15.4
    // HXH-STALL: "a node stalls only after B/2 consecutive passive-ACK losses (4 at B=8, 64 at
    // 128)"
    #[test]
    fn a_node_stalls_when_it_missed_half_of_its_places_in_a_row() {
        for (places, missed) in [(8, 4), (128, 64)] {
            let mut t = lane(places, &[]);
            let sent = (1..).take_while(|n| send(&mut t, *n)).count();
            assert_eq!(sent, missed);
            // One that is heard lets as many go again.
            hear(&mut t, sent as u32, places / 2);
            let again = (sent as u32 + 1..).take_while(|n| send(&mut t, *n)).count();
            assert_eq!(again, missed);
        }
    }

    //= spec#10.5
    #[test]
    fn what_is_heard_of_a_packet_that_was_forgotten_gives_no_more_than_there_is() {
        let mut t = lane(8, &[]);
        for n in 10..=12 {
            assert!(send(&mut t, n));
        }
        assert_eq!(credits(&t), 1);
        hear(&mut t, 9, 8);
        assert_eq!((credits(&t), t.probe("waiting")), (1, Some(3.0)));
        hear(&mut t, 9, 2);
        assert_eq!(credits(&t), 0);
        hear(&mut t, 12, 4);
        hear(&mut t, 9, 7);
        assert_eq!(
            credits(&t),
            7,
            "nothing is waited for: it is as the next hop says"
        );
    }

    /// The timer's length, when it runs.
    fn waits(t: &Bench) -> Option<f64> {
        let due = t.due(0);
        (due != Time::NEVER).then(|| ((due - t.now).as_secs_f64() * 1e6).round() / 1e6)
    }

    //= spec#10.5
    #[test]
    fn without_a_credit_one_packet_goes_every_five_round_trips() {
        let mut t = lane(4, &[]);
        assert!(send(&mut t, 1) && send(&mut t, 2) && !send(&mut t, 3));
        assert_eq!(waits(&t), Some(0.25), "5 of 50 ms");
        let _ = t.advance(t.due(0));
        assert_eq!((credits(&t), t.probe("waiting")), (0, Some(1.0)));
        assert!(send(&mut t, 3) && !send(&mut t, 4));
        assert_eq!((waits(&t), t.probe("waiting")), (Some(0.25), Some(2.0)));
        // A round trip of 8 ms, and no credit: the wait begins anew and is shorter.
        t.now += Span::MILLI * 8;
        hear(&mut t, 3, 0);
        assert_eq!((waits(&t), t.probe("forced")), (Some(0.04), Some(1.0)));
        hear(&mut t, 3, 2);
        assert_eq!((credits(&t), waits(&t)), (2, None));
        assert_eq!(
            (t.board.rtt.samples, t.board.rtt.srtt),
            (1, Span::MILLI * 8)
        );
    }

    #[test]
    fn nothing_waits_with_nothing_to_send_or_before_the_last_hop() {
        let mut t = lane(4, &[]);
        let _ = (send(&mut t, 1), send(&mut t, 2));
        assert!(waits(&t).is_some());
        t.board.app.queued = 0;
        hear(&mut t, 0, 0);
        assert_eq!((credits(&t), waits(&t)), (0, None));
        let mut t = lane(4, &[]);
        t.board.site.last_hop = true;
        assert!((1..50).all(|n| send(&mut t, n)));
        assert_eq!(waits(&t), None);
    }

    #[test]
    fn only_the_next_hop_is_believed() {
        let mut t = lane(4, &[]);
        let _ = (send(&mut t, 1), send(&mut t, 2));
        t.board.site.next_hop = Neighbour::new(1, [2, 0, 0, 0, 0, 9]);
        hear(&mut t, 2, 2);
        assert_eq!(credits(&t), 0);
        t.board.site.next_hop = None;
        hear(&mut t, 2, 2);
        assert_eq!(credits(&t), 0);
        // Another next hop has promised nothing: it gets what a fresh one does.
        let _ = t.signal(Signal::Route);
        assert_eq!((credits(&t), t.probe("waiting")), (2, Some(0.0)));
    }

    #[test]
    fn a_packet_that_came_back_has_its_credit_still() {
        let mut t = lane(4, &[]);
        let _ = (send(&mut t, 1), send(&mut t, 2));
        let _ = t.signal(Signal::Returned(Seq(2)));
        assert_eq!((credits(&t), t.probe("waiting")), (1, Some(1.0)));
        let _ = t.signal(Signal::Returned(Seq(2)));
        assert_eq!(credits(&t), 1, "once");
        assert!(send(&mut t, 2));
    }

    #[test]
    fn a_packet_that_came_back_waits_for_credits_though_it_is_not_in_the_queue() {
        let mut t = lane(4, &[]);
        let _ = (send(&mut t, 1), send(&mut t, 2));
        t.board.app.queued = 0;
        let _ = t.signal(Signal::Returned(Seq(2)));
        hear(&mut t, 1, 0);
        assert_eq!(credits(&t), 0);
        assert!(waits(&t).is_some(), "else it would wait for ever");
        let _ = t.advance(t.due(0));
        assert!(send(&mut t, 2));
        assert_eq!(waits(&t), None);
    }

    #[test]
    fn the_list_of_what_was_sent_is_bounded() {
        let mut t = lane(4, &[("credits", "simple")]);
        for n in 1..100 {
            hear(&mut t, 1_000, 1);
            assert!(send(&mut t, n));
        }
        assert_eq!(t.probe("waiting"), Some(8.0));
    }

    //= spec#10.9
    // "each further expiry in a row halves the period, floor hopRTT"
    #[test]
    fn a_wait_that_shrinks_halves_until_a_round_trip() {
        let mut t = lane(2, &[("credit_timer", "shrink")]);
        assert!(send(&mut t, 1));
        let mut waited = Vec::new();
        for n in 2..7 {
            waited.push(waits(&t).unwrap());
            let _ = t.advance(t.due(0));
            assert!(send(&mut t, n));
        }
        assert_eq!(waited, [0.25, 0.125, 0.0625, 0.05, 0.05]);
        hear(&mut t, 1_000, 0);
        assert_eq!(waits(&t), Some(0.25), "what is heard ends the row");
    }

    //= spec#10.9
    #[test]
    fn who_has_no_credits_may_ask_for_them_once_a_wait() {
        let mut t = lane(4, &[("credit_request", "on")]);
        assert!(t.offer(Kind::Probe).is_none());
        let _ = (send(&mut t, 1), send(&mut t, 2));
        let want = t.offer(Kind::Probe).expect("a question");
        let mut head = Head::default();
        let _ = t.fill(&want, &mut head);
        assert_eq!(head.get(KIND), hxh::CREDIT_REQUEST);
        assert!(t.offer(Kind::Probe).is_none());
        answer(&mut t, 0);
        assert!(!ask(&mut t), "not before the wait is over");
        answer(&mut t, 2);
        assert_eq!((credits(&t), t.probe("waiting")), (2, Some(0.0)));
        let mut t = lane(4, &[]);
        let _ = (send(&mut t, 1), send(&mut t, 2));
        assert!(t.offer(Kind::Probe).is_none(), "not unless it is told to");
    }

    /// An answer knows of what was handed down before the question, and of nothing that was since.
    #[test]
    fn an_answer_counts_less_what_left_after_the_question() {
        let mut t = lane(8, &[("credit_request", "on")]);
        for x in 1..=4 {
            let _ = send(&mut t, x);
        }
        assert!(ask(&mut t));
        // Meanwhile the next hop is heard: two credits for packets 3 to 6.
        hear(&mut t, 2, 4);
        assert_eq!((credits(&t), t.probe("waiting")), (2, Some(2.0)));
        let _ = (send(&mut t, 5), send(&mut t, 6));
        assert!(!ask(&mut t), "one question at a time");
        answer(&mut t, 3);
        assert_eq!((credits(&t), t.probe("waiting")), (1, Some(2.0)));
    }
    #[test]
    fn another_next_hop_is_asked_at_once() {
        let mut t = lane(4, &[("credit_request", "on")]);
        let _ = (send(&mut t, 1), send(&mut t, 2));
        assert!(ask(&mut t));
        t.board.site.next_hop = Neighbour::new(1, [2, 0, 0, 0, 0, 9]);
        let _ = t.signal(Signal::Route);
        let _ = (send(&mut t, 3), send(&mut t, 4));
        assert!(ask(&mut t), "the question before went to somebody else");
    }

    #[test]
    fn an_answer_that_was_lost_does_not_keep_the_next_question_back() {
        let mut t = lane(8, &[("credit_request", "on")]);
        for x in 1..=4 {
            let _ = send(&mut t, x);
        }
        assert!(ask(&mut t));
        t.now += Span::MILLI * 20;
        hear(&mut t, 4, 4);
        t.now += Span::MILLI * 300;
        for x in 5..=8 {
            assert!(send(&mut t, x));
        }
        assert!(ask(&mut t), "the wait for the first answer is over");
    }

    #[test]
    fn an_answer_that_is_late_is_not_taken_for_the_next_ones() {
        let mut t = lane(8, &[("credit_request", "on")]);
        for x in 1..=4 {
            let _ = send(&mut t, x);
        }
        assert!(ask(&mut t));
        let _ = t.advance(t.due(0));
        assert!(send(&mut t, 5) && ask(&mut t));
        answer(&mut t, 3);
        assert_eq!(
            (credits(&t), t.probe("waiting")),
            (2, Some(1.0)),
            "of the first"
        );
        answer(&mut t, 3);
        assert_eq!(
            credits(&t),
            2,
            "of the second, by which more may have arrived"
        );
    }

    #[test]
    fn what_came_back_is_not_what_left_before_the_question() {
        let mut t = lane(8, &[("credit_request", "on")]);
        for x in 1..=4 {
            let _ = send(&mut t, x);
        }
        assert!(ask(&mut t));
        let _ = t.signal(Signal::Returned(Seq(4)));
        assert!(send(&mut t, 4));
        answer(&mut t, 3);
        assert_eq!((credits(&t), t.probe("waiting")), (2, Some(1.0)));
    }
}
