//! What parts and handlers have in common: whoever lists them, explains them or checks who reads
//! and who writes what needs no more of either.

use crate::fact::Fact;
use crate::params::ParamSpec;
use wifu_wire::{Format, HeadField};

/// What somebody does with a header word or an annotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads it: somebody else must write it.
    Read,
    /// Writes it.
    Write,
    /// Reads what came, and writes it anew.
    Both,
}

impl Access {
    /// Whether it is read.
    pub const fn reads(self) -> bool {
        matches!(self, Access::Read | Access::Both)
    }

    /// Whether it is written.
    pub const fn writes(self) -> bool {
        matches!(self, Access::Write | Access::Both)
    }
}

/// A header word by name, and what is done with it.
#[derive(Clone, Copy, Debug)]
pub struct WordUse {
    /// Its name in the format.
    pub name: &'static str,
    /// What is done with it.
    pub access: Access,
    /// A format may lack it.
    pub optional: bool,
}

impl WordUse {
    /// A word that is read.
    pub const fn read(name: &'static str) -> WordUse {
        WordUse {
            name,
            access: Access::Read,
            optional: false,
        }
    }

    /// A word that is read and written.
    pub const fn written(name: &'static str) -> WordUse {
        WordUse {
            access: Access::Both,
            ..WordUse::read(name)
        }
    }

    /// The same, where the format has it.
    #[must_use]
    pub const fn optional(self) -> WordUse {
        WordUse {
            optional: true,
            ..self
        }
    }
}

/// A field of the header, beside words of a format's own, that a part fills in or relies on.
#[derive(Clone, Copy, Debug)]
pub struct FieldUse {
    /// Which one, of those that formats may have in common.
    pub field: HeadField,
    /// Not with this parameter at this value, as it is written: `("timestamps", "off")`.
    pub unless: Option<(&'static str, &'static str)>,
    /// Over a format that does not carry it the part does what it is for all the same.
    pub optional: bool,
}

impl FieldUse {
    /// A field that the part cannot do without.
    pub const fn of(field: HeadField) -> FieldUse {
        FieldUse {
            field,
            unless: None,
            optional: false,
        }
    }

    /// The same, unless the parameter has this value.
    #[must_use]
    pub const fn unless(self, param: &'static str, value: &'static str) -> FieldUse {
        FieldUse {
            unless: Some((param, value)),
            ..self
        }
    }

    /// The same; it can do without.
    #[must_use]
    pub const fn optional(self) -> FieldUse {
        FieldUse {
            optional: true,
            ..self
        }
    }
}

/// An annotation that a part or a handler uses: a value that a packet carries inside one node only.
#[derive(Clone, Copy, Debug)]
pub struct NoteSpec {
    /// Name, one meaning in the whole registry.
    pub name: &'static str,
    /// What this part or handler does with it.
    pub access: Access,
    /// Unit, e.g. `us`.
    pub unit: &'static str,
    /// Meaning, and what its absence means.
    pub doc: &'static str,
}

/// The annotation by which a handler tells the end that nodes of the path do not serve its
/// composition: the engine puts it on the board (`site.unserved`).
pub const UNSERVED: NoteSpec = NoteSpec {
    name: "unserved",
    access: Access::Write,
    unit: "",
    doc: "Nodes of the path that did not look at packets of this connection, either way.",
};

/// The annotation by which who sends a packet, or a handler on its way out, says how urgent it is:
/// what has more than 0 goes before packets without, where the node's queues heed it.
pub const PRIORITY: NoteSpec = NoteSpec {
    name: "priority",
    access: Access::Write,
    unit: "",
    doc: "How urgent a packet is that leaves; absent: 0, like all others. Above 0 it goes before \
          them where `host.prio_feedback` is on.",
};

/// The annotation that marks a packet which carries feedback.
pub const FEEDBACK: NoteSpec = NoteSpec {
    name: "feedback",
    access: Access::Write,
    unit: "",
    doc: "A packet that leaves carries feedback; absent, or 0: it does not. Where \
          `host.prio_feedback` is on it goes before data.",
};

/// The annotation that says until when a packet is worth sending: the node drops it when it is to
/// be handed to a link later than that. Written with [`wifu_wire::Notes::set_time`].
pub const DEADLINE: NoteSpec = NoteSpec {
    name: "deadline",
    access: Access::Write,
    unit: "us",
    doc: "When a packet that leaves is worth nothing any more, on the node's clock, modulo 2^32: \
          it is dropped rather than handed to a link later. At most 35 minutes ahead, for one \
          further away is read as past. Absent: it never expires.",
};

/// The annotations whose meaning is the node's or the engine's, which read them.
pub const READ_BELOW: [NoteSpec; 4] = [UNSERVED, PRIORITY, FEEDBACK, DEADLINE];

/// A part or a handler, without what only one of the two has.
#[derive(Clone, Debug, Default)]
pub struct Face {
    /// Its name in compositions and configurations.
    pub name: &'static str,
    /// The key of a part's role; `None`: a handler.
    pub role: Option<&'static str>,
    /// One or more sentences.
    pub doc: &'static str,
    /// Papers and RFCs that it follows.
    pub cites: &'static [&'static str],
    /// Parameters.
    pub params: &'static [ParamSpec],
    /// Header words.
    pub words: Vec<WordUse>,
    /// Fields of the header that a part needs; handlers have none.
    pub fields: &'static [FieldUse],
    /// Annotations.
    pub notes: &'static [NoteSpec],
    /// What it cannot do without and only a substrate knows.
    pub requires: &'static [Fact],
}

impl Face {
    /// Whether this counts the nodes that a packet passes, in a header of this format.
    pub fn counts_nodes(&self, format: &Format) -> bool {
        let mut own = format.own();
        let word = own.find(|w| w.counts_nodes());
        word.is_some_and(|word| {
            let mut words = self.words.iter();
            words.any(|w| w.name == word.name && w.access.writes())
        })
    }
}
