//! `wifu list`, `wifu describe` and `wifu check`: everything they print comes from the registry and
//! from the files of the testbed sets.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use serde_json::{Value as Json, json};
use wifu_engine::blueprint::ENGINE_PARAMS;
use wifu_engine::{Blueprint, ConfigError, Fact, Library, ParamSpec, Role};
use wifu_node::{Catalog as _, Protocol, Registry, Substrate};
use wifu_radio::sets;
use wifu_wire::names;

use crate::known::{self, Known};
use described::params_text;

mod annotations;
mod brought;
mod described;
mod facts;
mod formats;
mod handlers;
mod parts;
mod testbeds;

/// `wifu list`.
#[derive(Args)]
pub struct ListArgs {
    /// Only this kind: protocols, parts, handlers, formats, annotations, facts, profiles, sets, or
    /// a role such as judge or congestion
    #[arg(value_name = "KIND")]
    kind: Option<String>,
    #[command(flatten)]
    known: Known,
    /// For machines
    #[arg(long)]
    json: bool,
}

/// `wifu describe`.
#[derive(Args)]
pub struct DescribeArgs {
    /// A protocol (with parameters: tcp-newreno,iw=4), a part, a handler, a wire format, an
    /// annotation, a profile, or a testbed set; `format:atp` where two are called alike
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    known: Known,
    /// For machines
    #[arg(long)]
    json: bool,
}

/// `wifu check`.
#[derive(Args)]
#[command(after_help = "A composition file:\n\n  \
    [protocol.mine]\n  extends    = \"tcp-newreno\"\n  number     = 240\n  \
    judge      = { use = \"backlog\" }\n  gates.add  = [\"nagle\"]\n  set        = { iw = 4 }\n\n  \
    [handlers.mine]                  # at each node\n  \
    chain = [{ use = \"tpa-shim\", eta = 3 }]\n\n\
    Then: wifu check mine.toml; wifu sim --file mine.toml ... --flow n1:n3:mine")]
pub struct CheckArgs {
    /// The TOML file with [protocol.NAME], [handlers.NAME], [lane.NAME] and [profile.NAME] tables,
    /// or a protocol that is known
    #[arg(value_name = "FILE")]
    path: std::path::PathBuf,
    /// Refuse what cannot act there: sim, mock, emu or live
    #[arg(long, value_name = "SUBSTRATE")]
    substrate: Option<Substrate>,
    #[command(flatten)]
    known: Known,
    /// For machines
    #[arg(long)]
    json: bool,
}

/// The first sentence, without its full stop. A stop within a number or a name does not end it.
fn sentence(doc: &str) -> &str {
    doc.split_once(". ")
        .map_or(doc, |(first, _)| first)
        .trim_end_matches('.')
}

/// Print what there is.
///
/// # Errors
/// An unknown kind, or a bad file.
pub fn list(args: &ListArgs, registry: &Registry) -> anyhow::Result<ExitCode> {
    let registry = &args.known.with(registry)?;
    let kind = args.kind.as_deref();
    let roles: Vec<&str> = Role::ALL.into_iter().map(Role::key).collect();
    let known = [
        "protocols",
        "parts",
        "handlers",
        "formats",
        "annotations",
        "facts",
        "profiles",
        "sets",
    ]
    .into_iter()
    .chain(roles.iter().copied());
    if let Some(k) = kind
        && !known.clone().any(|n| n == k)
    {
        let hint = names::ending(k, known.clone());
        bail!(
            "no kind \"{k}\"{hint} Known: {}.",
            known.collect::<Vec<_>>().join(", ")
        );
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&all_json(registry)?)?);
        return Ok(ExitCode::SUCCESS);
    }
    list_text(registry, kind)?;
    if kind.is_none() {
        println!("\nMore: wifu describe NAME");
    }
    Ok(ExitCode::SUCCESS)
}

/// Everything, for machines.
fn all_json(registry: &Registry) -> anyhow::Result<Json> {
    let library = registry.library();
    let protocols = library.protocols().iter();
    let protocols: Vec<Json> = protocols
        .filter_map(|p| library.expand(p).ok())
        .map(|c| json!({"name": c.name, "doc": c.doc, "number": c.number, "profile": c.profile}))
        .collect();
    let parts = registry.parts().parts().iter();
    let parts: Vec<Json> = parts.map(|d| parts::json(d)).collect();
    let handlers = registry.kinds().handlers.iter();
    let handlers: Vec<Json> = handlers.map(|d| handlers::json(d)).collect();
    let formats: Vec<Json> = formats::all(registry).map(formats::json).collect();
    let notes: Vec<Json> = annotations::all(registry)
        .map(|n| annotations::json(registry, n))
        .collect();
    let facts: Vec<Json> = Fact::ALL.into_iter().map(facts::json).collect();
    let profiles: Vec<&str> = library.profiles().collect();
    let sets = testbeds::all()?;
    let sets: Vec<Json> = sets.iter().map(testbeds::Listed::json).collect();
    Ok(
        json!({"protocols": protocols, "parts": parts, "handlers": handlers,
        "formats": formats, "annotations": notes, "facts": facts, "profiles": profiles, "sets": sets}),
    )
}

/// What there is of one kind, or of all, for people.
fn list_text(registry: &Registry, kind: Option<&str>) -> anyhow::Result<()> {
    let library = registry.library();
    let wants = |what: &str| kind.is_none_or(|k| k == what);
    let row = |name: &str, doc: &str| println!("  {name:<18} {}", sentence(doc));
    if wants("protocols") {
        println!("Protocols:");
        for name in library.protocols() {
            let c = library.expand(name)?;
            let profile = c.profile.unwrap_or_default();
            println!("  {name:<16} {:>3}  {:<12} {}", c.number, profile, c.doc);
        }
    }
    for role in Role::ALL {
        let listed = wants("parts") || kind == Some(role.key());
        let parts = registry.parts().parts().iter();
        let parts: Vec<_> = parts.filter(|d| d.role == role).collect();
        if listed && !parts.is_empty() {
            println!("Parts, {}:", role.key());
            for d in parts {
                row(d.name, d.doc);
            }
        }
    }
    if wants("handlers") {
        println!("Handlers:");
        for d in registry.kinds().handlers.iter() {
            row(d.name, d.doc);
        }
    }
    if wants("formats") {
        println!("Formats:");
        for f in formats::all(registry) {
            row(f.name, f.doc);
        }
    }
    if wants("annotations") {
        println!("Annotations:");
        for n in annotations::all(registry) {
            row(n.name, n.doc);
        }
    }
    if wants("facts") {
        println!("Facts that parts and handlers may require, and where they are known:");
        for fact in Fact::ALL {
            println!("{}", facts::line(fact));
        }
    }
    if wants("profiles") {
        println!(
            "Profiles: {}",
            library.profiles().collect::<Vec<_>>().join(", ")
        );
    }
    if wants("sets") {
        println!(
            "Sets of `wifu sim` and `wifu emu`: models of testbeds, synthetic where the source \
             gives no number"
        );
        for set in testbeds::all()? {
            println!("{}", set.line());
        }
    }
    Ok(())
}

/// What the profile sets and no part takes, as a sentence without its full stop.
fn unused(b: &Blueprint) -> Option<String> {
    let profile = b.profile.as_deref().unwrap_or_default();
    let keys = b.unused.join(", ");
    (!keys.is_empty()).then(|| format!("profile {profile} sets {keys}, which nothing here takes"))
}

/// Say on standard error, once, what the profile of a protocol sets in vain.
pub fn note_unused<'a>(specs: impl IntoIterator<Item = &'a str>, registry: &Registry) {
    let mut said = Vec::new();
    for protocol in specs.into_iter().filter_map(|s| registry.resolve(s).ok()) {
        let note = unused(&protocol.ends).map(|what| format!("{}: {what}", protocol.ends.name));
        if let Some(note) = note.filter(|note| !said.contains(note)) {
            eprintln!("Note: {note}");
            said.push(note);
        }
    }
}

/// Say on standard error, once, which protocols have numbers that the simulator minds as little as
/// it looks at them, and daemons do.
pub fn note_numbers<'a>(specs: impl IntoIterator<Item = &'a str>, registry: &Registry) {
    let mut said = Vec::new();
    for protocol in specs.into_iter().filter_map(|s| registry.resolve(s).ok()) {
        let ends = &protocol.ends;
        let wrong = unique(ends, registry.library()).err();
        let wrong = wrong.and_then(|e| e.problems.into_iter().next().map(|p| p.what));
        let Some(what) = wrong.or_else(|| foreign(ends.number)) else {
            continue;
        };
        if !said.contains(&ends.name) {
            eprintln!("Note: {}: {what}; daemons (emu, live) need that", ends.name);
            said.push(ends.name.clone());
        }
    }
}

/// What series and `wifu ss --watch` may name.
fn recordable_text(b: &Blueprint) -> String {
    let mut t = String::from("\n  Can be recorded (`record.series`, `wifu ss --watch`):\n");
    for r in b.recordable() {
        let line = format!("    {:<16} {:<8} {}", r.name, r.unit, r.doc);
        let _ = writeln!(t, "{}", line.trim_end());
    }
    t
}

fn protocol_text(p: &Protocol) -> String {
    let b = &*p.ends;
    let profile = b.profile.as_deref().unwrap_or("none");
    let mut t = format!("{} (protocol)\n\n  {}\n\n", b.name, b.doc);
    let _ = writeln!(
        t,
        "  IP protocol {}, wire {}, store {}, profile {profile}, id {:08x}",
        b.number,
        b.wire.name(),
        b.store_kind().name(),
        b.id
    );
    let _ = writeln!(t, "  One event causes at most {} signals.", b.cascade);
    t += &brought::text(p);
    t += &facts::required_text(p);
    let preferences = b.parts.iter().flat_map(|part| part.desc.prefers);
    t.extend(preferences.map(parts::preference));
    if let Some(unused) = unused(b) {
        let _ = writeln!(t, "  Note: {unused}.");
    }
    for part in &b.parts {
        let _ = writeln!(t, "\n  {:<10} = {}", part.desc.role.key(), part.desc.name);
        let value = |p: &ParamSpec| {
            let found = part.values.iter().find(|v| v.0 == p.name);
            found.map_or(String::new(), |v| v.1.to_string())
        };
        t += &params_text(part.desc.params, value);
    }
    t += &recordable_text(b);
    t += "\n  The engine:\n";
    t += &params_text(ENGINE_PARAMS, |p| {
        b.value(p.name).map_or(String::new(), |v| v.to_string())
    });
    t
}

fn profile_text(name: &str, values: &[(String, String)]) -> String {
    let mut t = format!(
        "{name} (profile)\n\n  Values for parameters; a part takes those that it declares.\n  \
         Use it as in tcp-newreno,profile={name}\n\n"
    );
    let wide = values.iter().map(|(k, _)| k.len()).max().unwrap_or(0);
    for (key, value) in values {
        let _ = writeln!(t, "  {key:wide$}  {value}");
    }
    t
}

fn protocol_json(p: &Protocol) -> Json {
    let b = &*p.ends;
    let parts: Vec<Json> = b
        .parts
        .iter()
        .map(|p| {
            let values: serde_json::Map<String, Json> = p
                .values
                .iter()
                .map(|(n, v)| (n.to_string(), json!(v.to_string())))
                .collect();
            json!({"role": p.desc.role.key(), "part": p.desc.name, "params": values})
        })
        .collect();
    json!({
        "name": b.name, "doc": b.doc, "number": b.number, "wire": b.wire.name(),
        "store": b.store_kind().name(), "profile": b.profile, "unused": b.unused,
        "id": format!("{:08x}", b.id), "parts": parts, "brings": brought::json(p),
        "requires": facts::required_json(p),
        "prefers": b.parts.iter().flat_map(|part| part.desc.prefers)
            .map(|p| p.fact.name()).collect::<BTreeSet<_>>(),
        "recordable": b.recordable().iter()
            .map(|r| json!({"name": r.name, "unit": r.unit, "doc": r.doc}))
            .collect::<Vec<_>>(),
    })
}

/// Print all that is known of a name.
///
/// # Errors
/// Nothing has that name.
pub fn describe(args: &DescribeArgs, registry: &Registry) -> anyhow::Result<ExitCode> {
    let registry = &args.known.with(registry)?;
    let (kind, name) = kind_of(&args.name);
    let stem = name.split(',').next().unwrap_or_default();
    let Some((json, text)) = described(kind, name, stem, registry)? else {
        let library = registry.library();
        let parts = registry.parts().parts().names();
        let others: Vec<&str> = parts
            .chain(registry.kinds().handlers.names())
            .chain(formats::all(registry).map(|f| f.name))
            .chain(annotations::all(registry).map(|n| n.name))
            .chain(sets::names())
            .collect();
        let all = library.protocols().iter().map(String::as_str);
        let all = all.chain(others.iter().copied());
        let all: Vec<&str> = all.chain(library.profiles()).collect();
        let begun: Vec<&str> = all
            .iter()
            .copied()
            .filter(|n| n.starts_with(stem))
            .collect();
        let hint = match begun.as_slice() {
            // Several forms of one protocol have no name together.
            [_, _, ..] if stem.len() > 2 => format!("; so begin {}.", begun.join(", ")),
            _ => names::ending(stem, all),
        };
        bail!("nothing is called \"{stem}\"{hint} `wifu list` shows all names.");
    };
    described::bare(kind, (name, stem), registry)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&json)?);
    } else {
        print!("{text}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Kinds of what may be called alike, such as the format `atp` of the protocol `atp`.
const KINDS: [&str; 4] = ["protocol", "part", "handler", "format"];

/// `format:atp` is of a kind, `atp` of the first that has it.
fn kind_of(word: &str) -> (Option<&str>, &str) {
    match word.split_once(':') {
        Some((kind, name)) if KINDS.contains(&kind) => (Some(kind), name),
        _ => (None, word),
    }
}

/// What is known of the name `stem`, which may begin the specification of a protocol: for machines
/// and for people.
fn described(
    kind: Option<&str>,
    spec: &str,
    stem: &str,
    registry: &Registry,
) -> anyhow::Result<Option<(Json, String)>> {
    let library = registry.library();
    let asked = |of: &str| kind.is_none_or(|k| k == of);
    let format = formats::all(registry).find(|f| f.name == stem);
    if asked("protocol") && library.protocols().iter().any(|p| p == stem) {
        let p = registry.resolve(spec)?;
        let mut text = protocol_text(&p);
        if format.is_some() {
            text += &format!("\nIts format is called so, too: wifu describe format:{stem}\n");
        }
        return Ok(Some((protocol_json(&p), text)));
    }
    if let Some(d) = registry
        .parts()
        .parts()
        .find(stem)
        .filter(|_| asked("part"))
    {
        return Ok(Some((parts::json(d), parts::text(d))));
    }
    let handler = registry.kinds().handlers.find(stem);
    if let Some(d) = handler.filter(|_| asked("handler")) {
        return Ok(Some((handlers::json(d), handlers::text(d))));
    }
    if let Some(f) = format.filter(|_| asked("format")) {
        return Ok(Some((formats::json(f), formats::text(f))));
    }
    if kind.is_some() {
        return Ok(None);
    }
    if let Some(n) = annotations::all(registry).find(|n| n.name == stem) {
        let (json, text) = (
            annotations::json(registry, n),
            annotations::text(registry, n),
        );
        return Ok(Some((json, text)));
    }
    if let Some(values) = library.profile(stem) {
        let params: serde_json::Map<String, Json> =
            values.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
        let profile = json!({"name": stem, "params": params});
        return Ok(Some((profile, profile_text(stem, values))));
    }
    match sets::text(stem) {
        Some(text) => {
            let set = serde_json::to_value(sets::get(spec)?)?;
            Ok(Some((set, text.to_string())))
        }
        None => Ok(None),
    }
}

/// Whether a word that names nothing that there is was meant for a file; else it is told which
/// protocol it could have been.
fn is_path(word: &str) -> bool {
    word.contains('/') || word.ends_with(".toml")
}

/// Check every protocol of a file.
///
/// # Errors
/// The file can't be read or is no composition file.
pub fn check(args: &CheckArgs, registry: &Registry) -> anyhow::Result<ExitCode> {
    let built_in = registry;
    let mut registry = args.known.with(registry)?;
    let (mut names, mut replaced) = (Vec::new(), Vec::new());
    let word = args.path.to_str().filter(|_| !args.path.exists());
    match word.filter(|w| !is_path(w) || registry.resolve(w).is_ok()) {
        Some(spec) => names.push(spec.to_string()),
        None => {
            let own = known::read(&args.path)?;
            names.extend_from_slice(own.protocols());
            let others = registry.library().replaced(&own).into_iter();
            replaced.extend(others.map(str::to_string));
            registry = registry.with_library(own);
        }
    }
    if names.is_empty() {
        bail!("{} has no [protocol.NAME] table", args.path.display());
    }
    let (mut reports, mut bad) = (Vec::new(), false);
    let file = args
        .path
        .exists()
        .then(|| format!("{}: ", args.path.display()));
    let file = file.unwrap_or_default();
    for name in &names {
        match checked(name, args.substrate, &registry) {
            Ok((b, unnoticed, without)) => {
                let id = format!("{:08x}", b.id);
                let replaces = replaced.contains(name);
                if !args.json {
                    let place = match replaces {
                        true => format!("; {}", known::replaces(name, built_in)),
                        false => String::new(),
                    };
                    let notes = notes(&b, unnoticed.as_deref(), args.substrate.is_none());
                    println!("{name}: ok, id {id}{place}{notes}");
                    for said in &without {
                        println!("  {said}");
                    }
                }
                reports.push(json!({
                    "protocol": name, "ok": true, "id": id, "unused": b.unused,
                    "relays_noticed": unnoticed.is_none(), "goes_without": without,
                    "replaces": replaces,
                }));
            }
            Err(e) => {
                bad = true;
                let problems: Vec<Json> = e
                    .problems
                    .iter()
                    .map(|p| json!({"key": p.key, "problem": p.what}))
                    .collect();
                reports.push(json!({"protocol": name, "ok": false, "problems": problems}));
                for p in e.problems.iter().filter(|_| !args.json) {
                    eprintln!("{file}{}: {}{}", p.key, p.what, known::brought(&p.what));
                }
            }
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&reports)?);
    }
    Ok(if bad {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// A composition, what is to be said of relays that do not serve it, and what it goes without.
type Checked = (std::sync::Arc<Blueprint>, Option<String>, Vec<String>);

fn checked(
    name: &str,
    substrate: Option<Substrate>,
    registry: &Registry,
) -> Result<Checked, ConfigError> {
    let p = match substrate {
        Some(substrate) => registry.resolve_on(name, substrate),
        None => registry.resolve(name),
    }?;
    if matches!(substrate, Some(Substrate::Live | Substrate::Emu)) {
        let key = format!("protocol.{name}.number");
        let taken = wifu_linux::raw::check_number(p.ends.number);
        taken.map_err(|what| ConfigError::one(&key, what))?;
    }
    let note = brought::unnoticed(&p);
    let without = substrate.map(|on| p.goes_without_on(on));
    unique(&p.ends, registry.library()).map(|b| (b, note, without.unwrap_or_default()))
}

/// What goes behind the words that a composition is well; `anywhere`: nobody said on what
/// substrate.
fn notes(b: &Blueprint, unnoticed: Option<&str>, anywhere: bool) -> String {
    let notes = unused(b).into_iter().chain(unnoticed.map(str::to_string));
    let warned = foreign(b.number).filter(|_| anywhere);
    notes
        .chain(warned.map(|why| format!("warning: {why}")))
        .map(|note| format!("; {note}"))
        .collect()
}

/// What to say of a number that is another protocol's on every host; a TUN device may have TCP's.
fn foreign(number: u8) -> Option<String> {
    let why = match wifu_linux::raw::check_number(number) {
        Err(why) => why,
        Ok(()) if number < 143 => format!(
            "IP protocol number {number} is assigned to another protocol; 143 to 252 are unassigned"
        ),
        Ok(()) => return None,
    };
    Some(why)
}

/// Live, a protocol is known by its IP protocol number: two must not share one.
fn unique(
    b: &std::sync::Arc<Blueprint>,
    all: &Library,
) -> Result<std::sync::Arc<Blueprint>, wifu_engine::ConfigError> {
    let others = all.protocols().iter().filter(|n| **n != b.name);
    for other in others.filter_map(|n| all.expand(n).ok()) {
        if other.number == b.number {
            let what = format!(
                "IP protocol {} is that of {}, and of what extends it without a number of its own: \
                 give `number = N` (143 to 252 are unassigned)",
                b.number, other.name
            );
            return Err(wifu_engine::ConfigError::one(
                format!("protocol.{}.number", b.name),
                what,
            ));
        }
    }
    Ok(std::sync::Arc::clone(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_with_the_first_sentence() {
        assert_eq!(
            sentence("Holds: this, by 3.5. And more."),
            "Holds: this, by 3.5"
        );
        assert_eq!(sentence("Only one."), "Only one");
    }

    #[test]
    fn what_a_profile_sets_in_vain_is_said() {
        let b = |spec: &str| crate::standard().resolve(spec).unwrap();
        let said = "  Note: profile rfc-modern sets hystart, which nothing here takes.\n";
        let tahoe = b("tcp-tahoe,profile=rfc-modern");
        assert!(protocol_text(&tahoe).contains(said));
        assert_eq!(protocol_json(&tahoe)["unused"], json!(["hystart"]));
        assert_eq!(unused(&b("tcp-reno,profile=rfc-modern").ends), None);
    }

    #[test]
    fn errors_end_before_the_next_sentence_begins() {
        let unknown = |name: &str| {
            let args = DescribeArgs {
                name: name.into(),
                known: Known::default(),
                json: false,
            };
            describe(&args, &crate::standard()).unwrap_err().to_string()
        };
        assert!(unknown("nopenopenope").contains("\"nopenopenope\". `wifu list` shows"));
        for name in [
            "newreno,foo",
            "newreno,cwv=on",
            "part:newreno,cwv=on",
            "drop,p=0.1",
        ] {
            assert!(unknown(name).contains(": only a protocol takes parameters"));
        }
        assert!(unknown("tcp-newreno,foo").contains("is no key=value"));
        assert!(unknown("tcp-ren").contains("did you mean `tcp-reno`? `wifu list` shows"));
    }
}
