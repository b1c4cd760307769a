//! Epochs of feedback: how often a receiver reports, and what follows from that at both ends
//! (ATP thesis 3.1).

use crate::board::Board;
use crate::params::ParamSpec;
use wifu_wire::Span;

/// Time between two feedbacks.
pub const EPOCH: ParamSpec = ParamSpec::span(
    "epoch",
    Span(1_000_000_000),
    Span(1_000_000),
    Span(60_000_000_000),
    "E: the receiver reports once in this time.",
);

/// The epoch that the manager put on the board, one millisecond at the least.
pub fn of(board: &Board) -> Span {
    board.conn.epoch.max(Span::MILLI)
}

/// How long a sender waits for a feedback after the last one: 1.1 E.
//= spec#D11
pub const fn deadline(epoch: Span) -> Span {
    Span(epoch.0 / 10 * 11)
}

/// How often the end of a stream is acknowledged again: every epoch, but not oftener than five
/// times a second.
//= spec#8.5
// "repeat each max(E,0.2 s)"
pub const fn repeat(epoch: Span) -> Span {
    const LEAST: Span = Span(200_000_000);
    if epoch.0 > LEAST.0 { epoch } else { LEAST }
}

/// Longer without data, and an end idles: the receiver stops reporting.
//= spec#8.2
// "idle_stop = max(3E, 3 s)"
pub const fn idle(epoch: Span, least: Span) -> Span {
    let three = epoch.0 * 3;
    if three > least.0 { Span(three) } else { least }
}
