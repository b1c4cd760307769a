//! The conformance suite: what every registered part must keep, whatever it does. It takes a
//! registry, so parts of other crates pass through it too. Each check returns what is wrong, one
//! sentence per fault; nothing is right.

mod alone;
mod together;

pub use alone::alone;
pub use together::together;

use wifu_engine::descriptor::SOURCES;
use wifu_engine::hooks::HOOKS;
use wifu_engine::params::defaults;
use wifu_engine::{Bench, Descriptor, ParamSpec, Signal, Value};
use wifu_wire::Time;

/// A part says what it is: sentences, sources, parameters with a meaning and a default in range,
/// probes under their declared names.
pub fn described(d: &'static Descriptor) -> Vec<String> {
    let mut faults = Vec::new();
    let mut ask = |right: bool, what: String| {
        if !right {
            faults.push(format!("{}: {what}", d.name));
        }
    };
    let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    ask(
        !d.name.is_empty() && d.name.chars().all(lower),
        String::from("a name is lower case with hyphens"),
    );
    ask(
        d.doc.trim_end().ends_with('.'),
        String::from("the doc is no sentence"),
    );
    ask(!d.cites.is_empty(), String::from("no source is cited"));
    for (i, p) in d.params.iter().enumerate() {
        ask(!p.doc.is_empty(), format!("{} has no meaning", p.name));
        let twice = d.params[..i].iter().any(|q| q.name == p.name);
        ask(!twice, format!("{} is declared twice", p.name));
        let back = p.parse(&p.default.to_string());
        ask(
            back == Ok(p.default),
            format!("{}: the default {} is refused: {back:?}", p.name, p.default),
        );
    }
    for (param, value) in d.fields.iter().filter_map(|f| f.unless) {
        let spec = d.params.iter().find(|p| p.name == param);
        let printed = spec
            .and_then(|p| p.parse(value).ok())
            .map(|v| v.to_string());
        ask(
            printed.as_deref() == Some(value),
            format!("does without a field with {param} = {value}, which it cannot have"),
        );
    }
    let probes: Vec<&str> = match Bench::new(d, &[]) {
        Ok(bench) => bench.probes().iter().map(|p| p.0).collect(),
        Err(e) => {
            ask(false, format!("the defaults do not build: {}", e.0));
            return faults;
        }
    };
    ask(
        probes == d.probes,
        format!("declares the probes {:?}, reports {probes:?}", d.probes),
    );
    faults
}

/// Declared hooks are overridden, and no others; and so are the methods of a narrower trait.
pub fn hooked(d: &'static Descriptor) -> Vec<String> {
    let fresh = || Bench::new(d, &[]).map_err(|_| vec![format!("{}: no defaults build", d.name)]);
    let mut asked = Vec::new();
    for hook in HOOKS {
        match fresh() {
            Ok(mut bench) => asked.push((hook, d.has_hook(hook), bench.overrides(hook))),
            Err(faults) => return faults,
        }
    }
    for signal in fresh().map_or(&[][..], |bench| bench.methods()) {
        let heard = d.heard().any(|(name, _)| name == *signal);
        let method = |mut bench: Bench| {
            bench.board.conn.mss = 1000;
            bench.overrides_method(signal)
        };
        asked.push((*signal, heard, fresh().is_ok_and(method)));
    }
    let fault = |(hook, declared, overridden)| match (declared, overridden) {
        (true, false) => Some(format!("{}: {hook} declared, not overridden", d.name)),
        (false, true) => Some(format!("{}: {hook} overridden, not declared", d.name)),
        _ => None,
    };
    asked.into_iter().filter_map(fault).collect()
}

/// The lowest and highest value of every parameter, and every choice, build a part.
pub fn edges_build(d: &'static Descriptor) -> Vec<String> {
    let mut faults = Vec::new();
    for (i, p) in d.params.iter().enumerate() {
        for value in edges(p) {
            let mut values = defaults(d.params);
            values[i].1 = value;
            if let Err(e) = Bench::with_values(d, &values) {
                faults.push(format!("{} with {} = {value}: {}", d.name, p.name, e.0));
            }
        }
    }
    faults
}

/// The values at the edges of a parameter's range.
fn edges(p: &ParamSpec) -> Vec<Value> {
    if p.choices.is_empty() {
        vec![p.low, p.high, p.default]
    } else {
        p.choices.iter().map(|c| Value::Text(c)).collect()
    }
}

/// What a part may say in response to `source`.
fn allowed(d: &Descriptor, source: &str) -> Vec<&'static str> {
    let edges = d.hears.iter();
    edges
        .filter(|(heard, _)| heard.trim_start_matches('?') == source)
        .flat_map(|(_, said)| said.iter().copied())
        .collect()
}

/// Whether all of `said` may follow `source`, and what not.
fn undeclared(bench: &Bench, d: &Descriptor, source: &str, said: &[Signal]) -> Vec<String> {
    let may = allowed(d, source);
    let names = said.iter().map(|s| bench.name(s));
    names
        .filter(|n| !may.contains(n))
        .map(|n| format!("{}: says \"{n}\" on \"{source}\", undeclared", d.name))
        .collect()
}

/// Every name in `hears` is a source, a plain signal or a named one that somebody emits.
pub fn edges_known(parts: &[&'static Descriptor]) -> Vec<String> {
    let emitted: Vec<&str> = parts
        .iter()
        .flat_map(|d| d.hears)
        .flat_map(|(_, e)| e.iter().copied())
        .collect();
    let mut faults = Vec::new();
    for d in parts {
        for (heard, _) in d.hears {
            let bare = heard.trim_start_matches('?');
            let plain = SOURCES.contains(&bare) || Signal::NAMES.contains(&bare);
            if !plain && !emitted.contains(&bare) {
                faults.push(format!("{}: hears \"{bare}\", which nobody says", d.name));
            }
        }
    }
    faults
}

/// Later than any run of the suite.
const LIMIT: Time = Time(3_600_000_000_000);
