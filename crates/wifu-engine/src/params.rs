//! Parameters: what a part or a handler may be told, how it is read from text, and what a build
//! function gets.

use crate::signal::ExtId;
use core::fmt;
use wifu_wire::names::{meant, unknown};
use wifu_wire::units::parse_octets;
use wifu_wire::{Note, Rate, Span, Word};

/// The value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A count or a number of octets.
    Int(u64),
    /// A plain number.
    Real(f64),
    /// A length of time.
    Span(Span),
    /// Data per time.
    Rate(Rate),
    /// On or off.
    Flag(bool),
    /// One of the declared choices.
    Text(&'static str),
    /// A count, or what the part works out by itself (`auto`).
    Opt(Option<u64>),
    /// A plain number, or what the part works out by itself (`auto`).
    OptReal(Option<f64>),
    /// A rate, or what the part works out by itself (`auto`).
    OptRate(Option<Rate>),
}

impl Value {
    /// Whether the part works it out by itself.
    pub const fn is_auto(&self) -> bool {
        matches!(
            self,
            Value::Opt(None) | Value::OptReal(None) | Value::OptRate(None)
        )
    }

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
            Value::OptReal(_) => "optional_real",
            Value::OptRate(_) => "optional_rate",
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
            Value::OptReal(Some(x)) => write!(f, "{x}"),
            Value::OptRate(Some(r)) => write!(f, "{r}"),
            Value::Opt(None) | Value::OptReal(None) | Value::OptRate(None) => f.write_str("auto"),
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

macro_rules! ranged {
    ($name:ident $variant:ident $ty:ty, $doc:literal) => {
        #[doc = $doc]
        pub const fn $name(
            name: &'static str,
            default: $ty,
            low: $ty,
            high: $ty,
            doc: &'static str,
        ) -> ParamSpec {
            let (low, high) = (Value::$variant(low), Value::$variant(high));
            ParamSpec::ranged(name, Value::$variant(default), low, high, doc)
        }
    };
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

    ranged!(int Int u64, "A count or a number of bytes (`\"64 KiB\"` is understood).");
    ranged!(real Real f64, "A plain number.");
    ranged!(span Span Span, "A length of time.");
    ranged!(rate Rate Rate, "A rate.");

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

    /// A plain number, or `auto` (the default): the part works it out, and `doc` says how.
    pub const fn optional_real(
        name: &'static str,
        low: f64,
        high: f64,
        doc: &'static str,
    ) -> ParamSpec {
        let (low, high) = (Value::OptReal(Some(low)), Value::OptReal(Some(high)));
        ParamSpec::ranged(name, Value::OptReal(None), low, high, doc)
    }

    /// A rate, or `auto` (the default): the part works it out, and `doc` says how.
    pub const fn optional_rate(
        name: &'static str,
        low: Rate,
        high: Rate,
        doc: &'static str,
    ) -> ParamSpec {
        let (low, high) = (Value::OptRate(Some(low)), Value::OptRate(Some(high)));
        ParamSpec::ranged(name, Value::OptRate(None), low, high, doc)
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
        if text == "auto" && self.works_out() {
            return Ok(self.default);
        }
        let value = match self.default {
            Value::Int(_) => Value::Int(self.whole(text, "")?),
            Value::Real(_) => {
                let number = text.parse();
                Value::Real(number.map_err(|_| self.wrong(text, "write a number, such as 0.5"))?)
            }
            Value::Opt(_) => Value::Opt(Some(self.whole(text, ", or write auto")?)),
            Value::OptReal(_) => {
                let number = text.parse();
                let or = "write a number, such as 0.5, or auto";
                Value::OptReal(Some(number.map_err(|_| self.wrong(text, or))?))
            }
            Value::OptRate(_) => {
                let rate = text.parse::<Rate>();
                let or = |e| self.wrong(text, format!("{e}, or write auto"));
                Value::OptRate(Some(rate.map_err(or)?))
            }
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
            (Value::OptReal(Some(v)), Value::OptReal(Some(a)), Value::OptReal(Some(b))) => {
                (a..=b).contains(&v)
            }
            (Value::OptRate(Some(v)), Value::OptRate(Some(a)), Value::OptRate(Some(b))) => {
                (a..=b).contains(&v)
            }
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

    /// A whole number, of bytes with their units; `or` says what else could be written.
    fn whole(&self, text: &str, or: &str) -> Result<u64, String> {
        let of = self.doc.split([':', ';', '.', '(']).next().unwrap_or("");
        parse_octets(text).map_err(|error| {
            if of.to_lowercase().contains("byte") {
                return self.wrong(text, format!("{error}{or}"));
            }
            // Of something else than bytes there are units of none.
            let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
            let number = match &text[..text.len() - unit.len()] {
                digits if !digits.is_empty() && unit.trim().starts_with(char::is_alphabetic) => {
                    format!("write {digits} without a unit")
                }
                _ => String::from("write a whole number"),
            };
            let what = match of.trim() {
                "" => String::new(),
                of => format!(" ({of})"),
            };
            self.wrong(text, format!("{number}{or}{what}"))
        })
    }

    /// Whether `auto` may stand for a value.
    const fn works_out(&self) -> bool {
        matches!(
            self.default,
            Value::Opt(_) | Value::OptReal(_) | Value::OptRate(_)
        )
    }

    fn wrong(&self, text: &str, why: impl fmt::Display) -> String {
        format!("{} = \"{text}\": {why}", self.name)
    }
}

/// The defaults of all of `specs`, in their order.
pub fn defaults(specs: &[ParamSpec]) -> Vec<(&'static str, Value)> {
    specs.iter().map(|p| (p.name, p.default)).collect()
}

/// Read the value of one of `specs` into its place among the `values` of all.
///
/// # Errors
/// None has the name, with the nearest; or the value does not fit.
pub fn assign(
    specs: &[ParamSpec],
    values: &mut [(&'static str, Value)],
    name: &str,
    text: &str,
) -> Result<(), String> {
    let Some(at) = specs.iter().position(|p| p.name == name) else {
        return Err(unknown("parameter", name, specs.iter().map(|p| p.name)));
    };
    values[at].1 = specs[at].parse(text)?;
    Ok(())
}

/// Values of all of `specs`: what `set` says by name, defaults for the rest.
///
/// # Errors
/// Every name that none of them has, with the nearest, and every value that does not fit.
pub fn values<'a>(
    specs: &[ParamSpec],
    set: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Vec<(&'static str, Value)>, Vec<String>> {
    let mut values = defaults(specs);
    let assigned = set
        .into_iter()
        .map(|(name, text)| assign(specs, &mut values, name, text));
    let wrong: Vec<String> = assigned.filter_map(Result::err).collect();
    if wrong.is_empty() {
        Ok(values)
    } else {
        Err(wrong)
    }
}

/// What a build function gets: resolved, typed, in range. It cannot meet an unknown key.
#[derive(Clone, Debug)]
pub struct Params<'a> {
    /// Whose they are: the name in its descriptor.
    pub part: &'static str,
    /// Values of the declared parameters.
    pub values: &'a [(&'static str, Value)],
    /// Places of the declared words.
    pub words: &'a [(&'static str, Word)],
    /// Numbers of the declared annotations.
    pub notes: &'a [(&'static str, Note)],
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
    getter!(optional_real OptReal Option<f64>);
    getter!(optional_rate OptRate Option<Rate>);

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

    /// The declared annotation `name`.
    ///
    /// # Panics
    /// If the descriptor does not declare it.
    #[track_caller]
    pub fn note(&self, name: &str) -> Note {
        match self.notes.iter().find(|n| n.0 == name) {
            Some((_, note)) => *note,
            None => self.missing("annotation", name, self.notes.iter().map(|n| n.0)),
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
        let hint = match meant(name, known.iter().copied()) {
            Some(question) => format!("; {question}"),
            None if known.is_empty() => String::from(", nor any other"),
            None => format!("; declared: {}", known.join(", ")),
        };
        let part = self.part;
        panic!("{part} asks for the {what} \"{name}\", which is not declared{hint}");
    }
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
        let p = ParamSpec::real("p", 0.1, 0.0, 1.0, "");
        let said = p.parse("x").unwrap_err();
        assert_eq!(said, "p = \"x\": write a number, such as 0.5");
        let p = ParamSpec::text("recovery", "reno", &["reno", "newreno"], "");
        assert!(p.parse("tahoe").unwrap_err().contains("reno, newreno"));
        let p = ParamSpec::optional("iw", 1, 64, "");
        assert_eq!(p.parse("2"), Ok(Value::Opt(Some(2))));
        assert_eq!(p.parse("auto"), Ok(p.default));
        assert_eq!(p.default.to_string(), "auto");
        assert!(p.parse("65").unwrap_err().contains("between 1 and 64"));
        assert!(p.parse("many").unwrap_err().contains("auto"));
        let p = ParamSpec::optional("iw", 1, 64, "Initial window, segments; auto: 4380 bytes.");
        let said = "iw = \"4segments\": write 4 without a unit, or write auto (Initial window, \
                    segments)";
        assert_eq!(p.parse("4segments"), Err(said.into()));
        let p = ParamSpec::int("tries", 3, 1, 9, "SYNs sent (RFC 1122).");
        let said = "tries = \"few\": write a whole number (SYNs sent)";
        assert_eq!(p.parse("few"), Err(said.into()));
        let p = ParamSpec::int("snd_buf", 3, 1, 9, "Send buffer, bytes.");
        assert!(p.parse("4x").unwrap_err().contains("KiB, MiB or GiB"));
        let p = ParamSpec::optional_real("sense_dbm", -120.0, 0.0, "");
        assert_eq!(p.parse("-90.1"), Ok(Value::OptReal(Some(-90.1))));
        assert_eq!(p.parse("auto"), Ok(p.default));
        assert!(p.parse("1").unwrap_err().contains("between -120 and 0"));
        assert!(p.parse("NaN").unwrap_err().contains("between -120 and 0"));
        assert!(p.parse("low").unwrap_err().contains("or auto"));
        let p = ParamSpec::optional_rate("bandwidth", Rate(1000), Rate(10_000_000), "");
        let set = p.parse("5.5 Mb/s").unwrap();
        assert_eq!(set, Value::OptRate(Some(Rate(5_500_000))));
        assert_eq!(p.parse(&set.to_string()), Ok(set));
        assert_eq!(p.parse("auto").unwrap().to_string(), "auto");
        assert!(p.parse("11 Mb/s").unwrap_err().contains("between"));
        assert!(p.parse("fast").unwrap_err().contains("or write auto"));
        assert_eq!(
            ParamSpec::flag("cwv", false, "").parse("on"),
            Ok(Value::Flag(true))
        );
    }

    #[test]
    fn values_are_defaults_and_what_was_set_or_all_that_is_wrong() {
        let specs = [
            ParamSpec::int("n", 3, 1, 9, ""),
            ParamSpec::flag("sack", false, ""),
        ];
        let set = values(&specs, [("sack", "on")]);
        assert_eq!(
            set,
            Ok(vec![("n", Value::Int(3)), ("sack", Value::Flag(true))])
        );
        let wrong = values(&specs, [("n", "10"), ("sak", "on")]).unwrap_err();
        assert!(wrong[0].contains("between 1 and 9"), "{wrong:?}");
        assert!(wrong[1].contains("did you mean `sack`"), "{wrong:?}");
    }

    const ASKED: Params<'static> = Params {
        part: "vegas",
        values: &[("alpha", Value::Int(2)), ("gamma", Value::Real(1.0))],
        words: &[("rate", Word(0))],
        notes: &[],
        exts: &[],
    };

    #[test]
    #[should_panic(
        expected = "vegas asks for the parameter \"gama\", which is not declared; did you mean \
                    `gamma`?"
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
}
