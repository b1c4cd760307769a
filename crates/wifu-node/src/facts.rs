//! Who tells which facts: the one table that set-up and the documentation use.

use wifu_engine::{Fact, Facts, Preference};

/// A teller of facts: a column of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Teller {
    /// Radios of `wifu sim`.
    Radios,
    /// Wires of `wifu sim`.
    Wires,
    /// Wires of `wifu sim` that are overheard, beside that.
    WireEars,
    /// The network of `wifu mock`.
    Mock,
    /// A daemon that serves protocols, over the kernel's devices, also those of emulated radios.
    Live,
    /// A monitor interface of such a daemon.
    LiveMonitor,
    /// An interface in promiscuous mode, of such a daemon.
    LiveEar,
    /// Drivers of Wi-Fi, by nl80211, to such a daemon.
    LiveWifi,
    /// A driver's files, which such a daemon reads.
    LiveFiles,
    /// An emulated radio, to the daemon of its host.
    Emulated,
    /// `wifu core`, to its handlers.
    Core,
    /// A monitor interface of `wifu core`, to its handlers.
    Monitor,
    /// A driver's files, which `wifu core` reads for its handlers.
    DriverFiles,
    /// The files of an emulated radio, likewise.
    EmulatedFiles,
}

/// What is known of radios in the simulator.
const RADIOS: &[Fact] = &[
    Fact::NextHop,
    Fact::RouteHops,
    Fact::SiteRate,
    Fact::Sense,
    Fact::Rssi,
    Fact::FrameRate,
    Fact::Transmitter,
    Fact::Received,
    Fact::Overheard,
    Fact::Status,
    Fact::LinkDelay,
    Fact::LinkQueued,
    Fact::LinkRoom,
    Fact::LinkDone,
    Fact::LinkBusy,
    Fact::LinkRate,
];

impl Teller {
    /// All, in the order of the table's columns.
    pub const ALL: [Teller; 14] = [
        Teller::Radios,
        Teller::Wires,
        Teller::WireEars,
        Teller::Mock,
        Teller::Live,
        Teller::LiveMonitor,
        Teller::LiveEar,
        Teller::LiveWifi,
        Teller::LiveFiles,
        Teller::Emulated,
        Teller::Core,
        Teller::Monitor,
        Teller::DriverFiles,
        Teller::EmulatedFiles,
    ];

    /// Where that is, for people.
    pub const fn place(self) -> &'static str {
        match self {
            Teller::Radios => "`wifu sim` with radios",
            Teller::Wires => "`wifu sim` over wires",
            Teller::WireEars => "`wifu sim` over wires with `overheard_by`",
            Teller::Mock => "`wifu mock`",
            Teller::Live => "`wifu daemon --serve`",
            Teller::LiveMonitor => "`wifu daemon --monitor`",
            Teller::LiveEar => "`wifu daemon --overhear`",
            Teller::LiveWifi => "`wifu daemon --serve` on Wi-Fi",
            Teller::LiveFiles => "`wifu daemon --delay-dir`",
            Teller::Emulated => "`wifu emu --serve`",
            Teller::Core => "`wifu core`",
            Teller::Monitor => "`wifu core --monitor`",
            Teller::DriverFiles => "`wifu core --delay-dir`",
            Teller::EmulatedFiles => "`wifu core --delay-dir` on emulated hosts",
        }
    }

    /// Whether it tells parts; else it tells handlers alone.
    pub const fn tells_parts(self) -> bool {
        !matches!(
            self,
            Teller::Core | Teller::Monitor | Teller::DriverFiles | Teller::EmulatedFiles
        )
    }

    /// The facts that it tells, as far as their reader can read them. Facts of a way are known
    /// while there is a route, those of a frame when it came over the link, averages from the
    /// first sample on. A wire has a rate unless it is unlimited, and what is overheard is told
    /// where radios are `promiscuous`. Plans of radios have received powers: only
    /// drivers of Wi-Fi know the transmit power.
    pub const fn tells(self) -> &'static [Fact] {
        match self {
            Teller::Radios => RADIOS,
            Teller::Wires => &[
                Fact::NextHop,
                Fact::RouteHops,
                Fact::SiteRate,
                Fact::FrameRate,
                Fact::Transmitter,
                Fact::Received,
                Fact::LinkDelay,
                Fact::LinkQueued,
                Fact::LinkRoom,
                Fact::LinkRate,
            ],
            Teller::WireEars => &[Fact::Overheard],
            // Endpoints there are handed packets without facts, and no routes.
            Teller::Mock => &[],
            // By the kernel's routes and neighbours; a device's room is that of its queue here.
            Teller::Live => &[
                Fact::NextHop,
                Fact::Transmitter,
                Fact::Received,
                Fact::LinkRoom,
            ],
            // Signal and rate also of frames for this host; the rest once the driver reported.
            Teller::LiveMonitor => &[
                Fact::Rssi,
                Fact::FrameRate,
                Fact::Overheard,
                Fact::Status,
                Fact::LinkDelay,
                Fact::LinkQueued,
                Fact::LinkDone,
                Fact::LinkRate,
            ],
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
            Teller::LiveEar => &[Fact::Overheard],
            // Of the last frame from its station. Not every driver knows power and busy time.
            Teller::LiveWifi => &[
                Fact::SiteRate,
                Fact::TxPower,
                Fact::Rssi,
                Fact::FrameRate,
                Fact::LinkBusy,
                Fact::LinkRate,
            ],
            Teller::LiveFiles | Teller::DriverFiles => &[Fact::LinkDelay, Fact::LinkDone],
            Teller::Emulated | Teller::EmulatedFiles => &[Fact::LinkBusy],
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
    let elsewhere = elsewhere(fact, parts);
    format!("{who} requires {fact}, which is not known in {place}; {elsewhere}")
}

/// What would do as well as a fact: a part that writes a section.
pub(crate) fn stands_in(fact: Fact, section: Facts) -> String {
    let names: Vec<&str> = section.names().collect();
    format!(
        "; a part that writes {} stands in for {}",
        names.join(", "),
        fact.name()
    )
}

/// That `who` goes without a fact at a place where nobody tells it, and where somebody does.
pub fn without(who: &str, fact: Fact, place: &str) -> String {
    let elsewhere = elsewhere(fact, false);
    format!("{who} goes without {fact}, which is not known in {place}; {elsewhere}")
}

/// That part `who` goes without a fact at a place, and what it does instead.
pub(crate) fn instead(who: &str, preference: &Preference, place: &str) -> String {
    let Preference { fact, param, then } = preference;
    let set = param.map_or(String::new(), |p| format!(" unless {p} is set"));
    let elsewhere = elsewhere(*fact, true);
    format!("{who} goes without {fact}, which is not known in {place}: {then}{set}; {elsewhere}")
}

/// Where a fact is known.
pub(crate) fn elsewhere(fact: Fact, parts: bool) -> String {
    let knows = |t: &&Teller| t.tells().contains(&fact) && (!parts || t.tells_parts());
    let known = Teller::ALL.iter().filter(knows).map(|t| t.place());
    match known.collect::<Vec<_>>().as_slice() {
        [] => String::from("no substrate tells it so far"),
        known => format!("it is in {}", known.join(", ")),
    }
}
