//! The judge of the Internet: every loss is congestion, once per recovery episode.
//!
//! Hears `lost`, says `congested`. Source: RFC 5681, section 3, where the loss of a segment is the
//! sign of congestion. A timeout always passes, as with every judge. What duplicates tell of a
//! window that was reduced for a mark is the same congestion (RFC 3168 6.1.2: once per window), but
//! for senders whom a mark tells less (`mark_covers = off`, RFC 8257 3.5).

use wifu_engine::descriptor::ParamSpec;
use wifu_engine::signal::{Cause, Congested};
use wifu_engine::{Component, Cx, Descriptor, Facts, Role, Signal};
use wifu_wire::Seq;

const MARK_COVERS: ParamSpec = ParamSpec::flag(
    "mark_covers",
    true,
    "Take a mark and the losses of its window for one congestion (RFC 3168 6.1.2); off: a loss counts \
     beside it (RFC 8257 3.5).",
);

/// Every loss is congestion.
pub static LOSS_IS_CONGESTION: Descriptor = Descriptor {
    name: "loss-is-congestion",
    role: Role::Judge,
    doc: "Takes every loss that opens a recovery episode, and every timeout, for congestion.",
    cites: &["RFC 5681", "RFC 3168"],
    reads: Facts::TX,
    hears: &[("lost", &["congested"])],
    params: &[MARK_COVERS],
    build: |params| {
        Ok(Box::new(LossIsCongestion {
            marked: None,
            covers: params.flag(MARK_COVERS.name),
        }))
    },
    ..Descriptor::EMPTY
};

struct LossIsCongestion {
    /// A mark told of the congestion of everything below.
    marked: Option<Seq>,
    covers: bool,
}

impl Component for LossIsCongestion {
    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        let Signal::Lost(l) = signal else { return };
        let una = cx.board.tx.una;
        self.marked = self.marked.filter(|upto| una.before(*upto));
        //= rfc3168#section-6.1.2
        if l.cause == Cause::DupAcks && self.marked.is_some() {
            return;
        }
        if l.cause == Cause::Mark && self.covers {
            self.marked = Some(cx.board.tx.max);
        }
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

    //= rfc3168#section-6.1.2
    #[test]
    fn what_a_mark_told_of_is_not_judged_again() {
        let mut t = Bench::new(&LOSS_IS_CONGESTION, &[]).unwrap();
        let lost = |cause| {
            Signal::Lost(Lost {
                bytes: 0,
                flight: 9000,
                cause,
                new_episode: true,
                repeat: false,
            })
        };
        (t.board.tx.una, t.board.tx.max) = (Seq(1000), Seq(10_000));
        for (una, cause, judged) in [
            (1000, Cause::Mark, true),
            (9999, Cause::DupAcks, false),
            (9999, Cause::Timeout, true),
            (10_000, Cause::DupAcks, true),
            (10_000, Cause::DupAcks, true),
        ] {
            t.board.tx.una = Seq(una);
            assert_eq!(t.signal(lost(cause)).len(), usize::from(judged), "{una}");
        }
    }

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
