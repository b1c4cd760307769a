//! Samples of the delivery rate: how fast the network delivered what was in flight
//! (draft-ietf-ccwg-bbr, section on delivery rate samples).
//!
//! Whoever wants samples keeps a [`Delivery`] and tells it of each segment that left
//! ([`Delivery::sent`]), of each acknowledgement ([`Delivery::arrived`]) and of losses
//! ([`Delivery::lost`]), after the reliability part saw them; [`Delivery::sample`] then says what
//! the acknowledgement tells. Needs a reliability part that counts octets; what such a part takes
//! for lost (`tx.lost`) are the transmissions that are oldest by when they left.

use super::reported;
use crate::board::Board;
use crate::permit::{Kind, Limit};
use crate::signal::Sent;
use std::collections::VecDeque;
use wifu_wire::{Head, Seq, Span, Time};

/// Transmissions for which there is room from the first one on.
const FEW: usize = 256;

/// At most so many are told apart, 1 MiB of them; what leaves beyond joins the last one.
const MANY: usize = 16_384;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Flying,
    Lost,
    /// So many neighbours from this one on are delivered, too.
    Delivered(u32),
}

/// P: a segment, and what was true when it left last.
#[derive(Clone, Copy, Debug)]
struct Record {
    start: Seq,
    end: Seq,
    /// P.send_time.
    at: Time,
    /// P.first_send_time.
    first_sent: Time,
    /// P.delivered_time.
    delivered_at: Time,
    /// P.delivered.
    delivered: u64,
    /// P.lost.
    lost: u64,
    /// P.packet_id: the number of the transmission.
    number: u32,
    /// P.tx_in_flight.
    in_flight: u32,
    /// P.is_app_limited.
    app_limited: bool,
    /// It left more than once.
    again: bool,
    /// It was taken for lost.
    condemned: bool,
    fate: Fate,
}

impl Record {
    fn octets(&self) -> u32 {
        self.end.since(self.start)
    }
}

/// A transmission that is taken for lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostPacket {
    /// Its first octet, and one past its last.
    pub range: (Seq, Seq),
    /// Octets in flight when it had left, its own included.
    pub in_flight: u32,
    /// Octets taken for lost since it left, its own included.
    pub lost: u64,
    /// The application limited the sender when it left.
    pub app_limited: bool,
}

/// RS: what one acknowledgement tells.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sample {
    /// The delivery rate, octets per second; 0 if there is none, or none to rely on.
    pub rate: f64,
    /// Octets delivered since the last packet delivered here had left.
    pub delivered: u64,
    /// What had been delivered in all when it left; `None` if nothing was delivered.
    pub prior: Option<u64>,
    /// The round trip of the latest packet that left once; `None` if all left more than once.
    pub rtt: Option<Span>,
    /// Octets that this acknowledgement reports for the first time.
    pub newly_acked: u32,
    /// Octets taken for lost with it.
    pub newly_lost: u32,
    /// Octets that were in flight when the last packet delivered here had left.
    pub in_flight: u32,
    /// Octets taken for lost since.
    pub lost: u64,
    /// The application limited the sender then.
    pub app_limited: bool,
}

/// The most recent transmission among those that an acknowledgement delivered.
#[derive(Clone, Copy, Debug)]
struct Newest {
    number: u32,
    prior: u64,
    interval: Span,
    in_flight: u32,
    lost: u64,
    app_limited: bool,
}

/// What is known of a recovery, octets.
#[derive(Clone, Copy, Debug, Default)]
struct Episode {
    /// Taken for lost.
    lost: u32,
    /// Of these, what was only late.
    late: u32,
    /// Of these, what went again and arrived, nobody knows by which copy.
    doubt: u32,
}

/// C: what a connection sent, and what became of it. Takes memory with the first segment.
#[derive(Clone, Debug, Default)]
pub struct Delivery {
    /// What is not acknowledged, in order.
    log: VecDeque<Record>,
    /// C.delivered and C.delivered_time.
    delivered: u64,
    delivered_at: Time,
    /// C.first_send_time.
    first_sent: Time,
    /// C.lost.
    lost: u64,
    /// C.app_limited.
    app_limited: Option<u64>,
    /// C.min_rtt.
    min_rtt: Option<Span>,
    /// Octets in the log that are on their way, and that are lost and did not go again.
    flying: u32,
    missing: u32,
    /// The last transmission's number.
    number: u32,
    /// `tx.lost` as far as it was heard of.
    told: u64,
    /// Octets counted by duplicate acknowledgements, which a cumulative one will count again.
    early: u32,
    episode: Episode,
    newest: Option<Newest>,
    rtt: Option<Span>,
    newly: (u32, u32),
}

impl Delivery {
    /// Octets delivered so far.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Whether something that left is not acknowledged, or went again for nothing perhaps.
    pub fn waits(&self) -> bool {
        !self.log.is_empty() || self.episode.doubt > 0
    }

    /// Whether what leaves now is limited by the application.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited.is_some()
    }

    /// What is in flight now does not show what the path carries (MarkConnectionAppLimited).
    pub fn limit(&mut self) {
        self.app_limited = Some((self.delivered + u64::from(self.flying)).max(1));
    }

    //= bbr-draft#detecting-application-limited-phases
    /// The application writes, or an acknowledgement comes, of which [`Delivery::arrived`] was not
    /// told yet: whether the sender had paused for want of data, with room in the window of `cwnd`
    /// octets and nothing to repair.
    pub fn check_limited(&mut self, cwnd: u32, board: &Board) {
        let idle = matches!(
            board.app.limited,
            Limit::Source | Limit::Drain | Limit::Buffer
        );
        if idle && self.flying < cwnd && self.missing == 0 {
            self.limit();
        }
    }

    //= bbr-draft#transmitting-a-data-packet
    /// A segment left.
    pub fn sent(&mut self, sent: &Sent, board: &Board, now: Time) {
        let end = sent.seq.plus(sent.bytes).earlier(board.tx.max);
        let data = sent.kind.is_data() || sent.kind == Kind::Probe;
        if !data || !end.after(sent.seq) {
            return;
        }
        if self.flying == 0 {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        self.number = self.number.wrapping_add(1);
        let record = Record {
            start: sent.seq,
            end,
            at: now,
            first_sent: self.first_sent,
            delivered_at: self.delivered_at,
            delivered: self.delivered,
            lost: self.lost,
            number: self.number,
            in_flight: board.tx.pipe,
            app_limited: self.is_app_limited(),
            again: false,
            condemned: false,
            fate: Fate::Flying,
        };
        let known = self.log.back().map_or(sent.seq, |r| r.end);
        if sent.seq.before(known) {
            self.again(&record);
        }
        let start = sent.seq.later(known);
        if end.after(start) {
            self.append(Record { start, ..record });
        }
    }

    fn append(&mut self, record: Record) {
        let full = self.log.len() >= MANY;
        if let Some(last) = self.log.back_mut().filter(|_| full) {
            if last.fate != Fate::Flying || last.end != record.start {
                return;
            }
            last.end = record.end;
        } else {
            if self.log.capacity() == 0 {
                self.log.reserve_exact(FEW);
            }
            self.log.push_back(record);
        }
        self.flying += record.octets();
    }

    /// What was sent before leaves again.
    fn again(&mut self, new: &Record) {
        let first = self.log.partition_point(|r| r.start.before(new.start));
        for r in self.log.range_mut(first..) {
            if r.end.after(new.end) {
                break;
            }
            let octets = r.octets();
            match r.fate {
                Fate::Delivered(_) => continue,
                Fate::Lost => {
                    self.missing -= octets;
                    self.flying += octets;
                }
                Fate::Flying => {}
            }
            *r = Record {
                start: r.start,
                end: r.end,
                again: true,
                condemned: r.condemned,
                ..*new
            };
        }
    }

    //= bbr-draft#upon-receiving-an-ack
    /// An acknowledgement came, and the reliability part has seen it.
    pub fn arrived(&mut self, head: &Head, board: &Board, now: Time) {
        (self.newest, self.rtt, self.newly) = (None, None, (0, 0));
        let una = board.tx.una;
        while let Some(first) = self.log.front().copied()
            && first.start.before(una)
        {
            self.deliver(0, first.end.earlier(una).since(first.start), now);
            if first.end.after(una) {
                self.log[0].start = una;
                break;
            }
            self.log.pop_front();
        }
        for (start, end) in reported(head, una, board.tx.max) {
            self.reported(*start, *end, now);
        }
        if self.episode.doubt > 0 && head.came_twice(una) {
            let twice = head.ranges().first().map_or(0, |r| r.1.since(r.0));
            let octets = twice.min(self.episode.doubt);
            self.episode.doubt -= octets;
            self.episode.late += octets;
        }
        if self.log.is_empty() {
            self.early = 0;
        }
    }

    /// The peer has `start..end`: every segment that lies in it is delivered.
    fn reported(&mut self, start: Seq, end: Seq, now: Time) {
        let first = self.log.partition_point(|r| r.start.before(start));
        let mut i = first;
        while let Some(r) = self.log.get(i)
            && r.end.upto(end)
        {
            if let Fate::Delivered(run) = r.fate {
                i += run as usize;
                continue;
            }
            self.deliver(i, r.octets(), now);
            self.log[i].fate = Fate::Delivered(1);
            i += 1;
        }
        // The next report of the same range passes over it at once.
        if i > first {
            self.log[first].fate = Fate::Delivered((i - first) as u32);
        }
    }

    /// UpdateRateSample.
    fn deliver(&mut self, i: usize, octets: u32, now: Time) {
        let r = self.log[i];
        let trip = now - r.at;
        match r.fate {
            Fate::Delivered(_) => return,
            Fate::Flying => {
                self.flying -= octets;
                // Sooner than any packet came back: it was the first copy.
                let first = self.min_rtt.is_some_and(|min| trip < min);
                match r.condemned && r.again {
                    true if first => self.episode.late += octets,
                    true => self.episode.doubt += octets,
                    false => {}
                }
            }
            Fate::Lost => {
                self.missing -= octets;
                self.episode.late += octets;
            }
        }
        let known = self.early.min(octets);
        self.early -= known;
        self.delivered += u64::from(octets - known);
        self.newly.0 += octets - known;
        self.delivered_at = now;
        if !r.again {
            self.rtt = Some(self.rtt.map_or(trip, |least| least.min(trip)));
            self.min_rtt = Some(self.min_rtt.map_or(trip, |least| least.min(trip)));
        }
        let newer = match self.newest {
            None => true,
            Some(n) => {
                let later = (r.number.wrapping_sub(n.number) as i32) > 0;
                r.at > self.first_sent || r.at == self.first_sent && later
            }
        };
        if newer {
            let elapsed = (r.at - r.first_sent).max(now - r.delivered_at);
            self.newest = Some(Newest {
                number: r.number,
                prior: r.delivered,
                interval: elapsed,
                in_flight: r.in_flight,
                lost: r.lost,
                app_limited: r.app_limited,
            });
            self.first_sent = r.at;
        }
    }

    //= bbr-draft#connections-without-sack
    /// A duplicate acknowledgement came: where the peer reports no ranges, some segment reached it.
    pub fn duplicate(&mut self, board: &Board, now: Time) {
        if !board.conn.peer.sack_ok {
            let octets = board.conn.mss.min(self.flying.saturating_sub(self.early));
            self.early += octets;
            self.delivered += u64::from(octets);
            self.delivered_at = now;
        }
    }

    /// Everything that was taken for lost since the recovery began was only late: said once.
    pub fn was_spurious(&mut self) -> bool {
        let spurious = self.episode.lost > 0 && self.episode.lost == self.episode.late;
        if spurious {
            self.episode = Episode::default();
        }
        spurious
    }

    /// Calls `each` with every transmission that the reliability part takes for lost since this was
    /// asked last; `repairing`: in a recovery that is under way, else they begin one.
    pub fn lost(&mut self, board: &Board, repairing: bool, mut each: impl FnMut(&LostPacket)) {
        let mut owed = board.tx.lost - self.told.min(board.tx.lost);
        self.told = board.tx.lost;
        if owed == 0 {
            return;
        }
        if !repairing {
            self.episode = Episode::default();
        }
        let oldest = self.oldest(owed);
        for r in &mut self.log {
            let age = self.number.wrapping_sub(r.number);
            if owed == 0 || r.fate != Fate::Flying || age < oldest {
                continue;
            }
            let octets = r.octets();
            owed = owed.saturating_sub(u64::from(octets));
            (r.fate, r.condemned) = (Fate::Lost, true);
            self.flying -= octets;
            self.missing += octets;
            self.lost += u64::from(octets);
            self.newly.1 += octets;
            self.episode.lost += octets;
            each(&LostPacket {
                range: (r.start, r.end),
                in_flight: r.in_flight,
                lost: self.lost - r.lost,
                app_limited: r.app_limited,
            });
        }
    }

    /// The age, in transmissions, from which on those on their way make up `owed` octets.
    fn oldest(&self, owed: u64) -> u32 {
        if owed >= u64::from(self.flying) {
            return 0;
        }
        let flying = || self.log.iter().filter(|r| r.fate == Fate::Flying);
        let age = |r: &Record| self.number.wrapping_sub(r.number);
        let enough = |least: u32| {
            let old = flying().filter(|r| age(r) >= least);
            old.map(|r| u64::from(r.octets())).sum::<u64>() >= owed
        };
        let (mut low, mut high) = (0, flying().map(age).max().unwrap_or(0));
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if enough(middle) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }

    //= bbr-draft#upon-receiving-an-ack
    /// GenerateRateSample: after [`Delivery::arrived`] and [`Delivery::lost`].
    pub fn sample(&mut self) -> Sample {
        if self.app_limited.is_some_and(|upto| self.delivered > upto) {
            self.app_limited = None;
        }
        let (newly_acked, newly_lost) = self.newly;
        let Some(newest) = self.newest else {
            return Sample {
                newly_lost,
                ..Sample::default()
            };
        };
        let delivered = self.delivered - newest.prior;
        let plausible = self.min_rtt.is_none_or(|min| newest.interval >= min);
        let rate = if plausible && newest.interval > Span::ZERO {
            delivered as f64 / newest.interval.as_secs_f64()
        } else {
            0.0
        };
        Sample {
            rate,
            delivered,
            prior: Some(newest.prior),
            rtt: self.rtt,
            newly_acked,
            newly_lost,
            in_flight: newest.in_flight,
            lost: self.lost - newest.lost,
            app_limited: newest.app_limited,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permit::Reason;

    const MSS: u32 = 1000;

    /// A sender of segments of 1000 octets, by number; times in milliseconds.
    struct Flow {
        d: Delivery,
        board: Board,
        repairing: bool,
    }

    fn time(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    impl Flow {
        fn new() -> Flow {
            let mut board = Board::default();
            board.conn.mss = MSS;
            board.conn.peer.sack_ok = true;
            let d = Delivery::default();
            let repairing = false;
            Flow {
                d,
                board,
                repairing,
            }
        }

        fn leaves(&mut self, seq: u32, bytes: u32, at: u64) {
            let seq = Seq(seq);
            self.board.tx.max = self.board.tx.max.later(seq.plus(bytes));
            self.board.tx.pipe += bytes;
            let sent = Sent {
                kind: Kind::New,
                reason: Reason::First,
                acks: true,
                seq,
                bytes,
                late: Span::ZERO,
            };
            self.d.sent(&sent, &self.board, time(at));
        }

        fn send(&mut self, n: u32, at: u64) {
            self.leaves(n * MSS, MSS, at);
        }

        /// Everything below segment `una` arrived, and these ranges of segments.
        fn hear(&mut self, una: u32, ranges: &[(u32, u32)], at: u64) -> Sample {
            self.board.tx.una = Seq(una * MSS);
            let mut head = Head::default();
            head.ack = Some(self.board.tx.una);
            for (a, b) in ranges {
                head.push_range((Seq(a * MSS), Seq(b * MSS)));
            }
            self.d.arrived(&head, &self.board, time(at));
            let mut found = Vec::new();
            self.d.lost(&self.board, true, |p| found.push(*p));
            let rs = self.d.sample();
            self.board.tx.pipe = self.d.flying;
            rs
        }

        /// So many octets are taken for lost: the segments.
        fn lose(&mut self, octets: u64) -> Vec<u32> {
            self.board.tx.lost += octets;
            let mut found = Vec::new();
            self.d.lost(&self.board, self.repairing, |p| {
                found.push(p.range.0.0 / MSS)
            });
            self.board.tx.pipe = self.d.flying;
            found
        }
    }

    /// Ten segments leave at one per millisecond over a path of 100 ms that carries one per 2 ms;
    /// then each acknowledgement lets one leave. Of each the longer of both intervals counts.
    #[test]
    fn a_rate_is_what_was_delivered_over_the_longer_of_both_intervals() {
        let mut f = Flow::new();
        for n in 0..10 {
            f.send(n, u64::from(n));
        }
        let (mut first, mut second, mut third) = (Vec::new(), Vec::new(), Vec::new());
        for (round, rates) in [&mut first, &mut second, &mut third]
            .into_iter()
            .enumerate()
        {
            for k in 0..10u32 {
                let at = 100 * (round as u64 + 1) + 2 * u64::from(k);
                let n = 10 * round as u32 + k;
                let rs = f.hear(n + 1, &[], at);
                assert_eq!((rs.newly_acked, rs.app_limited), (MSS, false));
                rates.push((rs.delivered, rs.rate.round() as u32));
                f.send(n + 10, at);
            }
        }
        // Nothing was delivered before them; the clock of deliveries began with the first one.
        // 1000 / 0.1 s, 2000 / 0.102 s, ..., 10000 / 0.118 s.
        assert_eq!(first[..2], [(1000, 10_000), (2000, 19_608)]);
        assert_eq!(first[9], (10_000, 84_746));
        // Ten were delivered in 100 ms, but the last of them left 109 ms after the flight began.
        assert_eq!(second[0], (10_000, 100_000));
        assert_eq!(second[9], (10_000, 91_743));
        assert!(third.iter().all(|r| *r == (10_000, 100_000)), "{third:?}");
        assert_eq!(f.d.delivered(), 30_000);
    }

    /// Acknowledgements that a node held back come at once: the rate is that of sending.
    #[test]
    fn compressed_acknowledgements_are_no_faster_than_what_they_acknowledge() {
        let mut f = Flow::new();
        for n in 0..30 {
            let at = 10 * u64::from(n);
            if n >= 10 {
                f.hear(n - 9, &[], at);
            }
            f.send(n, at);
        }
        // 21 to 26 at 300 instead of at 310 to 360: 16 in the 100 ms until then, were it not for
        // the 150 ms in which these left.
        for n in 20..27 {
            let rs = f.hear(n + 1, &[], 300);
            assert_eq!(rs.rate.round() as u32, 100_000, "{n}");
        }
        assert_eq!(f.hear(27, &[], 300).rate, 0.0, "nothing new");
    }

    #[test]
    fn a_sample_is_of_the_transmission_that_left_last() {
        let mut f = Flow::new();
        for n in 0..6 {
            f.send(n, 10 * u64::from(n));
        }
        // Ranges tell of the third and the fifth; the fifth left last.
        let rs = f.hear(0, &[(4, 5), (2, 3)], 140);
        assert_eq!(
            (rs.delivered, rs.newly_acked, rs.in_flight),
            (2000, 2000, 5000)
        );
        assert_eq!((rs.prior, rs.rtt), (Some(0), Some(Span::MILLI * 100)));
        assert_eq!(rs.rate.round(), (2000.0f64 / 0.14).round());
        // What was reported is not counted again; the fourth, not the third, is the newest here.
        let rs = f.hear(5, &[], 150);
        assert_eq!(
            (rs.delivered, rs.newly_acked, rs.in_flight),
            (5000, 3000, 4000)
        );
        assert_eq!(rs.rtt, Some(Span::MILLI * 120));
        assert_eq!((f.d.flying, f.d.delivered()), (1000, 5000));
        // A report that was known already is none.
        assert_eq!(f.hear(5, &[], 155).prior, None);
    }

    #[test]
    fn half_a_segment_counts_half_and_the_rest_later() {
        let mut f = Flow::new();
        f.send(0, 0);
        f.send(1, 0);
        f.board.tx.una = Seq(1400);
        let mut head = Head::default();
        head.ack = Some(Seq(1400));
        f.d.arrived(&head, &f.board, time(100));
        assert_eq!(f.d.sample().newly_acked, 1400);
        assert_eq!((f.d.flying, f.hear(2, &[], 110).newly_acked), (600, 600));
        assert!(!f.d.waits());
    }

    //= bbr-draft#detecting-application-limited-phases
    #[test]
    fn samples_are_limited_until_the_gap_has_left_the_path() {
        let mut f = Flow::new();
        f.board.app.limited = Limit::Source;
        f.d.check_limited(10_000, &f.board);
        f.send(0, 0);
        assert!(f.hear(1, &[], 100).app_limited);
        assert!(!f.d.is_app_limited(), "that was all");
        for n in 1..4 {
            f.send(n, 100);
        }
        // All is sent, and the window holds more: what leaves from here on is limited until what
        // is in flight now, and one more, was acknowledged.
        f.board.app.limited = Limit::Drain;
        f.d.check_limited(3000, &f.board);
        assert!(!f.d.is_app_limited(), "the window is full");
        f.d.check_limited(3001, &f.board);
        f.send(4, 150);
        let limited = [2, 3, 4].map(|una| f.hear(una, &[], 200).app_limited);
        assert_eq!(limited, [false; 3], "these left before");
        assert!(f.d.is_app_limited());
        assert!(f.hear(5, &[], 250).app_limited);
        f.send(5, 250);
        assert!(!f.hear(6, &[], 350).app_limited);
        // Whoever waits for something else is not limited, nor who has something to repair.
        for limit in [Limit::Window, Limit::Pace, Limit::Peer, Limit::Queue] {
            f.board.app.limited = limit;
            f.d.check_limited(9000, &f.board);
        }
        f.send(6, 400);
        f.board.app.limited = Limit::Drain;
        f.lose(1000);
        f.d.check_limited(9000, &f.board);
        assert!(!f.d.is_app_limited());
    }

    #[test]
    fn what_is_lost_left_first_and_counts_for_those_that_left_before_it_was() {
        let mut f = Flow::new();
        for n in 0..5 {
            f.send(n, 10 * u64::from(n));
        }
        f.hear(0, &[(3, 4)], 130);
        assert_eq!(f.lose(2000), [0, 1]);
        assert_eq!((f.d.flying, f.d.missing), (2000, 2000));
        f.send(0, 131);
        f.send(5, 132);
        let rs = f.hear(0, &[(3, 5)], 140);
        assert_eq!((rs.lost, rs.in_flight), (2000, 5000), "lost since it left");
        let rs = f.hear(0, &[(3, 6)], 232);
        // Of the sixth nothing was lost, and it is the newest.
        assert_eq!((rs.lost, rs.in_flight), (0, 4000));
        // The third left before the repetition of the first, which left before nothing else.
        assert_eq!(f.lose(1000), [2]);
        assert_eq!(f.lose(1000), [0]);
        assert_eq!(f.lose(5000), [0; 0], "nothing else is on its way");
        assert_eq!((f.d.flying, f.d.missing), (0, 3000));
    }

    #[test]
    fn a_loss_is_told_with_what_was_lost_and_in_flight_since_it_left() {
        let mut f = Flow::new();
        for n in 0..100 {
            f.send(n, u64::from(n));
        }
        f.board.tx.lost = 3000;
        let mut told = Vec::new();
        f.d.lost(&f.board, false, |p| told.push((p.in_flight, p.lost)));
        assert_eq!(told, [(1000, 1000), (2000, 2000), (3000, 3000)]);
    }

    /// draft: "discarding samples whose RS.interval is lower than the minimum RTT".
    #[test]
    fn a_repetition_times_no_round_trip_and_what_came_too_soon_is_no_rate() {
        let mut f = Flow::new();
        f.send(0, 0);
        f.hear(1, &[], 100);
        for n in 1..4 {
            f.send(n, 100);
        }
        assert_eq!(f.lose(1000), [1]);
        f.send(1, 220);
        // Its first copy arrives now: the sample would begin with the second one.
        let rs = f.hear(2, &[], 240);
        assert_eq!((rs.rtt, rs.newly_acked), (None, 1000));
        assert_eq!(rs.rate.round() as u32, 7143, "the clock began at 100");
        assert!(f.d.was_spurious());
        // The second: nothing was in flight when it left.
        assert_eq!(f.lose(2000), [2, 3]);
        f.send(2, 400);
        assert_eq!(f.hear(3, &[], 450).rate, 0.0);
        assert!(!f.d.was_spurious(), "one of two");
        f.send(3, 460);
        assert!(f.hear(4, &[], 570).rate > 0.0);
        assert!(!f.d.was_spurious(), "that one was lost");
    }

    #[test]
    fn what_arrives_without_going_again_was_never_lost() {
        let mut f = Flow::new();
        for n in 0..3 {
            f.send(n, 0);
        }
        f.lose(2000);
        f.hear(1, &[], 130);
        assert!(!f.d.was_spurious());
        f.hear(2, &[], 131);
        assert!(f.d.was_spurious());
    }

    //= rfc2883#section-4
    #[test]
    fn what_came_twice_had_not_been_lost() {
        let mut f = Flow::new();
        f.send(0, 0);
        f.hear(1, &[], 100);
        for n in 1..3 {
            f.send(n, 200);
        }
        f.lose(2000);
        f.send(1, 1200);
        // A second later: of either copy.
        f.hear(2, &[], 2200);
        f.hear(3, &[], 2200);
        assert!(!f.d.was_spurious() && f.d.waits());
        f.hear(3, &[(1, 2)], 2300);
        assert!(f.d.was_spurious() && !f.d.waits());
    }

    //= bbr-draft#connections-without-sack
    #[test]
    fn duplicates_count_where_there_are_no_ranges_and_only_once() {
        let mut f = Flow::new();
        f.board.conn.peer.sack_ok = false;
        for n in 0..5 {
            f.send(n, 0);
        }
        for at in [100, 110, 120, 130, 140, 150] {
            f.d.duplicate(&f.board, time(at));
        }
        assert_eq!(f.d.delivered(), 5000, "no more than there are");
        let rs = f.hear(4, &[], 200);
        assert_eq!((f.d.delivered(), rs.newly_acked), (5000, 0));
        f.hear(5, &[], 210);
        f.send(5, 210);
        assert_eq!(f.hear(6, &[], 310).newly_acked, 1000);
        f.board.conn.peer.sack_ok = true;
        f.d.duplicate(&f.board, time(400));
        assert_eq!(f.d.delivered(), 6000);
    }

    /// Segments of one octet, reported one by one from the end.
    #[test]
    fn memory_is_bounded_whatever_is_sent_and_reported() {
        let mut f = Flow::new();
        let many = MANY as u32 + 5000;
        for n in 0..many {
            f.leaves(n, 1, 0);
        }
        assert_eq!((f.d.log.len(), f.d.flying), (MANY, many));
        for n in (1..many).rev().step_by(2) {
            f.board.tx.una = Seq(0);
            let mut head = Head::default();
            head.push_range((Seq(n), Seq(n + 1)));
            f.d.arrived(&head, &f.board, time(100));
        }
        assert_eq!(f.d.log.len(), MANY);
        f.leaves(many, 1, 200);
        let before = f.d.delivered();
        f.board.tx.una = f.board.tx.max;
        f.d.arrived(&Head::default(), &f.board, time(300));
        assert_eq!((f.d.waits(), f.d.flying), (false, 0));
        assert_eq!(f.d.delivered(), u64::from(many) + 1, "{before}");
    }

    /// Against a plain list: random segments, ranges, losses and repetitions.
    #[test]
    fn octets_are_counted_once_whatever_happens() {
        let mut rng = wifu_wire::Rng::new(3);
        let mut f = Flow::new();
        let mut fate = vec![0u8; 4000]; // 0: flying, 1: lost, 2: delivered
        let (mut una, mut max) = (0u32, 0u32);
        for step in 0..20_000u64 {
            match rng.below(5) {
                0 | 1 if (max as usize) < fate.len() => {
                    f.send(max, step);
                    max += 1;
                }
                2 if max > una => {
                    let a = una + 1 + rng.below(u64::from(max - una)) as u32;
                    let b = (a + 1 + rng.below(20) as u32).min(max);
                    if a < b {
                        f.hear(una, &[(a, b)], step);
                        (a..b).for_each(|n| fate[n as usize] = 2);
                    }
                }
                3 if max > una => {
                    una += rng.below(u64::from((max - una).min(10) + 1)) as u32;
                    f.hear(una, &[], step);
                    (0..una).for_each(|n| fate[n as usize] = 2);
                }
                _ => {
                    for n in f.lose(rng.below(3) * 1000) {
                        assert_eq!(std::mem::replace(&mut fate[n as usize], 1), 0, "{step}");
                    }
                    let lost = (una..max).find(|n| fate[*n as usize] == 1);
                    if let Some(n) = lost.filter(|_| rng.below(2) == 0) {
                        f.send(n, step);
                        fate[n as usize] = 0;
                    }
                }
            }
            let count = |what: u8| {
                let all = fate[..max as usize].iter().filter(|f| **f == what);
                all.count() as u32 * MSS
            };
            assert_eq!((f.d.flying, f.d.missing), (count(0), count(1)), "{step}");
            assert_eq!(f.d.delivered(), u64::from(count(2)), "{step}");
        }
        assert!(una > 1000, "{una}");
    }
}
