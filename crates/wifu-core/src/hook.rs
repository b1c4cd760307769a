//! Where handlers see packets, and what they may say of them.

use core::fmt;
use core::str::FromStr;

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
    /// Asked about nothing.
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
}
