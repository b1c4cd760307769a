//! Loss detection by time (RFC 8985): what was sent before something that arrived, by more than
//! packets overtake each other, is lost. So lost retransmissions are found, too. Which copy of a
//! piece arrived is told by the timestamp that is echoed and by the smallest round trip.

use super::ranges::in_order;
use crate::board::Board;
use crate::params::ParamSpec;
use std::collections::VecDeque;
use wifu_wire::{Seq, Span, Time};

/// Number of the timer that ends the wait for reordering, among those of a reliability part.
pub const REORDER: u8 = 2;

/// The switch.
pub const RACK: ParamSpec = ParamSpec::flag(
    "rack",
    false,
    "Losses are told by the times of what arrives, not by the count of reports, and a probe \
     asks for acknowledgements that stay out (RACK-TLP, RFC 8985); where the peer reports \
     ranges. `dupthresh` then says only how many reports end the wait for reordering.",
);

/// Pieces for which there is room from the beginning.
const FEW: usize = 256;

/// Reports cut no piece in two where there are so many: a peer that reports single octets would
/// have each of them logged. Segments are not bounded by it.
const MANY: usize = 16_384;

/// So many recoveries long a wider reordering window is kept (RFC 8985 6.2).
const PERSIST: u32 = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Flying,
    Delivered,
    Lost,
}

/// What was sent at one time and is one as far as is known.
#[derive(Clone, Copy, Debug)]
struct Record {
    start: Seq,
    end: Seq,
    at: Time,
    /// The timestamp that it bore.
    stamp: Option<u32>,
    /// Of the transmission: the later of two that left at one time has the higher one.
    number: u32,
    again: bool,
    /// It was taken for lost, and counted.
    counted: bool,
    /// It was taken for lost, whether it has gone again or not, and did not arrive: TCPCB_LOST.
    marked: bool,
    /// Time has told that it is lost, and does not tell so again of this transmission (Linux, which
    /// takes it off its list by time).
    told: bool,
    fate: Fate,
}

impl Record {
    fn octets(&self) -> u32 {
        self.end.since(self.start)
    }

    /// Nothing tells them apart any more; whoever takes his reports back has both go again.
    fn alike(&self, o: &Record) -> bool {
        let what = |r: &Record| (r.fate, r.number, r.counted, r.marked);
        let arrived = |r: &Record| (r.fate == Fate::Delivered, r.again);
        what(self) == what(o) || arrived(self) == (true, o.again) && arrived(o).0
    }

    /// RACK_sent_after. Of two that left at one time the RFC takes the later in sequence for the
    /// later one, which is wrong where new data leaves first and what goes again then.
    fn after(&self, number: u32) -> bool {
        (self.number.wrapping_sub(number) as i32) > 0
    }
}

/// The transmissions of a sender, from what is not acknowledged on, and what follows from those
/// that arrived.
#[derive(Clone, Debug, Default)]
pub struct Rack {
    /// As Linux does it: see [`Rack::as_linux`].
    linux: bool,
    log: VecDeque<Record>,
    flying: u32,
    lost: u32,
    /// Octets that are marked: lost_out.
    marked: u32,
    /// Octets taken for lost so far, each transmission once.
    total: u64,
    /// Transmissions so far.
    number: u32,
    /// What left last.
    last: (Seq, Seq),
    /// The most recent transmission that arrived.
    latest: Option<u32>,
    /// RACK.rtt: the round trip of what arrived last, in the order of [`Rack::arrived`].
    rtt: Span,
    /// The highest end that arrived.
    forward: Option<Seq>,
    reordering: bool,
    /// reo_wnd_mult.
    mult: u32,
    persist: u32,
    /// No wider window before this is acknowledged.
    round: Option<Seq>,
    /// The end of the first piece that arrived and was sent once, since somebody asked.
    original: Option<Seq>,
    /// Something that went again was lost, since somebody asked.
    lost_again: bool,
    /// When the first left that the last acknowledgement reported, and that was sent once.
    told: Option<Time>,
}

impl Rack {
    /// Nothing was sent.
    pub fn new() -> Rack {
        Rack {
            log: VecDeque::with_capacity(FEW),
            mult: 1,
            ..Rack::default()
        }
    }

    /// Nothing was sent, and what the RFC leaves open is as in Linux:
    ///
    /// - What went again at one instant left before what went for the first time
    ///   (tcp_xmit_retransmit_queue, then tcp_write_xmit, which reads the clock anew); and of the
    ///   first window each segment left by itself, as where nothing segments for the kernel.
    /// - A reduction that is undone leaves what time tells as it is; it does not tell twice.
    /// - Only who has seen reordering waits longer for it (tcp_dsack_seen).
    pub fn as_linux() -> Rack {
        Rack {
            linux: true,
            ..Rack::new()
        }
    }

    /// Octets on their way: neither arrived nor lost.
    pub fn flying(&self) -> u32 {
        self.flying
    }

    /// Octets that are lost and did not go again.
    pub fn lost(&self) -> u32 {
        self.lost
    }

    /// Octets that were lost and did not arrive yet, those included that went again (Linux,
    /// lost_out).
    pub fn marked(&self) -> u32 {
        self.marked
    }

    /// Octets that went again and are on their way (Linux, retrans_out).
    pub fn flying_again(&self) -> u32 {
        let again = |r: &&Record| r.again && r.fate == Fate::Flying;
        self.log.iter().filter(again).map(Record::octets).sum()
    }

    /// Octets taken for lost so far, each transmission once, though it may have been taken back.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// What is lost first and did not go again: where it begins, and its octets, `most` if there
    /// are more.
    pub fn first_lost(&self, most: u32) -> Option<(Seq, u32)> {
        if self.lost == 0 {
            return None;
        }
        let mut log = self.log.iter().skip_while(|r| r.fate != Fate::Lost);
        let start = log.next()?;
        let mut end = start.end;
        for piece in log.take_while(|r| r.fate == Fate::Lost) {
            if end.since(start.start) >= most {
                break;
            }
            end = piece.end;
        }
        Some((start.start, end.since(start.start).min(most)))
    }

    /// The last piece that was sent and is not acknowledged.
    pub fn last(&self) -> Option<(Seq, u32)> {
        let last = self.log.back()?;
        Some((last.start, last.octets()))
    }

    /// `start..end` leaves, for the first time or again.
    pub fn sent(&mut self, start: Seq, end: Seq, now: Time) {
        self.number = self.number.wrapping_add(1);
        self.last = (start, end);
        let number = self.number;
        let known = self.log.back().map_or(start, |r| r.end);
        let pieces = self.pieces(start, end.earlier(known));
        for i in pieces.clone() {
            if self.log[i].fate != Fate::Delivered {
                self.set(i, Fate::Flying);
                let piece = &mut self.log[i];
                (piece.at, piece.number, piece.again) = (now, number, true);
                (piece.counted, piece.told) = (false, false);
            }
        }
        self.join(pieces.start + 1..pieces.end);
        let start = start.later(known);
        if end.after(start) {
            self.flying += end.since(start);
            let before = match self.latest {
                _ if !self.linux => 0,
                Some(_) => 1,
                None => 1 + self.log.len() as u64,
            };
            self.log.push_back(Record {
                start,
                end,
                at: now + Span(before),
                stamp: None,
                number,
                again: false,
                counted: false,
                marked: false,
                told: false,
                fate: Fate::Flying,
            });
        }
    }

    /// The timestamp of what left last.
    pub fn stamped(&mut self, stamp: Option<u32>) {
        for i in self.place(self.last.0)..self.place(self.last.1) {
            self.log[i].stamp = stamp;
        }
    }

    /// Everything before `ack` arrived, and what these ranges say; `echo` answers a timestamp. What
    /// ranges report is not in order, and the echo then of an earlier segment (RFC 7323 4.3): of
    /// them it says nothing, though the RFC asks it.
    ///
    /// RACK.rtt is of each piece in turn, and the RFC leaves the order open. It is Linux's: first
    /// the ranges, then what is acknowledged, each by rising number. What is acknowledged left
    /// earlier, as a rule, than what the ranges report: so long is the wait for what left between
    /// the two.
    pub fn arrived<'a>(
        &mut self,
        ack: Seq,
        ranges: impl IntoIterator<Item = &'a (Seq, Seq), IntoIter: Clone>,
        echo: Option<u32>,
        board: &Board,
        now: Time,
    ) {
        self.told = None;
        self.split(ack);
        let mut acked = None;
        while let Some(first) = self.log.front().copied()
            && first.end.upto(ack)
        {
            acked = self.deliver(0, echo, board, now).or(acked);
            self.log.pop_front();
        }
        let mut reported = None;
        for (start, end) in in_order(ranges.into_iter(), ack) {
            let pieces = if self.log.len() < MANY {
                self.pieces(start, end)
            } else {
                self.whole(start, end)
            };
            for i in pieces.clone() {
                let piece = self.log[i];
                if piece.fate != Fate::Delivered && !piece.again {
                    self.told = Some(self.told.map_or(piece.at, |t| t.min(piece.at)));
                }
                reported = self.deliver(i, None, board, now).or(reported);
            }
            self.join(pieces.start..pieces.end + 1);
        }
        self.rtt = acked.or(reported).unwrap_or(self.rtt);
    }

    //= rfc8985#section-6.2
    // Steps 2 and 3. Returns the round trip, unless it is not known of which copy.
    fn deliver(&mut self, i: usize, echo: Option<u32>, board: &Board, now: Time) -> Option<Span> {
        let piece = self.log[i];
        if piece.fate == Fate::Delivered {
            return None;
        }
        self.set(i, Fate::Delivered);
        self.unmark(i);
        if !piece.again {
            self.original = Some(self.original.map_or(piece.end, |o| o.earlier(piece.end)));
        }
        let rtt = now.max(piece.at) - piece.at;
        let older = |(echo, stamp): (u32, u32)| (echo.wrapping_sub(stamp) as i32) < 0;
        let older = echo.zip(piece.stamp).is_some_and(older);
        if piece.again && (older || rtt < board.rtt.min) {
            return None; // what arrived is an earlier copy
        }
        if self.latest.is_none_or(|latest| piece.after(latest)) {
            self.latest = Some(piece.number);
        }
        match self.forward {
            Some(f) if piece.end.before(f) => self.reordering |= !piece.again,
            _ => self.forward = Some(piece.end),
        }
        Some(rtt)
    }

    /// How much later than others a packet may arrive. `busy`: a recovery is under way, or enough
    /// is reported to begin one: then nobody waits for what was never seen, reordering.
    pub fn window(&self, busy: bool, board: &Board) -> Span {
        if busy && !self.reordering {
            return Span::ZERO;
        }
        (board.rtt.min / 4 * u64::from(self.mult)).min(board.rtt.srtt)
    }

    //= rfc8985#section-6.2
    // Step 5.
    /// Takes for lost what left before the latest that arrived, by more than the window. Returns
    /// its octets, and when the next piece is lost unless it arrives.
    pub fn detect(&mut self, window: Span, now: Time) -> (u32, Option<Time>) {
        let (Some(latest), Some(first), Some(last)) =
            (self.latest, self.log.front(), self.log.back())
        else {
            return (0, None);
        };
        let whole = self.flying + self.lost == last.end.since(first.start);
        if whole && first.after(latest) {
            return (0, None);
        }
        let (mut lost, mut next) = (0, None::<Time>);
        for i in 0..self.log.len() {
            let piece = self.log[i];
            let earlier = piece.number != latest && !piece.after(latest);
            if piece.fate != Fate::Flying || piece.told || !earlier {
                continue;
            }
            let due = piece.at + self.rtt + window;
            if due <= now {
                lost += piece.octets();
                self.lost_again |= piece.again;
                self.lose(i);
                self.log[i].told = true;
            } else {
                next = Some(next.map_or(due, |n| n.max(due)));
            }
        }
        (lost, next)
    }

    //= rfc8985#section-6.3
    /// The retransmission timer fired: the first piece is lost, and what is due as well.
    pub fn timeout(&mut self, window: Span, now: Time) {
        (self.original, self.lost_again) = (None, false);
        for i in 0..self.log.len() {
            let piece = self.log[i];
            let due = piece.at + self.rtt + window <= now;
            if piece.fate == Fate::Flying && (i == 0 || due) {
                self.lose(i);
            }
        }
    }

    //= rfc8985#section-6.2
    // Step 4.
    /// Something came twice: it was only late. The window widens, once per round trip.
    pub fn repeated(&mut self, una: Seq, max: Seq) {
        let waits = self.reordering || !self.linux;
        if waits && self.round.is_none_or(|r| una.from(r)) {
            self.round = Some(max);
            self.mult = self.mult.saturating_add(1);
            self.persist = PERSIST;
        }
    }

    /// The peer has this twice. What went again and was reported before was overtaken by what went
    /// again (Linux, tcp_sacktag_one).
    pub fn doubled(&mut self, (start, end): (Seq, Seq)) {
        let overtaken = |r: &Record| r.again && r.fate == Fate::Delivered;
        let mut pieces = self.whole(start, end);
        if self.linux && pieces.any(|i| overtaken(&self.log[i])) {
            self.reordering |= self.forward.is_some_and(|f| start.before(f));
        }
    }

    /// A recovery ended.
    pub fn recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.mult = 1;
        }
    }

    /// Nothing is lost after all. What seemed to answer a retransmission answered the first copy,
    /// and says nothing of what left between the two.
    pub fn forgive(&mut self) {
        if !self.linux {
            self.latest = None;
        }
        for i in 0..self.log.len() {
            if self.log[i].fate == Fate::Lost {
                self.set(i, Fate::Flying);
            }
            self.unmark(i);
            self.log[i].told &= self.linux;
        }
    }

    /// The end of the first piece that arrived since the last question, or since the timer fired,
    /// and had been sent once.
    pub fn original(&mut self) -> Option<Seq> {
        self.original.take()
    }

    /// The last acknowledgement reported something that left before what is outstanding first did.
    pub fn overtaken(&self) -> bool {
        let head = self.log.front().map(|r| r.at);
        self.told.zip(head).is_some_and(|(told, head)| told < head)
    }

    /// Whether something that went again was lost since the last question.
    pub fn lost_again(&mut self) -> bool {
        core::mem::take(&mut self.lost_again)
    }

    /// The peer takes its reports back: they are worth nothing, and all goes again (Linux,
    /// tcp_timeout_mark_lost).
    pub fn renege(&mut self) {
        for i in 0..self.log.len() {
            if self.log[i].fate != Fate::Lost {
                self.lose(i);
            }
        }
    }

    /// A piece is taken for lost.
    fn lose(&mut self, i: usize) {
        self.set(i, Fate::Lost);
        let piece = &mut self.log[i];
        if !core::mem::replace(&mut piece.counted, true) {
            self.total += u64::from(piece.octets());
        }
        self.mark(i);
    }

    fn mark(&mut self, i: usize) {
        let piece = &mut self.log[i];
        if !core::mem::replace(&mut piece.marked, true) {
            self.marked += piece.octets();
        }
    }

    fn unmark(&mut self, i: usize) {
        let piece = &mut self.log[i];
        if core::mem::replace(&mut piece.marked, false) {
            self.marked -= piece.octets();
        }
    }

    fn set(&mut self, i: usize, fate: Fate) {
        let (octets, was) = (self.log[i].octets(), self.log[i].fate);
        match was {
            Fate::Flying => self.flying -= octets,
            Fate::Lost => self.lost -= octets,
            Fate::Delivered => {}
        }
        match fate {
            Fate::Flying => self.flying += octets,
            Fate::Lost => self.lost += octets,
            Fate::Delivered => {}
        }
        self.log[i].fate = fate;
    }

    /// The first piece that ends beyond `at`.
    fn place(&self, at: Seq) -> usize {
        self.log.partition_point(|r| r.end.upto(at))
    }

    /// No piece goes across `at` any more.
    fn split(&mut self, at: Seq) {
        let i = self.place(at);
        let Some(piece) = self.log.get_mut(i).filter(|r| r.start.before(at)) else {
            return;
        };
        let head = Record { end: at, ..*piece };
        piece.start = at;
        self.log.insert(i, head);
    }

    /// Numbers of the pieces that make up `start..end`.
    fn pieces(&mut self, start: Seq, end: Seq) -> core::ops::Range<usize> {
        if !end.after(start) {
            return 0..0;
        }
        self.split(start);
        self.split(end);
        self.place(start)..self.place(end)
    }

    /// Numbers of the pieces that lie in `start..end`.
    fn whole(&self, start: Seq, end: Seq) -> core::ops::Range<usize> {
        let first = self.log.partition_point(|r| r.start.before(start));
        first..self.place(end).max(first)
    }

    /// Each of these pieces becomes one with that before it if they are alike.
    fn join(&mut self, pieces: core::ops::Range<usize>) {
        let end = pieces.end.min(self.log.len());
        for i in (pieces.start.max(1)..end).rev() {
            if self.log[i - 1].alike(&self.log[i]) {
                self.log[i - 1].end = self.log[i].end;
                self.log.remove(i);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments of 1000, by number; time in milliseconds; a path of 100 ms.
    struct Path(Rack, Board);

    impl Path {
        fn new() -> Path {
            let mut board = Board::default();
            (board.rtt.min, board.rtt.srtt) = (Span::MILLI * 100, Span::MILLI * 100);
            Path(Rack::new(), board)
        }

        fn send(&mut self, n: u32, at: u64) {
            let start = Seq(n * 1000);
            self.0.sent(start, start.plus(1000), time(at));
        }

        /// Everything below segment `ack` arrived, and these; what is lost then, and when the next.
        fn hear(&mut self, ack: u32, more: &[u32], at: u64, busy: bool) -> (u32, Option<u64>) {
            let ranges: Vec<_> = more
                .iter()
                .map(|n| (Seq(n * 1000), Seq(n * 1000 + 1000)))
                .collect();
            self.0
                .arrived(Seq(ack * 1000), &ranges, None, &self.1, time(at));
            let window = self.0.window(busy, &self.1);
            let (lost, next) = self.0.detect(window, time(at));
            (lost / 1000, next.map(|t| t.0 / 1_000_000))
        }
    }

    fn time(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    /// Linux, tcp_clean_rtx_queue: what went again lies in front, and what is reported left before.
    #[test]
    fn what_left_before_the_head_did_overtakes_it() {
        let mut p = Path::new();
        (0..4).for_each(|n| p.send(n, u64::from(n)));
        p.hear(0, &[2], 100, false);
        assert!(!p.0.overtaken(), "the head left before");
        p.send(0, 110);
        p.hear(0, &[2, 3], 120, false);
        assert!(p.0.overtaken());
        p.hear(0, &[2, 3], 130, false);
        assert!(!p.0.overtaken(), "nothing is new");
    }

    #[test]
    fn what_left_a_quarter_of_the_round_trip_before_is_lost_and_the_rest_is_waited_for() {
        let mut p = Path::new();
        for n in 0..4 {
            p.send(n, u64::from(n) * 20);
        }
        // Segment 3 left at 60 and comes back at 160: 0 left 60 ms before it, 1 and 2 later.
        assert_eq!(p.hear(0, &[3], 160, false), (2, Some(165)));
        assert_eq!(p.0.first_lost(1000), Some((Seq(0), 1000)));
        assert_eq!((p.0.flying(), p.0.lost()), (1000, 2000));
        assert_eq!(p.hear(0, &[], 165, false), (1, None));
        // It was only late: packets overtake each other on this path, which is waited for now even
        // in a recovery.
        p.hear(0, &[2], 170, true);
        assert_eq!(p.0.window(true, &p.1), Span::MILLI * 25);
    }

    #[test]
    fn nobody_waits_for_reordering_that_was_never_seen_once_enough_is_reported() {
        let mut p = Path::new();
        for n in 0..4 {
            p.send(n, 0);
        }
        assert_eq!(p.hear(0, &[1], 100, false), (0, Some(125)));
        assert_eq!(p.hear(0, &[2, 3], 100, true), (1, None));
    }

    #[test]
    fn a_retransmission_that_is_lost_is_found_and_goes_again() {
        let mut p = Path::new();
        for n in 0..4 {
            p.send(n, 0);
        }
        assert_eq!(p.hear(0, &[1, 2, 3], 100, true), (1, None));
        p.send(0, 101);
        assert_eq!((p.0.first_lost(1000), p.0.flying()), (None, 1000));
        p.send(4, 110);
        assert_eq!(p.hear(0, &[4], 210, true), (1, None));
        assert_eq!(p.0.first_lost(1000), Some((Seq(0), 1000)));
        p.send(0, 211);
        assert_eq!(p.hear(5, &[], 311, true), (0, None));
        assert_eq!((p.0.flying(), p.0.lost()), (0, 0));
    }

    /// Acknowledgements that come at once: new data leaves for the first ones, and after it, at the
    /// same time, what they tell to be lost.
    #[test]
    fn what_left_at_the_same_time_left_in_its_order() {
        let mut p = Path::new();
        for n in 0..4 {
            p.send(n, 0);
        }
        assert_eq!(p.hear(0, &[1], 100, false).0, 0);
        p.send(4, 100);
        assert_eq!(p.hear(0, &[2, 3], 100, true), (1, None));
        p.send(0, 100);
        assert_eq!(p.hear(0, &[4], 200, true), (0, None), "it left before");
        p.send(5, 200);
        assert_eq!(p.hear(0, &[5], 300, true), (1, None), "it left after");
    }

    #[test]
    fn the_answer_to_the_first_copy_says_nothing_of_the_second() {
        let mut p = Path::new();
        p.send(0, 0);
        p.send(1, 50);
        p.send(0, 100);
        // 10 ms later than the second copy: it was the first that came.
        assert_eq!(p.hear(1, &[], 110, true), (0, None));
        assert_eq!(p.0.flying(), 1000);
    }

    #[test]
    fn what_comes_twice_widens_the_window_for_sixteen_recoveries() {
        let mut p = Path::new();
        p.0.reordering = true;
        let width = |p: &Path| p.0.window(true, &p.1).micros() / 1000;
        assert_eq!(width(&p), 25);
        for (una, wide) in [(0, 50), (500, 50), (1000, 75), (2000, 100), (3000, 100)] {
            p.0.repeated(Seq(una), Seq(una + 1000));
            assert_eq!(width(&p), wide, "{una}: at most the round trip");
        }
        for _ in 0..15 {
            p.0.recovered();
        }
        assert_eq!(width(&p), 100);
        p.0.recovered();
        assert_eq!(width(&p), 25);
    }

    #[test]
    fn a_timeout_takes_the_first_and_what_is_due_and_no_report_is_for_ever() {
        let mut p = Path::new();
        p.send(0, 0);
        p.hear(1, &[], 100, false);
        for n in 1..4 {
            p.send(n, 100 + 400 * u64::from(n));
        }
        p.0.timeout(Span::MILLI * 25, time(1_100));
        // 1 left at 500, 2 at 900; 3 only at 1300.
        assert_eq!((p.0.lost(), p.0.flying()), (2000, 1000));
        p.hear(1, &[2], 1_150, true);
        p.0.renege();
        assert_eq!((p.0.lost(), p.0.flying()), (3000, 0));
    }

    /// A reduction was taken back, and the same transmission is taken for lost once more.
    #[test]
    fn a_transmission_is_counted_as_lost_once_though_it_was_forgiven() {
        let mut p = Path::new();
        for n in 0..4 {
            p.send(n, 0);
        }
        assert_eq!(p.hear(0, &[2, 3], 100, true), (2, None));
        p.0.forgive();
        assert_eq!((p.0.lost(), p.0.flying(), p.0.total()), (0, 2000, 2000));
        p.send(4, 110);
        p.hear(1, &[], 205, true);
        assert_eq!(p.hear(1, &[4], 210, true), (1, None));
        assert_eq!((p.0.lost(), p.0.total()), (1000, 2000));
        // What goes again is another transmission.
        p.send(1, 211);
        p.send(5, 240);
        assert_eq!(p.hear(1, &[5], 340, true), (1, None));
        assert_eq!(p.0.total(), 3000);
    }

    #[test]
    fn pieces_are_cut_where_ranges_begin_and_end() {
        let mut p = Path::new();
        p.0.sent(Seq(0), Seq(5000), time(0));
        p.0.arrived(Seq(500), &[(Seq(1500), Seq(2500))], None, &p.1, time(100));
        assert_eq!(p.0.flying(), 3500);
        p.0.sent(Seq(500), Seq(1000), time(101));
        assert_eq!((p.0.flying(), p.0.last()), (3500, Some((Seq(2500), 2500))));
        p.0.sent(Seq(4000), Seq(6000), time(102));
        assert_eq!(p.0.flying(), 4500);
    }

    fn linux() -> Path {
        Path(Rack::as_linux(), Path::new().1)
    }

    /// A segment reports its newest range first, and that is not the order in which they arrived.
    #[test]
    fn ranges_that_are_reported_newest_first_are_no_reordering() {
        let mut p = Path::new();
        (0..6).for_each(|n| p.send(n, 0));
        p.hear(0, &[5, 3, 1], 100, true);
        assert_eq!(p.0.window(true, &p.1), Span::ZERO);
        p.hear(0, &[2, 5, 3, 1], 101, true);
        assert_eq!(p.0.window(true, &p.1), Span::MILLI * 25);
    }

    /// TCP's header has room for four ranges; those of other formats have more.
    #[test]
    fn all_ranges_of_a_segment_arrived() {
        let mut p = Path::new();
        (0..20).for_each(|n| p.send(n, 0));
        let odd: Vec<u32> = (0..10).map(|i| 19 - 2 * i).collect();
        assert_eq!(p.hear(0, &odd, 100, true), (10, None));
        assert_eq!((p.0.lost(), p.0.flying()), (10_000, 0));
    }

    /// Linux, tcp_sacktag_write_queue and then tcp_clean_rtx_queue.
    #[test]
    fn the_round_trip_is_of_what_is_acknowledged_and_without_it_of_the_last_report() {
        let mut p = Path::new();
        (0..5).for_each(|n| p.send(n, u64::from(n) * 10));
        // 0 took 120 ms, 2 took 100: by that 1 would be lost since 110.
        assert_eq!(p.hear(1, &[2], 120, true), (0, Some(130)));
        // 4 took 95.
        assert_eq!(p.hear(1, &[4, 2], 135, true), (2, None));
    }

    #[test]
    fn as_linux_new_data_leaves_after_what_goes_again_at_the_same_instant() {
        for (mut p, expected) in [(linux(), (0, Some(200))), (Path::new(), (1, None))] {
            (0..4).for_each(|n| p.send(n, 0));
            assert_eq!(p.hear(0, &[1, 2, 3], 100, true), (1, None));
            p.send(0, 100);
            (4..6).for_each(|n| p.send(n, 100));
            assert_eq!(p.hear(4, &[5], 200, true), expected);
        }
    }

    #[test]
    fn as_linux_each_segment_of_the_first_window_leaves_by_itself() {
        for (mut p, expected) in [(linux(), (0, Some(100))), (Path::new(), (2, None))] {
            (0..5).for_each(|n| p.send(n, 0));
            // By the trip of 0 those behind it are due a few nanoseconds later.
            assert_eq!(p.hear(1, &[2, 4], 100, true), expected);
        }
    }

    #[test]
    fn what_was_lost_is_marked_until_it_arrives() {
        let mut p = Path::new();
        (0..4).for_each(|n| p.send(n, 0));
        p.hear(0, &[1, 2, 3], 100, true);
        assert_eq!(
            (p.0.lost(), p.0.marked(), p.0.flying_again()),
            (1000, 1000, 0)
        );
        p.send(0, 101);
        assert_eq!(
            (p.0.lost(), p.0.marked(), p.0.flying_again()),
            (0, 1000, 1000)
        );
        p.hear(4, &[], 201, true);
        assert_eq!((p.0.marked(), p.0.flying_again()), (0, 0));
    }

    /// Linux, tcp_undo_cwnd_reduction and then tcp_identify_packet_loss.
    #[test]
    fn as_linux_time_tells_of_losses_although_a_timeout_was_for_nothing() {
        for (mut p, lost) in [(linux(), 2000), (Path::new(), 0)] {
            (0..4).for_each(|n| p.send(n, 0));
            p.hear(1, &[], 100, false);
            p.0.timeout(Span::ZERO, time(300));
            assert_eq!(p.0.lost(), 3000);
            p.send(1, 300);
            p.0.arrived(Seq(2000), &[], None, &p.1, time(400));
            p.0.forgive();
            assert_eq!((p.0.lost(), p.0.marked()), (0, 0));
            assert_eq!(p.0.detect(Span::ZERO, time(400)).0, lost);
            p.0.forgive();
            assert_eq!(p.0.detect(Span::ZERO, time(400)).0, 0, "it tells once");
        }
    }

    //= rfc8985#section-6.2
    #[test]
    fn an_echo_of_an_earlier_copy_says_nothing_of_the_last() {
        for (echo, lost) in [(None, 1000), (Some(300), 1000), (Some(299), 0)] {
            let mut p = Path::new();
            (0..2).for_each(|n| p.send(n, 0));
            p.0.stamped(Some(1));
            p.send(0, 300);
            p.0.stamped(Some(300));
            p.0.arrived(Seq(1000), &[], echo, &p.1, time(400));
            assert_eq!(p.0.detect(Span::ZERO, time(400)).0, lost, "{echo:?}");
        }
    }

    /// Linux, tcp_sacktag_one and tcp_dsack_seen.
    #[test]
    fn as_linux_only_who_saw_reordering_waits_longer_and_a_needless_repair_is_such() {
        let mut p = linux();
        (0..4).for_each(|n| p.send(n, 0));
        p.hear(0, &[1, 3], 100, true);
        p.send(2, 101);
        p.0.repeated(Seq(0), Seq(4000));
        assert_eq!(p.0.mult, 1);
        p.hear(0, &[1, 2, 3], 201, true);
        assert_eq!(p.0.window(true, &p.1), Span::ZERO);
        p.0.doubled((Seq(1000), Seq(2000)));
        assert_eq!(p.0.window(true, &p.1), Span::ZERO, "it did not go again");
        p.0.doubled((Seq(2000), Seq(3000)));
        assert_eq!(p.0.window(true, &p.1), Span::MILLI * 25);
        p.0.repeated(Seq(0), Seq(4000));
        assert_eq!(p.0.mult, 2);
    }
}
