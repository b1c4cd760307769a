//! What there is to make handlers from, and where they are made.

use crate::error::ConfigError;
use crate::handler::{Descriptor, Verbs};
use crate::handlers::HANDLERS;
use crate::select::Select;
use crate::whose::Headers;
use wifu_engine::{Face, Fact, Registry};
use wifu_wire::Wire;
use wifu_wire::names::Shelf;

/// What there is to make handlers from.
#[derive(Clone)]
pub struct Kinds {
    /// The handlers that may be named, in the order of the documentation.
    pub handlers: Shelf<&'static Descriptor>,
    /// Parts, formats and, with those of the handlers, all annotations.
    pub parts: Registry,
    /// Compositions that configurations may name as those whose packets a handler is asked about.
    pub headers: Headers,
}

impl Kinds {
    /// The handlers that come with WiFu, beside these parts.
    pub fn new(parts: Registry) -> Kinds {
        Kinds::bare(parts).with(HANDLERS)
    }

    /// No handlers yet, beside these parts.
    pub fn bare(parts: Registry) -> Kinds {
        Kinds {
            handlers: Shelf::new(&[]),
            parts,
            headers: Headers::default(),
        }
    }

    /// With more handlers, from other crates.
    ///
    /// # Panics
    /// If a handler has the name of another: configurations could not say which they mean.
    #[must_use]
    pub fn with(mut self, handlers: &[&'static Descriptor]) -> Kinds {
        let notes = handlers.iter().flat_map(|d| d.notes).copied();
        self.parts = self.parts.with_notes(notes);
        self.handlers.add(handlers);
        self
    }

    /// Parts, then handlers, by what they have in common.
    pub fn faces(&self) -> impl Iterator<Item = Face> {
        let parts = self.parts.parts().iter().map(|d| d.face());
        parts.chain(self.handlers.iter().map(|d| d.face()))
    }

    /// The handler of a name.
    ///
    /// # Errors
    /// There is none; the nearest known name.
    pub fn find(&self, name: &str) -> Result<&'static Descriptor, ConfigError> {
        self.handlers.get(name).map_err(ConfigError)
    }
}

/// Where a chain is made: from what, and for what kind of substrate.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    /// What there is.
    pub kinds: &'a Kinds,
    /// What handlers can do there.
    pub can: Verbs,
    /// What they are told there.
    pub told: &'a [Fact],
}

/// The packets of a composition, for handlers that belong to it.
#[derive(Clone, Copy)]
pub struct Own<'a> {
    /// Its wire format.
    pub wire: &'a dyn Wire,
    /// Its IP protocol number.
    pub number: u8,
    /// UDP ports of its service.
    pub ports: &'a [u16],
}

impl Own<'_> {
    /// Which packets these are.
    pub(crate) fn select(&self) -> Select {
        Select {
            ports: self.ports.to_vec(),
            ..Select::composition(self.wire, self.number)
        }
    }
}
