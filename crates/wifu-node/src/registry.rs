//! What there is: parts, wire formats, handlers and compositions; and a composition with all that
//! it brings along.

use crate::Substrate;
use crate::export::Brought;
use std::sync::{Arc, LazyLock};
use wifu_core::{Chain, Config, Descriptor, Ground, HandlerConfig, Kinds, Own, Select, Verbs};
use wifu_engine::blueprint::HopHalf;
use wifu_engine::{Blueprint, Composition, ConfigError, Face, Fact, Library};
use wifu_wire::names::{self, Named};
use wifu_wire::{Rng, WireSpec};

/// A checked composition with all that it brings along.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// Its ends, and what runs between hops ([`Blueprint::lane`]).
    pub ends: Arc<Blueprint>,
    /// Its handlers, for each node that serves it.
    pub handlers: Config,
    /// What its handlers require of a substrate, each with its name.
    pub requires: Vec<(String, Fact)>,
    /// The nodes that serve it count themselves on its packets, by which its ends notice those that
    /// do not; nobody needs to if it has no hop half.
    pub counts_nodes: bool,
    /// IP protocol numbers of the shims that its handlers insert: behind one its own is hidden.
    pub shims: Vec<u8>,
    /// UDP ports of its service, by either of which nodes tell its packets in UDP.
    pub ports: Vec<u16>,
}

impl Protocol {
    /// Ends that bring nothing along.
    pub fn of(ends: Arc<Blueprint>) -> Protocol {
        Protocol {
            handlers: Config::default(),
            requires: Vec::new(),
            counts_nodes: ends.lane.is_some(),
            ports: ends.wire.format().port.into_iter().collect(),
            ends,
            shims: Vec::new(),
        }
    }

    /// The IP protocol numbers that its packets may have on a link: its own, and those of shims.
    pub fn numbers(&self) -> impl Iterator<Item = u8> {
        core::iter::once(self.ends.number).chain(self.shims.iter().copied())
    }

    /// Whether nodes on the way have something to do for it.
    pub fn has_hops(&self) -> bool {
        !self.handlers.handlers.is_empty() || self.ends.lane.is_some()
    }

    /// It has a hop half, and a relay that does not serve it goes unnoticed.
    pub fn relays_unnoticed(&self) -> bool {
        self.has_hops() && !self.counts_nodes
    }

    /// Which packets are its own.
    pub fn select(&self) -> Select {
        Select {
            ports: self.ports.clone(),
            ..Select::composition(&*self.ends.wire, self.ends.number)
        }
    }

    /// The same whose service has these UDP ports, if its packets can be in UDP at all.
    #[must_use]
    pub fn at_ports(&self, ports: &[u16]) -> Protocol {
        let in_udp = self.ends.wire.format().port.is_some();
        Protocol {
            ports: ports.iter().copied().filter(|_| in_udp).collect(),
            ..self.clone()
        }
    }

    /// Append its handlers to a node's chain.
    ///
    /// # Errors
    /// A handler that cannot act on the ground.
    pub fn append(
        &self,
        chain: &mut Chain,
        rng: &Rng,
        ground: Ground<'_>,
    ) -> Result<(), wifu_core::ConfigError> {
        let own = Own {
            wire: &*self.ends.wire,
            number: self.ends.number,
            ports: &self.ports,
        };
        let named = rng.split(&self.ends.name);
        self.handlers.append(chain, &named, ground, Some(own))
    }
}

/// Of protocols that one network runs, those whose packets nodes look at, each kind once: variants
/// of a composition that differ in their ends only have the same hop half.
///
/// # Errors
/// The names of two whose packets nodes or ends cannot tell apart, and treat differently: their hop
/// halves differ, or their formats.
pub fn tell_apart(served: &[Arc<Protocol>]) -> Result<Vec<Arc<Protocol>>, String> {
    let mut halves: Vec<Arc<Protocol>> = Vec::new();
    for (i, a) in served.iter().enumerate() {
        for b in &served[..i] {
            let wires = [a, b].map(|p| (p.ends.wire.name(), p.ends.wire.identity()));
            if a.ends.number == b.ends.number && wires[0] != wires[1] {
                return Err(format!(
                    "{} and {} both have IP protocol {}, but not one header: no end could read a \
                     packet; give one of them another number",
                    b.ends.name, a.ends.name, a.ends.number
                ));
            }
            let lane = |p: &Protocol| p.ends.lane.as_ref().map(|l| l.id);
            let words = |p: &Protocol| {
                let own = p.ends.wire.format().own();
                own.map(|w| (w.name, w.byte, w.bit, w.bits))
                    .collect::<Vec<_>>()
            };
            let same = a.handlers == b.handlers && lane(a) == lane(b) && words(a) == words(b);
            if !same && a.select().meets(&b.select()) {
                return Err(format!(
                    "{} and {} have packets of one kind (IP protocol {}), but not the same handlers \
                     and lanes: no node could tell which to ask; give one of them another number",
                    b.ends.name, a.ends.name, a.ends.number
                ));
            }
        }
        // A packet in UDP does not say which of two it is of: it meets the handlers once.
        let told =
            |b: &&Arc<Protocol>| a.ends.number != b.ends.number && a.select().meets(&b.select());
        let taken = |p: &u16| halves.iter().filter(told).any(|b| b.ports.contains(p));
        let ports: Vec<u16> = a.ports.iter().copied().filter(|p| !taken(p)).collect();
        let half = Arc::new(a.at_ports(&ports));
        let known = |b: &&Arc<Protocol>| half.select() == b.select();
        if a.has_hops() && halves.iter().find(known).is_none() {
            halves.push(half);
        }
    }
    Ok(halves)
}

/// Whether the nodes that serve a composition with these handlers count themselves on its packets:
/// in its own header, or in one that a handler puts before it.
fn nodes_count(ends: &Blueprint, handlers: &[&'static Descriptor]) -> bool {
    let before = |d: &&'static Descriptor| d.inserts.is_some_and(|f| d.face().counts_nodes(f));
    ends.counted || handlers.iter().any(before)
}

/// That what a library brings has names of its own.
fn fresh<'a, T: Named>(known: impl Iterator<Item = &'a str>, more: &[T]) -> Result<(), String> {
    let Some(name) = names::taken(known, more) else {
        return Ok(());
    };
    let kind = T::KIND;
    Err(format!(
        "its {kind} {name} has a name that is taken already; give it another"
    ))
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
    ///
    /// # Panics
    /// If a format has the name of another that compositions can name.
    #[must_use]
    pub fn with_wires(mut self, wires: &[&'static WireSpec]) -> Registry {
        self.kinds.parts = self.kinds.parts.with_wires(wires);
        self
    }

    /// With more compositions and profiles; one takes the place of another of its name.
    #[must_use]
    pub fn with_library(mut self, library: Library) -> Registry {
        self.library = self.library.merge(library);
        self
    }

    /// With nothing in it, not even the handlers that come with WiFu.
    pub(crate) fn bare() -> Registry {
        let parts = wifu_engine::Registry::empty();
        Registry {
            kinds: Kinds::bare(parts),
            library: Library::default(),
        }
    }

    /// All of it, for another copy of WiFu.
    pub(crate) fn into_brought(self) -> Brought {
        Brought {
            parts: self.kinds.parts.parts().to_vec(),
            handlers: self.kinds.handlers.to_vec(),
            wires: self.kinds.parts.wires().to_vec(),
            compositions: self.library.to_toml(),
        }
    }

    /// With all that a loaded library brought.
    ///
    /// # Errors
    /// Names of parts, handlers and formats that are there already, formats whose declaration is
    /// not sound ([`wifu_wire::Format::faults`]), and compositions that can't be read.
    pub fn with_brought(self, brought: Brought) -> Result<Registry, String> {
        fresh(self.parts().parts().names(), &brought.parts)?;
        fresh(self.kinds.handlers.names(), &brought.handlers)?;
        fresh(self.formats(), &brought.wires)?;
        let faults: Vec<String> = brought
            .wires
            .iter()
            .flat_map(|w| w.format.faults())
            .collect();
        if !faults.is_empty() {
            return Err(format!("its wire format {}", faults.join("; ")));
        }
        let parts = brought.parts.iter().flat_map(|d| d.notes);
        let handlers = brought.handlers.iter().flat_map(|d| d.notes);
        if let Some(what) = parts.chain(handlers).find_map(|n| self.parts().differs(n)) {
            return Err(format!("its parts and handlers do not fit: {what}"));
        }
        let library = Library::parse(&brought.compositions).map_err(|e| e.to_string())?;
        let registry = self.with_parts(&brought.parts);
        let registry = registry.with_handlers(&brought.handlers);
        Ok(registry.with_wires(&brought.wires).with_library(library))
    }

    /// Names of formats: those that compositions name, and those that handlers insert.
    fn formats(&self) -> impl Iterator<Item = &'static str> {
        let inserted = self.kinds.handlers.iter().filter_map(|d| d.inserts);
        let wires = self.kinds.parts.wires().names();
        wires.chain(inserted.map(|f| f.name))
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
        self.complete(&self.library.expand(spec)?)
    }

    /// The same, if it acts on a substrate.
    ///
    /// # Errors
    /// As [`Registry::resolve`] and [`Protocol::acts_on`].
    pub fn resolve_on(
        &self,
        spec: &str,
        substrate: Substrate,
    ) -> Result<Arc<Protocol>, ConfigError> {
        let protocol = self.resolve(spec)?;
        protocol.acts_on(substrate).map(|()| protocol)
    }

    /// The checked protocol of a composition, with its handlers.
    ///
    /// # Errors
    /// As [`Registry::resolve`].
    pub fn complete(&self, composition: &Composition) -> Result<Arc<Protocol>, ConfigError> {
        let composition = &*composition.switched(&self.kinds.parts)?;
        let key = format!("handlers.{}", composition.name);
        let wrong = |e: &dyn core::fmt::Display| ConfigError::one(&key, e.to_string());
        let mut handlers = Config::default();
        for table in &composition.handlers {
            let config = HandlerConfig::from_table(table).map_err(|e| wrong(&e))?;
            handlers.handlers.push(config);
        }
        let mut found = Vec::new();
        for h in &handlers.handlers {
            found.push(self.kinds.find(&h.name).map_err(|e| wrong(&e))?);
        }
        let faces: Vec<Face> = found.iter().map(|d| d.face()).collect();
        let hops = HopHalf {
            handlers: &faces,
            adds: found.iter().map(|d| d.adds()).sum(),
        };
        let ends = Arc::new(Blueprint::with(composition, &self.kinds.parts, hops)?);
        let requires = handlers.requires(&self.kinds).map_err(|e| wrong(&e))?;
        let protocol = Protocol {
            counts_nodes: nodes_count(&ends, &found),
            shims: found.iter().filter_map(|d| d.inserts?.number).collect(),
            ports: ends.wire.format().port.into_iter().collect(),
            ends,
            handlers,
            requires,
        };
        // Made once and thrown away: what is wrong with a handler is said now.
        let ground = Ground {
            kinds: &self.kinds,
            can: Verbs::ALL,
            told: &Fact::ALL,
        };
        let made = protocol.append(&mut Chain::new(), &Rng::new(0), ground);
        made.map_err(|e| wrong(&e))?;
        Ok(Arc::new(protocol))
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
        self(spec).map(|ends| Arc::new(Protocol::of(ends)))
    }

    fn kinds(&self) -> &Kinds {
        static BARE: LazyLock<Kinds> =
            LazyLock::new(|| Kinds::new(wifu_engine::Registry::new(&[])));
        &BARE
    }
}
