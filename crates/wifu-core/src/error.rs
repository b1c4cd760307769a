//! What may be wrong with what is configured.

/// What is wrong with a configuration, and what would be right.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);
