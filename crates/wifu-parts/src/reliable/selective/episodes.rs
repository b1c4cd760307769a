//! Episodes of repair: how one begins, how much leaves in it, and what is taken back.

use super::Selective;
use wifu_engine::board::TxFacts;
use wifu_engine::component::Cx;
use wifu_engine::kit::{Duplicates, Holes, Known, Prr, Spurious};
use wifu_engine::signal::Lost;
use wifu_engine::{Board, Cause, Reason, Signal};
use wifu_wire::{Head, Seq};

impl Selective {
    /// The window may have fallen for nothing.
    pub(super) fn reconsider(
        &mut self,
        head: &Head,
        (advances, fresh): (bool, u32),
        known: Known,
        cx: &mut Cx<'_>,
    ) {
        let timed = self.timed.as_mut().filter(|_| Holes::reports(&cx.board));
        let once = timed.map(|t| t.rack.original());
        let known = known.said((advances, fresh), self.holes.high_rxt, once);
        let s = self.spurious.as_mut();
        if s.is_some_and(|s| s.in_vain(head, &known, &cx.board)) {
            self.take_back(cx);
            if self.linux && self.rack(&cx.board).is_some() {
                // By time it may be lost all the same (tcp_identify_packet_loss).
                let busy = self.busy(&cx.board);
                if let Some(timed) = &mut self.timed {
                    timed.detect(busy, cx);
                }
            }
        }
    }

    /// The window returns to what it was, and what was taken for lost is on its way.
    //= rfc4015#section-3.2
    pub(super) fn take_back(&mut self, cx: &mut Cx<'_>) {
        // Without reports none begins before what was outstanding then is acknowledged
        // (tcp_is_non_sack_preventing_reopen).
        let holds = !self.holes.in_recovery && self.holes.emulated(&cx.board).is_some();
        let h = &mut self.holes; // whose duplicates told of what is acknowledged now
        (h.timeout_edge, h.in_recovery, h.dupacks) = (None, false, 0);
        h.recover = h.recover.filter(|_| holds);
        (self.rescue, h.high_rxt) = (None, cx.board.tx.una);
        self.timed.iter_mut().for_each(|t| t.rack.forgive());
        self.spurious.iter_mut().for_each(Spurious::done);
        self.undone += 1;
        cx.out.emit(Signal::Undone);
    }

    /// With `episodes=linux` what is lost once more after a timeout begins a recovery.
    pub(super) fn begins_anew(&mut self, lost: bool) {
        if self.linux && lost && self.holes.timeout_edge.take().is_some() {
            self.holes.recover = None;
        }
    }

    /// An acknowledgement of a recovery delivered so much since `before`; `safe`: it moved the edge
    /// and told of no further loss.
    pub(super) fn reduce(&mut self, before: Seq, safe: bool, cx: &Cx<'_>) {
        let delivered = self.holes.delivered(&cx.board).beyond(before) + self.spare;
        let (window, mss) = (cx.board.win.cwnd, cx.board.conn.mss);
        let pipe = self.pipe(&cx.board);
        if let Some(prr) = &mut self.prr {
            prr.acked(delivered, safe, (window, pipe, mss));
        }
    }

    /// A recovery begins, by an acknowledgement that delivered so much since `before`.
    pub(super) fn reduction(&mut self, before: Seq, cx: &Cx<'_>) {
        if self.reduces && (Holes::reports(&cx.board) || self.holes.emulated(&cx.board).is_some()) {
            let delivered = self.holes.delivered(&cx.board).beyond(before);
            // What the acknowledgement itself delivered counts, whichever way it told of it.
            let flight = cx.board.tx.nxt.since(cx.board.tx.una);
            let left = self.holes.delivered(&cx.board).since(cx.board.tx.una);
            let flight = (flight + delivered).saturating_sub(left);
            self.prr = Some(if self.whole {
                Prr::of_window(cx.board.win.cwnd, delivered + self.spare)
            } else {
                Prr::new(flight, delivered)
            });
        }
    }

    /// The segments that came twice, by what an acknowledgement reports first; none where Linux is
    /// followed and the report says more than can be (tcp_dsack_seen): it is longer than a window,
    /// or with it more came twice than ever went again. What came twice was delivered twice.
    pub(super) fn count_twice(&mut self, (start, end): (Seq, Seq), board: &Board) -> u32 {
        if !self.linux {
            self.dsacks = self.dsacks.saturating_add(1);
            return 1;
        }
        let octets = end.beyond(start);
        if octets == 0 || octets > board.peer.window.max(board.tx.max.since(board.tx.una)) {
            return 0;
        }
        let mss = board.conn.mss.max(1);
        let segments = octets.div_ceil(mss);
        self.dsacks = self.dsacks.saturating_add(segments);
        if self.dsacks > board.tx.retransmits {
            return 0;
        }
        self.spare = segments.saturating_mul(mss);
        segments
    }

    /// Retransmissions on their way, in segments; counted where Linux is followed.
    pub(super) fn on_their_way(&self, board: &Board) -> u32 {
        let rack = self.rack(board).filter(|_| self.linux);
        rack.map_or(0, |r| r.flying_again().div_ceil(board.conn.mss.max(1)))
    }

    /// Something outstanding counts as lost.
    pub(super) fn found_loss(&self, board: &Board) -> bool {
        let found = match self.rack(board) {
            // Also what went again (tcp_time_to_recover): a recovery that ends begins anew.
            Some(rack) if self.linux => rack.marked() > 0,
            Some(rack) => rack.lost() > 0,
            None => self.holes.tell(board),
        };
        found && board.tx.una != board.tx.max
    }

    /// Octets are lost, as the scoreboard says: by time they are counted where they are found.
    pub(super) fn count_lost(&self, octets: u32, cx: &mut Cx<'_>) {
        if self.rack(&cx.board).is_none() {
            cx.write(|t: &mut TxFacts| t.lost += u64::from(octets));
        }
    }

    //= rfc6675#section-5
    pub(super) fn look_for_loss(&mut self, before: Seq, cx: &mut Cx<'_>) {
        self.holes.lost_edge = self.holes.find_lost_edge(&cx.board);
        if self.holes.in_recovery || self.holes.recover.is_some() || !self.found_loss(&cx.board) {
            return;
        }
        let (una, max, mss) = (cx.board.tx.una, cx.board.tx.max, cx.board.conn.mss);
        let lost = match self.rack(&cx.board) {
            Some(rack) => rack.lost(),
            None => self
                .holes
                .ranges
                .missing(una, self.holes.lost_edge.later(una)),
        };
        let beyond = cx.board.tx.nxt.since(una).saturating_sub(cx.board.win.cwnd);
        let limited = if self.holes.ltx {
            beyond.min(2 * mss)
        } else {
            0
        };
        let flight = cx.board.tx.nxt.since(una) - limited;
        let h = &mut self.holes;
        (h.in_recovery, h.recover, h.last_resort) = (true, Some(max), false);
        h.high_rxt = una;
        self.rescue = Some(Reason::DupAck);
        self.reduction(before, cx);
        let away = self.on_their_way(&cx.board);
        self.spurious.iter_mut().for_each(|s| s.falls(una, away));
        self.timed.iter_mut().for_each(|t| t.probe.stop());
        let bytes = lost.max(mss.min(max.since(una)));
        self.count_lost(bytes, cx);
        cx.out.emit(Signal::Lost(Lost {
            bytes,
            flight,
            cause: Cause::DupAcks,
            new_episode: true,
            repeat: false,
        }));
    }

    pub(super) fn on_expiry(&mut self, again: bool, cx: &mut Cx<'_>) {
        let (una, max) = (cx.board.tx.una, cx.board.tx.max);
        let flight = cx.board.tx.nxt.since(una);
        self.count_lost(self.pipe(&cx.board), cx);
        let new = !self.holes.repairs();
        let repeat = again || self.linux && self.holes.in_recovery;
        self.holes.duplicates.iter_mut().for_each(Duplicates::reset);
        (self.holes.in_recovery, self.holes.dupacks) = (false, 0);
        self.holes.recover = Some(max);
        self.holes.timeout_edge = Some(max);
        self.holes.high_rxt = una;
        self.rescue = Some(Reason::Timeout);
        if let Some(timed) = &mut self.timed {
            timed.on_timeout(cx);
        }
        let away = self.on_their_way(&cx.board);
        if let Some(s) = &mut self.spurious {
            if !repeat {
                s.falls(una, away);
            }
            s.timeout(new || again);
        }
        self.publish(cx);
        cx.out.emit(Signal::Lost(Lost {
            bytes: self.holes.ranges.missing(una, max),
            flight,
            cause: Cause::Timeout,
            new_episode: true,
            repeat,
        }));
    }
}
