//! Where handlers see packets, and what they may say of them.

use core::fmt;
use core::str::FromStr;
use wifu_wire::{Rate, Span, Time};

/// The netfilter points, plus one that only radios have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Hook {
    /// It came over a link, whoever it is for.
    Prerouting,
    /// It is for this node.
    Input,
    /// It goes on to another node.
    Forward,
    /// This node sends it.
    Output,
    /// It leaves over a link, whoever sent it.
    Postrouting,
    /// The radio heard it, but it was for another node.
    Overheard,
}

impl Hook {
    /// All, in the order of their numbers; the first five are those of NFQUEUE (Behaviour 3: INPUT
    /// 0, OUTPUT 1, FORWARD 2, PREROUTING 3, POSTROUTING 4).
    pub const ALL: [Hook; 6] = [
        Hook::Input,
        Hook::Output,
        Hook::Forward,
        Hook::Prerouting,
        Hook::Postrouting,
        Hook::Overheard,
    ];

    /// Its number: that of its queue.
    pub fn number(self) -> u16 {
        match self {
            Hook::Input => 0,
            Hook::Output => 1,
            Hook::Forward => 2,
            Hook::Prerouting => 3,
            Hook::Postrouting => 4,
            Hook::Overheard => 5,
        }
    }

    /// Its name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Hook::Prerouting => "prerouting",
            Hook::Input => "input",
            Hook::Forward => "forward",
            Hook::Output => "output",
            Hook::Postrouting => "postrouting",
            Hook::Overheard => "overheard",
        }
    }
}

impl FromStr for Hook {
    type Err = String;
    fn from_str(s: &str) -> Result<Hook, String> {
        let wanted = s.to_ascii_lowercase();
        let found = Hook::ALL.into_iter().find(|h| h.name() == wanted);
        found.ok_or_else(|| {
            let names: Vec<_> = Hook::ALL.iter().map(|h| h.name()).collect();
            format!("\"{s}\" is no hook; there are {}", names.join(", "))
        })
    }
}

/// A set of hooks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Hooks(u8);

impl Hooks {
    /// None.
    pub const NONE: Hooks = Hooks(0);
    /// The five of netfilter.
    pub const WIRED: Hooks = Hooks(0b01_1111);
    /// All six.
    pub const ALL: Hooks = Hooks(0b11_1111);

    /// These.
    pub const fn of(hooks: &[Hook]) -> Hooks {
        let mut bits = 0;
        let mut i = 0;
        while i < hooks.len() {
            bits |= 1
                << match hooks[i] {
                    Hook::Input => 0,
                    Hook::Output => 1,
                    Hook::Forward => 2,
                    Hook::Prerouting => 3,
                    Hook::Postrouting => 4,
                    Hook::Overheard => 5,
                };
            i += 1;
        }
        Hooks(bits)
    }

    /// Whether it is among them.
    pub fn has(self, hook: Hook) -> bool {
        self.0 >> hook.number() & 1 == 1
    }

    /// Those that are in both.
    #[must_use]
    pub fn and(self, o: Hooks) -> Hooks {
        Hooks(self.0 & o.0)
    }

    /// Those that are in either.
    #[must_use]
    pub fn or(self, o: Hooks) -> Hooks {
        Hooks(self.0 | o.0)
    }

    /// One after the other.
    pub fn iter(self) -> impl Iterator<Item = Hook> {
        Hook::ALL.into_iter().filter(move |h| self.has(*h))
    }
}

impl fmt::Display for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(Hook::name).collect();
        f.write_str(&names.join(", "))
    }
}

/// What becomes of a packet.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It goes on, with what the handler changed.
    Accept,
    /// It is dropped, and counted by reason.
    Drop(&'static str),
    /// The handler keeps it and says later what becomes of it ([`crate::HopCx::release`]).
    Hold,
}

/// The octets of a packet, wherever they lie.
pub trait Octets {
    /// As they are.
    fn get(&self) -> &[u8];
    /// To be changed in place.
    fn get_mut(&mut self) -> &mut [u8];
    /// To be replaced, with another length if need be.
    fn replace(&mut self, octets: &[u8]);
}

impl Octets for Vec<u8> {
    fn get(&self) -> &[u8] {
        self
    }
    fn get_mut(&mut self) -> &mut [u8] {
        self
    }
    fn replace(&mut self, octets: &[u8]) {
        self.clear();
        self.extend_from_slice(octets);
    }
}

/// A packet at a hook.
pub struct Packet<'a> {
    octets: &'a mut dyn Octets,
    changes: u32,
    /// The substrate's name for it; a held packet is released by it.
    pub ticket: u64,
    /// The radio that transmitted it, in the substrate's numbering; `None` if this node sends it
    /// or the substrate can't say.
    pub transmitter: Option<u64>,
    /// Received power, dBm, if it came by radio.
    pub rssi_dbm: Option<i8>,
    /// Rate at which the frame came, if it came by radio and the substrate can say.
    pub rate: Option<Rate>,
    /// What a handler leaves for the local transport: the largest delay on the path, us
    /// (Behaviour 9).
    pub max_delay: u32,
}

impl<'a> Packet<'a> {
    /// A packet from its IP header on.
    pub fn new(octets: &'a mut dyn Octets, ticket: u64) -> Packet<'a> {
        Packet {
            octets,
            changes: 0,
            ticket,
            transmitter: None,
            rssi_dbm: None,
            rate: None,
            max_delay: 0,
        }
    }

    /// Its octets, from the IP header on.
    pub fn octets(&self) -> &[u8] {
        self.octets.get()
    }

    /// Its octets to be changed in place. Lengths and header checksum are repaired afterwards.
    pub fn octets_mut(&mut self) -> &mut [u8] {
        self.changes += 1;
        self.octets.get_mut()
    }

    /// Replace all its octets.
    pub fn replace(&mut self, octets: &[u8]) {
        self.changes += 1;
        self.octets.replace(octets);
    }

    /// Whether a handler changed it.
    pub fn changed(&self) -> bool {
        self.changes > 0
    }

    /// How often handlers took its octets to change them.
    pub(crate) fn changes(&self) -> u32 {
        self.changes
    }
}

/// Idle for so long: the delay average says nothing of the present any more (Behaviour 7.4).
const T_IDLE: Span = Span(100_000_000);
/// ... unless the medium is busier than this.
const BUSY: f32 = 0.05;

/// What a node's link layer reports (Behaviour 7).
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct LinkFacts {
    /// The average D of queueing plus transmission delay; `None` before the first sample.
    pub delay: Option<Span>,
    /// The last sample.
    pub sample: Span,
    /// D0, what to assume before the first sample.
    pub first: Span,
    /// Packets not yet reported by the driver; 0 where nobody says.
    pub queued: u32,
    /// Packets that the queue takes now; 0 where nobody says, which is everywhere live.
    pub room: u32,
    /// When the driver last reported.
    pub last_done: Time,
    /// Share of the last tenth of a second during which the medium was busy, if known.
    pub busy: Option<f32>,
    /// Rate of unicast data; 0 where nobody says.
    pub rate: Rate,
}

impl LinkFacts {
    /// D_node of Behaviour 7.4: the delay to report, and whether the node is idle.
    pub fn reported(&self, now: Time) -> (Span, bool) {
        let quiet = self.busy.is_none_or(|share| share < BUSY);
        let idle = self.queued == 0 && now - self.last_done > T_IDLE && quiet;
        (self.delay.unwrap_or(self.first), idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_have_the_numbers_of_their_queues_and_their_names() {
        for hook in Hook::ALL {
            assert_eq!(hook.name().to_uppercase().parse(), Ok(hook));
            assert!(Hooks::of(&[hook]).has(hook) && !Hooks::NONE.has(hook));
        }
        assert_eq!(Hooks::WIRED.iter().map(Hook::number).max(), Some(4));
        assert!(
            "forwards"
                .parse::<Hook>()
                .unwrap_err()
                .contains("forward, prerouting")
        );
        assert_eq!(
            Hooks::of(&[Hook::Output, Hook::Input]).to_string(),
            "input, output"
        );
    }

    #[test]
    fn a_node_is_idle_after_a_tenth_of_a_second_without_traffic_of_its_own_or_others() {
        let ms = |n: u64| Time(n * 1_000_000);
        let facts = LinkFacts {
            delay: Some(Span(700_000)),
            first: Span(681_500),
            last_done: ms(1000),
            busy: Some(0.01),
            ..LinkFacts::default()
        };
        assert_eq!(facts.reported(ms(1101)), (Span(700_000), true));
        assert_eq!(facts.reported(ms(1099)), (Span(700_000), false));
        let busy = LinkFacts {
            busy: Some(0.2),
            ..facts
        };
        assert!(!busy.reported(ms(2000)).1);
        let queued = LinkFacts { queued: 1, ..facts };
        assert!(!queued.reported(ms(2000)).1);
        let fresh = LinkFacts {
            delay: None,
            ..facts
        };
        assert_eq!(fresh.reported(ms(2000)).0, Span(681_500));
    }
}
