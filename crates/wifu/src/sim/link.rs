//! `--link`: tc's words make wires of a topology's links, `KEY=VALUE` words set the radio.

use anyhow::{Context, bail, ensure};
use serde_json::{Map, Value as Json, json};
use wifu_wire::Span;
use wifu_wire::units::lacks_unit;

use super::options::value_of;

const TC: &str = "write tc's words, such as \"rate 6mbit delay 10ms loss 1% limit 1000\", or keys \
                  of the radio, such as \"rate=6M attempts=2\"";

/// Put the words into a scenario.
///
/// # Errors
/// The word that cannot be understood, or the topology that has no links to make wires of.
pub fn apply(words: &str, all: &mut Json) -> anyhow::Result<()> {
    let words: Vec<&str> = words.split_whitespace().collect();
    ensure!(!words.is_empty(), "{TC}");
    if words.iter().any(|w| w.contains('=')) {
        for word in words {
            let Some((key, value)) = word.split_once('=') else {
                bail!("\"{word}\" is no KEY=VALUE; {TC}");
            };
            all["radio"][key] = value_of(value);
        }
        return Ok(());
    }
    let wire = wire(&words)?;
    let topology = &mut all["topology"];
    if let Some(wires) = topology.get_mut("wire").and_then(Json::as_array_mut) {
        for one in wires {
            merge(one, &wire);
        }
        return Ok(());
    }
    let shape = topology["words"].as_str().unwrap_or_default().to_string();
    ensure!(
        topology.get("set").is_none(),
        "a set is about radios; leave --set out where links are wires"
    );
    let (count, pairs) = pairs(&shape)?;
    let name = |n: usize| format!("n{}", n + 1);
    let nodes: Vec<Json> = (0..count)
        .map(|n| json!({"name": name(n), "wired_only": true}))
        .collect();
    let wires: Vec<Json> = pairs
        .into_iter()
        .map(|(a, b)| {
            let mut one = json!({"a": name(a), "b": name(b)});
            merge(&mut one, &wire);
            one
        })
        .collect();
    *topology = json!({"node": nodes, "wire": wires});
    Ok(())
}

fn merge(one: &mut Json, more: &Map<String, Json>) {
    for (key, value) in more {
        one[key] = value.clone();
    }
}

/// `rate 6mbit delay 10ms 2ms loss 1% limit 1000`, in any order.
fn wire(words: &[&str]) -> anyhow::Result<Map<String, Json>> {
    let mut wire = Map::new();
    let mut rest = words.iter().copied().peekable();
    while let Some(word) = rest.next() {
        let value = rest.next();
        let value = value.with_context(|| format!("there is nothing after \"{word}\"; {TC}"))?;
        match word {
            "rate" => {
                ensure!(
                    !lacks_unit(value),
                    "rate {value} would be {value} bit/s: write rate {value}mbit, or {value}bit"
                );
                let bytes = value.to_ascii_lowercase();
                if let Some(number) = bytes.strip_suffix("bps")
                    && number.ends_with(['k', 'm', 'g'])
                {
                    bail!(
                        "tc takes {value} for bytes per second, and other tools for bits: write \
                         {number}bit, or eight times as many"
                    );
                }
                wire.insert("rate".into(), json!(value));
            }
            "delay" => {
                wire.insert("delay".into(), json!(value));
                // As with tc, a second time is the variation; here it is added, and order stays.
                if let Some(more) = rest.next_if(|w| w.parse::<Span>().is_ok()) {
                    wire.insert("variation".into(), json!(more));
                }
            }
            "loss" => {
                let p: f64 = value.trim_end_matches('%').parse().ok().context(
                    "write a percentage after loss, such as 1%; loss models are not simulated",
                )?;
                ensure!((0.0..=100.0).contains(&p), "loss is 0% to 100%");
                wire.insert("loss".into(), json!(p / 100.0));
            }
            "limit" => {
                let n: u32 = value.parse().context("limit is a number of packets")?;
                wire.insert("queue".into(), json!(n));
            }
            "distribution" | "slot" | "duplicate" | "corrupt" | "reorder" => {
                bail!("\"{word}\" is not simulated; there are rate, delay, loss and limit");
            }
            other => bail!("\"{other}\" is none of tc's words that are known here; {TC}"),
        }
    }
    if !wire.contains_key("rate") {
        bail!("a wire needs a rate: {TC}");
    }
    Ok(wire)
}

/// How many nodes, and which are neighbours.
fn pairs(shape: &str) -> anyhow::Result<(usize, Vec<(usize, usize)>)> {
    let mut words = shape.split(',');
    let kind = words.next().unwrap_or_default();
    let sizes: Vec<usize> = words
        .filter(|w| !w.contains('='))
        .map(|w| {
            w.trim()
                .parse()
                .with_context(|| format!("\"{w}\" is no number of nodes"))
        })
        .collect::<anyhow::Result<_>>()?;
    let chain = |first: usize, n: usize| (first + 1..first + n).map(|b| (b - 1, b));
    let found: (usize, Vec<_>) = match (kind, sizes.as_slice()) {
        ("linear", [n]) => (*n, chain(0, *n).collect()),
        ("minimal", []) => (2, chain(0, 2).collect()),
        ("parallel", [n]) => (2 * n, (0..2).flat_map(|r| chain(r * n, *n)).collect()),
        ("parallel", [n, rows]) => {
            let chains = (0..*rows).flat_map(|r| chain(r * n, *n));
            (rows * n, chains.collect())
        }
        ("grid", [r, c]) => {
            let rows = (0..*r).flat_map(|row| chain(row * c, *c));
            let columns = (*c..r * c).map(|b| (b - c, b));
            (r * c, rows.chain(columns).collect())
        }
        _ => bail!(
            "wires can be the links of linear,N, grid,R,C and parallel,N,ROWS, or those of a topology \
             file; this topology is \"{shape}\""
        ),
    };
    ensure!(
        (2..=2000).contains(&found.0),
        "{shape}: 2 to 2000 nodes, please"
    );
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(topology: Json, words: &str) -> anyhow::Result<Json> {
        let mut all = json!({"topology": topology});
        apply(words, &mut all)?;
        Ok(all)
    }

    #[test]
    fn tcs_words_make_wires() {
        let words = "rate 6mbit delay 10ms 2ms loss 1% limit 50";
        let all = applied(json!({"words": "linear,3"}), words).unwrap();
        let topology = &all["topology"];
        assert_eq!(
            topology["node"][2],
            json!({"name": "n3", "wired_only": true})
        );
        let expected = json!({"a": "n2", "b": "n3", "rate": "6mbit", "delay": "10ms",
            "variation": "2ms", "loss": 0.01, "queue": 50});
        assert_eq!(topology["wire"][1], expected);
        assert_eq!(topology["wire"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn a_files_own_wires_take_the_words() {
        let file = json!({"wire": [{"a": "x", "b": "y", "rate": "1M", "delay": "3ms"}]});
        let all = applied(file, "rate 2mbit").unwrap();
        let expected = json!({"a": "x", "b": "y", "rate": "2mbit", "delay": "3ms"});
        assert_eq!(all["topology"]["wire"][0], expected);
    }

    #[test]
    fn keys_belong_to_the_radio() {
        let all = applied(json!({"words": "linear,3"}), "rate=6M attempts=2").unwrap();
        assert_eq!(all["radio"], json!({"rate": "6M", "attempts": 2}));
    }

    #[test]
    fn neighbours_of_a_grid() {
        let (count, pairs) = pairs("grid,2,3,spacing=5").unwrap();
        assert_eq!(count, 6);
        let expected = [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)];
        assert_eq!(pairs, expected);
    }

    #[test]
    fn errors_say_what_would_be_right() {
        let wrong = |topology: Json, words: &str| applied(topology, words).unwrap_err().to_string();
        let linear = || json!({"words": "linear,3"});
        for (words, hint) in [
            ("", "write tc's words"),
            ("rate", "nothing after \"rate\""),
            ("delay 5ms", "needs a rate"),
            ("rate 10 delay 10ms", "write rate 10mbit, or 10bit"),
            ("rate 10mbps", "write 10mbit, or eight times as many"),
            ("rate 10Mbps", "for bytes per second"),
            ("rate 6mbit slot 1", "not simulated"),
            ("rate 6mbit loss gemodel", "percentage"),
            ("bandwidth 6mbit", "\"bandwidth\" is none of tc's words"),
            ("rate=6M attempts", "no KEY=VALUE"),
        ] {
            let message = wrong(linear(), words);
            assert!(message.contains(hint), "{words}: {message}");
        }
        assert!(wrong(json!({"words": "random,9"}), "rate 1mbit").contains("linear,N"));
        assert!(wrong(json!({"words": "linear,3", "set": "TB-A"}), "rate 1mbit").contains("--set"));
        assert!(wrong(json!({"words": "linear,1"}), "rate 1mbit").contains("2 to 2000"));
    }
}
