//! Blueprints: checked compositions. One can only exist if nothing in it can go wrong for reasons
//! of composition.

use crate::bench::Bench;
use crate::board::Facts;
use crate::checks;
use crate::component::{Component, SLOTS};
use crate::composition::Library;
use crate::composition::{Composition, ConfigError, Problem};
use crate::descriptor::{BuildError, Descriptor, Registry, SHIM};
use crate::face::Face;
use crate::fact::Fact;
use crate::hooks;
use crate::params::{Params, Value};
use crate::permit::Kind;
use crate::resolve::{Values, resolve_params};
use crate::signal::{ExtId, Signal};
use crate::store::{StoreKind, StorePlan};
use crate::switch;
use crate::words;
use std::borrow::Cow;
use std::sync::Arc;
use wifu_wire::format::{Field, WordDecl};
use wifu_wire::names::unknown;
use wifu_wire::shim;
use wifu_wire::{HeadField, Note, Place, Wire, Word};

pub use crate::resolve::ENGINE_PARAMS;

/// A part with its resolved parameters.
#[derive(Clone, Debug)]
pub struct PartPlan {
    /// The part.
    pub desc: &'static Descriptor,
    /// Values of all its parameters.
    pub values: Vec<(&'static str, Value)>,
    /// Places of its words.
    pub words: Vec<(&'static str, Word)>,
    /// Numbers of its annotations.
    pub notes: Vec<(&'static str, Note)>,
}

/// Slot numbers per hook, computed once. `offer` is sorted by (kind, slot).
#[derive(Clone, Debug, Default)]
pub struct Routes {
    pub(crate) segment: Vec<u8>,
    pub(crate) overheard: Vec<u8>,
    pub(crate) signal: Vec<Vec<u8>>,
    pub(crate) offer: Vec<(Kind, u8)>,
    pub(crate) permit: Vec<u8>,
    pub(crate) stamp: Vec<u8>,
}

/// A checked composition, ready to open connections.
#[derive(Clone, Debug)]
pub struct Blueprint {
    /// Name of the protocol.
    pub name: String,
    /// What it is.
    pub doc: String,
    /// IP protocol number; 0 if none was given.
    pub number: u8,
    /// Hash of the canonical text: stamped on every trace and result.
    pub id: u32,
    /// Parts, in the order in which the engine calls them.
    pub parts: Vec<PartPlan>,
    /// Values of [`ENGINE_PARAMS`].
    pub engine: Vec<(&'static str, Value)>,
    /// Named signals.
    pub exts: Vec<(&'static str, ExtId)>,
    /// The wire format.
    pub wire: Arc<dyn Wire>,
    /// The profile whose values were used, if any.
    pub profile: Option<String>,
    /// What that profile sets and nothing here takes: other parts of the registry declare it.
    pub unused: Vec<String>,
    pub(crate) store: StorePlan,
    pub(crate) routes: Arc<Routes>,
    /// The most signals that one event can cause.
    pub cascade: usize,
    /// What runs between hops, over the packets of this composition.
    pub lane: Option<Arc<Blueprint>>,
    /// Octets that handlers add between IP and transport.
    pub below: u32,
    /// Of what runs between hops: the word in which its runner counts each node that a packet
    /// passes; `None` if a handler or a part of the lane writes it.
    pub counts: Option<Place>,
    /// The nodes that serve this composition count themselves in its header: its lane or one of
    /// its handlers does. Only then a count that is too low tells of nodes that do not serve it.
    pub counted: bool,
}

/// What a composition's handlers do, as far as its ends must know.
#[derive(Clone, Copy, Debug, Default)]
pub struct HopHalf<'a> {
    /// Faces of the handlers, in the order in which packets meet them.
    pub handlers: &'a [Face],
    /// Octets that they add to each packet.
    pub adds: u32,
}

impl Composition {
    /// The same without those of its handlers whose switch, a parameter of its parts, is off.
    ///
    /// # Errors
    /// As [`Blueprint::new`]; a switch that no part has, with the nearest that one has.
    pub fn switched(&self, registry: &Registry) -> Result<Cow<'_, Composition>, ConfigError> {
        if !switch::has_any(self) {
            return Ok(Cow::Borrowed(self));
        }
        let switches = Blueprint::new(self, registry)?.switches();
        switch::without_off(self, &switches).map(Cow::Owned)
    }
}

impl Blueprint {
    fn switches(&self) -> Vec<switch::Switch> {
        switch::switches(self.parts.iter().flat_map(|p| &p.values)).collect()
    }

    /// What its parts require of a substrate: which part, and the fact, with the section that would
    /// stand in for it if a part here wrote it.
    pub fn required(&self) -> impl Iterator<Item = (&'static Descriptor, Fact, Option<Facts>)> {
        let written = |section| self.parts.iter().any(|p| p.desc.writes.has(section));
        self.parts.iter().map(|p| p.desc).flat_map(move |d| {
            let either = d.requires_either.iter().filter(move |e| !written(e.1));
            let either = either.map(move |(fact, section)| (d, *fact, Some(*section)));
            d.requires.iter().map(move |f| (d, *f, None)).chain(either)
        })
    }

    /// Check a composition, for who has no handlers: of one that brings some along these are its
    /// ends alone, between which nobody stands.
    ///
    /// # Errors
    /// Every problem found, each with its key and what would be right.
    pub fn new(c: &Composition, registry: &Registry) -> Result<Blueprint, ConfigError> {
        Blueprint::with(c, registry, HopHalf::default())
    }

    /// Check a composition whose handlers do this.
    ///
    /// # Errors
    /// As [`Blueprint::new`].
    pub fn with(
        c: &Composition,
        registry: &Registry,
        hops: HopHalf<'_>,
    ) -> Result<Blueprint, ConfigError> {
        let mut ends = Blueprint::check(c, registry, None)?;
        ends.below = hops.adds;
        let format = ends.wire.format();
        ends.counted = c.lane.is_some() || hops.handlers.iter().any(|h| h.counts_nodes(format));
        let switches = ends.switches();
        let on = c.handlers.iter();
        let on = on.filter(|h| switch::is_on(h, &switches) == Some(true));
        let mut brought: String = on.map(|h| format!("|{h}")).collect();
        if let Some(lane) = &c.lane {
            let mut lane = Blueprint::check(lane, registry, Some(&ends.wire))?;
            lane.number = ends.number;
            let parts = lane.parts.iter().map(|p| p.desc.face());
            lane.counts = words::counted(&ends.name, &*ends.wire, parts, hops.handlers)?;
            brought += &format!("|lane {:08x}", lane.id);
            ends.lane = Some(Arc::new(lane));
        }
        if !brought.is_empty() {
            // Hops go by the number: two that differ in it alone are not the same to them.
            ends.id = hash(&format!("{:08x} {}{brought}", ends.id, ends.number));
        }
        let descs = |b: &Blueprint| b.parts.iter().map(|p| p.desc).collect::<Vec<_>>();
        let lane = ends.lane.as_deref().map_or(Vec::new(), descs);
        let mut problems = Vec::new();
        // What handlers write that are named and not known here, who knows them asks.
        if c.handlers.is_empty() || !hops.handlers.is_empty() {
            problems = checks::hops(&ends.name, &descs(&ends), &lane, hops.handlers);
            let parts = descs(&ends);
            let parts = parts.iter().chain(&lane);
            problems.extend(checks::notes(&ends.name, parts, hops.handlers));
        }
        if problems.is_empty() {
            Ok(ends)
        } else {
            Err(ConfigError { problems })
        }
    }

    fn check(
        c: &Composition,
        registry: &Registry,
        ends: Option<&Arc<dyn Wire>>,
    ) -> Result<Blueprint, ConfigError> {
        let mut problems = Vec::new();
        let descs = find_parts(c, registry, &mut problems);
        if !problems.is_empty() {
            return Err(ConfigError { problems });
        }
        let (values, unused) = resolve_params(c, &descs, registry, &mut problems);
        let engine = values.last().cloned().unwrap_or_default();
        let store = store_plan(c, &engine, &mut problems);
        checks::roles(c, &descs, &mut problems);
        checks::facts(c, &descs, registry, &mut problems);
        checks::needs(c, &descs, &values, store.kind, &mut problems);
        checks::readable(c, &descs, &mut problems);
        let exts = checks::intern(&descs);
        if exts.len() > Signal::EXTS {
            let what = format!("{} named signals; at most {}", exts.len(), Signal::EXTS);
            problems.push(Problem {
                key: c.name.clone(),
                what,
            });
        }
        let cascade = checks::signals(c, &descs, registry, &mut problems);
        let wire = match ends.map_or_else(|| make_wire(c, &descs, registry), |w| Ok(Arc::clone(w)))
        {
            Ok(wire) => wire,
            Err(problem) => {
                problems.push(problem);
                return Err(ConfigError { problems });
            }
        };
        problems.extend(words::no_identifier(c, &descs, &*wire));
        let parts = plan_parts(c, &descs, values, (&*wire, registry), &mut problems);
        if !problems.is_empty() {
            return Err(ConfigError { problems });
        }
        let routes = Arc::new(make_routes(&descs, &exts));
        let id = hash(&canonical(c, &parts, &engine));
        let blueprint = Blueprint {
            name: c.name.clone(),
            doc: c.doc.clone(),
            number: c.number,
            id,
            parts,
            engine,
            exts,
            wire,
            profile: c.profile.clone(),
            unused,
            store,
            routes,
            cascade,
            lane: None,
            below: 0,
            counts: None,
            counted: false,
        };
        blueprint.hooks_declared().map(|()| blueprint)
    }

    /// Fresh parts override no hook that they don't declare.
    fn hooks_declared(&self) -> Result<(), ConfigError> {
        let mut problems = Vec::new();
        for (plan, part) in self.parts.iter().zip(self.build_parts()?) {
            let faults = hooks::undeclared(plan.desc, Bench::around(plan.desc, part));
            problems.extend(faults.into_iter().map(|what| Problem {
                key: format!("{}.{}", self.name, plan.desc.role.key()),
                what,
            }));
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(ConfigError { problems })
        }
    }

    /// Make the parts of one connection.
    ///
    /// # Errors
    /// What a part's build function says of the combination of its parameters.
    pub(crate) fn build_parts(&self) -> Result<Vec<Box<dyn Component>>, ConfigError> {
        let build = |p: &PartPlan| {
            let params = Params {
                part: p.desc.name,
                values: &p.values,
                words: &p.words,
                notes: &p.notes,
                exts: &self.exts,
            };
            (p.desc.build)(&params).map_err(|BuildError(what)| {
                ConfigError::one(format!("{}.{}", self.name, p.desc.name), what)
            })
        };
        self.parts.iter().map(build).collect()
    }

    /// Whether a part hears what radios overhear.
    pub fn overhears(&self) -> bool {
        !self.routes.overheard.is_empty()
    }

    /// Whether a part hears a signal of the engine.
    pub fn hears(&self, signal: &str) -> bool {
        let heard = |p: &PartPlan| p.desc.heard().any(|(name, _)| name == signal);
        self.parts.iter().any(heard)
    }

    /// Which store it uses.
    pub fn store_kind(&self) -> StoreKind {
        self.store.kind
    }

    /// Octets of timestamps that segments carry where the peer offers them too; 0 if no part offers
    /// any, or the format carries them in any case.
    pub fn stamps(&self) -> u32 {
        let offers = |p: &PartPlan| words::uses(p.desc, &p.values, HeadField::TsOk);
        if self.parts.iter().any(offers) {
            self.wire.stamps()
        } else {
            0
        }
    }

    /// Header octets of a full segment, IP of version 4 included; with timestamps if a part offers
    /// them.
    pub fn overhead(&self) -> u32 {
        let unstamped = self.wire.stamps() - self.stamps();
        self.wire.overhead() - unstamped + wifu_wire::ipv4::HEADER as u32 + self.below
    }

    /// See [`crate::board::SiteFacts::window_unit`].
    pub(crate) fn window_unit(&self) -> u8 {
        let words = &self.wire.format().words;
        let scaled = words.iter().any(|w| w.field == Field::Scale);
        let unit = |w: &WordDecl| match w.field {
            Field::Window(unit) if !scaled => Some(unit),
            _ => None,
        };
        words.iter().find_map(unit).unwrap_or(0)
    }

    /// An engine parameter.
    pub fn engine_int(&self, name: &str) -> u32 {
        match self.engine.iter().find(|v| v.0 == name) {
            Some((_, Value::Int(n))) => *n as u32,
            _ => 0,
        }
    }

    /// The value of a parameter as it was resolved, by `name` or `role.name`.
    pub fn value(&self, name: &str) -> Option<Value> {
        let (role, bare) = name
            .split_once('.')
            .map_or((None, name), |(r, n)| (Some(r), n));
        let fits = |p: &&PartPlan| role.is_none_or(|r| p.desc.role.key() == r);
        let in_parts = self.parts.iter().filter(fits).flat_map(|p| &p.values);
        in_parts
            .chain(&self.engine)
            .find(|(n, _)| *n == bare)
            .map(|(_, v)| *v)
    }
}

impl Library {
    /// Expand and check.
    ///
    /// # Errors
    /// As [`Library::expand`] and [`Blueprint::new`].
    pub fn resolve(&self, spec: &str, registry: &Registry) -> Result<Arc<Blueprint>, ConfigError> {
        Blueprint::new(&self.expand(spec)?, registry).map(Arc::new)
    }
}

fn find_parts(
    c: &Composition,
    registry: &Registry,
    problems: &mut Vec<Problem>,
) -> Vec<&'static Descriptor> {
    let mut found = Vec::new();
    for part in &c.parts {
        let key = format!("{}.{}", c.name, part.role.key());
        match registry.parts().find(&part.name) {
            Some(d) if d.role == part.role => found.push(d),
            Some(d) => {
                let what = format!("\"{}\" is a part for {}", part.name, d.role.key());
                problems.push(Problem { key, what });
            }
            None => {
                let kind = format!("part for {}", part.role.key());
                let what = unknown(&kind, &part.name, registry.names(part.role));
                problems.push(Problem { key, what });
            }
        }
    }
    if c.parts.len() > SLOTS {
        let what = format!("{} parts; at most {SLOTS}", c.parts.len());
        problems.push(Problem {
            key: c.name.clone(),
            what,
        });
    }
    found
}

fn store_plan(c: &Composition, engine: &Values, problems: &mut Vec<Problem>) -> StorePlan {
    let kind = match c.store.as_str() {
        "octets" => StoreKind::Octets,
        "records" => StoreKind::Records,
        "packets" => StoreKind::Packets,
        other => {
            let what = format!("no store \"{other}\"; known: octets, records, packets");
            problems.push(Problem {
                key: format!("{}.store", c.name),
                what,
            });
            StoreKind::Octets
        }
    };
    let packets = engine.iter().find(|v| v.0 == "packets").map(|v| v.1);
    let packets = if let Some(Value::Int(n)) = packets {
        n as usize
    } else {
        1
    };
    StorePlan { kind, packets }
}

fn make_wire(
    c: &Composition,
    descs: &[&'static Descriptor],
    registry: &Registry,
) -> Result<Arc<dyn Wire>, Problem> {
    let key = format!("{}.wire", c.name);
    if c.wire == SHIM {
        let between = c.lane.iter().flat_map(|lane| &lane.parts);
        let between = between.filter_map(|p| registry.parts().find(&p.name));
        let words = words::shim_words(descs.iter().copied().chain(between));
        let words = words.and_then(|words| words::with_count(words, c.lane.is_some()));
        let words = words.map_err(|what| Problem {
            key: key.clone(),
            what,
        })?;
        let id = hash(&format!("{} {words:?}", c.name));
        let codec = shim::codec(id, &words);
        return codec
            .map(|s| Arc::new(s) as Arc<dyn Wire>)
            .map_err(|what| Problem { key, what });
    }
    let found = registry.wires().get(&c.wire);
    found
        .map(|w| (w.make)())
        .map_err(|what| Problem { key, what })
}

fn plan_parts(
    c: &Composition,
    descs: &[&'static Descriptor],
    values: Vec<Values>,
    (wire, registry): (&dyn Wire, &Registry),
    problems: &mut Vec<Problem>,
) -> Vec<PartPlan> {
    let mut plans = Vec::new();
    for (desc, values) in descs.iter().copied().zip(values) {
        problems.extend(words::not_carried(c, desc, &values, wire));
        let mut words = Vec::new();
        for w in desc.words {
            match wire.place(w.name()) {
                Some(place) => words.push((w.name(), place.word)),
                None => problems.push(words::no_word(c, desc, w.name(), wire)),
            }
            problems.extend(words::unlike(c, desc, &w.layout, wire));
            if w.layout.hop_writable && words::ends_only(wire, w.name()) {
                problems.push(words::no_hops(c, desc, w.name(), wire));
            }
        }
        let notes = registry.numbers(desc.notes).unwrap_or_else(|what| {
            problems.push(Problem {
                key: format!("{}.{}", c.name, desc.role.key()),
                what,
            });
            Vec::new()
        });
        plans.push(PartPlan {
            desc,
            values,
            words,
            notes,
        });
    }
    plans
}

fn make_routes(descs: &[&'static Descriptor], exts: &[(&'static str, ExtId)]) -> Routes {
    let with = |hook: &str| {
        let has = |(i, d): (usize, &&'static Descriptor)| d.has_hook(hook).then_some(i as u8);
        descs
            .iter()
            .enumerate()
            .filter_map(has)
            .collect::<Vec<u8>>()
    };
    let named = exts.iter().map(|(n, _)| *n);
    let signals = Signal::NAMES.into_iter().chain(named);
    let hears = |name: &str| {
        let has = |(i, d): (usize, &&'static Descriptor)| {
            d.heard().any(|(h, _)| h == name).then_some(i as u8)
        };
        descs
            .iter()
            .enumerate()
            .filter_map(has)
            .collect::<Vec<u8>>()
    };
    let mut offer: Vec<(Kind, u8)> = Vec::new();
    for (i, d) in descs.iter().enumerate() {
        offer.extend(d.offers.iter().map(|k| (*k, i as u8)));
    }
    offer.sort_unstable();
    Routes {
        segment: with("segment"),
        overheard: with("overheard"),
        signal: signals.map(hears).collect(),
        offer,
        permit: with("permit"),
        stamp: with("stamp"),
    }
}

fn canonical(c: &Composition, parts: &[PartPlan], engine: &Values) -> String {
    let mut text = format!("{} {} {}", c.name, c.wire, c.store);
    for p in parts {
        text += &format!("|{}", p.desc.name);
        for (name, value) in &p.values {
            text += &format!(",{name}={value}");
        }
    }
    for (name, value) in engine {
        text += &format!(";{name}={value}");
    }
    text
}

/// FNV-1a, 32 bits.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811C_9DC5, |h, b| {
        (h ^ u32::from(b)).wrapping_mul(0x0100_0193)
    })
}
