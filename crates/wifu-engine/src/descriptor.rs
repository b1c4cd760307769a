//! Descriptors and the registry: the whole public face of a component. Help texts, documentation
//! and checks are generated from it.

use crate::board::Facts;
use crate::component::Component;
use crate::permit::Kind;
use core::fmt;

pub use crate::params::{ParamSpec, Params, Value};
pub use wifu_wire::names::nearest;

/// The roles of parts, in the order in which the engine calls them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    /// Opens, closes and validates.
    Manager,
    /// Times round trips (before reliability, which restarts its timer after the sample).
    Rtt,
    /// What was lost, what goes again.
    Reliable,
    /// Reassembly.
    Receive,
    /// Turns loss into congestion, or not.
    Judge,
    /// The window.
    Congestion,
    /// Restricts sending.
    Gate,
    /// When to acknowledge.
    Ack,
    /// Coded repair.
    Repair,
    /// Watches the path.
    Watch,
}

impl Role {
    /// All roles, in order.
    pub const ALL: [Role; 10] = [
        Role::Manager,
        Role::Rtt,
        Role::Reliable,
        Role::Receive,
        Role::Judge,
        Role::Congestion,
        Role::Gate,
        Role::Ack,
        Role::Repair,
        Role::Watch,
    ];

    /// The key in compositions.
    pub fn key(self) -> &'static str {
        match self {
            Role::Manager => "manager",
            Role::Rtt => "rtt",
            Role::Reliable => "reliable",
            Role::Receive => "receive",
            Role::Judge => "judge",
            Role::Congestion => "congestion",
            Role::Gate => "gates",
            Role::Ack => "ack",
            Role::Repair => "repair",
            Role::Watch => "watch",
        }
    }

    /// Whether a composition has at most one part of this role.
    pub fn exclusive(self) -> bool {
        !matches!(self, Role::Gate | Role::Repair | Role::Watch)
    }
}

/// A header word that a part uses. Fixed codecs know the word already; `shim` lays it out by this.
#[derive(Clone, Copy, Debug)]
pub struct WordSpec {
    /// Name.
    pub name: &'static str,
    /// Width, 1 to 32 bits.
    pub bits: u8,
    /// Whether intermediate nodes write it.
    pub hop_writable: bool,
}

/// Why a part could not be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError(pub String);

/// Of [`Descriptor::needs_with`].
pub type Condition = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

/// The whole public face of a component.
pub struct Descriptor {
    /// Registry name: also the file, the TOML key's value and the label in plots.
    pub name: &'static str,
    /// Role.
    pub role: Role,
    /// One or more sentences.
    pub doc: &'static str,
    /// Sources.
    pub cites: &'static [&'static str],
    /// Parameters.
    pub params: &'static [ParamSpec],
    /// Header words beyond those that every format has.
    pub words: &'static [WordSpec],
    /// Names reported by [`Component::observe`].
    pub probes: &'static [&'static str],
    /// Sections read: refused without a writer.
    pub reads: Facts,
    /// Sections used if somebody writes them; else their documented zero.
    pub wants: Facts,
    /// Sections written.
    pub writes: Facts,
    /// (heard, emitted in response). `"segment"`, `"overheard"` and `"timer"` are sources too; a
    /// name that is no plain signal is a named one; a leading `?` means that nobody need emit it.
    pub hears: &'static [(&'static str, &'static [&'static str])],
    /// Kinds offered.
    pub offers: &'static [Kind],
    /// (slot or property, allowed): `("judge", &["loss-is-congestion"])`, `("unit", &["octets"])`.
    pub needs: &'static [(&'static str, &'static [&'static str])],
    /// The same, while a text parameter has a value: (parameter, value, slot or property, allowed).
    pub needs_with: &'static [Condition],
    /// Hooks overridden besides `on_signal`, `on_timer` and `offer`, which follow from the above:
    /// `"segment"`, `"overheard"`, `"permit"`, `"stamp"`.
    pub hooks: &'static [&'static str],
    /// Makes the part.
    pub build: fn(&Params<'_>) -> Result<Box<dyn Component>, BuildError>,
}

impl Descriptor {
    /// A descriptor with nothing in it, for struct update syntax.
    pub const EMPTY: Descriptor = Descriptor {
        name: "",
        role: Role::Watch,
        doc: "",
        cites: &[],
        params: &[],
        words: &[],
        probes: &[],
        reads: Facts::NONE,
        wants: Facts::NONE,
        writes: Facts::NONE,
        hears: &[],
        offers: &[],
        needs: &[],
        needs_with: &[],
        hooks: &[],
        build: |_| {
            Err(BuildError(String::from(
                "this descriptor has no build function",
            )))
        },
    };

    /// Whether the part declares the hook.
    pub fn has_hook(&self, hook: &str) -> bool {
        match hook {
            "signal" => self.heard().next().is_some(),
            "timer" => self.hears.iter().any(|(h, _)| *h == "timer"),
            "offer" => !self.offers.is_empty(),
            _ => self.hooks.contains(&hook),
        }
    }

    /// Signals heard (without the sources), with `?` stripped, and whether an emitter is required.
    pub fn heard(&self) -> impl Iterator<Item = (&'static str, bool)> {
        self.hears
            .iter()
            .map(|(h, _)| *h)
            .filter(|h| !SOURCES.contains(h))
            .map(|h| h.strip_prefix('?').map_or((h, true), |bare| (bare, false)))
    }
}

impl fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Descriptor")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// What can be named in [`Descriptor::hears`] besides signals. `"fill"` is the moment when an
/// offer of the part is accepted.
pub const SOURCES: [&str; 4] = ["segment", "overheard", "timer", "fill"];

/// The parts that compositions may name.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    parts: Vec<&'static Descriptor>,
}

impl Registry {
    /// A registry of these parts; the order is that of the documentation.
    pub fn new(parts: &[&'static Descriptor]) -> Registry {
        Registry {
            parts: parts.to_vec(),
        }
    }

    /// With more parts, from other crates.
    #[must_use]
    pub fn with(mut self, parts: &[&'static Descriptor]) -> Registry {
        self.parts.extend_from_slice(parts);
        self
    }

    /// All parts.
    pub fn parts(&self) -> &[&'static Descriptor] {
        &self.parts
    }

    /// The part of that name.
    pub fn find(&self, name: &str) -> Option<&'static Descriptor> {
        self.parts.iter().copied().find(|d| d.name == name)
    }

    /// Names of the parts of a role.
    pub fn names(&self, role: Role) -> Vec<&'static str> {
        self.parts
            .iter()
            .filter(|d| d.role == role)
            .map(|d| d.name)
            .collect()
    }
}
