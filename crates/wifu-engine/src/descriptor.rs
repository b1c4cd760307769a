//! Descriptors and the registry: the whole public face of a component. Help texts, documentation
//! and checks are generated from it.

use crate::board::Facts;
use crate::component::Component;
use crate::permit::Kind;
use crate::signal::ExtId;
use core::fmt;
use wifu_wire::units::parse_octets;
use wifu_wire::{Rate, Span, Word};

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

/// The value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A count or a number of octets.
    Int(u64),
    /// A plain number.
    Real(f64),
    /// A length of time.
    Span(Span),
    /// A rate.
    Rate(Rate),
    /// On or off.
    Flag(bool),
    /// One of the declared choices.
    Text(&'static str),
    /// A count, or what the part works out by itself (`auto`).
    Opt(Option<u64>),
}

impl Value {
    /// The name of its type: that of the method of [`Params`] which asks for it.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Int(_) => "int",
            Value::Real(_) => "real",
            Value::Span(_) => "span",
            Value::Rate(_) => "rate",
            Value::Flag(_) => "flag",
            Value::Text(_) => "text",
            Value::Opt(_) => "optional",
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(n) => write!(f, "{n}"),
            Value::Real(x) => write!(f, "{x}"),
            Value::Span(s) => write!(f, "{s}"),
            Value::Rate(r) => write!(f, "{r}"),
            Value::Flag(on) => f.write_str(if *on { "on" } else { "off" }),
            Value::Text(t) => f.write_str(t),
            Value::Opt(Some(n)) => write!(f, "{n}"),
            Value::Opt(None) => f.write_str("auto"),
        }
    }
}

/// A parameter: name, type (that of the default), range, meaning.
#[derive(Clone, Copy, Debug)]
pub struct ParamSpec {
    /// Name; unique among the parts that are used together, or qualified by role.
    pub name: &'static str,
    /// Default; its type is the parameter's.
    pub default: Value,
    /// Smallest value.
    pub low: Value,
    /// Largest value.
    pub high: Value,
    /// For texts: what may be written.
    pub choices: &'static [&'static str],
    /// Meaning, unit and source.
    pub doc: &'static str,
}

impl ParamSpec {
    const fn ranged(
        name: &'static str,
        default: Value,
        low: Value,
        high: Value,
        doc: &'static str,
    ) -> ParamSpec {
        ParamSpec {
            name,
            default,
            low,
            high,
            choices: &[],
            doc,
        }
    }

    /// A count or a number of octets (`"64 KiB"` is understood).
    pub const fn int(
        name: &'static str,
        default: u64,
        low: u64,
        high: u64,
        doc: &'static str,
    ) -> ParamSpec {
        ParamSpec::ranged(
            name,
            Value::Int(default),
            Value::Int(low),
            Value::Int(high),
            doc,
        )
    }

    /// A count or a number of octets, or `auto` (the default): the part works it out, and `doc`
    /// says how.
    pub const fn optional(name: &'static str, low: u64, high: u64, doc: &'static str) -> ParamSpec {
        ParamSpec::ranged(
            name,
            Value::Opt(None),
            Value::Opt(Some(low)),
            Value::Opt(Some(high)),
            doc,
        )
    }

    /// A plain number.
    pub const fn real(
        name: &'static str,
        default: f64,
        low: f64,
        high: f64,
        doc: &'static str,
    ) -> ParamSpec {
        ParamSpec::ranged(
            name,
            Value::Real(default),
            Value::Real(low),
            Value::Real(high),
            doc,
        )
    }

    /// A length of time.
    pub const fn span(
        name: &'static str,
        default: Span,
        low: Span,
        high: Span,
        doc: &'static str,
    ) -> ParamSpec {
        ParamSpec::ranged(
            name,
            Value::Span(default),
            Value::Span(low),
            Value::Span(high),
            doc,
        )
    }

    /// A rate.
    pub const fn rate(
        name: &'static str,
        default: Rate,
        low: Rate,
        high: Rate,
        doc: &'static str,
    ) -> ParamSpec {
        ParamSpec::ranged(
            name,
            Value::Rate(default),
            Value::Rate(low),
            Value::Rate(high),
            doc,
        )
    }

    /// A switch.
    pub const fn flag(name: &'static str, default: bool, doc: &'static str) -> ParamSpec {
        let (low, high) = (Value::Flag(false), Value::Flag(true));
        ParamSpec::ranged(name, Value::Flag(default), low, high, doc)
    }

    /// A choice.
    pub const fn text(
        name: &'static str,
        default: &'static str,
        choices: &'static [&'static str],
        doc: &'static str,
    ) -> ParamSpec {
        let d = Value::Text(default);
        ParamSpec {
            name,
            default: d,
            low: d,
            high: d,
            choices,
            doc,
        }
    }

    /// Read a value and check its range.
    ///
    /// # Errors
    /// What is wrong and what would be right.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        let value = match self.default {
            Value::Int(_) => Value::Int(parse_octets(text).map_err(|e| self.wrong(text, e))?),
            Value::Opt(_) if text == "auto" => return Ok(Value::Opt(None)),
            Value::Opt(_) => {
                let n = parse_octets(text)
                    .map_err(|e| self.wrong(text, format!("{e}, or write auto")))?;
                Value::Opt(Some(n))
            }
            Value::Real(_) => Value::Real(text.parse().map_err(|e| self.wrong(text, e))?),
            Value::Span(_) => Value::Span(text.parse().map_err(|e| self.wrong(text, e))?),
            Value::Rate(_) => Value::Rate(text.parse().map_err(|e| self.wrong(text, e))?),
            Value::Flag(_) => match text {
                "on" | "true" | "yes" | "1" => Value::Flag(true),
                "off" | "false" | "no" | "0" => Value::Flag(false),
                _ => return Err(self.wrong(text, "write on or off")),
            },
            Value::Text(_) => match self.choices.iter().find(|c| **c == text) {
                Some(c) => Value::Text(c),
                None => {
                    let choices = self.choices.join(", ");
                    return Err(self.wrong(text, format!("one of: {choices}")));
                }
            },
        };
        let inside = match (value, self.low, self.high) {
            (Value::Int(v), Value::Int(a), Value::Int(b)) => (a..=b).contains(&v),
            (Value::Opt(Some(v)), Value::Opt(Some(a)), Value::Opt(Some(b))) => (a..=b).contains(&v),
            (Value::Real(v), Value::Real(a), Value::Real(b)) => (a..=b).contains(&v),
            (Value::Span(v), Value::Span(a), Value::Span(b)) => (a..=b).contains(&v),
            (Value::Rate(v), Value::Rate(a), Value::Rate(b)) => (a..=b).contains(&v),
            _ => true,
        };
        if inside {
            Ok(value)
        } else {
            Err(self.wrong(
                text,
                format!("it must lie between {} and {}", self.low, self.high),
            ))
        }
    }

    fn wrong(&self, text: &str, why: impl fmt::Display) -> String {
        format!("{} = \"{text}\": {why}", self.name)
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

/// What a build function gets: resolved, typed, in range. It cannot meet an unknown key.
#[derive(Clone, Debug)]
pub struct Params<'a> {
    /// Whose they are: the name in its descriptor.
    pub part: &'static str,
    /// Values of the declared parameters.
    pub values: &'a [(&'static str, Value)],
    /// Places of the declared words.
    pub words: &'a [(&'static str, Word)],
    /// Named signals.
    pub exts: &'a [(&'static str, ExtId)],
}

macro_rules! getter {
    ($name:ident $variant:ident $ty:ty) => {
        #[doc = concat!("The parameter `name`, declared as `", stringify!($variant), "`.")]
        ///
        /// # Panics
        /// If the descriptor does not declare it so.
        #[track_caller]
        pub fn $name(&self, name: &str) -> $ty {
            match self.values.iter().find(|v| v.0 == name) {
                Some((_, Value::$variant(v))) => *v,
                Some((_, other)) => panic!(
                    "{} asks for {}(\"{name}\"), but its descriptor declares that parameter as \
                     {}",
                    self.part,
                    stringify!($name),
                    other.kind()
                ),
                None => self.missing("parameter", name, self.values.iter().map(|v| v.0)),
            }
        }
    };
}

impl Params<'_> {
    getter!(int Int u64);
    getter!(real Real f64);
    getter!(span Span Span);
    getter!(rate Rate Rate);
    getter!(flag Flag bool);
    getter!(text Text &'static str);
    getter!(optional Opt Option<u64>);

    /// The declared word `name`.
    ///
    /// # Panics
    /// If the descriptor does not declare it.
    #[track_caller]
    pub fn word(&self, name: &str) -> Word {
        match self.words.iter().find(|w| w.0 == name) {
            Some((_, word)) => *word,
            None => self.missing("word", name, self.words.iter().map(|w| w.0)),
        }
    }

    /// The named signal `name`.
    ///
    /// # Panics
    /// If no edge of a descriptor in the composition names it.
    #[track_caller]
    pub fn ext(&self, name: &str) -> ExtId {
        match self.exts.iter().find(|e| e.0 == name) {
            Some((_, id)) => *id,
            None => self.missing("signal", name, self.exts.iter().map(|e| e.0)),
        }
    }

    #[track_caller]
    fn missing<'a>(&self, what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> ! {
        let known: Vec<&str> = known.collect();
        let hint = match nearest(name, known.iter().copied()) {
            Some(near) => format!("; did you mean \"{near}\"?"),
            None if known.is_empty() => String::from(", nor any other"),
            None => format!("; declared: {}", known.join(", ")),
        };
        let part = self.part;
        panic!("{part} asks for the {what} \"{name}\", which is not declared{hint}");
    }
}

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

/// The name nearest to `name` by edit distance, if it is near enough to be what was meant.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = candidates.into_iter().map(|c| (distance(name, c), c));
    let (d, best) = scored.min_by_key(|(d, _)| *d)?;
    (d <= 1 + name.len().max(best.len()) / 3).then_some(best)
}

fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let change = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_by_the_type_of_their_default() {
        let p = ParamSpec::span("rto_min", Span::SECOND, Span(0), Span(60_000_000_000), "");
        assert_eq!(p.parse("200ms"), Ok(Value::Span(Span(200_000_000))));
        assert!(
            p.parse("61 s")
                .unwrap_err()
                .contains("between 0 s and 60 s")
        );
        let p = ParamSpec::text("recovery", "reno", &["reno", "newreno"], "");
        assert!(p.parse("tahoe").unwrap_err().contains("reno, newreno"));
        let p = ParamSpec::optional("iw", 1, 64, "");
        assert_eq!(p.parse("2"), Ok(Value::Opt(Some(2))));
        assert_eq!(p.parse("auto"), Ok(p.default));
        assert_eq!(p.default.to_string(), "auto");
        assert!(p.parse("65").unwrap_err().contains("between 1 and 64"));
        assert!(p.parse("many").unwrap_err().contains("auto"));
        assert_eq!(
            ParamSpec::flag("cwv", false, "").parse("on"),
            Ok(Value::Flag(true))
        );
    }

    const ASKED: Params<'static> = Params {
        part: "vegas",
        values: &[("alpha", Value::Int(2)), ("gamma", Value::Real(1.0))],
        words: &[("rate", Word(0))],
        exts: &[],
    };

    #[test]
    #[should_panic(
        expected = "vegas asks for the parameter \"gama\", which is not declared; did you mean \
                    \"gamma\"?"
    )]
    fn a_parameter_that_is_misspelt_is_named_with_its_part_and_the_nearest() {
        ASKED.real("gama");
    }

    #[test]
    #[should_panic(
        expected = "vegas asks for real(\"alpha\"), but its descriptor declares that parameter as int"
    )]
    fn a_parameter_of_another_type_is_named_with_both() {
        ASKED.real("alpha");
    }

    #[test]
    #[should_panic(
        expected = "vegas asks for the word \"hops\", which is not declared; declared: rate"
    )]
    fn a_word_that_resembles_none_is_shown_those_that_are() {
        ASKED.word("hops");
    }

    #[test]
    #[should_panic(
        expected = "vegas asks for the signal \"slack\", which is not declared, nor any other"
    )]
    fn a_signal_where_there_is_none_says_so() {
        ASKED.ext("slack");
    }

    #[test]
    fn the_nearest_name_is_what_was_meant() {
        assert_eq!(
            nearest("newrno", ["reno", "newreno", "cubic"]),
            Some("newreno")
        );
        assert_eq!(nearest("bbr", ["handshake", "selective"]), None);
    }
}
