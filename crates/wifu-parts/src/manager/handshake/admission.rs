//! TCP's answers to who opens a connection: a SYN does, connections are told apart by both ends,
//! and TIME_WAIT is left behind.

use wifu_engine::admission::{Admission, Claim, Holder, Kept, Key, Tuple, first};
use wifu_engine::board::State;
use wifu_wire::{Flags, Head, Seq, Span};

/// See the module.
#[derive(Debug)]
pub(super) struct Tcp;

impl Admission for Tcp {
    fn key(&self, ends: &Tuple, _id: u32) -> Key {
        Key::ends(ends)
    }

    //= rfc9293#section-3.10.7.2
    fn opens(&self, head: &Head) -> bool {
        first(head)
    }

    /// A new SYN for a connection that only waits for old segments to die out: it may open anew if
    /// its number lies beyond all that was received (RFC 9293 3.10.7.4, TIME-WAIT), or if its
    /// timestamp does: fast transfers outrun the clock of initial numbers (RFC 6191).
    //= rfc9293#section-3.10.7.4
    fn claim(&self, holder: &Holder<'_>, head: &Head) -> Claim {
        let rx = &holder.board.rx;
        let later = |ts: u32| ts.wrapping_sub(rx.ts_recent) as i32 > 0;
        let stamped = rx.ts_recent_at.is_some() && head.ts.is_some_and(later);
        if holder.rests && (head.seq.after(rx.nxt) || stamped) {
            Claim::Replaces
        } else {
            Claim::Own
        }
    }

    /// The SYN cache of RFC 4987 section 3.5.
    fn keeps(&self) -> Kept {
        Kept {
            openers: 4_096,
            span: Span::SECOND * 60,
        }
    }

    /// Its SYN again, while the SYN+ACK is under way: a second SYN+ACK has to be the same. A SYN
    /// with another number is the connection's own affair (RFC 5961 section 4). Or the answer to
    /// the SYN+ACK: the peer believes in the connection already.
    fn restores(&self, head: &Head, iss: Seq) -> bool {
        let answers = !head.flags.has(Flags::SYN) && !head.flags.has(Flags::RST);
        self.opens(head) || answers && head.ack == Some(iss.plus(1))
    }

    fn rests(&self, state: State) -> bool {
        state == State::TimeWait
    }
}
