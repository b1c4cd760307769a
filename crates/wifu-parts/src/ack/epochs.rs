//! `epochs`: feedback once per epoch, and at once when it is asked for (ATP thesis 3.1 and 3.2,
//! Behaviour 8.4).
//!
//! Contributes what a feedback says: the average of the delays that nodes wrote, the holes, how
//! long the packet was held whose clock is echoed. Hears segments, what arrived and what was read;
//! offers bare acknowledgements; says nothing.
//!
//! To an adaptive sender it reports early: when the path was slower or faster than the sender's
//! interval for some packets in a row, or some are missing. A reader that is slower than the
//! network counts as a delay of the path, while more than half of the buffer is full.

use wifu_engine::board::Board;
use wifu_engine::component::Cx;
use wifu_engine::descriptor::FEEDBACK;
use wifu_engine::kit::{Ewma, Reader, TARGET, epoch};
use wifu_engine::signal::Arrived;
use wifu_engine::{
    Admit, Component, Descriptor, Facts, FieldUse, Kind, Out, ParamSpec, Params, Role, Segment,
    Signal, Want, WordSpec,
};
use wifu_wire::{Class, Flags, Head, HeadField, Note, Seq, Span, Time, Word};

/// See the module.
pub static EPOCHS: Descriptor = Descriptor {
    name: "epochs",
    role: Role::Ack,
    doc: "Reports the path's delay and the holes once per epoch; at once when asked, at the end, and \
          when an adaptive sender's rate does not fit.",
    cites: &["ATP thesis 3.1", "ATP thesis 3.2", "Behaviour 8.4"],
    params: &[
        ParamSpec::real(
            "beta",
            0.85,
            0.0,
            0.99,
            "Weight of the old average when a packet brings a delay.",
        ),
        ParamSpec::int(
            "adapt_drops",
            2,
            1,
            1_000,
            "Adaptive: report when so many packets are missing for the first time.",
        ),
        ParamSpec::int(
            "adapt_run",
            10,
            1,
            1_000,
            "Adaptive: report when so many packets in a row were slower, or faster, than D_s.",
        ),
        ParamSpec::real(
            "adapt_slow_factor",
            0.9,
            0.1,
            1.0,
            "Adaptive: faster is below so many times D_s (Behaviour D1).",
        ),
        TARGET,
    ],
    words: &[
        WordSpec::new("delay", 32).by_hops(),
        WordSpec::new("hops", 8).counting_hops(),
        WordSpec::new("idle", 1).by_hops(),
        WordSpec::new("feedback", 1).marking(Class::Feedback),
        WordSpec::new("request", 1).read(),
        WordSpec::new("quick", 1),
        WordSpec::new("adapt", 1),
        WordSpec::new("ds", 32).read(),
        WordSpec::new("fb_seq", 8).written(),
        WordSpec::new("hold", 32).written(),
        WordSpec::new("more", 1).written(),
    ],
    notes: &[FEEDBACK],
    probes: &["feedbacks", "early", "hops", "delay_us", "max_us", "holes"],
    reads: Facts::RX.with(Facts::CONN),
    wants: Facts::TX,
    hears: &[
        ("segment", &[]),
        ("arrived", &[]),
        ("read", &[]),
        ("timer", &[]),
    ],
    offers: &[Kind::Ack],
    hooks: &["segment", "stamp"],
    fields: &[
        FieldUse::of(HeadField::Seq),
        FieldUse::of(HeadField::Ranges),
    ],
    build: |p| Ok(Box::new(Epochs::new(p))),
    ..Descriptor::EMPTY
};

/// Most holes in one feedback (Behaviour D10).
const MOST: usize = wifu_wire::atp::HOLES;

/// The receiver reports so long without data, at the least (Behaviour 8.2).
const IDLE: Span = Span(3_000_000_000);

/// Who was silent for so long sends nothing any more, and holes are reported to nobody (Behaviour
/// 8.5). Should he ask, it begins anew.
const GONE: Span = Span(60_000_000_000);

const TICK: u8 = 0;

/// Words by their place in [`EPOCHS`].
#[derive(Clone, Copy)]
struct Words {
    delay: Word,
    hops: Word,
    idle: Word,
    feedback: Word,
    request: Word,
    quick: Word,
    adapt: Word,
    ds: Word,
    fb_seq: Word,
    hold: Word,
    more: Word,
}

/// What the packet that came last said.
#[derive(Clone, Copy, Default)]
struct Latest {
    at: Time,
    /// Data came last.
    data_at: Time,
    delay: u32,
    hops: u32,
    idle: u32,
    adapt: u32,
    ds: u32,
    /// It was feedback: of what we send.
    feedback: bool,
}

/// How the delays of packets compare with what an adaptive sender believes.
#[derive(Clone, Copy, Default)]
struct Runs {
    slower: u64,
    faster: u64,
    missing: u64,
}

struct Epochs {
    words: Words,
    note: Note,
    drops: u64,
    run: u64,
    slow: f64,
    target: f64,
    /// D_avg, microseconds.
    average: Ewma,
    latest: Latest,
    runs: Runs,
    /// Behind the last number that a question named.
    highest: Option<Seq>,
    /// Feedbacks so far: the last octet of it is the number on the wire.
    count: u64,
    due: bool,
    quick: bool,
    more: bool,
    reader: Reader,
    early: u64,
    holes: u64,
}

impl Epochs {
    fn new(p: &Params<'_>) -> Epochs {
        let words = Words {
            delay: p.word("delay"),
            hops: p.word("hops"),
            idle: p.word("idle"),
            feedback: p.word("feedback"),
            request: p.word("request"),
            quick: p.word("quick"),
            adapt: p.word("adapt"),
            ds: p.word("ds"),
            fb_seq: p.word("fb_seq"),
            hold: p.word("hold"),
            more: p.word("more"),
        };
        Epochs {
            words,
            note: p.note(FEEDBACK.name),
            drops: p.int("adapt_drops"),
            run: p.int("adapt_run"),
            slow: p.real("adapt_slow_factor"),
            target: p.real(TARGET.name),
            average: Ewma::new(p.real("beta")),
            latest: Latest::default(),
            runs: Runs::default(),
            highest: None,
            count: 0,
            due: false,
            quick: false,
            more: false,
            reader: Reader::default(),
            early: 0,
            holes: 0,
        }
    }

    fn look(&mut self, head: &Head, now: Time) {
        let w = self.words;
        let delay = head.get(w.delay);
        let (opens, asks) = (head.flags.has(Flags::SYN), head.get(w.request) == 1);
        self.latest = Latest {
            at: now,
            data_at: self.latest.data_at,
            delay,
            hops: head.get(w.hops),
            idle: head.get(w.idle),
            adapt: head.get(w.adapt),
            ds: head.get(w.ds),
            feedback: false,
        };
        //= spec#8.4
        // "SYN: [..] D_avg := D_max"; "SACK_REQ packet later: D_avg := D_max"
        if opens || asks {
            self.average.clear();
        }
        if delay != 0 {
            self.average.add(f64::from(delay));
        }
        self.reach(head);
    }

    /// What is missing ends before the question, or the end of the stream.
    fn reach(&mut self, head: &Head) {
        let opens = head.flags.has(Flags::SYN);
        let asks = head.get(self.words.request) == 1;
        if !opens && (asks || head.flags.has(Flags::FIN)) {
            let highest = self.highest.map_or(head.seq, |h| h.later(head.seq));
            self.highest = Some(highest);
        }
    }

    /// What arrived tells an adaptive sender something before the epoch is over.
    //= spec#8.4
    // "if newly_missing>=2 or run_hi>=10 or run_lo>=10: send_feedback(); restart epoch timer"
    fn tells(&mut self, arrived: &Arrived, mss: u32) -> bool {
        let (latest, runs) = (self.latest, &mut self.runs);
        runs.missing += u64::from(arrived.gap.div_ceil(mss.max(1)));
        if latest.adapt == 0 || latest.ds == 0 {
            return false;
        }
        let (delay, ds) = (f64::from(latest.delay) / self.target, f64::from(latest.ds));
        (runs.slower, runs.faster) = if delay > ds {
            (runs.slower + 1, 0)
        } else if delay > 0.0 && delay < self.slow * ds {
            (0, runs.faster + 1)
        } else {
            (0, 0)
        };
        runs.missing >= self.drops || runs.slower >= self.run || runs.faster >= self.run
    }

    /// What is fed back, microseconds: the slower one of the network and the reader, who takes one
    /// packet at a time.
    fn delay(&self, board: &Board) -> u32 {
        let path = self.average.value().unwrap_or(0.0);
        path.max(self.reader.us(board) * self.target).round() as u32
    }

    //= spec#8.1
    // "Holes: maximal missing byte ranges between ack and `highest`"
    fn push_holes(&mut self, head: &mut Head, cx: &Cx<'_>) {
        let mut from = cx.board.rx.nxt;
        self.highest = self.highest.filter(|h| h.after(from));
        for (start, end) in cx.store.ranges().iter().take(MOST) {
            self.holes += u64::from(head.push_range((from, *start)));
            from = *end;
        }
        if let Some(h) = self.highest.filter(|h| h.after(from))
            && head.ranges().len() < MOST
        {
            self.holes += u64::from(head.push_range((from, h)));
        }
    }
}

impl Component for Epochs {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let head = seg.head;
        if head.get(self.words.feedback) == 1 {
            self.latest.feedback = true;
            return Admit::Pass;
        }
        self.look(head, cx.now);
        if head.get(self.words.request) == 1 && !head.flags.has(Flags::SYN) {
            (self.due, self.quick) = (true, true);
            cx.out.arm_after(TICK, epoch::of(&cx.board));
        }
        Admit::Pass
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        match signal {
            // The end came with feedback, which is answered by the manager.
            Signal::Arrived(_) if self.latest.feedback => {}
            Signal::Arrived(a) => {
                self.latest.data_at = cx.now;
                self.reader.arrived(&cx.board, cx.now);
                let early = self.tells(a, cx.board.conn.mss);
                self.early += u64::from(early);
                self.due |= early || a.fin || cx.board.rx.fin;
                if early || !cx.out.armed(TICK) {
                    cx.out.arm_after(TICK, epoch::of(&cx.board));
                }
            }
            Signal::Read => self.reader.read(&cx.board, cx.now),
            _ => {}
        }
    }

    fn on_timer(&mut self, _timer: u8, cx: &mut Cx<'_>) {
        self.due = true;
        //= spec#8.4
        // "SACK_MORE := now - last_data_time >= E/2 (and FIN not yet received in order)"
        self.more = cx.now - self.latest.data_at >= epoch::of(&cx.board) / 2 && !cx.board.rx.fin;
        let silent = cx.now - self.latest.at;
        let lacks = !cx.store.ranges().is_empty() && silent < GONE;
        if lacks || silent < epoch::idle(epoch::of(&cx.board), IDLE) {
            cx.out.arm_after(TICK, epoch::of(&cx.board));
        }
    }

    fn offer(&self, kind: Kind, _board: &Board, _now: Time) -> Option<Want> {
        self.due.then_some(Want::bare(kind))
    }

    fn fill(&mut self, _want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        out.head.seq = cx.board.tx.max;
        out.head.set(self.words.feedback, 1);
        out.head.set(self.words.quick, u32::from(self.quick));
    }

    /// Whoever sends feedback, this is what it says.
    fn stamp(&mut self, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let (w, head) = (self.words, &mut *out.head);
        if head.get(w.feedback) != 1 {
            return;
        }
        out.aside.notes.set(self.note, 1);
        self.count += 1;
        let held = (cx.now - self.latest.at).micros();
        for (word, value) in [
            (w.delay, self.delay(&cx.board)),
            (w.hops, self.latest.hops),
            (w.idle, self.latest.idle),
            (w.adapt, self.latest.adapt),
            (w.fb_seq, u32::from(self.count as u8)),
            (w.hold, u32::try_from(held).unwrap_or(u32::MAX)),
            (w.more, u32::from(self.more)),
        ] {
            head.set(word, value);
        }
        self.push_holes(head, cx);
        (self.due, self.quick, self.more) = (false, false, false);
        self.runs = Runs::default();
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("feedbacks", self.count as f64);
        probe("early", self.early as f64);
        probe("hops", f64::from(self.latest.hops));
        probe("delay_us", self.average.value().unwrap_or(0.0));
        probe("max_us", f64::from(self.latest.delay));
        probe("holes", self.holes as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::{Arrival, Bench};

    const MSS: u32 = 1_432;

    /// Words by their places in the descriptor.
    const DELAY: Word = Word(0);
    const MARKED: Word = Word(3);
    const REQUEST: Word = Word(4);
    const QUICK: Word = Word(5);
    const ADAPT: Word = Word(6);
    const DS: Word = Word(7);
    const HOLD: Word = Word(9);
    const MORE: Word = Word(10);

    fn receiver(set: &[(&str, &str)]) -> Bench {
        let (epoch, set) = match set {
            [("epoch", ms), rest @ ..] => (ms.parse().unwrap(), rest),
            all => (Span::SECOND, all),
        };
        let mut t = Bench::new(&EPOCHS, set).unwrap();
        (t.board.conn.mss, t.board.conn.epoch) = (MSS, epoch);
        t.board.site.rcv_buf = 100_000;
        t.now = Time(1_000_000_000);
        t
    }

    /// Data arrive that bring a delay, behind a gap of so many segments, to an interval of `ds`.
    fn data(t: &mut Bench, delay: u32, gap: u32, ds: u32) {
        let mut head = Head::default();
        head.set(DELAY, delay);
        head.set(ADAPT, u32::from(ds > 0));
        head.set(DS, ds);
        let _ = t.segment(&head, &[0; 100]);
        let said = t.signal(Signal::Arrived(Arrived {
            seq: Seq(0),
            bytes: MSS,
            gap: gap * MSS,
            order: Arrival::InOrder,
            fin: false,
            ce: false,
        }));
        assert!(said.is_empty());
    }

    /// The feedback that is due.
    fn feedback(t: &mut Bench) -> Option<Head> {
        let want = t.offer(Kind::Ack)?;
        let mut head = Head::default();
        let _ = t.fill(&want, &mut head);
        assert_eq!(head.get(MARKED), 1);
        Some(head)
    }

    fn after(t: &mut Bench, ms: u64) {
        let to = t.now + Span::MILLI * ms;
        let _ = t.advance(to);
    }

    //= spec#17
    // receiver EWMA 0.85
    #[test]
    fn the_test_vector_of_the_receivers_average() {
        let mut t = receiver(&[]);
        for delay in [2_000, 3_000, 1_000, 0] {
            data(&mut t, delay, 0, 0);
        }
        assert!((t.probe("delay_us").unwrap() - 1977.5).abs() < 1e-9);
        assert!(feedback(&mut t).is_none(), "the epoch is not over");
        after(&mut t, 1_001);
        assert_eq!(feedback(&mut t).unwrap().get(DELAY), 1_978);
    }

    /// After how many packets of these delays a sender whose interval is 2 ms hears of it.
    fn runs(delays: impl IntoIterator<Item = u32>) -> Option<usize> {
        let mut t = receiver(&[("epoch", "40 ms")]);
        let mut delays = delays.into_iter();
        delays.position(|delay| {
            data(&mut t, delay, 0, 2_000);
            feedback(&mut t).is_some()
        })
    }

    //= spec#17
    // adaptive trigger
    #[test]
    fn the_test_vectors_of_runs_that_are_told_early() {
        assert_eq!(runs([1_799; 10]), Some(9));
        let reset = [vec![1_799; 9], vec![1_800], vec![1_799; 9]].concat();
        assert_eq!(runs(reset), None, "1800 is not below and ends the run");
        assert_eq!(runs([2_001; 10]), Some(9));
        let reset = [vec![2_001; 9], vec![2_000], vec![2_001; 9]].concat();
        assert_eq!(runs(reset), None);
        assert_eq!(runs([0; 30]), None, "no node says a delay");
        let mut t = receiver(&[]);
        (0..30).for_each(|_| data(&mut t, 1_000, 0, 0));
        assert!(feedback(&mut t).is_none(), "not adaptive");
    }

    //= spec#17
    // drop trigger
    #[test]
    fn the_test_vectors_of_missing_packets_that_are_told_early() {
        for (gaps, told) in [(&[0, 0, 2][..], 2), (&[0, 0, 1, 1][..], 3)] {
            let mut t = receiver(&[("epoch", "40 ms")]);
            for (i, gap) in gaps.iter().enumerate() {
                data(&mut t, 2_000, *gap, 2_000);
                assert_eq!(feedback(&mut t).is_some(), i == told, "{gaps:?} {i}");
            }
            // What was missing then counts no more.
            data(&mut t, 2_000, 1, 2_000);
            assert!(feedback(&mut t).is_none());
        }
    }

    #[test]
    fn of_two_packets_in_a_delay_one_is_as_fast_as_the_path_at_half_of_it() {
        let mut t = receiver(&[("target", "2")]);
        (0..30).for_each(|_| data(&mut t, 4_000, 0, 2_000));
        assert!(feedback(&mut t).is_none());
        (0..10).for_each(|_| data(&mut t, 4_001, 0, 2_000));
        assert!(feedback(&mut t).is_some());
    }

    #[test]
    fn a_report_that_is_early_begins_the_epoch_anew() {
        let mut t = receiver(&[("epoch", "40 ms")]);
        data(&mut t, 2_000, 0, 2_000);
        after(&mut t, 30);
        data(&mut t, 2_000, 2, 2_000);
        assert!(feedback(&mut t).is_some());
        after(&mut t, 20);
        assert!(feedback(&mut t).is_none(), "40 ms after the first one");
        after(&mut t, 21);
        assert!(feedback(&mut t).is_some());
    }

    #[test]
    fn silence_of_half_an_epoch_means_that_more_is_missing_and_a_long_one_ends_the_reports() {
        let mut t = receiver(&[]);
        data(&mut t, 2_000, 0, 0);
        after(&mut t, 600);
        data(&mut t, 2_000, 0, 0);
        after(&mut t, 401);
        assert_eq!(
            feedback(&mut t).unwrap().get(MORE),
            0,
            "data came 401 ms ago"
        );
        let mut more = Vec::new();
        for _ in 0..10 {
            after(&mut t, 1_000);
            more.extend(feedback(&mut t).map(|f| (f.get(MORE), f.get(HOLD))));
        }
        let held = |s: u32| (1, 401_000 + s * 1_000_000);
        assert_eq!(more, [held(1), held(2), held(3)]);
        data(&mut t, 2_000, 0, 0);
        assert!(feedback(&mut t).is_none());
        after(&mut t, 1_001);
        assert!(feedback(&mut t).is_some(), "it begins again");
    }

    //= spec#8.4
    // "SACK_REQ packet later: D_avg := D_max ; highest := later(highest, its seq)"
    #[test]
    fn a_question_is_answered_at_once_with_the_delay_of_that_packet_and_what_it_passed() {
        let mut t = receiver(&[]);
        t.board.rx.nxt = Seq(5_000);
        data(&mut t, 9_000, 0, 0);
        let mut head = Head::default();
        (head.seq, head.flags) = (Seq(8_000), Flags(0));
        head.set(DELAY, 2_000);
        head.set(REQUEST, 1);
        let _ = t.segment(&head, &[]);
        let answer = feedback(&mut t).expect("at once");
        assert_eq!((answer.get(QUICK), answer.get(DELAY)), (1, 2_000));
        assert_eq!(answer.ranges(), [(Seq(5_000), Seq(8_000))]);
        data(&mut t, 4_000, 0, 0);
        after(&mut t, 1_001);
        let next = feedback(&mut t).unwrap();
        assert_eq!((next.get(QUICK), next.get(DELAY)), (0, 2_300));
        // A SYN is answered by the manager.
        (head.flags, head.seq) = (Flags::SYN, Seq(0));
        let _ = t.segment(&head, &[]);
        assert!(feedback(&mut t).is_none());
    }

    /// Numbers are serial: half round further on it would lie ahead again.
    #[test]
    fn what_a_question_named_is_forgotten_once_it_was_passed() {
        let mut t = receiver(&[]);
        t.board.rx.nxt = Seq(5_000);
        let mut head = Head::default();
        head.seq = Seq(5_000);
        head.set(REQUEST, 1);
        let _ = t.segment(&head, &[]);
        assert!(feedback(&mut t).unwrap().ranges().is_empty());
        for _ in 0..3 {
            t.board.rx.nxt = t.board.rx.nxt.plus(1_000_000_000);
            data(&mut t, 2_000, 0, 0);
            after(&mut t, 1_001);
            assert!(feedback(&mut t).unwrap().ranges().is_empty());
        }
    }

    /// A receiver whose reader takes 15 ms over a segment, and what it says with so much unread.
    fn slow_reader(set: &[(&str, &str)]) -> impl FnMut(u32) -> u32 {
        let mut t = receiver(set);
        t.board.rx.nxt = Seq(60_000);
        t.board.app.unread = 60_000;
        data(&mut t, 2_000, 0, 0);
        for _ in 0..3 {
            t.now += Span::MILLI * 30;
            t.board.app.unread -= 2 * MSS;
            let _ = t.signal(Signal::Read);
        }
        move |unread| {
            t.board.app.unread = unread;
            after(&mut t, 1_001);
            feedback(&mut t).unwrap().get(DELAY)
        }
    }

    #[test]
    fn a_reader_that_is_slower_than_the_network_is_a_delay_of_the_path() {
        let mut says = slow_reader(&[]);
        assert_eq!(says(60_000), 15_000);
        assert_eq!(says(50_000), 2_000, "half of the buffer is free again");
        // The sender divides by eight: it is to wait 15 ms for each packet.
        assert_eq!(slow_reader(&[("target", "8")])(60_000), 120_000);
    }
}
