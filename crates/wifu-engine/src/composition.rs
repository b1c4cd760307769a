//! Compositions: text that names parts and parameters. Parsing has no effects; [`Blueprint`]
//! checks.
//!
//! [`Blueprint`]: crate::blueprint::Blueprint

use crate::descriptor::Role;
use core::fmt;
use std::collections::BTreeMap;
use toml::{Table, Value as Toml};
use wifu_wire::names::nearest;

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composition {
    /// Name.
    pub name: String,
    /// What it is.
    pub doc: String,
    /// IP protocol number; 0 if none was given.
    pub number: u8,
    /// Wire format.
    pub wire: String,
    /// The protocol whose packets it carries, for the lanes of hop protocols: the wire format is
    /// that protocol's.
    pub carries: Option<String>,
    /// Store.
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
}

/// Named protocols and profiles.
#[derive(Clone, Debug, Default)]
pub struct Library {
    protocols: BTreeMap<String, Table>,
    profiles: BTreeMap<String, Vec<(String, String)>>,
    order: Vec<String>,
}

const KEYS: [&str; 8] = [
    "extends", "doc", "number", "wire", "carries", "store", "profile", "set",
];

impl Library {
    /// Read `[protocol.NAME]` and `[profile.NAME]` tables.
    ///
    /// # Errors
    /// Bad TOML, or tables other than these.
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
                    return Err(ConfigError::one(path, "expected a table"));
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
                    _ => {
                        let what = "unknown section; write [protocol.NAME] or [profile.NAME]";
                        return Err(ConfigError::one(path, what));
                    }
                }
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
        self.protocols.extend(other.protocols);
        self.profiles.extend(other.profiles);
        self
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
        let mut words = spec.split(',').map(str::trim);
        let name = words.next().unwrap_or_default();
        let mut overrides = Vec::new();
        for word in words.filter(|w| !w.is_empty()) {
            let Some((key, value)) = word.split_once('=') else {
                let what = format!("\"{word}\" is no key=value; write e.g. {name},iw=4");
                return Err(ConfigError::one(spec, what));
            };
            overrides.push((key.trim().to_string(), value.trim().to_string()));
        }
        let mut c = self.expand_name(name, &mut Vec::new())?;
        self.apply(&mut c, overrides)?;
        c.parts.sort_by_key(|p| p.role);
        Ok(c)
    }

    /// `above`: what extends this, directly or not.
    fn expand_name<'a>(
        &'a self,
        name: &'a str,
        above: &mut Vec<&'a str>,
    ) -> Result<Composition, ConfigError> {
        let Some(table) = self.protocols.get(name) else {
            let known = nearest(name, self.order.iter().map(String::as_str));
            let hint = known.map_or(String::from("."), |k| format!("; did you mean {k}?"));
            let all = self.order.join(", ");
            let what = format!("no protocol of this name{hint} Known: {all}");
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
            Some(base) => self.expand_name(base.as_str().unwrap_or_default(), above)?,
            None => Composition {
                name: String::new(),
                doc: String::new(),
                number: 0,
                wire: String::from("tcp"),
                carries: None,
                store: String::from("octets"),
                profile: None,
                parts: Vec::new(),
                profile_params: Vec::new(),
                params: Vec::new(),
            },
        };
        c.name = name.to_string();
        for (key, value) in table {
            self.apply_key(&mut c, &path, key, value)?;
        }
        Ok(c)
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
            "carries" => c.carries = Some(text()?),
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
                    let hint = nearest(key, known)
                        .map_or(String::new(), |k| format!("; did you mean {k}?"));
                    let what = format!("unknown key{hint}");
                    return Err(ConfigError::one(at, what));
                }
            },
        }
        Ok(())
    }

    fn apply_profile(&self, c: &mut Composition, profile: &str) -> Result<(), ConfigError> {
        let Some(params) = self.profiles.get(profile) else {
            let names: Vec<&str> = self.profiles().collect();
            let what = format!("no profile \"{profile}\"; known: {}", names.join(", "));
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

/// `role = "part"`, `role = { use = "part", .. }`, a list of either, or `{ add = [..] }`.
fn set_role(c: &mut Composition, role: Role, at: &str, value: &Toml) -> Result<(), ConfigError> {
    let (list, keep) = match value {
        Toml::Table(t) if t.contains_key("add") => (&t["add"], true),
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
