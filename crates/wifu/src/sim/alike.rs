//! What the protocols of a run's flows differ in besides what their names say: a comparison of two
//! with different profiles compares windows, buffers, timers and acknowledgements, too.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use wifu_engine::Blueprint;
use wifu_engine::blueprint::ENGINE_PARAMS;
use wifu_node::Registry;

/// Parameters that a sentence names; JSON has all.
const NAMED: usize = 10;

/// A protocol with the profile that most have.
const USUAL: &str = "tcp-newreno";

/// A parameter or a part by its role: the value of one flow, and that of the other.
type Unlike = BTreeMap<String, (String, String)>;

/// What two flows' protocols differ in.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    /// The protocols as they ran, the testbed's settings included.
    words: [String; 2],
    profiles: [String; 2],
    parameters: Unlike,
}

impl Difference {
    /// A sentence.
    pub fn words(&self) -> String {
        let [one, two] = &self.words;
        let mut told = Vec::new();
        if self.profiles[0] != self.profiles[1] {
            let [a, b] = &self.profiles;
            told.push(format!("profile {a}, not {b}"));
        }
        // What belongs to the connection as a whole (`rcv_wnd`) before what parts have.
        let mut all: Vec<_> = self.parameters.iter().collect();
        all.sort_by_key(|(name, _)| name.contains('.'));
        let more = all.len().saturating_sub(NAMED);
        let named = all.into_iter().take(NAMED);
        told.extend(named.map(|(name, (a, b))| format!("{name} {a}, not {b}")));
        if more > 0 {
            told.push(format!("and {more} more"));
        }
        let told = told.join("; ");
        format!("{one} and {two} differ in more than their names say: {told}")
    }

    /// The same as data.
    pub fn to_json(&self) -> Json {
        let parameters: BTreeMap<&String, [&String; 2]> = self
            .parameters
            .iter()
            .map(|(k, (a, b))| (k, [a, b]))
            .collect();
        json!({"protocols": self.words, "profiles": self.profiles, "parameters": parameters,
            "words": self.words()})
    }
}

/// The profile of each of these protocols, if they have different ones.
pub fn profiles(protocols: &[String], registry: &Registry) -> BTreeMap<String, String> {
    let found = protocols.iter().filter_map(|words| {
        let ends = &registry.resolve(words).ok()?.ends;
        Some((words.clone(), profile(ends)))
    });
    let found: BTreeMap<String, String> = found.collect();
    let mut names: Vec<&String> = found.values().collect();
    names.sort();
    names.dedup();
    match names.len() {
        0 | 1 => BTreeMap::new(),
        _ => found,
    }
}

/// Each protocol against the first one; those of which the words say it all are left out, and what
/// has no parameters (`udp`).
pub fn differences(protocols: &[String], registry: &Registry) -> Vec<Difference> {
    let mut known: Vec<&String> = Vec::new();
    for words in protocols {
        if !known.contains(&words) && registry.resolve(words).is_ok() {
            known.push(words);
        }
    }
    let Some((first, others)) = known.split_first() else {
        return Vec::new();
    };
    let each = others
        .iter()
        .filter_map(|one| difference(one, first, registry));
    each.collect()
}

fn difference(one: &str, two: &str, registry: &Registry) -> Option<Difference> {
    let (a, b) = (registry.resolve(one).ok()?, registry.resolve(two).ok()?);
    let by_name = by_name(one, two, &profile(&b.ends), registry);
    let mut parameters = unlike(&a.ends, &b.ends);
    parameters.retain(|key, values| {
        by_name.get(key) != Some(values) && !(said(one, key) || said(two, key))
    });
    let words = [one.to_string(), two.to_string()];
    let profiles = [profile(&a.ends), profile(&b.ends)];
    (!parameters.is_empty()).then_some(Difference {
        words,
        profiles,
        parameters,
    })
}

/// What a profile changes of each protocol that has one of its own, in whose place it stands.
pub fn replaced(protocols: &[String], registry: &Registry) -> Vec<String> {
    let mut told = Vec::new();
    for note in protocols.iter().filter_map(|p| instead(p, registry)) {
        if !told.contains(&note) {
            told.push(note);
        }
    }
    told
}

/// A protocol whose profile is neither its own nor the usual one that most have.
fn instead(words: &str, registry: &Registry) -> Option<String> {
    let (name, said) = words.split_once(',')?;
    let of = |words: &str| registry.resolve(words).ok().map(|p| Arc::clone(&p.ends));
    let (usual, own, given) = (of(USUAL)?, of(name)?, of(words)?);
    let [usual, had, has] = [&usual, &own, &given].map(|ends| profile(ends));
    let asked = said.split(',').any(|word| word == format!("profile={has}"));
    if !asked || had == usual || had == has {
        return None;
    }
    let before: BTreeMap<String, String> = values(&own);
    let changed = listed(&given).filter(|(key, value)| before.get(key) != Some(value));
    let mut changed: Vec<String> = changed
        .map(|(key, value)| {
            let other = before.get(&key).map_or("set", String::as_str);
            format!("{key} {value}, not {other}")
        })
        .collect();
    let more = changed.len().saturating_sub(NAMED);
    changed.truncate(NAMED);
    let more = match more {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let all = registry.library().protocols().iter();
    let mut others = all.filter(|other| *other != name);
    let left = others.find(|other| {
        let ends = of(&format!("{other},profile={has}"));
        ends.is_some_and(|ends| parts(&ends) == parts(&given) && values(&ends) == values(&given))
    });
    let left = left.map_or(String::new(), |other| format!("; what is left is {other}"));
    Some(format!(
        "{name} has a profile of its own, {had}, for which profile={has} stands here: \
         {}{more}{left}. Without `profile` it is what its name says",
        changed.join(", ")
    ))
}

fn profile(of: &Blueprint) -> String {
    of.profile.clone().unwrap_or_else(|| String::from("none"))
}

/// Whether the words of a protocol set a parameter.
fn said(words: &str, key: &str) -> bool {
    let mut set = words.split(',').skip(1).filter_map(|w| w.split_once('='));
    let bare = key.rsplit('.').next();
    set.any(|(name, _)| name.trim() == key || Some(name.trim()) == bare)
}

/// In what two protocols differ by their names: both with the same profile and nothing else.
fn by_name(one: &str, two: &str, profile: &str, registry: &Registry) -> Unlike {
    let stem = |words: &str| words.split(',').next().unwrap_or_default().to_string();
    let with = |words: &str| registry.resolve(&format!("{},profile={profile}", stem(words)));
    let plain = |words: &str| registry.resolve(&stem(words));
    match (with(one), with(two), plain(one), plain(two)) {
        (Ok(a), Ok(b), _, _) | (_, _, Ok(a), Ok(b)) => unlike(&a.ends, &b.ends),
        _ => Unlike::new(),
    }
}

/// Parts, and parameters of parts that both have, in which two protocols differ.
fn unlike(one: &Blueprint, two: &Blueprint) -> Unlike {
    let (a, b) = (values(one), values(two));
    let both = a.iter().filter_map(|(key, x)| Some((key, x, b.get(key)?)));
    let mut found: Unlike = both
        .filter(|(_, x, y)| x != y)
        .map(|(key, x, y)| (key.clone(), (x.clone(), y.clone())))
        .collect();
    let (a, b) = (parts(one), parts(two));
    for role in a.keys().chain(b.keys()) {
        let name = |of: &BTreeMap<&str, String>| of.get(role).cloned();
        let names = (name(&a), name(&b));
        if names.0 != names.1 {
            let told = |n: Option<String>| n.unwrap_or_else(|| String::from("none"));
            found.insert((*role).to_string(), (told(names.0), told(names.1)));
        }
    }
    found
}

fn values(of: &Blueprint) -> BTreeMap<String, String> {
    listed(of).collect()
}

/// The parameters with their values, those of the connection as a whole first.
fn listed(of: &Blueprint) -> impl Iterator<Item = (String, String)> {
    let engine = ENGINE_PARAMS.iter().map(|p| {
        let value = of.value(p.name);
        let value = value.map_or_else(|| p.default.to_string(), |v| v.to_string());
        (p.name.to_string(), value)
    });
    let parts = of.parts.iter().flat_map(|part| {
        let role = part.desc.role.key();
        let values = part.values.iter();
        values.map(move |(name, value)| (format!("{role}.{name}"), value.to_string()))
    });
    engine.chain(parts)
}

fn parts(of: &Blueprint) -> BTreeMap<&str, String> {
    let mut found: BTreeMap<&str, String> = BTreeMap::new();
    for part in &of.parts {
        let names = found.entry(part.desc.role.key()).or_default();
        if !names.is_empty() {
            names.push_str(", ");
        }
        names.push_str(part.desc.name);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(protocols: &[&str]) -> Vec<Difference> {
        let all: Vec<String> = protocols.iter().map(|p| (*p).to_string()).collect();
        differences(&all, &crate::standard())
    }

    #[test]
    fn a_profile_that_one_flow_has_is_told_with_what_it_changes() {
        let found = told(&[
            "tcp-sack",
            "udp",
            "tcp-cubic,profile=wifu-tahoe",
            "tcp-sack",
        ]);
        assert_eq!(found.len(), 1);
        let words = found[0].words();
        for part in [
            "tcp-cubic,profile=wifu-tahoe and tcp-sack differ in more than their names say",
            "profile wifu-tahoe, not rfc-modern",
            "rcv_wnd 65535, not 4194304",
            "ack.ack_every 1, not 2",
        ] {
            assert!(words.contains(part), "{part} is missing in\n{words}");
        }
        let data = found[0].to_json();
        assert_eq!(data["parameters"]["snd_buf"], json!(["131071", "4194304"]));
        assert_eq!(
            data["parameters"].get("congestion"),
            None,
            "CUBIC is its name"
        );
    }

    #[test]
    fn what_the_words_say_needs_no_more_of_them() {
        for all in [
            &[
                "tcp-sack",
                "tcp-cubic",
                "tcp-newreno",
                "tcp-reno",
                "tcp-tahoe",
            ][..],
            &["tcp-sack", "tcp-sack,iw=4", "tcp-cubic,rcv_wnd=65535"],
            &[
                "tcp-sack,profile=wifu-tahoe",
                "tcp-cubic,profile=wifu-tahoe",
            ],
            &["udp"],
            &[],
        ] {
            assert_eq!(told(all), []);
        }
    }

    #[test]
    fn a_profile_in_place_of_a_protocols_own_is_told_with_what_is_left() {
        let said = |words: &str| replaced(&[words.to_string()], &crate::standard());
        let told = said("tcp-linux,profile=rfc-modern");
        assert_eq!(told.len(), 1);
        for part in [
            "tcp-linux has a profile of its own, linux, for which profile=rfc-modern stands here: ",
            "; what is left is tcp-cubic. Without `profile` it is what its name says",
        ] {
            assert!(told[0].contains(part), "{part} is missing in\n{}", told[0]);
        }
        for fine in [
            "tcp-linux",
            "tcp-linux,profile=linux",
            "tcp-linux,iw=4",
            "tcp-newreno,profile=linux",
            "udp",
        ] {
            assert_eq!(said(fine), [""; 0], "{fine}");
        }
    }

    #[test]
    fn profiles_are_named_where_they_are_mixed() {
        let of = |all: &[&str]| {
            let all: Vec<String> = all.iter().map(|p| (*p).to_string()).collect();
            profiles(&all, &crate::standard())
        };
        assert!(of(&["tcp-sack", "tcp-cubic"]).is_empty());
        let mixed = of(&["tcp-sack", "tcp-linux"]);
        assert_eq!(mixed["tcp-sack"], "rfc-modern");
        assert_eq!(mixed["tcp-linux"], "linux");
    }
}
