//! `host.queue`: what queues do before they are full.

use super::{ScenarioError, Secs};
use serde::{Deserialize, Serialize};
use wifu_radio::discipline::{CodelParams, Discipline, FqParams, RedParams};
use wifu_wire::{Span, names};

/// Disciplines by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueKind {
    /// Signals to what comes while more than `above` packets wait.
    Step,
    /// Random early detection.
    Red,
    /// Controlled delay.
    Codel,
    /// A queue for each flow, with controlled delay.
    #[serde(rename = "fq_codel")]
    FqCodel,
}

impl QueueKind {
    const ALL: [QueueKind; 4] = [
        QueueKind::Step,
        QueueKind::Red,
        QueueKind::Codel,
        QueueKind::FqCodel,
    ];

    /// What scenarios call it.
    pub fn name(self) -> &'static str {
        match self {
            QueueKind::Step => "step",
            QueueKind::Red => "red",
            QueueKind::Codel => "codel",
            QueueKind::FqCodel => "fq_codel",
        }
    }
}

/// What the queues of nodes, of radios and wires alike, do before they are full: packets whose
/// transport understands marks are marked, others dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// Which discipline.
    pub kind: QueueKind,
    /// At these nodes; none named: at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Of `step`: packets that may wait without a signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<u32>,
    /// Of `red`: see [`RedParams::thresh`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thresh: Option<f64>,
    /// Of `red`: see [`RedParams::maxthresh`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maxthresh: Option<f64>,
    /// Of `red`: see [`RedParams::q_weight`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q_weight: Option<f64>,
    /// Of `red`: see [`RedParams::linterm`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linterm: Option<f64>,
    /// Of `red`: see [`RedParams::gentle`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gentle: Option<bool>,
    /// Of `red`: see [`RedParams::mean_octets`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_pktsize: Option<u16>,
    /// Of `codel` and `fq_codel`: the wait that is no congestion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Secs>,
    /// Of `codel` and `fq_codel`: about the longest round-trip time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Secs>,
    /// Of `fq_codel`: see [`FqParams::quantum`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantum: Option<u16>,
    /// Of `fq_codel`: see [`FqParams::flows`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<u16>,
}

/// What to write in place of text such as `fq_codel`, which names no more than the kind.
pub(super) fn table_for(text: &str) -> String {
    let names = QueueKind::ALL.map(QueueKind::name);
    let more = |kind: &str| if kind == "step" { ", above = 20" } else { "" };
    match names::nearest(text, names) {
        Some(kind) => format!(
            "must be a table: write {{ kind = \"{kind}\"{} }}",
            more(kind)
        ),
        None => {
            let all = names.join("\", \"");
            format!("must be a table, such as {{ kind = \"red\" }}; kinds are \"{all}\"")
        }
    }
}

fn wrong(key: &str, what: impl Into<String>) -> ScenarioError {
    ScenarioError::key(format!("host.queue.{key}"), what)
}

impl QueueSpec {
    /// The discipline.
    ///
    /// # Errors
    /// A key that the kind does not have, one that it needs, or a value out of range.
    pub fn discipline(&self) -> Result<Discipline, ScenarioError> {
        self.fits()?;
        match self.kind {
            QueueKind::Step => match self.above {
                Some(above) => Ok(Discipline::Step(above)),
                None => Err(wrong("above", "missing: packets that may wait unmarked")),
            },
            QueueKind::Red => self.red().map(Discipline::Red),
            QueueKind::Codel => self.codel().map(Discipline::Codel),
            QueueKind::FqCodel => self.fq_codel().map(Discipline::FqCodel),
        }
    }

    /// Every key that is there is one of the kind's.
    fn fits(&self) -> Result<(), ScenarioError> {
        use QueueKind::{Codel, FqCodel, Red, Step};
        let keys: [(&str, &[QueueKind], bool); 11] = [
            ("above", &[Step], self.above.is_some()),
            ("thresh", &[Red], self.thresh.is_some()),
            ("maxthresh", &[Red], self.maxthresh.is_some()),
            ("q_weight", &[Red], self.q_weight.is_some()),
            ("linterm", &[Red], self.linterm.is_some()),
            ("gentle", &[Red], self.gentle.is_some()),
            ("mean_pktsize", &[Red], self.mean_pktsize.is_some()),
            ("target", &[Codel, FqCodel], self.target.is_some()),
            ("interval", &[Codel, FqCodel], self.interval.is_some()),
            ("quantum", &[FqCodel], self.quantum.is_some()),
            ("flows", &[FqCodel], self.flows.is_some()),
        ];
        let strange = |(_, of, set): &&(_, &[QueueKind], bool)| *set && !of.contains(&self.kind);
        match keys.iter().find(strange) {
            Some((key, of, _)) => {
                let kind = self.kind.name();
                let of: Vec<String> = of.iter().map(|k| format!("\"{}\"", k.name())).collect();
                let of = of.join(" or ");
                let what = format!("a key of kind = {of}, and kind is \"{kind}\"");
                Err(wrong(key, what))
            }
            None => Ok(()),
        }
    }

    fn red(&self) -> Result<RedParams, ScenarioError> {
        let usual = RedParams::default();
        let p = RedParams {
            thresh: self.thresh.unwrap_or(usual.thresh),
            maxthresh: self.maxthresh.unwrap_or(usual.maxthresh),
            q_weight: self.q_weight.unwrap_or(usual.q_weight),
            linterm: self.linterm.unwrap_or(usual.linterm),
            gentle: self.gentle.unwrap_or(usual.gentle),
            mean_octets: self.mean_pktsize.map_or(usual.mean_octets, u32::from),
        };
        let (low, high) = (p.thresh, p.maxthresh);
        if !(low >= 0.0 && low.is_finite()) {
            return Err(wrong("thresh", "must be a number of packets, 0 or more"));
        }
        if !(high >= low && high > 0.0 && high.is_finite()) {
            let what = format!("must be at least thresh, which is {low}, and above 0");
            return Err(wrong("maxthresh", what));
        }
        if !(p.q_weight > 0.0 && p.q_weight <= 1.0) {
            return Err(wrong("q_weight", "must be above 0 and at most 1"));
        }
        if !(p.linterm >= 1.0 && p.linterm.is_finite()) {
            return Err(wrong("linterm", "1 / a probability: must be at least 1"));
        }
        if p.mean_octets == 0 {
            return Err(wrong("mean_pktsize", "must not be 0"));
        }
        Ok(p)
    }

    fn codel(&self) -> Result<CodelParams, ScenarioError> {
        let usual = CodelParams::default();
        let target = self.target.map_or(usual.target, |s| s.0);
        let interval = self.interval.map_or(usual.interval, |s| s.0);
        if target == Span::ZERO {
            return Err(wrong("target", "must be greater than 0"));
        }
        if interval < target {
            return Err(wrong("interval", "must be at least target"));
        }
        Ok(CodelParams { target, interval })
    }

    fn fq_codel(&self) -> Result<FqParams, ScenarioError> {
        let usual = FqParams::default();
        let p = FqParams {
            codel: self.codel()?,
            quantum: self.quantum.map_or(usual.quantum, u32::from),
            flows: self.flows.map_or(usual.flows, u32::from),
        };
        for (key, value) in [("quantum", p.quantum), ("flows", p.flows)] {
            if value == 0 {
                return Err(wrong(key, "must not be 0"));
            }
        }
        Ok(p)
    }
}
