//! In which worlds a protocol can act.

use crate::Protocol;
use core::str::FromStr;
use wifu_engine::composition::Problem;
use wifu_engine::{Blueprint, ConfigError};

/// A world in which protocols run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Substrate {
    /// Radios in virtual time: `wifu sim`.
    Sim,
    /// A wire in virtual time: `wifu mock`.
    Mock,
    /// Hosts joined by emulated radios: `wifu emu`, with a daemon on each.
    Emu,
    /// The daemon, over the kernel's devices.
    Live,
}

impl Substrate {
    /// All, in the order of the documentation.
    pub const ALL: [Substrate; 4] = [
        Substrate::Sim,
        Substrate::Mock,
        Substrate::Emu,
        Substrate::Live,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Substrate::Sim => "sim",
            Substrate::Mock => "mock",
            Substrate::Emu => "emu",
            Substrate::Live => "live",
        }
    }
}

impl FromStr for Substrate {
    type Err = String;
    fn from_str(s: &str) -> Result<Substrate, String> {
        let found = Substrate::ALL.into_iter().find(|w| w.name() == s);
        found.ok_or_else(|| {
            let names = Substrate::ALL.map(Substrate::name).join(", ");
            format!("\"{s}\" is no substrate; there are {names}")
        })
    }
}

/// Names of those parts that hear frames for other stations.
fn overhearing(b: &Blueprint) -> impl Iterator<Item = &'static str> {
    let parts = b.parts.iter().map(|p| p.desc);
    parts.filter(|d| d.has_hook("overheard")).map(|d| d.name)
}

impl Protocol {
    /// Whether all that it is made of acts on a substrate: what does not would let it run and mean
    /// nothing.
    ///
    /// # Errors
    /// What the substrate cannot give, and who needs it.
    pub fn acts_on(&self, substrate: Substrate) -> Result<(), ConfigError> {
        if substrate == Substrate::Sim {
            return Ok(());
        }
        let name = &self.ends.name;
        let only = "`wifu sim` only so far";
        let mut problems = Vec::new();
        let handlers: Vec<&str> = self.handlers.handlers.iter().map(|h| &*h.name).collect();
        if !handlers.is_empty() {
            problems.push(Problem {
                key: format!("handlers.{name}"),
                what: format!(
                    "{name} brings handlers ({}), which act in {only}",
                    handlers.join(", ")
                ),
            });
        }
        if let Some(lane) = &self.ends.lane {
            let parts: Vec<&str> = lane.parts.iter().map(|p| p.desc.name).collect();
            problems.push(Problem {
                key: format!("lane.{name}"),
                what: format!(
                    "{name} has a lane ({}), which acts in {only}",
                    parts.join(", ")
                ),
            });
        }
        for part in overhearing(&self.ends) {
            problems.push(Problem {
                key: format!("protocol.{name}"),
                what: format!(
                    "{part} hears frames for other stations, which it is shown in {only}"
                ),
            });
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(ConfigError { problems })
        }
    }
}
