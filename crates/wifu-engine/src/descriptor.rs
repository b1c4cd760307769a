//! Descriptors and the registry: the whole public face of a component. Help texts, documentation
//! and checks are generated from it.

use crate::admission::Admission;
use crate::board::Facts;
use crate::component::Component;
use crate::face::{Face, WordUse};
use crate::fact::{Fact, Preference};
use crate::permit::Kind;
use core::fmt;
use wifu_wire::names::{Named, Shelf};
use wifu_wire::shim::ShimWord;
use wifu_wire::{Class, Note, WireSpec};

pub use crate::face::{
    Access, DEADLINE, FEEDBACK, FieldUse, NoteSpec, PRIORITY, READ_BELOW, UNSERVED,
};
pub use crate::params::{ParamSpec, Params, Value};

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

/// A header word that a part uses. Declared formats know the word already; `shim` lays it out by
/// this.
#[derive(Clone, Copy, Debug)]
pub struct WordSpec {
    /// Name, width and who may write it.
    pub layout: ShimWord,
    /// What this part does with it.
    pub access: Access,
}

impl WordSpec {
    /// A word that only ends write, read and written by this part.
    pub const fn new(name: &'static str, bits: u8) -> WordSpec {
        WordSpec {
            layout: ShimWord::new(name, bits),
            access: Access::Both,
        }
    }

    /// The same, which nodes on the way write too.
    #[must_use]
    pub const fn by_hops(self) -> WordSpec {
        let layout = self.layout.by_hops();
        WordSpec { layout, ..self }
    }

    /// A word that names the node which transmits this copy, by its IPv4 address: lanes write it.
    pub const fn transmitter(name: &'static str) -> WordSpec {
        let layout = ShimWord {
            names_transmitter: true,
            ..ShimWord::new(name, 32).by_hops()
        };
        let access = Access::Read;
        WordSpec { layout, access }
    }

    /// The same, which counts the nodes that looked at the packet (and is written by them).
    #[must_use]
    pub const fn counting_hops(self) -> WordSpec {
        let layout = ShimWord {
            counts_hops: true,
            ..self.layout.by_hops()
        };
        WordSpec { layout, ..self }
    }

    /// The same; set to 1, it makes a packet one of this class.
    #[must_use]
    pub const fn marking(self, class: Class) -> WordSpec {
        let layout = ShimWord {
            marks: Some(class),
            ..self.layout
        };
        WordSpec { layout, ..self }
    }

    /// The same, only read by this part.
    #[must_use]
    pub const fn read(self) -> WordSpec {
        WordSpec {
            access: Access::Read,
            ..self
        }
    }

    /// The same, only written by this part.
    #[must_use]
    pub const fn written(self) -> WordSpec {
        WordSpec {
            access: Access::Write,
            ..self
        }
    }

    /// What parts call the word.
    pub const fn name(&self) -> &'static str {
        self.layout.name
    }
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
    /// The place in a composition that it fills, which says what it may write and how often it
    /// occurs.
    pub role: Role,
    /// One or more sentences.
    pub doc: &'static str,
    /// Papers and RFCs that it follows.
    pub cites: &'static [&'static str],
    /// Parameters.
    pub params: &'static [ParamSpec],
    /// Header words beyond those that every format has.
    pub words: &'static [WordSpec],
    /// Fields of the header that it fills in or relies on: a wire format that does not carry them
    /// is refused.
    pub fields: &'static [FieldUse],
    /// Annotations of packets, written or read.
    pub notes: &'static [NoteSpec],
    /// Names reported by [`Component::observe`].
    pub probes: &'static [&'static str],
    /// Sections read: refused without a writer.
    pub reads: Facts,
    /// Sections used if somebody writes them; else their documented zero.
    pub wants: Facts,
    /// Sections written.
    pub writes: Facts,
    /// Of who writes `rtt`: it times packets from when they left first, so that what they waited to
    /// be repaired is in its samples.
    pub times_repairs: bool,
    /// What it cannot do without and only a substrate knows: refused where nobody tells it.
    pub requires: &'static [Fact],
    /// The same of facts for which a section stands in where somebody writes it: refused where
    /// there is neither.
    pub requires_either: &'static [(Fact, Facts)],
    /// What only a substrate knows, and it acts upon and can do without.
    pub prefers: &'static [Preference],
    /// (heard, emitted in response). `"segment"`, `"overheard"` and `"timer"` are sources too; a
    /// name that is no plain signal is a named one; a leading `?` means that nobody need emit it.
    pub hears: &'static [(&'static str, &'static [&'static str])],
    /// Kinds offered.
    pub offers: &'static [Kind],
    /// (slot, property or another part's parameter, allowed): `("judge", &["loss-is-congestion"])`,
    /// `("unit", &["octets"])`, `("timestamps", &["on"])`.
    pub needs: &'static [(&'static str, &'static [&'static str])],
    /// The same, while a text parameter has a value: (parameter, value, slot or property, allowed).
    pub needs_with: &'static [Condition],
    /// Hooks overridden besides `on_signal`, `on_timer` and `offer`, which follow from the above:
    /// `"segment"`, `"overheard"`, `"permit"`, `"stamp"`.
    pub hooks: &'static [&'static str],
    /// Of a manager: who opens a connection; `None`: [`crate::admission::Plain`].
    pub admission: Option<&'static dyn Admission>,
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
        fields: &[],
        notes: &[],
        probes: &[],
        reads: Facts::NONE,
        wants: Facts::NONE,
        writes: Facts::NONE,
        times_repairs: false,
        requires: &[],
        requires_either: &[],
        prefers: &[],
        hears: &[],
        offers: &[],
        needs: &[],
        needs_with: &[],
        hooks: &[],
        admission: None,
        build: |_| {
            Err(BuildError(String::from(
                "this descriptor has no build function",
            )))
        },
    };

    /// What it has in common with handlers.
    pub fn face(&self) -> Face {
        let word = |w: &WordSpec| WordUse {
            name: w.name(),
            access: w.access,
            optional: false,
        };
        Face {
            name: self.name,
            role: Some(self.role.key()),
            doc: self.doc,
            cites: self.cites,
            params: self.params,
            words: self.words.iter().map(word).collect(),
            fields: self.fields,
            notes: self.notes,
            requires: self.requires,
        }
    }

    /// Whether it writes `tx` and has a retransmission timer: what it sent may be lost because a
    /// timer fired.
    pub fn times_out(&self) -> bool {
        self.writes.has(Facts::TX) && self.answers("timer", "lost")
    }

    /// Whether it writes `tx` and takes losses from what arrives.
    pub fn finds_losses(&self) -> bool {
        self.writes.has(Facts::TX) && self.answers("segment", "lost")
    }

    fn answers(&self, heard: &str, signal: &str) -> bool {
        let mut all = self.hears.iter();
        all.any(|(h, emits)| *h == heard && emits.contains(&signal))
    }

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

impl Named for Descriptor {
    const KIND: &'static str = "part";
    fn name(&self) -> &'static str {
        self.name
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

/// The name of the format that each composition makes for itself.
pub const SHIM: &str = "shim";

/// The parts that compositions may name.
#[derive(Clone, Debug)]
pub struct Registry {
    parts: Shelf<&'static Descriptor>,
    wires: Shelf<&'static WireSpec>,
    notes: Vec<NoteSpec>,
}

impl Registry {
    /// A registry of these parts; the order is that of the documentation.
    pub fn new(parts: &[&'static Descriptor]) -> Registry {
        Registry::empty().with_wires(wifu_wire::WIRES).with(parts)
    }

    /// A registry of nothing, not even of the formats that come with WiFu.
    pub fn empty() -> Registry {
        Registry {
            parts: Shelf::new(&[]),
            wires: Shelf::new(&[SHIM]),
            notes: Vec::new(),
        }
    }

    /// With more parts, from other crates.
    ///
    /// # Panics
    /// If a part has the name of another: compositions could not say which they mean.
    #[must_use]
    pub fn with(mut self, parts: &[&'static Descriptor]) -> Registry {
        self.parts.add(parts);
        let notes = parts.iter().flat_map(|d| d.notes);
        self.with_notes(notes.copied())
    }

    /// With more wire formats, from other crates.
    ///
    /// # Panics
    /// If a format has the name of another, or of `shim`: compositions that name it would change
    /// their header.
    #[must_use]
    pub fn with_wires(mut self, wires: &[&'static WireSpec]) -> Registry {
        self.wires.add(wires);
        self
    }

    /// With annotations that others than parts declare. Each name gets its number here.
    ///
    /// # Panics
    /// If two declare one with different units: what one writes the other would misread.
    #[must_use]
    pub fn with_notes(mut self, notes: impl IntoIterator<Item = NoteSpec>) -> Registry {
        for note in notes {
            match self.differs(&note) {
                Some(what) => panic!("{what}"),
                None if self.notes.iter().any(|n| n.name == note.name) => {}
                None => self.notes.push(note),
            }
        }
        self
    }

    /// That somebody has declared an annotation of this name with another unit.
    pub fn differs(&self, note: &NoteSpec) -> Option<String> {
        let mut notes = self.notes.iter().chain(&READ_BELOW);
        let other = notes.find(|n| n.name == note.name && n.unit != note.unit)?;
        Some(format!(
            "the annotation \"{}\" is declared in \"{}\" and in \"{}\": one name has one unit",
            note.name, other.unit, note.unit
        ))
    }

    /// The wire formats that have a declaration of their own, by name; `shim` is made for each
    /// composition.
    pub fn wires(&self) -> &Shelf<&'static WireSpec> {
        &self.wires
    }

    /// The annotations of all parts and handlers, in the order of their numbers.
    pub fn notes(&self) -> &[NoteSpec] {
        &self.notes
    }

    /// Number of an annotation; `None` if nobody declares it, or more are declared than a packet
    /// has places for ([`wifu_wire::NOTES`]).
    pub fn note(&self, name: &str) -> Option<Note> {
        let at = self.notes.iter().position(|n| n.name == name)?;
        (at < wifu_wire::NOTES).then_some(Note(at as u8))
    }

    /// Numbers of the annotations that a part or a handler declares.
    ///
    /// # Errors
    /// More are declared, by all together, than a packet has places for.
    pub fn numbers(&self, notes: &[NoteSpec]) -> Result<Vec<(&'static str, Note)>, String> {
        let number = |n: &NoteSpec| {
            let note = self.note(n.name).ok_or_else(|| {
                format!(
                    "no place is left for the annotation \"{}\": packets have {}",
                    n.name,
                    wifu_wire::NOTES
                )
            })?;
            Ok((n.name, note))
        };
        notes.iter().map(number).collect()
    }

    /// All parts, by name.
    pub fn parts(&self) -> &Shelf<&'static Descriptor> {
        &self.parts
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_writes_tx_says_by_what_it_takes_data_for_lost() {
        let both = |writes, hears| {
            let part = Descriptor {
                writes,
                hears,
                ..Descriptor::EMPTY
            };
            (part.times_out(), part.finds_losses())
        };
        let timer = &[("timer", &["lost", "gave-up"] as &[_])];
        let holes = &[("segment", &["acked", "lost"] as &[_]), ("timer", &[])];
        assert_eq!(both(Facts::TX, timer), (true, false));
        assert_eq!(both(Facts::TX, holes), (false, true));
        let marks = &[("segment", &["lost"] as &[_]), ("timer", &["ended"])];
        assert_eq!(both(Facts::CONN, marks), (false, false));
    }

    #[test]
    #[should_panic(expected = "two parts are called pacer: give yours a name of its own")]
    fn a_part_does_not_hide_another_of_its_name() {
        static ONE: Descriptor = Descriptor {
            name: "pacer",
            ..Descriptor::EMPTY
        };
        static OTHER: Descriptor = Descriptor {
            name: "pacer",
            ..Descriptor::EMPTY
        };
        let _ = Registry::new(&[&ONE]).with(&[&OTHER]);
    }

    #[test]
    #[should_panic(
        expected = "the annotation \"age\" is declared in \"us\" and in \"ms\": one name has one unit"
    )]
    fn an_annotation_has_one_unit_whoever_declares_it() {
        const AGE: NoteSpec = NoteSpec {
            name: "age",
            access: Access::Write,
            unit: "us",
            doc: "Since it was made.",
        };
        static WRITER: Descriptor = Descriptor {
            name: "writer",
            notes: &[AGE],
            ..Descriptor::EMPTY
        };
        let read = NoteSpec {
            access: Access::Read,
            ..AGE
        };
        let registry = Registry::new(&[&WRITER]).with_notes([read]);
        assert_eq!(
            registry.notes().len(),
            1,
            "who says the same declares the same"
        );
        let _ = registry.with_notes([NoteSpec { unit: "ms", ..read }]);
    }

    #[test]
    fn what_the_node_reads_has_its_unit_before_anybody_writes_it() {
        let of_part = NoteSpec {
            unit: "ms",
            ..DEADLINE
        };
        let registry = Registry::new(&[]);
        let what = registry.differs(&of_part).expect("the node reads us");
        assert!(
            what.contains("\"deadline\" is declared in \"us\""),
            "{what}"
        );
        assert!(registry.differs(&DEADLINE).is_none() && registry.note("deadline").is_none());
        assert!(registry.with_notes([DEADLINE]).note("deadline").is_some());
    }

    #[test]
    #[should_panic(expected = "two wire formats are called atp: give yours a name of its own")]
    fn a_format_does_not_take_the_place_of_another() {
        let _ = Registry::new(&[]).with_wires(&[&wifu_wire::atp::WIRE]);
    }

    #[test]
    #[should_panic(expected = "two wire formats are called shim")]
    fn no_format_takes_the_place_of_the_one_that_compositions_lay_out() {
        use wifu_wire::atp;
        static FORMAT: std::sync::LazyLock<wifu_wire::Format> =
            std::sync::LazyLock::new(|| wifu_wire::Format {
                name: SHIM,
                ..atp::FORMAT.clone()
            });
        let spec: &'static WireSpec = Box::leak(Box::new(WireSpec {
            format: &FORMAT,
            make: atp::WIRE.make,
        }));
        let _ = Registry::empty().with_wires(&[spec]);
    }
}
