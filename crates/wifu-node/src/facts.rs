//! Who tells which facts: the one table that set-up and the documentation use.

use wifu_engine::Fact;

/// A teller of facts: a column of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Teller {
    /// Radios of `wifu sim`.
    Radios,
    /// Wires of `wifu sim`.
    Wires,
    /// The network of `wifu mock`.
    Mock,
    /// The daemon on the hosts of `wifu emu`.
    Emu,
    /// The daemon over the kernel's devices.
    Live,
    /// `wifu core`, to its handlers.
    Core,
    /// A monitor interface of `wifu core`, to its handlers.
    Monitor,
    /// A driver's files, which `wifu core` reads for its handlers.
    DriverFiles,
}

impl Teller {
    /// All, in the order of the table's columns.
    pub const ALL: [Teller; 8] = [
        Teller::Radios,
        Teller::Wires,
        Teller::Mock,
        Teller::Emu,
        Teller::Live,
        Teller::Core,
        Teller::Monitor,
        Teller::DriverFiles,
    ];

    /// Where that is, for people.
    pub const fn place(self) -> &'static str {
        match self {
            Teller::Radios => "`wifu sim` with radios",
            Teller::Wires => "`wifu sim` over wires",
            Teller::Mock => "`wifu mock`",
            Teller::Emu => "`wifu emu`",
            Teller::Live => "`wifu daemon`",
            Teller::Core => "`wifu core`",
            Teller::Monitor => "`wifu core --monitor`",
            Teller::DriverFiles => "`wifu core --delay-dir`",
        }
    }

    /// Whether it tells parts; else it tells handlers alone.
    pub const fn tells_parts(self) -> bool {
        !matches!(self, Teller::Core | Teller::Monitor | Teller::DriverFiles)
    }

    /// The facts that it tells, as far as their reader can read them. Facts of a way are known
    /// while there is a route, those of a frame when it came over the link, averages from the
    /// first sample on. A wire has a rate unless it is unlimited, and what is overheard is told
    /// where radios are `promiscuous`. Plans of radios have received powers: nobody knows the
    /// transmit power.
    pub const fn tells(self) -> &'static [Fact] {
        match self {
            Teller::Radios => &[
                Fact::NextHop,
                Fact::RouteHops,
                Fact::SiteRate,
                Fact::Sense,
                Fact::Rssi,
                Fact::FrameRate,
                Fact::Transmitter,
                Fact::Overheard,
                Fact::Status,
                Fact::LinkDelay,
                Fact::LinkQueued,
                Fact::LinkRoom,
                Fact::LinkDone,
                Fact::LinkBusy,
                Fact::LinkRate,
            ],
            Teller::Wires => &[
                Fact::NextHop,
                Fact::RouteHops,
                Fact::SiteRate,
                Fact::Transmitter,
                Fact::LinkDelay,
                Fact::LinkQueued,
                Fact::LinkRoom,
                Fact::LinkRate,
            ],
            // Endpoints there are handed packets without facts, and no routes.
            Teller::Mock | Teller::Emu | Teller::Live => &[],
            Teller::Core => &[Fact::Transmitter],
            // Signal and rate are those of what is overheard.
            Teller::Monitor => &[
                Fact::Rssi,
                Fact::FrameRate,
                Fact::Transmitter,
                Fact::Overheard,
                Fact::Status,
                Fact::LinkDelay,
                Fact::LinkQueued,
                Fact::LinkDone,
                Fact::LinkRate,
            ],
            Teller::DriverFiles => &[Fact::LinkDelay, Fact::LinkDone],
        }
    }
}

/// All that some of these tell.
pub fn told(tellers: &[Teller]) -> Vec<Fact> {
    let some = |f: &Fact| tellers.iter().any(|t| t.tells().contains(f));
    Fact::ALL.into_iter().filter(some).collect()
}

/// That `who` requires a fact which is not known at a place, and where it is.
pub(crate) fn missing(who: &str, fact: Fact, place: &str, parts: bool) -> String {
    let knows = |t: &Teller| t.tells().contains(&fact) && (!parts || t.tells_parts());
    let known: Vec<&str> = Teller::ALL
        .iter()
        .filter(|t| knows(t))
        .map(|t| t.place())
        .collect();
    let elsewhere = match known.as_slice() {
        [] => String::from("no substrate tells it so far"),
        known => format!("it is in {}", known.join(", ")),
    };
    format!("{who} requires {fact}, which is not known in {place}; {elsewhere}")
}
