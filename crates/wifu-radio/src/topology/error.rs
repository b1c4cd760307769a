//! Why a topology cannot be used, and what its author may have meant.

use wifu_wire::names;

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
        /// Where, as `table.key` or `array.1.key`, counted from 1.
        path: String,
        /// What is wrong with it, with the nearest valid name if it is a name.
        what: String,
    },
    /// No key is called so.
    #[error("{path}: {}", names::unknown("key", name, known.iter().map(String::as_str)))]
    Unknown {
        /// Where, as of [`TopologyError::Key`].
        path: String,
        /// What it is called.
        name: String,
        /// The keys that there are.
        known: Vec<String>,
    },
    /// The words that describe a topology are wrong.
    #[error("topology \"{words}\": {what}")]
    Words {
        /// All of them.
        words: String,
        /// What is wrong.
        what: String,
    },
    /// No testbed set has the name that was asked for: the nearest one, and all.
    #[error("{0}")]
    Set(String),
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
            path: names::counted(&path.into()),
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

/// Serde's complaint about what is at a path. Keys of the outermost table that serde does not know,
/// since they are taken out before it, are `taken`.
pub(super) fn complain(path: &str, complaint: &str, taken: &[&str]) -> TopologyError {
    let mut quoted = complaint.split('`').skip(1).step_by(2);
    let unknown = quoted.next().filter(|_| complaint.starts_with("unknown"));
    let mut known: Vec<&str> = quoted.collect();
    match unknown {
        Some(name) if complaint.starts_with("unknown field") => {
            if path == name {
                known.splice(0..0, taken.iter().copied());
            }
            TopologyError::Unknown {
                path: names::counted(path),
                name: name.to_string(),
                known: known.into_iter().map(String::from).collect(),
            }
        }
        Some(name) if !known.is_empty() => {
            TopologyError::key(path, names::unknown("name", name, known))
        }
        _ => TopologyError::key(path, complaint),
    }
}
