//! Whose a packet is, and what opens: connections have identifiers (Behaviour 16.6).

use wifu_engine::Tuple;
use wifu_engine::admission::{Admission, Claim, Holder, Kept, Key, first};
use wifu_engine::board::State;
use wifu_wire::{Flags, Head, Seq, Span};

/// A connection is whose identifier its packets carry; between two ends there is one at a time.
#[derive(Debug)]
pub(super) struct ByIdentifier;

/// So long nothing came of a connection that another one may replace (Behaviour 16.6).
const SILENT: Span = Span(3_000_000_000);

impl Admission for ByIdentifier {
    fn key(&self, ends: &Tuple, id: u32) -> Key {
        Key::identifier(ends, id)
    }

    fn place(&self, ends: &Tuple, _id: u32) -> Key {
        Key::ends(ends)
    }

    fn draws_identifier(&self) -> bool {
        true
    }

    fn opens(&self, head: &Head) -> bool {
        first(head)
    }

    //= spec#16.6
    // "other conn id from same 4-tuple: replace if no packet for 3 s, else RST"
    fn claim(&self, holder: &Holder<'_>, head: &Head) -> Claim {
        if holder.board.site.conn_id == head.conn_id {
            Claim::Own
        } else if holder.rests || holder.silent >= SILENT {
            Claim::Replaces
        } else {
            Claim::Refused
        }
    }

    /// A SYN alone may have any address as its source. The opener confirms the answer therefore,
    /// which spec.md does not have: else a flood of SYNs would be a flood of connections.
    fn proves(&self, head: &Head, iss: Seq) -> bool {
        confirms(head, iss)
    }

    fn keeps(&self) -> Kept {
        Kept {
            openers: 4_096,
            span: Span::SECOND * 60,
        }
    }

    /// Its SYN again, while the answer is under way: a second answer has to be the same. Or what
    /// confirms the answer: the peer believes in the connection already.
    fn restores(&self, head: &Head, iss: Seq) -> bool {
        self.opens(head) || confirms(head, iss)
    }

    fn rests(&self, state: State) -> bool {
        state == State::TimeWait
    }
}

/// Whether a packet bears the number of the answer to a SYN, `iss`, as all do that its opener sends
/// after it: who did not see the answer cannot know it (RFC 6528).
pub(super) fn confirms(head: &Head, iss: Seq) -> bool {
    !head.flags.has(Flags::RST) && head.ack == Some(iss.plus(1))
}
