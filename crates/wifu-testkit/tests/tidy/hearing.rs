//! A part that chooses by signal knows each signal that it hears, and hears each that it knows.

use crate::source::{Finding, Source, item_end, line_of, places};
use wifu_engine::Signal;

const PARTS: &str = "crates/wifu-parts/src/";

/// Where a part chooses by signal: `on_signal` with a `match` that has an arm for the rest, or with
/// `let ... else`. Without either all signals lead to the same code.
fn choice(code: &str) -> Option<(usize, usize)> {
    let from = places(code, "fn on_signal").first().copied()?;
    let body = &code[from..item_end(code, from)];
    let rest = ["_ => {}", "_ => return", "else { return"];
    let chooses = rest.iter().any(|r| body.contains(r));
    chooses.then(|| (from, from + body.len()))
}

/// The signals named in `hears`, as variants: (variant, line). Named signals of experiments have
/// none, and sources have hooks of their own.
fn heard(source: &Source) -> Vec<(String, usize)> {
    let Some(from) = places(&source.code, "hears:").first().copied() else {
        return Vec::new();
    };
    let open = from + source.code[from..].find('[').unwrap_or(0);
    let (mut depth, mut all) = (0, Vec::new());
    for (i, b) in source.code.bytes().enumerate().skip(open) {
        match b {
            b'(' if depth == 1 => {
                let name = source.text[i + 1..]
                    .trim_start()
                    .trim_start_matches(['"', '?']);
                let name = name.split('"').next().unwrap_or("");
                if Signal::NAMES.contains(&name) {
                    all.push((variant(name), line_of(&source.code, i)));
                }
                depth += 1;
            }
            b'(' | b'[' => depth += 1,
            b')' | b']' if depth == 1 => break,
            b')' | b']' => depth -= 1,
            _ => {}
        }
    }
    all
}

/// `dup-ack` as `DupAck`.
fn variant(name: &str) -> String {
    let first = |word: &str| {
        let (first, rest) = word.split_at(usize::from(!word.is_empty()));
        first.to_uppercase() + rest
    };
    name.split('-').map(first).collect()
}

/// The names behind `Signal::` that are no signals said: (variant, line).
fn named(code: &str, (from, to): (usize, usize)) -> Vec<(String, usize)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let said = |at: &usize| code[..*at].trim_end().ends_with("emit(");
    let all = places(code, "Signal::").into_iter();
    let mut named = Vec::new();
    for at in all.filter(|at| (from..to).contains(at) && !said(at)) {
        let rest = &code[at + "Signal::".len()..];
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        named.push((rest[..end].to_string(), line_of(code, at)));
    }
    named
}

/// Signals that a part hears and has no arm for, which it would take for nothing, and arms that
/// nothing leads to. Methods of the kit's narrower traits are asked by the conformance suite.
pub fn arms(source: &Source) -> Vec<Finding> {
    let within = choice(&source.code).filter(|_| source.path.starts_with(PARTS));
    let Some(within) = within else {
        return Vec::new();
    };
    let (heard, named) = (heard(source), named(&source.code, within));
    let mut found = Vec::new();
    for (signal, line) in &heard {
        if !named.iter().any(|(n, _)| n == signal) {
            let message = format!(
                "hears this, but `on_signal` has no arm for `Signal::{signal}`: write it, or take \
                 the line out."
            );
            found.push(source.finding(*line, message));
        }
    }
    for (signal, line) in named.iter().filter(|(n, _)| n != "Ext") {
        if !heard.iter().any(|(h, _)| h == signal) {
            let message = format!(
                "has an arm for `Signal::{signal}`, which `hears` does not list: it never comes."
            );
            found.push(source.finding(*line, message));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEARS: &str = "static P: Descriptor = Descriptor {\n    hears: &[\n        (\"segment\", &[\"rtt\"]),\n        \
                         (\"?dup-ack\", &[]), (\"of-mine\", &[]),\n        (\n            \"lost\",\n            &[],\n        ),\n    ],\n};\n";

    /// The lines that are found where `on_signal` has this body.
    fn lines(body: &str) -> Vec<usize> {
        let text =
            format!("{HEARS}impl Component for P {{\n fn on_signal(&mut self) {{{body}}}\n}}\n");
        let found = arms(&Source::new("crates/wifu-parts/src/gate/x.rs", &text));
        found.iter().map(|f| f.line).collect()
    }

    #[test]
    fn a_signal_without_an_arm_is_caught() {
        let one = "match signal { Signal::DupAck => a(), _ => {} }";
        assert_eq!(lines(one), [5]);
        let other = "let Signal::Lost(l) = signal else { return };";
        assert_eq!(lines(other), [4]);
        let said = "match signal { Signal::DupAck => cx.out.emit(Signal::Lost(l)), _ => {} }";
        assert_eq!(lines(said), [5]);
        let both = "match signal { Signal::DupAck | Signal::Lost(_) => a(), _ => return }";
        assert_eq!(lines(both), [0; 0]);
        let any = "if matches!(signal, Signal::Lost(_)) { a() }\n self.review(cx);";
        assert_eq!(lines(any), [0; 0]);
    }

    #[test]
    fn an_arm_for_a_signal_that_is_not_heard_is_caught() {
        let more = "match signal { Signal::DupAck | Signal::Lost(_) => a(),\n Signal::Sent(_) => b(), _ => {} }";
        assert_eq!(lines(more), [13]);
    }
}
