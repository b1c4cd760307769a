//! `atp-rate`: one data packet per delay of the path, as the receiver feeds it back (ATP thesis 3.1
//! and 3.2, Behaviour 8.3).
//!
//! Contributes the interval D_s, the clock that it runs, and what happens when feedback stays away:
//! the rate is halved, and at the third time the way is asked for anew. Hears segments, what left
//! and what was written; says `stalled` when the manager has to ask; gates data of every kind;
//! writes `rate`.
//!
//! A connection that idled for three epochs, or a second, asks before it sends (Behaviour 18): what
//! the path was like then says nothing.

use wifu_engine::board::RateFacts;
use wifu_engine::component::Cx;
use wifu_engine::kit::{DS_FIRST, Interval, KAPPA, PHI, TARGET, epoch};
use wifu_engine::signal::ExtId;
use wifu_engine::{
    Admit, Board, Component, Descriptor, Facts, FieldUse, Limit, Out, ParamSpec, Params, Permit,
    Role, Segment, Signal, Want, WordSpec,
};
use wifu_wire::{Class, HeadField, Span, Time, Word};

/// See the module.
pub static ATP_RATE: Descriptor = Descriptor {
    name: "atp-rate",
    role: Role::Gate,
    doc: "One data packet per path delay as fed back; halves its rate when feedback stays away, and \
          asks anew at the third time.",
    cites: &["ATP thesis 3.1", "ATP thesis 3.2", "Behaviour 8.3"],
    params: &[
        PHI,
        KAPPA,
        TARGET,
        ParamSpec::flag(
            "adapt",
            false,
            "Adaptive: packets say D_s, by which the receiver tells when to report early; the \
             sender, and no node, multiplies the delay of an idle path (Behaviour D3).",
        ),
        DS_FIRST,
        ParamSpec::text(
            "miss_action",
            "halve",
            &["halve", "none"],
            "What the first and second feedback that stays away do to the rate (Behaviour D8).",
        ),
        ParamSpec::text(
            "fb_slack",
            "literal",
            &["literal", "rtt"],
            "A feedback is missed 1.1 E after the last one; or E, and a tenth of it or a round trip \
             of at most 50 ms (Behaviour D39).",
        ),
        ParamSpec::flag(
            "idle_ask",
            true,
            "Ask for the delay of the path before sending after max(3 E, 1 s) of silence.",
        ),
        ParamSpec::flag(
            "route_restart",
            false,
            "Ask anew when three feedbacks in a row count another number of hops (Behaviour 8.3).",
        ),
    ],
    words: &[
        WordSpec::new("delay", 32).by_hops().read(),
        WordSpec::new("idle", 1).by_hops().read(),
        WordSpec::new("hops", 8).counting_hops().read(),
        WordSpec::new("feedback", 1).marking(Class::Feedback).read(),
        WordSpec::new("quick", 1).read(),
        WordSpec::new("adapt", 1),
        WordSpec::new("ds", 32).written(),
    ],
    probes: &[
        "ds_us", "d_us", "heard", "raised", "lowered", "missed", "starts",
    ],
    reads: Facts::CONN.with(Facts::TX),
    wants: Facts::RTT.with(Facts::PEER),
    writes: Facts::RATE,
    hears: &[
        ("segment", &["stalled"]),
        ("sent", &[]),
        ("wrote", &["stalled"]),
        ("closing", &["stalled"]),
        ("timer", &["stalled"]),
        ("?frozen", &[]),
    ],
    hooks: &["segment", "permit", "stamp"],
    fields: &[FieldUse::of(HeadField::TsEcho)],
    build: |p| Ok(Box::new(AtpRate::new(p))),
    ..Descriptor::EMPTY
};

/// Misses, and feedbacks by another way, that make the sender ask.
const MISSES: u32 = 3;

const DEADLINE: u8 = 0;

struct AtpRate {
    /// delay, idle, hops, feedback, quick, adapt, ds.
    words: [Word; 7],
    stalled: ExtId,
    adapt: bool,
    halve: bool,
    slack: bool,
    idle_ask: bool,
    route_restart: bool,
    /// Hops of the path, and how many feedbacks in a row counted others.
    hops: (u32, u32),
    /// D_s and its clock.
    interval: Interval,
    /// What was fed back last, microseconds.
    d: f64,
    /// The next answer says what D_s is.
    starting: bool,
    misses: u32,
    /// When data left last, or the rate was asked for.
    active: Time,
    /// Feedbacks that stayed away.
    missed: u32,
    /// Answers to what was asked.
    starts: u32,
    /// Feedbacks that counted.
    heard: u64,
}

impl AtpRate {
    fn new(p: &Params<'_>) -> AtpRate {
        AtpRate {
            words: ["delay", "idle", "hops", "feedback", "quick", "adapt", "ds"].map(|w| p.word(w)),
            stalled: p.ext("stalled"),
            adapt: p.flag("adapt"),
            halve: p.text("miss_action") == "halve",
            slack: p.text("fb_slack") == "rtt",
            idle_ask: p.flag("idle_ask"),
            route_restart: p.flag("route_restart"),
            hops: (0, 0),
            interval: Interval::new(p, p.real(TARGET.name)),
            d: 0.0,
            starting: true,
            misses: 0,
            active: Time::ZERO,
            missed: 0,
            starts: 0,
            heard: 0,
        }
    }

    /// An answer to what was asked: the delay of the path is the interval.
    //= spec#8.3
    // "if ADAPT and IDLE: d := d*(3+0.5*(N_h-1)); if d==0: d := D_init"
    fn start(&mut self, us: f64, idle: bool, hops: u32) {
        self.starts += 1;
        self.hops = (hops, 0);
        let eta = if self.adapt && idle { eta(hops) } else { 1.0 };
        self.interval.start(us * eta);
    }

    /// Whether the path is another one, by its number of hops.
    //= spec#8.3
    // "N_h change in feedback for 3 consecutive feedbacks (route change)"
    fn rerouted(&mut self, hops: u32) -> bool {
        let (known, others) = &mut self.hops;
        *others = if hops == *known { 0 } else { *others + 1 };
        self.route_restart && *others == MISSES
    }

    /// How long a feedback may take, after the last one.
    //= spec#D39
    fn patience(&self, board: &Board) -> Span {
        let epoch = epoch::of(board);
        if !self.slack {
            return epoch::deadline(epoch);
        }
        const MOST: Span = Span(50_000_000);
        epoch + (epoch / 10).max(board.rtt.srtt.min(MOST))
    }

    /// Whether feedback is due: something is on its way, or waits and may leave.
    fn awaits(board: &Board) -> bool {
        let tx = &board.tx;
        let waits = board.app.end.plus(u32::from(board.app.fin)).after(tx.nxt);
        tx.una != tx.max || waits && !board.peer.persist
    }

    fn ask(&mut self, cx: &mut Cx<'_>) {
        (self.starting, self.misses, self.active) = (true, 0, cx.now);
        cx.out.disarm(DEADLINE);
        cx.out.emit(Signal::Ext(self.stalled, [0; 2]));
    }

    fn publish(&self, cx: &mut Cx<'_>) {
        let mss = cx.board.conn.mss;
        cx.write(|r: &mut RateFacts| self.interval.publish(mss, r));
    }
}

/// What an idle path's delay is multiplied by, `hops` long.
//= spec#8.2
fn eta(hops: u32) -> f64 {
    3.0 + 0.5 * f64::from(hops.saturating_sub(1))
}

impl Component for AtpRate {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let [delay, idle, hops, feedback, quick, adapt, _] = self.words.map(|w| seg.head.get(w));
        if feedback != 1 || !cx.board.conn.running {
            return Admit::Pass;
        }
        self.misses = 0;
        self.heard += 1;
        let (us, mut patience) = (f64::from(delay), self.patience(&cx.board));
        match (quick == 1, core::mem::take(&mut self.starting)) {
            (true, true) => {
                self.start(us, idle == 1 && adapt == 1, hops);
                self.active = cx.now;
                patience = patience + cx.board.rtt.last;
            }
            // Late, or the answer to a probe of the window.
            (true, false) => {}
            (false, _) => self.interval.follow(us),
        }
        self.d = us;
        self.publish(cx);
        if self.rerouted(hops) {
            self.ask(cx);
            return Admit::Pass;
        }
        if Self::awaits(&cx.board) {
            cx.out.arm_after(DEADLINE, patience);
        } else {
            cx.out.disarm(DEADLINE);
        }
        Admit::Pass
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        if let Signal::Sent(s) = signal {
            if s.kind.is_data() {
                self.interval.sent(cx.now, s.late);
                self.active = cx.now;
                if !cx.out.armed(DEADLINE) {
                    let patience = self.patience(&cx.board) + cx.board.rtt.srtt;
                    cx.out.arm_after(DEADLINE, patience);
                }
            }
            return;
        }
        // A node lost a packet, and the manager asks for the way by itself.
        if matches!(signal, Signal::Ext(..)) {
            (self.starting, self.misses, self.active) = (true, 0, cx.now);
            return cx.out.disarm(DEADLINE);
        }
        if !matches!(signal, Signal::Wrote | Signal::Closing) {
            return;
        }
        // Something is to be sent; nothing was for long?
        //= spec#18
        // "ATP idle restart rule (own)"
        let tx = &cx.board.tx;
        let long = cx.now - self.active > epoch::idle(epoch::of(&cx.board), Span::SECOND);
        let idle = tx.una == tx.max && !cx.board.peer.persist && Self::awaits(&cx.board);
        if self.idle_ask && long && idle && cx.board.conn.running && !self.starting {
            self.ask(cx);
        }
    }

    fn on_timer(&mut self, _timer: u8, cx: &mut Cx<'_>) {
        if !Self::awaits(&cx.board) || !cx.board.conn.running {
            return;
        }
        self.misses += 1;
        self.missed += 1;
        if self.misses == MISSES {
            return self.ask(cx);
        }
        if self.halve {
            self.interval.set(self.interval.us() * 2.0);
            self.publish(cx);
        }
        let patience = self.patience(&cx.board);
        cx.out.arm_after(DEADLINE, patience);
    }

    fn permit(&self, want: &Want, board: &Board, _now: Time) -> Permit {
        match want.kind.is_data() {
            false => Permit::OPEN,
            true if board.conn.running => Permit::at(self.interval.due(), Limit::Pace),
            true => Permit::shut(Limit::State),
        }
    }

    fn stamp(&mut self, out: &mut Out<'_>, _cx: &mut Cx<'_>) {
        let [_, _, _, feedback, _, adapt, ds] = self.words;
        if self.adapt && out.head.get(feedback) != 1 {
            out.head.set(adapt, 1);
            out.head.set(ds, self.interval.us().round() as u32);
        }
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        let [raised, lowered] = self.interval.moved().map(f64::from);
        probe("ds_us", self.interval.us());
        probe("d_us", self.d);
        probe("heard", self.heard as f64);
        probe("raised", raised);
        probe("lowered", lowered);
        probe("missed", f64::from(self.missed));
        probe("starts", f64::from(self.starts));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::signal::Sent;
    use wifu_engine::{Bench, Kind, Reason};
    use wifu_wire::{Head, Seq};

    //= spec#17
    // adaptive eta
    #[test]
    fn the_test_vectors_of_the_idle_multiplier() {
        let all: Vec<f64> = (1..=6).map(eta).collect();
        assert_eq!(all, [3.0, 3.5, 4.0, 4.5, 5.0, 5.5]);
    }

    /// A sender with data on its way whose rate was asked for, with an epoch of one second.
    fn running(set: &[(&str, &str)], d: u32) -> Bench {
        let (epoch, set) = match set {
            [("epoch", ms), rest @ ..] => (ms.parse().unwrap(), rest),
            all => (Span::SECOND, all),
        };
        let mut t = Bench::new(&ATP_RATE, set).unwrap();
        (t.board.conn.mss, t.board.conn.running, t.board.conn.epoch) = (1_000, true, epoch);
        (t.board.tx.nxt, t.board.tx.max, t.board.app.end) = (Seq(5_000), Seq(5_000), Seq(5_000));
        t.now = Time(1_000_000_000);
        feedback(&mut t, d, &[4]);
        t
    }

    /// Feedback of `d` microseconds with these words set: 1 idle, 2 hops (3), 4 quick, 5 adapt.
    fn feedback(t: &mut Bench, d: u32, marks: &[u8]) {
        let mut head = Head::default();
        head.set(Word(0), d);
        head.set(Word(3), 1);
        for mark in marks {
            head.set(Word(*mark), if *mark == 2 { 3 } else { 1 });
        }
        let _ = t.segment(&head, &[]);
    }

    fn ds(t: &Bench) -> f64 {
        t.probe("ds_us").unwrap()
    }

    #[test]
    fn the_answer_to_a_question_sets_the_rate_and_a_late_one_does_not() {
        let mut t = running(&[], 3_000);
        assert_eq!((ds(&t), t.board.rate.gap), (3_000.0, Some(Span::MILLI * 3)));
        feedback(&mut t, 9_000, &[4]);
        assert_eq!(ds(&t), 3_000.0, "nothing was asked");
        feedback(&mut t, 9_000, &[]);
        assert_eq!(ds(&t), 9_000.0);
        assert_eq!(ds(&running(&[], 0)), 20_000.0, "no node said its delay");
        assert_eq!(
            (ds(&running(&[], 7)), ds(&running(&[], 2_000_000))),
            (100.0, 1e6)
        );
    }

    //= spec#D3
    #[test]
    fn the_sender_multiplies_an_idle_paths_delay_if_it_is_adaptive() {
        let start = |set: &[(&str, &str)], marks: &[u8]| {
            let mut t = Bench::new(&ATP_RATE, set).unwrap();
            t.board.conn.running = true;
            feedback(&mut t, 1_000, marks);
            ds(&t)
        };
        let adaptive = [("adapt", "on")];
        assert_eq!(start(&adaptive, &[1, 2, 4, 5]), 4_000.0, "three hops");
        assert_eq!(start(&adaptive, &[2, 4, 5]), 1_000.0, "not idle");
        assert_eq!(start(&[], &[1, 2, 4]), 1_000.0, "the node did");
    }

    fn stalled(t: &mut Bench, ms: u64) -> bool {
        let to = Time(ms * 1_000_000);
        t.advance(to).iter().any(|s| t.name(s) == "stalled")
    }

    //= spec#D8
    #[test]
    fn two_misses_halve_the_rate_and_the_third_asks() {
        let mut t = running(&[], 3_000);
        assert!(!stalled(&mut t, 2_099) && ds(&t) == 3_000.0);
        assert!(!stalled(&mut t, 2_101) && ds(&t) == 6_000.0);
        assert!(!stalled(&mut t, 3_201) && ds(&t) == 12_000.0);
        assert!(stalled(&mut t, 4_301) && ds(&t) == 12_000.0);
        feedback(&mut t, 5_000, &[4]);
        assert_eq!((ds(&t), t.probe("starts")), (5_000.0, Some(2.0)));
        // Ordinary feedback is a sign of life, too: the rate is the present one, and the rule.
        assert!(stalled(&mut t, 7_700));
        feedback(&mut t, 90_000, &[]);
        feedback(&mut t, 1_000, &[4]);
        assert_eq!(ds(&t), 90_000.0);
        let mut literal = running(&[("miss_action", "none")], 3_000);
        assert!(stalled(&mut literal, 4_301) && ds(&literal) == 3_000.0);
    }

    //= spec#8.6
    #[test]
    fn once_a_node_lost_a_packet_the_answer_to_the_managers_question_sets_the_rate() {
        let mut t = running(&[], 3_000);
        let frozen = Signal::Ext(ExtId(1), [0; 2]);
        assert_eq!(t.name(&frozen), "frozen");
        assert!(t.signal(frozen).is_empty(), "it asks by itself");
        t.board.conn.running = false;
        assert!(!stalled(&mut t, 30_000) && t.probe("missed") == Some(0.0));
        feedback(&mut t, 90_000, &[]);
        assert_eq!(ds(&t), 3_000.0, "what was on its way says nothing");
        t.board.conn.running = true;
        feedback(&mut t, 5_000, &[4]);
        assert_eq!((ds(&t), t.probe("starts")), (5_000.0, Some(2.0)));
    }

    #[test]
    fn the_interval_may_be_a_part_of_the_delay() {
        let mut t = running(&[("target", "2")], 3_000);
        feedback(&mut t, 8_000, &[]);
        assert_eq!(ds(&t), 4_000.0, "two packets per delay");
        feedback(&mut t, 8_000, &[]);
        assert_eq!(ds(&t), 4_000.0);
    }

    #[test]
    fn nothing_is_missed_while_nothing_is_on_its_way_or_the_window_is_shut() {
        let mut t = running(&[], 3_000);
        t.board.tx.una = t.board.tx.max;
        assert!(!stalled(&mut t, 10_000) && t.probe("missed") == Some(0.0));
        let mut t = running(&[], 3_000);
        (t.board.tx.una, t.board.peer.persist) = (t.board.tx.max, true);
        t.board.app.end = Seq(9_000);
        assert!(!stalled(&mut t, 10_000) && t.probe("missed") == Some(0.0));
        let mut t = running(&[("epoch", "40 ms"), ("fb_slack", "rtt")], 3_000);
        t.board.rtt.srtt = Span::MILLI * 30;
        feedback(&mut t, 3_000, &[]);
        let _ = t.advance(Time(1_069_000_000));
        assert_eq!(t.probe("missed"), Some(0.0));
        let _ = t.advance(Time(1_071_000_000));
        assert_eq!(t.probe("missed"), Some(1.0));
    }

    #[test]
    fn packets_leave_one_interval_apart_by_the_interval_as_it_is_now() {
        let mut t = running(&[], 3_000);
        let (kind, bytes, least) = (Kind::New, 1_000, 1_000);
        let want = Want { kind, bytes, least };
        assert!(t.permit(&want).not_before <= t.now, "the first one at once");
        let sent = Sent {
            kind,
            reason: Reason::First,
            acks: false,
            seq: Seq(0),
            bytes,
            late: Span::ZERO,
        };
        let _ = t.signal(Signal::Sent(sent));
        let wait = |t: &Bench| t.permit(&want).not_before - t.now;
        assert_eq!(wait(&t), Span::MILLI * 3);
        feedback(&mut t, 9_000, &[]);
        assert_eq!(wait(&t), Span::MILLI * 9);
        let kind = Kind::Resend;
        assert_eq!(t.permit(&Want { kind, ..want }), t.permit(&want));
        t.board.conn.running = false;
        assert_eq!(t.permit(&want).wait, Limit::State);
        assert_eq!(t.permit(&Want::bare(Kind::Probe)), Permit::OPEN);
    }

    //= spec#18
    // "ATP idle restart rule (own)"
    #[test]
    fn who_idled_for_three_epochs_asks_before_it_sends() {
        for (set, after_ms, asks) in [
            (&[][..], 2_900, false),
            (&[][..], 3_100, true),
            (&[("idle_ask", "off")][..], 3_100, false),
            (&[("epoch", "40 ms")][..], 900, false),
            (&[("epoch", "40 ms")][..], 1_100, true),
        ] {
            let mut t = running(set, 3_000);
            t.board.tx.una = t.board.tx.max;
            t.now += Span::MILLI * after_ms;
            t.board.app.end = Seq(9_000);
            let said = t.signal(Signal::Wrote);
            assert_eq!(said.len(), usize::from(asks), "{after_ms} {set:?}");
            assert!(t.signal(Signal::Wrote).is_empty(), "once");
        }
    }

    #[test]
    fn three_feedbacks_by_another_way_make_the_sender_ask_if_it_heeds_routes() {
        for on in [false, true] {
            let set = [("route_restart", if on { "on" } else { "off" })];
            let mut t = running(&set, 3_000);
            let mut asks = |hops: u32| {
                let mut head = Head::default();
                for (word, value) in [(0, 3_000), (2, hops), (3, 1)] {
                    head.set(Word(word), value);
                }
                t.segment(&head, &[]).1.len()
            };
            let asked: Vec<usize> = [3, 3, 0, 3, 3].map(&mut asks).into();
            assert_eq!(asked, [0; 5], "never three in a row");
            assert_eq!(asks(3), usize::from(on));
        }
    }

    #[test]
    fn only_an_adaptive_sender_says_its_interval_and_never_on_feedback() {
        let stamped = |set: &[(&str, &str)], feedback: u32| {
            let mut t = running(set, 3_000);
            let mut head = Head::default();
            head.set(Word(3), feedback);
            t.stamp(Kind::New, &mut head);
            (head.get(Word(5)), head.get(Word(6)))
        };
        assert_eq!(stamped(&[], 0), (0, 0));
        assert_eq!(stamped(&[("adapt", "on")], 0), (1, 3_000));
        assert_eq!(stamped(&[("adapt", "on")], 1), (0, 0));
    }
}
