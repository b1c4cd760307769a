//! Nodes that split connections which pass them.

use super::{ScenarioError, Secs};
use serde::{Deserialize, Serialize};

/// Nodes that answer the openers of TCP connections which pass them, open a second connection to
/// the one that was meant, in the opener's name, and move octets between the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitSpec {
    /// At these nodes.
    pub nodes: Vec<String>,
    /// What the half with the opener runs; what flows run if they all run the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near: Option<String>,
    /// What the half with the one that was meant runs; the same as `near` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far: Option<String>,
    /// Then they forget all connections, as if they had crashed and were started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<Secs>,
}

impl SplitSpec {
    pub(super) fn check(&self, path: &str) -> Result<(), ScenarioError> {
        match self.nodes.is_empty() {
            true => Err(ScenarioError::key(
                format!("{path}.nodes"),
                "no node is named: write nodes = [\"n4\"]",
            )),
            false => Ok(()),
        }
    }
}
