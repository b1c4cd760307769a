//! Which hooks a part overrides, and whether its descriptor says so. The engine calls no hook that
//! is not declared, so one that is overridden all the same would silently never run.

use crate::bench::Bench;
use crate::descriptor::Descriptor;
use crate::permit::{Kind, Limit, Reason, Want};
use crate::signal::{
    Acked, Arrival, Arrived, Cause, Congested, Lost, RttSample, Sent, Signal, Status,
};
use wifu_wire::{Class, FrameFacts, Head, Seq, Span};

/// The hooks that a descriptor declares.
pub const HOOKS: [&str; 7] = [
    "segment",
    "overheard",
    "signal",
    "timer",
    "offer",
    "permit",
    "stamp",
];

impl Bench {
    /// Whether the part overrides one of [`HOOKS`]. The hook is called, so the part is not fresh
    /// afterwards.
    pub fn overrides(&mut self, hook: &str) -> bool {
        self.board.defaulted.take();
        match hook {
            "segment" => {
                let _admit = self.segment(&Head::default(), &[]);
            }
            "overheard" => {
                self.overheard(&Head::default(), &FrameFacts::default());
            }
            "signal" => {
                self.signal(Signal::Read);
            }
            "timer" => {
                self.fire(0);
            }
            "offer" => {
                let kind = self.descriptor().offers.first().copied();
                let _want = self.offer(kind.unwrap_or(Kind::Ack));
            }
            "permit" => {
                let _permit = self.permit(&Want::bare(Kind::New));
            }
            _ => {
                let _notes = self.stamp(Kind::Ack, &mut Head::default());
            }
        }
        !self.board.defaulted.take()
    }

    /// Whether the part overrides the method that the narrower trait it implements has for a plain
    /// signal ([`crate::Component::methods`]). It is called.
    pub fn overrides_method(&mut self, signal: &str) -> bool {
        self.board.defaulted.take();
        let Some(index) = Signal::NAMES.iter().position(|n| *n == signal) else {
            return false;
        };
        self.signal(example(index));
        !self.board.defaulted.take()
    }
}

/// What a fresh part overrides and its descriptor does not declare: one sentence each. Only hooks
/// that are not declared are called, so that no part sees a call that it could not expect.
pub(crate) fn undeclared(d: &Descriptor, mut part: Bench) -> Vec<String> {
    let mut faults = Vec::new();
    let methods = part.methods();
    for hook in HOOKS {
        let each = hook == "signal" && !methods.is_empty();
        if d.has_hook(hook) || each || !part.overrides(hook) {
            continue;
        }
        let name = d.name;
        faults.push(match hook {
            "signal" => format!("{name} overrides on_signal, but its `hears` lists no signal"),
            "timer" => not_heard(name, "timer"),
            "offer" => format!("{name} overrides offer, but its `offers` is empty"),
            _ => {
                let on = if matches!(hook, "segment" | "overheard") {
                    "on_"
                } else {
                    ""
                };
                format!(
                    "{name} overrides {on}{hook}, but its descriptor does not declare it: add \
                     \"{hook}\" to hooks"
                )
            }
        });
    }
    for signal in methods {
        let heard = d.heard().any(|(name, _)| name == *signal);
        if !heard && part.overrides_method(signal) {
            faults.push(not_heard(d.name, signal));
        }
    }
    faults
}

fn not_heard(part: &str, name: &str) -> String {
    let method = name.replace('-', "_");
    format!(
        "{part} overrides on_{method}, but its descriptor does not hear \"{name}\": add \
         (\"{name}\", &[]) to hears"
    )
}

/// Octets in examples.
const SEGMENT: u32 = 1000;

const TRIP: RttSample = RttSample {
    rtt: Span::MILLI,
    data_bytes: SEGMENT,
    ack_bytes: 40,
};

/// A signal of each kind, by [`Signal::index`].
fn example(index: usize) -> Signal {
    let sent = Sent {
        kind: Kind::New,
        reason: Reason::First,
        acks: true,
        seq: Seq(0),
        bytes: SEGMENT,
        late: Span::ZERO,
    };
    let (flight, cause) = (2 * SEGMENT, Cause::DupAcks);
    let plain = [
        Signal::Connect,
        Signal::Listen,
        Signal::Wrote,
        Signal::Read,
        Signal::Closing,
        Signal::Abort,
        Signal::Sent(sent),
        Signal::Returned(Seq(0)),
        Signal::Status(Status {
            number: Seq(0),
            class: Class::Data,
            delivered: true,
            attempts: 1,
            airtime_ns: None,
            delay: Some(Span::MILLI),
        }),
        Signal::Route,
        Signal::Opened,
        Signal::GaveUp,
        Signal::AckNow,
        Signal::Arrived(Arrived {
            seq: Seq(0),
            bytes: SEGMENT,
            gap: 0,
            order: Arrival::InOrder,
            fin: false,
            ce: false,
        }),
        Signal::Acked(Acked {
            bytes: SEGMENT,
            upto: Seq(SEGMENT),
            in_recovery: false,
            limited_by: Limit::None,
        }),
        Signal::DupAck,
        Signal::Lost(Lost {
            bytes: SEGMENT,
            flight,
            cause,
            new_episode: true,
            repeat: false,
        }),
        Signal::Recovered { flight },
        Signal::Rtt(TRIP),
        Signal::Congested(Congested {
            flight,
            cause,
            repeat: false,
        }),
        Signal::Ended(None),
        Signal::Undone,
        Signal::Expired(Seq(0)),
    ];
    plain[index]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_an_example_of_every_plain_signal() {
        for i in 0..Signal::PLAIN {
            assert_eq!(example(i).index(), i);
        }
    }
}
