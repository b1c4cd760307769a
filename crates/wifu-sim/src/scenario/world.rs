//! What changes by itself: nodes that move, links that are cut and restored.

use super::{ScenarioError, Secs};
use serde::{Deserialize, Serialize};

/// How a node moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "lowercase")]
pub enum MobilitySpec {
    /// Random waypoint: to a uniform point of the area, at a uniform speed, then a pause.
    Waypoint {
        /// Names of the nodes; all if empty.
        #[serde(default)]
        nodes: Vec<String>,
        /// `[x0, y0, x1, y1]`, metres.
        area: [f64; 4],
        /// Least and greatest speed, metres per second; both above zero.
        speed: [f64; 2],
        /// At each point.
        #[serde(default)]
        pause: Secs,
    },
    /// Straight lines between known places.
    Trace {
        /// (seconds, node, x, y), metres, in order of time.
        rows: Vec<(f64, String, f64, f64)>,
    },
}

/// Something that happens to links: one of `cut` and `restore`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventSpec {
    /// When, from the start of the run.
    pub at: Secs,
    /// From then on nothing passes between these two nodes, by radio or wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<[String; 2]>,
    /// What was cut passes again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore: Option<[String; 2]>,
}

/// Beyond these, metres and metres per second are mistakes.
const FAR: f64 = 1e7;
const FAST: f64 = 1e5;
/// Beyond it, seconds are mistakes: thirty years.
const LATE: f64 = 1e9;

impl EventSpec {
    pub(super) fn check(&self, path: &str) -> Result<(), ScenarioError> {
        if self.at.0.as_secs_f64() >= LATE {
            let what = "later than any run ends";
            return Err(ScenarioError::key(format!("{path}.at"), what));
        }
        match (&self.cut, &self.restore) {
            (Some(_), None) | (None, Some(_)) => Ok(()),
            _ => {
                let what = "write one of cut = [\"n1\", \"n2\"] and restore = [\"n1\", \"n2\"]";
                Err(ScenarioError::key(path, what))
            }
        }
    }
}

impl MobilitySpec {
    pub(super) fn check(&self, path: &str) -> Result<(), ScenarioError> {
        match self {
            MobilitySpec::Waypoint { speed, .. }
                if !(speed[0] > 0.0 && speed[1] >= speed[0] && speed[1] <= FAST) =>
            {
                let what = "write [least, greatest] in m/s, both above zero, at most 100,000";
                Err(ScenarioError::key(format!("{path}.speed"), what))
            }
            MobilitySpec::Waypoint { area, .. } if !wide(area) => {
                let what = "write [x0, y0, x1, y1] in metres, x0 <= x1 and y0 <= y1, not a point, \
                            nothing beyond 10,000 km";
                Err(ScenarioError::key(format!("{path}.area"), what))
            }
            MobilitySpec::Trace { rows } => {
                let rows_at = |k: usize| format!("{path}.rows[{k}]");
                let outside = rows.iter().position(|r| !(0.0..LATE).contains(&r.0));
                if let Some(k) = outside {
                    let what = format!("{} s: times are from 0 on, in seconds", rows[k].0);
                    return Err(ScenarioError::key(rows_at(k), what));
                }
                match rows.windows(2).position(|w| w[1].0 < w[0].0) {
                    Some(k) => {
                        let what = "times must not decrease";
                        Err(ScenarioError::key(rows_at(k + 1), what))
                    }
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

/// Whether a node has somewhere to go to in this area.
fn wide(&[x0, y0, x1, y1]: &[f64; 4]) -> bool {
    x0 <= x1
        && y0 <= y1
        && (x1 - x0) + (y1 - y0) >= 0.1
        && [x0, y0, x1, y1].iter().all(|v| v.abs() <= FAR)
}
