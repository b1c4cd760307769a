//! Values for the parameters of a composition: defaults, the profile, what stands beside a part,
//! what is set for the whole.

use crate::composition::{Composition, Problem};
use crate::descriptor::{Descriptor, Registry, Role};
use crate::params::{ParamSpec, Value, assign, defaults};
use wifu_wire::names::{self, unknown_here};

/// Parameters of the engine itself, besides those of the parts.
pub const ENGINE_PARAMS: &[ParamSpec] = &[
    ParamSpec::int(
        "snd_buf",
        131_071,
        1_000,
        1 << 30,
        "Send buffer, bytes (Behaviour 2.6).",
    ),
    ParamSpec::int(
        "rcv_wnd",
        65_535,
        1_000,
        1 << 30,
        "Receive buffer and largest window, bytes. Above 65535 the window is scaled (RFC 7323).",
    ),
    ParamSpec::int(
        "mss",
        0,
        0,
        65_495,
        "Largest payload that is sent, bytes; 0: what the path's MTU allows.",
    ),
    ParamSpec::int(
        "max_seg",
        0,
        0,
        65_535,
        "Largest segment that we announce to take, and send, in bytes as the MSS option counts \
         them: payload and the options beside it (RFC 9293 3.7.1; `TCP_MAXSEG` sets it); 0: what \
         the path's MTU allows.",
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
    let mut values: Vec<Values> = specs.iter().map(|(_, s)| defaults(s)).collect();
    let mut unused = Vec::new();
    let mut set = |i: usize, key: &str, text: &str| {
        let (role, specs) = specs[i];
        let done = assign(specs, &mut values[i], bare(key), text);
        done.map_err(|what| Problem {
            key: format!("{}.{role}", c.name),
            what,
        })
    };
    for (key, text) in &c.profile_params {
        let takers = owners(&specs, key);
        if takers.is_empty() {
            match unknown_everywhere(c, registry, key) {
                Some(problem) => problems.push(problem),
                None => unused.push(key.clone()),
            }
        }
        let assigned = takers.into_iter().map(|i| set(i, key, text));
        problems.extend(assigned.filter_map(Result::err));
    }
    for (i, part) in c.parts.iter().enumerate() {
        let assigned = part.params.iter().map(|(key, text)| set(i, key, text));
        problems.extend(assigned.filter_map(Result::err));
    }
    for (key, text) in &c.params {
        let what = match owners(&specs, key)[..] {
            [] => not_here(c, &specs, registry, (key, text)),
            [i] => {
                problems.extend(set(i, key, text).err());
                continue;
            }
            ref several => {
                let all = with_roles(&specs, several, key);
                format!("several parts have it; write one of {all}")
            }
        };
        problems.push(Problem {
            key: format!("{}.{key}", c.name),
            what,
        });
    }
    (values, unused)
}

/// What other tools call a parameter of ours, whose spelling may be nearer to that of another one.
const ELSEWHERE: [(&[&str], &str); 5] = [
    (&["cwnd", "initcwnd", "init_cwnd", "initial_window"], "iw"),
    (&["delack", "delayed_ack"], "ack_every"),
    (&["rwnd", "rcvbuf", "rcv_buf", "recv_buffer"], "rcv_wnd"),
    (&["sndbuf", "send_buffer"], "snd_buf"),
    (&["min_rto"], "rto_min"),
];

/// What is wrong with a key that no part of the composition has: another name was meant, or what
/// stands before it is no role, or not that of its part. Probes have the part's name there.
fn not_here(
    c: &Composition,
    specs: &[Specs],
    registry: &Registry,
    (key, text): (&str, &str),
) -> String {
    let name = bare(key);
    let lane = if c.name.starts_with("lane.") {
        "lane."
    } else {
        ""
    };
    match owners(specs, name)[..] {
        [] => {}
        [_] => return format!("a parameter is set by its name alone: write `{lane}{name}={text}`"),
        ref several => {
            let all = with_roles(specs, several, name);
            return format!("several parts have `{name}`; write one of {all}");
        }
    }
    let names = specs.iter().flat_map(|(_, s)| s.iter().map(|p| p.name));
    // A part may be named by its role at the same place, and a profile.
    let roles = Role::ALL.into_iter().map(Role::key);
    let names: Vec<&str> = names.chain(roles).chain(["profile"]).collect();
    let ours = ELSEWHERE.iter().find(|(theirs, _)| theirs.contains(&name));
    if let Some((_, ours)) = ours.filter(|(_, ours)| names.contains(ours)) {
        let question = names::asked(&format!("{lane}{ours}"));
        return format!("no parameter is called `{name}`; {question}");
    }
    let parts = c.lane.iter().flat_map(|lane| &lane.parts);
    let parts = parts.filter_map(|p| registry.parts().find(&p.name));
    let below = parts.flat_map(|d| d.params).map(|p| p.name);
    unknown_here("parameter", name, names, ("lane.", below))
}

/// A parameter of several parts, each time with the role that says whose it is.
fn with_roles(specs: &[Specs], owners: &[usize], name: &str) -> String {
    let all: Vec<String> = owners
        .iter()
        .map(|i| format!("{}.{name}", specs[*i].0))
        .collect();
    all.join(", ")
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
    let hint = names::hint(bare(key), names.map(|p| p.name));
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
