//! Keys of words that would change nothing where they stand. They are refused: who writes
//! `linear,2,loss=60%` would else measure a link without loss.

use super::{RADIO_KEYS, Words};

/// Keys that are of wires alone.
const OF_WIRES: [&str; 4] = ["delay", "overhead", "loss", "variation"];
/// Keys that place nodes with radios.
const OF_PLACES: [&str; 4] = ["spacing", "snr", "gap", "area"];

/// What is wrong with a key that stands twice, or where it means nothing.
pub(super) fn unfit(words: &Words) -> Option<String> {
    let twice = |i: usize, key: &str| words.keys.iter().skip(i + 1).any(|(k, _)| *k == key);
    words.keys.iter().enumerate().find_map(|(i, (key, _))| {
        if twice(i, key) {
            return Some(format!("`{key}` stands there twice"));
        }
        match words.get("wire") {
            Some(_) => of_radios(key),
            None => of_wires(words.shape, key).or_else(|| of_other_shapes(words, key)),
        }
    })
}

fn of_wires(shape: &str, key: &str) -> Option<String> {
    if !OF_WIRES.contains(&key) {
        return None;
    }
    let line = if shape == "minimal" {
        shape
    } else {
        "linear,N"
    };
    let instead = match key {
        "loss" => "; a radio's loss follows from its signal, `snr=12`",
        _ => "",
    };
    Some(format!(
        "`{key}` is of wires, and these are radios: {line},wire=10mbit,{key}=...{instead}"
    ))
}

fn of_radios(key: &str) -> Option<String> {
    let radio = RADIO_KEYS.contains(&key) && key != "queue";
    (radio || OF_PLACES.contains(&key))
        .then(|| format!("`{key}` is of radios, and nodes that are joined by wires have none"))
}

fn of_other_shapes(words: &Words, key: &str) -> Option<String> {
    match (key, words.shape) {
        ("area", shape) if shape != "random" => {
            Some(format!("`area` is of random, and {shape} has a `spacing`"))
        }
        ("gap", "minimal" | "linear" | "random") => {
            Some("`gap` is between the rows of grid, parallel and stack".to_string())
        }
        ("spacing", "random") if words.get("snr").is_none() => Some(
            "`spacing` of random is the distance at which `snr` holds, which is not said; how close \
             nodes are is decided by `area`"
                .to_string(),
        ),
        _ => None,
    }
}
