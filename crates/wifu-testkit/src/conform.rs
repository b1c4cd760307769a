//! The conformance suite: what every registered part must keep, whatever it does. It takes a
//! registry, so parts of other crates pass through it too. Each check returns what is wrong, one
//! sentence per fault; nothing is right.
//!
//! Only with the feature `conform`, which makes default hook bodies and emitted signals visible.

mod alone;
mod together;

pub use alone::alone;
pub use together::together;

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use wifu_engine::component::{DEFAULTED, HOOKS};
use wifu_engine::descriptor::SOURCES;
use wifu_engine::{Bench, Descriptor, Kind, ParamSpec, Signal, Value, Want};
use wifu_wire::{FrameFacts, Head, Time};

/// [`DEFAULTED`] is one per process: checks that read it take turns.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    let guard = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    DEFAULTED.store(0, Ordering::Relaxed);
    guard
}

/// The hook whose default body ran since the last call.
fn defaulted() -> Option<&'static str> {
    match DEFAULTED.swap(0, Ordering::Relaxed) {
        0 => None,
        i => Some(HOOKS[i - 1]),
    }
}

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

/// Declared hooks are overridden, and no others.
pub fn hooked(d: &'static Descriptor) -> Vec<String> {
    let _turn = turn();
    let mut faults = Vec::new();
    for hook in HOOKS {
        let Ok(mut bench) = Bench::new(d, &[]) else {
            return vec![format!("{}: the defaults do not build", d.name)];
        };
        call(&mut bench, d, hook);
        let overridden = defaulted() != Some(hook);
        match (d.has_hook(hook), overridden) {
            (true, false) => faults.push(format!("{}: {hook} declared, not overridden", d.name)),
            (false, true) => faults.push(format!("{}: {hook} overridden, not declared", d.name)),
            _ => {}
        }
    }
    faults
}

fn call(bench: &mut Bench, d: &'static Descriptor, hook: &str) {
    let head = Head::default();
    match hook {
        "segment" => {
            let _admit = bench.segment(&head, &[]);
        }
        "overheard" => {
            bench.overheard(&head, &FrameFacts::default());
        }
        "signal" => {
            bench.signal(Signal::Read);
        }
        "timer" => {
            bench.fire(0);
        }
        "offer" => {
            let kind = d.offers.first().copied().unwrap_or(Kind::Ack);
            let _want = bench.offer(kind);
        }
        "permit" => {
            let _permit = bench.permit(&Want::bare(Kind::New));
        }
        _ => bench.stamp(Kind::Ack, &mut Head::default()),
    }
}

/// The lowest and highest value of every parameter, and every choice, build a part.
pub fn edges_build(d: &'static Descriptor) -> Vec<String> {
    let mut faults = Vec::new();
    for (i, p) in d.params.iter().enumerate() {
        for value in edges(p) {
            let mut values: Vec<(&'static str, Value)> =
                d.params.iter().map(|p| (p.name, p.default)).collect();
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
