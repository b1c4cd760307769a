//! Values for the parameters of a composition: defaults, the profile, what stands beside a part,
//! what is set for the whole.

use crate::composition::{Composition, Problem};
use crate::descriptor::{Descriptor, Registry};
use crate::params::{ParamSpec, Value};
use wifu_wire::names::nearest;

/// Parameters of the engine itself, besides those of the parts.
pub const ENGINE_PARAMS: &[ParamSpec] = &[
    ParamSpec::int(
        "snd_buf",
        131_071,
        1_000,
        1 << 30,
        "Send buffer, octets (Behaviour 2.6).",
    ),
    ParamSpec::int(
        "rcv_wnd",
        65_535,
        1_000,
        1 << 30,
        "Receive buffer and largest window, octets. Above 65535 the window is scaled (RFC 7323).",
    ),
    ParamSpec::int(
        "mss",
        0,
        0,
        65_495,
        "Largest payload, octets; 0: what the path's MTU allows.",
    ),
    ParamSpec::int(
        "packets",
        64,
        1,
        65_536,
        "Packets that a packet store holds.",
    ),
];

/// Values of all parameters of a part, in the order of its descriptor.
pub(crate) type Values = Vec<(&'static str, Value)>;

/// Values per part and, last, of the engine; and what the profile sets that nothing here takes.
/// Precedence: default, profile, beside the part, `set` and the specification.
pub(crate) fn resolve_params(
    c: &Composition,
    descs: &[&'static Descriptor],
    registry: &Registry,
    problems: &mut Vec<Problem>,
) -> (Vec<Values>, Vec<String>) {
    let mut specs: Vec<Specs> = descs.iter().map(|d| (d.role.key(), d.params)).collect();
    specs.push(("engine", ENGINE_PARAMS));
    let defaults = |s: &[ParamSpec]| s.iter().map(|p| (p.name, p.default)).collect();
    let mut values: Vec<Values> = specs.iter().map(|(_, s)| defaults(s)).collect();
    let mut unused = Vec::new();
    for (key, text) in &c.profile_params {
        let takers = owners(&specs, key);
        if takers.is_empty() {
            match unknown_everywhere(c, registry, key) {
                Some(problem) => problems.push(problem),
                None => unused.push(key.clone()),
            }
        }
        for i in takers {
            assign(&specs, &mut values, i, key, text, &c.name, problems);
        }
    }
    for (i, part) in c.parts.iter().enumerate() {
        for (key, text) in &part.params {
            if specs[i].1.iter().any(|p| p.name == bare(key)) {
                assign(&specs, &mut values, i, key, text, &c.name, problems);
            } else {
                problems.push(unknown_param(c, &specs[i..=i], key));
            }
        }
    }
    for (key, text) in &c.params {
        match owners(&specs, key)[..] {
            [] => problems.push(unknown_param(c, &specs, key)),
            [i] => assign(&specs, &mut values, i, key, text, &c.name, problems),
            _ => {
                let roles: Vec<String> = owners(&specs, key)
                    .iter()
                    .map(|i| format!("{}.{key}", specs[*i].0))
                    .collect();
                let what = format!("several parts have it; write one of {}", roles.join(", "));
                problems.push(Problem {
                    key: format!("{}.{key}", c.name),
                    what,
                });
            }
        }
    }
    (values, unused)
}

/// A key of a profile that no part of the registry declares, here or elsewhere.
fn unknown_everywhere(c: &Composition, registry: &Registry, key: &str) -> Option<Problem> {
    let parts = registry.parts().iter();
    let specs: Vec<Specs> = parts.map(|d| (d.role.key(), d.params)).collect();
    if !owners(&specs, key).is_empty() {
        return None;
    }
    let engine = ENGINE_PARAMS.iter();
    let names = specs.iter().flat_map(|(_, s)| s.iter()).chain(engine);
    let hint = nearest(bare(key), names.map(|p| p.name))
        .map_or(String::new(), |n| format!("; did you mean {n}?"));
    let profile = c.profile.as_deref().unwrap_or_default();
    Some(Problem {
        key: format!("profile.{profile}.{key}"),
        what: format!("neither a part nor the engine has this parameter{hint}"),
    })
}

/// The role of a part, or `engine`, and what parameters are declared there.
type Specs = (&'static str, &'static [ParamSpec]);

fn bare(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

fn owners(specs: &[Specs], key: &str) -> Vec<usize> {
    let role = key.split_once('.').map(|(role, _)| role);
    let has = |s: &[ParamSpec]| s.iter().any(|p| p.name == bare(key));
    let fits = |i: &usize| has(specs[*i].1) && role.is_none_or(|r| r == specs[*i].0);
    (0..specs.len()).filter(fits).collect()
}

fn assign(
    specs: &[Specs],
    values: &mut [Values],
    i: usize,
    key: &str,
    text: &str,
    composition: &str,
    problems: &mut Vec<Problem>,
) {
    let Some(at) = specs[i].1.iter().position(|p| p.name == bare(key)) else {
        return;
    };
    match specs[i].1[at].parse(text) {
        Ok(v) => values[i][at].1 = v,
        Err(what) => {
            problems.push(Problem {
                key: format!("{composition}.{}", specs[i].0),
                what,
            });
        }
    }
}

fn unknown_param(c: &Composition, specs: &[Specs], key: &str) -> Problem {
    let names: Vec<&str> = specs
        .iter()
        .flat_map(|(_, s)| s.iter().map(|p| p.name))
        .collect();
    let hint = nearest(bare(key), names.iter().copied())
        .map_or(String::new(), |n| format!(" Did you mean {n}?"));
    let names = names.join(", ");
    let what = format!("no part here has this parameter.{hint} Known: {names}");
    Problem {
        key: format!("{}.{key}", c.name),
        what,
    }
}
