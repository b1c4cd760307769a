//! Dictionaries for libFuzzer, made from declared formats: octets that a parser looks for, and that
//! chance would hardly find.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use wifu_wire::Format;
use wifu_wire::format::{Field, WordDecl};

/// The dictionary of a format: constants that stand together as one entry, then of each word the
/// values at which something changes, as they are encoded.
pub fn of(f: &Format) -> String {
    let mut text = format!("# {}, from its declaration.\n", f.name);
    for (at, octets) in constants(f) {
        entry(&mut text, &format!("constants_{at}"), &octets);
    }
    for w in f.words.iter() {
        for value in values(f, w) {
            entry(
                &mut text,
                &format!("{}_{value}", w.name),
                &encoded(w, value),
            );
        }
    }
    text
}

fn entry(text: &mut String, name: &str, octets: &[u8]) {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = name.chars().map(letter).collect();
    let _ = write!(text, "{name}=\"");
    for octet in octets {
        let _ = write!(text, "\\x{octet:02x}");
    }
    text.push_str("\"\n");
}

/// What must stand at a word's place, whatever the packet.
fn constant(f: &Format, w: &WordDecl) -> Option<u32> {
    match w.field {
        Field::Is(value, _) => Some(value),
        Field::Length(unit) => Some(u32::from(f.header) / u32::from(unit.max(1))),
        _ => None,
    }
}

/// Constants of whole octets, those beside each other together, with where they begin.
fn constants(f: &Format) -> Vec<(u8, Vec<u8>)> {
    let mut words: Vec<(&WordDecl, u32)> = f
        .words
        .iter()
        .filter(|w| w.bit == 0 && w.bits % 8 == 0)
        .filter_map(|w| Some((w, constant(f, w)?)))
        .collect();
    words.sort_by_key(|(w, _)| w.byte);
    let mut runs: Vec<(u8, Vec<u8>)> = Vec::new();
    for (w, value) in words {
        let octets = encoded(w, value);
        match runs.last_mut() {
            Some((at, run)) if usize::from(*at) + run.len() == usize::from(w.byte) => {
                run.extend(octets);
            }
            _ => runs.push((w.byte, octets)),
        }
    }
    runs
}

/// Values of a word at which a parser or a handler takes another way.
fn values(f: &Format, w: &WordDecl) -> Vec<u32> {
    let most = u32::MAX >> (32 - u32::from(w.bits.clamp(1, 32)));
    if let Some(value) = constant(f, w) {
        return vec![value];
    }
    match w.field {
        Field::Ranges(unit) => [1, 2].map(|n| n * u32::from(unit)).into(),
        Field::Runs => vec![1, 2],
        Field::Type(stands) => {
            let told = f.types.iter().filter_map(|t| t.when);
            let told = told.filter(|(name, _)| *name == w.name).map(|t| t.1);
            let all: BTreeSet<u32> = told.chain(stands.iter().map(|s| s.value)).collect();
            all.into_iter().collect()
        }
        _ if w.bits == 1 => vec![1],
        Field::Own
        | Field::HopCount
        | Field::HopsLeft(_)
        | Field::Transmitter
        | Field::Window(_)
        | Field::Seq
        | Field::Ack => vec![most],
        _ => Vec::new(),
    }
}

/// The octets over which a word lies, with this value and zeros beside it.
fn encoded(w: &WordDecl, value: u32) -> Vec<u8> {
    let octets = (usize::from(w.bit) + usize::from(w.bits)).div_ceil(8);
    let below = octets * 8 - usize::from(w.bit) - usize::from(w.bits);
    let all = (u64::from(value) << below).to_be_bytes();
    all[8 - octets..].to_vec()
}
