//! How long an application takes over a segment, while it is the slower one: a receiver that feeds
//! delays back counts it as one of the path.

use super::Ewma;
use crate::board::Board;
use wifu_wire::{Seq, Time};

/// Of the old average (Behaviour 8.4).
const WEIGHT: f64 = 0.75;

/// Times what is read, while the buffer is more than half full.
#[derive(Clone, Debug)]
pub struct Reader {
    /// Microseconds per full segment.
    average: Ewma,
    /// Since when, and from where on, its reading is timed.
    since: Option<(Time, Seq)>,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader {
            average: Ewma::new(WEIGHT),
            since: None,
        }
    }
}

impl Reader {
    /// Data arrived.
    pub fn arrived(&mut self, board: &Board, now: Time) {
        if Self::is_full(board) && self.since.is_none() {
            self.since = Some((now, Self::read_to(board)));
        }
    }

    /// The application took what it took.
    //= spec#8.4
    // "app_delay: if the receive buffer is more than half full: EWMA(0.75) of time per MSS drained
    // by the application, else 0"
    pub fn read(&mut self, board: &Board, now: Time) {
        if !Self::is_full(board) {
            (self.since, _) = (None, self.average.clear());
            return;
        }
        let (at, mss) = (Self::read_to(board), board.conn.mss.max(1));
        let (since, from) = *self.since.get_or_insert((now, at));
        let taken = at.beyond(from);
        if taken >= mss {
            let us = (now - since).0 as f64 / 1e3;
            self.average.add(us * f64::from(mss) / f64::from(taken));
            self.since = Some((now, at));
        }
    }

    /// Microseconds per full segment; 0 while at least half of the buffer is free.
    pub fn us(&self, board: &Board) -> f64 {
        match Self::is_full(board) {
            true => self.average.value().unwrap_or(0.0),
            false => 0.0,
        }
    }

    fn is_full(board: &Board) -> bool {
        board.app.unread > board.site.rcv_buf / 2
    }

    fn read_to(board: &Board) -> Seq {
        let rx = &board.rx;
        rx.nxt.minus(u32::from(rx.fin)).minus(board.app.unread)
    }
}
