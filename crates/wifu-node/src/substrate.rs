//! In which worlds a protocol can act.

use crate::Protocol;
use crate::facts::{Teller, elsewhere, instead, missing, stands_in, told};
use core::str::FromStr;
use wifu_engine::composition::Problem;
use wifu_engine::{Blueprint, ConfigError, Fact};

/// A world in which protocols run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Substrate {
    /// Radios and wires in virtual time: `wifu sim`.
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

    /// Who may tell facts there: a scenario of the simulator may have one kind of link only, and a
    /// daemon no monitor interface, no Wi-Fi and no driver's files.
    pub const fn tellers(self) -> &'static [Teller] {
        match self {
            Substrate::Sim => &[Teller::Radios, Teller::Wires],
            Substrate::Mock => &[Teller::Mock],
            Substrate::Emu => &[
                Teller::Live,
                Teller::LiveMonitor,
                Teller::LiveFiles,
                Teller::Emulated,
            ],
            Substrate::Live => &[
                Teller::Live,
                Teller::LiveMonitor,
                Teller::LiveEar,
                Teller::LiveWifi,
                Teller::LiveFiles,
            ],
        }
    }

    /// The subcommand of `wifu`.
    const fn command(self) -> &'static str {
        match self {
            Substrate::Live => "daemon",
            Substrate::Sim => "sim",
            Substrate::Mock => "mock",
            Substrate::Emu => "emu",
        }
    }

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
    /// Whether all that it is made of acts on a substrate, and has what it requires there: what
    /// does not would let it run and mean nothing.
    ///
    /// # Errors
    /// What the substrate cannot give, who needs it, and where it is to be had.
    pub fn acts_on(&self, substrate: Substrate) -> Result<(), ConfigError> {
        let name = &self.ends.name;
        let nodes = "`wifu sim` and `wifu daemon --serve`";
        let mut problems = Vec::new();
        let handlers: Vec<&str> = self.handlers.handlers.iter().map(|h| &*h.name).collect();
        let hops = substrate != Substrate::Mock;
        if !hops && !handlers.is_empty() {
            problems.push(Problem {
                key: format!("handlers.{name}"),
                what: format!(
                    "{name} brings handlers ({}), which act in {nodes}",
                    handlers.join(", ")
                ),
            });
        }
        if !hops && let Some(lane) = &self.ends.lane {
            let parts: Vec<&str> = lane.parts.iter().map(|p| p.desc.name).collect();
            problems.push(Problem {
                key: format!("lane.{name}"),
                what: format!(
                    "{name} has a lane ({}), which acts in {nodes}",
                    parts.join(", ")
                ),
            });
        }
        let place = format!("`wifu {}`", substrate.command());
        let told = told(substrate.tellers());
        let deaf = !told.contains(&Fact::Overheard);
        problems.extend(overhearing(&self.ends).filter(|_| deaf).map(|part| Problem {
            key: format!("protocol.{name}"),
            what: format!(
                "{part} hears frames for other stations, which it is not shown in {place}; {}",
                elsewhere(Fact::Overheard, true)
            ),
        }));
        problems.extend(self.lacks(&place, &told));
        fine(problems)
    }

    /// Whether each part and handler has the facts that it requires, of those that are `told` at a
    /// `place`.
    ///
    /// # Errors
    /// What is not known there, who requires it, and where it is known.
    pub fn informed(&self, place: &str, told: &[Fact]) -> Result<(), ConfigError> {
        fine(self.lacks(place, told))
    }

    /// What its parts act upon, can do without and is not `told` at a `place`, a line each: who,
    /// and what it does without. Nothing of facts whose parameter is set.
    pub fn goes_without(&self, place: &str, told: &[Fact]) -> Vec<String> {
        let lane = self.ends.lane.iter().flat_map(|l| &l.parts);
        let parts = self.ends.parts.iter().chain(lane);
        let each = parts.flat_map(|p| p.desc.prefers.iter().map(move |f| (p, f)));
        let absent = each.filter(|(p, f)| !told.contains(&f.fact) && f.counts(&p.values));
        absent
            .map(|(p, f)| instead(p.desc.name, f, place))
            .collect()
    }

    /// The same of a substrate, where nothing can tell it.
    pub fn goes_without_on(&self, substrate: Substrate) -> Vec<String> {
        let place = format!("`wifu {}`", substrate.command());
        self.goes_without(&place, &told(substrate.tellers()))
    }

    fn lacks(&self, place: &str, told: &[Fact]) -> Vec<Problem> {
        let name = &self.ends.name;
        let lane = self.ends.lane.iter().flat_map(|l| l.required());
        let lane = lane.map(|r| (format!("lane.{name}"), r));
        let ends = self.ends.required().map(|r| (name.clone(), r));
        let parts = ends.chain(lane).filter(|(_, r)| !told.contains(&r.1));
        let parts = parts.map(|(key, (d, fact, section))| {
            let what = missing(d.name, fact, place, true);
            let or = section.map(|s| stands_in(fact, s)).unwrap_or_default();
            (format!("{key}.{}", d.role.key()), what + &or)
        });
        let absent = self.requires.iter().filter(|(_, f)| !told.contains(f));
        let key = format!("handlers.{name}");
        let handlers = absent.map(|(who, f)| (key.clone(), missing(who, *f, place, false)));
        let all = parts.chain(handlers);
        all.map(|(key, what)| Problem { key, what }).collect()
    }
}

fn fine(problems: Vec<Problem>) -> Result<(), ConfigError> {
    if problems.is_empty() {
        Ok(())
    } else {
        Err(ConfigError { problems })
    }
}
