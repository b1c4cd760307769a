//! Retransmissions that were for nothing, and what follows: F-RTO (RFC 5682) tells a timeout that
//! nothing was lost by from one that something was; timestamps (RFC 3522) and reports of what came
//! twice (RFC 3708) tell of any. The window then returns to what it was (RFC 4015, without its
//! change of the timer). As Linux does it: `tcp_process_loss`, `tcp_may_undo`.

use super::holes::Holes;
use super::sender::Sender;
use crate::board::Board;
use crate::params::ParamSpec;
use crate::permit::Kind;
use wifu_wire::{Head, Seq};

/// The switch of F-RTO.
pub const FRTO: ParamSpec = ParamSpec::flag(
    "frto",
    false,
    "After the first acknowledgement that follows a timeout new data goes instead of \
     retransmissions; if then something arrives that was sent only once, nothing was lost (F-RTO, \
     RFC 5682; Linux, tcp_process_loss).",
);

/// The switch of the others.
pub const UNDO: ParamSpec = ParamSpec::flag(
    "undo",
    false,
    "A window that fell for nothing, as timestamps (RFC 3522) or reports of what came twice (RFC \
     3708) say, returns to what it was (RFC 4015; Linux, tcp_may_undo).",
);

/// What an acknowledgement says while a timeout is repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// It moved the edge.
    pub advances: bool,
    /// Everything that was outstanding at the timeout is acknowledged.
    pub recovered: bool,
    /// It tells of something that was sent once, before the timeout.
    pub original: bool,
    /// It is a duplicate, or reports something.
    pub news: bool,
    /// New data was sent since the timeout.
    pub beyond: bool,
    /// New data could be sent now.
    pub fresh: bool,
}

/// What is known of the last reduction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spurious {
    frto: bool,
    undo: bool,
    /// F-RTO is under way.
    trying: bool,
    /// Nothing but new data may leave until the next acknowledgement.
    waits: bool,
    /// Where the window fell: undo_marker.
    marker: Option<Seq>,
    /// Retransmissions since that nobody reported as needless; `None` before the first.
    again: Option<u32>,
    /// Timestamp of the first of them.
    stamp: Option<u32>,
}

impl Spurious {
    /// `None` unless either is on.
    pub fn new(frto: bool, undo: bool) -> Option<Spurious> {
        (frto || undo).then(|| Spurious {
            frto,
            undo,
            ..Spurious::default()
        })
    }

    /// The window is about to fall at `una`, with so many retransmissions on their way, which may
    /// come twice as well (tcp_init_undo). What went again before is still what is answered first,
    /// until nothing is repaired any more (retrans_stamp).
    pub fn falls(&mut self, una: Seq, on_their_way: u32) {
        let again = Some(on_their_way).filter(|n| *n > 0);
        (self.marker, self.again) = (Some(una), again);
        (self.trying, self.waits) = (false, false);
    }

    /// Nothing is repaired any more.
    pub fn calm(&mut self) {
        self.stamp = None;
    }

    /// The retransmission timer fired; `fresh`: no recovery was under way, or it is the same data
    /// again (RFC 5682 2.1 step 1).
    pub fn timeout(&mut self, fresh: bool) {
        (self.trying, self.waits) = (self.frto && fresh, false);
    }

    /// Something goes again, with this timestamp. Not a tail loss probe, which repairs nothing and
    /// leaves retrans_stamp and undo_retrans as they are (Linux, tcp_send_loss_probe).
    pub fn resent(&mut self, stamp: Option<u32>) {
        self.stamp = self.stamp.or(stamp);
        if self.marker.is_some() {
            self.again = Some(self.again.unwrap_or(0) + 1);
        }
    }

    /// Only new data may leave.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// So many segments from the marker on came twice.
    pub fn twice(&mut self, upto: Seq, segments: u32) {
        if let (Some(marker), Some(n)) = (self.marker, &mut self.again)
            && upto.after(marker)
        {
            *n = n.saturating_sub(segments);
        }
    }

    /// All that went again is known to have been needless.
    pub fn needless(&self) -> bool {
        self.undo && self.marker.is_some() && self.again == Some(0)
    }

    /// What this echo answers left before anything went again.
    //= rfc3522#section-3.2
    pub fn early(&self, echo: u32) -> bool {
        let before = |stamp: u32| (echo.wrapping_sub(stamp) as i32) < 0;
        self.undo && self.marker.is_some() && echo != 0 && self.stamp.is_some_and(before)
    }

    /// The window returned to what it was.
    pub fn done(&mut self) {
        (self.marker, self.trying, self.waits) = (None, false, false);
    }

    //= rfc5682#section-3.1
    /// An acknowledgement came while a timeout is repaired. Returns whether the timeout was for
    /// nothing.
    pub fn answered(&mut self, a: Answer) -> bool {
        self.waits = false;
        if !self.trying {
            return false;
        }
        if a.original {
            return true; // step 3.b
        }
        if a.beyond {
            self.trying &= !a.news; // step 3.a
        } else if a.advances && !a.recovered {
            (self.trying, self.waits) = (a.fresh, a.fresh); // step 2.b
        }
        false
    }
}

/// What was known before an acknowledgement came, and what it says.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// What was not acknowledged began here.
    pub una: Seq,
    /// One past the highest octet that went again.
    pub high_rxt: Seq,
    /// Everything below was outstanding when the timer fired.
    pub timeout_edge: Option<Seq>,
    /// A recovery was under way.
    pub recovers: bool,
    /// The acknowledgement moved the edge.
    pub advances: bool,
    /// Octets that it reports.
    pub fresh: u32,
    /// The end of the first piece that it tells of and that was sent once; `None` where nobody logs
    /// that.
    pub once: Option<Option<Seq>>,
}

impl Known {
    /// Before an acknowledgement.
    pub fn new(holes: &Holes, board: &Board) -> Known {
        Known {
            una: board.tx.una,
            high_rxt: holes.high_rxt,
            timeout_edge: holes.timeout_edge,
            recovers: holes.in_recovery,
            advances: false,
            fresh: 0,
            once: None,
        }
    }

    /// After it: it moved the edge or not, reports `fresh` octets, and what went again now ends at
    /// `high_rxt`.
    pub fn said(
        self,
        (advances, fresh): (bool, u32),
        high_rxt: Seq,
        once: Option<Option<Seq>>,
    ) -> Known {
        let high_rxt = if self.recovers {
            high_rxt
        } else {
            self.high_rxt
        };
        Known {
            advances,
            fresh,
            high_rxt,
            once,
            ..self
        }
    }

    /// Something arrived that was sent once, before the timeout at which all below `edge` was
    /// outstanding.
    fn original(&self, head: &Head, edge: Seq) -> bool {
        if let Some(once) = self.once {
            return once.is_some_and(|end| end.upto(edge));
        }
        let once = |r: &(Seq, Seq)| r.0.from(self.high_rxt) && r.1.upto(edge);
        let past = self.una.from(self.high_rxt);
        self.advances && past || self.fresh > 0 && head.ranges().iter().any(once)
    }
}

impl Spurious {
    /// After what an acknowledgement said: was the last reduction for nothing?
    pub fn in_vain(&mut self, head: &Head, known: &Known, board: &Board) -> bool {
        let (una, advances) = (board.tx.una, known.advances);
        let early = advances && self.early(head.ts_echo);
        let vain = match known.timeout_edge {
            Some(_) => early || advances && self.needless(),
            // Later retransmissions are under way: they are waited for (tcp_try_undo_partial).
            None if known.recovers => self.needless() || early && una.from(known.high_rxt),
            None => self.needless(),
        };
        let Some(edge) = known.timeout_edge.filter(|_| !vain) else {
            return vain;
        };
        let room = una.plus(board.peer.window).after(board.tx.nxt);
        self.answered(Answer {
            advances,
            recovered: una.from(edge),
            original: known.original(head, edge),
            news: known.fresh > 0 || !advances && head.ack == Some(una),
            beyond: board.tx.max.after(edge),
            fresh: room && Sender::want(board, Kind::New, board.tx.nxt).is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Answer = Answer {
        advances: false,
        recovered: false,
        original: false,
        news: false,
        beyond: false,
        fresh: true,
    };

    fn timed_out() -> Spurious {
        let mut s = Spurious::new(true, true).unwrap();
        s.falls(Seq(1000), 0);
        s.timeout(true);
        s
    }

    #[test]
    fn new_data_goes_first_and_what_was_sent_once_says_that_nothing_was_lost() {
        let first = Answer {
            advances: true,
            ..NOTHING
        };
        let second = Answer {
            beyond: true,
            news: true,
            ..NOTHING
        };
        let mut s = timed_out();
        assert!(!s.answered(first) && s.waits());
        assert!(s.answered(Answer {
            original: true,
            advances: true,
            ..second
        }));
        let mut s = timed_out();
        assert!(!s.answered(first) && s.waits());
        assert!(!s.answered(second) && !s.waits(), "something was lost");
        let late = Answer {
            original: true,
            ..second
        };
        assert!(!s.answered(late), "nobody asks any more");
        // No new data to send, and the second timeout in a row.
        let mut s = timed_out();
        let none = Answer {
            fresh: false,
            ..first
        };
        assert!(!s.answered(none) && !s.waits());
        s.timeout(false);
        assert!(!s.answered(first) && !s.waits());
    }

    #[test]
    fn timestamps_and_reports_tell_of_needless_retransmissions() {
        let mut s = timed_out();
        assert!(!s.early(5) && !s.needless(), "nothing went again");
        s.resent(Some(7));
        s.resent(Some(9));
        assert_eq!(
            [6, 7, 8, 0].map(|echo| s.early(echo)),
            [true, false, false, false]
        );
        s.twice(Seq(1000), 1);
        s.twice(Seq(2448), 1);
        assert!(!s.needless());
        s.twice(Seq(3896), 1);
        assert!(s.needless());
        s.done();
        assert!(!s.needless() && !s.early(6));
        // Until all is repaired the first retransmission of all is what an answer is older than.
        s.falls(Seq(9000), 0);
        s.resent(Some(20));
        assert!(s.early(6) && !s.early(8), "not that of this reduction");
        s.calm();
        s.falls(Seq(9000), 0);
        s.resent(Some(30));
        assert!(s.early(8) && !s.early(30));
    }
}
