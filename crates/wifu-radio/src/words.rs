//! Topologies in words, as Mininet has them: a shape with its sizes, then `key=value` pairs, all
//! separated by commas.
//!
//! | words | nodes |
//! | --- | --- |
//! | `minimal` | two |
//! | `linear,N` | a chain of N |
//! | `grid,R,C` | R rows of C |
//! | `random,N` | N, uniform over an area, drawn until links with ETX < 2 connect them |
//! | `parallel,N[,ROWS]` | two chains, or ROWS, of N nodes each |
//! | `stack` | three two-hop chains, three hop lengths apart (set `TB-STACK`) |
//!
//! Nodes are called n1, n2, ..., row by row. Keys: `set` (a testbed set to build on), `spacing`
//! (metres between neighbours), `snr` (mean SNR of a hop, dB), `gap` (metres between rows), `area`
//! (`70x45`, metres, for `random`), `wire` (`linear` and `minimal`: neighbours are joined by wires
//! of this rate and have no radio) with `delay`, `queue`, `overhead`, `loss`,
//! `variation`, and every key of `[radio]`. Times have a unit. A key that would change nothing
//! where it stands is refused.
//!
//! A chain takes the SNRs of its set's table, if the set has one and neither `snr` nor `spacing`
//! say otherwise. Other shapes, and other spacings, follow the set's law of path loss; a table
//! becomes a law by its mean SNR at the set's spacing.

mod unfit;

use toml::{Table, Value};
use wifu_wire::names;
use wifu_wire::units::lacks_unit;

use crate::sets::{self, worlds};
use crate::topology::{
    PropagationModel, Topology, TopologyError, distance_of, mean_hop, merge, overlay, reach, read,
};

/// The names of the shapes, with which words begin.
pub const SHAPES: [&str; 6] = ["minimal", "linear", "grid", "random", "parallel", "stack"];
/// Keys that are not the radio's.
const KEYS: [&str; 12] = [
    "set",
    "world",
    "spacing",
    "snr",
    "gap",
    "area",
    "wire",
    "delay",
    "queue",
    "overhead",
    "loss",
    "variation",
];
/// Keys of `[radio]` whose values are lists.
const LISTS: [&str; 2] = ["control_rates", "intr_latency"];
/// Keys of `[radio]`.
pub const RADIO_KEYS: [&str; 30] = [
    "rate",
    "rate_control",
    "broadcast_rate",
    "attempts",
    "attempts_long",
    "rts_threshold",
    "legacy_backoff",
    "reserve_undecoded",
    "queue",
    "ring",
    "driver",
    "intr_batch",
    "power_dbm",
    "gain_db",
    "attenuation_db",
    "noise_figure_db",
    "noise_dbm",
    "cs_dbm",
    "detect_dbm",
    "energy_dbm",
    "decode_dbm",
    "lock_db",
    "capture_db",
    "mim_db",
    "overhear_loss",
    "promiscuous",
    "error_model",
    "ideal_db",
    "control_rates",
    "intr_latency",
];

/// The hop SNR of a geometry without a spacing of its own, dB.
const HOP_DB: f64 = 20.0;

/// Words as read.
struct Words<'a> {
    all: &'a str,
    shape: &'a str,
    sizes: Vec<u16>,
    keys: Vec<(&'a str, &'a str)>,
}

/// The table of a topology in words over a testbed set.
pub(crate) fn table(
    words: &str,
    set: Option<&str>,
    notes: &mut Vec<String>,
) -> Result<Table, TopologyError> {
    let words = Words::read(words)?;
    let default = match words.shape {
        "stack" => "TB-STACK",
        _ => "PLAIN",
    };
    let set = words.set(set.unwrap_or(default))?;
    let mut table = worlds::table(&set)?;
    words.radio(&mut table);
    let base = read(table.clone())?;
    for key in ["placement", "node", "link", "matrix", "wire"] {
        table.remove(key);
    }
    if words.get("wire").is_some() {
        words.wires(&mut table)?;
        return Ok(table);
    }
    let ground = Ground::new(&words, &base)?;
    let chain = matches!(words.shape, "minimal" | "linear");
    if !chain || words.get("spacing").is_some() {
        ground.law(&words, &mut table, &base, notes)?;
    } else if let (Some(snr), Some(_)) = (ground.snr, &base.chain) {
        let hop = Table::from_iter([
            ("snr_db".to_string(), Value::Array(vec![Value::Float(snr)])),
            ("repeat".to_string(), Value::Boolean(true)),
        ]);
        merge(&mut table, &wrap("chain", hop));
    } else if ground.snr.is_some() {
        ground.law(&words, &mut table, &base, notes)?;
    }
    let placement = words.placement(&ground, &base, notes)?;
    merge(&mut table, &wrap("placement", placement));
    Ok(table)
}

/// That no shape is called so. What names something else says how that is given.
fn no_shape(name: &str) -> String {
    let sets = || sets::names().map(|set| (set, set.to_lowercase()));
    let lower = name.to_lowercase();
    let all = SHAPES.join(", ");
    if let Some((set, _)) = sets().find(|(_, l)| *l == lower) {
        return format!(
            "`{name}` is a testbed set, which needs a shape: linear,3,set={set}. Shapes are {all}"
        );
    }
    // As everybody calls it.
    if lower == "chain" || lower == "line" {
        return format!(
            "no shape is called `{name}`; {} Shapes are {all}",
            names::asked("linear")
        );
    }
    match names::nearest(name, SHAPES.into_iter().chain(sets::names())) {
        Some(set) if !SHAPES.contains(&set) => format!(
            "no shape is called `{name}`; {} A testbed set needs a shape: linear,3,set={set}. Shapes \
             are {all}",
            names::asked(set)
        ),
        _ => names::unknown("shape", name, SHAPES),
    }
}

fn wrap(key: &str, table: Table) -> Table {
    Table::from_iter([(key.to_string(), Value::Table(table))])
}

impl<'a> Words<'a> {
    fn read(all: &'a str) -> Result<Words<'a>, TopologyError> {
        let wrong = |what: String| TopologyError::words(all, what);
        let mut parts = all.split(',').map(str::trim);
        let shape = parts.next().unwrap_or_default();
        if !SHAPES.contains(&shape) {
            return Err(wrong(no_shape(shape)));
        }
        let (mut sizes, mut keys) = (Vec::new(), Vec::new());
        for part in parts {
            match part.split_once('=') {
                Some((key, value)) => {
                    let (key, value) = (key.trim(), value.trim());
                    let known = KEYS.into_iter().chain(RADIO_KEYS);
                    if !known.clone().any(|k| k == key) {
                        return Err(wrong(unknown(key, known)));
                    }
                    if let Some(what) = without_unit(key, value) {
                        return Err(wrong(what));
                    }
                    keys.push((key, value));
                }
                None => match part.parse() {
                    Ok(n) if n > 0 && keys.is_empty() => sizes.push(n),
                    _ => {
                        let least = if shape == "linear" { 2 } else { 1 };
                        let what = format!(
                            "`{part}` is neither a size from {least} to 65535 nor key=value"
                        );
                        return Err(wrong(what));
                    }
                },
            }
        }
        let words = Words {
            all,
            shape,
            sizes,
            keys,
        };
        words.check_sizes()?;
        match unfit::unfit(&words) {
            Some(what) => Err(wrong(what)),
            None => Ok(words),
        }
    }

    /// The set, with its world, that the words name; else the one that is given beside them.
    fn set(&self, beside: &str) -> Result<String, TopologyError> {
        let set = self.get("set").unwrap_or(beside);
        match self.get("world") {
            Some(_) if set.contains(',') => {
                let what = format!("both the words and the set {set} name a world");
                Err(TopologyError::words(self.all, what))
            }
            Some(world) => Ok(format!("{set},world={world}")),
            None => Ok(set.to_string()),
        }
    }

    fn check_sizes(&self) -> Result<(), TopologyError> {
        let (least, most, usage) = match self.shape {
            "minimal" => (0, 0, "minimal"),
            "linear" => (1, 1, "linear,N"),
            "grid" => (2, 2, "grid,ROWS,COLUMNS"),
            "random" => (1, 1, "random,N"),
            "parallel" => (1, 2, "parallel,N[,ROWS]"),
            _ => (0, 0, "stack"),
        };
        let product: u32 = self.sizes.iter().map(|n| u32::from(*n)).product();
        if product > u32::from(u16::MAX) {
            return Err(self.wrong("more than 65535 nodes"));
        }
        match (least..=most).contains(&self.sizes.len()) {
            true => Ok(()),
            false => Err(self.wrong(&format!("write {usage}"))),
        }
    }

    fn wrong(&self, what: &str) -> TopologyError {
        TopologyError::words(self.all, what)
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.keys.iter().find(|(k, _)| *k == key).map(|(_, v)| *v)
    }

    /// A number, with or without its unit `m` or `dB`.
    fn number(&self, key: &str) -> Result<Option<f64>, TopologyError> {
        let Some(text) = self.get(key) else {
            return Ok(None);
        };
        let bare = text.trim_end_matches("dB").trim_end_matches('m').trim();
        match bare.parse::<f64>() {
            Ok(n) if n.is_finite() && (key == "snr" || n > 0.0) => Ok(Some(n)),
            Ok(n) if n <= 0.0 => Err(self.wrong(&format!("`{key}={text}` must be greater than 0"))),
            _ => Err(self.wrong(&format!("`{key}={text}` needs a number"))),
        }
    }

    /// Keys of the radio into `[radio]`.
    fn radio(&self, table: &mut Table) {
        let wired = self.get("wire").is_some();
        let own = |key: &str| RADIO_KEYS.contains(&key) && !(wired && key == "queue");
        let of = |key: &str, text: &str| match LISTS.contains(&key) {
            true => Value::Array(text.split('+').map(value).collect()),
            false => value(text),
        };
        let pairs = self.keys.iter().filter(|(key, _)| own(key));
        let radio = Table::from_iter(pairs.map(|(k, v)| (k.to_string(), of(k, v))));
        if !radio.is_empty() {
            overlay(table, &wrap("radio", radio));
        }
    }

    /// Neighbours joined by wires, without radios.
    fn wires(&self, table: &mut Table) -> Result<(), TopologyError> {
        if !matches!(self.shape, "minimal" | "linear") {
            return Err(self.wrong("only linear and minimal can be wired"));
        }
        let count = self.sizes.first().copied().unwrap_or(2);
        let node = |i: u16| {
            Value::Table(Table::from_iter([
                ("name".to_string(), Value::String(format!("n{i}"))),
                ("wired_only".to_string(), Value::Boolean(true)),
            ]))
        };
        let loss = match self.get("loss") {
            Some(text) => Some(share(text).ok_or_else(|| {
                self.wrong(&format!(
                    "`loss={text}` should be 0 to 1, or like loss=0.5%"
                ))
            })?),
            None => None,
        };
        let wire = |i: u16| {
            let mut wire = Table::from_iter([
                ("a".to_string(), Value::String(format!("n{i}"))),
                ("b".to_string(), Value::String(format!("n{}", i + 1))),
            ]);
            for (key, name) in [
                ("wire", "rate"),
                ("delay", "delay"),
                ("queue", "queue"),
                ("overhead", "overhead"),
                ("variation", "variation"),
            ] {
                if let Some(text) = self.get(key) {
                    wire.insert(name.into(), value(text));
                }
            }
            if let Some(loss) = loss {
                wire.insert("loss".into(), Value::Float(loss));
            }
            Value::Table(wire)
        };
        table.remove("chain");
        table.insert("node".into(), Value::Array((1..=count).map(node).collect()));
        table.insert("wire".into(), Value::Array((1..count).map(wire).collect()));
        Ok(())
    }

    fn placement(
        &self,
        ground: &Ground,
        base: &Topology,
        notes: &mut Vec<String>,
    ) -> Result<Table, TopologyError> {
        let size = |i: usize| self.sizes.get(i).copied();
        let gap = self.number("gap")?.unwrap_or(ground.gap);
        let (kind, count, rows, gap) = match self.shape {
            "minimal" => ("line", 2, 1, None),
            "linear" => ("line", size(0).unwrap_or(2), 1, None),
            "grid" => {
                let (rows, columns) = (size(0).unwrap_or(1), size(1).unwrap_or(1));
                let apart = self.number("gap")?.unwrap_or(ground.spacing);
                ("grid", rows * columns, rows, Some(apart))
            }
            "parallel" => (
                "rows",
                size(0).unwrap_or(2),
                size(1).unwrap_or(2),
                Some(gap),
            ),
            "stack" => ("rows", 3, 3, Some(gap)),
            _ => return self.random(size(0).unwrap_or(2), base, notes),
        };
        let mut p = Table::from_iter([
            ("kind".to_string(), Value::String(kind.into())),
            ("count".to_string(), Value::Integer(count.into())),
            ("rows".to_string(), Value::Integer(rows.into())),
            ("spacing_m".to_string(), Value::Float(ground.spacing)),
        ]);
        if let Some(gap) = gap {
            p.insert("gap_m".into(), Value::Float(gap));
        }
        Ok(p)
    }

    /// A uniform placement: the set's own if it has one, with the same density; else an area in
    /// which a node has about ln N + 4 neighbours, which connects most placements.
    fn random(
        &self,
        count: u16,
        base: &Topology,
        notes: &mut Vec<String>,
    ) -> Result<Table, TopologyError> {
        let own = base.placement.as_ref().filter(|p| p.area_m.is_some());
        let mut p = match own {
            Some(own) => Table::try_from(own).unwrap_or_default(),
            None => Table::new(),
        };
        let n = f64::from(count);
        let area = match (self.area()?, own.and_then(|p| Some((p.area_m?, p.count)))) {
            (Some(area), _) => area,
            (None, Some((area, of))) => {
                let factor = libm::sqrt(n / f64::from(of));
                area.map(|side| (side * factor * 100.0).round() / 100.0)
            }
            (None, None) => {
                let reach = reach(base)?;
                let degree = libm::log(n) + 4.0;
                let side = reach * libm::sqrt(n * core::f64::consts::PI / degree);
                [(side * 100.0).round() / 100.0; 2]
            }
        };
        let unchanged = own.is_some_and(|p| p.count == count) && self.get("area").is_none();
        if !unchanged {
            notes.push(format!(
                "{count} nodes over {} x {} m, drawn until links with ETX < 2 connect them",
                area[0], area[1]
            ));
            p.insert(
                "accept".into(),
                Value::Table(Table::from_iter([(
                    "connected_etx".to_string(),
                    Value::Float(2.0),
                )])),
            );
        }
        let sides = area.map(Value::Float).to_vec();
        p.insert("kind".into(), Value::String("uniform".into()));
        p.insert("count".into(), Value::Integer(count.into()));
        p.insert("area_m".into(), Value::Array(sides));
        Ok(p)
    }

    fn area(&self) -> Result<Option<[f64; 2]>, TopologyError> {
        let Some(text) = self.get("area") else {
            return Ok(None);
        };
        let side = |s: &str| -> Option<f64> {
            let n = s.trim().trim_end_matches('m').parse().ok()?;
            (n > 0.0).then_some(n)
        };
        let sides = text
            .split_once('x')
            .and_then(|(a, b)| Some([side(a)?, side(b)?]));
        match sides {
            Some(area) => Ok(Some(area)),
            None => Err(self.wrong(&format!("`area={text}` should be like area=70x45"))),
        }
    }
}

/// A probability: a number, or per cent with the sign.
fn share(text: &str) -> Option<f64> {
    let (number, whole) = text.strip_suffix('%').map_or((text, 1.0), |n| (n, 100.0));
    Some(number.parse::<f64>().ok()? / whole)
}

/// A key that words do not have, with what is meant where that is known.
fn unknown<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> String {
    let what = match key {
        "bw" | "bandwidth" => String::from("; wires are wire=10Mb/s, and radios rate=24Mb/s"),
        "k" | "n" | "nodes" => format!("; how many nodes there are stands alone: linear,{{{key}}}"),
        "dist" | "distance" | "d" => {
            String::from("; nodes of a row stand spacing=25 apart, in metres")
        }
        "limit" | "buffer" | "max_queue_size" => {
            String::from("; packets that wait in front of a wire are queue=50")
        }
        "standard" => String::from("; it is a key beside them: topology.channel.standard=802.11b"),
        _ => return names::unknown("key", key, known),
    };
    format!("no key is called `{key}`{what}")
}

/// Keys that are times, which words have with a unit.
const TIMES: [&str; 3] = ["delay", "variation", "intr_latency"];

/// What to write for a number that lacks its unit: as seconds or bit/s hardly anybody means it.
fn without_unit(key: &str, text: &str) -> Option<String> {
    let mut numbers = text.split('+').filter_map(|part| part.trim().parse().ok());
    match key {
        "wire" => lacks_unit(text).then(|| {
            format!("`wire={text}` would be {text} bit/s: write wire={text}mbit, or {text}bit")
        }),
        _ if TIMES.contains(&key) => numbers
            .find(|n: &f64| *n != 0.0)
            .map(|n| format!("`{key}={text}` needs a unit of time: write {n}ms, or {n}s")),
        _ => None,
    }
}

/// A value of TOML, or text.
fn value(text: &str) -> Value {
    if let Ok(n) = text.parse::<i64>() {
        return Value::Integer(n);
    }
    if let Ok(n) = text.parse::<f64>() {
        return Value::Float(n);
    }
    match text {
        "true" => Value::Boolean(true),
        "false" => Value::Boolean(false),
        _ => Value::String(text.into()),
    }
}

/// Distances, m, and the SNR of a hop if the words state it.
struct Ground {
    snr: Option<f64>,
    spacing: f64,
    gap: f64,
    /// The spacing for which the set's table holds.
    of_set: f64,
}

impl Ground {
    fn new(words: &Words, base: &Topology) -> Result<Ground, TopologyError> {
        let p = base.placement.as_ref();
        let of_set = match p.and_then(|p| p.spacing_m) {
            Some(m) => m,
            None if base.chain.is_some() => 10.0,
            None => distance_of(base, HOP_DB)?,
        };
        let spacing = words.number("spacing")?.unwrap_or(of_set);
        let ratio = match (p.and_then(|p| p.gap_m), words.shape) {
            (Some(gap), _) => gap / of_set,
            (None, "stack") => 3.0,
            (None, _) => 2.0,
        };
        Ok(Ground {
            snr: words.number("snr")?,
            spacing,
            gap: ratio * spacing,
            of_set,
        })
    }

    /// Let geometry decide: a chain's table becomes a law by its mean SNR, and an SNR that the
    /// words state holds at the spacing.
    fn law(
        &self,
        words: &Words,
        table: &mut Table,
        base: &Topology,
        notes: &mut Vec<String>,
    ) -> Result<(), TopologyError> {
        let chain = base.chain.as_ref();
        let model = base.propagation.model.unwrap_or_default();
        if self.snr.is_some() && model != PropagationModel::LogDistance {
            let what = "`snr` needs path loss by log-distance, and the set has another law; \
                        write `spacing`";
            return Err(words.wrong(what));
        }
        let (snr, at) = match (self.snr, chain) {
            (Some(snr), _) => (snr, self.spacing),
            (None, Some(chain)) => {
                let (forward, reverse) = mean_hop(chain);
                ((forward + reverse) / 2.0, self.of_set)
            }
            (None, None) => return Ok(()),
        };
        let mut anchor = Table::from_iter([
            ("snr_db".to_string(), Value::Float(snr)),
            ("distance_m".to_string(), Value::Float(at)),
        ]);
        let known = chain.map(|c| (c.power_dbm, c.noise_dbm)).or_else(|| {
            let anchor = base.propagation.anchor.as_ref()?;
            Some((anchor.power_dbm, anchor.noise_dbm))
        });
        let (power, noise) = known.unwrap_or_default();
        for (key, value) in [("power_dbm", power), ("noise_dbm", noise)] {
            if let Some(value) = value {
                anchor.insert(key.into(), Value::Float(value));
            }
        }
        if chain.is_some() && self.snr.is_none() {
            notes.push(format!(
                "links follow path loss from {snr:.2} dB at {at} m, the mean of the set's hops"
            ));
        }
        table.remove("chain");
        overlay(table, &wrap("propagation", wrap("anchor", anchor)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_know_every_key_of_the_radio() {
        let layer = wrap("radio", Table::from_iter([("x".into(), Value::Integer(1))]));
        let complaint = read(layer).expect_err("unknown").to_string();
        let (_, list) = complaint.split_once("there are ").expect("a list");
        let mut known: Vec<&str> = list.split(", ").collect();
        let mut here = RADIO_KEYS.to_vec();
        known.sort_unstable();
        here.sort_unstable();
        assert_eq!(here, known);
    }
}
