//! Why a topology cannot be used, and what its author may have meant.

/// Why a topology cannot be used. The message is complete without the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// It is no TOML.
    #[error("{0}")]
    Syntax(String),
    /// A key is wrong.
    #[error("{path}: {what}")]
    Key {
        /// Where, as `table.key` or `array[index].key`.
        path: String,
        /// What is wrong with it, with the nearest valid name if it is a name.
        what: String,
    },
    /// The words that describe a topology are wrong.
    #[error("topology \"{words}\": {what}")]
    Words {
        /// All of them.
        words: String,
        /// What is wrong.
        what: String,
    },
    /// No testbed set has this name.
    #[error("no testbed set is called \"{name}\"{what}")]
    Set {
        /// What was asked for.
        name: String,
        /// The nearest one and all others.
        what: String,
    },
    /// No random placement satisfies what `accept` asks for.
    #[error("{0}")]
    Placement(String),
    /// An error in a file.
    #[error("{origin}: {error}")]
    In {
        /// The file.
        origin: String,
        /// What is wrong in it.
        error: Box<TopologyError>,
    },
}

impl TopologyError {
    pub(crate) fn key(path: impl Into<String>, what: impl Into<String>) -> TopologyError {
        TopologyError::Key {
            path: path.into(),
            what: what.into(),
        }
    }

    pub(crate) fn words(words: &str, what: impl Into<String>) -> TopologyError {
        TopologyError::Words {
            words: words.into(),
            what: what.into(),
        }
    }
}

/// Serde's complaint about an unknown name, with the nearest one in front of the list.
pub(super) fn suggest(complaint: &str) -> Option<String> {
    let mut quoted = complaint.split('`').skip(1).step_by(2);
    let unknown = quoted.next()?;
    let known: Vec<&str> = quoted.collect();
    if !complaint.starts_with("unknown") || known.is_empty() {
        return None;
    }
    let kind = match complaint.starts_with("unknown field") {
        true => "key",
        false => "name",
    };
    Some(format!(
        "no {kind} is called `{unknown}`{}; there are {}",
        did_you_mean(unknown, known.iter().copied()),
        known.join(", ")
    ))
}

/// `, did you mean x`, if there is a name near enough.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let lower = name.to_lowercase();
    let scored = known
        .into_iter()
        .map(|k| (strsim::damerau_levenshtein(&lower, &k.to_lowercase()), k));
    match scored.min_by_key(|(d, _)| *d) {
        Some((d, best)) if d <= 1 + best.len().max(name.len()) / 3 => {
            format!(", did you mean `{best}`")
        }
        _ => String::new(),
    }
}
