//! Which segments a TCP takes: questions to the board, which change nothing.

use crate::board::{Board, State};
use wifu_wire::{Flags, Head, Seq, Span, Time};

/// TS.Recent older than this cannot refuse a segment: the clock may have wrapped (Behaviour 4.1:
/// 2^30 us).
const PAWS_AGE: Span = Span(1_073_741_824_000);

/// The number that we expect next, or one that the window allows; what a RST carries beside its
/// number does not count.
//= rfc5961#section-3.2
pub fn in_window(seq: Seq, board: &Board) -> bool {
    let (nxt, window) = (board.rx.nxt, board.rx.window);
    seq == nxt || seq.from(nxt) && seq.before(nxt.plus(window))
}

/// Whether a segment that takes so many numbers lies in the window: the first check.
//= rfc9293#section-3.10.7.4
pub fn acceptable(head: &Head, len: u32, board: &Board) -> bool {
    let (nxt, window) = (board.rx.nxt, board.rx.window);
    let inside = |s: Seq| s.from(nxt) && s.before(nxt.plus(window));
    match (len, window) {
        (0, 0) => head.seq == nxt,
        // The edge itself as well: a peer that filled the window puts it in its bare ACKs.
        // Refusing them would make two such ends answer each other until a timer ends it.
        (0, _) => inside(head.seq) || head.seq == nxt.plus(window),
        // Its ACK must still be heard; the receiver refuses the data.
        (_, 0) => head.seq == nxt,
        (len, _) => inside(head.seq) || inside(head.seq.plus(len - 1)),
    }
}

/// A bare ACK one below what we expect: its sender did not know yet that we had taken the
/// octet by which it probed our window. What it acknowledges for the first time counts.
pub fn behind_probe(head: &Head, len: u32, board: &Board) -> bool {
    let open = board.conn.state != State::SynRcvd;
    open && len == 0 && head.seq == board.rx.nxt.minus(1) && tells(head, board)
}

/// Text that all came lately, in a segment that acknowledges something new: a probe of its sender's
/// for acknowledgements that we still withhold (RFC 8985 7.3). Its own would not come again (Linux
/// takes what reaches beyond our last acknowledgement, tcp_sequence).
pub fn repeats(head: &Head, text: u32, board: &Board) -> bool {
    let end = head.seq.plus(text);
    let marks = Flags::SYN.with(Flags::FIN).with(Flags::RST);
    let old = text > 0 && end.upto(board.rx.nxt) && !head.flags.has(marks);
    let lately = board.rx.nxt.since(end) < board.site.rcv_buf;
    let open = board.conn.running && board.conn.state != State::TimeWait;
    open && old && lately && tells(head, board)
}

/// A segment acknowledges something for the first time.
fn tells(head: &Head, board: &Board) -> bool {
    let tx = &board.tx;
    head.ack.is_some_and(|a| a.after(tx.una) && a.upto(tx.max))
}

/// Whether a segment's timestamp is none of an older one that the numbers' wrap made look new.
//= rfc7323#section-5.3
pub fn paws(head: &Head, board: &Board, now: Time) -> bool {
    let (Some(ts), Some(at)) = (head.ts, board.rx.ts_recent_at) else {
        return true;
    };
    let older = (ts.wrapping_sub(board.rx.ts_recent) as i32) < 0;
    !older || now - at > PAWS_AGE
}
