//! What is lost, what is in flight, and what goes next (RFC 6675 section 4), by reports or by
//! duplicates that stand for them.

use super::duplicates::Duplicates;
use super::ranges::{Ranges, reported};
use super::sender::Sender;
use crate::board::Board;
use crate::component::Segment;
use crate::params::ParamSpec;
use crate::permit::Kind;
use wifu_wire::{Flags, Seq};

/// What begins an episode.
pub const EPISODES: ParamSpec = ParamSpec::text(
    "episodes",
    "rfc",
    &["rfc", "linux"],
    "When the window falls once more: for every timeout but a further one of the same data \
     (RFC 5681 3.1); or not for one that ends a recovery, but for a retransmission that is \
     lost after a timeout, with `rack` (Linux, tcp_enter_loss, tcp_fastretrans_alert). Then, too, \
     what came twice counts as delivered, a recovery begins anew that ends while something that \
     was lost has not arrived, and what RFC 8985 leaves open is as in Linux (tcp_dsack_seen, \
     tcp_time_to_recover, tcp_rack_advance).",
);

/// When the timer begins anew.
pub const REARM: ParamSpec = ParamSpec::flag(
    "rearm",
    false,
    "A retransmission of what is outstanding first starts the timer anew, and so does, with `rack`, \
     the report of what left before it and was sent once (Linux, tcp_xmit_retransmit_queue, \
     tcp_clean_rtx_queue).",
);

/// The switch of limited transmit.
pub const LTX: ParamSpec = ParamSpec::flag(
    "ltx",
    false,
    "Limited transmit on the first duplicates (RFC 3042).",
);

/// The size of the scoreboard.
pub const RANGES: ParamSpec = ParamSpec::int(
    "ranges",
    8192,
    4,
    65_536,
    "Ranges that the scoreboard holds.",
);

/// The scoreboard, and the episode under way.
#[derive(Debug)]
pub struct Holes {
    /// Duplicate acknowledgements, or segments reported beyond a hole, that tell of a loss (RFC
    /// 6675).
    pub dupthresh: u32,
    /// Limited transmit.
    pub ltx: bool,
    /// What was reported.
    pub ranges: Ranges,
    /// RecoveryPoint; `None` once it was passed.
    pub recover: Option<Seq>,
    /// A recovery is under way.
    pub in_recovery: bool,
    /// Duplicates in a row.
    pub dupacks: u32,
    /// Unreported octets below this are lost.
    pub lost_edge: Seq,
    /// Everything below was outstanding when the timer fired.
    pub timeout_edge: Option<Seq>,
    /// One past the highest octet retransmitted in this episode.
    pub high_rxt: Seq,
    /// NextSeg rule 4 was used in this episode.
    pub last_resort: bool,
    /// The window of the latest segment.
    pub last_window: u32,
    /// Where they stand for reports.
    pub duplicates: Option<Duplicates>,
}

/// What an acknowledgement that moved the edge did.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// Octets that it told of for the first time.
    pub delivered: u32,
    /// It took reports back.
    pub reneged: bool,
    /// It ended an episode.
    pub ended: bool,
}

impl Holes {
    /// Nothing was sent.
    pub fn new(dupthresh: u32, ltx: bool, ranges: usize, emulate: bool) -> Holes {
        Holes {
            dupthresh,
            ltx,
            ranges: Ranges::new(ranges),
            recover: None,
            in_recovery: false,
            dupacks: 0,
            lost_edge: Seq(0),
            timeout_edge: None,
            high_rxt: Seq(0),
            last_resort: false,
            last_window: 0,
            duplicates: emulate.then(|| Duplicates::new(dupthresh)),
        }
    }

    /// Whether the peer reports ranges.
    #[inline]
    pub fn reports(board: &Board) -> bool {
        board.conn.peer.sack_ok
    }

    /// What was acknowledged and reported so far: one number that grows with every delivery.
    #[inline]
    pub fn delivered(&self, board: &Board) -> Seq {
        let left = self.emulated(board).map_or(0, |d| d.left());
        let reported = self.ranges.total() + left.saturating_mul(board.conn.mss);
        board.tx.una.plus(reported)
    }

    /// Enter what the segment reports; returns how many octets are new.
    #[inline]
    pub fn note(&mut self, seg: &Segment<'_>, board: &Board) -> u32 {
        if !Holes::reports(board) || seg.head.ranges().is_empty() {
            return 0;
        }
        self.enter(seg, board)
    }

    #[inline(never)]
    fn enter(&mut self, seg: &Segment<'_>, board: &Board) -> u32 {
        let sane = reported(seg.head, board.tx.una, board.tx.max);
        sane.map(|(a, b)| self.ranges.insert(*a, *b)).sum()
    }

    /// `una` moved to `ack`, by `space`; `before`: see [`Holes::delivered`], before it did.
    pub fn pass(&mut self, ack: Seq, space: u32, before: Seq, board: &Board) -> Passed {
        self.ranges.forget(ack);
        let mut passed = Passed {
            delivered: ack.plus(self.ranges.total()).beyond(before),
            // An ACK that ends inside a reported range takes the report back (RFC 2018 section 8).
            reneged: self.ranges.covering(ack).is_some(),
            ended: self.recover.is_some_and(|r| ack.from(r)),
        };
        if passed.reneged {
            self.ranges.clear();
        }
        self.high_rxt = self.high_rxt.later(ack);
        self.timeout_edge = self.timeout_edge.filter(|t| t.after(ack));
        let emulated = self.emulated(board).is_some();
        if passed.ended {
            // Without reports duplicates of an acknowledgement of exactly that much may still
            // answer retransmissions (RFC 6582 section 4).
            let holds = emulated && self.recover == Some(ack);
            (self.in_recovery, self.recover) = (false, self.recover.filter(|_| holds));
        }
        if emulated {
            passed.delivered = self.count_acked(space, board);
        }
        if let (false, Some(d)) = (self.in_recovery, &mut self.duplicates) {
            d.reset();
        }
        passed
    }

    /// Something outstanding counts as lost.
    #[inline]
    pub fn tell(&self, board: &Board) -> bool {
        if let Some(d) = self.emulated(board) {
            return d.enough();
        }
        let lost = self.lost_edge.after(board.tx.una) && !self.ranges.is_empty();
        self.dupacks >= self.dupthresh || lost
    }

    /// Something is being repaired.
    #[inline]
    pub fn repairs(&self) -> bool {
        self.in_recovery || self.timeout_edge.is_some()
    }

    /// Duplicates stand for reports.
    #[inline]
    pub fn emulated(&self, board: &Board) -> Option<&Duplicates> {
        self.duplicates.as_ref().filter(|_| !Self::reports(board))
    }

    /// So many reports or duplicates mean a loss.
    pub fn threshold(&self) -> u32 {
        self.duplicates.map_or(self.dupthresh, |d| d.threshold())
    }

    /// Segments in `octets`.
    fn segments(octets: u32, board: &Board) -> u32 {
        octets.div_ceil(board.conn.mss.max(1))
    }

    /// Segments that the timer took for lost.
    fn timed_out(&self, board: &Board) -> u32 {
        let edge = self.timeout_edge.unwrap_or(board.tx.una);
        Self::segments(edge.beyond(board.tx.una), board)
    }

    /// A duplicate came. After a timeout only those count that new data may have called for.
    pub fn count_duplicate(&mut self, board: &Board) {
        let repairs = self.timeout_edge.is_some_and(|t| !board.tx.max.after(t));
        // Where a timeout was taken back it is the same.
        let counts = |r: Seq| r.after(board.tx.una) && board.tx.max.after(r);
        let holds = !self.repairs() && self.recover.is_some_and(|r| !counts(r));
        if self.emulated(board).is_none() || repairs || holds {
            return;
        }
        let out = Self::segments(board.tx.flight(), board);
        let lost = self.timed_out(board).max(u32::from(self.in_recovery));
        if let Some(d) = &mut self.duplicates {
            d.add(out, lost);
        }
    }

    /// So many octets were acknowledged, and the edge has moved. Returns how many octets were
    /// delivered by it.
    pub fn count_acked(&mut self, space: u32, board: &Board) -> u32 {
        let out = Self::segments(board.tx.flight(), board);
        let (acked, lost) = (Self::segments(space, board), self.timed_out(board));
        let Some(d) = &mut self.duplicates else {
            return space;
        };
        let delivered = d.acked(acked, out, lost);
        delivered.saturating_mul(board.conn.mss).min(space)
    }

    //= rfc6675#section-4
    /// IsLost: everything unreported below the returned number is lost.
    #[inline]
    pub fn find_lost_edge(&self, board: &Board) -> Seq {
        if self.ranges.is_empty() && self.timeout_edge.is_none() && !self.in_recovery {
            return board.tx.una;
        }
        self.edge_of_loss(board)
    }

    #[inline(never)]
    fn edge_of_loss(&self, board: &Board) -> Seq {
        let una = board.tx.una;
        if self.ranges.is_empty() {
            let edge = self.timeout_edge.map_or(una, |t| una.later(t));
            let head = self.in_recovery && self.emulated(board).is_some();
            let first = una.plus(if head { board.conn.mss } else { 0 });
            return edge.later(first.earlier(board.tx.max));
        }
        let enough = (self.dupthresh - 1) * board.conn.mss;
        let (mut ranges, mut octets) = (0, 0);
        let mut edge = una;
        for r in self.ranges.list().iter().rev() {
            ranges += 1;
            octets += r.1.since(r.0);
            if ranges >= self.dupthresh || octets > enough {
                edge = r.0;
                break;
            }
        }
        match self.timeout_edge {
            Some(t) => edge.later(t),
            None => edge,
        }
    }

    //= rfc6675#section-4
    /// SetPipe, octets.
    #[inline]
    pub fn pipe(&self, board: &Board) -> u32 {
        let tx = &board.tx;
        if self.ranges.is_empty() && self.dupacks == 0 && self.duplicates.is_none() {
            let alive = tx.nxt.beyond(self.lost_edge.later(tx.una));
            return alive + self.high_rxt.beyond(tx.una);
        }
        self.pipe_by_reports(board)
    }

    #[inline(never)]
    fn pipe_by_reports(&self, board: &Board) -> u32 {
        let tx = &board.tx;
        let alive = self
            .ranges
            .missing(self.lost_edge.later(tx.una), tx.nxt.later(tx.una));
        let again = self.ranges.missing(tx.una, self.high_rxt.later(tx.una));
        let pipe = alive + again;
        if Self::reports(board) && !self.ranges.is_empty() {
            // Before recovery a reported segment has left, which is what limited transmit needs.
            return pipe;
        }
        if let Some(d) = self.emulated(board) {
            return pipe.saturating_sub(d.left().saturating_mul(board.conn.mss));
        }
        let counts = self.in_recovery || self.ltx && self.dupacks <= 2;
        let departed = if counts {
            self.dupacks.saturating_mul(board.conn.mss)
        } else {
            0
        };
        pipe.saturating_sub(departed)
    }

    //= rfc6675#section-4
    /// NextSeg rules 1, 3 and 4: where it begins, its octets.
    pub fn next_seg(&self, board: &Board) -> Option<(Seq, u32)> {
        let tx = &board.tx;
        let from = self.high_rxt.later(tx.una);
        let start = match self.ranges.covering(from) {
            Some(r) => r.1,
            None => from,
        };
        let stop = self
            .ranges
            .next_after(start)
            .map_or(tx.max, |r| r.0)
            .earlier(tx.max);
        let size = stop.beyond(start).min(board.conn.mss);
        if size > 0 && start.before(self.lost_edge) {
            return Some((start, size));
        }
        // Rule 2, new data, goes before these if the peer's window has room worth sending.
        let room = tx.una.plus(board.peer.window).beyond(tx.nxt);
        let new = Sender::want(board, Kind::New, tx.nxt).is_some_and(|w| w.least <= room);
        if !self.in_recovery || new {
            return None;
        }
        let highest = self.ranges.list().last().map_or(tx.una, |r| r.1);
        if size > 0 && start.before(highest) {
            return Some((start, size));
        }
        let fresh = !self.last_resort && from.before(tx.max) && !self.ranges.is_empty();
        let tail = tx.max.since(from.later(highest)).min(board.conn.mss);
        (fresh && highest.before(tx.max) && tail > 0).then(|| (tx.max.minus(tail), tail))
    }

    /// A segment repeats an acknowledgement; `fresh`: octets that it reports.
    pub fn is_duplicate(&self, seg: &Segment<'_>, ack: Seq, fresh: u32, board: &Board) -> bool {
        let plain = seg.payload.is_empty()
            && !seg.head.flags.has(Flags::SYN.with(Flags::FIN))
            && seg.head.window <= self.last_window;
        ack == board.tx.una
            && board.tx.una != board.tx.max
            && !board.peer.persist
            && (fresh > 0 || plain && !Self::reports(board))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a timeout that was taken back duplicates count that new data may have called for,
    /// until all is acknowledged that was outstanding then, and no recovery begins before.
    #[test]
    fn where_a_recovery_may_not_begin_duplicates_of_new_data_count() {
        let mut h = Holes::new(3, false, 16, true);
        h.recover = Some(Seq(10_000));
        let mut board = Board::default();
        board.conn.mss = 1000;
        let cases = [
            (0, 20_000, 1),
            (0, 10_000, 1),
            (10_000, 20_000, 1),
            (9000, 20_000, 2),
        ];
        for (una, max, left) in cases {
            (board.tx.una, board.tx.max) = (Seq(una), Seq(max));
            h.count_duplicate(&board);
            assert_eq!(h.duplicates.unwrap().left(), left, "{una} {max}");
        }
        let passed = h.pass(Seq(12_000), 3000, Seq(11_000), &board);
        assert!(passed.ended && h.recover.is_none());
        assert_eq!((passed.delivered, h.duplicates.unwrap().left()), (1000, 0));
    }

    #[test]
    fn any_number_of_duplicates_leaves_nothing_in_flight_at_the_most() {
        let mut h = Holes::new(3, false, 16, false);
        (h.in_recovery, h.dupacks) = (true, 1 << 16);
        let mut board = Board::default();
        board.conn.mss = 1 << 16;
        (board.tx.nxt, board.tx.max) = (Seq(100_000), Seq(100_000));
        assert_eq!(h.pipe(&board), 0);
    }
}
