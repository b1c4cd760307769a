//! What there is: parts, wire formats, handlers and compositions; and a composition with all that
//! it brings along.

use std::sync::{Arc, LazyLock};
use wifu_core::{Descriptor, Kinds};
use wifu_engine::{Blueprint, ConfigError, Library};

/// A checked composition with all that it brings along.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// Its ends.
    pub ends: Arc<Blueprint>,
}

/// Who knows protocols and handlers.
pub trait Catalog {
    /// The protocol of a specification: a name, with parameters behind commas.
    ///
    /// # Errors
    /// What is wrong with it, and what would be right.
    fn protocol(&self, spec: &str) -> Result<Arc<Protocol>, String>;

    /// Handlers, parts and formats.
    fn kinds(&self) -> &Kinds;
}

/// Everything that can be named.
#[derive(Clone)]
pub struct Registry {
    kinds: Kinds,
    library: Library,
}

impl Registry {
    /// These parts with the handlers that come with WiFu, and these compositions.
    pub fn new(parts: wifu_engine::Registry, library: Library) -> Registry {
        Registry {
            kinds: Kinds::new(parts),
            library,
        }
    }

    /// With more parts, from other crates.
    #[must_use]
    pub fn with_parts(mut self, parts: &[&'static wifu_engine::Descriptor]) -> Registry {
        self.kinds.parts = self.kinds.parts.with(parts);
        self
    }

    /// With more handlers, from other crates.
    #[must_use]
    pub fn with_handlers(mut self, handlers: &[&'static Descriptor]) -> Registry {
        self.kinds = self.kinds.with(handlers);
        self
    }

    /// With more wire formats, from other crates.
    #[must_use]
    pub fn with_wires(mut self, wires: &[&'static wifu_wire::WireSpec]) -> Registry {
        self.kinds.parts = self.kinds.parts.with_wires(wires);
        self
    }

    /// With more compositions and profiles; one takes the place of another of its name.
    #[must_use]
    pub fn with_library(mut self, library: Library) -> Registry {
        self.library = self.library.merge(library);
        self
    }

    /// The compositions.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// The parts and wire formats.
    pub fn parts(&self) -> &wifu_engine::Registry {
        &self.kinds.parts
    }

    /// The checked protocol of a specification such as `tcp-newreno,iw=4`.
    ///
    /// # Errors
    /// Unknown names and values out of range, with what would be right.
    pub fn resolve(&self, spec: &str) -> Result<Arc<Protocol>, ConfigError> {
        let ends = self.library.resolve(spec, &self.kinds.parts)?;
        Ok(Arc::new(Protocol { ends }))
    }
}

impl Catalog for Registry {
    fn protocol(&self, spec: &str) -> Result<Arc<Protocol>, String> {
        self.resolve(spec).map_err(|e| e.to_string())
    }

    fn kinds(&self) -> &Kinds {
        &self.kinds
    }
}

/// Protocols without anything on hops, from a function that knows their blueprints; the handlers
/// that come with WiFu.
impl<F: Fn(&str) -> Result<Arc<Blueprint>, String>> Catalog for F {
    fn protocol(&self, spec: &str) -> Result<Arc<Protocol>, String> {
        self(spec).map(|ends| Arc::new(Protocol { ends }))
    }

    fn kinds(&self) -> &Kinds {
        static BARE: LazyLock<Kinds> =
            LazyLock::new(|| Kinds::new(wifu_engine::Registry::new(&[])));
        &BARE
    }
}
