//! The judge of the Internet: every loss is congestion, once per recovery episode.
//!
//! Hears `lost`, says `congested`. Source: RFC 5681, section 3, where the loss of a segment is the
//! sign of congestion. A timeout always passes, as with every judge.

use wifu_engine::signal::{Cause, Congested};
use wifu_engine::{Component, Cx, Descriptor, Role, Signal};

/// Every loss is congestion.
pub static LOSS_IS_CONGESTION: Descriptor = Descriptor {
    name: "loss-is-congestion",
    role: Role::Judge,
    doc: "Takes every loss that opens a recovery episode, and every timeout, for congestion.",
    cites: &["RFC 5681"],
    hears: &[("lost", &["congested"])],
    build: |_| Ok(Box::new(LossIsCongestion)),
    ..Descriptor::EMPTY
};

struct LossIsCongestion;

impl Component for LossIsCongestion {
    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        let Signal::Lost(l) = signal else { return };
        if l.new_episode || l.cause == Cause::Timeout {
            cx.out.emit(Signal::Congested(Congested {
                flight: l.flight,
                cause: l.cause,
                repeat: l.repeat,
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::Bench;
    use wifu_engine::signal::Lost;

    #[test]
    fn one_judgement_per_episode_and_one_per_timeout() {
        let cases = [
            (Cause::DupAcks, true, true),
            (Cause::DupAcks, false, false),
            (Cause::Timeout, true, true),
            (Cause::Timeout, false, true),
            (Cause::Explicit, true, true),
        ];
        for (cause, new_episode, passes) in cases {
            let mut t = Bench::new(&LOSS_IS_CONGESTION, &[]).unwrap();
            let said = t.signal(Signal::Lost(Lost {
                bytes: 1000,
                flight: 9000,
                cause,
                new_episode,
                repeat: true,
            }));
            let judged = Signal::Congested(Congested {
                flight: 9000,
                cause,
                repeat: true,
            });
            assert_eq!(said, [judged][..usize::from(passes)], "{cause:?}");
        }
    }
}
