//! Compositions: text that names parts and parameters. Parsing has no effects; [`Blueprint`]
//! checks.
//!
//! [`Blueprint`]: crate::blueprint::Blueprint

use crate::descriptor::Role;
use core::fmt;
use std::collections::BTreeMap;
use toml::{Table, Value as Toml};
use wifu_wire::names;

/// One thing wrong with a composition: where, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the offending key, e.g. `protocol.mine.reliable`.
    pub key: String,
    /// What is wrong, complete without the source.
    pub what: String,
}

/// Everything wrong with a composition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// At least one.
    pub problems: Vec<Problem>,
}

impl ConfigError {
    /// An error with one problem.
    pub fn one(key: impl Into<String>, what: impl Into<String>) -> ConfigError {
        ConfigError {
            problems: vec![Problem {
                key: key.into(),
                what: what.into(),
            }],
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, p) in self.problems.iter().enumerate() {
            let newline = if i == 0 { "" } else { "\n" };
            write!(f, "{newline}{}: {}", p.key, p.what)?;
        }
        Ok(())
    }
}

impl core::error::Error for ConfigError {}

/// A part in a composition: its name and the parameters written beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartRef {
    /// Role it fills.
    pub role: Role,
    /// Registry name.
    pub name: String,
    /// `key = value`, unresolved.
    pub params: Vec<(String, String)>,
}

/// A composition, expanded (no `extends` left) but unchecked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Composition {
    /// What users write for it: the `NAME` of `[protocol.NAME]`.
    pub name: String,
    /// What it is.
    pub doc: String,
    /// IP protocol number; 0 if none was given.
    pub number: u8,
    /// Wire format.
    pub wire: String,
    /// Where data waits: `octets` or `packets`.
    pub store: String,
    /// Profile whose values were used, if any.
    pub profile: Option<String>,
    /// Parts, in role order and then as listed.
    pub parts: Vec<PartRef>,
    /// Parameters that the profile sets. Profiles are shared: those that some part of the registry
    /// declares, but none of this composition, are named in `Blueprint::unused`.
    pub profile_params: Vec<(String, String)>,
    /// Parameters set for the whole composition: those that no part declares are errors.
    pub params: Vec<(String, String)>,
    /// Handlers that it brings along, installed wherever it is served: a table each, of which the
    /// engine knows nothing but that it is one.
    pub handlers: Vec<Table>,
    /// What runs between hops: one connection per flow and direction at each sending node, over
    /// the packets of this composition.
    pub lane: Option<Box<Composition>>,
}

/// Named protocols and profiles.
#[derive(Clone, Debug, Default)]
pub struct Library {
    protocols: BTreeMap<String, Table>,
    profiles: BTreeMap<String, Vec<(String, String)>>,
    order: Vec<String>,
    /// By the name of the protocol that brings them.
    handlers: BTreeMap<String, Vec<Table>>,
    lanes: BTreeMap<String, Table>,
}

const KEYS: [&str; 7] = [
    "extends", "doc", "number", "wire", "store", "profile", "set",
];

type Settings = Vec<(String, String)>;

/// Whether a setting leaves nothing of an earlier one: it has the same key, or the same without the
/// part that the earlier one named (`iw` after `congestion.iw`; the other way round that is an
/// exception). What is added, is beside what was.
fn undoes((key, value): (&str, &str), (former, before): (&str, &str)) -> bool {
    let bare = former.rsplit_once('.').filter(|(of, _)| *of != "lane");
    let whole = bare.is_some_and(|(_, bare)| bare == key);
    let adds = key.ends_with(".add") && value != before;
    whole || former == key && !adds
}

/// What tables of a library are of.
const SECTIONS: [&str; 4] = ["protocol", "profile", "handlers", "lane"];

/// Name and settings of a specification.
fn words(spec: &str) -> Result<(&str, Settings), ConfigError> {
    let mut words = spec.split(',').map(str::trim);
    let name = words.next().unwrap_or_default();
    let mut settings = Settings::new();
    for word in words.filter(|w| !w.is_empty()) {
        let Some((key, value)) = word.split_once('=') else {
            let what = format!("\"{word}\" is no key=value; write e.g. {name},iw=4");
            return Err(ConfigError::one(spec, what));
        };
        let (key, value) = (key.trim(), value.trim());
        let before = settings.iter().find(|(k, v)| undoes((key, value), (k, v)));
        if let Some((former, before)) = before {
            let alias = match former == key {
                true => String::new(),
                false => format!(" as {former}"),
            };
            let what = format!("{key} is set twice, to {before}{alias} and to {value}");
            return Err(ConfigError::one(spec, what));
        }
        settings.push((key.to_string(), value.to_string()));
    }
    Ok((name, settings))
}

impl Library {
    /// Read `[protocol.NAME]`, `[handlers.NAME]`, `[lane.NAME]` and `[profile.NAME]` tables.
    ///
    /// # Errors
    /// Bad TOML, tables other than these, and handlers or a lane of no protocol.
    pub fn parse(text: &str) -> Result<Library, ConfigError> {
        let table: Table = text
            .parse()
            .map_err(|e: toml::de::Error| ConfigError::one("TOML", e.to_string()))?;
        let mut library = Library::default();
        for (section, value) in &table {
            let Toml::Table(entries) = value else {
                return Err(ConfigError::one(
                    section,
                    "expected a table [protocol.NAME]",
                ));
            };
            for (name, body) in entries {
                let path = format!("{section}.{name}");
                let Toml::Table(body) = body else {
                    let what = match SECTIONS.contains(&section.as_str()) {
                        true => String::from("expected a table"),
                        false => format!(
                            "expected a table: if [{section}] is a protocol, write \
                             [protocol.{section}]"
                        ),
                    };
                    return Err(ConfigError::one(path, what));
                };
                match section.as_str() {
                    "protocol" => {
                        library.protocols.insert(name.clone(), body.clone());
                        library.order.push(name.clone());
                    }
                    "profile" => {
                        let params = params_of(body, &path)?;
                        library.profiles.insert(name.clone(), params);
                    }
                    "handlers" => {
                        let chain = chain_of(body, &path)?;
                        library.handlers.insert(name.clone(), chain);
                    }
                    "lane" => {
                        library.lanes.insert(name.clone(), body.clone());
                    }
                    _ => {
                        let what = "unknown section; write [protocol.NAME], [handlers.NAME], \
                                    [lane.NAME] or [profile.NAME]";
                        return Err(ConfigError::one(path, what));
                    }
                }
            }
        }
        for (section, names) in [
            ("handlers", library.handlers.keys().collect::<Vec<_>>()),
            ("lane", library.lanes.keys().collect()),
        ] {
            if let Some(name) = names
                .into_iter()
                .find(|n| !library.protocols.contains_key(*n))
            {
                let what = format!("there is no [protocol.{name}] whose ends it could be for");
                return Err(ConfigError::one(format!("{section}.{name}"), what));
            }
        }
        Ok(library)
    }

    /// Both libraries; `other` replaces what has the same name.
    #[must_use]
    pub fn merge(mut self, other: Library) -> Library {
        for name in other.order {
            if !self.order.contains(&name) {
                self.order.push(name);
            }
        }
        // One that takes another's place brings its own along, or nothing.
        for name in other.protocols.keys() {
            self.handlers.remove(name);
            self.lanes.remove(name);
        }
        self.handlers.extend(other.handlers);
        self.lanes.extend(other.lanes);
        self.protocols.extend(other.protocols);
        self.profiles.extend(other.profiles);
        self
    }

    /// The protocols of `other` whose place [`Library::merge`] gives them is that of another one.
    pub fn replaced<'a>(&self, other: &'a Library) -> Vec<&'a str> {
        let whole = |of: &Library, name: &str| {
            let own = of.protocols.get(name).cloned();
            let beside = (of.handlers.get(name).cloned(), of.lanes.get(name).cloned());
            own.map(|own| (own, beside))
        };
        let differs =
            |name: &&str| whole(self, name).is_some_and(|w| Some(w) != whole(other, name));
        let names = other.order.iter().map(String::as_str);
        names.filter(differs).collect()
    }

    /// A text from which [`Library::parse`] reads the same again, in order of names.
    pub fn to_toml(&self) -> String {
        let text = |(key, value): &(String, String)| (key.clone(), Toml::String(value.clone()));
        let values = |params: &[(String, String)]| Toml::Table(params.iter().map(text).collect());
        let profiles = self.profiles.iter();
        let profiles = profiles.map(|(name, params)| (name.clone(), values(params)));
        let chain = |all: &[Table]| {
            let all = all.iter().cloned().map(Toml::Table).collect();
            Toml::Table(
                [(String::from("chain"), Toml::Array(all))]
                    .into_iter()
                    .collect(),
            )
        };
        let handlers = self.handlers.iter();
        let handlers = handlers.map(|(name, all)| (name.clone(), chain(all)));
        let whole = |(name, table): (&String, &Table)| (name.clone(), Toml::Table(table.clone()));
        let sections = [
            ("protocol", self.protocols.iter().map(whole).collect()),
            ("handlers", handlers.collect()),
            ("lane", self.lanes.iter().map(whole).collect()),
            ("profile", profiles.collect()),
        ];
        let sections = sections.map(|(name, all)| (name.to_string(), Toml::Table(all)));
        sections.into_iter().collect::<Table>().to_string()
    }

    /// Names of the protocols, in the order of the text.
    pub fn protocols(&self) -> &[String] {
        &self.order
    }

    /// Names of the profiles.
    pub fn profiles(&self) -> impl Iterator<Item = &str> {
        self.profiles.keys().map(String::as_str)
    }

    /// What a profile sets.
    pub fn profile(&self, name: &str) -> Option<&[(String, String)]> {
        self.profiles.get(name).map(Vec::as_slice)
    }

    /// Expand a specification: a protocol's name, then `,key=value` as often as wanted. A key is
    /// `profile`, a role (`judge=backlog`, `gates.add=nagle`) or a parameter (`iw=4`,
    /// `congestion.cwv=on`).
    ///
    /// # Errors
    /// Unknown names, with the nearest known one.
    pub fn expand(&self, spec: &str) -> Result<Composition, ConfigError> {
        let (name, overrides) = words(spec)?;
        let mut c = self.expand_name(name, &mut Vec::new())?;
        let (of_lane, own) = overrides
            .into_iter()
            .partition(|(key, _): &(String, String)| key.starts_with("lane."));
        self.apply(&mut c, own)?;
        c.parts.sort_by_key(|p| p.role);
        if let Some(lane) = &mut c.lane {
            let bare = |(key, value): (String, String)| (key["lane.".len()..].to_string(), value);
            self.apply(lane, of_lane.into_iter().map(bare).collect())?;
            lane.parts.sort_by_key(|p| p.role);
        } else if let Some((key, _)) = of_lane.first() {
            let what = format!("{name} has no lane");
            return Err(ConfigError::one(format!("{name}.{key}"), what));
        }
        Ok(c)
    }

    /// `above`: what extends this, directly or not.
    fn expand_name<'a>(
        &'a self,
        name: &'a str,
        above: &mut Vec<&'a str>,
    ) -> Result<Composition, ConfigError> {
        let Some(table) = self.protocols.get(name) else {
            let hint = names::ending(name, self.order.iter().map(String::as_str));
            let all = self.order.join(", ");
            let what = match name.strip_prefix("kernel:") {
                Some(_) => format!(
                    "this is a kernel's own, which runs under `wifu emu` and in plans of the lab on \
                     emu and live; tcp-linux-reno and tcp-linux are models of it. Known: {all}"
                ),
                None => format!("no protocol of this name{hint} Known: {all}"),
            };
            return Err(ConfigError::one(format!("protocol \"{name}\""), what));
        };
        let path = format!("protocol.{name}");
        if let Some(first) = above.iter().position(|n| *n == name) {
            let circle = above[first..].join(" extends ");
            let what = format!(
                "{circle} extends {name}. A protocol that takes over a known name takes its place \
                 in all that extend it: give it another name"
            );
            return Err(ConfigError::one(path, what));
        }
        above.push(name);
        let mut c = match table.get("extends") {
            Some(base) => {
                let at = format!("{path}.extends");
                let base = base.as_str();
                let base =
                    base.ok_or_else(|| ConfigError::one(at, "expected a protocol's name"))?;
                self.expand_name(base, above)?
            }
            None => Composition {
                wire: String::from("tcp"),
                store: String::from("octets"),
                ..Composition::default()
            },
        };
        c.name = name.to_string();
        for (key, value) in table {
            self.apply_key(&mut c, &path, key, value)?;
        }
        if let Some(chain) = self.handlers.get(name) {
            c.handlers.clone_from(chain);
        }
        if let Some(table) = self.lanes.get(name) {
            c.lane = Some(Box::new(self.expand_lane(
                name,
                table,
                c.lane.take(),
                &c.wire,
            )?));
        }
        Ok(c)
    }

    /// The lane of a protocol: its own keys over those of the lane that it inherits.
    fn expand_lane(
        &self,
        name: &str,
        table: &Table,
        inherited: Option<Box<Composition>>,
        wire: &str,
    ) -> Result<Composition, ConfigError> {
        let path = format!("lane.{name}");
        let mut lane = inherited.map_or_else(
            || Composition {
                store: String::from("packets"),
                ..Composition::default()
            },
            |lane| *lane,
        );
        lane.name = path.clone();
        for (key, value) in table {
            match (key.as_str(), value.as_str()) {
                ("wire", Some(own)) if own == wire => {}
                ("wire" | "extends" | "number" | "store", _) => {
                    let what = "a lane has the packets of its protocol: it has no such key";
                    return Err(ConfigError::one(format!("{path}.{key}"), what));
                }
                _ => self.apply_key(&mut lane, &path, key, value)?,
            }
        }
        lane.wire = wire.to_string();
        Ok(lane)
    }

    fn apply_key(
        &self,
        c: &mut Composition,
        path: &str,
        key: &str,
        value: &Toml,
    ) -> Result<(), ConfigError> {
        let at = format!("{path}.{key}");
        let text = || match value.as_str() {
            Some(s) => Ok(s.to_string()),
            None => Err(ConfigError::one(&at, "expected a text")),
        };
        match key {
            "extends" => {}
            "doc" => c.doc = text()?,
            "wire" => c.wire = text()?,
            "store" => c.store = text()?,
            "number" => {
                let n = value.as_integer().and_then(|n| u8::try_from(n).ok());
                c.number =
                    n.ok_or_else(|| ConfigError::one(&at, "expected a number from 0 to 255"))?;
            }
            "profile" => self.apply_profile(c, &text()?)?,
            "set" => match value {
                Toml::Table(t) => c.params.extend(params_of(t, &at)?),
                _ => return Err(ConfigError::one(&at, "expected a table of parameters")),
            },
            _ => match Role::ALL.into_iter().find(|r| r.key() == key) {
                Some(role) => set_role(c, role, &at, value)?,
                None => {
                    let known = KEYS.into_iter().chain(Role::ALL.map(Role::key));
                    let what = match names::hint(key, known) {
                        near if near.is_empty() => {
                            format!("unknown key; a parameter is `set = {{ {key} = .. }}`")
                        }
                        near => format!("unknown key{near}"),
                    };
                    return Err(ConfigError::one(at, what));
                }
            },
        }
        Ok(())
    }

    fn apply_profile(&self, c: &mut Composition, profile: &str) -> Result<(), ConfigError> {
        let Some(params) = self.profiles.get(profile) else {
            let what = names::unknown("profile", profile, self.profiles());
            return Err(ConfigError::one("profile", what));
        };
        c.profile = Some(profile.to_string());
        c.profile_params.clone_from(params);
        Ok(())
    }

    fn apply(
        &self,
        c: &mut Composition,
        overrides: Vec<(String, String)>,
    ) -> Result<(), ConfigError> {
        for (key, value) in overrides {
            let (stem, add) = match key.strip_suffix(".add") {
                Some(stem) => (stem, true),
                None => (key.as_str(), false),
            };
            let role = Role::ALL.into_iter().find(|r| r.key() == stem);
            match (key.as_str(), role) {
                ("profile", _) => self.apply_profile(c, &value)?,
                (_, Some(role)) => {
                    if !add {
                        c.parts.retain(|p| p.role != role);
                    }
                    c.parts.push(PartRef {
                        role,
                        name: value,
                        params: Vec::new(),
                    });
                }
                _ => c.params.push((key, value)),
            }
        }
        Ok(())
    }
}

/// `chain = ["name", { use = "name", .. }]`.
fn chain_of(body: &Table, path: &str) -> Result<Vec<Table>, ConfigError> {
    let wrong = |at: &str| {
        let what = "write chain = [{ use = \"name\", hooks = [..] }]";
        ConfigError::one(format!("{path}.{at}"), what)
    };
    if let Some(key) = body.keys().find(|k| *k != "chain") {
        return Err(wrong(key));
    }
    let Some(Toml::Array(items)) = body.get("chain") else {
        return Err(wrong("chain"));
    };
    let one = |item: &Toml| match item {
        Toml::String(name) => {
            let mut named = Table::new();
            named.insert("use".to_string(), Toml::String(name.clone()));
            Ok(named)
        }
        Toml::Table(t) if t.get("use").is_some_and(Toml::is_str) => Ok(t.clone()),
        _ => Err(wrong("chain")),
    };
    items.iter().map(one).collect()
}

/// `role = "part"`, `role = { use = "part", .. }`, a list of either, or `{ add = [..] }`.
fn set_role(c: &mut Composition, role: Role, at: &str, value: &Toml) -> Result<(), ConfigError> {
    let (list, keep) = match value {
        Toml::Table(t) if t.contains_key("add") || !t.contains_key("use") => {
            if let Some(other) = t.keys().find(|k| *k != "add") {
                let what = "unknown key; write { add = [..] } or { use = \"name\", .. }";
                return Err(ConfigError::one(format!("{at}.{other}"), what));
            }
            let what = "no part is named; write { add = [..] } or { use = \"name\", .. }";
            let add = t.get("add");
            (add.ok_or_else(|| ConfigError::one(at, what))?, true)
        }
        other => (other, false),
    };
    if !keep {
        c.parts.retain(|p| p.role != role);
    }
    let single = [list.clone()];
    let items = match list {
        Toml::Array(items) => items.as_slice(),
        _ => &single,
    };
    for item in items {
        let part = match item {
            Toml::String(name) => PartRef {
                role,
                name: name.clone(),
                params: Vec::new(),
            },
            Toml::Table(t) => {
                let Some(name) = t.get("use").and_then(Toml::as_str) else {
                    return Err(ConfigError::one(
                        at,
                        "a part is written { use = \"name\", .. }",
                    ));
                };
                let mut rest = t.clone();
                rest.remove("use");
                PartRef {
                    role,
                    name: name.to_string(),
                    params: params_of(&rest, at)?,
                }
            }
            _ => return Err(ConfigError::one(at, "expected a part's name")),
        };
        c.parts.push(part);
    }
    Ok(())
}

/// The text of a parameter's value as it stands in TOML; `None` for tables, lists and dates.
pub fn text_of(value: &Toml) -> Option<String> {
    match value {
        Toml::String(s) => Some(s.clone()),
        Toml::Integer(n) => Some(n.to_string()),
        Toml::Float(x) => Some(x.to_string()),
        Toml::Boolean(on) => Some(String::from(if *on { "on" } else { "off" })),
        _ => None,
    }
}

fn params_of(table: &Table, path: &str) -> Result<Vec<(String, String)>, ConfigError> {
    let one = |(key, value): (&String, &Toml)| match text_of(value) {
        Some(text) => Ok((key.clone(), text)),
        None => {
            let what = "expected a text, number or boolean";
            Err(ConfigError::one(format!("{path}.{key}"), what))
        }
    };
    table.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_made_twice_is_an_error_and_one_that_adds_is_not() {
        for (settings, twice) in [
            ("iw=1,iw=20", "iw is set twice, to 1 and to 20"),
            ("iw=1, iw = 1", "iw is set twice, to 1 and to 1"),
            ("judge=a,judge=b", "judge is set twice, to a and to b"),
            (
                "gates.add=a,gates.add=a",
                "gates.add is set twice, to a and to a",
            ),
            (
                "congestion.iw=1,iw=20",
                "iw is set twice, to 1 as congestion.iw and to 20",
            ),
        ] {
            let why = words(&format!("p,{settings}")).unwrap_err().to_string();
            assert!(why.contains(twice), "{settings}: {why}");
        }
        for settings in [
            "iw=1,congestion.iw=20",
            "gates.add=a,gates.add=b",
            "lane.iw=1,iw=20",
            "iw=1,lane.iw=20",
        ] {
            let spec = format!("p,{settings}");
            let both = words(&spec).map(|(name, both)| (name, both.len()));
            assert!(matches!(both, Ok(("p", 2))), "{settings}");
        }
    }

    #[test]
    fn a_protocol_without_its_section_is_told_where_it_stands() {
        let said = |text: &str| Library::parse(text).unwrap_err().to_string();
        let bare = said("[mine]\nextends = \"tcp-sack\"\n");
        assert!(bare.starts_with("mine.extends: expected a table"), "{bare}");
        assert!(bare.ends_with("write [protocol.mine]"), "{bare}");
        let known = said("[protocol]\nextends = \"tcp-sack\"\n");
        assert_eq!(known, "protocol.extends: expected a table");
    }
}
